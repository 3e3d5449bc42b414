// Statements about a text, in order, as PyTorch's FileCheck makes them of graphs:
//   EXPECT_TRUE(FileCheck().check("aten::mul").check_not("aten::neg").check_next("return").run(text));
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace tern::testing {

class FileCheck {
 public:
  FileCheck& check(std::string what) { return add(Kind::anywhere, std::move(what)); }  // after the last match
  FileCheck& check_next(std::string what) {
    return add(Kind::next, std::move(what));
  }  // on the line below it
  FileCheck& check_same(std::string what) { return add(Kind::same, std::move(what)); }  // on its line
  // Not between the last match and the next one, or the end.
  FileCheck& check_not(std::string what) { return add(Kind::absent, std::move(what)); }
  FileCheck& check_count(const std::string& what, size_t count, bool exactly = false) {
    for (size_t i = 0; i < count; ++i) check(what);
    return exactly ? check_not(what) : *this;
  }

  ::testing::AssertionResult run(std::string_view text) const {
    if (wanted_.empty()) return ::testing::AssertionFailure() << "nothing was asked of the text";
    size_t at = 0;  // where the last match ends
    std::vector<const Check*> absent;
    for (const Check& c : wanted_) {
      if (c.kind == Kind::absent) {
        absent.push_back(&c);
        continue;
      }
      size_t found = text.find(c.what, at);
      if (found == std::string_view::npos) return wrong("is not there", c, text, at);
      std::string_view between = text.substr(at, found - at);
      auto lines = std::count(between.begin(), between.end(), '\n');
      if (c.kind == Kind::next && lines != 1) return wrong("is not on the next line", c, text, at);
      if (c.kind == Kind::same && lines != 0) return wrong("is not on the same line", c, text, at);
      for (const Check* n : absent)
        if (between.find(n->what) != std::string_view::npos) return wrong("is there", *n, text, at);
      absent.clear();
      at = found + c.what.size();
    }
    for (const Check* n : absent)
      if (text.find(n->what, at) != std::string_view::npos) return wrong("is there", *n, text, at);
    return ::testing::AssertionSuccess();
  }

 private:
  enum class Kind { anywhere, next, same, absent };
  struct Check {
    Kind kind;
    std::string what;
  };

  FileCheck& add(Kind kind, std::string what) {
    wanted_.push_back({kind, std::move(what)});
    return *this;
  }
  static ::testing::AssertionResult wrong(const char* how, const Check& c, std::string_view text, size_t at) {
    return ::testing::AssertionFailure()
           << "\"" << c.what << "\" " << how << ", looking from character " << at << " of:\n"
           << text;
  }

  std::vector<Check> wanted_;
};

}  // namespace tern::testing
