// The budget of the IR: 10^6 nodes build in 0.3 s, any linear pass in 1 s, at most 250 bytes a node, and at
// most 100 ns a node of interpretation over a trivial kernel.
#include <benchmark/benchmark.h>

#include <memory>

#include "tern/dispatch/op.h"
#include "tern/ir/interpreter.h"
#include "tern/ir/pass.h"
#include "tern/ir/text.h"
#include "tern/ir/verify.h"

namespace tern::ir {
namespace {

// A chain of additions with a side branch every fourth node; a quarter of them are equal, a few are dead.
Owned<Graph> build(int64_t n) {
  auto g = new_owned<Graph>();
  Value& x = g->add_input(Type::tensor(), "x");
  const Op& add = get_op("aten::add.Tensor");
  const Type* type = Type::tensor({.dtype = kFloat, .sizes = Dims{2, 3}});
  Value *last = &x, *other = &x;
  for (int64_t i = 0; i < n; ++i) {
    In in[] = {*last, *other};
    Value& v = g->call(add, in, type).output();
    if (i % 4 == 3) other = last;
    if (i % 4 != 1) last = &v;
  }
  g->add_output(*last);
  return g;
}

void Build(benchmark::State& state) {
  size_t bytes = 0;
  for (auto _ : state) {
    auto g = build(state.range(0));
    bytes = g->bytes();
    state.PauseTiming();
    g.reset();
    state.ResumeTiming();
  }
  state.counters["bytes_per_node"] = static_cast<double>(bytes) / static_cast<double>(state.range(0));
}
void Print(benchmark::State& state) {
  auto g = build(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(print(*g));
}
void Parse(benchmark::State& state) {
  std::string text = print(*build(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(parse(text));
}
void Verify(benchmark::State& state) {
  auto g = build(state.range(0));
  for (auto _ : state) verify(*g);
}
void Clone(benchmark::State& state) {
  auto g = build(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(g->clone());
}
void Pass(benchmark::State& state, const char* name) {
  for (auto _ : state) {
    state.PauseTiming();
    auto g = build(state.range(0));
    state.ResumeTiming();
    run_pass(*g, name);
    state.PauseTiming();
    g.reset();
    state.ResumeTiming();
  }
}
void Prepare(benchmark::State& state) {
  auto g = build(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(Program(*g));
}

// The interpreter over a kernel that only hands its input on.
void Interpret(benchmark::State& state) {
  static const Op& pass_on = define("bench::pass(Tensor x, int k=1) -> Tensor",
                                    {.kernel = [](const Arg* a, tern::Value* r) { r[0] = a[0].tensor(); }});
  Graph g;
  Value* last = &g.add_input(Type::tensor(), "x");
  for (int64_t i = 0; i < state.range(0); ++i) {
    In in[] = {*last};
    last = &g.call(pass_on, in).output();
  }
  g.add_output(*last);
  Program program(g);
  tern::Value x = tensor({1.f, 2.f});
  for (auto _ : state) benchmark::DoNotOptimize(program.run({&x, 1}));
  state.counters["ns_per_node"] =
      benchmark::Counter(static_cast<double>(state.range(0)) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

#define SIZES ->Arg(10'000)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond)
BENCHMARK(Build) SIZES;
BENCHMARK(Print) SIZES;
BENCHMARK(Parse) SIZES;
BENCHMARK(Verify) SIZES;
BENCHMARK(Clone) SIZES;
BENCHMARK_CAPTURE(Pass, dce, "dce") SIZES;
BENCHMARK_CAPTURE(Pass, cse, "cse") SIZES;
BENCHMARK_CAPTURE(Pass, peephole, "peephole") SIZES;
BENCHMARK(Prepare) SIZES;
BENCHMARK(Interpret)->Arg(1000);

}  // namespace
}  // namespace tern::ir
