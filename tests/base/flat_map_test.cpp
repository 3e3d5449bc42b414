#include "tern/base/flat_map.h"

#include <gtest/gtest.h>

#include <string>
#include <unordered_map>

#include "tern/base/symbol.h"

namespace tern {
namespace {

TEST(FlatMap, few_entries) {
  FlatMap<int, std::string> map;
  EXPECT_TRUE(map.empty());
  EXPECT_EQ(map.find(1), map.end());
  EXPECT_TRUE(map.emplace(1, "one").second);
  EXPECT_FALSE(map.emplace(1, "uno").second);
  map[2] = "two";
  EXPECT_EQ(map.at(1), "one");
  EXPECT_EQ(map[2], "two");
  EXPECT_EQ(map[3], "");
  EXPECT_EQ(map.size(), 3u);
  EXPECT_EQ(map.erase(1), 1u);
  EXPECT_EQ(map.erase(1), 0u);
  EXPECT_FALSE(map.contains(1));
  EXPECT_EQ(map.size(), 2u);
}

TEST(FlatMap, entries_stay_in_the_order_in_which_they_came) {
  FlatMap<Symbol, int> map;
  for (int i = 0; i < 20; ++i) map["k" + std::to_string(i)] = i;
  for (const auto& [key, value] : map) EXPECT_EQ(key, Symbol("k" + std::to_string(value)));
  EXPECT_EQ(map.begin()->second, 0);
  EXPECT_EQ((map.end() - 1)->second, 19);
}

TEST(FlatMap, reserved_room_is_used_from_the_first_entry) {
  FlatMap<const int*, int> map;
  int numbers[100];
  map.reserve(100);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(map.emplace(&numbers[i], i).second);
    EXPECT_EQ(map.at(&numbers[i]), i);
  }
  map.clear();
  EXPECT_FALSE(map.contains(&numbers[0]));
  EXPECT_TRUE(map.emplace(&numbers[0], 1).second);
}

// The same steps as std::unordered_map: keys that collide, growth, and erasing in between.
TEST(FlatMap, as_the_standard_map) {
  FlatMap<int64_t, int64_t> map;
  std::unordered_map<int64_t, int64_t> model;
  uint64_t state = 1;
  for (int64_t i = 0; i < 200000; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    auto key = static_cast<int64_t>((state >> 33) % 700) << ((state >> 20) % 3 * 16);
    if (state >> 62 == 0) {
      EXPECT_EQ(map.erase(key), model.erase(key));
    } else {
      EXPECT_EQ(map.emplace(key, i).second, model.emplace(key, i).second);
    }
    if (i % 1000 == 0) {
      ASSERT_EQ(map.size(), model.size());
      for (const auto& [k, v] : model) ASSERT_EQ(map.at(k), v);
    }
  }
}

TEST(FlatSet, as_a_set) {
  FlatSet<uint32_t> set;
  for (uint32_t i = 0; i < 1000; ++i) EXPECT_TRUE(set.insert(i * 4096).second);
  for (uint32_t i = 0; i < 1000; ++i) EXPECT_FALSE(set.insert(i * 4096).second);
  EXPECT_FALSE(set.contains(1));
  for (uint32_t i = 0; i < 1000; i += 2) EXPECT_EQ(set.erase(i * 4096), 1u);
  for (uint32_t i = 0; i < 1000; ++i) EXPECT_EQ(set.contains(i * 4096), i % 2 == 1);
}

}  // namespace
}  // namespace tern
