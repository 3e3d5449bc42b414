// Blocks of an image as columns and back, affine grids, shuffled channels.
#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"
#include "tern/ops/vision.args.h"

namespace tern {
namespace {

struct Blocks {
  int64_t kernel[2], dilation[2], padding[2], stride[2];
};
Blocks blocks(Ints kernel, Ints dilation, Ints padding, Ints stride) {
  auto check = [](const char* what, Ints list, int64_t least, const char* should) {
    if (list.size() != 1 && list.size() != 2)
      failf("It is expected {} equals to 2, but got size {}", what, list.size());
    if (list.at(0) < least || list.at(1) < least)
      failf("{} should be {}, but got {}_height: {} {}_width: {}", what, should, what, list.at(0), what,
            list.at(1));
  };
  check("kernel_size", kernel, 1, "greater than zero");
  check("dilation", dilation, 1, "greater than zero");
  check("padding", padding, 0, "non-negative");
  check("stride", stride, 1, "greater than zero");
  Blocks b;
  for (size_t d = 0; d < 2; ++d)
    b.kernel[d] = kernel.at(d), b.dilation[d] = dilation.at(d), b.padding[d] = padding.at(d),
    b.stride[d] = stride.at(d);
  return b;
}
SymInt block_count(SymInt size, const Blocks& b, int d) {
  return floor_div(size + 2 * b.padding[d] - b.dilation[d] * (b.kernel[d] - 1) - 1, b.stride[d]) + 1;
}
std::string pair_text(const int64_t* v) { return fmt::format("({}, {})", v[0], v[1]); }
std::string text(const Blocks& b) {
  return fmt::format("kernel_size={}, dilation={}, padding={}, stride={}", pair_text(b.kernel),
                     pair_text(b.dilation), pair_text(b.padding), pair_text(b.stride));
}

// Calls f(column element, image element) with offsets for every place of every block that lies inside the
// image.
template <class F>
void each_place(const Blocks& b, int64_t channels, const int64_t* image, const int64_t* grid, F f) {
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t ky = 0; ky < b.kernel[0]; ++ky)
      for (int64_t kx = 0; kx < b.kernel[1]; ++kx) {
        int64_t column = ((c * b.kernel[0] + ky) * b.kernel[1] + kx) * grid[0] * grid[1];
        for (int64_t oy = 0; oy < grid[0]; ++oy) {
          int64_t y = oy * b.stride[0] - b.padding[0] + ky * b.dilation[0];
          if (y < 0 || y >= image[0]) continue;
          for (int64_t ox = 0; ox < grid[1]; ++ox) {
            int64_t x = ox * b.stride[1] - b.padding[1] + kx * b.dilation[1];
            if (x >= 0 && x < image[1]) f(column + oy * grid[1] + ox, (c * image[0] + y) * image[1] + x);
          }
        }
      }
}

void check_columns(const Tensor& self, Span<const SymInt> output_size, const Blocks& b) {
  bool right = self.dim() == 2 || self.dim() == 3;
  for (int64_t d = self.dim() - 2; right && d < self.dim(); ++d) right = !surely_eq(self.sizes()[d], 0);
  if (!right)
    failf(
        "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions "
        "for input, but "
        "got: {}",
        str(self.sizes()));
  if (output_size.size() != 2)
    failf("It is expected output_size equals to 2, but got size {}", output_size.size());
  int64_t area = b.kernel[0] * b.kernel[1];
  if (floor_div(self.size(-2), area) * area != self.size(-2))
    failf(
        "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
        "input.size(1)={} and "
        "kernel_size={}.",
        self.size(-2).str(), pair_text(b.kernel));
  SymInt rows = block_count(output_size[0], b, 0), columns = block_count(output_size[1], b, 1);
  if (self.size(-1) != rows * columns)
    failf(
        "Given output_size=({}, {}), {}, expected size of input's dimension 2 to match the calculated number "
        "of sliding "
        "blocks {} * {} = {}, but got input.size(2)={}.",
        output_size[0].str(), output_size[1].str(), text(b), rows.str(), columns.str(),
        (rows * columns).str(), self.size(-1).str());
}

// Which row (or column) of the padded image each place of each block reads: (kernel, blocks).
Tensor block_positions(SymInt size, const Blocks& b, int d) {
  SymInt end = size + 2 * b.padding[d] - b.dilation[d] * (b.kernel[d] - 1);
  Tensor starts = arange(Scalar(0), Scalar(end), Scalar(b.stride[d]), kLong, {}, kCPU, false).unsqueeze(0);
  Tensor inside =
      arange(Scalar(0), Scalar(b.kernel[d] * b.dilation[d]), Scalar(b.dilation[d]), kLong, {}, kCPU, false)
          .unsqueeze(-1);
  return starts + inside;
}

}  // namespace

