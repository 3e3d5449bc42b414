// Diagonals, products of tensors, statistics, and what attention and normalisation need besides.
#include <cmath>
#include <complex>

#include "tern/base/format.h"
#include "tern/base/wrapping.h"
#include "tern/dispatch/pointwise.h"
#include "tern/kernels/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/algebra.args.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"
#include "tern/ops/index.args.h"
#include "tern/ops/view/geometry.h"

namespace tern {

// ---- diagonals ----

namespace {

struct Embedded {
  int64_t dim1, dim2, offset;
  Dims sizes;
};
Embedded embedded(const args::diag_embed& a) {
  int64_t n = a.self.dim() + 1;
  Embedded e{wrap_dim(a.dim1, n), wrap_dim(a.dim2, n), a.offset, {}};
  if (e.dim1 == e.dim2) failf("diagonal dimensions cannot be identical {}, {}", a.dim1, a.dim2);
  if (a.self.dim() == 0) fail("diag_embed: expected a tensor of at least one dimension");
  SymInt length = a.self.sizes().back() + std::abs(a.offset);
  e.sizes = Dims(a.self.sizes());
  e.sizes.pop_back();
  e.sizes.insert(std::min(e.dim1, e.dim2), length);
  e.sizes.insert(std::max(e.dim1, e.dim2), length);
  return e;
}

}  // namespace

Tensor body_diag(const args::diag& a) {
  if (a.self.dim() == 1) return diag_embed(a.self, a.diagonal);
  if (a.self.dim() == 2) return diagonal_copy(a.self, a.diagonal);
  failf("diag(): Supports 1D or 2D tensors. Got {}D", a.self.dim());
}
Shapes shape_diag_embed(const args::diag_embed& a) { return {Shape(embedded(a).sizes, a.self.dtype())}; }
void kernel_diag_embed(const args::diag_embed& a, Out out) {
  Embedded e = embedded(a);
  fill_elements(out[0], 0);
  copy_elements(a.self, diagonal_view(out[0], e.offset, e.dim1, e.dim2));
}
Tensor body_diag_embed(const args::diag_embed& a) {
  Embedded e = embedded(a);
  if (e.dim1 > e.dim2) {
    std::swap(e.dim1, e.dim2);
    e.offset = -e.offset;
  }
  Tensor t = a.self;
  SymInt length = t.size(-1);
  if (e.offset != 0) {
    Dims sizes(t.sizes());
    sizes.back() = std::abs(e.offset);
    Tensor none = zeros(sizes, t.dtype(), {}, t.device());
    t = e.offset > 0 ? cat({none, t}, -1) : cat({t, none}, -1);
    length += std::abs(e.offset);
  }
  t = movedim(unsqueeze(t, e.dim1), -1, e.dim2);
  Tensor columns = arange(Scalar(0), Scalar(length), Scalar(1), kLong),
         rows = arange(Scalar(e.offset), Scalar(length + e.offset), Scalar(1), kLong);
  Tensor on = columns == unsqueeze(rows, -1);
  Dims sizes(static_cast<size_t>(t.dim()), SymInt(1));
  sizes[e.dim1] = sizes[e.dim2] = length;
  return contiguous(where(reshape(on, sizes), t, scalar_tensor(0, t.dtype(), {}, t.device())));
}

Shapes shape_trace(const args::trace& a) {
  if (a.self.dim() != 2) failf("trace: expected a matrix, but got tensor with dim {}", a.self.dim());
  return {Shape(Dims(), is_integral(a.self.dtype(), true) ? kLong : a.self.dtype())};
}
void kernel_trace(const args::trace& a, Out out) {
  Tensor line = diagonal_view(a.self, 0, 0, 1), x = make_tensor(line.sizes(), out[0].dtype());
  copy_elements(line, x);
  by_dtype("trace", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) {
      fail("unreachable: a trace is no bool");
    } else {
      using W = wide_t<T>;
      W sum{};
      for (int64_t i = 0; i < x.int_numel(); ++i)
        sum = wrapping_sum(sum, static_cast<W>(static_cast<const T*>(x.data())[i]));
      *static_cast<T*>(out[0].data()) = static_cast<T>(sum);
    }
  });
}

