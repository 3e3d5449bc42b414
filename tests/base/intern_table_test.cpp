#include "tern/base/intern_table.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <thread>
#include <vector>

using tern::InternTable;

namespace {

// Texts by their length: many are of one hash.
struct Texts {
  const std::string* get(const std::string& text) {
    return table.find_or_add(
        text.size(), [&](const std::string& kept) { return kept == text; },
        [&] { return &kept.emplace_back(text); });
  }
  InternTable<std::string> table{2};
  std::deque<std::string> kept;
};

}  // namespace

TEST(InternTable, what_is_equal_is_kept_once) {
  Texts texts;
  const std::string* first = texts.get("weight");
  EXPECT_EQ(*first, "weight");
  EXPECT_EQ(texts.get("weight"), first);
  EXPECT_EQ(texts.kept.size(), 1u);
}

TEST(InternTable, what_has_the_same_hash_stays_apart) {
  Texts texts;
  const std::string *a = texts.get("aa"), *b = texts.get("bb");
  EXPECT_NE(a, b);
  EXPECT_EQ(texts.get("aa"), a);
  EXPECT_EQ(texts.get("bb"), b);
}

TEST(InternTable, finds_everything_after_it_has_grown) {
  Texts texts;
  std::vector<const std::string*> found;
  for (int i = 0; i < 500; ++i)
    found.push_back(texts.get(std::string(static_cast<size_t>(i % 50), 'x') + std::to_string(i)));
  for (int i = 0; i < 500; ++i)
    EXPECT_EQ(texts.get(std::string(static_cast<size_t>(i % 50), 'x') + std::to_string(i)),
              found[static_cast<size_t>(i)]);
  EXPECT_EQ(texts.kept.size(), 500u);
}

TEST(InternTable, threads_that_ask_for_the_same_get_the_same) {
  Texts texts;
  std::vector<std::vector<const std::string*>> found(4);
  std::vector<std::thread> threads;
  for (auto& mine : found)
    threads.emplace_back([&texts, &mine] {
      for (int i = 0; i < 1000; ++i) mine.push_back(texts.get(std::to_string(i)));
    });
  for (std::thread& t : threads) t.join();
  for (auto& mine : found) EXPECT_EQ(mine, found[0]);
  EXPECT_EQ(texts.kept.size(), 1000u);
}
