#include "tern/base/parallel.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "tern/base/error.h"

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void*);
extern "C" void __tsan_release(void*);
#endif

namespace tern {
namespace {

thread_local int threads = 0;  // 0: as OpenMP says

#if !defined(_OPENMP)
// Built without OpenMP (TERN_OPENMP=OFF): one thread does it all.
int omp_get_max_threads() { return 1; }
void omp_set_num_threads(int) {}
int omp_in_parallel() { return 1; }
#endif

// OpenMP's runtime is not built for ThreadSanitizer, which therefore does not see that a loop's start and end
// order the threads. These two tell it.
void before_others([[maybe_unused]] char* point) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(point);
#endif
}
void after_others([[maybe_unused]] char* point) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(point);
#endif
}

}  // namespace

int num_threads() { return threads ? threads : omp_get_max_threads(); }

void set_num_threads(int n) {
  if (n < 1) fail(ErrorKind::value, "set_num_threads: expected at least one thread");
  threads = n;
  omp_set_num_threads(n);
}

bool in_parallel_region() { return omp_in_parallel(); }

// The compiler hands local variables to the other threads after before_others(), hence the attribute; `body`
// is checked.
[[gnu::no_sanitize("thread")]] void parallel_for(int64_t begin, int64_t end, int64_t grain, void* context,
                                                 void (*body)(void*, int64_t, int64_t)) {
  int64_t n = end - begin;
  if (n <= 0) return;
  int parts = static_cast<int>(std::min<int64_t>(num_threads(), n / std::max<int64_t>(grain, 1)));
  if (parts <= 1 || omp_in_parallel()) return body(context, begin, end);
  std::exception_ptr error;
  std::mutex error_mutex;
  char loop_start, loop_end;  // of this loop: two loops do not order each other
  before_others(&loop_start);
#pragma omp parallel num_threads(parts)
  {
    after_others(&loop_start);
#pragma omp for schedule(static) nowait
    for (int p = 0; p < parts; ++p) {
      try {
        body(context, begin + n * p / parts, begin + n * (p + 1) / parts);
      } catch (...) {
        std::lock_guard lock(error_mutex);
        error = std::current_exception();
      }
    }
    before_others(&loop_end);
  }
  after_others(&loop_end);
  if (error) std::rethrow_exception(error);
}

namespace {

void pause_a_moment() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Threads that take items of one job at a time. Where a job stands is one word, its number, its end and the
// next item, so that who takes an item takes it of the job that is there, however late it comes.
class Helpers {
 public:
  // Of this process: a fork has none of its parent's threads. Never deleted, for they sleep when a process
  // ends.
  static Helpers& here() {
    static std::atomic<Helpers*> all = nullptr;
    Helpers* found = all.load(std::memory_order_acquire);
    if (found && found->process_ == getpid()) return *found;
    auto* made = new Helpers;
    if (all.compare_exchange_strong(found, made, std::memory_order_acq_rel)) return *made;
    delete made;
    return *found;
  }

  // False where another job is being done, or n is too large.
  bool run(int64_t n, void* context, void (*body)(void*, int64_t)) {
    if (n > static_cast<int64_t>(most) || busy_.exchange(true, std::memory_order_acquire)) return false;
    want(num_threads() - 1);
    context_ = context, body_ = body, error_ = nullptr;
    left_.store(n, std::memory_order_relaxed);
    const uint64_t number = (word_.load(std::memory_order_relaxed) >> 2 * bits) + 1;
    word_.store(number << 2 * bits | static_cast<uint64_t>(n) << bits, std::memory_order_seq_cst);
    word_.notify_all();
    {
      const ThreadLimit alone(1);
      take();
    }
    // Those who have begun.
    for (int round = 0; left_.load(std::memory_order_acquire) > 0; ++round)
      round < 1000 ? pause_a_moment() : std::this_thread::yield();
    const std::exception_ptr error = std::move(error_);
    busy_.store(false, std::memory_order_release);
    if (error) std::rethrow_exception(error);
    return true;
  }

 private:
  static constexpr int bits = 20;
  static constexpr uint64_t most = (uint64_t{1} << bits) - 1;

  // Fewer where the system gives no more.
  void want(int n) {
    allowed_.store(n, std::memory_order_relaxed);
    for (; started_ < n; ++started_) {
      try {
        std::thread([this, index = started_] { help(index); }).detach();
      } catch (const std::system_error&) {
        return;
      }
    }
  }

  void take() {
    uint64_t word = word_.load(std::memory_order_acquire);
    while ((word & most) < (word >> bits & most)) {
      if (!word_.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      try {
        body_(context_, static_cast<int64_t>(word & most));
      } catch (...) {
        std::lock_guard lock(error_mutex_);
        error_ = std::current_exception();
      }
      left_.fetch_sub(1, std::memory_order_acq_rel);
      word = word_.load(std::memory_order_acquire);
    }
  }

  [[noreturn]] void help(int index) {
    set_num_threads(1);
    for (;;) {
      const uint64_t word = word_.load(std::memory_order_acquire);
      if (index < allowed_.load(std::memory_order_relaxed)) take();
      wait(word >> 2 * bits);
    }
  }
  // For another job: looks for a while, because small ones come one after the other, then sleeps.
  void wait(uint64_t number) {
    constexpr auto patience = std::chrono::microseconds(100);
    const auto start = std::chrono::steady_clock::now();
    for (int round = 1; round % 64 || std::chrono::steady_clock::now() - start < patience; ++round) {
      if (word_.load(std::memory_order_acquire) >> 2 * bits != number) return;
      pause_a_moment();
    }
    for (uint64_t word = word_.load(std::memory_order_acquire); word >> 2 * bits == number;
         word = word_.load(std::memory_order_acquire))
      word_.wait(word, std::memory_order_acquire);
  }

  const pid_t process_ = getpid();
  std::atomic<bool> busy_ = false;
  std::atomic<uint64_t> word_ = 0;
  std::atomic<int64_t> left_ = 0;  // items that are not done
  std::atomic<int> allowed_ = 0;
  int started_ = 0;
  void* context_ = nullptr;
  void (*body_)(void*, int64_t) = nullptr;
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace

void share(int64_t n, void* context, void (*body)(void*, int64_t)) {
  if (n > 1 && !omp_in_parallel() && Helpers::here().run(n, context, body)) return;
  const ThreadLimit alone(1);
  for (int64_t i = 0; i < n; ++i) body(context, i);
}

}  // namespace tern
