// Writers of the .pt2 schema's JSON, each with more to say than the one before: values, graphs, and in
// pt2_json.cpp the whole program. Internal to this room.
#pragma once
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tern/dispatch/schema.h"
#include "tern/export/program.h"
#include "tern/export/pt2_symbols.h"
#include "tern/io/json.h"
#include "tern/sym/shape_env.h"

namespace tern::pt2 {

// Arguments, constants, and what tensors and sizes are.
class ValueWriter {
 protected:
  explicit ValueWriter(Shared<ShapeEnv> shapes) : shapes_(std::move(shapes)) {}

  // {"key": value}, with the value written by `f`.
  template <class F>
  void one(std::string_view key, F&& f) {
    w_.begin_object();
    w_.key(key);
    f();
    w_.end_object();
  }
  template <class T>
  void one_value(std::string_view key, const T& v) {
    one(key, [&] { w_.value(v); });
  }
  void named(const std::string& name) { one_value("name", name); }
  void empty_object() {
    w_.begin_object();
    w_.end_object();
  }
  void empty_array() {
    w_.begin_array();
    w_.end_array();
  }

  void value_argument(const ir::Value& v);
  void argument(const ir::Operand& o, const SchemaType* type = nullptr);
  void operand_list(const std::vector<const ir::Operand*>& items);
  void constant_argument(const Value& v, const SchemaType* type = nullptr);
  void tensor_meta(const ir::Type& type);
  void sym_int(SymInt s);
  void sym_expr(std::string_view hint_key, SymInt s);

  Shared<ShapeEnv> shapes_;
  io::JsonWriter w_;

 private:
  void constant_list(const Value& v, BaseType base);
  void device(Device d);
  void dims(Span<const SymInt> all);
};

// The program's graph and the graphs inside its nodes.
class GraphWriter : protected ValueWriter {
 protected:
  explicit GraphWriter(const ExportedProgram& program);

  void write_graph(const ir::Block& block, bool single_tensor_return);
  void custom_object(const InputSpec& s);

  const ExportedProgram::Data& data_;
  const ir::Graph& graph_;

 private:
  void write_values(const ir::Block& block);
  void write_node(const ir::Node& n);
  void named_argument(std::string_view name, bool keyword, const Function<void()>& arg);
  void schema_inputs(const ir::Node& n, const Schema& schema);
  void plain_inputs(const ir::Node& n, bool sym);
  void higher_order_inputs(const ir::Node& n);
  void named_inputs(const ir::Node& n);
  void tied_inputs(const ir::Node& n);
  void node_output(const ir::Value& v);
  void metadata(const ir::Node& n);
  template <class F>
  void for_values(const ir::Block& block, F&& f);

  GraphSymbols symbols_;
  std::unordered_map<std::string_view, size_t> next_graph_;  // by the operator's kind
};

}  // namespace tern::pt2
