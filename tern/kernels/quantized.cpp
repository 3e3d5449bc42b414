// The loops are over lines; the products are oneDNN's 8-bit gemm, which multiplies unsigned by signed bytes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/quantized.cpp"
#include "tern/kernels/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tern/base/format.h"
#include "tern/base/parallel.h"
#include "tern/kernels/gemm.h"
#include "tern/kernels/late.h"
#include "tern/kernels/quantized.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Bounds that a float holds exactly and an int32 conversion takes: past them all 8-bit results saturate.
constexpr float kFar = 16777216.0f;

// The zero point is added before rounding: halves go to the even integer of the result.
template <class Q>
HWY_ATTR void quantize_line(const float* x, Q* q, int64_t n, float inverse, float zero, int32_t low,
                            int32_t high) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<Q, decltype(d)> dq;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto vi = hn::Set(d, inverse), vz = hn::Set(d, zero), far = hn::Set(d, kFar),
             near = hn::Set(d, -kFar);
  const auto vl = hn::Set(di, low), vh = hn::Set(di, high);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto v = hn::Add(hn::Mul(hn::LoadU(d, x + i), vi), vz);
    auto whole = hn::NearestInt(hn::Max(hn::Min(v, far), near));  // NaN: the upper bound
    hn::StoreU(hn::DemoteTo(dq, hn::Min(hn::Max(whole, vl), vh)), dq, q + i);
  }
  for (; i < n; ++i) {
    float v = x[i] * inverse + zero;
    v = v < kFar ? std::max(v, -kFar) : kFar;
    q[i] = static_cast<Q>(std::clamp(static_cast<int32_t>(std::nearbyint(v)), low, high));
  }
}

template <class Q>
HWY_ATTR void dequantize_line(const Q* q, float* x, int64_t n, float scale, int32_t zero) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<Q, decltype(d)> dq;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto vs = hn::Set(d, scale);
  const auto vz = hn::Set(di, zero);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::Mul(hn::ConvertTo(d, hn::Sub(hn::PromoteTo(di, hn::LoadU(dq, q + i)), vz)), vs), d, x + i);
  for (; i < n; ++i) x[i] = static_cast<float>(static_cast<int32_t>(q[i]) - zero) * scale;
}

HWY_ATTR void min_max_line(const float* x, int64_t n, float* low, float* high) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto vl = hn::Set(d, x[0]), vh = vl;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto v = hn::LoadU(d, x + i);
    vl = hn::Min(vl, v);
    vh = hn::Max(vh, v);
  }
  float l = hn::GetLane(hn::MinOfLanes(d, vl)), h = hn::GetLane(hn::MaxOfLanes(d, vh));
  for (; i < n; ++i) {
    l = std::min(l, x[i]);
    h = std::max(h, x[i]);
  }
  *low = l;
  *high = h;
}

HWY_ATTR void taps_line(const uint8_t* const* a, const int8_t* w, int64_t taps, int32_t zero, int32_t* sums,
                        int64_t n) {
  const hn::ScalableTag<int32_t> d;
  const hn::Rebind<uint8_t, decltype(d)> du;
  const hn::Rebind<int8_t, decltype(d)> ds;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto vz = hn::Set(d, zero);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto sum = hn::Zero(d);
    for (int64_t t = 0; t < taps; ++t)
      if (a[t])
        sum = hn::Add(sum, hn::Mul(hn::Sub(hn::PromoteTo(d, hn::LoadU(du, a[t] + i)), vz),
                                   hn::PromoteTo(d, hn::LoadU(ds, w + t * n + i))));
    hn::StoreU(sum, d, sums + i);
  }
  for (; i < n; ++i) {
    int32_t sum = 0;
    for (int64_t t = 0; t < taps; ++t)
      if (a[t]) sum += (a[t][i] - zero) * w[t * n + i];
    sums[i] = sum;
  }
}

HWY_ATTR void float_line(const int32_t* c, float* y, const float* scales, const float* bias, bool relu,
                         int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto v = hn::Mul(hn::ConvertTo(d, hn::LoadU(di, c + i)), hn::LoadU(d, scales + i));
    if (bias) v = hn::Add(v, hn::LoadU(d, bias + i));
    if (relu) v = hn::Max(v, hn::Zero(d));
    hn::StoreU(v, d, y + i);
  }
  for (; i < n; ++i) {
    float v = static_cast<float>(c[i]) * scales[i];
    if (bias) v += bias[i];
    y[i] = relu ? std::max(v, 0.0f) : v;
  }
}

