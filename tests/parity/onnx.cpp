// The cases of the seeds onnx_no_runtime.py and export_with_onnxruntime.py, as a C++ user would write them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/export/export.h"
#include "tern/export/pt2.h"
#include "tern/nn/nn.h"
#include "tern/onnx/program.h"
#include "tern/ops.h"
#include "tern/script/compile.h"
#include "tests/support/onnx_runtime.h"
#include "tests/support/python.h"

namespace tern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> ops_of(const onnx::GraphProto& g) {
  std::vector<std::string> ops;
  for (const onnx::NodeProto& n : g.nodes) ops.push_back(n.op);
  return ops;
}

jit::ScriptModule script_module(std::string_view forward) {
  return jit::make_module("ModuleToExport", script::compile_function(forward)->graph(), {});
}

// The model is valid and gives the expected numbers in Tern and, where it is installed, in ONNX Runtime.
void expect_runs(const onnx::Model& model, const std::vector<Tensor>& inputs,
                 const std::vector<Tensor>& expected) {
  for (const onnx::Problem& p : onnx::check(model)) ADD_FAILURE() << p.str();
  std::vector<Value> values(inputs.begin(), inputs.end());
  std::vector<Tensor> own = testing::tensors_of(onnx::import_model(model).run(values));
  ASSERT_EQ(own.size(), expected.size());
  for (size_t i = 0; i < own.size(); ++i) {
    ASSERT_EQ(str(own[i].sizes()), str(expected[i].sizes()));
    std::vector<double> a = own[i].to_vector<double>(), b = expected[i].to_vector<double>();
    for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], 1e-4);
  }
  const std::string& python = testing::python_with("onnxruntime");
  if (python.empty()) return;
  testing::OrtRun run;
  std::vector<std::pair<std::string, Tensor>> named;
  for (size_t i = 0; i < model.graph.inputs.size(); ++i)
    named.emplace_back(model.graph.inputs[i].name, inputs.at(i));
  run.add("model", model, named, expected);
  for (const auto& [name, problem] : run.run(python)) EXPECT_EQ(problem, "") << name;
}

Tensor call(const jit::ScriptModule& m, const Tensor& x) {
  std::vector<Value> in{x};
  return m(in).tensor();
}

struct AddmmModel : nn::Module {
  Tensor forward(Tensor x) { return mm(x, x) + x; }
};

TEST(OnnxExport, fuse_addmm) {
  Tensor x = ones({3, 3});
  onnx::Model model = onnx::export_model(export_program(AddmmModel(), {{"x", x}}));
  EXPECT_THAT(ops_of(model.graph), ElementsAre("Gemm"));
  expect_runs(model, {x}, {mm(x, x) + x});
}

struct TwoLayers : nn::Module {
  nn::Linear fc1 = add("fc1", nn::Linear(3, 4)), fc2 = add("fc2", nn::Linear(4, 10));
  Tensor forward(Tensor x) { return fc2(relu(fc1(x))); }
};

TEST(OnnxExport, initializer_sequence) {
  TwoLayers net;
  Tensor x = randn({32, 3});
  onnx::Model model = onnx::export_model(export_program(net, {{"x", x}}));
  std::vector<std::string> initializers;
  for (const onnx::TensorProto& t : model.graph.initializers) initializers.push_back(t.name);
  EXPECT_THAT(initializers, ElementsAre("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"));
  expect_runs(model, {x}, {net.forward(x).detach()});
}

struct RSoftMax : nn::Module {
  int64_t radix = 2, cardinality = 1;
  Tensor forward(Tensor x) {
    SymInt batch = x.size(0);
    Tensor y = x.view({batch, cardinality, radix, -1}).transpose(1, 2);
    return softmax(y, 1).reshape({batch, -1});
  }
};

TEST(OnnxExport, shape_value_map) {
  Tensor x = randn({10, 1, 128, 1});
  auto program = export_program(RSoftMax(), {{"x", x}}, {.dynamic = {{"x", {{0, Dim("batch")}}}}});
  onnx::Model model = onnx::export_model(program);
  EXPECT_EQ(model.graph.inputs[0].type.str(), "FLOAT[batch, 1, 128, 1]");
  ASSERT_TRUE(model.graph.outputs[0].type.shape.has_value());
  EXPECT_EQ((*model.graph.outputs[0].type.shape)[1].value, 128);
  Tensor other = randn({4, 1, 128, 1});
  expect_runs(model, {other}, {RSoftMax().forward(other)});
}

