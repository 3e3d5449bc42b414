// Activations that a rule cannot say, and dropout.
#include "tern/onnx/lower.h"

namespace tern::onnx {

namespace {

void lower_gelu(Call& c) {
  Ref x = c.tensor(0);
  std::string approximate = c.text(1);
  if (c.opset() >= 20)
    return c.set(
        c.emit("Gelu", {x},
               {Attribute::of("approximate", approximate.empty() ? std::string("none") : approximate)}));
  auto number = [&](double v) { return c.constant(Scalar(v), x.dtype); };
  Ref inner;
  if (approximate == "tanh") {
    Ref cube = c.emit("Mul", {c.emit("Mul", {x, x}), x});
    Ref sum = c.emit("Add", {x, c.emit("Mul", {cube, number(0.044715)})});
    inner = c.emit("Tanh", {c.emit("Mul", {sum, number(0.7978845608028654)})});
  } else {
    inner = c.emit("Erf", {c.emit("Div", {x, number(1.4142135623730951)})});
  }
  c.set(c.emit("Mul", {c.emit("Mul", {x, c.emit("Add", {inner, number(1)})}), number(0.5)}));
}

void lower_glu(Call& c) {
  std::vector<Ref> halves =
      c.emit_many("Split", {c.tensor(0)},
                  {Attribute::of("axis", c.integer(1)), Attribute::of("num_outputs", int64_t{2})}, 2);
  c.set(c.emit("Mul", {halves[0], c.emit("Sigmoid", {halves[1]})}));
}

void lower_prelu(Call& c) {
  Ref x = c.tensor(0), w = c.tensor(1);
  int64_t rank = c.rank(0);
  std::vector<Size> shape = {{-1}};
  for (int64_t d = 2; d < rank; ++d) shape.push_back({1});
  if (rank > 2 && c.dim(1, 0) != 1) w = c.reshape(w, shape);
  c.set(c.emit("PRelu", {x, w}));
}
void lower_prelu_kernel(Call& c) { c.set(c.emit("PRelu", {c.tensor(0), c.tensor(1)})); }

void lower_threshold(Call& c) {
  Ref x = c.tensor(0);
  c.set(c.emit("Where", {c.emit("Greater", {x, c.constant(c.scalar(1), x.dtype)}), x,
                         c.constant(c.scalar(2), x.dtype)}));
}

void lower_dropout(Call& c) {
  if (c.flag(2) && c.number(1) != 0)
    c.refuse("dropout in training mode; call eval() on the module before it is exported");
  c.set(c.tensor(0));
  if (c.node().num_outputs() > 1 && c.node().output(1).has_uses()) c.refuse("the mask of dropout is used");
}
void lower_dropout_flag_first(Call& c) { lower_dropout(c); }

void lower_log_sigmoid(Call& c) {
  c.set(c.emit("Neg", {c.emit("Softplus", {c.emit("Neg", {c.tensor(0)})})}));
}

void lower_safe_softmax(Call& c) {
  Ref x = c.dtype() == DType::undefined ? c.tensor(0) : c.cast(c.tensor(0), c.dtype());
  Ref y = c.emit("Softmax", {x}, {Attribute::of("axis", c.integer(1))});
  c.set(c.emit("Where", {c.emit("IsNaN", {y}), c.constant(Scalar(0), x.dtype), y}));
}

constexpr Lowering table[] = {
    {"aten::gelu", lower_gelu},
    {"aten::glu", lower_glu},
    {"aten::prelu", lower_prelu},
    {"aten::_prelu_kernel", lower_prelu_kernel},
    {"aten::threshold", lower_threshold},
    {"aten::dropout", lower_dropout},
    {"aten::native_dropout", lower_dropout_flag_first},
    {"aten::feature_dropout", lower_dropout},
    {"aten::alpha_dropout", lower_dropout},
    {"aten::log_sigmoid", lower_log_sigmoid},
    {"aten::log_sigmoid_forward", lower_log_sigmoid},
    {"aten::_safe_softmax", lower_safe_softmax},
};

}  // namespace

Span<const Lowering> activation_lowerings() { return table; }

}  // namespace tern::onnx
