// The transforms' rules and kernels, and PyTorch's functions over them.
#include <cmath>
#include <complex>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/kernels/fft.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/fft.args.h"
#include "tern/ops/formulas.h"

namespace tern {
namespace {

// ---- kernels ----

double factor(const Tensor& t, Ints dims, int64_t normalization, int64_t last) {
  double n = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t d = wrap_dim(dims[i], t.dim());
    n *= static_cast<double>(i + 1 == dims.size() && last >= 0 ? last : t.int_sizes()[d]);
  }
  return normalization == 0 ? 1 : normalization == 1 ? 1 / std::sqrt(n) : 1 / n;
}
void transform(const Tensor& t, Ints dims, bool forward, double scale) {  // t: complex, row-major
  for (size_t i = 0; i < dims.size(); ++i) {
    Rows r = rows_around(t, wrap_dim(dims[i], t.dim()));
    double by = i == 0 ? scale : 1;
    if (t.dtype() == kComplexFloat)
      kernels::fft_lines(static_cast<std::complex<float>*>(t.data()), r.outer, r.size, r.inner, forward,
                         static_cast<float>(by));
    else
      kernels::fft_lines(static_cast<std::complex<double>*>(t.data()), r.outer, r.size, r.inner, forward, by);
  }
}
void check_dims(Ints dims, int64_t ndim) {
  uint64_t seen = 0;
  for (int64_t d : dims) {
    int64_t at = wrap_dim(d, ndim);
    if (seen >> at & 1) fail("FFT dims must be unique");
    seen |= uint64_t{1} << at;
  }
}
SmallVector<int64_t, 6> ints(Span<const SymInt> dims) {
  SmallVector<int64_t, 6> list;
  for (SymInt d : dims) list.push_back(d.guard_int());
  return list;
}
void check_points(SymInt n) {
  if (n.is_int() && n.as_int() < 1) failf("Invalid number of data points ({}) specified", n.as_int());
}

}  // namespace

Shapes shape__fft_c2c(const args::_fft_c2c& a) {
  if (!a.self.is_complex()) fail("_fft_c2c: expected a complex tensor");
  SmallVector<int64_t, 6> dims = ints(a.dim);
  check_dims(dims, a.self.dim());
  return {Shape(Dims(a.self.sizes()), a.self.dtype())};
}
void kernel__fft_c2c(const args::_fft_c2c& a, Out out) {
  SmallVector<int64_t, 6> dims = ints(a.dim);
  copy_elements(a.self, out[0]);
  transform(out[0], dims, a.forward, factor(a.self, dims, a.normalization, -1));
}
Shapes shape__fft_r2c(const args::_fft_r2c& a) {
  if (a.self.dtype() != kFloat && a.self.dtype() != kDouble)
    failf("_fft_r2c: expected a tensor of float or double, got {}", script_name(a.self.dtype()));
  check_dims(a.dim, a.self.dim());
  if (a.dim.size() == 0) fail("_fft_r2c: dim is empty; it names the dimensions to transform");
  Dims sizes(a.self.sizes());
  int64_t last = wrap_dim(a.dim[a.dim.size() - 1], a.self.dim());
  if (a.onesided) sizes[last] = floor_div(sizes[last], 2) + 1;
  return {Shape(sizes, to_complex(a.self.dtype()))};
}
void kernel__fft_r2c(const args::_fft_r2c& a, Out out) {
  Tensor whole = a.onesided ? make_tensor(a.self.sizes(), out[0].dtype()) : out[0];
  copy_elements(a.self, whole);
  transform(whole, a.dim, true, factor(a.self, a.dim, a.normalization, -1));
  if (a.onesided) copy_elements(whole.as_view(Dims(out[0].sizes()), Dims(whole.strides())), out[0]);
}
Shapes shape__fft_c2r(const args::_fft_c2r& a) {
  if (!a.self.is_complex()) fail("_fft_c2r: expected a complex tensor");
  check_dims(a.dim, a.self.dim());
  if (a.dim.size() == 0) fail("_fft_c2r: dim is empty; it names the dimensions to transform");
  check_points(a.last_dim_size);
  Dims sizes(a.self.sizes());
  sizes[wrap_dim(a.dim[a.dim.size() - 1], a.self.dim())] = a.last_dim_size;
  return {Shape(sizes, to_real(a.self.dtype()))};
}
void kernel__fft_c2r(const args::_fft_c2r& a, Out out) {
  int64_t n = a.last_dim_size.as_int(), last = wrap_dim(a.dim[a.dim.size() - 1], a.self.dim());
  if (out[0].int_numel() == 0) return;
  Tensor half = make_tensor(a.self.sizes(), a.self.dtype()),
         whole = make_tensor(out[0].sizes(), a.self.dtype());
  copy_elements(a.self, half);
  transform(half, Ints(a.dim.span().first(a.dim.size() - 1)), false, 1);
  // The other half of each line is the conjugate, mirrored; zero and the middle are real.
  Rows from = rows_around(half, last), to = rows_around(whole, last);
  auto mirror = [&](auto zero) {
    using C = decltype(zero);
    const C* x = static_cast<const C*>(half.data());
    C* y = static_cast<C*>(whole.data());
    for (int64_t o = 0; o < to.outer; ++o)
      for (int64_t k = 0; k < n; ++k)
        for (int64_t i = 0; i < to.inner; ++i) {
          int64_t source = k <= n / 2 ? k : n - k;
          C v = source < from.size ? x[(o * from.size + source) * from.inner + i] : C{};
          if (k == 0 || 2 * k == n) v = C(v.real());
          y[(o * n + k) * to.inner + i] = k <= n / 2 ? v : std::conj(v);
        }
  };
  if (whole.dtype() == kComplexFloat)
    mirror(std::complex<float>{});
  else
    mirror(std::complex<double>{});
  transform(whole, Ints(last), false, factor(a.self, a.dim, a.normalization, n));
  copy_elements(whole, out[0]);
}

