// The functional rung: programs that write through views are captured, made functional, and must compute the
// same and write the same back.
#include "tern/capture/functional.h"

#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/capture/recorder.h"
#include "tern/capture/retrace.h"
#include "tern/ir/interpreter.h"
#include "tern/ir/text.h"
#include "tern/ir/verify.h"
#include "tern/ops.h"
#include "tern/sym/shape_env.h"

namespace tern {
namespace {

using Program = Function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// What a program does, recorded on fake inputs as the user wrote it.
std::unique_ptr<ir::Graph> record(const Program& f, const std::vector<Tensor>& inputs) {
  auto graph = std::make_unique<ir::Graph>();
  graph->shapes = std::make_shared<ShapeEnv>();
  capture::Recorder recorder(*graph, rung_record);
  recorder.shapes = graph->shapes;
  std::vector<Tensor> fakes;
  for (const Tensor& t : inputs) {
    fakes.push_back(make_tensor(t.sizes(), t.strides(), t.dtype(), kCPU, true));
    recorder.bind(fakes.back(), graph->add_input(ir::Type::tensor_like(fakes.back()), "x"));
  }
  std::vector<Tensor> outputs;
  {
    Mount mount(rung_record, recorder);
    outputs = f(fakes);
  }
  for (const Tensor& t : outputs) graph->add_output(recorder.operand(t));
  return graph;
}

bool mutates(const ir::Block& block) {
  for (const ir::Node& n : block) {
    if (n.op() && n.op()->schema().mutates()) return true;
    for (ir::Block* b : n.blocks())
      if (mutates(*b)) return true;
  }
  return false;
}

std::vector<double> numbers(const Tensor& t) { return t.to_vector<double>(); }

// Runs the functional graph and the program itself; both must agree on outputs and on what became of the
// inputs.
std::string check_functional(const Program& f, const std::vector<Tensor>& inputs,
                             std::vector<size_t> expected_mutated) {
  auto graph = record(f, inputs);
  ir::verify(*graph);
  capture::Retraced functional = capture::retrace(*graph);
  ir::verify(*functional.graph);
  EXPECT_FALSE(mutates(functional.graph->top())) << functional.graph->str();
  EXPECT_EQ(functional.mutated, expected_mutated) << functional.graph->str();

  std::vector<Tensor> eager;
  std::vector<Value> values;
  for (const Tensor& t : inputs) {
    eager.push_back(t.clone());
    values.push_back(t.clone());
  }
  std::vector<Tensor> expected = f(eager);
  std::vector<Value> got = ir::run(*functional.graph, values);
  size_t n = functional.mutated.size();
  EXPECT_EQ(got.size(), n + expected.size());
  for (size_t i = 0; i < n; ++i)
    EXPECT_EQ(numbers(got[i].tensor()), numbers(eager[functional.mutated[i]])) << functional.graph->str();
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(numbers(got[n + i].tensor()), numbers(expected[i])) << functional.graph->str();
  return functional.graph->str();
}

Tensor range(std::initializer_list<SymInt> sizes) {
  return view(arange(Scalar(product(Span<const SymInt>(sizes)).as_int()), kFloat), sizes);
}

TEST(Functional, a_write_through_a_flat_view_reaches_the_base) {
  check_functional(
      [](auto& in) -> std::vector<Tensor> {
        in[0].view({-1}).add_(1);
        return {in[0] * 2};
      },
      {range({2, 3})}, {0});
}

TEST(Functional, a_selected_row_is_scaled) {
  check_functional(
      [](auto& in) -> std::vector<Tensor> {
        Tensor x = in[0].clone();
        Tensor y = x[0];
        y.mul_(2);
        return {x, y};
      },
      {range({3, 4})}, {});
}

TEST(Functional, two_views_of_one_base_see_each_other) {
  check_functional(
      [](auto& in) -> std::vector<Tensor> {
        Tensor x = in[0].clone(), left = x.slice(1, 0, 2), row = x[1];
        left.add_(10);
        row.mul_(3);
        return {x, left, row};
      },
      {range({3, 4})}, {});
}

TEST(Functional, views_of_views) {
  check_functional(
      [](auto& in) -> std::vector<Tensor> {
        Tensor inner = in[0].transpose(0, 1).slice(0, 1, 3).select(1, 0);
        inner.sub_(5);
        return {inner, in[0].sum()};
      },
      {range({3, 4})}, {0});
}

TEST(Functional, an_input_that_is_mutated_and_returned) {
  check_functional(
      [](auto& in) -> std::vector<Tensor> {
        in[0].add_(in[1]);
        return {in[0]};
      },
      {range({2, 2}), range({2, 2})}, {0});
}

TEST(Functional, several_inputs_are_written_in_order) {
  check_functional(
      [](auto& in) -> std::vector<Tensor> {
        in[1].mul_(in[0]);
        in[0].view({-1}).add_(in[1].view({-1}));
        return {in[0] + in[1]};
      },
      {range({2, 2}), range({2, 2})}, {0, 1});
}

TEST(Functional, copies_fills_and_pieces) {
  check_functional(
      [](auto& in) -> std::vector<Tensor> {
        Tensor out = zeros({4, 3});
        std::vector<Tensor> parts = out.split(2, 0);
        parts[0].copy_(in[0]);
        parts[1].fill_(7);
        out.unbind(0)[3].zero_();
        return {out};
      },
      {range({2, 3})}, {});
}

TEST(Functional, a_tensor_that_was_transposed_in_place_is_a_view_of_what_it_was) {
  std::string graph = check_functional(
      [](auto& in) -> std::vector<Tensor> {
        Tensor x = in[0].clone(), row = x[1];
        transpose_(x, 0, 1);
        Tensor column = x[2];
        x.mul_(2);
        row.add_(1);
        return {x, row, column, x.reshape({-1})};
      },
      {range({3, 4})}, {});
  EXPECT_NE(graph.find("aten::transpose.int"), std::string::npos) << graph;
}

TEST(Functional, a_tensor_that_was_made_smaller_still_shares_its_memory) {
  std::string graph = check_functional(
      [](auto& in) -> std::vector<Tensor> {
        Tensor x = in[0].clone(), row = x[0];
        resize_(x, {2, 3});
        x.add_(10);
        Tensor small = x * 1;
        resize_(x, {4, 3});  // what was cut off is still there
        x.mul_(2);
        return {small, x, row};
      },
      {range({3, 4})}, {});
  EXPECT_EQ(graph.find("aten::resize"), std::string::npos) << graph;
}

TEST(Functional, memory_that_grows_is_a_new_value) {
  std::string graph = check_functional(
      [](auto& in) -> std::vector<Tensor> {
        Tensor x = in[0].clone(), y = empty({0});
        resize_(x, {5, 4});
        resize_as_(y, in[0]);
        y.copy_(in[0]);
        x.slice(0, 3, 5).fill_(7);
        return {x, y, y[1]};
      },
      {range({3, 4})}, {});
  EXPECT_NE(graph.find("aten::resize(%clone, [5, 4]"), std::string::npos) << graph;
}

TEST(Functional, sizes_that_would_be_lost_are_refused) {
  auto refusal = [](const Program& f) -> std::string {
    auto graph = record(f, {range({3, 4})});
    try {
      capture::retrace(*graph);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_NE(refusal([](auto& in) -> std::vector<Tensor> {
              Tensor x = in[0].clone(), row = x[0];
              resize_(x, {5, 4});
              return {row};
            }).find("memory that has views cannot grow"),
            std::string::npos);
  for (const SymInt rows : {2, 5})
    EXPECT_NE(refusal([&](auto& in) -> std::vector<Tensor> {
                return {resize_(in[0], {rows, SymInt(4)}) * 0};
              }).find("the input x gets other sizes or strides in place"),
              std::string::npos);
  auto branch = ir::parse(R"(graph(%x : Float(2, 3), %c : Bool()):
  %b : bool = aten::Bool(%c)
  %y : Float(2, 3) = aten::neg(%x)
  %n : int = prim::If(%b)
    block0():
      %t : Float(3, 2) = aten::t_(%y)
      -> (1)
    block1():
      -> (2)
  return (%y, %n)
)");
  try {
    capture::retrace(*branch);
    FAIL() << "the sizes depend on the branch";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("from outside of a branch or loop gets other sizes inside"),
              std::string::npos)
        << e.what();
  }
}

TEST(Functional, a_narrower_type_is_kept) {
  Tensor ints = arange(Scalar(4));
  check_functional(
      [](auto& in) -> std::vector<Tensor> {
        in[0].add_(in[0]);
        return {in[0]};
      },
      {ints}, {0});
}

TEST(Functional, a_write_in_one_branch_is_a_result_of_the_if) {
  auto graph = ir::parse(R"(graph(%x : Float(2, 3), %c : Bool()):
  %b : bool = aten::Bool(%c)
  %r : Float(3) = aten::select.int(%x, 0, 1)
  %y : Float(3) = prim::If(%b)
    block0():
      %m : Float(3) = aten::mul_.Tensor(%r, 2)
      -> (%m)
    block1():
      %n : Float(3) = aten::neg(%r)
      -> (%n)
  %z : Float(2, 3) = aten::add.Tensor(%x, 1, alpha=1)
  return (%y, %z)
)");
  capture::Retraced functional = capture::retrace(*graph);
  ir::verify(*functional.graph);
  EXPECT_FALSE(mutates(functional.graph->top())) << functional.graph->str();
  EXPECT_EQ(functional.mutated, std::vector<size_t>{0});
  for (bool taken : {true, false}) {
    Tensor x = range({2, 3}), y = x.clone();
    Value inputs[] = {x, tensor(Scalar(taken))}, same[] = {y, tensor(Scalar(taken))};
    std::vector<Value> expected = ir::run(*graph, same), got = ir::run(*functional.graph, inputs);
    ASSERT_EQ(got.size(), 3u);
    EXPECT_EQ(numbers(got[0].tensor()), numbers(y)) << functional.graph->str();
    EXPECT_EQ(numbers(got[1].tensor()), numbers(expected[0].tensor()));
    EXPECT_EQ(numbers(got[2].tensor()), numbers(expected[1].tensor()));
    EXPECT_EQ(numbers(x), numbers(range({2, 3}))) << "a functional graph changes nothing";
  }
}

TEST(Functional, what_a_loop_writes_is_carried) {
  auto graph = ir::parse(R"(graph(%x : Float(2, 3), %n : int):
  %r : Float(3) = aten::select.int(%x, 0, 0)
  %z : Float(3) = aten::clone(%r, memory_format=None)
  %s : Float(3) = prim::Loop(%n, True, %z)
    block0(%i : int, %a : Float(3)):
      %m : Float(3) = aten::add_.Tensor(%r, 1, alpha=1)
      %d : Float(3) = aten::add.Tensor(%a, %m, alpha=1)
      -> (True, %d)
  return (%s)
)");
  capture::Retraced functional = capture::retrace(*graph);
  ir::verify(*functional.graph);
  EXPECT_FALSE(mutates(functional.graph->top())) << functional.graph->str();
  for (int64_t n : {0, 1, 4}) {
    Tensor x = range({2, 3}), y = x.clone();
    Value inputs[] = {x, n}, same[] = {y, n};
    std::vector<Value> expected = ir::run(*graph, same), got = ir::run(*functional.graph, inputs);
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(numbers(got[0].tensor()), numbers(y)) << functional.graph->str();
    EXPECT_EQ(numbers(got[1].tensor()), numbers(expected[0].tensor())) << functional.graph->str();
  }
}

TEST(Functional, a_carried_value_that_stays_the_same_memory) {
  auto graph = ir::parse(R"(graph(%x : Float(2, 3), %n : int):
  %s : Float(2, 3) = prim::Loop(%n, True, %x)
    block0(%i : int, %a : Float(2, 3)):
      %m : Float(2, 3) = aten::add_.Tensor(%a, 1, alpha=1)
      -> (True, %m)
  %y : Float(2, 3) = aten::mul.Tensor(%s, %x)
  return (%y)
)");
  capture::Retraced functional = capture::retrace(*graph);
  ir::verify(*functional.graph);
  EXPECT_FALSE(mutates(functional.graph->top())) << functional.graph->str();
  for (int64_t n : {0, 1, 4}) {
    Tensor x = range({2, 3}), y = x.clone();
    Value inputs[] = {x, n}, same[] = {y, n};
    std::vector<Value> expected = ir::run(*graph, same), got = ir::run(*functional.graph, inputs);
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(numbers(got[0].tensor()), numbers(y)) << functional.graph->str();
    EXPECT_EQ(numbers(got[1].tensor()), numbers(expected[0].tensor())) << functional.graph->str();
  }
}

TEST(Functional, a_loop_that_leaves_the_memory_it_writes_is_refused) {
  auto graph = ir::parse(R"(graph(%x : Float(3), %n : int):
  %s : Float(3) = prim::Loop(%n, True, %x)
    block0(%i : int, %a : Float(3)):
      %m : Float(3) = aten::add_.Tensor(%x, 1, alpha=1)
      %d : Float(3) = aten::add.Tensor(%a, %m, alpha=1)
      -> (True, %d)
  return (%s)
)");
  try {
    capture::retrace(*graph);
    FAIL() << "the first round of the loop would have been wrong";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("clone() it before the loop"), std::string::npos) << e.what();
  }
}

// Retracing twice keeps names, places and module scopes.
TEST(Retrace, names_places_and_scopes_survive_two_rounds) {
  auto graph = record(
      [](auto& in) -> std::vector<Tensor> {
        EnterScope scope("encoder.fc1", "my.Linear", nullptr);
        Tensor hidden = relu(in[0]);
        return {hidden * 2 + in[0]};
      },
      {range({2, 3})});
  std::string once, twice;
  capture::Retraced first = capture::retrace(*graph), second = capture::retrace(*first.graph);
  once = first.graph->str();
  twice = second.graph->str();
  EXPECT_EQ(graph->str(), once);
  EXPECT_EQ(once, twice);
  const ir::Node& relu_node = *second.graph->top().first();
  ASSERT_NE(relu_node.origin(), nullptr);
  EXPECT_NE(relu_node.origin()->place().find("functional_test.cpp:"), std::string::npos);
  ASSERT_NE(relu_node.scope(), nullptr);
  EXPECT_EQ(relu_node.scope()->path.str(), "encoder.fc1");
}

TEST(Functional, a_write_to_a_stranger_is_refused) {
  Tensor stranger = ones({3});
  auto graph = record(
      [&](auto& in) -> std::vector<Tensor> {
        stranger.add_(in[0]);
        return {stranger};
      },
      {range({3})});
  EXPECT_EQ(numbers(stranger), (std::vector<double>{1, 1, 1})) << "capture must not run anything";
  try {
    capture::retrace(*graph);
    FAIL() << "the change of the constant was lost";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("make it a buffer or an input"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tern
