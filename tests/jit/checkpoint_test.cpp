// What checkpoints hold besides plain tensors: lazy conjugates and negatives, and values that keep nobody
// from reading the others.
#include <gtest/gtest.h>

#include <complex>

#include "tern/base/error.h"
#include "tern/io/file.h"
#include "tern/jit/archive.h"
#include "tests/support/python.h"

namespace tern::jit {
namespace {

using V = tern::Value;

const std::string& files() {
  static const io::TemporaryDir* dir = new io::TemporaryDir;
  static const std::string path = [] {
    const std::string& python = testing::python_with("torch");
    if (python.empty()) return std::string();
    testing::PythonResult r = testing::run_python(python, R"(
import collections, sys, torch, warnings
warnings.simplefilter("ignore")
folder = sys.argv[1]
z = torch.tensor([1 + 2j, 3 - 4j])
lazy = {"conj": z.conj(), "neg": torch._neg_view(torch.ones(2)), "imag": z.clone().conj().imag, "part": z.conj()[1:],
        "both": torch._neg_view(z.conj()), "p": torch.nn.Parameter(z.conj()), "plain": z}
torch.save(lazy, f"{folder}/lazy.ckpt")
torch.save(lazy, f"{folder}/lazy_legacy.ckpt", _use_new_zipfile_serialization=False)
open(f"{folder}/holder.py", "w").write('''
import torch
class Holder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.tensor([1 + 2j]).conj())
    def forward(self):
        return self.b * 1
''')
sys.path.insert(0, folder)
import holder
torch.jit.script(holder.Holder()).save(f"{folder}/lazy.pt")
eye = torch.eye(3)
turned = torch.nested.nested_tensor([torch.arange(6.0).view(2, 3), torch.ones(1, 3)]).transpose(1, 2)
torch.save({"w": torch.ones(2), "coo": eye.to_sparse(), "csr": eye.to_sparse_csr(),
            "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "turned": turned, "none": torch.nested.nested_tensor([]),
            "jagged": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged), "big": 2 ** 70, "small": -(2 ** 65),
            "storage": torch.arange(3.0).untyped_storage(), "typed": torch.arange(3.0).storage(),
            "scale": torch.ones(2).to(torch.float8_e8m0fnu), "scales": torch.nn.Parameter(torch.ones(2).to(torch.float8_e8m0fnu), requires_grad=False),
            "sparse": torch.nn.Parameter(eye.to_sparse()), "counts": collections.Counter("aab"), "bytes": b"ab", "array": bytearray(b"xy"), "empty": b""},
           f"{folder}/mixed.ckpt")
class Bad:
    def __init__(self, *args):
        self.args = args
    def __reduce__(self):
        return torch._utils._rebuild_nested_tensor, self.args
row, table = torch.arange(4.0), lambda *n: torch.tensor(n).view(-1, 1)
torch.save({"far": Bad(row, table(2, 3), table(1, 1), torch.tensor([0, 2]))}, f"{folder}/far.ckpt")
torch.save({"before": Bad(row, table(2, 2), table(1, 1), torch.tensor([0, -1]))}, f"{folder}/before.ckpt")
torch.save({"negative": Bad(row, table(2, -2), table(1, 1), torch.tensor([0, 2]))}, f"{folder}/negative.ckpt")
torch.save({"huge": Bad(row, table(2 ** 62, 2 ** 62), table(0, 0), torch.tensor([0, 0]))}, f"{folder}/huge.ckpt")
torch.save({"short": Bad(row, table(2, 2), table(1), torch.tensor([0, 2]))}, f"{folder}/short.ckpt")
torch.save({"real": Bad(row, table(2.0, 2.0), table(1, 1), torch.tensor([0, 2]))}, f"{folder}/real.ckpt")
)",
                                                  "'" + dir->path() + "'");
    EXPECT_EQ(r.status, 0) << r.output;
    return dir->path() + "/";
  }();
  return path;
}

std::vector<std::complex<double>> numbers(const V& v) {
  const Tensor t = v.tensor().detach().contiguous();
  std::vector<std::complex<double>> all;
  for (int64_t i = 0; i < t.numel().as_int(); ++i) {
    Dims none;
    all.push_back(t.as_view(none, none, t.offset() + SymInt(i)).item().to_complex());
  }
  return all;
}

