// Padding: constants, mirrored and repeated borders, wrapped ones.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"
#include "tern/ops/pad.args.h"
#include "tern/ops/view/geometry.h"

namespace tern {

// Pairs count from the last dimension: (left, right) of the last, then of the one before it.
Shapes shape_constant_pad_nd(const args::constant_pad_nd& a) {
  if (a.pad.size() % 2) failf("Length of pad must be even but instead it equals {}", a.pad.size());
  int64_t pairs = static_cast<int64_t>(a.pad.size() / 2), n = a.self.dim();
  if (pairs > n)
    failf(
        "Length of pad should be no more than twice the number of dimensions of the input. Pad length is {} "
        "while the input has {} "
        "dimensions.",
        a.pad.size(), n);
  Dims sizes(a.self.sizes());
  for (int64_t p = 0; p < pairs; ++p) {
    SymInt& size = sizes[n - 1 - p];
    SymInt now = size + a.pad[2 * p] + a.pad[2 * p + 1];
    if (!surely_le(0, now) && now < 0)
      failf(
          "The input size {}, plus negative padding {} and {} resulted in a negative output size, which is "
          "invalid. Check dimension {} "
          "of your input.",
          size.str(), a.pad[2 * p].str(), a.pad[2 * p + 1].str(), n - 1 - p);
    size = now;
  }
  return {laid_out_as(a.self, std::move(sizes), a.self.dtype())};
}
void kernel_constant_pad_nd(const args::constant_pad_nd& a, Out out) {
  fill_elements(out[0], a.value);
  Tensor from = a.self, to = out[0];
  for (size_t p = 0; p < a.pad.size() / 2; ++p) {
    int64_t d = a.self.dim() - 1 - static_cast<int64_t>(p), left = a.pad[2 * p].guard_int(),
            right = a.pad[2 * p + 1].guard_int();
    int64_t n = from.int_sizes()[d], m = to.int_sizes()[d], from_start = std::max<int64_t>(-left, 0),
            from_end = n - std::max<int64_t>(-right, 0);
    int64_t to_start = std::max<int64_t>(left, 0), to_end = m - std::max<int64_t>(right, 0);
    if (from_end <= from_start || to_end <= to_start) return;
    from = slice_view(from, d, from_start, from_end, 1);
    to = slice_view(to, d, to_start, to_end, 1);
  }
  copy_elements(from, to);
}

namespace {

void check_border(const char* op, const Tensor& self, Span<const SymInt> padding, int dims, bool reflect) {
  if (static_cast<int>(padding.size()) != 2 * dims)
    failf("padding size is expected to be {}, but got: {}", 2 * dims, padding.size());
  if (self.dim() != dims + 1 && self.dim() != dims + 2)
    failf(
        "{}: Expected {}D or {}D (batch mode) tensor with possibly 0 batch size and other non-zero "
        "dimensions for input, but got: {}",
        op, dims + 1, dims + 2, str(self.sizes()));
  for (int p = 0; p < dims; ++p) {
    int64_t d = self.dim() - 1 - p;
    SymInt size = self.sizes()[d], left = padding[2 * p], right = padding[2 * p + 1];
    if (surely_eq(size, 0))
      failf("{}: Expected non-zero size for input dimension {}, but got: {}", op, d, str(self.sizes()));
    if (reflect && ((!surely_lt(left, size) && left >= size) || (!surely_lt(right, size) && right >= size)))
      failf(
          "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
          "({}, {}) at dimension {} of "
          "input {}",
          left.str(), right.str(), d, str(self.sizes()));
    SymInt now = size + left + right;
    if (!surely_le(1, now) && now < 1)
      failf("input (size {} at dimension {}) is too small. Calculated output size: {}", size.str(), d,
            now.str());
  }
}

Shapes border_shape(const char* op, const Tensor& self, Span<const SymInt> padding, int dims, bool reflect) {
  check_border(op, self, padding, dims, reflect);
  Dims sizes(self.sizes());
  for (int p = 0; p < dims; ++p) {
    SymInt& size = sizes[static_cast<size_t>(self.dim() - 1 - p)];
    size = size + padding[2 * p] + padding[2 * p + 1];
  }
  return {laid_out_as(self, std::move(sizes), self.dtype())};
}

// Which element of a dimension stands at position i of the padded one.
int64_t border_source(int64_t i, int64_t left, int64_t n, bool reflect) {
  int64_t at = i - left;
  if (!reflect) return std::clamp<int64_t>(at, 0, n - 1);
  at = at < 0 ? -at : at;
  return at < n ? at : 2 * (n - 1) - at;
}

void fill_border(const Tensor& self, Span<const SymInt> padding, int dims, bool reflect, const Tensor& out) {
  if (out.int_numel() == 0) return;
  // Per dimension, the offset in self of each position.
  std::vector<std::vector<int64_t>> offsets(static_cast<size_t>(self.dim()));
  for (int64_t d = 0; d < self.dim(); ++d) {
    int64_t p = self.dim() - 1 - d, left = p < dims ? padding[2 * p].guard_int() : 0;
    for (int64_t i = 0; i < out.int_sizes()[d]; ++i)
      offsets[d].push_back((p < dims ? border_source(i, left, self.int_sizes()[d], reflect) : i) *
                           self.int_strides()[d]);
  }
  by_element_size(self.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(self.data());
    T* to = static_cast<T*>(out.data());
    int64_t last = self.dim() - 1, width = out.int_sizes()[last], step = out.int_strides()[last];
    parallel_for(0, out.int_numel() / width, std::max<int64_t>(1, 16384 / width),
                 [&](int64_t begin, int64_t end) {
                   Walk<1> walk(last, out.int_sizes());
                   walk.operand(0, out.int_strides());
                   walk.seek(begin);
                   for (int64_t row = begin; row < end; ++row, walk.next()) {
                     int64_t base = 0;
                     for (int64_t d = 0; d < last; ++d)
                       base += offsets[d][static_cast<size_t>(walk.position(d))];
                     const int64_t* offset = offsets[last].data();
                     T* line = to + walk.offset(0);
                     if (step == 1)
                       for (int64_t i = 0; i < width; ++i) line[i] = from[base + offset[i]];
                     else
                       for (int64_t i = 0; i < width; ++i) line[i * step] = from[base + offset[i]];
                   }
                 });
  });
}

// Each position of the padded grad_output is added to where its value came from.
void gather_border(const Tensor& grad, Span<const SymInt> padding, int dims, bool reflect,
                   const Tensor& out) {
  fill_elements(out, 0);
  if (grad.int_numel() == 0) return;
  Tensor from = row_major(grad), to = row_major(out);
  const int64_t n = grad.dim(), lead = n - dims;
  // The places of the last dims that each position of them goes to; what is before them are planes apart.
  std::vector<int64_t> places = {0};
  int64_t planes = 1, plane = 1;
  for (int64_t d = 0; d < lead; ++d) planes *= grad.int_sizes()[d];
  for (int64_t d = lead; d < n; ++d) {
    const int64_t size = out.int_sizes()[d], left = padding[static_cast<size_t>(2 * (n - 1 - d))].guard_int();
    std::vector<int64_t> next;
    next.reserve(places.size() * static_cast<size_t>(grad.int_sizes()[d]));
    for (int64_t place : places)
      for (int64_t i = 0; i < grad.int_sizes()[d]; ++i)
        next.push_back(place * size + border_source(i, left, size, reflect));
    places = std::move(next);
    plane *= size;
  }
  const int64_t padded = static_cast<int64_t>(places.size());
  tern::by_dtype("border_backward", grad.dtype(), [&]<class T>(T) {
    using W = wide_t<T>;
    if constexpr (!std::is_same_v<W, bool>)
      parallel_for(0, planes, std::max<int64_t>(1, 16384 / padded), [&](int64_t begin, int64_t end) {
        std::vector<W> sum(static_cast<size_t>(plane));
        for (int64_t p = begin; p < end; ++p) {
          std::fill(sum.begin(), sum.end(), W(0));
          const T* g = static_cast<const T*>(from.data()) + p * padded;
          for (int64_t i = 0; i < padded; ++i)
            sum[static_cast<size_t>(places[static_cast<size_t>(i)])] += static_cast<W>(g[i]);
          T* result = static_cast<T*>(to.data()) + p * plane;
          for (int64_t i = 0; i < plane; ++i) result[i] = static_cast<T>(sum[static_cast<size_t>(i)]);
        }
      });
  });
  if (!to.is_same(out)) copy_elements(to, out);
}

Shapes border_backward_shape(const Tensor& grad, const Tensor& self, Span<const SymInt> padding, int dims,
                             bool reflect) {
  static constexpr const char* names[] = {"width", "height", "depth"};
  check_border(reflect ? "reflection_pad_backward" : "replication_pad_backward", self, padding, dims,
               reflect);
  if (grad.dim() != self.dim())
    failf("grad_output must have as many dimensions as the input: expected {}, got {}", self.dim(),
          grad.dim());
  for (int p = 0; p < dims; ++p) {
    const size_t d = static_cast<size_t>(self.dim() - 1 - p);
    SymInt wanted = self.sizes()[d] + padding[2 * p] + padding[2 * p + 1];
    if (!(wanted == grad.sizes()[d]))
      failf("{} {} unexpected. Expected: {}, Got: {}", reflect && dims != 2 ? "grad_output" : "gradOutput",
            names[p], wanted.str(), grad.sizes()[d].str());
  }
  return {laid_out_as(self, Dims(self.sizes()), grad.dtype())};
}

}  // namespace

