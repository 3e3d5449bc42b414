#include "tern/tensor/quantizer.h"

#include <cmath>
#include <limits>

#include "tern/base/format.h"

namespace tern {

std::string_view name(QScheme s) {
  switch (s) {
    case QScheme::per_tensor_affine:
      return "per_tensor_affine";
    case QScheme::per_channel_affine:
      return "per_channel_affine";
    case QScheme::per_tensor_symmetric:
      return "per_tensor_symmetric";
    case QScheme::per_channel_symmetric:
      return "per_channel_symmetric";
    default:
      return "per_channel_affine_float_qparams";
  }
}

QuantizerPtr per_tensor_quantizer(double scale, int64_t zero_point) {
  auto q = new_shared<Quantizer>();
  q->scale = scale;
  q->zero_point = zero_point;
  return q;
}

QuantizerPtr per_channel_quantizer(const Tensor& scales, const Tensor& zero_points, int64_t axis) {
  if (!scales.defined() || !zero_points.defined())
    fail("per-channel quantization needs a tensor of scales and one of zero points");
  if (scales.dim() != 1) fail("scale tensor must have dimension 1");
  if (zero_points.dim() != 1) fail("zero_points tensor must have dimension 1");
  if (!(scales.sizes()[0] == zero_points.sizes()[0]))
    fail("number of elements in scales and zero_points must match");
  auto q = new_shared<Quantizer>();
  const bool real = is_floating(zero_points.dtype());
  q->scheme = real ? QScheme::per_channel_affine_float_qparams : QScheme::per_channel_affine;
  q->axis = axis;
  if (scales.is_fake() || zero_points.is_fake()) {
    q->scales = scales;
    q->zero_points = zero_points;
    return q;
  }
  if (real) {
    q->scales = from_vector(scales.to_vector<float>(), scales.sizes());
    q->zero_points = from_vector(zero_points.to_vector<float>(), zero_points.sizes());
  } else {
    q->scales = from_vector(scales.to_vector<double>(), scales.sizes());
    q->zero_points = from_vector(zero_points.to_vector<int64_t>(), zero_points.sizes());
  }
  return q;
}

bool same_quantizer(const Quantizer& a, const Quantizer& b) {
  if (&a == &b) return true;
  if (a.scheme != b.scheme) return false;
  if (a.per_tensor()) return a.scale == b.scale && a.zero_point == b.zero_point;
  if (a.axis != b.axis || !(a.scales.sizes()[0] == b.scales.sizes()[0])) return false;
  if (a.scales.is_fake() || b.scales.is_fake()) return a.scales.is_same(b.scales);
  return a.scales.to_vector<double>() == b.scales.to_vector<double>() &&
         a.zero_points.to_vector<double>() == b.zero_points.to_vector<double>();
}

DType int_dtype(DType t) {
  switch (t) {
    case DType::qint8:
      return DType::int8;
    case DType::quint8:
      return DType::uint8;
    case DType::qint32:
      return DType::int32;
    default:
      failf(ErrorKind::type, "expected a quantized dtype (qint8, quint8 or qint32) but got torch.{}",
            name(t));
  }
}
DType quantized_dtype(DType t) {
  switch (t) {
    case DType::int8:
      return DType::qint8;
    case DType::uint8:
      return DType::quint8;
    case DType::int32:
      return DType::qint32;
    default:
      failf(ErrorKind::type, "no quantized dtype keeps its values in torch.{}", name(t));
  }
}
IntRange range_of(DType t) {
  switch (t) {
    case DType::qint8:
      return {-128, 127};
    case DType::quint8:
      return {0, 255};
    case DType::qint32:
      return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    default:
      int_dtype(t);
      return {};
  }
}

Tensor int_view(const Tensor& q) {
  if (!q.is_quantized()) return q;
  Tensor t = q.shallow_copy();
  t->dtype = int_dtype(q.dtype());
  t->rungs &= static_cast<uint8_t>(~rung_meaning);
  t->meaning.reset();
  return t;
}
Tensor quantized_view(const Tensor& integers, const QuantizerPtr& quantizer) {
  Tensor t = integers.shallow_copy();
  t->dtype = quantized_dtype(integers.dtype());
  t->rungs |= rung_meaning;
  t->meaning = quantizer;
  return t;
}
Tensor make_quantized(Span<const SymInt> sizes, DType dtype, const QuantizerPtr& quantizer, bool fake,
                      Span<const SymInt> strides, Device device) {
  Tensor t = strides.empty() ? make_tensor(sizes, int_dtype(dtype), device, fake)
                             : make_tensor(sizes, strides, int_dtype(dtype), device, fake);
  t->dtype = dtype;
  t->rungs |= rung_meaning;
  t->meaning = quantizer;
  return t;
}
const Quantizer& quantizer_of(const Tensor& t) {
  if (!t.defined() || !t.is_quantized() || !t->meaning) fail("expected a quantized tensor");
  return static_cast<const Quantizer&>(*t->meaning);
}
QuantizerPtr quantizer_ptr(const Tensor& t) { return {t->meaning, &quantizer_of(t)}; }

Tensor dequantized(const Tensor& t) {
  const Quantizer& q = quantizer_of(t);
  std::vector<float> values = int_view(t).to_vector<float>();
  if (q.per_tensor()) {
    for (float& v : values) v = (v - static_cast<float>(q.zero_point)) * static_cast<float>(q.scale);
  } else {
    int64_t inner = 1, axis = q.axis, n = t.int_sizes()[axis];
    for (int64_t d = axis + 1; d < t.dim(); ++d) inner *= t.int_sizes()[d];
    std::vector<float> scales = q.scales.to_vector<float>(), zeros = q.zero_points.to_vector<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      auto c = static_cast<size_t>(static_cast<int64_t>(i) / inner % n);
      values[i] = (values[i] - zeros[c]) * scales[c];
    }
  }
  return from_vector(values, t.sizes());
}

}  // namespace tern
