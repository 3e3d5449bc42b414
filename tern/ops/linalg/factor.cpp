// LU, Cholesky and QR factors, and the systems that are solved with them.
#include <algorithm>
#include <cmath>
#include <complex>

#include "tern/base/format.h"
#include "tern/kernels/lapack.h"
#include "tern/ops.h"
#include "tern/ops/formulas.h"
#include "tern/ops/linalg.args.h"
#include "tern/ops/linalg/matrices.h"
#include "tern/ops/view/geometry.h"

namespace tern {

using namespace linalg;

namespace {

template <class T>
T* at(const Tensor& t, int64_t matrix) {
  return static_cast<T*>(t.data()) + matrix * t.size(-1).as_int() * t.size(-2).as_int();
}
Dims with(Dims batch, SymInt last) {
  batch.push_back(last);
  return batch;
}

// LU of every matrix; pivots count from 1, as LAPACK's do.
void factorise(const Tensor& a, const Tensor& pivots, const Tensor& info) {
  Geometry g = geometry(a);
  int k = std::min(g.rows, g.columns);
  linalg::by_dtype(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < g.count; ++i)
      info.data_ptr<int32_t>()[i] =
          kernels::lu<T>(g.rows, g.columns, at<T>(a, i), pivots.data_ptr<int32_t>() + i * k);
  });
}
void solve_with(const Tensor& lu, const Tensor& pivots, const Tensor& b, char trans) {
  Geometry g = geometry(lu), h = geometry(b);
  linalg::by_dtype(lu.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < g.count; ++i)
      kernels::lu_solve<T>(trans, g.rows, h.columns, at<T>(lu, i), pivots.data_ptr<int32_t>() + i * g.rows,
                           at<T>(b, i));
  });
}
void check_pivot(const char* api, bool pivot) {
  if (!pivot) failf("{}: LU without pivoting is not implemented on the CPU", api);
}
void check_same(const char* api, const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype())
    failf("{}: Expected A and B to have the same dtype, but found A of type {} and B of type {} instead", api,
          script_name(a.dtype()), script_name(b.dtype()));
}
// The common batch of two systems, or "Incompatible shapes of A and B for the equation AX = B".
Dims common_batch(const char* api, const Tensor& A, const Tensor& B, bool left) {
  check_matrix(api, A);
  if (B.dim() < 2) failf("{}: The input tensor B must have at least 2 dimensions.", api);
  if (!(left ? A.size(-2) == B.size(-2) : A.size(-1) == B.size(-1)))
    failf("{}: Incompatible shapes of A and B for the equation {} ({}x{} and {}x{})", api,
          left ? "AX = B" : "XA = B", A.size(-2).str(), A.size(-1).str(), B.size(-2).str(), B.size(-1).str());
  return broadcast_sizes(batch_of(A), batch_of(B));
}
Tensor expanded(const Tensor& t, const Dims& batch) {
  return expand_view(t, matrix_sizes(batch, t.size(-2), t.size(-1)));
}
Tensor turned(const Tensor& t) {  // the transposed view, outside of the ladder
  Dims sizes(t.sizes()), strides(t.strides());
  size_t n = sizes.size();
  std::swap(sizes[n - 1], sizes[n - 2]);
  std::swap(strides[n - 1], strides[n - 2]);
  return t.as_view(sizes, strides);
}
Tensor conjugated(const Tensor& t) {
  if (!t.is_complex()) return t;
  Tensor c = make_tensor(t.sizes(), t.dtype());
  run_loop("conj", {t}, c);
  return c;
}
Shape lu_shape(const Tensor& A) { return by_columns(Dims(A.sizes()), A.dtype()); }

