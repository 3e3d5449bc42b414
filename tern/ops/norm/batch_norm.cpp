// Batch normalisation in its forms: with running statistics, without, for inference; and instance and RMS
// normalisation.
#include <cmath>
#include <limits>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/kernels/norm.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/norm.args.h"
#include "tern/ops/norm/dense.h"

namespace tern {
namespace {

struct Sizes {
  int64_t batch, channels, inner = 1;
  explicit Sizes(const Tensor& t) : batch(t.int_sizes()[0]), channels(t.int_sizes()[1]) {
    for (int64_t d = 2; d < t.dim(); ++d) inner *= t.int_sizes()[d];
  }
};

void check(const Tensor& input, std::initializer_list<std::pair<const char*, const Tensor*>> vectors) {
  if (input.dim() < 2)
    failf("batch_norm: expected an input of at least 2 dimensions, got {}", str(input.sizes()));
  if (!input.is_floating_point())
    failf(ErrorKind::not_supported, "\"batch_norm\" not implemented for '{}'", script_name(input.dtype()));
  for (auto [name, t] : vectors)
    if (t->defined() && t->numel() != input.sizes()[1])
      failf("{} should contain {} elements not {}", name, input.sizes()[1].str(), t->numel().str());
}

DType param_type(const Tensor& input, const Tensor& weight, const Tensor& running) {
  return weight.defined() ? weight.dtype() : running.defined() ? running.dtype() : input.dtype();
}

// Reciprocal standard deviations from variances, in place.
template <class T>
void invert(T* v, int64_t n, double eps) {
  for (int64_t i = 0; i < n; ++i) v[i] = static_cast<T>(1 / std::sqrt(static_cast<double>(v[i]) + eps));
}
void invert(DType type, void* v, int64_t n, double eps) {
  type == kDouble ? invert(static_cast<double*>(v), n, eps) : invert(static_cast<float*>(v), n, eps);
}

Tensor stats_like(const Tensor& t, DType type) {
  Tensor copy = make_tensor(t.sizes(), type);
  copy_elements(t, copy);
  return copy;
}

// Normalises with the batch's statistics; leaves mean and variance in `mean` and `var` (of stats_type).
void train(const Tensor& input, const Tensor& weight, const Tensor& bias, double eps, const Tensor& out,
           const Tensor& save_mean, const Tensor& save_invstd, Tensor& mean, Tensor& var) {
  DType type = common_type({&input, &weight, &bias}), stats = stats_type(type);
  Sizes s(input);
  Dims channels{SymInt(s.channels)};
  mean = make_tensor(channels, stats);
  var = make_tensor(channels, stats);
  fill_elements(mean, 0);
  fill_elements(var, 0);
  if (input.int_numel() == 0) return;
  DenseIn x(input, type), w(weight, type), b(bias, type);
  kernels::batch_norm_stats(type, s.batch, s.channels, s.inner, x.data(), mean.data(), var.data());
  Tensor invstd = stats_like(var, stats);
  invert(stats, invstd.data(), s.channels, eps);
  DenseOut y(out, type);
  kernels::batch_norm_apply(type, s.batch, s.channels, s.inner, x.data(), mean.data(), invstd.data(),
                            w.data(), b.data(), y.data());
  copy_elements(mean, save_mean);
  copy_elements(invstd, save_invstd);
}

void infer(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
           const Tensor& running_var, double eps, const Tensor& out) {
  if (input.int_numel() == 0) return;
  DType type = common_type({&input, &weight, &bias}), stats = stats_type(type);
  Sizes s(input);
  Tensor mean = stats_like(running_mean, stats), invstd = stats_like(running_var, stats);
  invert(stats, invstd.data(), s.channels, eps);
  DenseIn x(input, type), w(weight, type), b(bias, type);
  DenseOut y(out, type);
  kernels::batch_norm_apply(type, s.batch, s.channels, s.inner, x.data(), mean.data(), invstd.data(),
                            w.data(), b.data(), y.data());
}

// running = (1 - momentum)·running + momentum·batch, into `out`.
void follow(const Tensor& running, const Tensor& batch, double factor, double momentum, const Tensor& out) {
  Tensor r = stats_like(running, kDouble), b = stats_like(batch, kDouble);
  double *x = r.data_ptr<double>(), *y = b.data_ptr<double>();
  for (int64_t i = 0; i < r.int_numel(); ++i) x[i] = (1 - momentum) * x[i] + momentum * factor * y[i];
  copy_elements(r, out);
}

}  // namespace

Shapes shape__native_batch_norm_legit_no_stats(const args::_native_batch_norm_legit_no_stats& a) {
  check(a.input, {{"weight", &a.weight}, {"bias", &a.bias}});
  DType d = param_type(a.input, a.weight, {});
  Dims channels{a.input.sizes()[1]};
  return {like(a.input), Shape(channels, d), Shape(channels, d)};
}
void kernel__native_batch_norm_legit_no_stats(const args::_native_batch_norm_legit_no_stats& a, Out out) {
  Tensor mean, var;
  train(a.input, a.weight, a.bias, a.eps, out[0], out[1], out[2], mean, var);
}

Shapes shape__native_batch_norm_legit_functional(const args::_native_batch_norm_legit_functional& a) {
  check(a.input, {{"weight", &a.weight},
                  {"bias", &a.bias},
                  {"running_mean", &a.running_mean},
                  {"running_var", &a.running_var}});
  DType d = param_type(a.input, a.weight, a.running_mean);
  Dims saved{a.training ? a.input.sizes()[1] : SymInt(0)};
  return {like(a.input), Shape(saved, d), Shape(saved, d),
          Shape(a.running_mean.sizes(), a.running_mean.dtype()),
          Shape(a.running_var.sizes(), a.running_var.dtype())};
}
void kernel__native_batch_norm_legit_functional(const args::_native_batch_norm_legit_functional& a, Out out) {
  if (!a.training) {
    infer(a.input, a.weight, a.bias, a.running_mean, a.running_var, a.eps, out[0]);
    copy_elements(a.running_mean, out[3]);
    copy_elements(a.running_var, out[4]);
    return;
  }
  Tensor mean, var;
  train(a.input, a.weight, a.bias, a.eps, out[0], out[1], out[2], mean, var);
  double n = static_cast<double>(a.input.int_numel()) /
             static_cast<double>(std::max<int64_t>(a.input.int_sizes()[1], 1));
  follow(a.running_mean, mean, 1, a.momentum, out[3]);
  follow(a.running_var, var, n / (n - 1), a.momentum, out[4]);
}

Shapes shape__native_batch_norm_legit_no_training(const args::_native_batch_norm_legit_no_training& a) {
  check(a.input, {{"weight", &a.weight},
                  {"bias", &a.bias},
                  {"running_mean", &a.running_mean},
                  {"running_var", &a.running_var}});
  DType d = param_type(a.input, a.weight, a.running_mean);
  return {like(a.input), Shape(Dims{SymInt(0)}, d), Shape(Dims{SymInt(0)}, d)};
}
void kernel__native_batch_norm_legit_no_training(const args::_native_batch_norm_legit_no_training& a,
                                                 Out out) {
  infer(a.input, a.weight, a.bias, a.running_mean, a.running_var, a.eps, out[0]);
}

Shapes shape_native_batch_norm_backward(const args::native_batch_norm_backward& a) {
  check(a.input, {{"weight", &a.weight},
                  {"running_mean", &a.running_mean},
                  {"running_var", &a.running_var},
                  {"save_mean", a.train ? &a.save_mean : &a.weight},
                  {"save_invstd", a.train ? &a.save_invstd : &a.weight}});
  if (!(a.train ? a.save_mean : a.running_mean).defined() ||
      !(a.train ? a.save_invstd : a.running_var).defined())
    fail(a.train
             ? "native_batch_norm_backward: save_mean and save_invstd must be defined in training"
             : "native_batch_norm_backward: running_mean and running_var must be defined in evaluation mode");
  bool same = a.grad_out.dim() == a.input.dim();
  for (int64_t i = 0; same && i < a.input.dim(); ++i) same = a.grad_out.sizes()[i] == a.input.sizes()[i];
  if (!same)
    failf("native_batch_norm_backward: grad_out of {} does not belong to an input of {}",
          str(a.grad_out.sizes()), str(a.input.sizes()));
  DType d = param_type(a.input, a.weight, a.running_mean);
  Dims channels{a.input.sizes()[1]};
  return {like(a.input), Shape(channels, d), Shape(channels, d)};
}
void kernel_native_batch_norm_backward(const args::native_batch_norm_backward& a, Out out) {
  if (a.input.int_numel() == 0) {
    for (const Tensor& t : out) fill_elements(t, 0);
    return;
  }
  DType type = common_type({&a.grad_out, &a.input, &a.weight}), stats = stats_type(type);
  Sizes s(a.input);
  Tensor mean = stats_like(a.train ? a.save_mean : a.running_mean, stats);
  Tensor invstd = stats_like(a.train ? a.save_invstd : a.running_var, stats);
  if (!a.train) invert(stats, invstd.data(), s.channels, a.eps);
  DenseIn g(a.grad_out, type), x(a.input, type), w(a.weight, type);
  DenseOut gx(out[0], type), gw(out[1], type), gb(out[2], type);
  kernels::batch_norm_backward(type, s.batch, s.channels, s.inner, g.data(), x.data(), mean.data(),
                               invstd.data(), w.data(), a.train, gx.data_if(a.output_mask[0]),
                               gw.data_if(a.output_mask[1]), gb.data_if(a.output_mask[2]));
}

std::tuple<Tensor, Tensor, Tensor> body__native_batch_norm_legit(const args::_native_batch_norm_legit& a) {
  auto [y, mean, invstd, running_mean, running_var] = _native_batch_norm_legit_functional(
      a.input, a.weight, a.bias, a.running_mean, a.running_var, a.training, a.momentum, a.eps);
  if (a.training) {
    NoGrad no_grad;
    copy_(a.running_mean, running_mean);
    copy_(a.running_var, running_var);
  }
  return {y, mean, invstd};
}

std::tuple<Tensor, Tensor, Tensor> body_native_batch_norm(const args::native_batch_norm& a) {
  bool running = a.running_mean.defined() && a.running_var.defined();
  if (!running && !a.training) fail("running_mean and running_var must be defined in evaluation mode");
  if (!running) return _native_batch_norm_legit(a.input, a.weight, a.bias, true, a.momentum, a.eps);
  if (!a.training)
    return _native_batch_norm_legit_no_training(a.input, a.weight, a.bias, a.running_mean, a.running_var,
                                                a.momentum, a.eps);
  return _native_batch_norm_legit(a.input, a.weight, a.bias, a.running_mean, a.running_var, true, a.momentum,
                                  a.eps);
}

Tensor body_batch_norm(const args::batch_norm& a) {
  if (a.input.dim() < 2 && surely_eq(a.input.numel(), 0)) return clone(a.input);
  return std::get<0>(native_batch_norm(a.input, a.weight, a.bias, a.running_mean, a.running_var, a.training,
                                       a.momentum, a.eps));
}

Tensor body_group_norm(const args::group_norm& a) {
  const Tensor& input = a.input;
  if (input.dim() < 2) failf("Expected at least 2 dimensions for input tensor but received {}", input.dim());
  if (a.num_groups <= 0) failf("Expected num groups to be greater than 0, got {}", a.num_groups);
  SymInt n = input.size(0), c = input.size(1);
  if (mod(c, a.num_groups) != 0)
    failf(
        "Expected number of channels in input to be divisible by num_groups, but got input of shape {} and "
        "num_groups={}",
        str(input.sizes()), a.num_groups);
  SymInt inner = 1;
  for (int64_t d = 2; d < input.dim(); ++d) inner *= input.size(d);
  return std::get<0>(native_group_norm(input, a.weight, a.bias, n, c, inner, a.num_groups, a.eps));
}

// A batch of one with as many channels as there are instances.
Tensor body_instance_norm(const args::instance_norm& a) {
  const Tensor& input = a.input;
  if (input.dim() < 2)
    failf("instance_norm: expected an input of at least 2 dimensions, got {}", str(input.sizes()));
  bool running = a.running_mean.defined() && a.running_var.defined();
  if (!a.use_input_stats && !running)
    fail("Expected running_mean and running_var to be defined when use_input_stats is false");
  SymInt b = input.size(0), c = input.size(1);
  Dims flat{SymInt(1), b * c};
  for (int64_t d = 2; d < input.dim(); ++d) flat.push_back(input.sizes()[d]);
  auto repeated = [&](const Tensor& t) { return t.defined() ? repeat(t, {b}) : Tensor(); };
  // Statistics of another type are taken in that of the parameters.
  const DType type = a.weight.defined() ? a.weight.dtype()
                     : a.bias.defined() ? a.bias.dtype()
                                        : input.dtype();
  auto typed = [&](const Tensor& t) { return t.defined() && t.dtype() != type ? t.to(type) : t; };
  Tensor mean = repeated(typed(a.running_mean)), var = repeated(typed(a.running_var));
  Tensor y = batch_norm(reshape(input.contiguous(), flat), repeated(a.weight), repeated(a.bias), mean, var,
                        a.use_input_stats, a.momentum, a.eps, a.cudnn_enabled);
  if (running && a.use_input_stats) {
    NoGrad no_grad;
    // Through aliases, as in PyTorch: its programs show them.
    copy_(alias(a.running_mean), tern::mean(view(mean, {b, c}), Ints(0)));
    copy_(alias(a.running_var), tern::mean(view(var, {b, c}), Ints(0)));
  }
  return view(y, input.sizes());
}

namespace {
// Over the dimensions from `lead` on: the result, and what each row was multiplied by.
std::pair<Tensor, Tensor> root_mean_square(const Tensor& input, int64_t lead, const Tensor& weight,
                                           std::optional<double> given) {
  if (is_integral(input.dtype(), true)) not_implemented_for("rms_norm", input.dtype());
  const DType wide = compute_dtype(input.dtype());
  const double eps = given.value_or(wide == kDouble ? std::numeric_limits<double>::epsilon()
                                                    : std::numeric_limits<float>::epsilon());
  SmallVector<int64_t, 6> dims;
  for (int64_t d = lead; d < input.dim(); ++d) dims.push_back(d);
  Tensor x = wide == input.dtype() ? input : input.to(wide);
  Tensor rstd = rsqrt(add(mean(pow(x, 2), Ints(dims), true), Scalar(eps)));
  Tensor y = x * rstd;
  if (weight.defined()) y = y * weight;
  return {y.dtype() == input.dtype() ? y : y.to(input.dtype()), rstd};
}
}  // namespace
Tensor body_rms_norm(const args::rms_norm& a) {
  if (a.normalized_shape.empty())
    fail(
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but "
        "got "
        "normalized_shape = []");
  bool weighed = a.weight.defined();
  bool same = !weighed || static_cast<size_t>(a.weight.dim()) == a.normalized_shape.size();
  for (int64_t d = 0; weighed && same && d < a.weight.dim(); ++d)
    same = a.weight.sizes()[d] == a.normalized_shape[static_cast<size_t>(d)];
  if (!same)
    failf(
        "Expected weight to be of same shape as normalized_shape, but got weight of shape {} and "
        "normalized_shape = {}",
        str(a.weight.sizes()), str(a.normalized_shape));
  int64_t lead = a.input.dim() - static_cast<int64_t>(a.normalized_shape.size());
  bool fits = lead >= 0;
  for (size_t d = 0; fits && d < a.normalized_shape.size(); ++d)
    fits = a.input.sizes()[lead + d] == a.normalized_shape[d];
  if (!fits) {
    std::string wanted = str(a.normalized_shape);
    failf("Given normalized_shape={}, expected input with shape [*{}, but got input of size{}", wanted,
          wanted.substr(1), str(a.input.sizes()));
  }
  return root_mean_square(a.input, lead, a.weight, a.eps).first;
}
std::tuple<Tensor, Tensor> body__fused_rms_norm(const args::_fused_rms_norm& a) {
  const int64_t normalized = static_cast<int64_t>(a.normalized_shape.size()),
                lead = a.input.dim() - normalized;
  if (lead < 0)
    failf("Given a normalized_shape of {} dimensions, expected input with as many, but got input of size{}",
          normalized, str(a.input.sizes()));
  auto [y, rstd] = root_mean_square(a.input, lead, a.weight, a.eps);
  return {y, rstd};
}

// ---- other names ----

namespace {
Tensor no_reserve(const Tensor& like) { return empty({0}, kByte, {}, like.device()); }
}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor, SymInt> body__batch_norm_impl_index(
    const args::_batch_norm_impl_index& a) {
  auto [y, mean, invstd] = native_batch_norm(a.input, a.weight, a.bias, a.running_mean, a.running_var,
                                             a.training, a.momentum, a.eps);
  return {y, mean, invstd, no_reserve(a.input), SymInt(0)};
}
std::tuple<Tensor, Tensor, Tensor, Tensor> body__batch_norm_with_update(
    const args::_batch_norm_with_update& a) {
  auto [y, mean, invstd] = _native_batch_norm_legit(a.input, a.weight, a.bias, a.running_mean, a.running_var,
                                                    true, a.momentum, a.eps);
  return {y, mean, invstd, no_reserve(a.input)};
}
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> body__batch_norm_with_update_functional(
    const args::_batch_norm_with_update_functional& a) {
  auto [y, mean, invstd, running_mean, running_var] = _native_batch_norm_legit_functional(
      a.input, a.weight, a.bias, a.running_mean, a.running_var, true, a.momentum, a.eps);
  return {y, mean, invstd, no_reserve(a.input), running_mean, running_var};
}
std::tuple<Tensor, Tensor, Tensor, Tensor> body__batch_norm_no_update(const args::_batch_norm_no_update& a) {
  if (!a.running_mean.defined() || !a.running_var.defined())
    fail("_batch_norm_no_update: Expected running_mean and running_var to be defined");
  auto [y, mean, invstd] = _native_batch_norm_legit_no_training(a.input, a.weight, a.bias, a.running_mean,
                                                                a.running_var, a.momentum, a.eps);
  return {y, mean, invstd, no_reserve(a.input)};
}
std::tuple<Tensor, Tensor> body_batch_norm_update_stats(const args::batch_norm_update_stats& a) {
  if (a.input.dim() < 2)
    failf("batch_norm_update_stats: expected at least 2 dimensions, got {}", str(a.input.sizes()));
  SmallVector<int64_t, 6> others{0};
  for (int64_t d = 2; d < a.input.dim(); ++d) others.push_back(d);
  auto [variance, mean] = var_mean(a.input, Ints(others), Scalar(0), false);
  SymInt n = floor_div(a.input.numel(), a.input.size(1));
  auto follow = [&](const Tensor& running, const Tensor& now) {
    if (running.defined()) copy_(running, running * (1 - a.momentum) + now * a.momentum);
  };
  NoGrad no_grad;
  follow(a.running_mean, mean);
  if (a.running_var.defined()) follow(a.running_var, variance * Scalar(n) / Scalar(n - 1));
  return {mean, variance};
}

}  // namespace tern
