// What is recorded: nodes that know how to turn the gradients of their results into those of their inputs.
#pragma once
#include <memory>

#include "tern/autograd/autograd.h"
#include "tern/dispatch/op.h"

namespace tern {

namespace autograd {

struct GradNode;
struct Edge {
  std::shared_ptr<GradNode> node;  // null: no gradient is wanted
  uint32_t input = 0;              // which result of that node
};

// A hook of a node itself: sees all gradients that arrive and may replace them; or also those that leave.
using PreHook = tern::Function<void(std::vector<Tensor>& outputs)>;
using PostHook = tern::Function<void(std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs)>;

// What few nodes have.
struct NodeExtras {
  std::vector<std::pair<int, PreHook>> pre_hooks;
  std::vector<std::pair<int, PostHook>> post_hooks;
  int next_hook = 0;
  std::string trace;               // where the function was recorded
  std::shared_ptr<void> metadata;  // a user's
};

struct GradNode {
  std::vector<Edge> edges;           // one per input that may need a gradient
  std::vector<Shape> result_shapes;  // of what this node made: gradients that arrive are brought to these
  uint64_t sequence = 0;             // later nodes run first
  std::vector<std::vector<std::pair<int, Hook>>> hooks;  // by result
  std::vector<std::pair<uint32_t, AutogradMeta*>>
      retained;  // results whose tensor keeps its gradient, while it lives

  std::unique_ptr<NodeExtras> extras;

  GradNode();
  virtual ~GradNode();
  NodeExtras& more() {
    if (!extras) extras = std::make_unique<NodeExtras>();
    return *extras;
  }
  virtual Tensor variable() const { return {}; }  // of the node that accumulates into a leaf
  virtual std::vector<Tensor> apply(Span<const Tensor> grads) = 0;
  virtual std::string name() const = 0;
  virtual void release() {}  // frees what was saved
};

// What a user's hook made of a saved tensor.
struct PackedTensor {
  std::shared_ptr<const SavedTensorHooks> hooks;
  Shared<void> value;
  Edge edge;
};

// A tensor kept for backward; reading it checks that nobody wrote to it since.
struct SavedTensor {
  Tensor data;
  std::shared_ptr<PackedTensor> packed;  // instead of `data`
  uint32_t output = 0;
  uint32_t version = 0;
  bool is_output = false;
  bool has_history = false;  // of `data`, which detach_() would take away
  bool present = false;

  SavedTensor() = default;
  explicit SavedTensor(const Tensor& t, bool is_output = false);
  Tensor unpack(const std::shared_ptr<GradNode>& self) const;
  void release() {
    data = Tensor();
    packed.reset();
  }
};

// Where a view lies in its base. Its geometry counts in the memory of the base, which a gradient of the base
// is brought to first.
struct ViewPlace {
  Shape base, view;
  Dims base_strides, strides;
  SymInt offset;          // in elements of the view, from the base's first one
  bool row_major = true;  // the base is

  ViewPlace(const Tensor& view, const Tensor& base);
  Tensor in_memory(const Tensor& whole) const;
  Tensor from_memory(const Tensor& memory) const;
  Tensor part(const Tensor& memory) const;  // what the view sees
  Tensor with_part(const Tensor& memory, const Tensor& part) const;
};

// Whether a change of the view is one of its base to the gradients: not where the bits mean something else.
bool shares_history(const Tensor& view);

[[noreturn]] void fail_released();  // what a node saved has been freed

// How a view came about decides whether it may be changed in place.
enum class ViewOrigin : uint8_t { plain, one_of_many, no_grad, inference };

// To be called for a view that nothing recorded: it was made in a no_grad block, or is one of many. In-place
// changes that are to be recorded are refused then, as where its base requires gradients.
void mark_view(const Tensor& view, bool one_of_many);

// The gradient after the hook; throws if the hook changed its size or type.
Tensor run_hook(const Hook& hook, const Tensor& grad);
// "Exp" for "ExpBackward0": how messages name what was recorded.
std::string function_name(const GradNode& node);
// Whether the backward pass that runs on this thread will come to the node, and the number of the pass.
bool will_run(const GradNode& node);
int64_t current_pass();  // -1 outside of backward

Edge grad_edge(const Tensor& t);  // where the gradient of t goes; makes the accumulator of a leaf
void set_history(const Tensor& t, std::shared_ptr<GradNode> node, uint32_t output);
bool needs_grad(const Tensor& t);
Shape shape_of(const Tensor& t);
Tensor fit_gradient(Tensor grad, const Shape& wanted);  // sums what broadcasting added, casts

}  // namespace autograd

struct AutogradMeta {
  std::shared_ptr<autograd::GradNode> node;  // null for a leaf
  uint32_t output = 0;
  std::weak_ptr<autograd::GradNode> accumulator;  // of a leaf
  Tensor grad;
  uint32_t version = 0;  // of a view: the storage's version that `node` speaks of
  bool retains_grad = false;
  std::weak_ptr<autograd::GradNode> retained_by;  // the node that knows of it
  bool inference = false;
  autograd::ViewOrigin origin = autograd::ViewOrigin::plain;
  std::vector<std::pair<int, autograd::Hook>> hooks;  // of a leaf
  std::vector<std::pair<int, tern::Function<void(const Tensor&)>>> post_hooks;
  int next_hook = 0;
};
AutogradMeta& autograd_meta(const Tensor& t);  // made when missing

}  // namespace tern
