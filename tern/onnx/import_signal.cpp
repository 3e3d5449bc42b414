// Import of Fourier transforms and windows. ONNX keeps complex numbers as pairs in a last dimension of two.
#include "tern/onnx/import.h"

namespace tern::onnx {
namespace {

int64_t wrapped(Importing& n, int64_t axis, int64_t rank) {
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank - 2) n.refuse("the axis is not one of the signal's dimensions");
  return axis;
}

bool is_real(Importing& n, const Tensor& x) {
  std::optional<int64_t> last = x.dim() ? x.size(-1).maybe_int() : std::nullopt;
  if (!last || (*last != 1 && *last != 2)) n.refuse("the last dimension of the signal must be 1 or 2");
  return *last == 1;
}
Tensor real_part(Importing& n, const Tensor& x) {
  return n("aten::select.int", {x, int64_t{-1}, int64_t{0}});
}
Tensor as_complex(Importing& n, const Tensor& x) {
  if (!is_real(n, x)) return n("aten::view_as_complex", {n("aten::contiguous", {x})});
  Tensor re = real_part(n, x);
  return n("aten::complex", {re, n("aten::zeros_like", {re})});
}
Tensor pairs(Importing& n, const Tensor& x) { return n("aten::view_as_real", {x}); }

// Cut, or padded with zeros, to this size.
Tensor resized(Importing& n, const Tensor& x, int64_t axis, int64_t size) {
  SymInt now = x.size(axis);
  if (now == size) return x;
  if (now > size) return n("aten::narrow", {x, axis, int64_t{0}, size});
  std::vector<SymInt> pad(static_cast<size_t>(2 * (x.dim() - axis)), SymInt(0));
  pad.back() = SymInt(size) - now;
  return n("aten::constant_pad_nd", {x, list(pad), 0});
}

// ---- DFT, STFT ----

void import_dft(Importing& n) {
  Tensor x = n.in(0);
  int64_t axis = n.opset() < 20 ? n.integer("axis", 1) : -2;
  if (n.opset() >= 20 && n.has(2)) axis = n.constants(2).at(0);
  axis = wrapped(n, axis, x.dim());
  const bool inverse = n.integer("inverse", 0) != 0, onesided = n.integer("onesided", 0) != 0;
  std::optional<int64_t> length;
  if (n.has(1)) length = n.constants(1).at(0);
  if (length && *length < 1) n.refuse("a transform of no points");
  const tern::Value dims = list(std::vector<int64_t>{axis});
  const int64_t by_length = 2;
  if (inverse && onesided) {
    std::optional<int64_t> stored = x.size(axis).maybe_int();
    if (!length && !stored) n.refuse("the number of points must be a constant");
    const int64_t points = length ? *length : 2 * (*stored - 1);
    Tensor half = as_complex(n, resized(n, x, axis, points / 2 + 1));
    Tensor y = n("aten::_fft_c2r", {half, dims, by_length, points});
    return n.out(n("aten::unsqueeze", {y, int64_t{-1}}));
  }
  if (length) x = resized(n, x, axis, *length);
  if (!inverse && is_real(n, x))
    return n.out(pairs(n, n("aten::_fft_r2c", {real_part(n, x), dims, int64_t{0}, onesided})));
  if (onesided) n.refuse("a onesided transform of complex numbers");
  n.out(pairs(n, n("aten::_fft_c2c", {as_complex(n, x), dims, inverse ? by_length : int64_t{0}, !inverse})));
}

void import_stft(Importing& n) {  // (signal, frame_step, window, frame_length)
  Tensor x = n.in(0), window = n.in_or_none(2);
  const int64_t step = n.constants(1).at(0);
  std::optional<int64_t> length;
  if (n.has(3))
    length = n.constants(3).at(0);
  else if (window.defined())
    length = window.size(0).maybe_int();
  if (!length || *length < 1 || step < 1)
    n.refuse("the length and the step of the frames must be positive constants");
  if (x.dim() != 3) n.refuse("the signal must have three dimensions");
  const bool real = is_real(n, x), onesided = n.integer("onesided", 1) != 0;
  Tensor signal = real ? real_part(n, x) : as_complex(n, x);
  Tensor frames = n("aten::unfold", {signal, int64_t{1}, *length, step});
  if (window.defined()) frames = n("aten::mul.Tensor", {frames, window});
  const tern::Value dims = list(std::vector<int64_t>{2});
  if (real) return n.out(pairs(n, n("aten::_fft_r2c", {frames, dims, int64_t{0}, onesided})));
  if (onesided) n.refuse("a onesided transform of complex numbers");
  n.out(pairs(n, n("aten::_fft_c2c", {frames, dims, int64_t{0}, true})));
}

// ---- windows ----

struct Window {
  int64_t length;
  bool periodic;
  DType dtype;
};
Window window_of(Importing& n) {
  DType dtype = dtype_of(static_cast<DataType>(n.integer("output_datatype", 1)));
  if (dtype == DType::undefined) n.refuse("Tern does not have the output_datatype");
  return {n.constants(0).at(0), n.integer("periodic", 1) != 0, dtype};
}
// Whole numbers are rounded from float's window.
void set_window(Importing& n, const Window& w, const char* op, std::vector<tern::Value> shape) {
  std::vector<tern::Value> args = {w.length, w.periodic};
  for (tern::Value& v : shape) args.push_back(std::move(v));
  args.push_back(tern::Value(is_floating(w.dtype) ? w.dtype : kFloat));
  Tensor t = n(op, std::move(args));
  n.out(is_floating(w.dtype) ? t : n("aten::to.dtype", {t, w.dtype}));
}
void import_hann_window(Importing& n) { set_window(n, window_of(n), "aten::hann_window.periodic", {}); }
void import_blackman_window(Importing& n) {
  set_window(n, window_of(n), "aten::blackman_window.periodic", {});
}
void import_hamming_window(Importing& n) {
  set_window(n, window_of(n), "aten::hamming_window.periodic_alpha_beta", {25.0 / 46.0, 21.0 / 46.0});
}

constexpr Import table[] = {
    {"DFT", import_dft},
    {"STFT", import_stft},
    {"HannWindow", import_hann_window},
    {"HammingWindow", import_hamming_window},
    {"BlackmanWindow", import_blackman_window},
};

}  // namespace

Span<const Import> signal_imports() { return table; }

}  // namespace tern::onnx
