#include "tern/nn/rnn.h"

#include <cmath>

#include "tern/base/format.h"
#include "tern/nn/init.h"
#include "tern/nn/make.h"
#include "tern/ops.h"

namespace tern::nn {

// ---- packed sequences ----

namespace utils {
namespace {

Tensor inverse_of(const Tensor& permutation) {
  return scatter(empty_like(permutation), 0, permutation,
                 arange(Scalar(permutation.numel()), {}, {}, permutation.device()));
}

}  // namespace

PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths, bool batch_first,
                                    bool enforce_sorted) {
  if (enforce_sorted) {
    auto [data, batch_sizes] = _pack_padded_sequence(input, lengths, batch_first);
    return {data, batch_sizes};
  }
  auto [sorted, order] = sort(lengths, -1, true);
  Tensor ordered = input.index_select(batch_first ? 0 : 1, order);
  auto [data, batch_sizes] = _pack_padded_sequence(ordered, sorted, batch_first);
  return {data, batch_sizes, order, inverse_of(order)};
}

std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence& s, bool batch_first,
                                               double padding_value, int64_t total_length) {
  int64_t longest = s.batch_sizes.size(0).guard_int();
  if (total_length > 0 && total_length < longest)
    failf(ErrorKind::value,
          "Expected total_length to be at least the length of the longest sequence in input, but got "
          "total_length={} and "
          "max sequence length being {}",
          total_length, longest);
  auto [padded, lengths] = _pad_packed_sequence(s.data, s.batch_sizes, batch_first, padding_value,
                                                total_length > 0 ? total_length : longest);
  if (!s.unsorted_indices.defined()) return {padded, lengths};
  return {padded.index_select(batch_first ? 0 : 1, s.unsorted_indices),
          lengths.index_select(0, s.unsorted_indices)};
}

Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first, double padding_value,
                    std::string_view padding_side) {
  return tern::pad_sequence(sequences, batch_first, padding_value, padding_side);
}

std::vector<Tensor> unpad_sequence(const Tensor& padded, const Tensor& lengths, bool batch_first) {
  Tensor by_batch = batch_first ? padded : padded.transpose(0, 1);
  std::vector<int64_t> n = lengths.to_vector<int64_t>();
  std::vector<Tensor> out;
  for (size_t b = 0; b < n.size(); ++b)
    out.push_back(by_batch.select(0, static_cast<int64_t>(b)).narrow(0, 0, n[b]));
  return out;
}

PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted) {
  std::vector<int64_t> lengths;
  for (const Tensor& s : sequences) lengths.push_back(s.size(0).guard_int());
  return pack_padded_sequence(utils::pad_sequence(sequences),
                              from_vector(lengths, {static_cast<int64_t>(lengths.size())}), false,
                              enforce_sorted);
}
std::vector<Tensor> unpack_sequence(const PackedSequence& packed) {
  auto [padded, lengths] = pad_packed_sequence(packed, true);
  return unpad_sequence(padded, lengths, true);
}

}  // namespace utils

// ---- layers ----

