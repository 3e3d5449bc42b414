// Flatten, unflatten, printing and key paths. The type names are PyTorch's serialised ones.
#include "tern/tree/tree.h"

#include <functional>
#include <map>
#include <mutex>

#include "tern/base/format.h"
#include "tern/tree/types.h"

namespace tern::tree {

struct Spec::Node {
  std::string type;
  Value context;
  std::vector<Spec> children;
  std::vector<std::string> fields;
  size_t leaves = 0;
};

Spec::Spec(std::string type, Value context, std::vector<Spec> children, std::vector<std::string> fields) {
  auto node = new_shared<Node>();
  for (const Spec& child : children) node->leaves += child.leaf_count();
  node->type = std::move(type);
  node->context = std::move(context);
  node->children = std::move(children);
  node->fields = std::move(fields);
  node_ = std::move(node);
}
std::string_view Spec::type() const { return node_ ? std::string_view(node_->type) : std::string_view(); }
const Value& Spec::context() const {
  static const Value none{};
  return node_ ? node_->context : none;
}
const std::vector<Spec>& Spec::children() const {
  static const std::vector<Spec> empty;
  return node_ ? node_->children : empty;
}
const std::vector<std::string>& Spec::fields() const {
  static const std::vector<std::string> empty;
  return node_ ? node_->fields : empty;
}
size_t Spec::leaf_count() const { return node_ ? node_->leaves : 1; }
bool Spec::operator==(const Spec& o) const {
  if (node_ == o.node_) return true;
  if (!node_ || !o.node_) return false;
  return node_->type == o.node_->type && node_->context.equals(o.node_->context) &&
         node_->children == o.node_->children;
}

namespace {

constexpr int deepest = 1000;

// What a value is as an inner node: its type, context, fields and children.
struct Parts {
  std::string type;
  Value context;
  std::vector<std::string> fields;
  std::vector<Value> children;
};

bool take_apart(const Value& v, Parts& parts) {
  if (v.is_tuple() || v.is_list()) {
    parts = {v.is_tuple() ? types::tuple : types::list, {}, {}, v.items()};
    return true;
  }
  if (v.is_dict()) {
    std::vector<Value> keys;
    parts.type = types::dict;
    for (auto& [key, item] : v.entries()) {
      keys.push_back(key);
      parts.children.push_back(item);
    }
    parts.context = Value::list(std::move(keys));
    return true;
  }
  if (const NodeBox* box = node_box(v)) {
    parts = {box->type, box->context, box->fields, box->children};
    return true;
  }
  return false;
}

Value put_together(const Spec& spec, std::vector<Value> children) {
  std::string_view type = spec.type();
  if (type == types::tuple) return Value::tuple(std::move(children));
  if (type == types::list) return Value::list(std::move(children));
  if (type == types::dict) {
    std::vector<std::pair<Value, Value>> entries;
    const auto& keys = spec.context().items();
    for (size_t i = 0; i < children.size(); ++i) entries.emplace_back(keys[i], std::move(children[i]));
    return Value::dict(std::move(entries));
  }
  auto* box = new NodeBox;
  box->type = type;
  box->context = spec.context();
  box->fields = spec.fields();
  box->children = std::move(children);
  return Value::object(box);
}

Spec flatten_into(const Value& tree, const IsLeaf& is_leaf, std::vector<Value>& leaves, int depth) {
  Parts parts;
  if ((is_leaf && is_leaf(tree)) || !take_apart(tree, parts)) {
    leaves.push_back(tree);
    return {};
  }
  if (depth == deepest)
    failf(ErrorKind::value, "tree::flatten: the value is nested deeper than {} levels, or contains itself",
          deepest);
  std::vector<Spec> children;
  children.reserve(parts.children.size());
  for (const Value& child : parts.children)
    children.push_back(flatten_into(child, is_leaf, leaves, depth + 1));
  return Spec(std::move(parts.type), std::move(parts.context), std::move(children), std::move(parts.fields));
}

Value unflatten_from(const Spec& spec, const Value*& next) {
  if (spec.is_leaf()) return *next++;
  std::vector<Value> children;
  children.reserve(spec.children().size());
  for (const Spec& child : spec.children()) children.push_back(unflatten_from(child, next));
  return put_together(spec, std::move(children));
}

std::string_view last_part(std::string_view type) {
  size_t dot = type.rfind('.');
  return dot == std::string_view::npos ? type : type.substr(dot + 1);
}

std::string context_text(const Spec& spec) {
  const Value& context = spec.context();
  if (spec.type() == types::named_tuple) return fmt::format("<class '{}'>", context.string());
  if (spec.type() == types::default_dict) {
    const Value& factory = context.items()[0];
    std::string text = factory.is_none() ? "None" : fmt::format("<class '{}'>", last_part(factory.string()));
    return fmt::format("[{}, {}]", text, context.items()[1].str());
  }
  return context.str();
}

void print(const Spec& spec, int indent, std::string& out) {
  if (spec.is_leaf()) {
    out += '*';
    return;
  }
  out += fmt::format("TreeSpec({}, {}, [", last_part(spec.type()), context_text(spec));
  const auto& children = spec.children();
  for (size_t i = 0; i < children.size(); ++i) {
    if (i) out += ",\n" + std::string(indent + 2, ' ');
    print(children[i], indent + 2, out);
  }
  out += "])";
}

Key key_of(const Spec& spec, size_t i) {
  std::string_view type = spec.type();
  if (type == types::dict || type == types::ordered_dict) return {Key::key, spec.context().items()[i]};
  if (type == types::default_dict) return {Key::key, spec.context().items()[1].items()[i]};
  if (i < spec.fields().size()) return {Key::field, spec.fields()[i]};
  return {Key::index, i};
}

void paths_into(const Spec& spec, KeyPath& prefix, std::vector<KeyPath>& out) {
  if (spec.is_leaf()) {
    out.push_back(prefix);
    return;
  }
  for (size_t i = 0; i < spec.children().size(); ++i) {
    prefix.push_back(key_of(spec, i));
    paths_into(spec.children()[i], prefix, out);
    prefix.pop_back();
  }
}

std::string describe(const Value& v) {
  Parts parts;
  return take_apart(v, parts) ? std::string(last_part(parts.type)) : "a leaf";
}

void flatten_like_into(const Spec& spec, const Value& tree, KeyPath& path, std::vector<Value>& leaves) {
  if (spec.is_leaf()) {
    leaves.push_back(tree);
    return;
  }
  auto where = [&] { return path.empty() ? std::string("the root") : str(path); };
  Parts parts;
  if (!take_apart(tree, parts) || parts.type != spec.type())
    failf(ErrorKind::value, "tree: expected {} at {}, found {}", last_part(spec.type()), where(),
          describe(tree));
  if (parts.type == types::dict) {  // by key, whatever the order
    const auto& keys = spec.context().items();
    if (keys.size() != tree.entries().size())
      failf(ErrorKind::value, "tree: expected a dict with the keys {} at {}, found {}", spec.context().str(),
            where(), parts.context.str());
    for (size_t i = 0; i < keys.size(); ++i) {
      Value* found = tree.find(keys[i]);
      if (!found)
        failf(ErrorKind::value, "tree: expected a dict with the keys {} at {}, found {}",
              spec.context().str(), where(), parts.context.str());
      path.push_back({Key::key, keys[i]});
      flatten_like_into(spec.children()[i], *found, path, leaves);
      path.pop_back();
    }
    return;
  }
  if (parts.children.size() != spec.children().size())
    failf(ErrorKind::value, "tree: expected {} of length {} at {}, found length {}", last_part(spec.type()),
          spec.children().size(), where(), parts.children.size());
  if (!parts.context.equals(spec.context()))
    failf(ErrorKind::value, "tree: expected {} with {} at {}, found {}", last_part(spec.type()),
          spec.context().str(), where(), parts.context.str());
  for (size_t i = 0; i < parts.children.size(); ++i) {
    path.push_back(key_of(spec, i));
    flatten_like_into(spec.children()[i], parts.children[i], path, leaves);
    path.pop_back();
  }
}

Value make_node(std::string_view type, Value context, std::vector<Value> children,
                std::vector<std::string> fields = {}) {
  auto* box = new NodeBox;
  box->type = type;
  box->context = std::move(context);
  box->fields = std::move(fields);
  box->children = std::move(children);
  return Value::object(box);
}

void split(std::vector<std::pair<Value, Value>>& entries, std::vector<Value>& keys,
           std::vector<Value>& items) {
  for (auto& [key, item] : entries) {
    keys.push_back(std::move(key));
    items.push_back(std::move(item));
  }
}

struct NamedTuples {
  std::mutex mutex;
  std::map<std::string, std::vector<std::string>, std::less<>> fields;
};
NamedTuples& named_tuples() {
  static auto* tuples = new NamedTuples;
  return *tuples;
}

}  // namespace

std::string Spec::str() const {
  std::string out;
  print(*this, 0, out);
  return out;
}

Flat flatten(const Value& tree, const IsLeaf& is_leaf) {
  Flat flat;
  flat.spec = flatten_into(tree, is_leaf, flat.leaves, 0);
  return flat;
}

Value unflatten(const Spec& spec, Span<const Value> leaves) {
  if (leaves.size() != spec.leaf_count())
    failf(ErrorKind::value,
          "treespec.unflatten(leaves): `leaves` has length {} but the spec refers to a pytree that holds {} "
          "items ({}).",
          leaves.size(), spec.leaf_count(), spec.str());
  const Value* next = leaves.begin();
  return unflatten_from(spec, next);
}

std::vector<Value> flatten_like(const Spec& spec, const Value& tree) {
  std::vector<Value> leaves;
  KeyPath path;
  flatten_like_into(spec, tree, path, leaves);
  return leaves;
}

Value map(const Value& tree, const Function<Value(const Value&)>& f) {
  Flat flat = flatten(tree);
  for (Value& leaf : flat.leaves) leaf = f(leaf);
  return unflatten(flat.spec, flat.leaves);
}

std::vector<Tensor> tensors(const Value& tree) {
  std::vector<Tensor> found;
  for (const Value& leaf : flatten(tree).leaves)
    if (leaf.is_tensor()) found.push_back(leaf.tensor());
  return found;
}

std::string str(const KeyPath& path) {
  std::string text;
  for (const Key& key : path)
    text += key.kind == Key::field ? "." + key.value.string() : "[" + key.value.str() + "]";
  return text;
}

std::vector<KeyPath> key_paths(const Spec& spec) {
  std::vector<KeyPath> paths;
  KeyPath prefix;
  paths_into(spec, prefix, paths);
  return paths;
}

Value ordered_dict(std::vector<std::pair<Value, Value>> entries) {
  std::vector<Value> keys, items;
  split(entries, keys, items);
  return make_node(types::ordered_dict, Value::list(std::move(keys)), std::move(items));
}
Value default_dict(std::string_view factory, std::vector<std::pair<Value, Value>> entries) {
  std::vector<Value> keys, items;
  split(entries, keys, items);
  Value name = factory.empty() ? Value() : Value(factory);
  return make_node(types::default_dict, Value::list({name, Value::list(std::move(keys))}), std::move(items));
}
Value deque(std::vector<Value> items, Value max_length) {
  return make_node(types::deque, std::move(max_length), std::move(items));
}
Value named_tuple(std::string_view type, std::vector<std::string> fields, std::vector<Value> items) {
  if (fields.size() != items.size())
    failf(ErrorKind::value, "tree::named_tuple: {} has {} fields but {} items were given", type,
          fields.size(), items.size());
  return make_node(types::named_tuple, type, std::move(items), std::move(fields));
}
Value structure(std::string_view type, std::vector<std::string> fields, std::vector<Value> items) {
  if (fields.size() != items.size())
    failf(ErrorKind::value, "tree::structure: {} has {} fields but {} items were given", type, fields.size(),
          items.size());
  std::vector<Value> names, none_names, children;
  std::vector<std::string> present;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].is_none()) {
      none_names.push_back(fields[i]);
    } else {
      names.push_back(fields[i]);
      present.push_back(std::move(fields[i]));
      children.push_back(std::move(items[i]));
    }
  }
  Value context = Value::list({Value::list(std::move(names)), Value::list(std::move(none_names))});
  return make_node(type, std::move(context), std::move(children), std::move(present));
}

