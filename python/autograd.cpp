// Gradients for Python: backward, grad, hooks, gradient mode, and functions whose backward is Python.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "python/objects.h"
#include "tern/autograd/history.h"
#include "tern/base/format.h"
#include "tern/base/parallel.h"

namespace tern::python {

namespace {

class WithGil {
 public:
  WithGil() : state_(PyGILState_Ensure()) {}
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

std::vector<Tensor> tensors_from(nb::handle o, const char* what) {
  std::vector<Tensor> list;
  if (o.is_none()) return list;
  for (nb::handle item : o) {
    if (item.is_none()) {
      list.emplace_back();
      continue;
    }
    if (!is_tensor(item.ptr()))
      failf(ErrorKind::type, "{}: expected tensors, found a {}", what, type_name(item.ptr()));
    list.push_back(tensor_of(item.ptr()));
  }
  return list;
}

std::string hook_name(PyObject* hook) {
  nb::handle h(hook);
  return nb::cast<std::string>(
      nb::str(nb::hasattr(h, "__name__") ? h.attr("__name__") : h.type().attr("__name__")));
}

Tensor hook_result(PyObject* hook, PyObject* result, const Tensor& grad) {
  if (!is_tensor(result))
    failf(ErrorKind::type, "expected Variable, but hook returned '{}'", type_name(result));
  const Tensor& t = tensor_of(result);
  if (!std::equal(t.sizes().begin(), t.sizes().end(), grad.sizes().begin(), grad.sizes().end(),
                  [](SymInt a, SymInt b) { return a == b; }))
    failf("hook '{}' has changed the size of value", hook_name(hook));
  if (t.dtype() != grad.dtype())
    failf("hook '{}' has changed the type of value (was {} got {})", hook_name(hook), name(grad.dtype()),
          name(t.dtype()));
  return t;
}

autograd::Hook python_hook(nb::handle function) {
  std::shared_ptr<PyObject> keep = shared_reference(function.ptr());
  return [keep](const Tensor& grad) -> Tensor {
    WithGil gil;
    nb::object result = nb::handle(keep.get())(object_from(grad));
    if (result.is_none()) return {};
    return hook_result(keep.get(), result.ptr(), grad);
  };
}

// What a hook of a node gave instead of the gradients; None keeps them.
void replace_gradients(PyObject* hook, nb::handle result, std::vector<Tensor>& grads) {
  if (result.is_none()) return;
  if (!PyTuple_Check(result.ptr()))
    failf(ErrorKind::type, "expected tuple, but hook returned '{}'", type_name(result.ptr()));
  const size_t n = nb::len(result);
  if (n != grads.size())
    failf("hook '{}' has returned an incorrect number of values (got {}, but expected {})", hook_name(hook),
          n, grads.size());
  for (size_t i = 0; i < n; ++i) {
    PyObject* item = PyTuple_GetItem(result.ptr(), static_cast<Py_ssize_t>(i));
    if (item == Py_None) {
      grads[i] = Tensor();
      continue;
    }
    if (!grads[i].defined())
      failf("hook '{}': can't replace a None gradient with a non-None value", hook_name(hook));
    grads[i] = hook_result(hook, item, grads[i]);
  }
}

nb::tuple tuple_of(const std::vector<Tensor>& tensors) {
  nb::list list;
  for (const Tensor& t : tensors) list.append(object_from(t));
  return nb::tuple(list);
}

// A node whose backward is a Python function.
struct PythonNode : autograd::GradNode, std::enable_shared_from_this<PythonNode> {
  std::shared_ptr<PyObject> function, context;
  std::string name_;
  std::vector<int> edge_of_argument;  // -1: not a tensor
  std::vector<autograd::SavedTensor> saved;
  bool materialize = true, released = false;

