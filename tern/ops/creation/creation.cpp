// Factories: sizes and numbers in, a fresh tensor out.
#include <algorithm>
#include <cmath>
#include <complex>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/io/file.h"
#include "tern/ops.h"
#include "tern/ops/checks.h"
#include "tern/ops/creation.args.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"

namespace tern {
namespace {

void check_strided(std::optional<Layout> layout, const char* op) {
  if (layout.value_or(Layout::strided) != Layout::strided)
    failf(ErrorKind::not_supported, "{}: only strided tensors are supported, not sparse ones", op);
}

Shapes sized(Span<const SymInt> size, DType dtype) { return {Shape(size, dtype)}; }
Shapes sized(Span<const SymInt> size, std::optional<DType> dtype) {
  return sized(size, dtype.value_or(default_dtype()));
}

template <class A>
Shapes like_shape(const A& a) {
  Shape s(a.self.sizes(), a.dtype.value_or(a.self.dtype()));
  s.strides = strides_like(a.self, a.memory_format);
  return {s};
}

}  // namespace

Shapes shape_empty_memory_format(const args::empty_memory_format& a) {
  check_strided(a.layout, "empty");
  if (a.memory_format == MemoryFormat::preserve) fail("empty: unsupported memory format option Preserve");
  Shapes s = sized(a.size, a.dtype);
  s[0].strides = strides_for(a.size, a.memory_format);
  return s;
}
void kernel_empty_memory_format(const args::empty_memory_format&, Out) {}

Shapes shape_empty_strided(const args::empty_strided& a) {
  if (a.size.size() != a.stride.size())
    failf("dimensionality of sizes ({}) must match dimensionality of strides ({})", a.size.size(),
          a.stride.size());
  for (SymInt s : a.stride)
    if (s.is_int() && s.as_int() < 0)
      failf("empty_strided: negative strides are not supported, got {}", str(a.stride));
  return {Shape(Dims(a.size), a.dtype.value_or(default_dtype()), Dims(a.stride))};
}
void kernel_empty_strided(const args::empty_strided&, Out) {}

Shapes shape_empty_permuted(const args::empty_permuted& a) {
  size_t n = a.size.size();
  if (a.physical_layout.size() != n)
    failf(
        "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {} "
        "is not "
        "equal to len(physical_layout) = {}",
        n, a.physical_layout.size());
  Dims strides(n, SymInt(-1));
  SymInt step = 1;
  for (size_t i = n; i-- > 0;) {
    int64_t d = a.physical_layout[i];
    if (d < 0 || d >= static_cast<int64_t>(n))
      failf("Dimension out of range (expected to be between 0 and {}, but got {})", n - 1, d);
    if (strides[d].as_int() != -1) failf("Duplicate dim not allowed");
    strides[d] = step;
    step = step * sym_max(a.size[d], 1);
  }
  return {Shape(Dims(a.size), a.dtype.value_or(default_dtype()), strides)};
}
void kernel_empty_permuted(const args::empty_permuted&, Out) {}

Shapes shape_empty_like(const args::empty_like& a) {
  check_strided(a.layout, "empty_like");
  return like_shape(a);
}
void kernel_empty_like(const args::empty_like&, Out) {}
Tensor body_empty_like(const args::empty_like& a) {
  Dims strides = strides_like(a.self, a.memory_format);
  SmallVector<int64_t, 6> order;
  for (int64_t d = 0; d < a.self.dim(); ++d) order.push_back(d);
  // Open sizes leave their order open, too: rows then.
  bool known = std::all_of(strides.begin(), strides.end(), [](SymInt s) { return s.is_int(); });
  if (known && !strides.empty())
    std::stable_sort(order.begin(), order.end(), [&](int64_t p, int64_t q) {
      return strides[static_cast<size_t>(p)].as_int() > strides[static_cast<size_t>(q)].as_int();
    });
  return empty_permuted(a.self.sizes(), order, a.dtype.value_or(a.self.dtype()), a.layout,
                        a.device.value_or(a.self.device()), a.pin_memory);
}
Shapes shape_new_empty(const args::new_empty& a) { return sized(a.size, a.dtype.value_or(a.self.dtype())); }
void kernel_new_empty(const args::new_empty&, Out) {}
Shapes shape_new_empty_strided(const args::new_empty_strided& a) {
  if (a.size.size() != a.stride.size())
    failf("dimensionality of sizes ({}) must match dimensionality of strides ({})", a.size.size(),
          a.stride.size());
  return {Shape(Dims(a.size), a.dtype.value_or(a.self.dtype()), Dims(a.stride))};
}
void kernel_new_empty_strided(const args::new_empty_strided&, Out) {}

Shapes shape_full(const args::full& a) {
  check_strided(a.layout, "full");
  return sized(a.size, a.dtype.value_or(a.fill_value.dtype()));
}
void kernel_full(const args::full& a, Out out) {
  check_fits(a.fill_value, out[0].dtype());
  fill_elements(out[0], a.fill_value);
}
Shapes shape_zeros(const args::zeros& a) { return sized(a.size, a.dtype); }
void kernel_zeros(const args::zeros&, Out out) { fill_elements(out[0], 0); }
Shapes shape_ones(const args::ones& a) { return sized(a.size, a.dtype); }
void kernel_ones(const args::ones&, Out out) { fill_elements(out[0], 1); }
Shapes shape_full_like(const args::full_like& a) { return like_shape(a); }
void kernel_full_like(const args::full_like& a, Out out) {
  check_fits(a.fill_value, out[0].dtype());
  fill_elements(out[0], a.fill_value);
}
Shapes shape_zeros_like(const args::zeros_like& a) { return like_shape(a); }
void kernel_zeros_like(const args::zeros_like&, Out out) { fill_elements(out[0], 0); }
Shapes shape_ones_like(const args::ones_like& a) { return like_shape(a); }
void kernel_ones_like(const args::ones_like&, Out out) { fill_elements(out[0], 1); }
Shapes shape_new_full(const args::new_full& a) { return sized(a.size, a.dtype.value_or(a.self.dtype())); }
void kernel_new_full(const args::new_full& a, Out out) { fill_elements(out[0], a.fill_value); }
Shapes shape_new_zeros(const args::new_zeros& a) { return sized(a.size, a.dtype.value_or(a.self.dtype())); }
void kernel_new_zeros(const args::new_zeros&, Out out) { fill_elements(out[0], 0); }
Shapes shape_new_ones(const args::new_ones& a) { return sized(a.size, a.dtype.value_or(a.self.dtype())); }
void kernel_new_ones(const args::new_ones&, Out out) { fill_elements(out[0], 1); }
Shapes shape_scalar_tensor(const args::scalar_tensor& a) { return sized({}, a.dtype); }
void kernel_scalar_tensor(const args::scalar_tensor& a, Out out) { fill_elements(out[0], a.s); }

// ---- ranges ----

namespace {

bool all_ints(const args::arange_start_step& a) {
  return a.start.is_int() && a.end.is_int() && a.step.is_int();
}

// How many steps fit: by integers where the result or the numbers are integers, else by doubles as PyTorch
// counts.
SymInt arange_length(const args::arange_start_step& a) {
  if (all_ints(a)) {
    SymInt start = a.start.sym(), end = a.end.sym(), step = a.step.sym();
    if (step == 0) fail("step must be nonzero");
    bool up = step > 0;
    if (up ? end < start : end > start) fail("upper bound and lower bound inconsistent with step sign");
    return floor_div(end - start + step - (up ? 1 : -1), step);
  }
  double start = a.start.to_double(), end = a.end.to_double(), step = a.step.to_double();
  if (step == 0) fail("step must be nonzero");
  if (!std::isfinite(start) || !std::isfinite(end)) failf("unsupported range: {} -> {}", start, end);
  if (step > 0 ? end < start : end > start) fail("upper bound and lower bound inconsistent with step sign");
  if (a.dtype == kLong) {  // the numbers become integers first
    start = std::trunc(start), end = std::trunc(end), step = std::trunc(step);
    if (step == 0) fail(ErrorKind::value, "step must be nonzero");
  }
  double length = std::ceil((end - start) / step);
  if (!(length < 9e18)) failf("invalid size, possible overflow?");
  return static_cast<int64_t>(length);
}

}  // namespace

Shapes shape_arange_start_step(const args::arange_start_step& a) {
  SymInt length = arange_length(a);
  return {Shape(Dims{length}, a.dtype.value_or(all_ints(a) ? kLong : default_dtype()))};
}
void kernel_arange_start_step(const args::arange_start_step& a, Out out) {
  int64_t n = out[0].int_numel();
  by_dtype("arange", out[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = static_cast<T*>(out[0].data());
    if constexpr (std::is_integral_v<T> || std::is_same_v<T, bool>) {
      int64_t start = a.start.to_int(), step = a.step.to_int();
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(start + step * i);
    } else if constexpr (requires { zero.real(); }) {
      fail(ErrorKind::not_supported, "\"arange_cpu\" not implemented for complex numbers");
    } else {
      // Half and bfloat16 round start and step to themselves first, as PyTorch does with its accumulate type.
      double start = a.start.to_double(), step = a.step.to_double();
      if constexpr (std::is_same_v<T, double>)
        for (int64_t i = 0; i < n; ++i) to[i] = start + step * static_cast<double>(i);
      else
        for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(start + step * static_cast<double>(i));
    }
  });
}

Shapes shape_linspace(const args::linspace& a) {
  if (a.steps < 0) fail("number of steps must be non-negative");
  DType natural = a.start.is_complex() || a.end.is_complex() ? to_complex(default_dtype()) : default_dtype();
  return {Shape(Dims{SymInt(a.steps)}, a.dtype.value_or(natural))};
}
void kernel_linspace(const args::linspace& a, Out out) {
  int64_t n = a.steps;
  by_dtype("linspace", out[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = static_cast<T*>(out[0].data());
    // From both ends inwards, so that both are exact. Narrow floats are rounded after each step.
    auto rounded = []<class S>(S v) {
      if constexpr (std::is_same_v<S, float>)
        return static_cast<float>(static_cast<T>(v));
      else
        return v;
    };
    auto fill = [&](auto start, auto end, auto step) {
      for (int64_t i = 0; i < n; ++i) {
        using S = decltype(step);
        auto times = [&](int64_t k) { return rounded(step * rounded(static_cast<S>(k))); };
        auto v = i < n / 2 ? start + times(i) : end - times(n - 1 - i);
        if (n == 1) v = start;
        to[i] = static_cast<T>(v);
      }
    };
    double steps = static_cast<double>(n > 1 ? n - 1 : 1);
    if constexpr (requires { zero.real(); }) {
      T start(a.start.to_complex()), end(a.end.to_complex());
      fill(start, end, (end - start) / static_cast<typename T::value_type>(steps));
    } else if constexpr (std::is_same_v<T, bool>) {
      fail(ErrorKind::not_supported, "\"linspace_cpu\" not implemented for 'Bool'");
    } else if constexpr (std::is_integral_v<T>) {
      double start = static_cast<double>(static_cast<T>(a.start.to_double())),
             end = static_cast<double>(static_cast<T>(a.end.to_double()));
      fill(start, end, (end - start) / steps);
    } else {
      using S = std::conditional_t<std::is_same_v<T, double>, double, float>;
      S start = rounded(static_cast<S>(a.start.to_double())),
        end = rounded(static_cast<S>(a.end.to_double()));
      fill(start, end, rounded(rounded(end - start) / rounded(static_cast<S>(steps))));
    }
  });
}

Shapes shape_logspace(const args::logspace& a) {
  if (a.steps < 0) fail("number of steps must be non-negative");
  return {Shape(Dims{SymInt(a.steps)}, a.dtype.value_or(default_dtype()))};
}
void kernel_logspace(const args::logspace& a, Out out) {
  int64_t n = a.steps;
  by_dtype("logspace", out[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = static_cast<T*>(out[0].data());
    if constexpr (std::is_same_v<T, bool>) {
      failf(ErrorKind::not_supported, "\"logspace_cpu\" not implemented for '{}'",
            script_name(out[0].dtype()));
    } else if constexpr (requires { zero.real(); }) {
      std::complex<double> start = a.start.to_complex(), end = a.end.to_complex(),
                           step = n > 1 ? (end - start) / double(n - 1) : 0;
      for (int64_t i = 0; i < n; ++i)
        to[i] = T(std::pow(std::complex<double>(a.base),
                           i < n / 2 || n == 1 ? start + step * double(i) : end - step * double(n - 1 - i)));
    } else if constexpr (std::is_integral_v<T>) {  // exponents in float, as PyTorch has them
      float start = static_cast<float>(a.start.to_int()), end = static_cast<float>(a.end.to_int()),
            step = n > 1 ? (end - start) / static_cast<float>(n - 1) : 0.f;
      for (int64_t i = 0; i < n; ++i)
        to[i] = static_cast<T>(std::pow(
            a.base, static_cast<double>(i < n / 2 || n == 1 ? start + step * static_cast<float>(i)
                                                            : end - step * static_cast<float>(n - 1 - i))));
    } else {
      double start = a.start.to_double(), end = a.end.to_double(),
             step = n > 1 ? (end - start) / double(n - 1) : 0;
      for (int64_t i = 0; i < n; ++i) {
        double v =
            std::pow(a.base, i < n / 2 || n == 1 ? start + step * double(i) : end - step * double(n - 1 - i));
        if constexpr (std::is_same_v<T, double>)
          to[i] = v;
        else
          to[i] = static_cast<float>(v);
      }
    }
  });
}

// ---- matrices ----

namespace {

Shapes eye_shape(SymInt n, SymInt m, std::optional<DType> dtype) {
  if (n.is_int() && n.as_int() < 0) failf("n must be greater or equal to 0, got {}", n.as_int());
  if (m.is_int() && m.as_int() < 0) failf("m must be greater or equal to 0, got {}", m.as_int());
  return {Shape(Dims{n, m}, dtype.value_or(default_dtype()))};
}
void fill_eye(const Tensor& out) {
  fill_elements(out, 0);
  int64_t n = std::min(out.int_sizes()[0], out.int_sizes()[1]);
  fill_elements(out.as_view({SymInt(n)}, {out.strides()[0] + out.strides()[1]}), 1);
}

// Zeroes what is not kept: columns from (tril) or up to (triu) the diagonal, row by row.
void triangle(const Tensor& self, int64_t diagonal, bool upper, const Tensor& out) {
  if (self.dim() < 2) failf("{}: input tensor must have at least 2 dimensions", upper ? "triu" : "tril");
  copy_elements(self, out);
  int64_t rows = out.int_sizes()[out.dim() - 2], columns = out.int_sizes()[out.dim() - 1];
  int64_t row_stride = out.int_strides()[out.dim() - 2], column_stride = out.int_strides()[out.dim() - 1];
  if (out.int_numel() == 0) return;
  by_element_size(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Walk<1> walk(out.dim() - 2, out.int_sizes());
    walk.operand(0, out.int_strides());
    int64_t matrices = out.int_numel() / (rows * columns);
    for (int64_t m = 0; m < matrices; ++m, walk.next()) {
      T* base = static_cast<T*>(out.data()) + walk.offset(0);
      for (int64_t r = 0; r < rows; ++r) {
        int64_t edge = std::clamp<int64_t>(r + diagonal + (upper ? 0 : 1), 0, columns);
        for (int64_t c = upper ? 0 : edge; c < (upper ? edge : columns); ++c)
          base[r * row_stride + c * column_stride] = T{};
      }
    }
  });
}

// Where in its row the triangle begins (upper) or ends. Offsets may be of any size.
int64_t row_edge(int64_t r, int64_t col, int64_t offset, bool upper) {
  int64_t edge;
  if (__builtin_add_overflow(r, offset, &edge)) return col;
  return edge < 0 ? 0 : edge >= col ? col : edge + (upper ? 0 : 1);
}

Shapes triangle_indices_shape(int64_t row, int64_t col, int64_t offset, bool upper,
                              std::optional<DType> dtype) {
  if (row < 0 || col < 0) failf("row and col must be non-negative, got {} and {}", row, col);
  int64_t n = 0;
  for (int64_t r = 0; r < row; ++r) {
    int64_t edge = row_edge(r, col, offset, upper);
    n += upper ? col - edge : edge;
  }
  return {Shape(Dims{2, SymInt(n)}, dtype.value_or(kLong))};
}
void triangle_indices(int64_t row, int64_t col, int64_t offset, bool upper, const Tensor& out) {
  Tensor indices = make_tensor(out.sizes(), kLong);
  int64_t *rows = indices.data_ptr<int64_t>(), *columns = rows + out.int_sizes()[1];
  for (int64_t r = 0; r < row; ++r) {
    int64_t edge = row_edge(r, col, offset, upper);
    for (int64_t c = upper ? edge : 0; c < (upper ? col : edge); ++c) {
      *rows++ = r;
      *columns++ = c;
    }
  }
  copy_elements(indices, out);
}

}  // namespace

