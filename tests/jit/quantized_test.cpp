// Quantized TorchScript modules: what torch.ao.quantization makes and PyTorch saves is read and computes the
// same, and what is written PyTorch reads.
#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/jit/archive.h"
#include "tern/ops/quantized/detail/packed.h"
#include "tests/support/oracle_files.h"
#include "tests/support/python.h"

namespace tern::jit {
namespace {

using V = tern::Value;

// `step` is what one integer of the result is worth: PyTorch's products round once more or less, depending on
// the machine, so results may differ by a step. Results that are float have none.
constexpr const char* make_files = R"PY(
import sys, warnings, torch, torch.nn as nn
warnings.filterwarnings('ignore')
import torch.ao.quantization as tq
import torch.ao.nn.quantized as nnq
from torch.ao.quantization.quantize_fx import prepare_fx, convert_fx
out = sys.argv[1]
torch.manual_seed(0)
torch.set_num_threads(1)

class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = tq.QuantStub(); self.fc1 = nn.Linear(8, 16); self.relu = nn.ReLU(); self.fc2 = nn.Linear(16, 4)
        self.dequant = tq.DeQuantStub()
    def forward(self, x):
        return self.dequant(self.fc2(self.relu(self.fc1(self.quant(x)))))

class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = tq.QuantStub(); self.conv = nn.Conv2d(3, 8, 3, padding=1); self.bn = nn.BatchNorm2d(8); self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1, groups=2, bias=False); self.depth = nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8)
        self.ff = nnq.FloatFunctional(); self.mul = nnq.FloatFunctional(); self.join = nnq.FloatFunctional()
        self.pool = nn.MaxPool2d(2); self.avg = nn.AdaptiveAvgPool2d(1); self.fc = nn.Linear(16, 5); self.dequant = tq.DeQuantStub()
    def forward(self, x):
        x = self.quant(x)
        x = self.relu(self.bn(self.conv(x)))
        x = self.ff.add_relu(x, self.conv2(x))
        y = self.pool(x)
        z = self.depth(x)
        x = self.join.cat([y, self.mul.mul(y, z)], 1)
        x = torch.flatten(self.avg(x), 1)
        return self.dequant(self.fc(x))

class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = tq.QuantStub(); self.norm = nn.LayerNorm(6); self.hs = nn.Hardswish(); self.elu = nn.ELU(); self.leaky = nn.LeakyReLU(0.1)
        self.group = nn.GroupNorm(2, 4); self.inst = nn.InstanceNorm2d(4); self.sig = nn.Sigmoid(); self.r6 = nn.ReLU6()
        self.dequant = tq.DeQuantStub(); self.ff = nnq.FloatFunctional()
    def forward(self, x):
        x = self.quant(x)
        x = self.leaky(self.norm(x))
        x = self.elu(self.group(x))
        x = self.hs(self.inst(x))
        x = self.r6(x)
        x = self.ff.add_scalar(self.ff.mul_scalar(x, -0.5), 1.0)
        return self.dequant(self.sig(x))

class Spatial(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = tq.QuantStub(); self.c1 = nn.Conv1d(3, 4, 3, stride=2, padding=1, dilation=2); self.c3 = nn.Conv3d(2, 3, 2, padding=1)
        self.t2 = nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1, groups=1); self.dequant = tq.DeQuantStub()
    def forward(self, a, b, c):
        return self.dequant(self.c1(self.quant(a))), self.dequant(self.c3(self.quant(b))), self.dequant(self.t2(self.quant(c)))

class Fx(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1); self.bn = nn.BatchNorm2d(8); self.fc = nn.Linear(8, 5)
    def forward(self, x):
        x = nn.functional.relu(self.bn(self.conv(x)))
        y = torch.cat([x + x, x], 1)[:, :8]
        y = nn.functional.interpolate(y, scale_factor=2.0)
        y = nn.functional.hardswish(y.clone()).mean([2, 3])
        return torch.sigmoid(self.fc(y))

class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.rnn = kind(6, 7, 2, bidirectional=True, **options); self.fc = nn.Linear(14, 3)
    def forward(self, x):
        y, _ = self.rnn(x)
        return self.fc(y)

