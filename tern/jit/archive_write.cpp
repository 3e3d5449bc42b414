// Writing TorchScript archives that torch.jit.load reads.
#include <complex>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/io/pickle.h"
#include "tern/io/zip.h"
#include "tern/jit/archive.h"
#include "tern/jit/debug_info.h"
#include "tern/jit/upgraders.h"
#include "tern/ops/quantized/detail/packed.h"
#include "tern/script/compile.h"
#include "tern/script/signature.h"

namespace tern::jit {
namespace {

using ir::Type;
using ir::TypeKind;
using script::ClassType;
using script::Object;

// Storages of one folder, each written once, numbered as they are met.
struct StorageTable {
  std::vector<Storage> list;
  std::unordered_map<const StorageBody*, size_t> index;
  size_t add(const Storage& s) {
    auto [it, fresh] = index.emplace(s.get(), list.size());
    if (fresh) list.push_back(s);
    return it->second;
  }
};

void write_storage(io::PickleWriter& out, DType dtype, const std::string& key, int64_t elements) {
  out.mark();
  out.string("storage");
  out.global("torch", std::string(script_name(dtype)) + "Storage");
  out.string(key);
  out.string("cpu");
  out.integer(elements);
  out.tuple();
  out.persistent_id();
}

// `parameters` writes the scales and zero points of a quantized tensor, which are tensors when they are many.
void write_tensor(io::PickleWriter& out, const Tensor& t, tern::Function<void()> storage, bool requires_grad,
                  tern::Function<void(const Quantizer&)> parameters = {}) {
  if (t.is_nested())
    fail(ErrorKind::not_supported,
         "save: a nested tensor cannot be part of an archive: TorchScript has no form for it; keep its "
         "tensors "
         "(unbind()) and make it when the program runs");
  out.global("torch._utils", t.is_quantized() ? "_rebuild_qtensor" : "_rebuild_tensor_v2");
  out.mark();
  storage();
  out.integer(t.is_fake() ? 0 : t.offset().as_int());
  for (Span<const SymInt> dims : {t.sizes(), t.strides()}) {
    out.mark();
    for (SymInt d : dims) out.integer(d.as_int());
    out.tuple();
  }
  if (t.is_quantized()) {
    const Quantizer& q = quantizer_of(t);
    out.mark();
    out.global("torch", name(q.scheme));
    if (q.per_tensor()) {
      out.real(q.scale);
      out.integer(q.zero_point);
    } else {
      if (!parameters) fail(ErrorKind::not_supported, "save: an example input quantized per channel");
      parameters(q);
      out.integer(q.axis);
    }
    out.tuple();
  }
  out.boolean(requires_grad);
  out.global("collections", "OrderedDict");
  out.empty_tuple();
  out.reduce();
  out.tuple();
  out.reduce();
}

// What the classes of packed weights give as their state: lists keep the types PyTorch asks for.
const Type* state_type(std::string_view class_name) {
  const Type *tensors = Type::list(Type::tensor()), *floats = Type::list(Type::floating()),
             *ints = Type::list(Type::integer());
  if (class_name == quantized::linear_class)
    return Type::tuple(std::vector<const Type*>{Type::tensor(), Type::optional(Type::tensor())});
  if (class_name == quantized::embedding_class)
    return Type::tuple(std::vector<const Type*>{Type::integer(), tensors, floats, ints});
  if (class_name == quantized::cell_class)
    return Type::tuple(
        std::vector<const Type*>{Type::string(), tensors, floats, ints,
                                 Type::list(Type::class_named(Symbol(quantized::linear_class)))});
  return Type::tuple(
      std::vector<const Type*>{Type::string(), tensors, Type::list(Type::optional(Type::tensor()))});
}

class Pickler {
 public:
  explicit Pickler(StorageTable& storages) : storages_(storages) {}
  std::string finish() { return out_.finish(); }

