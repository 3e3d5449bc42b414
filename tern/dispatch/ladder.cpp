#include "tern/dispatch/ladder.h"

#include <algorithm>
#include <bit>

#include "tern/base/format.h"
#include "tern/dispatch/op_flags.h"
#include "tern/dispatch/overlap.h"
#include "tern/dispatch/pointwise.h"

namespace tern {
namespace {

constexpr uint8_t all_rungs = 63;
constexpr uint8_t names_device = 128;  // beside the rungs: an argument says where the result goes

// Every rung that one of the tensors asks for.
inline uint8_t rungs_of(const Op& op, const Arg* args) {
  uint8_t bits = 0;
  for (const Arg *a = args, *end = args + op.arity; a != end; ++a) {
    if (a->kind == ArgKind::tensor) {
      if (const TensorBody* b = a->tensor_ptr->body()) bits |= b->rungs | b->storage->rungs;
    } else if (a->kind == ArgKind::tensors) {
      for (const Tensor& t : a->tensors())
        if (t.defined()) bits |= t->rungs | t->storage->rungs;
    } else if (a->kind == ArgKind::device) {
      bits |= names_device;
    }
  }
  return bits;
}

void run_asked(const Op& op, const Arg* args, Value* results, uint8_t asked);
bool any_fake(const Op& op, const Arg* args);
void check_dtype(const Op& op, const Arg* args);
void climb(const Op& op, const Arg* args, Value* results, uint8_t bits);

}  // namespace

void call(const Op& op, const Arg* args, Value* results) {
  const ThreadState& state = thread_state;
  uint8_t asked = rungs_of(op, args) | state.active;
  uint8_t bits = asked & ~state.excluded & all_rungs;
  if (bits == 0 && !op.is(op_composite)) return run_asked(op, args, results, asked);
  climb(op, args, results, bits);
}

Tensor call1(const Op& op, const Arg* args) {
  Value result;
  call(op, args, &result);
  return result.take_tensor();
}

namespace {

// Whether a rung further down takes an operator that has only a body as it is.
bool is_met_whole(const Op& op, uint8_t bits) {
  if ((bits & rung_meaning) && has_quantized_rule(op)) return true;
  const Mode* core = thread_state.modes[3];
  return (bits & rung_core) && core && core->keeps(op);
}

void climb(const Op& op, const Arg* args, Value* results, uint8_t bits) {
  ThreadState& state = thread_state;
  if (bits & rung_record) return state.modes[0]->call(op, args, results);
  if ((bits & rung_meaning) && nested_call(op, args, results, bits)) return;
  if (op.is(op_composite) && !is_met_whole(op, bits)) {
    if (op.check) op.check(args);
    if (~op.dtypes && !any_fake(op, args)) check_dtype(op, args);
    return op.body(op, args, results);
  }
  if (bits & rung_autograd) return autograd_call(op, args, results);
  if (bits & rung_functional) {
    if (!state.modes[2]) fail("a tensor of a functional capture was used outside of it");
    return state.modes[2]->call(op, args, results);
  }
  if ((bits & rung_core) && state.modes[3]) return state.modes[3]->call(op, args, results);
  if (bits & rung_meaning) return quantized_call(op, args, results);
  run_kernel(op, args, results);
}

constexpr uint8_t rung_and_above(Rung rung) { return static_cast<uint8_t>(rung | (rung - 1)); }

}  // namespace

void descend(Rung from, const Op& op, const Arg* args, Value* results) {
  Exclude passed(rung_and_above(from));
  call(op, args, results);
}

SymInt Mode::size(const Tensor& t, int64_t d, Loc) { return t->sizes[d]; }
std::optional<Scalar> Mode::item(const Tensor&, Loc) { return std::nullopt; }
std::optional<SymInt> Mode::unknown_size(Loc) { return std::nullopt; }
bool Mode::keeps(const Op&) const { return false; }

SymInt recorded_size(const Tensor& t, int64_t d, Loc loc) {
  Mode* mode = thread_state.modes[0];
  if (!mode || (thread_state.excluded & rung_record)) return t->sizes[d];
  return mode->size(t, d, loc);
}

Mount::Mount(Rung rung, Mode& mode, bool record_sizes) : saved_(thread_state) {
  int slot = std::countr_zero(static_cast<unsigned>(rung));
  mode.below = thread_state.modes[slot];
  thread_state.modes[slot] = &mode;
  thread_state.active |= rung;
  thread_state.sizes_recorded |= record_sizes;
}
Mount::~Mount() { thread_state = saved_; }

// ---- the kernel end ----

namespace {

bool any_fake(const Op& op, const Arg* args) {
  if (thread_state.active & ~thread_state.excluded & rung_fake) return true;
  for (int i = 0; i < op.arity; ++i) {
    if (args[i].kind == ArgKind::tensor) {
      const Tensor& t = *args[i].tensor_ptr;
      if (t.defined() && t.is_fake() && !t->wrapped_number) return true;
    } else if (args[i].kind == ArgKind::tensors) {
      for (const Tensor& t : args[i].tensors())
        if (t.defined() && t.is_fake() && !t->wrapped_number) return true;
    }
  }
  return false;
}

// The device of the first tensor that is not a number or a zero-dim one.
Device device_of(const Op& op, const Arg* args) {
  Device found = kCPU;
  bool any = false;
  auto look = [&](const Tensor& t) {
    if (!t.defined() || t->wrapped_number) return;
    if (!any || (t.dim() > 0 && t.device().type == DeviceType::meta)) found = t.device();
    any = true;
  };
  for (int i = 0; i < op.arity; ++i) {
    if (args[i].kind == ArgKind::tensor) look(*args[i].tensor_ptr);
    if (args[i].kind == ArgKind::tensors)
      for (const Tensor& t : args[i].tensors()) look(t);
    if (args[i].kind == ArgKind::device) return args[i].device();
  }
  return found;
}

Tensor allocate(const Shape& s, Device device, bool fake) {
  if (s.strides.empty()) return make_tensor(s.sizes, s.dtype, device, fake);
  return make_tensor(s.sizes, s.strides, s.dtype, device, fake);
}

bool same_sizes(Span<const SymInt> a, Span<const SymInt> b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i])) return false;
  return true;
}

