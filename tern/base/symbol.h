// Interned strings: names compare and hash as integers, and live as long as the process.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "tern/base/counter.h"

namespace tern {

class Symbol {
 public:
  constexpr Symbol() = default;
  Symbol(std::string_view text);
  Symbol(const char* text) : Symbol(std::string_view(text)) {}
  Symbol(const std::string& text) : Symbol(std::string_view(text)) {}

  std::string_view view() const {
    return id_ == 0 ? std::string_view("") : texts_[id_ >> chunk_bits].load()[id_ & (chunk_size - 1)];
  }
  std::string str() const { return std::string(view()); }
  const char* c_str() const { return view().data(); }  // zero-terminated
  bool empty() const { return id_ == 0; }
  constexpr uint32_t id() const { return id_; }

  friend constexpr bool operator==(Symbol a, Symbol b) { return a.id_ == b.id_; }
  friend constexpr bool operator<(Symbol a, Symbol b) { return a.id_ < b.id_; }

 private:
  // The texts by id, in chunks that never move, so that reading one takes no lock.
  static constexpr size_t chunk_bits = 12, chunk_size = 1u << chunk_bits, max_chunks = 1u << 14;
  static Published<std::string_view> texts_[max_chunks];

  uint32_t id_ = 0;  // 0 is the empty string
};

}  // namespace tern

template <>
struct std::hash<tern::Symbol> {
  size_t operator()(tern::Symbol s) const noexcept { return s.id() * 0x9E3779B97F4A7C15ull; }
};
