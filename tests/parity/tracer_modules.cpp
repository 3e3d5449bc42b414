// Traces of modules: the hierarchy stays, methods beside forward, attributes, devices and types, files and
// copies.
#include "tests/parity/tracer.h"

namespace tern {
namespace {

using namespace tracer;

struct Layers : nn::Module {
  int64_t num_layers;
  nn::Sequential submodule;
  Layers(int64_t features, int64_t layers) : num_layers(layers) {
    for (int64_t i = 0; i < layers; ++i) {
      submodule.push_back(nn::Linear(features, features));
      submodule.push_back(nn::Sigmoid());
    }
    add_member("submodule", submodule);
  }
  Tensor forward(Tensor x) {
    for (int64_t i = 0; i < num_layers; ++i) x = submodule[static_cast<size_t>(i)](x) + x;
    return x;
  }
};
// No GPU here: double precision and the meta device take its place.
TEST(Tracer, traced_module_cuda) {
  Layers model(5, 3);
  Tensor x = randn({2, 5});
  jit::ScriptModule traced = jit::trace(model, {x});
  EXPECT_THAT(model.str(), HasSubstr("Linear(in_features=5"));

  jit::ScriptModule linear = traced.submodule("submodule").named_children()[0].second;
  EXPECT_FALSE(linear.has_attr("in_features"));
  EXPECT_THROW(linear.attr("in_features"), Error);
  linear.set_attr("weight", randn(linear.attr("weight").tensor().sizes()));
  EXPECT_THROW(linear.del_attr("weight"), Error);
  EXPECT_THAT([&] { linear.forward(Values{x}); },
              ThrowsMessage<Error>(HasSubstr("Trace submodules cannot be called")));

  Tensor single = traced.forward(Values{x}).tensor();
  traced.to(kDouble);
  Tensor other = traced.forward(Values{x.to(kDouble)}).tensor();
  EXPECT_EQ(other.dtype(), kDouble);
  expect_same(other.to(kFloat), single);
  traced.to(kFloat);
  expect_same(traced.forward(Values{x}).tensor(), single);
  jit::ScriptModule elsewhere = traced.deepcopy();
  elsewhere.to(kMeta);
  Tensor there = elsewhere.forward(Values{x.to(kMeta)}).tensor();
  EXPECT_TRUE(there.is_meta());
  EXPECT_EQ(str(there.sizes()), "[2, 5]");

  jit::NamedTensors state, new_state;
  for (auto& [name, t] : traced.state_dict()) {
    state.emplace_back(name, t.detach().clone());
    new_state.emplace_back(name, ones_like(t));
  }
  ASSERT_EQ(state.size(), 6u);
  Tensor out = traced.forward(Values{x}).tensor();
  traced.load_state_dict(new_state);
  Tensor out_ones = traced.forward(Values{x}).tensor();
  traced.load_state_dict(state);
  expect_same(traced.forward(Values{x}).tensor(), out);
  EXPECT_NE(out.detach().to_vector<double>(), out_ones.detach().to_vector<double>());
}

struct ToHalf : nn::Module {
  DType dtype = kHalf;
  Tensor forward(Tensor x) { return x.to(dtype); }
};
TEST(Tracer, type_same_device) {
  jit::ScriptModule traced = jit::trace(ToHalf(), {ones({1})});
  EXPECT_TRUE(FileCheck().check("torch.to").check_not("device").run(traced.code()));
  EXPECT_EQ(traced.forward(Values{ones({1}).to(kMeta)}).tensor().device(), kMeta);
}

struct OneConv : nn::Module {
  nn::Conv2d conv = add("conv", nn::Conv2d({.in = 3, .out = 3, .kernel = 3}));
  Tensor forward(Tensor x) { return conv(x); }
};
TEST(Tracer, trace_save_load_copy) {
  jit::ScriptModule traced = jit::trace(OneConv(), {rand({1, 3, 24, 24})});
  std::vector<uint8_t> bytes = traced.save_bytes();
  jit::ScriptModule loaded = jit::load(io::own(std::move(bytes)), "bytes");
  jit::ScriptModule copy = loaded.copy(), deep = loaded.deepcopy();
  Tensor x = rand({1, 3, 24, 24}), expected = traced.forward(Values{x}).tensor();
  expect_same(copy.forward(Values{x}).tensor(), expected);
  expect_same(deep.forward(Values{x}).tensor(), expected);
  {
    NoGrad no_grad;
    loaded.attr("conv.weight").tensor().zero_();
  }
  EXPECT_NE(copy.forward(Values{x}).tensor().detach().to_vector<double>(),
            expected.detach().to_vector<double>());  // the tensors are shared
  expect_same(deep.forward(Values{x}).tensor(), expected);
}

constexpr const char* state_methods = R"(
def __getstate__(self):
  return (3, self.training)
def __setstate__(self, state: Tuple[int, bool]) -> None:
  self.a = state[0]
  self.training = state[1]
)";
struct WithState : nn::Layer<WithState> {
  int64_t a = 3;
  WithState() {
    register_attribute("a", a);
    export_methods(state_methods);
  }
  Tensor forward(Tensor x) { return x + a; }
};
void check_has(const jit::ScriptModule& m, const std::vector<std::string>& names) {
  for (const std::string& name : names) EXPECT_TRUE(m.has_method(name)) << name;
}
TEST(Tracer, trace_export_fns) {
  jit::ScriptModule traced = jit::trace(WithState(), {rand({3, 4})});
  check_has(traced, {"__getstate__", "__setstate__"});
  jit::ScriptModule imported = saved_and_loaded(traced);
  check_has(imported, {"__getstate__", "__setstate__"});
  EXPECT_EQ(imported.attr("a").to_int(), 3);
  Tensor x = rand({3, 4});
  expect_same(imported.forward(Values{x}).tensor(), x + 3);
}

struct HoldsState : nn::Module {
  WithState foo = add("foo", WithState());
  Tensor forward(Tensor x) { return foo(x); }
};
struct AddsOneAndMore : nn::Layer<AddsOneAndMore> {
  AddsOneAndMore() { export_methods("def addTwo(self, x):\n  return x + 2\n"); }
  Tensor forward(Tensor input) { return input + 1; }
};
struct HoldsExports : nn::Module {
  AddsOneAndMore bar = add("bar", AddsOneAndMore());
  HoldsExports() { export_methods("def addOne(self, x):\n  return x + 1\n"); }
  Tensor forward(Tensor x) { return bar(x); }
};
TEST(Tracer, trace_export_fns_recursive) {
  jit::ScriptModule traced = jit::trace(HoldsState(), {rand({3, 4})});
  check_has(traced.submodule("foo"), {"__getstate__", "__setstate__"});
  check_has(saved_and_loaded(traced).submodule("foo"), {"__getstate__", "__setstate__"});

  jit::ScriptModule exports = jit::trace(HoldsExports(), {rand({3, 4})});
  check_has(exports, {"addOne", "forward"});
  check_has(exports.submodule("bar"), {"addTwo"});
  Tensor x = rand({3, 4});
  expect_same(exports.call("addOne", Values{x}).tensor(), x + 1);
}

struct Twice : nn::Layer<Twice> {
  Tensor forward(Tensor x) { return x + x; }
};
TEST(Tracer, tracing_backward_hook_error) {
  Twice n;
  Tensor x = tensor({1.0f}).requires_grad_();
  Tensors seen;
  n.register_full_backward_hook([&](const nn::Module&, const Value& inputs, const Value& outputs) {
    seen = {inputs.items()[0].tensor(), outputs.items()[0].tensor()};
  });
  n(x).backward();
  expect_same(seen, Tensors{tensor({2.0f}), tensor({1.0f})});  // in eager mode it works
  EXPECT_THAT([&] { jit::trace(n, {tensor(1.0)}); },
              ThrowsMessage<Error>(HasSubstr("backward hooks assigned")));
}

struct TwoMethods : nn::Module {
  nn::Conv2d conv = add("conv", nn::Conv2d({.in = 1, .out = 1, .kernel = 3}));
  Tensor forward(Tensor x) { return conv(x); }
  Tensor weighted_kernel_sum(Tensor weight) { return weight * conv.weight; }
};
TEST(Tracer, tracing_multiple_methods) {
  TwoMethods n;
  Tensor weight = rand({1, 1, 3, 3}), x = rand({1, 1, 3, 3});
  auto inputs = [&](std::vector<Values> check_forward, std::vector<Values> check_weights) {
    return std::vector<jit::TracedMethod>{
        jit::method("forward", n, &TwoMethods::forward, {x}, check_forward),
        jit::method("weighted_kernel_sum", n, &TwoMethods::weighted_kernel_sum, {weight}, check_weights)};
  };
  jit::trace_module(n, inputs({}, {}));
  std::vector<Values> more{{rand({1, 1, 3, 3})}, {rand({1, 1, 3, 3})}};
  jit::ScriptModule module = jit::trace_module(n, inputs(more, more));
  check_has(module, {"forward", "weighted_kernel_sum"});
  Tensor w = rand({1, 1, 3, 3});
  expect_same(module.call("weighted_kernel_sum", Values{w}).tensor(), n.weighted_kernel_sum(w));
  expect_same(module.forward(Values{w}).tensor(), n.forward(w));

  jit::trace(n, &TwoMethods::forward, {x});
  jit::trace(n, &TwoMethods::forward, {x}, {.check_trace = true, .check_inputs = {{x}}});
  EXPECT_THAT(
      [&] { jit::trace(n, &TwoMethods::weighted_kernel_sum, {weight}); },
      ThrowsMessage<Error>(HasSubstr("trace doesn't support compiling individual module's functions")));
}

struct MaybeSubmodule : nn::Module {
  std::optional<nn::Linear> submod;  // never added
  Tensor forward(Tensor inputs) { return inputs; }
};
TEST(Tracer, trace_skip_none_submodule) {
  jit::ScriptModule traced = jit::trace(MaybeSubmodule(), {tensor(1.0)});
  EXPECT_FALSE(traced.has_attr("submod"));
  EXPECT_TRUE(traced.named_children().empty());
}

struct ConditionalProperty : nn::Module {
  std::string attr_name = "_attr";
  // There is no such attribute: only asking would fail.
  Tensor attr() const { return buffer(attr_name); }
  Tensor forward(Tensor x) { return x; }
};
TEST(Tracer, trace_with_conditional_property) {
  ConditionalProperty net;
  EXPECT_THROW(net.attr(), Error);
  Tensor x = ones({1});
  expect_same(jit::trace(net, {x}).forward(Values{x}).tensor(), x);
}

struct Normalize : nn::Layer<Normalize> {
  nn::GroupNorm norm = add("norm", nn::GroupNorm(32, 32));
  Tensor forward(Tensor x, Tensor y) {
    y = y.defined() ? norm(y) : x;
    return y * 2;
  }
};
struct GivesTwo : nn::Layer<GivesTwo> {
  Normalize norm = add("norm", Normalize());
  std::tuple<Tensor, Tensor> forward(Tensor x) {
    Tensor a = norm(x, Tensor());
    return {a, relu(a)};
  }
};
struct UsesTwo : nn::Module {
  GivesTwo g = add("g", GivesTwo());
  Normalize norm_1 = add("norm_1", Normalize());
  Tensor forward(Tensor x) {
    auto [a, b] = g(x);
    return norm_1(b, a);
  }
};
TEST(Tracer, trace_no_duplicated_lifted_input_output) {
  UsesTwo net;
  net.eval();
  Tensor x = randn({1, 32, 16, 16});
  jit::ScriptModule traced = jit::trace(net, {x});
  EXPECT_TRUE(
      FileCheck().check_count("prim::CallMethod", 2, true).check_not("prim::TupleUnpack").run(text(traced)));
  EXPECT_TRUE(FileCheck().check_not("prim::TupleUnpack").check("return").run(text(traced)));
  expect_same(traced.forward(Values{x}).tensor(), net.forward(x));
}

// How PyTorch keeps the hierarchy: a method a call, forward1 for the second; weights are read by whoever uses
// them.
struct Inner : nn::Layer<Inner> {
  std::tuple<Tensor, Tensor> forward(Tensor x, Tensor y) { return {x * y, x + y}; }
};
struct Outer : nn::Module {
  nn::Linear c = add("c", nn::Linear(3, 3));
  nn::ReLU r = add("r", nn::ReLU());
  Inner n = add("n", Inner());
  nn::Parameter w = register_parameter("w", ones({3}));
  Tensor forward(Tensor x) {
    x = r(c(x));
    x = r(x + c.weight[0]);
    auto [a, b] = n(x, x * 2);
    return a + b + w;
  }
};
TEST(TraceHierarchy, calls_and_methods) {
  Outer net;
  jit::ScriptModule traced = jit::trace(net, {ones({2, 3})});
  EXPECT_TRUE(FileCheck()
                  .check("prim::GetAttr[name=\"w\"]")
                  .check("prim::CallMethod[name=\"forward\"](%c")
                  .check("prim::CallMethod[name=\"forward\"](%r")
                  .check("aten::select")
                  .check("prim::CallMethod[name=\"forward1\"](%r")
                  .check("(Tensor, Tensor) = prim::CallMethod[name=\"forward\"](%n")
                  .check_next("prim::TupleUnpack")
                  .check("aten::add")
                  .run(text(traced)));
  EXPECT_TRUE(FileCheck()
                  .check("self : __torch__.torch.nn.modules.linear.Linear")
                  .check("prim::GetAttr[name=\"weight\"]")
                  .check("aten::linear")
                  .run(text(traced.submodule("c"))));
  EXPECT_TRUE(traced.submodule("r").has_method("forward1"));
  EXPECT_TRUE(FileCheck()
                  .check("aten::linear")
                  .check("aten::mul")
                  .check_not("CallMethod")
                  .run(ir::torch_text(*traced.inlined_graph())));
  Tensor x = randn({4, 3});
  for (const jit::ScriptModule& m : {traced, saved_and_loaded(traced)})
    expect_same(m.forward(Values{x}).tensor(), net.forward(x));
}

// A module that runs inside another that does not hold it gets its weights handed in.
struct Borrower : nn::Layer<Borrower> {
  nn::Linear* other = nullptr;
  Tensor forward(Tensor x) { return (*other)(x)*2; }
};
struct Lender : nn::Module {
  nn::Linear fc = add("fc", nn::Linear(3, 3));
  Borrower borrower = add("borrower", Borrower());
  Tensor forward(Tensor x) {
    borrower.other = &fc;
    return borrower(x);
  }
};
TEST(TraceHierarchy, module_from_elsewhere) {
  Lender net;
  jit::ScriptModule traced = jit::trace(net, {ones({2, 3})});
  Tensor x = randn({4, 3});
  for (const jit::ScriptModule& m : {traced, saved_and_loaded(traced)})
    expect_same(m.forward(Values{x}).tensor(), net.forward(x));
}

}  // namespace
}  // namespace tern
