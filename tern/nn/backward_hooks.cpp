// Hooks that see a module's gradients: the arguments and the outputs of a call pass through functions that
// change nothing and whose backward tells the hooks.
#include "tern/autograd/autograd.h"
#include "tern/nn/layer.h"
#include "tern/tree/tree.h"

namespace tern::nn::details {
namespace {

struct CallBox : Box {
  Module module;
  Value grad_outputs;
  explicit CallBox(const Module& m) : module(m) {}
};
CallBox& box_of(const Value& v) { return *static_cast<CallBox*>(v.box()); }

Value gradients(Span<const Tensor> grads) {
  std::vector<Value> items;
  for (const Tensor& g : grads) items.emplace_back(g);
  return Value::tuple(std::move(items));
}

std::vector<Tensor> handles(Span<const Tensor> x) {
  std::vector<Tensor> out;
  for (const Tensor& t : x) out.push_back(t.shallow_copy());
  return out;
}

struct Outputs : autograd::Function<Outputs> {
  static std::vector<Tensor> forward(autograd::Context& c, Span<const Tensor> x) {
    c.materialize_grads = false;
    return handles(x);
  }
  static std::vector<Tensor> backward(autograd::Context& c, Span<const Tensor> g) {
    box_of(c.values[0]).grad_outputs = gradients(g);
    return g.vec();
  }
};
struct Arguments : autograd::Function<Arguments> {
  static std::vector<Tensor> forward(autograd::Context& c, Span<const Tensor> x) {
    c.materialize_grads = false;
    return handles(x);
  }
  static std::vector<Tensor> backward(autograd::Context& c, Span<const Tensor> g) {
    CallBox& box = box_of(c.values[0]);
    Value changed = box.module.run_backward_hooks(gradients(g), box.grad_outputs);
    std::vector<Tensor> out;
    for (const Value& v : changed.items()) out.push_back(v.is_none() ? Tensor() : v.tensor());
    return out;
  }
};

template <class F>
Value pass_through(const Value& tree, const Value& box) {
  std::vector<Tensor> tensors = tree::tensors(tree);
  if (tensors.empty()) return tree;
  std::vector<Tensor> passed = F::apply(tensors, {box});
  size_t at = 0;
  return tree::map(tree,
                   [&](const Value& leaf) -> Value { return leaf.is_tensor() ? Value(passed[at++]) : leaf; });
}

}  // namespace

BackwardCall::BackwardCall(const Module& module) : box_(Value::object(new CallBox(module))) {}
Value BackwardCall::arguments(const Value& args) { return pass_through<Arguments>(args, box_); }
Value BackwardCall::outputs(const Value& output) { return pass_through<Outputs>(output, box_); }

}  // namespace tern::nn::details
