// The windows of a pooling: a range of positions per dim, found once for all planes.
#pragma once
#include <algorithm>
#include <vector>

#include "tern/base/format.h"
#include "tern/kernels/pool.h"

namespace tern::kernels {

struct Range {
  int64_t begin, end, padded;  // positions inside; how many count when padding counts
};

struct Windows {  // of three dims, the last ones those of the pooling: inner loops are the long ones
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, step[3] = {1, 1, 1};
  std::vector<Range> ranges[3];
  int64_t in_volume = 1, out_volume = 1;

  explicit Windows(const PoolShape& s) {
    if (s.dims < 1 || s.dims > 3)
      failf(ErrorKind::value, "pooling: expected 1 to 3 spatial dims, got {}", s.dims);
    const int first = 3 - s.dims;
    for (int d = 0; d < first; ++d) ranges[d] = {{0, 1, 1}};
    for (int i = 0; i < s.dims; ++i) {
      const int d = first + i;
      in[d] = s.in_size[i], out[d] = s.out_size[i];
      if (!s.adaptive) {
        step[d] = s.dilation[i];
        if (s.stride[i] < 1 || s.dilation[i] < 1 || s.kernel[i] < 1)
          fail(ErrorKind::value, "pooling: kernel size, stride and dilation must be positive");
        if (s.padding[i] > s.kernel[i] / 2)
          fail(ErrorKind::value, "pooling: padding must be at most half of the kernel size");
      }
      ranges[d].reserve(static_cast<size_t>(out[d]));
      for (int64_t o = 0; o < out[d]; ++o) {
        if (s.adaptive) {
          const int64_t from = o * in[d] / out[d], to = ((o + 1) * in[d] + out[d] - 1) / out[d];
          ranges[d].push_back({from, to, to - from});
          continue;
        }
        int64_t from = o * s.stride[i] - s.padding[i];
        const int64_t reach = (s.kernel[i] - 1) * s.dilation[i] + 1;
        const int64_t padded = std::min(from + reach, in[d] + s.padding[i]) - from;
        const int64_t to = std::min(from + reach, in[d]);
        while (from < 0) from += s.dilation[i];
        ranges[d].push_back({from, to, padded});
      }
    }
    in_volume = in[0] * in[1] * in[2];
    out_volume = out[0] * out[1] * out[2];
  }

  // f(output position, ranges of the three dims)
  template <class F>
  void each(F f) const {
    int64_t o = 0;
    for (const Range& a : ranges[0])
      for (const Range& b : ranges[1])
        for (const Range& c : ranges[2]) f(o++, a, b, c);
  }
  template <class F>
  void inside(const Range& a, const Range& b, const Range& c, F f) const {
    for (int64_t i = a.begin; i < a.end; i += step[0])
      for (int64_t j = b.begin; j < b.end; j += step[1])
        for (int64_t k = c.begin; k < c.end; k += step[2]) f((i * in[1] + j) * in[2] + k);
  }
  int64_t divisor(const PoolShape& s, const Range& a, const Range& b, const Range& c) const {
    if (s.divisor_override) return s.divisor_override;
    if (s.count_include_pad) return a.padded * b.padded * c.padded;
    return (a.end - a.begin) * (b.end - b.begin) * (c.end - c.begin);
  }
};

}  // namespace tern::kernels
