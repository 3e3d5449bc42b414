#include "tern/runtime/plan.h"

#include <algorithm>
#include <chrono>
#include <unordered_map>
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/base/parallel.h"
#include "tern/capture/retrace.h"
#include "tern/dispatch/ladder.h"
#include "tern/dispatch/op_flags.h"
#include "tern/dispatch/pointwise.h"
#include "tern/runtime/layout.h"

namespace tern::runtime {
namespace {

// Any operator with a kernel: its arguments are bound once.
struct KernelStep : Step {
  const Op* op;
  std::vector<Value> values;
  Owned<Bound> bound;
  std::vector<Tensor> out;
  void run() override { op->kernel(*op, bound->args(), Out(out.data(), out.size())); }
};

// Operators that do their work in their own way: through the ladder, then copied into place.
struct CallStep : Step {
  const Op* op;
  std::vector<Value> values;
  Owned<Bound> bound;
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

// Between the two orders of an image's dims, or from any strides to any.
struct CopyStep : Step {
  Tensor from, to;
  void run() override { copy_elements(from, to); }
};

bool starts(const ir::Node& n, std::string_view name) {
  return n.op() && std::string_view(n.op()->text).starts_with(name);
}

// One pixel, or one channel: both orders are the same memory.
bool order_is_moot(Span<const SymInt> sizes) {
  int64_t volume = 1;
  for (size_t d = 2; d < sizes.size(); ++d) volume *= sizes[d].as_int();
  return volume == 1 || sizes[1].as_int() == 1;
}

bool same_sizes(const ir::Type& a, const ir::Type& b) {
  if (!a.is_tensor() || !b.is_tensor() || a.dtype() != b.dtype() || a.sizes().size() != b.sizes().size())
    return false;
  for (size_t d = 0; d < a.sizes().size(); ++d)
    if (a.sizes()[d].as_int() != b.sizes()[d].as_int()) return false;
  return true;
}

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

// Quantized tensors carry more than memory: such graphs are interpreted.
bool is_quantized(const ir::Block& block) {
  for (const ir::Node& n : block) {
    if (n.op() && n.op()->is(op_whole) && !n.kind().view().starts_with("quantized_decomposed::")) return true;
    for (const ir::Block* inner : n.blocks())
      if (is_quantized(*inner)) return true;
  }
  return false;
}

}  // namespace

// Builds a Plan: retraces the graph for its sizes, folds constants, makes steps, lays out memory.
class Planner {
 public:
  Planner(Plan& plan, const ir::Graph& graph, Span<const Binding> bindings, Span<const Value> inputs)
      : plan_(plan) {
    std::string why;
    if (is_quantized(graph.top()))
      fail(ErrorKind::not_supported, "the graph cannot be planned: it has quantized tensors");
    capture::RetraceOptions options;
    options.expand = [](const Op& op) { return op.is(op_composite) || (op.is(op_whole) && op.body); };
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
    if (retraced.prints) fail(ErrorKind::not_supported, "the graph cannot be planned: it prints");
    if (!retraced.mutated.empty())
      fail(ErrorKind::not_supported, "the graph cannot be planned: it writes to its inputs");
    plan_.graph_ = std::move(retraced.graph);
    if (!is_plannable(plan_.graph_->top(), why))
      fail(ErrorKind::not_supported, "the graph cannot be planned: " + why);
    bind_inputs(bindings, options.inputs);
    make_steps();
    find_sections();
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
        assign(*v, bindings[i].tensor);
        if (bindings[i].is_weight) constant_.insert(bindings[i].tensor.storage().get());
        continue;
      }
      if (!fakes[i].is_tensor()) {
        assign(*v, fakes[i]);
        continue;
      }
      // Stands in for what every run brings; never part of the arena.
      const Tensor& fake = fakes[i].tensor();
      Storage memory =
          Storage::borrow(nullptr, bytes_of(fake.sizes(), fake.strides(), fake.dtype()), nullptr);
      Tensor t = make_view_of(memory, fake.sizes(), fake.strides(), 0, fake.dtype());
      plan_.inputs_.push_back(t);
      outside_.insert(memory.get());
      assign(*v, t);
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

