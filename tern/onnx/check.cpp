// The checker: names, order, types, opsets, and for the operators Tern knows arity and attributes.
#include <unordered_map>
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/onnx/onnx.h"

namespace tern::onnx {

namespace {

// What onnx.defs says about an operator, over all its versions.
struct OpFacts {
  std::string_view name;
  int since;
  int min_inputs, max_inputs, min_outputs, max_outputs;
  std::string_view attributes;
};
constexpr OpFacts op_facts[] = {
    {"Abs", 1, 1, 1, 1, 1, "consumed_inputs"},
    {"Acos", 7, 1, 1, 1, 1, ""},
    {"Acosh", 9, 1, 1, 1, 1, ""},
    {"Add", 1, 2, 2, 1, 1, "axis broadcast consumed_inputs"},
    {"And", 1, 2, 2, 1, 1, "axis broadcast"},
    {"ArgMax", 1, 1, 1, 1, 1, "axis keepdims select_last_index"},
    {"ArgMin", 1, 1, 1, 1, 1, "axis keepdims select_last_index"},
    {"Asin", 7, 1, 1, 1, 1, ""},
    {"Asinh", 9, 1, 1, 1, 1, ""},
    {"Atan", 7, 1, 1, 1, 1, ""},
    {"Atanh", 9, 1, 1, 1, 1, ""},
    {"Attention", 23, 3, 7, 1, 4,
     "is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode right_window_size scale "
     "softcap softmax_precision"},
    {"AveragePool", 1, 1, 1, 1, 1,
     "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides"},
    {"BatchNormalization", 1, 5, 5, 1, 5, "consumed_inputs epsilon is_test momentum spatial training_mode"},
    {"BitShift", 11, 2, 2, 1, 1, "direction"},
    {"BitwiseAnd", 18, 2, 2, 1, 1, ""},
    {"BitwiseNot", 18, 1, 1, 1, 1, ""},
    {"BitwiseOr", 18, 2, 2, 1, 1, ""},
    {"BitwiseXor", 18, 2, 2, 1, 1, ""},
    {"BlackmanWindow", 17, 1, 1, 1, 1, "output_datatype periodic"},
    {"Cast", 1, 1, 1, 1, 1, "round_mode saturate to"},
    {"CastLike", 15, 2, 2, 1, 1, "round_mode saturate"},
    {"Ceil", 1, 1, 1, 1, 1, "consumed_inputs"},
    {"Celu", 12, 1, 1, 1, 1, "alpha"},
    {"Clip", 1, 1, 3, 1, 1, "consumed_inputs max min"},
    {"Compress", 9, 2, 2, 1, 1, "axis"},
    {"Concat", 1, 1, 255, 1, 1, "axis"},
    {"ConcatFromSequence", 11, 1, 1, 1, 1, "axis new_axis"},
    {"Constant", 1, 0, 0, 1, 1,
     "sparse_value value value_float value_floats value_int value_ints value_string value_strings"},
    {"ConstantOfShape", 9, 1, 1, 1, 1, "value"},
    {"Conv", 1, 2, 3, 1, 1, "auto_pad dilations group kernel_shape pads strides"},
    {"ConvTranspose", 1, 2, 3, 1, 1,
     "auto_pad dilations group kernel_shape output_padding output_shape pads strides"},
    {"Cos", 7, 1, 1, 1, 1, ""},
    {"Cosh", 9, 1, 1, 1, 1, ""},
    {"CumSum", 11, 2, 2, 1, 1, "exclusive reverse"},
    {"DFT", 17, 1, 3, 1, 1, "axis inverse onesided"},
    {"DepthToSpace", 1, 1, 1, 1, 1, "blocksize mode"},
    {"DequantizeLinear", 10, 2, 3, 1, 1, "axis block_size output_dtype"},
    {"Det", 11, 1, 1, 1, 1, ""},
    {"Div", 1, 2, 2, 1, 1, "axis broadcast consumed_inputs"},
    {"Dropout", 1, 1, 3, 1, 2, "consumed_inputs is_test ratio seed"},
    {"Einsum", 12, 1, 255, 1, 1, "equation"},
    {"Elu", 1, 1, 1, 1, 1, "alpha consumed_inputs"},
    {"Equal", 1, 2, 2, 1, 1, "axis broadcast"},
    {"Erf", 9, 1, 1, 1, 1, ""},
    {"Exp", 1, 1, 1, 1, 1, "consumed_inputs"},
    {"Expand", 8, 2, 2, 1, 1, ""},
    {"EyeLike", 9, 1, 1, 1, 1, "dtype k"},
    {"Flatten", 1, 1, 1, 1, 1, "axis"},
    {"Floor", 1, 1, 1, 1, 1, "consumed_inputs"},
    {"GRU", 1, 3, 6, 0, 2,
     "activation_alpha activation_beta activations clip direction hidden_size layout linear_before_reset "
     "output_sequence"},
    {"Gather", 1, 2, 2, 1, 1, "axis"},
    {"GatherElements", 11, 2, 2, 1, 1, "axis"},
    {"GatherND", 11, 2, 2, 1, 1, "batch_dims"},
    {"Gelu", 20, 1, 1, 1, 1, "approximate"},
    {"Gemm", 1, 2, 3, 1, 1, "alpha beta broadcast transA transB"},
    {"GlobalAveragePool", 1, 1, 1, 1, 1, ""},
    {"GlobalMaxPool", 1, 1, 1, 1, 1, ""},
    {"Greater", 1, 2, 2, 1, 1, "axis broadcast"},
    {"GreaterOrEqual", 12, 2, 2, 1, 1, ""},
    {"GridSample", 16, 2, 2, 1, 1, "align_corners mode padding_mode"},
    {"GroupNormalization", 18, 3, 3, 1, 1, "epsilon num_groups stash_type"},
    {"HammingWindow", 17, 1, 1, 1, 1, "output_datatype periodic"},
    {"HannWindow", 17, 1, 1, 1, 1, "output_datatype periodic"},
    {"HardSigmoid", 1, 1, 1, 1, 1, "alpha beta consumed_inputs"},
    {"HardSwish", 14, 1, 1, 1, 1, ""},
    {"Hardmax", 1, 1, 1, 1, 1, "axis"},
    {"Identity", 1, 1, 1, 1, 1, ""},
    {"If", 1, 1, 1, 1, 255, "else_branch then_branch"},
    {"InstanceNormalization", 1, 3, 3, 1, 1, "consumed_inputs epsilon"},
    {"IsInf", 10, 1, 1, 1, 1, "detect_negative detect_positive"},
    {"IsNaN", 9, 1, 1, 1, 1, ""},
    {"LRN", 1, 1, 1, 1, 1, "alpha beta bias size"},
    {"LSTM", 1, 3, 8, 0, 3,
     "activation_alpha activation_beta activations clip direction hidden_size input_forget layout "
     "output_sequence"},
    {"LayerNormalization", 17, 2, 3, 1, 3, "axis epsilon stash_type"},
    {"LeakyRelu", 1, 1, 1, 1, 1, "alpha consumed_inputs"},
    {"Less", 1, 2, 2, 1, 1, "axis broadcast"},
    {"LessOrEqual", 12, 2, 2, 1, 1, ""},
    {"Log", 1, 1, 1, 1, 1, "consumed_inputs"},
    {"LogSoftmax", 1, 1, 1, 1, 1, "axis"},
    {"Loop", 1, 2, 255, 1, 255, "body"},
    {"LpNormalization", 1, 1, 1, 1, 1, "axis p"},
    {"MatMul", 1, 2, 2, 1, 1, ""},
    {"Max", 1, 1, 255, 1, 1, "consumed_inputs"},
    {"MaxPool", 1, 1, 1, 1, 2, "auto_pad ceil_mode dilations kernel_shape pads storage_order strides"},
    {"Mean", 1, 1, 255, 1, 1, "consumed_inputs"},
    {"MeanVarianceNormalization", 9, 1, 1, 1, 1, "axes"},
    {"Min", 1, 1, 255, 1, 1, "consumed_inputs"},
    {"Mish", 18, 1, 1, 1, 1, ""},
    {"Mod", 10, 2, 2, 1, 1, "fmod"},
    {"Mul", 1, 2, 2, 1, 1, "axis broadcast consumed_inputs"},
    {"Neg", 1, 1, 1, 1, 1, "consumed_inputs"},
    {"NonZero", 9, 1, 1, 1, 1, ""},
    {"Not", 1, 1, 1, 1, 1, ""},
    {"OneHot", 9, 3, 3, 1, 1, "axis"},
    {"Or", 1, 2, 2, 1, 1, "axis broadcast"},
    {"PRelu", 1, 2, 2, 1, 1, "consumed_inputs"},
    {"Pad", 1, 1, 4, 1, 1, "mode paddings pads value"},
    {"Pow", 1, 2, 2, 1, 1, "axis broadcast"},
    {"QuantizeLinear", 10, 2, 3, 1, 1, "axis block_size output_dtype precision saturate"},
    {"RMSNormalization", 23, 2, 2, 1, 1, "axis epsilon stash_type"},
    {"RNN", 1, 3, 6, 0, 2,
     "activation_alpha activation_beta activations clip direction hidden_size layout output_sequence"},
    {"RandomNormalLike", 1, 1, 1, 1, 1, "dtype mean scale seed"},
    {"RandomUniformLike", 1, 1, 1, 1, 1, "dtype high low seed"},
    {"Range", 11, 3, 3, 1, 1, "stash_type"},
    {"Reciprocal", 1, 1, 1, 1, 1, "consumed_inputs"},
    {"ReduceL1", 1, 1, 2, 1, 1, "axes keepdims noop_with_empty_axes"},
    {"ReduceL2", 1, 1, 2, 1, 1, "axes keepdims noop_with_empty_axes"},
    {"ReduceLogSum", 1, 1, 2, 1, 1, "axes keepdims noop_with_empty_axes"},
    {"ReduceLogSumExp", 1, 1, 2, 1, 1, "axes keepdims noop_with_empty_axes"},
    {"ReduceMax", 1, 1, 2, 1, 1, "axes keepdims noop_with_empty_axes"},
    {"ReduceMean", 1, 1, 2, 1, 1, "axes keepdims noop_with_empty_axes"},
    {"ReduceMin", 1, 1, 2, 1, 1, "axes keepdims noop_with_empty_axes"},
    {"ReduceProd", 1, 1, 2, 1, 1, "axes keepdims noop_with_empty_axes"},
    {"ReduceSum", 1, 1, 2, 1, 1, "axes keepdims noop_with_empty_axes"},
    {"ReduceSumSquare", 1, 1, 2, 1, 1, "axes keepdims noop_with_empty_axes"},
    {"Relu", 1, 1, 1, 1, 1, "consumed_inputs"},
    {"Reshape", 1, 1, 2, 1, 1, "allowzero consumed_inputs shape"},
    {"Resize", 10, 1, 4, 1, 1,
     "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value "
     "keep_aspect_ratio_policy mode nearest_mode"},
    {"Round", 11, 1, 1, 1, 1, ""},
    {"STFT", 17, 2, 4, 1, 1, "onesided"},
    {"Scan", 8, 1, 255, 1, 255,
     "body directions num_scan_inputs scan_input_axes scan_input_directions scan_output_axes "
     "scan_output_directions"},
    {"Scatter", 9, 3, 3, 1, 1, "axis"},
    {"ScatterElements", 11, 3, 3, 1, 1, "axis reduction"},
    {"ScatterND", 11, 3, 3, 1, 1, "reduction"},
    {"Selu", 1, 1, 1, 1, 1, "alpha consumed_inputs gamma"},
    {"SequenceAt", 11, 2, 2, 1, 1, ""},
    {"SequenceConstruct", 11, 1, 255, 1, 1, ""},
    {"Shape", 1, 1, 1, 1, 1, "end start"},
    {"Shrink", 9, 1, 1, 1, 1, "bias lambd"},
    {"Sigmoid", 1, 1, 1, 1, 1, "consumed_inputs"},
    {"Sign", 9, 1, 1, 1, 1, ""},
    {"Sin", 7, 1, 1, 1, 1, ""},
    {"Sinh", 9, 1, 1, 1, 1, ""},
    {"Size", 1, 1, 1, 1, 1, ""},
    {"Slice", 1, 1, 5, 1, 1, "axes ends starts"},
    {"Softmax", 1, 1, 1, 1, 1, "axis"},
    {"Softplus", 1, 1, 1, 1, 1, ""},
    {"Softsign", 1, 1, 1, 1, 1, ""},
    {"SpaceToDepth", 1, 1, 1, 1, 1, "blocksize mode"},
    {"Split", 1, 1, 2, 1, 255, "axis num_outputs split"},
    {"SplitToSequence", 11, 1, 2, 1, 1, "axis keepdims"},
    {"Sqrt", 1, 1, 1, 1, 1, "consumed_inputs"},
    {"Squeeze", 1, 1, 2, 1, 1, "axes"},
    {"Sub", 1, 2, 2, 1, 1, "axis broadcast consumed_inputs"},
    {"Sum", 1, 1, 255, 1, 1, "consumed_inputs"},
    {"Swish", 24, 1, 1, 1, 1, "alpha"},
    {"Tan", 7, 1, 1, 1, 1, ""},
    {"Tanh", 1, 1, 1, 1, 1, "consumed_inputs"},
    {"ThresholdedRelu", 10, 1, 1, 1, 1, "alpha"},
    {"Tile", 1, 2, 3, 1, 1, ""},
    {"TopK", 1, 1, 2, 2, 2, "axis k largest sorted"},
    {"Transpose", 1, 1, 1, 1, 1, "perm"},
    {"Trilu", 14, 1, 2, 1, 1, "upper"},
    {"Unsqueeze", 1, 1, 2, 1, 1, "axes"},
    {"Upsample", 1, 1, 2, 1, 1, "height_scale mode scales width_scale"},
    {"Where", 9, 3, 3, 1, 1, ""},
    {"Xor", 1, 2, 2, 1, 1, "axis broadcast"},
};

const OpFacts* find_facts(std::string_view op) {
  static const auto* index = [] {
    auto* map = new std::unordered_map<std::string_view, const OpFacts*>;
    for (const OpFacts& f : op_facts) map->emplace(f.name, &f);
    return map;
  }();
  auto it = index->find(op);
  return it == index->end() ? nullptr : it->second;
}

bool has_word(std::string_view words, std::string_view word) {
  for (size_t at = 0; at <= words.size();) {
    size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

class Checker {
 public:
  explicit Checker(const Model& model) : model_(model) {}

  std::vector<Problem> run() {
    if (model_.ir_version < 3)
      error("model", fmt::format("the ir_version {} is not valid; it must be 3 or more", model_.ir_version));
    if (model_.opsets.empty()) error("model", "no opset is imported");
    std::unordered_set<std::string> domains;
    for (const OpsetId& o : model_.opsets)
      if (!domains.insert(o.domain).second)
        error("model", fmt::format("the opset of '{}' is imported twice", o.domain));
    if (model_.graph.name.empty()) error("graph", "it has no name");
    std::unordered_set<std::string> visible;
    graph(model_.graph, "graph", visible, true);
    for (const FunctionProto& f : model_.functions) {
      std::string where = fmt::format("function '{}::{}'", f.domain, f.name);
      std::unordered_set<std::string> names(f.inputs.begin(), f.inputs.end());
      nodes(f.nodes, where, names);
      for (const std::string& o : f.outputs)
        if (!names.count(o)) error(where, fmt::format("its output '{}' is computed by no node", o));
    }
    return std::move(problems_);
  }

 private:
  void error(std::string where, std::string what) {
    problems_.push_back({Problem::Severity::error, std::move(where), std::move(what)});
  }
  void note(std::string where, std::string what) {
    problems_.push_back({Problem::Severity::note, std::move(where), std::move(what)});
  }

  void graph(const GraphProto& g, const std::string& where, std::unordered_set<std::string> visible,
             bool top) {
    std::unordered_set<std::string> inputs;
    for (const ValueInfo& v : g.inputs) {
      if (v.name.empty())
        error(where, "an input has no name");
      else if (!inputs.insert(v.name).second)
        error(where, fmt::format("two inputs are called '{}'", v.name));
      if (!top && visible.count(v.name))
        error(where, fmt::format("the input '{}' hides a value of the graph around it", v.name));
      if (top) type(v, fmt::format("input '{}'", v.name));
      visible.insert(v.name);
    }
    std::unordered_set<std::string> constants;
    for (const TensorProto& t : g.initializers) {
      if (t.name.empty())
        error(where, "an initializer has no name");
      else if (!constants.insert(t.name).second)
        error(where, fmt::format("two initializers are called '{}'", t.name));
      if (model_.ir_version < 4 && top && !inputs.count(t.name))
        error(fmt::format("initializer '{}'", t.name),
              "before ir_version 4 every initializer must be an input too");
      visible.insert(t.name);
    }
    nodes(g.nodes, where, visible);
    std::unordered_set<std::string> outputs;
    for (const ValueInfo& v : g.outputs) {
      if (!visible.count(v.name)) error(fmt::format("output '{}'", v.name), "it is computed by no node");
      if (!outputs.insert(v.name).second) error(fmt::format("output '{}'", v.name), "it is listed twice");
      if (top) type(v, fmt::format("output '{}'", v.name));
    }
  }

  void type(const ValueInfo& v, const std::string& where) {
    if (v.type.kind == TypeProto::Kind::none)
      error(where, "it has no type");
    else if (v.type.kind == TypeProto::Kind::tensor && v.type.elem_type == DataType::undefined)
      error(where, "its element type is missing");
    if (v.type.shape)
      for (const Dimension& d : *v.type.shape)
        if (d.value && *d.value < 0) error(where, "a dimension is negative");
  }

  void nodes(const std::vector<NodeProto>& list, const std::string& where,
             std::unordered_set<std::string>& visible) {
    for (const NodeProto& n : list) {
      std::string here = n.name.empty() ? fmt::format("{} -> {}", n.op, n.outputs.empty() ? "" : n.outputs[0])
                                        : fmt::format("node '{}' ({})", n.name, n.op);
      if (where != "graph") here = where + ", " + here;
      for (const std::string& i : n.inputs)
        if (!i.empty() && !visible.count(i))
          error(here, fmt::format("its input '{}' is not computed before it", i));
      operation(n, here);
      for (const Attribute& a : n.attributes)
        for (const auto& inner : a.graphs) graph(*inner, here + "." + a.name, visible, false);
      for (const std::string& o : n.outputs)
        if (!o.empty() && !visible.insert(o).second)
          error(here, fmt::format("its output '{}' is already the name of another value", o));
    }
  }

  void operation(const NodeProto& n, const std::string& here) {
    std::unordered_set<std::string> seen;
    for (const Attribute& a : n.attributes) {
      if (a.name.empty())
        error(here, "an attribute has no name");
      else if (!seen.insert(a.name).second)
        error(here, fmt::format("the attribute '{}' is given twice", a.name));
      if (a.type == Attribute::Type::undefined && a.ref.empty())
        error(here, fmt::format("the attribute '{}' has no value", a.name));
    }
    for (const FunctionProto& f : model_.functions)
      if (f.name == n.op && f.domain == n.domain) return;
    if (!model_.opset(n.domain))
      error(here, fmt::format("the opset of the domain '{}' is not imported", n.domain));
    const OpFacts* f = n.domain.empty() ? find_facts(n.op) : nullptr;
    if (!f) {
      note(here, fmt::format("the operator {}{}{} is not known to Tern", n.domain,
                             n.domain.empty() ? "" : "::", n.op));
      return;
    }
    if (model_.opset() < f->since)
      error(here,
            fmt::format("{} exists from opset {} on; the model uses {}", n.op, f->since, model_.opset()));
    int inputs = static_cast<int>(n.inputs.size()), outputs = static_cast<int>(n.outputs.size());
    if (inputs < f->min_inputs || (f->max_inputs < 255 && inputs > f->max_inputs))
      error(here,
            fmt::format("it has {} inputs; {} takes {}", inputs, n.op, range(f->min_inputs, f->max_inputs)));
    if (outputs < f->min_outputs || (f->max_outputs < 255 && outputs > f->max_outputs))
      error(here, fmt::format("it has {} outputs; {} gives {}", outputs, n.op,
                              range(f->min_outputs, f->max_outputs)));
    for (const Attribute& a : n.attributes)
      if (!has_word(f->attributes, a.name))
        error(here, fmt::format("Unrecognized attribute: {} for operator {}", a.name, n.op));
  }

  static std::string range(int least, int most) {
    if (most >= 255) return fmt::format("{} or more", least);
    return least == most ? std::to_string(least) : fmt::format("{} to {}", least, most);
  }

  const Model& model_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> check(const Model& model) { return Checker(model).run(); }

}  // namespace tern::onnx
