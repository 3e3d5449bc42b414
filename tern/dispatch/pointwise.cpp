#include "tern/dispatch/pointwise.h"

#include <algorithm>
#include <complex>
#include <cstring>

#include "tern/base/format.h"
#include "tern/base/parallel.h"
#include "tern/base/warning.h"
#include "tern/kernels/pointwise.h"

namespace tern {
namespace {

constexpr int max_inputs = 8;
constexpr size_t plain_dims = 6;

// PyTorch's three ranks of operands, each with the type its members agree on.
struct Promotion {
  DType dimensioned = DType::undefined, zero_dim = DType::undefined, number = DType::undefined;

  void add(const Tensor& t) {
    DType d = t.dtype();
    if (t->wrapped_number) {
      // A number brings its category, not its size: a float is the default float, whatever it was made as.
      if (is_complex(d))
        d = to_complex(default_dtype());
      else if (is_floating(d))
        d = default_dtype();
      number = promote(number, d);
    } else if (t.dim() > 0) {
      dimensioned = promote(dimensioned, d);
    } else {
      zero_dim = promote(zero_dim, d);
    }
  }
  void add(const Scalar& s) { number = promote(number, s.dtype()); }

  static int category(DType d) { return is_complex(d) ? 3 : is_floating(d) ? 2 : d == kBool ? 0 : 1; }
  static DType combine(DType higher, DType lower) {
    if (higher == DType::undefined) return lower;
    if (lower == DType::undefined) return higher;
    if (category(higher) >= category(lower)) return higher;
    // Of a higher category: a complex number keeps the precision of the real tensor it meets.
    if (is_complex(lower) && is_floating(higher)) return to_complex(higher);
    return promote(higher, lower);
  }
  DType result() const { return combine(combine(dimensioned, zero_dim), number); }
};

// The type the loop computes with, before narrow floats widen.
DType input_type(const Op& op, const Arg* args) {
  Promotion p;
  for (int i = op.is(op_condition) ? 1 : 0; i < op.arity; ++i) {
    const Arg& a = args[i];
    if (a.kind == ArgKind::tensor) {
      if (a.tensor_ptr->defined()) p.add(*a.tensor_ptr);
    } else if (op.is(op_scalars) && a.is_number()) {
      p.add(a.scalar());
    }
  }
  DType d = p.result();
  if (op.is(op_float) && is_integral(d, true)) d = default_dtype();
  return d;
}

DType output_type(const Op& op, DType input) {
  if (op.is(op_bool)) return kBool;
  return op.is(op_real) ? to_real(input) : input;
}

struct Loops {
  kernels::Loop by_dtype[32] = {};
};

kernels::Loop loop_of(const Op& op, DType compute) {
  auto* loops = static_cast<Loops*>(op.loops.load());
  if (!loops) {
    auto* fresh = new Loops;
    for (int d = 0; d < 32; ++d) {
      if (element_size(static_cast<DType>(d)) == 0) continue;
      fresh->by_dtype[d] = kernels::find_loop(op.loop, static_cast<DType>(d));
    }
    loops = static_cast<Loops*>(op.loops.set_once(fresh));
    if (loops != fresh) delete fresh;
  }
  return loops->by_dtype[static_cast<int>(compute)];
}

}  // namespace

void refuse_dtype(const Op& op, DType d) {
  const std::string_view name = op.schema().name.view();
  failf(ErrorKind::not_supported, "\"{}\" not implemented for '{}'",
        op.kernel_name ? op.kernel_name : name.substr(name.find("::") + 2), script_name(d));
}

DType result_type(Span<const Tensor> tensors) {
  Promotion p;
  for (const Tensor& t : tensors)
    if (t.defined()) p.add(t);
  return p.result();
}

Dims broadcast_sizes(Span<const SymInt> a, Span<const SymInt> b) {
  size_t n = std::max(a.size(), b.size());
  Dims sizes(n, SymInt(1));
  for (size_t i = 0; i < n; ++i) {
    SymInt x = i < a.size() ? a[a.size() - 1 - i] : SymInt(1),
           y = i < b.size() ? b[b.size() - 1 - i] : SymInt(1);
    SymInt& out = sizes[n - 1 - i];
    if (x.is_int() && y.is_int()) {
      if (x.as_int() != y.as_int() && x.as_int() != 1 && y.as_int() != 1)
        failf("The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {}",
              x.as_int(), y.as_int(), n - 1 - i);
      out = x.as_int() == 1 ? y : x;
    } else if (surely_eq(x, 1)) {
      out = y;
    } else if (surely_eq(y, 1) || surely_eq(x, y)) {
      out = x;
    } else if (!require_eq(x, y)) {
      failf("The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {}",
            x.str(), y.str(), n - 1 - i);
    } else {
      out = x.is_int() ? x : y;
    }
  }
  return sizes;
}

namespace {

// Dense strides that keep the order of dimensions of these operands, the first that has an opinion deciding:
// a stride of zero has none, and of equal strides the larger size is the inner one. What PyTorch's
// elementwise results have.
Dims dense_strides(const Dims& sizes, Span<const Tensor* const> operands) {
  int ndim = static_cast<int>(sizes.size());
  auto stride = [&](const Tensor& t, int d) -> int64_t {
    int own = d - (ndim - static_cast<int>(t.dim()));
    if (own < 0 || (t.int_sizes()[own] == 1 && sizes[static_cast<size_t>(d)].as_int() != 1)) return 0;
    return t.int_strides()[own];
  };
  // Negative: a is inside of b already; positive: they must change places; zero: nobody says.
  auto compare = [&](int a, int b) {
    for (const Tensor* t : operands) {
      int64_t x = stride(*t, a), y = stride(*t, b);
      if (x == 0 || y == 0) continue;
      if (x != y) return x < y ? -1 : 1;
      if (sizes[static_cast<size_t>(a)].as_int() > sizes[static_cast<size_t>(b)].as_int()) return 1;
    }
    return 0;
  };
  SmallVector<int, 6> order;  // from the inside out
  for (int d = ndim - 1; d >= 0; --d) order.push_back(d);
  for (int i = 1; i < ndim; ++i) {
    int moving = i;
    for (int j = i - 1; j >= 0; --j) {
      int c = compare(order[static_cast<size_t>(j)], order[static_cast<size_t>(moving)]);
      if (c > 0) {
        std::swap(order[static_cast<size_t>(j)], order[static_cast<size_t>(moving)]);
        moving = j;
      } else if (c < 0) {
        break;
      }
    }
  }
  Dims strides(sizes.size(), SymInt(1));
  int64_t step = 1;
  for (int d : order) {
    strides[static_cast<size_t>(d)] = step;
    step *= std::max<int64_t>(sizes[static_cast<size_t>(d)].as_int(), 1);
  }
  return strides;
}

}  // namespace

Shape like(const Tensor& t, DType dtype) {
  Shape s(t.sizes(), dtype == DType::undefined ? t.dtype() : dtype);
  s.device = t.device();
  if (t.is_contiguous() || t.dim() == 0) return s;
  if (t.is_symbolic()) {
    if (t.is_contiguous(MemoryFormat::channels_last) || t.is_contiguous(MemoryFormat::channels_last_3d))
      s.strides = Dims(t.strides());
    return s;
  }
  const Tensor* operands[] = {&t};
  s.strides = dense_strides(s.sizes, operands);
  return s;
}

Shape pointwise_shape(const Op& op, const Arg* args) {
  Dims sizes;
  const Tensor* model = nullptr;  // an input of the full size
  SmallVector<const Tensor*, 4> operands;
  bool plain = true, symbolic = false;
  for (int i = 0; i < op.arity; ++i) {
    if (args[i].kind != ArgKind::tensor || !args[i].tensor_ptr->defined()) continue;
    const Tensor& t = *args[i].tensor_ptr;
    sizes = operands.empty() ? Dims(t.sizes()) : broadcast_sizes(sizes, t.sizes());
    operands.push_back(&t);
    plain &= t.is_contiguous();
    symbolic |= t.is_symbolic();
  }
  if (operands.empty()) failf("{}: expected at least one tensor", op.qualified());
  for (const Tensor* t : operands) {
    bool full = !model && t->dim() == static_cast<int64_t>(sizes.size());
    for (size_t d = 0; full && d < sizes.size(); ++d) full = surely_eq(t->sizes()[d], sizes[d]);
    if (full) model = t;
  }
  DType dtype = output_type(op, input_type(op, args));
  if (symbolic && model) {
    Shape s = like(*model, dtype);
    s.sizes = std::move(sizes);
    return s;
  }
  Shape s(sizes, dtype);
  if (model) s.device = model->device();
  if (!plain && !symbolic)
    s.strides = dense_strides(sizes, Span<const Tensor* const>(operands.data(), operands.size()));
  return s;
}

namespace {

// Operands of one type whose sizes are plain numbers: what nearly every call has.
struct Plain {
  const Tensor* tensors[max_inputs];
  DType types[max_inputs];  // each is read as this
  int n = 0;
  int ndim = 0;
  int64_t sizes[plain_dims];  // the common size
  int64_t count = 1;
  DType type = DType::undefined;  // the loop's
  bool row_major = true;          // every operand is
  bool direct = true;             // no operand is repeated, but for those of one element

