#include <algorithm>
#include <charconv>
#include <cstring>

#include "tern/base/format.h"
#include "tern/base/utf8.h"
#include "tern/io/pickle_data.h"

namespace tern::io {

namespace {

struct Opcode {
  uint8_t code;
  std::string_view name;
};
// The opcodes of protocols 0 to 5 (Python's pickletools).
constexpr Opcode kOpcodes[] = {{'(', "MARK"},
                               {'.', "STOP"},
                               {'0', "POP"},
                               {'1', "POP_MARK"},
                               {'2', "DUP"},
                               {'F', "FLOAT"},
                               {'I', "INT"},
                               {'J', "BININT"},
                               {'K', "BININT1"},
                               {'L', "LONG"},
                               {'M', "BININT2"},
                               {'N', "NONE"},
                               {'P', "PERSID"},
                               {'Q', "BINPERSID"},
                               {'R', "REDUCE"},
                               {'S', "STRING"},
                               {'T', "BINSTRING"},
                               {'U', "SHORT_BINSTRING"},
                               {'V', "UNICODE"},
                               {'X', "BINUNICODE"},
                               {'a', "APPEND"},
                               {'b', "BUILD"},
                               {'c', "GLOBAL"},
                               {'d', "DICT"},
                               {'}', "EMPTY_DICT"},
                               {'e', "APPENDS"},
                               {'g', "GET"},
                               {'h', "BINGET"},
                               {'i', "INST"},
                               {'j', "LONG_BINGET"},
                               {'l', "LIST"},
                               {']', "EMPTY_LIST"},
                               {'o', "OBJ"},
                               {'p', "PUT"},
                               {'q', "BINPUT"},
                               {'r', "LONG_BINPUT"},
                               {'s', "SETITEM"},
                               {'t', "TUPLE"},
                               {')', "EMPTY_TUPLE"},
                               {'u', "SETITEMS"},
                               {'G', "BINFLOAT"},
                               {0x80, "PROTO"},
                               {0x81, "NEWOBJ"},
                               {0x82, "EXT1"},
                               {0x83, "EXT2"},
                               {0x84, "EXT4"},
                               {0x85, "TUPLE1"},
                               {0x86, "TUPLE2"},
                               {0x87, "TUPLE3"},
                               {0x88, "NEWTRUE"},
                               {0x89, "NEWFALSE"},
                               {0x8a, "LONG1"},
                               {0x8b, "LONG4"},
                               {'B', "BINBYTES"},
                               {'C', "SHORT_BINBYTES"},
                               {0x8c, "SHORT_BINUNICODE"},
                               {0x8d, "BINUNICODE8"},
                               {0x8e, "BINBYTES8"},
                               {0x8f, "EMPTY_SET"},
                               {0x90, "ADDITEMS"},
                               {0x91, "FROZENSET"},
                               {0x92, "NEWOBJ_EX"},
                               {0x93, "STACK_GLOBAL"},
                               {0x94, "MEMOIZE"},
                               {0x95, "FRAME"},
                               {0x96, "BYTEARRAY8"},
                               {0x97, "NEXT_BUFFER"},
                               {0x98, "READONLY_BUFFER"}};

std::string_view opcode_name(uint8_t code) {
  for (const Opcode& op : kOpcodes)
    if (op.code == code) return op.name;
  return "unknown opcode";
}

bool is_container(PickleKind kind) {
  return kind == PickleKind::tuple || kind == PickleKind::list || kind == PickleKind::dict ||
         kind == PickleKind::set;
}

// Longest integer accepted, in bytes: turning it into digits is quadratic.
constexpr size_t kMaxLong = 256;

// Decimal digits of a little-endian two's complement number.
std::string decimal(Bytes bytes) {
  std::vector<uint8_t> magnitude(bytes.begin(), bytes.end());
  bool negative = !magnitude.empty() && (magnitude.back() & 0x80);
  if (negative) {
    int carry = 1;
    for (uint8_t& b : magnitude) {
      int v = static_cast<uint8_t>(~b) + carry;
      b = static_cast<uint8_t>(v);
      carry = v >> 8;
    }
  }
  std::string digits;
  while (!magnitude.empty()) {
    unsigned rest = 0;
    for (size_t i = magnitude.size(); i-- > 0;) {
      unsigned v = rest * 256 + magnitude[i];
      magnitude[i] = static_cast<uint8_t>(v / 10);
      rest = v % 10;
    }
    digits += static_cast<char>('0' + rest);
    while (!magnitude.empty() && magnitude.back() == 0) magnitude.pop_back();
  }
  if (negative) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

}  // namespace

class PickleParser {
 public:
  PickleParser(Bytes bytes, std::string label, PickleLimits limits)
      : bytes_(bytes), limits_(limits), doc_(new_shared<PickleDoc>()), d_(*doc_->data_) {
    d_.label = std::move(label);
    size_t likely = std::min<size_t>(bytes.size() / 4, 4096);
    d_.nodes.reserve(likely);
    d_.elements.reserve(likely);
  }

