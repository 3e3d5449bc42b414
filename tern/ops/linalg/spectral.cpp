// Singular values, eigenvalues, least squares, and what is made of them.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "tern/base/format.h"
#include "tern/kernels/lapack.h"
#include "tern/ops.h"
#include "tern/ops/formulas.h"
#include "tern/ops/linalg.args.h"
#include "tern/ops/linalg/matrices.h"

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
Shape none(DType d) { return Shape(Dims{SymInt(0)}, d); }
double epsilon(DType d) {
  return to_real(d) == kDouble ? std::numeric_limits<double>::epsilon()
                               : std::numeric_limits<float>::epsilon();
}

}  // namespace

Shapes shape__linalg_svd(const args::_linalg_svd& a) {
  check_float("linalg.svd", a.A);
  check_matrix("linalg.svd", a.A);
  check_routine("linalg_svd_cpu", a.A);
  if (a.driver)
    fail(
        "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER "
        "backend.");
  SymInt m = a.A.size(-2), n = a.A.size(-1), k = sym_min(m, n);
  Dims batch = batch_of(a.A);
  DType d = a.A.dtype();
  Shape s(with(batch, k), to_real(d));
  if (!a.compute_uv) return {none(d), s, none(d)};
  return {by_columns(matrix_sizes(batch, m, a.full_matrices ? m : k), d), s,
          by_columns(matrix_sizes(batch, a.full_matrices ? n : k, n), d)};
}
void kernel__linalg_svd(const args::_linalg_svd& a, Out out) {
  Tensor x = columns(a.A);
  Geometry g = geometry(x);
  int k = std::min(g.rows, g.columns);
  char job = !a.compute_uv ? 'N' : a.full_matrices ? 'A' : 'S';
  Dims batch = batch_of(x);
  Tensor u, vh;
  if (a.compute_uv) {
    u = new_columns(batch, g.rows, out[0].size(-1).as_int(), x.dtype());
    vh = new_columns(batch, out[2].size(-2).as_int(), g.columns, x.dtype());
  }
  if (k == 0 && a.compute_uv) {  // no singular values: any orthonormal basis
    for (const Tensor& t : {u, vh})
      if (t.int_numel()) {
        fill_elements(t, 0);
        Geometry h = geometry(t);
        linalg::by_dtype(t.dtype(), [&](auto zero) {
          using T = decltype(zero);
          for (int64_t i = 0; i < h.count; ++i)
            for (int d = 0; d < std::min(h.rows, h.columns); ++d) at<T>(t, i)[d * h.rows + d] = T(1);
        });
      }
  }
  linalg::by_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using R = kernels::real_t<T>;
    T nothing[1];
    for (int64_t i = 0; k && i < g.count; ++i) {
      int info = kernels::svd<T>(job, g.rows, g.columns, at<T>(x, i), static_cast<R*>(out[1].data()) + i * k,
                                 u.defined() ? at<T>(u, i) : nothing, vh.defined() ? at<T>(vh, i) : nothing);
      if (info) {
        Tensor codes = make_tensor({SymInt(i + 1)}, kInt);
        fill_elements(codes, 0);
        codes.data_ptr<int32_t>()[i] = info;
        check_info("linalg.svd", codes, a.A.dim() == 2);
      }
    }
  });
  if (!a.compute_uv) return;
  copy_elements(u, out[0]);
  copy_elements(vh, out[2]);
}
Tensor body_linalg_svdvals(const args::linalg_svdvals& a) {
  // With vectors where a gradient will be asked for.
  bool vectors = thread_state.grad_enabled && a.A.requires_grad();
  return std::get<1>(_linalg_svd(a.A, false, vectors, a.driver));
}
std::tuple<Tensor, Tensor, Tensor> body_svd(const args::svd& a) {
  check_matrix("linalg.svd", a.self);
  if (!a.compute_uv) {
    Tensor s = linalg_svdvals(a.self);
    Dims batch = batch_of(a.self);
    SymInt m = a.self.size(-2), n = a.self.size(-1);
    return {zeros(matrix_sizes(batch, m, m), a.self.dtype()), s,
            zeros(matrix_sizes(batch, n, n), a.self.dtype())};
  }
  auto [u, s, vh] = linalg_svd(a.self, !a.some);
  return {u, s, adjoint(vh)};
}

