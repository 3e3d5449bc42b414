// Sequences of different lengths: one after the other by time step (packed), or side by side with padding.
#include <cstring>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/rnn.args.h"

namespace tern {

Shapes shape__pack_padded_sequence(const args::_pack_padded_sequence& a) {
  if (a.input.dim() < 2) fail("_pack_padded_sequence: expected input of at least two dimensions");
  Dims sizes = {unknown_size("_pack_padded_sequence", a.input)};
  for (int64_t d = 2; d < a.input.dim(); ++d) sizes.push_back(a.input.sizes()[d]);
  return {Shape(sizes, a.input.dtype()), Shape(Dims({a.input.size(a.batch_first ? 1 : 0)}), kLong)};
}
std::tuple<Tensor, Tensor> kernel__pack_padded_sequence(const args::_pack_padded_sequence& a) {
  if (a.input.dim() < 2) fail("_pack_padded_sequence: expected input of at least two dimensions");
  Tensor input = row_major(a.batch_first ? a.input.transpose(0, 1) : a.input);
  if (input.int_numel() == 0) fail("Cannot pack empty tensors.");
  if (a.lengths.dim() != 1 || a.lengths.dtype() != kLong)
    fail("'lengths' argument should be a 1D CPU int64 tensor, but got another one");
  std::vector<int64_t> lengths = a.lengths.to_vector<int64_t>();
  const int64_t batch = input.int_sizes()[1], steps = input.int_sizes()[0];
  if (static_cast<int64_t>(lengths.size()) != batch)
    failf("Expected `len(lengths)` to be equal to batch_size, but got {} (batch_size={})", lengths.size(),
          batch);
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] <= 0)
      fail("Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0");
    if (i && lengths[i] > lengths[i - 1])
      fail(
          "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
          "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement "
          "if you do "
          "not need ONNX exportability.");
  }
  if (lengths[0] > steps)
    failf("Expected no length to be above the {} steps of the input, but got {}", steps, lengths[0]);
  Dims sizes = {0};
  int64_t row = input.element_size(), total = 0;
  for (int64_t d = 2; d < input.dim(); ++d) {
    sizes.push_back(input.sizes()[d]);
    row *= input.int_sizes()[d];
  }
  for (int64_t n : lengths) total += n;
  sizes[0] = total;
  Tensor data = make_tensor(sizes, input.dtype()), counts = make_tensor({lengths[0]}, kLong);
  char* to = static_cast<char*>(data.data());
  int64_t running = batch;
  for (int64_t t = 0; t < lengths[0]; ++t) {
    while (lengths[static_cast<size_t>(running - 1)] <= t) --running;
    std::memcpy(to, static_cast<const char*>(input.data()) + t * batch * row,
                static_cast<size_t>(running * row));
    to += running * row;
    counts.data_ptr<int64_t>()[t] = running;
  }
  return {data, counts};
}

namespace {

std::vector<int64_t> step_sizes(const char* op, const Tensor& batch_sizes) {
  if (batch_sizes.is_fake())
    failf(ErrorKind::not_supported,
          "{}: the batch sizes of a packed sequence are not known while exporting: pad the sequences instead",
          op);
  if (batch_sizes.dim() != 1 || batch_sizes.dtype() != kLong || batch_sizes.int_numel() == 0)
    failf("{}: expected batch_sizes to be a vector of int64 with at least one element", op);
  std::vector<int64_t> sizes = batch_sizes.to_vector<int64_t>();
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] < 1 || (i && sizes[i] > sizes[i - 1]))
      failf("{}: batch_sizes must be positive and never grow", op);
  return sizes;
}

// The steps of packed data as (time, batch, ...), padded with `value` to `length` steps of `batch` rows.
Tensor padded_steps(const Tensor& data, const std::vector<int64_t>& sizes, SymInt batch, SymInt length,
                    const Scalar& value) {
  std::vector<SymInt> rows(sizes.begin(), sizes.end());
  std::vector<Tensor> steps = split_with_sizes(data, rows, 0);
  Dims pads(static_cast<size_t>(2 * data.dim()), SymInt(0));
  for (size_t t = 0; t < steps.size(); ++t) {
    pads.back() = batch - rows[t];
    if (!surely_eq(pads.back(), 0)) steps[t] = constant_pad_nd(steps[t], pads, value);
  }
  Tensor whole = stack(steps, 0);
  SymInt missing = length - static_cast<int64_t>(sizes.size());
  if (surely_eq(missing, 0)) return whole;
  pads.push_back(0);
  pads.push_back(missing);
  pads[static_cast<size_t>(2 * data.dim() - 1)] = 0;
  return constant_pad_nd(whole, pads, value);
}

}  // namespace

Tensor body__pack_padded_sequence_backward(const args::_pack_padded_sequence_backward& a) {
  std::vector<int64_t> sizes = step_sizes("_pack_padded_sequence_backward", a.batch_sizes);
  if (a.input_size.size() < 2) fail("_pack_padded_sequence_backward: expected at least two sizes");
  SymInt steps = a.input_size[a.batch_first ? 1 : 0], batch = a.input_size[a.batch_first ? 0 : 1];
  Tensor grad = padded_steps(a.grad, sizes, batch, steps, 0);
  return a.batch_first ? grad.transpose(0, 1) : grad;
}

std::tuple<Tensor, Tensor> body__pad_packed_sequence(const args::_pad_packed_sequence& a) {
  std::vector<int64_t> sizes = step_sizes("_pad_packed_sequence", a.batch_sizes);
  int64_t steps = static_cast<int64_t>(sizes.size()), length = steps;
  if (a.total_length > 0) {
    if (a.total_length < steps)
      failf(
          "Expected total_length to be at least the length of the longest sequence in input, but got "
          "total_length={} and "
          "max sequence length being {}",
          a.total_length, steps);
    length = a.total_length;
  }
  std::vector<int64_t> lengths(static_cast<size_t>(sizes[0]), 0);
  for (int64_t n : sizes)
    for (int64_t b = 0; b < n; ++b) ++lengths[static_cast<size_t>(b)];
  Tensor padded = padded_steps(a.data, sizes, sizes[0], length, a.padding_value);
  return {a.batch_first ? padded.transpose(0, 1) : padded, from_vector(lengths, {sizes[0]})};
}

Tensor body_pad_sequence(const args::pad_sequence& a) {
  if (a.sequences.empty()) fail("received an empty list of sequences");
  bool left = a.padding_side == "left";
  if (!left && a.padding_side != "right")
    failf("Expected padding_side to be one of left or right, but got {}.", a.padding_side);
  const Tensor& first = a.sequences[0];
  if (first.dim() == 0) fail("pad_sequence: expected sequences of at least one dimension");
  SymInt longest = 0;
  for (const Tensor& s : a.sequences) {
    if (s.dim() != first.dim()) fail("pad_sequence: the sequences have different numbers of dimensions");
    for (int64_t d = 1; d < s.dim(); ++d)
      if (s.size(d) != first.size(d))
        failf("The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {}",
              first.size(d).str(), s.size(d).str(), d);
    longest = sym_max(longest, s.size(0));
  }
  std::vector<Tensor> padded;
  for (const Tensor& s : a.sequences) {
    SymInt missing = longest - s.size(0);
    Dims pads(static_cast<size_t>(2 * s.dim()), SymInt(0));
    pads[pads.size() - (left ? 2 : 1)] = missing;
    padded.push_back(surely_eq(missing, 0) ? s : constant_pad_nd(s, pads, a.padding_value));
  }
  return stack(padded, a.batch_first ? 0 : 1);
}

}  // namespace tern
