// The float path is oneDNN's; the rest unfolds patches into a matrix. A transposed convolution is the
// gradient of a convolution with the roles of x and y exchanged, and is computed as that.
#include "tern/kernels/conv.h"

#include <dnnl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tern/base/format.h"
#include "tern/base/parallel.h"
#include "tern/base/wrapping.h"
#include "tern/kernels/conv_direct.h"
#include "tern/kernels/conv_winograd.h"
#include "tern/kernels/late.h"
#include "tern/kernels/pointwise.h"
#include "tern/kernels/reduce.h"

namespace tern::kernels {
namespace {

struct Geometry {  // of a convolution that is not transposed
  int dims;
  int64_t batch, in, out, groups;
  int64_t x[3], y[3], kernel[3], stride[3], padding[3], dilation[3];
  int64_t channels_last, weight_last;  // flags; without gaps, because the bytes are a key

  int64_t x_volume() const { return x[0] * x[1] * x[2]; }
  int64_t y_volume() const { return y[0] * y[1] * y[2]; }
  int64_t kernel_volume() const { return kernel[0] * kernel[1] * kernel[2]; }
};

Geometry geometry(const ConvShape& s) {
  if (s.dims < 1 || s.dims > 3)
    failf(ErrorKind::value, "convolution: expected 1 to 3 spatial dims, got {}", s.dims);
  if (s.groups < 1 || s.in_channels % s.groups || s.out_channels % s.groups)
    failf(ErrorKind::value, "convolution: {} input and {} output channels do not divide into {} groups",
          s.in_channels, s.out_channels, s.groups);
  Geometry g{s.dims,    s.batch,   s.in_channels, s.out_channels, s.groups,        {1, 1, 1},    {1, 1, 1},
             {1, 1, 1}, {1, 1, 1}, {0, 0, 0},     {1, 1, 1},      s.channels_last, s.weight_last};
  for (int d = 0; d < s.dims; ++d) {
    if (s.stride[d] < 1 || s.dilation[d] < 1 || s.kernel[d] < 0)
      fail(ErrorKind::value, "convolution: stride and dilation must be positive");
    g.x[d] = s.in_size[d], g.y[d] = s.out_size(d), g.kernel[d] = s.kernel[d];
    g.stride[d] = s.stride[d], g.padding[d] = s.padding[d], g.dilation[d] = s.dilation[d];
  }
  if (s.transposed) {
    std::swap(g.in, g.out);
    std::swap(g.x, g.y);
  }
  return g;
}

enum class Direction : uint8_t { forward, input, weight };

// ---- oneDNN

void check(dnnl_status_t status, const char* what) {
  if (status != dnnl_success)
    failf(ErrorKind::internal, "oneDNN: {} failed with status {}", what, static_cast<int>(status));
}
dnnl_engine_t engine() {
  static const dnnl_engine_t e = [] {
    dnnl_engine_t made;
    check(ONEDNN(dnnl_engine_create)(&made, dnnl_cpu, 0), "creating the engine");
    return made;
  }();
  return e;
}
dnnl_stream_t stream() {
  struct Owner {
    dnnl_stream_t s = nullptr;
    Owner() {
      check(ONEDNN(dnnl_stream_create)(&s, engine(), dnnl_stream_default_flags), "creating a stream");
    }
    ~Owner() { ONEDNN(dnnl_stream_destroy)(s); }
  };
  thread_local Owner owner;
  return owner.s;
}

// oneDNN takes all threads there are, but waking them costs more than they save where the work is small.
double products(const Geometry& g) {
  return static_cast<double>(g.batch * g.y_volume() * g.out) *
         static_cast<double>(g.in / g.groups * g.kernel_volume());
}
constexpr double kWorthThreads = 4e6;  // some 70 microseconds of one core

struct Memory {
  dnnl_memory_t m = nullptr;
  Memory(const dnnl_memory_desc_t& md, const void* data) {
    check(ONEDNN(dnnl_memory_create)(&m, &md, engine(), const_cast<void*>(data)), "creating memory");
  }
  Memory(const Memory&) = delete;
  ~Memory() { ONEDNN(dnnl_memory_destroy)(m); }
};

// Buffers for reordered operands, kept by each thread.
float* workspace(int slot, size_t bytes) {
  thread_local std::vector<char> buffers[4];
  std::vector<char>& b = buffers[slot];
  if (b.size() < bytes + 64) b.resize(bytes + 64);
  return reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(b.data()) + 63) & ~uintptr_t{63});
}

