// The builtins that torch.nn.functional.interpolate and its relatives were before they became scripts: old
// files call them. They do what the scripts do.
#include "tern/base/error.h"
#include "tern/ir/builtin_families.h"
#include "tern/script/compile.h"
#include "tern/script/unit.h"

namespace tern::ir {
namespace {

using namespace builtin;

constexpr const char* text = R"script(
def interpolate(input: Tensor, size: Optional[List[int]], scale_factor: Optional[List[float]], mode: str, align_corners: Optional[bool], recompute_scale_factor: Optional[bool]) -> Tensor:
    return F.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor)
)script";

// One number stands for a list of it; scales are floats.
V as_list(Args in, size_t i, bool scales) {
  if (in.size() <= i || in[i].is_none()) return {};
  std::vector<V> items = in[i].is_list() ? in[i].items() : std::vector<V>{in[i]};
  for (V& item : items)
    if (scales) item = V(item.to_double());
  return V::list(std::move(items), scales ? Type::floating() : Type::integer());
}
V at(Args in, size_t i) { return in.size() > i ? in[i] : V(); }

V resized(Args in, V mode, V align_corners, V recompute) {
  static const Shared<script::Function> f = script::compile_function(text);
  return f->call(std::vector<V>{in[0], as_list(in, 1, false), as_list(in, 2, true),
                                mode.is_none() ? V("nearest") : std::move(mode), std::move(align_corners),
                                std::move(recompute)});
}

}  // namespace

V builtin::old_interpolate(Args in) {
  need(in, 1, 7, "__interpolate");
  if (in.size() > 6 && truth(in[6])) fail("Antialias is not yet supported");
  return resized(in, at(in, 3), at(in, 4), at(in, 5));
}
V builtin::old_upsample(Args in) {
  need(in, 1, 5, "__upsample");
  return resized(in, at(in, 3), at(in, 4), {});
}
V builtin::old_upsample_bilinear(Args in) {
  need(in, 1, 3, "__upsample_bilinear");
  return resized(in, V("bilinear"), V(true), {});
}
V builtin::old_upsample_nearest(Args in) {
  need(in, 1, 3, "__upsample_nearest");
  return resized(in, V("nearest"), {}, {});
}

}  // namespace tern::ir
