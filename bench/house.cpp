// The C++ side of `make bench`: a server that times one thing a line. bench/run.py asks it in turns with
// PyTorch, so that both meet the same noise. A line is "NAME COUNT"; the answer is seconds a call.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <string>

#include "../examples/mlp.h"
#include "../examples/resnet.h"
#include "../examples/transformer.h"
#include "tern/io/file.h"

namespace {

using namespace tern;
using Body = Function<void()>;

template <class Net>
struct Lane {
  Net net;
  NamedValues named;
  DynamicShapes dynamic;
  std::vector<Value> inputs;
};

template <class Net>
void add_lane(std::map<std::string, Body>& table, const std::string& name, std::shared_ptr<Lane<Net>> lane,
              std::shared_ptr<io::TemporaryDir> dir) {
  lane->net.eval();
  table["trace_" + name] = [=] {
    NoGrad no_grad;
    benchmark::DoNotOptimize(jit::trace(lane->net, lane->inputs, {.check_trace = false}));
  };
  table["export_" + name] = [=] {
    benchmark::DoNotOptimize(export_program(lane->net, lane->named, {.dynamic = lane->dynamic}));
  };
  table["onnx_" + name] = [=] {
    onnx::save(export_program(lane->net, lane->named, {.dynamic = lane->dynamic}),
               *dir / (name + "_bench.onnx"));
  };
  ExportedProgram program = export_program(lane->net, lane->named, {.dynamic = lane->dynamic});
  for (const char* backend : {"native", "onnxrt"}) {
    auto session = std::make_shared<Session>(program, SessionOptions{.backend = backend});
    table[std::string("run_") + backend + "_" + name] = [=] {
      benchmark::DoNotOptimize(session->run(Span<const Value>(lane->inputs)));
    };
  }
}

}  // namespace

int main() {
  std::map<std::string, Body> table;
  auto dir = std::make_shared<io::TemporaryDir>();
  Tensor a = ones({4}), b = ones({4});
  table["add4"] = [=] { benchmark::DoNotOptimize(add(a, b)); };
  {
    auto lane = std::make_shared<Lane<examples::MLP>>();
    Tensor x = randn({4, 8});
    lane->inputs = {x};
    lane->named = {{"x", x}};
    lane->dynamic = {{"x", {{0, Dim("batch", {.max = 4096})}}}};
    add_lane(table, "mlp", lane, dir);
  }
  {
    auto lane = std::make_shared<Lane<examples::ResNet>>();
    Tensor x = randn({4, 3, 16, 16});
    lane->inputs = {x};
    lane->named = {{"x", x}};
    lane->dynamic = {{"x", {{0, Dim("batch", {.max = 256})}}}};
    add_lane(table, "resnet", lane, dir);
  }
  {
    auto lane = std::make_shared<Lane<examples::Transformer>>();
    Tensor x = randint(examples::Transformer::vocabulary, {3, 7}), padding = zeros({3, 7}, kBool);
    Dim batch("batch", {.max = 256}), length("length", {.max = 64});
    lane->inputs = {x, padding};
    lane->named = {{"x", x}, {"padding", padding}};
    lane->dynamic = {{"x", {{0, batch}, {1, length}}}, {"padding", {{0, batch}, {1, length}}}};
    add_lane(table, "transformer", lane, dir);
  }
  for (int nodes : {1, 10}) {
    auto chain = [nodes](Tensor x) {
      for (int i = 0; i < nodes; ++i) x = x.neg();
      return x;
    };
    auto session = std::make_shared<Session>(export_program(chain, {{"x", a}}));
    std::vector<Value> inputs{a};
    table["session" + std::to_string(nodes)] = [=] {
      benchmark::DoNotOptimize(session->run(Span<const Value>(inputs)));
    };
  }
  std::string name;
  long count;
  while (std::cin >> name >> count) {
    auto it = table.find(name);
    if (it == table.end()) {
      std::printf("unknown\n");
    } else {
      it->second();
      auto start = std::chrono::steady_clock::now();
      for (long i = 0; i < count; ++i) it->second();
      std::printf("%.12f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
                                 static_cast<double>(count));
    }
    std::fflush(stdout);
  }
}
