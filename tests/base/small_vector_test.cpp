#include "tern/base/small_vector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

using tern::SmallVector;
using tern::Span;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

namespace {

using Sizes = SmallVector<int64_t, 3>;

bool in_place(const Sizes& v) {
  auto* from = reinterpret_cast<const char*>(&v);
  auto* data = reinterpret_cast<const char*>(v.data());
  return data >= from && data < from + sizeof v;
}

Sizes counting(int64_t n) {
  Sizes v;
  for (int64_t i = 0; i < n; ++i) v.push_back(i);
  return v;
}

}  // namespace

TEST(SmallVector, is_made_from_lists_spans_and_counts) {
  EXPECT_THAT(Sizes(), IsEmpty());
  EXPECT_THAT(Sizes({2, 3}), ElementsAre(2, 3));
  EXPECT_THAT(Sizes(4, 7), ElementsAre(7, 7, 7, 7));
  int64_t raw[] = {5, 6, 7, 8};
  EXPECT_THAT(Sizes(Span<const int64_t>(raw)), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(Sizes(raw, 0), IsEmpty());
  EXPECT_THAT(Sizes(Span<const int64_t>()), IsEmpty());
}

TEST(SmallVector, leaves_its_place_only_when_it_must) {
  EXPECT_TRUE(in_place(counting(3)));
  Sizes v = counting(4);
  EXPECT_FALSE(in_place(v));
  EXPECT_THAT(v, ElementsAre(0, 1, 2, 3));
  for (int64_t i = 4; i < 1000; ++i) v.push_back(i);
  for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(v[i], i);
}

TEST(SmallVector, push_back_takes_an_own_element_while_growing) {
  Sizes v{1, 2, 3};
  v.push_back(v[0]);
  EXPECT_THAT(v, ElementsAre(1, 2, 3, 1));
}

TEST(SmallVector, copies_are_independent) {
  for (int64_t n : {0, 3, 10}) {
    Sizes v = counting(n), copy = v;
    EXPECT_EQ(copy, v);
    copy.push_back(-1);
    EXPECT_EQ(v, counting(n));
    v = copy;
    EXPECT_EQ(v.size(), static_cast<size_t>(n) + 1);
    EXPECT_EQ(v.back(), -1);
  }
}

TEST(SmallVector, assigning_itself_changes_nothing) {
  Sizes v = counting(5);
  Sizes& same = v;
  v = same;
  EXPECT_EQ(v, counting(5));
  v = std::move(same);
  EXPECT_EQ(v, counting(5));
}

TEST(SmallVector, moving_leaves_an_empty_usable_source) {
  for (int64_t n : {2, 10}) {
    Sizes from = counting(n), to = std::move(from);
    EXPECT_EQ(to, counting(n));
    EXPECT_TRUE(from.empty());
    from.push_back(9);
    EXPECT_THAT(from, ElementsAre(9));
    Sizes assigned = counting(7);
    assigned = std::move(to);
    EXPECT_EQ(assigned, counting(n));
  }
}

TEST(SmallVector, inserts_and_erases_anywhere) {
  Sizes v{1, 2, 3};
  v.insert(0, 0);
  v.insert(4, 9);
  v.insert(2, 5);
  EXPECT_THAT(v, ElementsAre(0, 1, 5, 2, 3, 9));
  v.erase(0);
  v.erase(4);
  v.erase(1);
  EXPECT_THAT(v, ElementsAre(1, 2, 3));
  v.pop_back();
  v.clear();
  EXPECT_TRUE(v.empty());
}

TEST(SmallVector, resize_fills_and_cuts) {
  Sizes v{1};
  v.resize(5, 4);
  EXPECT_THAT(v, ElementsAre(1, 4, 4, 4, 4));
  v.resize(2);
  EXPECT_THAT(v, ElementsAre(1, 4));
  v.resize(3);
  EXPECT_THAT(v, ElementsAre(1, 4, 0));
}

TEST(SmallVector, compares_size_and_elements) {
  EXPECT_EQ(Sizes({1, 2}), Sizes({1, 2}));
  EXPECT_FALSE(Sizes({1, 2}) == Sizes({1, 3}));
  EXPECT_FALSE(Sizes({1, 2}) == Sizes({1, 2, 3}));
  EXPECT_EQ(Sizes(), Sizes());
}

TEST(SmallVector, refuses_sizes_that_overflow) {
  Sizes v{1, 2};
  EXPECT_THROW(v.reserve(SIZE_MAX / 8), std::bad_alloc);
  EXPECT_THROW(v.resize(SIZE_MAX), std::bad_alloc);
  EXPECT_THAT(v, ElementsAre(1, 2));
}

TEST(SmallVector, assigns_a_part_of_itself) {
  Sizes v = counting(6);
  v.assign(v.data() + 2, 3);
  EXPECT_THAT(v, ElementsAre(2, 3, 4));
}

TEST(Span, views_arrays_lists_and_containers) {
  auto sum = [](Span<const int64_t> s) {
    int64_t total = 0;
    for (int64_t x : s) total += x;
    return total;
  };
  int64_t raw[] = {1, 2, 3};
  EXPECT_EQ(sum(raw), 6);
  EXPECT_EQ(sum({4, 5}), 9);
  EXPECT_EQ(sum({}), 0);
  EXPECT_EQ(sum(std::vector<int64_t>{7, 8}), 15);
  EXPECT_EQ(sum(counting(5)), 10);
}

TEST(Span, cuts_from_both_ends) {
  int64_t raw[] = {1, 2, 3, 4};
  Span<const int64_t> s(raw);
  EXPECT_THAT(s.first(2), ElementsAre(1, 2));
  EXPECT_THAT(s.drop_front(3), ElementsAre(4));
  EXPECT_TRUE(s.drop_front(4).empty());
  EXPECT_EQ(s.front(), 1);
  EXPECT_EQ(s.back(), 4);
  EXPECT_EQ(s.vec(), (std::vector<int64_t>{1, 2, 3, 4}));
}
