// Canonical form, printing and parsing of symbolic sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/sym/shape_env.h"

namespace tern {
namespace {

std::string message_of(auto&& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.message();
  }
  return "no error";
}

// Each text parses to the expression that prints as the second.
TEST(SymExpr, canonical_form_prints_as_sympy) {
  const std::pair<const char*, const char*> cases[] = {
      {"s0 + 1", "s0 + 1"},
      {"1 + s0", "s0 + 1"},
      {"2*s0 - 1", "2*s0 - 1"},
      {"1 - s0", "1 - s0"},
      {"-s0", "-s0"},
      {"0 - 2*s0 + s1", "-2*s0 + s1"},
      {"s1 - s0", "-s0 + s1"},
      {"s0 + s0*s1", "s0*s1 + s0"},
      {"(s0 + 1)**2", "s0**2 + 2*s0 + 1"},
      {"s1**2*s0", "s0*s1**2"},
      {"s10 + s2", "s10 + s2"},
      {"s1*s2 + s0*s2", "s0*s2 + s1*s2"},
      {"s1*s0**2 + s1**2*s0", "s0**2*s1 + s0*s1**2"},
      {"(s0//2)", "(s0//2)"},
      {"(s0 + 1)//2", "((s0 + 1)//2)"},
      {"FloorDiv(s0, 2)", "(s0//2)"},
      {"CeilDiv(s0, 2)", "((s0 + 1)//2)"},
      {"-((-s0)//2)", "-(((-s0)//2))"},
      {"(s0*s1)//4", "((s0*s1)//4)"},
      {"2*(s0//2) + 1", "2*((s0//2)) + 1"},
      {"(s0//2)*s1", "s1*((s0//2))"},
      {"3 - s0//2", "3 - ((s0//2))"},
      {"Mod(s0, 2)", "Mod(s0, 2)"},
      {"s0 % 2 + 3", "(Mod(s0, 2)) + 3"},
      {"s0*Mod(s0, 4)", "s0*(Mod(s0, 4))"},
      {"Max(s0 - 5, 1)", "Max(1, s0 - 5)"},
      {"Min(s1, 5, s0)", "Min(5, s0, s1)"},
      {"Max(1, s0//3)", "Max(1, (s0//3))"},
      {"Eq(s0, 3)", "Eq(s0, 3)"},
      {"s0 == 3", "Eq(s0, 3)"},
      {"s0 != s1", "Ne(s0, s1)"},
      {"u0 > 4", "u0 > 4"},
      {"s0 + 1 <= s1", "s0 + 1 <= s1"},
      {"And(s0 < 5, s1 < 7)", "(s0 < 5) & (s1 < 7)"},
      {"Eq(s0, 3) | (s1 < 4)", "Eq(s0, 3) | (s1 < 4)"},
      {"Not(Eq(s0, 3))", "Ne(s0, 3)"},
      // decided structurally
      {"s0*2 + s0 - 3*s0", "0"},
      {"(s0 + 1) - 1", "s0"},
      {"2*(s0 + 3)//2", "s0 + 3"},
      {"(4*s0) % 4", "0"},
      {"(4*s0 + 2)//4", "s0"},
      {"(2*s0 + s1)//2", "s0 + ((s1//2))"},
      {"(6*s0)//4", "((3*s0)//2)"},
      {"(s0//2)//3", "(s0//6)"},
      {"(s0 - 1)//2 + 1", "((s0 + 1)//2)"},
      {"(s0*s1)//s1", "s0"},
      {"(s0*s1 + s1)//(s0 + 1)", "s1"},
      {"(s0*s1)//(s1*s2)", "(s0//s2)"},
      {"(s0*s1) % s1", "0"},
      {"(4*s0 + s1) % 4", "Mod(s1, 4)"},
      {"(2*s0) % 4", "2*(Mod(s0, 2))"},
      {"(s0 % 8) % 4", "Mod(s0, 4)"},
      {"Max(s0, s0 + 1)", "s0 + 1"},
      {"Min(3, Min(s0, 2))", "Min(2, s0)"},
      {"Eq(2*s0 + 1, 4*s1)", "0"},
      {"s0 + 1 > s0", "1"},
      {"7//2", "3"},
      {"-7//2", "-4"},
      {"-7 % 3", "2"},
      // sympy's srepr
      {"Add(Symbol('s0', positive=True, integer=True), Integer(1))", "s0 + 1"},
      {"Mul(Integer(2), Pow(Symbol('s0', integer=True), Integer(2)))", "2*s0**2"},
      {"torch.utils._sympy.functions.FloorDiv(s0, 2)", "(s0//2)"},
      {"Equality(s0, Integer(3))", "Eq(s0, 3)"},
      {"PythonMod(s0, 4)", "Mod(s0, 4)"},
      {"ModularIndexing(s0, 2, 3)", "Mod((s0//2), 3)"},
      {"4*s0/2", "2*s0"},
      {"2 <= s0 and s0 <= 6", "(2 <= s0) & (s0 <= 6)"},
  };
  for (auto& [text, expected] : cases) {
    ShapeEnv env;
    for (const char* name : {"s0", "s1", "s2", "s10"}) env.add_symbol(name, 5, {0});
    SymInt e = env.parse(text);
    std::string printed =
        e.is_int()
            ? e.str()
            : env.table().print(env.unwrap(e), std::vector<std::string>{"s0", "s1", "s2", "s10", "u0"});
    EXPECT_EQ(printed, expected) << text;
    EXPECT_EQ(env.parse(printed).bits(), e.bits()) << text << " does not parse back to itself";
  }
}

TEST(SymExpr, parse_refuses_bad_text_with_a_place) {
  ShapeEnv env;
  EXPECT_EQ(message_of([&] { env.parse("s0 +"); }), "symbolic expression 's0 +': unexpected end at column 5");
  // What would be printed as a number, or as another name, is no name.
  for (const char* text : {"2*s0.30", "a.s0", "Symbol('30')"})
    EXPECT_THAT(message_of([&] { env.parse(text); }), testing::HasSubstr("name")) << text;
  EXPECT_EQ(message_of([&] { env.parse("s0 $ 1"); }),
            "symbolic expression 's0 $ 1': unexpected text at column 4");
  EXPECT_EQ(message_of([&] { env.parse("s0 + not"); }),
            "symbolic expression 's0 + not': misplaced 'not' at column 9");
  EXPECT_EQ(message_of([&] { env.parse("Foo(s0)"); }),
            "symbolic expression 'Foo(s0)': unknown function Foo at column 8");
  EXPECT_EQ(message_of([&] { env.parse("s0/2"); }),
            "symbolic expression 's0/2': a quotient that is no integer (use // or FloorDiv) at column 5");
  EXPECT_EQ(message_of([&] { env.parse("99999999999999999999"); }),
            "symbolic expression '99999999999999999999': an integer that does not fit 64 bits at column 1");
  EXPECT_NE(message_of([&] { env.parse(std::string(5000, '(')); }).find("nested deeper than 200 levels"),
            std::string::npos);
  EXPECT_NE(message_of([&] { env.parse("s0**1000"); }).find("an exponent must be an integer in 0..64"),
            std::string::npos);
  EXPECT_NE(message_of([&] { env.parse("(s0+s1+s2+s3+s4+s5)**60"); }).find("symbolic size"),
            std::string::npos);
  EXPECT_EQ(message_of([&] { env.parse("Mod(s0, 0)"); }),
            "symbolic expression 'Mod(s0, 0)': division by zero at column 11");
  EXPECT_EQ(message_of([&] { env.parse("Mod(s0)"); }),
            "symbolic expression 'Mod(s0)': Mod takes 2 arguments, got 1, at column 8");
}

TEST(SymExpr, evaluate_follows_python) {
  ShapeEnv env;
  SymInt s0 = env.create_symbol(5, "x"), s1 = env.create_symbol(7, "y");
  SymValues values;
  values.set(s0, 9);
  values.set(s1, -4);
  EXPECT_EQ(env.evaluate(s0 * s0 + 2 * s1, values), 73);
  EXPECT_EQ(env.evaluate(floor_div(s1, s0), values), -1);
  EXPECT_EQ(env.evaluate(mod(s1, s0), values), 5);
  EXPECT_EQ(env.evaluate(env.parse("Max(s0, s1) - Min(s0, s1)"), values), 13);
  EXPECT_EQ(env.evaluate(env.parse("(s0 > 3) & ~(s1 > 3)"), values), 1);
  EXPECT_EQ(message_of([&] { env.evaluate(env.parse("s0 + q"), values); }),
            "evaluating q + s0: q has no value");
  values.set(s1, 0);
  EXPECT_EQ(message_of([&] { env.evaluate(floor_div(s0, s1), values); }), "symbolic size: division by zero");
  values.set(s0, INT64_MAX);
  EXPECT_EQ(message_of([&] { env.evaluate(s0 * s0, values); }),
            "symbolic size: the value does not fit 64 bits");
}

TEST(SymExpr, substitution_keeps_the_canonical_form) {
  ShapeEnv env;
  SymInt s0 = env.create_symbol(5, "x"), s1 = env.create_symbol(7, "y");
  EXPECT_EQ(env.substitute(floor_div(s0 + 3, 2), s0, 2 * s1 + 1).str(), "s1 + 2");
  EXPECT_EQ(env.substitute(s0 * s1, s0, 0).as_int(), 0);
}

TEST(SymExpr, a_handle_knows_when_its_env_is_gone) {
  SymInt left;
  {
    ShapeEnv env;
    left = env.create_symbol(5, "x");
  }
  EXPECT_NE(message_of([&] { left.str(); }).find("after its ShapeEnv ended"), std::string::npos);
  ShapeEnv a, b;
  SymInt x = a.create_symbol(5, "x"), y = b.create_symbol(5, "y");
  EXPECT_NE(message_of([&] { (void)(x + y); }).find("two different captures"), std::string::npos);
}

}  // namespace
}  // namespace tern
