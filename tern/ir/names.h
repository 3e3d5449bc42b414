// Names of a graph's values: unique when made, by torch.fx's rules, without interning a string per value.
#pragma once
#include <vector>

#include "tern/base/flat_map.h"
#include "tern/base/pointer.h"
#include "tern/ir/graph.h"

namespace tern::ir {

class NameTable {
 public:
  // Names a value: the hint itself if it was never used and is no Python keyword or builtin ("sum" becomes
  // "sum_1"), else its base with the next free number.
  Name give(std::string_view hint, Value* value);
  Name give(Name hint, Value* value);
  Name peek(std::string_view hint) const;
  void add(Name name, Value* value);
  void claim(Name name, Value* value);  // as add; later numbers of its base are larger
  void remove(Name name);
  Value* find(Name name) const;
  size_t bytes() const;

 private:
  // All names that differ in their number only. Numbers are given one after the other, so an array holds
  // them; a number far beyond the others, which only a text can ask for, is looked up.
  struct Base {
    explicit Base(Symbol symbol);
    Value* find(uint32_t number) const;
    void put(uint32_t number, Value* value);
    Name choose(Name wanted) const;

    uint32_t last = 0;  // the number given last
    bool plain_used = false;
    bool reserved;
    Value* plain = nullptr;        // the base itself
    std::vector<Value*> numbered;  // by what is written
    Owned<FlatMap<uint32_t, Value*>> far;
  };
  Base& base(Symbol symbol) { return bases_.emplace(symbol, symbol).first->second; }

  FlatMap<Symbol, Base> bases_;
  // The hint asked for last: nodes of one operator come in runs.
  std::string last_hint_;
  Name last_name_;
};

// What a node's output is called when nobody says: "add" for aten::add.Tensor, "getitem" for unpacking.
std::string_view default_hint(const Node& node);
// Whether a node's own name differs from its outputs': fx shows several results, or none, as one node.
bool wants_label(const Node& node);
bool is_python_reserved(std::string_view word);  // a keyword or a builtin

}  // namespace tern::ir
