// Owned and Shared: who ends what, and how they go with the standard library's.
#include "tern/base/pointer.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tern/base/counter.h"

using namespace tern;

namespace {

struct Base {
  virtual ~Base() = default;
};
struct Part : Base {
  explicit Part(int& ended) : ended_(ended) {}
  ~Part() override { ++ended_; }

 private:
  int& ended_;
};

}  // namespace

TEST(Pointer, owned_ends_what_it_holds_once) {
  int ended = 0;
  {
    Owned<Part> a = new_owned<Part>(ended);
    Owned<Base> b = std::move(a);
    EXPECT_FALSE(a);
    EXPECT_TRUE(b);
    b = new_owned<Part>(ended);
    EXPECT_EQ(ended, 1);
    std::vector<Owned<Base>> list;
    list.push_back(std::move(b));
    list.push_back(nullptr);
    list.push_back(new_owned<Part>(ended));  // the others move
    EXPECT_EQ(ended, 1);
  }
  EXPECT_EQ(ended, 3);
  Part* freed = new_owned<Part>(ended).release();
  EXPECT_EQ(ended, 3);
  delete freed;
}

TEST(Pointer, owned_goes_with_unique_ptr) {
  int ended = 0;
  std::unique_ptr<Base> there = new_owned<Part>(ended);
  Owned<Base> back = std::move(there);
  EXPECT_FALSE(there);
  EXPECT_EQ(ended, 0);
  back.reset();
  EXPECT_EQ(ended, 1);
}

TEST(Pointer, shared_counts) {
  int ended = 0;
  Shared<Part> a = new_shared<Part>(ended);
  Shared<const Base> b = a;
  EXPECT_EQ(a.use_count(), 2u);
  Shared<void> c = a;
  Shared<Part> moved = std::move(a);
  EXPECT_TRUE(a == nullptr);
  EXPECT_EQ(moved.use_count(), 3u);
  Shared<Part>& itself = moved;
  moved = itself;
  c = nullptr;
  b.reset();
  EXPECT_EQ(moved.use_count(), 1u);
  EXPECT_EQ(ended, 0);
  moved = nullptr;
  EXPECT_EQ(ended, 1);
}

TEST(Pointer, shared_of_what_is_there_already) {
  int ended = 0;
  {
    Shared<Base> a(new Part(ended)), b = new_owned<Part>(ended), none = Owned<Part>();
    EXPECT_FALSE(none);
    EXPECT_EQ(none.use_count(), 0u);
    int number = 5;
    Shared<void> c(&number, [&](int* p) { ended += *p; });
    EXPECT_EQ(ended, 0);
  }
  EXPECT_EQ(ended, 7);
}

TEST(Pointer, shared_points_into_what_it_keeps) {
  auto words = new_shared<const std::vector<std::string>>(std::vector<std::string>{"a", "b"});
  Shared<const std::string> second(words, &(*words)[1]);
  words = nullptr;
  EXPECT_EQ(*second, "b");
}

TEST(Pointer, shared_goes_with_shared_ptr) {
  int ended = 0;
  {
    Shared<const void> kept = std::make_shared<Part>(ended);
    Shared<Base> none = std::shared_ptr<Base>();
    EXPECT_FALSE(none);
    std::shared_ptr<Base> there = Shared<Part>(new Part(ended));
    EXPECT_EQ(ended, 0);
    EXPECT_EQ(std::shared_ptr<Base>(none), nullptr);
  }
  EXPECT_EQ(ended, 2);
}

TEST(Pointer, an_object_hands_out_its_own) {
  struct Thing : SharedFromThis<Thing> {
    int number = 1;
  };
  Shared<Thing> a = new_shared<Thing>(), b(new Thing);
  EXPECT_TRUE(a->shared_from_this() == a);
  EXPECT_EQ(b->shared_from_this().use_count(), 2u);
  Shared<Thing> copy = new_shared<Thing>(*a);
  EXPECT_TRUE(copy->shared_from_this() == copy);
}

TEST(Pointer, shared_across_threads_ends_once) {
  for (int round = 0; round < 50; ++round) {
    int ended = 0;
    {
      Shared<Part> one = new_shared<Part>(ended);
      std::vector<std::thread> threads;
      for (int t = 0; t < 4; ++t)
        threads.emplace_back([mine = one]() mutable {
          for (int i = 0; i < 100; ++i) Shared<Part> copy = mine;
        });
      one = nullptr;
      for (std::thread& t : threads) t.join();
    }
    EXPECT_EQ(ended, 1);
  }
}

TEST(Pointer, published_is_set_once) {
  int a = 1, b = 2;
  Published<int> p;
  EXPECT_EQ(p.load(), nullptr);
  EXPECT_EQ(p.set_once(&a), &a);
  EXPECT_EQ(p.set_once(&b), &a);
  p.store(&b);
  EXPECT_EQ(p.load(), &b);
}
