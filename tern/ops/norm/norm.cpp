// Layer and group normalisation: shape rules, and the kernels on dense memory of one type.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/dispatch/straight.h"
#include "tern/kernels/norm.h"
#include "tern/ops.h"
#include "tern/ops/checks.h"
#include "tern/ops/norm.args.h"
#include "tern/ops/norm/dense.h"

namespace tern {
namespace {

// The number of leading dims; throws PyTorch's messages.
int64_t check_layer(const Tensor& input, Span<const SymInt> shape, const Tensor& weight, const Tensor& bias) {
  if (shape.empty())
    fail(
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but "
        "got "
        "normalized_shape = []");
  auto same = [&](const Tensor& t) {
    if (!t.defined()) return true;
    bool equal = t.dim() == static_cast<int64_t>(shape.size());
    for (size_t d = 0; equal && d < shape.size(); ++d) equal = t.sizes()[d] == shape[d];
    return equal;
  };
  if (!same(weight))
    failf(
        "Expected weight to be of same shape as normalized_shape, but got weight of shape {} and "
        "normalized_shape = {}",
        str(weight.sizes()), str(shape));
  if (!same(bias))
    failf(
        "Expected bias to be of same shape as normalized_shape, but got bias of shape {} and "
        "normalized_shape = {}",
        str(bias.sizes()), str(shape));
  int64_t lead = input.dim() - static_cast<int64_t>(shape.size());
  bool fits = lead >= 0;
  for (size_t d = 0; fits && d < shape.size(); ++d) fits = input.sizes()[lead + d] == shape[d];
  if (!fits) {
    std::string wanted = str(shape);
    failf("Given normalized_shape={}, expected input with shape [*, {}, but got input of size{}", wanted,
          wanted.substr(1), str(input.sizes()));
  }
  return lead;
}

void check_float(const char* name, const Tensor& input) {
  if (!input.is_floating_point())
    failf(ErrorKind::not_supported, "\"{}\" not implemented for '{}'", name, script_name(input.dtype()));
}

int64_t count(Span<const SymInt> sizes) { return product(sizes).as_int(); }

// The statistics are of the parameters' type.
DType parameter_type(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  return weight.defined() ? weight.dtype() : bias.defined() ? bias.dtype() : input.dtype();
}

}  // namespace

// Where nobody sees the statistics they are not kept.
Tensor body_layer_norm(const args::layer_norm& a) {
  auto dense = [](const Tensor& t) { return !t.defined() || (t.dtype() == kFloat && t.is_contiguous()); };
  if (!dense(a.input) || !dense(a.weight) || !dense(a.bias) || !goes_straight({&a.input, &a.weight, &a.bias}))
    return std::get<0>(native_layer_norm(a.input, a.normalized_shape, a.weight, a.bias, a.eps));
  check_layer(a.input, a.normalized_shape, a.weight, a.bias);
  Tensor y = make_tensor(a.input.sizes(), kFloat);
  const int64_t n = count(a.normalized_shape), all = y.int_numel();
  auto data = [](const Tensor& t) { return t.defined() ? t.data() : nullptr; };
  if (all)
    kernels::layer_norm(kFloat, all / n, n, a.input.data(), data(a.weight), data(a.bias), a.eps, y.data(),
                        nullptr, nullptr);
  return y;
}

Shapes shape_native_layer_norm(const args::native_layer_norm& a) {
  check_float("LayerNormKernelImpl", a.input);
  int64_t lead = check_layer(a.input, a.normalized_shape, a.weight, a.bias);
  Dims stats(a.input.sizes());
  for (int64_t d = lead; d < a.input.dim(); ++d) stats[d] = 1;
  const DType d = parameter_type(a.input, a.weight, a.bias);
  return {Shape(a.input.sizes(), a.input.dtype()), Shape(stats, d), Shape(stats, d)};
}
void kernel_native_layer_norm(const args::native_layer_norm& a, Out out) {
  if (out[0].int_numel() == 0) return;
  int64_t n = count(a.normalized_shape), rows = a.input.int_numel() / n;
  DType type = common_type({&a.input, &a.weight, &a.bias});
  DenseIn x(a.input, type), weight(a.weight, type), bias(a.bias, type);
  DenseOut y(out[0], type), mean(out[1], stats_type(type)), rstd(out[2], stats_type(type));
  kernels::layer_norm(type, rows, n, x.data(), weight.data(), bias.data(), a.eps, y.data(), mean.data(),
                      rstd.data());
}

Shapes shape_native_layer_norm_backward(const args::native_layer_norm_backward& a) {
  check_layer(a.input, a.normalized_shape, a.weight, a.bias);
  DType d = a.weight.defined() ? a.weight.dtype() : a.input.dtype();
  return {Shape(a.input.sizes(), a.input.dtype()), Shape(a.normalized_shape, d),
          Shape(a.normalized_shape, d)};
}
void kernel_native_layer_norm_backward(const args::native_layer_norm_backward& a, Out out) {
  int64_t n = count(a.normalized_shape);
  if (a.input.int_numel() == 0) {
    for (const Tensor& t : out) fill_elements(t, 0);
    return;
  }
  DType type = common_type({&a.grad_out, &a.input, &a.weight});
  DenseIn g(a.grad_out, type), x(a.input, type), mean(a.mean, stats_type(type)),
      rstd(a.rstd, stats_type(type)), weight(a.weight, type);
  DenseOut gx(out[0], type), gw(out[1], type), gb(out[2], type);
  kernels::layer_norm_backward(type, a.input.int_numel() / n, n, g.data(), x.data(), mean.data(), rstd.data(),
                               weight.data(), gx.data_if(a.output_mask[0]), gw.data_if(a.output_mask[1]),
                               gb.data_if(a.output_mask[2]));
}

Shapes shape_native_group_norm(const args::native_group_norm& a) {
  check_float("GroupNormKernelImpl", a.input);
  if (a.group <= 0) failf("Expected num groups to be greater than 0, got {}", a.group);
  for (const Tensor* t : {&a.weight, &a.bias})
    if (t->defined() && (t->dim() != 1 || t->numel() != a.C))
      failf(
          "Expected {} to be a vector of size equal to the number of channels in input, but got {} of shape "
          "{} and input of "
          "shape {}",
          t == &a.weight ? "weight" : "bias", t == &a.weight ? "weight" : "bias", str(t->sizes()),
          str(a.input.sizes()));
  Dims stats{a.N, SymInt(a.group)};
  const DType d = parameter_type(a.input, a.weight, a.bias);
  return {Shape(a.input.sizes(), a.input.dtype()), Shape(stats, d), Shape(stats, d)};
}
void kernel_native_group_norm(const args::native_group_norm& a, Out out) {
  if (out[0].int_numel() == 0) return;
  DType type = common_type({&a.input, &a.weight, &a.bias});
  DenseIn x(a.input, type), weight(a.weight, type), bias(a.bias, type);
  DenseOut y(out[0], type), mean(out[1], stats_type(type)), rstd(out[2], stats_type(type));
  kernels::group_norm(type, a.N.as_int(), a.C.as_int(), a.HxW.as_int(), a.group, x.data(), weight.data(),
                      bias.data(), a.eps, y.data(), mean.data(), rstd.data());
}

Shapes shape_native_group_norm_backward(const args::native_group_norm_backward& a) {
  if (a.group <= 0) failf("Expected num groups to be greater than 0, got {}", a.group);
  if (a.input.numel() != a.N * a.C * a.HxW || a.grad_out.numel() != a.input.numel())
    failf(
        "native_group_norm_backward: grad_out of shape {} and input of shape {} do not have {} x {} x {} "
        "elements",
        str(a.grad_out.sizes()), str(a.input.sizes()), a.N.str(), a.C.str(), a.HxW.str());
  if (!(mod(a.C, SymInt(a.group)) == 0))
    failf(
        "Expected number of channels in input to be divisible by num_groups, but got {} channels and "
        "num_groups={}",
        a.C.str(), a.group);
  for (const Tensor* t : {&a.mean, &a.rstd})
    if (t->numel() != a.N * SymInt(a.group))
      failf("Expected {} to be of shape [{}, {}], but it is {}", t == &a.mean ? "mean" : "rstd", a.N.str(),
            a.group, str(t->sizes()));
  if (a.weight.defined() && a.weight.numel() != a.C)
    failf("Expected weight to be a vector of size {}, but it is of shape {}", a.C.str(),
          str(a.weight.sizes()));
  DType d = a.weight.defined() ? a.weight.dtype() : a.input.dtype();
  return {Shape(a.input.sizes(), a.input.dtype()), Shape(Dims{a.C}, d), Shape(Dims{a.C}, d)};
}
void kernel_native_group_norm_backward(const args::native_group_norm_backward& a, Out out) {
  if (a.input.int_numel() == 0) {
    for (const Tensor& t : out) fill_elements(t, 0);
    return;
  }
  DType type = common_type({&a.grad_out, &a.input, &a.weight});
  DenseIn g(a.grad_out, type), x(a.input, type), mean(a.mean, stats_type(type)),
      rstd(a.rstd, stats_type(type)), weight(a.weight, type);
  DenseOut gx(out[0], type), gw(out[1], type), gb(out[2], type);
  kernels::group_norm_backward(type, a.N.as_int(), a.C.as_int(), a.HxW.as_int(), a.group, g.data(), x.data(),
                               mean.data(), rstd.data(), weight.data(), gx.data_if(a.output_mask[0]),
                               gw.data_if(a.output_mask[1]), gb.data_if(a.output_mask[2]));
}

}  // namespace tern
