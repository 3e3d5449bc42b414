// A float convolution of images with their channels innermost as products of rows: the taps of one row of the
// kernel lie side by side in memory, so a row of outputs is a product whose rows of A overlap. For
// convolutions so small that what a library spends on a call counts.
#pragma once
#include <memory>
#include <vector>

#include "tern/kernels/conv.h"

namespace tern::kernels {

class DirectConv {
 public:
  static bool fits(const ConvShape& shape) { return shape.groups == 1 && !shape.transposed; }

  // precondition: fits(shape), no operand is empty
  DirectConv(const ConvShape& shape, const float* weight, const float* bias, Activation activation);
  // Images [begin, end) of arrays that hold all. residual has y's shape, and may be y itself or null. Runs at
  // the same time are of different images: the padded ones are kept.
  void run(const float* x, const float* residual, float* y, int64_t begin, int64_t end);

  // Tiles of outputs: `rows` neighbours in a row by the columns of a panel.
  struct Panel {
    int64_t column, width;  // of output channels
    size_t at;              // in the weights
  };
  int64_t batch, in, out;
  int64_t x[3], y[3], stride[3], padding[3], padded[3];  // missing dims in front are 1
  int64_t taps;                                          // floats of a segment
  std::vector<int64_t> segments;                         // where they begin in the padded image
  std::vector<Panel> panels;
  const float* weights;     // aligned to 64 bytes
  std::vector<float> bias;  // as wide as the panels
  bool relu;

 private:
  const float* pad(const float* x, int64_t begin, int64_t end);

  std::unique_ptr<float[]> weight_memory_, image_;
  Activation activation_;
};

}  // namespace tern::kernels
