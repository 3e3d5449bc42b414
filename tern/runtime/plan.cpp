#include "tern/runtime/plan.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/capture/retrace.h"
#include "tern/dispatch/ladder.h"

namespace tern::runtime {
namespace {

// Any operator with a kernel: its arguments are bound once.
struct KernelStep : Step {
  const Op* op;
  std::vector<Value> values;
  std::unique_ptr<Bound> bound;
  std::vector<Tensor> out;
  void run() override { op->kernel(*op, bound->args(), Out(out.data(), out.size())); }
};

// Operators that do their work in their own way: through the ladder, then copied into place.
struct CallStep : Step {
  const Op* op;
  std::vector<Value> values;
  std::unique_ptr<Bound> bound;
  std::vector<Tensor> out;
  void run() override {
    std::vector<Value> results(out.size());
    call(*op, bound->args(), results.data());
    for (size_t i = 0; i < out.size(); ++i) {
      Value pair[] = {Value(out[i]), results[i]};
      Bound copy(get_op("aten::copy_"), pair);
      Value ignored;
      call(get_op("aten::copy_"), copy.args(), &ignored);
    }
  }
};

bool is_plannable(const ir::Block& block, std::string& why) {
  for (const ir::Node& n : block) {
    if (!n.blocks().empty())
      why = n.qualified() + " has branches";
    else if (n.op() && n.op()->is(op_dynamic))
      why = n.qualified() + " gives a size that depends on the data";
    if (!why.empty()) return false;
  }
  return true;
}

}  // namespace

// Builds a Plan: retraces the graph for its sizes, folds constants, makes steps, lays out memory.
class Planner {
 public:
  Planner(Plan& plan, const ir::Graph& graph, Span<const Binding> bindings, Span<const Value> inputs)
      : plan_(plan) {
    std::string why;
    capture::RetraceOptions options;
    options.expand = [](const Op& op) { return op.is(op_composite); };
    size_t next = 0;
    for (const Binding& b : bindings) {
      const Value& v = b.tensor.defined() ? Value(b.tensor) : inputs[next];
      options.inputs.push_back(v.is_tensor()
                                   ? Value(make_tensor(v.tensor().sizes(), planned_strides(v.tensor(), b),
                                                       v.tensor().dtype(), kCPU, true))
                                   : v);
      next += !b.tensor.defined();
    }
    capture::Retraced retraced = capture::retrace(graph, options);
    if (!retraced.mutated.empty())
      fail(ErrorKind::not_supported, "the graph cannot be planned: it writes to its inputs");
    plan_.graph_ = std::move(retraced.graph);
    if (!is_plannable(plan_.graph_->top(), why))
      fail(ErrorKind::not_supported, "the graph cannot be planned: " + why);
    bind_inputs(bindings, options.inputs);
    make_steps();
    lay_out();
  }

 private:
  static Dims planned_strides(const Tensor& t, const Binding& b) {
    return b.tensor.defined() ? Dims(t.strides()) : contiguous_strides(t.sizes());
  }

  void bind_inputs(Span<const Binding> bindings, const std::vector<Value>& fakes) {
    for (size_t i = 0; i < bindings.size(); ++i) {
      const ir::Value* v = plan_.graph_->inputs()[i];
      if (bindings[i].tensor.defined()) {
        values_[v] = bindings[i].tensor;
        if (bindings[i].is_weight) constant_.insert(bindings[i].tensor.storage().get());
        continue;
      }
      if (!fakes[i].is_tensor()) {
        values_[v] = fakes[i];
        continue;
      }
      // Stands in for what every run brings; never part of the arena.
      const Tensor& fake = fakes[i].tensor();
      Storage memory =
          Storage::borrow(nullptr, bytes_of(fake.sizes(), fake.strides(), fake.dtype()), nullptr);
      Tensor t = make_view_of(memory, fake.sizes(), fake.strides(), 0, fake.dtype());
      plan_.inputs_.push_back(t);
      outside_.insert(memory.get());
      values_[v] = t;
    }
  }