  std::string name() const override { return name_; }
  void release() override {
    saved.clear();
    released = true;
  }
  std::vector<Tensor> apply(Span<const Tensor> grads) override {
    WithGil gil;
    nb::list args;
    args.append(nb::handle(context.get()));
    for (size_t i = 0; i < result_shapes.size(); ++i) {
      Tensor g = i < grads.size() ? grads[i] : Tensor();
      if (!g.defined() && materialize) {
        g = make_tensor(result_shapes[i].sizes, result_shapes[i].dtype, result_shapes[i].device);
        if (!g.is_fake()) std::memset(g.data(), 0, static_cast<size_t>(g.int_numel() * g.element_size()));
      }
      args.append(object_from(g));
    }
    nb::object result = nb::handle(function.get()).attr("backward")(*nb::tuple(args));
    nb::tuple results = PyTuple_Check(result.ptr())  ? nb::borrow<nb::tuple>(result)
                        : PyList_Check(result.ptr()) ? nb::tuple(result)
                                                     : nb::make_tuple(result);
    size_t n = nb::len(results), wanted = edge_of_argument.size();
    for (size_t i = wanted; i < n; ++i)
      if (!results[i].is_none())
        failf("function {} returned an incorrect number of gradients (expected {}, got {})", name_, wanted,
              n);
    if (n < wanted)
      failf("function {} returned an incorrect number of gradients (expected {}, got {})", name_, wanted, n);
    std::vector<Tensor> out(edges.size());
    for (size_t i = 0; i < wanted; ++i) {
      nb::object g = results[i];
      if (g.is_none()) continue;
      if (!is_tensor(g.ptr()))
        failf(ErrorKind::type, "function {} returned a {} as gradient {}: expected a Tensor or None", name_,
              type_name(g.ptr()), i);
      if (edge_of_argument[i] < 0)
        failf(
            "function {} returned a gradient different than None at position {}, but the corresponding "
            "forward input was not a Variable",
            name_, i + 1);
      const auto at = static_cast<size_t>(edge_of_argument[i]);
      const autograd::Edge& edge = edges[at];
      if (edge.node && tensor_of(g.ptr()).is_complex() &&
          !is_complex(edge.node->result_shapes[edge.input].dtype))
        failf("Function {} returned an invalid gradient at index {} - got {} but the input is real", name_, i,
              tern::name(tensor_of(g.ptr()).dtype()));
      out[at] = tensor_of(g.ptr());
    }
    return out;
  }
};

// What Python's ctx holds of its node: weakly, or neither would ever be freed.
struct NodeLink {
  std::weak_ptr<PythonNode> node;
};

nb::object saved_tensors(const NodeLink& link) {
  std::shared_ptr<PythonNode> node = link.node.lock();
  if (!node) fail("saved_tensors: the recorded function is gone");
  if (node->released)
    fail(
        "Trying to backward through the graph a second time (or directly access saved tensors after they "
        "have already been freed). Saved "
        "intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
        "retain_graph=True if you need to "
        "backward through the graph a second time or if you need to access saved tensors after calling "
        "backward.");
  nb::list list;
  for (const autograd::SavedTensor& s : node->saved) list.append(object_from(s.unpack(node)));
  return nb::tuple(list);
}

bool contains(nb::handle tensors, const Tensor& t) {
  if (tensors.is_none()) return false;
  for (nb::handle o : tensors)
    if (is_tensor(o.ptr()) && tensor_of(o.ptr()).is_same(t)) return true;
  return false;
}

// Function.apply: forward without history, then one node for it.
nb::object apply_function(nb::handle cls, nb::handle ctx, nb::args args) {
  bool any = false;
  nb::list needs;
  std::vector<Tensor> inputs;
  for (nb::handle a : args) {
    bool need = is_tensor(a.ptr()) && autograd::needs_grad(tensor_of(a.ptr()));
    needs.append(need);
    any |= need;
    inputs.push_back(is_tensor(a.ptr()) ? tensor_of(a.ptr()) : Tensor());
  }
  any &= thread_state.grad_enabled && !autograd::inference_mode();
  ctx.attr("needs_input_grad") = nb::tuple(needs);
  nb::object output;
  {
    NoGrad no_grad;
    if (nb::cast<bool>(cls.attr("_separate_context"))) {
      output = cls.attr("forward")(*args);
      cls.attr("setup_context")(ctx, args, output);
    } else {
      output = cls.attr("forward")(ctx, *args);
    }
  }
  bool single = !PyTuple_Check(output.ptr());
  nb::tuple outputs = single ? nb::make_tuple(output) : nb::borrow<nb::tuple>(output);
  if (!any) return output;

  auto node = std::make_shared<PythonNode>();
  node->function = shared_reference(cls.ptr());
  node->context = shared_reference(ctx.ptr());
  node->name_ = nb::cast<std::string>(cls.attr("__name__")) + "Backward";
  node->materialize = nb::cast<bool>(ctx.attr("_materialize_grads"));
  for (const Tensor& t : inputs) {
    node->edge_of_argument.push_back(t.defined() ? static_cast<int>(node->edges.size()) : -1);
    if (t.defined()) node->edges.push_back(autograd::grad_edge(t));
  }
  nb::object dirty = ctx.attr("_dirty"), constant = ctx.attr("_non_differentiable");
  if (!dirty.is_none())
    for (nb::handle o : dirty)
      if (is_tensor(o.ptr()) && autograd::needs_grad(tensor_of(o.ptr())) && tensor_of(o.ptr()).is_leaf())
        fail("a leaf Variable that requires grad has been used in an in-place operation.");
  nb::list results;
  std::vector<std::pair<Tensor, Tensor>> made;  // what forward gave, what the caller gets
  for (nb::handle o : outputs) {
    if (!is_tensor(o.ptr())) {
      node->result_shapes.emplace_back();  // keeps positions: backward has one gradient per output
      results.append(o);
      continue;
    }
    Tensor t = tensor_of(o.ptr()), given = t;
    uint32_t place = static_cast<uint32_t>(node->result_shapes.size());
    node->result_shapes.push_back(autograd::shape_of(t));
    bool is_input = std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& i) { return i.is_same(t); });
    bool is_dirty = contains(dirty, t),
         differentiable = (t.is_floating_point() || t.is_complex()) && !contains(constant, t);
    if ((is_input && !is_dirty) || (t->base && !is_dirty)) t = t.shallow_copy();
    if (differentiable) autograd::set_history(t, node, place);
    made.emplace_back(given, t);
    results.append(object_from(t));
  }
  for (const Tensor& s : tensors_from(ctx.attr("_to_save"), "save_for_backward")) {
    const Tensor* result = nullptr;
    for (auto& [given, t] : made)
      if (s.defined() && given.is_same(s)) result = &t;
    bool own = result && (*result)->autograd && (*result)->autograd->node == node;
    node->saved.emplace_back(own ? *result : s, own);
  }
  ctx.attr("_link") = nb::cast(NodeLink{node});
  // Outputs among them own the node, which owns the context: held any longer they would never end.
  for (const char* done : {"_to_save", "_dirty", "_non_differentiable"}) ctx.attr(done) = nb::none();
  return single ? nb::object(results[0]) : nb::object(nb::tuple(results));
}

// A recorded function as Python sees it: one object while somebody holds it.
struct NodeObject {
  std::shared_ptr<autograd::GradNode> node;
  explicit NodeObject(std::shared_ptr<autograd::GradNode> n) : node(std::move(n)) {}
  NodeObject(const NodeObject&) = delete;
  ~NodeObject() { objects().erase(node.get()); }
  static std::unordered_map<autograd::GradNode*, PyObject*>& objects() {  // borrowed; under the GIL
    static auto* all = new std::unordered_map<autograd::GradNode*, PyObject*>;
    return *all;
  }
};
nb::object node_object(const std::shared_ptr<autograd::GradNode>& node) {
  if (!node) return nb::none();
  if (auto found = NodeObject::objects().find(node.get()); found != NodeObject::objects().end())
    return nb::borrow(found->second);
  // Of a class with the function's name, as PyTorch has it: type(y.grad_fn).__name__.
  static auto* classes = new std::unordered_map<std::string, nb::object>;
  nb::object& type = (*classes)[node->name()];
  if (!type.is_valid()) {
    nb::dict contents;
    contents["__module__"] = "tern.autograd";
    type = nb::handle(reinterpret_cast<PyObject*>(&PyType_Type))(
        node->name(), nb::make_tuple(nb::type<NodeObject>()), contents);
  }
  nb::object object = nb::inst_alloc(type);
  ::new (static_cast<void*>(nb::inst_ptr<NodeObject>(object))) NodeObject(node);
  nb::inst_mark_ready(object);
  NodeObject::objects()[node.get()] = object.ptr();
  return object;
}

int add_pre_hook(const NodeObject& n, nb::handle function) {
  autograd::NodeExtras& extras = n.node->more();
  std::shared_ptr<PyObject> keep = shared_reference(function.ptr());
  extras.pre_hooks.emplace_back(extras.next_hook, [keep](std::vector<Tensor>& outputs) {
    WithGil gil;
    replace_gradients(keep.get(), nb::handle(keep.get())(tuple_of(outputs)), outputs);
  });
  return extras.next_hook++;
}

int add_post_hook(const NodeObject& n, nb::handle function) {
  autograd::NodeExtras& extras = n.node->more();
  std::shared_ptr<PyObject> keep = shared_reference(function.ptr());
  extras.post_hooks.emplace_back(
      extras.next_hook, [keep](std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
        WithGil gil;
        replace_gradients(keep.get(), nb::handle(keep.get())(tuple_of(inputs), tuple_of(outputs)), inputs);
      });
  return extras.next_hook++;
}

void remove_node_hook(const NodeObject& n, int number) {
  if (!n.node->extras) return;
  auto same = [&](const auto& entry) { return entry.first == number; };
  std::erase_if(n.node->extras->pre_hooks, same);
  std::erase_if(n.node->extras->post_hooks, same);
}

nb::object node_metadata(const NodeObject& n) {
  autograd::NodeExtras& extras = n.node->more();
  if (!extras.metadata) extras.metadata = shared_reference(nb::dict().ptr());
  return nb::borrow(static_cast<PyObject*>(extras.metadata.get()));
}

// Where the Python program stands, as its own tracebacks say it.
std::string python_trace() {
  WithGil gil;
  nb::object lines = nb::module_::import_("traceback").attr("format_stack")();
  return nb::cast<std::string>(nb::str("").attr("join")(lines));
}

void push_hooks(nb::handle pack, nb::handle unpack) {
  std::shared_ptr<PyObject> packer = shared_reference(pack.ptr()), unpacker = shared_reference(unpack.ptr());
  autograd::push_saved_tensor_hooks(
      {[packer](const Tensor& t) -> std::shared_ptr<void> {
         WithGil gil;
         nb::object kept = nb::handle(packer.get())(object_from(t));
         return shared_reference(kept.ptr());
       },
       [unpacker](const std::shared_ptr<void>& kept) {
         WithGil gil;
         nb::object result = nb::handle(unpacker.get())(nb::handle(static_cast<PyObject*>(kept.get())));
         if (!is_tensor(result.ptr()))
           failf(ErrorKind::type,
                 "Output of saved tensor unpack_hook expected to be a Tensor but got result of type {}",
                 type_name(result.ptr()));
         return tensor_of(result.ptr());
       }});
}

}  // namespace

