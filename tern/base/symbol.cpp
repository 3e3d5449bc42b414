#include "tern/base/symbol.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "tern/base/error.h"

namespace tern {
namespace {

// Text lives in chunks that never move, so a view stays valid without holding the lock.
struct Table {
  static constexpr size_t chunk_bits = 12, chunk_size = 1u << chunk_bits, max_chunks = 1u << 14;

  std::shared_mutex mutex;
  std::unordered_map<std::string_view, uint32_t> ids;
  std::atomic<std::string_view*> chunks[max_chunks] = {};
  uint32_t count = 0;

  Table() { add(""); }

  uint32_t add(std::string_view text) {
    uint32_t id = count;
    if ((id >> chunk_bits) >= max_chunks) fail("too many distinct names (limit 67 million)");
    if ((id & (chunk_size - 1)) == 0)
      chunks[id >> chunk_bits].store(new std::string_view[chunk_size], std::memory_order_release);
    char* copy = new char[text.size() + 1];
    std::memcpy(copy, text.data(), text.size());
    copy[text.size()] = 0;
    std::string_view kept(copy, text.size());
    chunks[id >> chunk_bits].load(std::memory_order_relaxed)[id & (chunk_size - 1)] = kept;
    ids.emplace(kept, id);
    ++count;
    return id;
  }
};

// Never destroyed: symbols outlive every static object that may hold one.
Table& table() {
  static Table* t = new Table;
  return *t;
}

}  // namespace

Symbol::Symbol(std::string_view text) {
  if (text.empty()) return;
  Table& t = table();
  {
    std::shared_lock lock(t.mutex);
    if (auto it = t.ids.find(text); it != t.ids.end()) {
      id_ = it->second;
      return;
    }
  }
  std::unique_lock lock(t.mutex);
  auto it = t.ids.find(text);
  id_ = it != t.ids.end() ? it->second : t.add(text);
}

std::string_view Symbol::view() const {
  if (id_ == 0) return "";
  return table().chunks[id_ >> Table::chunk_bits].load(
      std::memory_order_acquire)[id_ & (Table::chunk_size - 1)];
}

}  // namespace tern
