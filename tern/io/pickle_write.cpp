#include <cstring>

#include "tern/base/format.h"
#include "tern/base/utf8.h"
#include "tern/io/pickle.h"

namespace tern::io {

PickleWriter::PickleWriter() : out_("\x80\x02", 2) {}

void PickleWriter::none() { op('N'); }
void PickleWriter::boolean(bool value) { op(value ? '\x88' : '\x89'); }

void PickleWriter::integer(int64_t value) {
  if (value >= 0 && value <= 0xFF) {
    op('K');
    raw(static_cast<uint8_t>(value));
  } else if (value >= 0 && value <= 0xFFFF) {
    op('M');
    raw(static_cast<uint16_t>(value));
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    op('J');
    raw(static_cast<int32_t>(value));
  } else {
    // TorchScript's unpickler reads LONG1 of exactly eight bytes.
    op('\x8a');
    raw(uint8_t{8});
    raw(value);
  }
}

void PickleWriter::real(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, 8);
  op('G');
  raw(__builtin_bswap64(bits));
}

void PickleWriter::string(std::string_view text) {
  if (text.size() > 0xFFFFFFFF)
    fail(ErrorKind::value, "pickle: a string of more than 4 GB cannot be written");
  std::string key(1, 's');
  key += text;
  if (auto known = memo_.find(key); known != memo_.end()) return get(known->second);
  op('X');
  raw(static_cast<uint32_t>(text.size()));
  out_ += text;
  memo_.emplace(std::move(key), put());
}

void PickleWriter::bytes(Bytes bytes) {
  std::string latin1;
  for (uint8_t b : bytes) append_utf8(latin1, b);
  global("_codecs", "encode");
  string(latin1);
  string("latin1");
  tuple(2);
  reduce();
}

void PickleWriter::tuple(int n) {
  TERN_ASSERT(n >= 0 && n <= 3);
  op(n == 0 ? ')' : static_cast<char>(0x84 + n));
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  if (module.empty() || name.empty() || module.find('\n') != module.npos || name.find('\n') != name.npos)
    failf(ErrorKind::value, "pickle: '{}.{}' cannot be the name of a global", module, name);
  std::string key(1, 'g');
  key.append(module).append("\n").append(name);
  if (auto known = memo_.find(key); known != memo_.end()) return get(known->second);
  op('c');
  out_.append(module).append("\n").append(name).append("\n");
  memo_.emplace(std::move(key), put());
}

uint32_t PickleWriter::put() {
  if (next_ <= 0xFF) {
    op('q');
    raw(static_cast<uint8_t>(next_));
  } else {
    op('r');
    raw(next_);
  }
  return next_++;
}

void PickleWriter::get(uint32_t index) {
  TERN_ASSERT(index < next_);
  if (index <= 0xFF) {
    op('h');
    raw(static_cast<uint8_t>(index));
  } else {
    op('j');
    raw(index);
  }
}

std::string PickleWriter::finish() {
  op('.');
  std::string done = std::move(out_);
  *this = PickleWriter();
  return done;
}

}  // namespace tern::io
