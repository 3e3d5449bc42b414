// Arithmetic that a rule cannot say: rounding divisions, bounds, fused multiply-adds.
#include "tern/onnx/lower.h"

namespace tern::onnx {

namespace {

// A tensor or a number, in the result's dtype.
Ref operand(Call& c, size_t i, DType dtype) {
  if (c.is_constant(i) && !c.node().input(i).is_value()) {
    const ir::Operand& o = c.node().input(i);
    if (o.is_constant() && !o.constant().is_tensor()) return c.constant(c.scalar(i), dtype);
  }
  return c.cast(c.tensor(i), dtype);
}

DType result(Call& c) {
  if (c.dtype() != DType::undefined) return c.dtype();
  return c.tensor(0).dtype;
}

Ref floor_division(Call& c, const Ref& a, const Ref& b, DType dtype) {
  if (is_floating(dtype)) return c.emit("Floor", {c.emit("Div", {a, b})});
  Ref rest = c.emit("Mod", {a, b});  // has the divisor's sign: what is left is divisible
  return c.emit("Div", {c.emit("Sub", {a, rest}), b});
}

void lower_div_mode(Call& c) {
  DType dtype = result(c);
  Ref a = operand(c, 0, dtype), b = operand(c, 1, dtype);
  std::string mode = c.text(2);
  if (mode == "floor") return c.set(floor_division(c, a, b, dtype));
  Ref y = c.emit("Div", {a, b});
  if (mode == "trunc" && is_floating(dtype))
    y = c.emit("Mul", {c.emit("Sign", {y}), c.emit("Floor", {c.emit("Abs", {y})})});
  c.set(y);
}

void lower_floor_divide(Call& c) {
  DType dtype = result(c);
  c.set(floor_division(c, operand(c, 0, dtype), operand(c, 1, dtype), dtype));
}

void lower_rsub(Call& c) {
  DType dtype = result(c);
  Ref self = operand(c, 0, dtype), other = operand(c, 1, dtype);
  if (!c.is_none(2) && !c.scalar(2).equals(1)) self = c.emit("Mul", {self, c.constant(c.scalar(2), dtype)});
  c.set(c.emit("Sub", {other, self}));
}

void lower_clamp(Call& c) {
  DType dtype = result(c);
  c.set(c.emit("Clip", {operand(c, 0, dtype), c.is_none(1) ? Ref() : operand(c, 1, dtype),
                        c.is_none(2) ? Ref() : operand(c, 2, dtype)}));
}
// Bounds with dims: Clip takes single numbers only.
void lower_clamp_tensor(Call& c) {
  DType dtype = result(c);
  Ref y = operand(c, 0, dtype);
  if (!c.is_none(1)) y = c.emit("Max", {y, operand(c, 1, dtype)});
  if (!c.is_none(2)) y = c.emit("Min", {y, operand(c, 2, dtype)});
  c.set(y);
}
void lower_clamp_min(Call& c) { c.set(c.emit("Max", {operand(c, 0, result(c)), operand(c, 1, result(c))})); }
void lower_clamp_max(Call& c) { c.set(c.emit("Min", {operand(c, 0, result(c)), operand(c, 1, result(c))})); }

template <bool Divide>
void lower_addc(Call& c) {  // (self, tensor1, tensor2, value)
  DType dtype = result(c);
  Ref y = c.emit(Divide ? "Div" : "Mul", {operand(c, 1, dtype), operand(c, 2, dtype)});
  if (!c.is_none(3) && !c.scalar(3).equals(1)) y = c.emit("Mul", {y, c.constant(c.scalar(3), dtype)});
  c.set(c.emit("Add", {operand(c, 0, dtype), y}));
}

void lower_lerp(Call& c) {
  DType dtype = result(c);
  Ref a = operand(c, 0, dtype), b = operand(c, 1, dtype), w = operand(c, 2, dtype);
  c.set(c.emit("Add", {a, c.emit("Mul", {w, c.emit("Sub", {b, a})})}));
}

void lower_square(Call& c) {
  Ref x = c.cast(c.tensor(0), result(c));
  c.set(c.emit("Mul", {x, x}));
}

void lower_where_scalars(Call& c) {
  DType dtype = result(c);
  c.set(c.emit("Where", {c.cast(c.tensor(0), DType::bool_), operand(c, 1, dtype), operand(c, 2, dtype)}));
}

void lower_isfinite(Call& c) {
  Ref x = c.tensor(0);
  if (x.dtype != DType::undefined && !is_floating(x.dtype)) return c.set(c.emit("Equal", {x, x}));
  c.set(c.emit("Not", {c.emit("Or", {c.emit("IsNaN", {x}), c.emit("IsInf", {x})})}));
}

constexpr Lowering table[] = {
    {"aten::div.Tensor_mode", lower_div_mode},
    {"aten::div.Scalar_mode", lower_div_mode},
    {"aten::floor_divide", lower_floor_divide},
    {"aten::floor_divide.Scalar", lower_floor_divide},
    {"aten::rsub.Tensor", lower_rsub},
    {"aten::rsub.Scalar", lower_rsub},
    {"aten::clamp", lower_clamp},
    {"aten::clamp.Tensor", lower_clamp_tensor},
    {"aten::clamp_min", lower_clamp_min},
    {"aten::clamp_min.Tensor", lower_clamp_min},
    {"aten::clamp_max", lower_clamp_max},
    {"aten::clamp_max.Tensor", lower_clamp_max},
    {"aten::addcmul", lower_addc<false>},
    {"aten::addcdiv", lower_addc<true>},
    {"aten::lerp.Scalar", lower_lerp},
    {"aten::lerp.Tensor", lower_lerp},
    {"aten::square", lower_square},
    {"aten::where.Scalar", lower_where_scalars},
    {"aten::where.ScalarSelf", lower_where_scalars},
    {"aten::where.ScalarOther", lower_where_scalars},
    {"aten::isfinite", lower_isfinite},
};

}  // namespace

Span<const Lowering> arithmetic_lowerings() { return table; }

}  // namespace tern::onnx
