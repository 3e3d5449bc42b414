// The subcommands: their options, and a function each that gives the exit code.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tern/base/error.h"
#include "tern/jit/script_module.h"
#include "tern/runtime/session.h"

namespace tern::command {

struct Info {
  std::string model;
  bool json = false;
};
int run_info(const Info& options);

struct Code {
  std::string model, method = "forward", module;
  bool frozen = false, constants = false;
};
int run_code(const Code& options);

struct GraphText {
  std::string model, method = "forward", module;
  bool inlined = false, frozen = false, optimized = false;
  std::vector<std::string> inputs, shapes;  // then the types are what the shape rules give
};
int run_graph(const GraphText& options);

struct Convert {
  std::string from, to;
  std::string method = "forward";
  std::vector<std::string> inputs, shapes;  // of a .pt, which does not say them
  int64_t opset = 0;
  bool core = false;  // decomposed to core ATen first
  bool check = false;
};
int run_convert(const Convert& options);

struct Run {
  std::string model;
  std::string method = "forward";
  std::vector<std::string> inputs, shapes;
  std::string output, compare, backend = "native";
  double rtol = 1e-4, atol = 1e-5;
  int threads = 0;
  uint64_t seed = 0;
};
int run_run(const Run& options);

struct Check {
  std::string model;
};
int run_check(const Check& options);

struct Bench {
  std::string model;
  std::vector<std::string> backends = {"native"};
  std::vector<std::string> inputs, shapes;
  double seconds = 1;
  int threads = 0;
  bool profile = false;
};
int run_bench(const Bench& options);

struct Ops {
  std::string name;
  bool markdown = false;
};
int run_ops(const Ops& options);

// ---- shared ----
// What can be given to a model: names, types as far as they are known, and values for what nobody gives.
struct InputList {
  std::vector<std::string> names;
  std::vector<const ir::Type*> types;
  std::vector<std::optional<Value>> defaults;
};
InputList inputs_of(const Session& session);
InputList inputs_of(const jit::ScriptModule& module, const std::string& method);
// From files, literals (n=3) and shapes given by the user; what is left gets its default or random numbers of
// its type. A dynamic dim that nobody says gets the program's example size, or 2. A name in a shape (x:Nx3)
// is a symbol of `shapes` where that is given.
std::vector<Value> make_inputs(const InputList& list, const std::vector<std::string>& files,
                               const std::vector<std::string>& shapes, ShapeEnv* symbols = nullptr);
// The largest difference relative to tolerance, as numpy.allclose sees it.
struct Difference {
  double largest = 0;  // absolute
  bool close = true;
  std::string what;  // the first thing that is wrong
};
Difference compare(const std::string& name, const Tensor& got, const Tensor& expected, double rtol,
                   double atol);

// Files that are no models and inputs that do not fit are the user's: exit code 1, not 2.
template <class F>
auto as_usage(std::string_view option, F work) {
  try {
    return work();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::file && e.kind() != ErrorKind::value && e.kind() != ErrorKind::type) throw;
    throw Error(ErrorKind::usage, option.empty() ? e.message() : std::string(option) + ": " + e.message());
  }
}

// "float32[2, 3]"; "?" where it is not known.
std::string type_text(const ir::Type& type);
std::string bytes_text(double bytes);  // "3.1 MB"

// Prints what came out, writes --output and compares with --compare; gives the exit code.
int report_results(const Run& options, const std::vector<std::string>& names,
                   const std::vector<Value>& outputs, double seconds);

// .pt files of TorchScript, and checkpoints (script.cpp).
int script_info(const Info& options);
int checkpoint_info(const Info& options);
int script_check(const Check& options);
int script_run(const Run& options);
void need_method(const jit::ScriptModule& module, const std::string& method);  // throws Error(usage)

}  // namespace tern::command