Tensor fft_r2c_backward(const Tensor& grad, Ints dim, int64_t normalization, bool onesided,
                        SymInt last_size) {
  SmallVector<SymInt, 6> dims;
  for (int64_t d : dim) dims.push_back(d);
  Span<const SymInt> list(dims.data(), dims.size());
  if (!onesided) return real(_fft_c2c(grad, list, normalization, false));
  int64_t last = wrap_dim(dim[dim.size() - 1], grad.dim());
  Dims rest(grad.sizes());
  rest[last] = last_size - grad.size(last);
  Tensor whole = cat({grad, zeros(rest, grad.dtype(), {}, grad.device())}, last);
  return real(_fft_c2c(whole, list, normalization, false));
}
Tensor fft_c2r_backward(const Tensor& grad, Ints dim, int64_t normalization) {
  Tensor g = _fft_r2c(grad, dim, normalization, true);
  int64_t last = wrap_dim(dim[dim.size() - 1], grad.dim());
  SymInt twice = grad.size(last) - g.size(last);
  if (surely_le(twice, 0)) return g;
  // What the mirrored half repeats counts twice.
  std::vector<Tensor> parts{narrow(g, last, 0, 1), narrow(g, last, 1, twice) * 2};
  parts.push_back(narrow(g, last, twice + 1, g.size(last) - twice - 1));
  return cat(parts, last);
}

// ---- the functions ----

namespace {

int64_t norm_mode(std::optional<std::string_view> norm, bool forward) {
  if (!norm || *norm == "backward") return forward ? 0 : 2;
  if (*norm == "forward") return forward ? 2 : 0;
  if (*norm == "ortho") return 1;
  failf("Invalid normalization mode: \"{}\"", *norm);
}
Tensor promoted(const Tensor& t, bool complex) {
  DType d = t.dtype();
  if (!is_floating(d) && !is_complex(d)) d = default_dtype();
  if (d == kBFloat16 || is_float8(d)) failf("Unsupported dtype {}", script_name(d));
  if (complex) d = to_complex(d);
  if (to_real(d) != kFloat && to_real(d) != kDouble) failf("Unsupported dtype {}", script_name(d));
  return to(t, d);
}
// Cut or padded with zeros to these sizes.
Tensor resized(Tensor x, const std::vector<int64_t>& dims, Span<const SymInt> sizes) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (sizes[i].is_int() && sizes[i].as_int() == -1) continue;
    check_points(sizes[i]);
    SymInt n = x.size(dims[i]);
    if (n == sizes[i]) continue;
    if (n > sizes[i]) {
      x = slice(x, dims[i], SymInt(0), sizes[i]);
    } else {
      Dims pad(static_cast<size_t>(2 * x.dim()), SymInt(0));
      pad[static_cast<size_t>(2 * (x.dim() - 1 - dims[i]) + 1)] = sizes[i] - n;
      x = constant_pad_nd(x, pad);
    }
  }
  return x;
}
Tensor resized(const Tensor& x, int64_t dim, SymInt size) {
  return resized(x, {dim}, Span<const SymInt>(&size, 1));
}
int64_t one_dim(const Tensor& self, int64_t dim) {
  if (self.dim() == 0) failf(ErrorKind::index, "Dimension specified as {} but tensor has no dimensions", dim);
  return wrap_dim(dim, self.dim());
}
void check_real(const char* op, const Tensor& t) {
  if (t.is_complex()) failf("{} expects a real input tensor, but got {}", op, script_name(t.dtype()));
}

