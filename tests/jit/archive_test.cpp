// .pt files: what PyTorch writes is read and computes the same; what is written PyTorch reads.
#include "tern/jit/archive.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "tern/base/error.h"
#include "tern/io/zip.h"
#include "tern/ir/text.h"
#include "tern/script/compile.h"
#include "tests/support/oracle_files.h"
#include "tests/support/python.h"

namespace tern::jit {
namespace {

using V = tern::Value;

// Modules, their inputs and what PyTorch computes, saved once for all tests of this file.
constexpr const char* make_files = R"PY(
import sys, torch, torch.nn as nn
from typing import Dict, List, NamedTuple, Optional, Tuple
out = sys.argv[1]
torch.manual_seed(0)

class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 8); self.fc2 = nn.Linear(8, 3)
    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))

class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1); self.bn = nn.BatchNorm2d(4); self.fc = nn.Linear(4 * 16, 5)
    def forward(self, x):
        x = torch.relu(self.bn(self.conv(x)))
        x = torch.nn.functional.max_pool2d(x, 2)
        return self.fc(x.flatten(1))

class Point(NamedTuple):
    a: torch.Tensor
    b: int

class Control(nn.Module):
    names: List[str]
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 4)); self.register_buffer('buf', torch.ones(4))
        self.k = 3; self.names = ['a', 'b']; self.d = {'x': 1, 'y': 2}; self.t = (1, 2.5, 'q'); self.floats = [0.5, 1.5]
        self.lin = nn.Linear(4, 4); self.ml = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.maybe = None
    def helper(self, x, n: int) -> torch.Tensor:
        for i in range(n):
            if i > 3:
                break
            x = x + i
        return x
    @torch.jit.export
    def other(self, x: Optional[torch.Tensor]) -> torch.Tensor:
        if x is None:
            return self.buf
        return x + 1
    def forward(self, x, flag: bool = True, l: Optional[List[int]] = None):
        y = self.lin(x) @ self.w
        n = 0
        while n < 3:
            y = y * 0.5 + 1
            n += 1
        if flag:
            y = self.helper(y, self.k)
        else:
            y = -y
        for m in self.ml:
            y = m(y)
        acc: List[torch.Tensor] = []
        for i in range(3):
            if i == 1:
                continue
            acc.append(y * i)
        r: Dict[str, torch.Tensor] = {}
        r['a'] = torch.stack(acc)
        z = y[0, 1:] + self.buf[1:]
        a, b = y.shape[0], y.size(1)
        assert b == 4, "bad {}".format(b)
        q = [j * 2 for j in range(a)]
        if l is not None:
            q = q + l
        return r, z, (a, b), q, Point(y, 3), float(a) / 2, not flag

class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4); self.b = nn.Linear(4, 4); self.b.weight = self.a.weight
        self.c = self.a
        base = torch.arange(12.); self.register_buffer('row', base[4:8]); self.register_buffer('all', base.view(3, 4).t())
    def forward(self, x):
        return self.c(self.b(self.a(x))) + self.row + self.all.t()[0]

class Constants(nn.Module):
    def forward(self, x):
        return x + torch.tensor([1., 2., 3.]) * torch.ones(3)

class Indexing(nn.Module):
    def forward(self, x, idx: List[int]):
        out = torch.zeros_like(x)
        for i in idx:
            out[i] = x[i] * 2
            out[i, 0] += 1
        out[out > 1] = 0.5
        y = x[:, None].expand(-1, 2, -1)[..., 0]
        a, b = x.max(dim=1)
        w = torch.tensor([float(q.mean()) for q in x.split(2)], dtype=x.dtype)
        return torch.cat([out.flatten(), y.flatten(), a, b.to(x.dtype), w])

@torch.jit.script
class Counter:
    def __init__(self, start: int):
        self.count = start
    def add(self, n: int) -> int:
        self.count += n
        return self.count

class Objects(nn.Module):
    def forward(self, x):
        c = Counter(2)
        for i in range(x.dim()):
            c.add(i + 1)
        return x * c.count

def keep(name, module, *inputs):
    module.save(f'{out}/{name}.pt')
    result = module(*inputs)
    torch.save({'inputs': list(inputs), 'output': result}, f'{out}/{name}.ref')

