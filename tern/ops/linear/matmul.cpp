// Products in terms of other products: what matmul, linear and their relatives decompose into, and their
// gradients.
#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/formulas.h"
#include "tern/ops/linear.args.h"

namespace tern {
namespace {

Tensor swapped(const Tensor& t) { return transpose(t, -2, -1); }

// A stack times a matrix is one product of the stack laid flat, unless laying it flat would copy it.
bool should_fold(const Tensor& a, const Tensor& b) {
  const Tensor &stack = a.dim() >= b.dim() ? a : b, &flat = a.dim() >= b.dim() ? b : a;
  if (stack.dim() < 3 || flat.dim() > 2) return false;
  if (flat.requires_grad()) return true;
  if (a.dim() == 2) return false;
  if (surely_eq(stack.numel(), 0)) return true;
  for (int64_t d = 0; d + 2 < stack.dim(); ++d)
    if (!surely_eq(stack.strides()[d], stack.strides()[d + 1] * stack.sizes()[d + 1])) return false;
  return true;
}

Tensor folded(const Tensor& self, const Tensor& other) {
  bool first = self.dim() >= other.dim();
  Tensor stack = first ? self : swapped(other);
  Tensor flat = first ? other : self.dim() == 2 ? t(self) : self;
  Dims shape(stack.sizes().first(stack.dim() - 1));
  SymInt rows = product(shape);
  Tensor laid = reshape(stack, {rows, stack.sizes()[stack.dim() - 1]});
  if (flat.dim() == 1) return _unsafe_view(mv(laid, flat), shape);
  shape.push_back(flat.sizes()[1]);
  Tensor result = _unsafe_view(mm(laid, flat), shape);
  return first ? result : swapped(result).contiguous();
}

Tensor broadcast_product(const Tensor& self, const Tensor& other) {
  int64_t a = self.dim(), b = other.dim();
  SymInt n = a > 1 ? self.sizes()[a - 2] : 1, k = self.sizes()[a - 1];
  SymInt inside = b > 1 ? other.sizes()[b - 2] : other.sizes()[b - 1], p = b > 1 ? other.sizes()[b - 1] : 1;
  Span<const SymInt> batch_a = self.sizes().first(std::max<int64_t>(a - 2, 0));
  Span<const SymInt> batch_b = other.sizes().first(std::max<int64_t>(b - 2, 0));
  if (a == 3 && b == 3 && !surely_eq(batch_a[0], batch_b[0])) {
    if (surely_eq(batch_a[0], 1) && self.requires_grad()) return matmul(squeeze(self, 0), other);
    if (surely_eq(batch_b[0], 1) && other.requires_grad()) return matmul(self, squeeze(other, 0));
  }
  Dims batch = broadcast_sizes(batch_a, batch_b);
  SymInt count = product(batch);
  Dims left = batch, right = batch, shape = batch;
  left.push_back(n), left.push_back(k);
  right.push_back(inside);
  Tensor first = reshape(expand(self, left), {count, n, k});
  Tensor second;
  if (b > 1) {
    right.push_back(p);
    second = reshape(expand(other, right), {count, inside, p});
  } else {
    second = unsqueeze(reshape(expand(other, right), {count, inside}), 2);
  }
  if (a > 1) shape.push_back(n);
  if (b > 1) shape.push_back(p);
  return _unsafe_view(bmm(first, second), shape);
}

}  // namespace

Tensor body_matmul(const args::matmul& a) {
  const Tensor &self = a.self, &other = a.other;
  if (self.dim() == 0 || other.dim() == 0)
    failf("both arguments to matmul need to be at least 1D, but they are {}D and {}D", self.dim(),
          other.dim());
  if (self.dim() == 1 && other.dim() == 1) return dot(self, other);
  if (self.dim() == 2 && other.dim() == 1) return mv(self, other);
  if (self.dim() == 1 && other.dim() == 2) return squeeze(mm(unsqueeze(self, 0), other), 0);
  if (self.dim() == 2 && other.dim() == 2) return mm(self, other);
  return should_fold(self, other) ? folded(self, other) : broadcast_product(self, other);
}

Tensor body_linear(const args::linear& a) {
  const Tensor& input = a.input;
  if (a.weight.dim() == 2 && a.bias.defined() && a.bias.dim() == 1) {
    if (input.dim() == 2) return addmm(a.bias, input, t(a.weight));
    if (input.dim() > 0 && input.is_contiguous()) {
      Dims lead(input.sizes().first(input.dim() - 1));
      Tensor flat = view(input, {product(lead), input.sizes()[input.dim() - 1]});
      lead.push_back(a.weight.sizes()[0]);
      return view(addmm(a.bias, flat, t(a.weight)), lead);
    }
  }
  Tensor result = matmul(input, a.weight.dim() == 2 ? t(a.weight) : a.weight);
  return a.bias.defined() ? result + a.bias : result;
}

Tensor body_outer(const args::outer& a) {
  if (a.self.dim() != 1) failf("outer: Expected 1-D argument self, but got {}-D", a.self.dim());
  if (a.vec2.dim() != 1) failf("outer: Expected 1-D argument vec2, but got {}-D", a.vec2.dim());
  return reshape(a.self, Dims{a.self.size(0), 1}) * a.vec2;
}

Tensor body_inner(const args::inner& a) {
  if (a.self.dim() == 0 || a.other.dim() == 0) return a.self * a.other;
  if (a.self.sizes()[a.self.dim() - 1] != a.other.sizes()[a.other.dim() - 1])
    failf("inner() the last dimension must match on both input tensors but got shapes {} and {}",
          str(a.self.sizes()), str(a.other.sizes()));
  Dims shape(a.self.sizes().first(a.self.dim() - 1));
  for (SymInt s : a.other.sizes().first(a.other.dim() - 1)) shape.push_back(s);
  SymInt k = a.self.sizes()[a.self.dim() - 1];
  Tensor left = reshape(a.self, {product(a.self.sizes().first(a.self.dim() - 1)), k});
  Tensor right = reshape(a.other, {product(a.other.sizes().first(a.other.dim() - 1)), k});
  return reshape(mm(left, t(right)), shape);
}

Tensor baddbmm_body(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                    const Scalar& alpha) {
  Tensor scaled = times(bmm(batch1, batch2), alpha);
  return beta.equals(0) ? scaled : scaled + times(self, beta);
}

// The sum over the batch is part of the inner dimension of one product.
Tensor addbmm_body(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
                   const Scalar& alpha) {
  if (batch1.dim() != 3) fail("batch1 must be a 3D tensor");
  if (batch2.dim() != 3) fail("batch2 must be a 3D tensor");
  if (!(batch1.sizes()[0] == batch2.sizes()[0]))
    failf("batch1 and batch2 must have same number of batches, got {} and {}", batch1.sizes()[0].str(),
          batch2.sizes()[0].str());
  if (!(batch1.sizes()[2] == batch2.sizes()[1]))
    failf("Incompatible matrix sizes for bmm ({}x{} and {}x{})", batch1.sizes()[1].str(),
          batch1.sizes()[2].str(), batch2.sizes()[1].str(), batch2.sizes()[2].str());
  SymInt b = batch1.sizes()[0], n = batch1.sizes()[1], m = batch1.sizes()[2], p = batch2.sizes()[2];
  Tensor left = reshape(transpose(batch1, 0, 1), {n, b * m});
  return addmm(self, left, reshape(batch2, {b * m, p}), beta, alpha);
}

Tensor addr_body(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Scalar& beta,
                 const Scalar& alpha) {
  if (vec1.dim() != 1) failf("addr: Expected 1-D argument vec1, but got {}-D", vec1.dim());
  if (vec2.dim() != 1) failf("addr: Expected 1-D argument vec2, but got {}-D", vec2.dim());
  DType type = promote(promote(self.dtype(), vec1.dtype()), vec2.dtype());
  Tensor product = outer(vec1, vec2);
  if (type == kBool) {
    if (!alpha.to_bool()) product = zeros_like(product);
    return beta.to_bool() ? logical_or(self, product) : expand(product, product.sizes());
  }
  Tensor scaled = times(product, alpha);
  if (!beta.equals(0)) scaled = times(expand(self, product.sizes()), beta) + scaled;
  return scaled.dtype() == type ? scaled : to(scaled, type);
}

std::tuple<Tensor, Tensor, Tensor> linear_backward(const Tensor& grad, const Tensor& input,
                                                   const Tensor& weight, Span<const bool> mask) {
  std::tuple<Tensor, Tensor, Tensor> result;
  if (weight.dim() == 1) {
    Tensor outside = unsqueeze(grad, -1);
    if (mask[0]) std::get<0>(result) = outside * conj(weight);
    if (mask[1]) std::get<1>(result) = outside * conj(input);
    if (mask[2]) std::get<2>(result) = grad;
    return result;
  }
  SymInt n = weight.sizes()[0], k = weight.sizes()[1];
  bool flat = grad.dim() == 2;
  Dims lead(grad.sizes().first(grad.dim() - 1));
  SymInt rows = product(lead);
  Tensor outside = flat ? grad : reshape(grad, {rows, n});
  if (mask[0]) {
    Tensor inside = mm(outside, conj(weight));
    std::get<0>(result) = flat ? inside : view(inside, input.sizes());
  }
  if (mask[1]) std::get<1>(result) = mm(t(outside), conj(flat ? input : reshape(input, {rows, k})));
  if (mask[2]) std::get<2>(result) = sum(outside, 0);
  return result;
}

}  // namespace tern
