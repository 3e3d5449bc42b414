// The graph as torch.fx prints it: generated code, and the table of nodes.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/ir/higher_order.h"
#include "tern/ir/pass.h"
#include "tern/ir/text.h"

namespace tern::ir {
namespace {

// One node of fx: several of them may come from one of ours (getitem of each result, get_attr of each
// branch).
struct Line {
  std::string name;
  std::string op;      // placeholder, get_attr, call_function
  std::string target;  // as Graph prints it
  std::string code;    // the right side
  std::string args, kwargs;
  std::vector<std::string> uses;  // names of other lines, in order of first use
};

std::string_view after_colons(std::string_view kind) {
  size_t at = kind.find("::");
  return at == std::string_view::npos ? kind : kind.substr(at + 2);
}

std::string python_name(std::string_view text) {
  std::string out;
  for (char c : text) out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  if (!out.empty() && std::isdigit(static_cast<unsigned char>(out[0]))) out = "_" + out;
  return out;
}

std::string quoted(std::string_view text) {  // Python's repr
  char mark =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, mark);
  for (char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == mark || c == '\\')
      out += std::string("\\") + c;
    else
      out += c;
  }
  return out + mark;
}

struct Walk {
  std::vector<Line> lines;
  std::vector<std::string> results;  // of the output node, as code
  std::vector<std::string> result_uses;
  int branches = 0;

  const tern::Value* constant_of(const Value& v) const {
    static const tern::Value none{};
    if (!v.node() || !v.node()->is("prim::Constant")) return nullptr;
    const tern::Value* value = v.node()->attribute("value");
    return value ? value : &none;
  }

  // ---- arguments; `table`: as Graph prints them (%x), else as code ----

  std::string constant(const tern::Value& v, const SchemaType* type, bool table) const {
    if (v.is_list() || v.is_tuple()) {
      std::string out = v.is_list() ? "[" : "(";
      for (size_t i = 0; i < v.items().size(); ++i)
        out += (i ? ", " : "") + constant(v.items()[i], type, table);
      if (v.is_tuple() && v.items().size() == 1) out += ",";
      return out + (v.is_list() ? "]" : ")");
    }
    if (type && v.is_int() && v.sym().is_int()) {
      if (type->base == BaseType::dtype)
        return "torch." + std::string(tern::name(static_cast<DType>(v.to_int())));
      if (type->base == BaseType::memory_format)
        return "torch." + std::string(tern::name(static_cast<MemoryFormat>(v.to_int())));
      if (type->base == BaseType::layout) return v.to_int() == 0 ? "torch.strided" : "torch.sparse_coo";
    }
    if (v.is_string()) return table ? v.string() : quoted(v.string());
    if (v.kind() == ValueKind::device) {
      std::string full = v.device().str();
      if (table) return full;
      size_t colon = full.find(':');
      std::string head = "device(type='" + full.substr(0, colon) + "'";
      return head + (colon == std::string::npos ? "" : ", index=" + full.substr(colon + 1)) + ")";
    }
    if (v.is_float() && !table && std::isinf(v.to_double())) return v.to_double() < 0 ? "-inf" : "inf";
    return v.str();
  }
  template <class Range>
  std::string sequence(const Range& items, char open, const SchemaType* type, bool table, Line* line) const {
    std::string out(1, open);
    size_t count = 0;
    for (const Operand& item : items) {
      out += (count ? ", " : "") + operand(item, type, table, line);
      ++count;
    }
    if (open == '(' && count == 1) out += ",";
    return out + (open == '[' ? ']' : ')');
  }
  std::string operand(const Operand& o, const SchemaType* type, bool table, Line* line) const {
    if (o.is_constant()) return constant(o.constant(), type, table);
    if (o.is_list()) return sequence(o.list(), '[', type, table, line);
    const Value& v = o.value();
    if (const tern::Value* c = constant_of(v)) return constant(*c, type, table);
    if (v.node() && v.node()->is("prim::ListConstruct"))
      return sequence(v.node()->inputs(), '[', type, table, line);
    if (v.node() && v.node()->is("prim::TupleConstruct"))
      return sequence(v.node()->inputs(), '(', type, table, line);
    std::string name = python_name(v.name());
    if (line && std::find(line->uses.begin(), line->uses.end(), name) == line->uses.end())
      line->uses.push_back(name);
    return (table ? "%" : "") + name;
  }

  static bool is_default(const Operand& o, const SchemaArg& a) {
    if (!o.is_constant()) return false;
    if (a.default_value) {
      // A list of equal ints may be written as one: int[2] stride=1.
      const tern::Value &v = o.constant(), &d = *a.default_value;
      if (v.is_list() && !d.is_list() && a.type.fixed_size && !v.items().empty()) {
        for (const tern::Value& item : v.items())
          if (!item.equals(d)) return false;
        return static_cast<int>(v.items().size()) == a.type.fixed_size;
      }
      if (v.is_bool() != d.is_bool()) return false;
      return v.equals(d);
    }
    return o.is_none();
  }

