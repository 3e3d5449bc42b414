#include "tern/io/json.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "tern/base/format.h"
#include "tern/base/utf8.h"

namespace tern::io {

namespace {

constexpr int kMaxDepth = 1000;
constexpr uint32_t kSmallObject = 12;  // up to here a scan is as fast as a table

uint64_t hash_text(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325;
  for (unsigned char c : text) h = (h ^ c) * 0x100000001b3;
  return h ^ (h >> 32);
}

uint32_t table_size(uint32_t members) { return std::bit_ceil(members) * 2; }

}  // namespace

// ---- parser

struct JsonParser {
  JsonDoc& doc;
  const char* const start;
  const char* const end;
  const char* p;
  std::vector<uint32_t> scratch;  // children of the containers that are still open

  [[noreturn]] void bad(std::string_view what) const { bad_at(p, what); }
  [[noreturn]] void bad_at(const char* at, std::string_view what) const {
    size_t line = 1;
    const char* line_start = start;
    for (const char* c = start; c < at; ++c)
      if (*c == '\n') ++line, line_start = c + 1;
    failf(ErrorKind::file, "{}: {} (line {}, column {})", doc.label_, what, line, at - line_start + 1);
  }
  void skip_space() {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) ++p;
  }
  uint32_t add(JsonKind kind, uint32_t parent) {
    if (doc.nodes_.size() >= 0xFFFFFFFE) bad("more than 4 billion values");
    doc.nodes_.push_back({.kind = kind, .parent = parent, .integer = 0});
    return static_cast<uint32_t>(doc.nodes_.size() - 1);
  }
  std::string_view key_text(uint32_t id) const { return {doc.nodes_[id].text, doc.nodes_[id].size}; }

  void document() {
    if (end - p >= 3 && std::memcmp(p, "\xEF\xBB\xBF", 3) == 0) p += 3;
    skip_space();
    value(0, 0);
    skip_space();
    if (p != end) bad("text follows the value");
  }

  void value(uint32_t parent, int depth) {
    if (p == end) bad("the text ends where a value is expected");
    switch (*p) {
      case '{':
        return object(parent, depth);
      case '[':
        return array(parent, depth);
      case '"':
        return string(parent);
      case 't':
        return word("true", JsonKind::boolean, parent, true, 0);
      case 'f':
        return word("false", JsonKind::boolean, parent, false, 0);
      case 'n':
        return word("null", JsonKind::null, parent, false, 0);
      case 'N':
        return word("NaN", JsonKind::real, parent, false, std::numeric_limits<double>::quiet_NaN());
      case 'I':
        return word("Infinity", JsonKind::real, parent, false, std::numeric_limits<double>::infinity());
      default:
        return number(parent);
    }
  }

  void word(std::string_view text, JsonKind kind, uint32_t parent, bool flag, double real) {
    if (static_cast<size_t>(end - p) < text.size() || std::string_view(p, text.size()) != text)
      bad("not a JSON value");
    p += text.size();
    JsonDoc::Node& node = doc.nodes_[add(kind, parent)];
    node.flag = flag;
    if (kind == JsonKind::real) node.real = real;
  }

  void number(uint32_t parent) {
    const char* from = p;
    if (p < end && *p == '-') ++p;
    if (p < end && *p == 'I')
      return word("Infinity", JsonKind::real, parent, false, -std::numeric_limits<double>::infinity());
    const char* digits = p;
    while (p < end && *p >= '0' && *p <= '9') ++p;
    if (p == digits) bad_at(from, "not a JSON value");
    if (*digits == '0' && p - digits > 1) bad_at(from, "a number starts with a zero");
    bool integral = true;
    auto some_digits = [&] {
      const char* at = p;
      while (p < end && *p >= '0' && *p <= '9') ++p;
      if (p == at) bad_at(from, "the number is not complete");
    };
    if (p < end && *p == '.') {
      integral = false;
      ++p;
      some_digits();
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
      integral = false;
      ++p;
      if (p < end && (*p == '+' || *p == '-')) ++p;
      some_digits();
    }
    JsonDoc::Node& node = doc.nodes_[add(integral ? JsonKind::integer : JsonKind::real, parent)];
    if (integral) {
      int64_t v = 0;
      if (std::from_chars(from, p, v).ec == std::errc()) {
        node.integer = v;
        return;
      }
      if (p - from > 4096) bad_at(from, "the integer is too long");
      node.kind = JsonKind::real;
      node.flag = true;
      node.text = from;
      node.size = static_cast<uint32_t>(p - from);
      return;
    }
    double v = 0;
    if (std::from_chars(from, p, v).ec == std::errc::result_out_of_range) {
      // from_chars leaves v alone: it is either too large or too small, which the digits decide as strtod
      // does.
      v = std::strtod(std::string(from, p).c_str(), nullptr);
    }
    node.real = v;
  }

