#include "tern/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/base/format.h"
#include "tern/base/location.h"

using tern::Error;
using tern::ErrorKind;
using ::testing::EndsWith;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

namespace {

template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error("nothing");
}

}  // namespace

TEST(Error, fail_throws_message_and_kind) {
  Error plain = error_of([] { tern::fail("no such file"); });
  EXPECT_STREQ(plain.what(), "no such file");
  EXPECT_EQ(plain.kind(), ErrorKind::runtime);
  Error index = error_of([] { tern::fail(ErrorKind::index, "dim 4 is out of range"); });
  EXPECT_EQ(index.message(), "dim 4 is out of range");
  EXPECT_EQ(index.kind(), ErrorKind::index);
}

TEST(Error, failf_formats) {
  Error e = error_of([] { tern::failf("topk: k = {} is larger than {}", 7, "dim 0"); });
  EXPECT_STREQ(e.what(), "topk: k = 7 is larger than dim 0");
  EXPECT_EQ(error_of([] { tern::failf(ErrorKind::type, "got {}", 1.5); }).kind(), ErrorKind::type);
}

TEST(Error, context_goes_in_front_and_keeps_the_kind) {
  Error inner(ErrorKind::not_supported, "unfold has no ONNX form");
  Error outer = inner.with_context("lowering %u (net.cpp:12)").with_context("model.pt2");
  EXPECT_STREQ(outer.what(), "model.pt2: lowering %u (net.cpp:12): unfold has no ONNX form");
  EXPECT_EQ(outer.kind(), ErrorKind::not_supported);
  EXPECT_STREQ(inner.what(), "unfold has no ONNX form");
}

TEST(Error, is_a_standard_exception) {
  try {
    tern::fail("as std::exception");
  } catch (const std::exception& e) {
    EXPECT_STREQ(e.what(), "as std::exception");
    return;
  }
  FAIL() << "not caught";
}

TEST(Error, a_broken_invariant_names_condition_and_place) {
  int x = 1;
  TERN_ASSERT(x == 1);
  Error e = error_of([&] { TERN_ASSERT(x == 2); });
  EXPECT_EQ(e.kind(), ErrorKind::internal);
  EXPECT_THAT(e.message(), StartsWith("internal error: x == 2 does not hold at "));
  EXPECT_THAT(e.message(), MatchesRegex(".*tests/base/error_test.cpp:[0-9]+$"));
}

TEST(Loc, here_is_where_it_is_written) {
  auto where = [](tern::Loc loc = tern::Loc::here()) { return loc; };
  tern::Loc a = where();
  tern::Loc b = where();
  EXPECT_EQ(b.line, a.line + 1);
  // Relative to the root, whichever machine built it: no user's home folder ends in a binary.
  EXPECT_STREQ(a.file, "tests/base/error_test.cpp");
  EXPECT_THAT(std::string(a.function), EndsWith("TestBody()"));
  EXPECT_TRUE(a);
  EXPECT_FALSE(tern::Loc{});
}