// `shift` is the bias in units of the sums, `factor` takes sums to steps of the output.
template <class Q>
HWY_ATTR void quantized_line(const int32_t* c, Q* q, const float* factor, const float* shift, int32_t zero,
                             int32_t low, int32_t high, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<Q, decltype(d)> dq;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto far = hn::Set(d, kFar), near = hn::Set(d, -kFar);
  const auto vz = hn::Set(di, zero), vl = hn::Set(di, low), vh = hn::Set(di, high);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto v = hn::ConvertTo(d, hn::LoadU(di, c + i));
    if (shift) v = hn::Add(v, hn::LoadU(d, shift + i));
    v = hn::Min(hn::Max(hn::Mul(v, hn::LoadU(d, factor + i)), near), far);
    hn::StoreU(hn::DemoteTo(dq, hn::Min(hn::Max(hn::Add(hn::NearestInt(v), vz), vl), vh)), dq, q + i);
  }
  for (; i < n; ++i) {
    float v = static_cast<float>(c[i]);
    if (shift) v += shift[i];
    v = std::min(std::max(v * factor[i], -kFar), kFar);
    q[i] = static_cast<Q>(std::clamp(static_cast<int32_t>(std::nearbyint(v)) + zero, low, high));
  }
}

template <class Q>
HWY_ATTR void pair_line(const Q* a, Affine qa, const Q* b, Affine qb, Q* c, Affine qc, bool product,
                        int32_t low, int32_t high, int64_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<Q, decltype(d)> dq;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto sa = hn::Set(d, qa.scale), sb = hn::Set(d, qb.scale);
  const auto za = hn::Set(di, qa.zero_point), zb = hn::Set(di, qb.zero_point);
  // Scale and shift in one step, as PyTorch's vectors do: halves fall where its halves fall.
  const auto pa = hn::Set(d, -static_cast<float>(qa.zero_point) * qa.scale),
             pb = hn::Set(d, -static_cast<float>(qb.zero_point) * qb.scale);
  const float factor = product ? qa.scale * qb.scale * (1.0f / qc.scale) : 1.0f / qc.scale;
  // Sums are rounded with the zero point, products without.
  const float before = product ? 0.0f : static_cast<float>(qc.zero_point);
  const int32_t after = product ? qc.zero_point : 0;
  const auto vf = hn::Set(d, factor), vb = hn::Set(d, before), far = hn::Set(d, kFar),
             near = hn::Set(d, -kFar);
  const auto vz = hn::Set(di, after), vl = hn::Set(di, low), vh = hn::Set(di, high);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto x = hn::PromoteTo(di, hn::LoadU(dq, a + i)), y = hn::PromoteTo(di, hn::LoadU(dq, b + i));
    const auto v =
        product ? hn::ConvertTo(d, hn::Mul(hn::Sub(x, za), hn::Sub(y, zb)))
                : hn::Add(hn::MulAdd(sa, hn::ConvertTo(d, x), pa), hn::MulAdd(sb, hn::ConvertTo(d, y), pb));
    auto whole = hn::NearestInt(hn::Max(hn::Min(hn::Add(hn::Mul(v, vf), vb), far), near));
    hn::StoreU(hn::DemoteTo(dq, hn::Min(hn::Max(hn::Add(whole, vz), vl), vh)), dq, c + i);
  }
  for (; i < n; ++i) {
    const int32_t x = a[i] - qa.zero_point, y = b[i] - qb.zero_point;
    float v = product ? static_cast<float>(x * y)
                      : static_cast<float>(x) * qa.scale + static_cast<float>(y) * qb.scale;
    v = std::max(std::min(v * factor + before, kFar), -kFar);
    c[i] = static_cast<Q>(std::clamp(static_cast<int32_t>(std::nearbyint(v)) + after, low, high));
  }
}
void pair_u8(const void* a, Affine qa, const void* b, Affine qb, void* c, Affine qc, bool product, bool relu,
             int64_t n) {
  pair_line(static_cast<const uint8_t*>(a), qa, static_cast<const uint8_t*>(b), qb, static_cast<uint8_t*>(c),
            qc, product, relu ? qc.zero_point : 0, 255, n);
}
void pair_s8(const void* a, Affine qa, const void* b, Affine qb, void* c, Affine qc, bool product, bool relu,
             int64_t n) {
  pair_line(static_cast<const int8_t*>(a), qa, static_cast<const int8_t*>(b), qb, static_cast<int8_t*>(c), qc,
            product, relu ? qc.zero_point : -128, 127, n);
}

