// Functions with a backward of their own.
#include <algorithm>
#include <memory>

#include "tern/autograd/history.h"
#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/ops.h"

namespace tern::autograd {

struct CustomNode : GradNode, std::enable_shared_from_this<CustomNode> {
  Context context;
  std::string label;
  std::vector<Tensor> (*backward)(Context&, Span<const Tensor>) = nullptr;

  std::vector<Tensor> apply(Span<const Tensor> grads) override {
    std::vector<Tensor> given = grads.vec();
    if (context.materialize_grads)
      for (size_t i = 0; i < given.size(); ++i)
        if (!given[i].defined()) given[i] = zeros(result_shapes[i].sizes, result_shapes[i].dtype);
    context.node_ = this;
    std::vector<Tensor> result = backward(context, given);
    if (result.size() != edges.size())
      failf("function {} returned an incorrect number of gradients (expected {}, got {})", name(),
            edges.size(), result.size());
    return result;
  }
  std::string name() const override { return label + "Backward"; }
  void release() override {
    for (SavedTensor& t : context.saved_) t.release();
  }
};

Context::Context() = default;
Context::~Context() = default;
void Context::save(Span<const Tensor> tensors) { to_save_ = tensors.vec(); }
void Context::mark_non_differentiable(const Tensor& output) { non_differentiable.push_back(output); }
void Context::mark_dirty(const Tensor& input) { dirty.push_back(input); }
size_t Context::saved_count() const { return saved_.size(); }
Tensor Context::saved(size_t i) const {
  if (i >= saved_.size()) failf(ErrorKind::index, "saved({}): only {} tensors were saved", i, saved_.size());
  return saved_[i].unpack(node_ ? node_->shared_from_this() : nullptr);
}

namespace {
// "static std::vector<...> Function<F>::apply(...) [with F = ns::Cube; ...]" -> "Cube"
std::string short_name(std::string_view text) {
  size_t at = text.find("F = ");
  if (at == std::string_view::npos) return std::string(text);
  text = text.substr(at + 4);
  text = text.substr(0, text.find_first_of(";],"));
  if (size_t colon = text.rfind("::"); colon != std::string_view::npos) text = text.substr(colon + 2);
  return std::string(text);
}
}  // namespace

namespace {
thread_local ApplyRecorder* apply_recorder = nullptr;
}
ApplyRecorder* record_applies(ApplyRecorder* recorder) { return std::exchange(apply_recorder, recorder); }

const Tensor& detach_(const Tensor& t) {
  if (!t.defined()) fail("detach_: the tensor is undefined");
  if (t->base)
    fail(
        "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) "
        "for training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and "
        "hence detach_() cannot be called on these gradients. To fix this error, please refer to the "
        "Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution.");
  if (apply_recorder && (thread_state.active & ~thread_state.excluded & rung_record))
    apply_recorder->detached(t);
  if (t->autograd) t->autograd->node.reset();
  t->requires_grad = false;
  t->rungs &= static_cast<uint8_t>(~rung_autograd);
  return t;
}

std::vector<Tensor> apply_custom(std::string_view name, Span<const Tensor> inputs, CustomFunction forward,
                                 CustomFunction backward, const std::vector<Value>& values) {
  CustomCall call{short_name(name), forward, backward, values};
  if (apply_recorder && (thread_state.active & ~thread_state.excluded & rung_record))
    return apply_recorder->apply(call, inputs);
  return call(inputs);
}

std::vector<Tensor> CustomCall::operator()(Span<const Tensor> inputs, bool* in_place) const {
  auto node = std::make_shared<CustomNode>();
  node->label = name;
  node->backward = backward;
  Context& context = node->context;
  context.values = values;
  bool any = false;
  for (const Tensor& t : inputs) {
    bool needs = thread_state.grad_enabled && !inference_mode() && needs_grad(t);
    context.needs.push_back(needs);
    any |= needs;
    node->edges.push_back(needs ? grad_edge(t) : Edge{});
  }
  std::vector<Tensor> outputs;
  {
    NoGrad no_grad;
    outputs = forward(context, inputs);
  }
  auto is_one_of = [](const std::vector<Tensor>& list, const Tensor& t) {
    return std::any_of(list.begin(), list.end(), [&](const Tensor& o) { return o.is_same(t); });
  };
  if (any)
    for (const Tensor& t : context.dirty)
      if (needs_grad(t) && t.is_leaf())
        fail("a leaf Variable that requires grad has been used in an in-place operation.");
  std::vector<bool> is_output;
  for (const Tensor& t : context.to_save_) is_output.push_back(is_one_of(outputs, t));
  if (any) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      Tensor& t = outputs[i];
      node->result_shapes.push_back(t.defined() ? shape_of(t) : Shape());
      if (!t.defined()) continue;
      // An input that is returned as it is becomes a new tensor, so that the input keeps its own history.
      bool is_input =
          std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& in) { return in.is_same(t); });
      if (is_input && !is_one_of(context.dirty, t)) t = t.shallow_copy();
      if (!is_one_of(context.non_differentiable, t) && (t.is_floating_point() || t.is_complex()))
        set_history(t, node, static_cast<uint32_t>(i));
    }
    for (size_t i = 0; i < context.to_save_.size(); ++i)
      context.saved_.emplace_back(context.to_save_[i], static_cast<bool>(is_output[i]));
  }
  if (in_place) *in_place = !context.dirty.empty();
  // Outputs among them own the node, which owns the context: held any longer they would never end.
  context.to_save_.clear();
  context.dirty.clear();
  context.non_differentiable.clear();
  return outputs;
}

}  // namespace tern::autograd
