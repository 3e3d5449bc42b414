// Which overload a call means: types matched with TorchScript's implicit conversions.
#include <algorithm>
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/base/small_vector.h"
#include "tern/dispatch/op.h"
#include "tern/script/compiler.h"
#include "tern/script/inlining.h"
#include "tern/script/kept_names.h"

namespace tern::script {
namespace {

using ir::Type;
using ir::TypeKind;

bool is_number(const Type* t) {
  return t->is(TypeKind::int_) || t->is(TypeKind::float_) || t->is(TypeKind::complex_) ||
         t->is(TypeKind::number);
}

}  // namespace

// ---- subtypes ----

// Containers are invariant, tuples covariant; what comes from an operator nobody knows fits everything.
bool Compiler::subtype(const Type* a, const Type* b) {
  a = plain(a), b = plain(b);
  if (a == b || b->is(TypeKind::any)) return true;
  if (a->is(TypeKind::any)) return !strict_;
  if (a->is(TypeKind::union_)) {
    for (const Type* e : a->elements())
      if (!subtype(e, b)) return false;
    return true;
  }
  if (a->is(TypeKind::optional)) return subtype(Type::none(), b) && subtype(a->element(), b);
  if (b->is(TypeKind::optional)) return a->is(TypeKind::none) || subtype(a, b->element());
  if (b->is(TypeKind::union_)) {
    for (const Type* e : b->elements())
      if (subtype(a, e)) return true;
    return false;
  }
  if (b->is(TypeKind::number)) return is_number(a);
  if (b->is(TypeKind::interface)) return implements(a, b);
  if (a->kind() != b->kind()) return false;
  switch (a->kind()) {
    case TypeKind::tuple:
      if (a->elements().size() != b->elements().size()) return false;
      if (!b->name().empty() && a->name() != b->name()) return false;
      for (size_t i = 0; i < a->elements().size(); ++i)
        if (!subtype(a->element(i), b->element(i))) return false;
      return true;
    case TypeKind::future:
      return subtype(a->element(), b->element());
    case TypeKind::list:
    case TypeKind::dict:
      if (strict_) return false;
      return a->fits(*b);
    default:
      return false;
  }
}

bool Compiler::implements(const Type* type, const Type* interface) {
  if (type == interface) return true;
  if (!type->is(TypeKind::class_) && !type->is(TypeKind::interface)) return false;
  ClassType *c = unit_.find_class(type->name()), *wanted = unit_.find_class(interface->name());
  if (!c || !wanted) return false;
  for (const auto& m : wanted->methods) {
    Function* f = c->method(Symbol(m->name()));
    if (!f) return false;
    unit_.declare(*f);
    unit_.declare(*m);
    if (f->args().size() != m->args().size()) return false;
    if (!f->returns()) unit_.compile(*f);
    if (f->returns() && m->returns() && !subtype(f->returns(), m->returns())) return false;
    for (size_t i = 1; i < f->args().size(); ++i)
      if (!subtype(m->args()[i].type, f->args()[i].type)) return false;
  }
  return true;
}

// ---- conversions ----

std::optional<Val> Compiler::convert(const Val& v, const Type* type, bool conversions) {
  const Type* t = v.type;
  if (v.kind != Val::plain) {
    if (type->is(TypeKind::any)) return v;
    auto each = [&](Val out, auto wanted) -> std::optional<Val> {
      for (size_t i = 0; i < out.items.size(); ++i) {
        std::optional<Val> c = convert(out.items[i], wanted(i), conversions);
        if (!c) return std::nullopt;
        out.items[i] = *c;
        if (out.items[i].type->is(TypeKind::none)) out.items[i].type = wanted(i);
      }
      out.type = type;
      return out;
    };
    if (type->is(TypeKind::list)) {  // a tuple of one type may stand for a list
      Val out = v;
      out.kind = Val::list;
      return each(std::move(out), [&](size_t) { return type->element(); });
    }
    if (v.kind == Val::tuple && type->is(TypeKind::tuple) && type->elements().size() == v.items.size() &&
        (type->name().empty() || type->name() == t->name()))
      return each(v, [&](size_t i) { return type->element(i); });
    if (type->is(TypeKind::optional)) return convert(v, type->element(), conversions);
    if (type->is(TypeKind::union_)) {
      for (const Type* u : type->elements())
        if (std::optional<Val> c = convert(v, u, conversions)) return c;
    }
    return std::nullopt;
  }
  if (subtype(t, type)) {
    Val out = v;
    if (t->is(TypeKind::none)) out.type = type;
    return out;
  }
  if (t->is(TypeKind::optional) || t->is(TypeKind::union_)) return std::nullopt;
  if (type->is(TypeKind::optional)) return convert(v, type->element(), conversions);
  if (t->is(TypeKind::tuple) && type->is(TypeKind::list)) {
    for (const Type* e : t->elements())
      if (!subtype(e, type->element())) return std::nullopt;
    Val out = pieces(v);
    out.kind = Val::list;
    out.type = type;
    return out;
  }
  if (t->is(TypeKind::tuple) && type->is(TypeKind::tuple) && t->elements().size() == type->elements().size())
    return convert(pieces(v), type, conversions);
  if (!conversions) return std::nullopt;
  if (t->is_tensor()) {
    if (type->is(TypeKind::int_)) return simple("aten::IntImplicit", {v.in}, type);
    if (type->is(TypeKind::float_)) return simple("aten::FloatImplicit", {v.in}, type);
    if (type->is(TypeKind::complex_)) return simple("aten::ComplexImplicit", {v.in}, type);
    if (type->is(TypeKind::number)) return simple("aten::ScalarImplicit", {v.in}, type);
  }
  if (t->is(TypeKind::number)) {
    if (type->is(TypeKind::float_)) return simple("aten::Float", {v.in}, type);
    if (type->is(TypeKind::int_)) return simple("aten::Int", {v.in}, type);
    if (type->is(TypeKind::complex_)) return simple("aten::Complex", {v.in}, type);
  }
  if (t->is(TypeKind::bool_)) {
    if (type->is(TypeKind::float_)) return simple("aten::Float", {v.in}, type);
    if (type->is(TypeKind::int_) || type->is(TypeKind::number))
      return simple("aten::Int", {v.in}, Type::integer());
  }
  if (type->is(TypeKind::device) && t->is(TypeKind::string)) return simple("aten::device", {v.in}, type);
  return std::nullopt;
}

// A tuple as its elements.
Val Compiler::pieces(const Val& v) {
  if (v.kind == Val::tuple) return v;
  Val out;
  out.kind = Val::tuple;
  out.type = v.type;
  if (v.is_constant()) {
    for (size_t i = 0; i < v.type->elements().size(); ++i)
      out.items.push_back(typed(In(v.in.constant().items()[i]), v.type->element(i)));
  } else {
    ir::Node& unpack = make("prim::TupleUnpack", {v.in}, v.type->elements().vec());
    for (ir::Value* o : unpack.outputs()) out.items.push_back(typed(*o, o->type()));
  }
  return out;
}

// Binds the variables of a pattern to what stands in a type; false if the shapes differ.
bool Compiler::bind_pattern(const Type* t, const Pattern& p, Bindings& b) {
  switch (p.kind) {
    case Pattern::exact:
      return t == p.type || subtype(t, p.type) || (t->is(TypeKind::any) && !strict_);
    case Pattern::variable:
      if (const Type* bound = b.find(p.name)) return plain(t) == plain(bound) || subtype(t, bound);
      b.items.emplace_back(p.name, plain(t));
      return true;
    case Pattern::list:
      return t->is(TypeKind::list) && bind_pattern(t->element(), p.items[0], b);
    case Pattern::future:
      return t->is(TypeKind::future) && bind_pattern(t->element(), p.items[0], b);
    case Pattern::dict:
      return t->is(TypeKind::dict) && bind_pattern(t->element(0), p.items[0], b) &&
             bind_pattern(t->element(1), p.items[1], b);
    case Pattern::optional:
      if (t->is(TypeKind::none)) return true;
      return bind_pattern(t->is(TypeKind::optional) ? t->element() : t, p.items[0], b);
    case Pattern::tuple:
      if (!t->is(TypeKind::tuple) || t->elements().size() != p.items.size()) return false;
      for (size_t i = 0; i < p.items.size(); ++i)
        if (!bind_pattern(t->element(i), p.items[i], b)) return false;
      return true;
    case Pattern::any_enum:
      return t->is(TypeKind::enum_);
    case Pattern::any_class:
      return t->is(TypeKind::class_);
  }
  return false;
}

std::optional<Val> Compiler::coerce(const Val& v, const Pattern& p, Bindings& b, bool conversions,
                                    int fixed_size) {
  if (p.kind == Pattern::exact) return convert(v, p.type, conversions);
  if (v.type->is(TypeKind::any) && !strict_) return v;
  switch (p.kind) {
    case Pattern::variable: {
      if (const Type* bound = b.find(p.name)) return convert(v, bound, conversions);
      b.items.emplace_back(p.name, plain(v.type));
      return v;
    }
    case Pattern::optional: {
      if (v.kind == Val::plain && v.type->is(TypeKind::none))
        return v;  // also a variable that is known to be
      if (v.kind == Val::plain && v.type->is(TypeKind::optional)) {
        Bindings trial = b;
        if (!bind_pattern(v.type, p, trial)) return std::nullopt;
        b = trial;
        return v;
      }
      return coerce(v, p.items[0], b, conversions, fixed_size);
    }
    case Pattern::list: {
      const Pattern& inner = p.items[0];
      if (strict_ && v.type->is(TypeKind::tuple) && inner.kind == Pattern::exact &&
          !std::all_of(v.type->elements().begin(), v.type->elements().end(),
                       [&](const Type* t) { return subtype(t, inner.type); }))
        return std::nullopt;
      if (v.kind != Val::plain) {
        Val out = v;
        out.kind = Val::list;
        if (inner.kind == Pattern::variable && !b.find(inner.name)) {
          const Type* element = nullptr;
          if (v.type->is(TypeKind::list)) {
            element = v.type->element();
          } else {
            for (const Val& item : v.items) {
              element = element ? unify(element, plain(item.type)) : plain(item.type);
              if (!element) return std::nullopt;
            }
          }
          b.items.emplace_back(inner.name, element ? element : Type::tensor());
        }
        for (Val& item : out.items) {
          std::optional<Val> c = coerce(item, inner, b, conversions, 0);
          if (!c) return std::nullopt;
          item = *c;
        }
        out.type = Type::list(instantiate(inner, b));
        return out;
      }
      if (v.type->is(TypeKind::list)) {
        Bindings trial = b;
        if (bind_pattern(v.type, p, trial)) {
          b = trial;
          return v;
        }
        return std::nullopt;
      }
      if (v.type->is(TypeKind::tuple) && v.type->elements().size())
        return coerce(pieces(v), p, b, conversions, fixed_size);
      if (fixed_size > 0 && !v.type->is(TypeKind::tuple)) {
        std::optional<Val> one = coerce(v, inner, b, conversions, 0);
        if (!one) return std::nullopt;
        Val out;
        out.kind = Val::list;
        out.items.assign(static_cast<size_t>(fixed_size), *one);
        out.type = Type::list(plain(one->type));
        return out;
      }
      return std::nullopt;
    }
    default: {
      Bindings trial = b;
      if (!bind_pattern(v.type, p, trial)) return std::nullopt;
      b = trial;
      return v;
    }
  }
}

// ---- matching ----

std::optional<std::vector<ir::In>> Compiler::match(const Signature& s, const Args& args, bool conversions,
                                                   Bindings& bindings, std::string* why) {
  auto refuse = [&](auto&& text) {  // which is made only for who asks
    if (why) *why = text();
    return std::nullopt;
  };
  SmallVector<const Val*, 8> slots(s.args.size(), nullptr);
  size_t positions = 0;
  for (const SigArg& a : s.args) positions += !a.keyword_only;
  std::vector<Val> variadic;
  Val rest;  // view(2, 3) for view(int[] size)
  auto takes_ints = [&](size_t i) {
    return s.args[i].type.kind == Pattern::list && s.args[i].type.items[0].kind == Pattern::exact &&
           s.args[i].type.items[0].type->is(TypeKind::int_);
  };
  size_t given = args.positional.size();
  if (args.bound && (s.args.empty() || s.args[0].name.view() != "self")) {
    size_t self = 0;
    while (self < positions && s.args[self].name.view() != "self") ++self;
    if (given <= self)
      return refuse([&] { return fmt::format("Argument {} not provided.", s.args[0].name.view()); });
    if (self == positions)
      return refuse([&] { return std::string("Provided self argument not used in schema."); });
    Args in_order = args;
    in_order.bound = false;
    auto first = in_order.positional.begin();
    std::rotate(first, first + 1, first + static_cast<ptrdiff_t>(self) + 1);
    return match(s, in_order, conversions, bindings, why);
  }
  for (size_t i = 0; i < given; ++i) {
    // Ints may stand one by one for the list that is the last positional argument.
    if (i + 1 == positions && s.op && takes_ints(i) && !s.args[i].fixed_size &&
        args.positional[i].kind == Val::plain && !args.positional[i].type->is(TypeKind::list) &&
        !args.positional[i].type->is(TypeKind::tuple)) {
      rest.kind = Val::list;
      rest.type = Type::list(Type::integer());
      rest.items.assign(args.positional.begin() + static_cast<ptrdiff_t>(i), args.positional.end());
      slots[i] = &rest;
      break;
    }
    // torch.einsum("ij,jk", a, b), torch.meshgrid(a, b): so may tensors, for these.
    if (i + 1 == positions && s.op && args.positional[i].type->is_tensor() &&
        s.args[i].type.kind == Pattern::list &&
        (s.name.view() == "aten::einsum" || s.name.view() == "aten::meshgrid" ||
         s.name.view() == "aten::broadcast_tensors" || s.name.view() == "aten::cartesian_prod" ||
         s.name.view() == "aten::block_diag" || s.name.view() == "aten::chain_matmul")) {
      rest.kind = Val::list;
      rest.type = Type::list(Type::tensor());
      rest.items.assign(args.positional.begin() + static_cast<ptrdiff_t>(i), args.positional.end());
      slots[i] = &rest;
      break;
    }
    if (i < positions)
      slots[i] = &args.positional[i];
    else if (s.vararg)
      variadic.push_back(args.positional[i]);
    else
      return refuse([&] {
        return fmt::format("Expected at most {} arguments but found {} positional arguments.", positions,
                           given);
      });
  }
  for (auto& [name, v] : args.keywords) {
    size_t at = s.args.size();
    for (size_t i = 0; i < s.args.size(); ++i)
      if (s.args[i].name == name || (name.view() == "input" && s.args[i].name.view() == "self") ||
          (name.view() == "axis" && s.args[i].name.view() == "dim"))
        at = i;
    if (at == s.args.size())
      return refuse([&, &key = name] { return fmt::format("Keyword argument {} unknown.", key.view()); });
    if (slots[at])
      return refuse([&, &key = name] {
        return fmt::format("Argument {} specified twice in schema, submit a bug report!", key.view());
      });
    slots[at] = &v;
  }
  std::vector<In> inputs;
  inputs.reserve(s.args.size() + variadic.size());
  std::vector<std::pair<size_t, Val>> lists;  // that are operands
  for (size_t i = 0; i < s.args.size(); ++i) {
    const SigArg& a = s.args[i];
    if (!slots[i]) {
      if (a.default_value)
        inputs.push_back(In(*a.default_value));
      else if (a.type.kind == Pattern::optional && s.op)
        inputs.push_back(In());
      else
        return refuse([&] { return fmt::format("Argument {} not provided.", a.name.view()); });
      continue;
    }
    std::optional<Val> c = coerce(*slots[i], a.type, bindings, conversions, a.fixed_size);
    if (!c) {
      if (a.type.kind == Pattern::variable)
        return refuse([&] {
          return fmt::format(
              "Could not match type {} to {} in argument '{}': Type variable '{}' previously "
              "matched to type {} is "
              "matched to type {}.",
              say(*slots[i]), script::str(a.type), a.name.view(), a.type.name,
              ir_text(instantiate(a.type, bindings)), say(*slots[i]));
        });
      return refuse([&] {
        bool tensors = a.type.kind == Pattern::list && a.type.items[0].kind == Pattern::exact &&
                       a.type.items[0].type->is_tensor();
        return fmt::format(
            "Expected a value of type '{}' for argument '{}' but instead found type '{}'.{}",
            script::str(a.type), a.name.view(), say(*slots[i]),
            tensors ? "\nEmpty lists default to List[Tensor]. Add a variable annotation to the assignment to "
                      "create an empty list of another type (torch.jit.annotate(List[T, []]) where T is the "
                      "type of elements in the list for Python 2)"
                    : "");
      });
    }
    if (c->kind == Val::list && s.op) {
      const Type* given = slots[i]->type;
      bool plain = given && given->is(TypeKind::list) && given->element()->is_tensor() &&
                   a.type.kind == Pattern::list && a.type.items[0].kind == Pattern::optional;
      plain_list_ = plain_list_ || plain;
      std::vector<In> items;
      for (const Val& item : c->items) items.push_back(operand(item));
      inputs.push_back(In::list(items));
      if (plain) c->type = given;
      // One that stands for a tuple, or for numbers, is made by the call.
      if (slots[i]->kind != Val::list) c->after = nullptr;
      lists.emplace_back(i, std::move(*c));
    } else {
      inputs.push_back(operand(*c));
    }
  }
  for (const Val& v : variadic) inputs.push_back(operand(v));
  auto made = [](const Val& list) { return list.after ? list.order : SIZE_MAX; };
  bool sorted = std::is_sorted(lists.begin(), lists.end(),
                               [&](auto& a, auto& b) { return made(a.second) < made(b.second); });
  for (auto& [i, list] : lists) {
    if (list.items.empty() || (sorted && stands_in_order(list, i, inputs))) continue;
    std::vector<In> items;
    for (const Val& item : list.items) items.push_back(operand(item));
    inputs[i] = make_display("prim::ListConstruct", list, std::move(items), list.type).in;
  }
  return inputs;
}

// Whether a list happens where it stands among the operands: what is before it was made before it, and what
// is behind it after it. Another one is a node, so that source written from the graph has the same order.
bool Compiler::stands_in_order(const Val& list, size_t index, const std::vector<In>& inputs) {
  ir::Node& now = graph_->insert_point();
  auto is_statement = [](const ir::Node& n) {
    return n.num_outputs() != 1 || !n.blocks().empty() || is_named(n.output());
  };
  std::unordered_set<const ir::Node*> made_after;
  if (list.after && &list.after->block() == &now.block())
    for (const ir::Node* n = list.after->next(); n != &now; n = n->next()) {
      if (is_statement(*n) && !n->is("prim::Constant")) return false;
      made_after.insert(n);
    }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::Node* n = i != index && inputs[i].is_value() ? inputs[i].value()->node() : nullptr;
    if (!n || &n->block() != &now.block() || is_statement(*n) || n->output().has_uses()) continue;
    if (made_after.count(n) != (i > index)) return false;
  }
  return true;
}

