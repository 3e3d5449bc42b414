#include "tern/script/unit.h"

#include <algorithm>
#include <memory>

#include "tern/base/format.h"
#include "tern/dispatch/autocast.h"
#include "tern/dispatch/ladder.h"
#include "tern/script/compiler.h"
#include "tern/script/functional.h"
#include "tern/script/run_graph.h"
#include "tern/tree/tree.h"

namespace tern::script {
namespace {

using ir::Type;
using ir::TypeKind;

// What graphs of modules call out to.
class UnitHost final : public ir::Host {
 public:
  UnitHost(Unit* unit, size_t depth) : unit_(unit), depth_(depth) {}
  ~UnitHost() override {
    while (!casts_.empty()) casts_.pop_back();  // the innermost first, where an exception left them
  }

  tern::Value get_attribute(const tern::Value& object, Symbol name) override {
    return at(object, name).get(name);
  }
  void set_attribute(const tern::Value& object, Symbol name, const tern::Value& value) override {
    at(object, name).set(name, value);
  }
  tern::Value call_method(const tern::Value& object, Symbol name, Span<const tern::Value> args) override {
    Object& o = at(object, name);
    Function* f = o.type->method(name);
    if (!f) failf(ErrorKind::type, "{} has no method '{}'", o.type->name.view(), name.view());
    std::vector<tern::Value> all{object};
    all.insert(all.end(), args.begin(), args.end());
    tern::Value result = f->call(all);
    if (is_autocast(*o.type)) cast_from_here(o, name);
    return result;
  }
  tern::Value call_function(const ir::Node& node, Span<const tern::Value> args) override {
    const tern::Value* name = node.attribute("name");
    Function* f = name && unit_ ? unit_->find_function(Symbol(name->string())) : nullptr;
    if (!f) failf("the function {} is not known", name ? name->string() : node.kind().str());
    return f->call(args);
  }
  tern::Value create_object(const ir::Type& type) override {
    ClassType* c = unit_ ? unit_->find_class(type.name()) : nullptr;
    if (!c) failf("the class {} is not known", type.name().view());
    return Object::make(unit_->shared_from_this(), *c);
  }
  bool is_instance(const tern::Value& value, const ir::Type& type) override {
    return script::is_instance(value, type);
  }

