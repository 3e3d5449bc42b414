// A reduction is a State, how a run of elements enters it, how two merge, and what comes out. The driver
// below brings elements in runs of the compute type: along the reduced dims (rows), or along the kept dims
// when those are the contiguous ones (columns).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/reduce.cpp"
#include "tern/kernels/targets.h"
#undef HWY_DISABLED_TARGETS  // reductions are bound by memory: AVX-512 buys nothing
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)

#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>

#include "tern/base/format.h"
#include "tern/base/parallel.h"
#include "tern/base/wrapping.h"
#include "tern/kernels/reduce.h"

#include "tern/kernels/loops-inl.h"
#include "tern/kernels/vector_math-inl.h"

#ifndef TERN_KERNELS_REDUCE_ONCE
#define TERN_KERNELS_REDUCE_ONCE
namespace tern::kernels {
namespace {

constexpr int kMaxDims = 64;
constexpr int64_t kRun = 512;  // elements brought at a time
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Dims {  // innermost first
  int n = 0;
  int64_t sizes[kMaxDims], in[kMaxDims], out[kMaxDims];
  int64_t count = 1;

  void add(int64_t size, int64_t in_stride, int64_t out_stride) {
    count *= size;
    if (size == 1) return;
    if (n && in[n - 1] * sizes[n - 1] == in_stride && out[n - 1] * sizes[n - 1] == out_stride) {
      sizes[n - 1] *= size;
      return;
    }
    sizes[n] = size, in[n] = in_stride, out[n] = out_stride;
    ++n;
  }
  int64_t in_offset(int64_t at) const {
    int64_t offset = 0;
    for (int d = 0; d < n; ++d) offset += at % sizes[d] * in[d], at /= sizes[d];
    return offset;
  }
  int64_t out_offset(int64_t at) const {
    int64_t offset = 0;
    for (int d = 0; d < n; ++d) offset += at % sizes[d] * out[d], at /= sizes[d];
    return offset;
  }
};

struct ReducePlan {
  Dims kept, reduced;
  const char* in;
  char *out, *mean;
  int64_t in_width, out_width;
  Cast to_compute = nullptr, from_result = nullptr;
  DType in_type, out_type;
  double p;
  bool mean_of_sum = false, root = false;
};

// Where a run starts; a cursor over the positions of one set of dims.
struct Cursor {
  const Dims& dims;
  int64_t index[kMaxDims];
  int64_t offset = 0;

  Cursor(const Dims& d, int64_t at) : dims(d) {
    for (int k = 0; k < d.n; ++k) {
      index[k] = at % d.sizes[k];
      at /= d.sizes[k];
      offset += index[k] * d.in[k];
    }
  }
  int64_t run() const { return dims.n ? dims.sizes[0] - index[0] : 1; }
  int64_t stride() const { return dims.n ? dims.in[0] : 0; }
  void advance(int64_t by) {
    if (!dims.n) return;
    index[0] += by;
    offset += by * dims.in[0];
    for (int k = 0; k + 1 < dims.n && index[k] == dims.sizes[k]; ++k) {
      offset += dims.in[k + 1] - dims.sizes[k] * dims.in[k];
      index[k] = 0;
      ++index[k + 1];
    }
  }
};

}  // namespace
}  // namespace tern::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace {

constexpr int kLanes = 16;

template <class T>
using Wide =
    std::conditional_t<Complex<T>, std::complex<double>, std::conditional_t<Float<T>, double, int64_t>>;

// Reductions that fold elements one by one into independent lanes.
template <class State, class T, class Fold, class Merge>
HWY_ATTR inline void fold_row(State& state, const T* x, int64_t n, Fold fold, Merge merge, State identity) {
  int64_t i = 0;
  if (n >= 2 * kLanes) {
    State lanes[kLanes];
    for (int l = 0; l < kLanes; ++l) lanes[l] = identity;
    for (; i + kLanes <= n; i += kLanes)
      for (int l = 0; l < kLanes; ++l) lanes[l] = fold(lanes[l], x[i + l]);
    for (int half = kLanes / 2; half; half /= 2)
      for (int l = 0; l < half; ++l) lanes[l] = merge(lanes[l], lanes[l + half]);
    state = merge(state, lanes[0]);
  }
  for (; i < n; ++i) state = fold(state, x[i]);
}

