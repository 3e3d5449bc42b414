// The graph as PyTorch prints it: constants and lists as nodes, no overload names.
#include <algorithm>
#include <cmath>
#include <complex>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ir/enum_member.h"
#include "tern/ir/pass.h"
#include "tern/ir/printing.h"
#include "tern/ir/text.h"

namespace tern::ir {
namespace {

void append_float(std::string& out, double d) {
  if (std::isfinite(d) && std::abs(d) < 1e10 && std::trunc(d) == d && (d == 0 || std::isnormal(d))) {
    out += fmt::format("{}{}.", std::signbit(d) && d == 0 ? "-" : "", static_cast<int64_t>(d));
    return;
  }
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", d);
  out += text;
}

void append_value(std::string& out, const tern::Value& v, bool in_list) {
  switch (v.kind()) {
    case ValueKind::none:
      out += "None";
      break;
    case ValueKind::bool_:
      if (in_list)
        out += v.to_bool() ? "True" : "False";
      else
        out += v.to_bool() ? "1" : "0";
      break;
    case ValueKind::int_:
      out += v.sym().str();
      break;
    case ValueKind::float_:
      append_float(out, v.to_double());
      break;
    case ValueKind::string:
      out += torch_quoted(v.string());
      break;
    case ValueKind::device:
      out += torch_quoted(v.device().str());
      break;
    case ValueKind::tensor:
      if (!v.tensor().is_fake() && !v.tensor().is_symbolic() && !v.tensor().is_nested() &&
          v.tensor().int_numel() == 1) {
        out += '{';
        if (is_floating(v.tensor().dtype())) {
          Tensor number = make_tensor(v.tensor().sizes(), kDouble);
          copy_elements(v.tensor(), number);
          out += fmt::format("{:g}", *number.data_ptr<double>());
        } else {
          append_tensor_items(out, v.tensor(), ", ");
        }
        out += '}';
      } else {
        out += "<Tensor>";
      }
      break;
    case ValueKind::complex_: {
      std::complex<double> c = v.scalar().to_complex();
      append_float(out, c.real());
      out += std::signbit(c.imag()) ? "" : "+";
      append_float(out, c.imag());
      out += 'j';
      break;
    }
    case ValueKind::list:
    case ValueKind::tuple: {
      out += v.is_list() ? '[' : '(';
      for (size_t i = 0; i < v.items().size(); ++i) {
        if (i) out += ", ";
        append_value(out, v.items()[i], true);
      }
      out += v.is_list() ? ']' : ')';
      break;
    }
    case ValueKind::dict: {
      out += '{';
      bool first = true;
      for (auto& [key, item] : v.entries()) {
        if (!first) out += ", ";
        first = false;
        append_value(out, key, true);
        out += ": ";
        append_value(out, item, true);
      }
      out += '}';
      break;
    }
    case ValueKind::object:
      if (const EnumMember* member = EnumMember::of(v))
        out += member->type.str() + "." + member->name;
      else if (const auto* native = dynamic_cast<const NativeObject*>(v.box()))
        out += "<" + std::string(native->class_name()) + ">";
      else
        out += "<object>";
      break;
  }
}

// What a task takes from outside, in the order it comes up.
void captures_of(const Block& task, const Block& block, std::vector<const Value*>& captured) {
  auto note = [&](const Value& v) {
    for (const Block* b = &v.block(); b; b = b->parent() ? &b->parent()->block() : nullptr)
      if (b == &task) return;
    if (std::find(captured.begin(), captured.end(), &v) == captured.end()) captured.push_back(&v);
  };
  for (const Node& n : block) {
    for (const Operand& o : n.inputs()) note(o.value());
    for (const Block* b : n.blocks()) captures_of(task, *b, captured);
  }
  for (const Operand& o : block.returns()) note(o.value());
}

struct TorchPrinter {
  bool origins;
  std::string out = {};
  std::vector<const Block*> tasks = {};