mlp = Mlp()
keep('mlp_traced', torch.jit.trace(mlp, torch.randn(2, 6)), torch.randn(5, 6))
keep('mlp_scripted', torch.jit.script(mlp), torch.randn(5, 6))
cnn = Cnn(); cnn(torch.randn(8, 3, 8, 8)); cnn.eval()
keep('cnn_traced', torch.jit.trace(cnn, torch.randn(1, 3, 8, 8)), torch.randn(2, 3, 8, 8))
keep('cnn_scripted', torch.jit.script(cnn), torch.randn(2, 3, 8, 8))
encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
torch.backends.mha.set_fastpath_enabled(False)
keep('encoder_traced', torch.jit.trace(encoder, torch.randn(1, 5, 8)), torch.randn(1, 5, 8))
keep('encoder_scripted', torch.jit.script(encoder), torch.randn(2, 5, 8))
keep('indexing', torch.jit.script(Indexing()), torch.randn(4, 3), [0, 2])
keep('objects', torch.jit.script(Objects()), torch.randn(2, 2))
keep('shared', torch.jit.script(Shared()), torch.randn(3, 4))
keep('constants', torch.jit.trace(Constants(), torch.randn(3)), torch.randn(3))
control = torch.jit.script(Control())
control.save(f'{out}/control.pt')
x = torch.randn(2, 4)
r, z, ab, q, p, f, nf = control(x, True, [5])
torch.save({'x': x, 'a': r['a'], 'z': z, 'p': p.a}, f'{out}/control.ref')
torch.jit.save(torch.jit.script(mlp), f'{out}/extra.pt', _extra_files={'note.txt': 'hello'})

class Types(nn.Module):
    def __init__(self):
        super().__init__()
        for d in ['uint8', 'int8', 'int16', 'int32', 'int64', 'float16', 'float32', 'float64', 'bfloat16', 'bool', 'complex64', 'complex128']:
            self.register_buffer('b_' + d, torch.tensor([0, 1, 0, 1]).to(getattr(torch, d)))
        self.register_buffer('scalar', torch.tensor(3.5)); self.register_buffer('empty', torch.zeros(0, 3))
    def forward(self, x):
        return x
torch.jit.script(Types()).save(f'{out}/types.pt')

state = {'w': torch.arange(6.).view(2, 3), 'n': {'list': [1, 2.5, None, True, 'text', (1, 2)], 'p': nn.Parameter(torch.ones(2))}, 'dtype': torch.float16, 'size': torch.Size([2, 3])}
state['view'] = state['w'][1]
torch.save(state, f'{out}/zip.ckpt')
torch.save(state, f'{out}/legacy.ckpt', _use_new_zipfile_serialization=False)
torch.save(mlp.state_dict(), f'{out}/mlp.sd')
torch.save(mlp, f'{out}/pickled_module.ckpt')
)PY";

const testing::OracleFiles& files() {
  static auto* made = new testing::OracleFiles(make_files);
  return *made;
}

std::string at(const std::string& name) { return files().dir / name; }

void expect_close(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(str(a.sizes()), str(b.sizes())) << what;
  ASSERT_EQ(a.dtype(), b.dtype()) << what;
  std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(x[i], y[i], 1e-5 + 1e-5 * std::abs(y[i])) << what << " at " << i;
}

std::string message_of(const std::string& path) {
  try {
    load(path);
  } catch (const Error& e) {
    return e.message();
  }
  return "no error";
}

class ArchiveModels : public ::testing::TestWithParam<const char*> {};

TEST_P(ArchiveModels, runs_as_in_torch) {
  NEED_FILES();
  ScriptModule m = load(at(std::string(GetParam()) + ".pt"));
  V ref = load_checkpoint(at(std::string(GetParam()) + ".ref"));
  V out = m.forward(ref.find("inputs")->items());
  expect_close(out.tensor(), ref.find("output")->tensor(), GetParam());
}

