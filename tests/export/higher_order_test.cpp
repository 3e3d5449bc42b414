// Operators that take functions: run, captured, captured again, lowered, written and read, as ONNX; PyTorch's
// files with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/autograd/autograd.h"
#include "tern/base/error.h"
#include "tern/dispatch/autocast.h"
#include "tern/dispatch/pointwise.h"
#include "tern/export/control_flow.h"
#include "tern/export/export.h"
#include "tern/export/torch_file.h"
#include "tern/io/file.h"
#include "tern/nn/nn.h"
#include "tern/onnx/program.h"
#include "tern/ops.h"
#include "tern/sym/evaluate.h"
#include "tests/support/onnx_runtime.h"
#include "tests/support/python.h"
#include "tests/support/torch_programs.h"

namespace tern {
namespace {

using tern::testing::expect_close;
using tern::testing::reload;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

Tensor wave(Dims sizes, double phase = 0) {
  int64_t n = 1;
  for (SymInt s : sizes) n *= s.as_int();
  return (arange(n).to(kFloat) * 0.37 + phase).sin().view(sizes);
}

// Held against PyTorch and ONNX Runtime by the last tests, one process each.
struct Elsewhere {
  ExportedProgram program;
  std::vector<std::vector<Value>> calls;
};
std::vector<Elsewhere>& elsewhere() {
  static std::vector<Elsewhere> all;
  return all;
}

// Every form of the program gives what the module gives: as captured, lowered, captured again, read back.
template <class M>
void expect_same_everywhere(M& module, const NamedValues& args, const std::vector<std::vector<Value>>& calls,
                            const ExportOptions& options = {}) {
  ExportedProgram training = export_for_training(module, args, options), aten = training.run_decompositions(),
                  core = aten.run_decompositions(),
                  again = export_for_training(training.module(), args, options);
  for (const std::vector<Value>& call : calls) {
    Value wanted = [&] {
      if constexpr (requires(M m, Value a) { tree::to_value(m.forward(a.tensor(), a.tensor())); })
        return tree::to_value(module.forward(call[0].tensor(), call[1].tensor()));
      else
        return tree::to_value(module.forward(call[0].tensor()));
    }();
    for (const ExportedProgram& p : {training, aten, core, again}) {
      SCOPED_TRACE(p.code());
      expect_close(p.module().call(call), wanted);
      expect_close(reload(p).module().call(call), wanted);
    }
  }
  for (const ExportedProgram& p : {training, aten, core, again}) {
    SCOPED_TRACE(p.code());
    EXPECT_EQ(reload(p).code(), p.code());
  }
  elsewhere().push_back({training, calls});
  elsewhere().push_back({core, calls});
}

struct Mapped : nn::Module {
  nn::Linear fc = add("fc", nn::Linear(3, 3));
  nn::Buffer shift = register_buffer("shift", ones({3}) * 0.5);
  Tensor forward(Tensor xs, Tensor y) {
    return map([&](Tensor x, Tensor y) { return relu(fc(x)) + y + shift; }, xs, y);
  }
};

TEST(HigherOrder, Map) {
  manual_seed(0);
  Mapped net;
  NamedValues args{{"xs", wave({4, 3})}, {"y", wave({3}, 1)}};
  ExportedProgram p = export_for_training(net, args);
  EXPECT_THAT(p.code(), HasSubstr("map_impl = torch.ops.higher_order.map_impl(body_graph_0, [xs], [y, "));
  expect_same_everywhere(net, args, {{Value(wave({4, 3}, 2)), Value(wave({3}))}});
}

TEST(HigherOrder, MapOverAnyNumberOfRows) {
  manual_seed(0);
  Mapped net;
  Dim rows("rows", {.min = 1, .max = 100});
  expect_same_everywhere(
      net, {{"xs", wave({4, 3})}, {"y", wave({3}, 1)}},
      {{Value(wave({4, 3}, 2)), Value(wave({3}))}, {Value(wave({7, 3}, 2)), Value(wave({3}))}},
      {.dynamic = {{"xs", {{0, rows}}}}});
}

TEST(HigherOrder, MapOverSeveralGivesSeveral) {
  struct Net : nn::Module {
    std::pair<Tensor, Tensor> forward(Tensor xs, Tensor y) {
      return map(
          [](std::pair<Tensor, Tensor> x, Tensor y) { return std::pair(x.first + y, x.second * y.sum()); },
          std::pair(xs, xs * 2), y);
    }
  } net;
  expect_same_everywhere(net, {{"xs", wave({4, 3})}, {"y", wave({3}, 1)}},
                         {{Value(wave({4, 3}, 2)), Value(wave({3}))}});
}

TEST(HigherOrder, MapHasGradients) {
  manual_seed(0);
  Mapped net;
  ExportedModule m = export_program(net, {{"xs", wave({4, 3})}, {"y", wave({3}, 1)}}).module();
  Tensor x = wave({4, 3}, 2), z = wave({4, 3}, 2);
  x.requires_grad_();
  z.requires_grad_();
  m.call({Value(x), Value(wave({3}))}).tensor().pow(2).sum().backward();
  (relu(net.fc(z)) + wave({3}) + net.shift).pow(2).sum().backward();
  expect_close(Value(x.grad()), Value(z.grad()));
  expect_close(Value(m.parameter("fc.weight").grad()), Value(net.parameter("fc.weight").grad()));
}

TEST(HigherOrder, MapRefusesWhatHasNoSlices) {
  auto f = [](Tensor x) { return x; };
  EXPECT_THAT([&] { map(f, tensor(Scalar(1.0))); },
              ThrowsMessage<Error>(HasSubstr("Leading dimensions of mapped xs cannot be 0.")));
  EXPECT_THAT(
      [&] {
        map(f, zeros({0, 2}));
      },
      ThrowsMessage<Error>(HasSubstr("Leading dimensions of mapped xs cannot be 0.")));
  auto g = [](std::pair<Tensor, Tensor> x) { return x.first; };
  EXPECT_THAT([&] { map(g, std::pair(zeros({2}), zeros({3}))); },
              ThrowsMessage<Error>(
                  HasSubstr("Leading dimensions of mapped xs must be consistent. Got shapes [[2], [3]].")));
  struct Writes : nn::Module {
    Tensor forward(Tensor xs) {
      return map([](Tensor x) { return x.add_(1); }, xs);
    }
  } net;
  EXPECT_THAT(
      [&] {
        export_program(net, {{"xs", ones({2})}});
      },
      ThrowsMessage<Error>(HasSubstr("map: f changes %")));
}

struct Loops : nn::Module {
  nn::Linear fc = add("fc", nn::Linear(3, 3));
  std::tuple<Tensor, Tensor> forward(Tensor x) {
    return while_loop([](Tensor i, Tensor x) { return logical_and(i < 4, x.abs().max() < 100); },
                      [&](Tensor i, Tensor x) {
                        Tensor y = fc(x) + x;
                        y.mul_(2);
                        return std::tuple(i + 1, y);
                      },
                      zeros({}, kLong), x);
  }
};

TEST(HigherOrder, WhileLoop) {
  manual_seed(1);
  Loops net;
  NamedValues args{{"x", wave({2, 3})}};
  EXPECT_THAT(export_for_training(net, args).code(),
              HasSubstr("torch.ops.higher_order.while_loop(while_loop_cond_graph_0, while_loop_body_graph_0, "
                        "(zeros, x), (p_fc_weight, p_fc_bias))"));
  expect_same_everywhere(net, args, {{Value(wave({2, 3}, 1))}, {Value(wave({2, 3}, 1) * 1000)}});
}

TEST(HigherOrder, WhileLoopCarriesNumbers) {
  struct Net : nn::Module {
    Tensor forward(Tensor x) {
      std::vector<Value> out =
          while_loop(Branch([](const std::vector<Value>& c) {
                       return Value(sym_compare(sym::Op::lt, c[0].sym(), 5).as_expr());
                     }),
                     Branch([](const std::vector<Value>& c) {
                       return Value::tuple({Value(c[0].sym() + 1), Value(c[1].tensor() * 2)});
                     }),
                     {Value(SymInt(0)), Value(x)});
      return out[1].tensor();
    }
  } net;
  ExportedProgram p = export_for_training(net, {{"x", ones({2})}});
  EXPECT_THAT(p.code(), HasSubstr("while_loop_body_graph_0, (0, x), ())"));
  expect_close(p.module().call({Value(ones({2}))}), Value(ones({2}) * 32));
  expect_close(p.run_decompositions().module().call({Value(ones({2}))}), Value(ones({2}) * 32));
  // As in PyTorch, a file cannot hold numbers among tensors.
  EXPECT_THROW(reload(p), Error);
}

TEST(HigherOrder, WhileLoopKeepsShapes) {
  struct Grows : nn::Module {
    Tensor forward(Tensor x) {
      auto [y] = while_loop([](Tensor x) { return x.sum() < 9; },
                            [](Tensor x) {
                              return std::tuple(cat({x, x}));
                            },
                            x);
      return y;
    }
  } net;
  EXPECT_THAT(
      [&] {
        export_program(net, {{"x", ones({2})}});
      },
      ThrowsMessage<Error>(HasSubstr("[2] of float32 before and [4] of float32 after a round")));
  struct Asks : nn::Module {
    Tensor forward(Tensor x) {
      auto [y] = while_loop([](Tensor x) { return x.sum(); }, [](Tensor x) { return std::tuple(x - 1); }, x);
      return y;
    }
  } asks;
  EXPECT_THAT(
      [&] {
        export_program(asks, {{"x", ones({2})}});
      },
      ThrowsMessage<Error>(HasSubstr("cond_fn must return a boolean scalar tensor or a boolean but got "
                                     "a tensor of float32")));
}

struct Scans : nn::Module {
  nn::Buffer gain = register_buffer("gain", ones({3}) * 0.9);
  int64_t dim = 1;
  bool reverse = true;
  std::pair<Tensor, Tensor> forward(Tensor x) {
    return scan([&](Tensor c, Tensor x) { return std::pair(c * gain + x, (c - x).tanh()); }, zeros({3}), x,
                dim, reverse);
  }
};

TEST(HigherOrder, Scan) {
  for (int64_t dim : {0, 1, -1})
    for (bool reverse : {false, true}) {
      Scans net;
      net.dim = dim;
      net.reverse = reverse;
      Dims sizes = dim == 0 ? Dims{5, 3} : Dims{3, 5};
      if (dim == 1 || !reverse) {
        expect_same_everywhere(net, {{"x", wave(sizes)}}, {{Value(wave(sizes, 1))}});
      } else {
        Value wanted = tree::to_value(net.forward(wave(sizes, 1)));
        expect_close(export_program(net, {{"x", wave(sizes)}}).module().call({Value(wave(sizes, 1))}),
                     wanted);
      }
    }
  EXPECT_THAT(export_for_training(*std::make_unique<Scans>(), {{"x", wave({3, 5})}}).code(),
              HasSubstr("torch.ops.higher_order.scan(scan_combine_graph_0, [zeros], [flip], (b_gain,))"));
}

TEST(HigherOrder, ScanHasGradients) {
  Scans net;
  ExportedModule m = export_program(net, {{"x", wave({3, 5})}}).module();
  Tensor x = wave({3, 5}, 2), z = wave({3, 5}, 2);
  x.requires_grad_();
  z.requires_grad_();
  Value out = m.call({Value(x)});
  (out.items()[0].tensor().sum() + out.items()[1].tensor().pow(2).sum()).backward();
  auto [carry, ys] = net.forward(z);
  (carry.sum() + ys.pow(2).sum()).backward();
  expect_close(Value(x.grad()), Value(z.grad()));
}

TEST(HigherOrder, ScanRefusesWhatItCannotCarry) {
  auto f = [](Tensor c, Tensor x) { return std::pair(c + x, x); };
  EXPECT_THAT(
      [&] {
        scan(f, zeros({2}), zeros({0, 2}));
      },
      ThrowsMessage<Error>(HasSubstr("All xs leaves must at least have 'dim' number of dimensions")));
  struct Grows : nn::Module {
    Tensor forward(Tensor x) {
      return scan([](Tensor c, Tensor x) { return std::pair(c + x, x); }, zeros({1}), x).first;
    }
  } net;
  EXPECT_THAT(
      [&] {
        export_program(net, {{"x", ones({4, 2})}});
      },
      ThrowsMessage<Error>(HasSubstr("[1] of float32 before and [2] of float32 after a round")));
}

TEST(HigherOrder, Nested) {
  struct Net : nn::Module {
    Tensor forward(Tensor xs) {
      return map(
          [](Tensor x) {
            auto [i, y] = while_loop([](Tensor i, Tensor) { return i < 3; },
                                     [](Tensor i, Tensor y) {
                                       Tensor z = cond(
                                           y.sum() > 0, [](Tensor y) { return y * 0.5; },
                                           [](Tensor y) { return y + 1; }, y);
                                       return std::tuple(i + 1, z);
                                     },
                                     zeros({}, kLong), x);
            return y;
          },
          xs);
    }
  } net;
  expect_same_everywhere(net, {{"xs", wave({4, 3})}}, {{Value(wave({4, 3}, 3))}});
}

// ---- regions ----

struct NoGradInside : nn::Module {
  nn::Linear fc = add("fc", nn::Linear(3, 3));
  Tensor forward(Tensor x) {
    Tensor scale;
    {
      NoGrad off;
      auto parts = fc(x).abs().split(1, 0);
      scale = parts[0] + parts[1].size(0);
    }
    return fc(x) * scale;
  }
};

TEST(HigherOrder, GradientModeIsPartOfATrainingProgram) {
  manual_seed(0);
  NoGradInside net;
  NamedValues args{{"x", wave({2, 3})}};
  ExportedProgram p = export_for_training(net, args);
  EXPECT_THAT(p.code(), HasSubstr("torch.ops.higher_order.wrap_with_set_grad_enabled(False, submod_0, "));
  // Lowered, the region is part of the program, as PyTorch has it.
  EXPECT_THAT(p.run_decompositions().code(), Not(HasSubstr("wrap_with")));
  expect_same_everywhere(net, args, {{Value(wave({2, 3}, 1))}});

  ExportedModule m = reload(p).module();
  Tensor x = wave({2, 3}, 2);
  m.call({Value(x)}).tensor().sum().backward();
  net.forward(x).sum().backward();
  expect_close(Value(m.parameter("fc.weight").grad()), Value(net.parameter("fc.weight").grad()));
}

struct HalfInside : nn::Module {
  nn::Linear fc = add("fc", nn::Linear(3, 3));
  Tensor forward(Tensor x) {
    Tensor y;
    {
      Autocast half(kBFloat16);
      y = einsum("ij,jk->ik", {x, fc(x).exp()}) + 1;
    }
    return y.to(kFloat) + fc(x);
  }
};

TEST(HigherOrder, AutocastIsPartOfATrainingProgram) {
  manual_seed(0);
  HalfInside net;
  NamedValues args{{"x", wave({3, 3})}};
  ExportedProgram p = export_for_training(net, args);
  EXPECT_THAT(
      p.code(),
      HasSubstr("torch.ops.higher_order.wrap_with_autocast('cpu', torch.bfloat16, True, True, submod_0, "));
  std::string core = p.run_decompositions().run_decompositions().code();
  EXPECT_THAT(core, Not(HasSubstr("wrap_with")));
  EXPECT_THAT(core, HasSubstr("_to_copy.default(x, dtype = torch.bfloat16)"));
  Value x(wave({3, 3}, 1)), wanted(net.forward(wave({3, 3}, 1)));
  for (const ExportedProgram& q : {p, reload(p), p.run_decompositions(), reload(p).run_decompositions()})
    expect_close(q.module().call({x}), wanted, 2e-2);
}

TEST(HigherOrder, AutocastChoosesAsPyTorch) {
  Tensor a = wave({2, 2}), b = wave({2, 2}, 1);
  Autocast half(kHalf);
  EXPECT_EQ(mm(a, b).dtype(), kHalf);
  EXPECT_EQ((a + b).dtype(), kFloat);
  EXPECT_EQ(mse_loss(a.to(kHalf), b.to(kHalf)).dtype(), kFloat);
  EXPECT_EQ(cat({a, b.to(kHalf)}).dtype(), kFloat);
  EXPECT_EQ(matmul(a.to(kDouble), b.to(kDouble)).dtype(), kDouble);
  {
    Autocast off(kHalf, false);
    EXPECT_EQ(mm(a, b).dtype(), kFloat);
  }
  EXPECT_THAT([] { Autocast wrong(kDouble); }, ThrowsMessage<Error>(HasSubstr("not torch.float64")));
}

// ---- operators that change their arguments ----

void define_bump() {
  static const Op& op = define("hop_tests::bump(Tensor(a!) x, Tensor y, Tensor(b!)[] rest) -> Tensor",
                               {.shape = [](const Arg* a) { return Shapes{like(a[0].tensor())}; },
                                .kernel =
                                    [](const Arg* a, Value* results) {
                                      a[0].tensor().add_(1);
                                      for (const Tensor& t : a[2].tensors()) t.mul_(2);
                                      results[0] = Value(a[0].tensor() + a[1].tensor());
                                    }});
  (void)op;
}
Tensor bump(const Tensor& x, const Tensor& y, const std::vector<Tensor>& rest) {
  Arg a[] = {x, y, Span<const Tensor>(rest)};
  return call1(get_op("hop_tests::bump"), a);
}

TEST(HigherOrder, OperatorsThatChangeTheirArgumentsRunOnCopies) {
  define_bump();
  struct Net : nn::Module {
    nn::Buffer seen = register_buffer("seen", ones({3}));
    Tensor forward(Tensor x) {
      Tensor y = x * 2;
      Tensor z = bump(y.select(0, 1), x.select(0, 0), {seen, y.select(0, 0)});
      return y + z;
    }
  };
  Net net, other;
  ExportedProgram p = export_program(net, {{"x", wave({2, 3})}});
  EXPECT_THAT(
      p.code(),
      HasSubstr("torch.ops.higher_order.auto_functionalized_v2(torch.ops.hop_tests.bump.default, y = "));
  EXPECT_THAT(p.code(), HasSubstr("_x_base_index = 0, _x_size = [3], _x_stride = [1], _x_storage_offset = 3, "
                                  "_rest_length = 2, _rest_0_base_index = 1, _rest_1_base_index = 0"));
  for (const ExportedProgram& q : {p, p.run_decompositions(), reload(p)}) {
    Net fresh;
    Value wanted(fresh.forward(wave({2, 3}, 1)));
    ExportedModule m = q.module();
    m.buffer("seen").copy_(ones({3}));
    expect_close(m.call({Value(wave({2, 3}, 1))}), wanted);
    expect_close(Value(m.buffer("seen")), Value(ones({3}) * 2));
  }
  EXPECT_EQ(reload(p).code(), p.code());
}

// ---- elsewhere: these run after the tests above, with what they left ----

TEST(HigherOrderElsewhere, PyTorchReadsAndRunsWhatWeWrite) {
  TERN_NEEDS_PYTHON(python, "torch");
  tern::testing::TorchRun run;
  for (const Elsewhere& e : elsewhere()) run.add(e.program, e.calls);
  run.expect_agreement(python);
}

TEST(HigherOrderElsewhere, OnnxRuntimeGivesTheSame) {
  TERN_NEEDS_PYTHON(python, "onnxruntime");
  tern::testing::OrtRun ort;
  for (size_t k = 0; k < elsewhere().size(); ++k) {
    const Elsewhere& e = elsewhere()[k];
    onnx::Model model = onnx::export_model(e.program);
    for (size_t i = 0; i < e.calls.size(); ++i) {
      std::vector<std::pair<std::string, Tensor>> inputs;
      for (size_t n = 0; n < model.graph.inputs.size(); ++n)
        inputs.emplace_back(model.graph.inputs[n].name, e.calls[i][n].tensor());
      ort.add(std::to_string(k) + "_" + std::to_string(i), model, inputs,
              tern::testing::tensors_of({e.program.module().call(e.calls[i])}));
    }
  }
  for (const auto& [name, why] : ort.run(python))
    EXPECT_EQ(why, "") << elsewhere()[static_cast<size_t>(std::stoi(name))].program.code();
}

// ---- PyTorch's files ----

const char* make_theirs = R"PY(
import sys, torch
from torch._higher_order_ops.map import map as tmap
from torch._higher_order_ops.while_loop import while_loop
from torch._higher_order_ops.scan import scan
@torch.library.custom_op("hop_tests::twice", mutates_args={"x", "rest"})
def twice(x: torch.Tensor, y: torch.Tensor, rest: list[torch.Tensor]) -> torch.Tensor:
    x.mul_(2)
    for t in rest: t.add_(1)
    return x + y
@twice.register_fake
def _(x, y, rest): return torch.empty_like(x)
class M(torch.nn.Module):
    def __init__(s):
        super().__init__(); torch.manual_seed(0); s.l = torch.nn.Linear(3, 3); s.register_buffer("b", torch.ones(3))
class Map(M):
    def forward(s, x): return tmap(lambda a, y: (s.l(a[0]) + y, a[1] * s.b), (x, x + 1), x[0] + 0)
class While(M):
    def forward(s, x): return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, s.l(x) + s.b), (torch.zeros((), dtype=torch.long), x))
