// Quantised values: rounding, clamping, the straight-through gradient, and the programs' integer operators.
#include "tern/base/error.h"
#include "tern/dispatch/ladder.h"
#include "tests/support/gradcheck.h"

namespace tern::testing {
namespace {

using Longs = std::vector<int64_t>;

Tensor run(const char* name, std::vector<Value> args) {
  const Op& op = get_op(name);
  Bound bound(op, args);
  return call1(op, bound.args());
}

TEST(Quant, fake_quantize_rounds_to_even_and_masks_what_it_clamps) {
  Tensor x = tensor({0.05, 0.15, 0.25, 20., -20.}).requires_grad_();
  Tensor y = fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127);
  EXPECT_NEAR(y.to_vector<double>()[2], 0.2, 1e-6);
  EXPECT_NEAR(y.to_vector<double>()[3], 12.7, 1e-5);
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector<int64_t>(), (Longs{1, 1, 1, 0, 0}));
}

TEST(Quant, decomposed_operators) {
  Tensor x = tensor({-1.f, 0.f, 0.26f, 100.f});
  Tensor q = run("quantized_decomposed::quantize_per_tensor", {x, 0.1, 3, -128, 127, Value(kChar)});
  EXPECT_EQ(q.dtype(), kChar);
  EXPECT_EQ(q.to_vector<int64_t>(), (Longs{-7, 3, 6, 127}));
  Tensor back = run("quantized_decomposed::dequantize_per_tensor", {q, 0.1, 3, -128, 127, Value(kChar)});
  EXPECT_NEAR(back.to_vector<double>()[0], -1, 1e-6);
  Tensor m = tensor({1.f, 2.f, 3.f, 4.f}).view({2, 2}), scales = tensor({1.f, 0.5f}), zeros = tensor({0, 1});
  Tensor c =
      run("quantized_decomposed::quantize_per_channel", {m, scales, zeros, 0, -128, 127, Value(kChar)});
  EXPECT_EQ(c.to_vector<int64_t>(), (Longs{1, 2, 7, 9}));
}

TEST(Quant, integer_products_accumulate_in_int32) {
  Tensor a = full({2, 300}, 127, kChar), b = full({300, 2}, -128, kChar);
  EXPECT_EQ(_int_mm(a, b).to_vector<int64_t>(), (Longs(4, 300 * 127 * -128)));
}

TEST(Prims, forward_to_aten) {
  Tensor x = tensor({1.f, 4.f}).view({2});
  EXPECT_EQ(run("prims::rsqrt", {x}).to_vector<double>(), (std::vector<double>{1, 0.5}));
  EXPECT_EQ(str(run("prims::broadcast_in_dim", {x, Value(Span<const SymInt>({SymInt(3), SymInt(2)})),
                                                Value(Span<const SymInt>({SymInt(1)}))})
                    .sizes()),
            "[3, 2]");
}

TEST(Quant, a_range_that_loses_little) {
  Tensor x = tensor({0.f, .1f, .2f, .3f, .4f, .5f, .6f, .7f, .8f, 9.f});
  auto [high, low] = choose_qparams_optimized(x, 9, 200, 0.16, 4);
  EXPECT_EQ(str(high.sizes()), "[1]");
  EXPECT_NEAR(high.item().to_double() - low.item().to_double(), 0.8, 0.14);
  EXPECT_THROW(choose_qparams_optimized(x, 11, 200, 0.16, 4), Error);
  EXPECT_THROW(choose_qparams_optimized(x, 9, 0, 0.16, 4), Error);
}

}  // namespace
}  // namespace tern::testing
