#include "tern/capture/retrace.h"

#include <optional>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/capture/closures.h"
#include "tern/capture/functional.h"
#include "tern/capture/higher_order.h"
#include "tern/capture/known.h"
#include "tern/capture/recorder.h"
#include "tern/dispatch/autocast.h"
#include "tern/dispatch/op_flags.h"
#include "tern/ir/auto_functionalized.h"
#include "tern/ir/builtins.h"
#include "tern/ir/higher_order.h"
#include "tern/ops.h"
#include "tern/sym/shape_env.h"

namespace tern::capture {
namespace {

// The core rung: expands what it is asked to, records the rest.
class Core : public Recorder {
 public:
  Core(ir::Graph& graph, const Function<bool(const Op&)>& expand)
      : Recorder(graph, rung_core), expand_(expand) {}
  void call(const Op& op, const Arg* args, tern::Value* results) override {
    if (op.body && expand_ && expand_(op)) return op.body(op, args, results);
    Recorder::call(op, args, results);
  }

 private:
  const Function<bool(const Op&)>& expand_;
};

class Retracer {
 public:
  Retracer(const ir::Graph& from, const RetraceOptions& options)
      : from_(from),
        options_(options),
        graph_(std::make_unique<ir::Graph>()),
        core_(*graph_, options.expand) {
    graph_->shapes = options.shapes ? options.shapes : from.shapes;
    if (!graph_->shapes) graph_->shapes = std::make_shared<ShapeEnv>();
    graph_->name = from.name;
    core_.shapes = graph_->shapes;
    functional_.on_copies = [this](const Op& op, const tern::Value& names,
                                   const std::vector<tern::Value>& inputs) {
      return record_on_copies("higher_order::auto_functionalized_v2", tern::Value(op.qualified()), names,
                              inputs);
    };
  }

  Retraced run() {
    Mount on_core(rung_core, core_);
    std::optional<Mount> on_functional;
    if (options_.functional) on_functional.emplace(rung_functional, functional_);
    // Calls go to the functional rung whatever their arguments are, and nothing runs for real.
    thread_state.active |= rung_fake;
    Exclude above(rung_record | rung_autograd);

    std::vector<tern::Value> outer;
    for (size_t i = 0; i < from_.inputs().size(); ++i) {
      const ir::Value& in = *from_.inputs()[i];
      tern::Value inner = i < options_.inputs.size() ? options_.inputs[i] : example(*in.type());
      ir::Value& v =
          graph_->add_input(inner.is_tensor() ? ir::Type::tensor_like(inner.tensor()) : in.type(), in.name());
      if (inner.is_tensor()) core_.bind(inner.tensor(), v);
      if (inner.is_int()) core_.bind(inner.sym(), v);
      outer.push_back(options_.functional ? functional_.wrap(inner) : inner);
      values_[&in] = outer.back();
    }
    run_block(from_.top());

    for (auto& [body, outer_constant] : constants_)
      if (Functional::was_written(outer_constant))
        failf(
            "a constant tensor of shape {} is written to: that change would be lost; make it a buffer or an "
            "input, or "
            "clone() it first",
            str(outer_constant.sizes()));

    Retraced result;
    core_.source = nullptr;
    std::vector<ir::In> outputs;
    for (const ir::Operand& o : from_.outputs()) {
      tern::Value v = plain(value_of(o));
      outputs.push_back(core_.operand(v));
      result.outputs.push_back(v);
    }
    if (options_.functional)
      for (size_t i = 0; i < outer.size(); ++i)
        if (outer[i].is_tensor() && Functional::was_written(outer[i].tensor())) {
          result.mutated.push_back(i);
          graph_->add_output(core_.operand(functional_.unwrap(outer[i].tensor())));
        }
    for (const ir::In& o : outputs) graph_->add_output(o);
    result.graph = std::move(graph_);
    return result;
  }

 private:
  tern::Value example(const ir::Type& type) {
    if (type.is_tensor()) return fake_like(type, graph_->shapes.get());
    if (type.is(ir::TypeKind::int_)) return graph_->shapes->create_unbacked_symint("input");
    failf("retrace: an input of type {} needs an example", type.str());
  }

  tern::Value plain(const tern::Value& v) { return options_.functional ? functional_.unwrap(v) : v; }

