// Recurrent layers: RNN, LSTM, GRU, their cells, and packed sequences, with PyTorch's parameter names and
// initial values.
//   nn::LSTM lstm({.input = 10, .hidden = 20, .num_layers = 2});   auto [y, state] = lstm(x);   auto& [h, c]
//   = state;
#pragma once
#include "tern/nn/layers.h"
#include "tern/tree/convert.h"

namespace tern::nn {

// Sequences of different lengths, one time step after the other, longest sequence first.
struct PackedSequence {
  Tensor data, batch_sizes;
  Tensor sorted_indices = {}, unsorted_indices = {};  // undefined: the sequences came sorted
  static constexpr const char* type_name = "torch.nn.utils.rnn.PackedSequence";
  static constexpr auto fields = tree::fields(
      "data", &PackedSequence::data, "batch_sizes", &PackedSequence::batch_sizes, "sorted_indices",
      &PackedSequence::sorted_indices, "unsorted_indices", &PackedSequence::unsorted_indices);
};

namespace utils {

// lengths: int64, one per sequence; with enforce_sorted they must not grow.
PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths, bool batch_first = false,
                                    bool enforce_sorted = true);
// The sequences with padding, and their lengths. total_length: how many steps at least; 0: as many as the
// longest.
std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence, bool batch_first = false,
                                               double padding_value = 0, int64_t total_length = 0);
Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first = false, double padding_value = 0,
                    std::string_view padding_side = "right");
std::vector<Tensor> unpad_sequence(const Tensor& padded, const Tensor& lengths, bool batch_first = false);
PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted = true);
std::vector<Tensor> unpack_sequence(const PackedSequence& packed);

}  // namespace utils

struct RNNOptions {
  int64_t input, hidden;
  int64_t num_layers = 1;
  std::string nonlinearity = "tanh";  // or "relu": of RNN only
  bool bias = true, batch_first = false;
  double dropout = 0;  // of the outputs of all layers but the last
  bool bidirectional = false;
  int64_t proj_size = 0;  // of LSTM only: hidden states of this size
  DType dtype = DType::undefined;
  Device device = kCPU;
};

// What RNN, LSTM and GRU share: the parameters weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0,
// weight_hr_l0,
// ..._reverse, and the checks.
class RNNBase : public Module {
 public:
  RNNOptions options;
  std::vector<Parameter> flat_weights;
  void reset_parameters();

 protected:
  RNNBase(std::string mode, int64_t gates, const RNNOptions& options);
  void register_weights();  // by the derived class, when the module has its type's name
  std::vector<Tensor> weights() const;
  Tensor initial_state(const Tensor& like, SymInt batch, int64_t size) const;
  void check_input(const Tensor& x, bool packed) const;
  void check_state(const Tensor& state, SymInt batch, int64_t size, const char* what) const;
  int64_t state_count() const { return options.num_layers * (options.bidirectional ? 2 : 1); }
  int64_t state_size() const { return options.proj_size > 0 ? options.proj_size : options.hidden; }

  std::string mode_;  // "RNN_TANH", "RNN_RELU", "LSTM", "GRU"
  int64_t gates_;
};

template <class Derived>
class RecurrentLayer : public RNNBase {
 public:
  static constexpr bool is_ours = true;
  template <class A>
  auto operator()(A&& a, Loc loc = Loc::here()) const {
    return details::call_at(loc, self(), std::forward<A>(a));
  }
  template <class A, class B>
  requires(!std::is_same_v<std::remove_cvref_t<B>, Loc>) auto operator()(A&& a, B&& b,
                                                                         Loc loc = Loc::here()) const {
    return details::call_at(loc, self(), std::forward<A>(a), std::forward<B>(b));
  }

 protected:
  RecurrentLayer(std::string mode, int64_t gates, const RNNOptions& options)
      : RNNBase(std::move(mode), gates, options) {
    this->template name_type<Derived>();
    register_weights();
  }

 private:
  Derived& self() const { return const_cast<Derived&>(static_cast<const Derived&>(*this)); }
};

// x: (time, batch, input), (batch, time, input) with batch_first, or (time, input) without a batch.
// Gives the output of every step and the last hidden state, (layers·directions, batch, hidden).
class RNN : public RecurrentLayer<RNN> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.rnn.RNN";
  explicit RNN(const RNNOptions& options);
  RNN(int64_t input, int64_t hidden) : RNN(RNNOptions{input, hidden}) {}
  std::tuple<Tensor, Tensor> forward(const Tensor& x, const Tensor& h0 = {});
  std::tuple<PackedSequence, Tensor> forward(const PackedSequence& x, const Tensor& h0 = {});
};

class GRU : public RecurrentLayer<GRU> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.rnn.GRU";
  explicit GRU(const RNNOptions& options);
  GRU(int64_t input, int64_t hidden) : GRU(RNNOptions{input, hidden}) {}
  std::tuple<Tensor, Tensor> forward(const Tensor& x, const Tensor& h0 = {});
  std::tuple<PackedSequence, Tensor> forward(const PackedSequence& x, const Tensor& h0 = {});
};

class LSTM : public RecurrentLayer<LSTM> {
 public:
  using State = std::tuple<Tensor, Tensor>;  // hidden, cell
  static constexpr const char* type_name = "torch.nn.modules.rnn.LSTM";
  explicit LSTM(const RNNOptions& options);
  LSTM(int64_t input, int64_t hidden) : LSTM(RNNOptions{input, hidden}) {}
  std::tuple<Tensor, State> forward(const Tensor& x, const State& state = {});
  std::tuple<PackedSequence, State> forward(const PackedSequence& x, const State& state = {});
};

// ---- one step ----

struct RNNCellOptions {
  int64_t input, hidden;
  bool bias = true;
  std::string nonlinearity = "tanh";  // or "relu": of RNNCell only
  DType dtype = DType::undefined;
  Device device = kCPU;
};
template <class Derived>
class CellLayer : public Builtin<Derived> {
 public:
  RNNCellOptions options;
  Parameter weight_ih, weight_hh, bias_ih, bias_hh;
  void reset_parameters();

 protected:
  CellLayer(const RNNCellOptions& options, int64_t gates, bool shows_nonlinearity);
  Tensor state_for(const Tensor& x, const Tensor& given, const char* what) const;
};

class RNNCell : public CellLayer<RNNCell> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.rnn.RNNCell";
  explicit RNNCell(const RNNCellOptions& options);
  RNNCell(int64_t input, int64_t hidden) : RNNCell(RNNCellOptions{input, hidden}) {}
  Tensor forward(const Tensor& x, const Tensor& h = {});
};
class GRUCell : public CellLayer<GRUCell> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.rnn.GRUCell";
  explicit GRUCell(const RNNCellOptions& options);
  GRUCell(int64_t input, int64_t hidden) : GRUCell(RNNCellOptions{input, hidden}) {}
  Tensor forward(const Tensor& x, const Tensor& h = {});
};
class LSTMCell : public CellLayer<LSTMCell> {
 public:
  using State = std::tuple<Tensor, Tensor>;
  static constexpr const char* type_name = "torch.nn.modules.rnn.LSTMCell";
  explicit LSTMCell(const RNNCellOptions& options);
  LSTMCell(int64_t input, int64_t hidden) : LSTMCell(RNNCellOptions{input, hidden}) {}
  State forward(const Tensor& x, const State& state = {});
};

}  // namespace tern::nn