  // To the next quote, backslash or control character; non-zero when a byte above ASCII was passed.
  uint64_t skip_plain() {
    constexpr uint64_t ones = 0x0101010101010101, tops = ones << 7;
    uint64_t high = 0;
    for (; end - p >= 8; p += 8) {
      uint64_t word;
      std::memcpy(&word, p, 8);
      // In each: the top bit of a byte that is zero (or below 0x20), exact up to the first such byte.
      uint64_t quote = word ^ (ones * '"'), back = word ^ (ones * '\\');
      uint64_t stop = ((quote - ones) & ~quote) | ((back - ones) & ~back) | ((word - ones * 0x20) & ~word);
      if ((stop & tops) != 0) break;
      high |= word & tops;
    }
    while (p < end && *p != '"' && *p != '\\' && static_cast<unsigned char>(*p) >= 0x20)
      high |= static_cast<unsigned char>(*p++) & 0x80;
    return high;
  }

  void string(uint32_t parent) {
    const char* open = p++;
    const char* from = p;
    uint64_t high = skip_plain();
    if (p == end) bad_at(open, "the string does not end");
    if (*p == '"') {
      if (high) check_utf8(from, p);
      finish_string(add(JsonKind::string, parent), from, static_cast<size_t>(p - from), open);
      ++p;
      return;
    }
    std::string out(from, p);
    const char* chunk = from;
    while (true) {
      if (p == end) bad_at(open, "the string does not end");
      unsigned char c = static_cast<unsigned char>(*p);
      if (c == '"') break;
      if (c < 0x20) bad("a control character stands in a string");
      if (c == '\\') {
        check_utf8(chunk, p);
        ++p;
        escape(out, open);
        chunk = p;
      } else {
        const char* run = p;
        skip_plain();
        out.append(run, p);
      }
    }
    check_utf8(chunk, p);
    ++p;
    char* copy = static_cast<char*>(doc.text_.allocate(out.size() + 1, 1));
    std::memcpy(copy, out.c_str(), out.size() + 1);
    finish_string(add(JsonKind::string, parent), copy, out.size(), open);
  }

  void finish_string(uint32_t id, const char* text, size_t size, const char* open) {
    if (size > 0xFFFFFFFF) bad_at(open, "a string is longer than 4 GB");
    doc.nodes_[id].text = text;
    doc.nodes_[id].size = static_cast<uint32_t>(size);
  }

  void escape(std::string& out, const char* open) {
    if (p == end) bad_at(open, "the string does not end");
    char c = *p++;
    switch (c) {
      case '"':
      case '\\':
      case '/':
        out += c;
        return;
      case 'b':
        out += '\b';
        return;
      case 'f':
        out += '\f';
        return;
      case 'n':
        out += '\n';
        return;
      case 'r':
        out += '\r';
        return;
      case 't':
        out += '\t';
        return;
      case 'u':
        break;
      default:
        bad_at(p - 1, fmt::format("'\\{}' is not an escape", c));
    }
    uint32_t code = hex4();
    if (code >= 0xD800 && code < 0xDC00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
      const char* before = p;
      p += 2;
      uint32_t low = hex4();
      if (low >= 0xDC00 && low < 0xE000)
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      else
        p = before;
    }
    // A lone surrogate stays one, as in Python: it is written back as the same escape.
    append_utf8(out, code);
  }

