#include "tern/export/script_control.h"

#include "tern/base/format.h"
#include "tern/ir/higher_order.h"

namespace tern {
namespace {

class Writer {
 public:
  explicit Writer(ir::Graph& graph) : graph_(graph) {}

  void run(ir::Block& block) {
    for (ir::Node& n : block) {
      for (ir::Block* b : n.blocks()) run(*b);
      if (n.is("prim::If")) {
        ir::InsertAt here(n);
        n.set_input(0, as_bool(ir::In(n.input(0))));
      } else if (n.is("prim::Loop")) {
        {
          ir::InsertAt here(n);
          n.set_input(1, as_bool(ir::In(n.input(1))));
        }
        ir::Node& end = n.blocks()[0]->return_node();
        ir::InsertAt inside(end);
        end.set_input(0, as_bool(ir::In(end.input(0))));
      } else if (n.kind().view().starts_with("higher_order::")) {
        write(n);
      }
    }
  }

 private:
  void write(ir::Node& n) {
    ir::InsertAt here(n);
    std::vector<ir::In> results;
    if (n.is("higher_order::cond"))
      results = write_cond(n);
    else if (n.is("higher_order::while_loop"))
      results = write_while(n);
    else if (n.is("higher_order::map_impl") || n.is("higher_order::scan"))
      results = write_rounds(n);
    else if (n.is("higher_order::wrap_with_set_grad_enabled"))
      results = write_region(n);
    else
      failf(ErrorKind::not_supported, "{} (%{}{}): TorchScript has no such operator", n.kind().view(),
            n.name(), n.origin() && n.origin()->has_place() ? " @ " + n.origin()->place() : "");
    for (size_t i = 0; i < n.num_outputs(); ++i) graph_.replace_all_uses(n.output(i), results.at(i));
    while (!n.blocks().empty()) n.remove_block(n.blocks().size() - 1);
    graph_.erase(n);
  }

  ir::In call(std::string_view op, std::initializer_list<ir::In> inputs, const ir::Type* type = nullptr) {
    return ir::In(graph_.call(op, Span<const ir::In>(inputs.begin(), inputs.size()), type).output());
  }
  ir::In make(Symbol kind, std::initializer_list<ir::In> inputs, const ir::Type* type) {
    return ir::In(graph_.make(kind, Span<const ir::In>(inputs.begin(), inputs.size()), {&type, 1}).output());
  }
  ir::In as_bool(const ir::In& in) {
    bool tensor = in.is_value() && in.value()->type()->is_tensor();
    return tensor ? make("aten::Bool", {in}, ir::Type::boolean()) : in;
  }
  static const ir::Type* type_of(const ir::In& in) {
    return in.is_value() ? in.value()->type() : ir::Type::of(in.constant());
  }

  // The nodes of a function where nodes go now.
  std::vector<ir::In> inlined(const ir::Block& block, Span<const ir::In> args) {
    ir::ValueMap map;
    for (size_t i = 0; i < block.params().size(); ++i) map.emplace(&block.param(i), args[i]);
    return graph_.inline_block(block, map);
  }
  static std::vector<ir::In> inputs_from(const ir::Node& n, size_t first) {
    std::vector<ir::In> all;
    for (size_t i = first; i < n.inputs().size(); ++i) all.emplace_back(n.input(i));
    return all;
  }

  std::vector<ir::In> write_cond(ir::Node& n) {
    ir::In inputs[] = {as_bool(ir::In(n.input(0)))};
    ir::Node& made = graph_.make("prim::If", inputs, {});
    made.set_origin(n.origin());
    std::vector<ir::In> operands = inputs_from(n, 1), results;
    for (const ir::Block* from : n.blocks()) {
      ir::Block& block = made.add_block();
      ir::InsertAt inside(block.return_node());
      for (const ir::In& in : inlined(*from, operands)) block.add_return(in);
    }
    for (const ir::Value* out : n.outputs()) made.add_output(out->type(), out->name());
    for (ir::Value* out : made.outputs()) results.emplace_back(*out);
    return results;
  }

