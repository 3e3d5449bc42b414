// Which dimensions a reduction takes away, how they come back, and the gradients of reductions.
#include "tern/ops/formulas.h"

#include <cmath>
#include <limits>

#include "tern/base/format.h"
#include "tern/ops.h"

namespace tern {

uint64_t dim_mask(Ints dims, int64_t ndim) {
  if (ndim > 64) failf("only tensors with up to 64 dims are supported, got {}", ndim);
  if (dims.empty()) return ndim == 64 ? ~uint64_t{0} : (uint64_t{1} << ndim) - 1;
  uint64_t mask = 0;
  for (int64_t d : dims) {
    int64_t at = wrap_dim(d, ndim);
    if (mask >> at & 1) failf("dim {} appears multiple times in the list of dims", at);
    mask |= uint64_t{1} << at;
  }
  return mask;
}

Dims reduced_sizes(Span<const SymInt> sizes, uint64_t mask, bool keepdim) {
  Dims result;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!(mask >> d & 1))
      result.push_back(sizes[d]);
    else if (keepdim)
      result.push_back(1);
  }
  return result;
}

SymInt reduced_count(Span<const SymInt> sizes, Ints dims) {
  uint64_t mask = dim_mask(dims, static_cast<int64_t>(sizes.size()));
  SymInt count = 1;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (mask >> d & 1) count *= sizes[d];
  return count;
}

Tensor restore_dims(const Tensor& t, Ints dims, int64_t ndim, bool keepdim) {
  if (keepdim || ndim == 0) return t;
  uint64_t mask = dim_mask(dims, ndim);
  Tensor result = t;
  for (int64_t d = 0; d < ndim; ++d)
    if (mask >> d & 1) result = unsqueeze(result, d);
  return result;
}

Tensor spread(const Tensor& t, Span<const SymInt> sizes, Ints dims, bool keepdim) {
  return expand(restore_dims(t, dims, static_cast<int64_t>(sizes.size()), keepdim), sizes);
}

Tensor share_among_equals(const Tensor& grad, const Tensor& self, const Tensor& result, Ints dims,
                          bool keepdim) {
  Tensor extreme = restore_dims(result, dims, self.dim(), keepdim);
  Tensor equals = (self == extreme).to(grad.dtype());
  return equals * (restore_dims(grad, dims, self.dim(), keepdim) / sum(equals, dims, true));
}

Tensor put_selected(const Tensor& grad, int64_t dim, const Tensor& indices, Span<const SymInt> sizes,
                    bool keepdim) {
  bool restore = !keepdim && !sizes.empty();
  Tensor values = restore ? unsqueeze(grad, dim) : grad, places = restore ? unsqueeze(indices, dim) : indices;
  return scatter(new_zeros(grad, sizes), dim, places, values);
}

// Products of all others, without division, so that zeros are no exception: running products from both ends.
Tensor prod_backward(const Tensor& grad, const Tensor& self, int64_t dim, bool keepdim) {
  if (self.dim() == 0) return clone(grad);
  dim = wrap_dim(dim, self.dim());
  SymInt n = self.sizes()[dim];
  Tensor outside = keepdim ? grad : unsqueeze(grad, dim);
  if (n == 0 || n == 1) return expand(outside, self.sizes());
  Dims one(self.sizes());
  one[dim] = 1;
  Tensor ones = new_ones(self, one);
  Tensor before = cumprod(cat({ones, narrow(self, dim, 0, n - 1)}, dim), dim);
  Tensor after = flip(cumprod(cat({ones, flip(narrow(self, dim, 1, n - 1), dim)}, dim), dim), dim);
  return outside * conj(before * after);
}

Tensor prod_backward(const Tensor& grad, const Tensor& self) {
  if (self.dim() == 0) return clone(grad);
  return view(prod_backward(grad, reshape(self, {-1}), 0, false), self.sizes());
}

Tensor var_backward(const Tensor& grad, const Tensor& self, Ints dims, std::optional<Scalar> correction,
                    bool keepdim) {
  SymInt count = reduced_count(self.sizes(), dims);
  Tensor centred = self - mean(self, dims, true);
  Tensor outside = restore_dims(grad, dims, self.dim(), keepdim);
  double c = correction ? correction->to_double() : 1;
  if (c == static_cast<double>(static_cast<int64_t>(c)))
    return (outside * 2) * centred / Scalar(count - SymInt(static_cast<int64_t>(c)));
  return outside * (2 / (static_cast<double>(count.guard_int()) - c)) * centred;
}

Tensor std_backward(const Tensor& grad, const Tensor& result, const Tensor& self, Ints dims,
                    std::optional<Scalar> correction, bool keepdim) {
  return var_backward(where(result == 0, 0, grad / (result * 2)), self, dims, correction, keepdim);
}

