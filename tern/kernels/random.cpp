#include "tern/kernels/random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>
#include <vector>

#include "tern/base/format.h"
#include "tern/kernels/normal.h"
#include "tern/kernels/pointwise.h"
#include "tern/tensor/by_dtype.h"

namespace tern::kernels {
namespace {

template <class F>
void by_float(DType type, const char* what, F f) {
  by_dtype(kFloats, type, f, [&] {
    failf(ErrorKind::not_supported, "\"{}\" not implemented for '{}'", what, script_name(type));
  });
}
template <class F>
void by_type(DType type, const char* what, F f) {
  by_dtype(Types<bool>{} + kIntegers + kLateUnsigned + kFloats, type, f, [&] {
    failf(ErrorKind::not_supported, "\"{}\" not implemented for '{}'", what, script_name(type));
  });
}

template <class F>
void by_number(DType type, const char* what, F f) {
  by_dtype(kIntegers + kFloats, type, f, [&] {
    failf(ErrorKind::not_supported, "\"{}\" not implemented for '{}'", what, script_name(type));
  });
}

template <class T>
inline constexpr bool narrow = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <class T>
inline constexpr int digits = std::is_same_v<T, Half>       ? 11
                              : std::is_same_v<T, BFloat16> ? 8
                                                            : std::numeric_limits<T>::digits;
template <class T>
using Compute = std::conditional_t<narrow<T>, float, T>;

// A number in [0, 1) with as many bits as T's mantissa.
template <class T>
Compute<T> unit(Mt19937& g) {
  constexpr uint64_t mask = (uint64_t{1} << digits<T>)-1;
  constexpr Compute<T> divisor = Compute<T>(1) / Compute<T>(uint64_t{1} << digits<T>);
  if constexpr (std::is_same_v<T, double>)
    return static_cast<double>(g.random64() & mask) * divisor;
  else
    return static_cast<float>(g.random() & mask) * divisor;
}

// n of them for floats.
void units(Mt19937& g, float* x, int64_t n) {
  uint32_t bits[624];
  for (int64_t at = 0; at < n; at += 624) {
    const int64_t m = std::min<int64_t>(624, n - at);
    g.random(bits, m);
    for (int64_t i = 0; i < m; ++i)
      x[at + i] = static_cast<float>(static_cast<int32_t>(bits[i] & 0xffffff)) * (1.0f / 16777216.0f);
  }
}

// Box-Muller in double; the second number of a pair waits in the generator.
double next_normal(Mt19937& g, double mean, double std) {
  if (g.next_double_normal) {
    const double value = *g.next_double_normal;
    g.next_double_normal.reset();
    return std::fma(value, std, mean);
  }
  const double u1 = unit<double>(g), u2 = unit<double>(g);
  const double radius = std::sqrt(-2.0 * std::log1p(-u2)), theta = 2.0 * std::numbers::pi * u1;
  g.next_double_normal = radius * std::sin(theta);
  return std::fma(radius * std::cos(theta), std, mean);
}

// Sixteen uniform numbers become sixteen normal ones: i and i + 8 are a pair.
template <class T>
void normal_16(T* x, T mean, T std) {
  for (int j = 0; j < 8; ++j) {
    const T u1 = 1 - x[j], u2 = x[j + 8];
    const T radius = std::sqrt(-2 * std::log(u1)), theta = T(2.0f * std::numbers::pi_v<double>) * u2;
    x[j] = std::fma(radius * std::cos(theta), std, mean);
    x[j + 8] = std::fma(radius * std::sin(theta), std, mean);
  }
}

}  // namespace

void Mt19937::seed(uint64_t value) {
  seed_ = value;
  state_[0] = static_cast<uint32_t>(value);
  for (uint32_t j = 1; j < 624; ++j) state_[j] = 1812433253u * (state_[j - 1] ^ (state_[j - 1] >> 30)) + j;
  left_ = 1;
  next_ = 0;
  next_double_normal.reset();
  next_float_normal.reset();
}

void Mt19937::next_state() {
  auto twist = [](uint32_t u, uint32_t v) {
    return (((u & 0x80000000u) | (v & 0x7fffffffu)) >> 1) ^ (v & 1 ? 0x9908b0dfu : 0u);
  };
  // In three stretches, so that no index wraps; each reads nothing that it has written closer than 227
  // before.
  for (int k = 0; k < 227; ++k) state_[k] = state_[k + 397] ^ twist(state_[k], state_[k + 1]);
  for (int k = 227; k < 623; ++k) state_[k] = state_[k - 227] ^ twist(state_[k], state_[k + 1]);
  state_[623] = state_[396] ^ twist(state_[623], state_[0]);
  left_ = 624;
  next_ = 0;
}

void Mt19937::random(uint32_t* out, int64_t n) {
  while (n > 0) {
    if (left_ == 1) {
      next_state();
      left_ = 625;  // random() counts the number it gives
    }
    const int64_t m = std::min<int64_t>(n, left_ - 1);
    const uint32_t* from = state_ + next_;
    for (int64_t i = 0; i < m; ++i) {
      uint32_t y = from[i];
      y ^= y >> 11;
      y ^= (y << 7) & 0x9d2c5680;
      y ^= (y << 15) & 0xefc60000;
      out[i] = y ^ (y >> 18);
    }
    next_ += static_cast<uint32_t>(m);
    left_ -= static_cast<int>(m);
    out += m;
    n -= m;
  }
}

namespace {
// The layout of torch's CPU generator state.
struct SavedState {
  uint64_t seed;
  int32_t left, seeded;
  uint64_t next;
  uint64_t state[624];
  double normal_x, normal_y, normal_rho;
  int32_t normal_is_valid;
  float next_float_normal;
  bool next_float_normal_is_valid;
};
constexpr size_t kFloatOffset = 5048;
}  // namespace

void Mt19937::save_state(void* bytes) const {
  SavedState s{};
  s.seed = seed_;
  s.left = left_;
  s.seeded = 1;
  s.next = next_;
  std::copy(state_, state_ + 624, s.state);
  s.normal_y = next_double_normal.value_or(0);
  s.normal_is_valid = next_double_normal.has_value();
  char* to = static_cast<char*>(bytes);
  std::memset(to, 0, state_bytes);
  std::memcpy(to, &s, offsetof(SavedState, next_float_normal));
  const float f = next_float_normal.value_or(0);
  std::memcpy(to + kFloatOffset, &f, sizeof f);
  to[kFloatOffset + 4] = next_float_normal.has_value();
}

void Mt19937::load_state(const void* bytes) {
  SavedState s;
  const char* from = static_cast<const char*>(bytes);
  std::memcpy(&s, from, offsetof(SavedState, next_float_normal));
  if (s.left < 1 || s.left > 624 || s.next > 624 || !s.seeded ||
      (s.left > 1 && s.next + s.left != 625 && s.next + s.left != 624))
    fail(ErrorKind::value, "set_rng_state: the bytes are not the state of a CPU generator");
  seed_ = s.seed;
  left_ = s.left;
  next_ = static_cast<uint32_t>(s.next);
  for (int k = 0; k < 624; ++k) state_[k] = static_cast<uint32_t>(s.state[k]);
  next_double_normal.reset();
  next_float_normal.reset();
  if (s.normal_is_valid) next_double_normal = s.normal_y;
  if (from[kFloatOffset + 4]) {
    float f;
    std::memcpy(&f, from + kFloatOffset, sizeof f);
    next_float_normal = f;
  }
}

void uniform(Mt19937& g, DType type, void* out, int64_t n, double from, double to) {
  by_float(type, "check_uniform_bounds", [&]<class T>(T) {
    using C = Compute<T>;
    const C base = static_cast<C>(from), width = static_cast<C>(to) - base;
    if constexpr (std::is_same_v<T, float>) {
      float* x = static_cast<float*>(out);
      units(g, x, n);
      if (base != 0 || width != 1)
        for (int64_t i = 0; i < n; ++i) x[i] = std::fma(x[i], width, base);
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      T& x = static_cast<T*>(out)[i];
      x = T(std::fma(unit<C>(g), width, base));
      // Rounding to a narrow type may reach the end, which is not part of the range.
      if constexpr (narrow<T>)
        if (C(x) == C(T(static_cast<C>(to)))) x = T(base);
    }
  });
}

void normal(Mt19937& g, DType type, void* out, int64_t n, double mean, double std, bool contiguous) {
  by_float(type, "normal_kernel_cpu", [&]<class T>(T) {
    T* x = static_cast<T*>(out);
    if (n < 16 || !contiguous) {
      for (int64_t i = 0; i < n; ++i) x[i] = T(static_cast<Compute<T>>(next_normal(g, mean, std)));
      return;
    }
    using C = Compute<T>;
    const C m = static_cast<C>(mean), s = static_cast<C>(std);
    if constexpr (narrow<T>) {  // sixteen at a time
      auto block = [&](T* to) {
        C buffer[16];
        for (C& v : buffer) v = unit<C>(g);
        normal_16(buffer, m, s);
        for (int j = 0; j < 16; ++j) to[j] = T(buffer[j]);
      };
      for (int64_t i = 0; i + 16 <= n; i += 16) block(x + i);
      if (n % 16) block(x + n - 16);
    } else {  // all uniform numbers first; the last sixteen are drawn again when n is no multiple of sixteen
      if constexpr (std::is_same_v<T, float>) {
        units(g, x, n);
        normal_blocks(x, n / 16, m, s);
      } else {
        for (int64_t i = 0; i < n; ++i) x[i] = unit<T>(g);
        for (int64_t i = 0; i + 16 <= n; i += 16) normal_16(x + i, m, s);
      }
      if (n % 16) {
        for (int64_t i = n - 16; i < n; ++i) x[i] = unit<T>(g);
        normal_16(x + n - 16, m, s);
      }
    }
  });
}

void exponential(Mt19937& g, DType type, void* out, int64_t n, double lambda) {
  by_float(type, "exponential_cpu", [&]<class T>(T) {
    for (int64_t i = 0; i < n; ++i)
      static_cast<T*>(out)[i] = T(static_cast<Compute<T>>(-1.0 / lambda * std::log1p(-unit<double>(g))));
  });
}

void log_normal(Mt19937& g, DType type, void* out, int64_t n, double mean, double std) {
  by_float(type, "log_normal_cpu", [&]<class T>(T) {
    for (int64_t i = 0; i < n; ++i)
      static_cast<T*>(out)[i] = T(static_cast<Compute<T>>(std::exp(next_normal(g, mean, std))));
  });
}

void cauchy(Mt19937& g, DType type, void* out, int64_t n, double median, double sigma) {
  by_float(type, "cauchy_cpu", [&]<class T>(T) {
    for (int64_t i = 0; i < n; ++i)
      static_cast<T*>(out)[i] =
          T(static_cast<Compute<T>>(median + sigma * std::tan(std::numbers::pi * (unit<double>(g) - 0.5))));
  });
}

void geometric(Mt19937& g, DType type, void* out, int64_t n, double p) {
  by_type(type, "geometric_cpu", [&]<class T>(T) {
    for (int64_t i = 0; i < n; ++i)
      static_cast<T*>(out)[i] = T(static_cast<float>(std::ceil(std::log(unit<double>(g)) / std::log1p(-p))));
  });
}

void bernoulli(Mt19937& g, DType type, void* out, int64_t n, double p) {
  by_type(type, "bernoulli_scalar_cpu_", [&]<class T>(T) {
    for (int64_t i = 0; i < n; ++i) static_cast<T*>(out)[i] = T(static_cast<float>(unit<double>(g) < p));
  });
}

void bernoulli(Mt19937& g, DType type, void* out, int64_t n, DType p_type, const void* p) {
  by_type(type, "bernoulli_tensor_cpu_self_", [&]<class T>(T) {
    by_float(p_type, "bernoulli_tensor_cpu_p_", [&]<class P>(P) {
      using Draw = std::conditional_t<std::is_same_v<P, double>, double, float>;
      for (int64_t i = 0; i < n; ++i) {
        const Draw probability = static_cast<Draw>(static_cast<const P*>(p)[i]);
        if (!(probability >= 0 && probability <= 1))
          failf(ErrorKind::runtime, "bernoulli: expected probabilities between 0 and 1, found {}",
                static_cast<double>(probability));
        static_cast<T*>(out)[i] = T(static_cast<float>(unit<Draw>(g) < probability));
      }
    });
  });
}

void random_from_to(Mt19937& g, DType type, void* out, int64_t n, int64_t from, uint64_t range) {
  if (range == 0) fail(ErrorKind::runtime, "random_: expected 'from' to be less than 'to'");
  by_type(type, "random_update_from_to", [&]<class T>(T) {
    T* x = static_cast<T*>(out);
    auto put = [&](int64_t i, uint64_t drawn) {
      const int64_t value = static_cast<int64_t>(drawn % range + static_cast<uint64_t>(from));
      if constexpr (narrow<T>)
        x[i] = T(static_cast<float>(value));
      else
        x[i] = static_cast<T>(value);
    };
    if (range >= uint64_t{1} << 28)
      for (int64_t i = 0; i < n; ++i) put(i, g.random64());
    else
      for (int64_t i = 0; i < n; ++i) put(i, g.random());
  });
}

void random(Mt19937& g, DType type, void* out, int64_t n) {
  by_type(type, "random_kernel_cpu", [&]<class T>(T) {
    for (int64_t i = 0; i < n; ++i) {
      T& x = static_cast<T*>(out)[i];
      if constexpr (std::is_same_v<T, bool>)
        x = g.random() & 1;
      else if constexpr (std::is_same_v<T, int64_t>)
        x = static_cast<T>(g.random64() % (uint64_t{1} << 63));
      else if constexpr (std::is_same_v<T, double>)
        x = static_cast<T>(g.random64() % ((uint64_t{1} << 53) + 1));
      else if constexpr (std::is_integral_v<T>) {
        const uint64_t bound = static_cast<uint64_t>(std::numeric_limits<T>::max()) + 1;
        x = static_cast<T>(bound ? g.random() % bound : g.random());
      } else
        x = T(static_cast<float>(g.random() % ((uint64_t{1} << digits<T>)+1)));
    }
  });
}

void random_full_64_bits(Mt19937& g, DType type, void* out, int64_t n) {
  by_type(type, "random_update_full_64_bits", [&]<class T>(T) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t value = static_cast<int64_t>(g.random64());
      if constexpr (narrow<T>)
        static_cast<T*>(out)[i] = T(static_cast<float>(value));
      else
        static_cast<T*>(out)[i] = static_cast<T>(value);
    }
  });
}

