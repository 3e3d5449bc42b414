// Mixed radix by decimation in time (2, 3, 4, 5 and small primes), and Bluestein's convolution where a large
// prime divides the length. Twiddles are made in double with the angle reduced to an octant.
#include "tern/kernels/fft.h"

#include <cmath>
#include <memory>
#include <mutex>
#include <numbers>
#include <unordered_map>
#include <vector>

#include "tern/base/parallel.h"

namespace tern::kernels {
namespace {

constexpr int64_t kLargestRadix = 61;  // above it a butterfly costs more than Bluestein's detour

// exp(-2πi·k/n), exact where k/n is a multiple of an eighth.
std::complex<double> root(int64_t k, int64_t n) {
  k %= n;
  // The octant, and what is left within it.
  int64_t eighth = 8 * k / n;
  double rest =
      2 * std::numbers::pi * static_cast<double>(8 * k - eighth * n) / (8.0 * static_cast<double>(n));
  double c, s;
  if (eighth % 2) {
    const double back = std::numbers::pi / 4 - rest;
    c = std::sin(back), s = std::cos(back);  // cos and sin of (π/4 + rest), mirrored at π/4
  } else {
    c = std::cos(rest), s = std::sin(rest);
  }
  double re, im;
  switch (eighth / 2) {
    case 0:
      re = c, im = s;
      break;
    case 1:
      re = -s, im = c;
      break;
    case 2:
      re = -c, im = -s;
      break;
    default:
      re = s, im = -c;
  }
  return {re, -im};
}

template <class T>
std::complex<T> times(std::complex<T> a, std::complex<T> b) {  // without the checks for NaN of operator*
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

template <class T>
class Plan {
  using C = std::complex<T>;

 public:
  explicit Plan(int64_t n) : n_(n) {
    int64_t rest = n, largest = 1;
    for (int64_t p : {4, 2, 3, 5})
      while (rest % p == 0) {
        factors_.push_back(p);
        rest /= p;
      }
    for (int64_t p = 7; p * p <= rest; p += 2)
      while (rest % p == 0) {
        factors_.push_back(p);
        rest /= p;
        largest = std::max(largest, p);
      }
    if (rest > 1) {
      factors_.push_back(rest);
      largest = std::max(largest, rest);
    }
    if (largest > kLargestRadix) {
      prepare_bluestein();
      return;
    }
    roots_.resize(static_cast<size_t>(n));
    for (int64_t k = 0; k < n; ++k) roots_[static_cast<size_t>(k)] = C(root(k, n));
  }

  // Forward; `work` has room for scratch() numbers.
  void run(const C* in, int64_t stride, C* out, C* work) const {
    if (inner_)
      bluestein(in, stride, out, work);
    else if (n_ == 1)
      out[0] = in[0];
    else
      step(in, stride, out, n_, 1, 0, work);
  }
  int64_t scratch() const { return inner_ ? 2 * inner_->n_ + inner_->scratch() : 4 * kLargestRadix; }

 private:
  // The transform of n numbers at `stride`, where the roots of n are every `skip`-th of all.
  void step(const C* in, int64_t stride, C* out, int64_t n, int64_t skip, size_t level, C* work) const {
    const int64_t p = factors_[level], m = n / p;
    if (m == 1) {
      for (int64_t j = 0; j < p; ++j) out[j] = in[j * stride];
    } else {
      for (int64_t j = 0; j < p; ++j)
        step(in + j * stride, stride * p, out + j * m, m, skip * p, level + 1, work);
    }
    const C* w = roots_.data();
    switch (p) {
      case 2:
        for (int64_t k = 0; k < m; ++k) {
          const C a = out[k], b = times(out[k + m], w[k * skip]);
          out[k] = a + b;
          out[k + m] = a - b;
        }
        return;
      case 3: {
        const T half = T(-0.5), tall = static_cast<T>(-std::numbers::sqrt3 / 2);
        for (int64_t k = 0; k < m; ++k) {
          const C a = out[k], b = times(out[k + m], w[k * skip]), c = times(out[k + 2 * m], w[2 * k * skip]);
          const C s = b + c, d = b - c, t = a + half * s, u{-tall * d.imag(), tall * d.real()};
          out[k] = a + s;
          out[k + m] = t + u;
          out[k + 2 * m] = t - u;
        }
        return;
      }
      case 4:
        for (int64_t k = 0; k < m; ++k) {
          const C a = out[k], b = times(out[k + m], w[k * skip]), c = times(out[k + 2 * m], w[2 * k * skip]),
                  d = times(out[k + 3 * m], w[3 * k * skip]);
          const C s = a + c, t = a - c, u = b + d, v = b - d, i{v.imag(), -v.real()};
          out[k] = s + u;
          out[k + m] = t + i;
          out[k + 2 * m] = s - u;
          out[k + 3 * m] = t - i;
        }
        return;
      default:
        break;
    }
    // Any other prime: pairs j and p - j share their products.
    C* x = work;
    const int64_t half = (p - 1) / 2, apart = n_ / p;
    for (int64_t k = 0; k < m; ++k) {
      x[0] = out[k];
      for (int64_t j = 1; j < p; ++j) x[j] = times(out[k + j * m], w[j * k * skip]);
      C total = x[0];
      for (int64_t j = 1; j <= half; ++j) {
        const C a = x[j], b = x[p - j];
        x[j] = a + b;
        x[p - j] = a - b;
        total += x[j];
      }
      out[k] = total;
      for (int64_t q = 1; q <= half; ++q) {
        C even = x[0], odd{};
        for (int64_t j = 1; j <= half; ++j) {
          const C r = w[(j * q % p) * apart];
          even += r.real() * x[j];
          odd += r.imag() * x[p - j];
        }
        const C turned{-odd.imag(), odd.real()};
        out[k + q * m] = even + turned;
        out[k + (p - q) * m] = even - turned;
      }
    }
  }

  // A length with a large prime as a circular convolution of a length without one:
  // jk = (j² + k² - (k - j)²) / 2.
  void prepare_bluestein() {
    int64_t m = 1;
    while (m < 2 * n_ - 1) m *= 2;
    inner_ = std::make_unique<Plan>(m);
    chirp_.resize(static_cast<size_t>(n_));
    for (int64_t k = 0; k < n_; ++k) {
      const int64_t square = static_cast<int64_t>(static_cast<__int128>(k) * k % (2 * n_));
      chirp_[static_cast<size_t>(k)] = C(root(square, 2 * n_));
    }
    std::vector<C> line(static_cast<size_t>(m), C{}), work(static_cast<size_t>(inner_->scratch()));
    for (int64_t k = 0; k < n_; ++k) {
      line[static_cast<size_t>(k)] = std::conj(chirp_[static_cast<size_t>(k)]);
      if (k) line[static_cast<size_t>(m - k)] = line[static_cast<size_t>(k)];
    }
    kernel_.resize(static_cast<size_t>(m));
    inner_->run(line.data(), 1, kernel_.data(), work.data());
  }
  void bluestein(const C* in, int64_t stride, C* out, C* work) const {
    const int64_t m = inner_->n_;
    C *a = work, *b = work + m, *rest = work + 2 * m;
    for (int64_t k = 0; k < n_; ++k) a[k] = times(in[k * stride], chirp_[static_cast<size_t>(k)]);
    for (int64_t k = n_; k < m; ++k) a[k] = C{};
    inner_->run(a, 1, b, rest);
    // Conjugated before and after, the forward transform is the inverse one.
    for (int64_t k = 0; k < m; ++k) b[k] = std::conj(times(b[k], kernel_[static_cast<size_t>(k)]));
    inner_->run(b, 1, a, rest);
    const T scale = T(1) / static_cast<T>(m);
    for (int64_t k = 0; k < n_; ++k) out[k] = times(std::conj(a[k]) * scale, chirp_[static_cast<size_t>(k)]);
  }

  int64_t n_;
  std::vector<int64_t> factors_;
  std::vector<C> roots_, chirp_, kernel_;
  std::unique_ptr<Plan> inner_;
};

// The plans of the last lengths, shared by threads.
template <class T>
std::shared_ptr<const Plan<T>> plan_for(int64_t n) {
  static std::mutex guard;
  static std::unordered_map<int64_t, std::shared_ptr<const Plan<T>>> plans;
  {
    std::lock_guard lock(guard);
    if (auto it = plans.find(n); it != plans.end()) return it->second;
  }
  auto plan = std::make_shared<const Plan<T>>(n);
  std::lock_guard lock(guard);
  if (plans.size() >= 32) plans.clear();
  return plans.emplace(n, plan).first->second;
}

}  // namespace

template <class T>
void fft_lines(std::complex<T>* data, int64_t outer, int64_t n, int64_t inner, bool forward, T scale) {
  using C = std::complex<T>;
  if (outer * n * inner == 0) return;
  auto plan = plan_for<T>(n);
  parallel_for(0, outer * inner, std::max<int64_t>(1, 8192 / n), [&](int64_t begin, int64_t end) {
    std::vector<C> in(static_cast<size_t>(n)), out(static_cast<size_t>(n)),
        work(static_cast<size_t>(plan->scratch()));
    for (int64_t line = begin; line < end; ++line) {
      C* at = data + line / inner * n * inner + line % inner;
      for (int64_t k = 0; k < n; ++k)
        in[static_cast<size_t>(k)] = forward ? at[k * inner] : std::conj(at[k * inner]);
      plan->run(in.data(), 1, out.data(), work.data());
      for (int64_t k = 0; k < n; ++k) {
        const C v = out[static_cast<size_t>(k)] * scale;
        at[k * inner] = forward ? v : std::conj(v);
      }
    }
  });
}
template void fft_lines(std::complex<float>*, int64_t, int64_t, int64_t, bool, float);
template void fft_lines(std::complex<double>*, int64_t, int64_t, int64_t, bool, double);

}  // namespace tern::kernels
