// x[...] and x[...] = y, taken apart into view operators and index/index_put_ as PyTorch takes them apart.
#include <complex>

#include "python/objects.h"
#include "tern/autograd/history.h"
#include "tern/base/format.h"

namespace tern::python {

namespace {

template <Name name>
Tensor one(std::initializer_list<Arg> args) {
  static const Op& op = get_op(name.text);
  static const Overload& overload = overload_of(op);
  SmallVector<Arg, 16> all(Span<const Arg>(args.begin(), args.size()));
  for (size_t i = args.size(); i < overload.defaults.size(); ++i) all.push_back(overload.defaults[i]);
  return call1(op, all.data());
}

// NumPy's old rule, which PyTorch keeps: a short list that holds more than numbers is a tuple of indices.
bool stands_for_tuple(PyObject* o) {
  constexpr Py_ssize_t most = 32;
  if (!PySequence_Check(o) || is_tensor(o) || PyUnicode_Check(o) || is_array(o)) return false;
  Py_ssize_t n = PySequence_Size(o);
  if (n < 0) {
    PyErr_Clear();
    return false;
  }
  if (n >= most) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    nb::object item = nb::steal(PySequence_GetItem(o, i));
    if (!item.is_valid()) throw nb::python_error();
    PyObject* p = item.ptr();
    if (is_tensor(p) || PySlice_Check(p) || p == Py_Ellipsis || p == Py_None ||
        (PySequence_Check(p) && !is_number(p)))
      return true;
  }
  return false;
}

// What one index consumes: an ellipsis takes what the others leave.
int64_t consumed(PyObject* item) {
  if (item == Py_None || item == Py_Ellipsis || PyBool_Check(item)) return 0;
  if (is_tensor(item)) {
    const Tensor& t = tensor_of(item);
    if (t.dtype() == DType::bool_ || t.dtype() == DType::uint8) return t.dim();
  }
  return 1;
}

SymInt slice_bound(PyObject* o) { return int_of(o, "a slice index"); }

struct Indexed {
  Tensor view;             // after the basic indices
  Few<Tensor, 4> indices;  // advanced ones by dimension; undefined: all of it
  bool advanced = false;

  Arg list() const { return Span<const Tensor>(indices.data(), indices.size()); }
};

// The three parts of a slice, None where nothing was said.
struct SliceParts {
#if defined(Py_LIMITED_API)
  nb::object start, stop, step;
  explicit SliceParts(PyObject* o)
      : start(nb::handle(o).attr("start")),
        stop(nb::handle(o).attr("stop")),
        step(nb::handle(o).attr("step")) {}
#else
  nb::handle start, stop, step;
  explicit SliceParts(PyObject* o)
      : start(reinterpret_cast<PySliceObject*>(o)->start),
        stop(reinterpret_cast<PySliceObject*>(o)->stop),
        step(reinterpret_cast<PySliceObject*>(o)->step) {}
#endif
};

Tensor index_tensor(PyObject* o) {
  if (is_tensor(o)) return tensor_of(o);
  Tensor t = from_data(o, DType::undefined);
  // Also of an array of numbers that are none a position; x[[]] holds no numbers at all.
  if (!is_integral(t.dtype(), true) && (!is_array(o) || t.int_numel() == 0)) t = from_data(o, DType::int64);
  return t;
}

Indexed apply(const Tensor& self, PyObject* index) {
  SmallVector<PyObject*, 6> items;
  nb::object tuple;
  if (!PyTuple_Check(index) && stands_for_tuple(index)) {
    tuple = nb::steal(PySequence_Tuple(index));
    if (!tuple.is_valid()) throw nb::python_error();
    index = tuple.ptr();
  }
  if (PyTuple_Check(index)) {
    for (Py_ssize_t i = 0; i < PyTuple_Size(index); ++i) items.push_back(PyTuple_GetItem(index, i));
  } else {
    items.push_back(index);
  }
  int64_t named = 0;
  for (PyObject* o : items) named += consumed(o);
  if (named > self.dim()) {
    if (self.dim() == 0 && named == 1)
      fail(ErrorKind::index,
           "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
           "convert a 0-dim "
           "tensor to a number");
    failf(ErrorKind::index, "too many indices for tensor of dimension {}", self.dim());
  }

  Indexed r{self, {}, false};
  int64_t dim = 0;   // of the view so far
  size_t place = 0;  // among `indices`: a mask of several dimensions fills one place
  auto put = [&](const Tensor& t) {
    if (!is_integral(t.dtype(), true))
      fail(ErrorKind::index, "tensors used as indices must be long, int, byte or bool tensors");
    r.indices.resize(place);
    r.indices.push_back(t);
    r.advanced = true;
    bool mask = t.dtype() == DType::bool_ || t.dtype() == DType::uint8;
    dim += mask ? t.dim() : 1;
    ++place;
  };
  for (PyObject* o : items) {
    SymInt position;
    if (o == Py_None) {
      r.view = one<"aten::unsqueeze">({Arg(r.view), Arg(dim)});
      ++dim, ++place;
    } else if (o == Py_Ellipsis) {
      int64_t rest = self.dim() - named;
      dim += rest;
      place += static_cast<size_t>(rest);
    } else if (PyBool_Check(o)) {
      r.view = one<"aten::unsqueeze">({Arg(r.view), Arg(dim)});
      Tensor flag = make_tensor({SymInt(1)}, DType::bool_);
      *flag.data_ptr<bool>() = o == Py_True;
      put(flag);
    } else if (PySlice_Check(o)) {
      SliceParts parts(o);
      auto &start = parts.start, &stop = parts.stop, &step = parts.step;
      SymInt by = step.is_none() ? SymInt(1) : slice_bound(step.ptr());
      if (by.is_int() && by.as_int() <= 0)
        fail(ErrorKind::value, by.as_int() == 0 ? "step cannot be zero" : "step must be greater than zero");
      bool whole = start.is_none() && stop.is_none() && by.is_int() && by.as_int() == 1;
      if (!whole || thread_state.active)
        r.view = one<"aten::slice.Tensor">({Arg(r.view), Arg(dim),
                                            start.is_none() ? Arg() : Arg(slice_bound(start.ptr())),
                                            stop.is_none() ? Arg() : Arg(slice_bound(stop.ptr())), Arg(by)});
      ++dim, ++place;
    } else if (maybe_int(o, false, position)) {
      SymInt size = r.view.size(dim);
      if (position.is_int() && size.is_int() &&
          (position.as_int() >= size.as_int() || position.as_int() < -size.as_int()))
        failf(ErrorKind::index, "index {} is out of bounds for dimension {} with size {}", position.as_int(),
              dim, size.as_int());
      r.view = one<"aten::select.int">({Arg(r.view), Arg(dim), Arg(position)});
    } else if (is_tensor(o)) {
      const Tensor& t = tensor_of(o);
      if (t.dim() == 0 && is_integral(t.dtype()) && t.dtype() != DType::uint8 && !t.is_fake()) {
        r.view = one<"aten::select.int">({Arg(r.view), Arg(dim), Arg(read_scalar(t).to_int())});
      } else if (t.dim() == 0 && is_integral(t.dtype(), true)) {
        r.view = one<"aten::unsqueeze">({Arg(r.view), Arg(dim)});
        Tensor flag = t.dtype() == DType::bool_ ? t : one<"aten::_to_copy">({Arg(t), Arg(DType::bool_)});
        put(one<"aten::unsqueeze">({Arg(flag), Arg(0)}));
      } else {
        put(t);
      }
    } else if (PySequence_Check(o) && !PyDict_Check(o)) {
      put(index_tensor(o));
    } else {
      failf(ErrorKind::index,
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
            "indices (got {})",
            type_name(o));
    }
  }
  return r;
}

// One value behind one mask is a fill, which casts; everything else wants the dtype of the tensor.
bool fills_mask(const Indexed& r, const Tensor& from) {
  if (!(from.numel() == 1)) return false;
  int masks = 0, others = 0;
  for (const Tensor& t : r.indices)
    if (t.defined()) ++(t.dtype() == DType::bool_ || t.dtype() == DType::uint8 ? masks : others);
  return masks == 1 && others == 0;
}

}  // namespace

