// Differences of neighbours, numerical gradients, and sums of trapezoids.
#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/algebra.args.h"
#include "tern/ops/formulas.h"

namespace tern {

Tensor body_diff(const args::diff& a) {
  if (a.self.dim() == 0) fail("diff expects input to be at least one-dimensional");
  if (a.n < 0) failf("order must be non-negative but got {}", a.n);
  int64_t dim = wrap_dim(a.dim, a.self.dim());
  auto check = [&](const Tensor& t) {
    if (!t.defined()) return;
    if (t.dim() != a.self.dim()) fail("diff expects prepend or append to be the same dimension as input");
    for (int64_t d = 0; d < t.dim(); ++d)
      if (d != dim && !(t.size(d) == a.self.size(d)))
        failf(
            "diff expects the shape of tensor to prepend or append to match that of input except along the "
            "differencing dimension; input.size({}) = {}, but got tensor.size({}) = {}",
            d, a.self.size(d).str(), d, t.size(d).str());
  };
  check(a.prepend);
  check(a.append);
  Tensor x = a.self;
  if (a.n == 0) return copy(zeros_like(x), x);
  std::vector<Tensor> whole;
  if (a.prepend.defined()) whole.push_back(a.prepend);
  whole.push_back(x);
  if (a.append.defined()) whole.push_back(a.append);
  if (whole.size() > 1) x = cat(whole, dim);
  int64_t n = a.n;
  SymInt size = x.size(dim);
  if (size < n) n = size.guard_int();
  for (int64_t i = 0; i < n; ++i) {
    SymInt left = x.size(dim) - 1;
    if (left.is_int() && left.as_int() < 0) left = 0;
    Tensor upper = narrow(x, dim, x.size(dim) - left, left), lower = narrow(x, dim, 0, left);
    x = x.dtype() == kBool ? logical_xor(upper, lower) : upper - lower;
  }
  return x;
}

// ---- gradient ----

namespace {

std::vector<int64_t> dims_or_all(const Tensor& self, Ints dims) {
  std::vector<int64_t> result;
  if (dims.has_value())
    for (int64_t d : dims) result.push_back(wrap_dim(d, self.dim()));
  else
    for (int64_t d = 0; d < self.dim(); ++d) result.push_back(d);
  for (size_t i = 0; i < result.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (result[i] == result[j]) failf("dim {} appears multiple times in the list of dims", result[i]);
  return result;
}

// `given`: how many steps or places, where there is a list of them.
void check_gradient(const Tensor& self, std::optional<size_t> given, const std::vector<int64_t>& dims,
                    bool has_dims, int64_t edge_order) {
  if (self.dtype() == kByte) fail("torch.gradient does not support uint8 input.");
  if (given && has_dims && *given != dims.size())
    failf(
        "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to "
        "have "
        "the same length, but got a spacing argument of length {} and a dim argument of length {}.",
        *given, dims.size());
  if (given && !has_dims && *given != static_cast<size_t>(self.dim()))
    failf(
        "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to "
        "'self.dim() "
        "= {}', since dim argument was not given, but got a list of length {}",
        self.dim(), *given);
  if (edge_order != 1 && edge_order != 2)
    failf("torch.gradient only supports edge_order=1 and edge_order=2.");
  for (int64_t d : dims)
    if (self.size(d).is_int() && self.size(d).as_int() < edge_order + 1)
      fail("torch.gradient expected each dimension size to be at least edge_order+1");
}

Tensor take(const Tensor& t, int64_t dim, SymInt from, SymInt n) { return narrow(t, dim, from, n); }

// Even steps: central differences inside, one-sided at the borders.
Tensor along_even(const Tensor& self, int64_t dim, const Scalar& step, int64_t order) {
  SymInt n = self.size(dim);
  auto at = [&](SymInt i) { return take(self, dim, i, 1); };
  Tensor inside = div(div(take(self, dim, 2, n - 2) - take(self, dim, 0, n - 2), step), Scalar(2));
  Tensor first, last;
  if (order == 1) {
    first = div(at(1) - at(0), step);
    last = div(at(n - 1) - at(n - 2), step);
  } else {
    first = (-1.5 * at(0) + 2 * at(1) - 0.5 * at(2)) / step;
    last = (0.5 * at(n - 3) - 2 * at(n - 2) + 1.5 * at(n - 1)) / step;
  }
  return cat({first, inside, last}, dim);
}

// Given places: a weighted mean of the slopes to both sides.
Tensor along_places(const Tensor& self, int64_t dim, const Tensor& places, int64_t order) {
  SymInt n = self.size(dim);
  if (places.dim() != 1)
    failf(
        "torch.gradient expected each element of spacing to have one dimension, but got an element with {} "
        "dimensions!",
        places.dim());
  Dims sizes(static_cast<size_t>(self.dim()), SymInt(1));
  sizes[dim] = -1;
  Tensor step = reshape(diff(places), sizes);  // n - 1 of them
  auto s = [&](const Tensor& t, SymInt from, SymInt count) { return take(t, dim, from, count); };
  // The weights are made in the type of the places.
  Tensor p = s(step, 0, n - 2), q = s(step, 1, n - 2);
  Tensor inside = neg(q) / (p * (p + q)) * s(self, 0, n - 2) + (q - p) / (p * q) * s(self, 1, n - 2) +
                  p / (q * (p + q)) * s(self, 2, n - 2);
  Tensor first, last;
  if (order == 1) {
    first = (s(self, 1, 1) - s(self, 0, 1)) / s(step, 0, 1);
    last = (s(self, n - 1, 1) - s(self, n - 2, 1)) / s(step, n - 2, 1);
  } else {
    Tensor a = s(step, 0, 1), b = s(step, 1, 1), c = s(step, n - 3, 1), d = s(step, n - 2, 1);
    first = neg(2 * a + b) / (a * (a + b)) * s(self, 0, 1) + (a + b) / (a * b) * s(self, 1, 1) -
            a / (b * (a + b)) * s(self, 2, 1);
    last = d / (c * (c + d)) * s(self, n - 3, 1) - (c + d) / (c * d) * s(self, n - 2, 1) +
           (2 * d + c) / (d * (c + d)) * s(self, n - 1, 1);
  }
  return cat({first, inside, last}, dim);
}

std::vector<Tensor> even_gradients(const Tensor& self, const Scalar& step, Ints dims, int64_t order) {
  std::vector<int64_t> over = dims_or_all(self, dims);
  check_gradient(self, {}, over, dims.has_value(), order);
  std::vector<Tensor> result;
  for (int64_t d : over) result.push_back(along_even(self, d, step, order));
  return result;
}
std::vector<Tensor> even_gradients(const Tensor& self, Span<const Scalar> spacing, Ints dims, int64_t order) {
  std::vector<int64_t> over = dims_or_all(self, dims);
  check_gradient(self, spacing.size(), over, dims.has_value(), order);
  std::vector<Tensor> result;
  for (size_t i = 0; i < over.size(); ++i) result.push_back(along_even(self, over[i], spacing[i], order));
  return result;
}
std::vector<Tensor> place_gradients(const Tensor& self, Span<const Tensor> spacing, Ints dims,
                                    int64_t order) {
  std::vector<int64_t> over = dims_or_all(self, dims);
  check_gradient(self, spacing.size(), over, dims.has_value(), order);
  std::vector<Tensor> result;
  for (size_t i = 0; i < over.size(); ++i) result.push_back(along_places(self, over[i], spacing[i], order));
  return result;
}

}  // namespace

std::vector<Tensor> body_gradient_scalarint(const args::gradient_scalarint& a) {
  return even_gradients(a.self, a.spacing.value_or(1), dims_of(a.dim), a.edge_order);
}
std::vector<Tensor> body_gradient_scalararray(const args::gradient_scalararray& a) {
  return even_gradients(a.self, a.spacing, a.dim, a.edge_order);
}
std::vector<Tensor> body_gradient_array(const args::gradient_array& a) {
  return even_gradients(a.self, Scalar(1), a.dim, a.edge_order);
}
std::vector<Tensor> body_gradient_scalarrayint(const args::gradient_scalarrayint& a) {
  return even_gradients(a.self, a.spacing, dims_of(a.dim), a.edge_order);
}
std::vector<Tensor> body_gradient_scalarrayarray(const args::gradient_scalarrayarray& a) {
  return even_gradients(a.self, a.spacing, a.dim, a.edge_order);
}
std::vector<Tensor> body_gradient_tensorarrayint(const args::gradient_tensorarrayint& a) {
  return place_gradients(a.self, a.spacing, dims_of(a.dim), a.edge_order);
}
std::vector<Tensor> body_gradient_tensorarray(const args::gradient_tensorarray& a) {
  return place_gradients(a.self, a.spacing, a.dim, a.edge_order);
}

// ---- trapezoids ----

namespace {

struct Pairs {
  Tensor left, right;
};
Pairs pairs(const Tensor& y, int64_t dim) {
  return {narrow(y, dim, 0, y.size(dim) - 1), narrow(y, dim, 1, y.size(dim) - 1)};
}
void check_numbers(const char* op, const Tensor& y) {
  if (y.dtype() == kBool) failf("{}: received a bool input for `y`, but bool is not supported", op);
}
// The distances between places, along dim of y.
Tensor steps(const char* op, const Tensor& y, const Tensor& x, int64_t dim) {
  check_numbers(op, y);
  if (x.dtype() == kBool) failf("{}: received a bool input for `x`, but bool is not supported", op);
  if (x.dim() == 1 && y.dim() > 0) {
    if (!(x.size(0) == y.size(dim))) failf("{}: There must be one `x` value for each sample point", op);
    Dims sizes(static_cast<size_t>(y.dim()), SymInt(1));
    sizes[wrap_dim(dim, y.dim())] = -1;
    return reshape(diff(x), sizes);
  }
  Tensor places = x;
  for (int64_t d = x.dim(); d < y.dim(); ++d) places = unsqueeze(places, 0);
  return diff(places, 1, dim);
}
bool is_empty(const Tensor& y, int64_t dim) {
  const SymInt n = y.size(dim);
  return n.is_int() && n.as_int() == 0;
}
Tensor nothing(const Tensor& y, int64_t dim) {
  Dims sizes(y.sizes());
  if (!sizes.empty()) sizes.erase(wrap_dim(dim, y.dim()));
  return zeros(sizes, y.dtype(), {}, y.device());
}
Tensor trapezoids(const Tensor& y, const Scalar& dx, int64_t dim) {
  if (is_empty(y, dim)) return nothing(y, dim);
  check_numbers("trapezoid", y);
  Tensor edges = select(y, dim, 0) + select(y, dim, -1);
  return (sum(y, Ints(dim)) - div(edges, Scalar(2))) * dx;
}

}  // namespace

Tensor body_trapezoid_x(const args::trapezoid_x& a) {
  if (is_empty(a.y, a.dim)) return nothing(a.y, a.dim);
  Tensor step = steps("trapezoid", a.y, a.x, a.dim);
  auto [left, right] = pairs(a.y, a.dim);
  return div(sum((left + right) * step, Ints(a.dim)), Scalar(2));
}
Tensor body_trapezoid_dx(const args::trapezoid_dx& a) { return trapezoids(a.y, a.dx, a.dim); }
Tensor body_trapz_dx(const args::trapz_dx& a) { return trapezoids(a.y, a.dx, a.dim); }
Tensor body_cumulative_trapezoid_x(const args::cumulative_trapezoid_x& a) {
  Tensor step = steps("cumulative_trapezoid", a.y, a.x, a.dim);
  auto [left, right] = pairs(a.y, a.dim);
  return div(cumsum((left + right) * step, a.dim), Scalar(2));
}
Tensor body_cumulative_trapezoid_dx(const args::cumulative_trapezoid_dx& a) {
  check_numbers("cumulative_trapezoid", a.y);
  auto [left, right] = pairs(a.y, a.dim);
  return div(times(cumsum(left + right, a.dim), a.dx), Scalar(2));
}

}  // namespace tern
