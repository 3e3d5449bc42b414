#include "tern/ir/names.h"

#include <algorithm>

#include "tern/base/arena.h"
#include "tern/base/format.h"
#include "tern/base/intern_table.h"
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

NameTable::Base::Base(Symbol symbol) {
  static const std::vector<bool> all = [] {
    std::vector<bool> found;
    for (std::string_view word : reserved_words) {
      Symbol s(word);
      if (s.id() >= found.size()) found.resize(s.id() + 1);
      found[s.id()] = true;
    }
    return found;
  }();
  reserved = symbol.id() < all.size() && all[symbol.id()];
}

Value* NameTable::Base::find(uint32_t number) const {
  if (number == 0) return plain;
  if (number <= numbered.size() && numbered[number - 1]) return numbered[number - 1];
  if (!far) return nullptr;
  auto it = far->find(number);
  return it == far->end() ? nullptr : it->second;
}

void NameTable::Base::put(uint32_t number, Value* value) {
  if (number == 0) {
    plain = value;
  } else if (!value) {
    if (number <= numbered.size()) numbered[number - 1] = nullptr;
    if (far) far->erase(number);
  } else if (number <= 2 * numbered.size() + 8) {
    if (number > numbered.capacity())
      numbered.reserve(std::max<size_t>({number, 2 * numbered.capacity(), 8}));
    if (number > numbered.size()) numbered.resize(number);
    numbered[number - 1] = value;
  } else {
    if (!far) far = new_owned<FlatMap<uint32_t, Value*>>();
    (*far)[number] = value;
  }
}

// torch.fx's rule: a name that ends in a number asks for that number, and the count goes on from the one
// given last.
Name NameTable::Base::choose(Name wanted) const {
  bool numbers_only = wanted.base.empty();
  bool plain = wanted.number == 0;
  if (plain && !numbers_only && !plain_used && !reserved) return wanted;
  if (!plain && !find(wanted.number)) return wanted;
  uint32_t number = plain || wanted.number == 1 ? last : wanted.number - 1;
  do ++number;
  while (find(number + 1));
  return {wanted.base, number + 1};
}

Name NameTable::give(std::string_view hint, Value* value) {
  if (hint != last_hint_ || hint.empty()) {
    last_hint_ = hint;
    last_name_ = Name::parse(hint);
  }
  return give(last_name_, value);
}
Name NameTable::give(Name hint, Value* value) {
  Base& b = base(hint.base);
  Name name = b.choose(hint);
  if (name.number) {
    b.last = name.number - 1;
  } else {
    b.plain_used = true;
  }
  b.put(name.number, value);
  return name;
}
Name NameTable::peek(std::string_view hint) const {
  Name wanted = Name::parse(hint);
  auto it = bases_.find(wanted.base);
  return it == bases_.end() ? Base(wanted.base).choose(wanted) : it->second.choose(wanted);
}

Value* NameTable::find(Name name) const {
  auto it = bases_.find(name.base);
  return it == bases_.end() ? nullptr : it->second.find(name.number);
}
void NameTable::add(Name name, Value* value) {
  Base& b = base(name.base);
  b.put(name.number, value);
  if (name.number == 0) b.plain_used = true;
}
void NameTable::claim(Name name, Value* value) {
  add(name, value);
  Base& b = base(name.base);
  if (name.number) b.last = std::max(b.last, name.number - 1);
}
void NameTable::remove(Name name) {
  auto it = bases_.find(name.base);
  if (it != bases_.end()) it->second.put(name.number, nullptr);
}
size_t NameTable::bytes() const {
  size_t bytes = bases_.bytes();
  for (const auto& [symbol, b] : bases_)
    bytes += b.numbered.capacity() * sizeof(Value*) + (b.far ? b.far->bytes() : 0);
  return bytes;
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

size_t mix(size_t h, size_t v) { return (h ^ v) * 0x9E3779B97F4A7C15ull ^ (h >> 31); }
size_t hash(const ModuleScope& s) {
  return mix(mix(s.path.id(), s.type_name.id()), reinterpret_cast<size_t>(s.parent));
}
size_t hash(const Origin& o) {
  size_t h = mix(mix(o.file.id(), o.function.id()), o.text.id());
  return mix(mix(h, size_t{o.line} << 32 | o.column), reinterpret_cast<size_t>(o.scope));
}

template <class T>
class Interned {
 public:
  const T* get(const T& key) {
    return table_.find_or_add(
        hash(key), [&](const T& kept) { return kept == key; }, [&] { return arena_.make<T>(key); });
  }

 private:
  InternTable<T> table_;
  Arena arena_;
};

// The texts of a Loc stay where they are, and a trace meets few of them often.
Symbol of_literal(const char* text) {
  thread_local struct {
    const char* text;
    Symbol symbol;
  } known[64] = {};
  auto& entry = known[(reinterpret_cast<uintptr_t>(text) * 0x9E3779B97F4A7C15ull) >> 58];
  if (entry.text != text) entry = {text, Symbol(text)};
  return entry.symbol;
}

}  // namespace

const ModuleScope* ModuleScope::make(Symbol path, Symbol type_name, const ModuleScope* parent) {
  static auto* table = new Interned<ModuleScope>;
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
  static auto* table = new Interned<Origin>;
  return table->get(origin);
}
const Origin* Origin::at(Loc loc, const ModuleScope* scope) {
  if (!loc && !scope) return nullptr;
  return make({of_literal(loc.file), of_literal(loc.function), {}, loc.line, loc.column, scope});
}
std::string Origin::place() const {
  return has_place() ? fmt::format("{}:{}:{}", file.view(), line, column) : "";
}

}  // namespace tern::ir
