// Indexing, masks, sorting.
#include <cmath>

#include "tern/base/error.h"
#include "tests/support/gradcheck.h"

namespace tern::testing {
namespace {

using In = const std::vector<Tensor>&;
using Longs = std::vector<int64_t>;

std::string message(auto&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Indexing, advanced) {
  Tensor x = arange(24).view({2, 3, 4});
  EXPECT_EQ(index(x, {Tensor(), tensor({0, -1})}).to_vector<int64_t>(),
            (Longs{0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 20, 21, 22, 23}));
  EXPECT_EQ(str(index(x, {tensor({0, 1}), Tensor(), tensor({1, 2})}).sizes()), "[2, 3]");
  EXPECT_EQ(index(x, {tensor({0, 1}), Tensor(), tensor({1, 2})}).to_vector<int64_t>(),
            (Longs{1, 5, 9, 14, 18, 22}));
  EXPECT_EQ(index(x, {x > 20}).to_vector<int64_t>(), (Longs{21, 22, 23}));
  EXPECT_EQ(message([&] { index(x, {tensor({2})}); }),
            "index 2 is out of bounds for dimension 0 with size 2");
  Tensor y = zeros({3}, kLong);
  index_put_(y, {tensor({0, 0, 2})}, tensor({1, 2, 3}), true);
  EXPECT_EQ(y.to_vector<int64_t>(), (Longs{3, 0, 3}));
}

TEST(Indexing, gather_and_scatter) {
  Tensor x = arange(6).view({2, 3}), at = tensor({0, 2, 1, 1}).view({2, 2});
  EXPECT_EQ(x.gather(1, at).to_vector<int64_t>(), (Longs{0, 2, 4, 4}));
  EXPECT_EQ(scatter(x, 1, at, 9).to_vector<int64_t>(), (Longs{9, 1, 9, 3, 9, 5}));
  EXPECT_EQ(scatter_add(x, 1, at, ones({2, 2}, kLong)).to_vector<int64_t>(), (Longs{1, 1, 3, 3, 6, 5}));
  EXPECT_EQ(scatter_reduce(x, 1, at, full({2, 2}, 4), "amax", false).to_vector<int64_t>(),
            (Longs{4, 1, 4, 3, 4, 5}));
  EXPECT_EQ(x.index_select(1, tensor({2, 0})).to_vector<int64_t>(), (Longs{2, 0, 5, 3}));
  EXPECT_EQ(masked_select(x, x > 3).to_vector<int64_t>(), (Longs{4, 5}));
  EXPECT_EQ(nonzero(x > 3).to_vector<int64_t>(), (Longs{1, 1, 1, 2}));
  EXPECT_EQ(x.masked_fill(x > 3, -1).to_vector<int64_t>(), (Longs{0, 1, 2, 3, -1, -1}));
  EXPECT_EQ(message([&] {
              embedding(zeros({2, 3}), tensor({5}));
            }),
            "index out of range in self: 5 is not in a table of 2 rows");
}

TEST(Indexing, order) {
  auto [values, indices] = sort(tensor({3., NAN, 1., 2.}), 0, true);
  EXPECT_EQ(indices.to_vector<int64_t>(), (Longs{1, 0, 3, 2}));
  auto [top, at] = topk(tensor({4, 1, 4, 9}), 2);
  EXPECT_EQ(top.to_vector<int64_t>(), (Longs{9, 4}));
  EXPECT_EQ(at.to_vector<int64_t>(), (Longs{3, 2}));  // which of the equal ones: as PyTorch has it
  EXPECT_EQ(message([] { topk(tensor({1}), 2); }), "selected index k out of range");
}

TEST(Indexing, the_padding_row_of_an_embedding_learns_nothing) {
  Tensor weight = ones({3, 2}).requires_grad_();
  embedding(weight, tensor({0, 2, 0}), 2).sum().backward();
  EXPECT_EQ(weight.grad().to_vector<int64_t>(), (Longs{2, 2, 0, 0, 0, 0}));
}

TEST(Indexing, gradients) {
  Tensor x = sample({3, 4}).requires_grad_();
  const std::pair<const char*, Tensor (*)(In)> cases[] = {
      {"index",
       [](In t) {
         return index(t[0], {tensor({0, 2, 0}), tensor({1, 1, 3})});
       }},
      {"index_put",
       [](In t) {
         return index_put(t[0], {tensor({0, 2})}, t[0].slice(0, 0, 2) * 2);
       }},
      {"index_put accumulate",
       [](In t) {
         return index_put(t[0], {tensor({1, 1})}, t[0].slice(0, 0, 2), true);
       }},
      {"gather",
       [](In t) {
         return t[0].gather(1, tensor({0, 0, 3}).view({3, 1}));
       }},
      {"scatter",
       [](In t) {
         return scatter(t[0], 0, tensor({2, 0, 1, 1}).view({1, 4}), t[0].slice(0, 0, 1) * 3);
       }},
      {"scatter_add",
       [](In t) {
         return scatter_add(t[0], 0, tensor({2, 2, 1, 1}).view({1, 4}), t[0].slice(0, 0, 1) * 3);
       }},
      {"scatter_reduce prod",
       [](In t) {
         return scatter_reduce(t[0], 1, zeros({3, 2}, kLong), t[0].slice(1, 0, 2), "prod");
       }},
      {"scatter_reduce mean",
       [](In t) {
         return scatter_reduce(t[0], 1, zeros({3, 2}, kLong), t[0].slice(1, 0, 2), "mean");
       }},
      {"index_add",
       [](In t) {
         return index_add(t[0], 0, tensor({1, 1}), t[0].slice(0, 0, 2), 2);
       }},
      {"masked_fill", [](In t) { return masked_fill(t[0], t[0].detach() > 0, 2); }},
      {"masked_select",
       [](In t) {
         return masked_select(t[0], tensor({true, false, true, true}));
       }},
      {"embedding",
       [](In t) {
         return embedding(t[0], tensor({0, 2, 0}), 1);
       }},
      {"sort", [](In t) { return std::get<0>(sort(t[0], 1, true)); }},
      {"topk", [](In t) { return std::get<0>(topk(t[0], 2, 0)); }},
  };
  for (const auto& [name, f] : cases) {
    check_gradient(name, f, {x});
    check_second_gradient(name, f, {x});
  }
}

TEST(Indexing, top_of_short_rows) {
  Tensor x = tensor({2., 5., NAN, -1., 3., 3., 3., 3.}).view({2, 4});
  auto [top, at] = topk(x, 3, 1);
  EXPECT_EQ(at.to_vector<int64_t>(), (Longs{2, 1, 0, 2, 3, 0}));  // equal ones: as PyTorch has it
  auto [low, from] = topk(x.t(), 2, 0, false);
  EXPECT_EQ(low.to_vector<double>(), (std::vector<double>{-1, 3, 2, 3}));
  EXPECT_EQ(select(from, 1, 0).to_vector<int64_t>(), (Longs{3, 0}));
}

TEST(Indexing, rows_and_where_they_begin) {
  Tensor starts = _convert_indices_from_coo_to_csr(tensor({0, 0, 2}), 4);
  EXPECT_EQ(starts.to_vector<int64_t>(), (Longs{0, 2, 2, 3, 3}));
  EXPECT_EQ(_convert_indices_from_coo_to_csr(tensor({0}), 1, true).dtype(), kInt);
  EXPECT_EQ(_convert_indices_from_csr_to_coo(starts, tensor({1, 5, 0})).to_vector<int64_t>(),
            (Longs{0, 0, 2, 1, 5, 0}));
  EXPECT_EQ(_convert_indices_from_csr_to_coo(starts, tensor({1, 5, 0}), false, true).to_vector<int64_t>(),
            (Longs{1, 5, 0, 0, 0, 2}));
  EXPECT_EQ(message([] { _convert_indices_from_coo_to_csr(tensor({4}), 4); }),
            "_convert_indices_from_coo_to_csr: row 4 is out of bounds for 4 rows");
}

}  // namespace
}  // namespace tern::testing
