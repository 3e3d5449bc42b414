// From one graph in which module calls are blocks to a graph and methods: values that come from outside
// become arguments, what is used outside becomes results, and attributes are read from the method's own self.
#include <algorithm>

#include "tern/base/small_vector.h"
#include "tern/capture/closures.h"
#include "tern/capture/trace.h"

namespace tern::capture {
namespace {

class Splitter {
 public:
  Splitter(ir::Graph& graph, const FlatMap<Symbol, ir::Value*>& attributes,
           const Function<std::string(Symbol)>& method_name, const Function<ir::Value&(Symbol)>& attribute,
           std::string_view class_name)
      : graph_(graph), method_name_(method_name), attribute_(attribute), class_name_(class_name) {
    paths_.reserve(attributes.size());
    for (auto& [path, value] : attributes) paths_.emplace(value, path);
  }

  std::vector<SubMethod> run() {
    split_inside(graph_.top());
    return std::move(methods_);
  }

 private:
  void split_inside(ir::Block& block) {
    for (ir::Node& n : block) {
      for (ir::Block* b : n.blocks()) split_inside(*b);
      if (n.is("prim::TracedModuleForward")) split(n);
    }
  }

  void split(ir::Node& call) {
    ir::Block& body = *call.blocks()[0];
    Symbol path = call.attribute("path")->string();
    std::vector<ir::Value*> results = used_outside(body);
    for (ir::Value* v : results) body.add_return(*v);

    SubMethod method;
    method.path = path;
    method.name = method_name_(path);
    method.graph = new_owned<ir::Graph>();
    ir::Graph& g = *method.graph;
    g.shapes = graph_.shapes;
    ir::Value& self = g.add_input(class_at(path), "self");
    FlatMap<Symbol, ir::Value*> read;
    read[path] = &self;
    ir::ValueMap map;
    std::vector<ir::Value*> arguments;
    for (ir::Value* v : values_from_outside(body)) {
      auto it = paths_.find(v);
      if (it != paths_.end() && is_at_or_below(it->second, path)) {
        map.emplace(v, ir::In(read_attribute(g, read, it->second, v->type())));
      } else {
        arguments.push_back(v);
        ir::Value& in = g.add_input(v->type(), v->name());
        map.emplace(v, ir::In(in));
      }
    }
    std::vector<ir::In> given = g.inline_block(body, map);
    if (given.empty()) {
      g.add_output(ir::In());
    } else if (given.size() == 1) {
      g.add_output(given[0]);
    } else {
      const ir::Type* type[] = {tuple_of(results)};
      g.add_output(g.make("prim::TupleConstruct", given, type).output());
    }

    ir::Value& module = attribute_(path);
    paths_.emplace(&module, path);
    // The modules on the way are attributes too.
    for (Symbol p = split_path(path).first; !p.empty(); p = split_path(p).first)
      paths_.emplace(&attribute_(p), p);
    ir::InsertAt here(call);
    std::vector<ir::In> inputs;
    inputs.reserve(arguments.size() + 1);
    inputs.push_back(module);
    for (ir::Value* v : arguments) inputs.push_back(*v);
    const ir::Type* types[] = {results.empty()       ? ir::Type::none()
                               : results.size() == 1 ? without_facts(results[0]->type())
                                                     : tuple_of(results)};
    ir::Node& made = graph_.make("prim::CallMethod", inputs, types);
    made.set_attribute("name", tern::Value(method.name));
    made.set_origin(call.origin());
    if (results.size() == 1) {
      results[0]->replace_all_uses_with(made.output());
    } else if (results.size() > 1) {
      std::vector<const ir::Type*> parts;
      for (ir::Value* v : results) parts.push_back(without_facts(v->type()));
      ir::In in[] = {made.output()};
      ir::Node& unpack = graph_.make("prim::TupleUnpack", in, parts);
      for (size_t i = 0; i < results.size(); ++i) results[i]->replace_all_uses_with(unpack.output(i));
    }
    graph_.erase(call);
    methods_.push_back(std::move(method));
  }

  static const ir::Type* without_facts(const ir::Type* t) { return t->is_tensor() ? ir::Type::tensor() : t; }
  static const ir::Type* tuple_of(const std::vector<ir::Value*>& values) {
    std::vector<const ir::Type*> types;
    for (ir::Value* v : values) types.push_back(without_facts(v->type()));
    return ir::Type::tuple(types);
  }

  static bool is_inside(const ir::Block& block, const ir::Node& user) {
    for (const ir::Block* b = &user.block(); b; b = b->parent() ? &b->parent()->block() : nullptr)
      if (b == &block) return true;
    return false;
  }
  // What the body defines and something after it uses, in order.
  static std::vector<ir::Value*> used_outside(ir::Block& body) {
    std::vector<ir::Value*> found;
    for (ir::Node& n : body)
      for (ir::Value* v : n.outputs())
        for (const ir::Use& u : v->uses())
          if (!is_inside(body, *u.user)) {
            found.push_back(v);
            break;
          }
    return found;
  }

  static bool is_at_or_below(Symbol path, Symbol module) {
    if (module.empty() || path == module) return true;
    std::string_view below = path.view(), above = module.view();
    return below.size() > above.size() && below[above.size()] == '.' && below.starts_with(above);
  }

  const ir::Type* class_at(Symbol path) const {
    return ir::Type::class_named(join_path(class_name_, path.view()));
  }
  // A module by its path, or a tensor of this type.
  ir::Value& read_attribute(ir::Graph& g, FlatMap<Symbol, ir::Value*>& read, Symbol path,
                            const ir::Type* type = nullptr) {
    if (auto it = read.find(path); it != read.end()) return *it->second;
    auto [owner, name] = split_path(path);
    ir::In in[] = {read_attribute(g, read, owner)};
    const ir::Type* types[] = {type ? type : class_at(path)};
    ir::Node& node = g.make("prim::GetAttr", in, types, name);
    node.set_attribute("name", tern::Value(name));
    return *(read[path] = &node.output());
  }

  ir::Graph& graph_;
  const Function<std::string(Symbol)>& method_name_;
  const Function<ir::Value&(Symbol)>& attribute_;
  std::string_view class_name_;
  FlatMap<const ir::Value*, Symbol> paths_;
  std::vector<SubMethod> methods_;
};

}  // namespace

std::pair<Symbol, std::string_view> split_path(Symbol path) {
  std::string_view text = path.view();
  size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return {Symbol(), text};
  return {Symbol(text.substr(0, dot)), text.substr(dot + 1)};
}

Symbol join_path(std::string_view above, std::string_view name) {
  if (above.empty() || name.empty()) return Symbol(name.empty() ? above : name);
  SmallVector<char, 128> text;
  text.resize_for_overwrite(above.size() + 1 + name.size());
  std::copy(above.begin(), above.end(), text.begin());
  text[above.size()] = '.';
  std::copy(name.begin(), name.end(), text.end() - name.size());
  return Symbol(std::string_view(text.data(), text.size()));
}

std::vector<SubMethod> split_modules(ir::Graph& graph, const FlatMap<Symbol, ir::Value*>& attributes,
                                     const Function<std::string(Symbol path)>& method_name,
                                     const Function<ir::Value&(Symbol path)>& attribute,
                                     std::string_view class_name) {
  return Splitter(graph, attributes, method_name, attribute, class_name).run();
}

}  // namespace tern::capture