  tern::Value value_of(const ir::Operand& o) {
    if (o.is_value()) {
      auto it = values_.find(&o.value());
      if (it == values_.end()) failf("retrace: %{} has no value", o.value().name());
      return it->second;
    }
    if (o.is_list()) {
      std::vector<tern::Value> items;
      for (const ir::Operand& item : o.list()) items.push_back(value_of(item));
      return tern::Value::list(std::move(items));
    }
    // A constant tensor is memory of its own: a write to it must not reach the graph we read.
    if (o.constant().is_tensor() && options_.functional) {
      auto [it, fresh] = constants_.try_emplace(o.constant().tensor().body());
      if (fresh) {
        it->second = functional_.wrap(o.constant().tensor());
        known_.set_constant(it->second, o.constant().tensor());
      }
      return it->second;
    }
    return o.constant();
  }

  void run_block(const ir::Block& block) {
    for (const ir::Node& node : block) {
      core_.source = &node;
      try {
        run_node(node);
      } catch (const Error& e) {
        std::string place = node.origin() ? node.origin()->place() : "";
        throw e.with_context(
            fmt::format("{} (%{}{})", node.qualified(), node.name(), place.empty() ? "" : " @ " + place));
      }
    }
  }

  void run_node(const ir::Node& node) {
    if (node.is("prim::If")) return run_if(node);
    if (node.is("prim::Loop")) return run_loop(node);
    if (const ir::HigherOrder* op = ir::find_higher_order(node.kind().view()))
      return op->inlined ? run_region(node) : run_higher_order(node, *op);
    if (ir::is_auto_functionalized(node)) return run_auto_functionalized(node);
    std::vector<tern::Value> inputs;
    for (const ir::Operand& o : node.inputs()) inputs.push_back(value_of(o));
    if (const Op* op = node.op()) {
      op = &by_numbers(*op, inputs);
      std::string_view text = op->text;
      if (text.starts_with("sym_size.int(")) {
        // Read off the shape; recorded again only where it is used.
        const Tensor& t = inputs[0].tensor();
        values_[&node.output()] = tern::Value(t->sizes[wrap_dim(inputs[1].to_int(), t.dim(), false)]);
        return;
      }
      if (text.starts_with("item(") || text.starts_with("_local_scalar_dense(")) {
        if (std::optional<tern::Value> number = known_.number(inputs[0].tensor())) {
          values_[&node.output()] = *number;
          return;
        }
        Tensor t = plain(inputs[0]).tensor();
        values_[&node.output()] = tern::Value(core_.Recorder::item(t, Loc{})->sym());
        return;
      }
      // Assertions have a body that checks; what the program needs is the node.
      bool keep = op->is(op_impure) || text.starts_with("lift_fresh_copy(");
      if (keep)
        for (tern::Value& v : inputs) v = plain(v);
      const Schema& schema = op->schema();
      for (size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i].is_tensor() && schema.args[i].type.base != BaseType::tensor)
          if (std::optional<tern::Value> number = known_.number(inputs[i].tensor())) inputs[i] = *number;
      size_t split = 0;
      while (split < inputs.size() && !schema.args[split].keyword_only) ++split;
      std::vector<std::pair<Symbol, tern::Value>> keywords;
      for (size_t i = split; i < inputs.size(); ++i) keywords.emplace_back(schema.args[i].name, inputs[i]);
      Bound bound(*op, Span<const tern::Value>(inputs).first(split), keywords);
      std::vector<tern::Value> results(std::max<int>(op->results, 1));
      if (keep) {
        core_.Recorder::call(*op, bound.args(), results.data());
        if (options_.functional)
          for (tern::Value& v : results) v = functional_.wrap(v);
      } else {
        tern::call(*op, bound.args(), results.data());
      }
      known_.follow(*op, inputs, Span<const tern::Value>(results).first(node.num_outputs()));
      for (size_t i = 0; i < node.num_outputs(); ++i) values_[&node.output(i)] = results[i];
      return;
    }
    if (inputs.size() == 1 && inputs[0].is_tensor() && node.kind().view().starts_with("aten::")) {
      if (std::optional<tern::Value> number = known_.number(inputs[0].tensor())) inputs[0] = *number;
    }
    if (node.is("aten::Bool") || node.is("aten::Int") || node.is("aten::IntImplicit")) {
      if (inputs[0].is_tensor()) {
        Tensor t = plain(inputs[0]).tensor();
        values_[&node.output()] = tern::Value(core_.Recorder::item(t, Loc{})->sym());
        return;
      }
    }
    run_structural(node, inputs);
  }

