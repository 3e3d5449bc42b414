// .pt2 files: round trips, PyTorch's files here, our files in PyTorch, broken files.
#include "tern/export/pt2.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/export/checks.h"
#include "tern/export/control_flow.h"
#include "tern/export/export.h"
#include "tern/export/torch_file.h"
#include "tern/io/zip.h"
#include "tern/nn/layer.h"
#include "tern/ops.h"
#include "tests/support/python.h"
#include "tests/support/torch_programs.h"

namespace tern {
namespace {

using tern::testing::expect_close;
using tern::testing::expect_torch_agrees;
using tern::testing::reload;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Linear with a counter, a constant, several results, lists and symbolic sizes.
struct Net : nn::Module {
  nn::Parameter weight = register_parameter("weight", (arange(12).to(kFloat) * 0.37).sin().view(Dims{3, 4}));
  nn::Parameter bias = register_parameter("bias", arange(3).to(kFloat) * 0.1);
  nn::Buffer count = register_buffer("count", zeros({1}));
  nn::Buffer scale = register_buffer("scale", ones({3}) * 2, false);

  std::pair<Tensor, std::vector<Tensor>> forward(Tensor x, std::vector<Tensor> ys) {
    count.add_(1);
    Tensor h = relu(linear(x, weight, bias)) * scale + tensor({1.0f, 2.0f, 3.0f});
    std::vector<Tensor> parts = split_with_sizes(h, {1, 2}, 1);
    auto [values, indices] = topk(h, 2);
    Tensor flat = h.view(Dims{x.size(0) * 3}) + full(Dims{x.size(0) * 3}, 2.0);
    return {cat({parts[0], ys[0].expand(Dims{x.size(0), 1})}, 1) + count, {values, indices, flat}};
  }
};

ExportedProgram export_net(Net& net, bool training) {
  Dim batch("batch", {.max = 64});
  NamedValues args{{"x", arange(20).to(kFloat).view(Dims{5, 4}) * 0.1},
                   {"ys", std::vector<Tensor>{ones({1, 1})}}};
  ExportOptions options{.dynamic = {{"x", {{0, batch}}}}};
  return training ? export_for_training(net, args, options) : export_program(net, args, options);
}

std::vector<Value> net_inputs(int64_t n) {
  return {Value((arange(n * 4).to(kFloat) * 0.21).cos().view(Dims{n, 4})),
          Value(std::vector<Tensor>{ones({1, 1}) * 3})};
}

TEST(Pt2, RoundTripKeepsGraphStateAndNumbers) {
  for (bool training : {true, false})
    for (Pt2Layout layout : {Pt2Layout::archive, Pt2Layout::files}) {
      Net net;
      ExportedProgram p = export_net(net, training), q = reload(p, layout);
      EXPECT_EQ(q.code(), p.code());
      EXPECT_EQ(q.signature().str(), p.signature().str());
      EXPECT_EQ(q.dialect(), p.dialect());
      EXPECT_EQ(q.range_constraints(), p.range_constraints());
      EXPECT_EQ(q.in_spec().str(), p.in_spec().str());
      EXPECT_TRUE(q.data().example_args.has_value());
      for (int64_t n : {5, 2, 17})
        expect_close(q.module().call(net_inputs(n)), p.module().call(net_inputs(n)));
      EXPECT_THAT(
          [&] { q.module().call(net_inputs(65)); },
          ThrowsMessage<Error>(HasSubstr("Expected input at *args[0].shape[0] to be <= 64, but got 65")));
      // Written again it is the same document.
      EXPECT_EQ(reload(q, layout).code(), p.code());
    }
}

TEST(Pt2, LoadedProgramsCanBeLoweredAndTrained) {
  Net net;
  ExportedProgram q = reload(export_net(net, true)).run_decompositions().run_decompositions();
  EXPECT_EQ(q.dialect(), Dialect::core);
  EXPECT_THAT(q.code(), HasSubstr("torch.ops.aten.permute.default"));
  Net other;
  Value wanted = tree::to_value(nn::call(other, net_inputs(3)[0].tensor(), net_inputs(3)[1].tensors()));
  ExportedModule module = q.module();
  Value found = module.call(net_inputs(3));
  expect_close(found, wanted);
  found.items()[0].tensor().sum().backward();
  EXPECT_TRUE(module.parameter("weight").grad().defined());
}

TEST(Pt2, SharedTensorsAreWrittenOnce) {
  struct Tied : nn::Module {
    nn::Parameter a = register_parameter("a", ones({1000})), b = register_parameter("b", a);
    Tensor forward(Tensor x) { return x * a + b; }
  } net;
  ExportedProgram p = export_program(net, {{"x", ones({1000})}});
  std::vector<uint8_t> bytes = save_to_memory(p);
  EXPECT_LT(bytes.size(), 4000u + 4000u + 12000u);
  ExportedProgram q = load_program(io::own(bytes), "tied.pt2");
  ASSERT_EQ(q.state_dict().size(), 2u);
  EXPECT_EQ(q.state_dict()[0].second.storage(), q.state_dict()[1].second.storage());
}

TEST(Pt2, ExtraFilesComeBack) {
  Net net;
  std::vector<std::pair<std::string, std::string>> extra;
  io::Blob file = io::own(save_to_memory(export_net(net, false), {.extra_files = {{"notes.txt", "hello"}}}));
  load_program(file, "x.pt2", {.extra_files = &extra});
  ASSERT_EQ(extra.size(), 1u);
  EXPECT_EQ(extra[0].first, "notes.txt");
  EXPECT_EQ(extra[0].second, "hello");
}

ExportedProgram export_cond() {
  struct M : nn::Module {
    nn::Buffer b = register_buffer("b", ones({3}));
    std::pair<Tensor, Tensor> forward(Tensor x, Tensor n) {
      SymInt k = n.item().sym();
      check_is_size(k);
      check(sym_le(k, 5));
      Tensor y = cond(
          x.sum() > 0, [this](Tensor t) { return t.cos() + b; }, [](Tensor t) { return t.sin(); }, x);
      return {y * 2, zeros(Dims{k})};
    }
  } m;
  return export_program(m, {{"x", ones({3})}, {"n", tensor({3})}});
}

TEST(Pt2, BranchesAndNumbersFromData) {
  ExportedProgram p = export_cond(), q = reload(p);
  for (double sign : {1.0, -1.0}) {
    Tensor x = ones({3}) * sign;
    expect_close(q.module()(x, tensor({4})), p.module()(x, tensor({4})));
  }
  EXPECT_THAT([&] { q.module()(ones({3}), tensor({6})); },
              ThrowsMessage<Error>(HasSubstr("Invalid value range for 6")));
}

TEST(Pt2, BrokenFilesAreErrorsOfTheFile) {
  Net net;
  std::vector<uint8_t> good = save_to_memory(export_net(net, false));
  auto kind_of = [&](std::vector<uint8_t> bytes) {
    try {
      load_program(io::own(std::move(bytes)), "broken.pt2");
    } catch (const Error& e) {
      EXPECT_THAT(e.message(), HasSubstr("broken.pt2"));
      return e.kind();
    }
    return ErrorKind::usage;  // it was read
  };
  for (size_t n : {size_t{0}, size_t{1}, good.size() / 3, good.size() / 2, good.size() - 1})
    EXPECT_EQ(kind_of({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n)}), ErrorKind::file) << n;
  size_t noticed = 0, tried = 0;
  for (size_t at = 7; at < good.size(); at += 211, ++tried) {
    std::vector<uint8_t> bad = good;
    bad[at] ^= 0x10;
    ErrorKind kind = kind_of(bad);
    EXPECT_TRUE(kind == ErrorKind::file || kind == ErrorKind::usage) << "byte " << at;
    noticed += kind == ErrorKind::file;
  }
  EXPECT_GT(noticed, tried / 2);
}

// The JSON of a program, changed in one place.
std::vector<uint8_t> with_json(const std::vector<uint8_t>& file, const std::string& from,
                               const std::string& to) {
  io::ZipReader zip(io::own(file), "a.pt2");
  io::MemoryWriter sink;
  io::ZipWriter out(sink);
  for (const io::ZipMember& m : zip.members()) {
    std::string text = zip.read_text(m.name);
    if (m.name.ends_with("model.json")) {
      size_t at = text.find(from);
      EXPECT_NE(at, std::string::npos) << from;
      if (at != std::string::npos) text.replace(at, from.size(), to);
    }
    out.add(m.name, text);
  }
  out.finish();
  return sink.take();
}

TEST(Pt2, WhatIsWrongInTheDocumentIsNamed) {
  Net net;
  std::vector<uint8_t> good = save_to_memory(export_net(net, false));
  auto message = [&](const std::string& from, const std::string& to) -> std::string {
    try {
      load_program(io::own(with_json(good, from, to)), "a.pt2");
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::file);
      return e.message();
    }
    return "no error";
  };
  EXPECT_THAT(message("\"arg\": {\"as_tensor\": {\"name\": \"relu\"}}",
                      "\"arg\": {\"as_tensor\": {\"name\": \"nowhere\"}}"),
              HasSubstr("nowhere is not defined here"));
  EXPECT_THAT(message("\"major\": 8", "\"major\": 9"), HasSubstr("schema version 9"));
  EXPECT_THAT(message("\"parameter_name\": \"weight\"", "\"parameter_name\": \"other\""),
              HasSubstr("no tensor 'other'"));
  EXPECT_THAT(message("\"dtype\": 7", "\"dtype\": 99"), HasSubstr("unknown dtype"));
  EXPECT_THAT(message("{\"name\": \"self\",", "{\"name\": \"selfish\","),
              HasSubstr("has no argument 'selfish'"));
}

