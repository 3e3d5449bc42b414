// Embeddings of bytes: each row has a scale and an offset, real = q * scale + offset.
#include <cmath>
#include <cstring>

#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/packed.args.h"
#include "tern/ops/quantized/detail/packed.h"
#include "tern/ops/quantized/values.h"

namespace tern {
namespace quantized {

Value PackedEmbedding::make(const Tensor& weight) {
  check_quantized("quantized::embedding_bag_prepack", weight);
  if (weight.is_fake()) fail("quantized::embedding_bag_prepack: the weight has no data");
  if (weight.dim() != 2) fail("quantized::embedding_bag_prepack expects a 2-dimensional weight");
  if (weight.dtype() != DType::quint8)
    fail(
        "Expect embedding_bag weights to be quantized using kPerChannelAffineFloatQParams in quint8 "
        "(quint4x2 is "
        "not supported)");
  const Quantizer& q = quantizer_of(weight);
  if (q.scheme != QScheme::per_channel_affine_float_qparams || q.axis != 0)
    fail("Expect embedding_bag weights to be quantized using kPerChannelAffineFloatQParams");
  auto* p = new PackedEmbedding;
  Value v = Value::object(p);
  p->weight = weight.contiguous();
  p->scales = q.scales.to_vector<float>();
  p->offsets = q.zero_points.to_vector<float>();
  for (size_t i = 0; i < p->scales.size(); ++i) p->offsets[i] *= -p->scales[i];
  return v;
}
const PackedEmbedding& PackedEmbedding::of(const Value& v, const char* op) {
  const auto* p = v.is_object() ? dynamic_cast<const PackedEmbedding*>(v.box()) : nullptr;
  if (!p) failf(ErrorKind::type, "{}: expected a packed embedding, got {}", op, v.kind_name());
  return *p;
}

}  // namespace quantized

using namespace quantized;

namespace {

// Rows of bytes wherever they come from.
struct RowsOfBytes {
  int64_t rows = 0, width = 0;
  const uint8_t* data = nullptr;
  int64_t stride = 0;
  const float *scales = nullptr, *offsets = nullptr;