// A kernel that is not pointwise goes by the first tensor.
void check_dtype(const Op& op, const Arg* args) {
  for (int i = 0; i < op.arity; ++i) {
    const Tensor* first = nullptr;
    if (args[i].kind == ArgKind::tensor) first = args[i].tensor_ptr;
    if (args[i].kind == ArgKind::tensors && args[i].tensors().size()) first = &args[i].tensors()[0];
    if (!first || !first->defined()) continue;
    if (!op.takes(first->dtype())) refuse_dtype(op, first->dtype());
    return;
  }
}

Shapes rule(const Op& op, const Arg* args) {
  if (op.check) op.check(args);
  if (op.is(op_pointwise)) return pointwise_shape(op, args);
  if (op.shape) return op.shape(op, args);
  if (op.is(op_same_shape)) return like(args[0].tensor());
  failf(ErrorKind::not_supported, "{}: has no shape rule, so it cannot run on fake or meta tensors",
        op.qualified());
}

// complex32 is storage: a kernel gets complex64, and what it gives is rounded.
bool is_narrow(const Arg& a) {
  return a.kind == ArgKind::tensor && a.tensor_ptr->defined() && a.tensor_ptr->dtype() == DType::complex32;
}
void run_widened(const Op& op, const Arg* args, Out out) {
  std::vector<Tensor> kept;  // what the arguments refer to
  std::vector<std::vector<Tensor>> lists;
  std::vector<Arg> wide(args, args + op.arity);
  auto widened = [](const Tensor& t) {
    Tensor copy = make_tensor(t.sizes(), kComplexFloat);
    copy_elements(t, copy);
    return copy;
  };
  kept.reserve(op.arity);
  lists.reserve(op.arity);
  for (Arg& a : wide) {
    if (is_narrow(a)) {
      kept.push_back(widened(*a.tensor_ptr));
      a = Arg(kept.back());
    } else if (a.kind == ArgKind::tensors) {
      std::vector<Tensor> list;
      for (const Tensor& t : a.tensors())
        list.push_back(t.defined() && t.dtype() == DType::complex32 ? widened(t) : t);
      lists.push_back(std::move(list));
      a = Arg(Span<const Tensor>(lists.back()));
    }
  }
  std::vector<Tensor> results;
  for (const Tensor& t : out)
    results.push_back(t.dtype() == DType::complex32 ? make_tensor(t.sizes(), kComplexFloat) : t);
  op.kernel(op, wide.data(), Out(results.data(), results.size()));
  for (size_t i = 0; i < out.size(); ++i)
    if (!results[i].is_same(out[i])) copy_elements(results[i], out[i]);
}
void run_op_kernel(const Op& op, const Arg* args, Out out) {
  if (~op.dtypes) check_dtype(op, args);
  if ((op.arity && is_narrow(args[0])) || (out.size() && out[0].dtype() == DType::complex32))
    return run_widened(op, args, out);
  op.kernel(op, args, out);
}