Shapes shape_eye(const args::eye& a) { return eye_shape(a.n, a.n, a.dtype); }
void kernel_eye(const args::eye&, Out out) { fill_eye(out[0]); }
Shapes shape_eye_m(const args::eye_m& a) { return eye_shape(a.n, a.m, a.dtype); }
void kernel_eye_m(const args::eye_m&, Out out) { fill_eye(out[0]); }
Shapes shape_tril(const args::tril& a) { return {Shape(a.self.sizes(), a.self.dtype())}; }
void kernel_tril(const args::tril& a, Out out) { triangle(a.self, a.diagonal.guard_int(), false, out[0]); }
Shapes shape_triu(const args::triu& a) { return {Shape(a.self.sizes(), a.self.dtype())}; }
void kernel_triu(const args::triu& a, Out out) { triangle(a.self, a.diagonal.guard_int(), true, out[0]); }
namespace {

// Which diagonal an element is on, by row and column of the last two dims; then what is kept.
Tensor triangle_of(const Tensor& self, SymInt diagonal, bool upper) {
  if (self.dim() < 2) failf("{}: input tensor must have at least 2 dimensions", upper ? "triu" : "tril");
  Tensor columns = unsqueeze(arange(Scalar(self.size(-1))), -2),
         rows = unsqueeze(arange(Scalar(self.size(-2))), -1);
  Tensor on = sub(columns, rows);
  Tensor kept = upper ? ge(on, Scalar(diagonal)) : le(on, Scalar(diagonal));
  return self.dtype() == kBool ? logical_and(kept, self) : where(kept, self, 0);
}

}  // namespace

