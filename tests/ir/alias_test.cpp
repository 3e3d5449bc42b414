// What may share memory, who writes to it, and what passes may therefore not do.
#include "tern/ir/alias.h"

#include <gtest/gtest.h>

#include "tern/ir/pass.h"
#include "tern/ir/text.h"
#include "tern/ir/verify.h"

namespace tern::ir {
namespace {

struct Analysed {
  std::unique_ptr<Graph> graph;
  AliasAnalysis aliases;
  explicit Analysed(std::string_view text) : graph(parse(text)), aliases(*graph) {}
  const Value& operator[](std::string_view name) const { return *graph->find(name); }
  bool alias(std::string_view a, std::string_view b) const {
    bool one = aliases.may_alias((*this)[a], (*this)[b]);
    EXPECT_EQ(one, aliases.may_alias((*this)[b], (*this)[a])) << a << ", " << b;
    return one;
  }
  bool holds(std::string_view a, std::string_view b) const {
    return aliases.may_contain_alias((*this)[a], (*this)[b]);
  }
  bool written(std::string_view v) const { return aliases.has_writers((*this)[v]); }
};

TEST(AliasAnalysis, views_are_what_they_view) {
  Analysed g(R"(graph(%x : Tensor, %y : Tensor, %n : int):
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::neg(%x)
  %v : Tensor = aten::view(%a, [2, 3])
  %w : Tensor = aten::select.int(%v, 0, 1)
  %c : Tensor = aten::relu_(%w)
  return (%a, %b, %n)
)");
  EXPECT_TRUE(g.alias("x", "y")) << "inputs may be the same tensor";
  EXPECT_FALSE(g.alias("a", "x"));
  EXPECT_FALSE(g.alias("a", "b"));
  EXPECT_TRUE(g.alias("a", "v"));
  EXPECT_TRUE(g.alias("a", "w"));
  EXPECT_TRUE(g.alias("a", "c")) << "an in-place operator gives what it was given";
  EXPECT_TRUE(g.written("a"));
  EXPECT_TRUE(g.written("v"));
  EXPECT_FALSE(g.written("b"));
  EXPECT_FALSE(g.written("x"));
  EXPECT_FALSE(AliasAnalysis::is_mutable(*g["n"].type()));
  EXPECT_TRUE(g.aliases.escapes(g["x"]));
  EXPECT_TRUE(g.aliases.escapes(g["v"])) << "%a is returned";
}

TEST(AliasAnalysis, inputs_of_different_types_are_different_memory) {
  Analysed g(R"(graph(%x : Tensor, %l : Tensor[], %m : int[], %t : Tensor?):
  %e : Tensor[] = aten::append(%l, %x)
  %f : int[] = aten::append(%m, 1)
  return (%x)
)");
  EXPECT_FALSE(g.alias("x", "l"));
  EXPECT_FALSE(g.alias("l", "m"));
  EXPECT_TRUE(g.alias("x", "t"));
  EXPECT_TRUE(g.holds("l", "x"));
  EXPECT_TRUE(g.written("l"));
  EXPECT_FALSE(g.written("x")) << "the list is changed, not the tensor";
}

TEST(AliasAnalysis, lists_hold_what_was_put_in) {
  Analysed g(R"(graph(%x : Tensor, %i : int):
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::neg(%x)
  %c : Tensor = aten::neg(%x)
  %l : Tensor[] = prim::ListConstruct(%a)
  %m : Tensor[] = prim::ListConstruct(%c)
  %e : Tensor[] = aten::append(%l, %b)
  %g : Tensor = aten::__getitem__(%l, %i)
  %h : Tensor = aten::add_.Tensor(%g, 1)
  return (%l, %m)
)");
  EXPECT_TRUE(g.alias("g", "a"));
  EXPECT_TRUE(g.alias("g", "b"));
  EXPECT_FALSE(g.alias("g", "c"));
  EXPECT_FALSE(g.alias("l", "m"));
  EXPECT_TRUE(g.holds("l", "b"));
  EXPECT_FALSE(g.holds("m", "b"));
  EXPECT_TRUE(g.written("a")) << "through the list";
  EXPECT_TRUE(g.written("l"));
  EXPECT_FALSE(g.written("m"));
  EXPECT_FALSE(g.written("c"));
}

TEST(AliasAnalysis, nested_containers_and_dictionaries) {
  Analysed g(R"(graph(%x : Tensor, %k : str):
  %a : Tensor = aten::neg(%x)
  %l : Tensor[] = prim::ListConstruct(%a)
  %ll : Tensor[][] = prim::ListConstruct(%l)
  %d : Dict(str, Tensor[][]) = prim::DictConstruct(%k, %ll)
  %out : Tensor[][] = aten::__getitem__(%d, %k)
  %in : Tensor[] = aten::__getitem__(%out, 0)
  %t : Tensor = aten::__getitem__(%in, 0)
  %z : Tensor = aten::zero_(%t)
  return (%x)
)");
  EXPECT_TRUE(g.alias("out", "ll"));
  EXPECT_TRUE(g.alias("in", "l"));
  EXPECT_TRUE(g.alias("t", "a"));
  EXPECT_TRUE(g.written("d"));
  EXPECT_FALSE(g.written("x"));
}

TEST(AliasAnalysis, tuples_are_told_apart_by_place) {
  Analysed g(R"(graph(%x : Tensor):
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::neg(%x)
  %t : (Tensor, Tensor) = prim::TupleConstruct(%a, %b)
  %p : Tensor, %q : Tensor = prim::TupleUnpack(%t)
  %r : Tensor = aten::relu_(%p)
  return (%q)
)");
  EXPECT_TRUE(g.alias("p", "a"));
  EXPECT_FALSE(g.alias("p", "b"));
  EXPECT_TRUE(g.written("a"));
  EXPECT_FALSE(g.written("q"));
}

TEST(AliasAnalysis, branches_and_loops) {
  Analysed g(R"(graph(%x : Tensor, %c : bool, %n : int):
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::neg(%x)
  %s : Tensor = aten::neg(%x)
  %r : Tensor = prim::If(%c)
    block0():
      -> (%a)
    block1():
      -> (%b)
  %l : Tensor = prim::Loop(%n, True, %s)
    block0(%i : int, %p : Tensor):
      %v : Tensor = aten::select.int(%p, 0, 0)
      %w : Tensor = aten::unsqueeze(%v, 0)
      -> (True, %w)
  %z : Tensor = aten::zero_(%l)
  return (%r)
)");
  EXPECT_TRUE(g.alias("r", "a"));
  EXPECT_TRUE(g.alias("r", "b"));
  EXPECT_FALSE(g.alias("a", "b"));
  EXPECT_TRUE(g.alias("l", "s")) << "the loop may run zero times";
  EXPECT_TRUE(g.alias("p", "w")) << "what one round gives, the next one takes";
  EXPECT_TRUE(g.alias("l", "v"));
  EXPECT_FALSE(g.alias("l", "r"));
  EXPECT_TRUE(g.written("s"));
  EXPECT_FALSE(g.written("r"));
}

TEST(AliasAnalysis, objects_and_calls) {
  Analysed g(R"(graph(%self : __torch__.M, %x : Tensor):
  %w : Tensor = prim::GetAttr[name="weight"](%self)
  %u : Tensor = prim::GetAttr[name="other"](%self)
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::neg(%x)
  %c : Tensor = aten::neg(%x)
   = prim::SetAttr[name="state"](%self, %a)
  %s : Tensor = prim::GetAttr[name="state"](%self)
  %r : Tensor = prim::CallMethod[name="f"](%self, %b)
  return (%c)
)");
  EXPECT_TRUE(g.alias("w", "u"));
  EXPECT_TRUE(g.alias("w", "x")) << "an argument may be an attribute";
  EXPECT_TRUE(g.alias("s", "a"));
  EXPECT_TRUE(g.alias("r", "b")) << "a call may give back what it got";
  EXPECT_TRUE(g.written("b")) << "or change it";
  EXPECT_TRUE(g.written("self"));
  EXPECT_FALSE(g.written("c"));
  EXPECT_TRUE(g.aliases.escapes(g["a"]));
}

TEST(AliasAnalysis, attributes_that_no_input_is_like) {
  Analysed g(R"(graph(%self : __torch__.M):
  %l : float[] = prim::GetAttr[name="items"](%self)
  %e : float[] = aten::append(%l, 1.0)
  %m : float[] = prim::GetAttr[name="items"](%self)
  %n : int = aten::len(%m)
  return (%n)
)");
  EXPECT_TRUE(g.alias("l", "m"));
  EXPECT_TRUE(g.written("m"));
  EXPECT_FALSE(dce(*g.graph)) << "the list outlives the graph";
}

TEST(AliasAnalysis, a_call_gives_what_an_earlier_one_kept) {
  Analysed g(R"(graph(%self : __torch__.M, %x : Tensor):
  %b : Tensor = aten::neg(%x)
  %r : NoneType = prim::CallMethod[name="keep"](%self, %b)
  %s : Tensor = prim::CallMethod[name="kept"](%self)
  %t : Tensor = aten::relu_(%s)
  return (%x)
)");
  EXPECT_TRUE(g.alias("s", "b"));
}

TEST(AliasAnalysis, lists_of_tensors_that_operators_take_and_give) {
  Analysed g(R"(graph(%x : Tensor, %y : Tensor):
  %a : Tensor = aten::neg(%x)
  %l : Tensor[] = aten::split.Tensor(%a, 2, 0)
  %p : Tensor, %q : Tensor = prim::ListUnpack(%l)
  %c : Tensor = aten::cat([%p, %q], 0)
  %d : Tensor = aten::cat(%l, 0)
  %z : Tensor = aten::zero_(%p)
  %o : Tensor = aten::add.out(%x, %y, alpha=1, out=%c)
  return (%d)
)");
  EXPECT_TRUE(g.alias("p", "a"));
  EXPECT_FALSE(g.alias("c", "a"));
  EXPECT_TRUE(g.written("a"));
  EXPECT_TRUE(g.written("l"));
  EXPECT_TRUE(g.written("c")) << "out=";
  EXPECT_TRUE(g.alias("o", "c"));
  EXPECT_FALSE(g.written("d"));
  EXPECT_FALSE(g.written("x"));
}

TEST(AliasAnalysis, constants_share_memory_by_their_storage) {
  auto graph = std::make_unique<Graph>();
  Tensor t = tern::make_tensor(Dims{2, 3}, kFloat);
  In base[] = {In(tern::Value(t))};
  Value& a = graph->call("aten::t", base, Type::tensor()).output();
  Value& b = graph->call("aten::neg", base, Type::tensor()).output();
  In view[] = {In(a)};
  graph->call("aten::relu_", view, Type::tensor());
  graph->add_output(In(b));
  AliasAnalysis aliases(*graph);
  EXPECT_TRUE(aliases.has_writers(a));
  EXPECT_TRUE(aliases.has_writers(b.node()->input(0))) << "the constant itself";
  EXPECT_FALSE(aliases.has_writers(b));
  EXPECT_TRUE(aliases.escapes(a)) << "a constant is there for the next run";
}

TEST(AliasAnalysis, what_may_be_moved) {
  Analysed g(R"(graph(%x : Tensor):
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::abs(%a)
  %w : Tensor = aten::relu_(%a)
  %c : Tensor = aten::abs(%a)
  %d : Tensor = aten::abs(%x)
   = prim::Print(%d)
   = prim::Print(%c)
  return (%b, %c)
)");
  auto node = [&](std::string_view name) -> const Node& { return *g[name].node(); };
  EXPECT_TRUE(g.aliases.can_move_before(node("d"), node("a"))) << "it reads only %x";
  EXPECT_FALSE(g.aliases.can_move_before(node("b"), node("a"))) << "it needs %a";
  EXPECT_FALSE(g.aliases.can_move_before(node("c"), node("w"))) << "%w changes what it reads";
  EXPECT_FALSE(g.aliases.can_move_before(node("w"), node("b"))) << "it would change what %b reads";
  EXPECT_TRUE(g.aliases.can_move_after(node("b"), node("a")));
  EXPECT_FALSE(g.aliases.can_move_after(node("b"), node("d")));
  EXPECT_TRUE(g.aliases.can_move_after(node("w"), node("w")));
  const Node& first = *node("d").next();
  EXPECT_FALSE(g.aliases.can_move_after(first, *first.next())) << "prints stay in order";
  EXPECT_TRUE(g.aliases.can_move_after(node("c"), node("d")));
}

TEST(AliasAnalysis, tasks_and_what_they_give) {
  Analysed g(R"(graph(%x : Tensor):
  %a : Tensor = aten::neg(%x)
  %f : Future(Tensor) = prim::fork()
    block0():
      %v : Tensor = aten::view(%a, [-1])
      -> (%v)
  %r : Tensor = aten::wait(%f)
  %z : Tensor = aten::zero_(%r)
  return (%x)
)");
  EXPECT_TRUE(g.alias("r", "a"));
  EXPECT_TRUE(g.written("a"));
}

// Many branches on many values: sets stay bounded and nothing is quadratic.
TEST(AliasAnalysis, long_chains_stay_linear) {
  Graph graph;
  Value& x = graph.add_input(Type::tensor(), "x");
  Value& c = graph.add_input(Type::boolean(), "c");
  Value* last = &x;
  for (int i = 0; i < 20000; ++i) {
    In of_x[] = {In(x)};
    Value& fresh = graph.call("aten::neg", of_x, Type::tensor()).output();
    In condition[] = {In(c)};
    Node& branch = graph.make("prim::If", condition, {});
    branch.add_block().add_return(In(*last));
    branch.add_block().add_return(In(fresh));
    last = &branch.add_output(Type::tensor());
  }
  In in_place[] = {In(*last)};
  Value& w = graph.call("aten::relu_", in_place, Type::tensor()).output();
  graph.add_output(In(w));
  AliasAnalysis aliases(graph);
  EXPECT_TRUE(aliases.has_writers(x)) << "too many to tell apart: any of them";
  EXPECT_FALSE(dce(graph));
}

}  // namespace
}  // namespace tern::ir
