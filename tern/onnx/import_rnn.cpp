// ONNX's LSTM, GRU and RNN as PyTorch's, with the gates in its order.
#include "tern/onnx/import.h"

namespace tern::onnx {
namespace {

struct Kind {
  const char* op;
  int64_t gates;
  std::vector<int64_t> order;  // where in ONNX's gates each of PyTorch's stands
  std::vector<std::string> activations;
};

Tensor reordered(Importing& n, const Tensor& t, const Kind& kind) {
  if (kind.gates == 1) return t;
  std::vector<tern::Value> blocks;
  SymInt size = t.size(0);
  int64_t each = size.guard_int() / kind.gates;
  for (int64_t g : kind.order) blocks.push_back(n("aten::narrow", {t, int64_t{0}, g * each, each}));
  return n("aten::cat", {tern::Value::list(std::move(blocks)), int64_t{0}});
}

void import_network(Importing& n, Kind kind) {
  const bool lstm = kind.gates == 4, gru = kind.gates == 3;
  std::string direction = n.text("direction", "forward");
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  if (direction != "forward" && direction != "reverse" && directions == 1)
    n.refuse("the direction '" + direction + "'");
  if (n.has_attribute("clip")) n.refuse("a recurrent network with clip");
  if (n.integer("input_forget", 0)) n.refuse("an LSTM with coupled input and forget gates");
  if (lstm && n.has(7)) n.refuse("an LSTM with peepholes");
  if (gru && !n.integer("linear_before_reset", 0))
    n.refuse("a GRU with linear_before_reset=0, which PyTorch's GRU cannot express");
  if (const Attribute* a = n.node().find("activations")) {
    for (size_t i = 0; i < a->strings.size(); ++i) {
      std::string given(a->strings[i]);
      if (kind.gates == 1 && given == "Relu" &&
          (i == 0 || std::string_view(kind.op) == "aten::rnn_relu.input"))
        kind.op = "aten::rnn_relu.input";
      else if (given != kind.activations[i % kind.activations.size()] ||
               std::string_view(kind.op) == "aten::rnn_relu.input")
        n.refuse("the activation '" + given + "' of a recurrent network");
    }
  }
  Tensor x = n.in(0), w = n.in(1), r = n.in(2), b = n.in_or_none(3);
  const bool batch_first = n.integer("layout", 0) != 0;
  if (batch_first) x = n("aten::transpose.int", {x, int64_t{0}, int64_t{1}});
  if (n.has(4)) {
    std::optional<Tensor> lengths = n.constant(4);
    bool full = lengths.has_value() && x.size(0).maybe_int().has_value();
    if (full)
      for (int64_t l : lengths->to_vector<int64_t>()) full = full && l == *x.size(0).maybe_int();
    if (!full) n.refuse("a recurrent network with sequence_lens: sequences of different lengths");
  }
  const bool reverse = direction == "reverse";
  auto flipped = [&](const Tensor& t) { return n("aten::flip", {t, list(std::vector<int64_t>{0})}); };
  if (reverse) x = flipped(x);
  const int64_t hidden = n.integer("hidden_size", r.size(2).guard_int());

  std::vector<tern::Value> params;
  for (int64_t d = 0; d < directions; ++d) {
    params.push_back(reordered(n, n("aten::select.int", {w, int64_t{0}, d}), kind));
    params.push_back(reordered(n, n("aten::select.int", {r, int64_t{0}, d}), kind));
    if (b.defined()) {
      Tensor both = n("aten::select.int", {b, int64_t{0}, d});
      for (int64_t half = 0; half < 2; ++half)
        params.push_back(reordered(
            n, n("aten::narrow", {both, int64_t{0}, half * kind.gates * hidden, kind.gates * hidden}), kind));
    }
  }
  auto state = [&](size_t i) {
    if (!n.has(i)) return n("aten::new_zeros", {x, list(std::vector<SymInt>{directions, x.size(1), hidden})});
    return batch_first ? n("aten::transpose.int", {n.in(i), int64_t{0}, int64_t{1}}) : n.in(i);
  };
  tern::Value hx = lstm ? tern::Value::list({state(5), state(6)}) : tern::Value(state(5));
  std::vector<tern::Value> out =
      n.call_many(kind.op, {x, hx, tern::Value::list(std::move(params)), b.defined(), int64_t{1}, 0.0, false,
                            directions == 2, false});
  // (time, batch, directions·hidden) to (time, directions, batch, hidden), or (batch, time, directions,
  // hidden).
  Tensor y = out[0].tensor();
  if (reverse) y = flipped(y);
  y = n("aten::reshape", {y, list(std::vector<SymInt>{y.size(0), y.size(1), directions, hidden})});
  n.out(n("aten::permute",
          {y, list(batch_first ? std::vector<int64_t>{1, 0, 2, 3} : std::vector<int64_t>{0, 2, 1, 3})}));
  for (size_t k = 1; k < out.size(); ++k)
    if (n.wants(k))
      n.out(
          batch_first ? n("aten::transpose.int", {out[k].tensor(), int64_t{0}, int64_t{1}}) : out[k].tensor(),
          k);
}

void import_lstm(Importing& n) {
  import_network(n, {"aten::lstm.input", 4, {0, 2, 3, 1}, {"Sigmoid", "Tanh", "Tanh"}});
}
void import_gru(Importing& n) { import_network(n, {"aten::gru.input", 3, {1, 0, 2}, {"Sigmoid", "Tanh"}}); }
void import_rnn(Importing& n) { import_network(n, {"aten::rnn_tanh.input", 1, {0}, {"Tanh"}}); }

constexpr Import table[] = {
    {"LSTM", import_lstm},
    {"GRU", import_gru},
    {"RNN", import_rnn},
};

}  // namespace

Span<const Import> rnn_imports() { return table; }

}  // namespace tern::onnx