  // A trace makes tensors of sizes, and so repeat_interleave(x, x.size(0)) calls the overload for tensors. It
  // is the one for ints again where the number is known: another overload that has an int in that place.
  const Op& by_numbers(const Op& op, const std::vector<tern::Value>& inputs) const {
    const Schema& schema = op.schema();
    auto known = [&](size_t i) {
      return inputs[i].is_tensor() && inputs[i].tensor().defined() && known_.number(inputs[i].tensor());
    };
    bool any = false;
    for (size_t i = 0; i < inputs.size(); ++i) any = any || known(i);
    if (!any) return op;
    for (const Op* other : overloads(schema.name)) {
      const Schema& theirs = other->schema();
      bool fits = other != &op && theirs.args.size() == schema.args.size();
      for (size_t i = 0; fits && i < schema.args.size(); ++i) {
        std::string ours = schema.args[i].type.str(), type = theirs.args[i].type.str();
        fits = schema.args[i].name == theirs.args[i].name &&
               (ours == type || (ours == "Tensor" && type == "SymInt" && known(i)));
      }
      if (fits) return *other;
    }
    return op;
  }

  // Containers are taken apart and put together; arithmetic on sizes is done on the symbols.
  void run_structural(const ir::Node& node, std::vector<tern::Value>& inputs) {
    if (node.is("prim::ListUnpack") || node.is("prim::TupleUnpack")) {
      for (size_t i = 0; i < node.num_outputs(); ++i) values_[&node.output(i)] = inputs[0].items().at(i);
      return;
    }
    tern::Value& result = values_[&node.output()];
    if (node.is("prim::ListConstruct")) {
      result = tern::Value::list(std::move(inputs));
    } else if (node.is("prim::TupleConstruct")) {
      result = tern::Value::tuple(std::move(inputs));
    } else if (node.is("prim::DictConstruct")) {
      std::vector<std::pair<tern::Value, tern::Value>> entries;
      for (size_t i = 0; i + 1 < inputs.size(); i += 2) entries.emplace_back(inputs[i], inputs[i + 1]);
      result = tern::Value::dict(std::move(entries));
    } else if (node.is("prim::Constant")) {
      const tern::Value* value = node.attribute("value");
      result = value ? *value : tern::Value();
    } else if (node.is("prim::unchecked_cast")) {
      result = inputs[0];
    } else if (node.is("prim::Uninitialized")) {
      result = tern::Value();  // of a path that is not taken: nobody reads it
    } else if (node.output().type()->is(ir::TypeKind::bool_) && any_symbolic(inputs)) {
      result = record_condition(node, inputs);
    } else if (node.is("prim::NumToTensor") && any_symbolic(inputs)) {
      result = scalar_tensor(inputs[0].scalar(), kLong);
      known_.set(result.tensor(), inputs[0]);
    } else if (ir::Builtin builtin = ir::find_builtin(node.kind())) {
      bool data = node.is("aten::tensor") || node.is("aten::as_tensor");
      result = data ? constant_tensor(builtin, inputs) : builtin(inputs);
      if (node.is("prim::NumToTensor") && inputs[0].is_number()) known_.set(result.tensor(), inputs[0]);
    } else {
      failf(ErrorKind::not_supported, "retrace knows no operator {}", node.qualified());
    }
  }

  // torch.tensor([1, 2]): data that the program brings along, unless it is computed from tensors or open
  // sizes.
  tern::Value constant_tensor(ir::Builtin builtin, const std::vector<tern::Value>& inputs) {
    bool numbers = !any_symbolic(inputs) && tree_of_numbers(inputs[0]);
    if (!numbers) return builtin(inputs);
    Tensor real;
    {
      Exclude for_real(rung_record | rung_autograd | rung_functional | rung_core | rung_fake);
      real = builtin(inputs).tensor();
    }
    tern::Value outer = options_.functional ? tern::Value(functional_.wrap(real)) : tern::Value(real);
    known_.set_constant(outer.tensor(), real);
    return outer;
  }
  static bool tree_of_numbers(const tern::Value& v) {
    if (v.is_number()) return !(v.is_int() && v.sym().is_symbolic());
    if (!v.is_list() && !v.is_tuple()) return false;
    for (const tern::Value& item : v.items())
      if (!tree_of_numbers(item)) return false;
    return true;
  }

