// The import driver: inputs as fake tensors with the model's dims as symbols, weights as inputs bound to
// mapped data, then node by node; If and Loop become blocks, functions are imported where they are called.
#include "tern/onnx/import.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/capture/recorder.h"
#include "tern/dispatch/ladder.h"
#include "tern/ir/interpreter.h"
#include "tern/onnx/dim_expression.h"
#include "tern/onnx/onnx.h"
#include "tern/ops.h"
#include "tern/sym/shape_env.h"

namespace tern::onnx {

using Names = std::unordered_map<std::string, Item>;

class Importer {
 public:
  explicit Importer(const Model& model)
      : model_(model), graph_(new_owned<ir::Graph>()), recorder_(*graph_, rung_record) {
    graph_->shapes = recorder_.shapes = env_ = new_shared<ShapeEnv>();
    graph_->name = model.graph.name;
    for (const FunctionProto& f : model.functions) functions_.emplace(f.domain + "::" + f.name, &f);
  }

  Imported run();
  void import_if(Importing& n);
  void import_loop(Importing& n);
  Tensor materialise(Item& item);
  ShapeEnv& shapes() { return *env_; }
  // Types of the values that were reached; what cannot be imported ends the walk.
  std::unordered_map<std::string, TypeProto> types();

 private:
  static constexpr int64_t inline_limit = 16;  // elements; smaller initializers become constants in the graph

  Tensor fake_input(const ValueInfo& info);
  SymInt dim(const Dimension& d, const std::string& input, size_t i);
  void add_weight(const TensorProto& t);
  void import_nodes(const std::vector<NodeProto>& nodes, Names& names, int64_t opset);
  void import_node(const NodeProto& node, Names& names, int64_t opset);
  void import_function(const FunctionProto& f, const NodeProto& node, Names& names);
  Item find(const std::string& name, const Names& names) const;
  std::vector<Item> run_graph(const GraphProto& g, std::vector<Item> inputs);
  ir::In operand(Item& item);
  Item merged(const Item& a, const Item& b, ir::Value& v);
  void note_type(const std::string& name, const Item& item);