const NodeBox* node_box(const Value& v) {
  return v.is_object() ? dynamic_cast<const NodeBox*>(v.box()) : nullptr;
}

Value field(const Value& v, std::string_view name) {
  if (v.is_dict()) {
    if (Value* found = v.find(name)) return *found;
    failf(ErrorKind::value, "tree: the dict has no key '{}'; it has {}", name,
          flatten(v).spec.context().str());
  }
  const NodeBox* box = node_box(v);
  if (!box)
    failf(ErrorKind::type, "tree: expected a struct or dict with a field '{}', found {}", name,
          v.kind_name());
  for (size_t i = 0; i < box->fields.size() && i < box->children.size(); ++i)
    if (box->fields[i] == name) return box->children[i];
  if (box->context.is_list() && box->context.items().size() == 2 && box->context.items()[1].is_list())
    for (const Value& none_name : box->context.items()[1].items())
      if (none_name.is_string() && none_name.string() == name) return {};
  failf(ErrorKind::value, "tree: {} has no field '{}'", box->type, name);
}

void register_named_tuple(std::string_view type, std::vector<std::string> fields) {
  std::lock_guard lock(named_tuples().mutex);
  named_tuples().fields[std::string(type)] = std::move(fields);
}
std::vector<std::string> named_tuple_fields(std::string_view type) {
  std::lock_guard lock(named_tuples().mutex);
  auto found = named_tuples().fields.find(type);
  return found == named_tuples().fields.end() ? std::vector<std::string>() : found->second;
}

}  // namespace tern::tree
