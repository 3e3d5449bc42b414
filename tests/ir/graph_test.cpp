#include "tern/ir/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/dispatch/op.h"
#include "tern/ir/rewrite.h"
#include "tern/ir/text.h"
#include "tern/ir/verify.h"
#include "tern/sym/shape_env.h"
#include "tests/support/errors.h"

namespace tern::ir {
namespace {

using ::testing::HasSubstr;

using tern::testing::error_of;

TEST(IrGraph, names_follow_fx) {
  Graph g;
  Value& x = g.add_input(Type::tensor(), "x");
  EXPECT_EQ(g.call("aten::add.Tensor", {{x, 1}}).output().name(), "add");
  EXPECT_EQ(g.call("aten::add.Tensor", {{x, 1}}).output().name(), "add_1");
  EXPECT_EQ(g.call("aten::add.Tensor", {{x, 1}}, nullptr, "add_7").output().name(), "add_7");
  EXPECT_EQ(g.call("aten::add.Tensor", {{x, 1}}).output().name(), "add_8");
  EXPECT_EQ(g.call("aten::abs", {{x}}).output().name(), "abs_1");  // a Python builtin
  EXPECT_EQ(g.add_input(Type::tensor(), "x").name(), "x_1");
  EXPECT_EQ(g.find("add_7"), &g.find("add_7")->node()->output());
  EXPECT_EQ(g.find("nothing"), nullptr);
  verify(g);
}

TEST(IrGraph, names_are_exact_when_asked) {
  Graph g;
  Value& x = g.add_input(Type::tensor(), "x");
  Value& y = g.add_input(Type::tensor(), "y");
  EXPECT_THAT(error_of([&] { g.set_name(y, "x"); }), HasSubstr("%x is already taken"));
  g.set_name(x, "z");
  g.set_name(y, "x");
  EXPECT_EQ(g.find("x"), &y);
  for (const char* text : {"3", "add_0", "a_01", "x.1", "_3", "add__1", "a_1_2", "99999999999"})
    EXPECT_EQ(Name::parse(text).str(), text);
}

TEST(IrGraph, uses_are_counted_and_replaced) {
  Graph g;
  Value& x = g.add_input(Type::tensor(), "x");
  Value& y = g.add_input(Type::tensor(), "y");
  Node& a = g.call("aten::add.Tensor", {{x, x}});
  Node& b = g.make("prim::ListConstruct", {{In::list({x, 1}), x}}, {{Type::list(Type::tensor())}});
  EXPECT_EQ(x.num_uses(), 4u);
  x.replace_all_uses_with(y);
  EXPECT_EQ(x.num_uses(), 0u);
  EXPECT_EQ(y.num_uses(), 4u);
  g.replace_all_uses(y, In(2));
  EXPECT_EQ(y.num_uses(), 0u);
  EXPECT_TRUE(b.input(0).is_constant()) << "a list of constants is a constant";
  EXPECT_EQ(print(a), "%add : Tensor = aten::add.Tensor(2, 2, alpha=1)");
  verify(g);
}

TEST(IrGraph, inputs_grow_and_shrink) {
  Graph g;
  Value& x = g.add_input(Type::tensor(), "x");
  Node& n = g.make("prim::ListConstruct", {{x, 1, 2}}, {{Type::list(Type::any())}});
  for (int i = 0; i < 20; ++i) n.insert_input(1, In(i));
  n.remove_input(0);
  EXPECT_EQ(n.inputs().size(), 22u);
  EXPECT_EQ(n.input(0).constant().to_int(), 19);
  EXPECT_EQ(n.input(21).constant().to_int(), 2);
  EXPECT_EQ(x.num_uses(), 0u);
  verify(g);
}

TEST(IrGraph, erasing_a_used_node_is_refused) {
  Graph g;
  Value& x = g.add_input(Type::tensor(), "x");
  Node& a = g.call("aten::add.Tensor", {{x, 1}});
  g.add_output(a.output());
  EXPECT_THAT(error_of([&] { g.erase(a); }), HasSubstr("%add is still used"));
  g.top().return_node().remove_all_inputs();
  g.erase(a);
  EXPECT_EQ(g.num_nodes(), 0u);
  EXPECT_EQ(x.num_uses(), 0u);
}

TEST(IrGraph, order_holds_after_moves) {
  Graph g;
  Value& x = g.add_input(Type::tensor(), "x");
  std::vector<Node*> nodes;
  for (int i = 0; i < 100; ++i) {
    if (!nodes.empty()) g.insert_at(*nodes.back());
    nodes.push_back(&g.call("aten::add.Tensor", {{x, i}}));
  }
  for (int i = 1; i < 100; ++i) EXPECT_TRUE(nodes[i]->is_before(*nodes[i - 1]));
  nodes[5]->move_after(*nodes[0]);
  EXPECT_TRUE(nodes[0]->is_before(*nodes[5]));
  verify(g);
}

TEST(IrGraph, missing_arguments_are_named) {
  Graph g;
  Value& x = g.add_input(Type::tensor(), "x");
  EXPECT_THAT(error_of([&] { g.call("aten::add.Tensor", {{x}}); }),
              HasSubstr("missing value for argument 'other'"));
  EXPECT_THAT(error_of([&] {
                g.call("aten::add.Tensor", {{x, x, 1, 2}});
              }),
              HasSubstr("takes 3 arguments but 4"));
}

TEST(IrGraph, clone_is_equal_and_apart) {
  auto g = parse(
      "graph(%x : Tensor, %c : bool):\n"
      "  %r : Tensor = prim::If(%c)\n"
      "    block0():\n"
      "      %a : Tensor = aten::add.Tensor(%x, 2, alpha=1) # f.py:1:2\n"
      "      -> (%a)\n"
      "    block1():\n"
      "      -> (%x)\n"
      "  return (%r)\n");
  auto copy = g->clone();
  std::string text = print(*g);
  g.reset();
  EXPECT_EQ(print(*copy), text);
  verify(*copy);
}

TEST(IrType, interned_and_parsed) {
  ShapeEnv env;
  for (const char* text : {"Tensor",
                           "Float(2, 3)",
                           "Float()",
                           "FloatTensor",
                           "Float(2, *)",
                           "Tensor(2, 3)",
                           "Double(2, strides=[1], requires_grad=1, device=cuda:1)",
                           "int",
                           "float",
                           "bool",
                           "complex",
                           "str",
                           "NoneType",
                           "Device",
                           "Generator",
                           "Scalar",
                           "Any",
                           "Function",
                           "int[]",
                           "int[][]",
                           "Tensor?",
                           "Tensor?[]",
                           "int[]?",
                           "(Tensor, int)",
                           "()",
                           "Dict(str, Tensor[])",
                           "Future[Tensor]",
                           "Union[int, str]",
                           "__torch__.Net",
                           "Enum<a.Color>",
                           "Interface<a.I>",
                           "NamedTuple<a.P>(x : Tensor, y : int?)",
                           "Float(s0, 2*s0 + 1)",
                           "BFloat16(1)",
                           "Tensor(requires_grad=0, device=cpu)"}) {
    const Type* t = parse_type(text, &env);
    EXPECT_EQ(t->str(), text);
    EXPECT_EQ(parse_type(text, &env), t) << text;
  }
}

TEST(IrType, annotations) {
  for (const char* text : {"List[int]", "Optional[Tensor]", "Dict[str, List[Tensor]]", "Tuple[int, Tensor]",
                           "Tuple[()]", "number"})
    EXPECT_EQ(parse_type(text)->str(TypeStyle::annotation), text);
  EXPECT_EQ(parse_type("List[Optional[int]]")->str(), "int?[]");
  EXPECT_EQ(parse_type("Optional[Optional[int]]"), parse_type("int?"));
}

TEST(IrType, bad_text_is_refused) {
  EXPECT_THAT(error_of([] { parse_type("List[int"); }),
              HasSubstr("expected ']' (line 1, column 9 of the type)"));
  EXPECT_THAT(error_of([] { parse_type("Float(s0)"); }), HasSubstr("no ShapeEnv was given"));
  EXPECT_THAT(error_of([] { parse_type("Float(2, strides=[1, 2])"); }),
              HasSubstr("as many strides as sizes"));
  EXPECT_THAT(error_of([] { parse_type("int int"); }), HasSubstr("unexpected text after the type"));
  EXPECT_THAT(error_of([] { parse_type(std::string(5000, '(')); }), HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of([] { parse_type("Float(99999999999999999999)"); }), HasSubstr("too large"));
}

TEST(IrType, what_fits_where) {
  EXPECT_TRUE(parse_type("int")->fits(*Type::number()));
  EXPECT_TRUE(Type::none()->fits(*parse_type("Tensor?")));
  EXPECT_FALSE(parse_type("Float(2)")->fits(*parse_type("Float(3)")));
  EXPECT_TRUE(parse_type("Float(2)")->fits(*Type::tensor()));
  EXPECT_FALSE(parse_type("int[]")->fits(*parse_type("float[]")));
}

TEST(GraphText, tasks_behind_the_graph_become_blocks) {
  const char* text = R"(graph(%x.1 : Tensor,
      %i.1 : int):
  %f.1 : Future(Tensor) = prim::fork_0(%x.1, %i.1)
  %4 : Tensor = aten::wait(%f.1)
  return (%4)
with prim::fork_0 = graph(%x.1 : Tensor,
      %i.1 : int):
  %1 : int = prim::Constant[value=1]()
  %4 : Tensor = aten::add(%x.1, %i.1, %1)
  return (%4)
)";
  std::unique_ptr<Graph> g = parse(text);
  const Node& fork = *g->top().begin();
  ASSERT_TRUE(fork.is("prim::fork")) << g->str();
  ASSERT_EQ(fork.blocks().size(), 1u);
  EXPECT_TRUE(fork.inputs().empty());
  // It is printed as it was read, but for the numbers.
  std::string again = torch_text(*g);
  EXPECT_NE(again.find("with prim::fork_0 = graph(%x.1 : Tensor,\n      %i.1 : int):"), std::string::npos)
      << again;
  EXPECT_NE(again.find("prim::fork_0(%x.1, %i.1)"), std::string::npos) << again;
  EXPECT_EQ(torch_text(*parse(again)), again);
}

