// Recorder: writes every call it sees into a graph. Mounted on the record rung it sees what the user called
// (trace, training export); on the core rung what is left after mutation and composites are gone.
#pragma once
#include "tern/base/pointer.h"
#include "tern/dispatch/autocast.h"
#include "tern/dispatch/ladder.h"
#include "tern/dispatch/recording.h"
#include "tern/ir/graph.h"

namespace tern::capture {

// What becomes of a tensor that the graph has not seen: a constant, an input, an error.
using Unknown = Function<ir::In(const Tensor& t)>;

class Recorder : public Mode, public TraceListener {
 public:
  Recorder(ir::Graph& graph, Rung rung);

  // Ties a tensor to a value of the graph. The recorder keeps the tensor, so that its address stays its own.
  void bind(const Tensor& t, ir::Value& v);
  void bind(SymInt symbol, ir::Value& v);
  bool knows(const Tensor& t) const { return t.defined() && values_.count(t.body()); }
  ir::Value* find(const Tensor& t) const;
  // A value as an operand: tensors and symbols become uses; containers become lists.
  ir::In operand(const tern::Value& v);
  ir::In operand(const Tensor& t);
  ir::In operand(SymInt s);

  // What is known of symbols inside a block is not known outside of it.
  struct Known {
    FlatMap<int64_t, ir::Value*> symbols;
    FlatMap<int64_t, std::pair<ir::Value*, int64_t>> sources;
  };
  Known known() const { return {symbols_, sources_}; }
  void forget_to(Known k) {
    symbols_ = std::move(k.symbols);
    sources_ = std::move(k.sources);
  }

  void call(const Op& op, const Arg* args, tern::Value* results) override;
  SymInt size(const Tensor& t, int64_t d, Loc loc) override;
  SymInt numel(const Tensor& t, Loc loc) override;
  void left(const Tensor& t, std::string_view as) override;
  std::optional<Scalar> item(const Tensor& t, Loc loc) override;
  std::optional<SymInt> unknown_size(Loc loc) override;

  ir::Graph& graph;
  Shared<ShapeEnv> shapes;                    // symbols made here: sizes while tracing, item() under export
  Unknown unknown;                            // by default an inline constant
  std::string_view item_kind = "aten::item";  // how the number in a tensor is taken out
  bool sizes_as_nodes = false;                // a trace: size() is recorded; an export has symbols already
  bool force_outplace = false;                // in-place calls are recorded as their functional form
  static const ir::Origin* here();            // the user's line and module
  // Under which modes a node was recorded, where they are not those the capture began with: such nodes become
  // regions of the program (wrap_with_set_grad_enabled, wrap_with_autocast).
  struct Region {
    bool grad = true;
    std::optional<AutocastSetting> autocast;
  };
  FlatMap<const ir::Node*, Region> regions;
  bool note_regions = false;
  void note(const ir::Node& node);
  void forget(const ir::Node& node) { regions.erase(&node); }
  // While a graph is retraced: the node being interpreted; its origin and name are passed on.
  const ir::Node* source = nullptr;

 private:
  ir::Node& record(const Op& op, const Arg* args);
  ir::In operand(const Arg& a);
  void bind_results(ir::Node& node, const Op& op, tern::Value* results);
  ir::In materialise(SymInt s);
  SymInt known_number(ir::Node& node, int64_t value, const char* name, Loc loc);
  const Op* outplace(const Op& op, const Arg* args, std::vector<ir::In>& inputs);
  void warn_of_views(const Op& op, const Tensor& changed);

  Rung rung_;
  FlatMap<const TensorBody*, ir::Value*> values_;
  std::vector<Tensor> kept_;
  FlatMap<const StorageBody*, size_t> handles_;  // how many of the tensors share it
  FlatMap<int64_t, ir::Value*> symbols_;         // by bits
  // Where a size of the graph's inputs can be read: symbol -> (value, dim).
  FlatMap<int64_t, std::pair<ir::Value*, int64_t>> sources_;
};

// item(), under its name of core ATen too.
inline bool takes_number_out(const ir::Node& n) {
  return n.is("aten::item") || n.is("aten::_local_scalar_dense");
}

}  // namespace tern::capture
