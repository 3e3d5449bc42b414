#include "tern/kernels/pointwise.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/base/parallel.h"
#include "tern/kernels/loops.h"

namespace tern::kernels {
namespace {

constexpr int kMaxOperands = 8;
constexpr int kMaxDims = 64;
constexpr int64_t kBlockBytes = 4096;
constexpr int64_t kGrain = 32768;

inline int64_t width(DType t) {
  switch (t) {
    case DType::float32:
    case DType::int32:
    case DType::uint32:
      return 4;
    case DType::int64:
    case DType::uint64:
    case DType::float64:
    case DType::complex64:
      return 8;
    case DType::complex128:
      return 16;
    case DType::float16:
    case DType::bfloat16:
    case DType::int16:
    case DType::uint16:
      return 2;
    default:
      return 1;
  }
}

inline bool dense(int ndim, const int64_t* sizes, const int64_t* strides) {
  int64_t expected = 1;
  for (int d = ndim - 1; d >= 0; --d) {
    if (sizes[d] == 1) continue;
    if (strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

struct Lane {  // one operand in iteration order, innermost dim first
  char* data;
  DType dtype, compute;
  int64_t width, compute_width;
  Cast cast;        // to the compute type for inputs, from it for outputs; null when the types agree
  Loop spread;      // for an input that stands still along a row, of the compute type
  bool contiguous;  // over the whole iteration space, in its order
  int64_t strides[kMaxDims];

  // n elements of an input from p on, in a buffer.
  void bring(const char* p, char* buffer, int64_t n) const {
    if (!spread) return cast(p, strides[0], buffer, 1, n);
    const void* in[] = {p};
    void* out[] = {buffer};
    spread(in, out, n, nullptr);
  }
};

struct Plan {
  Loop loop;
  const void* params;
  int nout, noperands;  // outputs come first
  int ndim = 0;
  int64_t sizes[kMaxDims];
  int64_t n = 1, block;
  Lane lanes[kMaxOperands];

  void make(const DType* compute_in, DType compute_out, int dims, const int64_t* shape,
            const Operand* outputs, const Operand* inputs);
  void run(int64_t begin, int64_t end) const;
  // Two dims, and rows that are neither very short nor too long for a buffer: whole rows.
  bool is_plane() const;
  void run_plane(int64_t begin, int64_t end) const;
  // Where an input runs across the others (x + x.t()): in tiles, so that its cache lines are used whole.
  bool runs_across() const;
  int64_t tile_rows() const { return (sizes[1] + kTileRows - 1) / kTileRows * (n / (sizes[0] * sizes[1])); }
  void run_tiles(int64_t begin, int64_t end) const;

 private:
  static constexpr int64_t kTileRows = 16;
  bool is_across(const Lane& l) const {
    return l.dtype == l.compute && (l.width == 4 || l.width == 8) && l.strides[0] != 1 && l.strides[0] != 0 &&
           l.strides[1] == 1;
  }
  bool outer(int a, int b) const;
  void swap_dims(int a, int b);
  void coalesce();
  void run_rows(int64_t begin, int64_t end) const;
  void run_mixed(int64_t begin, int64_t end) const;
  void transfer(int k, int64_t begin, int64_t count, char* buffer) const;
};

// Should dim a be outside of dim b? The first operand whose strides differ decides; outputs come first.
bool Plan::outer(int a, int b) const {
  for (int k = 0; k < noperands; ++k) {
    const int64_t sa = std::abs(lanes[k].strides[a]), sb = std::abs(lanes[k].strides[b]);
    if (sa != sb && (k < nout || (sa && sb))) return sa > sb;
  }
  return false;
}

void Plan::swap_dims(int a, int b) {
  std::swap(sizes[a], sizes[b]);
  for (int k = 0; k < noperands; ++k) std::swap(lanes[k].strides[a], lanes[k].strides[b]);
}

void Plan::coalesce() {
  int last = 0;
  for (int d = 1; d < ndim; ++d) {
    bool joins = true;
    for (int k = 0; k < noperands && joins; ++k)
      joins = lanes[k].strides[d] == lanes[k].strides[last] * sizes[last];
    if (joins) {
      sizes[last] *= sizes[d];
    } else if (++last != d) {
      sizes[last] = sizes[d];
      for (int k = 0; k < noperands; ++k) lanes[k].strides[last] = lanes[k].strides[d];
    }
  }
  ndim = last + 1;
}

void Plan::make(const DType* compute_in, DType compute_out, int dims, const int64_t* shape,
                const Operand* outputs, const Operand* inputs) {
  for (int k = 0; k < noperands; ++k) {
    const bool is_out = k < nout;
    const Operand& o = is_out ? outputs[k] : inputs[k - nout];
    Lane& l = lanes[k];
    l.data = static_cast<char*>(o.data);
    l.dtype = o.dtype;
    l.compute = is_out ? compute_out : compute_in[k - nout];
    l.width = element_size(o.dtype);
    l.compute_width = width(l.compute);
    l.cast = l.dtype == l.compute ? nullptr
             : is_out             ? find_cast(l.compute, l.dtype)
                                  : find_cast(l.dtype, l.compute);
  }
  for (int d = dims - 1; d >= 0; --d) {
    if (shape[d] == 1) continue;
    if (ndim == kMaxDims) failf("pointwise operators work on at most {} dimensions", kMaxDims);
    sizes[ndim] = shape[d];
    for (int k = 0; k < noperands; ++k)
      lanes[k].strides[ndim] = (k < nout ? outputs[k] : inputs[k - nout]).strides[d];
    ++ndim;
  }
  if (ndim == 0) {
    ndim = 1;
    sizes[0] = 1;
    for (int k = 0; k < noperands; ++k) lanes[k].strides[0] = 1;
  }
  for (int d = 1; d < ndim; ++d)
    for (int e = d; e > 0 && outer(e - 1, e); --e) swap_dims(e - 1, e);
  coalesce();
  // A long dim makes better inner loops than a short one, even when it is strided.
  if (sizes[0] < 8 && ndim > 1) {
    int longest = static_cast<int>(std::max_element(sizes, sizes + ndim) - sizes);
    if (sizes[longest] >= 64)
      for (int d = longest; d > 0; --d) swap_dims(d, d - 1);
  }
  int64_t widest = 1;
  for (int k = 0; k < noperands; ++k) {
    Lane& l = lanes[k];
    widest = std::max(widest, l.compute_width);
    int64_t expected = 1;
    l.contiguous = true;
    for (int d = 0; d < ndim; ++d) {
      l.contiguous &= l.strides[d] == expected;
      expected *= sizes[d];
    }
    l.spread = nullptr;
    if (l.strides[0] != 1 && !l.cast && (sizes[0] >= 16 || ndim == 1)) {
      l.cast = find_cast(l.dtype, l.dtype);
      if (l.strides[0] == 0 && k >= nout) l.spread = find_loop("spread", l.dtype);
    }
  }
  block = kBlockBytes / widest;
}

void Plan::run(int64_t begin, int64_t end) const {
  sizes[0] >= 16 || ndim == 1 ? run_rows(begin, end) : run_mixed(begin, end);
}

// Where linear position `at` is: its index in each dim and the byte offset of each operand.
struct Position {
  int64_t index[kMaxDims];
  int64_t offset[kMaxOperands];

  Position(const Plan& p, int64_t at) {
    for (int k = 0; k < p.noperands; ++k) offset[k] = 0;
    for (int d = 0; d < p.ndim; ++d) {
      index[d] = at ? at % p.sizes[d] : 0;
      at = at ? at / p.sizes[d] : 0;
      for (int k = 0; k < p.noperands; ++k) offset[k] += index[d] * p.lanes[k].strides[d] * p.lanes[k].width;
    }
  }
  void advance(const Plan& p, int64_t by) {  // within the current row, or to the start of the next
    index[0] += by;
    for (int k = 0; k < p.noperands; ++k) offset[k] += by * p.lanes[k].strides[0] * p.lanes[k].width;
    for (int d = 0; index[d] == p.sizes[d] && d + 1 < p.ndim; ++d) {
      index[d] = 0;
      ++index[d + 1];
      for (int k = 0; k < p.noperands; ++k)
        offset[k] += (p.lanes[k].strides[d + 1] - p.sizes[d] * p.lanes[k].strides[d]) * p.lanes[k].width;
    }
  }
};

void Plan::run_rows(int64_t begin, int64_t end) const {
  alignas(64) char buffers[kMaxOperands][kBlockBytes];
  const char* filled[kMaxOperands] = {};
  int64_t filled_count[kMaxOperands] = {};
  const void* in[kMaxOperands];
  void* out[kMaxOperands];
  bool any_cast = false;
  for (int k = 0; k < noperands; ++k) any_cast |= lanes[k].cast != nullptr;
  Position at(*this, begin);
  for (int64_t pos = begin; pos < end;) {
    const int64_t run = std::min(sizes[0] - at.index[0], end - pos);
    const int64_t m = any_cast ? std::min(run, block) : run;
    for (int k = 0; k < noperands; ++k) {
      const Lane& l = lanes[k];
      char* p = l.data + at.offset[k];
      if (k < nout) {
        out[k] = l.cast ? buffers[k] : p;
      } else if (!l.cast) {
        in[k - nout] = p;
      } else {
        if (l.strides[0] != 0) {
          l.cast(p, l.strides[0], buffers[k], 1, m);
        } else if (filled[k] != p || filled_count[k] < m) {
          l.bring(p, buffers[k], m);
          filled[k] = p;
          filled_count[k] = m;
        }
        in[k - nout] = buffers[k];
      }
    }
    loop(in, out, m, params);
    for (int k = 0; k < nout; ++k)
      if (lanes[k].cast) lanes[k].cast(buffers[k], 1, lanes[k].data + at.offset[k], lanes[k].strides[0], m);
    at.advance(*this, m);
    pos += m;
  }
}

// The rows of one operand from linear position `begin` on: row(pointer, elements before it, elements).
template <class Row>
inline void each_row(const Plan& p, const Lane& l, int64_t begin, int64_t count, Row row) {
  int64_t index[kMaxDims], offset = 0;
  for (int d = 0; d < p.ndim; ++d) {
    index[d] = begin ? begin % p.sizes[d] : 0;
    begin = begin ? begin / p.sizes[d] : 0;
    offset += index[d] * l.strides[d];
  }
  for (int64_t done = 0; done < count;) {
    const int64_t run = std::min(p.sizes[0] - index[0], count - done);
    row(l.data + offset * l.width, done, run);
    done += run;
    offset += run * l.strides[0];
    index[0] += run;
    for (int d = 0; index[d] == p.sizes[d] && d + 1 < p.ndim; ++d) {
      index[d] = 0;
      ++index[d + 1];
      offset += l.strides[d + 1] - p.sizes[d] * l.strides[d];
    }
  }
}

// Between a strided operand and a buffer, bits as they are; rows are short.
template <class T>
inline void move_rows(const Plan& p, const Lane& l, int64_t begin, int64_t count, char* buffer, bool in) {
  T* const packed = reinterpret_cast<T*>(buffer);
  const int64_t stride = l.strides[0];
  if (in)
    each_row(p, l, begin, count, [&](char* at, int64_t done, int64_t run) {
      const T* from = reinterpret_cast<const T*>(at);
      for (int64_t i = 0; i < run; ++i) packed[done + i] = from[i * stride];
    });
  else
    each_row(p, l, begin, count, [&](char* at, int64_t done, int64_t run) {
      T* to = reinterpret_cast<T*>(at);
      for (int64_t i = 0; i < run; ++i) to[i * stride] = packed[done + i];
    });
}

void Plan::transfer(int k, int64_t begin, int64_t count, char* buffer) const {
  const Lane& l = lanes[k];
  const bool in = k >= nout;
  if (l.dtype == l.compute) switch (l.width) {
      case 4:
        return move_rows<uint32_t>(*this, l, begin, count, buffer, in);
      case 8:
        return move_rows<uint64_t>(*this, l, begin, count, buffer, in);
      case 1:
        return move_rows<uint8_t>(*this, l, begin, count, buffer, in);
      case 2:
        return move_rows<uint16_t>(*this, l, begin, count, buffer, in);
      default:
        break;
    }
  const Cast cast = l.cast ? l.cast : find_cast(l.dtype, l.dtype);
  each_row(*this, l, begin, count, [&](char* at, int64_t done, int64_t run) {
    char* packed = buffer + done * l.compute_width;
    in ? cast(at, l.strides[0], packed, 1, run) : cast(packed, 1, at, l.strides[0], run);
  });
}

// Rows are short: a block holds many of them.
void Plan::run_mixed(int64_t begin, int64_t end) const {
  alignas(64) char buffers[kMaxOperands][kBlockBytes];
  const void* in[kMaxOperands];
  void* out[kMaxOperands];
  for (int64_t pos = begin; pos < end; pos += block) {
    const int64_t m = std::min(block, end - pos);
    for (int k = 0; k < noperands; ++k) {
      const Lane& l = lanes[k];
      const bool direct = l.contiguous && l.dtype == l.compute;
      char* p = direct ? l.data + pos * l.width : buffers[k];
      if (k < nout) {
        out[k] = p;
      } else {
        in[k - nout] = p;
        if (!direct) transfer(k, pos, m, p);
      }
    }
    loop(in, out, m, params);
    for (int k = 0; k < nout; ++k)
      if (out[k] == buffers[k]) transfer(k, pos, m, buffers[k]);
  }
}

bool Plan::is_plane() const {
  if (ndim != 2 || sizes[0] < 16) return false;
  for (int k = 0; k < noperands; ++k)
    if (lanes[k].cast && sizes[0] > block) return false;
  return true;
}

void Plan::run_plane(int64_t begin, int64_t end) const {
  alignas(64) char buffers[kMaxOperands][kBlockBytes];
  const void* in[kMaxOperands];
  void* out[kMaxOperands];
  char* at[kMaxOperands];
  int64_t step[kMaxOperands];
  for (int k = 0; k < noperands; ++k) {
    step[k] = lanes[k].strides[1] * lanes[k].width;
    at[k] = lanes[k].data + begin * step[k];
    if (lanes[k].cast) (k < nout ? out[k] : const_cast<void*&>(in[k - nout])) = buffers[k];
  }
  for (int64_t row = begin; row < end; ++row) {
    for (int k = 0; k < nout; ++k)
      if (!lanes[k].cast) out[k] = at[k];
    for (int k = nout; k < noperands; ++k) {
      const Lane& l = lanes[k];
      if (!l.cast)
        in[k - nout] = at[k];
      else if (row == begin || step[k] != 0)  // a row that stays is brought once
        l.bring(at[k], buffers[k], sizes[0]);
    }
    loop(in, out, sizes[0], params);
    for (int k = 0; k < noperands; ++k) {
      if (k < nout && lanes[k].cast) lanes[k].cast(buffers[k], 1, at[k], lanes[k].strides[0], sizes[0]);
      at[k] += step[k];
    }
  }
}

bool Plan::runs_across() const {
  if (ndim < 2 || sizes[0] < 64 || sizes[1] < kTileRows) return false;
  bool any = false;
  for (int k = 0; k < noperands; ++k) {
    const Lane& l = lanes[k];
    if (k >= nout && is_across(l))
      any = true;
    else if (l.dtype != l.compute || (l.strides[0] != 1 && (k < nout || l.strides[0] != 0)))
      return false;
  }
  return any;
}

template <class T>
inline void turn_tile(const char* from, int64_t stride, int64_t rows, int64_t columns, char* to) {
  const T* x = reinterpret_cast<const T*>(from);
  T* y = reinterpret_cast<T*>(to);
  if (rows == 16) {
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t r = 0; r < 16; ++r) y[r * columns + c] = x[c * stride + r];
    return;
  }
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = 0; r < rows; ++r) y[r * columns + c] = x[c * stride + r];
}

void Plan::run_tiles(int64_t begin, int64_t end) const {
  alignas(64) char buffers[kMaxOperands][kBlockBytes];
  const void* in[kMaxOperands];
  void* out[kMaxOperands];
  int64_t widest = 1;
  for (int k = 0; k < noperands; ++k) widest = std::max(widest, lanes[k].width);
  const int64_t per_plane = (sizes[1] + kTileRows - 1) / kTileRows, step = kBlockBytes / kTileRows / widest;
  for (int64_t tile = begin; tile < end; ++tile) {
    const int64_t row = tile % per_plane * kTileRows, rows = std::min(kTileRows, sizes[1] - row);
    int64_t base[kMaxOperands];
    for (int k = 0; k < noperands; ++k) {
      base[k] = row * lanes[k].strides[1];
      int64_t rest = tile / per_plane;
      for (int d = 2; d < ndim; ++d) base[k] += rest % sizes[d] * lanes[k].strides[d], rest /= sizes[d];
    }
    for (int64_t column = 0; column < sizes[0]; column += step) {
      const int64_t columns = std::min(step, sizes[0] - column);
      for (int k = nout; k < noperands; ++k) {
        const Lane& l = lanes[k];
        if (!is_across(l)) continue;
        const char* p = l.data + (base[k] + column * l.strides[0]) * l.width;
        if (l.width == 4)
          turn_tile<uint32_t>(p, l.strides[0], rows, columns, buffers[k]);
        else
          turn_tile<uint64_t>(p, l.strides[0], rows, columns, buffers[k]);
      }
      for (int64_t r = 0; r < rows; ++r) {
        for (int k = 0; k < noperands; ++k) {
          const Lane& l = lanes[k];
          char* p = l.data + (base[k] + r * l.strides[1] + column * l.strides[0]) * l.width;
          if (k < nout) {
            out[k] = p;
          } else if (is_across(l)) {
            in[k - nout] = buffers[k] + r * columns * l.width;
          } else if (l.strides[0] == 0) {
            l.bring(p, buffers[k], columns);
            in[k - nout] = buffers[k];
          } else {
            in[k - nout] = p;
          }
        }
        loop(in, out, columns, params);
      }
    }
  }
}

[[gnu::noinline]] void run_general(Loop loop, const DType* compute_in, DType compute_out, int ndim,
                                   const int64_t* sizes, const Operand* outputs, int nout,
                                   const Operand* inputs, int nin, int64_t n, const void* params) {
  Plan plan;
  plan.loop = loop;
  plan.params = params;
  plan.nout = nout;
  plan.noperands = nout + nin;
  plan.n = n;
  plan.make(compute_in, compute_out, ndim, sizes, outputs, inputs);
  if (plan.runs_across())
    return parallel_for(0, plan.tile_rows(), std::max<int64_t>(1, kGrain / (16 * plan.sizes[0])),
                        [&plan](int64_t begin, int64_t end) { plan.run_tiles(begin, end); });
  if (plan.is_plane())
    return parallel_for(0, plan.sizes[1], std::max<int64_t>(1, kGrain / plan.sizes[0]),
                        [&plan](int64_t begin, int64_t end) { plan.run_plane(begin, end); });
  parallel_for(0, n, kGrain, [&plan](int64_t begin, int64_t end) { plan.run(begin, end); });
}

[[gnu::noinline]] void run_dense_parallel(Loop loop, const DType* compute_in, DType compute_out,
                                          void* const* out, int nout, const void* const* in, int nin,
                                          int64_t n, const void* params) {
  const int64_t out_width = width(compute_out);
  // Cut at cache lines.
  parallel_for(0, (n + 63) / 64, kGrain / 64, [&](int64_t begin, int64_t end) {
    begin *= 64;
    end = std::min(end * 64, n);
    const void* from[kMaxOperands];
    void* to[kMaxOperands];
    for (int k = 0; k < nin; ++k) from[k] = static_cast<const char*>(in[k]) + begin * width(compute_in[k]);
    for (int k = 0; k < nout; ++k) to[k] = static_cast<char*>(out[k]) + begin * out_width;
    loop(from, to, end - begin, params);
  });
}

template <class ComputeIn>
inline void run(Loop loop, ComputeIn compute_in, DType compute_out, int ndim, const int64_t* sizes,
                const Operand* outputs, int nout, const Operand* inputs, int nin, const void* params) {
  int64_t n = 1;
  for (int d = 0; d < ndim; ++d) n *= sizes[d];
  if (n == 0) return;
  const void* in[kMaxOperands];
  void* out[kMaxOperands];
  bool direct = true;
  for (int k = 0; k < nout && direct; ++k) {
    out[k] = outputs[k].data;
    direct = outputs[k].dtype == compute_out && dense(ndim, sizes, outputs[k].strides);
  }
  for (int k = 0; k < nin && direct; ++k) {
    in[k] = inputs[k].data;
    direct = inputs[k].dtype == compute_in(k) && dense(ndim, sizes, inputs[k].strides);
  }
  if (direct && n < kGrain) return loop(in, out, n, params);
  if (nin + nout > kMaxOperands) failf("a pointwise operator has at most {} operands", kMaxOperands);
  DType types[kMaxOperands];
  for (int k = 0; k < nin; ++k) types[k] = compute_in(k);
  if (direct) return run_dense_parallel(loop, types, compute_out, out, nout, in, nin, n, params);
  run_general(loop, types, compute_out, ndim, sizes, outputs, nout, inputs, nin, n, params);
}

}  // namespace

void run_pointwise(Loop loop, DType compute_in, DType compute_out, int ndim, const int64_t* sizes,
                   const Operand* outputs, int nout, const Operand* inputs, int nin, const void* params) {
  run(
      loop, [compute_in](int) { return compute_in; }, compute_out, ndim, sizes, outputs, nout, inputs, nin,
      params);
}

void run_pointwise(Loop loop, const DType* compute_in, DType compute_out, int ndim, const int64_t* sizes,
                   const Operand* outputs, int nout, const Operand* inputs, int nin, const void* params) {
  run(
      loop, [compute_in](int k) { return compute_in[k]; }, compute_out, ndim, sizes, outputs, nout, inputs,
      nin, params);
}

namespace {

// Copies where the dim that is contiguous in `in` is not the one that is contiguous in `out`: in tiles, so
// that the cache lines of both sides are used whole. False when it is not such a copy.
template <class T>
void copy_tile(int64_t rows, int64_t columns, const T* in, int64_t in_stride, T* out, int64_t out_stride) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) out[r * out_stride + c] = in[r + c * in_stride];
}
bool copy_transposed(int ndim, const int64_t* sizes, const Operand& out, const Operand& in, int64_t width) {
  int a = -1, b = -1;  // contiguous in out, in in
  int64_t n = 1;
  for (int d = 0; d < ndim; ++d) {
    n *= sizes[d];
    if (sizes[d] < 8) continue;
    if (out.strides[d] == 1) a = d;
    if (in.strides[d] == 1) b = d;
  }
  if (a < 0 || b < 0 || a == b || in.strides[a] == 0 || out.strides[b] == 0 || n < 1024) return false;
  constexpr int64_t kTile = 32;
  const int64_t tiles_a = (sizes[a] + kTile - 1) / kTile, tiles_b = (sizes[b] + kTile - 1) / kTile;
  const int64_t others = n / (sizes[a] * sizes[b]);
  auto run = [&]<class T>(T) {
    parallel_for(
        0, others * tiles_b, std::max<int64_t>(1, kGrain / (kTile * sizes[a])),
        [&](int64_t begin, int64_t end) {
          for (int64_t at = begin; at < end; ++at) {
            int64_t rest = at / tiles_b, from = 0, to = 0;
            for (int d = ndim - 1; d >= 0; --d) {
              if (d == a || d == b) continue;
              from += rest % sizes[d] * in.strides[d], to += rest % sizes[d] * out.strides[d],
                  rest /= sizes[d];
            }
            const int64_t row = at % tiles_b * kTile, rows = std::min(kTile, sizes[b] - row);
            for (int64_t t = 0; t < tiles_a; ++t) {
              const int64_t column = t * kTile;
              copy_tile(rows, std::min(kTile, sizes[a] - column),
                        static_cast<const T*>(in.data) + from + row + column * in.strides[a], in.strides[a],
                        static_cast<T*>(out.data) + to + row * out.strides[b] + column, out.strides[b]);
            }
          }
        });
  };
  switch (width) {
    case 1:
      run(uint8_t{});
      return true;
    case 2:
      run(uint16_t{});
      return true;
    case 4:
      run(uint32_t{});
      return true;
    case 8:
      run(uint64_t{});
      return true;
    default:
      return false;
  }
}

}  // namespace

