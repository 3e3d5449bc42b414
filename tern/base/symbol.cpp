#include "tern/base/symbol.h"

#include <cstring>

#include "tern/base/arena.h"
#include "tern/base/error.h"
#include "tern/base/intern_table.h"

namespace tern {

constinit Published<std::string_view> Symbol::texts_[max_chunks];

namespace {

template <class Word>
uint64_t load(const char* p) {
  Word word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

// Of a text that is not empty. Reads whole words, the last of which may overlap the one before.
uint64_t hash_of(std::string_view text) {
  constexpr uint64_t factor = 0x9E3779B97F4A7C15ull;
  const char *p = text.data(), *end = p + text.size();
  uint64_t h = text.size() * factor;
  auto mix = [&](uint64_t word) {
    h = (h ^ word) * factor;
    h ^= h >> 32;
  };
  if (text.size() >= 8) {
    for (; end - p > 8; p += 8) mix(load<uint64_t>(p));
    mix(load<uint64_t>(end - 8));
  } else if (text.size() >= 4) {
    mix(load<uint32_t>(p) << 32 | load<uint32_t>(end - 4));
  } else {
    mix(load<uint8_t>(p) << 16 | load<uint8_t>(p + text.size() / 2) << 8 | load<uint8_t>(end - 1));
  }
  return h;
}

// What the table finds; the text follows it.
struct Entry {
  uint32_t id, size;
  std::string_view view() const { return {reinterpret_cast<const char*>(this + 1), size}; }
};

struct Table {
  InternTable<Entry> entries{13};
  Arena arena;
  uint32_t count = 1;  // 0 is the empty string
};

}  // namespace

Symbol::Symbol(std::string_view text) {
  static_assert(sizeof(Symbol) == 4);
  if (text.empty()) return;
  // Never destroyed: symbols outlive every static object that may hold one.
  static Table& table = *new Table;
  auto same = [&](const Entry& e) {
    return e.size == text.size() && std::memcmp(e.view().data(), text.data(), text.size()) == 0;
  };
  auto make = [&] {
    uint32_t id = table.count, chunk = id >> chunk_bits;
    if (chunk >= max_chunks) fail("too many distinct names (limit 67 million)");
    auto* e = static_cast<Entry*>(table.arena.allocate(sizeof(Entry) + text.size() + 1, alignof(Entry)));
    *e = {id, static_cast<uint32_t>(text.size())};
    char* copy = reinterpret_cast<char*>(e + 1);
    std::memcpy(copy, text.data(), text.size());
    copy[text.size()] = 0;
    if (!texts_[chunk].load()) texts_[chunk].store(new std::string_view[chunk_size]);
    texts_[chunk].load()[id & (chunk_size - 1)] = e->view();
    ++table.count;
    return e;
  };
  id_ = table.entries.find_or_add(hash_of(text), same, make)->id;
}

}  // namespace tern