  void value(const tern::Value& v, const Type* type) {
    if (type && type->is(TypeKind::optional) && !v.is_none()) type = type->element();
    if (++depth_ > 900)
      fail(ErrorKind::not_supported, "save: values nested too deeply, or a value that contains itself");
    switch (v.kind()) {
      case ValueKind::none:
        out_.none();
        break;
      case ValueKind::bool_:
        out_.boolean(v.to_bool());
        break;
      case ValueKind::int_:
        if (type && type->is(TypeKind::float_))
          out_.real(v.to_double());
        else
          out_.integer(v.to_int());
        break;
      case ValueKind::float_:
        out_.real(v.to_double());
        break;
      case ValueKind::string:
        out_.string(v.string());
        break;
      case ValueKind::complex_: {
        std::complex<double> c = v.scalar().to_complex();
        out_.global("builtins", "complex");
        out_.real(c.real());
        out_.real(c.imag());
        out_.tuple(2);
        out_.reduce();
        break;
      }
      case ValueKind::device:
        out_.global("torch", "device");
        out_.string(v.device().str());
        out_.tuple(1);
        out_.reduce();
        break;
      case ValueKind::tensor:
        tensor(v.tensor());
        break;
      case ValueKind::tuple:
        out_.mark();
        for (size_t i = 0; i < v.items().size(); ++i)
          value(v.items()[i], type && type->is(TypeKind::tuple) && i < type->elements().size()
                                  ? type->element(i)
                                  : nullptr);
        out_.tuple();
        break;
      case ValueKind::list:
        list(v, type);
        break;
      case ValueKind::dict:
        dict(v, type);
        break;
      case ValueKind::object:
        object(v);
        break;
    }
    --depth_;
  }

 private:
  bool again(const void* identity) {
    auto it = memo_.find(identity);
    if (it == memo_.end()) return false;
    out_.get(it->second);
    return true;
  }

  void tensor(const Tensor& t) {
    if (again(t.body())) return;  // the same tensor stays one: tied weights are listed once
    if (t.is_fake() && !t.is_meta()) fail("save: a tensor without data cannot be written");
    if (t.is_symbolic()) fail("save: a tensor with symbolic sizes cannot be written");
    if (t.is_meta())
      fail(ErrorKind::not_supported, "save: a tensor on the meta device cannot be written: it has no data");
    write_tensor(
        out_, t, [&] { storage(t); }, t.body()->requires_grad || t.requires_grad(),
        [this](const Quantizer& q) {
          tensor(q.scales);
          tensor(q.zero_points);
        });
    memo_[t.body()] = out_.put();
  }
  // PyTorch reads a storage each time it is described: views stay views of one only if the pickle says so.
  // The elements of a storage have one type there.
  void storage(const Tensor& t) {
    auto [it, fresh] = storage_memo_.try_emplace({t.storage().get(), t.dtype()});
    if (!fresh) return out_.get(it->second);
    write_storage(out_, t.dtype(), std::to_string(storages_.add(t.storage())),
                  static_cast<int64_t>(t.storage()->bytes) / t.element_size());
    it->second = out_.put();
  }

