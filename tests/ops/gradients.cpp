// Every gradient formula of the elementwise, reducing, multiplying, normalising and loss operators against
// differences.
#include <cmath>

#include "tests/support/gradcheck.h"

namespace tern::testing {
namespace {

using In = const std::vector<Tensor>&;

struct Unary {
  const char* name;
  Tensor (*f)(const Tensor&);
  double low, high;
  bool second = true;
};

TEST(OpGradients, unary) {
  const Unary cases[] = {
      {"exp", [](const Tensor& x) { return exp(x); }, -1, 1},
      {"exp2", [](const Tensor& x) { return exp2(x); }, -1, 1},
      {"expm1", [](const Tensor& x) { return expm1(x); }, -1, 1},
      {"log", [](const Tensor& x) { return log(x); }, 0.5, 2},
      {"log2", [](const Tensor& x) { return log2(x); }, 0.5, 2},
      {"log10", [](const Tensor& x) { return log10(x); }, 0.5, 2},
      {"log1p", [](const Tensor& x) { return log1p(x); }, -0.5, 2},
      {"sin", [](const Tensor& x) { return sin(x); }, -1, 1},
      {"cos", [](const Tensor& x) { return cos(x); }, -1, 1},
      {"tan", [](const Tensor& x) { return tan(x); }, -1, 1},
      {"asin", [](const Tensor& x) { return asin(x); }, -0.9, 0.9},
      {"acos", [](const Tensor& x) { return acos(x); }, -0.9, 0.9},
      {"atan", [](const Tensor& x) { return atan(x); }, -1, 1},
      {"sinh", [](const Tensor& x) { return sinh(x); }, -1, 1},
      {"cosh", [](const Tensor& x) { return cosh(x); }, -1, 1},
      {"tanh", [](const Tensor& x) { return tanh(x); }, -1, 1},
      {"asinh", [](const Tensor& x) { return asinh(x); }, -1, 1},
      {"acosh", [](const Tensor& x) { return acosh(x); }, 1.5, 3},
      {"atanh", [](const Tensor& x) { return atanh(x); }, -0.9, 0.9},
      {"erf", [](const Tensor& x) { return erf(x); }, -1, 1},
      {"erfc", [](const Tensor& x) { return erfc(x); }, -1, 1},
      {"erfinv", [](const Tensor& x) { return erfinv(x); }, -0.8, 0.8},
      {"lgamma", [](const Tensor& x) { return lgamma(x); }, 0.5, 3},
      {"digamma", [](const Tensor& x) { return digamma(x); }, 0.5, 3},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }, -2, 2},
      {"logit", [](const Tensor& x) { return logit(x); }, 0.1, 0.9},
      {"logit eps", [](const Tensor& x) { return logit(x, 0.3); }, 0.05, 0.95},
      {"frac", [](const Tensor& x) { return frac(x); }, 0.1, 0.9},
      {"floor", [](const Tensor& x) { return floor(x); }, 0.1, 0.9},
      {"round", [](const Tensor& x) { return round(x); }, 0.6, 0.9},
      {"sqrt", [](const Tensor& x) { return sqrt(x); }, 0.5, 2},
      {"rsqrt", [](const Tensor& x) { return rsqrt(x); }, 0.5, 2},
      {"reciprocal", [](const Tensor& x) { return reciprocal(x); }, 0.5, 2},
      {"square", [](const Tensor& x) { return square(x); }, -1, 1},
      {"abs", [](const Tensor& x) { return abs(x); }, 0.1, 1},
      {"neg", [](const Tensor& x) { return neg(x); }, -1, 1},
      {"pow 3", [](const Tensor& x) { return pow(x, 3); }, -1, 1},
      {"pow 2.5", [](const Tensor& x) { return pow(x, 2.5); }, 0.5, 2},
      {"rpow", [](const Tensor& x) { return pow(2.5, x); }, -1, 1},
      {"clamp", [](const Tensor& x) { return clamp(x, -0.5, 0.5); }, -1, 1},
      {"clamp_min", [](const Tensor& x) { return clamp_min(x, 0.1); }, -1, 1},
      {"remainder", [](const Tensor& x) { return remainder(x, 0.7); }, 0.1, 0.6},
      {"relu", [](const Tensor& x) { return relu(x); }, -1, 1},
      {"relu6", [](const Tensor& x) { return relu6(x); }, -8, 8},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.2); }, -1, 1},
      {"elu", [](const Tensor& x) { return elu(x, 1.3, 1.1, 0.9); }, -1, 1},
      {"selu", [](const Tensor& x) { return selu(x); }, -1, 1},
      {"celu", [](const Tensor& x) { return celu(x, 1.7); }, -1, 1},
      {"silu", [](const Tensor& x) { return silu(x); }, -2, 2},
      {"gelu", [](const Tensor& x) { return gelu(x); }, -2, 2},
      {"gelu tanh", [](const Tensor& x) { return gelu(x, "tanh"); }, -2, 2},
      {"mish", [](const Tensor& x) { return mish(x); }, -2, 2},
      {"hardsigmoid", [](const Tensor& x) { return hardsigmoid(x); }, -5, 5},
      {"hardswish", [](const Tensor& x) { return hardswish(x); }, -5, 5},
      {"hardtanh", [](const Tensor& x) { return hardtanh(x); }, -2, 2},
      {"softplus", [](const Tensor& x) { return softplus(x, 2, 1); }, -2, 2},
      {"log_sigmoid", [](const Tensor& x) { return log_sigmoid(x); }, -2, 2},
      {"threshold", [](const Tensor& x) { return threshold(x, 0.1, 20); }, -1, 1},
      {"softshrink", [](const Tensor& x) { return softshrink(x); }, -1, 1},
      {"hardshrink", [](const Tensor& x) { return hardshrink(x); }, -1, 1},
      {"glu", [](const Tensor& x) { return glu(x, 0); }, -1, 1},
      {"sum", [](const Tensor& x) { return sum(x); }, -1, 1},
      {"sum dim", [](const Tensor& x) { return sum(x, {0}); }, -1, 1},
      {"sum keepdim", [](const Tensor& x) { return sum(x, {-1}, true); }, -1, 1},
      {"mean", [](const Tensor& x) { return mean(x); }, -1, 1},
      {"mean dim", [](const Tensor& x) { return mean(x, {1}); }, -1, 1},
      {"prod", [](const Tensor& x) { return prod(x); }, -1, 1},
      {"prod dim", [](const Tensor& x) { return prod(x, 1); }, -1, 1},
      {"amax", [](const Tensor& x) { return amax(x, {1}); }, -1, 1},
      {"amin all", [](const Tensor& x) { return amin(x); }, -1, 1},
      {"max", [](const Tensor& x) { return max(x); }, -1, 1},
      {"max dim", [](const Tensor& x) { return std::get<0>(max(x, 0)); }, -1, 1},
      {"min dim", [](const Tensor& x) { return std::get<0>(min(x, 1, true)); }, -1, 1},
      {"var", [](const Tensor& x) { return var(x); }, -1, 1},
      {"var dim", [](const Tensor& x) { return var(x, {1}, 0); }, -1, 1},
      {"std", [](const Tensor& x) { return tern::std(x, {0}, 1, true); }, -1, 1},
      {"var_mean",
       [](const Tensor& x) {
         auto [v, m] = var_mean(x, {1}, 1);
         return v * m;
       },
       -1, 1},
      {"std_mean",
       [](const Tensor& x) {
         auto [v, m] = std_mean(x, {0});
         return v + m;
       },
       -1, 1},
      {"norm", [](const Tensor& x) { return norm(x); }, -1, 1},
      {"norm 1", [](const Tensor& x) { return norm(x, 1, {1}); }, -1, 1},
      {"norm 3", [](const Tensor& x) { return linalg_vector_norm(x, 3, {0}); }, -1, 1},
      {"norm 1.5", [](const Tensor& x) { return linalg_vector_norm(x, 1.5); }, -1, 1},
      {"norm inf", [](const Tensor& x) { return linalg_vector_norm(x, INFINITY, {1}, true); }, -1, 1},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x, {1}); }, -1, 1},
      {"cumsum", [](const Tensor& x) { return cumsum(x, 1); }, -1, 1},
      {"cumprod", [](const Tensor& x) { return cumprod(x, 0); }, -1, 1},
      {"logcumsumexp", [](const Tensor& x) { return logcumsumexp(x, 0); }, -1, 1, false},
      {"softmax", [](const Tensor& x) { return softmax(x, 0); }, -1, 1},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x, -1); }, -1, 1},
  };
  for (const Unary& c : cases) {
    std::vector<Tensor> in = {variable({4, 3}, c.low, c.high)};
    check_gradient(
        c.name, [&](In x) { return c.f(x[0]); }, in);
    if (c.second)
      check_second_gradient(
          c.name, [&](In x) { return c.f(x[0]); }, in);
  }
}

