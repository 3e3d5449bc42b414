#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/io/malformed.h"

namespace tern::io {
namespace {

using ::testing::HasSubstr;

TEST(IoFile, WritesAndMapsBack) {
  TemporaryDir dir;
  write_file(dir / "a", "hello");
  auto map = MappedFile::open(dir / "a");
  EXPECT_EQ(as_text(map->bytes()), "hello");
  EXPECT_EQ(map->path(), dir / "a");
  EXPECT_EQ(read_text_file(dir / "a"), "hello");
  EXPECT_EQ(read_file(dir / "a"), bytes_of("hello"));
}

TEST(IoFile, EmptyFilesMap) {
  TemporaryDir dir;
  write_file(dir / "a", "");
  EXPECT_EQ(MappedFile::open(dir / "a")->size(), 0u);
  EXPECT_TRUE(read_file(dir / "a").empty());
}

TEST(IoFile, FilesThatClaimNoSizeAreRead) {
  EXPECT_GT(MappedFile::open("/proc/self/status")->size(), 100u);
  EXPECT_GT(read_file("/proc/self/status").size(), 100u);
}

TEST(IoFile, ErrorsNamePathAndReason) {
  TemporaryDir dir;
  EXPECT_EQ(error_of([&] { MappedFile::open(dir / "none"); }),
            "cannot open '" + (dir / "none") + "': No such file or directory");
  EXPECT_THAT(error_of([&] { read_file(dir.path()); }), HasSubstr("it is a folder, not a file"));
  EXPECT_THAT(error_of([&] { FileWriter w(dir / "no/such/file"); }), HasSubstr("No such file or directory"));
  EXPECT_THAT(error_of([&] { FileWriter w(dir.path()); }), HasSubstr("it is a folder, not a file"));
  EXPECT_THAT(error_of([&] { FileWriter w(""); }), HasSubstr("the path is empty"));
}

TEST(IoFile, CopyOnWriteLeavesTheFileAlone) {
  TemporaryDir dir;
  write_file(dir / "a", "hello");
  auto map = MappedFile::open(dir / "a", MapMode::copy_on_write);
  ASSERT_TRUE(map->writable());
  const_cast<uint8_t*>(map->bytes().data())[0] = 'J';
  EXPECT_EQ(as_text(map->bytes()), "Jello");
  EXPECT_EQ(read_text_file(dir / "a"), "hello");
}

TEST(IoFile, SharedBytesAreTheFiles) {
  TemporaryDir dir;
  write_file(dir / "a", "abc");
  {
    auto map = MappedFile::open_shared(dir / "a", 5);
    EXPECT_TRUE(map->writable());
    EXPECT_EQ(as_text(map->bytes()), std::string_view("abc\0\0", 5));
    const_cast<uint8_t*>(map->bytes().data())[4] = 'e';
  }
  EXPECT_EQ(read_text_file(dir / "a"), std::string("abc\0e", 5));
  EXPECT_EQ(MappedFile::open_shared(dir / "a", 2)->size(), 2u);
  EXPECT_EQ(MappedFile::open_shared(dir / "made", 0)->size(), 0u);
  EXPECT_THROW(MappedFile::open_shared(dir / "none/x", 1), tern::Error);
  EXPECT_THROW(MappedFile::open_shared(dir.path(), 1), tern::Error);
}

TEST(IoFile, WithoutCommitNothingRemains) {
  TemporaryDir dir;
  write_file(dir / "a", "old");
  {
    FileWriter writer(dir / "a");
    writer.write("new");
  }
  EXPECT_EQ(read_text_file(dir / "a"), "old");
  EXPECT_EQ(::rmdir(dir.path().c_str()), -1);  // only "a" is in it
  ::unlink((dir / "a").c_str());
  EXPECT_EQ(::rmdir(dir.path().c_str()), 0);
}

TEST(IoFile, AMapSurvivesTheReplacementOfItsFile) {
  TemporaryDir dir;
  write_file(dir / "a", "old");
  auto map = MappedFile::open(dir / "a");
  write_file(dir / "a", "new!");
  EXPECT_EQ(as_text(map->bytes()), "old");
  EXPECT_EQ(read_text_file(dir / "a"), "new!");
}

TEST(IoFile, WritingThroughALinkKeepsLinkAndMode) {
  TemporaryDir dir;
  write_file(dir / "a", "old");
  ASSERT_EQ(::chmod((dir / "a").c_str(), 0640), 0);
  ASSERT_EQ(::symlink("a", (dir / "link").c_str()), 0);
  write_file(dir / "link", "new");
  EXPECT_EQ(read_text_file(dir / "a"), "new");
  struct stat info;
  ASSERT_EQ(::lstat((dir / "link").c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
  ASSERT_EQ(::stat((dir / "a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST(IoFile, PatchesBeforeAndAfterTheBufferIsFlushed) {
  TemporaryDir dir;
  std::string large(1 << 20, 'x');
  FileWriter writer(dir / "a");
  writer.write("0000");
  writer.write(large);
  writer.write("1111");
  EXPECT_EQ(writer.position(), large.size() + 8);
  writer.patch(1, "AB", 2);
  writer.patch(large.size() + 5, "CD", 2);
  writer.write("2222");
  writer.commit();
  EXPECT_EQ(read_text_file(dir / "a"), "0AB0" + large + "1CD12222");
}

TEST(IoFile, AFullDiskIsAnError) {
  ASSERT_EQ(::access("/dev/full", W_OK), 0) << "every Linux has it";
  FileWriter writer("/dev/full");
  writer.write("x");
  EXPECT_THAT(error_of([&] { writer.commit(); }), HasSubstr("No space left on device"));
}

TEST(IoFile, MemoryWriterPatches) {
  MemoryWriter writer;
  writer.write("hello");
  writer.patch(0, "J", 1);
  EXPECT_EQ(as_text(writer.bytes()), "Jello");
  EXPECT_EQ(writer.take(), bytes_of("Jello"));
  EXPECT_EQ(writer.position(), 0u);
}

}  // namespace
}  // namespace tern::io
