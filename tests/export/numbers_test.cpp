// Floats inside a program: item() of a float tensor, and what is computed from sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/export/checks.h"
#include "tern/export/export.h"
#include "tern/ops.h"
#include "tern/runtime/session.h"
#include "tern/tensor/sym_number.h"
#include "tests/support/python.h"
#include "tests/support/torch_programs.h"

namespace tern {
namespace {

using ::tern::testing::expect_close;
using ::tern::testing::reload;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Tensor row(int64_t n) { return arange(n).to(kFloat) * 0.75 - 1; }

struct Case {
  const char* name;
  Tensor (*f)(Tensor x, Tensor y);
  const char* code;  // a part of the program
};

const Case from_data[] = {
    {"argument", [](Tensor x, Tensor y) { return y * x.item(); }, "mul.Tensor(y, item)"},
    {"arithmetic", [](Tensor x, Tensor y) { return y * (x.item() * 2.0 + 1); }, "add = mul + 1.0"},
    {"reversed", [](Tensor x, Tensor y) { return y * (3 / x.item()) + (1 - x.item()); }, "1.0 - item"},
    {"negative", [](Tensor x, Tensor y) { return y + -x.item(); }, "neg = -item"},
    {"power", [](Tensor x, Tensor y) { return y + sym_pow(x.item(), 2); }, "item ** 2.0"},
    {"root", [](Tensor x, Tensor y) { return y * sym_sqrt(x.item()); }, "sym_sqrt(item)"},
    {"remainder", [](Tensor x, Tensor y) { return y + sym_mod(x.item(), 0.7); }, "item % 0.7"},
    {"quotient", [](Tensor x, Tensor y) { return y + sym_floor_div(x.item(), 0.7); }, "item // 0.7"},
    {"largest", [](Tensor x, Tensor y) { return y + sym_max(x.item(), 2.0); }, "sym_max(item, 2.0)"},
    {"whole", [](Tensor x, Tensor y) { return y + sym_int(x.item()); }, "trunc = "},
    {"absolute", [](Tensor x, Tensor y) { return y + sym_abs(x.item() - 4); }, "sym_max"},
    {"full", [](Tensor x, Tensor) { return full({2}, x.item()); }, "full.default([2], item"},
    {"clamp", [](Tensor x, Tensor y) { return clamp(y, x.item()); }, "clamp.default(y, item)"},
    {"alpha", [](Tensor x, Tensor y) { return add(y, y, x.item()); }, "alpha = item"},
    {"exponent", [](Tensor x, Tensor y) { return pow(y + 3, x.item()); }, "pow.Tensor_Scalar("},
    {"slope", [](Tensor x, Tensor y) { return leaky_relu(y, x.item()); }, "leaky_relu.default(y, item)"},
    {"fill", [](Tensor x, Tensor y) { return masked_fill(y, y > 0, x.item()); }, "masked_fill.Scalar("},
    {"comparison", [](Tensor x, Tensor y) { return (y > x.item()).to(kFloat); }, "gt.Scalar(y, item)"},
    {"two numbers", [](Tensor x, Tensor y) { return y * (x.item() * y.sum().item()); },
     "mul = item_1 * item"},
    {"with a size", [](Tensor x, Tensor y) { return y * (x.item() * Scalar(y.size(0))); }, "sym_float"},
};

const Case from_sizes[] = {
    {"half", [](Tensor, Tensor y) { return y * (Scalar(y.size(0)) / 2); }, "sym_size_int / 2"},
    {"root", [](Tensor, Tensor y) { return y / sym_sqrt(y.size(0)); }, "sym_sqrt"},
    {"power", [](Tensor, Tensor y) { return y * sym_pow(y.size(0), 0.5); }, "sym_float ** 0.5"},
    {"float", [](Tensor, Tensor y) { return y * sym_float(y.size(0)); }, "sym_float(sym_size_int)"},
    {"reciprocal", [](Tensor, Tensor y) { return y * (1.0 / Scalar(y.size(0))); }, "1.0 / sym_float"},
    {"factor", [](Tensor, Tensor y) { return y + Scalar(y.size(0)) * 0.3; }, "sym_float * 0.3"},
    {"part", [](Tensor, Tensor y) { return zeros(Dims{sym_int(Scalar(y.size(0)) * 0.3).sym()}); }, "trunc"},
};

ExportedProgram exported(const Case& c) {
  return export_program(c.f, {{"x", tensor(1.5)}, {"y", row(5)}}, {.dynamic = {{"y", {{0, Dim("n")}}}}});
}

TEST(NumbersInPrograms, FloatsStayOpen) {
  for (Span<const Case> cases : {Span<const Case>(from_data), Span<const Case>(from_sizes)})
    for (const Case& c : cases) {
      SCOPED_TRACE(c.name);
      ExportedProgram p = exported(c);
      EXPECT_THAT(p.code(), HasSubstr(c.code));
      for (ExportedProgram q : {p, reload(p), p.run_decompositions()})
        for (double x : {1.5, 2.25})
          for (int64_t n : {5, 8}) {
            Tensor wanted = c.f(tensor(x), row(n));
            expect_close(q.module()(tensor(x), row(n)), wanted);
            expect_close(Session(q).run({tensor(x), row(n)})[0], wanted);
          }
    }
}

TEST(NumbersInPrograms, TorchRunsThem) {
  TERN_NEEDS_PYTHON(python, "torch");
  ::tern::testing::TorchRun run;
  for (Span<const Case> cases : {Span<const Case>(from_data), Span<const Case>(from_sizes)})
    for (const Case& c : cases) run.add(exported(c), {{tensor(1.5), row(5)}, {tensor(2.25), row(8)}});
  run.expect_agreement(python);
}

TEST(NumbersInPrograms, TheyPrintAsInPyTorch) {
  auto f = [](Tensor x, Tensor y) {
    Scalar s = x.item(), n = y.size(0);
    Tensor out = y;
    for (Scalar v : {s * 2.0 + 1, 1 - s, s / 3, sym_pow(s, 2), sym_max(s, 1.0), n / 2, n * 0.5, -s})
      out = out + v;
    return out;
  };
  std::string text =
      export_program(f, {{"x", tensor(1.5)}, {"y", row(5)}}, {.dynamic = {{"y", {{0, Dim("n")}}}}}).str();
  for (const char* line :
       {"item: \"Sym(zuf0)\"", "mul: \"Sym(2.0*zuf0)\"", "\"Sym(2.0*zuf0 + 1.0)\"", "\"Sym(1.0 - zuf0)\"",
        "\"Sym(FloatTrueDiv(zuf0, 3.0))\"", "\"Sym(FloatPow(zuf0, 2.0))\"", "\"Sym(Max(1.0, zuf0))\"",
        "\"Sym(IntTrueDiv(s0, 2))\"", "\"Sym(0.5*ToFloat(s0))\"", "\"Sym(-zuf0)\""})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(NumbersInPrograms, AreResults) {
  auto f = [](Tensor x, Tensor y) { return std::pair(x.item() * 2, y + 1); };
  ExportedProgram p = export_program(f, {{"x", tensor(1.5)}, {"y", row(3)}});
  for (ExportedProgram q : {p, reload(p), p.run_decompositions()})
    EXPECT_EQ(q.module()(tensor(2.25), row(3)).items()[0].to_double(), 4.5);
  ::tern::testing::expect_torch_agrees(p, {{tensor(2.25), row(3)}});
}

TEST(NumbersInPrograms, WhatTheProgramCannotKnowIsRefused) {
  auto message = [](Tensor (*f)(Tensor)) {
    try {
      export_program(f, {{"x", tensor(1.5)}});
    } catch (const Error& e) {
      return e.message();
    }
    return std::string("exported");
  };
  EXPECT_THAT(message([](Tensor x) { return x.item() > 1 ? x : -x; }),
              HasSubstr("Could not guard on data-dependent expression zuf0 > 1.0 (unhinted: zuf0 > 1.0)."));
  EXPECT_THAT(
      message([](Tensor x) { return x * x.item<double>(); }),
      ::testing::AllOf(HasSubstr("Could not guard on data-dependent expression zuf0 (unhinted: zuf0)."),
                       HasSubstr("Caused by: numbers_test.cpp:")));
  EXPECT_THAT(message([](Tensor x) { return dropout(x, x.item().to_double(), true); }),
              HasSubstr("Could not guard on data-dependent expression zuf0"));
}

TEST(NumbersInPrograms, ChecksBecomeAssertions) {
  auto f = [](Tensor x, Tensor y) {
    Scalar s = x.item();
    check(sym_gt(s, 0));
    return s > 0 ? y * s : y;
  };
  ExportedProgram p = export_program(f, {{"x", tensor(1.5)}, {"y", row(3)}});
  expect_close(p.module()(tensor(2.0), row(3)), row(3) * 2);
  EXPECT_THAT([&] { p.module()(tensor(-2.0), row(3)); },
              ThrowsMessage<Error>(HasSubstr("Runtime assertion failed for expression zuf0 > 0.0")));
}

TEST(NumbersInPrograms, AFloatOfASizeThatIsAskedFixesTheSize) {
  auto f = [](Tensor x) { return Scalar(x.size(0)) / 2 > 1.5 ? x : -x; };
  EXPECT_THAT(
      [&] {
        export_program(f, {{"x", ones({3})}}, {.dynamic = {{"x", {{0, Dim("n")}}}}});
      },
      ThrowsMessage<Error>(HasSubstr("Suggested fixes:\n  n = 3")));
  ExportedProgram p = export_program(f, {{"x", ones({3})}}, {.dynamic = {{"x", {{0, Dim::AUTO}}}}});
  EXPECT_THROW(p.module()(ones({4})), Error);
}

TEST(NumbersInPrograms, ABoolIsABool) {
  auto f = [](Tensor x, Tensor y) { return y + x.item(); };
  ExportedProgram p = export_program(f, {{"x", tensor(true)}, {"y", ones({2}).to(kBool)}});
  EXPECT_THAT(p.str(), HasSubstr("item: \"Sym(Eq(u0, 1))\""));
  for (ExportedProgram q : {p, reload(p), p.run_decompositions()}) {
    Tensor got = q.module()(tensor(false), zeros({2}).to(kBool)).tensor();
    EXPECT_EQ(got.dtype(), kBool);
    EXPECT_FALSE(got.any().item<bool>());
  }
  ::tern::testing::expect_torch_agrees(p, {{tensor(true), zeros({2}).to(kBool)}});
}

}  // namespace
}  // namespace tern