// In double precision to the end: the logarithm of the base, and the second derivative behind a gradient of
// zero or beside infinitely small elements.
TEST(OpGradients, powers_and_logarithms_derived_twice) {
  Tensor x = variable({3, 4}, -1, 1, 5), e = variable({3, 4}, -1, 1, 6);
  check_second_gradient(
      "ldexp", [](In in) { return ldexp(in[0], in[1]); }, {x, e}, 1e-8);
  check_second_gradient("logcumsumexp", [](In in) { return logcumsumexp(in[0], 1); }, {x});
  Tensor base = zeros({2}, kDouble).requires_grad_(), up = tensor({2.0, 3.0}, {.dtype = kDouble});
  up.requires_grad_();
  Tensor cotangent = ones({2}, kDouble).requires_grad_();
  std::vector<Tensor> first =
      autograd::grad(std::vector<Tensor>{pow(base, up)}, {up}, {cotangent}, {.create_graph = true});
  Tensor second = autograd::grad(first, {cotangent}, {ones({2}, kDouble)})[0];
  EXPECT_EQ(second.to_vector<double>(), (std::vector<double>{0, 0}));
}

TEST(OpGradients, logcumsumexp_of_complex_numbers) {
  // As real and imaginary parts, so that differences tell.
  check_gradient("logcumsumexp", [](In in) { return view_as_real(logcumsumexp(view_as_complex(in[0]), 0)); },
                 {variable({4, 2}, 0.2, 1.0, 8)});
}

