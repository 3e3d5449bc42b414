#include "tern/export/assertions.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/sym/shape_env.h"

namespace tern {
namespace {

bool is_symbol(ShapeEnv& env, SymInt s) {
  return s.is_symbolic() && env.table().node(env.unwrap(s)).kind == sym::Kind::symbol;
}

// "u0 <= 5": said by the symbol's range already.
bool is_bound(ShapeEnv& env, SymBool condition) {
  const sym::Node& e = env.table().node(env.unwrap(condition.as_expr()));
  if (!sym::is_relation(e.kind) || e.kind == sym::Kind::ne || e.kind == sym::Kind::eq) return false;
  auto kind = [&](size_t i) { return env.table().node(e.items[i].expr).kind; };
  return (kind(0) == sym::Kind::symbol && kind(1) == sym::Kind::constant) ||
         (kind(1) == sym::Kind::symbol && kind(0) == sym::Kind::constant);
}

class Inserter {
 public:
  Inserter(ir::Graph& graph, capture::Recorder& recorder)
      : graph_(graph), recorder_(recorder), env_(*graph.shapes) {}

  void run() {
    capture::Recorder::Known known = recorder_.known();
    ranges(known);
    relations(known);
    recorder_.forget_to(std::move(known));
  }

 private:
  void ranges(const capture::Recorder::Known& known) {
    for (size_t i = 0; i < env_.symbol_count(); ++i) {
      const ShapeEnv::SymbolInfo& info = env_.symbol(static_cast<uint32_t>(i));
      if (!info.unbacked || info.replacement || info.boolean) continue;
      SymInt s = env_.wrap(info.expr);
      auto it = known.symbols.find(s.bits());
      if (it == known.symbols.end() || !it->second->node()) continue;
      Range r = info.range;
      bool has_min = r.min != -Range::infinity && !(info.size_like && r.min <= 0);
      bool has_max = r.max != Range::infinity && r.max < (int64_t{1} << 62);
      if (!info.size_like && !has_min && !has_max) continue;
      ir::Node& made = *it->second->node();
      ir::InsertAt at(*made.next());
      // A size of at most 2 is no size to PyTorch, which takes other sizes for at least 2.
      bool for_size = info.size_like && !(has_max && r.max <= 2);
      if (info.size_like && !for_size && !has_min) {
        has_min = true;
        r.min = 0;
      }
      ir::In inputs[] = {*it->second, has_min ? ir::In(Value(r.min)) : ir::In(),
                         has_max ? ir::In(Value(r.max)) : ir::In()};
      call(for_size ? "aten::sym_constrain_range_for_size" : "aten::sym_constrain_range", inputs, made);
    }
  }

  void relations(const capture::Recorder::Known& known) {
    for (const RuntimeAssert& a : env_.runtime_asserts()) {
      if (!a.condition.is_symbolic() || is_bound(env_, a.condition)) continue;
      // After the last of the numbers it speaks of; sizes of inputs are known from the start.
      ir::Node* last = nullptr;
      capture::Recorder::Known visible;
      visible.sources = known.sources;
      for (SymInt s : env_.free_symbols(a.condition.as_expr())) {
        if (auto it = known.symbols.find(s.bits()); it != known.symbols.end()) {
          visible.symbols.emplace(it->first, it->second);
          ir::Node* n = it->second->node();
          if (n && !n->block().parent() && (!last || last->is_before(*n))) last = n;
        } else if (auto source = known.sources.find(s.bits()); source != known.sources.end()) {
          ir::Node* n = source->second.first->node();
          if (n && !n->block().parent() && (!last || last->is_before(*n))) last = n;
        } else {
          last = nullptr;
          break;
        }
      }
      ir::Node& before = last ? *last->next() : graph_.top().return_node();
      recorder_.forget_to(std::move(visible));
      ir::InsertAt at(before);
      ir::In condition = recorder_.operand(a.condition.as_expr());
      if (!condition.is_value()) continue;
      std::string message = a.message.empty()
                                ? fmt::format("Runtime assertion failed for expression {} on node '{}'",
                                              a.condition.str(), condition.value()->name())
                                : a.message;
      ir::In inputs[] = {condition, Value(message)};
      call("aten::_assert_scalar", inputs, before);
    }
  }

  void call(std::string_view op, Span<const ir::In> inputs, const ir::Node& like) {
    ir::Node& n = graph_.call(op, inputs);
    n.set_origin(like.origin());
  }

  ir::Graph& graph_;
  capture::Recorder& recorder_;
  ShapeEnv& env_;
};

template <class F>
void for_each_value(const ir::Block& block, F&& f) {
  for (ir::Value* v : block.params()) f(*v);
  for (const ir::Node& n : block) {
    for (ir::Value* v : n.outputs()) f(*v);
    for (ir::Block* b : n.blocks()) for_each_value(*b, f);
  }
}

bool is_symbolic(Span<const SymInt> dims) {
  return std::any_of(dims.begin(), dims.end(), [](SymInt s) { return s.is_symbolic(); });
}

}  // namespace

void insert_assertions(ir::Graph& graph, capture::Recorder& recorder) { Inserter(graph, recorder).run(); }

void simplify_types(ir::Graph& graph) {
  if (!graph.shapes) return;
  std::unordered_map<const ir::Type*, const ir::Type*> done;
  for_each_value(graph.top(), [&](ir::Value& v) {
    const ir::Type* type = v.type();
    if (!type || !type->is_tensor() || !(is_symbolic(type->sizes()) || is_symbolic(type->strides()))) return;
    auto [it, fresh] = done.try_emplace(type, type);
    if (fresh) {
      ir::TensorInfo info = type->info();
      if (info.sizes)
        for (SymInt& s : *info.sizes) s = s.is_symbolic() ? graph.shapes->simplify(s) : s;
      if (info.strides)
        for (SymInt& s : *info.strides) s = s.is_symbolic() ? graph.shapes->simplify(s) : s;
      it->second = ir::Type::tensor(info);
    }
    v.set_type(it->second);
  });
}

std::vector<std::pair<std::string, Range>> symbol_ranges(const ir::Graph& graph) {
  std::vector<std::pair<std::string, Range>> ranges;
  if (!graph.shapes) return ranges;
  ShapeEnv& env = *graph.shapes;
  std::map<int64_t, SymInt> seen;
  std::vector<SymInt> order;
  auto add = [&](SymInt s) {
    if (!s.is_symbolic()) return;
    for (SymInt symbol : env.free_symbols(s))
      if (seen.emplace(symbol.bits(), symbol).second) order.push_back(symbol);
  };
  for_each_value(graph.top(), [&](ir::Value& v) {
    if (!v.type() || !v.type()->is_tensor()) return;
    for (SymInt s : v.type()->sizes()) add(s);
  });
  for (const ir::Node& n : graph.top())
    if (const Value* s = n.meta("unbacked_symbol")) add(s->sym());
  for (SymInt s : order)
    if (is_symbol(env, s))
      ranges.emplace_back(s.str(), env.is_unbacked(s) ? env.range(s) : env.declared_range(s));
  return ranges;
}

void refresh_output_names(ExportedProgram::Data& data) {
  for (size_t i = 0; i < data.signature.outputs.size(); ++i) {
    const ir::Operand& o = data.graph->outputs()[i];
    data.signature.outputs[i].name = o.is_value() ? o.value().name() : "";
  }
}

}  // namespace tern
