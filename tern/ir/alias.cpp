#include "tern/ir/alias.h"

#include <algorithm>

#include "tern/ir/pass.h"

namespace tern::ir {
namespace {

bool intersect(std::vector<uint32_t>& a, std::vector<uint32_t>& b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    if (a[i] == b[k]) return true;
    a[i] < b[k] ? ++i : ++k;
  }
  return false;
}

bool uses(const Node& node, const Node& producer) {
  auto in = [&](auto& self, const Operand& o) -> bool {
    if (o.is_value()) return o.value().node() == &producer;
    if (o.is_list())
      for (const Operand& item : o.list())
        if (self(self, item)) return true;
    return false;
  };
  for (const Operand& o : node.inputs())
    if (in(in, o)) return true;
  for (const Block* b : node.blocks()) {
    for (const Node& inner : *b)
      if (uses(inner, producer)) return true;
    if (uses(b->return_node(), producer)) return true;
  }
  return false;
}

}  // namespace

template <class F>
void AliasAnalysis::each_reachable(const tern::Value& v, F&& f) const {
  const void* place = nullptr;
  if (v.is_tensor())
    place = v.tensor().defined() && !v.tensor().is_fake()
                ? static_cast<const void*>(v.tensor().storage().get())
                : static_cast<const void*>(v.tensor().body());
  else if (v.is_list() || v.is_tuple() || v.is_dict() || v.is_object())
    place = v.box();
  if (auto it = known_memory_.find(place); place && it != known_memory_.end())
    each_reachable(it->second, 0, f);
  if (v.is_list() || v.is_tuple())
    for (const tern::Value& item : v.items()) each_reachable(item, f);
}

template <class F>
void AliasAnalysis::each_reachable(const Operand& o, F&& f) const {
  if (o.is_constant()) return each_reachable(o.constant(), f);
  if (o.is_list()) {
    for (const Operand& item : o.list()) each_reachable(item, f);
    return;
  }
  if (auto it = elements_.find(&o.value()); it != elements_.end())
    each_reachable(it->second, kind_of(*o.value().type()), f);
}

// Everything a node reads, writes or makes, its blocks included.
template <class F>
void AliasAnalysis::each_touched(const Node& node, F&& f) const {
  for (const Operand& o : node.inputs()) each_reachable(o, f);
  for (const Value* v : node.outputs())
    if (auto it = elements_.find(v); it != elements_.end())
      each_reachable(it->second, kind_of(*v->type()), f);
  for (const Block* b : node.blocks()) {
    for (const Node& inner : *b) each_touched(inner, f);
    for (const Operand& o : b->returns()) each_reachable(o, f);
  }
}

bool AliasAnalysis::may_alias(const Value& a, const Value& b) const {
  if (&a == &b) return is_mutable(*a.type());
  auto x = elements_.find(&a), y = elements_.find(&b);
  if (x == elements_.end() || y == elements_.end()) return false;
  uint32_t ka = kind_of(*a.type()), kb = kind_of(*b.type());
  if (ka && kb && ka != kb) return false;
  std::vector<uint32_t> p, q;
  each(x->second, ka, [&](uint32_t l) { p.push_back(l); });
  each(y->second, kb, [&](uint32_t l) { q.push_back(l); });
  return intersect(p, q);
}

bool AliasAnalysis::may_contain_alias(const Value& a, const Value& b) const {
  auto x = elements_.find(&a), y = elements_.find(&b);
  if (x == elements_.end() || y == elements_.end()) return false;
  std::vector<uint32_t> p, q;
  each_reachable(x->second, kind_of(*a.type()), [&](uint32_t l) { p.push_back(l); });
  each_reachable(y->second, kind_of(*b.type()), [&](uint32_t l) { q.push_back(l); });
  return intersect(p, q);
}

std::vector<uint32_t> AliasAnalysis::reachable(const Operand& o) const {
  std::vector<uint32_t> out;
  each_reachable(o, [&](uint32_t l) { out.push_back(l); });
  return out;
}
std::vector<uint32_t> AliasAnalysis::written(const Node& node) const {
  std::vector<uint32_t> out;
  each_written(node, false, [&](uint32_t l) { out.push_back(l); });
  return out;
}

