// Exported programs: capture, lowering, running, training, printing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/export/checks.h"
#include "tern/export/control_flow.h"
#include "tern/export/export.h"
#include "tern/nn/layer.h"
#include "tern/onnx/program.h"
#include "tern/ops.h"
#include "tern/runtime/session.h"

namespace tern {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Linear : nn::Layer<Linear> {
  static constexpr const char* type_name = "torch.nn.modules.linear.Linear";
  nn::Parameter weight, bias;
  Linear(int64_t in, int64_t out) {
    weight = register_parameter("weight", (arange(out * in).to(kFloat) * 0.37).sin().view({out, in}));
    bias = register_parameter("bias", arange(out).to(kFloat) * 0.1);
  }
  Tensor forward(const Tensor& x) const { return linear(x, weight, bias); }
};

struct Mlp : nn::Module {
  Linear fc1 = add("fc1", Linear(4, 8)), fc2 = add("fc2", Linear(8, 3));
  Tensor forward(Tensor x) { return fc2(relu(fc1(x))); }
};

ExportedProgram export_mlp(Mlp& net, bool training = false) {
  Dim batch("batch", {.min = 1, .max = 64});
  ExportOptions options{.dynamic = {{"x", {{0, batch}}}}};
  return training ? export_for_training(net, {{"x", ones({2, 4})}}, options)
                  : export_program(net, {{"x", ones({2, 4})}}, options);
}

void expect_close(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(str(a.sizes()), str(b.sizes()));
  std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-5) << "element " << i;
}

TEST(ExportProgram, TrainingDialectKeepsTheCallsOfTheUser) {
  Mlp net;
  EXPECT_EQ(export_mlp(net, true).code(),
            R"(def forward(self, p_fc1_weight, p_fc1_bias, p_fc2_weight, p_fc2_bias, x):
    linear = torch.ops.aten.linear.default(x, p_fc1_weight, p_fc1_bias);  x = p_fc1_weight = p_fc1_bias = None
    relu = torch.ops.aten.relu.default(linear);  linear = None
    linear_1 = torch.ops.aten.linear.default(relu, p_fc2_weight, p_fc2_bias);  relu = p_fc2_weight = p_fc2_bias = None
    return (linear_1,))");
}

TEST(ExportProgram, DecompositionsGoFromCompositesToCoreAten) {
  Mlp net;
  ExportedProgram aten = export_mlp(net);
  EXPECT_EQ(aten.dialect(), Dialect::aten);
  EXPECT_THAT(aten.code(), HasSubstr("t = torch.ops.aten.t.default(p_fc1_weight)"));
  EXPECT_THAT(aten.code(), HasSubstr("addmm = torch.ops.aten.addmm.default(p_fc1_bias, x, t)"));
  ExportedProgram core = aten.run_decompositions();
  EXPECT_EQ(core.dialect(), Dialect::core);
  EXPECT_THAT(core.code(), HasSubstr("torch.ops.aten.permute.default(p_fc1_weight, [1, 0])"));
}

TEST(ExportProgram, RunsForOtherSizesOfADynamicDim) {
  Mlp net;
  for (ExportedProgram program :
       {export_mlp(net, true), export_mlp(net), export_mlp(net).run_decompositions()}) {
    ExportedModule module = program.module();
    for (int64_t n : {1, 2, 7, 64}) {
      Tensor x = arange(n * 4).to(kFloat).view({n, 4});
      expect_close(module(x).tensor(), nn::call(net, x));
    }
    EXPECT_THAT(
        [&] {
          module(ones({65, 4}));
        },
        ThrowsMessage<Error>(HasSubstr("Expected input at *args[0].shape[0] to be <= 64, but got 65")));
    EXPECT_THAT(
        [&] {
          module(ones({2, 5}));
        },
        ThrowsMessage<Error>(HasSubstr("Expected input at *args[0].shape[1] to be equal to 4, but got 5")));
    EXPECT_THAT(
        [&] {
          module(ones({2, 4}), ones({2}));
        },
        ThrowsMessage<Error>(HasSubstr("Trying to flatten user inputs with exported input tree spec")));
    EXPECT_THAT(
        [&] {
          module(ones({2, 4}).to(kDouble));
        },
        ThrowsMessage<Error>(
            HasSubstr("Expected input at *args[0].dtype to be torch.float32, but got torch.float64")));
  }
}

