#include "tern/autograd/history.h"

#include <algorithm>
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
      if (auto node = m->retained_by.lock())
        for (auto& [output, target] : node->retained)
          if (target == m) target = nullptr;
      delete m;
    };
  }
  return *t->autograd;
}

namespace autograd {
namespace {

thread_local uint64_t next_sequence = 0;
thread_local std::vector<std::shared_ptr<const SavedTensorHooks>> saved_hooks;
thread_local std::string hooks_forbidden;  // why

// Where the gradients of a leaf end.
struct Accumulate : GradNode {
  Tensor leaf;  // shares the body: a leaf that somebody still holds

  std::vector<Tensor> apply(Span<const Tensor> grads) override {
    Tensor g = grads[0];
    if (!g.defined() || !(leaf->rungs & rung_autograd)) return {};  // it may have been detached since
    AutogradMeta& meta = autograd_meta(leaf);
    for (auto& [number, hook] : meta.hooks) g = run_hook(hook, g);
    if (!meta.grad.defined()) {
      // Our own copy unless nobody else can see this one.
      meta.grad = thread_state.grad_enabled ? g : g.detach();
      if (!thread_state.grad_enabled &&
          (g->refs.load() > 2 || g.storage().use_count() > 2 || !g.is_contiguous()))
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
  Tensor variable() const override { return leaf; }
};

// The gradient of a view that follows its base: made when an in-place change gave the base a new history.
struct FollowBase : GradNode {
  ViewPlace place;

  FollowBase(const Tensor& view, const Tensor& base) : place(view, base) {}
  std::vector<Tensor> apply(Span<const Tensor> grads) override {
    Tensor memory = place.in_memory(tern::zeros(place.base.sizes, place.base.dtype));
    return {place.from_memory(place.with_part(memory, grads[0]))};
  }
  std::string name() const override { return "AsStridedBackward0"; }
};

}  // namespace

Anomaly anomaly;

GradNode::GradNode() : sequence(next_sequence++) {
  if (anomaly.on && anomaly.trace) more().trace = anomaly.trace();
}

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

void push_saved_tensor_hooks(SavedTensorHooks hooks) {
  if (!hooks_forbidden.empty()) fail(hooks_forbidden);
  saved_hooks.push_back(std::make_shared<const SavedTensorHooks>(std::move(hooks)));
}
void pop_saved_tensor_hooks() {
  if (saved_hooks.empty()) fail("saved tensor hooks: there are none to be taken off");
  saved_hooks.pop_back();
}
std::string forbid_saved_tensor_hooks(std::string message) {
  if (!message.empty() && !saved_hooks.empty()) fail(message);
  return std::exchange(hooks_forbidden, std::move(message));
}

SavedTensor::SavedTensor(const Tensor& t, bool output_of_node) {
  present = t.defined();
  if (!present) return;
  if (is_inference(t))
    fail(
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode "
        "in computation tracked by autograd. To work around this, you can make a clone to get a normal "
        "tensor "
        "and use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.");
  version = t.version();
  if (!saved_hooks.empty() && !t.is_fake()) {
    is_output = output_of_node;
    output = t->autograd ? t->autograd->output : 0;
    packed = std::make_shared<PackedTensor>();
    packed->hooks = saved_hooks.back();
    if (!is_output) packed->edge = grad_edge(t);
    GradMode no_grad(false);
    packed->value = packed->hooks->pack(t.shallow_copy());
    if (t.version() != version)
      fail(
          "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
          "can not be modified by in-place operations as this can lead to unexpected side-effects. Please "
          "open an issue if you need to perform in-place operations on the input to a pack hook.");
    return;
  }
  is_output = output_of_node;
  if (is_output) {
    data = t.shallow_copy();
    output = t->autograd ? t->autograd->output : 0;
  } else {
    data = t;
    has_history = t->autograd && t->autograd->node;
  }
}

void fail_released() {
  fail(
      "Trying to backward through the graph a second time (or directly access saved tensors after they "
      "have already "
      "been freed). Saved intermediate values of the graph are freed when you call .backward() or "
      "autograd.grad(). "
      "Specify retain_graph=True if you need to backward through the graph a second time or if you need to "
      "access "
      "saved tensors after calling backward.");
}

Tensor SavedTensor::unpack(const std::shared_ptr<GradNode>& self) const {
  if (!present) return {};
  if (packed) {
    Tensor t;
    {
      GradMode no_grad(false);
      t = packed->hooks->unpack(packed->value);
    }
    if (!t.defined()) fail("saved tensor hooks: unpack gave no tensor");
    t = t.shallow_copy();
    if (is_output && self)
      set_history(t, self, output);
    else if (packed->edge.node)
      set_history(t, packed->edge.node, packed->edge.input);
    return t;
  }
  if (!data.defined()) fail_released();
  if (has_history && !self && !(data->autograd && data->autograd->node))
    fail(
        "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_()."
        "This is not supported, please use out-of-place `.detach()` instead");
  if (data.version() != version) {
    std::string producer_name;
    if (is_output && self)
      producer_name = function_name(*self);
    else if (!data.is_leaf())
      producer_name = function_name(*grad_edge(data).node);
    failf(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        "[torch.{}Tensor {}]{} is at version {}; expected version {} instead. Hint: {}",
        script_name(data.dtype()), str(data.sizes()),
        producer_name.empty() ? "" : fmt::format(", which is output {} of {},", output, producer_name),
        data.version(), version,
        anomaly.on
            ? "the backtrace further above shows the operation that failed to compute its gradient. The "
              "variable in question was changed in there or anywhere later. Good luck!"
            : "enable anomaly detection to find the operation that failed to compute its gradient, with "
              "torch.autograd.set_detect_anomaly(True, check_nan=False).");
  }
  if (!is_output || !self) return data;
  Tensor t = data.shallow_copy();
  set_history(t, self, output);
  return t;
}

namespace {
// A tensor keeps the gradient of what it is now, also after a change in place.
void retain_here(AutogradMeta& meta) {
  if (auto before = meta.retained_by.lock())
    std::erase_if(before->retained, [&](const auto& entry) { return entry.second == &meta; });
  meta.node->retained.push_back({meta.output, &meta});
  meta.retained_by = meta.node;
}
}  // namespace

void set_history(const Tensor& t, std::shared_ptr<GradNode> node, uint32_t output) {
  AutogradMeta& meta = autograd_meta(t);
  meta.node = std::move(node);
  meta.output = output;
  meta.version = t.version();
  t->rungs |= rung_autograd;
  if (meta.retains_grad) retain_here(meta);
}

Shape shape_of(const Tensor& t) {
  Shape s(t.sizes(), t.dtype());
  s.device = t.device();
  return s;
}

namespace {
bool is_empty(Span<const SymInt> sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](SymInt n) { return surely_eq(n, 0); });
}
}  // namespace

ViewPlace::ViewPlace(const Tensor& of, const Tensor& whole)
    : base(shape_of(whole)),
      view(shape_of(of)),
      base_strides(whole.strides()),
      strides(of.strides()),
      offset(of.offset() - whole.offset()),
      row_major(whole.is_contiguous()) {
  if (whole.is_complex() && !of.is_complex()) offset = of.offset() - whole.offset() * 2;
  if (!whole.is_complex() && of.is_complex()) offset = of.offset() - floor_div(whole.offset(), 2);
}

Tensor ViewPlace::in_memory(const Tensor& whole) const {
  Tensor memory = whole;
  if (!row_major) {
    SymInt extent = 1;
    for (size_t d = 0; d < base_strides.size(); ++d) extent += (base.sizes[d] - 1) * base_strides[d];
    memory = as_strided_scatter(zeros({extent}, whole.dtype(), {}, whole.device()), whole, base.sizes,
                                base_strides, 0);
  } else if (!whole.is_contiguous() || !surely_eq(whole.offset(), 0)) {
    memory = clone(whole, MemoryFormat::contiguous);
  }
  if (is_complex(base.dtype) == is_complex(view.dtype)) return memory;
  return is_complex(base.dtype) ? view_as_real(memory) : view_as_complex(reshape(memory, {-1, 2}));
}

Tensor ViewPlace::from_memory(const Tensor& memory) const {
  Tensor whole = memory;
  if (is_complex(base.dtype) != is_complex(view.dtype))
    whole = is_complex(base.dtype) ? view_as_complex(memory) : view_as_real(memory);
  if (!row_major) return as_strided(reshape(whole, {-1}), base.sizes, base_strides, 0);
  return is_complex(view.dtype) && !is_complex(base.dtype) ? reshape(whole, base.sizes) : whole;
}

Tensor ViewPlace::part(const Tensor& memory) const {
  return is_empty(view.sizes) ? zeros(view.sizes, memory.dtype(), {}, memory.device())
                              : as_strided(memory, view.sizes, strides, offset);
}

Tensor ViewPlace::with_part(const Tensor& memory, const Tensor& part) const {
  return is_empty(view.sizes) ? memory : as_strided_scatter(memory, part, view.sizes, strides, offset);
}

bool shares_history(const Tensor& view) {
  if (!view->base) return false;
  const DType base = view->base->dtype, own = view.dtype();
  return base == own || (is_complex(base) != is_complex(own) && to_real(base) == to_real(own));
}

namespace {
// The base that speaks for this view, when an in-place change has overtaken what the view itself recorded.
Tensor newer_base(const Tensor& t) {
  if (!t->storage->rungs || !shares_history(t)) return {};
  if (t->autograd && t->autograd->version == t.version()) return {};
  t->base->refs.add();
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
    if (t->autograd && !t->autograd->node &&
        (t->autograd->origin == ViewOrigin::no_grad || t->autograd->origin == ViewOrigin::inference)) {
      const bool inference = t->autograd->origin == ViewOrigin::inference;
      failf(
          "A view was created in {} mode and its base or another view of its base has been modified inplace "
          "{}. "
          "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code "
          "by "
          "moving both the view and the inplace either both inside the {} block (if you don't want the "
          "inplace "
          "to be tracked) or both outside (if you want the inplace to be tracked).",
          inference ? "inference" : "no_grad", inference ? "in normal mode" : "with grad mode enabled",
          inference ? "inference_mode" : "no_grad");
    }
    if (base.is_nested())
      fail(ErrorKind::not_supported,
           "a view of a nested tensor has no gradient after the nested tensor was changed in place; make the "
           "view "
           "again");
    auto node = std::make_shared<FollowBase>(t, base);
    node->edges = {grad_edge(base)};
    node->result_shapes = {shape_of(t)};
    set_history(t, node, 0);
  }
  AutogradMeta& meta = autograd_meta(t);
  if (meta.node) return {meta.node, meta.output};
  // A view that was made without recording: it requires gradients as its base does, but none reaches the
  // base.
  if (meta.origin != ViewOrigin::plain && !t->requires_grad) return {};
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

uint32_t output_number(const Tensor& t) { return t.defined() && needs_grad(t) ? grad_edge(t).input : 0; }

std::string function_name(const GradNode& node) {
  std::string name = node.name();
  size_t end = name.find_last_not_of("0123456789") + 1;
  if (name.substr(0, end).ends_with("Backward")) name.resize(end - 8);
  return name;
}

Tensor run_hook(const Hook& hook, const Tensor& grad) {
  Tensor replaced = hook(grad);
  if (!replaced.defined()) return grad;
  bool same = replaced.dim() == grad.dim();
  for (int64_t d = 0; same && d < grad.dim(); ++d) same = replaced.sizes()[d] == grad.sizes()[d];
  if (!same)
    failf("hook has changed the size of value: from {} to {}", str(grad.sizes()), str(replaced.sizes()));
  if (replaced.dtype() != grad.dtype())
    failf("hook has changed the type of value: from {} to {}", name(grad.dtype()), name(replaced.dtype()));
  return replaced;
}

// ---- inference mode ----

namespace {
thread_local bool inferring = false;
}
bool inference_mode() { return inferring; }
void set_inference_mode(bool on) { inferring = on; }

bool is_inference(const Tensor& t) {
  if (!t.defined()) return false;
  const AutogradMeta* of_base = t->base ? t->base->autograd : nullptr;
  return (t->autograd && t->autograd->inference) || (of_base && of_base->inference);
}

void mark_view(const Tensor& view, bool one_of_many) {
  if (!view.defined() || !view->base || (one_of_many && view->autograd)) return;
  AutogradMeta& meta = autograd_meta(view);
  if (meta.origin != ViewOrigin::plain || meta.node) return;
  meta.origin = thread_state.grad_enabled && one_of_many ? ViewOrigin::one_of_many : ViewOrigin::no_grad;
  meta.version = view.version();
}

void mark_inference(const Tensor& result, const Tensor* source) {
  if (!result.defined()) return;
  if (!result->base && (!source || is_inference(*source)))
    autograd_meta(result).inference = true;
  else if (result->base && !is_inference(result))
    autograd_meta(result).origin = ViewOrigin::inference;
}

void set_data(const Tensor& target, const Tensor& source) {
  TensorBody& to = *target.body();
  const TensorBody& from = *source.body();
  if (to.requires_grad && !is_floating(from.dtype) && !is_complex(from.dtype))
    fail("data set to a tensor that requires gradients must be floating point or complex dtype");
  to.dtype = from.dtype;
  to.device = from.device;
  to.symbolic = from.symbolic;
  to.contiguous = from.contiguous;
  to.storage = from.storage;
  to.offset = from.offset;
  to.numel = from.numel;
  to.sizes = from.sizes;
  to.strides = from.strides;
  to.meaning = from.meaning;
  constexpr uint8_t of_data = rung_fake | rung_meaning;
  to.rungs = static_cast<uint8_t>((to.rungs & ~of_data) | (from.rungs & of_data));
}

}  // namespace autograd

// ---- Tensor's gradient methods ----

bool Tensor::requires_grad_through_base() const { return autograd::needs_grad(*this); }
bool Tensor::is_leaf() const {
  return !requires_grad() || !(autograd::grad_edge(*this), body_->autograd->node);
}

const Tensor& Tensor::requires_grad_(bool on) const {
  if (on && autograd::is_inference(*this) && !autograd::inference_mode())
    fail("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
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
  if (g.defined()) {
    if (g.dtype() != dtype())
      failf(
          "attempting to assign a gradient with dtype '{}' to a tensor with grad_dtype '{}'. The gradient "
          "must match the tensor's grad_dtype (defaults to the tensor's dtype).",
          name(g.dtype()), name(dtype()));
    bool fits = g.dim() == dim();
    for (int64_t d = 0; fits && d < dim(); ++d) {
      std::optional<int64_t> given = g.sizes()[d].maybe_int(), wanted = sizes()[d].maybe_int();
      fits = !given || !wanted || *given == *wanted;
    }
    if (!fits)
      failf(
          "attempting to assign a gradient of size '{}' to a tensor of size '{}'. Please ensure that the "
          "gradient and the tensor are the same size",
          tern::str(g.sizes()), tern::str(sizes()));
  }
  autograd_meta(*this).grad = g;
}

void Tensor::retain_grad() const {
  if (!requires_grad()) fail("can't retain_grad on Tensor that has requires_grad=False");
  if (is_leaf()) return;
  AutogradMeta& meta = autograd_meta(*this);
  if (meta.retains_grad) return;
  meta.retains_grad = true;
  autograd::retain_here(meta);
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