bool AliasAnalysis::reaches_everything(uint32_t element) const {
  int depth = 0;
  for (int32_t c = static_cast<int32_t>(component_[element]); c >= 0;) {
    if (++depth > 100 || sets_[static_cast<size_t>(c)].count == everything) return true;
    int32_t inside = contents_[static_cast<size_t>(c)];
    c = inside == c ? -1 : inside;
  }
  return false;
}
bool AliasAnalysis::reaches_everything(const Operand& o) const {
  if (o.is_list()) {
    for (const Operand& item : o.list())
      if (reaches_everything(item)) return true;
    return false;
  }
  auto it = o.is_value() ? elements_.find(&o.value()) : elements_.end();
  return it != elements_.end() && reaches_everything(it->second);
}

bool AliasAnalysis::has_writers(const Value& v) const {
  if (writes_.empty()) return false;
  auto it = elements_.find(&v);
  if (it == elements_.end()) return false;
  if (reaches_everything(it->second)) return true;
  bool any = false;
  each_reachable(it->second, kind_of(*v.type()), [&](uint32_t l) { any = any || !writers_[l].empty(); });
  return any;
}
bool AliasAnalysis::has_writers(const Operand& o) const {
  if (writes_.empty()) return false;
  if (o.is_value()) return has_writers(o.value());
  bool any = false;
  each_reachable(o, [&](uint32_t l) { any = any || !writers_[l].empty(); });
  return any;
}
bool AliasAnalysis::has_writers(const Node& node) const {
  for (const Operand& o : node.inputs())
    if (has_writers(o)) return true;
  for (const Value* v : node.outputs())
    if (has_writers(*v)) return true;
  return false;
}

bool AliasAnalysis::writes(const Node& node) const {
  bool any = false;
  each_written(node, true, [&](uint32_t) { any = true; });
  return any;
}
bool AliasAnalysis::writes_to(const Node& node, const Value& v) const {
  auto it = elements_.find(&v);
  if (it == elements_.end()) return false;
  std::vector<uint32_t> mine, its;
  each_written(node, true, [&](uint32_t l) { mine.push_back(l); });
  each_reachable(it->second, kind_of(*v.type()), [&](uint32_t l) { its.push_back(l); });
  return intersect(mine, its);
}

bool AliasAnalysis::escapes(const Value& v) const {
  auto it = elements_.find(&v);
  if (it == elements_.end()) return false;
  if (reaches_everything(it->second)) return true;
  bool any = false;
  each_reachable(it->second, kind_of(*v.type()), [&](uint32_t l) { any = any || outside_[l]; });
  return any;
}
bool AliasAnalysis::safe_to_merge(const Value& a, const Value& b) const {
  if (!is_mutable(*a.type()) && !is_mutable(*b.type())) return true;
  if (has_writers(a) || has_writers(b)) return false;
  return !escapes(a) || !escapes(b);
}

bool AliasAnalysis::conflict(const Node& first, const Node& second) const {
  if (uses(second, first)) return true;
  if (has_side_effect(first) && has_side_effect(second)) return true;
  std::vector<uint32_t> written_first, written_second;
  each_written(first, true, [&](uint32_t l) { written_first.push_back(l); });
  each_written(second, true, [&](uint32_t l) { written_second.push_back(l); });
  if (written_first.empty() && written_second.empty()) return false;
  std::vector<uint32_t> touched_first, touched_second;
  each_touched(first, [&](uint32_t l) { touched_first.push_back(l); });
  each_touched(second, [&](uint32_t l) { touched_second.push_back(l); });
  return intersect(written_first, touched_second) || intersect(written_second, touched_first);
}

bool AliasAnalysis::can_move_before(const Node& node, const Node& other) const {
  if (&node.block() != &other.block()) return false;
  if (&node == &other || node.is_before(other))
    return &node == &other || node.next() == &other || can_move_after(node, *other.prev());
  for (const Node* n = &other; n != &node; n = n->next())
    if (conflict(*n, node)) return false;
  return true;
}
bool AliasAnalysis::can_move_after(const Node& node, const Node& other) const {
  if (&node.block() != &other.block() || other.is_return()) return false;
  if (&node == &other) return true;
  if (other.is_before(node)) return other.next() == &node || can_move_before(node, *other.next());
  for (const Node* n = node.next(); n != other.next(); n = n->next())
    if (conflict(node, *n)) return false;
  return true;
}

}  // namespace tern::ir
