// Memory that may not be written to: PyTorch's rule and words.
#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/ops.h"
#include "tests/support/errors.h"

namespace tern {
namespace {

using tern::testing::error_of;
constexpr const char* partly =
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
    "memory location. Please clone() the tensor before performing the operation.";

TEST(Overlap, an_input_that_has_a_part_of_the_output_is_refused) {
  Tensor x = arange(6.);
  EXPECT_EQ(error_of([&] { add_(slice(x, 0, 1), slice(x, 0, 0, 5)); }), partly);
  EXPECT_EQ(error_of([&] { copy_(slice(x, 0, 1), slice(x, 0, 0, 5)); }), partly);
  Tensor out = slice(x, 0, 1);
  EXPECT_EQ(error_of([&] { add_out(out, slice(x, 0, 0, 5), x.select(0, 0)); }), partly);
  EXPECT_EQ(error_of([&] { add_(t(x.view(Dims{2, 3})), x.view(Dims{3, 2})); }), partly);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5})) << "nothing was written";
}

TEST(Overlap, what_is_gathered_from_is_not_written_over) {
  Tensor x = arange(6.), index = arange(2), part = slice(x, 0, 2, 4);
  EXPECT_EQ(error_of([&] { gather_out(part, x, 0, index); }), partly);
  EXPECT_EQ(error_of([&] { cat_out(x, {x}); }), partly);
  Tensor places = arange(3), grows = slice(places, 0, 0, 1);
  EXPECT_EQ(error_of([&] { gather_out(grows, arange(3), 0, slice(places, 0, 1)); }), partly);
  EXPECT_EQ(error_of([&] { scatter_(x, 0, index, slice(x, 0, 0, 2)); }), partly);
  EXPECT_EQ(error_of([&] { cumsum_out(part, slice(x, 0, 1, 3), 0); }), partly);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5})) << "nothing was written";
  cumsum_out(x, x, 0);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 1, 3, 6, 10, 15}));
}

TEST(Overlap, the_same_elements_or_none_are_fine) {
  Tensor x = arange(6.);
  add_(x, x);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 2, 4, 6, 8, 10}));
  add_(x, x.view(Dims{6}));
  add_(slice(x, 0, 0, 3), slice(x, 0, 3));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{12, 20, 28, 12, 16, 20}));
  // With gaps it is not looked into; a copy gives what was there before.
  mul_(slice(x, 0, 0, 6, 2), slice(x, 0, 1, 6, 2));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{240, 20, 336, 12, 320, 20}));
  copy_(slice(x, 0, 0, 6, 2), slice(x, 0, 0, 3));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{240, 20, 20, 12, 336, 20}));
  add_(slice(x, 0, 6), slice(x, 0, 6));
}

TEST(Overlap, one_place_for_several_elements_is_refused) {
  Tensor x = arange(3.).expand({2, 3});
  EXPECT_NE(error_of([&] { add_(x, 1); }).find("more than one element of the written-to tensor"),
            std::string::npos);
  EXPECT_NE(error_of([&] { copy_(x, ones({2, 3})); }).find("more than one element"), std::string::npos);
}

}  // namespace
}  // namespace tern