  void value(const Value& v) {
    out += '%';
    append_name(out, v.key());
  }
  void definition(const Value& v) {
    value(v);
    out += " : ";
    out += v.type()->str(TypeStyle::torch);
  }
  template <class Values>
  void params(const Values& values, std::string_view separator) {
    out += '(';
    bool first = true;
    for (const Value* v : values) {
      if (!first) out += separator;
      first = false;
      definition(*v);
    }
    out += "):\n";
  }
  // The graph itself, and after it those of its tasks.
  template <class Values>
  void graph(const Values& inputs_, const Block& b) {
    out += "graph";
    params(inputs_, ",\n      ");
    for (const Node& n : b) node(n, 1);
    out += "  return ";
    inputs(b.return_node());
    out += '\n';
  }
  void all(const Block& top) {
    graph(top.params(), top);
    for (size_t i = 0; i < tasks.size(); ++i) {
      std::vector<const Value*> captured;
      captures_of(*tasks[i], *tasks[i], captured);
      out += fmt::format("with prim::fork_{} = ", i);
      graph(captured, *tasks[i]);
    }
  }
  // The two ends of a with statement are methods that are called here.
  void with_end(const Node& n) {
    bool enters = n.attribute("name")->string() == "__enter__";
    value(n.output());
    out += " : " + (enters ? n.output().type() : Type::tensor())->str(TypeStyle::torch);
    out += enters ? " = prim::Enter(" : " = prim::Exit(";
    value(n.input(0).value());
    out += ")\n";
  }
  void fork(const Node& n) {
    const Block& task = *n.blocks()[0];
    std::vector<const Value*> captured;
    captures_of(task, task, captured);
    definition(n.output());
    out += fmt::format(" = prim::fork_{}(", tasks.size());
    for (size_t i = 0; i < captured.size(); ++i) {
      if (i) out += ", ";
      value(*captured[i]);
    }
    out += ")\n";
    tasks.push_back(&task);
  }
  void inputs(const Node& n) {
    out += '(';
    for (size_t i = 0; i < n.inputs().size(); ++i) {
      if (i) out += ", ";
      value(n.input(i).value());
    }
    out += ')';
  }
  void node(const Node& n, size_t level) {
    out.append(level * 2, ' ');
    if (n.meta("with")) return with_end(n);
    if (n.is("prim::fork") && n.inputs().empty() && n.blocks().size() == 1) return fork(n);
    for (size_t i = 0; i < n.num_outputs(); ++i) {
      if (i) out += ", ";
      definition(n.output(i));
    }
    out += " = ";
    std::string_view kind = n.kind().view();
    const tern::Value* python_name = n.is("prim::PythonOp") ? n.attribute("name") : nullptr;
    if (python_name) {
      const tern::Value* arguments = n.attribute("arguments");
      out += "^" + python_name->string() + "(" + (arguments ? arguments->string() : "") + ")";
    } else {
      size_t colons = kind.find("::");
      out += kind.substr(0, kind.find('.', colons == std::string_view::npos ? 0 : colons));
      if (n.is("prim::isinstance")) {
        out += "[types=[";
        for (const tern::Value& t : n.attribute("types")->items()) {
          if (out.back() != '[') out += ", ";
          bool any = t.string() == "list" || t.string() == "tuple";
          out += any ? t.string() : parse_type(t.string())->str(TypeStyle::torch);
        }
        out += "]]";
      } else if (!n.attributes().empty() && !n.is("prim::CallFunction")) {
        out += '[';
        bool first = true;
        for (auto& [name, v] : n.attributes()) {
          if (!first) out += ", ";
          first = false;
          out += name.view();
          out += '=';
          append_value(out, v, false);
        }
        out += ']';
      }
    }
    inputs(n);
    if (origins && n.origin()) {
      if (const ModuleScope* s = n.scope()) {
        std::string_view path = s->path.view();
        bool complete = path.substr(0, 8) == "__module";
        out += ", scope: ";
        out += complete ? "" : path.empty() ? "__module" : "__module.";
        out += path;
      }
      if (n.origin()->has_place()) out += " # " + n.origin()->place();
    }
    out += '\n';
    for (size_t i = 0; i < n.blocks().size(); ++i) {
      const Block& b = *n.blocks()[i];
      out.append((level + 1) * 2, ' ');
      out += fmt::format("block{}", i);
      params(b.params(), ", ");
      for (const Node& inner : b) node(inner, level + 2);
      out.append((level + 2) * 2, ' ');
      out += "-> ";
      inputs(b.return_node());
      out += '\n';
    }
  }
};

// x.to(device), for which PyTorch has an operator of its own.
bool moves(const Node& n) {
  if (n.qualified() != "aten::to.dtype_layout") return false;
  for (size_t i : {1, 2, 4, 7})
    if (!n.input(i).is_none()) return false;
  return !n.input(3).is_none();
}

// Lists that stand for what a call left out are constants; and what a with statement is left with goes only
// to the method that is called.
void lists_of_schemas(Graph& graph, Block& block) {
  for (Node& n : block) {
    for (Block* b : n.blocks()) lists_of_schemas(graph, *b);
    while (n.meta("with") && n.inputs().size() > 1) n.remove_input(n.inputs().size() - 1);
    if (!n.op()) continue;
    if (moves(n)) {
      n.set_input(1, In(n.input(3)));
      n.set_input(2, In());
      for (size_t i : {7, 4, 3}) n.remove_input(i);
      continue;
    }
    const std::vector<SchemaArg>& args = n.op()->schema().args;
    for (size_t i = 0; i < args.size(); ++i) {
      const Operand& o = n.input(i);
      if (!o.is_constant() || !o.constant().is_list() || !args[i].default_value ||
          !o.constant().is_same(*args[i].default_value))
        continue;
      InsertAt here(n);
      const Type* type = Type::of(args[i].type);
      if (type->is(TypeKind::optional)) type = type->element();
      Node& constant = graph.make("prim::Constant", {}, {&type, 1});
      constant.set_attribute("value", o.constant());
      n.set_input(i, constant.output());
    }
  }
}

// Where nothing is known about the tensors, as in a graph that was compiled, constants are just tensors too.
bool knows_tensors(const Block& block) {
  auto knows = [](const Value* v) {
    return v->type()->is_tensor() && v->type()->dtype() != DType::undefined;
  };
  if (std::any_of(block.params().begin(), block.params().end(), knows)) return true;
  for (const Node& n : block) {
    if (!n.is("prim::Constant") && std::any_of(n.outputs().begin(), n.outputs().end(), knows)) return true;
    for (const Block* b : n.blocks())
      if (knows_tensors(*b)) return true;
  }
  return false;
}
void plain_constants(Block& block) {
  for (Node& n : block) {
    for (Block* b : n.blocks()) plain_constants(*b);
    if (n.is("prim::Constant") && n.output().type()->is_tensor()) n.output().set_type(Type::tensor());
  }
}

// The function that is called is a constant of its own there.
void functions_to_nodes(Graph& graph, Block& block) {
  for (Node& n : block) {
    for (Block* b : n.blocks()) functions_to_nodes(graph, *b);
    const tern::Value* name = n.is("prim::CallFunction") ? n.attribute("name") : nullptr;
    if (!name) continue;
    InsertAt here(n);
    const Type* type[] = {Type::function()};
    Node& constant = graph.make("prim::Constant", {}, type);
    const std::string& full = name->string();
    constant.set_attribute("name", tern::Value(full.substr(full.rfind('.') + 1)));
    n.insert_input(0, constant.output());
  }
}

}  // namespace

std::string torch_text(const Graph& graph, bool origins) {
  auto copy = graph.clone();
  lists_of_schemas(*copy, copy->top());
  lists_to_nodes(*copy);
  constants_to_nodes(*copy);
  functions_to_nodes(*copy, copy->top());
  if (!knows_tensors(copy->top())) plain_constants(copy->top());
  TorchPrinter p{origins};
  p.all(copy->top());
  return std::move(p.out);
}

std::string torch_quoted(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\'':
        out += "\\'";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\a':
        out += "\\a";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\v':
        out += "\\v";
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
        if (static_cast<unsigned char>(c) < 32 || static_cast<unsigned char>(c) >= 127)
          out += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
        else
          out += c;
    }
  }
  return out + "\"";
}

}  // namespace tern::ir
