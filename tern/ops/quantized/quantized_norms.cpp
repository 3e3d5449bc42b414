// Normalisation of quantized tensors (quantized::batch_norm2d, layer_norm and their relatives).
#include <cmath>

#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/quantized/norms.h"
#include "tern/ops/quantized/values.h"
#include "tern/ops/quantized_math.args.h"

namespace tern {

using namespace quantized;

namespace quantized {

// In steps of the input and the output: one factor and one shift for each channel, applied in one rounding.
Tensor batch_normed(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                    const Tensor& var, double eps, double scale, int64_t zero_point, bool relu) {
  check_quantized("quantized::batch_norm", x);
  const Quantizer& q = per_tensor(x);
  check_parameters("quantized::batch_norm", x.dtype(), zero_point);
  if (x.dim() < 2)
    failf("quantized::batch_norm: Expecting the input tensor of rank 2 or more, got {}", x.dim());
  for (const Tensor* t : {&weight, &bias, &mean, &var})
    if (t->defined() && !(t->numel() == x.size(1)))
      failf("quantized::batch_norm: expected {} numbers, one for each channel, but got {}", x.size(1).str(),
            t->numel().str());
  QuantizerPtr out = per_tensor_quantizer(scale, zero_point);
  if (without_data(x)) return like_quantized(x, x.dtype(), out);
  Tensor factor = reciprocal(sqrt(var + eps));
  if (weight.defined()) factor = factor * weight;
  Tensor shift = (bias.defined() ? bias : zeros_like(mean)) - mean * factor;
  Dims along(static_cast<size_t>(x.dim()), SymInt(1));
  along[1] = x.size(1);
  factor = reshape(factor * (q.scale / scale), along);
  shift = reshape(shift / scale, along);
  Tensor y = from_steps(to_steps(x) * factor + shift, x.dtype(), out);
  return relu ? clamp_integers(y, zero_point, range_of(x.dtype()).high) : y;
}

}  // namespace quantized

namespace {
Tensor back(const char* op, const Tensor& input, const Tensor& y, double scale, int64_t zero_point) {
  check_parameters(op, input.dtype(), zero_point);
  return from_real(y, input.dtype(), per_tensor_quantizer(scale, zero_point));
}
}  // namespace

#define TERN_BATCH_NORM(name, relu)                                                                        \
  Tensor kernel_quantized_##name(const args::quantized_##name& a) {                                        \
    return batch_normed(a.qx, a.weight, a.bias, a.mean, a.var, a.eps, a.output_scale, a.output_zero_point, \
                        relu);                                                                             \
  }
TERN_BATCH_NORM(ns_batch_norm, false)
TERN_BATCH_NORM(batch_norm_relu, true)
TERN_BATCH_NORM(batch_norm1d, false)
TERN_BATCH_NORM(batch_norm1d_relu, true)
TERN_BATCH_NORM(batch_norm2d, false)
TERN_BATCH_NORM(batch_norm2d_relu, true)
TERN_BATCH_NORM(batch_norm3d, false)
TERN_BATCH_NORM(batch_norm3d_relu, true)
#undef TERN_BATCH_NORM

Tensor kernel_quantized_layer_norm(const args::quantized_layer_norm& a) {
  check_quantized("quantized::layer_norm", a.input);
  Dims shape = dims_of(a.normalized_shape.span());
  return back("quantized::layer_norm", a.input, layer_norm(to_real(a.input), shape, a.weight, a.bias, a.eps),
              a.output_scale, a.output_zero_point);
}
Tensor kernel_quantized_group_norm(const args::quantized_group_norm& a) {
  check_quantized("quantized::group_norm", a.input);
  return back("quantized::group_norm", a.input,
              group_norm(to_real(a.input), a.num_groups, a.weight, a.bias, a.eps), a.output_scale,
              a.output_zero_point);
}
Tensor kernel_quantized_instance_norm(const args::quantized_instance_norm& a) {
  check_quantized("quantized::instance_norm", a.input);
  return back("quantized::instance_norm", a.input,
              instance_norm(to_real(a.input), a.weight, a.bias, Tensor(), Tensor(), true, 0.1, a.eps, false),
              a.output_scale, a.output_zero_point);
}

}  // namespace tern