  // Convolutions hand images on with their channels innermost: such a value is in images_, and in values_
  // only when something asked for it in the order its type says.
  Value value_of(const ir::Operand& o) {
    if (o.is_value()) return plain(o.value());
    if (o.is_list()) {
      std::vector<Value> items;
      for (const ir::Operand& item : o.list()) items.push_back(value_of(item));
      return Value::list(std::move(items));
    }
    if (o.constant().is_tensor()) constant_.insert(o.constant().tensor().storage().get());
    return o.constant();
  }

  Value plain(const ir::Value& v) {
    if (auto it = values_.find(&v); it != values_.end()) return it->second;
    const Tensor image = images_.at(&v);
    const Dims strides = strides_of(*v.type());
    if (strides == Dims(image.strides())) return values_[&v] = image;
    Tensor t = planned(*v.type(), strides);
    emit_copy(image, t, v);
    assign(v, t);
    return t;
  }

  Tensor image(const ir::Value& v) {
    if (auto it = images_.find(&v); it != images_.end()) return it->second;
    const Tensor t = values_.at(&v).tensor();
    Dims strides = channels_last_strides(t.sizes());
    if (order_is_moot(t.sizes()) && t.is_contiguous())
      return images_[&v] = t.as_view(t.sizes(), strides, t.offset());
    if (Dims(t.strides()) == strides) return images_[&v] = t;
    Tensor made = planned(*v.type(), strides);
    emit_copy(t, made, v);
    values_of_[made.storage().get()].push_back(&v);
    return images_[&v] = made;
  }

  void emit_copy(const Tensor& from, const Tensor& to, const ir::Value& v) {
    Owned<Step> step = make_transpose_step(from, to);
    if (!step) {
      auto copy = new_owned<CopyStep>();
      copy->from = from;
      copy->to = to;
      step = std::move(copy);
    }
    step->label = "reorder %" + v.name();
    emit(std::move(step), {from}, {to});
  }

  void assign(const ir::Value& v, const Value& value) {
    values_[&v] = value;
    if (value.is_tensor()) values_of_[value.tensor().storage().get()].push_back(&v);
    if (value.is_list())
      for (const Value& item : value.items())
        if (item.is_tensor()) values_of_[item.tensor().storage().get()].push_back(&v);
  }

  // An image that was computed: in both orders at once where they are the same memory.
  void assign_image(const ir::Value& v, const Tensor& t) {
    images_[&v] = t;
    values_of_[t.storage().get()].push_back(&v);
    if (order_is_moot(t.sizes()))
      values_[&v] = t.as_view(t.sizes(), contiguous_strides(t.sizes()), t.offset());
  }

  bool is_image(const ir::Operand& o) const { return o.is_value() && images_.count(&o.value()); }
  bool only_image(const ir::Operand& o) const { return is_image(o) && !values_.count(&o.value()); }
  bool is_ready(const ir::Value& v) const { return values_.count(&v) || images_.count(&v); }

  // Whether memory that a step made may be written over by the step of `nodes`: nobody reads it later.
  bool dies(const Tensor& t, Span<const ir::Node* const> nodes) const {
    auto it = values_of_.find(t.storage().get());
    if (it == values_of_.end() || !first_use_.count(t.storage().get())) return false;
    for (const ir::Value* v : it->second)
      for (const ir::Use& use : v->uses()) {
        bool gone = done_.count(use.user);
        for (const ir::Node* n : nodes) gone = gone || use.user == n;
        if (!gone) return false;
      }
    return true;
  }

