// Matrix products in ONNX.
#include "tern/onnx/lower.h"

namespace tern::onnx {

namespace {

// Gemm for matrices of floats, which runtimes fuse best; MatMul otherwise. The weight is transposed by the
// graph, so that its bytes stay those of the module.
void lower_linear(Call& c) {
  Ref x = c.tensor(0), w = c.tensor(1), b = c.tensor(2);
  int64_t weight_rank = c.rank(1);
  bool matrix = (x.rank == 2 || c.type(0)->has_sizes()) && c.rank(0) == 2 && weight_rank == 2;
  if (matrix && b && x.dtype != DType::undefined && is_floating(x.dtype))
    return c.set(c.emit("Gemm", {x, w, b}, {Attribute::of("transB", int64_t{1})}));
  Ref y = c.emit("MatMul", {x, weight_rank == 2 ? c.transpose(w, {1, 0}) : w});
  c.set(b ? c.emit("Add", {y, b}) : y);
}

bool is_one(Call& c, size_t i) { return c.is_none(i) || c.scalar(i).equals(1); }

Ref times(Call& c, const Ref& r, size_t i) {
  return is_one(c, i) ? r : c.emit("Mul", {r, c.constant(c.scalar(i), r.dtype)});
}

void lower_addmm(Call& c) {
  Ref self = c.tensor(0), a = c.tensor(1), b = c.tensor(2);
  if (a.dtype != DType::undefined && is_floating(a.dtype)) {
    Attributes at;
    if (!is_one(c, 4)) at.push_back(Attribute::of("alpha", static_cast<float>(c.number(4))));
    if (!is_one(c, 3)) at.push_back(Attribute::of("beta", static_cast<float>(c.number(3))));
    return c.set(c.emit("Gemm", {a, b, self}, std::move(at)));
  }
  c.set(c.emit("Add", {times(c, self, 3), times(c, c.emit("MatMul", {a, b}), 4)}));
}

void lower_baddbmm(Call& c) {  // also addmv: (self, a, b, beta, alpha)
  Ref product = times(c, c.emit("MatMul", {c.tensor(1), c.tensor(2)}), 4);
  if (!c.is_none(3) && c.scalar(3).equals(0)) return c.set(product);
  c.set(c.emit("Add", {times(c, c.tensor(0), 3), product}));
}

void lower_einsum(Call& c) {
  std::string equation = c.text(0);
  std::erase(equation, ' ');
  Inputs in = c.tensors(1);
  c.set(c.emit("Einsum", in, {Attribute::of("equation", equation)}));
}

void lower_det(Call& c) {  // _linalg_det: (result, LU, pivots)
  if (c.node().output(1).has_uses() || c.node().output(2).has_uses())
    c.refuse("ONNX has the determinant, but not the decomposition it comes from");
  c.set(c.emit("Det", {c.tensor(0)}));
}

constexpr Lowering table[] = {
    {"aten::_linalg_det", lower_det}, {"aten::linear", lower_linear}, {"aten::addmm", lower_addmm},
    {"aten::baddbmm", lower_baddbmm}, {"aten::addmv", lower_baddbmm}, {"aten::einsum", lower_einsum},
};

}  // namespace

Span<const Lowering> linear_lowerings() { return table; }

}  // namespace tern::onnx
