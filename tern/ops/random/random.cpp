// Distributions over whole tensors; the order in which elements draw is PyTorch's: that of memory.
#include <cmath>
#include <limits>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/kernels/random.h"
#include "tern/ops.h"
#include "tern/ops/checks.h"
#include "tern/ops/elements.h"
#include "tern/ops/random.args.h"
#include "tern/ops/view/geometry.h"

namespace tern {
namespace {

kernels::Mt19937& engine(const Generator* g) { return generator_or_default(g).engine(); }

// Runs f(data, n, contiguous) over the elements in memory order; what has holes is drawn apart and copied in.
template <class F>
void draw(const Tensor& t, F&& f) {
  int64_t n = t.int_numel();
  if (n == 0) return;
  // Without gaps, in whatever order of dims: memory is filled as it lies.
  int64_t span = 1;
  for (int64_t d = 0; d < t.dim(); ++d) span += (t.int_sizes()[d] - 1) * t.int_strides()[d];
  Shape dense = like(t);
  const bool whole = t.is_contiguous() || (span == n && !dense.strides.empty());
  if (whole) return f(t.data(), n, t.is_contiguous());
  Tensor fresh = make_tensor(t.sizes(), t.dtype());
  f(fresh.data(), n, false);
  copy_elements(fresh, t);
}

void check_float(const char* op, const Tensor& t) {
  if (!t.is_floating_point())
    failf(ErrorKind::not_supported, "\"{}\" not implemented for '{}'", op, script_name(t.dtype()));
}
// What the integer-valued distributions fill: not complex numbers, nor the unsigned types beyond a byte.
void check_drawn(const char* op, const Tensor& t) {
  const DType d = t.dtype();
  if (is_complex(d) || (is_integral(d) && !is_signed(d) && d != kByte)) not_implemented_for(op, d);
}
void check_continuous(const char* which, const Tensor& t, std::string_view type) {
  if (!t.is_floating_point())
    failf(
        "{} distribution is a continuous probability distribution. dtype must be a floating point but you "
        "specified {}",
        which, type);
}
// Two real numbers for each complex one.
Tensor parts(const Tensor& t) {
  NoGrad no_grad;
  return view_as_real(t);
}
void fill_uniform(const Tensor& t, double from, double to, const Generator* g) {
  if (t.is_complex()) {
    if (t.int_numel() > 0) fill_uniform(parts(t), from, to, g);
    return;
  }
  check_float("check_uniform_bounds", t);
  if (!(from <= to))
    failf("uniform_ expects to return a [from, to) range, but found from={} > to={}", from, to);
  draw(t, [&](void* p, int64_t n, bool) { kernels::uniform(engine(g), t.dtype(), p, n, from, to); });
}
void fill_normal(const Tensor& t, double mean, double std, const Generator* g) {
  if (!(std >= 0)) failf("normal expects std >= 0.0, but found std {}", std);
  // PyTorch gives the mean to both parts.
  if (t.is_complex()) return fill_normal(parts(t), mean, std / std::sqrt(2.), g);
  if (t.int_numel() == 0) return;
  check_float("normal_kernel_cpu", t);
  draw(t, [&](void* p, int64_t n, bool c) { kernels::normal(engine(g), t.dtype(), p, n, mean, std, c); });
}
void fill_exponential(const Tensor& t, double lambd, const Generator* g) {
  if (!(lambd > 0)) failf("exponential_ expects lambda > 0.0, but found lambda={}", lambd);
  if (t.int_numel() == 0) return;
  check_continuous("Exponential", t, script_name(t.dtype()));
  draw(t, [&](void* p, int64_t n, bool) { kernels::exponential(engine(g), t.dtype(), p, n, lambd); });
}
void fill_bernoulli(const Tensor& t, double p, const Generator* g) {
  if (!(p >= 0 && p <= 1)) failf("bernoulli_ expects p to be in [0, 1], but got p={}", p);
  if (t.int_numel() == 0) return;
  check_drawn("bernoulli_scalar_cpu_", t);
  draw(t, [&](void* to, int64_t n, bool) { kernels::bernoulli(engine(g), t.dtype(), to, n, p); });
}
void fill_bernoulli(const Tensor& t, const Tensor& p, const Generator* g) {
  if (!p.is_floating_point())
    failf("expected probabilities tensor to have floating type, got {}", script_name(p.dtype()));
  if (t.int_numel() == 0) return;
  Tensor chances = row_major(expand_view(p, t.sizes())),
         fresh = t.is_contiguous() ? t : make_tensor(t.sizes(), t.dtype());
  kernels::bernoulli(engine(g), t.dtype(), fresh.data(), t.int_numel(), p.dtype(), chances.data());
  if (!fresh.is_same(t)) copy_elements(fresh, t);
}
// The largest integer up to which every integer has this type: where random_(from) ends.
int64_t last_integer(DType d) {
  switch (d) {
    case kBool:
      return 1;
    case kHalf:
      return int64_t{1} << 11;
    case kBFloat16:
      return int64_t{1} << 8;
    case kFloat:
      return int64_t{1} << 24;
    case kDouble:
      return int64_t{1} << 53;
    case kByte:
      return 255;
    case kChar:
      return 127;
    case kShort:
      return 32767;
    case DType::uint16:
      return 65535;
    case kInt:
      return INT32_MAX;
    case DType::uint32:
      return UINT32_MAX;
    default:
      return INT64_MAX;
  }
}
// An integer as a floating-point type holds it.
int64_t held(DType d, int64_t v) {
  if (d == kDouble) return static_cast<int64_t>(static_cast<double>(v));
  float f = static_cast<float>(v);
  if (d == kHalf) f = static_cast<float>(Half(f));
  if (d == kBFloat16) f = static_cast<float>(BFloat16(f));
  return std::isinf(f) ? v : static_cast<int64_t>(f);
}
// Bounds that a floating-point type cannot hold move inwards by one step of that type, as PyTorch moves them.
int64_t spacing(DType d, int64_t v) {
  int digits = d == kDouble ? 53 : d == kFloat ? 24 : d == kHalf ? 11 : 8, bits = 0;
  for (uint64_t rest = static_cast<uint64_t>(v < 0 ? -v : v); rest >>= 1;) ++bits;
  return int64_t{1} << (bits - digits + 1);
}
int64_t lower_bound(DType d, int64_t from) {
  int64_t next = held(d, from + 1);
  return next < from ? next + spacing(d, from + 1) : from;
}
int64_t upper_bound(DType d, int64_t to) {
  int64_t last = held(d, to - 1);
  return last >= to ? last - spacing(d, to - 1) : to;
}
void fill_integers(const Tensor& t, int64_t from, std::optional<int64_t> to, const Generator* g) {
  if (is_complex(t.dtype()))
    failf("{} handles only integral, floating-point and boolean types",
          to ? "check_random_bounds" : "random_from_to_impl");
  if (is_integral(t.dtype(), true)) {
    const int64_t last = last_integer(t.dtype()), first = is_signed(t.dtype()) ? -last - 1 : 0;
    if ((to || from != INT64_MIN) && (from < first || from > last))
      failf("from is out of bounds for {}", cpp_name(t.dtype()));
    // PyTorch takes the last uint64 for -1.
    if (to ? *to > from && *to - 1 > last : from != INT64_MIN && t.dtype() == DType::uint64)
      failf("to - 1 is out of bounds for {}", cpp_name(t.dtype()));
  }
  if (to) {
    if (from >= *to)
      failf("random_ expects 'from' to be less than 'to', but got from={} >= to={}", from, *to);
    if (t.is_floating_point()) {
      from = lower_bound(t.dtype(), from);
      to = upper_bound(t.dtype(), *to);
      if (from >= *to)
        failf(
            "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from={} >= "
            "to={}",
            from, *to);
    }
    if (t.dtype() == kHalf) {
      const double last = largest_number(kHalf);
      if (std::abs(static_cast<double>(from)) > last) fail("from is out of bounds for c10::Half");
      if (static_cast<double>(*to - 1) > last) fail("to - 1 is out of bounds for c10::Half");
    }
    uint64_t range = static_cast<uint64_t>(*to) - static_cast<uint64_t>(from);
    draw(t,
         [&](void* p, int64_t n, bool) { kernels::random_from_to(engine(g), t.dtype(), p, n, from, range); });
  } else if (from != INT64_MIN) {
    int64_t last = last_integer(t.dtype());
    if (from > last)
      failf("random_ expects 'from' to be at most {} for {}, but got from={}", last, script_name(t.dtype()),
            from);
    uint64_t range = static_cast<uint64_t>(last) - static_cast<uint64_t>(from) + 1;
    draw(t,
         [&](void* p, int64_t n, bool) { kernels::random_from_to(engine(g), t.dtype(), p, n, from, range); });
  } else {
    draw(t, [&](void* p, int64_t n, bool) { kernels::random_full_64_bits(engine(g), t.dtype(), p, n); });
  }
}
Shapes sized(Span<const SymInt> size, std::optional<DType> dtype, DType natural) {
  return {Shape(size, dtype.value_or(natural))};
}
template <class A>
Shapes like_shape(const A& a) {
  return {
      Shape(Dims(a.self.sizes()), a.dtype.value_or(a.self.dtype()), strides_like(a.self, a.memory_format))};
}
template <class A, class F>
Tensor write(const A& a, F&& f) {
  begin_write(a.self);
  if (!a.self.is_fake()) f(a.self);
  return a.self;
}

}  // namespace

Shapes shape_rand(const args::rand& a) { return sized(a.size, a.dtype, default_dtype()); }
void kernel_rand(const args::rand&, Out out) { fill_uniform(out[0], 0, 1, nullptr); }
Shapes shape_rand_generator(const args::rand_generator& a) { return sized(a.size, a.dtype, default_dtype()); }
void kernel_rand_generator(const args::rand_generator& a, Out out) {
  fill_uniform(out[0], 0, 1, a.generator);
}
Shapes shape_randn(const args::randn& a) { return sized(a.size, a.dtype, default_dtype()); }
void kernel_randn(const args::randn&, Out out) { fill_normal(out[0], 0, 1, nullptr); }
Shapes shape_randn_generator(const args::randn_generator& a) {
  return sized(a.size, a.dtype, default_dtype());
}
void kernel_randn_generator(const args::randn_generator& a, Out out) {
  fill_normal(out[0], 0, 1, a.generator);
}
Shapes shape_randint(const args::randint& a) { return sized(a.size, a.dtype, kLong); }
void kernel_randint(const args::randint& a, Out out) {
  fill_integers(out[0], 0, a.high.guard_int(), nullptr);
}
Shapes shape_randint_low(const args::randint_low& a) { return sized(a.size, a.dtype, kLong); }
void kernel_randint_low(const args::randint_low& a, Out out) {
  fill_integers(out[0], a.low.guard_int(), a.high.guard_int(), nullptr);
}
Shapes shape_randint_generator(const args::randint_generator& a) { return sized(a.size, a.dtype, kLong); }
void kernel_randint_generator(const args::randint_generator& a, Out out) {
  fill_integers(out[0], 0, a.high.guard_int(), a.generator);
}
Shapes shape_randint_low_generator(const args::randint_low_generator& a) {
  return sized(a.size, a.dtype, kLong);
}
void kernel_randint_low_generator(const args::randint_low_generator& a, Out out) {
  fill_integers(out[0], a.low.guard_int(), a.high.guard_int(), a.generator);
}

namespace {
Shapes permutation_shape(SymInt n, std::optional<DType> dtype) {
  if (n.is_int() && n.as_int() < 0) failf("n must be non-negative, got {}", n.as_int());
  return {Shape(Dims{n}, dtype.value_or(kLong))};
}
void permute_integers(const Tensor& t, const Generator* g) {
  const int64_t n = t.int_numel();
  if (is_integral(t.dtype()) && n > 0) check_fits(Scalar(n - 1), t.dtype());
  if ((t.dtype() == kHalf || t.dtype() == kFloat) && n > last_integer(t.dtype()) + 1)
    failf("n cannot be greater than {} for {} type.", last_integer(t.dtype()) + 1, script_name(t.dtype()));
  kernels::randperm(engine(g), t.dtype(), t.data(), n);
}
}  // namespace
Shapes shape_randperm(const args::randperm& a) { return permutation_shape(a.n, a.dtype); }
void kernel_randperm(const args::randperm&, Out out) { permute_integers(out[0], nullptr); }
Shapes shape_randperm_generator(const args::randperm_generator& a) { return permutation_shape(a.n, a.dtype); }
void kernel_randperm_generator(const args::randperm_generator& a, Out out) {
  permute_integers(out[0], a.generator);
}

Shapes shape_rand_like(const args::rand_like& a) { return like_shape(a); }
void kernel_rand_like(const args::rand_like&, Out out) { fill_uniform(out[0], 0, 1, nullptr); }
Shapes shape_randn_like(const args::randn_like& a) { return like_shape(a); }
void kernel_randn_like(const args::randn_like&, Out out) { fill_normal(out[0], 0, 1, nullptr); }
Shapes shape_randint_like(const args::randint_like& a) { return like_shape(a); }
void kernel_randint_like(const args::randint_like& a, Out out) {
  fill_integers(out[0], 0, a.high.guard_int(), nullptr);
}
Shapes shape_randint_like_low_dtype(const args::randint_like_low_dtype& a) { return like_shape(a); }
void kernel_randint_like_low_dtype(const args::randint_like_low_dtype& a, Out out) {
  fill_integers(out[0], a.low.guard_int(), a.high.guard_int(), nullptr);
}

Shapes shape_rand_like_generator(const args::rand_like_generator& a) { return like_shape(a); }
void kernel_rand_like_generator(const args::rand_like_generator& a, Out out) {
  fill_uniform(out[0], 0, 1, a.generator);
}
Shapes shape_randn_like_generator(const args::randn_like_generator& a) { return like_shape(a); }
void kernel_randn_like_generator(const args::randn_like_generator& a, Out out) {
  fill_normal(out[0], 0, 1, a.generator);
}
Shapes shape_randint_like_generator(const args::randint_like_generator& a) { return like_shape(a); }
void kernel_randint_like_generator(const args::randint_like_generator& a, Out out) {
  fill_integers(out[0], 0, a.high.guard_int(), a.generator);
}
Shapes shape_randint_like_low_generator_dtype(const args::randint_like_low_generator_dtype& a) {
  return like_shape(a);
}
void kernel_randint_like_low_generator_dtype(const args::randint_like_low_generator_dtype& a, Out out) {
  fill_integers(out[0], a.low.guard_int(), a.high.guard_int(), a.generator);
}
Shapes shape_randint_like_Tensor(const args::randint_like_Tensor& a) { return like_shape(a); }
void kernel_randint_like_Tensor(const args::randint_like_Tensor& a, Out out) {
  fill_integers(out[0], 0, a.high.item<int64_t>(), nullptr);
}
Shapes shape_randint_like_Tensor_generator(const args::randint_like_Tensor_generator& a) {
  return like_shape(a);
}
void kernel_randint_like_Tensor_generator(const args::randint_like_Tensor_generator& a, Out out) {
  fill_integers(out[0], 0, a.high.item<int64_t>(), a.generator);
}

// ---- in place, and the same as new values ----

Tensor kernel_uniform_(const args::uniform_& a) {
  return write(a, [&](const Tensor& t) { fill_uniform(t, a.from, a.to, a.generator); });
}
Shapes shape_uniform(const args::uniform& a) { return {like(a.self)}; }
void kernel_uniform(const args::uniform& a, Out out) { fill_uniform(out[0], a.from, a.to, a.generator); }
Tensor kernel_normal_(const args::normal_& a) {
  return write(a, [&](const Tensor& t) { fill_normal(t, a.mean, a.std, a.generator); });
}
Shapes shape_normal_float_float(const args::normal_float_float& a) {
  return {Shape(a.size, a.dtype.value_or(default_dtype()))};
}
void kernel_normal_float_float(const args::normal_float_float& a, Out out) {
  fill_normal(out[0], a.mean, a.std, a.generator);
}
Shapes shape_normal_functional(const args::normal_functional& a) { return {like(a.self)}; }
void kernel_normal_functional(const args::normal_functional& a, Out out) {
  fill_normal(out[0], a.mean, a.std, a.generator);
}

namespace {
void check_deviations(const Tensor& std) {
  if (std.is_complex()) fail("normal expects standard deviation to be non-complex");
  if (std.int_numel() == 0) return;
  for (double v : std.to_vector<double>())
    if (!(v >= 0)) fail("normal expects all elements of std >= 0.0");
}
// out = out·factor + shift, rounded after each step as the two operators would.
void scale_and_shift(const Tensor& out, const Tensor& factor, const Tensor& shift) {
  if (factor.defined()) {
    Tensor list[] = {out, factor};
    run_loop("mul", list, out);
  }
  Tensor list[] = {out, shift};
  run_loop("add", list, out);
}
}  // namespace
Shapes shape_normal_Tensor_float(const args::normal_Tensor_float& a) {
  return {Shape(a.mean.sizes(), a.mean.dtype())};
}
void kernel_normal_Tensor_float(const args::normal_Tensor_float& a, Out out) {
  fill_normal(out[0], 0, a.std, a.generator);
  scale_and_shift(out[0], {}, a.mean);
}
Shapes shape_normal_float_Tensor(const args::normal_float_Tensor& a) {
  return {Shape(a.std.sizes(), a.std.dtype())};
}
void kernel_normal_float_Tensor(const args::normal_float_Tensor& a, Out out) {
  check_deviations(a.std);
  fill_normal(out[0], 0, 1, a.generator);
  scale_and_shift(out[0], a.std, wrap_number(a.mean));
}
Shapes shape_normal_Tensor_Tensor(const args::normal_Tensor_Tensor& a) {
  return {Shape(broadcast_sizes(a.mean.sizes(), a.std.sizes()), a.mean.dtype())};
}
void kernel_normal_Tensor_Tensor(const args::normal_Tensor_Tensor& a, Out out) {
  check_deviations(a.std);
  fill_normal(out[0], 0, 1, a.generator);
  scale_and_shift(out[0], a.std, a.mean);
}
Tensor kernel_exponential_(const args::exponential_& a) {
  return write(a, [&](const Tensor& t) { fill_exponential(t, a.lambd, a.generator); });
}
Shapes shape_exponential(const args::exponential& a) { return {like(a.self)}; }
void kernel_exponential(const args::exponential& a, Out out) {
  fill_exponential(out[0], a.lambd, a.generator);
}
namespace {
void fill_log_normal(const Tensor& t, double mean, double std, const Generator* g) {
  if (!(std > 0)) failf("log_normal_ expects std > 0.0, but found std={}", std);
  if (t.int_numel() == 0) return;
  if (!t.is_floating_point()) not_implemented_for("log_normal_cpu", t.dtype());
  draw(t, [&](void* p, int64_t n, bool) { kernels::log_normal(engine(g), t.dtype(), p, n, mean, std); });
}
void fill_cauchy(const Tensor& t, double median, double sigma, const Generator* g) {
  if (!(sigma > 0)) failf("cauchy_ expects sigma > 0.0, but found sigma={}", sigma);
  check_continuous("Cauchy", t, cpp_name(t.dtype()));
  draw(t, [&](void* p, int64_t n, bool) { kernels::cauchy(engine(g), t.dtype(), p, n, median, sigma); });
}
void fill_geometric(const Tensor& t, double p, const Generator* g) {
  if (!(p > 0 && p < 1)) failf("geometric_ expects p to be in (0, 1), but got p={}", p);
  if (t.int_numel() == 0) return;
  if (t.dtype() == kBool) not_implemented_for("geometric_cpu", t.dtype());
  check_drawn("geometric_cpu", t);
  draw(t, [&](void* to, int64_t n, bool) { kernels::geometric(engine(g), t.dtype(), to, n, p); });
}
void fill_random(const Tensor& t, const Generator* g) {
  if (t.int_numel() == 0) return;
  check_drawn("random_kernel_cpu", t);
  draw(t, [&](void* p, int64_t n, bool) { kernels::random(engine(g), t.dtype(), p, n); });
}
}  // namespace

Tensor kernel_log_normal_(const args::log_normal_& a) {
  return write(a, [&](const Tensor& t) { fill_log_normal(t, a.mean, a.std, a.generator); });
}
Shapes shape_log_normal(const args::log_normal& a) { return {like(a.self)}; }
void kernel_log_normal(const args::log_normal& a, Out out) {
  fill_log_normal(out[0], a.mean, a.std, a.generator);
}
Tensor kernel_cauchy_(const args::cauchy_& a) {
  return write(a, [&](const Tensor& t) { fill_cauchy(t, a.median, a.sigma, a.generator); });
}
Shapes shape_cauchy(const args::cauchy& a) { return {like(a.self)}; }
void kernel_cauchy(const args::cauchy& a, Out out) { fill_cauchy(out[0], a.median, a.sigma, a.generator); }
Tensor kernel_geometric_(const args::geometric_& a) {
  return write(a, [&](const Tensor& t) { fill_geometric(t, a.p, a.generator); });
}
Shapes shape_geometric(const args::geometric& a) { return {like(a.self)}; }
void kernel_geometric(const args::geometric& a, Out out) { fill_geometric(out[0], a.p, a.generator); }
Shapes shape_random_from(const args::random_from& a) { return {like(a.self)}; }
void kernel_random_from(const args::random_from& a, Out out) {
  fill_integers(out[0], a.from, a.to, a.generator);
}
Shapes shape_random_to(const args::random_to& a) { return {like(a.self)}; }
void kernel_random_to(const args::random_to& a, Out out) { fill_integers(out[0], 0, a.to, a.generator); }
Shapes shape_random(const args::random& a) { return {like(a.self)}; }
void kernel_random(const args::random& a, Out out) { fill_random(out[0], a.generator); }
Tensor kernel_random__from(const args::random__from& a) {
  return write(a, [&](const Tensor& t) { fill_integers(t, a.from, a.to, a.generator); });
}
Tensor kernel_random__to(const args::random__to& a) {
  return write(a, [&](const Tensor& t) { fill_integers(t, 0, a.to, a.generator); });
}
Tensor kernel_random_(const args::random_& a) {
  return write(a, [&](const Tensor& t) { fill_random(t, a.generator); });
}
Tensor kernel_bernoulli__float(const args::bernoulli__float& a) {
  return write(a, [&](const Tensor& t) { fill_bernoulli(t, a.p, a.generator); });
}
Tensor kernel_bernoulli__Tensor(const args::bernoulli__Tensor& a) {
  return write(a, [&](const Tensor& t) { fill_bernoulli(t, a.p, a.generator); });
}
void kernel_bernoulli(const args::bernoulli& a, Out out) { fill_bernoulli(out[0], a.self, a.generator); }
void kernel_bernoulli_p(const args::bernoulli_p& a, Out out) { fill_bernoulli(out[0], a.p, a.generator); }
void kernel_bernoulli_Tensor(const args::bernoulli_Tensor& a, Out out) {
  fill_bernoulli(out[0], a.p, a.generator);
}

Shapes shape_multinomial(const args::multinomial& a) {
  if (a.self.dim() < 1 || a.self.dim() > 2) fail("prob_dist must be 1 or 2 dim");
  if (!a.self.is_floating_point())
    failf("multinomial only supports floating-point dtypes for input, got: {}", script_name(a.self.dtype()));
  if (a.num_samples <= 0) fail("cannot sample n_sample <= 0 samples");
  SymInt categories = a.self.sizes().back();
  if (categories.is_int() && categories.as_int() > (1 << 24)) fail("number of categories cannot exceed 2^24");
  if (!a.replacement && !surely_le(a.num_samples, categories) && a.num_samples > categories)
    fail("cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  Dims sizes;
  if (a.self.dim() == 2) sizes.push_back(a.self.sizes()[0]);
  sizes.push_back(a.num_samples);
  return {Shape(std::move(sizes), kLong)};
}
void kernel_multinomial(const args::multinomial& a, Out out) {
  Tensor p = row_major(a.self);
  int64_t categories = p.int_sizes()[p.dim() - 1], rows = p.dim() == 2 ? p.int_sizes()[0] : 1;
  if (out[0].int_numel() == 0) return;
  if (!a.replacement || a.num_samples == 1) {
    // The largest of p / exponential; drawn in the order of the input's memory.
    NoGrad no_grad;
    for (double v : a.self.to_vector<double>())
      if (!(v >= 0) || std::isinf(v)) fail("probability tensor contains either `inf`, `nan` or element < 0");
    Tensor total = sum(a.self, -1), rank = empty_like(a.self);
    for (double v : total.to_vector<double>())
      if (v == 0) fail("invalid multinomial distribution (sum of probabilities <= 0)");
    fill_exponential(rank, 1, a.generator);
    Tensor list[] = {a.self, rank};
    run_loop("div", list, rank);
    Tensor chosen = a.num_samples == 1 ? argmax(rank, -1, true) : std::get<1>(topk(rank, a.num_samples));
    return copy_elements(chosen, out[0]);
  }
  kernels::multinomial(engine(a.generator), p.dtype(), p.data(), rows, categories, a.num_samples.guard_int(),
                       a.replacement, out[0].data_ptr<int64_t>());
}

// ---- dropout ----

namespace {

void check_p(double p) {
  if (!(p >= 0 && p <= 1)) failf("dropout probability has to be between 0 and 1, but got {}", p);
}
// One draw for every channel: [N, C, 1, 1, ...].
Tensor channel_noise(const Tensor& input) {
  if (input.dim() < 2) fail("Feature dropout requires at least 2 dimensions in the input");
  Dims sizes(static_cast<size_t>(input.dim()), SymInt(1));
  sizes[0] = input.sizes()[0];
  sizes[1] = input.sizes()[1];
  return new_empty(input, sizes);
}
Tensor alpha_noise(const Tensor& input, const Tensor& empty, double p) {
  constexpr double alpha = 1.7580993408473766;
  double a = 1 / std::sqrt((alpha * alpha * p + 1) * (1 - p));
  Tensor noise = bernoulli_(empty, 1 - p);
  Tensor b = (noise - 1) * (alpha * a) + alpha * a * p;
  return input * (noise * a) + b;
}

}  // namespace

Shapes shape_native_dropout(const args::native_dropout& a) {
  if (a.train.value_or(true) && is_integral(a.input.dtype(), true))
    failf("result type {} can't be cast to the desired output type {}", script_name(default_dtype()),
          script_name(a.input.dtype()));
  return {like(a.input), like(a.input, surely_eq(a.input.numel(), 0) ? a.input.dtype() : kBool)};
}
void kernel_native_dropout(const args::native_dropout& a, Out out) {
  if (!a.train.value_or(true)) {
    copy_elements(a.input, out[0]);
    return fill_elements(out[1], true);
  }
  check_p(a.p);
  fill_bernoulli(out[1], 1 - a.p, nullptr);
  Tensor scaled = make_tensor(out[0].sizes(), out[0].strides(), out[0].dtype());
  copy_elements(out[1], scaled);
  double keep = 1 - a.p;
  // The factor as PyTorch's noise has it: one divided in the input's own type.
  float narrow = 1.f / static_cast<float>(keep);
  if (out[0].dtype() == kHalf) narrow = static_cast<float>(Half(narrow));
  if (out[0].dtype() == kBFloat16) narrow = static_cast<float>(BFloat16(narrow));
  Scalar factor = keep == 0                   ? Scalar(0.)
                  : out[0].dtype() == kDouble ? Scalar(1 / keep)
                                              : Scalar(static_cast<double>(narrow));
  Tensor list[] = {a.input, scaled};
  run_loop("mul", list, out[0]);
  Tensor one[] = {out[0], wrap_number(factor)};
  run_loop("mul", one, out[0]);
}
Tensor body_bernoulli(const args::bernoulli& a) {
  Tensor drawn = a.generator ? rand(a.self.sizes(), a.generator, kFloat, {}, a.self.device())
                             : rand(a.self.sizes(), kFloat, {}, a.self.device());
  return _to_copy(lt(drawn, a.self), a.self.dtype());
}
Tensor body_dropout(const args::dropout& a) {
  check_p(a.p);
  if (!a.train || a.p == 0 || surely_eq(a.input.numel(), 0)) return a.input;
  return std::get<0>(native_dropout(a.input, a.p, true));
}
Tensor body_dropout_(const args::dropout_& a) {
  check_p(a.p);
  if (!a.train || a.p == 0 || surely_eq(a.self.numel(), 0)) return a.self;
  if (a.p == 1) return zero_(a.self);
  return mul_(a.self, div_(bernoulli_(empty_like(a.self), 1 - a.p), wrap_number(1 - a.p)));
}
Tensor body_feature_dropout(const args::feature_dropout& a) {
  check_p(a.p);
  if (!a.train || a.p == 0 || surely_eq(a.input.numel(), 0)) return a.input;
  if (a.p == 1) return a.input * zeros({}, a.input.dtype(), {}, a.input.device());
  return a.input * div_(bernoulli_(channel_noise(a.input), 1 - a.p), wrap_number(1 - a.p));
}
Tensor body_alpha_dropout(const args::alpha_dropout& a) {
  check_p(a.p);
  if (!a.train || a.p == 0 || surely_eq(a.input.numel(), 0)) return a.input;
  if (a.p == 1) return a.input * zeros({}, a.input.dtype(), {}, a.input.device());
  return alpha_noise(a.input, empty_like(a.input), a.p);
}
Tensor body_feature_alpha_dropout(const args::feature_alpha_dropout& a) {
  check_p(a.p);
  if (!a.train || a.p == 0 || surely_eq(a.input.numel(), 0)) return a.input;
  if (a.p == 1) return a.input * zeros({}, a.input.dtype(), {}, a.input.device());
  return alpha_noise(a.input, channel_noise(a.input), a.p);
}

}  // namespace tern
