#include "tern/export/export.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/capture/recorder.h"
#include "tern/capture/retrace.h"
#include "tern/export/assertions.h"
#include "tern/export/regions.h"
#include "tern/ir/pass.h"
#include "tern/sym/solver.h"
#include "tern/tensor/nesting.h"

namespace tern {
namespace {

// A leaf of the input tree: what it is called in the graph, in messages, and at run time.
struct Leaf {
  Value example;
  std::string name;            // "ys_0"
  std::string place;           // "ys[0]": how DynamicShapes names it
  std::string input;           // "ys"
  std::string path;            // "*args[1][0]"
  std::string source;          // "L['ys'][0]"
  std::vector<Dim> dims = {};  // by dimension of a tensor; one for an int
  bool dynamic_int = false;
};

std::string identifier(std::string_view text) {
  std::string out;
  for (char c : text) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return out;
}

std::string key_text(const tree::Key& key) {
  return identifier(key.value.is_string() ? key.value.string() : key.value.str());
}

// Strides of a tensor like the example but with these sizes: a stride that is the product of the sizes below
// it stays so.
Dims strides_like(const Tensor& example, const Dims& sizes) {
  if (example.is_contiguous()) return contiguous_strides(sizes);
  size_t n = sizes.size();
  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = i;
  auto stride = [&](size_t d) { return example.strides()[d].guard_int(Loc{}); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return stride(a) < stride(b); });
  Dims strides(example.strides());
  SymInt expected = 1;
  int64_t expected_hint = 1;
  for (size_t d : order) {
    if (stride(d) == expected_hint && stride(d) != 0)
      strides[d] = expected;
    else if (stride(d) == 0)
      continue;
    expected = strides[d] * sizes[d];
    expected_hint = stride(d) * example.sizes()[d].guard_int(Loc{});
  }
  return strides;
}

class Exporter {
 public:
  Exporter(const Exportable& what, const NamedValues& args, const ExportOptions& options)
      : what_(what),
        options_(options),
        data_(new_shared<ExportedProgram::Data>()),
        shapes_(new_shared<ShapeEnv>()),
        graph_(*(data_->graph = new_owned<ir::Graph>())),
        recorder_(graph_, rung_record) {
    graph_.shapes = recorder_.shapes = shapes_;
    recorder_.unknown = [this](const Tensor& t) { return lift(t); };
    data_->root_type = what.type_name;
    read_inputs(args);
  }

  ExportedProgram run() {
    read_dims();
    make_dims();
    add_state();
    std::vector<Value> given = add_user_inputs();
    Value result = capture(given);
    add_outputs(result);
    if (what_.check_state) what_.check_state();
    insert_assertions(graph_, recorder_);
    wrap_regions(graph_, recorder_, outside_);
    data_->runtime_checks =
        dims_->require({.force_specializations = !options_.allow_complex_guards_as_runtime_asserts});
    simplify_types(graph_);
    add_ranges();
    add_module_calls();
    ExportedProgram program(data_);
    verify(program);
    return program;
  }