void reorder(const dnnl_memory_desc_t& from_md, const void* from, const dnnl_memory_desc_t& to_md, void* to) {
  dnnl_primitive_desc_t pd;
  dnnl_primitive_t p;
  check(ONEDNN(dnnl_reorder_primitive_desc_create)(&pd, &from_md, engine(), &to_md, engine(), nullptr),
        "planning a reorder");
  const dnnl_status_t made = ONEDNN(dnnl_primitive_create)(&p, pd);
  ONEDNN(dnnl_primitive_desc_destroy)(pd);
  check(made, "creating a reorder");
  {
    Memory a(from_md, from), b(to_md, to);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, a.m}, {DNNL_ARG_TO, b.m}};
    const dnnl_status_t done = ONEDNN(dnnl_primitive_execute)(p, stream(), 2, args);
    ONEDNN(dnnl_stream_wait)(stream());
    ONEDNN(dnnl_primitive_destroy)(p);
    check(done, "a reorder");
  }
}

dnnl_memory_desc_t plain_image(const Geometry& g, bool of_x, bool channels_last) {
  dnnl_dims_t dims = {g.batch, of_x ? g.in : g.out}, strides = {};
  for (int d = 0; d < g.dims; ++d) dims[2 + d] = of_x ? g.x[d] : g.y[d];
  const int n = g.dims + 2;
  int64_t step = 1;
  if (channels_last) strides[1] = step, step *= dims[1];
  for (int d = n - 1; d >= (channels_last ? 2 : 0); --d) strides[d] = step, step *= dims[d];
  if (channels_last) strides[0] = step;
  dnnl_memory_desc_t md;
  check(ONEDNN(dnnl_memory_desc_init_by_strides)(&md, n, dims, dnnl_f32, strides), "describing an image");
  return md;
}
dnnl_memory_desc_t plain_weight(const Geometry& g, bool channels_last = false) {
  dnnl_dims_t dims = {}, strides = {};
  int n = 0;
  if (g.groups > 1) dims[n++] = g.groups;
  dims[n++] = g.out / g.groups;
  dims[n++] = g.in / g.groups;
  for (int d = 0; d < g.dims; ++d) dims[n++] = g.kernel[d];
  const int channels = n - g.dims - 1;
  int64_t step = 1;
  if (channels_last) strides[channels] = step, step *= dims[channels];
  for (int d = n - 1; d >= 0; --d)
    if (!channels_last || d != channels) strides[d] = step, step *= dims[d];
  dnnl_memory_desc_t md;
  check(ONEDNN(dnnl_memory_desc_init_by_strides)(&md, n, dims, dnnl_f32, strides), "describing a weight");
  return md;
}
dnnl_memory_desc_t any_layout(const dnnl_memory_desc_t& md) {
  dnnl_memory_desc_t any;
  check(ONEDNN(dnnl_memory_desc_init_by_tag)(&any, md.ndims, md.dims, md.data_type, dnnl_format_tag_any),
        "describing any layout");
  return any;
}

struct Primitive {
  dnnl_primitive_t p = nullptr;
  dnnl_memory_desc_t x, w, y, bias;  // the layouts it wants
  Primitive() = default;
  Primitive(const Primitive&) = delete;
  ~Primitive() {
    if (p) ONEDNN(dnnl_primitive_destroy)(p);
  }
};

struct Descs {
  dnnl_memory_desc_t x, w, y, bias;
};

