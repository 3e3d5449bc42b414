// The class behind retrace(): nodes in retrace.cpp, branches and loops in retrace_control.cpp. Internal to
// this room.
#pragma once
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "tern/base/pointer.h"
#include "tern/capture/functional.h"
#include "tern/capture/known.h"
#include "tern/capture/recorder.h"
#include "tern/capture/retrace.h"
#include "tern/ir/builtins.h"
#include "tern/sym/shape_env.h"
#include "tern/tree/tree.h"

namespace tern::ir {
struct HigherOrder;
}

namespace tern::capture {

// Assertions have a body that checks; what the program needs is the node.
inline bool is_effect(const Op& op) { return op.is(op_impure) && !op.schema().mutates(); }

// The core rung: expands what it is asked to, records the rest.
class Core : public Recorder {
 public:
  Core(ir::Graph& graph, const Function<bool(const Op&)>& expand)
      : Recorder(graph, rung_core), expand_(expand) {}
  void call(const Op& op, const Arg* args, tern::Value* results) override {
    if (op.body && expand_ && !keeps(op)) return op.body(op, args, results);
    Recorder::call(op, args, results);
  }
  bool keeps(const Op& op) const override { return is_effect(op) || (expand_ && !expand_(op)); }

 private:
  const Function<bool(const Op&)>& expand_;
};

class Retracer {
 public:
  Retracer(const ir::Graph& from, const RetraceOptions& options)
      : from_(from), options_(options), graph_(new_owned<ir::Graph>()), core_(*graph_, options.expand) {
    graph_->shapes = options.shapes ? options.shapes : from.shapes;
    if (!graph_->shapes) graph_->shapes = new_shared<ShapeEnv>();
    graph_->name = from.name;
    core_.shapes = graph_->shapes;
    core_.item_kind = options.item_kind;
    functional_.on_copies = [this](const Op& op, const tern::Value& names,
                                   const std::vector<tern::Value>& inputs) {
      return record_on_copies("higher_order::auto_functionalized_v2", tern::Value(op.qualified()), names,
                              inputs);
    };
  }
  Retraced run();

 private:
  tern::Value example(const ir::Type& type);
  tern::Value plain(const tern::Value& v) { return options_.functional ? functional_.unwrap(v) : v; }
  tern::Value value_of(const ir::Operand& o);
  void run_block(const ir::Block& block);
  void run_node(const ir::Node& node);
  const Op& by_numbers(const Op& op, const std::vector<tern::Value>& inputs) const;
  void check_change(const ir::Node& node, const std::vector<tern::Value>& inputs) const;
  void note_made(const tern::Value& v);
  void run_structural(const ir::Node& node, std::vector<tern::Value>& inputs);
  tern::Value constant_tensor(ir::Builtin builtin, const std::vector<tern::Value>& inputs);
  static bool tree_of_numbers(const tern::Value& v);
  static bool any_symbolic(const std::vector<tern::Value>& inputs);
  tern::Value record_number(const ir::Node& node, const std::vector<tern::Value>& inputs);
  void note_product(const ir::Node& node, const std::vector<tern::Value>& inputs, SymInt result);

  // ---- what is known only when the program runs ----
  // What a path that was not taken gives: nobody reads it.
  struct Uninitialized final : Box {
    std::optional<int64_t> grows;  // rows before the first: nothing along this dim
  };
  static tern::Value uninitialized();
  tern::Value append_row(const ir::Node& node, const std::vector<tern::Value>& inputs);
  static bool is_uninitialized(const tern::Value& v) {
    return v.is_object() && dynamic_cast<const Uninitialized*>(v.box());
  }
  static bool is_symbolic(const tern::Value& v) { return v.is_int() && v.sym().is_symbolic(); }
  bool is_boolean(const tern::Value& v) const;
  static std::optional<bool> known_truth(const tern::Value& v);
  tern::Value new_number(ir::Value& v);
  Tensor stand_in(const Tensor& like, const tern::Value& what);
  // Runs a block inside a new one; gives what it returns and what it wrote.
  struct Branch {
    ir::Block* block;
    std::vector<tree::Flat> returns;            // plain
    std::vector<Functional::Write> writes;      // `before` holds the value at the end
    std::vector<std::vector<ir::In>> operands;  // of the leaves of the returns, made inside the block
  };
  Branch run_inside(const ir::Block& source, ir::Block& target);
  static const tern::Value& only(const tree::Flat& flat);
  static void align(std::string_view what, tree::Flat& a, std::vector<ir::In>& in_a, tree::Flat& b,
                    std::vector<ir::In>& in_b);
  static Functional::Write* find(std::vector<Functional::Write>& writes, const Storage& s);
  tern::Value merge(const tern::Value& a, const tern::Value& b);
  void give(ir::Node& node, size_t output, const tern::Value& fake, const ir::Value* to);
  void set_value(const ir::Value& v, const tern::Value& plain);
  const ir::Type* open_type(const tern::Value& a, const tern::Value& b) const;
  [[noreturn]] static void refuse(std::string_view what, const tern::Value& a, const tern::Value& b);
  tern::Value choose(ir::Node& made, ir::Block& block_a, ir::In a, tern::Value va, ir::Block& block_b,
                     ir::In b, tern::Value vb, std::string_view name);
  void take(const ir::Node& node, size_t path);
  static std::optional<std::string> always_raises(const ir::Block& block);
  void assume(const ir::In& condition, bool expected, const std::string& otherwise);
  void run_if(const ir::Node& node);
  void run_region(const ir::Node& node);
  void run_higher_order(const ir::Node& node, const ir::HigherOrder& op);
  void run_auto_functionalized(const ir::Node& node);
  std::vector<tern::Value> record_on_copies(Symbol kind, const tern::Value& target, const tern::Value& names,
                                            const std::vector<tern::Value>& inputs);
  static bool same_memory(const tern::Value& a, const tern::Value& b);
  void run_loop(const ir::Node& node);
  // What a loop hands from round to round, a leaf of a carried value.
  struct Carried {
    tern::Value start;       // as the caller handles it
    bool stays = false;      // the same memory all along (x += 1): not carried, its memory is
    bool open = false;       // an int or bool that changes
    std::vector<bool> free;  // sizes that change
    bool changes() const { return !stays && (start.is_tensor() || open); }
  };
  Tensor in_any_round(const Tensor& start, const std::vector<bool>& free);
  bool adjust(Carried& c, const tern::Value& given, const tern::Value& outer_given, std::string_view name);
  void record_loop(const ir::Node& node, const tern::Value& trips, const tern::Value& condition,
                   const std::vector<tern::Value>& state, int64_t first);
  // Rounds of loops are written out as long as that takes no more nodes than this.
  static constexpr int64_t max_unrolled = 20000;

  const ir::Graph& from_;
  const RetraceOptions& options_;
  Owned<ir::Graph> graph_;
  Core core_;
  Functional functional_;
  std::unordered_map<const ir::Value*, tern::Value> values_;
  std::unordered_map<const TensorBody*, Tensor> constants_;
  KnownTensors known_;
  std::unordered_set<int64_t> booleans_;                             // symbols that are bools, by their bits
  std::unordered_map<int64_t, std::pair<SymInt, double>> products_;  // symbols that are a size times a factor
  bool prints_ = false;                                              // something is printed
  std::vector<std::unordered_set<const Box*>> made_;                 // lists and dicts of the blocks around
  int64_t steps_ = 0;                                                // nodes that were run
};

}  // namespace tern::capture
