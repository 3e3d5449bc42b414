// opgen: reads the operator tables (tern/ops/<family>/<family>.ops) and writes, per family, the public
// header, the argument structs, the call stubs, bodies, gradients and one constinit table; and one registry
// that names all tables.
//
//   name.overload(schema) -> returns    @flags
//     grad    a, b = expression           [where s = expression; t = expression]
//     body    expression | cpp            what it is in terms of other operators; "cpp": body_<name> in
//     <family>.cpp inverse expression                  of a view: the base with `result` written into it onnx
//     Op(args) [if condition]     lowering rules, tried in order
//
// Flags: @pointwise @float @bool @real @condition @scalars @view @dynamic @core @random @composite @no_grad
// @same @impure
// @inplace (derive x_) @noout (derive no out variant) @out(overload:names) (what ATen calls it and its
// outputs; written, it also derives one from a body) @loop(name) @kernel (besides a body)
// @plain(1,2) (results that never have history) @geometry (of an @inplace_only: sizes and strides only)
// @implicit (ATen's composite although it has a kernel) @cpp(name) (C++ name, "-" for none)
// @nodefault(arg) (C++ callers must give it: keeps overloads apart) @params (params_<name> is written by
// hand) @inplace_only (the row is itself x_).
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

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
  string body, inverse, onnx;
  int line = 0, body_line = 0, inverse_line = 0;
  vector<string> doc;

  bool has(const string& flag) const { return flags.count(flag); }
  string id() const {  // C++ identifier: add_Tensor
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
};

[[noreturn]] void die(const string& path, int line, const string& what) {
  std::cerr << path << ":" << line << ": error: " << what << "\n";
  std::exit(1);
}

string trim(const string& s) {
  size_t a = s.find_first_not_of(" \t"), b = s.find_last_not_of(" \t");
  return a == string::npos ? "" : s.substr(a, b - a + 1);
}

// Splits at commas outside of brackets and quotes.
vector<string> split(const string& s, char separator = ',') {
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
          "inplace_only", "implicit", "nodefault", "plain",     "geometry"};
      for (string token; flags >> token;) {
        if (token[0] != '@') die(path, start, "expected a flag, found '" + token + "'");
        size_t paren = token.find('(');
        string key = token.substr(1, paren == string::npos ? string::npos : paren - 1);
        if (!known.count(key)) die(path, start, "unknown flag @" + key);
        e.flags[key] = paren == string::npos ? "" : token.substr(paren + 1, token.size() - paren - 2);
      }
      e.doc = std::move(doc);
      doc.clear();
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
    } else if (keyword == "onnx") {
      e.onnx += rest + "\n";
    } else {
      die(path, start, "unknown keyword '" + keyword + "' (grad body inverse onnx)");
    }
  }
  return f;
}

// ---- C++ types ----

string cpp_type(const Family& f, const Entry& e, const string& type) {
  static const std::map<string, string> table = {{"Tensor", "const Tensor&"},
                                                 {"Tensor?", "const Tensor&"},
                                                 {"Tensor[]", "Span<const Tensor>"},
                                                 {"Tensor?[]", "Span<const Tensor>"},
                                                 {"int", "int64_t"},
                                                 {"int?", "::std::optional<int64_t>"},
                                                 {"SymInt", "SymInt"},
                                                 {"SymInt?", "::std::optional<SymInt>"},
                                                 {"SymInt[]", "Span<const SymInt>"},
                                                 {"SymInt[]?", "::std::optional<Span<const SymInt>>"},
                                                 {"float", "double"},
                                                 {"float?", "::std::optional<double>"},
                                                 {"float[]", "Span<const double>"},
                                                 {"float[]?", "::std::optional<Span<const double>>"},
                                                 {"bool", "bool"},
                                                 {"bool?", "::std::optional<bool>"},
                                                 {"bool[]", "Span<const bool>"},
                                                 {"Scalar", "Scalar"},
                                                 {"Scalar?", "::std::optional<Scalar>"},
                                                 {"Scalar[]", "Span<const Scalar>"},
                                                 {"str", "::std::string_view"},
                                                 {"str?", "::std::optional<::std::string_view>"},
                                                 {"ScalarType", "DType"},
                                                 {"ScalarType?", "::std::optional<DType>"},
                                                 {"Layout?", "::std::optional<Layout>"},
                                                 {"Layout", "Layout"},
                                                 {"Device?", "::std::optional<Device>"},
                                                 {"Device", "Device"},
                                                 {"MemoryFormat?", "::std::optional<MemoryFormat>"},
                                                 {"MemoryFormat", "MemoryFormat"},
                                                 {"Generator?", "const Generator*"},
                                                 {"Storage", "const Tensor&"},  // a tensor over all of it
                                                 {"Any", "const Value&"}};
  string t;  // int[2] -> int[]
  for (size_t i = 0; i < type.size(); ++i) {
    t += type[i];
    if (type[i] == '[')
      while (i + 1 < type.size() && isdigit(static_cast<unsigned char>(type[i + 1]))) ++i;
  }
  if (t == "int[]" || t == "int[]?") return "Ints";
  if (t == "SymInt[]" && type != t) return "Span<const SymInt>";
  auto it = table.find(t);
  if (it == table.end()) die(f.path, e.line, "opgen knows no C++ type for '" + type + "'");
  return it->second;
}

