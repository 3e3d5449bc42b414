#include "tern/ops/checks.h"

#include <cmath>
#include <complex>
#include <limits>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"

namespace tern {

void refuse_complex(const Tensor& t, const char* text) {
  if (t.is_complex()) fail(ErrorKind::not_supported, text);
}
void refuse_complex(const Tensor& a, const Tensor& b, const char* text) {
  refuse_complex(a, text);
  refuse_complex(b, text);
}
void refuse_bool(const Tensor& t, const char* text) {
  if (t.dtype() == kBool) fail(text);
}
void refuse_complex_values(const Tensor& t, const char* text) {
  if (t.is_complex()) fail(text);
}
void refuse_integral(const Tensor& t, const char* text) {
  if (is_integral(t.dtype(), true)) fail(ErrorKind::not_supported, text);
}

void require_dtype_of(const Tensor& model, const Tensor& t, const char* name) {
  if (t.defined() && t.dtype() != model.dtype())
    failf("expected dtype {} for `{}` but got dtype {}", cpp_name(model.dtype()), name, cpp_name(t.dtype()));
}
void require_scalar_type_of(const Tensor& model, const Tensor& t) {
  if (t.defined() && t.dtype() != model.dtype())
    failf("expected scalar type {} but found {}", script_name(model.dtype()), script_name(t.dtype()));
}
void require_one_dtype(const Tensor& model, const Tensor& t) {
  if (t.defined() && t.dtype() != model.dtype())
    failf("Found dtype {} but expected {}", script_name(t.dtype()), script_name(model.dtype()));
}

namespace {

[[noreturn]] void no_subtraction(bool both) {
  fail(both ? "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
              "`logical_xor()` operator instead."
            : "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
              "invert a mask, use the `~` or `logical_not()` operator instead.");
}

}  // namespace

double largest_number(DType type) {
  switch (type) {
    case DType::float8_e4m3fn:
      return 448;
    case DType::float8_e4m3fnuz:
      return 240;
    case DType::float8_e5m2:
    case DType::float8_e5m2fnuz:
      return 57344;
    case DType::float16:
      return 65504;
    case DType::bfloat16:
      return 0x1.fep127;
    case DType::float64:
    case DType::complex128:
      return std::numeric_limits<double>::max();
    default:
      return std::numeric_limits<float>::max();
  }
}

void check_fits(const Scalar& value, DType type) {
  if (type == kBool || value.is_symbolic()) return;
  auto refuse = [&] {
    const bool whole = is_integral(type);
    failf("value cannot be converted to type {} without overflow",
          whole && type != kInt ? std::string(name(type)) + "_t" : std::string(cpp_name(type)));
  };
  if (is_integral(type)) {
    const int bits = static_cast<int>(element_size(type)) * 8 - (is_signed(type) ? 1 : 0);
    const double most = std::ldexp(1.0, bits);  // one more than the largest
    if (value.is_float()) {
      const double v = value.to_double();
      if (!(v < most && (is_signed(type) ? v >= -most : v > -most))) refuse();
    } else if (!value.is_complex() && bits < 63) {
      const int64_t v = value.to_int(), top = int64_t{1} << bits;
      if (v >= top || (is_signed(type) ? v < -top : v <= -top)) refuse();
    }
    return;
  }
  const double most = largest_number(to_real(type));
  const std::complex<double> v = value.to_complex();
  for (double part : {v.real(), v.imag()})
    if (std::isfinite(part) && std::abs(part) > most) refuse();
}

void check_celu(const Scalar& alpha) {
  if (alpha.equals(0)) fail("alpha cannot be 0 for CELU");
}
void check_softshrink(const Tensor& self, const Scalar& lambd) {
  if (!self.is_floating_point()) return;
  const double most = largest_number(self.dtype()), v = lambd.to_double();
  if (!(v >= 0 && v <= most))
    failf("lambda must be in range [0, {:.6g}] for input dtype {}, but found {:.6g}", most,
          script_name(self.dtype()), v);
}
void check_subtraction(const Tensor& self, const Tensor& other) {
  const bool a = self.dtype() == kBool, b = other.dtype() == kBool;
  if (a || b) no_subtraction(a && b);
}
void check_subtraction(const Tensor& self, const Scalar& other) {
  const bool a = self.dtype() == kBool, b = other.is_bool();
  if (a || b) no_subtraction(a && b);
}

void check_factor(DType result, const Scalar& factor, const char* name) {
  if (factor.is_bool() && result != kBool) failf("Boolean {} only supported for Boolean results.", name);
  if (is_complex(result)) return;
  if (factor.is_complex())
    failf("For non-complex input tensors, argument {} must not be a complex number.", name);
  if (factor.is_float() && !is_floating(result))
    failf("For integral input tensors, argument {} must not be a floating point number.", name);
}
void check_alpha(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  if (alpha.is_int()) return;
  const Tensor both[] = {self, other};
  check_factor(result_type(both), alpha, "alpha");
}

void check_lerp(const Tensor& self, const Tensor& end, const Tensor& weight) {
  require_dtype_of(self, end, "end");
  if (weight.defined() && weight.dim() > 0) require_dtype_of(self, weight, "weight");
}

void check_heaviside(const Tensor& self, const Tensor& values) {
  refuse_complex(self, values, "heaviside is not yet implemented for complex tensors.");
  if (self.dtype() != values.dtype())
    fail(ErrorKind::not_supported, "heaviside is not yet implemented for tensors with different dtypes.");
}

void check_addcdiv(const Tensor& tensor1, const Tensor& tensor2) {
  if (is_integral(tensor1.dtype(), true) && is_integral(tensor2.dtype(), true))
    fail(
        "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform "
        "a true division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input "
        "+ value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value "
        "* tensor1 / tensor2) for float inputs. The future addcdiv behavior is just the latter "
        "implementation: (input + value * tensor1 / tensor2), for all dtypes.");
}

void check_ldexp(const Tensor& self, const Tensor& other) {
  if (self.is_floating_point() && other.dtype() == kBool)
    fail(ErrorKind::not_supported, "\"ldexp_cpu_exp\" not implemented for 'Bool'");
}

void check_parts(const Tensor& a, const Tensor& b) {
  auto fits = [](const Tensor& t) {
    return t.dtype() == kFloat || t.dtype() == kDouble || t.dtype() == kHalf;
  };
  if (!fits(a) || !fits(b))
    failf("Expected both inputs to be Half, Float or Double tensors but got {} and {}",
          script_name(a.dtype()), script_name(b.dtype()));
  if (a.dtype() != b.dtype())
    failf("Expected object of scalar type {} but got scalar type {} for second argument",
          script_name(a.dtype()), script_name(b.dtype()));
}

void require_floating(const char* kernel, const Tensor& a, const Tensor& b) {
  const Tensor both[] = {a, b};
  const DType d = result_type(both);
  if (!is_floating(d) || is_float8(d))
    failf(ErrorKind::not_supported, "\"{}\" not implemented for '{}'", kernel, script_name(d));
}

void check_kl_div(const Tensor& self, const Tensor& target) {
  refuse_complex(self, target, "kl_div: Complex inputs not supported.");
  refuse_integral(self, "kl_div: Integral inputs not supported.");
  refuse_integral(target, "kl_div: Integral inputs not supported.");
}

void check_parameters(const Tensor& input, std::initializer_list<Tensor> parameters) {
  DType first = DType::undefined;
  for (const Tensor& p : parameters)
    if (p.defined() && first == DType::undefined) first = p.dtype();
  if (first == DType::undefined) return;
  if (first == input.dtype()) {
    for (const Tensor& p : parameters) require_scalar_type_of(input, p);
    return;
  }
  for (const Tensor& p : parameters)
    if (p.defined() && p.dtype() != kFloat)
      fail("mixed dtype (CPU): expect parameter to have scalar type of Float");
  if (input.dtype() != kHalf && input.dtype() != kBFloat16)
    fail("mixed dtype (CPU): all inputs must share same datatype.");
}

void check_addmv(const Tensor& self, const Tensor& mat, const Tensor& vec) {
  if (mat.dtype() != vec.dtype() || mat.dtype() != self.dtype())
    failf("addmv input tensors must have the same dtype, but got {}, {}, and {}", script_name(self.dtype()),
          script_name(mat.dtype()), script_name(vec.dtype()));
}

void check_addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Scalar& beta,
                const Scalar& alpha) {
  const DType d = promote(promote(self.dtype(), vec1.dtype()), vec2.dtype());
  check_factor(d, beta, "beta");
  check_factor(d, alpha, "alpha");
}