  static size_t bytes_of(Span<const SymInt> sizes, Span<const SymInt> strides, DType dtype) {
    int64_t last = 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d].as_int() == 0) return 0;
      last += (sizes[d].as_int() - 1) * strides[d].as_int();
    }
    return static_cast<size_t>((last + 1) * element_size(dtype));
  }

  Value value_of(const ir::Operand& o) const {
    if (o.is_value()) return values_.at(&o.value());
    if (o.is_list()) {
      std::vector<Value> items;
      for (const ir::Operand& item : o.list()) items.push_back(value_of(item));
      return Value::list(std::move(items));
    }
    if (o.constant().is_tensor()) constant_.insert(o.constant().tensor().storage().get());
    return o.constant();
  }

  bool all_constant(const std::vector<Value>& inputs) const {
    bool any = false;
    for (const Value& v : inputs) {
      std::vector<Value> items{v};
      if (v.is_list()) items = v.items();
      for (const Value& item : items) {
        if (!item.is_tensor()) continue;
        any = true;
        if (!constant_.count(item.tensor().storage().get())) return false;
      }
    }
    return any;
  }

  void make_steps() {
    std::unordered_set<const ir::Node*> done;
    NoGrad no_grad;
    for (const ir::Node& node : plan_.graph_->top()) {
      if (done.count(&node)) continue;
      std::vector<Value> inputs;
      for (const ir::Operand& o : node.inputs()) inputs.push_back(value_of(o));
      if (node.is("prim::ListUnpack") || node.is("prim::TupleUnpack")) {
        for (size_t i = 0; i < node.num_outputs(); ++i) values_[&node.output(i)] = inputs[0].items().at(i);
        continue;
      }
      const Op* op = node.op();
      if (!op) failf(ErrorKind::not_supported, "the graph cannot be planned: it has {}", node.qualified());
      bool foldable = !op->is(op_random | op_impure) && all_constant(inputs);
      if (op->is(op_view) || foldable) {
        Bound bound(*op, inputs);
        std::vector<Value> results(std::max<int>(op->results, 1));
        call(*op, bound.args(), results.data());
        for (size_t i = 0; i < node.num_outputs(); ++i) {
          values_[&node.output(i)] = results[i];
          if (foldable) mark_constant(results[i]);
        }
        continue;
      }
      make_step(node, inputs, done);
    }
    for (const ir::Operand& o : plan_.graph_->outputs()) {
      Value v = value_of(o);
      plan_.outputs_.push_back({v, false});
    }
  }

  void mark_constant(const Value& v) {
    if (v.is_tensor()) constant_.insert(v.tensor().storage().get());
    if (v.is_list())
      for (const Value& item : v.items()) mark_constant(item);
  }

  Tensor planned(const ir::Type& type) {
    Dims strides = type.has_strides() ? Dims(type.strides()) : contiguous_strides(type.sizes());
    Storage memory = Storage::borrow(nullptr, bytes_of(type.sizes(), strides, type.dtype()), nullptr);
    managed_.push_back(memory);
    return make_view_of(memory, type.sizes(), strides, 0, type.dtype());
  }

  // The only user of a node's result, if it is in the graph's top block and not an output.
  static const ir::Node* only_user(const ir::Node& node) {
    if (node.num_outputs() != 1 || node.output().num_uses() != 1) return nullptr;
    const ir::Node* user = (*node.output().uses().begin()).user;
    return user->is_return() ? nullptr : user;
  }

  void make_step(const ir::Node& node, const std::vector<Value>& inputs,
                 std::unordered_set<const ir::Node*>& done) {
    const Op& op = *node.op();
    std::unique_ptr<Step> step;
    std::vector<Tensor> reads;
    for (const Value& v : inputs) collect(v, reads);
    std::vector<Tensor> writes;

    std::string_view name = op.text;
    bool linear = name.starts_with("linear(") || name.starts_with("addmm(") || name.starts_with("mm(");
    bool conv = name.starts_with("convolution(");
    if (linear || conv) {
      // What follows may be fused: an activation, so far.
      const ir::Node* last = &node;
      const ir::Node* activation = nullptr;
      if (const ir::Node* user = only_user(*last); user && can_fuse_activation(*user))
        activation = last = user;
      Tensor out = planned(*last->output().type());
      NodeView view{node, inputs, out};
      step = linear ? make_linear_step(view, activation, {}) : make_conv_step(view, activation, {});
      if (step) {
        if (activation) done.insert(activation);
        values_[&last->output()] = out;
        writes.push_back(out);
      } else {
        managed_.pop_back();
      }
    }
    if (!step) {
      for (ir::Value* v : node.outputs()) {
        if (!v->type()->is_tensor())
          failf(ErrorKind::not_supported, "the graph cannot be planned: {} gives a {}", node.qualified(),
                v->type()->str());
        writes.push_back(planned(*v->type()));
        values_[v] = writes.back();
      }
      if (op.is(op_pointwise)) step = make_pointwise_step({node, inputs, writes[0]});
    }
    if (!step && op.kernel && !op.functional) {
      auto s = std::make_unique<KernelStep>();
      s->op = &op;
      s->values = inputs;
      s->bound = std::make_unique<Bound>(op, s->values);
      s->out = writes;
      step = std::move(s);
    } else if (!step) {
      auto s = std::make_unique<CallStep>();
      s->op = &op;
      s->values = inputs;
      s->bound = std::make_unique<Bound>(op, s->values);
      s->out = writes;
      step = std::move(s);
    }
    step->label = node.qualified() + " %" + node.name();
    size_t at = plan_.steps_.size();
    plan_.steps_.push_back(std::move(step));
    for (const Tensor& t : reads) last_use_[t.storage().get()] = at;
    for (const Tensor& t : writes) {
      first_use_.emplace(t.storage().get(), at);
      last_use_[t.storage().get()] = at;
    }
  }

  static void collect(const Value& v, std::vector<Tensor>& tensors) {
    if (v.is_tensor()) tensors.push_back(v.tensor());
    if (v.is_list())
      for (const Value& item : v.items()) collect(item, tensors);
  }

  // Memory: outputs get their own in every run; the rest shares one arena, a block freed when its last reader
  // is done.
  void lay_out() {
    std::unordered_set<const StorageBody*> given_away;
    for (Plan::Output& o : plan_.outputs_) {
      std::vector<Tensor> tensors;
      collect(o.value, tensors);
      for (const Tensor& t : tensors) {
        StorageBody* s = t.storage().get();
        if (constant_.count(s) || outside_.count(s) || !first_use_.count(s)) continue;
        o.fresh = true;
        if (given_away.insert(s).second) plan_.fresh_.push_back(t.storage());
      }
    }
    std::vector<std::vector<StorageBody*>> begins(plan_.steps_.size()), ends(plan_.steps_.size());
    for (const Storage& s : managed_) {
      if (given_away.count(s.get()) || !first_use_.count(s.get())) continue;
      begins[first_use_[s.get()]].push_back(s.get());
      ends[last_use_[s.get()]].push_back(s.get());
    }
    struct Hole {
      size_t offset, bytes;
    };
    std::vector<Hole> holes;
    std::unordered_map<StorageBody*, Hole> placed;
    size_t total = 0;
    auto round = [](size_t n) { return (n + 63) & ~size_t{63}; };
    for (size_t step = 0; step < plan_.steps_.size(); ++step) {
      for (StorageBody* s : begins[step]) {
        size_t bytes = round(std::max<size_t>(s->bytes, 1));
        auto best = holes.end();
        for (auto it = holes.begin(); it != holes.end(); ++it)
          if (it->bytes >= bytes && (best == holes.end() || it->bytes < best->bytes)) best = it;
        if (best != holes.end()) {
          placed[s] = {best->offset, bytes};
          best->offset += bytes;
          best->bytes -= bytes;
          if (!best->bytes) holes.erase(best);
        } else {
          placed[s] = {total, bytes};
          total += bytes;
        }
      }
      for (StorageBody* s : ends[step]) {
        Hole freed = placed[s];
        auto at = std::lower_bound(holes.begin(), holes.end(), freed,
                                   [](const Hole& a, const Hole& b) { return a.offset < b.offset; });
        at = holes.insert(at, freed);
        if (auto next = at + 1; next != holes.end() && at->offset + at->bytes == next->offset) {
          at->bytes += next->bytes;
          holes.erase(next);
        }
        if (at != holes.begin() && (at - 1)->offset + (at - 1)->bytes == at->offset) {
          (at - 1)->bytes += at->bytes;
          holes.erase(at);
        }
      }
    }
    plan_.arena_bytes_ = total;
    void* memory = pool_allocate(std::max<size_t>(total, 64));
    plan_.arena_ =
        std::shared_ptr<void>(memory, [total](void* p) { pool_free(p, std::max<size_t>(total, 64)); });
    for (auto& [s, hole] : placed) s->data = static_cast<char*>(memory) + hole.offset;
    for (auto& [ir_value, v] : values_) plan_.values_.push_back(v);
  }

  Plan& plan_;
  std::unordered_map<const ir::Value*, Value> values_;
  mutable std::unordered_set<const StorageBody*> constant_;
  std::unordered_set<const StorageBody*> outside_;  // inputs
  std::vector<Storage> managed_;
  std::unordered_map<const StorageBody*, size_t> first_use_, last_use_;
};

