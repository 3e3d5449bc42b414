// What quantized layers are in programs without quantized tensors (ONNX, .pt2): float arithmetic between
// quantize and dequantize of PT2E. Results that get no scale of their own (means, averages) keep what lies
// between two steps, so they may differ from the integers by half a step. Activations are quint8, as
// torch.ao.quantization makes them; others are refused.
#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/packed.args.h"
#include "tern/ops/quantized.args.h"
#include "tern/ops/quantized/detail/packed.h"
#include "tern/ops/quantized/values.h"
#include "tern/ops/quantized_math.args.h"

namespace tern {

using namespace quantized;

namespace {

Tensor call_named(const char* name, std::vector<Value> args) {
  const Op& op = get_op(name);
  Bound bound(op, args);
  Value result;
  call(op, bound.args(), &result);
  return result.take_tensor();
}

// A step of its own for every result: float numbers that quint8 holds.
Tensor in_steps(const Tensor& x, double scale, int64_t zero_point) {
  Tensor q = call_named("quantized_decomposed::quantize_per_tensor",
                        {x, scale, zero_point, 0, 255, Value(DType::uint8)});
  return call_named("quantized_decomposed::dequantize_per_tensor",
                    {q, scale, zero_point, 0, 255, Value(DType::uint8)});
}

// The weight as integers with a dequantize before it.
Tensor weight_of(const Tensor& w) {
  const Quantizer& q = quantizer_of(w);
  Tensor integers = int_view(w);
  if (q.per_tensor())
    return call_named("quantized_decomposed::dequantize_per_tensor",
                      {integers, q.scale, q.zero_point, -128, 127, Value(DType::int8)});
  std::vector<float> scales = q.scales.to_vector<float>();
  return call_named("quantized_decomposed::dequantize_per_channel",
                    {integers, from_vector(scales, {SymInt(scales.size())}), q.zero_points, q.axis, -128, 127,
                     Value(DType::int8)});
}

Tensor column_of(const std::vector<float>& values) {
  return from_vector(values, {SymInt(static_cast<int64_t>(values.size())), SymInt(1)});
}

Tensor linear_of(const Value& packed, const Tensor& x, bool relu) {
  const PackedLinear& w = PackedLinear::of(packed, "quantized::linear");
  Tensor y = linear(x, w.half ? w.weight : weight_of(w.weight), w.bias);
  return relu ? tern::relu(y) : y;
}
// As many steps as bytes have (half of them with `reduce_range`), over what x holds.
Tensor in_own_steps(const Tensor& given, bool reduce_range) {
  Tensor x = given.contiguous();  // PyTorch's operators keep strides, and views of the result depend on them
  const int64_t high = reduce_range ? 127 : 255;
  const Op& choose = get_op("quantized_decomposed::choose_qparams.tensor");
  std::vector<Value> args{x, 0, high, 6.1e-5, Value(DType::uint8)};
  Bound bound(choose, args);
  Value chosen[2];
  call(choose, bound.args(), chosen);
  Tensor q = call_named("quantized_decomposed::quantize_per_tensor.tensor",
                        {x, chosen[0], chosen[1], 0, high, Value(DType::uint8)});
  return call_named("quantized_decomposed::dequantize_per_tensor.tensor",
                    {q, chosen[0], chosen[1], 0, high, Value(DType::uint8)});
}
Tensor linear_dynamic_of(const Value& packed, const Tensor& x, bool reduce_range, bool relu) {
  return linear_of(packed, in_own_steps(x, reduce_range), relu);
}

Tensor conv_of(const Value& packed, const Tensor& given, bool relu, bool one_dim = false) {
  const PackedConv& c = PackedConv::of(packed, "quantized::conv");
  Tensor x = one_dim ? unsqueeze(given, 2) : given;
  Tensor y = convolution(x, weight_of(c.weight), c.bias, dims_of(c.p.stride), dims_of(c.p.padding),
                         dims_of(c.p.dilation), c.p.transposed, dims_of(c.p.output_padding), c.p.groups);
  if (one_dim) y = squeeze(y, 2);
  return relu ? tern::relu(y) : y;
}

}  // namespace

namespace quantized {

Product expanded_product(const Value& packed, bool reduce_range) {
  const PackedLinear& w = PackedLinear::of(packed, "quantized rnn");
  Tensor weight = w.half ? w.weight : weight_of(w.weight), bias = w.bias;
  bool half = w.half;
  return [=](const Tensor& x) { return linear(half ? x : in_own_steps(x, reduce_range), weight, bias); };
}

}  // namespace quantized

Tensor body_quantize_per_tensor(const args::quantize_per_tensor& a) {
  if (a.dtype != DType::quint8)
    failf(ErrorKind::not_supported, "activations of {} have no form without quantized tensors: quint8 have",
          name(a.dtype));
  return in_steps(a.self, a.scale, a.zero_point);
}
Tensor body_quantize_per_tensor_tensor_qparams(const args::quantize_per_tensor_tensor_qparams& a) {
  if (a.dtype != DType::quint8)
    failf(ErrorKind::not_supported, "activations of {} have no form without quantized tensors: quint8 have",
          name(a.dtype));
  Tensor q = call_named("quantized_decomposed::quantize_per_tensor.tensor",
                        {a.self, a.scale, a.zero_point, 0, 255, Value(DType::uint8)});
  return call_named("quantized_decomposed::dequantize_per_tensor.tensor",
                    {q, a.scale, a.zero_point, 0, 255, Value(DType::uint8)});
}
Tensor body_dequantize_self(const args::dequantize_self& a) { return to(a.self, kFloat); }

Tensor body_quantized_linear(const args::quantized_linear& a) {
  return in_steps(linear_of(a.W_prepack, a.X, false), a.Y_scale_i, a.Y_zero_point_i);
}
Tensor body_quantized_linear_relu(const args::quantized_linear_relu& a) {
  return in_steps(linear_of(a.W_prepack, a.X, true), a.Y_scale_i, a.Y_zero_point_i);
}
Tensor body_quantized_linear_dynamic(const args::quantized_linear_dynamic& a) {
  return linear_dynamic_of(a.W_prepack, a.X, a.reduce_range, false);
}
Tensor body_quantized_linear_relu_dynamic(const args::quantized_linear_relu_dynamic& a) {
  return linear_dynamic_of(a.W_prepack, a.X, a.reduce_range, true);
}
Tensor body_quantized_linear_dynamic_fp16(const args::quantized_linear_dynamic_fp16& a) {
  return linear_of(a.W_prepack, a.X, false);
}
Tensor body_quantized_linear_relu_dynamic_fp16(const args::quantized_linear_relu_dynamic_fp16& a) {
  return linear_of(a.W_prepack, a.X, true);
}

#define TERN_EXPAND_CONV(name, relu, one_dim)                                                            \
  Tensor body_quantized_##name(const args::quantized_##name& a) {                                        \
    return in_steps(conv_of(a.packed_weight, a.qx, relu, one_dim), a.output_scale, a.output_zero_point); \
  }
