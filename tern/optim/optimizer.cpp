// What optimisers share: groups, steps, state dicts; clipping; learning rates.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/base/warning.h"
#include "tern/ops.h"
#include "tern/optim/optim.h"

namespace tern::optim {

void Optimizer::add_params(std::vector<Tensor> params) {
  if (params.empty()) fail(ErrorKind::value, "optimizer got an empty parameter list");
  std::unordered_set<const void*> seen;
  for (const auto& group : params_)
    for (const Tensor& p : group) seen.insert(p.body());
  std::unordered_set<const void*> here;
  bool repeated = false;
  for (const Tensor& p : params) {
    if (!p.defined())
      fail(ErrorKind::type, "optimizer can only optimize Tensors, but one of the params is undefined");
    if (!p.is_leaf()) fail(ErrorKind::value, "can't optimize a non-leaf Tensor");
    if (seen.count(p.body()))
      fail(ErrorKind::value, "some parameters appear in more than one parameter group");
    repeated |= !here.insert(p.body()).second;
  }
  if (repeated)
    warn("UserWarning",
         "optimizer contains a parameter group with duplicate parameters; in future, this will cause an "
         "error");
  states_.emplace_back(params.size());
  params_.push_back(std::move(params));
}

void Optimizer::step() {
  NoGrad no_grad;
  for (size_t g = 0; g < params_.size(); ++g)
    for (size_t i = 0; i < params_[g].size(); ++i) {
      const Tensor& p = params_[g][i];
      Tensor grad = p.grad();
      if (grad.defined()) update(g, p, grad, states_[g][i]);
    }
}

void Optimizer::zero_grad() const {
  for (const auto& group : params_)
    for (const Tensor& p : group) p.zero_grad();
}

Value Optimizer::state_dict() const {
  NoGrad no_grad;
  Value state = Value::dict();
  std::vector<Value> groups;
  int64_t number = 0;
  for (size_t g = 0; g < params_.size(); ++g) {
    std::vector<Value> numbers;
    for (const ParamState& s : states_[g]) {
      Value entry = Value::dict();
      if (counts_steps() && s.step)
        entry.entries().emplace_back("step", tensor(static_cast<double>(s.step), {kFloat}));
      for (size_t i = 0; i < state_names().size(); ++i)
        if (s.tensors[i].defined()) entry.entries().emplace_back(state_names()[i], s.tensors[i]);
      if (!entry.entries().empty()) state.entries().emplace_back(number, entry);
      numbers.push_back(number++);
    }
    Value group = settings(g);
    group.entries().emplace_back("params", Value::list(std::move(numbers)));
    groups.push_back(group);
  }
  return Value::dict({{"state", state}, {"param_groups", Value::list(std::move(groups))}});
}

namespace {

const Value& entry_of(const Value& dict, std::string_view key) {
  const Value* found = dict.find(key);
  if (!found) failf(ErrorKind::value, "load_state_dict: the state dict has no '{}'", key);
  return *found;
}

}  // namespace

void Optimizer::load_state_dict(const Value& dict) {
  NoGrad no_grad;
  const auto& groups = entry_of(dict, "param_groups").items();
  const Value& state = entry_of(dict, "state");
  if (groups.size() != params_.size())
    fail(ErrorKind::value, "loaded state dict has a different number of parameter groups");
  for (size_t g = 0; g < groups.size(); ++g)
    if (entry_of(groups[g], "params").items().size() != params_[g].size())
      fail(ErrorKind::value,
           "loaded state dict contains a parameter group that doesn't match the size of optimizer's group");
  for (size_t g = 0; g < groups.size(); ++g) {
    load_settings(g, groups[g]);
    const auto& numbers = entry_of(groups[g], "params").items();
    for (size_t i = 0; i < numbers.size(); ++i) {
      ParamState loaded;
      const Tensor& param = params_[g][i];
      if (const Value* entry = state.find(numbers[i])) {
        if (const Value* step = entry->find("step"))
          loaded.step = step->is_tensor() ? step->tensor().item<int64_t>() : step->to_int();
        for (size_t n = 0; n < state_names().size(); ++n) {
          const Value* found = entry->find(state_names()[n]);
          if (!found || found->is_none()) continue;
          const Tensor& t = found->tensor();
          if (tern::str(t.sizes()) != tern::str(param.sizes()))
            failf(ErrorKind::value,
                  "load_state_dict: {} of parameter {} has the shape {}, the parameter has {}",
                  state_names()[n], i, tern::str(t.sizes()), tern::str(param.sizes()));
          loaded.tensors[n] = t.to(param.dtype()).clone();
        }
      }
      states_[g][i] = loaded;
    }
  }
}

std::string Optimizer::str() const {
  std::string text = fmt::format("{} (", name());
  for (size_t g = 0; g < params_.size(); ++g) {
    text += fmt::format("\nParameter Group {}", g);
    std::vector<std::string> lines;
    Value all = settings(g);
    for (auto& [key, value] : all.entries())
      lines.push_back(fmt::format("    {}: {}", key.string(), value.str()));
    std::sort(lines.begin(), lines.end());
    for (const std::string& line : lines) text += "\n" + line;
  }
  return text + "\n)";
}

// ---- clipping ----

Tensor clip_grad_norm_(Span<const Tensor> params, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  NoGrad no_grad;
  std::vector<Tensor> grads, norms;
  for (const Tensor& p : params)
    if (Tensor g = p.grad(); g.defined()) grads.push_back(g);
  if (grads.empty()) return tensor(0.0, {kFloat});
  for (const Tensor& g : grads) norms.push_back(linalg_vector_norm(g, norm_type));
  Tensor total = linalg_vector_norm(stack(norms), norm_type);
  if (error_if_nonfinite && !std::isfinite(total.item<double>()))
    failf(
        "The total norm of order {} for gradients from `parameters` is non-finite, so it cannot be clipped. "
        "To disable "
        "this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`",
        python_float(norm_type));
  Tensor factor = (max_norm / (total + 1e-6)).clamp({}, 1.0);
  for (const Tensor& g : grads) g.mul_(factor.to(g.dtype()));
  return total;
}

void clip_grad_value_(Span<const Tensor> params, double limit) {
  NoGrad no_grad;
  for (const Tensor& p : params)
    if (Tensor g = p.grad(); g.defined()) clamp_(g, -limit, limit);
}

// ---- learning rates ----

LRScheduler::LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {
  for (size_t g = 0; g < optimizer.group_count(); ++g) base_.push_back(optimizer.lr(g));
}
void LRScheduler::step() {
  ++epoch_;
  apply();
}
void LRScheduler::apply() {
  for (size_t g = 0; g < base_.size(); ++g) optimizer_.lr(g) = rate(base_[g], epoch_);
}
Value LRScheduler::state_dict() const {
  std::vector<Value> base(base_.begin(), base_.end());
  return Value::dict({{"base_lrs", Value::list(std::move(base))}, {"last_epoch", epoch_}});
}
void LRScheduler::load_state_dict(const Value& dict) {
  const auto& base = entry_of(dict, "base_lrs").items();
  if (base.size() != base_.size())
    failf(ErrorKind::value, "load_state_dict: {} learning rates for {} groups", base.size(), base_.size());
  for (size_t g = 0; g < base.size(); ++g) base_[g] = base[g].to_double();
  epoch_ = entry_of(dict, "last_epoch").to_int();
  apply();
}

StepLR::StepLR(Optimizer& optimizer, int64_t step_size, double gamma)
    : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {
  if (step_size <= 0) failf(ErrorKind::value, "StepLR: step_size is {}, expected 1 or more", step_size);
  start();
}
double StepLR::rate(double base, int64_t epoch) const {
  return base * std::pow(gamma_, static_cast<double>(epoch / step_size_));
}
ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma) : LRScheduler(optimizer), gamma_(gamma) {
  start();
}
double ExponentialLR::rate(double base, int64_t epoch) const {
  return base * std::pow(gamma_, static_cast<double>(epoch));
}
CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min)
    : LRScheduler(optimizer), t_max_(t_max), eta_min_(eta_min) {
  if (t_max <= 0) failf(ErrorKind::value, "CosineAnnealingLR: t_max is {}, expected 1 or more", t_max);
  start();
}
double CosineAnnealingLR::rate(double base, int64_t epoch) const {
  double angle = M_PI * static_cast<double>(epoch) / static_cast<double>(t_max_);
  return eta_min_ + (base - eta_min_) * (1 + std::cos(angle)) / 2;
}
LambdaLR::LambdaLR(Optimizer& optimizer, Function<double(int64_t)> factor)
    : LRScheduler(optimizer), factor_(std::move(factor)) {
  start();
}

}  // namespace tern::optim
