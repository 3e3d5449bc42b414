#include "tern/base/symbol.h"

#include <atomic>
#include <cstring>
#include <mutex>

#include "tern/base/error.h"

namespace tern {
namespace {

uint32_t hash_of(std::string_view text) {
  constexpr uint64_t factor = 0x9E3779B97F4A7C15ull;
  uint64_t h = text.size() * factor;
  auto mix = [&](uint64_t word) {
    h = (h ^ word) * factor;
    h ^= h >> 32;
  };
  const char* p = text.data();
  size_t left = text.size();
  for (uint64_t word; left >= 8; p += 8, left -= 8) {
    std::memcpy(&word, p, 8);
    mix(word);
  }
  uint64_t word = 0;
  std::memcpy(&word, p, left);
  mix(word);
  return static_cast<uint32_t>(h);
}

// Reading takes no lock: texts live in chunks that never move, and a table of slots that is outgrown stays
// for those who are still reading it (all of them together are as large as the last).
class Table {
 public:
  Table() : slots_(new Slots(1u << 12)) { store({"", 0, 0}); }

  uint32_t find_or_add(std::string_view text) {
    uint32_t hash = hash_of(text);
    if (uint32_t id = find(*slots_.load(std::memory_order_acquire), text, hash)) return id;
    std::lock_guard lock(mutex_);
    if (uint32_t id = find(*slots_.load(std::memory_order_relaxed), text, hash)) return id;
    char* copy = new char[text.size() + 1];
    std::memcpy(copy, text.data(), text.size());
    copy[text.size()] = 0;
    uint32_t id = store({copy, static_cast<uint32_t>(text.size()), hash});
    Slots* slots = slots_.load(std::memory_order_relaxed);
    if (count_ * 2 <= slots->size) {
      place(*slots, id, hash);
    } else {
      auto* larger = new Slots(slots->size * 2, slots);
      for (uint32_t i = 1; i < count_; ++i) place(*larger, i, entry(i).hash);
      slots_.store(larger, std::memory_order_release);
    }
    return id;
  }
  std::string_view text(uint32_t id) const {
    const Entry& e = entry(id);
    return {e.text, e.size};
  }

 private:
  static constexpr size_t chunk_bits = 12, chunk_size = 1u << chunk_bits, max_chunks = 1u << 14;
  struct Entry {
    const char* text;
    uint32_t size, hash;
  };
  struct Slots {
    explicit Slots(uint32_t n, const Slots* outgrown = nullptr)
        : size(n), ids(new std::atomic<uint32_t>[n]()), before(outgrown) {}
    uint32_t size;  // a power of two
    std::atomic<uint32_t>* ids;
    const Slots* before;
  };

  const Entry& entry(uint32_t id) const {
    return chunks_[id >> chunk_bits].load(std::memory_order_acquire)[id & (chunk_size - 1)];
  }
  uint32_t find(const Slots& slots, std::string_view text, uint32_t hash) const {
    for (uint32_t at = hash & (slots.size - 1);; at = (at + 1) & (slots.size - 1)) {
      uint32_t id = slots.ids[at].load(std::memory_order_acquire);
      if (id == 0) return 0;
      const Entry& e = entry(id);
      if (e.hash == hash && e.size == text.size() && std::memcmp(e.text, text.data(), e.size) == 0) return id;
    }
  }
  static void place(Slots& slots, uint32_t id, uint32_t hash) {
    uint32_t at = hash & (slots.size - 1);
    while (slots.ids[at].load(std::memory_order_relaxed)) at = (at + 1) & (slots.size - 1);
    slots.ids[at].store(id, std::memory_order_release);
  }
  uint32_t store(Entry e) {
    uint32_t id = count_;
    if ((id >> chunk_bits) >= max_chunks) fail("too many distinct names (limit 67 million)");
    if ((id & (chunk_size - 1)) == 0)
      chunks_[id >> chunk_bits].store(new Entry[chunk_size], std::memory_order_release);
    chunks_[id >> chunk_bits].load(std::memory_order_relaxed)[id & (chunk_size - 1)] = e;
    ++count_;
    return id;
  }

  std::mutex mutex_;
  uint32_t count_ = 0;
  std::atomic<Slots*> slots_;
  std::atomic<Entry*> chunks_[max_chunks] = {};
};

// Never destroyed: symbols outlive every static object that may hold one.
Table& table() {
  static Table* t = new Table;
  return *t;
}

}  // namespace

Symbol::Symbol(std::string_view text) : id_(text.empty() ? 0 : table().find_or_add(text)) {
  static_assert(sizeof(Symbol) == 4);
}

std::string_view Symbol::view() const { return id_ == 0 ? std::string_view("") : table().text(id_); }

}  // namespace tern