Tensor border_backward(const Tensor& grad, Span<const SymInt> sizes, Span<const SymInt> padding,
                       bool reflect) {
  Tensor g = grad;
  for (size_t p = 0; p < padding.size() / 2; ++p) {
    int64_t d = grad.dim() - 1 - static_cast<int64_t>(p);
    SymInt n = sizes[static_cast<size_t>(d)], left = padding[2 * p], right = padding[2 * p + 1];
    Tensor places = arange(Scalar(-left), Scalar(n + right), kLong, {}, grad.device());
    if (reflect)
      places = rsub(abs(rsub(abs(places), Scalar(n - 1))), Scalar(n - 1));
    else
      places = minimum(clamp(places, Scalar(0), std::nullopt),
                       scalar_tensor(Scalar(n - 1), kLong, {}, grad.device()));
    Dims shape(g.sizes());
    shape[static_cast<size_t>(d)] = n;
    g = index_add(zeros(shape, grad.dtype(), {}, grad.device()), d, places, g);
  }
  return g;
}

Shapes shape_reflection_pad1d(const args::reflection_pad1d& a) {
  return border_shape("reflection_pad1d", a.self, a.padding, 1, true);
}
namespace {

// A border by looking up where each element comes from, one dim after the other.
Tensor padded_by_index(const Tensor& self, Span<const SymInt> padding, bool mirrored) {
  Tensor x = self;
  int64_t dims = static_cast<int64_t>(padding.size()) / 2;
  for (int64_t k = 0; k < dims; ++k) {
    int64_t dim = self.dim() - dims + k;
    SymInt last = self.size(dim) - 1;
    size_t pair = static_cast<size_t>(2 * (dims - 1 - k));
    Tensor from = arange(Scalar(-padding[pair]), Scalar(last + 1 + padding[pair + 1]));
    if (mirrored)
      from = rsub(abs(rsub(abs(from), Scalar(last))), Scalar(last));
    else
      from = clamp(from, Scalar(0), Scalar(last));
    std::vector<Tensor> at(static_cast<size_t>(dim));
    at.push_back(from);
    x = index(x, at);
  }
  return x;
}

}  // namespace

