#include "tern/io/zip.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstring>

#include "tern/base/format.h"
#include "tests/io/malformed.h"
#include "tests/support/patience.h"

namespace tern::io {
namespace {

using tern::testing::patience;
using ::testing::HasSubstr;

std::vector<uint8_t> small_archive() {
  MemoryWriter out;
  ZipWriter zip(out);
  zip.add("net/data.pkl", "pickled");
  zip.add("net/code.py", std::string(300, 'a') + "b", true);
  zip.begin("net/data/0");
  zip.write("chunk one, ");
  zip.write("chunk two");
  zip.end();
  zip.add("net/empty", "");
  zip.finish();
  return out.take();
}

ZipReader reader(std::vector<uint8_t> bytes, ZipLimits limits = {}) {
  return ZipReader(own(std::move(bytes)), "net.pt", limits);
}

// Overwrites the four bytes at `field` after the nth occurrence of a signature.
void poke(std::vector<uint8_t>& file, std::string_view signature, int nth, size_t field, uint32_t value) {
  size_t at = 0;
  for (int i = 0; i <= nth; ++i) at = as_text(file).find(signature, at + (i > 0));
  ASSERT_NE(at, std::string::npos);
  std::memcpy(file.data() + at + field, &value, 4);
}
constexpr std::string_view kCentral("PK\1\2", 4), kLocal("PK\3\4", 4), kEnd("PK\5\6", 4);

TEST(IoZip, Crc32) {
  EXPECT_EQ(crc32({}), 0u);
  EXPECT_EQ(crc32(as_bytes("123456789")), 0xcbf43926u);
  EXPECT_EQ(crc32({}, 0x12345678), 0x12345678u);
  std::vector<uint8_t> data(1000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * i + 7 * i);
  for (size_t from = 0; from < 20; ++from)
    for (size_t size = 0; size + from <= 300; ++size) {
      Bytes bytes(data.data() + from, size);
      uint32_t bitwise = ~0u;
      for (uint8_t b : bytes) {
        bitwise ^= b;
        for (int i = 0; i < 8; ++i) bitwise = bitwise >> 1 ^ (bitwise & 1 ? 0xEDB88320u : 0);
      }
      ASSERT_EQ(crc32(bytes), ~bitwise) << size;
      ASSERT_EQ(crc32(bytes.drop_front(size / 3), crc32(bytes.first(size / 3))), ~bitwise) << size;
    }
}

TEST(IoZip, RoundTrip) {
  ZipReader zip = reader(small_archive());
  ASSERT_EQ(zip.members().size(), 4u);
  EXPECT_EQ(zip.members()[0].name, "net/data.pkl");
  EXPECT_EQ(zip.read_text("net/data.pkl"), "pickled");
  EXPECT_EQ(zip.read_text("net/code.py"), std::string(300, 'a') + "b");
  EXPECT_FALSE(zip.at("net/code.py").stored());
  EXPECT_LT(zip.at("net/code.py").compressed_size, 50u);
  EXPECT_EQ(zip.read_text("net/data/0"), "chunk one, chunk two");
  EXPECT_EQ(zip.read_text("net/empty"), "");
  EXPECT_EQ(zip.find("net"), nullptr);
  zip.verify();
}

TEST(IoZip, MembersAreAlignedAndStoredOnesBorrowed) {
  ZipReader zip = reader(small_archive());
  for (const ZipMember& member : zip.members())
    EXPECT_EQ(zip.data_offset(member) % ZipWriter::kAlignment, 0u);
  Blob data = zip.read("net/data/0");
  EXPECT_EQ(data.bytes.data(), zip.archive().bytes.data() + zip.data_offset(zip.at("net/data/0")));
  EXPECT_EQ(data.owner, zip.archive().owner);
}

TEST(IoZip, LocalHeaderIsPyTorchs) {
  MemoryWriter out;
  ZipWriter zip(out);
  zip.add("s/byteorder", "little");
  zip.finish();
  std::string_view text = as_text(out.bytes());
  EXPECT_EQ(text.substr(0, 8), std::string_view("PK\3\4\0\0\x08\x08", 8));  // data descriptor, UTF-8
  EXPECT_EQ(text.substr(30, 11), "s/byteorder");
  EXPECT_EQ(text.substr(41, 4), std::string_view("FB\x13\0", 4));
  EXPECT_EQ(text.substr(45, 19), std::string(19, 'Z'));
  EXPECT_EQ(text.substr(64, 10), "littlePK\7\x08");
}

TEST(IoZip, EmptyArchive) {
  MemoryWriter out;
  ZipWriter(out).finish("a comment");
  EXPECT_EQ(reader(out.take()).members().size(), 0u);
}

TEST(IoZip, AnArchiveBehindOtherBytes) {
  std::vector<uint8_t> file = small_archive();
  file.insert(file.begin(), 1000, '#');
  EXPECT_EQ(reader(file).read_text("net/data.pkl"), "pickled");
}

TEST(IoZip, AnArchiveInsideASink) {
  MemoryWriter out;
  out.write("front");
  ZipWriter zip(out);
  zip.add("a", "b");
  zip.finish();
  EXPECT_EQ(reader(out.take()).read_text("a"), "b");
}

TEST(IoZip, ManyMembersNeedZip64) {
  MemoryWriter out;
  ZipWriter zip(out);
  for (int i = 0; i < 70000; ++i) zip.add(fmt::format("m{}", i), std::to_string(i));
  zip.finish();
  ZipReader back = reader(out.take());
  ASSERT_EQ(back.members().size(), 70000u);
  EXPECT_EQ(back.read_text("m69999"), "69999");
}

// A sink that counts instead of storing, and keeps only what is not the large member.
struct SparseSink final : Sink {
  std::vector<std::pair<uint64_t, std::string>> pieces;
  void write(const void* data, size_t size) override {
    if (size < (1 << 20)) pieces.emplace_back(position_, std::string(static_cast<const char*>(data), size));
    position_ += size;
  }
  void patch(uint64_t, const void*, size_t) override { FAIL() << "a zip is never patched"; }
};

TEST(IoZip, LargeMembersNeedZip64) {
  SparseSink sink;
  ZipWriter zip(sink);
  std::vector<uint8_t> chunk(16 << 20);
  zip.begin("big", {.size = uint64_t{chunk.size()} * 260});
  for (int i = 0; i < 260; ++i) zip.write(chunk);  // 4.06 GiB
  zip.end();
  zip.add("after", "x");
  zip.finish();
  // The file with a hole instead of 4 GiB of zeros.
  TemporaryDir dir;
  FILE* file = std::fopen((dir / "big.zip").c_str(), "wb");
  for (auto& [at, text] : sink.pieces) {
    ASSERT_EQ(fseeko(file, static_cast<off_t>(at), SEEK_SET), 0);
    ASSERT_EQ(std::fwrite(text.data(), 1, text.size(), file), text.size());
  }
  std::fclose(file);
  auto start = std::chrono::steady_clock::now();
  ZipReader back(dir / "big.zip");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(200) * patience);
  EXPECT_EQ(back.at("big").size, uint64_t{chunk.size()} * 260);
  EXPECT_EQ(back.read("big").bytes.size(), uint64_t{chunk.size()} * 260);
  EXPECT_GT(back.at("after").header_offset, uint64_t{1} << 32);
  EXPECT_EQ(back.read_text("after"), "x");
}

TEST(IoZip, WriterRefusesMisuse) {
  MemoryWriter out;
  ZipWriter zip(out);
  zip.add("a", "1");
  EXPECT_EQ(error_of([&] { zip.add("a", "2"); }), "zip: the archive already has a member 'a'");
  EXPECT_THAT(error_of([&] { zip.add("", "2"); }), HasSubstr("a member's name must have 1 to"));
  zip.begin("b", {.size = 2});
  EXPECT_EQ(error_of([&] { zip.write("abc"); }), "zip: member 'b' was declared with 2 bytes but gets more");
}

TEST(IoZip, MissingMemberNamesThoseThatExist) {
  ZipReader zip = reader(small_archive());
  EXPECT_THAT(error_of([&] { zip.read("nope"); }),
              HasSubstr("net.pt: the archive has no member 'nope' (it has 'net/data.pkl', 'net/code.py'"));
}

TEST(IoZip, NotAZip) {
  EXPECT_EQ(error_of([] { reader(bytes_of("hello")); }), "net.pt: not a zip archive: it has no end record");
  std::vector<uint8_t> file = small_archive();
  file.resize(file.size() - 30);
  EXPECT_EQ(error_of([&] { reader(file); }),
            "net.pt: the zip archive is truncated: its end record is missing");
  EXPECT_TRUE(ZipReader::looks_like_zip(file));
  EXPECT_FALSE(ZipReader::looks_like_zip(bytes_of("PK")));
}

TEST(IoZip, DamageIsFoundByTheCrc) {
  std::vector<uint8_t> file = small_archive();
  file[as_text(file).find("pickled")] = 'P';
  ZipReader zip = reader(file);
  EXPECT_EQ(as_text(zip.read("net/data.pkl").bytes), "Pickled");
  EXPECT_THAT(error_of([&] { zip.read("net/data.pkl", Crc::check); }),
              HasSubstr("member 'net/data.pkl': its CRC is"));
  EXPECT_THAT(error_of([&] { zip.verify(); }), HasSubstr("the file is damaged"));
}

TEST(IoZip, SizesThatLie) {
  std::vector<uint8_t> file = small_archive();
  poke(file, kCentral, 0, 24, 8);
  EXPECT_THAT(error_of([&] { reader(file); }),
              HasSubstr("'net/data.pkl' is stored but has two sizes, 7 and 8"));
  file = small_archive();
  poke(file, kCentral, 0, 20, 1 << 20);
  poke(file, kCentral, 0, 24, 1 << 20);
  EXPECT_THAT(error_of([&] { reader(file); }), HasSubstr("lies outside the file"));
  file = small_archive();
  poke(file, kCentral, 1, 24, 302);
  EXPECT_THAT(error_of([&] { reader(file).read("net/code.py"); }), HasSubstr("inflates to fewer bytes"));
  poke(file, kCentral, 1, 24, 300);
  EXPECT_THAT(error_of([&] { reader(file).read("net/code.py"); }), HasSubstr("inflates to more bytes"));
}

TEST(IoZip, BombsAreRefused) {
  std::vector<uint8_t> file = small_archive();
  poke(file, kCentral, 1, 24, 0xF0000000);
  EXPECT_THAT(error_of([&] { reader(file).read("net/code.py"); }), HasSubstr("a ratio above 1032"));
  EXPECT_THAT(error_of([&] { reader(small_archive(), {.max_member_size = 100}).read("net/code.py"); }),
              HasSubstr("it claims 301 bytes, above the limit of 100"));
  file = small_archive();
  poke(file, kCentral, 1, 42, 0);  // two entries that share one local header
  EXPECT_THAT(error_of([&] { reader(file); }), HasSubstr("overlap"));
}

TEST(IoZip, AnOverlapHiddenInALocalHeaderIsFound) {
  std::vector<uint8_t> file = small_archive();
  uint16_t extra;
  std::memcpy(&extra, file.data() + 28, 2);
  extra = static_cast<uint16_t>(extra + 60);
  std::memcpy(file.data() + 28, &extra, 2);
  EXPECT_THAT(error_of([&] { reader(file).read("net/data.pkl"); }), HasSubstr("reach into what follows it"));
}

TEST(IoZip, DuplicateNamesAreRefused) {
  std::vector<uint8_t> file;
  {
    MemoryWriter out;
    ZipWriter zip(out);
    zip.add("aa", "1");
    zip.add("ab", "2");
    zip.finish();
    file = out.take();
  }
  file[as_text(file).rfind("ab") + 1] = 'a';
  EXPECT_EQ(error_of([&] { reader(file); }), "net.pt: two zip members are called 'aa'");
}

TEST(IoZip, MalformedFilesNeverCrash) {
  std::vector<uint8_t> file = small_archive();
  Outcome outcome = try_damaged(file, [](Blob bytes) {
    ZipReader zip(bytes, "fuzz");
    zip.verify();
  });
  EXPECT_GT(outcome.refused, static_cast<int>(file.size()));
  EXPECT_GT(outcome.accepted, 0);
}

}  // namespace
}  // namespace tern::io
