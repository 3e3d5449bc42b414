// Alias analysis: which values may share memory, and which nodes write to what. Computed once from the
// operators' schemas; whoever changes the graph around written memory computes it again.
#pragma once
#include <vector>

#include "tern/base/function.h"
#include "tern/ir/graph.h"

namespace tern::ir {

class AliasAnalysis {
 public:
  // The value that a node always gives (an attribute of a frozen module); nullptr when nobody knows. Known
  // tensors share memory by their storage.
  using Known = Function<const tern::Value*(const Node& node)>;

  // Inputs of the graph, attributes of unknown objects and results of calls may be the same memory, as far as
  // their types allow.
  explicit AliasAnalysis(const Graph& graph, const Known& known = {});

  static bool is_mutable(const Type& type);              // a tensor, container or object, or holds one
  bool may_alias(const Value& a, const Value& b) const;  // the same memory, the same container
  bool may_contain_alias(const Value& a, const Value& b) const;  // or something that one of them holds
  // Some node of the graph may change the value, or what it holds.
  bool has_writers(const Value& v) const;
  bool has_writers(const Node& node) const;  // of its inputs or outputs
  bool has_writers(const Operand& o) const;
  bool writes(const Node& node) const;  // its blocks included
  bool writes_to(const Node& node, const Value& v) const;
  // May be reached after the graph has run: returned, an input, stored in one.
  bool escapes(const Value& v) const;
  // Two values may become one, or stop being one: nobody would notice.
  bool safe_to_merge(const Value& a, const Value& b) const;
  // The node alone, within its block: no operand, effect or write is in the way.
  bool can_move_before(const Node& node, const Node& other) const;
  bool can_move_after(const Node& node, const Node& other) const;

  // ---- for passes over memory ----
  std::vector<uint32_t> reachable(const Operand& o) const;  // memory of the operand and of what it holds
  const std::vector<const Node*>& writers(uint32_t location) const { return writers_[location]; }
  std::vector<uint32_t> written(const Node& node) const;  // by the node itself, without its blocks
  bool outlives(uint32_t location) const { return outside_[location]; }  // others may look at it afterwards
  bool reaches_everything(const Operand& o) const;                       // too much to list: any location
  size_t num_locations() const { return writers_.size(); }

 private:
  friend class AliasBuilder;
  struct Set {
    uint32_t from = 0, count = 0;  // in pool_; count == everything: too many to keep
  };
  static constexpr uint32_t everything = ~0u;
  struct WriteTo {
    uint32_t element;
    uint32_t kind;  // only memory of that kind; 0: any
  };
  static uint32_t kind_of(const Type& type);
  template <class F>
  void each(uint32_t element, uint32_t kind, F&& f) const;
  template <class F>
  void each_reachable(uint32_t element, uint32_t kind, F&& f) const;
  template <class F>
  void each_written(const Node& node, bool blocks, F&& f) const;
  template <class F>
  void each_touched(const Node& node, F&& f) const;
  template <class F>
  void each_reachable(const Operand& o, F&& f) const;
  template <class F>
  void each_reachable(const tern::Value& constant, F&& f) const;
  bool reaches_everything(uint32_t element) const;
  bool conflict(const Node& first, const Node& second) const;

  FlatMap<const Value*, uint32_t> elements_;
  FlatMap<const Node*, std::vector<WriteTo>> writes_;
  FlatMap<const void*, uint32_t> known_memory_;  // storages and boxes of constants
  std::vector<uint32_t> component_;              // of an element
  std::vector<int32_t> contents_;                // component -> component of what is inside
  std::vector<Set> sets_;                        // of components
  std::vector<uint32_t> pool_;
  std::vector<uint32_t> kinds_;  // of locations
  std::vector<std::vector<const Node*>> writers_;
  std::vector<bool> outside_;  // locations that exist before or after the graph runs
};

// ---- the walks over locations ----

template <class F>
void AliasAnalysis::each(uint32_t element, uint32_t kind, F&& f) const {
  Set s = sets_[component_[element]];
  auto fits = [&](uint32_t l) { return !kind || !kinds_[l] || kinds_[l] == kind; };
  if (s.count == everything) {
    for (uint32_t l = 0; l < kinds_.size(); ++l)
      if (fits(l)) f(l);
    return;
  }
  for (uint32_t i = 0; i < s.count; ++i)
    if (fits(pool_[s.from + i])) f(pool_[s.from + i]);
}

template <class F>
void AliasAnalysis::each_reachable(uint32_t element, uint32_t kind, F&& f) const {
  each(element, kind, f);
  std::vector<int32_t> seen;
  for (int32_t c = contents_[component_[element]]; c >= 0; c = contents_[static_cast<size_t>(c)]) {
    for (int32_t s : seen)
      if (s == c) return;
    seen.push_back(c);
    Set s = sets_[static_cast<size_t>(c)];
    if (s.count == everything) {
      for (uint32_t l = 0; l < kinds_.size(); ++l) f(l);
      return;
    }
    for (uint32_t i = 0; i < s.count; ++i) f(pool_[s.from + i]);
  }
}

template <class F>
void AliasAnalysis::each_written(const Node& node, bool blocks, F&& f) const {
  if (auto it = writes_.find(&node); it != writes_.end())
    for (const WriteTo& w : it->second) each(w.element, w.kind, f);
  if (!blocks) return;
  for (const Block* b : node.blocks())
    for (const Node& inner : *b) each_written(inner, true, f);
}

}  // namespace tern::ir
