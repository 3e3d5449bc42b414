#include "tests/support/script_values.h"

#include <cmath>
#include <complex>
#include <cstdlib>

#include "tern/script/ast.h"

namespace tern::testing {
namespace {

using V = tern::Value;

std::string number(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", v + 0.0);
  return std::string(text).find_first_of(".einf") == std::string::npos ? std::string(text) + "." : text;
}

std::string show_all(const std::vector<V>& items) {
  std::string text;
  for (const V& i : items) text += (text.empty() ? "" : ", ") + show(i);
  return text;
}

std::string quoted(const std::string& s) {
  char mark = s.find('\'') != std::string::npos && s.find('"') == std::string::npos ? '"' : '\'';
  std::string text(1, mark);
  for (char c : s) {
    if (c == '\n')
      text += "\\n";
    else if (c == '\t')
      text += "\\t";
    else if (c == mark || c == '\\')
      text += {'\\', c};
    else
      text += c;
  }
  return text + mark;
}

}  // namespace

std::string show(const V& v) {
  switch (v.kind()) {
    case ValueKind::tensor: {
      const Tensor& t = v.tensor();
      std::string text = "tensor(" + std::string(name(t.dtype())) + ", " + tern::str(t.sizes()) + ", [";
      Tensor flat = t.contiguous();
      for (int64_t i = 0; i < flat.numel().as_int(); ++i) {
        Dims none;
        text += (i ? ", " : "") + show(V(flat.as_view(none, none, flat.offset() + SymInt(i)).item()));
      }
      return text + "])";
    }
    case ValueKind::float_:
      return number(v.to_double());
    case ValueKind::complex_:
      return "complex(" + number(v.scalar().to_complex().real()) + ", " +
             number(v.scalar().to_complex().imag()) + ")";
    case ValueKind::string:
      return quoted(v.string());
    case ValueKind::list:
      return "[" + show_all(v.items()) + "]";
    case ValueKind::tuple:
      return "(" + show_all(v.items()) + (v.items().size() == 1 ? ",)" : ")");
    case ValueKind::dict: {
      std::string text = "{";
      for (auto& [k, item] : v.entries()) text += (text.size() > 1 ? ", " : "") + show(k) + ": " + show(item);
      return text + "}";
    }
    default:
      return v.str();
  }
}

ScriptCall read_call(script::Unit& unit, const std::string& text, size_t number) {
  ScriptCall call;
  size_t open = text.find('(');
  call.function = text.substr(0, open);
  if (open == std::string::npos) return call;
  std::string inside = text.substr(open + 1, text.rfind(')') - open - 1), part;
  std::vector<std::string> parts;
  int depth = 0;
  char mark = 0;
  for (char c : inside) {
    if (mark)
      mark = c == mark ? 0 : mark;
    else if (c == '"' || c == '\'')
      mark = c;
    if (!mark && (c == '(' || c == '[' || c == '{')) ++depth;
    if (!mark && (c == ')' || c == ']' || c == '}')) --depth;
    if (c == ',' && depth == 0 && !mark) {
      parts.push_back(part);
      part.clear();
    } else {
      part += c;
    }
  }
  if (part.find_first_not_of(' ') != std::string::npos) parts.push_back(part);
  for (size_t i = 0; i < parts.size(); ++i) {
    std::string value = parts[i].substr(parts[i].find_first_not_of(' ')), key;
    size_t word = value.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
    if (word != std::string::npos && word > 0 && value[word] == '=') {
      key = value.substr(0, word);
      value = value.substr(word + 1);
    }
    std::string name = "argument_" + std::to_string(number) + "_" + std::to_string(i);
    auto source = std::make_shared<script::Source>();
    source->text = "def " + name + "():\n    return " + value + "\n";
    source->name = "<arguments>";
    unit.define(source, "");
    V v = unit.find_function(Symbol(name))->call({});
    if (key.empty())
      call.positional.push_back(v);
    else
      call.keywords.emplace_back(Symbol(key), v);
  }
  return call;
}

bool same_values(const std::string& a, const std::string& b) {
  size_t i = 0, j = 0;
  auto starts_number = [](const std::string& s, size_t k) {
    bool digit = std::isdigit(static_cast<unsigned char>(s[k])) ||
                 (s[k] == '-' && k + 1 < s.size() && std::isdigit(static_cast<unsigned char>(s[k + 1])));
    return digit && (k == 0 || !std::isalnum(static_cast<unsigned char>(s[k - 1])));
  };
  while (i < a.size() && j < b.size()) {
    if (starts_number(a, i) && starts_number(b, j)) {
      char *end_a, *end_b;
      double x = std::strtod(a.c_str() + i, &end_a), y = std::strtod(b.c_str() + j, &end_b);
      if (std::fabs(x - y) > 1e-6 + 1e-4 * std::fabs(y)) return false;
      i = static_cast<size_t>(end_a - a.c_str());
      j = static_cast<size_t>(end_b - b.c_str());
    } else if (a[i++] != b[j++]) {
      return false;
    }
  }
  return i == a.size() && j == b.size();
}

}  // namespace tern::testing
