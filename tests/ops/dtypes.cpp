// Which element types an operator takes: what the tables' `dtypes` and `check` lines refuse, and what not.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "tern/base/error.h"
#include "tern/dispatch/ladder.h"
#include "tern/ops.h"

namespace tern {
namespace {

template <class F>
std::string said(F&& f) {
  try {
    f();
    return "";
  } catch (const Error& e) {
    return e.message();
  }
}

TEST(DTypes, a_kernel_names_itself_where_it_refuses_a_type) {
  Tensor whole = ones({2, 3}, kLong), flag = ones({2, 3}, kBool);
  EXPECT_EQ(said([&] { hypot(whole, whole); }), "\"hypot_cpu\" not implemented for 'Long'");
  EXPECT_EQ(said([&] { gelu(whole); }), "\"GeluKernelImpl\" not implemented for 'Long'");
  EXPECT_EQ(said([&] { pow(flag, flag); }), "\"pow\" not implemented for 'Bool'");
  EXPECT_EQ(said([&] { special_bessel_j0(ones({2}, kHalf)); }),
            "\"bessel_j0_cpu\" not implemented for 'Half'");
  EXPECT_EQ(said([&] { special_bessel_j0(whole); }), "");  // computed in float32
  EXPECT_EQ(said([&] { hypot_(whole, whole); }), "\"hypot_cpu\" not implemented for 'Long'");
  EXPECT_EQ(said([&] {
              hypot_out(zeros({2, 3}), whole, whole);
            }),
            "\"hypot_cpu\" not implemented for 'Long'");
}

TEST(DTypes, the_common_type_of_the_operands_counts) {
  Tensor whole = ones({2, 3}, kLong), real = ones({2, 3}), number = tensor(2, {.dtype = kLong});
  EXPECT_EQ(hypot(whole, real).dtype(), kFloat);
  EXPECT_EQ(hypot(real, number).dtype(), kFloat);
  EXPECT_NE(said([&] { hypot(whole, number); }), "");
}

TEST(DTypes, without_data_no_kernel_is_asked) {
  Tensor whole = ones({2, 3}, kLong, {}, Device{DeviceType::meta});
  EXPECT_EQ(said([&] { hypot(whole, whole); }), "");
  EXPECT_NE(said([&] { sub(whole.to(kBool), whole); }), "");  // a rule, not a kernel
}

TEST(DTypes, bool_is_not_subtracted) {
  Tensor flag = ones({2}, kBool), whole = ones({2}, kLong);
  const std::string one =
      "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a "
      "mask, use the `~` or `logical_not()` operator instead.";
  EXPECT_EQ(said([&] { whole - flag; }), one);
  EXPECT_EQ(said([&] { flag - 1; }), one);
  EXPECT_EQ(said([&] { rsub(flag, whole); }), one);
  EXPECT_EQ(said([&] { sub_(whole, tensor(true)); }), one);
  EXPECT_EQ(said([&] { flag - flag; }),
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead.");
}

TEST(DTypes, operands_of_one_type_are_asked_for) {
  Tensor a = ones({2, 3}), b = ones({2, 3}, kDouble);
  EXPECT_EQ(said([&] { lerp(a, b, 0.5); }), "expected dtype float for `end` but got dtype double");
  EXPECT_EQ(said([&] { lerp(a, a, b); }), "expected dtype float for `weight` but got dtype double");
  EXPECT_EQ(said([&] { lerp(a, a, tensor(0.5, {.dtype = kDouble})); }), "");
  EXPECT_EQ(said([&] { heaviside(a, b); }),
            "heaviside is not yet implemented for tensors with different dtypes.");
  EXPECT_EQ(said([&] { linalg_cross(a, b); }), "expected scalar type Float but found Double");
  EXPECT_EQ(said([&] { layer_norm(a, {3}, ones({3}, kDouble)); }),
            "mixed dtype (CPU): expect parameter to have scalar type of Float");
  EXPECT_EQ(said([&] { layer_norm(ones({2, 3}, kBFloat16), {3}, ones({3}), zeros({3})); }), "");
}

TEST(DTypes, numbers_are_ones_that_the_type_can_hold) {
  Tensor x = ones({2}), whole = ones({2}, kLong);
  EXPECT_EQ(said([&] { add(whole, whole, 1.5); }),
            "For integral input tensors, argument alpha must not be a floating point number.");
  EXPECT_EQ(said([&] { add(x, x, true); }), "Boolean alpha only supported for Boolean results.");
  EXPECT_EQ(said([&] { addcmul(x, x, x, Scalar(std::complex<double>(1, 2))); }),
            "value cannot be converted to type float without overflow");
  EXPECT_EQ(pow(x, Scalar(std::complex<double>(1, 2))).dtype(), kComplexFloat);
}

TEST(DTypes, products_of_float8_are_rounded_once) {
  Tensor a = full({2, 3}, 1.5).to(DType::float8_e5m2);
  Tensor product = mm(a, a.t());
  EXPECT_EQ(product.dtype(), DType::float8_e5m2);
  EXPECT_EQ(product.to(kFloat).to_vector<float>(), std::vector<float>(4, 7.f));  // 6.75 among 6, 7, 8
}

TEST(DTypes, a_complex_number_is_a_number_and_an_empty_list_is_none) {
  const Scalar z(std::complex<double>(1, 2));
  const Arg number(z), nothing{Span<const Scalar>()};
  EXPECT_TRUE(number.is_number());
  EXPECT_EQ(number.scalar().to_complex(), z.to_complex());
  EXPECT_EQ(number.to_value().scalar().to_complex(), z.to_complex());
  EXPECT_FALSE(nothing.is_number());
  EXPECT_TRUE(nothing.to_value().items().empty());
  Tensor x = tensor({1.0f, 2.0f}).requires_grad_();
  EXPECT_EQ(mul(x, z).dtype(), kComplexFloat);
  view_as_real(mul(x, z)).sum().backward();  // the number is kept for the gradient
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{3, 3}));
}
TEST(DTypes, parts_of_a_complex_number_that_are_not_numbers_are_replaced) {
  Tensor x = make_complex(tensor({NAN, 1.0}), tensor({2.0, INFINITY}));
  Tensor y = view_as_real(nan_to_num(x, 0.0, 9.0, -9.0));
  EXPECT_EQ(y.to(kDouble).to_vector<double>(), (std::vector<double>{0, 2, 1, 9}));
}

}  // namespace
}  // namespace tern
