// nn::F: PyTorch's torch.nn.functional. Each calls the same ATen operators as its Python namesake, so that a
// capture shows the same nodes.
#pragma once
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "tern/tensor/generator.h"
#include "tern/tensor/tensor.h"

namespace tern::nn {

enum class Reduction : uint8_t { none = 0, mean = 1, sum = 2 };  // ATen's numbers

namespace F {

using Sizes = Span<const SymInt>;

// ---- linear, convolution, embedding ----
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Loc loc = Loc::here());
struct ConvArgs {
  Tensor bias = {};
  std::vector<SymInt> stride = {1}, padding = {0}, dilation = {1};  // one number stands for every dimension
  SymInt groups = 1;
};
Tensor conv1d(const Tensor& x, const Tensor& weight, const ConvArgs& args = {}, Loc loc = Loc::here());
Tensor conv2d(const Tensor& x, const Tensor& weight, const ConvArgs& args = {}, Loc loc = Loc::here());
Tensor conv3d(const Tensor& x, const Tensor& weight, const ConvArgs& args = {}, Loc loc = Loc::here());
Tensor embedding(const Tensor& indices, const Tensor& weight, std::optional<int64_t> padding_idx = {},
                 bool scale_grad_by_freq = false, Loc loc = Loc::here());
// Shortens the rows of the weight that indices name to max_norm, in place and without history.
void renormalise(const Tensor& weight, const Tensor& indices, double max_norm, double norm_type = 2,
                 Loc loc = Loc::here());

// ---- activations ----
Tensor relu(const Tensor& x, bool inplace = false, Loc loc = Loc::here());
Tensor relu6(const Tensor& x, bool inplace = false, Loc loc = Loc::here());
Tensor gelu(const Tensor& x, std::string_view approximate = "none", Loc loc = Loc::here());
Tensor silu(const Tensor& x, bool inplace = false, Loc loc = Loc::here());
Tensor mish(const Tensor& x, bool inplace = false, Loc loc = Loc::here());
Tensor sigmoid(const Tensor& x, Loc loc = Loc::here());
Tensor tanh(const Tensor& x, Loc loc = Loc::here());
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01, bool inplace = false, Loc loc = Loc::here());
Tensor elu(const Tensor& x, double alpha = 1, bool inplace = false, Loc loc = Loc::here());
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20, Loc loc = Loc::here());
Tensor hardtanh(const Tensor& x, double min_val = -1, double max_val = 1, bool inplace = false,
                Loc loc = Loc::here());
Tensor hardswish(const Tensor& x, bool inplace = false, Loc loc = Loc::here());
Tensor hardsigmoid(const Tensor& x, bool inplace = false, Loc loc = Loc::here());
Tensor softmax(const Tensor& x, int64_t dim, std::optional<DType> dtype = {}, Loc loc = Loc::here());
Tensor log_softmax(const Tensor& x, int64_t dim, std::optional<DType> dtype = {}, Loc loc = Loc::here());
Tensor prelu(const Tensor& x, const Tensor& weight, Loc loc = Loc::here());
Tensor selu(const Tensor& x, bool inplace = false, Loc loc = Loc::here());
Tensor celu(const Tensor& x, double alpha = 1, bool inplace = false, Loc loc = Loc::here());
Tensor glu(const Tensor& x, int64_t dim = -1, Loc loc = Loc::here());
Tensor logsigmoid(const Tensor& x, Loc loc = Loc::here());
Tensor softsign(const Tensor& x, Loc loc = Loc::here());
Tensor tanhshrink(const Tensor& x, Loc loc = Loc::here());
Tensor hardshrink(const Tensor& x, double lambd = 0.5, Loc loc = Loc::here());
Tensor softshrink(const Tensor& x, double lambd = 0.5, Loc loc = Loc::here());
Tensor threshold(const Tensor& x, double threshold, double value, bool inplace = false,
                 Loc loc = Loc::here());
Tensor softmin(const Tensor& x, int64_t dim, std::optional<DType> dtype = {}, Loc loc = Loc::here());

// ---- dropout: probabilities outside [0, 1] throw ValueError ----
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true, bool inplace = false,
               Loc loc = Loc::here());
Tensor dropout1d(const Tensor& x, double p = 0.5, bool training = true, bool inplace = false,
                 Loc loc = Loc::here());
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true, bool inplace = false,
                 Loc loc = Loc::here());
Tensor dropout3d(const Tensor& x, double p = 0.5, bool training = true, bool inplace = false,
                 Loc loc = Loc::here());
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = false, bool inplace = false,
                     Loc loc = Loc::here());
Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = false, bool inplace = false,
                             Loc loc = Loc::here());

