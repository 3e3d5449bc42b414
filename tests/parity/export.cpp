// The cases of the seed export.py, as a C++ user would write them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/export/checks.h"
#include "tern/export/control_flow.h"
#include "tern/export/export.h"
#include "tern/export/unflatten.h"
#include "tern/nn/nn.h"
#include "tern/ops.h"

namespace tern {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

void expect_same(const Tensor& a, const Tensor& b, double tolerance = 1e-5) {
  ASSERT_EQ(str(a.sizes()), str(b.sizes()));
  std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], tolerance) << "element " << i;
}
void expect_same(const Value& a, const Value& b, double tolerance = 1e-5) {
  std::vector<Tensor> x = tree::tensors(a), y = tree::tensors(b);
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) expect_same(x[i], y[i], tolerance);
}

size_t count(std::string_view text, std::string_view what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string_view::npos; at += what.size()) ++n;
  return n;
}

using Tensors = std::vector<Tensor>;
using Dict = std::vector<std::pair<std::string, Tensor>>;

// ---- TestDynamismExpression ----

TEST(Export, export_inline_constraints) {
  auto f = [](Tensor x) {
    SymInt b = x.item().sym();
    check_is_size(b);
    return full(Dims{b, 1}, 1);
  };
  Tensor inp = tensor({3});
  ExportedProgram ep = export_program(f, {{"x", inp}});
  expect_same(ep.module()(inp).tensor(), f(inp));
}

TEST(Export, export_constraints_error_not_in_range) {
  Dim dim_x("dim_x", {.min = 6});
  EXPECT_THAT(
      [&] {
        export_program([](Tensor x) { return x + 1; }, {{"x", zeros({3})}},
                       {.dynamic = {{"x", {{0, dim_x}}}}});
      },
      ThrowsMessage<Error>(HasSubstr("not in range")));
}

TEST(Export, export_slice_maxsize) {
  auto f = [](Tensor x, int64_t dim, int64_t start, int64_t end) {
    return slice(x, dim, SymInt(start), SymInt(end));
  };
  ExportedProgram ep =
      export_program(f, {{"x", zeros({10, 3, 4, 4})}, {"dim", 0}, {"start", 0}, {"end", INT64_MAX}},
                     {.dynamic = {{"x", {{0, Dim("dim")}}}}});
  EXPECT_EQ(ep.module()(zeros({7, 3, 4, 4}), 0, 0, INT64_MAX).tensor().size(0), 7);
}

TEST(Export, export_constraints_error) {
  struct ConflictingConstraints : nn::Module {
    Tensor forward(Tensor x) {
      SymInt b = x.item().sym();
      check_is_size(b);
      check(sym_ge(b, 4));
      check(sym_le(b, 5));
      return full(Dims{b, 1}, 1);
    }
  } m;
  ExportedProgram ep = export_program(m, {{"x", tensor({3})}});
  EXPECT_THAT([&] { ep.module()(tensor({3})); },
              ThrowsMessage<Error>(HasSubstr("Invalid value range for 3 between [4, 5]")));
  EXPECT_EQ(ep.module()(tensor({5})).tensor().size(0), 5);
}

TEST(Export, export_assume_static_by_default) {
  auto f = [](Tensor x) { return x.size(0) == 4 ? x + 1 : x; };
  ExportedProgram ep = export_program(f, {{"x", rand({4, 5})}});
  EXPECT_THAT(ep.code(), HasSubstr("torch.ops.aten.add.Tensor(x, 1)"));
  EXPECT_THAT(
      [&] {
        ep.module()(rand({3, 5}));
      },
      ThrowsMessage<Error>(HasSubstr("Expected input at *args[0].shape[0] to be equal to 4, but got 3")));
}

// ---- TestExport ----

TEST(Export, basic) {
  auto f = [](Tensors x, Tensor y) { return x[0] + y; };
  ExportedProgram ep = export_program(f, {{"x", Tensors{ones({1, 3})}}, {"y", ones({1, 3})}});
  expect_same(ep.module()(Tensors{ones({1, 3})}, ones({1, 3})).tensor(), f({ones({1, 3})}, ones({1, 3})));
}