RNNBase::RNNBase(std::string mode, int64_t gates, const RNNOptions& o)
    : options(o), mode_(std::move(mode)), gates_(gates) {
  if (o.dropout < 0 || o.dropout > 1 || std::isnan(o.dropout))
    fail(
        ErrorKind::value,
        "dropout should be a number in range [0, 1] representing the probability of an element being zeroed");
  if (o.hidden <= 0) fail(ErrorKind::value, "hidden_size must be greater than zero");
  if (o.num_layers <= 0) fail(ErrorKind::value, "num_layers must be greater than zero");
  if (o.proj_size < 0)
    fail(ErrorKind::value, "proj_size should be a positive integer or zero to disable projections");
  if (o.proj_size >= o.hidden) fail(ErrorKind::value, "proj_size has to be smaller than hidden_size");
  if (o.proj_size > 0 && mode_ != "LSTM")
    fail(ErrorKind::value, "proj_size argument is only supported for LSTM, not RNN or GRU");
}
void RNNBase::register_weights() {
  const RNNOptions& o = options;
  const int64_t directions = o.bidirectional ? 2 : 1;
  auto make = [&](const std::string& name, std::initializer_list<SymInt> sizes) {
    flat_weights.push_back(register_parameter(name, make_uninitialised(sizes, o.dtype, o.device)));
  };
  for (int64_t layer = 0; layer < o.num_layers; ++layer)
    for (int64_t d = 0; d < directions; ++d) {
      std::string suffix = fmt::format("_l{}{}", layer, d ? "_reverse" : "");
      int64_t in = layer ? state_size() * directions : o.input;
      make("weight_ih" + suffix, {gates_ * o.hidden, in});
      make("weight_hh" + suffix, {gates_ * o.hidden, state_size()});
      if (o.bias) {
        make("bias_ih" + suffix, {gates_ * o.hidden});
        make("bias_hh" + suffix, {gates_ * o.hidden});
      }
      if (o.proj_size > 0) make("weight_hr" + suffix, {o.proj_size, o.hidden});
    }
  reset_parameters();
  std::string text = fmt::format("{}, {}", o.input, o.hidden);
  if (o.proj_size) text += fmt::format(", proj_size={}", o.proj_size);
  if (o.num_layers != 1) text += fmt::format(", num_layers={}", o.num_layers);
  if (!o.bias) text += ", bias=False";
  if (o.batch_first) text += ", batch_first=True";
  if (o.dropout != 0) text += ", dropout=" + python_float(o.dropout);
  if (o.bidirectional) text += ", bidirectional=True";
  set_repr(text);
}
void RNNBase::reset_parameters() {
  double bound = options.hidden > 0 ? 1 / std::sqrt(static_cast<double>(options.hidden)) : 0;
  for (const Parameter& p : flat_weights) init::uniform_(p, -bound, bound);
}
std::vector<Tensor> RNNBase::weights() const {
  std::vector<Tensor> now;
  for (const Parameter& p : flat_weights) now.push_back(p.now());
  return now;
}
Tensor RNNBase::initial_state(const Tensor& like, SymInt batch, int64_t size) const {
  return zeros({SymInt(state_count()), batch, SymInt(size)}, like.dtype(), {}, like.device());
}
void RNNBase::check_input(const Tensor& x, bool packed) const {
  int64_t wanted = packed ? 2 : 3;
  if (x.dim() != wanted) failf("input must have {} dimensions, got {}", wanted, x.dim());
  if (x.size(-1) != options.input)
    failf("input.size(-1) must be equal to input_size. Expected {}, got {}", options.input, x.size(-1).str());
}
void RNNBase::check_state(const Tensor& state, SymInt batch, int64_t size, const char* what) const {
  bool right =
      state.dim() == 3 && state.size(0) == state_count() && state.size(1) == batch && state.size(2) == size;
  if (!right)
    failf("Expected {} size ({}, {}, {}), got {}", what, state_count(), batch.str(), size,
          tern::str(state.sizes()));
}

namespace {

Tensor permuted(const Tensor& state, const Tensor& order) {
  return order.defined() && state.defined() ? state.index_select(1, order) : state;
}

// Batched input and state from those without a batch.
struct Unbatched {
  Unbatched(const char* name, const Tensor& given, const RNNOptions& o) : batch_dim(o.batch_first ? 0 : 1) {
    if (given.dim() != 2 && given.dim() != 3)
      failf(ErrorKind::value, "{}: Expected input to be 2D or 3D, got {}D instead", name, given.dim());
    batched = given.dim() == 3;
    x = batched ? given : given.unsqueeze(batch_dim);
  }
  Tensor state(const char* name, const Tensor& h) const {
    if (!h.defined()) return h;
    if (batched ? h.dim() != 3 : h.dim() != 2)
      failf("{}: For {} input, hx should also be {}-D but got {}-D tensor", name,
            batched ? "batched 3-D" : "unbatched 2-D", batched ? 3 : 2, h.dim());
    return batched ? h : h.unsqueeze(1);
  }
  Tensor output(const Tensor& y) const { return batched ? y : y.squeeze(batch_dim); }
  Tensor last(const Tensor& h) const { return batched ? h : h.squeeze(1); }
  SymInt batch() const { return x.size(batch_dim); }

  int64_t batch_dim;
  bool batched;
  Tensor x;
};

const char* check_nonlinearity(const std::string& n) {
  if (n == "tanh") return "RNN_TANH";
  if (n == "relu") return "RNN_RELU";
  failf(ErrorKind::value, "Unknown nonlinearity '{}'. Select from 'tanh' or 'relu'.", n);
}

}  // namespace

RNN::RNN(const RNNOptions& o) : RecurrentLayer(check_nonlinearity(o.nonlinearity), 1, o) {}
GRU::GRU(const RNNOptions& o) : RecurrentLayer("GRU", 3, o) {}
LSTM::LSTM(const RNNOptions& o) : RecurrentLayer("LSTM", 4, o) {}

