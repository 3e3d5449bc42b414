// Graph → TorchScript source, as PyTorch writes it into the code/ of an archive: one statement a node,
// constants in place.
#include <cmath>
#include <set>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/ir/names.h"
#include "tern/script/compile.h"
#include "tern/script/signature.h"

namespace tern::script {
namespace {

using ir::Type;
using ir::TypeKind;

std::string annotation(const Type* t) { return plain(t)->str(ir::TypeStyle::annotation); }

bool is_identifier(std::string_view s) {
  if (s.empty() || (s[0] >= '0' && s[0] <= '9')) return false;
  for (char c : s)
    if (!(isalnum(static_cast<unsigned char>(c)) || c == '_')) return false;
  return !ir::is_python_reserved(s);
}

std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 32 || c == 127)
          out += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
        else
          out += c;
    }
  }
  return out + "\"";
}

std::string real(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  std::string s = fmt::format("{:.17g}", d);
  if (s.find_first_of(".e") == std::string::npos) s += ".";
  return s;
}

class Printer {
 public:
  Printer(ConstantTable& constants, int indent) : constants_(constants), indent_(indent) {}

  std::string function(const ir::Graph& graph, std::string_view name, const std::vector<Argument>& args,
                       const Type* returns, bool is_method) {
    std::string head = std::string(static_cast<size_t>(indent_) * 2, ' ') + "def " + std::string(name) + "(";
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      ir::Value& v = *graph.inputs()[i];
      const Argument* a = i < args.size() ? &args[i] : nullptr;
      std::string shown = i == 0 && is_method ? "self" : a ? a->name.str() : v.name();
      // The names of arguments are part of the interface: they come first and are kept where they can be.
      name_value(v, shown);
      if (i) head += ",\n    " + std::string(static_cast<size_t>(indent_) * 2, ' ');
      head += names_[&v] + ": " + annotation(a ? a->type : v.type());
      if (a && a->default_value) head += "=" + constant(*a->default_value, a->type);
    }
    const Type* type = returns ? returns : returned(graph);
    head += ") -> " + annotation(type) + ":\n";
    ++indent_;
    size_t first = constants_.statements.size();
    block(graph.top());
    for (size_t i = first; i < constants_.statements.size(); ++i)
      constants_.statements[i].first += head.size();
    if (graph.outputs().size() == 1) {
      line("return " + operand(graph.outputs()[0], type));
    } else if (graph.outputs().empty()) {
      line("return None");
    } else {
      std::string all;
      for (const ir::Operand& o : graph.outputs()) all += (all.empty() ? "" : ", ") + operand(o);
      line("return (" + all + ")");
    }
    --indent_;
    return head + out_;
  }

  std::string constant(const tern::Value& v, const Type* type = nullptr) {
    if (type && type->is(TypeKind::optional) && !v.is_none()) type = type->element();
    switch (v.kind()) {
      case ValueKind::none:
        return "None";
      case ValueKind::bool_:
        return v.to_bool() ? "True" : "False";
      case ValueKind::int_:
        if (v.sym().is_symbolic())
          fail("a symbolic size cannot be written as TorchScript source: read it from a tensor with size()");
        return type && type->is(TypeKind::float_) ? real(v.to_double()) : std::to_string(v.to_int());
      case ValueKind::float_:
        return real(v.to_double());
      case ValueKind::complex_: {
        std::complex<double> c = v.scalar().to_complex();
        return "complex(" + real(c.real()) + ", " + real(c.imag()) + ")";
      }
      case ValueKind::device:
        return "torch.device(" + quoted(v.device().str()) + ")";
      case ValueKind::string:
        return quoted(v.string());
      case ValueKind::tensor:
        return "CONSTANTS.c" + std::to_string(constants_.add(v));
      case ValueKind::tuple: {
        std::string s = "(";
        for (size_t i = 0; i < v.items().size(); ++i) {
          const Type* t =
              type && type->is(TypeKind::tuple) && i < type->elements().size() ? type->element(i) : nullptr;
          s += (i ? ", " : "") + constant(v.items()[i], t);
        }
        return s + (v.items().size() == 1 ? ",)" : ")");
      }
      case ValueKind::list: {
        const Type* element = type && type->is(TypeKind::list) ? type->element() : v.element_type();
        std::string s = "[";
        bool none = v.items().empty();
        for (size_t i = 0; i < v.items().size(); ++i) {
          none = none || v.items()[i].is_none();
          s += (i ? ", " : "") + constant(v.items()[i], element);
        }
        s += "]";
        if (!none) return s;
        return "annotate(" + annotation(Type::list(element ? element : Type::tensor())) + ", " + s + ")";
      }
      case ValueKind::dict: {
        std::string s = "{";
        for (auto& [k, item] : v.entries())
          s += (s.size() > 1 ? ", " : "") + constant(k) + ": " + constant(item);
        s += "}";
        return type ? "annotate(" + annotation(type) + ", " + s + ")" : s;
      }
      case ValueKind::object:
        if (ir::EnumMember* m = ir::EnumMember::of(v)) return m->type.str() + "." + m->name;
        if (dynamic_cast<NativeObject*>(v.box())) return "CONSTANTS.c" + std::to_string(constants_.add(v));
        fail(ErrorKind::not_supported, "an object cannot be a constant of TorchScript source");
    }
    return "None";
  }

 private:
  static const Type* returned(const ir::Graph& graph) {
    std::vector<const Type*> types;
    for (const ir::Operand& o : graph.outputs()) types.push_back(o.type());
    if (types.empty()) return Type::none();
    return types.size() == 1 ? types[0] : Type::tuple(types);
  }

  void line(std::string_view text) {
    out_ += std::string(static_cast<size_t>(indent_) * 2, ' ') + std::string(text) + "\n";
  }

  // ---- names ----
  const std::string& name_value(const ir::Value& v, std::string_view wanted) {
    static const std::set<std::string_view> taken = {"torch",
                                                     "ops",
                                                     "CONSTANTS",
                                                     "__torch__",
                                                     "inf",
                                                     "nan",
                                                     "infj",
                                                     "nanj",
                                                     "annotate",
                                                     "uninitialized",
                                                     "unchecked_cast",
                                                     "fork",
                                                     "rpc_async",
                                                     "rpc_sync",
                                                     "rpc_remote",
                                                     "math",
                                                     "device",
                                                     "Tensor",
                                                     "List",
                                                     "Dict",
                                                     "Optional",
                                                     "Tuple",
                                                     "Final",
                                                     "Module",
                                                     "rangelist",
                                                     "getattr",
                                                     "range",
                                                     "print",
                                                     "len",
                                                     "tuple",
                                                     "str",
                                                     "int",
                                                     "float",
                                                     "bool",
                                                     "complex",
                                                     "list",
                                                     "dict",
                                                     "min",
                                                     "max",
                                                     "abs",
                                                     "round",
                                                     "isinstance",
                                                     "zip",
                                                     "enumerate",
                                                     "sum",
                                                     "sorted",
                                                     "any",
                                                     "all"};
    std::string base;
    for (char c : wanted) base += isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
    if (base.empty() || (base[0] >= '0' && base[0] <= '9')) base = "_" + base;
    std::string name = base;
    auto bad = [&](const std::string& n) {
      return used_.count(n) || taken.count(n) || (ir::is_python_reserved(n) && n != "input");
    };
    if (bad(name)) {
      uint32_t& next = next_[base];
      do name = base + std::to_string(next++);
      while (bad(name));
    }
    used_.insert(name);
    return names_[&v] = name;
  }
  const std::string& name_of(const ir::Value& v) {
    auto it = names_.find(&v);
    return it != names_.end() ? it->second : name_value(v, v.name());
  }
  std::string fresh() {
    for (;;) {
      std::string n = "_" + std::to_string(temporaries_++);
      if (used_.insert(n).second) return n;
    }
  }

  std::string operand(const ir::Operand& o, const Type* type = nullptr) {
    if (o.is_value()) {
      if (auto it = constants_of_.find(&o.value()); it != constants_of_.end())
        return constant(*it->second, type);
      return name_of(o.value());
    }
    if (o.is_constant()) return constant(o.constant(), type);
    const Type* element = type && type->is(TypeKind::optional) ? type->element() : type;
    element = element && element->is(TypeKind::list) ? element->element() : nullptr;
    std::string s = "[";
    for (size_t i = 0; i < o.list().size(); ++i) s += (i ? ", " : "") + operand(o.list()[i], element);
    s += "]";
    if (element && element->is(TypeKind::optional))
      return "annotate(" + annotation(Type::list(element)) + ", " + s + ")";
    return s;
  }
  std::string operands(const ir::Node& n, size_t from = 0) {
    std::string s;
    for (size_t i = from; i < n.inputs().size(); ++i) s += (s.empty() ? "" : ", ") + operand(n.input(i));
    return s;
  }

  // ---- nodes ----
  void block(const ir::Block& b) {
    for (const ir::Node& n : b) node(n);
  }
  void body(const ir::Block& b, const std::string& tail) {
    ++indent_;
    size_t before = out_.size();
    block(b);
    if (!tail.empty()) line(tail);
    if (out_.size() == before) line("pass");
    --indent_;
  }

  void give(const ir::Node& n, const std::string& expression) {
    bool used = false;
    for (ir::Value* v : n.outputs()) used = used || v->has_uses();
    if (n.num_outputs() == 0 || !used)
      return line(n.num_outputs() ? fresh() + " = " + expression : expression);
    std::string left;
    for (ir::Value* v : n.outputs()) left += (left.empty() ? "" : ", ") + name_of(*v);
    line(left + " = " + expression);
  }

  // A task is a function of its own, without arguments.
  void fork_node(const ir::Node& n) {
    std::string name = forks_ ? "__forked_function" + std::to_string(forks_ - 1) : "__forked_function";
    ++forks_;
    line("def " + name + "():");
    ++indent_;
    block(*n.blocks()[0]);
    const Type* t = n.output().type();
    line("return " + operand(n.blocks()[0]->returns()[0], t->is(TypeKind::future) ? t->element() : nullptr));
    --indent_;
    give(n, "fork(" + name + ")");
  }

  void node(const ir::Node& n) {
    std::string_view kind = n.kind().view();
    if (kind == "prim::Constant") {
      static const tern::Value none{};
      const tern::Value* v = n.attribute("value");
      constants_of_[&n.output()] = v ? v : &none;
      return;
    }
    constants_.statements.emplace_back(out_.size() + static_cast<size_t>(indent_) * 2, n.origin());
    if (kind == "prim::If") return if_node(n);
    if (kind == "prim::Loop") return loop_node(n);
    if (kind == "prim::fork") return fork_node(n);
    if (kind == "prim::ListConstruct" || kind == "prim::DictConstruct") {
      const Type* t = n.output().type();
      bool list = kind == "prim::ListConstruct";
      std::string s = list ? "[" : "{";
      bool none = n.inputs().empty();
      for (size_t i = 0; i < n.inputs().size(); ++i) {
        const Type* element = list && t->is(TypeKind::list) ? t->element() : nullptr;
        none = none || (n.input(i).is_constant() && n.input(i).is_none());
        s += operand(n.input(i), element);
        if (i + 1 < n.inputs().size()) s += !list && i % 2 == 0 ? ": " : ", ";
      }
      s += list ? "]" : "}";
      bool optional = t->is(TypeKind::list) &&
                      (t->element()->is(TypeKind::optional) || t->element()->is(TypeKind::union_));
      if (none || optional || !list) s = "annotate(" + annotation(t) + ", " + s + ")";
      return give(n, s);
    }
    if (kind == "prim::TupleConstruct") {
      const Type* t = n.output().type();
      std::string s;
      for (size_t i = 0; i < n.inputs().size(); ++i)
        s +=
            (s.empty() ? "" : ", ") +
            operand(n.input(i), t->is(TypeKind::tuple) && i < t->elements().size() ? t->element(i) : nullptr);
      if (t->is(TypeKind::tuple) && !t->name().empty()) return give(n, t->name().str() + "(" + s + ")");
      return give(n, "(" + s + (n.inputs().size() == 1 ? ",)" : ")"));
    }
    if (kind == "prim::TupleUnpack" || kind == "prim::ListUnpack") {
      if (n.num_outputs() == 0) return;
      std::string left;
      for (ir::Value* v : n.outputs()) left += name_of(*v) + ", ";
      return line(left + "= " + operand(n.input(0)));
    }
    if (kind == "prim::TupleIndex" || kind == "aten::__getitem__")
      return give(n, "(" + operand(n.input(0)) + ")[" + operand(n.input(1)) + "]");
    if (kind == "prim::EnumName" || kind == "prim::EnumValue")
      return give(n, "(" + operand(n.input(0)) + (kind == "prim::EnumName" ? ").name" : ").value"));
    if (kind == "prim::GetAttr" || kind == "prim::SetAttr") {
      std::string object = operand(n.input(0));
      const std::string& a = n.attribute("name")->string();
      if (kind == "prim::SetAttr") {
        if (!is_identifier(a)) failf("the attribute '{}' cannot be set in TorchScript source", a);
        return line(object + "." + a + " = " + operand(n.input(1)));
      }
      if (is_identifier(a)) return give(n, object + "." + a);
      return give(n, "getattr(" + object + ", " + quoted(a) + ")");
    }
    if (kind == "prim::CallMethod") {
      std::string args;
      for (size_t i = 1; i < n.inputs().size(); ++i) args += operand(n.input(i)) + ", ";
      return give(n, "(" + operand(n.input(0)) + ")." + n.attribute("name")->string() + "(" + args + ")");
    }
    if (kind == "prim::CallFunction") {
      std::string args;
      for (const ir::Operand& o : n.inputs()) args += operand(o) + ", ";
      return give(n, n.attribute("name")->string() + "(" + args + ")");
    }
    if (kind == "prim::PythonOp")
      failf(ErrorKind::not_supported,
            "Could not export Python function call '{}'. Remove calls to Python functions before export: a "
            "file has "
            "no place for a function of the program that wrote it",
            n.attribute("name") ? n.attribute("name")->string() : "?");
    if (kind == "prim::CreateObject") {
      std::string c = n.output().type()->name().str();
      return give(n, c + ".__new__(" + c + ")");
    }
    if (kind == "prim::unchecked_cast")
      return give(n, "unchecked_cast(" + annotation(n.output().type()) + ", " + operand(n.input(0)) + ")");
    if (kind == "prim::Uninitialized") return give(n, "uninitialized(" + annotation(n.output().type()) + ")");
    if (kind == "prim::isinstance") {
      std::string types;
      for (const tern::Value& t : n.attribute("types")->items())
        types += (types.empty() ? "" : ", ") + annotation(ir::parse_type(t.string()));
      return give(n, "isinstance(" + operand(n.input(0)) + ", " +
                         (n.attribute("types")->items().size() == 1 ? types : "(" + types + ")") + ")");
    }
    if (kind == "prim::Print") return line("print(" + operands(n) + ")");
    if (kind == "prim::RaiseException") {
      bool plain_kind = n.inputs().size() < 2 || n.input(1).is_none();
      return line("ops.prim.RaiseException(" + operand(n.input(0)) +
                  (plain_kind ? "" : ", " + operand(n.input(1))) + ")");
    }
    if (kind == "prim::tolist")
      return give(n,
                  "annotate(" + annotation(n.output().type()) + ", (" + operand(n.input(0)) + ").tolist())");
    static const std::pair<std::string_view, std::string_view> casts[] = {{"aten::Int", "int"},
                                                                          {"aten::Float", "float"},
                                                                          {"aten::Bool", "bool"},
                                                                          {"aten::str", "str"},
                                                                          {"aten::Complex", "complex"}};
    for (auto [from, to] : casts)
      if (kind == from && !n.op()) return give(n, std::string(to) + "(" + operands(n) + ")");
    static const std::pair<std::string_view, std::string_view> implicit[] = {
        {"aten::IntImplicit", "int"},
        {"aten::FloatImplicit", "float"},
        {"aten::ScalarImplicit", "number"},
        {"aten::ComplexImplicit", "complex"}};
    for (auto [from, to] : implicit)
      if (kind == from) return give(n, "annotate(" + std::string(to) + ", " + operands(n) + ")");
    give(n, call(n));
  }

  std::string call(const ir::Node& n) {
    std::string_view kind = n.kind().view();
    size_t colons = kind.find("::");
    std::string space(kind.substr(0, colons)), name(kind.substr(colons + 2));
    name = name.substr(0, name.find('.'));
    if (space == "aten" &&
        (name == "sym_size" || name == "sym_numel" || name == "sym_stride" || name == "sym_storage_offset"))
      name = name.substr(4);
    std::string head = space == "aten" && is_callable(name) ? "torch." + name : "ops." + space + "." + name;
    std::string args;
    auto add = [&](const std::string& text) { args += (args.empty() ? "" : ", ") + text; };
    if (n.op()) {
      const Schema& s = n.op()->schema();
      // Trailing arguments that are the defaults are left out.
      size_t last = s.args.size();
      while (last > 0) {
        const SchemaArg& a = s.args[last - 1];
        const ir::Operand& o = n.input(last - 1);
        bool is_default =
            o.is_constant() && ((a.default_value && same(o.constant(), *a.default_value)) ||
                                (!a.default_value && a.type.accepts_none() && o.is_none() && a.keyword_only));
        if (!is_default) break;
        --last;
      }
      for (size_t i = 0; i < last; ++i) {
        const SchemaArg& a = s.args[i];
        const ir::Operand& o = n.input(i);
        if (a.keyword_only && o.is_constant() && a.default_value && same(o.constant(), *a.default_value))
          continue;
        std::string text = operand(o, Type::of(a.type));
        add(a.keyword_only ? a.name.str() + "=" + text : text);
      }
    } else {
      const tern::Value* keywords = n.attribute("keywords");
      size_t named = keywords ? keywords->items().size() : 0;
      size_t positional = n.inputs().size() - named;
      // Of a builtin the signature says which arguments need their names.
      for (const Signature& sig : signatures(n.kind())) {
        if (keywords || sig.args.empty()) continue;
        if (sig.op || sig.args.size() != n.inputs().size() || !sig.args.back().keyword_only) continue;
        for (size_t i = 0; i < n.inputs().size(); ++i) {
          const SigArg& a = sig.args[i];
          if (a.keyword_only && a.default_value && n.input(i).is_constant() &&
              same(n.input(i).constant(), *a.default_value))
            continue;
          add(a.keyword_only ? a.name.str() + "=" + operand(n.input(i)) : operand(n.input(i)));
        }
        return head + "(" + args + ")";
      }
      for (size_t i = 0; i < n.inputs().size(); ++i)
        add(i < positional ? operand(n.input(i))
                           : keywords->items()[i - positional].string() + "=" + operand(n.input(i)));
    }
    return head + "(" + args + ")";
  }
  static bool is_callable(const std::string& name) {
    static const std::set<std::string_view> words = {
        "and",    "or",   "not", "is",   "in",   "if",    "else",   "for",    "while",  "def",   "class",
        "return", "pass", "del", "from", "with", "raise", "lambda", "global", "import", "assert"};
    return !words.count(name);
  }
  static bool same(const tern::Value& a, const tern::Value& b) { return a.kind() == b.kind() && a.equals(b); }

  void if_node(const ir::Node& n) {
    line("if " + operand(n.input(0)) + ":");
    std::string left;
    for (ir::Value* v : n.outputs()) left += (left.empty() ? "" : ", ") + name_of(*v);
    for (int k = 0; k < 2; ++k) {
      const ir::Block& b = *n.blocks()[static_cast<size_t>(k)];
      if (k == 1) line("else:");
      // Names of the values are known only after the body is printed.
      ++indent_;
      size_t before = out_.size();
      block(b);
      std::string right;
      for (size_t i = 0; i < n.num_outputs(); ++i)
        right += (right.empty() ? "" : ", ") + widened(b.returns()[i], n.output(i).type());
      if (!left.empty()) line(left + " = " + right);
      if (out_.size() == before) line("pass");
      --indent_;
    }
  }
  // The operand with its type said where the reader could not find it out.
  std::string widened(const ir::Operand& o, const Type* type) {
    std::string s = operand(o, type);
    if (plain(o.type()) == plain(type) || o.type()->is(TypeKind::any) || type->is(TypeKind::any)) return s;
    if (o.is_constant() && o.constant().is_list()) return s;
    return "annotate(" + annotation(type) + ", " + s + ")";
  }

  void loop_node(const ir::Node& n) {
    const ir::Block& b = *n.blocks()[0];
    const ir::Operand &trip = n.input(0), &start = n.input(1), &next = b.returns()[0];
    auto constant_true = [](const ir::Operand& o) {
      return o.is_constant() && o.constant().is_bool() && o.constant().to_bool();
    };
    bool is_for = constant_true(start) && constant_true(next);
    bool endless = trip.is_constant() && trip.constant().is_int() && trip.constant().to_int() == INT64_MAX;
    bool counts = b.param(0).has_uses();
    for (size_t i = 0; i < n.num_outputs(); ++i) {
      std::string init = widened(n.input(i + 2), n.output(i).type());
      const std::string& name = name_value(n.output(i), n.output(i).name());
      names_[&b.param(i + 1)] = name;
      line(name + " = " + init);
    }
    std::string left, right;
    auto carry = [&] {
      for (size_t i = 0; i < n.num_outputs(); ++i) {
        const ir::Operand& o = b.returns()[i + 1];
        if (o.is_value() && &o.value() == &b.param(i + 1)) continue;
        left += (left.empty() ? "" : ", ") + name_of(n.output(i));
        right += (right.empty() ? "" : ", ") + widened(o, n.output(i).type());
      }
    };
    auto finish = [&](size_t before) {
      if (!left.empty()) line(left + " = " + right);
      if (out_.size() == before) line("pass");
      --indent_;
    };
    if (is_for) {
      const std::string& counter = name_value(b.param(0), b.param(0).name());
      line("for " + counter + " in range(" + operand(trip) + "):");
      ++indent_;
      size_t before = out_.size();
      block(b);
      carry();
      return finish(before);
    }
    std::string going = fresh();
    if (endless && !counts) {
      line(going + " = " + operand(start));
      line("while " + going + ":");
      ++indent_;
      size_t before = out_.size();
      block(b);
      left = going;
      right = operand(next);
      carry();
      return finish(before);
    }
    std::string counter = name_value(b.param(0), b.param(0).name()), limit = operand(trip);
    line(counter + " = 0");
    line(going + " = " +
         (constant_true(start) ? "torch.gt(" + limit + ", 0)"
                               : "torch.__and__(torch.gt(" + limit + ", 0), " + operand(start) + ")"));
    line("while " + going + ":");
    ++indent_;
    size_t before = out_.size();
    block(b);
    std::string more = fresh();
    line(more + " = torch.add(" + counter + ", 1)");
    left = going + ", " + counter;
    right = "torch.__and__(torch.lt(" + more + ", " + limit + "), " + operand(next) + "), " + more;
    carry();
    finish(before);
  }

  ConstantTable& constants_;
  int indent_;
  std::string out_;
  std::unordered_map<const ir::Value*, std::string> names_;
  std::unordered_map<const ir::Value*, const tern::Value*> constants_of_;
  std::set<std::string> used_;
  std::unordered_map<std::string, uint32_t> next_;
  size_t temporaries_ = 0, forks_ = 0;
};

}  // namespace

