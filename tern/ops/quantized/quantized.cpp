#include <cmath>

#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/quantized.args.h"
#include "tern/ops/quantized/norms.h"
#include "tern/ops/quantized/values.h"

namespace tern {

using namespace quantized;

namespace {

void check_plain(const char* op, const Tensor& t) {
  if (t.is_quantized())
    failf(
        ErrorKind::not_supported,
        "Could not run '{}' with arguments from the 'QuantizedCPU' backend: the tensor is quantized already; "
        "dequantize() it first",
        op);
}
Tensor quantize_one(const char* op, const Tensor& self, double scale, int64_t zero_point, DType dtype) {
  check_plain("aten::quantize_per_tensor", self);
  check_parameters(op, dtype, zero_point);
  return from_real(self, dtype, per_tensor_quantizer(scale, zero_point));
}
const Quantizer& per_channel(const Tensor& t) {
  const Quantizer& q = quantizer_of(t);
  if (q.per_tensor())
    fail(
        "Expected quantizer->qscheme() == kPerChannelAffine || quantizer->qscheme() == "
        "kPerChannelAffineFloatQParams to be true, but got false.  (Could this error message be improved?  "
        "If "
        "so, please report an enhancement request to PyTorch.)");
  return q;
}
DType wanted_dtype(std::optional<DType> dtype) {
  if (!dtype || !is_quantized(*dtype))
    fail("Creation of quantized tensor requires quantized dtype like torch.quint8");
  return *dtype;
}
Tensor empty_of(Span<const SymInt> size, DType dtype, const QuantizerPtr& q,
                std::optional<MemoryFormat> format, std::optional<Device> device) {
  Dims strides = format == MemoryFormat::channels_last || format == MemoryFormat::channels_last_3d
                     ? strides_for(size, format)
                     : Dims{};
  bool fake = (device && device->type == DeviceType::meta) || without_data(Span<const Tensor>());
  return make_quantized(size, dtype, q, fake, strides);
}

}  // namespace

Tensor kernel_quantize_per_tensor(const args::quantize_per_tensor& a) {
  return quantize_one("quantize_tensor_per_tensor_affine", a.self, a.scale, a.zero_point, a.dtype);
}
Tensor kernel_quantize_per_tensor_tensor_qparams(const args::quantize_per_tensor_tensor_qparams& a) {
  if (without_data(a.self) || a.scale.is_fake()) {
    check_parameters("quantize_tensor_per_tensor_affine", a.dtype, 0);
    return like_quantized(a.self, a.dtype, per_tensor_quantizer(1, 0));
  }
  return quantize_one("quantize_tensor_per_tensor_affine", a.self, a.scale.item<double>(),
                      a.zero_point.item<int64_t>(), a.dtype);
}
std::vector<Tensor> kernel_quantize_per_tensor_tensors(const args::quantize_per_tensor_tensors& a) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    auto k = static_cast<int64_t>(i);
    out.push_back(quantize_one("quantize_tensor_per_tensor_affine", a.tensors[i], a.scales[k].item<double>(),
                               a.zero_points[k].item<int64_t>(), a.dtype));
  }
  return out;
}
Tensor kernel_quantize_per_tensor_dynamic(const args::quantize_per_tensor_dynamic& a) {
  check_plain("aten::quantize_per_tensor_dynamic", a.self);
  if (a.dtype == DType::float16) return to(a.self, DType::float16);
  if (a.dtype != DType::qint8 && a.dtype != DType::quint8)
    failf("dtype {}not supported", script_name(a.dtype));
  if (a.self.dtype() != kFloat)
    failf("Quantize only works on Float Tensor, got {}", script_name(a.self.dtype()));
  if (without_data(a.self)) return like_quantized(a.self, a.dtype, per_tensor_quantizer(1, 0));
  Choice c = choose_parameters(a.self, a.dtype, a.reduce_range);
  return from_real(a.self, a.dtype, per_tensor_quantizer(c.scale, c.zero_point));
}
Tensor kernel_quantize_per_channel(const args::quantize_per_channel& a) {
  check_plain("aten::quantize_per_channel", a.self);
  QuantizerPtr q = per_channel_quantizer(a.scales, a.zero_points, a.axis);
  check_parameters("quantize_tensor_per_channel_affine", a.dtype, 0);
  if (q->scheme == QScheme::per_channel_affine && !q->zero_points.is_fake())
    for (int64_t z : q->zero_points.to_vector<int64_t>())
      check_parameters("quantize_tensor_per_channel_affine", a.dtype, z);
  return from_real(a.self, a.dtype, q);
}

