// Nested tensors in captured programs: traced, scripted, saved, and refused where a program cannot hold them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/export/export.h"
#include "tern/io/file.h"
#include "tern/ir/text.h"
#include "tern/jit/archive.h"
#include "tern/jit/freeze.h"
#include "tern/jit/trace.h"
#include "tern/nn/layers.h"
#include "tern/onnx/program.h"
#include "tern/ops.h"
#include "tern/runtime/session.h"
#include "tern/script/compile.h"
#include "tests/support/python.h"

namespace tern::jit {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using V = tern::Value;
using Values = std::vector<V>;

constexpr const char* make_source = R"(
def make(values, lengths):
  sizes: List[int] = lengths.tolist()
  return torch._nested_tensor_from_tensor_list(list(values.split(sizes, dim=0)), None, None, None, None)
)";

struct Attends : nn::Module {
  std::shared_ptr<script::Function> make = script::compile_function(make_source);
  nn::Linear fc = add("fc", nn::Linear(4, 3));
  Tensor forward(Tensor x, Tensor lengths) {
    Tensor t = make->call(Values{x, lengths}).tensor();
    Tensor scores = matmul(t, t.transpose(1, 2)).softmax(-1);
    return to_padded_tensor(fc(matmul(scores, t)).relu(), -1.0) + 1.0;
  }
};

TEST(NestedPrograms, a_trace_is_saved_and_pytorch_gives_the_same) {
  Attends m;
  Tensor x = rand({5, 4}), lengths = tensor({2, 3}, {.dtype = kLong});
  ScriptModule traced = trace(m, {x, lengths});
  Tensor x2 = arange(32.0, kFloat).reshape({8, 4}) / 32.0, lengths2 = tensor({1, 4, 3}, {.dtype = kLong});
  Tensor expected = m.forward(x2, lengths2);
  EXPECT_EQ(str(expected.sizes()), "[3, 4, 3]");
  EXPECT_TRUE(allclose(traced.forward(Values{x2, lengths2}).tensor(), expected));
  io::TemporaryDir dir;
  traced.save(dir / "nested.pt");
  EXPECT_TRUE(allclose(load(dir / "nested.pt").forward(Values{x2, lengths2}).tensor(), expected));
  const std::string& python = testing::python_with("torch");
  ASSERT_FALSE(python.empty()) << "no Python that can import torch";
  testing::PythonResult r = testing::run_python(python, R"(
import sys, torch, warnings
warnings.simplefilter("ignore")
m = torch.jit.load(sys.argv[1])
x = torch.arange(32.0).reshape(8, 4) / 32
lengths = torch.tensor([1, 4, 3])
t = torch.nested.as_nested_tensor(list(x.split([1, 4, 3])))
scores = (t @ t.transpose(1, 2)).softmax(-1)
expected = torch.nn.functional.linear(scores @ t, m.fc.weight, m.fc.bias).relu().to_padded_tensor(-1) + 1
assert torch.allclose(m(x, lengths), expected)
print([round(v, 3) for v in expected.flatten().tolist()])
)",
                                                "'" + dir.path() + "/nested.pt'");
  ASSERT_EQ(r.status, 0) << r.output;
  std::string ours = "[";
  for (double v : expected.to_vector<double>()) {
    char text[32];
    snprintf(text, sizeof text, "%s%.3f", ours == "[" ? "" : ", ", v);
    std::string number = text;
    while (number.ends_with("0") && !number.ends_with(".0")) number.pop_back();
    ours += number;
  }
  EXPECT_EQ(r.output, ours + "]\n");
}

TEST(NestedPrograms, freezing_keeps_what_it_computes) {
  Attends m;
  Tensor x = rand({5, 4}), lengths = tensor({2, 3}, {.dtype = kLong});
  ScriptModule traced = trace(m, {x, lengths}).eval();
  Tensor x2 = rand({6, 4}), lengths2 = tensor({1, 4, 1}, {.dtype = kLong});
  Tensor expected = m.forward(x2, lengths2);
  EXPECT_TRUE(allclose(freeze(traced).forward(Values{x2, lengths2}).tensor(), expected));
  EXPECT_TRUE(allclose(optimize_for_inference(traced).forward(Values{x2, lengths2}).tensor(), expected));
  io::TemporaryDir dir;
  std::vector<V> examples = {x, lengths};
  EXPECT_THAT([&] { onnx::save(traced, examples, dir / "nested.onnx"); },
              ThrowsMessage<Error>(HasSubstr("nested")));
}