  void call(Line& line, const std::vector<std::string>& args,
            const std::vector<std::pair<std::string, std::string>>& kwargs, bool table) const {
    std::string text;
    if (table) {
      line.args = "(";
      for (size_t i = 0; i < args.size(); ++i) line.args += (i ? ", " : "") + args[i];
      line.args += args.size() == 1 ? ",)" : ")";
      line.kwargs = "{";
      for (size_t i = 0; i < kwargs.size(); ++i)
        line.kwargs += (i ? ", " : "") + kwargs[i].first + ": " + kwargs[i].second;
      line.kwargs += "}";
      return;
    }
    for (const std::string& a : args) text += (text.empty() ? "" : ", ") + a;
    for (auto& [name, v] : kwargs) text += (text.empty() ? "" : ", ") + name + " = " + v;
    line.code = line.target + "(" + text + ")";
  }

  void operator_call(const Node& n, Line& line) {
    const Schema* schema = n.op() ? &n.op()->schema() : nullptr;
    line.op = "call_function";
    line.target = "torch.ops." + target_of(n);
    size_t positional = n.inputs().size();
    if (schema) {
      positional = 0;
      for (size_t i = 0; i < n.inputs().size(); ++i)
        if (!schema->args[i].keyword_only && !is_default(n.input(i), schema->args[i])) positional = i + 1;
    }
    for (bool table : {false, true}) {
      std::vector<std::string> args;
      std::vector<std::pair<std::string, std::string>> kwargs;
      for (size_t i = 0; i < positional; ++i)
        if (!schema || !schema->args[i].keyword_only)
          args.push_back(
              operand(n.input(i), schema ? &schema->args[i].type : nullptr, table, table ? nullptr : &line));
      for (size_t i = 0; schema && i < n.inputs().size(); ++i) {
        const SchemaArg& a = schema->args[i];
        if (!a.keyword_only || is_default(n.input(i), a)) continue;
        kwargs.emplace_back(a.name.str(), operand(n.input(i), &a.type, table, table ? nullptr : &line));
      }
      call(line, args, kwargs, table);
    }
  }
  static std::string target_of(const Node& n) {
    return n.op() ? n.op()->schema().fx_name() : fx_name(n.kind().view());
  }
  // "aten::add.Tensor" as torch.ops has it: "aten.add.Tensor", "mine.op.default".
  static std::string fx_name(std::string_view kind) {
    size_t colons = kind.find("::");
    std::string out(kind.substr(0, colons));
    if (colons == std::string_view::npos) return out;
    std::string_view name = kind.substr(colons + 2);
    return out + "." + std::string(name) + (name.find('.') == std::string_view::npos ? ".default" : "");
  }

  // Python operators on sizes: `ge = item >= 0`.
  bool python_operator(const Node& n, Line& line) {
    static constexpr std::pair<std::string_view, std::string_view> infix[] = {
        {"add", "+"},  {"sub", "-"}, {"mul", "*"}, {"floordiv", "//"}, {"truediv", "/"}, {"mod", "%"},
        {"eq", "=="},  {"ne", "!="}, {"lt", "<"},  {"le", "<="},       {"gt", ">"},      {"ge", ">="},
        {"and_", "&"}, {"or_", "|"}, {"xor", "^"}, {"lshift", "<<"},   {"rshift", ">>"}, {"pow", "**"}};
    // The builtins on numbers that TorchScript and our recorder write, by their names in Python.
    static constexpr std::pair<std::string_view, std::string_view> builtins[] = {
        {"aten::add", "_operator::add"},
        {"aten::sub", "_operator::sub"},
        {"aten::mul", "_operator::mul"},
        {"aten::floordiv", "_operator::floordiv"},
        {"aten::div", "_operator::truediv"},
        {"aten::remainder", "_operator::mod"},
        {"aten::pow", "_operator::pow"},
        {"aten::neg", "_operator::neg"},
        {"aten::eq", "_operator::eq"},
        {"aten::ne", "_operator::ne"},
        {"aten::lt", "_operator::lt"},
        {"aten::le", "_operator::le"},
        {"aten::gt", "_operator::gt"},
        {"aten::ge", "_operator::ge"},
        {"aten::__and__", "_operator::and_"},
        {"aten::__or__", "_operator::or_"},
        {"aten::__lshift__", "_operator::lshift"},
        {"aten::__rshift__", "_operator::rshift"},
        {"aten::__not__", "torch::sym_not"},
        {"aten::Float", "torch::sym_float"},
        {"aten::sqrt", "torch::sym_sqrt"},
        {"aten::trunc", "math::trunc"},
        {"prim::max", "torch::sym_max"},
        {"prim::min", "torch::sym_min"}};
    std::string_view kind = n.kind().view();
    if (!n.op()) {
      std::string_view bare = kind.substr(0, kind.find('.'));
      for (const auto& [builtin, python] : builtins)
        if (bare == builtin) kind = python;
    }
    bool own = kind.substr(0, 11) == "_operator::", torch = kind.substr(0, 7) == "torch::",
         math = kind.substr(0, 6) == "math::";
    bool item = n.is("aten::__getitem__") || n.is("prim::TupleIndex");
    if (n.op() || (!own && !torch && !math && !item)) return false;
    std::string name = item ? "getitem" : std::string(after_colons(kind));
    line.op = "call_function";
    line.target =
        own || item ? "operator." + name : std::string(kind.substr(0, kind.find("::"))) + "." + name;
    std::vector<std::string> code, table;
    for (const Operand& o : n.inputs()) {
      code.push_back(operand(o, nullptr, false, &line));
      table.push_back(operand(o, nullptr, true, nullptr));
    }
    call(line, code, {}, false);
    call(line, table, {}, true);
    if (!own && !item) return true;
    if (name == "getitem" && code.size() == 2) line.code = code[0] + "[" + code[1] + "]";
    if (name == "neg" && code.size() == 1) line.code = "-" + code[0];
    for (auto& [method, sign] : infix)
      if (method == name && code.size() == 2) line.code = code[0] + " " + std::string(sign) + " " + code[1];
    return true;
  }