// torch.sub(14, x) and its like: a number in front of a tensor, which no schema takes.
std::optional<Val> Compiler::number_in_front(std::string_view name, const Args& args, uint32_t at) {
  if (args.positional.size() != 2 || !args.keywords.empty()) return std::nullopt;
  const Val &a = args.positional[0], &b = args.positional[1];
  auto is_number = [](const Type* t) {
    return t->is(TypeKind::int_) || t->is(TypeKind::float_) || t->is(TypeKind::number) ||
           t->is(TypeKind::bool_) || t->is(TypeKind::complex_);
  };
  if (!a.type || !b.type || !is_number(a.type) || !b.type->is_tensor()) return std::nullopt;
  static constexpr std::pair<std::string_view, const char*> swapped[] = {
      {"aten::add", "aten::add"}, {"aten::mul", "aten::mul"}, {"aten::eq", "aten::eq"},
      {"aten::ne", "aten::ne"},   {"aten::lt", "aten::gt"},   {"aten::le", "aten::ge"},
      {"aten::gt", "aten::lt"},   {"aten::ge", "aten::le"}};
  auto call = [&](const char* op, std::vector<Val> values) {
    Args given;
    given.positional = std::move(values);
    return call_builtin(op, std::move(given), at);
  };
  for (const auto& [from, to] : swapped)
    if (name == from) return call(to, {b, a});
  if (name == "aten::sub") return call("aten::add", {call("aten::neg", {b}), a});
  if (name == "aten::div") return call("aten::mul", {call("aten::reciprocal", {b}), a});
  return std::nullopt;
}