void copy_strided(int ndim, const int64_t* sizes, const Operand& out, const Operand& in) {
  // Same type: the copy is of bits, so that narrow floats and NaN payloads pass unchanged.
  DType t = out.dtype;
  if (out.dtype == in.dtype) {
    static constexpr DType by_log2[] = {DType::uint8, DType::int16, DType::int32, DType::int64,
                                        DType::complex128};
    const int64_t w = element_size(t);
    if (copy_transposed(ndim, sizes, out, in, w)) return;
    t = by_log2[w == 1 ? 0 : w == 2 ? 1 : w == 4 ? 2 : w == 8 ? 3 : 4];
    Operand o = out, i = in;
    o.dtype = i.dtype = t;
    return run_pointwise(find_loop("copy", t), t, t, ndim, sizes, &o, 1, &i, 1, nullptr);
  }
  int64_t n = 1;
  for (int d = 0; d < ndim; ++d) n *= sizes[d];
  if (n && dense(ndim, sizes, out.strides) && dense(ndim, sizes, in.strides)) {
    const Cast cast = find_cast(in.dtype, out.dtype);
    const int64_t from = element_size(in.dtype), to = element_size(out.dtype);
    return parallel_for(0, n, kGrain, [&](int64_t begin, int64_t end) {
      cast(static_cast<const char*>(in.data) + begin * from, 1, static_cast<char*>(out.data) + begin * to, 1,
           end - begin);
    });
  }
  if (compute_index(t) < 0) t = compute_dtype(t);
  run_pointwise(find_loop("copy", t), t, t, ndim, sizes, &out, 1, &in, 1, nullptr);
}