// attr may be null; images in the layouts of `d` (any lets oneDNN choose).
void make_primitive(Primitive& out, const Geometry& g, Direction direction, const Descs& d, bool bias,
                    dnnl_primitive_attr_t attr) {
  dnnl_dims_t strides, dilates, padding, padding_end;
  for (int k = 0; k < g.dims; ++k) {
    strides[k] = g.stride[k], dilates[k] = g.dilation[k] - 1, padding[k] = padding_end[k] = g.padding[k];
    // A transposed convolution may ask for more output than the input reaches: the far side is padded to fit.
    const int64_t in = d.x.dims[k + 2], out = d.y.dims[k + 2], reach = g.dilation[k] * (g.kernel[k] - 1) + 1;
    if ((in + 2 * g.padding[k] - reach) / g.stride[k] + 1 != out)
      padding_end[k] = (out - 1) * g.stride[k] + reach - in - g.padding[k];
  }
  dnnl_convolution_desc_t forward;
  check(ONEDNN(dnnl_dilated_convolution_forward_desc_init)(
            &forward, dnnl_forward_training, dnnl_convolution_direct, &d.x, &d.w, bias ? &d.bias : nullptr,
            &d.y, strides, dilates, padding, padding_end),
        "describing a convolution");
  dnnl_primitive_desc_t pd = nullptr, hint = nullptr;
  check(ONEDNN(dnnl_primitive_desc_create)(&hint, &forward, direction == Direction::forward ? attr : nullptr,
                                           engine(), nullptr),
        "planning a convolution");
  dnnl_status_t status = dnnl_success;
  if (direction == Direction::forward) {
    pd = hint;
  } else {
    dnnl_convolution_desc_t backward;
    status = direction == Direction::input ? ONEDNN(dnnl_dilated_convolution_backward_data_desc_init)(
                                                 &backward, dnnl_convolution_direct, &d.x, &d.w, &d.y,
                                                 strides, dilates, padding, padding_end)
                                           : ONEDNN(dnnl_dilated_convolution_backward_weights_desc_init)(
                                                 &backward, dnnl_convolution_direct, &d.x, &d.w, nullptr,
                                                 &d.y, strides, dilates, padding, padding_end);
    if (status == dnnl_success)
      status = ONEDNN(dnnl_primitive_desc_create)(&pd, &backward, attr, engine(), hint);
    ONEDNN(dnnl_primitive_desc_destroy)(hint);
  }
  check(status, "planning a gradient of a convolution");
  auto query = [&](dnnl_query_t what) { return *ONEDNN(dnnl_primitive_desc_query_md)(pd, what, 0); };
  out.x = query(direction == Direction::input ? dnnl_query_diff_src_md : dnnl_query_src_md);
  out.w = query(direction == Direction::weight ? dnnl_query_diff_weights_md : dnnl_query_weights_md);
  out.y = query(direction == Direction::forward ? dnnl_query_dst_md : dnnl_query_diff_dst_md);
  status = ONEDNN(dnnl_primitive_create)(&out.p, pd);
  ONEDNN(dnnl_primitive_desc_destroy)(pd);
  check(status, "creating a convolution");
}

Descs any_descs(const Geometry& g) {
  Descs d{any_layout(plain_image(g, true, false)),
          any_layout(plain_weight(g)),
          any_layout(plain_image(g, false, false)),
          {}};
  dnnl_dims_t n = {g.out};
  check(ONEDNN(dnnl_memory_desc_init_by_tag)(&d.bias, 1, n, dnnl_f32, dnnl_a), "describing a bias");
  return d;
}

std::shared_ptr<const Primitive> cached(const Geometry& g, Direction direction, bool bias) {
  static std::mutex mutex;
  static auto* const cache = new std::map<std::string, std::shared_ptr<const Primitive>>;
  std::string key(reinterpret_cast<const char*>(&g.batch), sizeof(Geometry) - offsetof(Geometry, batch));
  key += static_cast<char>(g.dims);
  key += static_cast<char>(direction);
  key += static_cast<char>(bias);
  key += std::to_string(num_threads());
  std::lock_guard lock(mutex);
  if (auto found = cache->find(key); found != cache->end()) return found->second;
  if (cache->size() >= 1024) cache->clear();  // shapes can be without number: forget rather than grow
  auto made = std::make_shared<Primitive>();
  Descs d = any_descs(g);
  if (g.channels_last) d.x = plain_image(g, true, true), d.y = plain_image(g, false, true);
  make_primitive(*made, g, direction, d, bias, nullptr);
  return (*cache)[key] = made;
}

