// The tern command: what goes in, what comes out, conversion, running, checking, timing. Each subcommand is a
// function in its own file; this one holds the options and turns errors into exit codes.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "commands.h"
#include "tern/base/error.h"

namespace {

constexpr const char* exit_codes =
    "Exit codes: 0 good, 1 wrong usage, 2 unreadable or invalid model, 3 numbers differ, 4 not supported.";

int code_of(const tern::Error& e) {
  switch (e.kind()) {
    case tern::ErrorKind::usage:
      return 1;
    case tern::ErrorKind::not_supported:
      return 4;
    default:
      return 2;
  }
}

const CLI::Validator not_negative(
    [](const std::string& text) -> std::string {
      double n = 0;
      bool good = CLI::detail::lexical_cast(text, n) && n >= 0;
      return good ? "" : "expected a number that is not negative, got " + text;
    },
    "");

}  // namespace

int main(int argc, char** argv) {
  using namespace tern::command;
  CLI::App app{
      "tern: capture, convert, run and train PyTorch-style models\n"
      "Models are .pt2 (torch.export), .pt (TorchScript) and .onnx files; `info` and `check` read\n"
      "checkpoints of torch.save as well.\n"};
  app.footer(exit_codes);
  app.require_subcommand(1);
  app.set_version_flag("--version", "tern 0.1.0");
  int result = 0;

  Info info;
  CLI::App* sub = app.add_subcommand("info", "what goes in, what comes out, dims, operators, weights");
  sub->add_option("model", info.model, "the file")->required();
  sub->add_flag("--json", info.json, "for programs");
  sub->footer(
      "Examples:\n  tern info net.pt2\n  tern info net.onnx --json\n  tern info net.pt\n  tern info "
      "checkpoint.pth");
  sub->callback([&] { result = run_info(info); });

  Code code;
  sub =
      app.add_subcommand("code", "the source of a method: TorchScript of .pt, a torch.fx listing of others");
  sub->add_option("model", code.model, "the file")->required();
  sub->add_option("method", code.method, "of a .pt")->capture_default_str();
  sub->add_option("--module", code.module, "a submodule of a .pt: encoder.layers.0");
  sub->add_flag("--frozen", code.frozen, "of a .pt after freezing: weights are constants");
  sub->add_flag("--constants", code.constants, "of a .pt: what CONSTANTS.c0, ... are");
  sub->footer(
      "Examples:\n  tern code net.pt\n  tern code net.pt encode --module encoder.layers.0\n  tern code "
      "net.pt2");
  sub->callback([&] { result = run_code(code); });

  GraphText graph;
  sub = app.add_subcommand("graph", "the graph of a method as text");
  sub->add_option("model", graph.model, "the file")->required();
  sub->add_option("method", graph.method, "of a .pt")->capture_default_str();
  sub->add_option("--module", graph.module, "a submodule of a .pt: encoder.layers.0");
  sub->add_flag("--inlined", graph.inlined, "with the methods that are called put in place");
  sub->add_flag("--optimized", graph.optimized, "inlined, without dead code, duplicates and no-ops");
  sub->add_flag("--frozen", graph.frozen,
                "of a .pt in evaluation: its attributes are constants, layers folded");
  sub->add_option("--shapes", graph.shapes,
                  "of a .pt, inlined: the types for inputs of these sizes: x:1x3x224x224, x:Nx3x224x224");
  sub->add_option("--input", graph.inputs, "the same for an input that is no tensor: n=3");
  sub->footer(
      "Examples:\n  tern graph net.pt\n  tern graph net.pt forward --inlined\n  tern graph net.pt --frozen "
      "--shapes x:Nx3x32x32\n  tern graph net.onnx");
  sub->callback([&] { result = run_graph(graph); });

  Convert convert;
  sub = app.add_subcommand("convert", "any format to any other");
  sub->add_option("from", convert.from, "the model")->required();
  sub->add_option("to", convert.to, "the file to write: .pt2, .pt or .onnx")->required();
  sub->add_option("--opset", convert.opset, "of .onnx, 18 to 23")->check(CLI::Range(18, 23));
  sub->add_option("--shapes", convert.shapes,
                  "of a .pt's inputs: x:1x3x224x224; a name is a dynamic size: x:Nx3x224x224");
  sub->add_option("--input", convert.inputs, "examples of a .pt's inputs: FILE.npz, name=FILE.npy, or n=3");
  sub->add_option("--method", convert.method, "of a .pt")->capture_default_str();
  sub->add_flag("--core", convert.core, "decompose to core ATen first, as PyTorch's run_decompositions()");
  sub->add_flag("--check", convert.check, "run both on random input and print the largest difference");
  sub->footer(
      "Examples:\n  tern convert net.pt2 net.onnx --check\n  tern convert net.onnx net.pt2\n"
      "  tern convert net.pt net.onnx --shapes x:Nx3x224x224\n"
      "  tern convert net.pt net.pt2 --input inputs.npz --check\n"
      "A traced .pt keeps the sizes it was traced with; they are used where --shapes says nothing.");
  sub->callback([&] { result = run_convert(convert); });

  Run run;
  sub = app.add_subcommand("run", "run a model on inputs from files or on random ones");
  sub->add_option("model", run.model, "the file")->required();
  sub->add_option(
      "--input", run.inputs,
      "FILE.npz with the inputs' names or input_0, input_1, ...; name=FILE.npy; n=3 for a number");
  sub->add_option("--shapes", run.shapes, "random input of that shape: x:1x3x224x224");
  sub->add_option("--method", run.method, "of a .pt")->capture_default_str();
  sub->add_option("--output", run.output,
                  "where the results go, an .npz; a .safetensors has bfloat16 and float8, too");
  sub->add_option("--compare", run.compare, "an .npz or .safetensors with the expected results");
  sub->add_option("--rtol", run.rtol, "relative tolerance")->capture_default_str()->check(not_negative);
  sub->add_option("--atol", run.atol, "absolute tolerance")->capture_default_str()->check(not_negative);
  const CLI::IsMember known_backend({"native", "onnxrt", "interpreter"});
  sub->add_option("--backend", run.backend, "native, onnxrt or interpreter")
      ->capture_default_str()
      ->check(known_backend);
  sub->add_option("--threads", run.threads, "0: as many as there are")->check(not_negative);
  sub->add_option("--seed", run.seed, "of random input")->capture_default_str();
  sub->footer(
      "Examples:\n  tern run net.onnx --input x=x.npy --output y.npz\n"
      "  tern run net.pt2 --input inputs.npz --compare outputs.npz --rtol 1e-4\n"
      "  tern run net.pt --method encode --shapes x:1x80x3000 --input n=3");
  sub->callback([&] { result = run_run(run); });

  Check check;
  sub = app.add_subcommand("check", "what is invalid, where, and why");
  sub->add_option("model", check.model, "the file")->required();
  sub->footer("Example:\n  tern check net.onnx");
  sub->callback([&] { result = run_check(check); });

  Bench bench;
  sub = app.add_subcommand("bench", "time a model on one or more backends, interleaved");
  sub->add_option("model", bench.model, "the file")->required();
  sub->add_option("--backend", bench.backends, "separated by commas")
      ->delimiter(',')
      ->capture_default_str()
      ->check(known_backend);
  sub->add_option("--shapes", bench.shapes, "x:1x3x224x224; by default the example's or the least allowed");
  sub->add_option("--input", bench.inputs, "FILE.npz, name=FILE.npy, or n=3 for a number");
  sub->add_option("--seconds", bench.seconds, "for each backend; 0: one run")
      ->capture_default_str()
      ->check(not_negative);
  sub->add_option("--threads", bench.threads, "0: as many as there are")->check(not_negative);
  sub->add_flag("--profile", bench.profile, "also the time of each step of the native engine");
  sub->footer("Example:\n  tern bench net.onnx --backend native,onnxrt");
  sub->callback([&] { result = run_bench(bench); });

  Ops ops;
  sub = app.add_subcommand("ops", "the operators: dtypes, gradient, in-place and out= forms, ONNX");
  sub->add_option("name", ops.name, "one of them, with all overloads: add, aten::add, add.Tensor");
  sub->add_flag("--markdown", ops.markdown, "the table as docs/operators.md has it");
  sub->footer("Examples:\n  tern ops\n  tern ops layer_norm\n  tern ops --markdown > docs/operators.md");
  sub->callback([&] { result = run_ops(ops); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::string word = argc > 1 ? argv[1] : "";
    if (!word.empty() && word[0] != '-' &&
        app.get_subcommands([&](const CLI::App* a) { return a->get_name() == word; }).empty())
      std::fprintf(stderr, "tern: there is no command '%s'; `tern --help` lists them\n", word.c_str());
    else
      app.exit(e);
    return 1;
  } catch (const tern::Error& e) {
    std::fprintf(stderr, "tern: %s\n", e.what());
    return code_of(e);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tern: %s\n", e.what());
    return 2;
  }
  return result;
}
