// Products with a prepacked B: panels as wide as two vectors, rows of A read in place, the epilogue applied
// while the tile is still in registers.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/gemm_packed.cpp"
#include "tern/kernels/targets.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <cstring>

#include "tern/base/parallel.h"
#include "tern/kernels/gemm.h"
#include "tern/kernels/loops.h"
#include "tern/kernels/tile-inl.h"

#include "tern/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {

HWY_ATTR HWY_INLINE Vf apply_activation(Activation activation, Vf x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return hn::IfThenElse(hn::Lt(x, all(0)), all(0), x);
    case Activation::gelu:
      return hn::Mul(hn::Mul(x, all(0.5f)),
                     hn::Add(all(1), erf_any(hn::Mul(x, all(0.70710678118654752440f)))));
    case Activation::gelu_tanh: {
      const Vf cube = hn::Mul(hn::Mul(x, x), x);
      const Vf inner = hn::Mul(all(0.79788456080286535588f), hn::MulAdd(all(0.044715f), cube, x));
      return hn::Mul(hn::Mul(all(0.5f), x), hn::Add(all(1), tanh_any(inner)));
    }
    case Activation::silu:
      return hn::Div(x, hn::Add(all(1), exp_any(hn::Neg(x))));
    case Activation::sigmoid:
      return sigmoid_any(x);
    case Activation::tanh:
      return tanh_any(x);
    case Activation::hardswish:
      return hn::Mul(x, hn::Div(clamped(hn::Add(x, all(3)), 0, 6), all(6)));
    case Activation::relu6:
      return clamped(x, 0, 6);
  }
  return x;
}
// Only one copy of the transcendental code: tiles call this.
HWY_ATTR HWY_NOINLINE void activate_row(Activation activation, float* x, int64_t n) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(apply_activation(activation, hn::LoadU(df, x + i)), df, x + i);
  if (i < n) {
    float tail[hn::MaxLanes(df)] = {};
    std::memcpy(tail, x + i, (n - i) * sizeof(float));
    hn::StoreU(apply_activation(activation, hn::LoadU(df, tail)), df, tail);
    std::memcpy(x + i, tail, (n - i) * sizeof(float));
  }
}

namespace {

struct Tile {
  int64_t K, lda, ldc, columns;  // columns: how many of the panel are real
  const Epilogue* epilogue;
  int64_t row, column;  // of the tile in C
};

template <int Rows>
HWY_ATTR void tile(const Tile& t, const float* a, const float* panel, float* c) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  Vf left[Rows], right[Rows];
  for (int r = 0; r < Rows; ++r) left[r] = right[r] = hn::Zero(df);
  for (int64_t k = 0; k < t.K; ++k, panel += 2 * lanes) {
    const Vf b0 = hn::Load(df, panel), b1 = hn::Load(df, panel + lanes);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const Vf x = hn::Set(df, a[r * t.lda + k]);
      left[r] = hn::MulAdd(x, b0, left[r]);
      right[r] = hn::MulAdd(x, b1, right[r]);
    }
  }
  const Epilogue& e = *t.epilogue;
  const bool full = t.columns == 2 * lanes;
  HWY_ALIGN float bias[2 * hn::MaxLanes(df)] = {};
  if (e.bias) std::memcpy(bias, e.bias + t.column, t.columns * sizeof(float));
  const Vf bias0 = hn::Load(df, bias), bias1 = hn::Load(df, bias + lanes);
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
    float* row = c + r * t.ldc;
    Vf x0 = hn::Add(left[r], bias0), x1 = hn::Add(right[r], bias1);
    HWY_ALIGN float edge[2 * hn::MaxLanes(df)];
    float* to = full ? row : edge;
    if (e.residual) {
      const float* from = e.residual + (t.row + r) * e.ld_residual + t.column;
      if (!full) {
        std::memcpy(edge, from, t.columns * sizeof(float));
        std::memset(edge + t.columns, 0, (2 * lanes - t.columns) * sizeof(float));
        from = edge;
      }
      x0 = hn::Add(x0, hn::LoadU(df, from));
      x1 = hn::Add(x1, hn::LoadU(df, from + lanes));
    }
    if (e.activation == Activation::relu) {
      x0 = hn::IfThenElse(hn::Lt(x0, all(0)), all(0), x0);
      x1 = hn::IfThenElse(hn::Lt(x1, all(0)), all(0), x1);
    }
    hn::StoreU(x0, df, to);
    hn::StoreU(x1, df, to + lanes);
    if (e.activation > Activation::relu) activate_row(e.activation, to, 2 * lanes);
    if (!full) std::memcpy(row, edge, t.columns * sizeof(float));
  }
}

