#include "tern/jit/trace_check.h"

#include "tern/base/format.h"
#include "tern/base/warning.h"
#include "tern/dispatch/ladder.h"
#include "tern/dispatch/op.h"
#include "tern/ir/pass.h"
#include "tern/ir/text.h"
#include "tern/ops.h"
#include "tern/script/signature.h"
#include "tern/tensor/nesting.h"
#include "tern/tree/tree.h"

namespace tern::jit {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}
std::string indent(std::string_view text) {
  std::string out;
  for (const std::string& line : lines_of(text)) out += (out.empty() ? "\t" : "\n\t") + line;
  return out;
}

// Common lines, and with - and + those of one text only: the longest common subsequence, up to a size.
std::string difference(const std::string& a, const std::string& b) {
  std::vector<std::string> x = lines_of(a), y = lines_of(b);
  size_t head = 0, tail = 0;
  while (head < x.size() && head < y.size() && x[head] == y[head]) ++head;
  while (tail < x.size() - head && tail < y.size() - head && x[x.size() - 1 - tail] == y[y.size() - 1 - tail])
    ++tail;
  std::string text;
  auto put = [&](const char* sign, const std::string& line) { text += sign + line + "\n"; };
  for (size_t i = 0; i < head; ++i) put("  ", x[i]);
  size_t n = x.size() - head - tail, m = y.size() - head - tail;
  if (n * m > 4'000'000) {
    for (size_t i = 0; i < n; ++i) put("- ", x[head + i]);
    for (size_t j = 0; j < m; ++j) put("+ ", y[head + j]);
  } else {
    std::vector<uint32_t> common((n + 1) * (m + 1));
    auto at = [&](size_t i, size_t j) -> uint32_t& { return common[i * (m + 1) + j]; };
    for (size_t i = n; i-- > 0;)
      for (size_t j = m; j-- > 0;)
        at(i, j) = x[head + i] == y[head + j] ? at(i + 1, j + 1) + 1 : std::max(at(i + 1, j), at(i, j + 1));
    for (size_t i = 0, j = 0; i < n || j < m;) {
      if (i < n && j < m && x[head + i] == y[head + j]) {
        put("  ", x[head + i]);
        ++i, ++j;
      } else if (i < n && (j == m || at(i + 1, j) >= at(i, j + 1))) {
        put("- ", x[head + i++]);
      } else {
        put("+ ", y[head + j++]);
      }
    }
  }
  for (size_t i = x.size() - tail; i < x.size(); ++i) put("  ", x[i]);
  return text;
}

// The graph without sizes and with numbers for names: those differ between inputs, the program must not.
Owned<ir::Graph> canonical(const ScriptModule& module, const std::string& method) {
  Owned<ir::Graph> g = module.whole_graph(method);
  ir::lower_tuples(*g);
  ir::dce(*g);
  ir::lists_to_nodes(*g);
  ir::constants_to_nodes(*g);
  auto each_value = [&](auto& self, ir::Block& block, auto&& f) -> void {
    for (ir::Value* v : block.params()) f(*v);
    for (ir::Node& n : block) {
      for (ir::Value* v : n.outputs()) f(*v);
      for (ir::Block* b : n.blocks()) self(self, *b, f);
    }
  };
  // Twice, since a number may be taken by a value that comes later.
  for (const char* prefix : {"canonical_", ""}) {
    size_t next = 0;
    each_value(each_value, g->top(), [&](ir::Value& v) {
      v.set_type(script::plain(v.type()));
      g->set_name(v, fmt::format("{}{}", prefix, next++));
    });
  }
  return g;
}

std::string without_mangling(std::string text) {
  for (size_t at; (at = text.find("___torch_mangle_")) != std::string::npos;)
    text.erase(at, text.find('.', at) + 1 - at);
  return text;
}

std::string text_of(const ir::Node& n) { return without_mangling(ir::print(n, {.origins = false})); }