  const Model& model_;
  Shared<ShapeEnv> env_;
  Owned<ir::Graph> graph_;
  capture::Recorder recorder_;
  std::unordered_map<std::string, const FunctionProto*> functions_;
  std::vector<Names*> scopes_;
  std::unordered_map<std::string, SymInt> params_;
  std::unordered_set<std::string> plain_dims_;  // names of dims that are one word
  Imported result_;
  int depth_ = 0;
  int64_t hint_ = 7;
  std::unordered_map<std::string, TypeProto>* types_ = nullptr;
};

Imported import_model(const Model& model) { return Importer(model).run(); }

void infer_shapes(Model& model) {
  std::unordered_map<std::string, TypeProto> types = Importer(model).types();
  auto fill = [&](ValueInfo& v) {
    auto it = types.find(v.name);
    if (it == types.end()) return;
    if (v.type.kind == TypeProto::Kind::none) v.type = it->second;
    if (v.type.kind == TypeProto::Kind::tensor && !v.type.shape) v.type.shape = it->second.shape;
    if (v.type.kind == TypeProto::Kind::tensor && v.type.elem_type == DataType::undefined)
      v.type.elem_type = it->second.elem_type;
    types.erase(it);
  };
  for (ValueInfo& v : model.graph.outputs) fill(v);
  for (ValueInfo& v : model.graph.values) fill(v);
  for (const NodeProto& n : model.graph.nodes)
    for (const std::string& name : n.outputs)
      if (auto it = types.find(name); it != types.end())
        model.graph.values.push_back({name, std::move(it->second)});
}

std::vector<tern::Value> Imported::run(Span<const tern::Value> inputs) const {
  std::vector<tern::Value> all(inputs.begin(), inputs.end());
  if (all.size() != num_inputs)
    failf(ErrorKind::value, "the model takes {} inputs, but {} were given", num_inputs, all.size());
  for (const auto& [name, tensor] : state) all.emplace_back(tensor);
  NoGrad no_grad;
  return ir::run(*graph, all);
}

namespace {

std::string describe(const NodeProto& n) {
  return n.name.empty() ? fmt::format("node {} -> {}", n.op, n.outputs.empty() ? "" : n.outputs[0])
                        : fmt::format("node '{}' ({})", n.name, n.op);
}

// Of one element, without the recorder's taking it for a symbol.
bool truth(const Tensor& t) { return read_scalar(t.as_view({}, {})).to_bool(); }

bool is_real(const Item& i) { return i.sequence ? false : i.tensor.defined() ? !i.tensor.is_fake() : false; }

}  // namespace

Imported Importer::run() {
  int64_t opset = model_.opset();
  if (opset == 0 && model_.ir_version < 3) opset = 1;
  if (opset == 0 && model_.functions.empty())
    fail(ErrorKind::file, "onnx: the model does not import ONNX's operators (opset_import)");
  if (opset > 0 && (opset < 7 || opset > 28))
    failf(ErrorKind::not_supported, "onnx: the model uses opset {}; Tern reads opsets 7 to 28", opset);
  std::unordered_map<std::string, const TensorProto*> initializers;
  for (const TensorProto& t : model_.graph.initializers) initializers.emplace(t.name, &t);
  for (const ValueInfo& v : model_.graph.inputs)
    if (v.type.shape)
      for (const Dimension& d : *v.type.shape)
        if (is_word(d.param)) plain_dims_.insert(d.param);
  Names names;
  scopes_.push_back(&names);
  for (const ValueInfo& v : model_.graph.inputs) {
    if (initializers.count(v.name)) continue;  // up to ir_version 3 every initializer is listed as an input
    Tensor t = fake_input(v);
    ir::Value& value = graph_->add_input(ir::Type::tensor_like(t), v.name);
    recorder_.bind(t, value);
    names[v.name] = {t};
    result_.input_names.push_back(v.name);
  }
  result_.num_inputs = result_.input_names.size();
  for (const TensorProto& t : model_.graph.initializers) add_weight(t);
  {
    Mount mount(rung_record, recorder_);
    thread_state.active |= rung_fake;  // tensors that are made have no data either; the mount restores it
    NoGrad no_grad;
    import_nodes(model_.graph.nodes, names, opset);
    for (const ValueInfo& v : model_.graph.outputs) {
      Item item = find(v.name, names);
      if (!item.defined()) failf(ErrorKind::file, "onnx: the output '{}' is computed by no node", v.name);
      if (item.sequence) {
        std::vector<ir::In> items;
        for (Item& i : *item.sequence) items.push_back(operand(i));
        graph_->add_output(ir::In::list(std::move(items)));
      } else {
        graph_->add_output(operand(item));
      }
      result_.output_names.push_back(v.name);
    }
  }
  // Weights that nobody uses are not asked for.
  for (size_t i = graph_->inputs().size(); i-- > result_.num_inputs;)
    if (!graph_->inputs()[i]->has_uses()) {
      graph_->top().remove_param(i);
      result_.state.erase(result_.state.begin() + static_cast<ptrdiff_t>(i - result_.num_inputs));
    }
  result_.graph = std::move(graph_);
  return std::move(result_);
}

void Importer::note_type(const std::string& name, const Item& item) {
  if (item.sequence) return;
  if (!item.tensor.defined()) {
    std::vector<Dimension> shape;
    if (!item.scalar) shape.push_back({static_cast<int64_t>(item.ints->size()), {}});
    types_->emplace(name, TypeProto::tensor(DataType::int64, shape));
    return;
  }
  std::vector<Dimension> shape;
  for (SymInt s : item.tensor.sizes()) {
    Dimension d;
    SymInt simple = s.is_int() ? s : shapes().simplify(s);
    if (simple.is_int())
      d.value = simple.as_int();
    else if (!shapes().is_unbacked(simple)) {
      for (const auto& [param, symbol] : params_)
        if (symbol.bits() == simple.bits()) d.param = param;
    }
    shape.push_back(std::move(d));
  }
  types_->emplace(name, TypeProto::tensor(data_type_of(item.tensor.dtype()), std::move(shape)));
}

std::unordered_map<std::string, TypeProto> Importer::types() {
  std::unordered_map<std::string, TypeProto> found;
  types_ = &found;
  try {
    run();
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::file || e.kind() == ErrorKind::internal) throw;
  }
  return found;
}

