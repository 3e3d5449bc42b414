#include "tern/ir/interpreter.h"

#include <deque>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/ir/builtins.h"
#include "tern/sym/shape_env.h"

namespace tern::ir {
namespace {

// Where an operand's value comes from.
struct Source {
  enum Kind : uint8_t { reg, constant, list } kind;
  uint32_t index;  // register, constant, or first of `count` sources
  uint32_t count = 0;
};

enum class Act : uint8_t {
  op,
  builtin,
  dynamic,
  constant,
  list,
  tuple,
  dict,
  unpack,
  if_,
  loop,
  cond,
  while_loop,
  map,
  scan,
  block_call,
  get_attr,
  set_attr,
  call_method,
  call_function,
  create_object,
  is_instance,
  identity,
  uninitialized,
  missing,
};

// One argument that is known only at run time.
struct Patch {
  uint32_t arg;
  Source source;
};

struct Instruction {
  Act act;
  bool slow = false;  // op: a constant needs the general binder
  const Node* node;
  const Op* op = nullptr;
  Builtin builtin = nullptr;
  uint32_t args = 0;  // first of op->arity templates
  uint32_t patches = 0, num_patches = 0;
  uint32_t inputs = 0, num_inputs = 0;  // sources
  uint32_t out = 0, num_out = 0;        // registers
  uint32_t dead = 0, num_dead = 0;      // registers whose last use this is
  uint32_t blocks = 0, num_blocks = 0;
};

struct BlockCode {
  uint32_t params = 0, num_params = 0;  // registers
  uint32_t returns = 0, num_returns = 0;
  std::vector<Instruction> code;
};

// What Args borrow besides Values: reused from call to call.
struct Scratch {
  std::deque<Dims> ints;
  std::deque<std::vector<Tensor>> tensors;
  std::deque<std::vector<double>> floats;
  size_t used_ints = 0, used_tensors = 0, used_floats = 0;