std::optional<std::string> compare(const Tensor& got, const Tensor& expected, double tolerance) {
  if (got.is_nested() && expected.is_nested()) {
    const Nesting &a = nesting_of(got), &b = nesting_of(expected);
    if (a.count != b.count || a.rank != b.rank)
      return fmt::format("The number of tensors or of their dimensions does not match: {} of {} != {} of {}.",
                         a.count, a.rank, b.count, b.rank);
    for (int64_t i = 0; i < a.count; ++i)
      if (auto why = compare(part_of(got, i), part_of(expected, i), tolerance)) return why;
    return std::nullopt;
  }
  if (str(got.sizes()) != str(expected.sizes()))
    return fmt::format("The values for attribute 'shape' do not match: torch.Size({}) != torch.Size({}).",
                       str(got.sizes()), str(expected.sizes()));
  if (got.int_numel() == 0) return std::nullopt;
  bool complex = got.is_complex() || expected.is_complex();
  DType wide = complex ? DType::complex128 : kDouble;
  Tensor a = got.detach().to(wide), b = expected.detach().to(wide);
  Tensor off = (a - b).abs(), size = b.abs();
  Tensor wrong = logical_not(isclose(a, b, tolerance, 1e-5, true));
  int64_t count = wrong.sum().item<int64_t>();
  if (!count) return std::nullopt;
  return fmt::format(
      "Tensor-likes are not close!\n\nMismatched elements: {} / {} ({:.1f}%)\nGreatest absolute difference: "
      "{} (up to "
      "1e-05 allowed)\nGreatest relative difference: {} (up to {} allowed)",
      count, got.int_numel(), 100.0 * static_cast<double>(count) / static_cast<double>(got.int_numel()),
      off.max().item<double>(), (off / size).max().item<double>(), tolerance);
}

struct Diagnosis {
  std::string graphs, constants;
};

Diagnosis diagnose(const ScriptModule& first, const ScriptModule& second, const std::string& method) {
  Diagnosis d;
  Owned<ir::Graph> a = canonical(first, method), b = canonical(second, method);
  std::string x = without_mangling(ir::torch_text(*a, false)),
              y = without_mangling(ir::torch_text(*b, false));
  auto place = [](const char* what, const ir::Node& n) {
    return n.origin() && n.origin()->has_place() ? fmt::format("{}:\n{}\n", what, indent(n.origin()->place()))
                                                 : "";
  };
  if (x != y) {
    d.graphs = "Graph diff:\n" + indent(difference(x, y)) + "\n";
    auto p = a->top().begin(), q = b->top().begin();
    for (; p != a->top().end() && q != b->top().end(); ++p, ++q) {
      std::string s = text_of(*p), t = text_of(*q);
      if (s == t) continue;
      d.graphs += "First diverging operator:\nNode diff:\n" + indent(difference(s, t)) + "\n";
      d.graphs += place("Trace source location", *p) + place("Check source location", *q);
      break;
    }
  }
  auto p = a->top().begin(), q = b->top().begin();
  for (; p != a->top().end() && q != b->top().end(); ++p, ++q) {
    if (p->kind() != q->kind()) break;  // they have parted already
    if (!p->is("prim::Constant")) continue;
    const tern::Value *s = p->attribute("value"), *t = q->attribute("value");
    if (!s || !t || !s->is_tensor() || !t->is_tensor()) continue;
    if (auto why = compare(s->tensor(), t->tensor(), 1.3e-6)) {
      d.constants = "Node:\n" + indent(text_of(*p)) + "\n" + place("Source Location", *p) +
                    "Comparison exception: " + indent(*why);
      break;
    }
  }
  return d;
}

[[noreturn]] void refuse(const Diagnosis& d, const std::string& more = {}) {
  std::string text = "Tracing failed sanity checks!\n";
  if (!more.empty()) text += more + "\n";
  if (!d.graphs.empty()) text += "ERROR: Graphs differed across invocations!\n" + indent(d.graphs) + "\n";
  if (!d.constants.empty())
    text +=
        "ERROR: Tensor-valued Constant nodes differed in value across invocations. This often indicates that "
        "the "
        "tracer has encountered untraceable code.\n" +
        indent(d.constants) + "\n";
  fail(text);
}

