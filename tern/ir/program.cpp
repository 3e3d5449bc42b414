#include "tern/ir/program.h"

#include <unordered_map>

#include "tern/base/format.h"

namespace tern::ir {

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

Program::Code::Code(const Graph& g, bool lenient) : graph(g), unknown_when_reached(lenient) {
  registers.reserve(g.num_nodes() + g.inputs().size());
  compile(g.top());
  registers.clear();
}

uint32_t Program::Code::new_register(const Value& v) {
  registers.emplace(&v, num_registers);
  return num_registers++;
}

uint32_t Program::Code::compile(const Block& b) {
  uint32_t id = static_cast<uint32_t>(blocks.size());
  BlockCode& code = blocks.emplace_back();
  code.params = num_registers;
  code.num_params = static_cast<uint32_t>(b.params().size());
  for (Value* p : b.params()) new_register(*p);
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
void Program::Code::each_used(const Node& n, F&& f) {
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
bool Program::Code::is_last_use(const Value& v, const Node& n) {
  if (v.num_uses() == 1 && &(*v.uses().begin()).user->block() == &n.block())
    return (*v.uses().begin()).user == &n;
  auto [it, fresh] = last_users.emplace(&v, nullptr);
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

Source Program::Code::source(const Operand& o) {
  if (o.is_value()) return {Source::reg, registers.at(&o.value())};
  if (o.is_list()) {
    uint32_t count = static_cast<uint32_t>(o.list().size());
    return {Source::list, add_sources(o.list()), count};
  }
  constants.push_back(o.constant());
  return {Source::constant, static_cast<uint32_t>(constants.size() - 1)};
}

uint32_t Program::Code::add_sources(Span<Operand> operands) {
  std::vector<Source> all;
  for (const Operand& o : operands) all.push_back(source(o));
  uint32_t first = static_cast<uint32_t>(sources.size());
  sources.insert(sources.end(), all.begin(), all.end());
  return first;
}

Instruction Program::Code::prepare(const Node& n) {
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

void Program::Code::choose_act(const Node& n, Instruction& i) {
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
      {"higher_order::map_impl", Act::map},
      {"higher_order::scan", Act::scan},
      {"higher_order::wrap_with_set_grad_enabled", Act::set_grad},
      {"higher_order::wrap_with_autocast", Act::autocast},
      {"higher_order::auto_functionalized", Act::auto_functionalized},
      {"higher_order::auto_functionalized_v2", Act::auto_functionalized},
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
  if ((n.is("aten::sort") || n.is("aten::sorted")) && n.inputs()[0].is_value() &&
      n.inputs()[0].value().type()->is(TypeKind::list) &&
      n.inputs()[0].value().type()->element()->is(TypeKind::class_)) {
    i.act = Act::sort;
    return;
  }
  if (!i.builtin && !ops) {
    if (n.is_return()) return;
    if (!unknown_when_reached) refuse(n);
    i.act = Act::missing;
    return;
  }
  // Numbers and strings cannot mean an operator on tensors.
  auto plain = [](const Operand& o) {
    if (o.is_list()) return false;
    if (o.is_constant())
      return !o.constant().is_tensor() && !o.constant().is_list() && !o.constant().is_tuple();
    switch (o.value().type()->kind()) {
      case TypeKind::int_:
      case TypeKind::float_:
      case TypeKind::bool_:
      case TypeKind::complex_:
      case TypeKind::string:
      case TypeKind::number:
        return true;
      default:
        return false;
    }
  };
  bool tensors = ops && !i.builtin;
  for (const Operand& o : n.inputs()) tensors = tensors || (ops && !plain(o));
  i.act = tensors ? Act::dynamic : Act::builtin;
}

void Program::Code::refuse(const Node& n) {
  std::string place = n.origin() ? n.origin()->place() : "";
  failf(ErrorKind::not_supported,
        "the interpreter has no {} (%{}{}); define() it as an operator or rewrite the graph first",
        n.kind().view(), n.name(), place.empty() ? "" : " at " + place);
}

Symbol Program::Code::base_name(Symbol kind) {
  std::string_view text = kind.view();
  size_t colons = text.find("::");
  return Symbol(text.substr(0, text.find('.', colons == std::string_view::npos ? 0 : colons)));
}

}  // namespace tern::ir
