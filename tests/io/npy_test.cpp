#include "tern/io/npy.h"

#include <gmock/gmock.h>

#include <cstring>

#include "tests/io/malformed.h"

namespace tern::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

NpyArray floats(std::vector<int64_t> shape, std::vector<float> values) {
  std::vector<uint8_t> bytes(values.size() * 4);
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return {"<f4", false, std::move(shape), own(std::move(bytes))};
}

std::vector<uint8_t> file_with(std::string header, std::string_view data, int version = 1) {
  std::string out("\x93NUMPY", 6);
  out += static_cast<char>(version);
  out += '\0';
  uint32_t size = static_cast<uint32_t>(header.size());
  out.append(reinterpret_cast<const char*>(&size), version == 1 ? 2 : 4);
  return bytes_of(out + header + std::string(data));
}
NpyArray parse(std::string header, std::string_view data, int version = 1) {
  return parse_npy(own(file_with(std::move(header), data, version)), "x.npy");
}

TEST(IoNpy, HeaderIsNumPys) {
  // np.save of np.zeros((2, 3), "f4")
  std::string header = npy_header("<f4", false, {2, 3});
  EXPECT_EQ(header.size(), 128u);
  EXPECT_EQ(header.substr(0, 10), std::string("\x93NUMPY\1\0v\0", 10));
  EXPECT_EQ(header.substr(10, 60), "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } ");
  EXPECT_EQ(header.back(), '\n');
  EXPECT_THAT(npy_header("|b1", true, {5}), HasSubstr("'fortran_order': True, 'shape': (5,), }"));
  EXPECT_THAT(npy_header("<i8", false, {}), HasSubstr("'shape': (), }"));
}

TEST(IoNpy, RoundTripThroughAFile) {
  TemporaryDir dir;
  write_npy(dir / "a.npy", floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  NpyArray back = read_npy(dir / "a.npy");
  EXPECT_EQ(back.descr, "<f4");
  EXPECT_FALSE(back.fortran);
  EXPECT_THAT(back.shape, ElementsAre(2, 3));
  EXPECT_EQ(back.count(), 6);
  EXPECT_EQ(back.item_size(), 4u);
  EXPECT_EQ(reinterpret_cast<const float*>(back.data.bytes.data())[5], 6.0f);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(back.data.bytes.data()) % 64, 0u);
}

TEST(IoNpy, ZeroDimensionalAndEmpty) {
  MemoryWriter out;
  write_npy(out, floats({}, {7}));
  EXPECT_EQ(parse_npy(own(out.take())).count(), 1);
  write_npy(out, floats({0, 5}, {}));
  EXPECT_EQ(parse_npy(own(out.take())).data.bytes.size(), 0u);
}

TEST(IoNpy, VersionsOrdersAndQuirks) {
  EXPECT_TRUE(parse("{'descr': '>i2', 'fortran_order': True, 'shape': (2,), }\n", "abcd").big_endian());
  EXPECT_TRUE(parse("{'descr': '>i2', 'fortran_order': True, 'shape': (2,), }\n", "abcd", 2).fortran);
  EXPECT_EQ(parse("{'shape':(2L,1L),\"fortran_order\":False,'descr':'|u1'}", "ab", 3).count(), 2);
  EXPECT_EQ(npy_item_size("<U5"), 20u);
  EXPECT_EQ(npy_item_size("|V2"), 2u);
  EXPECT_EQ(npy_item_size("<M8[ns]"), 8u);
  EXPECT_EQ(npy_item_size("<c16"), 16u);
}

TEST(IoNpy, SeveralArraysInOneFile) {
  MemoryWriter out;
  write_npy(out, floats({1}, {1}));
  write_npy(out, floats({1}, {2}));
  Blob file = own(out.take());
  size_t used = 0;
  parse_npy(file, "x", &used);
  NpyArray second = parse_npy({file.bytes.drop_front(used), file.owner}, "x");
  EXPECT_EQ(reinterpret_cast<const float*>(second.data.bytes.data())[0], 2.0f);
}

TEST(IoNpy, Errors) {
  EXPECT_THAT(error_of([] { parse_npy(own(std::string("hello world")), "x.npy"); }),
              HasSubstr("x.npy: not a .npy file"));
  EXPECT_THAT(error_of([] { parse("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "1234"); }),
              HasSubstr("x.npy: the array needs 8 bytes but the file has 4: it is truncated"));
  EXPECT_THAT(
      error_of([] { parse("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", ""); }),
      HasSubstr("structured arrays are not supported"));
  EXPECT_THAT(error_of([] { parse("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", ""); }),
              HasSubstr("x.npy: npy: the dtype '|O' is not supported"));
  EXPECT_THAT(error_of([] { parse("{'descr': '|O8', 'fortran_order': False, 'shape': (2,), }", ""); }),
              HasSubstr("arrays of Python objects ('|O8') are pickles and are not read"));
  EXPECT_THAT(error_of([] { parse("{'descr': '<f4', 'shape': (2,), }", ""); }),
              HasSubstr("it needs descr, fortran_order and shape"));
  EXPECT_THAT(error_of([] {
                parse("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", "");
              }),
              HasSubstr("the array's shape overflows"));
  EXPECT_THAT(error_of([] { parse("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", ""); }),
              HasSubstr("a dimension is negative"));
  MemoryWriter out;
  EXPECT_EQ(error_of([&] { write_npy(out, floats({3}, {1})); }),
            "npy: an array of this shape and dtype has 12 bytes, but 4 are given");
}

TEST(IoNpz, StoredIsMappedAndDeflatedIsRead) {
  TemporaryDir dir;
  std::vector<NpzEntry> entries = {{"a", floats({2}, {1, 2})}, {"dir/b", floats({}, {3})}};
  for (bool deflate : {false, true}) {
    write_npz(dir / "x.npz", entries, deflate);
    std::vector<NpzEntry> back = read_npz(dir / "x.npz");
    ASSERT_EQ(back.size(), 2u);
    EXPECT_EQ(back[0].name, "a");
    EXPECT_EQ(back[1].name, "dir/b");
    EXPECT_EQ(as_text(back[0].array.data.bytes), as_text(entries[0].array.data.bytes));
    if (!deflate) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(back[0].array.data.bytes.data()) % 64, 0u);
    }
  }
}

TEST(IoNpz, OtherArchivesAreRefused) {
  MemoryWriter out;
  ZipWriter zip(out);
  zip.add("readme.txt", "x");
  zip.finish();
  ZipReader archive(own(out.take()), "x.npz");
  EXPECT_EQ(error_of([&] { read_npz(archive); }),
            "x.npz: not an .npz file: its member 'readme.txt' is not a .npy file");
}

TEST(IoNpy, MalformedFilesNeverCrash) {
  MemoryWriter out;
  write_npy(out, floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  Outcome outcome = try_damaged(out.bytes(), [](Blob bytes) { parse_npy(bytes).count(); });
  EXPECT_GT(outcome.refused, 150);
  EXPECT_GT(outcome.accepted, 150);
  MemoryWriter archive;
  write_npz(archive, {{"a", floats({2}, {1, 2})}, {"b", floats({1}, {3})}}, true);
  EXPECT_GT(try_damaged(archive.bytes(), [](Blob bytes) { read_npz(ZipReader(bytes, "x")); }).refused, 300);
}

}  // namespace
}  // namespace tern::io
