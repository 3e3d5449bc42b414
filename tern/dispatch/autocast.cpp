#include "tern/dispatch/autocast.h"

#include <deque>
#include <unordered_map>

#include "tern/base/format.h"

namespace tern {
namespace {

enum class Policy : uint8_t { none, lower, single, single_without_dtype, promote };

using PolicyTable = std::unordered_map<std::string_view, Policy>;

// By the operator's name; every overload has the same policy.
const PolicyTable& eager_policies() {
  static const PolicyTable table = [] {
    PolicyTable t;
    for (std::string_view name : {"_addmm_activation",
                                  "_convolution",
                                  "_native_multi_head_attention",
                                  "addbmm",
                                  "addmm",
                                  "baddbmm",
                                  "bmm",
                                  "conv1d",
                                  "conv2d",
                                  "conv3d",
                                  "conv_tbc",
                                  "conv_transpose1d",
                                  "conv_transpose2d",
                                  "conv_transpose3d",
                                  "linalg_vecdot",
                                  "linear",
                                  "matmul",
                                  "mkldnn_rnn_layer",
                                  "mm",
                                  "prelu",
                                  "scaled_dot_product_attention"})
      t.emplace(name, Policy::lower);
    for (std::string_view name : {"adaptive_avg_pool3d",
                                  "adaptive_max_pool3d",
                                  "avg_pool3d",
                                  "binary_cross_entropy",
                                  "binary_cross_entropy_with_logits",
                                  "cdist",
                                  "cholesky",
                                  "cholesky_inverse",
                                  "cholesky_solve",
                                  "cosine_embedding_loss",
                                  "cross_entropy_loss",
                                  "ctc_loss",
                                  "fake_quantize_per_tensor_affine",
                                  "fft_fft",
                                  "fft_fft2",
                                  "fft_fftn",
                                  "fft_hfft",
                                  "fft_ifft",
                                  "fft_ifft2",
                                  "fft_ifftn",
                                  "fft_ihfft",
                                  "fft_irfft",
                                  "fft_irfft2",
                                  "fft_irfftn",
                                  "fft_rfft",
                                  "fft_rfft2",
                                  "fft_rfftn",
                                  "fractional_max_pool2d",
                                  "fractional_max_pool3d",
                                  "geqrf",
                                  "grid_sampler",
                                  "grid_sampler_2d",
                                  "grid_sampler_3d",
                                  "hinge_embedding_loss",
                                  "huber_loss",
                                  "inverse",
                                  "kl_div",
                                  "l1_loss",
                                  "linalg_cholesky",
                                  "linalg_cholesky_ex",
                                  "linalg_cond",
                                  "linalg_eig",
                                  "linalg_eigh",
                                  "linalg_eigvals",
                                  "linalg_eigvalsh",
                                  "linalg_householder_product",
                                  "linalg_inv",
                                  "linalg_inv_ex",
                                  "linalg_lstsq",
                                  "linalg_matrix_rank",
                                  "linalg_qr",
                                  "linalg_solve",
                                  "linalg_svd",
                                  "linalg_svdvals",
                                  "linalg_tensorinv",
                                  "linalg_tensorsolve",
                                  "lu_solve",
                                  "margin_ranking_loss",
                                  "max_pool3d",
                                  "max_unpool2d",
                                  "max_unpool3d",
                                  "mse_loss",
                                  "multi_margin_loss",
                                  "multilabel_margin_loss",
                                  "multilabel_margin_loss_forward",
                                  "nanquantile",
                                  "nll_loss",
                                  "nll_loss2d",
                                  "orgqr",
                                  "ormqr",
                                  "pinverse",
                                  "poisson_nll_loss",
                                  "polar",
                                  "prod",
                                  "qr",
                                  "quantile",
                                  "reflection_pad1d",
                                  "reflection_pad2d",
                                  "replication_pad1d",
                                  "replication_pad2d",
                                  "replication_pad3d",
                                  "smooth_l1_loss",
                                  "soft_margin_loss",
                                  "stft",
                                  "svd",
                                  "trace",
                                  "triangular_solve",
                                  "triplet_margin_loss",
                                  "view_as_complex",
                                  "_lu_with_info"})
      t.emplace(name, Policy::single);
    for (std::string_view name : {"cat", "stack", "index_copy"}) t.emplace(name, Policy::promote);
    return t;
  }();
  return table;
}

// What TorchScript casts by the name of the operator as the program has it, so nothing inside of a composite.
const PolicyTable& scripted_policies() {
  static const PolicyTable table = [] {
    PolicyTable t;
    for (std::string_view name :
         {"addbmm",   "addmm",         "addmv",         "addr",         "baddbmm",          "bmm",
          "conv1d",   "conv2d",        "conv3d",        "conv_tbc",     "conv_transpose1d", "convolution",
          "gru_cell", "linalg_matmul", "linear",        "lstm_cell",    "matmul",           "mm",
          "mv",       "prelu",         "rnn_relu_cell", "rnn_tanh_cell"})
      t.emplace(name, Policy::lower);
    for (std::string_view name : {"acos",
                                  "add",
                                  "addcdiv",
                                  "addcmul",
                                  "arccos",
                                  "arcsin",
                                  "arctan2",
                                  "asin",
                                  "atan2",
                                  "bilinear",
                                  "binary_cross_entropy_with_logits",
                                  "cdist",
                                  "cosh",
                                  "cosine_embedding_loss",
                                  "cosine_similarity",
                                  "cross",
                                  "dist",
                                  "div",
                                  "divide",
                                  "dot",
                                  "equal",
                                  "erfinv",
                                  "exp",
                                  "expm1",
                                  "frobenius_norm",
                                  "gelu",
                                  "group_norm",
                                  "hinge_embedding_loss",
                                  "index_put",
                                  "kl_div",
                                  "l1_loss",
                                  "layer_norm",
                                  "log",
                                  "log10",
                                  "log1p",
                                  "log2",
                                  "logsumexp",
                                  "margin_ranking_loss",
                                  "mse_loss",
                                  "mul",
                                  "multi_margin_loss",
                                  "multilabel_margin_loss",
                                  "multiply",
                                  "native_layer_norm",
                                  "nll_loss",
                                  "nll_loss2d",
                                  "nuclear_norm",
                                  "pdist",
                                  "pow",
                                  "reciprocal",
                                  "renorm",
                                  "rsqrt",
                                  "rsub",
                                  "sinh",
                                  "smooth_l1_loss",
                                  "soft_margin_loss",
                                  "softplus",
                                  "special_erfinv",
                                  "special_expm1",
                                  "special_log1p",
                                  "special_logsumexp",
                                  "sub",
                                  "subtract",
                                  "tan",
                                  "tensordot",
                                  "triplet_margin_loss",
                                  "true_divide"})
      t.emplace(name, Policy::single);
    for (std::string_view name : {"cumprod", "cumsum", "log_softmax", "prod", "sum"})
      t.emplace(name, Policy::single_without_dtype);
    return t;
  }();
  return table;
}

Policy policy_of(const Op& op, const Arg* args, bool scripted) {
  // In-place and out= forms are called as they are.
  if (op.is(op_inplace | op_out)) return Policy::none;
  std::string_view name = op.schema().name.view();
  if (!name.starts_with("aten::")) return Policy::none;
  const PolicyTable& table = scripted ? scripted_policies() : eager_policies();
  auto it = table.find(name.substr(6));
  if (it == table.end()) return Policy::none;
  if (it->second != Policy::single_without_dtype) return it->second;
  const Schema& s = op.schema();
  for (size_t i = 0; i < s.args.size(); ++i)
    if (s.args[i].name.view() == "dtype" && !args[i].is_none()) return Policy::none;
  return Policy::single;
}

bool eligible(const Tensor& t) {
  return t.defined() && t.is_floating_point() && t.dtype() != DType::float64 && !t->wrapped_number;
}

// The arguments with every eligible tensor cast; owns the casts.
struct Cast {
  std::vector<Arg> args;
  std::deque<Tensor> tensors;
  std::deque<std::vector<Tensor>> lists;