SymInt Importer::dim(const Dimension& d, const std::string& input, size_t i) {
  if (d.value) return *d.value;
  std::string name = d.param.empty() ? fmt::format("{}_dim_{}", input, i) : d.param;
  // "n + 1" beside "n", as PyTorch writes it. A name of which the parts are no dims of their own is a name,
  // but not a multiple: the program may count on it that "2*h" is even.
  bool multiple = !name.empty() && name[0] >= '2' && name[0] <= '9';
  auto symbol = [&](std::string_view part) -> std::optional<SymInt> {
    if (!multiple && !plain_dims_.count(std::string(part))) return std::nullopt;
    return dim({.value = {}, .param = std::string(part)}, input, i);
  };
  if (!plain_dims_.count(name) && !d.param.empty())
    if (std::optional<SymInt> value = dim_expression(name, symbol)) return *value;
  auto it = params_.find(name);
  if (it != params_.end()) return it->second;
  SymbolOptions options;
  options.display_name = name;
  SymInt s = shapes().create_symbol(hint_, fmt::format("L['{}'].size()[{}]", input, i), options);
  hint_ += 4;  // different dims have different examples, so that nothing is taken for equal by chance
  params_.emplace(name, s);
  return s;
}

Tensor Importer::fake_input(const ValueInfo& info) {
  if (info.type.kind != TypeProto::Kind::tensor)
    failf(ErrorKind::not_supported, "onnx: the input '{}' is {}; only tensors are supported", info.name,
          info.type.str());
  DType dtype = dtype_of(info.type.elem_type);
  if (dtype == DType::undefined)
    failf(ErrorKind::not_supported,
          "onnx: the input '{}' has the element type {}, which Tern has no dtype for", info.name,
          name(info.type.elem_type));
  if (!info.type.shape)
    failf(ErrorKind::not_supported, "onnx: the input '{}' has no shape; give it one (dims may be symbolic)",
          info.name);
  Dims sizes;
  for (size_t i = 0; i < info.type.shape->size(); ++i)
    sizes.push_back(dim((*info.type.shape)[i], info.name, i));
  return make_tensor(sizes, dtype, kCPU, true);
}

void Importer::add_weight(const TensorProto& t) {
  Names& names = *scopes_.back();
  if (dtype_of(t.type) == DType::undefined) {
    failf(ErrorKind::not_supported,
          "onnx: the initializer '{}' has the element type {}, which Tern has no dtype for", t.name,
          name(t.type));
  }
  Tensor real = to_tensor(t);
  if (scopes_.size() > 1 || real.int_numel() <= inline_limit) {
    names[t.name] = {real, real};
    return;
  }
  Tensor fake = make_tensor(real.sizes(), real.dtype(), kCPU, true);
  ir::Value& v = graph_->add_input(ir::Type::tensor_like(fake), t.name);
  recorder_.bind(fake, v);
  names[t.name] = {fake, real};
  result_.state.emplace_back(t.name, real);
}

Item Importer::find(const std::string& name, const Names& names) const {
  if (auto it = names.find(name); it != names.end()) return it->second;
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (auto it = (*scope)->find(name); it != (*scope)->end()) return it->second;
  return {};
}

void Importer::import_nodes(const std::vector<NodeProto>& nodes, Names& names, int64_t opset) {
  for (const NodeProto& n : nodes) {
    try {
      import_node(n, names, opset);
    } catch (const Error& e) {
      if (e.message().starts_with("onnx: ")) throw;
      throw Error(e.kind() == ErrorKind::internal ? ErrorKind::not_supported : e.kind(),
                  fmt::format("onnx: importing {}: {}", describe(n), e.message()));
    } catch (const std::out_of_range&) {
      failf(ErrorKind::file, "onnx: importing {}: an input, an attribute or an element of one is missing",
            describe(n));
    }
  }
}

