// The pointwise halves of the cells with their gradients, and a whole layer in one kernel.
#include "tern/ops/rnn/cells.h"

#include <cmath>

#include "tern/base/format.h"
#include "tern/dispatch/grad_context.h"
#include "tern/dispatch/pointwise.h"
#include "tern/kernels/gemm.h"
#include "tern/kernels/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"
#include "tern/ops/rnn.args.h"

namespace tern {

std::vector<Tensor> split_gates(const Tensor& gates, int64_t n, int64_t dim) {
  std::vector<Tensor> parts;
  if (dim >= 0 && dim < gates.dim()) parts = gates.chunk(n, dim);
  if (static_cast<int64_t>(parts.size()) != n)
    failf("expected gates that divide into {} parts along dim {}, got gates of size {}", n, dim,
          str(gates.sizes()));
  return parts;
}

namespace {

// The vector loops of a compute type.
struct Curves {
  kernels::Loop sigmoid_loop, tanh_loop;
  explicit Curves(DType d)
      : sigmoid_loop(kernels::find_loop("sigmoid", d)), tanh_loop(kernels::find_loop("tanh", d)) {}
  template <class T>
  void sigmoid(T* x, int64_t n) const {
    run(sigmoid_loop, x, x, n);
  }
  template <class T>
  void tanh(const T* x, T* y, int64_t n) const {
    run(tanh_loop, x, y, n);
  }