  bool gather(const Op& op, const Arg* args);

 private:
  bool choose_type(const Op& op, const Arg* args);
  bool same_size();
  bool broadcast();
};

bool Plain::gather(const Op& op, const Arg* args) {
  for (int i = 0; i < op.arity; ++i) {
    if (args[i].kind != ArgKind::tensor) continue;
    const TensorBody* b = args[i].tensor_ptr->body();
    if (!b || n == max_inputs || b->sizes.size() > plain_dims) return false;
    ndim = std::max(ndim, static_cast<int>(b->sizes.size()));
    row_major &= b->contiguous;
    tensors[n++] = args[i].tensor_ptr;
  }
  return n > 0 && choose_type(op, args) && (same_size() || broadcast());
}

// Promotion where it is seen at a glance: tensors of one type, and numbers that do not change it.
bool Plain::choose_type(const Op& op, const Arg* args) {
  const int first = op.is(op_condition) ? 1 : 0;
  if (first && (*tensors[0])->dtype != kBool) return false;
  DType zero_dim = DType::undefined;
  for (int k = first; k < n; ++k) {
    const TensorBody& b = *tensors[k]->body();
    if (b.wrapped_number) continue;
    DType& chosen = b.sizes.size() ? type : zero_dim;
    if (chosen == DType::undefined)
      chosen = b.dtype;
    else if (chosen != b.dtype)
      return false;
  }
  if (type == DType::undefined) type = zero_dim;
  if (type == DType::undefined) return false;
  if (type != kFloat && (compute_dtype(type) != type || (op.is(op_float) && is_integral(type, true)) ||
                         (op.is(op_real) && is_complex(type))))
    return false;
  const int category = Promotion::category(type);
  for (int k = 0; k < n; ++k) {
    const TensorBody& b = *tensors[k]->body();
    types[k] = k < first ? kBool : type;
    if (b.dtype != types[k] && Promotion::category(b.dtype) > category) return false;
  }
  if (op.is(op_scalars))
    for (int i = 0; i < op.arity; ++i)
      if (args[i].is_number() && Promotion::category(args[i].scalar().dtype()) > category) return false;
  return true;
}

bool Plain::same_size() {
  const Dims& own = (*tensors[0])->sizes;
  bool as_read = row_major;
  for (int k = 0; k < n; ++k) {
    const TensorBody& b = *tensors[k]->body();
    if (b.sizes.size() != own.size()) return false;
    for (size_t d = 0; d < own.size(); ++d)
      if (b.sizes[d].bits() != own[d].bits()) return false;
    as_read &= b.dtype == types[k];
  }
  for (size_t d = 0; d < own.size(); ++d) sizes[d] = own[d].bits();
  count = (*tensors[0])->numel.as_int();
  direct = as_read;
  return true;
}

bool Plain::broadcast() {
  for (int d = 0; d < ndim; ++d) {
    int64_t size = 1;
    for (int k = 0; k < n; ++k) {
      const Dims& own = (*tensors[k])->sizes;
      const int at = d - (ndim - static_cast<int>(own.size()));
      if (at < 0) continue;
      const int64_t s = own[static_cast<size_t>(at)].bits();
      if (s == size || s == 1) continue;
      if (size != 1) return false;  // the general way says what is wrong
      size = s;
    }
    sizes[d] = size;
    count *= size;
  }
  for (int k = 0; k < n; ++k) {
    const int64_t own = (*tensors[k])->numel.as_int();
    direct &= own == count ? (*tensors[k])->dtype == types[k] : own == 1;
  }
  direct &= row_major;
  return true;
}

// The type's name in "value cannot be converted to type".
std::string_view number_type(DType d) {
  switch (d) {
    case DType::int64:
      return "int64_t";
    case DType::int16:
      return "int16_t";
    case DType::int8:
      return "int8_t";
    case DType::uint8:
      return "uint8_t";
    default:
      return cpp_name(d);
  }
}

// The numbers beside the tensors are ones that the loop's type can hold.
void check_numbers(const Op& op, const Arg* args, DType type) {
  for (int i = 0; i < op.arity; ++i)
    if (args[i].kind == ArgKind::complex_ && !is_complex(type))
      failf("value cannot be converted to type {} without overflow", number_type(type));
}

// A short run of row-major operands: straight to the loop, numbers spread out beforehand.
void run_direct(kernels::Loop loop, const Plain& p, char* out, DType out_type,
                const kernels::Params& params) {
  alignas(64) char spread[max_inputs][4096];
  const void* in[max_inputs];
  int64_t step = p.count, widest = 1;
  bool repeated[max_inputs], any = false;
  for (int k = 0; k < p.n; ++k) {
    in[k] = p.tensors[k]->data();
    repeated[k] = (*p.tensors[k])->numel.as_int() != p.count || (*p.tensors[k])->dtype != p.types[k];
    any |= repeated[k];
  }
  if (!any) {
    void* to = out;
    return loop(in, &to, p.count, &params);
  }
  for (int k = 0; k < p.n; ++k) {
    widest = std::max(widest, element_size(p.types[k]));
    if (repeated[k]) step = std::min(step, static_cast<int64_t>(sizeof spread[k]) / widest);
  }
  for (int k = 0; k < p.n; ++k) {
    if (!repeated[k]) continue;
    kernels::find_cast((*p.tensors[k])->dtype, p.types[k])(in[k], 0, spread[k], 1, step);
    in[k] = spread[k];
  }
  for (int64_t at = 0; at < p.count; at += step) {
    void* to = out + at * element_size(out_type);
    loop(in, &to, std::min(step, p.count - at), &params);
    for (int k = 0; k < p.n; ++k)
      if (!repeated[k]) in[k] = static_cast<const char*>(in[k]) + step * element_size(p.types[k]);
  }
}

// The elements in the order of `sizes`, one after the other. Precondition: there are some.
template <class T>
void lay_out(const T* from, const int64_t* sizes, const int64_t* strides, int ndim, T* to) {
  if (ndim == 0) {
    *to = *from;
    return;
  }
  const int last = ndim - 1;
  int64_t index[plain_dims] = {};
  while (true) {
    for (int64_t i = 0; i < sizes[last]; ++i) *to++ = from[i * strides[last]];
    int d = last - 1;
    for (; d >= 0; --d) {
      from += strides[d];
      if (++index[d] < sizes[d]) break;
      from -= strides[d] * sizes[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

// A handful of elements: operands that are repeated or lie otherwise are laid out as the result lies, without
// a plan. False where one would be of use, or a cast.
constexpr int64_t handful = 64;
bool run_handful(kernels::Loop loop, const Plain& p, const int64_t (*strides)[plain_dims], char* out,
                 const kernels::Params& params) {
  alignas(64) char room[max_inputs][handful * sizeof(std::complex<double>)];
  const void* in[max_inputs];
  for (int k = 0; k < p.n; ++k) {
    const TensorBody& b = *p.tensors[k]->body();
    if (b.dtype != p.types[k]) return false;
    in[k] = p.tensors[k]->data();
    if (b.contiguous && b.numel.as_int() == p.count) continue;
    auto bring = [&]<class T>(T) {
      lay_out(static_cast<const T*>(in[k]), p.sizes, strides[k], p.ndim, reinterpret_cast<T*>(room[k]));
    };
    switch (element_size(b.dtype)) {
      case 1:
        bring(uint8_t{});
        break;
      case 2:
        bring(uint16_t{});
        break;
      case 4:
        bring(uint32_t{});
        break;
      case 8:
        bring(uint64_t{});
        break;
      default:
        bring(std::complex<double>{});
    }
    in[k] = room[k];
  }
  void* to = out;
  loop(in, &to, p.count, &params);
  return true;
}

}  // namespace

bool pointwise_fast(const Op& op, const Arg* args, const Tensor* into, Value* results) {
  Plain p;
  if (!p.gather(op, args)) return false;
  kernels::Loop loop = loop_of(op, p.type);
  if (!loop || !op.takes(p.type)) return false;
  if (op.check) op.check(args);
  const DType out_type = output_type(op, p.type);
  const auto sizes =
      Span<const SymInt>(reinterpret_cast<const SymInt*>(p.sizes), static_cast<size_t>(p.ndim));
  Tensor made;
  if (into) {
    const TensorBody& b = *into->body();
    if (!b.contiguous || b.dtype != out_type || b.sizes.size() != sizes.size()) return false;
    for (size_t d = 0; d < sizes.size(); ++d)
      if (b.sizes[d].bits() != sizes[d].bits()) return false;
  } else if (p.row_major) {
    made = make_tensor(sizes, out_type);
  } else {
    Dims wanted(sizes);
    made = make_tensor(sizes,
                       dense_strides(wanted, Span<const Tensor* const>(p.tensors, static_cast<size_t>(p.n))),
                       out_type);
  }
  const Tensor& out = into ? *into : made;
  if (p.count) {
    kernels::Params params;
    if (op.params) {
      check_numbers(op, args, p.type);
      op.params(args, &params);
    }
    if (p.direct && p.count <= 16384) {  // more is worth several threads
      run_direct(loop, p, static_cast<char*>(out.data()), out_type, params);
    } else {
      kernels::Operand inputs[max_inputs];
      int64_t strides[max_inputs][plain_dims];
      for (int k = 0; k < p.n; ++k) {
        const TensorBody& b = *p.tensors[k]->body();
        const int lead = p.ndim - static_cast<int>(b.sizes.size());
        for (int d = 0; d < p.ndim; ++d) {
          const auto at = static_cast<size_t>(d - lead);
          strides[k][d] = d < lead || (b.sizes[at].bits() == 1 && p.sizes[d] != 1) ? 0 : b.strides[at].bits();
        }
        inputs[k] = {p.tensors[k]->data(), b.dtype, strides[k]};
      }
      kernels::Operand output{out.data(), out_type, out.int_strides()};
      if (!(p.count <= handful && out->contiguous &&
            run_handful(loop, p, strides, static_cast<char*>(out.data()), params)))
        kernels::run_pointwise(loop, p.types, out_type, p.ndim, p.sizes, &output, 1, inputs, p.n, &params);
    }
  }
  results[0] = into ? Value(*into) : Value(std::move(made));
  return true;
}

namespace {

// Whether an operand counts as it is, though the promoted type is narrower: what PyTorch does with the number
// a tensor is multiplied with or divided by.
bool keeps_precision(std::string_view loop, size_t place, const Tensor& t) {
  return place == 1 && t.int_numel() == 1 &&
         (loop == "mul" || loop == "div" || loop == "div_floor" || loop == "div_trunc");
}

// Half types compute in float here. What PyTorch rounds on the way is rounded too: steps that a loop asks
// for, and the number beside the tensors.
void round_number(std::string_view loop, DType type, kernels::Params& params) {
  if (type != kHalf && type != kBFloat16) return;
  params.stored = type;
  static constexpr std::string_view rounding[] = {
      "add", "sub", "rsub", "hardshrink", "hardshrink_backward", "softshrink_backward"};
  if (std::find(std::begin(rounding), std::end(rounding), loop) == std::end(rounding)) return;
  const auto number = static_cast<float>(params.d[0]);
  params.set(0, static_cast<double>(type == kHalf ? float(Half(number)) : float(BFloat16(number))));
}

// `type` is what the inputs promote to; the loop named `name` may compute in a wider one.
void run(const char* name, kernels::Loop loop, DType type, Span<const Tensor* const> tensors,
         const DType* compute_in, DType compute_out, const Tensor& out, const kernels::Params& params) {
  int ndim = static_cast<int>(out.dim());
  kernels::Operand inputs[max_inputs];
  SmallVector<int64_t, 6> strides[max_inputs];
  Tensor kept[max_inputs];
  if (out.int_numel() == 0) return;
  for (size_t n = 0; n < tensors.size(); ++n) {
    const Tensor& t = *tensors[n];
    if (t->wrapped_number && t.is_fake()) kept[n] = tensor(Scalar(t.offset().guard_int()));
    if (compute_in[n] != type && compute_in[n] == compute_dtype(type) && t.dtype() != type &&
        !keeps_precision(name, n, t)) {
      const Tensor exact = kept[n].defined() ? kept[n] : t;
      kept[n] = make_tensor(exact.sizes(), type);
      copy_elements(exact, kept[n]);
    }
    const Tensor& source = kept[n].defined() ? kept[n] : t;
    strides[n].resize(ndim, 0);
    int64_t lead = ndim - source.dim();
    for (int64_t d = 0; d < source.dim(); ++d)
      strides[n][lead + d] =
          source.int_sizes()[d] == 1 && out.int_sizes()[lead + d] != 1 ? 0 : source.int_strides()[d];
    inputs[n] = {source.data(), source.dtype(), strides[n].data()};
  }
  kernels::Operand output{out.data(), out.dtype(), out.int_strides()};
  kernels::run_pointwise(loop, compute_in, compute_out, ndim, out.int_sizes(), &output, 1, inputs,
                         static_cast<int>(tensors.size()), &params);
}

}  // namespace

void pointwise_into(const Op& op, const Arg* args, const Tensor& out) {
  DType input = input_type(op, args), compute = compute_dtype(input);
  kernels::Loop loop = loop_of(op, compute);
  if (!loop || !op.takes(input)) refuse_dtype(op, input);
  kernels::Params params;
  if (op.params) {
    check_numbers(op, args, compute);
    op.params(args, &params);
  }
  round_number(op.loop, input, params);
  SmallVector<const Tensor*, max_inputs> tensors;
  DType compute_in[max_inputs];
  for (int i = 0; i < op.arity; ++i) {
    if (args[i].kind != ArgKind::tensor || !args[i].tensor_ptr->defined()) continue;
    if (tensors.size() == max_inputs) failf("{}: too many tensors", op.qualified());
    compute_in[tensors.size()] = op.is(op_condition) && i == 0 ? kBool : compute;
    tensors.push_back(args[i].tensor_ptr);
  }
  run(op.loop, loop, input, tensors, compute_in, output_type(op, compute), out, params);
}

void run_loop(const char* name, Span<const Tensor> inputs, const Tensor& out, Span<const Scalar> numbers) {
  DType input = result_type(inputs), compute = compute_dtype(input);
  if (is_integral(input, true) && (is_floating(out.dtype()) || (input == kBool && is_integral(out.dtype()))))
    compute = compute_dtype(out.dtype());
  kernels::Loop loop = kernels::find_loop(name, compute);
  if (!loop) failf(ErrorKind::not_supported, "\"{}\" not implemented for '{}'", name, script_name(input));
  kernels::Params params;
  for (size_t i = 0; i < numbers.size(); ++i) set_param(params, static_cast<int>(i), Arg(numbers[i]));
  SmallVector<const Tensor*, max_inputs> tensors;
  DType compute_in[max_inputs];
  for (const Tensor& t : inputs) {
    compute_in[tensors.size()] = compute;
    tensors.push_back(&t);
  }
  run(name, loop, input, tensors, compute_in, out.dtype() == kBool ? kBool : compute, out, params);
}

void set_param(kernels::Params& params, int k, const Arg& a) {
  if (a.is_none()) return;
  Scalar s = a.scalar();
  if (s.is_complex())
    params.set(k, s.to_complex());
  else if (s.is_float())
    params.set(k, s.to_double());
  else
    params.set(k, s.to_int());
}

void copy_elements(const Tensor& from, const Tensor& to) {
  if (to.int_numel() == 0) return;
  int ndim = static_cast<int>(to.dim());
  SmallVector<int64_t, 6> strides(ndim, 0);
  int64_t lead = ndim - from.dim();
  if (lead < 0)
    failf("output with shape {} doesn't match the broadcast shape {}", str(to.sizes()), str(from.sizes()));
  for (int64_t d = 0; d < from.dim(); ++d) {
    int64_t a = from.int_sizes()[d], b = to.int_sizes()[lead + d];
    if (a != b && a != 1)
      failf("The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {}", b,
            a, lead + d);
    strides[lead + d] = a == 1 && b != 1 ? 0 : from.int_strides()[d];
  }
  if (from.dtype() == to.dtype() && from.is_contiguous() && to.is_contiguous() &&
      from.int_numel() == to.int_numel()) {
    const int64_t bytes = to.int_numel() * to.element_size();
    auto* target = static_cast<char*>(to.data());
    const auto* source = static_cast<const char*>(from.data());
    if (bytes < 1 << 18 || (target < source + bytes && source < target + bytes)) {
      std::memmove(target, source, static_cast<size_t>(bytes));
      return;
    }
    constexpr int64_t page = 4096;
    parallel_for(0, (bytes + page - 1) / page, 64, [&](int64_t begin, int64_t end) {
      begin *= page, end = std::min(end * page, bytes);
      std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
    });
    return;
  }
  kernels::copy_strided(ndim, to.int_sizes(), {to.data(), to.dtype(), to.int_strides()},
                        {from.data(), from.dtype(), strides.data()});
}

void fill_elements(const Tensor& t, const Scalar& value) {
  if (is_quantized(t.dtype()))
    failf(ErrorKind::not_supported, "\"fill_cpu\" not implemented for '{}'", script_name(t.dtype()));
  if (t.int_numel() == 0) return;
  if (value.is_complex() && value.to_complex().imag() != 0 && !t.is_complex() && t.dtype() != kBool)
    failf("value cannot be converted to type {} without overflow", number_type(t.dtype()));
  kernels::Params p;
  if (value.is_complex())
    p.set(0, value.to_complex());
  else if (value.is_float())
    p.set(0, value.to_double());
  else
    p.set(0, value.to_int());
  kernels::fill_strided(static_cast<int>(t.dim()), t.int_sizes(), {t.data(), t.dtype(), t.int_strides()}, p);
}

void resize_output(const Tensor& out, Span<const SymInt> sizes) {
  if (!surely_eq(out.numel(), 0))
    warn(
        "UserWarning",
        fmt::format(
            "An output with one or more elements was resized since it had shape {}, which does not match the "
            "required output shape {}. This behavior is deprecated, and in a future PyTorch release outputs "
            "will not be resized unless they have zero elements. You can explicitly reuse an out tensor t by "
            "resizing it, inplace, to zero elements with t.resize_(0).",
            str(out.sizes()), str(sizes)));
  TensorBody& b = *out.body();
  const Tensor wanted = make_tensor(sizes, b.dtype, kMeta, true);  // refuses what cannot be
  if (!wanted->symbolic)
    b.storage.grow(static_cast<size_t>((b.offset.as_int() + wanted->numel.as_int()) * element_size(b.dtype)));
  b.sizes = wanted->sizes;
  b.strides = wanted->strides;
  b.numel = wanted->numel;
  b.contiguous = true;
  b.symbolic = wanted->symbolic;
}

}  // namespace tern
