// Values back to the places they were the maximum of; pooling over windows at random places.
#include <limits>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"
#include "tern/ops/unpool.args.h"

namespace tern {
namespace {

Shapes unpooled(const Tensor& self, const Tensor& indices, Span<const SymInt> output_size, int dims) {
  if (indices.dtype() != kLong)
    failf("elements in indices should be type int64 but got: {}", script_name(indices.dtype()));
  if (static_cast<int>(output_size.size()) != dims)
    failf("There should be exactly {} elements ({}) in output_size, but got {} elements.",
          dims == 2 ? "two" : "three", dims == 2 ? "height, width" : "depth, height, width",
          output_size.size());
  if (self.dim() != dims + 1 && self.dim() != dims + 2)
    failf("Input to max_unpooling{}d should be a {}d or {}d Tensor, but got a tensor with {} dimensions.",
          dims, dims + 1, dims + 2, self.dim());
  bool same = indices.dim() == self.dim();
  for (int64_t d = 0; same && d < self.dim(); ++d) same = self.size(d) == indices.size(d);
  if (!same)
    failf(
        "Expected shape of indices to be same as that of the input tensor ({}) but got indices tensor with "
        "shape: {}",
        str(self.sizes()), str(indices.sizes()));
  for (int64_t d = 1; d < self.dim(); ++d)
    if (surely_eq(self.size(d), 0))
      failf(
          "max_unpooling{}d(): Expected input to have non-zero size for non-batch dimensions, but got {} "
          "with dimension "
          "{} being empty.",
          dims, str(self.sizes()), d);
  Dims sizes(self.sizes());
  for (int d = 0; d < dims; ++d) {
    if (output_size[static_cast<size_t>(d)] < 0)
      failf(
          "max_unpooling{}d(): output_size must contain non-negative spatial dimensions, but got "
          "output_size[{}]={}",
          dims, d, output_size[static_cast<size_t>(d)].str());
    sizes[sizes.size() - static_cast<size_t>(dims - d)] = output_size[static_cast<size_t>(d)];
  }
  if (dims == 2) return {laid_out_as(self, std::move(sizes), self.dtype())};
  return {Shape(std::move(sizes), self.dtype())};
}

int64_t volume(const Tensor& t, int dims) {
  int64_t n = 1;
  for (int d = 0; d < dims; ++d) n *= t.int_sizes()[t.dim() - 1 - d];
  return n;
}

void unpool(const Tensor& self, const Tensor& indices, int dims, const Tensor& out) {
  if (self.int_numel() == 0) return fill_elements(out, 0);
  Tensor x = row_major(self), at = row_major(indices);
  const int64_t in = volume(x, dims), to_size = volume(out, dims), planes = x.int_numel() / in;
  by_element_size(x.dtype(), [&]<class T>(T) {
    const T* from = static_cast<const T*>(x.data());
    const int64_t* index = at.data_ptr<int64_t>();
    by_rows(out, [&](const Tensor& rows) {
      fill_elements(rows, 0);
      T* to = static_cast<T*>(rows.data());
      for (int64_t p = 0; p < planes; ++p)
        for (int64_t i = 0; i < in; ++i) {
          int64_t place = index[p * in + i];
          if (place < 0 || place >= to_size)
            failf("Found an invalid max index: {} (output volumes are of size {})", place,
                  str(last_sizes(out.sizes(), dims)));
          to[p * to_size + place] = from[p * in + i];
        }
    });
  });
}

Tensor unpool_body(const Tensor& self, const Tensor& indices, Span<const SymInt> output_size, int dims) {
  Dims sizes = unpooled(self, indices, output_size, dims)[0].sizes;
  SymInt planes = 1, area = 1;
  Dims per_plane(static_cast<size_t>(self.dim()), SymInt(1));
  for (int64_t d = 0; d < self.dim() - dims; ++d) {
    planes = planes * self.size(d);
    per_plane[static_cast<size_t>(d)] = self.size(d);
  }
  for (SymInt s : output_size) area = area * s;
  Tensor first = arange(Scalar(planes), {}, {}, self.device()).view(per_plane) * Scalar(area);
  std::vector<Tensor> at = {(indices + first).reshape({-1})};
  Tensor whole = new_zeros(self, sizes);
  return _unsafe_index_put(whole.reshape({-1}), at, self.reshape({-1}), false).view(sizes);
}

// Where the windows of one dim begin: evenly spread, shifted by the sample.
template <class T>
std::vector<int64_t> window_starts(T sample, int64_t in, int64_t out, int64_t kernel) {
  std::vector<int64_t> starts(static_cast<size_t>(out));
  if (out > 1) {
    const T alpha = static_cast<T>(in - kernel) / static_cast<T>(out - 1);
    for (int64_t i = 0; i < out - 1; ++i)
      starts[static_cast<size_t>(i)] =
          static_cast<int64_t>((static_cast<T>(i) + sample) * alpha) - static_cast<int64_t>(sample * alpha);
  }
  if (out > 0) starts[static_cast<size_t>(out - 1)] = in - kernel;
  return starts;
}

Shapes fractional_shapes(const char* op, const Tensor& self, Ints kernel, Ints output, const Tensor& samples,
                         int dims) {
  if (static_cast<int>(kernel.size()) != dims && kernel.size() != 1)
    failf("{}: kernel_size must either be a single Int or tuple of Ints", op);
  if (static_cast<int>(output.size()) != dims && output.size() != 1)
    failf("{}: output_size must either be a single Int or tuple of Ints", op);
  if (self.dim() != dims + 1 && self.dim() != dims + 2)
    failf("{}: Expected {}D or {}D tensor, but got: {}", op, dims + 1, dims + 2, str(self.sizes()));
  for (int64_t d = self.dim() - dims - 1; d < self.dim(); ++d)
    if (surely_eq(self.size(d), 0))
      failf(
          "{}: Expected input to have non-zero size for non-batch dimensions, but got {} with dimension {} "
          "being empty",
          op, str(self.sizes()), d);
  if (samples.dim() != 3) failf("Expect _random_samples to have 3 dimensions, got {}", samples.dim());
  SymInt batch = self.dim() == dims + 2 ? self.size(0) : SymInt(1);
  if (samples.size(0) < batch) fail("Expect _random_samples.size(0) no less then input batch size.");
  if (samples.size(1) != self.size(-dims - 1))
    fail("Expect _random_samples.size(1) equals to input channel size.");
  if (samples.size(2) != dims)
    failf("Expect _random_samples.size(2) equals to {}; got {}.", dims, samples.size(2).str());
  Dims sizes(self.sizes());
  for (int d = 0; d < dims; ++d) {
    SymInt in = self.size(d - dims);
    int64_t k = kernel.at(static_cast<size_t>(d)), o = output.at(static_cast<size_t>(d));
    if (k <= 0 || o <= 0) failf("{}: kernel_size and output_size must be greater than zero", op);
    if (in < o + k - 1) failf("{}: pool size {} too large relative to input size {}", op, k, in.str());
    sizes[sizes.size() - static_cast<size_t>(dims - d)] = o;
  }
  return {Shape(sizes, self.dtype()), Shape(sizes, kLong)};
}

void fractional(const char* op, const Tensor& self, Ints kernel, const Tensor& samples, int dims, Out out) {
  if (out[0].int_numel() == 0) return;
  Tensor x = row_major(self), random = row_major(samples, self.dtype());
  int64_t in[3] = {1, 1, 1}, o[3] = {1, 1, 1}, k[3] = {1, 1, 1};
  for (int d = 0; d < dims; ++d) {
    in[3 - dims + d] = x.int_sizes()[x.dim() - dims + d];
    o[3 - dims + d] = out[0].int_sizes()[x.dim() - dims + d];
    k[3 - dims + d] = kernel.at(static_cast<size_t>(d));
  }
  const int64_t in_volume = volume(x, dims), out_volume = volume(out[0], dims),
                planes = x.int_numel() / in_volume;
  by_float_dtype(op, x.dtype(), [&]<class T>(T) {
    using W = wide_t<T>;
    parallel_for(0, planes, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        std::vector<int64_t> starts[3] = {{0}, {0}, {0}};
        const T* sample = static_cast<const T*>(random.data()) + p * dims;
        // The samples name the last dim first in two dimensions, the first one first in three.
        for (int d = 0; d < dims; ++d) {
          int which = dims == 2 ? 1 - d : d, at = 3 - dims + d;
          starts[at] = window_starts(static_cast<W>(sample[which]), in[at], o[at], k[at]);
        }
        const T* from = static_cast<const T*>(x.data()) + p * in_volume;
        T* to = static_cast<T*>(out[0].data()) + p * out_volume;
        int64_t* index = out[1].data_ptr<int64_t>() + p * out_volume;
        for (int64_t a : starts[0])
          for (int64_t b : starts[1])
            for (int64_t c : starts[2]) {
              int64_t best = (a * in[1] + b) * in[2] + c;
              W value = -std::numeric_limits<W>::infinity();
              for (int64_t i = a; i < a + k[0]; ++i)
                for (int64_t j = b; j < b + k[1]; ++j)
                  for (int64_t l = c; l < c + k[2]; ++l) {
                    int64_t place = (i * in[1] + j) * in[2] + l;
                    W v = static_cast<W>(from[place]);
                    if (v > value || v != v) value = v, best = place;
                  }
              *to++ = static_cast<T>(value);
              *index++ = best;
            }
      }
    });
  });
}

