// Resizing, blocks, unpooling and sampling: kernels against their decompositions, gradients against
// differences, rules against results.
#include "tern/base/error.h"
#include "tern/dispatch/ladder.h"
#include "tests/support/gradcheck.h"

namespace tern::testing {
namespace {

using In = const std::vector<Tensor>&;

// The operator by its kernel and by its body.
void expect_same(const std::string& name, const std::vector<Value>& args, double tolerance = 1e-6) {
  SCOPED_TRACE(name);
  const Op& op = get_op(name);
  Bound bound(op, args);
  Value by_kernel[4], by_body[4];
  run_kernel(op, bound.args(), by_kernel);
  ASSERT_NE(op.body, nullptr);
  op.body(op, bound.args(), by_body);
  Tensor a = by_kernel[0].tensor(), b = by_body[0].tensor();
  ASSERT_EQ(str(a.sizes()), str(b.sizes()));
  ASSERT_EQ(a.dtype(), b.dtype());
  EXPECT_LE((a - b).abs().max().item<double>(), tolerance);
  Shapes rule = shapes_of(op, bound.args());
  EXPECT_EQ(str(rule[0].sizes), str(a.sizes()));
}
Value sizes(const std::vector<int64_t>& v) {
  Dims d;
  for (int64_t i : v) d.push_back(i);
  return Value(Span<const SymInt>(d.data(), d.size()));
}

TEST(Resampling, KernelsAgreeWithDecompositions) {
  Tensor x1 = sample({2, 3, 5}).to(kFloat), x2 = sample({2, 3, 5, 6}).to(kFloat),
         x3 = sample({1, 2, 4, 5, 3}).to(kFloat);
  Value none;
  expect_same("aten::upsample_nearest1d", {x1, sizes({8}), none});
  expect_same("aten::upsample_nearest2d", {x2, sizes({7, 4}), none, none});
  expect_same("aten::upsample_nearest3d", {x3, sizes({8, 10, 6}), 2.0, 2.0, 2.0});
  expect_same("aten::_upsample_nearest_exact2d", {x2, sizes({7, 4}), none, none});
  for (bool align : {false, true}) {
    expect_same("aten::upsample_linear1d", {x1, sizes({8}), align, none}, 1e-5);
    expect_same("aten::upsample_bilinear2d", {x2, sizes({7, 4}), align, none, none}, 1e-5);
    expect_same("aten::upsample_trilinear3d", {x3, sizes({3, 9, 4}), align, none, none, none}, 1e-5);
    expect_same("aten::upsample_bicubic2d", {x2, sizes({7, 4}), align, none, none}, 1e-5);
  }
}

TEST(Resampling, BlocksAgreeWithDecompositions) {
  Tensor x = sample({2, 3, 5, 6}).to(kFloat);
  expect_same("aten::im2col", {x, sizes({2, 3}), sizes({2, 1}), sizes({1, 0}), sizes({1, 2})});
  Tensor columns = im2col(x, {2, 3}, {2, 1}, {1, 0}, {1, 2});
  expect_same("aten::col2im",
              {columns, sizes({5, 6}), sizes({2, 3}), sizes({2, 1}), sizes({1, 0}), sizes({1, 2})});
  auto [pooled, places] = max_pool2d_with_indices(x, {2, 2});
  expect_same("aten::max_unpool2d", {pooled, places, sizes({5, 6})});
}

TEST(Resampling, Gradients) {
  Tensor x = sample({1, 2, 4, 5}).requires_grad_(),
         grid = sample({1, 3, 2, 2}, -0.9, 0.9, 3).requires_grad_();
  check_gradient("bicubic", [](In in) { return upsample_bicubic2d(in[0], {6, 3}, false); }, {x});
  check_gradient("bilinear_aa", [](In in) { return _upsample_bilinear2d_aa(in[0], {2, 3}, false); }, {x});
  check_gradient("nearest", [](In in) { return upsample_nearest2d(in[0], {6, 3}); }, {x});
  check_gradient("im2col", [](In in) { return im2col(in[0], {2, 2}, {1, 1}, {1, 0}, {1, 1}); }, {x});
  for (int64_t mode : {0, 2})
    for (int64_t padding : {0, 1, 2})
      check_gradient(
          "grid_sampler", [&](In in) { return grid_sampler(in[0], in[1], mode, padding, false); }, {x, grid},
          1e-4);
}

TEST(Resampling, SamplingAtAGridDerivedTwice) {
  Tensor x = sample({2, 2, 4, 5}).requires_grad_(),
         grid = sample({2, 3, 2, 2}, -1.3, 1.3, 3).requires_grad_();
  for (int64_t mode : {0, 1, 2})
    for (int64_t padding : {0, 1, 2})
      for (bool align : {false, true})
        check_second_gradient("grid_sampler",
                              [&](In in) { return grid_sampler(in[0], in[1], mode, padding, align); },
                              {x, grid});
  Tensor volume = sample({1, 2, 3, 4, 3}).requires_grad_(),
         places = sample({1, 2, 2, 1, 3}, -1.2, 1.2, 4).requires_grad_();
  for (int64_t padding : {0, 1, 2})
    check_second_gradient("grid_sampler",
                          [&](In in) { return grid_sampler(in[0], in[1], 0, padding, false); },
                          {volume, places});
}

TEST(Resampling, Errors) {
  auto message = [](auto f) -> std::string {
    try {
      f();
    } catch (const Error& e) {
      return e.message();
    }
    return "";
  };
  Tensor x = sample({1, 2, 3, 4});
  EXPECT_EQ(message([&] { upsample_nearest2d(x, {4}); }),
            "It is expected output_size equals to 2, but got size 1");
  EXPECT_EQ(
      message([&] {
        upsample_nearest2d(x, {0, 5});
      }),
      "Input and output sizes should be greater than 0, but got input (H: 3, W: 4) output (H: 0, W: 5)");
  EXPECT_EQ(message([&] { upsample_nearest2d_vec(x, {}, {}); }),
            "Must specify exactly one of output_size and scale_factors");
  EXPECT_NE(message([&] { channel_shuffle(x, 3); }).find("Number of channels must be divisible by groups"),
            std::string::npos);
}

}  // namespace
}  // namespace tern::testing
