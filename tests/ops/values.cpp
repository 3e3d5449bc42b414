// What the operators compute, with numbers from PyTorch; element types, sizes, layouts and messages.
#include <gmock/gmock.h>

#include <cmath>

#include "tern/base/error.h"
#include "tests/support/errors.h"
#include "tests/support/gradcheck.h"

namespace tern::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using tern::testing::error_of;

void expect_near(const Tensor& t, std::vector<double> wanted, double tolerance = 1e-5) {
  std::vector<double> got = t.to_vector<double>();
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(wanted[i]))
      EXPECT_TRUE(std::isnan(got[i])) << i;
    else if (std::isinf(wanted[i]))
      EXPECT_EQ(got[i], wanted[i]) << i;
    else
      EXPECT_NEAR(got[i], wanted[i], tolerance) << i;
  }
}

Tensor floats(std::vector<float> v, Span<const SymInt> sizes) { return from_vector<float>(v, sizes); }

TEST(OpReduce, integers_add_up_in_int64) {
  Tensor x = tensor({100, 100, 100}).to(kChar);
  EXPECT_EQ(sum(x).dtype(), kLong);
  EXPECT_EQ(sum(x).item<int64_t>(), 300);
  EXPECT_EQ(sum(tensor({true, true, false})).item<int64_t>(), 2);
  EXPECT_EQ(cumsum(x, 0).dtype(), kLong);
  EXPECT_EQ(prod(x).item<int64_t>(), 1000000);
  EXPECT_EQ(sum(tensor({1.5, 1.7}), kLong).item<int64_t>(), 2);
}

TEST(OpReduce, dims) {
  Tensor x = floats({1, 2, 3, 4, 5, 6}, {2, 3});
  expect_near(sum(x, {0}), {5, 7, 9});
  expect_near(sum(x, {-1}), {6, 15});
  expect_near(sum(x.t(), {0}), {6, 15});
  EXPECT_EQ(str(sum(x, {0, 1}, true).sizes()), "[1, 1]");
  EXPECT_EQ(str(sum(x, Ints(Span<const int64_t>())).sizes()), "[]");
  expect_near(mean(x, {1}), {2, 5});
  expect_near(amax(x, {0}), {4, 5, 6});
  auto [values, indices] = max(x, 1);
  expect_near(values, {3, 6});
  EXPECT_THAT(indices.to_vector<int64_t>(), ElementsAre(2, 2));
  EXPECT_EQ(argmax(x).item<int64_t>(), 5);
  EXPECT_THAT(argmin(x, 0, true).to_vector<int64_t>(), ElementsAre(0, 0, 0));
  EXPECT_EQ(error_of([&] { sum(x, {0, 0}); }), "dim 0 appears multiple times in the list of dims");
  EXPECT_THAT(error_of([&] { sum(x, {2}); }),
              HasSubstr("Dimension out of range (expected to be in range of [-2, 1], but got 2)"));
}

TEST(OpReduce, empty_and_zero_dim) {
  Tensor none = floats({}, {0, 3}), one = tensor(2.5);
  EXPECT_EQ(sum(none).item<double>(), 0);
  expect_near(sum(none, {0}), {0, 0, 0});
  EXPECT_TRUE(std::isnan(mean(none).item<double>()));
  EXPECT_EQ(str(amax(none, {1}).sizes()), "[0]");
  EXPECT_EQ(sum(one, {0}).item<double>(), 2.5);
  EXPECT_EQ(sum(one, {-1}, true).dim(), 0);
  EXPECT_EQ(std::get<1>(max(one, 0)).item<int64_t>(), 0);
  EXPECT_EQ(error_of([&] { max(none); }),
            "max(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
            "with the 'dim' argument.");
  EXPECT_EQ(error_of([&] { amax(none, {0}); }), "amax(): Expected reduction dim 0 to have non-zero size.");
  EXPECT_TRUE(all(none).item<bool>());
  EXPECT_FALSE(any(none).item<bool>());
  EXPECT_THAT(error_of([] {
                mean(tensor({1, 2}).to(kLong));
              }),
              HasSubstr("mean(): could not infer output dtype. Input dtype must be either a floating point "
                        "or complex dtype. Got: Long"));
}