void float_conv(const Geometry& g, Direction direction, const float* x, const float* w, const float* bias,
                float* y) {
  const ThreadLimit limit(products(g) < kWorthThreads ? 1 : num_threads());
  const std::shared_ptr<const Primitive> primitive = cached(g, direction, bias != nullptr);
  const Primitive& p = *primitive;
  const dnnl_memory_desc_t x_md = plain_image(g, true, g.channels_last),
                           w_md = plain_weight(g, g.weight_last),
                           y_md = plain_image(g, false, g.channels_last);
  auto operand = [](int slot, const dnnl_memory_desc_t& plain, const dnnl_memory_desc_t& wanted,
                    const float* data, bool read) {
    if (ONEDNN(dnnl_memory_desc_equal)(&plain, &wanted)) return const_cast<float*>(data);
    float* buffer = workspace(slot, ONEDNN(dnnl_memory_desc_get_size)(&wanted));
    if (read) reorder(plain, data, wanted, buffer);
    return buffer;
  };
  float* px = operand(0, x_md, p.x, x, direction != Direction::input);
  float* pw = operand(1, w_md, p.w, w, direction != Direction::weight);
  float* py = operand(2, y_md, p.y, y, direction != Direction::forward);
  {
    Memory mx(p.x, px), mw(p.w, pw), my(p.y, py);
    const Descs d = any_descs(g);
    Memory mb(d.bias, bias);
    const bool fwd = direction == Direction::forward;
    dnnl_exec_arg_t args[4] = {
        {direction == Direction::input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, mx.m},
        {direction == Direction::weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, mw.m},
        {fwd ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, my.m},
        {DNNL_ARG_BIAS, mb.m}};
    check(ONEDNN(dnnl_primitive_execute)(p.p, stream(), bias ? 4 : 3, args), "a convolution");
    ONEDNN(dnnl_stream_wait)(stream());
  }
  if (direction == Direction::forward && py != y) reorder(p.y, py, y_md, y);
  if (direction == Direction::input && px != x) reorder(p.x, px, x_md, const_cast<float*>(x));
  if (direction == Direction::weight && pw != w) reorder(p.w, pw, w_md, const_cast<float*>(w));
}

// ---- unfolding, for every type that gemm has

// Calls f(patch row, output position, input position) for the positions inside x.
template <class F>
void each_patch(const Geometry& g, int64_t channels, F f) {
  const int64_t kv = g.kernel_volume(), yv = g.y_volume();
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t k = 0; k < kv; ++k) {
      const int64_t at[3] = {k / (g.kernel[1] * g.kernel[2]), k / g.kernel[2] % g.kernel[1], k % g.kernel[2]};
      for (int64_t o = 0; o < yv; ++o) {
        const int64_t out[3] = {o / (g.y[1] * g.y[2]), o / g.y[2] % g.y[1], o % g.y[2]};
        int64_t position = 0;
        bool inside = true;
        for (int d = 0; d < 3; ++d) {
          const int64_t i = out[d] * g.stride[d] - g.padding[d] + at[d] * g.dilation[d];
          inside &= i >= 0 && i < g.x[d];
          position = position * g.x[d] + i;
        }
        if (inside) f(c * kv + k, o, c * g.x_volume() + position);
      }
    }
}

template <class T>
void unfolded_conv(const Geometry& g, Direction direction, const T* x, const T* w, T* y) {
  const int64_t ci = g.in / g.groups, co = g.out / g.groups, kv = g.kernel_volume(), xv = g.x_volume(),
                yv = g.y_volume();
  std::vector<T> columns(static_cast<size_t>(ci * kv * yv));
  T* gx = const_cast<T*>(x);
  T* gw = const_cast<T*>(w);
  if (direction == Direction::input) std::fill_n(gx, g.batch * g.in * xv, T(0));
  if (direction == Direction::weight) std::fill_n(gw, g.out * ci * kv, T(0));
  for (int64_t b = 0; b < g.batch; ++b)
    for (int64_t group = 0; group < g.groups; ++group) {
      const int64_t xo = (b * g.groups + group) * ci * xv, yo = (b * g.groups + group) * co * yv,
                    wo = group * co * ci * kv;
      if (direction == Direction::input) {
        gemm(dtype_of<T>, true, false, ci * kv, yv, co, 1, w + wo, ci * kv, y + yo, yv, 0, columns.data(),
             yv);
        each_patch(g, ci, [&](int64_t row, int64_t o, int64_t i) {
          gx[xo + i] = wrapping_sum(gx[xo + i], columns[row * yv + o]);
        });
        continue;
      }
      std::fill(columns.begin(), columns.end(), T(0));
      each_patch(g, ci, [&](int64_t row, int64_t o, int64_t i) { columns[row * yv + o] = x[xo + i]; });
      if (direction == Direction::forward)
        gemm(dtype_of<T>, false, false, co, yv, ci * kv, 1, w + wo, ci * kv, columns.data(), yv, 0, y + yo,
             yv);
      else
        gemm(dtype_of<T>, false, true, co, ci * kv, yv, 1, y + yo, yv, columns.data(), yv, 1, gw + wo,
             ci * kv);
    }
}