  bool is_constant(const ir::Operand& o) const {
    if (o.is_value()) {
      auto it = values_.find(&o.value());
      return it != values_.end() && it->second.is_tensor() &&
             constant_.count(it->second.tensor().storage().get());
    }
    return o.is_constant() && o.constant().is_tensor();
  }
  // The tensors among a node's operands are constants, and there are some.
  bool all_constant(Span<const ir::Operand> operands) const {
    bool any = false;
    for (const ir::Operand& o : operands) {
      if (o.is_list()) {
        if (!all_constant(o.list())) return false;
        any = true;
        continue;
      }
      if (o.is_value() && values_.count(&o.value()) && values_.at(&o.value()).is_list()) {
        for (const Value& item : values_.at(&o.value()).items())
          if (item.is_tensor() && !constant_.count(item.tensor().storage().get())) return false;
        any = true;
        continue;
      }
      const bool tensor = o.is_value() ? o.value().type()->is_tensor() : o.constant().is_tensor();
      if (!tensor) continue;
      any = true;
      if (!is_constant(o)) return false;
    }
    return any;
  }

  void make_steps() {
    NoGrad no_grad;
    for (const ir::Node& node : plan_.graph_->top()) {
      if (done_.count(&node)) continue;
      if (node.is("prim::ListUnpack") || node.is("prim::TupleUnpack")) {
        Value list = value_of(node.input(0));
        for (size_t i = 0; i < node.num_outputs(); ++i) assign(node.output(i), list.items().at(i));
        done_.insert(&node);
        continue;
      }
      const Op* op = node.op();
      if (!op) failf(ErrorKind::not_supported, "the graph cannot be planned: it has {}", node.qualified());
      bool foldable = !op->is(op_random | op_impure) && all_constant(node.inputs());
      if (op->is(op_view) || foldable) {
        std::vector<Value> inputs = values_of(node);
        Bound bound(*op, inputs);
        std::vector<Value> results(std::max<int>(op->results, 1));
        call(*op, bound.args(), results.data());
        for (size_t i = 0; i < node.num_outputs(); ++i) {
          assign(node.output(i), results[i]);
          if (foldable) mark_constant(results[i]);
        }
      } else if (!convolution(node) && !linear(node) && !on_images(node)) {
        general(node);
      }
      done_.insert(&node);
    }
    for (const ir::Operand& o : plan_.graph_->outputs()) {
      Value v = value_of(o);
      if (v.is_list() || v.is_tuple() || v.is_dict() || v.is_object())
        failf(ErrorKind::not_supported, "the graph cannot be planned: it gives a {}", v.kind_name());
      plan_.outputs_.push_back({v, false});
    }
  }

  std::vector<Value> values_of(const ir::Node& node) {
    std::vector<Value> inputs;
    for (const ir::Operand& o : node.inputs()) inputs.push_back(value_of(o));
    return inputs;
  }

  void mark_constant(const Value& v) {
    if (v.is_tensor()) constant_.insert(v.tensor().storage().get());
    if (v.is_list())
      for (const Value& item : v.items()) mark_constant(item);
  }

  Tensor planned(const ir::Type& type, const Dims& strides) {
    Storage memory = Storage::borrow(nullptr, bytes_of(type.sizes(), strides, type.dtype()), nullptr);
    managed_.push_back(memory);
    return make_view_of(memory, type.sizes(), strides, 0, type.dtype());
  }
  Tensor planned(const ir::Type& type) { return planned(type, strides_of(type)); }
  static Dims strides_of(const ir::Type& type) {
    return type.has_strides() ? Dims(type.strides()) : contiguous_strides(type.sizes());
  }

