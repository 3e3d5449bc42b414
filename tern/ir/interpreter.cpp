#include "tern/ir/interpreter.h"

#include <algorithm>
#include <deque>

#include "tern/base/format.h"
#include "tern/dispatch/autocast.h"
#include "tern/ir/auto_functionalized.h"
#include "tern/ir/higher_order.h"
#include "tern/ir/program.h"
#include "tern/sym/shape_env.h"

namespace tern::ir {

namespace {

// Nobody reads it, but a tuple may be taken apart on the way.
tern::Value nothing_of(const Type& type) {
  if (!type.is(TypeKind::tuple)) return {};
  std::vector<tern::Value> parts;
  for (const Type* t : type.elements()) parts.push_back(nothing_of(*t));
  return tern::Value::tuple(std::move(parts));
}

struct Frame {
  const RunOptions& options;
  std::vector<tern::Value> registers;
  Scratch scratch;
  bool explained = false;
  int64_t steps = 0;
};

struct Runner {
  const std::deque<BlockCode>& blocks;
  const std::vector<uint32_t>& block_lists;
  const std::deque<tern::Value>& constants;
  const std::vector<Source>& sources;
  const std::vector<Patch>& patches;
  const std::vector<Arg>& args;
  const std::vector<uint32_t>& dead;
  Frame& frame;

  tern::Value get(Source s) const {
    if (s.kind == Source::reg) return frame.registers[s.index];
    if (s.kind == Source::constant) return own(constants[s.index]);
    std::vector<tern::Value> items;
    items.reserve(s.count);
    for (uint32_t k = 0; k < s.count; ++k) items.push_back(get(sources[s.index + k]));
    return tern::Value::list(std::move(items));
  }
  // A constant list is made anew for each use: it may be appended to.
  static tern::Value own(const tern::Value& v) {
    if (v.is_list()) {
      std::vector<tern::Value> items;
      for (const tern::Value& item : v.items()) items.push_back(own(item));
      return tern::Value::list(std::move(items), v.element_type());
    }
    if (v.is_dict()) {
      std::vector<std::pair<tern::Value, tern::Value>> entries;
      for (auto& [key, item] : v.entries()) entries.emplace_back(own(key), own(item));
      return tern::Value::dict(std::move(entries));
    }
    return v;
  }
  std::vector<tern::Value> inputs(const Instruction& i) const {
    std::vector<tern::Value> in;
    in.reserve(i.num_inputs);
    for (uint32_t k = 0; k < i.num_inputs; ++k) in.push_back(get(sources[i.inputs + k]));
    return in;
  }
  tern::Value input(const Instruction& i, uint32_t k) const { return get(sources[i.inputs + k]); }
  void give(const Instruction& i, tern::Value v) {
    if (i.num_out == 1) {
      frame.registers[i.out] = std::move(v);
    } else if (i.num_out > 1) {
      give_all(i, v.items());
    }
  }
  void give_all(const Instruction& i, const std::vector<tern::Value>& values) {
    if (values.size() != i.num_out) failf("expected {} values but got {}", i.num_out, values.size());
    for (uint32_t k = 0; k < i.num_out; ++k) frame.registers[i.out + k] = values[k];
  }

