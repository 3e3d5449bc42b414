// Graph → TorchScript source, as PyTorch writes it into the code/ of an archive: a statement a node, with the
// nodes inside it that only it uses, and constants in place. A line that would become long is split.
#include <set>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/ir/names.h"
#include "tern/script/compile.h"
#include "tern/script/inlining.h"
#include "tern/script/signature.h"
#include "tern/script/source_text.h"

namespace tern::script {
namespace {

using ir::Type;
using ir::TypeKind;

// Numbers that names end with; the methods of a class share them.
using NextNumbers = std::unordered_map<std::string, uint32_t>;

class Printer {
 public:
  Printer(ConstantTable& constants, int indent, NextNumbers& next)
      : constants_(constants), indent_(indent), next_(next) {}

  // `self_type`: whether it says the type of self, as a class needs it.
  std::string function(const ir::Graph& graph, std::string_view name, const std::vector<Argument>& args,
                       const Type* returns, bool is_method, bool self_type) {
    graph_ = &graph;
    inlined_ = inlined_nodes(graph);
    std::string head = std::string(static_cast<size_t>(indent_) * 2, ' ') + "def " + std::string(name) + "(";
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      ir::Value& v = *graph.inputs()[i];
      const Argument* a = i < args.size() ? &args[i] : nullptr;
      // The names of arguments are part of the interface: they come first and are kept where they can be.
      name_value(v, a ? a->name.str() : i == 0 && is_method ? "self" : v.name());
      if (i) head += ",\n    ";
      head += names_[&v];
      if (i || !is_method || self_type) head += ": " + annotation(a ? a->type : v.type());
      if (a && a->default_value) head += "=" + constant(*a->default_value, a->type);
    }
    const Type* type = returns ? returns : returned(graph);
    head += ") -> " + annotation(type) + ":\n";
    ++indent_;
    size_t first = constants_.statements.size();
    long_constants(graph.top());
    block(graph.top());
    auto one_type = [&](size_t) -> const Type* { return graph.outputs().size() == 1 ? type : nullptr; };
    prepare(graph.outputs(), one_type);
    if (graph.outputs().size() == 1) {
      line("return " + operand(graph.outputs()[0], type));
    } else if (graph.outputs().empty()) {
      line("return None");
    } else {
      std::string all;
      for (const ir::Operand& o : graph.outputs()) all += (all.empty() ? "" : ", ") + operand(o);
      line("return (" + all + ")");
    }
    for (size_t i = first; i < constants_.statements.size(); ++i)
      constants_.statements[i].first += head.size();
    --indent_;
    return head + out_;
  }

 private:
  static const Type* returned(const ir::Graph& graph) {
    std::vector<const Type*> types;
    for (const ir::Operand& o : graph.outputs()) types.push_back(o.type());
    if (types.empty()) return Type::none();
    return types.size() == 1 ? types[0] : Type::tuple(types);
  }
  std::string constant(const tern::Value& v, const Type* type = nullptr) {
    // A string that goes to the table goes there once.
    if (!v.is_string() || is_ascii(v.string())) return constant_text(v, type, constants_);
    std::string& text = beyond_ascii_[v.string()];
    if (text.empty()) text = constant_text(v, type, constants_);
    return text;
  }

  // ---- lines ----