Tensor c2c_one(const Tensor& self, std::optional<SymInt> n, int64_t dim, std::optional<std::string_view> norm,
               bool forward) {
  int64_t d = one_dim(self, dim);
  Tensor x = promoted(self, false);
  if (n) x = resized(x, d, *n);
  check_points(x.size(d));
  SymInt at = d;
  if (x.is_complex()) return _fft_c2c(x, Span<const SymInt>(&at, 1), norm_mode(norm, forward), forward);
  Tensor y = _fft_r2c(x, Ints(d), norm_mode(norm, forward), false);
  return forward ? y : conj(y);
}
Tensor r2c_one(const char* op, const Tensor& self, std::optional<SymInt> n, int64_t dim,
               std::optional<std::string_view> norm, bool forward) {
  check_real(op, self);
  int64_t d = one_dim(self, dim);
  Tensor x = promoted(self, false);
  if (n) x = resized(x, d, *n);
  check_points(x.size(d));
  Tensor y = _fft_r2c(x, Ints(d), norm_mode(norm, forward), true);
  return forward ? y : conj(y);
}
Tensor c2r_one(const Tensor& self, std::optional<SymInt> n, int64_t dim, std::optional<std::string_view> norm,
               bool forward) {
  int64_t d = one_dim(self, dim);
  Tensor x = promoted(self, true);
  SymInt size = n.value_or((x.size(d) - 1) * 2);
  check_points(size);
  if (n) x = resized(x, d, floor_div(size, 2) + 1);
  return _fft_c2r(forward ? clone(conj(x)) : x, Ints(d), norm_mode(norm, forward), size);
}

struct Many {
  std::vector<int64_t> dims;
  Dims sizes;
};
Many over(const Tensor& self, std::optional<Span<const SymInt>> s, Ints dim) {
  Many m;
  if (dim.has_value()) {
    for (int64_t d : dim) m.dims.push_back(wrap_dim(d, self.dim()));
    check_dims(dim, self.dim());
  }
  if (s) {
    if (dim.has_value() && dim.size() != s->size())
      fail("When given, dim and shape arguments must have the same length");
    int64_t n = static_cast<int64_t>(s->size());
    if (n > self.dim())
      failf("Got shape with {} values but input tensor only has {} dimensions.", n, self.dim());
    if (!dim.has_value())
      for (int64_t d = self.dim() - n; d < self.dim(); ++d) m.dims.push_back(d);
    for (size_t i = 0; i < s->size(); ++i)
      m.sizes.push_back((*s)[i].is_int() && (*s)[i].as_int() == -1 ? self.size(m.dims[i]) : (*s)[i]);
  } else {
    if (!dim.has_value())
      for (int64_t d = 0; d < self.dim(); ++d) m.dims.push_back(d);
    for (int64_t d : m.dims) m.sizes.push_back(self.size(d));
  }
  for (SymInt n : m.sizes) check_points(n);
  return m;
}
// For results that are real: the last size says how long they are.
SymInt over_real(const char* op, const Tensor& self, std::optional<Span<const SymInt>> s, Many& m) {
  if (m.dims.empty()) failf("{} must transform at least one axis", op);
  SymInt last = s && !((*s)[s->size() - 1].is_int() && (*s)[s->size() - 1].as_int() == -1)
                    ? (*s)[s->size() - 1]
                    : (self.size(m.dims.back()) - 1) * 2;
  check_points(last);
  m.sizes.back() = floor_div(last, 2) + 1;
  return last;
}
Dims syms(const std::vector<int64_t>& dims) {
  Dims list;
  for (int64_t d : dims) list.push_back(d);
  return list;
}
Tensor c2c_many(const Tensor& self, std::optional<Span<const SymInt>> s, Ints dim,
                std::optional<std::string_view> norm, bool forward) {
  Many m = over(self, s, dim);
  Tensor x = resized(promoted(self, true), m.dims, m.sizes);
  if (m.dims.empty()) return clone(x);
  return _fft_c2c(x, syms(m.dims), norm_mode(norm, forward), forward);
}

}  // namespace

