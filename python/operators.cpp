// Operators as Python objects: a packet (tern.add), one overload of it (tern.ops.aten.add.Tensor), a method
// (x.add). None is bound by hand: a call parses its arguments from the schema.
#include <nanobind/stl/string_view.h>
#include <memory>
#include <unordered_map>

#include "python/objects.h"
#include "tern/autograd/history.h"
#include "tern/base/format.h"

#include <structmember.h>  // needs Python.h first

namespace tern::python {

const Overload& overload_of(const Op& op) {
  static auto* made = new std::unordered_map<const Op*, std::unique_ptr<Overload>>;  // under the GIL
  std::unique_ptr<Overload>& slot = (*made)[&op];
  if (!slot) slot = std::make_unique<Overload>(op);
  return *slot;
}

const Packet* find_packet(std::string_view qualified) {
  static auto* made = new std::unordered_map<Symbol, Packet>;
  Symbol name(qualified);
  const std::vector<const Op*>& ops = tern::overloads(name);
  if (ops.empty()) return nullptr;
  Packet& p = (*made)[name];
  if (p.overloads.size() != ops.size()) {
    p.name = name;
    p.overloads.clear();
    for (bool out : {false, true})
      for (const Op* op : ops)
        if (const Overload& o = overload_of(*op); (o.out >= 0) == out) p.overloads.push_back(&o);
  }
  return &p;
}

void check_may_change(const Tensor& t) {
  if (t.defined() && autograd::is_inference(t) && !autograd::inference_mode())
    fail(
        "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get "
        "a "
        "normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more "
        "details.");
}

namespace {

// Enough elements that another Python thread gains from running meanwhile.
constexpr int64_t worth_releasing = 1 << 15;

bool is_heavy(const Room& room) {
  int64_t elements = 0;
  for (const Arg& a : room.args) {
    if (a.kind == ArgKind::tensor && a.tensor_ptr->defined() && a.tensor_ptr->numel().is_int())
      elements += a.tensor_ptr->numel().as_int();
    else if (a.kind == ArgKind::tensors)
      for (const Tensor& t : a.tensors())
        elements += t.defined() && t.numel().is_int() ? t.numel().as_int() : 0;
  }
  return elements >= worth_releasing;
}

// Where the user's Python program stands, for what is being recorded.
Loc python_location() {
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame) return {};
  nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  std::string file = nb::cast<std::string>(nb::str(code.attr("co_filename")));
  std::string function = nb::cast<std::string>(nb::str(code.attr("co_name")));
  return {Symbol(file).c_str(), Symbol(function).c_str(), static_cast<unsigned>(PyFrame_GetLineNumber(frame)),
          0};
}

nb::object result_object(const Value& v, bool tuples) {
  if (tuples && v.is_list()) {
    const std::vector<Value>& items = v.items();
    bool tensors = !items.empty();
    for (const Value& item : items) tensors &= item.is_tensor();
    if (tensors) {
      PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(items.size()));
      for (size_t i = 0; i < items.size(); ++i)
        PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(i), wrap(items[i].tensor()));
      return nb::steal(tuple);
    }
  }
  return object_from(v);
}

// The namedtuple of results that have names: x.max(0).values.
PyObject* result_class(const Overload& overload) {
  auto& slot = const_cast<Overload&>(overload).result_class;
  if (slot) return slot == Py_None ? nullptr : slot;
  slot = Py_None;
  nb::list fields;
  for (const SchemaArg& r : overload.schema->returns) {
    std::string_view name = r.name.view();
    if (name.empty() || name.starts_with("out")) return nullptr;
    fields.append(nb::str(name.data(), name.size()));
  }
  std::string_view name = overload.schema->name.view();
  if (size_t colon = name.rfind(':'); colon != std::string_view::npos) name.remove_prefix(colon + 1);
  slot = nb::module_::import_("collections")
             .attr("namedtuple")(nb::str(name.data(), name.size()), fields)
             .release()
             .ptr();
  return slot;
}

// A tuple, or an object of that namedtuple filled like one: its own __new__ is Python.
nb::object new_results(PyObject* named, size_t n) {
  auto size = static_cast<Py_ssize_t>(n);
  if (!named) return nb::steal(PyTuple_New(size));
  auto* type = reinterpret_cast<PyTypeObject*>(named);
  return nb::steal(reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc))(type, size));
}