class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(10, 6); self.b = nn.EmbeddingBag(12, 5, mode='sum', include_last_offset=True); self.fc = nn.Linear(6, 3)
    def forward(self, i, offsets):
        return self.fc(self.e(i)), self.b(i, offsets)

class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        w = torch.quantize_per_channel(torch.randn(2, 3, 1, 2), torch.rand(2) * 0.05 + 0.01, torch.zeros(2, dtype=torch.long), 0, torch.qint8)
        self.p = torch.ops.quantized.conv2d_prepack(w, torch.randn(2), [1, 2], [0, 1], [1, 1], 1)
        self.n = torch.ops.quantized.conv2d_prepack(w, None, [1, 1], [0, 0], [1, 1], 1)
        self.register_buffer('q', torch.quantize_per_tensor(torch.randn(2, 3), 0.1, 2, torch.quint8))
        self.register_buffer('c', torch.quantize_per_channel(torch.randn(2, 3), torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1, 2, 3]), 1, torch.qint32))
    def forward(self, x):
        x = torch.quantize_per_tensor(x, 0.02, 100, torch.quint8)
        return torch.ops.quantized.conv2d(x, self.p, 0.05, 100).dequantize(), torch.ops.quantized.conv2d_relu(x, self.n, 0.05, 10).dequantize(), self.q.dequantize() + self.c.dequantize()

def static(m, inputs, fuse=None, engine='x86', qconfig=None):
    m.eval()
    if fuse: m = tq.fuse_modules(m, fuse)
    m.qconfig = qconfig or tq.get_default_qconfig(engine)
    tq.prepare(m, inplace=True); m(*inputs); m(*inputs); tq.convert(m, inplace=True)
    return m

def keep(name, module, *inputs, step=0.0):
    module.eval() if hasattr(module, 'eval') else None
    module.save(f'{out}/{name}.pt')
    got = module(*inputs)
    got = list(got) if isinstance(got, tuple) else [got]
    torch.save({'inputs': list(inputs), 'outputs': got, 'step': float(step)}, f'{out}/{name}.ref')

x = torch.randn(4, 8)
m = static(Linear(), [x], [['fc1', 'relu']])
keep('linear_scripted', torch.jit.script(m), x, step=m.fc2.scale); keep('linear_traced', torch.jit.trace(m, x), x, step=m.fc2.scale)
m = static(Linear(), [x], [['fc1', 'relu']], qconfig=tq.QConfig(activation=tq.MinMaxObserver.with_args(dtype=torch.quint8), weight=tq.default_weight_observer))
keep('linear_per_tensor', torch.jit.script(m), x, step=m.fc2.scale)
x = torch.randn(2, 3, 8, 8)
m = static(Residual(), [x], [['conv', 'bn', 'relu']])
keep('residual_scripted', torch.jit.script(m), x, step=m.fc.scale); keep('residual_traced', torch.jit.trace(m, x), x, step=m.fc.scale)
keep('residual_frozen', torch.jit.freeze(torch.jit.script(m).eval()), x, step=m.fc.scale)
x = torch.randn(2, 4, 3, 6)
keep('layers', torch.jit.script(static(Layers(), [x])), x, step=3 / 256)
inputs = [torch.randn(2, 3, 9), torch.randn(1, 2, 3, 4, 3), torch.randn(1, 3, 4, 5)]
torch.backends.quantized.engine = 'fbgemm'
m = Spatial(); m.eval(); m.qconfig = tq.get_default_qconfig('fbgemm'); m.t2.qconfig = tq.default_qconfig
tq.prepare(m, inplace=True); m(*inputs); tq.convert(m, inplace=True)
keep('spatial', torch.jit.script(m), *inputs, step=max(m.c1.scale, m.c3.scale, m.t2.scale))
torch.backends.quantized.engine = 'x86'
x = torch.randn(2, 3, 8, 8)
p = prepare_fx(Fx().eval(), tq.get_default_qconfig_mapping('x86'), (x,)); p(x)
keep('fx', torch.jit.script(convert_fx(p)), x, step=1 / 256)
x = torch.randn(5, 2, 6)
keep('lstm_dynamic', torch.jit.script(tq.quantize_dynamic(Recurrent(nn.LSTM), {nn.LSTM, nn.Linear})), x)
keep('lstm_traced', torch.jit.trace(tq.quantize_dynamic(Recurrent(nn.LSTM).eval(), {nn.LSTM, nn.Linear}), x), x)
keep('gru_dynamic', torch.jit.script(tq.quantize_dynamic(Recurrent(nn.GRU, batch_first=True), {nn.GRU, nn.Linear})), x)
keep('lstm_half', torch.jit.script(tq.quantize_dynamic(Recurrent(nn.LSTM), {nn.LSTM, nn.Linear}, dtype=torch.float16)), x)
keep('linear_dynamic', torch.jit.script(tq.quantize_dynamic(nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 2)), {nn.Linear})), x)
m = Embedded().eval(); m.e.qconfig = tq.float_qparams_weight_only_qconfig; m.b.qconfig = tq.float_qparams_weight_only_qconfig
tq.prepare(m, inplace=True); tq.convert(m, inplace=True)
keep('embedded', torch.jit.script(m), torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 4, 8]))
keep('packed', torch.jit.script(Packed()), torch.randn(1, 3, 3, 6), step=0.05)
torch.save({'q': torch.quantize_per_tensor(torch.randn(2, 3), 0.1, 2, torch.qint8), 'c': torch.quantize_per_channel(torch.randn(2, 3), torch.tensor([0.1, 0.2]), torch.tensor([1, 2]), 0, torch.quint8)}, f'{out}/tensors.ckpt')
)PY";

