// From a Python call to Args by the schema: no Value is made for tensors, numbers and lists of them.
#include <complex>
#include <cstring>

#include "python/objects.h"
#include "tern/base/format.h"

namespace tern::python {

namespace {

// Operators that take a Python number where the schema says Tensor, as PyTorch's argument parser has it.
bool takes_numbers(std::string_view name) {
  static constexpr std::string_view names[] = {
      "add",      "sub",  "mul",          "div",         "divide",    "multiply",      "subtract",    "to",
      "_to_copy", "copy", "floor_divide", "true_divide", "_conj",     "copy_",         "add_",        "sub_",
      "mul_",     "div_", "divide_",      "multiply_",   "subtract_", "floor_divide_", "true_divide_"};
  if (!name.starts_with("aten::")) return false;
  name.remove_prefix(6);
  for (std::string_view n : names)
    if (n == name) return true;
  return false;
}

Arg default_arg(Overload& o, const SchemaArg& a) {
  const Value& v = *a.default_value;
  if (v.is_none()) return {};
  BaseType base = a.type.base;
  if (!a.type.list) {
    if (v.is_string() && base == BaseType::device) return Arg(Device::parse(v.string()).value_or(kCPU));
    if (v.is_string()) return Arg(std::string_view(v.string()));
    if (base == BaseType::float_) return Arg(v.to_double());
    if (base == BaseType::bool_) return Arg(v.sym().as_int() != 0);
    if (v.is_int()) return Arg(v.sym());
    if (v.is_bool()) return Arg(v.to_bool());
    if (v.is_float()) return Arg(v.to_double());
    if (base == BaseType::tensor) return Arg(v.tensor());
    return Arg(&v);
  }
  std::vector<Value> items;
  if (v.is_list() || v.is_tuple())
    items = v.items();
  else
    items.assign(std::max(a.type.fixed_size, 1), v);
  if (base == BaseType::int_ || base == BaseType::sym_int) {
    Dims& list = o.kept_ints.emplace_back();
    for (const Value& item : items) list.push_back(item.sym());
    return Arg(Span<const SymInt>(list));
  }
  if (base == BaseType::float_) {
    std::vector<double>& list = o.kept_floats.emplace_back();
    for (const Value& item : items) list.push_back(item.to_double());
    return Arg(Span<const double>(list));
  }
  if (base == BaseType::bool_) {
    auto& list = o.kept_bools.emplace_back(new bool[items.size() + 1]);
    for (size_t i = 0; i < items.size(); ++i) list[i] = items[i].sym().as_int() != 0;
    return Arg(Span<const bool>(list.get(), items.size()));
  }
  if (base == BaseType::tensor) return Arg(Span<const Tensor>());
  return Arg(&v);
}

bool is_list_of_ints(const SchemaType& t) {
  return t.list && (t.base == BaseType::int_ || t.base == BaseType::sym_int);
}

}  // namespace

Overload::Overload(const Op& op_) : op(&op_), schema(&op_.schema()) {
  const std::vector<SchemaArg>& args = schema->args;
  numbers_as_tensors = takes_numbers(schema->name.view());
  writes_first =
      !args.empty() && args[0].alias.write && args[0].type.base == BaseType::tensor && !args[0].type.list;
  bool first_is_tensor = !args.empty() && args[0].type.base == BaseType::tensor && !args[0].type.list;
  for (size_t i = 0; i < args.size(); ++i) {
    const SchemaArg& a = args[i];
    if (!a.keyword_only) ++positional;
    if (a.keyword_only && a.alias.write) {
      if (out < 0) out = static_cast<int>(i);
      ++outs;
    }
    if (a.name == Symbol("pin_memory")) factory = true;
    has_default.push_back(a.default_value.has_value());
    required += !a.default_value.has_value();
    std::string_view text = a.name.view();
    PyObject* name = PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
    if (!name) throw nb::python_error();
    PyUnicode_InternInPlace(&name);
    names.push_back(name);
    defaults.push_back(a.default_value ? default_arg(*this, a) : Arg());
  }
  if (outs > 1) required -= static_cast<size_t>(outs - 1);  // one out= may hold them all
  size_t list = first_is_tensor ? 1 : 0;
  if (positional == list + 1 && is_list_of_ints(args[list].type)) varargs = static_cast<int>(list);
}

void* Room::take_block(size_t bytes) {
  auto* block = static_cast<Block*>(::operator new(sizeof(Block) + bytes, std::align_val_t(16)));
  block->next = blocks_;
  blocks_ = block;
  return block + 1;
}

void Room::release() {
  for (; owned_; owned_ = owned_->next) owned_->destroy(owned_ + 1, owned_->count);
  while (blocks_) {
    Block* next = blocks_->next;
    ::operator delete(blocks_, std::align_val_t(16));
    blocks_ = next;
  }
}

namespace {

// The items of a list or tuple, borrowed; other sequences are copied into a tuple that `keep` holds.
struct Items {
  PyObject* sequence = nullptr;
  bool tuple = false;
  nb::object keep;

