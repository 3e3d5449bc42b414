// Arithmetic that constants allow before the model runs: batch norm and pointwise constants go into the
// weights of the convolution or linear layer whose result they change.
#include "tern/dispatch/ladder.h"
#include "tern/ir/alias.h"
#include "tern/ir/pass.h"
#include "tern/jit/freeze.h"
#include "tern/ops.h"

namespace tern::jit {
namespace {

using ir::In;
using ir::Node;
using ir::Operand;

const tern::Value* constant_of(const Operand& o) {
  if (o.is_constant()) return &o.constant();
  if (!o.is_value() || !o.value().node() || !o.value().node()->is("prim::Constant")) return nullptr;
  static const tern::Value none{};
  const tern::Value* v = o.value().node()->attribute("value");
  return v ? v : &none;
}
// A constant tensor of floating-point numbers; undefined for None; nullopt for anything else.
std::optional<Tensor> weights(const Operand* o) {
  const tern::Value* v = o ? constant_of(*o) : nullptr;
  if (!v) return std::nullopt;
  if (v->is_none()) return Tensor();
  if (!v->is_tensor()) return std::nullopt;
  const Tensor& t = v->tensor();
  if (!t.defined()) return Tensor();
  if (t.is_fake() || t.is_symbolic() || !t.is_floating_point()) return std::nullopt;
  return t;
}
bool is_false(const Operand* o) {
  const tern::Value* v = o ? constant_of(*o) : nullptr;
  return v && v->is_bool() && !v->to_bool();
}

class Folder {
 public:
  explicit Folder(ir::Graph& graph) : graph_(graph), aliases_(graph) {}

  bool run(ir::Block& block) {
    bool changed = false;
    for (Node& n : block) {
      for (ir::Block* b : n.blocks()) changed |= run(*b);
      if (!n.op() || n.num_outputs() != 1 || n.inputs().empty()) continue;
      std::string_view kind = n.kind().view();
      bool done = false;
      if (kind == "aten::batch_norm")
        done = batch_norm(n);
      else if (kind == "aten::add" || kind == "aten::sub")
        done = add(n, kind == "aten::sub");
      else if (kind == "aten::mul" || kind == "aten::div")
        done = multiply(n, kind == "aten::div");
      if (!done) continue;
      changed = true;
      graph_.replace_all_uses(n.output(), In(n.input(0)));
      graph_.erase(n);
    }
    return changed;
  }

 private:
  // The layer whose result only this node uses, with constant weights.
  struct Layer {
    Node* node = nullptr;
    Tensor weight, bias;  // bias may be undefined
  };
  std::optional<Layer> layer_before(const Node& n, bool linear_too) {
    const Operand& in = n.input(0);
    Node* made = in.is_value() ? in.value().node() : nullptr;
    if (!made || !made->op() || in.value().num_uses() != 1 || &made->block() != &n.block())
      return std::nullopt;
    std::string_view kind = made->kind().view();
    bool general = kind == "aten::convolution" || kind == "aten::_convolution";
    bool conv = general || kind == "aten::conv1d" || kind == "aten::conv2d" || kind == "aten::conv3d";
    bool linear = linear_too && kind == "aten::linear";
    if (!conv && !linear) return std::nullopt;
    if (general && !is_false(made->find_input("transposed"))) return std::nullopt;
    std::optional<Tensor> w = weights(made->find_input("weight")), b = weights(made->find_input("bias"));
    if (!w || !w->defined() || !b || aliases_.has_writers(in)) return std::nullopt;
    if (aliases_.has_writers(*made->find_input("weight")) || aliases_.has_writers(*made->find_input("bias")))
      return std::nullopt;
    // A batch norm reads features from dimension 1: the last one of a linear layer only if there are two.
    if (linear && !(in.value().type()->has_sizes() && in.value().type()->sizes().size() == 2))
      return std::nullopt;
    return Layer{made, *w, *b};
  }
  void give(const Layer& layer, const Tensor& weight, const Tensor& bias, std::string_view how) {
    for (auto& [arg, t] : {std::pair("weight", &weight), std::pair("bias", &bias)}) {
      Operand* place = layer.node->find_input(arg);
      std::string name = place->is_value() ? place->value().name() + std::string(how) : std::string(arg);
      ir::InsertAt here(*layer.node);
      const ir::Type* types[] = {ir::Type::tensor_like(*t)};
      Node& made = graph_.make("prim::Constant", {}, types, name);
      made.set_attribute("value", tern::Value(*t));
      layer.node->set_input(static_cast<size_t>(place - layer.node->inputs().begin()), In(made.output()));
    }
  }
  static Tensor bias_of(const Layer& l) {
    return l.bias.defined() ? l.bias : zeros({l.weight.size(0)}, l.weight.dtype());
  }
  // A factor a channel, as the weights are laid out.
  static Tensor as_weight(const Tensor& channel, const Tensor& weight) {
    Dims sizes{SymInt(-1)};
    for (int64_t d = 1; d < weight.dim(); ++d) sizes.push_back(SymInt(1));
    return channel.reshape(sizes);
  }