std::tuple<Tensor, Tensor> RNN::forward(const Tensor& given, const Tensor& h0) {
  Unbatched u("RNN", given, options);
  Tensor h = u.state("RNN", h0);
  if (!h.defined()) h = initial_state(u.x, u.batch(), options.hidden);
  check_input(u.x, false);
  check_state(h, u.batch(), options.hidden, "hidden");
  auto run = [&](auto&&... a) { return mode_ == "RNN_TANH" ? rnn_tanh(a...) : rnn_relu(a...); };
  auto [y, last] = run(u.x, h, weights(), options.bias, options.num_layers, options.dropout, training(),
                       options.bidirectional, options.batch_first);
  return {u.output(y), u.last(last)};
}
std::tuple<PackedSequence, Tensor> RNN::forward(const PackedSequence& x, const Tensor& h0) {
  SymInt batch = x.batch_sizes.select(0, 0).item<int64_t>();
  Tensor h = permuted(h0, x.sorted_indices);
  if (!h.defined()) h = initial_state(x.data, batch, options.hidden);
  check_input(x.data, true);
  check_state(h, batch, options.hidden, "hidden");
  auto run = [&](auto&&... a) { return mode_ == "RNN_TANH" ? rnn_tanh(a...) : rnn_relu(a...); };
  auto [y, last] = run(x.data, x.batch_sizes, h, weights(), options.bias, options.num_layers, options.dropout,
                       training(), options.bidirectional);
  return {PackedSequence{y, x.batch_sizes, x.sorted_indices, x.unsorted_indices},
          permuted(last, x.unsorted_indices)};
}

std::tuple<Tensor, Tensor> GRU::forward(const Tensor& given, const Tensor& h0) {
  Unbatched u("GRU", given, options);
  Tensor h = u.state("GRU", h0);
  if (!h.defined()) h = initial_state(u.x, u.batch(), options.hidden);
  check_input(u.x, false);
  check_state(h, u.batch(), options.hidden, "hidden");
  auto [y, last] = gru(u.x, h, weights(), options.bias, options.num_layers, options.dropout, training(),
                       options.bidirectional, options.batch_first);
  return {u.output(y), u.last(last)};
}
std::tuple<PackedSequence, Tensor> GRU::forward(const PackedSequence& x, const Tensor& h0) {
  SymInt batch = x.batch_sizes.select(0, 0).item<int64_t>();
  Tensor h = permuted(h0, x.sorted_indices);
  if (!h.defined()) h = initial_state(x.data, batch, options.hidden);
  check_input(x.data, true);
  check_state(h, batch, options.hidden, "hidden");
  auto [y, last] = gru(x.data, x.batch_sizes, h, weights(), options.bias, options.num_layers, options.dropout,
                       training(), options.bidirectional);
  return {PackedSequence{y, x.batch_sizes, x.sorted_indices, x.unsorted_indices},
          permuted(last, x.unsorted_indices)};
}

std::tuple<Tensor, LSTM::State> LSTM::forward(const Tensor& given, const State& state) {
  Unbatched u("LSTM", given, options);
  const auto& [h0, c0] = state;
  if (h0.defined() != c0.defined()) fail("LSTM: give both the hidden and the cell state, or none");
  Tensor h = u.state("LSTM", h0), c = u.state("LSTM", c0);
  if (!h.defined()) {
    h = initial_state(u.x, u.batch(), state_size());
    c = initial_state(u.x, u.batch(), options.hidden);
  }
  check_input(u.x, false);
  check_state(h, u.batch(), state_size(), "hidden[0]");
  check_state(c, u.batch(), options.hidden, "hidden[1]");
  const Tensor states[] = {h, c};
  auto [y, last, cell] = lstm(u.x, states, weights(), options.bias, options.num_layers, options.dropout,
                              training(), options.bidirectional, options.batch_first);
  return {u.output(y), State{u.last(last), u.last(cell)}};
}
std::tuple<PackedSequence, LSTM::State> LSTM::forward(const PackedSequence& x, const State& state) {
  SymInt batch = x.batch_sizes.select(0, 0).item<int64_t>();
  Tensor h = permuted(std::get<0>(state), x.sorted_indices),
         c = permuted(std::get<1>(state), x.sorted_indices);
  if (h.defined() != c.defined()) fail("LSTM: give both the hidden and the cell state, or none");
  if (!h.defined()) {
    h = initial_state(x.data, batch, state_size());
    c = initial_state(x.data, batch, options.hidden);
  }
  check_input(x.data, true);
  check_state(h, batch, state_size(), "hidden[0]");
  check_state(c, batch, options.hidden, "hidden[1]");
  const Tensor states[] = {h, c};
  auto [y, last, cell] = lstm(x.data, x.batch_sizes, states, weights(), options.bias, options.num_layers,
                              options.dropout, training(), options.bidirectional);
  return {PackedSequence{y, x.batch_sizes, x.sorted_indices, x.unsorted_indices},
          State{permuted(last, x.unsorted_indices), permuted(cell, x.unsorted_indices)}};
}