// Keeps one triangle of square or oblong matrices; what is left out becomes zero.
void keep_triangle(const Tensor& t, bool upper, bool unit) {
  Geometry g = geometry(t);
  Tensor x = row_major(t);
  linalg::by_dtype(t.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* p = static_cast<T*>(x.data());
    for (int64_t m = 0; m < g.count; ++m)
      for (int64_t i = 0; i < g.rows; ++i)
        for (int64_t j = 0; j < g.columns; ++j, ++p) {
          if (upper ? j < i : j > i) *p = T(0);
          if (unit && i == j) *p = T(1);
        }
  });
  if (!x.is_same(t)) copy_elements(x, t);
}

}  // namespace

// ---- LU ----

Shapes shape_linalg_lu_factor_ex(const args::linalg_lu_factor_ex& a) {
  check_matrix("torch.linalg.lu_factor", a.A);
  check_routine("lu_cpu", a.A);
  check_pivot("linalg.lu_factor", a.pivot);
  return {lu_shape(a.A), Shape(with(batch_of(a.A), sym_min(a.A.size(-2), a.A.size(-1))), kInt),
          Shape(batch_of(a.A), kInt)};
}
void kernel_linalg_lu_factor_ex(const args::linalg_lu_factor_ex& a, Out out) {
  Tensor lu = columns(a.A);
  factorise(lu, out[1], out[2]);
  copy_elements(lu, out[0]);
  if (a.check_errors) check_info("torch.linalg.lu_factor_ex", out[2], a.A.dim() == 2);
}
std::tuple<Tensor, Tensor> body_linalg_lu_factor(const args::linalg_lu_factor& a) {
  auto [lu, pivots, info] = linalg_lu_factor_ex(a.A, a.pivot, false);
  _linalg_check_errors(info, "torch.linalg.lu_factor", a.A.dim() == 2);
  return {lu, pivots};
}

namespace {

void unpack(const Tensor& lu, const Tensor& pivots, const Tensor& P, const Tensor& L, const Tensor& U) {
  Geometry g = geometry(lu);
  int k = std::min(g.rows, g.columns);
  auto part = [&](const Tensor& to) {
    if (to.int_numel()) copy_elements(lu.as_view(Dims(to.sizes()), Dims(lu.strides())), to);
  };
  if (L.int_numel()) {
    part(L);
    keep_triangle(L, false, true);
  }
  if (U.int_numel()) {
    part(U);
    keep_triangle(U, true, false);
  }
  if (!P.defined() || !P.int_numel() || !pivots.defined()) return;
  fill_elements(P, 0);
  Tensor piv = row_major(pivots);
  linalg::by_dtype(P.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<int> order(static_cast<size_t>(g.rows));
    for (int64_t m = 0; m < g.count; ++m) {
      for (int i = 0; i < g.rows; ++i) order[static_cast<size_t>(i)] = i;
      for (int i = 0; i < k; ++i) {
        int other = piv.data_ptr<int32_t>()[m * k + i] - 1;
        if (other < 0 || other >= g.rows)
          failf(ErrorKind::index, "lu_unpack: pivots must be between 1 and {}", g.rows);
        std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(other)]);
      }
      T* p = static_cast<T*>(P.data()) + m * g.rows * g.rows;
      for (int i = 0; i < g.rows; ++i) p[order[static_cast<size_t>(i)] * g.rows + i] = T(1);
    }
  });
}
Shapes unpacked(const Tensor& lu, bool data, bool pivots) {
  SymInt m = lu.size(-2), n = lu.size(-1), k = sym_min(m, n);
  Dims batch = batch_of(lu);
  Shape none(Dims{SymInt(0)}, lu.dtype());
  return {pivots ? Shape(matrix_sizes(batch, m, m), lu.dtype()) : none,
          data ? Shape(matrix_sizes(batch, m, k), lu.dtype()) : none,
          data ? Shape(matrix_sizes(batch, k, n), lu.dtype()) : none};
}

}  // namespace

