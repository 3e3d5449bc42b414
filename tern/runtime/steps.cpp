// Steps with prepared state: elementwise loops resolved once, weights of linear layers packed once.
#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/dispatch/pointwise.h"
#include "tern/kernels/gemm.h"
#include "tern/kernels/pointwise.h"
#include "tern/runtime/plan.h"

namespace tern::runtime {
namespace {

// One type, one size, row-major: straight to the loop, in parallel above a size worth it.
struct DenseLoop : Step {
  kernels::Loop loop;
  DType in, out_type;
  std::vector<Tensor> inputs;
  Tensor out;
  kernels::Params params;
  int64_t count;
  void run() override {
    const void* from[8];
    for (size_t i = 0; i < inputs.size(); ++i) from[i] = inputs[i].data();
    void* to = out.data();
    if (count <= 16384) return loop(from, &to, count, &params);
    int64_t sizes[] = {count}, strides[] = {1};
    kernels::Operand operands[8], output{to, out_type, strides};
    for (size_t i = 0; i < inputs.size(); ++i) operands[i] = {const_cast<void*>(from[i]), in, strides};
    kernels::run_pointwise(loop, in, out_type, 1, sizes, &output, 1, operands,
                           static_cast<int>(inputs.size()), &params);
  }
};

// Any other elementwise call: arguments bound once.
struct GeneralLoop : Step {
  const Op* op;
  std::vector<Value> values;
  Owned<Bound> bound;
  Tensor out;
  void run() override { pointwise_into(*op, bound->args(), out); }
};

// y = activation(x·Wᵀ + b) with W packed.
struct PackedLinear : Step {
  kernels::PackedB weight;
  Tensor x, bias, out, residual;
  int64_t rows;
  kernels::Activation activation;
  void run() override {
    kernels::Epilogue e;
    if (bias.defined()) e.bias = static_cast<const float*>(bias.data());
    if (residual.defined()) {
      e.residual = static_cast<const float*>(residual.data());
      e.ld_residual = weight.N;
    }
    e.activation = activation;
    kernels::gemm_packed(rows, static_cast<const float*>(x.data()), weight.K, weight,
                         static_cast<float*>(out.data()), weight.N, e);
  }
};

bool has_data(const Tensor& t) { return t.defined() && t.storage()->data != nullptr; }

}  // namespace

kernels::Activation activation_of(const ir::Node* node) {
  if (!node) return kernels::Activation::none;
  std::string_view text = node->op()->text;
  if (text.starts_with("relu(")) return kernels::Activation::relu;
  if (text.starts_with("silu(")) return kernels::Activation::silu;
  if (text.starts_with("sigmoid(")) return kernels::Activation::sigmoid;
  if (text.starts_with("tanh(")) return kernels::Activation::tanh;
  if (text.starts_with("hardswish(")) return kernels::Activation::hardswish;
  if (text.starts_with("gelu(")) {
    const ir::Operand* how = node->find_input("approximate");
    bool tanh =
        how && how->is_constant() && how->constant().is_string() && how->constant().string() == "tanh";
    return tanh ? kernels::Activation::gelu_tanh : kernels::Activation::gelu;
  }
  auto number = [&](const char* name, double wanted) {
    const ir::Operand* o = node->find_input(name);
    return o && o->is_constant() && o->constant().is_number() && o->constant().scalar().equals(wanted);
  };
  if (text.starts_with("hardtanh(") && number("min_val", 0) && number("max_val", 6))
    return kernels::Activation::relu6;
  if (text.starts_with("clamp(") && number("min", 0) && number("max", 6)) return kernels::Activation::relu6;
  return kernels::Activation::none;
}

bool can_fuse_activation(const ir::Node& node) {
  if (!node.op() || !node.input(0).is_value()) return false;
  return activation_of(&node) != kernels::Activation::none;
}

Owned<Step> make_pointwise_step(const NodeView& view) {
  const Op& op = *view.node.op();
  const Tensor& out = view.output;
  // Every operand in one order without holes: row-major, or an image with its channels innermost.
  int64_t span = 1;
  for (int64_t d = 0; d < out.dim(); ++d) span += (out.int_sizes()[d] - 1) * out.int_strides()[d];
  bool dense = out.int_numel() > 0 && span == out.int_numel() && !op.is(op_condition);
  std::vector<Tensor> inputs;
  for (const Value& v : view.inputs) {
    if (!v.is_tensor()) continue;
    const Tensor& t = v.tensor();
    dense &= t.dim() == out.dim() && t.int_numel() == out.int_numel() && !t->wrapped_number &&
             (Dims(t.strides()) == Dims(out.strides()) || (t.is_contiguous() && out.is_contiguous()));
    if (!inputs.empty()) dense &= t.dtype() == inputs[0].dtype();
    inputs.push_back(t);
  }
  // A number in a tensor's place would have to be read as a broadcast.
  size_t tensors_wanted = 0;
  for (const SchemaArg& a : op.schema().args) tensors_wanted += a.type.base == BaseType::tensor;
  dense &= inputs.size() == tensors_wanted && !inputs.empty();
  if (dense) {
    DType in = inputs[0].dtype();
    dense = compute_dtype(in) == in && !(op.is(op_float) && is_integral(in, true)) &&
            !op.is(op_real | op_scalars);
    dense &= out.dtype() == (op.is(op_bool) ? kBool : in);
  }
  auto general = new_owned<GeneralLoop>();
  general->op = &op;
  general->values = view.inputs.vec();
  general->bound = new_owned<Bound>(op, general->values);
  general->out = out;
  if (dense) {
    if (kernels::Loop loop = kernels::find_loop(op.loop, inputs[0].dtype())) {
      auto step = new_owned<DenseLoop>();
      step->loop = loop;
      step->in = inputs[0].dtype();
      step->out_type = out.dtype();
      step->inputs = inputs;
      step->out = out;
      step->count = out.int_numel();
      if (op.params) op.params(general->bound->args(), &step->params);
      return step;
    }
  }
  return general;
}

namespace {

struct LinearParts {
  Tensor x, weight, bias;
  bool transposed = true;  // weight is [out, in]
  int64_t K = 0, N = 0;
};

// What linear, addmm and mm have in common; false where the packed product does not fit.
bool linear_parts(const NodeView& view, LinearParts& p) {
  std::string_view name = view.node.op()->text;
  if (name.starts_with("linear(")) {
    p.x = view.inputs[0].tensor();
    p.weight = view.inputs[1].tensor();
    p.bias = view.inputs[2].is_none() ? Tensor() : view.inputs[2].tensor();
  } else if (name.starts_with("addmm(")) {
    p.bias = view.inputs[0].tensor();
    p.x = view.inputs[1].tensor();
    p.weight = view.inputs[2].tensor();
    p.transposed = false;
    if (!view.inputs[3].scalar().equals(1) || !view.inputs[4].scalar().equals(1)) return false;
  } else {
    p.x = view.inputs[0].tensor();
    p.weight = view.inputs[1].tensor();
    p.transposed = false;
    // A batched product whose matrices are one and the same.
    if (p.weight.dim() == 3 && p.weight.int_sizes()[0] > 0 &&
        (p.weight.int_strides()[0] == 0 || p.weight.int_sizes()[0] == 1))
      p.weight = p.weight.as_view({p.weight.sizes()[1], p.weight.sizes()[2]},
                                  {p.weight.strides()[1], p.weight.strides()[2]}, p.weight.offset());
  }
  if (p.x.dtype() != kFloat || p.weight.dtype() != kFloat || p.weight.dim() != 2 || p.x.dim() < 1)
    return false;
  if (!has_data(p.weight)) return false;
  // A transposed view of a row-major weight is the row-major weight, transposed.
  if (!p.weight.is_contiguous()) {
    if (p.weight.int_strides()[0] != 1) return false;
    p.weight =
        p.weight.as_view({p.weight.sizes()[1], p.weight.sizes()[0]}, {p.weight.strides()[1], SymInt(1)});
    p.transposed = !p.transposed;
  }
  p.K = p.weight.int_sizes()[p.transposed ? 1 : 0];
  p.N = p.weight.int_sizes()[p.transposed ? 0 : 1];
  if (p.bias.defined() &&
      (p.bias.dim() != 1 || !p.bias.is_contiguous() || p.bias.dtype() != kFloat || p.bias.int_numel() != p.N))
    return false;
  return p.K != 0 && p.N != 0 && p.x.int_numel() != 0;
}

}  // namespace

// x may be in any order: it is made row-major before.
bool can_pack_linear(const NodeView& view) {
  LinearParts ignored;
  return linear_parts(view, ignored);
}

Owned<Step> make_linear_step(const NodeView& view, const Tensor& bias, const ir::Node* activation,
                             const Tensor& residual) {
  LinearParts p;
  linear_parts(view, p);
  auto step = new_owned<PackedLinear>();
  step->weight =
      kernels::pack_b(p.transposed, p.K, p.N, p.weight.data_ptr<float>(), p.weight.int_strides()[0]);
  step->x = p.x;
  step->bias = p.bias.defined() ? p.bias : bias;
  step->out = view.output;
  step->residual = residual;
  step->rows = p.x.int_numel() / p.K;
  step->activation = activation_of(activation);
  return step;
}

}  // namespace tern::runtime
