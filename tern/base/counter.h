// What threads share without a lock: a count of references, and a pointer that one thread writes and others
// read. The compiler's builtins instead of <atomic>, which costs a public header more than it says here.
#pragma once
#include <cstdint>

namespace tern {

// Counts the owners of what it stands in; starts with one.
class Counter {
 public:
  void add() { __atomic_fetch_add(&count_, 1, __ATOMIC_RELAXED); }
  // True for the last owner, who then sees what the others wrote. Whoever holds the only reference need not
  // lock the bus to give it up.
  bool drop() {
    return __atomic_load_n(&count_, __ATOMIC_ACQUIRE) == 1 ||
           __atomic_fetch_sub(&count_, 1, __ATOMIC_ACQ_REL) == 1;
  }
  uint32_t load() const { return __atomic_load_n(&count_, __ATOMIC_RELAXED); }

 private:
  uint32_t count_ = 1;
};

// Null until somebody sets it; whoever reads it sees what was written before.
template <class T>
class Published {
 public:
  T* load() const { return __atomic_load_n(&pointer_, __ATOMIC_ACQUIRE); }
  void store(T* p) { __atomic_store_n(&pointer_, p, __ATOMIC_RELEASE); }
  // Of several that come at once one wins: gives what is set now.
  T* set_once(T* fresh) {
    T* found = nullptr;
    return __atomic_compare_exchange_n(&pointer_, &found, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
               ? fresh
               : found;
  }

 private:
  T* pointer_ = nullptr;
};

}  // namespace tern
