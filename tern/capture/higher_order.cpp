#include "tern/capture/higher_order.h"

#include "tern/base/format.h"
#include "tern/sym/shape_env.h"

namespace tern::capture {
namespace {

SymInt rounds(std::string_view name, ir::Operands groups, const std::vector<Value>& operands) {
  const Value& first = operands.at(groups.carried);
  SymInt count = first.tensor().sizes()[0];
  for (size_t i = groups.carried; i < groups.carried + groups.sliced; ++i) {
    const Tensor& t = operands[i].tensor();
    if (!(t.sizes()[0] == count))
      failf("{}: Leading dimensions of mapped xs must be consistent. Got shapes {} and {}.", name,
            str(first.tensor().sizes()), str(t.sizes()));
  }
  return count;
}

}  // namespace

std::vector<Value> body_operands(std::string_view name, ir::Operands groups,
                                 const std::vector<Value>& operands, ShapeEnv& shapes) {
  if (groups.carried + groups.sliced > operands.size())
    failf("{}: {} values are carried and {} gone over, but only {} are given", name, groups.carried,
          groups.sliced, operands.size());
  std::vector<Value> inside;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Value& v = operands[i];
    bool sliced = i >= groups.carried && i < groups.carried + groups.sliced;
    if (sliced) {
      if (!v.is_tensor() || v.tensor().dim() == 0)
        failf("{}: a tensor with at least one dimension is needed to go over its slices", name);
      const Tensor& t = v.tensor();
      inside.emplace_back(
          make_tensor(t.sizes().drop_front(1), t.strides().drop_front(1), t.dtype(), t.device(), true));
    } else if (v.is_tensor()) {
      const Tensor& t = v.tensor();
      inside.emplace_back(t.is_fake() ? t.shallow_copy()
                                      : make_tensor(t.sizes(), t.strides(), t.dtype(), t.device(), true));
    } else if (v.is_int() && i < groups.carried) {
      inside.emplace_back(shapes.create_unbacked_symint("carried"));
    } else {
      inside.push_back(v);
    }
  }
  if (groups.sliced) rounds(name, groups, operands);
  return inside;
}

Value result_of_body(std::string_view name, ir::Operands groups, const std::vector<Value>& operands, size_t k,
                     const Value& given, ShapeEnv& shapes) {
  if (k < groups.carried) {
    const Value& before = operands[k];
    if (before.is_int() && given.is_int()) return shapes.create_unbacked_symint("carried");
    if (!before.is_tensor() || !given.is_tensor())
      failf("{}: a {} is carried, but the body gives a {} for it", name, before.kind_name(),
            given.kind_name());
    const Tensor &s = before.tensor(), &t = given.tensor();
    bool same = s.dtype() == t.dtype() && s.dim() == t.dim();
    for (int64_t d = 0; same && d < s.dim(); ++d) same = s.sizes()[d] == t.sizes()[d];
    if (!same)
      failf(
          "{}: Expected carried inputs and body outputs to have the same metadata, but the {}. is {} of {} "
          "before and {} of {} after a round",
          name, k, str(s.sizes()), tern::name(s.dtype()), str(t.sizes()), tern::name(t.dtype()));
    return make_tensor(s.sizes(), s.dtype(), s.device(), true);
  }
  if (groups.sliced) {
    if (!given.is_tensor()) failf("{}: the body must give tensors, but gives a {}", name, given.kind_name());
    Dims sizes{rounds(name, groups, operands)};
    for (SymInt s : given.tensor().sizes()) sizes.push_back(s);
    return make_tensor(sizes, given.tensor().dtype(), given.tensor().device(), true);
  }
  return given;
}

Value either(std::string_view name, const Value& a, const Value& b, ShapeEnv& shapes) {
  if (a.is_tensor() != b.is_tensor())
    failf("{}: one branch gives a {}, the other a {}", name, a.kind_name(), b.kind_name());
  if (!a.is_tensor()) return a.is_int() ? Value(shapes.create_unbacked_symint(std::string(name))) : a;
  const Tensor &x = a.tensor(), &y = b.tensor();
  if (x.dtype() != y.dtype())
    failf("{}: the branches give tensors of {} and {}; convert one of them with to()", name,
          tern::name(x.dtype()), tern::name(y.dtype()));
  if (x.dim() != y.dim())
    failf("{}: the branches give tensors of shapes {} and {}", name, str(x.sizes()), str(y.sizes()));
  Dims sizes(x.sizes());
  for (size_t d = 0; d < sizes.size(); ++d)
    if (!surely_eq(sizes[d], y.sizes()[d])) {
      sizes[d] = shapes.create_unbacked_symint(std::string(name));
      shapes.check_is_size(sizes[d]);
    }
  return make_tensor(sizes, x.dtype(), x.device(), true);
}

}  // namespace tern::capture
