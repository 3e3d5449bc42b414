// Cases of the seed export.py on inputs, names and state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/export/export.h"
#include "tern/export/unflatten.h"
#include "tern/nn/nn.h"
#include "tern/ops.h"

namespace tern {
namespace {

using ::testing::HasSubstr;

void expect_same(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(str(a.sizes()), str(b.sizes()));
  std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-5) << "element " << i;
}

TEST(Export, external_call_non_strict_real_tensor) {
  struct External {
    Tensor add(Tensor x) const { return x + x; }
  };
  struct Basic : nn::Module {
    External external;
    Tensor forward(Tensor x) { return external.add(x); }
  } f;
  Tensor x = randn({1, 3});
  expect_same(export_program(f, {{"x", x}}).module()(x).tensor(), f.forward(x));
}

TEST(Export, colon_parameter) {
  struct M : nn::Module {
    nn::Parameter p = register_parameter("foo:bar", ones({3, 3}));
    Tensor forward(Tensor x) { return x + p; }
  } m;
  ExportedProgram ep = export_program(m, {{"x", randn({3, 3})}});
  EXPECT_EQ(ep.signature().inputs[0].name, "p_foo_bar");
  EXPECT_EQ(ep.signature().inputs[0].target, "foo:bar");
  Tensor x = randn({3, 3});
  expect_same(ep.module()(x).tensor(), m.forward(x));
}

TEST(Export, none_input_output) {
  auto z = [](Tensor x, std::optional<Tensor>) { return x * x; };
  ExportedProgram ep = export_program(z, {{"x", tensor(Scalar(3))}, {"y", std::nullopt}});
  EXPECT_EQ(ep.module()(tensor(Scalar(4)), std::nullopt).tensor().item<int64_t>(), 16);

  auto b = [](Tensor x, std::optional<Tensor> y) { return std::pair(x * x, y); };
  ExportedProgram both = export_program(b, {{"x", tensor(Scalar(3))}, {"y", std::nullopt}});
  for (const ExportedProgram& p : {both, both.run_decompositions()}) {
    Value res = p.module()(tensor(Scalar(4)), std::nullopt);
    EXPECT_EQ(res.items()[0].tensor().item<int64_t>(), 16);
    EXPECT_TRUE(res.items()[1].is_none());
  }
}

TEST(Export, print) {
  auto f = [](Tensor x) {
    Tensor x1 = x + x;
    std::string shown = x1.str();  // what a user prints on the way leaves no trace
    EXPECT_FALSE(shown.empty());
    Tensor x2 = x1 * x1;
    Tensor x3 = x2 + x2;
    return std::pair(x1, x3);
  };
  EXPECT_THAT(export_program(f, {{"x", randn({3, 3})}}).code(), HasSubstr(R"(def forward(self, x):
    add = torch.ops.aten.add.Tensor(x, x);  x = None
    mul = torch.ops.aten.mul.Tensor(add, add)
    add_1 = torch.ops.aten.add.Tensor(mul, mul);  mul = None
    return (add, add_1))"));
}

TEST(Export, nested_retrace) {
  struct Nested : nn::Layer<Nested> {
    nn::Parameter param = register_parameter("param", randn({3}));
    Tensor forward(Tensor x) { return x + param; }
  };
  struct Foo : nn::Module {
    Nested nested = add("nested", Nested());
    Tensor forward(Tensor x) { return x + nested(x); }
  } foo;
  foo.to(kMeta);
  NamedValues inputs{{"x", ones({3}).to(kMeta)}};
  ExportedProgram first = export_program(foo, inputs), second = export_program(first.module(), inputs);
  std::vector<std::string> a, b;
  for (const ir::Node& n : first.graph().top()) a.push_back(n.scope() ? n.scope()->str() : "");
  for (const ir::Node& n : second.graph().top()) b.push_back(n.scope() ? n.scope()->str() : "");
  EXPECT_EQ(a, b);
  EXPECT_THAT(a[0], HasSubstr("nested<"));
}

TEST(Export, unused_aliases) {
  struct Foo : nn::Module {
    nn::Parameter alpha = register_parameter("alpha", randn({4})), beta = register_parameter("beta", alpha),
                  gamma = register_parameter("gamma", alpha);
    Tensor forward(Tensor x) { return x + gamma; }
  } m;
  ExportedProgram ep = export_program(m, {{"x", randn({4})}});
  UnflattenedModule unflattened = unflatten(ep);
  nn::StateDict state = unflattened.state_dict();
  for (const char* name : {"alpha", "beta", "gamma"}) {
    EXPECT_TRUE(nn::find(ep.state_dict(), name)) << name;
    EXPECT_TRUE(nn::find(state, name)) << name;
  }
}

}  // namespace
}  // namespace tern
