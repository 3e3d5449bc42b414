// The cases of the seed export.py on control flow, gradient modes and operators that change their arguments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/autograd/autograd.h"
#include "tern/base/error.h"
#include "tern/dispatch/pointwise.h"
#include "tern/export/control_flow.h"
#include "tern/export/export.h"
#include "tern/nn/nn.h"
#include "tern/ops.h"
#include "tests/support/torch_programs.h"

namespace tern {
namespace {

using tern::testing::expect_close;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Export, map) {
  struct Module : nn::Module {
    Tensor forward(Tensor xs, Tensor y, Tensor z) {
      return tern::map([](Tensor x, Tensor y, Tensor z) { return x + y + z; }, xs, y, z);
    }
  } list_tensor_map;
  std::vector<Value> inps{Value(ones({6, 4})), Value(tensor(Scalar(5))), Value(tensor(Scalar(4)))};
  ExportedProgram ep = export_program(list_tensor_map, {{"xs", inps[0]}, {"y", inps[1]}, {"z", inps[2]}});
  EXPECT_THAT(ep.code(), HasSubstr("torch.ops.higher_order.map_impl(body_graph_0, [xs], [y, z])"));
  expect_close(ep.module().call(inps),
               Value(list_tensor_map.forward(inps[0].tensor(), inps[1].tensor(), inps[2].tensor())));
}

TEST(Export, map_buffers) {
  struct M : nn::Module {
    nn::Parameter param = register_parameter("param", tensor(Scalar(5.0f)));
    nn::Buffer buffer = register_buffer("buffer", tensor(Scalar(6)) + 1);
    Tensor forward(Tensor xs, Tensor y) {
      return tern::map(
          [this](Tensor x, Tensor y) {
            Tensor z = x + y + param + buffer;
            z.add_(4);
            return z;
          },
          xs, y);
    }
  } m;
  ExportedProgram ep = export_program(m, {{"xs", ones({3, 2})}, {"y", tensor(Scalar(3))}});
  Tensor xs = randn({3, 2});
  expect_close(ep.module().call({Value(xs), Value(tensor(Scalar(3)))}),
               Value(m.forward(xs, tensor(Scalar(3)))));
  // Lifted to operands: the function sees nothing but its parameters.
  EXPECT_THAT(ep.code(), HasSubstr("map_impl(body_graph_0, [xs], [y, p_param, b_buffer])"));
}

TEST(Export, cond_buffers) {
  struct M : nn::Module {
    nn::Parameter param = register_parameter("param", ones({2, 3}));
    nn::Buffer buffer = register_buffer("buffer", ones({2, 3}) + 1);
    bool on_data = false;
    Tensor forward(Tensor x) {
      auto true_fn = [this](Tensor x) { return x + param; };
      auto false_fn = [this](Tensor x) { return x + buffer; };
      return on_data ? cond(x.sum() > 4, true_fn, false_fn, x) : cond(x.size(0) == 4, true_fn, false_fn, x);
    }
  } m;
  for (bool on_data : {false, true}) {
    m.on_data = on_data;
    ExportedProgram ep = export_program(m, {{"x", ones({2, 3})}});
    Tensor inp = randn({2, 3});
    expect_close(ep.module().call({Value(inp)}), Value(m.forward(inp)));
    if (on_data) {
      EXPECT_THAT(ep.code(), HasSubstr("cond(gt, true_graph_0, false_graph_0, [x, p_param, b_buffer])"));
    }
  }
}

TEST(Export, cond_with_module_stack_export_with) {
  struct Bar : nn::Layer<Bar> {
    nn::Linear linear = add("linear", nn::Linear(4, 4));
    Tensor forward(Tensor x) {
      return cond(
          x.sum() > 4, [this](Tensor x) { return linear(x).cos(); },
          [this](Tensor x) { return linear(x).sin(); }, x);
    }
  };
  struct CondExport : nn::Module {
    Bar bar = add("bar", Bar());
    Tensor forward(Tensor x) { return x.cos() + bar(x); }
  } m;
  ExportedProgram ep = export_program(m, {{"x", randn({4, 4})}});
  EXPECT_THAT(ep.code(), HasSubstr("cond(gt, true_graph_0, false_graph_0, [x, p_bar_linear_weight, "
                                   "p_bar_linear_bias])"));
  bool seen = false;
  for (const ir::Node& n : ep.graph().top()) {
    if (!n.is("higher_order::cond")) continue;
    seen = true;
    ASSERT_TRUE(n.scope());
    EXPECT_EQ(n.scope()->path.view(), "bar");
    for (const ir::Block* b : n.blocks()) EXPECT_EQ(b->first()->scope()->path.view(), "bar.linear");
  }
  EXPECT_TRUE(seen);
  Tensor x = randn({4, 4});
  expect_close(ep.module().call({Value(x)}), Value(nn::call(m, x)));
}

TEST(Export, export_cond_preserve_torch_fn_for_subgraphs) {
  struct MySubModule : nn::Layer<MySubModule> {
    Tensor forward(Tensor x) { return x.cos(); }
  };
  struct CondBranchClassMethod : nn::Module {
    MySubModule subm = add("subm", MySubModule());
    Tensor bar(Tensor x) { return x.sin(); }
    Tensor forward(Tensor x) {
      return cond(
          x.sum() <= 2, [this](Tensor x) { return subm(x); }, [this](Tensor x) { return bar(x); }, x);
    }
  } m;
  ExportedProgram ep = export_program(m, {{"x", randn({1, 3, 3, 3})}});
  // What the user called is known inside the branches: operator, module and line.
  for (const ir::Node& n : ep.graph().top()) {
    if (!n.is("higher_order::cond")) continue;
    const ir::Node &cos = *n.blocks()[0]->first(), &sin = *n.blocks()[1]->first();
    EXPECT_EQ(cos.qualified(), "aten::cos");
    EXPECT_EQ(cos.scope()->path.view(), "subm");
    EXPECT_EQ(sin.qualified(), "aten::sin");
    EXPECT_THAT(sin.origin()->place(), HasSubstr("export_control_flow.cpp:"));
    EXPECT_EQ(sin.origin()->line, cos.origin()->line + 4);
    return;
  }
  FAIL() << ep.code();
}

TEST(Export, predispatch_cond) {
  struct Model : nn::Module {
    nn::Buffer pred = register_buffer("pred", tensor(Scalar(false)));
    nn::Buffer t = register_buffer("t", tensor(Scalar(10)));
    Tensor forward(Tensor x, Tensor y) {
      return cond(
          pred,
          [this](Tensor x, Tensor y) {
            EnableGrad on;
            return x - 1 + t + y;
          },
          [this](Tensor x, Tensor y) { return x + 1 - t + y; }, x, y);
    }
  } model;
  NoGrad off;
  ExportedProgram ep = export_for_training(model, {{"x", tensor(Scalar(10))}, {"y", tensor(Scalar(12))}});
  EXPECT_THAT(ep.code(), HasSubstr("cond = torch.ops.higher_order.cond(b_pred, true_graph_0, false_graph_0, "
                                   "[x, y, b_t])"));
  std::string text = ep.graph().str();
  EXPECT_THAT(text, HasSubstr("higher_order::wrap_with_set_grad_enabled[enabled=True]"));
  EXPECT_THAT(ep.code(), Not(HasSubstr("set_grad")));  // inside the branch, not around it
  for (bool which : {false, true}) {
    ep.module().buffer("pred").fill_(which);
    model.pred.fill_(which);
    expect_close(ep.module().call({Value(tensor(Scalar(1))), Value(tensor(Scalar(2)))}),
                 Value(model.forward(tensor(Scalar(1)), tensor(Scalar(2)))));
  }
}

TEST(Export, predispatch_grad_wrappers) {
  struct Model : nn::Module {
    Tensor forward(Tensor x, Tensor y) {
      {
        EnableGrad on;
        x = x - y;
      }
      NoGrad off;
      return x + y;
    }
  } model;
  NamedValues args{{"x", tensor(Scalar(10))}, {"y", tensor(Scalar(12))}};
  auto only_region = [](const ExportedProgram& ep) -> const ir::Node& {
    const ir::Node* found = nullptr;
    for (const ir::Node& n : ep.graph().top())
      if (n.is("higher_order::wrap_with_set_grad_enabled")) {
        EXPECT_EQ(found, nullptr) << "one region is expected";
        found = &n;
      }
    if (!found) fail("no region");
    return *found;
  };
  {
    NoGrad outside;
    ExportedProgram ep = export_for_training(model, args);
    EXPECT_EQ(only_region(ep).blocks()[0]->first()->qualified(), "aten::sub.Tensor");
  }
  ExportedProgram ep = export_for_training(model, args);
  EXPECT_EQ(only_region(ep).blocks()[0]->first()->qualified(), "aten::add.Tensor");
  expect_close(ep.module().call({Value(tensor(Scalar(3))), Value(tensor(Scalar(4)))}),
               Value(tensor(Scalar(3))));
}

// testlib::foo of the seed: changes both arguments and gives them.
const Op& foo_op() {
  static const Op& op =
      define("testlib::foo(Tensor(a!) x, Tensor(b!) z) -> (Tensor, Tensor, Tensor)",
             {.shape =
                  [](const Arg* a) {
                    return Shapes{like(a[0].tensor()), like(a[1].tensor()), like(a[0].tensor())};
                  },
              .kernel =
                  [](const Arg* a, Value* results) {
                    a[0].tensor().add_(5);
                    a[1].tensor().add_(5);
                    results[0] = Value(a[0].tensor());
                    results[1] = Value(a[1].tensor());
                    results[2] = Value(a[0].tensor() + a[1].tensor());
                  }});
  return op;
}
std::tuple<Tensor, Tensor, Tensor> foo(const Tensor& x, const Tensor& z) {
  Arg args[] = {x, z};
  Value results[3];
  call(foo_op(), args, results);
  return {results[0].tensor(), results[1].tensor(), results[2].tensor()};
}

TEST(Export, custom_op_auto_functionalize) {
  struct M : nn::Module {
    std::tuple<Tensor, Tensor, Tensor> forward(Tensor x, Tensor z) { return foo(x, z); }
  } m;
  foo_op();
  ExportedProgram ep = export_for_training(m, {{"x", ones({5})}, {"z", ones({5})}});
  Value eager = tree::to_value(m.forward(ones({5}), ones({5})));
  for (const ExportedProgram& p :
       {ep, ep.run_decompositions(), ep.run_decompositions().run_decompositions()}) {
    Tensor x = ones({5}), z = ones({5});
    expect_close(p.module().call({Value(x), Value(z)}), eager);
    expect_close(Value(x), Value(ones({5}) * 6));  // the arguments are changed as the operator changes them
  }
}

TEST(Export, custom_op_auto_functionalize_pre_dispatch) {
  foo_op();
  static const Op& mutated = define("testlib::foo_mutated(Tensor(a!) x) -> (Tensor, Tensor)",
                                    {.body = [](const Arg* a, Value* results) {
                                      auto [x, y, z] = foo(a[0].tensor(), a[0].tensor().cos());
                                      results[0] = Value(x);
                                      results[1] = Value(x.cos());
                                    }});
  struct M : nn::Module {
    std::pair<Tensor, Tensor> forward(Tensor x) {
      Arg args[] = {x};
      Value results[2];
      call(mutated, args, results);
      return {results[0].tensor(), results[1].tensor()};
    }
  } m;
  ExportedProgram ep = export_program(m, {{"x", ones({5})}});
  EXPECT_THAT(ep.code(), HasSubstr("cos = torch.ops.aten.cos.default(x)"));
  EXPECT_THAT(ep.code(),
              HasSubstr("auto_functionalized_v2 = "
                        "torch.ops.higher_order.auto_functionalized_v2(torch.ops.testlib.foo.default, "
                        "_x_base_index = 0, _z_base_index = 1, _all_bases = [x, cos])"));
  expect_close(ep.module().call({Value(ones({5}))}), tree::to_value(m.forward(ones({5}))));
}

TEST(Export, custom_op_auto_warn_pre_dispatch) {
  foo_op();
  static const Op& functional =
      define("testlib::foo_functional(Tensor x) -> Tensor", {.body = [](const Arg* a, Value* results) {
               auto [x, y, z] = foo(a[0].tensor().cos(), a[0].tensor().cos());
               results[0] = Value(x.cos());
             }});
  struct M : nn::Module {
    Tensor forward(Tensor x) {
      Arg args[] = {x};
      return call1(functional, args);
    }
  } m;
  ExportedProgram ep = export_for_training(m, {{"x", ones({5})}});
  EXPECT_THAT(ep.code(), HasSubstr("foo_functional = torch.ops.testlib.foo_functional.default(x)"));
  expect_close(ep.module().call({Value(ones({5}))}), Value(m.forward(ones({5}))));
  expect_close(ep.run_decompositions().module().call({Value(ones({5}))}), Value(m.forward(ones({5}))));
}

}  // namespace
}  // namespace tern