TEST(OpGradients, zeros_in_products) {
  Tensor x = from_vector<double>({0.5, 0, 2, 0, 3, 0.7, 0.2, 1, -1}, {3, 3});
  x.requires_grad_();
  for (int64_t d = 0; d < 2; ++d) {
    check_gradient("prod", [&](In in) { return prod(in[0], d); }, {x});
    check_gradient("cumprod", [&](In in) { return cumprod(in[0], d); }, {x});
    check_second_gradient("cumprod", [&](In in) { return cumprod(in[0], d); }, {x});
  }
}

struct Binary {
  const char* name;
  Tensor (*f)(const Tensor&, const Tensor&);
  double low, high;
};

TEST(OpGradients, binary_with_broadcasting) {
  const Binary cases[] = {
      {"add", [](const Tensor& a, const Tensor& b) { return add(a, b, 3); }, -1, 1},
      {"sub", [](const Tensor& a, const Tensor& b) { return sub(a, b, 2); }, -1, 1},
      {"mul", [](const Tensor& a, const Tensor& b) { return a * b; }, -1, 1},
      {"div", [](const Tensor& a, const Tensor& b) { return a / b; }, 0.5, 2},
      {"pow", [](const Tensor& a, const Tensor& b) { return pow(a, b); }, 0.5, 2},
      {"maximum", [](const Tensor& a, const Tensor& b) { return maximum(a, b); }, -1, 1},
      {"minimum", [](const Tensor& a, const Tensor& b) { return minimum(a, b); }, -1, 1},
      {"fmax", [](const Tensor& a, const Tensor& b) { return fmax(a, b); }, -1, 1},
      {"atan2", [](const Tensor& a, const Tensor& b) { return atan2(a, b); }, 0.5, 2},
      {"hypot", [](const Tensor& a, const Tensor& b) { return hypot(a, b); }, 0.5, 2},
      {"lerp", [](const Tensor& a, const Tensor& b) { return lerp(a, b, 0.3); }, -1, 1},
      {"lerp tensor", [](const Tensor& a, const Tensor& b) { return lerp(a, b, a * b); }, -1, 1},
      {"addcmul", [](const Tensor& a, const Tensor& b) { return addcmul(a, a, b, 2.5); }, -1, 1},
      {"addcdiv", [](const Tensor& a, const Tensor& b) { return addcdiv(a, a, b, 2.5); }, 0.5, 2},
      {"logaddexp", [](const Tensor& a, const Tensor& b) { return logaddexp(a, b); }, -1, 1},
      {"logaddexp2", [](const Tensor& a, const Tensor& b) { return logaddexp2(a, b); }, -1, 1},
      {"xlogy", [](const Tensor& a, const Tensor& b) { return xlogy(a, b); }, 0.5, 2},
      {"where", [](const Tensor& a, const Tensor& b) { return where(a > b, a * b, b); }, -1, 1},
      {"clamp tensor", [](const Tensor& a, const Tensor& b) { return clamp(a, b, b + 0.3); }, -1, 1},
      {"prelu", [](const Tensor& a, const Tensor& b) { return prelu(a, b); }, -1, 1},
      {"mse_loss", [](const Tensor& a, const Tensor& b) { return mse_loss(a, b.expand_as(a)); }, -1, 1},
      {"l1_loss", [](const Tensor& a, const Tensor& b) { return l1_loss(a, b.expand_as(a), 2); }, -1, 1},
      {"smooth_l1_loss",
       [](const Tensor& a, const Tensor& b) { return smooth_l1_loss(a, b.expand_as(a), 0, 0.4); }, -1, 1},
      {"huber_loss", [](const Tensor& a, const Tensor& b) { return huber_loss(a, b.expand_as(a), 1, 0.4); },
       -1, 1},
      {"bce", [](const Tensor& a, const Tensor& b) { return binary_cross_entropy(a, b.expand_as(a)); }, 0.1,
       0.9},
      {"bce logits",
       [](const Tensor& a, const Tensor& b) {
         return binary_cross_entropy_with_logits(a, b.expand_as(a), {}, b);
       },
       0.1, 0.9},
      {"kl_div", [](const Tensor& a, const Tensor& b) { return kl_div(a, b, 0); }, 0.1, 0.9},
      {"cosine", [](const Tensor& a, const Tensor& b) { return cosine_similarity(a, b); }, 0.1, 0.9},
  };
  for (const Binary& c : cases) {
    std::vector<Tensor> in = {variable({2, 3}, c.low, c.high, 1), variable({3}, c.low, c.high, 5)};
    check_gradient(
        c.name, [&](In x) { return c.f(x[0], x[1]); }, in);
    check_second_gradient(
        c.name, [&](In x) { return c.f(x[0], x[1]); }, in);
  }
}

