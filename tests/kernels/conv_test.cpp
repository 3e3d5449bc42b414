// Convolutions of every kind against the definition, and their gradients against the transposed definition.
#include "tern/kernels/conv.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <array>
#include <cmath>
#include <vector>

#include "tern/base/error.h"
#include "tern/kernels/conv_direct.h"
#include "tern/kernels/conv_winograd.h"
#include "tern/kernels/gemm.h"
#include "tern/kernels/pointwise.h"

namespace tern::kernels {
namespace {

struct Count {
  int64_t x, w, y;
};
Count count(const ConvShape& s) {
  Count n{s.batch * s.in_channels, s.in_channels * s.out_channels / s.groups, s.batch * s.out_channels};
  for (int d = 0; d < s.dims; ++d) n.x *= s.in_size[d], n.w *= s.kernel[d], n.y *= s.out_size(d);
  return n;
}

// Calls f(x index, w index, y index) for every product of the definition.
template <class F>
void each_product(const ConvShape& s, F f) {
  const int64_t ci = s.in_channels / s.groups, co = s.out_channels / s.groups;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, k[3] = {1, 1, 1};
  for (int d = 0; d < s.dims; ++d) in[d] = s.in_size[d], out[d] = s.out_size(d), k[d] = s.kernel[d];
  const int64_t iv = in[0] * in[1] * in[2], ov = out[0] * out[1] * out[2], kv = k[0] * k[1] * k[2];
  const int64_t from_volume = s.transposed ? iv : ov;
  const int64_t* from = s.transposed ? in : out;
  const int64_t* to = s.transposed ? out : in;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t g = 0; g < s.groups; ++g)
      for (int64_t a = 0; a < co; ++a)
        for (int64_t c = 0; c < ci; ++c)
          for (int64_t o = 0; o < from_volume; ++o)
            for (int64_t q = 0; q < kv; ++q) {
              const int64_t oi[3] = {o / (from[1] * from[2]), o / from[2] % from[1], o % from[2]};
              const int64_t ki[3] = {q / (k[1] * k[2]), q / k[2] % k[1], q % k[2]};
              int64_t p = 0;
              bool inside = true;
              for (int d = 0; d < 3; ++d) {
                const bool real = d < s.dims;
                const int64_t i = real ? oi[d] * s.stride[d] - s.padding[d] + ki[d] * s.dilation[d] : 0;
                inside &= i >= 0 && i < to[d];
                p = p * to[d] + i;
              }
              if (!inside) continue;
              const int64_t xi = (b * s.in_channels + g * ci + c) * iv + (s.transposed ? o : p);
              const int64_t yi = (b * s.out_channels + g * co + a) * ov + (s.transposed ? p : o);
              const int64_t wi =
                  s.transposed ? ((g * ci + c) * co + a) * kv + q : ((g * co + a) * ci + c) * kv + q;
              f(xi, wi, yi);
            }
}

template <class T>
std::vector<T> values(int64_t n, int seed) {
  std::vector<T> v(n);
  for (int64_t i = 0; i < n; ++i) v[i] = T(static_cast<float>((i * 31 + seed * 7) % 5 - 2));
  return v;
}

ConvShape shape(int dims, int64_t batch, int64_t in, int64_t out, int64_t groups, int64_t size,
                int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool transposed = false,
                int64_t output_padding = 0) {
  ConvShape s;
  s.dims = dims, s.batch = batch, s.in_channels = in, s.out_channels = out, s.groups = groups,
  s.transposed = transposed;
  for (int d = 0; d < dims; ++d)
    s.in_size[d] = size + d, s.kernel[d] = kernel, s.stride[d] = stride, s.padding[d] = padding,
    s.dilation[d] = dilation, s.output_padding[d] = output_padding;
  return s;
}

const ConvShape kShapes[] = {
    shape(1, 2, 3, 4, 1, 9, 3, 1, 1, 1),          shape(1, 1, 4, 6, 2, 10, 3, 2, 0, 2),
    shape(2, 2, 3, 16, 1, 8, 3, 1, 1, 1),         shape(2, 1, 16, 32, 1, 7, 1, 1, 0, 1),
    shape(2, 1, 8, 8, 8, 6, 3, 2, 1, 1),          shape(2, 1, 4, 6, 2, 9, 3, 2, 1, 2),
    shape(3, 1, 2, 3, 1, 4, 2, 1, 1, 1),          shape(1, 1, 4, 2, 1, 5, 3, 2, 1, 1, true, 1),
    shape(2, 2, 4, 6, 2, 5, 3, 2, 1, 1, true, 1), shape(2, 1, 3, 5, 1, 4, 2, 1, 0, 2, true),
    shape(3, 1, 2, 2, 1, 3, 2, 2, 0, 1, true),
};

template <class T>
void check_all(double tolerance) {
  const DType type = dtype_of<T>;
  for (const ConvShape& s : kShapes) {
    const Count n = count(s);
    const auto x = values<T>(n.x, 1), w = values<T>(n.w, 2), b = values<T>(s.out_channels, 3),
               gy = values<T>(n.y, 4);
    std::vector<double> y(n.y), gx(n.x), gw(n.w), gb(s.out_channels);
    const int64_t volume = n.y / s.batch / s.out_channels;
    auto number = [](T v) { return static_cast<double>(v); };
    for (int64_t i = 0; i < n.y; ++i)
      y[i] = number(b[i / volume % s.out_channels]), gb[i / volume % s.out_channels] += number(gy[i]);
    each_product(s, [&](int64_t xi, int64_t wi, int64_t yi) {
      y[yi] += number(x[xi]) * number(w[wi]);
      gx[xi] += number(gy[yi]) * number(w[wi]);
      gw[wi] += number(gy[yi]) * number(x[xi]);
    });
    std::vector<T> got_y(n.y), got_gx(n.x), got_gw(n.w), got_gb(s.out_channels);
    conv_forward(type, s, x.data(), w.data(), b.data(), got_y.data());
    conv_backward_input(type, s, gy.data(), w.data(), got_gx.data());
    conv_backward_weight(type, s, x.data(), gy.data(), got_gw.data());
    conv_backward_bias(type, s, gy.data(), got_gb.data());
    auto same = [&](const std::vector<T>& got, const std::vector<double>& want, const char* what) {
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(number(got[i]), number(T(static_cast<float>(want[i]))), tolerance)
            << what << " of shape " << (&s - kShapes) << " " << name(type) << " at " << i;
    };
    same(got_y, y, "y");
    same(got_gx, gx, "grad x");
    same(got_gw, gw, "grad weight");
    same(got_gb, gb, "grad bias");
  }
}

TEST(KernelsConv, float_follows_the_definition) { check_all<float>(1e-4); }
TEST(KernelsConv, double_follows_the_definition) { check_all<double>(1e-9); }
TEST(KernelsConv, half_rounds_once) { check_all<Half>(0.13); }
TEST(KernelsConv, integers) { check_all<int32_t>(0); }

// (outer, rows, columns) to (outer, columns, rows)
std::vector<float> permute(const std::vector<float>& v, int64_t outer, int64_t rows, int64_t columns) {
  std::vector<float> p(v.size());
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) p[(o * columns + j) * rows + i] = v[(o * rows + i) * columns + j];
  return p;
}