  void emit(Owned<Step> step, const std::vector<Tensor>& reads, const std::vector<Tensor>& writes) {
    size_t at = plan_.steps_.size();
    // Image i of what is read and of what is written is the i-th part of its memory.
    auto whole = [](const Tensor& t) {
      return !t.defined() || static_cast<size_t>(t.int_numel() * t.element_size()) == t.storage()->bytes;
    };
    const bool apart =
        std::all_of(reads.begin(), reads.end(), whole) && std::all_of(writes.begin(), writes.end(), whole);
    images_at_.push_back(apart ? step->images : 0);
    plan_.steps_.push_back(std::move(step));
    for (const Tensor& t : reads)
      if (t.defined()) last_use_[t.storage().get()] = at;
    for (const Tensor& t : writes) {
      first_use_.emplace(t.storage().get(), at);
      last_use_[t.storage().get()] = at;
    }
  }

  // The only user of a value, if that is not the return.
  static const ir::Node* only_user(const ir::Value& v) {
    if (v.num_uses() != 1) return nullptr;
    const ir::Node* user = (*v.uses().begin()).user;
    return user->is_return() ? nullptr : user;
  }

  // What is computed together with a convolution or a linear layer.
  struct Chain {
    std::vector<const ir::Node*> nodes;  // all of them, in order
    const ir::Node* norm = nullptr;
    const ir::Value* residual = nullptr;
    const ir::Node* activation = nullptr;
    Tensor bias;  // that is added where the layer has none
    const ir::Value& result() const { return nodes.back()->output(0); }
  };

  // The operand that is added to v in `node`, when node is v + other or other + v.
  static const ir::Operand* addend(const ir::Node& node, const ir::Value& v) {
    if (!starts(node, "add.Tensor(")) return nullptr;
    const ir::Operand* alpha = node.find_input("alpha");
    if (alpha &&
        !(alpha->is_constant() && alpha->constant().is_number() && alpha->constant().scalar().equals(1)))
      return nullptr;
    const bool first = node.input(0).is_value() && &node.input(0).value() == &v;
    return &node.input(first ? 1 : 0);
  }

  Chain chain_of(const ir::Node& node, bool has_bias, bool image) {
    Chain c;
    c.nodes.push_back(&node);
    const ir::Node* user = only_user(node.output(0));
    if (image && user && is_foldable_norm(*user)) {
      c.norm = user;
      c.nodes.push_back(user);
      user = only_user(user->output(0));
    }
    // A reshape between a linear layer and what follows changes nothing in memory.
    size_t sure = c.nodes.size();
    auto skip_reshapes = [&] {
      while (!image && user &&
             (starts(*user, "view(") || starts(*user, "_unsafe_view(") || starts(*user, "reshape("))) {
        c.nodes.push_back(user);
        user = only_user(user->output(0));
      }
    };
    skip_reshapes();
    if (const ir::Operand* other = user ? addend(*user, c.result()) : nullptr) {
      const ir::Type &out = *user->output().type(), &mine = *c.result().type();
      if (same_sizes(out, mine)) {
        const int64_t last = out.sizes().empty() ? 0 : out.sizes()[out.sizes().size() - 1].as_int();
        Tensor constant = is_constant(*other) ? value_of(*other).tensor() : Tensor();
        if (!image && !has_bias && constant.defined() && constant.dim() == 1 && constant.dtype() == kFloat &&
            constant.int_sizes()[0] == last && constant.is_contiguous()) {
          c.bias = constant;
        } else if (other->is_value() && is_ready(other->value()) && same_sizes(*other->value().type(), out) &&
                   !is_constant(*other)) {
          c.residual = &other->value();
        }
        if (c.bias.defined() || c.residual) {
          c.nodes.push_back(user);
          sure = c.nodes.size();
          user = only_user(user->output(0));
          skip_reshapes();
        }
      }
    }
    if (user && can_fuse_activation(*user)) {
      c.activation = user;
      c.nodes.push_back(user);
      sure = c.nodes.size();
    }
    c.nodes.resize(sure);
    return c;
  }

  bool is_foldable_norm(const ir::Node& n) const {
    if (!starts(n, "_native_batch_norm_legit_no_training(")) return false;
    if (n.output(1).has_uses() || n.output(2).has_uses()) return false;
    for (int i = 1; i < 5; ++i)
      if (!is_constant(n.input(i)) && !(n.input(i).is_constant() && n.input(i).constant().is_none()))
        return false;
    return is_constant(n.input(3)) && is_constant(n.input(4));
  }