Tensor body_reflection_pad1d(const args::reflection_pad1d& a) {
  return padded_by_index(a.self, a.padding, true);
}
Tensor body_reflection_pad2d(const args::reflection_pad2d& a) {
  return padded_by_index(a.self, a.padding, true);
}
Tensor body_reflection_pad3d(const args::reflection_pad3d& a) {
  return padded_by_index(a.self, a.padding, true);
}
Tensor body_replication_pad1d(const args::replication_pad1d& a) {
  return padded_by_index(a.self, a.padding, false);
}
Tensor body_replication_pad2d(const args::replication_pad2d& a) {
  return padded_by_index(a.self, a.padding, false);
}
Tensor body_replication_pad3d(const args::replication_pad3d& a) {
  return padded_by_index(a.self, a.padding, false);
}

void kernel_reflection_pad1d(const args::reflection_pad1d& a, Out out) {
  fill_border(a.self, a.padding, 1, true, out[0]);
}
Shapes shape_reflection_pad2d(const args::reflection_pad2d& a) {
  return border_shape("reflection_pad2d", a.self, a.padding, 2, true);
}
void kernel_reflection_pad2d(const args::reflection_pad2d& a, Out out) {
  fill_border(a.self, a.padding, 2, true, out[0]);
}
Shapes shape_reflection_pad3d(const args::reflection_pad3d& a) {
  return border_shape("reflection_pad3d", a.self, a.padding, 3, true);
}
void kernel_reflection_pad3d(const args::reflection_pad3d& a, Out out) {
  fill_border(a.self, a.padding, 3, true, out[0]);
}
Shapes shape_replication_pad1d(const args::replication_pad1d& a) {
  return border_shape("replication_pad1d", a.self, a.padding, 1, false);
}
void kernel_replication_pad1d(const args::replication_pad1d& a, Out out) {
  fill_border(a.self, a.padding, 1, false, out[0]);
}
Shapes shape_replication_pad2d(const args::replication_pad2d& a) {
  return border_shape("replication_pad2d", a.self, a.padding, 2, false);
}
void kernel_replication_pad2d(const args::replication_pad2d& a, Out out) {
  fill_border(a.self, a.padding, 2, false, out[0]);
}
Shapes shape_replication_pad3d(const args::replication_pad3d& a) {
  return border_shape("replication_pad3d", a.self, a.padding, 3, false);
}
void kernel_replication_pad3d(const args::replication_pad3d& a, Out out) {
  fill_border(a.self, a.padding, 3, false, out[0]);
}