 private:
  void read_inputs(const NamedValues& args) {
    std::unordered_set<std::string> names;
    std::vector<Value> positional;
    std::vector<std::pair<Value, Value>> keywords;
    auto name_input = [&](const NamedValue& v, size_t i) {
      std::string name = v.name;
      if (name.empty()) name = args.size() == 1 ? "x" : fmt::format("args_{}", i);
      if (!names.insert(name).second) failf(ErrorKind::value, "export: two inputs are called '{}'", name);
      data_->arg_names.push_back(name);
    };
    for (size_t i = 0; i < args.size(); ++i) {
      name_input(args[i], i);
      positional.push_back(args[i].value);
    }
    for (const NamedValue& v : options_.kwargs) {
      if (v.name.empty()) fail(ErrorKind::value, "export: a keyword argument needs a name");
      name_input(v, 0);
      keywords.emplace_back(Value(v.name), v.value);
    }
    num_positional_ = positional.size();
    data_->example_args = Value::tuple(positional);
    data_->example_kwargs = Value::dict(keywords);
    tree::Flat flat = tree::flatten(Value::tuple({*data_->example_args, *data_->example_kwargs}));
    data_->in_spec = flat.spec;
    std::vector<tree::KeyPath> paths = tree::key_paths(flat.spec);
    for (size_t i = 0; i < flat.leaves.size(); ++i) {
      const tree::KeyPath& path = paths[i];
      bool is_positional = path[0].value.to_int() == 0;
      tree::KeyPath below(path.begin() + 1, path.end()), rest(path.begin() + 2, path.end());
      Leaf leaf;
      leaf.example = flat.leaves[i];
      leaf.input = is_positional ? data_->arg_names[static_cast<size_t>(path[1].value.to_int())]
                                 : path[1].value.string();
      leaf.name = identifier(leaf.input);
      for (const tree::Key& key : rest) leaf.name += "_" + key_text(key);
      leaf.place = leaf.input + tree::str(rest);
      leaf.path = (is_positional ? "*args" : "**kwargs") + tree::str(below);
      leaf.source = fmt::format("L['{}']{}", leaf.input, tree::str(rest));
      if (leaf.example.is_tensor()) {
        const Tensor& t = leaf.example.tensor();
        check_not_nested(t, "export");
        leaf.dims.assign(static_cast<size_t>(t.dim()), Dim::STATIC);
      }
      leaves_.push_back(std::move(leaf));
    }
  }

  // Which leaves an entry of `dynamic` speaks of: the leaf of that place, or all that lie below it.
  void read_dims() {
    for (const auto& [place, dims] : options_.dynamic) {
      bool any = false;
      for (Leaf& leaf : leaves_) {
        bool below = leaf.place.size() > place.size() && leaf.place.starts_with(place) &&
                     (leaf.place[place.size()] == '[' || leaf.place[place.size()] == '.');
        if (leaf.place != place && !below) continue;
        any = true;
        if (leaf.example.is_int() && !dims.empty()) {
          leaf.dims.assign(1, dims[0].second);
          leaf.dynamic_int = !dims[0].second.is_static();
          continue;
        }
        if (!leaf.example.is_tensor()) {
          if (below || dims.empty()) continue;
          failf(ErrorKind::value, "export: dims are given for the input {}, which is a {}, not a tensor",
                leaf.place, leaf.example.kind_name());
        }
        int64_t rank = leaf.example.tensor().dim();
        for (const auto& [d, dim] : dims) {
          if (d < -rank || d >= rank)
            failf(ErrorKind::value, "export: a dim is given for dimension {} of {}, which has {} dimensions",
                  d, leaf.place, rank);
          leaf.dims[static_cast<size_t>(d < 0 ? d + rank : d)] = dim;
        }
      }
      if (!any) {
        std::string inputs;
        for (const Leaf& leaf : leaves_) inputs += (inputs.empty() ? "" : ", ") + leaf.place;
        failf(ErrorKind::value, "export: dims are given for '{}', which is no input; the inputs are {}",
              place, inputs);
      }
    }
  }

  void make_dims() {
    std::vector<InputDim> inputs;
    for (const Leaf& leaf : leaves_)
      for (size_t d = 0; d < leaf.dims.size(); ++d) {
        InputDim in;
        in.path = leaf.path;
        in.dim = static_cast<int64_t>(d);
        in.spec = leaf.dims[d];
        if (leaf.example.is_tensor()) {
          in.source = fmt::format("{}.size()[{}]", leaf.source, d);
          in.hint = example_size(leaf.example.tensor(), d);
        } else {
          in.source = leaf.source;
          in.hint = leaf.example.to_int();
        }
        inputs.push_back(std::move(in));
      }
    dims_.emplace(*shapes_, std::move(inputs));
  }

  static int64_t example_size(const Tensor& t, size_t d) {
    SymInt s = t.sizes()[d];
    if (s.is_int()) return s.as_int();
    if (auto hint = s.hint()) return *hint;
    failf("export: a size of an example input depends on data ({})", s.str());
  }

