// Convolution: the rule over SymInt, the way to the kernels, and the forms that come down to it.
#include "tern/kernels/conv.h"

#include <algorithm>

#include "tern/base/format.h"
#include "tern/dispatch/grad_context.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/checks.h"
#include "tern/ops/conv.args.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"

namespace tern {
namespace {

// One number stands for all dimensions.
SymInt at(Span<const SymInt> list, int64_t d) { return list[list.size() == 1 ? 0 : static_cast<size_t>(d)]; }

void check_list(const char* what, Span<const SymInt> list, int64_t dims) {
  if (list.size() != 1 && static_cast<int64_t>(list.size()) != dims)
    failf(
        "expected {} to be a single integer value or a list of {} values to match the convolution "
        "dimensions, but got {}={}",
        what, dims, what, str(list));
}

std::string by_x(Span<const SymInt> sizes) {
  std::string text;
  for (SymInt s : sizes) text += (text.empty() ? "" : " x ") + s.str();
  return text;
}

// Whether PyTorch gives the results their channels innermost, which depends on the kernel it takes: of
// volumes only oneDNN's knows that order, and it is taken for what is large enough; the order of signals is
// not looked at.
template <class A>
bool gives_channels_last(const A& a) {
  if (!(a.input.dim() > 3 && channels_innermost(a.input)) && !channels_innermost(a.weight)) return false;
  if (a.input.dim() < 5) return true;
  for (size_t d = 0; a.transposed && d < 3; ++d)
    if (surely_le(a.stride[d], a.output_padding[d])) return false;
  if (a.input.dtype() == kBFloat16) return true;
  if (a.input.dtype() != kFloat) return false;
  const Span<const SymInt> in = a.input.sizes(), w = a.weight.sizes();
  auto one = [](SymInt s) { return surely_eq(s, 1); };
  const bool moves = !std::all_of(a.stride.begin(), a.stride.end(), one) ||
                     !std::all_of(a.dilation.begin(), a.dilation.end(), one);
  const bool point = one(w[4]) && one(w[3]);
  const bool large = surely_lt(1, a.groups) || (surely_lt(3, w[4]) && surely_lt(3, w[3])) ||
                     surely_lt(1, in[0]) || surely_lt(20480, in[0] * in[1] * in[2] * in[3]);
  return large && (moves || !point || surely_le(16, in[0]) || num_threads() > 1);
}

Shapes conv_shape(const args::convolution& a) {
  int64_t n = a.weight.dim(), dims = n - 2;
  if (n < 3 || n > 5)
    failf("convolution: weight should have three to five dimensions, but got weight of size {}",
          str(a.weight.sizes()));
  if (a.input.dim() != n)
    failf("Expected {}D (batched) input to convolution with weight of size {}, but got input of size: {}", n,
          str(a.weight.sizes()), str(a.input.sizes()));
  if (a.bias.defined() && a.bias.dtype() != a.input.dtype())
    failf("Input type ({}) and bias type ({}) should be the same", cpp_name(a.input.dtype()),
          cpp_name(a.bias.dtype()));
  if (a.input.dtype() != a.weight.dtype())
    failf("expected scalar type {} but found {}", script_name(a.input.dtype()),
          script_name(a.weight.dtype()));
  check_list("stride", a.stride, dims);
  check_list("padding", a.padding, dims);
  check_list("dilation", a.dilation, dims);
  if (a.transposed) check_list("output_padding", a.output_padding, dims);
  int64_t groups = a.groups.guard_int();
  if (groups <= 0) fail("non-positive groups is not supported");
  for (int64_t d = 0; d < dims; ++d) {
    if (at(a.stride, d) <= 0) fail("non-positive stride is not supported");
    if (at(a.padding, d) < 0) fail("negative padding is not supported");
    if (at(a.dilation, d) <= 0) fail("dilation should be greater than zero");
  }
  Span<const SymInt> in = a.input.sizes(), w = a.weight.sizes();
  if (!a.transposed && w[0] < groups)
    failf(
        "Given groups={}, expected weight to be at least {} at dimension 0, but got weight of size {} "
        "instead",
        groups, groups, str(w));
  if (!(mod(w[0], groups) == 0))
    failf(
        "Given groups={}, expected weight to be divisible by {} at dimension 0, but got weight of size {} "
        "instead",
        groups, groups, str(w));
  SymInt channels = a.transposed ? w[0] : w[1] * groups, features = a.transposed ? w[1] * groups : w[0];
  if (!require_eq(in[1], channels))
    failf(
        "Given {}groups={}, weight of size {}, expected input{} to have {} channels, but got {} channels "
        "instead",
        a.transposed ? "transposed=1, " : "", groups, str(w), str(in), channels.str(), in[1].str());
  if (a.bias.defined() && (a.bias.dim() != 1 || !require_eq(a.bias.sizes()[0], features)))
    failf(
        "Given {}weight of size {}, expected bias to be 1-dimensional with {} elements, but got bias of size "
        "{} instead",
        a.transposed ? "transposed=1, " : "", str(w), features.str(), str(a.bias.sizes()));
  Dims sizes{in[0], features}, padded, kernel;
  bool fits = true;
  for (int64_t d = 0; d < dims; ++d) {
    SymInt size = in[d + 2], k = w[d + 2], reach = at(a.dilation, d) * (k - 1) + 1;
    if (a.transposed) {
      SymInt out = (size - 1) * at(a.stride, d) - at(a.padding, d) * 2 + reach + at(a.output_padding, d);
      if (!surely_le(0, out) && out < 0)
        failf(
            "Given input size per channel: ({}). Calculated output size per channel is negative. Output size "
            "is too small",
            by_x(Span<const SymInt>(in.data() + 2, static_cast<size_t>(dims))));
      sizes.push_back(out);
      continue;
    }
    SymInt room = size + at(a.padding, d) * 2;
    padded.push_back(room);
    kernel.push_back(reach);
    fits &= surely_le(reach, room) || room >= reach;
    sizes.push_back(floor_div(room - reach, at(a.stride, d)) + 1);
  }
  if (!fits)
    failf(
        "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater "
        "than actual input size",
        by_x(padded), by_x(kernel));
  Shape shape(std::move(sizes), a.input.dtype());
  if (gives_channels_last(a)) shape.strides = channels_last_strides(shape.sizes);
  return {std::move(shape)};
}

// Dense memory with channels innermost or outside: the tensor itself where it is that.
bool is_dense_in(const Tensor& t, const Dims& strides) {
  for (int64_t d = 0; d < t.dim(); ++d)
    if (t.int_sizes()[d] != 1 && t.int_strides()[d] != strides[d].as_int()) return false;
  return true;
}
bool is_dense(const Tensor& t, bool last) {
  return last ? is_dense_in(t, channels_last_strides(t.sizes())) : t.is_contiguous();
}
Tensor in_order(const Tensor& t, bool last) {
  if (is_dense(t, last)) return t;
  Tensor copy = last ? make_tensor(t.sizes(), channels_last_strides(t.sizes()), t.dtype())
                     : make_tensor(t.sizes(), t.dtype());
  copy_elements(t, copy);
  return copy;
}
// f(memory in that order), which then is or is copied to `out`.
template <class F>
void into_order(const Tensor& out, bool last, F&& f) {
  if (is_dense(out, last)) return f(out);
  Tensor fresh = last ? make_tensor(out.sizes(), channels_last_strides(out.sizes()), out.dtype())
                      : make_tensor(out.sizes(), out.dtype());
  f(fresh);
  copy_elements(fresh, out);
}

// The kernels that compute in float read and write that order as it is.
bool takes_channels_last(const Tensor& t) {
  return compute_dtype(t.dtype()) == kFloat && !t.is_contiguous() && is_dense(t, true);
}

kernels::ConvShape kernel_shape(const Tensor& input, const Tensor& weight, Span<const SymInt> stride,
                                Span<const SymInt> padding, Span<const SymInt> dilation, bool transposed,
                                Span<const SymInt> output_padding, SymInt groups) {
  kernels::ConvShape s;
  s.dims = static_cast<int>(input.dim()) - 2;
  s.batch = input.int_sizes()[0];
  s.groups = groups.guard_int();
  s.in_channels = input.int_sizes()[1];
  s.out_channels = transposed ? weight.int_sizes()[1] * s.groups : weight.int_sizes()[0];
  s.transposed = transposed;
  for (int d = 0; d < s.dims; ++d) {
    s.in_size[d] = input.int_sizes()[d + 2];
    s.kernel[d] = weight.int_sizes()[d + 2];
    s.stride[d] = at(stride, d).guard_int();
    s.padding[d] = at(padding, d).guard_int();
    s.dilation[d] = at(dilation, d).guard_int();
    if (transposed) s.output_padding[d] = at(output_padding, d).guard_int();
  }
  return s;
}

}  // namespace

Shapes shape_convolution(const args::convolution& a) { return conv_shape(a); }
// PyTorch has a kernel each for these, and not all take the narrow integers.
static void check_types_taken(const args::convolution& a) {
  const DType d = a.input.dtype();
  const bool dilated =
      std::any_of(a.dilation.begin(), a.dilation.end(), [](const SymInt& s) { return s != 1; });
  const bool volume = a.input.dim() == 5;
  if (is_complex(d) || (is_floating(d) && !is_float8(d)) || d == kLong) return;
  if (!a.transposed && !dilated && is_integral(d) && (d == kByte || is_signed(d))) return;
  not_implemented_for(a.transposed
                          ? volume ? "slow_conv_transpose3d_out_cpu" : "slow_conv_transpose2d_out_cpu"
                      : dilated ? "slow_conv_dilated<>"
                      : volume  ? "compute_columns3d"
                                : "slow_conv2d_cpu",
                      d);
}
void kernel_convolution(const args::convolution& a, Out out) {
  if (out[0].int_numel() == 0) return;
  check_types_taken(a);
  if (a.input.int_numel() == 0 || a.weight.int_numel() == 0) {
    fill_elements(out[0], 0);
    if (a.bias.defined()) {
      Dims sizes(static_cast<size_t>(out[0].dim()), SymInt(1)),
          strides(static_cast<size_t>(out[0].dim()), SymInt(0));
      sizes[1] = a.bias.sizes()[0];
      strides[1] = a.bias.strides()[0];
      copy_elements(a.bias.as_view(sizes, strides), out[0]);
    }
    return;
  }
  kernels::ConvShape s = kernel_shape(a.input, a.weight, a.stride, a.padding, a.dilation, a.transposed,
                                      a.output_padding, a.groups);
  s.channels_last = takes_channels_last(out[0]);
  s.weight_last = takes_channels_last(a.weight);
  Tensor x = in_order(a.input, s.channels_last), w = in_order(a.weight, s.weight_last),
         b = a.bias.defined() ? row_major(a.bias) : Tensor();
  into_order(out[0], s.channels_last, [&](const Tensor& y) {
    kernels::conv_forward(x.dtype(), s, x.data(), w.data(), b.defined() ? b.data() : nullptr, y.data());
  });
}

// What is not asked for comes out empty.
Shapes shape_convolution_backward(const args::convolution_backward& a) {
  const Tensor no_bias;
  const Arg forward[] = {a.input,    a.weight,     no_bias,          a.stride, a.padding,
                         a.dilation, a.transposed, a.output_padding, a.groups};
  const Shapes y = conv_shape(args::convolution(forward));
  const Span<const SymInt> given = a.grad_output.sizes(), want = y[0].sizes;
  bool fits = given.size() == want.size();
  for (size_t i = 0; fits && i < want.size(); ++i) fits = require_eq(given[i], want[i]);
  if (!fits)
    failf("convolution_backward: expected a gradient of size {} for input of size {}, but got {}", str(want),
          str(a.input.sizes()), str(given));
  require_one_dtype(a.input, a.grad_output);
  DType d = a.grad_output.dtype();
  Shapes shapes;
  const bool last = gives_channels_last(a);
  auto for_image = [&](const Tensor& t) {
    return Shape(Dims(t.sizes()), d, last ? channels_last_strides(t.sizes()) : Dims());
  };
  shapes.push_back(a.output_mask[0] ? for_image(a.input) : Shape(Dims{SymInt(0)}, d));
  shapes.push_back(a.output_mask[1] ? for_image(a.weight) : Shape(Dims{SymInt(0)}, d));
  shapes.push_back(a.output_mask[2] ? Shape(Dims{a.grad_output.sizes()[1]}, d) : Shape(Dims{SymInt(0)}, d));
  return shapes;
}
void kernel_convolution_backward(const args::convolution_backward& a, Out out) {
  if (a.grad_output.int_numel() == 0 || a.input.int_numel() == 0 || a.weight.int_numel() == 0) {
    for (const Tensor& t : out) fill_elements(t, 0);
    return;
  }
  kernels::ConvShape s = kernel_shape(a.input, a.weight, a.stride, a.padding, a.dilation, a.transposed,
                                      a.output_padding, a.groups);
  s.channels_last = takes_channels_last(a.output_mask[0] ? out[0] : a.input);
  Tensor g = in_order(a.grad_output, s.channels_last);
  if (a.output_mask[0]) {
    s.weight_last = takes_channels_last(a.weight);
    Tensor w = in_order(a.weight, s.weight_last);
    into_order(out[0], s.channels_last, [&](const Tensor& to) {
      kernels::conv_backward_input(g.dtype(), s, g.data(), w.data(), to.data());
    });
  }
  if (a.output_mask[1]) {
    s.weight_last = takes_channels_last(out[1]);
    Tensor x = in_order(a.input, s.channels_last);
    into_order(out[1], s.weight_last, [&](const Tensor& to) {
      kernels::conv_backward_weight(g.dtype(), s, x.data(), g.data(), to.data());
    });
  }
  if (a.output_mask[2]) kernels::conv_backward_bias(g.dtype(), s, g.data(), out[2].data());
}

std::optional<Span<const SymInt>> sizes_if_defined(const Tensor& t) {
  if (!t.defined()) return std::nullopt;
  return t.sizes();
}
Dims as_dims(Ints list) {
  Dims dims;
  for (int64_t v : list) dims.push_back(v);
  return dims;
}

// Convolution is linear in each of its arguments, so that everything is again a convolution or its backward.
std::tuple<Tensor, Tensor, Tensor> convolution_double_backward(
    GradContext& c, const Tensor& grad_output, const Tensor& input, const Tensor& weight,
    Span<const SymInt> stride, Span<const SymInt> padding, Span<const SymInt> dilation, bool transposed,
    Span<const SymInt> output_padding, SymInt groups) {
  Tensor for_output, for_input, for_weight;
  auto add_to = [](Tensor& sum, const Tensor& t) { sum = sum.defined() ? sum + t : t; };
  auto forward = [&](const Tensor& x, const Tensor& w) {
    return convolution(x, w, Tensor(), stride, padding, dilation, transposed, output_padding, groups);
  };
  if (c.has_grad(0)) {
    Tensor u = c.grad(0);
    add_to(for_output, forward(u, conj(weight)));
    const bool mask[] = {false, true, false};
    for_weight = std::get<1>(convolution_backward(conj(grad_output), u, weight, {}, stride, padding, dilation,
                                                  transposed, output_padding, groups, mask));
  }
  if (c.has_grad(1)) {
    Tensor v = c.grad(1);
    add_to(for_output, forward(conj(input), v));
    const bool mask[] = {true, false, false};
    for_input = std::get<0>(convolution_backward(conj(grad_output), input, v, {}, stride, padding, dilation,
                                                 transposed, output_padding, groups, mask));
  }
  if (c.has_grad(2)) {
    Dims sizes(static_cast<size_t>(grad_output.dim()), SymInt(1));
    sizes[1] = grad_output.sizes()[1];
    add_to(for_output, expand(view(c.grad(2), sizes), grad_output.sizes()));
  }
  if (!for_output.defined()) for_output = zeros_like(grad_output);
  if (!for_input.defined()) for_input = zeros_like(input);
  if (!for_weight.defined()) for_weight = zeros_like(weight);
  return {for_output, for_input, for_weight};
}

// ---- the forms users call ----

namespace {

// Without a batch: one is added and taken away again.
template <class F>
Tensor batched(int64_t dims, const Tensor& input, const char* suffix, F&& f) {
  if (input.dim() == dims + 2) return f(input);
  if (input.dim() != dims + 1)
    failf("Expected {}D (unbatched) or {}D (batched) input to conv{}{}d, but got input of size: {}", dims + 1,
          dims + 2, suffix, dims, str(input.sizes()));
  return squeeze(f(unsqueeze(input, 0)), 0);
}

// The weight says how many dimensions are convolved.
[[noreturn]] void fail_weight(const Tensor& input, const Tensor& weight) {
  failf(
      "Expected {}-dimensional input for {}-dimensional weight{}, but got {}-dimensional input of size {} "
      "instead",
      weight.dim(), weight.dim(), str(weight.sizes()), input.dim(), str(input.sizes()));
}

}  // namespace

Tensor conv_nd(int64_t dims, const Tensor& input, const Tensor& weight, const Tensor& bias,
               Span<const SymInt> stride, Span<const SymInt> padding, Span<const SymInt> dilation,
               bool transposed, Span<const SymInt> output_padding, SymInt groups) {
  if (weight.dim() < 3) fail("weight should have at least three dimensions");
  if (weight.dim() != dims + 2) fail_weight(input, weight);
  auto all = [&](Span<const SymInt> list) {
    Dims full(list);
    while (list.size() == 1 && static_cast<int64_t>(full.size()) < dims) full.push_back(list[0]);
    return full;
  };
  Dims s = all(stride), p = all(padding), d = all(dilation), o = all(output_padding);
  return batched(dims, input, transposed ? "_transpose" : "", [&](const Tensor& x) {
    return convolution(x, weight, bias, s, p, d, transposed, o, groups);
  });
}

Tensor conv_with_mode(const Tensor& input, const Tensor& weight, const Tensor& bias,
                      Span<const SymInt> stride, std::string_view padding, Span<const SymInt> dilation,
                      SymInt groups) {
  int64_t dims = weight.dim() - 2;
  if (dims < 1 || dims > 3)
    failf("convolution: weight should have three to five dimensions, but got weight of size {}",
          str(weight.sizes()));
  if (padding == "valid")
    return conv_nd(dims, input, weight, bias, stride, {0}, dilation, false, {0}, groups);
  if (padding != "same") failf("Invalid padding string: '{}'", padding);
  for (SymInt s : stride)
    if (!(s == 1)) fail("padding='same' is not supported for strided convolutions");
  // What is left over when the total is odd goes to the far side.
  Dims near, extra(static_cast<size_t>(2 * dims), SymInt(0));
  bool even = true;
  for (int64_t d = 0; d < dims; ++d) {
    SymInt total = at(dilation, d) * (weight.sizes()[d + 2] - 1), left = floor_div(total, 2),
           right = total - left;
    near.push_back(left);
    if (!(left == right)) {
      even = false;
      extra[static_cast<size_t>(2 * (dims - 1 - d) + 1)] = right - left;
    }
  }
  return conv_nd(dims, even ? input : constant_pad_nd(input, extra, 0), weight, bias, stride, near, dilation,
                 false, {0}, groups);
}
Tensor conv_nd_mode(int64_t dims, const Tensor& input, const Tensor& weight, const Tensor& bias,
                    Span<const SymInt> stride, std::string_view padding, Span<const SymInt> dilation,
                    SymInt groups) {
  if (weight.dim() < 3) fail("weight should have at least three dimensions");
  if (weight.dim() != dims + 2) fail_weight(input, weight);
  return conv_with_mode(input, weight, bias, stride, padding, dilation, groups);
}

}  // namespace tern
