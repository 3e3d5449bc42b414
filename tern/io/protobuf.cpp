#include "tern/io/protobuf.h"

#include <cstring>

#include "tern/base/format.h"

namespace tern::io {

namespace {

constexpr int kMaxDepth = 100;  // protobuf's own default

size_t varint_size(uint64_t value) {
  size_t n = 1;
  while (value >>= 7) ++n;
  return n;
}

}  // namespace

// ---- reader

void ProtoReader::bad(std::string_view what) const {
  failf(ErrorKind::file, "{}: {} (field {}, offset {})", label_, what, field_, offset());
}

uint64_t ProtoReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (p_ == end_) bad("truncated: a number does not end");
    uint8_t b = *p_++;
    value |= static_cast<uint64_t>(b & 0x7F) << shift;
    if (!(b & 0x80)) {
      if (shift == 63 && b > 1) bad("a number has more than 64 bits");
      return value;
    }
  }
  bad("a number has more than 64 bits");
}

Bytes ProtoReader::take(uint64_t size) {
  if (size > static_cast<uint64_t>(end_ - p_))
    bad(fmt::format("truncated: {} bytes wanted, {} left", size, end_ - p_));
  Bytes got(p_, size);
  p_ += size;
  return got;
}

bool ProtoReader::next() {
  if (pending_) {
    switch (type_) {
      case WireType::varint:
        varint();
        break;
      case WireType::fixed64:
        take(8);
        break;
      case WireType::bytes:
        take(varint());
        break;
      case WireType::fixed32:
        take(4);
        break;
    }
    pending_ = false;
  }
  if (p_ == end_) return false;
  uint64_t tag = varint();
  if (tag >> 3 == 0 || tag >> 32 != 0) bad(fmt::format("{} is not a field's tag", tag));
  field_ = static_cast<uint32_t>(tag >> 3);
  switch (tag & 7) {
    case 0:
    case 1:
    case 2:
    case 5:
      type_ = static_cast<WireType>(tag & 7);
      break;
    case 3:
    case 4:
      bad("groups are not supported");
    default:
      bad(fmt::format("wire type {} does not exist", tag & 7));
  }
  pending_ = true;
  return true;
}

void ProtoReader::need(WireType type) {
  TERN_ASSERT(pending_);
  if (type_ != type)
    bad(fmt::format("wire type {} is expected, not {}", static_cast<int>(type), static_cast<int>(type_)));
  pending_ = false;
}

uint64_t ProtoReader::uint64() {
  need(WireType::varint);
  return varint();
}

int64_t ProtoReader::sint64() {
  ::uint64_t v = uint64();
  return static_cast<::int64_t>(v >> 1) ^ -static_cast<::int64_t>(v & 1);
}

uint32_t ProtoReader::fixed32() {
  need(WireType::fixed32);
  ::uint32_t v;
  std::memcpy(&v, take(4).data(), 4);
  return v;
}

uint64_t ProtoReader::fixed64() {
  need(WireType::fixed64);
  ::uint64_t v;
  std::memcpy(&v, take(8).data(), 8);
  return v;
}

float ProtoReader::float32() {
  ::uint32_t bits = fixed32();
  float v;
  std::memcpy(&v, &bits, 4);
  return v;
}

double ProtoReader::float64() {
  ::uint64_t bits = fixed64();
  double v;
  std::memcpy(&v, &bits, 8);
  return v;
}

Bytes ProtoReader::bytes() {
  need(WireType::bytes);
  return take(varint());
}

ProtoReader ProtoReader::message(std::string_view label) {
  if (depth_ >= kMaxDepth) bad(fmt::format("messages are nested deeper than {}", kMaxDepth));
  Bytes inner = bytes();
  return ProtoReader(inner, label.empty() ? label_ : label,
                     base_ + static_cast<size_t>(inner.data() - start_), depth_ + 1);
}

template <class T>
void ProtoReader::append_varints(std::vector<T>& out) {
  if (type_ == WireType::varint) {
    out.push_back(static_cast<T>(uint64()));
    return;
  }
  need(WireType::bytes);
  Bytes packed = take(varint());
  const uint8_t* all_end = end_;
  end_ = packed.end();
  p_ = packed.begin();
  while (p_ < end_) out.push_back(static_cast<T>(varint()));
  end_ = all_end;
}

template <class T>
void ProtoReader::append_fixed(std::vector<T>& out, WireType single) {
  Bytes data;
  if (type_ == single) {
    need(single);
    data = take(sizeof(T));
  } else {
    data = bytes();
    if (data.size() % sizeof(T))
      bad(fmt::format("{} bytes are not a whole number of {}-byte values", data.size(), sizeof(T)));
  }
  size_t have = out.size();
  out.resize(have + data.size() / sizeof(T));
  if (!data.empty()) std::memcpy(out.data() + have, data.data(), data.size());
}

void ProtoReader::append(std::vector<::int64_t>& out) { append_varints(out); }
void ProtoReader::append(std::vector<::int32_t>& out) { append_varints(out); }
void ProtoReader::append(std::vector<::uint64_t>& out) { append_varints(out); }
void ProtoReader::append(std::vector<float>& out) { append_fixed(out, WireType::fixed32); }
void ProtoReader::append(std::vector<double>& out) { append_fixed(out, WireType::fixed64); }

