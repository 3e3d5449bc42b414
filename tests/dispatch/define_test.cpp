// Operators a user defines: the same Op as one of ours, with its limits named and its threads at peace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "tern/dispatch/grad_context.h"
#include "tern/tern.h"

namespace tern {
namespace {

using testing::HasSubstr;

// "<name>(Tensor a0, Tensor a1, ...) -> Tensor"
std::string schema_of(const std::string& name, int arguments, int results = 1) {
  std::string text = name + "(";
  for (int i = 0; i < arguments; ++i) text += (i ? ", Tensor a" : "Tensor a") + std::to_string(i);
  text += ") -> ";
  if (results == 1) return text + "Tensor";
  for (int i = 0; i < results; ++i) text += i ? ", Tensor" : "(Tensor";
  return text + ")";
}

std::string error_of(const std::string& schema, Definition definition) {
  try {
    define(schema, std::move(definition));
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

Definition first_argument() {
  return {.kernel = [](const Arg* args, Value* results) { results[0] = args[0].tensor().clone(); }};
}

TEST(Define, an_operator_has_a_kernel_and_a_gradient) {
  const Op& op = define("dispatch_test::twice(Tensor x) -> Tensor",
                        {.kernel = [](const Arg* a, Value* r) { r[0] = a[0].tensor() * 2; },
                         .grad = [](GradContext& c) { c.set(0, c.grad() * 2); }});
  EXPECT_EQ(&get_op("dispatch_test::twice"), &op);
  Tensor x = tensor({1.f, -3.f}).requires_grad_();
  Arg args[] = {x};
  Tensor y = call1(op, args);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{2, -6}));
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 2}));
}

TEST(Define, the_last_of_64_arguments_has_its_gradient_too) {
  const Op& op = define(schema_of("dispatch_test::wide", 64),
                        {.kernel = [](const Arg* a, Value* r) { r[0] = a[0].tensor() + a[63].tensor() * 3; },
                         .grad =
                             [](GradContext& c) {
                               if (c.wants(0)) c.set(0, c.grad());
                               if (c.wants(63)) c.set(63, c.grad() * 3);
                             }});
  std::vector<Tensor> tensors;
  for (int i = 0; i < 64; ++i) tensors.push_back(tensor({1.f}));
  tensors[63].requires_grad_();
  std::vector<Arg> args(tensors.begin(), tensors.end());
  call1(op, args.data()).backward();
  EXPECT_EQ(tensors[63].grad().item<float>(), 3);
  EXPECT_FALSE(tensors[0].grad().defined());
}

TEST(Define, more_arguments_or_results_than_there_are_bits_are_refused) {
  EXPECT_THAT(
      error_of(schema_of("dispatch_test::wider", 65), first_argument()),
      HasSubstr("define: dispatch_test::wider has 65 arguments and 1 results; an operator has at most 64"));
  EXPECT_THAT(error_of(schema_of("dispatch_test::many", 1, 33), first_argument()),
              HasSubstr("has 1 arguments and 33 results"));
  EXPECT_EQ(find_op(std::string_view("dispatch_test::wider")), nullptr);
}

TEST(Define, what_is_wrong_is_named) {
  EXPECT_THAT(error_of("aten::relu(Tensor self) -> Tensor", first_argument()),
              HasSubstr("the operator aten::relu exists already"));
  EXPECT_THAT(error_of("dispatch_test::empty(Tensor x) -> Tensor", {}),
              HasSubstr("needs a kernel or a body"));
}

TEST(Define, threads_define_and_look_up_at_the_same_time) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < 20; ++i) {
        std::string name = "dispatch_test::thread" + std::to_string(t) + "_" + std::to_string(i);
        define(name + "(Tensor x) -> Tensor", first_argument());
        define("dispatch_test::shared.from" + std::to_string(t) + "_" + std::to_string(i) +
                   "(Tensor x) -> Tensor",
               first_argument());
        get_op(name);
        get_op("aten::relu").schema();
        EXPECT_FALSE(overloads(Symbol("dispatch_test::shared")).empty());
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(overloads(Symbol("dispatch_test::shared")).size(), 80u);
}

TEST(Define, of_two_threads_with_one_name_one_is_refused) {
  std::vector<std::thread> threads;
  std::vector<std::string> errors(4);
  for (std::string& error : errors)
    threads.emplace_back(
        [&] { error = error_of("dispatch_test::contended(Tensor x) -> Tensor", first_argument()); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::count(errors.begin(), errors.end(), ""), 1);
  EXPECT_EQ(overloads(Symbol("dispatch_test::contended")).size(), 1u);
}

// Loops, schemas and shapes are resolved when first needed, by whoever comes first.
TEST(Define, threads_may_be_the_first_to_call_an_operator) {
  std::vector<std::thread> threads;
  std::vector<double> found(4);
  for (double& d : found)
    threads.emplace_back([&d] {
      Tensor x = tensor({0.5f, -2.f});
      d = (erf(x) + sqrt(abs(x)) + log(sigmoid(x))).sum().item<double>();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(found[0], 0);
  for (double d : found) EXPECT_EQ(d, found[0]);
}

}  // namespace
}  // namespace tern