class Scan(M):
    def forward(s, x): return scan(lambda c, x: (c + x, c * x + s.b), torch.zeros(3), x, dim=1, reverse=True)
class Grad(M):
    def forward(s, x):
        with torch.no_grad(): y = s.l(x) + 1
        return y * s.l(x)
class Cast(M):
    def forward(s, x):
        with torch.autocast("cpu", dtype=torch.bfloat16): y = torch.mm(s.l(x), x)
        return y.float() + 1
class Solve(M):
    def forward(s, x): return torch.linalg.inv(x) + torch.linalg.solve(x, x) + torch.linalg.cholesky(x @ x.T)
class Copies(M):
    def forward(s, x):
        y = x * 2
        z = torch.ops.hop_tests.twice(y[0], x[1], [y[1], s.b])
        return y + z, s.b + 0
out = sys.argv[1] + "/"
for c in [Map, While, Scan, Grad, Cast, Solve, Copies]:
    x = torch.eye(3) * 2 + torch.randn(3, 3) * 0.3
    ep = torch.export.export(c(), (x,))
    for kind in ["train", "core"]:
        p = ep if kind == "train" else ep.run_decompositions()
        torch.export.save(p, out + c.__name__ + "_" + kind + ".pt2")
    z = torch.eye(3) + torch.randn(3, 3) * 0.2
    torch.save((z,), out + c.__name__ + "_in")
    torch.save(ep.module()(z), out + c.__name__ + "_out")
)PY";