TEST_P(ArchiveModels, what_is_saved_torch_loads) {
  NEED_FILES();
  std::string name = GetParam();
  ScriptModule m = load(at(name + ".pt"));
  std::string path = at(name + ".again.pt");
  m.save(path);
  testing::PythonResult r =
      testing::run_python(testing::python_with("torch"), R"(
import sys, torch
ref = torch.load(sys.argv[2], weights_only=False)
m = torch.jit.load(sys.argv[1])
original = torch.jit.load(sys.argv[3])
assert list(m.state_dict()) == list(original.state_dict()), (list(m.state_dict()), list(original.state_dict()))
for k, v in original.state_dict().items(): assert torch.equal(m.state_dict()[k], v), k
assert [(n, p.requires_grad) for n, p in m.named_parameters()] == [(n, p.requires_grad) for n, p in original.named_parameters()]
got = m(*ref['inputs'])
assert torch.allclose(got, ref['output'], atol=1e-6), (got - ref['output']).abs().max()
print('equal')
)",
                          "'" + path + "' '" + at(name + ".ref") + "' '" + at(name + ".pt") + "'");
  EXPECT_EQ(r.output, "equal\n") << m.code();
  // And we read our own.
  ScriptModule again = load(path);
  EXPECT_EQ(again.graph().num_nodes(), m.graph().num_nodes());
  V ref = load_checkpoint(at(name + ".ref"));
  expect_close(again.forward(ref.find("inputs")->items()).tensor(), ref.find("output")->tensor(), name);
}

