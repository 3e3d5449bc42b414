#include "tern/base/few.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

using tern::Few;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

namespace {

using Words = Few<std::string, 2>;

const std::string long_word(100, 'x');

}  // namespace

TEST(Few, keeps_what_fits_in_place_and_the_rest_on_the_heap) {
  Words w{"one", long_word};
  EXPECT_THAT(w, ElementsAre("one", long_word));
  const std::string* before = w.data();
  w.push_back("three");
  EXPECT_NE(w.data(), before);
  EXPECT_THAT(w, ElementsAre("one", long_word, "three"));
}

TEST(Few, moves_leave_nothing_behind) {
  for (size_t n : {1u, 5u}) {
    Words from;
    for (size_t i = 0; i < n; ++i) from.push_back(long_word);
    Words to(std::move(from));
    EXPECT_THAT(from, IsEmpty());
    EXPECT_EQ(to.size(), n);
    from = std::move(to);
    EXPECT_THAT(to, IsEmpty());
    EXPECT_EQ(from.back(), long_word);
  }
}

TEST(Few, copies_are_their_own) {
  Words a{"one", "two", "three"}, b(a);
  b[0] = "other";
  EXPECT_EQ(a[0], "one");
  a = b;
  EXPECT_THAT(a, ElementsAre("other", "two", "three"));
  Words& same = a;
  a = same;
  EXPECT_EQ(a.size(), 3u);
}

TEST(Few, an_item_of_its_own_may_be_added_while_it_grows) {
  Words w{long_word, "two"};
  w.push_back(w[0]);
  EXPECT_EQ(w[2], long_word);
}

TEST(Few, destroys_each_item_once) {
  auto counted = std::make_shared<int>(1);
  {
    Few<std::shared_ptr<int>, 2> w;
    for (int i = 0; i < 5; ++i) w.push_back(counted);
    EXPECT_EQ(counted.use_count(), 6);
    w.resize(3);
    EXPECT_EQ(counted.use_count(), 4);
    w.resize(4);
    EXPECT_EQ(w.back(), nullptr);
    w.clear();
    EXPECT_EQ(counted.use_count(), 1);
    w.push_back(counted);
  }
  EXPECT_EQ(counted.use_count(), 1);
}