TERN_EXPAND_CONV(conv1d, false, true)
TERN_EXPAND_CONV(conv1d_relu, true, true)
TERN_EXPAND_CONV(conv2d_new, false, false)
TERN_EXPAND_CONV(conv2d_relu_new, true, false)
TERN_EXPAND_CONV(conv3d_new, false, false)
TERN_EXPAND_CONV(conv3d_relu_new, true, false)
TERN_EXPAND_CONV(conv_transpose1d, false, true)
TERN_EXPAND_CONV(conv_transpose2d, false, false)
TERN_EXPAND_CONV(conv_transpose3d, false, false)
#undef TERN_EXPAND_CONV

Tensor body_quantized_add(const args::quantized_add& a) {
  return in_steps(a.qa + a.qb, a.scale, a.zero_point);
}
Tensor body_quantized_add_relu(const args::quantized_add_relu& a) {
  return in_steps(relu(a.qa + a.qb), a.scale, a.zero_point);
}
Tensor body_quantized_mul(const args::quantized_mul& a) {
  return in_steps(a.qa * a.qb, a.scale, a.zero_point);
}
Tensor body_quantized_mul_relu(const args::quantized_mul_relu& a) {
  return in_steps(relu(a.qa * a.qb), a.scale, a.zero_point);
}
Tensor body_quantized_add_scalar(const args::quantized_add_scalar& a) { return add(a.qa, a.b); }
Tensor body_quantized_mul_scalar(const args::quantized_mul_scalar& a) { return mul(a.qa, a.b); }
#define TERN_EXPAND_NUMBERS(what)                                                               \
  Tensor body_quantized_##what##_Scalar(const args::quantized_##what##_Scalar& a) {             \
    return what(a.qa, a.b);                                                                     \
  }                                                                                             \
  Tensor body_quantized_##what##_Scalar2(const args::quantized_##what##_Scalar2& a) {           \
    return what(a.qa, a.b);                                                                     \
  }                                                                                             \
  Tensor body_quantized_##what##_relu_Scalar(const args::quantized_##what##_relu_Scalar& a) {   \
    return relu(what(a.qa, a.b));                                                               \
  }                                                                                             \
  Tensor body_quantized_##what##_relu_Scalar2(const args::quantized_##what##_relu_Scalar2& a) { \
    return relu(what(a.qa, a.b));                                                               \
  }                                                                                             \
  Tensor body_quantized_##what##_scalar_relu(const args::quantized_##what##_scalar_relu& a) {   \
    return relu(what(a.qa, a.b));                                                               \
  }
TERN_EXPAND_NUMBERS(add)
TERN_EXPAND_NUMBERS(mul)
#undef TERN_EXPAND_NUMBERS

