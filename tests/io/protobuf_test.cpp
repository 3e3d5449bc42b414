#include "tern/io/protobuf.h"

#include <gmock/gmock.h>

#include "tests/io/malformed.h"

namespace tern::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::string_view_literals;

TEST(IoProtobuf, KnownBytes) {
  ProtoWriter w;
  w.uint64(1, 150);
  w.string(2, "testing");
  w.begin(3);
  w.uint64(1, 150);
  w.end();
  w.packed_int64(6, {3, 270, 86942});
  EXPECT_EQ(w.str(), "\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01\x32\x06\x03\x8e\x02\x9e\xa7\x05"sv);
  EXPECT_EQ(w.size(), w.str().size());
}

std::string everything() {
  ProtoWriter w;
  w.int64(1, -1);
  w.int32(2, -2);
  w.boolean(3, true);
  w.sint64(4, -3);
  w.fixed32(5, 7);
  w.fixed64(6, 8);
  w.float32(7, 1.5f);
  w.float64(8, -2.5);
  w.bytes(9, as_bytes("ab"));
  static const std::string large(300, 'L');
  w.message(10, [](ProtoWriter& m) {
    m.string(1, "in");
    m.message(2, [](ProtoWriter& n) { n.borrowed_bytes(3, as_bytes(large)); });
  });
  w.packed_float(11, {1.0f, 2.0f});
  w.packed_double(12, {3.0});
  w.packed_int32(13, {-1, 1});
  w.packed_int64(14, {});
  return w.str();
}

TEST(IoProtobuf, RoundTrip) {
  std::string text = everything();
  int fields = 0;
  for (ProtoReader r(as_bytes(text)); r.next(); ++fields) {
    std::vector<float> floats;
    std::vector<double> doubles;
    std::vector<int32_t> ints;
    switch (r.field()) {
      case 1:
        EXPECT_EQ(r.int64(), -1);
        break;
      case 2:
        EXPECT_EQ(r.int32(), -2);
        break;
      case 3:
        EXPECT_TRUE(r.boolean());
        break;
      case 4:
        EXPECT_EQ(r.sint64(), -3);
        break;
      case 5:
        EXPECT_EQ(r.fixed32(), 7u);
        break;
      case 6:
        EXPECT_EQ(r.fixed64(), 8u);
        break;
      case 7:
        EXPECT_EQ(r.float32(), 1.5f);
        break;
      case 8:
        EXPECT_EQ(r.float64(), -2.5);
        break;
      case 9:
        EXPECT_EQ(r.string(), "ab");
        break;
      case 10: {
        ProtoReader m = r.message();
        ASSERT_TRUE(m.next());
        EXPECT_EQ(m.string(), "in");
        ASSERT_TRUE(m.next());
        ProtoReader n = m.message();
        ASSERT_TRUE(n.next());
        Bytes large = n.bytes();
        EXPECT_EQ(as_text(large), std::string(300, 'L'));
        EXPECT_EQ(n.offset(), static_cast<size_t>(large.end() - as_bytes(text).data()));
        EXPECT_FALSE(n.next());
        EXPECT_FALSE(m.next());
        break;
      }
      case 11:
        r.append(floats);
        EXPECT_THAT(floats, ElementsAre(1.0f, 2.0f));
        break;
      case 12:
        r.append(doubles);
        EXPECT_THAT(doubles, ElementsAre(3.0));
        break;
      case 13:
        r.append(ints);
        EXPECT_THAT(ints, ElementsAre(-1, 1));
        break;
      default:
        FAIL() << r.field();
    }
  }
  EXPECT_EQ(fields, 13);
}

TEST(IoProtobuf, UnreadFieldsAreSkipped) {
  std::string text = everything();
  int fields = 0;
  for (ProtoReader r(as_bytes(text)); r.next();) ++fields;
  EXPECT_EQ(fields, 13);
}

