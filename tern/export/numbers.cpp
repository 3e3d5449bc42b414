#include "tern/export/numbers.h"

#include "tern/dispatch/op.h"

namespace tern {
namespace {

bool takes_numbers(const Op& op) {
  std::string_view text = op.text, name = text.substr(0, text.find_first_of("(."));
  for (std::string_view n : {"add", "sub", "mul", "div", "floor_divide", "true_divide", "remainder", "fmod"})
    if (name == n || (name.size() == n.size() + 1 && name.starts_with(n) && name.back() == '_')) return true;
  return false;
}

// A comparison gives bool whatever it compares.
DType dtype_for(const ir::Node& n, const Value& number) {
  DType result =
      n.num_outputs() && n.output(0).type()->is_tensor() ? n.output(0).type()->dtype() : DType::undefined;
  if (result != kBool && result != DType::undefined) return result;
  return number.is_bool() ? kBool : number.is_float() ? kFloat : kLong;
}

// Says whether there was such a number; with `only_look` the graph stays as it is.
bool visit(ir::Graph& graph, const ir::Block& block, bool only_look) {
  bool found = false;
  for (ir::Node& n : block) {
    for (const ir::Block* b : n.blocks()) found |= visit(graph, *b, only_look);
    if (!n.op() || takes_numbers(*n.op())) continue;
    const Schema& schema = n.op()->schema();
    for (size_t i = 0; i < n.inputs().size() && i < schema.args.size(); ++i) {
      const SchemaType& type = schema.args[i].type;
      if (type.base != BaseType::tensor || type.list || !n.input(i).is_constant() ||
          !n.input(i).constant().is_number())
        continue;
      found = true;
      if (only_look) return true;
      DType dtype = dtype_for(n, n.input(i).constant());
      ir::InsertAt here(n);
      ir::In inputs[] = {ir::In(n.input(i)), ir::In(Value(dtype)), ir::In(Value(0)), ir::In(Value(kCPU)),
                         ir::In()};
      const ir::Type* made = ir::Type::tensor_like(make_tensor(Dims{}, dtype, kCPU, true));
      ir::Node& tensor = graph.call("aten::scalar_tensor", inputs, made);
      tensor.set_origin(n.origin());
      n.set_input(i, tensor.output());
    }
  }
  return found;
}

}  // namespace

void make_tensors_of_numbers(ir::Graph& graph) { visit(graph, graph.top(), false); }

ExportedProgram with_tensors_for_numbers(const ExportedProgram& program) {
  if (!visit(program.graph(), program.graph().top(), true)) return program;
  auto data = new_shared<ExportedProgram::Data>();
  static_cast<ExportedProgram::Interface&>(*data) = program.data();
  data->graph = program.graph().clone();
  make_tensors_of_numbers(*data->graph);
  return ExportedProgram(data);
}

}  // namespace tern