// What was made in inference mode remembers it.
void mark_results(const Room& room, const Value* results, size_t n) {
  auto mark = [&](const Value& v) {
    if (!v.is_tensor() || !v.tensor().defined() || v.tensor()->python) return;
    const Tensor& made = v.tensor();
    const Tensor* source = nullptr;
    for (const Arg& a : room.args)
      if (a.kind == ArgKind::tensor && a.tensor_ptr->defined() && a.tensor_ptr->storage() == made.storage())
        source = a.tensor_ptr;
    autograd::mark_inference(made, source);
  };
  for (size_t i = 0; i < n; ++i) {
    if (results[i].is_list())
      for (const Value& v : results[i].items()) mark(v);
    else
      mark(results[i]);
  }
}

void mark_views(const Value* results, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (results[i].is_tensor() && results[i].tensor().defined() && !results[i].tensor()->python)
      autograd::mark_view(results[i].tensor(), false);
    else if (results[i].is_list())
      for (const Value& v : results[i].items())
        if (v.is_tensor()) autograd::mark_view(v.tensor(), true);
  }
}

// An int of the upper half of uint64 keeps its bits for a uint64 and is a float among floats; elsewhere it
// does not fit.
void settle_large_int(const Overload& overload, Room& room) {
  bool floating = false;
  for (size_t i = 0; i < room.args.size(); ++i) {
    const Arg& a = room.args[i];
    if (overload.schema->args[i].type.base == BaseType::dtype && a.kind != ArgKind::none &&
        static_cast<DType>(a.to_int()) == DType::uint64)
      return;
    if (a.kind != ArgKind::tensor || !a.tensor_ptr->defined() || (*a.tensor_ptr)->wrapped_number) continue;
    if (a.tensor_ptr->dtype() == DType::uint64) return;
    floating |= a.tensor_ptr->is_floating_point() || a.tensor_ptr->is_complex();
  }
  if (!floating) fail("value cannot be converted to type int64_t without overflow");
  Arg& arg = room.args[static_cast<size_t>(room.beyond_int64)];
  const int64_t bits =
      arg.kind == ArgKind::tensor ? read_scalar(*arg.tensor_ptr).to_int() : arg.scalar().to_int();
  const double value = static_cast<double>(static_cast<uint64_t>(bits));
  if (arg.kind == ArgKind::tensor) {
    Tensor* t = room.make<Tensor>(1);
    *t = wrap_number(Scalar(value));
    arg = Arg(*t);
  } else {
    arg = Arg(value);
  }
}

PyObject* call_bound(const Overload& overload, Room& room, bool tuples) {
  const Op& op = *overload.op;
  if (room.beyond_int64 >= 0) settle_large_int(overload, room);
  if (overload.writes_first) check_may_change(room.args[0].tensor());
  size_t n = overload.schema->returns.size();
  Few<Value, 4> many(std::max<size_t>(n, 1));
  Value* results = many.data();
  if (thread_state.active) {
    At at(python_location());
    call(op, room.args.data(), results);
  } else {
    Released released(is_heavy(room));
    call(op, room.args.data(), results);
  }
  if (n == 0) Py_RETURN_NONE;
  if (autograd::inference_mode())
    mark_results(room, results, n);
  else if (!thread_state.grad_enabled || results[0].is_list())
    mark_views(results, n);
  if (n == 1) {
    if (many[0].is_tensor()) {
      if (room.requires_grad) many[0].tensor().requires_grad_();
      return wrap(many[0].take_tensor());
    }
    return result_object(many[0], tuples).release().ptr();
  }
  nb::object tuple = new_results(tuples ? result_class(overload) : nullptr, n);
  if (!tuple.is_valid()) throw nb::python_error();
  for (size_t i = 0; i < n; ++i)
    PyTuple_SetItem(
        tuple.ptr(), static_cast<Py_ssize_t>(i),
        many[i].is_tensor() ? wrap(many[i].take_tensor()) : result_object(many[i], tuples).release().ptr());
  return tuple.release().ptr();
}

std::string python_name(Symbol name) {
  std::string_view v = name.view();
  if (v.starts_with("aten::")) v.remove_prefix(6);
  return std::string(v);
}