  static bool any_symbolic(const std::vector<tern::Value>& inputs) {
    for (const tern::Value& v : inputs)
      if (v.is_int() && v.sym().is_symbolic()) return true;
    return false;
  }

  // A question on sizes that the program asks at run time is not answered here: the node stays.
  tern::Value record_condition(const ir::Node& node, const std::vector<tern::Value>& inputs) {
    std::vector<ir::In> operands;
    for (const tern::Value& v : inputs) operands.push_back(core_.operand(v));
    const ir::Type* types[] = {ir::Type::boolean()};
    ir::Node& made = graph_->make(node.kind(), operands, types, node.output().name());
    made.set_origin(node.origin());
    SymInt answer = graph_->shapes->create_unbacked_symbool("condition").as_expr();
    core_.bind(answer, made.output());
    return answer;
  }

  // Runs a block inside a new one; gives what it returns and what it wrote.
  struct Branch {
    ir::Block* block;
    std::vector<tern::Value> returns;       // plain
    std::vector<Functional::Write> writes;  // `before` holds the value at the end
    std::vector<ir::In> operands;           // of the returns, made inside the block
  };
  Branch run_inside(const ir::Block& source, ir::Block& target) {
    Branch b{&target, {}, {}, {}};
    Recorder::Known outside = core_.known();
    ir::InsertAt at(target.return_node());
    if (options_.functional) functional_.begin_block();
    run_block(source);
    for (const ir::Operand& o : source.returns()) {
      b.returns.push_back(plain(value_of(o)));
      b.operands.push_back(core_.operand(b.returns.back()));
    }
    if (options_.functional) b.writes = functional_.end_block();
    core_.forget_to(std::move(outside));
    return b;
  }

  static Functional::Write* find(std::vector<Functional::Write>& writes, const Storage& s) {
    for (Functional::Write& w : writes)
      if (w.storage == s) return &w;
    return nullptr;
  }

  tern::Value merge(const tern::Value& a, const tern::Value& b) {
    return either("If", a, b, *graph_->shapes);
  }

  void give(ir::Node& node, size_t output, const tern::Value& fake, const ir::Value* to) {
    ir::Value& v = node.output(output);
    if (fake.is_tensor()) {
      v.set_type(ir::Type::tensor_like(fake.tensor()));
      core_.bind(fake.tensor(), v);
    } else if (fake.is_int()) {
      core_.bind(fake.sym(), v);
    }
    if (to) values_[to] = options_.functional ? functional_.wrap(fake) : fake;
  }

  void run_if(const ir::Node& node) {
    tern::Value condition = value_of(node.input(0));
    std::optional<bool> known;
    if (condition.is_bool()) known = condition.to_bool();
    if (condition.is_int())
      if (auto v = condition.sym().maybe_int()) known = *v != 0;
    if (known) {
      const ir::Block& taken = *node.blocks()[*known ? 0 : 1];
      run_block(taken);
      for (size_t i = 0; i < node.num_outputs(); ++i) values_[&node.output(i)] = value_of(taken.returns()[i]);
      return;
    }
    ir::In inputs[] = {core_.operand(plain(condition))};
    ir::Node& made = graph_->make("prim::If", inputs, {});
    made.set_origin(node.origin());
    Branch a = run_inside(*node.blocks()[0], made.add_block());
    Branch b = run_inside(*node.blocks()[1], made.add_block());
    core_.source = &node;
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      made.add_output(node.output(i).type(), node.output(i).name());
      a.block->add_return(a.operands[i]);
      b.block->add_return(b.operands[i]);
    }
    for (size_t i = 0; i < node.num_outputs(); ++i)
      give(made, i, merge(a.returns[i], b.returns[i]), &node.output(i));
    // Memory written on one of the paths: its value is a result of the node.
    std::vector<Storage> written;
    for (Branch* branch : {&a, &b})
      for (Functional::Write& w : branch->writes)
        if (std::none_of(written.begin(), written.end(), [&](const Storage& s) { return s == w.storage; }))
          written.push_back(w.storage);
    for (const Storage& s : written) {
      Tensor now[2];
      int k = 0;
      for (Branch* branch : {&a, &b}) {
        Functional::Write* w = find(branch->writes, s);
        now[k] = w ? w->before : s->alias->value;
        branch->block->add_return(core_.operand(now[k]));
        ++k;
      }
      made.add_output(ir::Type::tensor(), "written");
      tern::Value fake = merge(now[0], now[1]);
      give(made, made.num_outputs() - 1, fake, nullptr);
      functional_.set_value(s, fake.tensor());
    }
  }

