// Making nested tensors, and the ways between them and plain tensors.
#include "tern/ops/nested/nested.h"

#include <algorithm>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/ops.h"
#include "tern/ops/formulas.h"
#include "tern/ops/nested.args.h"

namespace tern {
namespace nested {

namespace {

Tensor view_from(const Tensor& buffer, const Nesting& n) {
  static const Op& op = get_op("aten::_nested_view_from_buffer");
  Tensor sizes = table(n.sizes, n), strides = table(n.strides, n), offsets = column(n.offsets);
  Arg args[] = {buffer, sizes, strides, offsets};
  return call1(op, args);
}

bool records(const Tensor& t) {
  return t.requires_grad() && thread_state.grad_enabled && !(thread_state.excluded & rung_autograd);
}

}  // namespace

Tensor wrap(const Tensor& buffer, const NestingPtr& nesting) {
  if (!records(buffer)) return nested_over(buffer, nesting);
  // The operator gives it a history; that it is a view of something nobody sees need not be known.
  Tensor t = view_from(buffer, *nesting);
  if (!buffer->base) Tensor::adopt(std::exchange(t->base, nullptr));
  return t;
}

Tensor view(const Tensor& t, const NestingPtr& nesting) { return view_from(values(t), *nesting); }

Tensor values(const Tensor& t) {
  static const Op& op = get_op("aten::values");
  Arg args[] = {t};
  return call1(op, args);
}

Tensor part(const Tensor& t, int64_t i) {
  const Nesting& n = nesting_of(t);
  Dims sizes, strides;
  for (int64_t s : n.sizes_of(i)) sizes.push_back(s);
  for (int64_t s : n.strides_of(i)) strides.push_back(s);
  return as_strided(values(t), sizes, strides, t.offset() + SymInt(n.offsets[static_cast<size_t>(i)]));
}

std::vector<Tensor> parts(const Tensor& t) {
  const Nesting& n = nesting_of(t);
  std::vector<Tensor> all;
  if (!n.contiguous || !records(t)) {
    for (int64_t i = 0; i < n.count; ++i) all.push_back(part(t, i));
    return all;
  }
  // Gradients of these come back as one row, not as a buffer for each.
  Dims lengths;
  for (int64_t i = 0; i < n.count; ++i) lengths.push_back(n.numel_of(i));
  all = split_with_sizes(values(t), lengths, 0);
  for (int64_t i = 0; i < n.count; ++i) {
    Dims sizes;
    for (int64_t s : n.sizes_of(i)) sizes.push_back(s);
    all[static_cast<size_t>(i)] = tern::view(all[static_cast<size_t>(i)], sizes);
  }
  return all;
}

Tensor packed(const Tensor& t) {
  const Nesting& n = nesting_of(t);
  if (n.contiguous) return values(t);
  std::vector<Tensor> rows;
  for (const Tensor& p : parts(t)) rows.push_back(reshape(p, {-1}));
  return rows.empty() ? values(t) : cat(rows, 0);
}

Tensor join(Span<const Tensor> all) {
  std::vector<int64_t> sizes;
  std::vector<Tensor> rows;
  for (const Tensor& p : all) {
    for (SymInt s : p.sizes()) sizes.push_back(s.guard_int());
    rows.push_back(reshape(p, {-1}));
  }
  const int64_t rank = all.empty() ? 0 : all[0].dim();
  NestingPtr nesting = packed_nesting(static_cast<int64_t>(all.size()), rank, std::move(sizes));
  return wrap(rows.empty() ? make_tensor({SymInt(0)}, default_dtype()) : cat(rows, 0), nesting);
}

NestingPtr packed_like(const Nesting& n) { return packed_nesting(n.count, n.rank, n.sizes); }

int64_t common_size(const Tensor& t, int64_t dim) { return t.sizes()[static_cast<size_t>(dim)].as_int(); }

Tensor table(const std::vector<int64_t>& numbers, const Nesting& n) {
  // Of no tensors at all PyTorch keeps an empty row.
  if (!n.count) return make_tensor({SymInt(0)}, kLong);
  return from_vector(numbers, {SymInt(n.count), SymInt(n.rank)});
}
Tensor column(const std::vector<int64_t>& numbers) {
  return from_vector(numbers, {SymInt(static_cast<int64_t>(numbers.size()))});
}
NestingPtr from_tables(const Tensor& sizes, const Tensor& strides, const Tensor& offsets, int64_t buffer) {
  for (const Tensor* t : {&sizes, &strides, &offsets})
    if (t->dtype() != kLong || t->is_fake() || t->is_nested())
      fail("a nested tensor: sizes, strides and offsets must be tensors of int64 with data");
  Nesting n;
  n.count = sizes.dim() == 2 ? sizes.int_sizes()[0] : 0;
  n.rank = sizes.dim() == 2 ? sizes.int_sizes()[1] : 0;
  n.sizes = sizes.to_vector<int64_t>();
  n.strides = strides.to_vector<int64_t>();
  n.offsets = offsets.to_vector<int64_t>();
  n.buffer = buffer;
  return checked_nesting(std::move(n));
}

void refuse(const Op& op) {
  failf(
      ErrorKind::not_supported,
      "Could not run '{}' with arguments from the 'NestedTensorCPU' backend. This could be because the "
      "operator "
      "doesn't exist for this backend: unbind() the tensor and call it for each, or use to_padded_tensor().",
      op.qualified());
}

}  // namespace nested

namespace {

void check_data(const Tensor& t, const char* op) {
  if (t.is_fake() || (thread_state.active & ~thread_state.excluded & rung_fake))
    failf(ErrorKind::not_supported,
          "{}: the sizes of a nested tensor are numbers in it, so it needs tensors with data (it cannot be "
          "exported, nor be on the device meta)",
          op);
}
void check_nested(const Tensor& t, const char* op) {
  if (!t.is_nested())
    failf(ErrorKind::not_supported,
          "Could not run 'aten::{}' with arguments from the 'CPU' backend: the tensor is not nested", op);
}

}  // namespace

// ---- making ----

Tensor body__nested_tensor_from_tensor_list(const args::_nested_tensor_from_tensor_list& a) {
  if (a.device && a.device->type != DeviceType::cpu)
    failf(ErrorKind::not_supported,
          "_nested_tensor_from_tensor_list: nested tensors are on the cpu, not on {}", a.device->str());
  if (a.layout.value_or(Layout::strided) != Layout::strided)
    fail(ErrorKind::not_supported, "_nested_tensor_from_tensor_list: only the strided layout is supported");
  std::vector<Tensor> parts;
  for (const Tensor& t : a.list) {
    check_data(t, "_nested_tensor_from_tensor_list");
    if (t.is_quantized())
      fail(ErrorKind::not_supported,
           "_nested_tensor_from_tensor_list: the tensors are quantized; dequantize() them first");
    if (t.dim() != a.list[0].dim())
      failf(
          "All Tensors given to nested_tensor must have the same dimension. Found dimension {} for Tensor at "
          "index "
          "{} and dimension {} for Tensor at index 0.",
          t.dim(), parts.size(), a.list[0].dim());
    parts.push_back(t.to(a.dtype.value_or(a.list[0].dtype())));
  }
  if (parts.empty() && a.dtype)
    return nested::wrap(make_tensor({SymInt(0)}, *a.dtype), packed_nesting(0, 0, {}));
  return nested::join(parts);
}

Tensor view__nested_view_from_buffer(const args::_nested_view_from_buffer& a) {
  if (a.self.dim() != 1) fail("_nested_view_from_buffer: The input buffer must be flat");
  check_data(a.self, "_nested_view_from_buffer");
  Tensor flat = a.self;
  if (!a.self.is_contiguous()) fail("_nested_view_from_buffer: The input buffer must be contiguous");
  Tensor t =
      nested_over(flat, nested::from_tables(a.nested_size, a.nested_strides, a.offsets, flat.int_numel()));
  t->base = a.self->base ? a.self->base : a.self.body();
  t->base->refs.add();
  return t;
}
Tensor body__nested_view_from_buffer_copy(const args::_nested_view_from_buffer_copy& a) {
  Tensor buffer = clone(a.self, MemoryFormat::contiguous);
  return nested::wrap(
      buffer, nested::from_tables(a.nested_size, a.nested_strides, a.offsets, buffer.numel().guard_int()));
}

Tensor view_values(const args::values& a) {
  check_nested(a.self, "values");
  Tensor buffer = buffer_of(a.self);
  buffer->base = a.self->base ? a.self->base : a.self.body();
  buffer->base->refs.add();
  return buffer;
}
Tensor body_values_copy(const args::values_copy& a) {
  check_nested(a.self, "values_copy");
  return clone(nested::values(a.self));
}

Tensor nested_again(const Tensor& buffer, const Shared<const Meaning>& meaning) {
  return nested::wrap(buffer.contiguous(), {meaning, static_cast<const Nesting*>(meaning.get())});
}
Tensor nested_view_backward(const Tensor& grad, SymInt numel, const Tensor& sizes, const Tensor& strides,
                            const Tensor& offsets) {
  NestingPtr n = nested::from_tables(sizes, strides, offsets, numel.guard_int());
  if (n->contiguous) return nested::packed(grad);
  Tensor total = zeros({numel}, grad.dtype(), {}, grad.device());
  const std::vector<Tensor> parts = nested::parts(grad);
  const Tensor buffer = make_tensor({numel}, grad.dtype(), grad.device(), true);  // for its geometry
  for (int64_t i = 0; i < n->count; ++i) {
    if (!n->numel_of(i)) continue;
    Dims size, stride;
    for (int64_t s : n->sizes_of(i)) size.push_back(s);
    for (int64_t s : n->strides_of(i)) stride.push_back(s);
    total = total + as_strided_backward(parts[static_cast<size_t>(i)], buffer, size, stride,
                                        SymInt(n->offsets[static_cast<size_t>(i)]));
  }
  return total;
}

// ---- what a nested tensor is ----

Tensor body__nested_tensor_size(const args::_nested_tensor_size& a) {
  check_nested(a.self, "_nested_tensor_size");
  return nested::table(nesting_of(a.self).sizes, nesting_of(a.self));
}
Tensor body__nested_tensor_strides(const args::_nested_tensor_strides& a) {
  check_nested(a.self, "_nested_tensor_strides");
  return nested::table(nesting_of(a.self).strides, nesting_of(a.self));
}
Tensor body__nested_tensor_storage_offsets(const args::_nested_tensor_storage_offsets& a) {
  check_nested(a.self, "_nested_tensor_storage_offsets");
  return nested::column(nesting_of(a.self).offsets);
}

// ---- padding ----

namespace {

Tensor padded(const Tensor& self, double padding, std::optional<Span<const SymInt>> output_size) {
  check_nested(self, "to_padded_tensor");
  const Nesting& n = nesting_of(self);
  if (!n.contiguous) fail("for now to_padded_tensor only supports contiguous nested tensor");
  Dims size{SymInt(n.count)};
  if (n.count) {
    if (n.rank && !n.numel())
      fail("to_padded_tensor: at least one constituent tensor should have non-zero numel");
    for (int64_t d = 0; d < n.rank; ++d) {
      int64_t largest = 0;
      for (int64_t i = 0; i < n.count; ++i)
        largest = std::max(largest, n.sizes_of(i)[static_cast<size_t>(d)]);
      size.push_back(largest);
    }
  }
  if (output_size) {
    if (output_size->size() != size.size())
      fail("Length of output_size does not match NestedTensor dims. Broadcasting is not supported.");
    for (size_t d = 0; d < size.size(); ++d) {
      if ((*output_size)[d].guard_int() < size[d].as_int())
        fail("Value in output_size is less than NestedTensor padded size. Truncation is not supported.");
      size[d] = (*output_size)[d];
    }
  }
  if (!n.count || !n.rank) {
    Tensor row = nested::values(self);
    int64_t missing = size[0].guard_int() - n.count;
    return missing ? cat({row, full({SymInt(missing)}, Scalar(padding), self.dtype())}, 0) : row.clone();
  }
  // Every element's place in the padded tensor, then one write: its gradient is one read.
  Dims steps = contiguous_strides(size);
  std::vector<int64_t> places;
  places.reserve(static_cast<size_t>(n.buffer));
  for (int64_t i = 0; i < n.count; ++i) {
    std::vector<int64_t> at(static_cast<size_t>(n.rank), 0);
    for (int64_t k = n.numel_of(i); k-- > 0;) {
      int64_t place = i * steps[0].as_int();
      for (int64_t d = 0; d < n.rank; ++d)
        place += at[static_cast<size_t>(d)] * steps[static_cast<size_t>(d + 1)].as_int();
      places.push_back(place);
      for (int64_t d = n.rank; d-- > 0;) {
        if (++at[static_cast<size_t>(d)] < n.sizes_of(i)[static_cast<size_t>(d)]) break;
        at[static_cast<size_t>(d)] = 0;
      }
    }
  }
  Tensor whole = full({product(size)}, Scalar(padding), self.dtype());
  return tern::view(index_copy(whole, 0, nested::column(places), nested::values(self)), size);
}

// The rows of a table of sizes cut out of the samples of a padded tensor.
Tensor from_padded(const Tensor& padded, const Tensor& sizes) {
  check_data(padded, "_nested_from_padded");
  if (sizes.dtype() != kLong || sizes.dim() != 2 || sizes.is_fake())
    fail("_nested_from_padded: the sizes must be a table of int64: a row for each tensor");
  const int64_t count = sizes.int_sizes()[0], rank = sizes.int_sizes()[1];
  if (padded.dim() != rank + 1 || padded.int_sizes()[0] < count)
    failf("_nested_from_padded: a padded tensor of size {} does not hold {} tensors of {} dimensions",
          str(padded.sizes()), count, rank);
  std::vector<int64_t> wanted = sizes.to_vector<int64_t>();
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < count; ++i) {
    Tensor part = select(padded, 0, i);
    for (int64_t d = 0; d < rank; ++d) {
      int64_t size = wanted[static_cast<size_t>(i * rank + d)];
      if (size < 0 || size > padded.int_sizes()[d + 1])
        failf("The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {}",
              size, padded.int_sizes()[d + 1], d + 1);
      part = narrow(part, d, 0, size);
    }
    parts.push_back(part);
  }
  if (parts.empty()) return nested::wrap(make_tensor({SymInt(0)}, padded.dtype()), packed_nesting(0, 0, {}));
  return nested::join(parts);
}

void check_mask(const Tensor& t, const Tensor& mask) {
  if (mask.dtype() != kBool)
    failf("Expected mask to be of ScalarType Bool, but got {} instead.", script_name(mask.dtype()));
  if (mask.dim() != 2) fail("Padding mask should be 2D");
  if (t.dim() != 3) fail("Input should be a 3D tensor, N * L * D");
  if (!(t.sizes()[0] == mask.sizes()[0]) || !(t.sizes()[1] == mask.sizes()[1]))
    fail("Mask size should match input size");
  check_data(t, "_nested_tensor_from_mask");
  check_data(mask, "_nested_tensor_from_mask");
}
// How many rows each sample has; `aligned` says whether they come first.
std::vector<int64_t> rows_of(const Tensor& mask, bool* aligned) {
  const int64_t samples = mask.int_sizes()[0], length = mask.int_sizes()[1];
  std::vector<int64_t> bits = mask.to_vector<int64_t>(), rows;
  *aligned = true;
  for (int64_t i = 0; i < samples; ++i) {
    int64_t n = 0, last = -1;
    for (int64_t k = 0; k < length; ++k)
      if (bits[static_cast<size_t>(i * length + k)]) ++n, last = k;
    *aligned &= last + 1 == n;
    rows.push_back(n);
  }
  return rows;
}

}  // namespace