[[noreturn]] void no_overload(const Packet& packet, PyObject* const* args, size_t nargs, PyObject* names) {
  std::string given;
  for (size_t i = 0; i < nargs; ++i) given += (i ? ", " : "") + type_name(args[i]);
  for (Py_ssize_t k = 0; names && k < PyTuple_Size(names); ++k)
    given += fmt::format("{}{}={}", given.empty() ? "" : ", ",
                         nb::cast<std::string>(nb::str(nb::handle(PyTuple_GetItem(names, k)))),
                         type_name(args[nargs + static_cast<size_t>(k)]));
  std::vector<const Overload*> tried;  // an out= variant is worth a word only when out= was given
  for (const Overload* o : packet.overloads)
    if (o->out < 0 || given.find("out=") != std::string::npos) tried.push_back(o);
  if (tried.empty()) tried = packet.overloads;
  std::string reasons, why;
  for (const Overload* o : tried) {
    Room room;
    bind(*o, args, nargs, names, true, room, &why);
    reasons += fmt::format("\n  {}\n    {}", o->schema->str(), why);
  }
  if (tried.size() == 1)
    failf(ErrorKind::type, "{}(): {}\n  {}", python_name(packet.name), why, tried[0]->schema->str());
  failf(ErrorKind::type,
        "{}() received an invalid combination of arguments - got ({}), but expected one of:{}",
        python_name(packet.name), given, reasons);
}

}  // namespace

PyObject* run(const Overload& overload, Room& room) { return call_bound(overload, room, true); }

PyObject* call_packet(const Packet& packet, PyObject* const* args, size_t nargs, PyObject* names) noexcept {
  return guarded([&]() -> PyObject* {
    Room room;
    for (bool loose : {false, true})
      for (const Overload* o : packet.overloads) {
        if (bind(*o, args, nargs, names, loose, room, nullptr)) return call_bound(*o, room, true);
      }
    no_overload(packet, args, nargs, names);
  });
}

namespace {

// ---- the three Python types: they differ in what they hold and how they are called ----

struct OpObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  const Packet* packet;
  const Overload* overload;  // of an OpOverload
};
PyTypeObject *packet_type, *overload_type, *method_type;

OpObject* op_object(PyObject* o) { return reinterpret_cast<OpObject*>(o); }

PyObject* packet_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* names) {
  return call_packet(*op_object(self)->packet, args, static_cast<size_t>(PyVectorcall_NARGS(nargsf)), names);
}

PyObject* overload_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* names) {
  size_t nargs = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
  return guarded([&]() -> PyObject* {
    const Overload& o = *op_object(self)->overload;
    Room room;
    if (bind(o, args, nargs, names, false, room, nullptr)) return call_bound(o, room, false);
    std::string why;
    if (!bind(o, args, nargs, names, true, room, &why))
      failf(ErrorKind::type, "{}(): {}\n  {}", o.schema->fx_name(), why, o.schema->str());
    return call_bound(o, room, false);
  });
}

PyObject* make_op(PyTypeObject* type, const Packet* packet, const Overload* overload,
                  vectorcallfunc function) {
  OpObject* o = PyObject_New(OpObject, type);
  if (!o) return nullptr;
  o->vectorcall = function;
  o->packet = packet;
  o->overload = overload;
  return reinterpret_cast<PyObject*>(o);
}

void op_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject* overload_object(const Overload& o) {
  static auto* made = new std::unordered_map<const Overload*, PyObject*>;
  PyObject*& slot = (*made)[&o];
  if (!slot) slot = make_op(overload_type, find_packet(o.schema->name.view()), &o, overload_vectorcall);
  return Py_NewRef(slot);
}

PyObject* packet_object(const Packet& p) {
  static auto* made = new std::unordered_map<const Packet*, PyObject*>;
  PyObject*& slot = (*made)[&p];
  if (!slot) slot = make_op(packet_type, &p, nullptr, packet_vectorcall);
  return Py_NewRef(slot);
}

PyObject* op_repr(PyObject* self) {
  return guarded([&]() -> PyObject* {
    OpObject* o = op_object(self);
    std::string text;
    if (o->overload)
      text = fmt::format("<OpOverload(op='{}')>", o->overload->schema->fx_name());
    else
      text = fmt::format("<{} '{}'>", Py_TYPE(self) == method_type ? "method" : "OpOverloadPacket",
                         o->packet->name.view());
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  });
}