  void run_block(const BlockCode& b) {
    const Instruction* current = nullptr;
    try {
      for (const Instruction& i : b.code) {
        current = &i;
        if (frame.options.max_steps && ++frame.steps > frame.options.max_steps)
          failf("the graph ran for more than {} steps", frame.options.max_steps);
        if (frame.options.observer) [[unlikely]]
          frame.options.observer->before(*i.node);
        if (i.act == Act::op) [[likely]]
          run_op(i);
        else
          run_other(i);
        if (frame.options.observer) [[unlikely]]
          frame.options.observer->after(*i.node, {frame.registers.data() + i.out, i.num_out});
        for (uint32_t k = 0; k < i.num_dead; ++k) frame.registers[dead[i.dead + k]] = tern::Value();
      }
    } catch (const Error& e) {
      if (frame.explained || !current) throw;
      frame.explained = true;
      const Node& n = *current->node;
      std::string place = n.origin() ? n.origin()->place() : "";
      throw e.with_context(
          fmt::format("{} (%{}{})", n.qualified(), n.name(), place.empty() ? "" : " at " + place));
    }
  }
  std::vector<tern::Value> returns(const BlockCode& b) const {
    std::vector<tern::Value> out;
    out.reserve(b.num_returns);
    for (uint32_t k = 0; k < b.num_returns; ++k) out.push_back(get(sources[b.returns + k]));
    return out;
  }
  const BlockCode& block(const Instruction& i, uint32_t k) const { return blocks[block_lists[i.blocks + k]]; }
  std::vector<tern::Value> call_block(const BlockCode& b, Span<const tern::Value> in) {
    if (in.size() != b.num_params)
      failf("the block takes {} values but {} were given", b.num_params, in.size());
    for (size_t k = 0; k < in.size(); ++k) frame.registers[b.params + k] = in[k];
    run_block(b);
    return returns(b);
  }

  void run_op(const Instruction& i) {
    const Op& op = *i.op;
    // Not cleared, which would cost more than the call: every argument that is read is written first.
    constexpr size_t most = 24;
    alignas(Arg) std::byte room[most * sizeof(Arg)];
    std::vector<Arg> more;
    Arg* arg = reinterpret_cast<Arg*>(room);
    size_t arity = op.arity;
    if (arity > most) {
      more.resize(arity);
      arg = more.data();
    }
    if (!i.slow) {
      for (size_t k = 0; k < arity; ++k) arg[k] = args[i.args + k];
      const std::vector<SchemaArg>& schema = op.schema().args;
      bool fast = true;
      for (uint32_t k = 0; k < i.num_patches && fast; ++k) {
        const Patch& p = patches[i.patches + k];
        const SchemaType& type = schema[p.arg].type;
        if (p.source.kind == Source::reg)
          fast = convert(type, frame.registers[p.source.index], arg[p.arg], frame.scratch);
        else
          fast = convert_list(type, p.source, arg[p.arg]);
      }
      if (fast) {
        call_op(op, arg, i);
        if (frame.scratch.used_tensors | frame.scratch.used_ints | frame.scratch.used_floats)
          frame.scratch.reset();
        return;
      }
      frame.scratch.reset();
    }
    std::vector<tern::Value> values = inputs(i);
    call_bound(op, values, i);
  }
  void call_op(const Op& op, const Arg* arg, const Instruction& i) {
    if (i.num_out) [[likely]] {
      call(op, arg, &frame.registers[i.out]);
    } else {
      tern::Value nothing[4];
      call(op, arg, nothing);
    }
  }
  // In schema order, so keyword-only arguments are split off for the binder.
  void call_bound(const Op& op, std::vector<tern::Value>& values, const Instruction& i) {
    const Schema& schema = op.schema();
    std::vector<std::pair<Symbol, tern::Value>> keywords;
    size_t positional = 0;
    while (positional < values.size() && !schema.args[positional].keyword_only) ++positional;
    for (size_t k = positional; k < values.size(); ++k) keywords.emplace_back(schema.args[k].name, values[k]);
    values.resize(positional);
    Bound bound(op, values, keywords);
    call_op(op, bound.args(), i);
  }
  bool convert_list(const SchemaType& type, Source s, Arg& arg) {
    if (!type.list) return false;
    auto each = [&](auto add) {
      for (uint32_t k = 0; k < s.count; ++k) {
        Source item = sources[s.index + k];
        if (item.kind == Source::list) return false;
        if (!add(item.kind == Source::reg ? frame.registers[item.index] : constants[item.index]))
          return false;
      }
      return true;
    };
    if (type.base == BaseType::tensor) {
      auto& list = frame.scratch.next_tensors();
      if (!each([&](const tern::Value& v) { return add_item(type, v, nullptr, &list, nullptr); }))
        return false;
      arg = Arg(Span<const Tensor>(list));
    } else if (is_int_base(type.base)) {
      auto& list = frame.scratch.next_ints();
      if (!each([&](const tern::Value& v) { return add_item(type, v, &list, nullptr, nullptr); }))
        return false;
      arg = Arg(Span<const SymInt>(list));
    } else if (type.base == BaseType::float_) {
      auto& list = frame.scratch.next_floats();
      if (!each([&](const tern::Value& v) { return add_item(type, v, nullptr, nullptr, &list); }))
        return false;
      arg = Arg(Span<const double>(list));
    } else {
      return false;
    }
    return true;
  }