  void add_state() {
    for (InputKind kind : {InputKind::parameter, InputKind::buffer})
      for (const Exportable::State& s : what_.state) {
        if (s.kind != kind) continue;
        if (recorder_.knows(s.tensor)) continue;
        std::string name = (kind == InputKind::parameter ? "p_" : "b_") + identifier(s.name);
        ir::Value& v = graph_.add_input(ir::Type::tensor_like(s.tensor), name);
        recorder_.bind(s.tensor, v);
        data_->signature.inputs.push_back({kind, v.name(), s.name, s.persistent, {}});
        (s.persistent || kind == InputKind::parameter ? data_->state : data_->constants)
            .emplace_back(s.name, s.tensor);
      }
    for (const auto& [name, tensor] : what_.aliases) data_->state.emplace_back(name, tensor);
    first_user_input_ = data_->signature.inputs.size();
  }

  std::vector<Value> add_user_inputs() {
    std::vector<Value> given;
    size_t next = 0;
    for (Leaf& leaf : leaves_) {
      size_t position = data_->signature.inputs.size();
      InputSpec spec{InputKind::user_input, leaf.name, {}, true, {}};
      if (leaf.example.is_tensor()) {
        const Tensor& t = leaf.example.tensor();
        Dims sizes;
        for (size_t d = 0; d < leaf.dims.size(); ++d) sizes.push_back(dims_->inputs()[next++].size);
        Tensor fake = make_tensor(sizes, strides_like(t, sizes), t.dtype(), t.device(), true);
        if (t.requires_grad()) fake.requires_grad_();
        ir::Value& v = graph_.add_input(ir::Type::tensor_like(fake), leaf.name);
        name_exactly(v, leaf.name);
        recorder_.bind(fake, v);
        spec.name = v.name();
        given.emplace_back(fake);
      } else {
        ir::Value& v = graph_.add_input(ir::Type::of(leaf.example), leaf.name);
        name_exactly(v, leaf.name);
        spec.name = v.name();
        Value value = leaf.example;
        if (!leaf.dims.empty()) {
          SymInt s = dims_->inputs()[next++].size;
          if (leaf.dynamic_int && s.is_symbolic()) {
            recorder_.bind(s, v);
            data_->int_inputs.emplace_back(position, s);
            value = Value(s);
          }
        }
        if (data_->int_inputs.empty() || data_->int_inputs.back().first != position)
          spec.constant = leaf.example;
        given.push_back(std::move(value));
      }
      data_->signature.inputs.push_back(std::move(spec));
    }
    return given;
  }

  // An input keeps the user's name also where Python has a builtin of that name.
  void name_exactly(ir::Value& v, const std::string& name) {
    if (v.name() != name && !graph_.find(name)) graph_.set_name(v, name);
  }

  Value capture(const std::vector<Value>& given) {
    Value trees = tree::unflatten(data_->in_spec, given);
    std::vector<Value> args = trees.items()[0].items();
    for (auto& [key, value] : trees.items()[1].entries()) args.push_back(value);
    Mount mount(rung_record, recorder_);
    Autocast::Below casts(recorder_);
    outside_.grad = thread_state.grad_enabled;
    recorder_.note_regions = true;
    thread_state.active |= rung_fake;
    thread_state.excluded |= rung_autograd;
    thread_state.scope = nullptr;
    thread_state.loc = {};
    return what_.call(args);
  }

  // A tensor that is neither state nor input: a constant of the program. The program sees a copy of it, so
  // that writing to it in one run does not change the next.
  ir::In lift(const Tensor& t) {
    if (t.is_fake() && !t.is_meta())
      fail(
          "export: a fake tensor of another capture, or one that left a branch of this one, is used; tensors "
          "made inside a "
          "captured function must not be kept between calls");
    std::string target = fmt::format("lifted_tensor_{}", num_lifted_++);
    ir::Node* at = &graph_.insert_point();
    while (at->block().parent()) at = at->block().parent();
    ir::TensorInfo info = ir::Type::tensor_like(t)->info();
    info.requires_grad = false;
    ir::Value& v =
        graph_.top().insert_param(first_user_input_ + num_constants_, ir::Type::tensor(info), "c_" + target);
    auto position =
        data_->signature.inputs.begin() + static_cast<std::ptrdiff_t>(first_user_input_ + num_constants_);
    data_->signature.inputs.insert(position, {InputKind::constant_tensor, v.name(), target, true, {}});
    for (auto& [index, symbol] : data_->int_inputs) ++index;
    ++num_constants_;
    data_->constants.emplace_back(target, t.requires_grad() ? t.shallow_copy() : t);
    ir::InsertAt here(*at);
    ir::In in[] = {v};
    ir::Node& copy = graph_.call("aten::lift_fresh_copy", in, v.type());
    copy.set_origin(ir::Origin::at(thread_state.loc, ir::ModuleScope::of(thread_state.scope)));
    recorder_.bind(t, copy.output());
    return copy.output();
  }