void fill_strided(int ndim, const int64_t* sizes, const Operand& out, const Params& value) {
  const DType t = compute_index(out.dtype) < 0 ? compute_dtype(out.dtype) : out.dtype;
  run_pointwise(find_loop("fill", t), t, t, ndim, sizes, &out, 1, nullptr, 0, &value);
}

Loop find_loop(std::string_view op_name, DType compute) {
  struct Entry {
    Loop loops[kComputeTypes] = {};
  };
  static const std::unordered_map<std::string_view, Entry>* const table = [] {
    auto* map = new std::unordered_map<std::string_view, Entry>;
    // Earlier tables win: SIMD before scalar.
    for (Rows rows : {arithmetic_rows(), order_rows(), compare_rows(), bits_rows(), float_rows(), math_rows(),
                      pairs_rows(), scalar_rows(), special_rows()})
      for (const Row& row : rows) {
        Entry& e = (*map)[row.name];
        for (int t = 0; t < kComputeTypes; ++t)
          if (!e.loops[t]) e.loops[t] = row.loops[t];
      }
    return map;
  }();
  const int t = compute_index(compute);
  auto found = table->find(op_name);
  return t < 0 || found == table->end() ? nullptr : found->second.loops[t];
}

void Params::set(int k, double value) {
  d[k] = value;
  i[k] = value >= -9.2e18 && value <= 9.2e18 ? static_cast<int64_t>(value)
         : value > 0                         ? INT64_MAX
                                             : INT64_MIN;
  c[k] = value;
}
void Params::set(int k, int64_t value) {
  d[k] = static_cast<double>(value);
  i[k] = value;
  c[k] = d[k];
}
void Params::set(int k, std::complex<double> value) {
  set(k, value.real());
  c[k] = value;
}

}  // namespace tern::kernels
