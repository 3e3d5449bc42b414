// The one threading runtime. OpenMP underneath, because oneDNN uses it too and two pools would fight; and
// helpers that sleep unless something is shared.
#pragma once
#include <cstdint>
#include <type_traits>

namespace tern {

int num_threads();
void set_num_threads(int n);  // this thread's limit for the loops it starts; n >= 1
bool in_parallel_region();

// A limit for the loops of a scope, also those of libraries that share the runtime.
class ThreadLimit {
 public:
  explicit ThreadLimit(int n) : before_(num_threads()), limited_(n < before_) {
    if (limited_) set_num_threads(n);
  }
  ThreadLimit(const ThreadLimit&) = delete;
  ~ThreadLimit() {
    if (limited_) set_num_threads(before_);
  }

 private:
  int before_;
  bool limited_;
};

// Calls body(context, begin, end) on disjoint ranges that cover [begin, end), each at least `grain` long.
void parallel_for(int64_t begin, int64_t end, int64_t grain, void* context,
                  void (*body)(void*, int64_t, int64_t));

template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, F&& f) {
  if (end - begin <= grain || num_threads() == 1) {
    if (end > begin) f(begin, end);
    return;
  }
  parallel_for(begin, end, grain, &f, [](void* context, int64_t from, int64_t to) {
    (*static_cast<std::remove_reference_t<F>*>(context))(from, to);
  });
}

// Calls body(context, i) once for each i in [0, n): on this thread, and on others that happen to be free.
// Nobody is waited for who has not begun, so that a busy machine costs what it would have cost on one thread:
// for work of some ten microseconds, which a barrier of all threads can delay by milliseconds. Loops inside
// are not parallel.
void share(int64_t n, void* context, void (*body)(void*, int64_t));

template <class F>
void share(int64_t n, F&& f) {
  if (n <= 1 || num_threads() == 1) {
    for (int64_t i = 0; i < n; ++i) f(i);
    return;
  }
  share(n, &f, [](void* context, int64_t i) { (*static_cast<std::remove_reference_t<F>*>(context))(i); });
}

}  // namespace tern