  // Inside a text the nodes it is made of are marked, so that their places are known when it is written:
  // \1 number \2 begins one, \3 ends it.
  std::string marked(const ir::Node& n, const std::string& text) {
    if (!n.origin()) return text;
    origins_.push_back(n.origin());
    return "\1" + std::to_string(origins_.size() - 1) + "\2" + text + "\3";
  }
  static size_t shown_size(std::string_view text) {
    size_t size = 0;
    bool mark = false;
    for (char c : text) {
      if (c == '\1') mark = true;
      size += !mark && c != '\3';
      if (c == '\2') mark = false;
    }
    return size;
  }
  void line(std::string_view text, const ir::Origin* origin = nullptr) {
    out_ += std::string(static_cast<size_t>(indent_) * 2, ' ');
    std::vector<const ir::Origin*> open{origin};
    if (origin) constants_.statements.emplace_back(out_.size(), origin);
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\1') {
        size_t number = 0;
        for (++i; text[i] != '\2'; ++i) number = number * 10 + static_cast<size_t>(text[i] - '0');
        open.push_back(origins_[number]);
        constants_.statements.emplace_back(out_.size(), open.back());
      } else if (text[i] == '\3') {
        open.pop_back();
        if (open.back()) constants_.statements.emplace_back(out_.size(), open.back());
      } else {
        out_ += text[i];
      }
    }
    out_ += "\n";
  }
  bool is_long(std::string_view text) const {
    return shown_size(text) + static_cast<size_t>(indent_) * 2 >= 40;
  }

  // ---- names ----
  const std::string& name_value(const ir::Value& v, std::string_view wanted) {
    std::string base;
    for (char c : wanted) base += isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
    if (base.empty() || (base[0] >= '0' && base[0] <= '9')) base = "_" + base;
    return names_[&v] = unique(base);
  }
  std::string unique(const std::string& base) {
    // What the source itself needs.
    static const std::set<std::string_view> taken = {
        "_",        "torch",     "ops",      "CONSTANTS",  "__torch__", "inf",           "nan",
        "infj",     "nanj",      "aten",     "attribute",  "annotate",  "uninitialized", "unchecked_cast",
        "fork",     "rpc_async", "rpc_sync", "rpc_remote", "Tensor",    "List",          "Dict",
        "Optional", "Tuple",     "Union",    "Final",      "Module",    "getattr",       "range",
        "str",      "int",       "float",    "bool",       "complex",   "isinstance",    "sorted"};
    std::string name = base;
    while (used_.count(name) || taken.count(name) || is_keyword(name))
      name = base + std::to_string(next_[name]++);
    used_.insert(name);
    return name;
  }
  std::string fresh() { return unique("_"); }
  // A second x is x_1 in a graph and x0 here.
  std::string variable_of(const ir::Value& v) const {
    if (!is_named(v)) return "_";
    if (v.node() && v.node()->is("prim::GetAttr")) return v.node()->attribute("name")->string();
    if (const std::string* variable = noted_variable(v)) return *variable;
    ir::Name name = v.key();
    if (name.number && (graph_->find(ir::Name{name.base, 0}) || ir::is_python_reserved(name.base.view())))
      name.number = 0;
    return name.str();
  }
  const std::string& name_of(const ir::Value& v) {
    auto it = names_.find(&v);
    if (it != names_.end()) return it->second;
    std::string wanted = variable_of(v);
    return wanted == "_" ? names_[&v] = fresh() : name_value(v, wanted);
  }
  std::string names_of(const ir::Node& n) {
    std::string all;
    for (ir::Value* v : n.outputs()) all += (all.empty() ? "" : ", ") + name_of(*v);
    return all;
  }

  // ---- expressions that wait for the statement they are part of ----

  static constexpr size_t most_pending = 512;

  static const Type* nothing(size_t) { return nullptr; }

  // In the order in which they happen. A list that stands in an operand is one of its own.
  struct Pending {
    const void* key;         // the value or the operand
    const ir::Value* value;  // nullptr of a list
    std::string text;
  };
  size_t find_pending(const ir::Operand& o) const {
    const void* key = o.is_value() ? static_cast<const void*>(&o.value()) : &o;
    for (size_t i = pending_.size(); i-- > 0;)
      if (pending_[i].key == key) return i;
    return pending_.size();
  }
  size_t first_pending(Span<ir::Operand> operands) const {
    size_t first = pending_.size();
    for (const ir::Operand& o : operands)
      first = std::min(first, o.is_list() ? first_pending(o.list()) : find_pending(o));
    return first;
  }
  // Gives them statements, the first `count`.
  void flush(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      Pending& p = pending_[i];
      std::string name = p.value ? name_of(*p.value) : fresh();
      if (!p.value) list_names_[static_cast<const ir::Operand*>(p.key)] = name;
      line(name + " = " + p.text);
    }
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(count));
  }
  // Before a node is written: lists among its operands become expressions, and what is too long a statement,
  // with all that happens before it. Whether there was any.
  bool prepare(Span<ir::Operand> operands, const tern::Function<const Type*(size_t)>& type_of) {
    bool flushed = false;
    size_t at = first_pending(operands);
    for (size_t i = 0; i < operands.size(); ++i) {
      const ir::Operand& o = operands[i];
      bool list = o.is_list() || (o.is_constant() && o.constant().is_list());
      if (!list) {
        if (size_t k = find_pending(o); k < pending_.size()) at = k + 1;
        continue;
      }
      if (o.is_list()) {
        if (prepare(o.list(), nothing)) {
          flushed = true;
          at = 0;
        }
        if (size_t k = first_pending(o.list()); k < pending_.size()) at = k;
      }
      std::string text = list_text(o, type_of(i));
      at = std::min(at, pending_.size());
      pending_.insert(pending_.begin() + static_cast<ptrdiff_t>(at), {&o, nullptr, std::move(text)});
      ++at;
    }
    size_t upto = 0;
    for (const ir::Operand& o : operands)
      if (size_t k = find_pending(o); k < pending_.size() && is_long(pending_[k].text))
        upto = std::max(upto, k + 1);
    flush(upto);
    return flushed || upto > 0;
  }

  std::string list_text(const ir::Operand& o, const Type* type) {
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
  std::string operand(const ir::Operand& o, const Type* type = nullptr) {
    if (o.is_value())
      if (auto it = constants_of_.find(&o.value()); it != constants_of_.end())
        return said_before(constant(*it->second, type));
    if (size_t k = find_pending(o); k < pending_.size()) {
      std::string text = std::move(pending_[k].text);
      pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(k));
      return text;
    }
    if (o.is_value()) return name_of(o.value());
    if (auto it = list_names_.find(&o); it != list_names_.end()) return it->second;
    if (o.is_list()) return list_text(o, type);
    return said_before(constant(o.constant(), type));
  }
  std::string said_before(std::string text) const {
    auto it = long_constants_.find(text);
    return it == long_constants_.end() ? text : it->second;
  }
  std::string operands(const ir::Node& n, size_t from = 0) {
    std::string s;
    for (size_t i = from; i < n.inputs().size(); ++i) s += (s.empty() ? "" : ", ") + operand(n.input(i));
    return s;
  }

  // ---- nodes ----

  // Calls f with each string that operands are, and the value that holds it if it stands in a node of its
  // own.
  template <class F>
  static void each_string(Span<ir::Operand> operands, F&& f) {
    for (const ir::Operand& o : operands) {
      if (o.is_list()) each_string(o.list(), f);
      if (o.is_constant() && o.constant().is_string()) f(o.constant().string(), nullptr);
      if (o.is_value() && o.value().node() && o.value().node()->is("prim::Constant"))
        if (const tern::Value* v = o.value().node()->attribute("value"); v && v->is_string())
          f(v->string(), &o.value());
    }
  }
  // The variables that held long strings first, where they come up first.
  using FirstHolders = std::unordered_map<std::string, const ir::Value*>;
  void first_holders(const ir::Block& b, FirstHolders& first) {
    auto note = [&](const std::string& s, const ir::Value* holder) { first.emplace(s, holder); };
    for (const ir::Node& n : b) {
      if (n.is("prim::Constant"))
        if (const tern::Value* v = n.attribute("value"); v && v->is_string()) note(v->string(), &n.output());
      each_string(n.inputs(), note);
      for (const ir::Block* inside : n.blocks()) first_holders(*inside, first);
    }
    each_string(b.returns(), note);
  }
  // Long strings and names of functions are said once, before all.
  void long_constants(const ir::Block& b) {
    FirstHolders first;
    first_holders(b, first);
    long_constants(b, first);
  }
  void long_constants(const ir::Block& b, const FirstHolders& first) {
    auto note = [&](const std::string& text, const ir::Value* holder) {
      if (!is_long(text) || long_constants_.count(text)) return;
      std::string name = holder ? name_of(*holder) : fresh();
      line(name + " = " + text);
      long_constants_.emplace(text, name);
    };
    auto note_string = [&](const std::string& s, const ir::Value*) {
      if (is_ascii(s)) note(quoted(s), first.at(s));
    };
    for (const ir::Node& n : b) {
      if (n.is("prim::CallFunction")) note(n.attribute("name")->string(), nullptr);
      each_string(n.inputs(), note_string);
      for (const ir::Block* inside : n.blocks()) long_constants(*inside, first);
    }
    each_string(b.returns(), note_string);
  }

  void block(const ir::Block& b) {
    for (const ir::Node& n : b) node(n);
  }

  void give(const ir::Node& n, const std::string& expression) {
    if (n.num_outputs() == 0) return line(expression, n.origin());
    if (inlined_.count(&n)) {
      if (pending_.size() == most_pending) flush(most_pending);
      pending_.push_back({&n.output(), &n.output(), marked(n, expression)});
      return;
    }
    line(names_of(n) + " = " + expression, n.origin());
  }

  // A task is a function of its own, without arguments.
  void fork_node(const ir::Node& n) {
    std::string name = unique("__forked_function");
    line("def " + name + "():", n.origin());
    ++indent_;
    block(*n.blocks()[0]);
    const Type* t = n.output().type();
    auto type = [&](size_t) -> const Type* { return t->is(TypeKind::future) ? t->element() : nullptr; };
    prepare(n.blocks()[0]->returns(), type);
    line("return " + operand(n.blocks()[0]->returns()[0], type(0)));
    --indent_;
    give(n, "fork(" + name + ")");
  }

  // ---- with ----

  static bool is_enter(const ir::Node& n) { return n.attribute("name")->string() == "__enter__"; }
  // Whether both ends stand in one block; a path that leaves early has an end of its own, and calls are
  // written for all of them.
  static bool writes_with(const ir::Node& n) {
    size_t enters = 0, exits = 0;
    for (const ir::Use& u : n.input(0).value().uses()) {
      if (!u.user->meta("with")) continue;
      if (&u.user->block() != &n.block()) return false;
      ++(is_enter(*u.user) ? enters : exits);
    }
    return enters == exits;
  }
  void with_node(const ir::Node& n) {
    if (!is_enter(n)) {
      if (n.prev()->meta("with") && is_enter(*n.prev())) line("pass");
      --indent_;
      return;
    }
    std::string context = operand(n.input(0));
    line("with " + context + (n.output().has_uses() ? " as " + name_of(n.output()) : "") + ":", n.origin());
    ++indent_;
  }

  void prepare_inputs(const ir::Node& n) {
    Span<ir::Operand> inputs = n.inputs();
    if (n.is("prim::Loop")) inputs = inputs.first(2);
    if (!n.op()) {
      prepare(inputs, nothing);
      return;
    }
    const Schema& s = n.op()->schema();
    prepare(inputs.first(written_of(n).leading), [&](size_t i) { return argument_type(n, s, i); });
  }
  // A list of tensors may stand where one of optional tensors is due, and is written as what it is.
  static const Type* argument_type(const ir::Node& n, const Schema& s, size_t i) {
    const Type* type = Type::of(s.args[i].type);
    bool optional = type->is(TypeKind::list) && type->element()->is(TypeKind::optional);
    return optional && n.meta("plain_list") ? Type::list(type->element()->element()) : type;
  }

  void node(const ir::Node& n) {
    std::string_view kind = n.kind().view();
    if (kind == "prim::Constant") {
      static const tern::Value none{};
      const tern::Value* v = n.attribute("value");
      constants_of_[&n.output()] = v ? v : &none;
      return;
    }
    prepare_inputs(n);
    if (kind == "prim::If") return if_node(n);
    if (kind == "prim::Loop") return loop_node(n);
    if (kind == "prim::fork") return fork_node(n);
    if (kind == "prim::ListConstruct" || kind == "prim::DictConstruct") {
      const Type* t = n.output().type();
      bool list = kind == "prim::ListConstruct";
      std::string s = list ? "[" : "{";
      // What the reader would find out by itself needs no type.
      bool unclear = n.inputs().empty();
      for (size_t i = 0; i < n.inputs().size(); ++i) {
        const Type* element = t->is(TypeKind::list)   ? t->element()
                              : t->is(TypeKind::dict) ? t->element(i % 2)
                                                      : nullptr;
        unclear = unclear || !element || plain(n.input(i).type()) != plain(element) ||
                  element->is(TypeKind::optional) || element->is(TypeKind::union_);
        s += operand(n.input(i), element);
        if (i + 1 < n.inputs().size()) s += !list && i % 2 == 0 ? ": " : ", ";
      }
      s += list ? "]" : "}";
      if (unclear) s = "annotate(" + annotation(t) + ", " + s + ")";
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
      std::string all = operand(n.input(0)), left;
      for (ir::Value* v : n.outputs()) left += name_of(*v) + ", ";
      return line(left + "= " + all, n.origin());
    }
    if (kind == "prim::TupleIndex" || kind == "aten::__getitem__") {
      std::string all = operand(n.input(0));
      if (kind == "prim::TupleIndex" || !is_identifier(all)) all = "(" + all + ")";
      return give(n, all + "[" + operand(n.input(1)) + "]");
    }
    if (kind == "prim::EnumName" || kind == "prim::EnumValue")
      return give(n, "(" + operand(n.input(0)) + (kind == "prim::EnumName" ? ").name" : ").value"));
    if (kind == "prim::GetAttr" || kind == "prim::SetAttr") {
      std::string object = operand(n.input(0));
      const std::string& a = n.attribute("name")->string();
      if (kind == "prim::SetAttr") {
        if (!is_identifier(a)) failf("the attribute '{}' cannot be set in TorchScript source", a);
        return line(object + "." + a + " = " + operand(n.input(1)), n.origin());
      }
      if (is_identifier(a)) return give(n, object + "." + a);
      return give(n, "getattr(" + object + ", " + quoted(a) + ")");
    }
    if (n.meta("with") && writes_with(n)) return with_node(n);
    if (kind == "prim::CallMethod") {
      std::string args;
      std::string object = operand(n.input(0));
      for (size_t i = 1; i < n.inputs().size(); ++i) args += operand(n.input(i)) + ", ";
      return give(n, "(" + object + ")." + n.attribute("name")->string() + "(" + args + ")");
    }
    if (kind == "prim::CallFunction") {
      std::string args;
      for (const ir::Operand& o : n.inputs()) args += operand(o) + ", ";
      return give(n, said_before(n.attribute("name")->string()) + "(" + args + ")");
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
    if (kind == "prim::Print") return line("print(" + operands(n) + ")", n.origin());
    if (kind == "prim::RaiseException") {
      bool plain_kind = n.inputs().size() < 2 || n.input(1).is_none();
      std::string text = operand(n.input(0));
      return line("ops.prim.RaiseException(" + text + (plain_kind ? "" : ", " + operand(n.input(1))) + ")",
                  n.origin());
    }
    if (kind == "prim::tolist")
      return give(n, "annotate(" + annotation(n.output().type()) + ", " + operand(n.input(0)) + ".tolist())");
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
    std::string head = space == "aten" && !is_keyword(name) ? "torch." + name : "ops." + space + "." + name;
    if (kind == "aten::sorted") head = "sorted";
    std::string args;
    auto add = [&](const std::string& text) { args += (args.empty() ? "" : ", ") + text; };
    if (n.op() && is_move(n)) {
      add(operand(n.input(0)));
      add(operand(n.input(3)));
      bool copies = !same(n.input(6).constant(), tern::Value(false));
      if (copies || !same(n.input(5).constant(), tern::Value(false))) {
        add("None");
        add(operand(n.input(5)));
        if (copies) add(operand(n.input(6)));
      }
    } else if (n.op()) {
      const Schema& s = n.op()->schema();
      Written written = written_of(n);
      for (size_t i = 0; i < s.args.size(); ++i) {
        if (i == written.leading) i = s.args.size() - written.outs;
        if (i == s.args.size()) break;
        std::string text = operand(n.input(i), argument_type(n, s, i));
        add(s.args[i].keyword_only ? s.args[i].name.str() + "=" + text : text);
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
      size_t last = n.inputs().size();
      while (last > 0 && !named && is_builtin_default(n, last - 1)) --last;
      for (size_t i = 0; i < last; ++i)
        add(i < positional ? operand(n.input(i))
                           : keywords->items()[i - positional].string() + "=" + operand(n.input(i)));
    }
    return head + "(" + args + ")";
  }
  static bool is_builtin_default(const ir::Node& n, size_t i) {
    if (!n.input(i).is_constant() || n.input(i).constant().is_list()) return false;
    bool found = false;
    for (const Signature& s : signatures(n.kind())) {
      if (s.op || s.args.size() != n.inputs().size() || !could_be(s, n)) continue;
      if (!s.args[i].default_value || !same(n.input(i).constant(), *s.args[i].default_value)) return false;
      found = true;
    }
    return found;
  }
  // Of builtins that share a name, those on lists and those on dicts are told apart by their containers.
  static bool could_be(const Signature& s, const ir::Node& n) {
    for (size_t i = 0; i < s.args.size(); ++i) {
      const Type* type = n.input(i).type();
      if (s.args[i].type.kind == Pattern::list && !type->is(TypeKind::list)) return false;
      if (s.args[i].type.kind == Pattern::dict && !type->is(TypeKind::dict)) return false;
    }
    return true;
  }
  // x.to(device): PyTorch has an operator for it.
  static bool is_move(const ir::Node& n) {
    if (n.qualified() != "aten::to.dtype_layout") return false;
    for (size_t i : {1, 2, 4, 7})
      if (!n.input(i).is_none()) return false;
    return !n.input(3).is_none() && n.input(5).is_constant() && n.input(6).is_constant();
  }
  // Arguments that are the defaults are left out at the end; where results go comes after them.
  struct Written {
    size_t leading, outs;
  };
  static Written written_of(const ir::Node& n) {
    const Schema& s = n.op()->schema();
    size_t outs = 0, last = s.args.size();
    while (last > 0 && s.args[last - 1].keyword_only && !s.args[last - 1].default_value &&
           s.args[last - 1].type.base == BaseType::tensor && !s.args[last - 1].type.accepts_none()) {
      --last;
      ++outs;
    }
    while (last > 0) {
      const SchemaArg& a = s.args[last - 1];
      const ir::Operand& o = n.input(last - 1);
      // A list that was written is written again; one that stands for what was left out is the schema's own.
      bool is_default =
          o.is_constant() &&
          (!o.constant().is_list() || (a.default_value && o.constant().is_same(*a.default_value))) &&
          ((a.default_value && same(o.constant(), *a.default_value)) ||
           (!a.default_value && a.type.accepts_none() && o.is_none() && a.keyword_only));
      if (!is_default) break;
      --last;
    }
    return {last, outs};
  }
  static bool same(const tern::Value& a, const tern::Value& b) { return a.kind() == b.kind() && a.equals(b); }

  void if_node(const ir::Node& n) {
    std::string condition = operand(n.input(0));
    std::string left = names_of(n);
    line("if " + condition + ":", n.origin());
    for (size_t k = 0; k < 2; ++k) {
      const ir::Block& b = *n.blocks()[k];
      if (k == 1) line("else:");
      // Names of the values are known only after the body is printed.
      ++indent_;
      size_t before = out_.size();
      block(b);
      prepare(b.returns(), [&](size_t i) { return n.output(i).type(); });
      std::string right, type;
      for (size_t i = 0; i < n.num_outputs(); ++i) {
        bool clear = k == 1 || joins_to(n, i);
        // One name can be declared, several cannot.
        if (!clear && n.num_outputs() == 1) type = " : " + annotation(n.output().type());
        right += (right.empty() ? "" : ", ") + (clear || n.num_outputs() == 1
                                                    ? operand(b.returns()[i], n.output(i).type())
                                                    : widened(b.returns()[i], n.output(i).type()));
      }
      if (k == 0 && n.num_outputs() == 1 && type.empty() &&
          (n.output().type()->is(TypeKind::optional) || n.output().type()->is(TypeKind::union_)))
        type = " : " + annotation(n.output().type());
      if (!left.empty()) line(left + type + " = " + right);
      if (out_.size() == before) line("pass");
      --indent_;
    }
  }
  static bool needs_word(const ir::Operand& o, const Type* type) {
    if (plain(o.type()) == plain(type) || o.type()->is(TypeKind::any) || type->is(TypeKind::any))
      return false;
    return !(o.is_constant() && o.constant().is_list());
  }
  // A variable that may be None is declared whatever it starts with.
  static bool is_declared(const ir::Operand& o, const Type* type) {
    return type->is(TypeKind::optional) || needs_word(o, type);
  }
  // Whether a reader of the two branches finds the type of the result.
  static bool joins_to(const ir::Node& n, size_t i) {
    const Type* wanted = plain(n.output(i).type());
    const ir::Operand &x = n.blocks()[0]->returns()[i], &y = n.blocks()[1]->returns()[i];
    return (!needs_word(x, wanted) && !needs_word(y, wanted)) || unify(x.type(), y.type()) == wanted;
  }
  // The operand with its type said where the reader could not find it out.
  std::string widened(const ir::Operand& o, const Type* type) {
    std::string s = operand(o, type);
    return needs_word(o, type) ? "annotate(" + annotation(type) + ", " + s + ")" : s;
  }

  void loop_node(const ir::Node& n) {
    const ir::Block& b = *n.blocks()[0];
    const ir::Operand &trip = n.input(0), &start = n.input(1), &next = b.returns()[0];
    LoopForm form = form_of(n);
    for (size_t i = 0; i < n.num_outputs(); ++i) names_[&b.param(i + 1)] = name_of(n.output(i));
    std::string limit = form == LoopForm::conditional ? "" : operand(trip);
    for (size_t i = 0; i < n.num_outputs(); ++i) {
      const Type* type = n.output(i).type();
      std::string declared = is_declared(n.input(i + 2), type) ? ": " + annotation(type) : "";
      line(names_[&n.output(i)] + declared + " = " + operand(n.input(i + 2), type), n.origin());
    }
    std::string left, right;
    auto carry = [&] {
      for (size_t i = 0; i < n.num_outputs(); ++i) {
        const ir::Operand& o = b.returns()[i + 1];
        std::string value = operand(o, n.output(i).type());
        if (o.is_value() && &o.value() == &b.param(i + 1)) continue;
        left += (left.empty() ? "" : ", ") + name_of(n.output(i));
        right += (right.empty() ? "" : ", ") + value;
      }
    };
    auto type_of = [&](size_t i) -> const Type* { return i ? n.output(i - 1).type() : Type::boolean(); };
    auto finish = [&](size_t before) {
      if (!left.empty()) line(left + " = " + right);
      if (out_.size() == before) line("pass");
      --indent_;
    };
    if (form == LoopForm::counted) {
      line("for " + name_of(b.param(0)) + " in range(" + limit + "):", n.origin());
      ++indent_;
      size_t before = out_.size();
      block(b);
      prepare(b.returns(), type_of);
      carry();
      return finish(before);
    }
    if (form == LoopForm::conditional) {
      std::string first = operand(start), going = fresh();
      line(going + " = " + first, n.origin());
      line("while " + going + ":", n.origin());
      ++indent_;
      size_t before = out_.size();
      block(b);
      prepare(b.returns(), type_of);
      left = going;
      right = operand(next);
      carry();
      return finish(before);
    }
    std::string counter = names_[&b.param(0)] = fresh();
    bool always = start.is_constant() && start.constant().is_bool() && start.constant().to_bool();
    line(counter + " = 0", n.origin());
    std::string going = fresh(), first = "torch.gt(" + limit + ", 0)";
    line(going + " = " + (always ? first : "torch.__and__(" + first + ", " + operand(start) + ")"),
         n.origin());
    line("while " + going + ":", n.origin());
    ++indent_;
    block(b);
    std::string more = fresh();
    line(more + " = torch.add(" + counter + ", 1)");
    std::string again = "torch.__and__(torch.lt(" + more + ", " + limit + "), " + operand(next) + ")";
    if (is_long(again)) {
      std::string name = fresh();
      line(name + " = " + again);
      again = name;
    }
    left = going;
    right = again;
    carry();
    left += ", " + counter;
    right += ", " + more;
    finish(0);
  }

  ConstantTable& constants_;
  int indent_;
  NextNumbers& next_;
  const ir::Graph* graph_ = nullptr;
  std::unordered_set<const ir::Node*> inlined_;
  std::string out_;
  std::vector<Pending> pending_;
  std::vector<const ir::Origin*> origins_;
  std::unordered_map<const ir::Operand*, std::string> list_names_;
  std::unordered_map<std::string, std::string> long_constants_, beyond_ascii_;
  std::unordered_map<const ir::Value*, std::string> names_;
  std::unordered_map<const ir::Value*, const tern::Value*> constants_of_;
  std::set<std::string> used_;
};

}  // namespace