TEST(Pt2, UnknownOperatorsLoadAndSaySoWhenRun) {
  auto f = [](Tensor x) { return relu(x) + 1; };
  std::vector<uint8_t> file = save_to_memory(export_program(f, {{"x", ones({3})}}));
  ExportedProgram p = load_program(
      io::own(with_json(file, "torch.ops.aten.relu.default", "torch.ops.mylib.gadget.default")), "a.pt2");
  EXPECT_THAT(p.code(), HasSubstr("torch.ops.mylib.gadget.default(x)"));
  try {
    p.module()(ones({3}));
    FAIL() << "it ran";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::not_supported);
    EXPECT_THAT(e.message(), HasSubstr("mylib::gadget"));
    EXPECT_THAT(e.message(), HasSubstr("relu"));
  }
  EXPECT_THAT(reload(p).code(), HasSubstr("torch.ops.mylib.gadget.default(x)"));
}

TEST(TorchFile, ValuesComeBack) {
  Tensor a = arange(6).to(kFloat).view(Dims{2, 3});
  Value v = Value::tuple({Value(a), Value::dict({{Value("t"), Value(a.t())}, {Value("n"), Value(3)}}),
                          Value::list({Value(1.5), Value(true), Value(), Value("text")}),
                          Value(ones({2}).to(kBFloat16))});
  Value back = read_torch_file(io::own(write_torch_file(v)), "x.pt");
  expect_close(back, v);
  EXPECT_EQ(back.items()[0].tensor().storage(), back.items()[1].entries()[0].second.tensor().storage());
}

