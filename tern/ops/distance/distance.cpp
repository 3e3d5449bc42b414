// Distances of rows in the p-norm with their gradients; products of three tensors; normed weights.
#include <cmath>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/distance.args.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"

namespace tern {
namespace {

template <class T>
T distance(const T* a, const T* b, int64_t n, double p) {
  T sum = 0;
  if (p == 0) {
    for (int64_t k = 0; k < n; ++k) sum += a[k] != b[k] ? 1 : 0;
    return sum;
  }
  if (p == 1) {
    for (int64_t k = 0; k < n; ++k) sum += std::abs(a[k] - b[k]);
    return sum;
  }
  if (p == 2) {
    for (int64_t k = 0; k < n; ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
    return std::sqrt(sum);
  }
  if (std::isinf(p)) {
    for (int64_t k = 0; k < n; ++k) {
      T d = std::abs(a[k] - b[k]);
      if (d > sum || d != d) sum = d;
    }
    return sum;
  }
  const T power = static_cast<T>(p);
  for (int64_t k = 0; k < n; ++k) sum += std::pow(std::abs(a[k] - b[k]), power);
  return std::pow(sum, 1 / power);
}
// d distance / d a[k] where diff = a[k] - b[k].
template <class T>
T distance_slope(T diff, T dist, double p) {
  const T size = std::abs(diff), sign = static_cast<T>((diff > 0) - (diff < 0)), power = static_cast<T>(p);
  if (p == 0) return 0;
  if (p == 1) return sign;
  if (std::isinf(p)) return sign * static_cast<T>(size == dist);
  if (dist == 0 || (p < 1 && diff == 0)) return 0;
  if (p == 2) return diff / dist;
  if (p < 2) return sign * std::pow(size, power - 1) / std::pow(dist, power - 1);
  return diff * std::pow(size, power - 2) / std::pow(dist, power - 1);
}

void check_p(const char* op, double p) {
  if (!(p >= 0)) failf("{} only supports non-negative p values", op);
}

// The common batch sizes of x1 and x2.
Dims common_batch(const Tensor& x1, const Tensor& x2) {
  if (x1.dim() < 2) failf("cdist only supports at least 2D tensors, X1 got: {}D", x1.dim());
  if (x2.dim() < 2) failf("cdist only supports at least 2D tensors, X2 got: {}D", x2.dim());
  Span<const SymInt> a(x1.sizes().data(), static_cast<size_t>(x1.dim() - 2)),
      b(x2.sizes().data(), static_cast<size_t>(x2.dim() - 2));
  Dims sizes(std::max(a.size(), b.size()), SymInt(1));
  for (size_t i = 0; i < sizes.size(); ++i) {
    SymInt s = i < a.size() ? a[a.size() - 1 - i] : SymInt(1),
           t = i < b.size() ? b[b.size() - 1 - i] : SymInt(1);
    SymInt& to = sizes[sizes.size() - 1 - i];
    if (s == t || t == 1)
      to = s;
    else if (s == 1)
      to = t;
    else
      failf("The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {}",
            s.str(), t.str(), sizes.size() - 1 - i);
  }
  return sizes;
}
Tensor with_batch(const Tensor& t, Dims batch) {
  batch.push_back(t.size(-2));
  batch.push_back(t.size(-1));
  return row_major(t.expand(batch));
}

// Where PyTorch multiplies matrices instead of taking each difference: asked for, or many rows.
bool by_products(const args::cdist& a) {
  const int64_t mode = a.compute_mode.value_or(0);
  if (mode < 0 || mode > 2) failf("possible modes: 0, 1, 2, but was: {}", mode);
  if (a.p != 2 || mode == 2 || surely_eq(a.x1.numel(), 0) || surely_eq(a.x2.numel(), 0)) return false;
  return mode == 1 || a.x1.size(-2) > 25 || a.x2.size(-2) > 25;
}
bool surely_same(Span<const SymInt> a, const Dims& b) {
  for (size_t i = 0; i < b.size(); ++i)
    if (!surely_eq(a[i], b[i])) return false;
  return true;
}

}  // namespace

Tensor body_cdist(const args::cdist& a) {
  for (const Tensor* t : {&a.x1, &a.x2})
    if (t->dim() < 2)
      failf("cdist only supports at least 2D tensors, {} got: {}D", t == &a.x1 ? "X1" : "X2", t->dim());
  if (a.x1.size(-1) != a.x2.size(-1))
    failf("X1 and X2 must have the same number of columns. X1: {} X2: {}", a.x1.size(-1).str(),
          a.x2.size(-1).str());
  for (const Tensor* t : {&a.x1, &a.x2})
    if (!is_floating(t->dtype()))
      failf("cdist only supports floating-point dtypes, {} got: {}", t == &a.x1 ? "X1" : "X2",
            script_name(t->dtype()));
  if (!by_products(a)) return _cdist_forward(a.x1, a.x2, a.p, a.compute_mode);
  const Dims batch = common_batch(a.x1, a.x2);
  auto whole = [&](const Tensor& t) {
    Dims sizes = batch;
    sizes.push_back(t.size(-2));
    sizes.push_back(t.size(-1));
    return sizes.size() == static_cast<size_t>(t.dim()) && surely_same(t.sizes(), sizes) ? t
                                                                                         : t.expand(sizes);
  };
  return _euclidean_dist(whole(a.x1), whole(a.x2));
}
Shapes shape__euclidean_dist(const args::_euclidean_dist& a) {
  if (a.x1.dim() < 2 || a.x2.dim() < 2) fail("_euclidean_dist: expected matrices or batches of them");
  if (a.x1.size(-1) != a.x2.size(-1))
    failf("_euclidean_dist: x1 has {} columns and x2 has {}", a.x1.size(-1).str(), a.x2.size(-1).str());
  Dims sizes = common_batch(a.x1, a.x2);
  sizes.push_back(a.x1.size(-2));
  sizes.push_back(a.x2.size(-2));
  return {Shape(sizes, result_type({a.x1, a.x2}))};
}
void kernel__euclidean_dist(const args::_euclidean_dist& a, Out out) {
  NoGrad no_grad;
  copy_elements(body__euclidean_dist(a), out[0]);
}
// x1 - x2 over the distance, added up; nothing flows back from a distance of zero.
std::tuple<Tensor, Tensor> euclidean_dist_backward(const Tensor& grad, const Tensor& x1, const Tensor& x2,
                                                   const Tensor& result) {
  Tensor ratio = masked_fill(grad / result, result == 0, 0);
  return {x1 * sum(ratio, -1, true) - matmul(ratio, x2),
          x2 * unsqueeze(sum(ratio, -2), -1) - matmul(transpose(ratio, -2, -1), x1)};
}
Tensor body__euclidean_dist(const args::_euclidean_dist& a) {
  Tensor n1 = (a.x1 * a.x1).sum({-1}, true), n2 = (a.x2 * a.x2).sum({-1}, true);
  Tensor left = cat({a.x1 * -2, n1, ones_like(n1)}, -1), right = cat({a.x2, ones_like(n2), n2}, -1);
  return sqrt(clamp_min(matmul(left, right.transpose(-2, -1)), 0));
}
Shapes shape__cdist_forward(const args::_cdist_forward& a) {
  if (a.x1.dim() < 2 || a.x2.dim() < 2) fail("cdist only supports at least 2D tensors");
  if (a.x1.size(-1) != a.x2.size(-1))
    failf("X1 and X2 must have the same number of columns. X1: {} X2: {}", a.x1.size(-1).str(),
          a.x2.size(-1).str());
  check_p("cdist", a.p);
  int64_t mode = a.compute_mode.value_or(0);
  if (mode < 0 || mode > 2) failf("possible modes: 0, 1, 2, but was: {}", mode);
  if (a.x1.dtype() != a.x2.dtype() || !is_floating(a.x1.dtype()))
    failf("cdist only supports floating-point dtypes, X1 got: {}", script_name(a.x1.dtype()));
  Dims sizes = common_batch(a.x1, a.x2);
  sizes.push_back(a.x1.size(-2));
  sizes.push_back(a.x2.size(-2));
  return {Shape(sizes, a.x1.dtype())};
}
void kernel__cdist_forward(const args::_cdist_forward& a, Out out) {
  if (out[0].int_numel() == 0) return;
  Dims batch = common_batch(a.x1, a.x2);
  Tensor x1 = with_batch(a.x1, batch), x2 = with_batch(a.x2, batch);
  const int64_t rows = x1.size(-2).as_int(), columns = x2.size(-2).as_int(), width = x1.size(-1).as_int();
  if (x1.dtype() != kFloat && x1.dtype() != kDouble) not_implemented_for("cdist", x1.dtype());
  by_float_dtype("cdist", x1.dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      const int64_t all = out[0].int_numel() / columns;
      parallel_for(0, all, std::max<int64_t>(1, 16384 / (columns * (width + 1))),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t r = begin; r < end; ++r) {
                       const T* from = x1.data_ptr<T>() + r * width;
                       const T* to = x2.data_ptr<T>() + r / rows * columns * width;
                       for (int64_t c = 0; c < columns; ++c)
                         out[0].data_ptr<T>()[r * columns + c] = distance(from, to + c * width, width, a.p);
                     }
                   });
    }
  });
}
Shapes shape__cdist_backward(const args::_cdist_backward& a) {
  if (a.x1.dim() < 2 || a.x2.dim() < 2 || a.x1.size(-1) != a.x2.size(-1))
    failf("_cdist_backward: X1 and X2 must be matrices of rows of one length, but are of shape {} and {}",
          str(a.x1.sizes()), str(a.x2.sizes()));
  Dims sizes = common_batch(a.x1, a.x2);
  for (const Tensor* t : {&a.grad, &a.cdist})
    if (t->dim() < 2 || t->size(-2) != a.x1.size(-2) || t->size(-1) != a.x2.size(-2) ||
        t->dtype() != a.x1.dtype())
      failf("_cdist_backward: {} must be {} x {} of type {}, but is of shape {} and type {}",
            t == &a.grad ? "grad" : "cdist", a.x1.size(-2).str(), a.x2.size(-2).str(),
            script_name(a.x1.dtype()), str(t->sizes()), script_name(t->dtype()));
  sizes.push_back(a.x1.size(-2));
  sizes.push_back(a.x1.size(-1));
  return {Shape(sizes, a.x1.dtype())};
}
void kernel__cdist_backward(const args::_cdist_backward& a, Out out) {
  fill_elements(out[0], 0);
  if (out[0].int_numel() == 0 || a.cdist.int_numel() == 0) return;
  Dims batch = common_batch(a.x1, a.x2);
  Tensor x1 = with_batch(a.x1, batch), x2 = with_batch(a.x2, batch), g = with_batch(a.grad, batch),
         d = with_batch(a.cdist, batch);
  const int64_t rows = x1.size(-2).as_int(), columns = x2.size(-2).as_int(), width = x1.size(-1).as_int();
  if (x1.dtype() != kFloat && x1.dtype() != kDouble) not_implemented_for("cdist_backward", x1.dtype());
  by_float_dtype("cdist_backward", x1.dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      const int64_t all = out[0].int_numel() / std::max<int64_t>(width, 1);
      parallel_for(
          0, all, std::max<int64_t>(1, 16384 / (columns * (width + 1))), [&](int64_t begin, int64_t end) {
            for (int64_t r = begin; r < end; ++r) {
              const T* from = x1.data_ptr<T>() + r * width;
              T* sum = out[0].data_ptr<T>() + r * width;
              for (int64_t c = 0; c < columns; ++c) {
                const T* to = x2.data_ptr<T>() + (r / rows * columns + c) * width;
                const T grad = g.data_ptr<T>()[r * columns + c], dist = d.data_ptr<T>()[r * columns + c];
                for (int64_t k = 0; k < width; ++k)
                  sum[k] += grad * distance_slope(from[k] - to[k], dist, a.p);
              }
            }
          });
    }
  });
}