  void items(const tern::Value& v, const Type* element) {
    out_.empty_list();
    out_.mark();
    for (const tern::Value& item : v.items()) value(item, element);
    out_.append_items();
  }
  void list(const tern::Value& v, const Type* type) {
    if (again(v.box())) return;
    const Type* element = type && type->is(TypeKind::list) ? type->element() : v.element_type();
    if (!element) element = v.items().empty() ? Type::tensor() : script::plain(Type::of(v.items()[0]));
    const char* build = element->is(TypeKind::int_)     ? "build_intlist"
                        : element->is(TypeKind::float_) ? "build_doublelist"
                        : element->is(TypeKind::bool_)  ? "build_boollist"
                        : element->is_tensor()          ? "build_tensorlist"
                                                        : nullptr;
    if (build) {
      out_.global("torch.jit._pickle", build);
      items(v, element);
      out_.tuple(1);
    } else {
      out_.global("torch.jit._pickle", "restore_type_tag");
      items(v, element);
      out_.string(script::plain(Type::list(element))->str(ir::TypeStyle::annotation));
      out_.tuple(2);
    }
    out_.reduce();
    memo_[v.box()] = out_.put();
  }
  void dict(const tern::Value& v, const Type* type) {
    if (again(v.box())) return;
    auto* box = static_cast<DictBox*>(v.box());
    const Type *key = box->key, *item = box->value;
    if (type && type->is(TypeKind::dict)) key = type->element(0), item = type->element(1);
    if (!key) key = v.entries().empty() ? Type::string() : script::plain(Type::of(v.entries()[0].first));
    if (!item) item = v.entries().empty() ? Type::tensor() : script::plain(Type::of(v.entries()[0].second));
    out_.global("torch.jit._pickle", "restore_type_tag");
    out_.empty_dict();
    out_.mark();
    for (auto& [k, x] : v.entries()) {
      value(k, key);
      value(x, item);
    }
    out_.set_items();
    out_.string(script::plain(Type::dict(key, item))->str(ir::TypeStyle::annotation));
    out_.tuple(2);
    out_.reduce();
    memo_[v.box()] = out_.put();
  }
  void object(const tern::Value& v) {
    if (const auto* native = dynamic_cast<const NativeObject*>(v.box())) {
      if (again(v.box())) return;
      std::string_view name = native->class_name();
      size_t dot = name.rfind('.');
      out_.global(name.substr(0, dot), name.substr(dot + 1));
      out_.empty_tuple();
      out_.new_object();
      value(kept_.emplace_back(native->state()), state_type(name));
      out_.build();
      memo_[v.box()] = out_.put();
      return;
    }
    // The value alone, not in a tuple: so PyTorch writes and reads it.
    if (const ir::EnumMember* m = ir::EnumMember::of(v)) {
      size_t dot = m->type.view().rfind('.');
      out_.global(m->type.view().substr(0, dot), m->type.view().substr(dot + 1));
      value(m->value, Type::of(m->value));
      out_.reduce();
      return;
    }
    Object* o = Object::of(v);
    if (!o)
      fail(ErrorKind::not_supported,
           "save: an attribute holds something that TorchScript does not know (a generator?)");
    if (again(v.box())) return;
    std::string_view name = o->type->name.view();
    size_t dot = name.rfind('.');
    out_.global(name.substr(0, dot), name.substr(dot + 1));
    out_.empty_tuple();
    out_.new_object();
    if (script::Function* get_state = o->type->method("__getstate__");
        get_state && o->type->method("__setstate__")) {
      value(kept_.emplace_back(get_state->call(std::vector<tern::Value>{v})), get_state->returns());
      out_.build();
      memo_[v.box()] = out_.put();
      return;
    }
    out_.empty_dict();
    out_.mark();
    for (const script::Attribute& a : o->type->attributes) {
      if (a.role == script::Role::constant) continue;
      out_.string(a.name.view());
      value(*o->find(a.name), a.type);
    }
    out_.set_items();
    out_.build();
    memo_[v.box()] = out_.put();
  }

  StorageTable& storages_;
  io::PickleWriter out_;
  std::unordered_map<const void*, uint32_t> memo_;
  std::map<std::pair<const StorageBody*, DType>, uint32_t> storage_memo_;
  std::deque<tern::Value> kept_;  // states that were made: the memo knows values by their address
  int depth_ = 0;
};

// Everything the code of a module needs: classes and functions, in the order they are met.
class Needed {
 public:
  explicit Needed(script::Unit& unit) : unit_(unit) {}
  std::vector<ClassType*> classes;
  std::vector<script::Function*> functions;