TEST(OpReduce, moments_and_norms) {
  Tensor x = floats({1, 2, 4, 8}, {2, 2});
  expect_near(var(x), {9.583333});
  expect_near(var(x, {1}, 0), {0.25, 4});
  expect_near(tern::std(x, {0}), {2.1213203, 4.2426405});
  expect_near(norm(x), {9.2195444});
  expect_near(linalg_vector_norm(x, 0), {4});
  expect_near(linalg_vector_norm(x, INFINITY, {1}), {2, 8});
  expect_near(logsumexp(x, {1}), {2.3132617, 8.0181499});
  expect_near(cumprod(x, 1), {1, 2, 4, 32});
  EXPECT_EQ(count_nonzero(tensor({0, 3, 0, 1})).item<int64_t>(), 2);
}

TEST(OpArithmetic, promotion) {
  Tensor i = tensor({1, 2}).to(kInt), l = tensor({1, 2}).to(kLong), f = tensor({1.f, 2.f}), h = f.to(kHalf);
  EXPECT_EQ((i + l).dtype(), kLong);
  EXPECT_EQ((i + 1.5).dtype(), kFloat);
  EXPECT_EQ((h + 1.5).dtype(), kHalf);
  EXPECT_EQ((i / i).dtype(), kFloat);
  EXPECT_EQ(pow(i, 2).dtype(), kInt);
  EXPECT_EQ(pow(i, 0.5).dtype(), kFloat);
  EXPECT_EQ(pow(2.0, l).dtype(), kFloat);
  EXPECT_EQ(sqrt(l).dtype(), kFloat);
  EXPECT_EQ(div(l, l, "floor").dtype(), kLong);
  EXPECT_EQ(where(f > 1, l, 0.5).dtype(), kFloat);
  EXPECT_EQ((f > l).dtype(), kBool);
  EXPECT_EQ(clamp(i, 0.5).dtype(), kFloat);
}

