// Reads a .ops file.
#include "table.h"

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

namespace opgen {

[[noreturn]] void die(const string& path, int line, const string& what) {
  std::cerr << path << ":" << line << ": error: " << what << "\n";
  std::exit(1);
}

string trim(const string& s) {
  size_t a = s.find_first_not_of(" \t"), b = s.find_last_not_of(" \t");
  return a == string::npos ? "" : s.substr(a, b - a + 1);
}

// Splits at commas outside of brackets and quotes.
vector<string> split(const string& s, char separator) {
  vector<string> parts;
  string part;
  int depth = 0;
  char quote = 0;
  for (char c : s) {
    if (quote) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      --depth;
    }
    if (c == separator && depth == 0 && !quote) {
      parts.push_back(trim(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!trim(part).empty()) parts.push_back(trim(part));
  return parts;
}

namespace {

// "Tensor(a!)? self=None": the type without alias marks, the name, the default.
Param parse_param(const string& text, bool named) {
  Param p;
  string rest = text;
  if (size_t eq = rest.find('='); eq != string::npos && named) {
    p.fallback = trim(rest.substr(eq + 1));
    p.has_default = true;
    rest = trim(rest.substr(0, eq));
  }
  string type;
  size_t i = 0;
  while (i < rest.size()) {
    if (rest[i] == '(') {
      size_t close = rest.find(')', i);
      p.written |= rest.substr(i, close - i).find('!') != string::npos;
      i = close + 1;
    } else if (rest[i] == ' ') {
      break;
    } else {
      type += rest[i++];
    }
  }
  p.type = type;
  p.name = trim(rest.substr(i));
  return p;
}

Entry parse_schema(const string& path, int line, const string& text) {
  Entry e;
  e.line = line;
  e.schema = text;
  size_t open = text.find('(');
  if (open == string::npos) die(path, line, "expected '(' after the operator's name");
  string full = text.substr(0, open);
  e.ns = "aten";
  if (size_t colon = full.find("::"); colon != string::npos) {
    e.ns = full.substr(0, colon);
    full = full.substr(colon + 2);
  }
  size_t dot = full.find('.');
  e.name = full.substr(0, dot);
  if (dot != string::npos) e.overload = full.substr(dot + 1);
  int depth = 0;
  size_t close = open;
  for (; close < text.size(); ++close) {
    if (text[close] == '(') ++depth;
    if (text[close] == ')' && --depth == 0) break;
  }
  size_t arrow = text.find("->", close);
  if (arrow == string::npos) die(path, line, "expected '->' after the arguments");
  for (const string& part : split(text.substr(open + 1, close - open - 1)))
    if (part != "*") e.params.push_back(parse_param(part, true));
  string returns = trim(text.substr(arrow + 2));
  if (!returns.empty() && returns[0] == '(' && returns.back() == ')')
    returns = returns.substr(1, returns.size() - 2);
  for (const string& part : split(returns)) e.returns.push_back(parse_param(part, false));
  return e;
}

// An operator over lists, its in-place form and the one with out=: rows with one body.
vector<Entry> forms_of_each(const string& path, int line, const Entry& e) {
  const size_t open = e.schema.find('('), close = e.schema.rfind(')', e.schema.rfind("->"));
  const string full = e.schema.substr(0, open), args = e.schema.substr(open + 1, close - open - 1);
  const size_t dot = full.find('.');
  const string overload = dot == string::npos ? "" : full.substr(dot);
  vector<string> schemas = {e.schema};
  if (e.has("inplace"))
    schemas.push_back(full.substr(0, dot) + "_" + overload + "(Tensor(a!)" + args.substr(6) + ") -> ()");
  if (!e.has("noout"))
    schemas.push_back(full.substr(0, dot) + (overload.empty() ? ".out(" : overload + "_out(") + args +
                      (args.find("*, ") == string::npos ? ", *" : "") + ", Tensor(a!)[] out) -> ()");
  vector<Entry> forms;
  for (const string& schema : schemas) {
    Entry form = parse_schema(path, line, schema);
    form.flags = {{"each", ""}, {"cpp", "-"}};
    form.body = "each";
    forms.push_back(std::move(form));
  }
  return forms;
}

}  // namespace

Family read_family(const string& path) {
  Family f;
  f.path = path;
  size_t slash = path.rfind('/');
  f.name = path.substr(slash + 1, path.rfind('.') - slash - 1);
  std::ifstream in(path);
  if (!in) die(path, 0, "cannot be read");
  string line;
  vector<string> doc;
  for (int number = 1; std::getline(in, line); ++number) {
    int start = number;
    while (!line.empty() && line.back() == '\\') {
      string more;
      std::getline(in, more);
      ++number;
      line = line.substr(0, line.size() - 1) + " " + trim(more);
    }
    if (trim(line).empty()) continue;
    if (line.rfind("##", 0) == 0) {
      doc.push_back(trim(line.substr(2)));
      continue;
    }
    if (trim(line)[0] == '#') continue;
    if (line[0] != ' ') {
      size_t flag = line.find(" @");
      Entry e = parse_schema(path, start, trim(line.substr(0, flag)));
      std::istringstream flags(flag == string::npos ? "" : line.substr(flag));
      static const std::set<string> known = {
          "pointwise",    "float",    "bool",      "real",      "condition", "scalars", "view",
          "dynamic",      "core",     "random",    "composite", "no_grad",   "same",    "impure",
          "inplace",      "noout",    "out",       "loop",      "kernel",    "cpp",     "params",
          "inplace_only", "implicit", "nodefault", "plain",     "geometry",  "whole",   "id",
          "out_type",     "out_same", "out_casts", "apart",     "disjoint",  "each"};
      for (string token; flags >> token;) {
        if (token[0] != '@') die(path, start, "expected a flag, found '" + token + "'");
        size_t paren = token.find('(');
        string key = token.substr(1, paren == string::npos ? string::npos : paren - 1);
        if (!known.count(key)) die(path, start, "unknown flag @" + key);
        e.flags[key] = paren == string::npos ? "" : token.substr(paren + 1, token.size() - paren - 2);
      }
      e.doc = std::move(doc);
      doc.clear();
      if (e.has("each"))
        for (Entry& form : forms_of_each(path, start, e)) f.entries.push_back(std::move(form));
      else
        f.entries.push_back(std::move(e));
      continue;
    }
    if (f.entries.empty()) die(path, start, "a formula before the first operator");
    Entry& e = f.entries.back();
    string text = trim(line);
    size_t space = text.find(' ');
    string keyword = text.substr(0, space), rest = space == string::npos ? "" : trim(text.substr(space));
    if (size_t hash = rest.find("  #"); hash != string::npos) rest = trim(rest.substr(0, hash));
    if (keyword == "grad") {
      Formula g;
      g.line = start;
      if (size_t at = rest.find(" where "); at != string::npos) {
        g.where = trim(rest.substr(at + 7));
        rest = trim(rest.substr(0, at));
      }
      size_t eq = rest.find('=');
      if (eq == string::npos) die(path, start, "expected 'grad argument = expression'");
      g.targets = split(rest.substr(0, eq));
      g.expression = trim(rest.substr(eq + 1));
      for (const string& t : g.targets)
        if (std::none_of(e.params.begin(), e.params.end(), [&](const Param& p) { return p.name == t; }))
          die(path, start, e.name + " has no argument '" + t + "'");
      e.grads.push_back(g);
    } else if (keyword == "body") {
      e.body = rest.empty() ? "cpp" : rest;
      e.body_line = start;
    } else if (keyword == "inverse") {
      e.inverse = rest;
      e.inverse_line = start;
    } else if (keyword == "check") {
      e.check = rest;
      e.check_line = start;
    } else if (keyword == "dtypes") {
      size_t colon = rest.find(": ");
      if (colon == string::npos) die(path, start, "expected 'dtypes kernel: types'");
      e.kernel_name = trim(rest.substr(0, colon));
      std::istringstream words(rest.substr(colon + 1));
      for (string word; words >> word;) e.dtypes.push_back(word);
      e.dtypes_line = start;
    } else if (keyword == "onnx") {
      e.onnx += rest + "\n";
    } else {
      die(path, start, "unknown keyword '" + keyword + "' (grad body inverse onnx check dtypes)");
    }
  }
  return f;
}

}  // namespace opgen