std::optional<Val> Compiler::try_builtin(const std::string& name, const Args& args, uint32_t at,
                                         std::vector<std::string>* why) {
  Symbol symbol(std::string_view(name).substr(0, name.find('.')));
  const std::vector<Signature>& all = signatures(symbol);
  at_ = at;
  enum { exactly, converting, asking_why };
  for (int round : {exactly, converting, asking_why}) {
    if (round == asking_why && !why) break;
    if (round == converting)
      if (std::optional<Val> v = number_in_front(name, args, at)) return v;
    for (const Signature& s : all) {
      // max(x, out=o): an overload that PyTorch's scripts do not see.
      if (strict_ && s.op && s.op->schema().overload.view() == "unary_out") continue;
      Bindings bindings;
      std::string reason;
      ir::Node& before = *graph_->insert_point().prev();
      plain_list_ = false;
      std::optional<std::vector<In>> inputs =
          match(s, args, round != exactly, bindings, round == asking_why ? &reason : nullptr);
      if (!inputs) {
        // What was made for conversions that lead nowhere.
        while (graph_->insert_point().prev() != &before) graph_->erase(*graph_->insert_point().prev());
        if (round == asking_why) why->push_back(s.str() + ":\n" + reason);
        continue;
      }
      at_ = at;
      if (s.op) {
        if (s.op->schema().name.view() == "aten::rsub" && s.op->schema().overload.view() == "Tensor")
          std::swap((*inputs)[0], (*inputs)[1]);
        ir::Node& made = call_op(kept_name(*s.op), *inputs);
        if (plain_list_) made.set_meta("plain_list", tern::Value(true));
        return result(made);
      }
      std::vector<const Type*> types;
      for (const Pattern& r : s.returns) {
        const Type* t = instantiate(r, bindings);
        if (!t->is(TypeKind::none)) types.push_back(t);
      }
      return result(make(symbol, std::move(*inputs), types));
    }
  }
  return std::nullopt;
}