  void type(const Type* t) {
    if (!t || !types_.insert(t).second) return;
    for (const Type* e : t->elements()) type(e);
    if (!t->name().empty()) class_named(t->name());
  }
  void class_named(Symbol name) {
    if (quantized::is_native_class(name.view()) || !names_.insert(name.str()).second) return;
    ClassType* c = unit_.find_class(name);
    if (!c) failf("save: the class {} is not known", name.view());
    classes.push_back(c);
    for (const script::Attribute& a : c->attributes) type(a.type);
    if (c->kind == script::ClassKind::interface) return;
    for (size_t i = 0; i < c->methods.size(); ++i) function(*c->methods[i]);
  }
  // Attributes that are interfaces do not name the classes of what they hold.
  void held(const tern::Value& v) {
    if (v.is_list() || v.is_tuple()) {
      for (const tern::Value& item : v.items()) held(item);
    } else if (v.is_dict()) {
      for (auto& [key, item] : v.entries()) held(item);
    } else if (Object* o = Object::of(v); o && objects_.insert(o).second) {
      class_named(o->type->name);
      for (const tern::Value& slot : o->slots) held(slot);
    }
  }
  void function(script::Function& f) {
    unit_.compile(f);
    for (const script::Argument& a : f.args()) type(a.type);
    type(f.returns());
    block(f.graph().top());
  }

