// Networks of recurrent layers. Three ways through one direction of a layer, the first that may be taken: one
// kernel (no gradients), fused cells (gradients), plain operators (somebody looks: exports show what
// PyTorch's decomposition shows).
#include <algorithm>

#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/rnn.args.h"
#include "tern/ops/rnn/cells.h"

namespace tern {
namespace {

struct Weights {
  Tensor w_ih, w_hh, b_ih, b_hh, w_hr;
};
struct Direction {
  Tensor output, h, c;
};
struct Network {
  Cell cell;
  const char* name;
  bool has_biases;
  int64_t num_layers;
  double dropout;
  bool train, bidirectional;
};

std::vector<Weights> weights_of(const Network& n, Span<const Tensor> params, bool projections) {
  const size_t step = 2 + (n.has_biases ? 2 : 0) + (projections ? 1 : 0);
  const size_t layers = static_cast<size_t>(n.num_layers * (n.bidirectional ? 2 : 1));
  if (n.num_layers < 1 || params.size() != step * layers)
    failf("{}: got an incorrect number of RNN parameters: {} for {} layers{} that have {} each", n.name,
          params.size(), n.num_layers, n.bidirectional ? " in two directions" : "", step);
  std::vector<Weights> all;
  for (size_t i = 0; i < params.size(); i += step) {
    Weights w{params[i], params[i + 1], {}, {}, {}};
    if (n.has_biases) w.b_ih = params[i + 2], w.b_hh = params[i + 3];
    if (projections) w.w_hr = params[i + step - 1];
    all.push_back(w);
  }
  return all;
}

// How the layers may be computed.
struct Way {
  bool plain = false;  // operators that an export may show
  bool kernel = false;
};
Way choose(const Tensor& input, Span<const Tensor> hidden, Span<const Tensor> params) {
  Way way;
  const unsigned looking = rung_record | rung_functional | rung_core;
  bool gradients = false, real = (thread_state.active & ~thread_state.excluded & looking) == 0;
  bool narrow = false;
  auto see = [&](const Tensor& t) {
    if (!t.defined()) return;
    real = real && !t.is_fake() && !(t->rungs & rung_functional);
    gradients = gradients || t.requires_grad();
    narrow = narrow || t.dtype() != input.dtype() || (t.dtype() != kFloat && t.dtype() != kDouble);
  };
  see(input);
  for (const Tensor& t : hidden) see(t);
  for (const Tensor& t : params) see(t);
  way.plain = !real;
  way.kernel = real && !narrow && !(gradients && thread_state.grad_enabled);
  return way;
}

Tensor both_biases(const Weights& w) { return w.b_ih.defined() ? w.b_ih + w.b_hh : Tensor(); }

// A step of the cell on whole operators, as PyTorch's decomposition writes it. `x` are the input's products.
void plain_step(Cell cell, const Tensor& x, const Weights& w, Tensor& h, Tensor& c) {
  int64_t last = h.dim() - 1;
  if (cell == Cell::gru) {
    std::vector<Tensor> in = split_gates(x, 3, x.dim() - 1),
                        hidden = split_gates(linear(h, w.w_hh, w.b_hh), 3, last);
    Tensor reset = sigmoid(hidden[0] + in[0]), update = sigmoid(hidden[1] + in[1]);
    Tensor fresh = tanh(in[2] + hidden[2] * reset);
    h = (h - fresh) * update + fresh;
    return;
  }
  Tensor gates = linear(h, w.w_hh, w.b_hh) + x;
  if (cell != Cell::lstm) {
    h = cell == Cell::tanh ? tanh(gates) : relu(gates);
    return;
  }
  std::vector<Tensor> g = split_gates(gates, 4, last);
  Tensor in = sigmoid(g[0]), forget = sigmoid(g[1]), fresh = tanh(g[2]), out = sigmoid(g[3]);
  c = forget * c + in * fresh;
  h = out * tanh(c);
  if (w.w_hr.defined()) h = matmul(h, w.w_hr.t());
}

Direction plain_direction(Cell cell, const Tensor& input, const Tensor& h0, const Tensor& c0,
                          const Weights& w, bool reverse) {
  Tensor h, c, x;
  auto products = [&] {
    x = linear(input, w.w_ih, w.b_ih);
    if (reverse) x = flip(x, {0});
  };
  if (cell != Cell::lstm) products();
  h = h0.unsqueeze(0);
  if (cell == Cell::lstm) {
    c = c0.unsqueeze(0);
    products();
  }
  std::vector<Tensor> steps = x.unbind(0), outputs;
  for (const Tensor& step : steps) {
    plain_step(cell, step, w, h, c);
    outputs.push_back(h);
  }
  if (reverse) std::reverse(outputs.begin(), outputs.end());
  Direction d{cat(outputs, 0), h.squeeze(0), {}};
  if (c.defined()) d.c = c.squeeze(0);
  return d;
}

// A step with the pointwise half in one kernel; x carries both biases, but for GRU the input's only.
void fused_step(Cell cell, const Tensor& x, const Weights& w, Tensor& h, Tensor& c) {
  if (cell == Cell::gru) {
    h = std::get<0>(_thnn_fused_gru_cell(x, linear(h, w.w_hh, w.b_hh), h));
  } else if (cell == Cell::lstm) {
    auto [next, cell_state, workspace] = _thnn_fused_lstm_cell(x, linear(h, w.w_hh), c);
    h = w.w_hr.defined() ? linear(next, w.w_hr) : next;
    c = cell_state;
  } else {
    Tensor gates = addmm(x, h, w.w_hh.t());
    h = cell == Cell::tanh ? tanh(gates) : relu(gates);
  }
}
Direction fused_direction(Cell cell, const Tensor& input, const Tensor& h0, const Tensor& c0,
                          const Weights& w, bool reverse) {
  Tensor x = linear(input, w.w_ih, cell == Cell::gru ? w.b_ih : both_biases(w));
  std::vector<Tensor> steps = x.unbind(0), outputs(steps.size());
  Tensor h = h0, c = c0;
  for (size_t i = 0; i < steps.size(); ++i) {
    size_t t = reverse ? steps.size() - 1 - i : i;
    fused_step(cell, steps[t], w, h, c);
    outputs[t] = h;
  }
  return {stack(outputs, 0), h, c};
}

// Sequences of different lengths, longest first: step t has batch_sizes[t] rows.
Direction packed_direction(Cell cell, const Tensor& data, Ints batch_sizes, const Tensor& h0,
                           const Tensor& c0, const Weights& w, bool reverse, bool plain) {
  bool fused = !plain;
  Tensor x = linear(data, w.w_ih, fused && cell != Cell::gru ? both_biases(w) : w.b_ih);
  std::vector<SymInt> rows;
  for (int64_t b : batch_sizes) rows.push_back(b);
  std::vector<Tensor> steps = split_with_sizes(x, rows, 0), outputs(steps.size()), done_h, done_c;
  auto step = [&](const Tensor& in, Tensor& h, Tensor& c) {
    if (fused)
      fused_step(cell, in, w, h, c);
    else
      plain_step(cell, in, w, h, c);
  };
  auto first = [](const Tensor& t, int64_t n) { return t.defined() ? t.narrow(0, 0, n) : t; };
  const size_t n = steps.size();
  Direction d;
  if (!reverse) {
    Tensor h = first(h0, batch_sizes[0]), c = first(c0, batch_sizes[0]);
    int64_t running = batch_sizes[0];
    for (size_t t = 0; t < n; ++t) {
      int64_t now = batch_sizes[t];
      if (now < running) {
        done_h.push_back(h.narrow(0, now, running - now));
        h = first(h, now);
        if (c.defined()) {
          done_c.push_back(c.narrow(0, now, running - now));
          c = first(c, now);
        }
        running = now;
      }
      step(steps[t], h, c);
      outputs[t] = h;
    }
    done_h.push_back(h);
    if (c.defined()) done_c.push_back(c);
    std::reverse(done_h.begin(), done_h.end());
    std::reverse(done_c.begin(), done_c.end());
    d.h = cat(done_h, 0);
    if (c.defined()) d.c = cat(done_c, 0);
  } else {
    int64_t running = batch_sizes[n - 1];
    Tensor h = first(h0, running), c = first(c0, running);
    for (size_t t = n; t-- > 0;) {
      int64_t now = batch_sizes[t];
      if (now > running) {
        h = cat({h, h0.narrow(0, running, now - running)}, 0);
        if (c.defined()) c = cat({c, c0.narrow(0, running, now - running)}, 0);
        running = now;
      }
      step(steps[t], h, c);
      outputs[t] = h;
    }
    d.h = h, d.c = c;
  }
  d.output = cat(outputs, 0);
  return d;
}

Direction kernel_direction(Cell cell, const Tensor& input, Ints batch_sizes, const Tensor& h0,
                           const Tensor& c0, const Weights& w, bool reverse) {
  auto [output, h, c, workspace] = mkldnn_rnn_layer(
      input, w.w_ih, w.w_hh, w.b_ih.defined() ? w.b_ih : input, w.b_hh.defined() ? w.b_hh : input, h0,
      c0.defined() ? c0 : h0, reverse, batch_sizes, static_cast<int64_t>(cell), h0.size(-1).guard_int(), 1,
      w.b_ih.defined(), false, false, false);
  return {output, h, cell == Cell::lstm ? c : Tensor()};
}

struct Result {
  Tensor output;
  std::vector<Tensor> h, c;
};
Result run(const Network& n, Tensor input, Span<const Tensor> hidden, Span<const Tensor> params,
           std::vector<Tensor> h0, std::vector<Tensor> c0, bool projections,
           std::optional<Ints> batch_sizes) {
  const std::vector<Weights> weights = weights_of(n, params, projections);
  if (h0.size() != weights.size() || (n.cell == Cell::lstm && c0.size() != weights.size()))
    failf("{}: expected hidden states for {} layers and directions, got {}", n.name, weights.size(),
          h0.size());
  const Way way = choose(input, hidden, params);
  const size_t directions = n.bidirectional ? 2 : 1;
  Result result;
  for (size_t layer = 0; layer < static_cast<size_t>(n.num_layers); ++layer) {
    std::vector<Tensor> outputs;
    for (size_t d = 0; d < directions; ++d) {
      size_t i = layer * directions + d;
      const Tensor& c = n.cell == Cell::lstm ? c0[i] : c0.empty() ? Tensor() : c0[i];
      Direction one;
      if (way.kernel && !projections)
        one = kernel_direction(n.cell, input, batch_sizes.value_or(Ints(Span<const int64_t>())), h0[i], c,
                               weights[i], d == 1);
      else if (batch_sizes)
        one = packed_direction(n.cell, input, *batch_sizes, h0[i], c, weights[i], d == 1, way.plain);
      else if (way.plain)
        one = plain_direction(n.cell, input, h0[i], c, weights[i], d == 1);
      else
        one = fused_direction(n.cell, input, h0[i], c, weights[i], d == 1);
      outputs.push_back(one.output);
      result.h.push_back(one.h);
      if (n.cell == Cell::lstm) result.c.push_back(one.c);
    }
    input = outputs.size() == 1 ? outputs[0] : cat(outputs, outputs[0].dim() - 1);
    if (n.dropout != 0 && n.train && layer + 1 < static_cast<size_t>(n.num_layers))
      input = dropout(input, n.dropout, true);
  }
  result.output = input;
  return result;
}

template <class A>
Network network(Cell cell, const char* name, const A& a) {
  return {cell, name, a.has_biases, a.num_layers, a.dropout, a.train, a.bidirectional};
}

void check_padded(const char* name, const Tensor& input, const Tensor& h) {
  if (input.dim() != 3) failf("{}: input must have 3 dimensions, got {}", name, input.dim());
  if (h.dim() != 3) failf("{}: hidden state must have 3 dimensions, got {}", name, h.dim());
  if (surely_eq(input.size(0), 0)) failf("{}: Expected sequence length to be larger than 0 in RNN", name);
}
std::vector<int64_t> read_batch_sizes(const char* name, const Tensor& data, const Tensor& batch_sizes) {
  if (batch_sizes.is_fake())
    failf(ErrorKind::not_supported,
          "{}: the batch sizes of a packed sequence decide how many steps there are, and are not known while "
          "exporting: "
          "pad the sequences instead, or make the lengths constants",
          name);
  if (batch_sizes.dim() != 1 || batch_sizes.int_numel() == 0)
    failf("{}: batch_sizes must be a vector of at least one size", name);
  std::vector<int64_t> sizes = batch_sizes.to_vector<int64_t>();
  int64_t sum = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 1 || (i && sizes[i] > sizes[i - 1]))
      failf("{}: batch_sizes must be positive and never grow", name);
    sum += sizes[i];
  }
  if (data.size(0) != sum)
    failf("{}: batch_sizes sum to {}, but the data has {} rows", name, sum, data.size(0).str());
  return sizes;
}