Tensor kernel_dequantize_self(const args::dequantize_self& a) {
  return a.self.is_quantized() ? to_real(a.self) : to(a.self, kFloat);
}
std::vector<Tensor> kernel_dequantize_tensors(const args::dequantize_tensors& a) {
  std::vector<Tensor> out;
  for (const Tensor& t : a.tensors) out.push_back(dequantize(t));
  return out;
}
Tensor kernel_int_repr(const args::int_repr& a) {
  check_quantized("aten::int_repr", a.self);
  return int_view(a.self).clone();
}
double kernel_q_scale(const args::q_scale& a) {
  check_quantized("aten::q_scale", a.self);
  return per_tensor(a.self).scale;
}
SymInt kernel_q_zero_point(const args::q_zero_point& a) {
  check_quantized("aten::q_zero_point", a.self);
  return per_tensor(a.self).zero_point;
}
Tensor kernel_q_per_channel_scales(const args::q_per_channel_scales& a) {
  check_quantized("aten::q_per_channel_scales", a.self);
  return per_channel(a.self).scales;
}
Tensor kernel_q_per_channel_zero_points(const args::q_per_channel_zero_points& a) {
  check_quantized("aten::q_per_channel_zero_points", a.self);
  return per_channel(a.self).zero_points;
}
SymInt kernel_q_per_channel_axis(const args::q_per_channel_axis& a) {
  check_quantized("aten::q_per_channel_axis", a.self);
  return per_channel(a.self).axis;
}
SymInt kernel_qscheme(const args::qscheme& a) {
  check_quantized("aten::qscheme", a.self);
  return static_cast<int64_t>(quantizer_of(a.self).scheme);
}

std::tuple<double, SymInt> kernel__choose_qparams_per_tensor(const args::_choose_qparams_per_tensor& a) {
  if (a.self.dtype() != kFloat) failf("expected a Float tensor but got {}", script_name(a.self.dtype()));
  if (a.self.is_fake()) fail("_choose_qparams_per_tensor: the tensor has no data");
  Choice c = choose_parameters(a.self, DType::quint8, a.reduce_range);
  return {c.scale, c.zero_point};
}
Tensor kernel__make_per_tensor_quantized_tensor(const args::_make_per_tensor_quantized_tensor& a) {
  if (a.self.dtype() != kChar && a.self.dtype() != kByte && a.self.dtype() != kInt)
    fail("Creation of quantized tensor requires quantized dtype like torch.quint8");
  return quantized_view(a.self.clone(), per_tensor_quantizer(a.scale, a.zero_point));
}
Tensor kernel__make_per_channel_quantized_tensor(const args::_make_per_channel_quantized_tensor& a) {
  if (a.self.dtype() != kChar && a.self.dtype() != kByte && a.self.dtype() != kInt)
    fail("Creation of quantized tensor requires quantized dtype like torch.quint8");
  if (a.axis < 0 || a.axis >= a.self.dim() || !(a.self.size(a.axis) == a.scale.numel()))
    failf("length of scales must equal to channel: got {} for the dimension {} of {}", a.scale.numel().str(),
          a.axis, str(a.self.sizes()));
  return quantized_view(a.self.clone(), per_channel_quantizer(a.scale, a.zero_point, a.axis));
}
Tensor kernel__empty_affine_quantized(const args::_empty_affine_quantized& a) {
  return empty_of(a.size, wanted_dtype(a.dtype), per_tensor_quantizer(a.scale, a.zero_point), a.memory_format,
                  a.device);
}
Tensor kernel__empty_per_channel_affine_quantized(const args::_empty_per_channel_affine_quantized& a) {
  return empty_of(a.size, wanted_dtype(a.dtype), per_channel_quantizer(a.scales, a.zero_points, a.axis),
                  a.memory_format, a.device);
}
Tensor kernel_empty_quantized(const args::empty_quantized& a) {
  check_quantized("aten::empty_quantized", a.qtensor);
  Dims size = dims_of(a.size.span());
  return empty_of(size, a.dtype.value_or(a.qtensor.dtype()), quantizer_ptr(a.qtensor), a.memory_format,
                  a.device);
}

Tensor kernel_quantized_batch_norm(const args::quantized_batch_norm& a) {
  return batch_normed(a.input, a.weight, a.bias, a.mean, a.var, a.eps, a.output_scale, a.output_zero_point,
                      false);
}
Tensor kernel_quantized_max_pool1d(const args::quantized_max_pool1d& a) {
  return max_pool1d(a.self, a.kernel_size, a.stride, a.padding, a.dilation, a.ceil_mode);
}
Tensor kernel_quantized_max_pool2d(const args::quantized_max_pool2d& a) {
  return max_pool2d(a.self, a.kernel_size, a.stride, a.padding, a.dilation, a.ceil_mode);
}
Tensor kernel_quantized_max_pool3d(const args::quantized_max_pool3d& a) {
  return max_pool3d(a.self, a.kernel_size, a.stride, a.padding, a.dilation, a.ceil_mode);
}

}  // namespace tern