TEST(ExportProgram, HalvesOfADimSuggestThatItIsEven) {
  auto halves = [](Tensor x) { return x.view({floor_div(x.size(0), 2), 2, 4}); };
  EXPECT_THAT(
      [&] {
        export_program(halves, {{"x", ones({6, 4})}},
                       {.dynamic = {{"x", {{0, Dim("batch", {.min = 2, .max = 64})}}}}});
      },
      ThrowsMessage<Error>(HasSubstr("Suggested fixes:\n"
                                     "  _batch = Dim('_batch', min=1, max=32)\n"
                                     "  batch = 2*_batch")));
}

// Nothing in the program has the size of the root h: it is computed from a size that is derived from it.
TEST(ExportProgram, SizesOfTheRootOfADerivedDim) {
  struct Case {
    const char* name;
    Dim dim;
    int64_t example, other, refused;
    Tensor (*function)(Tensor x);
  };
  const Dim h("h", {.max = 32});
  const Case cases[] = {
      {"2*h", 2 * h, 6, 10, 7,
       [](Tensor x) {
         return x.view({floor_div(x.size(0), 2), 2, 4});
       }},
      {"3*h + 1", 3 * h + 1, 7, 13, 9,
       [](Tensor x) {
         SymInt n = floor_div(x.size(0) - 1, 3);
         return x.slice(0, 0, n) * ones({n, 1});
       }},
      {"3*h - 1", 3 * Dim("h", {.min = 1, .max = 32}) - 1, 5, 11, 9,
       [](Tensor x) {
         return ones({floor_div(x.size(0) + 1, 3), 4}) + x.slice(0, 0, 1);
       }},
      {"2*h, twice the size", 2 * h, 6, 10, 7,
       [](Tensor x) {
         return cat({x, x}).view({x.size(0) * 2, 2, 2}) + x.size(0);
       }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    ExportedProgram program =
        export_program(c.function, {{"x", arange(c.example * 4).to(kFloat).view({c.example, 4})}},
                       {.dynamic = {{"x", {{0, c.dim}}}}});
    Tensor x = arange(c.other * 4).to(kFloat).view({c.other, 4});
    for (const ExportedProgram& p : {program, program.run_decompositions(Dialect::core)}) {
      expect_close(p.module()(x).tensor(), c.function(x));
      expect_close(Session(p).run({x})[0], c.function(x));
      onnx::Model model = onnx::export_model(p);
      EXPECT_TRUE(onnx::check(model).empty());
      Value given(x);
      expect_close(onnx::import_model(model).run({&given, 1})[0].tensor(), c.function(x));
    }
    EXPECT_THAT(
        [&] {
          program.module()(ones({c.refused, 4}));
        },
        ThrowsMessage<Error>(HasSubstr("to be of the form")));
  }
}

TEST(ExportProgram, ShowsItselfAsPyTorchDoes) {
  Mlp net;
  std::string text = export_mlp(net).str();
  EXPECT_THAT(
      text, HasSubstr("ExportedProgram:\n    class GraphModule(torch.nn.Module):\n        def forward(self, "
                      "p_fc1_weight: \"f32[8, 4]\", p_fc1_bias: \"f32[8]\""));
  EXPECT_THAT(text, HasSubstr("x: \"f32[s0, 4]\""));
  EXPECT_THAT(text, HasSubstr("    p_fc1_weight: PARAMETER target='fc1.weight'\n"));
  EXPECT_THAT(text, HasSubstr("    x: USER_INPUT\n"));
  EXPECT_THAT(text, HasSubstr("    addmm_1: USER_OUTPUT\n"));
  EXPECT_THAT(text, HasSubstr("Range constraints: {s0: VR[1, 64]}\n"));
}

TEST(ExportProgram, TrainsThroughTheModule) {
  Mlp net;
  ExportedModule module = export_mlp(net).module();
  Tensor x = ones({2, 4});
  module(x).tensor().sum().backward();
  Tensor found = net.parameter("fc1.weight").grad();
  ASSERT_TRUE(found.defined());
  Tensor copy = found.clone();
  net.zero_grad();
  nn::call(net, x).sum().backward();
  expect_close(copy, net.parameter("fc1.weight").grad());
  std::vector<std::string> names;
  for (const auto& [name, tensor] : module.named_parameters()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
}

TEST(ExportProgram, FunctionsAndNestedContainers) {
  auto f = [](std::vector<Tensor> xs, std::vector<std::pair<std::string, Tensor>> d) {
    return std::pair(xs[0] + xs[1], std::vector<Tensor>{d[0].second * 2, d[0].second});
  };
  std::vector<std::pair<std::string, Tensor>> d{{"a", ones({3})}};
  ExportedProgram p = export_program(f, {{"xs", std::vector<Tensor>{ones({2}), ones({2})}}, {"d", d}});
  EXPECT_EQ(p.signature().targets(InputKind::user_input), (std::vector<std::string>{"xs_0", "xs_1", "d_a"}));
  Value out = p.module()(std::vector<Tensor>{ones({2}), ones({2})}, d);
  EXPECT_TRUE(out.is_tuple());
  expect_close(out.items()[0].tensor(), ones({2}) * 2);
  expect_close(out.items()[1].items()[0].tensor(), ones({3}) * 2);
}

TEST(ExportProgram, ConstantsAreLifted) {
  Tensor w = tensor({1.0, 2.0, 3.0}, {.dtype = kFloat});
  auto f = [w](Tensor x) { return x * w + tensor({1.0f, 1.0f, 1.0f}); };
  ExportedProgram p = export_program(f, {{"x", ones({3})}});
  EXPECT_THAT(p.code(), HasSubstr("def forward(self, c_lifted_tensor_0, c_lifted_tensor_1, x):"));
  EXPECT_THAT(p.code(),
              HasSubstr("lift_fresh_copy = torch.ops.aten.lift_fresh_copy.default(c_lifted_tensor_0)"));
  expect_close(p.module()(ones({3})).tensor(), w + 1);
}

TEST(ExportProgram, NothingIsWrittenWhileExporting) {
  struct Counter : nn::Module {
    nn::Buffer n = register_buffer("n", zeros({1}));
    Tensor forward(Tensor x) {
      n.add_(1);
      x.mul_(2);
      return x + n;
    }
  } net;
  Tensor x = ones({2});
  ExportedProgram p = export_program(net, {{"x", x}});
  EXPECT_EQ(net.buffer("n").item<double>(), 0);
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{1, 1}));
  EXPECT_EQ(p.signature().outputs[0].kind, OutputKind::buffer_mutation);
  EXPECT_EQ(p.signature().outputs[1].kind, OutputKind::user_input_mutation);
  EXPECT_EQ(p.signature().outputs[1].target, "x");
  Tensor given = ones({2});
  EXPECT_EQ(p.module()(given).tensor().to_vector<double>(), (std::vector<double>{3, 3}));
  EXPECT_EQ(given.to_vector<double>(), (std::vector<double>{2, 2}));
  EXPECT_EQ(net.buffer("n").item<double>(), 1);
}

