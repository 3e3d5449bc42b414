// Windows, and the short-time transforms that use them.
#include <cmath>
#include <numbers>

#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/fft.args.h"
#include "tern/ops/formulas.h"

namespace tern {
namespace {

// f(0, 1, ... as a tensor, length) for what is no border case; the last element of a periodic window goes.
template <class A, class F>
Tensor window(const char* name, const A& a, F&& f) {
  DType type = a.dtype.value_or(default_dtype());
  if (!is_floating(type)) failf("{} expects floating point dtypes, got: {}", name, script_name(type));
  if (a.layout.value_or(Layout::strided) != Layout::strided)
    failf("{} is not implemented for sparse types", name);
  if (a.window_length < 0)
    failf("{} requires non-negative window_length, got window_length={}", name, a.window_length);
  if (a.window_length == 0) return zeros({0}, type, a.layout, a.device, a.pin_memory);
  if (a.window_length == 1) return ones({1}, type, a.layout, a.device, a.pin_memory);
  if (a.window_length == INT64_MAX) fail("upper bound and lower bound inconsistent with step sign");
  int64_t n = a.window_length + (a.periodic ? 1 : 0);
  // Half types compute in float.
  DType work = compute_dtype(type);
  Tensor w = f(arange(Scalar(0), Scalar(n), Scalar(1), work, a.layout, a.device, a.pin_memory), n);
  if (a.periodic) w = slice(w, 0, SymInt(0), SymInt(n - 1));
  return to(w, type);
}

}  // namespace

Tensor body_hamming_window_periodic_alpha_beta(const args::hamming_window_periodic_alpha_beta& a) {
  return window("hamming_window", a, [&](const Tensor& i, int64_t n) {
    return cos(i * (std::numbers::pi * 2 / static_cast<double>(n - 1))) * -a.beta + a.alpha;
  });
}
Tensor body_hann_window_periodic(const args::hann_window_periodic& a) {
  return window("hann_window", a, [&](const Tensor& i, int64_t n) {
    return cos(i * (std::numbers::pi * 2 / static_cast<double>(n - 1))) * -0.5 + 0.5;
  });
}
Tensor body_blackman_window_periodic(const args::blackman_window_periodic& a) {
  return window("blackman_window", a, [&](const Tensor& i, int64_t n) {
    Tensor x = i * (std::numbers::pi / static_cast<double>(n - 1));
    return cos(x * 4) * 0.08 - cos(x * 2) * 0.5 + 0.42;
  });
}
Tensor body_bartlett_window_periodic(const args::bartlett_window_periodic& a) {
  return window("bartlett_window", a, [&](const Tensor& i, int64_t n) {
    Tensor x = i * (2.0 / static_cast<double>(n - 1));
    int64_t rising = ((n - 1) >> 1) + 1;
    return cat({narrow(x, 0, 0, rising), narrow(x, 0, rising, n - rising) * -1 + 2});
  });
}
Tensor body_kaiser_window_beta(const args::kaiser_window_beta& a) {
  return window("kaiser_window", a, [&](const Tensor& i, int64_t n) {
    double middle = static_cast<double>(n - 1) / 2;
    Tensor x = (i - middle) / middle;
    Tensor top = i0(sqrt(clamp(1 - x * x, Scalar(0))) * a.beta);
    return top / i0(scalar_tensor(a.beta, top.dtype()));
  });
}

// ---- short-time transforms ----

namespace {

struct Setup {
  int64_t hop, length;
  Tensor window;  // of n_fft elements
};
Setup setup(const char* op, const Tensor& self, int64_t n_fft, std::optional<int64_t> hop_length,
            std::optional<int64_t> win_length, const Tensor& window, DType type) {
  Setup s{hop_length.value_or(n_fft / 4), win_length.value_or(n_fft), window};
  if (s.hop <= 0)
    failf("{}({}[{}]): expected hop_length > 0, but got hop_length={}", op, script_name(self.dtype()),
          str(self.sizes()), s.hop);
  if (s.length <= 0 || s.length > n_fft)
    failf(
        "{}({}{}, n_fft={}, hop_length={}, win_length={}): expected 0 < win_length <= n_fft, but got "
        "win_length={}",
        op, script_name(self.dtype()), str(self.sizes()), n_fft, s.hop, s.length, s.length);
  if (window.defined() && (window.dim() != 1 || !(window.size(0) == s.length)))
    failf("{}: expected a 1D window tensor of size equal to win_length={}, but got window with size {}", op,
          s.length, str(window.sizes()));
  if (s.length < n_fft) {
    int64_t left = (n_fft - s.length) / 2;
    Tensor w = window.defined() ? window : ones({SymInt(s.length)}, type, {}, self.device());
    s.window = constant_pad_nd(w, {SymInt(left), SymInt(n_fft - s.length - left)});
  }
  return s;
}

Tensor short_time(const Tensor& self, int64_t n_fft, std::optional<int64_t> hop_length,
                  std::optional<int64_t> win_length, const Tensor& window, bool center,
                  std::string_view pad_mode, bool normalized, std::optional<bool> onesided,
                  std::optional<bool> return_complex, std::optional<bool> align) {
  if (!self.is_floating_point() && !self.is_complex())
    failf("stft({}{}): expected a tensor of floating point or complex values", script_name(self.dtype()),
          str(self.sizes()));
  if (self.dim() > 2 || self.dim() < 1) fail("stft: expected a 1D or 2D tensor");
  if (align && center) fail("stft: align_to_window should only be set when center = false.");
  bool complex_in = self.is_complex() || (window.defined() && window.is_complex());
  if (!return_complex && !complex_in)
    fail(
        "stft requires the return_complex parameter be given for real inputs, and will further require that "
        "return_complex=True in a future PyTorch release.");
  Tensor x = self.dim() == 1 ? unsqueeze(self, 0) : self;
  if (center) {
    Tensor padded = pad(unsqueeze(x, 1), {SymInt(n_fft / 2), SymInt(n_fft / 2)}, pad_mode);
    x = squeeze(padded, 1);
  }
  SymInt length = x.size(1);
  if (n_fft <= 0 || !(length >= n_fft))
    failf("stft({}{}, n_fft={}): expected 0 < n_fft < {}, but got n_fft={}", script_name(self.dtype()),
          str(self.sizes()), n_fft, length.str(), n_fft);
  Setup s = setup("stft", self, n_fft, hop_length, win_length, window, to_real(x.dtype()));
  bool half = onesided.value_or(!complex_in);
  if (complex_in && half) fail("Cannot have onesided output if window or input is complex");
  Tensor frames = unfold(x, -1, n_fft, s.hop);
  if (s.window.defined()) frames = frames * s.window;
  int64_t mode = normalized ? 1 : 0;
  Tensor out;
  if (frames.is_complex()) {
    SymInt last = 2;
    out = _fft_c2c(frames, Span<const SymInt>(&last, 1), mode, true);
  } else {
    out = _fft_r2c(frames, Ints(2), mode, half);
  }
  out = transpose(out, 1, 2);
  if (self.dim() == 1) out = squeeze(out, 0);
  return return_complex.value_or(true) ? out : view_as_real(out);
}

}  // namespace

Tensor body_stft(const args::stft& a) {
  return short_time(a.self, a.n_fft, a.hop_length, a.win_length, a.window, false, "constant", a.normalized,
                    a.onesided, a.return_complex, a.align_to_window);
}
Tensor body_stft_center(const args::stft_center& a) {
  return short_time(a.self, a.n_fft, a.hop_length, a.win_length, a.window, a.center, a.pad_mode, a.normalized,
                    a.onesided, a.return_complex, a.align_to_window);
}

Tensor body_istft(const args::istft& a) {
  Tensor x = a.self;
  if (!x.is_complex())
    fail(
        "istft requires a complex-valued input tensor matching the output from stft with "
        "return_complex=True.");
  if (x.dim() < 2 || x.dim() > 3) failf("istft: expected a tensor of 2 or 3 dimensions, but got {}", x.dim());
  if (x.numel().is_int() && x.numel().as_int() == 0) fail("istft: input tensor cannot be empty.");
  Setup s = setup("istft", x, a.n_fft, a.hop_length, a.win_length, a.window, to_real(x.dtype()));
  bool half = a.onesided.value_or(!(x.size(-2) == a.n_fft));
  if (a.return_complex && half) fail("cannot have onesided output if window or input is complex");
  if (half ? !(x.size(-2) == a.n_fft / 2 + 1) : !(x.size(-2) == a.n_fft))
    failf(
        "istft: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft {}when "
        "onesided={}, "
        "but got {}",
        half ? "/ 2 + 1 " : "", half ? "True" : "False", x.size(-2).str());
  bool single = x.dim() == 2;
  if (single) x = unsqueeze(x, 0);
  SymInt frames = x.size(2), whole = SymInt(a.n_fft) + SymInt(s.hop) * (frames - 1);
  Tensor window = s.window.defined() ? s.window : ones({SymInt(a.n_fft)}, to_real(x.dtype()), {}, x.device());
  x = transpose(x, 1, 2);
  std::optional<std::string_view> norm;
  if (a.normalized) norm = "ortho";
  if (a.return_complex)
    x = fft_ifft(x, SymInt(a.n_fft), 2, norm);
  else
    x = fft_irfft(half ? x : slice(x, -1, SymInt(0), SymInt(a.n_fft / 2 + 1)), SymInt(a.n_fft), 2, norm);
  Tensor y =
      unfold_backward(x * reshape(window, {1, 1, SymInt(a.n_fft)}), {x.size(0), whole}, 1, a.n_fft, s.hop);
  Tensor squares = expand(pow(window, 2), {1, frames, SymInt(a.n_fft)});
  Tensor envelope = unfold_backward(squares, {1, whole}, 1, a.n_fft, s.hop);
  SymInt start = a.center ? a.n_fft / 2 : 0;
  SymInt end = a.length ? start + SymInt(*a.length) : a.center ? whole - SymInt(a.n_fft / 2) : whole;
  SymInt stop = sym_min(end, whole);
  y = slice(y, 1, start, stop);
  envelope = slice(envelope, 1, start, stop);
  if (!envelope.is_fake() && envelope.int_numel() && min(abs(envelope)).item().to_double() < 1e-11)
    fail("istft: window overlap add min is too small: the window and the hop length leave samples uncovered");
  y = y / envelope;
  if (single) y = squeeze(y, 0);
  if (end > whole) y = constant_pad_nd(y, {SymInt(0), end - whole});
  return y;
}

}  // namespace tern
