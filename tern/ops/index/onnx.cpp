// Indexing and scattering in ONNX: advanced indexing becomes GatherND and ScatterND over stacked positions.
#include <cmath>

#include "tern/onnx/lower.h"

namespace tern::onnx {

namespace {

struct Indexed {
  std::vector<Ref> positions;  // int64, of equal rank after broadcasting
  std::vector<int64_t> dims;   // which dims of self they are for
  int64_t rank = 0;            // of the broadcast positions
};

// Masks become the positions of their true elements.
Indexed read_indices(Call& c) {
  Indexed in;
  std::vector<Ref> given = c.tensors(1);
  int64_t d = 0;
  for (const Ref& r : given) {
    if (!r) {
      ++d;
      continue;
    }
    if (r.dtype == DType::bool_ || r.dtype == DType::uint8) {
      if (r.rank < 1) c.refuse("a mask of an unknown number of dimensions cannot be expressed");
      Ref where = c.emit("NonZero", {c.cast(r, DType::bool_)}, {}, DType::int64);
      for (int64_t k = 0; k < r.rank; ++k) {
        Ref one =
            c.emit("Gather", {where, c.constant(Scalar(k), kLong)}, {Attribute::of("axis", int64_t{0})});
        one.rank = 1;
        in.positions.push_back(one);
        in.dims.push_back(d++);
      }
    } else {
      if (r.rank < 0) c.refuse("an index of an unknown number of dimensions cannot be expressed");
      Ref wide = c.cast(r, DType::int64);
      in.positions.push_back(wide);
      in.dims.push_back(d++);
    }
    in.rank = std::max<int64_t>(in.rank, in.positions.back().rank);
  }
  if (in.positions.empty()) c.refuse("there is no index");
  return in;
}

// [*broadcast, number of indexed dims]
Ref stacked(Call& c, const Indexed& in) {
  std::vector<Ref> parts = in.positions;
  if (parts.size() > 1) {
    Ref sum = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) sum = c.emit("Add", {sum, parts[i]});
    Ref shape = c.shape(sum);
    for (Ref& p : parts) p = c.emit("Expand", {p, shape});
  }
  for (Ref& p : parts) p = c.unsqueeze(p, {-1});
  return parts.size() == 1 ? parts[0] : c.emit("Concat", Inputs(parts), {Attribute::of("axis", int64_t{-1})});
}

bool adjacent(const std::vector<int64_t>& dims) {
  for (size_t i = 1; i < dims.size(); ++i)
    if (dims[i] != dims[i - 1] + 1) return false;
  return true;
}

// Indexed dims first, the others behind in order.
std::vector<int64_t> indexed_first(const Indexed& in, int64_t rank) {
  std::vector<int64_t> perm = in.dims;
  for (int64_t d = 0; d < rank; ++d) {
    bool indexed = false;
    for (int64_t i : in.dims) indexed = indexed || i == d;
    if (!indexed) perm.push_back(d);
  }
  return perm;
}

bool is_identity(const std::vector<int64_t>& perm) {
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<int64_t>(i)) return false;
  return true;
}

void lower_index(Call& c) {
  std::vector<Ref> given = c.tensors(1);
  Ref self = c.tensor(0);
  size_t count = 0, only = 0;
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i]) ++count, only = i;
  if (count == 0) return c.set(self);
  if (count == 1 && given[only].dtype != DType::bool_ && given[only].dtype != DType::uint8) {
    Ref index = given[only].dtype == DType::int32 ? given[only] : c.cast(given[only], DType::int64);
    return c.set(c.emit("Gather", {self, index}, {Attribute::of("axis", static_cast<int64_t>(only))}));
  }
  Indexed in = read_indices(c);
  int64_t rank = c.rank(0), taken = static_cast<int64_t>(in.dims.size());
  std::vector<int64_t> perm = indexed_first(in, rank);
  Ref y = c.emit("GatherND", {is_identity(perm) ? self : c.transpose(self, perm), stacked(c, in)});
  // The result has the broadcast dims in front; where the indexed dims stand together they go there.
  if (adjacent(in.dims) && in.dims[0] > 0) {
    std::vector<int64_t> back;
    for (int64_t d = 0; d < in.dims[0]; ++d) back.push_back(in.rank + d);
    for (int64_t d = 0; d < in.rank; ++d) back.push_back(d);
    for (int64_t d = in.dims[0]; d < rank - taken; ++d) back.push_back(in.rank + d);
    y = c.transpose(y, back);
  }
  c.set(y);
}