TEST(Export, conv_dynamic) {
  struct M : nn::Module {
    nn::Conv2d conv = add("conv", nn::Conv2d({.in = 3, .out = 8, .kernel = 3, .padding = 1}));
    nn::MaxPool2d maxpool = add("maxpool", nn::MaxPool2d(3));
    Tensor forward(Tensor x, Tensor y) {
      Tensor a = conv(x);
      a.add_(y);
      return maxpool(relu(a));
    }
  } m;
  NamedValues args{{"x", randn({2, 3, 32, 32})}, {"y", ones({2, 8, 32, 32})}};
  Dim batch("batch");
  ExportOptions options{.dynamic = {{"x", {{0, batch}}}, {"y", {{0, batch}}}}};
  ExportedProgram ep = export_program(m, args, options);
  ExportedProgram training = export_for_training(m, args, options);
  EXPECT_THAT(training.code(), HasSubstr("torch.ops.aten.add_.Tensor"));
  EXPECT_THAT(ep.code(), Not(HasSubstr("torch.ops.aten.add_.Tensor")));
  for (int64_t n : {17, 15}) {
    Tensor x = randn({n, 3, 32, 32}), y = ones({n, 8, 32, 32});
    expect_same(ep.module()(x, y).tensor(), nn::call(m, x, y));
    expect_same(training.module()(x, y).tensor(), nn::call(m, x, y));
  }
}

TEST(Export, basic_non_strict_real_tensor) {
  struct Basic : nn::Module {
    nn::Parameter param = register_parameter("param", randn({1, 3}));
    Tensor forward(Tensors x, Tensor y) { return x[0] + y - param; }
  } f;
  Tensors x{randn({1, 3})};
  Tensor y = randn({1, 3});
  ExportedProgram ep = export_program(f, {{"x", x}, {"y", y}});
  expect_same(ep.module()(x, y).tensor(), f.forward(x, y));
}

TEST(Export, basic_non_strict_fake_tensor) {
  struct Basic : nn::Module {
    nn::Parameter param = register_parameter("param", randn({3, 2}));
    Tensor forward(Tensors x, Tensor y) { return x[0] + y - param; }
  } f;
  // Examples without data.
  Tensor fake = make_tensor(Dims{3, 2}, kFloat, kCPU, true);
  ExportedProgram ep = export_program(f, {{"x", Tensors{fake}}, {"y", fake}});
  Tensors x{randn({3, 2})};
  Tensor y = randn({3, 2});
  expect_same(ep.module()(x, y).tensor(), f.forward(x, y));
}

struct NonStrict : nn::Module {
  nn::Buffer u = register_buffer("u", ones({1})), v = register_buffer("v", ones({1}));
  std::pair<Tensor, Tensor> forward(Tensor x, Tensors ys, Dict zs, Tensor c) {
    Tensor y = ys[0] + ys[1] + zs[0].second + zs[1].second;
    v.add_(3);
    Tensor w = u - v;
    if (x.size(0) < 3 && c.size(0) != 4) return {x + w, x + y};
    return {x - w, x - y};
  }
};

TEST(Export, non_strict_dynamic_shapes) {
  auto inputs = [](int64_t a, int64_t b, int64_t c) {
    return NamedValues{{"x", ones({a})},
                       {"ys", Tensors{zeros({b}), ones({b})}},
                       {"zs", Dict{{"a", zeros({b})}, {"b", ones({b})}}},
                       {"c", ones({c})}};
  };
  auto call = [](const ExportedProgram& ep, const NamedValues& in) {
    return ep.module().call({in[0].value, in[1].value, in[2].value, in[3].value});
  };
  Dim dim("dim", {.min = 3});
  DynamicShapes dynamic{{"x", {{0, dim}}}, {"ys[0]", {{0, dim}}}, {"ys[1]", {{0, dim}}}, {"zs", {{0, dim}}}};
  NonStrict foo;
  ExportedProgram ep = export_program(foo, inputs(5, 5, 4), {.dynamic = dynamic});
  EXPECT_THAT(
      [&] { call(ep, inputs(6, 5, 4)); },
      ThrowsMessage<Error>(HasSubstr("Expected input at *args[1][0].shape[0] to be equal to 6, but got 5")));
  EXPECT_THAT(
      [&] { call(ep, inputs(5, 5, 6)); },
      ThrowsMessage<Error>(HasSubstr("Expected input at *args[3].shape[0] to be equal to 4, but got 6")));
  Value good = call(ep, inputs(7, 7, 4));
  NonStrict fresh;
  auto wanted =
      fresh.forward(ones({7}), {zeros({7}), ones({7})}, {{"a", zeros({7})}, {"b", ones({7})}}, ones({4}));
  expect_same(good, tree::to_value(wanted));
  EXPECT_THAT([&] { export_program(foo, inputs(2, 2, 4), {.dynamic = dynamic}); },
              ThrowsMessage<Error>(ContainsRegex("2 not in range.*3,")));
}