Tensor norm_backward(const Tensor& grad, const Tensor& self, const Scalar& p, const Tensor& result, Ints dims,
                     bool keepdim) {
  double order = p.to_double();
  if (order == 0) return zeros_like(self);
  Tensor outside = restore_dims(grad, dims, self.dim(), keepdim),
         norms = restore_dims(result, dims, self.dim(), keepdim);
  if (order == 1) return sgn(self) * outside;
  if (order == 2) return outside * where(norms == 0, 0, self / norms);
  if (std::isinf(order)) {
    Tensor size = abs(self), equals = (size == norms).to(grad.dtype());
    return sgn(self) * (equals * (outside / sum(equals, dims, true)));
  }
  Tensor size = abs(self);
  if (order < 1)  // the slope is infinite at zero: PyTorch gives zero there
    return where(self == 0, 0, sgn(self) * pow(size, order - 1)) * outside * pow(norms, 1 - order);
  if (order < 2)
    return where(norms == 0, 0, sgn(self) * pow(size, order - 1) * outside / pow(norms, order - 1));
  return where(norms == 0, 0, self * pow(size, order - 2) * outside / pow(norms, order - 1));
}

Tensor logsumexp_body(const Tensor& self, Ints dims, bool keepdim) {
  Tensor top = amax(self, dims, true);
  top = where(abs(top) == INFINITY, 0, top);
  Tensor total = log(sum(exp(self - top), dims, keepdim));
  return total + (keepdim || self.dim() == 0 ? top : squeeze(top, dims.empty() ? Ints() : dims));
}

Tensor reversed_cumsum(const Tensor& t, int64_t dim) {
  return t.dim() == 0 ? t : flip(cumsum(flip(t, dim), dim), dim);
}

// One element at a time, in products alone: right for zeros in every order of derivative, and quadratic.
static Tensor cumprod_backward_with_history(const Tensor& grad, const Tensor& self, int64_t dim) {
  int64_t n = self.sizes()[dim].guard_int();
  std::vector<Tensor> parts;
  for (int64_t k = 0; k < n; ++k) {
    Dims one(self.sizes());
    one[dim] = 1;
    Tensor before = k ? prod(narrow(self, dim, 0, k), dim, true) : new_ones(self, one);
    Tensor through =
        k + 1 < n ? cat({before, before * cumprod(narrow(self, dim, k + 1, n - k - 1), dim)}, dim) : before;
    parts.push_back(sum(narrow(grad, dim, k, n - k) * conj(through), dim, true));
  }
  return n ? cat(parts, dim) : zeros_like(self);
}

// Before the first zero: what follows, divided by the element. At it: the same with the zero taken as one.
// Behind it every product has a zero.
Tensor cumprod_backward(const Tensor& grad, const Tensor& self, int64_t dim, const Tensor& result) {
  if (self.dim() == 0) return clone(grad);
  if (thread_state.grad_enabled && (grad.requires_grad() || self.requires_grad()))
    return cumprod_backward_with_history(grad, self, wrap_dim(dim, self.dim()));
  Tensor zero = self == 0, zeros_so_far = cumsum(zero, dim);
  Tensor first = logical_and(zero, zeros_so_far == 1);
  Tensor plain = reversed_cumsum(grad * conj(result), dim) / conj(where(zero, 1, self));
  Tensor without = cumprod(where(first, 1, self), dim);
  Tensor at_zero = reversed_cumsum(grad * conj(without), dim);
  return where(zeros_so_far == 0, plain, where(first, at_zero, 0));
}

static double lowest(DType d) {
  if (d == kHalf) return -65504.0;
  if (d == kDouble) return std::numeric_limits<double>::lowest();
  return d == kBFloat16 ? -3.3895313892515355e38 : std::numeric_limits<float>::lowest();
}

Tensor logcumsumexp_backward(const Tensor& grad, const Tensor& self, const Tensor& result, int64_t dim) {
  if (self.dim() == 0) return grad;
  auto behind = [&](const Tensor& logs) {
    return exp(flip(logcumsumexp(flip(logs - result, dim), dim), dim) + self);
  };
  if (grad.is_complex()) return conj(behind(log(conj(grad))));
  // In logarithms, positive and negative gradients apart. The logarithm of nothing is a finite number: an
  // infinite one would end the second derivative of everything in front of it.
  Tensor size = log(abs(grad));
  const double nothing = lowest(grad.dtype());
  return behind(where(grad > 0, size, nothing)) - behind(where(grad < 0, size, nothing));
}

}  // namespace tern