// ---- both

struct Counts {
  int64_t x, w, y;
};
Counts counts(const Geometry& g) {
  return {g.batch * g.in * g.x_volume(), g.out * (g.in / g.groups) * g.kernel_volume(),
          g.batch * g.out * g.y_volume()};
}

void fill_zero(DType type, void* data, int64_t n) {
  std::memset(data, 0, static_cast<size_t>(n * element_size(type)));
}

void run_conv(DType type, const Geometry& g, Direction direction, const void* x, const void* w,
              const void* bias, void* y) {
  const Counts n = counts(g);
  const int64_t result = direction == Direction::forward ? n.y : direction == Direction::input ? n.x : n.w;
  void* out = direction == Direction::forward ? y : const_cast<void*>(direction == Direction::input ? x : w);
  if (result == 0) return;
  if (n.x == 0 || n.w == 0 || n.y == 0) return fill_zero(type, out, result);
  TERN_ASSERT(!(g.channels_last || g.weight_last) || compute_dtype(type) == kFloat);
  auto typed = [&]<class T>(T) {
    unfolded_conv<T>(g, direction, static_cast<const T*>(x), static_cast<const T*>(w), static_cast<T*>(y));
  };
  switch (type) {
    case DType::float32:
      return float_conv(g, direction, static_cast<const float*>(x), static_cast<const float*>(w),
                        static_cast<const float*>(bias), static_cast<float*>(y));
    case DType::float64:
      return typed(double{});
    case DType::complex64:
      return typed(std::complex<float>{});
    case DType::complex128:
      return typed(std::complex<double>{});
    case DType::uint8:
      return typed(uint8_t{});
    case DType::int8:
      return typed(int8_t{});
    case DType::int16:
      return typed(int16_t{});
    case DType::int32:
      return typed(int32_t{});
    case DType::int64:
      return typed(int64_t{});
    case DType::float16:
    case DType::bfloat16: {
      auto widened = [&](const void* from, int64_t count, bool read) {
        std::vector<float> to(static_cast<size_t>(count));
        if (read) find_cast(type, kFloat)(from, 1, to.data(), 1, count);
        return to;
      };
      std::vector<float> fx = widened(x, n.x, direction != Direction::input),
                         fw = widened(w, n.w, direction != Direction::weight),
                         fy = widened(y, n.y, direction != Direction::forward);
      std::vector<float> fb = bias ? widened(bias, g.out, true) : std::vector<float>();
      float_conv(g, direction, fx.data(), fw.data(), bias ? fb.data() : nullptr, fy.data());
      const std::vector<float>& from = direction == Direction::forward ? fy
                                       : direction == Direction::input ? fx
                                                                       : fw;
      return find_cast(kFloat, type)(from.data(), 1, out, 1, result);
    }
    default:
      failf(ErrorKind::not_supported, "convolution of {} is not supported; cast to float32 first",
            name(type));
  }
}

// y as [batch, channels, volume].
struct Planes {
  int64_t sizes[3], strides[3];
  explicit Planes(const ConvShape& s) {
    int64_t volume = 1;
    for (int d = 0; d < s.dims; ++d) volume *= s.out_size(d);
    sizes[0] = s.batch, sizes[1] = s.out_channels, sizes[2] = volume;
    strides[0] = s.out_channels * volume;
    strides[1] = s.channels_last ? 1 : volume, strides[2] = s.channels_last ? s.out_channels : 1;
  }
};

