// What mixes elements of nested tensors: products, sums, normalisation. Where the last dimension is the same
// for all tensors, their rows are one matrix; else one tensor after the other.
#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/ops.h"
#include "tern/ops/nested/nested.h"
#include "tern/ops/nested/rules.h"

namespace tern::nested {
namespace {

// All rows under each other: the last `dims` dimensions, which all tensors have in common, and one before
// them.
Tensor rows(const Tensor& self, int64_t dims = 1) {
  Dims sizes{SymInt(1)};
  for (int64_t d = self.dim() - dims; d < self.dim(); ++d) {
    sizes.push_back(common_size(self, d));
    sizes[0] = sizes[0] * sizes.back();
  }
  int64_t each = sizes[0].as_int(), numel = nesting_of(self).numel();
  sizes[0] = each ? numel / each : 0;
  return tern::view(packed(self), sizes);
}
// The result of rows: each tensor gets another last size.
NestingPtr with_last(const Nesting& n, int64_t last) {
  std::vector<int64_t> sizes = n.sizes;
  for (int64_t i = 1; i <= n.count; ++i) sizes[static_cast<size_t>(i * n.rank - 1)] = last;
  return packed_nesting(n.count, n.rank, std::move(sizes));
}
bool has_rows(const Tensor& self) {
  const Nesting& n = nesting_of(self);
  return n.count && n.rank && common_size(self, self.dim() - 1) > 0;
}
template <class F>
Tensor each(const Tensor& self, F&& f) {
  std::vector<Tensor> all = parts(self);
  for (Tensor& t : all) t = f(t);
  // No tensor at all: nothing to compute.
  return all.empty() ? clone(self) : join(all);
}

// ---- linear layers and products ----

void linear_rule(const Op& op, const Arg* args, Value* results) {
  const Tensor &self = args[0].tensor(), &weight = args[1].tensor();
  const Tensor bias = args[2].is_none() ? Tensor() : args[2].tensor();
  if (!self.is_nested() || weight.is_nested() || (bias.defined() && bias.is_nested())) refuse(op);
  if (!self.is_contiguous()) fail("for now linear only supports contiguous nested tensor");
  if (self.dim() != 3 || weight.dim() != 2)
    failf(
        "Linear requires nested_tensor.dim == 3 and dense_matrix.dim == 2. Nested tensor dim: {}. Dense "
        "tensor dim: {}",
        self.dim(), weight.dim());
  const int64_t last = self.size(2).as_int();
  if (last != weight.sizes()[1].guard_int())
    failf(
        "Shape mismatch for NestedTensor Linear: Expected input's (a nested tensor) 'last_dim' to equal "
        "'weight.size(1), but got: last_dim = {}, and weight.size(1) = {}",
        last, weight.sizes()[1].guard_int());
  Tensor out = linear(rows(self), weight, bias);
  results[0] = Value(wrap(reshape(out, {-1}), with_last(nesting_of(self), weight.sizes()[0].guard_int())));
}

int64_t batch_of(const Tensor& t) { return t.sizes()[0].as_int(); }
std::string matrix_text(const Tensor& t) {
  return fmt::format("{}x{}", t.sizes()[t.sizes().size() - 2].str(), t.sizes().back().str());
}

void bmm_rule(const Op&, const Arg* args, Value* results) {
  const Tensor &a = args[0].tensor(), &b = args[1].tensor();
  if (a.dim() != 3) fail("batch1 must be a 3D tensor");
  if (b.dim() != 3) fail("batch2 must be a 3D tensor");
  if (batch_of(a) != batch_of(b))
    failf("Expected size for the 1st dimension of batch2 tensor to be: {} but got: {}.", batch_of(a),
          batch_of(b));
  std::vector<Tensor> left = a.is_nested() ? parts(a) : a.unbind(0),
                      right = b.is_nested() ? parts(b) : b.unbind(0), out;
  for (size_t i = 0; i < left.size(); ++i) {
    if (!(left[i].sizes()[1] == right[i].sizes()[0]))
      failf("{}-th nested matrices in batch cannot be multiplied ({} and {})", i, matrix_text(left[i]),
            matrix_text(right[i]));
    out.push_back(mm(left[i], right[i]));
  }
  results[0] = Value(join(out));
}

void matmul_rule(const Op&, const Arg* args, Value* results) {
  const Tensor &a = args[0].tensor(), &b = args[1].tensor();
  if (!a.is_nested() || !b.is_nested())
    failf("Expected both to be nested, but got a {} self and {} other",
          a.is_nested() ? "nested" : "non-nested", b.is_nested() ? "nested" : "non-nested");
  if (a.dim() < 3)
    failf(
        "matmul: For nested tensors, only inputs with >= 3 dims are currently supported. 1st input has rank: "
        "{}",
        a.dim());
  if (b.dim() < 3)
    failf(
        "matmul: For nested tensors, only inputs with >= 3 dims are currently supported. 2nd input has rank: "
        "{}",
        b.dim());
  if (a.dim() != b.dim()) fail("matmul: both inputs must have the same rank");
  if (batch_of(a) != batch_of(b))
    failf("matmul: Expected size for the 1st dimension of 2nd input tensor to be: {} but got: {}.",
          batch_of(a), batch_of(b));
  std::vector<Tensor> left = parts(a), right = parts(b), out;
  for (size_t i = 0; i < left.size(); ++i) {
    const size_t rank = left[i].sizes().size();
    for (size_t d = 0; d + 2 < rank; ++d)
      if (!(left[i].sizes()[d] == right[i].sizes()[d]))
        failf(
            "matmul: For nested tensors, batch dimensions must have the same sizes, no broadcasting is "
            "currently "
            "performed. Got batch shapes for self {} and batch shapes for mat2 {}",
            str(left[i].sizes()), str(right[i].sizes()));
    if (!(left[i].sizes()[rank - 1] == right[i].sizes()[rank - 2]))
      failf(
          "matmul: Nested tensors cannot be matrix multiplied, last dimension of self has sizes {}, second "
          "to last "
          "dimension of mat2 has sizes {}",
          left[i].sizes()[rank - 1].str(), right[i].sizes()[rank - 2].str());
    out.push_back(matmul(left[i], right[i]));
  }
  results[0] = Value(join(out));
}

// Softmax of the scaled products, sample by sample: each has its own lengths.
void attention_rule(const Op& op, const Arg* args, Value* results) {
  for (int i = 0; i < 3; ++i)
    if (!args[i].tensor().is_nested() || args[i].tensor().dim() != 4) refuse(op);
  if (!args[3].is_none())
    fail(
        ErrorKind::not_supported,
        "scaled_dot_product_attention: attn_mask must be None with nested tensors; each has its own lengths");
  std::vector<Tensor> query = parts(args[0].tensor()), key = parts(args[1].tensor()),
                      value = parts(args[2].tensor()), out;
  if (query.size() != key.size() || query.size() != value.size())
    fail("scaled_dot_product_attention: query, key and value must hold the same number of tensors");
  std::vector<Arg> plain(args, args + op.arity);
  for (size_t i = 0; i < query.size(); ++i) {
    const Tensor q = unsqueeze(query[i], 0), k = unsqueeze(key[i], 0), v = unsqueeze(value[i], 0);
    plain[0] = Arg(q);
    plain[1] = Arg(k);
    plain[2] = Arg(v);
    out.push_back(squeeze(call1(op, plain.data()), 0));
  }
  results[0] = Value(out.empty() ? clone(args[2].tensor()) : join(out));
}

void refuse_mask(const Arg& mask) {
  if (!mask.is_none() && mask.tensor().defined()) fail("NestedTensor with mask is not supported yet");
}

// The fast path of nn.MultiheadAttention; what each query looks at is a plain tensor, padded with zeros.
void multi_head_attention_rule(const Op& op, const Arg* args, Value* results) {
  for (int i = 0; i < 3; ++i)
    if (!args[i].tensor().is_nested() || args[i].tensor().dim() != 3) refuse(op);
  refuse_mask(args[op.schema().find("mask")]);
  const bool need_weights = args[op.schema().find("need_weights")].to_bool();
  std::vector<Tensor> query = parts(args[0].tensor()), key = parts(args[1].tensor()),
                      value = parts(args[2].tensor()), out, weights;
  if (query.empty() || query.size() != key.size() || query.size() != value.size())
    fail("_native_multi_head_attention: query, key and value must hold the same number of tensors");
  std::vector<Arg> plain(args, args + op.arity);
  for (size_t i = 0; i < query.size(); ++i) {
    const Tensor q = unsqueeze(query[i], 0), k = unsqueeze(key[i], 0), v = unsqueeze(value[i], 0);
    plain[0] = Arg(q);
    plain[1] = Arg(k);
    plain[2] = Arg(v);
    call(op, plain.data(), results);
    out.push_back(squeeze(results[0].tensor(), 0));
    if (need_weights) weights.push_back(squeeze(results[1].tensor(), 0));
  }
  results[0] = Value(join(out));
  if (need_weights) results[1] = Value(to_padded_tensor(join(weights), 0.));
}

// The fast path of nn.TransformerEncoderLayer.
void encoder_layer_rule(const Op& op, const Arg* args, Value* results) {
  if (!args[0].tensor().is_nested() || args[0].tensor().dim() != 3) refuse(op);
  refuse_mask(args[op.schema().find("mask")]);
  std::vector<Arg> plain(args, args + op.arity);
  results[0] = Value(each(args[0].tensor(), [&](const Tensor& t) {
    const Tensor batch = unsqueeze(t, 0);
    plain[0] = Arg(batch);
    return squeeze(call1(op, plain.data()), 0);
  }));
}

// ---- along the last dimension ----

void softmax_rule(const Op& op, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  const int64_t d = wrap_dim(args[1].to_int(), self.dim());
  if (d == 0) fail("Cannot apply softmax across nested dimension 0");
  std::vector<Arg> plain(args, args + op.arity);
  auto along = [&](const Tensor& t, int64_t dim) {
    plain[0] = Arg(t);
    plain[1] = Arg(dim);
    return call1(op, plain.data());
  };
  results[0] = d == self.dim() - 1 && has_rows(self)
                   ? Value(wrap(reshape(along(rows(self), -1), {-1}), packed_like(nesting_of(self))))
                   : Value(each(self, [&](const Tensor& t) { return along(t, d - 1); }));
}

void sum_rule(const Op& op, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  if (op.schema().find("dim") < 0) refuse(op);
  if (args[1].kind != ArgKind::ints || args[1].ints().size() != 1)
    fail("NestedTensor only allows reduction of a single dimension for now.");
  const int64_t d = wrap_dim(args[1].ints()[0], self.dim());
  if (d != self.dim() - 1 || d == 0)
    failf("NestedTensor can only be reduced across the last dimension for now got dimension {} instead.", d);
  if (!args[2].to_bool()) fail("NestedTensor always requires keepdim=True for now.");
  if (!args[op.schema().find("dtype")].is_none())
    fail("NestedTensor does not support dtype argument for now.");
  const Ints last(int64_t{-1});
  results[0] =
      Value(has_rows(self) ? wrap(reshape(sum(rows(self), last, false, self.dtype()), {-1}),
                                  with_last(nesting_of(self), 1))
                           : each(self, [&](const Tensor& t) { return sum(t, last, true, self.dtype()); }));
}

void check_norm(const Tensor& self, Span<const SymInt> shape, const Arg& weight, const Arg& bias) {
  if (weight.is_none() || bias.is_none() || !weight.tensor().defined() || !bias.tensor().defined())
    fail(ErrorKind::value, "NestedTensor layer_norm requires weight and bias");
  const auto dims = static_cast<int64_t>(shape.size());
  if (dims < 1)
    failf(
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but "
        "got "
        "normalized_shape = {}",
        str(shape));
  if (dims >= self.dim()) fail("normalized_shape extends into irregular dimensions for the nested tensor");
  for (int64_t i = 0; i < dims; ++i) {
    int64_t size = common_size(self, self.dim() - dims + i);
    if (size < 0) fail("normalized_shape extends into irregular dimensions for the nested tensor");
    if (size != shape[static_cast<size_t>(i)].guard_int())
      failf("The shape at dimension {}of normalized_shape doesn't match the input", i);
  }
}
// layer_norm and native_layer_norm, whose further results are plain: a number for each row.
void layer_norm_rule(const Op& op, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  if (!self.is_nested()) refuse(op);
  check_norm(self, args[1].syms(), args[2], args[3]);
  Tensor matrix = rows(self, static_cast<int64_t>(args[1].syms().size()));
  std::vector<Arg> plain(args, args + op.arity);
  plain[0] = Arg(matrix);
  call(op, plain.data(), results);
  results[0] = Value(wrap(reshape(results[0].tensor(), {-1}), packed_like(nesting_of(self))));
  for (int i = 1; i < op.results; ++i) results[i] = Value(reshape(results[i].tensor(), {-1}));
}

// ---- others ----

void embedding_rule(const Op& op, const Arg* args, Value* results) {
  const Tensor &weight = args[0].tensor(), &indices = args[1].tensor();
  if (weight.is_nested() || weight.dim() != 2) refuse(op);
  Tensor row = packed(indices);
  std::vector<Arg> plain(args, args + op.arity);
  plain[1] = Arg(row);
  const Nesting& n = nesting_of(indices);
  std::vector<int64_t> sizes;
  const int64_t width = weight.sizes()[1].guard_int();
  for (int64_t i = 0; i < n.count; ++i) {
    sizes.insert(sizes.end(), n.sizes_of(i).begin(), n.sizes_of(i).end());
    sizes.push_back(width);
  }
  results[0] = Value(
      wrap(reshape(call1(op, plain.data()), {-1}), packed_nesting(n.count, n.rank + 1, std::move(sizes))));
}

void cat_rule(const Op& op, const Arg* args, Value* results) {
  std::vector<Tensor> all;
  for (const Tensor& t : args[0].tensors()) {
    if (!t.is_nested()) refuse(op);
    if (wrap_dim(args[1].to_int(), t.dim()) != 0)
      fail(ErrorKind::not_supported, "cat: nested tensors can be joined along dimension 0 only");
    for (Tensor& p : parts(t)) all.push_back(std::move(p));
  }
  if (!all.empty())
    for (const Tensor& t : all)
      if (t.dim() != all[0].dim()) fail("cat: nested tensors must have the same number of dimensions");
  results[0] = Value(all.empty() ? clone(args[0].tensors()[0]) : join(all));
}

}  // namespace

Rules compute_rules() {
  return {{"linear", linear_rule},
          {"bmm", bmm_rule},
          {"matmul", matmul_rule},
          {"scaled_dot_product_attention", attention_rule},
          {"_native_multi_head_attention", multi_head_attention_rule},
          {"_transformer_encoder_layer_fwd", encoder_layer_rule},
          {"_softmax", softmax_rule},
          {"_log_softmax", softmax_rule},
          {"sum", sum_rule},
          {"layer_norm", layer_norm_rule},
          {"native_layer_norm", layer_norm_rule},
          {"embedding", embedding_rule},
          {"cat", cat_rule}};
}

}  // namespace tern::nested
