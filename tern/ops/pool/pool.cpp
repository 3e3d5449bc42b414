// Pooling: rules over SymInt and the way to the kernels.
#include "tern/kernels/pool.h"

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"
#include "tern/ops/pool.args.h"

namespace tern {
namespace {

// The window of a pooling operator; a stride that is not given is the kernel's size.
struct Window {
  int dims = 2;
  int64_t kernel[3], stride[3], padding[3], dilation[3];
  bool ceil_mode = false;
};

Window window(const char* op, int dims, Ints kernel, Ints stride, Ints padding, Ints dilation,
              bool ceil_mode) {
  auto check = [&](const char* what, Ints list, bool may_be_empty) {
    if (list.size() != 1 && static_cast<int>(list.size()) != dims && !(may_be_empty && list.empty()))
      failf("{}: {} must either be a single int, or a tuple of {} ints", op, what, dims);
  };
  check("kernel_size", kernel, false);
  check("stride", stride, true);
  check("padding", padding, true);
  check("dilation", dilation, true);
  Window w;
  w.dims = dims;
  w.ceil_mode = ceil_mode;
  for (int d = 0; d < dims; ++d) {
    size_t i = static_cast<size_t>(d);
    w.kernel[d] = kernel.at(i);
    w.stride[d] = stride.empty() ? w.kernel[d] : stride.at(i);
    w.padding[d] = padding.empty() ? 0 : padding.at(i);
    w.dilation[d] = dilation.empty() ? 1 : dilation.at(i);
    if (w.kernel[d] <= 0) failf("{}: kernel size should be greater than zero, but got {}", op, w.kernel[d]);
    if (w.stride[d] <= 0) failf("{}: stride should not be zero", op);
    if (w.dilation[d] <= 0) failf("{}: dilation should be greater than zero, but got {}", op, w.dilation[d]);
    if (w.padding[d] < 0) failf("{}: pad must be non-negative, but got pad: {}", op, w.padding[d]);
    if (w.padding[d] > ((w.kernel[d] - 1) * w.dilation[d] + 1) / 2)
      failf(
          "pad should be at most half of effective kernel size, but got pad={}, kernel_size={} and "
          "dilation={}",
          w.padding[d], w.kernel[d], w.dilation[d]);
  }
  return w;
}

SymInt pooled_size(SymInt in, const Window& w, int d) {
  SymInt room = in + 2 * w.padding[d] - w.dilation[d] * (w.kernel[d] - 1) - 1;
  SymInt out = floor_div(room + (w.ceil_mode ? w.stride[d] - 1 : 0), w.stride[d]) + 1;
  // The last window has to start inside the input or its left padding.
  if (w.ceil_mode && (out - 1) * w.stride[d] >= in + w.padding[d]) out = out - 1;
  return out;
}

bool has_dims(const Tensor& self, int dims) { return self.dim() == dims + 1 || self.dim() == dims + 2; }

// In PyTorch's words, which are others for every number of dimensions.
void check_input(const char* op, const Tensor& self, int dims) {
  const bool sized = has_dims(self, dims);
  bool empty = false;
  for (int64_t d = sized ? self.dim() - dims - 1 : 0; d < self.dim(); ++d)
    empty |= surely_eq(self.sizes()[d], 0);
  if (sized && !empty) return;
  if (dims == 1)
    failf("{}: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:{}",
          op, str(self.sizes()));
  if (!sized) failf("non-empty {}D or {}D (batch mode) tensor expected for input", dims + 1, dims + 2);
  if (dims == 2)
    failf("Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:{}",
          str(self.sizes()));
  failf("{}: Expected input's non-batch dimensions to have positive length, but input has a shape of {}", op,
        str(self.sizes()));
}
void check_line(const char* op, const Tensor& self) {
  if (!has_dims(self, 1))
    failf(
        "Expected 2 to 3 dimensions, but got {}-dimensional tensor for argument #1 'self' (while checking "
        "arguments for {})",
        self.dim(), op);
}
// The mean of two dimensions may have no channels.
void check_adaptive_input(const char* op, const Tensor& self, int dims) {
  const bool mean = std::string_view(op).starts_with("adaptive_avg");
  if (!has_dims(self, dims))
    failf("{}(): Expected {}D or {}D tensor, but got{} {}", op, dims + 1, dims + 2, mean ? "" : ":",
          str(self.sizes()));
  for (int64_t d = mean && dims == 2 ? self.dim() - dims : 1; d < self.dim(); ++d)
    if (surely_eq(self.sizes()[d], 0))
      failf(
          "{}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {} with "
          "dimension {} being empty",
          op, str(self.sizes()), d);
}
std::string by_x(Span<const SymInt> sizes, int dims) {  // "2x5x4": channels and what is pooled
  std::string text;
  for (size_t d = sizes.size() - static_cast<size_t>(dims) - 1; d < sizes.size(); ++d)
    text += (text.empty() ? "" : "x") + sizes[d].str();
  return text;
}

Dims pooled_sizes(const char* op, const Tensor& self, const Window& w) {
  check_input(op, self, w.dims);
  Dims sizes(self.sizes());
  for (int d = 0; d < w.dims; ++d) {
    size_t at = sizes.size() - static_cast<size_t>(w.dims - d);
    sizes[at] = pooled_size(self.sizes()[at], w, d);
  }
  for (int d = 0; d < w.dims; ++d)
    if (SymInt s = sizes[sizes.size() - static_cast<size_t>(w.dims - d)]; !surely_le(1, s) && s < 1)
      failf("Given input size: ({}). Calculated output size: ({}). Output size is too small",
            by_x(self.sizes(), w.dims), by_x(sizes, w.dims));
  return sizes;
}

kernels::PoolShape kernel_shape(const Tensor& in, const Tensor& out, int dims) {
  kernels::PoolShape s;
  s.dims = dims;
  for (int64_t d = 0; d < in.dim() - dims; ++d) s.planes *= in.int_sizes()[d];
  for (int d = 0; d < dims; ++d) {
    s.in_size[d] = in.int_sizes()[in.dim() - dims + d];
    s.out_size[d] = out.int_sizes()[out.dim() - dims + d];
  }
  return s;
}
kernels::PoolShape kernel_shape(const Tensor& in, const Tensor& out, const Window& w) {
  kernels::PoolShape s = kernel_shape(in, out, w.dims);
  for (int d = 0; d < w.dims; ++d) {
    s.kernel[d] = w.kernel[d];
    s.stride[d] = w.stride[d];
    s.padding[d] = w.padding[d];
    s.dilation[d] = w.dilation[d];
  }
  return s;
}

// A gradient belongs to its input: the same planes, and an index for every element.
void check_backward(const char* op, const Tensor& self, const Tensor& grad, int dims,
                    const Tensor& indices = {}) {
  check_input(op, self, dims);
  if (grad.dim() != self.dim())
    failf("{}: expected dimensions {} for `grad_output` but got dimensions {}", op, self.dim(), grad.dim());
  for (int64_t d = 0; d < self.dim() - dims; ++d)
    if (grad.sizes()[d] != self.sizes()[d])
      failf("{}: expected sizes of `grad_output` to match the input's in dimension {}, but got {} for {}", op,
            d, str(grad.sizes()), str(self.sizes()));
  if (!indices.defined()) return;
  bool same = indices.dim() == grad.dim();
  for (int64_t d = 0; same && d < grad.dim(); ++d) same = indices.sizes()[d] == grad.sizes()[d];
  if (!same)
    failf("{}: expected sizes of `indices` to be those of `grad_output`, but got {} for {}", op,
          str(indices.sizes()), str(grad.sizes()));
}

void run_max(const Tensor& self, const kernels::PoolShape& s, Out out) {
  if (out[0].int_numel() == 0) return;
  Tensor x = row_major(self);
  by_rows(out[0], [&](const Tensor& y) {
    by_rows(out[1], [&](const Tensor& indices) {
      kernels::max_pool(x.dtype(), s, x.data(), y.data(), indices.data_ptr<int64_t>());
    });
  });
}
void run_max_backward(const Tensor& grad, const Tensor& indices, const kernels::PoolShape& s,
                      const Tensor& out) {
  if (grad.int_numel() == 0) return fill_elements(out, 0);
  Tensor g = row_major(grad), i = row_major(indices, kLong);
  int64_t volume = 1;
  for (int d = 0; d < s.dims; ++d) volume *= s.in_size[d];
  const int64_t* at = i.data_ptr<int64_t>();
  for (int64_t k = 0; k < i.int_numel(); ++k)
    if (at[k] < 0 || at[k] >= volume)
      failf(ErrorKind::index, "max_pool_backward: index {} is out of range for {} elements", at[k], volume);
  by_rows(out, [&](const Tensor& to) {
    fill_elements(to, 0);
    kernels::max_pool_backward(g.dtype(), s, g.data(), i.data_ptr<int64_t>(), to.data());
  });
}
void run_avg(const Tensor& self, kernels::PoolShape s, bool include_pad, std::optional<int64_t> divisor,
             const Tensor& out) {
  if (divisor && *divisor == 0) fail("divisor must be not zero");
  s.count_include_pad = include_pad;
  s.divisor_override = divisor.value_or(0);
  if (out.int_numel() == 0) return;
  Tensor x = row_major(self);
  by_rows(out, [&](const Tensor& y) { kernels::avg_pool(x.dtype(), s, x.data(), y.data()); });
}
void run_avg_backward(const Tensor& grad, kernels::PoolShape s, bool include_pad,
                      std::optional<int64_t> divisor, const Tensor& out) {
  s.count_include_pad = include_pad;
  s.divisor_override = divisor.value_or(0);
  if (grad.int_numel() == 0) return fill_elements(out, 0);
  Tensor g = row_major(grad);
  by_rows(out, [&](const Tensor& to) {
    fill_elements(to, 0);
    kernels::avg_pool_backward(g.dtype(), s, g.data(), to.data());
  });
}
Dims adaptive_sizes(const char* op, const Tensor& self, Span<const SymInt> output_size, int dims) {
  check_adaptive_input(op, self, dims);
  const bool average = std::string_view(op).starts_with("adaptive_avg");
  if (output_size.size() != 1 && static_cast<int>(output_size.size()) != dims) {
    if (average) failf("{}: output_size must be {}", op, dims);
    failf("{}(): internal error: output_size.size() must be {}", op, dims);
  }
  const std::string list = str(Dims(output_size));  // "[1, -1]"
  for (SymInt s : output_size)
    if (average && s.is_int() && s.as_int() < 0)
      failf("{}: elements of output_size must be greater than or equal to 0 but received {{{}}}", op,
            list.substr(1, list.size() - 2));
  Dims sizes(self.sizes());
  for (int d = 0; d < dims; ++d) {
    SymInt s = output_size[output_size.size() == 1 ? 0 : static_cast<size_t>(d)];
    sizes[sizes.size() - static_cast<size_t>(dims - d)] = s;
  }
  for (SymInt s : sizes)
    if (s.is_int() && s.as_int() < 0)
      failf("Trying to create tensor with negative dimension {}: {}", s.as_int(), str(sizes));
  return sizes;
}
kernels::PoolShape adaptive(const Tensor& in, const Tensor& out, int dims) {
  kernels::PoolShape s = kernel_shape(in, out, dims);
  s.adaptive = true;
  return s;
}

}  // namespace

// The elements of `t` that pooling chose.
Tensor pick_pooled(const Tensor& t, const Tensor& indices, int64_t dims) {
  return reshape(gather(flatten(t, -dims, -1), -1, flatten(indices, -dims, -1)), indices.sizes());
}
Dims last_sizes(Span<const SymInt> sizes, int64_t n) {
  return Dims(
      Span<const SymInt>(sizes.data() + sizes.size() - static_cast<size_t>(n), static_cast<size_t>(n)));
}
Tensor adaptive_avg(const Tensor& self, Span<const SymInt> output_size, int64_t dims) {
  bool one = true;
  for (SymInt s : output_size) one &= surely_eq(s, 1);
  if (one && static_cast<int64_t>(output_size.size()) == dims) {
    check_adaptive_input(dims == 2 ? "adaptive_avg_pool2d" : "adaptive_avg_pool3d", self,
                         static_cast<int>(dims));
    SmallVector<int64_t, 6> last;
    for (int64_t d = 1; d <= dims; ++d) last.push_back(-d);
    return mean(self, last, true);
  }
  return dims == 2 ? _adaptive_avg_pool2d(self, output_size) : _adaptive_avg_pool3d(self, output_size);
}

// ---- one dimension: as two, the first of size one ----

std::tuple<Tensor, Tensor> body_max_pool1d_with_indices(const args::max_pool1d_with_indices& a) {
  Window w = window("max_pool1d", 1, a.kernel_size, a.stride, a.padding, a.dilation, a.ceil_mode);
  check_input("max_pool1d", a.self, 1);
  if (SymInt size = pooled_size(a.self.sizes().back(), w, 0); !surely_le(1, size) && size < 1)
    failf("max_pool1d() Invalid computed output size: {}", size.str());
  auto [values, indices] = max_pool2d_with_indices(unsqueeze(a.self, -2), {1, w.kernel[0]}, {1, w.stride[0]},
                                                   {0, w.padding[0]}, {1, w.dilation[0]}, a.ceil_mode);
  return {squeeze(values, -2), squeeze(indices, -2)};
}
Tensor body_avg_pool1d(const args::avg_pool1d& a) {
  Window w = window("avg_pool1d", 1, a.kernel_size, a.stride, a.padding, {}, a.ceil_mode);
  check_line("avg_pool1d", a.self);
  return squeeze(avg_pool2d(unsqueeze(a.self, -2), {1, w.kernel[0]}, {1, w.stride[0]}, {0, w.padding[0]},
                            a.ceil_mode, a.count_include_pad),
                 -2);
}
Tensor body_adaptive_avg_pool1d(const args::adaptive_avg_pool1d& a) {
  if (a.output_size.size() != 1) fail("adaptive_avg_pool1d: output_size must be 1");
  check_line("adaptive_avg_pool1d", a.self);
  return squeeze(adaptive_avg_pool2d(unsqueeze(a.self, -2), {1, a.output_size[0]}), -2);
}
std::tuple<Tensor, Tensor> body_adaptive_max_pool1d(const args::adaptive_max_pool1d& a) {
  if (a.output_size.size() != 1)
    fail("adaptive_max_pool1d() argument 'output_size' should contain one int (got 0)");
  check_line("adaptive_max_pool1d", a.self);
  check_adaptive_input("adaptive_max_pool1d", a.self, 1);
  auto [values, indices] = adaptive_max_pool2d(unsqueeze(a.self, -2), {1, a.output_size[0]});
  return {squeeze(values, -2), squeeze(indices, -2)};
}

// ---- two dimensions ----

Shapes shape_max_pool2d_with_indices(const args::max_pool2d_with_indices& a) {
  Dims sizes =
      pooled_sizes("max_pool2d", a.self,
                   window("max_pool2d", 2, a.kernel_size, a.stride, a.padding, a.dilation, a.ceil_mode));
  return {laid_out_as(a.self, sizes, a.self.dtype()), laid_out_as(a.self, sizes, kLong)};
}
void kernel_max_pool2d_with_indices(const args::max_pool2d_with_indices& a, Out out) {
  run_max(a.self,
          kernel_shape(a.self, out[0],
                       window("max_pool2d", 2, a.kernel_size, a.stride, a.padding, a.dilation, a.ceil_mode)),
          out);
}
Shapes shape_max_pool2d_with_indices_backward(const args::max_pool2d_with_indices_backward& a) {
  check_backward("max_pool2d_backward", a.self, a.grad_output, 2, a.indices);
  return {laid_out_as(a.self, Dims(a.self.sizes()), a.grad_output.dtype())};
}
void kernel_max_pool2d_with_indices_backward(const args::max_pool2d_with_indices_backward& a, Out out) {
  run_max_backward(
      a.grad_output, a.indices,
      kernel_shape(a.self, a.grad_output,
                   window("max_pool2d", 2, a.kernel_size, a.stride, a.padding, a.dilation, a.ceil_mode)),
      out[0]);
}
Shapes shape_avg_pool2d(const args::avg_pool2d& a) {
  return {
      laid_out_as(a.self,
                  pooled_sizes("avg_pool2d", a.self,
                               window("avg_pool2d", 2, a.kernel_size, a.stride, a.padding, {}, a.ceil_mode)),
                  a.self.dtype())};
}
void kernel_avg_pool2d(const args::avg_pool2d& a, Out out) {
  run_avg(a.self,
          kernel_shape(a.self, out[0],
                       window("avg_pool2d", 2, a.kernel_size, a.stride, a.padding, {}, a.ceil_mode)),
          a.count_include_pad, a.divisor_override, out[0]);
}
Shapes shape_avg_pool2d_backward(const args::avg_pool2d_backward& a) {
  check_backward("avg_pool2d_backward", a.self, a.grad_output, 2);
  return {laid_out_as(a.self, Dims(a.self.sizes()), a.grad_output.dtype())};
}
void kernel_avg_pool2d_backward(const args::avg_pool2d_backward& a, Out out) {
  run_avg_backward(a.grad_output,
                   kernel_shape(a.self, a.grad_output,
                                window("avg_pool2d", 2, a.kernel_size, a.stride, a.padding, {}, a.ceil_mode)),
                   a.count_include_pad, a.divisor_override, out[0]);
}
Shapes shape__adaptive_avg_pool2d(const args::_adaptive_avg_pool2d& a) {
  return {
      laid_out_as(a.self, adaptive_sizes("adaptive_avg_pool2d", a.self, a.output_size, 2), a.self.dtype())};
}
void kernel__adaptive_avg_pool2d(const args::_adaptive_avg_pool2d& a, Out out) {
  run_avg(a.self, adaptive(a.self, out[0], 2), true, {}, out[0]);
}
Shapes shape__adaptive_avg_pool2d_backward(const args::_adaptive_avg_pool2d_backward& a) {
  check_backward("adaptive_avg_pool2d_backward", a.self, a.grad_output, 2);
  return {laid_out_as(a.self, Dims(a.self.sizes()), a.grad_output.dtype())};
}
void kernel__adaptive_avg_pool2d_backward(const args::_adaptive_avg_pool2d_backward& a, Out out) {
  run_avg_backward(a.grad_output, adaptive(a.self, a.grad_output, 2), true, {}, out[0]);
}
Shapes shape_adaptive_max_pool2d(const args::adaptive_max_pool2d& a) {
  Dims sizes = adaptive_sizes("adaptive_max_pool2d", a.self, as_dims(a.output_size), 2);
  return {laid_out_as(a.self, sizes, a.self.dtype()), laid_out_as(a.self, sizes, kLong)};
}
void kernel_adaptive_max_pool2d(const args::adaptive_max_pool2d& a, Out out) {
  run_max(a.self, adaptive(a.self, out[0], 2), out);
}
Shapes shape_adaptive_max_pool2d_backward(const args::adaptive_max_pool2d_backward& a) {
  check_backward("adaptive_max_pool2d_backward", a.self, a.grad_output, 2, a.indices);
  return {laid_out_as(a.self, Dims(a.self.sizes()), a.grad_output.dtype())};
}
void kernel_adaptive_max_pool2d_backward(const args::adaptive_max_pool2d_backward& a, Out out) {
  run_max_backward(a.grad_output, a.indices, adaptive(a.self, a.grad_output, 2), out[0]);
}

// ---- three dimensions ----

Shapes shape_max_pool3d_with_indices(const args::max_pool3d_with_indices& a) {
  Dims sizes =
      pooled_sizes("max_pool3d", a.self,
                   window("max_pool3d", 3, a.kernel_size, a.stride, a.padding, a.dilation, a.ceil_mode));
  return {laid_out_as(a.self, sizes, a.self.dtype()), laid_out_as(a.self, sizes, kLong)};
}
void kernel_max_pool3d_with_indices(const args::max_pool3d_with_indices& a, Out out) {
  run_max(a.self,
          kernel_shape(a.self, out[0],
                       window("max_pool3d", 3, a.kernel_size, a.stride, a.padding, a.dilation, a.ceil_mode)),
          out);
}
Shapes shape_max_pool3d_with_indices_backward(const args::max_pool3d_with_indices_backward& a) {
  check_backward("max_pool3d_backward", a.self, a.grad_output, 3, a.indices);
  return {laid_out_as(a.self, Dims(a.self.sizes()), a.grad_output.dtype())};
}
void kernel_max_pool3d_with_indices_backward(const args::max_pool3d_with_indices_backward& a, Out out) {
  run_max_backward(
      a.grad_output, a.indices,
      kernel_shape(a.self, a.grad_output,
                   window("max_pool3d", 3, a.kernel_size, a.stride, a.padding, a.dilation, a.ceil_mode)),
      out[0]);
}
Shapes shape_avg_pool3d(const args::avg_pool3d& a) {
  return {Shape(pooled_sizes("avg_pool3d", a.self,
                             window("avg_pool3d", 3, a.kernel_size, a.stride, a.padding, {}, a.ceil_mode)),
                a.self.dtype())};
}
void kernel_avg_pool3d(const args::avg_pool3d& a, Out out) {
  run_avg(a.self,
          kernel_shape(a.self, out[0],
                       window("avg_pool3d", 3, a.kernel_size, a.stride, a.padding, {}, a.ceil_mode)),
          a.count_include_pad, a.divisor_override, out[0]);
}
Shapes shape_avg_pool3d_backward(const args::avg_pool3d_backward& a) {
  check_backward("avg_pool3d_backward", a.self, a.grad_output, 3);
  return {Shape(a.self.sizes(), a.grad_output.dtype())};
}
void kernel_avg_pool3d_backward(const args::avg_pool3d_backward& a, Out out) {
  run_avg_backward(a.grad_output,
                   kernel_shape(a.self, a.grad_output,
                                window("avg_pool3d", 3, a.kernel_size, a.stride, a.padding, {}, a.ceil_mode)),
                   a.count_include_pad, a.divisor_override, out[0]);
}
Shapes shape__adaptive_avg_pool3d(const args::_adaptive_avg_pool3d& a) {
  return {Shape(adaptive_sizes("adaptive_avg_pool3d", a.self, a.output_size, 3), a.self.dtype())};
}
void kernel__adaptive_avg_pool3d(const args::_adaptive_avg_pool3d& a, Out out) {
  run_avg(a.self, adaptive(a.self, out[0], 3), true, {}, out[0]);
}
Shapes shape__adaptive_avg_pool3d_backward(const args::_adaptive_avg_pool3d_backward& a) {
  check_backward("adaptive_avg_pool3d_backward", a.self, a.grad_output, 3);
  return {Shape(a.self.sizes(), a.grad_output.dtype())};
}
void kernel__adaptive_avg_pool3d_backward(const args::_adaptive_avg_pool3d_backward& a, Out out) {
  run_avg_backward(a.grad_output, adaptive(a.self, a.grad_output, 3), true, {}, out[0]);
}
Shapes shape_adaptive_max_pool3d(const args::adaptive_max_pool3d& a) {
  Dims sizes = adaptive_sizes("adaptive_max_pool3d", a.self, as_dims(a.output_size), 3);
  return {Shape(sizes, a.self.dtype()), Shape(sizes, kLong)};
}
void kernel_adaptive_max_pool3d(const args::adaptive_max_pool3d& a, Out out) {
  run_max(a.self, adaptive(a.self, out[0], 3), out);
}
Shapes shape_adaptive_max_pool3d_backward(const args::adaptive_max_pool3d_backward& a) {
  check_backward("adaptive_max_pool3d_backward", a.self, a.grad_output, 3, a.indices);
  return {Shape(a.self.sizes(), a.grad_output.dtype())};
}
void kernel_adaptive_max_pool3d_backward(const args::adaptive_max_pool3d_backward& a, Out out) {
  run_max_backward(a.grad_output, a.indices, adaptive(a.self, a.grad_output, 3), out[0]);
}

}  // namespace tern