TEST(Export, non_strict_dynamic_shapes_suggested_fixes) {
  auto foo = [](Tensor x, Tensor c) {
    return x.size(0) <= 6 ? std::pair(x + 1, c + 2) : std::pair(x - 1, c - 2);
  };
  Dim dim("dim", {.min = 3});
  EXPECT_THAT(
      [&] {
        export_program(foo, {{"x", ones({5})}, {"c", ones({4})}}, {.dynamic = {{"x", {{0, dim}}}}});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("Constraints violated (dim)!"),
                                 ContainsRegex("Not all values of dim.*satisfy the generated guard"),
                                 HasSubstr("Suggested fixes:"),
                                 HasSubstr("dim = Dim('dim', min=3, max=6)"))));
}

TEST(Export, derived_dim_basic) {
  auto foo = [](Tensor x, Tensor y) { return x + y.slice(0, 1); };
  NamedValues args{{"x", randn({5})}, {"y", randn({6})}};
  Dim dimx("dimx", {.min = 3, .max = 6}), dimy("dimy", {.min = 4, .max = 7});
  auto exported = [&](Dim y) {
    return export_program(foo, args, {.dynamic = {{"x", {{0, dimx}}}, {"y", {{0, y}}}}});
  };
  EXPECT_THAT([&] { exported(dimy); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("Constraints violated (dimy)!"),
                        ContainsRegex("The values of dimy.*must always be related to the values of dimx.*by"),
                        HasSubstr("Suggested fixes:"), HasSubstr("dimy = dimx + 1"))));
  EXPECT_THAT([&] { exported(dimx * 2); },
              ThrowsMessage<Error>(ContainsRegex(
                  "Expected input.*size.* to be equal to 2\\*dimx, where dimx = 5, but got 6")));
  ExportedProgram ep = exported(dimx + 1);
  EXPECT_THAT([&] { ep.module()(randn({4}), randn({6})); },
              ThrowsMessage<Error>(ContainsRegex("Expected input.*shape.*to be equal to 5, but got 6")));
  EXPECT_EQ(ep.module()(randn({4}), randn({5})).tensor().size(0), 4);
}

TEST(Export, derived_dim_nested) {
  Dim dimx("dimx", {.min = 3, .max = 6});
  auto foo = [](Tensor x, Tensor y) { return x + y.slice(0, 1, {}, 2); };
  {
    ExportedProgram ep = export_program(foo, {{"x", randn({5})}, {"y", randn({11})}},
                                        {.dynamic = {{"x", {{0, dimx}}}, {"y", {{0, dimx * 2 + 1}}}}});
    EXPECT_EQ(ep.module()(randn({4}), randn({9})).tensor().size(0), 4);
  }
  auto bar = [](Tensor z, Tensor y) { return z.slice(0, 1) + y.slice(0, 1, {}, 2); };
  auto exported = [&](Dim dimz, Dim dimy) {
    return export_program(bar, {{"z", randn({6})}, {"y", randn({11})}},
                          {.dynamic = {{"z", {{0, dimz}}}, {"y", {{0, dimy}}}}});
  };
  EXPECT_EQ(exported(dimx, dimx * 2 - 1).module()(randn({5}), randn({9})).tensor().size(0), 4);
  EXPECT_THAT([&] { exported(dimx + 1, dimx * 2 - 1); },
              ThrowsMessage<Error>(ContainsRegex(
                  "Expected input.*size.*to be equal to 2\\*dimx - 1, where dimx = 5, but got 11")));
  ExportedProgram ep = exported(dimx + 1, dimx * 2 + 1);
  EXPECT_THAT([&] { ep.module()(randn({8}), randn({15})); },
              ThrowsMessage<Error>(ContainsRegex("Expected input.*shape.*to be <= 7, but got 8")));
  EXPECT_THAT([&] { ep.module()(randn({5}), randn({8})); },
              ThrowsMessage<Error>(ContainsRegex("Expected input.*shape.*to be equal to 9, but got 8")));
  EXPECT_EQ(ep.module()(randn({5}), randn({9})).tensor().size(0), 4);
}