 private:
  static Object& at(const tern::Value& v, Symbol name) {
    Object* o = Object::of(v);
    if (!o)
      failf(ErrorKind::type, "expected a module or an object with '{}' but found {}", name.view(),
            v.kind_name());
    return *o;
  }
  // torch.autocast in a script is an object of PyTorch's class, whose methods say nothing of what it does.
  static bool is_autocast(const ClassType& type) {
    std::string_view name = type.name.view();
    return name.starts_with("__torch__.torch.") && name.ends_with("amp.autocast_mode.autocast");
  }
  void cast_from_here(const Object& o, Symbol name) {
    if (name.view() == "__exit__" && !casts_.empty()) casts_.pop_back();
    if (name.view() != "__enter__") return;
    auto attribute = [&](const char* of) { return o.get(Symbol(of)); };
    // Scopes of other devices change nothing here.
    bool here = attribute("device").string() == "cpu";
    casts_.push_back(here ? std::make_unique<Autocast>(
                                AutocastSetting{static_cast<DType>(attribute("fast_dtype").to_int()),
                                                attribute("_enabled").to_bool(), true})
                          : nullptr);
  }
  Unit* unit_;
  size_t depth_;
  std::vector<std::unique_ptr<Autocast>> casts_;  // open scopes
};

thread_local size_t call_depth = 0;
struct Deeper {
  explicit Deeper(size_t limit, Symbol name) {
    if (++call_depth > limit) {
      --call_depth;
      failf("maximum recursion depth exceeded while calling {}", name.view());
    }
  }
  ~Deeper() { --call_depth; }
};

// Whether an object has the methods of an interface, with the same arguments.
bool implements(Object* o, ClassType& interface) {
  if (!o) return false;
  for (const auto& wanted : interface.methods) {
    interface.unit->declare(*wanted);
    Function* f = o->type->method(Symbol(wanted->name()));
    if (!f) return false;
    o->unit->declare(*f);
    if (f->args().size() != wanted->args().size()) return false;
    for (size_t i = 1; i < f->args().size(); ++i)
      if (!wanted->args()[i].type->fits(*f->args()[i].type)) return false;
  }
  return true;
}

std::string python_type(const tern::Value& v) {
  if (Object* o = Object::of(v)) return o->type->name.str();
  if (v.is_string()) return "str";
  if (v.is_list()) return "list";
  if (v.is_tuple()) return "tuple";
  if (v.is_dict()) return "dict";
  return std::string(v.kind_name());
}
void check_argument(const Function& f, const Argument& a, tern::Value& v) {
  const Type* t = a.type;
  ClassType* c = (t->is(TypeKind::class_) || t->is(TypeKind::interface)) && f.unit
                     ? f.unit->find_class(t->name())
                     : nullptr;
  if (t->is(TypeKind::float_) && v.is_int()) {
    v = tern::Value(v.to_double());
    return;
  }
  if (t->is(TypeKind::list) && v.is_list() && !v.element_type()) v.set_element_type(t->element());
  // A named tuple or a struct of the caller's is a tuple here.
  if (const tree::NodeBox* box = tree::node_box(v); box && t->is(TypeKind::tuple))
    v = tern::Value::tuple(box->children);
  if (!(c && c->kind == ClassKind::interface ? implements(Object::of(v), *c) : is_instance(v, *t)))
    failf(ErrorKind::type,
          "{}() Expected a value of type '{}' for argument '{}' but instead found type '{}'.\n  {}", f.name(),
          a.inferred ? "Tensor (inferred)" : t->str(ir::TypeStyle::annotation), a.name.view(), python_type(v),
          f.signature());
}

}  // namespace

// ---- functions ----

std::string_view Function::name() const {
  std::string_view n = name_.view();
  size_t dot = n.rfind('.');
  return dot == std::string_view::npos ? n : n.substr(dot + 1);
}

const ir::Graph& Function::graph() const {
  if (!compiled()) {
    if (!unit || ignored) failf("{} has no graph", name_.view());
    unit->compile(const_cast<Function&>(*this));
  }
  return *graph_;
}
ir::Graph& Function::mutable_graph() {
  graph();
  std::lock_guard guard(preparing_);
  program_.reset();
  return *graph_;
}

void Function::set(Owned<ir::Graph> graph, std::vector<Argument> args, const ir::Type* returns) {
  graph_ = std::move(graph);
  args_ = std::move(args);
  returns_ = returns;
  has_signature_ = true;
  state_ = State::done;
  program_.reset();
}

std::string Function::signature() const {
  std::string text(name());
  text += "(";
  for (size_t i = 0; i < args_.size(); ++i) {
    if (i) text += ", ";
    if (i == 0 && owner_) {
      text += "self";
      continue;
    }
    text += args_[i].type->str(ir::TypeStyle::torch) + " " + args_[i].name.str();
    if (args_[i].default_value) text += "=" + args_[i].default_value->str();
  }
  text += ")";
  if (returns_) text += " -> " + returns_->str(ir::TypeStyle::torch);
  return text;
}

std::vector<tern::Value> Function::bind(Span<const tern::Value> args,
                                        Span<const std::pair<Symbol, tern::Value>> keywords) const {
  if (args.size() > args_.size())
    failf(ErrorKind::type, "{}() takes {} arguments but {} were given\n  {}", name(), args_.size(),
          args.size(), signature());
  std::vector<tern::Value> out(args_.size());
  std::vector<bool> given(args_.size());
  for (size_t i = 0; i < args.size(); ++i) {
    out[i] = args[i];
    given[i] = true;
  }
  for (auto& [key, v] : keywords) {
    size_t at = 0;
    while (at < args_.size() && args_[at].name != key) ++at;
    if (at == args_.size())
      failf(ErrorKind::type, "{}() has no argument '{}'\n  {}", name(), key.view(), signature());
    if (given[at]) failf(ErrorKind::type, "{}() got two values for argument '{}'", name(), key.view());
    out[at] = v;
    given[at] = true;
  }
  for (size_t i = 0; i < args_.size(); ++i) {
    if (!given[i]) {
      if (!args_[i].default_value)
        failf(ErrorKind::type, "{}() is missing value for argument '{}'. Declaration: {}", name(),
              args_[i].name.view(), signature());
      out[i] = *args_[i].default_value;
    }
    if (i > 0 || !owner_) check_argument(*this, args_[i], out[i]);
  }
  return out;
}

namespace {
thread_local CallRecorder* call_recorder = nullptr;
}
CallRecorder* record_calls(CallRecorder* recorder) { return std::exchange(call_recorder, recorder); }

std::vector<tern::Value> run_graph(const ir::Graph& graph, Span<const tern::Value> inputs, Unit& unit,
                                   ir::Observer* observer) {
  UnitHost host(&unit, call_depth);
  ir::RunOptions options;
  options.host = &host;
  options.observer = observer;
  return ir::Program(graph, true).run(inputs, options);
}

tern::Value Function::call(Span<const tern::Value> args,
                           Span<const std::pair<Symbol, tern::Value>> keywords) const {
  graph();
  Deeper deeper(unit ? unit->max_depth : 800, name_);
  std::vector<tern::Value> inputs = bind(args, keywords);
  if (call_recorder && (thread_state.active & ~thread_state.excluded & rung_record))
    if (std::optional<tern::Value> kept = call_recorder->call(*this, inputs)) return *std::move(kept);
  {
    std::lock_guard guard(preparing_);
    if (!program_) program_ = new_owned<ir::Program>(*graph_, true);
  }
  UnitHost host(unit, call_depth);
  ir::RunOptions options;
  options.host = &host;
  std::vector<tern::Value> out;
  bool gradients = thread_state.grad_enabled;
  try {
    out = program_->run(inputs, options);
  } catch (...) {
    thread_state.grad_enabled = gradients;  // a `with torch.no_grad()` that was left by an error
    throw;
  }
  if (out.empty()) return {};
  if (out.size() == 1) return std::move(out[0]);
  return tern::Value::tuple(std::move(out));
}

// ---- classes ----

const ir::Type* ClassType::type() const {
  if (kind == ClassKind::named_tuple) {
    std::vector<Symbol> fields;
    std::vector<const Type*> types;
    for (const Attribute& a : attributes) {
      fields.push_back(a.name);
      types.push_back(a.type);
    }
    return Type::named_tuple(name, fields, types);
  }
  if (kind == ClassKind::enumeration) return Type::enum_named(name);
  if (kind == ClassKind::interface) return Type::interface_named(name);
  return Type::class_named(name);
}
const Attribute* ClassType::find(Symbol attribute) const {
  for (const Attribute& a : attributes)
    if (a.name == attribute) return &a;
  return nullptr;
}
int ClassType::slot(Symbol attribute) const {
  int at = 0;
  for (const Attribute& a : attributes) {
    if (a.name == attribute) return a.role == Role::constant ? -1 : at;
    at += a.role != Role::constant;
  }
  return -1;
}
size_t ClassType::num_slots() const {
  size_t n = 0;
  for (const Attribute& a : attributes) n += a.role != Role::constant;
  return n;
}
Function* ClassType::method(Symbol wanted) const {
  for (const auto& m : methods)
    if (m->name() == wanted.view()) return m.get();
  return nullptr;
}
Function* ClassType::getter(Symbol property) const {
  for (auto& [n, get, set] : properties)
    if (n == property) return get;
  return nullptr;
}
Function* ClassType::setter(Symbol property) const {
  for (auto& [n, get, set] : properties)
    if (n == property) return set;
  return nullptr;
}
Attribute& ClassType::add(Attribute attribute) {
  if (find(attribute.name))
    failf(ErrorKind::value, "{} has an attribute '{}' already", name.view(), attribute.name.view());
  attributes.push_back(std::move(attribute));
  return attributes.back();
}
Function& ClassType::add_method(Owned<Function> f) {
  if (method(Symbol(f->name())))
    failf(ErrorKind::value, "{} has a method '{}' already", name.view(), f->name());
  f->unit = unit;
  methods.push_back(std::move(f));
  return *methods.back();
}
std::string_view ClassType::short_name() const {
  std::string_view n = name.view();
  return n.substr(n.rfind('.') == std::string_view::npos ? 0 : n.rfind('.') + 1);
}

// ---- objects ----

tern::Value Object::make(Shared<Unit> unit, ClassType& type) {
  auto* o = new Object;
  o->unit = std::move(unit);
  o->type = &type;
  o->slots.resize(type.num_slots());
  return tern::Value::object(o);
}
Object* Object::of(const tern::Value& value) {
  return value.is_object() ? dynamic_cast<Object*>(value.box()) : nullptr;
}
const tern::Value* Object::find(Symbol attribute) const {
  int at = type->slot(attribute);
  if (at >= 0) return static_cast<size_t>(at) < slots.size() ? &slots[static_cast<size_t>(at)] : nullptr;
  const Attribute* a = type->find(attribute);
  return a ? &a->value : nullptr;
}
tern::Value Object::get(Symbol attribute) const {
  const tern::Value* v = find(attribute);
  if (!v) failf(ErrorKind::value, "'{}' object has no attribute '{}'", type->short_name(), attribute.view());
  return *v;
}
void Object::set(Symbol attribute, tern::Value value) {
  int at = type->slot(attribute);
  if (at < 0)
    failf(ErrorKind::value, "'{}' object has no attribute '{}' that can be set", type->short_name(),
          attribute.view());
  if (slots.size() < type->num_slots()) grow();
  slots[static_cast<size_t>(at)] = std::move(value);
}

// ---- units ----

Shared<Unit> Unit::make() { return Shared<Unit>(new Unit); }
Unit::~Unit() = default;

TracedInputs& Unit::traced_inputs() {
  std::lock_guard guard(growing_);
  if (read_traced_inputs) {
    traced_inputs_ = read_traced_inputs();
    read_traced_inputs = nullptr;
  }
  return traced_inputs_;
}

bool Unit::has(Symbol qualified) const {
  return class_by_name_.count(qualified) || function_by_name_.count(qualified);
}

void Unit::define(Shared<const Source> source, std::string_view qualifier, bool lazily) {
  std::lock_guard guard(growing_);
  auto file = new_shared<File>(parse_file(source, lazily ? Bodies::leave : Bodies::read));
  loaded_[Symbol(qualifier)] = true;
  std::string prefix = qualifier.empty() ? "" : std::string(qualifier) + ".";
  if (!file->statements.empty()) {
    for (const StmtPtr& s : file->statements)
      if (s->kind != StmtKind::assign && s->kind != StmtKind::annotated && s->kind != StmtKind::expr &&
          s->kind != StmtKind::pass)
        fail_at(*source, s->at, "only functions and classes can stand at the top of a script");
  }
  auto free_name = [&](const std::string& name, uint32_t at) {
    Symbol qualified(prefix + name);
    if (has(qualified)) fail_at(*source, at, fmt::format("{} is defined already", qualified.view()));
    return qualified;
  };
  std::vector<Function*> functions;
  std::vector<ClassType*> types;
  auto decorated = [](const Def& d, std::string_view word) {
    for (const std::string& decorator : d.decorators)
      if (std::string_view(decorator).substr(decorator.rfind('.') + 1) == word) return true;
    return false;
  };
  auto make_function = [&](const Def& d, Symbol name) -> Function& {
    auto f = new_owned<Function>(name);
    f->file_ = file;
    f->def_ = &d;
    f->state_ = Function::State::declared;
    f->ignored = decorated(d, "ignore") || decorated(d, "unused");
    return add_function(std::move(f));
  };
  std::vector<const Def*> declared;
  for (const Def& d : file->defs) {
    if (decorated(d, "_overload")) {
      declared.push_back(&d);
      continue;
    }
    Function& f = make_function(d, free_name(d.name, d.at));
    // Each overload is the body compiled with the declaration's types.
    size_t k = 0;
    for (const Def* o : declared) {
      if (o->name != d.name) continue;
      Function& overload = make_function(d, Symbol(fmt::format("{}{}__{}", prefix, d.name, k++)));
      overload.signature_ = o;
      f.overloads.push_back(&overload);
    }
    if (f.overloads.empty() && !f.ignored) functions.push_back(&f);
  }
  for (const Class& c : file->classes) {
    auto t = new_owned<ClassType>();
    t->name = free_name(c.name, c.at);
    t->file_ = file;
    t->tree_ = &c;
    types.push_back(&add_class(std::move(t)));
  }
  if (lazily) return;
  for (Function* f : functions) compile(*f);
  for (ClassType* t : types) {
    find_class(t->name);
    if (t->kind == ClassKind::interface || t->kind == ClassKind::enumeration) continue;
    for (size_t i = 0; i < t->methods.size(); ++i)
      if (t->methods[i]->name() == "__init__") compile(*t->methods[i]);
    for (size_t i = 0; i < t->methods.size(); ++i)
      if (!t->methods[i]->ignored && t->methods[i]->overloads.empty()) compile(*t->methods[i]);
  }
}

void Unit::define_methods(ClassType& type, Shared<const Source> source) {
  auto file = new_shared<File>(parse_file(source, Bodies::leave));
  for (const Class& c : file->classes) fail_at(*source, c.at, "only methods can stand here");
  Compiler::add_methods(type, file, file->defs);
}

// "__torch__.torch.nn.modules.linear.Linear" is in the source of "__torch__.torch.nn.modules.linear".
namespace {
using Ours = Shared<const Source> (*)();
Ours ours_of(std::string_view qualifier) {
  static constexpr std::pair<std::string_view, Ours> all[] = {
      {"__torch__.torch.nn.functional", functional_source},
      {"__torch__.torch.functional", torch_functional_source},
      {"__torch__.torch.nn.init", nn_init_source},
      {"__torch__.torch.amp.autocast_mode", amp_autocast_source},
      {"__torch__.torch.cpu.amp.autocast_mode", [] { return device_autocast_source("cpu", kBFloat16); }},
      {"__torch__.torch.cuda.amp.autocast_mode",
       [] { return device_autocast_source("cuda", DType::float16); }},
      {"__torch__.torch.autograd.profiler", profiler_source},
  };
  for (const auto& [name, source] : all)
    if (name == qualifier) return source;
  return nullptr;
}
}  // namespace

bool Unit::load(std::string_view qualified) {
  size_t dot = qualified.rfind('.');
  if (dot == std::string_view::npos) return false;
  Symbol qualifier(qualified.substr(0, dot));
  Ours ours = ours_of(qualifier.view());
  if (!loader && !ours) return false;
  if (!loaded_.emplace(qualifier, true).second) return false;
  Shared<const Source> source = loader ? loader(qualifier.view()) : nullptr;
  if (!source && ours && known_operators_only) source = ours();
  if (!source) return false;
  define(source, qualifier.view(), true);
  return true;
}

ClassType* Unit::find_class(Symbol qualified) {
  std::lock_guard guard(growing_);
  auto it = class_by_name_.find(qualified);
  if (it == class_by_name_.end()) {
    if (!load(qualified.view())) return nullptr;
    it = class_by_name_.find(qualified);
    if (it == class_by_name_.end()) return nullptr;
  }
  ClassType* type = it->second;  // declaring it may find more
  Compiler::declare_class(*this, *type);
  return type;
}
Function* Unit::find_function(Symbol qualified) {
  std::lock_guard guard(growing_);
  auto it = function_by_name_.find(qualified);
  if (it == function_by_name_.end()) {
    // A static method goes by the name of its class.
    std::string_view text = qualified.view();
    size_t dot = text.rfind('.');
    if (dot != std::string_view::npos && class_by_name_.count(Symbol(text.substr(0, dot)))) {
      Function* f = find_class(Symbol(text.substr(0, dot)))->method(Symbol(text.substr(dot + 1)));
      return f && f->is_static ? f : nullptr;
    }
    if (class_by_name_.count(qualified) || !load(text)) return nullptr;
    it = function_by_name_.find(qualified);
    if (it == function_by_name_.end()) return nullptr;
  }
  return it->second;
}
ClassType& Unit::add_class(Owned<ClassType> type) {
  if (!class_by_name_.emplace(type->name, type.get()).second)
    failf(ErrorKind::value, "the class {} is defined already", type->name.view());
  type->unit = this;
  for (auto& m : type->methods) m->unit = this;
  classes_.push_back(std::move(type));
  return *classes_.back();
}
Function& Unit::add_function(Owned<Function> f) {
  if (!function_by_name_.emplace(f->qualified(), f.get()).second)
    failf(ErrorKind::value, "the function {} is defined already", f->qualified().view());
  f->unit = this;
  functions_.push_back(std::move(f));
  return *functions_.back();
}
Symbol Unit::unique_class_name(std::string_view wanted) {
  Symbol name(wanted);
  if (!has(name)) return name;
  size_t dot = wanted.rfind('.');
  for (size_t& i = mangled_[name];; ++i) {
    Symbol mangled(fmt::format("{}.___torch_mangle_{}.{}", wanted.substr(0, dot), i, wanted.substr(dot + 1)));
    if (!has(mangled)) return mangled;
  }
}
void Unit::compile(Function& f) {
  std::lock_guard guard(growing_);
  Compiler::compile(*this, f);
}
void Unit::declare(Function& f) {
  std::lock_guard guard(growing_);
  Compiler::declare(*this, f);
}
void Unit::compile_all() {
  // Compiling may load more.
  for (size_t i = 0; i < classes_.size(); ++i) {
    find_class(classes_[i]->name);
    if (classes_[i]->kind == ClassKind::interface) continue;
    for (size_t k = 0; k < classes_[i]->methods.size(); ++k)
      if (!classes_[i]->methods[k]->ignored) compile(*classes_[i]->methods[k]);
  }
  for (size_t i = 0; i < functions_.size(); ++i)
    if (functions_[i]->overloads.empty() && !functions_[i]->ignored) compile(*functions_[i]);
}

bool is_instance(const tern::Value& v, const ir::Type& t) {
  switch (t.kind()) {
    case TypeKind::any:
      return true;
    case TypeKind::tensor:
      return v.is_tensor();
    case TypeKind::int_:
      return v.is_int();
    case TypeKind::float_:
      return v.is_float();
    case TypeKind::bool_:
      return v.is_bool();
    case TypeKind::complex_:
      return v.is_complex();
    case TypeKind::number:
      return v.is_int() || v.is_float() || v.is_complex();
    case TypeKind::string:
      return v.is_string();
    case TypeKind::none:
      return v.is_none();
    case TypeKind::device:
      return v.kind() == ValueKind::device;
    case TypeKind::optional:
      return v.is_none() || is_instance(v, *t.element());
    case TypeKind::union_:
      return std::any_of(t.elements().begin(), t.elements().end(),
                         [&](const Type* e) { return is_instance(v, *e); });
    case TypeKind::list:
      return v.is_list() && std::all_of(v.items().begin(), v.items().end(),
                                        [&](const tern::Value& i) { return is_instance(i, *t.element()); });
    case TypeKind::dict:
      return v.is_dict() && std::all_of(v.entries().begin(), v.entries().end(), [&](const auto& e) {
               return is_instance(e.first, *t.element(0)) && is_instance(e.second, *t.element(1));
             });
    case TypeKind::tuple: {
      if (!v.is_tuple() || v.items().size() != t.elements().size()) return false;
      for (size_t i = 0; i < v.items().size(); ++i)
        if (!is_instance(v.items()[i], *t.element(i))) return false;
      return true;
    }
    case TypeKind::class_: {
      Object* o = Object::of(v);
      if (const auto* native = v.is_object() ? dynamic_cast<const NativeObject*>(v.box()) : nullptr)
        return t.name() == Symbol(native->class_name());
      return o && o->type->name == t.name();
    }
    case TypeKind::interface:
      return Object::of(v) != nullptr;
    case TypeKind::enum_: {
      EnumMember* m = EnumMember::of(v);
      return m && m->type == t.name();
    }
    default:
      return true;
  }
}

}  // namespace tern::script
