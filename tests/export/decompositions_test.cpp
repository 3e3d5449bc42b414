// Decompositions held against PyTorch's: many small programs, the same set of operators in one call, and
// files that PyTorch runs.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "tern/base/error.h"
#include "tern/export/program.h"
#include "tern/export/pt2.h"
#include "tern/io/file.h"
#include "tests/support/oracle_files.h"

namespace tern {
namespace {

constexpr const char* programs = R"PY(
import sys, warnings
warnings.filterwarnings("ignore")
import torch
import torch.nn.functional as F
class W(torch.nn.Module):
    def __init__(s, f):
        super().__init__(); s.f = f
    def forward(s, *a):
        return s.f(*a)
torch.manual_seed(0)
x, x4 = torch.randn(3, 5), torch.randn(1, 4, 6, 6)
i = torch.tensor([0, 2])
cases = dict(
    where_other=(lambda x: torch.where(x > 0, x, 0.0), x), where_self=(lambda x: torch.where(x > 0, 1, x), x),
    where_both=(lambda x: torch.where(x > 0, 1, 0), x), where_bool=(lambda x: torch.where(x > 0, True, False), x),
    hardshrink=(F.hardshrink, x), threshold=(lambda x: F.threshold(x, 0.1, 20.0), x),
    masked_fill=(lambda x: x.masked_fill(x > 0, 0.0), x), silu=(F.silu, x), mish=(F.mish, x),
    hardswish=(F.hardswish, x), softplus=(F.softplus, x), glu=(lambda x: F.glu(x, 0), x4[0]),
    addcmul=(lambda x: torch.addcmul(x, x, x, value=2), x), lerp=(lambda x: torch.lerp(x, x * 2, 0.3), x),
    lerp_tensor=(lambda x: torch.lerp(x, x * 2, x), x), xlogy=(lambda x: torch.xlogy(x, x), x),
    entr=(torch.special.entr, x), heaviside=(lambda x: torch.heaviside(x, x), x), sgn=(torch.sgn, x),
    logaddexp=(lambda x: torch.logaddexp(x, x * 2), x), tril=(torch.tril, x), triu=(lambda x: torch.triu(x, 1), x),
    tril_bool=(lambda x: torch.tril(x > 0), x), squeeze=(lambda x: x[:1].squeeze(0), x),
    squeeze_all=(lambda x: x[:1].squeeze(), x), fill=(lambda x: torch.fill(x, 2.0), x),
    reflect=(lambda x: F.pad(x, [1, 2, 3, 0], "reflect"), x4), reflect1=(lambda x: F.pad(x, [1, 2], "reflect"), x),
    replicate=(lambda x: F.pad(x, [1, 2, 3, 0], "replicate"), x4),
    circular=(lambda x: F.pad(x, [1, 2, 3, 0], "circular"), x4),
    circular_cut=(lambda x: F.pad(x, [2, -1, -2, 1], "circular"), x4[0]), circular_idle=(lambda x: F.pad(x, [0, 0], "circular"), x),
    replicate1=(lambda x: F.pad(x, [1, 2], "replicate"), x), addmv=(lambda x: torch.addmv(x[:, 0], x, x[0]), x),
    var_mean=(lambda x: torch.var_mean(x, 0), x), transposed=(lambda x: x.t().transpose(0, 1), x),
    item_float=(lambda x: x * x[0, 0].item(), x), item_int=(lambda x, i: x * i[0].item(), x, i),
    index_add=(lambda x, i: x.index_add(0, i, x[:2]), x, i),
    index_add_alpha=(lambda x, i: x.index_add(1, i, x[:, :2], alpha=2), x, i),
    index_copy=(lambda x, i: x.index_copy(1, i, x[:, :2]), x, i),
    index_fill=(lambda x, i: x.index_fill(1, i, 1.5), x, i),
    index_fill_tensor=(lambda x, i: x.index_fill(1, i, x[0, 0]), x, i),
    nan_to_num=(lambda x: torch.nan_to_num(x / 0, 1.0), x), nan_to_num_int=(lambda i: torch.nan_to_num(i), i),
    logit=(torch.logit, x), logit_eps=(lambda x: torch.logit(x, 0.1), x), logit_int=(torch.logit, i),
    linspace=(lambda x: x + torch.linspace(0, 1, 5), x), linspace_one=(lambda x: x + torch.linspace(2, 1, 1), x),
    linspace_int=(lambda x: x + torch.linspace(0, 9, 5, dtype=torch.int64), x),
    linspace_tensor=(lambda x: torch.linspace(x[0, 0], 2, 5), x), logspace=(lambda x: x + torch.logspace(0, 2, 5), x),
    logspace_int=(lambda x: x + torch.logspace(0, 2.5, 5, 2, dtype=torch.int64), x),
    eye=(lambda x: x @ torch.eye(5), x), eye_m=(lambda x: x @ torch.eye(5, 2), x),
    eye_bool=(lambda x: torch.eye(5, dtype=torch.bool) & (x[0] > 0), x),
    logaddexp2=(lambda x: torch.logaddexp2(x, x[0]), x), logaddexp_wide=(lambda x: torch.logaddexp(x[0], x), x),
    xlog1py=(lambda x: torch.special.xlog1py(x, x), x), celu=(lambda x: F.celu(x, 1.5), x), celu_one=(F.celu, x),
    logsigmoid=(F.logsigmoid, x), softplus_beta=(lambda x: F.softplus(x, 2.0), x),
    clamp_min=(lambda x: torch.clamp_min(x, x[0]), x), clamp_max=(lambda x: torch.clamp_max(x, x[0]), x),
    isin_few=(lambda x: torch.isin(x, x[0, :2]), x), isin_many=(lambda x: torch.isin(x, x * 2, invert=True), x),
    isin_unique=(lambda x: torch.isin(x, x * 2, assume_unique=True), x), isin_number=(lambda x: torch.isin(x, 1.0), x),
    isin_in_number=(lambda x: torch.isin(x, x[0, 0]), x), select_scatter=(lambda x: x.select_scatter(x[0], 0, -1), x),
    written_row=(lambda x: x.clone().index_fill_(0, torch.tensor([1]), 2.0), x),
    detach=(lambda x: x.detach() + 1, x), constant=(lambda x: x + torch.tensor([1.0, 2, 3, 4, 5]), x),
    picked=(lambda x: x[[0, 2]], x), idle_dropout=(lambda x: F.dropout(x, 0.5, False), x),
    fold=(lambda x: F.fold(x.reshape(1, 36, 4), (4, 4), 3, padding=0), x4), empty_like=(lambda x: torch.empty_like(x).fill_(1), x),
    nearest=(lambda x: F.interpolate(x, scale_factor=2.0), x4), nearest_size=(lambda x: F.interpolate(x, (7, 4)), x4),
    bilinear=(lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"), x4),
    corners=(lambda x: F.interpolate(x, (3, 8), mode="bilinear", align_corners=True), x4),
    std_mean=(lambda x: torch.std_mean(x, 0), x), cosine=(lambda x: F.cosine_similarity(x, x[0]), x),
    bce=(lambda x: F.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(x * 2)), x),
    bce_logits=(lambda x: F.binary_cross_entropy_with_logits(x, torch.sigmoid(x)), x),
    all_dim=(lambda x: torch.all(x > 0, 1), x), outer=(lambda x: torch.outer(x[0], x[1]), x),
    addr=(lambda x: torch.addr(x, x[:, 0], x[0], beta=2), x), stack=(lambda x: torch.stack([x, x], 1), x),
    stack_last=(lambda x: torch.stack([x, x], -1), x), transposed_row=(lambda x: x[0].t() + 1, x),
    broadcast=(lambda x: torch.broadcast_tensors(x, x[0])[1], x), trace=(torch.trace, x),
    expand_copy=(lambda x: torch.expand_copy(x[0], [2, 5]), x), squeeze_copy=(lambda x: torch.squeeze_copy(x[:1]), x),
    t_copy=(torch.t_copy, x), unfold_copy=(lambda x: torch.unfold_copy(x, 1, 2, 1), x),
    transposed_in_place=(lambda x: x.clone().transpose_(0, 1) + 1, x), shrunk=(lambda x: x.clone().resize_(2, 3) + 1, x),
    grown=(lambda x, i: x.clone().resize_(6, 5).index_select(0, i), x, i), resized_as=(lambda x, i: x.clone().resize_as_(i) + 1, x, i),
    instance_norm=(torch.nn.InstanceNorm2d(4, affine=True, track_running_stats=True), x4),
    batch_norm=(torch.nn.BatchNorm2d(4), x4), batch_norm_eval=(torch.nn.BatchNorm2d(4).eval(), x4),
)
out = sys.argv[1] + "/"
with open(out + "expected", "w") as f:
    for name, (function, *args) in cases.items():
        program = torch.export.export(W(function), tuple(args))
        torch.export.save(program, out + name + ".pt2")
        core = program.run_decompositions()
        called = {str(n.target) for n in core.graph.nodes if n.op == "call_function"} - {"<built-in function getitem>"}
        f.write(name + " " + " ".join(sorted(called)) + "\n")
        torch.save((args, core.module()(*args)), out + name + ".values")
)PY";

using testing::OracleFiles;
using testing::python_with;
using testing::PythonResult;
using testing::run_python;

OracleFiles& files() {
  static OracleFiles* made = new OracleFiles(programs);
  return *made;
}

// As PyTorch writes operators: "aten.add.Tensor", "aten.relu.default".
void collect(const ir::Block& block, std::set<std::string>& called) {
  for (const ir::Node& n : block) {
    if (n.op()) {
      std::string name = n.qualified();
      name.replace(name.find("::"), 2, ".");
      if (name.find('.') == name.rfind('.')) name += ".default";
      called.insert(name);
    }
    for (const ir::Block* b : n.blocks()) collect(*b, called);
  }
}

TEST(Decompositions, OneCallGivesTheOperatorsOfPyTorch) {
  NEED_FILES();
  std::ifstream expected(files().dir.path() + "/expected");
  std::string line;
  size_t seen = 0;
  while (std::getline(expected, line)) {
    std::istringstream words(line);
    std::string name, word;
    words >> name;
    std::set<std::string> wanted, called;
    while (words >> word) wanted.insert(word);
    std::string path = files().dir.path() + "/" + name;
    ExportedProgram core = load_program(path + ".pt2").run_decompositions(Dialect::core);
    EXPECT_EQ(core.dialect(), Dialect::core);
    collect(core.graph().top(), called);
    EXPECT_EQ(called, wanted) << name << "\n" << core.graph().str();
    // In two steps it is the same.
    std::set<std::string> later;
    collect(load_program(path + ".pt2").run_decompositions().run_decompositions().graph().top(), later);
    EXPECT_EQ(later, called) << name;
    save(core, path + "_core.pt2");
    ++seen;
  }
  EXPECT_GT(seen, 90u);
  PythonResult r = run_python(python_with("torch"), R"PY(
import glob, sys, warnings
warnings.filterwarnings("ignore")
import torch
from torch.utils._pytree import tree_leaves
for path in glob.glob(sys.argv[1] + "/*.values"):
    args, want = torch.load(path, weights_only=False)
    got = torch.export.load(path[:-7] + "_core.pt2").module()(*args)
    for g, w in zip(tree_leaves(got), tree_leaves(want), strict=True):
        assert g.dtype == w.dtype and torch.allclose(g, w, 1e-4, 1e-5, equal_nan=True), path
)PY",
                              "'" + files().dir.path() + "'");
  EXPECT_EQ(r.status, 0) << r.output;
}

TEST(Decompositions, NothingBecomesTheTrainingDialectAgain) {
  NEED_FILES();
  ExportedProgram p = load_program(files().dir.path() + "/silu.pt2");
  EXPECT_THROW(p.run_decompositions(Dialect::training), Error);
  EXPECT_EQ(p.run_decompositions().dialect(), Dialect::aten);
}

}  // namespace
}  // namespace tern