Tensor body__chunk_cat(const args::_chunk_cat& a) {
  if (a.tensors.empty()) fail("_chunk_cat expects a non-empty input tensor list");
  if (a.num_chunks < 1) failf("_chunk_cat expects positive num_chunks");
  const Tensor& first = a.tensors[0];
  for (const Tensor& t : a.tensors) {
    if (t.numel().is_int() && t.numel().as_int() == 0) fail("_chunk_cat expects non-empty tensor");
    if (a.dim < 0 && t.dim() != first.dim())
      fail("_chunk_cat expects non-negative dim when input tensors have different ndims");
    if (a.dim >= t.dim()) fail("_chunk_cat expects dim < ndim for all input tensors");
    for (int64_t d = 0; d < a.dim; ++d)
      if (!(t.size(d) == first.size(d)))
        fail("_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors");
  }
  std::vector<Tensor> parts;
  for (const Tensor& t : a.tensors) {
    int64_t dim = wrap_dim(a.dim, t.dim());
    int64_t size = t.size(dim).guard_int(), each = (size + a.num_chunks - 1) / a.num_chunks;
    Tensor padded = t;
    if (each * a.num_chunks != size) {
      Dims after(static_cast<size_t>(2 * (t.dim() - dim)), SymInt(0));
      after.back() = each * a.num_chunks - size;
      padded = constant_pad_nd(t, after, 0);
    }
    Dims sizes;
    for (int64_t d = 0; d < dim; ++d) sizes.push_back(t.size(d));
    sizes.push_back(a.num_chunks);
    sizes.push_back(-1);
    parts.push_back(reshape(padded, sizes));
  }
  return cat(parts, a.tensors[0].dim() ? wrap_dim(a.dim, a.tensors[0].dim()) + 1 : 0);
}

// ---- products ----

Tensor body_cross(const args::cross& a) {
  int64_t dim = 0;
  if (a.dim) {
    dim = *a.dim;
  } else {
    while (dim < a.self.dim() && !(a.self.sizes()[dim] == 3)) ++dim;
    if (dim == a.self.dim()) fail("no dimension of size 3 in input");
  }
  return linalg_cross(a.self, a.other, dim);
}
Tensor body_linalg_cross(const args::linalg_cross& a) {
  if (a.self.dim() != a.other.dim()) failf("linalg.cross: inputs must have the same number of dimensions.");
  int64_t dim = wrap_dim(a.dim, a.self.dim());
  if (a.self.dim() == 0 || !(a.self.sizes()[dim] == 3) || !(a.other.sizes()[dim] == 3))
    failf("linalg.cross: inputs dimension {} must have length 3. Got {} and {}", dim,
          a.self.dim() ? a.self.sizes()[dim].str() : "0", a.other.dim() ? a.other.sizes()[dim].str() : "0");
  Dims sizes = broadcast_sizes(a.self.sizes(), a.other.sizes());
  Tensor x = expanded(a.self, sizes), y = expanded(a.other, sizes),
         at = arange(Scalar(3), kLong, {}, x.device());
  auto turned = [&](const Tensor& t, int by) { return index_select(t, dim, remainder(at + by, 3)); };
  return turned(x, 1) * turned(y, 2) - turned(x, 2) * turned(y, 1);
}
Tensor ldexp_body(const Tensor& self, const Tensor& other) {
  Tensor result = mul(self, pow(Scalar(2.0), other));
  // An integer exponent does not widen the number.
  const bool kept = self.is_floating_point() && is_integral(other.dtype()) && result.dtype() != self.dtype();
  return kept ? to(result, self.dtype()) : result;
}
Tensor body_linalg_vecdot(const args::linalg_vecdot& a) { return sum(conj(a.x) * a.y, Ints(a.dim)); }