struct Base {
  static constexpr int passes = 1;
  template <class S>
  static void between(S&, int64_t, double) {}
};

// Adds whole blocks of floats: a few in float, which costs no more than rounding, the blocks in double. Gives
// how many elements that were.
HWY_ATTR inline int64_t sum_blocks(double& sum, const float* x, int64_t n) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), block = 32 * lanes;
  int64_t i = 0;
  for (; i + block <= n; i += block) {
    auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + i + lanes), c = hn::LoadU(d, x + i + 2 * lanes),
         e = hn::LoadU(d, x + i + 3 * lanes);
    for (int64_t k = i + 4 * lanes; k < i + block; k += 4 * lanes) {
      a = hn::Add(a, hn::LoadU(d, x + k));
      b = hn::Add(b, hn::LoadU(d, x + k + lanes));
      c = hn::Add(c, hn::LoadU(d, x + k + 2 * lanes));
      e = hn::Add(e, hn::LoadU(d, x + k + 3 * lanes));
    }
    float part[hn::MaxLanes(d)];
    hn::StoreU(hn::Add(hn::Add(a, b), hn::Add(c, e)), d, part);
    double total = 0;
    for (int64_t l = 0; l < lanes; ++l) total += part[l];
    sum += total;
  }
  return i;
}

template <class Element>
struct Sum : Base {
  using T = Element;
  struct State {
    Wide<T> sum{};
  };
  static Wide<T> add(Wide<T> a, Wide<T> b) { return wrapping_sum(a, b); }
  HWY_ATTR static void row(State& s, const T* x, int64_t n, int64_t, int, double) {
    if constexpr (std::same_as<T, float>) {
      const int64_t done = sum_blocks(s.sum, x, n);
      x += done, n -= done;
    }
    fold_row(
        s.sum, x, n, [](Wide<T> a, T v) HWY_ATTR { return wrapping_sum(a, Wide<T>(v)); }, add, Wide<T>());
  }
  HWY_ATTR static void column(State* s, const T* x, int64_t n, int64_t, int, double) {
    for (int64_t i = 0; i < n; ++i) s[i].sum = wrapping_sum(s[i].sum, Wide<T>(x[i]));
  }
  static void merge(State& a, const State& b, int) { a.sum = wrapping_sum(a.sum, b.sum); }
  static Wide<T> result(const State& s, const ReducePlan& plan) {
    if constexpr (!Int<T>) return plan.mean_of_sum ? s.sum / static_cast<double>(plan.reduced.count) : s.sum;
    return s.sum;
  }
};
// Multiplies whole blocks in double; gives how many elements that were.
template <class T>
HWY_ATTR inline int64_t multiply_blocks(double& product, const T* x, int64_t n) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<double> d;
  const hn::Rebind<T, decltype(d)> from;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (n < 4 * lanes) return 0;
  auto load = [=](int64_t at) HWY_ATTR {
    if constexpr (std::same_as<T, float>)
      return hn::PromoteTo(d, hn::LoadU(from, x + at));
    else
      return hn::LoadU(d, x + at);
  };
  auto a = load(0), b = load(lanes), c = load(2 * lanes), e = load(3 * lanes);
  int64_t i = 4 * lanes;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = hn::Mul(a, load(i));
    b = hn::Mul(b, load(i + lanes));
    c = hn::Mul(c, load(i + 2 * lanes));
    e = hn::Mul(e, load(i + 3 * lanes));
  }
  double part[hn::MaxLanes(d)];
  hn::StoreU(hn::Mul(hn::Mul(a, b), hn::Mul(c, e)), d, part);
  for (int64_t l = 0; l < lanes; ++l) product *= part[l];
  return i;
}

template <class Element>
struct Prod : Base {
  using T = Element;
  struct State {
    Wide<T> product{1};
  };
  HWY_ATTR static void row(State& s, const T* x, int64_t n, int64_t, int, double) {
    if constexpr (Float<T>) {
      const int64_t done = multiply_blocks(s.product, x, n);
      x += done, n -= done;
    }
    for (int64_t i = 0; i < n; ++i) multiply(s.product, Wide<T>(x[i]));
  }
  static void column(State* s, const T* x, int64_t n, int64_t, int, double) {
    for (int64_t i = 0; i < n; ++i) multiply(s[i].product, Wide<T>(x[i]));
  }
  static void merge(State& a, const State& b, int) { multiply(a.product, b.product); }
  static Wide<T> result(const State& s, const ReducePlan&) { return s.product; }

