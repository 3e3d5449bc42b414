#include "cpp.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace opgen {

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
  if (t.rfind("__torch__.", 0) == 0) return "const Value&";  // objects, and lists of them
  auto it = table.find(t);
  if (it == table.end()) die(f.path, e.line, "opgen knows no C++ type for '" + type + "'");
  return it->second;
}

string cpp_return(const Family& f, const Entry& e) {
  auto one = [&](const string& t) -> string {
    if (t == "Tensor" || t == "Tensor?") return "Tensor";
    if (t == "Tensor[]") return "std::vector<Tensor>";
    if (t == "int" || t == "SymInt" || t == "QScheme") return "SymInt";
    if (t == "bool") return "bool";
    if (t == "ScalarType") return "DType";
    if (t == "float") return "double";
    if (t == "Scalar") return "Scalar";
    if (t == "SymInt[]" || t == "int[]" || t == "Any" || t.rfind("__torch__.", 0) == 0) return "Value";
    die(f.path, e.line, "opgen knows no result type '" + t + "'");
  };
  if (e.returns.empty()) return "void";
  if (e.returns.size() == 1) return one(e.returns[0].type);
  string text = "std::tuple<";
  for (size_t i = 0; i < e.returns.size(); ++i) text += (i ? ", " : "") + one(e.returns[i].type);
  return text + ">";
}

namespace {

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
  if (d == "inf") return "__builtin_inf()";
  if (d[0] == '\'' || d[0] == '"') return "\"" + d.substr(1, d.size() - 2) + "\"";
  if (p.type.find("SymInt[") == 0) {
    int n = std::atoi(p.type.c_str() + 7);
    string text = "{";
    for (int i = 0; i < std::max(n, 1); ++i) text += (i ? ", " : "") + d;
    return text + "}";
  }
  return d;
}

}  // namespace

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

bool uses(const string& expression, const string& name, bool* only_meta) {
  static const char* meta[] = {".sizes()",        ".dtype()",      ".dim()",
                               ".size(",          ".device()",     ".numel()",
                               ".strides()",      ".is_complex()", ".is_floating_point()",
                               ".is_contiguous(", "->meaning"};
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
  return !e.has("view") && !e.has("dynamic") && !e.has("whole") && !e.has("composite") &&
         !e.has("inplace_only") && (e.body.empty() || e.has("kernel") || e.has("pointwise"));
}
bool wants_out(const Entry& e) {
  bool derived = has_kernel(e) || (e.has("out") && !e.has("view") && !e.has("inplace_only"));
  if (!derived || e.has("noout") || e.returns.empty()) return false;
  return std::all_of(e.returns.begin(), e.returns.end(), [](const Param& p) { return p.type == "Tensor"; });
}
bool is_composite(const Entry& e) {
  return e.has("composite") || (!e.body.empty() && !has_kernel(e) && !e.has("view") && !e.has("dynamic") &&
                                !e.has("whole") && !e.has("inplace_only"));
}

}  // namespace opgen