const testing::OracleFiles& files() {
  static auto* made = new testing::OracleFiles(make_files);
  return *made;
}

std::string at(const std::string& name) { return files().dir / name; }

std::vector<V> outputs_of(const V& v) { return v.is_tuple() ? v.items() : std::vector<V>{v}; }

void expect_as_in_torch(const ScriptModule& m, const std::string& name) {
  V ref = load_checkpoint(at(name + ".ref"));
  std::vector<V> got = outputs_of(m.forward(ref.find("inputs")->items()));
  const std::vector<V>& wanted = ref.find("outputs")->items();
  ASSERT_EQ(got.size(), wanted.size());
  double step = ref.find("step")->to_double();
  for (size_t k = 0; k < got.size(); ++k) {
    ASSERT_EQ(str(got[k].tensor().sizes()), str(wanted[k].tensor().sizes())) << name;
    std::vector<double> x = got[k].tensor().to_vector<double>(), y = wanted[k].tensor().to_vector<double>();
    int64_t off = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(x[i], y[i], 1e-5 + 1e-5 * std::abs(y[i]) + 1.01 * step) << name << " at " << i;
      off += std::abs(x[i] - y[i]) > 1e-5 + 0.1 * step;
    }
    // Mostly to the last integer.
    EXPECT_LE(off, static_cast<int64_t>(x.size()) / 8) << name << ": " << off << " of " << x.size();
  }
}

class QuantizedModels : public ::testing::TestWithParam<const char*> {};

TEST_P(QuantizedModels, run_as_in_torch) {
  NEED_FILES();
  expect_as_in_torch(load(at(std::string(GetParam()) + ".pt")), GetParam());
}

TEST_P(QuantizedModels, what_is_saved_is_read_again) {
  NEED_FILES();
  std::string name = GetParam(), path = at(name + ".twice.pt");
  load(at(name + ".pt")).save(path);
  expect_as_in_torch(load(path), name);
}

TEST_P(QuantizedModels, whole_graph_and_copies_run_too) {
  NEED_FILES();
  ScriptModule m = load(at(std::string(GetParam()) + ".pt"));
  std::string text = m.whole_graph()->str();
  EXPECT_EQ(text.find("prim::CallMethod"), std::string::npos) << text;
  EXPECT_NE(text.find("quantized"), std::string::npos) << text;
  expect_as_in_torch(m.deepcopy(), GetParam());
}

