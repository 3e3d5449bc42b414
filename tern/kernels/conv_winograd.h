// A float convolution of 3 by 3 taps by Winograd's F(2x2, 3x3): four outputs from sixteen products a channel
// where the taps have thirty-six. Channels innermost; for convolutions so small that all of it stays in the
// cache.
#pragma once
#include <memory>
#include <vector>

#include "tern/kernels/conv.h"

namespace tern::kernels {

class WinogradConv {
 public:
  static bool fits(const ConvShape& shape, Activation activation);

  // precondition: fits(shape, activation), no operand is empty
  WinogradConv(const ConvShape& shape, const float* weight, const float* bias, Activation activation);
  // As DirectConv's.
  void run(const float* x, const float* residual, float* y, int64_t begin, int64_t end);

  int64_t batch, in, out;
  int64_t x[2], y[2], padding[2];
  int64_t tiles[2], padded[2];  // tiles of two by two outputs; the image they read
  const float* weights;         // aligned to 64 bytes: panels of output channels, in each 16 matrices
  std::vector<float> bias;
  bool relu;

 private:
  const float* pad(const float* x, int64_t begin, int64_t end);

  std::unique_ptr<float[]> weight_memory_, image_;
};

}  // namespace tern::kernels