  // A region of the program (gradient mode, autocast) becomes part of it: the casts are made here.
  void run_region(const ir::Node& node) {
    const ir::Block& body = *node.blocks()[0];
    for (size_t i = 0; i < body.params().size(); ++i) values_[&body.param(i)] = value_of(node.input(i));
    std::optional<Autocast> casts;
    if (node.is("higher_order::wrap_with_autocast")) {
      const tern::Value& dtype = *node.attribute("dtype");
      casts.emplace(dtype.is_none() ? kBFloat16 : static_cast<DType>(dtype.to_int()),
                    node.attribute("enabled")->to_bool());
    }
    run_block(body);
    for (size_t i = 0; i < node.num_outputs(); ++i) values_[&node.output(i)] = value_of(body.returns()[i]);
  }

  // An operator with blocks that take its inputs and stand on their own.
  void run_higher_order(const ir::Node& node, const ir::HigherOrder& op) {
    std::vector<tern::Value> leading, operands;
    for (size_t i = 0; i < node.inputs().size(); ++i)
      (i < op.first ? leading : operands).push_back(value_of(node.input(i)));
    if (op.first) {
      std::optional<bool> known;
      if (leading[0].is_bool()) known = leading[0].to_bool();
      if (leading[0].is_int())
        if (auto v = leading[0].sym().maybe_int()) known = *v != 0;
      if (known) {
        const ir::Block& taken = *node.blocks()[*known ? 0 : 1];
        for (size_t i = 0; i < operands.size(); ++i) values_[&taken.param(i)] = operands[i];
        run_block(taken);
        for (size_t i = 0; i < node.num_outputs(); ++i)
          values_[&node.output(i)] = value_of(taken.returns()[i]);
        return;
      }
    }
    std::vector<ir::In> inputs;
    for (const tern::Value& v : leading) inputs.push_back(core_.operand(plain(v)));
    for (tern::Value& v : operands) {
      v = plain(v);
      inputs.push_back(core_.operand(v));
    }
    std::string_view name = op.kind.substr(14);
    ir::Node& made = graph_->make(op.kind, inputs, {}, name);
    made.set_origin(node.origin());
    for (const auto& [key, value] : node.attributes()) made.set_attribute(key, value);
    for (const auto& [key, value] : node.all_meta()) made.set_meta(key, value);
    ir::Operands groups = ir::operands_of(node);
    std::vector<Branch> branches;
    for (const ir::Block* from : node.blocks()) {
      ir::Block& block = made.add_block();
      std::vector<tern::Value> inside = body_operands(name, groups, operands, *graph_->shapes);
      for (size_t i = 0; i < inside.size(); ++i) {
        const ir::Value& param = from->param(i);
        ir::Value& p = block.add_param(
            inside[i].is_tensor() ? ir::Type::tensor_like(inside[i].tensor()) : param.type(), param.name());
        if (inside[i].is_tensor()) core_.bind(inside[i].tensor(), p);
        if (inside[i].is_int()) core_.bind(inside[i].sym(), p);
        values_[&param] = options_.functional ? functional_.wrap(inside[i]) : inside[i];
      }
      branches.push_back(run_inside(*from, block));
      if (!branches.back().writes.empty()) failf("a function of {} changes memory from outside of it", name);
    }
    core_.source = &node;
    if (node.is("higher_order::while_loop")) {
      branches[0].block->add_return(branches[0].operands[0]);
      branches.erase(branches.begin());
    }
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      made.add_output(node.output(i).type(), node.output(i).name());
      for (Branch& b : branches) b.block->add_return(b.operands[i]);
    }
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      const tern::Value& given = branches[0].returns[i];
      give(made, i,
           branches.size() > 1 ? either(name, given, branches[1].returns[i], *graph_->shapes)
                               : result_of_body(name, groups, operands, i, given, *graph_->shapes),
           &node.output(i));
    }
    lift_closures(made, op.first);
  }

  // The call on copies stays one node; what it gives is known from the operator's rule.
  void run_auto_functionalized(const ir::Node& node) {
    std::vector<tern::Value> inputs;
    for (const ir::Operand& o : node.inputs()) inputs.push_back(plain(value_of(o)));
    std::vector<tern::Value> results =
        record_on_copies(node.kind(), *node.attribute("operator"), *node.attribute("arg_names"), inputs);
    for (size_t i = 0; i < node.num_outputs(); ++i)
      values_[&node.output(i)] = options_.functional ? functional_.wrap(results.at(i)) : results.at(i);
  }
  std::vector<tern::Value> record_on_copies(Symbol kind, const tern::Value& target, const tern::Value& names,
                                            const std::vector<tern::Value>& inputs) {
    std::vector<ir::In> operands;
    for (const tern::Value& v : inputs) operands.push_back(core_.operand(v));
    ir::Node& made = graph_->make(kind, operands, {}, kind.view().substr(14));
    if (core_.source) made.set_origin(core_.source->origin());
    made.set_attribute("operator", target);
    made.set_attribute("arg_names", names);
    std::vector<tern::Value> results;
    {
      Exclude without_recording(rung_record | rung_autograd | rung_functional | rung_core);
      results = ir::run_auto_functionalized(made, inputs);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      made.add_output(ir::Type::of(results[i]), "getitem");
      give(made, i, results[i], nullptr);
    }
    return results;
  }

  // Whether two outer tensors are the same view of the same memory.
  static bool same_memory(const tern::Value& a, const tern::Value& b) {
    if (!a.is_tensor() || !b.is_tensor()) return false;
    const Tensor &x = a.tensor(), &y = b.tensor();
    if (x.is_same(y)) return true;
    if (!Functional::is_wrapped(x) || !(x.storage() == y.storage()) || x.dim() != y.dim() ||
        !surely_eq(x.offset(), y.offset()))
      return false;
    for (int64_t d = 0; d < x.dim(); ++d)
      if (!surely_eq(x.sizes()[d], y.sizes()[d]) || !surely_eq(x.strides()[d], y.strides()[d])) return false;
    return true;
  }

  // prim::Loop(trip count, condition, carried...) with a block (i, carried...) -> (condition, carried...). A
  // carried value that stays the same memory (x += 1) is not carried: its memory is. Rounds go on until what
  // the body writes is known.
  void run_loop(const ir::Node& node) {
    const ir::Block& body = *node.blocks()[0];
    size_t carried = node.num_outputs();
    std::vector<tern::Value> outer;
    for (const ir::Operand& o : node.inputs()) outer.push_back(value_of(o));
    std::vector<bool> stays(carried);
    for (size_t i = 0; i < carried; ++i) stays[i] = options_.functional && outer[i + 2].is_tensor();
    std::vector<Storage> written;
    for (int round = 0;; ++round) {
      if (round > 1000) fail("the memory that a loop writes to keeps changing");
      std::vector<ir::In> inputs{core_.operand(plain(outer[0])), core_.operand(plain(outer[1]))};
      std::vector<size_t> fresh;
      for (size_t i = 0; i < carried; ++i) {
        if (stays[i]) continue;
        if (outer[i + 2].is_tensor() && Functional::is_wrapped(outer[i + 2].tensor()))
          for (const Storage& s : written)
            if (s == outer[i + 2].tensor().storage())
              fail(ErrorKind::not_supported,
                   "a loop starts from a value whose memory it writes to, and goes on with another: clone() "
                   "it before the loop");
        fresh.push_back(i);
        inputs.push_back(core_.operand(plain(outer[i + 2])));
      }
      std::vector<Tensor> before;
      for (const Storage& s : written) {
        before.push_back(s->alias->value);
        inputs.push_back(core_.operand(s->alias->value));
      }
      ir::Node& made = graph_->make("prim::Loop", inputs, {});
      made.set_origin(node.origin());
      ir::Block& block = made.add_block();
      SymInt counter = graph_->shapes->create_unbacked_symint("i");
      core_.bind(counter, block.add_param(ir::Type::integer(), body.param(0).name()));
      values_[&body.param(0)] = tern::Value(counter);
      for (size_t i = 0; i < carried; ++i)
        if (stays[i]) values_[&body.param(i + 1)] = outer[i + 2];
      for (size_t i : fresh) {
        tern::Value start = plain(outer[i + 2]);
        tern::Value inside = start.is_tensor() ? tern::Value(start.tensor().shallow_copy()) : start;
        if (start.is_int()) inside = graph_->shapes->create_unbacked_symint("carried");
        ir::Value& p = block.add_param(node.output(i).type(), body.param(i + 1).name());
        if (inside.is_tensor()) core_.bind(inside.tensor(), p);
        if (inside.is_int()) core_.bind(inside.sym(), p);
        values_[&body.param(i + 1)] = options_.functional ? functional_.wrap(inside) : inside;
      }
      for (const Storage& s : written) {
        Tensor inside = s->alias->value.shallow_copy();
        core_.bind(inside, block.add_param(ir::Type::tensor_like(inside), "written"));
        functional_.set_value(s, inside);
      }
      Branch b = run_inside(body, block);
      core_.source = &node;
      for (size_t k = 0; k < written.size(); ++k) functional_.set_value(written[k], before[k]);

      bool again = false;
      for (size_t i = 0; i < carried; ++i)
        if (stays[i] && !same_memory(outer[i + 2], value_of(body.returns()[i + 1]))) {
          stays[i] = false;
          again = true;
        }
      for (Functional::Write& w : b.writes)
        if (std::none_of(written.begin(), written.end(), [&](const Storage& s) { return s == w.storage; })) {
          written.push_back(w.storage);
          again = true;
        }
      if (again) {
        graph_->erase(made);
        continue;
      }
      block.add_return(b.operands[0]);
      for (size_t i : fresh) {
        block.add_return(b.operands[i + 1]);
        made.add_output(node.output(i).type(), node.output(i).name());
      }
      for (size_t i = 0; i < carried; ++i)
        if (stays[i]) values_[&node.output(i)] = outer[i + 2];
      for (size_t k = 0; k < fresh.size(); ++k) {
        tern::Value start = plain(outer[fresh[k] + 2]), fake = merge(start, b.returns[fresh[k] + 1]);
        give(made, k, fake, &node.output(fresh[k]));
      }
      for (size_t k = 0; k < written.size(); ++k) {
        Functional::Write* w = find(b.writes, written[k]);
        block.add_return(core_.operand(w ? w->before : before[k]));
        made.add_output(ir::Type::tensor(), "written");
        tern::Value fake = merge(before[k], w ? tern::Value(w->before) : tern::Value(before[k]));
        give(made, made.num_outputs() - 1, fake, nullptr);
        functional_.set_value(written[k], fake.tensor());
      }
      return;
    }
  }

  const ir::Graph& from_;
  const RetraceOptions& options_;
  std::unique_ptr<ir::Graph> graph_;
  Core core_;
  Functional functional_;
  std::unordered_map<const ir::Value*, tern::Value> values_;
  std::unordered_map<const TensorBody*, Tensor> constants_;
  KnownTensors known_;
};

}  // namespace

Retraced retrace(const ir::Graph& graph, const RetraceOptions& options) {
  return Retracer(graph, options).run();
}

bool is_composite(const Op& op) {
  if (!op.body) return false;
  // Quantized tensors do not exist in programs: their operators become arithmetic between what PT2E has for
  // them, which stays as it is.
  if (op.is(op_whole)) return !op.schema().name.view().starts_with("quantized_decomposed::");
  return op.is(op_composite | op_implicit);
}
bool is_not_core(const Op& op) { return op.body && !op.is(op_core); }

Tensor fake_like(const ir::Type& type, ShapeEnv* shapes) {
  if (!type.has_sizes()) fail("a tensor type without sizes: give an example input");
  Dims sizes;
  for (SymInt s : type.sizes()) {
    if (s.is_int() && s.as_int() < 0) {
      s = shapes->create_unbacked_symint("size");
      shapes->check_is_size(s);
    }
    sizes.push_back(s);
  }
  DType dtype = type.dtype() == DType::undefined ? kFloat : type.dtype();
  if (type.has_strides())
    return make_tensor(sizes, type.strides(), dtype, type.device().value_or(kCPU), true);
  return make_tensor(sizes, dtype, type.device().value_or(kCPU), true);
}

}  // namespace tern::capture
