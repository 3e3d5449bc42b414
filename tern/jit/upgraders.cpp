#include "tern/jit/upgraders.h"

#include <cstring>

#include "tern/base/format.h"
#include "tern/script/compile.h"
#include "tern/script/unit.h"

namespace tern::jit {
namespace {

// An operator before `changed_at` did what the function of that name in `sources` does; an empty name: the
// same.
struct Change {
  std::string_view op;
  int changed_at;
  std::string_view function;
};
constexpr Change changes[] = {
    {"aten::div.Tensor", 4, "div_tensor"},
    {"aten::div.Scalar", 4, "div_scalar"},
    {"aten::div_.Tensor", 4, "div_tensor_in_place"},
    {"aten::div_.Scalar", 4, "div_scalar_in_place"},
    {"aten::div.out", 4, "div_out"},
    {"aten::div.Tensor_mode", 4, {}},
    {"aten::div.Scalar_mode", 4, {}},
    {"aten::div_.Tensor_mode", 4, {}},
    {"aten::div_.Scalar_mode", 4, {}},
    {"aten::div.out_mode", 4, {}},
    {"aten::full", 5, "full"},
    {"aten::full.out", 5, {}},
    {"aten::linspace", 8, {}},
    {"aten::linspace.out", 8, {}},
    {"aten::logspace", 9, {}},
    {"aten::logspace.out", 9, {}},
    {"aten::gelu", 10, {}},
    {"aten::gelu.out", 10, {}},
};

// Division of integers gave an integer, cut off; full() of an integer gave floats.
constexpr std::string_view sources = R"(
def div_tensor(a: Tensor, b: Tensor) -> Tensor:
  if torch.is_floating_point(a) or torch.is_floating_point(b):
    r = torch.div(a, b)
  else:
    r = torch.div(a, b, rounding_mode="trunc")
  return r
def div_tensor_in_place(a: Tensor, b: Tensor) -> Tensor:
  if torch.is_floating_point(a) or torch.is_floating_point(b):
    r = torch.div_(a, b)
  else:
    r = torch.div_(a, b, rounding_mode="trunc")
  return r
def div_out(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
  if torch.is_floating_point(a) or torch.is_floating_point(b) or torch.is_floating_point(out):
    r = torch.div(a, b, out=out)
  else:
    r = torch.div(a, b, rounding_mode="trunc", out=out)
  return r
def div_int(a: Tensor, b: int) -> Tensor:
  if torch.is_floating_point(a):
    r = torch.div(a, b)
  else:
    r = torch.div(a, b, rounding_mode="trunc")
  return r
def div_int_in_place(a: Tensor, b: int) -> Tensor:
  if torch.is_floating_point(a):
    r = torch.div_(a, b)
  else:
    r = torch.div_(a, b, rounding_mode="trunc")
  return r
def div_number(a: Tensor, b: number) -> Tensor:
  if torch.is_floating_point(a) or isinstance(b, (float, complex)):
    r = torch.div(a, b)
  else:
    r = torch.div(a, b, rounding_mode="trunc")
  return r
def div_number_in_place(a: Tensor, b: number) -> Tensor:
  if torch.is_floating_point(a) or isinstance(b, (float, complex)):
    r = torch.div_(a, b)
  else:
    r = torch.div_(a, b, rounding_mode="trunc")
  return r
def full_float(size: List[int], value: number, dtype: Optional[int], layout: Optional[int], device: Optional[Device], pin_memory: Optional[bool]) -> Tensor:
  return torch.full(size, float(value), layout=layout, device=device, pin_memory=pin_memory)
def full_any(size: List[int], value: number, dtype: Optional[int], layout: Optional[int], device: Optional[Device], pin_memory: Optional[bool]) -> Tensor:
  if dtype is None:
    r = torch.full(size, float(value), layout=layout, device=device, pin_memory=pin_memory)
  else:
    r = torch.full(size, value, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
  return r
)";

// Which of the functions a call needs; empty: none, it means the same today.
std::string_view function_of(const Change& change, const ir::Node& node) {
  if (change.function == "div_scalar" || change.function == "div_scalar_in_place") {
    bool in_place = change.function == "div_scalar_in_place";
    const ir::Type* type = node.input(1).type();
    if (type->is(ir::TypeKind::float_) || type->is(ir::TypeKind::complex_)) return {};
    if (type->is(ir::TypeKind::int_) || type->is(ir::TypeKind::bool_))
      return in_place ? "div_int_in_place" : "div_int";
    return in_place ? "div_number_in_place" : "div_number";
  }
  if (change.function == "full") {
    const ir::Operand& dtype = node.input(2);
    if (dtype.is_constant()) return dtype.is_none() ? "full_float" : std::string_view();
    return "full_any";
  }
  return change.function;
}

const Change* change_of(const ir::Node& node) {
  std::string_view kind = node.kind().view();
  if (!kind.starts_with("aten::div") && !kind.starts_with("aten::full") && !kind.starts_with("aten::lins") &&
      !kind.starts_with("aten::logs") && !kind.starts_with("aten::gelu"))
    return nullptr;
  std::string name = node.qualified();
  for (const Change& c : changes)
    if (c.op == name) return &c;
  return nullptr;
}

const ir::Graph& old_meaning(std::string_view function) {
  static const Shared<script::Unit>* unit =
      new Shared<script::Unit>(script::compile(sources, {.name = "<operator upgrade>"}));
  return (*unit)->find_function(Symbol(function))->graph();
}

void replace(ir::Graph& graph, ir::Node& node, const ir::Graph& meaning) {
  ir::ValueMap map;
  for (size_t i = 0; i < meaning.inputs().size(); ++i)
    map.emplace(meaning.inputs()[i], ir::In(node.input(i)));
  std::vector<ir::In> results;
  {
    ir::InsertAt here(node);
    results = graph.inline_block(meaning.top(), map);
  }
  graph.replace_all_uses(node.output(), results[0]);
  graph.erase(node);
}

void upgrade(ir::Graph& graph, ir::Block& block, int version) {
  for (ir::Node& node : block) {
    for (ir::Block* b : node.blocks()) upgrade(graph, *b, version);
    const Change* c = change_of(node);
    if (!c || version >= c->changed_at) continue;
    if (std::string_view function = function_of(*c, node); !function.empty())
      replace(graph, node, old_meaning(function));
  }
}

int needed(const ir::Block& block) {
  int version = least_written;
  for (const ir::Node& node : block) {
    if (const Change* c = change_of(node)) version = std::max(version, c->changed_at);
    for (const ir::Block* b : node.blocks()) version = std::max(version, needed(*b));
  }
  return version;
}

// The end of the argument that begins at `from`: a comma or the closing parenthesis outside of anything
// nested.
size_t end_of_argument(std::string_view text, size_t from) {
  int depth = 0;
  for (size_t i = from; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      if (depth-- == 0) return i;
    } else if (c == ',' && depth == 0) {
      return i;
    }
  }
  return std::string_view::npos;
}

}  // namespace

void upgrade(ir::Graph& graph, int version) {
  if (version < newest_version) upgrade(graph, graph.top(), version);
}

int needed_version(const ir::Graph& graph) { return needed(graph.top()); }

void upgrade_source(std::string& text, int version) {
  if (version >= 9 || !memmem(text.data(), text.size(), "space(", 6)) return;
  for (auto [call, changed_at] :
       {std::pair{std::string_view("torch.linspace("), 8}, {"torch.logspace(", 9}}) {
    if (version >= changed_at) continue;
    for (size_t at = text.find(call); at != std::string::npos; at = text.find(call, at + 1)) {
      size_t end = at + call.size() - 1;
      int given = 0;
      for (; given < 2 && end != std::string::npos && (given == 0 || text[end] == ','); ++given)
        end = end_of_argument(text, end + 1);
      if (end == std::string::npos || given < 2) continue;
      size_t third = text[end] == ',' ? text.find_first_not_of(" \n", end + 1) : std::string::npos;
      size_t stop = third == std::string::npos ? third : end_of_argument(text, third);
      bool positional =
          stop != std::string::npos && text.substr(third, stop - third).find('=') == std::string::npos;
      if (!positional)
        text.insert(end, ", 100");
      else if (text.compare(third, 4, "None") == 0 && third + 4 == stop)
        text.replace(third, 4, "100 ");
    }
  }
}

}  // namespace tern::jit
