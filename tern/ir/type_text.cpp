// Types as text and back; the cursor all readers of this room share.
// Interning of types, their text in three styles, and the parser of all of them.
#include "tern/ir/type.h"

#include <mutex>
#include <unordered_map>

#include "tern/base/arena.h"
#include "tern/base/format.h"
#include "tern/dispatch/schema.h"
#include "tern/ir/cursor.h"
#include "tern/sym/shape_env.h"
#include "tern/tensor/arg.h"

namespace tern::ir {

namespace {

void append_dims(std::string& out, Span<const SymInt> dims) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i) out += ", ";
    if (dims[i].is_int()) {
      if (dims[i].as_int() < 0)
        out += '*';
      else
        fmt::format_to(std::back_inserter(out), "{}", dims[i].as_int());
    } else {
      out += dims[i].str();
    }
  }
}

void append_tensor(std::string& out, const Type& t) {
  if (t.dtype() != DType::undefined) out += script_name(t.dtype());
  if (t.dtype() == DType::undefined || !t.has_sizes()) out += "Tensor";
  bool open = t.has_sizes();
  bool any = open && t.sizes().size() > 0;
  if (open) {
    out += '(';
    append_dims(out, t.sizes());
    if (t.has_strides()) {
      out += ", strides=[";
      append_dims(out, t.strides());
      out += ']';
    }
  }
  auto separate = [&] {
    out += any ? ", " : open ? "" : "(";
    any = open = true;
  };
  if (t.requires_grad()) {
    separate();
    out += *t.requires_grad() ? "requires_grad=1" : "requires_grad=0";
  }
  if (t.device()) {
    separate();
    out += "device=" + t.device()->str();
  }
  if (open) out += ')';
}

// `inside` a dict or a union PyTorch's graphs say the name of a named tuple, elsewhere its fields.
void append_list(std::string& out, Span<const Type* const> elements, TypeStyle style, bool inside);

void append_type(std::string& out, const Type& t, TypeStyle style, bool inside = false) {
  bool annotation = style == TypeStyle::annotation;
  bool torch = style == TypeStyle::torch;
  switch (t.kind()) {
    case TypeKind::tensor:
      if (annotation)
        out += "Tensor";
      else
        append_tensor(out, t);
      break;
    case TypeKind::int_:
      out += "int";
      break;
    case TypeKind::float_:
      out += "float";
      break;
    case TypeKind::bool_:
      out += "bool";
      break;
    case TypeKind::complex_:
      out += "complex";
      break;
    case TypeKind::string:
      out += "str";
      break;
    case TypeKind::none:
      out += "NoneType";
      break;
    case TypeKind::device:
      out += "Device";
      break;
    case TypeKind::generator:
      out += "Generator";
      break;
    case TypeKind::number:
      out += annotation ? "number" : "Scalar";
      break;
    case TypeKind::any:
      out += "Any";
      break;
    case TypeKind::function:
      out += "Function";
      break;
    case TypeKind::optional:
      if (annotation) out += "Optional[";
      append_type(out, *t.element(), style, inside);
      out += annotation ? "]" : "?";
      break;
    case TypeKind::list:
      if (annotation) out += "List[";
      append_type(out, *t.element(), style, inside);
      out += annotation ? "]" : "[]";
      break;
    case TypeKind::dict:
      out += annotation ? "Dict[" : "Dict(";
      append_list(out, t.elements(), style, true);
      out += annotation ? ']' : ')';
      break;
    case TypeKind::future:
      out += "Future[";
      append_type(out, *t.element(), style, inside);
      out += ']';
      break;
    case TypeKind::union_:
      out += torch ? "Union(" : "Union[";
      append_list(out, t.elements(), style, true);
      out += torch ? ')' : ']';
      break;
    case TypeKind::tuple:
      if (annotation) {
        if (!t.name().empty()) {
          out += t.name().view();
          break;
        }
        out += "Tuple[";
        if (t.elements().empty()) out += "()";
        append_list(out, t.elements(), style, inside);
        out += ']';
        break;
      }
      if (torch && inside && !t.name().empty()) {
        out += t.name().view();
        break;
      }
      if (!t.fields().empty() || !t.name().empty()) {
        out += "NamedTuple";
        if (style == TypeStyle::native) out += "<" + t.name().str() + ">";
        out += '(';
        for (size_t i = 0; i < t.elements().size(); ++i) {
          out += i ? ", " : "";
          out += t.fields()[i].view();
          out += " : ";
          append_type(out, *t.element(i), style, inside);
        }
        out += ')';
        break;
      }
      out += '(';
      append_list(out, t.elements(), style, inside);
      out += ')';
      break;
    case TypeKind::class_:
      out += t.name().view();
      break;
    case TypeKind::interface:
      if (style == TypeStyle::native)
        out += "Interface<" + t.name().str() + ">";
      else if (style == TypeStyle::torch)  // without where it is defined
        out += "InterfaceType<" + t.name().str().substr(t.name().view().rfind('.') + 1) + ">";
      else
        out += t.name().view();
      break;
    case TypeKind::enum_:
      out += annotation ? t.name().str() : "Enum<" + t.name().str() + ">";
      break;
  }
}

