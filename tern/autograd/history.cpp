#include "tern/autograd/history.h"

#include <atomic>

#include "tern/base/format.h"
#include "tern/dispatch/grad_context.h"
#include "tern/dispatch/ladder.h"
#include "tern/ops.h"
#include "tern/ops/formulas.h"

namespace tern {

AutogradMeta& autograd_meta(const Tensor& t) {
  if (!t->autograd) {
    t->autograd = new AutogradMeta;
    t->free_autograd = [](AutogradMeta* m) {
      if (m->retains_grad && m->node)
        for (auto& [output, target] : m->node->retained)
          if (target == m) target = nullptr;
      delete m;
    };
  }
  return *t->autograd;
}

namespace autograd {
namespace {

thread_local uint64_t next_sequence = 0;

// Where the gradients of a leaf end.
struct Accumulate : GradNode {
  Tensor leaf;  // shares the body: a leaf that somebody still holds

  std::vector<Tensor> apply(Span<const Tensor> grads) override {
    Tensor g = grads[0];
    if (!g.defined()) return {};
    AutogradMeta& meta = autograd_meta(leaf);
    for (auto& [number, hook] : meta.hooks)
      if (Tensor replaced = hook(g); replaced.defined()) g = replaced;
    if (!meta.grad.defined()) {
      // Our own copy unless nobody else can see this one.
      meta.grad = thread_state.grad_enabled ? g : g.detach();
      if (!thread_state.grad_enabled && (g->refs > 2 || g.storage().use_count() > 2 || !g.is_contiguous()))
        meta.grad = tern::clone(meta.grad);
    } else if (thread_state.grad_enabled) {
      meta.grad = meta.grad + g;
    } else {
      meta.grad.add_(g);
    }
    for (auto& [number, hook] : meta.post_hooks) hook(leaf);
    return {};
  }
  std::string name() const override { return "AccumulateGrad"; }
};

// The gradient of a view that follows its base: made when an in-place change gave the base a new history.
struct FollowBase : GradNode {
  Shape base;
  Dims sizes, strides;
  SymInt offset;

