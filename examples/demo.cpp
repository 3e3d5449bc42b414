// The demo: three networks are defined and trained in C++, captured, saved in three formats, loaded again and
// run on every engine; the table at the end says how far the numbers are from the network itself.
#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <tuple>

#include "mlp.h"
#include "resnet.h"
#include "transformer.h"

namespace {

using namespace tern;

struct Row {
  std::string model, format, engine;
  double difference, milliseconds;
  long bytes;
};

double largest_difference(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

long file_size(const std::string& path) {
  struct stat s;
  return stat(path.c_str(), &s) == 0 ? s.st_size : -1;
}

template <class F>
double best_milliseconds(F&& f) {
  double best = INFINITY;
  for (int i = 0; i < 20; ++i) {
    auto start = std::chrono::steady_clock::now();
    f();
    best = std::min(
        best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

// Everything after training, the same for every network.
template <class Net, class... Inputs>
void travel(const std::string& name, Net& net, const std::tuple<Inputs...>& inputs, const NamedValues& named,
            const DynamicShapes& dynamic, const std::string& folder, std::vector<Row>& rows) {
  net.eval();
  NoGrad no_grad;
  Tensor expected = std::apply([&](const auto&... x) { return nn::call(net, x...); }, inputs);
  std::string base = folder + "/" + name;

  ExportedProgram program = export_program(net, named, {.dynamic = dynamic});
  save(program, base + ".pt2");
  onnx::save(program, base + ".onnx");
  std::vector<Value> values = std::apply([](const auto&... x) { return std::vector<Value>{x...}; }, inputs);
  jit::trace(net, values).save(base + ".pt");
  std::printf("  saved %s.pt2, .onnx and .pt\n", base.c_str());

  for (const char* format : {"pt2", "onnx", "pt"}) {
    std::string path = base + "." + format;
    ExportedProgram loaded = load_model(path);
    for (const char* engine : {"native", "interpreter", "onnxrt"}) {
      try {
        Session session(loaded, {.backend = engine});
        Tensor got = session.run(Span<const Value>(values))[0].tensor();
        double ms = best_milliseconds([&] { session.run(Span<const Value>(values)); });
        rows.push_back({name, format, engine, largest_difference(got, expected), ms, file_size(path)});
      } catch (const Error& e) {
        if (std::string(engine) != "onnxrt" || e.kind() != ErrorKind::not_supported) throw;
        std::printf("  %s on onnxrt: %s\n", path.c_str(), e.what());
      }
    }
  }
}

void show_training(const char* name, const std::vector<double>& losses) {
  std::printf("%s: %zu steps of training, loss", name, losses.size());
  for (size_t i = 0; i < losses.size(); i += std::max<size_t>(losses.size() / 5, 1))
    std::printf(" %.4f", losses[i]);
  std::printf(" -> %.4f\n", losses.back());
  if (!(losses.back() < losses.front())) fail(std::string(name) + ": the loss did not fall");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::string folder = argc > 1 ? argv[1] : ".";
    std::vector<Row> rows;
    {
      manual_seed(0);
      examples::MLP net;
      show_training("mlp", examples::train(net));
      Dim batch("batch", {.max = 4096});
      Tensor x = randn({4, 8});
      travel("mlp", net, std::tuple(x), {{"x", x}}, {{"x", {{0, batch}}}}, folder, rows);
    }
    {
      manual_seed(0);
      examples::ResNet net;
      show_training("resnet", examples::train(net));
      Dim batch("batch", {.max = 256});
      Tensor x = randn({4, 3, 16, 16});
      travel("resnet", net, std::tuple(x), {{"x", x}}, {{"x", {{0, batch}}}}, folder, rows);
    }
    {
      manual_seed(0);
      examples::Transformer net;
      show_training("transformer", examples::train(net));
      Dim batch("batch", {.max = 256}), length("length", {.max = 64});
      Tensor x = randint(examples::Transformer::vocabulary, {3, 7}), padding = zeros({3, 7}, kBool);
      travel("transformer", net, std::tuple(x, padding), {{"x", x}, {"padding", padding}},
             {{"x", {{0, batch}, {1, length}}}, {"padding", {{0, batch}, {1, length}}}}, folder, rows);
    }
    std::printf("\n%-12s %-6s %-12s %14s %10s %10s\n", "model", "format", "engine", "largest diff", "ms",
                "bytes");
    bool good = true;
    for (const Row& r : rows) {
      std::printf("%-12s %-6s %-12s %14.3g %10.4f %10ld\n", r.model.c_str(), r.format.c_str(),
                  r.engine.c_str(), r.difference, r.milliseconds, r.bytes);
      good &= r.difference < 1e-4;
    }
    std::printf("\n%s\n", good ? "demo: every format on every engine gives the network's numbers"
                               : "demo: numbers differ");
    return good ? 0 : 1;
  } catch (const tern::Error& e) {
    std::fprintf(stderr, "demo: %s\n", e.what());
    return 1;
  }
}