Tensor body_to_padded_tensor(const args::to_padded_tensor& a) {
  return padded(a.self, a.padding, a.output_size);
}
Tensor body_nested_to_padded_tensor(const args::nested_to_padded_tensor& a) {
  if (a.output_size.empty()) return padded(a.self, a.padding, std::nullopt);
  Dims size;
  for (int64_t s : a.output_size) size.push_back(s);
  return padded(a.self, a.padding, Span<const SymInt>(size));
}

Tensor body__nested_from_padded(const args::_nested_from_padded& a) {
  if (a.fuse_transform_0213)
    fail(ErrorKind::not_supported,
         "_nested_from_padded: fuse_transform_0213 is not supported; permute(0, 2, 1, 3) and flatten first");
  return from_padded(a.padded, a.cpu_nested_shape_example);
}
Tensor body__nested_from_padded_and_nested_example(const args::_nested_from_padded_and_nested_example& a) {
  check_nested(a.nt_example, "_nested_from_padded_and_nested_example");
  return from_padded(a.padded, nested::table(nesting_of(a.nt_example).sizes, nesting_of(a.nt_example)));
}

Tensor body__nested_tensor_from_mask(const args::_nested_tensor_from_mask& a) {
  check_mask(a.t, a.mask);
  bool aligned = true;
  std::vector<int64_t> table;
  for (int64_t n : rows_of(a.mask, &aligned)) table.insert(table.end(), {n, a.t.int_sizes()[2]});
  if (a.mask_check && !aligned) fail("Mask must be left-aligned without gaps");
  return from_padded(a.t, from_vector(table, {a.t.sizes()[0], 2}));
}
bool body__nested_tensor_from_mask_left_aligned(const args::_nested_tensor_from_mask_left_aligned& a) {
  check_mask(a.t, a.mask);
  bool aligned = true;
  rows_of(a.mask, &aligned);
  return aligned;
}

}  // namespace tern
