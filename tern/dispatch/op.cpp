#include "tern/dispatch/op.h"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "tern/base/format.h"
#include "tern/dispatch/grad_context.h"
#include "tern/dispatch/registry.h"

namespace tern {
namespace {

std::string_view overload_of(const Op& op) {
  std::string_view full = std::string_view(op.text).substr(0, std::string_view(op.text).find('('));
  size_t dot = full.find('.');
  return dot == std::string_view::npos ? "" : full.substr(dot + 1);
}

struct Registry {
  std::shared_mutex mutex;
  using List = std::vector<const Op*>;
  std::unordered_map<Symbol, Owned<List>> by_name;
  std::vector<Owned<List>> replaced;  // readers keep references
  std::vector<const Op*> all;

  Registry() {
    for (OpTable table : op_tables())
      for (const Op& op : table) add(op, false);
  }
  const Op* find(Symbol name, std::string_view overload) const {
    auto it = by_name.find(name);
    if (it == by_name.end()) return nullptr;
    for (const Op* op : *it->second)
      if (overload_of(*op) == overload) return op;
    return nullptr;
  }
  // Where there are readers, a list is replaced by a longer one.
  void add(const Op& op, bool readers = true) {
    // The name is cut from the text so that start-up parses no schema.
    std::string_view text = op.text;
    size_t end = text.find('(');
    std::string_view full = text.substr(0, end);
    std::string_view name = full.substr(0, full.find('.'));
    Symbol symbol =
        name.find("::") == std::string_view::npos ? Symbol("aten::" + std::string(name)) : Symbol(name);
    Owned<List>& list = by_name[symbol];
    if (!list) {
      list = new_owned<List>();
    } else if (readers) {
      auto longer = new_owned<List>(*list);
      replaced.push_back(std::exchange(list, std::move(longer)));
    }
    list->push_back(&op);
    all.push_back(&op);
  }
};
Registry& registry() {
  static Registry* r = new Registry;
  return *r;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t up = row[j];
      row[j] = std::min({up + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = up;
    }
  }
  return row[b.size()];
}

}  // namespace

const Schema& Op::parse() const {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (const Schema* s = parsed.load()) return *s;
  auto* s = new Schema(parse_schema(text));
  parsed.store(s);
  return *s;
}

const std::vector<const Op*>& overloads(Symbol name) {
  static const std::vector<const Op*> none;
  Registry& r = registry();
  std::shared_lock lock(r.mutex);
  auto it = r.by_name.find(name);
  return it == r.by_name.end() ? none : *it->second;
}

const Op* find_op(Symbol name, Symbol overload) {
  Registry& r = registry();
  std::shared_lock lock(r.mutex);
  return r.find(name, overload.view());
}

const Op* find_op(std::string_view qualified) {
  size_t start = qualified.find("::");
  size_t dot = qualified.find('.', start == std::string_view::npos ? 0 : start);
  std::string name(qualified.substr(0, dot));
  if (start == std::string_view::npos) name = "aten::" + name;
  std::string_view overload = dot == std::string_view::npos ? "" : qualified.substr(dot + 1);
  return find_op(Symbol(name), overload == "default" ? Symbol() : Symbol(overload));
}

std::vector<const Op*> all_ops() {
  Registry& r = registry();
  std::shared_lock lock(r.mutex);
  return r.all;
}

const Op& get_op(std::string_view qualified) {
  if (const Op* op = find_op(qualified)) return *op;
  std::pair<size_t, std::string> best{4, ""};
  for (const Op* op : all_ops()) {
    std::string name = op->qualified();
    best = std::min(best, {edit_distance(name, qualified), name});
  }
  failf(ErrorKind::not_supported, "Tern has no operator {}{}", qualified,
        best.second.empty() ? "" : fmt::format("; did you mean {}?", best.second));
}

namespace {
// An operator of the user's, with what it points to; it lives as long as the process.
struct Defined {
  std::string text;
  Definition definition;
  Schema schema;
  Op op;
};
}  // namespace

const Op& define(std::string_view schema, Definition definition) {
  Schema parsed = parse_schema(schema);
  Registry& r = registry();
  std::unique_lock lock(r.mutex);  // two threads that define one name: the second is refused
  if (r.find(parsed.name, parsed.overload.view()))
    failf(ErrorKind::value, "define: the operator {} exists already", parsed.qualified());
  if (!definition.kernel && !definition.body)
    failf(ErrorKind::value, "define: {} needs a kernel or a body", parsed.qualified());
  // Which arguments and results backward needs is a set of bits.
  if (parsed.args.size() > 64 || parsed.returns.size() > 32)
    failf(ErrorKind::value,
          "define: {} has {} arguments and {} results; an operator has at most 64 and 32, so pass more in a "
          "list",
          parsed.qualified(), parsed.args.size(), parsed.returns.size());
  auto* made = new Defined{std::string(schema), std::move(definition), std::move(parsed), {}};
  const Definition* kept = &made->definition;
  Op* op = &made->op;
  op->text = made->text.c_str();
  op->parsed.store(&made->schema);
  op->flags = op_user;
  const size_t args = made->schema.args.size(), returns = made->schema.returns.size();
  op->arity = static_cast<uint8_t>(args);
  op->results = static_cast<uint8_t>(returns);
  op->definition = kept;
  if (kept->shape) op->shape = [](const Op& o, const Arg* args) { return o.definition->shape(args); };
  if (kept->kernel) {
    op->flags |= op_dynamic;
    op->call = [](const Op& o, const Arg* args, Value* results) { o.definition->kernel(args, results); };
  }
  if (kept->body) {
    op->body = [](const Op& o, const Arg* args, Value* results) { o.definition->body(args, results); };
    if (!kept->kernel) op->flags |= op_composite;
  }
  for (size_t i = 0; i < args; ++i) {
    if (kept->grad && made->schema.args[i].type.base == BaseType::tensor)
      op->differentiable |= uint64_t{1} << i;
    op->saves_args |= kept->grad ? uint64_t{1} << i : 0;
  }
  if (kept->grad) op->grad = [](GradContext& c) { c.op.definition->grad(c); };
  if (kept->grad) op->saves_results = static_cast<uint32_t>((uint64_t{1} << returns) - 1);
  if (!kept->onnx.empty()) op->onnx = kept->onnx.c_str();
  op->where = "define()";
  r.add(*op);
  return *op;
}

}  // namespace tern