Shapes shape_linalg_lu(const args::linalg_lu& a) {
  check_matrix("torch.linalg.lu", a.A);
  check_routine("lu_cpu", a.A);
  check_pivot("linalg.lu", a.pivot);
  return unpacked(a.A, true, true);
}
void kernel_linalg_lu(const args::linalg_lu& a, Out out) {
  Tensor lu = columns(a.A);
  Geometry g = geometry(lu);
  Tensor pivots = make_tensor(with(batch_of(lu), std::min(g.rows, g.columns)), kInt),
         info = make_tensor(batch_of(lu), kInt);
  factorise(lu, pivots, info);
  unpack(lu, pivots, out[0], out[1], out[2]);
}
Shapes shape_lu_unpack(const args::lu_unpack& a) {
  if (a.unpack_pivots && a.LU_pivots.dtype() != kInt)
    fail(
        "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype. Note: this "
        "function is "
        "intended to be used with the output produced by torch.linalg.lu_factor");
  check_matrix("torch.lu_unpack", a.LU_data);
  return unpacked(a.LU_data, a.unpack_data, a.unpack_pivots);
}
void kernel_lu_unpack(const args::lu_unpack& a, Out out) {
  const Tensor pivots = a.unpack_pivots ? a.LU_pivots : Tensor();
  const DType d = a.LU_data.dtype();
  if (d == kFloat || d == kDouble || d == kComplexFloat || d == kComplexDouble)
    return unpack(a.LU_data, pivots, out[0], out[1], out[2]);
  // Nothing is computed, so other types are taken, too; LAPACK's form is only needed for the permutation.
  NoGrad no_grad;
  const SymInt k = sym_min(a.LU_data.size(-2), a.LU_data.size(-1));
  if (out[1].int_numel()) {
    copy_elements(tril(narrow(a.LU_data, -1, 0, k), -1), out[1]);
    fill_elements(diagonal(out[1], 0, -2, -1), 1);
  }
  if (out[2].int_numel()) copy_elements(triu(narrow(a.LU_data, -2, 0, k)), out[2]);
  if (!a.unpack_pivots) return;
  Tensor order = make_tensor(out[0].sizes(), kFloat), none = make_tensor({SymInt(0)}, kFloat);
  Tensor shape = make_tensor(a.LU_data.sizes(), kFloat);
  unpack(shape, pivots, order, none, none);
  copy_elements(order, out[0]);
}

Shapes shape_linalg_lu_solve(const args::linalg_lu_solve& a) {
  check_float("torch.linalg.lu_solve", a.LU);
  check_routine("linalg.lu_solve_cpu", a.LU);
  check_same("torch.linalg.lu_solve", a.LU, a.B);
  check_square("torch.linalg.lu_solve", a.LU);
  if (a.pivots.dtype() != kInt) fail("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32");
  Dims batch = common_batch("torch.linalg.lu_solve", a.LU, a.B, a.left);
  return {by_columns(matrix_sizes(batch, a.B.size(-2), a.B.size(-1)), a.B.dtype())};
}
void kernel_linalg_lu_solve(const args::linalg_lu_solve& a, Out out) {
  if (out[0].int_numel() == 0) return;
  Dims batch = batch_of(out[0]);
  Tensor lu = columns(expanded(a.LU, batch)),
         pivots = row_major(expand_view(a.pivots, with(batch, a.LU.size(-1))));
  Tensor B = expanded(a.B, batch);
  // XA = B is AᵀXᵀ = Bᵀ.
  Tensor x = columns(a.left ? B : turned(B));
  if (!a.left && a.adjoint) x = columns(conjugated(x));
  char trans = a.left ? (a.adjoint ? 'C' : 'N') : (a.adjoint ? 'N' : 'T');
  solve_with(lu, pivots, x, trans);
  if (!a.left && a.adjoint) x = conjugated(x);
  copy_elements(a.left ? x : turned(x), out[0]);
}

// ---- solve and inverse ----

