// The graph as PyTorch prints it: constants and lists as nodes, no overload names.
#include <cmath>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/ir/cursor.h"
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
      out += quote(v.string());
      break;
    case ValueKind::device:
      out += quote(v.device().str());
      break;
    case ValueKind::tensor:
      if (!v.tensor().is_fake() && !v.tensor().is_symbolic() && v.tensor().int_numel() == 1) {
        out += '{';
        append_tensor_items(out, v.tensor(), ", ");
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
      if (const auto* native = dynamic_cast<const NativeObject*>(v.box()))
        out += "<" + std::string(native->class_name()) + ">";
      else
        out += "<object>";
      break;
  }
}

struct TorchPrinter {
  bool origins;
  std::string out = {};

  void value(const Value& v) {
    out += '%';
    append_name(out, v.key());
  }
  void definition(const Value& v) {
    value(v);
    out += " : ";
    out += v.type()->str(TypeStyle::torch);
  }
  void params(const Block& b) {
    out += '(';
    for (size_t i = 0; i < b.params().size(); ++i) {
      if (i) out += b.parent() ? ", " : ",\n      ";
      definition(b.param(i));
    }
    out += "):\n";
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
      if (!n.attributes().empty() && !n.is("prim::CallFunction")) {
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
      params(b);
      for (const Node& inner : b) node(inner, level + 2);
      out.append((level + 2) * 2, ' ');
      out += "-> ";
      inputs(b.return_node());
      out += '\n';
    }
  }
};

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
  lists_to_nodes(*copy);
  constants_to_nodes(*copy);
  functions_to_nodes(*copy, copy->top());
  TorchPrinter p{origins};
  p.out = "graph";
  p.params(copy->top());
  for (const Node& n : copy->top()) p.node(n, 1);
  p.out += "  return ";
  p.inputs(copy->top().return_node());
  p.out += '\n';
  return std::move(p.out);
}

}  // namespace tern::ir