void check_bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight, const Tensor& bias) {
  const DType d = input1.dtype();
  if (input2.dtype() == d && weight.dtype() == d && (!bias.defined() || bias.dtype() == d)) return;
  if (bias.defined())
    failf("All tensors must have the same dtype, got input1: {}, input2: {}, weight: {}, bias: {}",
          cpp_name(d), cpp_name(input2.dtype()), cpp_name(weight.dtype()), cpp_name(bias.dtype()));
  failf("All tensors must have the same dtype, got input1: {}, input2: {}, weight: {}", cpp_name(d),
        cpp_name(input2.dtype()), cpp_name(weight.dtype()));
}

void check_reflectors(const char* api, const Tensor& input, const Tensor& tau, const Tensor& other) {
  const bool only_tau = !other.defined();
  if (tau.dtype() != input.dtype()) {
    if (only_tau)
      failf("{}: tau dtype {} does not match input dtype {}", api, script_name(tau.dtype()),
            script_name(input.dtype()));
    failf("{}: Expected input and tau to have the same dtype, but input has dtype{} and tau has dtype {}",
          api, script_name(input.dtype()), script_name(tau.dtype()));
  }
  if (!only_tau && other.dtype() != input.dtype())
    failf("{}: Expected input and other to have the same dtype, but input has dtype{} and other has dtype {}",
          api, script_name(input.dtype()), script_name(other.dtype()));
}