void lower_index_put(Call& c) {
  Ref self = c.tensor(0), values = c.cast(c.tensor(2), self.dtype);
  bool accumulate = c.flag(3);
  int64_t rank = c.rank(0);
  std::vector<Ref> given = c.tensors(1);
  bool one_value = values.rank == 0;
  if (c.type(2)->has_sizes()) {
    one_value = true;
    for (SymInt s : c.type(2)->sizes()) one_value = one_value && s.maybe_int() == 1;
  }
  if (given.size() == 1 && given[0] && given[0].dtype == DType::bool_ && one_value && !accumulate &&
      given[0].rank >= 0) {
    std::vector<int64_t> axes;
    for (int64_t d = given[0].rank; d < rank; ++d) axes.push_back(d);
    Ref mask = axes.empty() ? given[0] : c.unsqueeze(given[0], axes);
    Ref value = values.rank > 0 ? c.emit("Reshape", {values, c.constant(std::vector<int64_t>{})}) : values;
    return c.set(c.emit("Where", {mask, value, self}));
  }
  Indexed in = read_indices(c);
  std::vector<int64_t> perm = indexed_first(in, rank);
  bool moved = !is_identity(perm);
  int64_t taken = static_cast<int64_t>(in.dims.size());
  if (moved && adjacent(in.dims) && in.dims[0] > 0 && values.rank > in.rank)
    c.refuse("index_put of values with dims before the indexed ones cannot be expressed; permute first");
  Ref base = moved ? c.transpose(self, perm) : self;
  Ref positions = stacked(c, in);
  // Values are broadcast to [*positions, *the rest of self].
  Ref shape = c.emit("Slice", {c.shape(positions), c.constant(std::vector<int64_t>{0}),
                               c.constant(std::vector<int64_t>{-1})});
  if (taken < rank) {
    Ref rest = c.emit("Shape", {base}, {Attribute::of("start", taken)}, DType::int64);
    shape = c.emit("Concat", {shape, rest}, {Attribute::of("axis", int64_t{0})});
  }
  Attributes at;
  if (accumulate) at.push_back(Attribute::of("reduction", std::string("add")));
  Ref y = c.emit("ScatterND", {base, positions, c.emit("Expand", {values, shape})}, std::move(at));
  if (moved) {
    std::vector<int64_t> inverse(perm.size());
    for (size_t i = 0; i < perm.size(); ++i) inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
    y = c.transpose(y, inverse);
  }
  c.set(y);
}

Attributes scatter_attributes(Call& c, std::string_view reduce) {
  Attributes at = {Attribute::of("axis", c.integer(1))};
  if (!reduce.empty()) at.push_back(Attribute::of("reduction", std::string(reduce)));
  return at;
}

// ScatterElements wants sources of exactly the index's sizes; PyTorch reads a corner of larger ones.
Ref fitted_source(Call& c, size_t source, const Ref& index, DType dtype) {
  Ref src = c.cast(c.tensor(source), dtype);
  const ir::Type *a = c.type(source), *b = c.type(2);
  bool same = a->has_sizes() && b->has_sizes() && a->sizes().size() == b->sizes().size();
  for (size_t d = 0; same && d < a->sizes().size(); ++d) same = surely_eq(a->sizes()[d], b->sizes()[d]);
  if (same) return src;
  int64_t rank = c.rank(2);
  std::vector<int64_t> zeros(static_cast<size_t>(rank), 0);
  return rank ? c.emit("Slice", {src, c.constant(zeros), c.shape(index)}) : src;
}

std::string reduction(Call& c, const std::string& name) {
  if (name == "sum" || name == "add") return "add";
  if (name == "prod" || name == "multiply") return "mul";
  if (name == "amax") return "max";
  if (name == "amin") return "min";
  c.refuse("reduce='" + name + "' has no ONNX form");
}

