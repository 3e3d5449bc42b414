// Dims, the constraint solver's messages and fixes, and run-time input checks: the cases of torch.export.
#include "tern/sym/solver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "tern/base/error.h"
#include "tern/sym/input_checks.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string message_of(auto&& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.message();
  }
  return "no error";
}

struct Size {
  const char* input;
  int64_t dim;
  int64_t hint;
  Dim spec;
};
std::vector<InputDim> inputs_of(std::initializer_list<Size> sizes) {
  std::vector<InputDim> out;
  for (const Size& s : sizes) {
    InputDim in;
    in.source = std::string("L['") + s.input + "'].size()[" + std::to_string(s.dim) + "]";
    in.path = s.input;
    in.dim = s.dim;
    in.hint = s.hint;
    in.spec = s.spec;
    out.push_back(in);
  }
  return out;
}
InputChecks checks_of(const DynamicDims& dims) {
  std::vector<InputSize> sizes;
  for (const InputDim& in : dims.inputs()) sizes.push_back({in.path, in.dim, in.size});
  std::vector<Guard> conditions = dims.require();
  return InputChecks(dims.env(), sizes, conditions);
}
// The regular expressions of the seeds: '.' does not match a line end.
void expect_match(const std::string& message, const char* pattern) {
  EXPECT_TRUE(std::regex_search(message, std::regex(pattern))) << message << "\n  does not match " << pattern;
}

// A program run symbolically: sizes in, guards out.
struct Capture {
  ShapeEnv env;
  DynamicDims dims;
  explicit Capture(std::initializer_list<Size> sizes) : dims(env, inputs_of(sizes)) {}
  SymInt size(size_t i) const { return dims.inputs()[i].size; }
};

// ---- Dim ----

TEST(Dim, derives_increasing_linear_forms) {
  Dim x("dimx", {.min = 3, .max = 6});
  EXPECT_EQ((2 * x + 1).name(), "2*dimx + 1");
  EXPECT_EQ((x - 1).name(), "dimx - 1");
  EXPECT_EQ(((x * 2 + 1) * 3 - 1).name(), "6*dimx + 2");
  EXPECT_EQ((2 * x + 1).range().str(), "[7, 13]");
  EXPECT_EQ(x.str(), "Dim('dimx', min=3, max=6)");
  EXPECT_EQ(Dim("b").str(), "Dim('b')");
  EXPECT_EQ(Dim("b", {.max = 8}).str(), "Dim('b', max=8)");
  EXPECT_EQ(Dim(5).size(), 5);
  EXPECT_EQ(Dim::STATIC.size(), std::nullopt);
  EXPECT_TRUE(Dim::STATIC.is_static() && Dim(3).is_static() && !Dim::AUTO.is_static());
}

TEST(Dim, refuses_what_is_not_linear) {
  Dim a("a"), b("b");
  const std::string only = " (Only increasing linear operations with integer coefficients are supported.)";
  EXPECT_EQ(message_of([&] { (void)(a + b); }),
            "Attempted to add Dim('b') to a, where an integer was expected." + only);
  EXPECT_EQ(message_of([&] { (void)(a - b); }),
            "Attempted to subtract Dim('b') from a, where an integer was expected." + only);
  EXPECT_EQ(message_of([&] { (void)(a * b); }),
            "Attempted to multiply Dim('b') with a, where a positive integer was expected." + only);
  EXPECT_EQ(message_of([&] { (void)(a * -1); }),
            "Attempted to multiply -1 with a, where a positive integer was expected." + only);
  EXPECT_THAT(message_of([&] { (void)(a * 1.5); }), HasSubstr("Attempted to multiply 1.5"));
  EXPECT_EQ(message_of([&] { (void)(1 - a); }), "Attempted to negate a." + only);
  EXPECT_THAT(message_of([&] { (void)(Dim::AUTO + 1); }), HasSubstr("Attempted to add 1 to Dim.AUTO"));
  EXPECT_EQ(message_of([&] { Dim("a", {.min = 5, .max = 3}); }),
            "Cannot create Dim with inconsistent min=5, max=3");
  EXPECT_EQ(message_of([&] { Dim("a b"); }), "Dim name must be a valid identifier, got a b");
  EXPECT_EQ(message_of([&] { (Dim("a", {.min = 3}) - 5).range(); }),
            "Expected derived min value of a - 5 to be >= 0. Please specify an appropriate min value for a "
            "(currently 3).");
}

