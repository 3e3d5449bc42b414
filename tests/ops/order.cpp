// Order statistics, searching, unique elements, histograms, and the small algebra beside them.
#include <cmath>

#include "tern/base/error.h"
#include "tests/support/gradcheck.h"

namespace tern::testing {
namespace {

using In = const std::vector<Tensor>&;
using Longs = std::vector<int64_t>;
using Doubles = std::vector<double>;

std::string message(auto&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// Slices are compared in the order of the dimensions that are left.
TEST(Order, unique_slices_along_an_inner_dimension) {
  Tensor x = tensor({0, 1, 1, 0, 1, 0, 0, 1}, {.dtype = kLong}).reshape({2, 2, 2});
  Tensor y = stack({x.select(2, 1), x.select(2, 0)}, 2);
  auto [values, inverse, counts] = unique_dim(y, 2, true, true, true);
  EXPECT_EQ(values.reshape({-1}).to_vector<int64_t>(), x.reshape({-1}).to_vector<int64_t>());
  EXPECT_EQ(inverse.to_vector<int64_t>(), (std::vector<int64_t>{1, 0}));
  // 0 0 / 1 0 comes before 0 1 / 0 0: by rows, not by columns.
  Tensor a = tensor({0, 0, 1, 0}, {.dtype = kLong}).reshape({2, 2}),
         b = tensor({0, 1, 0, 0}, {.dtype = kLong}).reshape({2, 2});
  Tensor sorted = std::get<0>(unique_dim(stack({b, a}, 2), 2, true, false, false));
  EXPECT_EQ(sorted.select(2, 0).reshape({-1}).to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 1, 0}));
}

TEST(Order, running_extremes_take_the_last_of_equals) {
  auto [values, at] = cummax(tensor({1, 3, 3, 2, 5}), 0);
  EXPECT_EQ(values.to_vector<int64_t>(), (Longs{1, 3, 3, 3, 5}));
  EXPECT_EQ(at.to_vector<int64_t>(), (Longs{0, 1, 2, 2, 4}));
  EXPECT_EQ(std::get<1>(cummin(tensor({2., NAN, 1.}), -1)).to_vector<int64_t>(), (Longs{0, 1, 1}));
}

TEST(Order, medians_and_modes) {
  Tensor x = tensor({4., 1., NAN, 2.});
  EXPECT_TRUE(std::isnan(median(x).item<double>()));
  EXPECT_EQ(nanmedian(x).item<double>(), 2);
  EXPECT_EQ(std::get<0>(mode(tensor({1, 2, 2, 3, 3}))).item<int64_t>(), 2);
  EXPECT_EQ(median(tensor({4, 1, 3, 2})).item<int64_t>(), 2);
  EXPECT_EQ(message([] {
              median(zeros({2, 0}), 1);
            }),
            "median(): Expected reduction dim 1 to have non-zero size.");
  EXPECT_EQ(quantile(tensor({1., 2., 3., 4.}), tensor({0.5, 1.}), 0).to_vector<double>(), (Doubles{2.5, 4}));
}

TEST(Order, searching) {
  Tensor bounds = tensor({1., 3., 5.});
  EXPECT_EQ(searchsorted(bounds, tensor({0., 3., 6.})).to_vector<int64_t>(), (Longs{0, 1, 3}));
  EXPECT_EQ(bucketize(tensor({3., NAN}), bounds, true, true).to_vector<int64_t>(), (Longs{2, 3}));
  EXPECT_EQ(isin(tensor({1, 2, 3}), tensor({3, 1})).to_vector<int64_t>(), (Longs{1, 0, 1}));
  EXPECT_EQ(message([&] {
              bucketize(bounds, zeros({2, 2}));
            }),
            "boundaries tensor must be 1 dimension, but got dim(2)");
}

TEST(Order, unique_elements_and_rows) {
  auto [values, inverse, counts] = _unique2(tensor({3, 1, 3, 2}), true, true, true);
  EXPECT_EQ(values.to_vector<int64_t>(), (Longs{1, 2, 3}));
  EXPECT_EQ(inverse.to_vector<int64_t>(), (Longs{2, 0, 2, 1}));
  EXPECT_EQ(counts.to_vector<int64_t>(), (Longs{1, 1, 2}));
  Tensor rows = tensor({2, 1, 0, 0, 2, 1}).view({3, 2});
  EXPECT_EQ(std::get<0>(unique_dim(rows, 0)).to_vector<int64_t>(), (Longs{0, 0, 2, 1}));
  EXPECT_EQ(std::get<0>(unique_consecutive(tensor({1, 1, 2, 1}))).to_vector<int64_t>(), (Longs{1, 2, 1}));
  EXPECT_EQ(bincount(tensor({0, 2, 2})).to_vector<int64_t>(), (Longs{1, 0, 2}));
  EXPECT_EQ(message([] { bincount(tensor({-1})); }),
            "bincount only supports 1-d non-negative integral inputs.");
}

TEST(Order, histograms) {
  EXPECT_EQ(histc(tensor({1., 2., 1.}), 4, 0, 3).to_vector<double>(), (Doubles{0, 2, 1, 0}));
  EXPECT_EQ(message([] { histc(tensor({1})); }), "\"histogram_cpu\" not implemented for 'Long'");
  auto [hist, edges] = histogram(tensor({0., 1., 1., 2.}), 2);
  EXPECT_EQ(hist.to_vector<double>(), (Doubles{1, 3}));
  EXPECT_EQ(edges.to_vector<double>(), (Doubles{0, 1, 2}));
}

TEST(Order, gradients) {
  Tensor x = variable({3, 4});
  std::vector<std::pair<const char*, Differentiable>> cases = {
      {"cummax", [](In t) { return std::get<0>(cummax(t[0], 1)); }},
      {"median", [](In t) { return std::get<0>(median(t[0], 1)); }},
      {"quantile",
       [](In t) {
         return quantile(t[0], tensor({0.3, 0.8}, {.dtype = kDouble}), 0);
       }},
      {"diff", [](In t) { return diff(t[0], 2, 1); }},
      {"diag_embed", [](In t) { return diag_embed(t[0], 1); }},
      {"trace", [](In t) { return trace(t[0] * t[0]); }},
      {"kron", [](In t) { return kron(t[0], t[0].slice(0, 0, 2)); }},
      {"tensordot", [](In t) { return tensordot(t[0], t[0], Ints({0}), Ints({0})); }},
      {"linalg_cross", [](In t) { return linalg_cross(t[0], roll(t[0], {1}, Ints({0})) * t[0], 0); }},
      {"cov", [](In t) { return cov(t[0]); }},
      {"trapezoid", [](In t) { return trapezoid(t[0], t[0].select(0, 0).exp(), 1); }},
      {"renorm", [](In t) { return renorm(t[0], 2, 0, 0.5); }},
      {"_weight_norm", [](In t) { return _weight_norm(t[0], t[0].slice(1, 0, 1), 0); }},
      {"index_reduce",
       [](In t) {
         return index_reduce(t[0], 0, tensor({1, 1}), t[0].slice(0, 0, 2), "prod");
       }},
      {"put",
       [](In t) {
         return put(t[0], tensor({1, 5}), t[0].select(1, 0).slice(0, 0, 2), true);
       }},
      {"sinc", [](In t) { return sinc(t[0]); }},
      {"special_i1", [](In t) { return special_i1(t[0]); }},
      {"special_erfcx", [](In t) { return special_erfcx(t[0]); }},
      {"special_ndtri", [](In t) { return special_ndtri(t[0].sigmoid()); }},
      {"select_copy", [](In t) { return select_copy(t[0] * t[0], 1, 2); }},
  };
  for (auto& [name, f] : cases) {
    check_gradient(name, f, {x});
    check_second_gradient(name, f, {x});
  }
  check_gradient("_cdist_forward", [](In t) { return cdist(t[0], t[1], 1.5); },
                 {x, variable({2, 4}, -1, 1, 3)});
  // By products of matrices, whose gradient has one, too.
  auto by_products = [](In t) { return cdist(t[0], t[1], 2, 1); };
  check_gradient("_euclidean_dist", by_products, {x, variable({2, 4}, -1, 1, 3)});
  check_second_gradient("_euclidean_dist", by_products, {x, variable({2, 4}, -1, 1, 3)});
  check_second_gradient("_euclidean_dist of batches", by_products,
                        {variable({2, 1, 3, 2}, -1, 1, 5), variable({3, 2, 2}, 1, 3, 7)});
}

TEST(Order, no_gradient_flows_back_from_a_distance_of_zero) {
  Tensor x = variable({2, 3});
  cdist(x, x.detach(), 2, 1).sum().backward();
  for (double g : x.grad().to_vector<double>()) EXPECT_TRUE(std::isfinite(g));
}

TEST(Order, the_history_goes_with_detach_in_place) {
  Tensor x = variable({2}), y = x * 2;
  detach_(y);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(str(resize_(zeros({2}), {3, 2}).sizes()), "[3, 2]");
}

}  // namespace
}  // namespace tern::testing