  Dims& next_ints() {
    if (used_ints == ints.size()) ints.emplace_back();
    Dims& d = ints[used_ints++];
    d.clear();
    return d;
  }
  std::vector<Tensor>& next_tensors() {
    if (used_tensors == tensors.size()) tensors.emplace_back();
    return tensors[used_tensors++];
  }
  std::vector<double>& next_floats() {
    if (used_floats == floats.size()) floats.emplace_back();
    std::vector<double>& f = floats[used_floats++];
    f.clear();
    return f;
  }
  void reset() {
    for (size_t i = 0; i < used_tensors; ++i) tensors[i].clear();
    used_ints = used_tensors = used_floats = 0;
  }
};

bool add_item(const SchemaType& type, const tern::Value& v, Dims* ints, std::vector<Tensor>* tensors,
              std::vector<double>* floats) {
  if (tensors) {
    if (!v.is_tensor() && !(v.is_none() && type.element_optional)) return false;
    tensors->push_back(v.tensor());
  } else if (ints) {
    if (!v.is_int()) return false;
    ints->push_back(type.base == BaseType::int_ ? SymInt(v.sym().guard_int(Loc{})) : v.sym());
  } else {
    if (!v.is_float() && !v.is_int()) return false;
    floats->push_back(v.to_double());
  }
  return true;
}

bool is_int_base(BaseType b) { return b == BaseType::int_ || b == BaseType::sym_int; }

// The usual conversions without the general binder; false sends the call there.
inline bool convert(const SchemaType& type, const tern::Value& v, Arg& arg, Scratch& scratch) {
  if (v.is_none()) {
    if (!type.accepts_none()) return false;
    arg = Arg();
    return true;
  }
  if (type.list) {
    if (!v.is_list() && !v.is_tuple()) return false;
    if (type.base == BaseType::tensor) {
      auto& list = scratch.next_tensors();
      for (const tern::Value& item : v.items())
        if (!add_item(type, item, nullptr, &list, nullptr)) return false;
      arg = Arg(Span<const Tensor>(list));
    } else if (is_int_base(type.base)) {
      auto& list = scratch.next_ints();
      for (const tern::Value& item : v.items())
        if (!add_item(type, item, &list, nullptr, nullptr)) return false;
      arg = Arg(Span<const SymInt>(list));
    } else if (type.base == BaseType::float_) {
      auto& list = scratch.next_floats();
      for (const tern::Value& item : v.items())
        if (!add_item(type, item, nullptr, nullptr, &list)) return false;
      arg = Arg(Span<const double>(list));
    } else {
      return false;
    }
    return true;
  }
  switch (type.base) {
    case BaseType::tensor:
      if (!v.is_tensor()) return false;
      arg = Arg(v.tensor());
      return true;
    case BaseType::int_:
      if (!v.is_int()) return false;
      arg = Arg(v.sym().guard_int(Loc{}));
      return true;
    case BaseType::sym_int:
    case BaseType::dtype:
    case BaseType::layout:
    case BaseType::memory_format:
      if (!v.is_int()) return false;
      arg = Arg(v.sym());
      return true;
    case BaseType::float_:
      if (!v.is_float() && !v.is_int()) return false;
      arg = Arg(v.to_double());
      return true;
    case BaseType::bool_:
      if (!v.is_bool()) return false;
      arg = Arg(v.to_bool());
      return true;
    case BaseType::scalar:
      if (v.is_int())
        arg = Arg(v.sym());
      else if (v.is_float())
        arg = Arg(v.to_double());
      else if (v.is_bool())
        arg = Arg(v.to_bool());
      else
        return false;
      return true;
    case BaseType::string:
      if (!v.is_string()) return false;
      arg = Arg(std::string_view(v.string()));
      return true;
    case BaseType::device:
      if (v.kind() != ValueKind::device) return false;
      arg = Arg(v.device());
      return true;
    default:
      return false;
  }
}

}  // namespace

struct Program::Code {
  const Graph& graph;
  std::deque<BlockCode> blocks;
  std::vector<uint32_t> block_lists;
  std::deque<tern::Value> constants;  // templates borrow from them
  std::vector<Source> sources;
  std::vector<Patch> patches;
  std::vector<Arg> args;
  std::vector<uint32_t> dead;
  Scratch kept;  // lists the templates borrow
  uint32_t num_registers = 0;
  std::unordered_map<const Value*, uint32_t> registers;

  bool unknown_when_reached;

  Code(const Graph& g, bool lenient) : graph(g), unknown_when_reached(lenient) {
    registers.reserve(g.num_nodes() + g.inputs().size());
    compile(g.top());
    registers.clear();
  }

  uint32_t new_register(const Value& v) {
    registers.emplace(&v, num_registers);
    return num_registers++;
  }

  // ---- preparing ----

  uint32_t compile(const Block& b) {
    uint32_t id = static_cast<uint32_t>(blocks.size());
    BlockCode& code = blocks.emplace_back();
    code.params = num_registers;
    code.num_params = static_cast<uint32_t>(b.params().size());
    for (Value* p : b.params()) new_register(*p);
    std::unordered_map<const Node*, std::vector<uint32_t>> dies;
    bool first = true;
    for (const Node& n : b) {
      Instruction i = prepare(n);
      i.dead = static_cast<uint32_t>(dead.size());
      // Values of this block that no later node of this block uses, inside its blocks either.
      auto note = [&](const Value& v) {
        if (&v.block() != &b || !is_last_use(v, n)) return;
        uint32_t r = registers.at(&v);
        for (size_t k = i.dead; k < dead.size(); ++k)
          if (dead[k] == r) return;
        dead.push_back(r);
      };
      each_used(n, note);
      for (Value* v : n.outputs())
        if (!v->has_uses()) dead.push_back(registers.at(v));
      if (first)
        for (Value* p : b.params())
          if (!p->has_uses()) dead.push_back(registers.at(p));
      first = false;
      i.num_dead = static_cast<uint32_t>(dead.size()) - i.dead;
      code.code.push_back(i);
    }
    code.num_returns = static_cast<uint32_t>(b.returns().size());
    code.returns = add_sources(b.returns());
    return id;
  }