PyObject* get_item(PyObject* self, PyObject* index) noexcept {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    Indexed r = apply(t, index);
    if (r.advanced)
      r.view = one<"aten::index.Tensor">({Arg(r.view), r.list()});
    else if (r.view.is_same(t))
      r.view = one<"aten::alias">({Arg(t)});
    if (autograd::inference_mode())
      autograd::mark_inference(r.view);
    else if (!thread_state.grad_enabled)
      autograd::mark_view(r.view, false);
    return wrap(std::move(r.view));
  });
}

int set_item(PyObject* self, PyObject* index, PyObject* value) noexcept {
  PyObject* done = guarded([&]() -> PyObject* {
    if (!value) fail(ErrorKind::type, "Tensor does not support deleting items");
    const Tensor& t = tensor_of(self);
    check_may_change(t);
    Tensor from;
    Scalar number;
    bool is_scalar = false;
    if (is_tensor(value)) {
      from = tensor_of(value);
    } else if (maybe_scalar(value, number) && (!is_numpy_scalar(value) || PyFloat_Check(value) ||
                                               PyComplex_Check(value) || PyIndex_Check(value))) {
      is_scalar = true;
      if (number.is_complex() && number.to_complex().imag() == 0 && !t.is_complex())
        number = Scalar(number.to_complex().real());
      int overflow = 0;
      if (PyLong_Check(value)) PyLong_AsLongLongAndOverflow(value, &overflow);
      if (overflow && t.dtype() != DType::uint64) fail(ErrorKind::value, "Overflow when unpacking long long");
      check_fits(number, t.dtype());
    } else {
      failf(ErrorKind::type, "can't assign a {} to a tern.{}Tensor", type_name(value),
            script_name(t.dtype()));
    }
    if (index == Py_False) return Py_None;
    if (index == Py_True) index = Py_None;  // all of it, as a copy: another dtype is cast
    Indexed r = apply(t, index);
    if (r.advanced) {
      if (is_scalar)
        from = tensor(number, {.dtype = t.dtype()});
      else if (from.dtype() != t.dtype() && fills_mask(r, from))
        from = one<"aten::_to_copy">({Arg(from), Arg(t.dtype())});
      if (from.dtype() != t.dtype())
        failf(
            "Index put requires the source and destination dtypes match, got {} for the destination and {} "
            "for "
            "the source.",
            script_name(t.dtype()), script_name(from.dtype()));
      one<"aten::index_put_">({Arg(r.view), r.list(), Arg(from)});
    } else if (is_scalar) {
      one<"aten::fill_.Scalar">({Arg(r.view), Arg(number)});
    } else {
      // Leading dimensions of size one are dropped, as NumPy does.
      Dims sizes(from.sizes());
      size_t first = 0;
      while (sizes.size() - first > static_cast<size_t>(r.view.dim()) && sizes[first] == SymInt(1)) ++first;
      if (first)
        from = one<"aten::view">(
            {Arg(from), Arg(Span<const SymInt>(sizes.data() + first, sizes.size() - first))});
      one<"aten::copy_">({Arg(r.view), Arg(from)});
    }
    return Py_None;
  });
  return done ? 0 : -1;
}

}  // namespace tern::python