string cpp_return(const Family& f, const Entry& e) {
  auto one = [&](const string& t) -> string {
    if (t == "Tensor") return "Tensor";
    if (t == "Tensor[]") return "std::vector<Tensor>";
    if (t == "int" || t == "SymInt") return "SymInt";
    if (t == "bool") return "bool";
    if (t == "float") return "double";
    if (t == "Scalar") return "Scalar";
    if (t == "SymInt[]" || t == "int[]") return "Value";
    die(f.path, e.line, "opgen knows no result type '" + t + "'");
  };
  if (e.returns.empty()) return "void";
  if (e.returns.size() == 1) return one(e.returns[0].type);
  string text = "std::tuple<";
  for (size_t i = 0; i < e.returns.size(); ++i) text += (i ? ", " : "") + one(e.returns[i].type);
  return text + ">";
}

string cpp_default(const Param& p) {
  const string& d = p.fallback;
  if (d == "None") return p.type == "Generator?" ? "nullptr" : "{}";
  if (d == "True") return "true";
  if (d == "False") return "false";
  if (d == "[]") return "{}";
  if (d[0] == '[') return "{" + d.substr(1, d.size() - 2) + "}";
  if (d == "Mean") return "1";
  if (d == "contiguous_format") return "MemoryFormat::contiguous";
  if (d == "preserve_format") return "MemoryFormat::preserve";
  if (d == "long") return "DType::int64";
  if (d == "inf") return "INFINITY";
  if (d[0] == '\'' || d[0] == '"') return "\"" + d.substr(1, d.size() - 2) + "\"";
  if (p.type.find("SymInt[") == 0) {
    int n = std::atoi(p.type.c_str() + 7);
    string text = "{";
    for (int i = 0; i < std::max(n, 1); ++i) text += (i ? ", " : "") + d;
    return text + "}";
  }
  return d;
}

string signature(const Family& f, const Entry& e, const string& name, bool defaults, bool out_first) {
  string text = cpp_return(f, e) + " " + name + "(";
  bool first = true;
  auto add = [&](const string& part) {
    text += (first ? "" : ", ") + part;
    first = false;
  };
  size_t normal = e.params.size() - (out_first ? e.returns.size() : 0);
  if (out_first)
    for (size_t i = normal; i < e.params.size(); ++i) add("const Tensor& " + e.params[i].name);
  // A default may only be followed by defaults in C++.
  size_t last_required = 0;
  for (size_t i = 0; i < normal; ++i)
    if (!e.params[i].has_default || (e.has("nodefault") && e.flags.at("nodefault") == e.params[i].name))
      last_required = i + 1;
  for (size_t i = 0; i < normal; ++i) {
    const Param& p = e.params[i];
    string part = cpp_type(f, e, p.type) + " " + p.name;
    if (defaults && p.has_default && i >= last_required) part += " = " + cpp_default(p);
    add(part);
  }
  add(defaults ? "Loc loc = Loc::here()" : "Loc loc");
  return text + ")";
}