Shapes shape_reflection_pad1d_backward(const args::reflection_pad1d_backward& a) {
  return border_backward_shape(a.grad_output, a.self, a.padding, 1, true);
}
void kernel_reflection_pad1d_backward(const args::reflection_pad1d_backward& a, Out out) {
  gather_border(a.grad_output, a.padding, 1, true, out[0]);
}
Shapes shape_reflection_pad2d_backward(const args::reflection_pad2d_backward& a) {
  return border_backward_shape(a.grad_output, a.self, a.padding, 2, true);
}
void kernel_reflection_pad2d_backward(const args::reflection_pad2d_backward& a, Out out) {
  gather_border(a.grad_output, a.padding, 2, true, out[0]);
}
Shapes shape_reflection_pad3d_backward(const args::reflection_pad3d_backward& a) {
  return border_backward_shape(a.grad_output, a.self, a.padding, 3, true);
}
void kernel_reflection_pad3d_backward(const args::reflection_pad3d_backward& a, Out out) {
  gather_border(a.grad_output, a.padding, 3, true, out[0]);
}
Shapes shape_replication_pad1d_backward(const args::replication_pad1d_backward& a) {
  return border_backward_shape(a.grad_output, a.self, a.padding, 1, false);
}
void kernel_replication_pad1d_backward(const args::replication_pad1d_backward& a, Out out) {
  gather_border(a.grad_output, a.padding, 1, false, out[0]);
}
Shapes shape_replication_pad2d_backward(const args::replication_pad2d_backward& a) {
  return border_backward_shape(a.grad_output, a.self, a.padding, 2, false);
}
void kernel_replication_pad2d_backward(const args::replication_pad2d_backward& a, Out out) {
  gather_border(a.grad_output, a.padding, 2, false, out[0]);
}
Shapes shape_replication_pad3d_backward(const args::replication_pad3d_backward& a) {
  return border_backward_shape(a.grad_output, a.self, a.padding, 3, false);
}
void kernel_replication_pad3d_backward(const args::replication_pad3d_backward& a, Out out) {
  gather_border(a.grad_output, a.padding, 3, false, out[0]);
}