// A class for small convolutions against conv_forward, with what it fuses.
template <class Conv>
void follows_the_definition(const ConvShape& s, std::initializer_list<Activation> activations) {
  const Count n = count(s);
  const auto x = values<float>(n.x, 1), w = values<float>(n.w, 2), b = values<float>(s.out_channels, 3),
             r = values<float>(n.y, 4);
  std::vector<float> plain(n.y), got(n.y);
  conv_forward(kFloat, s, x.data(), w.data(), b.data(), plain.data());
  const int64_t pixels = n.y / s.batch / s.out_channels;
  const std::vector<float> in = permute(x, s.batch, s.in_channels, n.x / s.batch / s.in_channels),
                           residual = permute(r, s.batch, s.out_channels, pixels),
                           want = permute(plain, s.batch, s.out_channels, pixels);
  Conv conv(s, w.data(), b.data(), Activation::none);
  conv.run(in.data(), nullptr, got.data(), 0, s.batch);
  for (int64_t i = 0; i < n.y; ++i) ASSERT_NEAR(got[i], want[i], 1e-4) << i;
  for (Activation activation : activations) {
    Conv fused(s, w.data(), b.data(), activation);
    got = residual;                              // may be y itself
    for (int64_t image = s.batch; image-- > 0;)  // and one image after the other, in any order
      fused.run(in.data(), got.data(), got.data(), image, image + 1);
    for (int64_t i = 0; i < n.y; ++i) {
      float sum = want[i] + residual[i];
      activate(activation, &sum, 1);
      ASSERT_NEAR(got[i], sum, 1e-4) << i;
    }
  }
}