bool uses(const string& expression, const string& name, bool* only_meta = nullptr) {
  static const char* meta[] = {".sizes()",       ".dtype()",      ".dim()",
                               ".size(",         ".device()",     ".numel()",
                               ".strides()",     ".is_complex()", ".is_floating_point()",
                               ".is_contiguous("};
  bool found = false;
  for (size_t at = 0; (at = expression.find(name, at)) != string::npos; at += name.size()) {
    auto word = [](char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    if (at && (word(expression[at - 1]) || expression[at - 1] == '.')) continue;
    size_t end = at + name.size();
    if (end < expression.size() && word(expression[end])) continue;
    found = true;
    if (only_meta) {
      bool is_meta = false;
      for (const char* m : meta)
        is_meta |= expression.compare(end, std::char_traits<char>::length(m), m) == 0;
      *only_meta &= is_meta;
    }
  }
  return found;
}

// ---- derived variants ----

Entry derive_inplace(const Entry& e) {
  Entry d = e;
  d.name += "_";
  d.params[0].written = true;
  d.returns.resize(1);
  size_t at = e.schema.find("Tensor", e.schema.find('('));
  d.schema = e.schema.substr(0, e.schema.find('(')) + "(Tensor(a!)" + e.schema.substr(at + 6);
  size_t dot = d.schema.find('.');
  size_t open = d.schema.find('(');
  d.schema.insert(dot < open ? dot : open, "_");
  d.schema = d.schema.substr(0, d.schema.rfind("->")) + "-> Tensor(a!)";
  return d;
}

string out_overload(const Entry& e) {
  if (auto it = e.flags.find("out"); it != e.flags.end())
    if (string name = it->second.substr(0, it->second.find(':')); !name.empty()) return name;
  return e.overload.empty() ? "out" : e.overload + "_out";
}

// "out", or "out0" and so on, unless the table names them: @out(values:values,indices).
vector<string> out_names(const Entry& e) {
  if (auto it = e.flags.find("out"); it != e.flags.end())
    if (size_t colon = it->second.find(':'); colon != string::npos)
      return split(it->second.substr(colon + 1));
  if (e.returns.size() == 1) return {"out"};
  vector<string> names;
  for (size_t i = 0; i < e.returns.size(); ++i) names.push_back("out" + std::to_string(i));
  return names;
}

Entry derive_out(const Entry& e) {
  Entry d = e;
  const vector<string> names = out_names(e);
  d.overload = out_overload(e);
  string head = (e.ns == "aten" ? "" : e.ns + "::") + e.name + "." + d.overload;
  size_t open = e.schema.find('('), arrow = e.schema.rfind("->");
  string args = trim(e.schema.substr(open + 1, e.schema.rfind(')', arrow) - open - 1));
  // The arguments' own end, not the one of the returns.
  int depth = 0;
  size_t close = open;
  for (; close < e.schema.size(); ++close) {
    if (e.schema[close] == '(') ++depth;
    if (e.schema[close] == ')' && --depth == 0) break;
  }
  args = trim(e.schema.substr(open + 1, close - open - 1));
  bool keyword = false;
  for (const string& part : split(args)) keyword |= part == "*";
  args += args.empty() ? "" : ", ";
  if (!keyword) args += "*, ";
  string returns;
  for (size_t i = 0; i < e.returns.size(); ++i) {
    string set(1, static_cast<char>('a' + i));
    const string& name = names.at(i);
    args += (i ? ", Tensor(" : "Tensor(") + set + "!) " + name;
    returns += (i ? ", Tensor(" : "Tensor(") + set + "!)";
    d.params.push_back({"Tensor", name, "", true, false});
  }
  d.schema = head + "(" + args + ") -> " + (e.returns.size() == 1 ? returns : "(" + returns + ")");
  return d;
}

bool has_kernel(const Entry& e) {
  return !e.has("view") && !e.has("dynamic") && !e.has("composite") && !e.has("inplace_only") &&
         (e.body.empty() || e.has("kernel") || e.has("pointwise"));
}
bool wants_out(const Entry& e) {
  bool derived = has_kernel(e) || (e.has("out") && !e.has("view") && !e.has("inplace_only"));
  if (!derived || e.has("noout") || e.returns.empty()) return false;
  return std::all_of(e.returns.begin(), e.returns.end(), [](const Param& p) { return p.type == "Tensor"; });
}
bool is_composite(const Entry& e) {
  return e.has("composite") ||
         (!e.body.empty() && !has_kernel(e) && !e.has("view") && !e.has("dynamic") && !e.has("inplace_only"));
}

// ---- output ----

void write_if_changed(const string& path, const string& text) {
  std::ifstream in(path);
  std::stringstream old;
  old << in.rdbuf();
  if (in && old.str() == text) return;
  std::ofstream out(path);
  out << text;
  if (!out) die(path, 0, "cannot be written");
}

string quoted(const string& s) {
  string text = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') text += '\\';
    if (c == '\n')
      text += "\\n";
    else
      text += c;
  }
  return text + "\"";
}

