// Feeds a reader every truncation and every single-bit flip of a small valid file. Whatever it does must be
// a result or an Error of a kind that a file may cause.
#pragma once
#include <gtest/gtest.h>

#include "tern/base/format.h"
#include "tern/io/file.h"
#include "tests/support/errors.h"

namespace tern::io {

struct Outcome {
  int accepted = 0, refused = 0;
};

template <class F>
Outcome try_damaged(const std::vector<uint8_t>& file, F&& read) {
  Outcome outcome;
  auto attempt = [&](const std::vector<uint8_t>& bytes, const std::string& how) {
    try {
      // A copy of exactly this size, so that a sanitizer sees any read past its end.
      read(own(std::vector<uint8_t>(bytes)));
      ++outcome.accepted;
    } catch (const Error& error) {
      ++outcome.refused;
      EXPECT_TRUE(error.kind() == ErrorKind::file || error.kind() == ErrorKind::not_supported)
          << how << ": " << error.what();
      EXPECT_FALSE(error.message().empty());
    }
  };
  for (size_t n = 0; n < file.size(); ++n)
    attempt({file.begin(), file.begin() + static_cast<ptrdiff_t>(n)}, fmt::format("first {} bytes", n));
  for (size_t i = 0; i < file.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<uint8_t> bytes = file;
      bytes[i] ^= static_cast<uint8_t>(1 << bit);
      attempt(bytes, fmt::format("bit {} of byte {}", bit, i));
    }
  return outcome;
}

using tern::testing::error_of;

inline std::vector<uint8_t> bytes_of(std::string_view text) { return as_bytes(text).vec(); }

}  // namespace tern::io