namespace {

struct System {
  Tensor B;  // a matrix
  Dims batch;
  bool vector;
};
System system(const char* api, const Tensor& A, const Tensor& B, bool left) {
  check_float(api, A);
  check_same(api, A, B);
  check_square(api, A);
  System s{B, {}, is_vector_case(A, B)};
  if (s.vector && !left)
    failf("{}: Vector broadcasting of the left hand side is not supported for left=False.", api);
  if (s.vector) {
    Dims sizes(B.sizes()), strides(B.strides());
    sizes.push_back(1);
    strides.push_back(1);
    s.B = B.as_view(sizes, strides);
  }
  s.batch = common_batch(api, A, s.B, left);
  check_routine("lu_cpu", A);
  return s;
}

}  // namespace

Shapes shape__linalg_solve_ex(const args::_linalg_solve_ex& a) {
  System s = system("linalg.solve", a.A, a.B, a.left);
  Dims sizes = matrix_sizes(s.batch, s.B.size(-2), s.B.size(-1));
  if (s.vector) sizes.pop_back();
  Dims batch = batch_of(a.A);
  Shape solution = a.left ? by_columns(sizes, a.B.dtype()) : Shape(sizes, a.B.dtype());
  return {solution, lu_shape(a.A), Shape(with(batch, a.A.size(-1)), kInt), Shape(batch, kInt)};
}
void kernel__linalg_solve_ex(const args::_linalg_solve_ex& a, Out out) {
  System s = system("linalg.solve", a.A, a.B, a.left);
  Tensor lu = columns(a.A);
  factorise(lu, out[2], out[3]);
  copy_elements(lu, out[1]);
  if (a.check_errors) check_info("torch.linalg.solve_ex", out[3], a.A.dim() == 2);
  if (out[0].int_numel() == 0) return;
  Tensor whole = columns(expanded(lu, s.batch)),
         pivots = row_major(expand_view(out[2], with(s.batch, a.A.size(-1))));
  Tensor B = expanded(s.B, s.batch), x = columns(a.left ? B : turned(B));
  solve_with(whole, pivots, x, a.left ? 'N' : 'T');
  if (!a.left) x = turned(x);
  if (s.vector) {
    Dims sizes(x.sizes()), strides(x.strides());
    sizes.pop_back();
    strides.pop_back();
    x = x.as_view(sizes, strides);
  }
  copy_elements(x, out[0]);
}
std::tuple<Tensor, Tensor> body_linalg_solve_ex(const args::linalg_solve_ex& a) {
  auto [x, lu, pivots, info] = _linalg_solve_ex(a.A, a.B, a.left, a.check_errors);
  return {x, info};
}
Tensor body_linalg_solve(const args::linalg_solve& a) {
  auto [x, lu, pivots, info] = _linalg_solve_ex(a.A, a.B, a.left, false);
  _linalg_check_errors(info, "torch.linalg.solve", a.A.dim() == 2);
  return x;
}

Shapes shape_linalg_solve_triangular(const args::linalg_solve_triangular& a) {
  check_same("linalg.solve_triangular", a.self, a.B);
  check_square("linalg.solve_triangular", a.self);
  Dims batch = common_batch("linalg.solve_triangular", a.self, a.B, a.left);
  check_routine("triangular_solve_cpu", a.self);
  return {by_columns(matrix_sizes(batch, a.B.size(-2), a.B.size(-1)), a.B.dtype())};
}
void kernel_linalg_solve_triangular(const args::linalg_solve_triangular& a, Out out) {
  if (out[0].int_numel() == 0) return;
  Dims batch = batch_of(out[0]);
  Tensor A = columns(expanded(a.self, batch)), x = columns(expanded(a.B, batch));
  Geometry g = geometry(x);
  linalg::by_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < g.count; ++i)
      kernels::triangular_solve<T>(a.left, a.upper, a.unitriangular, g.rows, g.columns, at<T>(A, i),
                                   at<T>(x, i));
  });
  copy_elements(x, out[0]);
}
std::tuple<Tensor, Tensor> body_triangular_solve(const args::triangular_solve& a) {
  Tensor A = a.transpose ? transpose(a.A, -2, -1) : a.A;
  Tensor x = linalg_solve_triangular(A, a.self, a.upper != a.transpose, true, a.unitriangular);
  Dims batch = batch_of(x);
  Tensor all = expand(a.A, matrix_sizes(batch, a.A.size(-2), a.A.size(-1)));
  // By columns, as LAPACK takes it.
  return {x, transpose(clone(transpose(all, -2, -1), MemoryFormat::contiguous), -2, -1)};
}