void Importer::import_node(const NodeProto& node, Names& names, int64_t opset) {
  if (auto it = functions_.find(node.domain + "::" + node.op); it != functions_.end())
    return import_function(*it->second, node, names);
  std::string_view op = node.op;
  const Import* import = node.domain.empty() || node.domain == "com.microsoft" ? find_import(op) : nullptr;
  bool control = node.domain.empty() && (op == "If" || op == "Loop");
  if (!import && !control)
    failf(ErrorKind::not_supported, "Tern does not know the operator {}{}{}", node.domain,
          node.domain.empty() ? "" : "::", op);
  std::vector<Item> inputs;
  bool constant = !control && op != "Shape";
  for (const std::string& name : node.inputs) {
    inputs.push_back(name.empty() ? Item() : find(name, names));
    if (!name.empty() && !inputs.back().defined())
      failf(ErrorKind::file, "its input '{}' is not computed before it", name);
    if (!name.empty()) constant = constant && is_real(inputs.back());
  }
  if (op.starts_with("Random") || op == "Bernoulli") constant = false;
  Importing n(*this, node, std::move(inputs), node.domain.empty() ? opset : 1);
  if (op == "If" && control) {
    import_if(n);
  } else if (control) {
    import_loop(n);
  } else if (constant) {
    Exclude quiet(rung_record | rung_fake);
    import->import(n);
  } else {
    import->import(n);
  }
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    if (node.outputs[k].empty()) continue;
    if (!n.outputs()[k].defined()) failf(ErrorKind::not_supported, "Tern does not compute its output {}", k);
    Item& item = n.outputs()[k];
    if (constant && item.tensor.defined() && !item.tensor.is_fake()) item.real = item.tensor;
    if (ir::Value* v = item.tensor.defined() ? recorder_.find(item.tensor) : nullptr;
        v && v->node() && !graph_->find(node.outputs[k]))
      graph_->rename(*v, node.outputs[k]);
    if (types_ && scopes_.size() == 1 && &names == scopes_[0]) note_type(node.outputs[k], item);
    names[node.outputs[k]] = std::move(item);
  }
}

void Importer::import_function(const FunctionProto& f, const NodeProto& node, Names& names) {
  if (++depth_ > 100) fail(ErrorKind::file, "onnx: functions call each other without end");
  Names inside;
  for (size_t i = 0; i < f.inputs.size(); ++i)
    inside[f.inputs[i]] =
        i < node.inputs.size() && !node.inputs[i].empty() ? find(node.inputs[i], names) : Item();
  int64_t opset = model_.opset();
  for (const OpsetId& o : f.opsets)
    if (o.domain.empty()) opset = o.version;
  // Attributes that refer to the caller's.
  auto bound = [&](auto& self, std::vector<NodeProto> nodes) -> std::vector<NodeProto> {
    for (NodeProto& n : nodes) {
      std::vector<Attribute> kept;
      for (Attribute& a : n.attributes) {
        if (!a.ref.empty()) {
          const Attribute* given = node.find(a.ref);
          for (const Attribute& d : f.defaults)
            if (!given && d.name == a.ref) given = &d;
          if (!given) continue;
          Attribute copy = *given;
          copy.name = a.name;
          kept.push_back(std::move(copy));
          continue;
        }
        for (auto& g : a.graphs) {
          g = new_shared<GraphProto>(*g);
          g->nodes = self(self, g->nodes);
        }
        kept.push_back(std::move(a));
      }
      n.attributes = std::move(kept);
    }
    return nodes;
  };
  std::vector<NodeProto> nodes = bound(bound, f.nodes);
  std::vector<Names*> outer = std::move(scopes_);
  scopes_.clear();  // a function sees nothing of its caller
  scopes_.push_back(&inside);
  import_nodes(nodes, inside, opset);
  scopes_ = std::move(outer);
  for (size_t k = 0; k < node.outputs.size() && k < f.outputs.size(); ++k)
    if (!node.outputs[k].empty()) names[node.outputs[k]] = inside[f.outputs[k]];
  --depth_;
}

Tensor Importer::materialise(Item& item) {
  if (item.tensor.defined()) return item.tensor;
  if (!item.ints) fail(ErrorKind::not_supported, "a sequence is used where a tensor is needed");
  std::vector<Tensor> parts;
  for (SymInt s : *item.ints) {
    if (s.is_int())
      parts.push_back(tern::tensor(Scalar(s.as_int()), {.dtype = kLong}));  // an inline constant
    else
      parts.push_back(tern::scalar_tensor(Scalar(s), kLong));
  }
  item.tensor = item.scalar ? parts.at(0) : parts.empty() ? make_tensor({0}, kLong) : tern::stack(parts, 0);
  return item.tensor;
}