 private:
  static void multiply(Wide<T>& a, Wide<T> b) { a = wrapping_product(a, b); }
};

template <class Element, bool Max>
struct Extreme : Base {
  using T = Element;
  static constexpr T worst() {
    if constexpr (Float<T>)
      return static_cast<T>(Max ? -kInfinity : kInfinity);
    else
      return Max ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
  }
  struct State {
    T best = worst();
  };
  HWY_ATTR static HWY_INLINE T better(T a, T b) {
    const T m =
        (Max ? b > a : b < a) ? b : a;  // a NaN that is already there stays: no comparison with it is true
    return b != b ? b : m;
  }
  HWY_ATTR static void row(State& s, const T* x, int64_t n, int64_t, int, double) {
    int64_t i = 0;
    if constexpr (Float<T>) {  // the compiler does not vectorise selection by NaN
      namespace hn = hwy::HWY_NAMESPACE;
      const hn::ScalableTag<T> d;
      const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
      auto a = hn::Set(d, worst()), b = a, c = a, e = a;
      auto unordered = hn::IsNaN(a);  // none so far
      auto join = [](auto p, auto q) HWY_ATTR { return Max ? hn::Max(p, q) : hn::Min(p, q); };
      for (; i + 4 * lanes <= n; i += 4 * lanes) {
        const auto v = hn::LoadU(d, x + i), w = hn::LoadU(d, x + i + lanes),
                   y = hn::LoadU(d, x + i + 2 * lanes), z = hn::LoadU(d, x + i + 3 * lanes);
        a = join(a, v), b = join(b, w), c = join(c, y), e = join(e, z);
        unordered =
            hn::Or(unordered, hn::Or(hn::Or(hn::IsNaN(v), hn::IsNaN(w)), hn::Or(hn::IsNaN(y), hn::IsNaN(z))));
      }
      if (i) {
        const auto all = join(join(a, b), join(c, e));
        const T best = Max ? hn::GetLane(hn::MaxOfLanes(d, all)) : hn::GetLane(hn::MinOfLanes(d, all));
        s.best = better(s.best, hn::AllFalse(d, unordered) ? best : std::numeric_limits<T>::quiet_NaN());
      }
    }
    for (; i < n; ++i) s.best = better(s.best, x[i]);
  }
  HWY_ATTR static void column(State* s, const T* x, int64_t n, int64_t, int, double) {
    for (int64_t i = 0; i < n; ++i) s[i].best = better(s[i].best, x[i]);
  }
  static void merge(State& a, const State& b, int) { a.best = better(a.best, b.best); }
  static T result(const State& s, const ReducePlan&) { return s.best; }
};

template <class Element, bool Max>
struct ArgExtreme : Base {
  using T = Element;
  struct State {
    T best{};
    int64_t at = -1;
  };
  static bool beats(T b, T a) {
    if constexpr (Float<T>) {
      if (a != a) return false;
      if (b != b) return true;
    }
    return Max ? b > a : b < a;
  }
  HWY_ATTR static void row(State& s, const T* x, int64_t n, int64_t at, int, double) {
    if constexpr (Float<T>) {  // the best first, by vectors, then where it stands
      typename Extreme<T, Max>::State top;
      Extreme<T, Max>::row(top, x, n, 0, 0, 0);
      if (s.at >= 0 && !beats(top.best, s.best)) return;
      const T best = top.best;
      int64_t i = 0;
      if (best != best)
        while (x[i] == x[i]) ++i;
      else
        i = first_equal(x, n, best);
      s = {best, at + i};
    } else {
      if (s.at < 0) s = {x[0], at};
      for (int64_t i = 0; i < n; ++i)
        if (beats(x[i], s.best)) s = {x[i], at + i};
    }
  }
  HWY_ATTR static int64_t first_equal(const T* x, int64_t n, T value) {
    namespace hn = hwy::HWY_NAMESPACE;
    const hn::ScalableTag<T> d;
    const auto wanted = hn::Set(d, value);
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    int64_t i = 0;
    while (i + lanes <= n && hn::AllFalse(d, hn::Eq(hn::LoadU(d, x + i), wanted))) i += lanes;
    while (x[i] != value) ++i;
    return i;
  }
  static void column(State* s, const T* x, int64_t n, int64_t at, int, double) {
    for (int64_t i = 0; i < n; ++i)
      if (s[i].at < 0 || beats(x[i], s[i].best)) s[i] = {x[i], at};
  }
  static void merge(State& a, const State& b, int) {
    if (b.at >= 0 && (a.at < 0 || beats(b.best, a.best))) a = b;
  }
  static int64_t result(const State& s, const ReducePlan&) { return s.at; }
};