 private:
  static void run(kernels::Loop loop, const void* x, void* y, int64_t n) {
    const void* in[] = {x};
    void* out[] = {y};
    loop(in, out, n, nullptr);
  }
};

// gates: i, f, g, o of H each, not yet bent; after it they are. cx and cy, and likewise hy, may be the same
// memory.
template <class T>
void lstm_row(const Curves& curves, int64_t H, T* gates, const T* cx, T* cy, T* hy) {
  curves.sigmoid(gates, 2 * H);
  curves.tanh(gates + 2 * H, gates + 2 * H, H);
  curves.sigmoid(gates + 3 * H, H);
  const T *i = gates, *f = gates + H, *g = gates + 2 * H, *o = gates + 3 * H;
  for (int64_t k = 0; k < H; ++k) cy[k] = f[k] * cx[k] + i[k] * g[k];
  curves.tanh(cy, hy, H);
  for (int64_t k = 0; k < H; ++k) hy[k] *= o[k];
}
// x and h: the products of r, z, n; x gets r, z, n.
template <class T>
void gru_row(const Curves& curves, int64_t H, T* x, const T* h, const T* hx, T* hy) {
  for (int64_t k = 0; k < 2 * H; ++k) x[k] += h[k];
  curves.sigmoid(x, 2 * H);
  T *r = x, *z = x + H, *n = x + 2 * H;
  for (int64_t k = 0; k < H; ++k) n[k] += r[k] * h[2 * H + k];
  curves.tanh(n, n, H);
  for (int64_t k = 0; k < H; ++k) hy[k] = (hx[k] - n[k]) * z[k] + n[k];
}

template <class F>
void by_compute_type(const char* op, DType d, F&& f) {
  if (!is_floating(d) || is_float8(d)) not_implemented_for(op, d);
  if (d == kDouble)
    f(double{});
  else
    f(float{});
}

// Outputs in the compute type; `store` brings them home.
struct Results {
  explicit Results(Out out, DType compute) : out(out) {
    for (const Tensor& t : out)
      mine.push_back(
          t.defined() && t.dtype() == compute && t.is_contiguous() ? t : make_tensor(t.sizes(), compute));
  }
  template <class T>
  T* data(size_t i) {
    return static_cast<T*>(mine[i].data());
  }
  void store() {
    for (size_t i = 0; i < mine.size(); ++i)
      if (!mine[i].is_same(out[i])) copy_elements(mine[i], out[i]);
  }
  Out out;
  std::vector<Tensor> mine;
};

Dims rows_of(const Tensor& like, SymInt width) {
  Dims sizes(like.sizes());
  sizes.back() = width;
  return sizes;
}
void check_gates(const char* op, const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& state,
                 int64_t n) {
  if (input_gates.dim() != 2 || hidden_gates.dim() != 2 || state.dim() != 2)
    failf("{}: expected gates and state of two dimensions", op);
  for (int64_t d = 0; d < 2; ++d)
    if (input_gates.size(d) != hidden_gates.size(d))
      failf("{}: the gates have sizes {} and {}", op, str(input_gates.sizes()), str(hidden_gates.sizes()));
  if (state.size(0) != input_gates.size(0) || state.size(1) * n != input_gates.size(1))
    failf("{}: gates of {} do not fit a state of {}", op, str(input_gates.sizes()), str(state.sizes()));
}

template <class T>
void add_biases(T* gates, int64_t width, const Tensor& a, const Tensor& b) {
  for (const Tensor* t : {&a, &b})
    if (t->defined())
      for (int64_t k = 0; k < width; ++k) gates[k] += static_cast<const T*>(t->data())[k];
}
Tensor dense(const Tensor& t, DType d) { return t.defined() ? row_major(t, d) : t; }

}  // namespace

// ---- LSTM ----

namespace {

void check_bias(const char* op, const Tensor& bias, const Tensor& gates) {
  if (bias.defined() && (bias.dim() != 1 || !(bias.size(0) == gates.size(1))))
    failf("{}: expected a bias of size [{}], got {}", op, gates.size(1).str(), str(bias.sizes()));
}
// Tensors of a cell's backward pass: `t` is [rows, parts · width of the state].
void check_rows(const char* op, const Tensor& t, const Tensor& state, int64_t parts) {
  if (!t.defined()) return;
  if (state.dim() != 2 || t.dim() != 2 || !(t.size(0) == state.size(0)) ||
      !(t.size(1) == state.size(1) * parts))
    failf("{}: a tensor of size {} does not fit a state of size {}", op, str(t.sizes()), str(state.sizes()));
}

}  // namespace

Shapes shape__thnn_fused_lstm_cell(const args::_thnn_fused_lstm_cell& a) {
  check_gates("_thnn_fused_lstm_cell", a.input_gates, a.hidden_gates, a.cx, 4);
  check_bias("_thnn_fused_lstm_cell", a.input_bias, a.input_gates);
  check_bias("_thnn_fused_lstm_cell", a.hidden_bias, a.input_gates);
  return {Shape(a.cx.sizes(), a.cx.dtype()), Shape(a.cx.sizes(), a.cx.dtype()),
          Shape(a.input_gates.sizes(), a.cx.dtype())};
}
void kernel__thnn_fused_lstm_cell(const args::_thnn_fused_lstm_cell& a, Out out) {
  const int64_t rows = a.cx.int_sizes()[0], H = a.cx.int_sizes()[1];
  by_compute_type("_thnn_fused_lstm_cell", a.cx.dtype(), [&]<class T>(T) {
    const DType d = dtype_of<T>;
    Tensor x = row_major(a.input_gates, d), h = row_major(a.hidden_gates, d), c = row_major(a.cx, d);
    Tensor b1 = dense(a.input_bias, d), b2 = dense(a.hidden_bias, d);
    Results r(out, d);
    const Curves curves(d);
    parallel_for(0, rows, std::max<int64_t>(1, 4096 / (H + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* gates = r.data<T>(2) + row * 4 * H;
        const T *from_x = static_cast<const T*>(x.data()) + row * 4 * H,
                *from_h = static_cast<const T*>(h.data()) + row * 4 * H;
        for (int64_t k = 0; k < 4 * H; ++k) gates[k] = from_x[k] + from_h[k];
        add_biases(gates, 4 * H, b1, b2);
        lstm_row(curves, H, gates, static_cast<const T*>(c.data()) + row * H, r.data<T>(1) + row * H,
                 r.data<T>(0) + row * H);
      }
    });
    r.store();
  });
}

Shapes shape__thnn_fused_lstm_cell_backward_impl(const args::_thnn_fused_lstm_cell_backward_impl& a) {
  const char* op = "_thnn_fused_lstm_cell_backward";
  check_rows(op, a.workspace, a.cx, 4);
  for (const Tensor* t : {&a.grad_hy, &a.grad_cy, &a.cy}) check_rows(op, *t, a.cx, 1);
  SymInt width = a.has_bias ? a.workspace.size(1) : SymInt(0);
  return {Shape(a.workspace.sizes(), a.workspace.dtype()), Shape(a.cx.sizes(), a.cx.dtype()),
          Shape(Dims({width}), a.workspace.dtype())};
}
void kernel__thnn_fused_lstm_cell_backward_impl(const args::_thnn_fused_lstm_cell_backward_impl& a, Out out) {
  const int64_t rows = a.cx.int_sizes()[0], H = a.cx.int_sizes()[1];
  by_compute_type("_thnn_fused_lstm_cell_backward", a.cx.dtype(), [&]<class T>(T) {
    const DType d = dtype_of<T>;
    Tensor gh = dense(a.grad_hy, d), gc = dense(a.grad_cy, d), cx = row_major(a.cx, d),
           cy = row_major(a.cy, d), w = row_major(a.workspace, d);
    Results r(out, d);
    const Curves curves(d);
    parallel_for(0, rows, std::max<int64_t>(1, 4096 / (H + 1)), [&](int64_t begin, int64_t end) {
      std::vector<T> bent(static_cast<size_t>(H));
      for (int64_t row = begin; row < end; ++row) {
        const T *i = static_cast<const T*>(w.data()) + row * 4 * H, *f = i + H, *g = f + H, *o = g + H;
        const T* c = static_cast<const T*>(cx.data()) + row * H;
        curves.tanh(static_cast<const T*>(cy.data()) + row * H, bent.data(), H);
        T *gi = r.data<T>(0) + row * 4 * H, *gf = gi + H, *gg = gf + H, *go = gg + H,
          *gcx = r.data<T>(1) + row * H;
        for (int64_t k = 0; k < H; ++k) {
          T from_h = gh.defined() ? static_cast<const T*>(gh.data())[row * H + k] : T(0);
          T from_c = gc.defined() ? static_cast<const T*>(gc.data())[row * H + k] : T(0);
          T tc = bent[static_cast<size_t>(k)];
          T whole = from_c + from_h * o[k] * (1 - tc * tc);
          go[k] = from_h * tc * o[k] * (1 - o[k]);
          gi[k] = whole * g[k] * i[k] * (1 - i[k]);
          gf[k] = whole * c[k] * f[k] * (1 - f[k]);
          gg[k] = whole * i[k] * (1 - g[k] * g[k]);
          gcx[k] = whole * f[k];
        }
      }
    });
    if (a.has_bias) {
      T* sum = r.data<T>(2);
      std::fill(sum, sum + 4 * H, T(0));
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t k = 0; k < 4 * H; ++k) sum[k] += r.data<T>(0)[row * 4 * H + k];
    }
    r.store();
  });
}
CellGrads body__thnn_fused_lstm_cell_backward(const args::_thnn_fused_lstm_cell_backward& a) {
  auto [gates, cx, bias] =
      _thnn_fused_lstm_cell_backward_impl(a.grad_hy, a.grad_cy, a.cx, a.cy, a.workspace, a.has_bias);
  if (!a.has_bias) bias = Tensor();
  return {gates, gates, cx, bias, bias};
}
CellGrads body__thnn_differentiable_lstm_cell_backward(
    const args::_thnn_differentiable_lstm_cell_backward& a) {
  Tensor gates = a.input_gates + a.hidden_gates;
  if (a.input_bias.defined()) gates = gates + a.input_bias;
  if (a.hidden_bias.defined()) gates = gates + a.hidden_bias;
  std::vector<Tensor> g = split_gates(gates, 4, 1);
  Tensor i = sigmoid(g[0]), f = sigmoid(g[1]), n = tanh(g[2]), o = sigmoid(g[3]),
         bent = tanh(f * a.cx + i * n);
  Tensor whole = a.grad_cy, grad_o;
  if (a.grad_hy.defined()) {
    Tensor through = a.grad_hy * o * (1 - bent * bent);
    whole = whole.defined() ? whole + through : through;
    grad_o = a.grad_hy * bent * o * (1 - o);
  } else {
    grad_o = zeros_like(o);
  }
  Tensor grads =
      cat({whole * n * i * (1 - i), whole * a.cx * f * (1 - f), whole * i * (1 - n * n), grad_o}, 1);
  Tensor bias = a.input_bias.defined() ? grads.sum(Ints(0)) : Tensor();
  return {grads, grads, whole * f, bias, bias};
}
CellGrads lstm_cell_grads(GradContext& c, const Tensor& input_gates, const Tensor& hidden_gates,
                          const Tensor& cx, const Tensor& input_bias, const Tensor& hidden_bias,
                          const Tensor& cy, const Tensor& workspace) {
  Tensor gh = c.has_grad(0) ? c.grad(0) : Tensor(), gc = c.has_grad(1) ? c.grad(1) : Tensor();
  if (!gh.defined() && !gc.defined()) gh = c.grad(0);
  if (thread_state.grad_enabled)
    return _thnn_differentiable_lstm_cell_backward(gh, gc, input_gates, hidden_gates, input_bias, hidden_bias,
                                                   cx, cy);
  return _thnn_fused_lstm_cell_backward(gh, gc, cx, cy, workspace, input_bias.defined());
}