Tensor body_tril(const args::tril& a) { return triangle_of(a.self, a.diagonal, false); }
Tensor body_triu(const args::triu& a) { return triangle_of(a.self, a.diagonal, true); }

Shapes shape_tril_indices(const args::tril_indices& a) {
  return triangle_indices_shape(a.row, a.col, a.offset, false, a.dtype);
}
void kernel_tril_indices(const args::tril_indices& a, Out out) {
  triangle_indices(a.row, a.col, a.offset, false, out[0]);
}
Shapes shape_triu_indices(const args::triu_indices& a) {
  return triangle_indices_shape(a.row, a.col, a.offset, true, a.dtype);
}
void kernel_triu_indices(const args::triu_indices& a, Out out) {
  triangle_indices(a.row, a.col, a.offset, true, out[0]);
}

Tensor body_one_hot(const args::one_hot& a) {
  if (a.self.dtype() != kLong)
    failf("one_hot is only applicable to index tensor of type LongTensor, but got {}",
          script_name(a.self.dtype()));
  int64_t classes = a.num_classes;
  if (classes == 0) fail("num_classes should be positive");
  if (!a.self.is_fake() && !(thread_state.active & rung_fake)) {
    if (a.self.int_numel() == 0) {
      if (classes < 0) fail("Can not infer total number of classes from empty tensor.");
    } else {
      Tensor values = row_major(a.self);
      const int64_t* p = values.data_ptr<int64_t>();
      int64_t low = *std::min_element(p, p + values.int_numel()),
              high = *std::max_element(p, p + values.int_numel());
      if (low < 0) fail("Class values must be non-negative.");
      if (classes < 0)
        classes = high + 1;
      else if (high >= classes)
        fail("Class values must be smaller than num_classes.");
    }
  } else if (classes < 0) {
    fail(
        "one_hot: num_classes must be given when the values are not known (under export or on meta tensors)");
  }
  return to(unsqueeze(a.self, -1) == arange(classes, kLong, {}, a.self.device()), kLong);
}

