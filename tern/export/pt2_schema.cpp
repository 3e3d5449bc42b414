#include "tern/export/pt2_schema.h"

#include "tern/base/format.h"

namespace tern::pt2 {
namespace {

constexpr std::pair<DType, int> scalar_types[] = {
    {DType::uint8, 1},
    {DType::int8, 2},
    {DType::int16, 3},
    {DType::int32, 4},
    {DType::int64, 5},
    {DType::float16, 6},
    {DType::float32, 7},
    {DType::float64, 8},
    {DType::complex32, 9},
    {DType::complex64, 10},
    {DType::complex128, 11},
    {DType::bool_, 12},
    {DType::bfloat16, 13},
    {DType::uint16, 28},
    {DType::float8_e4m3fn, 29},
    {DType::float8_e5m2, 30},
    {DType::float8_e4m3fnuz, 31},
    {DType::float8_e5m2fnuz, 32},
    {DType::uint32, 34},
    {DType::uint64, 35},
};
constexpr std::pair<MemoryFormat, int> memory_formats[] = {
    {MemoryFormat::contiguous, 1},
    {MemoryFormat::channels_last, 2},
    {MemoryFormat::channels_last_3d, 3},
    {MemoryFormat::preserve, 4},
};
constexpr SymFunction sym_functions[] = {
    {"_operator.add", "aten::add", false},
    {"_operator.sub", "aten::sub", false},
    {"_operator.mul", "aten::mul", false},
    {"_operator.floordiv", "aten::floordiv", false},
    {"_operator.mod", "aten::remainder", false},
    {"_operator.truediv", "aten::div", false},
    {"_operator.pow", "aten::pow", false},
    {"_operator.neg", "aten::neg", false},
    {"_operator.pos", "aten::pos", false},
    {"_operator.lshift", "aten::__lshift__", false},
    {"_operator.rshift", "aten::__rshift__", false},
    {"_operator.eq", "aten::eq", true},
    {"_operator.ne", "aten::ne", true},
    {"_operator.lt", "aten::lt", true},
    {"_operator.le", "aten::le", true},
    {"_operator.gt", "aten::gt", true},
    {"_operator.ge", "aten::ge", true},
    {"_operator.and_", "aten::__and__", true},
    {"_operator.or_", "aten::__or__", true},
    {"torch.sym_not", "aten::__not__", true},
    {"torch.sym_max", "prim::max", false},
    {"torch.sym_min", "prim::min", false},
    {"torch.sym_float", "aten::Float", false},
    {"torch.sym_int", "aten::Int", false},
    {"torch.sym_sqrt", "aten::sqrt", false},
    {"torch._sym_sqrt", "aten::sqrt", false},
    {"math.trunc", "aten::trunc", false},
    {"torch.sym_ite", "prim::sym_ite", false},
    {"_operator.getitem", "aten::__getitem__", false},
};

}  // namespace

int scalar_type(DType dtype) {
  for (const auto& [d, code] : scalar_types)
    if (d == dtype) return code;
  failf(ErrorKind::not_supported, "a .pt2 file cannot say the dtype {}", name(dtype));
}
std::optional<DType> dtype_of_scalar_type(int64_t code) {
  for (const auto& [d, c] : scalar_types)
    if (c == code) return d;
  return std::nullopt;
}
int memory_format(MemoryFormat format) {
  for (const auto& [f, code] : memory_formats)
    if (f == format) return code;
  return 0;
}
std::optional<MemoryFormat> memory_format_of(int64_t code) {
  for (const auto& [f, c] : memory_formats)
    if (c == code) return f;
  return std::nullopt;
}

const SymFunction* sym_function_of_target(std::string_view target) {
  for (const SymFunction& f : sym_functions)
    if (f.target == target) return &f;
  return nullptr;
}
const SymFunction* sym_function_of_kind(std::string_view kind) {
  size_t colons = kind.find("::");
  if (colons == std::string_view::npos) return nullptr;
  std::string_view bare = kind.substr(0, kind.find('.', colons));
  for (const SymFunction& f : sym_functions) {
    if (f.builtin == bare) return &f;
    if (bare.starts_with("_operator::") && f.target.starts_with("_operator.") &&
        f.target.substr(10) == bare.substr(11))
      return &f;
  }
  return nullptr;
}

std::string target_of(std::string_view qualified) {
  size_t colons = qualified.find("::");
  if (colons == std::string_view::npos) return std::string(qualified);
  std::string_view ns = qualified.substr(0, colons), rest = qualified.substr(colons + 2);
  if (ns == "higher_order") return fmt::format("torch.ops.higher_order.{}", rest);
  size_t dot = rest.find('.');
  return dot == std::string_view::npos ? fmt::format("torch.ops.{}.{}.default", ns, rest)
                                       : fmt::format("torch.ops.{}.{}", ns, rest);
}

std::optional<std::string> qualified_of(std::string_view target) {
  constexpr std::string_view prefix = "torch.ops.";
  if (!target.starts_with(prefix)) return std::nullopt;
  std::string_view rest = target.substr(prefix.size());
  size_t first = rest.find('.');
  if (first == std::string_view::npos || first == 0) return std::nullopt;
  std::string_view ns = rest.substr(0, first);
  rest = rest.substr(first + 1);
  if (rest.empty()) return std::nullopt;
  size_t last = rest.rfind('.');
  if (last != std::string_view::npos && rest.substr(last + 1) == "default") rest = rest.substr(0, last);
  return fmt::format("{}::{}", ns, rest);
}

}  // namespace tern::pt2