Tensor body_pdist(const args::pdist& a) {
  if (a.self.dim() != 2) failf("pdist only supports 2D tensors, got: {}D", a.self.dim());
  if (!is_floating(a.self.dtype())) fail("pdist only supports floating-point dtypes");
  check_p("pdist", a.p);
  return _pdist_forward(contiguous(a.self), a.p);
}
Shapes shape__pdist_forward(const args::_pdist_forward& a) {
  if (a.self.dim() != 2) failf("pdist only supports 2D tensors, got: {}D", a.self.dim());
  SymInt n = a.self.size(0);
  return {Shape(Dims({floor_div(n * (n - 1), 2)}), a.self.dtype())};
}
void kernel__pdist_forward(const args::_pdist_forward& a, Out out) {
  Tensor x = row_major(a.self);
  const int64_t n = x.int_sizes()[0], width = x.int_sizes()[1];
  if (x.dtype() != kFloat && x.dtype() != kDouble) not_implemented_for("pdist", x.dtype());
  by_float_dtype("pdist", x.dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      T* to = out[0].data_ptr<T>();
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = i + 1; j < n; ++j)
          *to++ = distance(x.data_ptr<T>() + i * width, x.data_ptr<T>() + j * width, width, a.p);
    }
  });
}
Shapes shape__pdist_backward(const args::_pdist_backward& a) {
  if (a.self.dim() != 2)
    failf("_pdist_backward: self must be a matrix, but is of shape {}", str(a.self.sizes()));
  const SymInt n = a.self.size(0), pairs = floor_div(n * (n - 1), 2);
  for (const Tensor* t : {&a.grad, &a.pdist})
    if (t->numel() != pairs || t->dtype() != a.self.dtype())
      failf("_pdist_backward: {} rows have {} distances of type {}, but {} is of shape {} and type {}",
            n.str(), pairs.str(), script_name(a.self.dtype()), t == &a.grad ? "grad" : "pdist",
            str(t->sizes()), script_name(t->dtype()));
  return {Shape(a.self.sizes(), a.self.dtype())};
}
void kernel__pdist_backward(const args::_pdist_backward& a, Out out) {
  fill_elements(out[0], 0);
  Tensor x = row_major(a.self), g = row_major(a.grad), d = row_major(a.pdist);
  const int64_t n = x.int_sizes()[0], width = x.int_sizes()[1];
  if (x.dtype() != kFloat && x.dtype() != kDouble) not_implemented_for("pdist_backward", x.dtype());
  by_float_dtype("pdist_backward", x.dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      int64_t at = 0;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = i + 1; j < n; ++j, ++at)
          for (int64_t k = 0; k < width; ++k) {
            T slope = g.data_ptr<T>()[at] *
                      distance_slope(x.data_ptr<T>()[i * width + k] - x.data_ptr<T>()[j * width + k],
                                     d.data_ptr<T>()[at], a.p);
            out[0].data_ptr<T>()[i * width + k] += slope;
            out[0].data_ptr<T>()[j * width + k] -= slope;
          }
    }
  });
}

