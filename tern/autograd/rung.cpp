// The autograd rung: saves what the formulas name, goes down, links the history of what comes back.
#include <algorithm>
#include <complex>
#include <memory>

#include "tern/autograd/history.h"
#include "tern/base/format.h"
#include "tern/dispatch/grad_context.h"
#include "tern/dispatch/ladder.h"
#include "tern/dispatch/op_flags.h"
#include "tern/ops.h"
#include "tern/tensor/nesting.h"

namespace tern {
namespace autograd {
namespace {

// An argument kept for backward, turned into an Arg again when the formula runs.
struct SavedArg {
  SavedTensor tensor;
  std::vector<SavedTensor> tensors;
  Value value;
  ArgKind kind = ArgKind::none;
  // Unpacked storage for list arguments.
  std::vector<Tensor> tensor_list;
  Dims ints;
  std::vector<double> floats;
  std::vector<Scalar> scalars;
  std::unique_ptr<bool[]> bools;
  std::complex<double> number;
  Tensor unpacked;
};

Tensor without_data(const Tensor& t) {
  if (t.is_nested())
    return nested_over(make_tensor({SymInt(0)}, t.dtype(), t.device(), true), nesting_ptr(t));
  Tensor meta = make_tensor(t.sizes(), t.strides(), t.dtype(), t.device(), true);
  return meta;
}

// What the tensor is now, as a result of what made it.
Tensor copy_with_history(const Tensor& t) {
  NoGrad no_grad;
  Tensor copy = tern::clone(t.shallow_copy());
  if (Edge edge = grad_edge(t); edge.node) set_history(copy, edge.node, edge.input);
  return copy;
}

struct OpNode : GradNode, std::enable_shared_from_this<OpNode> {
  const Op* op;
  std::vector<SavedArg> args;
  std::vector<SavedTensor> results;
  std::vector<int> edge_arg;   // which argument an edge is of
  std::vector<int> edge_item;  // which entry of a list argument; -1 for a single tensor
  uint64_t wanted = 0;

  void save(const Op& the_op, const Arg* a, uint64_t whole, uint64_t meta) {
    op = &the_op;
    args.resize(the_op.arity);
    for (int i = 0; i < the_op.arity; ++i) {
      SavedArg& s = args[i];
      bool keep = whole >> i & 1, keep_meta = meta >> i & 1;
      s.kind = a[i].kind;
      switch (a[i].kind) {
        case ArgKind::tensor:
          if (!a[i].tensor_ptr->defined())
            s.kind = ArgKind::none;
          else if (keep) {
            // An in-place operator is about to overwrite its first argument.
            bool overwritten = i == 0 && the_op.is(op_inplace);
            s.tensor = SavedTensor(overwritten ? copy_with_history(*a[i].tensor_ptr) : *a[i].tensor_ptr);
          } else if (keep_meta)
            s.tensor = SavedTensor(without_data(*a[i].tensor_ptr));
          break;
        case ArgKind::tensors:
          if (keep)
            for (const Tensor& t : a[i].tensors()) s.tensors.emplace_back(t);
          else if (keep_meta)
            for (const Tensor& t : a[i].tensors()) s.tensors.emplace_back(t.defined() ? without_data(t) : t);
          break;
        case ArgKind::ints:
          s.ints = Dims(a[i].syms());
          break;
        case ArgKind::floats:
          s.floats = a[i].floats().vec();
          break;
        case ArgKind::scalars:
          s.scalars = a[i].scalars().vec();
          break;
        case ArgKind::bools:
          s.bools.reset(new bool[a[i].count + 1]);
          std::copy_n(a[i].bools_ptr, a[i].count, s.bools.get());
          s.value = Value(static_cast<int64_t>(a[i].count));
          break;
        case ArgKind::complex_:
          s.number = {a[i].complex_ptr[0], a[i].complex_ptr[1]};
          break;
        case ArgKind::generator:
          s.kind = ArgKind::none;
          break;
        case ArgKind::none:
          break;
        default:
          s.value = a[i].to_value();
      }
    }
  }