  // A loop that carries `start`; `round` gives what the next round starts with, its condition first.
  template <class F>
  std::vector<ir::In> loop(const ir::Node& n, ir::In rounds, ir::In go_on, const std::vector<ir::In>& start,
                           F&& round) {
    std::vector<ir::In> inputs{std::move(rounds), std::move(go_on)}, carried, results;
    inputs.insert(inputs.end(), start.begin(), start.end());
    ir::Node& made = graph_.make("prim::Loop", inputs, {});
    made.set_origin(n.origin());
    ir::Block& body = made.add_block();
    ir::Value& index = body.add_param(ir::Type::integer(), "i");
    for (size_t i = 0; i < start.size(); ++i) {
      const ir::Type* type = n.output(i).type();
      carried.emplace_back(body.add_param(type->is_tensor() ? type : type_of(start[i]), "carried"));
    }
    ir::InsertAt inside(body.return_node());
    for (const ir::In& in : round(ir::In(index), carried)) body.add_return(in);
    for (size_t i = 0; i < start.size(); ++i) made.add_output(type_of(carried[i]), n.output(i).name());
    for (ir::Value* out : made.outputs()) results.emplace_back(*out);
    return results;
  }

  std::vector<ir::In> write_while(ir::Node& n) {
    const ir::Block &asked = *n.blocks()[0], &body = *n.blocks()[1];
    size_t carried = ir::operands_of(n).carried;
    std::vector<ir::In> all = inputs_from(n, 0);
    std::vector<ir::In> start(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(carried));
    auto with_rest = [&](std::vector<ir::In> values) {
      values.insert(values.end(), all.begin() + static_cast<std::ptrdiff_t>(carried), all.end());
      return values;
    };
    ir::In first = as_bool(inlined(asked, all).at(0));
    return loop(n, ir::In(Value(INT64_MAX)), first, start, [&](ir::In, const std::vector<ir::In>& values) {
      std::vector<ir::In> next = inlined(body, with_rest(values));
      next.insert(next.begin(), as_bool(inlined(asked, with_rest(next)).at(0)));
      return next;
    });
  }

  // One round for each slice; what a round gives beside what is carried is kept in lists and stacked.
  std::vector<ir::In> write_rounds(ir::Node& n) {
    auto [carried, sliced] = ir::operands_of(n);
    std::vector<ir::In> all = inputs_from(n, 0);
    if (!sliced)
      failf(ErrorKind::not_supported, "{} (%{}): there is nothing to take slices of", n.kind().view(),
            n.name());
    std::vector<ir::In> start(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(carried));
    ir::In rounds = make("aten::size", {all[carried], ir::In(Value(0))}, ir::Type::integer());
    std::vector<ir::In> kept;
    for (size_t i = carried; i < n.num_outputs(); ++i)
      kept.push_back(make("prim::ListConstruct", {}, ir::Type::list(ir::Type::tensor())));
    const ir::Block& body = *n.blocks()[0];
    std::vector<ir::In> results =
        loop(n, rounds, ir::In(Value(true)), start, [&](ir::In index, const std::vector<ir::In>& values) {
          std::vector<ir::In> args = values;
          for (size_t i = carried; i < all.size(); ++i) {
            const ir::Type* type = i < carried + sliced ? body.param(i).type() : nullptr;
            args.push_back(type ? call("aten::select.int", {all[i], ir::In(Value(0)), index}, type) : all[i]);
          }
          std::vector<ir::In> given = inlined(body, args), next{ir::In(Value(true))};
          for (size_t i = 0; i < given.size(); ++i) {
            if (i < carried)
              next.push_back(given[i]);
            else
              make("aten::append", {kept[i - carried], given[i]}, ir::Type::list(ir::Type::tensor()));
          }
          return next;
        });
    for (size_t i = carried; i < n.num_outputs(); ++i)
      results.push_back(call("aten::stack", {kept[i - carried], ir::In(Value(0))}, n.output(i).type()));
    return results;
  }

  std::vector<ir::In> write_region(ir::Node& n) {
    std::vector<ir::In> results = inlined(*n.blocks()[0], inputs_from(n, 0));
    const Value* enabled = n.attribute("enabled");
    if (enabled && !enabled->to_bool())
      for (ir::In& r : results)
        if (r.is_value() && r.value()->type()->is_tensor()) r = call("aten::detach", {r}, r.value()->type());
    return results;
  }

  ir::Graph& graph_;
};

}  // namespace

void write_control_as_script(ir::Graph& graph) { Writer(graph).run(graph.top()); }

}  // namespace tern