void randperm(Mt19937& g, DType type, void* out, int64_t n) {
  by_number(type, "randperm", [&]<class T>(T) {
    T* x = static_cast<T*>(out);
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (narrow<T>)
        x[i] = T(static_cast<float>(i));
      else
        x[i] = static_cast<T>(i);
    }
    const bool small = n < static_cast<int64_t>(UINT32_MAX / 20);
    for (int64_t i = 0; i < n - 1; ++i) {
      const uint64_t left = static_cast<uint64_t>(n - i);
      const int64_t pick = i + static_cast<int64_t>((small ? g.random() : g.random64()) % left);
      std::swap(x[i], x[pick]);
    }
  });
}

void multinomial(Mt19937& g, DType type, const void* probabilities, int64_t rows, int64_t categories,
                 int64_t samples, bool replacement, int64_t* out) {
  if (!replacement && samples > categories)
    fail(ErrorKind::runtime,
         "multinomial: cannot sample more than the number of categories without replacement");
  by_float(type, "multinomial", [&]<class T>(T) {
    using C = Compute<T>;
    const T* all = static_cast<const T*>(probabilities);
    auto check = [](C p) {
      if (!(p >= 0) || std::isinf(p))
        fail(ErrorKind::runtime, "multinomial: probability tensor contains either inf, nan or element < 0");
    };
    if (!replacement || samples == 1) {  // the largest of p / exponential
      const int64_t n = rows * categories;
      std::vector<T> q(static_cast<size_t>(n));
      for (int64_t r = 0; r < rows; ++r) {
        C sum = 0;
        for (int64_t c = 0; c < categories; ++c)
          check(C(all[r * categories + c])), sum += C(all[r * categories + c]);
        if (!(sum > 0))
          fail(ErrorKind::runtime,
               "multinomial: invalid multinomial distribution (sum of probabilities <= 0)");
      }
      exponential(g, type, q.data(), n, 1);
      for (int64_t i = 0; i < n; ++i) q[i] = T(C(all[i]) / C(q[i]));
      std::vector<int64_t> order(static_cast<size_t>(categories));
      for (int64_t r = 0; r < rows; ++r) {
        std::iota(order.begin(), order.end(), 0);
        const T* row = q.data() + r * categories;
        std::stable_sort(order.begin(), order.end(),
                         [&](int64_t a, int64_t b) { return C(row[a]) > C(row[b]); });
        std::copy_n(order.begin(), samples, out + r * samples);
      }
      return;
    }
    std::vector<C> cumulative(static_cast<size_t>(categories));
    for (int64_t r = 0; r < rows; ++r) {
      C sum = 0;
      for (int64_t c = 0; c < categories; ++c) {
        const C p = C(all[r * categories + c]);
        if (!(p >= 0))
          fail(ErrorKind::runtime, "invalid multinomial distribution (encountering probability entry < 0)");
        if (std::isinf(p))
          fail(ErrorKind::runtime,
               "invalid multinomial distribution (encountering probability entry = infinity or NaN)");
        sum += p;
        cumulative[c] = sum;
      }
      if (!(sum > 0))
        fail(ErrorKind::runtime, "invalid multinomial distribution (sum of probabilities <= 0)");
      if (sum < C(1.00001) || sum > C(1.00001))
        for (C& c : cumulative) c /= sum;
      cumulative[categories - 1] = 1;
      for (int64_t s = 0; s < samples; ++s) {
        const double u = unit<double>(g);
        int64_t left = 0, right = categories;
        while (right - left > 0) {
          const int64_t middle = left + (right - left) / 2;
          if (static_cast<double>(cumulative[middle]) < u)
            left = middle + 1;
          else
            right = middle;
        }
        out[r * samples + s] = left;
      }
    }
  });
}

}  // namespace tern::kernels