void add_bias(DType type, const ConvShape& s, const void* bias, void* y) {
  const Planes planes(s);
  const int64_t by_channel[] = {0, 1, 0};
  const Operand out{y, type, planes.strides}, ins[] = {out, {const_cast<void*>(bias), type, by_channel}};
  const DType t = compute_dtype(type);
  run_pointwise(find_loop("add", t), t, t, 3, planes.sizes, &out, 1, ins, 2, nullptr);
}

}  // namespace

void conv_forward(DType type, const ConvShape& s, const void* x, const void* weight, const void* bias,
                  void* y) {
  const Geometry g = geometry(s);
  const Counts n = counts(g);
  if (s.transposed) {
    run_conv(type, g, Direction::input, y, weight, nullptr, const_cast<void*>(x));
    if (bias) add_bias(type, s, bias, y);
    return;
  }
  const bool fused = compute_dtype(type) == kFloat && n.x && n.w;
  run_conv(type, g, Direction::forward, x, weight, fused ? bias : nullptr, y);
  if (bias && !fused) add_bias(type, s, bias, y);
}

void conv_backward_input(DType type, const ConvShape& s, const void* grad_y, const void* weight,
                         void* grad_x) {
  const Geometry g = geometry(s);
  s.transposed ? run_conv(type, g, Direction::forward, grad_y, weight, nullptr, grad_x)
               : run_conv(type, g, Direction::input, grad_x, weight, nullptr, const_cast<void*>(grad_y));
}

void conv_backward_weight(DType type, const ConvShape& s, const void* x, const void* grad_y,
                          void* grad_weight) {
  const Geometry g = geometry(s);
  s.transposed ? run_conv(type, g, Direction::weight, grad_y, grad_weight, nullptr, const_cast<void*>(x))
               : run_conv(type, g, Direction::weight, x, grad_weight, nullptr, const_cast<void*>(grad_y));
}

void conv_backward_bias(DType type, const ConvShape& s, const void* grad_y, void* grad_bias) {
  const Planes planes(s);
  const int64_t out[] = {0, 1, 0};
  reduce(Reduction::sum, {3, planes.sizes, planes.strides, out, 0b101}, type, grad_y, type, grad_bias);
}

// One way to do it, on so many threads.
struct PreparedConv::Way {
  explicit Way(int n) : threads(n) {}
  virtual ~Way() = default;
  virtual void run(const float* x, const float* residual, float* y) = 0;
  virtual bool run_images(const float*, const float*, float*, int64_t, int64_t) { return false; }  // cannot
  const int threads;
};

PreparedConv::PreparedConv(PreparedConv&&) noexcept = default;
PreparedConv& PreparedConv::operator=(PreparedConv&&) noexcept = default;
PreparedConv::~PreparedConv() = default;