TEST(OpGradients, products) {
  auto check = [](const char* name, Differentiable f, std::vector<Tensor> in) {
    check_gradient(name, f, in);
    check_second_gradient(name, f, in);
  };
  check("mm", [](In x) { return mm(x[0], x[1]); }, {variable({2, 3}), variable({3, 4}, -1, 1, 2)});
  check("bmm", [](In x) { return bmm(x[0], x[1]); }, {variable({2, 2, 3}), variable({2, 3, 2}, -1, 1, 2)});
  check("addmm", [](In x) { return addmm(x[0], x[1], x[2], 0.5, 2); },
        {variable({4}), variable({2, 3}, -1, 1, 2), variable({3, 4}, -1, 1, 3)});
  check("baddbmm", [](In x) { return baddbmm(x[0], x[1], x[2], 0.5, 2); },
        {variable({2, 2, 2}), variable({2, 2, 3}, -1, 1, 2), variable({2, 3, 2}, -1, 1, 3)});
  check("mv", [](In x) { return mv(x[0], x[1]); }, {variable({2, 3}), variable({3}, -1, 1, 2)});
  check("dot", [](In x) { return dot(x[0], x[1]); }, {variable({3}), variable({3}, -1, 1, 2)});
  check("addmv", [](In x) { return addmv(x[0], x[1], x[2], 0.5, 2); },
        {variable({2}), variable({2, 3}, -1, 1, 2), variable({3}, -1, 1, 3)});
  for (auto sizes : {std::vector<SymInt>{3}, {2, 3}, {2, 2, 3}, {2, 1, 2, 3}})
    check("linear", [](In x) { return linear(x[0], x[1], x[2]); },
          {variable(sizes), variable({4, 3}, -1, 1, 2), variable({4}, -1, 1, 3)});
  check("matmul", [](In x) { return matmul(x[0], x[1]); },
        {variable({2, 1, 2, 3}), variable({2, 3, 2}, -1, 1, 2)});
  check("matmul fold", [](In x) { return matmul(x[0], x[1]); },
        {variable({2, 2, 3}), variable({3, 2}, -1, 1, 2)});
  check("matmul fold left", [](In x) { return matmul(x[0], x[1]); },
        {variable({2, 3}), variable({2, 3, 2}, -1, 1, 2)});
  check("einsum",
        [](In x) {
          return einsum("bij,bkj->ik", std::vector<Tensor>{x[0], x[1]});
        },
        {variable({2, 2, 3}), variable({2, 2, 3}, -1, 1, 2)});
}

