// Every file of the corpora, whole and damaged, through the targets that libFuzzer drives: seeds, and what a
// fuzzer once found. In the asan preset this is where a reader's mistake becomes a failing test.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "fuzz/targets.h"
#include "tests/support/paths.h"

namespace tern::fuzz {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> corpus_of(std::string_view target) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(testing::source_dir()) / "fuzz/corpus" / target))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// The target's verdict on bytes that have just this size: a sanitizer sees a read past their end.
void expect_survives(const Target& target, std::string_view content, const std::string& how) {
  std::vector<uint8_t> bytes(content.begin(), content.end());
  try {
    EXPECT_EQ(target.one(bytes.data(), bytes.size()), 0) << how;
  } catch (const std::exception& e) {
    ADD_FAILURE() << how << ": " << e.what();
  }
}

class Corpus : public ::testing::TestWithParam<Target> {};

TEST_P(Corpus, is_survived) {
  std::vector<fs::path> files = corpus_of(GetParam().name);
  ASSERT_GE(files.size(), 3u);
  for (const fs::path& file : files)
    expect_survives(GetParam(), testing::read_file(file), file.filename().string());
  expect_survives(GetParam(), "", "nothing");
}

// Cut at some forty places, and with as many bits flipped: spread over the file, the same in every run.
TEST_P(Corpus, is_survived_when_damaged) {
  for (const fs::path& file : corpus_of(GetParam().name)) {
    const std::string whole = testing::read_file(file);
    const size_t step = std::max<size_t>(1, whole.size() / 40);
    for (size_t at = 0; at < whole.size(); at += step) {
      expect_survives(GetParam(), std::string_view(whole).substr(0, at),
                      file.filename().string() + " cut at " + std::to_string(at));
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ 1 << (at / step % 8));
      expect_survives(GetParam(), flipped, file.filename().string() + " flipped at " + std::to_string(at));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Corpus, ::testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Fuzz, errors_of_bad_input_are_no_findings_and_others_are) {
  EXPECT_EQ(survive([] { fail(ErrorKind::file, "x.zip: bad"); }), 0);
  EXPECT_THROW(survive([] { fail(ErrorKind::internal, "our mistake"); }), Finding);
  EXPECT_THROW(survive([] { throw std::length_error("a size from the file"); }), std::length_error);
  EXPECT_THROW(must("again", [] { fail(ErrorKind::file, "x.zip: bad"); }), Finding);
}

TEST(Fuzz, every_folder_of_the_corpus_has_a_target) {
  for (const auto& entry : fs::directory_iterator(fs::path(testing::source_dir()) / "fuzz/corpus"))
    EXPECT_TRUE(std::any_of(targets().begin(), targets().end(), [&](const Target& t) {
      return t.name == entry.path().filename().string();
    })) << entry.path();
}

}  // namespace
}  // namespace tern::fuzz
