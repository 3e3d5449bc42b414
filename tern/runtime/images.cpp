// Steps on float images with their channels innermost: convolutions with folded batch norms and fused
// additions, pooling, joining. The order is the one in which oneDNN's convolutions are fast without any
// reordering.
#include <algorithm>
#include <cmath>

#include "tern/base/parallel.h"
#include "tern/dispatch/op.h"
#include "tern/kernels/conv.h"
#include "tern/kernels/images.h"
#include "tern/kernels/pool.h"
#include "tern/runtime/plan.h"

namespace tern::runtime {
namespace {

const float* source(const Tensor& t) { return t.defined() ? static_cast<const float*>(t.data()) : nullptr; }
float* target(Tensor& t) { return static_cast<float*>(t.data()); }
int64_t per_image(const Tensor& t) { return t.int_numel() / t.int_sizes()[0]; }

struct PackedConv : Step {
  Owned<kernels::PreparedConv> conv;
  Tensor x, out, residual;
  void run() override { conv->run(source(x), source(residual), target(out)); }
  void run_images(int64_t begin, int64_t end) override {
    conv->run_images(source(x), source(residual), target(out), begin, end);
  }
};

// A step that can do any images by itself: all of them when nobody asks for some.
struct ImageStep : Step {
  void run() override { run_images(0, images); }
};

// A convolution with one tap is a product of pixels and weights, of every stride-th pixel where it strides.
struct PointConv : ImageStep {
  kernels::PackedB weight;
  std::vector<float> bias, gathered;
  Tensor x, out, residual;
  kernels::Activation activation;
  int64_t stride[3] = {1, 1, 1};
  bool strides = false;
  void run_images(int64_t begin, int64_t end) override {
    const float* from = strides ? gather(source(x), begin, end) : source(x) + begin * per_image(x);
    const int64_t at = begin * per_image(out);
    kernels::Epilogue e;
    if (!bias.empty()) e.bias = bias.data();
    if (residual.defined()) e.residual = source(residual) + at;
    e.ld_residual = weight.N;
    e.activation = activation;
    kernels::gemm_packed((end - begin) * per_image(out) / weight.N, from, weight.K, weight, target(out) + at,
                         weight.N, e);
  }
  const float* gather(const float* from, int64_t begin, int64_t end) {
    const int dims = static_cast<int>(x.dim()) - 2;
    int64_t in[3] = {1, 1, 1}, size[3] = {1, 1, 1}, step[3] = {1, 1, 1};
    for (int d = 0; d < dims; ++d) {
      in[3 - dims + d] = x.int_sizes()[d + 2];
      size[3 - dims + d] = out.int_sizes()[d + 2];
      step[3 - dims + d] = stride[d];
    }
    float* const start = gathered.data() + begin * size[0] * size[1] * size[2] * weight.K;
    float* to = start;
    for (int64_t b = begin; b < end; ++b)
      for (int64_t i = 0; i < size[0]; ++i)
        for (int64_t j = 0; j < size[1]; ++j)
          for (int64_t k = 0; k < size[2]; ++k, to += weight.K)
            std::copy_n(
                from + (((b * in[0] + i * step[0]) * in[1] + j * step[1]) * in[2] + k * step[2]) * weight.K,
                weight.K, to);
    return start;
  }
};

struct Affine : ImageStep {
  std::vector<float> scale, shift;
  Tensor x, out;
  kernels::Activation activation;
  void run_images(int64_t begin, int64_t end) override {
    const int64_t channels = static_cast<int64_t>(scale.size()), at = begin * per_image(x);
    kernels::affine_channels_last((end - begin) * per_image(x) / channels, channels, source(x) + at,
                                  scale.data(), shift.data(), activation, target(out) + at);
  }
};

struct Pool : ImageStep {
  kernels::PoolShape shape;
  int64_t channels;
  bool maximum;
  Tensor x, out;
  void run_images(int64_t begin, int64_t end) override {
    kernels::PoolShape some = shape;
    some.planes = end - begin;
    const float* from = source(x) + begin * per_image(x);
    float* to = target(out) + begin * per_image(out);
    maximum ? kernels::max_pool_channels_last(some, channels, from, to)
            : kernels::avg_pool_channels_last(some, channels, from, to);
  }
};

struct Join : ImageStep {
  std::vector<Tensor> parts;
  Tensor out;
  void run_images(int64_t first, int64_t last) override {
    const int64_t wide = out.int_sizes()[1], pixels = per_image(out) / wide;
    const int64_t grain = std::max<int64_t>(1, 16384 / wide);
    parallel_for(first * pixels, last * pixels, grain, [&](int64_t begin, int64_t end) {
      int64_t at = 0;
      for (const Tensor& part : parts) {
        const int64_t channels = part.int_sizes()[1];
        const float* from = source(part);
        float* to = target(out) + at;
        for (int64_t p = begin; p < end; ++p) std::copy_n(from + p * channels, channels, to + p * wide);
        at += channels;
      }
    });
  }
};

struct Transpose : ImageStep {
  Tensor from, to;
  int64_t rows, columns;
  void run_images(int64_t begin, int64_t end) override {
    const int64_t at = begin * rows * columns;
    kernels::transpose_planes(end - begin, rows, columns, source(from) + at, target(to) + at);
  }
};

// Entry i of an int[] that may be given as one number for all dims.
int64_t entry(const Value& list, size_t i) {
  const std::vector<Value> items = list.items();
  return items.size() == 1 ? items[0].to_int() : items[i].to_int();
}

// The scale and shift that a batch norm with fixed statistics is.
void affine_of(const std::vector<Value>& norm, std::vector<float>& scale, std::vector<float>& shift) {
  auto floats = [](const Value& v) { return v.is_none() ? Tensor() : v.tensor().to(kFloat).contiguous(); };
  const Tensor weight = floats(norm[1]), bias = floats(norm[2]), mean = floats(norm[3]),
               variance = floats(norm[4]);
  const double eps = norm[6].to_double();
  for (int64_t c = 0; c < mean.int_numel(); ++c) {
    const double by = (weight.defined() ? weight.data_ptr<float>()[c] : 1.0) /
                      std::sqrt(variance.data_ptr<float>()[c] + eps);
    scale.push_back(static_cast<float>(by));
    shift.push_back(static_cast<float>((bias.defined() ? bias.data_ptr<float>()[c] : 0.0) -
                                       mean.data_ptr<float>()[c] * by));
  }
}

}  // namespace

bool can_prepare_conv(const ir::Node& node, const Tensor& weight) {
  const ir::Type &x = *node.input(0).value().type(), &y = *node.output().type();
  if (weight.dtype() != kFloat || !weight.is_contiguous() || weight.int_numel() == 0) return false;
  if (weight.dim() != static_cast<int64_t>(x.sizes().size())) return false;
  for (const SymInt& n : x.sizes())
    if (n.as_int() == 0) return false;
  for (const SymInt& n : y.sizes())
    if (n.as_int() == 0) return false;
  const ir::Operand& transposed = node.input(6);
  return transposed.is_constant() && !transposed.constant().to_bool();
}

Owned<Step> make_conv_step(const NodeView& view, const ir::Node* activation, const Tensor& residual) {
  // convolution(input, weight, bias?, stride, padding, dilation, transposed, output_padding, groups)
  const Tensor &x = view.inputs[0].tensor(), &weight = view.inputs[1].tensor();
  const Tensor bias = view.inputs[2].is_none() ? Tensor() : view.inputs[2].tensor();
  kernels::ConvShape s;
  s.dims = static_cast<int>(weight.dim()) - 2;
  s.batch = x.int_sizes()[0];
  s.in_channels = x.int_sizes()[1];
  s.out_channels = weight.int_sizes()[0];
  s.groups = view.inputs[8].to_int();
  for (int i = 0; i < s.dims; ++i) {
    s.in_size[i] = x.int_sizes()[i + 2];
    s.kernel[i] = weight.int_sizes()[i + 2];
    s.stride[i] = entry(view.inputs[3], i);
    s.padding[i] = entry(view.inputs[4], i);
    s.dilation[i] = entry(view.inputs[5], i);
  }
  // oneDNN is at its best where one tap is large and does not stride.
  bool point = s.groups == 1, strides = false;
  for (int i = 0; i < s.dims; ++i) {
    point = point && s.kernel[i] == 1 && s.padding[i] == 0;
    strides = strides || s.stride[i] != 1;
  }
  const double products = static_cast<double>(view.output.int_numel()) * static_cast<double>(s.in_channels);
  const bool in_place = residual.defined() && residual.storage().get() == view.output.storage().get();
  if (point && !in_place && (strides || products < 2e6)) {
    auto step = new_owned<PointConv>();
    step->images = s.batch;
    step->products = products;
    step->weight =
        kernels::pack_b(true, s.in_channels, s.out_channels, weight.data_ptr<float>(), s.in_channels);
    if (bias.defined()) step->bias.assign(bias.data_ptr<float>(), bias.data_ptr<float>() + s.out_channels);
    step->x = x;
    step->out = view.output;
    step->residual = residual;
    step->activation = activation_of(activation);
    step->strides = strides;
    std::copy_n(s.stride, 3, step->stride);
    if (strides)
      step->gathered.resize(static_cast<size_t>(view.output.int_numel() / s.out_channels * s.in_channels));
    return step;
  }
  auto step = new_owned<PackedConv>();
  step->products = products * static_cast<double>(weight.int_numel() / (s.in_channels * s.out_channels));
  step->conv = new_owned<kernels::PreparedConv>(
      s, weight.data_ptr<float>(), bias.defined() ? bias.data_ptr<float>() : nullptr,
      activation_of(activation), residual.defined(), kernels::PreparedConv::Layout::channels_last);
  if (step->conv->by_images()) step->images = s.batch;
  step->x = x;
  step->out = view.output;
  step->residual = residual;
  return step;
}

void fold_batch_norm(const std::vector<Value>& norm, std::vector<Value>& conv_inputs) {
  std::vector<float> scale, shift;
  affine_of(norm, scale, shift);
  Tensor weight = conv_inputs[1].tensor().clone();
  const int64_t channels = weight.int_sizes()[0], each = weight.int_numel() / channels;
  Tensor bias = make_tensor({SymInt(channels)}, kFloat);
  const Tensor old = conv_inputs[2].is_none() ? Tensor() : conv_inputs[2].tensor().contiguous();
  for (int64_t c = 0; c < channels; ++c) {
    float* w = weight.data_ptr<float>() + c * each;
    for (int64_t i = 0; i < each; ++i) w[i] *= scale[c];
    bias.data_ptr<float>()[c] = shift[c] + (old.defined() ? old.data_ptr<float>()[c] * scale[c] : 0.0f);
  }
  conv_inputs[1] = weight;
  conv_inputs[2] = bias;
}

Owned<Step> make_affine_step(const std::vector<Value>& norm, const Tensor& x, const ir::Node* activation,
                             const Tensor& out) {
  auto step = new_owned<Affine>();
  step->images = out.int_sizes()[0];
  affine_of(norm, step->scale, step->shift);
  step->x = x;
  step->out = out;
  step->activation = activation_of(activation);
  return step;
}

Owned<Step> make_pool_step(const NodeView& view) {
  const std::string_view name = view.node.op()->text;
  const Tensor& x = view.inputs[0].tensor();
  const int dims = static_cast<int>(x.dim()) - 2;
  auto step = new_owned<Pool>();
  kernels::PoolShape& s = step->shape;
  s.dims = dims;
  s.planes = x.int_sizes()[0];
  for (int d = 0; d < dims; ++d) s.in_size[d] = x.int_sizes()[d + 2];
  // (self, kernel_size, stride, padding, ...): an empty stride is the kernel's.
  auto windows = [&] {
    for (int d = 0; d < dims; ++d) {
      s.kernel[d] = entry(view.inputs[1], d);
      s.stride[d] = view.inputs[2].items().empty() ? s.kernel[d] : entry(view.inputs[2], d);
      s.padding[d] = entry(view.inputs[3], d);
      s.out_size[d] = view.output.int_sizes()[d + 2];
    }
  };
  step->maximum = false;
  if (dims == 2 && name.starts_with("max_pool2d_with_indices(")) {
    step->maximum = true;
    windows();
    for (int d = 0; d < dims; ++d) s.dilation[d] = entry(view.inputs[4], d);
  } else if (dims == 2 && name.starts_with("avg_pool2d(")) {
    windows();
    s.count_include_pad = view.inputs[5].to_bool();
    s.divisor_override = view.inputs[6].is_none() ? 0 : view.inputs[6].to_int();
  } else if (dims == 2 && name.starts_with("_adaptive_avg_pool2d(")) {
    s.adaptive = true;
    for (int d = 0; d < dims; ++d) s.out_size[d] = view.output.int_sizes()[d + 2];
  } else if (name.starts_with("mean.dim(") && view.inputs[1].is_list() && view.inputs[3].is_none()) {
    // Over all positions: the average of each channel.
    std::vector<bool> over(static_cast<size_t>(x.dim()));
    for (const Value& d : view.inputs[1].items())
      over[static_cast<size_t>((d.to_int() + x.dim()) % x.dim())] = true;
    for (int64_t d = 0; d < x.dim(); ++d)
      if (over[static_cast<size_t>(d)] != (d >= 2)) return nullptr;
    s.adaptive = true;
  } else {
    return nullptr;
  }
  for (int d = 0; d < dims; ++d)
    if (s.in_size[d] == 0) return nullptr;
  if (x.int_numel() == 0 || view.output.int_numel() == 0) return nullptr;
  step->images = s.planes;
  step->channels = x.int_sizes()[1];
  step->x = x;
  step->out = view.output;
  return step;
}

Owned<Step> make_join_step(const std::vector<Tensor>& parts, const Tensor& out) {
  auto step = new_owned<Join>();
  step->images = out.int_sizes()[0];
  step->parts = parts;
  step->out = out;
  return step;
}

namespace {

// An image with its channels innermost and no holes.
bool has_channels_innermost(const Tensor& t) {
  if (t.dim() < 3) return false;
  int64_t step = 1;
  auto dense = [&](int64_t d) {
    bool fits = t.int_sizes()[d] == 1 || t.int_strides()[d] == step;
    step *= t.int_sizes()[d];
    return fits;
  };
  bool fits = dense(1);
  for (int64_t d = t.dim() - 1; fits && d >= 2; --d) fits = dense(d);
  return fits && dense(0);
}

}  // namespace

Owned<Step> make_transpose_step(const Tensor& from, const Tensor& to) {
  // One of the two is row-major, the other has its channels innermost.
  if (from.dtype() != kFloat || from.int_numel() == 0 || from.is_contiguous() == to.is_contiguous())
    return nullptr;
  if (!has_channels_innermost(from.is_contiguous() ? to : from)) return nullptr;
  auto step = new_owned<Transpose>();
  step->images = to.int_sizes()[0];
  const int64_t channels = from.int_sizes()[1];
  step->from = from;
  step->to = to;
  step->rows = from.is_contiguous() ? channels : per_image(from) / channels;
  step->columns = per_image(from) / step->rows;
  return step;
}

}  // namespace tern::runtime