  Host& host() const {
    static Host refusing;
    return frame.options.host ? *frame.options.host : refusing;
  }
  static Symbol name_of(const Node& n) {
    const tern::Value* name = n.attribute("name");
    if (!name) failf("{} has no attribute 'name'", n.kind().view());
    return Symbol(name->string());
  }

  void run_other(const Instruction& i) {
    const Node& n = *i.node;
    switch (i.act) {
      case Act::op:
        break;
      case Act::builtin: {
        if (i.num_inputs <= 4) {
          tern::Value in[4];
          for (uint32_t k = 0; k < i.num_inputs; ++k) in[k] = get(sources[i.inputs + k]);
          give(i, i.builtin(Span<const tern::Value>(in, i.num_inputs)));
          break;
        }
        std::vector<tern::Value> in = inputs(i);
        give(i, i.builtin(in));
        break;
      }
      case Act::dynamic:
        run_dynamic(i);
        break;
      case Act::constant: {
        const tern::Value* v = n.attribute("value");
        give(i, v ? own(*v) : tern::Value());
        break;
      }
      case Act::list: {
        const Type* t = n.output().type();
        give(i, tern::Value::list(inputs(i), t->is(TypeKind::list) ? t->element() : nullptr));
        break;
      }
      case Act::tuple:
        give(i, tern::Value::tuple(inputs(i)));
        break;
      case Act::dict: {
        std::vector<tern::Value> in = inputs(i);
        tern::Value d = tern::Value::dict();
        for (size_t k = 0; k + 1 < in.size(); k += 2) {
          if (tern::Value* old = d.find(in[k]))
            *old = in[k + 1];
          else
            d.entries().emplace_back(in[k], in[k + 1]);
        }
        give(i, std::move(d));
        break;
      }
      case Act::unpack: {
        tern::Value v = input(i, 0);
        if (v.items().size() != i.num_out)
          failf("Expected {} elements in a {} but found {}", i.num_out, v.is_list() ? "list" : "tuple",
                v.items().size());
        give_all(i, v.items());
        break;
      }
      case Act::if_: {
        const BlockCode& b = block(i, truth(input(i, 0)) ? 0 : 1);
        run_block(b);
        if (b.num_returns != i.num_out) failf("expected {} values but got {}", i.num_out, b.num_returns);
        for (uint32_t k = 0; k < i.num_out; ++k) frame.registers[i.out + k] = get(sources[b.returns + k]);
        break;
      }
      case Act::loop:
        run_loop(i);
        break;
      case Act::cond:
      case Act::while_loop:
      case Act::map:
      case Act::scan:
      case Act::set_grad:
      case Act::autocast:
        run_higher_order(i);
        break;
      case Act::auto_functionalized:
        give_all(i, run_auto_functionalized(n, inputs(i)));
        break;
      case Act::block_call: {
        std::vector<tern::Value> in = inputs(i);
        if (i.num_blocks != 1) failf("{} needs one block", n.kind().view());
        give_all(i, call_block(block(i, 0), in));
        break;
      }
      case Act::get_attr:
        give(i, host().get_attribute(input(i, 0), name_of(n)));
        break;
      case Act::set_attr:
        host().set_attribute(input(i, 0), name_of(n), input(i, 1));
        break;
      case Act::call_method: {
        std::vector<tern::Value> in = inputs(i);
        if (in.empty()) fail("prim::CallMethod needs an object");
        give(i, host().call_method(in[0], name_of(n), Span<const tern::Value>(in).drop_front(1)));
        break;
      }
      case Act::call_function: {
        std::vector<tern::Value> in = inputs(i);
        if (n.is("prim::PythonOp")) {
          const tern::Value* function = n.meta("function");
          if (auto* box = function ? dynamic_cast<CallBox*>(function->box()) : nullptr) {
            give(i, box->call(in));
            break;
          }
          if (const tern::Value* in_place = n.attribute("inplace"); in_place && in_place->to_bool())
            failf("inplace {} not supported in the JIT", name_of(n).view());
        }
        give(i, host().call_function(n, in));
        break;
      }
      case Act::create_object:
        give(i, host().create_object(*n.output().type()));
        break;
      case Act::is_instance: {
        const tern::Value* types = n.attribute("types");
        bool is = false;
        if (!types) fail("prim::isinstance needs the attribute 'types'");
        for (const tern::Value& t : types->items())
          is = is || (t.string() == "list"    ? input(i, 0).is_list()
                      : t.string() == "tuple" ? input(i, 0).is_tuple()
                                              : host().is_instance(input(i, 0), *parse_type(t.string())));
        give(i, is);
        break;
      }
      case Act::identity:
        give(i, input(i, 0));
        break;
      case Act::missing:
        failf(ErrorKind::not_supported, "the interpreter has no {}; define() it as an operator",
              n.kind().view());
      case Act::uninitialized:
        give(i, nothing_of(*n.output().type()));
        break;
      case Act::sort: {
        tern::Value list = input(i, 0);
        std::vector<tern::Value> items = list.items();
        bool backwards = i.num_inputs > 1 && truth(input(i, 1));
        std::stable_sort(items.begin(), items.end(), [&](const tern::Value& a, const tern::Value& b) {
          const tern::Value& self = backwards ? b : a;
          const tern::Value other[] = {backwards ? a : b};
          return truth(host().call_method(self, "__lt__", other));
        });
        if (i.num_out)
          give(i, tern::Value::list(std::move(items), list.element_type()));
        else
          list.items() = std::move(items);
        break;
      }
    }
  }