// ---- binding: the example against the dims ----

TEST(DynamicDims, example_out_of_range) {
  expect_match(message_of([] { Capture({{"x", 0, 3, Dim("dim_x", {.min = 6})}}); }), "not in range");
  expect_match(message_of([] { Capture({{"x", 0, 2, Dim("dim", {.min = 3})}}); }), "2 not in range.*3,");
}

TEST(DynamicDims, static_sizes_must_match) {
  expect_match(message_of([] {
                 Capture({{"x", 0, 4, 5}});
               }),
               "Static shape constraint of 5 does not match input size of 4, for .*");
  Dim dx("dx", {.min = 3, .max = 6});
  expect_match(message_of([&] {
                 Capture({{"x", 0, 4, dx}, {"x", 1, 6, 9}});
               }),
               "Static shape constraint of 9 does not match input size of 6, for .*");
  Capture fine({{"x", 0, 4, 4}, {"x", 1, 6, Dim::STATIC}});
  EXPECT_EQ(fine.size(1).as_int(), 6);
}

TEST(DynamicDims, different_definitions_of_one_name) {
  Dim a("C", {.min = 3}), b("C", {.max = 12});
  expect_match(
      message_of([&] {
        Capture({{"x", 0, 10, a}, {"x", 1, 10, b}});
      }),
      "Found different definitions Dim\\(.*min=3\\) and Dim\\(.*max=12\\) for the same symbolic dimension");
}

TEST(DynamicDims, equal_dims_share_a_symbol) {
  Dim batch("batch");
  Capture c({{"x", 0, 5, batch}, {"y", 0, 5, batch}, {"z", 0, 7, Dim("other")}});
  EXPECT_EQ(c.size(0).bits(), c.size(1).bits());
  EXPECT_EQ(c.size(2).str(), "s1");
  EXPECT_THAT(message_of([&] {
                Capture({{"x", 0, 5, batch}, {"y", 0, 6, batch}});
              }),
              HasSubstr("L['y'].size()[0] = 6 is not equal to L['x'].size()[0] = 5"));
}

// ---- the solver ----

TEST(DynamicDims, range_violation_suggests_bounds) {  // test_non_strict_dynamic_shapes_suggested_fixes
  Capture c({{"x", 0, 5, Dim("dim", {.min = 3})}, {"c", 0, 4, Dim::STATIC}});
  EXPECT_TRUE(c.size(0) <= 6);
  DimReport report = c.dims.solve();
  expect_match(report.message,
               "Constraints violated \\(dim\\)!(.*\n)*.*"
               "Not all values of dim.*satisfy the generated guard(.*\n)*.*"
               "Suggested fixes:(.*\n)*.*"
               "dim = Dim\\('dim', min=3, max=6\\)");
  EXPECT_THAT(
      report.message,
      HasSubstr("  - Not all values of dim = L['x'].size()[0] in the specified range 3 <= dim satisfy the "
                "generated guard 3 <= L['x'].size()[0] and L['x'].size()[0] <= 6. (solver_test.cpp:"));
  EXPECT_THAT(report.suggestions, ElementsAre("dim = Dim('dim', min=3, max=6)"));
}

