// Copies, casts, fills, and the way from one element to a number.
#include "tern/base/format.h"
#include "tern/dispatch/overlap.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/checks.h"
#include "tern/ops/copy.args.h"
#include "tern/ops/elements.h"

namespace tern {

Shapes shape_clone(const args::clone& a) {
  return {Shape(Dims(a.self.sizes()), a.self.dtype(), strides_like(a.self, a.memory_format))};
}
void kernel_clone(const args::clone& a, Out out) { copy_elements(a.self, out[0]); }

Shapes shape__to_copy(const args::_to_copy& a) {
  if (a.layout.value_or(Layout::strided) != Layout::strided)
    fail(ErrorKind::not_supported, "to: only strided tensors are supported, not sparse ones");
  if (a.self.is_meta() && a.device && a.device->type != DeviceType::meta)
    fail(ErrorKind::not_supported, "Cannot copy out of meta tensor; no data!");
  return {
      Shape(Dims(a.self.sizes()), a.dtype.value_or(a.self.dtype()), strides_like(a.self, a.memory_format))};
}
void kernel__to_copy(const args::_to_copy& a, Out out) { copy_elements(a.self, out[0]); }

namespace {

Tensor convert(const Tensor& self, std::optional<DType> dtype, std::optional<Layout> layout,
               std::optional<Device> device, std::optional<bool> pin_memory, bool non_blocking, bool copy,
               std::optional<MemoryFormat> format) {
  MemoryFormat wanted = format.value_or(MemoryFormat::preserve);
  bool same = (!dtype || *dtype == self.dtype()) && (!device || device->type == self.device().type) &&
              (wanted == MemoryFormat::preserve || self.is_contiguous(wanted));
  if (same && !copy) return self;
  return _to_copy(self, dtype, layout, device, pin_memory, non_blocking, format);
}

}  // namespace

Tensor body_to_dtype(const args::to_dtype& a) {
  return convert(a.self, a.dtype, {}, {}, {}, a.non_blocking, a.copy, a.memory_format);
}
Tensor body_to_device(const args::to_device& a) {
  return convert(a.self, a.dtype, {}, a.device, {}, a.non_blocking, a.copy, a.memory_format);
}
Tensor body_to_other(const args::to_other& a) {
  return convert(a.self, a.other.dtype(), {}, a.other.device(), {}, a.non_blocking, a.copy, a.memory_format);
}
Tensor body_to_dtype_layout(const args::to_dtype_layout& a) {
  return convert(a.self, a.dtype, a.layout, a.device, a.pin_memory, a.non_blocking, a.copy, a.memory_format);
}
Tensor body_to_prim_Device(const args::to_prim_Device& a) {
  std::optional<DType> dtype;
  if (a.dtype) dtype = static_cast<DType>(*a.dtype);
  return convert(a.self, dtype, {}, a.device, {}, a.non_blocking, a.copy, {});
}
Tensor body_type_as(const args::type_as& a) {
  return convert(a.self, a.other.dtype(), {}, a.other.device(), {}, false, false, {});
}

// ---- writes ----

namespace {

void check_broadcast_to(const Tensor& src, const Tensor& self) {
  Dims sizes = broadcast_sizes(self.sizes(), src.sizes());
  bool same = static_cast<int64_t>(sizes.size()) == self.dim();
  for (size_t d = 0; same && d < sizes.size(); ++d)
    same = surely_eq(sizes[d], self.sizes()[d]) || sizes[d] == self.sizes()[d];
  if (!same)
    failf("output with shape {} doesn't match the broadcast shape {}", str(self.sizes()), str(sizes));
}
void check_one_value(const Tensor& value) {
  if (value.dim() > 0)
    failf("fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.", value.dim());
}
void check_data(const Tensor& src, const Tensor& self) {
  if (src.is_meta() && !src->wrapped_number && !self.is_fake())
    fail(ErrorKind::not_supported, "Cannot copy out of meta tensor; no data!");
}

}  // namespace

void begin_write(const Tensor& self) {
  check_writable(self);
  ++self.storage()->version;
}

Tensor kernel_copy_(const args::copy_& a) {
  check_broadcast_to(a.src, a.self);
  check_data(a.src, a.self);
  if (!a.self.is_fake() && !a.src.is_fake()) check_overlap(a.self, a.src);
  begin_write(a.self);
  if (!a.self.is_fake() && !a.src.is_fake()) {
    // Two views of one memory, with gaps: through a copy, so that nothing is read after it was overwritten.
    bool overlap = share_memory(a.self, a.src);
    Tensor from = a.src;
    if (overlap) {
      from = make_tensor(a.src.sizes(), a.src.dtype());
      copy_elements(a.src, from);
    }
    copy_elements(from, a.self);
  }
  return a.self;
}
Shapes shape_copy(const args::copy& a) {
  check_broadcast_to(a.src, a.self);
  check_data(a.src, a.self);
  return {like(a.self)};
}
void kernel_copy(const args::copy& a, Out out) { copy_elements(a.src, out[0]); }

// One number for all: elements that share their memory may be written.
Tensor kernel_fill__Scalar(const args::fill__Scalar& a) {
  check_fits(a.value, a.self.dtype());
  ++a.self.storage()->version;
  if (!a.self.is_fake()) fill_elements(a.self, a.value);
  return a.self;
}
Tensor kernel_fill__Tensor(const args::fill__Tensor& a) {
  check_one_value(a.value);
  check_data(a.value, a.self);
  ++a.self.storage()->version;
  if (!a.self.is_fake() && !(a.value.is_fake() && !a.value->wrapped_number))
    fill_elements(a.self, read_scalar(a.value));
  return a.self;
}
Shapes shape_fill_Scalar(const args::fill_Scalar& a) {
  check_fits(a.value, a.self.dtype());
  return {like(a.self)};
}
void kernel_fill_Scalar(const args::fill_Scalar& a, Out out) { fill_elements(out[0], a.value); }
Shapes shape_fill_Tensor(const args::fill_Tensor& a) {
  check_one_value(a.value);
  return {like(a.self)};
}
void kernel_fill_Tensor(const args::fill_Tensor& a, Out out) { fill_elements(out[0], read_scalar(a.value)); }
Tensor kernel_zero_(const args::zero_& a) {
  ++a.self.storage()->version;
  if (!a.self.is_fake()) fill_elements(a.self, 0);
  return a.self;
}
Shapes shape_zero(const args::zero& a) { return {like(a.self)}; }
void kernel_zero(const args::zero&, Out out) { fill_elements(out[0], 0); }

// ---- the same memory ----

Tensor view_detach(const args::detach& a) { return a.self.shallow_copy(); }
Tensor view_alias(const args::alias& a) {
  return a.self.as_view(Dims(a.self.sizes()), Dims(a.self.strides()));
}
Tensor view_lift_fresh(const args::lift_fresh& a) {
  return a.self.as_view(Dims(a.self.sizes()), Dims(a.self.strides()));
}

// ---- one element ----

Scalar body_item(const args::item& a) {
  SymInt n = a.self.numel();
  if (!(n == 1)) failf("a Tensor with {} elements cannot be converted to Scalar", n.str());
  return _local_scalar_dense(a.self);
}

Scalar body__local_scalar_dense(const args::_local_scalar_dense& a) {
  const ThreadState& state = thread_state;
  for (int rung = 0; rung < 5; ++rung) {
    if (state.excluded >> rung & 1) continue;
    for (Mode* mode = state.modes[rung]; mode; mode = mode->below)
      if (std::optional<Scalar> answer = mode->item(a.self, state.loc)) return *answer;
  }
  if (a.self.is_fake() && !a.self->wrapped_number)
    failf(
        "item: the value of a {} tensor is not known; it has a shape but no data. Compute with the tensor "
        "itself, or "
        "take the number from a real tensor",
        a.self.is_meta() ? "meta" : "fake");
  return read_scalar(a.self);
}

bool body_is_nonzero(const args::is_nonzero& a) {
  SymInt n = a.self.numel();
  if (n == 0) fail("Boolean value of Tensor with no values is ambiguous");
  if (!(n == 1)) fail("Boolean value of Tensor with more than one value is ambiguous");
  return item(a.self).to_bool();
}

}  // namespace tern
