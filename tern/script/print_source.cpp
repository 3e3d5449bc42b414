// Graph → TorchScript source, as PyTorch writes it into the code/ of an archive: a statement a node, with the
// nodes inside it that only it uses, and constants in place. A line that would become long is split.
#include <set>

#include "tern/ir/names.h"
#include "tern/script/inlining.h"
#include "tern/script/source_printer.h"
#include "tern/script/source_text.h"

namespace tern::script {

using ir::Type;
using ir::TypeKind;

std::string SourcePrinter::function(const ir::Graph& graph, std::string_view name,
                                    const std::vector<Argument>& args, const Type* returns, bool is_method,
                                    bool self_type) {
  graph_ = &graph;
  inlined_ = inlined_nodes(graph);
  std::string head = std::string(static_cast<size_t>(indent_) * 2, ' ') + "def " + std::string(name) + "(";
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    ir::Value& v = *graph.inputs()[i];
    const Argument* a = i < args.size() ? &args[i] : nullptr;
    // The names of arguments are part of the interface: they come first and are kept where they can be.
    name_value(v, a ? a->name.str() : i == 0 && is_method ? "self" : v.name());
    if (i) head += ",\n    ";
    head += names_[&v];
    if (i || !is_method || self_type) head += ": " + annotation(a ? a->type : v.type());
    if (a && a->default_value) head += "=" + constant(*a->default_value, a->type);
  }
  const Type* type = returns ? returns : returned(graph);
  head += ") -> " + annotation(type) + ":\n";
  ++indent_;
  size_t first = constants_.statements.size();
  long_constants(graph.top());
  block(graph.top());
  auto one_type = [&](size_t) -> const Type* { return graph.outputs().size() == 1 ? type : nullptr; };
  prepare(graph.outputs(), one_type);
  if (graph.outputs().size() == 1) {
    line("return " + operand(graph.outputs()[0], type));
  } else if (graph.outputs().empty()) {
    line("return None");
  } else {
    std::string all;
    for (const ir::Operand& o : graph.outputs()) all += (all.empty() ? "" : ", ") + operand(o);
    line("return (" + all + ")");
  }
  for (size_t i = first; i < constants_.statements.size(); ++i) constants_.statements[i].first += head.size();
  --indent_;
  return head + out_;
}

const Type* SourcePrinter::returned(const ir::Graph& graph) {
  std::vector<const Type*> types;
  for (const ir::Operand& o : graph.outputs()) types.push_back(o.type());
  if (types.empty()) return Type::none();
  return types.size() == 1 ? types[0] : Type::tuple(types);
}

std::string SourcePrinter::constant(const tern::Value& v, const Type* type) {
  // A string that goes to the table goes there once.
  if (!v.is_string() || is_ascii(v.string())) return constant_text(v, type, constants_);
  std::string& text = beyond_ascii_[v.string()];
  if (text.empty()) text = constant_text(v, type, constants_);
  return text;
}

std::string SourcePrinter::marked(const ir::Node& n, const std::string& text) {
  if (!n.origin()) return text;
  origins_.push_back(n.origin());
  return "\1" + std::to_string(origins_.size() - 1) + "\2" + text + "\3";
}

size_t SourcePrinter::shown_size(std::string_view text) {
  size_t size = 0;
  bool mark = false;
  for (char c : text) {
    if (c == '\1') mark = true;
    size += !mark && c != '\3';
    if (c == '\2') mark = false;
  }
  return size;
}

void SourcePrinter::line(std::string_view text, const ir::Origin* origin) {
  out_ += std::string(static_cast<size_t>(indent_) * 2, ' ');
  std::vector<const ir::Origin*> open{origin};
  if (origin) constants_.statements.emplace_back(out_.size(), origin);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\1') {
      size_t number = 0;
      for (++i; text[i] != '\2'; ++i) number = number * 10 + static_cast<size_t>(text[i] - '0');
      open.push_back(origins_[number]);
      constants_.statements.emplace_back(out_.size(), open.back());
    } else if (text[i] == '\3') {
      open.pop_back();
      if (open.back()) constants_.statements.emplace_back(out_.size(), open.back());
    } else {
      out_ += text[i];
    }
  }
  out_ += "\n";
}

