#include "tern/base/arena.h"

#include <algorithm>
#include <cstdlib>

#include "tern/base/sanitizer.h"

namespace tern {

Arena::~Arena() {
  while (blocks_) {
    Block* next = blocks_->next;
    std::free(blocks_);
    blocks_ = next;
  }
}

void* Arena::allocate_in_new_block(size_t bytes, size_t align) {
  if (bytes > SIZE_MAX / 2) throw std::bad_alloc();
  if constexpr (memory_is_watched) {
    // A block that ends where the object ends, and none to allocate from next.
    size_t offset = (sizeof(Block) + align - 1) & ~(align - 1);
    void* memory = nullptr;
    if (posix_memalign(&memory, std::max(align, alignof(std::max_align_t)), offset + bytes))
      throw std::bad_alloc();
    blocks_ = ::new (memory) Block{blocks_};
    total_ += offset + bytes;
    return static_cast<char*>(memory) + offset;
  }
  size_t size = std::max(next_block_, bytes + align + sizeof(Block) + 1);
  auto* block = static_cast<Block*>(std::malloc(size));
  if (!block) throw std::bad_alloc();
  block->next = blocks_;
  blocks_ = block;
  cursor_ = reinterpret_cast<char*>(block + 1);
  limit_ = reinterpret_cast<char*>(block) + size;
  total_ += size;
  next_block_ = std::min<size_t>(next_block_ * 2, size_t{1} << 20);
  return allocate(bytes, align);
}

}  // namespace tern