  template <class F>
  void each_used(const Node& n, F&& f) {
    auto visit = [&](auto& self, const Operand& o) -> void {
      if (o.is_value())
        f(o.value());
      else if (o.is_list())
        for (const Operand& item : o.list()) self(self, item);
    };
    for (const Operand& o : n.inputs()) visit(visit, o);
    for (const Block* inner : n.blocks()) {
      for (const Node& m : *inner) each_used(m, f);
      for (const Operand& o : inner->returns()) visit(visit, o);
    }
  }

  // The user that comes last in the value's own block, found once per value.
  std::unordered_map<const Value*, const Node*> last_users;
  bool is_last_use(const Value& v, const Node& n) {
    if (v.num_uses() == 1 && &(*v.uses().begin()).user->block() == &n.block())
      return (*v.uses().begin()).user == &n;
    auto [it, fresh] = last_users.try_emplace(&v, nullptr);
    if (fresh) {
      const Node* last = nullptr;
      for (const Use& u : v.uses()) {
        const Node* user = u.user;
        while (&user->block() != &v.block()) user = user->parent();
        if (!last || last->is_before(*user)) last = user;
      }
      it->second = last;
    }
    return it->second == &n;
  }

  Source source(const Operand& o) {
    if (o.is_value()) return {Source::reg, registers.at(&o.value())};
    if (o.is_list()) {
      uint32_t count = static_cast<uint32_t>(o.list().size());
      return {Source::list, add_sources(o.list()), count};
    }
    constants.push_back(o.constant());
    return {Source::constant, static_cast<uint32_t>(constants.size() - 1)};
  }
  uint32_t add_sources(Span<Operand> operands) {
    std::vector<Source> all;
    for (const Operand& o : operands) all.push_back(source(o));
    uint32_t first = static_cast<uint32_t>(sources.size());
    sources.insert(sources.end(), all.begin(), all.end());
    return first;
  }

  Instruction prepare(const Node& n) {
    Instruction i{.act = Act::op, .node = &n};
    i.num_inputs = static_cast<uint32_t>(n.inputs().size());
    if (n.op()) {
      i.op = n.op();
      const Schema& schema = n.op()->schema();
      i.args = static_cast<uint32_t>(args.size());
      i.patches = static_cast<uint32_t>(patches.size());
      args.resize(args.size() + schema.args.size());
      i.inputs = add_sources(n.inputs());
      for (uint32_t k = 0; k < schema.args.size(); ++k) {
        Source s = sources[i.inputs + k];
        if (s.kind != Source::constant) {
          patches.push_back({k, s});
        } else if (!convert(schema.args[k].type, constants[s.index], args[i.args + k], kept)) {
          i.slow = true;
        }
      }
      i.num_patches = static_cast<uint32_t>(patches.size()) - i.patches;
    } else {
      i.inputs = add_sources(n.inputs());
      choose_act(n, i);
    }
    std::vector<uint32_t> inner;
    for (const Block* b : n.blocks()) inner.push_back(compile(*b));
    i.blocks = static_cast<uint32_t>(block_lists.size());
    i.num_blocks = static_cast<uint32_t>(inner.size());
    block_lists.insert(block_lists.end(), inner.begin(), inner.end());
    i.out = num_registers;
    i.num_out = static_cast<uint32_t>(n.num_outputs());
    for (Value* v : n.outputs()) new_register(*v);
    return i;
  }