Shapes shape_linalg_inv_ex(const args::linalg_inv_ex& a) {
  check_low_precision("linalg.inv", a.A);
  check_square("linalg.inv", a.A);
  return {lu_shape(a.A), Shape(batch_of(a.A), kInt)};
}
void kernel_linalg_inv_ex(const args::linalg_inv_ex& a, Out out) {
  Tensor lu = columns(a.A),
         x = new_columns(batch_of(a.A), a.A.size(-2).as_int(), a.A.size(-1).as_int(), a.A.dtype());
  Tensor pivots = make_tensor(with(batch_of(a.A), a.A.size(-1)), kInt);
  factorise(lu, pivots, out[1]);
  if (a.check_errors) check_info("linalg.inv_ex", out[1], a.A.dim() == 2);
  fill_elements(x, 0);
  fill_elements(diagonal_view(x, 0, -2, -1), 1);
  solve_with(lu, pivots, x, 'N');
  copy_elements(x, out[0]);
}
Tensor body_linalg_inv(const args::linalg_inv& a) {
  auto [x, info] = linalg_inv_ex(a.A, false);
  _linalg_check_errors(info, "linalg.inv", a.A.dim() == 2);
  return x;
}

// ---- determinants ----

namespace {

// f(matrix, element of the diagonal) over the LU factors; flips says whether the rows were exchanged an odd
// number of times.
template <class F>
void over_diagonals(const Tensor& lu, const Tensor& pivots, F&& f) {
  Geometry g = geometry(lu);
  for (int64_t m = 0; m < g.count; ++m) {
    bool odd = false;
    for (int i = 0; i < g.rows; ++i) odd ^= pivots.data_ptr<int32_t>()[m * g.rows + i] != i + 1;
    f(m, g.rows, odd);
  }
}
// Of the transposed matrices where that needs no copy; their determinants are the same, and det_backward
// knows.
Tensor determinant_factors(const Tensor& A, const Tensor& lu_out, const Tensor& pivots) {
  bool transposed = A.is_contiguous() && !A.is_complex();
  Tensor lu = columns(transposed ? turned(A) : A), info = make_tensor(batch_of(A), kInt);
  factorise(lu, pivots, info);
  copy_elements(lu, lu_out);
  return lu;
}

}  // namespace