bool SourcePrinter::is_long(std::string_view text) const {
  return shown_size(text) + static_cast<size_t>(indent_) * 2 >= 40;
}

const std::string& SourcePrinter::name_value(const ir::Value& v, std::string_view wanted) {
  std::string base;
  for (char c : wanted) base += isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  if (base.empty() || (base[0] >= '0' && base[0] <= '9')) base = "_" + base;
  return names_[&v] = unique(base);
}

std::string SourcePrinter::unique(const std::string& base) {
  // What the source itself needs.
  static const std::set<std::string_view> taken = {
      "_",        "torch",     "ops",      "CONSTANTS",  "__torch__", "inf",           "nan",
      "infj",     "nanj",      "aten",     "attribute",  "annotate",  "uninitialized", "unchecked_cast",
      "fork",     "rpc_async", "rpc_sync", "rpc_remote", "Tensor",    "List",          "Dict",
      "Optional", "Tuple",     "Union",    "Final",      "Module",    "getattr",       "range",
      "str",      "int",       "float",    "bool",       "complex",   "isinstance",    "sorted"};
  std::string name = base;
  while (used_.count(name) || taken.count(name) || is_keyword(name))
    name = base + std::to_string(next_[name]++);
  used_.insert(name);
  return name;
}

std::string SourcePrinter::variable_of(const ir::Value& v) const {
  if (!is_named(v)) return "_";
  if (v.node() && v.node()->is("prim::GetAttr")) return v.node()->attribute("name")->string();
  if (const std::string* variable = noted_variable(v)) return *variable;
  ir::Name name = v.key();
  if (name.number && (graph_->find(ir::Name{name.base, 0}) || ir::is_python_reserved(name.base.view())))
    name.number = 0;
  return name.str();
}

const std::string& SourcePrinter::name_of(const ir::Value& v) {
  auto it = names_.find(&v);
  if (it != names_.end()) return it->second;
  std::string wanted = variable_of(v);
  return wanted == "_" ? names_[&v] = fresh() : name_value(v, wanted);
}

std::string SourcePrinter::names_of(const ir::Node& n) {
  std::string all;
  for (ir::Value* v : n.outputs()) all += (all.empty() ? "" : ", ") + name_of(*v);
  return all;
}

size_t SourcePrinter::find_pending(const ir::Operand& o) const {
  const void* key = o.is_value() ? static_cast<const void*>(&o.value()) : &o;
  for (size_t i = pending_.size(); i-- > 0;)
    if (pending_[i].key == key) return i;
  return pending_.size();
}

size_t SourcePrinter::first_pending(Span<ir::Operand> operands) const {
  size_t first = pending_.size();
  for (const ir::Operand& o : operands)
    first = std::min(first, o.is_list() ? first_pending(o.list()) : find_pending(o));
  return first;
}

void SourcePrinter::flush(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Pending& p = pending_[i];
    std::string name = p.value ? name_of(*p.value) : fresh();
    if (!p.value) list_names_[static_cast<const ir::Operand*>(p.key)] = name;
    line(name + " = " + p.text);
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(count));
}

bool SourcePrinter::prepare(Span<ir::Operand> operands, const tern::Function<const Type*(size_t)>& type_of) {
  bool flushed = false;
  size_t at = first_pending(operands);
  for (size_t i = 0; i < operands.size(); ++i) {
    const ir::Operand& o = operands[i];
    bool list = o.is_list() || (o.is_constant() && o.constant().is_list());
    if (!list) {
      if (size_t k = find_pending(o); k < pending_.size()) at = k + 1;
      continue;
    }
    if (o.is_list()) {
      if (prepare(o.list(), nothing)) {
        flushed = true;
        at = 0;
      }
      if (size_t k = first_pending(o.list()); k < pending_.size()) at = k;
    }
    std::string text = list_text(o, type_of(i));
    at = std::min(at, pending_.size());
    pending_.insert(pending_.begin() + static_cast<ptrdiff_t>(at), {&o, nullptr, std::move(text)});
    ++at;
  }
  size_t upto = 0;
  for (const ir::Operand& o : operands)
    if (size_t k = find_pending(o); k < pending_.size() && is_long(pending_[k].text))
      upto = std::max(upto, k + 1);
  flush(upto);
  return flushed || upto > 0;
}