// ---- GRU: the workspace holds r, z, n, hx and the hidden product of n ----

Shapes shape__thnn_fused_gru_cell(const args::_thnn_fused_gru_cell& a) {
  check_gates("_thnn_fused_gru_cell", a.input_gates, a.hidden_gates, a.hx, 3);
  check_bias("_thnn_fused_gru_cell", a.input_bias, a.input_gates);
  check_bias("_thnn_fused_gru_cell", a.hidden_bias, a.input_gates);
  return {Shape(a.hx.sizes(), a.hx.dtype()), Shape(rows_of(a.hx, a.hx.size(1) * 5), a.hx.dtype())};
}
void kernel__thnn_fused_gru_cell(const args::_thnn_fused_gru_cell& a, Out out) {
  const int64_t rows = a.hx.int_sizes()[0], H = a.hx.int_sizes()[1];
  by_compute_type("_thnn_fused_gru_cell", a.hx.dtype(), [&]<class T>(T) {
    const DType d = dtype_of<T>;
    Tensor x = row_major(a.input_gates, d), h = row_major(a.hidden_gates, d), hx = row_major(a.hx, d);
    Tensor b1 = dense(a.input_bias, d), b2 = dense(a.hidden_bias, d);
    Results r(out, d);
    const Curves curves(d);
    parallel_for(0, rows, std::max<int64_t>(1, 4096 / (H + 1)), [&](int64_t begin, int64_t end) {
      std::vector<T> hidden(static_cast<size_t>(3 * H));
      for (int64_t row = begin; row < end; ++row) {
        T* work = r.data<T>(1) + row * 5 * H;
        const T *from_x = static_cast<const T*>(x.data()) + row * 3 * H,
                *from_h = static_cast<const T*>(h.data()) + row * 3 * H,
                *state = static_cast<const T*>(hx.data()) + row * H;
        std::copy(from_x, from_x + 3 * H, work);
        std::copy(from_h, from_h + 3 * H, hidden.data());
        add_biases(work, 3 * H, b1, Tensor());
        add_biases(hidden.data(), 3 * H, b2, Tensor());
        std::copy(state, state + H, work + 3 * H);
        std::copy(hidden.data() + 2 * H, hidden.data() + 3 * H, work + 4 * H);
        gru_row(curves, H, work, hidden.data(), state, r.data<T>(0) + row * H);
      }
    });
    r.store();
  });
}
Shapes shape__thnn_fused_gru_cell_backward(const args::_thnn_fused_gru_cell_backward& a) {
  check_rows("_thnn_fused_gru_cell_backward", a.workspace, a.grad_hy, 5);
  DType d = a.workspace.dtype();
  SymInt H = floor_div(a.workspace.size(1), 5);
  Dims gates = rows_of(a.workspace, H * 3), bias = {a.has_bias ? H * 3 : SymInt(0)};
  return {Shape(gates, d), Shape(gates, d), Shape(a.grad_hy.sizes(), d), Shape(bias, d), Shape(bias, d)};
}
void kernel__thnn_fused_gru_cell_backward(const args::_thnn_fused_gru_cell_backward& a, Out out) {
  const int64_t rows = a.workspace.int_sizes()[0], H = a.workspace.int_sizes()[1] / 5;
  by_compute_type("_thnn_fused_gru_cell_backward", a.workspace.dtype(), [&]<class T>(T) {
    const DType d = dtype_of<T>;
    Tensor grad = row_major(a.grad_hy, d), w = row_major(a.workspace, d);
    Results r_(out, d);
    for (int64_t row = 0; row < rows; ++row) {
      const T *r = static_cast<const T*>(w.data()) + row * 5 * H, *z = r + H, *n = z + H, *hx = n + H,
              *hn = hx + H;
      const T* g = static_cast<const T*>(grad.data()) + row * H;
      T *x = r_.data<T>(0) + row * 3 * H, *h = r_.data<T>(1) + row * 3 * H, *ghx = r_.data<T>(2) + row * H;
      for (int64_t k = 0; k < H; ++k) {
        T gn = g[k] * (1 - z[k]) * (1 - n[k] * n[k]);
        x[k] = h[k] = gn * hn[k] * r[k] * (1 - r[k]);
        x[H + k] = h[H + k] = g[k] * (hx[k] - n[k]) * z[k] * (1 - z[k]);
        x[2 * H + k] = gn;
        h[2 * H + k] = gn * r[k];
        ghx[k] = g[k] * z[k];
      }
    }
    if (a.has_bias)
      for (size_t which = 0; which < 2; ++which) {
        T *sum = r_.data<T>(3 + which), *from = r_.data<T>(which);
        std::fill(sum, sum + 3 * H, T(0));
        for (int64_t row = 0; row < rows; ++row)
          for (int64_t k = 0; k < 3 * H; ++k) sum[k] += from[row * 3 * H + k];
      }
    r_.store();
  });
}
CellGrads body__thnn_differentiable_gru_cell_backward(const args::_thnn_differentiable_gru_cell_backward& a) {
  Tensor in = a.input_bias.defined() ? a.input_gates + a.input_bias : a.input_gates;
  Tensor hidden = a.hidden_bias.defined() ? a.hidden_gates + a.hidden_bias : a.hidden_gates;
  std::vector<Tensor> x = split_gates(in, 3, 1), h = split_gates(hidden, 3, 1);
  Tensor r = sigmoid(x[0] + h[0]), z = sigmoid(x[1] + h[1]), n = tanh(x[2] + r * h[2]);
  Tensor gn = a.grad_hy * (1 - z) * (1 - n * n);
  Tensor gr = gn * h[2] * r * (1 - r), gz = a.grad_hy * (a.hx - n) * z * (1 - z);
  Tensor gx = cat({gr, gz, gn}, 1), gh = cat({gr, gz, gn * r}, 1);
  bool biased = a.input_bias.defined();
  return {gx, gh, a.grad_hy * z, biased ? gx.sum(Ints(0)) : Tensor(), biased ? gh.sum(Ints(0)) : Tensor()};
}
CellGrads gru_cell_grads(const Tensor& grad, const Tensor& input_gates, const Tensor& hidden_gates,
                         const Tensor& hx, const Tensor& input_bias, const Tensor& hidden_bias,
                         const Tensor& workspace) {
  if (thread_state.grad_enabled)
    return _thnn_differentiable_gru_cell_backward(grad, input_gates, hidden_gates, hx, input_bias,
                                                  hidden_bias);
  return _thnn_fused_gru_cell_backward(grad, workspace, input_bias.defined());
}