// A pointwise loop reads while it writes.
void check_inputs(const Op& base, const Arg* args, const Tensor& out) {
  for (int i = 0; i < base.arity; ++i)
    if (args[i].kind == ArgKind::tensor && args[i].tensor_ptr->defined())
      check_overlap(out, *args[i].tensor_ptr);
}

// What PyTorch refuses to write over, although our kernels write into fresh memory.
void check_apart(const Op& base, const Arg* args, const Tensor& out) {
  const uint32_t looked_at = base.apart | base.disjoint;
  for (int i = 0; looked_at >> i; ++i) {
    if (!(looked_at >> i & 1)) continue;
    const auto check = base.disjoint >> i & 1 ? check_disjoint : check_overlap;
    if (args[i].kind == ArgKind::tensor && args[i].tensor_ptr->defined()) check(out, *args[i].tensor_ptr);
    if (args[i].kind == ArgKind::tensors)
      for (const Tensor& t : args[i].tensors())
        if (t.defined()) check(out, t);
  }
}

void prepare_out(const Op& base, const Arg* args, const Tensor& out, Span<const SymInt> sizes, bool fake) {
  check_writable(out);
  if (!fake) check_apart(base, args, out);
  if (same_sizes(sizes, out.sizes())) return;
  resize_output(out, sizes);
  if (!fake) check_apart(base, args, out);  // it may reach farther now
}

void run_inplace(const Op& op, const Arg* args, Value* results, bool fake) {
  const Op& base = *op.functional;
  const Tensor& self = args[0].tensor();
  if (!self.defined()) failf("{}: the tensor is undefined", op.schema().name.str());
  if (base.is(op_real) && self.is_complex())
    failf("In-place {} is not supported for complex tensors.", base.schema().name.view().substr(6));
  if (!fake && base.is(op_pointwise)) {
    check_inputs(base, args, self);
    if (pointwise_fast(base, args, &self, results)) {
      ++self.storage()->version;
      return;
    }
  }
  check_writable(self);
  Shapes shapes = rule(base, args);
  if (!same_sizes(shapes[0].sizes, self.sizes()))
    failf("output with shape {} doesn't match the broadcast shape {}", str(self.sizes()),
          str(shapes[0].sizes));
  if (!can_cast(shapes[0].dtype, self.dtype()))
    failf("result type {} can't be cast to the desired output type {}", script_name(shapes[0].dtype),
          script_name(self.dtype()));
  if (!fake) {
    if (base.is(op_pointwise)) {
      pointwise_into(base, args, self);
    } else {
      check_apart(base, args, self);
      // A structured kernel may read its inputs while it writes: into fresh memory, then copied.
      Tensor result = allocate(shapes[0], self.device(), false);
      run_op_kernel(base, args, Out(&result, 1));
      copy_elements(result, self);
    }
  }
  if (!fake || self.is_fake()) ++self.storage()->version;
  results[0] = Value(self);
}

