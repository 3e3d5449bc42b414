// Builtins on strings, and what shows or says something: print, warn, raise.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/base/warning.h"
#include "tern/ir/builtin_families.h"
#include "tern/ir/enum_member.h"

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
  return out;
}
// What PyTorch calls the kind of a value.
std::string_view tag_of(const V& v) {
  switch (v.kind()) {
    case ValueKind::none:
      return "None";
    case ValueKind::string:
      return "String";
    case ValueKind::list:
      return "GenericList";
    case ValueKind::dict:
      return "GenericDict";
    case ValueKind::tuple:
      return "Tuple";
    case ValueKind::tensor:
      return "Tensor";
    case ValueKind::device:
      return "Device";
    default:
      return "Object";
  }
}
V percent_format(Args in) {
  need(in, 1, 1000, "%");
  // Files hand the values in one tuple.
  if (in.size() == 2 && in[1].is_tuple()) {
    std::vector<V> spread{in[0]};
    spread.insert(spread.end(), in[1].items().begin(), in[1].items().end());
    if (spread.size() != 2 || !spread[1].is_tuple()) return percent_format(spread);
  }
  const std::string& text = in[0].string();
  std::string out;
  size_t used = 1;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out += text[at];
      continue;
    }
    if (at + 1 == text.size()) fail(ErrorKind::value, "Incomplete format specifier");
    char c = text[++at];
    if (c == '%') {
      out += '%';
      continue;
    }
    if (used >= in.size()) failf(ErrorKind::value, "Too few arguments for format string: {}", text);
    const V& v = in[used++];
    auto needs_number = [&] {
      if (!v.is_number())
        failf(ErrorKind::value, "%{} requires a number for formatting, but got {}", c, tag_of(v));
    };
    switch (c) {
      case 's':
        out += text_of(v);
        break;
      case 'd':
      case 'i':
        needs_number();
        out += std::to_string(integer(v).guard_int(Loc{}));
        break;
      // PyTorch rounds these to 32 bits.
      case 'f':
      case 'F':
      case 'e':
      case 'E': {
        needs_number();
        double rounded = static_cast<double>(static_cast<float>(real(v)));
        out += c == 'f'   ? fmt::format("{:.6f}", rounded)
               : c == 'F' ? fmt::format("{:.6F}", rounded)
               : c == 'e' ? fmt::format("{:.6e}", rounded)
                          : fmt::format("{:.6E}", rounded);
        break;
      }
      case 'c':
        if (v.is_int())
          out += static_cast<char>(v.to_int());
        else if (v.is_string() && v.string().size() == 1)
          out += v.string();
        else
          failf(ErrorKind::value, "%c requires an int or a string of one character, but got {}", tag_of(v));
        break;
      default:
        failf(ErrorKind::value, "The specifier %{} is not supported in TorchScript format strings", c);
    }
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
constexpr const char* blanks = " \t\n\r\f\v";
std::string marks_in(Args in) { return in.size() > 1 && in[1].is_string() ? in[1].string() : blanks; }
std::string strip_left(const std::string& s, const std::string& marks) {
  size_t from = s.find_first_not_of(marks);
  return from == std::string::npos ? std::string() : s.substr(from);
}
std::string strip_right(const std::string& s, const std::string& marks) {
  size_t to = s.find_last_not_of(marks);
  return to == std::string::npos ? std::string() : s.substr(0, to + 1);
}
V strip(Args in) {
  need(in, 1, 2, "strip");
  return strip_left(strip_right(in[0].string(), marks_in(in)), marks_in(in));
}
V lstrip(Args in) {
  need(in, 1, 2, "lstrip");
  return strip_left(in[0].string(), marks_in(in));
}
V rstrip(Args in) {
  need(in, 1, 2, "rstrip");
  return strip_right(in[0].string(), marks_in(in));
}
bool letter(char c) { return std::isalpha(static_cast<unsigned char>(c)); }
char up(char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); }
char down(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }
V capitalize(Args in) {
  need(in, 1, 1, "capitalize");
  std::string s = in[0].string();
  for (size_t k = 0; k < s.size(); ++k) s[k] = k == 0 ? up(s[k]) : down(s[k]);
  return s;
}
V title(Args in) {
  need(in, 1, 1, "title");
  std::string s = in[0].string();
  bool inside = false;
  for (char& c : s) {
    c = inside ? down(c) : up(c);
    inside = letter(c);
  }
  return s;
}
V swapcase(Args in) {
  need(in, 1, 1, "swapcase");
  std::string s = in[0].string();
  for (char& c : s) c = std::isupper(static_cast<unsigned char>(c)) ? down(c) : up(c);
  return s;
}
template <int (*F)(int)>
V each_is(Args in) {
  need(in, 1, 1, "a test of a string");
  const std::string& s = in[0].string();
  return !s.empty() &&
         std::all_of(s.begin(), s.end(), [](char c) { return F(static_cast<unsigned char>(c)); });
}
template <int (*Is)(int), int (*Not)(int)>
V has_case(Args in) {
  need(in, 1, 1, "a test of a string");
  bool found = false;
  for (char c : in[0].string()) {
    if (Not(static_cast<unsigned char>(c))) return false;
    found = found || Is(static_cast<unsigned char>(c));
  }
  return found;
}
V is_title(Args in) {
  need(in, 1, 1, "istitle");
  bool found = false, inside = false;
  for (char c : in[0].string()) {
    if (letter(c)) {
      if ((std::isupper(static_cast<unsigned char>(c)) != 0) == inside) return false;
      found = true;
    }
    inside = letter(c);
  }
  return found;
}
V is_identifier(Args in) {
  need(in, 1, 1, "isidentifier");
  const std::string& s = in[0].string();
  if (s.empty() || std::isdigit(static_cast<unsigned char>(s[0]))) return false;
  return std::all_of(s.begin(), s.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
}
V is_printable(Args in) {
  need(in, 1, 1, "isprintable");
  const std::string& s = in[0].string();
  return std::all_of(s.begin(), s.end(), [](char c) { return std::isprint(static_cast<unsigned char>(c)); });
}
V split(Args in) {
  need(in, 1, 3, "split");
  const std::string& s = in[0].string();
  int64_t most = in.size() > 2 ? integer(in[2]).guard_int(Loc{}) : -1;
  std::vector<V> parts;
  if (in.size() < 2 || in[1].is_none()) {
    for (size_t at = s.find_first_not_of(blanks); at != std::string::npos;) {
      size_t end = most >= 0 && static_cast<int64_t>(parts.size()) >= most ? std::string::npos
                                                                           : s.find_first_of(blanks, at);
      parts.emplace_back(s.substr(at, end == std::string::npos ? end : end - at));
      at = end == std::string::npos ? end : s.find_first_not_of(blanks, end);
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
V rsplit(Args in) {
  need(in, 1, 3, "rsplit");
  std::string rest = in[0].string(), mark = in.size() > 1 && in[1].is_string() ? in[1].string() : " ";
  int64_t most = in.size() > 2 ? integer(in[2]).guard_int(Loc{}) : -1;
  if (mark.empty()) fail(ErrorKind::value, "empty separator");
  std::vector<V> parts;
  for (size_t at; (most < 0 || static_cast<int64_t>(parts.size()) < most) &&
                  (at = rest.rfind(mark)) != std::string::npos;) {
    parts.emplace_back(rest.substr(at + mark.size()));
    rest.resize(at);
  }
  parts.emplace_back(rest);
  std::reverse(parts.begin(), parts.end());
  return V::list(std::move(parts), Type::string());
}
// PyTorch gives the ends of lines as elements of their own when they are kept.
V split_lines(Args in) {
  need(in, 1, 2, "splitlines");
  const std::string& s = in[0].string();
  bool keep = in.size() > 1 && truth(in[1]);
  std::vector<V> parts;
  size_t at = 0;
  for (size_t k = 0; k < s.size(); ++k) {
    if (std::string_view("\n\r\v\f\x1c\x1d\x1e").find(s[k]) == std::string_view::npos) continue;
    parts.emplace_back(s.substr(at, k - at));
    if (keep) parts.emplace_back(std::string(1, s[k]));
    at = k + 1;
  }
  if (at < s.size()) parts.emplace_back(s.substr(at));
  return V::list(std::move(parts), Type::string());
}
V partition(Args in) {
  need(in, 2, 2, "partition");
  const std::string &s = in[0].string(), &mark = in[1].string();
  size_t at = s.find(mark);
  if (at == std::string::npos) return V::tuple({s, "", ""});
  return V::tuple({s.substr(0, at), mark, s.substr(at + mark.size())});
}
V rpartition(Args in) {
  need(in, 2, 2, "rpartition");
  const std::string &s = in[0].string(), &mark = in[1].string();
  size_t at = s.rfind(mark);
  if (at == std::string::npos) return V::tuple({"", "", s});
  return V::tuple({s.substr(0, at), mark, s.substr(at + mark.size())});
}
// Blanks before, after or on both sides.
V padded(Args in, std::string_view what, int side) {
  need(in, 2, 3, what);
  const std::string& s = in[0].string();
  int64_t width = integer(in[1]).guard_int(Loc{});
  std::string fill = in.size() > 2 && in[2].is_string() ? in[2].string() : " ";
  if (fill.size() != 1) fail(ErrorKind::type, "The fill character must be exactly one character long");
  if (width > (int64_t{1} << 28)) failf(ErrorKind::value, "{}: the text is too long", what);
  int64_t missing = width - static_cast<int64_t>(s.size());
  if (missing <= 0) return s;
  int64_t before = side < 0 ? missing : side > 0 ? 0 : missing / 2 + (missing & width & 1);
  return std::string(static_cast<size_t>(before), fill[0]) + s +
         std::string(static_cast<size_t>(missing - before), fill[0]);
}
V center(Args in) { return padded(in, "center", 0); }
V ljust(Args in) { return padded(in, "ljust", 1); }
V rjust(Args in) { return padded(in, "rjust", -1); }
V zfill(Args in) {
  V filled[] = {in[0], in[1], "0"};
  return padded(filled, "zfill", -1);
}
V expand_tabs(Args in) {
  need(in, 1, 2, "expandtabs");
  int64_t size = in.size() > 1 ? integer(in[1]).guard_int(Loc{}) : 8;
  std::string out;
  size_t column = 0;
  for (char c : in[0].string()) {
    if (c == '\t') {
      size_t n = size > 0 ? static_cast<size_t>(size) - column % static_cast<size_t>(size) : 0;
      if (n > (1 << 20)) fail(ErrorKind::value, "expandtabs: the tabs are too wide");
      out.append(n, ' ');
      column += n;
    } else {
      out += c;
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return out;
}
// The part [start, end) that the last two arguments mean; end -1 is the end.
std::pair<size_t, size_t> window(Args in) {
  int64_t n = static_cast<int64_t>(in[0].string().size());
  int64_t start = in.size() > 2 ? integer(in[2]).guard_int(Loc{}) : 0;
  int64_t end = in.size() > 3 ? integer(in[3]).guard_int(Loc{}) : -1;
  if (start < 0) start = std::max<int64_t>(n + start, 0);
  if (end < 0) end = std::max<int64_t>(n + end + 1, 0);
  start = std::min(start, n), end = std::min(end, n);
  return {static_cast<size_t>(start), static_cast<size_t>(std::max(start, end))};
}
int64_t find_from(Args in, bool last, std::string_view what) {
  need(in, 2, 4, what);
  auto [start, end] = window(in);
  std::string_view part = std::string_view(in[0].string()).substr(start, end - start);
  size_t at = last ? part.rfind(in[1].string()) : part.find(in[1].string());
  return at == std::string_view::npos ? -1 : static_cast<int64_t>(start + at);
}
V rfind(Args in) { return find_from(in, true, "rfind"); }
V rindex(Args in) {
  int64_t at = find_from(in, true, "rindex");
  if (at < 0) fail(ErrorKind::value, "ValueError: substring not found");
  return at;
}
std::string digits(int64_t v, int base, std::string_view prefix) {
  std::string text;
  uint64_t n = v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
  do text += "0123456789abcdef"[n % static_cast<uint64_t>(base)];
  while (n /= static_cast<uint64_t>(base));
  std::reverse(text.begin(), text.end());
  return (v < 0 ? "-" : "") + std::string(prefix) + text;
}
V hex(Args in) {
  need(in, 1, 1, "hex");
  return digits(integer(in[0]).guard_int(Loc{}), 16, "0x");
}
V oct(Args in) {
  need(in, 1, 1, "oct");
  return digits(integer(in[0]).guard_int(Loc{}), 8, "0o");
}
V bin(Args in) {
  need(in, 1, 1, "bin");
  return digits(integer(in[0]).guard_int(Loc{}), 2, "0b");
}
V enum_name(Args in) {
  EnumMember* m = in.empty() ? nullptr : EnumMember::of(in[0]);
  if (!m) fail(ErrorKind::type, "EnumName needs a member of an enum");
  return m->name;
}
V enum_value(Args in) {
  EnumMember* m = in.empty() ? nullptr : EnumMember::of(in[0]);
  if (!m) fail(ErrorKind::type, "EnumValue needs a member of an enum");
  return m->value;
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
  auto [start, end] = window(in);
  return std::string_view(in[0].string()).substr(start, end - start).starts_with(in[1].string());
}
V ends_with(Args in) {
  need(in, 2, 4, "endswith");
  auto [start, end] = window(in);
  return std::string_view(in[0].string()).substr(start, end - start).ends_with(in[1].string());
}
V replace(Args in) {
  need(in, 3, 4, "replace");
  std::string s = in[0].string();
  const std::string &from = in[1].string(), &to = in[2].string();
  int64_t most = in.size() > 3 ? integer(in[3]).guard_int(Loc{}) : -1;
  if (from.empty()) return s;
  std::string out;
  size_t at = 0;
  for (size_t next; most != 0 && (next = s.find(from, at)) != std::string::npos; --most) {
    out += s.substr(at, next - at) + to;
    at = next + from.size();
  }
  return out + s.substr(at);
}
V find(Args in) { return find_from(in, false, "find"); }
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
  tern::warn("UserWarning", text_of(in[0]));
  return {};
}
// Nobody records here how long the block of a record_function takes.
V enter_record(Args in) {
  need(in, 1, 2, "_record_function_enter_new");
  return V::tuple({});
}
V leave_record(Args in) {
  need(in, 1, 1, "_record_function_exit");
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
    {"lstrip", lstrip},
    {"rstrip", rstrip},
    {"capitalize", capitalize},
    {"title", title},
    {"swapcase", swapcase},
    {"isupper", has_case<std::isupper, std::islower>},
    {"islower", has_case<std::islower, std::isupper>},
    {"isdigit", each_is<std::isdigit>},
    {"isdecimal", each_is<std::isdigit>},
    {"isnumeric", each_is<std::isdigit>},
    {"isalpha", each_is<std::isalpha>},
    {"isalnum", each_is<std::isalnum>},
    {"isspace", each_is<std::isspace>},
    {"istitle", is_title},
    {"isidentifier", is_identifier},
    {"isprintable", is_printable},
    {"rsplit", rsplit},
    {"splitlines", split_lines},
    {"partition", partition},
    {"rpartition", rpartition},
    {"center", center},
    {"ljust", ljust},
    {"rjust", rjust},
    {"zfill", zfill},
    {"expandtabs", expand_tabs},
    {"rfind", rfind},
    {"rindex", rindex},
    {"hex", hex},
    {"oct", oct},
    {"bin", bin},
    {"EnumName", enum_name},
    {"EnumValue", enum_value},
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
    {"_record_function_enter", enter_record_of_tensor, true},
    {"_record_function_enter_new", enter_record, true},
    {"_record_function_exit", leave_record, true},
    {"RaiseException", raise, true},
    {"_assert_scalar", check, true},
    {"_assert_async", check, true},
    {"sym_constrain_range", first_of, true},
    {"sym_constrain_range_for_size", first_of, true},
    {"_check", check, true},
};

}  // namespace

V builtin::index_in_text(Args in) {
  int64_t at = find_from(in, false, "index");
  if (at < 0) fail(ErrorKind::value, "ValueError: substring not found");
  return at;
}
V builtin::count_in_text(Args in) {
  auto [start, end] = window(in);
  std::string_view text = std::string_view(in[0].string()).substr(start, end - start), part = in[1].string();
  if (part.empty()) return static_cast<int64_t>(text.size() + 1);
  int64_t n = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

Span<const BuiltinEntry> text_builtins() { return table; }

}  // namespace tern::ir
