#include "tern/base/parallel.h"

#include <omp.h>

#include <algorithm>
#include <exception>

#include "tern/base/error.h"

namespace tern {
namespace {
thread_local int threads = 0;  // 0: as OpenMP says
}

int num_threads() { return threads ? threads : omp_get_max_threads(); }

void set_num_threads(int n) {
  if (n < 1) fail(ErrorKind::value, "set_num_threads: expected at least one thread");
  threads = n;
  omp_set_num_threads(n);
}

bool in_parallel_region() { return omp_in_parallel(); }

void parallel_for(int64_t begin, int64_t end, int64_t grain, void* context,
                  void (*body)(void*, int64_t, int64_t)) {
  int64_t n = end - begin;
  if (n <= 0) return;
  int parts = static_cast<int>(std::min<int64_t>(num_threads(), n / std::max<int64_t>(grain, 1)));
  if (parts <= 1 || omp_in_parallel()) return body(context, begin, end);
  std::exception_ptr error;
#pragma omp parallel for num_threads(parts) schedule(static)
  for (int p = 0; p < parts; ++p) {
    try {
      body(context, begin + n * p / parts, begin + n * (p + 1) / parts);
    } catch (...) {
#pragma omp critical
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace tern