  Shared<const PickleDoc> parse(size_t* consumed) {
    while (step()) {
    }
    check_shape();
    if (consumed) *consumed = at_;
    return doc_;
  }

 private:
  // --- errors and raw reads

  [[noreturn]] void bad(std::string_view what) const {
    failf(ErrorKind::file, "{}: {} (opcode {} at offset {})", d_.label, what,
          have_op_ ? opcode_name(op_) : "none", op_at_);
  }
  Bytes take(uint64_t n) {
    if (n > bytes_.size() - at_)
      bad(fmt::format("truncated: {} bytes wanted, {} left", n, bytes_.size() - at_));
    Bytes got(bytes_.data() + at_, n);
    at_ += n;
    return got;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view line() {
    const uint8_t* from = bytes_.data() + at_;
    const void* end = bytes_.size() > at_ ? std::memchr(from, '\n', bytes_.size() - at_) : nullptr;
    if (!end) bad("truncated: the line does not end");
    size_t n = static_cast<size_t>(static_cast<const uint8_t*>(end) - from);
    at_ += n + 1;
    std::string_view text(reinterpret_cast<const char*>(from), n);
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    return text;
  }

  // --- the stack and the memo

  void push(uint32_t id) { stack_.push_back(id); }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  uint32_t pop() {
    if (stack_.size() <= floor()) bad("the stack is empty");
    uint32_t id = stack_.back();
    stack_.pop_back();
    return id;
  }
  uint32_t top() {
    if (stack_.size() <= floor()) bad("the stack is empty");
    return stack_.back();
  }
  // What was pushed behind the last mark; valid until the next push.
  Span<const uint32_t> pop_to_mark() {
    if (marks_.empty()) bad("there is no mark");
    Span<const uint32_t> items(stack_.data() + marks_.back(), stack_.size() - marks_.back());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  void put(uint64_t index) {
    // Picklers number their memo from 0 (or 1) upwards: anything else would only cost memory.
    if (index > bytes_.size()) bad(fmt::format("memo index {} is out of proportion", index));
    if (memo_.size() <= index)
      memo_.resize(std::min<size_t>(std::max<size_t>(2 * index, 64), bytes_.size()) + 1, kNoPickle);
    memo_[index] = top();
    ++memo_count_;
  }
  void get(uint64_t index) {
    if (index >= memo_.size() || memo_[index] == kNoPickle) bad(fmt::format("memo has nothing at {}", index));
    push(memo_[index]);
  }

  // --- nodes

  uint32_t add(PickleNode node) {
    if (d_.nodes.size() >= limits_.max_nodes) bad(fmt::format("more than {} values", limits_.max_nodes));
    d_.nodes.push_back(node);
    return static_cast<uint32_t>(d_.nodes.size() - 1);
  }
  uint32_t text(PickleKind kind, std::string_view value, std::string_view rest = {}) {
    PickleNode node(kind);
    node.size = value.size() + rest.size();
    char* copy = static_cast<char*>(d_.text.allocate(node.size + 1, 1));
    node.text = copy;
    copy = std::copy(value.begin(), value.end(), copy);
    *std::copy(rest.begin(), rest.end(), copy) = 0;
    return add(node);
  }
  uint32_t integer(int64_t value) {
    PickleNode node(PickleKind::integer);
    node.integer = value;
    return add(node);
  }
  uint32_t boolean(bool value) {
    PickleNode node(PickleKind::boolean);
    node.flag = value;
    return add(node);
  }
  uint32_t real(double value) {
    PickleNode node(PickleKind::real);
    node.real = value;
    return add(node);
  }
  uint32_t list(PickleKind kind, Span<const uint32_t> items = {}) {
    if (kind == PickleKind::dict && items.size() % 2) bad("a key has no value");
    PickleNode node(kind);
    node.first = d_.elements.size();
    node.size = node.a = static_cast<uint32_t>(items.size());
    d_.elements.insert(d_.elements.end(), items.begin(), items.end());
    return add(node);
  }
  // A container that outgrows its room moves behind the others, to twice as much.
  void extend(uint32_t target, Span<const uint32_t> items) {
    PickleNode& node = d_.nodes[target];
    size_t wanted = node.size + items.size();
    if (wanted > node.a) {
      size_t room = std::max<size_t>(wanted, 2 * size_t{node.a}), from = node.first;
      if (room > UINT32_MAX) bad("a container is too large");
      node.first = d_.elements.size();
      node.a = static_cast<uint32_t>(room);
      d_.elements.resize(node.first + room);
      std::copy_n(d_.elements.data() + from, node.size, d_.elements.data() + node.first);
    }
    std::copy(items.begin(), items.end(), d_.elements.data() + node.first + node.size);
    node.size = wanted;
  }
  uint32_t global(std::string_view module, std::string_view name) {
    if (module.empty() || name.empty()) bad("a global needs a module and a name");
    uint32_t id = text(PickleKind::global, module, name);
    if (module.size() > 0xFFFF) bad("the module's name is too long");
    d_.nodes[id].a = static_cast<uint32_t>(module.size());
    return id;
  }
  uint32_t object(uint32_t callable, uint32_t args, bool by_new, uint32_t kwargs = kNoPickle) {
    PickleKind kind = d_.nodes[callable].kind;
    // A persistent id too: old files of torch.save name a class together with its source.
    if (kind != PickleKind::global && kind != PickleKind::object && kind != PickleKind::persistent)
      bad(fmt::format("a {} cannot be called", name_of(kind)));
    // TorchScript calls its enums with the value alone.
    PickleKind given = d_.nodes[args].kind;
    bool alone = given == PickleKind::integer || given == PickleKind::real || given == PickleKind::string;
    if (alone && kind == PickleKind::global &&
        std::string_view(d_.nodes[callable].text, d_.nodes[callable].a).starts_with("__torch__")) {
      push(args);
      args = tuple_of(1);
    }
    if (d_.nodes[args].kind != PickleKind::tuple)
      bad(fmt::format("the arguments are a {}, not a tuple", name_of(d_.nodes[args].kind)));
    PickleNode node(PickleKind::object);
    node.flag = by_new;
    node.a = static_cast<uint32_t>(d_.objects.size());
    d_.objects.emplace_back();
    d_.objects.back().callable = callable;
    d_.objects.back().args = args;
    d_.objects.back().kwargs = kwargs;
    return add(node);
  }
  uint32_t integer_text(std::string_view digits) {
    if (digits.ends_with('L')) digits.remove_suffix(1);
    std::string_view number = digits.starts_with('+') ? digits.substr(1) : digits;
    int64_t value = 0;
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (end != number.data() + number.size() || number.empty())
      bad(fmt::format("'{}' is not an integer", digits));
    if (error == std::errc()) return integer(value);
    if (error != std::errc::result_out_of_range) bad(fmt::format("'{}' is not an integer", digits));
    if (digits.size() > 3 * kMaxLong) bad("an integer is too long");
    return text(PickleKind::big_integer, number);
  }
  uint32_t long_bytes(Bytes bytes) {
    if (bytes.size() > kMaxLong) bad(fmt::format("an integer of {} bytes is too long", bytes.size()));
    while (bytes.size() > 8) {
      uint8_t last = bytes[bytes.size() - 1], sign = bytes[bytes.size() - 2] & 0x80 ? 0xFF : 0;
      if (last != sign) return text(PickleKind::big_integer, decimal(bytes));
      bytes = bytes.first(bytes.size() - 1);
    }
    uint64_t value = bytes.empty() || !(bytes.back() & 0x80) ? 0 : ~uint64_t{0};
    for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | bytes[i];
    return integer(static_cast<int64_t>(value));
  }
  uint32_t quoted(std::string_view repr) {
    while (!repr.empty() && (repr.back() == ' ' || repr.back() == '\t')) repr.remove_suffix(1);
    if (repr.size() < 2 || (repr.front() != '\'' && repr.front() != '"') || repr.back() != repr.front())
      bad("the string is not in quotes");
    repr = repr.substr(1, repr.size() - 2);
    std::string out;
    for (size_t i = 0; i < repr.size(); ++i) {
      if (repr[i] != '\\') {
        out += repr[i];
        continue;
      }
      if (++i == repr.size()) bad("the string ends in a backslash");
      constexpr std::string_view from = "\\'\"abfnrtv", to = "\\'\"\a\b\f\n\r\t\v";
      if (size_t k = from.find(repr[i]); k != from.npos) {
        out += to[k];
      } else if (repr[i] == 'x') {
        out += static_cast<char>(hex(repr, i + 1, 2));
        i += 2;
      } else if (repr[i] >= '0' && repr[i] <= '7') {
        unsigned value = 0;
        size_t k = i;
        for (; k < repr.size() && k < i + 3 && repr[k] >= '0' && repr[k] <= '7'; ++k)
          value = value * 8 + static_cast<unsigned>(repr[k] - '0');
        out += static_cast<char>(value);
        i = k - 1;
      } else {
        out += '\\';
        out += repr[i];
      }
    }
    return text(PickleKind::string, out);
  }
  // Python's raw-unicode-escape: Latin-1 with \uXXXX and \UXXXXXXXX.
  uint32_t raw_unicode(std::string_view raw) {
    std::string out;
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] == '\\' && i + 1 < raw.size() && (raw[i + 1] == 'u' || raw[i + 1] == 'U')) {
        size_t n = raw[i + 1] == 'u' ? 4 : 8;
        uint32_t c = hex(raw, i + 2, n);
        if (c > 0x10FFFF) bad("a character is outside Unicode");
        append_utf8(out, c);
        i += 1 + n;
      } else {
        append_utf8(out, static_cast<uint8_t>(raw[i]));
      }
    }
    return text(PickleKind::string, out);
  }
  uint32_t hex(std::string_view in, size_t at, size_t n) {
    uint32_t value = 0;
    if (at + n > in.size()) bad("an escape is cut short");
    auto [end, error] = std::from_chars(in.data() + at, in.data() + at + n, value, 16);
    if (error != std::errc() || end != in.data() + at + n) bad("an escape is not hexadecimal");
    return value;
  }
  uint32_t real_text(std::string_view digits) {
    double value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (end != digits.data() + digits.size() || digits.empty() ||
        (error != std::errc() && error != std::errc::result_out_of_range))
      bad(fmt::format("'{}' is not a float", digits));
    return real(value);
  }
  uint64_t index_text(std::string_view digits) {
    uint64_t value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size())
      bad(fmt::format("'{}' is not a memo index", digits));
    return value;
  }

