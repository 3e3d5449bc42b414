// Gradients of the decompositions, in the notation of matrix calculus: g of a result, ᴴ for adjoint.
#include <limits>

#include "tern/base/format.h"
#include "tern/dispatch/grad_context.h"
#include "tern/ops.h"
#include "tern/ops/formulas.h"
#include "tern/ops/linalg/matrices.h"

namespace tern {
namespace {

using linalg::is_vector_case;

Tensor times3(const Tensor& a, const Tensor& b, const Tensor& c) { return matmul(a, matmul(b, c)); }
Tensor skew(const Tensor& a) { return a - adjoint(a); }
Tensor diagonal_of(const Tensor& a) { return diagonal(a, 0, -2, -1); }
Tensor with_diagonal(const Tensor& a, const Tensor& d) { return diagonal_scatter(a, d, 0, -2, -1); }
Tensor fill_ones(const Tensor& a) { return with_diagonal(a, ones_like(diagonal_of(a))); }
Tensor sums_to(const Tensor& t, const Tensor& like) { return sum_to(t, like.sizes()); }

}  // namespace

Tensor svd_backward(GradContext& c, const Tensor& U, const Tensor& S, const Tensor& Vh) {
  SymInt m = c.result_shapes[0].sizes.size() >= 2 ? U.size(-2) : SymInt(0),
         n = Vh.dim() >= 2 ? Vh.size(-1) : SymInt(0), k = S.size(-1);
  Tensor u = slice(U, -1, SymInt(0), k), vh = slice(Vh, -2, SymInt(0), k);
  bool has_u = c.has_grad(0), has_s = c.has_grad(1), has_v = c.has_grad(2);
  if (!has_u && !has_v) return matmul(u * unsqueeze(c.grad(1), -2), vh);
  Tensor gu = slice(c.grad(0), -1, SymInt(0), k), gvh = slice(c.grad(2), -2, SymInt(0), k);
  Tensor square = S * S, E = fill_ones(unsqueeze(square, -2) - unsqueeze(square, -1));
  Tensor inside = zeros_like(matmul(vh, adjoint(vh)));
  if (has_u) {
    Tensor w = skew(matmul(adjoint(u), gu));
    inside = inside + w * unsqueeze(S, -2) / E;
    if (U.is_complex()) inside = inside + diag_embed(diagonal_of(w) / (2 * S));
  }
  if (has_v) inside = inside + unsqueeze(S, -1) * skew(matmul(vh, adjoint(gvh))) / E;
  if (has_s) inside = inside + diag_embed(c.grad(1));
  Tensor g = matmul(u, inside);
  if (has_u && m > k) {
    Tensor rest = gu / unsqueeze(S, -2);
    g = g + rest - matmul(u, matmul(adjoint(u), rest));
  }
  g = matmul(g, vh);
  if (has_v && n > k) {
    Tensor rest = gvh / unsqueeze(S, -1);
    g = g + matmul(u, rest - matmul(matmul(rest, adjoint(vh)), vh));
  }
  return g;
}

Tensor eigh_backward(GradContext& c, const Tensor& values, const Tensor& vectors) {
  if (!c.has_grad(1)) return matmul(vectors * unsqueeze(c.grad(0), -2), adjoint(vectors));
  Tensor E = fill_ones(unsqueeze(values, -2) - unsqueeze(values, -1));
  // Vectors of length one turn, they do not grow: only the skew part of what flows back can move them.
  Tensor turn = matmul(adjoint(vectors), c.grad(1));
  Tensor inside = (turn - adjoint(turn)) * 0.5 / E;
  inside = with_diagonal(inside, to(c.grad(0), inside.dtype()));
  return times3(vectors, inside, adjoint(vectors));
}

Tensor eig_backward(GradContext& c, const Tensor& values, const Tensor& vectors) {
  Tensor vh = adjoint(vectors);
  if (!c.has_grad(1)) return linalg_solve(vh, unsqueeze(c.grad(0), -1) * vh);
  Tensor w = matmul(vh, c.grad(1));
  Tensor inside = w - matmul(vh, vectors * unsqueeze(real(diagonal_of(w)), -2));
  inside = inside / fill_ones(conj(unsqueeze(values, -2) - unsqueeze(values, -1)));
  inside = with_diagonal(inside, c.grad(0));
  return linalg_solve(vh, matmul(inside, vh));
}

Tensor qr_backward(GradContext& c, const Tensor& Q, const Tensor& R, std::string_view mode) {
  if (mode == "r")
    fail(
        "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
        "linalg.qr(A, "
        "mode='reduced') if you are going to differentiate through linalg.qr.");
  SymInt m = Q.size(-2), n = R.size(-1);
  if (mode == "complete" && m > n)
    fail("The QR decomposition is not differentiable when mode='complete' and nrows > ncols");
  // Of A = Q·R with R square: [gQ + Q·sym(triu(gR·Rᴴ - Qᴴ·gQ))]·R⁻ᴴ.
  auto square = [&](const Tensor& r, const Tensor& gq, const Tensor& gr) {
    Tensor w = triu(matmul(gr, adjoint(r)) - matmul(adjoint(Q), gq));
    Tensor both = w + adjoint(w), half = with_diagonal(both, to(real(diagonal_of(both)), both.dtype()) * 0.5);
    return linalg_solve_triangular(adjoint(r), gq + matmul(Q, half), false, false);
  };
  if (m >= n) return square(R, c.grad(0), c.grad(1));
  // Wide: A = Q·[U | V], where V = Qᴴ·Y follows the first columns.
  Tensor u = slice(R, -1, SymInt(0), m), v = slice(R, -1, m, n), gu = slice(c.grad(1), -1, SymInt(0), m),
         gv = slice(c.grad(1), -1, m, n);
  Tensor y = matmul(Q, v), gq = c.grad(0) + matmul(y, adjoint(gv));
  return cat({square(u, gq, gu), matmul(Q, gv)}, -1);
}

namespace {

Tensor plu_backward(const Tensor& gL, const Tensor& gU, const Tensor& P, const Tensor& L, const Tensor& U) {
  SymInt m = L.size(-2), n = U.size(-1), k = L.size(-1);
  auto solved = [&](const Tensor& l, const Tensor& u, const Tensor& inside) {
    Tensor x = linalg_solve_triangular(adjoint(l), inside, true, true, true);
    return linalg_solve_triangular(adjoint(u), x, false, false);
  };
  Tensor g;
  if (m == n) {
    g = solved(L, U, tril(matmul(adjoint(L), gL), -1) + triu(matmul(gU, adjoint(U))));
  } else if (m < n) {
    Tensor u1 = slice(U, -1, SymInt(0), k), u2 = slice(U, -1, k, n), g1 = slice(gU, -1, SymInt(0), k),
           g2 = slice(gU, -1, k, n);
    Tensor inside =
        tril(matmul(adjoint(L), gL) - matmul(g2, adjoint(u2)), -1) + triu(matmul(g1, adjoint(u1)));
    g = cat({solved(L, u1, inside), linalg_solve_triangular(adjoint(L), g2, true, true, true)}, -1);
  } else {
    Tensor l1 = slice(L, -2, SymInt(0), k), l2 = slice(L, -2, k, m), g1 = slice(gL, -2, SymInt(0), k),
           g2 = slice(gL, -2, k, m);
    Tensor inside =
        tril(matmul(adjoint(l1), g1), -1) + triu(matmul(gU, adjoint(U)) - matmul(adjoint(l2), g2));
    g = cat({solved(l1, U, inside), linalg_solve_triangular(adjoint(U), g2, false, false)}, -2);
  }
  return matmul(P, g);
}

}  // namespace

Tensor lu_factor_backward(const Tensor& grad, const Tensor& LU, const Tensor& pivots, bool) {
  auto [P, L, U] = lu_unpack(LU, pivots);
  SymInt k = sym_min(LU.size(-2), LU.size(-1));
  return plu_backward(tril(slice(grad, -1, SymInt(0), k), -1), triu(slice(grad, -2, SymInt(0), k)), P, L, U);
}
Tensor lu_backward(GradContext& c, const Tensor& P, const Tensor& L, const Tensor& U, bool) {
  return plu_backward(c.grad(1), c.grad(2), P, L, U);
}
Tensor lu_unpack_backward(GradContext& c, SymInt rows, SymInt columns) {
  SymInt k = sym_min(rows, columns);
  Tensor gl = tril(c.grad(1), -1), gu = triu(c.grad(2));
  auto padded = [&](const Tensor& t, int64_t dim, SymInt size) {
    if (!(t.size(dim) < size)) return t;
    Dims rest(t.sizes());
    rest[static_cast<size_t>(wrap_dim(dim, t.dim()))] = size - k;
    return cat({t, zeros(rest, t.dtype())}, dim);
  };
  return padded(gl, -1, columns) + padded(gu, -2, rows);
}

Tensor cholesky_backward(const Tensor& grad, const Tensor& factor, bool upper) {
  Tensor L = upper ? adjoint(factor) : factor, gL = upper ? adjoint(grad) : grad;
  Tensor w = tril(matmul(adjoint(L), gL)), both = w + adjoint(tril(w, -1));
  Tensor x = linalg_solve_triangular(adjoint(L), both, true);
  return linalg_solve_triangular(L, x, false, false) * 0.5;
}
Tensor cholesky_inverse_backward(const Tensor& grad, const Tensor& factor, bool upper,
                                 const Tensor& inverse) {
  Tensor both = grad + adjoint(grad), w = times3(inverse, both, inverse);
  return upper ? neg(matmul(factor, w)) : neg(matmul(w, factor));
}
std::tuple<Tensor, Tensor> cholesky_solve_backward(const Tensor& grad, const Tensor& factor, bool upper,
                                                   const Tensor& result) {
  Tensor gb = cholesky_solve(grad, factor, upper), w = matmul(gb, adjoint(result)), both = w + adjoint(w);
  Tensor gf = neg(upper ? matmul(factor, both) : matmul(both, factor));
  return {gb, sums_to(gf, factor)};
}

std::tuple<Tensor, Tensor> solve_backward(GradContext& c, const Tensor& A, const Tensor& B, const Tensor& X,
                                          const Tensor&, const Tensor&, bool left) {
  bool vector = is_vector_case(A, B);
  Tensor g = c.grad(0);
  Tensor gb = linalg_solve(adjoint(A), vector && g.dim() != B.dim() ? unsqueeze(g, -1) : g, left);
  if (vector && g.dim() != B.dim()) gb = squeeze(gb, -1);
  Tensor ga;
  if (vector)
    ga = neg(matmul(unsqueeze(gb, -1), adjoint(unsqueeze(X, -1))));
  else
    ga = left ? neg(matmul(gb, adjoint(X))) : neg(matmul(adjoint(X), gb));
  return {sums_to(ga, A), gb};
}
std::tuple<Tensor, Tensor> triangular_backward(const Tensor& grad, const Tensor& A, const Tensor& X,
                                               bool upper, bool left, bool unitriangular) {
  Tensor gb = linalg_solve_triangular(adjoint(A), grad, !upper, left, unitriangular);
  Tensor ga = left ? neg(matmul(gb, adjoint(X))) : neg(matmul(adjoint(X), gb));
  int64_t border = unitriangular ? 1 : 0;
  return {sums_to(upper ? triu(ga, border) : tril(ga, -border), A), gb};
}
std::tuple<Tensor, Tensor> lu_solve_backward(const Tensor& grad, const Tensor& LU, const Tensor& pivots,
                                             const Tensor& X, bool left, bool adjoint_) {
  Tensor gb = linalg_lu_solve(LU, pivots, grad, left, !adjoint_);
  // The gradient by the whole matrix P·L·U, then by its factors.
  Tensor ga = left ? neg(matmul(gb, adjoint(X))) : neg(matmul(adjoint(X), gb));
  if (adjoint_) ga = adjoint(ga);
  auto [P, L, U] = lu_unpack(LU, pivots);
  Tensor w = matmul(transpose(P, -2, -1), ga);
  Tensor g = tril(matmul(w, adjoint(U)), -1) + triu(matmul(adjoint(L), w));
  return {sums_to(g, LU), gb};
}

Tensor det_backward(const Tensor& grad, const Tensor& det, const Tensor& A, const Tensor& LU,
                    const Tensor& pivots) {
  if (A.numel().is_int() && A.numel().as_int() == 0) return zeros_like(A);
  Tensor g = grad * conj(det);
  Dims sizes(A.sizes());
  sizes.pop_back();
  Tensor d = diag_embed(expand(unsqueeze(g, -1), sizes));
  if (thread_state.grad_enabled) return linalg_solve(adjoint(A), d);
  // det is smooth where A is singular too: a nudge keeps the factors invertible. The factors are those of the
  // transposed matrix where _linalg_det could read A that way.
  bool transposed = A.is_contiguous() && !A.is_complex();
  double eps = to_real(A.dtype()) == kDouble ? std::numeric_limits<double>::epsilon()
                                             : std::numeric_limits<float>::epsilon();
  Tensor diag = diagonal_of(LU),
         nudge = where(diag == 0, scalar_tensor(eps, LU.dtype()), zeros({}, LU.dtype()));
  if (nudge.is_fake() || !any(nudge != 0).item<bool>())
    return linalg_lu_solve(LU, pivots, d, true, !transposed);
  // The cofactors: of the nudged matrix, with its own determinant.
  Tensor factors = LU + diag_embed(nudge);
  auto [P, L, U] = lu_unpack(factors, pivots);
  Tensor other = linalg_det(matmul(P, matmul(L, U)));
  d = diag_embed(expand(unsqueeze(grad * conj(other), -1), sizes));
  return linalg_lu_solve(factors, pivots, d, true, !transposed);
}
Tensor slogdet_backward(GradContext& c, const Tensor& A, const Tensor& sign, const Tensor&, const Tensor&) {
  Tensor g = c.grad(1);
  if (A.is_complex()) {
    Tensor turn = imag(conj(c.grad(0)) * sign);
    g = make_complex(g, neg(turn));
  }
  Dims sizes(A.sizes());
  sizes.pop_back();
  return linalg_solve(adjoint(A), diag_embed(to(expand(unsqueeze(g, -1), sizes), A.dtype())));
}

Tensor pinv_backward(const Tensor& grad, const Tensor& pinv, const Tensor& A) {
  Tensor ph = adjoint(pinv), gh = adjoint(grad);
  if (A.size(-2) <= A.size(-1)) {
    Tensor K = matmul(gh, pinv), Kp = matmul(K, ph);
    return neg(adjoint(matmul(pinv, K))) + Kp - matmul(matmul(A, pinv), Kp) +
           matmul(matmul(ph, pinv), gh - matmul(K, A));
  }
  Tensor K = matmul(pinv, gh), pK = matmul(ph, K);
  return neg(adjoint(matmul(K, pinv))) + matmul(matmul(gh - matmul(A, K), pinv), ph) + pK -
         matmul(matmul(pK, pinv), A);
}
std::tuple<Tensor, Tensor> lstsq_backward(GradContext& c, const Tensor& A, const Tensor& B, const Tensor& X) {
  bool vector = B.dim() == 1 || is_vector_case(A, B);
  Tensor b = vector ? unsqueeze(B, -1) : B, ga = zeros_like(A), gb = zeros_like(b);
  if (c.has_grad(0)) {
    Tensor g = vector ? unsqueeze(c.grad(0), -1) : c.grad(0), pinv = linalg_pinv(A);
    ga = pinv_backward(matmul(g, adjoint(b)), pinv, A);
    gb = matmul(adjoint(pinv), g);
  }
  if (c.has_grad(1) && !surely_eq(c.grad(1).numel(), 0)) {
    // The residual's slope by X is zero: only A and B themselves count.
    Tensor x = vector ? unsqueeze(X, -1) : X, w = 2 * (matmul(A, x) - b) * unsqueeze(c.grad(1), -2);
    ga = ga + matmul(w, adjoint(x));
    gb = gb - w;
  }
  if (vector) gb = squeeze(gb, -1);
  return {sums_to(ga, A), sums_to(gb, B)};
}

// ---- reflectors: Hᵢ = 1 - τᵢ vᵢ vᵢᴴ, with vᵢ the i-th column below its diagonal one ----

namespace {

// Of H₁ … Hₖ X (or Hₖᴴ … H₁ᴴ X), with respect to the columns and τ. With L and R the products on the left and
// right of Hᵢ, its own gradient is K = Lᴴ g Rᴴ; only K v and Kᴴ v are needed.
std::tuple<Tensor, Tensor> reflect_backward(const Tensor& g, const Tensor& A, const Tensor& tau,
                                            const Tensor& X, bool adjointed) {
  int64_t k = tau.size(-1).guard_int();
  SymInt m = A.size(-2), n = A.size(-1);
  Tensor below = tril(A, -1) + eye(m, n, A.dtype(), {}, A.device());
  std::vector<Tensor> v, t;  // in the order in which they are multiplied
  for (int64_t j = 0; j < k; ++j) {
    int64_t i = adjointed ? k - 1 - j : j;
    v.push_back(slice(below, -1, SymInt(i), SymInt(i + 1)));
    Tensor scale = unsqueeze(slice(tau, -1, SymInt(i), SymInt(i + 1)), -1);
    t.push_back(adjointed ? conj(scale) : scale);
  }
  std::vector<Tensor> right(static_cast<size_t>(k) + 1);
  right.back() = X;
  for (size_t j = static_cast<size_t>(k); j-- > 0;)
    right[j] = right[j + 1] - t[j] * matmul(v[j], matmul(adjoint(v[j]), right[j + 1]));
  Tensor left = g;
  std::vector<Tensor> gv(static_cast<size_t>(k)), gt(static_cast<size_t>(k));
  for (size_t j = 0; j < static_cast<size_t>(k); ++j) {
    Tensor Kv = matmul(left, matmul(adjoint(right[j + 1]), v[j])),
           Khv = matmul(right[j + 1], matmul(adjoint(left), v[j]));
    size_t i = adjointed ? static_cast<size_t>(k) - 1 - j : j;
    gv[i] = -(conj(t[j]) * Kv + t[j] * Khv);
    Tensor scale = -matmul(adjoint(v[j]), Kv);
    gt[i] = squeeze(adjointed ? conj(scale) : scale, -1);
    left = left - conj(t[j]) * matmul(v[j], matmul(adjoint(v[j]), left));
  }
  if (k == 0) return {zeros_like(A), zeros_like(tau)};
  if (n > k) {
    Dims rest(A.sizes());
    rest.back() = n - k;
    gv.push_back(zeros(rest, A.dtype(), {}, A.device()));
  }
  return {tril(cat(gv, -1), -1), cat(gt, -1)};
}

}  // namespace

std::tuple<Tensor, Tensor> householder_backward(const Tensor& grad, const Tensor& input, const Tensor& tau) {
  SymInt m = input.size(-2), n = input.size(-1);
  return reflect_backward(grad, input, tau, eye(m, n, input.dtype(), {}, input.device()), false);
}

std::tuple<Tensor, Tensor> ormqr_backward(const Tensor& grad, const Tensor& self, const Tensor& tau,
                                          const Tensor& other, bool left, bool transpose) {
  if (left) return reflect_backward(grad, self, tau, other, transpose);
  return reflect_backward(adjoint(grad), self, tau, adjoint(other), !transpose);  // C Q = (Qᴴ Cᴴ)ᴴ
}

Tensor checked_cast(const Tensor& result, const Tensor& self) {
  if (!can_cast(result.dtype(), self.dtype()))
    failf("result type {} can't be cast to the desired output type {}", script_name(result.dtype()),
          script_name(self.dtype()));
  return result.dtype() == self.dtype() ? result : result.to(self.dtype());
}

}  // namespace tern