  Arg unpack(SavedArg& s) {
    switch (s.kind) {
      case ArgKind::tensor:
        s.unpacked = s.tensor.unpack(nullptr);
        return Arg(s.unpacked);
      case ArgKind::tensors:
        s.tensor_list.clear();
        for (const SavedTensor& t : s.tensors) s.tensor_list.push_back(t.unpack(nullptr));
        return Arg(Span<const Tensor>(s.tensor_list));
      case ArgKind::ints:
        return Arg(Span<const SymInt>(s.ints));
      case ArgKind::floats:
        return Arg(Span<const double>(s.floats));
      case ArgKind::scalars:
        return Arg(Span<const Scalar>(s.scalars));
      case ArgKind::bools:
        return Arg(Span<const bool>(s.bools.get(), static_cast<size_t>(s.value.to_int())));
      case ArgKind::complex_:
        return Arg(s.number);
      case ArgKind::int_:
        return Arg(s.value.sym());
      case ArgKind::float_:
        return Arg(s.value.to_double());
      case ArgKind::bool_:
        return Arg(s.value.to_bool());
      case ArgKind::string:
        return Arg(std::string_view(s.value.string()));
      case ArgKind::device:
        return Arg(s.value.device());
      case ArgKind::value:
        return Arg(&s.value);
      default:
        return Arg();
    }
  }

  std::vector<Tensor> apply(Span<const Tensor> grads) override {
    std::shared_ptr<GradNode> self = shared_from_this();
    std::vector<Arg> unpacked;
    for (SavedArg& s : args) unpacked.push_back(unpack(s));
    std::vector<Value> outputs;
    for (const SavedTensor& t : results) outputs.push_back(Value(t.unpack(self)));
    outputs.resize(std::max<size_t>(outputs.size(), result_shapes.size()));
    std::vector<Value> gradients(op->arity);
    GradContext context{*op, unpacked.data(), outputs.data(), grads, result_shapes, wanted, gradients.data()};
    op->grad(context);
    for (SavedArg& s : args) {
      s.unpacked = Tensor();
      s.tensor_list.clear();
    }
    std::vector<Tensor> flat(edges.size());
    for (size_t e = 0; e < edges.size(); ++e) {
      Value& g = gradients[edge_arg[e]];
      if (g.is_none()) continue;
      if (edge_item[e] < 0)
        flat[e] = g.tensor();
      else if (g.is_list())
        flat[e] = g.items()[edge_item[e]].tensor();
    }
    return flat;
  }

  std::string name() const override {
    std::string text = op->schema().name.str(), camel;
    text = text.substr(text.find("::") + 2);
    bool upper = true;
    for (char c : text) {
      if (c == '_') {
        upper = true;
        continue;
      }
      camel += upper ? static_cast<char>(toupper(c)) : c;
      upper = false;
    }
    return camel + "Backward0";
  }

  void release() override {
    for (SavedArg& s : args) {
      s.tensor.release();
      for (SavedTensor& t : s.tensors) t.release();
    }
    for (SavedTensor& t : results) t.release();
  }
};

// Stands where an operator has no derivative: the error comes when somebody asks for it.
struct NotDifferentiable : GradNode {
  std::string op_name;
  std::vector<Tensor> apply(Span<const Tensor>) override {
    failf("derivative for {} is not implemented", op_name);
  }
  std::string name() const override { return "NotImplemented"; }
};

// Stands behind a comparison in place: what self was has no part in what it is now.
struct Overwritten : GradNode {
  std::vector<Tensor> apply(Span<const Tensor> grads) override { return {zeros_like(grads[0])}; }
  std::string name() const override { return "OverwrittenBackward0"; }
};

// The history of a base after an in-place change of one of its views: the gradient outside the view passes
// through, inside it goes through the operator's own backward.
struct CopySlices : GradNode {
  std::shared_ptr<GradNode> inner;  // null after release
  ViewPlace place;

