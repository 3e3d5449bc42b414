// Normalisation in ONNX.
#include "tern/onnx/lower.h"

namespace tern::onnx {

namespace {

Tensor filled(int64_t n, float value) {
  Tensor t = make_tensor({n}, kFloat);
  std::fill(t.data_ptr<float>(), t.data_ptr<float>() + n, value);
  return t;
}

Tensor filled(Span<const int64_t> dims, float value) {
  Dims sizes;
  for (int64_t d : dims) sizes.push_back(d);
  Tensor t = make_tensor(sizes, kFloat);
  std::fill(t.data_ptr<float>(), t.data_ptr<float>() + t.int_numel(), value);
  return t;
}

bool used(Call& c, size_t k) { return k < c.node().num_outputs() && c.node().output(k).has_uses(); }

void lower_layer_norm(Call& c) {
  Ref x = c.tensor(0), w = c.tensor(2), b = c.tensor(3);
  std::vector<Size> shape = c.extents(1);
  if (!w) {
    std::vector<int64_t> dims;
    for (const Size& s : shape) {
      if (!s.is_static()) c.refuse("layer_norm without a weight needs a static normalized_shape");
      dims.push_back(s.value);
    }
    w = c.cast(c.constant(filled(dims, 1)), x.dtype);
  }
  Attributes at = {Attribute::of("axis", -static_cast<int64_t>(shape.size())),
                   Attribute::of("epsilon", static_cast<float>(c.number(4)))};
  if (used(c, 1) || used(c, 2)) {
    std::vector<Ref> out = c.emit_many("LayerNormalization", {x, w, b}, std::move(at), 3);
    for (size_t k = 0; k < 3; ++k) c.set(out[k], k);
  } else {
    c.set(c.emit("LayerNormalization", {x, w, b}, std::move(at)));
  }
}

// Per-channel weights against [N, C, ...].
Ref per_channel(Call& c, const Ref& v, int64_t rank) {
  std::vector<Size> shape = {{-1}};
  for (int64_t d = 2; d < rank; ++d) shape.push_back({1});
  return rank > 2 ? c.reshape(v, shape) : v;
}

Ref scaled(Call& c, Ref y, const Ref& w, const Ref& b, int64_t rank) {
  if (w) y = c.emit("Mul", {y, per_channel(c, w, rank)});
  if (b) y = c.emit("Add", {y, per_channel(c, b, rank)});
  return y;
}

// A group is an instance of a tensor [N, groups, everything else].
void group_norm(Call& c, const Ref& w, const Ref& b, int64_t groups, double eps) {
  Ref x = c.tensor(0);
  int64_t rank = c.rank(0);
  Ref flat = c.emit("Reshape", {x, c.constant(std::vector<int64_t>{0, groups, -1})});
  Ref ones = c.cast(c.constant(filled(groups, 1)), x.dtype),
      zeros = c.cast(c.constant(filled(groups, 0)), x.dtype);
  Ref y = c.emit("InstanceNormalization", {flat, ones, zeros},
                 {Attribute::of("epsilon", static_cast<float>(eps))});
  y = c.emit("Reshape", {y, c.shape(x)});
  if (used(c, 1) || used(c, 2)) c.refuse("the statistics of group_norm are used");
  c.set(scaled(c, y, w, b, rank));
}
void lower_group_norm(Call& c) { group_norm(c, c.tensor(2), c.tensor(3), c.integer(1), c.number(4)); }
void lower_native_group_norm(Call& c) { group_norm(c, c.tensor(1), c.tensor(2), c.integer(6), c.number(7)); }

std::vector<int64_t> all_but_channels(int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t d = 0; d < rank; ++d)
    if (d != 1) axes.push_back(d);
  return axes;
}

// With the batch's own statistics. Gives mean and biased variance, [1, C, 1, ...].
std::pair<Ref, Ref> batch_statistics(Call& c, const Ref& x, int64_t rank) {
  Ref axes = c.constant(all_but_channels(rank));
  Ref mean = c.emit("ReduceMean", {x, axes}, {Attribute::of("keepdims", int64_t{1})});
  Ref centred = c.emit("Sub", {x, mean});
  Ref var = c.emit("ReduceMean", {c.emit("Mul", {centred, centred}), axes},
                   {Attribute::of("keepdims", int64_t{1})});
  return {mean, var};
}

Ref normalised(Call& c, const Ref& x, const Ref& mean, const Ref& var, double eps) {
  Ref deviation = c.emit("Sqrt", {c.emit("Add", {var, c.constant(Scalar(eps), x.dtype)})});
  return c.emit("Div", {c.emit("Sub", {x, mean}), deviation});
}

void batch_norm_inference(Call& c, double eps) {
  Ref x = c.tensor(0), w = c.tensor(1), b = c.tensor(2), mean = c.tensor(3), var = c.tensor(4);
  auto channels = [&]() -> int64_t {
    for (size_t i : {3, 1, 2})
      if (auto n = c.dim(i, 0)) return *n;
    if (auto n = c.dim(0, 1)) return *n;
    c.refuse("the number of channels is not known");
  };
  if (!mean || !var) c.refuse("running statistics are missing");
  if (!w) w = c.cast(c.constant(filled(channels(), 1)), mean.dtype);
  if (!b) b = c.cast(c.constant(filled(channels(), 0)), mean.dtype);
  c.set(c.emit("BatchNormalization", {x, w, b, mean, var},
               {Attribute::of("epsilon", static_cast<float>(eps))}));
}

// Outputs: y, save_mean, save_invstd, then the new running statistics where the operator gives them.
void batch_norm_training(Call& c, bool has_running, double momentum, double eps) {
  Ref x = c.tensor(0), w = c.tensor(1), b = c.tensor(2);
  int64_t rank = c.rank(0);
  auto [mean, var] = batch_statistics(c, x, rank);
  c.set(scaled(c, normalised(c, x, mean, var, eps), w, b, rank));
  Ref flat_mean = c.squeeze(mean, all_but_channels(rank));
  Ref flat_var = c.squeeze(var, all_but_channels(rank));
  if (used(c, 1)) c.set(flat_mean, 1);
  if (used(c, 2))
    c.set(
        c.emit("Reciprocal", {c.emit("Sqrt", {c.emit("Add", {flat_var, c.constant(Scalar(eps), x.dtype)})})}),
        2);
  if (!has_running || c.node().num_outputs() < 5) return;
  Ref count = c.cast(c.emit("Div", {c.emit("Size", {x}, {}, DType::int64), c.squeeze(c.size_of(x, 1), {0})}),
                     x.dtype);
  Ref one = c.constant(Scalar(1), x.dtype);
  Ref unbiased = c.emit("Mul", {flat_var, c.emit("Div", {count, c.emit("Sub", {count, one})})});
  auto moved = [&](const Ref& old, const Ref& now) {
    return c.emit("Add", {c.emit("Mul", {old, c.constant(Scalar(1 - momentum), old.dtype)}),
                          c.emit("Mul", {c.cast(now, old.dtype), c.constant(Scalar(momentum), old.dtype)})});
  };
  c.set(moved(c.tensor(3), flat_mean), 3);
  c.set(moved(c.tensor(4), unbiased), 4);
}

void lower_batch_norm(Call& c) {  // (input, weight, bias, running_mean, running_var, training, momentum, eps)
  if (c.flag(5))
    batch_norm_training(c, !c.is_none(3), c.number(6), c.number(7));
  else
    batch_norm_inference(c, c.number(7));
}
void lower_batch_norm_no_training(Call& c) { batch_norm_inference(c, c.number(6)); }
void lower_batch_norm_no_stats(Call& c) { batch_norm_training(c, false, 0, c.number(5)); }

void lower_instance_norm(Call& c) {
  if (!c.flag(5)) {
    batch_norm_inference(c, c.number(7));
    return;
  }
  Ref x = c.tensor(0), w = c.tensor(1), b = c.tensor(2);
  auto channels = c.dim(0, 1);
  if ((!w || !b) && !channels) c.refuse("the number of channels is not known");
  if (!w) w = c.cast(c.constant(filled(*channels, 1)), x.dtype);
  if (!b) b = c.cast(c.constant(filled(*channels, 0)), x.dtype);
  c.set(c.emit("InstanceNormalization", {x, w, b},
               {Attribute::of("epsilon", static_cast<float>(c.number(7)))}));
}

void lower_rms_norm(Call& c) {
  Ref x = c.tensor(0), w = c.tensor(2);
  std::vector<int64_t> axes;
  for (int64_t n = static_cast<int64_t>(c.extents(1).size()); n > 0; --n) axes.push_back(-n);
  double eps = !c.is_none(3)                ? c.number(3)
               : x.dtype == DType::float64  ? 2.220446049250313e-16
               : x.dtype == DType::float16  ? 0.0009765625
               : x.dtype == DType::bfloat16 ? 0.0078125
                                            : 1.1920928955078125e-07;
  Ref square = c.emit("ReduceMean", {c.emit("Mul", {x, x}), c.constant(axes)},
                      {Attribute::of("keepdims", int64_t{1})});
  Ref y = c.emit("Div", {x, c.emit("Sqrt", {c.emit("Add", {square, c.constant(Scalar(eps), x.dtype)})})});
  c.set(w ? c.emit("Mul", {y, w}) : y);
}

constexpr Lowering table[] = {
    {"aten::layer_norm", lower_layer_norm},
    {"aten::native_layer_norm", lower_layer_norm},
    {"aten::group_norm", lower_group_norm},
    {"aten::native_group_norm", lower_native_group_norm},
    {"aten::batch_norm", lower_batch_norm},
    {"aten::native_batch_norm", lower_batch_norm},
    {"aten::_native_batch_norm_legit", lower_batch_norm},
    {"aten::_native_batch_norm_legit_functional", lower_batch_norm},
    {"aten::_native_batch_norm_legit_no_training", lower_batch_norm_no_training},
    {"aten::_native_batch_norm_legit.no_stats", lower_batch_norm_no_stats},
    {"aten::instance_norm", lower_instance_norm},
    {"aten::rms_norm", lower_rms_norm},
};

}  // namespace

Span<const Lowering> norm_lowerings() { return table; }

}  // namespace tern::onnx