ir::In Importer::operand(Item& item) { return recorder_.operand(materialise(item)); }

std::vector<Item> Importer::run_graph(const GraphProto& g, std::vector<Item> inputs) {
  Names names;
  for (size_t i = 0; i < g.inputs.size() && i < inputs.size(); ++i)
    names[g.inputs[i].name] = std::move(inputs[i]);
  scopes_.push_back(&names);
  for (const TensorProto& t : g.initializers) add_weight(t);
  import_nodes(g.nodes, names, model_.opset());
  std::vector<Item> out;
  for (const ValueInfo& v : g.outputs) {
    out.push_back(find(v.name, names));
    if (!out.back().defined())
      failf(ErrorKind::file, "the output '{}' of a subgraph is computed by no node", v.name);
  }
  scopes_.pop_back();
  return out;
}

// What two paths agree on.
Item Importer::merged(const Item& a, const Item& b, ir::Value& v) {
  const Tensor &x = a.tensor, &y = b.tensor;
  if (x.dtype() != y.dtype() || x.dim() != y.dim())
    failf(ErrorKind::not_supported,
          "the paths give tensors of different dtype or number of dims ({}{} and {}{})", name(x.dtype()),
          str(x.sizes()), name(y.dtype()), str(y.sizes()));
  Dims sizes(x.sizes());
  for (size_t d = 0; d < sizes.size(); ++d)
    if (!surely_eq(sizes[d], y.sizes()[d])) {
      sizes[d] = shapes().create_unbacked_symint("If");
      shapes().check_is_size(sizes[d]);
    }
  Tensor t = make_tensor(sizes, x.dtype(), kCPU, true);
  v.set_type(ir::Type::tensor_like(t));
  recorder_.bind(t, v);
  return {t};
}

void Importer::import_if(Importing& n) {
  const Attribute *then_branch = n.node().find("then_branch"), *else_branch = n.node().find("else_branch");
  if (!then_branch || !else_branch || then_branch->graphs.empty() || else_branch->graphs.empty())
    fail(ErrorKind::file, "If needs then_branch and else_branch");
  const GraphProto* graphs[] = {then_branch->graphs[0].get(), else_branch->graphs[0].get()};
  if (auto known = n.constant(0)) {
    std::vector<Item> out = run_graph(*graphs[truth(*known) ? 0 : 1], {});
    for (size_t k = 0; k < out.size() && k < n.outputs().size(); ++k) n.out(out[k], k);
    return;
  }
  Tensor condition = n.in(0);
  ir::In inputs[] = {recorder_.operand(condition.dim() ? condition.reshape({}) : condition)};
  ir::Node& made = graph_->make("prim::If", inputs, {});
  std::vector<Item> results[2];
  ir::Block* blocks[2];
  for (int k = 0; k < 2; ++k) {
    blocks[k] = &made.add_block();
    capture::Recorder::Known outside = recorder_.known();
    ir::InsertAt at(blocks[k]->return_node());
    results[k] = run_graph(*graphs[k], {});
    if (results[k].size() != n.outputs().size())
      fail(ErrorKind::file, "the branches of If give another number of results");
    for (Item& item : results[k]) blocks[k]->add_return(operand(item));
    recorder_.forget_to(std::move(outside));
  }
  for (size_t i = 0; i < n.outputs().size(); ++i) made.add_output(ir::Type::tensor(), n.node().outputs[i]);
  for (size_t i = 0; i < n.outputs().size(); ++i)
    n.out(merged(results[0][i], results[1][i], made.output(i)), i);
}

