// Recurrent layers with packed weights: the products are quantized, the gates are float.
#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/quantized/detail/packed.h"
#include "tern/ops/quantized/values.h"
#include "tern/ops/quantized_rnn.args.h"

namespace tern {
namespace quantized {

const CellParameters& CellParameters::of(const Value& v, const char* op) {
  const auto* p = v.is_object() ? dynamic_cast<const CellParameters*>(v.box()) : nullptr;
  if (!p) failf(ErrorKind::type, "{}: expected the packed weights of a cell, got {}", op, v.kind_name());
  return *p;
}
Product packed_product(const Value& packed, bool reduce_range) {
  const PackedLinear& w = PackedLinear::of(packed, "quantized rnn");
  return [&w, reduce_range](const Tensor& x) {
    return w.half ? w.run_half(x, false) : w.run_dynamic(x, reduce_range, false);
  };
}

}  // namespace quantized

using namespace quantized;

namespace {

// Hidden state of one direction: (h, c), or h alone.
using State = std::vector<Tensor>;

State lstm_step(const Tensor& from_input, const Tensor& from_hidden, const State& s) {
  std::vector<Tensor> gates = chunk(from_hidden + from_input, 4, 1);
  Tensor in = sigmoid(gates[0]), forget = sigmoid(gates[1]), cell = tanh(gates[2]), out = sigmoid(gates[3]);
  Tensor c = forget * s[1] + in * cell;
  return {out * tanh(c), c};
}
State gru_step(const Tensor& from_input, const Tensor& from_hidden, const State& s) {
  std::vector<Tensor> x = chunk(from_input, 3, 1), h = chunk(from_hidden, 3, 1);
  Tensor reset = sigmoid(h[0] + x[0]), update = sigmoid(h[1] + x[1]), fresh = tanh(x[2] + h[2] * reset);
  return {(s[0] - fresh) * update + fresh};
}
using Step = State (*)(const Tensor&, const Tensor&, const State&);
using MakeProduct = Product (*)(const Value& packed, bool reduce_range);

struct Cell {
  Product input, hidden;
};

struct Layers {
  const char* op;
  Step step;
  int64_t parts;  // 2: h and c
  int64_t layers;
  bool bidirectional;
  std::vector<Cell> cells;
};

// Rows of `state` for the sequences that are still going on.
State first_rows(const State& s, SymInt n) {
  State out;
  for (const Tensor& t : s) out.push_back(t.narrow(0, 0, n));
  return out;
}

// One direction over packed steps: step t has sizes[t] rows, which never grow. With equal sizes it is a
// plain sequence.
Tensor run_direction(const Layers& l, const Cell& cell, const Tensor& data, const std::vector<SymInt>& sizes,
                     bool backwards, State& state) {
  // All inputs at once: their scale is that of the whole sequence.
  Tensor from_input = cell.input(data);
  const auto steps = static_cast<int64_t>(sizes.size());
  std::vector<SymInt> offsets(sizes.size() + 1, 0);
  for (size_t t = 0; t < sizes.size(); ++t) offsets[t + 1] = offsets[t] + sizes[t];
  std::vector<Tensor> outputs(sizes.size());
  State ended = state;  // the whole batch; rows are written back as they change
  for (int64_t k = 0; k < steps; ++k) {
    const auto t = static_cast<size_t>(backwards ? steps - 1 - k : k);
    State now = first_rows(ended, sizes[t]);
    now = l.step(from_input.narrow(0, offsets[t], sizes[t]), cell.hidden(now[0]), now);
    outputs[t] = now[0];
    const SymInt rows = ended[0].size(0);
    for (size_t i = 0; i < now.size(); ++i)
      ended[i] = sizes[t] == rows
                     ? now[i]
                     : cat(std::vector<Tensor>{now[i], ended[i].narrow(0, sizes[t], rows - sizes[t])}, 0);
  }
  state = ended;
  return outputs.empty() ? from_input.narrow(1, 0, state[0].size(1)) : cat(outputs, 0);
}

// Results: the outputs of the last layer, and the states of all layers, stacked.
std::vector<Tensor> run_layers(const Layers& l, Tensor data, const std::vector<SymInt>& sizes,
                               Span<const Tensor> hx) {
  const int64_t directions = l.bidirectional ? 2 : 1;
  for (const Tensor& h : hx)
    if (h.dim() != 3 || !(h.size(0) == l.layers * directions))
      failf("{}: expected a hidden state with {} layers, got {}", l.op, l.layers * directions,
            str(h.sizes()));
  std::vector<std::vector<Tensor>> ends(static_cast<size_t>(l.parts));
  for (int64_t layer = 0; layer < l.layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int64_t d = 0; d < directions; ++d) {
      const int64_t at = layer * directions + d;
      State state;
      for (const Tensor& h : hx) state.push_back(h.select(0, at));
      outputs.push_back(run_direction(l, l.cells[static_cast<size_t>(at)], data, sizes, d == 1, state));
      for (int64_t i = 0; i < l.parts; ++i)
        ends[static_cast<size_t>(i)].push_back(state[static_cast<size_t>(i)]);
    }
    data = outputs.size() == 1 ? outputs[0] : cat(outputs, 1);
  }
  std::vector<Tensor> results{data};
  for (const auto& list : ends) results.push_back(stack(list, 0));
  return results;
}

Layers layers_of(const char* op, MakeProduct product, Step step, int64_t parts, const Value& params,
                 int64_t num_layers, bool bidirectional, bool train, double dropout) {
  Layers l{op, step, parts, num_layers, bidirectional, {}};
  if (!params.is_list() && !params.is_tuple())
    failf(ErrorKind::type, "{}: expected a list of cell parameters, got {}", op, params.kind_name());
  for (const Value& v : params.items()) {
    const CellParameters& c = CellParameters::of(v, op);
    l.cells.push_back({product(c.input, c.reduce_range), product(c.hidden, c.reduce_range)});
  }
  if (static_cast<int64_t>(l.cells.size()) != num_layers * (bidirectional ? 2 : 1))
    failf("{}: {} cell parameters for {} layers{}", op, l.cells.size(), num_layers,
          bidirectional ? " in two directions" : "");
  if (train && dropout != 0)
    failf(ErrorKind::not_supported, "{}: dropout while training is not supported", op);
  return l;
}

std::vector<Tensor> run_input(const Layers& l, const Tensor& input, Span<const Tensor> hx, bool batch_first) {
  if (input.dim() != 3) failf("{}: expected an input of 3 dimensions, got {}", l.op, input.dim());
  Tensor x = batch_first ? transpose(input, 0, 1) : input;
  const int64_t steps = x.size(0).guard_int();
  const SymInt batch = x.size(1);
  std::vector<SymInt> sizes(static_cast<size_t>(steps), batch);
  std::vector<Tensor> r = run_layers(l, reshape(x, {batch * steps, x.size(2)}), sizes, hx);
  r[0] = reshape(r[0], {SymInt(steps), batch, r[0].size(1)});
  if (batch_first) r[0] = transpose(r[0], 0, 1);
  return r;
}
std::vector<Tensor> run_data(const Layers& l, const Tensor& data, const Tensor& batch_sizes,
                             Span<const Tensor> hx) {
  if (batch_sizes.is_fake()) failf("{}: the batch sizes have no data", l.op);
  std::vector<int64_t> sizes = batch_sizes.to_vector<int64_t>();
  int64_t sum = 0, before = hx.empty() ? 0 : hx[0].size(1).guard_int();
  for (int64_t n : sizes) {
    if (n < 0 || n > before) failf("{}: batch sizes must not grow: {} after {}", l.op, n, before);
    before = n;
    sum += n;
  }
  if (data.dim() != 2 || !(data.size(0) == sum))
    failf("{}: the batch sizes sum to {} but the data is {}", l.op, sum, str(data.sizes()));
  return run_layers(l, data, std::vector<SymInt>(sizes.begin(), sizes.end()), hx);
}
void check_hidden(const char* op, Span<const Tensor> hx) {
  if (hx.size() != 2) failf("{} expects two hidden states", op);
}

}  // namespace

