// Every method is a product of one-dimensional ones: a table of weighted positions per dim, applied from the
// last dim to the first; the transpose goes the other way.
#include "tern/kernels/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "tern/base/format.h"
#include "tern/base/parallel.h"
#include "tern/kernels/pointwise.h"

namespace tern::kernels {
namespace {

// Output o is the sum of weight[o * taps + k] * input[index[o * taps + k]] for k < taps.
template <class W>
struct Table {
  int64_t in = 1, out = 1, taps = 1;
  std::vector<int64_t> index;
  std::vector<W> weight;
};

// `short_cut`: twice and once the size are taken as such, whatever the factor says.
std::vector<int64_t> nearest_index(const ResampleShape& s, int d, bool exact, bool short_cut) {
  const int64_t in = s.in[d], out = s.out[d];
  const float scale = s.factor[d] > 0 ? static_cast<float>(1.0 / s.factor[d])
                                      : static_cast<float>(in) / static_cast<float>(out);
  std::vector<int64_t> index(static_cast<size_t>(out));
  for (int64_t o = 0; o < out; ++o) {
    int64_t at;
    if (exact)
      at = static_cast<int64_t>(std::floor((static_cast<float>(o) + 0.5f) * scale));
    else if (short_cut && out == in)
      at = o;
    else if (short_cut && out == 2 * in)
      at = o >> 1;
    else
      at = static_cast<int64_t>(std::floor(static_cast<float>(o) * scale));
    index[static_cast<size_t>(o)] = std::clamp<int64_t>(at, 0, in - 1);
  }
  return index;
}

// Keys' convolution kernel at distance t from a neighbour at most one step away, and from the one behind it.
template <class W>
W cubic_near(W t, W a) {
  return ((a + 2) * t - (a + 3)) * t * t + 1;
}
template <class W>
W cubic_far(W t, W a) {
  return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
}

template <class W>
W aa_filter(Resampling method, W x) {
  x = std::abs(x);
  if (method == Resampling::linear_aa) return x < 1 ? 1 - x : W(0);
  if (method == Resampling::cubic_aa) {
    const W a = W(-0.5);
    return x < 1 ? cubic_near(x, a) : x < 2 ? cubic_far(x, a) : W(0);
  }
  if (x >= 3) return 0;
  if (x == 0) return 1;
  const W p = x * W(M_PI);
  return std::sin(p) / p * (std::sin(p / 3) / (p / 3));
}

template <class W>
Table<W> antialiased(Resampling method, const ResampleShape& s, int d, W scale) {
  Table<W> t;
  t.in = s.in[d], t.out = s.out[d];
  if (scale == 0 && t.in == t.out) {  // nothing to do along this dim
    t.weight.assign(static_cast<size_t>(t.out), W(1));
    for (int64_t o = 0; o < t.out; ++o) t.index.push_back(o);
    return t;
  }
  const W reach = method == Resampling::linear_aa ? 1 : method == Resampling::cubic_aa ? 2 : 3;
  const W support = scale >= 1 ? reach * scale : reach;
  const W inverse = scale >= 1 ? 1 / scale : W(1);
  t.taps = std::min<int64_t>(t.in, static_cast<int64_t>(std::ceil(support)) * 2 + 1);
  t.index.assign(static_cast<size_t>(t.out * t.taps), 0);
  t.weight.assign(static_cast<size_t>(t.out * t.taps), W(0));
  for (int64_t o = 0; o < t.out; ++o) {
    const W centre = scale * (static_cast<W>(o) + W(0.5));
    const int64_t first = std::clamp<int64_t>(static_cast<int64_t>(centre - support + W(0.5)), 0, t.in - 1);
    const int64_t count = std::clamp<int64_t>(
        std::min(static_cast<int64_t>(centre + support + W(0.5)), t.in) - first, 1, t.taps);
    int64_t* index = &t.index[static_cast<size_t>(o * t.taps)];
    W* weight = &t.weight[static_cast<size_t>(o * t.taps)];
    W sum = 0;
    for (int64_t k = 0; k < count; ++k) {
      index[k] = first + k;
      weight[k] = aa_filter(method, (static_cast<W>(k + first) - centre + W(0.5)) * inverse);
      sum += weight[k];
    }
    for (int64_t k = 0; k < count; ++k)
      if (sum != 0) weight[k] /= sum;
    for (int64_t k = count; k < t.taps; ++k) index[k] = first;
  }
  return t;
}

template <class W>
Table<W> make_table(Resampling method, const ResampleShape& s, int d) {
  Table<W> t;
  t.in = s.in[d], t.out = s.out[d];
  if (method <= Resampling::nearest_exact) {
    t.index = nearest_index(s, d, method == Resampling::nearest_exact, true);
    t.weight.assign(t.index.size(), W(1));
    return t;
  }
  W scale;
  if (s.align_corners)
    scale = t.out > 1 ? static_cast<W>(t.in - 1) / static_cast<W>(t.out - 1) : W(0);
  else
    scale =
        s.factor[d] > 0 ? static_cast<W>(1.0 / s.factor[d]) : static_cast<W>(t.in) / static_cast<W>(t.out);
  if (method >= Resampling::linear_aa) return antialiased(method, s, d, t.in == t.out ? W(0) : scale);
  const bool cubic = method == Resampling::cubic;
  t.taps = cubic ? 4 : 2;
  t.index.resize(static_cast<size_t>(t.out * t.taps));
  t.weight.resize(t.index.size());
  for (int64_t o = 0; o < t.out; ++o) {
    W at = s.align_corners ? scale * static_cast<W>(o) : scale * (static_cast<W>(o) + W(0.5)) - W(0.5);
    if (!cubic && t.in == t.out) at = static_cast<W>(o);
    if (!cubic && at < 0) at = 0;
    int64_t base = static_cast<int64_t>(std::floor(at));
    if (!cubic) base = std::min(base, t.in - 1);
    const W part = std::clamp<W>(at - static_cast<W>(base), 0, 1);
    int64_t* index = &t.index[static_cast<size_t>(o * t.taps)];
    W* weight = &t.weight[static_cast<size_t>(o * t.taps)];
    if (cubic) {
      const W a = W(-0.75);
      weight[0] = cubic_far(part + 1, a), weight[1] = cubic_near(part, a);
      weight[2] = cubic_near(1 - part, a), weight[3] = cubic_far(2 - part, a);
      for (int64_t k = 0; k < 4; ++k) index[k] = std::clamp<int64_t>(base - 1 + k, 0, t.in - 1);
    } else {
      index[0] = base, index[1] = base + (base < t.in - 1 ? 1 : 0);
      weight[0] = 1 - part, weight[1] = part;
    }
  }
  return t;
}

// y[outer, o, inner] from x[outer, i, inner].
template <class T>
void apply(const Table<T>& t, int64_t outer, int64_t inner, const T* x, T* y) {
  for (int64_t r = 0; r < outer; ++r, x += t.in * inner, y += t.out * inner) {
    const int64_t* index = t.index.data();
    const T* weight = t.weight.data();
    for (int64_t o = 0; o < t.out; ++o, index += t.taps, weight += t.taps) {
      if (inner == 1) {
        T sum = x[index[0]] * weight[0];
        for (int64_t k = 1; k < t.taps; ++k) sum += x[index[k]] * weight[k];
        y[o] = sum;
        continue;
      }
      T* to = y + o * inner;
      const T* from = x + index[0] * inner;
      for (int64_t i = 0; i < inner; ++i) to[i] = from[i] * weight[0];
      for (int64_t k = 1; k < t.taps; ++k) {
        const T w = weight[k];
        from = x + index[k] * inner;
        if (w != 0)
          for (int64_t i = 0; i < inner; ++i) to[i] += from[i] * w;
        else
          for (int64_t i = 0; i < inner; ++i)
            to[i] += from[i] * T(0);  // NaN and inf reach as far as in PyTorch
      }
    }
  }
}

template <class T>
void apply_transposed(const Table<T>& t, int64_t outer, int64_t inner, const T* y, T* x) {
  std::fill(x, x + outer * t.in * inner, T(0));
  for (int64_t r = 0; r < outer; ++r, x += t.in * inner, y += t.out * inner) {
    const int64_t* index = t.index.data();
    const T* weight = t.weight.data();
    for (int64_t o = 0; o < t.out; ++o, index += t.taps, weight += t.taps)
      for (int64_t k = 0; k < t.taps; ++k) {
        const T w = weight[k];
        const T* from = y + o * inner;
        T* to = x + index[k] * inner;
        for (int64_t i = 0; i < inner; ++i) to[i] += from[i] * w;
      }
  }
}

// Pixels in fixed point: the weights as 16-bit integers with as many fractional bits as the largest allows.
struct PixelTable {
  Table<int32_t> taps;
  int precision = 0;
};
PixelTable pixel_table(Resampling method, const ResampleShape& s, int d) {
  Table<double> exact = make_table<double>(method, s, d);
  PixelTable p;
  p.taps.in = exact.in, p.taps.out = exact.out, p.taps.taps = exact.taps, p.taps.index = exact.index;
  double largest = 0;
  for (double w : exact.weight) largest = std::max(largest, w);
  for (; p.precision < 22; ++p.precision)
    if (static_cast<int>(0.5 + largest * (1 << (p.precision + 1))) >= 1 << 15) break;
  for (double w : exact.weight)
    p.taps.weight.push_back(static_cast<int16_t>((w < 0 ? -0.5 : 0.5) + w * (1 << p.precision)));
  return p;
}
void apply_pixels(const PixelTable& p, int64_t outer, int64_t inner, const uint8_t* x, uint8_t* y) {
  const Table<int32_t>& t = p.taps;
  for (int64_t r = 0; r < outer; ++r, x += t.in * inner, y += t.out * inner)
    for (int64_t o = 0; o < t.out; ++o) {
      const int64_t* index = &t.index[static_cast<size_t>(o * t.taps)];
      const int32_t* weight = &t.weight[static_cast<size_t>(o * t.taps)];
      for (int64_t i = 0; i < inner; ++i) {
        int32_t sum = p.precision > 0 ? 1 << (p.precision - 1) : 0;
        for (int64_t k = 0; k < t.taps; ++k) sum += weight[k] * x[index[k] * inner + i];
        y[o * inner + i] = static_cast<uint8_t>(std::clamp(sum >> p.precision, 0, 255));
      }
    }
}

int64_t volume(const int64_t* sizes, int dims) {
  int64_t n = 1;
  for (int d = 0; d < dims; ++d) n *= sizes[d];
  return n;
}

int64_t grain(const ResampleShape& s) {
  return std::max<int64_t>(1, 16384 / (volume(s.in, s.dims) + volume(s.out, s.dims) + 1));
}

// Applies the tables of all dims to one plane, the last dim first; scratch holds what lies between.
template <class T, class Apply>
void all_dims(const ResampleShape& s, const T* x, T* y, std::vector<T>& one, std::vector<T>& other,
              Apply apply_dim) {
  int64_t sizes[3] = {s.in[0], s.in[1], s.in[2]};
  const T* from = x;
  for (int d = s.dims - 1; d >= 0; --d) {
    const int64_t outer = volume(sizes, d), inner = volume(sizes + d + 1, s.dims - d - 1);
    std::vector<T>& next = from == one.data() && !one.empty() ? other : one;
    T* to = y;
    if (d > 0) {
      next.resize(static_cast<size_t>(outer * s.out[d] * inner));
      to = next.data();
    }
    apply_dim(d, outer, inner, from, to);
    sizes[d] = s.out[d];
    from = to;
  }
}
template <class T>
void all_dims_transposed(const ResampleShape& s, const std::vector<Table<T>>& tables, const T* y, T* x,
                         std::vector<T>& one, std::vector<T>& other) {
  int64_t sizes[3] = {s.out[0], s.out[1], s.out[2]};
  const T* from = y;
  for (int d = 0; d < s.dims; ++d) {
    const int64_t outer = volume(sizes, d), inner = volume(sizes + d + 1, s.dims - d - 1);
    std::vector<T>& next = from == one.data() && !one.empty() ? other : one;
    T* to = x;
    if (d + 1 < s.dims) {
      next.resize(static_cast<size_t>(outer * s.in[d] * inner));
      to = next.data();
    }
    apply_transposed(tables[static_cast<size_t>(d)], outer, inner, from, to);
    sizes[d] = s.in[d];
    from = to;
  }
}

template <class T>
std::vector<Table<T>> make_tables(Resampling method, const ResampleShape& s) {
  std::vector<Table<T>> tables;
  for (int d = 0; d < s.dims; ++d) tables.push_back(make_table<T>(method, s, d));
  return tables;
}

void move_nearest(DType type, Resampling method, const ResampleShape& s, const void* x, void* y) {
  std::vector<int64_t> index[3] = {{0}, {0}, {0}};
  int64_t in[3] = {1, 1, 1};
  for (int d = 0; d < s.dims; ++d) {
    index[3 - s.dims + d] = nearest_index(s, d, method == Resampling::nearest_exact, s.dims == 2);
    in[3 - s.dims + d] = s.in[d];
  }
  auto run = [&]<class T>(T) {
    const int64_t in_volume = volume(s.in, s.dims), out_volume = volume(s.out, s.dims);
    parallel_for(0, s.planes, grain(s), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const T* from = static_cast<const T*>(x) + p * in_volume;
        T* to = static_cast<T*>(y) + p * out_volume;
        for (int64_t i : index[0])
          for (size_t j = 0; j < index[1].size(); ++j) {
            const size_t width = index[2].size();
            if (j > 0 && index[1][j] == index[1][j - 1]) {
              std::memcpy(to, to - width, width * sizeof(T));
              to += width;
              continue;
            }
            const T* row = from + (i * in[1] + index[1][j]) * in[2];
            for (int64_t k : index[2]) *to++ = row[k];
          }
      }
    });
  };
  switch (element_size(type)) {
    case 1:
      return run(uint8_t{});
    case 2:
      return run(uint16_t{});
    case 4:
      return run(uint32_t{});
    default:
      return run(uint64_t{});
  }
}

}  // namespace

