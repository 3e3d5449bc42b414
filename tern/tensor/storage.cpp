#include "tern/tensor/storage.h"

#include "tern/tensor/share.h"

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
inline SizeClass size_class(size_t bytes) {
  if (bytes <= 64) return {0, 64};
  unsigned log = 63 - std::countl_zero(bytes - 1);  // 2^log < bytes <= 2^(log+1)
  size_t step = size_t{1} << (log - 2);             // log is at least 6
  size_t quarter = (bytes - 1 - (size_t{1} << log)) >> (log - 2);
  return {(log - 6) * 4 + static_cast<unsigned>(quarter) + 1, (size_t{1} << log) + (quarter + 1) * step};
}

constexpr size_t class_bytes(unsigned index) {
  if (index == 0) return 64;
  const size_t power = size_t{64} << (index - 1) / 4;
  return power + power / 4 * ((index - 1) % 4 + 1);
}

constexpr unsigned cached_classes = 4 * 22 + 1;    // blocks up to 256 MB are worth keeping
constexpr size_t cache_limit = size_t{192} << 20;  // a thread keeps at most this much

struct FreeBlock {
  FreeBlock* next;
};
struct Pool {
  FreeBlock* free[cached_classes] = {};
  size_t cached = 0;
  void trim() {
    for (FreeBlock*& list : free)
      while (list) std::free(std::exchange(list, list->next));
    cached = 0;
  }
  void make_room(size_t bytes);
};
// What was freed last is most likely asked for next: large blocks of other sizes go to make room for it.
void Pool::make_room(size_t bytes) {
  for (unsigned c = cached_classes; c-- > 0 && cached + bytes > cache_limit;) {
    const size_t size = class_bytes(c);
    for (; free[c] && cached + bytes > cache_limit; cached -= size)
      std::free(std::exchange(free[c], free[c]->next));
  }
}
// Initial-exec, as for thread_state: a load instead of a call wherever memory is asked for. The pool itself
// is made on the first use and goes with its thread.
constinit thread_local Pool* local_pool __attribute__((tls_model("initial-exec"))) = nullptr;
constinit thread_local bool pool_gone __attribute__((tls_model("initial-exec"))) = false;
struct PoolKeeper {
  bool used = false;
  ~PoolKeeper() {
    local_pool->trim();
    delete std::exchange(local_pool, nullptr);
    pool_gone = true;  // tensors in static objects may be freed after it
  }
};
[[gnu::noinline]] Pool* make_pool() {
  if (pool_gone) return nullptr;
  local_pool = new Pool;
  thread_local PoolKeeper keeper;
  keeper.used = true;
  return local_pool;
}
inline Pool* this_pool() { return local_pool ? local_pool : make_pool(); }

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
      FreeBlock* block = p->free[c.index];
      p->cached -= c.bytes;
      p->free[c.index] = block->next;
      return block;
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
  if (p && c.index < cached_classes && c.bytes <= cache_limit) {
    if (p->cached + c.bytes > cache_limit) [[unlikely]]
      p->make_room(c.bytes);
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
// Small data stands behind its body, in the same block.
constexpr size_t header = (sizeof(StorageBody) + 63) & ~size_t{63};
constexpr size_t most_in_place = memory_is_watched ? 0 : 1024;
StorageBody* new_body() { return ::new (pool_allocate(header)) StorageBody; }
}  // namespace

Storage Storage::allocate(size_t bytes) {
  Storage s;
  if (bytes && bytes <= most_in_place) {
    auto* block = static_cast<char*>(pool_allocate(header + bytes));
    s.body_ = ::new (static_cast<void*>(block)) StorageBody;
    s.body_->data = block + header;
    s.body_->bytes = bytes;
    s.body_->pooled = true;
    s.body_->in_place = static_cast<uint32_t>(bytes);
    return s;
  }
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

Storage Storage::borrow(void* data, size_t bytes, Shared<const void> owner) {
  Storage s;
  s.body_ = new_body();
  s.body_->data = data;
  s.body_->bytes = bytes;
  s.body_->owner = std::move(owner);
  return s;
}

namespace {
bool is_beside(StorageBody& b) { return b.in_place && b.data == reinterpret_cast<char*>(&b) + header; }
void free_data(StorageBody& b) {
  if (b.pooled && b.data && !is_beside(b)) pool_free(b.data, b.bytes);
}
}  // namespace

Storage share(const Storage& storage) {
  StorageBody& b = *storage.get();
  if (!b.data) return storage;
  if (b.pooled && !is_beside(b)) {  // from now on both own it
    b.owner = {b.data, [bytes = b.bytes](const void* data) { pool_free(const_cast<void*>(data), bytes); }};
    b.pooled = false;
  }
  Shared<const void> owner = b.owner ? b.owner : new_shared<Storage>(storage);
  Storage other = Storage::borrow(b.data, b.bytes, std::move(owner));
  other->device = b.device;
  other->version = b.version;
  return other;
}

void Storage::grow(size_t bytes) {
  if (body_->bytes >= bytes) return;
  if (body_->device.type != DeviceType::meta && (body_->pooled || body_->owner)) {
    void* data = pool_allocate(bytes);
    if (body_->bytes) std::memcpy(data, body_->data, body_->bytes);
    free_data(*body_);
    body_->owner.reset();
    body_->data = data;
    body_->pooled = true;
  }
  body_->bytes = bytes;
}

void Storage::destroy(StorageBody* body) {
  if (body->alias) body->free_alias(body->alias);
  free_data(*body);
  size_t block = header + body->in_place;
  body->~StorageBody();
  pool_free(body, block);
}

}  // namespace tern
