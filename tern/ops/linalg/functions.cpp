// Functions of matrices: powers, the exponential, norms, condition numbers, systems of tensors.
#include <cmath>

#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/formulas.h"
#include "tern/ops/linalg.args.h"
#include "tern/ops/linalg/matrices.h"

namespace tern {

using namespace linalg;

Tensor body_linalg_matrix_power(const args::linalg_matrix_power& a) {
  check_square("linalg.matrix_power", a.self);
  int64_t n = a.n;
  if (n == 0) {
    Tensor one = eye(a.self.size(-1), a.self.dtype(), {}, a.self.device());
    return copy(a.self, one);
  }
  if (n == 1) return clone(a.self);
  Tensor x = n < 0 ? linalg_inv(a.self) : a.self;
  n = std::abs(n);
  if (n == 1) return x;
  if (n == 2) return matmul(x, x);
  if (n == 3) return matmul(matmul(x, x), x);
  // By the bits of n.
  Tensor result, square;
  while (n > 0) {
    square = square.defined() ? matmul(square, square) : x;
    if (n % 2) result = result.defined() ? matmul(result, square) : square;
    n /= 2;
  }
  return result;
}

// ---- the exponential ----

Shapes shape_linalg_matrix_exp(const args::linalg_matrix_exp& a) {
  check_float("linalg.matrix_exp", a.self);
  check_square("linalg.matrix_exp", a.self);
  return {Shape(Dims(a.self.sizes()), a.self.dtype())};
}
void kernel_linalg_matrix_exp(const args::linalg_matrix_exp& a, Out out) {
  if (out[0].int_numel() == 0) return;
  // Padé's approximant of degree 13 after scaling by a power of two, in double (Higham 2005).
  NoGrad plain;
  SymInt n = a.self.size(-1);
  Tensor A = reshape(to(a.self.detach(), a.self.is_complex() ? kComplexDouble : kDouble), {-1, n, n});
  Tensor size = amax(sum(abs(A), Ints(-2)), Ints(-1));
  int64_t count = A.size(0).as_int();
  Tensor result = make_tensor(A.sizes(), A.dtype());
  static const double b[] = {64764752532480000.,
                             32382376266240000.,
                             7771770303897600.,
                             1187353796428800.,
                             129060195264000.,
                             10559470521600.,
                             670442572800.,
                             33522128640.,
                             1323241920.,
                             40840800.,
                             960960.,
                             16380.,
                             182.,
                             1.};
  for (int64_t i = 0; i < count; ++i) {
    Tensor x = select(A, 0, i), one = eye(n, A.dtype());
    double norm = select(size, 0, i).item().to_double();
    int squarings = std::isfinite(norm) && norm > 5.371920351148152
                        ? static_cast<int>(std::ceil(std::log2(norm / 5.371920351148152)))
                        : 0;
    if (squarings) x = x * std::ldexp(1.0, -squarings);
    Tensor x2 = mm(x, x), x4 = mm(x2, x2), x6 = mm(x4, x2);
    Tensor odd =
        mm(x, mm(x6, x6 * b[13] + x4 * b[11] + x2 * b[9]) + x6 * b[7] + x4 * b[5] + x2 * b[3] + one * b[1]);
    Tensor even =
        mm(x6, x6 * b[12] + x4 * b[10] + x2 * b[8]) + x6 * b[6] + x4 * b[4] + x2 * b[2] + one * b[0];
    Tensor r = std::get<0>(linalg_solve_ex(even - odd, even + odd));
    for (int k = 0; k < squarings; ++k) r = mm(r, r);
    copy_elements(r, result.as_view({n, n}, {n, SymInt(1)}, result.offset() + n * n * i));
  }
  copy_elements(result.as_view(Dims(a.self.sizes()), contiguous_strides(a.self.sizes())), out[0]);
}
Tensor body_matrix_exp_backward(const args::matrix_exp_backward& a) {
  // The derivative in a direction stands in the corner of exp([[X, G], [0, X]]).
  Tensor x = adjoint(a.self);
  Tensor top = cat({x, a.grad}, -1), bottom = cat({zeros_like(x), x}, -1);
  SymInt n = a.self.size(-1);
  Tensor whole = linalg_matrix_exp(cat({top, bottom}, -2));
  return slice(slice(whole, -2, SymInt(0), n), -1, n, n * 2);
}

// ---- norms ----

namespace {

Tensor with_type(const Tensor& t, std::optional<DType> dtype) { return dtype ? to(t, *dtype) : t; }

// The two dims of the matrices, moved to the end.
struct Pair {
  int64_t rows, columns;
};
Pair pair(const char* api, const Tensor& self, Ints dim) {
  if (dim.size() != 2) failf("{}: dim must be a 2-tuple. Got {} dims", api, dim.size());
  Pair p{wrap_dim(dim[0], self.dim()), wrap_dim(dim[1], self.dim())};
  if (p.rows == p.columns) failf("{}: dims must be different. Got ({}, {})", api, dim[0], dim[1]);
  return p;
}
Tensor ends(const Tensor& self, Pair p) {
  std::vector<int64_t> order;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (d != p.rows && d != p.columns) order.push_back(d);
  order.push_back(p.rows);
  order.push_back(p.columns);
  return permute(self, order);
}
Tensor kept(Tensor t, Pair p, bool keepdim) {
  if (!keepdim) return t;
  t = unsqueeze(t, std::min(p.rows, p.columns));
  return unsqueeze(t, std::max(p.rows, p.columns));
}
void check_norm(const char* api, const Tensor& self) {
  check_float(api, self);
  if (self.dim() < 2) failf("{}: The input tensor A must have at least 2 dimensions.", api);
}
Tensor matrix_norm(const Tensor& self, const Scalar& ord, Ints dim, bool keepdim,
                   std::optional<DType> dtype) {
  check_norm("linalg.matrix_norm", self);
  Pair p = pair("linalg.matrix_norm", self, dim);
  double order = ord.to_double();
  Tensor x = with_type(self, dtype);
  if (std::abs(order) == 2) {
    Tensor s = linalg_svdvals(ends(x, p));
    // The largest of none is 0; the smallest is nothing.
    if (order > 0 && s.size(-1) == 0)
      return kept(zeros(s.sizes().first(static_cast<size_t>(s.dim() - 1)), s.dtype()), p, keepdim);
    Tensor e = order > 0 ? amax(s, Ints(-1)) : amin(s, Ints(-1));
    return kept(e, p, keepdim);
  }
  if (std::abs(order) != 1 && !std::isinf(order))
    failf("linalg.matrix_norm: Order {} not supported.", ord.str());
  int64_t inner = std::isinf(order) ? p.columns : p.rows, outer = std::isinf(order) ? p.rows : p.columns;
  Tensor sums = linalg_vector_norm(x, 1, Ints(inner), keepdim);
  if (!keepdim && outer > inner) --outer;
  if (order > 0 && sums.size(outer) == 0) return sum(sums, Ints(outer), keepdim);
  return order > 0 ? amax(sums, Ints(outer), keepdim) : amin(sums, Ints(outer), keepdim);
}
Tensor matrix_norm(const Tensor& self, std::string_view ord, Ints dim, bool keepdim,
                   std::optional<DType> dtype) {
  check_norm("linalg.matrix_norm", self);
  if (ord != "fro" && ord != "nuc") failf("linalg.matrix_norm: Order {} not supported.", ord);
  Pair p = pair("linalg.matrix_norm", self, dim);
  if (ord == "fro") return linalg_vector_norm(self, 2, Ints({p.rows, p.columns}), keepdim, dtype);
  return kept(sum(linalg_svdvals(ends(with_type(self, dtype), p)), Ints(-1)), p, keepdim);
}

}  // namespace

Tensor body_linalg_matrix_norm(const args::linalg_matrix_norm& a) {
  return matrix_norm(a.self, a.ord, a.dim, a.keepdim, a.dtype);
}
Tensor body_linalg_matrix_norm_str_ord(const args::linalg_matrix_norm_str_ord& a) {
  return matrix_norm(a.self, a.ord, a.dim, a.keepdim, a.dtype);
}
Tensor body_linalg_norm(const args::linalg_norm& a) {
  if (a.dim.has_value() && a.dim.size() != 1 && a.dim.size() != 2)
    failf("linalg.norm: If dim is specified, it must be of length 1 or 2. Got {}", a.dim.size());
  if (a.ord && !a.dim.has_value() && a.self.dim() != 1 && a.self.dim() != 2)
    failf("linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {}D.",
          a.self.dim());
  if (a.ord && ((a.dim.has_value() && a.dim.size() == 2) || (!a.dim.has_value() && a.self.dim() == 2)))
    return matrix_norm(a.self, *a.ord, a.dim.has_value() ? a.dim : Ints({0, 1}), a.keepdim, a.dtype);
  return linalg_vector_norm(a.self, a.ord.value_or(2.0), a.dim, a.keepdim, a.dtype);
}
Tensor body_linalg_norm_ord_str(const args::linalg_norm_ord_str& a) {
  if (a.dim.has_value() && a.dim.size() != 1 && a.dim.size() != 2)
    failf("linalg.norm: If dim is specified, it must be of length 1 or 2. Got {}", a.dim.size());
  if (!a.dim.has_value() && a.self.dim() != 2)
    failf("linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {}D.",
          a.self.dim());
  return matrix_norm(a.self, a.ord, a.dim.has_value() ? a.dim : Ints({0, 1}), a.keepdim, a.dtype);
}

Tensor body_linalg_cond(const args::linalg_cond& a) {
  check_matrix("linalg.cond", a.self);
  if (!a.p || std::abs(a.p->to_double()) == 2) {
    Tensor s = linalg_svdvals(a.self);
    if (s.numel().is_int() && s.numel().as_int() == 0)
      return zeros(batch_of(a.self), to_real(a.self.dtype()));
    Tensor large = narrow(s, -1, SymInt(0), 1), small = narrow(s, -1, s.size(-1) - 1, 1);
    return squeeze(a.p && a.p->to_double() < 0 ? small / large : large / small, -1);
  }
  double p = a.p->to_double();
  if (std::abs(p) != 1 && !std::isinf(p)) failf("linalg.cond got an invalid norm type: {}", a.p->str());
  check_square("linalg.cond", a.self);
  auto [inverse, info] = linalg_inv_ex(a.self, false);
  Tensor both = linalg_matrix_norm(a.self, *a.p) * linalg_matrix_norm(inverse, *a.p);
  return masked_fill(both, info != 0, INFINITY);
}
Tensor body_linalg_cond_p_str(const args::linalg_cond_p_str& a) {
  if (a.p != "fro" && a.p != "nuc") failf("linalg.cond got an invalid norm type: {}", a.p);
  check_square("linalg.cond", a.self);
  auto [inverse, info] = linalg_inv_ex(a.self, false);
  Tensor both = matrix_norm(a.self, a.p, Ints({-2, -1}), false, {}) *
                matrix_norm(inverse, a.p, Ints({-2, -1}), false, {});
  return masked_fill(both, info != 0, INFINITY);
}
Tensor body_nuclear_norm(const args::nuclear_norm& a) {
  return matrix_norm(a.self, "nuc", Ints({0, 1}), a.keepdim, {});
}
Tensor body_nuclear_norm_dim(const args::nuclear_norm_dim& a) {
  return matrix_norm(a.self, "nuc", a.dim, a.keepdim, {});
}

// ---- systems of tensors ----

Tensor body_linalg_tensorinv(const args::linalg_tensorinv& a) {
  if (a.ind <= 0) fail("Expected a strictly positive integer for 'ind'");
  if (a.ind > a.self.dim())
    failf("linalg.tensorinv: 'ind' is {} for a tensor of {} dims", a.ind, a.self.dim());
  Dims sizes;
  SymInt rows = 1, columns = 1;
  for (int64_t d = a.ind; d < a.self.dim(); ++d) {
    sizes.push_back(a.self.size(d));
    columns *= a.self.size(d);
  }
  for (int64_t d = 0; d < a.ind; ++d) {
    sizes.push_back(a.self.size(d));
    rows *= a.self.size(d);
  }
  if (!(rows == columns))
    failf(
        "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
        "{} != {}",
        columns.str(), rows.str());
  return reshape(linalg_inv(reshape(a.self, {rows, columns})), sizes);
}
Tensor body_linalg_tensorsolve(const args::linalg_tensorsolve& a) {
  Tensor x = a.self;
  if (a.dims.has_value()) {
    std::vector<int64_t> from, to;
    for (size_t i = 0; i < a.dims.size(); ++i) {
      from.push_back(a.dims[i]);
      to.push_back(x.dim() - static_cast<int64_t>(a.dims.size()) + static_cast<int64_t>(i));
    }
    x = movedim(x, from, to);
  }
  Dims sizes;
  SymInt columns = 1, rows = a.other.numel();
  for (int64_t d = a.other.dim(); d < x.dim(); ++d) {
    sizes.push_back(x.size(d));
    columns *= x.size(d);
  }
  if (!(rows == columns))
    failf(
        "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
        "prod(self.shape[:other.ndim]), but "
        "got {} != {}",
        columns.str(), rows.str());
  return reshape(linalg_solve(reshape(x, {rows, columns}), flatten(a.other)), sizes);
}

Tensor body_linalg__powsum(const args::linalg__powsum& a) {
  if (!a.self.is_floating_point() && !a.self.is_complex())
    failf(ErrorKind::not_supported, "\"powsum_cpu\" not implemented for '{}'", script_name(a.self.dtype()));
  Tensor x = a.dtype ? a.self.to(*a.dtype) : a.self;
  const double p = a.ord.to_double();
  Tensor each = p == 0 ? (x != 0).to(to_real(x.dtype())) : p == 1 ? abs(x) : pow(abs(x), a.ord);
  return sum(each, a.dim, a.keepdim);
}

}  // namespace tern