using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

template <class A>
Two run_padded(Cell cell, const char* name, const A& a) {
  check_padded(name, a.input, a.hx);
  std::vector<Tensor> h0 = a.hx.unbind(0);
  Tensor input = a.batch_first ? a.input.transpose(0, 1) : a.input;
  const Tensor hidden[] = {a.hx};
  Result r = run(network(cell, name, a), input, hidden, a.params, std::move(h0), {}, false, {});
  return {a.batch_first ? r.output.transpose(0, 1) : r.output, stack(r.h, 0)};
}
template <class A>
Two run_packed(Cell cell, const char* name, const A& a) {
  std::vector<int64_t> sizes = read_batch_sizes(name, a.data, a.batch_sizes);
  const Tensor hidden[] = {a.hx};
  Result r = run(network(cell, name, a), a.data, hidden, a.params, a.hx.unbind(0), {}, false, Ints(sizes));
  return {r.output, stack(r.h, 0)};
}
bool has_projections(const char* name, Span<const Tensor> hx) {
  if (hx.size() != 2) failf("{} expects two hidden states", name);
  return hx[0].size(-1) != hx[1].size(-1);
}

}  // namespace

Three body_lstm_input(const args::lstm_input& a) {
  bool projections = has_projections("lstm", a.hx);
  check_padded("lstm", a.input, a.hx[0]);
  std::vector<Tensor> h0 = a.hx[0].unbind(0), c0 = a.hx[1].unbind(0);
  Tensor input = a.batch_first ? a.input.transpose(0, 1) : a.input;
  Result r = run(network(Cell::lstm, "lstm", a), input, a.hx, a.params, std::move(h0), std::move(c0),
                 projections, {});
  return {a.batch_first ? r.output.transpose(0, 1) : r.output, stack(r.h, 0), stack(r.c, 0)};
}
Three body_lstm_data(const args::lstm_data& a) {
  bool projections = has_projections("lstm", a.hx);
  std::vector<int64_t> sizes = read_batch_sizes("lstm", a.data, a.batch_sizes);
  Result r = run(network(Cell::lstm, "lstm", a), a.data, a.hx, a.params, a.hx[0].unbind(0), a.hx[1].unbind(0),
                 projections, Ints(sizes));
  return {r.output, stack(r.h, 0), stack(r.c, 0)};
}
Two body_gru_input(const args::gru_input& a) { return run_padded(Cell::gru, "gru", a); }
Two body_gru_data(const args::gru_data& a) { return run_packed(Cell::gru, "gru", a); }
Two body_rnn_tanh_input(const args::rnn_tanh_input& a) { return run_padded(Cell::tanh, "rnn_tanh", a); }
Two body_rnn_tanh_data(const args::rnn_tanh_data& a) { return run_packed(Cell::tanh, "rnn_tanh", a); }
Two body_rnn_relu_input(const args::rnn_relu_input& a) { return run_padded(Cell::relu, "rnn_relu", a); }
Two body_rnn_relu_data(const args::rnn_relu_data& a) { return run_packed(Cell::relu, "rnn_relu", a); }

