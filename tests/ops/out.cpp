// out=: what is refused, what is resized and what is said, for every operator by the same path.
#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/base/warning.h"
#include "tern/dispatch/ladder.h"
#include "tern/ops.h"

namespace tern {
namespace {

// The operator's out= form; what it throws is given back as text.
std::string call_out(const char* name, std::vector<Value> args) {
  const Op& op = get_op(name);
  try {
    Bound bound(op, std::move(args));
    Value results[4];
    call(op, bound.args(), results);
    return "";
  } catch (const Error& e) {
    return e.message();
  }
}

TEST(OutArguments, a_type_that_does_not_hold_the_result_is_refused) {
  Tensor x = ones({2, 3});
  EXPECT_EQ(call_out("aten::add.out", {x, x, 1, zeros({2, 3}, kLong)}),
            "result type Float can't be cast to the desired output type Long");
  EXPECT_EQ(call_out("aten::add.out", {x, x, 1, zeros({2, 3}, kDouble)}), "");
}

TEST(OutArguments, kernels_that_do_not_cast_want_the_type_of_the_result) {
  Tensor x = ones({2, 3});
  EXPECT_EQ(call_out("aten::mm.out", {x, ones({3, 2}), zeros({2, 2}, kDouble)}),
            "Expected out tensor to have dtype float, but got double instead");
  EXPECT_EQ(call_out("aten::argmax.out", {x, 1, false, zeros({2}, kByte)}),
            "Expected out tensor to have dtype long int, but got unsigned char instead");
  EXPECT_EQ(call_out("aten::neg.out", {x, zeros({2, 3}, kDouble)}), "Found dtype Double but expected Float");
  // These do.
  EXPECT_EQ(call_out("aten::mean.out", {x, Value::list({Value(1)}), false, Value(), zeros({2}, kDouble)}),
            "");
  EXPECT_EQ(call_out("aten::cat.out", {Value::list({Value(x)}), 0, zeros({2, 3}, kDouble)}), "");
  // And any and all know two.
  EXPECT_EQ(call_out("aten::any.out", {x, 1, false, zeros({2}, kByte)}), "");
  EXPECT_EQ(call_out("aten::any.out", {x, 1, false, zeros({2}, kFloat)}),
            "Expected out tensor to have dtype bool, but got float instead");
}

TEST(OutArguments, sums_along_dimensions_take_its_type) {
  Tensor x = full({2, 3}, 1.75), whole = zeros({2}, kLong);
  EXPECT_EQ(call_out("aten::sum.IntList_out", {x, Value::list({Value(1)}), false, Value(), whole}), "");
  EXPECT_EQ(whole.to_vector<int64_t>(), (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(call_out("aten::cumsum.out", {x, 1, Value(), zeros({2, 3}, kBool)}),
            "\"cumsum_out_cpu\" not implemented for 'Bool'");
  // A tensor without dims or elements is filled before the type is looked at.
  Tensor flag = zeros({}, kBool);
  EXPECT_EQ(call_out("aten::cumprod.out", {tensor(2.0), 0, Value(), flag}), "");
  EXPECT_TRUE(flag.item<bool>());
  EXPECT_EQ(call_out("aten::cumsum.out", {zeros({0}), 0, Value(), zeros({0}, kBool)}), "");
  EXPECT_EQ(call_out("aten::nansum.out", {x, Value(), false, Value(), zeros({}, kLong)}),
            "\"nansum_cpu\" not implemented for 'Long'");
  EXPECT_EQ(call_out("aten::sum.out", {x, Value(), zeros({}, kLong)}),
            "Expected out tensor to have dtype float, but got long int instead");
}

TEST(OutArguments, a_tensor_with_elements_is_resized_with_a_warning) {
  Tensor x = ones({2, 3});
  std::vector<std::string> said;
  OnWarning listen([&](const Warning& w) { said.push_back(w.category + ": " + w.text); });
  Tensor four = zeros({4}), none = zeros({0}), right = zeros({2, 3});
  EXPECT_EQ(call_out("aten::add.out", {x, x, 1, none}), "");
  EXPECT_EQ(call_out("aten::add.out", {x, x, 1, right}), "");
  EXPECT_TRUE(said.empty());
  EXPECT_EQ(call_out("aten::add.out", {x, x, 1, four}), "");
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(
      said[0],
      "UserWarning: An output with one or more elements was resized since it had shape [4], which does "
      "not match the required output shape [2, 3]. This behavior is deprecated, and in a future PyTorch "
      "release outputs will not be resized unless they have zero elements. You can explicitly reuse an "
      "out tensor t by resizing it, inplace, to zero elements with t.resize_(0).");
  EXPECT_EQ(str(four.sizes()), "[2, 3]");
  // An operator whose result is made first and copied.
  Tensor places = zeros({1}, kLong);
  EXPECT_EQ(call_out("aten::nonzero.out", {x, places}), "");
  EXPECT_EQ(said.size(), 2u);
  EXPECT_EQ(str(places.sizes()), "[6, 2]");
}

TEST(OutArguments, there_is_no_history_through_them) {
  Tensor x = ones({2, 3}), leaf = ones({2, 3});
  leaf.requires_grad_();
  const char* said =
      "(): functions with out=... arguments don't support automatic differentiation, but one of the "
      "arguments "
      "requires grad.";
  EXPECT_EQ(call_out("aten::add.out", {leaf, x, 1, zeros({2, 3})}), std::string("add") + said);
  EXPECT_EQ(call_out("aten::mm.out", {leaf, x.t(), zeros({2, 2})}), std::string("mm") + said);
  EXPECT_EQ(call_out("aten::add.out", {x, x, 1, leaf}), std::string("add") + said);
  EXPECT_EQ(call_out("aten::eq.Tensor_out", {leaf, x, zeros({2, 3}, kBool)}), "");  // never has one
  NoGrad no_grad;
  EXPECT_EQ(call_out("aten::add.out", {leaf, x, 1, zeros({2, 3})}), "");
}

}  // namespace
}  // namespace tern