// ---- products of three ----

Tensor body__trilinear(const args::_trilinear& a) {
  auto spread = [](Tensor t, Ints dims) {
    for (int64_t d : dims) t = t.unsqueeze(d);
    return t;
  };
  // Narrow floats are multiplied and added up in float32 and rounded once.
  const DType kept = a.i1.dtype(), wide = compute_dtype(kept);
  Tensor x = to(a.i1, wide), y = to(a.i2, compute_dtype(a.i2.dtype())),
         z = to(a.i3, compute_dtype(a.i3.dtype()));
  Tensor product = spread(x, a.expand1) * spread(y, a.expand2) * spread(z, a.expand3);
  if (!a.sumdim.empty()) product = sum(product, a.sumdim, false, product.dtype());
  return wide == kept ? product : to(product, kept);
}
Tensor body_bilinear(const args::bilinear& a) {
  if (a.weight.dim() != 3)
    failf("bilinear(): weight must have three dimensions, got {}", str(a.weight.sizes()));
  if (a.input1.dim() != a.input2.dim())
    failf("bilinear(): input dimensions do not match: got {} and {}", a.input1.dim(), a.input2.dim());
  for (int64_t d = 0; d + 1 < a.input1.dim(); ++d)
    if (a.input1.size(d) != a.input2.size(d))
      failf("bilinear(): input batch dimensions do not match at dim {}: got {} and {}", d,
            a.input1.size(d).str(), a.input2.size(d).str());
  if (a.input1.dim() < 1 || a.input1.size(-1) != a.weight.size(1))
    failf("bilinear(): input1 size does not match weight size: got {} but expected {}",
          a.input1.size(-1).str(), a.weight.size(1).str());
  if (a.input2.size(-1) != a.weight.size(2))
    failf("bilinear(): input2 size does not match weight size: got {} but expected {}",
          a.input2.size(-1).str(), a.weight.size(2).str());
  if (a.bias.defined() && a.bias.size(0) != a.weight.size(0))
    failf("bilinear(): bias size does not match weight size: got {} but expected {}", a.bias.size(0).str(),
          a.weight.size(0).str());
  Dims sizes(a.input1.sizes());
  sizes.back() = a.weight.size(0);
  Tensor x = a.input1.reshape({-1, a.input1.size(-1)}), y = a.input2.reshape({-1, a.input2.size(-1)});
  Tensor z = _trilinear(x, a.weight, y, {1, 3}, {0}, {1, 2}, {2, 3}).reshape(sizes);
  return a.bias.defined() ? z + a.bias : z;
}