TEST(OpArithmetic, values) {
  Tensor x = tensor({-7, -1, 0, 7}).to(kLong);
  EXPECT_THAT(div(x, 2, "floor").to_vector<int64_t>(), ElementsAre(-4, -1, 0, 3));
  EXPECT_THAT(div(x, 2, "trunc").to_vector<int64_t>(), ElementsAre(-3, 0, 0, 3));
  EXPECT_THAT(floor_divide(x, 2).to_vector<int64_t>(), ElementsAre(-4, -1, 0, 3));
  EXPECT_THAT(remainder(x, 3).to_vector<int64_t>(), ElementsAre(2, 2, 0, 1));
  EXPECT_THAT(fmod(x, 3).to_vector<int64_t>(), ElementsAre(-1, -1, 0, 1));
  EXPECT_THAT(clamp(x, -2, 3).to_vector<int64_t>(), ElementsAre(-2, -1, 0, 3));
  EXPECT_THAT(clamp(x.to(kByte), {}, 250).to_vector<int64_t>(), ElementsAre(249, 250, 0, 7));
  EXPECT_EQ(error_of([&] { clamp(x.to(kByte), {}, 1000); }),
            "value cannot be converted to type uint8_t without overflow");
  EXPECT_THAT(abs(x).to_vector<int64_t>(), ElementsAre(7, 1, 0, 7));
  EXPECT_EQ(error_of([&] { pow(x, -1); }), "Integers to negative integer powers are not allowed.");
  EXPECT_EQ(error_of([&] { div(x, 2, "round"); }),
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found 'round'");
  EXPECT_EQ(error_of([&] { clamp(x, std::nullopt, std::nullopt); }),
            "torch.clamp: At least one of 'min' or 'max' must not be None");
  EXPECT_EQ(error_of([&] {
              tensor({1.f, 2.f}) + tensor({1.f, 2.f, 3.f});
            }),
            "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0");
}

TEST(OpMath, values) {
  expect_near(digamma(tensor({0.5, 1.0, 3.0})), {-1.9635100, -0.5772157, 0.9227843});
  expect_near(polygamma(1, tensor({0.5, 1.0, 3.0})), {4.9348022, 1.6449341, 0.3949341});
  expect_near(polygamma(2, tensor({0.5, 1.0, 3.0})), {-16.8287966, -2.4041138, -0.1541138});
  expect_near(nan_to_num(tensor({NAN, INFINITY, -INFINITY, 1.f})),
              {0, 3.4028234663852886e38, -3.4028234663852886e38, 1}, 1e30);
  expect_near(round(tensor({0.5, 1.5, 2.5, -0.5})), {0, 2, 2, 0});
  expect_near(round(tensor({1.2345}), 2), {1.23});
  EXPECT_THAT(isfinite(tensor({NAN, INFINITY, 1.f})).to_vector<bool>(), ElementsAre(false, false, true));
  EXPECT_THAT(floor(tensor({1, 2}).to(kLong)).to_vector<int64_t>(), ElementsAre(1, 2));
}

TEST(OpCompare, numbers_and_bits) {
  Tensor x = tensor({1, 2, 3}).to(kLong);
  EXPECT_THAT(ge(x, 2).to_vector<bool>(), ElementsAre(false, true, true));
  EXPECT_THAT((x == 1.5).to_vector<bool>(), ElementsAre(false, false, false));
  EXPECT_THAT(bitwise_and(x, 2).to_vector<int64_t>(), ElementsAre(0, 2, 2));
  EXPECT_THAT(bitwise_left_shift(x, 1).to_vector<int64_t>(), ElementsAre(2, 4, 6));
  EXPECT_THAT(error_of([] { bitwise_not(tensor({1.5f})); }),
              HasSubstr("\"bitwise_not_cpu\" not implemented for 'Float'"));
  EXPECT_THAT(
      error_of([] { where(tensor({1.f}), tensor({1.f}), tensor({2.f})); }),
      HasSubstr("where expected condition to be a boolean tensor, but got a tensor with dtype Float"));
  EXPECT_TRUE(allclose(tensor({1.0, 2.0}), tensor({1.0, 2.0 + 1e-7})));
  EXPECT_FALSE(allclose(tensor({NAN}), tensor({NAN})));
  EXPECT_TRUE(allclose(tensor({NAN}), tensor({NAN}), 1e-5, 1e-8, true));
  EXPECT_TRUE(equal(x, x.clone()));
  EXPECT_FALSE(equal(x, tensor({1, 2}).to(kLong)));
}

TEST(OpActivation, values) {
  Tensor x = tensor({-2.f, -0.5f, 0.f, 1.f});
  expect_near(gelu(x), {-0.04550027, -0.15426877, 0, 0.8413447});
  expect_near(gelu(x, "tanh"), {-0.04540229, -0.15428599, 0, 0.841192});
  expect_near(silu(x), {-0.23840584, -0.18877034, 0, 0.7310586});
  expect_near(mish(x), {-0.25250149, -0.22074376, 0, 0.86509842});
  expect_near(elu(x), {-0.86466473, -0.39346933, 0, 1});
  expect_near(hardswish(x), {-0.33333334, -0.20833333, 0, 0.6666667});
  expect_near(log_sigmoid(x), {-2.1269281, -0.974077, -0.6931472, -0.31326166});
  expect_near(softplus(x), {0.12692805, 0.474077, 0.6931472, 1.3132616});
  EXPECT_EQ(error_of([&] { gelu(x, "erf"); }), "approximate argument must be either none or tanh.");
  EXPECT_THAT(error_of([&] {
                glu(tensor({1.f, 2.f, 3.f}));
              }),
              HasSubstr("Halving dimension must be even, but dimension 0 is size 3"));
  Tensor y = x.clone();
  relu_(y);
  expect_near(y, {0, 0, 0, 1});
}

TEST(OpLinear, products_of_any_layout_and_type) {
  Tensor a = floats({1, 2, 3, 4, 5, 6}, {2, 3}), b = floats({1, 0, 2, 1, 0, 3}, {3, 2});
  expect_near(mm(a, b), {5, 11, 14, 23});
  expect_near(mm(b.t(), a.t()), {5, 14, 11, 23});
  for (DType d : {kHalf, kBFloat16, kDouble, kInt, kLong, kComplexFloat}) {
    Tensor r = mm(a.to(d), b.to(d));
    EXPECT_EQ(r.dtype(), d);
    expect_near(real(r), {5, 11, 14, 23});
  }
  Tensor strided = floats({1, 9, 2, 9, 3, 9, 4, 9, 5, 9, 6, 9}, {2, 6}).slice(1, 0, 6, 2);
  expect_near(mm(strided, b), {5, 11, 14, 23});
  expect_near(addmm(tensor({1.f, 2.f}), a, b, 2, 0.5), {4.5, 9.5, 9, 15.5});
  expect_near(mm(floats({}, {2, 0}), floats({}, {0, 2})), {0, 0, 0, 0});
  expect_near(matmul(a, tensor({1.f, 1.f, 1.f})), {6, 15});
  expect_near(matmul(tensor({1.f, 1.f}), a), {5, 7, 9});
  EXPECT_EQ(matmul(tensor({1.f, 2.f}), tensor({3.f, 4.f})).item<double>(), 11);
  EXPECT_EQ(str(matmul(ones({2, 1, 3, 4}), ones({5, 4, 2})).sizes()), "[2, 5, 3, 2]");
  expect_near(linear(a, floats({1, 1, 1, 0, 1, 0}, {2, 3}), tensor({10.f, 20.f})), {16, 22, 25, 25});
  expect_near(einsum("ij,kj->ik", std::vector<Tensor>{a, a}), {14, 32, 32, 77});
  expect_near(einsum("ii", std::vector<Tensor>{mm(a, b)}), {28});
  expect_near(einsum("...j->...", std::vector<Tensor>{a}), {6, 15});
  expect_near(outer(tensor({1.f, 2.f}), tensor({3.f, 4.f})), {3, 4, 6, 8});
}

TEST(OpLinear, messages) {
  Tensor a = ones({2, 3}), b = ones({4, 5});
  EXPECT_EQ(error_of([&] { mm(a, b); }), "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)");
  EXPECT_EQ(error_of([&] {
              mm(a, ones({3, 2}).to(kDouble));
            }),
            "expected m1 and m2 to have the same dtype, but got: float != double");
  Tensor square = ones({2, 2}), wide = square.to(kDouble), row = ones({2});
  const char* sum = "mat1 and mat2 must have the same dtype, but got Float and Double";
  EXPECT_EQ(error_of([&] { addmm(row, square, wide); }), sum);
  EXPECT_EQ(error_of([&] { linear(square, wide, row); }), sum);
  EXPECT_EQ(error_of([&] { linear(square, wide); }),
            "expected m1 and m2 to have the same dtype, but got: float != double");
  EXPECT_EQ(error_of([&] {
              bmm(ones({1, 2, 2}), ones({1, 2, 2}).to(kDouble));
            }),
            "expected scalar type Float but found Double");
  Tensor signal = ones({1, 2, 2}), taps = ones({1, 2, 1});
  EXPECT_EQ(error_of([&] { conv1d(signal.to(kDouble), taps, ones({1})); }),
            "Input type (double) and bias type (float) should be the same");
  EXPECT_EQ(error_of([&] { conv1d(signal, taps.to(kDouble)); }),
            "expected scalar type Float but found Double");
  EXPECT_EQ(error_of([&] { mm(ones({3}), b); }), "self must be a matrix");
  EXPECT_EQ(error_of([&] {
              bmm(ones({2, 3, 4}), ones({2, 5, 4}));
            }),
            "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 5].");
  EXPECT_EQ(error_of([&] { linear(a, b); }), "mat1 and mat2 shapes cannot be multiplied (2x3 and 5x4)");
  EXPECT_EQ(error_of([&] { matmul(tensor(1.f), a); }),
            "both arguments to matmul need to be at least 1D, but they are 0D and 2D");
}

TEST(OpSoftmax, values) {
  Tensor x = floats({1, 2, 3, 1, 1, 1}, {2, 3});
  expect_near(softmax(x, -1), {0.09003057, 0.24472847, 0.66524096, 0.3333333, 0.3333333, 0.3333333});
  expect_near(log_softmax(x.t(), 0),
              {-2.4076059, -1.0986123, -1.4076059, -1.0986123, -0.4076059, -1.0986123});
  EXPECT_EQ(softmax(x, 1, kDouble).dtype(), kDouble);
  EXPECT_EQ(softmax(x.to(kHalf), 1).dtype(), kHalf);
  EXPECT_EQ(softmax(tensor(3.f), 0).item<double>(), 1);
  EXPECT_EQ(softmax(floats({}, {0, 3}), 1).numel(), 0);
}

TEST(OpNorm, values_and_running_statistics) {
  Tensor x = floats({1, 2, 3, 4, 5, 7}, {2, 3});
  expect_near(layer_norm(x, {3}), {-1.2247356, 0, 1.2247356, -1.0690438, -0.2672610, 1.3363048});
  EXPECT_EQ(error_of([&] { layer_norm(x, {4}); }),
            "Given normalized_shape=[4], expected input with shape [*, 4], but got input of size[2, 3]");
  Tensor mean = zeros({3}), var = ones({3});
  expect_near(batch_norm(x, {}, {}, mean, var, true, 0.5, 1e-5, false),
              {-0.9999978, -0.9999978, -0.9999987, 0.9999978, 0.9999978, 0.9999987});
  expect_near(mean, {1.25, 1.75, 2.5});
  expect_near(var, {2.75, 2.75, 4.5});
  expect_near(batch_norm(x, {}, {}, mean, var, false, 0.5, 1e-5, false),
              {-0.1507554, 0.1507554, 0.2357020, 1.6583093, 1.9598199, 2.1213179});
  expect_near(group_norm(x.view({1, 2, 3}), 1),
              {-1.3522452, -0.8451533, -0.3380613, 0.1690306, 0.6761225, 1.6903064});
  expect_near(rms_norm(x, {3}), {0.4629100, 0.9258201, 1.3887301, 0.7302967, 0.9128709, 1.2780193});
}

TEST(OpLoss, values) {
  Tensor x = floats({1, 2, 3, 1, 0, 2}, {2, 3}), target = tensor({2, 0}).to(kLong);
  expect_near(cross_entropy_loss(x, target), {0.9076059});
  expect_near(cross_entropy_loss(x, target, {}, 0), {0.4076059, 1.4076059});
  expect_near(cross_entropy_loss(x, target, {}, 1, -100, 0.1), {0.9576060});
  expect_near(cross_entropy_loss(x, target, tensor({1.f, 2.f, 3.f}), 1, 0), {0.4076059});
  expect_near(cross_entropy_loss(x, floats({0, 0, 1, 1, 0, 0}, {2, 3})), {0.9076059});
  EXPECT_EQ(error_of([&] { cross_entropy_loss(x, tensor({2, 3}).to(kLong)); }), "Target 3 is out of bounds.");
  expect_near(mse_loss(tensor({1.f, 3.f}), tensor({0.f, 1.f})), {2.5});
  expect_near(huber_loss(tensor({1.f, 3.f}), tensor({0.5f, 0.f}), 0), {0.125, 2.5});
  expect_near(binary_cross_entropy(tensor({0.f, 1.f, 0.5f}), tensor({1.f, 1.f, 1.f}), {}, 0),
              {100, 0, 0.6931472});
  expect_near(binary_cross_entropy_with_logits(tensor({0.f, 2.f}), tensor({1.f, 0.f})), {1.4100374});
  expect_near(kl_div(tensor({-1.f, -2.f}), tensor({0.5f, 0.f})), {0.0767132});
}

// The rule alone gives what the kernel gives.
TEST(OpShapes, meta_as_real) {
  Tensor x = floats({1, 2, 3, 4, 5, 6}, {2, 3}), w = floats({1, 2, 3, 4, 5, 6}, {2, 3});
  auto check = [&](const char* name, Function<Tensor(const Tensor&, const Tensor&)> f) {
    Tensor real = f(x, w),
           meta = f(make_tensor(x.sizes(), kFloat, kMeta, true), make_tensor(w.sizes(), kFloat, kMeta, true));
    EXPECT_TRUE(meta.is_fake()) << name;
    EXPECT_EQ(str(real.sizes()), str(meta.sizes())) << name;
    EXPECT_EQ(str(real.strides()), str(meta.strides())) << name;
    EXPECT_EQ(real.dtype(), meta.dtype()) << name;
  };
  check("sum", [](const Tensor& a, const Tensor&) { return sum(a, {1}, true); });
  check("argmax", [](const Tensor& a, const Tensor&) { return argmax(a, 0); });
  check("linear", [](const Tensor& a, const Tensor& b) { return linear(a, b); });
  check("mm", [](const Tensor& a, const Tensor& b) { return mm(a.t(), b); });
  check("gelu", [](const Tensor& a, const Tensor&) { return gelu(a.t()); });
  check("clamp", [](const Tensor& a, const Tensor&) { return clamp(a, 0, 1); });
  check("ge", [](const Tensor& a, const Tensor&) { return ge(a, 1); });
  check("softmax", [](const Tensor& a, const Tensor&) { return softmax(a, 1); });
  check("layer_norm", [](const Tensor& a, const Tensor&) { return layer_norm(a, {3}); });
  check("mse", [](const Tensor& a, const Tensor& b) { return mse_loss(a, b); });
}

}  // namespace
}  // namespace tern::testing