TEST(OnnxExport, onnx_export_script_module) {
  auto m = script_module("def forward(x: Tensor) -> Tensor:\n  y = x - x\n  return x + x\n");
  Tensor x = randn({1, 2, 3});
  onnx::Model model = onnx::export_model(m, {x});
  EXPECT_THAT(ops_of(model.graph), ElementsAre("Add"));
  expect_runs(model, {x}, {x + x});
}

TEST(OnnxExport, onnx_export_script_module_if) {
  auto m = script_module(
      "def forward(x: Tensor) -> Tensor:\n  if bool(torch.sum(x) > 0):\n    x = torch.neg(x)\n  return x\n");
  onnx::Model model = onnx::export_model(m, {zeros({1, 2, 3})});
  EXPECT_THAT(ops_of(model.graph), ::testing::Contains("If"));
  for (const Tensor& x : {ones({1, 2, 3}), neg(ones({1, 2, 3}))}) expect_runs(model, {x}, {call(m, x)});
}

TEST(OnnxExport, onnx_export_script_module_loop) {
  auto m = script_module(
      "def forward(x: Tensor) -> Tensor:\n"
      "  for _ in range(5):\n"
      "    for i in range(3):\n"
      "      x = x + i\n"
      "  return x\n");
  Tensor x = randn({1, 2, 3});
  onnx::Model model = onnx::export_model(m, {x});
  EXPECT_THAT(ops_of(model.graph), ElementsAre("Loop"));
  expect_runs(model, {x}, {x + 15});
}

TEST(OnnxExport, onnx_export_script_truediv) {
  auto m = script_module("def forward(x: Tensor) -> Tensor:\n  z = x.size(0) / 2\n  return x + z\n");
  Tensor x = zeros({1, 2, 3});
  expect_runs(onnx::export_model(m, {x}), {x}, {x + 0.5});
}

TEST(OnnxExport, onnx_export_script_non_alpha_add_sub) {
  auto m = script_module("def forward(x: Tensor) -> int:\n  bs = x.size(0) + 1\n  return bs - 1\n");
  onnx::Model model = onnx::export_model(m, {rand({3, 4})});
  std::vector<Value> in{rand({3, 4})};
  EXPECT_EQ(testing::tensors_of(onnx::import_model(model).run(in)).at(0).item<int64_t>(), 3);
}

struct MaskModule : nn::Module {
  Tensor forward(Tensor x) { return masked_select(x, x < 0.5); }
};

TEST(OnnxExport, listconstruct_erasure) {
  Tensor x = rand({3, 4});
  onnx::Model model = onnx::export_model(export_program(MaskModule(), {{"x", x}}));
  expect_runs(model, {x}, {masked_select(x, x < 0.5)});
}

TEST(OnnxExport, export_dynamic_slice) {
  auto m = script_module(
      "def forward(x: Tensor) -> Tensor:\n"
      "  retval = x[0]\n"
      "  for i in range(x.size(1)):\n"
      "    retval = retval + torch.sum(x[0:i], dim=0)\n"
      "  return retval\n");
  Tensor x = rand({3, 4, 5});
  expect_runs(onnx::export_model(m, {x}), {x}, {call(m, x)});
}

struct Normed : nn::Module {
  nn::LayerNorm ln = add("ln", nn::LayerNorm({1}));
  Tensor forward(Tensor x) { return ln(x); }
};

TEST(OnnxExport, source_range_propagation) {
  onnx::Model model = onnx::export_model(export_program(Normed(), {{"x", zeros({1})}}));
  for (const onnx::NodeProto& n : model.graph.nodes) {
    std::string place, scopes;
    for (const onnx::Entry& e : n.metadata) {
      if (e.key == "pkg.torch.onnx.stack_trace") place = e.value;
      if (e.key == "pkg.torch.onnx.name_scopes") scopes = e.value;
    }
    EXPECT_THAT(place, HasSubstr("onnx.cpp")) << n.name;
    EXPECT_THAT(scopes, HasSubstr("'ln'")) << n.name;
  }
}