  // Appends to a container of one of the kinds, or to what an object keeps for it in `own`.
  void add_to(uint32_t target, Span<const uint32_t> items, PickleKind kind, uint32_t PickleObject::*own,
              std::string_view how) {
    PickleNode node = d_.nodes[target];
    if (node.kind == PickleKind::object) {
      target = d_.objects[node.a].*own;
      if (target == kNoPickle) target = d_.objects[node.a].*own = list(kind);
    } else if (node.kind != kind) {
      bad(fmt::format("cannot {} a {}", how, name_of(node.kind)));
    }
    extend(target, items);
  }
  void append_to(uint32_t target, Span<const uint32_t> items) {
    add_to(target, items, PickleKind::list, &PickleObject::items, "append to");
  }
  void set_on(uint32_t target, Span<const uint32_t> pairs) {
    if (pairs.size() % 2) bad("a key has no value");
    add_to(target, pairs, PickleKind::dict, &PickleObject::pairs, "set items of");
  }
  uint32_t tuple_of(size_t n) {
    if (stack_.size() - floor() < n) bad("the stack is empty");
    uint32_t id = list(PickleKind::tuple, {stack_.data() + stack_.size() - n, n});
    stack_.resize(stack_.size() - n);
    return id;
  }
  std::string_view popped_string() {
    uint32_t id = pop();
    const PickleNode& node = d_.nodes[id];
    if (node.kind != PickleKind::string) bad(fmt::format("a str was expected, not a {}", name_of(node.kind)));
    return {node.text, node.size};
  }
  uint32_t persistent(uint32_t id) {
    PickleNode node(PickleKind::persistent);
    node.a = id;
    return add(node);
  }