TEST(ExportProgram, InputsThatAreNoTensorsAreConstants) {
  auto f = [](Tensor x, int64_t n, std::optional<Tensor> y) { return y ? x * n + *y : x * n; };
  ExportedProgram p = export_program(f, {{"x", ones({2})}, {"n", 3}, {"y", std::nullopt}});
  EXPECT_EQ(p.module()(ones({2}), 3, std::nullopt).tensor().to_vector<double>(), (std::vector<double>{3, 3}));
  EXPECT_THAT([&] { p.module()(ones({2}), 4, std::nullopt); },
              ThrowsMessage<Error>(HasSubstr("Expected input at *args[1] to be equal to 3, but got 4")));
}

TEST(ExportProgram, KeywordsComeInAnyOrder) {
  auto f = [](Tensor x, Tensor a, Tensor b) { return x + a * 2 + b * 3; };
  ExportedProgram p = export_program(f, {{"x", ones({1})}}, {.kwargs = {{"a", ones({1})}, {"b", ones({1})}}});
  Value y = p.module().call({Value(ones({1}))}, {{"b", Value(zeros({1}))}, {"a", Value(ones({1}))}});
  EXPECT_EQ(y.tensor().item<double>(), 3);
}

TEST(ExportProgram, MistakesAreNamed) {
  auto f = [](Tensor x) { return x + 1; };
  EXPECT_THAT(
      [&] {
        export_program(f, {{"x", ones({2})}}, {.dynamic = {{"y", {{0, Dim::AUTO}}}}});
      },
      ThrowsMessage<Error>(HasSubstr("dims are given for 'y', which is no input; the inputs are x")));
  EXPECT_THAT(
      [&] {
        export_program(f, {{"x", ones({2})}}, {.dynamic = {{"x", {{1, Dim::AUTO}}}}});
      },
      ThrowsMessage<Error>(HasSubstr("dimension 1 of x, which has 1 dimensions")));
  EXPECT_THAT(
      [&] {
        export_program(f, {{"x", ones({2})}, {"x", ones({2})}});
      },
      ThrowsMessage<Error>(HasSubstr("two inputs are called 'x'")));
  EXPECT_THAT(
      [&] {
        export_program(f, {{"x", ones({2})}, {"y", ones({2})}});
      },
      ThrowsMessage<Error>(HasSubstr("forward takes 1 arguments, but 2 were given")));
  auto branch = [](Tensor x) { return x.size(0) > 3 ? x + 1 : x - 1; };
  EXPECT_THAT(
      [&] {
        export_program(branch, {{"x", ones({5})}}, {.dynamic = {{"x", {{0, Dim("n")}}}}});
      },
      ThrowsMessage<Error>(HasSubstr("Suggested fixes:\n  n = Dim('n', min=4)")));
}

