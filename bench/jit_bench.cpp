// The C++ side of `make bench-jit`: a server that times one thing a line, in turns with PyTorch
// (bench/jit.py). A line is "WHAT FILE COUNT"; the answer is seconds a call. The inputs of a model are those
// it was traced with, random.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "../examples/mlp.h"
#include "../examples/resnet.h"
#include "../examples/transformer.h"
#include "tern/export/script.h"
#include "tern/jit/archive.h"
#include "tern/script/compile.h"

namespace {

using namespace tern;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class F>
double seconds(long count, F&& f) {
  double start = now();
  for (long i = 0; i < count; ++i) f();
  return (now() - start) / static_cast<double>(count);
}

std::vector<Value> inputs_of(const jit::ScriptModule& module) {
  std::vector<Value> inputs;
  for (const Value& v : module.traced_inputs()) {
    if (!v.is_tensor()) {
      inputs.push_back(v);
      continue;
    }
    Dims sizes(v.tensor().sizes());
    DType d = v.tensor().dtype();
    inputs.push_back(is_floating(d) ? randn(sizes).to(d) : randint(2, sizes).to(d));
  }
  return inputs;
}

template <class Net>
double time_trace(const std::vector<Value>& inputs, long count) {
  Net net;
  net.eval();
  auto trace = [&] { benchmark::DoNotOptimize(jit::trace(net, inputs, {.check_trace = false})); };
  trace();
  return seconds(count, trace);
}

double answer(const std::string& what, const std::string& file, long count) {
  NoGrad no_grad;
  if (what == "trace") {
    if (file == "mlp") return time_trace<examples::MLP>({randn({4, 8})}, count);
    if (file == "resnet") return time_trace<examples::ResNet>({randn({4, 3, 16, 16})}, count);
    return time_trace<examples::Transformer>(
        {randint(examples::Transformer::vocabulary, {3, 7}), zeros({3, 7}, kBool)}, count);
  }
  if (what == "compile") {
    std::ifstream in(file);
    std::stringstream text;
    text << in.rdbuf();
    std::string source = text.str();
    return seconds(count, [&] { benchmark::DoNotOptimize(script::compile_function(source)); });
  }
  if (what == "load") return seconds(count, [&] { benchmark::DoNotOptimize(jit::load(file)); });
  if (what == "first" || what == "second") {
    // The first call of a fresh module each time; the second follows it.
    double total = 0;
    for (long i = 0; i < count; ++i) {
      jit::ScriptModule module = jit::load(file);
      std::vector<Value> inputs = inputs_of(module);
      if (what == "second") module.forward(inputs);
      double start = now();
      benchmark::DoNotOptimize(module.forward(inputs));
      total += now() - start;
    }
    return total / static_cast<double>(count);
  }
  jit::ScriptModule module = jit::load(file);
  std::vector<Value> inputs = inputs_of(module);
  if (what == "call") {
    module.forward(inputs);
    return seconds(count, [&] { benchmark::DoNotOptimize(module.forward(inputs)); });
  }
  Session session(from_script(module), {.backend = "native"});
  session.run(Span<const Value>(inputs));
  return seconds(count, [&] { benchmark::DoNotOptimize(session.run(Span<const Value>(inputs))); });
}

}  // namespace

int main() {
  std::string what, file;
  long count;
  while (std::cin >> what >> file >> count) {
    try {
      std::printf("%.12f\n", answer(what, file, count));
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s %s: %s\n", what.c_str(), file.c_str(), e.what());
      std::printf("nan\n");
    }
    std::fflush(stdout);
  }
}