std::string SourcePrinter::list_text(const ir::Operand& o, const Type* type) {
  if (o.is_constant()) return constant(o.constant(), type);
  const Type* element = type && type->is(TypeKind::optional) ? type->element() : type;
  element = element && element->is(TypeKind::list) ? element->element() : nullptr;
  std::string s = "[";
  for (size_t i = 0; i < o.list().size(); ++i) s += (i ? ", " : "") + operand(o.list()[i], element);
  s += "]";
  if (element && element->is(TypeKind::optional))
    return "annotate(" + annotation(Type::list(element)) + ", " + s + ")";
  return s;
}

std::string SourcePrinter::operand(const ir::Operand& o, const Type* type) {
  if (o.is_value())
    if (auto it = constants_of_.find(&o.value()); it != constants_of_.end())
      return said_before(constant(*it->second, type));
  if (size_t k = find_pending(o); k < pending_.size()) {
    std::string text = std::move(pending_[k].text);
    pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(k));
    return text;
  }
  if (o.is_value()) return name_of(o.value());
  if (auto it = list_names_.find(&o); it != list_names_.end()) return it->second;
  if (o.is_list()) return list_text(o, type);
  return said_before(constant(o.constant(), type));
}

std::string SourcePrinter::said_before(std::string text) const {
  auto it = long_constants_.find(text);
  return it == long_constants_.end() ? text : it->second;
}

std::string SourcePrinter::operands(const ir::Node& n, size_t from) {
  std::string s;
  for (size_t i = from; i < n.inputs().size(); ++i) s += (s.empty() ? "" : ", ") + operand(n.input(i));
  return s;
}

namespace {

// ---- nodes ----
// Calls f with each string that operands are, and the value that holds it if it stands in a node of its
// own.
template <class F>
void each_string(Span<ir::Operand> operands, F&& f) {
  for (const ir::Operand& o : operands) {
    if (o.is_list()) each_string(o.list(), f);
    if (o.is_constant() && o.constant().is_string()) f(o.constant().string(), nullptr);
    if (o.is_value() && o.value().node() && o.value().node()->is("prim::Constant"))
      if (const tern::Value* v = o.value().node()->attribute("value"); v && v->is_string())
        f(v->string(), &o.value());
  }
}

}  // namespace

void SourcePrinter::first_holders(const ir::Block& b, FirstHolders& first) {
  auto note = [&](const std::string& s, const ir::Value* holder) { first.emplace(s, holder); };
  for (const ir::Node& n : b) {
    if (n.is("prim::Constant"))
      if (const tern::Value* v = n.attribute("value"); v && v->is_string()) note(v->string(), &n.output());
    each_string(n.inputs(), note);
    for (const ir::Block* inside : n.blocks()) first_holders(*inside, first);
  }
  each_string(b.returns(), note);
}

void SourcePrinter::long_constants(const ir::Block& b) {
  FirstHolders first;
  first_holders(b, first);
  long_constants(b, first);
}

void SourcePrinter::long_constants(const ir::Block& b, const FirstHolders& first) {
  auto note = [&](const std::string& text, const ir::Value* holder) {
    if (!is_long(text) || long_constants_.count(text)) return;
    std::string name = holder ? name_of(*holder) : fresh();
    line(name + " = " + text);
    long_constants_.emplace(text, name);
  };
  auto note_string = [&](const std::string& s, const ir::Value*) {
    if (is_ascii(s)) note(quoted(s), first.at(s));
  };
  for (const ir::Node& n : b) {
    if (n.is("prim::CallFunction")) note(n.attribute("name")->string(), nullptr);
    each_string(n.inputs(), note_string);
    for (const ir::Block* inside : n.blocks()) long_constants(*inside, first);
  }
  each_string(b.returns(), note_string);
}

void SourcePrinter::block(const ir::Block& b) {
  for (const ir::Node& n : b) node(n);
}

void SourcePrinter::give(const ir::Node& n, const std::string& expression) {
  if (n.num_outputs() == 0) return line(expression, n.origin());
  if (inlined_.count(&n)) {
    if (pending_.size() == most_pending) flush(most_pending);
    pending_.push_back({&n.output(), &n.output(), marked(n, expression)});
    return;
  }
  line(names_of(n) + " = " + expression, n.origin());
}

