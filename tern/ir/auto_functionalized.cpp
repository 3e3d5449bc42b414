#include "tern/ir/auto_functionalized.h"

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"

namespace tern::ir {
namespace {

tern::Value call_named(std::string_view op, std::vector<tern::Value> args) {
  Bound bound(get_op(op), args);
  tern::Value result;
  call(get_op(op), bound.args(), &result);
  return result;
}
tern::Value cloned(const tern::Value& v) {
  if (v.is_tensor()) return v.tensor().defined() ? call_named("aten::clone", {v}) : v;
  if (!v.is_list()) return v;
  std::vector<tern::Value> items;
  for (const tern::Value& item : v.items()) items.push_back(cloned(item));
  return tern::Value::list(std::move(items));
}

// The inputs by the names the file has for them.
struct Named {
  const Node& node;
  const std::vector<tern::Value>& inputs;
  const tern::Value& names;

  const tern::Value* find(const std::string& name) const {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (names.items()[i].string() == name) return &inputs[i];
    return nullptr;
  }
  const tern::Value& get(const std::string& name) const {
    const tern::Value* v = find(name);
    if (!v) failf("{}: '{}' is missing", node.kind().view(), name);
    return *v;
  }

  // A view of one of the bases: the base itself, as_strided, or a slice of it.
  tern::Value view(const std::string& prefix, const std::vector<tern::Value>& bases) const {
    const tern::Value& index = get(prefix + "_base_index");
    if (index.is_none()) return {};
    int64_t i = index.to_int();
    if (i < 0 || static_cast<size_t>(i) >= bases.size())
      failf("{}: {}_base_index is {}, but there are {} bases", node.kind().view(), prefix, i, bases.size());
    const tern::Value& base = bases[static_cast<size_t>(i)];
    if (find(prefix + "_storage_offset"))
      return call_named("aten::as_strided", {base, get(prefix + "_size"), get(prefix + "_stride"),
                                             get(prefix + "_storage_offset")});
    if (find(prefix + "_slice_dim"))
      return call_named("aten::slice.Tensor", {base, get(prefix + "_slice_dim"), get(prefix + "_slice_start"),
                                               get(prefix + "_slice_end")});
    return base;
  }
};

}  // namespace

bool is_auto_functionalized(const Node& node) {
  return node.is("higher_order::auto_functionalized_v2") || node.is("higher_order::auto_functionalized");
}

std::vector<tern::Value> run_auto_functionalized(const Node& node, const std::vector<tern::Value>& inputs) {
  const tern::Value *target = node.attribute("operator"), *names = node.attribute("arg_names");
  if (!target || !target->is_string() || !names || !names->is_list() ||
      names->items().size() != inputs.size())
    failf("{} needs the operator it calls and the names of its inputs", node.kind().view());
  const Op* op = find_op(std::string_view(target->string()));
  if (!op)
    failf(ErrorKind::not_supported, "the interpreter has no {} (%{}); define() it as an operator",
          target->string(), node.name());
  const Schema& schema = op->schema();
  Named in{node, inputs, *names};
  const bool v2 = node.is("higher_order::auto_functionalized_v2");
  std::vector<tern::Value> bases;
  if (v2)
    for (const tern::Value& base : in.get("_all_bases").items()) bases.push_back(cloned(base));

  std::vector<tern::Value> given;
  std::vector<std::pair<Symbol, tern::Value>> keywords;
  for (const SchemaArg& arg : schema.args) {
    std::string name = arg.name.str();
    tern::Value v;
    if (!arg.alias.write) {
      const tern::Value* found = in.find(name);
      if (!found && !arg.default_value) failf("{}: '{}' is missing", op->qualified(), name);
      v = found ? *found : *arg.default_value;
    } else if (!v2) {
      v = cloned(in.get(name));
      bases.push_back(v);
    } else if (arg.type.list) {
      const tern::Value& length = in.get("_" + name + "_length");
      std::vector<tern::Value> items;
      for (int64_t i = 0; !length.is_none() && i < length.to_int(); ++i)
        items.push_back(in.view(fmt::format("_{}_{}", name, i), bases));
      if (!length.is_none()) v = tern::Value::list(std::move(items));
    } else {
      v = in.view("_" + name, bases);
    }
    if (arg.keyword_only)
      keywords.emplace_back(arg.name, v);
    else
      given.push_back(v);
  }
  Bound bound(*op, given, keywords);
  std::vector<tern::Value> results(std::max<size_t>(op->results, 1));
  call(*op, bound.args(), results.data());
  results.insert(results.end(), bases.begin(), bases.end());
  return results;
}

}  // namespace tern::ir
