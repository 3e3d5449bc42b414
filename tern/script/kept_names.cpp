#include "tern/script/kept_names.h"

#include <string>
#include <unordered_map>

namespace tern::script {
namespace {

// By the name without aten::; in-place forms end in _ on both sides.
const std::unordered_map<std::string_view, std::string_view>& kept_names() {
  static const std::unordered_map<std::string_view, std::string_view> names = {
      {"absolute", "abs"},
      {"adjoint", "mH"},
      {"arccos", "acos"},
      {"arccosh", "acosh"},
      {"arcsin", "asin"},
      {"arcsinh", "asinh"},
      {"arctan", "atan"},
      {"arctan2", "atan2"},
      {"arctanh", "atanh"},
      {"clip", "clamp"},
      {"concat", "cat"},
      {"concatenate", "cat"},
      {"det", "linalg_det"},
      {"divide", "div"},
      {"fix", "trunc"},
      {"ger", "outer"},
      {"greater", "gt"},
      {"greater_equal", "ge"},
      {"inverse", "linalg_inv"},
      {"less", "lt"},
      {"less_equal", "le"},
      {"linalg_matmul", "matmul"},
      {"matrix_exp", "linalg_matrix_exp"},
      {"matrix_power", "linalg_matrix_power"},
      {"moveaxis", "movedim"},
      {"multiply", "mul"},
      {"negative", "neg"},
      {"not_equal", "ne"},
      {"orgqr", "linalg_householder_product"},
      {"row_stack", "vstack"},
      {"special_digamma", "digamma"},
      {"special_erf", "erf"},
      {"special_erfc", "erfc"},
      {"special_erfinv", "erfinv"},
      {"special_exp2", "exp2"},
      {"special_expit", "sigmoid"},
      {"special_expm1", "expm1"},
      {"special_gammainc", "igamma"},
      {"special_gammaincc", "igammac"},
      {"special_gammaln", "lgamma"},
      {"special_i0", "i0"},
      {"special_log1p", "log1p"},
      {"special_log_softmax", "log_softmax"},
      {"special_logit", "logit"},
      {"special_logsumexp", "logsumexp"},
      {"special_multigammaln", "mvlgamma"},
      {"special_polygamma", "polygamma"},
      {"special_psi", "digamma"},
      {"special_round", "round"},
      {"special_sinc", "sinc"},
      {"special_softmax", "softmax"},
      {"special_xlogy", "xlogy"},
      {"subtract", "sub"},
      {"swapaxes", "transpose"},
      {"swapdims", "transpose"},
      {"true_divide", "div"},
  };
  return names;
}

bool same_types(const Schema& a, const Schema& b) {
  if (a.args.size() != b.args.size()) return false;
  for (size_t i = 0; i < a.args.size(); ++i)
    if (a.args[i].type.str() != b.args[i].type.str() || a.args[i].keyword_only != b.args[i].keyword_only)
      return false;
  return true;
}

}  // namespace

const Op& kept_name(const Op& op) {
  const Schema& schema = op.schema();
  std::string_view name = schema.name.view();
  if (!name.starts_with("aten::")) return op;
  name.remove_prefix(6);
  std::string kept;
  bool in_place = name.ends_with("_");
  if (auto it = kept_names().find(in_place ? name.substr(0, name.size() - 1) : name);
      it != kept_names().end())
    kept = std::string(it->second) + (in_place ? "_" : "");
  if (name == "rsub" && schema.overload.view() == "Tensor") kept = "sub";
  if (kept.empty()) return op;
  for (const Op* other : overloads(Symbol("aten::" + kept)))
    if (same_types(schema, other->schema())) return *other;
  return op;
}

}  // namespace tern::script