  void finish(const Chain& c, Owned<Step> step, const std::vector<Tensor>& reads, const Tensor& out) {
    step->label = c.nodes[0]->qualified();
    for (size_t i = 1; i < c.nodes.size(); ++i) step->label += "+" + c.nodes[i]->op()->name().str();
    step->label += " %" + c.nodes[0]->name();
    emit(std::move(step), reads, {out});
    for (const ir::Node* n : c.nodes) done_.insert(n);
  }

  // Over the memory of a dying operand of the same size and order, or in its own.
  Tensor over(const Tensor& operand, Span<const ir::Node* const> nodes, const ir::Type& type,
              const Dims& strides) {
    if (operand.defined() && operand.dtype() == type.dtype() && Dims(operand.strides()) == strides &&
        operand.storage()->bytes == bytes_of(type.sizes(), strides, type.dtype()) && dies(operand, nodes))
      return operand;
    return planned(type, strides);
  }

  bool convolution(const ir::Node& node) {
    if (!starts(node, "convolution(") || !node.input(0).is_value() || !is_constant(node.input(1)))
      return false;
    const ir::Type& type = *node.input(0).value().type();
    if (type.dtype() != kFloat || type.sizes().size() < 3 || type.sizes().size() > 5) return false;
    const Tensor weight = value_of(node.input(1)).tensor().contiguous();
    if (!can_prepare_conv(node, weight)) return false;
    const bool has_bias = !node.input(2).is_constant() || !node.input(2).constant().is_none();
    if (has_bias && !is_constant(node.input(2))) return false;
    Chain c = chain_of(node, has_bias, true);
    std::vector<Value> inputs;
    for (size_t i = 0; i < node.inputs().size(); ++i)
      inputs.push_back(i == 0   ? Value(image(node.input(0).value()))
                       : i == 1 ? Value(weight)
                                : value_of(node.input(i)));
    if (c.norm) fold_batch_norm(values_of_constants(*c.norm), inputs);
    Tensor residual = c.residual ? image(*c.residual) : Tensor();
    const ir::Type& result = *c.result().type();
    // Never over the input itself: its pixels are read again and again.
    const bool apart = residual.defined() && residual.storage().get() != inputs[0].tensor().storage().get();
    Tensor out = over(apart ? residual : Tensor(), c.nodes, result, channels_last_strides(result.sizes()));
    finish(c, make_conv_step({node, inputs, out}, c.activation, residual), {inputs[0].tensor(), residual},
           out);
    assign_image(c.result(), out);
    return true;
  }

  std::vector<Value> values_of_constants(const ir::Node& norm) {
    std::vector<Value> values{Value()};
    for (size_t i = 1; i < norm.inputs().size(); ++i) values.push_back(value_of(norm.input(i)));
    return values;
  }

  bool linear(const ir::Node& node) {
    const bool has_bias =
        starts(node, "addmm(") ||
        (starts(node, "linear(") && !(node.input(2).is_constant() && node.input(2).constant().is_none()));
    if (!has_bias && !starts(node, "linear(") && !starts(node, "mm(") && !starts(node, "bmm(")) return false;
    std::vector<Value> inputs = values_of(node);
    if (!can_pack_linear({node, inputs, {}})) return false;
    const size_t at = starts(node, "addmm(") ? 1 : 0;
    if (!constant_.count(inputs[at + 1].tensor().storage().get())) return false;
    Value& x = inputs[at];
    if (Tensor t = x.tensor(); !t.is_contiguous()) {
      Storage memory =
          Storage::borrow(nullptr, static_cast<size_t>(t.int_numel() * element_size(t.dtype())), nullptr);
      managed_.push_back(memory);
      x = make_view_of(memory, t.sizes(), contiguous_strides(t.sizes()), 0, t.dtype());
      emit_copy(t, x.tensor(), node.output());
    }
    Chain c = chain_of(node, has_bias, false);
    Tensor residual = c.residual ? plain(*c.residual).tensor() : Tensor();
    if (residual.defined() && !residual.is_contiguous()) {
      c.nodes.resize(1);
      c.activation = nullptr;
      c.residual = nullptr;
      c.bias = {};
      residual = {};
    }
    const ir::Type& result = *c.result().type();
    Tensor out = planned(result, contiguous_strides(result.sizes()));
    std::vector<Tensor> reads{residual};
    for (const Value& v : inputs) collect(v, reads);
    finish(c, make_linear_step({node, inputs, out}, c.bias, c.activation, residual), reads, out);
    assign(c.result(), out);
    return true;
  }

