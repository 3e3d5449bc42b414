// Convolutions in ONNX: one operator for all forms, padding on both sides of each dimension.
#include "tern/onnx/lower.h"

namespace tern::onnx {

namespace {

struct ConvArgs {
  std::vector<int64_t> stride, dilation, output_padding = {};
  std::vector<int64_t> pads;  // all beginnings, then all ends
  int64_t groups = 1;
  bool transposed = false;
};

std::vector<int64_t> spread(std::vector<int64_t> v, size_t n) {
  if (v.size() == 1 && n > 1) v.resize(n, v[0]);
  return v;
}

std::vector<int64_t> both_sides(const std::vector<int64_t>& padding) {
  std::vector<int64_t> pads = padding;
  pads.insert(pads.end(), padding.begin(), padding.end());
  return pads;
}

void lower(Call& c, const ConvArgs& a) {
  int64_t weight_rank = c.rank(1);
  size_t spatial = static_cast<size_t>(weight_rank - 2);
  Ref x = c.tensor(0), w = c.tensor(1), b = c.tensor(2);
  bool unbatched = c.rank(0) == weight_rank - 1;
  if (unbatched) x = c.unsqueeze(x, {0});
  Attributes at;
  std::vector<int64_t> kernel;
  for (size_t d = 0; d < spatial; ++d)
    if (auto k = c.dim(1, static_cast<int64_t>(d) + 2)) kernel.push_back(*k);
  if (kernel.size() == spatial) at.push_back(Attribute::of("kernel_shape", kernel));
  at.push_back(Attribute::of("strides", spread(a.stride, spatial)));
  at.push_back(Attribute::of("pads", a.pads));
  at.push_back(Attribute::of("dilations", spread(a.dilation, spatial)));
  at.push_back(Attribute::of("group", a.groups));
  if (a.transposed) at.push_back(Attribute::of("output_padding", spread(a.output_padding, spatial)));
  Ref y = c.emit(a.transposed ? "ConvTranspose" : "Conv", {x, w, b}, std::move(at));
  c.set(unbatched ? c.squeeze(y, {0}) : y);
}

size_t spatial_dims(Call& c) { return static_cast<size_t>(c.rank(1) - 2); }

void lower_convolution(Call& c) {
  size_t n = spatial_dims(c);
  lower(c, {c.ints(3), c.ints(5), c.ints(7), both_sides(spread(c.ints(4), n)), c.integer(8), c.flag(6)});
}

void lower_conv(Call& c) {
  size_t n = spatial_dims(c);
  lower(c, {c.ints(3), c.ints(5), {}, both_sides(spread(c.ints(4), n)), c.integer(6), false});
}

void lower_conv_transpose(Call& c) {
  size_t n = spatial_dims(c);
  lower(c, {c.ints(3), c.ints(7), c.ints(5), both_sides(spread(c.ints(4), n)), c.integer(6), true});
}

// padding="same" puts the larger half behind, as PyTorch does.
void lower_conv_named_padding(Call& c) {
  size_t n = spatial_dims(c);
  std::string padding = c.text(4);
  std::vector<int64_t> dilation = spread(c.ints(5), n), pads(2 * n, 0);
  if (padding == "same")
    for (size_t d = 0; d < n; ++d) {
      auto k = c.dim(1, static_cast<int64_t>(d) + 2);
      if (!k) c.refuse("padding='same' needs a kernel of known size");
      int64_t total = dilation[d] * (*k - 1);
      pads[d] = total / 2;
      pads[n + d] = total - total / 2;
    }
  else if (padding != "valid")
    c.refuse("padding is '" + padding + "'; 'same' and 'valid' are known");
  lower(c, {c.ints(3), dilation, {}, pads, c.integer(6), false});
}

constexpr Lowering table[] = {
    {"aten::convolution", lower_convolution},
    {"aten::_convolution", lower_convolution},
    {"aten::conv1d", lower_conv},
    {"aten::conv2d", lower_conv},
    {"aten::conv3d", lower_conv},
    {"aten::conv1d.padding", lower_conv_named_padding},
    {"aten::conv2d.padding", lower_conv_named_padding},
    {"aten::conv3d.padding", lower_conv_named_padding},
    {"aten::conv_transpose1d", lower_conv_transpose},
    {"aten::conv_transpose2d.input", lower_conv_transpose},
    {"aten::conv_transpose3d.input", lower_conv_transpose},
};

}  // namespace

Span<const Lowering> conv_lowerings() { return table; }

}  // namespace tern::onnx
