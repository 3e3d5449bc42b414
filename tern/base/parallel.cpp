#include "tern/base/parallel.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

#include <algorithm>
#include <exception>
#include <mutex>

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

}  // namespace tern