template <bool Any>
struct AnyAll : Base {
  using T = bool;
  struct State {
    bool value = !Any;
  };
  static bool join(bool a, bool b) { return Any ? a | b : a & b; }
  HWY_ATTR static void row(State& s, const T* x, int64_t n, int64_t, int, double) {
    for (int64_t i = 0; i < n; ++i) s.value = join(s.value, x[i]);
  }
  static void column(State* s, const T* x, int64_t n, int64_t, int, double) {
    for (int64_t i = 0; i < n; ++i) s[i].value = join(s[i].value, x[i]);
  }
  static void merge(State& a, const State& b, int) { a.value = join(a.value, b.value); }
  static bool result(const State& s, const ReducePlan&) { return s.value; }
};

struct CountNonzero : Base {
  using T = bool;
  struct State {
    int64_t n = 0;
  };
  HWY_ATTR static void row(State& s, const T* x, int64_t n, int64_t, int, double) {
    for (int64_t i = 0; i < n; ++i) s.n += x[i];
  }
  static void column(State* s, const T* x, int64_t n, int64_t, int, double) {
    for (int64_t i = 0; i < n; ++i) s[i].n += x[i];
  }
  static void merge(State& a, const State& b, int) { a.n += b.n; }
  static int64_t result(const State& s, const ReducePlan&) { return s.n; }
};

// Two passes: the mean, then the squared distances from it.
template <class Element>
struct Variance : Base {
  using T = Element;
  static constexpr int passes = 2;
  struct State {
    Wide<T> mean{};
    double squares = 0;
  };
  HWY_ATTR static void row(State& s, const T* x, int64_t n, int64_t, int pass, double) {
    if (pass == 0) {
      fold_row(
          s.mean, x, n, [](Wide<T> a, T v) HWY_ATTR { return a + Wide<T>(v); }, Sum<T>::add, Wide<T>());
    } else {
      const Wide<T> mean = s.mean;
      fold_row(
          s.squares, x, n, [mean](double a, T v) HWY_ATTR { return a + square(Wide<T>(v) - mean); }, plus,
          0.0);
    }
  }
  HWY_ATTR static void column(State* s, const T* x, int64_t n, int64_t, int pass, double) {
    if (pass == 0)
      for (int64_t i = 0; i < n; ++i) s[i].mean += Wide<T>(x[i]);
    else
      for (int64_t i = 0; i < n; ++i) s[i].squares += square(Wide<T>(x[i]) - s[i].mean);
  }
  static void between(State& s, int64_t n, double) { s.mean /= static_cast<double>(n); }
  static void merge(State& a, const State& b, int pass) {
    pass == 0 ? void(a.mean += b.mean) : void(a.squares += b.squares);
  }
  static double result(const State& s, const ReducePlan& plan) {
    const double n = static_cast<double>(plan.reduced.count), divisor = std::max(0.0, n - plan.p);
    const double variance = n > 0 ? s.squares / divisor : std::numeric_limits<double>::quiet_NaN();
    return plan.root ? std::sqrt(variance) : variance;
  }

 private:
  static double plus(double a, double b) { return a + b; }
  HWY_ATTR static double square(Wide<T> v) {
    if constexpr (Complex<Wide<T>>)
      return v.real() * v.real() + v.imag() * v.imag();
    else
      return v * v;
  }
};