// Calls f with each instruction set this machine has as the only one.
template <class F>
void on_every_target(F f) {
  const int64_t here = hwy::SupportedTargets();
  for (int64_t rest = here; rest; rest &= rest - 1) {
    SCOPED_TRACE(hwy::TargetName(rest & -rest));
    hwy::GetChosenTarget().Update(rest & -rest);
    f();
  }
  hwy::GetChosenTarget().Update(here);
}

// Rows of outputs that end in short tiles, output channels that end in short panels.
TEST(KernelsConv, direct_follows_the_definition) {
  std::vector<ConvShape> shapes(std::begin(kShapes), std::end(kShapes));
  for (int64_t out : {1, 5, 16, 17, 33, 48, 70}) shapes.push_back(shape(2, 2, 3, out, 1, 15, 3, 1, 1, 1));
  shapes.push_back(shape(1, 3, 4, 20, 1, 29, 5, 2, 2, 1));
  shapes.push_back(shape(2, 1, 3, 20, 1, 13, 3, 2, 2, 2));
  shapes.push_back(shape(3, 1, 2, 9, 1, 6, 3, 1, 1, 1));
  std::erase_if(shapes, [](const ConvShape& s) { return !DirectConv::fits(s); });
  EXPECT_GE(shapes.size(), 14u);
  on_every_target([&] {
    for (const ConvShape& s : shapes) {
      SCOPED_TRACE(&s - shapes.data());
      follows_the_definition<DirectConv>(s, {Activation::relu, Activation::hardswish});
    }
  });
}

// Odd and even sizes, paddings up to the whole kernel, an image smaller than a tile.
TEST(KernelsConv, winograd_follows_the_definition) {
  on_every_target([] {
    for (int64_t out : {16, 32, 48})
      for (int64_t size : {1, 2, 3, 5, 8, 13})
        for (int64_t padding : {0, 1, 2}) {
          if (size + 2 * padding < 3) continue;
          SCOPED_TRACE(std::to_string(out) + " " + std::to_string(size) + " " + std::to_string(padding));
          const ConvShape s = shape(2, 3, out == 16 ? 32 : 16, out, 1, size, 3, 1, padding, 1);
          ASSERT_TRUE(WinogradConv::fits(s, Activation::relu));
          follows_the_definition<WinogradConv>(s, {Activation::relu});
        }
  });
  EXPECT_FALSE(WinogradConv::fits(shape(2, 1, 16, 16, 1, 8, 3, 2, 1, 1), Activation::none));
  EXPECT_FALSE(WinogradConv::fits(shape(2, 1, 16, 16, 1, 8, 3, 1, 1, 2), Activation::none));
  EXPECT_FALSE(WinogradConv::fits(shape(2, 1, 16, 16, 2, 8, 3, 1, 1, 1), Activation::none));
  EXPECT_FALSE(WinogradConv::fits(shape(2, 1, 8, 16, 1, 8, 3, 1, 1, 1), Activation::none));
  EXPECT_FALSE(WinogradConv::fits(shape(2, 1, 16, 16, 1, 8, 3, 1, 1, 1), Activation::gelu));
}