void append_list(std::string& out, Span<const Type* const> elements, TypeStyle style, bool inside) {
  for (size_t i = 0; i < elements.size(); ++i) {
    if (i) out += ", ";
    append_type(out, *elements[i], style, inside);
  }
}

}  // namespace

std::string Type::str(TypeStyle style) const {
  std::string out;
  append_type(out, *this, style);
  return out;
}

// ---- reading ----

namespace {

SymInt read_dim(Cursor& c, ShapeEnv* shapes) {
  c.blanks();
  if (c.take("*")) return unknown_dim;
  size_t start = c.at;
  int depth = 0;
  while (!c.done() && (depth || (c.peek() != ',' && c.peek() != ')' && c.peek() != ']'))) {
    depth += c.peek() == '(' ? 1 : c.peek() == ')' ? -1 : 0;
    if (c.peek() == '\n') break;
    ++c.at;
  }
  std::string_view text = c.text.substr(start, c.at - start);
  bool digits = !text.empty();
  for (char d : text) digits &= Cursor::is_digit(d);
  if (digits) {
    int64_t value = 0;
    for (char d : text)
      if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
          __builtin_add_overflow(value, d - '0', &value))
        c.fail_here("the size is too large");
    if (value >= int64_t{1} << 62) c.fail_here("the size is too large");
    return value;
  }
  if (text.empty()) c.fail_here("expected a size");
  if (!shapes)
    c.fail_here("the size '" + std::string(text) + "' is symbolic, but no ShapeEnv was given to make it in");
  try {
    return shapes->parse(text);
  } catch (const Error& e) {
    c.fail_here(e.message());
  }
}

Dims read_dims_in_brackets(Cursor& c, ShapeEnv* shapes) {
  Dims dims;
  c.expect("[");
  if (c.take("]")) return dims;
  do dims.push_back(read_dim(c, shapes));
  while (c.take(","));
  c.expect("]");
  return dims;
}

// After "Float" or "Tensor": "(2, 3, strides=[3, 1], requires_grad=0, device=cpu)", or nothing.
const Type* read_tensor(Cursor& c, DType dtype, bool sizes_follow, ShapeEnv* shapes) {
  TensorInfo info{.dtype = dtype};
  if (sizes_follow) info.sizes = Dims();
  if (c.peek() == '(') {
    ++c.at;
    bool only_facts = !sizes_follow && (c.starts("requires_grad=") || c.starts("device="));
    if (!only_facts) info.sizes = Dims();
    if (!c.take(")")) {
      do {
        if (c.take("strides=")) {
          info.strides = read_dims_in_brackets(c, shapes);
          if (info.strides->size() != info.sizes->size()) c.fail_here("as many strides as sizes are needed");
        } else if (c.take("requires_grad=")) {
          std::string_view w = c.word();
          if (w != "0" && w != "1") c.fail_here("requires_grad is 0 or 1");
          info.requires_grad = w == "1";
        } else if (c.take("device=")) {
          size_t start = c.at;
          while (Cursor::is_name(c.peek()) || c.peek() == ':') ++c.at;
          auto device = Device::parse(c.text.substr(start, c.at - start));
          if (!device) c.fail_here("expected a device such as cpu or cuda:0");
          info.device = *device;
        } else {
          if (!info.sizes) info.sizes = Dims();
          info.sizes->push_back(read_dim(c, shapes));
        }
      } while (c.take(","));
      c.expect(")");
    }
  }
  c.take("[Undefined]");
  return Type::tensor(info);
}