  bool batch_norm(Node& n) {
    std::optional<Layer> l = layer_before(n, true);
    if (!l || !is_false(n.find_input("training"))) return false;
    std::optional<Tensor> mean = weights(n.find_input("running_mean")),
                          var = weights(n.find_input("running_var")), gamma = weights(n.find_input("weight")),
                          beta = weights(n.find_input("bias"));
    const tern::Value* eps = constant_of(*n.find_input("eps"));
    if (!mean || !mean->defined() || !var || !var->defined() || !gamma || !beta || !eps) return false;
    for (const char* arg : {"running_mean", "running_var", "weight", "bias"})
      if (aliases_.has_writers(*n.find_input(arg))) return false;
    DType dtype = l->weight.dtype();
    if (mean->int_numel() != l->weight.size(0).as_int()) return false;
    Tensor scale = (*var + Scalar(eps->to_double())).rsqrt();
    if (gamma->defined()) scale = scale * *gamma;
    Tensor bias = (bias_of(*l) - *mean) * scale;
    if (beta->defined()) bias = bias + *beta;
    give(*l, (l->weight * as_weight(scale, l->weight)).to(dtype), bias.to(dtype), "_fused_bn");
    return true;
  }

  // A constant that is one number, or one a channel, for a convolution's result; as a vector of channels.
  std::optional<Tensor> per_channel(const Node& n, const Layer& l) {
    const tern::Value* v = constant_of(n.input(1));
    if (!v || aliases_.has_writers(n.input(1))) return std::nullopt;
    SymInt channels = l.weight.size(0);
    if (v->is_int() && v->sym().is_int()) return full({channels}, Scalar(v->to_int()), l.weight.dtype());
    if (v->is_float()) return full({channels}, Scalar(v->to_double()), l.weight.dtype());
    if (!v->is_tensor()) return std::nullopt;
    const Tensor& t = v->tensor();
    if (!t.defined() || t.is_fake() || t.dtype() != l.weight.dtype() || t.dim() > l.weight.dim())
      return std::nullopt;
    // Against (batch, channel, spatial...), from the right. A convolution without a batch gives one dimension
    // less, which a constant of all dimensions would add.
    const ir::Type* result = n.input(0).value().type();
    bool batched = result->has_sizes() && static_cast<int64_t>(result->sizes().size()) == l.weight.dim();
    if (t.dim() == l.weight.dim() && !batched) return std::nullopt;
    int64_t missing = l.weight.dim() - t.dim();
    for (int64_t d = 0; d < t.dim(); ++d) {
      int64_t size = t.size(d).as_int();
      bool channel = d + missing == 1;
      if (size != 1 && !(channel && size == channels.as_int())) return std::nullopt;
    }
    return t.reshape({SymInt(-1)}).expand({channels}).contiguous();
  }
  bool add(Node& n, bool subtract) {
    std::optional<Layer> l = layer_before(n, false);
    if (!l) return false;
    const tern::Value* alpha = n.find_input("alpha") ? constant_of(*n.find_input("alpha")) : nullptr;
    std::optional<Tensor> other = alpha && alpha->is_number() ? per_channel(n, *l) : std::nullopt;
    if (!other) return false;
    double factor = (subtract ? -1 : 1) * alpha->to_double();
    if (factor != 1) other = *other * Scalar(factor);
    give(*l, l->weight, bias_of(*l) + *other, subtract ? "_fused_sub" : "_fused_add");
    return true;
  }
  bool multiply(Node& n, bool divide) {
    std::optional<Layer> l = layer_before(n, false);
    if (!l || n.inputs().size() != 2) return false;  // not div with a rounding mode
    std::optional<Tensor> other = per_channel(n, *l);
    if (!other) return false;
    Tensor factor = as_weight(*other, l->weight), bias = bias_of(*l);
    if (divide)
      give(*l, l->weight / factor, bias / *other, "_fused_div");
    else
      give(*l, l->weight * factor, bias * *other, "_fused_mul");
    return true;
  }

  ir::Graph& graph_;
  ir::AliasAnalysis aliases_;
};

}  // namespace

bool fold_frozen_numerics(ir::Graph& graph) {
  NoGrad no_grad;
  Exclude for_real(rung_record | rung_core | rung_functional);
  return Folder(graph).run(graph.top());
}

}  // namespace tern::jit