  bool step();
  void check_shape();

  Bytes bytes_;
  PickleLimits limits_;
  Shared<PickleDoc> doc_;
  PickleDoc::Data& d_;
  size_t at_ = 0, op_at_ = 0;
  uint8_t op_ = 0;
  bool have_op_ = false;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::vector<uint32_t> memo_;
  uint64_t memo_count_ = 0;
};

bool PickleParser::step() {
  op_at_ = at_;
  have_op_ = false;
  op_ = take(1)[0];
  have_op_ = true;
  switch (op_) {
    case 0x80:
      d_.protocol = number<uint8_t>();
      if (d_.protocol > 5) bad(fmt::format("protocol {} is not known (0 to 5 are)", d_.protocol));
      break;
    case 0x95: {
      uint64_t size = number<uint64_t>();
      if (size > bytes_.size() - at_) bad(fmt::format("truncated: a frame of {} bytes", size));
      break;
    }
    case '.': {
      d_.root = pop();
      if (!stack_.empty() || !marks_.empty()) bad("values are left on the stack");
      return false;
    }
    case '(':
      marks_.push_back(stack_.size());
      break;
    case '0':
      if (!marks_.empty() && marks_.back() == stack_.size())
        marks_.pop_back();
      else
        pop();
      break;
    case '1':
      pop_to_mark();
      break;
    case '2':
      push(top());
      break;

    case 'N':
      push(add(PickleNode(PickleKind::none)));
      break;
    case 0x88:
      push(boolean(true));
      break;
    case 0x89:
      push(boolean(false));
      break;
    case 'I': {
      std::string_view digits = line();
      push(digits == "00" ? boolean(false) : digits == "01" ? boolean(true) : integer_text(digits));
      break;
    }
    case 'L':
      push(integer_text(line()));
      break;
    case 'J':
      push(integer(number<int32_t>()));
      break;
    case 'K':
      push(integer(number<uint8_t>()));
      break;
    case 'M':
      push(integer(number<uint16_t>()));
      break;
    case 0x8a:
      push(long_bytes(take(number<uint8_t>())));
      break;
    case 0x8b: {
      int32_t size = number<int32_t>();
      if (size < 0) bad("an integer has a negative size");
      push(long_bytes(take(static_cast<uint64_t>(size))));
      break;
    }
    case 'F':
      push(real_text(line()));
      break;
    case 'G': {
      uint64_t bits = __builtin_bswap64(number<uint64_t>());
      double value;
      std::memcpy(&value, &bits, 8);
      push(real(value));
      break;
    }

    case 'S':
      push(quoted(line()));
      break;
    case 'V':
      push(raw_unicode(line()));
      break;
    case 'T': {
      int32_t size = number<int32_t>();
      if (size < 0) bad("a string has a negative size");
      push(text(PickleKind::string, as_text(take(static_cast<uint64_t>(size)))));
      break;
    }
    case 'U':
    case 0x8c:
      push(text(PickleKind::string, as_text(take(number<uint8_t>()))));
      break;
    case 'X':
      push(text(PickleKind::string, as_text(take(number<uint32_t>()))));
      break;
    case 0x8d:
      push(text(PickleKind::string, as_text(take(number<uint64_t>()))));
      break;
    case 'C':
      push(text(PickleKind::bytes, as_text(take(number<uint8_t>()))));
      break;
    case 'B':
      push(text(PickleKind::bytes, as_text(take(number<uint32_t>()))));
      break;
    case 0x8e:
    case 0x96:
      push(text(PickleKind::bytes, as_text(take(number<uint64_t>()))));
      break;

    case ')':
      push(list(PickleKind::tuple));
      break;
    case 't':
      push(list(PickleKind::tuple, pop_to_mark()));
      break;
    case 0x85:
      push(tuple_of(1));
      break;
    case 0x86:
      push(tuple_of(2));
      break;
    case 0x87:
      push(tuple_of(3));
      break;
    case ']':
      push(list(PickleKind::list));
      break;
    case 'l':
      push(list(PickleKind::list, pop_to_mark()));
      break;
    case '}':
      push(list(PickleKind::dict));
      break;
    case 'd':
      push(list(PickleKind::dict, pop_to_mark()));
      break;
    case 0x8f:
      push(list(PickleKind::set));
      break;
    case 0x91:
      push(list(PickleKind::set, pop_to_mark()));
      break;
    case 'a': {
      uint32_t item = pop();
      append_to(top(), {&item, 1});
      break;
    }
    case 'e': {
      Span<const uint32_t> items = pop_to_mark();
      append_to(top(), items);
      break;
    }
    case 's': {
      uint32_t pair[2];
      pair[1] = pop();
      pair[0] = pop();
      set_on(top(), {pair, 2});
      break;
    }
    case 'u': {
      Span<const uint32_t> pairs = pop_to_mark();
      set_on(top(), pairs);
      break;
    }
    case 0x90: {
      Span<const uint32_t> items = pop_to_mark();
      add_to(top(), items, PickleKind::set, &PickleObject::items, "add items to");
      break;
    }

    case 'c': {
      std::string_view module = line();
      push(global(module, line()));
      break;
    }
    case 0x93: {
      std::string_view name = popped_string();
      push(global(popped_string(), name));
      break;
    }
    case 'R': {
      uint32_t args = pop();
      push(object(pop(), args, false));
      break;
    }
    case 0x81: {
      uint32_t args = pop();
      push(object(pop(), args, true));
      break;
    }
    case 0x92: {
      uint32_t kwargs = pop(), args = pop();
      if (d_.nodes[kwargs].kind != PickleKind::dict) bad("the keyword arguments are not a dict");
      push(object(pop(), args, true, kwargs));
      break;
    }
    case 'i': {
      std::string_view module = line();
      uint32_t callable = global(module, line());
      push(object(callable, list(PickleKind::tuple, pop_to_mark()), false));
      break;
    }
    case 'o': {
      Span<const uint32_t> items = pop_to_mark();
      if (items.empty()) bad("there is no class");
      uint32_t callable = items[0];
      push(object(callable, list(PickleKind::tuple, {items.data() + 1, items.size() - 1}), false));
      break;
    }
    case 'b': {
      uint32_t state = pop();
      PickleNode node = d_.nodes[top()];
      if (node.kind != PickleKind::object) bad(fmt::format("a {} cannot take a state", name_of(node.kind)));
      if (d_.objects[node.a].state != kNoPickle) bad("the object already has a state");
      d_.objects[node.a].state = state;
      break;
    }
    case 'P':
      push(persistent(text(PickleKind::string, line())));
      break;
    case 'Q':
      push(persistent(pop()));
      break;

    case 'p':
      put(index_text(line()));
      break;
    case 'q':
      put(number<uint8_t>());
      break;
    case 'r':
      put(number<uint32_t>());
      break;
    case 0x94:
      put(memo_count_);
      break;
    case 'g':
      get(index_text(line()));
      break;
    case 'h':
      get(number<uint8_t>());
      break;
    case 'j':
      get(number<uint32_t>());
      break;

    default:
      bad(opcode_name(op_) == "unknown opcode" ? fmt::format("byte 0x{:02x} is not an opcode", op_)
                                               : "this opcode is not supported");
  }
  return true;
}