void bind_autograd(nb::module_& m) {
  m.def(
      "_backward",
      [](nb::handle outputs, nb::handle gradients, bool retain_graph, bool create_graph) {
        std::vector<Tensor> out = tensors_from(outputs, "backward"),
                            grads = tensors_from(gradients, "backward");
        Released released(true);
        autograd::backward(out, grads, retain_graph, create_graph);
      },
      nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
  m.def(
      "_grad",
      [](nb::handle outputs, nb::handle inputs, nb::handle gradients, bool retain_graph, bool create_graph,
         bool allow_unused) {
        std::vector<Tensor> out = tensors_from(outputs, "grad"), in = tensors_from(inputs, "grad"),
                            grads = tensors_from(gradients, "grad");
        std::vector<Tensor> result;
        {
          Released released(true);
          result = autograd::grad(out, in, grads, {retain_graph, create_graph, allow_unused});
        }
        nb::list list;
        for (const Tensor& t : result) list.append(object_from(t));
        return nb::tuple(list);
      },
      nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg());

  m.def("_register_hook", [](nb::handle t, nb::handle hook) {
    return autograd::register_hook(tensor_of(t.ptr()), python_hook(hook));
  });
  m.def("_remove_hook", [](nb::handle t, int number) { autograd::remove_hook(tensor_of(t.ptr()), number); });
  m.def("_register_post_accumulate_hook", [](nb::handle t, nb::handle hook) {
    std::shared_ptr<PyObject> keep = shared_reference(hook.ptr());
    return autograd::register_post_accumulate_hook(tensor_of(t.ptr()), [keep](const Tensor& leaf) {
      WithGil gil;
      nb::handle(keep.get())(object_from(leaf));
    });
  });
  m.def("_run_post_accumulate_hooks", [](nb::handle t) {
    const Tensor& leaf = tensor_of(t.ptr());
    if (leaf->autograd)
      for (auto& [number, hook] : leaf->autograd->post_hooks) hook(leaf);
  });
  m.def("is_grad_enabled", [] { return thread_state.grad_enabled; });
  m.def("_set_grad_enabled", [](bool on) { thread_state.grad_enabled = on; });
  m.def("get_num_threads", [] { return num_threads(); });
  m.def("set_num_threads", [](int n) {
    if (n < 1) fail(ErrorKind::value, "set_num_threads expects a positive integer");
    set_num_threads(n);
  });

  nb::class_<NodeLink>(m, "_NodeLink").def_prop_ro("saved_tensors", &saved_tensors);
  m.def("_apply_function", &apply_function);
  nb::class_<NodeObject>(m, "Node")
      .def("name", [](const NodeObject& n) { return n.node->name(); })
      .def("__repr__",
           [](const NodeObject& n) {
             return fmt::format("<{} object at {:#x}>", n.node->name(),
                                reinterpret_cast<uintptr_t>(n.node.get()));
           })
      .def("__eq__", [](const NodeObject& a, const NodeObject& b) { return a.node == b.node; })
      .def("__hash__", [](const NodeObject& n) { return reinterpret_cast<intptr_t>(n.node.get()); })
      .def("_add_pre_hook", &add_pre_hook)
      .def("_add_post_hook", &add_post_hook)
      .def("_remove_hook", &remove_node_hook)
      .def_prop_ro("metadata", &node_metadata)
      .def_prop_ro("variable", [](const NodeObject& n) { return object_from(n.node->variable()); })
      .def("_sequence_nr", [](const NodeObject& n) { return n.node->sequence; })
      .def("_will_run", [](const NodeObject& n) { return autograd::will_run(*n.node); })
      .def_prop_ro("next_functions", [](const NodeObject& n) {
        nb::list list;
        for (const autograd::Edge& e : n.node->edges)
          list.append(nb::make_tuple(node_object(e.node), e.input));
        return nb::tuple(list);
      });
  m.def("_gradient_edge", [](nb::handle o) {
    autograd::Edge e = autograd::grad_edge(tensor_of(o.ptr()));
    return nb::make_tuple(node_object(e.node), e.input);
  });
  m.def("_current_pass", [] { return autograd::current_pass(); });
  m.def("_push_saved_tensor_hooks", &push_hooks);
  m.def("_pop_saved_tensor_hooks", [] { autograd::pop_saved_tensor_hooks(); });
  m.def("_forbid_saved_tensor_hooks",
        [](std::string message) { return autograd::forbid_saved_tensor_hooks(std::move(message)); });
  m.def("_set_anomaly", [](bool on, bool check_nan) { autograd::anomaly = {on, check_nan, python_trace}; });
  m.def("is_anomaly_enabled", [] { return autograd::anomaly.on; });
  m.def("is_anomaly_check_nan_enabled", [] { return autograd::anomaly.check_nan; });
  m.def("is_inference_mode_enabled", [] { return autograd::inference_mode(); });
  m.def("_set_inference_mode", [](bool on) { autograd::set_inference_mode(on); });
  m.def("_is_inference", [](nb::handle o) { return autograd::is_inference(tensor_of(o.ptr())); });
  m.def("_increment_version", [](nb::handle o) { ++tensor_of(o.ptr()).storage()->version; });
  m.def("_grad_fn", [](nb::handle o) -> nb::object {
    const Tensor& t = tensor_of(o.ptr());
    if (!t.requires_grad() || t.is_leaf()) return nb::none();
    return node_object(autograd::grad_edge(t).node);
  });
}

}  // namespace tern::python