Tensor body_fft_fft(const args::fft_fft& a) { return c2c_one(a.self, a.n, a.dim, a.norm, true); }
Tensor body_fft_ifft(const args::fft_ifft& a) { return c2c_one(a.self, a.n, a.dim, a.norm, false); }
Tensor body_fft_rfft(const args::fft_rfft& a) { return r2c_one("rfft", a.self, a.n, a.dim, a.norm, true); }
Tensor body_fft_ihfft(const args::fft_ihfft& a) {
  return r2c_one("ihfft", a.self, a.n, a.dim, a.norm, false);
}
Tensor body_fft_irfft(const args::fft_irfft& a) { return c2r_one(a.self, a.n, a.dim, a.norm, false); }
Tensor body_fft_hfft(const args::fft_hfft& a) { return c2r_one(a.self, a.n, a.dim, a.norm, true); }
Tensor body_fft_fftn(const args::fft_fftn& a) { return c2c_many(a.self, a.s, a.dim, a.norm, true); }
Tensor body_fft_ifftn(const args::fft_ifftn& a) { return c2c_many(a.self, a.s, a.dim, a.norm, false); }
Tensor body_fft_rfftn(const args::fft_rfftn& a) {
  check_real("rfftn", a.self);
  Many m = over(a.self, a.s, a.dim);
  if (m.dims.empty()) fail("rfftn must transform at least one axis");
  return _fft_r2c(resized(promoted(a.self, false), m.dims, m.sizes), m.dims, norm_mode(a.norm, true), true);
}
Tensor body_fft_irfftn(const args::fft_irfftn& a) {
  Many m = over(a.self, a.s, a.dim);
  SymInt last = over_real("irfftn", a.self, a.s, m);
  return _fft_c2r(resized(promoted(a.self, true), m.dims, m.sizes), m.dims, norm_mode(a.norm, false), last);
}
Tensor body_fft_hfftn(const args::fft_hfftn& a) {
  Many m = over(a.self, a.s, a.dim);
  SymInt last = over_real("hfftn", a.self, a.s, m);
  Tensor x = resized(promoted(a.self, true), m.dims, m.sizes);
  int64_t mode = norm_mode(a.norm, true), end = m.dims.back();
  m.dims.pop_back();
  if (!m.dims.empty()) x = _fft_c2c(x, syms(m.dims), mode, true);
  return _fft_c2r(clone(conj(x)), Ints(end), mode, last);
}
Tensor body_fft_ihfftn(const args::fft_ihfftn& a) {
  check_real("ihfftn", a.self);
  Many m = over(a.self, a.s, a.dim);
  if (m.dims.empty()) fail("ihfftn must transform at least one axis");
  Tensor x = resized(promoted(a.self, false), m.dims, m.sizes);
  int64_t mode = norm_mode(a.norm, false), end = m.dims.back();
  x = conj(_fft_r2c(x, Ints(end), mode, true));
  m.dims.pop_back();
  return m.dims.empty() ? x : _fft_c2c(x, syms(m.dims), mode, false);
}

Tensor body_fft_fftfreq(const args::fft_fftfreq& a) {
  if (a.n < 0) failf("fftfreq: n must not be negative, got {}", a.n);
  DType type = a.dtype.value_or(default_dtype());
  Tensor up = arange(Scalar(0), Scalar((a.n + 1) / 2), Scalar(1), type, a.layout, a.device, a.pin_memory),
         down = arange(Scalar(-(a.n / 2)), Scalar(0), Scalar(1), type, a.layout, a.device, a.pin_memory);
  return cat({up, down}) * (1.0 / (static_cast<double>(a.n) * a.d));
}
Tensor body_fft_rfftfreq(const args::fft_rfftfreq& a) {
  if (a.n < 0) failf("rfftfreq: n must not be negative, got {}", a.n);
  DType type = a.dtype.value_or(default_dtype());
  return arange(Scalar(0), Scalar(a.n / 2 + 1), Scalar(1), type, a.layout, a.device, a.pin_memory) *
         (1.0 / (static_cast<double>(a.n) * a.d));
}

namespace {

Tensor shifted(const Tensor& self, Ints dim, bool back) {
  std::vector<int64_t> dims;
  if (dim.has_value())
    for (int64_t d : dim) dims.push_back(wrap_dim(d, self.dim()));
  else
    for (int64_t d = 0; d < self.dim(); ++d) dims.push_back(d);
  if (dims.empty()) return clone(self);
  Dims by;
  for (int64_t d : dims) by.push_back(floor_div(self.size(d) + (back ? 1 : 0), 2));
  return roll(self, by, dims);
}

}  // namespace

Tensor body_fft_fftshift(const args::fft_fftshift& a) { return shifted(a.self, a.dim, false); }
Tensor body_fft_ifftshift(const args::fft_ifftshift& a) { return shifted(a.self, a.dim, true); }

}  // namespace tern
