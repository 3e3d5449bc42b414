// Bags in ONNX: which bag an index is in is counted from the offsets, and the rows are scattered there.
#include <limits>

#include "tern/onnx/lower.h"

namespace tern::onnx {
namespace {

enum : int64_t { sum_mode, mean_mode, max_mode };

Ref less(Call& c, const Ref& a, const Ref& b, const char* op = "Less") {
  return c.emit(op, {a, b}, {}, kBool);
}
Ref filled(Call& c, double value, DType dtype, const Ref& shape) {
  return c.emit("Expand", {c.constant(Scalar(value), dtype), shape});
}
Ref scattered(Call& c, const Ref& onto, const Ref& bags, const Ref& rows, std::string_view reduction) {
  return c.emit("ScatterND", {onto, bags, rows}, {Attribute::of("reduction", std::string(reduction))});
}

void lower_embedding_bag(Call& c) {
  Ref weight = c.tensor(0), indices = c.cast(c.tensor(1), kLong), offsets = c.cast(c.tensor(2), kLong);
  const int64_t mode = c.integer(4), padding = c.integer(8);
  const bool include_last = c.flag(7);
  const DType dtype = weight.dtype;
  auto number = [&](int64_t n) { return c.constant(Scalar(n), kLong); };
  auto vector = [&](int64_t n) { return c.constant(std::vector<int64_t>{n}); };

  Ref starts = include_last ? c.emit("Slice", {offsets, vector(0), vector(-1), vector(0)}) : offsets;
  Ref count = c.squeeze(c.size_of(indices, 0), {0});
  Ref places = c.unsqueeze(c.emit("Range", {number(0), count, number(1)}), {1});
  Ref begun = c.cast(less(c, c.unsqueeze(starts, {0}), places, "LessOrEqual"), kLong);
  Ref bags = c.emit("Sub", {c.emit("ReduceSum", {begun, vector(1)}), number(1)});

  // What counts: not the padding, nothing behind the last bag.
  Ref counted;
  if (padding >= 0)
    counted =
        c.emit("Not", {c.emit("Equal", {c.unsqueeze(indices, {1}), number(padding)}, {}, kBool)}, {}, kBool);
  if (include_last) {
    Ref end = c.emit("Gather", {offsets, number(-1)}, {Attribute::of("axis", int64_t{0})});
    Ref before = less(c, places, end);
    counted = counted ? c.emit("And", {counted, before}, {}, kBool) : before;
  }

  Ref rows = c.emit("Gather", {weight, indices}, {Attribute::of("axis", int64_t{0})});
  if (!c.is_none(6)) rows = c.emit("Mul", {rows, c.unsqueeze(c.tensor(6), {1})});
  const double neutral = mode == max_mode ? -std::numeric_limits<double>::infinity() : 0;
  if (counted) rows = c.emit("Where", {counted, rows, c.constant(Scalar(neutral), dtype)}, {}, dtype);
  Ref bag_count = c.size_of(starts, 0);
  Ref shape = c.emit("Concat", {bag_count, c.size_of(weight, 1)}, {Attribute::of("axis", int64_t{0})});
  Ref result = scattered(c, filled(c, neutral, dtype, shape), bags, rows, mode == max_mode ? "max" : "add");
  if (mode != sum_mode) {
    Ref ones = counted ? c.cast(counted, dtype)
                       : c.emit("Expand", {c.constant(Scalar(1.0), dtype), c.shape(places)});
    Ref column = c.emit("Concat", {bag_count, vector(1)}, {Attribute::of("axis", int64_t{0})});
    Ref members = scattered(c, filled(c, 0, dtype, column), bags, ones, "add");
    if (mode == mean_mode) {
      result = c.emit("Div", {result, c.emit("Max", {members, c.constant(Scalar(1.0), dtype)})});
    } else {
      Ref zero = c.constant(Scalar(0.0), dtype);
      result = c.emit("Where", {c.emit("Equal", {members, zero}, {}, kBool), zero, result}, {}, dtype);
    }
  }
  c.set(result);
}

constexpr Lowering table[] = {
    {"aten::_embedding_bag", lower_embedding_bag},
    {"aten::_embedding_bag_forward_only", lower_embedding_bag},
};

}  // namespace

Span<const Lowering> embedding_bag_lowerings() { return table; }

}  // namespace tern::onnx