// ---- normalisation ----
struct BatchNormArgs {
  Tensor weight = {}, bias = {};
  bool training = false;
  double momentum = 0.1, eps = 1e-5;
};
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormArgs& args = {}, Loc loc = Loc::here());
Tensor layer_norm(const Tensor& x, Sizes normalized_shape, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5, Loc loc = Loc::here());
Tensor rms_norm(const Tensor& x, Sizes normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = {}, Loc loc = Loc::here());
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5, Loc loc = Loc::here());
struct InstanceNormArgs {
  Tensor running_mean = {}, running_var = {}, weight = {}, bias = {};
  bool use_input_stats = true;
  double momentum = 0.1, eps = 1e-5;
};
Tensor instance_norm(const Tensor& x, const InstanceNormArgs& args = {}, Loc loc = Loc::here());
Tensor normalize(const Tensor& x, double p = 2, int64_t dim = 1, double eps = 1e-12, Loc loc = Loc::here());

// ---- pooling, padding ----
struct PoolArgs {
  std::vector<int64_t> stride = {};  // empty: the kernel's size
  std::vector<int64_t> padding = {0}, dilation = {1};
  bool ceil_mode = false;
  bool count_include_pad = true;                 // average only
  std::optional<int64_t> divisor_override = {};  // average, 2-d
};
Tensor max_pool1d(const Tensor& x, Ints kernel, const PoolArgs& args = {}, Loc loc = Loc::here());
Tensor max_pool2d(const Tensor& x, Ints kernel, const PoolArgs& args = {}, Loc loc = Loc::here());
Tensor avg_pool1d(const Tensor& x, Ints kernel, const PoolArgs& args = {}, Loc loc = Loc::here());
Tensor avg_pool2d(const Tensor& x, Ints kernel, const PoolArgs& args = {}, Loc loc = Loc::here());
Tensor adaptive_avg_pool1d(const Tensor& x, int64_t output_size, Loc loc = Loc::here());
// An output size of -1 keeps the input's.
Tensor adaptive_avg_pool2d(const Tensor& x, Ints output_size, Loc loc = Loc::here());
Tensor adaptive_max_pool2d(const Tensor& x, Ints output_size, Loc loc = Loc::here());
// From the last dimension backwards: {left, right, top, bottom}. Modes: constant, reflect, replicate,
// circular.
Tensor pad(const Tensor& x, Sizes padding, std::string_view mode = "constant",
           std::optional<double> value = {}, Loc loc = Loc::here());

// ---- losses ----
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction r = Reduction::mean, Loc loc = Loc::here());
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction r = Reduction::mean, Loc loc = Loc::here());
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduction r = Reduction::mean, double beta = 1,
                      Loc loc = Loc::here());
Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction r = Reduction::mean, double delta = 1,
                  Loc loc = Loc::here());
struct ClassLossArgs {
  Tensor weight = {};
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;  // cross entropy only
};
Tensor cross_entropy(const Tensor& x, const Tensor& target, const ClassLossArgs& args = {},
                     Loc loc = Loc::here());
Tensor nll_loss(const Tensor& x, const Tensor& target, const ClassLossArgs& args = {}, Loc loc = Loc::here());
Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                            Reduction r = Reduction::mean, Loc loc = Loc::here());
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                                        Reduction r = Reduction::mean, const Tensor& pos_weight = {},
                                        Loc loc = Loc::here());
Tensor kl_div(const Tensor& x, const Tensor& target, Reduction r = Reduction::mean, bool log_target = false,
              Loc loc = Loc::here());

// ---- attention ----
struct AttentionArgs {
  Tensor mask = {};  // bool (true takes part) or float (added)
  double dropout = 0;
  bool is_causal = false;
  std::optional<double> scale = {};
};
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionArgs& args = {}, Loc loc = Loc::here());

struct MultiHeadArgs {
  int64_t embed_dim = 0, num_heads = 1;
  Tensor in_proj_weight = {}, in_proj_bias = {};                      // packed q, k, v
  Tensor q_proj_weight = {}, k_proj_weight = {}, v_proj_weight = {};  // instead of in_proj_weight
  Tensor bias_k = {}, bias_v = {};
  bool add_zero_attn = false;
  double dropout = 0;
  Tensor out_proj_weight = {}, out_proj_bias = {};
  bool training = true;
  Tensor key_padding_mask = {};  // bool (true is ignored) or float (added): (N, S) or (S)
  Tensor attn_mask = {};         // bool (true may not attend) or float (added): (L, S) or (N·heads, L, S)
  bool need_weights = true, average_weights = true, is_causal = false;
};
// Sequence first: (L, N, E), or (L, E) without a batch. The weights are undefined unless need_weights.
std::tuple<Tensor, Tensor> multi_head_attention_forward(const Tensor& query, const Tensor& key,
                                                        const Tensor& value, const MultiHeadArgs& args,
                                                        Loc loc = Loc::here());
// A bool mask as a float one: -inf where it is true. Floats pass; other types throw.
Tensor canonical_mask(const Tensor& mask, std::string_view name, DType dtype);

}  // namespace F
}  // namespace tern::nn
