// PT2E's quantization in ONNX: QuantizeLinear and DequantizeLinear, which engines look for.
#include "tern/onnx/lower.h"

namespace tern::onnx {

namespace {

struct Range {
  int64_t low, high;
};
Range whole_range(DType d) { return d == DType::uint8 ? Range{0, 255} : Range{-128, 127}; }
bool is_byte(DType d) { return d == DType::uint8 || d == DType::int8; }

// A range that is part of the type's is cut afterwards.
Ref cut(Call& c, const Ref& q, DType dtype, int64_t low, int64_t high) {
  Range whole = whole_range(dtype);
  if (low <= whole.low && high >= whole.high) return q;
  return c.emit("Clip", {q, c.constant(Scalar(low), dtype), c.constant(Scalar(high), dtype)});
}

void check_type(Call& c, DType dtype) {
  if (!is_byte(dtype)) c.refuse("QuantizeLinear and DequantizeLinear are for int8 and uint8");
}

// (input, scale, zero_point, quant_min, quant_max, dtype)
void lower_quantize(Call& c) {
  DType dtype = c.dtype_argument(5);
  check_type(c, dtype);
  Ref q = c.emit("QuantizeLinear",
                 {c.cast(c.tensor(0), kFloat), c.constant(Scalar(c.number(1)), kFloat),
                  c.constant(Scalar(c.integer(2)), dtype)},
                 {}, dtype);
  c.set(cut(c, q, dtype, c.integer(3), c.integer(4)));
}
void lower_dequantize(Call& c) {
  Ref x = c.tensor(0);
  check_type(c, x.dtype);
  c.set(c.emit("DequantizeLinear",
               {x, c.constant(Scalar(c.number(1)), kFloat), c.constant(Scalar(c.integer(2)), x.dtype)}, {},
               kFloat));
}

// Parameters that are computed: tensors of one element.
Ref one(Call& c, const Ref& r, DType dtype) {
  Ref typed = c.cast(r, dtype);
  return typed.rank == 0 ? typed : c.reshape(typed, {});
}
void lower_quantize_tensor(Call& c) {
  DType dtype = c.dtype_argument(5);
  check_type(c, dtype);
  Ref q = c.emit("QuantizeLinear",
                 {c.cast(c.tensor(0), kFloat), one(c, c.tensor(1), kFloat), one(c, c.tensor(2), dtype)}, {},
                 dtype);
  c.set(cut(c, q, dtype, c.integer(3), c.integer(4)));
}
void lower_dequantize_tensor(Call& c) {
  Ref x = c.tensor(0);
  check_type(c, x.dtype);
  c.set(
      c.emit("DequantizeLinear", {x, one(c, c.tensor(1), kFloat), one(c, c.tensor(2), x.dtype)}, {}, kFloat));
}

// (input, scales, zero_points, axis, quant_min, quant_max, dtype)
void lower_quantize_channels(Call& c) {
  DType dtype = c.dtype_argument(6);
  check_type(c, dtype);
  Ref q = c.emit("QuantizeLinear",
                 {c.cast(c.tensor(0), kFloat), c.cast(c.tensor(1), kFloat), c.cast(c.tensor(2), dtype)},
                 {Attribute::of("axis", c.integer(3))}, dtype);
  c.set(cut(c, q, dtype, c.integer(4), c.integer(5)));
}
void lower_dequantize_channels(Call& c) {
  Ref x = c.tensor(0);
  check_type(c, x.dtype);
  Inputs inputs{x, c.cast(c.tensor(1), kFloat)};
  if (!c.is_none(2)) inputs.push_back(c.cast(c.tensor(2), x.dtype));
  c.set(c.emit("DequantizeLinear", inputs, {Attribute::of("axis", c.integer(3))}, kFloat));
}

constexpr Lowering table[] = {
    {"quantized_decomposed::quantize_per_tensor", lower_quantize},
    {"quantized_decomposed::quantize_per_tensor.tensor", lower_quantize_tensor},
    {"quantized_decomposed::dequantize_per_tensor", lower_dequantize},
    {"quantized_decomposed::dequantize_per_tensor.tensor", lower_dequantize_tensor},
    {"quantized_decomposed::quantize_per_channel", lower_quantize_channels},
    {"quantized_decomposed::dequantize_per_channel", lower_dequantize_channels},
};

}  // namespace

Span<const Lowering> quant_lowerings() { return table; }

}  // namespace tern::onnx