Shapes shape_im2col(const args::im2col& a) {
  Blocks b = blocks(a.kernel_size, a.dilation, a.padding, a.stride);
  bool right = a.self.dim() == 3 || a.self.dim() == 4;
  for (int64_t d = a.self.dim() - 3; right && d < a.self.dim(); ++d) right = !surely_eq(a.self.sizes()[d], 0);
  if (!right)
    failf(
        "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
        "input, but "
        "got: {}",
        str(a.self.sizes()));
  SymInt rows = block_count(a.self.size(-2), b, 0), columns = block_count(a.self.size(-1), b, 1);
  if ((!surely_lt(0, rows) && rows < 1) || (!surely_lt(0, columns) && columns < 1))
    failf(
        "Given input with spatial size ({}, {}), {}, calculated shape of the array of sliding blocks as ({}, "
        "{}), but its "
        "components must be at least one.",
        a.self.size(-2).str(), a.self.size(-1).str(), text(b), rows.str(), columns.str());
  Dims sizes;
  if (a.self.dim() == 4) sizes.push_back(a.self.size(0));
  sizes.push_back(a.self.size(-3) * (b.kernel[0] * b.kernel[1]));
  sizes.push_back(rows * columns);
  return {Shape(sizes, a.self.dtype())};
}
void kernel_im2col(const args::im2col& a, Out out) {
  Blocks b = blocks(a.kernel_size, a.dilation, a.padding, a.stride);
  fill_elements(out[0], 0);
  if (out[0].int_numel() == 0) return;
  Tensor x = row_major(a.self);
  const int64_t* sizes = x.int_sizes() + x.dim() - 3;
  const int64_t channels = sizes[0], batch = x.dim() == 4 ? x.int_sizes()[0] : 1;
  const int64_t grid[] = {block_count(sizes[1], b, 0).as_int(), block_count(sizes[2], b, 1).as_int()};
  const int64_t in = channels * sizes[1] * sizes[2], columns = out[0].int_numel() / batch;
  by_element_size(x.dtype(), [&]<class T>(T) {
    parallel_for(0, batch, std::max<int64_t>(1, 16384 / (columns + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const T* from = static_cast<const T*>(x.data()) + n * in;
        T* to = static_cast<T*>(out[0].data()) + n * columns;
        each_place(b, channels, sizes + 1, grid,
                   [&](int64_t column, int64_t place) { to[column] = from[place]; });
      }
    });
  });
}
Tensor body_im2col(const args::im2col& a) {
  Blocks b = blocks(a.kernel_size, a.dilation, a.padding, a.stride);
  shape_im2col(a);
  Tensor x = a.self.dim() == 4 ? a.self : a.self.unsqueeze(0);
  Tensor rows = block_positions(x.size(2), b, 0), columns = block_positions(x.size(3), b, 1);
  Tensor padded = constant_pad_nd(x, {b.padding[1], b.padding[1], b.padding[0], b.padding[0]}, 0);
  std::vector<Tensor> at = {Tensor(), Tensor(), rows.unsqueeze(-1).unsqueeze(-1), columns};
  Tensor y = index(padded, at).permute({0, 1, 2, 4, 3, 5});
  y = y.reshape({x.size(0), x.size(1) * (b.kernel[0] * b.kernel[1]), rows.size(1) * columns.size(1)});
  return a.self.dim() == 4 ? y : y.squeeze(0);
}