  std::vector<Tensor> apply(Span<const Tensor> grads) override {
    Tensor full = tern::zeros(base.sizes, base.dtype);
    Tensor slot = tern::as_strided_scatter(full, grads[0], sizes, strides, offset);
    return {slot};
  }
  std::string name() const override { return "AsStridedBackward0"; }
};

}  // namespace

GradNode::GradNode() : sequence(next_sequence++) {}

// Long chains are taken apart one by one: a recursive release would overflow the stack.
GradNode::~GradNode() {
  thread_local std::vector<std::shared_ptr<GradNode>>* pending = nullptr;
  if (pending) {
    for (Edge& e : edges)
      if (e.node && e.node.use_count() == 1) pending->push_back(std::move(e.node));
    return;
  }
  std::vector<std::shared_ptr<GradNode>> list;
  pending = &list;
  for (Edge& e : edges)
    if (e.node && e.node.use_count() == 1) list.push_back(std::move(e.node));
  while (!list.empty()) {
    std::shared_ptr<GradNode> node = std::move(list.back());
    list.pop_back();
    node.reset();
  }
  pending = nullptr;
}

SavedTensor::SavedTensor(const Tensor& t, bool output_of_node) {
  present = t.defined();
  if (!present) return;
  version = t.version();
  is_output = output_of_node;
  if (is_output) {
    data = t.shallow_copy();
    output = t->autograd ? t->autograd->output : 0;
  } else {
    data = t;
  }
}

Tensor SavedTensor::unpack(const std::shared_ptr<GradNode>& self) const {
  if (!present) return {};
  if (!data.defined())
    fail(
        "Trying to backward through the graph a second time (or directly access saved tensors after they "
        "have already "
        "been freed). Saved intermediate values of the graph are freed when you call .backward() or "
        "autograd.grad(). "
        "Specify retain_graph=True if you need to backward through the graph a second time or if you need to "
        "access "
        "saved tensors after calling backward.");
  if (data.version() != version) {
    std::string producer_name = is_output && self ? self->name() : grad_fn_name(data);
    failf(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        "[torch.{}Tensor "
        "{}]{}, is at version {}; expected version {} instead. Hint: the backtrace further above shows the "
        "operation that "
        "failed to compute its gradient. The variable in question was changed in there or anywhere later. "
        "Good luck!",
        script_name(data.dtype()), str(data.sizes()),
        producer_name.empty() ? "" : fmt::format(", which is output {} of {}", output, producer_name),
        data.version(), version);
  }
  if (!is_output || !self) return data;
  Tensor t = data.shallow_copy();
  set_history(t, self, output);
  return t;
}

void set_history(const Tensor& t, std::shared_ptr<GradNode> node, uint32_t output) {
  AutogradMeta& meta = autograd_meta(t);
  meta.node = std::move(node);
  meta.output = output;
  meta.version = t.version();
  t->rungs |= rung_autograd;
}

Shape shape_of(const Tensor& t) {
  Shape s(t.sizes(), t.dtype());
  s.device = t.device();
  return s;
}

namespace {
// The base that speaks for this view, when an in-place change has overtaken what the view itself recorded.
Tensor newer_base(const Tensor& t) {
  if (!t->storage->rungs || !t->base) return {};
  if (t->autograd && t->autograd->version == t.version()) return {};
  t->base->refs.fetch_add(1, std::memory_order_relaxed);
  return Tensor::adopt(t->base);
}
}  // namespace

bool needs_grad(const Tensor& t) {
  if (!t.defined()) return false;
  if (t->rungs & rung_autograd) return true;
  if (Tensor base = newer_base(t); base.defined()) return base->rungs & rung_autograd;
  return false;
}

Edge grad_edge(const Tensor& t) {
  if (!needs_grad(t)) return {};
  if (Tensor base = newer_base(t); base.defined() && (base->rungs & rung_autograd)) {
    auto node = std::make_shared<FollowBase>();
    node->base = shape_of(base);
    node->sizes = Dims(t.sizes());
    node->strides = Dims(t.strides());
    node->offset = t.offset() - base.offset();
    node->edges = {grad_edge(base)};
    node->result_shapes = {shape_of(t)};
    set_history(t, node, 0);
  }
  AutogradMeta& meta = autograd_meta(t);
  if (meta.node) return {meta.node, meta.output};
  std::shared_ptr<GradNode> accumulator = meta.accumulator.lock();
  if (!accumulator) {
    auto fresh = std::make_shared<Accumulate>();
    fresh->leaf = t;
    fresh->result_shapes = {shape_of(t)};
    fresh->sequence = UINT64_MAX;  // as soon as it is ready
    meta.accumulator = fresh;
    accumulator = fresh;
  }
  return {accumulator, 0};
}

Tensor fit_gradient(Tensor grad, const Shape& wanted) {
  if (!grad.defined()) return grad;
  bool same = grad.dim() == static_cast<int64_t>(wanted.sizes.size());
  for (int64_t d = 0; same && d < grad.dim(); ++d) same = surely_eq(grad.sizes()[d], wanted.sizes[d]);
  if (!same) {
    if (grad.dim() < static_cast<int64_t>(wanted.sizes.size()))
      failf("a backward gave a gradient of shape {} where {} is needed", str(grad.sizes()),
            str(wanted.sizes));
    grad = sum_to(grad, wanted.sizes);
  }
  if (grad.dtype() != wanted.dtype) {
    if (grad.is_complex() && !is_complex(wanted.dtype)) grad = tern::real(grad);
    if (grad.dtype() != wanted.dtype) grad = grad.to(wanted.dtype);
  }
  return grad;
}

std::string grad_fn_name(const Tensor& t) {
  if (!t.defined() || !needs_grad(t)) return "";
  Edge e = grad_edge(t);
  return t->autograd && t->autograd->node ? e.node->name() : "";
}

}  // namespace autograd

// ---- Tensor's gradient methods ----

bool Tensor::requires_grad_through_base() const { return autograd::needs_grad(*this); }
bool Tensor::is_leaf() const {
  return !requires_grad() || !(autograd::grad_edge(*this), body_->autograd->node);
}

const Tensor& Tensor::requires_grad_(bool on) const {
  if (on && !is_floating_point() && !is_complex())
    fail("only Tensors of floating point dtype can require gradients");
  if (!on && !is_leaf())
    fail(
        "you can only change requires_grad flags of leaf variables. If you want to use a computed variable "
        "in a "
        "subgraph that doesn't require differentiation use var_no_grad = var.detach().");
  body_->requires_grad = on;
  if (on)
    body_->rungs |= rung_autograd;
  else
    body_->rungs &= ~rung_autograd;
  return *this;
}

Tensor Tensor::grad() const { return body_->autograd ? body_->autograd->grad : Tensor(); }

void Tensor::set_grad(const Tensor& g) const {
  if (!g.defined() && !body_->autograd) return;
  if (g.defined() && (g.dim() != dim() || g.dtype() != dtype()))
    failf("set_grad: the gradient {} of {} does not fit the tensor {} of {}", tern::str(g.sizes()),
          name(g.dtype()), tern::str(sizes()), name(dtype()));
  autograd_meta(*this).grad = g;
}

void Tensor::retain_grad() const {
  if (!requires_grad()) fail("can't retain_grad on Tensor that has requires_grad=False");
  if (is_leaf()) return;
  AutogradMeta& meta = autograd_meta(*this);
  if (meta.retains_grad) return;
  meta.retains_grad = true;
  meta.node->retained.push_back({meta.output, &meta});
}

void Tensor::backward() const { backward(Tensor()); }
void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  autograd::backward(Span<const Tensor>(this, 1), Span<const Tensor>(&gradient, 1),
                     retain_graph || create_graph, create_graph);
}

Tensor GradContext::grad(int i) const {
  if (incoming[i].defined()) return incoming[i];
  return tern::zeros(result_shapes[i].sizes, result_shapes[i].dtype);
}

}  // namespace tern
