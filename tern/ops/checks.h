// What operators refuse before any shape is looked at: the `check` lines of the .ops files.
#pragma once
#include "tern/tensor/tensor.h"

namespace tern {

// Fail with this text.
void refuse_complex(const Tensor& t, const char* text);
void refuse_complex(const Tensor& a, const Tensor& b, const char* text);
void refuse_complex_values(const Tensor& t, const char* text);  // a RuntimeError
void refuse_bool(const Tensor& t, const char* text);
void refuse_integral(const Tensor& t, const char* text);  // bool included
// "expected dtype float for `end` but got dtype double".
void require_dtype_of(const Tensor& model, const Tensor& t, const char* name);
// "expected scalar type Float but found Double".
void require_scalar_type_of(const Tensor& model, const Tensor& t);
// "Found dtype Double but expected Float": operands of one loop that does not promote.
void require_one_dtype(const Tensor& model, const Tensor& t);

double largest_number(DType type);  // that is finite
// "value cannot be converted to type int8_t without overflow". A negative number in an unsigned type wraps
// around, as far as its size fits.
void check_fits(const Scalar& value, DType type);

void check_celu(const Scalar& alpha);
void check_softshrink(const Tensor& self, const Scalar& lambd);
void check_subtraction(const Tensor& self, const Tensor& other);
void check_subtraction(const Tensor& self, const Scalar& other);
// alpha and beta are of a kind that the result can hold.
void check_alpha(const Tensor& self, const Tensor& other, const Scalar& alpha);
void check_factor(DType result, const Scalar& factor, const char* name);
void check_lerp(const Tensor& self, const Tensor& end, const Tensor& weight = Tensor());
void check_heaviside(const Tensor& self, const Tensor& values);
void check_addcdiv(const Tensor& tensor1, const Tensor& tensor2);
void check_ldexp(const Tensor& self, const Tensor& other);
void check_parts(const Tensor& a, const Tensor& b);  // of a complex number
// The type that a pointwise loss computes in is one that its result, of this type, can hold.
void check_holds(const Tensor& result, const Tensor& other);

// The common type of two operands is floating: '"mse_cpu" not implemented for 'Long'' otherwise.
void require_floating(const char* kernel, const Tensor& a, const Tensor& b);
void check_kl_div(const Tensor& self, const Tensor& target);
// Parameters of a normalisation: all of the input's type, or all float beside a narrower input.
void check_parameters(const Tensor& input, std::initializer_list<Tensor> parameters);
// The last sizes of a convolution's weight are kernel_size (conv/slow_conv.cpp).
void check_kernel_size(const Tensor& weight, Span<const SymInt> kernel_size);
void check_addmv(const Tensor& self, const Tensor& mat, const Tensor& vec);
void check_addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Scalar& beta,
                const Scalar& alpha);
void check_bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight, const Tensor& bias);
void check_reflectors(const char* api, const Tensor& input, const Tensor& tau,
                      const Tensor& other = Tensor());
void check_bins(const Tensor& self, Span<const Tensor> bins);
void check_flash_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask);
void check_random_samples(const Tensor& self, const Tensor& samples);
void check_grid(Span<const Tensor> tensors);
void check_limits(const Tensor& self, const Scalar& low, const Scalar& high);
// "take(): Expected a long tensor for index, but got Int".
void require_long(const char* op, const Tensor& index);
void check_chunks(Span<const Tensor> tensors);
void check_vecdot(const Tensor& x, const Tensor& y);
void check_cosine(const Tensor& x1, const Tensor& x2);
// A number that is to be written into a tensor: `op` refuses a complex one for a real tensor.
void check_filling(const char* op, const Tensor& self, const Tensor& value);
void check_filling(const char* op, const Tensor& self, const Scalar& value);
// float_power is of float64 or complex128, and in place nothing else.
void check_float_power(const Tensor& self, bool complex_exponent);

}  // namespace tern