  void add(int64_t row, float weight, float* to) const {
    float scale, offset;
    const uint8_t* from = data + row * stride;
    if (scales) {
      scale = scales[row];
      offset = offsets[row];
    } else {  // behind the bytes of the row
      std::memcpy(&scale, from + width, sizeof scale);
      std::memcpy(&offset, from + width + sizeof scale, sizeof offset);
    }
    scale *= weight;
    offset *= weight;
    for (int64_t i = 0; i < width; ++i) to[i] += static_cast<float>(from[i]) * scale + offset;
  }
};
RowsOfBytes rows_of(const PackedEmbedding& e) {
  return {e.weight.int_sizes()[0], e.weight.int_sizes()[1], static_cast<const uint8_t*>(e.weight.data()),
          e.weight.int_sizes()[1], e.scales.data(),         e.offsets.data()};
}

Tensor bags(const char* op, const RowsOfBytes& table, const Tensor& indices, const Tensor& given_offsets,
            int64_t mode, bool pruned, const Tensor& given_weights, const Tensor& mapping,
            bool include_last_offset) {
  if (mode != 0) failf("{}: only the mode 0 (sum) is supported, got {}", op, mode);
  if (pruned || (mapping.defined() && !mapping.is_fake() && mapping.int_numel() > 0))
    failf(ErrorKind::not_supported, "{}: pruned weights are not supported", op);
  Tensor at = index_values(indices), offsets;
  if (indices.dim() == 2) {
    if (given_offsets.defined()) failf("{}: embedding_bag for 2-dimensional indices takes no offsets", op);
    offsets =
        arange(Scalar(0), Scalar(indices.int_numel()), Scalar(std::max<int64_t>(1, indices.int_sizes()[1])));
    include_last_offset = false;
  } else {
    if (!given_offsets.defined()) failf("{} expects offsets to be set for 1D indices.", op);
    offsets = given_offsets;
  }
  Tensor first = index_values(offsets);
  const int64_t count = first.int_numel() - (include_last_offset ? 1 : 0), n = at.int_numel();
  if (count < 0) failf("{}: include_last_offset needs at least one offset", op);
  Tensor weights = given_weights.defined() ? row_major(given_weights, kFloat) : Tensor();
  if (weights.defined() && weights.int_numel() != n)
    failf("{}: {} per-sample weights for {} indices", op, weights.int_numel(), n);
  Tensor out = zeros({SymInt(count), SymInt(table.width)}, kFloat);
  const int64_t *i = at.data_ptr<int64_t>(), *o = first.data_ptr<int64_t>();
  for (int64_t bag = 0; bag < count; ++bag) {
    const int64_t begin = o[bag], end = bag + 1 < first.int_numel() ? o[bag + 1] : n;
    if (begin < 0 || end > n || begin > end) failf("{}: the offset {} is out of range", op, begin);
    for (int64_t k = begin; k < end; ++k) {
      if (i[k] < 0 || i[k] >= table.rows)
        failf(ErrorKind::index, "{}: the index {} is out of range for {} rows", op, i[k], table.rows);
      table.add(i[k], weights.defined() ? weights.data_ptr<float>()[k] : 1.0f,
                out.data_ptr<float>() + bag * table.width);
    }
  }
  return out;
}

[[noreturn]] void no_four_bits(const char* op) {
  failf(ErrorKind::not_supported,
        "{}: Tern has quantized embeddings of 8 bits only (quint4x2 is not supported)", op);
}

}  // namespace

Value kernel_quantized_embedding_bag_prepack(const args::quantized_embedding_bag_prepack& a) {
  return PackedEmbedding::make(a.weight);
}
Tensor kernel_quantized_embedding_bag_unpack(const args::quantized_embedding_bag_unpack& a) {
  return PackedEmbedding::of(a.W_prepack, "quantized::embedding_bag_unpack").weight;
}
Tensor kernel_quantized_embedding_byte(const args::quantized_embedding_byte& a) {
  const PackedEmbedding& e = PackedEmbedding::of(a.weight, "quantized::embedding_byte");
  if (a.pruned_weights)
    fail(ErrorKind::not_supported, "quantized::embedding_byte: pruned weights are not supported");
  Dims sizes(a.indices.sizes());
  RowsOfBytes table = rows_of(e);
  sizes.push_back(table.width);
  if (without_data(a.indices)) return make_tensor(sizes, kFloat, kCPU, true);
  Tensor at = index_values(a.indices), out = zeros(sizes, kFloat);
  for (int64_t k = 0, n = at.int_numel(); k < n; ++k) {
    int64_t row = at.data_ptr<int64_t>()[k];
    if (row < 0 || row >= table.rows)
      failf(ErrorKind::index, "quantized::embedding_byte: the index {} is out of range for {} rows", row,
            table.rows);
    table.add(row, 1.0f, out.data_ptr<float>() + k * table.width);
  }
  return out;
}
Tensor kernel_quantized_embedding_bag_byte(const args::quantized_embedding_bag_byte& a) {
  const PackedEmbedding& e = PackedEmbedding::of(a.weight, "quantized::embedding_bag_byte");
  if (without_data(a.indices)) {
    SymInt n = a.indices.dim() == 2 ? a.indices.size(0) : a.offsets.size(0) - (a.include_last_offset ? 1 : 0);
    return make_tensor(Dims{n, e.weight.size(1)}, kFloat, kCPU, true);
  }
  return bags("quantized::embedding_bag_byte", rows_of(e), a.indices, a.offsets, a.mode, a.pruned_weights,
              a.per_sample_weights, a.compressed_indices_mapping, a.include_last_offset);
}
Tensor kernel_quantized_embedding_4bit(const args::quantized_embedding_4bit&) {
  no_four_bits("quantized::embedding_4bit");
}
Tensor kernel_quantized_embedding_bag_4bit(const args::quantized_embedding_bag_4bit&) {
  no_four_bits("quantized::embedding_bag_4bit");
}

// Rows of bytes with scale and offset behind them, as a plain tensor.
Tensor kernel_quantized_embedding_bag_byte_prepack(const args::quantized_embedding_bag_byte_prepack& a) {
  if (a.weight.dim() < 1) fail("quantized::embedding_bag_byte_prepack expects rows");
  Dims sizes(a.weight.sizes());
  sizes.back() = sizes.back() + 8;
  if (without_data(a.weight)) return make_tensor(sizes, kByte, kCPU, true);
  Tensor w = row_major(a.weight, kFloat), out = make_tensor(sizes, kByte);
  const int64_t width = w.int_sizes()[w.dim() - 1];
  const int64_t rows = width ? w.int_numel() / width : 0;
  for (int64_t r = 0; r < rows; ++r) {
    const float* x = w.data_ptr<float>() + r * width;
    uint8_t* q = out.data_ptr<uint8_t>() + r * (width + 8);
    float low = x[0], high = x[0];
    for (int64_t i = 1; i < width; ++i) {
      low = std::min(low, x[i]);
      high = std::max(high, x[i]);
    }
    const float scale = (high - low) / 255.0f, inverse = 255.0f / (high - low + 1e-8f);
    for (int64_t i = 0; i < width; ++i) q[i] = static_cast<uint8_t>(std::lrint((x[i] - low) * inverse));
    std::memcpy(q + width, &scale, sizeof scale);
    std::memcpy(q + width + sizeof scale, &low, sizeof low);
  }
  return out;
}
Tensor kernel_quantized_embedding_bag_byte_unpack(const args::quantized_embedding_bag_byte_unpack& a) {
  if (a.weight.dim() < 1 || a.weight.dtype() != kByte)
    fail("quantized::embedding_bag_byte_unpack expects bytes");
  Dims sizes(a.weight.sizes());
  sizes.back() = sizes.back() - 8;
  if (without_data(a.weight)) return make_tensor(sizes, kFloat, kCPU, true);
  if (sizes.back().as_int() < 0)
    fail("quantized::embedding_bag_byte_unpack: the rows are shorter than 8 bytes");
  Tensor w = row_major(a.weight), out = zeros(sizes, kFloat);
  const int64_t width = out.int_sizes()[out.dim() - 1], rows = w.int_numel() / (width + 8);
  RowsOfBytes table{rows, width, w.data_ptr<uint8_t>(), width + 8};
  for (int64_t r = 0; r < rows; ++r) table.add(r, 1.0f, out.data_ptr<float>() + r * width);
  return out;
}
Tensor kernel_quantized_embedding_bag_byte_rowwise_offsets(
    const args::quantized_embedding_bag_byte_rowwise_offsets& a) {
  if (a.weight.dim() != 2 || a.weight.dtype() != kByte || !(a.weight.size(1) >= 8))
    fail("quantized::embedding_bag_byte_rowwise_offsets expects a matrix of packed bytes");
  if (without_data(a.indices)) {
    SymInt n = a.indices.dim() == 2 ? a.indices.size(0) : a.offsets.size(0) - (a.include_last_offset ? 1 : 0);
    return make_tensor(Dims{n, a.weight.size(1) - 8}, kFloat, kCPU, true);
  }
  Tensor w = row_major(a.weight);
  const int64_t width = w.int_sizes()[1] - 8;
  RowsOfBytes table{w.int_sizes()[0], width, w.data_ptr<uint8_t>(), width + 8};
  return bags("quantized::embedding_bag_byte_rowwise_offsets", table, a.indices, a.offsets, a.mode,
              a.pruned_weights, a.per_sample_weights, a.compressed_indices_mapping, a.include_last_offset);
}

}  // namespace tern