using TileFn = void (*)(const Tile&, const float*, const float*, float*);
template <int... R>
HWY_ATTR TileFn tile_of(int rows, std::integer_sequence<int, R...>) {
  static constexpr TileFn table[] = {tile<R + 1>...};
  return table[rows - 1];
}

}  // namespace

int64_t panel_width() { return 2 * static_cast<int64_t>(hn::Lanes(df)); }

HWY_ATTR void packed_product(int64_t M, const float* A, int64_t lda, const PackedB& B, float* C, int64_t ldc,
                             const Epilogue& epilogue) {
  const int64_t width = B.panel, panels = (B.N + width - 1) / width;
  constexpr int64_t kBlockRows = kTileRows * 8;
  const int64_t blocks = (M + kBlockRows - 1) / kBlockRows;
  const auto sequence = std::make_integer_sequence<int, kTileRows>();
  const TileFn whole = tile_of(kTileRows, sequence);
  // A task is a block of rows times a group of panels; enough of them for every thread.
  const int64_t groups = blocks >= 2 * num_threads() ? 1 : std::min<int64_t>(panels, 4 * num_threads());
  const int64_t work = kBlockRows * B.K * (B.N / groups + 1);
  parallel_for(0, blocks * groups, std::max<int64_t>(1, kGrainProducts / (work + 1)),
               [&](int64_t begin, int64_t end) HWY_ATTR {
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t row_begin = task / groups * kBlockRows,
                                 row_end = std::min(M, row_begin + kBlockRows);
                   const int64_t g = task % groups;
                   for (int64_t p = panels * g / groups; p < panels * (g + 1) / groups; ++p) {
                     Tile t{B.K, lda, ldc, std::min(width, B.N - p * width), &epilogue, 0, p * width};
                     for (t.row = row_begin; t.row < row_end; t.row += kTileRows) {
                       const int64_t rows = std::min<int64_t>(kTileRows, row_end - t.row);
                       const TileFn f = rows == kTileRows ? whole : tile_of(static_cast<int>(rows), sequence);
                       f(t, A + t.row * lda, B.data + p * width * B.K, C + t.row * ldc + t.column);
                     }
                   }
                 }
               });
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {
HWY_EXPORT(panel_width);
HWY_EXPORT(packed_product);
HWY_EXPORT(activate_row);

PackedB pack_b(bool trans_b, int64_t K, int64_t N, const float* B, int64_t ldb) {
  PackedB packed;
  packed.K = K;
  packed.N = N;
  packed.panel = HWY_DYNAMIC_DISPATCH(panel_width)();
  const int64_t width = packed.panel, panels = (N + width - 1) / width;
  packed.memory = std::make_unique<float[]>(static_cast<size_t>(panels * width * K + 16));
  packed.data =
      reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(packed.memory.get()) + 63) & ~uintptr_t{63});
  parallel_for(0, panels, std::max<int64_t>(1, 32768 / (width * K + 1)), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t columns = std::min(width, N - p * width);
      float* to = packed.data + p * width * K;
      for (int64_t k = 0; k < K; ++k)
        for (int64_t j = 0; j < columns; ++j)
          to[k * width + j] = trans_b ? B[(p * width + j) * ldb + k] : B[k * ldb + p * width + j];
    }
  });
  return packed;
}

void gemm_packed(int64_t M, const float* A, int64_t lda, const PackedB& B, float* C, int64_t ldc,
                 const Epilogue& epilogue) {
  if (M > 0 && B.N > 0) HWY_DYNAMIC_DISPATCH(packed_product)(M, A, lda, B, C, ldc, epilogue);
}

void activate(Activation activation, float* x, int64_t n) {
  HWY_DYNAMIC_DISPATCH(activate_row)(activation, x, n);
}

}  // namespace tern::kernels
#endif