size_t ConstantTable::add(const tern::Value& value) {
  for (size_t i = 0; i < items.size(); ++i)
    if (items[i].is_same(value)) return i;
  items.push_back(value);
  return items.size() - 1;
}

std::string print_source(const Function& f, ConstantTable& constants) {
  return Printer(constants, f.owner() ? 1 : 0)
      .function(f.graph(), f.name(), f.args(), f.returns(), f.owner() != nullptr);
}

std::string print_source(const ir::Graph& graph, std::string_view name, ConstantTable& constants) {
  return Printer(constants, 0).function(graph, name, {}, nullptr, false);
}

std::string print_source(const ClassType& type, ConstantTable& constants) {
  std::string s = "class " + std::string(type.short_name());
  if (type.kind == ClassKind::module) s += "(Module)";
  if (type.kind == ClassKind::named_tuple) s += "(NamedTuple)";
  if (type.kind == ClassKind::interface) s += "(Interface)";
  if (type.kind == ClassKind::enumeration) {
    s += "(Enum):\n";
    for (const Attribute& a : type.attributes) {
      Printer p(constants, 1);
      s += "  " + a.name.str() + " = " + p.constant(ir::EnumMember::of(a.value)->value, nullptr) + "\n";
    }
    return s;
  }
  s += ":\n";
  if (type.kind == ClassKind::module) {
    for (auto [word, role] :
         {std::pair{"__parameters__", Role::parameter}, std::pair{"__buffers__", Role::buffer}}) {
      s += std::string("  ") + word + " = [";
      for (const Attribute& a : type.attributes)
        if (a.role == role) s += quoted(a.name.view()) + ", ";
      s += "]\n";
    }
  }
  for (const Attribute& a : type.attributes) {
    bool fine = is_identifier(a.name.view());
    if (a.role == Role::constant) {
      Printer p(constants, 1);
      if (!fine) continue;
      s += "  " + a.name.str() + " : " +
           (type.kind == ClassKind::named_tuple ? annotation(a.type) : "Final[" + annotation(a.type) + "]") +
           " = " + p.constant(a.value, a.type) + "\n";
    } else if (fine) {
      s += "  " + a.name.str() + " : " + annotation(a.type) + "\n";
    } else {
      s += "  __annotations__[" + quoted(a.name.view()) + "] = " + annotation(a.type) + "\n";
    }
  }
  for (const auto& m : type.methods) {
    size_t first = constants.statements.size();
    std::string text = print_source(*m, constants);
    for (size_t i = first; i < constants.statements.size(); ++i) constants.statements[i].first += s.size();
    s += text;
  }
  if (type.attributes.empty() && type.methods.empty() && type.kind != ClassKind::module) s += "  pass\n";
  return s;
}

}  // namespace tern::script
