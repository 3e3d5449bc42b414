// Statements: control flow into prim::If and prim::Loop with carried values. A path that leaves (return,
// break, continue) takes what follows it out of the other path's way: the rest moves into the branch that
// goes on, or under a flag.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/script/compiler.h"

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
  for (size_t i = 0; i < statements.size(); ++i) {
    const Stmt& s = *statements[i];
    at_ = s.at;
    List rest(statements.begin() + static_cast<long>(i) + 1, statements.end());
    if (s.kind == StmtKind::with) {
      // torch.no_grad() and the like: the context is evaluated where that is an object; gradients are the
      // caller's business.
      error(s.at, "'with' is not supported in scripts: set the gradient mode around the call instead");
    }
    if (s.kind == StmtKind::if_) {
      Condition c = condition(*s.value);
      List then = pointers(s.body), otherwise = pointers(s.otherwise);
      if (c.known) {
        // Only the branch that can run is compiled; what follows comes after it in the same list.
        for (const Refinement& r : *c.known ? c.when_true : c.when_false) refine(r);
        List taken = *c.known ? then : otherwise;
        taken.insert(taken.end(), rest.begin(), rest.end());
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
        otherwise.insert(otherwise.end(), rest.begin(), rest.end());
        return if_statement(c, then, otherwise, s.at);
      }
      if (!f.falls_through && !t.kinds) {
        then.insert(then.end(), rest.begin(), rest.end());
        return if_statement(c, then, otherwise, s.at);
      }
      if ((t.kinds | f.kinds) & exit_return) ensure_return_slot();
      set(left, constant(false));
      if_statement(c, then, otherwise, s.at);
      if (rest.empty()) return;
      Condition gone;
      gone.value = *find(left);
      return if_statement(gone, {}, rest, s.at);
    }
    if (s.kind == StmtKind::while_ || s.kind == StmtKind::for_) {
      bool leaves = exits_of(s.body).kinds & exit_return;
      if (leaves) {
        ensure_return_slot();
        set(returned, constant(false));
      }
      if (s.kind == StmtKind::while_)
        loop_statement(s);
      else
        for_statement(s);
      if (!leaves) continue;
      Val gone = *find(returned);
      set(left, gone);
      if (!loops_.empty()) set(broke, gone);
      if (rest.empty()) return;
      Condition c;
      c.value = gone;
      return if_statement(c, {}, rest, s.at);
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
    case StmtKind::expr: {
      if (s.value->kind == ExprKind::constant) return;  // a docstring
      sugar(*s.value);
      return;
    }
    case StmtKind::assign: {
      Sugar v = sugar(*s.value);
      for (const ExprPtr& t : s.targets) {
        if (s.targets.size() == 1)
          assign_sugar(*t, std::move(v));
        else
          assign(*t, as_value(v, s.at));
      }
      return;
    }
    case StmtKind::annotated: {
      const Type* type = type_expr(*s.annotation);
      if (s.targets[0]->kind == ExprKind::name) frame_->declared[s.targets[0]->text] = type;
      if (!s.value) return;
      Val v = to_type(value(*s.value, type), type, s.value->at, "the value");
      assign(*s.targets[0], std::move(v));
      return;
    }
    case StmtKind::augmented:
      return augmented(s);
    case StmtKind::return_:
      return return_statement(s);
    case StmtKind::break_:
      if (loops_.empty()) error(s.at, "'break' outside of a loop");
      set(broke, constant(true));
      set(left, constant(true));
      return;
    case StmtKind::continue_:
      if (loops_.empty()) error(s.at, "'continue' outside of a loop");
      set(left, constant(true));
      return;
    case StmtKind::assert_:
      return assert_statement(s);
    case StmtKind::raise:
      return raise_statement(s);
    case StmtKind::del_:
      for (const ExprPtr& t : s.targets) {
        if (t->kind == ExprKind::subscript) {
          Args args;
          args.positional.push_back(value(*t->items[0]));
          args.positional.push_back(value(*t->items.at(1)));
          call_builtin("aten::Delete", std::move(args), t->at);
        } else if (t->kind == ExprKind::name) {
          if (!find(t->text)) error(t->at, fmt::format("undefined value {}", t->text));
          frame_->values.erase(t->text);
          frame_->undefined[t->text] = "it was deleted";
        } else {
          error(t->at, "del takes names and subscripts");
        }
      }
      return;
    default:
      error(s.at, "a statement that is not part of TorchScript");
  }
}