void quantize_u8(const float* x, void* q, int64_t n, float inverse, float zero) {
  quantize_line(x, static_cast<uint8_t*>(q), n, inverse, zero, 0, 255);
}
void quantize_s8(const float* x, void* q, int64_t n, float inverse, float zero) {
  quantize_line(x, static_cast<int8_t*>(q), n, inverse, zero, -128, 127);
}
void dequantize_u8(const void* q, float* x, int64_t n, float scale, int32_t zero) {
  dequantize_line(static_cast<const uint8_t*>(q), x, n, scale, zero);
}
void dequantize_s8(const void* q, float* x, int64_t n, float scale, int32_t zero) {
  dequantize_line(static_cast<const int8_t*>(q), x, n, scale, zero);
}
void finish_u8(const int32_t* c, void* q, const float* factor, const float* shift, int32_t zero, int32_t low,
               int64_t n) {
  quantized_line(c, static_cast<uint8_t*>(q), factor, shift, zero, low, 255, n);
}
void finish_s8(const int32_t* c, void* q, const float* factor, const float* shift, int32_t zero, int32_t low,
               int64_t n) {
  quantized_line(c, static_cast<int8_t*>(q), factor, shift, zero, low, 127, n);
}

}  // namespace
}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {

HWY_EXPORT(quantize_u8);
HWY_EXPORT(quantize_s8);
HWY_EXPORT(dequantize_u8);
HWY_EXPORT(dequantize_s8);
HWY_EXPORT(min_max_line);
HWY_EXPORT(float_line);
HWY_EXPORT(taps_line);
HWY_EXPORT(finish_u8);
HWY_EXPORT(finish_s8);
HWY_EXPORT(pair_u8);
HWY_EXPORT(pair_s8);

namespace {
constexpr int64_t kGrainElements = 32768;
}

void quantize(DType type, const float* x, void* q, int64_t n, float scale, int64_t zero_point) {
  const float inverse = 1.0f / scale;
  const auto zero = static_cast<float>(zero_point);
  parallel_for(0, n, kGrainElements, [&](int64_t begin, int64_t end) {
    if (type == DType::uint8)
      return HWY_DYNAMIC_DISPATCH(quantize_u8)(x + begin, static_cast<uint8_t*>(q) + begin, end - begin,
                                               inverse, zero);
    if (type == DType::int8)
      return HWY_DYNAMIC_DISPATCH(quantize_s8)(x + begin, static_cast<int8_t*>(q) + begin, end - begin,
                                               inverse, zero);
    for (int64_t i = begin; i < end; ++i) {
      const double v = std::nearbyint(x[i] * inverse + zero);
      static_cast<int32_t*>(q)[i] = static_cast<int32_t>(std::min(std::max(v, -2147483648.0), 2147483647.0));
    }
  });
}

void dequantize(DType type, const void* q, float* x, int64_t n, float scale, int64_t zero_point) {
  const auto zero = static_cast<int32_t>(zero_point);
  parallel_for(0, n, kGrainElements, [&](int64_t begin, int64_t end) {
    if (type == DType::uint8)
      return HWY_DYNAMIC_DISPATCH(dequantize_u8)(static_cast<const uint8_t*>(q) + begin, x + begin,
                                                 end - begin, scale, zero);
    if (type == DType::int8)
      return HWY_DYNAMIC_DISPATCH(dequantize_s8)(static_cast<const int8_t*>(q) + begin, x + begin,
                                                 end - begin, scale, zero);
    for (int64_t i = begin; i < end; ++i)
      x[i] = static_cast<float>(static_cast<int64_t>(static_cast<const int32_t*>(q)[i]) - zero_point) * scale;
  });
}

namespace {
void pair(DType type, const void* a, Affine qa, const void* b, Affine qb, void* c, Affine qc, bool product,
          bool relu, int64_t n) {
  parallel_for(0, n, kGrainElements, [&](int64_t begin, int64_t end) {
    if (type != DType::int32) {
      const char *x = static_cast<const char*>(a) + begin, *y = static_cast<const char*>(b) + begin;
      char* z = static_cast<char*>(c) + begin;
      if (type == DType::uint8)
        return HWY_DYNAMIC_DISPATCH(pair_u8)(x, qa, y, qb, z, qc, product, relu, end - begin);
      return HWY_DYNAMIC_DISPATCH(pair_s8)(x, qa, y, qb, z, qc, product, relu, end - begin);
    }
    const auto *x = static_cast<const int32_t*>(a), *y = static_cast<const int32_t*>(b);
    const double low = relu ? qc.zero_point : -2147483648.0;
    for (int64_t i = begin; i < end; ++i) {
      const auto u = static_cast<float>(static_cast<int64_t>(x[i]) - qa.zero_point),
                 v = static_cast<float>(static_cast<int64_t>(y[i]) - qb.zero_point);
      const float real = product ? u * v * (qa.scale * qb.scale) : u * qa.scale + v * qb.scale;
      const double q = std::nearbyint(real * (1.0f / qc.scale) + static_cast<float>(qc.zero_point));
      static_cast<int32_t*>(c)[i] = static_cast<int32_t>(std::min(std::max(q, low), 2147483647.0));
    }
  });
}
}  // namespace
void add_quantized(DType type, const void* a, Affine qa, const void* b, Affine qb, void* c, Affine qc,
                   bool relu, int64_t n) {
  pair(type, a, qa, b, qb, c, qc, false, relu, n);
}
void multiply_quantized(DType type, const void* a, Affine qa, const void* b, Affine qb, void* c, Affine qc,
                        bool relu, int64_t n) {
  pair(type, a, qa, b, qb, c, qc, true, relu, n);
}

void min_max(const float* x, int64_t n, float& low, float& high) {
  HWY_DYNAMIC_DISPATCH(min_max_line)(x, n, &low, &high);
}

QuantizedWeight::QuantizedWeight(int64_t n, int64_t k, const int8_t* w, const int32_t* zero_points)
    : n_(n), k_(k), w_(new int8_t[static_cast<size_t>(n * k) + 1]), sums_(new int32_t[n + 1]()) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < k; ++j) {
      w_[j * n + i] = w[i * k + j];
      sums_[i] += w[i * k + j];
    }
  if (std::any_of(zero_points, zero_points + n, [](int32_t z) { return z != 0; })) {
    zero_points_.reset(new int32_t[n]);
    std::copy_n(zero_points, n, zero_points_.get());
  }
}