// ---- a layer ----

Shapes shape_mkldnn_rnn_layer(const args::mkldnn_rnn_layer& a) {
  DType d = a.input.dtype();
  return {Shape(rows_of(a.input, a.hidden_size), d), Shape(a.hx_.sizes(), d), Shape(a.cx_.sizes(), d),
          Shape(Dims({0}), d)};
}

namespace {

// C(rows, N) = A(rows, K)·Bᵀ + bias + residual; B is packed once for float.
template <class T>
struct Product {
  Product(const T* b, int64_t K_, int64_t N_) : B(b), K(K_), N(N_) {
    if constexpr (std::is_same_v<T, float>) packed = kernels::pack_b(true, K, N, b, K);
  }
  void operator()(int64_t rows, const T* a, const T* bias, const T* residual, T* c) const {
    if constexpr (std::is_same_v<T, float>) {
      kernels::Epilogue e;
      e.bias = bias, e.residual = residual, e.ld_residual = N;
      kernels::gemm_packed(rows, a, K, packed, c, N, e);
    } else {
      kernels::gemm(dtype_of<T>, false, true, rows, N, K, 1, a, K, B, K, 0, c, N);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t k = 0; k < N; ++k)
          c[r * N + k] += (bias ? bias[k] : 0) + (residual ? residual[r * N + k] : 0);
    }
  }
  const T* B;
  int64_t K, N;
  kernels::PackedB packed;
};

