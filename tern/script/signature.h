// What can be called by name from source: operators of the registry and the language's builtins on numbers,
// strings and containers, all as signatures over type patterns.
#pragma once
#include <optional>
#include <vector>

#include "tern/ir/type.h"

namespace tern {
struct Op;
}

namespace tern::script {

struct Pattern {
  enum Kind : uint8_t {
    exact,
    variable,
    list,
    dict,
    optional,
    tuple,
    future,
    any_enum,
    any_class
  } kind = exact;
  const ir::Type* type = nullptr;  // exact
  char name = 0;                   // variable
  std::vector<Pattern> items = {};
};

struct SigArg {
  Symbol name;
  Pattern type;
  std::optional<tern::Value> default_value = {};
  bool keyword_only = false;
  int fixed_size = 0;  // int[2]: one stands for all
};

struct Signature {
  Symbol name;             // "aten::append"
  const Op* op = nullptr;  // nullptr: a builtin of the interpreter
  std::vector<SigArg> args;
  std::vector<Pattern> returns;
  bool vararg = false;
  std::string text = {};  // of a builtin: its schema
  std::string str() const;
};

// All of that name, builtins of numbers and containers after the tensor operators; empty if unknown.
// Thread-safe; kept.
const std::vector<Signature>& signatures(Symbol name);

// Type variables of one call.
struct Bindings {
  std::vector<std::pair<char, const ir::Type*>> items;
  const ir::Type* find(char name) const;
};
const ir::Type* instantiate(const Pattern& pattern, const Bindings& bindings);
std::string str(const Pattern& pattern);

// The least type both fit, or nullptr: T and None give Optional[T].
const ir::Type* unify(const ir::Type* a, const ir::Type* b);
// Union[...] of them, in one order whatever theirs is; with None of two an Optional.
const ir::Type* make_union(std::vector<const ir::Type*> types);
const ir::Type* without(const ir::Type* type, const ir::Type* member);  // of an optional or a union
// Without what is known about a tensor: Tensor.
const ir::Type* plain(const ir::Type* type);

}  // namespace tern::script