// ---- linspace and logspace between tensors without dimensions ----

namespace {

void check_limits_of(const char* op, const Tensor* start, const Tensor* end) {
  if ((!start || start->dim() == 0) && (!end || end->dim() == 0)) return;
  std::string got;
  if (start) got = fmt::format("start with {} dimension(s)", start->dim());
  if (end) got += fmt::format("{}end with {} dimension(s)", start ? " and " : "", end->dim());
  failf("{} only supports 0-dimensional start and end tensors, but got {}.", op, got);
}
Shapes between(int64_t steps, std::optional<DType> dtype, bool complex) {
  if (steps < 0) fail("number of steps must be non-negative");
  return {
      Shape(Dims{SymInt(steps)}, dtype.value_or(complex ? to_complex(default_dtype()) : default_dtype()))};
}
void fill_between(const Scalar& start, const Scalar& end, const Tensor& out,
                  std::optional<double> base = {}) {
  NoGrad no_grad;
  const int64_t steps = out.int_numel();
  copy_elements(
      base ? logspace(start, end, steps, *base, out.dtype()) : linspace(start, end, steps, out.dtype()), out);
}

}  // namespace

Shapes shape_linspace_Tensor_Tensor(const args::linspace_Tensor_Tensor& a) {
  check_limits_of("linspace", &a.start, &a.end);
  return between(a.steps, a.dtype, a.start.is_complex() || a.end.is_complex());
}
void kernel_linspace_Tensor_Tensor(const args::linspace_Tensor_Tensor& a, Out out) {
  fill_between(a.start.item(), a.end.item(), out[0]);
}
Shapes shape_linspace_Tensor_Scalar(const args::linspace_Tensor_Scalar& a) {
  check_limits_of("linspace", &a.start, nullptr);
  return between(a.steps, a.dtype, a.start.is_complex() || a.end.is_complex());
}
void kernel_linspace_Tensor_Scalar(const args::linspace_Tensor_Scalar& a, Out out) {
  fill_between(a.start.item(), a.end, out[0]);
}
Shapes shape_linspace_Scalar_Tensor(const args::linspace_Scalar_Tensor& a) {
  check_limits_of("linspace", nullptr, &a.end);
  return between(a.steps, a.dtype, a.start.is_complex() || a.end.is_complex());
}
void kernel_linspace_Scalar_Tensor(const args::linspace_Scalar_Tensor& a, Out out) {
  fill_between(a.start, a.end.item(), out[0]);
}
Shapes shape_logspace_Tensor_Tensor(const args::logspace_Tensor_Tensor& a) {
  check_limits_of("logspace", &a.start, &a.end);
  return between(a.steps, a.dtype, a.start.is_complex() || a.end.is_complex());
}
void kernel_logspace_Tensor_Tensor(const args::logspace_Tensor_Tensor& a, Out out) {
  fill_between(a.start.item(), a.end.item(), out[0], a.base);
}
Shapes shape_logspace_Tensor_Scalar(const args::logspace_Tensor_Scalar& a) {
  check_limits_of("logspace", &a.start, nullptr);
  return between(a.steps, a.dtype, a.start.is_complex() || a.end.is_complex());
}
void kernel_logspace_Tensor_Scalar(const args::logspace_Tensor_Scalar& a, Out out) {
  fill_between(a.start.item(), a.end, out[0], a.base);
}
Shapes shape_logspace_Scalar_Tensor(const args::logspace_Scalar_Tensor& a) {
  check_limits_of("logspace", nullptr, &a.end);
  return between(a.steps, a.dtype, a.start.is_complex() || a.end.is_complex());
}
void kernel_logspace_Scalar_Tensor(const args::logspace_Scalar_Tensor& a, Out out) {
  fill_between(a.start, a.end.item(), out[0], a.base);
}