template <class T>
void run_layer(const args::mkldnn_rnn_layer& a, Cell cell, Out out) {
  const DType d = dtype_of<T>;
  Tensor x = row_major(a.input), w_ih = row_major(a.weight0), w_hh = row_major(a.weight1);
  const int64_t H = a.hidden_size, I = w_ih.int_sizes()[1], G = w_ih.int_sizes()[0];
  const int64_t batch = a.hx_.int_sizes()[0], total = x.int_numel() / std::max<int64_t>(I, 1);
  const bool padded = a.batch_sizes.empty();
  const int64_t steps = padded ? x.int_sizes()[0] : static_cast<int64_t>(a.batch_sizes.size());
  Tensor b_ih = a.has_biases ? row_major(a.weight2) : Tensor(),
         b_hh = a.has_biases ? row_major(a.weight3) : Tensor();
  auto values = [](const Tensor& t) { return t.defined() ? static_cast<const T*>(t.data()) : nullptr; };

  // The state rows of sequences that have not begun, or have ended, stay as they are.
  Results r(out, d);
  T *output = r.data<T>(0), *h = r.data<T>(1), *c = r.data<T>(2);
  copy_elements(a.hx_, r.mine[1]);
  copy_elements(a.cx_, r.mine[2]);

  std::vector<T> products(static_cast<size_t>(total * G)), both;
  const T* bias = values(b_ih);
  if (a.has_biases && cell != Cell::gru) {
    both.assign(bias, bias + G);
    for (int64_t k = 0; k < G; ++k) both[static_cast<size_t>(k)] += values(b_hh)[k];
    bias = both.data();
  }
  Product<T>(values(w_ih), I, G)(total, values(x), bias, nullptr, products.data());
  const Product<T> recur(values(w_hh), H, G);
  std::vector<int64_t> begin(static_cast<size_t>(steps) + 1, 0);
  for (int64_t t = 0; t < steps; ++t)
    begin[static_cast<size_t>(t) + 1] =
        begin[static_cast<size_t>(t)] + (padded ? batch : a.batch_sizes[static_cast<size_t>(t)]);

  const Curves curves(d);
  std::vector<T> gates(static_cast<size_t>(batch * G));
  for (int64_t i = 0; i < steps; ++i) {
    const size_t t = static_cast<size_t>(a.reverse ? steps - 1 - i : i);
    const int64_t rows = begin[t + 1] - begin[t];
    T* from = products.data() + begin[t] * G;
    T* to = output + begin[t] * H;
    recur(rows, h, cell == Cell::gru ? values(b_hh) : nullptr, cell == Cell::gru ? nullptr : from,
          gates.data());
    parallel_for(0, rows, std::max<int64_t>(1, 8192 / (H + 1)), [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) {
        T* g = gates.data() + b * G;
        T* state = h + b * H;
        if (cell == Cell::lstm)
          lstm_row(curves, H, g, c + b * H, c + b * H, state);
        else if (cell == Cell::gru)
          gru_row(curves, H, from + b * G, g, state, state);
        else if (cell == Cell::tanh)
          curves.tanh(g, state, H);
        else
          for (int64_t k = 0; k < H; ++k) state[k] = g[k] > 0 || g[k] != g[k] ? g[k] : T(0);
        std::copy(state, state + H, to + b * H);
      }
    });
  }
  r.store();
}

}  // namespace

