// Every operator that real models use is known: as an operator, as a builtin on numbers and lists, or as one
// that takes functions.
#include <gtest/gtest.h>

#include <sstream>

#include "tern/base/error.h"
#include "tern/dispatch/ladder.h"
#include "tern/dispatch/op.h"
#include "tern/ir/auto_functionalized.h"
#include "tern/ir/builtins.h"
#include "tern/ir/graph.h"
#include "tern/ir/higher_order.h"
#include "tern/ops.h"
#include "tests/support/gradcheck.h"
#include "tests/support/paths.h"

namespace tern {
namespace {

bool is_known(std::string name) {
  if (name.ends_with(".*")) {  // any overload
    name.resize(name.size() - 2);
    if (!overloads(Symbol(name)).empty()) return true;
  }
  // Nodes of scripts that the interpreter runs itself.
  if (name == "aten::wait") return true;
  // What torch.onnx writes into a model for an operator it has no rule for: a node of ONNX, not an operator.
  if (name == "aten::ATen") return true;
  if (find_op(std::string_view(name))) return true;
  if (name == "operator::getitem") return true;  // of several results: prim::ListUnpack
  if (ir::find_higher_order(name)) return true;
  if (name.starts_with("higher_order::auto_functionalized")) return true;
  return ir::find_builtin(Symbol(name)) != nullptr;
}

TEST(OperatorNames, EveryOperatorOfRealModelsIsKnown) {
  std::istringstream file(
      tern::testing::read_file(tern::testing::source_dir() + "/tests/ops/model_operators.txt"));
  std::string line, missing;
  size_t count = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    ++count;
    if (!is_known(line)) missing += line + "\n";
  }
  EXPECT_GE(count, 360u);
  EXPECT_EQ(missing, "");
}

TEST(OperatorNames, StorageIsATensorOverAllOfIt) {
  Tensor x = zeros({2, 2}), bytes = arange(6).to(kFloat);
  Value args[] = {Value(x), Value(bytes)}, result;
  const Op& set = get_op("aten::set_.source_Storage");
  call(set, Bound(set, args).args(), &result);
  EXPECT_EQ(str(x.sizes()), "[6]");
  EXPECT_EQ(x.to_vector<float>()[5], 5);
  const Op& part = get_op("aten::set_.source_Storage_storage_offset");
  Value more[] = {Value(x), Value(bytes), Value(1), Value::list({Value(2), Value(2)})};
  call(part, Bound(part, more).args(), &result);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  more[2] = Value(4);
  EXPECT_THROW(call(part, Bound(part, more).args(), &result), Error);
}

TEST(OperatorNames, GroupedProducts) {
  const Op& op = get_op("transformers::grouped_mm_fallback");
  Tensor x = (arange(18).to(kDouble) * 0.3).sin().view(Dims{6, 3}),
         w = (arange(24).to(kDouble) * 0.7).cos().view(Dims{4, 3, 2}),
         offs = tensor({1, 1, 4, 5}, {.dtype = kInt});
  Arg args[] = {x, w, offs};
  Tensor y = call1(op, args);
  EXPECT_EQ(str(y.sizes()), "[6, 2]");
  Tensor wanted = cat({mm(slice(x, 0, 0, 1), w.select(0, 0)), mm(slice(x, 0, 1, 4), w.select(0, 2)),
                       mm(slice(x, 0, 4, 5), w.select(0, 3)), zeros({1, 2}, kDouble)});
  EXPECT_LT((y - wanted).abs().max().item<double>(), 1e-12);
  auto f = [&](const std::vector<Tensor>& in) {
    Arg a[] = {in[0], in[1], offs};
    return call1(op, a);
  };
  x.requires_grad_();
  w.requires_grad_();
  testing::check_gradient("grouped_mm", f, {x, w});
  testing::check_second_gradient("grouped_mm", f, {x, w});
  Tensor beyond = tensor({1, 9, 2, 3}, {.dtype = kInt});
  Arg wrong[] = {x, w, beyond};
  EXPECT_THROW(call1(op, wrong), Error);
}

}  // namespace
}  // namespace tern
