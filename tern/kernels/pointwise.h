// The pointwise engine: one contiguous inner loop per (operator, compute type), and a driver that brings
// operands of any layout and element type to it in blocks that stay in the first-level cache.
#pragma once
#include <complex>
#include <cstdint>
#include <string_view>

#include "tern/tensor/dtype.h"

namespace tern::kernels {

// Scalar arguments, by position. A loop reads argument k from d[k] when it computes in a floating type, from
// i[k] in an integer type or bool, and from c[k] in a complex type. A null `params` means all ones.
struct Params {
  double d[4] = {1, 1, 1, 1};
  int64_t i[4] = {1, 1, 1, 1};
  std::complex<double> c[4] = {1, 1, 1, 1};
  DType stored = DType::undefined;  // what the tensors are of, where the loop's float is wider

  void set(int k, double value);
  void set(int k, int64_t value);
  void set(int k, std::complex<double> value);
};

using Loop = void (*)(const void* const* in, void* const* out, int64_t n, const void* params);

struct Operand {
  void* data;
  DType dtype;
  const int64_t* strides;  // in elements, one per dim; 0 repeats
};

// The loop of an operator for a compute type (bool, integers, float32, float64, complex64, complex128; use
// compute_dtype() for the narrow floats), or nullptr where the operator has no such type. The output is of
// the same type except: comparisons, logical_*, isnan, isinf, isfinite, signbit give bool; abs, angle, real
// and imag of complex give the real type. `where` takes {bool, T, T}; every other operator takes inputs of
// one type.
//
// Scalar arguments:  add/sub/rsub(alpha)  pow_scalar(exponent)  rpow_scalar(base)  clamp(min, max)
// clamp_min(min) clamp_max(max)  hardtanh(min, max)  threshold(threshold, value)  softplus(beta, threshold)
// elu(alpha, scale, input_scale)  celu(alpha)  leaky_relu(slope)  softshrink/hardshrink(lambda)
// nan_to_num(nan, +inf, -inf)  logit(eps; <0 none) addcmul/addcdiv(value)  lerp_scalar(weight)  fill(value)
// add_scalar/sub_scalar/rsub_scalar/mul_scalar/div_scalar/ rdiv_scalar(other)  threshold_backward(threshold)
// softplus_backward(beta, threshold)  leaky_relu_backward(slope) elu_backward(alpha, scale, input_scale,
// is_result)  hardtanh_backward(min, max)  logit_backward(eps). A backward loop takes (grad, x), or (grad,
// result) for sigmoid_backward and tanh_backward.
Loop find_loop(std::string_view op_name, DType compute);

void run_pointwise(Loop loop, DType compute_in, DType compute_out, int ndim, const int64_t* sizes,
                   const Operand* outputs, int nout, const Operand* inputs, int nin, const void* params);
// The same with a compute type for each input.
void run_pointwise(Loop loop, const DType* compute_in, DType compute_out, int ndim, const int64_t* sizes,
                   const Operand* outputs, int nout, const Operand* inputs, int nin, const void* params);

// out = in with a cast, for any two layouts of the same sizes.
void copy_strided(int ndim, const int64_t* sizes, const Operand& out, const Operand& in);
void fill_strided(int ndim, const int64_t* sizes, const Operand& out, const Params& value);  // value number 0

// Converts n elements; strides in elements. float -> integer truncates; complex -> real drops the imaginary
// part.
using Cast = void (*)(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n);
Cast find_cast(DType from, DType to);  // throws not_supported for quantized types

}  // namespace tern::kernels