TEST(OnnxExport, onnx_checker_invalid_graph) {
  struct CustomAdd : nn::Module {
    Tensor forward(Tensor x, Tensor y) { return tern::add(x, y); }
  };
  onnx::Model model =
      onnx::export_model(export_program(CustomAdd(), {{"x", randn({2, 3, 4})}, {"y", randn({2, 3, 4})}}));
  model.graph.nodes[0].attributes.push_back(onnx::Attribute::of("invalid_attr", int64_t{1}));
  std::vector<onnx::Problem> problems = onnx::check(model);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0].str(), HasSubstr("Unrecognized attribute: invalid_attr for operator Add"));
}

TEST(OnnxExport, onnx_proto_checker) {
  struct Twice : nn::Module {
    Tensor forward(Tensor x) { return 2 * x; }
  };
  onnx::Model model = onnx::export_model(export_program(Twice(), {{"x", randn({1, 2, 3})}}));
  EXPECT_TRUE(onnx::check(model).empty());
  model.ir_version = 0;
  EXPECT_THAT(onnx::check(model).at(0).str(), HasSubstr("the ir_version 0 is not valid"));
}

TEST(OnnxExport, trace_detach_onnx_erase) {
  struct Mod : nn::Module {
    Tensor forward(Tensor x, Tensor w) { return matmul(x, w).detach(); }
  };
  Tensor x = rand({3, 4}), w = rand({4, 5});
  onnx::Model model = onnx::export_model(export_program(Mod(), {{"x", x}, {"w", w}}));
  EXPECT_THAT(ops_of(model.graph), ElementsAre("MatMul"));
  expect_runs(model, {x, w}, {matmul(x, w)});
}

TEST(OnnxExport, cat_with_empty_tensor) {
  struct NoopConcat : nn::Module {
    Tensor forward(Tensor x) {
      std::vector<Tensor> parts{zeros({0}), x};
      return cat(parts);
    }
  };
  Tensor x = randn({4, 5, 6});
  onnx::Model model = onnx::export_model(export_program(NoopConcat(), {{"x", x}}));
  EXPECT_EQ(model.graph.outputs[0].type.str(), "FLOAT[4, 5, 6]");
  expect_runs(model, {x}, {x});
}

TEST(OnnxExport, fp8_export) {
  struct ToFloat : nn::Module {
    Tensor forward(Tensor x) { return x.to(kFloat); }
  };
  for (auto [dtype, code] : {std::pair(DType::float8_e4m3fn, 17), std::pair(DType::float8_e5m2, 19)}) {
    Tensor x = randn({2, 3}).to(dtype);
    onnx::Model model = onnx::export_model(export_program(ToFloat(), {{"x", x}}));
    EXPECT_EQ(static_cast<int>(model.graph.inputs[0].type.elem_type), code);
    EXPECT_TRUE(onnx::check(model).empty());
    std::vector<Value> in{x};
    EXPECT_EQ(testing::tensors_of(onnx::import_model(model).run(in)).at(0).to_vector<float>(),
              x.to(kFloat).to_vector<float>());
  }
}

TEST(OnnxExport, aten_linalg_vector_norm_with_reducel2) {
  struct Normalize : nn::Module {
    Tensor forward(Tensor x) { return x / clamp_min(linalg_vector_norm(x, 2, 1, true), 1e-12).expand_as(x); }
  };
  Tensor x = randn({1, 2, 2});
  onnx::Model model = onnx::export_model(export_program(Normalize(), {{"x", x}}));
  EXPECT_THAT(ops_of(model.graph), ::testing::Contains("ReduceL2"));
  expect_runs(model, {x}, {Normalize().forward(x)});
}

TEST(OnnxExport, onnx_export_speculate) {
  auto m = script_module(
      "def forward(x: Tensor) -> Tensor:\n"
      "  x = x + x\n"
      "  c = torch.sum(x) > 4\n"
      "  if bool(c):\n"
      "    if bool(c):\n"
      "      y = x.t()\n"
      "    else:\n"
      "      y = x.t()\n"
      "  else:\n"
      "    y = x.t()\n"
      "  return y\n");
  onnx::Model model = onnx::export_model(m, {ones({1, 10})});
  for (const Tensor& x : {ones({1, 10}), zeros({1, 10})}) expect_runs(model, {x}, {call(m, x)});
}

