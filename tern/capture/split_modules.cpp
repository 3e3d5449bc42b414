// From one graph in which module calls are blocks to a graph and methods: values that come from outside
// become arguments, what is used outside becomes results, and attributes are read from the method's own self.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/capture/closures.h"
#include "tern/capture/trace.h"

namespace tern::capture {
namespace {

class Splitter {
 public:
  Splitter(ir::Graph& graph, const std::unordered_map<std::string, ir::Value*>& attributes,
           const Function<std::string(const std::string&)>& method_name,
           const Function<ir::Value&(const std::string&)>& attribute, std::string_view class_name)
      : graph_(graph), method_name_(method_name), attribute_(attribute), class_name_(class_name) {
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
    std::string path = call.attribute("path")->string();
    std::vector<ir::Value*> results = used_outside(body);
    for (ir::Value* v : results) body.add_return(*v);

    SubMethod method;
    method.path = path;
    method.name = method_name_(path);
    method.graph = std::make_unique<ir::Graph>();
    ir::Graph& g = *method.graph;
    g.shapes = graph_.shapes;
    std::string type = path.empty() ? std::string(class_name_) : std::string(class_name_) + "." + path;
    ir::Value& self = g.add_input(ir::Type::class_named(type), "self");
    std::unordered_map<std::string, ir::Value*> read{{path, &self}};
    ir::ValueMap map;
    std::vector<ir::Value*> arguments;
    for (ir::Value* v : values_from_outside(body)) {
      auto it = paths_.find(v);
      bool own =
          it != paths_.end() && (path.empty() || it->second == path || it->second.starts_with(path + "."));
      if (own) {
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
    for (std::string p = path; !p.empty();) {  // the modules on the way are attributes too
      size_t dot = p.rfind('.');
      if (dot == std::string::npos) break;
      p = p.substr(0, dot);
      paths_.emplace(&attribute_(p), p);
    }
    ir::InsertAt here(call);
    std::vector<ir::In> inputs{module};
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

  ir::Value& read_attribute(ir::Graph& g, std::unordered_map<std::string, ir::Value*>& read,
                            const std::string& path, const ir::Type* type) {
    auto it = read.find(path);
    if (it != read.end()) return *it->second;
    size_t dot = path.rfind('.');
    std::string owner = dot == std::string::npos ? "" : path.substr(0, dot), name = path.substr(dot + 1);
    std::string owner_type = std::string(class_name_) + (owner.empty() ? "" : "." + owner);
    ir::Value& from = read_attribute(g, read, owner, ir::Type::class_named(owner_type));
    ir::In in[] = {from};
    const ir::Type* types[] = {type};
    ir::Node& node = g.make("prim::GetAttr", in, types, name);
    node.set_attribute("name", tern::Value(name));
    return *(read[path] = &node.output());
  }

  ir::Graph& graph_;
  const Function<std::string(const std::string&)>& method_name_;
  const Function<ir::Value&(const std::string&)>& attribute_;
  std::string_view class_name_;
  std::unordered_map<const ir::Value*, std::string> paths_;
  std::vector<SubMethod> methods_;
};

}  // namespace

std::vector<SubMethod> split_modules(ir::Graph& graph,
                                     const std::unordered_map<std::string, ir::Value*>& attributes,
                                     const Function<std::string(const std::string& path)>& method_name,
                                     const Function<ir::Value&(const std::string& path)>& attribute,
                                     std::string_view class_name) {
  return Splitter(graph, attributes, method_name, attribute, class_name).run();
}

}  // namespace tern::capture
