// Convolution layers.
#include <cmath>

#include "tern/base/format.h"
#include "tern/nn/init.h"
#include "tern/nn/layers.h"
#include "tern/nn/make.h"
#include "tern/ops.h"

namespace tern::nn {
namespace {

void check_channels(int64_t in, int64_t out, int64_t groups) {
  if (groups <= 0) fail(ErrorKind::value, "groups must be a positive integer");
  if (in % groups) fail(ErrorKind::value, "in_channels must be divisible by groups");
  if (out % groups) fail(ErrorKind::value, "out_channels must be divisible by groups");
}

void check_padding(std::string_view padding, std::string_view mode, bool strided) {
  if (!padding.empty() && padding != "same" && padding != "valid")
    failf(ErrorKind::value, "Invalid padding string '{}', should be one of {{'valid', 'same'}}", padding);
  if (padding == "same" && strided)
    fail(ErrorKind::value, "padding='same' is not supported for strided convolutions");
  if (mode != "zeros" && mode != "reflect" && mode != "replicate" && mode != "circular")
    failf(ErrorKind::value,
          "padding_mode must be one of {{'zeros', 'reflect', 'replicate', 'circular'}}, but got "
          "padding_mode='{}'",
          mode);
}

void init_conv(const Tensor& weight, const Tensor& bias) {
  init::kaiming_uniform_(weight, {.a = std::sqrt(5.0)});
  if (!bias.defined()) return;
  int64_t fan_in = init::fans(weight).in;
  if (fan_in == 0) return;
  double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  init::uniform_(bias, -bound, bound);
}

template <int N>
void check_kernel(const Extent<N>& kernel) {
  if (!kernel.has_value()) fail(ErrorKind::value, "convolution: give the kernel's size, as in {.kernel = 3}");
}

}  // namespace

template <int N>
Conv<N>::Conv(const ConvOptions<N>& o) : options(o) {
  check_kernel(o.kernel);
  check_channels(o.in, o.out, o.groups);
  check_padding(o.padding.mode, o.padding_mode, !o.stride.all(1));
  Dims sizes{o.out, o.in / o.groups};
  for (int i = 0; i < N; ++i) sizes.push_back(o.kernel[i]);
  weight = this->register_parameter("weight", make_uninitialised(sizes, o.dtype, o.device));
  bias = this->register_parameter("bias", o.bias ? make_uninitialised({o.out}, o.dtype, o.device) : Tensor());
  init_conv(weight, bias);

  std::string text =
      fmt::format("{}, {}, kernel_size={}, stride={}", o.in, o.out, o.kernel.str(), o.stride.str());
  if (!o.padding.mode.empty())
    text += ", padding=" + o.padding.mode;
  else if (!o.padding.all(0))
    text += ", padding=" + o.padding.str();
  if (!o.dilation.all(1)) text += ", dilation=" + o.dilation.str();
  if (o.groups != 1) text += fmt::format(", groups={}", o.groups);
  if (!o.bias) text += ", bias=False";
  if (o.padding_mode != "zeros") text += ", padding_mode=" + o.padding_mode;
  this->set_repr(text);
}

template <int N>
Tensor Conv<N>::forward(const Tensor& x) {
  const auto& o = options;
  auto run = [&](const Tensor& input, auto padding) {
    if constexpr (N == 1)
      return tern::conv1d(input, weight.now(), bias.now(), o.stride, padding, o.dilation, o.groups);
    else if constexpr (N == 2)
      return tern::conv2d(input, weight.now(), bias.now(), o.stride, padding, o.dilation, o.groups);
    else
      return tern::conv3d(input, weight.now(), bias.now(), o.stride, padding, o.dilation, o.groups);
  };
  if (o.padding_mode == "zeros") {
    if (!o.padding.mode.empty()) return run(x, std::string_view(o.padding.mode));
    return run(x, o.padding.span());
  }
  Dims around;  // from the last dimension backwards, both sides of each
  for (int i = N - 1; i >= 0; --i) {
    int64_t total = o.padding.mode == "same" ? o.dilation[i] * (o.kernel[i] - 1) : 2 * o.padding[i];
    around.push_back(total / 2);
    around.push_back(total - total / 2);
  }
  Extent<N> none = 0;
  return run(F::pad(x, around, o.padding_mode), none.span());
}
template class Conv<1>;
template class Conv<2>;
template class Conv<3>;

template <int N>
ConvTranspose<N>::ConvTranspose(const ConvTransposeOptions<N>& o) : options(o) {
  check_kernel(o.kernel);
  check_channels(o.in, o.out, o.groups);
  Dims sizes{o.in, o.out / o.groups};
  for (int i = 0; i < N; ++i) sizes.push_back(o.kernel[i]);
  weight = this->register_parameter("weight", make_uninitialised(sizes, o.dtype, o.device));
  bias = this->register_parameter("bias", o.bias ? make_uninitialised({o.out}, o.dtype, o.device) : Tensor());
  init_conv(weight, bias);

  std::string text =
      fmt::format("{}, {}, kernel_size={}, stride={}", o.in, o.out, o.kernel.str(), o.stride.str());
  if (!o.padding.all(0)) text += ", padding=" + o.padding.str();
  if (!o.dilation.all(1)) text += ", dilation=" + o.dilation.str();
  if (!o.output_padding.all(0)) text += ", output_padding=" + o.output_padding.str();
  if (o.groups != 1) text += fmt::format(", groups={}", o.groups);
  if (!o.bias) text += ", bias=False";
  this->set_repr(text);
}

template <int N>
Tensor ConvTranspose<N>::forward(const Tensor& x) {
  const auto& o = options;
  auto with = [&](auto&& run) {
    return run(weight.now(), bias.now(), o.stride, o.padding, o.output_padding, o.groups, o.dilation);
  };
  if constexpr (N == 1) return with([&](auto&&... a) { return tern::conv_transpose1d(x, a...); });
  if constexpr (N == 2) return with([&](auto&&... a) { return tern::conv_transpose2d(x, a...); });
  if constexpr (N == 3) return with([&](auto&&... a) { return tern::conv_transpose3d(x, a...); });
}
template class ConvTranspose<1>;
template class ConvTranspose<2>;
template class ConvTranspose<3>;

}  // namespace tern::nn