void lower_scatter_src(Call& c) {
  Ref self = c.tensor(0), index = c.tensor(2);
  c.set(c.emit("ScatterElements", {self, index, fitted_source(c, 3, index, self.dtype)},
               scatter_attributes(c, "")));
}
void lower_scatter_add(Call& c) {
  Ref self = c.tensor(0), index = c.tensor(2);
  c.set(c.emit("ScatterElements", {self, index, fitted_source(c, 3, index, self.dtype)},
               scatter_attributes(c, "add")));
}
void lower_scatter_value(Call& c) {
  Ref self = c.tensor(0), index = c.tensor(2);
  Ref value = c.emit("Expand", {c.constant(c.scalar(3), self.dtype), c.shape(index)});
  c.set(c.emit("ScatterElements", {self, index, value}, scatter_attributes(c, "")));
}
// The number that a reduction of others does not notice.
Tensor neutral(Call& c, DType dtype) {
  std::string how = reduction(c, c.text(4));
  if (how == "add" || how == "mul") return tensor(Scalar(how == "mul" ? 1 : 0), {.dtype = dtype});
  bool low = how == "max";
  if (is_floating(dtype)) return tensor(Scalar(low ? -INFINITY : INFINITY), {.dtype = dtype});
  if (dtype != DType::int32 && dtype != DType::int64)
    c.refuse("include_self=False of this dtype has no ONNX form");
  int64_t least = dtype == DType::int32 ? INT32_MIN : INT64_MIN;
  return tensor(Scalar(low ? least : -(least + 1)), {.dtype = dtype});
}
void lower_scatter_reduce(Call& c) {
  Ref self = c.tensor(0), index = c.tensor(2);
  if (c.size() > 5 && !c.flag(5)) {  // what is reduced into starts from what changes nothing
    Ref start = c.emit("Expand", {c.constant(neutral(c, self.dtype)), c.shape(index)});
    self = c.emit("ScatterElements", {self, index, start}, scatter_attributes(c, ""));
  }
  c.set(c.emit("ScatterElements", {self, index, fitted_source(c, 3, index, self.dtype)},
               scatter_attributes(c, reduction(c, c.text(4)))));
}

// index[n] along one dim, as wide as the source.
Ref spread_index(Call& c, const Ref& source_shape) {
  int64_t rank = std::max<int64_t>(c.rank(0), 1), axis = c.axis(1, 0);
  std::vector<Size> shape;
  for (int64_t d = 0; d < rank; ++d) shape.push_back({d == axis ? -1 : 1});
  return c.emit("Expand", {c.reshape(c.tensor(2), shape), source_shape});
}

void lower_index_add(Call& c) {
  Ref self = c.tensor(0), src = c.cast(c.tensor(3), self.dtype);
  if (!c.is_none(4) && !c.scalar(4).equals(1))
    src = c.emit("Mul", {src, c.constant(c.scalar(4), self.dtype)});
  c.set(c.emit("ScatterElements", {self, spread_index(c, c.shape(src)), src}, scatter_attributes(c, "add")));
}
void lower_index_copy(Call& c) {
  Ref self = c.tensor(0), src = c.cast(c.tensor(3), self.dtype);
  c.set(c.emit("ScatterElements", {self, spread_index(c, c.shape(src)), src}, scatter_attributes(c, "")));
}

void lower_masked_fill_tensor(Call& c) {
  Ref self = c.tensor(0);
  c.set(c.emit("Where", {c.tensor(1), c.cast(c.tensor(2), self.dtype), self}));
}

void lower_masked_select(Call& c) {
  Ref self = c.tensor(0), mask = c.tensor(1);
  bool same = c.type(0)->has_sizes() && c.type(1)->has_sizes() &&
              c.type(0)->sizes().size() == c.type(1)->sizes().size();
  for (size_t d = 0; same && d < c.type(0)->sizes().size(); ++d)
    same = surely_eq(c.type(0)->sizes()[d], c.type(1)->sizes()[d]);
  if (!same) {
    self = c.emit("Expand", {self, c.shape(mask)});
    mask = c.emit("Expand", {mask, c.shape(self)});
  }
  Ref flat = c.constant(std::vector<int64_t>{-1});
  c.set(c.emit("Compress", {c.emit("Reshape", {self, flat}), c.emit("Reshape", {mask, flat})},
               {Attribute::of("axis", int64_t{0})}));
}

void lower_one_hot(Call& c) {
  int64_t classes = c.integer(1);
  if (classes < 0) c.refuse("one_hot needs num_classes: the number would depend on the data");
  Ref values = c.constant(from_vector(std::vector<int64_t>{0, 1}, {2}));
  c.set(c.emit("OneHot", {c.tensor(0), c.constant(Scalar(classes), kLong), values},
               {Attribute::of("axis", int64_t{-1})}));
}

constexpr Lowering table[] = {
    {"aten::index.Tensor", lower_index},
    {"aten::_unsafe_index.Tensor", lower_index},
    {"aten::index_put", lower_index_put},
    {"aten::_unsafe_index_put", lower_index_put},
    {"aten::scatter.src", lower_scatter_src},
    {"aten::scatter.value", lower_scatter_value},
    {"aten::scatter_add", lower_scatter_add},
    {"aten::scatter_reduce.two", lower_scatter_reduce},
    {"aten::scatter.reduce", lower_scatter_reduce},
    {"aten::index_add", lower_index_add},
    {"aten::index_copy", lower_index_copy},
    {"aten::masked_fill.Tensor", lower_masked_fill_tensor},
    {"aten::masked_select", lower_masked_select},
    {"aten::one_hot", lower_one_hot},
};

}  // namespace

Span<const Lowering> index_lowerings() { return table; }

}  // namespace tern::onnx