  // Pooling, normalisation, joining and elementwise work on images as they are.
  bool on_images(const ir::Node& node) {
    const Op& op = *node.op();
    if (op.is(op_pointwise)) return pointwise_on_images(node);
    if (starts(node, "cat(")) return join_images(node);
    if (node.inputs().empty() || !is_image(node.input(0))) return false;
    const ir::Value& x = node.input(0).value();
    if (x.type()->dtype() != kFloat) return false;
    if (is_foldable_norm(node)) {
      Chain c;
      c.nodes = {&node};
      if (const ir::Node* user = only_user(node.output(0)); user && can_fuse_activation(*user)) {
        c.activation = user;
        c.nodes.push_back(user);
      }
      Tensor in = image(x);
      Tensor out = over(in, c.nodes, *c.result().type(), channels_last_strides(in.sizes()));
      finish(c, make_affine_step(values_of_constants(node), in, c.activation, out), {in}, out);
      assign_image(c.result(), out);
      return true;
    }
    for (size_t i = 1; i < node.num_outputs(); ++i)
      if (node.output(i).has_uses()) return false;
    std::vector<Value> inputs{Value(image(x))};
    for (size_t i = 1; i < node.inputs().size(); ++i) {
      if (node.input(i).is_value() && node.input(i).value().type()->is_tensor()) return false;
      inputs.push_back(value_of(node.input(i)));
    }
    const ir::Type& type = *node.output(0).type();
    const bool mean = starts(node, "mean.dim(");
    Tensor out = planned(type, mean || type.sizes().size() < 3 ? contiguous_strides(type.sizes())
                                                               : channels_last_strides(type.sizes()));
    Owned<Step> step = make_pool_step({node, inputs, out});
    if (!step) {
      managed_.pop_back();
      return false;
    }
    Chain c;
    c.nodes = {&node};
    finish(c, std::move(step), {inputs[0].tensor()}, out);
    mean ? assign(node.output(0), out) : assign_image(node.output(0), out);
    return true;
  }

  bool join_images(const ir::Node& node) {
    const ir::Type& type = *node.output(0).type();
    if (!node.input(0).is_list() || type.dtype() != kFloat || type.sizes().size() < 3) return false;
    bool any = false;
    for (const ir::Operand& o : node.input(0).list()) {
      if (!o.is_value() || !o.value().type()->is_tensor() || o.value().type()->dtype() != kFloat ||
          o.value().type()->sizes().size() != type.sizes().size())
        return false;
      any = any || only_image(o);
    }
    const int64_t dim = value_of(node.input(1)).to_int();
    if (!any || (dim != 1 && dim + static_cast<int64_t>(type.sizes().size()) != 1)) return false;
    std::vector<Tensor> parts;
    for (const ir::Operand& o : node.input(0).list()) parts.push_back(image(o.value()));
    Tensor out = planned(type, channels_last_strides(type.sizes()));
    Chain c;
    c.nodes = {&node};
    finish(c, make_join_step(parts, out), parts, out);
    assign_image(node.output(0), out);
    return true;
  }