Tensor identity(SymInt n, SymInt m, std::optional<DType> dtype, std::optional<Device> device) {
  // Numbers of rows and columns in the smallest type that holds them.
  DType counts = kLong;
  if (n.is_int() && m.is_int()) {
    int64_t most = std::max(n.as_int(), m.as_int());
    counts = most <= 255 ? kByte : most <= 65535 ? DType::uint16 : most <= INT32_MAX ? kInt : kLong;
  }
  Tensor rows = arange(Scalar(n), counts, {}, device), columns = arange(Scalar(m), counts, {}, device);
  Tensor same = eq(unsqueeze(rows, -1), columns);
  DType wanted = dtype.value_or(default_dtype());
  return wanted == kBool ? same : _to_copy(same, wanted);
}

namespace {

Tensor as_type(const Tensor& t, DType dtype) { return t.dtype() == dtype ? t : _to_copy(t, dtype); }

Tensor minus(const Tensor& a, const Tensor& b) { return sub(a, b); }
Scalar minus(const Scalar& a, const Scalar& b) { return a - b; }
Tensor minus(const Tensor& a, const Scalar& b) { return a - b; }
Tensor minus(const Scalar& a, const Tensor& b) { return rsub(b, a); }
Tensor over(const Tensor& a, double n) { return a / n; }
Scalar over(const Scalar& a, double n) { return a / Scalar(n); }

// From both ends inwards, so that both are exact; the ends are numbers or tensors that hold one.
template <class Start, class End>
Tensor spaced(const Start& start, const End& end, int64_t steps, std::optional<DType> dtype,
              std::optional<Layout> layout, std::optional<Device> device, std::optional<bool> pin_memory) {
  if (steps < 0) fail("number of steps must be non-negative");
  DType result =
      dtype.value_or(start.is_complex() || end.is_complex() ? to_complex(default_dtype()) : default_dtype());
  if (steps == 0) return full(Dims{0}, 0, result, layout, device, pin_memory);
  if (steps == 1) {
    if constexpr (std::is_same_v<Start, Tensor>)
      return copy(empty(Dims{1}, result, layout, device, pin_memory), start);
    else
      return full(Dims{1}, start, result, layout, device, pin_memory);
  }
  Tensor counts = arange(Scalar(0), Scalar(steps), Scalar(1), {}, layout, device, pin_memory);
  DType inside = is_integral(result, true) ? kLong : result == kHalf || result == kBFloat16 ? kFloat : result;
  auto step = over(minus(end, start), static_cast<double>(steps - 1));
  Tensor first = lt(counts, static_cast<double>(steps) / 2);
  Tensor from_start = as_type(counts, inside) * step + start;
  Tensor from_end = minus(end, as_type(rsub(counts, steps - 1), inside) * step);
  return as_type(where(first, from_start, from_end), result);
}

template <class A>
Tensor spaced_linearly(const A& a) {
  auto end_of = [](const auto& e) {
    if constexpr (std::is_same_v<std::decay_t<decltype(e)>, Scalar>)
      return e;
    else
      return as_type(e, e.is_complex() ? kComplexDouble : kDouble);
  };
  return spaced(end_of(a.start), end_of(a.end), a.steps, a.dtype, a.layout, a.device, a.pin_memory);
}

// Exponents in float64; those of an integer result are integers.
template <class A>
Tensor spaced_in_powers(const A& a) {
  if (a.base < 0) fail(ErrorKind::not_supported, "logspace: a negative base has no decomposition");
  DType result = a.dtype.value_or(default_dtype());
  auto end_of = [&](const auto& e) {
    bool whole = is_integral(result, false);
    if constexpr (std::is_same_v<std::decay_t<decltype(e)>, Scalar>)
      return whole && e.is_float() ? Scalar(static_cast<int64_t>(e.to_double())) : e;
    else
      return as_type(whole ? as_type(e, result) : e, e.is_complex() ? kComplexDouble : kDouble);
  };
  auto start = end_of(a.start);
  auto end = end_of(a.end);
  bool complex = start.is_complex() || end.is_complex();
  if (complex) result = to_complex(default_dtype());
  Tensor exponents = spaced(start, end, a.steps, complex ? std::optional<DType>() : kDouble, a.layout,
                            a.device, a.pin_memory);
  return as_type(pow(Scalar(a.base), exponents), result);
}

}  // namespace