void QuantizedWeight::multiply(int64_t m, const uint8_t* a, int64_t lda, int32_t a_zero, int32_t* c,
                               int64_t ldc) const {
  if (m == 0 || n_ == 0) return;
  if (k_ == 0) {
    for (int64_t i = 0; i < m; ++i) std::fill_n(c + i * ldc, n_, 0);
    return;
  }
  // The zero point of a is taken off by what it adds to each column: as an offset of the sums.
  std::vector<int32_t> offset(static_cast<size_t>(n_));
  for (int64_t j = 0; j < n_; ++j) offset[static_cast<size_t>(j)] = -a_zero * sums_[j];
  const dnnl_status_t status = ONEDNN(dnnl_gemm_u8s8s32)('N', 'N', 'R', m, n_, k_, 1.0f, a, lda, 0, w_.get(),
                                                         n_, 0, 0.0f, c, ldc, offset.data());
  if (status != dnnl_success)
    failf(ErrorKind::internal, "dnnl_gemm_u8s8s32 failed with status {} for {} x {} x {}",
          static_cast<int>(status), m, n_, k_);
  if (!zero_points_) return;
  for (int64_t i = 0; i < m; ++i) {
    int32_t sum = 0;
    for (int64_t j = 0; j < k_; ++j) sum += a[i * lda + j];
    sum -= a_zero * static_cast<int32_t>(k_);
    for (int64_t j = 0; j < n_; ++j) c[i * ldc + j] -= zero_points_[j] * sum;
  }
}

void multiply_taps(const uint8_t* const* a, const int8_t* w, int64_t taps, int32_t a_zero, int32_t* sums,
                   int64_t n) {
  HWY_DYNAMIC_DISPATCH(taps_line)(a, w, taps, a_zero, sums, n);
}

void finish_float(const Requantize& r, int64_t rows, const int32_t* c, int64_t ldc, float* y, int64_t ldy) {
  for (int64_t i = 0; i < rows; ++i)
    HWY_DYNAMIC_DISPATCH(float_line)(c + i * ldc, y + i * ldy, r.scales, r.bias, r.relu, r.n);
}

void finish_quantized(const Requantize& r, DType type, float y_scale, int32_t zero_point, int64_t rows,
                      const int32_t* c, int64_t ldc, void* q, int64_t ldq) {
  std::vector<float> factor(static_cast<size_t>(r.n)), shift;
  for (int64_t j = 0; j < r.n; ++j) factor[static_cast<size_t>(j)] = r.scales[j] / y_scale;
  if (r.bias) {
    shift.resize(static_cast<size_t>(r.n));
    for (int64_t j = 0; j < r.n; ++j) shift[static_cast<size_t>(j)] = r.bias[j] / r.scales[j];
  }
  const float* s = r.bias ? shift.data() : nullptr;
  const bool is_unsigned = type == DType::uint8;
  const int32_t low = std::max(r.relu ? zero_point : -128, is_unsigned ? 0 : -128);
  parallel_for(0, rows, std::max<int64_t>(1, kGrainElements / std::max<int64_t>(r.n, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   if (is_unsigned) HWY_DYNAMIC_DISPATCH(finish_u8)
                   (c + i * ldc, static_cast<uint8_t*>(q) + i * ldq, factor.data(), s, zero_point, low, r.n);
                   else HWY_DYNAMIC_DISPATCH(finish_s8)(c + i * ldc, static_cast<int8_t*>(q) + i * ldq,
                                                        factor.data(), s, zero_point, low, r.n);
                 }
               });
}

}  // namespace tern::kernels
#endif