TEST(OnnxExport, is_fp_for_C_TypeList) {
  auto m = script_module(
      "def forward(x: Tensor) -> Tensor:\n"
      "  w = x.size(2)\n"
      "  pos = x.view([2, -1]).argmax(1)\n"
      "  x_int = pos % w\n"
      "  return (pos - x_int) // w\n");
  Tensor x = randn({2, 4, 6});
  onnx::Model model = onnx::export_model(m, {x});
  EXPECT_EQ(model.graph.outputs[0].type.elem_type, onnx::DataType::int64);
  expect_runs(model, {x}, {call(m, x)});
}

TEST(OnnxExport, dropout_script) {
  struct Drop : nn::Module {
    Tensor forward(Tensor x) { return dropout(neg(x), 0.5, true); }
  };
  auto program = export_program(Drop(), {{"x", zeros({1, 2, 3})}});
  // A model for inference has no dropout: Tern says so instead of writing one.
  EXPECT_THAT([&] { onnx::export_model(program); }, ::testing::ThrowsMessage<Error>(HasSubstr("dropout")));
}

struct PlusOne : nn::Module {
  Tensor forward(Tensor x) { return x + 1.0; }
};

TEST(ExportToOnnx, exported_program_with_dynamic_input) {
  auto program =
      export_program(PlusOne(), {{"x", randn({2, 3, 4})}}, {.dynamic = {{"x", {{0, Dim("dim0")}}}}});
  onnx::Model model = onnx::export_model(program);
  EXPECT_EQ(model.graph.inputs[0].type.str(), "FLOAT[dim0, 3, 4]");
  EXPECT_EQ(model.graph.outputs[0].type.str(), "FLOAT[dim0, 3, 4]");
  Tensor y = randn({3, 3, 4});
  expect_runs(model, {y}, {y + 1.0});
}

TEST(ExportToOnnx, exported_program_as_input_from_file) {
  Tensor x = randn({1, 1, 2});
  io::TemporaryDir dir;
  save(export_program(PlusOne(), {{"x", x}}), dir / "program.pt2");
  ExportedProgram loaded = load_program(dir / "program.pt2");
  onnx::save(loaded, dir / "program.onnx");
  expect_runs(onnx::load(dir / "program.onnx"), {x}, {x + 1.0});
}

TEST(ExportToOnnx, exported_program_with_specialized_input_during_tracing) {
  struct Foo : nn::Module {
    Tensor forward(Tensor x, int64_t y) { return x + y; }
  };
  auto program = export_program(Foo(), {{"x", ones({7, 5})}, {"y", int64_t{5}}},
                                {.dynamic = {{"x", {{0, Dim("dim0_x", {.min = 6})}}}}});
  onnx::Model model = onnx::export_model(program);
  ASSERT_EQ(model.graph.inputs.size(), 1u);
  Tensor x = ones({8, 5});
  expect_runs(model, {x}, {x + 5});
}

struct Counting : nn::Module {
  Tensor count = register_buffer("my_buffer", tensor(4.0f));
  Tensor forward(Tensor x, Tensor b) {
    Tensor output = x + b;
    count.add_(1.0);
    return output;
  }
};

TEST(ExportToOnnx, exported_program_as_input_lifting_buffers_mutation) {
  Dim dim("dim");
  auto program = export_program(Counting(), {{"x", rand({3, 3})}, {"b", randn({3, 3})}},
                                {.dynamic = {{"x", {{0, dim}}}, {"b", {{0, dim}}}}});
  onnx::Model model = onnx::export_model(program);
  ASSERT_EQ(model.graph.outputs.size(), 2u);  // the user's, then the buffer's new value
  Tensor x = rand({4, 3}), b = randn({4, 3});
  expect_runs(model, {x, b}, {x + b, tensor(5.0f)});
}