template <class Element>
struct LogSumExp : Base {
  using T = Element;
  static constexpr int passes = 2;
  struct State {
    double max = -kInfinity, sum = 0;
  };
  HWY_ATTR static void row(State& s, const T* x, int64_t n, int64_t, int pass, double) {
    if constexpr (std::same_as<T, float>) {
      if (pass == 0) {
        typename Extreme<float, true>::State top;
        Extreme<float, true>::row(top, x, n, 0, 0, 0);
        return step(s, top.best, 0);
      }
      const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
      const Vf shift = all(static_cast<float>(s.max));
      int64_t i = 0;
      while (i + lanes <= n) {
        Vf total = hn::Zero(df);
        for (const int64_t end = std::min(n, i + 32 * lanes); i + lanes <= end; i += lanes)
          total = hn::Add(total, exp_any(hn::Sub(hn::LoadU(df, x + i), shift)));
        s.sum += hn::GetLane(hn::SumOfLanes(df, total));
      }
      x += i, n -= i;
    }
    for (int64_t i = 0; i < n; ++i) step(s, x[i], pass);
  }
  static void column(State* s, const T* x, int64_t n, int64_t, int pass, double) {
    for (int64_t i = 0; i < n; ++i) step(s[i], x[i], pass);
  }
  static void between(State& s, int64_t, double) {
    if (std::isinf(s.max)) s.max = 0;
  }
  static void merge(State& a, const State& b, int pass) {
    pass == 0 ? step(a, b.max, 0) : void(a.sum += b.sum);
  }
  static double result(const State& s, const ReducePlan&) { return std::log(s.sum) + s.max; }

 private:
  static void step(State& s, double v, int pass) {
    if (pass == 0)
      s.max = v > s.max || v != v ? v : s.max;
    else
      s.sum += std::exp(v - s.max);
  }
};

// Orders 0, 1, 2, inf and -inf are special; any other is a sum of powers.
struct Norm : Base {
  using T = double;
  struct State {
    double value = 0;
    bool empty = true;
  };
  HWY_ATTR static void row(State& s, const T* x, int64_t n, int64_t, int, double p) {
    double sum = 0;
    auto add = [&](auto size) HWY_ATTR {
      fold_row(
          sum, x, n, [size](double a, double v) HWY_ATTR { return a + size(v); }, plus, 0.0);
    };
    if (p == 2)
      add([](double v) HWY_ATTR { return v * v; });
    else if (p == 1)
      add([](double v) HWY_ATTR { return __builtin_fabs(v); });
    else {
      for (int64_t i = 0; i < n; ++i) column(&s, x + i, 1, 0, 0, p);
      return;
    }
    s.value += sum;
    s.empty = false;
  }
  static void column(State* s, const T* x, int64_t n, int64_t, int, double p) {
    for (int64_t i = 0; i < n; ++i) {
      const double v = std::abs(x[i]);
      const double size = p == 2 ? v * v : p == 0 ? v != 0 : p == 1 || std::isinf(p) ? v : std::pow(v, p);
      merge(s[i], {size, false}, p);
    }
  }
  static void merge(State& a, const State& b, double p) {
    if (b.empty) return;
    const bool takes = a.empty || b.value != b.value || (p > 0 ? b.value > a.value : b.value < a.value);
    a.value = !std::isinf(p) ? a.value + b.value : takes && a.value == a.value ? b.value : a.value;
    a.empty = false;
  }
  static void merge(State& a, const State& b, const ReducePlan& plan) { merge(a, b, plan.p); }
  static double result(const State& s, const ReducePlan& plan) {
    if (plan.p == 2) return std::sqrt(s.value);
    if (plan.p == 0 || plan.p == 1 || std::isinf(plan.p)) return s.value;
    return std::pow(s.value, 1 / plan.p);
  }

 private:
  static double plus(double a, double b) { return a + b; }
};

// Brings n elements from in[offset], in[offset + stride], ... as T.
template <class T>
HWY_ATTR inline const T* bring(const ReducePlan& plan, int64_t offset, int64_t stride, int64_t n, T* buffer) {
  const char* from = plan.in + offset * plan.in_width;
  if (plan.in_type == dtype_of<T> && (stride == 1 || n == 1)) return reinterpret_cast<const T*>(from);
  plan.to_compute(from, stride, buffer, 1, n);
  return buffer;
}