  Cast(Mode* next, const Op& op, const Arg* from, DType to) : args(from, from + op.arity) {
    for (Arg& a : args) {
      if (a.kind == ArgKind::tensor && needs(*a.tensor_ptr, to))
        a = Arg(tensors.emplace_back(cast(next, *a.tensor_ptr, to)));
      if (a.kind == ArgKind::tensors) {
        std::vector<Tensor>& list = lists.emplace_back();
        for (const Tensor& t : a.tensors()) list.push_back(needs(t, to) ? cast(next, t, to) : t);
        a = Arg(Span<const Tensor>(list));
      }
    }
  }
  static bool needs(const Tensor& t, DType to) { return eligible(t) && t.dtype() != to; }
  static Tensor cast(Mode* next, const Tensor& t, DType to) {
    static const Op& op = get_op("aten::to.dtype");
    Value all[] = {Value(t), Value(to)}, result;
    Bound bound(op, all);
    if (next)
      next->call(op, bound.args(), &result);
    else
      descend(rung_record, op, bound.args(), &result);
    return result.take_tensor();
  }
};

// Half precision unless one of the tensors is float32 already.
DType widest(const Op& op, const Arg* args, DType lower) {
  DType found = lower;
  auto look = [&](const Tensor& t) {
    if (!t.defined() || !t.is_floating_point()) return;
    if (t.dtype() == DType::float64)
      failf("{}: promote type is double in at::autocast::prioritize", op.qualified());
    if (t.dtype() == DType::float32) found = DType::float32;
  };
  for (int i = 0; i < op.arity; ++i) {
    if (args[i].kind == ArgKind::tensor) look(*args[i].tensor_ptr);
    if (args[i].kind == ArgKind::tensors)
      for (const Tensor& t : args[i].tensors()) look(t);
  }
  return found;
}

thread_local const Autocast* innermost = nullptr;
thread_local Mode* keeper = nullptr;  // of the calls as they are written

}  // namespace

Autocast::Autocast(AutocastSetting setting) : setting_(setting), outer_(innermost), saved_(thread_state) {
  if (setting.enabled && setting.dtype != DType::bfloat16 && setting.dtype != DType::float16)
    failf(ErrorKind::value,
          "In CPU autocast, but the target dtype is not supported. CPU Autocast only supports dtype of "
          "torch.bfloat16, torch.float16 currently, not torch.{}",
          name(setting.dtype));
  Mode*& top = thread_state.modes[0];
  if (keeper && !setting.scripted && (thread_state.active & ~thread_state.excluded & rung_record)) {
    holder_ = keeper;
    below = keeper->below;
    keeper->below = this;
  } else {
    below = thread_state.excluded & rung_record ? nullptr : top;
    top = this;
    thread_state.active |= rung_record;
    thread_state.excluded &= static_cast<uint8_t>(~rung_record);
  }
  innermost = this;
}

Autocast::~Autocast() {
  innermost = outer_;
  if (holder_) {
    holder_->below = below;
    return;
  }
  thread_state.modes[0] = saved_.modes[0];
  thread_state.active = saved_.active;
  thread_state.excluded = saved_.excluded;
}

const AutocastSetting* Autocast::current() { return innermost ? &innermost->setting_ : nullptr; }

Autocast::Below::Below(Mode& mode) : saved_(keeper) { keeper = &mode; }
Autocast::Below::~Below() { keeper = saved_; }

void Autocast::pass_below(Mode& mode, const Op& op, const Arg* args, Value* results) {
  if (!mode.below || !dynamic_cast<Autocast*>(mode.below)) return descend(rung_record, op, args, results);
  struct Stand {
    Mode* saved = thread_state.modes[0];
    ~Stand() { thread_state.modes[0] = saved; }
  } stand;
  thread_state.modes[0] = mode.below;
  tern::call(op, args, results);
}

// The innermost scope alone decides: outer ones are passed by.
Mode* Autocast::next() const {
  Mode* m = below;
  while (m && dynamic_cast<Autocast*>(m)) m = m->below;
  return m;
}

void Autocast::call(const Op& op, const Arg* args, Value* results) {
  Mode* onwards = next();
  auto pass_on = [&](const Arg* given) {
    if (onwards) return onwards->call(op, given, results);
    descend(rung_record, op, given, results);
  };
  Policy policy = setting_.enabled ? policy_of(op, args, setting_.scripted) : Policy::none;
  if (policy == Policy::none) {
    // What is made of other calls is cast in them.
    if (setting_.enabled && !setting_.scripted && op.body && op.is(op_composite | op_implicit) &&
        !op.is(op_inplace | op_out))
      return op.body(op, args, results);
    return pass_on(args);
  }
  DType to = policy == Policy::lower ? setting_.dtype : DType::float32;
  if (policy == Policy::promote) to = widest(op, args, setting_.dtype);
  Cast cast(onwards, op, args, to);
  pass_on(cast.args.data());
}

SymInt Autocast::size(const Tensor& t, int64_t d, Loc loc) {
  return below ? below->size(t, d, loc) : Mode::size(t, d, loc);
}
std::optional<Scalar> Autocast::item(const Tensor& t, Loc loc) {
  return below ? below->item(t, loc) : std::nullopt;
}
std::optional<SymInt> Autocast::unknown_size(Loc loc) {
  return below ? below->unknown_size(loc) : std::nullopt;
}

}  // namespace tern
