// The subcommands: their options, and a function each that gives the exit code.
#pragma once
#include <string>
#include <vector>

#include "tern/runtime/session.h"

namespace tern::command {

struct Info {
  std::string model;
  bool json = false;
};
int run_info(const Info& options);

struct Convert {
  std::string from, to;
  int64_t opset = 0;
  bool check = false;
};
int run_convert(const Convert& options);

struct Run {
  std::string model;
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
  std::vector<std::string> shapes;
  double seconds = 1;
  int threads = 0;
};
int run_bench(const Bench& options);

struct Ops {
  std::string name;
  bool markdown = false;
};
int run_ops(const Ops& options);

// ---- shared ----
// Inputs for a session: from files and shapes given by the user; what is left gets random numbers of its
// type. A dynamic dim that nobody says gets the program's example size, or 2.
std::vector<Value> make_inputs(const Session& session, const std::vector<std::string>& files,
                               const std::vector<std::string>& shapes);
// The largest difference relative to tolerance, as numpy.allclose sees it.
struct Difference {
  double largest = 0;  // absolute
  bool close = true;
  std::string what;  // the first thing that is wrong
};
Difference compare(const std::string& name, const Tensor& got, const Tensor& expected, double rtol,
                   double atol);

}  // namespace tern::command