void resample(DType type, Resampling method, const ResampleShape& s, const void* x, void* y) {
  if (method <= Resampling::nearest_exact) return move_nearest(type, method, s, x, y);
  const int64_t in_volume = volume(s.in, s.dims), out_volume = volume(s.out, s.dims);
  if (type == DType::uint8) {
    std::vector<PixelTable> tables;
    for (int d = 0; d < s.dims; ++d) tables.push_back(pixel_table(method, s, d));
    parallel_for(0, s.planes, grain(s), [&](int64_t begin, int64_t end) {
      std::vector<uint8_t> one, other;
      for (int64_t p = begin; p < end; ++p)
        all_dims(s, static_cast<const uint8_t*>(x) + p * in_volume, static_cast<uint8_t*>(y) + p * out_volume,
                 one, other, [&](int d, int64_t outer, int64_t inner, const uint8_t* from, uint8_t* to) {
                   apply_pixels(tables[static_cast<size_t>(d)], outer, inner, from, to);
                 });
    });
    return;
  }
  auto run = [&]<class T>(T) {
    const bool direct = type == dtype_of<T>;
    const auto tables = make_tables<T>(method, s);
    parallel_for(0, s.planes, grain(s), [&](int64_t begin, int64_t end) {
      std::vector<T> one, other, plane(direct ? 0 : static_cast<size_t>(in_volume)),
          result(direct ? 0 : static_cast<size_t>(out_volume));
      for (int64_t p = begin; p < end; ++p) {
        const char* source = static_cast<const char*>(x) + p * in_volume * element_size(type);
        char* target = static_cast<char*>(y) + p * out_volume * element_size(type);
        if (!direct) find_cast(type, dtype_of<T>)(source, 1, plane.data(), 1, in_volume);
        all_dims(s, direct ? reinterpret_cast<const T*>(source) : plane.data(),
                 direct ? reinterpret_cast<T*>(target) : result.data(), one, other,
                 [&](int d, int64_t outer, int64_t inner, const T* from, T* to) {
                   apply(tables[static_cast<size_t>(d)], outer, inner, from, to);
                 });
        if (!direct) find_cast(dtype_of<T>, type)(result.data(), 1, target, 1, out_volume);
      }
    });
  };
  type == kDouble ? run(double{}) : run(float{});
}