Tensor body_tensordot(const args::tensordot& a) {
  if (a.dims_self.size() != a.dims_other.size())
    failf("both dimension lists should have same length, got {} and {}", a.dims_self.size(),
          a.dims_other.size());
  if (a.self.dtype() != a.other.dtype())
    failf("both inputs should have same dtype, but got {} and {}", name(a.self.dtype()),
          name(a.other.dtype()));
  Tensor x = a.self, y = a.other;
  uint64_t gone_x = 0, gone_y = 0;
  std::vector<int64_t> order_x, order_y, rest_y;
  SymInt common = 1;
  for (size_t i = 0; i < a.dims_self.size(); ++i) {
    int64_t d = wrap_dim(a.dims_self[i], x.dim()), e = wrap_dim(a.dims_other[i], y.dim());
    SymInt p = x.size(d), q = y.size(e);
    if (q == 1) {
      x = sum(x, Ints(d), true, x.dtype());
    } else if (p == 1) {
      y = sum(y, Ints(e), true, y.dtype());
    } else {
      if (!(p == q))
        failf(
            "contracted dimensions need to match, but first has size {} in dim {} and second has size {} in "
            "dim {}",
            p.str(), d, q.str(), e);
      common *= p;
    }
    if (gone_x >> d & 1 || gone_y >> e & 1)
      failf("dim {} appears multiple times in the list of dims", gone_x >> d & 1 ? d : e);
    gone_x |= uint64_t{1} << d;
    gone_y |= uint64_t{1} << e;
  }
  Dims sizes;
  SymInt rows = 1, columns = 1;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (!(gone_x >> d & 1)) {
      order_x.push_back(d);
      rows *= x.size(d);
      sizes.push_back(x.size(d));
    }
  for (size_t i = 0; i < a.dims_self.size(); ++i) order_x.push_back(wrap_dim(a.dims_self[i], x.dim()));
  for (size_t i = 0; i < a.dims_other.size(); ++i) order_y.push_back(wrap_dim(a.dims_other[i], y.dim()));
  for (int64_t d = 0; d < y.dim(); ++d)
    if (!(gone_y >> d & 1)) {
      order_y.push_back(d);
      columns *= y.size(d);
      sizes.push_back(y.size(d));
    }
  x = permute(x, order_x);
  y = permute(y, order_y);
  if (surely_eq(rows * columns, 1)) {
    bool flat = x.is_contiguous() && y.is_contiguous();
    Tensor product = flat ? dot(flatten(x), flatten(y)) : sum(squeeze(x) * squeeze(y), x.dtype());
    return reshape(product, sizes);
  }
  return reshape(mm(reshape(x, {rows, common}), reshape(y, {common, columns})), sizes);
}

Tensor body_kron(const args::kron& a) {
  int64_t n = std::max(a.self.dim(), a.other.dim()), p = n - a.self.dim(), q = n - a.other.dim();
  Dims x, y, sizes;
  for (int64_t d = 0; d < n; ++d) {
    SymInt s = d < p ? SymInt(1) : a.self.size(d - p), t = d < q ? SymInt(1) : a.other.size(d - q);
    x.push_back(s);
    x.push_back(1);
    y.push_back(1);
    y.push_back(t);
    sizes.push_back(s * t);
  }
  return reshape(reshape(a.self, x) * reshape(a.other, y), sizes);
}

namespace {

Tensor multiply_chain(const std::vector<Tensor>& m) {
  // The order with the fewest multiplications (Cormen et al., 15.2), by the sizes' present values.
  size_t n = m.size();
  if (n == 1) return m[0];
  if (n == 2) return mm(m[0], m[1]);
  std::vector<double> p;
  for (const Tensor& t : m) p.push_back(static_cast<double>(t.size(0).hint().value_or(1)));
  p.push_back(static_cast<double>(m.back().size(1).hint().value_or(1)));
  std::vector<std::vector<double>> cost(n, std::vector<double>(n, 0));
  std::vector<std::vector<size_t>> cut(n, std::vector<size_t>(n, 0));
  for (size_t length = 2; length <= n; ++length)
    for (size_t i = 0; i + length <= n; ++i) {
      size_t j = i + length - 1;
      cost[i][j] = INFINITY;
      for (size_t k = i; k < j; ++k) {
        double c = cost[i][k] + cost[k + 1][j] + p[i] * p[k + 1] * p[j + 1];
        if (c < cost[i][j]) {
          cost[i][j] = c;
          cut[i][j] = k;
        }
      }
    }
  auto build = [&](auto& self, size_t i, size_t j) -> Tensor {
    return i == j ? m[i] : mm(self(self, i, cut[i][j]), self(self, cut[i][j] + 1, j));
  };
  return build(build, 0, n - 1);
}

}  // namespace

Tensor body_chain_matmul(const args::chain_matmul& a) {
  for (const Tensor& t : a.matrices)
    if (t.dim() != 2) failf("Tensor dimension is {}, expected 2 instead.", t.dim());
  if (a.matrices.empty()) fail("chain_matmul(): Expected one or more matrices");
  return multiply_chain({a.matrices.begin(), a.matrices.end()});
}
Tensor body_linalg_multi_dot(const args::linalg_multi_dot& a) {
  size_t n = a.tensors.size();
  if (n < 2) failf("multi_dot(): expected at least 2 tensors but got {}", n);
  std::vector<Tensor> m(a.tensors.begin(), a.tensors.end());
  bool row = m[0].dim() == 1, column = m[n - 1].dim() == 1;
  if (row)
    m[0] = unsqueeze(m[0], 0);
  else if (m[0].dim() != 2)
    failf("multi_dot(): the first tensor must be 1D or 2D but got {}D", m[0].dim());
  if (column)
    m[n - 1] = unsqueeze(m[n - 1], 1);
  else if (m[n - 1].dim() != 2)
    failf("multi_dot(): the last tensor must be 1D or 2D but got {}D", m[n - 1].dim());
  for (size_t i = 0; i < n; ++i) {
    if (m[i].dim() != 2) failf("multi_dot(): tensor {} must be 2D but got {}D", i, m[i].dim());
    if (i && !(m[i - 1].size(1) == m[i].size(0)))
      failf("multi_dot(): tensors {} and {} with shapes {} and {} cannot be multiplied", i - 1, i,
            str(m[i - 1].sizes()), str(m[i].sizes()));
  }
  Dims sizes;
  if (!row) sizes.push_back(m[0].size(0));
  if (!column) sizes.push_back(m[n - 1].size(1));
  return view(multiply_chain(m), sizes);
}