string header(const Family& f) {
  std::ostringstream o;
  o << "// Written by opgen from " << f.name
    << ".ops: do not edit.\n#pragma once\n#include <cmath>\n#include <tuple>\n\n"
    << "#include \"tern/tensor/arg.h\"\n\nnamespace tern {\n\n";
  for (const Entry& e : f.entries) {
    string name = e.name;
    if (auto it = e.flags.find("cpp"); it != e.flags.end()) name = it->second;
    if (name == "-") continue;
    for (const string& d : e.doc) o << "// " << d << "\n";
    o << signature(f, e, name, true, false) << ";\n";
    if (e.has("inplace")) o << signature(f, derive_inplace(e), name + "_", true, false) << ";\n";
    if (wants_out(e)) o << signature(f, derive_out(e), name + "_out", true, true) << ";\n";
  }
  o << "\n}  // namespace tern\n";
  return o.str();
}

string args_header(const Family& f) {
  std::ostringstream o;
  o << "// Written by opgen from " << f.name << ".ops: do not edit. What " << f.name
    << ".cpp defines.\n#pragma once\n"
    << "#include \"tern/dispatch/unpack.h\"\n#include \"tern/kernels/pointwise.h\"\n\nnamespace tern "
       "{\n\nnamespace args {\n";
  for (const Entry& e : f.entries) {
    o << "struct " << e.id() << " {\n";
    for (const Param& p : e.params) o << "  " << cpp_type(f, e, p.type) << " " << p.name << ";\n";
    o << "  explicit " << e.id() << "([[maybe_unused]] const Arg* a)";
    for (size_t i = 0; i < e.params.size(); ++i)
      o << (i ? ", " : " : ") << e.params[i].name << "(Unpack<" << cpp_type(f, e, e.params[i].type)
        << ">::from(a[" << i << "]))";
    o << " {}\n};\n";
  }
  o << "}  // namespace args\n\n";
  for (const Entry& e : f.entries) {
    string id = e.id(), a = "(const args::" + id + "& a";
    if (has_kernel(e) && !e.has("pointwise")) {
      if (!e.has("same")) o << "Shapes shape_" << id << a << ");\n";
      o << "void kernel_" << id << a << ", Out out);\n";
    }
    if (e.has("view")) o << cpp_return(f, e) << " view_" << id << a << ");\n";
    if (e.has("dynamic"))
      o << cpp_return(f, e) << " kernel_" << id << a << ");\nShapes shape_" << id << a << ");\n";
    if (e.has("inplace_only")) o << cpp_return(f, e) << " kernel_" << id << a << ");\n";
    if (e.body == "cpp" || (e.has("composite") && e.body.empty()))
      o << cpp_return(f, e) << " body_" << id << a << ");\n";
    if (e.has("params")) o << "void params_" << id << a << ", kernels::Params& params);\n";
  }
  o << "\n}  // namespace tern\n";
  return o.str();
}

void bind_names(std::ostringstream& o, const Entry& e, const string& text) {
  for (const Param& p : e.params)
    if (uses(text, p.name)) o << "  [[maybe_unused]] const auto& " << p.name << " = a." << p.name << ";\n";
}