  uint32_t hex4() {
    uint32_t code = 0;
    if (end - p < 4) bad("an escape is cut short");
    auto [to, error] = std::from_chars(p, p + 4, code, 16);
    if (error != std::errc() || to != p + 4) bad("an escape is not hexadecimal");
    p += 4;
    return code;
  }

  void check_utf8(const char* from, const char* to) const;

  void array(uint32_t parent, int depth) {
    if (depth >= kMaxDepth) bad(fmt::format("values are nested deeper than {}", kMaxDepth));
    const char* open = p++;
    uint32_t self = add(JsonKind::array, parent);
    size_t base = scratch.size();
    skip_space();
    if (p < end && *p == ']') {
      ++p;
    } else {
      while (true) {
        skip_space();
        scratch.push_back(static_cast<uint32_t>(doc.nodes_.size()));
        value(self, depth + 1);
        skip_space();
        if (p == end) bad_at(open, "the array does not end");
        if (*p == ']') break;
        if (*p != ',') bad("',' or ']' is expected");
        ++p;
      }
      ++p;
    }
    close(self, base);
  }

  void object(uint32_t parent, int depth) {
    if (depth >= kMaxDepth) bad(fmt::format("values are nested deeper than {}", kMaxDepth));
    const char* open = p++;
    uint32_t self = add(JsonKind::object, parent);
    size_t base = scratch.size();
    skip_space();
    if (p < end && *p == '}') {
      ++p;
    } else {
      while (true) {
        skip_space();
        if (p == end) bad_at(open, "the object does not end");
        if (*p != '"') bad("a key in quotes is expected");
        scratch.push_back(static_cast<uint32_t>(doc.nodes_.size()));
        string(self);
        skip_space();
        if (p == end || *p != ':') bad("':' is expected");
        ++p;
        skip_space();
        value(self, depth + 1);
        skip_space();
        if (p == end) bad_at(open, "the object does not end");
        if (*p == '}') break;
        if (*p != ',') bad("',' or '}' is expected");
        ++p;
      }
      ++p;
    }
    close(self, base);
    index(self, open);
  }

  void close(uint32_t self, size_t base) {
    doc.nodes_[self].first = doc.children_.size();
    doc.nodes_[self].size = static_cast<uint32_t>(scratch.size() - base);
    doc.children_.insert(doc.children_.end(), scratch.begin() + static_cast<ptrdiff_t>(base), scratch.end());
    scratch.resize(base);
  }

  void index(uint32_t self, const char* open) {
    JsonDoc::Node& node = doc.nodes_[self];
    const uint32_t* keys = doc.children_.data() + node.first;
    auto duplicate = [&](uint32_t key) {
      bad_at(open, fmt::format("the object has two members called \"{}\"", key_text(key)));
    };
    if (node.size <= kSmallObject) {
      for (uint32_t i = 1; i < node.size; ++i)
        for (uint32_t k = 0; k < i; ++k)
          if (key_text(keys[i]) == key_text(keys[k])) duplicate(keys[i]);
      return;
    }
    if (doc.tables_.size() > 0xF0000000) bad("the document has too many members");
    uint32_t slots = table_size(node.size);
    size_t at = doc.tables_.size();
    doc.tables_.resize(at + slots, 0);
    node.table = static_cast<uint32_t>(at + 1);
    for (uint32_t i = 0; i < node.size; ++i) {
      std::string_view text = key_text(keys[i]);
      uint32_t slot = static_cast<uint32_t>(hash_text(text)) & (slots - 1);
      uint32_t probes = 0;
      while (uint32_t other = doc.tables_[at + slot]) {
        if (key_text(other) == text) duplicate(keys[i]);
        // A half-full table never needs this many: the names were chosen to collide.
        if (++probes > 4096) bad_at(open, "the names of an object's members collide on purpose");
        slot = (slot + 1) & (slots - 1);
      }
      doc.tables_[at + slot] = keys[i];  // node 0 is the root and never a key
    }
  }
};