  bool pointwise_on_images(const ir::Node& node) {
    const ir::Type& type = *node.output(0).type();
    bool any = false;
    for (const ir::Operand& o : node.inputs()) any = any || only_image(o);
    if (!any || node.num_outputs() != 1 || type.sizes().size() < 3) return false;
    auto full = [&](const ir::Type& t) {
      if (!t.is_tensor() || t.sizes().size() != type.sizes().size()) return false;
      for (size_t d = 0; d < t.sizes().size(); ++d)
        if (t.sizes()[d].as_int() != type.sizes()[d].as_int()) return false;
      return true;
    };
    std::vector<Value> inputs;
    std::vector<Tensor> reads;
    Tensor reusable;
    for (const ir::Operand& o : node.inputs()) {
      const bool whole = o.is_value() && full(*o.value().type());
      inputs.push_back(whole ? Value(image(o.value())) : value_of(o));
      collect(inputs.back(), reads);
      if (whole && !reusable.defined()) reusable = inputs.back().tensor();
    }
    // Not over memory that another operand reads in another order.
    for (const Tensor& t : reads)
      if (reusable.defined() && t.storage().get() == reusable.storage().get() &&
          (t.offset() != reusable.offset() || Dims(t.strides()) != Dims(reusable.strides()) ||
           t.int_numel() != reusable.int_numel()))
        reusable = {};
    const ir::Node* nodes[] = {&node};
    Tensor out = over(reusable, nodes, type, channels_last_strides(type.sizes()));
    Chain c;
    c.nodes = {&node};
    finish(c, make_pointwise_step({node, inputs, out}), reads, out);
    assign_image(node.output(0), out);
    return true;
  }

  // Any operator: its kernel with arguments bound once, or the ladder.
  void general(const ir::Node& node) {
    const Op& op = *node.op();
    std::vector<Value> inputs = values_of(node);
    std::vector<Tensor> reads, writes;
    for (const Value& v : inputs) collect(v, reads);
    for (ir::Value* v : node.outputs()) {
      if (!v->type()->is_tensor())
        failf(ErrorKind::not_supported, "the graph cannot be planned: {} gives a {}", node.qualified(),
              v->type()->str());
      writes.push_back(planned(*v->type()));
      assign(*v, writes.back());
    }
    Owned<Step> step;
    if (op.is(op_pointwise)) step = make_pointwise_step({node, inputs, writes[0]});
    if (!step && op.kernel && !op.functional) {
      auto s = new_owned<KernelStep>();
      s->op = &op;
      s->values = inputs;
      s->bound = new_owned<Bound>(op, s->values);
      s->out = writes;
      step = std::move(s);
    } else if (!step) {
      auto s = new_owned<CallStep>();
      s->op = &op;
      s->values = inputs;
      s->bound = new_owned<Bound>(op, s->values);
      s->out = writes;
      step = std::move(s);
    }
    step->label = node.qualified() + " %" + node.name();
    emit(std::move(step), reads, writes);
  }

  static void collect(const Value& v, std::vector<Tensor>& tensors) {
    if (v.is_tensor()) tensors.push_back(v.tensor());
    if (v.is_list())
      for (const Value& item : v.items()) collect(item, tensors);
  }

