// Reading and writing models: what onnx writes, external data, and damaged files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/ir/interpreter.h"
#include "tern/ir/text.h"
#include "tern/onnx/onnx.h"
#include "tests/io/malformed.h"
#include "tests/support/onnx_runtime.h"
#include "tests/support/python.h"

namespace tern {
namespace {

using ::testing::HasSubstr;

onnx::Model small_model(bool metadata = true) {
  auto graph = ir::parse(
      "graph(%x : Float(s0, 3), %w : Float(2, 3), %b : Float(2)):\n"
      "  %y : Float(s0, 2) = aten::linear(%x, %w, %b)\n"
      "  %z : Float(s0, 2) = aten::relu(%y)\n"
      "  return (%z)\n");
  Tensor w = from_vector(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}),
         b = from_vector(std::vector<float>{0.5f, -0.5f}, {2});
  return onnx::export_model({*graph, {{"w", "fc.weight", w}, {"b", "fc.bias", b}}}, {.metadata = metadata});
}

TEST(OnnxModel, keeps_names_and_dims) {
  onnx::Model m = small_model();
  ASSERT_EQ(m.graph.inputs.size(), 1u);
  EXPECT_EQ(m.graph.inputs[0].name, "x");
  EXPECT_EQ(m.graph.inputs[0].type.str(), "FLOAT[s0, 3]");
  EXPECT_EQ(m.graph.outputs[0].name, "z");
  EXPECT_EQ(m.graph.outputs[0].type.str(), "FLOAT[s0, 2]");
  ASSERT_EQ(m.graph.initializers.size(), 2u);
  EXPECT_EQ(m.graph.initializers[0].name, "fc.weight");
  EXPECT_EQ(m.graph.initializers[1].name, "fc.bias");
  EXPECT_EQ(m.graph.nodes[0].op, "Gemm");
  EXPECT_EQ(m.graph.nodes[0].name, "node_y");
}

TEST(OnnxModel, bytes_read_back_the_same) {
  std::string bytes = onnx::to_bytes(small_model());
  EXPECT_EQ(onnx::to_bytes(onnx::read(io::own(bytes))), bytes);
}

TEST(OnnxModel, external_data_is_aligned_and_mapped) {
  io::TemporaryDir dir;
  onnx::Model m = small_model();
  onnx::write(m, dir / "m.onnx",
              {.external = onnx::WriteOptions::ExternalData::always, .external_threshold = 4});
  onnx::Model back = onnx::load(dir / "m.onnx");
  ASSERT_TRUE(back.graph.initializers[0].external.has_value());
  EXPECT_EQ(back.graph.initializers[0].external->location, "m.onnx.data");
  EXPECT_EQ(back.graph.initializers[1].external->offset % 64, 0u);
  EXPECT_EQ(onnx::to_tensor(back.graph.initializers[1]).to_vector<float>(),
            (std::vector<float>{0.5f, -0.5f}));
  TERN_NEEDS_PYTHON(python, "onnx");
  auto r = testing::run_python(python,
                               "import onnx, sys, onnx.numpy_helper as h\n"
                               "m = onnx.load(sys.argv[1]); onnx.checker.check_model(sys.argv[1])\n"
                               "print(h.to_array(m.graph.initializer[0]).tolist())",
                               "'" + (dir / "m.onnx") + "'");
  EXPECT_EQ(r.output, "[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]\n");
}

TEST(OnnxModel, external_data_may_not_leave_the_folder) {
  io::TemporaryDir dir;
  onnx::Model m = small_model();
  for (const char* path : {"../secret", "/etc/passwd", "a/../../b"}) {
    m.graph.initializers[0].raw = {};
    m.graph.initializers[0].external = onnx::External{path, 0, 24};
    io::write_file(dir / "m.onnx", onnx::to_bytes(m));
    EXPECT_THAT(io::error_of([&] { onnx::load(dir / "m.onnx"); }), HasSubstr("outside the model's folder"));
  }
}

TEST(OnnxModel, external_data_that_is_too_short_is_refused) {
  io::TemporaryDir dir;
  onnx::Model m = small_model();
  m.graph.initializers[0].raw = {};
  m.graph.initializers[0].external = onnx::External{"w.bin", 8, 24};
  io::write_file(dir / "m.onnx", onnx::to_bytes(m));
  EXPECT_THAT(io::error_of([&] { onnx::load(dir / "m.onnx"); }), HasSubstr("w.bin"));
  io::write_file(dir / "w.bin", std::string_view("short"));
  EXPECT_THAT(io::error_of([&] { onnx::load(dir / "m.onnx"); }), HasSubstr("ends behind the end of 'w.bin'"));
}

TEST(OnnxModel, damaged_files_are_results_or_errors) {
  std::vector<uint8_t> file = io::bytes_of(onnx::to_bytes(small_model(false)));
  io::Outcome o = io::try_damaged(file, [](io::Blob blob) {
    onnx::Model m = onnx::read(blob);
    onnx::check(m);
    try {
      onnx::import_model(m);
    } catch (const Error& e) {
      if (e.kind() == ErrorKind::internal) throw;
    }
  });
  EXPECT_GT(o.refused, 100);
}

TEST(OnnxModel, what_is_no_model_is_refused) {
  EXPECT_THAT(io::error_of([] { onnx::read({}); }), HasSubstr("the file is empty"));
  EXPECT_THAT(io::error_of([] { onnx::read(io::own(std::string("\x08\x07", 2))); }),
              HasSubstr("it has no graph"));
}

TEST(OnnxModel, all_unsupported_operators_are_named_at_once) {
  auto graph = ir::parse(
      "graph(%x : Float(2, 3)):\n"
      "  %y : Float(2, 3) = aten::lgamma(%x)\n"
      "  %z : Float(2, 3) = aten::erfinv(%y) # net.py:12:3\n"
      "  return (%z)\n");
  std::string message = io::error_of([&] { onnx::export_model({*graph}); });
  EXPECT_THAT(message, HasSubstr("2 nodes of the graph cannot be expressed"));
  EXPECT_THAT(message, HasSubstr("aten::lgamma at %y"));
  EXPECT_THAT(message, HasSubstr("aten::erfinv at %z (net.py:12:3)"));
}

TEST(OnnxModel, opsets_outside_the_range_are_refused) {
  auto graph = ir::parse("graph(%x : Float(2)):\n  return (%x)\n");
  EXPECT_THAT(io::error_of([&] { onnx::export_model({*graph}, {.opset = 9}); }),
              HasSubstr("choose one from 18 to 23"));
}

TEST(OnnxModel, names_can_be_given) {
  auto graph = ir::parse("graph(%x : Float(2)):\n  %y : Float(2) = aten::relu(%x)\n  return (%y, %x)\n");
  onnx::Model m = onnx::export_model({*graph}, {.input_names = {"in"}, .output_names = {"out", "same"}});
  EXPECT_EQ(m.graph.inputs[0].name, "in");
  EXPECT_EQ(m.graph.outputs[0].name, "out");
  EXPECT_EQ(m.graph.outputs[1].name, "same");
  EXPECT_EQ(m.graph.nodes.back().op, "Identity");
  EXPECT_THAT(io::error_of([&] { onnx::export_model({*graph}, {.output_names = {"a"}}); }),
              HasSubstr("1 output names were given for 2 outputs"));
}

TEST(OnnxModel, the_checker_says_where_and_what) {
  onnx::Model m = small_model();
  EXPECT_TRUE(onnx::check(m).empty());
  m.graph.nodes[1].inputs[0] = "nowhere";
  m.graph.nodes[0].attributes.push_back(onnx::Attribute::of("invalid_attr", int64_t{1}));
  std::vector<onnx::Problem> p = onnx::check(m);
  ASSERT_EQ(p.size(), 2u);
  EXPECT_EQ(p[0].str(), "node 'node_y' (Gemm): Unrecognized attribute: invalid_attr for operator Gemm");
  EXPECT_THAT(p[1].str(), HasSubstr("its input 'nowhere' is not computed before it"));
  m.graph.nodes.push_back({.op = "Strange", .outputs = {"q"}});
  EXPECT_EQ(onnx::check(m).back().severity, onnx::Problem::Severity::note);
}

TEST(OnnxModel, shapes_are_inferred) {
  onnx::Model m = small_model();
  m.graph.values.clear();
  m.graph.outputs[0].type.shape.reset();
  onnx::infer_shapes(m);
  EXPECT_EQ(m.graph.outputs[0].type.str(), "FLOAT[s0, 2]");
  ASSERT_EQ(m.graph.values.size(), 1u);
  EXPECT_EQ(m.graph.values[0].name, "y");
}

TEST(OnnxModel, branches_and_loops_run_in_onnxruntime) {
  TERN_NEEDS_PYTHON(python, "onnxruntime");
  const char* texts[] = {
      "graph(%x : Float(2, 3)):\n"
      "  %s : Float() = aten::sum(%x)\n"
      "  %c : Bool() = aten::gt.Scalar(%s, 0)\n"
      "  %b : bool = aten::Bool(%c)\n"
      "  %y : Float(2, 3) = prim::If(%b)\n"
      "    block0():\n"
      "      %n : Float(2, 3) = aten::neg(%x)\n"
      "      -> (%n)\n"
      "    block1():\n"
      "      -> (%x)\n"
      "  return (%y)\n",
      "graph(%x : Float(2, 3)):\n"
      "  %y : Float(2, 3) = prim::Loop(5, True, %x)\n"
      "    block0(%i : int, %v : Float(2, 3)):\n"
      "      %a : Float(2, 3) = aten::add.Scalar(%v, %i)\n"
      "      -> (True, %a)\n"
      "  return (%y)\n"};
  testing::OrtRun run;
  uint32_t seed = 3;
  for (size_t i = 0; i < 2; ++i) {
    auto graph = ir::parse(texts[i]);
    Tensor x = testing::example(*graph->inputs()[0]->type(), seed);
    std::vector<tern::Value> in{x};
    onnx::Model m = onnx::export_model({*graph});
    run.add("m" + std::to_string(i), m, {{"x", x}}, testing::tensors_of(ir::run(*graph, in)));
    std::vector<Tensor> again = testing::tensors_of(onnx::import_model(m).run(in));
    EXPECT_EQ(again[0].to_vector<float>(), testing::tensors_of(ir::run(*graph, in))[0].to_vector<float>());
  }
  for (const auto& [name, problem] : run.run(python)) EXPECT_EQ(problem, "") << name;
}

}  // namespace
}  // namespace tern
