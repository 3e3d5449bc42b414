#include "tern/io/safetensors.h"

#include <gmock/gmock.h>

#include <cstring>

#include "tests/io/malformed.h"

namespace tern::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<uint8_t> file_with(std::string_view header, std::string_view data) {
  uint64_t size = header.size();
  std::string out(reinterpret_cast<const char*>(&size), 8);
  return bytes_of(out.append(header).append(data));
}
std::string error_in(std::string_view header, std::string_view data) {
  return error_of([&] { parse_safetensors(own(file_with(header, data)), "x.safetensors"); });
}

SafeTensors small() {
  static const std::string a = "0123456789abcdef", b = "xyz";
  return {{{"b", "U8", {3}, as_bytes(b)}, {"a", "F32", {2, 2}, as_bytes(a)}, {"none", "I64", {0, 4}, {}}},
          {{"format", "pt"}},
          nullptr};
}

TEST(IoSafetensors, WritesWhatTheReferenceWrites) {
  MemoryWriter out;
  write_safetensors(out, small());
  std::string_view text = as_text(out.bytes());
  std::string header =
      R"({"__metadata__":{"format":"pt"},"none":{"dtype":"I64","shape":[0,4],"data_offsets":[0,0]},)"
      R"("a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
      R"("b":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  uint64_t size;
  std::memcpy(&size, text.data(), 8);
  EXPECT_EQ(size, header.size());
  EXPECT_EQ(text.substr(8), header + "0123456789abcdefxyz");
}

TEST(IoSafetensors, RoundTripThroughAFile) {
  TemporaryDir dir;
  write_safetensors(dir / "x.safetensors", small());
  SafeTensors back = read_safetensors(dir / "x.safetensors");
  ASSERT_EQ(back.tensors.size(), 3u);
  ASSERT_NE(back.find("a"), nullptr);
  EXPECT_THAT(back.find("a")->shape, ElementsAre(2, 2));
  EXPECT_EQ(back.find("a")->dtype, "F32");
  EXPECT_EQ(as_text(back.find("a")->data), "0123456789abcdef");
  EXPECT_EQ(as_text(back.find("b")->data), "xyz");
  EXPECT_EQ(back.find("c"), nullptr);
  EXPECT_EQ(back.metadata[0].second, "pt");
}

TEST(IoSafetensors, EverythingIsValidated) {
  EXPECT_THAT(error_of([] { parse_safetensors(own(std::string("abc")), "x.safetensors"); }),
              HasSubstr("it is shorter than 8 bytes"));
  EXPECT_THAT(error_of([] { parse_safetensors(own(std::string(9, '\xff')), "x.safetensors"); }),
              HasSubstr("its header claims 18446744073709551615 bytes"));
  EXPECT_EQ(error_in(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "0123"),
            "x.safetensors: $.a: dtype and shape need 8 bytes, but the offsets give 4");
  EXPECT_EQ(error_in(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "0123"),
            "x.safetensors: $.a.data_offsets: [0, 8) lies outside the 4 bytes of data");
  EXPECT_EQ(error_in(R"({"a":{"dtype":"F99","shape":[],"data_offsets":[0,0]}})", ""),
            "x.safetensors: $.a.dtype: there is no dtype 'F99'");
  EXPECT_EQ(error_in(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                     R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                     "abc"),
            "x.safetensors: two tensors overlap at data offset 1");
  EXPECT_EQ(error_in(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})", "abc"),
            "x.safetensors: the data have a hole between offsets 0 and 2");
  EXPECT_EQ(error_in(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "abc"),
            "x.safetensors: 2 bytes of data belong to no tensor");
  EXPECT_THAT(error_in(R"({"a":{"dtype":"F64","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", ""),
              HasSubstr("the shape overflows"));
  EXPECT_THAT(error_in(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", "a"),
              HasSubstr("do not fill whole bytes"));
}

TEST(IoSafetensors, WriterRefusesContradictions) {
  MemoryWriter out;
  SafeTensors content = small();
  content.tensors[0].shape = {4};
  EXPECT_EQ(error_of([&] { write_safetensors(out, content); }),
            "safetensors: 'b' needs 4 bytes by its dtype and shape, but 3 are given");
  content = small();
  content.tensors.push_back(content.tensors[0]);
  EXPECT_EQ(error_of([&] { write_safetensors(out, content); }), "safetensors: two tensors are called 'b'");
  EXPECT_EQ(out.position(), 0u);
}

TEST(IoSafetensors, MalformedFilesNeverCrash) {
  MemoryWriter out;
  write_safetensors(out, small());
  Outcome outcome = try_damaged(out.bytes(), [](Blob bytes) { parse_safetensors(bytes); });
  EXPECT_GT(outcome.refused, static_cast<int>(out.bytes().size()));
  EXPECT_GT(outcome.accepted, 0);
}

}  // namespace
}  // namespace tern::io