TEST(DynamicDims, dims_that_hold_are_no_error) {
  Capture c({{"x", 0, 5, Dim("dim", {.min = 3, .max = 6})}});
  EXPECT_TRUE(c.size(0) <= 6 && c.size(0) != 1);
  EXPECT_EQ(c.dims.solve().message, "");
  EXPECT_EQ(c.env.declared_range(c.size(0)).str(), "[3, 6]");
}

TEST(DynamicDims, derived_dim_basic) {
  Dim dimx("dimx", {.min = 3, .max = 6});
  {
    Capture c({{"x", 0, 5, dimx}, {"y", 0, 6, Dim("dimy", {.min = 4, .max = 7})}});
    EXPECT_TRUE(c.size(0) == c.size(1) - 1);
    DimReport report = c.dims.solve();
    expect_match(report.message,
                 "Constraints violated \\(dimy\\)!(.*\n)*.*"
                 "The values of dimy.*must always be related to the values of dimx.*by.*(.*\n)*.*"
                 "Suggested fixes:(.*\n)*.*"
                 "dimy = dimx \\+ 1");
    EXPECT_THAT(report.suggestions, ElementsAre("dimy = dimx + 1"));
  }
  expect_match(message_of([&] {
                 Capture({{"x", 0, 5, dimx}, {"y", 0, 6, dimx * 2}});
               }),
               "Expected input.*size.* to be equal to 2\\*dimx, where dimx = 5, but got 6");
  Capture c({{"x", 0, 5, dimx}, {"y", 0, 6, dimx + 1}});
  EXPECT_TRUE(c.size(0) == c.size(1) - 1);
  EXPECT_TRUE(c.env.guards().empty());
  InputChecks checks = checks_of(c.dims);
  expect_match(*checks.first_violation({4, 6}), "Expected input.*shape.*to be equal to 5, but got 6");
  EXPECT_EQ(checks.first_violation({4, 5}), std::nullopt);
}

TEST(DynamicDims, derived_dim_nested) {
  Dim dimx("dimx", {.min = 3, .max = 6});
  expect_match(message_of([&] {
                 Capture({{"z", 0, 6, dimx + 1}, {"y", 0, 11, dimx * 2 - 1}});
               }),
               "Expected input.*size.*to be equal to 2\\*dimx - 1, where dimx = 5, but got 11");
  Capture c({{"z", 0, 6, dimx + 1}, {"y", 0, 11, dimx * 2 + 1}});
  EXPECT_TRUE(c.size(0) - 1 == floor_div(c.size(1) - 1 + 1, 2));
  InputChecks checks = checks_of(c.dims);
  expect_match(*checks.first_violation({8, 15}), "Expected input.*shape.*to be <= 7, but got 8");
  expect_match(*checks.first_violation({5, 8}), "Expected input.*shape.*to be equal to 9, but got 8");
  EXPECT_EQ(checks.first_violation({5, 9}), std::nullopt);
}

TEST(DynamicDims, derived_dim_integer) {
  Dim dimx("dimx", {.min = 3, .max = 6});
  expect_match(
      message_of([&] {
        Capture({{"w", 0, 10, dimx * 2 + 1}});
      }),
      "Expected shape.*= 10 of input Tensor to be of the form 2\\*dimx \\+ 1, where dimx is an integer");
  Capture c({{"w", 0, 10, dimx * 2}});
  EXPECT_TRUE(mod(c.size(0), 2) == 0);
  EXPECT_EQ(c.size(0).str(), "2*s1");
  InputChecks checks = checks_of(c.dims);
  expect_match(*checks.first_violation({9}),
               "Expected input.*shape.*= 9 to be of the form 2\\*s1, where s1 is an integer");
  expect_match(*checks.first_violation({14}), "Expected input.*shape.*to be <= 12, but got 14");
  EXPECT_EQ(checks.first_violation({8}), std::nullopt);
}

