// The native text: TorchScript's grammar with inline constants.
#include <fmt/format.h>

#include <complex>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ir/cursor.h"
#include "tern/ir/printing.h"
#include "tern/ir/text.h"

namespace tern::ir {
namespace {

void append_constant(std::string& out, const tern::Value& v, size_t max_tensor);

struct Printer {
  const PrintOptions& options;
  std::string out = {};

  void indent(int level) { out.append(static_cast<size_t>(level) * 2, ' '); }

  void value(const Value& v) {
    out += '%';
    append_name(out, v.key());
  }
  void definition(const Value& v) {
    value(v);
    out += " : ";
    append_type(*v.type());
  }
  // Types repeat from line to line; the last text is kept.
  void append_type(const Type& t) {
    if (last_type != &t) {
      last_type = &t;
      last_text = t.str();
    }
    out += last_text;
  }
  void operand(const Operand& o) {
    if (o.is_value()) return value(o.value());
    if (o.is_list()) {
      out += '[';
      bool first = true;
      for (const Operand& item : o.list()) {
        if (!first) out += ", ";
        first = false;
        operand(item);
      }
      out += ']';
      return;
    }
    append_constant(out, o.constant(), options.max_tensor);
  }

  void params(const Block& b) {
    out += '(';
    for (size_t i = 0; i < b.params().size(); ++i) {
      if (i) out += b.parent() ? ", " : ",\n      ";
      definition(b.param(i));
    }
    out += ')';
  }
  void returns(const Block& b) {
    out += '(';
    bool first = true;
    for (const Operand& o : b.returns()) {
      if (!first) out += ", ";
      first = false;
      operand(o);
    }
    out += ")\n";
  }

  void node(const Node& n, int level) {
    indent(level);
    for (size_t i = 0; i < n.num_outputs(); ++i) {
      if (i) out += ", ";
      definition(n.output(i));
    }
    out += " = ";
    if (n.op())
      append_qualified(out, *n.op());
    else
      out += n.kind().view();
    if (!n.attributes().empty()) {
      out += '[';
      bool first = true;
      for (auto& [name, v] : n.attributes()) {
        if (!first) out += ", ";
        first = false;
        out += name.view();
        out += '=';
        append_constant(out, v, options.max_tensor);
      }
      out += ']';
    }
    out += '(';
    const Schema* schema = n.op() ? &n.op()->schema() : nullptr;
    for (size_t i = 0; i < n.inputs().size(); ++i) {
      if (i) out += ", ";
      if (schema && schema->args[i].keyword_only) {
        out += schema->args[i].name.view();
        out += '=';
      }
      operand(n.input(i));
    }
    out += ')';
    if (n.label()) {
      out += ", name: ";
      append_name(out, n.label()->key());
    }
    if (!n.all_meta().empty()) {
      out += ", meta: {";
      bool first = true;
      for (auto& [key, v] : n.all_meta()) {
        if (!first) out += ", ";
        first = false;
        out += quote(key.view()) + ": ";
        append_constant(out, v, options.max_tensor);
      }
      out += '}';
    }
    if (options.origins) append_origin(out, n.origin());
    out += '\n';
    for (size_t i = 0; i < n.blocks().size(); ++i) {
      const Block& b = *n.blocks()[i];
      indent(level + 1);
      fmt::format_to(std::back_inserter(out), "block{}", i);
      params(b);
      out += ":\n";
      for (const Node& inner : b) node(inner, level + 2);
      indent(level + 2);
      out += "-> ";
      returns(b);
    }
  }

