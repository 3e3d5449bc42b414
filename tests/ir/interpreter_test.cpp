#include "tern/ir/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/ir/builtins.h"
#include "tern/ir/text.h"

namespace tern::ir {
namespace {

using ::testing::HasSubstr;

std::vector<tern::Value> run_text(std::string_view text, std::vector<tern::Value> inputs,
                                  RunOptions options = {}) {
  auto graph = parse(text);
  return run(*graph, inputs, options);
}
std::string message_of_run(std::string_view text, std::vector<tern::Value> inputs) {
  try {
    run_text(text, std::move(inputs));
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

TEST(IrInterpreter, runs_operators_through_the_ladder) {
  auto out = run_text(
      "graph(%x : Tensor, %y : Tensor):\n"
      "  %a : Tensor = aten::add.Tensor(%x, %y, alpha=2)\n"
      "  %b : Tensor = aten::mul.Tensor(%a, 10)\n"
      "  return (%b, %x)\n",
      {tensor({1.f, 2.f}), tensor({3.f, 4.f})});
  EXPECT_EQ(out[0].tensor().data_ptr<float>()[0], 70);
  EXPECT_EQ(out[0].tensor().data_ptr<float>()[1], 100);
  EXPECT_EQ(out[1].tensor().data_ptr<float>()[1], 2);
}

TEST(IrInterpreter, a_number_stands_for_a_tensor) {
  auto out =
      run_text("graph(%x : Tensor, %k : float):\n  %a : Tensor = aten::mul.Tensor(%x, %k)\n  return (%a)\n",
               {tensor({1.f, 2.f}), 1.5});
  EXPECT_EQ(out[0].tensor().data_ptr<float>()[1], 3);
  EXPECT_EQ(out[0].tensor().dtype(), kFloat);
}

TEST(IrInterpreter, branches_and_loops) {
  std::string_view text =
      "graph(%n : int, %limit : int):\n"
      "  %sum : int = prim::Loop(%n, True, 0)\n"
      "    block0(%i : int, %s : int):\n"
      "      %odd : int = aten::remainder(%i, 2)\n"
      "      %is : bool = aten::eq(%odd, 1)\n"
      "      %t : int = prim::If(%is)\n"
      "        block0():\n"
      "          %u : int = aten::add(%s, %i)\n"
      "          -> (%u)\n"
      "        block1():\n"
      "          -> (%s)\n"
      "      %more : bool = aten::lt(%t, %limit)\n"
      "      -> (%more, %t)\n"
      "  return (%sum)\n";
  EXPECT_EQ(run_text(text, {10, 1000})[0].to_int(), 1 + 3 + 5 + 7 + 9);
  EXPECT_EQ(run_text(text, {10, 4})[0].to_int(), 1 + 3);
  EXPECT_EQ(run_text(text, {0, 4})[0].to_int(), 0);
}

TEST(IrInterpreter, lists_are_shared_but_constants_are_not) {
  std::string_view text =
      "graph(%k : int):\n"
      "  %l : int[] = prim::Constant[value=[1, 2]]()\n"
      "  %a : int[] = aten::append(%l, %k)\n"
      "  %n : int = aten::len(%l)\n"
      "  %last : int = aten::__getitem__(%l, -1)\n"
      "  return (%n, %last)\n";
  auto graph = parse(text);
  Program program(*graph);
  for (int i = 0; i < 3; ++i) {
    auto out = program.run({{tern::Value(7)}});
    EXPECT_EQ(out[0].to_int(), 3);
    EXPECT_EQ(out[1].to_int(), 7);
  }
}

TEST(IrInterpreter, builtins_by_table) {
  struct Case {
    const char* expression;
    const char* expected;
  };
  const Case cases[] = {
      {"aten::floordiv(-7, 2)", "-4"},
      {"aten::remainder(-7, 2)", "1"},
      {"aten::div(7, 2)", "3.5"},
      {"aten::pow(2, 10)", "1024.0"},
      {"_operator::pow(2, 10)", "1024"},
      {"aten::add(\"a\", \"b\")", "'ab'"},
      {"aten::mul([1, 2], 2)", "[1, 2, 1, 2]"},
      {"aten::__not__(True)", "False"},
      {"aten::lt(1, 2.5)", "True"},
      {"aten::eq([1, 2], [1, 2])", "True"},
      {"aten::__is__(None, None)", "True"},
      {"aten::__range_length(0, 10, 3)", "4"},
      {"aten::__derive_index(2, 1, 3)", "7"},
      {"aten::slice([1, 2, 3, 4], 1, None, 2)", "[2, 4]"},
      {"aten::slice([1, 2, 3, 4], None, None, -1)", "[4, 3, 2, 1]"},
      {"aten::sorted([3, 1, 2])", "[1, 2, 3]"},
      {"aten::format(\"{} and {}\", 1, \"x\")", "'1 and x'"},
      {"aten::split(\"a,b,c\", \",\", 1)", "['a', 'b,c']"},
      {"aten::join(\"-\", [\"a\", \"b\"])", "'a-b'"},
      {"prim::max(1, 2)", "2"},
      {"prim::min([3, 1])", "1"},
      {"aten::Int(2.9)", "2"},
      {"aten::Float(\"1.5\")", "1.5"},
      {"aten::ceil(1.2)", "2"},
      {"aten::keys({\"a\": 1})", "['a']"},
      {"aten::get({\"a\": 1}, \"b\", 5)", "5"},
      {"aten::__contains__([1, 2], 2)", "True"},
      {"aten::str(1.5)", "'1.5'"},
  };
  for (const Case& c : cases) {
    std::string text = std::string("graph():\n  %r : Any = ") + c.expression + "\n  return (%r)\n";
    EXPECT_EQ(run_text(text, {})[0].str(), c.expected) << c.expression;
  }
}

TEST(IrInterpreter, facts_of_tensors) {
  auto out = run_text(
      "graph(%x : Tensor):\n"
      "  %s : int[] = aten::size(%x)\n"
      "  %d : int = aten::dim(%x)\n"
      "  %t : int = prim::dtype(%x)\n"
      "  %v : Device = prim::device(%x)\n"
      "  return (%s, %d, %t, %v)\n",
      {make_tensor({2, 3}, kDouble)});
  EXPECT_EQ(out[0].str(), "[2, 3]");
  EXPECT_EQ(out[1].to_int(), 2);
  EXPECT_EQ(out[2].to_int(), static_cast<int64_t>(kDouble));
  EXPECT_EQ(out[3].device(), kCPU);
}

TEST(IrInterpreter, errors_name_node_and_line) {
  std::string message = message_of_run(
      "graph(%x : Tensor, %y : Tensor):\n"
      "  %a : Tensor = aten::add.Tensor(%x, %y) # net.py:12:4\n"
      "  return (%a)\n",
      {make_tensor({2}, kFloat), make_tensor({3}, kFloat)});
  EXPECT_THAT(message,
              HasSubstr("aten::add.Tensor (%a at net.py:12:4): The size of tensor a (2) must match"));
  EXPECT_THAT(
      message_of_run("graph(%m : str):\n   = prim::RaiseException(%m)\n  return ()\n", {"wrong shape"}),
      HasSubstr("wrong shape"));
  EXPECT_THAT(message_of_run("graph():\n  %r : int = aten::floordiv(1, 0)\n  return (%r)\n", {}),
              HasSubstr("aten::floordiv (%r)"));
  EXPECT_THAT(message_of_run("graph():\n  %r : int = aten::__getitem__([1], 1)\n  return (%r)\n", {}),
              HasSubstr("list index out of range"));
  EXPECT_THAT(message_of_run("graph(%x : Tensor):\n  return (%x)\n", {}),
              HasSubstr("takes 1 inputs (x) but 0 were given"));
  EXPECT_THAT(message_of_run("graph(%x : Tensor):\n  %y : Tensor = my::unknown(%x)\n  return (%y)\n",
                             {tensor({1.f})}),
              HasSubstr("the interpreter has no my::unknown (%y)"));
  EXPECT_THAT(
      message_of_run("graph(%x : Any):\n  %y : Tensor = prim::GetAttr[name=\"w\"](%x)\n  return (%y)\n",
                     {tensor({1.f})}),
      HasSubstr("reading the attribute 'w' needs the module"));
}

TEST(IrInterpreter, higher_order) {
  std::string_view text =
      "graph(%c : bool, %x : Tensor):\n"
      "  %r : Tensor = higher_order::cond(%c, %x)\n"
      "    block0(%a : Tensor):\n"
      "      %b : Tensor = aten::mul.Tensor(%a, 2)\n"
      "      -> (%b)\n"
      "    block1(%d : Tensor):\n"
      "      -> (%d)\n"
      "  %w : Tensor, %k : int = higher_order::while_loop(%r, 0)\n"
      "    block0(%e : Tensor, %f : int):\n"
      "      %g : bool = aten::lt(%f, 3)\n"
      "      -> (%g)\n"
      "    block1(%h : Tensor, %i : int):\n"
      "      %j : Tensor = aten::add.Tensor(%h, 1)\n"
      "      %m : int = aten::add(%i, 1)\n"
      "      -> (%j, %m)\n"
      "  return (%w)\n";
  EXPECT_EQ(run_text(text, {true, tensor({5.f})})[0].tensor().data_ptr<float>()[0], 13);
  EXPECT_EQ(run_text(text, {false, tensor({5.f})})[0].tensor().data_ptr<float>()[0], 8);
}

TEST(IrInterpreter, observers_see_each_node) {
  struct Notes : Observer {
    std::string seen;
    void before(const Node& n) override { seen += n.name() + "<"; }
    void after(const Node&, Span<const tern::Value> results) override {
      seen += std::to_string(results.size()) + ">";
    }
  } notes;
  run_text(
      "graph(%x : Tensor):\n  %a : Tensor = aten::neg(%x)\n  %b : Tensor = aten::neg(%a)\n  return (%b)\n",
      {tensor({1.f})}, {.observer = &notes});
  EXPECT_EQ(notes.seen, "a<1>b<1>");
}

TEST(IrInterpreter, values_are_freed_after_their_last_use) {
  struct Counter : Observer {
    Tensor watched;
    std::vector<uint32_t> refs;
    void before(const Node&) override { refs.push_back(watched.defined() ? watched->refs.load() : 0); }
    void after(const Node& n, Span<const tern::Value> r) override {
      if (n.name() == "a") watched = r[0].tensor();
    }
  } counter;
  run_text(
      "graph(%x : Tensor):\n"
      "  %a : Tensor = aten::neg(%x)\n"
      "  %b : Tensor = aten::neg(%a)\n"
      "  %c : Tensor = aten::neg(%b)\n"
      "  return (%c)\n",
      {tensor({1.f})}, {.observer = &counter});
  EXPECT_EQ(counter.refs, (std::vector<uint32_t>{0, 2, 1}));
}

TEST(IrInterpreter, steps_can_be_limited) {
  auto graph = parse(
      "graph():\n  %r : int = prim::Loop(None, True, 0)\n    block0(%i : int, %s : int):\n"
      "      %t : int = aten::add(%s, 1)\n      -> (True, %t)\n  return (%r)\n");
  EXPECT_THROW(run(*graph, {}, {.max_steps = 1000}), Error);
}

}  // namespace
}  // namespace tern::ir
