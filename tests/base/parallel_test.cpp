#include "tern/base/parallel.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "tern/base/error.h"

using tern::parallel_for;

namespace {

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

Ranges ranges_of(int64_t begin, int64_t end, int64_t grain) {
  Ranges ranges;
  std::mutex mutex;
  parallel_for(begin, end, grain, [&](int64_t from, int64_t to) {
    std::lock_guard lock(mutex);
    ranges.emplace_back(from, to);
  });
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

// Each test chooses its number of threads and leaves none behind.
class Parallel : public ::testing::Test {
 protected:
  int before = tern::num_threads();
  ~Parallel() override { tern::set_num_threads(before); }
};

}  // namespace

TEST_F(Parallel, covers_the_range_once) {
  for (int threads : {1, 2, 3, 8}) {
    tern::set_num_threads(threads);
    for (int64_t n : {1, 2, 7, 64, 1000, 1001})
      for (int64_t grain : {1, 3, 100, 5000}) {
        Ranges ranges = ranges_of(5, 5 + n, grain);
        ASSERT_FALSE(ranges.empty());
        EXPECT_LE(ranges.size(), static_cast<size_t>(threads));
        EXPECT_EQ(ranges.front().first, 5);
        EXPECT_EQ(ranges.back().second, 5 + n);
        for (size_t i = 1; i < ranges.size(); ++i) ASSERT_EQ(ranges[i].first, ranges[i - 1].second);
        for (auto [from, to] : ranges) ASSERT_LT(from, to);
      }
  }
}

TEST_F(Parallel, ranges_are_at_least_a_grain_long) {
  tern::set_num_threads(8);
  for (int64_t n : {7, 10, 100, 101, 799, 1000})
    for (int64_t grain : {1, 3, 7, 100})
      for (auto [from, to] : ranges_of(0, n, grain))
        EXPECT_GE(to - from, std::min(grain, n)) << n << " by " << grain;
}

TEST_F(Parallel, an_empty_range_calls_nothing) {
  EXPECT_TRUE(ranges_of(3, 3, 1).empty());
  EXPECT_TRUE(ranges_of(3, -3, 1).empty());
  EXPECT_TRUE(ranges_of(0, 0, 0).empty());
}

TEST_F(Parallel, a_grain_below_one_counts_as_one) {
  tern::set_num_threads(2);
  for (int64_t grain : {0, -5}) {
    Ranges ranges = ranges_of(0, 10, grain);
    ASSERT_FALSE(ranges.empty());
    EXPECT_EQ(ranges.front().first, 0);
    EXPECT_EQ(ranges.back().second, 10);
  }
}

TEST_F(Parallel, uses_several_threads) {
  tern::set_num_threads(2);
  std::mutex mutex;
  std::vector<std::thread::id> ids;
  parallel_for(0, 2, 1, [&](int64_t, int64_t) {
    EXPECT_TRUE(tern::in_parallel_region());
    std::lock_guard lock(mutex);
    ids.push_back(std::this_thread::get_id());
  });
  ASSERT_EQ(ids.size(), 2u);
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_FALSE(tern::in_parallel_region());
}

TEST_F(Parallel, nested_loops_run_in_the_thread_that_starts_them) {
  tern::set_num_threads(2);
  std::atomic<int> inner_ranges = 0, sum = 0;
  parallel_for(0, 2, 1, [&](int64_t, int64_t) {
    std::thread::id outer = std::this_thread::get_id();
    parallel_for(0, 100, 1, [&](int64_t from, int64_t to) {
      EXPECT_EQ(std::this_thread::get_id(), outer);
      ++inner_ranges;
      sum += static_cast<int>(to - from);
    });
  });
  EXPECT_EQ(inner_ranges, 2);
  EXPECT_EQ(sum, 200);
}

TEST_F(Parallel, an_exception_reaches_the_caller) {
  tern::set_num_threads(2);
  auto thrower = [](int64_t from, int64_t) {
    if (from > 0) tern::fail(tern::ErrorKind::value, "from the second part");
  };
  try {
    parallel_for(0, 100, 1, thrower);
    FAIL() << "nothing was thrown";
  } catch (const tern::Error& e) {
    EXPECT_STREQ(e.what(), "from the second part");
    EXPECT_EQ(e.kind(), tern::ErrorKind::value);
  }
}

TEST_F(Parallel, results_are_visible_afterwards) {
  tern::set_num_threads(4);
  std::vector<int64_t> squares(10000);
  parallel_for(0, 10000, 16, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) squares[i] = i * i;
  });
  for (int64_t i = 0; i < 10000; ++i) ASSERT_EQ(squares[i], i * i);
}

