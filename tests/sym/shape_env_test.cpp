// Guards, ranges, replacements and unbacked symbols of a ShapeEnv.
#include "tern/sym/shape_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tern/base/error.h"
#include "tern/sym/sym_float.h"

namespace tern {
namespace {

using testing::HasSubstr;

std::string message_of(auto&& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.message();
  }
  return "no error";
}

TEST(SymInt, concrete_values_need_no_env) {
  SymInt a = 7, b = -2;
  EXPECT_TRUE(a > b);
  EXPECT_EQ((a * b + 1).as_int(), -13);
  EXPECT_EQ(floor_div(a, b).as_int(), -4);
  EXPECT_EQ(mod(a, b).as_int(), -1);
  EXPECT_EQ(sym_max(a, b).as_int(), 7);
  EXPECT_EQ(sym_min(a, b).as_int(), -2);
  EXPECT_EQ(static_cast<int64_t>(a), 7);
  EXPECT_TRUE(surely_eq(a, 7) && surely_lt(b, a) && surely_le(b, b));
  EXPECT_TRUE(require_eq(a, 7));
  EXPECT_EQ(sym_compare(sym::Op::lt, a, b).str(), "False");
  EXPECT_EQ(message_of([&] { floor_div(a, 0); }), "floor_div: division by zero");
  EXPECT_EQ(message_of([&] { mod(a, 0); }), "mod: division by zero");
}

TEST(ShapeEnv, names_symbols_by_order) {
  ShapeEnv env;
  EXPECT_EQ(env.create_symbol(5, "L['x'].size()[0]").str(), "s0");
  EXPECT_EQ(env.create_symbol(5, "L['y'].size()[0]").str(), "s1");
  EXPECT_EQ(env.create_unbacked_symint().str(), "u0");
  EXPECT_EQ(env.create_unbacked_symbool().str(), "Eq(u1, 1)");
  EXPECT_EQ(SymFloat::unbacked(env).str(), "zuf0");
}

TEST(ShapeEnv, specialises_zero_and_one_and_duck_sizes) {
  ShapeEnv env;
  EXPECT_EQ(env.create_symbol(1, "a").as_int(), 1);
  EXPECT_EQ(env.create_symbol(0, "b").as_int(), 0);
  SymInt x = env.create_symbol(8, "x", {.duck = true}), y = env.create_symbol(8, "y", {.duck = true});
  SymInt z = env.create_symbol(9, "z", {.duck = true});
  EXPECT_EQ(x.bits(), y.bits());
  EXPECT_NE(x.bits(), z.bits());
  EXPECT_TRUE(x != 1 && x > 0 && x >= 2);
  EXPECT_TRUE(env.guards().empty()) << "what the range says needs no guard";
  SymInt one = env.create_symbol(1, "c", {.specialize_zero_one = false});
  EXPECT_TRUE(one.is_symbolic());
  EXPECT_EQ(env.range(one).str(), "[0, int_oo]");
}

TEST(ShapeEnv, comparisons_answer_from_the_hint_and_write_the_guard_with_its_line) {
  ShapeEnv env;
  SymInt s0 = env.create_symbol(5, "L['x'].size()[0]");
  EXPECT_TRUE(s0 <= 6);
  unsigned line = __LINE__ - 1;
  EXPECT_FALSE(s0 * 2 > 11);
  ASSERT_EQ(env.guards().size(), 2u);
  EXPECT_EQ(env.guards()[0].text, "s0 <= 6");
  EXPECT_EQ(env.guards()[0].loc.line, line);
  EXPECT_THAT(env.guards()[0].loc.file, HasSubstr("shape_env_test.cpp"));
  EXPECT_EQ(env.guards()[1].text, "2*s0 <= 11");
  EXPECT_EQ(env.range(s0).str(), "[2, 5]");
  EXPECT_TRUE(s0 < 100 && s0 <= 5 && s0 + 1 <= 6);
  EXPECT_EQ(env.guards().size(), 2u) << "implied by what is known";
}

TEST(ShapeEnv, guard_int_specialises) {
  ShapeEnv env;
  SymInt s0 = env.create_symbol(5, "x");
  SymInt twice = 2 * s0;
  EXPECT_EQ(twice.maybe_int(), std::nullopt);
  EXPECT_EQ(twice.hint(), 10);
  EXPECT_TRUE(env.guards().empty());
  EXPECT_EQ(s0.guard_int(), 5);
  EXPECT_EQ(env.guards().at(0).text, "Eq(s0, 5)");
  EXPECT_EQ(twice.maybe_int(), 10);
  EXPECT_EQ(twice.str(), "10");
}

TEST(ShapeEnv, surely_is_structural_and_by_range_without_guards) {
  ShapeEnv env;
  SymInt s0 = env.create_symbol(5, "x"), s1 = env.create_symbol(5, "y");
  EXPECT_TRUE(surely_eq(s0 * 2 + s0, 3 * s0));
  EXPECT_TRUE(surely_eq((s0 + 1) - 1, s0));
  EXPECT_TRUE(surely_eq(floor_div(2 * (s0 + 3), 2), s0 + 3));
  EXPECT_TRUE(surely_eq(mod(4 * s0, 4), 0));
  EXPECT_FALSE(surely_eq(s0, s1));
  EXPECT_TRUE(surely_lt(s0, s0 + 1));
  EXPECT_TRUE(surely_le(2, s0));
  EXPECT_TRUE(surely_lt(s0, s0 * s1));
  EXPECT_TRUE(surely_le(floor_div(s0, 2), s0));
  EXPECT_FALSE(surely_lt(s0, s1));
  EXPECT_TRUE(env.guards().empty());
  EXPECT_EQ(sym_max(s0, 1).str(), "s0");
  EXPECT_EQ(sym_max(s0, 3).str(), "Max(3, s0)");
}

TEST(ShapeEnv, ranges_of_expressions) {
  ShapeEnv env;
  SymInt a = env.create_symbol(5, "a", {.declared = {3, 6}}),
         b = env.create_symbol(5, "b", {.declared = {2, 10}});
  const std::pair<SymInt, const char*> cases[] = {
      {a + b, "[5, 16]"},    {a - b, "[-7, 4]"},          {a * b, "[6, 60]"},
      {-a, "[-6, -3]"},      {floor_div(a, 2), "[1, 3]"}, {floor_div(b, a), "[0, 3]"},
      {mod(b, 4), "[0, 3]"}, {mod(b, 100), "[2, 10]"},    {2 * a + 1, "[7, 13]"},
      {a * a, "[9, 36]"},    {sym_max(a, b), "[3, 10]"},  {sym_min(a, b), "[2, 6]"},
  };
  for (auto& [value, expected] : cases) EXPECT_EQ(env.range(value).str(), expected) << value.str();
  SymInt open = env.create_symbol(5, "c");
  EXPECT_EQ(env.range(open * open - 1).str(), "[3, int_oo]");
  EXPECT_EQ(env.range(1 - open).str(), "[-int_oo, -1]");
}

TEST(ShapeEnv, guards_narrow_through_divisions_and_squares) {
  ShapeEnv env;
  SymInt a = env.create_symbol(9, "a"), b = env.create_symbol(9, "b"), c = env.create_symbol(9, "c");
  EXPECT_TRUE(floor_div(a, 2) <= 5);
  EXPECT_EQ(env.range(a).str(), "[2, 11]");
  EXPECT_TRUE(b * b <= 100);
  EXPECT_EQ(env.range(b).str(), "[2, 10]");
  EXPECT_TRUE(b * b > 20);
  EXPECT_EQ(env.range(b).str(), "[5, 10]");
  EXPECT_TRUE(sym_max(c, 5) <= 20);
  EXPECT_EQ(env.range(c).str(), "[2, 20]");
  EXPECT_TRUE(c != 2);
  EXPECT_EQ(env.range(c).str(), "[3, 20]");
}

TEST(ShapeEnv, equalities_become_replacements) {
  ShapeEnv env;
  SymInt s0 = env.create_symbol(5, "a"), s1 = env.create_symbol(5, "b"), s2 = env.create_symbol(6, "c"),
         s3 = env.create_symbol(10, "d");
  EXPECT_TRUE(s1 == s0);
  EXPECT_EQ(s1.str(), "s0");
  EXPECT_TRUE(s2 == s1 + 1);
  EXPECT_EQ(s2.str(), "s0 + 1");
  EXPECT_TRUE(2 * s0 == s3);
  EXPECT_EQ((s3 + s2).str(), "3*s0 + 1");
  EXPECT_EQ(env.guards().size(), 3u);
  EXPECT_TRUE(s3 == s1 + s0);
  EXPECT_TRUE(s2 > s1);
  EXPECT_EQ(env.guards().size(), 3u) << "follows from the equalities";
}

TEST(ShapeEnv, replacement_carries_the_range_over) {
  ShapeEnv env;
  SymInt x = env.create_symbol(5, "x", {.declared = {3, 60}}),
         y = env.create_symbol(6, "y", {.declared = {4, 7}});
  EXPECT_TRUE(y == x + 1);
  EXPECT_EQ(env.range(x).str(), "[3, 6]");
}

TEST(ShapeEnv, divisibility_is_remembered) {
  ShapeEnv env;
  SymInt s0 = env.create_symbol(8, "x");
  EXPECT_TRUE(mod(s0, 4) == 0);
  EXPECT_TRUE(surely_eq(4 * floor_div(s0, 4), s0));
  EXPECT_TRUE(surely_eq(mod(s0 + 4, 4), 0));
  EXPECT_TRUE(surely_eq(mod(s0 + 1, 4), 0) == false);
  EXPECT_EQ(env.guards().size(), 1u);
  EXPECT_EQ(env.open_guards().size(), 1u) << "no range expresses it";
}

TEST(ShapeEnv, facts_about_sums_answer_later_questions) {
  ShapeEnv env;
  SymInt a = env.create_symbol(3, "a"), b = env.create_symbol(9, "b");
  EXPECT_TRUE(a < b);
  EXPECT_TRUE(surely_lt(a, b + 1));
  EXPECT_TRUE(surely_lt(2 * a, 2 * b));
  EXPECT_TRUE(surely_eq(sym_min(a, b), a));
  EXPECT_FALSE(surely_lt(a + 1, b));
  EXPECT_EQ(env.guards().size(), 1u);
}

TEST(ShapeEnv, a_thousand_guards_stay_linear) {
  ShapeEnv env;
  std::vector<SymInt> sizes;
  for (int i = 0; i < 2000; ++i) sizes.push_back(env.create_symbol(100 + i, "x"));
  for (int i = 0; i + 1 < 2000; ++i) EXPECT_TRUE(sizes[i] < sizes[i + 1]);
  EXPECT_EQ(env.guards().size(), 1999u);
}

TEST(ShapeEnv, guarding_on_data_names_expression_line_and_origin) {
  ShapeEnv env;
  SymInt u0 = env.create_unbacked_symint("y.item()");
  std::string message = message_of([&] { (void)(u0 > 4); });
  EXPECT_THAT(message, HasSubstr("GuardOnDataDependentSymNode: Could not guard on data-dependent expression "
                                 "u0 > 4 (unhinted: u0 > 4)."));
  EXPECT_THAT(message, HasSubstr("Caused by: shape_env_test.cpp:"));
  EXPECT_THAT(message, HasSubstr("u0 comes from y.item() (shape_env_test.cpp:"));
  EXPECT_THAT(message, HasSubstr("check(u0 > 4)"));
  EXPECT_THAT(
      message_of([&] { u0.guard_int(); }),
      HasSubstr("Could not extract specialized integer from data-dependent expression u0 (unhinted: u0)."));
  EXPECT_THAT(message_of([&] { SymFloat::unbacked(env).guard_float(); }),
              HasSubstr("Could not guard on data-dependent expression zuf0 (unhinted: zuf0)."));
  EXPECT_TRUE(env.guards().empty());
}

TEST(ShapeEnv, checks_on_data_become_runtime_asserts_and_knowledge) {
  ShapeEnv env;
  SymInt u0 = env.create_unbacked_symint("b");
  env.check_is_size(u0);
  env.check(sym_compare(sym::Op::ge, u0, 4));
  env.check(sym_compare(sym::Op::le, u0, 5), "b is too large");
  EXPECT_TRUE(env.is_size_like(u0));
  EXPECT_EQ(env.range(u0).str(), "[4, 5]");
  ASSERT_EQ(env.runtime_asserts().size(), 3u);
  EXPECT_EQ(env.runtime_asserts()[0].condition.str(), "u0 >= 0");
  EXPECT_EQ(env.runtime_asserts()[1].message, "Runtime assertion failed for expression u0 >= 4");
  EXPECT_EQ(env.runtime_asserts()[2].message, "b is too large");
  EXPECT_TRUE(u0 > 3 && u0 != 0);
  EXPECT_EQ(range_violation(3, env.range(u0)), "Invalid value range for 3 between [4, 5]");
  EXPECT_EQ(range_violation(4, env.range(u0)), std::nullopt);
  EXPECT_THAT(message_of([&] { env.check(sym_compare(sym::Op::gt, u0, 9), "no"); }),
              HasSubstr("no (shape_env_test.cpp:"));
  EXPECT_THAT(message_of([&] {
                env.constrain_range(u0, {7, 3});
              }),
              HasSubstr("minimum 7 is above the maximum 3"));
}

TEST(ShapeEnv, an_asserted_equality_of_data_is_used_both_ways_round) {
  ShapeEnv env;
  SymInt a = env.create_unbacked_symint(), b = env.create_unbacked_symint(), c = env.create_unbacked_symint();
  env.check(sym_compare(sym::Op::eq, a, b + c));
  EXPECT_TRUE(b + c == a);
  ShapeEnv other;
  SymInt x = other.create_unbacked_symint(), y = other.create_unbacked_symint(),
         z = other.create_unbacked_symint();
  other.check(sym_compare(sym::Op::ne, x, y + z));
  EXPECT_FALSE(y + z == x);
}

TEST(ShapeEnv, data_is_expressed_by_inputs_never_the_reverse) {
  ShapeEnv env;
  SymInt u0 = env.create_unbacked_symint(), s0 = env.create_symbol(5, "x");
  EXPECT_TRUE(require_eq(s0, u0));
  EXPECT_EQ(u0.str(), "s0");
  EXPECT_EQ(s0.str(), "s0");
  EXPECT_EQ(env.runtime_asserts().size(), 1u);
}

TEST(ShapeEnv, guard_eq_or_takes_the_default_only_for_data) {
  ShapeEnv env;
  SymInt u0 = env.create_unbacked_symint(), s0 = env.create_symbol(5, "x");
  EXPECT_FALSE(guard_eq_or(u0, 1, false));
  EXPECT_TRUE(guard_eq_or(u0, 1, true));
  EXPECT_TRUE(env.guards().empty());
  EXPECT_TRUE(guard_eq_or(s0, 5, false));
  EXPECT_EQ(env.guards().size(), 1u);
}

TEST(ShapeEnv, conditions_combine) {
  ShapeEnv env;
  SymInt s0 = env.create_symbol(5, "x"), s1 = env.create_symbol(9, "y");
  SymBool both = sym_and(sym_compare(sym::Op::lt, s0, 8), sym_compare(sym::Op::gt, s1, 3));
  EXPECT_EQ(both.str(), "(s0 < 8) & (s1 > 3)");
  EXPECT_EQ(sym_not(both).str(), "(s0 >= 8) | (s1 <= 3)");
  EXPECT_TRUE(both.guard_bool());
  EXPECT_EQ(env.range(s0).str(), "[2, 7]");
  SymBool either = sym_or(sym_compare(sym::Op::eq, s0, 100), sym_compare(sym::Op::eq, s1, 9));
  EXPECT_TRUE(either.guard_bool());
  EXPECT_TRUE(either.guard_bool());
  EXPECT_EQ(env.guards().size(), 2u);
  EXPECT_EQ(sym_and(true, both).str(), both.str());
  EXPECT_EQ(sym_or(true, both).str(), "True");
}

TEST(ShapeEnv, unbacked_bools_can_be_asserted) {
  ShapeEnv env;
  SymBool b = env.create_unbacked_symbool("flag");
  EXPECT_THAT(message_of([&] { b.guard_bool(); }), HasSubstr("data-dependent expression Eq(u0, 1)"));
  env.check(sym_not(b));
  EXPECT_FALSE(b.guard_bool());
}

TEST(ShapeEnv, reads_symbols_of_a_file) {
  ShapeEnv env;
  SymInt s77 = env.add_symbol("s77", 5, {0, 64});
  EXPECT_EQ(env.parse("s77 + 1").bits(), (s77 + 1).bits());
  EXPECT_EQ(env.range(s77).str(), "[2, 64]");
  EXPECT_EQ(env.declared_range(s77 * 2).str(), "[0, 128]");
  EXPECT_FALSE(env.is_unbacked(s77));
  EXPECT_TRUE(env.is_unbacked(env.parse("u3*2")));
  EXPECT_EQ(env.free_symbols(env.parse("s77*u3")).size(), 2u);
}

TEST(ShapeEnv, threads_may_share_one) {
  ShapeEnv env;
  SymInt s0 = env.create_symbol(50, "x");
  std::vector<std::thread> threads;
  std::vector<int64_t> bits(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      SymInt sum = 0;
      for (int i = 0; i < 500; ++i) sum = sum + floor_div(s0 + i, 7);
      bits[static_cast<size_t>(t)] = sum.bits();
    });
  for (std::thread& t : threads) t.join();
  for (int64_t b : bits) EXPECT_EQ(b, bits[0]);
}

TEST(SymFloat, sizes_become_floats) {
  ShapeEnv env;
  SymInt s0 = env.create_symbol(5, "x");
  EXPECT_EQ(SymFloat(1.5).str(), "1.5");
  EXPECT_EQ(SymFloat(2).str(), "2.0");
  EXPECT_EQ(SymFloat::from_int(7).as_double(), 7.0);
  SymFloat f = SymFloat::from_int(s0);
  EXPECT_EQ(f.str(), "ToFloat(s0)");
  EXPECT_EQ(f.hint(), 5.0);
  EXPECT_FALSE(f.is_unbacked());
  EXPECT_EQ(f.guard_float(), 5.0);
  EXPECT_EQ(env.guards().size(), 1u);
}

}  // namespace
}  // namespace tern
