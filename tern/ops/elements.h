// Loops that the families' kernels share: choosing a C++ type by dtype, and walking strided tensors.
#pragma once
#include <complex>

#include "tern/base/error.h"
#include "tern/base/parallel.h"
#include "tern/dispatch/pointwise.h"
#include "tern/tensor/by_dtype.h"
#include "tern/tensor/tensor.h"

namespace tern {

[[noreturn]] void not_implemented_for(std::string_view op, DType d);  // '"sort" not implemented for 'Bool''

// A value of the size of an element, for kernels that only move elements.
template <size_t N>
struct Bytes {
  alignas(N) unsigned char data[N];
};
template <class F>
decltype(auto) by_element_size(DType d, F&& f) {
  switch (element_size(d)) {
    case 1:
      return f(Bytes<1>{});
    case 2:
      return f(Bytes<2>{});
    case 4:
      return f(Bytes<4>{});
    case 8:
      return f(Bytes<8>{});
    default:
      return f(Bytes<16>{});
  }
}

// f(T{}) with the C++ type of the dtype.
template <class F>
decltype(auto) by_dtype(const char* op, DType d, F&& f) {
  return by_dtype(kElements, d, f, [&] { not_implemented_for(op, d); });
}
// The same without complex numbers: what has an order.
template <class F>
decltype(auto) by_real_dtype(const char* op, DType d, F&& f) {
  return by_dtype(Types<bool>{} + kIntegers + kLateUnsigned + kFloats + kFloat8s, d, f,
                  [&] { not_implemented_for(op, d); });
}
// Float types only; narrow ones are storage and compute in float.
template <class F>
void by_float_dtype(const char* op, DType d, F&& f) {
  by_dtype(kFloats, d, f, [&] { not_implemented_for(op, d); });
}
// What sums and products of T are kept in.
template <class T>
struct Wide {
  using type = T;
};
template <>
struct Wide<Half> {
  using type = float;
};
template <>
struct Wide<BFloat16> {
  using type = float;
};
template <DType D>
struct Wide<Float8<D>> {
  using type = float;
};
template <class T>
using wide_t = typename Wide<T>::type;

// Goes through all positions of `sizes` in row-major order, keeping one element offset per operand.
template <int N>
class Walk {
 public:
  Walk(int64_t ndim, const int64_t* sizes) : ndim_(ndim), sizes_(sizes), at_(static_cast<size_t>(ndim), 0) {}
  void operand(int k, const int64_t* strides) { strides_[k] = strides; }
  int64_t offset(int k) const { return offset_[k]; }
  int64_t position(int64_t d) const { return at_[static_cast<size_t>(d)]; }
  void seek(int64_t linear) {
    for (int k = 0; k < N; ++k) offset_[k] = 0;
    for (int64_t d = ndim_; d-- > 0;) {
      int64_t size = sizes_[d] > 0 ? sizes_[d] : 1;
      at_[static_cast<size_t>(d)] = linear % size;
      linear /= size;
      for (int k = 0; k < N; ++k) offset_[k] += at_[static_cast<size_t>(d)] * strides_[k][d];
    }
  }
  void next() {
    for (int64_t d = ndim_; d-- > 0;) {
      int64_t& at = at_[static_cast<size_t>(d)];
      for (int k = 0; k < N; ++k) offset_[k] += strides_[k][d];
      if (++at < sizes_[d]) return;
      for (int k = 0; k < N; ++k) offset_[k] -= strides_[k][d] * at;
      at = 0;
    }
  }

 private:
  int64_t ndim_;
  const int64_t* sizes_;
  SmallVector<int64_t, 6> at_;
  const int64_t* strides_[N] = {};
  int64_t offset_[N] = {};
};

// Row-major memory of this dtype with these elements: the tensor itself where it already is that.
Tensor row_major(const Tensor& t, DType dtype = DType::undefined);
// The same without a handle of its own; where a copy is needed, `room` holds it.
inline const Tensor& row_major(const Tensor& t, Tensor& room, DType dtype = DType::undefined) {
  if (t.is_contiguous() && (dtype == DType::undefined || t.dtype() == dtype)) return t;
  return room = row_major(t, dtype);
}
// Indices as int64 in row-major memory; throws unless they are of an integer type.
Tensor index_values(const Tensor& t);
// Product of sizes before and after a dimension.
struct Rows {
  int64_t outer = 1, size = 1, inner = 1;
};
Rows rows_around(const Tensor& t, int64_t d);

// A size that only the data of `t` says: what the mode that captures answers, or a new symbol of the env t's
// sizes are of.
SymInt unknown_size(const char* op, const Tensor& t);
// Before an in-place operator writes: refuses memory that overlaps itself, counts the write.
void begin_write(const Tensor& self);

// Whether the strides of an image (3 to 5 dims) say that its channels are innermost; gaps do not matter, and
// where one order is as good as another (a single channel, a single pixel) it is row-major. What PyTorch
// calls the suggested memory format.
bool channels_innermost(const Tensor& t);
// A result of these sizes, with its channels innermost where the model (4 or 5 dims) has them there.
Shape laid_out_as(const Tensor& model, Dims sizes, DType dtype);
// f(a row-major tensor), which then is or is copied to `out`: for kernels that write row after row.
template <class F>
void by_rows(const Tensor& out, F&& f) {
  if (out.is_contiguous()) return f(out);
  Tensor rows = make_tensor(out.sizes(), out.dtype());
  f(rows);
  copy_elements(rows, out);
}

// The size of a _like result: memory format preserved or as asked.
Dims strides_like(const Tensor& t, std::optional<MemoryFormat> format);
Dims strides_for(Span<const SymInt> sizes, std::optional<MemoryFormat> format);

}  // namespace tern