TEST_F(Parallel, thread_count_is_set_and_checked) {
  tern::set_num_threads(3);
  EXPECT_EQ(tern::num_threads(), 3);
  for (int n : {0, -1}) try {
      tern::set_num_threads(n);
      FAIL() << "accepted " << n;
    } catch (const tern::Error& e) {
      EXPECT_STREQ(e.what(), "set_num_threads: expected at least one thread");
      EXPECT_EQ(e.kind(), tern::ErrorKind::value);
    }
  EXPECT_EQ(tern::num_threads(), 3);
}

TEST_F(Parallel, the_limit_belongs_to_the_thread) {
  tern::set_num_threads(3);
  int other = 0;
  std::thread([&] {
    tern::set_num_threads(1);
    other = tern::num_threads();
  }).join();
  EXPECT_EQ(other, 1);
  EXPECT_EQ(tern::num_threads(), 3);
}

TEST_F(Parallel, share_does_each_item_once) {
  tern::set_num_threads(3);
  for (int64_t n : {0, 1, 2, 5, 1000}) {
    std::vector<int> done(static_cast<size_t>(n));  // not atomic: each has one writer, and all is seen after
    for (int round = 1; round <= 200; ++round) {
      tern::share(n, [&](int64_t i) { ++done[static_cast<size_t>(i)]; });
      for (int count : done) ASSERT_EQ(count, round);
    }
  }
}

// The others are woken, and come while the first waits for them.
TEST_F(Parallel, share_is_done_by_several_threads) {
  tern::set_num_threads(2);
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> here = 0;
    tern::share(2, [&](int64_t) {
      ++here;
      while (here < 2) std::this_thread::yield();
    });
    EXPECT_EQ(here, 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // they fall asleep
  }
}

TEST_F(Parallel, share_starts_no_loop_inside) {
  tern::set_num_threads(4);
  std::atomic<int> ranges = 0;
  tern::share(8, [&](int64_t) {
    EXPECT_EQ(tern::num_threads(), 1);
    parallel_for(0, 1000, 1, [&](int64_t, int64_t) { ++ranges; });
  });
  EXPECT_EQ(ranges, 8);
  EXPECT_EQ(tern::num_threads(), 4);
}

TEST_F(Parallel, share_hands_on_what_is_thrown_when_all_is_done) {
  tern::set_num_threads(3);
  std::atomic<int> done = 0;
  EXPECT_THROW(tern::share(100,
                           [&](int64_t i) {
                             ++done;
                             if (i == 3) throw std::runtime_error("three");
                           }),
               std::runtime_error);
  EXPECT_EQ(done, 100);
  tern::share(4, [&](int64_t) { ++done; });
  EXPECT_EQ(done, 104);
}

TEST_F(Parallel, share_may_be_called_by_several_threads_and_inside_of_itself) {
  std::atomic<int> done = 0;
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&] {
      tern::set_num_threads(3);
      for (int round = 0; round < 100; ++round)
        tern::share(5, [&](int64_t) { tern::share(3, [&](int64_t) { ++done; }); });
    });
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(done, 4 * 100 * 5 * 3);
}

// A child has none of its parent's threads: it gets its own.
#if !defined(__SANITIZE_THREAD__)  // which starts no threads in a forked child
TEST_F(Parallel, share_works_after_a_fork) {
  tern::set_num_threads(2);
  tern::share(2, [](int64_t) {});
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int> here = 0;
    tern::share(2, [&](int64_t) {
      ++here;
      while (here < 2) std::this_thread::yield();
    });
    _exit(here == 2 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}
#endif
