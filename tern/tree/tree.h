// Nested containers (pytrees): a Value taken apart into leaves and a Spec, and put together again. Specs
// print and serialise as PyTorch's, because .pt2 files carry them. Conversions from C++ types are in
// tree/convert.h.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tern/base/function.h"
#include "tern/base/pointer.h"
#include "tern/tensor/value.h"

namespace tern::tree {

// A container that Value has no kind for: collections.OrderedDict, defaultdict, deque, namedtuple, or a
// registered struct. It keeps PyTorch's type name and context, so that it goes through flatten and files
// unchanged.
struct NodeBox : Box {
  std::string type;  // "collections.OrderedDict", "my.module.Point"
  Value context;     // OrderedDict: keys; defaultdict: (factory, keys); deque: maxlen; namedtuple: its
                     // name; struct: [names, names of fields that are None]
  std::vector<std::string> fields;  // of namedtuples and structs
  std::vector<Value> children;
};
Value ordered_dict(std::vector<std::pair<Value, Value>> entries);
Value default_dict(std::string_view factory,
                   std::vector<std::pair<Value, Value>> entries);  // factory: "builtins.list"
Value deque(std::vector<Value> items, Value max_length = {});
Value named_tuple(std::string_view type, std::vector<std::string> fields, std::vector<Value> items);
// A struct or dataclass; fields that are None are dropped from the children, as PyTorch's register_dataclass
// does.
Value structure(std::string_view type, std::vector<std::string> fields, std::vector<Value> items);
const NodeBox* node_box(const Value& v);             // nullptr if the value is not one of these
Value field(const Value& v, std::string_view name);  // of a namedtuple, struct or dict; throws when absent

// Names of a namedtuple's fields, for specs read from files, which do not carry them.
void register_named_tuple(std::string_view type, std::vector<std::string> fields);

// The shape of a tree. A cheap handle; immutable. The default is one leaf.
class Spec {
 public:
  Spec() = default;
  Spec(std::string type, Value context, std::vector<Spec> children, std::vector<std::string> fields = {});

  bool is_leaf() const { return !node_; }
  std::string_view type() const;  // "builtins.tuple"; empty for a leaf
  const Value& context() const;   // None for leaves, lists and tuples
  const std::vector<Spec>& children() const;
  const std::vector<std::string>& fields() const;
  size_t leaf_count() const;
  std::string str() const;  // TreeSpec(tuple, None, [*, ...]) in PyTorch's layout
  bool operator==(const Spec& o) const;

 private:
  struct Node;
  Shared<const Node> node_;
};

struct Flat {
  std::vector<Value> leaves;
  Spec spec;
};
using IsLeaf = Function<bool(const Value&)>;
// Everything that is not a container is a leaf, None too. Throws for nesting deeper than 1000.
Flat flatten(const Value& tree, const IsLeaf& is_leaf = {});
// Throws ValueError when the number of leaves is not the spec's.
Value unflatten(const Spec& spec, Span<const Value> leaves);
// The leaves of `tree`, which must have the structure of `spec`; throws and names the first place that
// differs.
std::vector<Value> flatten_like(const Spec& spec, const Value& tree);
Value map(const Value& tree, const Function<Value(const Value&)>& f);
std::vector<Tensor> tensors(const Value& tree);  // the leaves that are tensors

// Where a leaf stands.
struct Key {
  enum Kind : uint8_t { index, key, field } kind;
  Value value;  // int, key of a dict, name
};
using KeyPath = std::vector<Key>;
std::string str(const KeyPath& path);              // [0]['a'].field
std::vector<KeyPath> key_paths(const Spec& spec);  // one a leaf, in the order of the leaves

// The text of torch.utils._pytree.treespec_dumps, byte for byte, and its reader. A type that nobody
// registered is kept as it is, context included. Throws ErrorKind::file for text that is not a spec of
// protocol 1.
std::string to_json(const Spec& spec);
Spec from_json(std::string_view text);

}  // namespace tern::tree
