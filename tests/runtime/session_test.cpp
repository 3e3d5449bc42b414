// Sessions: every backend gives the module's numbers, also for sizes it has not seen; wrong input is named.
#include "tern/runtime/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tern/io/file.h"
#include "tern/ir/text.h"
#include "tern/runtime/plan.h"
#include "tern/tern.h"
#include "tests/support/errors.h"

namespace tern {
namespace {

using ::testing::HasSubstr;

struct Net : nn::Module {
  nn::Conv2d conv = add("conv", nn::Conv2d({.in = 3, .out = 8, .kernel = 3, .padding = 1}));
  nn::BatchNorm2d norm = add("norm", nn::BatchNorm2d(8));
  nn::Linear fc = add("fc", nn::Linear(8, 5));
  Tensor forward(Tensor x) { return fc(relu(norm(conv(x))).mean({2, 3})).softmax(-1); }
};

ExportedProgram program_of(Net& net) {
  net.eval();
  Dim batch("batch", {.max = 64});
  return export_program(net, {{"x", randn({2, 3, 6, 6})}}, {.dynamic = {{"x", {{0, batch}}}}});
}

double difference(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST(Session, every_backend_gives_the_module_s_numbers_at_every_size) {
  manual_seed(0);
  Net net;
  ExportedProgram program = program_of(net);
  NoGrad no_grad;
  for (const char* backend : {"native", "interpreter", "onnxrt"}) {
    Session session(program, {.backend = backend});
    EXPECT_EQ(session.input_names(), std::vector<std::string>{"x"});
    for (int64_t n : {2, 5, 2, 1}) {
      Tensor x = randn({n, 3, 6, 6});
      EXPECT_LT(difference(session.run({x})[0], nn::call(net, x)), 1e-5) << backend << " at " << n;
    }
  }
}

TEST(Session, results_belong_to_the_caller) {
  manual_seed(0);
  Net net;
  Session session(program_of(net));
  Tensor x = randn({2, 3, 6, 6});
  Tensor first = session.run({x})[0], kept = first.clone();
  session.run({randn({2, 3, 6, 6})});
  EXPECT_EQ(difference(first, kept), 0);
}

TEST(Session, runs_may_come_from_several_threads) {
  manual_seed(0);
  Net net;
  ExportedProgram program = program_of(net);
  NoGrad no_grad;
  for (const char* backend : {"native", "interpreter"}) {
    Session session(program, {.backend = backend});
    std::vector<Tensor> inputs, wanted;
    for (int64_t n = 1; n <= 4; ++n) {
      inputs.push_back(randn({n, 3, 6, 6}));
      wanted.push_back(nn::call(net, inputs.back()));
    }
    std::vector<double> worst(4, -1);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < worst.size(); ++t)
      threads.emplace_back([&, t] {
        // Every thread all sizes, each beginning with another one.
        for (size_t i = 0; i < 12; ++i) {
          size_t which = (t + i) % inputs.size();
          worst[t] = std::max(worst[t], difference(session.run({inputs[which]})[0], wanted[which]));
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (double d : worst) {
      EXPECT_GE(d, 0) << backend;
      EXPECT_LT(d, 1e-5) << backend;
    }
  }
}

// Sessions of their own share the weights, the registry and the interned symbols.
TEST(Session, every_thread_may_have_its_own) {
  manual_seed(0);
  Net net;
  ExportedProgram program = program_of(net);
  NoGrad no_grad;
  Tensor x = randn({3, 3, 6, 6}), wanted = nn::call(net, x);
  std::vector<double> found(3, -1);
  std::vector<std::thread> threads;
  for (double& d : found)
    threads.emplace_back([&] {
      for (int round = 0; round < 3; ++round)
        d = std::max(d, difference(Session(program).run({x})[0], wanted));
    });
  for (std::thread& thread : threads) thread.join();
  for (double d : found) {
    EXPECT_GE(d, 0);
    EXPECT_LT(d, 1e-5);
  }
}

// The outputs' memory is had before the first step: what was had already goes back (LeakSanitizer looks).
TEST(Session, an_output_that_does_not_fit_into_memory_is_an_error) {
  auto graph = ir::parse(R"(graph(%x : Tensor):
  %small : Tensor = aten::add(%x, %x, alpha=1)
  %big : Tensor = aten::full([281474976710656], 0.5)
  return (%small, %big)
)");
  Value x = randn({4});
  runtime::Plan plan(*graph, std::vector<runtime::Binding>(1), {&x, 1});
  for (int round = 0; round < 3; ++round) {
    try {
      plan.run({&x, 1});
      ADD_FAILURE() << "a petabyte was had";
    } catch (const Error& e) {
      EXPECT_THAT(e.message(), HasSubstr("not enough memory"));
    }
  }
}

TEST(Session, an_input_of_any_layout_is_taken) {
  manual_seed(0);
  Net net;
  Session session(program_of(net));
  NoGrad no_grad;
  Tensor x = randn({2, 6, 6, 3}).permute({0, 3, 1, 2});
  ASSERT_FALSE(x.is_contiguous());
  EXPECT_LT(difference(session.run({x})[0], nn::call(net, x)), 1e-5);
}

struct Counter : nn::Module {
  nn::Buffer count = register_buffer("count", zeros({1}));
  Tensor forward(Tensor x) {
    count.add_(1);
    return x + count;
  }
};

TEST(Session, a_buffer_that_the_model_changes_is_changed) {
  Counter net;
  Session session(export_program(net, {{"x", zeros({1})}}));
  EXPECT_EQ(session.run({zeros({1})})[0].item<double>(), 1);
  EXPECT_EQ(session.run({zeros({1})})[0].item<double>(), 2);
}

using tern::testing::error_of;

TEST(Session, wrong_input_is_named) {
  Net net;
  Session session(program_of(net));
  EXPECT_THAT(error_of([&] { session.run({}); }), HasSubstr("takes 1 inputs, but 0 were given"));
  EXPECT_THAT(error_of([&] {
                session.run({randn({2, 3, 6, 7})});
              }),
              HasSubstr("input 'x' must have the shape [s0, 3, 6, 6]"));
  EXPECT_THAT(error_of([&] {
                session.run({randn({2, 3, 6, 6}).to(kDouble)});
              }),
              HasSubstr("input 'x' must be of dtype float32"));
  EXPECT_THAT(error_of([&] { Session(program_of(net), {.backend = "gpu"}); }),
              HasSubstr("no backend 'gpu' (there are"));
  EXPECT_THAT(
      error_of([&] { Session(program_of(net), {.backend = "onnxrt", .onnxruntime = "/nowhere/lib.so"}); }),
      ::testing::AnyOf(HasSubstr("there is no /nowhere/lib.so"), HasSubstr("no error")));
}

TEST(ModelFile, every_format_becomes_every_other) {
  manual_seed(0);
  Net net;
  ExportedProgram program = program_of(net);
  Tensor x = randn({2, 3, 6, 6});
  NoGrad no_grad;
  Tensor expected = nn::call(net, x);
  io::TemporaryDir dir;
  save(program, dir / "a.pt2");
  onnx::save(program, dir / "a.onnx");
  jit::trace(net, {x}).save(dir / "a.pt");
  for (std::string from : {"pt2", "onnx", "pt"}) {
    ExportedProgram loaded = load_model(dir / ("a." + from));
    EXPECT_LT(difference(Session(loaded).run({x})[0], expected), 1e-5) << from;
  }
  for (std::string from : {"pt2", "onnx"})
    for (std::string to : {"pt2", "onnx", "pt"}) {
      std::string path = dir / (from + "." + to);
      save_model(load_model(dir / ("a." + from)), path);
      EXPECT_LT(difference(Session(load_model(path)).run({x})[0], expected), 1e-5) << from << " to " << to;
    }
}

TEST(ModelFile, what_is_no_model_is_said) {
  io::TemporaryDir dir;
  EXPECT_THAT(error_of([&] { load_model(dir / "missing.pt2"); }), HasSubstr("missing.pt2"));
  EXPECT_THAT(error_of([&] { format_of_name("net.txt"); }), HasSubstr("ends in .pt2, .pt or .onnx"));
}

}  // namespace
}  // namespace tern