TEST_P(ArchiveModels, whole_graph_has_no_calls) {
  NEED_FILES();
  ScriptModule m = load(at(std::string(GetParam()) + ".pt"));
  std::string text = m.whole_graph()->str();
  EXPECT_EQ(text.find("prim::CallMethod"), std::string::npos) << text;
  EXPECT_EQ(text.find("prim::CallFunction"), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(Archive, ArchiveModels,
                         ::testing::Values("mlp_traced", "mlp_scripted", "cnn_traced", "cnn_scripted",
                                           "encoder_traced", "encoder_scripted", "indexing", "objects",
                                           "shared", "constants"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Archive, control_flow_and_containers) {
  NEED_FILES();
  ScriptModule m = load(at("control.pt"));
  V ref = load_checkpoint(at("control.ref"));
  V out = m.forward(std::vector<V>{*ref.find("x"), true, V::list({5}, ir::Type::integer())});
  const std::vector<V>& items = out.items();
  expect_close(items[0].find("a")->tensor(), ref.find("a")->tensor(), "a");
  expect_close(items[1].tensor(), ref.find("z")->tensor(), "z");
  EXPECT_EQ(items[2].str(), "(2, 4)");
  EXPECT_EQ(items[3].str(), "[0, 2, 5]");
  expect_close(items[4].items()[0].tensor(), ref.find("p")->tensor(), "p");
  EXPECT_EQ(items[5].to_double(), 1.0);
  EXPECT_FALSE(items[6].to_bool());
  expect_close(m.call("other", std::vector<V>{V()}).tensor(), m.attr("buf").tensor(), "other");
  EXPECT_EQ(m.attr("names").str(), "['a', 'b']");
  EXPECT_EQ(m.attr("d").str(), "{'x': 1, 'y': 2}");
  EXPECT_EQ(m.attr("t").str(), "(1, 2.5, 'q')");
  EXPECT_EQ(m.attr("floats").str(), "[0.5, 1.5]");
}

TEST(Archive, control_flow_round_trip) {
  NEED_FILES();
  ScriptModule m = load(at("control.pt"));
  m.save(at("control.again.pt"));
  testing::PythonResult r =
      testing::run_python(testing::python_with("torch"), R"(
import sys, torch
a, b = torch.jit.load(sys.argv[1]), torch.jit.load(sys.argv[2])
x = torch.randn(2, 4)
def same(p, q):
    if isinstance(p, torch.Tensor): return torch.allclose(p, q)
    if isinstance(p, dict): return p.keys() == q.keys() and all(same(p[k], q[k]) for k in p)
    if isinstance(p, (list, tuple)): return len(p) == len(q) and all(same(i, j) for i, j in zip(p, q))
    return p == q
for args in [(x,), (x, False), (x, True, [1, 2])]:
    assert same(a(*args), b(*args)), args
assert same(a.other(None), b.other(None)) and same(a.other(x), b.other(x))
assert a.names == b.names and a.d == b.d and a.t == b.t and a.floats == b.floats
print('equal')
)",
                          "'" + at("control.pt") + "' '" + at("control.again.pt") + "'");
  EXPECT_EQ(r.output, "equal\n") << m.code();
}

TEST(Archive, sharing_survives) {
  NEED_FILES();
  ScriptModule m = load(at("shared.pt"));
  EXPECT_TRUE(m.attr("a.weight").tensor().storage() == m.attr("b.weight").tensor().storage());
  EXPECT_TRUE(m.attr("a.weight").tensor().is_same(m.attr("b.weight").tensor()));
  EXPECT_TRUE(m.attr("row").tensor().storage() == m.attr("all").tensor().storage());
  EXPECT_EQ(m.attr("row").tensor().offset().as_int(), 4);
  EXPECT_EQ(m.attr("all").tensor().stride(0).as_int(), 1);
  ScriptModule d = m.deepcopy();
  EXPECT_FALSE(d.attr("a.weight").tensor().storage() == m.attr("a.weight").tensor().storage());
  EXPECT_TRUE(d.attr("row").tensor().storage() == d.attr("all").tensor().storage());
  EXPECT_TRUE(d.attr("a.weight").tensor().is_same(d.attr("b.weight").tensor()));
  EXPECT_TRUE(m.copy().attr("a.weight").tensor().is_same(m.attr("a.weight").tensor()));
}

TEST(Archive, views_of_one_storage_stay_that_in_pytorch) {
  NEED_FILES();
  load(at("shared.pt")).save(at("shared.again.pt"));
  testing::PythonResult r = testing::run_python(testing::python_with("torch"), R"(
import sys, torch
for file in sys.argv[1:]:
    m = torch.jit.load(file)
    m.all.fill_(7)
    print(m.row.tolist(), m.row.storage_offset(), m.all.stride())
)",
                                                "'" + at("shared.pt") + "' '" + at("shared.again.pt") + "'");
  size_t half = r.output.size() / 2;
  EXPECT_EQ(r.output.substr(0, half), r.output.substr(half));
  EXPECT_EQ(r.output.find("[7.0, 7.0"), 0u) << r.output;
}

TEST(Archive, writing_to_a_mapped_tensor_leaves_the_file_alone) {
  NEED_FILES();
  ScriptModule m = load(at("mlp_scripted.pt"));
  float* data = m.attr("fc1.weight").tensor().data_ptr<float>();
  float before = data[0];
  data[0] = before + 1;
  EXPECT_EQ(load(at("mlp_scripted.pt")).attr("fc1.weight").tensor().data_ptr<float>()[0], before);
}

TEST(Archive, every_element_type) {
  NEED_FILES();
  ScriptModule m = load(at("types.pt"));
  for (auto& [name, t] : m.named_buffers()) {
    if (name == "scalar" || name == "empty") continue;
    EXPECT_EQ("b_" + std::string(tern::name(t.dtype())), name);
    if (!t.is_complex()) {
      EXPECT_EQ(t.to_vector<double>(), (std::vector<double>{0, 1, 0, 1})) << name;
    }
  }
  EXPECT_EQ(m.attr("scalar").tensor().dim(), 0);
  EXPECT_EQ(str(m.attr("empty").tensor().sizes()), "[0, 3]");
  m.save(at("types.again.pt"));
  testing::PythonResult r = testing::run_python(testing::python_with("torch"), R"(
import sys, torch
a, b = torch.jit.load(sys.argv[1]), torch.jit.load(sys.argv[2])
for (n, x), (k, y) in zip(a.named_buffers(), b.named_buffers()):
    assert n == k and x.dtype == y.dtype and x.shape == y.shape and torch.equal(x, y), n
print(len(list(b.named_buffers())))
)",
                                                "'" + at("types.pt") + "' '" + at("types.again.pt") + "'");
  EXPECT_EQ(r.output, "14\n");
}