Shapes shape__linalg_det(const args::_linalg_det& a) {
  check_float("linalg.det", a.A);
  check_square("linalg.det", a.A);
  check_routine("lu_cpu", a.A);
  return {Shape(batch_of(a.A), a.A.dtype()), lu_shape(a.A), Shape(with(batch_of(a.A), a.A.size(-1)), kInt)};
}
void kernel__linalg_det(const args::_linalg_det& a, Out out) {
  Tensor lu = determinant_factors(a.A, out[1], out[2]);
  linalg::by_dtype(lu.dtype(), [&](auto zero) {
    using T = decltype(zero);
    over_diagonals(lu, out[2], [&](int64_t m, int n, bool odd) {
      T product = odd ? T(-1) : T(1);
      for (int i = 0; i < n; ++i) product *= at<T>(lu, m)[i * n + i];
      static_cast<T*>(out[0].data())[m] = product;
    });
  });
}
Shapes shape__linalg_slogdet(const args::_linalg_slogdet& a) {
  check_low_precision("linalg.slogdet", a.A);
  check_square("linalg.slogdet", a.A);
  Dims batch = batch_of(a.A);
  return {Shape(batch, a.A.dtype()), Shape(batch, to_real(a.A.dtype())), lu_shape(a.A),
          Shape(with(batch, a.A.size(-1)), kInt)};
}
void kernel__linalg_slogdet(const args::_linalg_slogdet& a, Out out) {
  Tensor lu = determinant_factors(a.A, out[2], out[3]);
  linalg::by_dtype(lu.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using R = kernels::real_t<T>;
    over_diagonals(lu, out[3], [&](int64_t m, int n, bool odd) {
      T sign = odd ? T(-1) : T(1);
      R log = 0;
      for (int i = 0; i < n; ++i) {
        T v = at<T>(lu, m)[i * n + i];
        R size = std::abs(v);
        const bool none = size == 0 || (std::is_same_v<T, R> && std::isnan(size));  // as sgn has it
        sign *= none ? T(0) : v / size;
        log += std::log(size);
      }
      static_cast<T*>(out[0].data())[m] = sign;
      static_cast<R*>(out[1].data())[m] = log;
    });
  });
}
std::tuple<Tensor, Tensor> body_linalg_slogdet(const args::linalg_slogdet& a) {
  auto [sign, log, lu, pivots] = _linalg_slogdet(a.A);
  return {sign, log};
}
Tensor body_logdet(const args::logdet& a) {
  check_low_precision("logdet", a.self);
  check_square("logdet", a.self);
  auto [sign, log, lu, pivots] = _linalg_slogdet(a.self);
  if (a.self.is_complex()) return tern::log(sign) + log;
  return where(sign == -1, scalar_tensor(NAN, log.dtype()), log);
}

// ---- Cholesky ----

Shapes shape_linalg_cholesky_ex(const args::linalg_cholesky_ex& a) {
  check_float("linalg.cholesky", a.self);
  check_square("linalg.cholesky", a.self);
  check_routine("cholesky_cpu", a.self);
  return {lu_shape(a.self), Shape(batch_of(a.self), kInt)};
}
void kernel_linalg_cholesky_ex(const args::linalg_cholesky_ex& a, Out out) {
  Tensor x = columns(a.self);
  Geometry g = geometry(x);
  linalg::by_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < g.count; ++i)
      out[1].data_ptr<int32_t>()[i] = kernels::cholesky<T>(a.upper, g.rows, at<T>(x, i));
  });
  copy_elements(x, out[0]);
  keep_triangle(out[0], a.upper, false);
  if (a.check_errors) check_info("linalg.cholesky_ex", out[1], a.self.dim() == 2);
}
Tensor body_linalg_cholesky(const args::linalg_cholesky& a) {
  auto [factor, info] = linalg_cholesky_ex(a.self, a.upper, false);
  _linalg_check_errors(info, "linalg.cholesky", a.self.dim() == 2);
  return factor;
}
Tensor body_cholesky(const args::cholesky& a) {
  check_routine("cholesky_cpu", a.self);
  auto [factor, info] = linalg_cholesky_ex(a.self, a.upper, false);
  _linalg_check_errors(info, "cholesky", a.self.dim() == 2);
  return factor;
}
Shapes shape_cholesky_inverse(const args::cholesky_inverse& a) {
  check_square("cholesky_inverse", a.self);
  check_routine("cholesky_inverse_out_cpu", a.self);
  return {lu_shape(a.self)};
}
void kernel_cholesky_inverse(const args::cholesky_inverse& a, Out out) {
  Tensor x = columns(a.self);
  Geometry g = geometry(x);
  linalg::by_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < g.count; ++i) {
      T* p = at<T>(x, i);
      int info = kernels::cholesky_inverse<T>(a.upper, g.rows, p);
      if (info > 0)
        failf(
            "cholesky_inverse: The diagonal element {} is zero, the inversion could not be completed because "
            "the input "
            "matrix is singular.",
            info);
      for (int c = 0; c < g.rows; ++c)  // the other triangle
        for (int r = 0; r < g.rows; ++r)
          if (a.upper ? r > c : r < c) {
            if constexpr (requires { p->real(); })
              p[c * g.rows + r] = std::conj(p[r * g.rows + c]);
            else
              p[c * g.rows + r] = p[r * g.rows + c];
          }
    }
  });
  copy_elements(x, out[0]);
}
Shapes shape_cholesky_solve(const args::cholesky_solve& a) {
  if (a.self.dim() < 2)
    failf("b should have at least 2 dimensions, but has {} dimensions instead", a.self.dim());
  if (a.input2.dim() < 2)
    failf("u should have at least 2 dimensions, but has {} dimensions instead", a.input2.dim());
  check_same("cholesky_solve", a.input2, a.self);
  check_square("cholesky_solve", a.input2);
  Dims batch = common_batch("cholesky_solve", a.input2, a.self, true);
  check_routine("cholesky_solve_cpu", a.self);
  return {by_columns(matrix_sizes(batch, a.self.size(-2), a.self.size(-1)), a.self.dtype())};
}
void kernel_cholesky_solve(const args::cholesky_solve& a, Out out) {
  if (out[0].int_numel() == 0) return;
  Dims batch = batch_of(out[0]);
  Tensor factor = columns(expanded(a.input2, batch)), x = columns(expanded(a.self, batch));
  Geometry g = geometry(x);
  linalg::by_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < g.count; ++i)
      kernels::cholesky_solve<T>(a.upper, g.rows, g.columns, at<T>(factor, i), at<T>(x, i));
  });
  copy_elements(x, out[0]);
}