// ---- weights of given length ----

Tensor body_norm_except_dim(const args::norm_except_dim& a) {
  if (a.dim == -1) return norm(a.v, Scalar(a.pow), Ints(Span<const int64_t>()), false);
  int64_t dim = wrap_dim(a.dim, a.v.dim());
  SmallVector<int64_t, 6> others;
  for (int64_t d = 0; d < a.v.dim(); ++d)
    if (d != dim) others.push_back(d);
  if (others.empty()) return abs(a.v);
  return norm(a.v, Scalar(a.pow), others, true);
}
std::tuple<Tensor, Tensor> body__weight_norm_interface(const args::_weight_norm_interface& a) {
  SmallVector<int64_t, 6> others;
  for (int64_t d = 0; d < a.v.dim(); ++d)
    if (d != a.dim) others.push_back(d);
  Tensor v = a.g.dtype() == kBFloat16 ? a.v.to(kFloat) : a.v;
  Tensor length = norm(v, Scalar(2), others, true);
  return {a.v * (a.g / length.to(a.g.dtype())), length};
}

Tensor body_conv_tbc(const args::conv_tbc& a) {
  if (a.self.dim() != 3) fail("Input must have 3 dims: time, batch, in_channel");
  if (a.weight.dim() != 3) fail("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.");
  if (a.bias.dim() != 1) fail("Bias must be 1-D");
  if (a.self.size(2) != a.weight.size(1))
    fail("Input dim 2 (input channels) is not == dim 1 in the weight tensor.");
  if (a.weight.size(2) != a.bias.size(0))
    fail("Bias size must equal dim 2 in the weight tensor (output channels).");
  Tensor y = conv1d(a.self.permute({1, 2, 0}), a.weight.permute({2, 1, 0}), a.bias, {1}, {a.pad}, {1}, 1);
  return y.permute({2, 0, 1});
}

