#include "tern/ir/names.h"

#include <algorithm>
#include <mutex>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"

namespace tern::ir {
namespace {

// Keywords and builtins, sorted.
constexpr std::string_view reserved_words[] = {
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "BaseException",
    "BaseExceptionGroup",
    "BlockingIOError",
    "BrokenPipeError",
    "BufferError",
    "BytesWarning",
    "ChildProcessError",
    "ConnectionAbortedError",
    "ConnectionError",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "DeprecationWarning",
    "EOFError",
    "Ellipsis",
    "EncodingWarning",
    "EnvironmentError",
    "Exception",
    "ExceptionGroup",
    "False",
    "FileExistsError",
    "FileNotFoundError",
    "FloatingPointError",
    "FutureWarning",
    "GeneratorExit",
    "IOError",
    "ImportError",
    "ImportWarning",
    "IndentationError",
    "IndexError",
    "InterruptedError",
    "IsADirectoryError",
    "KeyError",
    "KeyboardInterrupt",
    "LookupError",
    "MemoryError",
    "ModuleNotFoundError",
    "NameError",
    "None",
    "NoneType",
    "NotADirectoryError",
    "NotImplemented",
    "NotImplementedError",
    "OSError",
    "OverflowError",
    "PendingDeprecationWarning",
    "PermissionError",
    "ProcessLookupError",
    "RecursionError",
    "ReferenceError",
    "ResourceWarning",
    "RuntimeError",
    "RuntimeWarning",
    "StopAsyncIteration",
    "StopIteration",
    "SyntaxError",
    "SyntaxWarning",
    "SystemError",
    "SystemExit",
    "TabError",
    "TimeoutError",
    "True",
    "TypeError",
    "UnboundLocalError",
    "UnicodeDecodeError",
    "UnicodeEncodeError",
    "UnicodeError",
    "UnicodeTranslateError",
    "UnicodeWarning",
    "UserWarning",
    "ValueError",
    "Warning",
    "ZeroDivisionError",
    "__build_class__",
    "__debug__",
    "__doc__",
    "__import__",
    "__loader__",
    "__name__",
    "__package__",
    "__spec__",
    "abs",
    "aiter",
    "all",
    "and",
    "anext",
    "any",
    "as",
    "ascii",
    "assert",
    "async",
    "await",
    "bin",
    "bool",
    "break",
    "breakpoint",
    "bytearray",
    "bytes",
    "callable",
    "chr",
    "class",
    "classmethod",
    "compile",
    "complex",
    "continue",
    "copyright",
    "credits",
    "def",
    "del",
    "delattr",
    "device",
    "dict",
    "dir",
    "divmod",
    "elif",
    "else",
    "enumerate",
    "eval",
    "except",
    "exec",
    "exit",
    "filter",
    "finally",
    "float",
    "for",
    "format",
    "from",
    "frozenset",
    "fx_pytree",
    "getattr",
    "global",
    "globals",
    "hasattr",
    "hash",
    "help",
    "hex",
    "id",
    "if",
    "import",
    "in",
    "inf",
    "input",
    "int",
    "is",
    "isinstance",
    "issubclass",
    "iter",
    "lambda",
    "len",
    "license",
    "list",
    "locals",
    "map",
    "max",
    "memoryview",
    "min",
    "nan",
    "next",
    "nonlocal",
    "not",
    "object",
    "oct",
    "open",
    "or",
    "ord",
    "pass",
    "pow",
    "print",
    "property",
    "pytree",
    "quit",
    "raise",
    "range",
    "repr",
    "return",
    "reversed",
    "round",
    "set",
    "setattr",
    "slice",
    "sorted",
    "staticmethod",
    "str",
    "sum",
    "super",
    "torch",
    "try",
    "tuple",
    "type",
    "vars",
    "while",
    "with",
    "yield",
    "zip",
};

}  // namespace

std::string Name::str() const {
  if (!number) return base.str();
  if (base.empty()) return std::to_string(number - 1);
  return fmt::format("{}_{}", base.view(), number - 1);
}

Name Name::parse(std::string_view text) {
  size_t digits = 0;
  while (digits < text.size() && digits < 10 && text[text.size() - 1 - digits] >= '0' &&
         text[text.size() - 1 - digits] <= '9')
    ++digits;
  size_t start = text.size() - digits;
  bool leading_zero = digits > 1 && text[start] == '0';
  bool all_digits = digits == text.size();
  bool numbered = start >= 2 && text[start - 1] == '_';
  if (digits == 0 || digits > 9 || leading_zero || !(all_digits || numbered)) return {Symbol(text), 0};
  uint32_t value = 0;
  for (char c : text.substr(start)) value = value * 10 + static_cast<uint32_t>(c - '0');
  return {all_digits ? Symbol() : Symbol(text.substr(0, start - 1)), value + 1};
}

// torch.fx's rule: a name that ends in a number asks for that number, and the count goes on from the one
// given last.
Name NameTable::choose(Base& base, Name wanted) const {
  bool numbers_only = wanted.base.empty();
  bool plain = wanted.number == 0;
  if (plain && !numbers_only && !base.plain_used && !base.reserved) {
    base.plain_used = true;
    return wanted;
  }
  if (!plain && !find(wanted)) {
    base.last = wanted.number - 1;
    return wanted;
  }
  uint32_t number = plain || wanted.number == 1 ? base.last : wanted.number - 1;
  Name name{wanted.base, 0};
  do name.number = ++number + 1;
  while (find(name));
  base.last = number;
  return name;
}

NameTable::Base NameTable::learn(Symbol symbol) {
  Base b;
  b.known = true;
  static const std::vector<bool> reserved = [] {
    std::vector<bool> all;
    for (std::string_view word : reserved_words) {
      Symbol s(word);
      if (s.id() >= all.size()) all.resize(s.id() + 1);
      all[s.id()] = true;
    }
    return all;
  }();
  b.reserved = symbol.id() < reserved.size() && reserved[symbol.id()];
  return b;
}

Name NameTable::unique(std::string_view hint) {
  if (last_base_ && hint == last_hint_) return choose(*last_base_, last_name_);
  last_hint_ = hint;
  last_name_ = Name::parse(hint);
  Base& base = bases_[last_name_.base];
  if (!base.known) base = learn(last_name_.base);
  last_base_ = &base;
  return choose(base, last_name_);
}
Name NameTable::unique(Name hint) {
  Base& base = bases_[hint.base];
  if (!base.known) base = learn(hint.base);
  return choose(base, hint);
}
Name NameTable::peek(std::string_view hint) const {
  Name wanted = Name::parse(hint);
  auto it = bases_.find(wanted.base);
  Base copy = it == bases_.end() || !it->second.known ? learn(wanted.base) : it->second;
  return choose(copy, wanted);
}

Value* NameTable::find(Name name) const {
  if (slots_.empty()) return nullptr;
  for (size_t i = slot(name); slots_[i]; i = (i + 1) & (slots_.size() - 1))
    if (slots_[i]->key() == name) return slots_[i];
  return nullptr;
}
void NameTable::add(Name name, Value* value) {
  if ((count_ + 1) * 4 > slots_.size() * 3) grow();
  size_t i = slot(name);
  while (slots_[i]) i = (i + 1) & (slots_.size() - 1);
  slots_[i] = value;
  ++count_;
  if (name.number == 0) {
    Base& base = bases_[name.base];
    if (!base.known) base = learn(name.base);
    base.plain_used = true;
  }
}
void NameTable::claim(Name name, Value* value) {
  add(name, value);
  if (!name.number) return;
  Base& base = bases_[name.base];
  if (!base.known) base = learn(name.base);
  base.last = std::max(base.last, name.number - 1);
}
void NameTable::remove(Name name) {
  if (slots_.empty()) return;
  size_t mask = slots_.size() - 1, i = slot(name);
  while (slots_[i] && !(slots_[i]->key() == name)) i = (i + 1) & mask;
  if (!slots_[i]) return;
  // Entries behind the hole move up, so that no tombstone is needed.
  for (size_t k = (i + 1) & mask; slots_[k]; k = (k + 1) & mask) {
    size_t home = slot(slots_[k]->key());
    if (((k - home) & mask) >= ((k - i) & mask)) {
      slots_[i] = slots_[k];
      i = k;
    }
  }
  slots_[i] = nullptr;
  --count_;
}
void NameTable::grow() {
  std::vector<Value*> old(slots_.empty() ? 16 : slots_.size() * 2);
  std::swap(old, slots_);
  for (Value* v : old) {
    if (!v) continue;
    size_t i = slot(v->key());
    while (slots_[i]) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = v;
  }
}

std::string_view default_hint(const Node& node) {
  std::string_view text = node.kind().view();
  if (!node.op()) {
    if (node.is("prim::ListUnpack") || node.is("prim::TupleUnpack") || node.is("aten::__getitem__"))
      return "getitem";
    if (text.substr(0, 6) == "prim::") return "";
  }
  size_t colons = text.find("::");
  if (colons != std::string_view::npos) text = text.substr(colons + 2);
  return text.substr(0, text.find('.'));
}

bool wants_label(const Node& node) {
  if (node.op()) return node.num_outputs() != 1;
  return node.kind().view().substr(0, 14) == "higher_order::";
}

bool is_python_reserved(std::string_view word) {
  return std::binary_search(std::begin(reserved_words), std::end(reserved_words), word);
}

// ---- where nodes come from: interned for the life of the process ----

namespace {

template <class T, class Hash, class Equal>
class Interned {
 public:
  const T* get(const T& key) {
    size_t h = Hash{}(key);
    std::lock_guard lock(mutex_);
    auto [from, to] = all_.equal_range(h);
    for (auto it = from; it != to; ++it)
      if (Equal{}(*it->second, key)) return it->second;
    const T* kept = arena_.make<T>(key);
    all_.emplace(h, kept);
    return kept;
  }