// What out= may be of for a result of this type.
void check_out_type(const Op& base, DType result, DType out) {
  if (result == out) return;
  if (!base.is(op_out_exact) || (base.is(op_real) && is_complex(out))) {
    if (!can_cast(result, out))
      failf("result type {} can't be cast to the desired output type {}", script_name(result),
            script_name(out));
  } else if (base.is(op_pointwise)) {
    failf("Found dtype {} but expected {}", script_name(out), script_name(result));
  } else if (!(base.is(op_out_byte) && result == kBool && out == kByte)) {
    failf("Expected out tensor to have dtype {}, but got {} instead", cpp_name(result), cpp_name(out));
  }
}

// An operator that makes its own results (a body, a size that depends on data): they are copied into out=.
void run_into(const Op& op, const Arg* args, Value* results, bool fake) {
  const Op& base = *op.functional;
  std::vector<Value> made(base.results);
  call(base, args, made.data());
  for (int i = 0; i < base.results; ++i) {
    const Tensor &from = made[i].tensor(), &out = args[base.arity + i].tensor();
    if (!out.defined()) failf("{}: out= is undefined", op.qualified());
    if (!fake && from.is_fake())
      failf("Expected out tensor to have device {}, but got {} instead", from.device().str(),
            out.device().str());
    check_out_type(base, from.dtype(), out.dtype());
    prepare_out(base, args, out, from.sizes(), fake);
    if (!fake) copy_elements(from, out);
    if (!fake || out.is_fake()) ++out.storage()->version;
    results[i] = Value(out);
  }
}

// Which argument takes the type of out= (op_out_type); -1: none, or it is given.
int type_from_out(const Op& base, const Arg* args) {
  const Schema& s = base.schema();
  // What makes a tensor out of numbers makes one of the type of out=.
  const bool creates = !s.args.empty() && s.args[0].type.base != BaseType::tensor;
  if (!creates && !base.is(op_out_type | op_out_type_floating)) return -1;
  int at = -1;
  for (size_t i = 0; i < s.args.size(); ++i)
    if (s.args[i].name.view() == "dtype") at = static_cast<int>(i);
  const Tensor& out = args[base.arity].tensor();
  if (at < 0 || args[at].kind != ArgKind::none || !out.defined()) return -1;
  if (creates) return at;
  const Tensor& self = args[0].tensor();
  if (base.is(op_out_type_floating) && self.is_floating_point() && !out.is_floating_point())
    refuse_dtype(base, out.dtype());
  return at;
}

void run_out(const Op& op, const Arg* args, Value* results, bool fake) {
  const Op& base = *op.functional;
  if (int at = type_from_out(base, args); at >= 0) {
    std::vector<Arg> typed(args, args + op.arity);
    typed[static_cast<size_t>(at)] = Arg(args[base.arity].tensor().dtype());
    return run_out(op, typed.data(), results, fake);
  }
  if (!base.kernel && !base.is(op_pointwise)) return run_into(op, args, results, fake);
  Shapes shapes = rule(base, args);
  std::vector<Tensor> fresh;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Tensor& out = args[base.arity + i].tensor();
    if (!out.defined()) failf("{}: out= is undefined", op.qualified());
    check_out_type(base, shapes[i].dtype, out.dtype());
    prepare_out(base, args, out, shapes[i].sizes, fake);
    if (base.is(op_pointwise)) {
      if (!fake) {
        check_inputs(base, args, out);
        pointwise_into(base, args, out);
      }
    } else {
      fresh.push_back(allocate(shapes[i], out.device(), fake));
    }
    if (!fake || out.is_fake()) ++out.storage()->version;
    results[i] = Value(out);
  }
  if (!fresh.empty() && !fake) {
    run_op_kernel(base, args, Out(fresh.data(), fresh.size()));
    for (size_t i = 0; i < fresh.size(); ++i) copy_elements(fresh[i], args[base.arity + i].tensor());
  }
}

}  // namespace