// ---- with PyTorch ----

TEST(Pt2WithTorch, ReadsWhatWeWrite) {
  for (bool training : {true, false}) {
    Net net;
    expect_torch_agrees(export_net(net, training), {net_inputs(5), net_inputs(9)}, Pt2Layout::archive);
  }
  Net net;
  expect_torch_agrees(export_net(net, false).run_decompositions(), {net_inputs(5), net_inputs(9)},
                      Pt2Layout::archive);
}

TEST(Pt2WithTorch, ReadsTheLayoutOf2024) {
  Net net;
  expect_torch_agrees(export_net(net, false), {net_inputs(5)}, Pt2Layout::files);
}

TEST(Pt2WithTorch, ReadsBranches) {
  expect_torch_agrees(export_cond(),
                      {{Value(ones({3})), Value(tensor({4}))}, {Value(ones({3}) * -1), Value(tensor({2}))}},
                      Pt2Layout::archive);
}

const char* make_theirs = R"PY(
import sys, torch
class M(torch.nn.Module):
    def __init__(s):
        super().__init__()
        torch.manual_seed(0)
        s.fc = torch.nn.Linear(4, 3)
        s.register_buffer("n", torch.zeros(1))
        s.register_buffer("np", torch.ones(3), persistent=False)
        s.c = torch.tensor([1., 2, 3])
    def forward(s, x, y, *, k=None):
        s.n.add_(1)
        h = torch.relu(s.fc(x))
        a, b = torch.split(h, [1, 2], dim=1)
        v, i = torch.topk(h, 2)
        z = h.view(h.shape[0] * 3) + torch.full((x.shape[0] * 3,), 2.0)
        w = torch.ops.aten.index.Tensor(h, [None, torch.tensor([0, 1])])
        return {"a": a + y["q"][0] + s.c.sum() + s.np.sum(), "z": (z, x.shape[0] + 1, None, w, v, torch.cat([h, h * k], 1))}
