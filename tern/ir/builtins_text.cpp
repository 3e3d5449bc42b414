// Builtins on strings, and what shows or says something: print, warn, raise.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/ir/builtin_families.h"

namespace tern::ir {
namespace {

using namespace builtin;

// ---- strings ----

V format(Args in) {
  need(in, 1, 1000, "format");
  const std::string& text = in[0].string();
  std::string out;
  size_t used = 1;
  for (size_t at = 0; at < text.size();) {
    size_t open = text.find("{}", at);
    out += text.substr(at, open == std::string::npos ? open : open - at);
    if (open == std::string::npos) break;
    if (used >= in.size()) failf(ErrorKind::value, "Too few arguments for format string: {}", text);
    out += text_of(in[used++]);
    at = open + 2;
  }
  if (used < in.size()) failf(ErrorKind::value, "Too many arguments for format string: {}", text);
  return out;
}
V percent_format(Args in) {
  need(in, 1, 1000, "%");
  const std::string& text = in[0].string();
  std::string out;
  size_t used = 1;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%' || at + 1 == text.size()) {
      out += text[at];
      continue;
    }
    char c = text[++at];
    if (c == '%') {
      out += '%';
      continue;
    }
    if (used >= in.size()) failf(ErrorKind::value, "Too few arguments for format string: {}", text);
    const V& v = in[used++];
    if (c == 's')
      out += text_of(v);
    else if (c == 'd' || c == 'i')
      out += std::to_string(integer(v).guard_int(Loc{}));
    else if (c == 'f')
      out += fmt::format("{:.6f}", real(v));
    else if (c == 'e')
      out += fmt::format("{:.6e}", real(v));
    else if (c == 'g')
      out += fmt::format("{:g}", real(v));
    else if (c == 'x')
      out += fmt::format("{:x}", integer(v).guard_int(Loc{}));
    else
      failf(ErrorKind::value, "unsupported format character '{}'", c);
  }
  if (used < in.size()) failf(ErrorKind::value, "Too many arguments for format string: {}", text);
  return out;
}
V upper(Args in) {
  need(in, 1, 1, "upper");
  std::string s = in[0].string();
  for (char& c : s) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return s;
}
V lower(Args in) {
  need(in, 1, 1, "lower");
  std::string s = in[0].string();
  for (char& c : s) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return s;
}
V strip(Args in) {
  need(in, 1, 2, "strip");
  std::string marks = in.size() > 1 && in[1].is_string() ? in[1].string() : " \t\n\r\f\v";
  const std::string& s = in[0].string();
  size_t from = s.find_first_not_of(marks);
  return from == std::string::npos ? std::string() : s.substr(from, s.find_last_not_of(marks) - from + 1);
}
V split(Args in) {
  need(in, 1, 3, "split");
  const std::string& s = in[0].string();
  int64_t most = in.size() > 2 ? integer(in[2]).guard_int(Loc{}) : -1;
  std::vector<V> parts;
  if (in.size() < 2 || in[1].is_none()) {
    for (size_t at = s.find_first_not_of(" \t\n\r\f\v"); at != std::string::npos;) {
      size_t end = s.find_first_of(" \t\n\r\f\v", at);
      parts.emplace_back(s.substr(at, end == std::string::npos ? end : end - at));
      at = end == std::string::npos ? end : s.find_first_not_of(" \t\n\r\f\v", end);
    }
  } else {
    const std::string& mark = in[1].string();
    if (mark.empty()) fail(ErrorKind::value, "empty separator");
    size_t at = 0;
    for (size_t end; (most < 0 || static_cast<int64_t>(parts.size()) < most) &&
                     (end = s.find(mark, at)) != std::string::npos;
         at = end + mark.size())
      parts.emplace_back(s.substr(at, end - at));
    parts.emplace_back(s.substr(at));
  }
  return V::list(std::move(parts), Type::string());
}
V join(Args in) {
  need(in, 2, 2, "join");
  std::string out;
  for (size_t k = 0; k < in[1].items().size(); ++k)
    out += (k ? in[0].string() : "") + in[1].items()[k].string();
  return out;
}
V starts_with(Args in) {
  need(in, 2, 4, "startswith");
  return in[0].string().rfind(in[1].string(), 0) == 0;
}
V ends_with(Args in) {
  need(in, 2, 4, "endswith");
  const std::string &s = in[0].string(), &end = in[1].string();
  return s.size() >= end.size() && s.compare(s.size() - end.size(), end.size(), end) == 0;
}
V replace(Args in) {
  need(in, 3, 4, "replace");
  std::string s = in[0].string();
  const std::string &from = in[1].string(), &to = in[2].string();
  if (from.empty()) return s;
  for (size_t at = 0; (at = s.find(from, at)) != std::string::npos; at += to.size())
    s.replace(at, from.size(), to);
  return s;
}
V find(Args in) {
  need(in, 2, 4, "find");
  size_t at = in[0].string().find(in[1].string());
  return at == std::string::npos ? int64_t{-1} : static_cast<int64_t>(at);
}
V ord(Args in) {
  need(in, 1, 1, "ord");
  if (in[0].string().size() != 1) fail(ErrorKind::type, "ord() expected a character");
  return static_cast<int64_t>(static_cast<unsigned char>(in[0].string()[0]));
}
V chr(Args in) {
  need(in, 1, 1, "chr");
  return std::string(1, static_cast<char>(integer(in[0]).guard_int(Loc{})));
}

// ---- effects ----

V print(Args in) {
  std::string out;
  for (size_t k = 0; k < in.size(); ++k) out += (k ? " " : "") + text_of(in[k]);
  std::fputs((out + "\n").c_str(), stdout);
  return {};
}
V warn(Args in) {
  need(in, 1, 2, "warn");
  std::fputs(("UserWarning: " + text_of(in[0]) + "\n").c_str(), stderr);
  return {};
}
V raise(Args in) {
  need(in, 1, 2, "RaiseException");
  fail(ErrorKind::runtime, text_of(in[0]));
}
V check(Args in) {  // torch._check, assert statements of export
  need(in, 1, 2, "an assertion");
  if (!truth(in[0].is_tensor() ? number(in[0]) : in[0]))
    fail(ErrorKind::runtime, in.size() > 1 ? text_of(in[1]) : "assertion failed");
  return {};
}
V first_of(Args in) {
  need(in, 1, 8, "a cast");
  return in[0];
}
V to_sym_float(Args in) {
  need(in, 1, 1, "sym_float");
  return real(in[0]);
}
constexpr BuiltinEntry table[] = {
    {"sym_float", to_sym_float},
    {"format", format},
    {"percentFormat", percent_format},
    {"upper", upper},
    {"lower", lower},
    {"strip", strip},
    {"split", split},
    {"join", join},
    {"startswith", starts_with},
    {"endswith", ends_with},
    {"replace", replace},
    {"find", find},
    {"ord", ord},
    {"chr", chr},
    {"Print", print, true},
    {"warn", warn, true},
    {"RaiseException", raise, true},
    {"_assert_scalar", check, true},
    {"_assert_async", check, true},
    {"sym_constrain_range", first_of, true},
    {"sym_constrain_range_for_size", first_of, true},
    {"_check", check, true},
};

}  // namespace

Span<const BuiltinEntry> text_builtins() { return table; }

}  // namespace tern::ir
