#include "tern/runtime/layout.h"

#include <gtest/gtest.h>

#include <random>

namespace tern::runtime {
namespace {

TEST(Layout, memory_is_used_again_when_its_last_reader_is_done) {
  const Life lives[] = {{100, 0, 1}, {100, 1, 2}, {100, 2, 3}, {0, 3, 3}};
  Layout l = lay_out(lives);
  EXPECT_EQ(l.offsets, (std::vector<size_t>{0, 128, 0, 128}));
  EXPECT_EQ(l.bytes, 256u);
  EXPECT_EQ(lay_out({}).bytes, 0u);
}

TEST(Layout, neighbouring_holes_hold_one_block) {
  const Life lives[] = {{64, 0, 1}, {64, 0, 2}, {64, 0, 1}, {64, 0, 5}, {192, 3, 4}};
  Layout l = lay_out(lives);
  EXPECT_EQ(l.offsets[4], 0u);
  EXPECT_EQ(l.bytes, 256u);
}

TEST(Layout, blocks_that_live_at_the_same_time_do_not_meet) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<Life> lives(40);
    for (Life& l : lives) {
      l.bytes = random() % 1000;
      l.first = random() % 30;
      l.last = l.first + random() % 8;
    }
    Layout l = lay_out(lives);
    for (size_t a = 0; a < lives.size(); ++a) {
      ASSERT_EQ(l.offsets[a] % 64, 0u);
      ASSERT_LE(l.offsets[a] + lives[a].bytes, l.bytes);
      for (size_t b = 0; b < a; ++b) {
        const bool together = lives[a].first <= lives[b].last && lives[b].first <= lives[a].last;
        const bool apart =
            l.offsets[a] + lives[a].bytes <= l.offsets[b] || l.offsets[b] + lives[b].bytes <= l.offsets[a];
        ASSERT_TRUE(!together || apart) << a << " " << b;
      }
    }
  }
}

}  // namespace
}  // namespace tern::runtime