void Importer::import_loop(Importing& n) {
  const Attribute* body = n.node().find("body");
  if (!body || body->graphs.empty()) fail(ErrorKind::file, "Loop needs a body");
  const GraphProto& g = *body->graphs[0];
  size_t carried = n.size() > 2 ? n.size() - 2 : 0;
  if (g.inputs.size() != carried + 2 || g.outputs.size() < carried + 1)
    fail(ErrorKind::file, "the body of Loop does not fit its inputs");
  if (g.outputs.size() > carried + 1) n.refuse("scan outputs of Loop are not supported");
  std::vector<ir::In> inputs;
  if (!n.has(0))
    inputs.push_back(tern::Value(INT64_MAX));
  else
    inputs.push_back(recorder_.operand(n.sizes(0).at(0)));
  if (!n.has(1))
    inputs.push_back(tern::Value(true));
  else if (auto known = n.constant(1))
    inputs.push_back(tern::Value(truth(*known)));
  else
    inputs.push_back(recorder_.operand(n.in(1).dim() ? n.in(1).reshape({}) : n.in(1)));
  std::vector<Item> start;
  for (size_t i = 0; i < carried; ++i) {
    Item item = n.item(i + 2);
    inputs.push_back(operand(item));
    start.push_back(item);
  }
  // Sizes that change from turn to turn are not known inside: tried with the first ones, then with symbols.
  for (int round = 0; round < 2; ++round) {
    ir::Node& made = graph_->make("prim::Loop", inputs, {});
    ir::Block& block = made.add_block();
    capture::Recorder::Known outside = recorder_.known();
    std::vector<Item> inside, results;
    bool changed = false;
    {
      ir::InsertAt at(block.return_node());
      SymInt counter = shapes().create_unbacked_symint("i");
      recorder_.bind(counter, block.add_param(ir::Type::integer(), "i"));
      Item index;
      index.ints = std::vector<SymInt>{counter};
      index.scalar = true;
      inside.push_back(index);
      inside.push_back({tern::tensor(Scalar(true), {.dtype = kBool})});
      for (size_t i = 0; i < carried; ++i) {
        Dims sizes(start[i].tensor.sizes());
        Tensor t = make_tensor(sizes, start[i].tensor.dtype(), kCPU, true);
        recorder_.bind(t, block.add_param(ir::Type::tensor_like(t), g.inputs[i + 2].name));
        inside.push_back({t});
      }
      results = run_graph(g, inside);
      Item go = results[0];
      if (go.real.defined() && go.real.int_numel() == 1)
        block.add_return(tern::Value(truth(go.real)));
      else
        block.add_return(recorder_.operand(materialise(go).dim() ? go.tensor.reshape({}) : go.tensor));
      for (size_t i = 0; i < carried; ++i) {
        block.add_return(operand(results[i + 1]));
        const Tensor& t = results[i + 1].tensor;
        if (t.dim() != start[i].tensor.dim() || t.dtype() != start[i].tensor.dtype())
          n.refuse("a value that Loop carries changes its dtype or number of dims");
        for (int64_t d = 0; d < t.dim(); ++d)
          changed = changed || !surely_eq(t.size(d), start[i].tensor.size(d));
      }
    }
    recorder_.forget_to(std::move(outside));
    if (changed && round == 0) {
      graph_->erase(made);
      for (size_t i = 0; i < carried; ++i) {
        Dims sizes(start[i].tensor.sizes());
        for (size_t d = 0; d < sizes.size(); ++d)
          if (!surely_eq(results[i + 1].tensor.sizes()[d], sizes[d])) {
            sizes[d] = shapes().create_unbacked_symint("Loop");
            shapes().check_is_size(sizes[d]);
          }
        start[i].tensor = make_tensor(sizes, start[i].tensor.dtype(), kCPU, true);
      }
      continue;
    }
    for (size_t i = 0; i < carried; ++i) made.add_output(ir::Type::tensor(), n.node().outputs[i]);
    for (size_t i = 0; i < carried && i < n.outputs().size(); ++i)
      n.out(merged(start[i], results[i + 1], made.output(i)), i);
    return;
  }
}

// ---- one node's view ----

size_t Importing::given(size_t i) const {
  if (!has(i)) failf(ErrorKind::file, "input {} is missing", i);
  return i;
}

Tensor Importing::in(size_t i) { return importer_.materialise(inputs_[given(i)]); }

Tensor Importing::in_or_none(size_t i) { return has(i) ? in(i) : Tensor(); }

std::optional<Tensor> Importing::constant(size_t i) {
  if (!has(i)) return std::nullopt;
  if (inputs_[i].real.defined()) return inputs_[i].real;
  if (inputs_[i].tensor.defined() && !inputs_[i].tensor.is_fake()) return inputs_[i].tensor;
  return std::nullopt;
}