// ---- single cells ----

namespace {

void check_cell(const char* name, const Tensor& input, const Tensor& hx, const Tensor& w_ih,
                const Tensor& w_hh, int64_t gates) {
  if (input.dim() == 2 && input.size(1) != w_ih.size(1))
    failf("input has inconsistent input_size: got {} expected {}", input.size(1).str(), w_ih.size(1).str());
  if (hx.dim() == 2 && hx.size(1) != w_hh.size(1))
    failf("hidden0 has inconsistent hidden_size: got {}, expected {}", hx.size(1).str(), w_hh.size(1).str());
  if (input.dim() == 2 && hx.dim() == 2 && input.size(0) != hx.size(0))
    failf("Input batch size {} doesn't match hidden0 batch size {}", input.size(0).str(), hx.size(0).str());
  if (w_ih.size(0) != w_hh.size(0) || w_ih.size(0) != w_hh.size(1) * gates)
    failf("{}: the weights are for {} and {} gates, but hidden states of {}", name, w_ih.size(0).str(),
          w_hh.size(0).str(), w_hh.size(1).str());
}

template <class A>
Tensor simple_cell(Cell cell, const char* name, const A& a) {
  check_cell(name, a.input, a.hx, a.w_ih, a.w_hh, 1);
  Tensor gates = linear(a.hx, a.w_hh, a.b_hh) + linear(a.input, a.w_ih, a.b_ih);
  return cell == Cell::tanh ? tanh(gates) : relu(gates);
}

}  // namespace

