// Integers that stand for real numbers: to and from floats, 8-bit matrix products with 32-bit sums, and what
// is made of the sums. Rounding is to nearest even, as PyTorch's CPU kernels round.
#pragma once
#include <cstdint>
#include <memory>

#include "tern/tensor/dtype.h"

namespace tern::kernels {

// q = clamp(round(x / scale + zero_point)) with the reciprocal of the scale; `type` is uint8, int8 or int32.
void quantize(DType type, const float* x, void* q, int64_t n, float scale, int64_t zero_point);
void dequantize(DType type, const void* q, float* x, int64_t n, float scale, int64_t zero_point);
// Two quantized operands and a quantized result, all of one type (uint8, int8 or int32).
struct Affine {
  float scale = 1;
  int32_t zero_point = 0;
};
void add_quantized(DType type, const void* a, Affine qa, const void* b, Affine qb, void* c, Affine qc,
                   bool relu, int64_t n);
void multiply_quantized(DType type, const void* a, Affine qa, const void* b, Affine qb, void* c, Affine qc,
                        bool relu, int64_t n);
// Least and greatest of n > 0 numbers.
void min_max(const float* x, int64_t n, float& low, float& high);

// A weight matrix [n, k] of int8 with a zero point for each row, in the order the products read it.
class QuantizedWeight {
 public:
  QuantizedWeight() = default;
  QuantizedWeight(int64_t n, int64_t k, const int8_t* w, const int32_t* zero_points);
  int64_t rows() const { return n_; }
  int64_t columns() const { return k_; }
  // c[m, n] = sum over k of (a - a_zero) * (w - zero point of the row); rows of a are lda apart, of c ldc.
  void multiply(int64_t m, const uint8_t* a, int64_t lda, int32_t a_zero, int32_t* c, int64_t ldc) const;

 private:
  int64_t n_ = 0, k_ = 0;
  std::shared_ptr<int8_t[]> w_;             // k x n
  std::shared_ptr<int32_t[]> zero_points_;  // of rows, or null when all are 0
  std::shared_ptr<int32_t[]> sums_;         // of rows of w
};

// sums[i] = sum over taps t of (a[t][i] - a_zero) * w[t * n + i]; a tap that is null adds nothing.
void multiply_taps(const uint8_t* const* a, const int8_t* w, int64_t taps, int32_t a_zero, int32_t* sums,
                   int64_t n);

// What becomes of the sums of one row of n outputs.
struct Requantize {
  int64_t n = 0;
  const float* scales = nullptr;  // of the sums: input scale times weight scale, n of them
  const float* bias = nullptr;    // n real numbers, or null
  bool relu = false;
};
// Real numbers: y = scale * c + bias.
void finish_float(const Requantize& r, int64_t rows, const int32_t* c, int64_t ldc, float* y, int64_t ldy);
// q = clamp(round((c + bias / scale) * (scale / y_scale)) + zero_point); `type` is uint8 or int8.
void finish_quantized(const Requantize& r, DType type, float y_scale, int32_t zero_point, int64_t rows,
                      const int32_t* c, int64_t ldc, void* q, int64_t ldq);

}  // namespace tern::kernels
