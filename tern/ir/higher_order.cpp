#include "tern/ir/higher_order.h"

#include <algorithm>

#include "tern/ir/graph.h"

namespace tern::ir {
namespace {

using Part = HigherOrderPart;

constexpr Part cond[] = {
    {Part::value}, {Part::graph, "true_graph"}, {Part::graph, "false_graph"}, {Part::list}};
constexpr Part map[] = {{Part::graph, "body_graph"}, {Part::list, "num_mapped"}, {Part::list}};
constexpr Part while_loop[] = {{Part::graph, "while_loop_cond_graph"},
                               {Part::graph, "while_loop_body_graph"},
                               {Part::tuple, "num_carried", true},
                               {Part::tuple}};
constexpr Part scan[] = {{Part::graph, "scan_combine_graph"},
                         {Part::list, "num_init", true},
                         {Part::list, "num_xs"},
                         {Part::tuple}};
constexpr Part set_grad[] = {{Part::constant, "enabled"}, {Part::graph, "submod"}, {Part::spread}};
constexpr Part autocast[] = {{Part::constant, "device_type"}, {Part::constant, "dtype"},
                             {Part::constant, "enabled"},     {Part::constant, "cache_enabled"},
                             {Part::graph, "submod"},         {Part::spread}};

constexpr HigherOrder all[] = {
    {"higher_order::cond", cond, 2, 1, false},
    {"higher_order::map_impl", map, 1, 0, false},
    {"higher_order::while_loop", while_loop, 2, 0, false},
    {"higher_order::scan", scan, 1, 0, false},
    {"higher_order::wrap_with_set_grad_enabled", set_grad, 1, 0, true},
    {"higher_order::wrap_with_autocast", autocast, 1, 0, true},
};

}  // namespace

const HigherOrder* find_higher_order(std::string_view kind) {
  if (!kind.starts_with("higher_order::")) return nullptr;
  for (const HigherOrder& op : all)
    if (op.kind == kind) return &op;
  return nullptr;
}

Operands operands_of(const Node& node) {
  auto count = [&](Symbol name, size_t otherwise) {
    const tern::Value* v = node.attribute(name);
    size_t n = v && v->is_int() ? static_cast<size_t>(std::max<int64_t>(v->to_int(), 0)) : otherwise;
    return std::min(n, node.inputs().size());
  };
  if (node.is("higher_order::map_impl")) return {0, count("num_mapped", 1)};
  if (node.is("higher_order::while_loop")) return {count("num_carried", node.num_outputs()), 0};
  if (node.is("higher_order::scan")) {
    size_t carried = count("num_init", 1);
    return {carried, std::min(count("num_xs", 1), node.inputs().size() - carried)};
  }
  return {};
}

}  // namespace tern::ir