Shapes shape__linalg_eigh(const args::_linalg_eigh& a) {
  check_square("linalg.eigh", a.A);
  if (a.UPLO.size() != 1 || std::string_view("LlUu").find(a.UPLO[0]) == std::string_view::npos)
    failf("Expected UPLO argument to be 'L' or 'U', but got {}", a.UPLO);
  check_routine("linalg_eigh_cpu", a.A);
  return {Shape(with(batch_of(a.A), a.A.size(-1)), to_real(a.A.dtype())),
          a.compute_v ? by_columns(Dims(a.A.sizes()), a.A.dtype()) : none(a.A.dtype())};
}
void kernel__linalg_eigh(const args::_linalg_eigh& a, Out out) {
  Tensor x = columns(a.A), info = make_tensor(batch_of(a.A), kInt);
  Geometry g = geometry(x);
  fill_elements(info, 0);
  linalg::by_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using R = kernels::real_t<T>;
    for (int64_t i = 0; g.rows && i < g.count; ++i)
      info.data_ptr<int32_t>()[i] =
          kernels::eigh<T>(a.compute_v, a.UPLO == "U" || a.UPLO == "u", g.rows, at<T>(x, i),
                           static_cast<R*>(out[0].data()) + i * g.rows);
  });
  check_info("linalg.eigh", info, a.A.dim() == 2);
  if (a.compute_v) copy_elements(x, out[1]);
}
Tensor body_linalg_eigvalsh(const args::linalg_eigvalsh& a) {
  bool vectors = thread_state.grad_enabled && a.self.requires_grad();
  return std::get<0>(_linalg_eigh(a.self, a.UPLO, vectors));
}

Shapes shape_linalg_eig(const args::linalg_eig& a) {
  check_square("linalg.eig", a.self);
  if (is_integral(a.self.dtype(), true))
    failf("Unknown Complex ScalarType for {}", script_name(a.self.dtype()));
  check_routine("linalg_eig_out_cpu", a.self);
  DType d = to_complex(a.self.dtype());
  return {Shape(with(batch_of(a.self), a.self.size(-1)), d), by_columns(Dims(a.self.sizes()), d)};
}
void kernel_linalg_eig(const args::linalg_eig& a, Out out) {
  Tensor x = columns(a.self), info = make_tensor(batch_of(a.self), kInt);
  Geometry g = geometry(x);
  Tensor vectors = new_columns(batch_of(x), g.rows, g.columns, out[1].dtype());
  fill_elements(info, 0);
  linalg::by_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using C = std::complex<kernels::real_t<T>>;
    const T* p = static_cast<const T*>(x.data());
    for (int64_t i = 0; i < x.int_numel(); ++i)
      if (!std::isfinite(std::abs(p[i])))
        fail("torch.linalg.eig: input tensor should not contain infs or NaNs.");
    for (int64_t i = 0; g.rows && i < g.count; ++i)
      info.data_ptr<int32_t>()[i] = kernels::eig<T>(
          g.rows, at<T>(x, i), static_cast<C*>(out[0].data()) + i * g.rows, at<C>(vectors, i));
  });
  check_info("linalg.eig", info, a.self.dim() == 2);
  copy_elements(vectors, out[1]);
}

// ---- least squares ----

