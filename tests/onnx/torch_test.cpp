// Models that torch.onnx.export writes, imported and run: the numbers are PyTorch's.
#include <gtest/gtest.h>

#include <cmath>

#include "tern/base/error.h"
#include "tern/onnx/onnx.h"
#include "tern/tensor/files.h"
#include "tests/support/onnx_runtime.h"
#include "tests/support/python.h"

namespace tern {
namespace {

constexpr const char* make_models = R"PY(
import sys, torch, torch.nn as nn, torch.nn.functional as F, numpy as np
out = sys.argv[1]
torch.manual_seed(0)
class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1); self.bn = nn.BatchNorm2d(8)
        self.dw = nn.Conv2d(8, 8, 3, padding=1, groups=8); self.fc = nn.Linear(8, 5)
    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn(self.conv(x))), 2)
        x = F.hardswish(self.dw(x))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16); self.layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation='gelu')
        self.head = nn.Linear(16, 20)
    def forward(self, ids):
        return self.head(self.layer(self.embed(ids)))
class Up(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1); self.n = nn.GroupNorm(1, 3)
    def forward(self, x):
        return F.interpolate(self.n(self.t(x)), scale_factor=2, mode='bilinear'), F.pad(x, (1, 2, 1, 0), mode='reflect')
cases = {
    'cnn': (Cnn(), torch.randn(2, 3, 16, 16)),
    'transformer': (Block(), torch.randint(0, 20, (2, 7))),
    'up': (Up(), torch.randn(1, 2, 4, 4)),
}
for name, (m, x) in cases.items():
    m = m.eval()
    np.save(f'{out}/{name}_x.npy', x.numpy())
    y = m(x)
    for i, t in enumerate(y if isinstance(y, tuple) else (y,)):
        np.save(f'{out}/{name}_y{i}.npy', t.detach().numpy())
    torch.onnx.export(m, (x,), f'{out}/{name}.onnx', opset_version=17, dynamo=False, dynamic_axes={'x': {0: 'batch'}}, input_names=['x'])
    try:
        torch.onnx.export(m, (x,), f'{out}/{name}_dynamo.onnx', dynamo=True, verbose=False)
    except ImportError:
        pass
)PY";

bool exists(const std::string& path) {
  try {
    io::map_file(path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(OnnxTorch, models_of_torch_onnx_export_run) {
  TERN_NEEDS_PYTHON(python, "torch.onnx, onnx");
  io::TemporaryDir dir;
  auto made = testing::run_python(python, make_models, "'" + dir.path() + "'");
  ASSERT_EQ(made.status, 0) << made.output;
  for (const char* name : {"cnn", "transformer", "up"})
    for (const char* suffix : {"", "_dynamo"}) {
      std::string path = dir / (std::string(name) + suffix + ".onnx");
      if (*suffix && !exists(path)) continue;
      SCOPED_TRACE(path);
      onnx::Imported imported = onnx::import_model(onnx::load(path));
      std::vector<Value> in{load_npy(dir / (std::string(name) + "_x.npy"))};
      std::vector<Tensor> results = testing::tensors_of(imported.run(in));
      for (size_t i = 0; i < results.size(); ++i) {
        Tensor expected = load_npy(dir / (std::string(name) + "_y" + std::to_string(i) + ".npy"));
        ASSERT_EQ(str(results[i].sizes()), str(expected.sizes()));
        std::vector<double> a = results[i].to_vector<double>(), b = expected.to_vector<double>();
        for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], 1e-4 * (1 + std::abs(b[k]))) << k;
      }
      // And out again: what was imported can be exported.
      std::vector<onnx::Source::Weight> weights;
      for (size_t i = 0; i < imported.state.size(); ++i)
        weights.push_back({imported.graph->inputs()[imported.num_inputs + i]->name(), imported.state[i].first,
                           imported.state[i].second});
      onnx::Imported again = onnx::import_model(onnx::export_model({*imported.graph, weights}));
      std::vector<Tensor> round = testing::tensors_of(again.run(in));
      ASSERT_EQ(round.size(), results.size());
      for (size_t i = 0; i < round.size(); ++i) {
        std::vector<double> a = round[i].to_vector<double>(), b = results[i].to_vector<double>();
        ASSERT_EQ(a.size(), b.size());
        for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], 1e-4 * (1 + std::abs(b[k]))) << k;
      }
    }
}

}  // namespace
}  // namespace tern
