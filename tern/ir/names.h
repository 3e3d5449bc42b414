// Names of a graph's values: unique when made, by torch.fx's rules, without interning a string per value.
#pragma once
#include <unordered_map>
#include <vector>

#include "tern/ir/graph.h"

namespace tern::ir {

class NameTable {
 public:
  // The hint itself if it was never used and is no Python keyword or builtin ("sum" becomes "sum_1"), else
  // its base with the next free number.
  Name unique(std::string_view hint);
  Name unique(Name hint);
  Name peek(std::string_view hint) const;
  void add(Name name, Value* value);
  void claim(Name name, Value* value);  // as add; later numbers of its base are larger
  void remove(Name name);
  Value* find(Name name) const;
  size_t bytes() const { return slots_.size() * sizeof(Value*); }

 private:
  struct Base {
    uint32_t last = 0;  // the number given last
    bool plain_used = false;
    bool reserved = false;
    bool known = false;
  };
  static size_t hash(Name n) {
    return (n.base.id() * 0x9E3779B97F4A7C15ull) ^ (n.number * 0xC2B2AE3D27D4EB4Full);
  }
  size_t slot(Name n) const { return (hash(n) >> 20) & (slots_.size() - 1); }
  Name choose(Base& base, Name wanted) const;
  static Base learn(Symbol base);
  void grow();

  std::vector<Value*> slots_;  // open addressing; the key is the value's own name
  size_t count_ = 0;
  std::unordered_map<Symbol, Base> bases_;
  // The hint asked for last: nodes of one operator come in runs.
  std::string last_hint_;
  Name last_name_;
  Base* last_base_ = nullptr;
};

// What a node's output is called when nobody says: "add" for aten::add.Tensor, "getitem" for unpacking.
std::string_view default_hint(const Node& node);
// Whether a node's own name differs from its outputs': fx shows several results, or none, as one node.
bool wants_label(const Node& node);
bool is_python_reserved(std::string_view word);  // a keyword or a builtin

}  // namespace tern::ir