TEST(GraphText, a_task_that_nobody_starts_is_an_error) {
  try {
    parse("graph(%x : Tensor):\n  return (%x)\nwith prim::fork_0 = graph(%x : Tensor):\n  return (%x)\n");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("no node of the graph runs prim::fork_0"), std::string::npos) << e.message();
  }
}

TEST(GraphText, interfaces_are_read_as_pytorch_prints_them) {
  const char* text = R"(graph(%self.1 : Net,
      %x.1 : Tensor):
  %p.1 : InterfaceType<I> = prim::GetAttr[name="p"](%self.1)
  %4 : Tensor = prim::CallMethod[name="forward"](%p.1, %x.1)
  return (%4)
)";
  EXPECT_EQ(torch_text(*parse(text)), text);
}

TEST(IrRewrite, a_rule_may_leave_overloads_to_the_types) {
  Rule rule{"twice", R"(graph(%x : Tensor, %y : Tensor):
  %a : Tensor = aten::add(%x, %y, alpha=1)
  %b : Tensor = aten::relu(%a)
  return (%b)
)",
            R"(graph(%x : Tensor, %y : Tensor):
  %b : Tensor = aten::mul(%x, %y)
  return (%b)
)"};
  Owned<Graph> g = parse(R"(graph(%p : Tensor, %q : Tensor):
  %a : Tensor = aten::add.Tensor(%p, %q, alpha=1)
  %b : Tensor = aten::relu(%a)
  %c : Tensor = aten::neg(%b)
  return (%c)
)");
  EXPECT_EQ(RuleSet({&rule, 1}).apply(*g), 1u);
  verify(*g);
  EXPECT_THAT(print(*g), HasSubstr("%b : Tensor = aten::mul.Tensor(%p, %q)"));
  EXPECT_THAT(print(*g), ::testing::Not(HasSubstr("relu")));
}

}  // namespace
}  // namespace tern::ir