constexpr const char* names[] = {"linear_scripted",
                                 "linear_traced",
                                 "linear_per_tensor",
                                 "residual_scripted",
                                 "residual_traced",
                                 "residual_frozen",
                                 "layers",
                                 "spatial",
                                 "fx",
                                 "lstm_dynamic",
                                 "lstm_traced",
                                 "gru_dynamic",
                                 "lstm_half",
                                 "linear_dynamic",
                                 "embedded",
                                 "packed"};
INSTANTIATE_TEST_SUITE_P(Quantized, QuantizedModels, ::testing::ValuesIn(names),
                         [](const auto& info) { return std::string(info.param); });

// In one process: starting PyTorch takes longer than all of it.
TEST(Quantized, what_is_saved_torch_loads) {
  NEED_FILES();
  for (const char* name : names)
    load(at(std::string(name) + ".pt")).save(at(std::string(name) + ".again.pt"));
  testing::PythonResult r = testing::run_python(testing::python_with("torch"), R"(
import glob, os, sys, warnings
os.environ['TORCH_CPP_LOG_LEVEL'] = 'ERROR'
import torch
warnings.filterwarnings('ignore')
torch.set_num_threads(1)
count = 0
for path in sorted(glob.glob(sys.argv[1] + '/*.again.pt')):
    name = path[:-len('.again.pt')]
    ref = torch.load(name + '.ref', weights_only=False)
    m, original = torch.jit.load(path), torch.jit.load(name + '.pt')
    assert list(m.state_dict()) == list(original.state_dict()), name
    for k, v in original.state_dict().items(): assert torch.equal(m.state_dict()[k], v), (name, k)
    got, wanted = m(*ref['inputs']), original(*ref['inputs'])
    for a, b in zip(got if isinstance(got, tuple) else [got], wanted if isinstance(wanted, tuple) else [wanted]):
        assert torch.equal(a, b), (name, a, b)
    count += 1
print(count, 'equal')
)",
                                                "'" + files().dir.path() + "'");
  EXPECT_EQ(r.output, std::to_string(std::size(names)) + " equal\n");
}

TEST(Quantized, tensors_of_files_keep_their_quantizer) {
  NEED_FILES();
  ScriptModule m = load(at("packed.pt"));
  Tensor q = m.attr("q").tensor(), c = m.attr("c").tensor();
  EXPECT_EQ(q.dtype(), DType::quint8);
  EXPECT_EQ(quantizer_of(q).scale, 0.1);
  EXPECT_EQ(quantizer_of(q).zero_point, 2);
  EXPECT_EQ(c.dtype(), DType::qint32);
  EXPECT_EQ(quantizer_of(c).axis, 1);
  EXPECT_EQ(quantizer_of(c).zero_points.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 3}));
  V state = load_checkpoint(at("tensors.ckpt"));
  EXPECT_EQ(state.find("q")->tensor().dtype(), DType::qint8);
  EXPECT_EQ(quantizer_of(state.find("c")->tensor()).scales.to_vector<double>().size(), 2u);
}

TEST(Quantized, packed_weights_are_objects_with_a_class) {
  NEED_FILES();
  ScriptModule m = load(at("packed.pt"));
  auto* p = dynamic_cast<NativeObject*>(m.attr("p").box());
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(p->class_name(), quantized::conv2d_class);
  EXPECT_EQ(p->state().items()[0].string(), "2");
}

TEST(Quantized, a_state_that_is_none_is_refused) {
  for (std::string_view c : {quantized::linear_class, quantized::conv2d_class, quantized::conv3d_class,
                             quantized::embedding_class, quantized::cell_class})
    for (const V& state : {V(), V(3), V::tuple({}), V::tuple({V(3), V(4), V(5), V(6), V(7)}),
                           V::tuple({V("2"), V::list({V(1), V(2)}), V::list({})}),
                           V::tuple({V(from_vector<float>({1, 2}, {2})), V()})})
      EXPECT_THROW(quantized::native_object(c, state), Error) << c << " " << state.str();
}

}  // namespace
}  // namespace tern::jit