PyObject* packet_getattro(PyObject* self, PyObject* name) {
  if (PyObject* found = PyObject_GenericGetAttr(self, name)) return found;
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return nullptr;
  Py_ssize_t size;
  const char* data = PyUnicode_AsUTF8AndSize(name, &size);
  if (!data) return nullptr;
  std::string_view wanted(data, static_cast<size_t>(size));
  const Packet* packet = op_object(self)->packet;
  std::string known;
  for (const Overload* o : packet->overloads) {
    std::string_view overload = o->schema->overload.view();
    if (overload.empty()) overload = "default";
    if (overload == wanted) {
      PyErr_Clear();
      return overload_object(*o);
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", overload);
  }
  if (!wanted.starts_with("__"))
    PyErr_Format(PyExc_AttributeError, "The underlying op of '%s' has no overload name '%s'; it has %s",
                 packet->name.c_str(), data, known.c_str());
  return nullptr;
}

PyObject* text_object(std::string_view s) {
  return PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size()));
}

PyObject* packet_overloads(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    nb::list names;
    for (const Overload* o : op_object(self)->packet->overloads) {
      std::string_view n = o->schema->overload.view();
      if (n.empty()) n = "default";
      names.append(nb::str(n.data(), n.size()));
    }
    return names.release().ptr();
  });
}

PyGetSetDef packet_getset[] = {
    {"__name__",
     [](PyObject* o, void*) {
       return guarded([&] { return text_object(python_name(op_object(o)->packet->name)); });
     },
     nullptr, nullptr, nullptr},
    {"_qualified_op_name", [](PyObject* o, void*) { return text_object(op_object(o)->packet->name.view()); },
     nullptr, nullptr, nullptr},
    {"__doc__",
     [](PyObject* o, void*) {
       return guarded([&] {
         std::string text;
         for (const Overload* p : op_object(o)->packet->overloads) text += p->schema->str() + "\n";
         return text_object(text);
       });
     },
     nullptr, nullptr, nullptr},
    {}};
PyMethodDef packet_methods[] = {{"overloads", packet_overloads, METH_NOARGS, "The names of the overloads."},
                                {}};

PyGetSetDef overload_getset[] = {
    {"__name__",
     [](PyObject* o, void*) {
       return guarded([&] {
         std::string text = op_object(o)->overload->schema->fx_name();
         return text_object(text.substr(text.find('.') + 1));
       });
     },
     nullptr, nullptr, nullptr},
    {"_overloadname",
     [](PyObject* o, void*) {
       std::string_view n = op_object(o)->overload->schema->overload.view();
       return text_object(n.empty() ? "default" : n);
     },
     nullptr, nullptr, nullptr},
    {"_schema",
     [](PyObject* o, void*) {
       return guarded([&] { return text_object(op_object(o)->overload->schema->str()); });
     },
     nullptr, nullptr, nullptr},
    {"overloadpacket",
     [](PyObject* o, void*) { return guarded([&] { return packet_object(*op_object(o)->packet); }); },
     nullptr, nullptr, nullptr},
    {"namespace",
     [](PyObject* o, void*) {
       std::string_view n = op_object(o)->packet->name.view();
       return text_object(n.substr(0, n.find(':')));
     },
     nullptr, nullptr, nullptr},
    {"is_core",
     [](PyObject* o, void*) {
       return Py_NewRef(op_object(o)->overload->op->is(op_core) ? Py_True : Py_False);
     },
     nullptr, nullptr, nullptr},
    {"differentiable",
     [](PyObject* o, void*) {
       const Op& op = *op_object(o)->overload->op;
       return Py_NewRef(op.grad || op.is(op_composite) || (op.functional && op.functional->grad) ? Py_True
                                                                                                 : Py_False);
     },
     nullptr, "Whether there is a gradient formula, or a body whose operators have.", nullptr},
    {"is_random",
     [](PyObject* o, void*) {
       return Py_NewRef(op_object(o)->overload->op->is(op_random) ? Py_True : Py_False);
     },
     nullptr, nullptr, nullptr},
    {"is_composite",
     [](PyObject* o, void*) {
       return Py_NewRef(op_object(o)->overload->op->is(op_composite) ? Py_True : Py_False);
     },
     nullptr, nullptr, nullptr},
    {}};