class C(torch.nn.Module):
    def __init__(s):
        super().__init__(); s.register_buffer("b", torch.ones(3))
    def forward(s, x, n):
        k = n.item()
        torch._check(k >= 2); torch._check(k <= 5)
        y = torch.cond(x.sum() > 0, lambda x: (x.cos() + s.b, x.sum()), lambda x: (x.sin(), x.mean()), (x,))
        return y[0], torch.zeros(k), x.nonzero()
out = sys.argv[1] + "/"
def case(name, ep, calls):
    for kind in ["train", "aten", "core"]:
        p = ep if kind == "train" else ep.run_decompositions({}) if kind == "aten" else ep.run_decompositions()
        torch.export.save(p, out + name + "_" + kind + ".pt2")
    m = ep.module()
    torch.save([(args, kwargs) for args, kwargs in calls], out + name + "_in")
    torch.save([m(*args, **kwargs) for args, kwargs in calls], out + name + "_out")
b = torch.export.Dim("batch", max=64)
k = {"k": torch.ones(1)}
case("net", torch.export.export(M(), (torch.randn(5, 4), {"q": [torch.ones(1)]}), k,
     dynamic_shapes={"x": {0: b}, "y": {"q": [None]}, "k": None}),
     [((torch.randn(n, 4), {"q": [torch.ones(1) * 2]}), k) for n in (5, 3, 11)])
case("cond", torch.export.export(C(), (torch.randn(3), torch.tensor(3))),
     [((torch.ones(3), torch.tensor(4)), {}), ((-torch.ones(3), torch.tensor(2)), {})])
)PY";

TEST(Pt2WithTorch, ItsProgramsRunHere) {
  TERN_NEEDS_PYTHON(python, "torch");
  io::TemporaryDir dir;
  auto made = ::tern::testing::run_python(python, make_theirs, dir.path());
  ASSERT_EQ(made.status, 0) << made.output;
  for (const char* name : {"net", "cond"})
    for (const char* kind : {"train", "aten", "core"}) {
      SCOPED_TRACE(std::string(name) + "_" + kind);
      std::string base = dir / name;
      ExportedProgram p = load_program(base + "_" + kind + ".pt2");
      Value calls = read_torch_file(io::map_file(base + "_in"), "in"),
            wanted = read_torch_file(io::map_file(base + "_out"), "out");
      ExportedModule module = p.module();
      for (size_t i = 0; i < calls.items().size(); ++i) {
        Keywords kwargs;
        for (const auto& [key, value] : calls.items()[i].items()[1].entries())
          kwargs.emplace_back(key.string(), value);
        expect_close(module.call(calls.items()[i].items()[0].items(), kwargs), wanted.items()[i]);
      }
      if (name == std::string("net")) {
        EXPECT_EQ(p.state_dict().size(), 3u);
        EXPECT_THAT(
            [&] {
              module.call({Value(ones({65, 4})), calls.items()[0].items()[0].items()[1]},
                          {{"k", Value(ones({1}))}});
            },
            ThrowsMessage<Error>(HasSubstr("to be <= 64, but got 65")));
      } else {
        EXPECT_THROW(module.call({Value(ones({3})), Value(tensor(Scalar(7)))}), Error);
      }
      EXPECT_EQ(reload(p).code(), p.code());
    }
}

}  // namespace
}  // namespace tern