Tensor body_linalg_vander(const args::linalg_vander& a) {
  if (const DType d = a.x.dtype(); d == kBool || compute_dtype(d) != d)
    failf("linalg.vander supports floating point, complex, and integer tensors, but got {}", script_name(d));
  Tensor x = a.x.dim() == 0 ? unsqueeze(a.x, -1) : a.x;
  SymInt n = a.N.value_or(x.size(-1));
  if (!(n > 1)) fail("N must be greater than 1.");
  Dims sizes(x.sizes());
  sizes.push_back(n - 1);
  Tensor powers = cumprod(expand(unsqueeze(x, -1), sizes), -1);
  sizes.back() = 1;
  return cat({ones(sizes, powers.dtype(), {}, x.device()), powers}, -1);
}
Tensor body_vander(const args::vander& a) {
  if (a.x.dim() != 1) failf("x must be a one-dimensional tensor.");
  SymInt n = a.N ? SymInt(*a.N) : a.x.size(0);
  if (a.N && *a.N < 0) fail("N must be non-negative.");
  DType type = is_integral(a.x.dtype(), true) ? kLong : a.x.dtype();
  std::vector<Tensor> columns;
  int64_t count = n.guard_int();
  if (count == 0) return zeros({a.x.size(0), 0}, type);
  columns.push_back(ones({a.x.size(0), 1}, type, {}, a.x.device()));
  if (count > 1) columns.push_back(cumprod(expand(unsqueeze(to(a.x, type), 1), {a.x.size(0), n - 1}), 1));
  Tensor out = cat(columns, 1);
  return a.increasing ? out : flip(out, {1});
}

Tensor body_block_diag(const args::block_diag& a) {
  if (a.tensors.empty()) return zeros({1, 0});
  std::vector<Tensor> blocks;
  SymInt width = 0;
  for (const Tensor& t : a.tensors) {
    if (t.dim() > 2)
      failf("torch.block_diag: Input tensors must have 2 or fewer dimensions. Input has {} dimensions",
            t.dim());
    blocks.push_back(t.dim() == 2 ? t : reshape(t, {1, -1}));
    width += blocks.back().size(1);
  }
  DType type = result_type(a.tensors);
  std::vector<Tensor> rows;
  SymInt at = 0;
  for (const Tensor& t : blocks) {
    SymInt height = t.size(0), right = width - at - t.size(1);
    rows.push_back(cat({zeros({height, at}, type, {}, t.device()), to(t, type),
                        zeros({height, right}, type, {}, t.device())},
                       1));
    at += t.size(1);
  }
  return cat(rows, 0);
}

Tensor body_cartesian_prod(const args::cartesian_prod& a) {
  for (const Tensor& t : a.tensors)
    if (t.dim() != 1) failf("Expect a 1D vector, but got shape {}", str(t.sizes()));
  if (a.tensors.empty()) fail("cartesian_prod expects a non-empty list of tensors");
  if (a.tensors.size() == 1) return a.tensors[0];
  std::vector<Tensor> grids = meshgrid(a.tensors, "ij");
  for (Tensor& g : grids) g = flatten(g);
  return stack(grids, 1);
}
Tensor body_combinations(const args::combinations& a) {
  if (a.self.dim() != 1) failf("Expect a 1D vector, but got shape {}", str(a.self.sizes()));
  if (a.r < 0) failf("Expect a non-negative number, but got {}", a.r);
  if (a.r == 0) return empty({0}, a.self.dtype());
  // All tuples of positions, then those that go up.
  int64_t n = a.self.size(0).guard_int();
  std::vector<int64_t> rows, at(static_cast<size_t>(a.r));
  auto extend = [&](auto& again, size_t k, int64_t from) -> void {
    if (k == at.size()) {
      rows.insert(rows.end(), at.begin(), at.end());
      return;
    }
    for (int64_t i = from; i < n; ++i) {
      at[k] = i;
      again(again, k + 1, a.with_replacement ? i : i + 1);
    }
  };
  extend(extend, 0, 0);
  Tensor index = from_vector<int64_t>(rows, {SymInt(static_cast<int64_t>(rows.size()))});
  return reshape(index_select(a.self, 0, index), {-1, SymInt(a.r)});
}