void JsonParser::check_utf8(const char* from, const char* to) const {
  const unsigned char* s = reinterpret_cast<const unsigned char*>(from);
  const unsigned char* stop = reinterpret_cast<const unsigned char*>(to);
  while (s < stop) {
    if (*s < 0x80) {
      ++s;
      continue;
    }
    int more = *s >= 0xF0 ? 3 : *s >= 0xE0 ? 2 : 1;
    bool good = *s >= 0xC2 && *s <= 0xF4 && stop - s > more;
    for (int i = 1; good && i <= more; ++i) good = (s[i] & 0xC0) == 0x80;
    if (good && *s == 0xE0) good = s[1] >= 0xA0;
    if (good && *s == 0xED) good = s[1] < 0xA0;
    if (good && *s == 0xF0) good = s[1] >= 0x90;
    if (good && *s == 0xF4) good = s[1] < 0x90;
    if (!good) bad_at(reinterpret_cast<const char*>(s), "the text is not UTF-8");
    s += more + 1;
  }
}

Shared<const JsonDoc> parse_json(Blob text, std::string label) {
  Shared<JsonDoc> doc(new JsonDoc);
  doc->label_ = std::move(label);
  doc->source_ = std::move(text);
  const char* start = reinterpret_cast<const char*>(doc->source_.bytes.data());
  size_t size = doc->source_.bytes.size();
  doc->nodes_.reserve(size / 8);
  doc->children_.reserve(size / 16);
  JsonParser{*doc, start, start + size, start, {}}.document();
  return doc;
}

Shared<const JsonDoc> parse_json(std::string_view text, std::string label) {
  return parse_json(own(std::string(text)), std::move(label));
}

// ---- access

std::string_view name_of(JsonKind kind) {
  constexpr std::string_view names[] = {"null",     "a boolean", "an integer", "a number",
                                        "a string", "an array",  "an object"};
  return names[static_cast<int>(kind)];
}

JsonKind Json::kind() const { return doc_->nodes_[id_].kind; }

void Json::fail_here(std::string_view what) const {
  failf(ErrorKind::file, "{}: {}: {}", doc_->label_, path(), what);
}
void Json::expected(std::string_view what) const {
  fail_here(fmt::format("expected {}, found {}", what, name_of(kind())));
}

bool Json::as_bool() const {
  if (kind() != JsonKind::boolean) expected("a boolean");
  return doc_->nodes_[id_].flag;
}

int64_t Json::as_int() const {
  const auto& node = doc_->nodes_[id_];
  if (node.kind == JsonKind::real && node.flag) fail_here("the integer does not fit 64 bits");
  if (node.kind != JsonKind::integer) expected("an integer");
  return node.integer;
}

