// The second derivative of sampling at a grid, in plain operators, so that it has derivatives of its own.
#include <array>

#include "tern/dispatch/grad_context.h"
#include "tern/ops.h"
#include "tern/ops/formulas.h"

namespace tern {
namespace {

enum : int64_t { bilinear_mode, nearest_mode, bicubic_mode };
enum : int64_t { zeros_padding, border_padding, reflection_padding };

// What one dimension of the image adds to a place: up to four elements, their weights, and the first and
// second derivatives of the weights by the grid's coordinate; (batch, places) each.
struct Axis {
  int count = 0;
  std::array<Tensor, 4> at, inside, weight, slope, bend;  // bend: undefined where it is zero
};

// A position in the image and its derivative by the normalised coordinate.
struct Position {
  Tensor at, slope;
};

Position padded(Position p, int64_t size, int64_t padding, bool align) {
  if (padding == zeros_padding) return p;
  if (padding == reflection_padding) {
    const double low = align ? 0 : -0.5, span = static_cast<double>(align ? size - 1 : size);
    if (span == 0) return {p.at * 0, p.slope * 0};
    Tensor from = p.at - low, in = abs(from);
    Tensor extra = fmod(in, span), odd = remainder(floor(in / span), 2) == 1;
    p.at = where(odd, span - extra, extra) + low;
    p.slope = where(logical_xor(odd, from < 0), -p.slope, p.slope);
  }
  const double top = static_cast<double>(size - 1);
  Tensor within = logical_and(p.at > 0, p.at < top);
  return {where(p.at > 0, clamp(p.at, 0.0, top), 0.0), p.slope * within};
}

// Far out or not a number: somewhere that is surely outside.
Tensor tame(const Tensor& at) { return where(logical_and(isfinite(at), abs(at) < 1e9), at, -100.0); }

void place(Axis& axis, const Tensor& position, int64_t size) {
  Tensor whole = to(position, kLong);
  axis.inside[static_cast<size_t>(axis.count)] = logical_and(whole >= 0, whole < size);
  axis.at[static_cast<size_t>(axis.count)] = clamp(whole, 0, size - 1);
  ++axis.count;
}

Axis find_axis(const Tensor& coordinate, int64_t size, int64_t mode, int64_t padding, bool align) {
  const double n = static_cast<double>(size), factor = align ? (n - 1) / 2 : n / 2;
  Position p{align ? (coordinate + 1) * factor : ((coordinate + 1) * n - 1) * 0.5,
             full_like(coordinate, factor)};
  Axis axis;
  if (mode == bicubic_mode) {
    Tensor at = tame(p.at), base = floor(at.detach()), t = at - base;
    const double a = -0.75;
    // Keys' kernel within one element of the place, and between one and two.
    auto near = [&](const Tensor& x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
    auto far = [&](const Tensor& x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
    auto near_slope = [&](const Tensor& x) { return (3 * (a + 2) * x - 2 * (a + 3)) * x; };
    auto far_slope = [&](const Tensor& x) { return (3 * a * x - 10 * a) * x + 8 * a; };
    auto near_bend = [&](const Tensor& x) { return 6 * (a + 2) * x - 2 * (a + 3); };
    auto far_bend = [&](const Tensor& x) { return 6 * a * x - 10 * a; };
    axis.weight = {far(t + 1), near(t), near(1 - t), far(2 - t)};
    axis.slope = {far_slope(t + 1) * factor, near_slope(t) * factor, near_slope(1 - t) * -factor,
                  far_slope(2 - t) * -factor};
    const double twice = factor * factor;
    axis.bend = {far_bend(t + 1) * twice, near_bend(t) * twice, near_bend(1 - t) * twice,
                 far_bend(2 - t) * twice};
    for (int k = 0; k < 4; ++k)
      place(axis, tame(padded({base + static_cast<double>(k - 1), p.slope}, size, padding, align).at), size);
    return axis;
  }
  p = padded(p, size, padding, align);
  Tensor at = tame(p.at), whole = floor(at.detach()), part = at - whole;
  axis.weight[0] = 1 - part, axis.weight[1] = part;
  axis.slope[0] = -p.slope, axis.slope[1] = p.slope;
  place(axis, whole, size);
  place(axis, whole + 1, size);
  return axis;
}

// The directional derivative of the sampled image along `turn` (a change of the grid), and what depends on
// it.
struct Turned {
  Tensor output;       // the derivative itself: the gradient of grad_output
  Tensor input, grid;  // gradients of <grad_output, output>
};
Turned turned(const Tensor& turn, const Tensor& grad_output, const Tensor& input, const Tensor& grid,
              int64_t mode, int64_t padding, bool align) {
  const int dims = static_cast<int>(input.dim()) - 2;
  SymInt batch = input.size(0), channels = input.size(1), image = 1, places = 1;
  for (int d = 0; d < dims; ++d) image = image * input.size(d + 2), places = places * grad_output.size(d + 2);
  Tensor x = input.reshape({batch, channels, image}), g = grad_output.reshape({batch, channels, places});
  Tensor flat = grid.reshape({batch, places, dims}), along = turn.reshape({batch, places, dims});
  Axis axes[3];
  Tensor step[3];
  for (int d = 0; d < dims; ++d) {  // the grid's coordinates begin with the last dimension
    axes[d] = find_axis(select(flat, 2, dims - 1 - d), input.size(d + 2).guard_int(), mode, padding, align);
    step[d] = select(along, 2, dims - 1 - d);
  }
  Turned out;
  Tensor by_coordinate[3];
  auto add = [](Tensor& to, const Tensor& t) { to = to.defined() ? to + t : t; };
  int corners = 1;
  for (int d = 0; d < dims; ++d) corners *= axes[d].count;
  for (int corner = 0; corner < corners; ++corner) {
    size_t k[3];
    for (int d = dims - 1, rest = corner; d >= 0; --d) {
      k[d] = static_cast<size_t>(rest % axes[d].count);
      rest /= axes[d].count;
    }
    // The weight of this element derived by the dimensions of `by`, once or twice; undefined: zero.
    auto derived = [&](int by, int again) {
      Tensor product;
      for (int d = 0; d < dims; ++d) {
        const int order = (d == by) + (d == again);
        const Tensor& factor = order == 0   ? axes[d].weight[k[d]]
                               : order == 1 ? axes[d].slope[k[d]]
                                            : axes[d].bend[k[d]];
        if (!factor.defined()) return Tensor();
        product = product.defined() ? product * factor : factor;
      }
      return product;
    };
    Tensor offset, inside;
    for (int d = 0; d < dims; ++d) {
      const Tensor &at = axes[d].at[k[d]], &in = axes[d].inside[k[d]];
      offset = offset.defined() ? offset * input.size(d + 2).guard_int() + at : at;
      inside = inside.defined() ? logical_and(inside, in) : in;
    }
    Tensor index = unsqueeze(offset, 1).expand({batch, channels, places});
    Tensor along_all;
    for (int d = 0; d < dims; ++d) add(along_all, step[d] * derived(d, -1));
    Tensor weight = unsqueeze(along_all * inside, 1), value = gather(x, 2, index) * unsqueeze(inside, 1);
    add(out.output, weight * value);
    add(out.input, scatter_add(zeros_like(x), 2, index, weight * g));
    Tensor matched = sum(g * value, 1);
    for (int d = 0; d < dims; ++d)
      for (int e = 0; e < dims; ++e)
        if (Tensor bend = derived(d, e); bend.defined()) add(by_coordinate[d], bend * step[e] * matched);
  }
  out.output = out.output.reshape(grad_output.sizes());
  out.input = out.input.reshape(input.sizes());
  std::vector<Tensor> coordinates;
  for (int d = dims - 1; d >= 0; --d)
    coordinates.push_back(by_coordinate[d].defined() ? by_coordinate[d] : zeros_like(step[d]));
  out.grid = stack(coordinates, 2).reshape(grid.sizes());
  return out;
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> grid_sampler_double_backward(GradContext& c, const Tensor& grad_output,
                                                                const Tensor& input, const Tensor& grid,
                                                                int64_t mode, int64_t padding, bool align) {
  Tensor by_output, by_input, by_grid;
  auto add = [](Tensor& to, const Tensor& t) { to = to.defined() ? to + t : t; };
  if (c.has_grad(0)) {  // the image's gradient is the transpose of sampling, applied to grad_output
    Tensor image = c.grad(0);
    if (c.wants(0)) add(by_output, grid_sampler(image, grid, mode, padding, align));
    if (c.wants(2)) {
      const bool mask[] = {false, true};
      add(by_grid,
          std::get<1>(input.dim() == 5
                          ? grid_sampler_3d_backward(grad_output, image, grid, mode, padding, align, mask)
                          : grid_sampler_2d_backward(grad_output, image, grid, mode, padding, align, mask)));
    }
  }
  if (c.has_grad(1) && mode != nearest_mode && input.size(0) != 0 && grid.numel() != 0) {
    Turned t = turned(c.grad(1), grad_output, input, grid, mode, padding, align);
    if (c.wants(0)) add(by_output, t.output);
    if (c.wants(1)) add(by_input, t.input);
    if (c.wants(2)) add(by_grid, t.grid);
  }
  if (c.wants(0) && !by_output.defined()) by_output = zeros_like(grad_output);
  if (c.wants(1) && !by_input.defined()) by_input = zeros_like(input);
  if (c.wants(2) && !by_grid.defined()) by_grid = zeros_like(grid);
  return {by_output, by_input, by_grid};
}

}  // namespace tern