TEST(DynamicDims, derived_dim_repeat_derived) {
  Dim dimw = Dim("dimx", {.min = 3, .max = 6}) * 2;
  Capture c({{"u", 0, 10, dimw}, {"v", 0, 10, dimw}});
  EXPECT_TRUE(c.size(0) == c.size(1));
  EXPECT_TRUE(c.env.guards().empty());
  EXPECT_EQ(checks_of(c.dims).first_violation({8, 8}), std::nullopt);
}

TEST(DynamicDims, derived_dim_out_of_order) {
  Dim dimy("dimy", {.min = 5, .max = 7});
  Dim dimx = dimy - 1, dimz = dimy + 1, dimx2 = dimz - 2;
  Capture c(
      {{"x", 0, 5, dimx}, {"y", 0, 6, dimy}, {"z", 0, 7, dimz}, {"x1", 0, 5, dimx}, {"x2", 0, 5, dimx2}});
  EXPECT_TRUE(c.size(0) == c.size(1) - 1 && c.size(0) == c.size(2) - 2 && c.size(3) == c.size(4));
  InputChecks checks = checks_of(c.dims);
  expect_match(*checks.first_violation({6, 7, 5, 6, 6}),
               "Expected input.*shape.*to be equal to 8, but got 5");
  expect_match(*checks.first_violation({6, 7, 8, 6, 5}),
               "Expected input.*shape.*to be equal to 6, but got 5");
  EXPECT_EQ(checks.first_violation({6, 7, 8, 6, 6}), std::nullopt);
}

TEST(DynamicDims, specialize_derived_dim_roots) {
  Dim dy("dy", {.min = 6});
  Capture c({{"x", 0, 6, dy - 6}, {"x", 1, 2, 2}, {"y", 0, 12, dy}});
  EXPECT_TRUE(c.size(0) * 2 == c.size(2));
  DimReport report = c.dims.solve();
  expect_match(
      report.message,
      "Specializations unexpectedly required \\(dy\\)!(.*\n)*.*"
      ".*dy - 6.*must be specialized to 6 because the guards generated for it are too complex(.*\n)*.*"
      "Suggested fixes(.*\n)*.*"
      ".*dy = 12(.*\n)*.*");
  EXPECT_THAT(report.message, Not(HasSubstr("dy - 6 = 6")));
}

TEST(DynamicDims, dim_1_2) {
  Dim dx("dx", {.min = 1, .max = 2});
  Capture c({{"x", 0, 2, dx}, {"x", 1, 2, Dim::STATIC}});
  EXPECT_TRUE(c.size(0).is_symbolic());
  InputChecks checks = checks_of(c.dims);
  EXPECT_EQ(checks.first_violation({1, 2}), std::nullopt);
  EXPECT_EQ(checks.first_violation({2, 2}), std::nullopt);
  expect_match(*checks.first_violation({3, 2}), "Expected input at .* to be <= 2, but got 3");
  EXPECT_EQ(c.env.declared_range(c.size(0)).min, 1);
}

TEST(DynamicDims, derived_dim_1_2) {
  Dim dx("dx", {.min = 1, .max = 2});
  Capture c({{"x", 0, 2, dx}, {"y", 0, 3, dx + 1}});
  EXPECT_TRUE(c.size(0) == c.size(1) - 1);
  EXPECT_EQ(checks_of(c.dims).first_violation({1, 2}), std::nullopt);
  EXPECT_EQ(c.env.declared_range(c.size(0)).str(), "[1, 2]");
  EXPECT_EQ(c.env.declared_range(c.size(1)).str(), "[2, 3]");
}