size_t ConstantTable::add(const tern::Value& value) {
  for (size_t i = 0; i < items.size(); ++i)
    if (items[i].is_same(value)) return i;
  items.push_back(value);
  return items.size() - 1;
}

namespace {

std::string print(const Function& f, ConstantTable& constants, bool alone, NextNumbers& next) {
  return Printer(constants, f.owner() && !alone ? 1 : 0, next)
      .function(f.graph(), f.name(), f.args(), f.returns(), f.owner() && !f.is_static, !alone);
}

}  // namespace

std::string print_source(const Function& f, ConstantTable& constants, bool alone) {
  NextNumbers next;
  return print(f, constants, alone, next);
}

std::string print_source(const ir::Graph& graph, std::string_view name, ConstantTable& constants) {
  NextNumbers next;
  return Printer(constants, 0, next).function(graph, name, {}, nullptr, false, true);
}

std::string print_source(const ClassType& type, ConstantTable& constants) {
  NextNumbers next;
  std::string s = "class " + std::string(type.short_name());
  if (type.kind == ClassKind::module) s += "(Module)";
  if (type.kind == ClassKind::named_tuple) s += "(NamedTuple)";
  if (type.kind == ClassKind::interface) s += "(Interface)";
  if (type.kind == ClassKind::enumeration) {
    s += "(Enum):\n";
    for (const Attribute& a : type.attributes)
      s += "  " + a.name.str() + " = " +
           constant_text(ir::EnumMember::of(a.value)->value, nullptr, constants) + "\n";
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
    for (auto& [word, hooks] :
         {std::pair{"__forward_pre_hooks__", type.pre_hooks}, std::pair{"__forward_hooks__", type.hooks}}) {
      if (hooks.empty()) continue;
      s += std::string("  ") + word + " = [";
      for (const std::string& h : hooks) s += quoted(h) + ", ";
      s += "]\n";
    }
  }
  for (const Attribute& a : type.attributes) {
    bool fine = is_identifier(a.name.view());
    if (a.role == Role::constant) {
      if (!fine) continue;
      s += "  " + a.name.str() + " : " +
           (type.kind == ClassKind::named_tuple ? annotation(a.type) : "Final[" + annotation(a.type) + "]") +
           " = " + constant_text(a.value, a.type, constants) + "\n";
    } else if (fine) {
      s += "  " + a.name.str() + " : " + annotation(a.type) + "\n";
    } else {
      s += "  __annotations__[" + quoted(a.name.view()) + "] = " + annotation(a.type) + "\n";
    }
  }
  for (const auto& m : type.methods) {
    size_t first = constants.statements.size();
    std::string text = print(*m, constants, false, next);
    for (size_t i = first; i < constants.statements.size(); ++i) constants.statements[i].first += s.size();
    s += text;
  }
  if (type.attributes.empty() && type.methods.empty() && type.kind != ClassKind::module) s += "  pass\n";
  return s;
}

}  // namespace tern::script
