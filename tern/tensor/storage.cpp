#include "tern/tensor/storage.h"

#include <bit>
#include <cstdlib>
#include <cstring>

#include "tern/base/format.h"
#include "tern/base/sanitizer.h"
#include "tern/tensor/thread_state.h"

namespace tern {

constinit thread_local ThreadState thread_state{};

namespace {

// Size classes: four to a power of two from 64 bytes on, so that at most a quarter of a block is unused.
struct SizeClass {
  unsigned index;
  size_t bytes;
};
SizeClass size_class(size_t bytes) {
  if (bytes <= 64) return {0, 64};
  unsigned log = 63 - std::countl_zero(bytes - 1);  // 2^log < bytes <= 2^(log+1)
  size_t step = (size_t{1} << log) / 4;
  size_t quarter = (bytes - 1 - (size_t{1} << log)) / (step ? step : 1);
  return {(log - 6) * 4 + static_cast<unsigned>(quarter) + 1, (size_t{1} << log) + (quarter + 1) * step};
}

constexpr unsigned cached_classes = 4 * 22 + 1;    // blocks up to 256 MB are worth keeping
constexpr size_t cache_limit = size_t{192} << 20;  // a thread keeps at most this much

struct FreeBlock {
  FreeBlock* next;
};
struct Pool {
  FreeBlock* free[cached_classes] = {};
  size_t cached = 0;
  ~Pool();
  void trim() {
    for (FreeBlock*& list : free)
      while (list) std::free(std::exchange(list, list->next));
    cached = 0;
  }
};
thread_local bool pool_alive = false;
thread_local Pool pool;
Pool::~Pool() {
  trim();
  pool_alive = false;
}
// Tensors in static objects may be freed after the thread's pool is gone.
thread_local bool pool_seen = false;
Pool* this_pool() {
  if (!pool_seen) {
    pool_seen = pool_alive = true;
    (void)&pool;
  }
  return pool_alive ? &pool : nullptr;
}

}  // namespace

void* pool_allocate(size_t bytes) {
  if constexpr (memory_is_watched) {
    void* block = nullptr;
    if (posix_memalign(&block, 64, bytes)) failf("not enough memory: you tried to allocate {} bytes", bytes);
    return block;
  }
  SizeClass c = size_class(bytes);
  if (c.index < cached_classes) {
    if (Pool* p = this_pool(); p && p->free[c.index]) {
      p->cached -= c.bytes;
      return std::exchange(p->free[c.index], p->free[c.index]->next);
    }
  }
  void* block = std::aligned_alloc(64, (c.bytes + 63) & ~size_t{63});
  if (!block) failf("not enough memory: you tried to allocate {} bytes", bytes);
  return block;
}

void pool_free(void* data, size_t bytes) {
  if constexpr (memory_is_watched) return std::free(data);
  SizeClass c = size_class(bytes);
  Pool* p = this_pool();
  if (p && c.index < cached_classes && p->cached + c.bytes <= cache_limit) {
    auto* block = static_cast<FreeBlock*>(data);
    block->next = std::exchange(p->free[c.index], block);
    p->cached += c.bytes;
    return;
  }
  std::free(data);
}

void pool_trim() {
  if (Pool* p = this_pool()) p->trim();
}

namespace {
StorageBody* new_body() { return ::new (pool_allocate(sizeof(StorageBody))) StorageBody; }
}  // namespace

Storage Storage::allocate(size_t bytes) {
  Storage s;
  s.body_ = new_body();
  s.body_->pooled = true;
  s.body_->data = bytes ? pool_allocate(bytes) : nullptr;  // where it throws, `s` frees its body
  s.body_->bytes = bytes;
  return s;
}

Storage Storage::empty(size_t bytes, Device device) {
  Storage s;
  s.body_ = new_body();
  s.body_->bytes = bytes;
  s.body_->device = device;
  return s;
}

Storage Storage::borrow(void* data, size_t bytes, std::shared_ptr<const void> owner) {
  Storage s;
  s.body_ = new_body();
  s.body_->data = data;
  s.body_->bytes = bytes;
  s.body_->owner = std::move(owner);
  return s;
}

void Storage::grow(size_t bytes) {
  if (body_->bytes >= bytes) return;
  if (body_->device.type != DeviceType::meta && (body_->pooled || body_->owner)) {
    void* data = pool_allocate(bytes);
    if (body_->bytes) std::memcpy(data, body_->data, body_->bytes);
    if (body_->pooled && body_->data) pool_free(body_->data, body_->bytes);
    body_->owner.reset();
    body_->data = data;
    body_->pooled = true;
  }
  body_->bytes = bytes;
}

void Storage::destroy(StorageBody* body) {
  if (body->alias) body->free_alias(body->alias);
  if (body->pooled && body->data) pool_free(body->data, body->bytes);
  body->~StorageBody();
  pool_free(body, sizeof(StorageBody));
}

}  // namespace tern
