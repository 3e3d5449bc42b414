// The engine: runs recorded nodes from the outputs back, latest first, each when all its gradients have
// arrived.
#include <algorithm>
#include <memory>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "tern/autograd/history.h"
#include "tern/base/format.h"
#include "tern/base/warning.h"
#include "tern/dispatch/ladder.h"
#include "tern/ops.h"
#include "tern/tensor/nesting.h"

namespace tern::autograd {
namespace {

struct Task {
  int64_t number = 0;
  const std::unordered_set<GradNode*>* needed = nullptr;       // when only some nodes are
  std::unordered_map<GradNode*, int> waiting;                  // gradients still to come
  std::unordered_map<GradNode*, std::vector<Tensor>> buffers;  // what has come
  std::unordered_map<GradNode*, std::shared_ptr<GradNode>> nodes;
};

// The pass that runs on this thread; a hook may start another one inside.
thread_local Task* running = nullptr;
thread_local int64_t passes = 0;
class Running {
 public:
  explicit Running(Task& task) : before_(std::exchange(running, &task)) { task.number = passes++; }
  ~Running() { running = before_; }
  Running(const Running&) = delete;

 private:
  Task* before_;
};

// Counts, for every node that can be reached, how many edges lead to it.
void explore(Task& task, const std::vector<Edge>& roots) {
  std::vector<GradNode*> stack;
  for (const Edge& e : roots)
    if (e.node && task.nodes.emplace(e.node.get(), e.node).second) stack.push_back(e.node.get());
  while (!stack.empty()) {
    GradNode* node = stack.back();
    stack.pop_back();
    for (const Edge& e : node->edges) {
      if (!e.node) continue;
      ++task.waiting[e.node.get()];
      if (task.nodes.emplace(e.node.get(), e.node).second) stack.push_back(e.node.get());
    }
  }
}

// The nodes on a way to one of the wanted ones; the others need not run.
std::unordered_set<GradNode*> needed_for(const Task& task, const std::vector<Edge>& wanted) {
  std::unordered_map<GradNode*, std::vector<GradNode*>> users;
  for (auto& [node, owner] : task.nodes)
    for (const Edge& e : node->edges)
      if (e.node) users[e.node.get()].push_back(node);
  std::unordered_set<GradNode*> needed;
  std::vector<GradNode*> stack;
  for (const Edge& e : wanted)
    if (e.node && needed.insert(e.node.get()).second) stack.push_back(e.node.get());
  while (!stack.empty()) {
    GradNode* node = stack.back();
    stack.pop_back();
    for (GradNode* user : users[node])
      if (needed.insert(user).second) stack.push_back(user);
  }
  return needed;
}

// Whether `wanted` can be expanded to the gradient: then the gradient is summed to it.
bool fits(const Tensor& grad, Span<const SymInt> wanted) {
  const size_t n = grad.sizes().size(), m = wanted.size();
  if (n < m) return false;
  for (size_t i = 0; i < m; ++i) {
    SymInt have = grad.sizes()[n - m + i], want = wanted[i];
    if (have.is_int() && want.is_int() && have.as_int() != want.as_int() && want.as_int() != 1) return false;
  }
  return true;
}

void check_results(const GradNode& node, const std::vector<Tensor>& results) {
  for (size_t i = 0; i < results.size() && i < node.edges.size(); ++i) {
    const Edge& e = node.edges[i];
    if (!e.node || !results[i].defined()) continue;
    const Shape& wanted = e.node->result_shapes[e.input];
    if (!fits(results[i], wanted.sizes))
      failf(
          "Function {} returned an invalid gradient at index {} - got {} but expected shape compatible with "
          "{}",
          node.name(), i, str(results[i].sizes()), str(wanted.sizes));
    if (!anomaly.on || !anomaly.check_nan || results[i].is_fake()) continue;
    NoGrad no_grad;
    const Tensor value = results[i].is_nested() ? buffer_of(results[i]) : results[i].detach();
    if ((value.is_floating_point() || value.is_complex()) && (value != value).any().item<bool>())
      failf("Function '{}' returned nan values in its {}th output.", node.name(), i);
  }
}

std::vector<Tensor> run_node(GradNode& node, std::vector<Tensor>& grads) {
  if (node.extras)
    for (auto& [number, hook] : node.extras->pre_hooks) hook(grads);
  std::vector<Tensor> results = node.apply(grads);
  if (results.size() > node.edges.size() &&
      std::any_of(results.begin() + static_cast<std::ptrdiff_t>(node.edges.size()), results.end(),
                  [](const Tensor& t) { return t.defined(); }))
    failf("function {} returned an incorrect number of gradients (expected {}, got {})", node.name(),
          node.edges.size(), results.size());
  check_results(node, results);
  if (node.extras && !node.extras->post_hooks.empty()) {
    results.resize(node.edges.size());
    for (auto& [number, hook] : node.extras->post_hooks) hook(results, grads);
  }
  return results;
}

void explain_anomaly(const GradNode& node) {
  const std::string trace = node.extras ? node.extras->trace : "";
  warn("UserWarning",
       fmt::format("Error detected in {}. {}", node.name(),
                   trace.empty()
                       ? "No forward pass information available. Enable detect anomaly during forward "
                         "pass for more information."
                       : "Traceback of forward call that caused the error:\n" + trace));
}

void accumulate(Task& task, const Edge& edge, Tensor grad) {
  std::vector<Tensor>& buffer = task.buffers[edge.node.get()];
  buffer.resize(edge.node->result_shapes.size());
  if (!grad.defined()) return;
  grad = fit_gradient(std::move(grad), edge.node->result_shapes[edge.input]);
  Tensor& slot = buffer[edge.input];
  slot = slot.defined() ? slot + grad : grad;
}

// Runs everything; with `wanted`, gives the gradients that arrive there and touches no leaf.
std::vector<Tensor> execute(const std::vector<Edge>& roots, const std::vector<Tensor>& gradients,
                            const std::vector<Edge>* wanted, bool retain_graph, bool create_graph) {
  Task task;
  Running pass(task);
  explore(task, roots);
  std::unordered_set<GradNode*> needed;
  std::unordered_map<GradNode*, std::vector<std::pair<uint32_t, size_t>>> captures;
  std::vector<Tensor> captured;
  if (wanted) {
    needed = needed_for(task, *wanted);
    task.needed = &needed;
    captured.resize(wanted->size());
    for (size_t i = 0; i < wanted->size(); ++i)
      captures[(*wanted)[i].node.get()].push_back({(*wanted)[i].input, i});
  }

  auto later = [](GradNode* a, GradNode* b) { return a->sequence < b->sequence; };
  std::priority_queue<GradNode*, std::vector<GradNode*>, decltype(later)> ready(later);
  for (size_t i = 0; i < roots.size(); ++i) accumulate(task, roots[i], gradients[i]);
  std::unordered_set<GradNode*> queued;
  for (const Edge& e : roots)
    if (!task.waiting.count(e.node.get()) && queued.insert(e.node.get()).second) ready.push(e.node.get());

  GradMode mode(create_graph);
  while (!ready.empty()) {
    GradNode* node = ready.top();
    ready.pop();
    std::vector<Tensor> grads = std::move(task.buffers[node]);
    task.buffers.erase(node);
    grads.resize(node->result_shapes.size());
    for (size_t r = 0; r < node->hooks.size() && r < grads.size(); ++r)
      for (auto& [number, hook] : node->hooks[r])
        if (grads[r].defined()) grads[r] = run_hook(hook, grads[r]);
    for (auto& [output, target] : node->retained)
      if (target && grads[output].defined())
        target->grad = target->grad.defined() ? target->grad + grads[output]
                                              : tern::clone(grads[output], MemoryFormat::contiguous);
    if (auto it = captures.find(node); it != captures.end()) {
      // The hooks of a leaf, which otherwise run when the gradient is accumulated.
      if (Tensor leaf = node->variable(); leaf.defined() && grads[0].defined())
        for (auto& [number, hook] : autograd_meta(leaf).hooks) grads[0] = run_hook(hook, grads[0]);
      for (auto [input, slot] : it->second) captured[slot] = grads[input];
    }

    std::vector<Tensor> results;
    bool leaf = node->edges.empty();
    bool run = std::any_of(grads.begin(), grads.end(), [](const Tensor& g) { return g.defined(); });
    if (wanted) run = run && !leaf && needed.count(node);
    if (wanted && run) {  // a node all of whose inputs lead nowhere wanted was only captured
      run = std::any_of(node->edges.begin(), node->edges.end(),
                        [&](const Edge& e) { return e.node && needed.count(e.node.get()); });
    }
    if (run) {
      try {
        results = run_node(*node, grads);
      } catch (...) {
        if (anomaly.on) explain_anomaly(*node);
        throw;
      }
      grads.clear();
      if (!retain_graph) node->release();
    }
    for (size_t i = 0; i < node->edges.size(); ++i) {
      const Edge& e = node->edges[i];
      if (!e.node) continue;
      accumulate(task, e, i < results.size() ? results[i] : Tensor());
      if (--task.waiting[e.node.get()] == 0) ready.push(e.node.get());
    }
  }
  return captured;
}

// What backward starts from.
void starts(std::string_view what, Span<const Tensor> outputs, Span<const Tensor> gradients,
            bool create_graph, std::vector<Edge>& roots, std::vector<Tensor>& grads) {
  if (!gradients.empty() && gradients.size() != outputs.size())
    failf("{}: got {} tensors and {} gradients", what, outputs.size(), gradients.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& t = outputs[i];
    Edge edge = grad_edge(t);
    if (!edge.node) failf("element {} of tensors does not require grad and does not have a grad_fn", i);
    Tensor g = i < gradients.size() ? gradients[i] : Tensor();
    if (!g.defined()) {
      if (!(t.numel() == 1)) fail("grad can be implicitly created only for scalar outputs");
      if (t.is_complex())
        failf("grad can be implicitly created only for real scalar outputs but got torch.{}",
              name(t.dtype()));
      GradMode mode(create_graph);
      g = tern::ones_like(t.detach());
    } else if (g.is_nested() != t.is_nested() ||
               (t.is_nested() && !nesting_of(g).same_sizes(nesting_of(t)))) {
      failf("Mismatch in shape: grad_output[{}] and output[{}] are not nested tensors of the same sizes.", i,
            i);
    } else if (g.dim() != t.dim() || !std::equal(g.sizes().begin(), g.sizes().end(), t.sizes().begin(),
                                                 [](SymInt a, SymInt b) { return surely_eq(a, b); })) {
      failf(
          "Mismatch in shape: grad_output[{}] has a shape of torch.Size({}) and output[{}] has a shape of "
          "torch.Size({}).",
          i, str(g.sizes()), i, str(t.sizes()));
    }
    roots.push_back(edge);
    grads.push_back(g);
  }
}

}  // namespace

bool will_run(const GradNode& node) {
  auto* key = const_cast<GradNode*>(&node);
  return running && running->nodes.count(key) && (!running->needed || running->needed->count(key));
}
int64_t current_pass() { return running ? running->number : -1; }

void backward(Span<const Tensor> outputs, Span<const Tensor> gradients, bool retain_graph,
              bool create_graph) {
  std::vector<Edge> roots;
  std::vector<Tensor> grads;
  starts("backward", outputs, gradients, create_graph, roots, grads);
  execute(roots, grads, nullptr, retain_graph || create_graph, create_graph);
}

std::vector<Tensor> grad(Span<const Tensor> outputs, Span<const Tensor> inputs, Span<const Tensor> gradients,
                         GradOptions options) {
  std::vector<Edge> roots, wanted;
  std::vector<Tensor> grads;
  starts("grad", outputs, gradients, options.create_graph, roots, grads);
  for (const Tensor& t : inputs) {
    Edge e = grad_edge(t);
    if (!e.node && !needs_grad(t)) fail("One of the differentiated Tensors does not require grad");
    wanted.push_back(e);
  }
  std::vector<Tensor> result =
      execute(roots, grads, &wanted, options.retain_graph || options.create_graph, options.create_graph);
  for (size_t i = 0; i < result.size(); ++i)
    if (!result[i].defined() && !options.allow_unused)
      failf(
          "The differentiated Tensor at index {} appears to not have been used in the graph. Set "
          "allow_unused=True if this is the desired behavior.",
          i);
  return result;
}

int register_hook(const Tensor& t, Hook hook) {
  if (!t.requires_grad()) fail("cannot register a hook on a tensor that doesn't require gradient");
  Edge e = grad_edge(t);
  AutogradMeta& meta = autograd_meta(t);
  int number = meta.next_hook++;
  if (meta.node) {
    e.node->hooks.resize(std::max<size_t>(e.node->hooks.size(), e.input + 1));
    e.node->hooks[e.input].push_back({number, std::move(hook)});
  } else {
    meta.hooks.push_back({number, std::move(hook)});
  }
  return number;
}

void remove_hook(const Tensor& t, int number) {
  AutogradMeta& meta = autograd_meta(t);
  auto same = [&](const auto& entry) { return entry.first == number; };
  if (meta.node && meta.output < meta.node->hooks.size()) std::erase_if(meta.node->hooks[meta.output], same);
  std::erase_if(meta.hooks, same);
  std::erase_if(meta.post_hooks, same);
}

int register_post_accumulate_hook(const Tensor& leaf, tern::Function<void(const Tensor& leaf)> hook) {
  if (!leaf.is_leaf()) fail("post accumulate grad hooks cannot be registered on non-leaf tensors");
  AutogradMeta& meta = autograd_meta(leaf);
  meta.post_hooks.push_back({meta.next_hook, std::move(hook)});
  return meta.next_hook++;
}

}  // namespace tern::autograd
