// Traces: what the checker finds, gradients through traces, and functions with a backward of their own.
#include "tests/parity/tracer.h"

namespace tern {
namespace {

using namespace tracer;
using autograd::Context;

TEST(Tracer, trace_checker_dot_data) {
  // A handle without history or record: what `.data` is.
  auto foo = [](Tensor x) { return x + x.shallow_copy(); };
  EXPECT_THAT(
      [&] {
        jit::trace(foo, {rand({3, 4})}, {.check_inputs = {{rand({3, 4})}}});
      },
      ThrowsMessage<Error>(HasSubstr("Tensor-valued Constant nodes differed in value across invocations")));
}

TEST(Tracer, trace_checker_memoization) {
  Tensor cache;
  auto foo = [&](Tensor x) {
    if (!cache.defined()) cache = neg(x);
    return x + cache;
  };
  EXPECT_THAT(
      [&] {
        jit::trace(foo, {rand({3, 4})}, {.check_inputs = {{rand({3, 4})}}});
      },
      ThrowsMessage<Error>(::testing::AllOf(HasSubstr("Graphs differed across invocations!"),
                                            HasSubstr("First diverging operator"), HasSubstr("aten::neg"))));
}

TEST(Tracer, trace_checker_dropout_train) {
  auto foo = [](Tensor x) { return dropout(x, 0.5, true); };
  std::vector<std::string> warnings = tracer_warnings([&] {
    jit::trace(foo, {rand({3, 4})}, {.check_inputs = {{rand({5, 6})}}});
  });
  EXPECT_THAT(warnings,
              Contains(HasSubstr("Output nr 1. of the traced function does not match the corresponding "
                                 "output of the Python function")));
  EXPECT_THAT(warnings, Contains(::testing::AllOf(HasSubstr("Trace had nondeterministic nodes"),
                                                  HasSubstr("aten::dropout"))));
}

TEST(Tracer, trace_checker_dropout_notrain) {
  Tensor input = rand({3, 4});
  auto foo = jit::trace_function([](Tensor x) { return dropout(x, 0.5, false); }, {input});
  expect_same(foo->call(Values{input}).tensor(), input);
}

// ---- gradients ----

void check_ge(auto&& rand) {
  auto fused = [](Tensor a, Tensor b) { return a * b + b; };
  check_trace(fused, {rand(Dims{1}), rand(Dims{1})}, {.other_inputs = {rand(Dims{2, 3}), rand(Dims{2, 3})}});
  auto swapped = [](Tensor a, Tensor b) { return std::tuple(b, a); };
  check_trace(swapped, {rand(Dims{1}), rand(Dims{1})});
  auto foo = [](Tensor a) {
    Tensor t = a * a;
    return std::tuple(t * t, 4 * t);
  };
  check_trace(foo, {rand(Dims{1})});
  auto unused = [](Tensor a, Tensor) { return a * a; };
  check_trace(unused, {rand(Dims{1}), rand(Dims{1})}, {.allow_unused = true});
  check_trace(foo, {rand(Dims{1})}, {.drop = 1});
  auto quotient = [](Tensor a, Tensor b) { return a * b / (a - 2 * b) + b; };
  check_trace(quotient, {rand(Dims{1}), rand(Dims{1}) + 1});
}
Tensor random(Span<const SymInt> sizes) { return rand(sizes); }
TEST(Tracer, ge_unoptimized) { check_ge(random); }
TEST(Tracer, ge_optimized) {
  check_ge(random);
  // What the optimiser makes of a graph has the same numbers.
  auto f = [](Tensor a, Tensor b) { return a * b / (a - 2 * b) + b; };
  jit::ScriptModule traced = jit::trace(f, {rand({1}), rand({1})});
  std::unique_ptr<ir::Graph> graph = traced.optimized_graph();
  Tensor a = rand({2, 3}), b = rand({2, 3}) + 1;
  expect_same(ir::run(*graph, Values{traced.object(), a, b})[0].tensor(), f(a, b));
}
// No GPU here: double precision takes its place as the other kind of tensor.
TEST(Tracer, ge_cuda) {
  check_ge([](Span<const SymInt> sizes) { return random(sizes).to(kDouble); });
}

TEST(Tracer, export_no_reorder) {
  auto func = [](Tensor a, Tensor b) { return a * b / (a - 2 * b) + b; };
  Tensor a = tensor({0.55619788169860839844f}).requires_grad_(),
         b = tensor({0.25947844982147216797f}).requires_grad_();
  jit::ScriptModule ge1 = jit::trace(func, {a, b}), ge2 = saved_and_loaded(ge1);
  Tensor out1 = ge1.forward(Values{a, b}).tensor(), out2 = ge2.forward(Values{a, b}).tensor();
  EXPECT_EQ(out1.item<float>(), out2.item<float>());  // to the last bit
  Tensors g1 = autograd::grad(Tensors{out1}, Tensors{a, b}),
          g2 = autograd::grad(Tensors{out2}, Tensors{a, b});
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(g1[i].item<float>(), g2[i].item<float>());
}

// ---- functions with a backward of their own ----

struct PlusOne : autograd::Function<PlusOne> {
  static Tensors forward(Context&, Span<const Tensor> x) { return {x[0] + 1}; }
  static Tensors backward(Context&, Span<const Tensor> g) { return {g[0] * 10}; }
};
TEST(Tracer, python_function) {
  auto fn = jit::trace_function([](Tensor x) { return PlusOne::apply({x + 2})[0] + 3; }, {zeros({2})});
  EXPECT_TRUE(
      FileCheck().check("aten::add").check("^PlusOne").check("aten::add").run(ir::torch_text(fn->graph())));
  Tensor x = tensor({1.0f, 2.0f, 3.0f}), y = randn({2, 2}).requires_grad_();
  expect_same(fn->call(Values{x}).tensor(), x + 6);
  Tensor out = fn->call(Values{y}).tensor();
  expect_same(autograd::grad(Tensors{out.sum()}, Tensors{y})[0],
              full({2, 2}, 10.0));  // its own backward runs
}

struct PlusMinus : autograd::Function<PlusMinus> {
  static Tensors forward(Context&, Span<const Tensor> x) { return {x[0] + 1, x[0] - 1}; }
  static Tensors backward(Context&, Span<const Tensor> g) { return {g[0] + g[1]}; }
};
TEST(Tracer, python_function_tup) {
  auto fn = jit::trace_function(
      [](Tensor x) {
        Tensors ab = PlusMinus::apply({x + 2});
        return ab[0] + ab[1] + 3;
      },
      {zeros({2})});
  Tensor x = tensor({1.0f, 2.0f, 3.0f}), y = randn({2, 2}).requires_grad_();
  expect_same(fn->call(Values{x}).tensor(), 2 * x + 7);
  Tensor out = fn->call(Values{y}).tensor();
  expect_same(out.detach(), (2 * y + 7).detach());
  expect_same(autograd::grad(Tensors{out.sum()}, Tensors{y})[0], full({2, 2}, 2.0));
}

struct Negative : autograd::Function<Negative> {
  static Tensors forward(Context&, Span<const Tensor> x) { return {neg(x[0])}; }
  static Tensors backward(Context&, Span<const Tensor> g) { return {neg(g[0])}; }
};
struct ReluOfNegative : nn::Layer<ReluOfNegative> {
  Tensor forward(Tensor x) { return relu(Negative::apply({x})[0]); }
};
struct WrapsIt : nn::Module {
  ReluOfNegative tm = add("tm", ReluOfNegative());
  Tensor forward(Tensor x) { return tm(x); }
};
TEST(Tracer, trace_autograd_function) {
  jit::ScriptModule traced = jit::trace(WrapsIt(), {rand({3, 4})});
  EXPECT_TRUE(FileCheck().check("^Negative").check("aten::relu").run(text(traced.submodule("tm"))));
  Tensor x = randn({3, 4});
  expect_same(traced.forward(Values{x}).tensor(), relu(-x));
}

struct Swap : autograd::Function<Swap> {
  static Tensors forward(Context&, Span<const Tensor> x) { return {x[1], x[0]}; }
  static Tensors backward(Context&, Span<const Tensor> g) { return {g[1], g[0]}; }
};
struct SwapsRelus : nn::Module {
  std::tuple<Tensor, Tensor> forward(Tensor x, Tensor y) {
    Tensors z = Swap::apply({x.relu(), y.relu()});
    return {z[0], z[1]};
  }
};
TEST(Tracer, trace_multi_output_function) {
  Tensor x = rand({3, 2}, kDouble), y = rand({1, 2}, kDouble);
  jit::ScriptModule traced = jit::trace(SwapsRelus(), {x, y});
  EXPECT_TRUE(FileCheck()
                  .check("(Double(1, 2, strides=[2, 1], requires_grad=0, device=cpu), "
                         "Double(3, 2, strides=[2, 1], requires_grad=0, device=cpu)) = ^Swap")
                  .run(text(traced)));
  expect_same(traced.forward(Values{x, y}), Value::tuple({y, x}));
}

}  // namespace
}  // namespace tern
