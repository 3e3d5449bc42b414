// Code points as UTF-8.
#pragma once
#include <cstdint>
#include <string>

namespace tern {

// Up to 0x10FFFF. A lone surrogate gives the three bytes it would have: Python writes and reads it so.
inline void append_utf8(std::string& out, uint32_t code) {
  auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 63));
    }
    put(0x80 | (code >> 6 & 63));
  }
  put(0x80 | (code & 63));
}

}  // namespace tern
