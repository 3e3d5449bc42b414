// Quantized tensors: what their integers stand for, what operators do with them, and what is refused. The
// numbers are PyTorch's; the long comparison is tests/python/test_quantized.py.
#include <gtest/gtest.h>

#include <cmath>

#include "tern/base/error.h"
#include "tern/dispatch/op.h"
#include "tern/dispatch/unpack.h"
#include "tern/ops.h"
#include "tern/ops/quantized/detail/packed.h"
#include "tern/ops/quantized/values.h"
#include "tests/support/errors.h"

namespace tern {
namespace {

using Integers = std::vector<int64_t>;

Integers ints(const Tensor& q) { return int_view(q).to_vector<int64_t>(); }

using tern::testing::error_of;

Tensor sample(DType d = DType::quint8) {
  return quantize_per_tensor(tensor({-1.0, -0.26, 0.0, 0.1, 0.5, 3.0}), 0.1, 10, d);
}
Value call_op(const char* name, std::vector<Value> args) {
  const Op& op = get_op(name);
  Bound bound(op, args);
  std::vector<Value> results(static_cast<size_t>(std::max<int>(op.results, 1)));
  call(op, bound.args(), results.data());
  return results[0];
}

TEST(Quantized, dtypes_have_atens_numbers_and_names) {
  EXPECT_EQ(static_cast<int>(DType::qint8), 12);
  EXPECT_EQ(static_cast<int>(DType::quint8), 13);
  EXPECT_EQ(static_cast<int>(DType::qint32), 14);
  EXPECT_EQ(parse_dtype("torch.quint8"), DType::quint8);
  EXPECT_EQ(script_name(DType::qint32), "QInt32");
  EXPECT_TRUE(is_quantized(DType::qint8));
  EXPECT_FALSE(is_quantized(DType::int8));
  EXPECT_FALSE(is_integral(DType::qint8, true));
  EXPECT_EQ(
      error_of([] { promote(DType::qint8, kFloat); }),
      "promoteTypes with quantized numbers is not handled yet; figure out what the correct rules should "
      "be, offending types: QInt8 Float");
}

TEST(Quantized, rounds_to_even_and_saturates) {
  Tensor x = tensor({-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1000.0, -1000.0, INFINITY, -INFINITY, NAN});
  EXPECT_EQ(ints(quantize_per_tensor(x, 1.0, 0, DType::qint8)),
            (Integers{-2, -2, 0, 0, 2, 2, 127, -128, 127, -128, 127}));
  EXPECT_EQ(ints(quantize_per_tensor(x, 1.0, 3, DType::quint8)),
            (Integers{0, 2, 2, 4, 4, 6, 255, 0, 255, 0, 255}));
  // The same beyond the reach of one vector.
  Tensor many = quantize_per_tensor(x.unsqueeze(1).expand({11, 40}).contiguous(), 1.0, 3, DType::quint8);
  EXPECT_EQ(ints(many[10]), Integers(40, 255));
  EXPECT_EQ(ints(many[2]), Integers(40, 2));
}

TEST(Quantized, dequantize_gives_the_steps) {
  Tensor q = sample();
  EXPECT_EQ(ints(q), (Integers{0, 7, 10, 11, 15, 40}));
  std::vector<float> x = dequantize(q).to_vector<float>();
  EXPECT_FLOAT_EQ(x[1], -0.3f);
  EXPECT_FLOAT_EQ(x[5], 3.0f);
  EXPECT_EQ(int_repr(q).dtype(), kByte);
  EXPECT_EQ(q_scale(q), 0.1);
  EXPECT_EQ(q_zero_point(q).as_int(), 10);
  EXPECT_EQ(qscheme(q).as_int(), 0);
  EXPECT_FLOAT_EQ(q[4].item<float>(), 0.5f);
}

TEST(Quantized, per_channel_has_a_scale_for_each_index) {
  Tensor q = quantize_per_channel(tensor({1.0, 2.0, 3.0, 4.0}).view({2, 2}), tensor({0.5, 1.0}),
                                  tensor({0, 10}), 0, DType::qint8);
  EXPECT_EQ(ints(q), (Integers{2, 4, 13, 14}));
  EXPECT_EQ(dequantize(q).to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(q_per_channel_axis(q).as_int(), 0);
  EXPECT_EQ(q_per_channel_zero_points(q).to_vector<int64_t>(), (Integers{0, 10}));
  // Views follow the axis, or are refused.
  EXPECT_EQ(quantizer_of(q[1]).scale, 1.0);
  EXPECT_EQ(quantizer_of(q.unsqueeze(0)).axis, 1);
  EXPECT_EQ(quantizer_of(q.slice(0, 1, 2)).zero_points.to_vector<int64_t>(), (Integers{10}));
  EXPECT_EQ(error_of([&] { q.t(); }), "Setting strides is possible only on uniformly quantized tensor");
}

TEST(Quantized, views_share_memory_and_quantizer) {
  Tensor q = sample().view({2, 3});
  Tensor v = q.transpose(0, 1).slice(0, 1, 3);
  EXPECT_TRUE(v.storage() == q.storage());
  EXPECT_TRUE(v.is_quantized());
  EXPECT_EQ(ints(v), (Integers{7, 15, 10, 40}));
  EXPECT_EQ(ints(v.contiguous()), ints(v));
  EXPECT_EQ(ints(reshape(q.t(), {6})), (Integers{0, 11, 7, 15, 10, 40}));
  v.fill_(0.0);
  EXPECT_EQ(ints(q), (Integers{0, 10, 10, 11, 10, 10}));
}

TEST(Quantized, activations_work_on_integers) {
  Tensor q = sample();
  EXPECT_EQ(ints(relu(q)), (Integers{10, 10, 10, 11, 15, 40}));
  EXPECT_EQ(ints(clamp(q, Scalar(-0.2), Scalar(0.3))), (Integers{8, 8, 10, 11, 13, 13}));
  EXPECT_EQ(ints(hardtanh(q, Scalar(-1), Scalar(1))), (Integers{0, 7, 10, 11, 15, 20}));
  EXPECT_EQ(ints(leaky_relu(q, Scalar(0.5))), (Integers{5, 8, 10, 11, 15, 40}));
  Tensor s = sigmoid(q);
  EXPECT_EQ(q_scale(s), 1.0 / 256);
  EXPECT_EQ(ints(s), (Integers{69, 109, 128, 134, 159, 244}));
  Tensor t = tanh(sample(DType::qint8));
  EXPECT_EQ(q_zero_point(t).as_int(), 0);
  EXPECT_EQ(q_scale(t), 2.0 / 256);
  Tensor in_place = sample();
  relu_(in_place);
  EXPECT_EQ(ints(in_place), ints(relu(q)));
}

TEST(Quantized, pools_and_means_round_once) {
  Tensor q = quantize_per_tensor(arange(Scalar(16)).to(kFloat).view({1, 1, 4, 4}), 1.0, 2, DType::quint8);
  EXPECT_EQ(ints(max_pool2d(q, {2, 2})), (Integers{7, 9, 15, 17}));
  EXPECT_EQ(ints(avg_pool2d(q, {2, 2})), (Integers{4, 6, 12, 14}));  // 2.5 is 2, 4.5 is 4
  EXPECT_EQ(ints(adaptive_avg_pool2d(q, {1, 1})), (Integers{10}));   // 7.5 is 8
  EXPECT_EQ(ints(mean(q, {2, 3})), (Integers{10}));
  EXPECT_EQ(ints(upsample_nearest2d(q.slice(2, 0, 1).slice(3, 0, 2), {1, 4})), (Integers{2, 2, 3, 3}));
}

TEST(Quantized, joining_takes_the_first_quantizer) {
  Tensor a = quantize_per_tensor(tensor({1.0, 2.0}), 0.5, 0, DType::quint8),
         b = quantize_per_tensor(tensor({1.0, 2.0}), 0.25, 4, DType::quint8);
  EXPECT_EQ(ints(cat(std::vector<Tensor>{a, b})), (Integers{2, 4, 2, 4}));
  EXPECT_EQ(ints(stack(std::vector<Tensor>{b, a})), (Integers{8, 12, 8, 12}));
  EXPECT_TRUE(equal(a, a.clone()));
  EXPECT_FALSE(equal(a, b));
}

TEST(Quantized, sums_and_products) {
  Tensor a = quantize_per_tensor(tensor({1.0, -2.0, 3.0}), 0.5, 10, DType::quint8),
         b = quantize_per_tensor(tensor({0.5, 0.5, -4.0}), 0.25, 20, DType::quint8);
  EXPECT_EQ(ints(call_op("quantized::add", {a, b, 0.5, 8}).tensor()), (Integers{11, 5, 6}));
  EXPECT_EQ(ints(call_op("quantized::add_relu", {a, b, 0.5, 8}).tensor()), (Integers{11, 8, 8}));
  EXPECT_EQ(ints(call_op("quantized::mul", {a, b, 0.5, 100}).tensor()), (Integers{101, 98, 76}));
  Tensor moved = call_op("quantized::add_scalar", {a, 2.0}).tensor();
  EXPECT_EQ(q_zero_point(moved).as_int(), 6);
  Tensor turned = call_op("quantized::mul_scalar", {a, -2.0}).tensor();
  EXPECT_EQ(dequantize(turned).to_vector<float>(), (std::vector<float>{-2, 4, -6}));
}

TEST(Quantized, linear_is_exact_in_integers) {
  Tensor w = quantize_per_channel(tensor({1.0, -1.0, 2.0, 0.5, 0.5, 0.5}).view({2, 3}), tensor({1.0, 0.5}),
                                  tensor({0, 0}), 0, DType::qint8);
  Tensor x = quantize_per_tensor(tensor({1.0, 2.0, 3.0, -1.0, 0.0, 4.0}).view({2, 3}), 1.0, 5, DType::quint8);
  Value packed = call_op("quantized::linear_prepack", {w, tensor({0.5, -1.0})});
  Tensor y = call_op("quantized::linear", {x, packed, 0.5, 7}).tensor();
  // 5.5 and 2, 7.5 and 0.5
  EXPECT_EQ(ints(y), (Integers{18, 11, 22, 8}));
  EXPECT_EQ(ints(call_op("quantized::linear_relu", {x, packed, 0.5, 12}).tensor()),
            (Integers{23, 16, 27, 13}));
  // A weight with a zero point, and signed activations.
  Tensor shifted = quantize_per_tensor(tensor({1.0, -1.0, 2.0}).view({1, 3}), 1.0, 3, DType::qint8);
  Tensor signed_x = quantize_per_tensor(tensor({1.0, 2.0, 3.0}).view({1, 3}), 1.0, -5, DType::qint8);
  Value p = call_op("quantized::linear_prepack", {shifted, Value()});
  EXPECT_EQ(ints(call_op("quantized::linear", {signed_x, p, 1.0, 0}).tensor()), (Integers{5}));
  // In float, with the input's scale chosen from it.
  Tensor real = call_op("quantized::linear_dynamic", {tensor({0.0, 127.5, 255.0}).view({1, 3}), p}).tensor();
  EXPECT_EQ(real.dtype(), kFloat);
  EXPECT_NEAR(real.item<float>(), 382.0, 0.51);
}

TEST(Quantized, convolution_pads_with_zero_and_is_channels_last) {
  Tensor w = quantize_per_tensor(ones({1, 1, 3, 3}), 1.0, 0, DType::qint8);
  Tensor x = quantize_per_tensor(ones({1, 1, 3, 3}), 1.0, 9, DType::quint8);
  Dims one{1, 1};
  Value packed = call_op("quantized::conv2d_prepack",
                         {w, Value(), Value(Span<const SymInt>(one)), Value(Span<const SymInt>(one)),
                          Value(Span<const SymInt>(one)), 1});
  Tensor y = call_op("quantized::conv2d.new", {x, packed, 1.0, 0}).tensor();
  EXPECT_EQ(ints(y), (Integers{4, 6, 4, 6, 9, 6, 4, 6, 4}));
  EXPECT_TRUE(y.is_contiguous(MemoryFormat::channels_last));
  EXPECT_EQ(call_op("quantized::conv2d_groups", {packed}).to_int(), 1);
}

TEST(Quantized, prints_as_pytorch_does) {
  EXPECT_EQ(sample().slice(0, 0, 2).str(),
            "tensor([-1.0000, -0.3000], size=(2,), dtype=torch.quint8,\n"
            "       quantization_scheme=torch.per_tensor_affine, scale=0.1, zero_point=10)");
}

TEST(Quantized, without_data_there_are_shapes) {
  Tensor x = make_tensor({2, 8}, kFloat, kMeta, true);
  Tensor q = quantize_per_tensor(x, 0.1, 3, DType::quint8);
  EXPECT_TRUE(q.is_quantized() && q.is_fake());
  EXPECT_TRUE(relu(q).is_quantized());
  EXPECT_EQ(str(dequantize(q.view({4, 4})).sizes()), "[4, 4]");
  Value packed = call_op("quantized::linear_prepack",
                         {quantize_per_tensor(ones({5, 8}), 0.1, 0, DType::qint8), Value()});
  EXPECT_EQ(str(call_op("quantized::linear", {q, packed, 0.1, 0}).tensor().sizes()), "[2, 5]");
  EXPECT_EQ(str(call_op("quantized::linear_dynamic", {x, packed}).tensor().sizes()), "[2, 5]");
}

TEST(Quantized, what_cannot_be_done_is_refused) {
  Tensor q = sample();
  EXPECT_TRUE(error_of([&] {
                exp(q);
              }).starts_with("Could not run 'aten::exp' with arguments from the 'QuantizedCPU' backend."));
  EXPECT_TRUE(error_of([&] {
                q + q;
              }).starts_with("Could not run 'aten::add.Tensor' with arguments from the 'QuantizedCPU'"));
  EXPECT_EQ(error_of([&] { q.to(kFloat); }),
            "Creation of quantized tensor requires quantized dtype like torch.quint8");
  EXPECT_EQ(
      error_of([&] { zeros({6}).copy_(q); }),
      "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize to get "
      "a float Tensor from a quantized Tensor");
  EXPECT_EQ(error_of([&] { quantize_per_tensor(zeros({2}, kDouble), 0.1, 0, DType::quint8); }),
            "Quantize only works on Float Tensor, got Double");
  EXPECT_EQ(error_of([&] { quantize_per_tensor(zeros({2}), 0.1, 0, static_cast<DType>(16)); }),
            "quantize_tensor_per_tensor_affine: Tern has no quint4x2: use quint8");
  Value packed = call_op("quantized::linear_prepack",
                         {quantize_per_tensor(ones({5, 8}), 0.1, 0, DType::qint8), Value()});
  EXPECT_NE(error_of([&] {
              call_op("quantized::linear", {q, packed, 0.1, 0});
            }).find("8 input features"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              call_op("quantized::linear", {q, Value(3), 0.1, 0});
            }).find("packed weights"),
            std::string::npos);
}

}  // namespace
}  // namespace tern