  void add_outputs(const Value& result) {
    tree::Flat flat = tree::flatten(result);
    data_->out_spec = flat.spec;
    for (const Value& leaf : flat.leaves) {
      ir::In in = recorder_.operand(leaf);
      graph_.add_output(in);
      data_->signature.outputs.push_back(
          {OutputKind::user_output, in.is_value() ? in.value()->name() : "", {}});
    }
  }

  void add_ranges() { data_->range_constraints = symbol_ranges(graph_); }

  void add_module_calls() {
    ModuleCall root;
    root.signature = ModuleCall::Signature{{}, {}, data_->in_spec, data_->out_spec, data_->arg_names};
    data_->module_calls.push_back(std::move(root));
    std::unordered_set<Symbol> seen{Symbol("")};
    std::vector<Symbol> chain;
    for (const ir::Node& n : graph_.top()) {
      chain.clear();
      for (const ir::ModuleScope* s = n.scope(); s; s = s->parent) chain.push_back(s->path);
      for (size_t i = chain.size(); i-- > 0;)
        if (seen.insert(chain[i]).second) data_->module_calls.push_back({chain[i].str(), {}});
    }
  }

  const Exportable& what_;
  const ExportOptions& options_;
  Shared<ExportedProgram::Data> data_;
  Shared<ShapeEnv> shapes_;
  ir::Graph& graph_;
  capture::Recorder recorder_;
  std::vector<Leaf> leaves_;
  std::optional<DynamicDims> dims_;
  capture::Recorder::Region outside_;  // the modes the capture begins with
  size_t num_positional_ = 0, first_user_input_ = 0, num_constants_ = 0, num_lifted_ = 0;
};

}  // namespace

ExportedProgram export_for_training(const Exportable& what, const NamedValues& args,
                                    const ExportOptions& options) {
  return Exporter(what, args, options).run();
}

ExportedProgram export_program(const Exportable& what, const NamedValues& args,
                               const ExportOptions& options) {
  return lower(export_for_training(what, args, options), capture::is_composite, Dialect::aten);
}

namespace {

// The spec with what its leaves turned out to be.
tree::Spec with_leaves(const tree::Spec& spec, Span<const tree::Spec> leaves, size_t& next) {
  if (spec.is_leaf()) return next < leaves.size() ? leaves[next++] : spec;
  std::vector<tree::Spec> children;
  for (const tree::Spec& child : spec.children()) children.push_back(with_leaves(child, leaves, next));
  return tree::Spec(std::string(spec.type()), spec.context(), std::move(children), spec.fields());
}

}  // namespace

