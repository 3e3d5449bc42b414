// What files keep of packed weights, and the objects made from it.
#include "tern/ops/quantized/detail/packed.h"

#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/quantized/values.h"

namespace tern::quantized {
namespace {

[[noreturn]] void bad_state(std::string_view name, std::string_view why) {
  failf(ErrorKind::value, "the state of {} is not what PyTorch writes: {}", name, why);
}
const std::vector<Value>& parts(const Value& v, std::string_view name, size_t least) {
  if ((!v.is_tuple() && !v.is_list()) || v.items().size() < least)
    bad_state(name, fmt::format("expected {} values, found {}", least, v.kind_name()));
  return v.items();
}
Tensor tensor_or_none(const Value& v) { return v.is_none() ? Tensor() : v.tensor(); }

Value linear_from(const Value& state) {
  const std::vector<Value>& s = parts(state, linear_class, 2);
  if (!s[0].is_tensor()) bad_state(linear_class, "it has no weight");
  const Tensor& weight = s[0].tensor();
  if (weight.is_quantized()) return PackedLinear::make(weight, tensor_or_none(s[1]));
  if (weight.dtype() != kFloat) bad_state(linear_class, "the weight is neither qint8 nor float");
  return PackedLinear::make_half(weight, tensor_or_none(s[1]));
}

// Numbers in the order of all versions: spatial dims, stride, padding, dilation, output padding, groups and
// whether it is transposed.
Value conv_from(int64_t dims, const std::vector<int64_t>& n, const Tensor& weight, const Tensor& bias) {
  std::string_view name = dims == 2 ? conv2d_class : conv3d_class;
  const auto d = static_cast<size_t>(dims);
  if (n.size() != 4 * d + 3 || n[0] != dims)
    bad_state(name, fmt::format("{} numbers for {} dimensions", n.size(), dims));
  auto take = [&](size_t i) {
    auto first = n.begin() + static_cast<std::ptrdiff_t>(1 + i * d);
    return std::vector<int64_t>(first, first + dims);
  };
  return PackedConv::make(dims, weight, bias,
                          {take(0), take(1), take(3), take(2), n[4 * d + 1], n[4 * d + 2] != 0});
}
Value conv_from(int64_t dims, const Value& state) {
  std::string_view name = dims == 2 ? conv2d_class : conv3d_class;
  const std::vector<Value>& s = parts(state, name, 2);
  if (s[0].is_string() && s[0].string() == "2") {
    // version, [numbers, weight], [bias]
    if (s.size() < 3) bad_state(name, "it has no bias");
    const std::vector<Value>& given = parts(s[1], name, 2);
    const std::vector<Value>& optional = parts(s[2], name, 0);
    return conv_from(dims, given[0].tensor().to_vector<int64_t>(), given[1].tensor(),
                     optional.empty() ? Tensor() : tensor_or_none(optional[0]));
  }
  if (s[0].is_int() && s[0].to_int() == 3) {
    // version, numbers, [nothing, weight, bias]
    if (s.size() < 3) bad_state(name, "it has no weight");
    std::vector<int64_t> numbers;
    for (const Value& v : parts(s[1], name, 0)) numbers.push_back(v.to_int());
    const std::vector<Value>& tensors = parts(s[2], name, 3);
    return conv_from(dims, numbers, tensors[1].tensor(), tensor_or_none(tensors[2]));
  }
  // Before there were versions: weight, bias, and lists of tensors of one number each.
  if (s[0].is_tensor()) {
    if (s.size() < 6) bad_state(name, "too few values");
    auto numbers = [&](const Value& v) {
      std::vector<int64_t> list;
      for (const Value& t : parts(v, name, 0)) list.push_back(t.tensor().item<int64_t>());
      return list;
    };
    return PackedConv::make(
        dims, s[0].tensor(), tensor_or_none(s[1]),
        {numbers(s[2]), numbers(s[3]), {}, numbers(s[4]), s[5].tensor().item<int64_t>(), false});
  }
  bad_state(name, "a version that is not known");
}

Value embedding_from(const Value& state) {
  const std::vector<Value>& s = parts(state, embedding_class, 4);
  const std::vector<Value>& tensors = parts(s[1], embedding_class, 1);
  const std::vector<Value>& numbers = parts(s[3], embedding_class, 1);
  if (numbers[0].to_int() != 8)
    failf(ErrorKind::not_supported, "an embedding of {} bits: Tern has quantized embeddings of 8 bits only",
          numbers[0].to_int());
  return PackedEmbedding::make(tensors[0].tensor());
}

Value cell_from(const Value& state) {
  const std::vector<Value>& s = parts(state, cell_class, 5);
  const std::string& kind = s[0].string();
  auto* c = new CellParameters;
  Value v = Value::object(c);
  c->half = kind == "quantized_fp16";
  if (!c->half && kind != "quantized_dynamic")
    failf(ErrorKind::not_supported,
          "a recurrent cell of the kind '{}': known are quantized_dynamic and quantized_fp16", kind);
  const std::vector<Value>& packed = parts(s[4], cell_class, 2);
  c->input = packed[0];
  c->hidden = packed[1];
  PackedLinear::of(c->input, "CellParamsBase");
  PackedLinear::of(c->hidden, "CellParamsBase");
  if (!c->half) {
    const std::vector<Value>& bias = parts(s[1], cell_class, 2);
    c->input_bias = tensor_or_none(bias[0]);
    c->hidden_bias = tensor_or_none(bias[1]);
    const std::vector<Value>& numbers = parts(s[3], cell_class, 0);
    c->reduce_range = !numbers.empty() && numbers[0].to_int() != 0;
  }
  return v;
}

}  // namespace

bool is_native_class(std::string_view name) {
  return name == linear_class || name == conv2d_class || name == conv3d_class || name == embedding_class ||
         name == cell_class;
}

std::string method_operator(std::string_view name, std::string_view method) {
  const bool conv2d = name == conv2d_class;
  if (conv2d || name == conv3d_class)
    for (const char* known :
         {"unpack", "stride", "padding", "output_padding", "dilation", "groups", "transpose"})
      if (method == known) return (conv2d ? "quantized::conv2d_" : "quantized::conv3d_") + std::string(known);
  if (name == linear_class && method == "unpack") return "quantized::linear_unpack";
  return "";
}

Value native_object(std::string_view name, const Value& state) {
  if (name == linear_class) return linear_from(state);
  if (name == conv2d_class) return conv_from(2, state);
  if (name == conv3d_class) return conv_from(3, state);
  if (name == embedding_class) return embedding_from(state);
  if (name == cell_class) return cell_from(state);
  failf(ErrorKind::not_supported, "{} is a class of PyTorch that Tern does not have", name);
}

Value PackedConv::state() const {
  std::vector<int16_t> n{static_cast<int16_t>(dims)};
  for (const auto* list : {&p.stride, &p.padding, &p.dilation, &p.output_padding})
    for (int64_t v : *list) n.push_back(static_cast<int16_t>(v));
  n.push_back(static_cast<int16_t>(p.groups));
  n.push_back(p.transposed);
  std::vector<Value> given{Value(from_vector(n, {SymInt(n.size())})), Value(weight)}, optional{Value(bias)};
  return Value::tuple({Value("2"), Value::list(std::move(given)), Value::list(std::move(optional))});
}
Value PackedEmbedding::state() const {
  return Value::tuple({Value(1), Value::list({Value(weight)}), Value::list({}), Value::list({Value(8)})});
}
Value CellParameters::state() const {
  std::vector<Value> tensors, numbers;
  if (!half) {
    tensors = {Value(input_bias), Value(hidden_bias)};
    numbers = {Value(static_cast<int64_t>(reduce_range))};
  }
  return Value::tuple({Value(half ? "quantized_fp16" : "quantized_dynamic"), Value::list(std::move(tensors)),
                       Value::list({}), Value::list(std::move(numbers)), Value::list({input, hidden})});
}

}  // namespace tern::quantized