namespace {

struct Eltwise {
  dnnl_alg_kind_t kind;
  float alpha, beta;
};
Eltwise eltwise_of(Activation activation) {
  switch (activation) {
    case Activation::none:
      break;
    case Activation::relu:
      return {dnnl_eltwise_relu, 0, 0};
    case Activation::gelu:
      return {dnnl_eltwise_gelu_erf, 0, 0};
    case Activation::gelu_tanh:
      return {dnnl_eltwise_gelu_tanh, 0, 0};
    case Activation::silu:
      return {dnnl_eltwise_swish, 1, 0};
    case Activation::sigmoid:
      return {dnnl_eltwise_logistic, 0, 0};
    case Activation::tanh:
      return {dnnl_eltwise_tanh, 0, 0};
    case Activation::hardswish:
      return {dnnl_eltwise_hardswish, 0, 0};
    case Activation::relu6:
      return {dnnl_eltwise_clip, 0, 6};
  }
  return {dnnl_alg_kind_undef, 0, 0};
}

// What oneDNN applies while it stores. Not hardswish on ARM64: with 2.6 and SVE of 512 bits (under qemu) its
// numbers were wrong.
Activation fused(Activation activation) {
#if defined(__aarch64__)
  if (activation == Activation::hardswish) return Activation::none;
#endif
  return activation;
}

// What is done to the sum before it is stored: + residual, activation.
struct Attributes {
  dnnl_primitive_attr_t attr = nullptr;
  Attributes(Activation activation, bool add_residual) {
    dnnl_post_ops_t ops;
    check(ONEDNN(dnnl_primitive_attr_create)(&attr), "creating attributes");
    check(ONEDNN(dnnl_post_ops_create)(&ops), "creating post-ops");
    if (add_residual) check(ONEDNN(dnnl_post_ops_append_sum)(ops, 1.0f), "adding a sum");
    if (activation != Activation::none) {
      const Eltwise e = eltwise_of(activation);
      check(ONEDNN(dnnl_post_ops_append_eltwise)(ops, 1.0f, e.kind, e.alpha, e.beta), "adding an activation");
    }
    check(ONEDNN(dnnl_primitive_attr_set_post_ops)(attr, ops), "setting post-ops");
    ONEDNN(dnnl_post_ops_destroy)(ops);
  }
  Attributes(const Attributes&) = delete;
  ~Attributes() { ONEDNN(dnnl_primitive_attr_destroy)(attr); }
};

}  // namespace

// By a class of ours: DirectConv or WinogradConv.
template <class Conv>
struct PreparedConv::Own final : Way {
  Conv conv;
  Own(const ConvShape& s, const float* weight, const float* bias, Activation activation, int n)
      : Way(n), conv(s, weight, bias, activation) {}
  void run(const float* x, const float* residual, float* y) override {
    run_images(x, residual, y, 0, conv.batch);
  }
  bool run_images(const float* x, const float* residual, float* y, int64_t begin, int64_t end) override {
    const ThreadLimit limit(threads);
    if (begin < end) conv.run(x, residual, y, begin, end);
    return true;
  }
};

struct PreparedConv::Library final : Way {
  Primitive primitive;
  dnnl_memory_desc_t x_plain, y_plain;
  std::unique_ptr<char[]> weight_memory;
  void* weight;
  std::vector<float> bias;
  dnnl_memory_desc_t bias_md;
  bool add_residual;
  Activation after = Activation::none;  // what is not fused
  size_t y_bytes;

  Library(const Geometry& g, const float* weight, const float* bias, dnnl_primitive_attr_t attr,
          bool residual, bool last, int n);
  void run(const float* x, const float* residual, float* y) override;
};

PreparedConv::Library::Library(const Geometry& g, const float* w, const float* b, dnnl_primitive_attr_t attr,
                               bool residual, bool last, int n)
    : Way(n), add_residual(residual) {
  const ThreadLimit limit(threads);
  x_plain = plain_image(g, true, last);
  y_plain = plain_image(g, false, last);
  Descs d = any_descs(g);
  if (last) d.x = x_plain, d.y = y_plain;
  bias_md = d.bias;
  if (b) bias.assign(b, b + g.out);
  make_primitive(primitive, g, Direction::forward, d, b != nullptr, attr);
  const size_t bytes = ONEDNN(dnnl_memory_desc_get_size)(&primitive.w);
  weight_memory = std::make_unique<char[]>(bytes + 64);
  weight = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(weight_memory.get()) + 63) & ~uintptr_t{63});
  reorder(plain_weight(g), w, primitive.w, weight);
  y_bytes = static_cast<size_t>(counts(g).y) * sizeof(float);
}