  // An operator that was not resolved when the graph was made: by the values at hand, tensors first.
  void run_dynamic(const Instruction& i) {
    std::vector<tern::Value> in = inputs(i);
    auto has_tensor = [](auto& self, const tern::Value& v) -> bool {
      if (v.is_list() || v.is_tuple()) {
        for (const tern::Value& item : v.items())
          if (self(self, item)) return true;
      }
      return v.is_tensor();
    };
    bool tensors = false;
    for (const tern::Value& v : in) tensors = tensors || has_tensor(has_tensor, v);
    if (i.builtin && !tensors) return give(i, i.builtin(in));
    const std::vector<const Op*>& candidates = overloads(Symbol(without_overload(i.node->kind())));
    auto positions = [](const Schema& s) {
      size_t k = 0;
      while (k < s.args.size() && !s.args[k].keyword_only) ++k;
      return k;
    };
    std::vector<std::pair<Symbol, tern::Value>> keywords;
    for (const Op* op : candidates) {
      const Schema& s = op->schema();
      if (in.size() > s.args.size()) continue;
      size_t split = std::min(positions(s), in.size());
      keywords.clear();
      for (size_t k = split; k < in.size(); ++k) keywords.emplace_back(s.args[k].name, in[k]);
      if (!matches(s, Span<const tern::Value>(in).first(split), keywords)) continue;
      if (s.returns.size() != i.num_out && i.num_out) continue;
      Bound bound(*op, Span<const tern::Value>(in).first(split), keywords);
      return call_op(*op, bound.args(), i);
    }
    if (i.builtin) return give(i, i.builtin(in));
    resolve(candidates, in, {});
    failf(ErrorKind::type, "no overload of {} gives {} results", i.node->kind().view(), i.num_out);
  }
  static std::string_view without_overload(Symbol kind) {
    std::string_view text = kind.view();
    size_t colons = text.find("::");
    return text.substr(0, text.find('.', colons == std::string_view::npos ? 0 : colons));
  }