Val Compiler::call_builtin(const std::string& name, Args args, uint32_t at) {
  // x.to("cpu"): a device alone.
  if (name == "aten::to" && args.positional.size() >= 2 &&
      (args.positional[1].type->is(TypeKind::device) || args.positional[1].type->is(TypeKind::string)) &&
      (args.positional.size() == 2 || !args.positional[2].type->is(TypeKind::int_))) {
    args.keywords.emplace_back("device", args.positional[1]);
    if (args.positional.size() > 2) args.keywords.emplace_back("non_blocking", args.positional[2]);
    if (args.positional.size() > 3) args.keywords.emplace_back("copy", args.positional[3]);
    args.positional.resize(1);
  }
  // A dtype or a device that may be None, which stands for the tensor's own.
  if (name == "aten::to" && args.positional.size() >= 2 && args.positional[1].type->is(TypeKind::optional)) {
    const Type* held = args.positional[1].type->element();
    std::vector<const char*> order;
    if (held->is(TypeKind::device)) order = {"device", "dtype", "non_blocking", "copy"};
    if (held->is(TypeKind::int_)) order = {"dtype", "non_blocking", "copy"};
    if (!order.empty() && args.positional.size() <= order.size() + 1) {
      for (size_t i = 1; i < args.positional.size(); ++i)
        args.keywords.emplace_back(order[i - 1], args.positional[i]);
      args.positional.resize(1);
    }
  }
  if (name == "aten::to" && args.positional.size() == 1 && args.keywords.empty() &&
      args.positional[0].type->is_tensor())
    return args.positional[0];
  // PyTorch takes a string for a list that holds it here, and here only.
  if (name == "aten::join" && args.positional.size() == 2 && args.positional[1].type->is(TypeKind::string)) {
    Val list;
    list.kind = Val::list;
    list.type = Type::list(Type::string());
    list.items = {args.positional[1]};
    args.positional[1] = std::move(list);
  }
  std::vector<std::string> why;
  if (std::optional<Val> v = try_builtin(name, args, at, &why)) return *v;
  Symbol symbol(name);
  bool known = !signatures(symbol).empty();
  if (!known && name.starts_with("aten::")) {
    // min, max and abs of numbers are prim's; so are a few more that source spells with torch.
    std::string other = "prim::" + name.substr(6);
    if (!signatures(Symbol(other)).empty())
      if (std::optional<Val> v = try_builtin(other, args, at, &why)) return *v;
  }
  if (!strict_) return unknown_operator(name, std::move(args), at);
  if (!known && why.empty()) error(at, fmt::format("there is no operator {}", name));
  if (why.size() == 1 && !(known && signatures(symbol)[0].op)) error(at, why[0]);
  std::string text = "Arguments for call are not valid.\nThe following variants are available:\n";
  for (const std::string& w : why) {
    text += "\n  ";
    for (char c : w) text += c == '\n' ? std::string("\n  ") : std::string(1, c);
    text += "\n";
  }
  error(at, text + "\nThe original call is:");
}

