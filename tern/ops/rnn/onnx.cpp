// Recurrent networks in ONNX: an LSTM, GRU or RNN node a layer, its gates in ONNX's order.
#include "tern/onnx/lower.h"

namespace tern::onnx {
namespace {

struct Kind {
  const char* op;
  std::vector<size_t> gates;  // which of PyTorch's gates stands at each place of ONNX's
  const char* activation = nullptr;
};

// The blocks of `t` along its first dimension in another order.
Ref reordered(Call& c, const Ref& t, const std::vector<size_t>& order) {
  if (order.size() == 1) return t;
  Attributes at = {Attribute::of("axis", int64_t{0})};
  if (c.opset() >= 18) at.push_back(Attribute::of("num_outputs", static_cast<int64_t>(order.size())));
  std::vector<Ref> parts = c.emit_many("Split", {t}, std::move(at), order.size());
  Inputs sorted;
  for (size_t i : order) {
    parts[i].dtype = t.dtype;
    sorted.push_back(parts[i]);
  }
  return c.emit("Concat", sorted, {Attribute::of("axis", int64_t{0})});
}

Ref concat(Call& c, const Inputs& parts, int64_t axis) {
  return parts.size() == 1 ? parts[0] : c.emit("Concat", parts, {Attribute::of("axis", axis)});
}

// (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
void lower(Call& c, const Kind& kind) {
  const bool lstm = std::string_view(kind.op) == "LSTM";
  const bool biases = c.flag(3), bidirectional = c.flag(7), batch_first = c.flag(8);
  const int64_t layers = c.integer(4), directions = bidirectional ? 2 : 1;
  if (c.number(5) != 0 && c.flag(6) && layers > 1)
    c.refuse(
        "dropout between the layers of a recurrent network in training mode: call eval() before exporting");
  std::vector<Ref> states = lstm ? c.tensors(1) : std::vector<Ref>{c.tensor(1)}, params = c.tensors(2);
  const size_t step = biases ? 4 : 2;
  if (params.size() != step * static_cast<size_t>(layers * directions))
    c.refuse("the hidden states are projected (proj_size), which ONNX's LSTM cannot do");
  std::vector<Size> last = c.result_extents(1);
  if (last.size() != 3 || !last[2].is_static()) c.refuse("the size of the hidden state is not known");
  DType dtype = c.dtype();

  Ref x = c.tensor(0);
  if (batch_first) x = c.transpose(x, {1, 0, 2});
  std::vector<Inputs> ends(states.size());
  for (int64_t layer = 0; layer < layers; ++layer) {
    Inputs w, r, b;
    for (int64_t d = 0; d < directions; ++d) {
      const size_t first = static_cast<size_t>(layer * directions + d) * step;
      w.push_back(c.unsqueeze(reordered(c, params[first], kind.gates), {0}));
      r.push_back(c.unsqueeze(reordered(c, params[first + 1], kind.gates), {0}));
      if (biases)
        b.push_back(c.unsqueeze(
            concat(c,
                   {reordered(c, params[first + 2], kind.gates), reordered(c, params[first + 3], kind.gates)},
                   0),
            {0}));
    }
    Inputs inputs = {x, concat(c, w, 0), concat(c, r, 0), biases ? concat(c, b, 0) : Ref{}, Ref{}};
    for (const Ref& s : states) {
      const std::vector<int64_t> from = {layer * directions}, to = {(layer + 1) * directions}, axis = {0};
      inputs.push_back(
          layers == 1 ? s : c.emit("Slice", {s, c.constant(from), c.constant(to), c.constant(axis)}));
    }
    Attributes at = {Attribute::of("hidden_size", last[2].value),
                     Attribute::of("direction", std::string(bidirectional ? "bidirectional" : "forward"))};
    if (std::string_view(kind.op) == "GRU") at.push_back(Attribute::of("linear_before_reset", int64_t{1}));
    if (kind.activation)
      at.push_back(Attribute::of("activations",
                                 std::vector<std::string>(static_cast<size_t>(directions), kind.activation)));
    std::vector<Ref> out = c.emit_many(kind.op, inputs, std::move(at), lstm ? 3 : 2);
    for (Ref& o : out) o.dtype = dtype;
    // (time, directions, batch, hidden)
    if (directions == 1) {
      x = c.squeeze(out[0], {1});
    } else {
      const std::vector<int64_t> merged = {0, 0, -1};
      x = c.emit("Reshape", {c.transpose(out[0], {0, 2, 1, 3}), c.constant(merged)});
    }
    for (size_t s = 0; s < states.size(); ++s) ends[s].push_back(out[1 + s]);
  }
  c.set(batch_first ? c.transpose(x, {1, 0, 2}) : x, 0);
  for (size_t s = 0; s < ends.size(); ++s) c.set(concat(c, ends[s], 0), 1 + s);
}

void lower_lstm(Call& c) { lower(c, {"LSTM", {0, 3, 1, 2}}); }
void lower_gru(Call& c) { lower(c, {"GRU", {1, 0, 2}}); }
void lower_rnn_tanh(Call& c) { lower(c, {"RNN", {0}, "Tanh"}); }
void lower_rnn_relu(Call& c) { lower(c, {"RNN", {0}, "Relu"}); }

constexpr Lowering table[] = {
    {"aten::lstm.input", lower_lstm},
    {"aten::gru.input", lower_gru},
    {"aten::rnn_tanh.input", lower_rnn_tanh},
    {"aten::rnn_relu.input", lower_rnn_relu},
};

}  // namespace

Span<const Lowering> rnn_lowerings() { return table; }

}  // namespace tern::onnx
