// JSON: a parser into a compact read-only document whose errors name line, column and path, and a
// writer whose output is byte for byte what Python's json module writes.
#pragma once
#include <optional>

#include "tern/base/arena.h"
#include "tern/base/pointer.h"
#include "tern/io/file.h"

namespace tern::io {

enum class JsonKind : uint8_t { null, boolean, integer, real, string, array, object };
std::string_view name_of(JsonKind kind);

class JsonDoc;

// One value of a document: a handle, valid while the document lives. Accessors throw ErrorKind::file and
// name the path, as in "model.json: $.graph.nodes[3].target: expected a string, found an array".
class Json {
 public:
  Json() = default;

  JsonKind kind() const;
  bool is_null() const { return kind() == JsonKind::null; }
  bool is_string() const { return kind() == JsonKind::string; }
  bool is_array() const { return kind() == JsonKind::array; }
  bool is_object() const { return kind() == JsonKind::object; }
  bool is_number() const { return kind() == JsonKind::integer || kind() == JsonKind::real; }

  bool as_bool() const;
  int64_t as_int() const;    // integers only
  double as_double() const;  // numbers, and "NaN", "Infinity", "-Infinity" as torch.export writes them
  std::string_view as_string() const;

  size_t size() const;              // of an array or object
  Json operator[](size_t i) const;  // element of an array; throws when out of range
  Json operator[](int i) const { return (*this)[static_cast<size_t>(i)]; }
  Json operator[](std::string_view key) const;  // member of an object; throws when absent
  Json operator[](const char* key) const { return (*this)[std::string_view(key)]; }
  std::optional<Json> find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key).has_value(); }
  std::string_view key(size_t i) const;  // members in the order of the file
  Json value(size_t i) const;

  std::string path() const;                                  // "$.graph.nodes[3]"
  [[noreturn]] void fail_here(std::string_view what) const;  // ErrorKind::file with label and path

  // for (Json item : array), over elements or members' values.
  class Iterator {
   public:
    Iterator(const Json* json, size_t i) : json_(json), i_(i) {}
    Json operator*() const;
    Iterator& operator++() {
      ++i_;
      return *this;
    }
    bool operator!=(const Iterator& o) const { return i_ != o.i_; }

   private:
    const Json* json_;
    size_t i_;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }

 private:
  friend class JsonDoc;
  friend class JsonWriter;
  Json(const JsonDoc* doc, uint32_t id) : doc_(doc), id_(id) {}
  [[noreturn]] void expected(std::string_view what) const;

  const JsonDoc* doc_ = nullptr;
  uint32_t id_ = 0;
};

class JsonDoc {
 public:
  JsonDoc(const JsonDoc&) = delete;  // handles point to it
  JsonDoc& operator=(const JsonDoc&) = delete;

  Json root() const { return {this, 0}; }
  Json operator[](std::string_view key) const { return root()[key]; }
  Json operator[](size_t i) const { return root()[i]; }
  const std::string& label() const { return label_; }
  size_t node_count() const { return nodes_.size(); }

 private:
  friend class Json;
  friend struct JsonParser;
  friend class JsonWriter;
  friend Shared<const JsonDoc> parse_json(Blob text, std::string label);
  JsonDoc() = default;

  struct Node {
    JsonKind kind;
    bool flag = false;  // boolean's value; a real that is an integer beyond 64 bits, kept as its digits
    uint32_t parent = 0;
    uint32_t size = 0;   // elements, members, or bytes of the text
    uint32_t table = 0;  // of large objects: where the hash table starts, plus 1
    union {
      int64_t integer;
      double real;
      const char* text;
      uint64_t first;  // into children_
    };
  };

  std::string label_;
  Blob source_;  // strings without escapes borrow from it
  Arena text_;   // the others
  std::vector<Node> nodes_;
  std::vector<uint32_t> children_;  // elements; for members the key's node, its value follows it
  std::vector<uint32_t> tables_;
};

// The whole text must be one value. Accepts NaN, Infinity and -Infinity as Python does; refuses duplicate
// keys, invalid UTF-8 and nesting deeper than 1000.
Shared<const JsonDoc> parse_json(Blob text, std::string label = "json");
Shared<const JsonDoc> parse_json(std::string_view text, std::string label = "json");  // copies

// Python's repr of a float: 1.0, 1e-05, 1e+16, nan, inf.
std::string python_repr(double value);

struct JsonStyle {
  int indent = -1;     // -1: one line; otherwise as json.dumps(indent=n)
  bool spaces = true;  // ", " and ": " on one line; false is separators=(",", ":")
  bool ascii = true;   // escape everything else, as ensure_ascii
  // Non-finite numbers: strings "NaN", "Infinity" as torch.export's serde, or bare tokens as json.dumps.
  bool nonfinite_as_strings = true;
};

// Values in order: w.begin_object(); w.key("a"); w.value(1); w.end_object(). Misuse is an internal error.
class JsonWriter {
 public:
  explicit JsonWriter(JsonStyle style = {}) : style_(style) {}

  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  void key(std::string_view name);

  void null();
  void value(bool v);
  void value(int64_t v);
  void value(uint64_t v);
  void value(int v) { value(static_cast<int64_t>(v)); }
  void value(double v);
  void value(std::string_view v);
  void value(const char* v) { value(std::string_view(v)); }
  void value(const std::string& v) { value(std::string_view(v)); }
  void value(Json v);               // a copy of a parsed value
  void raw(std::string_view json);  // text that is JSON already

  template <class T>
  void member(std::string_view name, const T& v) {
    key(name);
    value(v);
  }

  const std::string& str() const { return out_; }
  std::string take();

 private:
  void open(char bracket);
  void close(char bracket);
  void before_value();
  void new_line();
  void quote(std::string_view text);

  JsonStyle style_;
  std::string out_;
  struct Level {
    char bracket;
    bool any;
  };
  std::vector<Level> levels_;
  bool after_key_ = false;
};

}  // namespace tern::io