TEST(HigherOrderWithTorch, ItsProgramsRunHere) {
  TERN_NEEDS_PYTHON(python, "torch");
  define("hop_tests::twice(Tensor(a0!) x, Tensor y, Tensor(a2!)[] rest) -> Tensor",
         {.shape = [](const Arg* a) { return Shapes{like(a[0].tensor())}; },
          .kernel =
              [](const Arg* a, Value* results) {
                a[0].tensor().mul_(2);
                for (const Tensor& t : a[2].tensors()) t.add_(1);
                results[0] = Value(a[0].tensor() + a[1].tensor());
              }});
  io::TemporaryDir dir;
  auto made = ::tern::testing::run_python(python, make_theirs, dir.path());
  ASSERT_EQ(made.status, 0) << made.output;
  for (const char* name : {"Map", "While", "Scan", "Grad", "Cast", "Solve", "Copies"})
    for (const char* kind : {"train", "core"}) {
      SCOPED_TRACE(std::string(name) + "_" + kind);
      std::string base = dir / name;
      ExportedProgram p = load_program(base + "_" + kind + ".pt2");
      Value args = read_torch_file(io::map_file(base + "_in"), "in"),
            wanted = read_torch_file(io::map_file(base + "_out"), "out");
      double tolerance = name == std::string("Cast") ? 5e-2 : 1e-4;
      expect_close(p.module().call(args.items()), wanted, tolerance);
      ExportedProgram again = load_program(base + "_" + kind + ".pt2");
      expect_close(reload(again).module().call(args.items()), wanted, tolerance);
      ExportedProgram lowered = load_program(base + "_" + kind + ".pt2").run_decompositions();
      expect_close(lowered.module().call(args.items()), wanted, tolerance);
      if (name != std::string("Solve")) continue;
      EXPECT_THAT(
          [&] {
            p.module().call({Value(zeros({3, 3}))});
          },
          ThrowsMessage<Error>(HasSubstr("singular")));
    }
}

}  // namespace
}  // namespace tern
