// One node as an expression or a statement, and how the arguments of calls are written.
#include "tern/base/format.h"
#include "tern/script/source_printer.h"
#include "tern/script/source_text.h"

namespace tern::script {

using ir::Type;
using ir::TypeKind;

void SourcePrinter::prepare_inputs(const ir::Node& n) {
  Span<ir::Operand> inputs = n.inputs();
  if (n.is("prim::Loop")) inputs = inputs.first(2);
  if (!n.op()) {
    prepare(inputs, nothing);
    return;
  }
  const Schema& s = n.op()->schema();
  prepare(inputs.first(written_of(n).leading), [&](size_t i) { return argument_type(n, s, i); });
}

const Type* SourcePrinter::argument_type(const ir::Node& n, const Schema& s, size_t i) {
  const Type* type = Type::of(s.args[i].type);
  bool optional = type->is(TypeKind::list) && type->element()->is(TypeKind::optional);
  return optional && n.meta("plain_list") ? Type::list(type->element()->element()) : type;
}

void SourcePrinter::node(const ir::Node& n) {
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
      s += (s.empty() ? "" : ", ") +
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
    const std::string& method = n.attribute("name")->string();
    if (n.meta("hook"))
      return give(n, n.input(0).type()->name().str() + "." + method + "(" + object + ", " + args + ")");
    return give(n, "(" + object + ")." + method + "(" + args + ")");
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
    for (const tern::Value& t : n.attribute("types")->items()) {
      bool any = t.string() == "list" || t.string() == "tuple";
      types += (types.empty() ? "" : ", ") + (any ? t.string() : annotation(ir::parse_type(t.string())));
    }
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

std::string SourcePrinter::call(const ir::Node& n) {
  std::string_view kind = n.kind().view();
  size_t colons = kind.find("::");
  std::string space(kind.substr(0, colons)), name(kind.substr(colons + 2));
  name = name.substr(0, name.find('.'));
  if (space == "aten" &&
      (name == "sym_size" || name == "sym_numel" || name == "sym_stride" || name == "sym_storage_offset"))
    name = name.substr(4);
  std::string head = space == "aten" && !is_keyword(name) ? "torch." + name : "ops." + space + "." + name;
  if (kind == "aten::sorted") head = "sorted";
  if (kind == "aten::grad" || kind == "aten::backward") head = "torch.autograd." + name;
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

bool SourcePrinter::is_builtin_default(const ir::Node& n, size_t i) {
  if (!n.input(i).is_constant() || n.input(i).constant().is_list()) return false;
  bool found = false;
  for (const Signature& s : signatures(n.kind())) {
    if (s.op || s.args.size() != n.inputs().size() || !could_be(s, n)) continue;
    if (!s.args[i].default_value || !same(n.input(i).constant(), *s.args[i].default_value)) return false;
    found = true;
  }
  return found;
}

bool SourcePrinter::could_be(const Signature& s, const ir::Node& n) {
  for (size_t i = 0; i < s.args.size(); ++i) {
    const Type* type = n.input(i).type();
    if (s.args[i].type.kind == Pattern::list && !type->is(TypeKind::list)) return false;
    if (s.args[i].type.kind == Pattern::dict && !type->is(TypeKind::dict)) return false;
  }
  return true;
}

bool SourcePrinter::is_move(const ir::Node& n) {
  if (n.qualified() != "aten::to.dtype_layout") return false;
  for (size_t i : {1, 2, 4, 7})
    if (!n.input(i).is_none()) return false;
  return !n.input(3).is_none() && n.input(5).is_constant() && n.input(6).is_constant();
}

SourcePrinter::Written SourcePrinter::written_of(const ir::Node& n) {
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

}  // namespace tern::script