Tensor body_quantized_matmul(const args::quantized_matmul& a) {
  return in_steps(matmul(a.qa, a.qb), a.scale, a.zero_point);
}
Tensor body_quantized_cat_relu(const args::quantized_cat_relu& a) {
  Tensor all = relu(cat(a.qx, a.dim));
  return a.scale && a.zero_point ? in_steps(all, *a.scale, *a.zero_point) : all;
}
Tensor body_quantized_clamp(const args::quantized_clamp& a) { return clamp(a.qx, a.min, a.max); }
Tensor body_quantized_relu6(const args::quantized_relu6& a) { return relu6(a.qx); }
Tensor body_quantized_threshold(const args::quantized_threshold& a) {
  return threshold(a.qx, a.threshold, a.value);
}
Tensor body_quantized_celu(const args::quantized_celu& a) {
  return in_steps(celu(a.self, a.alpha), a.output_scale, a.output_zero_point);
}
Tensor body_quantized_prelu(const args::quantized_prelu& a) {
  return in_steps(prelu(a.qx, a.weight), a.output_scale, a.output_zero_point);
}

#define TERN_EXPAND_BATCH_NORM(name, activation)                                            \
  Tensor body_quantized_##name(const args::quantized_##name& a) {                           \
    Tensor y = batch_norm(a.qx, a.weight, a.bias, a.mean, a.var, false, 0.1, a.eps, false); \
    return in_steps(activation(y), a.output_scale, a.output_zero_point);                    \
  }
TERN_EXPAND_BATCH_NORM(ns_batch_norm, )
TERN_EXPAND_BATCH_NORM(batch_norm_relu, relu)
TERN_EXPAND_BATCH_NORM(batch_norm1d, )
TERN_EXPAND_BATCH_NORM(batch_norm1d_relu, relu)
TERN_EXPAND_BATCH_NORM(batch_norm2d, )
TERN_EXPAND_BATCH_NORM(batch_norm2d_relu, relu)
TERN_EXPAND_BATCH_NORM(batch_norm3d, )
TERN_EXPAND_BATCH_NORM(batch_norm3d_relu, relu)
#undef TERN_EXPAND_BATCH_NORM

Tensor body_quantized_cat(const args::quantized_cat& a) {
  Tensor all = cat(a.qx, a.dim);
  return a.scale && a.zero_point ? in_steps(all, *a.scale, *a.zero_point) : all;
}
Tensor body_quantized_hardswish(const args::quantized_hardswish& a) {
  return in_steps(hardswish(a.input), a.output_scale, a.output_zero_point);
}
Tensor body_quantized_sigmoid(const args::quantized_sigmoid& a) {
  return in_steps(sigmoid(a.qx), a.output_scale, a.output_zero_point);
}
Tensor body_quantized_leaky_relu(const args::quantized_leaky_relu& a) {
  return in_steps(leaky_relu(a.qx, a.negative_slope), a.output_scale, a.output_zero_point);
}
Tensor body_quantized_elu(const args::quantized_elu& a) {
  return in_steps(elu(a.self, a.alpha, a.scale, a.input_scale), a.output_scale, a.output_zero_point);
}
Tensor body_quantized_softmax(const args::quantized_softmax& a) {
  return in_steps(softmax(a.qx, a.dim), a.output_scale, a.output_zero_point);
}
Tensor body_quantized_layer_norm(const args::quantized_layer_norm& a) {
  Dims shape = dims_of(a.normalized_shape.span());
  return in_steps(layer_norm(a.input, shape, a.weight, a.bias, a.eps), a.output_scale, a.output_zero_point);
}
Tensor body_quantized_group_norm(const args::quantized_group_norm& a) {
  return in_steps(group_norm(a.input, a.num_groups, a.weight, a.bias, a.eps), a.output_scale,
                  a.output_zero_point);
}
Tensor body_quantized_instance_norm(const args::quantized_instance_norm& a) {
  return in_steps(instance_norm(a.input, a.weight, a.bias, Tensor(), Tensor(), true, 0.1, a.eps, false),
                  a.output_scale, a.output_zero_point);
}

// Only the rows that are asked for become floats.
Tensor body_quantized_embedding_byte(const args::quantized_embedding_byte& a) {
  if (a.pruned_weights)
    fail(ErrorKind::not_supported, "quantized::embedding_byte: pruned weights are not supported");
  const PackedEmbedding& e = PackedEmbedding::of(a.weight, "quantized::embedding_byte");
  Tensor rows = to(embedding(int_view(e.weight), a.indices), kFloat);
  return rows * embedding(column_of(e.scales), a.indices) + embedding(column_of(e.offsets), a.indices);
}
Tensor body_quantized_embedding_bag_byte(const args::quantized_embedding_bag_byte& a) {
  if (a.pruned_weights || a.compressed_indices_mapping.defined() || a.mode != 0 || !a.offsets.defined())
    fail(ErrorKind::not_supported,
         "quantized::embedding_bag_byte: sums of bags that offsets divide have a form without quantized "
         "tensors; other modes, matrices of indices and pruned weights have none");
  const PackedEmbedding& e = PackedEmbedding::of(a.weight, "quantized::embedding_bag_byte");
  Tensor table = to(int_view(e.weight), kFloat) * column_of(e.scales) + column_of(e.offsets);
  return std::get<0>(embedding_bag(table, a.indices, a.offsets, false, 0, false, a.per_sample_weights,
                                   a.include_last_offset));
}

}  // namespace tern
