#include "tern/ir/rewrite.h"

#include <optional>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/ir/alias.h"
#include "tern/ir/resolve.h"
#include "tern/ir/text.h"

namespace tern::ir {

const In& Match::operator[](Symbol name) const {
  for (auto& [key, in] : captures)
    if (key == name) return in;
  failf(ErrorKind::internal, "the pattern has no input %{}", name.view());
}
const Type* Match::type(Symbol name) const { return type_of((*this)[name]); }
int64_t Match::int_of(Symbol name, int64_t otherwise) const {
  const In& in = (*this)[name];
  return in.is_constant() && in.constant().is_int() && in.constant().sym().is_int() ? in.constant().to_int()
                                                                                    : otherwise;
}

struct RuleSet::Compiled {
  const Rule* rule;
  Owned<Graph> pattern, replacement;
  const Node* root = nullptr;
};

namespace {

struct Matcher {
  FlatMap<const Value*, In> bound = {};  // pattern value -> what it matched

  static bool same(const In& a, const In& b) {
    if (a.is_value() || b.is_value()) return a.value() == b.value();
    if (a.is_constant() && b.is_constant()) return same_constant(a.constant(), b.constant());
    if (a.is_list() != b.is_list() || a.items().size() != b.items().size()) return false;
    for (size_t i = 0; i < a.items().size(); ++i)
      if (!same(a.items()[i], b.items()[i])) return false;
    return true;
  }
  bool operand(const Operand& pattern, const Operand& o) {
    if (pattern.is_value()) {
      const Value& p = pattern.value();
      if (auto it = bound.find(&p); it != bound.end()) return same(it->second, In(o));
      if (p.param_of()) {
        bound.emplace(&p, In(o));
        return true;
      }
      if (!o.is_value() || !o.value().node() || o.value().index() != p.index()) return false;
      return node(*p.node(), *o.value().node());
    }
    if (pattern.is_constant()) return o.is_constant() && same_constant(pattern.constant(), o.constant());
    if (!o.is_list() || o.list().size() != pattern.list().size()) return false;
    for (size_t i = 0; i < o.list().size(); ++i)
      if (!operand(pattern.list()[i], o.list()[i])) return false;
    return true;
  }
  bool node(const Node& pattern, const Node& n) {
    if (pattern.op() != n.op() || pattern.kind() != n.kind() ||
        pattern.inputs().size() != n.inputs().size() || pattern.num_outputs() != n.num_outputs() ||
        !is_pure(n))
      return false;
    for (auto& [name, v] : pattern.attributes()) {
      const tern::Value* other = n.attribute(name);
      if (!other || !same_constant(v, *other)) return false;
    }
    for (size_t i = 0; i < n.inputs().size(); ++i)
      if (!operand(pattern.input(i), n.input(i))) return false;
    for (size_t i = 0; i < n.num_outputs(); ++i) bound[&pattern.output(i)] = In(n.output(i));
    return true;
  }
};

// Whether every operator the text names exists.
bool knows_all(std::string_view text) {
  for (size_t at = text.find("aten::"); at != std::string_view::npos; at = text.find("aten::", at + 1)) {
    size_t end = text.find('(', at);
    if (end == std::string_view::npos) continue;
    std::string_view name = text.substr(at, end - at);
    if (!find_op(name) && overloads(Symbol(name)).empty()) return false;
  }
  return true;
}

void erase_dead(Graph& graph, Node& n) {
  std::vector<Node*> list{&n};
  while (!list.empty()) {
    Node* dead = list.back();
    list.pop_back();
    bool used = false;
    for (Value* v : dead->outputs()) used = used || v->has_uses();
    if (used || has_effect(*dead)) continue;
    std::vector<Node*> sources;
    auto collect = [&](auto& self, const Operand& o) -> void {
      if (o.is_list())
        for (const Operand& item : o.list()) self(self, item);
      else if (o.is_value() && o.value().node() && o.value().num_uses() == 1)
        sources.push_back(o.value().node());
    };
    for (const Operand& o : dead->inputs()) collect(collect, o);
    graph.erase(*dead);
    list.insert(list.end(), sources.begin(), sources.end());
  }
}

}  // namespace

RuleSet::RuleSet(Span<const Rule> rules) {
  for (const Rule& r : rules) {
    if (!knows_all(r.pattern) || !knows_all(r.replacement)) continue;
    auto c = new_owned<Compiled>();
    c->rule = &r;
    try {
      c->pattern = parse(r.pattern);
      c->replacement = parse(r.replacement);
    } catch (const Error& e) {
      throw e.with_context(fmt::format("rule {}", r.name));
    }
    if (c->pattern->top().empty() || c->pattern->outputs().empty() || !c->pattern->outputs()[0].is_value())
      failf(ErrorKind::value, "rule {}: the pattern needs a node whose results it returns", r.name);
    c->root = c->pattern->outputs()[0].value().node();
    if (!c->root || c->root->num_outputs() != c->pattern->outputs().size() ||
        c->replacement->outputs().size() != c->pattern->outputs().size())
      failf(ErrorKind::value, "rule {}: pattern and replacement must return all results of one node", r.name);
    for (Value* p : c->replacement->inputs())
      if (!c->pattern->find(p->name()) || !c->pattern->find(p->name())->param_of())
        failf(ErrorKind::value, "rule {}: the replacement's input %{} is not one of the pattern's", r.name,
              p->name());
    if (c->root->op())
      by_op_[c->root->op()].push_back(c.get());
    else
      by_kind_[c->root->kind()].push_back(c.get());
    rules_.push_back(std::move(c));
  }
}
RuleSet::~RuleSet() = default;

size_t RuleSet::apply(Graph& graph, const PassOptions& options, int max_rounds) const {
  size_t total = 0;
  std::optional<AliasAnalysis> aliases;
  if (has_mutation(graph)) aliases.emplace(graph);
  // Values that a rewrite makes stand for memory without writers, as what they are made from does.
  auto is_written = [&](const Node& n, const Matcher& m) {
    if (!aliases) return false;
    for (auto& [pattern, in] : m.bound) {
      auto written = [&](auto& self, const In& i) -> bool {
        if (i.is_value()) return aliases->has_writers(*i.value());
        for (const In& item : i.items())
          if (self(self, item)) return true;
        return i.is_constant() && i.constant().is_tensor();
      };
      if (written(written, in)) return true;
    }
    for (const Value* v : n.outputs())
      if (aliases->has_writers(*v)) return true;
    return false;
  };
  // Roots that are replaced are erased after the walk, so that iterators stay valid.
  auto rewrite = [&](Node& n) -> bool {
    const std::vector<const Compiled*>* candidates = nullptr;
    if (n.op()) {
      auto it = by_op_.find(n.op());
      if (it != by_op_.end()) candidates = &it->second;
    } else {
      auto it = by_kind_.find(n.kind());
      if (it != by_kind_.end()) candidates = &it->second;
    }
    if (!candidates) return false;
    bool used = false;
    for (Value* v : n.outputs()) used = used || v->has_uses();
    if (!used) return false;
    for (const Compiled* c : *candidates) {
      if (options.is_off(c->rule->name)) continue;
      Matcher m;
      if (!m.node(*c->root, n)) continue;
      Match match{n, {}};
      for (Value* p : c->pattern->inputs()) {
        auto it = m.bound.find(p);
        if (it != m.bound.end()) match.captures.emplace_back(Symbol(p->name()), it->second);
      }
      if ((c->rule->predicate && !c->rule->predicate(match)) || is_written(n, m)) continue;
      ValueMap map;
      for (Value* p : c->replacement->inputs()) map[p] = match[Symbol(p->name())];
      InsertAt here(n);
      Node* before = n.prev();
      std::vector<In> results = graph.inline_block(c->replacement->top(), map);
      for (Node* made = before->next(); made != &n; made = made->next()) made->set_origin(n.origin());
      for (size_t i = 0; i < results.size(); ++i) {
        Value* v = results[i].value();
        // The new result is the old one in another way: it keeps name and type.
        if (v && v->node() && before->next() != &n && !v->has_uses()) {
          v->set_type(n.output(i).type());
          std::string name = n.output(i).name();
          graph.rename(n.output(i), "replaced");
          graph.set_name(*v, name);
        }
        graph.replace_all_uses(n.output(i), results[i]);
      }
      if (options.report) options.report(fmt::format("rule {}: %{}", c->rule->name, n.name()));
      ++total;
      return true;
    }
    return false;
  };
  auto walk = [&](auto& self, Block& b) -> size_t {
    size_t here = 0;
    for (Node* n = b.first(); n != &b.return_node();) {
      for (Block* inner : n->blocks()) here += self(self, *inner);
      Node* next = n->next();
      if (rewrite(*n)) {
        ++here;
        erase_dead(graph, *n);
      }
      n = next;
    }
    return here;
  };
  for (int round = 0; round < max_rounds && walk(walk, graph.top()); ++round) {
  }
  return total;
}

}  // namespace tern::ir