void scatter_back(const char* op, const Tensor& grad, const Tensor& indices, int dims, const Tensor& out) {
  fill_elements(out, 0);
  if (grad.dim() != out.dim() || grad.dim() <= dims || indices.int_numel() != grad.int_numel())
    failf("{}: a gradient of size {} with indices of size {} does not fit an input of size {}", op,
          str(grad.sizes()), str(indices.sizes()), str(out.sizes()));
  for (int64_t d = 0; d < grad.dim() - dims; ++d)
    if (grad.int_sizes()[d] != out.int_sizes()[d])
      failf("{}: a gradient of size {} does not fit an input of size {}", op, str(grad.sizes()),
            str(out.sizes()));
  if (grad.int_numel() == 0) return;
  Tensor g = row_major(grad), at = row_major(indices, kLong);
  const int64_t from_size = volume(g, dims), to_size = volume(out, dims), planes = g.int_numel() / from_size;
  by_float_dtype(op, g.dtype(), [&]<class T>(T) {
    for (int64_t p = 0; p < planes; ++p)
      for (int64_t i = 0; i < from_size; ++i) {
        int64_t place = at.data_ptr<int64_t>()[p * from_size + i];
        if (place < 0 || place >= to_size) failf("{}: index {} is outside of the input", op, place);
        T& to = static_cast<T*>(out.data())[p * to_size + place];
        to = static_cast<T>(static_cast<wide_t<T>>(to) +
                            static_cast<wide_t<T>>(static_cast<const T*>(g.data())[p * from_size + i]));
      }
  });
}

}  // namespace

