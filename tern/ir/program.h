// A graph prepared for running: registers, last uses, constants bound. Internal to this room.
#pragma once
#include <deque>

#include "tern/dispatch/ladder.h"
#include "tern/ir/builtins.h"
#include "tern/ir/interpreter.h"

namespace tern::ir {

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
  set_grad,
  autocast,
  auto_functionalized,
  block_call,
  get_attr,
  set_attr,
  call_method,
  call_function,
  create_object,
  is_instance,
  identity,
  uninitialized,
  sort,  // of objects: they compare themselves
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
              std::vector<double>* floats);
inline bool is_int_base(BaseType b) { return b == BaseType::int_ || b == BaseType::sym_int; }

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
  FlatMap<const Value*, uint32_t> registers;

  bool unknown_when_reached;

  FlatMap<const Value*, const Node*> last_users;

  Code(const Graph& g, bool lenient);
  uint32_t new_register(const Value& v);
  uint32_t compile(const Block& b);
  template <class F>
  void each_used(const Node& n, F&& f);
  bool is_last_use(const Value& v, const Node& n);
  Source source(const Operand& o);
  uint32_t add_sources(Span<Operand> operands);
  Instruction prepare(const Node& n);
  void choose_act(const Node& n, Instruction& i);
  [[noreturn]] static void refuse(const Node& n);
  static Symbol base_name(Symbol kind);
};

}  // namespace tern::ir
