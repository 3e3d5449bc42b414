// Traces of programs that change tensors in place, assign to parts of them, or cut them from their history.
#include "tern/ops/subscript.h"
#include "tests/parity/tracer.h"

namespace tern {
namespace {

using namespace tracer;
using autograd::Context;

struct InplaceFn : autograd::Function<InplaceFn> {
  static Tensors forward(Context& ctx, Span<const Tensor> x) {
    ctx.mark_dirty(x[0]);
    x[0].add_(1);
    return {x[0]};
  }
  static Tensors backward(Context&, Span<const Tensor> go) { return go.vec(); }
};
struct RegularFn : autograd::Function<RegularFn> {
  static Tensors forward(Context&, Span<const Tensor> x) { return {x[0] + 1}; }
  static Tensors backward(Context&, Span<const Tensor> go) { return go.vec(); }
};
TEST(Tracer, inplace_flags) {
  auto fn = [](Tensor x) {
    Tensor y = RegularFn::apply({x})[0];
    y = InplaceFn::apply({y})[0];
    y = InplaceFn::apply({y})[0];
    return RegularFn::apply({y})[0];
  };
  Tensor x = tensor({0.0f}).requires_grad_();
  jit::TracedGraph traced = jit::trace_graph(fn, {x}, {.force_outplace = true});
  ir::run_pass(*traced.graph, "dce");
  std::vector<bool> flags;
  for (const ir::Node& op : traced.graph->top()) {
    ASSERT_NE(op.attribute("inplace"), nullptr) << ir::torch_text(*traced.graph);
    flags.push_back(op.attribute("inplace")->to_bool());
  }
  EXPECT_THAT(flags, ::testing::ElementsAre(false, true, true, false));
}

struct MyInplaceFn : autograd::Function<MyInplaceFn> {
  static Tensors forward(Context& ctx, Span<const Tensor> x) {
    x[0].add_(1);
    ctx.mark_dirty(x[0]);
    return {x[0]};
  }
  static Tensors backward(Context&, Span<const Tensor> grad) { return grad.vec(); }
};
TEST(Tracer, inplace_check) {
  auto fn = [](Tensor x) { return MyInplaceFn::apply({x})[0]; };
  Tensor x = randn({5, 5});
  jit::ScriptModule traced = jit::trace(fn, {x}, {.check_trace = false, .force_outplace = true});
  EXPECT_THAT([&] { traced.forward(Values{x}); }, ThrowsMessage<Error>(HasSubstr("inplace MyInplaceFn")));
}

TEST(Tracer, force_outplace_check_fill) {
  auto f = [](Tensor x) { return empty(shape(x)).fill_(7); };
  Tensor x = randn({10, 15});
  jit::ScriptModule traced = jit::trace(f, {x}, {.force_outplace = true});
  expect_same(traced.forward(Values{x}).tensor(), f(x));
  EXPECT_TRUE(FileCheck().check("aten::empty").check("aten::full_like").check_not("fill_").run(text(traced)));
  Tensor y = randn({3, 4});
  expect_same(traced.forward(Values{y}).tensor(), f(y));
}

TEST(Tracer, force_outplace_check_zero) {
  auto f = [](Tensor x) { return empty(shape(x)).zero_(); };
  Tensor x = randn({10, 15});
  jit::ScriptModule traced = jit::trace(f, {x}, {.force_outplace = true});
  expect_same(traced.forward(Values{x}).tensor(), f(x));
  EXPECT_TRUE(
      FileCheck().check("aten::empty").check("aten::zeros_like").check_not("zero_").run(text(traced)));
}

TEST(Tracer, nested_inplace) {
  Tensor x = randn({2, 2});
  auto fn = [](Tensor x) { return threshold_(x, 0, 0); };
  Tensor expected = relu(x);
  jit::TracedGraph traced = jit::trace_graph(fn, {x.clone()});
  Values inputs(traced.inputs.begin(), traced.inputs.end());
  expect_same(ir::run(*traced.graph, Values{x.clone()})[0].tensor(), expected);
  expect_same(ir::run(*traced.graph, inputs)[0], traced.outputs);
  EXPECT_TRUE(FileCheck().check("threshold_").run(ir::torch_text(*traced.graph)));
  check_export_import(*traced.graph, {x});
}

TEST(Tracer, inplace_copy_force_outplace) {
  Tensor x = randn({4, 4}).requires_grad_();
  auto f = [](Tensor x) {
    Tensor out = zeros(shape(x));
    out.copy_(x);
    return out;
  };
  jit::TracedGraph traced = jit::trace_graph(f, {x}, {.force_outplace = true});
  ir::run_pass(*traced.graph, "dce");
  Values inputs(traced.inputs.begin(), traced.inputs.end());
  expect_same(ir::run(*traced.graph, inputs)[0], traced.outputs);
  check_export_import(*traced.graph, {x});
  EXPECT_TRUE(FileCheck().check("expand_as").run(ir::torch_text(*traced.graph)));
}

TEST(Tracer, trace_indexed_assignment) {
  auto stuff = [](Tensor x, Tensor y) {
    x = x.clone();
    assign(x, {0}, y);
    return x;
  };
  Tensor example = rand({3, 4});
  check_trace(stuff, {example, example[0] + 1});
}

TEST(Tracer, index_put) {
  Tensor ten = zeros({3, 3});
  Tensor mask = tensor({true, true, true, true, false, false, true, true, false}).view({3, 3});
  auto test_fn = [](Tensor ten, Tensor mask) {
    assign(ten, {mask}, ones({6}));
    return ten;
  };
  jit::ScriptModule traced = jit::trace(test_fn, {ten, mask});
  ten = rand({3, 3});
  Tensor other = ten.clone();
  expect_same(traced.forward(Values{other, mask}).tensor(), test_fn(ten, mask));
  expect_same(other, ten);
}

TEST(Tracer, trace_slice_setitem_dynamic_shape) {
  auto slice_setitem = [](Tensor x, Tensor y) {
    assign(x, {Slice{}, 2}, y + 1);
    return x;
  };
  Tensor x = randn({3, 4});
  jit::ScriptModule traced = jit::trace(slice_setitem, {x, x.select(1, 0)});
  x = randn({10, 5});
  expect_same(traced.forward(Values{x.clone(), x.select(1, 0)}).tensor(),
              slice_setitem(x.clone(), x.select(1, 0)));
}

TEST(Tracer, index_put_trace_with_view) {
  auto test_index_put = jit::trace_function(
      [](Tensor target, Tensor indices, Tensor rhs) {
        assign(target, {indices}, rhs);
        return target;
      },
      {rand({100}), tensor({1, 2, 3, 4}, {.dtype = kLong}), rand({1, 1, 1, 4})});
  EXPECT_TRUE(
      FileCheck().check("aten::view").check("index_put_").run(ir::torch_text(test_index_put->graph())));
}

TEST(Tracer, index_put_trace_without_view) {
  auto test_index_put = jit::trace_function(
      [](Tensor target, Tensor indices, Tensor rhs) {
        assign(target, {indices}, rhs);
        return target;
      },
      {rand({100}), tensor({1, 2, 3, 4}, {.dtype = kLong}), rand({4})});
  EXPECT_TRUE(
      FileCheck().check_not("aten::view").check("index_put_").run(ir::torch_text(test_index_put->graph())));
}

TEST(Tracer, trace_checker_slice_lhs) {
  auto foo = [](Tensor x) {
    for (int i = 0; i < 3; ++i) assign(x, {i, Slice{}}, zeros({4}));
    return x;
  };
  check_trace(foo, {rand({3, 4})}, {.inputs_require_grads = false});
}

TEST(Tracer, lhs_index_fails) {
  auto foo = [](Tensor x) {
    assign(x, {0, 1}, 4);
    return x;
  };
  EXPECT_THAT(tracer_warnings([&] {
                jit::trace(foo, {rand({3, 4})}, {.force_outplace = true});
              }),
              Contains(HasSubstr("cause the trace to be incorrect")));
}

TEST(Tracer, lhs_index_trivial) {
  auto foo = [](Tensor y, Tensor x) {
    assign(y, {dots}, x);
    return y;
  };
  check_trace(foo, {rand({3, 4}), rand({4})}, {.inputs_require_grads = false});
}

TEST(Tracer, inplace_warn) {
  auto foo = [](Tensor x) {
    x.view({-1}).add_(-x.view({-1}));
    return x;
  };
  EXPECT_THAT(
      tracer_warnings([&] {
        jit::trace(foo, {rand({3, 4})}, {.force_outplace = true});
      }),
      Contains(HasSubstr("live references to the data region being modified when tracing in-place operator "
                         "add_. This might cause the trace to be incorrect")));
}

// ---- detach ----

TEST(Tracer, trace_detach) {
  auto foo = [](Tensor x, Tensor w) { return matmul(x, w).detach(); };
  jit::ScriptModule traced = jit::trace(foo, {rand({3, 4}), rand({4, 5})});
  EXPECT_TRUE(FileCheck().check("matmul").check("detach").run(text(traced)));
  Tensor x = rand({3, 4}), w = rand({4, 5}).requires_grad_();
  Tensor result = traced.forward(Values{x, w}).tensor();
  expect_same(result, foo(x, w));
  EXPECT_FALSE(result.requires_grad());
  EXPECT_EQ(autograd::grad_fn_name(result), "");
}

TEST(Tracer, trace_detach_redispatch) {
  auto foo = [](Tensor x, Tensor w) {
    Tensor y = matmul(x, w);
    EXPECT_TRUE(y.requires_grad());
    y = y.detach();
    EXPECT_FALSE(y.requires_grad());
    return y;
  };
  Tensor x = rand({3, 4}), w = rand({4, 5}).requires_grad_();
  jit::ScriptModule traced = jit::trace(foo, {x, w}, {.check_trace = false});
  EXPECT_FALSE(traced.forward(Values{x, w}).tensor().requires_grad());
}

TEST(Tracer, trace_detach_inplace) {
  auto foo = [](Tensor x, Tensor w) {
    Tensor y = matmul(x, w);
    autograd::detach_(y);
    return y;
  };
  jit::ScriptModule traced = jit::trace(foo, {rand({3, 4}), rand({4, 5})});
  EXPECT_TRUE(FileCheck().check("matmul").check("detach(").run(text(traced)));
  Tensor x = rand({3, 4}), w = rand({4, 5}).requires_grad_();
  Tensor result = traced.forward(Values{x, w}).tensor();
  expect_same(result, foo(x, w));
  EXPECT_FALSE(result.requires_grad());
  EXPECT_EQ(autograd::grad_fn_name(result), "");
}

TEST(Tracer, trace_detach_inplace_redispatch) {
  auto foo = [](Tensor x, Tensor w) {
    Tensor y = matmul(x, w);
    EXPECT_TRUE(y.requires_grad());
    autograd::detach_(y);
    EXPECT_FALSE(y.requires_grad());
    return y;
  };
  Tensor x = rand({3, 4}), w = rand({4, 5}).requires_grad_();
  jit::ScriptModule traced = jit::trace(foo, {x, w}, {.check_trace = false});
  EXPECT_FALSE(traced.forward(Values{x, w}).tensor().requires_grad());
}

}  // namespace
}  // namespace tern