Shapes shape_max_unpool2d(const args::max_unpool2d& a) {
  return unpooled(a.self, a.indices, a.output_size, 2);
}
void kernel_max_unpool2d(const args::max_unpool2d& a, Out out) { unpool(a.self, a.indices, 2, out[0]); }
Tensor body_max_unpool2d(const args::max_unpool2d& a) {
  return unpool_body(a.self, a.indices, a.output_size, 2);
}
Shapes shape_max_unpool3d(const args::max_unpool3d& a) {
  if (a.stride.size() != 3 && a.stride.size() != 1)
    failf("There should be exactly three elements (depth, height, width) in stride, but got: {} elements.",
          a.stride.size());
  if (a.padding.size() != 3 && a.padding.size() != 1)
    failf("There should be exactly three elements (depth, height, width) in padding, but got: {} elements.",
          a.padding.size());
  for (int64_t s : a.stride)
    if (s <= 0) fail("strides should be greater than zero");
  return unpooled(a.self, a.indices, a.output_size, 3);
}
void kernel_max_unpool3d(const args::max_unpool3d& a, Out out) { unpool(a.self, a.indices, 3, out[0]); }
Tensor body_max_unpool3d(const args::max_unpool3d& a) {
  return unpool_body(a.self, a.indices, a.output_size, 3);
}

Shapes shape_fractional_max_pool2d(const args::fractional_max_pool2d& a) {
  return fractional_shapes("fractional_max_pool2d", a.self, a.kernel_size, a.output_size, a.random_samples,
                           2);
}
void kernel_fractional_max_pool2d(const args::fractional_max_pool2d& a, Out out) {
  fractional("fractional_max_pool2d", a.self, a.kernel_size, a.random_samples, 2, out);
}
Shapes shape_fractional_max_pool2d_backward(const args::fractional_max_pool2d_backward& a) {
  return {Shape(a.self.sizes(), a.grad_output.dtype())};
}
void kernel_fractional_max_pool2d_backward(const args::fractional_max_pool2d_backward& a, Out out) {
  scatter_back("fractional_max_pool2d_backward", a.grad_output, a.indices, 2, out[0]);
}
Shapes shape_fractional_max_pool3d(const args::fractional_max_pool3d& a) {
  return fractional_shapes("fractional_max_pool3d", a.self, a.kernel_size, a.output_size, a.random_samples,
                           3);
}
void kernel_fractional_max_pool3d(const args::fractional_max_pool3d& a, Out out) {
  fractional("fractional_max_pool3d", a.self, a.kernel_size, a.random_samples, 3, out);
}
Shapes shape_fractional_max_pool3d_backward(const args::fractional_max_pool3d_backward& a) {
  return {Shape(a.self.sizes(), a.grad_output.dtype())};
}
void kernel_fractional_max_pool3d_backward(const args::fractional_max_pool3d_backward& a, Out out) {
  scatter_back("fractional_max_pool3d_backward", a.grad_output, a.indices, 3, out[0]);
}

}  // namespace tern