TEST(DynamicDims, export_mod_constraints) {
  {
    Capture c({{"x", 0, 3, Dim("dim0_x", {.min = 3})}, {"x", 1, 4, Dim("dim1_x", {.max = 8000})}});
    SymInt rows = c.size(0) - 1, numel = c.size(0) * c.size(1);
    EXPECT_TRUE(mod(numel, rows) == 0);
    DimReport report = c.dims.solve();
    expect_match(report.message,
                 "Specializations unexpectedly required"
                 ".*\n.*\\[0\\] must be specialized to 3.*guards.*too complex(.*\n)*.*"
                 "Suggested fixes:(.*\n)*.*"
                 "dim0_x = 3(.*\n)*.*"
                 "dim1_x = 2\\*_dim1_x");
    EXPECT_THAT(report.suggestions,
                ElementsAre("_dim1_x = Dim('_dim1_x', min=1, max=4000)", "dim0_x = 3", "dim1_x = 2*_dim1_x"));
  }
  Capture c({{"x", 0, 3, Dim::STATIC}, {"x", 1, 4, 2 * Dim("_dim1_x", {.max = 4000})}});
  EXPECT_TRUE(mod(c.size(0) * c.size(1), c.size(0) - 1) == 0);
  expect_match(*checks_of(c.dims).first_violation({3, 5}),
               "Expected.*shape\\[1\\] = 5 to be of the form 2\\*s1, where s1 is an integer");
}

TEST(DynamicDims, suggested_fixes_new_roots) {
  {
    Capture c({{"x", 0, 11, Dim("dx")}, {"y", 0, 12, Dim("dy")}, {"z", 0, 14, Dim("dz")}});
    SymInt x = c.size(0), y = c.size(1), z = c.size(2);
    EXPECT_TRUE(x >= 5 && x <= 36 && mod(y, 3) == 0);
    EXPECT_TRUE(x == y - 1 && x == z - 3);
    DimReport report = c.dims.solve();
    expect_match(report.message,
                 "Constraints violated.*!(.*\n)*.*"
                 "Suggested fixes(.*\n)*.*"
                 "_dx = Dim\\('_dx', max=12\\)(.*\n)*.*"
                 "dx = 3\\*_dx - 1(.*\n)*.*"
                 "dy = 3\\*_dx(.*\n)*.*"
                 "dz = 3\\*_dx \\+ 2");
    EXPECT_THAT(report.suggestions,
                ElementsAre("_dx = Dim('_dx', max=12)", "dx = 3*_dx - 1", "dy = 3*_dx", "dz = 3*_dx + 2"));
    EXPECT_THAT(report.message, HasSubstr("satisfy the generated guard (L['x'].size()[0] + 1) % 3 == 0."));
  }
  Dim dx("_dx", {.min = 2, .max = 12});
  Capture c({{"x", 0, 11, 3 * dx - 1}, {"y", 0, 12, 3 * dx}, {"z", 0, 14, 3 * dx + 2}});
  SymInt x = c.size(0), y = c.size(1), z = c.size(2);
  EXPECT_TRUE(x >= 5 && x <= 36 && mod(y, 3) == 0);
  EXPECT_TRUE(x == y - 1 && x == z - 3);
  EXPECT_EQ(c.dims.solve().message, "") << "the fix can be pasted";
}

TEST(DynamicDims, disable_forced_specializations) {
  auto capture = [] {
    auto c = std::make_unique<Capture>(std::initializer_list<Size>{{"w", 0, 3, Dim("dw0")},
                                                                   {"w", 1, 4, Dim("dw1")},
                                                                   {"x", 0, 12, Dim("dx0")},
                                                                   {"y", 0, 4, Dim("dy")},
                                                                   {"z", 0, 4, Dim("dz")}});
    EXPECT_TRUE(c->size(0) * c->size(1) == c->size(2));
    EXPECT_TRUE(c->size(3) == c->size(4));
    return c;
  };
  expect_match(capture()->dims.solve().message,
               ".*Specializations unexpectedly required(.*\n)*"
               "Suggested fixes:(.*\n)*"
               ".*dw0 = 3(.*\n)*"
               ".*dw1 = 4(.*\n)*"
               ".*dx0 = 12(.*\n)*"
               ".*dz = dy(.*\n)*");
  DimReport report = capture()->dims.solve({.force_specializations = false});
  expect_match(report.message,
               ".*Constraints violated(.*\n)*"
               "Suggested fixes:(.*\n)*"
               ".*dz = dy(.*\n)*");
  EXPECT_THAT(report.suggestions, ElementsAre("dz = dy"));
  EXPECT_THAT(report.message, Not(HasSubstr("Specializations")));
  EXPECT_THAT(
      report.message,
      HasSubstr("The values of dz = L['z'].size()[0] and dy = L['y'].size()[0] must always be equal."));
}