  void run_loop(const Instruction& i) {
    std::vector<tern::Value> state = inputs(i);
    int64_t trips = state[0].is_none() ? INT64_MAX : state[0].sym().guard_int(Loc{});
    bool go_on = truth(state[1]);
    state.erase(state.begin(), state.begin() + 2);
    const BlockCode& b = block(i, 0);
    for (int64_t trip = 0; go_on && trip < trips; ++trip) {
      frame.registers[b.params] = trip;
      for (size_t k = 0; k < state.size(); ++k) frame.registers[b.params + 1 + k] = std::move(state[k]);
      run_block(b);
      go_on = truth(get(sources[b.returns]));
      for (uint32_t k = 0; k < state.size(); ++k) state[k] = get(sources[b.returns + 1 + k]);
    }
    give_all(i, state);
  }

  // ---- operators that take functions: their blocks take the inputs ----

  void run_higher_order(const Instruction& i) {
    std::vector<tern::Value> in = inputs(i);
    if (Control* control = frame.options.control) {
      std::vector<Control::Body> bodies;
      for (uint32_t k = 0; k < i.num_blocks; ++k)
        bodies.push_back(
            [this, &i, k](const std::vector<tern::Value>& given) { return call_block(block(i, k), given); });
      std::vector<tern::Value> out;
      if (control->run(*i.node, in, bodies, out)) return give_all(i, out);
    }
    switch (i.act) {
      case Act::cond:
        return give_all(
            i, call_block(block(i, truth(in[0]) ? 0 : 1), Span<const tern::Value>(in).drop_front(1)));
      case Act::while_loop:
        return run_while(i, in);
      case Act::map:
      case Act::scan:
        return run_slices(i, in);
      case Act::set_grad: {
        GradMode mode(truth(setting(*i.node, "enabled")));
        return give_all(i, call_block(block(i, 0), in));
      }
      default: {
        const tern::Value& dtype = setting(*i.node, "dtype");
        bool enabled = truth(setting(*i.node, "enabled"));
        Autocast scope(dtype.is_none() ? kBFloat16 : static_cast<DType>(dtype.to_int()), enabled);
        return give_all(i, call_block(block(i, 0), in));
      }
    }
  }
  static const tern::Value& setting(const Node& n, Symbol name) {
    const tern::Value* v = n.attribute(name);
    if (!v) failf("{} has no attribute '{}'", n.kind().view(), name.view());
    return *v;
  }

  void run_while(const Instruction& i, std::vector<tern::Value>& state) {
    while (truth(call_block(block(i, 0), state).at(0))) {
      std::vector<tern::Value> next = call_block(block(i, 1), state);
      for (size_t k = 0; k < next.size(); ++k) state[k] = std::move(next[k]);
    }
    state.resize(i.num_out);
    give_all(i, state);
  }