  void choose_act(const Node& n, Instruction& i) {
    static const std::unordered_map<std::string_view, Act> acts = {
        {"prim::Constant", Act::constant},
        {"prim::ListConstruct", Act::list},
        {"prim::TupleConstruct", Act::tuple},
        {"prim::DictConstruct", Act::dict},
        {"prim::ListUnpack", Act::unpack},
        {"prim::TupleUnpack", Act::unpack},
        {"prim::If", Act::if_},
        {"prim::Loop", Act::loop},
        {"higher_order::cond", Act::cond},
        {"higher_order::while_loop", Act::while_loop},
        {"higher_order::map", Act::map},
        {"higher_order::map_impl", Act::map},
        {"higher_order::scan", Act::scan},
        {"prim::fork", Act::block_call},
        {"aten::wait", Act::identity},
        {"prim::unchecked_cast", Act::identity},
        {"prim::GetAttr", Act::get_attr},
        {"prim::SetAttr", Act::set_attr},
        {"prim::CallMethod", Act::call_method},
        {"prim::CallFunction", Act::call_function},
        {"prim::PythonOp", Act::call_function},
        {"prim::CreateObject", Act::create_object},
        {"prim::isinstance", Act::is_instance},
        {"prim::Uninitialized", Act::uninitialized},
    };
    if (auto it = acts.find(n.kind().view()); it != acts.end()) {
      i.act = it->second;
      return;
    }
    i.builtin = find_builtin(n.kind());
    bool ops = !overloads(base_name(n.kind())).empty();
    if (!i.builtin && !ops) {
      if (n.is_return()) return;
      if (!unknown_when_reached) refuse(n);
      i.act = Act::missing;
      return;
    }
    i.act = ops ? Act::dynamic : Act::builtin;
  }
  [[noreturn]] static void refuse(const Node& n) {
    std::string place = n.origin() ? n.origin()->place() : "";
    failf(ErrorKind::not_supported,
          "the interpreter has no {} (%{}{}); define() it as an operator or rewrite the graph first",
          n.kind().view(), n.name(), place.empty() ? "" : " at " + place);
  }
  static Symbol base_name(Symbol kind) {
    std::string_view text = kind.view();
    size_t colons = text.find("::");
    return Symbol(text.substr(0, text.find('.', colons == std::string_view::npos ? 0 : colons)));
  }
};

namespace {

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
    Arg buffer[24];
    std::vector<Arg> more;
    Arg* arg = buffer;
    size_t arity = op.arity;
    if (arity > 24) {
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
          failf("expected {} elements in a {} but found {}", i.num_out, v.is_list() ? "list" : "tuple",
                v.items().size());
        give_all(i, v.items());
        break;
      }
      case Act::if_: {
        const BlockCode& b = block(i, truth(input(i, 0)) ? 0 : 1);
        run_block(b);
        give_all(i, returns(b));
        break;
      }
      case Act::loop:
        run_loop(i);
        break;
      case Act::cond: {
        std::vector<tern::Value> in = inputs(i);
        const BlockCode& b = block(i, truth(in[0]) ? 0 : 1);
        give_all(i, call_block(b, Span<const tern::Value>(in).drop_front(1)));
        break;
      }
      case Act::while_loop: {
        std::vector<tern::Value> state = inputs(i);
        while (truth(call_block(block(i, 0), state)[0])) {
          std::vector<tern::Value> next = call_block(block(i, 1), state);
          for (size_t k = 0; k < next.size(); ++k) state[k] = std::move(next[k]);
        }
        state.resize(i.num_out);
        give_all(i, state);
        break;
      }
      case Act::map:
        run_map(i);
        break;
      case Act::scan:
        run_scan(i);
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
          is = is || host().is_instance(input(i, 0), *parse_type(t.string()));
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
        give(i, tern::Value());
        break;
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
    const std::vector<const Op*>& candidates = overloads(Symbol(without_overload(i.node->kind())));
    if (i.builtin && !tensors) return give(i, i.builtin(in));
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
      std::vector<tern::Value> next = returns(b);
      go_on = truth(next[0]);
      for (size_t k = 0; k < state.size(); ++k) state[k] = std::move(next[k + 1]);
    }
    give_all(i, state);
  }

  static tern::Value slice_of(const tern::Value& v, int64_t dim, SymInt index) {
    static const Op& select = get_op("aten::select.int");
    Arg a[] = {v.tensor(), dim, index};
    return call1(select, a);
  }
  static tern::Value stacked(const std::vector<tern::Value>& parts, int64_t dim) {
    static const Op& stack = get_op("aten::stack");
    std::vector<Tensor> tensors;
    for (const tern::Value& v : parts) tensors.push_back(v.tensor());
    Arg a[] = {Span<const Tensor>(tensors), dim};
    return call1(stack, a);
  }
  static int64_t attribute_or(const Node& n, Symbol name, int64_t otherwise) {
    const tern::Value* v = n.attribute(name);
    return v ? (v->is_bool() ? v->to_bool() : v->to_int()) : otherwise;
  }

  // map(f, xs..., args...): f on each slice along the first dimension of the first `num_mapped` inputs.
  void run_map(const Instruction& i) {
    std::vector<tern::Value> in = inputs(i);
    size_t mapped = static_cast<size_t>(attribute_or(*i.node, "num_mapped", 1));
    if (mapped == 0 || mapped > in.size())
      failf("{} maps over {} of {} inputs", i.node->kind().view(), mapped, in.size());
    int64_t count = leading_size(in[0], 0);
    std::vector<std::vector<tern::Value>> parts(i.num_out);
    for (int64_t k = 0; k < count; ++k) {
      std::vector<tern::Value> one = in;
      for (size_t m = 0; m < mapped; ++m) one[m] = slice_of(in[m], 0, k);
      std::vector<tern::Value> out = call_block(block(i, 0), one);
      for (size_t m = 0; m < parts.size(); ++m) parts[m].push_back(out.at(m));
    }
    for (uint32_t m = 0; m < i.num_out; ++m) frame.registers[i.out + m] = stacked(parts[m], 0);
  }
  // scan(f, init..., xs..., extra...): f(carry..., slices..., extra...) -> (carry..., y...).
  void run_scan(const Instruction& i) {
    std::vector<tern::Value> in = inputs(i);
    const Node& n = *i.node;
    size_t carried = static_cast<size_t>(attribute_or(n, "num_init", 1));
    size_t scanned = static_cast<size_t>(attribute_or(n, "num_xs", 1));
    int64_t dim = attribute_or(n, "dim", 0);
    bool reverse = attribute_or(n, "reverse", 0) != 0;
    if (scanned == 0 || carried + scanned > in.size())
      failf("higher_order::scan carries {} and scans {} of {} inputs", carried, scanned, in.size());
    int64_t count = leading_size(in[carried], dim);
    std::vector<std::vector<tern::Value>> parts(i.num_out - std::min<size_t>(carried, i.num_out));
    std::vector<tern::Value> one = in;
    for (int64_t k = 0; k < count; ++k) {
      int64_t at = reverse ? count - 1 - k : k;
      for (size_t m = 0; m < scanned; ++m) one[carried + m] = slice_of(in[carried + m], dim, at);
      std::vector<tern::Value> out = call_block(block(i, 0), one);
      for (size_t m = 0; m < carried; ++m) one[m] = out.at(m);
      for (size_t m = 0; m < parts.size(); ++m) parts[m].push_back(out.at(carried + m));
    }
    for (size_t m = 0; m < carried && m < i.num_out; ++m) frame.registers[i.out + m] = one[m];
    for (size_t m = 0; m < parts.size(); ++m) {
      if (reverse) std::reverse(parts[m].begin(), parts[m].end());
      frame.registers[i.out + carried + m] = stacked(parts[m], 0);
    }
  }
  static int64_t leading_size(const tern::Value& v, int64_t dim) {
    const Tensor& t = v.tensor();
    if (!t.defined() || t.dim() == 0)
      fail("a tensor with at least one dimension is needed to go over its slices");
    return t.size(dim, Loc{}).guard_int(Loc{});
  }
};

}  // namespace

Program::Program(const Graph& graph, bool unknown_when_reached)
    : code_(std::make_unique<Code>(graph, unknown_when_reached)) {}
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