PreparedConv::PreparedConv(const ConvShape& s, const float* weight, const float* bias, Activation activation,
                           bool add_residual, Layout layout) {
  if (s.transposed)
    fail(ErrorKind::not_supported,
         "PreparedConv: transposed convolutions are not prepared; use conv_forward");
  const Geometry g = geometry(s);
  const Counts n = counts(g);
  if (!n.x || !n.y || !n.w)
    fail(ErrorKind::value, "PreparedConv: the convolution has an empty operand; use conv_forward");
  const bool last = layout == Layout::channels_last;
  const double work = products(g);
  const int threads = num_threads();
  std::vector<std::unique_ptr<Way>> ways;
  // What a convolution this small costs depends on the machine and on what else it does: tried out.
  auto try_own = [&]<class Conv>(bool fits, std::type_identity<Conv>) {
    if (!fits || !last || work >= kWorthThreads) return;
    ways.push_back(std::make_unique<Own<Conv>>(s, weight, bias, activation, 1));
    if (threads > 1 && work > kWorthThreads / 4)
      ways.push_back(std::make_unique<Own<Conv>>(s, weight, bias, activation, threads));
  };
  try_own(DirectConv::fits(s), std::type_identity<DirectConv>());
  try_own(WinogradConv::fits(s, activation), std::type_identity<WinogradConv>());
  if (ways.empty() || work > kWorthThreads / 4) {
    const Attributes attributes(fused(activation), add_residual);
    auto add = [&](int n) {
      auto way = std::make_unique<Library>(g, weight, bias, attributes.attr, add_residual, last, n);
      if (fused(activation) != activation) way->after = activation;
      ways.push_back(std::move(way));
    };
    if (work < kWorthThreads) add(1);
    if (work >= kWorthThreads || (threads > 1 && work > kWorthThreads / 4)) add(threads);
  }
  size_t best = 0;
  double least = 0;
  for (size_t i = 0; i < ways.size() && ways.size() > 1; ++i) {
    // Threads that wait for each other lose more to what else runs: they have to be worth it.
    const double time = seconds(*ways[i], static_cast<size_t>(n.x), static_cast<size_t>(n.y)) *
                        (ways[i]->threads > 1 ? 1.4 : 1.0);
    if (i == 0 || time < least) best = i, least = time;
  }
  way_ = std::move(ways[best]);
}

// The least of a few runs on zeros, the first not counted.
double PreparedConv::seconds(Way& way, size_t x_count, size_t y_count) {
  std::vector<float> x(x_count), y(y_count);
  way.run(x.data(), y.data(), y.data());
  double least = 1e9;
  for (int i = 0; i < 7; ++i) {
    const auto start = std::chrono::steady_clock::now();
    way.run(x.data(), y.data(), y.data());
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

void PreparedConv::run(const float* x, const float* residual, float* y) { way_->run(x, residual, y); }
bool PreparedConv::by_images() const { return way_->run_images(nullptr, nullptr, nullptr, 0, 0); }
void PreparedConv::run_images(const float* x, const float* residual, float* y, int64_t begin, int64_t end) {
  TERN_ASSERT(by_images());
  way_->run_images(x, residual, y, begin, end);
}

void PreparedConv::Library::run(const float* x, const float* residual, float* y) {
  const ThreadLimit limit(threads);
  const Primitive& p = primitive;
  float *px = const_cast<float*>(x), *py = y;
  if (!ONEDNN(dnnl_memory_desc_equal)(&x_plain, &p.x)) {
    px = workspace(0, ONEDNN(dnnl_memory_desc_get_size)(&p.x));
    reorder(x_plain, x, p.x, px);
  }
  const bool y_reordered = !ONEDNN(dnnl_memory_desc_equal)(&y_plain, &p.y);
  if (y_reordered) py = workspace(2, ONEDNN(dnnl_memory_desc_get_size)(&p.y));
  if (add_residual) {
    if (y_reordered)
      reorder(y_plain, residual, p.y, py);
    else if (residual != y)
      std::memcpy(y, residual, y_bytes);
  }
  {
    Memory mx(p.x, px), mw(p.w, weight), my(p.y, py), mb(bias_md, bias.data());
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, mx.m}, {DNNL_ARG_WEIGHTS, mw.m}, {DNNL_ARG_DST, my.m}, {DNNL_ARG_BIAS, mb.m}};
    check(ONEDNN(dnnl_primitive_execute)(p.p, stream(), bias.empty() ? 3 : 4, args), "a convolution");
    ONEDNN(dnnl_stream_wait)(stream());
  }
  if (y_reordered) reorder(p.y, py, y_plain, y);
  if (after != Activation::none)
    parallel_for(0, static_cast<int64_t>(y_bytes / sizeof(float)), 16384,
                 [&](int64_t begin, int64_t end) { activate(after, y + begin, end - begin); });
}

}  // namespace tern::kernels