Tensor body__pad_enum(const args::_pad_enum& a) {
  static constexpr const char* modes[] = {"reflect", "replicate", "circular", "constant"};
  if (a.mode < 0 || a.mode > 3) failf(ErrorKind::not_supported, "Unrecognised padding mode {}", a.mode);
  return pad(a.self, a.pad, modes[a.mode], a.value);
}
Tensor body_pad_(const args::pad_& a) {
  if (a.mode == "constant") {
    double value = a.value.value_or(0);
    bool whole =
        is_integral(a.self.dtype(), true) && value == static_cast<double>(static_cast<int64_t>(value));
    return constant_pad_nd(a.self, a.pad, whole ? Scalar(static_cast<int64_t>(value)) : Scalar(value));
  }
  if (a.value && *a.value != 0) failf("Padding mode \"{}\" doesn't take in value argument", a.mode);
  int64_t n = a.self.dim();
  size_t pads = a.pad.size();
  bool known = (pads == 2 && (n == 2 || n == 3)) || (pads == 4 && (n == 3 || n == 4)) ||
               (pads == 6 && (n == 4 || n == 5));
  if (known) {
    if (a.mode == "reflect")
      return pads == 2   ? reflection_pad1d(a.self, a.pad)
             : pads == 4 ? reflection_pad2d(a.self, a.pad)
                         : reflection_pad3d(a.self, a.pad);
    if (a.mode == "replicate")
      return pads == 2   ? replication_pad1d(a.self, a.pad)
             : pads == 4 ? replication_pad2d(a.self, a.pad)
                         : replication_pad3d(a.self, a.pad);
    if (a.mode == "circular") return _pad_circular(a.self, a.pad);
    failf(ErrorKind::not_supported, "Unrecognised padding mode {}", a.mode);
  }
  fail(ErrorKind::not_supported,
       "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now: pad the last 1 to 3 "
       "dimensions of a tensor with a "
       "channel dimension");
}

namespace {

// A dim whose ends are wrapped around: what is cut away on one side does not come back on the other.
struct Wrapped {
  int64_t dim;
  SymInt left, right;  // how wide the borders are
  SymInt start, end;   // what is kept of the input
  SymInt size;         // of the result

  SymInt kept() const { return end - start; }
};

// The last dim first, as the pads are given.
std::vector<Wrapped> wrapped_dims(Span<const SymInt> sizes, Span<const SymInt> pad) {
  const int64_t rank = static_cast<int64_t>(sizes.size());
  if (pad.size() % 2 || static_cast<int64_t>(pad.size() / 2) + 1 > rank)
    failf("Invalid padding size, expected an even number of at most {} but got {}",
          2 * std::max<int64_t>(rank - 1, 0), pad.size());
  std::vector<Wrapped> dims;
  for (size_t p = 0; p < pad.size() / 2; ++p) {
    const SymInt n = sizes[sizes.size() - 1 - p], left = pad[2 * p], right = pad[2 * p + 1], none = 0;
    Wrapped w{rank - 1 - static_cast<int64_t>(p), left, right, none, n, n + left + right};
    if (w.size < 0) fail("Negative padding value is resulting in an empty dimension");
    if (left < 0) w.left = none, w.start = -left;
    if (right < 0) w.right = none, w.end = n + right;
    if (w.left > w.kept() || w.right > w.kept()) fail("Padding value causes wrapping around more than once.");
    dims.push_back(w);
  }
  return dims;
}

}  // namespace

Shapes shape__pad_circular(const args::_pad_circular& a) {
  Dims sizes(a.self.sizes());
  for (const Wrapped& w : wrapped_dims(a.self.sizes(), a.pad)) sizes[static_cast<size_t>(w.dim)] = w.size;
  return {Shape(std::move(sizes), a.self.dtype())};
}

