// Traces and sizes: what is read off a tensor's shape is recorded, so that the trace fits other shapes.
#include <algorithm>

#include "tern/ops/subscript.h"
#include "tern/tensor/files.h"
#include "tests/parity/tracer.h"

namespace tern {
namespace {

using namespace tracer;

TEST(Tracer, trace_size_with_grad) {
  auto fn = [](Tensor x) { return x.view({x.size(1) * 2, x.size(0), 2}); };
  Tensor x = randn({5, 2, 4}).requires_grad_(), y = randn({4, 8, 4}).requires_grad_();
  jit::ScriptModule traced = jit::trace(fn, {x});
  for (const Tensor& t : {y, x}) {
    Tensor got = traced.forward(Values{t}).tensor();
    expect_same(got, fn(t));
    expect_same(autograd::grad(Tensors{(got * got).sum()}, Tensors{t})[0], 2 * t.detach());
  }
}

void check_trace_arange(bool requires_grad) {
  auto by_size = [](Tensor x) { return arange(x.size(0)); };
  auto scalar = [](Tensor) { return arange(12); };
  auto start_end = [](Tensor x) { return arange(x.size(0), x.size(0) + 5); };
  Tensor x = randn({5, 3, 2}).requires_grad_(requires_grad),
         y = randn({8, 2, 4}).requires_grad_(requires_grad);
  auto check = [&](auto& f) {
    jit::ScriptModule traced = jit::trace(f, {x});
    expect_same(traced.forward(Values{y}).tensor(), f(y));
    expect_same(traced.forward(Values{x}).tensor(), f(x));
  };
  check(by_size);
  check(scalar);
  check(start_end);
}
TEST(Tracer, trace_arange) { check_trace_arange(false); }
TEST(Tracer, trace_arange_with_grad) { check_trace_arange(true); }

TEST(Tracer, trace_full_dynamic_shape) {
  auto full_with_shape_like = [](Tensor x) { return full(shape(x), 2.0); };
  Tensor x = randn({3, 4}), y = randn({2, 7});
  jit::ScriptModule traced = jit::trace(full_with_shape_like, {x});
  EXPECT_EQ(str(traced.forward(Values{y}).tensor().sizes()), "[2, 7]");
  EXPECT_EQ(str(traced.forward(Values{x}).tensor().sizes()), "[3, 4]");
}

TEST(Tracer, trace_slice_full_dim) {
  auto foo = [](Tensor x) { return subscript(x, {Slice{0, 5}, 0}) + 1.0; };
  jit::ScriptModule traced = jit::trace(foo, {rand({5, 4})});
  Tensor test_x = rand({6, 3});
  expect_same(traced.forward(Values{test_x}).tensor(), foo(test_x));
}

TEST(Tracer, tracing_slicing) {
  auto foo = [](Tensor x) { return x.slice(0, -5, -3); };
  auto foo_trace = jit::trace_function(foo, {zeros({10})});
  auto foo_script = script::compile_function("def foo_script(x):\n  return x[-5:-3]\n");
  Tensor a = arange(0, 8), b = arange(0, 20);
  expect_same(foo_trace->call(Values{a}), foo_script->call(Values{a}));
  expect_same(foo_trace->call(Values{a}).tensor(), foo(a));
  EXPECT_NE(foo_trace->call(Values{a}).tensor().to_vector<double>(),
            foo_trace->call(Values{b}).tensor().to_vector<double>());
}

TEST(Tracer, tracing_indexing) {
  auto foo = [](Tensor x) { return x[-2]; };
  auto foo_trace = jit::trace_function(foo, {zeros({10})});
  auto foo_script = script::compile_function("def foo_script(x):\n  return x[-2]\n");
  Tensor a = arange(0, 8), b = arange(0, 20);
  expect_same(foo_trace->call(Values{a}), foo_script->call(Values{a}));
  expect_same(foo_trace->call(Values{a}).tensor(), foo(a));
  EXPECT_NE(foo_trace->call(Values{a}).tensor().item<int64_t>(),
            foo_trace->call(Values{b}).tensor().item<int64_t>());
}

TEST(Tracer, trace_index) {
  Tensor x = tensor({0.4f}).requires_grad_(), y = tensor({0}, {.dtype = kLong});
  auto fn = [](Tensor x, Tensor y) { return subscript(x, {y}); };
  jit::ScriptModule traced = jit::trace(fn, {x, y});
  expect_same(traced.forward(Values{x, y}).tensor(), fn(x, y));
}

TEST(Tracer, trace_index_constant) {
  Tensor x = tensor({0.4f}).requires_grad_();
  auto fn = [](Tensor x) { return x[0]; };
  jit::ScriptModule traced = jit::trace(fn, {ones({1})});
  auto run = [&](auto&& f) {
    Tensor y = f(x);
    return Tensors{y, autograd::grad(Tensors{y}, Tensors{x})[0].clone()};
  };
  expect_same(run([&](Tensor t) { return traced.forward(Values{t}).tensor(); }), run(fn));
}

struct TopK : nn::Module {
  Tensor forward(Tensor x, Tensor y) { return std::get<1>(topk(x, y.item().sym(), 1)); }
};
TEST(Tracer, trace_topk) {
  TopK mod;
  jit::ScriptModule traced;
  std::vector<std::string> warnings = tracer_warnings([&] {
    traced = jit::trace(mod, {randint(0, 10, {20, 20}), tensor(17)});
  });
  EXPECT_THAT(warnings, ::testing::IsEmpty());
  for (auto [n, k] : {std::pair(9, 8), std::pair(50, 12)}) {
    Tensor x = randperm(n * n).view({n, n}), count = tensor(k);
    expect_same(traced.forward(Values{x, count}).tensor(), mod.forward(x, count));
    EXPECT_THAT(tracer_warnings([&] { traced.forward(Values{x, count}); }), ::testing::IsEmpty());
  }
}

TEST(Tracer, trace_warn) {
  std::string path = ::testing::TempDir() + "tracer_warn.npy";
  auto fn = [&](Tensor x) {
    x.item<int64_t>();
    Tensor y = x * 1;
    if ((y != 0).item<bool>()) y = y * 1;
    Tensor z = x * 4;
    (z * 1.0).item<double>();
    z.to_vector<double>();
    save_npy(path, z);
    for ([[maybe_unused]] const Tensor& row : each_row(ones({4, 4}))) continue;
    return z + 4;
  };
  std::vector<std::string> warnings =
      tracer_warnings([&] { jit::trace(fn, {tensor({1}, {.dtype = kLong})}, {.check_trace = false}); });
  std::remove(path.c_str());
  ASSERT_EQ(warnings.size(), 6u);
  EXPECT_THAT(warnings[0], HasSubstr("a Python integer might cause the trace to be incorrect"));
  EXPECT_THAT(warnings[1], HasSubstr("a Python boolean"));
  EXPECT_THAT(warnings[2], HasSubstr("a Python float"));
  EXPECT_THAT(warnings[3], HasSubstr("a Python list"));
  EXPECT_THAT(warnings[4], HasSubstr("a NumPy array"));
  EXPECT_THAT(warnings[5], HasSubstr("Iterating over"));
}

struct Recurrence : nn::Module {
  int64_t seq_len;
  explicit Recurrence(int64_t n) : seq_len(n) {}
  Tensor forward(Tensor input) {
    input = input.transpose(0, 1);
    Tensors output;
    for (int64_t i = 0; i < seq_len; ++i) output.push_back(input[i] * 2);
    Dims sizes{input.size(0)};
    for (SymInt s : shape(output[0])) sizes.push_back(s);
    return cat(output, 0).view(sizes).transpose(0, 1);
  }
};
TEST(Tracer, large_nbr_kernel_args) {
  const int64_t input_size = 8, batch_size = 2, seq_len = 130;
  Recurrence rec(seq_len);
  Tensor input = rand({batch_size, seq_len, input_size});
  jit::ScriptModule traced = jit::trace(rec, {input});
  EXPECT_EQ(count_nodes(traced.graph(), "aten::mul"), 130u);
  expect_same(traced.forward(Values{input}).tensor(), input * 2);
  // The same graph without data.
  Tensor on_meta = traced.forward(Values{rand({3, seq_len, 4}).to(kMeta)}).tensor();
  EXPECT_EQ(str(on_meta.sizes()), "[3, 130, 4]");
}

TEST(Tracer, canonicalize_tensor_iterator) {
  Tensor x = randn({4, 4});
  auto f = [](Tensor x) {
    x = x + 2;
    x = x - 4;
    x = x * 6;
    x = x / 8;
    return x;
  };
  jit::ScriptModule traced = jit::trace(f, {x});
  expect_same(traced.forward(Values{x}).tensor(), f(x));
  std::string graph = ir::torch_text(*traced.optimized_graph());
  EXPECT_TRUE(FileCheck().check_count(": int = prim::Constant", 5, true).run(graph));
}

}  // namespace
}  // namespace tern