// ---- QR ----

Shapes shape_linalg_qr(const args::linalg_qr& a) {
  if (a.mode != "reduced" && a.mode != "complete" && a.mode != "r")
    failf("qr received unrecognized mode '{}' but expected one of 'reduced' (default), 'r', or 'complete'",
          a.mode);
  check_matrix("linalg.qr", a.A);
  check_float("linalg.qr", a.A);
  check_routine("geqrf_cpu", a.A);
  SymInt m = a.A.size(-2), n = a.A.size(-1), k = sym_min(m, n);
  Dims batch = batch_of(a.A);
  SymInt rows = a.mode == "complete" ? m : k;
  return {a.mode == "r" ? Shape(Dims{SymInt(0)}, a.A.dtype())
                        : by_columns(matrix_sizes(batch, m, rows), a.A.dtype()),
          by_columns(matrix_sizes(batch, rows, n), a.A.dtype())};
}
void kernel_linalg_qr(const args::linalg_qr& a, Out out) {
  Tensor x = columns(a.A);
  Geometry g = geometry(x);
  int k = std::min(g.rows, g.columns), q_columns = a.mode == "complete" ? g.rows : k;
  Tensor q = a.mode == "r" ? Tensor() : new_columns(batch_of(x), g.rows, q_columns, x.dtype());
  linalg::by_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> tau(static_cast<size_t>(std::max(k, 1)));
    for (int64_t i = 0; i < g.count; ++i) {
      T* p = at<T>(x, i);
      kernels::qr<T>(g.rows, g.columns, p, tau.data());
      if (!q.defined()) continue;
      std::copy_n(p, static_cast<int64_t>(g.rows) * std::min(g.columns, q_columns), at<T>(q, i));
      kernels::householder_product<T>(g.rows, q_columns, k, at<T>(q, i), tau.data());
    }
  });
  if (out[1].int_numel()) {
    copy_elements(x.as_view(Dims(out[1].sizes()), Dims(x.strides())), out[1]);
    keep_triangle(out[1], true, false);
  }
  if (q.defined()) copy_elements(q, out[0]);
}

