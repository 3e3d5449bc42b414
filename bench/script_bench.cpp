// What the interpreter and the compiler of scripts cost, a line each: name, then nanoseconds.
//   script_bench [pytorch.pt]
#include <chrono>
#include <cstdio>
#include <string>

#include "tern/script/compile.h"
#include "tern/tern.h"

using namespace tern;
using Clock = std::chrono::steady_clock;

namespace {

double nanoseconds(Clock::time_point from) {
  return std::chrono::duration<double, std::nano>(Clock::now() - from).count();
}

// The best of five runs, for one of `count` things that a run does.
template <class F>
double best(double count, F f) {
  double least = 1e300;
  for (int k = 0; k < 5; ++k) {
    Clock::time_point start = Clock::now();
    f();
    least = std::min(least, nanoseconds(start) / count);
  }
  return least;
}

std::string long_source(int lines) {
  std::string text = "def f(x: int, l: List[int]) -> int:\n  y = x\n";
  for (int k = 0; k < lines / 5; ++k) {
    text += "  if y > " + std::to_string(k) + ":\n    y = y - 1\n  else:\n    y = y * 2 + l[0]\n";
    text += "  l.append(y)\n";
  }
  return text + "  return y\n";
}

}  // namespace

int main() {
  // A loop of integer nodes: add, compare, branch.
  auto loop = script::compile_function(
      "def f(n: int) -> int:\n  s = 0\n  for i in range(n):\n    s = s + i * 2 - 1\n  return s\n");
  Value n[] = {Value(100000)};
  loop->call(n);
  std::printf("interpreter_int_node %.1f\n", best(3 * 100000.0, [&] { loop->call(n); }));

  std::string chain = "def f(x: Tensor) -> Tensor:\n";
  for (int k = 0; k < 1000; ++k) chain += "  x = torch.relu(x)\n";
  auto tensors = script::compile_function(chain + "  return x\n");
  Value x[] = {Value(ones({4}))};
  NoGrad no_grad;
  tensors->call(x);
  std::printf("interpreter_tensor_node %.1f\n", best(1000, [&] { tensors->call(x); }));
  Tensor t = ones({4});
  std::printf("eager_relu %.1f\n", best(1000, [&] {
                Tensor y = t;
                for (int k = 0; k < 1000; ++k) y = relu(y);
              }));

  for (int lines : {1000, 5000, 20000}) {
    std::string source = long_source(lines);
    std::printf("compile_line_of_%d %.1f\n", lines, best(lines, [&] { script::compile_function(source); }));
  }
}