bool draws_numbers(const ir::Node& n) {
  if (!n.op()) return false;
  if (n.op()->is(op_random)) return true;
  // Composites that draw inside, when they are told to.
  std::string_view kind = n.kind().view();
  if (kind == "aten::dropout" || kind == "aten::native_dropout" || kind == "aten::alpha_dropout" ||
      kind == "aten::feature_dropout")
    return !n.input(2).is_constant() || n.input(2).is_none() || n.input(2).constant().to_bool();
  return false;
}

void warn_of_random_nodes(const ScriptModule& module, const std::string& method) {
  Owned<ir::Graph> g = module.whole_graph(method);
  std::string nodes;
  int found = 0;
  for (const ir::Node& n : g->top())
    if (draws_numbers(n) && ++found <= 20) nodes += (nodes.empty() ? "" : "\n") + indent(ir::print(n));
  if (!found) return;
  warn("TracerWarning",
       "Trace had nondeterministic nodes. Did you forget call .eval() on your model? Nodes:\n" + nodes +
           "\nThis may cause errors in trace checking. To disable trace checking, pass check_trace=False to "
           "torch.jit.trace()");
}

// As PyTorch does: what stands at the top of the result, tensors only.
std::vector<Tensor> tensors_of(const tern::Value& v) {
  if (v.is_tensor()) return {v.tensor()};
  std::vector<Tensor> out;
  if (v.is_tuple())
    for (const tern::Value& item : v.items())
      if (item.is_tensor()) out.push_back(item.tensor());
  return out;
}

}  // namespace

std::vector<tern::Value> fresh_copy(const std::vector<tern::Value>& inputs) {
  std::vector<tern::Value> copies;
  for (const tern::Value& v : inputs)
    copies.push_back(tree::map(v, [](const tern::Value& leaf) -> tern::Value {
      if (!leaf.is_tensor()) return leaf;
      Tensor t = leaf.tensor().detach().clone();
      if (leaf.tensor().requires_grad()) t.requires_grad_();
      return t;
    }));
  return copies;
}

void TraceCheck::run(const std::vector<tern::Value>& inputs) const {
  NoGrad no_grad;
  ScriptModule repeated = again(fresh_copy(inputs));
  auto outputs = [&](auto&& call, const char* whose) {
    try {
      return tensors_of(call(fresh_copy(inputs)));
    } catch (const Error& e) {
      refuse(diagnose(traced, repeated, method),
             fmt::format("encountered an exception while running the {} with test inputs.\nException:\n{}",
                         whose, indent(e.what())));
    }
  };
  bool warned = false;
  auto agree = [&](const std::vector<Tensor>& got, const std::vector<Tensor>& expected, const char* whose) {
    bool all = true;
    for (size_t i = 0; i < got.size() && i < expected.size(); ++i) {
      std::optional<std::string> why = compare(got[i], expected[i], tolerance);
      if (!why) continue;
      if (!std::exchange(warned, true)) warn_of_random_nodes(traced, method);
      warn("TracerWarning",
           fmt::format(
               "Output nr {}. of the traced function does not match the corresponding output of the {}. "
               "Detailed error:\n{}",
               i + 1, whose, *why));
      all = false;
    }
    return all;
  };
  std::vector<Tensor> got = outputs([&](const auto& x) { return traced.call(method, x); }, "trace");
  std::vector<Tensor> expected = outputs([&](const auto& x) { return what.call(x); }, "Python function");
  if (agree(got, expected, "Python function"))
    agree(got, outputs([&](const auto& x) { return repeated.call(method, x); }, "repeated trace"),
          "repeated trace");
  Diagnosis d = diagnose(traced, repeated, method);
  if (!d.graphs.empty() || !d.constants.empty()) refuse(d);
}

}  // namespace tern::jit