struct Bar : nn::Layer<Bar> {
  nn::Buffer buf = register_buffer("buf", ones({1}));
  Tensor forward(Tensor x) {
    buf.add_(1);
    return x.sum() + buf.sum();
  }
};

TEST(Export, to_module_with_mutated_buffer_multiple) {
  struct Foo : nn::Module {
    nn::Buffer buf = register_buffer("buf", zeros({1}));
    Bar bar = add("bar", Bar());
    Tensor forward(Tensor x) {
      buf.add_(1);
      bar.buf.add_(2);
      Tensor y = bar(x);
      return y.sum() + buf.sum();
    }
  };
  Foo source, eager;
  ExportedModule module = export_program(source, {{"x", ones({5, 5})}}).module();
  expect_same(nn::call(eager, ones({5, 5})), module(ones({5, 5})).tensor());
  EXPECT_EQ(module.buffer("buf").item<double>(), 1);
  EXPECT_EQ(module.buffer("bar.buf").item<double>(), 4);
  expect_same(module(ones({5, 5})).tensor(), nn::call(eager, ones({5, 5})));
  EXPECT_EQ(module.buffer("buf").item<double>(), 2);
  EXPECT_EQ(module.buffer("bar.buf").item<double>(), 7);
}

TEST(Export, export_input_mutation_static_shape) {
  auto model = [](Tensor x, Tensor y) {
    x.view(Dims{3, 2, -1}).add_(y);
    return x;
  };
  Tensor x = randn({12}), y = tensor({2}).view(Dims{});
  ExportedProgram ep = export_program(model, {{"x", x}, {"y", y}});
  Tensor for_export = x.clone(), for_model = x.clone();
  expect_same(ep.module()(for_export, y).tensor(), model(for_model, y));
  expect_same(x + 2, for_model);
  expect_same(x + 2, for_export);
}

TEST(Export, user_input_and_buffer_mutation) {
  struct MyModule : nn::Module {
    nn::Buffer foo = register_buffer("foo", randn({4, 4}));
    Tensor forward(Tensor x) {
      foo.add_(1);
      x.add_(1);
      return foo + x;
    }
  };
  MyModule mod;
  MyModule copy = nn::clone(mod);
  ExportedProgram ep = export_program(copy, {{"x", rand({4, 4})}});
  expect_same(mod.buffer("foo"), ep.module().buffer("foo"));
  expect_same(nn::call(mod, ones({4, 4})), ep.module()(ones({4, 4})).tensor());
  EXPECT_EQ(ep.signature().outputs[0].kind, OutputKind::buffer_mutation);
  EXPECT_EQ(ep.signature().outputs[1].kind, OutputKind::user_input_mutation);
}

