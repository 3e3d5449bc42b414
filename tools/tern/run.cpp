// tern run, tern bench.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "commands.h"
#include "tern/base/format.h"
#include "tern/jit/archive.h"
#include "tern/ops.h"
#include "tern/runtime/model_file.h"
#include "tern/tensor/files.h"
#include "tern/tensor/generator.h"

namespace tern::command {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// NumPy has no bfloat16 and no float8; safetensors has no complex128.
void save_results(const std::string& path, const TensorMap& results) {
  path.ends_with(".safetensors") ? save_safetensors(path, results) : save_npz(path, results);
}

// The least time of each step over some runs.
void print_profile(const Session& session, const std::vector<Value>& inputs) {
  std::vector<StepTime> best = session.profile(inputs);
  for (int i = 0; i < 20; ++i) {
    std::vector<StepTime> times = session.profile(inputs);
    for (size_t k = 0; k < times.size(); ++k) best[k].seconds = std::min(best[k].seconds, times[k].seconds);
  }
  double all = 0;
  for (const StepTime& t : best) all += t.seconds;
  std::printf("\n%10s %6s  step\n", "us", "share");
  for (const StepTime& t : best)
    std::printf("%10.2f %5.1f%%  %s\n", t.seconds * 1e6, 100 * t.seconds / all, t.step.c_str());
}

}  // namespace

int run_run(const Run& options) {
  manual_seed(options.seed);
  if (format_of_file(options.model) == ModelFormat::pt) return script_run(options);
  if (options.method != "forward") fail(ErrorKind::usage, "--method: only .pt files have methods");
  Session session(load_model(options.model), {.backend = options.backend, .threads = options.threads});
  std::vector<Value> inputs = make_inputs(inputs_of(session), options.inputs, options.shapes);
  double start = now();
  std::vector<Value> outputs = as_usage("", [&] { return session.run(inputs); });
  double seconds = now() - start;
  return report_results(options, session.output_names(), outputs, seconds);
}

int report_results(const Run& options, const std::vector<std::string>& names,
                   const std::vector<Value>& outputs, double seconds) {
  TensorMap results;
  std::vector<std::string> called;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Value& v = outputs[i];
    called.push_back(names[i].empty() ? fmt::format("output_{}", i) : names[i]);
    if (v.is_tensor()) {
      const Tensor& t = results[called[i]] = v.tensor();
      std::printf("%s: %s%s\n", called[i].c_str(), std::string(name(t.dtype())).c_str(),
                  str(t.sizes()).c_str());
    } else {
      if (v.is_number()) results[called[i]] = scalar_tensor(v.scalar(), v.scalar().dtype());
      std::printf("%s: %s\n", called[i].c_str(), v.str().c_str());
    }
  }
  std::printf("ran in %.3f ms on %s\n", seconds * 1e3, options.backend.c_str());
  if (!options.output.empty()) as_usage("--output", [&] { save_results(options.output, results); });
  if (options.compare.empty()) return 0;

  TensorMap expected = as_usage("--compare", [&] { return load_tensors(options.compare); });
  bool close = true;
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto result = results.find(called[i]);
    if (result == results.end()) continue;  // None
    auto it = expected.find(called[i]);
    if (it == expected.end()) it = expected.find(fmt::format("output_{}", i));
    if (it == expected.end() && !outputs[i].is_tensor()) continue;  // who saves tensors need not save numbers
    if (it == expected.end())
      failf(ErrorKind::usage, "{}: neither '{}' nor 'output_{}' is in it", options.compare, called[i], i);
    Difference d = tern::command::compare(called[i], result->second, it->second, options.rtol, options.atol);
    std::printf("%s: largest difference %g%s\n", called[i].c_str(), d.largest, d.close ? "" : "  DIFFERS");
    if (!d.close) std::printf("  %s\n", d.what.c_str());
    close &= d.close;
  }
  return close ? 0 : 3;
}

int run_bench(const Bench& options) {
  ExportedProgram program = load_model(options.model);
  struct Lane {
    std::string name;
    Session session;
    std::vector<double> times = {};
  };
  std::vector<Lane> lanes;
  for (const std::string& b : options.backends)
    lanes.push_back({b, Session(program, {.backend = b, .threads = options.threads})});
  InputList list = inputs_of(lanes[0].session);
  if (format_of_file(options.model) == ModelFormat::pt) list = inputs_of(jit::load(options.model), "forward");
  std::vector<Value> inputs = make_inputs(list, options.inputs, options.shapes);
  for (Lane& lane : lanes) as_usage("", [&] { return lane.session.run(inputs); });
  // In turns, so that a noisy moment meets all of them.
  double end = now() + options.seconds * static_cast<double>(lanes.size());
  do {
    for (Lane& lane : lanes) {
      double start = now();
      lane.session.run(inputs);
      lane.times.push_back(now() - start);
    }
  } while (now() < end);
  std::printf("%-12s %12s %12s %8s\n", "backend", "best ms", "median ms", "runs");
  for (Lane& lane : lanes) {
    std::sort(lane.times.begin(), lane.times.end());
    std::printf("%-12s %12.4f %12.4f %8zu\n", lane.name.c_str(), lane.times.front() * 1e3,
                lane.times[lane.times.size() / 2] * 1e3, lane.times.size());
  }
  if (options.profile) print_profile(lanes[0].session, inputs);
  return 0;
}

}  // namespace tern::command
