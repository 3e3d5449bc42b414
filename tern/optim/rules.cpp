// The update rules of SGD and Adam: one loop over memory where parameter, gradient and state are dense
// floats, the same formulas in operators for everything else (half precision, strided tensors, under a
// capture).
#include <cmath>

#include "tern/base/format.h"
#include "tern/base/parallel.h"
#include "tern/ops.h"
#include "tern/optim/optim.h"

namespace tern::optim {
namespace {

void check(bool ok, std::string_view what, double value) {
  if (!ok) failf(ErrorKind::value, "Invalid {}: {}", what, python_float(value));
}

// Whether one loop may write this parameter: real memory, nobody recording, everything dense and of one type.
template <class T>
bool is_dense(const Tensor& param, const Tensor& grad, const ParamState& state) {
  if (thread_state.active || param.dtype() != dtype_of<T>) return false;
  auto fits = [&](const Tensor& t) {
    return !t.defined() || (t.dtype() == dtype_of<T> && t.is_contiguous() && !t.is_fake() &&
                            !t.is_symbolic() && t.int_numel() == param.int_numel());
  };
  if (param.is_fake() || param.is_symbolic() || !fits(param) || !fits(grad)) return false;
  for (const Tensor& t : state.tensors)
    if (!fits(t)) return false;
  return true;
}

void wrote(const Tensor& t) {
  if (t.defined()) ++t->storage->version;
}

constexpr int64_t grain = 16384;

double number(const Value& settings, std::string_view key, double fallback) {
  const Value* found = settings.find(key);
  if (!found || found->is_none()) return fallback;
  return found->is_tensor() ? found->tensor().item<double>() : found->to_double();
}
bool flag(const Value& settings, std::string_view key, bool fallback) {
  const Value* found = settings.find(key);
  return found && found->is_bool() ? found->to_bool() : fallback;
}

}  // namespace

// ---- SGD ----

SGD::SGD(std::vector<Tensor> params, const SGDOptions& options)
    : SGD(std::vector<Group<SGDOptions>>{{std::move(params), options}}) {}
SGD::SGD(std::vector<Group<SGDOptions>> groups) {
  if (groups.empty()) fail(ErrorKind::value, "optimizer got an empty parameter list");
  for (auto& g : groups) {
    const SGDOptions& o = g.options;
    check(o.lr >= 0, "learning rate", o.lr);
    check(o.momentum >= 0, "momentum value", o.momentum);
    check(o.weight_decay >= 0, "weight_decay value", o.weight_decay);
    if (o.nesterov && (o.momentum <= 0 || o.dampening != 0))
      fail(ErrorKind::value, "Nesterov momentum requires a momentum and zero dampening");
    add_params(std::move(g.params));
    options_.push_back(o);
  }
}

namespace {

template <class T>
void sgd_loop(const SGDOptions& o, T* p, const T* g, T* momentum, bool first, int64_t n) {
  T lr = static_cast<T>(o.lr), mu = static_cast<T>(o.momentum), keep = static_cast<T>(1 - o.dampening),
    decay = static_cast<T>(o.weight_decay), sign = o.maximize ? -1 : 1;
  parallel_for(0, n, grain, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      T d = sign * g[i] + decay * p[i];
      if (momentum) {
        T m = first ? d : mu * momentum[i] + keep * d;
        momentum[i] = m;
        d = o.nesterov ? d + mu * m : m;
      }
      p[i] -= lr * d;
    }
  });
}

}  // namespace

