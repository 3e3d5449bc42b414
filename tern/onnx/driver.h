// The state of one lowering: graphs under construction, where IR values went, names and constants. Inside
// this room only.
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "tern/ir/higher_order.h"
#include "tern/onnx/lower.h"
#include "tern/onnx/onnx.h"

namespace tern::onnx {

// What an IR value became: a value of the ONNX graph, a constant, or a list of such.
struct Slot {
  enum class Kind : uint8_t { constant, ref, list } kind = Kind::constant;
  Ref ref = {};
  tern::Value constant = {};
  std::vector<Slot> items = {};

  static Slot of(Ref r) { return {Kind::ref, std::move(r), {}, {}}; }
  static Slot of(tern::Value v) { return {Kind::constant, {}, std::move(v), {}}; }
  static Slot list(std::vector<Slot> items) { return {Kind::list, {}, {}, std::move(items)}; }
  bool is_constant() const { return kind == Kind::constant; }
  bool is_none() const { return is_constant() && constant.is_none(); }
};

class Driver {
 public:
  Driver(const Source& source, const ExportOptions& options);
  Model run();

  // ---- for Call and rules ----
  int opset() const { return static_cast<int>(options_.opset); }
  Slot slot(const ir::Operand& operand);
  Ref ref(const Slot& slot, std::string_view what);  // a constant becomes an initializer
  Size size(const Slot& slot);
  Size size(SymInt value);
  std::vector<Ref> emit(std::string_view op, const Inputs& inputs, Attributes attributes, size_t outputs,
                        DType dtype);
  Ref initializer(const Tensor& value);
  Ref as_vector(const Size& size);
  Ref as_scalar(const Size& size);
  void bind(const ir::Value& value, Slot slot);
  std::string fresh(std::string_view hint);
  [[noreturn]] void refuse(const ir::Node& node, std::string_view why) const;

 private:
  class Body;
  struct Scope {
    GraphProto* graph;
    std::unordered_set<std::string> produced;   // by nodes of this graph
    std::vector<std::string> vectors, scalars;  // cached here: not visible when the scope ends
  };

  void lower_block(const ir::Block& block);
  void lower_node(const ir::Node& node);
  bool lower_structural(const ir::Node& node);
  bool lower_number(const ir::Node& node);
  bool touches_complex(const ir::Node& node);
  bool lower_with_rule(const ir::Node& node, const Op& op);
  void lower_if(const ir::Node& node);
  void lower_loop(const ir::Node& node);
  void lower_higher_order(const ir::Node& node);
  void lower_while(const ir::Node& node);
  void lower_scan(const ir::Node& node, ir::Operands groups);
  void finish_node(const ir::Node& node, size_t first);
  Ref output_of_block(const Slot& slot, const ir::Type* type, DType dtype);
  void add_inputs();
  void add_outputs();
  void annotate(NodeProto& n) const;
  TypeProto type_of(const ir::Type* type, const Ref& ref);
  Dimension dimension(SymInt size) const;
  void note_value(const ir::Value& value, const Ref& ref);
  void remove_unused();
  void fuse_gemm();

  const Source& source_;
  ExportOptions options_;
  Model model_;
  std::vector<Scope> scopes_;
  std::unordered_map<const ir::Value*, Slot> slots_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, uint32_t> counters_;
  std::unordered_map<std::string, Ref> constants_;
  std::unordered_map<std::string, Ref> vectors_, scalars_;  // the same size in the other form
  std::unordered_map<int64_t, std::pair<const ir::Value*, int64_t>> symbol_sources_;
  const ir::Node* current_ = nullptr;
  std::vector<std::string> problems_;
  std::unordered_map<std::string, size_t> problem_counts_;
};

// Applies the rule of `rules` whose condition holds; false where none does.
bool apply_rules(Driver& driver, Call& call, const Op& op, std::string_view rules);
// Checks the syntax of an operator's rules, for tests; throws Error(value) that names the place.
void check_rules(const Op& op);
DType result_dtype(std::string_view onnx_op, const Inputs& inputs, const Attributes& attributes);

}  // namespace tern::onnx
