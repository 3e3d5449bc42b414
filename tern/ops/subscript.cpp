#include "tern/ops/subscript.h"

#include "tern/base/format.h"
#include "tern/dispatch/recording.h"
#include "tern/ops.h"

namespace tern {
namespace {

struct Part {
  Tensor view;                  // what numbers and slices leave
  std::vector<Tensor> indices;  // of tensors, by dimension of the view; empty if there is none
};

Part take(const Tensor& x, std::initializer_list<Index> all, Loc loc) {
  int64_t used = 0;
  bool has_dots = false;
  for (const Index& i : all) {
    if (i.kind == Index::tensor)
      used += i.indices.dtype() == kBool ? i.indices.dim() : 1;
    else
      used += i.kind == Index::number || i.kind == Index::slice;
    if (i.kind == Index::dots && std::exchange(has_dots, true))
      fail(ErrorKind::index, "an index can only have a single ellipsis ('...')");
  }
  if (used > x.dim()) failf(ErrorKind::index, "too many indices for tensor of dimension {}", x.dim());
  Part part{x, {}};
  int64_t d = 0;
  for (const Index& i : all) switch (i.kind) {
      case Index::number:
        part.view = part.view.select(d, i.at, loc);
        break;
      case Index::slice:
        part.view = part.view.slice(d++, i.range.start, i.range.stop, i.range.step, loc);
        break;
      case Index::dots:
        d += x.dim() - used;
        break;
      case Index::new_dimension:
        part.view = part.view.unsqueeze(d++, loc);
        break;
      case Index::tensor:
        part.indices.resize(static_cast<size_t>(d));
        part.indices.push_back(i.indices);
        d += i.indices.dtype() == kBool ? i.indices.dim() : 1;
        break;
    }
  return part;
}

}  // namespace

Tensor subscript(const Tensor& x, std::initializer_list<Index> indices, Loc loc) {
  Part part = take(x, indices, loc);
  return part.indices.empty() ? part.view : tern::index(part.view, part.indices, loc);
}

void assign(const Tensor& x, std::initializer_list<Index> indices, const Operand& value, Loc loc) {
  Part part = take(x, indices, loc);
  Tensor v = value.tensor;
  if (v->wrapped_number && part.indices.empty()) {
    part.view.fill_(read_scalar(v), loc);
    return;
  }
  if (v->wrapped_number) v = tern::full({}, read_scalar(v), part.view.dtype());
  int64_t ones = 0;
  while (ones < v.dim() && v->sizes[ones].is_int() && v->sizes[ones].as_int() == 1) ++ones;
  bool fits = part.indices.empty() && v.dim() <= part.view.dim();
  if (ones > 0 && !fits) v = v.view(Span<const SymInt>(v->sizes).drop_front(static_cast<size_t>(ones)), loc);
  if (part.indices.empty())
    part.view.copy_(v, loc);
  else
    tern::index_put_(part.view, part.indices, v, false, loc);
}

std::vector<Tensor> each_row(const Tensor& x, Loc loc) {
  note_left(x, "rows");
  return x.unbind(0, loc);
}

}  // namespace tern