double Importing::constant_number(size_t i, double otherwise) {
  if (!has(i)) return otherwise;
  auto t = constant(i);
  if (!t || t->int_numel() != 1) refuse(fmt::format("input {} must be a constant number", i));
  Exclude quiet(rung_record | rung_fake);
  return read_scalar(t->as_view({}, {})).to_double();
}

std::vector<int64_t> Importing::constants(size_t i) {
  if (inputs_.at(i).ints) {
    std::vector<int64_t> out;
    bool known = true;
    for (SymInt s : *inputs_[i].ints) {
      known = known && s.is_int();
      if (known) out.push_back(s.as_int());
    }
    if (known) return out;
  }
  auto t = constant(i);
  if (!t)
    refuse(
        fmt::format("input {} ('{}') must be a constant, but is computed by the model", i, node_.inputs[i]));
  Exclude quiet(rung_record | rung_fake);
  return t->to_vector<int64_t>();
}

std::vector<SymInt> Importing::sizes(size_t i) {
  if (!has(i)) failf(ErrorKind::file, "input {} is missing", i);
  if (inputs_[i].ints) return *inputs_[i].ints;
  std::vector<SymInt> out;
  if (constant(i)) {
    for (int64_t v : constants(i)) {
      if (SymInt(v).is_symbolic()) refuse(fmt::format("the integer {} is not supported", v));
      out.push_back(v);
    }
    return out;
  }
  Tensor t = in(i);
  if (t.dim() > 1) refuse(fmt::format("input {} must have at most one dim", i));
  if (t.dim() == 0) return {t.item(Loc{}).sym()};
  auto n = t.size(0).maybe_int();
  if (!n) refuse(fmt::format("the number of elements of input {} is not known", i));
  for (int64_t k = 0; k < *n; ++k) out.push_back(t.select(0, k).item(Loc{}).sym());
  return out;
}

int64_t Importing::integer(std::string_view name, int64_t otherwise) const {
  const Attribute* a = node_.find(name);
  return a && a->type == Attribute::Type::int_ ? a->i : otherwise;
}
double Importing::number(std::string_view name, double otherwise) const {
  const Attribute* a = node_.find(name);
  return a ? a->type == Attribute::Type::int_ ? static_cast<double>(a->i) : static_cast<double>(a->f)
           : otherwise;
}
std::string Importing::text(std::string_view name, std::string_view otherwise) const {
  const Attribute* a = node_.find(name);
  return a ? a->s : std::string(otherwise);
}
std::vector<int64_t> Importing::ints(std::string_view name) const {
  const Attribute* a = node_.find(name);
  return a ? a->ints : std::vector<int64_t>();
}
std::vector<double> Importing::floats(std::string_view name) const {
  const Attribute* a = node_.find(name);
  return a ? std::vector<double>(a->floats.begin(), a->floats.end()) : std::vector<double>();
}

std::vector<tern::Value> Importing::call_many(const char* name, std::vector<tern::Value> args) {
  const Op& op = get_op(name);
  const Schema& schema = op.schema();
  size_t positions = 0;
  while (positions < args.size() && positions < schema.args.size() && !schema.args[positions].keyword_only)
    ++positions;
  std::vector<std::pair<Symbol, tern::Value>> keywords;
  for (size_t i = positions; i < args.size() && i < schema.args.size(); ++i)
    keywords.emplace_back(schema.args[i].name, args[i]);
  Bound bound(op, Span<const tern::Value>(args).first(positions), keywords);
  std::vector<tern::Value> results(std::max<size_t>(1, op.results));
  tern::call(op, bound.args(), results.data());
  return results;
}

tern::Value Importing::call(const char* op, std::vector<tern::Value> args) {
  return call_many(op, std::move(args))[0];
}

void Importing::refuse(std::string_view why) const {
  failf(ErrorKind::not_supported, "onnx: importing {}: {}", describe(node_), why);
}

const Import* find_import(std::string_view op) {
  static const auto* index = [] {
    auto* map = new std::unordered_map<std::string_view, const Import*>;
    for (Span<const Import> table :
         {math_imports(), shape_imports(), nn_imports(), index_imports(), rnn_imports(), signal_imports()})
      for (const Import& i : table) map->emplace(i.op, &i);
    return map;
  }();
  auto it = index->find(op);
  return it == index->end() ? nullptr : it->second;
}

}  // namespace tern::onnx