TEST(KernelsConv, prepared_convolution_fuses_bias_residual_and_activation) {
  for (auto layout : {PreparedConv::Layout::channels_first, PreparedConv::Layout::channels_last}) {
    const ConvShape s = shape(2, 2, 3, 16, 1, 8, 3, 1, 1, 1);
    const Count n = count(s);
    const auto x = values<float>(n.x, 1), w = values<float>(n.w, 2), b = values<float>(16, 3),
               r = values<float>(n.y, 4);
    std::vector<float> want(n.y), got(n.y), x_in(x), r_in(r);
    conv_forward(kFloat, s, x.data(), w.data(), b.data(), want.data());
    for (int64_t i = 0; i < n.y; ++i) want[i] = std::max(0.0f, want[i] + r[i]);
    const bool last = layout == PreparedConv::Layout::channels_last;
    if (last)
      x_in = permute(x, 2, 3, n.x / 6), r_in = permute(r, 2, 16, n.y / 32),
      want = permute(want, 2, 16, n.y / 32);
    PreparedConv conv(s, w.data(), b.data(), Activation::relu, true, layout);
    for (int round = 0; round < 2; ++round) {
      conv.run(x_in.data(), r_in.data(), got.data());
      for (int64_t i = 0; i < n.y; ++i) ASSERT_NEAR(got[i], want[i], 1e-4) << i;
    }
  }
}

TEST(KernelsConv, prepared_convolution_with_every_activation) {
  // Dense, and one filter a channel with a step of two: the library underneath has code of its own for each.
  for (const ConvShape& s : {shape(2, 2, 3, 16, 1, 8, 3, 1, 1, 1), shape(2, 2, 32, 32, 32, 16, 3, 2, 1, 1)})
    for (Activation act :
         {Activation::relu, Activation::gelu, Activation::silu, Activation::tanh, Activation::gelu_tanh,
          Activation::sigmoid, Activation::hardswish, Activation::relu6})
      for (auto layout : {PreparedConv::Layout::channels_first, PreparedConv::Layout::channels_last}) {
        const Count n = count(s);
        auto x = values<float>(n.x, 1);
        const auto w = values<float>(n.w, 2), b = values<float>(s.out_channels, 3);
        std::vector<float> want(n.y), got(n.y);
        conv_forward(kFloat, s, x.data(), w.data(), b.data(), want.data());
        activate(act, want.data(), n.y);
        if (layout == PreparedConv::Layout::channels_last)
          x = permute(x, 2, s.in_channels, n.x / (2 * s.in_channels)),
          want = permute(want, 2, s.out_channels, n.y / (2 * s.out_channels));
        PreparedConv conv(s, w.data(), b.data(), act, false, layout);
        conv.run(x.data(), nullptr, got.data());
        for (int64_t i = 0; i < n.y; ++i)
          ASSERT_NEAR(got[i], want[i], 1e-4)
              << i << ", activation " << static_cast<int>(act) << ", " << s.groups << " groups";
      }
}

TEST(KernelsConv, empty_batches_and_bad_groups) {
  ConvShape s = shape(2, 0, 3, 4, 1, 8, 3, 1, 1, 1);
  float w[3 * 4 * 9] = {}, grad[3 * 4 * 9];
  std::fill(std::begin(grad), std::end(grad), 1.0f);
  conv_forward(kFloat, s, nullptr, w, nullptr, nullptr);
  conv_backward_weight(kFloat, s, nullptr, nullptr, grad);
  EXPECT_EQ(grad[5], 0);
  s.groups = 2;
  try {
    conv_forward(kFloat, s, nullptr, w, nullptr, nullptr);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("groups"), std::string::npos);
  }
}

}  // namespace
}  // namespace tern::kernels
