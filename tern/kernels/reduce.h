// Reductions over any set of dims of a strided array, and running sums along one dim.
#pragma once
#include <cstdint>

#include "tern/tensor/dtype.h"

namespace tern::kernels {

enum class Reduction : uint8_t {
  sum,
  mean,
  prod,
  amax,  // NaN wins; at least one element
  amin,
  argmax,  // the first of equals, NaN wins; the index counts the reduced dims in row-major order
  argmin,
  any,
  all,
  var,       // p = correction
  std_,      // p = correction
  var_mean,  // p = correction; the second output is the mean
  std_mean,
  logsumexp,
  norm,  // p = order: any, 0, inf, -inf; complex input counts by magnitude
  count_nonzero,
};

// `out_strides` has one entry per input dim; entries of reduced dims are not read.
struct ReduceShape {
  int ndim;
  const int64_t* sizes;
  const int64_t* in_strides;
  const int64_t* out_strides;
  uint64_t reduced;  // bit d: dim d is reduced
};

// The result is cast to out_type: pass int64 for sums of integers, for arg*, and for counts; bool for
// any/all. `mean` is for the *_mean reductions (same type and strides as out). Throws `index` for
// amax/amin/arg* of no elements.
void reduce(Reduction op, const ReduceShape& shape, DType in_type, const void* in, DType out_type, void* out,
            double p = 0, void* mean = nullptr);

enum class Scan : uint8_t { sum, prod, max, min, logsumexp };
// out[i] = op(in[0..i]) along `dim`. For max and min `indices` (int64, strides of out) may be given.
void scan(Scan op, int ndim, const int64_t* sizes, int dim, DType in_type, const void* in,
          const int64_t* in_strides, DType out_type, void* out, const int64_t* out_strides,
          int64_t* indices = nullptr);

}  // namespace tern::kernels