Shapes shape_col2im(const args::col2im& a) {
  Blocks b = blocks(a.kernel_size, a.dilation, a.padding, a.stride);
  check_columns(a.self, a.output_size, b);
  Dims sizes;
  if (a.self.dim() == 3) sizes.push_back(a.self.size(0));
  sizes.push_back(floor_div(a.self.size(-2), b.kernel[0] * b.kernel[1]));
  sizes.push_back(a.output_size[0]);
  sizes.push_back(a.output_size[1]);
  return {Shape(sizes, a.self.dtype())};
}
void kernel_col2im(const args::col2im& a, Out out) {
  Blocks b = blocks(a.kernel_size, a.dilation, a.padding, a.stride);
  fill_elements(out[0], 0);
  if (out[0].int_numel() == 0) return;
  Tensor x = row_major(a.self);
  const int64_t* sizes = out[0].int_sizes() + out[0].dim() - 3;
  const int64_t channels = sizes[0], batch = x.dim() == 3 ? x.int_sizes()[0] : 1;
  const int64_t grid[] = {block_count(sizes[1], b, 0).as_int(), block_count(sizes[2], b, 1).as_int()};
  const int64_t image = channels * sizes[1] * sizes[2], columns = x.int_numel() / batch;
  by_dtype("col2im", x.dtype(), [&]<class T>(T) {
    using W = wide_t<T>;
    parallel_for(0, batch, std::max<int64_t>(1, 16384 / (columns + 1)), [&](int64_t begin, int64_t end) {
      std::vector<unsigned char> memory;
      for (int64_t n = begin; n < end; ++n) {
        const T* from = static_cast<const T*>(x.data()) + n * columns;
        T* to = static_cast<T*>(out[0].data()) + n * image;
        if constexpr (std::is_same_v<T, W>) {
          each_place(b, channels, sizes + 1, grid, [&](int64_t column, int64_t place) {
            to[place] = static_cast<T>(to[place] + from[column]);
          });
        } else {
          std::vector<W> sum(static_cast<size_t>(image), W(0));
          each_place(b, channels, sizes + 1, grid, [&](int64_t column, int64_t place) {
            sum[static_cast<size_t>(place)] += static_cast<W>(from[column]);
          });
          for (int64_t i = 0; i < image; ++i) to[i] = static_cast<T>(sum[static_cast<size_t>(i)]);
        }
      }
    });
  });
}
Tensor body_col2im(const args::col2im& a) {
  Blocks b = blocks(a.kernel_size, a.dilation, a.padding, a.stride);
  check_columns(a.self, a.output_size, b);
  Tensor x = a.self.dim() == 3 ? a.self : a.self.unsqueeze(0);
  SymInt channels = floor_div(x.size(1), b.kernel[0] * b.kernel[1]);
  SymInt rows = block_count(a.output_size[0], b, 0), columns = block_count(a.output_size[1], b, 1);
  x = x.reshape({x.size(0), channels, b.kernel[0], b.kernel[1], rows, columns}).permute({0, 1, 2, 4, 3, 5});
  Tensor row_at = block_positions(a.output_size[0], b, 0).unsqueeze(-1).unsqueeze(-1);
  Tensor column_at = block_positions(a.output_size[1], b, 1);
  Tensor padded = new_zeros(
      x, {x.size(0), channels, a.output_size[0] + 2 * b.padding[0], a.output_size[1] + 2 * b.padding[1]});
  std::vector<Tensor> at = {Tensor(), Tensor(), row_at, column_at};
  Tensor y = _unsafe_index_put(padded, at, x, true);
  y = constant_pad_nd(y, {-b.padding[1], -b.padding[1], -b.padding[0], -b.padding[0]}, 0);
  return a.self.dim() == 3 ? y : y.squeeze(0);
}

namespace {

Tensor from_minus_one(SymInt steps, bool align_corners, const Tensor& like) {
  int64_t n = steps.guard_int();
  if (n <= 1) return zeros({}, like.dtype(), {}, like.device());
  double end = align_corners ? 1 : static_cast<double>(n - 1) / static_cast<double>(n);
  return linspace(-end, end, n, like.dtype(), {}, like.device());
}

// x, y(, z) and one of each place, from the last dimension on: [places..., dims + 1].
Tensor affine_base(const Dims& places, bool align_corners, const Tensor& like) {
  std::vector<Tensor> parts;
  Dims full(places);
  full.push_back(1);
  for (size_t d = places.size(); d-- > 0;) {
    Dims shape(places.size(), SymInt(1));
    shape[d] = places[d];
    parts.push_back(from_minus_one(places[d], align_corners, like).reshape(shape).unsqueeze(-1).expand(full));
  }
  parts.push_back(ones(full, like.dtype(), {}, like.device()));
  return cat(parts, -1);
}

}  // namespace