TEST(OpGradients, normalisation) {
  auto check = [](const char* name, Differentiable f, std::vector<Tensor> in) {
    check_gradient(name, f, in);
    check_second_gradient(name, f, in);
  };
  check("layer_norm",
        [](In x) {
          return layer_norm(x[0], {2, 3}, x[1], x[2]);
        },
        {variable({3, 2, 3}), variable({2, 3}, 0.5, 1.5, 2), variable({2, 3}, -1, 1, 3)});
  check("group_norm", [](In x) { return group_norm(x[0], 2, x[1], x[2]); },
        {variable({2, 4, 3}), variable({4}, 0.5, 1.5, 2), variable({4}, -1, 1, 3)});
  Tensor mean = sample({3}, -1, 1, 8), var = sample({3}, 0.5, 1.5, 9);
  check("batch_norm training",
        [&](In x) { return batch_norm(x[0], x[1], x[2], mean.clone(), var.clone(), true, 0.1, 1e-5, false); },
        {variable({4, 3, 2}), variable({3}, 0.5, 1.5, 2), variable({3}, -1, 1, 3)});
  check("batch_norm inference",
        [&](In x) { return batch_norm(x[0], x[1], x[2], mean, var, false, 0.1, 1e-5, false); },
        {variable({4, 3, 2}), variable({3}, 0.5, 1.5, 2), variable({3}, -1, 1, 3)});
  check("batch_norm without statistics",
        [&](In x) { return batch_norm(x[0], {}, {}, {}, {}, true, 0.1, 1e-5, false); }, {variable({4, 3})});
  check("instance_norm", [&](In x) { return instance_norm(x[0], x[1], {}, {}, {}, true, 0.1, 1e-5, false); },
        {variable({2, 3, 4}), variable({3}, 0.5, 1.5, 2)});
  check("rms_norm", [](In x) { return rms_norm(x[0], {3}, x[1]); },
        {variable({2, 3}), variable({3}, 0.5, 1.5, 2)});
}

TEST(OpGradients, classes) {
  Tensor target = tensor({2, 0, -100, 1}), weight = sample({3}, 0.5, 1.5, 4);
  Tensor spatial = tensor({2, 0, 1, 1, 0, 2, 2, 1}).view({2, 2, 2});
  for (int64_t reduction = 0; reduction < 3; ++reduction) {
    check_gradient("nll", [&](In x) { return nll_loss_nd(x[0], target.to(kLong), weight, reduction); },
                   {variable({4, 3})});
    check_gradient(
        "cross entropy",
        [&](In x) { return cross_entropy_loss(x[0], target.to(kLong), weight, reduction, -100, 0.1); },
        {variable({4, 3})});
    check_second_gradient("cross entropy",
                          [&](In x) { return cross_entropy_loss(x[0], target.to(kLong), {}, reduction); },
                          {variable({4, 3})});
    check_gradient("spatial",
                   [&](In x) { return cross_entropy_loss(x[0], spatial.to(kLong), weight, reduction); },
                   {variable({2, 3, 2, 2})});
    check_gradient("probabilities",
                   [&](In x) { return cross_entropy_loss(x[0], softmax(x[1], 1), {}, reduction); },
                   {variable({4, 3}), variable({4, 3}, -1, 1, 2)});
  }
}

}  // namespace
}  // namespace tern::testing