Two body_lstm_cell(const args::lstm_cell& a) {
  if (a.hx.size() != 2) fail("lstm_cell expects two hidden states");
  check_cell("lstm_cell", a.input, a.hx[0], a.w_ih, a.w_hh, 4);
  const Tensor params[] = {a.w_ih, a.w_hh, a.b_ih, a.b_hh};
  if (a.input.dim() == 2 && !choose(a.input, a.hx, params).plain) {
    auto [h, c, workspace] =
        _thnn_fused_lstm_cell(linear(a.input, a.w_ih, a.b_ih), linear(a.hx[0], a.w_hh, a.b_hh), a.hx[1]);
    return {h, c};
  }
  Tensor gates = linear(a.hx[0], a.w_hh, a.b_hh) + linear(a.input, a.w_ih, a.b_ih);
  std::vector<Tensor> g = split_gates(gates, 4, a.input.dim() - 1);
  Tensor in = sigmoid(g[0]), forget = sigmoid(g[1]), fresh = tanh(g[2]), out = sigmoid(g[3]);
  Tensor c = forget * a.hx[1] + in * fresh;
  return {out * tanh(c), c};
}
Tensor body_gru_cell(const args::gru_cell& a) {
  check_cell("gru_cell", a.input, a.hx, a.w_ih, a.w_hh, 3);
  Tensor h = a.hx, none;
  plain_step(Cell::gru, linear(a.input, a.w_ih, a.b_ih), {a.w_ih, a.w_hh, a.b_ih, a.b_hh, {}}, h, none);
  return h;
}
Tensor body_rnn_tanh_cell(const args::rnn_tanh_cell& a) {
  return simple_cell(Cell::tanh, "rnn_tanh_cell", a);
}
Tensor body_rnn_relu_cell(const args::rnn_relu_cell& a) {
  return simple_cell(Cell::relu, "rnn_relu_cell", a);
}

}  // namespace tern