namespace {

template <class A>
Layers lstm_layers(MakeProduct product, const A& a) {
  check_hidden("lstm", a.hx);
  return layers_of("quantized_lstm", product, lstm_step, 2, a.params, a.num_layers, a.bidirectional, a.train,
                   a.dropout);
}
template <class A>
Layers gru_layers(MakeProduct product, const A& a) {
  return layers_of("quantized_gru", product, gru_step, 1, a.params, a.num_layers, a.bidirectional, a.train,
                   a.dropout);
}
std::tuple<Tensor, Tensor, Tensor> lstm_input(MakeProduct product, const args::quantized_lstm_input& a) {
  std::vector<Tensor> r = run_input(lstm_layers(product, a), a.input, a.hx, a.batch_first);
  return {r[0], r[1], r[2]};
}
std::tuple<Tensor, Tensor> gru_input(MakeProduct product, const args::quantized_gru_input& a) {
  std::vector<Tensor> r =
      run_input(gru_layers(product, a), a.input, Span<const Tensor>(&a.hx, 1), a.batch_first);
  return {r[0], r[1]};
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> kernel_quantized_lstm_input(const args::quantized_lstm_input& a) {
  return lstm_input(packed_product, a);
}
std::tuple<Tensor, Tensor, Tensor> body_quantized_lstm_input(const args::quantized_lstm_input& a) {
  return lstm_input(expanded_product, a);
}
std::tuple<Tensor, Tensor, Tensor> kernel_quantized_lstm_data(const args::quantized_lstm_data& a) {
  std::vector<Tensor> r = run_data(lstm_layers(packed_product, a), a.data, a.batch_sizes, a.hx);
  return {r[0], r[1], r[2]};
}
std::tuple<Tensor, Tensor> kernel_quantized_gru_input(const args::quantized_gru_input& a) {
  return gru_input(packed_product, a);
}
std::tuple<Tensor, Tensor> body_quantized_gru_input(const args::quantized_gru_input& a) {
  return gru_input(expanded_product, a);
}
std::tuple<Tensor, Tensor> kernel_quantized_gru_data(const args::quantized_gru_data& a) {
  std::vector<Tensor> r =
      run_data(gru_layers(packed_product, a), a.data, a.batch_sizes, Span<const Tensor>(&a.hx, 1));
  return {r[0], r[1]};
}

namespace {
Value dynamic_cell(const Value& w_ih, const Value& w_hh, const Tensor& b_ih, const Tensor& b_hh, bool half,
                   bool reduce_range) {
  PackedLinear::of(w_ih, "quantized::make_quantized_cell_params");
  PackedLinear::of(w_hh, "quantized::make_quantized_cell_params");
  auto* c = new CellParameters;
  Value v = Value::object(c);
  c->input = w_ih;
  c->hidden = w_hh;
  c->input_bias = b_ih;
  c->hidden_bias = b_hh;
  c->half = half;
  c->reduce_range = reduce_range;
  return v;
}
// What cells compute from their input and their state.
template <class A>
Tensor product_of_input(MakeProduct product, const A& a) {
  return product(a.w_ih, true)(a.input);
}
template <class A>
Tensor product_of_state(MakeProduct product, const A& a, const Tensor& h) {
  return product(a.w_hh, true)(h);
}
std::tuple<Tensor, Tensor> lstm_cell(MakeProduct product,
                                     const args::quantized_quantized_lstm_cell_dynamic& a) {
  check_hidden("lstm_cell", a.hx);
  State s =
      lstm_step(product_of_input(product, a), product_of_state(product, a, a.hx[0]), {a.hx[0], a.hx[1]});
  return {s[0], s[1]};
}
Tensor gru_cell(MakeProduct product, const args::quantized_quantized_gru_cell_dynamic& a) {
  return gru_step(product_of_input(product, a), product_of_state(product, a, a.hx), {a.hx})[0];
}
template <class A>
Tensor rnn_sum(MakeProduct product, const A& a) {
  return product_of_input(product, a) + product_of_state(product, a, a.hx);
}
}  // namespace

Value kernel_quantized_make_quantized_cell_params_dynamic(
    const args::quantized_make_quantized_cell_params_dynamic& a) {
  return dynamic_cell(a.w_ih, a.w_hh, a.bias_ih, a.bias_hh, false, a.reduce_range);
}
Value kernel_quantized_make_quantized_cell_params_fp16(
    const args::quantized_make_quantized_cell_params_fp16& a) {
  return dynamic_cell(a.w_ih, a.w_hh, Tensor(), Tensor(), true, false);
}
std::tuple<Tensor, Tensor> kernel_quantized_quantized_lstm_cell_dynamic(
    const args::quantized_quantized_lstm_cell_dynamic& a) {
  return lstm_cell(packed_product, a);
}
Tensor kernel_quantized_quantized_gru_cell_dynamic(const args::quantized_quantized_gru_cell_dynamic& a) {
  return gru_cell(packed_product, a);
}
Tensor kernel_quantized_quantized_rnn_relu_cell_dynamic(
    const args::quantized_quantized_rnn_relu_cell_dynamic& a) {
  return relu(rnn_sum(packed_product, a));
}
Tensor kernel_quantized_quantized_rnn_tanh_cell_dynamic(
    const args::quantized_quantized_rnn_tanh_cell_dynamic& a) {
  return tanh(rnn_sum(packed_product, a));
}
std::tuple<Tensor, Tensor> body_quantized_quantized_lstm_cell_dynamic(
    const args::quantized_quantized_lstm_cell_dynamic& a) {
  return lstm_cell(expanded_product, a);
}
Tensor body_quantized_quantized_gru_cell_dynamic(const args::quantized_quantized_gru_cell_dynamic& a) {
  return gru_cell(expanded_product, a);
}
Tensor body_quantized_quantized_rnn_relu_cell_dynamic(
    const args::quantized_quantized_rnn_relu_cell_dynamic& a) {
  return relu(rnn_sum(expanded_product, a));
}
Tensor body_quantized_quantized_rnn_tanh_cell_dynamic(
    const args::quantized_quantized_rnn_tanh_cell_dynamic& a) {
  return tanh(rnn_sum(expanded_product, a));
}

// ---- weights in tensors ----

namespace {
void require_type(const Tensor& t, DType type) {
  if (t.dtype() != type)
    failf("expected scalar type {} but found {}", script_name(type), script_name(t.dtype()));
}
void check_weight(const char* op, const Tensor& weight, const Tensor& x) {
  require_type(weight, kChar);
  require_type(x, kFloat);
  if (weight.dim() != 2 || x.dim() == 0 || !(x.size(-1) == weight.size(1)))
    failf("{}: an input of {} does not fit a weight of {}", op, str(x.sizes()), str(weight.sizes()));
}
Tensor int8_product(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Scalar& scale, const Scalar& zero_point) {
  check_weight(op, weight, x);
  if (x.is_fake() || weight.is_fake()) {
    Dims sizes(x.sizes());
    sizes.back() = weight.size(0);
    return make_tensor(sizes, kFloat, x.device(), true);
  }
  const Value packed = PackedLinear::make(
      _make_per_tensor_quantized_tensor(weight, scale.to_double(), zero_point.to_int()), bias);
  return PackedLinear::of(packed, op).run_dynamic(x, false, false);
}
template <class A>
Tensor int8_input_gates(const char* op, const A& a) {
  return int8_product(op, a.input, a.w_ih, a.b_ih, a.scale_ih, a.zero_point_ih);
}
template <class A>
Tensor int8_state_gates(const char* op, const A& a, const Tensor& h) {
  return int8_product(op, h, a.w_hh, a.b_hh, a.scale_hh, a.zero_point_hh);
}
}  // namespace

std::tuple<Tensor, Tensor, double, SymInt> kernel_fbgemm_linear_quantize_weight(
    const args::fbgemm_linear_quantize_weight& a) {
  require_type(a.input, kFloat);
  if (a.input.dim() != 2)
    failf("fbgemm_linear_quantize_weight: expected a matrix, got {}", str(a.input.sizes()));
  if (a.input.is_fake()) fail("fbgemm_linear_quantize_weight: the tensor has no data");
  Choice c = choose_parameters(a.input, DType::qint8, false);
  c.scale = static_cast<float>(c.scale);  // as FBGEMM keeps it
  Tensor q = int_repr(quantize_per_tensor(a.input, c.scale, c.zero_point, DType::qint8));
  Tensor sums = to(sum(q, 1, false) - Scalar(c.zero_point * q.size(1).as_int()), kInt);
  return {q, sums, c.scale, c.zero_point};
}
Tensor kernel_fbgemm_pack_quantized_matrix(const args::fbgemm_pack_quantized_matrix& a) {
  require_type(a.input, kChar);
  return a.input.clone();
}
Tensor kernel_fbgemm_linear_int8_weight_fp32_activation(
    const args::fbgemm_linear_int8_weight_fp32_activation& a) {
  return int8_product("fbgemm_linear_int8_weight", a.input, a.weight, a.bias, a.weight_scale,
                      a.weight_zero_point);
}
std::tuple<Tensor, Tensor> kernel_quantized_lstm_cell(const args::quantized_lstm_cell& a) {
  check_hidden("lstm_cell", a.hx);
  State s = lstm_step(int8_input_gates("quantized_lstm_cell", a),
                      int8_state_gates("quantized_lstm_cell", a, a.hx[0]), {a.hx[0], a.hx[1]});
  return {s[0], s[1]};
}
Tensor kernel_quantized_gru_cell(const args::quantized_gru_cell& a) {
  return gru_step(int8_input_gates("quantized_gru_cell", a), int8_state_gates("quantized_gru_cell", a, a.hx),
                  {a.hx})[0];
}
Tensor kernel_quantized_rnn_relu_cell(const args::quantized_rnn_relu_cell& a) {
  return relu(int8_input_gates("quantized_rnn_relu_cell", a) +
              int8_state_gates("quantized_rnn_relu_cell", a, a.hx));
}
Tensor kernel_quantized_rnn_tanh_cell(const args::quantized_rnn_tanh_cell& a) {
  return tanh(int8_input_gates("quantized_rnn_tanh_cell", a) +
              int8_state_gates("quantized_rnn_tanh_cell", a, a.hx));
}

}  // namespace tern