std::tuple<Tensor, Tensor, Tensor> body_conv_tbc_backward(const args::conv_tbc_backward& a) {
  if (a.self.dim() != 3 || a.input.dim() != 3 || a.weight.dim() != 3)
    fail("conv_tbc_backward: the gradient, the input and the weight must have 3 dims");
  const Dims bias(a.bias.sizes()), one{SymInt(1)}, pad{SymInt(a.pad)}, none{SymInt(0)};
  const bool all[] = {true, true, true};
  auto [input, weight, b] =
      convolution_backward(a.self.permute({1, 2, 0}), a.input.permute({1, 2, 0}), a.weight.permute({2, 1, 0}),
                           bias, one, pad, one, false, none, 1, all);
  return {input.permute({2, 0, 1}), weight.permute({2, 1, 0}), b};
}

std::tuple<Tensor, Tensor> body__weight_norm_differentiable_backward(
    const args::_weight_norm_differentiable_backward& a) {
  if (a.dim != 0 && a.dim != a.saved_v.dim() - 1)
    fail("Expected dim to be the first or last dimension of the weight");
  SmallVector<int64_t, 6> others;
  for (int64_t d = 0; d < a.saved_v.dim(); ++d)
    if (d != a.dim) others.push_back(d);
  Tensor along = (a.grad_w * a.saved_v).sum(others, true), norms = a.saved_norms.to(a.saved_g.dtype());
  return {a.saved_g / norms * (a.grad_w - a.saved_v * (along / (norms * norms))), along / norms};
}

}  // namespace tern