void run_kernel(const Op& op, const Arg* args, Value* results) {
  run_asked(op, args, results, rungs_of(op, args) | thread_state.active);
}

namespace {

// A pointwise operator takes tensors of one device, and numbers in zero-dim tensors of the cpu.
void check_devices(const Op& op, const Arg* args) {
  if (!op.is(op_pointwise) && !(op.functional && op.functional->is(op_pointwise))) return;
  if (op.is(op_inplace) && args[0].tensor().defined() && args[0].tensor().is_meta()) return;
  const Tensor* first = nullptr;
  for (int i = 0; i < op.arity; ++i) {
    if (args[i].kind != ArgKind::tensor) continue;
    const Tensor& t = *args[i].tensor_ptr;
    if (!t.defined() || t->wrapped_number || (t.dim() == 0 && !t.is_meta())) continue;
    if (!first) first = &t;
    if (t.is_meta() != first->is_meta())
      failf("Tensor on device {} is not on the expected device {}!", t.device().str(), first->device().str());
  }
}

// `asked` is what rungs_of found: without a fake tensor and a device among the arguments nothing is left to
// look for.
void run_asked(const Op& op, const Arg* args, Value* results, uint8_t asked) {
  bool fake = (asked & rung_fake) && any_fake(op, args);
  if (fake) check_devices(op, args);
  if (op.is(op_pointwise) && !op.functional && !(asked & rung_fake) &&
      pointwise_fast(op, args, nullptr, results))
    return;
  if (op.functional)
    return op.is(op_inplace) ? run_inplace(op, args, results, fake) : run_out(op, args, results, fake);
  if (fake && op.is(op_inplace) &&
      !op.is(op_geometry)) {  // written by hand (copy_, fill_): no data to change
    const Tensor& self = args[0].tensor();
    for (int i = 1; i < op.arity && !self.is_fake(); ++i)
      if (const Tensor& t = args[i].tensor(); t.defined() && t.is_meta() && !t->wrapped_number)
        fail(ErrorKind::not_supported, "Cannot copy out of meta tensor; no data!");
    if (self.is_fake()) ++self.storage()->version;
    results[0] = Value(self);
    return;
  }
  if (op.call && !(fake && op.is(op_dynamic))) {
    if (op.check) op.check(args);
    if (~op.dtypes && !fake) check_dtype(op, args);
    return op.call(op, args, results);
  }
  if (!op.kernel && !op.is(op_pointwise) && !op.is(op_dynamic)) {
    if (op.body) return op.body(op, args, results);
    failf(ErrorKind::not_supported, "{}: Tern has no kernel for it", op.qualified());
  }
  Shapes shapes = rule(op, args);
  Device device = asked & (rung_fake | names_device) ? device_of(op, args) : kCPU;
  if (device.type == DeviceType::meta) fake = true;
  if (op.is(op_pointwise)) {
    Tensor result = allocate(shapes[0], device, fake);
    if (!fake) pointwise_into(op, args, result);
    results[0] = Value(std::move(result));
    return;
  }
  Few<Tensor, 3> out;
  out.reserve(shapes.size());
  for (const Shape& s : shapes) out.push_back(allocate(s, device, fake));
  if (!fake) run_op_kernel(op, args, Out(out.data(), out.size()));
  for (size_t i = 0; i < out.size(); ++i) results[i] = Value(std::move(out[i]));
}

}  // namespace

Shapes shapes_of(const Op& op, const Arg* args) { return rule(op.functional ? *op.functional : op, args); }

}  // namespace tern