// The headers of the families whose functions f's formulas and bodies name: a new operator compiles only what
// may call it.
string family_includes(const Family& f, const vector<Family>& families) {
  string text;
  for (const Entry& e : f.entries) {
    text += e.body + " " + e.inverse + " ";
    for (const Formula& g : e.grads) text += g.expression + " " + g.where + " ";
  }
  std::set<string> words;
  string word;
  for (char c : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      word += c;
    } else {
      words.insert(word);
      word.clear();
    }
  }
  string includes;
  for (const Family& g : families) {
    bool named = g.name == f.name;
    for (const Entry& e : g.entries) {
      auto it = e.flags.find("cpp");
      const string& name = it == e.flags.end() ? e.name : it->second;
      named = named || words.count(name) || words.count(name + "_") || words.count(name + "_out");
    }
    if (named) includes += "#include \"tern/ops/" + g.name + ".h\"\n";
  }
  return includes;
}

string source(const Family& f, const vector<Family>& families) {
  std::ostringstream o;
  string table = "ops_" + f.name;
  o << "// Written by opgen from " << f.name << ".ops: do not edit.\n#include \"tern/ops/" << f.name
    << ".args.h\"\n"
    << "#include \"tern/dispatch/grad_context.h\"\n#include \"tern/dispatch/op_flags.h\"\n#include "
       "\"tern/dispatch/pointwise.h\"\n"
    << family_includes(f, families) << "#include \"tern/ops/formulas.h\"\n\nnamespace tern {\n\n";

  // All rows: the written ones, then their in-place and out variants.
  struct Row {
    Entry entry;
    const Entry* base;
    char kind;  // ' ', 'i', 'o'
  };
  vector<Row> rows;
  for (const Entry& e : f.entries) rows.push_back({e, &e, e.has("inplace_only") ? 'w' : ' '});
  std::map<string, size_t> inplace_at, out_at, base_at;
  for (size_t i = 0; i < f.entries.size(); ++i) base_at[f.entries[i].id()] = i;
  for (const Entry& e : f.entries)
    if (e.has("inplace")) {
      inplace_at[e.id()] = rows.size();
      rows.push_back({derive_inplace(e), &e, 'i'});
    }
  for (const Entry& e : f.entries)
    if (wants_out(e)) {
      out_at[e.id()] = rows.size();
      rows.push_back({derive_out(e), &e, 'o'});
    }

  o << "extern Op " << table << "[" << rows.size() << "];\n\n// ---- stubs ----\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    const Entry& e = rows[i].entry;
    string name = rows[i].base->name;
    if (auto it = e.flags.find("cpp"); it != e.flags.end()) name = it->second;
    if (name == "-") continue;
    if (rows[i].kind == 'i') name += "_";
    if (rows[i].kind == 'o') name += "_out";
    o << signature(f, e, name, false, rows[i].kind == 'o') << " {\n  const Arg args[] = {";
    for (size_t k = 0; k < e.params.size(); ++k) {
      bool any = e.params[k].type == "Any";
      o << (k ? ", " : "") << (any ? "Arg(&" + e.params[k].name + ")" : "Arg(" + e.params[k].name + ")");
    }
    if (e.params.empty()) o << "Arg()";
    o << "};\n";
    if (e.returns.size() == 1 && e.returns[0].type == "Tensor") {
      o << "  return call1_at(" << table << "[" << i << "], args, loc);\n}\n";
      continue;
    }
    o << "  Value r[" << std::max<size_t>(e.returns.size(), 1) << "];\n  call_at(" << table << "[" << i
      << "], args, r, loc);\n";
    auto take = [&](size_t k) -> string {
      const string& t = e.returns[k].type;
      string v = "r[" + std::to_string(k) + "]";
      if (t == "Tensor") return v + ".take_tensor()";
      if (t == "Tensor[]") return v + ".tensors()";
      if (t == "int" || t == "SymInt") return v + ".sym()";
      if (t == "bool") return v + ".to_bool()";
      if (t == "float") return v + ".to_double()";
      if (t == "Scalar") return v + ".scalar()";
      return v;
    };
    if (e.returns.size() == 1) o << "  return " << take(0) << ";\n";
    if (e.returns.size() > 1) {
      o << "  return {";
      for (size_t k = 0; k < e.returns.size(); ++k) o << (k ? ", " : "") << take(k);
      o << "};\n";
    }
    o << "}\n";
  }

  o << "\n// ---- thunks ----\nnamespace {\n";
  auto line = [&](int n) { o << "#line " << n << " \"" << f.path << "\"\n"; };
  for (const Entry& e : f.entries) {
    string id = e.id();
    if (has_kernel(e) && !e.has("pointwise")) {
      if (!e.has("same"))
        o << "void shape_thunk_" << id << "(const Op&, const Arg* a, Shapes& s) { s = shape_" << id
          << "(args::" << id << "(a)); }\n";
      o << "void kernel_thunk_" << id << "(const Op&, const Arg* a, Out out) { kernel_" << id
        << "(args::" << id << "(a), out); }\n";
    }
    bool is_void = e.returns.empty();
    auto call_thunk = [&](const string& what) {
      o << "void " << what << "_thunk_" << id << "(const Op&, const Arg* a, [[maybe_unused]] Value* r) { ";
      if (is_void)
        o << what << "_" << id << "(args::" << id << "(a)); }\n";
      else
        o << "give(r, " << what << "_" << id << "(args::" << id << "(a))); }\n";
    };
    if (e.has("view")) call_thunk("view");
    if (e.has("dynamic")) {
      call_thunk("kernel");
      o << "void shape_thunk_" << id << "(const Op&, const Arg* a, Shapes& s) { s = shape_" << id
        << "(args::" << id << "(a)); }\n";
    }
    if (e.has("inplace_only")) call_thunk("kernel");
    if (e.body == "cpp" || (e.has("composite") && e.body.empty())) {
      call_thunk("body");
    } else if (!e.body.empty()) {
      o << "void body_thunk_" << id
        << "(const Op&, [[maybe_unused]] const Arg* arg, Value* r) {\n  args::" << id << " a(arg);\n";
      bind_names(o, e, e.body);
      line(e.body_line);
      o << "  give(r, " << e.body << ");\n}\n";
    }
    if (!e.inverse.empty()) {
      // Arguments of the view, then the base and the new value of the view.
      o << "void inverse_thunk_" << id << "(const Op&, const Arg* arg, Value* r) {\n  args::" << id
        << " a(arg);\n";
      bind_names(o, e, e.inverse);
      o << "  [[maybe_unused]] const Tensor& base = arg[" << e.params.size() << "].tensor();\n"
        << "  [[maybe_unused]] const Tensor& result = arg[" << e.params.size() + 1 << "].tensor();\n";
      line(e.inverse_line);
      o << "  give(r, " << e.inverse << ");\n}\n";
    }
    if (e.has("params")) {
      o << "void params_thunk_" << id << "(const Arg* a, void* p) { params_" << id << "(args::" << id
        << "(a), *static_cast<kernels::Params*>(p)); }\n";
    } else if (e.has("pointwise")) {
      string sets;
      int k = 0;
      for (size_t i = 0; i < e.params.size(); ++i) {
        const string& t = e.params[i].type;
        if (t == "Scalar" || t == "float" || t == "int" || t == "bool" || t == "Scalar?" || t == "float?")
          sets += " set_param(q, " + std::to_string(k++) + ", a[" + std::to_string(i) + "]);";
      }
      if (k)
        o << "void params_thunk_" << id
          << "(const Arg* a, void* p) { auto& q = *static_cast<kernels::Params*>(p);" << sets << " }\n";
    }
    if (!e.grads.empty()) {
      o << "void grad_thunk_" << id << "(GradContext& c) {\n  args::" << id << " a(c.args);\n";
      string all;
      for (const Formula& g : e.grads) all += g.expression + " " + g.where + " ";
      bind_names(o, e, all);
      if (uses(all, "grad")) o << "  Tensor grad = c.grad(0);\n";
      for (size_t i = 0; i < e.returns.size(); ++i) {
        string n = std::to_string(i);
        if (uses(all, "grad" + n)) o << "  Tensor grad" << n << " = c.grad(" << n << ");\n";
        if (uses(all, "result" + n)) o << "  const Tensor& result" << n << " = c.result(" << n << ");\n";
      }
      if (uses(all, "result")) o << "  const Tensor& result = c.result(0);\n";
      for (const Formula& g : e.grads) {
        vector<size_t> at;
        for (const string& t : g.targets)
          for (size_t i = 0; i < e.params.size(); ++i)
            if (e.params[i].name == t) at.push_back(i);
        o << "  if (";
        for (size_t k = 0; k < at.size(); ++k) o << (k ? " || " : "") << "c.wants(" << at[k] << ")";
        o << ") {\n";
        for (const string& w : split(g.where, ';')) {
          size_t eq = w.find('=');
          line(g.line);
          o << "    auto " << trim(w.substr(0, eq)) << " = " << trim(w.substr(eq + 1)) << ";\n";
        }
        if (at.size() == 1) {
          line(g.line);
          o << "    c.set(" << at[0] << ", " << g.expression << ");\n";
        } else {
          o << "    [[maybe_unused]] const bool mask[] = {";
          for (size_t k = 0; k < at.size(); ++k) o << (k ? ", " : "") << "c.wants(" << at[k] << ")";
          o << "};\n";
          line(g.line);
          o << "    auto all = " << g.expression << ";\n";
          for (size_t k = 0; k < at.size(); ++k)
            o << "    if (mask[" << k << "]) c.set(" << at[k] << ", std::get<" << k << ">(all));\n";
        }
        o << "  }\n";
      }
      o << "}\n";
    }
  }
  o << "}  // namespace\n\n#line 1 \"" << f.name << ".gen.cpp (the table)\"\nconstinit Op " << table << "["
    << rows.size() << "] = {\n";
  for (const Row& row : rows) {
    const Entry &e = row.entry, &b = *row.base;
    string id = b.id();
    o << "    {.text = " << quoted(e.schema) << ", .flags = 0";
    static const std::pair<const char*, const char*> flags[] = {
        {"pointwise", "op_pointwise"}, {"float", "op_float"},         {"bool", "op_bool"},
        {"real", "op_real"},           {"condition", "op_condition"}, {"scalars", "op_scalars"},
        {"view", "op_view"},           {"dynamic", "op_dynamic"},     {"core", "op_core"},
        {"random", "op_random"},       {"no_grad", "op_no_grad"},     {"same", "op_same_shape"},
        {"impure", "op_impure"},       {"implicit", "op_implicit"},   {"geometry", "op_geometry"}};
    for (auto [flag, constant] : flags) {
      if (row.kind != ' ' && row.kind != 'w' && (string(flag) == "core" || string(flag) == "pointwise"))
        continue;
      if (b.has(flag)) o << " | " << constant;
    }
    if (row.kind == ' ' && is_composite(b)) o << " | op_composite";
    if (row.kind == 'i' && is_composite(b))
      die(f.path, b.line, "an operator without a kernel cannot derive its in-place form");
    if (row.kind == 'i' || row.kind == 'w') o << " | op_inplace";
    if (row.kind == 'o') o << " | op_out";
    if (b.has("plain") && row.kind == ' ')
      for (const string& r : split(b.flags.at("plain"))) o << " | op_plain_result(" << trim(r) << ")";
    o << ", .arity = " << e.params.size() << ", .results = " << e.returns.size();
    if (row.kind == ' ' || row.kind == 'w') {
      if (has_kernel(b) && !b.has("pointwise")) {
        if (!b.has("same")) o << ", .shape = shape_thunk_" << id;
        o << ", .kernel = kernel_thunk_" << id;
      }
      if (b.has("dynamic")) o << ", .shape = shape_thunk_" << id;
      if (b.has("view")) o << ", .call = view_thunk_" << id;
      if (b.has("dynamic") || b.has("inplace_only")) o << ", .call = kernel_thunk_" << id;
      if (!b.body.empty() || b.has("composite")) o << ", .body = body_thunk_" << id;
    }
    if (!b.grads.empty() && row.kind != 'o') {
      o << ", .grad = grad_thunk_" << id;
    }
    if (!b.inverse.empty() && row.kind == ' ') o << ", .inverse = inverse_thunk_" << id;
    if (row.kind == ' ' && b.has("pointwise")) {
      bool numbers = b.has("params");
      for (const Param& p : b.params)
        numbers |= p.type == "Scalar" || p.type == "float" || p.type == "int" || p.type == "bool" ||
                   p.type == "Scalar?" || p.type == "float?";
      if (numbers) o << ", .params = params_thunk_" << id;
      o << ", .loop = " << quoted(b.has("loop") ? b.flags.at("loop") : b.name);
    }
    if (!b.grads.empty() && row.kind != 'o') {
      string all;
      unsigned long long whole = 0, meta = 0, differentiable = 0;
      unsigned results = 0;
      for (const Formula& g : b.grads) {
        all += g.expression + " " + g.where + " ";
        for (const string& t : g.targets)
          for (size_t i = 0; i < b.params.size(); ++i)
            if (b.params[i].name == t) differentiable |= 1ull << i;
      }
      for (size_t i = 0; i < b.params.size(); ++i) {
        bool only_meta = true;
        if (!uses(all, b.params[i].name, &only_meta)) continue;
        bool tensor = b.params[i].type.rfind("Tensor", 0) == 0;
        (tensor && only_meta ? meta : whole) |= 1ull << i;
      }
      if (uses(all, "result")) results |= 1;
      for (size_t i = 0; i < b.returns.size(); ++i)
        if (uses(all, "result" + std::to_string(i))) results |= 1u << i;
      o << ", .saves_args = " << whole << ", .saves_meta = " << meta << ", .saves_results = " << results
        << ", .differentiable = " << differentiable;
    }
    if (row.kind == 'i' || row.kind == 'o') o << ", .functional = &" << table << "[" << base_at[id] << "]";
    if (row.kind == ' ' && inplace_at.count(id))
      o << ", .inplace = &" << table << "[" << inplace_at[id] << "]";
    if (row.kind == ' ' && out_at.count(id)) o << ", .out_variant = &" << table << "[" << out_at[id] << "]";
    if (!b.onnx.empty()) o << ", .onnx = " << quoted(b.onnx);
    o << ", .where = " << quoted(f.name + ".ops:" + std::to_string(b.line)) << "},\n";
  }
  o << "};\nextern const unsigned long " << table << "_size = " << rows.size()
    << ";\n\n}  // namespace tern\n";
  return o.str();
}

}  // namespace