TEST(ExportToOnnx, onnx_program_supports_none_arg_name_in_dynamic) {
  struct Foo : nn::Module {
    Tensor forward(Tensor a, Tensor b) { return a.sum() + b.sum(); }
  };
  auto program = export_program(Foo(), {{"a", randn({4, 4})}, {"b", randn({4, 4})}},
                                {.dynamic = {{"b", {{0, Dim("dim")}}}}});
  onnx::Model model = onnx::export_model(program);
  EXPECT_EQ(model.graph.inputs[0].type.str(), "FLOAT[4, 4]");
  EXPECT_EQ(model.graph.inputs[1].type.str(), "FLOAT[dim, 4]");
  Tensor a = randn({4, 4}), b = randn({7, 4});
  expect_runs(model, {a, b}, {a.sum() + b.sum()});
}

TEST(ExportToOnnx, onnx_program_suppors_non_arg_name_with_kwarg) {
  struct Foo : nn::Module {
    Tensor forward(Tensor a, Tensor b, Tensor kw1, Tensor kw2) {
      return a.sum() + b.sum() + kw1.sum() - kw2.sum();
    }
  };
  auto program = export_program(Foo(), {{"a", randn({4, 4})}, {"b", randn({4, 4})}},
                                {.kwargs = {{"kw1", zeros({4, 4})}, {"kw2", ones({4, 4})}},
                                 .dynamic = {{"b", {{0, Dim("dim")}}}, {"kw1", {{0, Dim("dim_for_kw1")}}}}});
  onnx::Model model = onnx::export_model(program);
  ASSERT_EQ(model.graph.inputs.size(), 4u);
  EXPECT_EQ(model.graph.inputs[2].type.str(), "FLOAT[dim_for_kw1, 4]");
  Tensor a = randn({4, 4}), b = randn({7, 4}), kw1 = zeros({9, 4}), kw2 = ones({4, 4});
  expect_runs(model, {a, b, kw1, kw2}, {Foo().forward(a, b, kw1, kw2)});
}

TEST(ExportToOnnx, onnx_program_supports_non_arg_name_with_container_type) {
  struct Foo : nn::Module {
    Tensor forward(std::vector<Tensor> a, Tensor b) { return a[0].sum() + a[1].sum() + b.sum(); }
  };
  std::vector<Tensor> pair{randn({4, 4}), randn({4, 4})};
  auto program = export_program(Foo(), {{"a", pair}, {"b", randn({4, 4})}},
                                {.dynamic = {{"a[1]", {{0, Dim("dim", {.min = 3})}}}}});
  onnx::Model model = onnx::export_model(program);
  ASSERT_EQ(model.graph.inputs.size(), 3u);
  Tensor x = randn({4, 4}), y = randn({6, 4}), b = randn({4, 4});
  expect_runs(model, {x, y, b}, {Foo().forward({x, y}, b)});
}

struct Bar : nn::Module {
  Tensor buf = register_buffer("buf", ones({1}));
  Tensor forward(Tensor x) {
    buf.add_(1);
    return x.sum() + buf.sum();
  }
};
struct FooWithBar : nn::Module {
  Tensor buf = register_buffer("buf", zeros({1}));
  Bar bar = add("bar", Bar());
  Tensor forward(Tensor x) {
    buf.add_(1);
    Tensor y = nn::call(bar, x);
    bar.buf.add_(2);
    return y.sum() + buf.sum();
  }
};

TEST(ExportToOnnx, onnx_program_supports_retraced_graph) {
  Tensor x = ones({5, 5});
  Dim dim0_x("dim0_x");
  auto program = export_program(FooWithBar(), {{"x", x}}, {.dynamic = {{"x", {{0, dim0_x}}}}});
  auto again = export_program(program.module(), {{"x", x}}, {.dynamic = {{"x", {{0, dim0_x}}}}});
  onnx::Model model = onnx::export_model(again);
  ASSERT_EQ(model.graph.outputs.size(), 3u);
  Tensor other = ones({7, 5});
  std::vector<Value> in{other};
  std::vector<Tensor> results = testing::tensors_of(onnx::import_model(model).run(in));
  EXPECT_EQ(results[0].item<float>(), 35 + 2 + 1);
}

}  // namespace
}  // namespace tern
