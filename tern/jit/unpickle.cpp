#include "tern/jit/unpickle.h"

#include <complex>
#include <cstring>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/ir/enum_member.h"
#include "tern/jit/archive.h"
#include "tern/jit/reader.h"
#include "tern/ops/arithmetic.h"
#include "tern/ops/quantized/detail/packed.h"
#include "tern/script/unit.h"
#include "tern/tensor/nesting.h"

namespace tern::jit {

using io::Pickle;
using io::PickleKind;

void Unpickler::bad(std::string_view what) const { failf(ErrorKind::file, "{}: {}", label_, what); }

tern::Value Unpickler::read(const Pickle& p) {
  switch (p.kind()) {
    case PickleKind::none:
      return {};
    case PickleKind::boolean:
      return tern::Value(p.as_bool());
    case PickleKind::integer:
      return tern::Value(p.as_int());
    case PickleKind::real:
      return tern::Value(p.as_double());
    case PickleKind::string:
      return tern::Value(p.as_string());
    case PickleKind::bytes:
      return of_kind("bytes", tern::Value(io::as_text(p.as_bytes())));
    case PickleKind::big_integer:
      if (keep_kinds) return of_kind("int", tern::Value(std::string(p.digits())));
      if (opaque_classes) return Opaque::make(fmt::format("the integer {}", p.digits()));
      bad(fmt::format("the integer {} does not fit 64 bits", p.digits()));
    default:
      break;
  }
  auto it = memo_.find(p.id());
  if (it != memo_.end()) return it->second;
  if (++depth_ > 1000) bad("values nested too deeply");
  if (!busy_.insert(p.id()).second) {
    if (!opaque_classes) bad("a value that contains itself");
    --depth_;
    return Opaque::make("a value that contains itself");
  }
  tern::Value v = make(p);
  busy_.erase(p.id());
  --depth_;
  memo_.emplace(p.id(), v);
  return v;
}

tern::Value Opaque::make(std::string name) {
  auto* box = new Opaque;
  box->class_name = std::move(name);
  return tern::Value::object(box);
}
tern::Value Unpickler::of_kind(std::string_view kind, tern::Value v) const {
  if (!keep_kinds) return v;
  auto* box = new PythonKind;
  box->kind = kind;
  box->value = std::move(v);
  return tern::Value::object(box);
}
const PythonKind* python_kind(const tern::Value& v) {
  return v.is_object() ? dynamic_cast<const PythonKind*>(v.box()) : nullptr;
}
tern::Value Unpickler::read_plain(const Pickle& p) {
  tern::Value v = read(p);
  if (const PythonKind* k = python_kind(v)) return k->value;
  return v;
}
const std::string* opaque_class(const tern::Value& v) {
  const auto* o = v.is_object() ? dynamic_cast<const Opaque*>(v.box()) : nullptr;
  return o ? &o->class_name : nullptr;
}

tern::Value Unpickler::make(const Pickle& p) {
  switch (p.kind()) {
    case PickleKind::tuple:
    case PickleKind::list: {
      std::vector<tern::Value> items;
      items.reserve(p.size());
      for (size_t i = 0; i < p.size(); ++i) items.push_back(read(p[i]));
      return p.is(PickleKind::list) ? tern::Value::list(std::move(items))
                                    : tern::Value::tuple(std::move(items));
    }
    case PickleKind::set: {
      std::vector<tern::Value> items;
      for (size_t i = 0; i < p.size(); ++i) items.push_back(read(p[i]));
      return of_kind("set", tern::Value::list(std::move(items)));
    }
    case PickleKind::dict:
      return dict(p);
    case PickleKind::global: {
      if (p.module() == "torch")
        if (std::optional<DType> d = parse_dtype(p.name())) return of_kind("dtype", tern::Value(*d));
      if (p.module() == "torch" && p.name() == "strided") return of_kind("layout", tern::Value(0));
      if (opaque_classes) return Opaque::make(std::string(p.module()) + "." + std::string(p.name()));
      bad(
          fmt::format("the file refers to {}.{}, which is not allowed: only tensors, containers and numbers "
                      "can be loaded",
                      p.module(), p.name()));
    }
    case PickleKind::persistent:
      // A tensor by its key, or a class with its source.
      if (Pickle id = p.persistent_id(); id.is(PickleKind::integer) || id.is(PickleKind::string)) {
        auto it = tensors_.find(id.is(PickleKind::integer) ? std::to_string(id.as_int())
                                                           : std::string(id.as_string()));
        if (it != tensors_.end()) return tern::Value(it->second);
      } else if (opaque_classes && id.is(PickleKind::tuple) && id.size() > 1) {
        if (!id[0].is(PickleKind::string)) return read(id[0]);
        if (id[0].as_string() == "module") return read(id[1]);
        if (id[0].as_string() == "storage") return bare_storage(p);
      }
      bad("a storage outside of a tensor: save the tensor instead");
    case PickleKind::object:
      return object(p);
    default:
      bad("a value of an unknown kind");
  }
}

tern::Value Unpickler::dict(const Pickle& p) {
  std::vector<std::pair<tern::Value, tern::Value>> entries;
  std::unordered_map<std::string, size_t> seen;
  for (size_t i = 0; i < p.pair_count(); ++i) {
    tern::Value key = read_plain(p.key(i)), value = read(p.value(i));
    if (key.is_tensor() || key.is_list() || key.is_dict() || key.is_object())
      bad("a dict with a key that is neither a string nor a number");
    // The last of equal keys wins, at the first one's place.
    auto [at, fresh] = seen.emplace(key.str(), entries.size());
    if (fresh)
      entries.emplace_back(std::move(key), std::move(value));
    else
      entries[at->second].second = std::move(value);
  }
  return tern::Value::dict(std::move(entries));
}

tern::Value Unpickler::object(const Pickle& p) {
  Pickle callable = p.callable();
  // Old files put the source of a class beside its name.
  if (opaque_classes && callable.is(PickleKind::persistent))
    if (Pickle id = callable.persistent_id(); id.is(PickleKind::tuple) && id.size() > 1) callable = id[1];
  if (!callable.is(PickleKind::global)) {
    if (opaque_classes) return Opaque::make(callable.describe());
    bad(fmt::format("a call of {}, which is not allowed", callable.describe()));
  }
  return call(callable.module(), callable.name(), p.args(), p);
}

namespace {

// The bytes of a string that _codecs.encode makes from text: one character each.
std::string latin1(std::string_view utf8) {
  std::string out;
  for (size_t i = 0; i < utf8.size(); ++i) {
    auto c = static_cast<unsigned char>(utf8[i]);
    if (c >= 0xC2 && c <= 0xC3 && i + 1 < utf8.size())
      out += static_cast<char>((c & 3) << 6 | (static_cast<unsigned char>(utf8[++i]) & 0x3F));
    else
      out += static_cast<char>(c);
  }
  return out;
}

// numpy.float64(0.5) and its like: a dtype and the bytes.
std::optional<tern::Value> numpy_scalar(const Pickle& args) {
  if (args.size() < 2 || !args[0].is_call("numpy", "dtype") || args[0].args().size() < 1) return std::nullopt;
  std::string_view type = args[0].args()[0].as_string();
  std::string bytes = args[1].is(PickleKind::bytes)          ? std::string(io::as_text(args[1].as_bytes()))
                      : args[1].is_call("_codecs", "encode") ? latin1(args[1].args()[0].as_string())
                      : args[1].is(PickleKind::string)       ? latin1(args[1].as_string())
                                                             : "";
  auto as = [&]<class T>(T x) -> std::optional<tern::Value> {
    if (bytes.size() != sizeof x) return std::nullopt;
    std::memcpy(&x, bytes.data(), sizeof x);
    if constexpr (std::is_floating_point_v<T>)
      return tern::Value(static_cast<double>(x));
    else
      return tern::Value(static_cast<int64_t>(x));
  };
  if (type == "f8") return as(double{});
  if (type == "f4") return as(float{});
  if (type == "i8") return as(int64_t{});
  if (type == "i4") return as(int32_t{});
  if (type == "b1" && bytes.size() == 1) return tern::Value(bytes[0] != 0);
  return std::nullopt;
}

// The value of a string key in a dict or an OrderedDict.
std::optional<Pickle> member(const Pickle& dict, std::string_view key) {
  if (!dict.is(PickleKind::dict) && !dict.is(PickleKind::object)) return std::nullopt;
  for (size_t i = 0; i < dict.pair_count(); ++i)
    if (dict.key(i).is(PickleKind::string) && dict.key(i).as_string() == key) return dict.value(i);
  return std::nullopt;
}
std::optional<Pickle> module_state(const Pickle& p) {
  if (!p.is(PickleKind::object) || !p.state() || !p.state()->is(PickleKind::dict)) return std::nullopt;
  if (!member(*p.state(), "_parameters") || !member(*p.state(), "_modules")) return std::nullopt;
  return p.state();
}

}  // namespace

// What state_dict() would give: parameters and persistent buffers by their paths.
void Unpickler::collect_state(const Pickle& module, const std::string& prefix, int depth,
                              std::vector<std::pair<tern::Value, tern::Value>>& entries) {
  std::optional<Pickle> state = module_state(module);
  if (!state || depth > 200) return;
  std::optional<Pickle> hidden = member(*state, "_non_persistent_buffers_set");
  auto is_hidden = [&](std::string_view name) {
    if (!hidden) return false;
    bool call = hidden->is(PickleKind::object) && hidden->args().size() == 1;
    Pickle set = call ? hidden->args()[0] : *hidden;
    if (!set.is(PickleKind::set) && !set.is(PickleKind::list)) return false;
    for (size_t i = 0; i < set.size(); ++i)
      if (set[i].is(PickleKind::string) && set[i].as_string() == name) return true;
    return false;
  };
  for (const char* kind : {"_parameters", "_buffers"})
    if (std::optional<Pickle> tensors = member(*state, kind))
      for (size_t i = 0; i < tensors->pair_count(); ++i) {
        std::string_view name = tensors->key(i).as_string();
        tern::Value v = read(tensors->value(i));
        if (v.is_tensor() && !(kind[1] == 'b' && is_hidden(name)))
          entries.emplace_back(tern::Value(prefix + std::string(name)), v);
      }
  if (std::optional<Pickle> modules = member(*state, "_modules"))
    for (size_t i = 0; i < modules->pair_count(); ++i)
      collect_state(modules->value(i), prefix + std::string(modules->key(i).as_string()) + ".", depth + 1,
                    entries);
}

// A storage without a tensor is the row of its elements.
tern::Value Unpickler::bare_storage(const Pickle& p) {
  DType dtype;
  Storage s = storage(p, dtype);
  int64_t count = static_cast<int64_t>(s->bytes) / element_size(dtype);
  return tern::Value(tensor_over(s, Dims{count}, Dims{1}, 0, dtype));
}

// "a sparse tensor (torch.sparse_coo) of size [2, 3]"
std::string Unpickler::unknown_tensor(std::string_view function, const Pickle& args) {
  if (function == "_rebuild_sparse_tensor" && args.size() > 1 && args[1].is(PickleKind::tuple) &&
      args[0].is_call("torch.serialization", "_get_layout") && args[0].args().size() == 1) {
    std::string_view layout = args[0].args()[0].as_string();
    std::string text = fmt::format("a sparse tensor ({})", layout);
    bool coo = layout == "torch.sparse_coo";
    size_t at = coo ? 2 : 3;  // indices, values, size; or two kinds of indices
    if (args[1].size() > at && (args[1][at].is(PickleKind::tuple) || args[1][at].is(PickleKind::object)))
      if (tern::Value size = read_plain(args[1][at]); size.is_tuple() || size.is_list()) {
        text += " of size [";
        for (const tern::Value& n : size.items()) text += (text.back() == '[' ? "" : ", ") + n.str();
        text += "]";
      }
    return text;
  }
  if (function.find("nested") != std::string_view::npos) return "a nested tensor";
  return fmt::format("a tensor made by torch._utils.{}", function);
}

tern::Value Unpickler::opaque(std::string_view module, std::string_view name, const Pickle& p) {
  if (module_state(p)) {
    std::vector<std::pair<tern::Value, tern::Value>> entries;
    collect_state(p, "", 0, entries);
    return tern::Value::dict(std::move(entries));
  }
  // A dict or list of the user's own class is what it holds.
  if (p.pair_count()) return dict(p);
  return Opaque::make(std::string(module) + "." + std::string(name));
}

tern::Value Unpickler::call(std::string_view module, std::string_view name, const Pickle& args,
                            const Pickle& p) {
  auto need = [&](size_t n) {
    if (args.size() < n)
      bad(fmt::format("{}.{} with {} arguments instead of {}", module, name, args.size(), n));
  };
  if (module == "torch._utils") {
    if (name == "_rebuild_tensor_v2" || name == "_rebuild_tensor") {
      need(4);
      bool grad = args.size() > 4 && args[4].as_bool();
      return tensor(args[0], args[1], args[2], args[3], grad, std::nullopt, bits_in(args, 6));
    }
    if (name == "_rebuild_tensor_v3") {
      need(7);
      tern::Value dtype = read_plain(args[6]);
      if (const std::string* unknown = opaque_class(dtype))
        return Opaque::make(fmt::format("a tensor of {}", *unknown));
      return tensor(args[0], args[1], args[2], args[3], args[4].as_bool(), static_cast<DType>(dtype.to_int()),
                    bits_in(args, 7));
    }
    if (name == "_rebuild_parameter" || name == "_rebuild_parameter_with_state") {
      need(2);
      tern::Value made_from = read(args[0]);
      if (opaque_class(made_from)) return made_from;
      Tensor t = made_from.tensor();
      if (!t.defined()) bad("a parameter without a tensor");
      // A handle of its own: the tensor may be listed without gradients elsewhere.
      t = t.shallow_copy();
      t.body()->is_parameter = true;
      if (args[1].as_bool()) t.requires_grad_(true);
      return tern::Value(t);
    }
    if (name == "_rebuild_meta_tensor_no_storage") {
      need(4);
      tern::Value dtype = read_plain(args[0]);
      if (const std::string* unknown = opaque_class(dtype))
        return Opaque::make(fmt::format("a tensor of {}", *unknown));
      return tern::Value(
          make_tensor(dims(args[1]), dims(args[2]), static_cast<DType>(dtype.to_int()), kMeta, true));
    }
    if (name == "_rebuild_qtensor") {
      need(6);
      return quantized_tensor(args);
    }
    if (name == "_rebuild_nested_tensor") {
      need(4);
      return nested_tensor(args);
    }
    std::string_view kind = name.find("sparse") != std::string_view::npos ? "sparse tensors"
                            : name.find("nested") != std::string_view::npos
                                ? "nested tensors of the jagged layout"
                                : "tensors of this kind";
    // One such value does not keep the others of a checkpoint from being read.
    if (opaque_classes) return Opaque::make(unknown_tensor(name, args));
    failf(ErrorKind::not_supported,
          "{}: {} (torch._utils.{}) are not supported: save them as dense tensors (to_dense())", label_, kind,
          name);
  }
  if (module == "torch._tensor" && name == "_rebuild_from_type_v2") {
    // A tensor of a subclass or with attributes: what it is made from.
    need(3);
    if (!args[0].is(PickleKind::global)) bad("a tensor made by something other than a function");
    return call(args[0].module(), args[0].name(), args[2], p);
  }
  if (name == "scalar" && (module == "numpy.core.multiarray" || module == "numpy._core.multiarray"))
    if (std::optional<tern::Value> number = numpy_scalar(args)) return *number;
  if (module == "collections" && name == "OrderedDict") {
    if (args.size() == 1) {
      // OrderedDict([(k, v), ...])
      std::vector<std::pair<tern::Value, tern::Value>> entries;
      for (size_t i = 0; i < args[0].size(); ++i) {
        if (args[0][i].size() != 2) bad("an OrderedDict of something other than pairs");
        entries.emplace_back(read(args[0][i][0]), read(args[0][i][1]));
      }
      return of_kind(name, tern::Value::dict(std::move(entries)));
    }
    return of_kind(name, dict(p));
  }
  if (module == "collections" && name == "defaultdict") {
    bool factory = args.size() > 0 && args[0].is(PickleKind::global);
    return of_kind(factory ? fmt::format("defaultdict {}", args[0].name()) : "defaultdict", dict(p));
  }
  if (module == "collections" && name == "Counter" && args.size() == 1 && args[0].is(PickleKind::dict))
    return of_kind(name, read_plain(args[0]));
  if (module == "torch.jit._pickle") {
    if (name == "restore_type_tag") {
      need(2);
      return read(args[0]);
    }
    if (name == "build_intlist" || name == "build_doublelist" || name == "build_boollist" ||
        name == "build_tensorlist") {
      need(1);
      tern::Value v = read(args[0]);
      if (!v.is_list()) bad(fmt::format("{} of something other than a list", name));
      v.set_element_type(name == "build_intlist"      ? ir::Type::integer()
                         : name == "build_doublelist" ? ir::Type::floating()
                         : name == "build_boollist"   ? ir::Type::boolean()
                                                      : ir::Type::tensor());
      return v;
    }
    if (name == "build_tensor_from_id")
      bad("tensors by id need a program that is still running: save the module with torch.jit.save");
  }
  if (module == "torch" && name == "device") {
    need(1);
    std::string text(args[0].as_string());
    if (args.size() > 1) text += ":" + std::to_string(args[1].as_int());
    std::optional<Device> d = Device::parse(text);
    if (!d) bad(fmt::format("'{}' names no device", text));
    return tern::Value(*d);
  }
  if (module == "torch" && name == "Size") {
    need(1);
    return of_kind(name, read_plain(args[0]));
  }
  if (module == "torch.serialization" && name == "_get_layout" && args.size() == 1 &&
      args[0].is(PickleKind::string) && args[0].as_string() == "torch.strided")
    return of_kind("layout", tern::Value(0));
  if ((module == "builtins" || module == "__builtin__") && name == "complex") {
    need(2);
    return tern::Value(std::complex<double>(args[0].as_double(), args[1].as_double()));
  }
  if ((module == "builtins" || module == "__builtin__") && (name == "set" || name == "frozenset") &&
      args.size() == 1)
    return of_kind(name, read(args[0]));
  // What protocol 2 makes of bytes: encode(text, "latin1"), and bytes() of nothing.
  if ((module == "builtins" || module == "__builtin__") && (name == "bytes" || name == "bytearray")) {
    if (args.size() == 0) return of_kind(name, tern::Value(""));
    if (args.size() == 1 && args[0].is(PickleKind::bytes)) return of_kind(name, read_plain(args[0]));
    if (args.size() > 0 && args[0].is(PickleKind::string))  // bytearray(text, "latin-1")
      return of_kind(name, tern::Value(latin1(args[0].as_string())));
    if (args.size() == 1 && args[0].is_call("_codecs", "encode")) return of_kind(name, read_plain(args[0]));
  }
  if (module == "torch.nn.parameter" && name == "Parameter") {
    need(1);
    return read(args[0]);
  }
  if (module == "_codecs" && name == "encode") {
    need(1);
    return of_kind("bytes", tern::Value(keep_kinds ? latin1(args[0].as_string()) : args[0].as_string()));
  }
  if (module.starts_with("__torch__.torch.classes.") && !opaque_classes)
    return native(p, std::string(module) + "." + std::string(name));
  if (unit_ && (module == "__torch__" || module.starts_with("__torch__.")))
    return instance(p, fmt::format("{}.{}", module, name));
  if (opaque_classes) return opaque(module, name, p);
  bad(fmt::format("the class {}.{} is not allowed: only tensors, containers and numbers can be loaded",
                  module, name));
}

namespace {
// Code of a file that runs while it is read: no loops, and only so many steps through the methods it calls,
// so that reading always ends.
bool ends_surely(script::Unit& unit, const ir::Block& block, int depth, int& steps) {
  for (const ir::Node& n : block) {
    if (--steps < 0 || n.is("prim::Loop") || n.is("prim::CallFunction")) return false;
    if (n.is("prim::CallMethod")) {
      const tern::Value* name = n.attribute("name");
      const ir::Type* type = n.input(0).type();
      script::ClassType* c = type && name && depth ? unit.find_class(type->name()) : nullptr;
      script::Function* f = c ? c->method(Symbol(name->string())) : nullptr;
      if (!f) return false;
      unit.compile(*f);
      if (!f->compiled() || !ends_surely(unit, f->graph().top(), depth - 1, steps)) return false;
    }
    for (const ir::Block* b : n.blocks())
      if (!ends_surely(unit, *b, depth, steps)) return false;
  }
  return true;
}
}  // namespace

// An object of a class that PyTorch defines in C++.
tern::Value Unpickler::native(const Pickle& p, std::string_view class_name) {
  if (!quantized::is_native_class(class_name))
    failf(ErrorKind::not_supported,
          "{}: the module holds an object of torch.classes.{}, a C++ class of PyTorch, which Tern does not "
          "have",
          label_, class_name.substr(24));
  std::optional<Pickle> state = p.state();
  if (!state) bad(fmt::format("an object of {} without its state", class_name));
  tern::Value given = read(*state);
  if (without_data) return Opaque::make(std::string(class_name));
  return with_label(label_, [&] { return quantized::native_object(class_name, given); });
}

tern::Value Unpickler::quantized_tensor(const Pickle& args) {
  Tensor t = tensor(args[0], args[1], args[2], args[3], false, std::nullopt).tensor();
  if (!is_quantized(t.dtype())) bad(fmt::format("a quantized tensor of {}", name(t.dtype())));
  Pickle q = args[4];
  if (!q.is(PickleKind::tuple) || q.size() < 3 || !q[0].is(PickleKind::global) || q[0].module() != "torch")
    bad("a quantized tensor without its quantizer");
  QuantizerPtr quantizer;
  if (q[0].name() == "per_tensor_affine") {
    quantizer = per_tensor_quantizer(q[1].as_double(), q[2].as_int());
  } else if (q[0].name() == "per_channel_affine" || q[0].name() == "per_channel_affine_float_qparams") {
    if (q.size() < 4) bad("a quantized tensor without its axis");
    tern::Value scales = read(q[1]), zeros = read(q[2]);
    if (!scales.is_tensor() || !zeros.is_tensor()) bad("a quantized tensor without scales");
    int64_t axis = q[3].as_int();
    if (axis < 0 || axis >= t.dim() || !(scales.tensor().numel() == t.sizes()[static_cast<size_t>(axis)]))
      bad("a quantized tensor whose scales do not fit its axis");
    quantizer =
        with_label(label_, [&] { return per_channel_quantizer(scales.tensor(), zeros.tensor(), axis); });
  } else {
    bad(fmt::format("a tensor quantized by torch.{}, which is not known", q[0].name()));
  }
  t->meaning = quantizer;
  t->rungs |= rung_meaning;
  return tern::Value(t);
}

// The buffer, a table of sizes, one of strides, and where each tensor begins.
tern::Value Unpickler::nested_tensor(const Pickle& args) {
  Tensor parts[4];
  for (size_t i = 0; i < 4; ++i) {
    tern::Value v = read(args[i]);
    if (!v.is_tensor()) bad("a nested tensor without its buffer and sizes");
    parts[i] = v.tensor();
  }
  const bool table = parts[1].dim() == 2;  // of no tensors there is none
  for (const Tensor& t : {parts[1], parts[2], parts[3]})
    if (table && t.dtype() != kLong) bad("a nested tensor whose sizes are not integers");
  const Tensor& buffer = parts[0];
  if (without_data || buffer.is_fake()) return Opaque::make("a nested tensor");
  if (buffer.dim() != 1 || !buffer.is_contiguous()) bad("a nested tensor whose buffer is not one row");
  return with_label(label_, [&] {
    Nesting n;
    if (table) {
      n.count = parts[1].int_sizes()[0];
      n.rank = parts[1].int_sizes()[1];
      n.sizes = parts[1].to_vector<int64_t>();
      n.strides = parts[2].to_vector<int64_t>();
      n.offsets = parts[3].to_vector<int64_t>();
    }
    n.buffer = buffer.int_numel();
    return tern::Value(nested_over(buffer, checked_nesting(std::move(n))));
  });
}

tern::Value Unpickler::instance(const Pickle& p, std::string_view class_name) {
  script::ClassType* type = unit_->find_class(Symbol(class_name));
  if (!type) bad(fmt::format("the archive has no code for the class {}", class_name));
  if (type->kind == script::ClassKind::named_tuple) {
    std::vector<tern::Value> items;
    for (size_t i = 0; i < p.args().size(); ++i) items.push_back(read(p.args()[i]));
    return tern::Value::tuple(std::move(items));
  }
  if (type->kind == script::ClassKind::enumeration) {
    tern::Value wanted = p.args().size() == 1 ? read(p.args()[0]) : tern::Value();
    for (const script::Attribute& a : type->attributes)
      if (const ir::EnumMember* m = ir::EnumMember::of(a.value); m && m->value.equals(wanted)) return a.value;
    bad(fmt::format("{} is no member of {}", wanted.str(), class_name));
  }
  std::optional<Pickle> state = p.state();
  tern::Value object = script::Object::make(unit_, *type);
  script::Object& o = *script::Object::of(object);
  if (!state) return object;
  if (script::Function* set_state = type->method("__setstate__")) {
    unit_->compile(*set_state);
    int steps = 10000;
    if (set_state->args().size() != 2 || !ends_surely(*unit_, set_state->graph().top(), 4, steps))
      bad(fmt::format("the __setstate__ of {} is more than a list of assignments", class_name));
    tern::Value given = read(*state);
    apply_type(given, *set_state->args()[1].type);
    set_state->call(std::vector<tern::Value>{object, given});
  } else if (!state->is(PickleKind::dict)) {
    bad(fmt::format("the state of {} is not a dict", class_name));
  }
  for (size_t i = 0; state->is(PickleKind::dict) && i < state->pair_count(); ++i) {
    Symbol name(state->key(i).as_string());
    tern::Value v = read(state->value(i));
    const script::Attribute* a = type->find(name);
    if (!a) continue;  // what the class does not declare cannot be reached
    if (a->role == script::Role::constant) continue;
    if (!script::is_instance(v, *a->type) && !(a->type->is(ir::TypeKind::float_) && v.is_int()))
      bad(fmt::format("the attribute '{}' of {} should be {} but the file holds {}", name.view(), class_name,
                      a->type->str(ir::TypeStyle::annotation), v.kind_name()));
    apply_type(v, *a->type);
    if (v.is_tensor() && a->role == script::Role::parameter) v.tensor().body()->is_parameter = true;
    o.set(name, std::move(v));
  }
  for (const script::Attribute& a : type->attributes)
    if (a.role != script::Role::constant && !script::is_instance(*o.find(a.name), *a.type) &&
        !(a.type->is(ir::TypeKind::tensor)))
      bad(fmt::format("the attribute '{}' of {} is missing", a.name.view(), class_name));
  return object;
}

Dims Unpickler::dims(const Pickle& p) {
  Dims d;
  if (p.size() > 64) bad("a tensor with more than 64 dimensions");
  for (size_t i = 0; i < p.size(); ++i) {
    int64_t n = p[i].as_int();
    if (n < 0 || n > (int64_t{1} << 48)) bad(fmt::format("a tensor with a size or stride of {}", n));
    d.push_back(n);
  }
  return d;
}

Storage Unpickler::storage(const Pickle& p, DType& dtype) {
  if (!p.is(PickleKind::persistent)) bad("a tensor without a storage");
  Pickle id = p.persistent_id();
  if (!id.is(PickleKind::tuple) || id.size() < 5 || !id[0].is(PickleKind::string) ||
      id[0].as_string() != "storage")
    bad("a storage that is not described as PyTorch does");
  Pickle type = id[1];
  if (!type.is(PickleKind::global)) bad("a storage without a type");
  std::string_view name = type.name();
  dtype = DType::undefined;
  if (name == "UntypedStorage") {
    dtype = DType::uint8;
  } else if (name.ends_with("Storage")) {
    std::optional<DType> d = parse_dtype(name.substr(0, name.size() - 7));
    if (!d) bad(fmt::format("storages of type {}.{} are not supported", type.module(), name));
    dtype = *d;
  } else {
    bad(fmt::format("{}.{} is no type of storage", type.module(), name));
  }
  std::string key(id[2].is(PickleKind::integer) ? std::to_string(id[2].as_int())
                                                : std::string(id[2].as_string()));
  auto it = by_key_.find(key);
  if (it != by_key_.end()) return it->second;
  int64_t count = id[4].as_int();
  if (count < 0 || count > (int64_t{1} << 48)) bad(fmt::format("a storage of {} elements", count));
  uint64_t bytes = static_cast<uint64_t>(count) * static_cast<uint64_t>(element_size(dtype));
  std::string_view location = id[3].is(PickleKind::string) ? id[3].as_string() : "cpu";
  Storage s;
  if (location == "meta" || without_data) {
    s = Storage::empty(bytes, kMeta);
  } else {
    io::Blob blob = storages_(key, bytes);
    if (blob.bytes.size() < bytes)
      bad(fmt::format("the storage {} has {} bytes but should have {}", key, blob.bytes.size(), bytes));
    void* data = const_cast<uint8_t*>(blob.bytes.data());
    if (reinterpret_cast<uintptr_t>(data) % 16 && bytes) {
      s = Storage::allocate(bytes);
      std::memcpy(s->data, data, bytes);
    } else {
      s = Storage::borrow(data, bytes, blob.owner);
    }
  }
  by_key_.emplace(std::move(key), s);
  return s;
}

// What stands beside the tensor: {"conj": True} of a lazy conjugate, {"neg": True} of a lazy negative.
LazyBits Unpickler::bits_in(const Pickle& args, size_t i) {
  LazyBits bits;
  if (args.size() <= i) return bits;
  Pickle said = args[i];
  if (said.is_call("torch.jit._pickle", "restore_type_tag") && said.args().size() > 0) said = said.args()[0];
  if (std::optional<Pickle> conj = member(said, "conj")) bits.conj = conj->as_bool();
  if (std::optional<Pickle> neg = member(said, "neg")) bits.neg = neg->as_bool();
  return bits;
}

tern::Value Unpickler::tensor(const Pickle& storage_id, const Pickle& offset_value, const Pickle& size,
                              const Pickle& stride, bool requires_grad, std::optional<DType> given,
                              LazyBits bits) {
  DType dtype;
  Storage s = storage(storage_id, dtype);
  if (given) dtype = *given;
  Dims sizes = dims(size), strides = dims(stride);
  int64_t offset = offset_value.as_int();
  Tensor t = tensor_over(s, sizes, strides, offset, dtype);
  // There are no lazy views here: what the file says is still to be done is done now, into a tensor of its
  // own.
  if (bits.conj && is_complex(dtype)) t = conj_physical(t);
  if (bits.neg) t = with_label(label_, [&] { return tern::neg(t); });
  if (requires_grad && (is_floating(dtype) || is_complex(dtype))) t.requires_grad_(true);
  return tern::Value(t);
}

Tensor Unpickler::tensor_over(const Storage& s, const Dims& sizes, const Dims& strides, int64_t offset,
                              DType dtype) {
  if (sizes.size() != strides.size()) bad("a tensor with sizes and strides of different lengths");
  if (offset < 0) bad("a tensor with a negative offset");
  for (const Dims* list : {&sizes, &strides})
    for (SymInt n : *list)
      if (n.as_int() < 0 || n.as_int() > (int64_t{1} << 48))
        bad(fmt::format("a tensor with a size or stride of {}", n.as_int()));
  // The last element must be inside the storage.
  unsigned __int128 last = static_cast<unsigned __int128>(offset);
  bool empty = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t n = sizes[i].as_int();
    empty = empty || n == 0;
    if (n > 0)
      last += static_cast<unsigned __int128>(n - 1) * static_cast<unsigned __int128>(strides[i].as_int());
  }
  unsigned __int128 numel = 1;
  for (SymInt n : sizes) {
    numel *= static_cast<unsigned __int128>(n.as_int());
    if (numel > (static_cast<unsigned __int128>(1) << 62)) bad("a tensor with too many elements");
  }
  unsigned __int128 capacity = s->bytes / static_cast<size_t>(element_size(dtype));
  if (!empty && last >= capacity)
    bad(fmt::format("a tensor of size {} reaches beyond its storage of {} bytes", str(sizes), s->bytes));
  if (s->device.type == DeviceType::meta) return make_tensor(sizes, strides, dtype, kMeta, true);
  return make_view_of(s, sizes, strides, offset, dtype);
}

void Unpickler::set_tensor(const std::string& key, const Storage& s, const Dims& sizes, const Dims& strides,
                           int64_t offset, DType dtype) {
  tensors_[key] = tensor_over(s, sizes, strides, offset, dtype);
}

void apply_type(const tern::Value& v, const ir::Type& t) {
  using ir::TypeKind;
  if (t.is(TypeKind::optional)) {
    if (!v.is_none()) apply_type(v, *t.element());
  } else if (t.is(TypeKind::list) && v.is_list()) {
    v.set_element_type(t.element());
    for (tern::Value& item : v.items()) {
      if (t.element()->is(TypeKind::float_) && item.is_int()) item = tern::Value(item.to_double());
      apply_type(item, *t.element());
    }
  } else if (t.is(TypeKind::dict) && v.is_dict()) {
    auto* box = static_cast<DictBox*>(v.box());
    box->key = t.element(0);
    box->value = t.element(1);
    for (auto& [k, item] : v.entries()) apply_type(item, *t.element(1));
  } else if (t.is(TypeKind::tuple) && v.is_tuple()) {
    for (size_t i = 0; i < v.items().size() && i < t.elements().size(); ++i)
      apply_type(v.items()[i], *t.element(i));
  }
}

}  // namespace tern::jit
