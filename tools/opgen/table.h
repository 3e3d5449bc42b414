// The operator tables as they are read: one Entry a row of a .ops file.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace opgen {

using std::string;
using std::vector;

struct Param {
  string type, name, fallback;
  bool written = false;  // Tensor(a!)
  bool has_default = false;
};
struct Formula {
  vector<string> targets;
  string expression, where;
  int line = 0;
};
struct Entry {
  string schema, name, overload, ns;
  vector<Param> params, returns;
  std::map<string, string> flags;
  vector<Formula> grads;
  string body, inverse, onnx, check, kernel_name;
  vector<string> dtypes;  // groups or names; empty: all
  int line = 0, body_line = 0, inverse_line = 0, check_line = 0, dtypes_line = 0;
  vector<string> doc;

  bool has(const string& flag) const { return flags.count(flag); }
  string id() const {  // C++ identifier: add_Tensor
    if (auto it = flags.find("id"); it != flags.end()) return it->second;
    string text = (ns == "aten" ? "" : ns + "_") + name + (overload.empty() ? "" : "_" + overload);
    std::replace(text.begin(), text.end(), '.', '_');
    for (const Param& p : params)
      if (p.name == text)
        return text + "_";  // threshold(self, threshold, value): a struct has no member of its own name
    return text;
  }
};
struct Family {
  string path, name;
  vector<Entry> entries;

  bool any(const string& flag) const {
    return std::any_of(entries.begin(), entries.end(), [&](const Entry& e) { return e.has(flag); });
  }
};

// Ends the program: path:line: error: what.
[[noreturn]] void die(const string& path, int line, const string& what);
string trim(const string& s);
vector<string> split(const string& s, char separator = ',');  // outside of brackets and quotes
Family read_family(const string& path);

}  // namespace opgen
