// Objects found by their content: those that are equal are kept once, as long as the table. Looking one up
// takes no lock: slots are filled and never emptied, and an array of them that is outgrown stays for those
// who are still reading it (all of them together are as large as the last).
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>

namespace tern {

template <class T>
class InternTable {
 public:
  explicit InternTable(int bits = 8) : slots_(new Slots(bits)) {}  // of the number of slots
  ~InternTable() { delete slots_.load(std::memory_order_relaxed); }

  // The object of this hash that `same` accepts; if there is none, what `make` gives, one thread at a time.
  template <class Same, class Make>
  const T* find_or_add(uint64_t hash, Same&& same, Make&& make) {
    if (const T* found = find(*slots_.load(std::memory_order_acquire), hash, same)) return found;
    std::lock_guard lock(mutex_);
    Slots* slots = slots_.load(std::memory_order_relaxed);
    if (const T* found = find(*slots, hash, same)) return found;
    const T* made = make();
    if (2 * ++count_ > slots->size()) slots = grow(*slots);
    place(*slots, hash, made);
    return made;
  }

 private:
  struct Slot {
    std::atomic<const T*> object{nullptr};
    uint64_t hash = 0;  // written before the object
  };
  struct Slots {
    explicit Slots(int b, const Slots* outgrown = nullptr)
        : bits(b), entries(new Slot[size_t{1} << b]), before(outgrown) {}
    size_t size() const { return size_t{1} << bits; }
    // The upper bits of a product depend on all bits of its factors.
    size_t home(uint64_t hash) const { return (hash * 0x9E3779B97F4A7C15ull) >> (64 - bits); }
    size_t next(size_t at) const { return (at + 1) & (size() - 1); }
    int bits;
    Slot* entries;
    const Slots* before;
    ~Slots() {
      delete[] entries;
      delete before;
    }
  };

  template <class Same>
  static const T* find(const Slots& slots, uint64_t hash, Same&& same) {
    for (size_t at = slots.home(hash);; at = slots.next(at)) {
      const Slot& slot = slots.entries[at];
      const T* object = slot.object.load(std::memory_order_acquire);
      if (!object || (slot.hash == hash && same(*object))) return object;
    }
  }
  static void place(Slots& slots, uint64_t hash, const T* object) {
    size_t at = slots.home(hash);
    while (slots.entries[at].object.load(std::memory_order_relaxed)) at = slots.next(at);
    slots.entries[at].hash = hash;
    slots.entries[at].object.store(object, std::memory_order_release);
  }
  Slots* grow(Slots& slots) {
    auto* larger = new Slots(slots.bits + 1, &slots);
    for (size_t i = 0; i < slots.size(); ++i)
      if (const T* object = slots.entries[i].object.load(std::memory_order_relaxed))
        place(*larger, slots.entries[i].hash, object);
    slots_.store(larger, std::memory_order_release);
    return larger;
  }

  std::mutex mutex_;
  size_t count_ = 0;
  std::atomic<Slots*> slots_;
};

}  // namespace tern
