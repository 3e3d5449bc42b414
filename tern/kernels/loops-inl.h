// From a functor to a loop per compute type. Included once per instruction set (Highway's convention).
// A functor is called with elements; one that needs scalar arguments has a member `Params p`.
#if defined(TERN_KERNELS_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_KERNELS_LOOPS_INL_H_
#undef TERN_KERNELS_LOOPS_INL_H_
#else
#define TERN_KERNELS_LOOPS_INL_H_
#endif

#include <hwy/highway.h>

#include <complex>
#include <concepts>
#include <type_traits>
#include <utility>

#include "tern/kernels/loops.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {

template <class T>
concept Float = std::floating_point<T>;
template <class T>
concept Bool = std::same_as<T, bool>;
template <class T>
concept Int = std::integral<T> && !Bool<T>;
template <class T>
concept IntOrBool = std::integral<T>;
template <class T>
concept Real = Int<T> || Float<T>;  // ordered, and not bool
template <class T>
concept Ordered = Real<T> || Bool<T>;
template <class T>
concept Complex = std::same_as<T, std::complex<float>> || std::same_as<T, std::complex<double>>;
template <class T>
concept Number = Real<T> || Complex<T>;
template <class T>
concept Fractional = Float<T> || Complex<T>;

template <class T>
HWY_ATTR inline T argument(const Params& p, int k) {
  if constexpr (Complex<T>)
    return T(p.c[k]);
  else if constexpr (Float<T>)
    return static_cast<T>(p.d[k]);
  else
    return static_cast<T>(p.i[k]);
}

// A step of a formula that PyTorch takes in the tensors' own type: rounded to it.
template <Float T>
HWY_ATTR inline T as_stored(const Params& p, T x) {
  if (p.stored == DType::float16) return static_cast<T>(static_cast<float>(Half(static_cast<float>(x))));
  if (p.stored == DType::bfloat16) return static_cast<T>(static_cast<float>(BFloat16(static_cast<float>(x))));
  return x;
}

template <class Op>
HWY_ATTR inline Op make_op(const void* params) {
  Op op{};
  if constexpr (requires { op.p; }) {
    if (params) op.p = *static_cast<const Params*>(params);
  }
  return op;
}

template <class Op, class T>
HWY_ATTR void map1(const void* const* in, void* const* out, int64_t n, const void* params) {
  const Op op = make_op<Op>(params);
  using R = decltype(op(std::declval<T>()));
  const T* a = static_cast<const T*>(in[0]);
  R* r = static_cast<R*>(out[0]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) r[i] = op(a[i]);
}

template <class Op, class T>
HWY_ATTR void map2(const void* const* in, void* const* out, int64_t n, const void* params) {
  const Op op = make_op<Op>(params);
  using R = decltype(op(std::declval<T>(), std::declval<T>()));
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  R* r = static_cast<R*>(out[0]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) r[i] = op(a[i], b[i]);
}

template <class Op, class T>
HWY_ATTR void map3(const void* const* in, void* const* out, int64_t n, const void* params) {
  const Op op = make_op<Op>(params);
  using A = std::conditional_t < requires { typename Op::first_is_bool; }
  , bool, T > ;
  const A* a = static_cast<const A*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  const T* c = static_cast<const T*>(in[2]);
  T* r = static_cast<T*>(out[0]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) r[i] = op(a[i], b[i], c[i]);
}

template <class Op, int Arity, class T>
constexpr Loop pick() {
  if constexpr (Arity == 1) {
    if constexpr (requires(const Op op, T x) { op(x); }) return map1<Op, T>;
  } else if constexpr (Arity == 2) {
    if constexpr (requires(const Op op, T x) { op(x, x); }) return map2<Op, T>;
  } else {
    if constexpr (requires(const Op op, T x) { op(x, x, x); }) return map3<Op, T>;
  }
  return nullptr;
}

template <class Op, int Arity>
constexpr Row row(std::string_view name) {
  return {name,
          {pick<Op, Arity, bool>(), pick<Op, Arity, uint8_t>(), pick<Op, Arity, int8_t>(),
           pick<Op, Arity, int16_t>(), pick<Op, Arity, int32_t>(), pick<Op, Arity, int64_t>(),
           pick<Op, Arity, uint16_t>(), pick<Op, Arity, uint32_t>(), pick<Op, Arity, uint64_t>(),
           pick<Op, Arity, float>(), pick<Op, Arity, double>(), pick<Op, Arity, std::complex<float>>(),
           pick<Op, Arity, std::complex<double>>()}};
}
// For operators whose bits do not depend on the sign: unsigned types share the loops of the signed ones.
template <class Op, int Arity>
constexpr Row ring(std::string_view name) {
  const Loop l16 = pick<Op, Arity, int16_t>(), l32 = pick<Op, Arity, int32_t>(),
             l64 = pick<Op, Arity, int64_t>(), l8 = pick<Op, Arity, int8_t>();
  return {name,
          {pick<Op, Arity, bool>(), l8, l8, l16, l32, l64, l16, l32, l64, pick<Op, Arity, float>(),
           pick<Op, Arity, double>(), pick<Op, Arity, std::complex<float>>(),
           pick<Op, Arity, std::complex<double>>()}};
}
template <class Op>
constexpr Row unary(std::string_view name) {
  return row<Op, 1>(name);
}
template <class Op>
constexpr Row binary(std::string_view name) {
  return row<Op, 2>(name);
}
template <class Op>
constexpr Row ternary(std::string_view name) {
  return row<Op, 3>(name);
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
