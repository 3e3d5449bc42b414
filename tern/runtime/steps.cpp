// Steps with prepared state: elementwise loops resolved once, weights packed once, activations fused.
#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/dispatch/pointwise.h"
#include "tern/kernels/conv.h"
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
  std::unique_ptr<Bound> bound;
  Tensor out;
  void run() override { pointwise_into(*op, bound->args(), out); }
};

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
  return kernels::Activation::none;
}

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

struct PackedConv : Step {
  std::unique_ptr<kernels::PreparedConv> conv;
  Tensor x, out, residual;
  void run() override {
    conv->run(static_cast<const float*>(x.data()),
              residual.defined() ? static_cast<const float*>(residual.data()) : nullptr,
              static_cast<float*>(out.data()));
  }
};

bool has_data(const Tensor& t) { return t.defined() && t.storage()->data != nullptr; }

}  // namespace

bool can_fuse_activation(const ir::Node& node) {
  if (!node.op() || !node.input(0).is_value()) return false;
  return activation_of(&node) != kernels::Activation::none;
}

std::unique_ptr<Step> make_pointwise_step(const NodeView& view) {
  const Op& op = *view.node.op();
  const Tensor& out = view.output;
  bool dense = out.is_contiguous() && !op.is(op_condition);
  std::vector<Tensor> inputs;
  for (const Value& v : view.inputs) {
    if (!v.is_tensor()) continue;
    const Tensor& t = v.tensor();
    dense &=
        t.is_contiguous() && t.dim() == out.dim() && t.int_numel() == out.int_numel() && !t->wrapped_number;
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
  auto general = std::make_unique<GeneralLoop>();
  general->op = &op;
  general->values = view.inputs.vec();
  general->bound = std::make_unique<Bound>(op, general->values);
  general->out = out;
  if (dense) {
    if (kernels::Loop loop = kernels::find_loop(op.loop, inputs[0].dtype())) {
      auto step = std::make_unique<DenseLoop>();
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

std::unique_ptr<Step> make_linear_step(const NodeView& view, const ir::Node* activation,
                                       const Tensor& residual) {
  std::string_view name = view.node.op()->text;
  Tensor x, weight, bias;
  bool transposed = true;  // weight is [out, in]
  if (name.starts_with("linear(")) {
    x = view.inputs[0].tensor();
    weight = view.inputs[1].tensor();
    bias = view.inputs[2].is_none() ? Tensor() : view.inputs[2].tensor();
  } else if (name.starts_with("addmm(")) {
    bias = view.inputs[0].tensor();
    x = view.inputs[1].tensor();
    weight = view.inputs[2].tensor();
    transposed = false;
    if (!view.inputs[3].scalar().equals(1) || !view.inputs[4].scalar().equals(1)) return nullptr;
  } else {
    x = view.inputs[0].tensor();
    weight = view.inputs[1].tensor();
    transposed = false;
  }
  if (x.dtype() != kFloat || weight.dtype() != kFloat || weight.dim() != 2 || x.dim() < 1) return nullptr;
  if (!has_data(weight) || !x.is_contiguous() || !view.output.is_contiguous()) return nullptr;
  if (bias.defined() && (bias.dim() != 1 || !bias.is_contiguous() || bias.dtype() != kFloat)) return nullptr;
  if (bias.defined() && bias.int_numel() != view.output.int_sizes()[view.output.dim() - 1]) return nullptr;
  // A transposed view of a row-major weight is the row-major weight, transposed.
  if (!weight.is_contiguous()) {
    if (weight.int_strides()[0] != 1) return nullptr;
    weight = weight.as_view({weight.sizes()[1], weight.sizes()[0]}, {weight.strides()[1], SymInt(1)});
    transposed = !transposed;
  }
  int64_t K = transposed ? weight.int_sizes()[1] : weight.int_sizes()[0],
          N = transposed ? weight.int_sizes()[0] : weight.int_sizes()[1];
  if (K == 0 || N == 0 || x.int_numel() == 0) return nullptr;
  auto step = std::make_unique<PackedLinear>();
  step->weight = kernels::pack_b(transposed, K, N, weight.data_ptr<float>(), weight.int_strides()[0]);
  step->x = x;
  step->bias = bias;
  step->out = view.output;
  step->residual = residual;
  step->rows = x.int_numel() / K;
  step->activation = activation_of(activation);
  return step;
}

std::unique_ptr<Step> make_conv_step(const NodeView& view, const ir::Node* activation,
                                     const Tensor& residual) {
  // convolution(input, weight, bias?, stride, padding, dilation, transposed, output_padding, groups)
  const Tensor &x = view.inputs[0].tensor(), &weight = view.inputs[1].tensor();
  Tensor bias = view.inputs[2].is_none() ? Tensor() : view.inputs[2].tensor();
  if (x.dtype() != kFloat || !has_data(weight) || !weight.is_contiguous() || !x.is_contiguous() ||
      !view.output.is_contiguous())
    return nullptr;
  if (view.inputs[6].to_bool() || x.int_numel() == 0 || view.output.int_numel() == 0) return nullptr;
  if (bias.defined() && !has_data(bias)) return nullptr;
  int dims = static_cast<int>(weight.dim()) - 2;
  if (dims < 1 || dims > 3 || x.dim() != weight.dim()) return nullptr;
  kernels::ConvShape s;
  s.dims = dims;
  s.batch = x.int_sizes()[0];
  s.in_channels = x.int_sizes()[1];
  s.out_channels = weight.int_sizes()[0];
  s.groups = view.inputs[8].to_int();
  auto entry = [](const Value& list, int i) {
    return list.items().size() == 1 ? list.items()[0].to_int() : list.items()[i].to_int();
  };
  for (int i = 0; i < dims; ++i) {
    s.in_size[i] = x.int_sizes()[i + 2];
    s.kernel[i] = weight.int_sizes()[i + 2];
    s.stride[i] = entry(view.inputs[3], i);
    s.padding[i] = entry(view.inputs[4], i);
    s.dilation[i] = entry(view.inputs[5], i);
  }
  auto step = std::make_unique<PackedConv>();
  step->conv = std::make_unique<kernels::PreparedConv>(
      s, weight.data_ptr<float>(), bias.defined() ? bias.data_ptr<float>() : nullptr,
      activation_of(activation), residual.defined(), kernels::PreparedConv::Layout::channels_first);
  step->x = x;
  step->out = view.output;
  step->residual = residual;
  return step;
}

}  // namespace tern::runtime