const Type* tuple_of(std::vector<const Type*>& elements) { return Type::tuple(elements); }

const Type* read_primary(Cursor& c, ShapeEnv* shapes) {
  c.blanks();
  if (c.take("(")) {
    std::vector<const Type*> elements;
    if (!c.take(")")) {
      do elements.push_back(read_type(c, shapes));
      while (c.take(","));
      c.expect(")");
    }
    return tuple_of(elements);
  }
  std::string_view word = c.dotted();
  if (word.empty()) c.fail_here("expected a type");
  if (word == "Tensor" || word == "torch.Tensor") return read_tensor(c, DType::undefined, false, shapes);
  if (word == "int" || word == "SymInt") return Type::integer();
  if (word == "float") return Type::floating();
  if (word == "bool") return Type::boolean();
  if (word == "complex") return Type::complex();
  if (word == "str") return Type::string();
  if (word == "NoneType" || word == "None") return Type::none();
  if (word == "Device" || word == "torch.device") return Type::device_type();
  if (word == "Generator") return Type::generator();
  if (word == "number" || word == "Scalar") return Type::number();
  if (word == "Any") return Type::any();
  if (word == "Function") return Type::function();
  char next = c.peek();
  if (next == '[' && c.peek(1) != ']') {
    auto bracketed = [&] {
      std::vector<const Type*> elements;
      c.expect("[");
      if (!(c.take("()") && c.take("]"))) {
        do elements.push_back(read_type(c, shapes));
        while (c.take(","));
        c.expect("]");
      }
      return elements;
    };
    auto of_size = [&](size_t n) {
      auto elements = bracketed();
      if (elements.size() != n) c.fail_here(fmt::format("{} takes {} type{}", word, n, n == 1 ? "" : "s"));
      return elements;
    };
    if (word == "List") return Type::list(of_size(1)[0]);
    if (word == "Optional") return Type::optional(of_size(1)[0]);
    if (word == "Future") return Type::future(of_size(1)[0]);
    if (word == "Dict") {
      auto both = of_size(2);
      return Type::dict(both[0], both[1]);
    }
    if (word == "Tuple") {
      auto elements = bracketed();
      return tuple_of(elements);
    }
    if (word == "Union") return Type::union_of(bracketed());
    c.fail_here(fmt::format("'{}' takes no type in brackets", word));
  }
  if (word == "Dict" && next == '(') {
    c.expect("(");
    const Type* key = read_type(c, shapes);
    c.expect(",");
    const Type* value = read_type(c, shapes);
    c.expect(")");
    return Type::dict(key, value);
  }
  if (word == "Union" && next == '(') {
    c.expect("(");
    std::vector<const Type*> elements;
    do elements.push_back(read_type(c, shapes));
    while (c.take(","));
    c.expect(")");
    return Type::union_of(elements);
  }
  if (word == "Future" && next == '(') {
    c.expect("(");
    const Type* element = read_type(c, shapes);
    c.expect(")");
    return Type::future(element);
  }
  if (word == "NamedTuple" && (next == '(' || next == '<')) {
    Symbol name;
    if (c.take("<")) {
      name = Symbol(c.dotted());
      c.expect(">");
    }
    std::vector<Symbol> fields;
    std::vector<const Type*> elements;
    c.expect("(");
    if (!c.take(")")) {
      do {
        c.blanks();
        fields.push_back(Symbol(c.word()));
        c.expect(":");
        elements.push_back(read_type(c, shapes));
      } while (c.take(","));
      c.expect(")");
    }
    return Type::named_tuple(name, fields, elements);
  }
  if ((word == "Enum" || word == "Interface" || word == "InterfaceType") && next == '<') {
    c.expect("<");
    Symbol name(c.dotted());
    c.expect(">");
    return word == "Enum" ? Type::enum_named(name) : Type::interface_named(name);
  }
  if (word.find('.') == std::string_view::npos) {
    if (auto dtype = parse_dtype(word); dtype && word[0] >= 'A' && word[0] <= 'Z')
      return read_tensor(c, *dtype, next == '(', shapes);
    if (word.size() > 6 && word.substr(word.size() - 6) == "Tensor")
      if (auto dtype = parse_dtype(word.substr(0, word.size() - 6)))
        return read_tensor(c, *dtype, false, shapes);
  }
  return Type::class_named(Symbol(word));
}

}  // namespace

