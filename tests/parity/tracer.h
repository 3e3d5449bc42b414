// What the tests of traces share: comparing values, files, and PyTorch's checkTrace.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tern/autograd/autograd.h"
#include "tern/base/error.h"
#include "tern/base/warning.h"
#include "tern/dispatch/recording.h"
#include "tern/ir/interpreter.h"
#include "tern/ir/pass.h"
#include "tern/ir/text.h"
#include "tern/jit/archive.h"
#include "tern/jit/layer.h"
#include "tern/jit/trace.h"
#include "tern/nn/nn.h"
#include "tern/ops.h"
#include "tern/script/compile.h"
#include "tern/tree/tree.h"
#include "tests/support/file_check.h"

namespace tern::tracer {

using ::testing::Contains;
using ::testing::Field;
using testing::FileCheck;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;
using Values = std::vector<Value>;
using Tensors = std::vector<Tensor>;

inline void expect_same(const Tensor& a, const Tensor& b, double tolerance = 1e-5) {
  ASSERT_EQ(a.defined(), b.defined());
  if (!a.defined()) return;
  ASSERT_EQ(a.dtype(), b.dtype());
  ASSERT_EQ(a.is_nested(), b.is_nested());
  if (a.is_nested()) {
    const std::vector<Tensor> x = a.unbind(), y = b.unbind();
    ASSERT_EQ(x.size(), y.size());
    for (size_t i = 0; i < x.size(); ++i) expect_same(x[i], y[i], tolerance);
    return;
  }
  ASSERT_EQ(str(a.sizes()), str(b.sizes()));
  std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(x[i], y[i], tolerance * (1 + std::abs(y[i]))) << "element " << i;
}
inline void expect_same(const Tensors& a, const Tensors& b, double tolerance = 1e-5) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) expect_same(a[i], b[i], tolerance);
}
// Containers of the same kind, with the same keys and values.
inline void expect_same(const Value& a, const Value& b, double tolerance = 1e-5) {
  ASSERT_EQ(a.kind(), b.kind()) << a.str() << " and " << b.str();
  if (a.is_dict()) {
    ASSERT_EQ(a.entries().size(), b.entries().size());
    for (size_t i = 0; i < a.entries().size(); ++i) {
      expect_same(a.entries()[i].first, b.entries()[i].first, tolerance);
      expect_same(a.entries()[i].second, b.entries()[i].second, tolerance);
    }
  } else if (a.is_tuple() || a.is_list()) {
    ASSERT_EQ(a.items().size(), b.items().size());
    for (size_t i = 0; i < a.items().size(); ++i) expect_same(a.items()[i], b.items()[i], tolerance);
  } else if (a.is_tensor()) {
    expect_same(a.tensor(), b.tensor(), tolerance);
  } else {
    EXPECT_TRUE(a.equals(b)) << a.str() << " and " << b.str();
  }
}

inline std::string text(const jit::ScriptModule& m) { return ir::torch_text(m.graph()); }
inline size_t count_nodes(const ir::Graph& graph, std::string_view kind) {
  size_t n = 0;
  for (const ir::Node& node : graph.top()) n += node.is(kind);
  return n;
}

inline jit::ScriptModule saved_and_loaded(const jit::ScriptModule& m) {
  std::string path = ::testing::TempDir() + "tracer_" +
                     ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".pt";
  m.save(path);
  jit::ScriptModule loaded = jit::load(path);
  std::remove(path.c_str());
  return loaded;
}
// A graph alone gives the same numbers once it was written to a file and read back.
inline void check_export_import(const ir::Graph& graph, const Values& inputs) {
  jit::ScriptModule m = jit::make_module("Graph", graph, {});
  expect_same(saved_and_loaded(m).forward(inputs), m.forward(inputs));
}

// A new leaf for every tensor in the inputs.
inline Values leaves_of(const Values& inputs, bool requires_grad, Tensors* made = nullptr) {
  Values copies;
  for (const Value& v : inputs)
    copies.push_back(tree::map(v, [&](const Value& leaf) -> Value {
      if (!leaf.is_tensor()) return leaf;
      Tensor t = leaf.tensor().detach().clone();
      if (requires_grad) t.requires_grad_();
      if (made) made->push_back(t);
      return t;
    }));
  return copies;
}
inline Tensor sum_of_all(const Tensors& tensors) {
  Tensor total = tensor(0.0);
  for (const Tensor& t : tensors)
    if (t.defined()) total = total + t.sum();
  return total;
}

struct CheckTrace {
  bool inputs_require_grads = true;
  bool allow_unused = false;
  size_t drop = 0;  // outputs at the end that have no part in the loss
  Values other_inputs = {};
};

// PyTorch's checkTrace: the trace, also after a file, has the function's outputs, gradients and gradients of
// gradients.
template <class F>
jit::ScriptModule check_trace(F& f, const Values& inputs, const CheckTrace& options = {}) {
  const Values& used = options.other_inputs.empty() ? inputs : options.other_inputs;
  jit::ScriptModule first = jit::trace(f, leaves_of(inputs, false));
  jit::ScriptModule traced = saved_and_loaded(first);
  auto eager = nn::as_callable(f);
  expect_same(first.forward(leaves_of(used, false)), eager(leaves_of(used, false)));
  expect_same(traced.forward(leaves_of(used, false)), eager(leaves_of(used, false)));
  if (!options.inputs_require_grads) return traced;

  auto derivatives = [&](auto&& call) {
    Tensors wanted;
    Values given = leaves_of(used, true, &wanted);
    Tensors outputs = tree::tensors(call(given));
    if (options.drop) outputs.resize(outputs.size() - options.drop);
    Tensor l1 = sum_of_all(outputs);
    Tensors grads = autograd::grad(Tensors{l1}, wanted, {}, {.create_graph = true, .allow_unused = true});
    Tensor l2 = sum_of_all(grads) * l1;
    Tensors second = autograd::grad(Tensors{l2}, wanted, {}, {.allow_unused = true});
    return std::pair(grads, second);
  };
  auto expected = derivatives(eager);
  for (const Tensor& g : expected.first) EXPECT_TRUE(g.defined() || options.allow_unused);
  for (const jit::ScriptModule& m : {first, traced}) {
    auto got = derivatives([&](const Values& given) { return m.forward(given); });
    expect_same(got.first, expected.first);
    expect_same(got.second, expected.second, 8e-4);
  }
  return traced;
}

// The warnings of a piece of code.
template <class F>
std::vector<std::string> tracer_warnings(F&& f) {
  std::vector<std::string> texts;
  OnWarning listen([&](const Warning& w) {
    EXPECT_EQ(w.category, "TracerWarning") << w.text;
    texts.push_back(w.text);
  });
  f();
  return texts;
}

}  // namespace tern::tracer