  // map and scan: f(carried..., slices..., rest...) -> (carried..., one part of each result...), one round
  // for each slice along the first dimension.
  void run_slices(const Instruction& i, std::vector<tern::Value>& in) {
    auto [carried, sliced] = operands_of(*i.node);
    if (sliced == 0) failf("{} has nothing to go over", i.node->kind().view());
    std::vector<tern::Value> one = in;
    std::vector<std::vector<tern::Value>> parts(i.num_out - std::min<size_t>(carried, i.num_out));
    int64_t count = leading_size(in[carried]);
    for (size_t m = 1; m < sliced; ++m)
      if (leading_size(in[carried + m]) != count)
        failf("{}: the first dimensions differ, {} and {}", i.node->kind().view(), count,
              leading_size(in[carried + m]));
    if (count == 0) failf("{}: the first dimension is empty", i.node->kind().view());
    for (int64_t k = 0; k < count; ++k) {
      for (size_t m = carried; m < carried + sliced; ++m) one[m] = slice_of(in[m], k);
      std::vector<tern::Value> out = call_block(block(i, 0), one);
      for (size_t m = 0; m < carried; ++m) one[m] = out.at(m);
      for (size_t m = 0; m < parts.size(); ++m) parts[m].push_back(out.at(carried + m));
    }
    for (size_t m = 0; m < carried && m < i.num_out; ++m) frame.registers[i.out + m] = one[m];
    for (size_t m = 0; m < parts.size(); ++m) frame.registers[i.out + carried + m] = stacked(parts[m]);
  }
  static tern::Value slice_of(const tern::Value& v, SymInt index) {
    static const Op& select = get_op("aten::select.int");
    Arg a[] = {v.tensor(), int64_t{0}, index};
    return call1(select, a);
  }
  static tern::Value stacked(const std::vector<tern::Value>& parts) {
    static const Op& stack = get_op("aten::stack");
    std::vector<Tensor> tensors;
    for (const tern::Value& v : parts) tensors.push_back(v.tensor());
    Arg a[] = {Span<const Tensor>(tensors), int64_t{0}};
    return call1(stack, a);
  }
  static int64_t leading_size(const tern::Value& v) {
    const Tensor& t = v.tensor();
    if (!t.defined() || t.dim() == 0)
      fail("a tensor with at least one dimension is needed to go over its slices");
    return t.size(0, Loc{}).guard_int(Loc{});
  }
};

}  // namespace

Program::Program(const Graph& graph, bool unknown_when_reached)
    : code_(new_owned<Code>(graph, unknown_when_reached)) {}
Program::~Program() = default;
Program::Program(Program&&) noexcept = default;

std::vector<tern::Value> Program::run(Span<const tern::Value> inputs, const RunOptions& options) const {
  const Code& c = *code_;
  const BlockCode& top = c.blocks[0];
  if (inputs.size() != top.num_params) {
    std::string names;
    for (Value* p : c.graph.inputs()) names += (names.empty() ? "" : ", ") + p->name();
    failf(ErrorKind::type, "the graph takes {} inputs ({}) but {} were given", top.num_params, names,
          inputs.size());
  }
  Frame frame{.options = options, .registers = std::vector<tern::Value>(c.num_registers), .scratch = {}};
  Runner runner{c.blocks, c.block_lists, c.constants, c.sources, c.patches, c.args, c.dead, frame};
  return runner.call_block(top, inputs);
}

std::vector<tern::Value> run(const Graph& graph, Span<const tern::Value> inputs, const RunOptions& options) {
  return Program(graph).run(inputs, options);
}

// ---- what graphs of modules call out to ----

namespace {
[[noreturn]] void needs_host(std::string_view what) {
  failf(ErrorKind::not_supported,
        "{} needs the module it belongs to; run it through the module, or inline and freeze the graph first",
        what);
}
}  // namespace
tern::Value Host::get_attribute(const tern::Value&, Symbol name) {
  needs_host(fmt::format("reading the attribute '{}'", name.view()));
}
void Host::set_attribute(const tern::Value&, Symbol name, const tern::Value&) {
  needs_host(fmt::format("writing the attribute '{}'", name.view()));
}
tern::Value Host::call_method(const tern::Value&, Symbol name, Span<const tern::Value>) {
  needs_host(fmt::format("calling the method '{}'", name.view()));
}
tern::Value Host::call_function(const Node& node, Span<const tern::Value>) { needs_host(node.kind().view()); }
tern::Value Host::create_object(const Type& type) {
  needs_host(fmt::format("making an object of {}", type.str()));
}
bool Host::is_instance(const tern::Value& value, const Type& type) { return Type::of(value)->fits(type); }

}  // namespace tern::ir