const Type* read_type(Cursor& c, ShapeEnv* shapes) {
  Nested nested(c);
  const Type* t = read_primary(c, shapes);
  int postfixes = 0;
  while (true) {
    if (c.starts("[]")) {
      c.at += 2;
      t = Type::list(t);
    } else if (c.peek() == '?') {
      ++c.at;
      t = Type::optional(t);
    } else {
      return t;
    }
    if (++postfixes > 64) c.fail_here("nested too deeply");
  }
}

const Type* parse_type(std::string_view text, ShapeEnv* shapes) {
  Cursor c{text, 0, "type"};
  const Type* t = read_type(c, shapes);
  c.blanks();
  if (!c.done()) c.fail_here("unexpected text after the type");
  return t;
}

std::string_view Cursor::word() {
  size_t start = at;
  while (at < text.size() && is_name(text[at])) ++at;
  return text.substr(start, at - start);
}
std::string_view Cursor::dotted() {
  size_t start = at;
  while (at < text.size() && (is_name(text[at]) || (text[at] == '.' && at > start && is_name(peek(1))))) ++at;
  return text.substr(start, at - start);
}
std::string Cursor::quoted() {
  blanks();
  char mark = peek();
  if (mark != '"' && mark != '\'') fail_here("expected a string");
  ++at;
  std::string out;
  while (true) {
    if (done()) fail_here("the string does not end");
    char c = text[at++];
    if (c == mark) return out;
    if (c != '\\') {
      out += c;
      continue;
    }
    char e = peek();
    ++at;
    if (e == 'n')
      out += '\n';
    else if (e == 't')
      out += '\t';
    else if (e == 'r')
      out += '\r';
    else if (e == 'x' || (e >= '0' && e <= '7')) {
      int base = e == 'x' ? 16 : 8, code = 0, digits = 0;
      if (e != 'x') --at;
      for (; digits < (base == 16 ? 2 : 3); ++digits, ++at) {
        char d = peek();
        int value = d >= '0' && d <= '9'   ? d - '0'
                    : d >= 'a' && d <= 'f' ? d - 'a' + 10
                    : d >= 'A' && d <= 'F' ? d - 'A' + 10
                                           : 99;
        if (value >= base) break;
        code = code * base + value;
      }
      if (!digits) fail_here("a digit is missing after the backslash");
      out += static_cast<char>(code);
    } else {
      out += e;
    }
  }
}
void Cursor::fail_here(std::string_view message) const {
  size_t line = 1, start = 0, end = std::min(at, text.size());
  for (size_t i = 0; i < end; ++i)
    if (text[i] == '\n') {
      ++line;
      start = i + 1;
    }
  size_t stop = text.find('\n', start);
  std::string_view shown = text.substr(start, stop == std::string_view::npos ? stop : stop - start);
  if (shown.size() > 160) shown = shown.substr(0, 160);
  failf(ErrorKind::value, "{} (line {}, column {} of the {}): {}", message, line, end - start + 1, what,
        shown);
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 32 || c == 127) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace tern::ir