TEST(Checkpoint, lazy_conjugates_and_negatives_are_read_as_what_they_show) {
  ASSERT_FALSE(files().empty()) << "no Python that can import torch";
  using C = std::complex<double>;
  for (const char* name : {"lazy.ckpt", "lazy_legacy.ckpt"}) {
    V v = load_checkpoint(files() + name);
    EXPECT_EQ(numbers(*v.find("conj")), (std::vector<C>{{1, -2}, {3, 4}})) << name;
    EXPECT_EQ(numbers(*v.find("neg")), (std::vector<C>{-1, -1})) << name;
    EXPECT_EQ(numbers(*v.find("imag")), (std::vector<C>{-2, 4})) << name;
    EXPECT_EQ(numbers(*v.find("part")), (std::vector<C>{{3, 4}})) << name;
    EXPECT_EQ(numbers(*v.find("both")), (std::vector<C>{{-1, 2}, {-3, -4}})) << name;
    EXPECT_EQ(numbers(*v.find("p")), (std::vector<C>{{1, -2}, {3, 4}})) << name;
    EXPECT_TRUE(v.find("p")->tensor().requires_grad()) << name;
    EXPECT_EQ(numbers(*v.find("plain")), (std::vector<C>{{1, 2}, {3, -4}})) << name;
  }
}

TEST(Checkpoint, lazy_buffers_of_scripted_modules_too) {
  ASSERT_FALSE(files().empty()) << "no Python that can import torch";
  ScriptModule m = load(files() + "lazy.pt");
  EXPECT_EQ(numbers(m.forward({})), (std::vector<std::complex<double>>{{1, -2}}));
}

TEST(Checkpoint, what_is_not_known_keeps_nobody_from_reading_the_rest) {
  ASSERT_FALSE(files().empty()) << "no Python that can import torch";
  V v = load_checkpoint(files() + "mixed.ckpt");
  EXPECT_EQ(numbers(*v.find("w")), (std::vector<std::complex<double>>{1, 1}));
  auto said = [&](const char* key) {
    const std::string* name = opaque_class(*v.find(key));
    return name ? *name : "something known";
  };
  EXPECT_EQ(said("coo"), "a sparse tensor (torch.sparse_coo) of size [3, 3]");
  EXPECT_EQ(said("csr"), "a sparse tensor (torch.sparse_csr) of size [3, 3]");
  std::vector<Tensor> parts = v.find("nested")->tensor().unbind();
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].to_vector<double>(), (std::vector<double>{1, 1}));
  EXPECT_EQ(parts[1].to_vector<double>(), (std::vector<double>{1, 1, 1}));
  parts = v.find("turned")->tensor().unbind();
  EXPECT_EQ(parts[0].to_vector<double>(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(v.find("none")->tensor().unbind().size(), 0u);
  EXPECT_EQ(said("jagged"), "torch.nested._internal.nested_tensor._rebuild_njt");
  EXPECT_EQ(said("big"), "the integer 1180591620717411303424");
  EXPECT_EQ(said("small"), "the integer -36893488147419103232");
  // A storage is the row of its elements.
  EXPECT_EQ(v.find("storage")->tensor().dtype(), DType::uint8);
  EXPECT_EQ(v.find("storage")->tensor().numel().as_int(), 12);
  EXPECT_EQ(numbers(*v.find("typed")), (std::vector<std::complex<double>>{0, 1, 2}));
  EXPECT_EQ(said("scale"), "a tensor of torch.float8_e8m0fnu");
  EXPECT_EQ(said("scales"), "a tensor of torch.float8_e8m0fnu");
  EXPECT_EQ(said("sparse"), "a sparse tensor (torch.sparse_coo) of size [3, 3]");
  EXPECT_EQ(v.find("counts")->find(V("a"))->to_int(), 2);
  EXPECT_EQ(v.find("bytes")->string(), "ab");
  EXPECT_EQ(v.find("array")->string(), "xy");
  EXPECT_EQ(v.find("empty")->string(), "");
}

TEST(Checkpoint, nested_tensors_stay_in_their_buffers) {
  ASSERT_FALSE(files().empty()) << "no Python that can import torch";
  for (const char* name : {"far", "before", "negative", "huge", "short", "real"}) {
    try {
      load_checkpoint(files() + name + ".ckpt");
      ADD_FAILURE() << name;
    } catch (const Error& e) {
      EXPECT_NE(e.message().find("nested tensor"), std::string::npos) << name << ": " << e.message();
    }
  }
}

}  // namespace
}  // namespace tern::jit