// The input in the middle of the result, then borders from there. Those of a dim go along the whole of the
// others, which fills the corners.
void kernel__pad_circular(const args::_pad_circular& a, Out out) {
  if (out[0].int_numel() == 0) return;
  const std::vector<Wrapped> dims = wrapped_dims(a.self.sizes(), a.pad);
  Tensor from = a.self, to = out[0];
  for (const Wrapped& w : dims) {
    from = slice_view(from, w.dim, w.start, w.end, 1);
    to = slice_view(to, w.dim, w.left, w.size - w.right, 1);
  }
  copy_elements(from, to);
  for (const Wrapped& w : dims) {
    auto part = [&](SymInt start, SymInt length) {
      return slice_view(out[0], w.dim, start, start + length, 1);
    };
    if (w.left > 0) copy_elements(part(w.kept(), w.left), part(0, w.left));
    if (w.right > 0) copy_elements(part(w.left, w.right), part(w.left + w.kept(), w.right));
  }
}

// The same as values.
Tensor body__pad_circular(const args::_pad_circular& a) {
  const std::vector<Wrapped> dims = wrapped_dims(a.self.sizes(), a.pad);
  Dims sizes(a.self.sizes());
  for (const Wrapped& w : dims) sizes[static_cast<size_t>(w.dim)] = w.size;
  Tensor from = a.self, to = empty(sizes, a.self.dtype(), {}, a.self.device());
  std::vector<Tensor> around;
  for (const Wrapped& w : dims) {
    around.push_back(to);
    to = slice(to, w.dim, w.left, w.size - w.right, 1);
    from = slice(from, w.dim, w.start, w.end, 1);
  }
  Tensor x = copy(to, from);
  for (size_t k = dims.size(); k-- > 0;) {
    const Wrapped& w = dims[k];
    x = slice_scatter(around[k], x, w.dim, w.left, w.size - w.right, 1);
  }
  for (const Wrapped& w : dims) {
    auto fill = [&](SymInt start, SymInt length, SymInt source) {
      Tensor border = slice(x, w.dim, start, start + length, 1);
      border = copy(border, slice(x, w.dim, source, source + length, 1));
      x = slice_scatter(x, border, w.dim, start, start + length, 1);
    };
    if (w.left > 0) fill(0, w.left, w.kept());
    if (w.right > 0) fill(w.left + w.kept(), w.right, w.left);
  }
  return x;
}

Tensor circular_backward(const Tensor& grad, Span<const SymInt> sizes, Span<const SymInt> pad) {
  Tensor g = grad;
  for (const Wrapped& w : wrapped_dims(sizes, pad)) {
    auto part = [&](const Tensor& t, SymInt start, SymInt length) {
      return slice(t, w.dim, start, start + length, 1);
    };
    Tensor sum = part(g, w.left, w.kept());
    if (w.left > 0 || w.right > 0) sum = clone(sum, MemoryFormat::contiguous);
    if (w.left > 0) add_(part(sum, w.kept() - w.left, w.left), part(g, 0, w.left));
    if (w.right > 0) add_(part(sum, 0, w.right), part(g, w.left + w.kept(), w.right));
    const SymInt n = sizes[static_cast<size_t>(w.dim)];
    if (w.start > 0 || w.end < n) {
      Dims cut(2 * static_cast<size_t>(grad.dim() - w.dim), SymInt(0));
      cut[cut.size() - 2] = w.start;
      cut[cut.size() - 1] = n - w.end;
      sum = constant_pad_nd(sum, cut, 0);
    }
    g = sum;
  }
  return g;
}

namespace {

// How blocks of pixels and channels change places: the sizes when they are taken apart, the order in which
// they are put together again, and the sizes then.
struct Shuffle {
  Dims apart, joined;
  SmallVector<int64_t, 6> order;

