// Recurrent layers of torch.ao.quantization.quantize_dynamic as programs: the numbers of PyTorch's operators
// in torch.export and ONNX Runtime, and for other batches than the example's.
#include <gtest/gtest.h>

#include "tern/export/script.h"
#include "tern/io/file.h"
#include "tern/jit/archive.h"
#include "tern/ops.h"
#include "tern/runtime/model_file.h"
#include "tern/sym/shape_env.h"
#include "tests/support/python.h"

namespace tern {
namespace {

constexpr const char* make = R"(
import sys, torch, warnings
warnings.simplefilter("ignore")
from torch import nn
from torch.ao.quantization import quantize_dynamic
class Net(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.rnn = getattr(nn, kind)(5, 7, **options)
        self.fc = nn.Linear(14 if options.get("bidirectional") else 7, 3)
    def forward(self, x):
        y, h = self.rnn(x)
        return self.fc(y), y
class Cell(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cell = getattr(nn, kind)(5, 7)
    def forward(self, x):
        return self.cell(x)
torch.manual_seed(0)
layers = {nn.LSTM, nn.GRU, nn.Linear, nn.LSTMCell, nn.GRUCell, nn.RNNCell}
names = []
for kind in ("LSTM", "GRU"):
    for size, options in (("small", {}), ("large", dict(num_layers=2, bidirectional=True))):
        for dtype in (torch.qint8, torch.float16):
            m = quantize_dynamic(Net(kind, **options).eval(), layers, dtype=dtype)
            names.append(f"{kind}_{size}_{'bytes' if dtype == torch.qint8 else 'half'}")
            torch.jit.script(m).save(f"{sys.argv[1]}/{names[-1]}.pt")
m = quantize_dynamic(Net("LSTM", batch_first=True).eval(), layers)
names.append("LSTM_traced")
torch.jit.trace(m, torch.randn(2, 4, 5)).save(f"{sys.argv[1]}/LSTM_traced.pt")
for kind in ("LSTMCell", "GRUCell", "RNNCell"):
    names.append(kind)
    torch.jit.script(quantize_dynamic(Cell(kind).eval(), layers)).save(f"{sys.argv[1]}/{kind}.pt")
print(" ".join(names))
)";

constexpr const char* compare = R"(
import sys, glob, os, torch, numpy as np, onnxruntime, warnings
import torch.ao.quantization.fx._decomposed
warnings.simplefilter("ignore")
torch.manual_seed(5)
for path in sorted(glob.glob(f"{sys.argv[1]}/*.onnx")):
    name = os.path.basename(path)[:-5]
    script = torch.jit.load(path[:-4] + "pt")
    program = torch.export.load(path[:-4] + "pt2").module()
    session = onnxruntime.InferenceSession(path)
    for batch in (2, 3):
        x = torch.randn(batch, 5) if "Cell" in name else torch.randn(batch, 4, 5) if name == "LSTM_traced" else torch.randn(4, batch, 5)
        wanted = script(x)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        ours = program(x)
        ours = ours if isinstance(ours, (tuple, list)) else (ours,)
        theirs = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        assert len(wanted) == len(ours) == len(theirs), name
        for a, b, c in zip(wanted, ours, theirs):
            assert torch.allclose(a, b, atol=1e-6), (name, batch, (a - b).abs().max())
            assert np.allclose(a.detach().numpy(), c, atol=1e-6), (name, batch)
print("equal")
)";

TEST(QuantizedRecurrent, become_programs_with_pytorchs_numbers) {
  TERN_NEEDS_PYTHON(python, "torch, onnxruntime");
  io::TemporaryDir dir;
  std::string output = testing::run_python(python, make, "'" + dir.path() + "'").output;
  std::string names = output.substr(0, output.find('\n')) + " ";
  size_t count = 0;
  for (size_t at = 0, end; (end = names.find(' ', at)) != std::string::npos; at = end + 1, ++count) {
    std::string name = names.substr(at, end - at);
    auto shapes = std::make_shared<ShapeEnv>();
    SymInt batch = shapes->create_symbol(2, "batch");
    bool cell = name.ends_with("Cell"), first = name == "LSTM_traced";
    Dims sizes = cell ? Dims{batch, 5} : first ? Dims{batch, 4, 5} : Dims{4, batch, 5};
    std::vector<Value> examples{Value(make_tensor(sizes, kFloat, kCPU, true))};
    ExportedProgram program = from_script(jit::load(dir / (name + ".pt")), examples, "forward", shapes);
    save_model(program, dir / (name + ".onnx"));
    save_model(program, dir / (name + ".pt2"));
  }
  ASSERT_EQ(count, 12u) << output;
  output = testing::run_python(python, compare, "'" + dir.path() + "'").output;
  EXPECT_TRUE(output.ends_with("equal\n")) << output;
}

}  // namespace
}  // namespace tern