TEST(Archive, parameters_buffers_modules) {
  NEED_FILES();
  ScriptModule m = load(at("cnn_scripted.pt"));
  std::string names;
  for (auto& [n, t] : m.named_parameters()) names += n + (t.requires_grad() ? "* " : " ");
  EXPECT_EQ(names, "conv.weight* conv.bias* bn.weight* bn.bias* fc.weight* fc.bias* ");
  names.clear();
  for (auto& [n, t] : m.named_buffers()) names += n + " ";
  EXPECT_EQ(names, "bn.running_mean bn.running_var bn.num_batches_tracked ");
  names.clear();
  for (auto& [n, c] : m.named_modules()) names += n + ":" + std::string(c.type().short_name()) + " ";
  EXPECT_EQ(names, ":Cnn conv:Conv2d bn:BatchNorm2d fc:Linear ");
  EXPECT_FALSE(m.is_training());
  m.train();
  EXPECT_TRUE(m.submodule("bn").is_training());
  m.to(kDouble);
  EXPECT_EQ(m.attr("conv.weight").tensor().dtype(), kDouble);
  EXPECT_TRUE(m.attr("conv.weight").tensor().requires_grad());
  EXPECT_EQ(m.attr("bn.num_batches_tracked").tensor().dtype(), kLong);
}

TEST(Archive, state_dict_in_and_out) {
  NEED_FILES();
  ScriptModule m = load(at("mlp_scripted.pt")).deepcopy();
  NamedTensors state = load_state_dict(at("mlp.sd"));
  {
    Tensor w = m.attr("fc1.weight").tensor();
    std::memset(w.data(), 0, static_cast<size_t>(w.nbytes().as_int()));
  }
  m.load_state_dict(state);
  for (size_t i = 0; i < state.size(); ++i) {
    EXPECT_EQ(m.state_dict()[i].first, state[i].first);
    expect_close(m.state_dict()[i].second, state[i].second, state[i].first);
  }
  state.pop_back();
  state.emplace_back("extra", tensor({1.f}));
  state[0].second = tensor({1.f});
  try {
    m.load_state_dict(state);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("Missing key(s) in state_dict: \"fc2.bias\""), std::string::npos)
        << e.message();
    EXPECT_NE(e.message().find("Unexpected key(s) in state_dict: \"extra\""), std::string::npos)
        << e.message();
    EXPECT_NE(
        e.message().find("size mismatch for fc1.weight: copying a param with shape torch.Size([1]) from"),
        std::string::npos)
        << e.message();
  }
}

TEST(Archive, extra_files) {
  NEED_FILES();
  std::map<std::string, std::string> extra{{"note.txt", ""}, {"absent", ""}};
  ScriptModule m = load(at("extra.pt"), {.extra_files = &extra});
  EXPECT_EQ(extra["note.txt"], "hello");
  EXPECT_EQ(extra["absent"], "");
  m.save(at("extra.again.pt"), {{"note.txt", "bye"}});
  extra["note.txt"].clear();
  load(at("extra.again.pt"), {.extra_files = &extra});
  EXPECT_EQ(extra["note.txt"], "bye");
}

TEST(Archive, checkpoints_of_both_formats) {
  NEED_FILES();
  for (const char* name : {"zip.ckpt", "legacy.ckpt"}) {
    V v = load_checkpoint(at(name));
    expect_close(v.find("w")->tensor(), from_vector<float>({0, 1, 2, 3, 4, 5}, {2, 3}), name);
    EXPECT_EQ(v.find("n")->find("list")->str(), "[1, 2.5, None, True, 'text', (1, 2)]") << name;
    EXPECT_TRUE(v.find("n")->find("p")->tensor().requires_grad()) << name;
    EXPECT_TRUE(v.find("view")->tensor().storage() == v.find("w")->tensor().storage()) << name;
    EXPECT_EQ(v.find("view")->tensor().to_vector<double>(), (std::vector<double>{3, 4, 5})) << name;
    EXPECT_EQ(v.find("dtype")->to_int(), static_cast<int64_t>(DType::float16)) << name;
    EXPECT_EQ(v.find("size")->str(), "(2, 3)") << name;
  }
}