void kernel_mkldnn_rnn_layer(const args::mkldnn_rnn_layer& a, Out out) {
  const int64_t expected[] = {1, 1, 4, 3};
  if (a.mode < 0 || a.mode > 3) failf("mkldnn_rnn_layer: mode {} is none of 0 to 3", a.mode);
  const int64_t gates = expected[a.mode] * a.hidden_size;
  auto is = [](const Tensor& t, int64_t rows, int64_t columns) {
    return t.dim() == 2 && t.int_sizes()[0] == rows && t.int_sizes()[1] == columns;
  };
  const int64_t features = a.input.dim() ? a.input.int_sizes()[a.input.dim() - 1] : 0;
  const bool padded = a.batch_sizes.empty();
  if (a.input.dim() != (padded ? 3 : 2))
    failf("RNN: input must have {} dimensions, got {}", padded ? 3 : 2, a.input.dim());
  if (!is(a.weight0, gates, features))
    failf("RNN: weight_ih must be [{}, {}] for this input, got {}", gates, features, str(a.weight0.sizes()));
  if (!is(a.weight1, gates, a.hidden_size))
    failf("RNN: weight_hh must be [{}, {}] for this hidden state, got {}", gates, a.hidden_size,
          str(a.weight1.sizes()));
  if (a.has_biases && (a.weight2.int_numel() != gates || a.weight3.int_numel() != gates))
    failf("RNN: biases must have {} elements", gates);
  const int64_t batch = padded ? a.input.int_sizes()[1] : a.batch_sizes[0];
  if (!is(a.hx_, batch, a.hidden_size))
    failf("Expected hidden size [{}, {}], got {}", batch, a.hidden_size, str(a.hx_.sizes()));
  if (a.mode == 2 && !is(a.cx_, batch, a.hidden_size))
    failf("Expected cell size [{}, {}], got {}", batch, a.hidden_size, str(a.cx_.sizes()));
  for (const Tensor* t : {&a.weight0, &a.weight1, &a.hx_, &a.cx_})
    if (t->dtype() != a.input.dtype()) fail("RNN: input, weights and states must have the same dtype");
  if (a.input.dtype() == kDouble)
    run_layer<double>(a, static_cast<Cell>(a.mode), out);
  else if (a.input.dtype() == kFloat)
    run_layer<float>(a, static_cast<Cell>(a.mode), out);
  else
    not_implemented_for("mkldnn_rnn_layer", a.input.dtype());
}

}  // namespace tern