TEST(ExportProgram, NumbersFromDataAreCheckedAtRunTime) {
  auto f = [](Tensor x) {
    SymInt n = x.item().sym();
    check_is_size(n);
    check(sym_ge(n, 4));
    check(sym_le(n, 9));
    return ones(Dims{n, 1});
  };
  ExportedProgram p = export_program(f, {{"x", tensor({5})}});
  EXPECT_EQ(p.module()(tensor({7})).tensor().size(0), 7);
  EXPECT_THAT([&] { p.module()(tensor({3})); },
              ThrowsMessage<Error>(HasSubstr("Invalid value range for 3 between [4, 9]")));
}

TEST(ExportProgram, SizesThatDependOnDataAreSymbols) {
  auto f = [](Tensor x, Tensor mask) { return index_select(x, 0, nonzero(mask).flatten()) * 2; };
  ExportedProgram p = export_program(f, {{"x", arange(6).to(kFloat)}, {"mask", ones({6})}});
  EXPECT_THAT(p.str(), HasSubstr("nonzero: \"i64[u"));
  Tensor mask = tensor({0.0f, 1.0f, 0.0f, 0.0f, 0.0f, 1.0f});
  expect_close(p.module()(arange(6).to(kFloat), mask).tensor(), tensor({2.0f, 10.0f}));
}

TEST(ExportProgram, BranchesOnSizesStayInTheProgram) {
  auto f = [](Tensor x) {
    return cond(
        sym_gt(x.size(0), 4), [](Tensor y) { return y.cos(); }, [](Tensor y) { return y * y.size(0); }, x);
  };
  ExportedProgram p = export_program(f, {{"x", ones({6, 3})}}, {.dynamic = {{"x", {{0, Dim("n")}}}}});
  EXPECT_THAT(p.code(), HasSubstr("gt = sym_size_int > 4"));
  EXPECT_THAT(p.code(), HasSubstr("torch.ops.higher_order.cond(gt, true_graph_0, false_graph_0, [x])"));
  expect_close(p.module()(ones({2, 3})).tensor(), ones({2, 3}) * 2);
  expect_close(p.module()(zeros({8, 3})).tensor(), ones({8, 3}));
}

TEST(ExportProgram, BranchesMustNotChangeTheirInputsOrDisagree) {
  auto changes = [](Tensor x) {
    return cond(
        x.sum() > 0, [](Tensor y) { return y.add_(1); }, [](Tensor y) { return y + 0; }, x);
  };
  EXPECT_THAT(
      [&] {
        export_program(changes, {{"x", ones({2})}});
      },
      ThrowsMessage<Error>(HasSubstr("cond: true_fn changes %x_1 in place (aten::add_.Tensor)")));
  auto disagrees = [](Tensor x) {
    return cond(
        x.sum() > 0, [](Tensor y) { return y; }, [](Tensor y) { return y.to(kDouble); }, x);
  };
  EXPECT_THAT(
      [&] {
        export_program(disagrees, {{"x", ones({2})}});
      },
      ThrowsMessage<Error>(HasSubstr("cond: the branches give tensors of float32 and float64")));
}

TEST(ExportProgram, ReplacingABufferIsRefusedAndUndone) {
  struct Replaces : nn::Module {
    nn::Buffer n = register_buffer("n", zeros({1}));
    Tensor forward(Tensor x) {
      n = n + 1;
      return x + n;
    }
  } net;
  EXPECT_THAT(
      [&] {
        export_program(net, {{"x", ones({1})}});
      },
      ThrowsMessage<Error>(HasSubstr("export: 'n' was replaced by another tensor")));
  EXPECT_FALSE(net.buffer("n").is_fake());
}

}  // namespace
}  // namespace tern
