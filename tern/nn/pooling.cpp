#include "tern/nn/pooling.h"

#include "tern/base/format.h"
#include "tern/ops.h"

namespace tern::nn {
namespace {

const char* python(bool b) { return b ? "True" : "False"; }

// The last sizes of x where the wanted one is negative.
SmallVector<int64_t> output_sizes(const Tensor& x, Extent<3> wanted) {
  SmallVector<int64_t> sizes;
  for (int d = 0; d < 3; ++d) sizes.push_back(wanted[d] < 0 ? x.size(d - 3).guard_int() : wanted[d]);
  return sizes;
}

template <int N>
std::string window(Extent<N> kernel, Extent<N> stride, Extent<N> padding) {
  return fmt::format("kernel_size={}, stride={}, padding={}", kernel.str(), stride.str(), padding.str());
}

}  // namespace

MaxPool3d::MaxPool3d(const MaxPoolOptions<3>& o) : options(o) {
  if (!options.stride.has_value()) options.stride = o.kernel;
  set_repr(fmt::format("kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}",
                       options.kernel.short_str(), options.stride.short_str(), options.padding.short_str(),
                       options.dilation.short_str(), python(o.ceil_mode)));
}
Tensor MaxPool3d::forward(const Tensor& x) {
  return max_pool3d(x, options.kernel.ints(), options.stride.ints(), options.padding.ints(),
                    options.dilation.ints(), options.ceil_mode);
}
AvgPool3d::AvgPool3d(const AvgPoolOptions<3>& o) : options(o) {
  if (!options.stride.has_value()) options.stride = o.kernel;
  set_repr(fmt::format("kernel_size={}, stride={}, padding={}", options.kernel.short_str(),
                       options.stride.short_str(), options.padding.short_str()));
}
Tensor AvgPool3d::forward(const Tensor& x) {
  return avg_pool3d(x, options.kernel.ints(), options.stride.ints(), options.padding.ints(),
                    options.ceil_mode, options.count_include_pad, options.divisor_override);
}
AdaptiveAvgPool3d::AdaptiveAvgPool3d(Extent<3> size) : output_size(size) {
  set_repr("output_size=" + size.short_str());
}
Tensor AdaptiveAvgPool3d::forward(const Tensor& x) {
  Dims sizes;
  for (int64_t s : output_sizes(x, output_size)) sizes.push_back(s);
  return adaptive_avg_pool3d(x, sizes);
}
AdaptiveMaxPool1d::AdaptiveMaxPool1d(int64_t size) : output_size(size) {
  set_repr(fmt::format("output_size={}", size));
}
Tensor AdaptiveMaxPool1d::forward(const Tensor& x) {
  return std::get<0>(adaptive_max_pool1d(x, {output_size}));
}
AdaptiveMaxPool3d::AdaptiveMaxPool3d(Extent<3> size) : output_size(size) {
  set_repr("output_size=" + size.short_str());
}
Tensor AdaptiveMaxPool3d::forward(const Tensor& x) {
  return std::get<0>(adaptive_max_pool3d(x, output_sizes(x, output_size)));
}
template <int N>
LPPool<N>::LPPool(double p, Extent<N> k, Extent<N> s, bool ceil)
    : norm_type(p), kernel(k), stride(s), ceil_mode(ceil) {
  // Most say LPPool2d(2, 3): a whole number is printed as one.
  std::string norm = python_float(p);
  if (norm.ends_with(".0")) norm.resize(norm.size() - 2);
  this->set_repr(fmt::format("norm_type={}, kernel_size={}, stride={}, ceil_mode={}", norm, k.short_str(),
                             s.has_value() ? s.short_str() : "None", python(ceil)));
}
template <int N>
Tensor LPPool<N>::forward(const Tensor& x) {
  if constexpr (N == 1)
    return F::lp_pool1d(x, norm_type, kernel[0],
                        stride.has_value() ? std::optional<int64_t>(stride[0]) : std::nullopt, ceil_mode);
  else if constexpr (N == 2)
    return F::lp_pool2d(x, norm_type, kernel, stride, ceil_mode);
  else
    return F::lp_pool3d(x, norm_type, kernel, stride, ceil_mode);
}
template class LPPool<1>;
template class LPPool<2>;
template class LPPool<3>;
MaxUnpool1d::MaxUnpool1d(Extent<1> k, Extent<1> s, Extent<1> p)
    : kernel(k), stride(s.has_value() ? s : k), padding(p) {
  set_repr(window(kernel, stride, padding));
}
MaxUnpool2d::MaxUnpool2d(Extent<2> k, Extent<2> s, Extent<2> p)
    : kernel(k), stride(s.has_value() ? s : k), padding(p) {
  set_repr(window(kernel, stride, padding));
}
MaxUnpool3d::MaxUnpool3d(Extent<3> k, Extent<3> s, Extent<3> p)
    : kernel(k), stride(s.has_value() ? s : k), padding(p) {
  set_repr(window(kernel, stride, padding));
}

namespace {

template <int N>
const FractionalMaxPoolOptions<N>& checked(const FractionalMaxPoolOptions<N>& o, const char* name) {
  if (!o.output_size.has_value() && o.output_ratio.empty())
    failf(ErrorKind::value, "{} requires specifying either an output size, or a pooling ratio", name);
  if (o.output_size.has_value() && !o.output_ratio.empty())
    fail(ErrorKind::value, "only one of output_size and output_ratio may be specified");
  for (double r : o.output_ratio)
    if (!(r > 0 && r < 1)) failf(ErrorKind::value, "output_ratio must be between 0 and 1 (got {})", r);
  return o;
}

}  // namespace

FractionalMaxPool2d::FractionalMaxPool2d(const FractionalMaxPoolOptions<2>& o)
    : options(checked(o, "FractionalMaxPool2d")) {}
Tensor FractionalMaxPool2d::forward(const Tensor& x) {
  return std::get<0>(
      F::fractional_max_pool2d_with_indices(x, options.kernel, options.output_size, options.output_ratio));
}
FractionalMaxPool3d::FractionalMaxPool3d(const FractionalMaxPoolOptions<3>& o)
    : options(checked(o, "FractionalMaxPool3d")) {}
Tensor FractionalMaxPool3d::forward(const Tensor& x) {
  return std::get<0>(
      F::fractional_max_pool3d_with_indices(x, options.kernel, options.output_size, options.output_ratio));
}
RReLU::RReLU(double low, double high, bool in_place) : lower(low), upper(high), inplace(in_place) {
  set_repr(fmt::format("lower={}, upper={}{}", python_float(low), python_float(high),
                       in_place ? ", inplace=True" : ""));
}
Tensor RReLU::forward(const Tensor& x) {
  return inplace ? rrelu_(x, lower, upper, training()) : rrelu(x, lower, upper, training());
}

}  // namespace tern::nn