PyObject* overload_reduce(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    nb::object find = nb::module_::import_("tern._ops").attr("overload");
    std::string name = op_object(self)->overload->schema->qualified();
    return nb::make_tuple(find, nb::make_tuple(nb::str(name.data(), name.size()))).release().ptr();
  });
}
PyObject* packet_reduce(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    nb::object find = nb::module_::import_("tern._ops").attr("packet");
    std::string_view name = op_object(self)->packet->name.view();
    return nb::make_tuple(find, nb::make_tuple(nb::str(name.data(), name.size()))).release().ptr();
  });
}
PyMethodDef overload_methods[] = {{"__reduce__", overload_reduce, METH_NOARGS, nullptr}, {}};
PyMethodDef packet_all_methods[] = {
    packet_methods[0], {"__reduce__", packet_reduce, METH_NOARGS, nullptr}, {}};

PyObject* method_get(PyObject* self, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, instance);
}

PyMemberDef vectorcall_member[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(OpObject, vectorcall), READONLY, nullptr}, {}};

PyTypeObject* make_type(const char* name, PyGetSetDef* getset, PyMethodDef* methods, unsigned flags,
                        PyType_Slot extra) {
  PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(op_dealloc)},
                         {Py_tp_repr, reinterpret_cast<void*>(op_repr)},
                         {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                         {Py_tp_members, vectorcall_member},
                         {Py_tp_getset, getset},
                         {Py_tp_methods, methods},
                         extra,
                         {0, nullptr}};
  PyType_Spec spec{name, sizeof(OpObject), 0,
                   static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | flags), slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) throw nb::python_error();
  return reinterpret_cast<PyTypeObject*>(type);
}

// Every operator whose first argument is `self` is a method, unless the type has a better one already.
void add_methods() {
  PyObject* type = reinterpret_cast<PyObject*>(types.tensor);
  for (const Op* op : all_ops()) {
    std::string_view text = op->text;
    std::string_view name = text.substr(0, text.find('('));
    if (name.find("::") != std::string_view::npos) {
      if (!name.starts_with("aten::")) continue;
      name.remove_prefix(6);
    }
    name = name.substr(0, name.find('.'));
    std::string_view first = text.substr(text.find('(') + 1);
    first = first.substr(0, first.find(','));
    first = first.substr(0, first.find(')') == first.size() - 1 ? first.size() - 1 : first.size());
    if (!first.starts_with("Tensor") ||
        !(first.ends_with(" self") || first.find(" self)") != std::string_view::npos))
      continue;
    std::string key(name);
    if (PyObject_HasAttrString(type, key.c_str())) continue;
    const Packet* packet = find_packet("aten::" + key);
    nb::object method = nb::steal(make_op(method_type, packet, nullptr, packet_vectorcall));
    if (PyObject_SetAttrString(type, key.c_str(), method.ptr()) < 0) throw nb::python_error();
  }
}

}  // namespace

void bind_operators(nb::module_& m) {
  packet_type = make_type("tern._tern.OpPacket", packet_getset, packet_all_methods, 0,
                          {Py_tp_getattro, reinterpret_cast<void*>(packet_getattro)});
  overload_type = make_type("tern._tern.OpOverload", overload_getset, overload_methods, 0, {0, nullptr});
  method_type = make_type("tern._tern.OpMethod", packet_getset, packet_methods, Py_TPFLAGS_METHOD_DESCRIPTOR,
                          {Py_tp_descr_get, reinterpret_cast<void*>(method_get)});
  m.attr("OpPacket") = nb::borrow(reinterpret_cast<PyObject*>(packet_type));
  m.attr("OpOverload") = nb::borrow(reinterpret_cast<PyObject*>(overload_type));
  m.def("_packet", [](std::string_view name) -> nb::object {
    const Packet* p = find_packet(name);
    if (!p) get_op(name);  // throws, with the nearest name
    return nb::steal(packet_object(*p));
  });
  m.def("_has_packet", [](std::string_view name) { return !tern::overloads(Symbol(name)).empty(); });
  m.def("_overload",
        [](std::string_view name) { return nb::steal(overload_object(overload_of(get_op(name)))); });
  m.def("_all_ops", [] {
    nb::list names;
    for (const Op* op : all_ops()) {
      std::string name = op->qualified();
      names.append(nb::str(name.data(), name.size()));
    }
    return names;
  });
  add_methods();
}

}  // namespace tern::python