namespace {

struct Lstsq {
  SymInt m, n, columns;
  Dims batch;
  bool vector;
  std::string driver;
};
Lstsq lstsq_plan(const args::linalg_lstsq& a) {
  if (!has_routine(a.self.dtype())) fail("This function doesn't handle types other than float and double");
  if (a.self.dim() < 2) fail("torch.linalg.lstsq: input must have at least 2 dimensions.");
  if (a.b.dim() < 1) fail("torch.linalg.lstsq: other must have at least 1 dimension.");
  if (a.self.dtype() != a.b.dtype())
    failf(
        "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype {} and "
        "other's dtype {}",
        script_name(a.self.dtype()), script_name(a.b.dtype()));
  Lstsq p{a.self.size(-2), a.self.size(-1), 1, {}, false, std::string(a.driver.value_or("gelsy"))};
  if (p.driver != "gels" && p.driver != "gelsy" && p.driver != "gelsd" && p.driver != "gelss")
    fail("torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
  p.vector = a.b.dim() == 1 || (a.b.dim() == a.self.dim() - 1 && [&] {
               for (int64_t d = 0; d < a.b.dim(); ++d)
                 if (!(a.b.size(d) == a.self.size(d))) return false;
               return true;
             }());
  Dims other(a.b.sizes());
  SymInt rows;
  if (p.vector) {
    rows = other.back();
    other.pop_back();
  } else {
    p.columns = other.back();
    other.pop_back();
    rows = other.back();
    other.pop_back();
  }
  if (!(rows == p.m)) fail("torch.linalg.lstsq: input.size(-2) should match other.size(-2)");
  p.batch = broadcast_sizes(batch_of(a.self), other);
  return p;
}
Dims solution_sizes(const Lstsq& p) {
  Dims sizes = p.batch;
  sizes.push_back(p.n);
  if (!p.vector) sizes.push_back(p.columns);
  return sizes;
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor> kernel_linalg_lstsq(const args::linalg_lstsq& a) {
  Lstsq p = lstsq_plan(a);
  int64_t m = p.m.as_int(), n = p.n.as_int(), width = p.columns.as_int(), rows = std::max(m, n);
  DType type = a.self.dtype(), real = to_real(type);
  NoGrad plain;
  Tensor A = columns(expand(a.self.detach(), matrix_sizes(p.batch, p.m, p.n)));
  Tensor B = new_columns(p.batch, rows, width, type);
  fill_elements(B, 0);
  Tensor b = a.b.detach();
  Dims part = matrix_sizes(p.batch, p.m, p.columns);
  copy_elements(expand(p.vector ? unsqueeze(b, -1) : b, part), B.as_view(part, Dims(B.strides())));
  Geometry g = geometry(A);
  Tensor rank = make_tensor(p.driver == "gels" ? Dims{SymInt(0)} : batch_of(a.self), kLong);
  bool has_values = p.driver == "gelsd" || p.driver == "gelss";
  Tensor values = make_tensor(has_values ? with(batch_of(a.self), std::min(m, n)) : Dims{SymInt(0)}, real);
  if (rank.int_numel()) fill_elements(rank, 0);
  double rcond = a.rcond.value_or(epsilon(type) * static_cast<double>(rows));
  linalg::by_dtype(type, [&](auto zero) {
    using T = decltype(zero);
    using R = kernels::real_t<T>;
    std::vector<R> s(static_cast<size_t>(std::max<int64_t>(std::min(m, n), 1)));
    for (int64_t i = 0; m && n && i < g.count; ++i) {
      int found = 0,
          info = kernels::least_squares<T>(p.driver.c_str(), g.rows, g.columns, static_cast<int>(width),
                                           at<T>(A, i), at<T>(B, i), static_cast<R>(rcond), &found, s.data());
      if (info > 0)
        failf(
            "torch.linalg.lstsq: {}The least squares solution could not be computed because the input matrix "
            "does not "
            "have full rank (error code: {}).",
            a.self.dim() == 2 ? "" : fmt::format("(Batch element {}): ", i), info);
      if (i < rank.int_numel()) rank.data_ptr<int64_t>()[i] = found;
      if (has_values && (i + 1) * std::min(m, n) <= values.int_numel())
        std::copy_n(s.begin(), std::min(m, n), static_cast<R*>(values.data()) + i * std::min(m, n));
    }
  });
  Tensor solution = make_tensor(matrix_sizes(p.batch, p.n, p.columns), type);
  copy_elements(B.as_view(Dims(solution.sizes()), Dims(B.strides())), solution);
  // What is left over, where the system has more equations than unknowns and full rank.
  Tensor residuals = make_tensor({SymInt(0)}, real);
  bool full = p.driver != "gelsy";
  if (rank.int_numel())
    for (int64_t i = 0; i < rank.int_numel(); ++i) full &= rank.data_ptr<int64_t>()[i] == n;
  if (m > n && full && p.driver != "gelsy") {
    Dims rest = matrix_sizes(p.batch, SymInt(m - n), p.columns);
    SymInt skip = B.strides()[B.dim() - 2] * p.n;
    residuals = sum(square(abs(B.as_view(rest, Dims(B.strides()), B.offset() + skip))), Ints(-2));
  }
  if (p.vector) solution = squeeze(solution, -1);
  return {solution, residuals, rank, values};
}
Shapes shape_linalg_lstsq(const args::linalg_lstsq& a) {
  Lstsq p = lstsq_plan(a);
  DType type = a.self.dtype(), real = to_real(type);
  bool has_values = p.driver == "gelsd" || p.driver == "gelss";
  // Of a system with more equations than unknowns; where the rank is found to be less, the kernel gives none.
  Shape residuals = p.driver != "gelsy" && p.m > p.n ? Shape(with(p.batch, p.columns), real) : none(real);
  return {Shape(solution_sizes(p), type), residuals,
          p.driver == "gels" ? none(kLong) : Shape(batch_of(a.self), kLong),
          has_values ? Shape(with(batch_of(a.self), sym_min(p.m, p.n)), real) : none(real)};
}

// ---- pseudo-inverse and rank ----

namespace {

struct Tolerance {
  Tensor atol, rtol;
};
Tolerance tolerance(const Tensor& self, const Tensor& atol, const Tensor& rtol) {
  DType real = to_real(self.dtype());
  double width =
      static_cast<double>(std::max(self.size(-1).hint().value_or(1), self.size(-2).hint().value_or(1)));
  Tolerance t{atol, rtol};
  if (!t.atol.defined()) t.atol = zeros({}, real);
  if (!t.rtol.defined()) {
    Tensor standard = full({}, epsilon(self.dtype()) * width, real);
    t.rtol = atol.defined() ? where(atol > 0, zeros({}, real), standard) : standard;
  }
  return t;
}
Tensor number(std::optional<double> v, const Tensor& like) {
  return v ? full({}, *v, to_real(like.dtype())) : Tensor();
}
Tensor largest_first(const Tensor& s) { return amax(s, Ints(-1), true); }

Tensor pseudo_inverse(const Tensor& self, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  Tolerance t = tolerance(self, atol, rtol);
  if (hermitian) {
    auto [values, vectors] = linalg_eigh(self);
    Tensor size = abs(values),
           limit = maximum(unsqueeze(t.atol, -1), unsqueeze(t.rtol, -1) * largest_first(size));
    Tensor inverse = where(size > limit, reciprocal(values), 0);
    return matmul(vectors * unsqueeze(inverse, -2), adjoint(vectors));
  }
  auto [u, s, vh] = linalg_svd(self, false);
  Tensor limit = maximum(unsqueeze(t.atol, -1), unsqueeze(t.rtol, -1) * largest_first(s));
  Tensor inverse = where(s > limit, reciprocal(s), 0);
  return matmul(adjoint(vh) * unsqueeze(inverse, -2), adjoint(u));
}

}  // namespace

Shapes shape_linalg_pinv_atol_rtol_tensor(const args::linalg_pinv_atol_rtol_tensor& a) {
  if (!has_routine(a.self.dtype()) || a.self.dim() < 2)
    failf(
        "linalg.pinv({}{{{}}}): expected a tensor with 2 or more dimensions of float, double, cfloat or "
        "cdouble types",
        script_name(a.self.dtype()), str(a.self.sizes()));
  Dims batch = batch_of(a.self);
  bool empty = surely_eq(a.self.numel(), 0);
  if (a.atol.defined() && !empty) batch = broadcast_sizes(batch, a.atol.sizes());
  if (a.rtol.defined() && !empty) batch = broadcast_sizes(batch, a.rtol.sizes());
  return {Shape(matrix_sizes(batch, a.self.size(-1), a.self.size(-2)), a.self.dtype())};
}
void kernel_linalg_pinv_atol_rtol_tensor(const args::linalg_pinv_atol_rtol_tensor& a, Out out) {
  if (out[0].int_numel() == 0) return;
  NoGrad plain;
  copy_elements(pseudo_inverse(a.self.detach(), a.atol, a.rtol, a.hermitian), out[0]);
}
Tensor body_linalg_pinv_atol_rtol_float(const args::linalg_pinv_atol_rtol_float& a) {
  return linalg_pinv(a.self, number(a.atol, a.self), number(a.rtol, a.self), a.hermitian);
}
Tensor body_linalg_pinv(const args::linalg_pinv& a) {
  return linalg_pinv(a.self, number(0.0, a.self), number(a.rcond, a.self), a.hermitian);
}
Tensor body_pinverse(const args::pinverse& a) {
  return linalg_pinv(a.self, number(0.0, a.self), number(a.rcond, a.self), false);
}

Tensor body_linalg_matrix_rank_atol_rtol_tensor(const args::linalg_matrix_rank_atol_rtol_tensor& a) {
  if (!has_routine(a.input.dtype())) fail("This function doesn't handle types other than float and double");
  check_matrix("torch.linalg.matrix_rank", a.input);
  if (a.hermitian) check_square("torch.linalg.matrix_rank", a.input);
  if (a.input.numel().is_int() && a.input.numel().as_int() == 0)
    return full_like(empty(batch_of(a.input), kLong), 0);
  Tolerance t = tolerance(a.input, a.atol, a.rtol);
  Tensor s = a.hermitian ? abs(linalg_eigvalsh(a.input)) : linalg_svdvals(a.input);
  Tensor limit = maximum(unsqueeze(t.atol, -1), unsqueeze(t.rtol, -1) * largest_first(s));
  return sum(s > limit, Ints(-1));
}
Tensor body_linalg_matrix_rank_atol_rtol_float(const args::linalg_matrix_rank_atol_rtol_float& a) {
  return linalg_matrix_rank(a.self, number(a.atol, a.self), number(a.rtol, a.self), a.hermitian);
}
Tensor body_linalg_matrix_rank(const args::linalg_matrix_rank& a) {
  return linalg_matrix_rank(a.self, number(a.tol, a.self), number(0.0, a.self), a.hermitian);
}

}  // namespace tern
