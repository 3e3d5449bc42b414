// Holds the order of the rooms over the real sources, and shows that the check sees what it must see.
#include "tests/house/rooms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "tests/support/paths.h"

using namespace tern::house;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

namespace {

// Every file under tern/ that ends so, as path relative to the root.
std::vector<std::string> files_ending(std::initializer_list<std::string_view> endings) {
  std::vector<std::string> found;
  fs::path root = tern::testing::source_dir();
  for (const auto& entry : fs::recursive_directory_iterator(root / "tern"))
    for (std::string_view ending : endings)
      if (entry.path().extension() == ending) found.push_back(fs::relative(entry.path(), root).string());
  return found;
}

std::string text_of(const std::string& path) {
  return tern::testing::read_file(tern::testing::source_dir() + "/" + path);
}

}  // namespace

TEST(House, rooms_include_only_rooms_above) {
  std::vector<std::string> files = files_ending({".h", ".cpp"});
  ASSERT_GT(files.size(), 10u);
  for (const std::string& path : files)
    for (const std::string& complaint : include_violations(path, text_of(path))) ADD_FAILURE() << complaint;
}

TEST(House, headers_stay_cheap) {
  std::vector<std::string> files = files_ending({".h"});
  ASSERT_GT(files.size(), 5u);
  for (const std::string& path : files)
    for (const std::string& complaint : header_violations(path, text_of(path))) ADD_FAILURE() << complaint;
}

// Every user pays for what tern.h reaches (docs/build.md lists the prices): no header of the standard library
// that has a cheaper stand-in in tern/base or belongs behind a declaration.
TEST(House, the_public_header_reaches_nothing_dear) {
  const std::string dear =
      " algorithm atomic cmath complex condition_variable deque memory mutex set thread unordered_map "
      "unordered_set variant ";
  std::vector<std::string> todo = {"tern/tern.h"};
  std::set<std::string> seen = {"tern/tern.h"};
  while (!todo.empty()) {
    std::string path = todo.back(), whole = tern::testing::source_dir() + "/" + path;
    todo.pop_back();
    if (!fs::exists(whole)) whole = tern::testing::build_dir() + "/generated/" + path;
    if (path == "tern/base/complex_name.h") continue;  // includes <complex> where it cannot do without
    for (const std::string& name : included(tern::testing::read_file(whole))) {
      EXPECT_EQ(dear.find(" " + name + " "), std::string::npos) << path << " includes <" << name << ">";
      if (name.starts_with("tern/") && seen.insert(name).second) todo.push_back(name);
    }
  }
  EXPECT_TRUE(seen.contains("tern/ops/linear.h") && seen.contains("tern/ir/graph.h"));
}

TEST(House, sees_an_include_of_a_lower_room) {
  EXPECT_THAT(
      include_violations("tern/sym/solver.cpp", "// x\n#include \"tern/ir/graph.h\"\n"),
      ElementsAre(
          "tern/sym/solver.cpp:2: #include of tern/ir/graph.h: sym stands above ir in DESIGN.md's list"));
  EXPECT_THAT(include_violations("tern/ir/graph.cpp",
                                 "#include \"tern/sym/sym_int.h\"\n#include \"tern/ir/graph.h\""),
              IsEmpty());
  EXPECT_THAT(include_violations("tern/base/a.h", "  #  include <tern/io/zip.h>"),
              ElementsAre(HasSubstr(":1: ")));
  EXPECT_THAT(include_violations("tern/base/a.h", "// #include \"tern/io/zip.h\"\n#include <vector>"),
              IsEmpty());
}

TEST(House, sees_what_the_order_alone_would_allow) {
  EXPECT_THAT(include_violations("tern/ir/graph.h", "#include \"tern/ops.h\""),
              ElementsAre(HasSubstr("ir depends on dispatch, not on ops")));
  EXPECT_THAT(include_violations("tern/ir/graph.h", "#include \"tern/ops/math.h\""),
              ElementsAre(HasSubstr("not on ops")));
  EXPECT_THAT(include_violations("tern/ir/graph.h", "#include \"tern/dispatch/op.h\""), IsEmpty());
  EXPECT_THAT(include_violations("tern/kernels/gemm.h", "#include \"tern/tensor/tensor.h\""),
              ElementsAre(HasSubstr("no Tensor")));
  EXPECT_THAT(include_violations("tern/kernels/gemm.h", "#include \"tern/tensor/dtype.h\""), IsEmpty());
}

TEST(House, lets_only_onnx_cpp_of_a_family_reach_onnx) {
  EXPECT_THAT(include_violations("tern/ops/conv/onnx.cpp", "#include \"tern/onnx/lower.h\""), IsEmpty());
  EXPECT_THAT(include_violations("tern/ops/conv/conv.cpp", "#include \"tern/onnx/lower.h\""),
              ElementsAre(HasSubstr("ops stands above onnx")));
  EXPECT_THAT(include_violations("tern/ops/conv/onnx.cpp", "#include \"tern/runtime/session.h\""),
              ElementsAre(HasSubstr("above runtime")));
}

TEST(House, keeps_the_umbrella_header_for_users) {
  EXPECT_THAT(include_violations("tern/tern.h", "#include \"tern/compile/compile.h\""), IsEmpty());
  EXPECT_THAT(include_violations("tern/nn/linear.cpp", "#include \"tern/tern.h\""),
              ElementsAre(HasSubstr("umbrella")));
  EXPECT_THAT(include_violations("tern/attic/old.cpp", ""), ElementsAre(HasSubstr("'attic' is not a room")));
  EXPECT_THAT(include_violations("tern/nn/linear.cpp", "#include \"tern/attic/old.h\""),
              ElementsAre(HasSubstr("no such room")));
}

TEST(House, sees_costly_and_foreign_includes_in_headers) {
  std::string start = "// What lives here.\n#pragma once\n";
  EXPECT_THAT(header_violations("tern/nn/a.h", start + "#include <vector>\n#include \"tern/nn/b.h\"\n"),
              IsEmpty());
  for (std::string name : {"iostream", "functional", "regex", "filesystem", "ranges", "sstream"})
    EXPECT_THAT(header_violations("tern/nn/a.h", start + "#include <" + name + ">"),
                ElementsAre("tern/nn/a.h:3: #include of " + name + ": too costly for a header"));
  for (std::string name : {"fmt/core.h", "dnnl.h", "simdjson.h", "hwy/highway.h", "sys/mman.h"})
    EXPECT_THAT(header_violations("tern/nn/a.h", start + "#include <" + name + ">"),
                ElementsAre(HasSubstr("only Tern and the C++ standard library")));
  EXPECT_THAT(header_violations("tern/kernels/simd.h", start + "#include <hwy/highway.h>"), IsEmpty());
  EXPECT_THAT(header_violations("tern/nn/a.h", start + "#include \"tern/base/format.h\""),
              ElementsAre(HasSubstr("internal")));
  EXPECT_THAT(header_violations("tern/nn/a.h", start + "#include <tern/nn/b.h>"),
              ElementsAre(HasSubstr("quotes")));
}

TEST(House, sees_headers_without_opening_or_guard) {
  EXPECT_THAT(header_violations("tern/nn/a.h", "#pragma once\n"), ElementsAre(HasSubstr("opens with")));
  EXPECT_THAT(header_violations("tern/nn/a.h", "// Layers.\n"),
              ElementsAre(HasSubstr("#pragma once is missing")));
  EXPECT_THAT(header_violations("tern/kernels/loops-inl.h", "// Loops.\n#include <hwy/highway.h>\n"),
              IsEmpty());
}
