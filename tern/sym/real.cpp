#include "tern/sym/real.h"

#include <algorithm>
#include <cmath>

namespace tern::sym {
namespace {

double floored_remainder(double a, double b) {
  double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// In the order of Real.
constexpr RealFunction functions[] = {
    {"ToFloat", "aten::Float", 1, true, [](double a, double) { return a; }},
    {"IntTrueDiv", "aten::div.int", 2, true, [](double a, double b) { return a / b; }},
    {" + ", "aten::add.float", 2, false, [](double a, double b) { return a + b; }},
    {" - ", "aten::sub.float", 2, false, [](double a, double b) { return a - b; }},
    {"*", "aten::mul.float", 2, false, [](double a, double b) { return a * b; }},
    {"FloatTrueDiv", "aten::div.float", 2, false, [](double a, double b) { return a / b; }},
    {"FloatFloorDiv", "aten::floordiv.float", 2, false, [](double a, double b) { return std::floor(a / b); }},
    {"PythonMod", "aten::remainder.float", 2, false, floored_remainder},
    {"FloatPow", "aten::pow.float", 2, false, [](double a, double b) { return std::pow(a, b); }},
    {"-", "aten::neg.float", 1, false, [](double a, double) { return -a; }},
    {"OpaqueUnaryFn_sqrt", "aten::sqrt", 1, false, [](double a, double) { return std::sqrt(a); }},
    {"Min", "prim::min.float", 2, false, [](double a, double b) { return std::min(a, b); }},
    {"Max", "prim::max.float", 2, false, [](double a, double b) { return std::max(a, b); }},
};

}  // namespace

const RealFunction& real_function(Real f) { return functions[static_cast<size_t>(f)]; }

}  // namespace tern::sym
