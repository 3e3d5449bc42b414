// opgen: reads the operator tables (tern/ops/<family>/<family>.ops) and writes, per family, the public
// header, the argument structs, the call stubs, bodies, gradients and one constinit table; and one registry
// that names all tables.
//
// clang-format off
//   name.overload(schema) -> returns    @flags
//     grad    a, b = expression           [where s = expression; t = expression]
//     body    expression | cpp            what it is in terms of other operators; "cpp": body_<name> in <family>.cpp
//     inverse expression                  of a view: the base with `result` written into it
//     onnx    Op(args) [if condition]     lowering rules, tried in order
//     check   expression                  throws for arguments that the rule of shapes does not look at
//     dtypes  name: bool int float ...    what the kernel takes; PyTorch calls it `name` where it refuses;
//                                         `only` at the end: nor wide unsigned integers
// clang-format on
//
// Flags: @pointwise @float @bool @real @condition @scalars @view @dynamic @core @random @composite @no_grad
// @same @impure
// @inplace (derive x_) @noout (derive no out variant) @out(overload:names) (what ATen calls it and its
// outputs; written, it also derives one from a body) @loop(name) @kernel (besides a body)
// @plain(1,2) (results that never have history) @geometry (of an @inplace_only: sizes and strides only)
// @implicit (ATen's composite although it has a kernel) @cpp(name) (C++ name, "-" for none)
// @nodefault(arg) (C++ callers must give it: keeps overloads apart) @params (params_<name> is written by
// hand) @out_type, @out_type(floating) (a dtype that is not given is that of out=) @out_same (out= has the
// result's type: else pointwise operators and bodies cast, and kernels do with @out_casts; @out_casts(uint8):
// only of bool to that) @apart, @apart(a,b) (out= may be one of these tensors, not share a part of its
// memory)
// @disjoint, @disjoint(a,b) (nor be it) @inplace_only (the row is itself x_) @whole (kernel_<name> makes its
// results itself, those without data included: quantized tensors, objects) @id(name) (where two namespaces
// would give one identifier) @each (lists of tensors: the operator once for each member, body_each; no C++
// function).
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include "cpp.h"

namespace {

using namespace opgen;

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
  o << "// Written by opgen from " << f.name << ".ops: do not edit.\n#pragma once\n#include <tuple>\n\n"
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
    if (e.has("each")) continue;
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
    if (e.has("inplace_only") || e.has("whole")) o << cpp_return(f, e) << " kernel_" << id << a << ");\n";
    if (e.body == "cpp" || (e.has("composite") && e.body.empty()))
      o << cpp_return(f, e) << " body_" << id << a << ");\n";
    if (e.has("params")) o << "void params_" << id << a << ", kernels::Params& params);\n";
  }
  o << "\n}  // namespace tern\n";
  return o.str();
}

vector<size_t> targets_of(const Entry& e, const Formula& g) {
  vector<size_t> at;
  for (const string& t : g.targets)
    for (size_t i = 0; i < e.params.size(); ++i)
      if (e.params[i].name == t) at.push_back(i);
  return at;
}

string wants_any(const Entry& e, const Formula& g) {
  string text;
  for (size_t i : targets_of(e, g))
    text += (text.empty() ? "c.wants(" : " || c.wants(") + std::to_string(i) + ")";
  return text;
}