 private:
  void block(const ir::Block& b) {
    for (const ir::Node& n : b) {
      for (ir::Value* v : n.outputs()) type(v->type());
      for (const ir::Operand& o : n.inputs())
        if (o.is_constant())
          if (ir::EnumMember* m = ir::EnumMember::of(o.constant())) class_named(m->type);
      if (n.is("prim::CallFunction")) {
        Symbol name(n.attribute("name")->string());
        if (names_.insert(name.str()).second) {
          script::Function* f = unit_.find_function(name);
          if (!f) failf("save: the function {} is not known", name.view());
          functions.push_back(f);
          function(*f);
        }
      }
      for (ir::Block* inner : n.blocks()) block(*inner);
    }
  }
  script::Unit& unit_;
  std::set<std::string> names_;
  std::set<const Type*> types_;
  std::set<const Object*> objects_;
};

// {"forward": [inputs]}: types and sizes; the storages are there but empty, as PyTorch keeps them.
std::string traced_inputs(const ScriptModule& module, script::Unit& unit, size_t& storages) {
  io::PickleWriter out;
  bool any = false;
  out.global("torch.jit._pickle", "restore_type_tag");
  out.empty_dict();
  out.mark();
  for (const std::string& method : module.methods()) {
    auto it = unit.traced_inputs().find(module.type_name() + "." + method);
    if (it == unit.traced_inputs().end()) continue;
    bool plain = true;
    for (const tern::Value& v : it->second)
      plain &= v.is_tensor() || v.is_int() || v.is_float() || v.is_bool();
    if (!plain) continue;
    any = true;
    out.string(method);
    out.global("torch.jit._pickle", "restore_type_tag");
    out.empty_list();
    out.mark();
    for (const tern::Value& v : it->second) {
      if (v.is_tensor()) {
        const Tensor& t = v.tensor();
        int64_t elements = t.numel().guard_int() ? 1 : 0;
        for (int64_t d = 0; d < t.dim() && elements; ++d)
          elements += (t.sizes()[d].guard_int() - 1) * t.strides()[d].guard_int();
        write_tensor(
            out, t, [&] { write_storage(out, t.dtype(), std::to_string(storages++), elements); }, false);
      } else if (v.is_bool()) {
        out.boolean(v.to_bool());
      } else if (v.is_int()) {
        out.integer(v.to_int());
      } else {
        out.real(v.to_double());
      }
    }
    out.append_items();
    out.string("List[Any]");
    out.tuple(2);
    out.reduce();
  }
  out.set_items();
  out.string("Dict[str, List[Any]]");
  out.tuple(2);
  out.reduce();
  return any ? out.finish() : std::string();
}

}  // namespace

void save(const ScriptModule& module, io::Sink& sink, std::string_view archive_name,
          const std::map<std::string, std::string>& extra_files) {
  if (!module.defined()) fail(ErrorKind::value, "save: the module is empty");
  script::Unit& unit = *Object::of(module.object())->unit;
  std::string root(archive_name.empty() ? "archive" : archive_name);
  root += "/";
  Needed needed(unit);
  needed.class_named(module.type().name);
  needed.held(module.object());

  // Code first: it collects the constants.
  script::ConstantTable constants;
  struct File {
    std::string path, text;
    std::vector<Mark> marks;
  };
  std::vector<File> code;
  int version = least_written;
  std::deque<ir::Origin> originals;
  auto file_of = [&](Symbol qualified) -> File& {
    std::string_view name = qualified.view();
    if (!name.starts_with("__torch__."))
      failf("save: the name {} does not start with __torch__; give it one that does", name);
    std::string path = "code/" + std::string(name.substr(0, name.rfind('.')));
    for (char& c : path)
      if (c == '.') c = '/';
    path += ".py";
    for (File& f : code)
      if (f.path == path) return f;
    return code.emplace_back(File{path, {}, {}});
  };
  auto put = [&](Symbol name, const std::string& text) {
    File& file = file_of(name);
    for (auto [offset, origin] : constants.statements) {
      // A module that was loaded keeps the places its archive knew.
      if (origin && unit.original)
        if (std::optional<ir::Origin> o = unit.original(*origin)) origin = &originals.emplace_back(*o);
      file.marks.push_back({file.text.size() + offset, origin});
    }
    constants.statements.clear();
    file.text += text;
  };
  for (ClassType* c : needed.classes) {
    put(c->name, script::print_source(*c, constants));
    if (c->kind == script::ClassKind::interface) continue;
    for (const auto& m : c->methods) version = std::max(version, needed_version(m->graph()));
  }
  for (script::Function* f : needed.functions) {
    put(f->qualified(), script::print_source(*f, constants));
    version = std::max(version, needed_version(f->graph()));
  }

  StorageTable data, constant_data;
  Pickler pickler(data);
  pickler.value(module.object(), nullptr);
  std::string data_pickle = pickler.finish();
  Pickler constant_pickler(constant_data);
  constant_pickler.value(tern::Value::tuple(constants.items), nullptr);
  std::string constant_pickle = constant_pickler.finish();

  io::ZipWriter zip(sink);
  auto storages = [&](const StorageTable& table, const char* folder) {
    for (size_t i = 0; i < table.list.size(); ++i) {
      const Storage& s = table.list[i];
      zip.add(root + folder + std::to_string(i), io::Bytes(static_cast<const uint8_t*>(s->data), s->bytes));
    }
  };
  size_t traced_data = 0;
  storages(data, "data/");
  zip.add(root + "data.pkl", data_pickle);
  for (const File& f : code) {
    zip.add(root + f.path, f.text);
    zip.add(root + f.path + ".debug_pkl", write_debug_info(f.marks));
  }
  storages(constant_data, "constants/");
  zip.add(root + "constants.pkl", constant_pickle);
  for (auto& [name, content] : extra_files) zip.add(root + "extra/" + name, content);
  if (std::string traced = traced_inputs(module, unit, traced_data); !traced.empty()) {
    for (size_t i = 0; i < traced_data; ++i)
      zip.add(root + "traced_inputs/" + std::to_string(i), std::string_view());
    zip.add(root + "traced_inputs.pkl", traced);
  }
  zip.add(root + "version", fmt::format("{}\n", version));
  zip.add(root + "byteorder", std::string_view("little"));
  zip.add(root + ".data/serialization_id",
          fmt::format("{:020d}{:020d}", zip.combined_crc(), zip.members().size()));
  zip.finish();
}

}  // namespace tern::jit
