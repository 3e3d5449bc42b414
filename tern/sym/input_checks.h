// What a captured program asks of the sizes it is called with: rows made once, and the first one that a call
// violates, in the words of torch.export.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tern/base/span.h"
#include "tern/sym/shape_env.h"

namespace tern {

struct InputSize {
  std::string path;  // "*args[1][0]", "x"
  int64_t dim = -1;  // -1: the input is itself an integer
  SymInt size;
};

struct InputCheck {
  enum class Kind : uint8_t {
    equal_int,   // size == value
    solve,       // binds `symbol`: size = value·symbol + offset with an integer symbol
    equal_expr,  // size == expr, whose symbols are bound by then
    at_least,    // size >= value
    at_most,     // size <= value
    condition,   // a guard over several inputs; no size of its own
  };
  Kind kind;
  size_t input;  // index of the InputSize
  int64_t value = 0;
  int64_t offset = 0;
  SymInt symbol = 0;
  SymInt expr = 0;
  Loc loc = {};  // of a condition
};

class InputChecks {
 public:
  // `conditions`: DimReport::runtime_checks. The env must outlive this.
  InputChecks(ShapeEnv& env, std::vector<InputSize> inputs, Span<const Guard> conditions = {});

  const std::vector<InputSize>& inputs() const { return inputs_; }
  const std::vector<InputCheck>& rows() const { return rows_; }
  // `sizes` in the order of `inputs`. nullopt if all is well: "Expected input at x.shape[0] to be <= 7, but
  // got 8".
  std::optional<std::string> first_violation(Span<const int64_t> sizes) const;
  // Every symbol's value, also of those that an equality replaced; throws the first violation.
  SymValues solve(Span<const int64_t> sizes) const;

 private:
  std::optional<std::string> check(Span<const int64_t> sizes, SymValues& values) const;
  std::string place(const InputSize& input) const;

  ShapeEnv* env_;
  std::vector<InputSize> inputs_;
  std::vector<InputCheck> rows_;
  std::vector<std::pair<uint32_t, SymInt>> replaced_;  // symbol, by what
};

}  // namespace tern