void SGD::update(size_t group, const Tensor& p, const Tensor& grad, ParamState& s) {
  const SGDOptions& o = options_[group];
  Tensor& momentum = s.tensors[0];
  bool first = o.momentum != 0 && !momentum.defined();
  auto in_memory = [&]<class T>(T) {
    if (!is_dense<T>(p, grad, s)) return false;
    if (first) momentum = make_tensor(p.sizes(), p.dtype());
    sgd_loop<T>(o, p.data_ptr<T>(), grad.data_ptr<T>(), o.momentum != 0 ? momentum.data_ptr<T>() : nullptr,
                first, p.int_numel());
    wrote(p);
    if (o.momentum != 0) wrote(momentum);
    return true;
  };
  if (in_memory(float{}) || in_memory(double{})) return;
  Tensor d = o.maximize ? grad.neg() : grad;
  if (o.weight_decay != 0) d = add(d, p, o.weight_decay);
  if (o.momentum != 0) {
    if (first) {
      momentum = d.clone();
    } else {
      momentum.mul_(o.momentum);
      momentum.add_(d, 1 - o.dampening);
    }
    d = o.nesterov ? add(d, momentum, o.momentum) : momentum;
  }
  p.add_(d, -o.lr);
}

Value SGD::settings(size_t group) const {
  const SGDOptions& o = options_[group];
  return Value::dict({{"lr", o.lr},
                      {"momentum", o.momentum},
                      {"dampening", o.dampening},
                      {"weight_decay", o.weight_decay},
                      {"nesterov", o.nesterov},
                      {"maximize", o.maximize},
                      {"foreach", {}},
                      {"differentiable", false},
                      {"fused", {}}});
}
void SGD::load_settings(size_t group, const Value& v) {
  SGDOptions& o = options_[group];
  o = {.lr = number(v, "lr", o.lr),
       .momentum = number(v, "momentum", o.momentum),
       .dampening = number(v, "dampening", o.dampening),
       .weight_decay = number(v, "weight_decay", o.weight_decay),
       .nesterov = flag(v, "nesterov", o.nesterov),
       .maximize = flag(v, "maximize", o.maximize)};
}
Span<const char* const> SGD::state_names() const {
  static constexpr const char* names[] = {"momentum_buffer"};
  return names;
}

// ---- Adam, AdamW ----

Adam::Adam(std::vector<Tensor> params, const AdamOptions& options)
    : Adam(std::vector<Group<AdamOptions>>{{std::move(params), options}}) {}
Adam::Adam(std::vector<Group<AdamOptions>> groups) : Adam(std::move(groups), false) {}
AdamW::AdamW(std::vector<Tensor> params, const AdamWOptions& options)
    : AdamW(std::vector<Group<AdamWOptions>>{{std::move(params), options}}) {}
AdamW::AdamW(std::vector<Group<AdamWOptions>> groups)
    : Adam(
          [&] {
            std::vector<Group<AdamOptions>> plain;
            for (auto& [params, o] : groups)
              plain.push_back({std::move(params),
                               {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.amsgrad, o.maximize}});
            return plain;
          }(),
          true) {}
Adam::Adam(std::vector<Group<AdamOptions>> groups, bool decoupled) : decoupled_(decoupled) {
  if (groups.empty()) fail(ErrorKind::value, "optimizer got an empty parameter list");
  for (auto& g : groups) {
    const AdamOptions& o = g.options;
    check(o.lr >= 0, "learning rate", o.lr);
    check(o.eps >= 0, "epsilon value", o.eps);
    check(o.beta1 >= 0 && o.beta1 < 1, "beta parameter at index 0", o.beta1);
    check(o.beta2 >= 0 && o.beta2 < 1, "beta parameter at index 1", o.beta2);
    check(o.weight_decay >= 0, "weight_decay value", o.weight_decay);
    add_params(std::move(g.params));
    options_.push_back(o);
  }
}

