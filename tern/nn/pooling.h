// Pooling in three dimensions, adaptive maxima, power averages, windows at random places, and the way back
// from maxima.
#pragma once
#include "tern/nn/images.h"

namespace tern::nn {

class MaxPool3d : public Builtin<MaxPool3d> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.pooling.MaxPool3d";
  explicit MaxPool3d(const MaxPoolOptions<3>& options);
  explicit MaxPool3d(Extent<3> kernel, Extent<3> stride = {}, Extent<3> padding = 0)
      : MaxPool3d(MaxPoolOptions<3>{kernel, stride, padding}) {}
  Tensor forward(const Tensor& x);
  MaxPoolOptions<3> options;
};
class AvgPool3d : public Builtin<AvgPool3d> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.pooling.AvgPool3d";
  explicit AvgPool3d(const AvgPoolOptions<3>& options);
  explicit AvgPool3d(Extent<3> kernel, Extent<3> stride = {}, Extent<3> padding = 0)
      : AvgPool3d(AvgPoolOptions<3>{kernel, stride, padding}) {}
  Tensor forward(const Tensor& x);
  AvgPoolOptions<3> options;
};
class AdaptiveAvgPool3d : public Builtin<AdaptiveAvgPool3d> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.pooling.AdaptiveAvgPool3d";
  explicit AdaptiveAvgPool3d(Extent<3> output_size);
  Tensor forward(const Tensor& x);
  Extent<3> output_size;
};
class AdaptiveMaxPool1d : public Builtin<AdaptiveMaxPool1d> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.pooling.AdaptiveMaxPool1d";
  explicit AdaptiveMaxPool1d(int64_t output_size);
  Tensor forward(const Tensor& x);
  int64_t output_size;
};
class AdaptiveMaxPool3d : public Builtin<AdaptiveMaxPool3d> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.pooling.AdaptiveMaxPool3d";
  explicit AdaptiveMaxPool3d(Extent<3> output_size);
  Tensor forward(const Tensor& x);
  Extent<3> output_size;
};
// The p-th root of the sum of the p-th powers of a window.
template <int N>
class LPPool : public Builtin<LPPool<N>> {
 public:
  static constexpr const char* type_name = N == 1   ? "torch.nn.modules.pooling.LPPool1d"
                                           : N == 2 ? "torch.nn.modules.pooling.LPPool2d"
                                                    : "torch.nn.modules.pooling.LPPool3d";
  LPPool(double norm_type, Extent<N> kernel, Extent<N> stride = {}, bool ceil_mode = false);
  Tensor forward(const Tensor& x);
  double norm_type;
  Extent<N> kernel, stride;
  bool ceil_mode;
};
using LPPool1d = LPPool<1>;
using LPPool2d = LPPool<2>;
using LPPool3d = LPPool<3>;
// Takes the indices of the pooling (tern::max_pool2d_with_indices) besides its values.
class MaxUnpool1d : public Builtin<MaxUnpool1d> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.pooling.MaxUnpool1d";
  explicit MaxUnpool1d(Extent<1> kernel, Extent<1> stride = {}, Extent<1> padding = 0);
  Tensor forward(const Tensor& x, const Tensor& indices) {
    return F::max_unpool1d(x, indices, kernel, stride, padding);
  }
  Extent<1> kernel, stride, padding;
};
class MaxUnpool2d : public Builtin<MaxUnpool2d> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.pooling.MaxUnpool2d";
  explicit MaxUnpool2d(Extent<2> kernel, Extent<2> stride = {}, Extent<2> padding = 0);
  Tensor forward(const Tensor& x, const Tensor& indices) {
    return F::max_unpool2d(x, indices, kernel, stride, padding);
  }
  Extent<2> kernel, stride, padding;
};
class MaxUnpool3d : public Builtin<MaxUnpool3d> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.pooling.MaxUnpool3d";
  explicit MaxUnpool3d(Extent<3> kernel, Extent<3> stride = {}, Extent<3> padding = 0);
  Tensor forward(const Tensor& x, const Tensor& indices) {
    return F::max_unpool3d(x, indices, kernel, stride, padding);
  }
  Extent<3> kernel, stride, padding;
};

// Maxima of windows that lie at random places.
template <int N>
struct FractionalMaxPoolOptions {
  Extent<N> kernel;
  Extent<N> output_size = {};             // either this
  std::vector<double> output_ratio = {};  // or this, of the input's sizes
};
class FractionalMaxPool2d : public Builtin<FractionalMaxPool2d> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.pooling.FractionalMaxPool2d";
  explicit FractionalMaxPool2d(const FractionalMaxPoolOptions<2>& options);
  Tensor forward(const Tensor& x);
  FractionalMaxPoolOptions<2> options;
};
class FractionalMaxPool3d : public Builtin<FractionalMaxPool3d> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.pooling.FractionalMaxPool3d";
  explicit FractionalMaxPool3d(const FractionalMaxPoolOptions<3>& options);
  Tensor forward(const Tensor& x);
  FractionalMaxPoolOptions<3> options;
};

class RReLU : public Builtin<RReLU> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.activation.RReLU";
  explicit RReLU(double lower = 1.0 / 8, double upper = 1.0 / 3, bool inplace = false);
  Tensor forward(const Tensor& x);
  double lower, upper;
  bool inplace;
};

}  // namespace tern::nn
