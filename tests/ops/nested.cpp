// Nested tensors from C++: what they are, which rules they follow, and who refuses them. The numbers of each
// operator are held against PyTorch's in tests/python/test_nested.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/dispatch/ladder.h"
#include "tern/ops.h"
#include "tern/tensor/files.h"
#include "tern/tensor/nesting.h"
#include "tests/support/gradcheck.h"

namespace tern {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<Tensor> rows() {
  return {arange(6.0, kDouble).reshape({2, 3}), arange(12.0, kDouble).reshape({4, 3})};
}
Tensor ragged() { return nested_tensor(rows()); }
Tensor of(const char* name, const Tensor& t) {
  Arg args[] = {t};
  return call1(get_op(name), args);
}

TEST(Nested, IsARowOfTensorsInOneBuffer) {
  Tensor t = ragged();
  EXPECT_TRUE(t.is_nested());
  EXPECT_FALSE(t.is_quantized());
  EXPECT_EQ(t.dim(), 3);
  EXPECT_EQ(t.numel(), 18);
  EXPECT_TRUE(t.is_contiguous());
  EXPECT_EQ(t.size(0), 2);
  EXPECT_EQ(t.size(-1), 3);
  EXPECT_EQ(of("aten::values", t).to_vector<double>().size(), 18u);
  EXPECT_EQ(of("aten::_nested_tensor_size", t).to_vector<int64_t>(), (std::vector<int64_t>{2, 3, 4, 3}));
  EXPECT_EQ(of("aten::_nested_tensor_strides", t).to_vector<int64_t>(), (std::vector<int64_t>{3, 1, 3, 1}));
  EXPECT_EQ(of("aten::_nested_tensor_storage_offsets", t).to_vector<int64_t>(), (std::vector<int64_t>{0, 6}));
}

TEST(Nested, OrdinaryTensorsCarryNothingOfIt) {
  Tensor t = ones({2});
  EXPECT_FALSE(t->rungs & rung_meaning);
  EXPECT_FALSE(t->meaning);
  for (const Tensor& part : ragged().unbind()) EXPECT_FALSE(part->rungs & rung_meaning);
}

TEST(Nested, SizesThatDifferAreRefusedInPyTorchsWords) {
  Tensor t = ragged();
  EXPECT_THAT([&] { t.size(1); },
              ThrowsMessage<Error>(HasSubstr("Given dimension 1 is irregular and does not have a size.")));
  EXPECT_THAT([&] { t.stride(1); },
              ThrowsMessage<Error>(HasSubstr("NestedTensorImpl doesn't support strides")));
  EXPECT_THAT([&] { t.to_vector<double>(); }, ThrowsMessage<Error>(HasSubstr("the tensor is nested")));
  EXPECT_THAT([&] { t.data_ptr<double>(); }, ThrowsMessage<Error>(HasSubstr("the tensor is nested")));
  EXPECT_THAT([&] { t.item(); }, ThrowsMessage<Error>(HasSubstr("aten::item")));
  EXPECT_THAT(
      [&] {
        nested_tensor({ones({2}), ones({2, 2})});
      },
      ThrowsMessage<Error>(HasSubstr("All Tensors given to nested_tensor must have the same dimension")));
}

TEST(Nested, ViewsShareTheBuffer) {
  Tensor t = ragged();
  t.unbind()[0].zero_();
  t[1].select(0, 0).fill_(9);
  t.transpose(1, 2)[1].select(1, 3).fill_(8);
  EXPECT_EQ(t[0].to_vector<double>(), std::vector<double>(6, 0.0));
  EXPECT_EQ(t[1].to_vector<double>(), (std::vector<double>{9, 9, 9, 3, 4, 5, 6, 7, 8, 8, 8, 8}));
}

TEST(Nested, InPlaceChangesCountAsChangesOfTheBuffer) {
  Tensor t = ragged();
  uint32_t before = t.version();
  t.mul_(2);
  EXPECT_GT(t.version(), before);
  EXPECT_EQ(t[0].to_vector<double>(), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  t.transpose(1, 2).add_(t.transpose(1, 2).contiguous());
  EXPECT_EQ(t[0].to_vector<double>(), (std::vector<double>{0, 4, 8, 12, 16, 20}));
}

TEST(Nested, EveryPointwiseOperatorIsThatOfTheTensors) {
  int tried = 0;
  for (const Op* op : all_ops()) {
    if (!op->is(op_pointwise) || op->arity != 1 || op->results != 1 || op->is(op_random)) continue;
    std::vector<Tensor> expected;
    try {
      for (const Tensor& part : rows()) {
        Arg args[] = {part};
        expected.push_back(call1(*op, args));
      }
    } catch (const Error&) {
      continue;  // not for float64
    }
    Tensor t = ragged();
    Arg args[] = {t};
    Tensor result = call1(*op, args);
    ASSERT_TRUE(result.is_nested()) << op->qualified();
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(result.unbind()[i].dtype(), expected[i].dtype()) << op->qualified();
      ASSERT_TRUE(allclose(result.unbind()[i], expected[i], 0, 0, true)) << op->qualified();
    }
    ++tried;
  }
  EXPECT_GT(tried, 40);
}

TEST(Nested, AnOperatorWithoutARuleIsRefusedByName) {
  Tensor t = ragged();
  EXPECT_THAT([&] { cumsum(t, 1); }, ThrowsMessage<Error>(HasSubstr("Could not run 'aten::cumsum'")));
  EXPECT_THAT(
      [&] {
        t.permute({0, 2, 1});
      },
      ThrowsMessage<Error>(HasSubstr("Could not run 'aten::permute'")));
  EXPECT_THAT([&] { flatten(t); }, ThrowsMessage<Error>(HasSubstr("Could not run 'aten::flatten")));
  EXPECT_THAT([&] { cat({t, ones({2, 2, 3}, kDouble)}); }, ThrowsMessage<Error>(HasSubstr("'aten::cat'")));
}

// Every operator that takes one tensor either refuses or says the same as for the tensors one by one.
TEST(Nested, NoOperatorTakesANestedTensorForAPlainOne) {
  for (const Op* op : all_ops()) {
    const Schema& s = op->schema();
    if (s.args.empty() || op->results != 1 || op->is(op_inplace | op_out | op_random) ||
        s.args[0].type.base != BaseType::tensor || s.args[0].type.list)
      continue;
    bool simple = true;
    for (size_t i = 1; i < s.args.size(); ++i) simple &= s.args[i].default_value.has_value();
    if (!simple || s.name.view().find("nested") != std::string_view::npos ||
        s.name.view() == "aten::values" || s.name.view() == "aten::values_copy" ||
        s.name.view() == "aten::unbind")
      continue;
    std::vector<Tensor> same = {ones({2, 3}, kDouble), ones({2, 3}, kDouble)};  // no size gives it away
    Value given[] = {Value(nested_tensor(same))};
    Value result;
    try {
      Bound bound(*op, given);
      call(*op, bound.args(), &result);
    } catch (const Error&) {
      continue;
    }
    if (!result.is_tensor()) continue;
    EXPECT_TRUE(result.tensor().is_nested()) << op->qualified();
  }
}

TEST(Nested, GradientsAreThoseOfTheTensors) {
  std::vector<Tensor> parts = rows();
  for (Tensor& p : parts) p = (p / 7 - 0.4).detach().requires_grad_();
  auto f = [](const std::vector<Tensor>& in) {
    Tensor t = nested_tensor(in);
    return to_padded_tensor((t.sin() * t).softmax(-1).transpose(1, 2).contiguous(), 0.5);
  };
  testing::check_gradient("nested", f, parts);
  testing::check_second_gradient("nested", f, parts);
  auto views = [](const std::vector<Tensor>& in) {
    Tensor t = nested_tensor(in) * 2.0;
    return t.select(2, 1)[1] * t[1].select(1, 0) + t.transpose(1, 2)[1].select(0, 2);
  };
  testing::check_gradient("views of nested", views, parts);
}

TEST(Nested, WhatCannotHoldThemRefuses) {
  EXPECT_THAT([&] { nested_tensor({make_tensor({SymInt(2)}, kFloat, kMeta)}); },
              ThrowsMessage<Error>(HasSubstr("it needs tensors with data")));
  EXPECT_THAT([&] { save_npy("/nowhere/x.npy", ragged()); },
              ThrowsMessage<Error>(HasSubstr("a nested tensor is not supported here")));
}

TEST(Nested, ViewsOfABufferStayInIt) {
  const Op& op = get_op("aten::_nested_view_from_buffer");
  Tensor buffer = arange(10.0, kDouble), offsets = tensor({0, 4}, {.dtype = kLong});
  Tensor sizes = tensor({2, 2, 1, 3}, {.dtype = kLong}).reshape({2, 2}),
         strides = tensor({1, 2, 3, 1}, {.dtype = kLong}).reshape({2, 2});
  Arg args[] = {buffer, sizes, strides, offsets};
  EXPECT_EQ(call1(op, args).unbind()[0].to_vector<double>(), (std::vector<double>{0, 2, 1, 3}));
  for (int64_t wrong : {-1, 8, 1000}) {
    Tensor at = tensor({int64_t{0}, wrong});
    Arg bad[] = {buffer, sizes, strides, at};
    EXPECT_THAT([&] { call1(op, bad); }, ThrowsMessage<Error>(HasSubstr("reaches out of its buffer")));
  }
  Tensor huge = tensor({int64_t{2}, int64_t{2}, int64_t{1} << 40, int64_t{1} << 40}).reshape({2, 2});
  Arg bad[] = {buffer, huge, strides, offsets};
  EXPECT_THAT([&] { call1(op, bad); }, ThrowsMessage<Error>(HasSubstr("reaches out of its buffer")));
}

TEST(Nested, PrintsAsPyTorchDoes) {
  EXPECT_EQ(nested_tensor({ones({2}), full({1}, 2.0)}).str(),
            "nested_tensor([\n  tensor([1., 1.]),\n  tensor([2.])\n])");
}

}  // namespace
}  // namespace tern
