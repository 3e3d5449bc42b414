// An operator over lists: the operator of its members, once for each of them, in order. What is fake,
// recorded or differentiated is so member by member.
#include <algorithm>
#include <cmath>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops/copy.h"
#include "tern/ops/each.h"
#include "tern/ops/view.h"

namespace tern {
namespace {

using Keywords = std::vector<std::pair<Symbol, Value>>;

// One member's call.
struct Member {
  std::string name;
  std::vector<Value> positional = {};
  Keywords keywords = {};
};

// As many as there are members; what a list has too many or too few of is refused.
size_t count_members(const Op& op, const Arg* args) {
  size_t members = 0;
  bool counted = false;
  for (int i = 0; i < op.arity; ++i) {
    const Arg& a = args[i];
    if (a.kind == ArgKind::tensors && !counted) {
      members = a.count;
      counted = true;
      if (!members) fail("Tensor list must have at least one tensor.");
    } else if (a.kind == ArgKind::tensors && a.count != members) {
      failf("Tensor lists must have the same number of tensors, got {} and {}", members, a.count);
    } else if (op.schema().args[static_cast<size_t>(i)].type.list && a.count != members) {
      fail("Tensor list must have same number of elements as scalar list.");
    }
  }
  return members;
}

// One tensor among lists is a number for all members, or (`scalars`) has one for each.
Value of_tensor(const Tensor& t, bool packed, size_t members, size_t i) {
  if (!packed) {
    if (t.dim() != 0)
      failf("scalar tensor expected to be 0 dim but it has {} dimensions and {} elements.", t.dim(),
            t.numel().str());
    return Value(t);
  }
  if (t.dim() != 1) failf("Expected packed scalar Tensor to be of dimension 1. Got {} instead.", t.dim());
  if (!(t.size(0) == SymInt(static_cast<int64_t>(members))))
    failf("Expected length of scalars to match input of length {} but got {} instead.", members,
          t.size(0).str());
  return Value(select(t, 0, static_cast<int64_t>(i)).item());
}

Value argument_of(const Op& op, const Arg* args, size_t k, size_t members, size_t i) {
  const Arg& a = args[k];
  if (a.kind == ArgKind::tensors) return Value(a.tensors()[i]);
  const SchemaArg& declared = op.schema().args[k];
  if (declared.type.list) return a.to_value().items()[i];
  if (a.kind == ArgKind::tensor) return of_tensor(a.tensor(), declared.name.view() == "scalars", members, i);
  return a.to_value();
}

bool is_infinite(const Value& order) {
  return order.is_number() && !order.scalar().is_complex() && std::isinf(order.to_double());
}

// The names that are not those of the members' operators, and where their arguments stand.
void translate(Member& m, const std::string& called) {
  const bool inplace = m.name.ends_with('_');
  const std::string base = m.name.substr(0, m.name.size() - inplace);
  const bool number = m.positional.size() > 1 && !m.positional[1].is_tensor();
  auto by_keyword = [&](const char* name) {
    m.keywords.emplace_back(Symbol(name), std::move(m.positional.back()));
    m.positional.pop_back();
  };
  if (number && (base == "maximum" || base == "minimum"))
    m.name = (base == "maximum" ? "clamp_min" : "clamp_max") + std::string(inplace ? "_" : "");
  if (base == "addcmul" || base == "addcdiv") by_keyword("value");
  if (base == "norm" || base == "powsum") {
    m.name = base == "norm" ? "linalg_vector_norm" : "linalg__powsum";
    by_keyword("dtype");
    if (base == "norm" && m.positional[0].tensor().numel() == 0 && is_infinite(m.positional[1]))
      failf(
          "{} cannot compute the infinity norm on an empty tensor because the operation does not have an "
          "identity",
          called);
  }
  if (base == "max" && m.positional[0].tensor().numel() == 0)
    failf("{} cannot compute the maximum of an empty tensor; max over zero elements is undefined.", called);
}

Value run(const Member& m) {
  const Op& op = resolve(overloads(Symbol("aten::" + m.name)), m.positional, m.keywords);
  Bound bound(op, m.positional, m.keywords);
  Value result;
  call(op, bound.args(), &result);
  return result;
}

// Into the first argument, also where the operator has no form that does so.
void run_inplace(Member m) {
  if (!overloads(Symbol("aten::" + m.name)).empty()) {
    run(m);
    return;
  }
  m.name.pop_back();
  copy_(m.positional[0].tensor(), run(m).tensor());
}

void write(const Tensor& result, const Tensor& out) {
  const bool fits =
      std::equal(result.sizes().begin(), result.sizes().end(), out.sizes().begin(), out.sizes().end());
  if (!fits) resize_output(out, result.sizes());
  copy_(out, result);
}

}  // namespace

void body_each(const Op& op, const Arg* args, Value* results) {
  const Schema& schema = op.schema();
  const std::string called(schema.name.view().substr(std::string_view("aten::").size()));
  const bool inplace = called.ends_with('_');
  const bool out = !inplace && schema.mutates();
  const size_t members = count_members(op, args), given = schema.args.size() - out;
  std::vector<Tensor> made;
  for (size_t i = 0; i < members; ++i) {
    Member m{called.substr(std::string_view("_foreach_").size())};
    for (size_t k = 0; k < given; ++k) {
      Value v = argument_of(op, args, k, members, i);
      if (schema.args[k].keyword_only)
        m.keywords.emplace_back(schema.args[k].name, std::move(v));
      else
        m.positional.push_back(std::move(v));
    }
    translate(m, called);
    if (inplace)
      run_inplace(std::move(m));
    else if (out)
      write(run(m).tensor(), args[given].tensors()[i]);
    else
      made.push_back(run(m).tensor());
  }
  if (!inplace && !out) results[0] = Value(made);
}

}  // namespace tern
