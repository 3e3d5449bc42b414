// Cases of onnxruntime_backend.py: functions and modules compiled with ONNX Runtime behind them, counted.
#include <gtest/gtest.h>

#include "tern/compile/compile.h"
#include "tern/tern.h"

namespace tern {
namespace {

void expect_close(const Tensor& a, const Tensor& b) { EXPECT_LT((a - b).abs().max().item<double>(), 1e-5); }

bool has_symbolic_input(const ExportedProgram& program) {
  for (const ir::Value* v : program.graph().inputs())
    for (SymInt s : v->type()->sizes())
      if (s.is_symbolic()) return true;
  return false;
}

TEST(OnnxrtBackend, elementwise_function_single_output) {
  auto elementwise_model = [](Tensor x) {
    Tensor y = x.relu();
    Tensor z = y.sigmoid();
    return z;
  };
  manual_seed(0);
  Compiled compiled = compile(elementwise_model, {.backend = "onnxrt"});
  std::vector<int64_t> batches = {2, 4, 6, 8, 10};
  for (int64_t batch : batches) {
    Tensor x = randn({batch});
    expect_close(compiled(x).tensor(), elementwise_model(x));
  }
  EXPECT_EQ(compiled.executions(), batches.size());
  ASSERT_EQ(compiled.programs().size(), 1u);
  EXPECT_TRUE(has_symbolic_input(compiled.programs()[0]));
}

struct MLP : nn::Module {
  nn::Linear fc1 = add("fc1", nn::Linear(2, 4)), fc2 = add("fc2", nn::Linear(4, 2));
  Tensor forward(Tensor tensor_x) {
    tensor_x = fc1(tensor_x);
    tensor_x = sigmoid(tensor_x);
    tensor_x = fc2(tensor_x);
    tensor_x = sigmoid(tensor_x);
    return tensor_x;
  }
};

TEST(OnnxrtBackend, mlp_with_local_backend) {
  manual_seed(0);
  MLP net;
  Compiled compiled = compile(net, {.backend = "onnxrt"});
  std::vector<int64_t> batches = {1, 2, 4, 6, 8};
  {
    NoGrad no_grad;
    for (int64_t batch : batches) {
      Tensor x = randn({batch, 2});
      expect_close(compiled(x).tensor(), nn::call(net, x));
    }
  }
  // One program for a batch of one, one for the others.
  EXPECT_EQ(compiled.executions(), batches.size());
  ASSERT_EQ(compiled.programs().size(), 2u);
  EXPECT_FALSE(has_symbolic_input(compiled.programs()[0]));
  EXPECT_TRUE(has_symbolic_input(compiled.programs()[1]));
}

TEST(OnnxrtBackend, gradients_flow_through_a_compiled_module) {
  manual_seed(0);
  MLP net;
  Compiled compiled = compile(net, {.backend = "onnxrt"});
  Tensor x = randn({3, 2});
  compiled(x).tensor().sum().backward();
  Tensor got = net.fc1.weight.grad().clone();
  net.zero_grad();
  nn::call(net, x).sum().backward();
  expect_close(got, net.fc1.weight.grad());
}

}  // namespace
}  // namespace tern
