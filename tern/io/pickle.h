// Pickle without execution: a file becomes a tree (or graph) of plain values in which classes and
// functions are only names. And a writer of the opcodes that PyTorch's unpicklers accept.
#pragma once
#include <optional>
#include <unordered_map>

#include "tern/base/arena.h"
#include "tern/base/pointer.h"
#include "tern/io/file.h"

namespace tern::io {

enum class PickleKind : uint8_t {
  none,
  boolean,
  integer,      // fits 64 bits
  big_integer,  // does not; as_text() gives its decimal digits
  real,
  string,  // str, and Python 2's byte strings
  bytes,
  tuple,
  list,
  dict,
  set,
  global,      // module() and name(): never looked up
  object,      // a call that was not made: callable(), args(), then state(), list items and pairs
  persistent,  // persistent_id(): what torch calls a storage
};
std::string_view name_of(PickleKind kind);

class PickleDoc;

// One value of a document. A cheap handle: valid while the document lives. The accessors throw
// ErrorKind::file when the kind is another one.
class Pickle {
 public:
  Pickle() = default;

  PickleKind kind() const;
  // Equal ids are the same Python object; containers may hold themselves. Walk with a memo over ids.
  uint32_t id() const { return id_; }
  bool is(PickleKind k) const { return kind() == k; }
  bool is_none() const { return is(PickleKind::none); }
  bool is_global(std::string_view module, std::string_view name) const;
  // An object whose callable is that global.
  bool is_call(std::string_view module, std::string_view name) const;

  bool as_bool() const;
  int64_t as_int() const;              // also from a bool, as in Python
  double as_double() const;            // also from an integer
  std::string_view as_string() const;  // string only
  Bytes as_bytes() const;              // bytes, or a Python 2 string
  std::string_view digits() const;     // of an integer of any size that did not fit

  // Elements of a tuple, list or set; the appended ones of an object; the number of pairs of a dict.
  size_t size() const;
  Pickle operator[](size_t i) const;
  Pickle operator[](int i) const { return (*this)[static_cast<size_t>(i)]; }
  // Pairs of a dict, or those that were set on an object (an OrderedDict), in order.
  size_t pair_count() const;
  Pickle key(size_t i) const;
  Pickle value(size_t i) const;
  // The last value under a string key; linear.
  std::optional<Pickle> find(std::string_view key) const;
  Pickle operator[](std::string_view key) const;
  Pickle operator[](const char* key) const { return (*this)[std::string_view(key)]; }

  std::string_view module() const;
  std::string_view name() const;

  Pickle callable() const;
  Pickle args() const;                   // a tuple, for every object
  std::optional<Pickle> kwargs() const;  // of NEWOBJ_EX
  std::optional<Pickle> state() const;   // of BUILD
  bool made_by_new() const;              // cls.__new__(cls, *args) rather than callable(*args)

  Pickle persistent_id() const;

  // For messages: torch._utils._rebuild_tensor_v2(...), {3 pairs}, 'text'.
  std::string describe() const;

 private:
  friend class PickleDoc;
  friend class PickleParser;
  Pickle(const PickleDoc* doc, uint32_t id) : doc_(doc), id_(id) {}
  [[noreturn]] void expected(std::string_view what) const;
  Span<const uint32_t> pairs() const;  // keys and values in turns

  const PickleDoc* doc_ = nullptr;
  uint32_t id_ = 0;
};

struct PickleLimits {
  size_t max_nodes = size_t{1} << 28;
  uint32_t max_depth = 1000;
  // Values reached by a walk without a memo: shared values can make it exponential.
  uint64_t max_walk = uint64_t{1} << 28;
};

// Owns all values of one pickle, strings included: nothing is borrowed from the bytes it was parsed from.
class PickleDoc {
 public:
  PickleDoc();
  PickleDoc(const PickleDoc&) = delete;  // handles point to it
  PickleDoc& operator=(const PickleDoc&) = delete;
  ~PickleDoc();

  Pickle root() const;
  size_t node_count() const;
  int protocol() const;
  bool cyclic() const;  // some value contains itself
  const std::string& label() const;

 private:
  friend class Pickle;
  friend class PickleParser;
  struct Data;
  Owned<Data> data_;
};

// Parses one pickle from the front of `bytes`; `consumed` gets its length, so that what follows can be read
// (legacy torch.save writes several). Errors are ErrorKind::file and name offset and opcode.
Shared<const PickleDoc> parse_pickle(Bytes bytes, size_t* consumed = nullptr, std::string label = "pickle",
                                     PickleLimits limits = {});

// Protocol 2, restricted to the opcodes that both Python and TorchScript's unpickler know. The calls write
// one opcode each, operands first: mark(); string("a"); integer(1); set_items().
class PickleWriter {
 public:
  PickleWriter();

  void none();
  void boolean(bool value);
  void integer(int64_t value);
  void real(double value);
  void string(std::string_view text);  // the same text is written once, then fetched from the memo
  void bytes(Bytes bytes);             // as Python's protocol 2 does: _codecs.encode(text, "latin1")

  void mark() { op('('); }
  void empty_tuple() { op(')'); }
  void tuple() { op('t'); }  // from the mark
  void tuple(int n);         // of the last n values, n <= 3
  void empty_list() { op(']'); }
  void append() { op('a'); }
  void append_items() { op('e'); }
  void empty_dict() { op('}'); }
  void set_item() { op('s'); }
  void set_items() { op('u'); }

  void global(std::string_view module, std::string_view name);  // memoised like strings
  void reduce() { op('R'); }
  void new_object() { op('\x81'); }
  void build() { op('b'); }
  void persistent_id() { op('Q'); }  // of the value on top

  uint32_t put();  // memoises the top; gives the index for get()
  void get(uint32_t index);

  std::string finish();  // STOP; the writer is empty afterwards

 private:
  void op(char c) { out_ += c; }
  template <class T>
  void raw(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  std::string out_;
  std::unordered_map<std::string, uint32_t> memo_;  // "s" + text, "g" + module + '\n' + name
  uint32_t next_ = 0;
};

}  // namespace tern::io
