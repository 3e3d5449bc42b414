// Traces of operators of several families: diagonals, running maxima, resampling.
#include "tests/parity/tracer.h"

namespace tern {
namespace {

using namespace tracer;

TEST(Tracer, constant) {
  Tensor x = randn({2, 2}).requires_grad_();
  auto f = [](Tensor x) { return x.matmul(diag(tensor({2.0f, 2.0f}))); };
  check_trace(f, {x}, {.other_inputs = {ones({2, 2})}});
}

TEST(Tracer, trace_out_operator_with_two_output) {
  Tensor example = rand({2, 8});
  auto [out_1, out_2] = cummax(example, 1);
  auto run_cummax = [](Tensor x, Tensor values, Tensor indices) { return cummax_out(values, indices, x, 1); };
  jit::ScriptModule traced = jit::trace(run_cummax, {example, out_1, out_2});
  EXPECT_TRUE(FileCheck().check("aten::cummax(").run(text(traced)));
  Tensor x = rand({3, 5}), values = empty({3, 5}), indices = empty({3, 5}, kLong);
  auto [expected, where] = cummax(x, 1);
  expect_same(traced.forward(Values{x, values, indices}), Value::tuple({expected, where}));
  expect_same(values, expected);
  expect_same(indices, where);
}

struct Upsampled : nn::Module {
  nn::Conv2d conv = add("conv", nn::Conv2d({.in = 1, .out = 32, .kernel = 3, .padding = 1}));
  Tensor forward(Tensor x) {
    return nn::F::interpolate(conv(x), {.scale_factor = {3}, .mode = "bilinear", .align_corners = false});
  }
};
TEST(Tracer, interpolate_trace) {
  Upsampled f;
  jit::ScriptModule g = jit::trace(f, {zeros({1, 1, 28, 28})});
  Tensor x = rand({1, 1, 14, 14});
  expect_same(g.forward(Values{x}).tensor(), f.forward(x));
  EXPECT_EQ(str(f.forward(x).sizes()), "[1, 32, 42, 42]");
}

template <class F>
auto called(const F& f) {
  return [f](Value x) { return f->call(Values{x}); };
}
TEST(Tracer, trace_script) {
  Value pair = Value::tuple({randn({5}), randn({5})});
  auto func1 = called(
      script::compile_function("def func1(x: Tuple[Tensor, Tensor]) -> Tensor:\n  return x[0] + x[1]\n"));
  check_trace(func1, {pair});
  auto func2 =
      called(script::compile_function("def func2(x: List[Tensor]) -> Tensor:\n  return x[0] + x[1]\n"));
  check_trace(func2, {Value::list(pair.items())});

  auto func3 = called(script::compile_function(R"(
def func3(x: Tensor, method: str = "bilinear", align_corners: bool = True) -> Tensor:
  hw = x.shape[2:4]
  return F.interpolate(x, hw, mode=method, align_corners=align_corners)
)"));
  check_trace(func3, {rand({1, 3, 6, 6})});

  auto func4 = script::compile_function(R"(
def func4(x: Tensor, a: List[Optional[str]]) -> Tensor:
  if len(a) == 2:
    return x + 2
  else:
    return x
)");
  expect_same(func4->call(Values{ones({1}), Value::list({"a", Value()})}).tensor(), full({1}, 3.0));
}

}  // namespace
}  // namespace tern