// ---- statistics ----

Tensor body_cov(const args::cov& a) {
  if (a.self.dim() > 2)
    failf("cov(): expected input to have two or fewer dimensions but got an input with {} dimensions",
          a.self.dim());
  if (a.self.dtype() == kBool) fail("cov(): bool dtype is not supported for input");
  Tensor x = a.self.dim() < 2 ? reshape(a.self, {1, -1}) : a.self;
  SymInt count = x.size(1);
  Tensor w;
  auto check = [&](const Tensor& t, const char* what, bool integral) {
    if (t.dim() > 1)
      failf("cov(): expected {} to have one or fewer dimensions but got {} with {} dimensions", what, what,
            t.dim());
    if (integral ? !is_integral(t.dtype()) : !t.is_floating_point())
      failf("cov(): expected {} to have {} dtype but got {} with {} dtype", what,
            integral ? "integral" : "floating point", what, script_name(t.dtype()));
    if (!(t.numel() == count))
      failf(
          "cov(): expected {} to have the same numel as there are observations in the input but got {} != {}",
          what, t.numel().str(), count.str());
    if (!t.is_fake() && t.int_numel() && min(t).item().to_double() < 0)
      failf("cov(): {} cannot be negative", what);
  };
  if (a.fweights.defined()) {
    check(a.fweights, "fweights", true);
    w = a.fweights;
  }
  if (a.aweights.defined()) {
    check(a.aweights, "aweights", false);
    w = w.defined() ? w * a.aweights : a.aweights;
  }
  Tensor total = w.defined() ? sum(w) : scalar_tensor(Scalar(count), kLong, {}, x.device());
  if (w.defined() && !total.is_fake() && total.item().to_double() == 0)
    fail("cov(): weights sum to zero, can't be normalized");
  Tensor mean = (w.defined() ? sum(x * w, Ints(1), true) : sum(x, Ints(1), true)) / total;
  Tensor norm;
  if (a.aweights.defined() && w.defined() && a.correction != 0)
    norm = total - a.correction * sum(w * a.aweights) / total;
  else
    norm = total - a.correction;
  norm = clamp(to(norm, norm.is_floating_point() ? norm.dtype() : default_dtype()), Scalar(0));
  x = x - mean;
  Tensor other = w.defined() ? x * w : x;
  Tensor c = mm(x, conj(t(other)));
  return squeeze(c / to(norm, to_real(c.dtype())));
}
Tensor body_corrcoef(const args::corrcoef& a) {
  if (a.self.dim() > 2)
    failf("corrcoef(): expected input to have two or fewer dimensions but got an input with {} dimensions",
          a.self.dim());
  Tensor c = cov(a.self);
  if (c.dim() == 0) return c / c;
  Tensor d = c.is_complex() ? real(diagonal(c)) : diagonal(c), s = sqrt(d);
  c = c / unsqueeze(s, 1) / unsqueeze(s, 0);
  if (!c.is_complex()) return clamp(c, Scalar(-1), Scalar(1));
  return make_complex(clamp(real(c), Scalar(-1), Scalar(1)), clamp(imag(c), Scalar(-1), Scalar(1)));
}

// ---- norms of weights ----

namespace {

std::vector<int64_t> all_but(const Tensor& t, int64_t dim) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < t.dim(); ++d)
    if (d != dim) dims.push_back(d);
  return dims;
}
}  // namespace

Tensor body_renorm(const args::renorm& a) {
  if (a.self.dim() < 2) failf("renorm: input needs at least 2 dimensions, got {} dimensions", a.self.dim());
  if (a.p.to_double() <= 0) fail("renorm: non-positive norm not supported");
  if (a.maxnorm.to_double() < 0)
    failf("renorm: expected maxnorm to be >= 0 but got {}", a.maxnorm.to_double());
  Tensor length = linalg_vector_norm(a.self, a.p, all_but(a.self, wrap_dim(a.dim, a.self.dim())), true);
  Tensor factor =
      where(length > a.maxnorm, reciprocal(length + 1e-7) * a.maxnorm, scalar_tensor(1.0, length.dtype()));
  return a.self * factor;
}
// ---- complex numbers out of two ----