void resample_backward(DType type, Resampling method, const ResampleShape& s, const void* grad_y,
                       void* grad_x) {
  const int64_t in_volume = volume(s.in, s.dims), out_volume = volume(s.out, s.dims);
  auto run = [&]<class T>(T) {
    const bool direct = type == dtype_of<T>;
    const auto tables = make_tables<T>(method, s);
    parallel_for(0, s.planes, grain(s), [&](int64_t begin, int64_t end) {
      std::vector<T> one, other, plane(direct ? 0 : static_cast<size_t>(out_volume)),
          result(direct ? 0 : static_cast<size_t>(in_volume));
      for (int64_t p = begin; p < end; ++p) {
        const char* source = static_cast<const char*>(grad_y) + p * out_volume * element_size(type);
        char* target = static_cast<char*>(grad_x) + p * in_volume * element_size(type);
        if (!direct) find_cast(type, dtype_of<T>)(source, 1, plane.data(), 1, out_volume);
        all_dims_transposed(s, tables, direct ? reinterpret_cast<const T*>(source) : plane.data(),
                            direct ? reinterpret_cast<T*>(target) : result.data(), one, other);
        if (!direct) find_cast(dtype_of<T>, type)(result.data(), 1, target, 1, in_volume);
      }
    });
  };
  type == kDouble ? run(double{}) : run(float{});
}

}  // namespace tern::kernels