  void getitems(const std::string& of, Span<Value* const> outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i]->has_uses()) continue;
      Line line;
      line.name = python_name(outputs[i]->name());
      line.op = "call_function";
      line.target = "operator.getitem";
      line.code = of + "[" + std::to_string(i) + "]";
      line.args = "(%" + of + ", " + std::to_string(i) + ")";
      line.kwargs = "{}";
      line.uses = {of};
      lines.push_back(std::move(line));
    }
  }

  // Branches are submodules: true_graph_0 and so on, in order.
  void higher_order(const Node& n) {
    std::string_view kind = after_colons(n.kind().view());
    std::string number = std::to_string(branches++);
    const HigherOrder* op = find_higher_order(n.kind().view());
    static const SchemaType dtype_type{.base = BaseType::dtype};
    std::vector<std::string> names;
    if (op)
      for (const HigherOrderPart& p : op->parts)
        if (p.kind == HigherOrderPart::graph) names.push_back(std::string(p.name) + "_" + number);
    while (names.size() < n.blocks().size())
      names.push_back("subgraph_" + number + "_" + std::to_string(names.size()));
    names.resize(n.blocks().size());
    for (const std::string& name : names) {
      Line line{.name = name,
                .op = "get_attr",
                .target = name,
                .code = "self." + name,
                .args = {},
                .kwargs = {},
                .uses = {}};
      lines.push_back(std::move(line));
    }
    Line line;
    line.name = python_name(n.name());
    line.op = "call_function";
    line.target = "torch.ops." + std::string(n.kind().view().substr(0, n.kind().view().find("::"))) + "." +
                  std::string(kind);
    for (bool table : {false, true}) {
      std::vector<std::string> args;
      std::vector<std::pair<std::string, std::string>> kwargs;
      Line* noted = table ? nullptr : &line;
      auto one = [&](size_t i) { return operand(n.input(i), nullptr, table, noted); };
      auto group = [&](size_t from, size_t to, char open) {
        std::string out(1, open);
        for (size_t i = from; i < to; ++i) out += (i > from ? ", " : "") + one(i);
        if (open == '(' && to - from == 1) out += ",";
        args.push_back(out + (open == '(' ? ")" : "]"));
      };
      auto submodule = [&](const std::string& name) {
        args.push_back((table ? "%" : "") + name);
        if (noted) noted->uses.push_back(name);
      };
      if (op) {
        each_part(*op, operands_of(n), n.inputs().size(), [&](const HigherOrderPart& p, size_t a, size_t b) {
          switch (p.kind) {
            case HigherOrderPart::graph:
              return submodule(names[a]);
            case HigherOrderPart::constant:
              args.push_back(
                  constant(*n.attribute(p.name), p.name == "dtype" ? &dtype_type : nullptr, table));
              return;
            case HigherOrderPart::list:
            case HigherOrderPart::tuple:
              return group(a, b, p.kind == HigherOrderPart::list ? '[' : '(');
            default:
              for (size_t i = a; i < b; ++i) args.push_back(one(i));
          }
        });
      } else {
        for (const std::string& name : names) submodule(name);
        const tern::Value *target = n.attribute("operator"), *named = n.attribute("arg_names");
        if (target) args.push_back((table ? "" : "torch.ops.") + fx_name(target->string()));
        for (size_t i = 0; i < n.inputs().size(); ++i) {
          std::string name = named && i < named->items().size() ? named->items()[i].string() : "";
          if (name.empty())
            args.push_back(one(i));
          else
            kwargs.emplace_back(name, one(i));
        }
      }
      call(line, args, kwargs, table);
    }
    std::string name = line.name;
    lines.push_back(std::move(line));
    getitems(name, n.outputs());
  }

  void node(const Node& n) {
    if (n.is("prim::Constant") || n.is("prim::ListConstruct") || n.is("prim::TupleConstruct")) return;
    if (n.is("prim::ListUnpack") || n.is("prim::TupleUnpack")) {
      std::string of = operand(n.input(0), nullptr, false, nullptr);
      return getitems(of, n.outputs());
    }
    if (n.kind().view().substr(0, 14) == "higher_order::") return higher_order(n);
    Line line;
    line.name = python_name(n.name());
    if (n.is("prim::GetAttr")) {
      const tern::Value* name = n.attribute("name");
      std::string path = name ? name->string() : "";
      for (const Node* at = n.input(0).is_value() ? n.input(0).value().node() : nullptr;
           at && at->is("prim::GetAttr");
           at = at->input(0).is_value() ? at->input(0).value().node() : nullptr)
        path = at->attribute("name")->string() + "." + path;
      line.op = "get_attr";
      line.target = path;
      line.code = "self." + path;
      lines.push_back(std::move(line));
      return;
    }
    if (!python_operator(n, line)) operator_call(n, line);
    std::string name = line.name;
    lines.push_back(std::move(line));
    if (n.op() && n.num_outputs() > 1) getitems(name, n.outputs());
  }

  Walk(const Block& b, const FxOptions& options) {
    for (Value* p : b.params()) {
      Line line;
      line.name = python_name(p->name());
      line.op = "placeholder";
      line.target = line.name;
      for (auto& [name, path] : options.self_attributes)
        if (name == p->name()) {
          line.op = "get_attr";
          line.target = path;
        }
      line.code = "self." + line.target;
      lines.push_back(std::move(line));
    }
    for (const Node& n : b) node(n);
    Line end;
    for (const Operand& o : b.returns()) results.push_back(operand(o, nullptr, false, &end));
    result_uses = end.uses;
  }

  std::string return_text(const FxOptions& options) const {
    if (!options.tuple_output && results.size() == 1) return results[0];
    std::string out = "(";
    for (size_t i = 0; i < results.size(); ++i) out += (i ? ", " : "") + results[i];
    return out + (results.size() == 1 ? ",)" : ")");
  }
};

}  // namespace

