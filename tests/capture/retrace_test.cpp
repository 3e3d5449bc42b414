// Running a graph again to record it: what a trace left behind in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/capture/retrace.h"
#include "tern/ir/text.h"

namespace tern::capture {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string retraced(std::string_view text) {
  return ir::print(*retrace(*ir::parse(text), {.expand = is_composite}).graph);
}

// The overload for tensors would have as many rows as the tensor says: a size nobody knows.
TEST(Retrace, a_size_that_a_trace_made_a_tensor_of_is_a_size_again) {
  std::string text = retraced(R"(
graph(%x : Float(2, 3)):
  %n : int = aten::size.int(%x, 1)
  %t : Tensor = prim::NumToTensor(%n)
  %r : Tensor = aten::repeat_interleave.self_Tensor(%x, %t, 0)
  return (%r)
)");
  EXPECT_THAT(text, HasSubstr("Float(6, 3, "));
  EXPECT_THAT(text, Not(HasSubstr("repeat_interleave")));
}

TEST(Retrace, a_number_that_is_data_stays_a_tensor) {
  std::string text = retraced(R"(
graph(%x : Float(2, 3), %t : Long(1)):
  %r : Tensor = aten::repeat_interleave.self_Tensor(%x, %t, 0)
  return (%r)
)");
  EXPECT_THAT(text, HasSubstr("aten::repeat_interleave.Tensor"));
}

}  // namespace
}  // namespace tern::capture
