#include "tern/export/regions.h"

#include <algorithm>
#include <unordered_set>

#include "tern/capture/closures.h"

namespace tern {
namespace {

using Region = capture::Recorder::Region;

class Wrapper {
 public:
  Wrapper(ir::Graph& graph, const capture::Recorder& recorder) : graph_(graph), regions_(recorder.regions) {}

  void grad(ir::Block& block, bool outside) {
    auto key = [](const Region& r) { return r.grad; };
    wrap(
        block, outside, key,
        [&](bool enabled) -> ir::Node& {
          ir::Node& node =
              graph_.make("higher_order::wrap_with_set_grad_enabled", {}, {}, "wrap_with_set_grad_enabled");
          node.set_attribute("enabled", Value(enabled));
          return node;
        },
        [&](ir::Block& b, bool inside) { grad(b, inside); });
  }

  void autocast(ir::Block& block, const std::optional<AutocastSetting>& outside) {
    using Key = std::optional<AutocastSetting>;
    auto key = [](const Region& r) { return r.autocast; };
    wrap(
        block, outside, key,
        [&](const Key& setting) -> ir::Node& {
          ir::Node& node = graph_.make("higher_order::wrap_with_autocast", {}, {}, "wrap_with_autocast");
          node.set_attribute("device_type", Value("cpu"));
          node.set_attribute("dtype", Value(setting ? setting->dtype : kBFloat16));
          node.set_attribute("enabled", Value(setting && setting->enabled));
          node.set_attribute("cache_enabled", Value(true));
          return node;
        },
        [&](ir::Block& b, const Key& inside) { autocast(b, inside); });
  }

 private:
  // Runs of nodes with another key than `outside`; nodes without one (sizes, unpacked lists) go with the run
  // they stand in when they need it, else before it.
  template <class Key, class KeyOf, class Make, class Inner>
  void wrap(ir::Block& block, const Key& outside, KeyOf&& key_of, Make&& make, Inner&& inner) {
    for (ir::Node* n = block.first(); !n->is_return();) {
      auto noted = regions_.find(n);
      Key key = noted == regions_.end() ? outside : key_of(noted->second);
      if (key == outside) {
        for (ir::Block* b : n->blocks()) inner(*b, outside);
        n = n->next();
        continue;
      }
      std::vector<ir::Node*> run;
      std::unordered_set<const ir::Node*> members;
      auto add = [&](ir::Node* m) {
        run.push_back(m);
        members.insert(m);
      };
      ir::Node* end = n;  // the node after the run
      for (ir::Node* m = n; !m->is_return(); m = m->next()) {
        auto found = regions_.find(m);
        if (found == regions_.end() && !m->blocks().empty()) break;  // a region of mixed modes
        if (found == regions_.end()) continue;
        if (!(key_of(found->second) == key)) break;
        end = m->next();
      }
      while (!end->is_return() && !regions_.count(end) && uses_any(*end, members, n, end)) end = end->next();
      std::vector<ir::Node*> before;
      for (ir::Node* m = n; m != end; m = m->next()) {
        if (regions_.count(m) || uses(*m, members))
          add(m);
        else
          before.push_back(m);
      }
      for (ir::Node* m : before) m->move_before(*n);
      n = end;
      ir::Node* wrapped;
      {
        ir::InsertAt at(*end);
        wrapped = &make(key);
      }
      wrapped->set_origin(run[0]->origin());
      ir::Block& body = wrapped->add_block();
      // The region as one node, where its nodes agree in the other mode too.
      const Region& first = regions_.at(run[0]);
      bool uniform = std::all_of(run.begin(), run.end(), [&](ir::Node* m) {
        auto r = regions_.find(m);
        return r == regions_.end() || (r->second.grad == first.grad && r->second.autocast == first.autocast);
      });
      if (uniform) regions_.emplace(wrapped, Region(first));
      for (ir::Node* m : run) m->move_before(body.return_node());
      give_results(*wrapped, body, members);
      capture::lift_closures(*wrapped, 0);
      for (ir::Node& m : body)
        for (ir::Block* b : m.blocks()) inner(*b, key);
    }
  }

  static bool uses(const ir::Node& n, const std::unordered_set<const ir::Node*>& members) {
    auto look = [&](auto& self, const ir::Operand& o) -> bool {
      if (o.is_list())
        return std::any_of(o.list().begin(), o.list().end(),
                           [&](const ir::Operand& i) { return self(self, i); });
      return o.is_value() && o.value().node() && members.count(o.value().node());
    };
    return std::any_of(n.inputs().begin(), n.inputs().end(),
                       [&](const ir::Operand& o) { return look(look, o); });
  }
  // Whether a node takes apart a list that the run [first, end) makes: lists do not leave a region.
  static bool uses_any(const ir::Node& n, const std::unordered_set<const ir::Node*>&, const ir::Node* first,
                       const ir::Node* end) {
    if (!n.is("prim::ListUnpack") && !n.is("prim::TupleUnpack")) return false;
    if (!n.input(0).is_value()) return false;
    for (const ir::Node* m = first; m != end; m = m->next())
      if (n.input(0).value().node() == m) return true;
    return false;
  }

  // What is used after the region is what it gives.
  static void give_results(ir::Node& wrapped, ir::Block& body,
                           const std::unordered_set<const ir::Node*>& members) {
    auto inside = [&](const ir::Node* user) {
      for (; user; user = user->parent()) {
        if (members.count(user)) return true;
        if (user->is_return() && &user->block() == &body) return true;
      }
      return false;
    };
    for (ir::Node& m : body)
      for (ir::Value* v : m.outputs()) {
        std::vector<ir::Node*> users;
        for (ir::Use& u : v->uses())
          if (!inside(u.user)) users.push_back(u.user);
        if (users.empty()) continue;
        ir::Value& out = wrapped.add_output(v->type(), "getitem");
        for (ir::Node* user : users) user->replace_input(*v, out);
        body.add_return(*v);
      }
  }

  ir::Graph& graph_;
  FlatMap<const ir::Node*, Region> regions_;
};

}  // namespace

void wrap_regions(ir::Graph& graph, const capture::Recorder& recorder, const Region& outside) {
  Wrapper wrapper(graph, recorder);
  wrapper.autocast(graph.top(), outside.autocast);
  wrapper.grad(graph.top(), outside.grad);
}

}  // namespace tern