size_t ConstantTable::add(const tern::Value& value) {
  for (size_t i = 0; i < items.size(); ++i)
    if (items[i].is_same(value)) return i;
  items.push_back(value);
  return items.size() - 1;
}

namespace {

std::string print(const Function& f, ConstantTable& constants, bool alone, NextNumbers& next) {
  return SourcePrinter(constants, f.owner() && !alone ? 1 : 0, next)
      .function(f.graph(), f.name(), f.args(), f.returns(), f.owner() && !f.is_static, !alone);
}

// A method of an interface, which has no body.
std::string declaration(const Function& f) {
  f.unit->declare(const_cast<Function&>(f));
  std::string s = "  def " + std::string(f.name()) + "(self";
  for (size_t i = 1; i < f.args().size(); ++i)
    s += ", " + f.args()[i].name.str() + ": " + annotation(f.args()[i].type);
  return s + ") -> " + annotation(f.returns() ? f.returns() : Type::none()) + ":\n    pass\n";
}

}  // namespace

std::string print_source(const Function& f, ConstantTable& constants, bool alone) {
  NextNumbers next;
  return print(f, constants, alone, next);
}

std::string print_source(const ir::Graph& graph, std::string_view name, ConstantTable& constants) {
  NextNumbers next;
  return SourcePrinter(constants, 0, next).function(graph, name, {}, nullptr, false, true);
}

std::string print_source(const ClassType& type, ConstantTable& constants) {
  NextNumbers next;
  std::string s = "class " + std::string(type.short_name());
  if (type.kind == ClassKind::module) s += "(Module)";
  if (type.kind == ClassKind::named_tuple) s += "(NamedTuple)";
  if (type.kind == ClassKind::interface) s += type.of_modules ? "(ModuleInterface)" : "(Interface)";
  if (type.kind == ClassKind::enumeration) {
    s += "(Enum):\n";
    for (const Attribute& a : type.attributes)
      s += "  " + a.name.str() + " = " +
           constant_text(ir::EnumMember::of(a.value)->value, nullptr, constants) + "\n";
    return s;
  }
  s += ":\n";
  if (type.kind == ClassKind::module) {
    for (auto [word, role] :
         {std::pair{"__parameters__", Role::parameter}, std::pair{"__buffers__", Role::buffer}}) {
      s += std::string("  ") + word + " = [";
      for (const Attribute& a : type.attributes)
        if (a.role == role) s += quoted(a.name.view()) + ", ";
      s += "]\n";
    }
    for (auto& [word, hooks] :
         {std::pair{"__forward_pre_hooks__", type.pre_hooks}, std::pair{"__forward_hooks__", type.hooks}}) {
      if (hooks.empty()) continue;
      s += std::string("  ") + word + " = [";
      for (const std::string& h : hooks) s += quoted(h) + ", ";
      s += "]\n";
    }
  }
  for (const Attribute& a : type.attributes) {
    bool fine = is_identifier(a.name.view());
    // A named tuple is always made with all its fields: PyTorch writes no defaults, and fails to read some.
    if (a.role == Role::constant && type.kind != ClassKind::named_tuple) {
      if (!fine) continue;
      s += "  " + a.name.str() + " : Final[" + annotation(a.type) +
           "] = " + constant_text(a.value, a.type, constants) + "\n";
    } else if (fine) {
      s += "  " + a.name.str() + " : " + annotation(a.type) + "\n";
    } else {
      s += "  __annotations__[" + quoted(a.name.view()) + "] = " + annotation(a.type) + "\n";
    }
  }
  if (type.kind == ClassKind::interface) {
    for (const auto& m : type.methods) s += declaration(*m);
    return type.methods.empty() ? s + "  pass\n" : s;
  }
  for (const auto& m : type.methods) {
    size_t first = constants.statements.size();
    std::string text = print(*m, constants, false, next);
    for (size_t i = first; i < constants.statements.size(); ++i) constants.statements[i].first += s.size();
    s += text;
  }
  if (type.attributes.empty() && type.methods.empty() && type.kind != ClassKind::module) s += "  pass\n";
  return s;
}

}  // namespace tern::script
