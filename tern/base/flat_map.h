// Hash maps and sets of plain keys: pointers, numbers, symbols. Entries lie in one array in the order in
// which they came (the last takes the place of one that is erased), so that a walk gives the same on every
// run, and a few of them need no table. Adding or erasing invalidates iterators and references.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace tern {
namespace details {

template <class Key>
uint64_t flat_hash(Key key) {
  uint64_t bits;
  if constexpr (std::is_pointer_v<Key>) {
    bits = reinterpret_cast<uintptr_t>(key);
  } else if constexpr (std::is_integral_v<Key>) {
    bits = static_cast<uint64_t>(key);
  } else {
    bits = key.id();
  }
  return bits * 0x9E3779B97F4A7C15ull;
}

template <class Key, class Entry>
class FlatTable {
 public:
  using iterator = Entry*;
  using const_iterator = const Entry*;

  iterator begin() { return entries_.data(); }
  iterator end() { return entries_.data() + entries_.size(); }
  const_iterator begin() const { return entries_.data(); }
  const_iterator end() const { return entries_.data() + entries_.size(); }
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }

  iterator find(Key key) { return begin() + place_of(key); }
  const_iterator find(Key key) const { return begin() + place_of(key); }
  size_t count(Key key) const { return place_of(key) != size(); }
  bool contains(Key key) const { return place_of(key) != size(); }

  void reserve(size_t n) {
    entries_.reserve(n);
    if (n > few && slots_.size() < 2 * n) rebuild(n);
  }
  void clear() {
    entries_.clear();
    slots_.clear();
  }
  size_t erase(Key key) {
    size_t at = place_of(key);
    if (at == size()) return 0;
    if (!slots_.empty()) {
      close(slot_of(at));
      if (at + 1 != size()) slots_[slot_of(size() - 1)] = static_cast<uint32_t>(at + 1);
    }
    if (at + 1 != size()) entries_[at] = std::move(entries_.back());
    entries_.pop_back();
    return 1;
  }
  size_t bytes() const { return entries_.capacity() * sizeof(Entry) + slots_.size() * sizeof(uint32_t); }

 protected:
  static Key key_of(const Entry& e) {
    if constexpr (std::is_same_v<Key, Entry>) {
      return e;
    } else {
      return e.first;
    }
  }
  template <class... A>
  std::pair<iterator, bool> add(Key key, A&&... rest) {
    size_t at = place_of(key);
    if (at != size()) return {begin() + at, false};
    if (entries_.capacity() == 0) entries_.reserve(few / 2);  // a map that gets one entry gets more
    entries_.emplace_back(key, std::forward<A>(rest)...);
    if (slots_.size() >= 2 * size()) {
      enter(at);
    } else if (size() > few) {
      rebuild(2 * size());
    }
    return {begin() + at, true};
  }

 private:
  static constexpr size_t few = 8;  // these are looked at one by one

  size_t home(Key key) const { return (flat_hash(key) >> 32) & (slots_.size() - 1); }
  size_t next(size_t slot) const { return (slot + 1) & (slots_.size() - 1); }
  size_t place_of(Key key) const {
    if (slots_.empty()) {
      size_t at = 0;
      while (at < size() && !(key_of(entries_[at]) == key)) ++at;
      return at;
    }
    for (size_t s = home(key); slots_[s]; s = next(s))
      if (key_of(entries_[slots_[s] - 1]) == key) return slots_[s] - 1;
    return size();
  }
  size_t slot_of(size_t at) const {
    size_t s = home(key_of(entries_[at]));
    while (slots_[s] != at + 1) s = next(s);
    return s;
  }
  void enter(size_t at) {
    size_t s = home(key_of(entries_[at]));
    while (slots_[s]) s = next(s);
    slots_[s] = static_cast<uint32_t>(at + 1);
  }
  void rebuild(size_t room) {
    size_t slots = 4 * few;
    while (slots < 2 * room) slots *= 2;
    slots_.assign(slots, 0);
    for (size_t i = 0; i < size(); ++i) enter(i);
  }
  // Takes a slot out; what was pushed past it moves up.
  void close(size_t hole) {
    size_t mask = slots_.size() - 1;
    for (size_t s = next(hole); slots_[s]; s = next(s)) {
      if (((s - home(key_of(entries_[slots_[s] - 1]))) & mask) < ((s - hole) & mask)) continue;
      slots_[hole] = slots_[s];
      hole = s;
    }
    slots_[hole] = 0;
  }

  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // one more than the place of an entry; 0: free
};

}  // namespace details

template <class Key, class Mapped>
class FlatMap : public details::FlatTable<Key, std::pair<Key, Mapped>> {
 public:
  Mapped& operator[](Key key) { return this->add(key, Mapped()).first->second; }
  const Mapped& at(Key key) const { return this->find(key)->second; }  // precondition: it is there
  // Adds unless the key is there.
  template <class... A>
  auto emplace(Key key, A&&... mapped) {
    return this->add(key, std::forward<A>(mapped)...);
  }
};

template <class Key>
class FlatSet : public details::FlatTable<Key, Key> {
 public:
  auto insert(Key key) { return this->add(key); }
};

}  // namespace tern