namespace {

Shapes pair_shape(const char* op, const Tensor& a, const Tensor& b) {
  DType d = a.dtype();
  auto fits = [](DType t) { return t == kFloat || t == kDouble || t == kHalf; };
  if (!fits(d) || !fits(b.dtype()))
    failf("Expected both inputs to be Half, Float or Double tensors but got {} and {}",
          script_name(a.dtype()), script_name(b.dtype()));
  if (d != b.dtype())
    failf("Expected object of scalar type {} but got scalar type {} for second argument", script_name(d),
          script_name(b.dtype()));
  (void)op;
  Dims sizes = broadcast_sizes(a.sizes(), b.sizes());
  return {Shape(sizes, to_complex(d))};
}
Tensor parts_of(const Tensor& out, int which) {
  Dims sizes(out.sizes()), strides(out.strides());
  for (SymInt& s : strides) s = s * 2;
  Tensor t = out.as_view(sizes, strides, out.offset() * 2 + which);
  t->dtype = to_real(out.dtype());
  return t;
}

}  // namespace

Shapes shape_complex(const args::complex& a) { return pair_shape("complex", a.real, a.imag); }
void kernel_complex(const args::complex& a, Out out) {
  copy_elements(a.real, parts_of(out[0], 0));
  copy_elements(a.imag, parts_of(out[0], 1));
}
Shapes shape_polar(const args::polar& a) { return pair_shape("polar", a.abs, a.angle); }
void kernel_polar(const args::polar& a, Out out) {
  Tensor wave = make_tensor(a.angle.sizes(), a.angle.dtype());
  run_loop("cos", {a.angle}, wave);
  run_loop("mul", {a.abs, wave}, parts_of(out[0], 0));
  run_loop("sin", {a.angle}, wave);
  run_loop("mul", {a.abs, wave}, parts_of(out[0], 1));
}
std::tuple<Tensor, Tensor> polar_backward(const Tensor& grad, const Tensor& result) {
  Tensor turned = result * Operand(Scalar(std::complex<double>(0, 1)));
  return {real(grad * conj(sgn(result))), real(grad * conj(turned))};
}

Shapes shape_frexp_Tensor(const args::frexp_Tensor& a) {
  if (!a.self.is_floating_point()) fail("torch.frexp() only supports floating-point dtypes");
  return {Shape(Dims(a.self.sizes()), a.self.dtype()), Shape(Dims(a.self.sizes()), kInt)};
}
void kernel_frexp_Tensor(const args::frexp_Tensor& a, Out out) {
  Tensor x = row_major(a.self);
  by_float_dtype("frexp", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = wide_t<T>;
    for (int64_t i = 0; i < x.int_numel(); ++i) {
      int exponent = 0;
      static_cast<T*>(out[0].data())[i] =
          static_cast<T>(std::frexp(static_cast<W>(static_cast<const T*>(x.data())[i]), &exponent));
      out[1].data_ptr<int32_t>()[i] = exponent;
    }
  });
}

// ---- writes by index ----

namespace {

// The index of rows as one for each element of the source.
Tensor index_of_elements(const Tensor& index, const Tensor& source, int64_t dim) {
  if (source.dim() == 0) return index.dim() ? reshape(index, {}) : index;
  Dims sizes(static_cast<size_t>(source.dim()), SymInt(1));
  sizes[wrap_dim(dim, source.dim())] = index.numel();
  return expand(reshape(index, sizes), source.sizes());
}

}  // namespace