  Shuffle(Span<const SymInt> sizes, std::initializer_list<SymInt> last, std::initializer_list<int64_t> moved,
          std::initializer_list<SymInt> result)
      : apart(sizes.first(sizes.size() - 3)), joined(apart) {
    int64_t before = static_cast<int64_t>(apart.size());
    for (int64_t d = 0; d < before; ++d) order.push_back(d);
    for (SymInt v : last) apart.push_back(v);
    for (int64_t d : moved) order.push_back(before + d);
    for (SymInt v : result) joined.push_back(v);
  }
  Tensor of(const Tensor& t) const {
    Tensor moved = reshape(permute(reshape(t, apart), order), joined);
    return clone(moved, t.dim() == 4 && channels_innermost(t) ? MemoryFormat::channels_last
                                                              : MemoryFormat::contiguous);
  }
  void run(const Tensor& from, const Tensor& to) const {
    Dims sizes, strides, source = strides_apart(from, apart);
    for (int64_t d : order) {
      sizes.push_back(apart[d]);
      strides.push_back(source[d]);
    }
    copy_elements(from.as_view(sizes, strides), to.as_view(sizes, strides_apart(to, sizes)));
  }
  // Of t with its dims taken apart to these sizes; a size of one has any stride.
  static Dims strides_apart(const Tensor& t, const Dims& sizes) {
    Dims strides(sizes.size(), SymInt(0));
    size_t at = sizes.size();
    for (int64_t d = t.dim() - 1; d >= 0; --d) {
      int64_t step = t.int_strides()[d];
      for (int64_t left = t.int_sizes()[d]; left > 1; left /= sizes[at].as_int(), step *= sizes[at].as_int())
        strides[--at] = step;
    }
    return strides;
  }
};

Shuffle shuffle(const args::pixel_shuffle& a) {
  int64_t r = a.upscale_factor, n = a.self.dim();
  if (n < 3)
    failf("pixel_shuffle expects input to have at least 3 dimensions, but got input with {} dimension(s)", n);
  if (r <= 0) failf("pixel_shuffle expects a positive upscale_factor, but got {}", r);
  Span<const SymInt> s = a.self.sizes();
  if (!(mod(s[n - 3], r * r) == 0))
    failf(
        "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
        "upscale_factor, but input.size(-3)={} is "
        "not divisible by {}",
        s[n - 3].str(), r * r);
  SymInt c = floor_div(s[n - 3], r * r), h = s[n - 2], w = s[n - 1];
  return {s, {c, r, r, h, w}, {0, 3, 1, 4, 2}, {c, h * r, w * r}};
}
Shuffle shuffle(const args::pixel_unshuffle& a) {
  int64_t r = a.downscale_factor, n = a.self.dim();
  if (n < 3)
    failf("pixel_unshuffle expects input to have at least 3 dimensions, but got input with {} dimension(s)",
          n);
  if (r <= 0) failf("pixel_unshuffle expects a positive downscale_factor, but got {}", r);
  Span<const SymInt> s = a.self.sizes();
  if (!(mod(s[n - 2], r) == 0) || !(mod(s[n - 1], r) == 0))
    failf(
        "pixel_unshuffle expects height and width to be divisible by downscale_factor, but {} and {} are not "
        "divisible by {}",
        s[n - 2].str(), s[n - 1].str(), r);
  SymInt c = s[n - 3], h = floor_div(s[n - 2], r), w = floor_div(s[n - 1], r);
  return {s, {c, h, r, w, r}, {0, 2, 4, 1, 3}, {c * (r * r), h, w}};
}

}  // namespace

Tensor body_pixel_shuffle(const args::pixel_shuffle& a) { return shuffle(a).of(a.self); }
Shapes shape_pixel_shuffle(const args::pixel_shuffle& a) {
  return {laid_out_as(a.self, shuffle(a).joined, a.self.dtype())};
}
void kernel_pixel_shuffle(const args::pixel_shuffle& a, Out out) { shuffle(a).run(a.self, out[0]); }
Tensor body_pixel_unshuffle(const args::pixel_unshuffle& a) { return shuffle(a).of(a.self); }
Shapes shape_pixel_unshuffle(const args::pixel_unshuffle& a) {
  return {laid_out_as(a.self, shuffle(a).joined, a.self.dtype())};
}
void kernel_pixel_unshuffle(const args::pixel_unshuffle& a, Out out) { shuffle(a).run(a.self, out[0]); }

}  // namespace tern
