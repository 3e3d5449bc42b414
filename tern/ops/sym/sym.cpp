// Assertions and ranges, checked where the values are known.
#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/sym.args.h"
#include "tern/sym/shape_env.h"

namespace tern {
namespace {

void check_tensor(const Tensor& t, std::string_view message) {
  SymInt n = t.numel();
  if (n == 0) fail("Boolean value of Tensor with no values is ambiguous");
  if (!(n == 1)) fail("Boolean value of Tensor with more than one value is ambiguous");
  if (t.is_fake() && !t->wrapped_number) return;
  if (!read_scalar(t).to_bool()) fail(std::string(message));
}

void check_scalar(const Scalar& s, std::string_view message) {
  if (s.is_symbolic()) {
    if (surely_eq(s.sym(), 0)) fail(std::string(message));
    return;
  }
  if (!s.to_bool()) fail(std::string(message));
}

void constrain(const Scalar& size, std::optional<int64_t> min, std::optional<int64_t> max) {
  if (!size.is_int()) fail(ErrorKind::type, "sym_constrain_range: Constraining SymFloat or Symbool is nyi");
  int64_t low = min.value_or(INT64_MIN), high = max.value_or(INT64_MAX);
  if (low > high) failf("Max must be greater than or equal to min, got min={} and max={}", low, high);
  if (size.is_symbolic()) {
    Range range;
    if (min) range.min = *min;
    if (max) range.max = *max;
    return ShapeEnv::of(size.sym()).constrain_range(size.sym(), range, thread_state.loc);
  }
  int64_t v = size.to_int();
  if (v < low || v > high) failf("Invalid value range for {} between [{}, {}].", v, low, high);
}

}  // namespace

bool body_is_same_size(const args::is_same_size& a) {
  if (a.self.dim() != a.other.dim()) return false;
  for (int64_t d = 0; d < a.self.dim(); ++d)
    if (!(a.self.sizes()[d] == a.other.sizes()[d])) return false;
  return true;
}

void body__assert_async(const args::_assert_async& a) {
  check_tensor(a.self, "Expected Tensor with single nonzero value, but got zero");
}
void body__assert_async_msg(const args::_assert_async_msg& a) { check_tensor(a.self, a.assert_msg); }
void body__assert_scalar(const args::_assert_scalar& a) { check_scalar(a.self, a.assert_msg); }
Tensor body__functional_assert_async_msg(const args::_functional_assert_async_msg& a) {
  check_tensor(a.self, a.assert_msg);
  return clone(a.dep_token);
}
Tensor body__functional_assert_scalar(const args::_functional_assert_scalar& a) {
  check_scalar(a.self, a.assert_msg);
  return clone(a.dep_token);
}

void body__assert_tensor_metadata(const args::_assert_tensor_metadata& a) {
  auto same = [](Span<const SymInt> x, Span<const SymInt> y) {
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i)
      if (!require_eq(x[i], y[i])) return false;
    return true;
  };
  if (a.size && !same(*a.size, a.a.sizes()))
    failf("Tensor sizes mismatch! Expected: {}, Got: {}", str(*a.size), str(a.a.sizes()));
  if (a.stride && !same(*a.stride, a.a.strides()))
    failf("Tensor strides mismatch! Expected: {}, Got: {}", str(*a.stride), str(a.a.strides()));
  if (a.dtype && *a.dtype != a.a.dtype())
    failf("Tensor dtype mismatch! Expected: {}, Got: {}", script_name(*a.dtype), script_name(a.a.dtype()));
  if (a.device && a.device->type != a.a.device().type)
    failf("Tensor device mismatch! Expected: {}, Got: {}", a.device->str(), a.a.device().str());
}

void body_sym_constrain_range(const args::sym_constrain_range& a) { constrain(a.size, a.min, a.max); }
void body_sym_constrain_range_for_size(const args::sym_constrain_range_for_size& a) {
  constrain(a.size, a.min ? a.min : std::optional<int64_t>(0), a.max);
}

Tensor body__functional_sym_constrain_range(const args::_functional_sym_constrain_range& a) {
  constrain(a.size, a.min, a.max);
  return clone(a.dep_token);
}
Tensor body__functional_sym_constrain_range_for_size(
    const args::_functional_sym_constrain_range_for_size& a) {
  constrain(a.size, a.min ? a.min : std::optional<int64_t>(0), a.max);
  return clone(a.dep_token);
}

bool body_is_set_to(const args::is_set_to& a) {
  if (a.self.dim() != a.tensor.dim() || !(a.self.storage() == a.tensor.storage()) ||
      !(a.self.offset() == a.tensor.offset()))
    return false;
  for (int64_t d = 0; d < a.self.dim(); ++d)
    if (!(a.self.sizes()[d] == a.tensor.sizes()[d]) || !(a.self.strides()[d] == a.tensor.strides()[d]))
      return false;
  return true;
}

namespace {
Tensor wrapped(const Scalar& number) {
  Tensor t = tensor(number);
  t->wrapped_number = true;
  return t;
}
}  // namespace

DType body_result_type_Tensor(const args::result_type_Tensor& a) { return result_type({a.tensor, a.other}); }
DType body_result_type_Scalar(const args::result_type_Scalar& a) {
  return result_type({a.tensor, wrapped(a.other)});
}
DType body_result_type_Scalar_Tensor(const args::result_type_Scalar_Tensor& a) {
  return result_type({wrapped(a.scalar), a.tensor});
}
DType body_result_type_Scalar_Scalar(const args::result_type_Scalar_Scalar& a) {
  return result_type({wrapped(a.scalar1), wrapped(a.scalar2)});
}

}  // namespace tern
