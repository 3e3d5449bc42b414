// Arithmetic whose loop depends on an option or on which arguments are there.
#include <algorithm>
#include <limits>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/arithmetic.args.h"
#include "tern/ops/checks.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"
#include "tern/ops/view/geometry.h"

namespace tern {
namespace {

// "div", "div_trunc" or "div_floor".
const char* division(std::optional<std::string_view> mode) {
  if (!mode) return "div";
  if (*mode == "trunc") return "div_trunc";
  if (*mode == "floor") return "div_floor";
  failf("div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{}'", *mode);
}

Shapes division_shape(const Tensor& self, const Tensor& other, std::optional<std::string_view> mode) {
  division(mode);
  const Tensor both[] = {self, other};
  DType d = result_type(both);
  return {broadcast_shape(both, !mode && is_integral(d, true) ? default_dtype() : d)};
}

void check_bounds(bool any, DType dtype) {
  if (!any) fail("torch.clamp: At least one of 'min' or 'max' must not be None");
  if (is_complex(dtype)) fail(ErrorKind::not_supported, "clamp is not supported for complex types");
}

DType clamp_type(const args::clamp& a) {
  Tensor tensors[3] = {a.self, a.min ? wrap_number(*a.min) : Tensor(),
                       a.max ? wrap_number(*a.max) : Tensor()};
  return result_type(tensors);
}

// An exponent as a narrow float has it.
Scalar rounded_to(DType type, const Scalar& number) {
  const auto v = static_cast<float>(number.to_double());
  if (type == kHalf) return static_cast<double>(static_cast<float>(Half(v)));
  return type == kBFloat16 ? Scalar(static_cast<double>(static_cast<float>(BFloat16(v)))) : number;
}

}  // namespace

Tensor body_imag(const args::imag& a) {
  if (!a.self.is_complex()) fail("imag is not implemented for tensors with non-complex dtypes.");
  return select(view_as_real(a.self), -1, 1);
}

Shapes shape_div_Tensor_mode(const args::div_Tensor_mode& a) {
  return division_shape(a.self, a.other, a.rounding_mode);
}
void kernel_div_Tensor_mode(const args::div_Tensor_mode& a, Out out) {
  if (a.rounding_mode) {
    const DType d = result_type({a.self, a.other});
    const bool whole = is_integral(d);
    if (!whole && (!is_floating(d) || is_float8(d)))
      not_implemented_for(*a.rounding_mode == "floor" ? "div_floor_cpu" : "div_trunc_cpu", d);
  }
  run_loop(division(a.rounding_mode), {a.self, a.other}, out[0]);
}
Shapes shape_div_Scalar_mode(const args::div_Scalar_mode& a) {
  return division_shape(a.self, wrap_number(a.other), a.rounding_mode);
}
void kernel_div_Scalar_mode(const args::div_Scalar_mode& a, Out out) {
  run_loop(division(a.rounding_mode), {a.self, wrap_number(a.other)}, out[0]);
}

Shapes shape_remainder_Scalar(const args::remainder_Scalar& a) {
  return {like(a.self, result_type({a.self, wrap_number(a.other)}))};
}
void kernel_remainder_Scalar(const args::remainder_Scalar& a, Out out) {
  run_loop("remainder", {a.self, wrap_number(a.other)}, out[0]);
}
Shapes shape_fmod_Scalar(const args::fmod_Scalar& a) {
  return {like(a.self, result_type({a.self, wrap_number(a.other)}))};
}
void kernel_fmod_Scalar(const args::fmod_Scalar& a, Out out) {
  run_loop("fmod", {a.self, wrap_number(a.other)}, out[0]);
}

void params_nextafter(const args::nextafter& a, kernels::Params& params) {
  params.set(0, static_cast<int64_t>(result_type({a.self, a.other})));
}
void params_pow_Tensor_Scalar(const args::pow_Tensor_Scalar& a, kernels::Params& params) {
  bool whole = !a.exponent.is_float() && !a.exponent.is_complex();
  if (whole && is_integral(a.self.dtype(), true) && a.exponent.to_int() < 0)
    fail("Integers to negative integer powers are not allowed.");
  const DType type = a.self.dtype();
  const bool narrow = compute_dtype(type) != type && !a.exponent.is_complex();
  if (narrow || (whole && is_integral(type))) check_fits(a.exponent, type);
  set_param(params, 0, Arg(narrow ? rounded_to(type, a.exponent) : a.exponent));
}

Shapes shape_clamp(const args::clamp& a) {
  DType d = clamp_type(a);
  check_bounds(a.min || a.max, d);
  return {like(a.self, d)};
}
void kernel_clamp(const args::clamp& a, Out out) {
  const Scalar low = a.min.value_or(0), high = a.max.value_or(0);
  const DType type = clamp_type(a);
  check_fits(low, type);
  check_fits(high, type);
  if (a.min && a.max)
    run_loop("clamp", {a.self}, out[0], {low, high});
  else if (a.min)
    run_loop("clamp_min", {a.self}, out[0], {low});
  else
    run_loop("clamp_max", {a.self}, out[0], {high});
}

Shapes shape_clamp_Tensor(const args::clamp_Tensor& a) {
  const Tensor all[] = {a.self, a.min.defined() ? a.min : a.self, a.max.defined() ? a.max : a.self};
  DType d = result_type(all);
  check_bounds(a.min.defined() || a.max.defined(), d);
  return {broadcast_shape(all, d)};
}
void kernel_clamp_Tensor(const args::clamp_Tensor& a, Out out) {
  const DType d = result_type({a.self, a.min.defined() ? a.min : a.self, a.max.defined() ? a.max : a.self});
  if (is_float8(d)) not_implemented_for("clamp_cpu", d);
  if (a.min.defined() && a.max.defined())
    run_loop("clamp_tensor", {a.self, a.min, a.max}, out[0]);
  else if (a.min.defined())
    run_loop("clamp_min_tensor", {a.self, a.min}, out[0]);
  else
    run_loop("clamp_max_tensor", {a.self, a.max}, out[0]);
}

Tensor body_heaviside(const args::heaviside& a) {
  Dims sizes = broadcast_sizes(a.self.sizes(), a.values.sizes());
  Tensor self = expanded(a.self, sizes), values = expanded(a.values, sizes), zero = eq(self, 0),
         low = lt(self, 0);
  if (is_floating(self.dtype())) return where(zero, values, where(logical_or(low, isnan(self)), 0, 1));
  return where(zero, values, where(low, 0, 1)).to(self.dtype());
}

}  // namespace tern