  CopySlices(std::shared_ptr<GradNode> node, const Tensor& view, const Tensor& base)
      : inner(std::move(node)), place(view, base) {}
  std::vector<Tensor> apply(Span<const Tensor> grads) override {
    if (!inner) fail_released();
    Tensor memory = place.in_memory(grads[0]);
    Tensor slice = place.part(memory);
    std::vector<Tensor> result = inner->apply(Span<const Tensor>(&slice, 1));
    result.resize(edges.size());
    // Edge 0 is the base: what the operator passes on to its first argument replaces the slice.
    Tensor through = result[0].defined() ? fit_gradient(result[0], place.view) : zeros_like(slice);
    result[0] = place.from_memory(place.with_part(memory, through));
    return result;
  }
  std::string name() const override { return "CopySlices"; }
  // A saved result of the operator leads to `inner` itself in the graph of a second derivative, where it runs
  // after this node: it keeps what it saved until then.
  void release() override { inner.reset(); }
};

bool wants_grad(const Op& op, const Arg* args, uint64_t* wanted) {
  uint64_t bits = 0;
  for (int i = 0; i < op.arity; ++i) {
    if (args[i].kind == ArgKind::tensor) {
      if (needs_grad(*args[i].tensor_ptr)) bits |= uint64_t{1} << i;
    } else if (args[i].kind == ArgKind::tensors) {
      for (const Tensor& t : args[i].tensors())
        if (needs_grad(t)) bits |= uint64_t{1} << i;
    }
  }
  *wanted = bits;
  return bits;
}

[[noreturn]] void fail_view(const Tensor& view) {
  const AutogradMeta& meta = *view->autograd;
  const bool inference = meta.origin == ViewOrigin::inference;
  const std::string made =
      inference ? "created in inference mode and is being modified inplace in normal mode."
                : "created in no_grad mode and is being modified inplace with grad mode enabled.";
  std::string text;
  if (!meta.node)
    text = "A view was " + made;
  else
    text = fmt::format("Output {} of {} is a view {}", meta.output, function_name(*meta.node),
                       meta.origin == ViewOrigin::one_of_many ? "and is being modified inplace."
                                                              : "of a view which was " + made);
  if (meta.origin == ViewOrigin::one_of_many)
    failf(
        "{} This view is the output of a function that returns multiple views. Such functions do not allow "
        "the output views to be modified inplace. You should replace the inplace operation by an "
        "out-of-place one.",
        text);
  failf(
      "{} Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code "
      "by "
      "moving both the view and the inplace either both inside the {} block (if you don't want the inplace "
      "to be tracked) or both outside (if you want the inplace to be tracked).",
      text, inference ? "inference_mode" : "no_grad");
}

void check_inplace(const Tensor& self) {
  if (self->base && self->autograd && self->autograd->origin != ViewOrigin::plain) fail_view(self);
  if (self->base) {
    TensorBody* base = self->base;
    if ((base->rungs & rung_autograd) && !(base->autograd && base->autograd->node))
      fail("a view of a leaf Variable that requires grad is being used in an in-place operation.");
  }
  if ((self->rungs & rung_autograd) && self.is_leaf())
    fail("a leaf Variable that requires grad is being used in an in-place operation.");
}

[[noreturn]] void fail_out(const Op& op) {
  std::string name = op.schema().name.str();
  failf(
      "{}(): functions with out=... arguments don't support automatic differentiation, but one of the "
      "arguments requires grad.",
      name.substr(name.find("::") + 2));
}

// What the formulas of the wanted gradients read. A user's function cannot be asked: it gets everything.
GradNeeds needs_of(const Op& op, const Arg* args, uint64_t wanted) {
  GradNeeds needs{op.saves_args, op.saves_meta};
  if (op.is(op_user) || wanted == op.differentiable) return needs;
  needs = {};
  GradContext asked{op, args, nullptr, {}, {}, wanted, nullptr, &needs};
  op.grad(asked);
  return needs;
}

void link_edges(OpNode& node, const Op& op, const Arg* args, uint64_t wanted) {
  for (int i = 0; i < op.arity; ++i) {
    if (!(op.differentiable >> i & 1)) continue;
    if (args[i].kind == ArgKind::tensor) {
      node.edges.push_back(wanted >> i & 1 ? grad_edge(*args[i].tensor_ptr) : Edge{});
      node.edge_arg.push_back(i);
      node.edge_item.push_back(-1);
    } else if (args[i].kind == ArgKind::tensors) {
      Span<const Tensor> list = args[i].tensors();
      for (size_t k = 0; k < list.size(); ++k) {
        node.edges.push_back(grad_edge(list[k]));
        node.edge_arg.push_back(i);
        node.edge_item.push_back(static_cast<int>(k));
      }
    }
  }
}

// A view made without recording requires gradients as its base does, and remembers why none will come.
void mark_unrecorded_views(const Op& op, const Value* results) {
  const ViewOrigin origin = inference_mode() ? ViewOrigin::inference : ViewOrigin::no_grad;
  auto mark = [&](const Value& v) {
    if (!v.is_tensor() || !v.tensor().defined()) return;
    const Tensor& t = v.tensor();
    if (!shares_history(t) || !(t->base->rungs & rung_autograd) || (t->rungs & rung_autograd)) return;
    AutogradMeta& meta = autograd_meta(t);
    meta.origin = origin;
    meta.version = t.version();
    t->rungs |= rung_autograd;
  };
  for (int r = 0; r < op.results; ++r) {
    if (results[r].is_list())
      for (const Value& v : results[r].items()) mark(v);
    else
      mark(results[r]);
  }
}

// What several views are made by, or what looks into a view of such an origin, may not be changed in place.
void mark_recorded_views(const Op& op, const Tensor& self, const Value* results,
                         const std::vector<Tensor>& outputs) {
  ViewOrigin origin = self->autograd ? self->autograd->origin : ViewOrigin::plain;
  if (op.results == 1 && results[0].is_list()) origin = std::max(origin, ViewOrigin::one_of_many);
  if (origin == ViewOrigin::plain) return;
  for (const Tensor& t : outputs)
    if (t.defined() && t->base) autograd_meta(t).origin = origin;
}

bool differentiable_type(const Tensor& t) { return t.is_floating_point() || t.is_complex(); }

// Gives an in-place result its history; through a view it is the base that changes.
void rebase(const Tensor& self, const std::shared_ptr<GradNode>& node) {
  if (!shares_history(self)) {
    set_history(self, node, 0);
    if (self.storage().use_count() > 1) self.storage()->rungs |= rung_autograd;
    return;
  }
  self->base->refs.add();
  Tensor base = Tensor::adopt(self->base);
  auto slices = std::make_shared<CopySlices>(node, self, base);
  slices->result_shapes = {slices->place.base};
  slices->edges = node->edges;
  Edge old = (base->rungs & rung_autograd) ? grad_edge(base) : Edge{};
  if (slices->edges.empty()) slices->edges.resize(1);
  slices->edges[0] = old;
  set_history(base, slices, 0);
  base.storage()->rungs |= rung_autograd;
  // The view itself follows its base from now on.
  if (self->autograd) self->autograd->version = self.version() - 1;
  self->rungs |= rung_autograd;
  if (!self->autograd) autograd_meta(self).version = self.version() - 1;
}

}  // namespace
}  // namespace autograd

void autograd_call(const Op& op, const Arg* args, Value* results) {
  using namespace autograd;
  static const Op* const detach = find_op(std::string_view("aten::detach_"));
  if (&op == detach) {
    results[0] = Value(autograd::detach_(*args[0].tensor_ptr));
    return;
  }
  uint64_t wanted = 0;
  const Tensor* self = op.arity && args[0].kind == ArgKind::tensor ? args[0].tensor_ptr : nullptr;
  bool mutates = op.is(op_inplace) && self;
  const bool enabled = thread_state.grad_enabled && !inference_mode();
  bool record = enabled && !op.is(op_no_grad) && wants_grad(op, args, &wanted);
  if (mutates && enabled) check_inplace(*self);
  if (mutates && record && (*self)->base && ((*self)->rungs | (*self)->base->rungs) & rung_meaning)
    failf(ErrorKind::not_supported,
          "{}: a view of a nested tensor cannot be changed in place where gradients are recorded; use the "
          "operator that gives a new tensor",
          op.qualified());
  if (record && op.is(op_out) && op.functional) {
    if (!op.functional->is(op_no_grad)) fail_out(op);
    record = false;
  }
  if (!record) {
    std::shared_ptr<GradNode> overwritten;
    if (mutates && enabled && op.is(op_no_grad) && op.functional && self->requires_grad()) {
      overwritten = std::make_shared<Overwritten>();
      overwritten->edges.push_back(grad_edge(*self));
      overwritten->result_shapes.push_back(shape_of(*self));
    }
    descend(rung_autograd, op, args, results);
    if (overwritten) rebase(*self, overwritten);
    if (!enabled && op.is(op_view) && current_pass() < 0) mark_unrecorded_views(op, results);
    return;
  }

  std::shared_ptr<GradNode> node;
  OpNode* op_node = nullptr;
  if (!op.grad) {
    auto missing = std::make_shared<NotDifferentiable>();
    missing->op_name = op.qualified();
    for (int i = 0; i < op.arity; ++i)
      if (wanted >> i & 1 && args[i].kind == ArgKind::tensor)
        missing->edges.push_back(grad_edge(*args[i].tensor_ptr));
    node = missing;
  } else if (wanted & op.differentiable) {
    auto fresh = std::make_shared<OpNode>();
    op_node = fresh.get();
    fresh->wanted = wanted & op.differentiable;
    const GradNeeds needs = needs_of(op, args, fresh->wanted);
    fresh->save(op, args, needs.whole, needs.meta);
    link_edges(*fresh, op, args, wanted);
    node = fresh;
  }
  descend(rung_autograd, op, args, results);
  if (!node) return;

  // The tensors among the results, lists included, are the node's outputs in order.
  std::vector<Tensor> outputs;
  for (int r = 0; r < op.results; ++r) {
    if (results[r].is_tensor())
      outputs.push_back(results[r].tensor());
    else if (results[r].is_list())
      for (const Value& v : results[r].items()) outputs.push_back(v.is_tensor() ? v.tensor() : Tensor());
    else
      outputs.push_back(Tensor());
  }
  for (const Tensor& t : outputs) node->result_shapes.push_back(t.defined() ? shape_of(t) : Shape());
  auto has_history = [&](size_t i) {
    return outputs[i].defined() && differentiable_type(outputs[i]) &&
           !(i < 8 && op.is(op_plain_result(static_cast<int>(i))));
  };
  if (mutates && op.is(op_geometry)) {
    set_history(*self, node, 0);  // another look at the same elements: a base has no part in it
  } else if (mutates) {
    rebase(*self, node);
  } else {
    for (size_t i = 0; i < outputs.size(); ++i)
      if (has_history(i)) set_history(outputs[i], node, static_cast<uint32_t>(i));
    if (op.is(op_view) && self) mark_recorded_views(op, *self, results, outputs);
  }
  if (op_node && op.saves_results) {
    op_node->results.resize(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i)
      if (op.saves_results >> i & 1) op_node->results[i] = SavedTensor(outputs[i], has_history(i));
  }
}

}  // namespace tern
