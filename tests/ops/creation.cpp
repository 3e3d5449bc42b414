// Factories: dtypes, lengths, errors.
#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/io/file.h"
#include "tern/ops.h"

namespace tern::testing {
namespace {

std::string message(auto&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Creation, arange_counts_and_chooses_the_dtype_as_pytorch) {
  EXPECT_EQ(arange(5).dtype(), kLong);
  EXPECT_EQ(arange(2.5).to_vector<double>(), (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(arange(1, 2, 0.25).dtype(), kFloat);
  EXPECT_EQ(arange(5, 0, -2).to_vector<int64_t>(), (std::vector<int64_t>{5, 3, 1}));
  EXPECT_EQ(message([] { arange(1, 0); }), "upper bound and lower bound inconsistent with step sign");
  EXPECT_EQ(message([] { arange(0, 1, 0); }), "step must be nonzero");
}

TEST(Creation, fills) {
  EXPECT_EQ(full({2}, 3).dtype(), kLong);
  EXPECT_EQ(full({2}, true).dtype(), kBool);
  EXPECT_EQ(eye(2, 3).to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(linspace(0, 1, 5).to_vector<double>(), (std::vector<double>{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(tril(ones({2, 2}), -1).to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 1, 0}));
  EXPECT_EQ(one_hot(tensor({1, 0}), 3).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 0, 1, 0, 0}));
  EXPECT_EQ(message([] { one_hot(tensor({3}), 2); }), "Class values must be smaller than num_classes.");
}

TEST(Creation, like_keeps_the_order_of_dimensions) {
  Tensor t = zeros({2, 3}).t();
  EXPECT_EQ(str(zeros_like(t).strides()), "[1, 3]");
  EXPECT_EQ(str(zeros_like(t, {}, {}, {}, {}, MemoryFormat::contiguous).strides()), "[2, 1]");
  EXPECT_TRUE(ones({2}, {}, {}, kMeta).is_fake());
}

TEST(Creation, copies) {
  Tensor x = tensor({1.7, -1.7});
  EXPECT_TRUE(x.to(kFloat).is_same(x));
  EXPECT_EQ(x.to(kInt).to_vector<int64_t>(), (std::vector<int64_t>{1, -1}));
  Tensor y = zeros({2, 2});
  y.copy_(x);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1.7f, -1.7f, 1.7f, -1.7f}));
  EXPECT_EQ(message([&] { y.copy_(zeros({3})); }),
            "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1");
  EXPECT_EQ(message([&] { y.item(); }), "a Tensor with 4 elements cannot be converted to Scalar");
  EXPECT_EQ(message([&] {
              x.expand({3, 2}).copy_(zeros({3, 2}));
            }),
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location. Please "
            "clone() the tensor before performing the operation.");
}

TEST(Creation, from_a_file) {
  io::TemporaryDir folder;
  const std::string path = folder / "numbers";
  Tensor shared = from_file(path, true, 4, kInt);
  EXPECT_EQ(shared.to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 0, 0}));
  shared.copy_(arange(4));
  Tensor copy = from_file(path, false, 3, kInt);
  EXPECT_EQ(copy.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2}));
  copy.fill_(9);
  EXPECT_EQ(shared.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(message([&] { from_file(path, false, 5, kInt); }),
            "file <" + path + "> size <16> is smaller than the required mapping size <20>");
}

}  // namespace
}  // namespace tern::testing
