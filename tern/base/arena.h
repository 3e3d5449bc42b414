// Bump allocation: objects that die together are freed together.
#pragma once
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace tern {

class Arena {
 public:
  explicit Arena(size_t first_block = 4096) : next_block_(first_block) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  void* allocate(size_t bytes, size_t align = alignof(std::max_align_t)) {
    uintptr_t at = (reinterpret_cast<uintptr_t>(cursor_) + align - 1) & ~(align - 1);
    uintptr_t limit = reinterpret_cast<uintptr_t>(limit_);
    if (at < limit && bytes <= limit - at) {
      cursor_ = reinterpret_cast<char*>(at + bytes);
      return reinterpret_cast<void*>(at);
    }
    return allocate_in_new_block(bytes, align);
  }
  // The destructor is not run: for objects that own nothing, or whose owner destroys them.
  template <class T, class... A>
  T* make(A&&... args) {
    return ::new (allocate(sizeof(T), alignof(T))) T(std::forward<A>(args)...);
  }
  template <class T>
  T* make_array(size_t n) {
    if (n > SIZE_MAX / sizeof(T)) throw std::bad_alloc();
    T* items = static_cast<T*>(allocate(n * sizeof(T), alignof(T)));
    for (size_t i = 0; i < n; ++i) ::new (items + i) T();
    return items;
  }
  size_t bytes() const { return total_; }

 private:
  struct Block {
    Block* next;
  };
  void* allocate_in_new_block(size_t bytes, size_t align);

  char* cursor_ = nullptr;
  char* limit_ = nullptr;
  Block* blocks_ = nullptr;
  size_t next_block_;
  size_t total_ = 0;
};

}  // namespace tern
