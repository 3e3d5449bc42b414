// What the integers, floats and bools of a graph stand for, as expressions of its symbols.
#pragma once
#include <optional>
#include <string>
#include <unordered_map>

#include "tern/ir/graph.h"
#include "tern/sym/sym_int.h"

namespace tern::pt2 {

class GraphSymbols {
 public:
  explicit GraphSymbols(ShapeEnv& shapes) : shapes_(shapes) {}
  void set(const ir::Value& v, SymInt symbol) { symbols_[&v] = symbol; }
  SymInt of(const ir::Value& v);                    // a new symbol where nothing is known
  std::optional<SymInt> known(const ir::Value& v);  // makes no symbol

 private:
  SymInt of(const ir::Operand& o);
  SymInt compute(const ir::Value& v);
  SymInt new_symbol(const ir::Value& v, std::string source);
  ShapeEnv& shapes_;
  bool only_known_ = false, missing_ = false;
  std::unordered_map<const ir::Value*, SymInt> symbols_;
};

}  // namespace tern::pt2