Shapes shape_geqrf(const args::geqrf& a) {
  check_matrix("geqrf", a.self);
  check_routine("geqrf_cpu", a.self);
  return {lu_shape(a.self),
          Shape(with(batch_of(a.self), sym_min(a.self.size(-2), a.self.size(-1))), a.self.dtype())};
}
void kernel_geqrf(const args::geqrf& a, Out out) {
  Tensor x = columns(a.self);
  Geometry g = geometry(x);
  int k = std::min(g.rows, g.columns);
  linalg::by_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < g.count; ++i)
      kernels::qr<T>(g.rows, g.columns, at<T>(x, i), static_cast<T*>(out[1].data()) + i * k);
  });
  copy_elements(x, out[0]);
}
Shapes shape_linalg_householder_product(const args::linalg_householder_product& a) {
  if (a.input.dim() < 2) fail("torch.linalg.householder_product: input must have at least 2 dimensions.");
  if (!(a.input.size(-2) >= a.input.size(-1)))
    fail(
        "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]");
  if (!(a.input.size(-1) >= a.tau.size(-1)))
    fail("torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]");
  check_routine("orgqr_cpu", a.input);
  return {lu_shape(a.input)};
}
void kernel_linalg_householder_product(const args::linalg_householder_product& a, Out out) {
  Tensor x = columns(a.input), tau = row_major(a.tau);
  Geometry g = geometry(x);
  int k = static_cast<int>(tau.size(-1).as_int());
  linalg::by_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < g.count; ++i)
      kernels::householder_product<T>(g.rows, g.columns, k, at<T>(x, i),
                                      static_cast<const T*>(tau.data()) + i * k);
  });
  copy_elements(x, out[0]);
}
Shapes shape_ormqr(const args::ormqr& a) {
  const int64_t side = a.left ? -2 : -1;
  if (a.self.dim() < 2) fail("torch.ormqr: input must have at least 2 dimensions.");
  if (a.input3.dim() < 2) fail("torch.ormqr: other must have at least 2 dimensions.");
  if (!(a.input3.size(side) == a.self.size(-2)))
    failf("torch.ormqr: other.shape[{}] must be equal to input.shape[-2]", side);
  if (!(a.input2.size(-1) == sym_min(a.input3.size(side), a.self.size(-1))))
    failf("torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{}], input.shape[-1])", side);
  if (a.input2.dim() != a.self.dim() - 1)
    failf(
        "torch.ormqr: Expected tau to have one dimension less than input, but got tau.ndim equal to {} and "
        "input.ndim is equal to {}",
        a.input2.dim(), a.self.dim());
  auto check_batch = [&](const char* which, const Tensor& t, int64_t own) {
    bool same = t.dim() - own == a.self.dim() - 2;
    for (int64_t d = 0; same && d < a.self.dim() - 2; ++d) same = t.sizes()[d] == a.self.sizes()[d];
    if (!same)
      failf("torch.ormqr: Expected batch dimensions of {} to be equal to input.shape[:-2], but got {}", which,
            str(Dims(Span<const SymInt>(t.sizes().data(), static_cast<size_t>(t.dim() - own)))));
  };
  check_batch("tau", a.input2, 1);
  check_batch("other", a.input3, 2);
  return {by_columns(Dims(a.input3.sizes()), a.input3.dtype())};
}
void kernel_ormqr(const args::ormqr& a, Out out) {
  Tensor q = columns(a.self), tau = row_major(a.input2), x = columns(a.input3);
  Geometry g = geometry(x), h = geometry(q);
  int k = static_cast<int>(tau.size(-1).as_int());
  linalg::by_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < g.count; ++i)
      kernels::multiply_by_q<T>(a.left, a.transpose, g.rows, g.columns, k, at<T>(q, i), h.rows,
                                static_cast<const T*>(tau.data()) + i * k, at<T>(x, i));
  });
  copy_elements(x, out[0]);
}

}  // namespace tern
