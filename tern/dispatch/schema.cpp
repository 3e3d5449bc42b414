#include "tern/dispatch/schema.h"

#include <charconv>
#include <cmath>

#include "tern/base/format.h"

namespace tern {
namespace {

constexpr std::pair<std::string_view, BaseType> base_names[] = {
    {"Tensor", BaseType::tensor},
    {"int", BaseType::int_},
    {"SymInt", BaseType::sym_int},
    {"float", BaseType::float_},
    {"bool", BaseType::bool_},
    {"SymBool", BaseType::sym_bool},
    {"complex", BaseType::complex_},
    {"Scalar", BaseType::scalar},
    {"number", BaseType::scalar},
    {"str", BaseType::string},
    {"ScalarType", BaseType::dtype},
    {"Layout", BaseType::layout},
    {"Device", BaseType::device},
    {"MemoryFormat", BaseType::memory_format},
    {"Generator", BaseType::generator},
    {"Storage", BaseType::storage},
    {"Stream", BaseType::stream},
    {"Dimname", BaseType::dimname},
    {"Any", BaseType::any},
    {"NoneType", BaseType::none},
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Schema schema() {
    Schema s;
    std::string name(word(":"));
    if (peek(':')) {
      expect(':');
      expect(':');
      name += "::" + std::string(word(":"));
    } else if (name.find("::") == std::string::npos) {
      name = "aten::" + name;
    }
    s.name = name;
    if (take('.')) s.overload = word();
    expect('(');
    bool keyword_only = false;
    if (!take(')')) {
      do {
        if (take('*')) {
          keyword_only = true;
          continue;
        }
        if (take("...")) {
          s.vararg = true;
          continue;
        }
        s.args.push_back(argument(true));
        s.args.back().keyword_only = keyword_only;
      } while (take(','));
      expect(')');
    }
    expect('-');
    expect('>');
    if (take("...")) {
      s.varret = true;
    } else if (take('(')) {
      if (!take(')')) {
        do {
          if (take("...")) {
            s.varret = true;
            continue;
          }
          s.returns.push_back(argument(false));
        } while (take(','));
        expect(')');
      }
    } else {
      s.returns.push_back(argument(false));
    }
    space();
    if (at_ != text_.size()) error("text after the schema");
    return s;
  }

 private:
  SchemaArg argument(bool named) {
    SchemaArg a;
    std::string_view base = word(".");
    a.type.base = BaseType::custom;
    for (auto [text, type] : base_names)
      if (text == base) a.type.base = type;
    if (a.type.base == BaseType::custom) {
      if (base == "__torch__" || base.find('.') != std::string_view::npos)
        a.type.name = base;
      else if (base.size() <= 2 && islower(static_cast<unsigned char>(base[0]))) {
        a.type.base = BaseType::type_var;
        a.type.name = base;
      } else if (base == "Dict" || base == "Future" || base == "List" || base == "Tuple" || base == "t") {
        a.type.base = BaseType::any;
        skip_brackets();
      } else {
        a.type.name = base;
      }
    }
    if (take('(')) alias(a.alias);
    for (;;) {
      if (take('?')) {
        if (a.type.list)
          a.type.optional_list = true;
        else
          a.type.optional = true;
      } else if (take('[')) {
        if (!peek(']')) a.type.fixed_size = static_cast<int>(integer());
        expect(']');
        a.type.list = true;
        a.type.element_optional = std::exchange(a.type.optional, false);
      } else if (take('(')) {
        alias(a.alias);
      } else {
        break;
      }
    }
    space();
    if (at_ < text_.size() && (isalpha(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      a.name = word();
    if (named && a.name.empty()) error("expected the argument's name");
    if (named && take('=')) a.default_value = value(a.type);
    return a;
  }

  void alias(AliasInfo& info) {
    if (take('*'))
      info.wildcard = true;
    else
      info.set = word()[0];
    while (take('|')) word();
    if (take('!')) info.write = true;
    if (take("->")) {
      if (take('*'))
        info.wildcard = true;
      else {
        word();
        while (take('|')) word();
      }
    }
    expect(')');
  }

  Value value(const SchemaType& type) {
    space();
    if (take('[')) {
      std::vector<Value> items;
      if (!take(']')) {
        do items.push_back(value({.base = type.base}));
        while (take(','));
        expect(']');
      }
      return Value::list(std::move(items));
    }
    char c = at_ < text_.size() ? text_[at_] : 0;
    if (c == '\'' || c == '"') {
      size_t end = text_.find(c, at_ + 1);
      if (end == std::string_view::npos) error("a string without its end");
      Value v(text_.substr(at_ + 1, end - at_ - 1));
      at_ = end + 1;
      return v;
    }
    size_t start = at_;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')' && text_[at_] != ']') ++at_;
    std::string_view token = text_.substr(start, at_ - start);
    while (!token.empty() && token.back() == ' ') token.remove_suffix(1);
    if (token == "None") return {};
    if (token == "True") return true;
    if (token == "False") return false;
    if (token == "Mean") return 1;
    if (token == "Sum") return 2;
    if (token == "contiguous_format") return MemoryFormat::contiguous;
    if (token == "preserve_format") return MemoryFormat::preserve;
    if (token == "strided") return 0;
    if (token == "long") return DType::int64;
    if (token == "float") return DType::float32;
    if (token == "cpu") return kCPU;
    if (token == "inf") return INFINITY;
    Value v;
    int64_t i;
    if (auto r = std::from_chars(token.data(), token.data() + token.size(), i);
        r.ec == std::errc() && r.ptr == token.data() + token.size()) {
      v = i;
      if (type.base == BaseType::float_) v = static_cast<double>(i);
    } else {
      double d;
      auto f = std::from_chars(token.data(), token.data() + token.size(), d);
      if (f.ec != std::errc() || f.ptr != token.data() + token.size())
        error("a default value that is not understood");
      v = d;
    }
    if (type.list && type.fixed_size) return Value::list(std::vector<Value>(type.fixed_size, v));
    return v;
  }

  void skip_brackets() {
    if (!take('(') && !take('[')) return;
    int depth = 1;
    while (depth && at_ < text_.size()) {
      char c = text_[at_++];
      if (c == '(' || c == '[') ++depth;
      if (c == ')' || c == ']') --depth;
    }
  }

  int64_t integer() {
    space();
    int64_t i = 0;
    auto r = std::from_chars(text_.data() + at_, text_.data() + text_.size(), i);
    if (r.ec != std::errc()) error("expected a number");
    at_ = r.ptr - text_.data();
    return i;
  }
  std::string_view word(std::string_view also = "") {
    space();
    size_t start = at_;
    while (at_ < text_.size() && (isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' ||
                                  (text_[at_] == '.' && also == ".") ||
                                  (text_[at_] == ':' && also == ":" && at_ + 1 < text_.size())))
      ++at_;
    if (at_ == start) error("expected a name");
    return text_.substr(start, at_ - start);
  }
  void space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool peek(char c) {
    space();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    if (!peek(c)) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view s) {
    space();
    if (text_.substr(at_, s.size()) != s) return false;
    at_ += s.size();
    return true;
  }
  void expect(char c) {
    if (!take(c)) error(fmt::format("expected '{}'", c));
  }
  [[noreturn]] void error(std::string_view what) {
    failf(ErrorKind::value, "schema \"{}\", column {}: {}", text_, at_ + 1, what);
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::string default_text(const Value& v, const SchemaType& type) {
  if (type.base == BaseType::memory_format && v.is_int())
    return std::string(name(static_cast<MemoryFormat>(v.to_int())));
  if (type.base == BaseType::string && v.is_string()) return "\"" + v.string() + "\"";
  return v.str();
}

std::string arg_text(const SchemaArg& a) {
  std::string type;
  for (auto [text, base] : base_names)
    if (base == a.type.base) {
      type = text;
      break;
    }
  if (type.empty()) type = a.type.name.str();
  if (a.alias.set)
    type +=
        std::string("(") + a.alias.set + (a.alias.write ? "!" : "") + (a.alias.wildcard ? " -> *" : "") + ")";
  if (a.type.list) {
    if (a.type.element_optional) type += "?";
    type += a.type.fixed_size ? fmt::format("[{}]", a.type.fixed_size) : "[]";
    if (a.type.optional_list) type += "?";
  } else if (a.type.optional) {
    type += "?";
  }
  if (!a.name.empty()) type += " " + a.name.str();
  if (a.default_value) type += "=" + default_text(*a.default_value, a.type);
  return type;
}

}  // namespace

Schema parse_schema(std::string_view text) { return Parser(text).schema(); }

std::string SchemaType::str() const {
  SchemaArg a;
  a.type = *this;
  return arg_text(a);
}

std::string Schema::qualified() const {
  return overload.empty() ? name.str() : name.str() + "." + overload.str();
}
std::string Schema::fx_name() const {
  std::string text = name.str();
  if (size_t at = text.find("::"); at != std::string::npos) text.replace(at, 2, ".");
  return text + "." + (overload.empty() ? "default" : overload.str());
}
std::string Schema::str() const {
  std::string text = qualified() + "(";
  bool keyword_only = false;
  for (size_t i = 0; i < args.size(); ++i) {
    if (i) text += ", ";
    if (args[i].keyword_only && !keyword_only) {
      text += "*, ";
      keyword_only = true;
    }
    text += arg_text(args[i]);
  }
  text += ") -> ";
  if (returns.size() == 1) return text + arg_text(returns[0]);
  text += "(";
  for (size_t i = 0; i < returns.size(); ++i) text += (i ? ", " : "") + arg_text(returns[i]);
  return text + ")";
}
int Schema::find(Symbol arg) const {
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].name == arg) return static_cast<int>(i);
  return -1;
}
bool Schema::mutates() const {
  for (const SchemaArg& a : args)
    if (a.alias.write) return true;
  return false;
}

}  // namespace tern