TEST(Archive, refuses_what_it_cannot_load) {
  NEED_FILES();
  EXPECT_NE(message_of(at("zip.ckpt")).find("a checkpoint of torch.save, not a TorchScript archive"),
            std::string::npos)
      << message_of(at("zip.ckpt"));
  EXPECT_NE(message_of(at("legacy.ckpt")).find("it is no zip file"), std::string::npos);
  EXPECT_NE(message_of(at("nowhere.pt")).find("nowhere.pt"), std::string::npos);
  auto checkpoint = [&](const char* name) -> std::string {
    try {
      load_checkpoint(at(name));
    } catch (const Error& e) {
      return e.message();
    }
    return "no error";
  };
  EXPECT_NE(checkpoint("mlp_scripted.pt").find("load it with jit::load"), std::string::npos);
}

TEST(Archive, refuses_mobile_bytecode) {
  io::TemporaryDir dir;
  io::MemoryWriter out;
  io::ZipWriter zip(out);
  zip.add("m/data.pkl", std::string_view("\x80\x02N."));
  zip.add("m/bytecode.pkl", std::string_view("\x80\x02N."));
  zip.finish();
  io::write_file(dir / "m.ptl", io::Bytes(out.bytes().data(), out.bytes().size()));
  EXPECT_NE(message_of(dir / "m.ptl").find("PyTorch Mobile"), std::string::npos) << message_of(dir / "m.ptl");
}

