// Decompositions put together again, systems solved, gradients, and what is said of matrices that cannot be.
#include "tern/base/error.h"
#include "tests/support/gradcheck.h"

namespace tern::testing {
namespace {

using In = const std::vector<Tensor>&;

double gap(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }
std::string message(auto&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}
Tensor stack_of(int64_t rows, int64_t columns, DType d) {
  Tensor x = sample({2, rows, columns});
  return is_complex(d) ? to(make_complex(x, sample({2, rows, columns}, -1, 1, 5)), d) : to(x, d);
}

TEST(Linalg, factors_multiply_back) {
  for (DType d : {kDouble, kComplexDouble})
    for (auto [m, n] : {std::pair<int64_t, int64_t>{4, 4}, {5, 3}, {3, 5}}) {
      Tensor A = stack_of(m, n, d);
      auto [Q, R] = linalg_qr(A);
      EXPECT_LT(gap(matmul(Q, R), A), 1e-12);
      auto [P, L, U] = linalg_lu(A);
      EXPECT_LT(gap(matmul(P, matmul(L, U)), A), 1e-12);
      auto [u, s, vh] = linalg_svd(A, false);
      EXPECT_LT(gap(matmul(u * unsqueeze(s, -2), vh), A), 1e-12);
      EXPECT_LT(gap(matmul(A, matmul(linalg_pinv(A), A)), A), 1e-11);
    }
}

TEST(Linalg, systems_and_eigenvalues) {
  for (DType d : {kDouble, kComplexDouble}) {
    Tensor A = stack_of(3, 3, d), B = stack_of(3, 2, d);
    EXPECT_LT(gap(matmul(A, linalg_solve(A, B)), B), 1e-11);
    EXPECT_LT(gap(matmul(linalg_solve(A, adjoint(B), false), A), adjoint(B)), 1e-11);
    EXPECT_LT(gap(matmul(linalg_inv(A), A), eye(3, d)), 1e-11);
    Tensor H = matmul(A, adjoint(A)) + eye(3, d);
    Tensor L = linalg_cholesky(H);
    EXPECT_LT(gap(matmul(L, adjoint(L)), H), 1e-12);
    EXPECT_LT(gap(matmul(H, cholesky_solve(B, L)), B), 1e-11);
    auto [w, V] = linalg_eigh(H);
    EXPECT_LT(gap(matmul(H, V), V * unsqueeze(w, -2)), 1e-11);
    auto [values, vectors] = linalg_eig(A);
    EXPECT_LT(gap(matmul(to(A, kComplexDouble), vectors), vectors * unsqueeze(values, -2)), 1e-11);
    auto [sign, log] = linalg_slogdet(A);
    EXPECT_LT(gap(sign * exp(log), linalg_det(A)), 1e-12);
  }
}

// Both triangles of a symmetric matrix share what flows back, in every order.
TEST(Linalg, eigenvalues_derived_twice) {
  check_second_gradient("eigvalsh", [](In in) { return linalg_eigvalsh(in[0] + in[0].t()); },
                        {variable({3, 3}, -1, 1, 4)});
  Tensor A = sample({3, 3}, -1, 1, 4);
  A = (A + A.t()).requires_grad_();
  std::vector<Tensor> first = autograd::grad(std::vector<Tensor>{linalg_eigvalsh(A)}, {A},
                                             {sample({3}, -1, 1, 5)}, {.create_graph = true});
  Tensor second = autograd::grad(first, {A}, {sample({3, 3}, -1, 1, 6)})[0];
  EXPECT_LT(gap(second, second.t()), 1e-12);
}

TEST(Linalg, says_what_is_wrong) {
  EXPECT_EQ(message([] {
              linalg_inv(zeros({2, 2}));
            }),
            "linalg.inv: The diagonal element 1 is zero, the inversion could not be completed because the "
            "input matrix is "
            "singular.");
  EXPECT_EQ(message([] {
              linalg_solve(zeros({2, 2}), ones({2}));
            }),
            "torch.linalg.solve: The solver failed because the input matrix is singular.");
  EXPECT_EQ(message([] { linalg_cholesky(neg(eye(2))); }),
            "linalg.cholesky: The factorization could not be completed because the input is not "
            "positive-definite (the "
            "leading minor of order 1 is not positive-definite).");
  EXPECT_EQ(message([] {
              linalg_inv(zeros({2, 3}));
            }),
            "linalg.inv: A must be batches of square matrices, but they are 2 by 3 matrices");
  EXPECT_EQ(message([] {
              linalg_det(ones({2, 2}, kLong));
            }),
            "linalg.det: Expected a floating point or complex tensor as input. Got Long");
}

TEST(Linalg, gradients) {
  Tensor A = variable({3, 3}), B = variable({3, 2}, -1, 1, 3), tall = variable({4, 3}, -1, 1, 9);
  auto spd = [](const Tensor& t) { return matmul(t, adjoint(t)) + eye(3, kDouble); };
  std::vector<std::pair<const char*, Differentiable>> cases = {
      {"inv", [](In t) { return linalg_inv(t[0]); }},
      {"solve", [](In t) { return linalg_solve(t[0], t[0].slice(1, 0, 2)); }},
      {"det", [](In t) { return linalg_det(t[0]); }},
      {"slogdet", [](In t) { return std::get<1>(linalg_slogdet(t[0])); }},
      {"cholesky", [&](In t) { return linalg_cholesky(spd(t[0])); }},
      {"qr",
       [](In t) {
         auto [q, r] = linalg_qr(t[0]);
         return q + r;
       }},
      {"qr wide",
       [](In t) {
         auto [q, r] = linalg_qr(t[0].slice(0, 0, 2));
         return matmul(q, r * r);
       }},
      {"lu", [](In t) { return std::get<0>(linalg_lu_factor(t[0])); }},
      {"eigh", [&](In t) { return abs(std::get<1>(linalg_eigh(spd(t[0])))); }},
      {"svdvals", [](In t) { return linalg_svdvals(t[0]); }},
      {"svd", [](In t) { return abs(std::get<0>(linalg_svd(t[0], false))); }},
      {"triangular",
       [](In t) { return linalg_solve_triangular(triu(t[0]) + eye(3, kDouble) * 3, t[0], true); }},
      {"matrix_exp", [](In t) { return linalg_matrix_exp(t[0]); }},
      {"matrix_power", [](In t) { return linalg_matrix_power(t[0], -2); }},
      {"norm nuc", [](In t) { return linalg_norm(t[0], 2); }},
  };
  for (auto& [name, f] : cases) {
    check_gradient(name, f, {A}, 1e-4);
    check_second_gradient(name, f, {A}, 1e-3);
  }
  check_gradient(
      "pinv", [](In t) { return linalg_pinv(t[0]); }, {tall}, 1e-4);
  check_gradient(
      "lstsq", [](In t) { return std::get<0>(linalg_lstsq(t[0], t[0].slice(1, 0, 1).exp())); }, {tall}, 1e-4);
}

}  // namespace
}  // namespace tern::testing