TEST(DynamicDims, specialised_dim_suggests_its_value) {
  Capture c({{"x", 0, 5, Dim("batch")}, {"x", 1, 6, Dim("features")}});
  EXPECT_TRUE(c.size(0) == 5);
  EXPECT_EQ(c.size(1).guard_int(), 6);
  DimReport report = c.dims.solve();
  EXPECT_THAT(
      report.message,
      HasSubstr(
          "Constraints violated (batch, features)! For more information, run with TORCH_LOGS=\"+dynamic\".\n"
          "  - You marked batch as dynamic but your code specialized it to be a constant (5) "
          "(solver_test.cpp:"));
  EXPECT_THAT(report.suggestions, ElementsAre("batch = 5", "features = 6"));
  EXPECT_EQ(message_of([&] { c.dims.require(); }), report.message);
}

TEST(DynamicDims, an_example_of_size_one_says_what_to_do) {
  Capture c({{"x", 0, 1, Dim("b")}});
  EXPECT_THAT(c.dims.solve().message, HasSubstr("constant (1); the example's size is 1"));
  EXPECT_THAT(c.dims.solve().suggestions, ElementsAre("b = 1"));
}

TEST(DynamicDims, auto_gives_way_and_dynamic_does_not) {
  Capture c(
      {{"x", 0, 5, Dim::AUTO}, {"x", 1, 6, Dim::DYNAMIC}, {"y", 0, 5, Dim::AUTO}, {"y", 1, 8, Dim::DYNAMIC}});
  EXPECT_TRUE(c.size(0) == 5 && mod(c.size(2), 5) == 0 && c.size(3) <= 9);
  EXPECT_EQ(c.dims.solve().message, "");
  InputChecks checks = checks_of(c.dims);
  EXPECT_THAT(*checks.first_violation({4, 6, 5, 8}),
              HasSubstr("Expected input at x.shape[0] to be equal to 5, but got 4. If you meant"));
  EXPECT_THAT(*checks.first_violation({5, 6, 6, 8}),
              HasSubstr("Expected the input sizes to satisfy s2 % 5 == 0"));
  EXPECT_THAT(*checks.first_violation({5, 6, 5, 10}), HasSubstr("to be <= 9, but got 10"));
  EXPECT_EQ(checks.first_violation({5, 60, 10, 8}), std::nullopt);
  EXPECT_TRUE(c.size(1) == 6);
  EXPECT_THAT(
      c.dims.solve().message,
      HasSubstr("You marked L['x'].size()[1] as dynamic but your code specialized it to be a constant (6)"));
}

TEST(DynamicDims, congruences_of_one_dim_combine) {
  Capture c({{"x", 0, 22, Dim("d", {.max = 100})}});
  EXPECT_TRUE(mod(c.size(0), 4) == 2 && mod(c.size(0), 3) == 1);
  EXPECT_THAT(c.dims.solve().suggestions, ElementsAre("_d = Dim('_d', min=1, max=8)", "d = 12*_d - 2"));
}

TEST(DynamicDims, guards_over_several_dims_are_checked_at_run_time) {
  Capture c({{"x", 0, 4, Dim("a")}, {"x", 1, 6, Dim("b")}});
  EXPECT_TRUE(mod(c.size(0) * c.size(1), 8) == 0);
  InputChecks checks = checks_of(c.dims);
  EXPECT_EQ(checks.first_violation({2, 4}), std::nullopt);
  EXPECT_THAT(*checks.first_violation({3, 5}), HasSubstr("satisfy (s0*s1) % 8 == 0 (solver_test.cpp:"));
  EXPECT_THAT(*checks.first_violation({3, 5}), HasSubstr("but got s0 = 3, s1 = 5"));
}