Shapes shape_index_reduce(const args::index_reduce& a) {
  int64_t dim = wrap_dim(a.dim, a.self.dim());
  if (a.reduce != "prod" && a.reduce != "mean" && a.reduce != "amax" && a.reduce != "amin")
    failf("index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {}.", a.reduce);
  if (a.index.dim() > 1) fail("index_reduce_(): Index is supposed to be a vector");
  if (a.index.dtype() != kLong && a.index.dtype() != kInt)
    fail("index_reduce_(): Expected dtype int32/int64 for index");
  if (a.self.dtype() != a.source.dtype())
    fail("index_reduce_(): self and source expected to have the same dtype, but got (self) " +
         std::string(script_name(a.self.dtype())) + " and (source) " +
         std::string(script_name(a.source.dtype())));
  SymInt n = a.source.dim() ? a.source.sizes()[dim] : SymInt(1);
  if (!(a.index.numel() == n))
    failf("index_reduce_(): Number of indices ({}) should be equal to source.size(dim): ({}), for dim: {}",
          a.index.numel().str(), n.str(), a.dim);
  return {Shape(a.self.sizes(), a.self.dtype())};
}
void kernel_index_reduce(const args::index_reduce& a, Out out) {
  // PyTorch takes these only where it goes by whole slices that begin with what is there.
  if (const DType d = a.self.dtype(); d == kBool || is_complex(d)) {
    if (!a.include_self) not_implemented_for("index_reduce_func_exclude_input_init", d);
    if (a.self.dim() <= 1) not_implemented_for("index_func_", d);
  }
  Tensor self = a.self, source = a.source, index = row_major(a.index);
  int64_t dim = a.source.dim() ? wrap_dim(a.dim, a.source.dim()) : 0;
  Dims strides(a.source.sizes().size(), SymInt(0));
  if (!strides.empty() && a.index.dim()) strides[dim] = 1;
  const int64_t rows = a.self.dim() ? a.self.sizes()[wrap_dim(a.dim, a.self.dim())].as_int() : 1;
  for (int64_t v : index.to_vector<int64_t>()) {
    if (v >= 0 && v < rows) continue;
    if (a.include_self) fail(ErrorKind::index, "index out of range in self");
    failf(ErrorKind::index, "index {} is out of bounds for dimension {} with size {}", v, dim, rows);
  }
  index = index.as_view(Dims(a.source.sizes()), strides);
  const Arg list[] = {Arg(self), Arg(a.dim), Arg(index), Arg(source), Arg(a.reduce), Arg(a.include_self)};
  kernel_scatter_reduce_two(args::scatter_reduce_two(list), out);
}
std::tuple<Tensor, Tensor> index_reduce_backward(const Tensor& grad, const Tensor& self, int64_t dim,
                                                 const Tensor& index, const Tensor& source,
                                                 std::string_view reduce, bool include_self,
                                                 const Tensor& result) {
  Tensor each = index_of_elements(index, source, dim);
  return scatter_reduce_backward(grad, self, dim, each, source, reduce, include_self, result);
}

Tensor body_put(const args::put& a) {
  if (a.index.dtype() != kLong)
    failf("put_(): Expected a long tensor for index, but got {}", script_name(a.index.dtype()));
  if (a.self.dtype() != a.source.dtype())
    failf(
        "put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = "
        "{}",
        script_name(a.self.dtype()), script_name(a.source.dtype()));
  if (!(a.source.numel() == a.index.numel()))
    failf(
        "put_(): Expected source and index to have the same number of elements, but got source.numel() = {}, "
        "index.numel() = {}",
        a.source.numel().str(), a.index.numel().str());
  if (a.index.numel().is_int() && a.index.numel().as_int() == 0) return clone(a.self);
  Tensor index = reshape(a.index, {-1});
  return reshape(index_put(reshape(a.self, {-1}), {index}, reshape(a.source, {-1}), a.accumulate),
                 a.self.sizes());
}

namespace {

std::vector<Tensor> inside(const Tensor& self, Span<const Tensor> indices) {
  std::vector<Tensor> safe;
  for (size_t d = 0; d < indices.size(); ++d)
    safe.push_back(indices[d].defined()
                       ? clamp(indices[d], Scalar(0), Scalar(self.size(static_cast<int64_t>(d)) - 1))
                       : Tensor());
  return safe;
}

}  // namespace

Tensor body__unsafe_masked_index(const args::_unsafe_masked_index& a) {
  if (a.self.numel().is_int() && a.self.numel().as_int() == 0) {
    Tensor picked =
        index(new_zeros(a.self, Dims(a.self.sizes().size(), SymInt(1))), inside(a.self, a.indices));
    return full_like(picked, a.fill);
  }
  return masked_fill(index(a.self, inside(a.self, a.indices)), bitwise_not(a.mask), a.fill);
}
Tensor body__unsafe_masked_index_put_accumulate(const args::_unsafe_masked_index_put_accumulate& a) {
  if (a.self.numel().is_int() && a.self.numel().as_int() == 0) return clone(a.self);
  return index_put(a.self, inside(a.self, a.indices), masked_fill(a.values, bitwise_not(a.mask), 0), true);
}

// ---- rows of a tensor ----

