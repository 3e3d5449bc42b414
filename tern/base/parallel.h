// The one threading runtime. OpenMP underneath, because oneDNN uses it too and two pools would fight.
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

}  // namespace tern
