// Floats that a captured program computes from sizes and data: the functions there are, by the names that
// sympy and the graph have for them.
#pragma once
#include <cstdint>
#include <string_view>

namespace tern::sym {

enum class Real : uint8_t {
  to_float,    // of an integer
  int_divide,  // of two integers
  add,
  sub,
  mul,
  divide,
  floor_div,
  mod,  // Python's
  pow,
  neg,
  sqrt,
  min,
  max,
};

struct RealFunction {
  std::string_view name;  // "FloatTrueDiv"; of an infix one the operator
  const char* node;       // what computes it in a graph
  int arity;
  bool of_ints;
  double (*value)(double a, double b);
};
const RealFunction& real_function(Real f);

}  // namespace tern::sym