int main(int argc, char** argv) {
  string out;
  vector<Family> families;
  for (int i = 1; i < argc; ++i) {
    if (string(argv[i]) == "--out" && i + 1 < argc)
      out = argv[++i];
    else
      families.push_back(read_family(argv[i]));
  }
  if (out.empty() || families.empty()) {
    std::cerr << "usage: opgen --out DIR FILE.ops...\n";
    return 1;
  }
  std::sort(families.begin(), families.end(),
            [](const Family& a, const Family& b) { return a.name < b.name; });
  std::map<string, string> seen;
  string all = "// Written by opgen: every operator as a free function.\n#pragma once\n";
  string registry =
      "// Written by opgen: do not edit.\n#include \"tern/dispatch/registry.h\"\n\nnamespace tern {\n\n";
  string tables;
  for (const Family& f : families) {
    for (const Entry& e : f.entries) {
      string& where = seen[e.ns + e.name + "." + e.overload];
      if (!where.empty()) die(f.path, e.line, e.name + " was defined at " + where);
      where = f.path + ":" + std::to_string(e.line);
    }
    write_if_changed(out + "/tern/ops/" + f.name + ".h", header(f));
    write_if_changed(out + "/tern/ops/" + f.name + ".args.h", args_header(f));
    write_if_changed(out + "/tern/ops/" + f.name + ".gen.cpp", source(f, families));
    all += "#include \"tern/ops/" + f.name + ".h\"\n";
    registry += "extern Op ops_" + f.name + "[];\nextern const unsigned long ops_" + f.name + "_size;\n";
    tables += "      {ops_" + f.name + ", ops_" + f.name + "_size},\n";
  }
  registry += "\nSpan<const OpTable> op_tables() {\n  static const OpTable tables[] = {\n" + tables +
              "  };\n  return {tables, sizeof tables / sizeof *tables};\n}\n\n}  // namespace tern\n";
  write_if_changed(out + "/tern/ops.h", all);
  write_if_changed(out + "/tern/ops/registry.gen.cpp", registry);
}