  static bool of(PyObject* o, Items& items) {
    items.tuple = PyTuple_Check(o);
    items.sequence = o;
    if (items.tuple || PyList_Check(o)) return true;
    if (PyUnicode_Check(o) || PyBytes_Check(o) || PyDict_Check(o) || is_tensor(o) || !PySequence_Check(o))
      return false;
    items.keep = nb::steal(PySequence_Tuple(o));
    if (!items.keep.is_valid()) {
      PyErr_Clear();
      return false;
    }
    items.sequence = items.keep.ptr();
    items.tuple = true;
    return true;
  }
  size_t size() const { return static_cast<size_t>(tuple ? PyTuple_Size(sequence) : PyList_Size(sequence)); }
  PyObject* operator[](size_t i) const {
    auto n = static_cast<Py_ssize_t>(i);
    return tuple ? PyTuple_GetItem(sequence, n) : PyList_GetItem(sequence, n);
  }
};

bool as_tensor(PyObject* o, bool numbers, Tensor& out) {
  if (is_tensor(o)) {
    out = tensor_of(o);
    return true;
  }
  Scalar s;
  if (!numbers || !maybe_scalar(o, s)) return false;
  out = wrap_number(s);
  return true;
}

// A number is no bool: in x.sum(0, 1) the 1 was meant as a dimension.
bool as_bool(PyObject* o, bool& value) {
  if (o == Py_True || o == Py_False) {
    value = o == Py_True;
    return true;
  }
  return false;
}

bool as_double(PyObject* o, bool loose, double& value) {
  if (PyFloat_Check(o)) {
    value = PyFloat_AsDouble(o);
    return true;
  }
  Scalar s;
  if (maybe_scalar(o, s)) {
    if (s.is_complex()) return false;
    value = s.to_double();
    return true;
  }
  if (!loose || !is_tensor(o) || !(tensor_of(o).numel() == 1)) return false;
  value = read_scalar(tensor_of(o)).to_double();
  return true;
}

// A tensor of one element stands for a number unless its gradient would be lost.
bool as_scalar(PyObject* o, bool loose, Scalar& value) {
  if (maybe_scalar(o, value)) return true;
  if (!loose || !is_tensor(o)) return false;
  const Tensor& t = tensor_of(o);
  if (t.requires_grad() || t.dim() != 0) return false;
  value = t.is_fake() ? Scalar(t.item()) : read_scalar(t);
  return true;
}

// Whether this is an int of the upper half of uint64, whose bits the scalar has kept.
bool is_beyond_int64(PyObject* o, const Scalar& s) {
  if (!s.is_int() || s.is_symbolic() || s.sym().as_int() >= 0 || !PyLong_Check(o)) return false;
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(o, &overflow);
  return overflow > 0;
}

bool as_string(PyObject* o, std::string_view& text) {
  if (!PyUnicode_Check(o)) return false;
  Py_ssize_t size;
  const char* data = PyUnicode_AsUTF8AndSize(o, &size);
  if (!data) throw nb::python_error();
  text = {data, static_cast<size_t>(size)};
  return true;
}

bool as_device(PyObject* o, Device& d) {
  if (Py_TYPE(o) == types.device || PyUnicode_Check(o)) {
    d = device_of_object(o);
    return true;
  }
  return false;
}

Arg boxed(PyObject* o, Room& room) {
  Value* value = room.make<Value>(1);
  *value = value_from(o);
  return Arg(value);
}

bool convert_list(const SchemaArg& a, PyObject* o, bool loose, Room& room, Arg& arg) {
  BaseType base = a.type.base;
  Items items;
  if (!Items::of(o, items)) {
    if (!a.type.fixed_size) return false;
    // One number stands for a list of that length.
    size_t n = static_cast<size_t>(a.type.fixed_size);
    if (base == BaseType::int_ || base == BaseType::sym_int) {
      SymInt v;
      if (!maybe_int(o, loose, v)) return false;
      SymInt* list = room.make<SymInt>(n);
      std::fill_n(list, n, base == BaseType::int_ ? SymInt(v.guard_int()) : v);
      arg = Span<const SymInt>(list, n);
      return true;
    }
    bool b;
    if (base == BaseType::bool_ && as_bool(o, b)) {
      bool* list = room.make<bool>(n);
      std::fill_n(list, n, b);
      arg = Span<const bool>(list, n);
      return true;
    }
    double d;
    if (base == BaseType::float_ && as_double(o, loose, d)) {
      double* list = room.make<double>(n);
      std::fill_n(list, n, d);
      arg = Span<const double>(list, n);
      return true;
    }
    return false;
  }
  size_t n = items.size();
  switch (base) {
    case BaseType::tensor: {
      Tensor* list = room.make<Tensor>(n);
      for (size_t i = 0; i < n; ++i) {
        PyObject* item = items[i];
        if (!(item == Py_None && a.type.element_optional) && !as_tensor(item, false, list[i])) return false;
      }
      arg = Span<const Tensor>(list, n);
      return true;
    }
    case BaseType::int_:
    case BaseType::sym_int: {
      SymInt* list = room.make<SymInt>(n);
      for (size_t i = 0; i < n; ++i) {
        if (!maybe_int(items[i], loose, list[i])) return false;
        if (base == BaseType::int_) list[i] = list[i].guard_int();
      }
      arg = Span<const SymInt>(list, n);
      return true;
    }
    case BaseType::float_: {
      double* list = room.make<double>(n);
      for (size_t i = 0; i < n; ++i)
        if (!as_double(items[i], loose, list[i])) return false;
      arg = Span<const double>(list, n);
      return true;
    }
    case BaseType::bool_: {
      bool* list = room.make<bool>(n);
      for (size_t i = 0; i < n; ++i)
        if (!as_bool(items[i], list[i])) return false;
      arg = Span<const bool>(list, n);
      return true;
    }
    case BaseType::scalar: {
      Scalar* list = room.make<Scalar>(n);
      for (size_t i = 0; i < n; ++i)
        if (!as_scalar(items[i], loose, list[i])) return false;
      arg = Span<const Scalar>(list, n);
      return true;
    }
    case BaseType::string: {
      std::string_view* list = room.make<std::string_view>(n);
      for (size_t i = 0; i < n; ++i)
        if (!as_string(items[i], list[i])) return false;
      arg = Span<const std::string_view>(list, n);
      return true;
    }
    default:
      arg = boxed(o, room);
      return true;
  }
}

bool convert(const SchemaArg& a, PyObject* o, bool loose, bool numbers, Room& room, Arg& arg) {
  if (o == Py_None) {
    arg = Arg();
    return a.type.accepts_none() || a.type.base == BaseType::any || a.type.base == BaseType::none;
  }
  if (a.type.list) return convert_list(a, o, loose, room, arg);
  switch (a.type.base) {
    case BaseType::tensor: {
      if (is_tensor(o)) {
        arg = Arg(tensor_of(o));
        return true;
      }
      Scalar s;
      if (!numbers || !maybe_scalar(o, s)) return false;
      if (is_beyond_int64(o, s)) room.beyond_int64 = static_cast<int>(&arg - room.args.data());
      Tensor* t = room.make<Tensor>(1);
      *t = wrap_number(s);
      arg = Arg(*t);
      return true;
    }
    case BaseType::int_:
    case BaseType::sym_int: {
      SymInt v;
      if (PyBool_Check(o) || !maybe_int(o, loose, v)) return false;
      arg = a.type.base == BaseType::int_ ? Arg(v.guard_int()) : Arg(v);
      return true;
    }
    case BaseType::float_: {
      double v;
      if (!as_double(o, loose, v)) return false;
      arg = Arg(v);
      return true;
    }
    case BaseType::bool_:
    case BaseType::sym_bool: {
      bool v;
      if (!as_bool(o, v)) return false;
      arg = Arg(v);
      return true;
    }
    case BaseType::complex_:
    case BaseType::scalar: {
      Scalar s;
      if (!as_scalar(o, loose, s)) return false;
      if (is_beyond_int64(o, s)) room.beyond_int64 = static_cast<int>(&arg - room.args.data());
      if (s.is_complex()) {
        auto* number = room.make<std::complex<double>>(1);
        *number = s.to_complex();
        arg = Arg(*number);
      } else {
        arg = Arg(s);
      }
      return true;
    }
    case BaseType::string: {
      std::string_view text;
      if (!as_string(o, text)) return false;
      arg = Arg(text);
      return true;
    }
    case BaseType::dtype: {
      DType t;
      if (!maybe_dtype(o, t)) return false;
      arg = Arg(t);
      return true;
    }
    case BaseType::layout:
      if (Py_TYPE(o) != types.layout) return false;
      arg = Arg(nb::inst_ptr<LayoutObject>(o)->value);
      return true;
    case BaseType::memory_format:
      if (Py_TYPE(o) != types.memory_format) return false;
      arg = Arg(nb::inst_ptr<MemoryFormatObject>(o)->value);
      return true;
    case BaseType::device: {
      Device d;
      if (!as_device(o, d)) return false;
      arg = Arg(d);
      return true;
    }
    case BaseType::generator:
      if (Py_TYPE(o) != types.generator) return false;
      arg = Arg(nb::inst_ptr<Generator>(o));
      return true;
    case BaseType::storage:  // a tensor is none: set_ has an overload for each
      return false;
    default:
      arg = boxed(o, room);
      return true;
  }
}

// What PyTorch's Python functions call an argument that the schema calls otherwise.
std::string_view schema_name(std::string_view keyword) {
  if (keyword == "input") return "self";
  if (keyword == "axis") return "dim";
  if (keyword == "keepdims") return "keepdim";
  return keyword;
}

int find_argument(const Overload& overload, PyObject* name, std::string_view keyword) {
  for (size_t i = 0; i < overload.names.size(); ++i)
    if (overload.names[i] == name) return static_cast<int>(i);
  const Schema& schema = *overload.schema;
  for (size_t i = 0; i < schema.args.size(); ++i)
    if (schema.args[i].name.view() == keyword) return static_cast<int>(i);
  std::string_view other = schema_name(keyword);
  if (other != keyword)
    for (size_t i = 0; i < schema.args.size(); ++i)
      if (schema.args[i].name.view() == other) return static_cast<int>(i);
  return -1;
}

std::string wrong_type(const SchemaArg& a, size_t position, PyObject* o) {
  return fmt::format("argument '{}' (position {}) must be {}, not {}", a.name.view(), position + 1,
                     a.type.str(), type_name(o));
}

}  // namespace

bool bind(const Overload& overload, PyObject* const* args, size_t nargs, PyObject* names, bool loose,
          Room& room, std::string* why) {
  const std::vector<SchemaArg>& schema = overload.schema->args;
  size_t arity = schema.size();
  Py_ssize_t keywords = names ? PyTuple_Size(names) : 0;
  // Most overloads that do not fit are seen by the number of arguments.
  if (!why && (nargs + static_cast<size_t>(keywords) < overload.required ||
               (nargs > overload.positional && overload.varargs < 0)))
    return false;
  room.clear();
  room.args.resize_for_overwrite(arity);
  constexpr size_t most = 64;
  if (arity > most)
    failf(ErrorKind::not_supported, "{}: takes more than {} arguments", overload.op->qualified(), most);
  PyObject* slots[most];
  for (size_t i = 0; i < arity; ++i) slots[i] = nullptr;
  size_t taken = nargs;
  bool spread = overload.varargs >= 0 && nargs > static_cast<size_t>(overload.varargs);
  if (spread) {
    SymInt ignored;
    size_t first = static_cast<size_t>(overload.varargs);
    spread = maybe_int(args[first], false, ignored) && !(nargs == first + 1 && schema[first].type.fixed_size);
    if (spread) taken = first;
  }
  if (taken > overload.positional) {
    if (why)
      *why = fmt::format("takes {} positional arguments but {} were given", overload.positional, nargs);
    return false;
  }
  for (size_t i = 0; i < taken; ++i) slots[i] = args[i];

  for (Py_ssize_t k = 0; k < keywords; ++k) {
    PyObject* value = args[nargs + static_cast<size_t>(k)];
    PyObject* name = PyTuple_GetItem(names, k);
    std::string_view keyword;
    as_string(name, keyword);
    if (keyword == "out") {
      if (value == Py_None) continue;
      if (overload.out < 0) {
        if (why) *why = "takes no out=";
        return false;
      }
      if (overload.outs == 1) {
        slots[overload.out] = value;
        continue;
      }
      if (int at = is_tensor(value) ? find_argument(overload, name, keyword) : -1; at >= 0) {
        slots[at] = value;  // the one output that is called out, the others by their names
        continue;
      }
      Items items;
      if (!Items::of(value, items) || items.size() != static_cast<size_t>(overload.outs)) {
        if (why) *why = fmt::format("out= must be a tuple of {} tensors", overload.outs);
        return false;
      }
      for (int i = 0; i < overload.outs; ++i) slots[overload.out + i] = items[static_cast<size_t>(i)];
      continue;
    }
    int at = find_argument(overload, name, keyword);
    if (at < 0 && overload.factory && keyword == "requires_grad") {
      room.requires_grad = value == Py_True;
      continue;
    }
    if (at < 0) {
      if (why) *why = fmt::format("got an unexpected keyword argument '{}'", keyword);
      return false;
    }
    if (slots[at] || (spread && at == overload.varargs)) {
      if (why) *why = fmt::format("got multiple values for argument '{}'", keyword);
      return false;
    }
    slots[at] = value;
  }

  for (size_t i = 0; i < arity; ++i) {
    Arg& arg = room.args[i];
    if (spread && static_cast<int>(i) == overload.varargs) {
      SymInt* list = room.make<SymInt>(nargs - i);
      for (size_t k = i; k < nargs; ++k) {
        if (!maybe_int(args[k], loose, list[k - i])) {
          if (why)
            *why =
                fmt::format("argument '{}' must be ints, not {}", schema[i].name.view(), type_name(args[k]));
          return false;
        }
      }
      arg = Span<const SymInt>(list, nargs - i);
    } else if (slots[i]) {
      if (!convert(schema[i], slots[i], loose, overload.numbers_as_tensors, room, arg)) {
        if (why) *why = wrong_type(schema[i], i, slots[i]);
        return false;
      }
    } else if (overload.has_default[i]) {
      arg = overload.defaults[i];
    } else {
      if (why)
        *why = fmt::format("missing required argument '{}' (position {})", schema[i].name.view(), i + 1);
      return false;
    }
  }
  return true;
}

}  // namespace tern::python