Tensor body_affine_grid_generator(const args::affine_grid_generator& a) {
  size_t dims = a.size.size() - 2;
  if (a.size.size() != 4 && a.size.size() != 5)
    fail("affine_grid_generator needs 4d (spatial) or 5d (volumetric) inputs.");
  const int64_t rows = static_cast<int64_t>(dims), columns = rows + 1;
  if (a.theta.dim() != 3 || a.theta.size(0) != a.size[0] || a.theta.size(1) != rows ||
      a.theta.size(2) != columns)
    failf("Expected a batch of {}D affine matrices of shape Nx{}x{} for size {}. Got {}.", rows, rows,
          columns, str(a.size), str(a.theta.sizes()));
  bool narrow = a.theta.dtype() == kHalf || a.theta.dtype() == kBFloat16;
  Tensor theta = narrow ? a.theta.to(kFloat) : a.theta;
  Dims places(Span<const SymInt>(a.size.data() + 2, dims));
  Tensor base = affine_base(places, a.align_corners, theta);
  Tensor grid = (base.reshape({-1, columns, 1}) * theta.transpose(-2, -1).unsqueeze(1)).sum({-2});
  Dims result = {a.size[0]};
  for (SymInt s : places) result.push_back(s);
  result.push_back(rows);
  grid = grid.view(result);
  return narrow ? grid.to(a.theta.dtype()) : grid;
}

Tensor body_affine_grid_generator_backward(const args::affine_grid_generator_backward& a) {
  if (a.size.size() != 4 && a.size.size() != 5)
    fail("affine_grid_generator needs 4d (spatial) or 5d (volumetric) inputs.");
  Dims places(Span<const SymInt>(a.size.data() + 2, a.size.size() - 2)), wanted{a.size[0]};
  for (SymInt s : places) wanted.push_back(s);
  const SymInt rows = static_cast<int64_t>(places.size());
  wanted.push_back(rows);
  bool same = a.grad.dim() == static_cast<int64_t>(wanted.size());
  for (int64_t d = 0; same && d < a.grad.dim(); ++d) same = a.grad.size(d) == wanted[static_cast<size_t>(d)];
  if (!same)
    failf("affine_grid_generator_backward: expected a gradient of sizes {}, but got {}", str(wanted),
          str(a.grad.sizes()));
  Tensor base = affine_base(places, a.align_corners, a.grad).reshape({-1, rows + 1});
  return matmul(a.grad.reshape({a.size[0], -1, rows}).transpose(1, 2), base);
}

std::tuple<Tensor, Tensor> body__grid_sampler_2d_cpu_fallback_backward(
    const args::_grid_sampler_2d_cpu_fallback_backward& a) {
  const bool both[] = {true, true};
  return grid_sampler_2d_backward(a.grad_output, a.input, a.grid, a.interpolation_mode, a.padding_mode,
                                  a.align_corners, both);
}

Tensor body_channel_shuffle(const args::channel_shuffle& a) {
  if (a.self.dim() <= 2)
    failf("channel_shuffle expects input with > 2 dims, but got input with sizes {}", str(a.self.sizes()));
  SymInt channels = a.self.size(1);
  if (a.groups <= 0)
    failf("Number of groups to divide channels in must be positive. Value of groups:{}", a.groups.str());
  SymInt each = floor_div(channels, a.groups);
  if (each * a.groups != channels)
    failf("Number of channels must be divisible by groups. Got {} channels and {} groups.", channels.str(),
          a.groups.str());
  Dims split = {a.self.size(0), a.groups, each};
  for (int64_t d = 2; d < a.self.dim(); ++d) split.push_back(a.self.size(d));
  const MemoryFormat format = a.self.dim() > 5 || a.self.dim() < 4 || !channels_innermost(a.self)
                                  ? MemoryFormat::contiguous
                              : a.self.dim() == 4 ? MemoryFormat::channels_last
                                                  : MemoryFormat::channels_last_3d;
  return a.self.reshape(split).transpose(1, 2).reshape(a.self.sizes()).contiguous(format);
}

}  // namespace tern