 private:
  std::mutex mutex_;
  Arena arena_;
  std::unordered_multimap<size_t, const T*> all_;
};

size_t mix(size_t h, size_t v) { return (h ^ v) * 0x9E3779B97F4A7C15ull ^ (h >> 31); }
struct ScopeHash {
  size_t operator()(const ModuleScope& s) const {
    return mix(mix(s.path.id(), s.type_name.id()), reinterpret_cast<size_t>(s.parent));
  }
};
struct ScopeEqual {
  bool operator()(const ModuleScope& a, const ModuleScope& b) const {
    return a.path == b.path && a.type_name == b.type_name && a.parent == b.parent;
  }
};
struct OriginHash {
  size_t operator()(const Origin& o) const {
    size_t h = mix(mix(o.file.id(), o.function.id()), o.text.id());
    return mix(mix(h, size_t{o.line} << 32 | o.column), reinterpret_cast<size_t>(o.scope));
  }
};
struct OriginEqual {
  bool operator()(const Origin& a, const Origin& b) const {
    return a.file == b.file && a.function == b.function && a.text == b.text && a.line == b.line &&
           a.column == b.column && a.scope == b.scope;
  }
};

}  // namespace

const ModuleScope* ModuleScope::make(Symbol path, Symbol type_name, const ModuleScope* parent) {
  static auto* table = new Interned<ModuleScope, ScopeHash, ScopeEqual>;
  return table->get({path, type_name, parent});
}
const ModuleScope* ModuleScope::of(const Scope* scope) {
  return scope ? make(scope->path, scope->type_name, of(scope->parent)) : nullptr;
}
std::string ModuleScope::str() const {
  std::string out = parent ? parent->str() + "/" : "";
  out += path.view();
  if (!type_name.empty()) out += "<" + type_name.str() + ">";
  return out;
}

const Origin* Origin::make(const Origin& origin) {
  static auto* table = new Interned<Origin, OriginHash, OriginEqual>;
  return table->get(origin);
}
const Origin* Origin::at(Loc loc, const ModuleScope* scope) {
  if (!loc && !scope) return nullptr;
  return make({Symbol(loc.file), Symbol(loc.function), {}, loc.line, loc.column, scope});
}
std::string Origin::place() const {
  return has_place() ? fmt::format("{}:{}:{}", file.view(), line, column) : "";
}

}  // namespace tern::ir