// The arguments a formula reads: bit i is argument i.
struct Reads {
  unsigned long long whole = 0, meta = 0;
};
Reads reads_of(const Entry& e, const string& formula) {
  Reads reads;
  for (size_t i = 0; i < e.params.size(); ++i) {
    bool only_meta = true;
    if (!uses(formula, e.params[i].name, &only_meta)) continue;
    bool tensor = e.params[i].type.rfind("Tensor", 0) == 0;
    (tensor && only_meta ? reads.meta : reads.whole) |= 1ull << i;
  }
  return reads;
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
    text += e.body + " " + e.inverse + " " + e.check + " ";
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

bool is_out_exact(const Entry& e) {
  if (e.has("pointwise") || is_composite(e)) return e.has("out_same");
  // What is made from numbers takes the type of out=, where it can hold them.
  if (std::none_of(e.params.begin(), e.params.end(),
                   [](const Param& p) { return p.type.rfind("Tensor", 0) == 0; }))
    return false;
  return !e.has("out_casts") || e.flags.at("out_casts") == "uint8";
}

// One bit a type, by ATen's numbers of them. Set are those of quantized tensors, which have their own rules,
// and of wide unsigned integers: ONNX computes with them where PyTorch does not. `only` refuses these, too.
unsigned long dtype_bits(const Family& f, const Entry& e) {
  static const std::map<string, vector<int>> types = {
      {"bool", {11}},     {"int", {0, 1, 2, 3, 4}}, {"uint", {27, 28, 29}}, {"half", {5, 15}},
      {"float", {6, 7}},  {"complex", {9, 10}},     {"complex32", {8}},     {"float8", {23, 24, 25, 26}},
      {"uint8", {0}},     {"int32", {3}},           {"int64", {4}},         {"float16", {5}},
      {"bfloat16", {15}}, {"float8_e5m2", {23}},    {"float32", {6}},       {"float64", {7}}};
  const bool only = !e.dtypes.empty() && e.dtypes.back() == "only";
  unsigned long bits = 7ul << 12 | (only ? 0 : 7ul << 27);
  for (const string& word : e.dtypes) {
    if (word == "only") continue;
    auto it = types.find(word);
    if (it == types.end()) die(f.path, e.dtypes_line, "opgen knows no types '" + word + "'");
    for (int d : it->second) bits |= 1ul << d;
  }
  return bits;
}

// Which arguments a flag names, one bit each: all tensors if none.
unsigned long argument_bits(const Family& f, const Entry& e, const string& flag) {
  auto it = e.flags.find(flag);
  if (it == e.flags.end()) return 0;
  unsigned long bits = 0;
  size_t found = 0;
  const vector<string> names = it->second.empty() ? vector<string>() : split(it->second);
  for (size_t i = 0; i < e.params.size(); ++i) {
    if (e.params[i].type.rfind("Tensor", 0) != 0) continue;
    if (!names.empty() && std::find(names.begin(), names.end(), e.params[i].name) == names.end()) continue;
    bits |= 1ul << i;
    ++found;
  }
  if (!found || found < names.size())
    die(f.path, e.line, "@" + flag + " names what is no tensor of " + e.name);
  return bits;
}

string source(const Family& f, const vector<Family>& families) {
  std::ostringstream o;
  string table = "ops_" + f.name;
  o << "// Written by opgen from " << f.name << ".ops: do not edit.\n#include \"tern/ops/" << f.name
    << ".args.h\"\n"
    << "#include \"tern/dispatch/grad_context.h\"\n#include \"tern/dispatch/op_flags.h\"\n#include "
       "\"tern/dispatch/pointwise.h\"\n"
    << family_includes(f, families) << (f.any("each") ? "#include \"tern/ops/each.h\"\n" : "")
    << "#include \"tern/ops/checks.h\"\n#include \"tern/ops/formulas.h\"\n\nnamespace tern {\n\n";

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
      bool any = e.params[k].type == "Any" || e.params[k].type.rfind("__torch__.", 0) == 0;
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
      if (t == "Tensor" || t == "Tensor?") return v + ".take_tensor()";
      if (t == "Tensor[]") return v + ".tensors()";
      if (t == "int" || t == "SymInt" || t == "QScheme") return v + ".sym()";
      if (t == "bool") return v + ".to_bool()";
      if (t == "ScalarType") return "static_cast<DType>(" + v + ".to_int())";
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
        o << "Shapes shape_thunk_" << id << "(const Op&, const Arg* a) { return shape_" << id
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
      o << "Shapes shape_thunk_" << id << "(const Op&, const Arg* a) { return shape_" << id << "(args::" << id
        << "(a)); }\n";
    }
    if (e.has("inplace_only") || e.has("whole")) call_thunk("kernel");
    if (e.body == "cpp" || (e.has("composite") && e.body.empty())) {
      call_thunk("body");
    } else if (!e.body.empty() && !e.has("each")) {
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
      o << "void grad_thunk_" << id << "(GradContext& c) {\n  if (c.needs) {\n";
      for (const Formula& g : e.grads) {
        const Reads reads = reads_of(e, g.expression + " " + g.where);
        o << "    if (" << wants_any(e, g) << ") c.need(" << reads.whole << "ull, " << reads.meta
          << "ull);\n";
      }
      o << "    return;\n  }\n  args::" << id << " a(c.args);\n";
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
        const vector<size_t> at = targets_of(e, g);
        o << "  if (" << wants_any(e, g) << ") {\n";
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
  for (const Entry& e : f.entries) {
    if (e.check.empty()) continue;
    o << "void check_thunk_" << e.id() << "(const Arg* arg) {\n  args::" << e.id() << " a(arg);\n";
    bind_names(o, e, e.check);
    line(e.check_line);
    o << "  " << e.check << ";\n}\n";
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
        {"impure", "op_impure"},       {"implicit", "op_implicit"},   {"geometry", "op_geometry"},
        {"whole", "op_whole"}};
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
    if (row.kind == ' ' && is_out_exact(b)) o << " | op_out_exact";
    if (row.kind == ' ' && b.has("out_casts") && b.flags.at("out_casts") == "uint8") o << " | op_out_byte";
    if (row.kind == ' ' && b.has("out_type"))
      o << (b.flags.at("out_type") == "floating" ? " | op_out_type_floating" : " | op_out_type");
    o << ", .arity = " << e.params.size() << ", .results = " << e.returns.size();
    if (row.kind == ' ' || row.kind == 'w') {
      if (has_kernel(b) && !b.has("pointwise")) {
        if (!b.has("same")) o << ", .shape = shape_thunk_" << id;
        o << ", .kernel = kernel_thunk_" << id;
      }
      if (b.has("dynamic")) o << ", .shape = shape_thunk_" << id;
      if (b.has("view")) o << ", .call = view_thunk_" << id;
      if (b.has("dynamic") || b.has("inplace_only") || b.has("whole")) o << ", .call = kernel_thunk_" << id;
      if (b.has("each"))
        o << ", .body = body_each";
      else if (!b.body.empty() || b.has("composite"))
        o << ", .body = body_thunk_" << id;
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
    if ((row.kind == ' ' || row.kind == 'w') && !b.check.empty()) o << ", .check = check_thunk_" << id;
    if ((row.kind == ' ' || row.kind == 'w') && !b.dtypes.empty())
      o << ", .dtypes = " << dtype_bits(f, b) << "u, .kernel_name = " << quoted(b.kernel_name);
    if (row.kind == ' ' && (b.has("apart") || b.has("disjoint")))
      o << ", .apart = " << argument_bits(f, b, "apart")
        << ", .disjoint = " << argument_bits(f, b, "disjoint");
    if (!b.grads.empty() && row.kind != 'o') {
      string all;
      unsigned long long differentiable = 0;
      unsigned results = 0;
      for (const Formula& g : b.grads) {
        all += g.expression + " " + g.where + " ";
        for (size_t i : targets_of(b, g)) differentiable |= 1ull << i;
      }
      const Reads reads = reads_of(b, all);
      if (uses(all, "result")) results |= 1;
      for (size_t i = 0; i < b.returns.size(); ++i)
        if (uses(all, "result" + std::to_string(i))) results |= 1u << i;
      o << ", .saves_args = " << reads.whole << ", .saves_meta = " << reads.meta
        << ", .saves_results = " << results << ", .differentiable = " << differentiable;
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
