#include "tern/base/arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

using tern::Arena;

TEST(Arena, gives_aligned_memory) {
  Arena arena;
  for (size_t align : {1, 2, 8, 16, 64, 256}) {
    arena.allocate(1, 1);
    auto at = reinterpret_cast<uintptr_t>(arena.allocate(24, align));
    EXPECT_EQ(at % align, 0u) << align;
  }
}

TEST(Arena, allocations_do_not_overlap) {
  Arena arena(64);
  std::vector<unsigned char*> blocks;
  for (size_t i = 0; i < 500; ++i) {
    auto* block = static_cast<unsigned char*>(arena.allocate(1 + i % 37));
    std::memset(block, static_cast<int>(i % 251), 1 + i % 37);
    blocks.push_back(block);
  }
  for (size_t i = 0; i < 500; ++i)
    for (size_t k = 0; k < 1 + i % 37; ++k) ASSERT_EQ(blocks[i][k], i % 251) << i;
}

TEST(Arena, takes_what_is_larger_than_a_block) {
  Arena arena(64);
  auto* large = static_cast<char*>(arena.allocate(1 << 20, 64));
  std::memset(large, 1, 1 << 20);
  EXPECT_GE(arena.bytes(), size_t{1} << 20);
  auto* small = arena.make<int>(3);
  EXPECT_EQ(*small, 3);
  EXPECT_EQ(large[(1 << 20) - 1], 1);
}

TEST(Arena, makes_objects_and_arrays) {
  struct Node {
    int value = 7;
    Node* next = nullptr;
  };
  Arena arena;
  EXPECT_EQ(arena.bytes(), 0u);
  Node* head = arena.make<Node>(1, arena.make<Node>(2, nullptr));
  EXPECT_EQ(head->next->value, 2);
  Node* many = arena.make_array<Node>(1000);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(many[i].value, 7);
  EXPECT_GE(arena.bytes(), 1000 * sizeof(Node));
}

TEST(Arena, grows_by_few_blocks) {
  Arena arena;
  for (int i = 0; i < 100000; ++i) arena.allocate(16);
  EXPECT_GE(arena.bytes(), 1600000u);
  EXPECT_LE(arena.bytes(), 4800000u);
}

TEST(Arena, refuses_sizes_that_overflow) {
  Arena arena;
  arena.allocate(8);
  EXPECT_THROW(arena.allocate(SIZE_MAX), std::bad_alloc);
  EXPECT_THROW(arena.allocate(SIZE_MAX - 64), std::bad_alloc);
  EXPECT_THROW(arena.make_array<int64_t>(SIZE_MAX / 4), std::bad_alloc);
  EXPECT_EQ(*arena.make<int>(5), 5);
}

TEST(Arena, zero_bytes_is_no_error) {
  Arena arena;
  EXPECT_NE(arena.allocate(0), nullptr);
  EXPECT_NE(arena.make_array<int>(0), nullptr);
}