// Depth and the length of a walk, by a post-order over the values that hold others; a back edge is a cycle.
void PickleParser::check_shape() {
  struct Frame {
    uint32_t id;
    size_t next;
    uint32_t depth;
    uint64_t walk;
  };
  struct Shape {
    uint32_t depth = 0;  // 0: not seen, kNoPickle: being visited
    uint64_t walk = 0;
  };
  auto is_leaf = [&](uint32_t id) {
    PickleKind kind = d_.nodes[id].kind;
    return kind != PickleKind::object && kind != PickleKind::persistent && !is_container(kind);
  };
  auto child = [&](uint32_t id, size_t i) -> uint32_t {
    const PickleNode& node = d_.nodes[id];
    if (is_container(node.kind)) return i < node.size ? d_.elements[node.first + i] : kNoPickle;
    if (node.kind == PickleKind::persistent) return i == 0 ? node.a : kNoPickle;
    if (node.kind != PickleKind::object) return kNoPickle;
    const PickleObject& o = d_.objects[node.a];
    for (uint32_t part : {o.callable, o.args, o.kwargs, o.state}) {
      if (part == kNoPickle) continue;
      if (i-- == 0) return part;
    }
    for (uint32_t own : {o.items, o.pairs}) {
      Span<const uint32_t> held = d_.elements_of(own);
      if (i < held.size()) return held[i];
      i -= held.size();
    }
    return kNoPickle;
  };
  std::vector<Shape> shapes(d_.nodes.size());
  std::vector<Frame> frames;
  frames.push_back({d_.root, 0, 0, 1});
  shapes[d_.root].depth = kNoPickle;
  while (!frames.empty()) {
    Frame& frame = frames.back();
    if (const PickleNode& node = d_.nodes[frame.id]; is_container(node.kind)) {
      size_t from = frame.next;
      while (frame.next < node.size && is_leaf(d_.elements[node.first + frame.next])) ++frame.next;
      if (frame.next > from) frame.depth = std::max(frame.depth, 1u);
      frame.walk = std::min(frame.walk + (frame.next - from), limits_.max_walk + 1);
    }
    uint32_t next = child(frame.id, frame.next);
    if (next == kNoPickle) {
      shapes[frame.id] = {frame.depth + 1, frame.walk};
      if (frame.depth + 1 > limits_.max_depth)
        bad(fmt::format("values are nested deeper than {}", limits_.max_depth));
      if (frame.walk > limits_.max_walk)
        bad(fmt::format("shared values repeat more than {} times", limits_.max_walk));
      frames.pop_back();
      continue;
    }
    Shape shape = is_leaf(next) ? Shape{1, 1} : shapes[next];
    if (shape.depth == 0) {
      shapes[next].depth = kNoPickle;
      frames.push_back({next, 0, 0, 1});
      continue;  // comes back to the same child, which is then done
    }
    ++frame.next;
    if (shape.depth == kNoPickle) {
      d_.cyclic = true;
      continue;
    }
    frame.depth = std::max(frame.depth, shape.depth);
    frame.walk = std::min(frame.walk + shape.walk, limits_.max_walk + 1);
  }
}

Shared<const PickleDoc> parse_pickle(Bytes bytes, size_t* consumed, std::string label, PickleLimits limits) {
  return PickleParser(bytes, std::move(label), limits).parse(consumed);
}

}  // namespace tern::io