void check_bins(const Tensor& self, Span<const Tensor> bins) {
  for (size_t i = 0; i < bins.size(); ++i)
    if (bins[i].dtype() != self.dtype())
      failf(
          "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with "
          "dtype {} and bins for dimension {} with dtype {}",
          cpp_name(self.dtype()), i, cpp_name(bins[i].dtype()));
}

void check_flash_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask) {
  const DType d = query.dtype();
  if (!is_floating(d) || is_float8(d))
    failf(
        "scaled_dot_product_attention_flash_attention: Expected data type in FP32, FP64, BF16, FP16, but got "
        "{} instead.",
        script_name(d));
  if (mask.defined() && mask.dtype() != d && mask.dtype() != kFloat)
    fail("scaled_dot_product_attention_flash_attention: Attention mask is the same data type as query");
  require_scalar_type_of(query, key);
  require_scalar_type_of(query, value);
}

void check_random_samples(const Tensor& self, const Tensor& samples) {
  if (samples.dtype() != self.dtype()) fail("Expect _random_samples to have the same dtype as input");
}

void check_grid(Span<const Tensor> tensors) {
  for (const Tensor& t : tensors)
    if (t.dtype() != tensors[0].dtype()) fail("meshgrid expects all tensors to have the same dtype");
}

void check_limits(const Tensor& self, const Scalar& low, const Scalar& high) {
  if (self.dtype() == kByte && (low.to_double() < 0 || high.to_double() < 0))
    fail("cannot do hardtanh on an unsigned type with negative limits");
}

void require_long(const char* op, const Tensor& index) {
  if (index.dtype() != kLong)
    failf("{}(): Expected a long tensor for index, but got {}", op, script_name(index.dtype()));
}

void check_chunks(Span<const Tensor> tensors) {
  for (const Tensor& t : tensors)
    if (t.dtype() != tensors[0].dtype()) fail("_chunk_cat expects all input tensors with the same dtype");
}

void check_vecdot(const Tensor& x, const Tensor& y) {
  for (const Tensor* t : {&x, &y})
    if (!t->is_floating_point() && !t->is_complex())
      failf("linalg.vecdot: Expected a floating point or complex tensor as input. Got {}",
            script_name(t->dtype()));
  if (x.dtype() != y.dtype())
    failf(
        "linalg.vecdot: Expected x and y to have the same dtype, but found x of type {} and y of type {} "
        "instead",
        script_name(x.dtype()), script_name(y.dtype()));
}

void check_cosine(const Tensor& x1, const Tensor& x2) {
  const Tensor both[] = {x1, x2};
  const DType d = result_type(both);
  if (!is_floating(d))
    failf("expected common dtype to be floating point, yet common dtype is {}", script_name(d));
}

void check_filling(const char* op, const Tensor& self, const Tensor& value) {
  if (value.is_complex() && !self.is_complex())
    failf("{}(): Converting complex Scalar to non-complex type is not supported", op);
}

void check_filling(const char* op, const Tensor& self, const Scalar& value) {
  if (value.is_complex() && !self.is_complex())
    failf("{}(): Converting complex Scalar to non-complex type is not supported", op);
}

void check_float_power(const Tensor& self, bool complex_exponent) {
  const DType d = self.is_complex() || complex_exponent ? kComplexDouble : kDouble;
  if (self.dtype() != d)
    failf("the base given to float_power_ has dtype {} but the operation's result requires dtype {}",
          script_name(self.dtype()), script_name(d));
}

void check_holds(const Tensor& result, const Tensor& other) {
  const Tensor both[] = {result, other};
  const DType computed = result_type(both);
  if (!can_cast(computed, result.dtype()))
    failf("result type {} can't be cast to the desired output type {}", script_name(computed),
          script_name(result.dtype()));
}

}  // namespace tern
