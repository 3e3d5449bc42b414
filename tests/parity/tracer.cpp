// The cases of the seed tracer.py, as a C++ user would write them: the basics. Others are in tracer_*.cpp.
#include "tests/parity/tracer.h"

namespace tern {
namespace {

using namespace tracer;

// The matcher itself: what it must refuse.
TEST(Tracer, file_check) {
  const char* lines = "a = mul\nb = add, one\nreturn b\n";
  EXPECT_TRUE(FileCheck().check("mul").check_next("add").check_same("one").check_not("mul").run(lines));
  EXPECT_FALSE(FileCheck().run(lines));
  EXPECT_FALSE(FileCheck().check("add").check("mul").run(lines));
  EXPECT_FALSE(FileCheck().check("mul").check_next("return").run(lines));
  EXPECT_FALSE(FileCheck().check("mul").check_same("add").run(lines));
  EXPECT_FALSE(FileCheck().check("mul").check_not("add").check("return").run(lines));
  EXPECT_FALSE(FileCheck().check("mul").check_not("return").run(lines));
  EXPECT_FALSE(FileCheck().check_count(" = ", 3).run(lines));
  EXPECT_FALSE(FileCheck().check_count(" = ", 1, true).run(lines));
  EXPECT_TRUE(FileCheck().check_count(" = ", 2, true).check_next("return").run(lines));
}

TEST(Tracer, simple) {
  Tensor x = tensor({0.4f}).requires_grad_(), y = tensor({0.7f}).requires_grad_();
  auto f = [](Tensor x, Tensor y) { return sigmoid(tanh(x * (x + y))); };
  jit::ScriptModule traced = check_trace(f, {x, y});
  EXPECT_TRUE(FileCheck()
                  .check("aten::add")
                  .check("aten::mul")
                  .check("aten::tanh")
                  .check("aten::sigmoid")
                  .check_next("return")
                  .run(text(traced)));
}

TEST(Tracer, trace_tuple) {
  using Pair = std::tuple<Tensor, Tensor>;
  auto fn = [](Tensor x, Pair y) {
    return std::tuple(x, std::tuple(x * std::get<1>(y), x * std::get<0>(y)));
  };
  Tensor x = randn({2, 2});
  Pair y(ones({2, 2}), randn({2, 2}));
  Values inputs{x, tree::to_value(y)};
  jit::ScriptModule traced = jit::trace(fn, inputs);
  expect_same(traced.forward(inputs), tree::to_value(fn(x, y)));
  EXPECT_TRUE(
      FileCheck().check_count("prim::TupleConstruct", 2, true).check_next("return").run(text(traced)));
  expect_same(saved_and_loaded(traced).forward(inputs), tree::to_value(fn(x, y)));
}

TEST(Tracer, trace_size) {
  auto fn = [](Tensor x) { return x.view({x.size(1) * 2, x.size(0), 2}); };
  Tensor x = randn({5, 2, 4}), y = randn({4, 8, 4});
  jit::ScriptModule traced = jit::trace(fn, {x});
  expect_same(traced.forward(Values{y}), fn(y));
  expect_same(traced.forward(Values{x}), fn(x));
}

void check_trace_slice(bool requires_grad) {
  auto slice = [](Tensor x) {
    Values results;
    for (int i = 0; i < 4; ++i)
      results.push_back(x.slice(0, {}, x.size(0) - i).slice(1, i, x.size(2)).slice(2, i, 3));
    return Value::tuple(results);
  };
  auto slice_select = [](Tensor x) {
    Values results;
    for (int i = 0; i < 4; ++i) results.push_back(x.slice(0).slice(1, i).select(2, x.size(2) - 5));
    return Value::tuple(results);
  };
  Tensor x = randn({5, 6, 7}).requires_grad_(requires_grad);
  Tensor y = randn({7, 8, 9}).requires_grad_(requires_grad);
  auto check = [&](auto& f) {
    jit::ScriptModule traced = jit::trace(f, {x});
    for (const Tensor& t : {y, x}) {
      Value got = traced.forward(Values{t}), expected = f(t);
      expect_same(got, expected);
      if (!requires_grad) continue;
      expect_same(autograd::grad(Tensors{sum_of_all(tree::tensors(got))}, Tensors{t}),
                  autograd::grad(Tensors{sum_of_all(tree::tensors(expected))}, Tensors{t}));
    }
  };
  check(slice);
  check(slice_select);
}
TEST(Tracer, trace_slice) { check_trace_slice(false); }
TEST(Tracer, trace_slice_with_grad) { check_trace_slice(true); }

TEST(Tracer, trace_casts) {
  auto check = [](auto cast) {
    jit::ScriptModule traced = jit::trace(cast, {randn({2, 2})});
    EXPECT_EQ(count_nodes(traced.graph(), "aten::to"), 1u) << text(traced);
    Tensor x = rand({2, 2}) * 5;
    expect_same(traced.forward(Values{x}).tensor(), cast(x));
  };
  check([](Tensor x) { return x.to(kByte); });
  check([](Tensor x) { return x.to(kFloat); });
  check([](Tensor x) { return x.cpu(); });
  check([](Tensor x) { return x.to(kCPU); });
  check([](Tensor x) { return x.to(kLong); });
  check([](Tensor x) { return x.to(kCPU, kFloat); });
  check([](Tensor x) { return x.to(x); });

  auto to_tensor = [](Tensor x, Tensor y) { return x.to(y); };
  jit::ScriptModule traced = jit::trace(to_tensor, {randn({2, 2}), randn({1, 8})});
  EXPECT_EQ(count_nodes(traced.graph(), "aten::to"), 1u) << text(traced);
  Tensor x = randn({2, 2}), y = randn({1, 10});
  expect_same(traced.forward(Values{x, y}).tensor(), to_tensor(x, y));
}

TEST(Tracer, inplace_transplant) {
  Tensor x = tensor({0.0f}).requires_grad_();
  auto fn = [](Tensor x) {
    Tensor y = x.clone();
    y.add_(2);
    y.add_(3);
    return y;
  };
  jit::TracedGraph traced = jit::trace_graph(fn, {x});
  ir::run_pass(*traced.graph, "dce");
  EXPECT_TRUE(FileCheck()
                  .check_count("aten::clone", 1, true)
                  .check_count("aten::add_", 2, true)
                  .check_next("return")
                  .run(ir::torch_text(*traced.graph)));
  expect_same(ir::run(*traced.graph, Values{x})[0].tensor(), tensor({5.0f}));
  check_export_import(*traced.graph, {x});
}

TEST(Tracer, inplace_copy) {
  Tensor x = randn({4, 4}).requires_grad_();
  auto f = [](Tensor x) {
    Tensor out = zeros(shape(x));
    out.copy_(x);
    return out;
  };
  jit::TracedGraph traced = jit::trace_graph(f, {x});
  ir::run_pass(*traced.graph, "dce");
  EXPECT_TRUE(FileCheck().check("aten::zeros").check("aten::copy_").run(ir::torch_text(*traced.graph)));
  Values inputs(traced.inputs.begin(), traced.inputs.end());
  expect_same(ir::run(*traced.graph, inputs)[0], traced.outputs);
  check_export_import(*traced.graph, {x});
}

TEST(Tracer, trace_checker_control_flow) {
  auto foo = [](Tensor x) {
    for (int i = 0; i < x.size(0); ++i) x = neg(x);
    return x;
  };
  EXPECT_THAT(
      [&] {
        jit::trace(foo, {randn({3, 4})}, {.check_inputs = {{randn({4, 4})}}});
      },
      ThrowsMessage<Error>(HasSubstr("Graphs differed across invocations!")));
}

TEST(Tracer, trace_checker_inplace_on_view) {
  auto foo = [](Tensor x) {
    x.view({-1}).add_(-x.view({-1}));
    return x;
  };
  std::vector<Warning> warnings;
  OnWarning listen([&](const Warning& w) { warnings.push_back(w); });
  jit::trace(foo, {rand({3, 4})}, {.check_inputs = {{rand({5, 6})}}, .force_outplace = true});
  EXPECT_THAT(warnings,
              Contains(::testing::AllOf(
                  Field(&Warning::category, "TracerWarning"),
                  Field(&Warning::text, HasSubstr("Output nr 1. of the traced function does not match the "
                                                  "corresponding output of the Python function")))));
}

TEST(Tracer, conv) {
  Tensor x = ones({20, 16, 50, 40});
  jit::TracedGraph traced =
      jit::trace_graph(nn::Conv2d({.in = 16, .out = 13, .kernel = 3, .bias = false}), {x});
  EXPECT_EQ(traced.graph->inputs().size(), 2u);
  Values inputs(traced.inputs.begin(), traced.inputs.end());
  expect_same(ir::run(*traced.graph, inputs)[0], traced.outputs);
}

TEST(Tracer, max_pool) {
  Tensor x = rand({20, 16, 10, 10});
  auto max_pool2d = [](Tensor x) { return nn::F::max_pool2d(x, 2) + 2; };
  jit::ScriptModule traced = jit::trace(max_pool2d, {x});
  EXPECT_TRUE(FileCheck().check("aten::max_pool2d(").run(ir::torch_text(*traced.graph_for(Values{x}))));
  expect_same(traced.forward(Values{x}).tensor(), max_pool2d(x));
}

struct SharedParameter : nn::Module {
  nn::Parameter a = register_parameter("a", randn({2, 2})), b = register_parameter("b", a);
  Tensor forward(Tensor x) { return x * a + b; }
};
TEST(Tracer, shared_param) {
  jit::TracedGraph traced = jit::trace_graph(SharedParameter(), {randn({2, 2})});
  ir::run_pass(*traced.graph, "dce");
  EXPECT_EQ(traced.graph->inputs().size(), 2u);
  EXPECT_TRUE(FileCheck().check("mul").check("add").run(ir::torch_text(*traced.graph)));
}

TEST(Tracer, ge) {
  auto foo = [](Tensor a, Tensor b) { return a * b / (a - b) + b; };
  jit::ScriptModule traced = jit::trace(foo, {rand({1}), rand({1})});
  Tensor a = rand({1}).requires_grad_(), b = rand({1}).requires_grad_();
  auto derivatives = [&](const Tensor& r) {
    Tensors d = autograd::grad(Tensors{r + 3}, Tensors{a, b}, {}, {.create_graph = true});
    Tensors second = autograd::grad(Tensors{d[0] * d[1] + d[1] * d[1]}, d);
    d.insert(d.end(), second.begin(), second.end());
    return d;
  };
  Tensors got = derivatives(traced.forward(Values{a, b}).tensor()[0]);
  ASSERT_EQ(got.size(), 4u);
  expect_same(got, derivatives(foo(a, b)));
}

TEST(Tracer, trace_save) {
  auto fn = [](Tensor x) { return x + 2; };
  jit::ScriptModule traced = jit::trace(fn, {ones({2, 2})});
  Tensor input = randn({2, 2});
  expect_same(saved_and_loaded(traced).forward(Values{input}), traced.forward(Values{input}));
  expect_same(traced.forward(Values{input}).tensor(), fn(input));
}

TEST(Tracer, trace_linear) {
  nn::Linear m(20, 20);
  Tensor inp = rand({20, 20});
  check_trace(m, {inp});
  EXPECT_TRUE(FileCheck().check("aten::linear").run(text(jit::trace(m, {inp}))));
}

TEST(Tracer, trace_of_script) {
  auto foo = script::compile_function(R"(
def foo(a, c):
  b = 0.0
  if bool(a == 0.0):
    b = 1.0
  return b + c
)");
  Tensor a = ones({1});
  auto use = [&](Tensor b) { return foo->call(Values{b - 1.0, a}).tensor() + 1.0; };
  jit::ScriptModule traced = jit::trace(use, {zeros({1})});
  EXPECT_TRUE(FileCheck()
                  .check_not("Dynamic")
                  .check("aten::sub")
                  .check("name=\"foo\"")
                  .check_next("prim::CallFunction")
                  .check("aten::add")
                  .run(text(traced)));
  for (const jit::ScriptModule& m : {traced, saved_and_loaded(traced)}) {
    EXPECT_EQ(m.forward(Values{ones({1})}).tensor().item<double>(), 3);
    EXPECT_EQ(m.forward(Values{zeros({1})}).tensor().item<double>(), 2);
  }
}

struct Doubled : nn::Module {
  Tensor forward(Tensor x) { return x + x; }
};
template <class Register>
void check_hook(const Register& put_on, const FileCheck& wanted) {
  Doubled n;
  put_on(n);
  jit::ScriptModule traced = jit::trace(n, {tensor(1.0)});
  Tensor eager_input = tensor(1.0), input = tensor(1.0);
  Tensor eager_output = nn::call(n, eager_input);
  EXPECT_TRUE(wanted.run(text(traced)));
  Tensor output = traced.forward(Values{input}).tensor();
  expect_same(input, eager_input);
  expect_same(output, eager_output);
}
TEST(Tracer, tracing_hooks) {
  using nn::Module;
  check_hook(
      [](Doubled& n) {
        n.register_forward_hook([](const Module&, const Value& input, const Value& output) {
          input.items()[0].tensor().add_(1);
          output.tensor().sub_(1);
        });
      },
      FileCheck().check("add(").check("add_(").check("sub_("));
  check_hook(
      [](Doubled& n) {
        n.register_forward_hook([](const Module&, const Value& input, const Value& output) {
          input.items()[0].tensor().add_(1);
          return output.tensor() - 3;
        });
      },
      FileCheck().check("add(").check("add_(").check("sub("));
  Tensor b = tensor(3.0);
  check_hook(
      [&](Doubled& n) {
        n.register_forward_hook(
            [b](const Module&, const Value&, const Value& output) { return output.tensor() - b; });
      },
      FileCheck().check("add(").check("sub("));
  check_hook(
      [](Doubled& n) {
        n.register_forward_pre_hook(
            [](const Module&, const Value& input) { input.items()[0].tensor().add_(3); });
      },
      FileCheck().check("add_(").check("add("));
  check_hook(
      [](Doubled& n) {
        n.register_forward_pre_hook(
            [](const Module&, const Value& input) { return input.items()[0].tensor() - 4; });
      },
      FileCheck().check("sub(").check("add("));
}

}  // namespace
}  // namespace tern