namespace {

std::vector<Tensor> parts(const char* op, const Tensor& self, int64_t sections, int64_t least, int64_t dim) {
  if (self.dim() < least)
    failf("torch.{} requires a tensor with at least {} dimension{}, but got a tensor with {} dimensions!", op,
          least, least == 1 ? "" : "s", self.dim());
  if (sections == 0 || !(mod(self.size(dim), sections) == 0))
    failf(
        "torch.{} attempted to split along dimension {}, but the size of the dimension {} is not divisible "
        "by the "
        "split_size {}!",
        op, dim, self.size(dim).str(), sections);
  return tensor_split(self, SymInt(sections), dim);
}
std::vector<Tensor> parts(const char* op, const Tensor& self, Ints indices, int64_t least, int64_t dim) {
  if (self.dim() < least)
    failf("torch.{} requires a tensor with at least {} dimension{}, but got a tensor with {} dimensions!", op,
          least, least == 1 ? "" : "s", self.dim());
  return tensor_split(self, as_dims(indices), dim);
}

}  // namespace

std::vector<Tensor> body_hsplit_int(const args::hsplit_int& a) {
  return parts("hsplit", a.self, a.sections, 1, a.self.dim() == 1 ? 0 : 1);
}
std::vector<Tensor> body_hsplit_array(const args::hsplit_array& a) {
  return parts("hsplit", a.self, a.indices, 1, a.self.dim() == 1 ? 0 : 1);
}
std::vector<Tensor> body_vsplit_int(const args::vsplit_int& a) {
  return parts("vsplit", a.self, a.sections, 2, 0);
}
std::vector<Tensor> body_vsplit_array(const args::vsplit_array& a) {
  return parts("vsplit", a.self, a.indices, 2, 0);
}
std::vector<Tensor> body_dsplit_int(const args::dsplit_int& a) {
  return parts("dsplit", a.self, a.sections, 3, 2);
}
std::vector<Tensor> body_dsplit_array(const args::dsplit_array& a) {
  return parts("dsplit", a.self, a.indices, 3, 2);
}

namespace {

Tensor inclusive_range(const Scalar& start, const Scalar& end, const Scalar& step,
                       std::optional<DType> dtype) {
  double n = (end.to_double() - start.to_double()) / step.to_double();
  if (step.to_double() == 0) fail("step must be nonzero");
  if (!std::isfinite(n)) failf("unsupported range: {} -> {}", start.to_double(), end.to_double());
  if (n < 0) fail("upper bound and lower bound inconsistent with step sign");
  int64_t size = static_cast<int64_t>(n) + 1;
  DType type = dtype.value_or(default_dtype());
  return to(arange(Scalar(0), Scalar(size), Scalar(1), is_integral(type) ? kLong : type) * step + start,
            type);
}

}  // namespace

Tensor body_range_step(const args::range_step& a) { return inclusive_range(a.start, a.end, a.step, a.dtype); }
Tensor body_range(const args::range& a) { return inclusive_range(a.start, a.end, 1, a.dtype); }

// ---- attention ----

Shapes shape__safe_softmax(const args::_safe_softmax& a) {
  wrap_dim(a.dim, a.self.dim());
  return {Shape(Dims(a.self.sizes()), a.dtype.value_or(a.self.dtype()))};
}
void kernel__safe_softmax(const args::_safe_softmax& a, Out out) {
  copy_elements(body__safe_softmax(a), out[0]);
}
Tensor body__safe_softmax(const args::_safe_softmax& a) {
  Tensor out = softmax(a.self, a.dim, a.dtype);
  Tensor masked = all(eq(a.self, -INFINITY), a.dim, true);
  return where(masked, zeros_like(out), out);
}

namespace {

std::tuple<Tensor, Tensor> attend(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const Tensor& mask, double dropout, bool causal,
                                  std::optional<double> scale) {
  return _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, causal, mask, scale);
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor, SymInt, SymInt, Tensor, Tensor, Tensor>
body__scaled_dot_product_flash_attention(const args::_scaled_dot_product_flash_attention& a) {
  auto [output, logsumexp] = attend(a.query, a.key, a.value, {}, a.dropout_p, a.is_causal, a.scale);
  Tensor none = zeros({0}, kLong);
  return {
      output, logsumexp, none, none, a.query.size(2), a.key.size(2), none, none, zeros({0}, a.query.dtype())};
}
std::tuple<Tensor, Tensor, Tensor, Tensor> body__scaled_dot_product_efficient_attention(
    const args::_scaled_dot_product_efficient_attention& a) {
  auto [output, logsumexp] = attend(a.query, a.key, a.value, a.attn_bias, a.dropout_p, a.is_causal, a.scale);
  Tensor none = zeros({}, kLong);
  return {output, logsumexp, none, none};
}

}  // namespace tern
