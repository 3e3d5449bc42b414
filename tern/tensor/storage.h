// The memory behind tensors: shared by every view of it, counted, and versioned so that autograd notices
// writes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tern/base/pointer.h"
#include "tern/tensor/device.h"

namespace tern {

struct AliasRecord;  // what the functional rung knows about this memory (capture/functional.h)

struct StorageBody {
  Counter refs;
  uint32_t version = 0;  // counts writes
  void* data = nullptr;
  size_t bytes = 0;
  Device device;
  uint8_t rungs = 0;         // autograd: an in-place change gave history to a tensor that has views
  bool pooled = false;       // data came from the pool
  uint32_t in_place = 0;     // a small storage: so many bytes stand behind this body, in its block
  Shared<const void> owner;  // keeps borrowed data alive: a mapped file, a NumPy array
  AliasRecord* alias = nullptr;
  void (*free_alias)(AliasRecord*) = nullptr;
};

// A cheap handle; copies share the memory.
class Storage {
 public:
  Storage() = default;
  static Storage allocate(size_t bytes);  // uninitialised, 64-byte aligned; throws when out of memory
  static Storage empty(size_t bytes, Device device);  // no memory: for meta and fake tensors
  static Storage borrow(void* data, size_t bytes, Shared<const void> owner);

  Storage(const Storage& o) : body_(o.body_) {
    if (body_) body_->refs.add();
  }
  Storage(Storage&& o) noexcept : body_(std::exchange(o.body_, nullptr)) {}
  Storage& operator=(Storage o) noexcept {
    std::swap(body_, o.body_);
    return *this;
  }
  ~Storage() {
    if (body_ && body_->refs.drop()) destroy(body_);
  }

  explicit operator bool() const { return body_; }
  StorageBody* operator->() const { return body_; }
  StorageBody* get() const { return body_; }
  uint32_t use_count() const { return body_ ? body_->refs.load() : 0; }
  friend bool operator==(const Storage& a, const Storage& b) { return a.body_ == b.body_; }

  // Makes room for at least `bytes`, keeping the contents; the data pointer may change (out= variants
  // resize).
  void grow(size_t bytes);

 private:
  static void destroy(StorageBody* body);
  StorageBody* body_ = nullptr;
};

// Pooled memory: 64-byte aligned blocks, recycled by the thread that frees them.
void* pool_allocate(size_t bytes);
void pool_free(void* data, size_t bytes);
void pool_trim();  // gives cached blocks of this thread back to the system

}  // namespace tern
