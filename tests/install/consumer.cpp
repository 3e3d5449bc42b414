// What must work across the library's border: calls, thread pool, and catching its exception by type.
#include <atomic>
#include <cstdio>
#include <cstring>

#include "tern/base/error.h"
#include "tern/base/parallel.h"
#include "tern/base/symbol.h"

int main() {
  if (tern::Symbol("conv1") != tern::Symbol("conv1") || tern::Symbol("conv1").view() != "conv1") return 1;
  std::atomic<int64_t> sum = 0;
  tern::parallel_for(0, 1000, 10, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) sum += i;
  });
  if (sum != 499500) return 2;
  try {
    tern::set_num_threads(0);
    return 3;
  } catch (const tern::Error& e) {
    if (e.kind() != tern::ErrorKind::value || !std::strstr(e.what(), "at least one thread")) return 4;
  }
  std::puts("consumer: ok");
}