double Json::as_double() const {
  const auto& node = doc_->nodes_[id_];
  if (node.kind == JsonKind::real)
    return node.flag ? std::strtod(std::string(node.text, node.size).c_str(), nullptr) : node.real;
  if (node.kind == JsonKind::integer) return static_cast<double>(node.integer);
  if (node.kind == JsonKind::string) {
    std::string_view text = as_string();
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
    if (text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  }
  expected("a number");
}

std::string_view Json::as_string() const {
  const auto& node = doc_->nodes_[id_];
  if (node.kind != JsonKind::string) expected("a string");
  return {node.text, node.size};
}

size_t Json::size() const {
  if (!is_array() && !is_object()) expected("an array or object");
  return doc_->nodes_[id_].size;
}

Json Json::operator[](size_t i) const {
  if (!is_array()) expected("an array");
  const auto& node = doc_->nodes_[id_];
  if (i >= node.size) fail_here(fmt::format("there is no element {}: the array has {}", i, node.size));
  return {doc_, doc_->children_[node.first + i]};
}

std::optional<Json> Json::find(std::string_view wanted) const {
  if (!is_object()) expected("an object");
  const auto& node = doc_->nodes_[id_];
  auto text = [&](uint32_t id) { return std::string_view(doc_->nodes_[id].text, doc_->nodes_[id].size); };
  if (node.table == 0) {
    for (uint32_t i = 0; i < node.size; ++i) {
      uint32_t id = doc_->children_[node.first + i];
      if (text(id) == wanted) return Json(doc_, id + 1);
    }
    return std::nullopt;
  }
  uint32_t slots = table_size(node.size), slot = static_cast<uint32_t>(hash_text(wanted)) & (slots - 1);
  while (uint32_t id = doc_->tables_[node.table - 1 + slot]) {
    if (text(id) == wanted) return Json(doc_, id + 1);
    slot = (slot + 1) & (slots - 1);
  }
  return std::nullopt;
}

Json Json::operator[](std::string_view wanted) const {
  if (auto found = find(wanted)) return *found;
  std::string have;
  for (size_t i = 0; i < size() && i < 8; ++i) have += fmt::format("{}\"{}\"", i ? ", " : "", key(i));
  if (size() > 8) have += ", ...";
  fail_here(fmt::format("there is no member \"{}\" (there is {})", wanted, have.empty() ? "none" : have));
}

std::string_view Json::key(size_t i) const {
  if (!is_object()) expected("an object");
  const auto& node = doc_->nodes_[id_];
  if (i >= node.size) fail_here(fmt::format("there is no member {}: the object has {}", i, node.size));
  const auto& key = doc_->nodes_[doc_->children_[node.first + i]];
  return {key.text, key.size};
}

Json Json::value(size_t i) const {
  if (!is_object()) return (*this)[i];
  const auto& node = doc_->nodes_[id_];
  if (i >= node.size) fail_here(fmt::format("there is no member {}: the object has {}", i, node.size));
  return {doc_, doc_->children_[node.first + i] + 1};
}

Json Json::Iterator::operator*() const { return json_->value(i_); }

std::string Json::path() const {
  std::vector<uint32_t> chain;
  for (uint32_t id = id_; id != 0; id = doc_->nodes_[id].parent) chain.push_back(id);
  std::string out = "$";
  for (size_t k = chain.size(); k-- > 0;) {
    const auto& parent = doc_->nodes_[doc_->nodes_[chain[k]].parent];
    if (parent.kind == JsonKind::object) {
      const auto& key = doc_->nodes_[chain[k] - 1];
      out.append(".").append(key.text, key.size);
      continue;
    }
    // Elements are numbered in the order of the text, so their ids ascend.
    uint32_t low = 0, high = parent.size;
    while (low < high) {
      uint32_t middle = (low + high) / 2;
      if (doc_->children_[parent.first + middle] < chain[k])
        low = middle + 1;
      else
        high = middle;
    }
    out += fmt::format("[{}]", low);
  }
  return out;
}

// ---- writer

std::string python_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[40];
  auto done = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific);
  std::string_view text(digits, static_cast<size_t>(done.ptr - digits));
  size_t e = text.find('e');
  int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  if (exponent >= -4 && exponent < 16) {
    done = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed);
    std::string out(digits, done.ptr);
    return out.find('.') == out.npos ? out + ".0" : out;
  }
  return std::string(text);
}

void JsonWriter::new_line() {
  out_ += '\n';
  out_.append(levels_.size() * static_cast<size_t>(style_.indent), ' ');
}

void JsonWriter::before_value() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (levels_.empty()) {
    TERN_ASSERT(out_.empty());
    return;
  }
  TERN_ASSERT(levels_.back().bracket == '[');
  if (levels_.back().any) out_ += style_.indent < 0 && style_.spaces ? ", " : ",";
  levels_.back().any = true;
  if (style_.indent >= 0) new_line();
}

void JsonWriter::open(char bracket) {
  before_value();
  out_ += bracket;
  levels_.push_back({bracket, false});
}

void JsonWriter::close(char bracket) {
  TERN_ASSERT(!after_key_ && !levels_.empty() && levels_.back().bracket == (bracket == '}' ? '{' : '['));
  bool any = levels_.back().any;
  levels_.pop_back();
  if (any && style_.indent >= 0) new_line();
  out_ += bracket;
}

void JsonWriter::key(std::string_view name) {
  TERN_ASSERT(!after_key_ && !levels_.empty() && levels_.back().bracket == '{');
  if (levels_.back().any) out_ += style_.indent < 0 && style_.spaces ? ", " : ",";
  levels_.back().any = true;
  if (style_.indent >= 0) new_line();
  quote(name);
  out_ += style_.indent >= 0 || style_.spaces ? ": " : ":";
  after_key_ = true;
}

void JsonWriter::null() { raw("null"); }
void JsonWriter::value(bool v) { raw(v ? "true" : "false"); }