Tensor body_linspace(const args::linspace& a) { return spaced_linearly(a); }
Tensor body_linspace_Tensor_Tensor(const args::linspace_Tensor_Tensor& a) { return spaced_linearly(a); }
Tensor body_linspace_Tensor_Scalar(const args::linspace_Tensor_Scalar& a) { return spaced_linearly(a); }
Tensor body_linspace_Scalar_Tensor(const args::linspace_Scalar_Tensor& a) { return spaced_linearly(a); }
Tensor body_logspace(const args::logspace& a) { return spaced_in_powers(a); }
Tensor body_logspace_Tensor_Tensor(const args::logspace_Tensor_Tensor& a) { return spaced_in_powers(a); }
Tensor body_logspace_Tensor_Scalar(const args::logspace_Tensor_Scalar& a) { return spaced_in_powers(a); }
Tensor body_logspace_Scalar_Tensor(const args::logspace_Scalar_Tensor& a) { return spaced_in_powers(a); }

Tensor body_from_file(const args::from_file& a) {
  check_strided(a.layout, "from_file");
  if (a.device && a.device->type != DeviceType::cpu)
    failf(ErrorKind::not_supported, "from_file: a file is mapped to the CPU's memory, not to {}",
          a.device->str());
  const DType dtype = a.dtype.value_or(default_dtype());
  const int64_t count = a.size.value_or(0), width = element_size(dtype);
  if (count < 0) failf("from_file: size must not be negative, but is {}", count);
  if (count > INT64_MAX / width) failf("from_file: {} elements of {} bytes are too many", count, width);
  if (count == 0) return empty({0}, dtype);
  const std::string path(a.filename);
  const auto bytes = static_cast<size_t>(count * width);
  const auto map = a.shared.value_or(false) ? io::MappedFile::open_shared(path, bytes)
                                            : io::MappedFile::open(path, io::MapMode::copy_on_write);
  if (map->size() < bytes)
    failf("file <{}> size <{}> is smaller than the required mapping size <{}>", path, map->size(), bytes);
  return from_memory(const_cast<uint8_t*>(map->bytes().data()), dtype, {SymInt(count)}, map);
}

}  // namespace tern