TEST(IoProtobuf, RepeatedNumbersMayComeOneByOne) {
  ProtoWriter w;
  w.int64(1, 5);
  w.packed_int64(1, {6, 7});
  w.float32(2, 1.0f);
  w.packed_float(2, {2.0f});
  std::string text = w.str();
  std::vector<int64_t> ints;
  std::vector<float> floats;
  for (ProtoReader r(as_bytes(text)); r.next();) r.field() == 1 ? r.append(ints) : r.append(floats);
  EXPECT_THAT(ints, ElementsAre(5, 6, 7));
  EXPECT_THAT(floats, ElementsAre(1.0f, 2.0f));
}

std::string walk_error(std::string_view text) {
  return error_of([&] {
    for (ProtoReader r(as_bytes(text), "net.onnx"); r.next();) {
    }
  });
}

TEST(IoProtobuf, ErrorsNameFieldAndOffset) {
  EXPECT_EQ(walk_error("\x0a\x05"
                       "ab"sv),
            "net.onnx: truncated: 5 bytes wanted, 2 left (field 1, offset 2)");
  EXPECT_EQ(walk_error("\x08\xff"sv), "net.onnx: truncated: a number does not end (field 1, offset 2)");
  EXPECT_THAT(walk_error("\x0b"sv), HasSubstr("groups are not supported"));
  EXPECT_THAT(walk_error("\x0e"sv), HasSubstr("wire type 6 does not exist"));
  EXPECT_THAT(walk_error("\x00"sv), HasSubstr("0 is not a field's tag"));
  EXPECT_THAT(walk_error("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"sv), HasSubstr("more than 64 bits"));
  ProtoReader r(as_bytes("\x08\x01"sv), "net.onnx");
  ASSERT_TRUE(r.next());
  EXPECT_EQ(error_of([&] { r.bytes(); }), "net.onnx: wire type 2 is expected, not 0 (field 1, offset 1)");
  std::vector<float> floats;
  ProtoReader odd(as_bytes("\x0a\x03"
                           "abc"sv),
                  "net.onnx");
  ASSERT_TRUE(odd.next());
  EXPECT_THAT(error_of([&] { odd.append(floats); }),
              HasSubstr("3 bytes are not a whole number of 4-byte values"));
}

void descend(ProtoReader reader) {
  while (reader.next()) descend(reader.message());
}

TEST(IoProtobuf, DepthIsBounded) {
  ProtoWriter w;
  for (int i = 0; i < 200; ++i) w.begin(1);
  for (int i = 0; i < 200; ++i) w.end();
  std::string text = w.str();
  EXPECT_THAT(error_of([&] { descend(ProtoReader(as_bytes(text))); }), HasSubstr("nested deeper than 100"));
}

TEST(IoProtobuf, MessagesAboveTwoGigabytesAreRefused) {
  ProtoWriter w;
  // Never touched: writing is refused before the first byte.
  Bytes large(reinterpret_cast<const uint8_t*>(&w), size_t{1} << 31);
  w.borrowed_bytes(1, large);
  MemoryWriter out;
  EXPECT_THAT(error_of([&] { w.write(out); }), HasSubstr("above the format's limit of 2 GB"));
  EXPECT_EQ(out.position(), 0u);
}

TEST(IoProtobuf, MalformedMessagesNeverCrash) {
  std::string text = everything();
  Outcome outcome = try_damaged(bytes_of(text), [](Blob bytes) {
    std::vector<float> floats;
    std::vector<int32_t> ints;
    for (ProtoReader r(bytes.bytes); r.next();) {
      if (r.field() == 10) {
        for (ProtoReader m = r.message(); m.next();)
          if (m.field() == 2)
            for (ProtoReader n = m.message(); n.next();) n.bytes();
      } else if (r.field() == 11) {
        r.append(floats);
      } else if (r.field() == 13) {
        r.append(ints);
      }
    }
  });
  EXPECT_GT(outcome.refused, 100);
  EXPECT_GT(outcome.accepted, 100);
}

}  // namespace
}  // namespace tern::io
