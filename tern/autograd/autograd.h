// Gradients: backward through recorded history, gradients of chosen inputs, hooks, and functions with a
// backward of their own.
#pragma once
#include <vector>

#include "tern/base/function.h"
#include "tern/tensor/value.h"

namespace tern::autograd {

// Accumulates d(outputs)/d(leaf) into .grad of every leaf. A missing gradient is 1 for a scalar output.
void backward(Span<const Tensor> outputs, Span<const Tensor> gradients = {}, bool retain_graph = false,
              bool create_graph = false);

struct GradOptions {
  bool retain_graph = false;
  bool create_graph = false;  // the gradients have history themselves: for second derivatives
  bool allow_unused =
      false;  // an input that the outputs do not depend on gives an undefined tensor instead of an error
};
std::vector<Tensor> grad(Span<const Tensor> outputs, Span<const Tensor> inputs,
                         Span<const Tensor> gradients = {}, GradOptions options = {});

// A hook sees the gradient of a tensor and may replace it (an undefined result keeps it).
using Hook = tern::Function<Tensor(const Tensor& grad)>;
int register_hook(const Tensor& t, Hook hook);  // gives a number for remove_hook
void remove_hook(const Tensor& t, int number);
// Called after .grad of a leaf has been accumulated.
int register_post_accumulate_hook(const Tensor& leaf, tern::Function<void(const Tensor& leaf)> hook);

// Which result of its recorded function the tensor is; 0 for leaves.
uint32_t output_number(const Tensor& t);

// `target.data = source`: the same tensor, with the memory and sizes of `source`. Throws where gradients of
// it make no sense.
void set_data(const Tensor& target, const Tensor& source);

// While on, backward names the function whose gradient is NaN (unless `check_nan` is off) or throws, and
// warns with where in the program the function was recorded, as `trace` told it then.
struct Anomaly {
  bool on = false;
  bool check_nan = true;
  std::string (*trace)() = nullptr;
};
extern Anomaly anomaly;

// Inference mode: nothing is recorded, and what is made may never become part of a recorded computation.
bool inference_mode();
void set_inference_mode(bool on);
bool is_inference(const Tensor& t);
// To be called for what an operator has made in inference mode; `source` is the argument it shares memory
// with, if there is one.
void mark_inference(const Tensor& result, const Tensor* source = nullptr);

// What becomes of tensors that are saved for backward on this thread: `pack` gives what is kept instead of
// the tensor, `unpack` turns it into a tensor again. The last pair pushed is used.
struct SavedTensorHooks {
  tern::Function<Shared<void>(const Tensor&)> pack;
  tern::Function<Tensor(const Shared<void>&)> unpack;
};
void push_saved_tensor_hooks(SavedTensorHooks hooks);  // throws while they are forbidden
void pop_saved_tensor_hooks();
// With the message of the error; an empty one allows them again. Gives the message before.
std::string forbid_saved_tensor_hooks(std::string message);

// Cuts a tensor from its history, for every handle to it. Throws for a view: its base keeps the history.
const Tensor& detach_(const Tensor& t);

// The name of the recorded function, "AddBackward0"; empty for leaves.
std::string grad_fn_name(const Tensor& t);

// A function with a backward of its own:
//   struct Cube : Function<Cube> {
//     static std::vector<Tensor> forward(Context& c, Span<const Tensor> x) { c.save({x[0]}); return {x[0] *
//     x[0] * x[0]}; } static std::vector<Tensor> backward(Context& c, Span<const Tensor> g) { return {g[0] *
//     3 * c.saved(0) * c.saved(0)}; }
//   };
//   Tensor y = Cube::apply({x})[0];
struct SavedTensor;
class Context {
 public:
  Context();
  ~Context();
  void save(Span<const Tensor> tensors);  // inputs or outputs; checked for in-place changes when read
  Tensor saved(size_t i) const;
  size_t saved_count() const;
  void mark_non_differentiable(const Tensor& output);
  void mark_dirty(const Tensor& input);
  bool needs_input_grad(size_t i) const { return needs[i]; }
  std::vector<Value> values;      // anything else backward wants
  std::vector<bool> needs;        // which inputs require a gradient
  bool materialize_grads = true;  // undefined gradients arrive as zeros
  std::vector<Tensor> non_differentiable, dirty;

 private:
  friend struct CustomNode;
  friend struct CustomCall;
  std::vector<Tensor> to_save_;
  std::vector<SavedTensor> saved_;
  struct CustomNode* node_ = nullptr;
};

using CustomFunction = std::vector<Tensor> (*)(Context&, Span<const Tensor>);

// A Function and what it is given besides tensors.
struct CustomCall {
  std::string name;  // "Cube"
  CustomFunction forward = nullptr, backward = nullptr;
  std::vector<Value> values = {};
  std::vector<Tensor> operator()(Span<const Tensor> inputs, bool* in_place = nullptr) const;
};
// Sees Functions applied on this thread while a trace is recorded: they stay calls.
class ApplyRecorder {
 public:
  virtual ~ApplyRecorder() = default;
  virtual std::vector<Tensor> apply(const CustomCall& call, Span<const Tensor> inputs) = 0;
  virtual void detached(const Tensor& t) = 0;  // by detach_()
};
ApplyRecorder* record_applies(ApplyRecorder* recorder);  // gives the one before

std::vector<Tensor> apply_custom(std::string_view name, Span<const Tensor> inputs, CustomFunction forward,
                                 CustomFunction backward, const std::vector<Value>& values);

template <class F>
struct Function {
  static std::vector<Tensor> apply(Span<const Tensor> inputs, const std::vector<Value>& values = {}) {
    return apply_custom(__PRETTY_FUNCTION__, inputs, &F::forward, &F::backward, values);
  }
};

}  // namespace tern::autograd
