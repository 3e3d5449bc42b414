// Moving elements by index: gather, scatter, row selection, advanced indexing, masks, sorting. Indices are
// int64; negative ones count from the end where PyTorch allows it, and ones out of range throw `index`.
#pragma once
#include <cstdint>

#include "tern/tensor/dtype.h"

namespace tern::kernels {

// out[..., j, ...] = in[..., index[j], ...] for contiguous in [outer, size, inner], out [outer, n, inner].
// Embedding lookup is outer = 1. index_type is int32 or int64.
void index_select(DType type, const void* in, int64_t outer, int64_t size, int64_t inner, DType index_type,
                  const void* index, int64_t n, void* out);
// out[..., index[j], ...] += alpha * in[..., j, ...]: index_add, and the gradient of index_select and
// embedding. Rows whose index is `skip` are left out (an embedding's padding index; -1: none).
void index_add(DType type, void* out, int64_t outer, int64_t size, int64_t inner, DType index_type,
               const void* index, int64_t n, const void* in, double alpha = 1, int64_t skip = -1);

// gather and scatter work on ndim dims of index_sizes; strides in elements, one per dim.
struct IndexShape {
  int ndim;
  const int64_t* index_sizes;
  int dim;
  int64_t dim_size;  // of the indexed array along dim
};
// out[i][j] = in[i][index[i][j]] along dim; out has the index's sizes.
void gather(DType type, const IndexShape& shape, const void* in, const int64_t* in_strides,
            const int64_t* index, const int64_t* index_strides, void* out, const int64_t* out_strides);
enum class ScatterOp : uint8_t { set, add, mul, amax, amin };
// out[i][index[i][j]] op= src[i][j] along dim. A scalar src has strides of 0.
void scatter(DType type, ScatterOp op, const IndexShape& shape, void* out, const int64_t* out_strides,
             const int64_t* index, const int64_t* index_strides, const void* src, const int64_t* src_strides);

// Advanced indexing: offsets[i] = sum over k of index_k[i] * strides[k], checked against sizes[k]; negative
// wraps.
void index_offsets(int n_indices, const int64_t* const* indices, const int64_t* sizes, const int64_t* strides,
                   int64_t n, int64_t* offsets);
// out[i, slice] = in[offsets[i] + slice]; out is contiguous [n, *slice_sizes].
void index_get(DType type, const void* in, int64_t n, const int64_t* offsets, int ndim,
               const int64_t* slice_sizes, const int64_t* slice_strides, void* out);
// out[offsets[i] + slice] = or += values[i, slice]; values as out above. In order, so the last of equals
// stays.
void index_put(DType type, bool accumulate, void* out, int64_t n, const int64_t* offsets, int ndim,
               const int64_t* slice_sizes, const int64_t* slice_strides, const void* values);

// How many elements are not zero, and their indices: out is [count, ndim], in row-major order.
int64_t nonzero_count(DType type, int ndim, const int64_t* sizes, const int64_t* strides, const void* x);
void nonzero(DType type, int ndim, const int64_t* sizes, const int64_t* strides, const void* x, int64_t* out);
// out = the elements of x where the mask is set, contiguous; gives how many.
int64_t masked_select(DType type, int ndim, const int64_t* sizes, const void* x, const int64_t* x_strides,
                      const bool* mask, const int64_t* mask_strides, void* out);
// x where the mask is set = the next of source; throws when source has too few.
void masked_scatter(DType type, int ndim, const int64_t* sizes, void* x, const int64_t* x_strides,
                    const bool* mask, const int64_t* mask_strides, const void* source, int64_t source_count);

// Sorts lines of n elements along dim, keeping the first k: k = sizes[dim] sorts, less is topk. Stable; NaN
// is the largest. values may be null.
void sort(DType type, int ndim, const int64_t* sizes, int dim, const void* x, const int64_t* x_strides,
          bool descending, int64_t k, void* values, int64_t* indices, const int64_t* out_strides);

}  // namespace tern::kernels