ExportedProgram lower(const ExportedProgram& program, const Function<bool(const Op&)>& expand,
                      Dialect dialect, bool unroll) {
  const ExportedProgram::Data& from = program.data();
  capture::RetraceOptions options;
  options.unroll = unroll;
  options.expand = expand;
  if (dialect == Dialect::core) options.item_kind = "aten::_local_scalar_dense";
  for (size_t i = 0; i < from.signature.inputs.size(); ++i) {
    const InputSpec& spec = from.signature.inputs[i];
    const ir::Type& type = *from.graph->inputs()[i]->type();
    if (spec.constant) {
      options.inputs.push_back(*spec.constant);
    } else if (const SymInt* s = program.symbol_of(i)) {
      options.inputs.emplace_back(*s);
    } else if (type.is_tensor()) {
      Tensor fake = capture::fake_like(type, from.graph->shapes.get());
      if (type.requires_grad().value_or(false)) fake.requires_grad_();
      options.inputs.emplace_back(fake);
    } else {
      options.inputs.emplace_back();
    }
  }
  capture::Retraced retraced = capture::retrace(*from.graph, options);

  auto data = new_shared<ExportedProgram::Data>();
  static_cast<ExportedProgram::Interface&>(*data) = from;
  data->dialect = dialect;
  data->graph = std::move(retraced.graph);
  for (size_t i = 0; i < data->signature.inputs.size(); ++i) {
    // The user's names stay, also where Python has a builtin of that name ("input").
    ir::Value& v = *data->graph->inputs()[i];
    std::string& name = data->signature.inputs[i].name;
    if (v.name() != name && !data->graph->find(name)) data->graph->set_name(v, name);
    name = v.name();
  }

  std::vector<OutputSpec> outputs;
  for (size_t i : retraced.mutated) {
    const InputSpec& spec = data->signature.inputs[i];
    switch (spec.kind) {
      case InputKind::buffer:
        outputs.push_back({OutputKind::buffer_mutation, {}, spec.target});
        break;
      case InputKind::parameter:
        outputs.push_back({OutputKind::parameter_mutation, {}, spec.target});
        break;
      case InputKind::user_input:
        outputs.push_back({OutputKind::user_input_mutation, {}, spec.name});
        break;
      default:
        failf("export: the constant {} is written to; make it a buffer", spec.target);
    }
  }
  std::vector<tree::Spec> given;  // by the user's outputs
  for (size_t i = 0; i < from.signature.outputs.size(); ++i) {
    tree::Spec spec = tree::flatten(retraced.outputs.at(i)).spec;
    outputs.insert(outputs.end(), spec.leaf_count(), from.signature.outputs[i]);
    if (from.signature.outputs[i].kind == OutputKind::user_output) given.push_back(std::move(spec));
  }
  data->signature.outputs = std::move(outputs);
  size_t next = 0;
  data->out_spec = with_leaves(from.out_spec, given, next);
  for (ModuleCall& call : data->module_calls)
    if (call.path.empty() && call.signature) call.signature->out_spec = data->out_spec;
  ir::dce(*data->graph);
  simplify_types(*data->graph);
  refresh_output_names(*data);
  data->range_constraints = symbol_ranges(*data->graph);
  ExportedProgram lowered(std::move(data));
  verify(lowered);
  return lowered;
}

Exportable exportable_state(const nn::Module& module) {
  Exportable what;
  what.type_name = module.type_name();
  nn::StateDict params = module.named_parameters(), buffers = module.named_buffers(),
                all = module.state_dict();
  std::unordered_set<std::string> persistent;
  for (const auto& [name, tensor] : all) persistent.insert(name);
  std::unordered_set<std::string> listed;
  for (const auto& [name, tensor] : params) {
    what.state.push_back({name, tensor, InputKind::parameter, true});
    listed.insert(name);
  }
  for (const auto& [name, tensor] : buffers) {
    what.state.push_back({name, tensor, InputKind::buffer, persistent.count(name) != 0});
    listed.insert(name);
  }
  for (const auto& [name, tensor] : all) {
    if (listed.count(name)) continue;
    for (const Exportable::State& s : what.state)
      if (s.tensor.storage() == tensor.storage() && s.tensor.dim() == tensor.dim()) {
        what.aliases.emplace_back(name, s.tensor);
        break;
      }
  }
  std::vector<Exportable::State> before = what.state;
  what.check_state = [module, before] {
    for (const Exportable::State& s : before) {
      Tensor now = s.kind == InputKind::parameter ? module.parameter(s.name) : module.buffer(s.name);
      if (now.defined() && now.is_same(s.tensor)) continue;
      size_t dot = s.name.rfind('.');
      nn::Module owner = dot == std::string::npos ? module : module.submodule(s.name.substr(0, dot));
      std::string name = dot == std::string::npos ? s.name : s.name.substr(dot + 1);
      if (s.kind == InputKind::parameter)
        owner.register_parameter(name, s.tensor);
      else
        owner.register_buffer(name, s.tensor, s.persistent);
      failf(
          "export: '{0}' was replaced by another tensor while the module was captured, which a program "
          "cannot do; write "
          "into it instead: {0}.copy_(value)",
          s.name);
    }
  };
  return what;
}

}  // namespace tern