Plan::Plan(const ir::Graph& graph, Span<const Binding> bindings, Span<const Value> inputs) {
  Planner(*this, graph, bindings, inputs);
}
Plan::~Plan() = default;

std::vector<Value> Plan::run(Span<const Value> inputs) {
  size_t next = 0;
  std::vector<Tensor> kept;  // copies of inputs that are not row-major
  for (const Value& v : inputs) {
    if (!v.is_tensor()) continue;
    Tensor t = v.tensor();
    if (!t.is_contiguous()) kept.push_back(t = t.contiguous());
    StorageBody* s = inputs_[next++].storage().get();
    s->data = t.data();
  }
  for (const Storage& s : fresh_) s->data = pool_allocate(std::max<size_t>(s->bytes, 1));
  Exclude quiet(rung_record | rung_autograd | rung_functional | rung_core);
  size_t at = 0;
  try {
    for (; at < steps_.size(); ++at) steps_[at]->run();
  } catch (const Error& e) {
    for (const Storage& s : fresh_) pool_free(s->data, std::max<size_t>(s->bytes, 1));
    throw e.with_context(steps_[at]->label);
  }
  // The memory of the outputs goes with them; two outputs that share memory go on sharing it.
  std::unordered_map<const StorageBody*, Storage> given;
  for (const Storage& s : fresh_) {
    size_t bytes = std::max<size_t>(s->bytes, 1);
    Storage owned = Storage::borrow(s->data, s->bytes, nullptr);
    owned->pooled = true;
    owned->bytes = bytes;
    given.emplace(s.get(), owned);
  }
  std::vector<Value> results;
  for (const Output& o : outputs_) {
    if (!o.value.is_tensor()) {
      results.push_back(o.value);
      continue;
    }
    const Tensor& t = o.value.tensor();
    if (auto it = given.find(t.storage().get()); it != given.end()) {
      results.push_back(make_view_of(it->second, t.sizes(), t.strides(), t.offset(), t.dtype()));
    } else {
      // An input or a weight that is returned as it is: a copy, so that the caller may do as it likes.
      results.push_back(t.clone());
    }
  }
  return results;
}

}  // namespace tern::runtime
