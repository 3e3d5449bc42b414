// A layer made after manual_seed(s) starts with the numbers PyTorch's layer starts with: uniform ones bit for
// bit, normal ones to 2e-6 (PyTorch computes many of them with other approximations of log, sin and cos).
#include <gtest/gtest.h>

#include <functional>

#include "tern/io/file.h"
#include "tern/tensor/files.h"
#include "tern/tern.h"
#include "tests/support/python.h"

namespace tern::testing {
namespace {

constexpr const char* make_layers = R"(
import sys, numpy, torch
from torch import nn
cases = {
    'linear': lambda: nn.Linear(37, 11), 'linear_without_bias': lambda: nn.Linear(8, 200, bias=False),
    'linear_double': lambda: nn.Linear(13, 7, dtype=torch.float64), 'linear_half': lambda: nn.Linear(13, 70, dtype=torch.float16),
    'conv1d': lambda: nn.Conv1d(3, 8, 5), 'conv2d': lambda: nn.Conv2d(4, 6, (3, 5), groups=2), 'conv3d': lambda: nn.Conv3d(2, 3, 3),
    'conv_transpose1d': lambda: nn.ConvTranspose1d(3, 8, 5), 'conv_transpose3d': lambda: nn.ConvTranspose3d(2, 4, (2, 3, 1)), 'conv_transpose2d': lambda: nn.ConvTranspose2d(4, 6, 3, groups=2),
    'embedding': lambda: nn.Embedding(50, 7), 'embedding_padding': lambda: nn.Embedding(5, 3, padding_idx=1),
    'attention': lambda: nn.MultiheadAttention(16, 4), 'attention_kdim': lambda: nn.MultiheadAttention(16, 4, kdim=8, vdim=12),
    'encoder_layer': lambda: nn.TransformerEncoderLayer(16, 4, 32), 'batch_norm': lambda: nn.BatchNorm2d(5), 'layer_norm': lambda: nn.LayerNorm([3, 4]),
    'kaiming_normal': lambda: filled(nn.init.kaiming_normal_), 'kaiming_uniform': lambda: filled(nn.init.kaiming_uniform_),
    'xavier_normal': lambda: filled(nn.init.xavier_normal_), 'xavier_uniform': lambda: filled(nn.init.xavier_uniform_),
}
def filled(fill):
    layer = nn.Conv2d(6, 5, 3)
    fill(layer.weight)
    return layer
arrays = {}
for name, make in cases.items():
    for seed in (0, 1, 12345):
        torch.manual_seed(seed)
        for key, value in make().state_dict().items():
            arrays[f'{name}/{seed}/{key}'] = value.numpy()
        arrays[f'{name}/{seed}/next'] = torch.rand(1).numpy()
numpy.savez(sys.argv[1], **arrays)
)";

struct Case {
  const char* name;
  std::function<nn::Module()> make;
  double tolerance = 0;
};

nn::Module filled(const Tensor& (*fill)(const Tensor&)) {
  nn::Conv2d layer(6, 5, 3);
  fill(layer.weight);
  return layer;
}

const std::vector<Case>& cases() {
  using namespace nn;
  static const auto* all = new std::vector<Case>{
      {"linear", [] { return Linear(37, 11); }},
      {"linear_without_bias", [] { return Linear({.in = 8, .out = 200, .bias = false}); }},
      {"linear_double", [] { return Linear({.in = 13, .out = 7, .dtype = kDouble}); }},
      {"linear_half", [] { return Linear({.in = 13, .out = 70, .dtype = kHalf}); }},
      {"conv1d", [] { return Conv1d(3, 8, 5); }},
      {"conv2d",
       [] {
         return Conv2d({.in = 4, .out = 6, .kernel = {3, 5}, .groups = 2});
       }},
      {"conv3d", [] { return Conv3d(2, 3, 3); }},
      {"conv_transpose1d", [] { return ConvTranspose1d(3, 8, 5); }},
      {"conv_transpose3d",
       [] {
         return ConvTranspose3d(2, 4, {2, 3, 1});
       }},
      {"conv_transpose2d", [] { return ConvTranspose2d({.in = 4, .out = 6, .kernel = 3, .groups = 2}); }},
      {"embedding", [] { return Embedding(50, 7); }, 2e-6},
      {"embedding_padding", [] { return Embedding({.count = 5, .dim = 3, .padding_idx = 1}); }, 2e-6},
      {"attention", [] { return MultiheadAttention(16, 4); }},
      {"attention_kdim",
       [] { return MultiheadAttention({.embed_dim = 16, .num_heads = 4, .kdim = 8, .vdim = 12}); }},
      {"encoder_layer",
       [] { return TransformerEncoderLayer({.d_model = 16, .nhead = 4, .dim_feedforward = 32}); }},
      {"batch_norm", [] { return BatchNorm2d(5); }},
      {"layer_norm",
       [] {
         return LayerNorm({.shape = {3, 4}});
       }},
      {"kaiming_normal",
       [] { return filled([](const Tensor& t) -> const Tensor& { return init::kaiming_normal_(t); }); },
       2e-6},
      {"kaiming_uniform",
       [] { return filled([](const Tensor& t) -> const Tensor& { return init::kaiming_uniform_(t); }); }},
      {"xavier_normal",
       [] { return filled([](const Tensor& t) -> const Tensor& { return init::xavier_normal_(t); }); }, 2e-6},
      {"xavier_uniform",
       [] { return filled([](const Tensor& t) -> const Tensor& { return init::xavier_uniform_(t); }); }},
  };
  return *all;
}

TEST(Initialisation, every_layer_starts_with_pytorch_s_numbers) {
  TERN_NEEDS_PYTHON(python, "torch");
  io::TemporaryDir dir;
  std::string path = dir / "layers.npz";
  PythonResult made = run_python(python, make_layers, "'" + path + "'");
  ASSERT_EQ(made.status, 0) << made.output;
  TensorMap expected = load_npz(path);
  for (const Case& c : cases())
    for (int seed : {0, 1, 12345}) {
      manual_seed(static_cast<uint64_t>(seed));
      nn::Module layer = c.make();
      std::string prefix = std::string(c.name) + "/" + std::to_string(seed) + "/";
      size_t compared = 0;
      for (auto& [key, t] : layer.state_dict()) {
        ASSERT_EQ(expected.count(prefix + key), 1u) << prefix << key;
        NoGrad no_grad;
        double gap =
            (to(t.detach(), kDouble) - to(expected[prefix + key], kDouble)).abs().max().item<double>();
        EXPECT_LE(gap, c.tolerance) << prefix << key;
        ++compared;
      }
      size_t there = 0;
      for (auto& [key, t] : expected) there += key.starts_with(prefix);
      EXPECT_EQ(compared + 1, there) << prefix << ": PyTorch's layer has other tensors";
      EXPECT_EQ(rand({1}).item<float>(), expected[prefix + "next"].to_vector<float>()[0])
          << prefix << ": drew another number of random numbers";
    }
}

}  // namespace
}  // namespace tern::testing