void JsonWriter::value(int64_t v) {
  before_value();
  char digits[24];
  out_.append(digits, std::to_chars(digits, digits + sizeof digits, v).ptr);
}

void JsonWriter::value(uint64_t v) {
  before_value();
  char digits[24];
  out_.append(digits, std::to_chars(digits, digits + sizeof digits, v).ptr);
}

void JsonWriter::value(double v) {
  before_value();
  if (std::isfinite(v)) {
    out_ += python_repr(v);
    return;
  }
  std::string_view text = std::isnan(v) ? "NaN" : v < 0 ? "-Infinity" : "Infinity";
  if (style_.nonfinite_as_strings) out_ += '"';
  out_ += text;
  if (style_.nonfinite_as_strings) out_ += '"';
}

void JsonWriter::value(std::string_view v) {
  before_value();
  quote(v);
}

void JsonWriter::value(Json v) {
  switch (v.kind()) {
    case JsonKind::null:
      return null();
    case JsonKind::boolean:
      return value(v.as_bool());
    case JsonKind::integer:
      return value(v.as_int());
    case JsonKind::real: {
      const auto& node = v.doc_->nodes_[v.id_];
      return node.flag ? raw({node.text, node.size}) : value(node.real);
    }
    case JsonKind::string:
      return value(v.as_string());
    case JsonKind::array:
      begin_array();
      for (Json item : v) value(item);
      return end_array();
    case JsonKind::object:
      begin_object();
      for (size_t i = 0; i < v.size(); ++i) {
        key(v.key(i));
        value(v.value(i));
      }
      return end_object();
  }
}

void JsonWriter::raw(std::string_view json) {
  before_value();
  out_ += json;
}

void JsonWriter::quote(std::string_view text) {
  constexpr char hex[] = "0123456789abcdef";
  auto unit = [&](uint32_t u) {
    const char escape[] = {'\\', 'u', hex[u >> 12 & 15], hex[u >> 8 & 15], hex[u >> 4 & 15], hex[u & 15]};
    out_.append(escape, 6);
  };
  out_ += '"';
  const unsigned char* s = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned char* stop = s + text.size();
  while (s < stop) {
    unsigned char c = *s;
    if (c == '"' || c == '\\') {
      out_ += '\\';
      out_ += static_cast<char>(c);
      ++s;
    } else if (c >= 0x20 && c < 0x7F) {
      const unsigned char* from = s;
      while (s < stop && *s >= 0x20 && *s < 0x7F && *s != '"' && *s != '\\') ++s;
      out_.append(reinterpret_cast<const char*>(from), static_cast<size_t>(s - from));
    } else if (c < 0x80) {
      constexpr std::string_view from = "\b\f\n\r\t", to = "bfnrt";
      if (size_t k = from.find(static_cast<char>(c)); k != from.npos) {
        out_ += '\\';
        out_ += to[k];
      } else if (c == 0x7F) {
        out_ += '\x7f';
      } else {
        unit(c);
      }
      ++s;
    } else {
      int more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : 1;
      bool good = c >= 0xC2 && c <= 0xF4 && stop - s > more;
      for (int i = 1; good && i <= more; ++i) good = (s[i] & 0xC0) == 0x80;
      if (!good) fail(ErrorKind::value, "json: a string to be written is not UTF-8");
      uint32_t code = c & (0x3Fu >> more);
      for (int i = 1; i <= more; ++i) code = code << 6 | (s[i] & 63u);
      bool surrogate = code >= 0xD800 && code < 0xE000;
      if (!style_.ascii && !surrogate) {
        out_.append(reinterpret_cast<const char*>(s), static_cast<size_t>(more) + 1);
      } else if (code < 0x10000) {
        unit(code);
      } else {
        unit(0xD800 + ((code - 0x10000) >> 10));
        unit(0xDC00 + ((code - 0x10000) & 0x3FF));
      }
      s += more + 1;
    }
  }
  out_ += '"';
}

std::string JsonWriter::take() {
  TERN_ASSERT(levels_.empty() && !after_key_);
  std::string done = std::move(out_);
  out_.clear();
  return done;
}

}  // namespace tern::io