template <class R>
void store(const ReducePlan& plan, int64_t at, const typename R::State& state) {
  const auto value = R::result(state, plan);
  const int64_t offset =
      (plan.kept.n == 1 ? at * plan.kept.out[0] : plan.kept.out_offset(at)) * plan.out_width;
  if constexpr (std::same_as<decltype(value), const double>) {
    if (plan.out_type == kFloat)
      *reinterpret_cast<float*>(plan.out + offset) = static_cast<float>(value);
    else
      plan.from_result(&value, 1, plan.out + offset, 1, 1);
  } else if (plan.out_type == dtype_of<std::remove_cvref_t<decltype(value)>>) {
    *reinterpret_cast<std::remove_cvref_t<decltype(value)>*>(plan.out + offset) = value;
  } else {
    plan.from_result(&value, 1, plan.out + offset, 1, 1);
  }
  if constexpr (requires { state.mean; }) {
    if (plan.mean)
      find_cast(dtype_of<std::remove_const_t<decltype(state.mean)>>, plan.out_type)(&state.mean, 1,
                                                                                    plan.mean + offset, 1, 1);
  }
}

// Elements [begin, end) of the reduced space of one output.
template <class R>
HWY_ATTR void reduce_part(const ReducePlan& plan, int64_t base, int64_t begin, int64_t end, int pass,
                          typename R::State& state) {
  // One run of memory: most reductions are that.
  if (plan.reduced.n == 1 && plan.reduced.in[0] == 1 && plan.in_type == dtype_of<typename R::T>) {
    auto* x = reinterpret_cast<const typename R::T*>(plan.in + base * plan.in_width);
    return R::row(state, x + begin, end - begin, begin, pass, plan.p);
  }
  typename R::T buffer[kRun];
  Cursor cursor(plan.reduced, begin);
  const bool in_place = plan.in_type == dtype_of<typename R::T> && cursor.stride() == 1;
  for (int64_t at = begin; at < end;) {
    int64_t n = std::min(cursor.run(), end - at);
    if (!in_place) n = std::min(n, kRun);
    R::row(state, bring(plan, base + cursor.offset, cursor.stride(), n, buffer), n, at, pass, plan.p);
    cursor.advance(n);
    at += n;
  }
}

template <class R>
void reduce_rows(const ReducePlan& plan) {
  const int64_t outputs = plan.kept.count, n = plan.reduced.count;
  constexpr int64_t kGrain = 32768;
  if (outputs < num_threads() && n > 2 * kGrain && !in_parallel_region()) {
    constexpr int64_t kParts = 64;
    const int64_t parts = std::min<int64_t>(kParts, n / kGrain);
    for (int64_t o = 0; o < outputs; ++o) {
      const int64_t base = plan.kept.in_offset(o);
      typename R::State total;
      for (int pass = 0; pass < R::passes; ++pass) {
        typename R::State partial[kParts];
        for (int64_t k = 0; k < parts; ++k) partial[k] = pass ? total : typename R::State();
        parallel_for(0, parts, 1, [&](int64_t from, int64_t to) {
          for (int64_t k = from; k < to; ++k)
            reduce_part<R>(plan, base, n * k / parts, n * (k + 1) / parts, pass, partial[k]);
        });
        for (int64_t k = 0; k < parts; ++k)
          if constexpr (requires { R::merge(total, partial[k], plan); })
            R::merge(total, partial[k], plan);
          else
            R::merge(total, partial[k], pass);
        if (pass + 1 < R::passes) R::between(total, n, plan.p);
      }
      store<R>(plan, o, total);
    }
    return;
  }
  // Rows as they lie in memory, at even distances: nothing has to be brought.
  const bool plain = plan.in_type == dtype_of<typename R::T> && plan.kept.n <= 1 && n > 0 &&
                     (plan.reduced.n == 0 || (plan.reduced.n == 1 && plan.reduced.in[0] == 1));
  if (plain) {
    const auto* in = reinterpret_cast<const typename R::T*>(plan.in);
    const int64_t step = plan.kept.n ? plan.kept.in[0] : 0;
    return parallel_for(0, outputs, std::max<int64_t>(1, kGrain / n), [&](int64_t from, int64_t to) {
      for (int64_t o = from; o < to; ++o) {
        typename R::State state;
        for (int pass = 0; pass < R::passes; ++pass) {
          if (pass) R::between(state, n, plan.p);
          R::row(state, in + o * step, n, 0, pass, plan.p);
        }
        store<R>(plan, o, state);
      }
    });
  }
  parallel_for(0, outputs, std::max<int64_t>(1, kGrain / std::max<int64_t>(n, 1)),
               [&](int64_t from, int64_t to) {
                 for (int64_t o = from; o < to; ++o) {
                   const int64_t base = plan.kept.in_offset(o);
                   typename R::State state;
                   for (int pass = 0; pass < R::passes; ++pass) {
                     if (pass) R::between(state, n, plan.p);
                     reduce_part<R>(plan, base, 0, n, pass, state);
                   }
                   store<R>(plan, o, state);
                 }
               });
}