// ---- writer

void ProtoWriter::raw(const void* data, size_t size) {
  out_.append(static_cast<const char*>(data), size);
  size_ += size;
}

void ProtoWriter::varint(::uint64_t value) {
  char bytes[10];
  size_t n = 0;
  for (; value >= 0x80; value >>= 7) bytes[n++] = static_cast<char>(value | 0x80);
  bytes[n++] = static_cast<char>(value);
  raw(bytes, n);
}

void ProtoWriter::tag(::uint32_t field, WireType type) {
  TERN_ASSERT(field >= 1 && field < (1u << 29));
  varint(::uint64_t{field} << 3 | static_cast<::uint64_t>(type));
}

void ProtoWriter::uint64(::uint32_t field, ::uint64_t value) {
  tag(field, WireType::varint);
  varint(value);
}

void ProtoWriter::sint64(::uint32_t field, ::int64_t value) {
  uint64(field, static_cast<::uint64_t>(value) << 1 ^ static_cast<::uint64_t>(value >> 63));
}

void ProtoWriter::fixed32(::uint32_t field, ::uint32_t value) {
  tag(field, WireType::fixed32);
  raw(&value, 4);
}

void ProtoWriter::fixed64(::uint32_t field, ::uint64_t value) {
  tag(field, WireType::fixed64);
  raw(&value, 8);
}

void ProtoWriter::float32(::uint32_t field, float value) {
  tag(field, WireType::fixed32);
  raw(&value, 4);
}

void ProtoWriter::float64(::uint32_t field, double value) {
  tag(field, WireType::fixed64);
  raw(&value, 8);
}

void ProtoWriter::string(::uint32_t field, std::string_view text) { bytes(field, as_bytes(text)); }

void ProtoWriter::bytes(::uint32_t field, Bytes bytes) {
  tag(field, WireType::bytes);
  varint(bytes.size());
  raw(bytes.data(), bytes.size());
}

void ProtoWriter::borrowed_bytes(::uint32_t field, Bytes bytes) {
  tag(field, WireType::bytes);
  varint(bytes.size());
  if (bytes.empty()) return;
  marks_.push_back({out_.size(), bytes.size(), bytes.data()});
  size_ += bytes.size();
}

void ProtoWriter::packed_int64(::uint32_t field, Span<const ::int64_t> values) {
  packed_uint64(field, {reinterpret_cast<const ::uint64_t*>(values.data()), values.size()});
}

void ProtoWriter::packed_int32(::uint32_t field, Span<const ::int32_t> values) {
  if (values.empty()) return;
  begin(field);
  for (::int32_t v : values) varint(static_cast<::uint64_t>(::int64_t{v}));
  end();
}

void ProtoWriter::packed_uint64(::uint32_t field, Span<const ::uint64_t> values) {
  if (values.empty()) return;
  begin(field);
  for (::uint64_t v : values) varint(v);
  end();
}

void ProtoWriter::packed_float(::uint32_t field, Span<const float> values) {
  if (values.empty()) return;
  bytes(field, {reinterpret_cast<const uint8_t*>(values.data()), values.size() * 4});
}

void ProtoWriter::packed_double(::uint32_t field, Span<const double> values) {
  if (values.empty()) return;
  bytes(field, {reinterpret_cast<const uint8_t*>(values.data()), values.size() * 8});
}

void ProtoWriter::begin(::uint32_t field) {
  tag(field, WireType::bytes);
  open_.push_back({marks_.size(), size_});
  marks_.push_back({out_.size(), 0, nullptr});
}

void ProtoWriter::end() {
  TERN_ASSERT(!open_.empty());
  Open open = open_.back();
  open_.pop_back();
  ::uint64_t length = size_ - open.size_before;
  marks_[open.mark].length = length;
  size_ += varint_size(length);
}

void ProtoWriter::write(Sink& sink) const {
  TERN_ASSERT(open_.empty());
  if (size_ > kMaxMessage)
    failf(ErrorKind::value,
          "protobuf: the message has {} bytes, above the format's limit of 2 GB: store large tensors as "
          "external data",
          size_);
  size_t done = 0;
  for (const Mark& mark : marks_) {
    sink.write(out_.data() + done, mark.at - done);
    done = mark.at;
    if (mark.bytes) {
      sink.write(mark.bytes, mark.length);
      continue;
    }
    uint8_t bytes[10];
    size_t n = 0;
    ::uint64_t length = mark.length;
    for (; length >= 0x80; length >>= 7) bytes[n++] = static_cast<uint8_t>(length | 0x80);
    bytes[n++] = static_cast<uint8_t>(length);
    sink.write(bytes, n);
  }
  sink.write(out_.data() + done, out_.size() - done);
}

std::string ProtoWriter::str() const {
  MemoryWriter memory;
  write(memory);
  return std::string(as_text(memory.bytes()));
}

}  // namespace tern::io
