// Dims bound to the sizes of example inputs, and the solver that holds them against the guards of a capture:
// every violation at once, with fixes that can be pasted.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tern/sym/dims.h"
#include "tern/sym/shape_env.h"

namespace tern {

struct InputDim {
  std::string source;  // "L['x'].size()[0]", for messages
  std::string path;    // "*args[0]" or "x": where the input is found at run time
  int64_t dim = 0;
  int64_t hint = 0;  // the example's size
  Dim spec = Dim::STATIC;
  SymInt size = 0;  // set by DynamicDims
};

struct SolveOptions {
  bool force_specializations = true;  // else relations too complex for Dims stay run-time checks
};

struct DimReport {
  std::string message;                   // empty: the dims hold
  std::vector<std::string> suggestions;  // "dim = Dim('dim', min=3, max=6)", in the order of the message
  std::vector<Guard> runtime_checks;     // guards that ranges and equalities do not express
  bool ok() const { return message.empty(); }
};

class DynamicDims {
 public:
  // Makes a symbol per root and an expression per input dim. Throws if the example does not fit the dims:
  // "2 not in range [3, int_oo]", "Expected input … to be equal to 2*dimx, where dimx = 5, but got 6".
  DynamicDims(ShapeEnv& env, std::vector<InputDim> inputs, Loc loc = Loc::here());

  const std::vector<InputDim>& inputs() const { return inputs_; }
  DimReport solve(SolveOptions options = {}) const;
  std::vector<Guard> require(
      SolveOptions options = {}) const;  // throws the report's message; gives its run-time checks

  struct Root {
    Dim dim = Dim::STATIC;
    std::string source;  // of the first input dim that is the root itself; empty if there is none
    int64_t hint = 0;
    SymInt value = 0;
  };
  const std::vector<Root>& roots() const { return roots_; }
  ShapeEnv& env() const { return *env_; }

 private:
  Root& root_of(const Dim& dim);
  void find_roots();
  void create_symbols(Loc loc);

  ShapeEnv* env_;
  std::vector<InputDim> inputs_;
  std::vector<Root> roots_;
  std::map<std::string, size_t> root_index_;
};

}  // namespace tern
