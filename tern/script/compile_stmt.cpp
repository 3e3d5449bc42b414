// Statements: control flow into prim::If and prim::Loop with carried values. A path that leaves (return,
// break, continue) takes what follows it out of the other path's way: the rest moves into the branch that
// goes on, or under a flag.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/script/compiler.h"
#include "tern/script/inlining.h"

namespace tern::script {
namespace {

constexpr unsigned exit_return = 1, exit_break = 2, exit_continue = 4;
// Names that no source can have.
const std::string ret = "$ret", returned = "$returned", broke = "$broke", left = "$left";

// Walks without recursion into expressions: only where statements can stand.
Exits exits_of_list(const std::vector<const Stmt*>& list);
Exits exits_of_stmt(const Stmt& s) {
  switch (s.kind) {
    case StmtKind::return_:
      return {false, exit_return};
    case StmtKind::break_:
      return {false, exit_break};
    case StmtKind::continue_:
      return {false, exit_continue};
    case StmtKind::raise:
      return {false, 0};
    case StmtKind::with:
      return exits_of(s.body);
    case StmtKind::if_: {
      Exits a = exits_of(s.body), b = exits_of(s.otherwise);
      return {a.falls_through || b.falls_through, a.kinds | b.kinds};
    }
    case StmtKind::while_:
    case StmtKind::for_: {
      Exits a = exits_of(s.body);
      return {true, a.kinds & exit_return};
    }
    default:
      return {};
  }
}
Exits exits_of_list(const std::vector<const Stmt*>& list) {
  Exits all;
  for (const Stmt* s : list) {
    Exits e = exits_of_stmt(*s);
    all.kinds |= e.kinds;
    if (!e.falls_through) {
      all.falls_through = false;
      break;
    }
  }
  return all;
}

}  // namespace

Exits exits_of(const Body& body) {
  std::vector<const Stmt*> list;
  for (const StmtPtr& s : body) list.push_back(s.get());
  return exits_of_list(list);
}

Compiler::List Compiler::pointers(const Body& body) {
  List list;
  for (const StmtPtr& s : body) list.push_back(s.get());
  return list;
}

void Compiler::list(const List& statements) {
  struct Depth {
    explicit Depth(int& d) : depth(d) { ++depth; }
    ~Depth() { --depth; }
    int& depth;
  } deeper(list_depth_);
  if (list_depth_ > 1500 && !statements.empty())
    error(statements[0]->at, "too many branches that return, one after the other: split the function");
  for (size_t i = 0; i < statements.size(); ++i) {
    const Stmt& s = *statements[i];
    at_ = s.at;
    auto rest = [&] { return List(statements.begin() + static_cast<long>(i) + 1, statements.end()); };
    if (s.kind == StmtKind::with) {
      with_statement(s);
      List inside = pointers(s.body), after = rest();
      inside.push_back(&with_end());
      inside.insert(inside.end(), after.begin(), after.end());
      return list(inside);
    }
    if (s.kind == StmtKind::if_) {
      Condition c = condition(*s.value);
      List then = pointers(s.body), otherwise = pointers(s.otherwise);
      if (c.known) {
        // Only the branch that can run is compiled; what follows comes after it in the same list.
        for (const Refinement& r : *c.known ? c.when_true : c.when_false) refine(r);
        List taken = *c.known ? then : otherwise, after = rest();
        taken.insert(taken.end(), after.begin(), after.end());
        return list(taken);
      }
      Exits t = exits_of_list(then), f = exits_of_list(otherwise);
      if (!t.falls_through && !f.falls_through) return if_statement(c, then, otherwise, s.at);
      if (!(t.kinds | f.kinds)) {
        if_statement(c, then, otherwise, s.at);
        if (!t.falls_through)
          for (const Refinement& r : c.when_false) refine(r);
        if (!f.falls_through)
          for (const Refinement& r : c.when_true) refine(r);
        continue;
      }
      if (!t.falls_through && !f.kinds) {
        List after = rest();
        otherwise.insert(otherwise.end(), after.begin(), after.end());
        return if_statement(c, then, otherwise, s.at);
      }
      if (!f.falls_through && !t.kinds) {
        List after = rest();
        then.insert(then.end(), after.begin(), after.end());
        return if_statement(c, then, otherwise, s.at);
      }
      if ((t.kinds | f.kinds) & exit_return) ensure_return_slot();
      set(left, constant(false));
      if_statement(c, then, otherwise, s.at);
      if (i + 1 == statements.size()) return;
      Condition gone;
      gone.value = *find(left);
      return if_statement(gone, {}, rest(), s.at);
    }
    if (s.kind == StmtKind::while_ || s.kind == StmtKind::for_) {
      bool leaves = exits_of(s.body).kinds & exit_return;
      if (leaves) {
        ensure_return_slot();
        set(returned, constant(false));
        set(left, constant(false));
      }
      size_t withs = withs_.size();
      if (s.kind == StmtKind::while_) {
        loop_statement(s);
      } else {
        Sugar over = iterable(sugar(*s.value), s.value->at);
        if (std::optional<std::vector<Sugar>> items = static_items(over, s.value->at)) {
          if (leaves) return unroll_from(s, *items, 0, rest());
          unroll_from(s, *items, 0, {});
          continue;
        }
        for_statement(s, over);
      }
      withs_.resize(withs);
      if (!leaves) continue;
      Val gone = *find(returned);
      set(left, gone);
      if (!loops_.empty()) set(broke, gone);
      if (i + 1 == statements.size()) return;
      Condition c;
      c.value = gone;
      return if_statement(c, {}, rest(), s.at);
    }
    statement(s);
    if (s.kind == StmtKind::return_ || s.kind == StmtKind::break_ || s.kind == StmtKind::continue_ ||
        s.kind == StmtKind::raise)
      return;
  }
}

void Compiler::statement(const Stmt& s) {
  switch (s.kind) {
    case StmtKind::pass:
      return;
    case StmtKind::with_end:
      return leave_with();
    case StmtKind::def_:
      closures_[s.op] = &s;
      return;
    case StmtKind::expr: {
      if (s.value->kind == ExprKind::constant) return;  // a docstring
      sugar(*s.value);
      return;
    }
    case StmtKind::assign: {
      Sugar v = sugar(*s.value, target_hint(*s.targets[0]));
      for (const ExprPtr& t : s.targets) {
        if (s.targets.size() == 1)
          assign_sugar(*t, std::move(v));
        else
          assign(*t, materialise(as_value(v, s.at)));
      }
      return;
    }
    case StmtKind::annotated:
      return annotated_statement(s);
    case StmtKind::augmented:
      return augmented(s);
    case StmtKind::return_:
      return return_statement(s);
    case StmtKind::break_:
      if (loops_.empty()) error(s.at, "SyntaxError: 'break' outside loop");
      leave_withs(loops_.back()->withs);
      set(broke, constant(true));
      set(left, constant(true));
      return;
    case StmtKind::continue_:
      if (loops_.empty()) error(s.at, "SyntaxError: 'continue' not properly in loop");
      leave_withs(loops_.back()->withs);
      set(left, constant(true));
      return;
    case StmtKind::assert_:
      return assert_statement(s);
    case StmtKind::raise:
      return raise_statement(s);
    case StmtKind::del_:
      return delete_statement(s);
    default:
      error(s.at, "a statement that is not part of TorchScript");
  }
}

// A name that was annotated keeps saying which empty list or None is meant.
const ir::Type* Compiler::target_hint(const Expr& target) {
  if (target.kind == ExprKind::name) return declared_type(target.text);
  if (target.kind != ExprKind::attribute || target.items[0]->kind != ExprKind::name) return nullptr;
  Val* object = find(target.items[0]->text);
  ClassType* c = object ? class_of(*object) : nullptr;
  const Attribute* a = c ? c->find(target.text) : nullptr;
  return a ? a->type : nullptr;
}

void Compiler::annotated_statement(const Stmt& s) {
  const Type* type = type_expr(*s.annotation);
  const Expr& target = *s.targets[0];
  if (!s.value) {
    if (target.kind == ExprKind::name) frame_->declared[target.text] = type;
    return;
  }
  Val v = value(*s.value, type);
  // What self.x is declared to be comes from the class body; here only the value's own type counts.
  if (target.kind == ExprKind::attribute) {
    if (v.kind == Val::plain && v.type->is(TypeKind::none) && !strict_) v.type = type;
    return assign(target, std::move(v));
  }
  std::optional<Val> fitting = try_type(v, type);
  if (fitting && strict_ && !convert(v, type, false)) fitting.reset();
  if (!fitting)
    error(s.at,
          fmt::format("Variable '{}' is annotated with type {} but is being assigned to a value of type {}",
                      target.text, ir_text(type), say(v)));
  frame_->declared[target.text] = type;
  Val made = materialise(std::move(*fitting), type);
  if (!made.in.is_value() || !subtype(made.type, type) || made.type->is(TypeKind::none)) made.type = type;
  if (type->is(TypeKind::optional) || type->is(TypeKind::union_) || type->is(TypeKind::any) ||
      type->is(TypeKind::interface))
    made.type = type;
  assign(target, std::move(made));
}

void Compiler::delete_statement(const Stmt& s) {
  for (const ExprPtr& t : s.targets) {
    if (t->kind == ExprKind::subscript) {
      Args args;
      args.positional.push_back(value(*t->items[0]));
      args.positional.push_back(value(*t->items.at(1)));
      call_builtin("aten::Delete", std::move(args), t->at);
    } else if (t->kind == ExprKind::name) {
      if (!find(t->text)) error(t->at, fmt::format("undefined value {}", t->text));
      frame_->values.erase(t->text);
      frame_->undefined[t->text] = {};
    } else {
      error(t->at, "del statements are only supported for deleting list and dict items and variables");
    }
  }
}

// ---- with ----

// Its end, where what comes after the body goes on.
const Stmt& Compiler::with_end() {
  static const Stmt end = [] {
    Stmt s;
    s.kind = StmtKind::with_end;
    return s;
  }();
  return end;
}

void Compiler::with_statement(const Stmt& s) {
  for (size_t i = 0; i + 1 < s.targets.size(); i += 2) {
    const Expr& e = *s.targets[i];
    Sugar context = sugar(e);
    With with;
    if (context.kind == Sugar::special && context.text != "device") {
      with.grad_mode = true;
      at_ = s.at;
      with.context = simple("aten::is_grad_enabled", {}, Type::boolean());
      make("aten::set_grad_enabled", {In(context.text == "enable_grad")}, {});
      withs_.push_back(std::move(with));
      continue;
    }
    with.context = materialise(as_value(std::move(context), e.at));
    ClassType* c = class_of(with.context);
    if (!c) error(e.at, "With item expression must return an object");
    if (!c->method("__enter__"))
      error(e.at, fmt::format("{} does not have a function with the name __enter__",
                              class_text(with.context.type)));
    if (!c->method("__exit__"))
      error(e.at,
            fmt::format("{} does not have a function with the name __exit__", class_text(with.context.type)));
    Val entered = call_magic(with.context, "__enter__", {}, s.at);
    mark_with(entered);
    if (s.targets[i + 1]) assign(*s.targets[i + 1], entered);
    withs_.push_back(std::move(with));
  }
  with_counts_.push_back(s.targets.size() / 2);
}
void Compiler::leave_with() {
  size_t count = with_counts_.empty() ? 1 : with_counts_.back();
  if (!with_counts_.empty()) with_counts_.pop_back();
  size_t down_to = withs_.size() - std::min(count, withs_.size());
  leave_withs(down_to);
  withs_.resize(down_to);
}
// The ends of the contexts that are left; they stay open for what else is compiled in them.
void Compiler::leave_withs(size_t down_to) {
  for (size_t k = withs_.size(); k-- > down_to;) {
    With with = withs_[k];
    if (with.grad_mode)
      make("aten::set_grad_enabled", {with.context.in}, {});
    else
      mark_with(call_magic(with.context, "__exit__",
                           {constant(tern::Value()), constant(tern::Value()), constant(tern::Value())}, at_));
  }
}
// The two calls are one statement when they are written back as source.
void Compiler::mark_with(const Val& called) {
  ir::Node* n = called.kind == Val::plain && called.in.is_value() ? called.in.value()->node() : nullptr;
  if (n && n->is("prim::CallMethod")) n->set_meta("with", tern::Value(true));
}

// ---- if ----

void Compiler::if_statement(const Condition& c, const List& then, const List& otherwise, uint32_t at) {
  if_branches(
      c, [&] { list(then); }, [&] { list(otherwise); }, at);
}

void Compiler::if_branches(const Condition& c, const Body_& then, const Body_& otherwise, uint32_t at) {
  at_ = at;
  if (c.known) {
    for (const Refinement& r : *c.known ? c.when_true : c.when_false) refine(r);
    return *c.known ? then() : otherwise();
  }
  ir::Node& node = make("prim::If", {operand(c.value)}, {});
  Frame branches[2];
  std::vector<With> open = withs_;
  std::vector<size_t> counts = with_counts_;
  for (int k = 0; k < 2; ++k) {
    Frame& f = branches[k];
    f.parent = frame_;
    f.block = &node.add_block();
    ir::Node& saved = graph_->insert_point();
    graph_->insert_at_end(*f.block);
    frame_ = &f;
    withs_ = open;
    with_counts_ = counts;
    for (const Refinement& r : k == 0 ? c.when_true : c.when_false) refine(r);
    k == 0 ? then() : otherwise();
    frame_ = f.parent;
    graph_->insert_at(saved);
  }
  withs_ = std::move(open);
  with_counts_ = std::move(counts);
  if (branches[0].diverged && branches[1].diverged) frame_->diverged = true;
  merge(node, branches[0], branches[1], branches[0].diverged, branches[1].diverged, at);
}

void Compiler::merge(ir::Node& node, Frame& a, Frame& b, bool a_diverges, bool b_diverges, uint32_t at) {
  std::vector<std::string> names = a.assigned;
  for (const std::string& n : b.assigned)
    if (!a.assigned_set.count(n)) names.push_back(n);
  for (const std::string& name : names) {
    auto look = [&](Frame& f) -> Val* {
      if (auto it = f.values.find(name); it != f.values.end()) return &it->second;
      if (f.undefined.count(name)) return nullptr;
      return find(name);
    };
    Val *x = look(a), *y = look(b);
    if ((!x && !a_diverges) || (!y && !b_diverges) || (!x && !y)) {
      Frame& missing = !x ? a : b;
      auto it = missing.undefined.find(name);
      frame_->values.erase(name);
      frame_->undefined[name] =
          it != missing.undefined.end() && !it->second.why.empty()
              ? it->second
              : Undefined{fmt::format("{} is not defined in the {} branch", name, !x ? "true" : "false"), at};
      continue;
    }
    const Type* type = !x ? y->type : !y ? x->type : unify(x->type, y->type);
    const Type* declared = declared_type(name);
    if (x && y && declared && (!type || type->is(TypeKind::none)) && subtype(x->type, declared) &&
        subtype(y->type, declared))
      type = declared;
    if (!type) {
      // Before the erasure: where a branch leaves the variable alone, x or y is the frame's own value.
      frame_->undefined[name] = {
          fmt::format(
              "Type mismatch: {} is set to type {} in the true branch and type {} in the false branch", name,
              say(*x), say(*y)),
          at};
      frame_->values.erase(name);
      continue;
    }
    // The same value on both sides needs no output.
    if (x && y && x->in.is_value() && y->in.is_value() && x->in.value() == y->in.value()) {
      set(name, *x);
      continue;
    }
    In sides[2];
    Val* values[2] = {x, y};
    Frame* frames[2] = {&a, &b};
    for (int k = 0; k < 2; ++k) {
      ir::Node& saved = graph_->insert_point();
      graph_->insert_at_end(*frames[k]->block);
      sides[k] = values[k] ? values[k]->in : uninitialized(type).in;
      graph_->insert_at(saved);
    }
    ir::Value& out = node.add_output(type, shown_name(name));
    if (!shown_name(name).empty()) note_variable(out, name);
    a.block->add_return(sides[0]);
    b.block->add_return(sides[1]);
    set(name, typed(out, type));
  }
}

Val Compiler::uninitialized(const Type* type) { return simple("prim::Uninitialized", {}, type); }

void Compiler::ensure_return_slot() {
  if (find(ret)) return;
  if (!returns_) {
    if (!provisional_) throw ReturnTypeNeeded{};
    set(ret, uninitialized(Type::any()));
    return;
  }
  set(ret, uninitialized(returns_));
}

// ---- loops ----

void Compiler::target_names(const Expr& e, Names& names) {
  if (e.kind == ExprKind::name)
    names.insert(e.text);
  else if (e.kind == ExprKind::tuple || e.kind == ExprKind::list || e.kind == ExprKind::starred)
    for (const ExprPtr& i : e.items) target_names(*i, names);
}

void Compiler::assigned_names(const Body& body, Names& names, bool& returns) {
  for (const StmtPtr& s : body) {
    if (s->kind == StmtKind::def_) continue;
    if (s->kind == StmtKind::assign || s->kind == StmtKind::annotated || s->kind == StmtKind::augmented ||
        s->kind == StmtKind::for_)
      for (const ExprPtr& t : s->targets)
        if (t) target_names(*t, names);
    if (s->kind == StmtKind::return_) returns = true;
    assigned_names(s->body, names, returns);
    assigned_names(s->otherwise, names, returns);
  }
}

void Compiler::loop_statement(const Stmt& s) {
  Condition start = condition(*s.value);
  emit_loop(s, constant(INT64_MAX), &start, {}, nullptr);
}

void Compiler::for_statement(const Stmt& s, Sugar& over) {
  if (over.kind == Sugar::iterable && over.text == "range" && over.items.size() == 1)
    return emit_loop(s, over.items[0].self, nullptr, {}, &over);
  emit_loop(s, length(over, s.value->at), nullptr, {}, &over);
}

// Tuples and lists of modules have their elements known: the body is compiled once for each. Where it can
// return, what follows goes under a flag.
void Compiler::unroll_from(const Stmt& s, std::vector<Sugar>& items, size_t k, const List& rest) {
  Exits e = exits_of(s.body);
  if (e.kinds & (exit_break | exit_continue))
    error(
        s.at,
        "break and continue are not possible in a loop over a tuple or a list of modules, which is unrolled");
  List body = pointers(s.body);
  if (!(e.kinds & exit_return)) {
    for (Sugar& item : items) {
      assign_sugar(*s.targets[0], std::move(item));
      list(body);
    }
    return;
  }
  if (k == items.size()) return list(rest);
  assign_sugar(*s.targets[0], std::move(items[k]));
  list(body);
  Condition gone;
  gone.value = *find(left);
  if_branches(
      gone, [] {}, [&] { unroll_from(s, items, k + 1, rest); }, s.at);
}

void Compiler::emit_loop(const Stmt& s, Val trip, const Condition* start,
                         std::vector<std::pair<const Expr*, Sugar>>, const Sugar* over) {
  at_ = s.at;
  Names names;
  Loop loop;
  assigned_names(s.body, names, loop.has_return);
  if (loop.has_return) {
    names.insert(ret);
    names.insert(returned);
  }
  // The variable of a `for` is carried too when it was defined before: it keeps its last value.
  if (s.kind == StmtKind::for_) target_names(*s.targets[0], names);
  struct Carried {
    std::string name;
    const Type* type;
  };
  std::vector<Carried> carried;
  std::vector<In> inputs{operand(trip), start ? operand(start->value) : In(true)};
  for (const std::string& name : names.order) {
    Val* v = find(name);
    if (!v) continue;
    const Type* type = plain(v->type);
    if (const Type* declared = declared_type(name); declared && v->type->fits(*declared)) type = declared;
    if (name == ret && returns_) type = returns_;
    inputs.push_back(v->in);
    carried.push_back({name, type});
  }
  ir::Node& node = make("prim::Loop", inputs, {});
  ir::Block& block = node.add_block();
  ir::Value& counter = block.add_param(Type::integer());
  Frame inside;
  inside.parent = frame_;
  inside.block = &block;
  for (const Carried& c : carried) {
    ir::Value& p = block.add_param(c.type, shown_name(c.name));
    inside.values[c.name] = typed(p, c.type);
  }
  ir::Node& saved = graph_->insert_point();
  graph_->insert_at_end(block);
  Frame* outer = frame_;
  frame_ = &inside;
  loop.withs = withs_.size();
  loops_.push_back(&loop);
  inside.values[broke] = constant(false);
  inside.values[left] = constant(false);
  if (start)
    for (const Refinement& r : start->when_true) refine(r);
  if (over) assign_sugar(*s.targets[0], element(*over, typed(counter, Type::integer()), s.value->at));
  list(pointers(s.body));
  loops_.pop_back();

  // Whether to go on.
  Val stop = *find(broke);
  In next;
  if (start) {
    if (stop.is_constant() && !stop.in.constant().to_bool()) {
      next = operand(condition(*s.value).value);
    } else if (stop.is_constant()) {
      next = In(false);
    } else {
      at_ = s.at;
      ir::Node& choice = make("prim::If", {stop.in}, {Type::boolean()});
      choice.add_block().add_return(In(false));
      ir::Block& going = choice.add_block();
      {
        Inside there(*this, going);
        going.add_return(operand(condition(*s.value).value));
      }
      next = In(choice.output());
    }
  } else {
    next = stop.is_constant() ? In(!stop.in.constant().to_bool())
                              : simple("aten::__not__", {stop.in}, Type::boolean()).in;
  }
  block.add_return(next);
  for (const Carried& c : carried) {
    Val* v = find(c.name);
    if (!v) {
      auto it = inside.undefined.find(c.name);
      if (it != inside.undefined.end() && !it->second.why.empty()) error(it->second.at, it->second.why);
      error(s.at, fmt::format("undefined value {}", c.name));
    }
    if (!subtype(v->type, c.type) && !(v->in.is_value() && v->type->is(TypeKind::any)))
      error(s.at, fmt::format(
                      "Variable '{}' previously had type {} but is now being assigned to a value of type {}",
                      c.name, ir_text(c.type), say(*v)));
    block.add_return(v->in);
  }
  frame_ = outer;
  graph_->insert_at(saved);
  for (const Carried& c : carried) {
    ir::Value& out = node.add_output(c.type, shown_name(c.name));
    if (!shown_name(c.name).empty()) note_variable(out, c.name);
    set(c.name, typed(out, c.type));
  }
  for (const std::string& name : inside.assigned)
    if (name[0] != '$' && !find(name)) frame_->undefined[name] = {};
}

// ---- leaving ----

void Compiler::return_statement(const Stmt& s) {
  Val v = s.value ? value(*s.value, returns_) : constant(tern::Value());
  auto mixed = [&](const Val& now) {
    error(s.at,
          fmt::format(
              "Previous return statement returned a value of type {} but this return statement returns a "
              "value of type {}",
              ir_text(found_returns_), say(now)));
  };
  if (provisional_) {
    v = materialise(v);
    const Type* t = plain(v.type);
    if (found_returns_) {
      const Type* both = unify(found_returns_, t);
      if (!both) mixed(v);
      t = both;
    }
    found_returns_ = t;
    v.type = Type::any();
  } else if (returns_) {
    std::optional<Val> fitting = try_type(v, returns_);
    if (fitting && strict_ && !convert(v, returns_, false) && !v.type->is_tensor() &&
        !v.type->is(TypeKind::number))
      fitting.reset();
    if (!fitting)
      error(s.value ? s.value->at : s.at,
            fmt::format("Return value was annotated as having type {} but is actually of type {}",
                        ir_text(returns_), say(v)));
    v = materialise(std::move(*fitting), returns_);
    v.type = returns_;
  } else {
    // Without annotation: the first return decides, a later one that widens it makes a second run necessary.
    v = materialise(v);
    const Type* t = plain(v.type);
    const Type* both = found_returns_ ? unify(found_returns_, t) : t;
    if (!both) mixed(v);
    if (found_returns_ && both != found_returns_) throw ReturnTypeNeeded{};
    found_returns_ = both;
    if (both != t) v.type = both;
  }
  leave_withs(0);
  set(ret, std::move(v));
  set(returned, constant(true));
  set(left, constant(true));
  if (!loops_.empty()) set(broke, constant(true));
}

void Compiler::assert_statement(const Stmt& s) {
  Condition c = condition(*s.value);
  auto raise = [&] {
    Val text = constant("AssertionError: ");
    if (s.message) {
      Val m = value(*s.message);
      if (!m.type->is(TypeKind::string)) m = simple("aten::str", {operand(m)}, Type::string());
      if (m.is_constant())
        text = constant("AssertionError: " + m.in.constant().string());
      else
        text = simple("aten::add", {text.in, m.in}, Type::string());
    }
    make("prim::RaiseException", {text.in, In()}, {});
  };
  if (c.known) {
    for (const Refinement& r : c.when_true) refine(r);
    if (!*c.known) raise();
    return;
  }
  at_ = s.at;
  ir::Node& node = make("prim::If", {operand(c.value)}, {});
  node.add_block();
  ir::Block& fails = node.add_block();
  {
    Inside there(*this, fails);
    raise();
  }
  for (const Refinement& r : c.when_true) refine(r);
}

void Compiler::raise_statement(const Stmt& s) {
  frame_->diverged = true;
  std::string kind = "builtins.Exception";
  Val text = constant("");
  if (s.value) {
    const Expr* what = s.value.get();
    if (what->kind == ExprKind::call) {
      if (what->items.size() > 1) {
        Val m = value(*what->items[1]);
        if (!m.type->is(TypeKind::string)) m = simple("aten::str", {operand(m)}, Type::string());
        text = m;
      }
      what = what->items[0].get();
    }
    if (what->kind == ExprKind::name)
      kind = "builtins." + what->text;
    else if (what->kind == ExprKind::attribute)
      kind = what->text;
    else
      error(s.at, "exceptions must derive from BaseException");
    if (what->kind == ExprKind::name && find(what->text))
      error(s.at, "exceptions must derive from BaseException");
  }
  at_ = s.at;
  make("prim::RaiseException", {operand(text), In(kind)}, {});
}

}  // namespace tern::script
