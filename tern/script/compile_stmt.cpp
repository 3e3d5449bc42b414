// Statements: control flow into prim::If and prim::Loop with carried values. A path that leaves (return,
// break, continue) ends with a node that says so; exits.h makes values of them.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/script/compiler.h"
#include "tern/script/inlining.h"

namespace tern::script {

Compiler::List Compiler::pointers(const Body& body) {
  List list;
  for (const StmtPtr& s : body) list.push_back(s.get());
  return list;
}

void Compiler::list(const List& statements) {
  for (const Stmt* s : statements) {
    // What follows a return or raise is not looked at.
    if (frame_->diverged) return;
    at_ = s->at;
    statement(*s);
  }
}

void Compiler::statement(const Stmt& s) {
  switch (s.kind) {
    case StmtKind::pass:
      return;
    case StmtKind::with:
      return with_statement(s);
    case StmtKind::if_:
      return if_statement(condition(*s.value), pointers(s.body), pointers(s.otherwise), s.at);
    case StmtKind::while_:
      return loop_statement(s);
    case StmtKind::for_: {
      Sugar over = iterable(sugar(*s.value), s.value->at);
      if (std::optional<std::vector<Sugar>> items = static_items(over, s.value->at)) return unroll(s, *items);
      return for_statement(s, over);
    }
    case StmtKind::def_:
      closures_[s.op] = &s;
      return;
    case StmtKind::expr: {
      if (s.value->kind == ExprKind::constant) return;  // a docstring
      sugar(*s.value);
      return;
    }
    case StmtKind::assign: {
      for (const ExprPtr& t : s.targets)
        if (strict_ && t->kind == ExprKind::list)
          error(t->at, "unexpected expression on left-hand side of assignment");
      const Type* hint = target_hint(*s.targets[0]);
      Sugar v = sugar(*s.value, hint);
      mark_constant(*s.value);
      // PyTorch finds the type of an empty list later, and its variable gives it no name.
      if (strict_ && !hint && s.value->kind == ExprKind::list && s.value->items.empty()) {
        v.self = materialise(std::move(v.self));
        v.self.held = true;
      }
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
      return leave_round(s, true);
    case StmtKind::continue_:
      if (loops_.empty()) error(s.at, "SyntaxError: 'continue' not properly in loop");
      return leave_round(s, false);
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

void Compiler::mark_constant(const Expr& e) {
  if (!strict_ || e.kind != ExprKind::constant) return;
  if (e.value.is_none() || e.value.is_bool() || e.value.is_string()) make(said_constant, {}, {});
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
  mark_constant(*s.value);
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
      if (t->items.at(1)->kind == ExprKind::slice)
        error(t->at,
              "del statements only support deletion at a single index, slicing is not supported (see "
              "https://github.com/pytorch/pytorch/issues/31430)");
      Args args;
      args.positional.push_back(value(*t->items[0]));
      args.positional.push_back(value(*t->items.at(1)));
      call_builtin("aten::Delete", std::move(args), t->at);
    } else if (t->kind == ExprKind::name) {
      // It goes from the function, whichever branch or loop says so; what was made in one stays there.
      Frame* function = frame_;
      while (function->parent) function = function->parent;
      if (!find(t->text) || !function->values.count(t->text))
        error(t->at, fmt::format("undefined value {}", t->text));
      for (Frame* f = frame_; f; f = f->parent) {
        f->values.erase(t->text);
        f->undefined[t->text] = {};
      }
    } else {
      error(t->at, "del statements are only supported for deleting list and dict items and variables");
    }
  }
}

// ---- with ----

void Compiler::with_statement(const Stmt& s) {
  struct Open {
    Val context;
    ir::Node* begin;
    bool grad_mode;  // to go back to, or an object with __exit__
  };
  std::vector<Open> open;
  for (size_t i = 0; i + 1 < s.targets.size(); i += 2) {
    const Expr& e = *s.targets[i];
    Sugar sugared = sugar(e);
    if (sugared.kind == Sugar::special && sugared.text != "device") {
      at_ = s.at;
      Val before = simple("aten::is_grad_enabled", {}, Type::boolean());
      ir::Node& begin = make("aten::set_grad_enabled", {In(false)}, {});
      open.push_back({before, &begin, true});
      continue;
    }
    Val context = materialise(as_value(std::move(sugared), e.at));
    ClassType* c = class_of(context);
    if (!c) error(e.at, "With item expression must return an object");
    for (const char* method : {"__enter__", "__exit__"})
      if (!c->method(method))
        error(e.at,
              fmt::format("{} does not have a function with the name {}", class_text(context.type), method));
    Val entered = call_magic(context, "__enter__", {}, s.at);
    mark_with(entered);
    open.push_back({context, graph_->insert_point().prev(), false});
    if (s.targets[i + 1]) assign(*s.targets[i + 1], entered);
  }
  list(pointers(s.body));
  for (; !open.empty(); open.pop_back()) {
    const Open& last = open.back();
    at_ = s.at;
    if (last.grad_mode)
      make("aten::set_grad_enabled", {last.context.in}, {});
    else
      mark_with(call_magic(last.context, "__exit__",
                           {constant(tern::Value()), constant(tern::Value()), constant(tern::Value())}, at_));
    exits_.withs.emplace_back(last.begin, graph_->insert_point().prev());
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
  // In printed source the answer stands under a name: `_0 = isinstance(x, Tensor)` of what is always one.
  std::optional<bool> known = c.known;
  if (!strict_ && !known && c.value.is_constant() && c.value.in.constant().is_bool())
    known = c.value.in.constant().to_bool();
  if (known) {
    for (const Refinement& r : *known ? c.when_true : c.when_false) refine(r);
    return *known ? then() : otherwise();
  }
  ir::Node& node = make("prim::If", {operand(c.value)}, {});
  Frame branches[2];
  for (int k = 0; k < 2; ++k) {
    Frame& f = branches[k];
    f.parent = frame_;
    f.block = &node.add_block();
    ir::Node& saved = graph_->insert_point();
    graph_->insert_at_end(*f.block);
    frame_ = &f;
    for (const Refinement& r : k == 0 ? c.when_true : c.when_false) refine(r);
    k == 0 ? then() : otherwise();
    frame_ = f.parent;
    graph_->insert_at(saved);
  }
  bool diverged[2] = {branches[0].diverged, branches[1].diverged};
  if (strict_ && diverged[0] && diverged[1]) {
    frame_->diverged = true;
    return;
  }
  if (diverged[0] && diverged[1]) frame_->diverged = true;
  merge(node, branches[0], branches[1], diverged[0], diverged[1], at);
  // Printed source casts by itself where a branch raises.
  if (strict_ || diverged[0] == diverged[1]) return;
  for (const Refinement& r : diverged[0] ? c.when_false : c.when_true) refine(r);
}

void Compiler::merge(ir::Node& node, Frame& a, Frame& b, bool a_diverges, bool b_diverges, uint32_t at) {
  std::vector<std::string> names = a.assigned;
  for (const std::string& n : b.assigned)
    if (!a.assigned_set.count(n)) names.push_back(n);
  if (strict_) std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    auto look = [&](Frame& f) -> Val* {
      if (auto it = f.values.find(name); it != f.values.end()) return &it->second;
      if (f.undefined.count(name)) return nullptr;
      return find(name);
    };
    // Of a side that has left, nothing is looked at.
    Val *x = strict_ && a_diverges ? nullptr : look(a), *y = strict_ && b_diverges ? nullptr : look(b);
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

// ---- loops ----

void Compiler::target_names(const Expr& e, Names& names) {
  if (e.kind == ExprKind::name)
    names.insert(e.text);
  else if (e.kind == ExprKind::tuple || e.kind == ExprKind::list || e.kind == ExprKind::starred)
    for (const ExprPtr& i : e.items) target_names(*i, names);
}

void Compiler::assigned_names(const Body& body, Names& names) {
  for (const StmtPtr& s : body) {
    if (s->kind == StmtKind::def_) continue;
    if (s->kind == StmtKind::assign || s->kind == StmtKind::annotated || s->kind == StmtKind::augmented ||
        s->kind == StmtKind::for_)
      for (const ExprPtr& t : s->targets)
        if (t) target_names(*t, names);
    if (s->kind == StmtKind::if_ || s->kind == StmtKind::while_ || s->kind == StmtKind::assert_)
      refined_names(*s->value, names);
    assigned_names(s->body, names);
    assigned_names(s->otherwise, names);
  }
}
// A condition that tells more about the type of a name gives the name a new value.
void Compiler::refined_names(const Expr& e, Names& names) {
  if (!strict_) return;
  bool is = e.kind == ExprKind::binary && (e.text == "is" || e.text == "is not");
  bool call = e.kind == ExprKind::call && e.items.size() == 3 && e.items[0]->text == "isinstance";
  if (is || call) {
    for (const ExprPtr& i : e.items) {
      Val* v = i->kind == ExprKind::name ? find(i->text) : nullptr;
      if (v &&
          (v->type->is(TypeKind::optional) || v->type->is(TypeKind::union_) || v->type->is(TypeKind::any)))
        names.insert(i->text);
    }
  } else if (e.kind == ExprKind::unary ||
             (e.kind == ExprKind::binary && (e.text == "and" || e.text == "or"))) {
    for (const ExprPtr& i : e.items) refined_names(*i, names);
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

// Tuples and lists of modules have their elements known: the body is compiled once for each.
void Compiler::unroll(const Stmt& s, std::vector<Sugar>& items) {
  Loop loop;
  loop.unrolled = true;
  loops_.push_back(&loop);
  List body = pointers(s.body);
  for (Sugar& item : items) {
    if (frame_->diverged) break;
    assign_sugar(*s.targets[0], std::move(item));
    list(body);
  }
  loops_.pop_back();
}

void Compiler::emit_loop(const Stmt& s, Val trip, const Condition* start,
                         std::vector<std::pair<const Expr*, Sugar>>, const Sugar* over) {
  at_ = s.at;
  Names names;
  Loop loop;
  assigned_names(s.body, names);
  if (s.kind == StmtKind::while_) {
    refined_names(*s.value, names);
    loop.condition = s.value.get();
  }
  // The variable of a `for` is carried too when it was defined before: it keeps its last value.
  if (s.kind == StmtKind::for_) target_names(*s.targets[0], names);
  if (strict_) std::sort(names.order.begin(), names.order.end());
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
    inputs.push_back(v->in);
    carried.push_back({name, type});
    loop.carried.push_back(name);
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
  loops_.push_back(&loop);
  if (start)
    for (const Refinement& r : start->when_true) refine(r);
  if (over) assign_sugar(*s.targets[0], element(*over, typed(counter, Type::integer()), s.value->at));
  list(pointers(s.body));
  loops_.pop_back();

  if (start) mark_constant(*s.value);
  block.add_return(start ? operand(condition(*s.value).value) : In(true));
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
    if (!find(name)) frame_->undefined[name] = {};
}

// ---- leaving ----

// What the round would carry on if it ended here, after the answer whether there is another one.
void Compiler::leave_round(const Stmt& s, bool for_good) {
  const Loop& loop = *loops_.back();
  if (loop.unrolled)
    error(
        s.at,
        "Because we emit iteration over Modulelists or Tuples as unrolled loops, we do not support break or "
        "continue inside the body of these loops");
  std::vector<In> inputs{In(!for_good)};
  if (!for_good && loop.condition) inputs[0] = operand(condition(*loop.condition).value);
  for (const std::string& name : loop.carried) {
    Val* v = find(name);
    if (!v) error(s.at, fmt::format("undefined value {}", name));
    inputs.push_back(v->in);
  }
  at_ = s.at;
  make("prim::LoopContinuation", std::move(inputs), {});
  leaves_ = true;
}

void Compiler::return_statement(const Stmt& s) {
  if (in_task_) error(s.at, "what fork() runs returns once, at its end");
  Val v = s.value ? value(*s.value, returns_) : constant(tern::Value());
  if (returns_) {
    std::optional<Val> fitting = try_type(v, returns_);
    if (fitting && strict_ && !convert(v, returns_, false) && !v.type->is_tensor() &&
        !v.type->is(TypeKind::number))
      fitting.reset();
    if (!fitting)
      error(s.value ? s.value->at : s.at,
            fmt::format("Return value was annotated as having type {} but is actually of type {}",
                        ir_text(returns_), say(v)));
    v = materialise(std::move(*fitting), returns_);
    at_ = s.at;
    if (strict_ && returns_->is(TypeKind::any) && !v.type->is(TypeKind::any))
      v = simple("prim::unchecked_cast", {v.in}, returns_);
  } else {
    v = materialise(v);
    const Type* t = plain(v.type);
    const Type* both = found_returns_ ? unify(found_returns_, t) : t;
    if (!both)
      error(s.at,
            fmt::format(
                "Previous return statement returned a value of type {} but this return statement returns a "
                "value of type {}",
                ir_text(found_returns_), say(v)));
    found_returns_ = both;
  }
  frame_->diverged = true;
  // The last statement of most functions; before it no path has left.
  if (frame_->block == &graph_->top() && !leaves_) {
    graph_->add_output(v.in);
    return;
  }
  at_ = s.at;
  make("prim::ReturnStmt", {v.in}, {});
  leaves_ = true;
}

void Compiler::assert_statement(const Stmt& s) {
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
    frame_->diverged = true;
    leaves_ = leaves_ || strict_;
  };
  if_branches(
      condition(*s.value), [] {}, raise, s.at);
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
        if (what->items.size() > 2) {  // all of them, as a tuple is shown
          Val all;
          all.kind = Val::tuple;
          std::vector<const Type*> types;
          for (size_t i = 1; i < what->items.size(); ++i) {
            all.items.push_back(i == 1 ? m : value(*what->items[i]));
            types.push_back(all.items.back().type);
          }
          all.type = Type::tuple(types);
          m = std::move(all);
        }
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
  leaves_ = leaves_ || strict_;
}

}  // namespace tern::script
