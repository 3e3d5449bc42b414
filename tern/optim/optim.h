// Optimisers with PyTorch's names, options, numbers and state dicts:
//   optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
//   sgd.zero_grad(); loss.backward(); sgd.step();
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tern/dispatch/ladder.h"
#include "tern/tensor/value.h"

namespace tern::optim {

// What an optimiser keeps for one parameter; the tensors' names are in state_names().
struct ParamState {
  int64_t step = 0;
  Tensor tensors[3];
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;

  void step();  // updates every parameter that has a gradient
  template <class F>
  auto step(F&& closure) {  // the closure computes the loss and its gradients
    EnableGrad grad;
    auto loss = closure();
    step();
    return loss;
  }
  void zero_grad() const;
  size_t group_count() const { return params_.size(); }
  const std::vector<Tensor>& params(size_t group = 0) const { return params_[group]; }
  virtual double& lr(size_t group = 0) = 0;

  // {"state": {0: {…}}, "param_groups": [{"lr": …, "params": [0, …]}]}, as PyTorch's.
  Value state_dict() const;
  void load_state_dict(const Value& dict);  // throws when groups, sizes or entries do not fit
  std::string str() const;

  virtual std::string_view name() const = 0;

 protected:
  Optimizer() = default;
  void add_params(
      std::vector<Tensor> params);  // throws for non-leaves and for a parameter that is there already
  virtual void update(size_t group, const Tensor& param, const Tensor& grad, ParamState& state) = 0;
  virtual Value settings(size_t group) const = 0;
  virtual void load_settings(size_t group, const Value& settings) = 0;
  virtual Span<const char* const> state_names() const = 0;
  virtual bool counts_steps() const = 0;

 private:
  std::vector<std::vector<Tensor>> params_;
  std::vector<std::vector<ParamState>> states_;
};

// Parameters with options of their own: optim::SGD({{net.body.parameters(), {.lr = 1e-4}},
// {net.head.parameters(), {.lr = 1e-2}}}).
template <class Options>
struct Group {
  std::vector<Tensor> params;
  Options options;
};

struct SGDOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false;
};
class SGD final : public Optimizer {
 public:
  explicit SGD(std::vector<Tensor> params, const SGDOptions& options = {});
  explicit SGD(std::vector<Group<SGDOptions>> groups);
  double& lr(size_t group = 0) override { return options_[group].lr; }
  SGDOptions& options(size_t group = 0) { return options_[group]; }
  std::string_view name() const override { return "SGD"; }

 private:
  void update(size_t group, const Tensor& param, const Tensor& grad, ParamState& state) override;
  Value settings(size_t group) const override;
  void load_settings(size_t group, const Value& settings) override;
  Span<const char* const> state_names() const override;
  bool counts_steps() const override { return false; }
  std::vector<SGDOptions> options_;
};

struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool amsgrad = false, maximize = false;
};
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> params, const AdamOptions& options = {});
  explicit Adam(std::vector<Group<AdamOptions>> groups);
  double& lr(size_t group = 0) override { return options_[group].lr; }
  AdamOptions& options(size_t group = 0) { return options_[group]; }
  std::string_view name() const override { return decoupled_ ? "AdamW" : "Adam"; }

 protected:
  Adam(std::vector<Group<AdamOptions>> groups, bool decoupled);

 private:
  void update(size_t group, const Tensor& param, const Tensor& grad, ParamState& state) override;
  Value settings(size_t group) const override;
  void load_settings(size_t group, const Value& settings) override;
  Span<const char* const> state_names() const override;
  bool counts_steps() const override { return true; }
  std::vector<AdamOptions> options_;
  bool decoupled_ = false;  // weight decay shrinks the weights instead of joining the gradient
};

struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2;
  bool amsgrad = false, maximize = false;
};
class AdamW final : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> params, const AdamWOptions& options = {});
  explicit AdamW(std::vector<Group<AdamWOptions>> groups);
};

// Scales all gradients so that their common norm is at most max_norm; gives the norm before. Throws for a
// norm that is not finite when asked to.
Tensor clip_grad_norm_(Span<const Tensor> params, double max_norm, double norm_type = 2,
                       bool error_if_nonfinite = false);
void clip_grad_value_(Span<const Tensor> params, double limit);

// ---- learning rates: call step() after each epoch ----

class LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  void step();
  double last_lr(size_t group = 0) const { return optimizer_.lr(group); }
  int64_t epoch() const { return epoch_; }
  Value state_dict() const;
  void load_state_dict(const Value& dict);

 protected:
  explicit LRScheduler(Optimizer& optimizer);
  void start() { apply(); }  // derived constructors call it when they are complete
  virtual double rate(double base, int64_t epoch) const = 0;

 private:
  void apply();
  Optimizer& optimizer_;
  std::vector<double> base_;
  int64_t epoch_ = 0;
};
class StepLR final : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, int64_t step_size, double gamma = 0.1);

 private:
  double rate(double base, int64_t epoch) const override;
  int64_t step_size_;
  double gamma_;
};
class ExponentialLR final : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma);

 private:
  double rate(double base, int64_t epoch) const override;
  double gamma_;
};
class CosineAnnealingLR final : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, int64_t t_max, double eta_min = 0);

 private:
  double rate(double base, int64_t epoch) const override;
  int64_t t_max_;
  double eta_min_;
};
class LambdaLR final : public LRScheduler {
 public:
  LambdaLR(Optimizer& optimizer, Function<double(int64_t epoch)> factor);

 private:
  double rate(double base, int64_t epoch) const override { return base * factor_(epoch); }
  Function<double(int64_t)> factor_;
};

}  // namespace tern::optim
