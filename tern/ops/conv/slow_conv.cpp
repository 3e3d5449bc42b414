// What the other names of convolution check, and the gradients of the plain one.
#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/checks.h"
#include "tern/ops/slow_conv.args.h"

namespace tern {

void check_kernel_size(const Tensor& weight, Span<const SymInt> kernel_size) {
  const int64_t n = static_cast<int64_t>(kernel_size.size());
  bool same = weight.dim() == n + 2;
  for (int64_t d = 0; same && d < n; ++d) same = weight.size(d + 2) == kernel_size[static_cast<size_t>(d)];
  if (!same)
    failf("Expected a weight of {} dimensions whose last ones are kernel_size {}, but got {}", n + 2,
          str(kernel_size), str(weight.sizes()));
}

std::tuple<Tensor, Tensor, Tensor> body__slow_conv2d_backward_output_mask(
    const args::_slow_conv2d_backward_output_mask& a) {
  const Dims bias{a.weight.size(0)}, one{SymInt(1), SymInt(1)}, none{SymInt(0), SymInt(0)};
  return convolution_backward(a.grad_output, a.self, a.weight, bias, a.stride, a.padding, one, false, none, 1,
                              a.output_mask);
}

std::tuple<Tensor, Tensor, Tensor> body__convolution_double_backward(
    const args::_convolution_double_backward& a) {
  auto convolve = [&](const Tensor& x, const Tensor& w) {
    return convolution(x, w, Tensor(), a.stride, a.padding, a.dilation, a.transposed, a.output_padding,
                       a.groups);
  };
  auto backward = [&](const Tensor& x, const Tensor& w, bool of_input) {
    const bool mask[] = {of_input, !of_input, false};
    return convolution_backward(a.gO, x, w, std::nullopt, a.stride, a.padding, a.dilation, a.transposed,
                                a.output_padding, a.groups, mask);
  };
  Tensor grad_output, input, weight;
  if (a.output_mask[0]) {
    auto add = [&](const Tensor& t) { grad_output = grad_output.defined() ? grad_output + t : t; };
    if (a.ggI.defined()) add(convolve(a.ggI, a.weight));
    if (a.ggW.defined()) add(convolve(a.self, a.ggW));
    if (a.ggb.defined()) {
      Dims channels(static_cast<size_t>(a.gO.dim()), SymInt(1));
      channels[1] = a.gO.size(1);
      add(expand(reshape(a.ggb, channels), a.gO.sizes()));
    }
  }
  if (a.output_mask[1] && a.ggW.defined()) input = std::get<0>(backward(a.self, a.ggW, true));
  if (a.output_mask[2] && a.ggI.defined()) weight = std::get<1>(backward(a.ggI, a.weight, false));
  return {grad_output, input, weight};
}

}  // namespace tern