// ---- cells ----

template <class D>
CellLayer<D>::CellLayer(const RNNCellOptions& o, int64_t gates, bool shows_nonlinearity) : options(o) {
  auto make = [&](const char* name, bool present, std::initializer_list<SymInt> sizes) {
    return this->register_parameter(name, present ? make_uninitialised(sizes, o.dtype, o.device) : Tensor());
  };
  weight_ih = make("weight_ih", true, {gates * o.hidden, o.input});
  weight_hh = make("weight_hh", true, {gates * o.hidden, o.hidden});
  bias_ih = make("bias_ih", o.bias, {gates * o.hidden});
  bias_hh = make("bias_hh", o.bias, {gates * o.hidden});
  reset_parameters();
  std::string text = fmt::format("{}, {}", o.input, o.hidden);
  if (!o.bias) text += ", bias=False";
  if (shows_nonlinearity && o.nonlinearity != "tanh") text += ", nonlinearity=" + o.nonlinearity;
  this->set_repr(text);
}
template <class D>
void CellLayer<D>::reset_parameters() {
  double bound = options.hidden > 0 ? 1 / std::sqrt(static_cast<double>(options.hidden)) : 0;
  for (const Parameter* p : {&weight_ih, &weight_hh, &bias_ih, &bias_hh})
    if (p->defined()) init::uniform_(*p, -bound, bound);
}
// The state with a batch; zeros where none was given.
template <class D>
Tensor CellLayer<D>::state_for(const Tensor& x, const Tensor& given, const char* name) const {
  if (x.dim() != 1 && x.dim() != 2)
    failf(ErrorKind::value, "{}: Expected input to be 1D or 2D, got {}D instead", name, x.dim());
  if (!given.defined())
    return x.dim() == 2 ? zeros({x.size(0), SymInt(options.hidden)}, x.dtype(), {}, x.device())
                        : zeros({SymInt(1), SymInt(options.hidden)}, x.dtype(), {}, x.device());
  if (given.dim() != 1 && given.dim() != 2)
    failf(ErrorKind::value, "{}: Expected hidden to be 1D or 2D, got {}D instead", name, given.dim());
  return given.dim() == 2 ? given : given.unsqueeze(0);
}

RNNCell::RNNCell(const RNNCellOptions& o) : CellLayer(o, 1, true) { check_nonlinearity(o.nonlinearity); }
Tensor RNNCell::forward(const Tensor& given, const Tensor& h0) {
  Tensor h = state_for(given, h0, "RNNCell"), x = given.dim() == 2 ? given : given.unsqueeze(0);
  Tensor y = options.nonlinearity == "tanh"
                 ? rnn_tanh_cell(x, h, weight_ih.now(), weight_hh.now(), bias_ih.now(), bias_hh.now())
                 : rnn_relu_cell(x, h, weight_ih.now(), weight_hh.now(), bias_ih.now(), bias_hh.now());
  return given.dim() == 2 ? y : y.squeeze(0);
}
GRUCell::GRUCell(const RNNCellOptions& o) : CellLayer(o, 3, false) {}
Tensor GRUCell::forward(const Tensor& given, const Tensor& h0) {
  Tensor h = state_for(given, h0, "GRUCell"), x = given.dim() == 2 ? given : given.unsqueeze(0);
  Tensor y = gru_cell(x, h, weight_ih.now(), weight_hh.now(), bias_ih.now(), bias_hh.now());
  return given.dim() == 2 ? y : y.squeeze(0);
}
LSTMCell::LSTMCell(const RNNCellOptions& o) : CellLayer(o, 4, false) {}
LSTMCell::State LSTMCell::forward(const Tensor& given, const State& state) {
  const auto& [h0, c0] = state;
  if (h0.defined() != c0.defined()) fail("LSTMCell: give both the hidden and the cell state, or none");
  Tensor h = state_for(given, h0, "LSTMCell"), x = given.dim() == 2 ? given : given.unsqueeze(0);
  Tensor c = c0.defined() ? state_for(given, c0, "LSTMCell") : h;
  const Tensor states[] = {h, c};
  auto [next, cell] = lstm_cell(x, states, weight_ih.now(), weight_hh.now(), bias_ih.now(), bias_hh.now());
  if (given.dim() == 2) return {next, cell};
  return {next.squeeze(0), cell.squeeze(0)};
}
template class CellLayer<RNNCell>;
template class CellLayer<GRUCell>;
template class CellLayer<LSTMCell>;

}  // namespace tern::nn
