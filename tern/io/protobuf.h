// The protobuf wire format, without messages' descriptions: a zero-copy cursor over fields, and a writer
// that nests messages and streams large borrowed bytes. The caller knows field numbers and types.
#pragma once
#include <string>

#include "tern/io/file.h"

namespace tern::io {

enum class WireType : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

// for (ProtoReader r(bytes); r.next();) switch (r.field()) { case 1: name = r.string(); break; ... }
// A field that is not read is skipped. Errors are ErrorKind::file and name message, field and offset.
class ProtoReader {
 public:
  explicit ProtoReader(Bytes message, std::string_view label = "protobuf")
      : ProtoReader(message, label, 0, 0) {}

  bool next();  // to the next field; false at the end
  uint32_t field() const { return field_; }
  WireType type() const { return type_; }

  uint64_t uint64();
  int64_t int64() { return static_cast<int64_t>(uint64()); }
  int32_t int32() { return static_cast<int32_t>(uint64()); }  // enums too; truncates as protobuf does
  uint32_t uint32() { return static_cast<uint32_t>(uint64()); }
  bool boolean() { return uint64() != 0; }
  int64_t sint64();  // zigzag
  uint32_t fixed32();
  uint64_t fixed64();
  float float32();
  double float64();
  Bytes bytes();
  std::string_view string() { return as_text(bytes()); }
  ProtoReader message(std::string_view label = {});  // a nested message, at most 100 deep

  // Repeated numbers, packed or one by one: appends what this field holds.
  void append(std::vector<int64_t>& out);
  void append(std::vector<int32_t>& out);
  void append(std::vector<uint64_t>& out);
  void append(std::vector<float>& out);
  void append(std::vector<double>& out);

  size_t offset() const { return base_ + static_cast<size_t>(p_ - start_); }  // in the outermost message
  [[noreturn]] void bad(std::string_view what) const;

 private:
  ProtoReader(Bytes message, std::string_view label, size_t base, int depth)
      : start_(message.data()),
        p_(message.data()),
        end_(message.data() + message.size()),
        label_(label),
        base_(base),
        depth_(depth) {}
  void need(WireType type);
  uint64_t varint();
  Bytes take(uint64_t size);
  template <class T>
  void append_varints(std::vector<T>& out);
  template <class T>
  void append_fixed(std::vector<T>& out, WireType single);

  const uint8_t* start_;
  const uint8_t* p_;
  const uint8_t* end_;
  std::string_view label_;
  size_t base_;
  int depth_;
  uint32_t field_ = 0;
  WireType type_ = WireType::varint;
  bool pending_ = false;  // next() found a field whose value has not been read
};

// Fields in the order of the calls. Lengths are filled in at the end, so nothing is moved or copied twice.
class ProtoWriter {
 public:
  static constexpr uint64_t kMaxMessage = 0x7FFFFFFF;

  void uint64(uint32_t field, uint64_t value);
  void int64(uint32_t field, int64_t value) { uint64(field, static_cast<uint64_t>(value)); }
  void int32(uint32_t field, int32_t value) { int64(field, value); }  // negative ones take ten bytes
  void boolean(uint32_t field, bool value) { uint64(field, value); }
  void sint64(uint32_t field, int64_t value);
  void fixed32(uint32_t field, uint32_t value);
  void fixed64(uint32_t field, uint64_t value);
  void float32(uint32_t field, float value);
  void float64(uint32_t field, double value);
  void string(uint32_t field, std::string_view text);
  void bytes(uint32_t field, Bytes bytes);           // copied
  void borrowed_bytes(uint32_t field, Bytes bytes);  // must live until the message is written

  void packed_int64(uint32_t field, Span<const int64_t> values);
  void packed_int32(uint32_t field, Span<const int32_t> values);
  void packed_uint64(uint32_t field, Span<const uint64_t> values);
  void packed_float(uint32_t field, Span<const float> values);
  void packed_double(uint32_t field, Span<const double> values);

  void begin(uint32_t field);  // a nested message, until end()
  void end();
  template <class F>
  void message(uint32_t field, F&& fill) {
    begin(field);
    fill(*this);
    end();
  }

  uint64_t size() const { return size_; }  // of the whole message as it will be written
  // Throws ErrorKind::value when the message exceeds protobuf's 2 GB, before anything is written.
  void write(Sink& sink) const;
  std::string str() const;

 private:
  struct Mark {
    size_t at;             // in out_
    uint64_t length;       // a varint to be inserted there, or the size of borrowed bytes
    const uint8_t* bytes;  // the borrowed bytes; null for a length
  };
  void varint(uint64_t value);
  void tag(uint32_t field, WireType type);
  void raw(const void* data, size_t size);

  std::string out_;
  std::vector<Mark> marks_;
  struct Open {
    size_t mark;
    uint64_t size_before;
  };
  std::vector<Open> open_;
  uint64_t size_ = 0;
};

}  // namespace tern::io
