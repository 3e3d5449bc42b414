// Sorting in ONNX: everything is TopK.
#include "tern/onnx/lower.h"

namespace tern::onnx {

namespace {

void top(Call& c, const Ref& k, int64_t axis, bool largest, bool sorted, bool values, bool indices) {
  std::vector<Ref> out = c.emit_many("TopK", {c.tensor(0), k},
                                     {Attribute::of("axis", axis), Attribute::of("largest", int64_t{largest}),
                                      Attribute::of("sorted", int64_t{sorted})},
                                     2);
  out[1].dtype = DType::int64;
  if (values) c.set(out[0], 0);
  if (indices) c.set(out[1], values ? 1 : 0);
}

void lower_topk(Call& c) {  // (self, k, dim, largest, sorted)
  top(c, c.as_vector(c.extent(1)), c.integer(2), c.flag(3), c.flag(4), true, true);
}

void lower_kthvalue(Call& c) {  // (self, k, dim, keepdim): the last of the k least
  int64_t k = c.integer(1), axis = c.integer(2);
  if (c.rank(0) == 0) c.refuse("kthvalue of a number cannot be expressed");
  std::vector<Ref> out = c.emit_many("TopK", {c.tensor(0), c.constant(std::vector<int64_t>{k})},
                                     {Attribute::of("axis", axis), Attribute::of("largest", int64_t{0})}, 2);
  out[1].dtype = DType::int64;
  Ref last = c.flag(3) ? c.constant(std::vector<int64_t>{k - 1}) : c.constant(Scalar(k - 1), kLong);
  for (size_t i = 0; i < 2; ++i) c.set(c.emit("Gather", {out[i], last}, {Attribute::of("axis", axis)}), i);
}

void sort(Call& c, int64_t axis, bool descending, bool values, bool indices) {
  if (c.rank(0) == 0) {
    if (values) c.set(c.tensor(0), 0);
    if (indices) c.set(c.constant(Scalar(0), kLong), values ? 1 : 0);
    return;
  }
  if (axis < 0) axis += c.rank(0);
  auto n = c.dim(0, axis);
  top(c, n ? c.constant(std::vector<int64_t>{*n}) : c.size_of(c.tensor(0), axis), axis, descending, true,
      values, indices);
}
void lower_sort(Call& c) { sort(c, c.integer(1), c.flag(2), true, true); }  // (self, dim, descending)
void lower_sort_stable(Call& c) {
  sort(c, c.integer(2), c.flag(3), true, true);
}  // (self, stable, dim, descending)
void lower_argsort(Call& c) { sort(c, c.integer(1), c.flag(2), false, true); }

constexpr Lowering table[] = {
    {"aten::topk", lower_topk},       {"aten::kthvalue", lower_kthvalue},
    {"aten::sort", lower_sort},       {"aten::sort.stable", lower_sort_stable},
    {"aten::argsort", lower_argsort},
};

}  // namespace

Span<const Lowering> sort_lowerings() { return table; }

}  // namespace tern::onnx