std::string fx_code(const Block& block, const FxOptions& options) {
  Walk walk(block, options);
  // The line that uses a name last frees it; the output frees nothing.
  std::unordered_map<std::string, size_t> last;
  for (size_t i = 0; i < walk.lines.size(); ++i)
    for (const std::string& u : walk.lines[i].uses) last[u] = i;
  for (const std::string& u : walk.result_uses) last.erase(u);
  std::string out = "def " + options.name + "(self";
  for (const Line& l : walk.lines)
    if (l.op == "placeholder") out += ", " + l.name;
  out += "):\n";
  for (const std::string& line : options.prologue) out += "    " + line + "\n";
  for (size_t i = 0; i < walk.lines.size(); ++i) {
    const Line& l = walk.lines[i];
    if (l.op == "placeholder") continue;
    out += "    " + l.name + " = " + l.code;
    std::string freed;
    for (const std::string& u : l.uses) {
      auto it = last.find(u);
      if (it != last.end() && it->second == i) freed += u + " = ";
    }
    if (options.free_last_uses && !freed.empty()) out += ";  " + freed + "None";
    out += "\n";
  }
  return out + "    return " + options.return_prefix + walk.return_text(options) + options.return_suffix;
}
std::string fx_code(const Graph& graph, const FxOptions& options) { return fx_code(graph.top(), options); }

std::string fx_graph(const Graph& graph, const FxOptions& options) {
  Walk walk(graph.top(), options);
  std::unordered_map<std::string, size_t> users;
  for (const Line& l : walk.lines)
    for (const std::string& u : l.uses) ++users[u];
  for (const std::string& u : walk.result_uses) ++users[u];
  std::string out = "graph():";
  for (const Line& l : walk.lines) {
    out += fmt::format("\n    %{} : [num_users={}] = {}[target={}]", l.name, users[l.name], l.op, l.target);
    if (l.op == "call_function") out += "(args = " + l.args + ", kwargs = " + l.kwargs + ")";
  }
  return out + "\n    return " + walk.return_text(options);
}

}  // namespace tern::ir
