// Recurrent and resizing layers exported: PyTorch's operators in PyTorch's order, before and after
// decompositions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/tern.h"
#include "tests/support/python.h"

namespace tern {
namespace {

// "aten.view.default aten.mm.default ..." from fx code.
std::string calls_of(const std::string& code) {
  std::string calls;
  const std::string mark = " = torch.ops.";
  for (size_t at = 0; (at = code.find(mark, at)) != std::string::npos;) {
    at += mark.size();
    calls += code.substr(at, code.find('(', at) - at) + "\n";
  }
  return calls;
}

std::string torch_calls(const std::string& python, const std::string& make, const std::string& input) {
  testing::PythonResult r = testing::run_python(python, R"(
import warnings; warnings.simplefilter("ignore")
import torch, torch.nn as nn
ep = torch.export.export()" + make + R"(.eval(), (torch.ones()" +
                                                            input + R"(),))
for p in (ep, ep.run_decompositions()):
    for n in p.graph.nodes:
        if n.op == "call_function" and "getitem" not in str(n.target): print(">>", n.target)
    print(">> --")
)");
  std::string calls;
  for (size_t at = 0; (at = r.output.find(">> ", at)) != std::string::npos;) {
    size_t end = r.output.find('\n', at);
    calls += r.output.substr(at + 3, end - at - 3) + "\n";
    at = end;
  }
  EXPECT_EQ(r.status, 0) << r.output;
  return calls;
}

template <class Net>
void check(const std::string& python, Net net, const std::string& make, Span<const SymInt> shape) {
  SCOPED_TRACE(make);
  net.eval();
  ExportedProgram training = export_for_training(net, {{"x", ones(shape)}});
  std::string sizes = str(shape);
  EXPECT_EQ(calls_of(training.code()) + "--\n" +
                calls_of(training.run_decompositions().run_decompositions().code()) + "--\n",
            torch_calls(python, make, sizes));
}

struct Lstm : nn::Module {
  nn::LSTM net;
  explicit Lstm(const nn::RNNOptions& o) : net(add("net", nn::LSTM(o))) {}
  Tensor forward(Tensor x) { return std::get<0>(net(x)); }
};
struct Gru : nn::Module {
  nn::GRU net;
  explicit Gru(const nn::RNNOptions& o) : net(add("net", nn::GRU(o))) {}
  Tensor forward(Tensor x) { return std::get<0>(net(x)); }
};
struct Rnn : nn::Module {
  nn::RNN net;
  explicit Rnn(const nn::RNNOptions& o) : net(add("net", nn::RNN(o))) {}
  Tensor forward(Tensor x) { return std::get<0>(net(x)); }
};
struct Resize : nn::Module {
  nn::Upsample net;
  explicit Resize(const nn::UpsampleOptions& o) : net(add("net", nn::Upsample(o))) {}
  Tensor forward(Tensor x) { return net(x); }
};

const char* first_output = "type('Net', (nn.Module,), dict(forward=lambda s, x: s.net(x)[0]))()";
std::string taking_first(const std::string& layer) {
  return "(lambda m: (setattr(m, 'net', " + layer + "), m)[1])(" + first_output + ")";
}

TEST(ExportRecurrent, CallsAreThoseOfPyTorch) {
  TERN_NEEDS_PYTHON(python, "torch");
  check(python, Lstm({.input = 3, .hidden = 4}), taking_first("nn.LSTM(3, 4)"), {2, 1, 3});
  check(python,
        Lstm({.input = 3,
              .hidden = 4,
              .num_layers = 2,
              .bias = false,
              .batch_first = true,
              .bidirectional = true}),
        taking_first("nn.LSTM(3, 4, 2, bias=False, batch_first=True, bidirectional=True)"), {2, 3, 3});
  check(python, Gru({.input = 3, .hidden = 4, .bidirectional = true}),
        taking_first("nn.GRU(3, 4, bidirectional=True)"), {3, 1, 3});
  check(python, Rnn({.input = 3, .hidden = 4, .num_layers = 2, .nonlinearity = "relu"}),
        taking_first("nn.RNN(3, 4, 2, nonlinearity='relu')"), {2, 2, 3});
}

TEST(ExportResizing, CallsAreThoseOfPyTorch) {
  TERN_NEEDS_PYTHON(python, "torch");
  check(python, Resize({.scale_factor = {2}}), "nn.Upsample(scale_factor=2)", {1, 2, 5});
  check(python, Resize({.scale_factor = {2}, .mode = "linear"}), "nn.Upsample(scale_factor=2, mode='linear')",
        {1, 2, 5});
}

TEST(ExportRecurrent, ProgramsGiveTheNumbersOfTheLayer) {
  manual_seed(3);
  Lstm net({.input = 3, .hidden = 4, .num_layers = 2, .bidirectional = true});
  Tensor x = randn({5, 2, 3});
  ExportedProgram training = export_for_training(net, {{"x", x}});
  Tensor wanted = nn::call(net, x);
  for (const ExportedProgram& p : {training, training.run_decompositions()}) {
    ExportedProgram program = p;
    EXPECT_LT((program.module()(x).tensor() - wanted).abs().max().item<double>(), 1e-6);
  }
}

}  // namespace
}  // namespace tern