  const Type* last_type = nullptr;
  std::string last_text = {};
};

}  // namespace

std::string print(const Graph& graph, const PrintOptions& options) {
  Printer p{options};
  p.out = "graph";
  p.params(graph.top());
  p.out += ":\n";
  for (const Node& n : graph.top()) p.node(n, 1);
  p.out += "  return ";
  p.returns(graph.top());
  return std::move(p.out);
}

std::string print(const Node& node, const PrintOptions& options) {
  Printer p{options};
  if (node.is_return()) {
    p.out = node.parent() ? "-> " : "return ";
    p.returns(node.block());
  } else {
    p.node(node, 0);
  }
  p.out.pop_back();
  return std::move(p.out);
}

void append_name(std::string& out, Name name) {
  out += name.base.view();
  if (!name.number) return;
  if (!name.base.empty()) out += '_';
  fmt::format_int digits(name.number - 1);
  out.append(digits.data(), digits.size());
}

void append_qualified(std::string& out, const Op& op) {
  const Schema& s = op.schema();
  out += s.name.view();
  if (!s.overload.empty()) {
    out += '.';
    out += s.overload.view();
  }
}

void append_origin(std::string& out, const Origin* origin) {
  if (!origin) return;
  if (origin->scope) {
    out += ", scope: ";
    out += origin->scope->str();
  }
  if (origin->has_place())
    fmt::format_to(std::back_inserter(out), " # {}:{}:{}", origin->file.view(), origin->line, origin->column);
}

// ---- constants ----

void append_tensor_items(std::string& out, const Tensor& t, std::string_view separator) {
  int64_t n = t.int_numel();
  auto put = [&](auto number) {
    if constexpr (std::is_integral_v<decltype(number)>) {
      out += std::to_string(number);
    } else {
      std::string text = fmt::format("{}", number);
      out += text;
    }
  };
  DType wide = is_complex(t.dtype())                            ? kComplexDouble
               : t.dtype() == kDouble || is_floating(t.dtype()) ? kDouble
                                                                : kLong;
  Tensor copy = make_tensor(t.sizes(), wide);
  copy_elements(t, copy);
  for (int64_t i = 0; i < n; ++i) {
    if (i) out += separator;
    if (wide == kLong) {
      put(copy.data_ptr<int64_t>()[i]);
    } else if (wide == kDouble) {
      double v = copy.data_ptr<double>()[i];
      if (t.dtype() == kDouble)
        put(v);
      else
        put(static_cast<float>(v));
    } else {
      std::complex<double> c = copy.data_ptr<std::complex<double>>()[i];
      put(c.real());
      out += separator;
      put(c.imag());
    }
  }
}

namespace {

void append_tensor(std::string& out, const Tensor& t, size_t max_tensor) {
  TensorInfo info{.dtype = t.dtype(), .sizes = Dims(t.sizes())};
  if (t.is_nested()) info.sizes.reset();
  out += Type::tensor(info)->str();
  if (t.is_fake() || t.is_symbolic()) {
    out += "<no data>";
  } else if (t.is_nested() || static_cast<size_t>(t.int_numel()) > max_tensor) {
    out += "<...>";
  } else {
    out += '{';
    append_tensor_items(out, t, ", ");
    out += '}';
  }
}

void append_constant(std::string& out, const tern::Value& v, size_t max_tensor) {
  auto sequence = [&](char open, char close) {
    out += open;
    const auto& items = v.items();
    for (size_t i = 0; i < items.size(); ++i) {
      if (i) out += ", ";
      append_constant(out, items[i], max_tensor);
    }
    if (open == '(' && items.size() == 1) out += ',';
    out += close;
  };
  switch (v.kind()) {
    case ValueKind::none:
      out += "None";
      break;
    case ValueKind::bool_:
      out += v.to_bool() ? "True" : "False";
      break;
    case ValueKind::int_:
      if (v.sym().is_symbolic()) {
        out += "sym(" + quote(v.sym().str()) + ")";
      } else {
        fmt::format_int digits(v.sym().as_int());
        out.append(digits.data(), digits.size());
      }
      break;
    case ValueKind::float_:
      out += python_float(v.to_double());
      break;
    case ValueKind::complex_: {
      std::complex<double> c = v.scalar().to_complex();
      out += "complex(" + python_float(c.real()) + ", " + python_float(c.imag()) + ")";
      break;
    }
    case ValueKind::device:
      out += "device(\"" + v.device().str() + "\")";
      break;
    case ValueKind::string:
      out += quote(v.string());
      break;
    case ValueKind::tensor:
      append_tensor(out, v.tensor(), max_tensor);
      break;
    case ValueKind::list:
      if (v.items().empty() && v.element_type())
        out += "empty(" + v.element_type()->str() + ")";
      else
        sequence('[', ']');
      break;
    case ValueKind::tuple:
      sequence('(', ')');
      break;
    case ValueKind::dict: {
      out += '{';
      bool first = true;
      for (auto& [key, item] : v.entries()) {
        if (!first) out += ", ";
        first = false;
        append_constant(out, key, max_tensor);
        out += ": ";
        append_constant(out, item, max_tensor);
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

}  // namespace

std::string constant_text(const tern::Value& value, size_t max_tensor) {
  std::string out;
  append_constant(out, value, max_tensor);
  return out;
}

}  // namespace tern::ir
