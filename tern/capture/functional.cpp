#include "tern/capture/functional.h"

#include <algorithm>
#include <deque>

#include "tern/base/format.h"
#include "tern/dispatch/op_flags.h"

namespace tern::capture {
namespace {

// Arguments with every outer tensor replaced by its current value; owns what the Args borrow.
struct Unwrapped {
  std::vector<Arg> args;
  std::deque<Tensor> tensors;
  std::deque<std::vector<Tensor>> lists;

  Unwrapped(Functional& f, const Op& op, const Arg* from) : args(from, from + op.arity) {
    for (Arg& a : args) {
      if (a.kind == ArgKind::tensor && a.tensor_ptr->defined())
        a = Arg(tensors.emplace_back(f.unwrap(*a.tensor_ptr)));
      if (a.kind == ArgKind::tensors) {
        std::vector<Tensor>& list = lists.emplace_back();
        for (const Tensor& t : a.tensors()) list.push_back(t.defined() ? f.unwrap(t) : t);
        a = Arg(Span<const Tensor>(list));
      }
    }
  }
};

bool has_arguments_of(const Op& op, const Schema& schema) {
  const std::vector<SchemaArg>& args = op.schema().args;
  auto same_name = [](const SchemaArg& a, const SchemaArg& b) { return a.name == b.name; };
  return std::equal(schema.args.begin(), schema.args.end(), args.begin(), args.end(), same_name);
}

// The functional form of an operator that writes to arguments: what the operator returns besides them, then
// their new values. nullptr if it has none.
const Op* functional_form(const Op& op) {
  if (op.functional) return op.functional;
  const Schema& schema = op.schema();
  std::string name = schema.name.str();
  if (name.back() == '_') {
    name.pop_back();
    if (const Op* form = find_op(Symbol(name), schema.overload)) return form;
    for (const Op* form : overloads(Symbol(name)))  // transpose_, transpose.int
      if (op.is(op_geometry) && has_arguments_of(*form, schema)) return form;
  }
  const Op* form = find_op(Symbol(name + "_functional"), schema.overload);
  return form && has_arguments_of(*form, schema) ? form : nullptr;
}

void attach(const Tensor& outer, AliasView view) {
  outer->alias = new AliasView(std::move(view));
  outer->free_alias = [](AliasView* v) { delete v; };
  outer->rungs |= rung_functional;
}

Value owned(const Arg& a) { return a.to_value(); }
std::vector<Value> owned_after_first(const Op& op, const Arg* args) {
  std::vector<Value> all;
  for (int i = 1; i < op.arity; ++i) all.push_back(owned(args[i]));
  return all;
}

Value list_of(Span<const SymInt> all) {
  std::vector<Value> items;
  for (SymInt s : all) items.emplace_back(s);
  return Value::list(std::move(items));
}

// What a tensor's memory must hold: up to its last element.
SymInt elements_of(const Tensor& t) {
  SymInt count = t.offset() + 1;
  for (int64_t d = 0; d < t.dim(); ++d) count += (t.sizes()[d] - 1) * t.strides()[d];
  return t.numel() == 0 ? SymInt(0) : count;
}

[[noreturn]] void refuse_change(const Op& op) {
  failf(
      "{}: a tensor that is not part of the captured program would be changed; make it a buffer or an "
      "input",
      op.qualified());
}

}  // namespace

Tensor Functional::wrap(const Tensor& inner) {
  if (!inner.defined() || is_wrapped(inner)) return inner;
  Tensor outer = make_tensor(inner.sizes(), inner.strides(), inner.dtype(), inner.device(), true);
  outer->requires_grad = inner->requires_grad;
  outer->rungs |= inner->rungs & rung_autograd;  // bodies choose by it
  outer.storage()->alias = new AliasRecord{inner, inner, 0, next_serial_++};
  outer.storage()->free_alias = [](AliasRecord* r) { delete r; };
  attach(outer, {inner, 0, {}});
  return outer;
}

Tensor Functional::replay(const ViewStep& step, const Tensor& parent) {
  std::vector<Value> all{Value(parent)};
  all.insert(all.end(), step.args.begin(), step.args.end());
  Bound bound(*step.op, all);
  Value result;
  descend(rung_functional, *step.op, bound.args(), &result);
  return result.take_tensor();
}

Tensor Functional::unwrap(const Tensor& outer) {
  if (!is_wrapped(outer)) return outer;
  AliasView& view = *outer->alias;
  const AliasRecord& record = *outer.storage()->alias;
  if (view.version != record.version) {
    Tensor value = record.value;
    for (const ViewStep& step : view.chain) value = replay(step, value);
    view.inner = value;
    view.version = record.version;
    if (!journals_.empty()) journals_.back().refreshed.push_back(outer);
  }
  return view.inner;
}

namespace {
template <class F>
Value map_tensors(const Value& v, F&& f) {
  if (v.is_tensor()) return Value(f(v.tensor()));
  if (v.is_list() || v.is_tuple()) {
    std::vector<Value> items;
    for (const Value& item : v.items()) items.push_back(map_tensors(item, f));
    return v.is_list() ? Value::list(std::move(items), v.element_type()) : Value::tuple(std::move(items));
  }
  if (v.is_dict()) {
    std::vector<std::pair<Value, Value>> entries;
    for (auto& [key, value] : v.entries()) entries.emplace_back(key, map_tensors(value, f));
    return Value::dict(std::move(entries));
  }
  return v;
}
}  // namespace

Value Functional::wrap(const Value& v) {
  return map_tensors(v, [&](const Tensor& t) { return wrap(t); });
}
Value Functional::unwrap(const Value& v) {
  return map_tensors(v, [&](const Tensor& t) { return unwrap(t); });
}

void Functional::set_value(const Storage& storage, Tensor value) {
  AliasRecord& record = *storage->alias;
  if (!journals_.empty()) journals_.back().writes.push_back({storage, record.value, record.version});
  record.value = std::move(value);
  ++record.version;
}

void Functional::write(const Tensor& outer, Tensor value) {
  AliasView& view = *outer->alias;
  const AliasRecord& record = *outer.storage()->alias;
  if (value.dtype() != outer.dtype()) {
    Value all[] = {Value(value), Value(outer.dtype())};
    std::pair<Symbol, Value> dtype[] = {{"dtype", Value(outer.dtype())}};
    Bound bound(get_op("aten::_to_copy"), Span<const Value>(all, 1), dtype);
    Value cast;
    descend(rung_functional, get_op("aten::_to_copy"), bound.args(), &cast);
    value = cast.take_tensor();
  }
  // Values on the way from the base to this view, then back through the inverses.
  std::vector<Tensor> parents{record.value};
  for (size_t i = 0; i + 1 < view.chain.size(); ++i) parents.push_back(replay(view.chain[i], parents.back()));
  Tensor updated = value;
  for (size_t i = view.chain.size(); i-- > 0;) {
    const ViewStep& step = view.chain[i];
    if (!step.op->inverse)
      failf(ErrorKind::not_supported, "{}: a write through this view cannot be made functional",
            step.op->qualified());
    std::vector<Value> all{Value(parents[i])};
    all.insert(all.end(), step.args.begin(), step.args.end());
    Bound bound(*step.op, all);
    std::vector<Arg> args(bound.args(), bound.args() + step.op->arity);
    args.push_back(Arg(parents[i]));
    args.push_back(Arg(updated));
    Value result;
    Exclude passed(rung_functional | (rung_functional - 1));
    step.op->inverse(*step.op, args.data(), &result);
    updated = result.take_tensor();
  }
  set_value(outer.storage(), updated);
  view.inner = value;
  view.version = outer.storage()->alias->version;
}

void Functional::begin_block() { journals_.push_back({next_serial_, {}, {}}); }

std::vector<Functional::Write> Functional::end_block() {
  std::vector<Write> journal = std::move(journals_.back().writes);
  uint64_t first_serial = journals_.back().first_serial;
  for (const Tensor& t : journals_.back().refreshed) t->alias->version = UINT32_MAX;
  journals_.pop_back();
  // Undone latest first; what remains is one entry per memory, with the value it had at the block's end.
  std::vector<Write> writes;
  for (size_t i = journal.size(); i-- > 0;) {
    Write& w = journal[i];
    AliasRecord& record = *w.storage->alias;
    bool first = true;
    for (Write& seen : writes)
      if (seen.storage == w.storage) first = false;
    if (first && record.serial < first_serial) writes.push_back({w.storage, record.value, 0});
    record.value = w.before;
    ++record.version;  // never back: a view that was brought up to date inside must not look current
  }
  return writes;
}

// The names are PyTorch's: x=..., _x_base_index=0, _xs_length=2, _xs_0_base_index=1, _all_bases=[...]. A base
// is the value of some memory; a view of it is given by its geometry.
void Functional::call_on_copies(const Op& op, const Arg* args, Value* results) {
  const Schema& schema = op.schema();
  if (!on_copies)
    failf(ErrorKind::not_supported,
          "{}: it mutates its input and has no functional form, so it cannot be exported", op.qualified());
  std::vector<Value> names, inputs, bases;
  std::vector<Storage> memory;
  auto add = [&](std::string name, Value v) {
    names.emplace_back(std::move(name));
    inputs.push_back(std::move(v));
  };
  auto base = [&](const std::string& prefix, const Tensor& t) {
    if (!t.defined()) return add(prefix + "_base_index", {});
    if (!is_wrapped(t)) refuse_change(op);
    size_t index = 0;
    while (index < memory.size() && !(memory[index] == t.storage())) ++index;
    if (index == memory.size()) {
      memory.push_back(t.storage());
      bases.emplace_back(t.storage()->alias->value);
    }
    add(prefix + "_base_index", Value(static_cast<int64_t>(index)));
    if (t->alias->chain.empty()) return;
    add(prefix + "_size", list_of(t.sizes()));
    add(prefix + "_stride", list_of(t.strides()));
    add(prefix + "_storage_offset", Value(t.offset()));
  };
  for (size_t i = 0; i < op.arity; ++i)
    if (!schema.args[i].alias.write) add(schema.args[i].name.str(), unwrap(owned(args[i])));
  for (size_t i = 0; i < op.arity; ++i) {
    const SchemaArg& arg = schema.args[i];
    if (!arg.alias.write) continue;
    std::string prefix = "_" + arg.name.str();
    if (args[i].kind == ArgKind::tensors) {
      Span<const Tensor> list = args[i].tensors();
      add(prefix + "_length", Value(static_cast<int64_t>(list.size())));
      for (size_t k = 0; k < list.size(); ++k) base(fmt::format("{}_{}", prefix, k), list[k]);
    } else {
      base(prefix, args[i].is_none() ? Tensor() : args[i].tensor());
    }
  }
  add("_all_bases", Value::list(std::move(bases)));
  std::vector<Value> made = on_copies(op, Value::list(std::move(names)), inputs);
  size_t first_copy = std::max<size_t>(op.results, 1);
  for (size_t i = 0; i < memory.size(); ++i) set_value(memory[i], made.at(first_copy + i).tensor());
  for (size_t r = 0; r < op.results; ++r) results[r] = wrap(made[r]);
}

// From here on the tensor is a view of what it was, or has larger memory.
void Functional::change_geometry(const Op& op, const Arg* args, Value* results) {
  const Tensor& outer = args[0].tensor();
  if (!is_wrapped(outer)) refuse_change(op);
  AliasView& view = *outer->alias;
  AliasRecord& record = *outer.storage()->alias;
  if (!journals_.empty() && record.serial < journals_.back().first_serial)
    failf(ErrorKind::not_supported,
          "{}: a tensor from outside of a branch or loop gets other sizes inside; clone() it first",
          op.qualified());
  const Op& form = *functional_form(op);
  Unwrapped inner(*this, op, args);
  {
    Exclude all(rung_record | rung_autograd | rung_functional | rung_core);
    tern::call(op, args, results);
  }
  if (form.is(op_view)) {
    view.chain.push_back({&form, owned_after_first(op, args)});
    view.inner = replay(view.chain.back(), inner.args[0].tensor());
    return;
  }

  // resize_ and resize_as_. Sizes that were given before do not matter: what counts is the memory.
  static const Op &as_strided = get_op("aten::as_strided"), &resize_ = get_op("aten::resize_");
  const size_t steps = view.chain.size();
  while (!view.chain.empty() && view.chain.back().op == &as_strided && view.chain.back().args[2].is_none())
    view.chain.pop_back();
  if (view.chain.size() < steps) {
    Tensor whole = record.value;
    for (const ViewStep& step : view.chain) whole = replay(step, whole);
    inner.args[0] = Arg(inner.tensors.emplace_back(whole));
  }
  const bool fits = elements_of(outer) <= elements_of(record.value);
  if (!fits && (!view.chain.empty() || outer.storage().use_count() > 1))
    failf(ErrorKind::not_supported,
          "{}: memory that has views cannot grow while a program is captured; resize it before there are any",
          op.qualified());
  const ViewStep step{&as_strided, {list_of(outer.sizes()), list_of(outer.strides()), Value()}};
  if (fits && &op == &resize_) {
    view.inner = replay(step, inner.args[0].tensor());
  } else {
    Value made;
    descend(rung_functional, form, inner.args.data(), &made);
    view.inner = made.take_tensor();
  }
  if (fits) {
    view.chain.push_back(step);
  } else {
    set_value(outer.storage(), view.inner);
    record.grown = true;
  }
  view.version = record.version;
}

void Functional::call(const Op& op, const Arg* args, Value* results) {
  const Schema& schema = op.schema();
  if (op.is(op_geometry)) return change_geometry(op, args, results);

  // Nothing outer among the arguments (a factory): its result gets memory of its own.
  if (op.is(op_inplace) || op.is(op_out) || schema.mutates()) {
    const Op* found = functional_form(op);
    if (!found) return call_on_copies(op, args, results);
    const Op& form = *found;
    Unwrapped inner(*this, op, args);
    std::vector<Value> made(std::max<int>(form.results, 1));
    descend(rung_functional, form, inner.args.data(), made.data());
    int written = 0;
    for (int i = 0; i < op.arity; ++i) written += schema.args[i].alias.write;
    int r = std::max(form.results - written, 0);
    for (int i = 0; i < r; ++i) results[i] = wrap(made[i]);
    for (int i = 0; i < op.arity && r < form.results; ++i) {
      if (!schema.args[i].alias.write) continue;
      const Tensor& target = args[i].tensor();
      if (!is_wrapped(target)) refuse_change(op);
      write(target, made[r].tensor());
      if (r < op.results) results[r] = Value(target);
      ++r;
    }
    return;
  }

  Unwrapped inner(*this, op, args);
  descend(rung_functional, op, inner.args.data(), results);
  if (!op.is(op_view) || !is_wrapped(args[0].tensor())) {
    for (int r = 0; r < op.results; ++r) results[r] = wrap(results[r]);
    return;
  }

  // A view: its geometry on the outer tensor's memory, its value from the inner one.
  const Tensor& self = args[0].tensor();
  Value geometry;
  {
    Exclude all(rung_record | rung_autograd | rung_functional | rung_core);
    tern::call(op, args, &geometry);
  }
  std::vector<Value> step_args = owned_after_first(op, args);
  uint32_t version = self.storage()->alias->version;
  auto finish = [&](const Tensor& outer, const Tensor& value, ViewStep step) {
    AliasView view{value, version, self->alias->chain};
    view.chain.push_back(std::move(step));
    attach(outer, std::move(view));
  };
  if (geometry.is_tensor()) {
    Tensor value = results[0].tensor();
    finish(geometry.tensor(), value, {&op, std::move(step_args)});
    results[0] = geometry;
    return;
  }
  // Several views at once (split, unbind): each is a slice or a selection along one dimension.
  int64_t d = 0;
  if (int at = schema.find("dim"); at >= 0 && !args[at].is_none())
    d = wrap_dim(args[at].to_int(), self.dim());
  SymInt start = 0;
  for (size_t i = 0; i < geometry.items().size(); ++i) {
    const Tensor& outer = geometry.items()[i].tensor();
    const Tensor& value = results[0].items()[i].tensor();
    ViewStep step;
    if (outer.dim() < self.dim()) {
      step = {&get_op("aten::select.int"), {Value(d), Value(static_cast<int64_t>(i))}};
    } else {
      SymInt end = start + outer.sizes()[d];
      step = {&get_op("aten::slice.Tensor"), {Value(d), Value(start), Value(end), Value(1)}};
      start = end;
    }
    finish(outer, value, std::move(step));
  }
  results[0] = geometry;
}

}  // namespace tern::capture