// The kept dims are the contiguous ones: a group of neighbouring outputs is reduced together.
template <class R>
HWY_ATTR void reduce_column_group(const ReducePlan& plan, int64_t first, int64_t count) {
  typename R::T buffer[kRun];
  typename R::State states[kRun];
  const int64_t base = plan.kept.in_offset(first), n = plan.reduced.count;
  for (int pass = 0; pass < R::passes; ++pass) {
    if (pass)
      for (int64_t i = 0; i < count; ++i) R::between(states[i], n, plan.p);
    Cursor cursor(plan.reduced, 0);
    int64_t at = 0;
    if constexpr (std::same_as<R, Sum<float>>) {  // eight rows at a time, added in float
      if (plan.in_type == kFloat && plan.kept.in[0] == 1)
        for (; at + 8 <= n; at += 8) {
          const float* x[8];
          for (const float*& row : x) {
            row = bring(plan, base + cursor.offset, 1, count, buffer);
            cursor.advance(1);
          }
          for (int64_t i = 0; i < count; ++i)
            states[i].sum +=
                ((x[0][i] + x[1][i]) + (x[2][i] + x[3][i])) + ((x[4][i] + x[5][i]) + (x[6][i] + x[7][i]));
        }
    }
    for (; at < n; ++at) {
      R::column(states, bring(plan, base + cursor.offset, plan.kept.in[0], count, buffer), count, at, pass,
                plan.p);
      cursor.advance(1);
    }
  }
  for (int64_t i = 0; i < count; ++i) store<R>(plan, first + i, states[i]);
}

template <class R>
void run_reduction(ReducePlan& plan) {
  using Result = std::remove_cvref_t<decltype(R::result(typename R::State(), plan))>;
  if (!plan.to_compute) plan.to_compute = find_cast(plan.in_type, dtype_of<typename R::T>);
  plan.from_result = find_cast(dtype_of<Result>, plan.out_type);
  const Dims &kept = plan.kept, &reduced = plan.reduced;
  const bool columns =
      kept.n && reduced.n && kept.sizes[0] >= 8 && std::abs(kept.in[0]) < std::abs(reduced.in[0]);
  if (!columns) return reduce_rows<R>(plan);
  const int64_t per_row = (kept.sizes[0] + kRun - 1) / kRun, rows = kept.count / kept.sizes[0];
  const int64_t grain = std::max<int64_t>(1, 32768 / (std::min(kept.sizes[0], kRun) * reduced.count + 1));
  parallel_for(0, rows * per_row, grain, [&](int64_t from, int64_t to) {
    for (int64_t g = from; g < to; ++g) {
      const int64_t start = g % per_row * kRun;
      reduce_column_group<R>(plan, g / per_row * kept.sizes[0] + start,
                             std::min(kRun, kept.sizes[0] - start));
    }
  });
}

// Sums and extremes of floats run in place; everything else widens exactly on its way.
template <template <class> class R>
void by_number(ReducePlan& plan, bool integers_as_double) {
  const DType t = compute_dtype(plan.in_type);
  if (t == kFloat) return run_reduction<R<float>>(plan);
  if (is_complex(t)) return run_reduction<R<std::complex<double>>>(plan);
  if (t == kDouble || integers_as_double) return run_reduction<R<double>>(plan);
  if constexpr (!std::same_as<R<float>, Variance<float>>) return run_reduction<R<int64_t>>(plan);
}
void product(ReducePlan& plan) {
  if (is_complex(plan.in_type)) return run_reduction<Prod<std::complex<double>>>(plan);
  if (compute_dtype(plan.in_type) == kFloat) return run_reduction<Prod<float>>(plan);
  is_floating(plan.in_type) ? run_reduction<Prod<double>>(plan) : run_reduction<Prod<int64_t>>(plan);
}
template <template <class, bool> class R, bool Max>
void by_order(ReducePlan& plan) {
  if (is_complex(plan.in_type))
    fail(ErrorKind::not_supported, "complex numbers have no order: max and min are not defined");
  if (compute_dtype(plan.in_type) == kFloat) return run_reduction<R<float, Max>>(plan);
  is_floating(plan.in_type) ? run_reduction<R<double, Max>>(plan) : run_reduction<R<int64_t, Max>>(plan);
}