// ---- if ----

void Compiler::if_statement(const Condition& c, const List& then, const List& otherwise, uint32_t at) {
  at_ = at;
  if (c.known) {
    for (const Refinement& r : *c.known ? c.when_true : c.when_false) refine(r);
    return list(*c.known ? then : otherwise);
  }
  ir::Node& node = make("prim::If", {operand(c.value)}, {});
  Frame branches[2];
  const List* bodies[2] = {&then, &otherwise};
  bool diverges[2];
  for (int k = 0; k < 2; ++k) {
    Frame& f = branches[k];
    f.parent = frame_;
    f.block = &node.add_block();
    ir::Node& saved = graph_->insert_point();
    graph_->insert_at_end(*f.block);
    frame_ = &f;
    for (const Refinement& r : k == 0 ? c.when_true : c.when_false) refine(r);
    list(*bodies[k]);
    frame_ = f.parent;
    graph_->insert_at(saved);
    Exits e = exits_of_list(*bodies[k]);
    diverges[k] = f.diverged || (!e.falls_through && !e.kinds);
  }
  if (diverges[0] && diverges[1]) frame_->diverged = true;
  merge(node, branches[0], branches[1], diverges[0], diverges[1]);
}

void Compiler::merge(ir::Node& node, Frame& a, Frame& b, bool a_diverges, bool b_diverges) {
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
    auto reason = [&](Frame& f, std::string_view side) {
      auto it = f.undefined.find(name);
      return it != f.undefined.end() ? it->second
                                     : fmt::format("{} is not defined in the {} branch", name, side);
    };
    if ((!x && !a_diverges) || (!y && !b_diverges) || (!x && !y)) {
      frame_->values.erase(name);
      frame_->undefined[name] = !x ? reason(a, "true") : reason(b, "false");
      continue;
    }
    const Type* type = !x ? y->type : !y ? x->type : unify(x->type, y->type);
    if (type && type->is(TypeKind::none))
      if (const Type* declared = declared_type(name); declared && type->fits(*declared)) type = declared;
    if (!type) {
      // Before the erasure: where a branch leaves the variable alone, x or y is the frame's own value.
      frame_->undefined[name] =
          fmt::format("it is set to type {} in the true branch and to type {} in the false branch",
                      x->type->str(ir::TypeStyle::annotation), y->type->str(ir::TypeStyle::annotation));
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
    ir::Value& out = node.add_output(type, name[0] == '$' ? std::string_view() : std::string_view(name));
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

void Compiler::target_names(const Expr& e, std::set<std::string>& names) {
  if (e.kind == ExprKind::name)
    names.insert(e.text);
  else if (e.kind == ExprKind::tuple || e.kind == ExprKind::list || e.kind == ExprKind::starred)
    for (const ExprPtr& i : e.items) target_names(*i, names);
}

void Compiler::assigned_names(const Body& body, std::set<std::string>& names, bool& returns) {
  for (const StmtPtr& s : body) {
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

void Compiler::for_statement(const Stmt& s) {
  Sugar over = iterable(sugar(*s.value), s.value->at);
  if (unrolled(s, over)) return;
  if (over.kind == Sugar::iterable && over.text == "range" && over.items.size() == 1)
    return emit_loop(s, over.items[0].self, nullptr, {}, &over);
  emit_loop(s, length(over, s.value->at), nullptr, {}, &over);
}

// Tuples and lists of modules have their elements known: the body is compiled once for each.
bool Compiler::unrolled(const Stmt& s, const Sugar& over) {
  std::optional<std::vector<Sugar>> items = static_items(over, s.value->at);
  if (!items) return false;
  Exits e = exits_of(s.body);
  if (e.kinds & (exit_break | exit_continue | exit_return))
    error(s.at,
          "break, continue and return are not possible in a loop over a tuple or a list of modules, which is "
          "unrolled");
  for (Sugar& item : *items) {
    assign_sugar(*s.targets[0], std::move(item));
    list(pointers(s.body));
  }
  return true;
}

void Compiler::emit_loop(const Stmt& s, Val trip, const Condition* start,
                         std::vector<std::pair<const Expr*, Sugar>>, const Sugar* over) {
  at_ = s.at;
  std::set<std::string> names;
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
  for (const std::string& name : names) {
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
  ir::Value& counter = block.add_param(Type::integer(), "i");
  Frame inside;
  inside.parent = frame_;
  inside.block = &block;
  for (const Carried& c : carried) {
    ir::Value& p = block.add_param(c.type, c.name[0] == '$' ? std::string_view() : std::string_view(c.name));
    inside.values[c.name] = typed(p, c.type);
  }
  ir::Node& saved = graph_->insert_point();
  graph_->insert_at_end(block);
  Frame* outer = frame_;
  frame_ = &inside;
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
      ir::Node& here = graph_->insert_point();
      graph_->insert_at_end(going);
      Frame f;
      f.parent = frame_;
      f.block = &going;
      frame_ = &f;
      In c = operand(condition(*s.value).value);
      frame_ = f.parent;
      graph_->insert_at(here);
      going.add_return(c);
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
      error(s.at, fmt::format("{} is carried from one round of the loop to the next but {}", c.name,
                              it != inside.undefined.end() ? it->second : "may not be defined at its end"));
    }
    if (!v->type->fits(*c.type) && !(v->in.is_value() && v->type->is(TypeKind::any)))
      error(
          s.at,
          fmt::format(
              "variable '{}' previously had type {} but is now being assigned a value of type {} in the loop",
              c.name, c.type->str(ir::TypeStyle::annotation), v->type->str(ir::TypeStyle::annotation)));
    block.add_return(v->in);
  }
  frame_ = outer;
  graph_->insert_at(saved);
  for (const Carried& c : carried) {
    ir::Value& out =
        node.add_output(c.type, c.name[0] == '$' ? std::string_view() : std::string_view(c.name));
    set(c.name, typed(out, c.type));
  }
  for (const std::string& name : inside.assigned)
    if (name[0] != '$' && !find(name))
      frame_->undefined[name] = "it is defined only inside the loop, which may not run";
}

// ---- leaving ----

void Compiler::return_statement(const Stmt& s) {
  Val v = s.value ? value(*s.value, returns_) : constant(tern::Value());
  if (provisional_) {
    v = materialise(v);
    const Type* t = plain(v.type);
    if (found_returns_) {
      const Type* both = unify(found_returns_, t);
      if (!both)
        error(s.at,
              fmt::format("previous return statements returned {} but this one returns {}",
                          found_returns_->str(ir::TypeStyle::annotation), t->str(ir::TypeStyle::annotation)));
      t = both;
    }
    found_returns_ = t;
    v.type = Type::any();
  } else if (returns_) {
    v = materialise(to_type(std::move(v), returns_, s.value ? s.value->at : s.at, "the return value"),
                    returns_);
    v.type = returns_;
  } else {
    // Without annotation: the first return decides, a later one that widens it makes a second run necessary.
    v = materialise(v);
    const Type* t = plain(v.type);
    const Type* both = found_returns_ ? unify(found_returns_, t) : t;
    if (!both)
      error(s.at,
            fmt::format("previous return statements returned {} but this one returns {}",
                        found_returns_->str(ir::TypeStyle::annotation), t->str(ir::TypeStyle::annotation)));
    if (found_returns_ && both != found_returns_) throw ReturnTypeNeeded{};
    found_returns_ = both;
    if (both != t) v.type = both;
  }
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
  ir::Node& saved = graph_->insert_point();
  graph_->insert_at_end(fails);
  Frame f;
  f.parent = frame_;
  f.block = &fails;
  frame_ = &f;
  raise();
  frame_ = f.parent;
  graph_->insert_at(saved);
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
      error(s.at, "raise takes an exception: raise ValueError(\"...\")");
  }
  at_ = s.at;
  make("prim::RaiseException", {operand(text), In(kind)}, {});
}

// ---- assignment ----

void Compiler::assign_sugar(const Expr& target, Sugar s) {
  if (target.kind == ExprKind::name && (s.kind == Sugar::function || s.kind == Sugar::class_)) {
    // `_0 = __torch__.torch.nn.functional.relu`: the name stands for the function from here on.
    Val v;
    v.type = Type::function();
    v.in = In(std::string(s.kind == Sugar::function ? s.callee->qualified().view() : s.owner->name.view()));
    set(target.text, std::move(v));
    return;
  }
  if (target.kind == ExprKind::tuple && s.kind == Sugar::iterable) {
    std::optional<std::vector<Sugar>> items = static_items(s, target.at);
    if (items && items->size() == target.items.size()) {
      for (size_t i = 0; i < items->size(); ++i) assign_sugar(*target.items[i], std::move((*items)[i]));
      return;
    }
  }
  assign(target, as_value(std::move(s), target.at));
}

void Compiler::assign(const Expr& target, Val v) {
  switch (target.kind) {
    case ExprKind::name: {
      const Type* declared = declared_type(target.text);
      v = materialise(std::move(v), declared);
      if (declared && v.type->is(TypeKind::none) && declared->is(TypeKind::optional)) v.type = declared;
      set(target.text, std::move(v));
      return;
    }
    case ExprKind::attribute: {
      Val self = value(*target.items[0]);
      ClassType* type = self.type->is(TypeKind::class_) ? unit_.find_class(self.type->name()) : nullptr;
      if (!type)
        error(target.at, fmt::format("attributes can be set on modules and objects only, not on {}",
                                     self.type->str(ir::TypeStyle::annotation)));
      const Attribute* a = type->find(target.text);
      bool in_init = def_.name == "__init__" && function_.owner() == type;
      if (!a && in_init && type->kind == ClassKind::plain) {
        v = materialise(v);
        a = &type->add({target.text, plain(v.type)});
      }
      if (!a)
        error(target.at, fmt::format("{} has no attribute '{}' to set", type->name.view(), target.text));
      if (a->role == Role::constant)
        error(target.at, fmt::format("'{}' is a constant of {}", target.text, type->name.view()));
      const Type* wanted = a->type;
      v = materialise(to_type(std::move(v), wanted, target.at, "attribute '" + target.text + "'"), wanted);
      at_ = target.at;
      ir::Node& n = make("prim::SetAttr", {self.in, v.in}, {});
      n.set_attribute("name", tern::Value(target.text));
      return;
    }
    case ExprKind::subscript:
      return assign_subscript(target, std::move(v));
    case ExprKind::tuple:
    case ExprKind::list: {
      std::vector<Val> items;
      size_t n = target.items.size();
      size_t star = n;
      for (size_t i = 0; i < n; ++i)
        if (target.items[i]->kind == ExprKind::starred) star = i;
      if (v.kind != Val::plain) {
        items = v.items;
      } else if (v.type->is(TypeKind::tuple)) {
        if (v.in.is_constant()) {
          for (size_t i = 0; i < v.type->elements().size(); ++i)
            items.push_back(typed(In(v.in.constant().items()[i]), v.type->element(i)));
        } else {
          std::vector<const Type*> types = v.type->elements().vec();
          ir::Node& unpack = make("prim::TupleUnpack", {v.in}, types);
          for (size_t i = 0; i < types.size(); ++i) items.push_back(typed(unpack.output(i), types[i]));
        }
      } else if (v.type->is(TypeKind::list) || v.type->is(TypeKind::any)) {
        if (star < n)
          error(target.at, "a list cannot be unpacked with a starred name: its length is not known");
        const Type* element = v.type->is(TypeKind::list) ? v.type->element() : Type::any();
        ir::Node& unpack = make(v.type->is(TypeKind::list) ? "prim::ListUnpack" : "prim::TupleUnpack", {v.in},
                                std::vector<const Type*>(n, element));
        for (size_t i = 0; i < n; ++i) items.push_back(typed(unpack.output(i), element));
      } else if (v.type->is_tensor()) {
        Args args;
        args.positional.push_back(v);
        Val parts = materialise(call_builtin("aten::unbind", std::move(args), target.at));
        ir::Node& unpack = make("prim::ListUnpack", {parts.in}, std::vector<const Type*>(n, Type::tensor()));
        for (size_t i = 0; i < n; ++i) items.push_back(typed(unpack.output(i), Type::tensor()));
      } else {
        error(target.at,
              fmt::format("cannot unpack a value of type {}", v.type->str(ir::TypeStyle::annotation)));
      }
      if (star < n) {
        if (items.size() + 1 < n)
          error(target.at,
                fmt::format("need at least {} values to unpack but found {}", n - 1, items.size()));
        size_t many = items.size() + 1 - n;
        Val rest;
        rest.kind = Val::tuple;
        rest.items.assign(items.begin() + static_cast<long>(star),
                          items.begin() + static_cast<long>(star + many));
        items.erase(items.begin() + static_cast<long>(star), items.begin() + static_cast<long>(star + many));
        std::vector<const Type*> types;
        for (const Val& i : rest.items) types.push_back(i.type);
        rest.type = Type::tuple(types);
        items.insert(items.begin() + static_cast<long>(star), rest);
      }
      if (items.size() != n)
        error(target.at, fmt::format("need {} values to unpack but found {}", n, items.size()));
      for (size_t i = 0; i < n; ++i) {
        const Expr& t = *target.items[i];
        assign(t.kind == ExprKind::starred ? *t.items[0] : t, std::move(items[i]));
      }
      return;
    }
    default:
      error(target.at, "this cannot be assigned to");
  }
}

void Compiler::assign_subscript(const Expr& target, Val v) {
  Val base = materialise(value(*target.items[0]));
  if (base.type->is_tensor() || base.type->is(TypeKind::any)) {
    std::vector<Val> indices;
    Val part = index_tensor(base, target, &indices);
    Val number = v;
    if (!v.type->is_tensor() && !v.type->is(TypeKind::any)) {
      if (v.kind == Val::list || v.type->is(TypeKind::list)) {
        Args args;
        args.positional.push_back(v);
        v = call_builtin("aten::tensor", std::move(args), target.at);
      }
    }
    if (!indices.empty()) {
      if (!v.type->is_tensor()) v = simple("prim::NumToTensor", {operand(v)}, Type::tensor());
      Val list;
      list.kind = Val::list;
      list.items = indices;
      list.type = Type::list(Type::optional(Type::tensor()));
      Args args;
      args.positional = {part, list, v};
      call_builtin("aten::index_put_", std::move(args), target.at);
    } else {
      Args args;
      args.positional = {part, v};
      call_builtin(v.type->is_tensor() ? "aten::copy_" : "aten::fill_", std::move(args), target.at);
    }
    return;
  }
  if (target.items.size() != 2 || target.items[1]->kind == ExprKind::slice)
    error(target.at, "slices of lists cannot be assigned to");
  if (base.type->is(TypeKind::class_)) {
    ClassType* type = unit_.find_class(base.type->name());
    Function* f = type ? type->method("__setitem__") : nullptr;
    if (!f) error(target.at, fmt::format("{} has no __setitem__", base.type->name().view()));
    Args args;
    args.positional = {value(*target.items[1]), v};
    call_function(*f, base, std::move(args), target.at);
    return;
  }
  Args args;
  args.positional = {base, value(*target.items[1]), v};
  call_builtin("aten::_set_item", std::move(args), target.at);
}

void Compiler::augmented(const Stmt& s) {
  const Expr& target = *s.targets[0];
  Val old = value(target);
  Val by = value(*s.value);
  static const std::unordered_map<std::string, std::string> in_place = {
      {"+", "aten::add_"},         {"-", "aten::sub_"},         {"*", "aten::mul_"},
      {"/", "aten::div_"},         {"%", "aten::remainder_"},   {"**", "aten::pow_"},
      {"|", "aten::__ior__"},      {"&", "aten::__iand__"},     {"^", "aten::__ixor__"},
      {"<<", "aten::__ilshift__"}, {">>", "aten::__irshift__"}, {"//", "aten::floor_divide_"}};
  auto it = in_place.find(s.op);
  bool mutates =
      (old.type->is_tensor() || (old.type->is(TypeKind::list) && s.op == "+")) && it != in_place.end();
  if (mutates) {
    Args args;
    args.positional = {old, by};
    Val v = call_builtin(it->second, std::move(args), s.at);
    // A name keeps the changed tensor; a place in a container already holds it.
    if (target.kind == ExprKind::name)
      assign(target, v);
    else if (target.kind == ExprKind::subscript && !value(*target.items[0]).type->is_tensor())
      assign(target, v);
    return;
  }
  assign(target, binary(s.op, old, by, s.at));
}

}  // namespace tern::script