// Kept as it was written: it prints back, and running it says what is missing.
Val Compiler::unknown_operator(const std::string& name, Args args, uint32_t at) {
  at_ = at;
  std::vector<In> inputs;
  for (const Val& v : args.positional) inputs.push_back(operand(v));
  std::vector<tern::Value> names;
  for (auto& [k, v] : args.keywords) {
    inputs.push_back(operand(v));
    names.push_back(tern::Value(k.view()));
  }
  at_ = at;
  ir::Node& n = make(Symbol(name), std::move(inputs), {Type::any()});
  if (!names.empty()) n.set_attribute("keywords", tern::Value::list(std::move(names), Type::string()));
  return result(n);
}

std::optional<Val> Compiler::try_type(Val v, const Type* type) {
  if (v.kind == Val::plain && v.type->is(TypeKind::any) && !strict_) {
    // The operator it comes from is not known: what the annotation says is believed.
    if (v.in.is_value() && v.in.value()->node() && v.in.value()->type()->is(TypeKind::any) &&
        v.in.value()->node()->num_outputs() == 1)
      v.in.value()->set_type(type);
    v.type = type;
    return v;
  }
  std::optional<Val> c = convert(v, type, true);
  if (c && c->kind == Val::plain && c->type->is(TypeKind::none)) c->type = type;
  return c;
}

// What a message calls the type of a value.
std::string Compiler::say(const Val& v) const {
  if (v.kind == Val::plain && v.in.is_value() && !v.in.value()->node() && v.type->is_tensor())
    for (size_t i = 0; i < graph_->inputs().size(); ++i)
      if (graph_->inputs()[i] == v.in.value() && function_.args()[i].inferred) return "Tensor (inferred)";
  return ir_text(v.type);
}
std::string Compiler::ir_text(const Type* t) { return t->str(ir::TypeStyle::annotation); }

}  // namespace tern::script