TEST(NestedPrograms, gradients_flow_through_a_trace) {
  Attends m;
  Tensor x = rand({5, 4}), lengths = tensor({2, 3}, {.dtype = kLong});
  ScriptModule traced = trace(m, {x, lengths});
  Tensor a = rand({6, 4}).requires_grad_(), b = a.detach().clone().requires_grad_();
  Tensor split = tensor({4, 2}, {.dtype = kLong});
  traced.forward(Values{a, split}).tensor().sum().backward();
  m.forward(b, split).sum().backward();
  EXPECT_TRUE(allclose(a.grad(), b.grad()));
  EXPECT_GT(a.grad().abs().sum().item<double>(), 0);
}

TEST(NestedPrograms, scripts_ask_what_a_nested_tensor_is) {
  auto f = script::compile_function(R"(
def f(x):
  t = torch._nested_tensor_from_tensor_list([x, x[1:]], None, None, None, None)
  parts = t.unbind()
  return t.is_nested, x.is_nested, t.dim(), t.size(0), t.numel(), parts[1].size(0), t.values().size(0)
)");
  V v = f->call(Values{ones({3})});
  EXPECT_EQ(v.str(), "(True, False, 2, 2, 5, 2, 5)");
  auto sizes = script::compile_function(R"(
def sizes(x):
  return torch._nested_tensor_from_tensor_list([x, x[1:]], None, None, None, None).size()
)");
  EXPECT_THAT([&] { sizes->call(Values{ones({3})}); },
              ThrowsMessage<Error>(HasSubstr("NestedTensorImpl doesn't support sizes")));
}

TEST(NestedPrograms, dictionaries_still_have_values) {
  auto f = script::compile_function(R"(
def f(x):
  d: Dict[str, Tensor] = {"a": x}
  return list(d.values())[0] + 1
)");
  EXPECT_EQ(f->call(Values{ones({1})}).tensor().item<double>(), 2);
}

TEST(NestedPrograms, a_trace_takes_and_gives_nested_tensors) {
  Tensor a = nested_tensor({ones({2}), ones({3})}), b = nested_tensor({rand({4}), rand({1}), rand({2})});
  ScriptModule traced = trace([](Tensor t) { return t.sin() * 2.0; }, {a});
  EXPECT_THAT(ir::torch_text(traced.graph()),
              HasSubstr("FloatTensor(requires_grad=0, device=cpu) = aten::sin"));
  std::vector<Tensor> got = traced.forward(Values{b}).tensor().unbind(), in = b.unbind();
  ASSERT_EQ(got.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(allclose(got[i], in[i].sin() * 2.0));
}

TEST(NestedPrograms, exports_and_archives_refuse_them) {
  auto net = [](Tensor x) { return x + 1.0; };
  Tensor t = nested_tensor({ones({2}), ones({2})});
  EXPECT_THAT(
      [&] {
        export_program(net, {{"x", t}});
      },
      ThrowsMessage<Error>(HasSubstr("export: a nested tensor")));
  auto makes = [](Tensor x) { return to_padded_tensor(nested_tensor({x, x}), 0.0); };
  EXPECT_THAT(
      [&] {
        export_program(makes, {{"x", ones({2})}});
      },
      ThrowsMessage<Error>(HasSubstr("_nested_tensor_from_tensor_list")));
  ExportedProgram program = export_program(net, {{"x", ones({2, 2})}});
  EXPECT_THAT([&] { Session(program).run({t}); },
              ThrowsMessage<Error>(HasSubstr("Session: a nested tensor")));
  ScriptModule holds = trace([&](Tensor x) { return to_padded_tensor(t, 0.0) + x; }, {ones({2, 2})});
  EXPECT_EQ(holds.forward(Values{ones({2, 2})}).tensor().to_vector<double>(),
            (std::vector<double>{2, 2, 2, 2}));
  EXPECT_THAT([&] { holds.save_bytes(); },
              ThrowsMessage<Error>(HasSubstr("a nested tensor cannot be part of an archive")));
}

}  // namespace
}  // namespace tern::jit