template <class T>
void magnitude(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    static_cast<double*>(to)[i * to_stride] = std::abs(static_cast<const T*>(from)[i * from_stride]);
}

}  // namespace

void dispatch_reduction(Reduction op, ReducePlan& plan) {
  switch (op) {
    case Reduction::sum:
      return by_number<Sum>(plan, false);
    case Reduction::mean:
      plan.mean_of_sum = true;
      return by_number<Sum>(plan, true);
    case Reduction::prod:
      return product(plan);
    case Reduction::amax:
      return by_order<Extreme, true>(plan);
    case Reduction::amin:
      return by_order<Extreme, false>(plan);
    case Reduction::argmax:
      return by_order<ArgExtreme, true>(plan);
    case Reduction::argmin:
      return by_order<ArgExtreme, false>(plan);
    case Reduction::any:
      return run_reduction<AnyAll<true>>(plan);
    case Reduction::all:
      return run_reduction<AnyAll<false>>(plan);
    case Reduction::count_nonzero:
      return run_reduction<CountNonzero>(plan);
    case Reduction::std_:
    case Reduction::std_mean:
      plan.root = true;
      [[fallthrough]];
    case Reduction::var:
    case Reduction::var_mean:
      return by_number<Variance>(plan, true);
    case Reduction::logsumexp:
      return compute_dtype(plan.in_type) == kFloat ? run_reduction<LogSumExp<float>>(plan)
                                                   : run_reduction<LogSumExp<double>>(plan);
    case Reduction::norm:
      if (plan.in_type == kComplexFloat) plan.to_compute = magnitude<std::complex<float>>;
      if (plan.in_type == kComplexDouble) plan.to_compute = magnitude<std::complex<double>>;
      return run_reduction<Norm>(plan);
  }
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {
HWY_EXPORT(dispatch_reduction);

void reduce(Reduction op, const ReduceShape& shape, DType in_type, const void* in, DType out_type, void* out,
            double p, void* mean) {
  const bool by_index = op == Reduction::argmax || op == Reduction::argmin;
  int order[kMaxDims];
  if (shape.ndim > kMaxDims) failf("reductions work on at most {} dimensions", kMaxDims);
  for (int d = 0; d < shape.ndim; ++d) order[d] = shape.ndim - 1 - d;
  // The order of summation is free, the order of indices is not.
  if (!by_index)
    for (int k = 1; k < shape.ndim; ++k)
      for (int j = k;
           j > 0 && std::abs(shape.in_strides[order[j]]) < std::abs(shape.in_strides[order[j - 1]]); --j)
        std::swap(order[j], order[j - 1]);
  ReducePlan plan;
  for (int k = 0; k < shape.ndim; ++k) {
    const int d = order[k];
    if (shape.reduced >> d & 1)
      plan.reduced.add(shape.sizes[d], shape.in_strides[d], 0);
    else
      plan.kept.add(shape.sizes[d], shape.in_strides[d], shape.out_strides[d]);
  }
  if (plan.kept.count == 0) return;
  if (plan.reduced.count == 0) {
    if (by_index || op == Reduction::amax || op == Reduction::amin)
      fail(ErrorKind::index,
           "the maximum or minimum of no elements is not defined: a reduced dimension has size 0");
    plan.reduced.n = 0;
  }
  plan.in = static_cast<const char*>(in);
  plan.out = static_cast<char*>(out);
  plan.mean = static_cast<char*>(mean);
  plan.in_type = in_type;
  plan.out_type = out_type;
  plan.in_width = element_size(in_type);
  plan.out_width = element_size(out_type);
  plan.p = p;
  HWY_DYNAMIC_DISPATCH(dispatch_reduction)(op, plan);
}

}  // namespace tern::kernels
#endif