namespace {

struct AdamNumbers {
  double step_size, second_root;  // lr / (1 - beta1^t), sqrt(1 - beta2^t)
};

template <class T>
void adam_loop(const AdamOptions& o, bool decoupled, AdamNumbers c, T* p, const T* g, T* mean, T* square,
               T* largest, int64_t n) {
  T shrink = static_cast<T>(decoupled ? 1 - o.lr * o.weight_decay : 1),
    decay = static_cast<T>(decoupled ? 0 : o.weight_decay), sign = o.maximize ? -1 : 1,
    new1 = static_cast<T>(1 - o.beta1), b2 = static_cast<T>(o.beta2), new2 = static_cast<T>(1 - o.beta2),
    eps = static_cast<T>(o.eps), root = static_cast<T>(c.second_root), step = static_cast<T>(c.step_size);
  parallel_for(0, n, grain, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      T w = p[i] * shrink, d = sign * g[i] + decay * w;
      T m = mean[i] + new1 * (d - mean[i]);
      T v = b2 * square[i] + new2 * d * d;
      mean[i] = m;
      square[i] = v;
      if (largest) v = largest[i] = std::max(largest[i], v);
      p[i] = w - step * (m / (std::sqrt(v) / root + eps));
    }
  });
}

}  // namespace

void Adam::update(size_t group, const Tensor& p, const Tensor& grad, ParamState& s) {
  const AdamOptions& o = options_[group];
  auto& [mean, square, largest] = s.tensors;
  if (!mean.defined()) mean = zeros_like(p);
  if (!square.defined()) square = zeros_like(p);
  if (o.amsgrad && !largest.defined()) largest = zeros_like(p);
  ++s.step;
  double t = static_cast<double>(s.step);
  AdamNumbers c{o.lr / (1 - std::pow(o.beta1, t)), std::sqrt(1 - std::pow(o.beta2, t))};
  auto in_memory = [&]<class T>(T) {
    if (!is_dense<T>(p, grad, s)) return false;
    adam_loop<T>(o, decoupled_, c, p.data_ptr<T>(), grad.data_ptr<T>(), mean.data_ptr<T>(),
                 square.data_ptr<T>(), o.amsgrad ? largest.data_ptr<T>() : nullptr, p.int_numel());
    wrote(p);
    for (const Tensor& t : s.tensors) wrote(t);
    return true;
  };
  if (in_memory(float{}) || in_memory(double{})) return;
  Tensor d = o.maximize ? grad.neg() : grad;
  if (o.weight_decay != 0) {
    if (decoupled_)
      p.mul_(1 - o.lr * o.weight_decay);
    else
      d = add(d, p, o.weight_decay);
  }
  lerp_(mean, d, 1 - o.beta1);
  square.mul_(o.beta2);
  addcmul_(square, d, d, 1 - o.beta2);
  Tensor second = square;
  if (o.amsgrad) {
    largest.copy_(maximum(largest, square));
    second = largest;
  }
  Tensor denominator = second.sqrt() / c.second_root + o.eps;
  addcdiv_(p, mean, denominator, -c.step_size);
}

Value Adam::settings(size_t group) const {
  const AdamOptions& o = options_[group];
  return Value::dict({{"lr", o.lr},
                      {"betas", Value::tuple({o.beta1, o.beta2})},
                      {"eps", o.eps},
                      {"weight_decay", o.weight_decay},
                      {"amsgrad", o.amsgrad},
                      {"maximize", o.maximize},
                      {"foreach", {}},
                      {"capturable", false},
                      {"differentiable", false},
                      {"fused", {}},
                      {"decoupled_weight_decay", decoupled_}});
}
void Adam::load_settings(size_t group, const Value& v) {
  AdamOptions& o = options_[group];
  double beta1 = o.beta1, beta2 = o.beta2;
  if (const Value* betas = v.find("betas")) {
    if (betas->items().size() != 2) fail(ErrorKind::value, "load_state_dict: 'betas' must be two numbers");
    beta1 = betas->items()[0].to_double();
    beta2 = betas->items()[1].to_double();
  }
  o = {.lr = number(v, "lr", o.lr),
       .beta1 = beta1,
       .beta2 = beta2,
       .eps = number(v, "eps", o.eps),
       .weight_decay = number(v, "weight_decay", o.weight_decay),
       .amsgrad = flag(v, "amsgrad", o.amsgrad),
       .maximize = flag(v, "maximize", o.maximize)};
}
Span<const char* const> Adam::state_names() const {
  static constexpr const char* names[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  return names;
}

}  // namespace tern::optim