TEST(DynamicDims, forcing_one_dim_bounds_the_other) {
  Capture c({{"x", 0, 3, Dim("a")}, {"x", 1, 4, Dim("b")}});
  EXPECT_TRUE(mod(c.size(1), c.size(0) - 1) == 0 && c.size(0) * c.size(1) <= 60);
  EXPECT_THAT(c.dims.solve().suggestions, ElementsAre("_b = Dim('_b', min=1, max=10)", "a = 3", "b = 2*_b"));
}

TEST(DynamicDims, a_slice_to_the_largest_integer_needs_no_guard) {  // test_export_slice_maxsize
  Capture c({{"x", 0, 10, Dim("dim")}});
  EXPECT_EQ(sym_min(c.size(0), INT64_MAX).str(), "s0");
  EXPECT_TRUE(c.size(0) < INT64_MAX && c.size(0) != INT64_MAX && c.size(0) + 1 <= INT64_MAX);
  EXPECT_TRUE(SymInt(INT64_MAX) > c.size(0));
  EXPECT_TRUE(c.env.guards().empty());
}

// ---- run-time checks ----

TEST(InputChecks, paths_and_bounds_as_torch_export_words_them) {  // test_non_strict_dynamic_shapes
  ShapeEnv env;
  SymInt s0 = env.create_symbol(5, "x", {.declared = {3}});
  InputChecks checks(
      env, {{"*args[0]", 0, s0}, {"*args[1][0]", 0, s0}, {"*args[2]['a']", 0, s0}, {"*args[3]", 0, 4}});
  EXPECT_EQ(*checks.first_violation({6, 5, 5, 4}),
            "Expected input at *args[1][0].shape[0] to be equal to 6, but got 5");
  EXPECT_THAT(*checks.first_violation({5, 5, 5, 6}),
              HasSubstr("Expected input at *args[3].shape[0] to be equal to 4, but got 6"));
  EXPECT_EQ(*checks.first_violation({2, 2, 2, 4}),
            "Expected input at *args[0].shape[0] to be >= 3, but got 2");
  EXPECT_EQ(checks.first_violation({7, 7, 7, 4}), std::nullopt);
  EXPECT_EQ(*checks.first_violation({7}), "Unexpected number of input sizes (expected 4, got 1)");
}

TEST(InputChecks, solves_for_the_symbols) {
  ShapeEnv env;
  SymInt a = env.create_symbol(5, "x"), b = env.create_symbol(7, "y");
  InputChecks checks(env, {{"p", 0, a * b}, {"x", 0, 2 * a + 1}, {"y", 0, b}, {"n", -1, a}});
  SymValues values = checks.solve({12, 9, 3, 4});
  EXPECT_EQ(env.evaluate(a + 10 * b, values), 34);
  EXPECT_EQ(*checks.first_violation({13, 9, 3, 4}),
            "Expected input at p.shape[0] to be equal to 12, but got 13");
  EXPECT_EQ(*checks.first_violation({12, 9, 3, 5}), "Expected input at n to be equal to 4, but got 5");
  SymInt gone = env.create_symbol(6, "z");
  EXPECT_TRUE(gone == a + 1);
  InputChecks after(env, {{"x", 0, a}});
  EXPECT_EQ(env.evaluate(gone * 2, after.solve({9})), 20) << "replaced symbols have values too";
  EXPECT_EQ(message_of([&] {
              checks.solve({12, 8, 3, 4});
            }),
            "Expected input x.shape[0] = 8 to be of the form 2*s0 + 1, where s0 is an integer");
}

}  // namespace
}  // namespace tern
