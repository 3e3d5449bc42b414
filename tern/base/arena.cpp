#include "tern/base/arena.h"

#include <algorithm>
#include <cstdlib>

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
