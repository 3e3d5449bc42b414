// Rewrite rules: two pieces of IR text and a predicate.
#pragma once
#include <unordered_map>

#include "tern/base/pointer.h"
#include "tern/ir/pass.h"

namespace tern::ir {

// What a pattern found.
struct Match {
  Node& root;                                   // the node the pattern's result comes from
  std::vector<std::pair<Symbol, In>> captures;  // the pattern's inputs by name: values or constants
  const In& operator[](Symbol name) const;      // throws for a name the pattern does not have
  const Type* type(Symbol name) const;
  int64_t int_of(Symbol name, int64_t otherwise = -1) const;  // of a captured int constant
};

// `pattern` and `replacement` are graphs with inputs of the same names. A pattern's input matches any
// operand; the same input twice must match the same operand; constants match equal constants of the same
// kind. Pattern nodes must be pure.
struct Rule {
  std::string_view name;
  std::string_view pattern;
  std::string_view replacement;
  bool (*predicate)(const Match& match) = nullptr;
};

// Rules indexed by root operator. A rule with an operator Tern does not have never matches.
class RuleSet {
 public:
  explicit RuleSet(Span<const Rule> rules);
  ~RuleSet();
  RuleSet(const RuleSet&) = delete;
  // To a fixpoint, in at most `max_rounds` walks. Gives the number of rewrites; each is reported as "rule
  // name: %node". A result may come to share memory with an input, so nothing is rewritten whose memory the
  // graph writes to.
  size_t apply(Graph& graph, const PassOptions& options = {}, int max_rounds = 10) const;

 private:
  struct Compiled;
  std::vector<Owned<Compiled>> rules_;
  std::unordered_map<const Op*, std::vector<const Compiled*>> by_op_;
  std::unordered_map<Symbol, std::vector<const Compiled*>> by_kind_;
};

Span<const Rule> peephole_rules();

}  // namespace tern::ir