TEST(Archive, damaged_files_are_errors) {
  NEED_FILES();
  std::vector<uint8_t> good = io::read_file(at("mlp_scripted.pt"));
  size_t errors = 0, tried = 0;
  for (size_t cut = 0; cut < good.size(); cut += 37) {
    std::vector<uint8_t> bad(good.begin(), good.begin() + static_cast<long>(cut));
    ++tried;
    try {
      load(io::own(bad), "cut");
    } catch (const Error&) {
      ++errors;
    }
  }
  EXPECT_EQ(errors, tried);
  // Flipped bits: an error, or a module whose weights differ; never a crash.
  for (size_t i = 0; i < good.size(); i += 11) {
    std::vector<uint8_t> bad = good;
    bad[i] ^= static_cast<uint8_t>(1 << (i % 8));
    try {
      load(io::own(bad), "flipped", {.compile_all = true}).state_dict();
    } catch (const Error&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, tried);
  std::vector<uint8_t> legacy = io::read_file(at("legacy.ckpt"));
  for (size_t i = 0; i < legacy.size(); ++i) {
    std::vector<uint8_t> bad = legacy;
    bad[i] ^= static_cast<uint8_t>(1 << (i % 8));
    try {
      load_checkpoint(io::own(bad), "flipped");
    } catch (const Error&) {
    }
    try {
      load_checkpoint(io::own(std::vector<uint8_t>(legacy.begin(), legacy.begin() + static_cast<long>(i))),
                      "cut");
      if (i + 64 < legacy.size()) {
        ADD_FAILURE() << "a file cut at " << i << " was read";
      }
    } catch (const Error&) {
    }
  }
}

TEST(Archive, threads_that_call_a_fresh_module_compile_it_once) {
  NEED_FILES();
  V ref = load_checkpoint(at("mlp_scripted.ref"));
  for (int round = 0; round < 5; ++round) {
    ScriptModule m = load(at("mlp_scripted.pt"));
    std::vector<Tensor> results(4);
    std::vector<std::thread> threads;
    for (Tensor& result : results)
      threads.emplace_back([&] { result = m.forward(ref.find("inputs")->items()).tensor(); });
    for (std::thread& t : threads) t.join();
    for (const Tensor& result : results) expect_close(result, ref.find("output")->tensor(), "in a thread");
  }
}

// The code of a file is read when somebody needs it: what is wrong with it is said then, or at once to who
// asks.
TEST(Archive, wrong_code_is_an_error_when_it_is_needed) {
  NEED_FILES();
  io::ZipReader zip(io::map_file(at("mlp_scripted.pt")), "mlp_scripted.pt");
  io::MemoryWriter out;
  io::ZipWriter changed(out);
  for (const io::ZipMember& m : zip.members()) {
    std::string text = zip.read_text(m.name);
    size_t where = text.find("torch.relu");
    if (m.name.ends_with(".py") && where != std::string::npos) text.replace(where, 10, "nobody.has");
    changed.add(m.name, text);
  }
  changed.finish();
  std::vector<uint8_t> bytes(out.bytes().begin(), out.bytes().end());
  ScriptModule m = load(io::own(bytes), "wrong");
  EXPECT_EQ(m.state_dict().size(), 4u);
  EXPECT_THROW(load(io::own(bytes), "wrong", {.compile_all = true}), Error);
  V ref = load_checkpoint(at("mlp_scripted.ref"));
  for (int again = 0; again < 2; ++again) {
    try {
      m.forward(ref.find("inputs")->items());
      ADD_FAILURE() << "the wrong code ran";
    } catch (const Error& e) {
      EXPECT_NE(e.message().find("nobody"), std::string::npos) << e.message();
    }
  }
}

TEST(Archive, made_from_a_graph) {
  std::shared_ptr<script::Function> f = script::compile_function(
      "def f(w: Tensor, x: Tensor, b: Tensor) -> Tensor:\n  return torch.mul(x, w) + b\n");
  ScriptModule m = make_module(
      "Net", f->graph(),
      {{0, "inner.scale", tensor({2.f, 3.f})}, {2, "bias", tensor({1.f, 1.f}), script::Role::buffer}});
  EXPECT_EQ(m.forward(std::vector<V>{tensor({10.f, 10.f})}).tensor().to_vector<double>(),
            (std::vector<double>{21, 31}));
  EXPECT_EQ(m.named_parameters()[0].first, "inner.scale");
  EXPECT_EQ(m.named_buffers()[0].first, "bias");
  io::TemporaryDir dir;
  m.save(dir / "made.pt");
  EXPECT_EQ(load(dir / "made.pt").forward(std::vector<V>{tensor({1.f, 2.f})}).tensor().to_vector<double>(),
            (std::vector<double>{3, 7}));
  TERN_NEEDS_PYTHON(python, "torch");
  testing::PythonResult r =
      testing::run_python(python,
                          "import sys, torch\nm = torch.jit.load(sys.argv[1])\nprint(m(torch.tensor([1., "
                          "2.])).tolist(), [n for n, _ in m.named_parameters()], m.training)\n",
                          "'" + dir.path() + "/made.pt'");
  EXPECT_EQ(r.output, "[3.0, 7.0] ['inner.scale'] False\n");
}

TEST(Archive, a_module_in_two_places_stays_one) {
  auto child = std::make_shared<ModuleTree>();
  child->type_name = "Child";
  child->members.push_back({"w", tensor({1.f}), script::Role::parameter});
  auto root = std::make_shared<ModuleTree>();
  root->type_name = "Root";
  root->children = {{"a", child}, {"b", child}};
  ScriptModule m = make_module(root);
  EXPECT_TRUE(m.attr("a").is_same(m.attr("b")));
  EXPECT_EQ(m.named_parameters().size(), 1u);
  EXPECT_EQ(m.state_dict().size(), 2u);
  std::vector<uint8_t> bytes = m.save_bytes();
  ScriptModule again = load(io::own(bytes), "again");
  EXPECT_TRUE(again.attr("a").is_same(again.attr("b")));
  ScriptModule copy = m.deepcopy();
  EXPECT_TRUE(copy.attr("a").is_same(copy.attr("b")));
}

TEST(Archive, a_wrong_attribute_is_named) {
  auto tree = std::make_shared<ModuleTree>();
  tree->type_name = "Net";
  auto g = std::make_unique<ir::Graph>();
  ir::Value& self = g->add_input(ir::Type::any(), "self");
  ir::In inputs[] = {ir::In(self)};
  const ir::Type* types[] = {ir::Type::tensor()};
  ir::Node& n = g->make("prim::GetAttr", inputs, types);
  n.set_attribute("name", V("missing"));
  g->add_output(ir::In(n.output()));
  tree->methods.push_back({"forward", std::move(g)});
  try {
    make_module(tree);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("reads 'missing' of __torch__.Net"), std::string::npos) << e.message();
  }
}

}  // namespace
}  // namespace tern::jit