TEST(Export, export_for_training_run_decomp) {
  struct Foo : nn::Module {
    nn::Buffer buffer_ = register_buffer("buffer", ones({2, 2}));
    nn::Linear linear = add("linear", nn::Linear(2, 2));
    Tensor forward(Tensor x) {
      buffer_.add_(5);
      Tensor y = linear(x);
      return y + buffer_.sum();
    }
  } m;
  ExportedProgram ep = export_for_training(m, {{"x", ones({2, 2})}}).run_decompositions();
  EXPECT_THAT(ep.code(), HasSubstr(R"(def forward(self, p_linear_weight, p_linear_bias, b_buffer, x):
    add = torch.ops.aten.add.Tensor(b_buffer, 5);  b_buffer = None
    t = torch.ops.aten.t.default(p_linear_weight);  p_linear_weight = None
    addmm = torch.ops.aten.addmm.default(p_linear_bias, x, t);  p_linear_bias = x = t = None
    sum_1 = torch.ops.aten.sum.default(add)
    add_1 = torch.ops.aten.add.Tensor(addmm, sum_1);  addmm = sum_1 = None
    return (add, add_1))"));
}

TEST(Export, export_decomps_dynamic) {
  struct M : nn::Module {
    nn::Linear lin = add("lin", nn::Linear(10, 1));
    Tensor forward(Tensor x) { return lin(x); }
  } m;
  Tensor x = randn({5, 10});
  ExportedProgram ep = export_program(m, {{"x", x}}, {.dynamic = {{"x", {{0, Dim("batch")}}}}});
  ExportedProgram core = ep.run_decompositions();
  EXPECT_TRUE(core.graph().inputs()[core.graph().inputs().size() - 1]->type()->sizes()[0].is_symbolic());
  EXPECT_EQ(count(core.code(), "torch.ops.aten.permute.default"), 1u);
  EXPECT_EQ(count(core.code(), "torch.ops.aten.t.default"), 0u);
  expect_same(core.module()(x).tensor(), nn::call(m, x));
}

TEST(Export, retracable_ep) {
  struct Foo : nn::Module {
    nn::Buffer buf = register_buffer("buf", zeros({1}));
    Bar bar = add("bar", Bar());
    Tensor forward(Tensor x) {
      buf.add_(1);
      Tensor y = bar(x);
      bar.buf.add_(2);
      return y.sum() + buf.sum();
    }
  };
  Tensor inp = ones({5, 5});
  auto eager = [](const Tensor& x) {
    Foo foo;
    return nn::call(foo, x);
  };
  {
    Foo foo;
    ExportedProgram again = export_program(export_program(foo, {{"x", inp}}).module(), {{"x", inp}});
    expect_same(eager(inp), again.module()(inp).tensor());
  }
  Dim dim0_x("dim0_x"), dim0_x_v2("dim0_x", {.min = 3});
  {
    Foo foo;
    ExportedProgram exported = export_program(foo, {{"x", inp}}, {.dynamic = {{"x", {{0, dim0_x}}}}});
    ExportedProgram again = export_program(exported.module(), {{"x", inp}});
    EXPECT_THAT(
        [&] {
          again.module()(ones({7, 5}));
        },
        ThrowsMessage<Error>(HasSubstr("shape[0] to be equal to 5, but got 7")));
    ExportedProgram dynamic =
        export_program(exported.module(), {{"x", inp}}, {.dynamic = {{"x", {{0, dim0_x}}}}});
    expect_same(eager(ones({7, 5})), dynamic.module()(ones({7, 5})).tensor());
  }
  Foo foo;
  ExportedProgram exported = export_program(foo, {{"x", inp}}, {.dynamic = {{"x", {{0, dim0_x_v2}}}}});
  EXPECT_THAT(
      [&] {
        export_program(exported.module(), {{"x", randn({2, 2})}});
      },
      ThrowsMessage<Error>(HasSubstr("Expected input at *args[0].shape[0] to be >= 3, but got 2")));
}

TEST(Export, nn_module_stack) {
  struct Leaf : nn::Layer<Leaf> {
    nn::Linear linear = add("linear", nn::Linear(4, 4));
    Tensor forward(Tensor x) { return linear(x); }
  };
  struct Middle : nn::Layer<Middle> {
    Leaf leaf = add("leaf", Leaf());
    nn::Buffer buffer_ = register_buffer("buffer", randn({4, 4}));
    Tensor forward(Tensor x) { return buffer_.sum() + leaf(x).sum(); }
  };
  struct Foo : nn::Module {
    Middle bar = add("bar", Middle());
    std::tuple<Tensor> forward(Tensor x) {
      Tensor y = bar.buffer_ + x;
      return {bar(x) + y.sum()};
    }
  } mod;
  Tensor inp = randn({4, 4});
  ExportedProgram ep = export_program(mod, {{"x", inp}}).run_decompositions();
  UnflattenedModule modules = unflatten(ep);
  EXPECT_TRUE(modules.has_part("bar"));
  EXPECT_TRUE(modules.has_part("bar.leaf"));
  EXPECT_EQ(str(modules.buffer("bar.buffer").sizes()), "[4, 4]");
  EXPECT_THAT(modules.graph_text("bar.leaf.linear"), HasSubstr(R"(graph():
    %x : [num_users=1] = placeholder[target=x]
    %weight : [num_users=1] = get_attr[target=weight]
    %bias : [num_users=1] = get_attr[target=bias]
    %permute : [num_users=1] = call_function[target=torch.ops.aten.permute.default](args = (%weight, [1, 0]), kwargs = {})
    %addmm : [num_users=1] = call_function[target=torch.ops.aten.addmm.default](args = (%bias, %x, %permute), kwargs = {})
    return addmm)"));
  Value wanted = tree::to_value(nn::call(mod, inp));
  expect_same(modules(inp), wanted, 1e-4);
  expect_same(ep.module()(inp), wanted, 1e-4);
}

TEST(Export, layer_sharing) {
  struct Module : nn::Module {
    nn::LayerNorm layer{nn::LayerNormOptions{.shape = {2, 2, 3}}};
    nn::LayerNorm first = add("norms_0", nn::LayerNorm(layer)), second = add("norms_1", nn::LayerNorm(layer));
    Tensor forward(Tensor x) { return second(first(x)); }
  } m;
  ExportedProgram ep = export_program(m, {{"x", randn({1, 2, 2, 3})}});
  nn::StateDict wanted = m.state_dict();
  ASSERT_EQ(wanted.size(), 4u);
  ASSERT_EQ(ep.state_dict().size(), wanted.size());
  for (const auto& [name, tensor] : wanted) {
    const Tensor* found = nn::find(ep.state_dict(), name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->storage(), tensor.storage()) << name;
  }
  EXPECT_EQ(ep.signature().targets(InputKind::parameter).size(), 2u);
  Tensor x = randn({1, 2, 2, 3});
  expect_same(ep.module()(x).tensor(), nn::call(m, x));
}

struct CosOfBuffer : nn::Layer<CosOfBuffer> {
  nn::Buffer buffer_ = register_buffer("buffer", ones({6, 4}));
  Tensor forward() { return buffer_.cos(); }
};

TEST(Export, export_cond) {
  struct Foo : nn::Module {
    CosOfBuffer a = add("a", CosOfBuffer());
    Tensor forward(Tensor x) {
      return cond(
          x.size(0) > 4, [this](Tensor y) { return y.cos() + a().sum(); }, [](Tensor y) { return y.sin(); },
          x);
    }
  } foo;
  ExportedProgram ep = export_program(foo, {{"x", ones({6, 4})}});
  expect_same(ep.module()(ones({6, 4})).tensor(), foo.forward(ones({6, 4})));

  // A condition on data: both branches are in the program, and the buffer is an operand.
  struct OnData : nn::Module {
    CosOfBuffer a = add("a", CosOfBuffer());
    Tensor forward(Tensor x) {
      return cond(
          x.sum() > 0, [this](Tensor y) { return y.cos() + a().sum(); }, [](Tensor y) { return y.sin(); }, x);
    }
  } on_data;
  ExportedProgram both = export_program(on_data, {{"x", ones({6, 4})}});
  EXPECT_THAT(both.code(),
              HasSubstr("torch.ops.higher_order.cond(gt, true_graph_0, false_graph_0, [x, b_a_buffer])"));
  for (double sign : {1.0, -1.0}) {
    Tensor x = ones({6, 4}) * sign;
    expect_same(both.module()(x).tensor(), on_data.forward(x));
  }
}

}  // namespace
}  // namespace tern
