#include "tern/base/symbol.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <unordered_set>
#include <vector>

using tern::Symbol;

TEST(Symbol, equal_text_is_equal_symbol) {
  Symbol a("weight"), b(std::string("weight")), c("bias");
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.id(), b.id());
  EXPECT_FALSE(a == c);
  EXPECT_EQ(a.view(), "weight");
  EXPECT_EQ(a.str(), "weight");
  EXPECT_STREQ(a.c_str(), "weight");
}

TEST(Symbol, empty_text_is_the_default) {
  EXPECT_TRUE(Symbol().empty());
  EXPECT_TRUE(Symbol("").empty());
  EXPECT_EQ(Symbol(), Symbol(""));
  EXPECT_EQ(Symbol().view(), "");
  EXPECT_STREQ(Symbol().c_str(), "");
  EXPECT_FALSE(Symbol("x").empty());
}

TEST(Symbol, keeps_bytes_after_a_zero) {
  std::string_view text("a\0b", 3);
  EXPECT_EQ(Symbol(text).view(), text);
  EXPECT_FALSE(Symbol(text) == Symbol("a"));
}

TEST(Symbol, copies_the_text) {
  std::string text = "conv1.weight";
  Symbol s(text);
  text.assign("overwritten!");
  EXPECT_EQ(s.view(), "conv1.weight");
}

TEST(Symbol, views_stay_valid_while_the_table_grows) {
  Symbol first("symbol_test.first");
  const char* place = first.c_str();
  std::vector<Symbol> many;
  for (int i = 0; i < 20000; ++i) many.emplace_back("symbol_test." + std::to_string(i));
  EXPECT_EQ(first.c_str(), place);
  for (int i = 0; i < 20000; i += 97) ASSERT_EQ(many[i].view(), "symbol_test." + std::to_string(i));
  EXPECT_EQ(Symbol("symbol_test.19999"), many.back());
}

TEST(Symbol, orders_by_age_and_hashes) {
  Symbol older("symbol_test.older"), newer("symbol_test.newer");
  EXPECT_TRUE(older < newer);
  EXPECT_FALSE(newer < older);
  std::unordered_set<Symbol> set{older, newer, Symbol("symbol_test.older")};
  EXPECT_EQ(set.size(), 2u);
}

TEST(Symbol, is_the_same_from_every_thread) {
  constexpr int threads = 4, names = 2000;
  std::vector<std::vector<Symbol>> made(threads);
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      for (int i = 0; i < names; ++i) made[t].emplace_back("symbol_test.thread." + std::to_string(i));
    });
  for (auto& worker : workers) worker.join();
  for (int t = 1; t < threads; ++t) EXPECT_EQ(made[t], made[0]);
  for (int i = 0; i < names; ++i) ASSERT_EQ(made[0][i].view(), "symbol_test.thread." + std::to_string(i));
}
