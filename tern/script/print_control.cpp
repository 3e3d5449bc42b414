// Branches, loops, tasks and with blocks as source.
#include "tern/script/inlining.h"
#include "tern/script/source_printer.h"
#include "tern/script/source_text.h"

namespace tern::script {

using ir::Type;
using ir::TypeKind;

void SourcePrinter::fork_node(const ir::Node& n) {
  std::string name = unique("__forked_function");
  line("def " + name + "():", n.origin());
  ++indent_;
  block(*n.blocks()[0]);
  const Type* t = n.output().type();
  auto type = [&](size_t) -> const Type* { return t->is(TypeKind::future) ? t->element() : nullptr; };
  prepare(n.blocks()[0]->returns(), type);
  line("return " + operand(n.blocks()[0]->returns()[0], type(0)));
  --indent_;
  give(n, "fork(" + name + ")");
}

bool SourcePrinter::writes_with(const ir::Node& n) {
  size_t enters = 0, exits = 0;
  for (const ir::Use& u : n.input(0).value().uses()) {
    if (!u.user->meta("with")) continue;
    if (&u.user->block() != &n.block()) return false;
    ++(is_enter(*u.user) ? enters : exits);
  }
  return enters == exits;
}

void SourcePrinter::with_node(const ir::Node& n) {
  if (!is_enter(n)) {
    if (n.prev()->meta("with") && is_enter(*n.prev())) line("pass");
    --indent_;
    return;
  }
  std::string context = operand(n.input(0));
  line("with " + context + (n.output().has_uses() ? " as " + name_of(n.output()) : "") + ":", n.origin());
  ++indent_;
}

void SourcePrinter::if_node(const ir::Node& n) {
  std::string condition = operand(n.input(0));
  std::string left = names_of(n);
  line("if " + condition + ":", n.origin());
  for (size_t k = 0; k < 2; ++k) {
    const ir::Block& b = *n.blocks()[k];
    if (k == 1) line("else:");
    // Names of the values are known only after the body is printed.
    ++indent_;
    size_t before = out_.size();
    block(b);
    prepare(b.returns(), [&](size_t i) { return n.output(i).type(); });
    std::string right, type;
    for (size_t i = 0; i < n.num_outputs(); ++i) {
      bool clear = k == 1 || joins_to(n, i);
      // One name can be declared, several cannot.
      if (!clear && n.num_outputs() == 1) type = " : " + annotation(n.output().type());
      right += (right.empty() ? "" : ", ") + (clear || n.num_outputs() == 1
                                                  ? operand(b.returns()[i], n.output(i).type())
                                                  : widened(b.returns()[i], n.output(i).type()));
    }
    if (k == 0 && n.num_outputs() == 1 && type.empty() &&
        (n.output().type()->is(TypeKind::optional) || n.output().type()->is(TypeKind::union_)))
      type = " : " + annotation(n.output().type());
    if (!left.empty()) line(left + type + " = " + right);
    if (out_.size() == before) line("pass");
    --indent_;
  }
}

bool SourcePrinter::needs_word(const ir::Operand& o, const Type* type) {
  if (plain(o.type()) == plain(type) || o.type()->is(TypeKind::any) || type->is(TypeKind::any)) return false;
  return !(o.is_constant() && o.constant().is_list());
}

bool SourcePrinter::is_declared(const ir::Operand& o, const Type* type) {
  return type->is(TypeKind::optional) || needs_word(o, type);
}

bool SourcePrinter::joins_to(const ir::Node& n, size_t i) {
  const Type* wanted = plain(n.output(i).type());
  const ir::Operand &x = n.blocks()[0]->returns()[i], &y = n.blocks()[1]->returns()[i];
  return (!needs_word(x, wanted) && !needs_word(y, wanted)) || unify(x.type(), y.type()) == wanted;
}

std::string SourcePrinter::widened(const ir::Operand& o, const Type* type) {
  std::string s = operand(o, type);
  return needs_word(o, type) ? "annotate(" + annotation(type) + ", " + s + ")" : s;
}

void SourcePrinter::loop_node(const ir::Node& n) {
  const ir::Block& b = *n.blocks()[0];
  const ir::Operand &trip = n.input(0), &start = n.input(1), &next = b.returns()[0];
  LoopForm form = form_of(n);
  for (size_t i = 0; i < n.num_outputs(); ++i) names_[&b.param(i + 1)] = name_of(n.output(i));
  std::string limit = form == LoopForm::conditional ? "" : operand(trip);
  for (size_t i = 0; i < n.num_outputs(); ++i) {
    const Type* type = n.output(i).type();
    std::string declared = is_declared(n.input(i + 2), type) ? ": " + annotation(type) : "";
    line(names_[&n.output(i)] + declared + " = " + operand(n.input(i + 2), type), n.origin());
  }
  std::string left, right;
  auto carry = [&] {
    for (size_t i = 0; i < n.num_outputs(); ++i) {
      const ir::Operand& o = b.returns()[i + 1];
      std::string value = operand(o, n.output(i).type());
      if (o.is_value() && &o.value() == &b.param(i + 1)) continue;
      left += (left.empty() ? "" : ", ") + name_of(n.output(i));
      right += (right.empty() ? "" : ", ") + value;
    }
  };
  auto type_of = [&](size_t i) -> const Type* { return i ? n.output(i - 1).type() : Type::boolean(); };
  auto finish = [&](size_t before) {
    if (!left.empty()) line(left + " = " + right);
    if (out_.size() == before) line("pass");
    --indent_;
  };
  if (form == LoopForm::counted) {
    line("for " + name_of(b.param(0)) + " in range(" + limit + "):", n.origin());
    ++indent_;
    size_t before = out_.size();
    block(b);
    prepare(b.returns(), type_of);
    carry();
    return finish(before);
  }
  if (form == LoopForm::conditional) {
    std::string first = operand(start), going = fresh();
    line(going + " = " + first, n.origin());
    line("while " + going + ":", n.origin());
    ++indent_;
    size_t before = out_.size();
    block(b);
    prepare(b.returns(), type_of);
    left = going;
    right = operand(next);
    carry();
    return finish(before);
  }
  std::string counter = names_[&b.param(0)] = fresh();
  bool always = start.is_constant() && start.constant().is_bool() && start.constant().to_bool();
  line(counter + " = 0", n.origin());
  std::string going = fresh(), first = "torch.gt(" + limit + ", 0)";
  line(going + " = " + (always ? first : "torch.__and__(" + first + ", " + operand(start) + ")"), n.origin());
  line("while " + going + ":", n.origin());
  ++indent_;
  block(b);
  std::string more = fresh();
  line(more + " = torch.add(" + counter + ", 1)");
  std::string again = "torch.__and__(torch.lt(" + more + ", " + limit + "), " + operand(next) + ")";
  if (is_long(again)) {
    std::string name = fresh();
    line(name + " = " + again);
    again = name;
  }
  left = going;
  right = again;
  carry();
  left += ", " + counter;
  right += ", " + more;
  finish(0);
}

}  // namespace tern::script
