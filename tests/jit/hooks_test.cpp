// Hooks of the module itself: whoever calls it, or takes its whole graph, gets what they change.
#include <gtest/gtest.h>

#include "tern/jit/archive.h"
#include "tern/ops.h"
#include "tern/script/run_graph.h"
#include "tests/support/paths.h"

namespace tern::jit {
namespace {

using V = tern::Value;

TEST(Hooks, of_the_module_itself_are_part_of_its_whole_graph) {
  ScriptModule m = load(testing::source_dir() + "/tests/jit/scripted/TopHooks.pt");
  Tensor x = ones({2});
  Tensor called = m.forward({V(x)}).tensor();
  // before: x + 1; forward: relu(2x), then its own hook 3y + 2x; after: 3y + x
  EXPECT_EQ(called.to_vector<double>(), (std::vector<double>{50, 50}));
  std::unique_ptr<ir::Graph> g = m.whole_graph();
  std::vector<V> inputs{m.object(), V(x)};
  std::vector<V> results = script::run_graph(*g, inputs, *script::Object::of(m.object())->unit, nullptr);
  ASSERT_EQ(results.size(), 1u) << g->str();
  EXPECT_EQ(results[0].tensor().to_vector<double>(), called.to_vector<double>()) << g->str();
}

}  // namespace
}  // namespace tern::jit
