// Convolution in one to three spatial dims on dense arrays: x is [batch, in, *in_size], y is [batch,
// out, *out_size]; the weight is [out, in/groups, *kernel], or [in, out/groups, *kernel] when transposed.
#pragma once
#include <cstdint>
#include <memory>

#include "tern/kernels/gemm.h"
#include "tern/tensor/dtype.h"

namespace tern::kernels {

struct ConvShape {
  int dims = 2;  // spatial
  int64_t batch = 1, in_channels = 1, out_channels = 1, groups = 1;
  int64_t in_size[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0},
          dilation[3] = {1, 1, 1}, output_padding[3] = {0, 0, 0};
  bool transposed = false;
  // The second dim is the innermost in memory: of x and y, and of the weight. Only what is computed in float
  // can be so.
  bool channels_last = false, weight_last = false;

  int64_t out_size(int d) const {
    const int64_t reach = dilation[d] * (kernel[d] - 1) + 1;
    if (transposed) return (in_size[d] - 1) * stride[d] - 2 * padding[d] + reach + output_padding[d];
    const int64_t room = in_size[d] + 2 * padding[d] - reach;
    return room < 0 ? 0 : room / stride[d] + 1;
  }
};

// float32 by oneDNN; half and bfloat16 through float; float64, integers and complex by unfolding and gemm.
void conv_forward(DType type, const ConvShape& shape, const void* x, const void* weight, const void* bias,
                  void* y);
void conv_backward_input(DType type, const ConvShape& shape, const void* grad_y, const void* weight,
                         void* grad_x);
void conv_backward_weight(DType type, const ConvShape& shape, const void* x, const void* grad_y,
                          void* grad_weight);
void conv_backward_bias(DType type, const ConvShape& shape, const void* grad_y, void* grad_bias);

// A float convolution whose weight is reordered once, with y = activation(conv(x) + bias + residual).
class PreparedConv {
 public:
  enum class Layout : uint8_t { channels_first, channels_last };

  PreparedConv(const ConvShape& shape, const float* weight, const float* bias, Activation activation,
               bool add_residual, Layout layout);
  PreparedConv(PreparedConv&&) noexcept;
  PreparedConv& operator=(PreparedConv&&) noexcept;
  ~PreparedConv();
  // residual has y's shape and layout, and may be y itself; null unless add_residual.
  // One run at a time.
  void run(const float* x, const float* residual, float* y);
  // Whether it can do images [begin, end) of arrays that hold all, and others at the same time.
  bool by_images() const;
  void run_images(const float* x, const float* residual, float* y, int64_t begin, int64_t end);

 private:
  struct Way;
  template <class Conv>
  struct Own;
  struct Library;
  static double seconds(Way& way, size_t x_count, size_t y_count);
  std::unique_ptr<Way> way_;
};

}  // namespace tern::kernels
