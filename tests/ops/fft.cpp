// Fourier transforms of every kind of length, their inverses and gradients.
#include <complex>
#include <numbers>

#include "tern/base/error.h"
#include "tests/support/gradcheck.h"

namespace tern::testing {
namespace {

using In = const std::vector<Tensor>&;

// The definition, summed term by term.
Tensor slow(const Tensor& x) {
  int64_t n = x.int_numel();
  Tensor y = make_tensor(x.sizes(), kComplexDouble);
  for (int64_t k = 0; k < n; ++k) {
    std::complex<double> sum = 0;
    for (int64_t j = 0; j < n; ++j)
      sum += x.data_ptr<double>()[j] *
             std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n));
    y.data_ptr<std::complex<double>>()[k] = sum;
  }
  return y;
}
double gap(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST(Fft, equals_the_definition_for_small_primes_powers_and_large_primes) {
  for (int64_t n : {1, 2, 3, 4, 5, 7, 8, 12, 13, 30, 49, 61, 64, 67, 97, 134, 211, 360}) {
    Tensor x = sample({n});
    Tensor y = fft_fft(x);
    EXPECT_LT(gap(y, slow(x)), 1e-11) << n;
    EXPECT_LT(gap(real(fft_ifft(y)), x), 1e-13) << n;
    EXPECT_LT(gap(fft_irfft(fft_rfft(x), SymInt(n)), x), 1e-13) << n;
  }
}

TEST(Fft, several_dims_and_norms) {
  Tensor x = sample({3, 4, 5});
  EXPECT_LT(gap(fft_fftn(x), fft_fft(fft_fft(fft_fft(x, {}, 0), {}, 1), {}, 2)), 1e-12);
  EXPECT_LT(gap(fft_irfftn(fft_rfftn(x, {}, {}, "ortho"), x.sizes(), {}, "ortho"), x), 1e-13);
  EXPECT_EQ(fft_fftfreq(5).to_vector<float>(), (std::vector<float>{0, 0.2f, 0.4f, -0.4f, -0.2f}));
  EXPECT_EQ(fft_fftshift(arange(5)).to_vector<int64_t>(), (std::vector<int64_t>{3, 4, 0, 1, 2}));
}

TEST(Fft, refuses_what_is_wrong) {
  EXPECT_THROW(fft_fft(zeros({3}), SymInt(0)), Error);
  EXPECT_THROW(fft_fft(zeros({3}), {}, 0, "none"), Error);
  EXPECT_THROW(fft_rfft(zeros({3}, kComplexFloat)), Error);
}

TEST(Fft, short_time_transforms_invert) {
  Tensor x = sample({2, 40}), w = hann_window(8, true, kDouble);
  Tensor y = stft(x, 8, 2, {}, w, true, "reflect", false, {}, true);
  EXPECT_EQ(str(y.sizes()), "[2, 5, 21]");
  EXPECT_LT(gap(istft(y, 8, 2, {}, w), x), 1e-12);
}

TEST(Fft, gradients) {
  Tensor x = variable({3, 5});
  std::vector<std::pair<const char*, Differentiable>> cases = {
      {"rfft", [](In t) { return view_as_real(fft_rfft(t[0])); }},
      {"fft", [](In t) { return view_as_real(fft_fft(t[0] * t[0], {}, 0)); }},
      {"irfft", [](In t) { return fft_irfft(t[0], SymInt(7)); }},
      {"irfft even", [](In t) { return fft_irfft(t[0], SymInt(8), 1, "ortho"); }},
      {"hfft", [](In t) { return fft_hfft(t[0]); }},
  };
  for (auto& [name, f] : cases) {
    check_gradient(name, f, {x});
    check_second_gradient(name, f, {x});
  }
}

}  // namespace
}  // namespace tern::testing