  // Small networks spend as long on waiting for threads as on a step: several steps are worth a thread.
  void find_sections() {
    constexpr double worth_a_thread = 5e5;  // products: some 10 microseconds
    if (num_threads() == 1) return;
    const auto& steps = plan_.steps_;
    for (size_t first = 0, next; first < steps.size(); first = next) {
      const int64_t images = images_at_[first];
      double products = 0;
      for (next = first; next < steps.size() && images_at_[next] == images; ++next)
        products += steps[next]->products;
      if (images < 2 || next - first < 2 || products < 2 * worth_a_thread) continue;
      const int64_t least = static_cast<int64_t>(static_cast<double>(images) * worth_a_thread / products);
      plan_.sections_.push_back(
          {first, next - 1, std::max({int64_t{1}, least, images / (4 * num_threads())})});
      // What one thread has read another may still read: nothing is freed in between.
      for (auto& [storage, last] : last_use_)
        if (last >= first && last < next) last = next - 1;
    }
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
    std::vector<StorageBody*> blocks;
    std::vector<Life> lives;
    for (const Storage& s : managed_) {
      if (given_away.count(s.get()) || !first_use_.count(s.get())) continue;
      blocks.push_back(s.get());
      lives.push_back({s->bytes, first_use_[s.get()], last_use_[s.get()]});
    }
    const Layout layout = runtime::lay_out(lives);
    const size_t total = std::max<size_t>(layout.bytes, 64);
    plan_.arena_bytes_ = layout.bytes;
    void* memory = pool_allocate(total);
    plan_.arena_ = Shared<void>(memory, [total](void* p) { pool_free(p, total); });
    for (size_t i = 0; i < blocks.size(); ++i)
      blocks[i]->data = static_cast<char*>(memory) + layout.offsets[i];
    for (auto& [ir_value, v] : values_) plan_.values_.push_back(v);
    for (auto& [ir_value, t] : images_) plan_.values_.push_back(t);
  }

  Plan& plan_;
  std::unordered_map<const ir::Value*, Value> values_;
  std::unordered_map<const ir::Value*, Tensor> images_;
  std::unordered_map<const StorageBody*, std::vector<const ir::Value*>> values_of_;  // who lives there
  std::unordered_set<const ir::Node*> done_;
  std::unordered_set<const StorageBody*> constant_;
  std::unordered_set<const StorageBody*> outside_;  // inputs
  std::vector<Storage> managed_;
  std::unordered_map<const StorageBody*, size_t> first_use_, last_use_;
  std::vector<int64_t> images_at_;  // of each step; 0 where it cannot be taken apart
};

Plan::Plan(const ir::Graph& graph, Span<const Binding> bindings, Span<const Value> inputs) {
  Planner(*this, graph, bindings, inputs);
}
Plan::~Plan() = default;

std::vector<Value> Plan::run(Span<const Value> inputs, std::vector<double>* seconds) {
  size_t next = 0;
  std::vector<Tensor> kept;  // copies of inputs that are not row-major
  for (const Value& v : inputs) {
    if (!v.is_tensor()) continue;
    Tensor t = v.tensor();
    if (!t.is_contiguous()) kept.push_back(t = t.contiguous());
    StorageBody* s = inputs_[next++].storage().get();
    s->data = t.data();
  }
  // The memory of the outputs goes with them, or with whatever is thrown before there are any; two outputs
  // that share memory go on sharing it.
  std::unordered_map<const StorageBody*, Storage> given;
  for (const Storage& s : fresh_) {
    Storage owned = Storage::allocate(std::max<size_t>(s->bytes, 1));
    s->data = owned->data;
    given.emplace(s.get(), std::move(owned));
  }
  Exclude quiet(rung_record | rung_autograd | rung_functional | rung_core);
  size_t at = 0;
  try {
    if (seconds) seconds->resize(steps_.size());
    auto section = sections_.begin();
    for (; at < steps_.size(); ++at) {
      if (!seconds && section != sections_.end() && section->first == at) {
        const int64_t images = steps_[at]->images, parts = (images + section->part - 1) / section->part;
        share(parts, [&](int64_t part) {
          for (size_t i = section->first; i <= section->last; ++i)
            steps_[i]->run_images(images * part / parts, images * (part + 1) / parts);
        });
        at = section++->last;
        continue;
      }
      if (!seconds) {
        steps_[at]->run();
        continue;
      }
      const auto start = std::chrono::steady_clock::now();
      steps_[at]->run();
      (*seconds)[at] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
  } catch (const Error& e) {
    throw e.with_context(steps_[at]->label);
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
