// The table of layers: one line a class of torch.nn that is an operator with options.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/jit/nn_classes.h"

namespace tern::jit {
namespace {

// module  Class(arguments) [: inputs of forward, unless it is one "input"] = what forward gives
// {name} is an argument as it was given, {name:2} two numbers of it, {*} all of them by name; @ is
// device and dtype. A line with # stands for one, two and three dimensions: # is their number, ## twice that.
// The first line of a class holds. What parameters a class has is in nn_weights.cpp.
constexpr std::string_view table = R"(
linear         Linear(in_features, out_features, bias=True, @) = F.linear(input, self.weight, self.bias)
linear         Identity() = input
flatten        Flatten(start_dim=1, end_dim=-1) = input.flatten({start_dim}, {end_dim})
flatten        Unflatten(dim, unflattened_size) = input.unflatten({dim}, {unflattened_size})
conv           Conv#d(in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode='zeros', @) = F.conv#d(input, self.weight, self.bias, {stride:#}, {padding:#}, {dilation:#}, {groups})
conv           ConvTranspose#d(in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1, padding_mode='zeros', @) = F.conv_transpose#d(input, self.weight, self.bias, {stride:#}, {padding:#}, {output_padding:#}, {groups}, {dilation:#})
batchnorm      BatchNorm#d(num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True, @) = #
normalization  LayerNorm(normalized_shape, eps=1e-05, elementwise_affine=True, bias=True, @) = F.layer_norm(input, {normalized_shape:list}, self.weight, self.bias, {eps})
normalization  RMSNorm(normalized_shape, eps=None, elementwise_affine=True, @) = torch.rms_norm(input, {normalized_shape:list}, self.weight, {eps})
normalization  GroupNorm(num_groups, num_channels, eps=1e-05, affine=True, @) = F.group_norm(input, {num_groups}, self.weight, self.bias, {eps})
normalization  LocalResponseNorm(size, alpha=0.0001, beta=0.75, k=1.0) = F.local_response_norm(input, {*})
sparse         Embedding(num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False, @) = F.embedding(input, self.weight, {padding_idx}, {max_norm}, {norm_type}, {scale_grad_by_freq}, {sparse})
pooling        MaxPool#d(kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False) = F.max_pool#d(input, {kernel_size:#}, {stride:#}, {padding:#}, {dilation:#}, {ceil_mode}, return_indices={return_indices})
pooling        AvgPool1d(kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True) = F.avg_pool1d(input, {kernel_size:1}, {stride:1}, {padding:1}, {ceil_mode}, {count_include_pad})
pooling        AvgPool#d(kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None) = F.avg_pool#d(input, {kernel_size:#}, {stride:#}, {padding:#}, {ceil_mode}, {count_include_pad}, {divisor_override})
pooling        AdaptiveAvgPool#d(output_size) = F.adaptive_avg_pool#d(input, {output_size:#})
pooling        AdaptiveMaxPool#d(output_size, return_indices=False) = F.adaptive_max_pool#d(input, {output_size:#}, return_indices={return_indices})
pooling        LPPool1d(norm_type, kernel_size, stride=None, ceil_mode=False) = F.lp_pool1d(input, {norm_type:float}, {kernel_size}, {stride}, {ceil_mode})
pooling        LPPool#d(norm_type, kernel_size, stride=None, ceil_mode=False) = F.lp_pool#d(input, {norm_type:float}, {kernel_size:#}, {stride:#}, {ceil_mode})
pooling        MaxUnpool#d(kernel_size, stride=None, padding=0) : input, indices, output_size: Optional[List[int]] = None = F.max_unpool#d(input, indices, {kernel_size:#}, {stride:#}, {padding:#}, output_size)
pooling        FractionalMaxPool2d(kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None) = F.fractional_max_pool2d(input, {kernel_size:2}, {output_size:some2}, {output_ratio:some2}, return_indices={return_indices}, _random_samples={_random_samples})
pooling        FractionalMaxPool3d(kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None) = F.fractional_max_pool3d(input, {kernel_size:3}, {output_size:some3}, {output_ratio:some3}, return_indices={return_indices}, _random_samples={_random_samples})
padding        ZeroPad#d(padding) = F.pad(input, {padding:##}, "constant", 0.0)
padding        ConstantPad#d(padding, value) = F.pad(input, {padding:##}, "constant", float({value}))
padding        ReflectionPad#d(padding) = F.pad(input, {padding:##}, "reflect")
padding        ReplicationPad#d(padding) = F.pad(input, {padding:##}, "replicate")
padding        CircularPad#d(padding) = F.pad(input, {padding:##}, "circular")
dropout        Dropout(p=0.5, inplace=False) = F.dropout(input, {p}, self.training, {inplace})
dropout        Dropout#d(p=0.5, inplace=False) = F.dropout#d(input, {p}, self.training, {inplace})
dropout        AlphaDropout(p=0.5, inplace=False) = F.alpha_dropout(input, {p}, self.training)
dropout        FeatureAlphaDropout(p=0.5, inplace=False) = torch.feature_alpha_dropout(input, {p}, self.training)
activation     ReLU(inplace=False) = F.relu(input, {*})
activation     ReLU6(inplace=False) = F.relu6(input, {*})
activation     SiLU(inplace=False) = F.silu(input, {*})
activation     Mish(inplace=False) = F.mish(input, {*})
activation     SELU(inplace=False) = F.selu(input, {*})
activation     Hardswish(inplace=False) = F.hardswish(input, {*})
activation     Hardsigmoid(inplace=False) = F.hardsigmoid(input, {*})
activation     ELU(alpha=1.0, inplace=False) = F.elu(input, {*})
activation     CELU(alpha=1.0, inplace=False) = F.celu(input, {*})
activation     LeakyReLU(negative_slope=0.01, inplace=False) = F.leaky_relu(input, {*})
activation     Hardtanh(min_val=-1.0, max_val=1.0, inplace=False) = F.hardtanh(input, {*})
activation     GELU(approximate='none') = F.gelu(input, {*})
activation     Softplus(beta=1.0, threshold=20.0) = F.softplus(input, {beta}, {threshold})
activation     Sigmoid() = torch.sigmoid(input)
activation     Tanh() = torch.tanh(input)
activation     Softsign() = F.softsign(input)
activation     Tanhshrink() = F.tanhshrink(input)
activation     LogSigmoid() = F.logsigmoid(input)
activation     GLU(dim=-1) = F.glu(input, {*})
activation     Hardshrink(lambd=0.5) = F.hardshrink(input, {*})
activation     Softshrink(lambd=0.5) = F.softshrink(input, {*})
activation     Softmax(dim=None) = F.softmax(input, {dim})
activation     LogSoftmax(dim=None) = F.log_softmax(input, {dim})
activation     Softmin(dim=None) = F.softmin(input, {dim})
activation     Softmax2d() = F.softmax(input, -3)
activation     Threshold(threshold, value, inplace=False) = F.threshold(input, {threshold:float}, {value:float}, {inplace})
activation     RReLU(lower=0.125, upper=0.3333333333333333, inplace=False) = F.rrelu(input, {lower}, {upper}, self.training, {inplace})
activation     PReLU(num_parameters=1, init=0.25, @) = F.prelu(input, self.weight)
pixelshuffle   PixelShuffle(upscale_factor) = F.pixel_shuffle(input, {upscale_factor})
pixelshuffle   PixelUnshuffle(downscale_factor) = F.pixel_unshuffle(input, {downscale_factor})
channelshuffle ChannelShuffle(groups) = F.channel_shuffle(input, {groups})
upsampling     Upsample(size=None, scale_factor=None, mode='nearest', align_corners=None) = F.interpolate(input, {size:some2}, {scale_factor:float}, {mode}, {align_corners})
upsampling     UpsamplingNearest2d(size=None, scale_factor=None) = F.interpolate(input, {size:some2}, {scale_factor:float}, "nearest")
upsampling     UpsamplingBilinear2d(size=None, scale_factor=None) = F.interpolate(input, {size:some2}, {scale_factor:float}, "bilinear", True)
fold           Unfold(kernel_size, dilation=1, padding=0, stride=1) = F.unfold(input, {kernel_size:2}, {dilation:2}, {padding:2}, {stride:2})
fold           Fold(output_size, kernel_size, dilation=1, padding=0, stride=1) = F.fold(input, {output_size:2}, {kernel_size:2}, {dilation:2}, {padding:2}, {stride:2})
distance       CosineSimilarity(dim=1, eps=1e-08) : x1, x2 = F.cosine_similarity(x1, x2, {*})
distance       PairwiseDistance(p=2.0, eps=1e-06, keepdim=False) : x1, x2 = F.pairwise_distance(x1, x2, {*})
loss           MSELoss(size_average=None, reduce=None, reduction='mean') : input, target = F.mse_loss(input, target, {*})
loss           L1Loss(size_average=None, reduce=None, reduction='mean') : input, target = F.l1_loss(input, target, {*})
loss           CrossEntropyLoss(weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean', label_smoothing=0.0) : input, target = F.cross_entropy(input, target, {*})
loss           NLLLoss(weight=None, size_average=None, ignore_index=-100, reduce=None, reduction='mean') : input, target = F.nll_loss(input, target, {*})
loss           BCELoss(weight=None, size_average=None, reduce=None, reduction='mean') : input, target = F.binary_cross_entropy(input, target, {*})
loss           BCEWithLogitsLoss(weight=None, size_average=None, reduce=None, reduction='mean', pos_weight=None) : input, target = F.binary_cross_entropy_with_logits(input, target, {*})
loss           SmoothL1Loss(size_average=None, reduce=None, reduction='mean', beta=1.0) : input, target = F.smooth_l1_loss(input, target, {*})
loss           HuberLoss(reduction='mean', delta=1.0) : input, target = F.huber_loss(input, target, {*})
loss           KLDivLoss(size_average=None, reduce=None, reduction='mean', log_target=False) : input, target = F.kl_div(input, target, {*})
loss           MarginRankingLoss(margin=0.0, size_average=None, reduce=None, reduction='mean') : input1, input2, target = F.margin_ranking_loss(input1, input2, target, {*})
loss           HingeEmbeddingLoss(margin=1.0, size_average=None, reduce=None, reduction='mean') : input, target = F.hinge_embedding_loss(input, target, {*})
loss           CosineEmbeddingLoss(margin=0.0, size_average=None, reduce=None, reduction='mean') : input1, input2, target = F.cosine_embedding_loss(input1, input2, target, {*})
loss           SoftMarginLoss(size_average=None, reduce=None, reduction='mean') : input, target = F.soft_margin_loss(input, target, {*})
loss           MultiMarginLoss(p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction='mean') : input, target = F.multi_margin_loss(input, target, {*})
loss           MultiLabelMarginLoss(size_average=None, reduce=None, reduction='mean') : input, target = F.multilabel_margin_loss(input, target, {*})
loss           MultiLabelSoftMarginLoss(weight=None, size_average=None, reduce=None, reduction='mean') : input, target = F.multilabel_soft_margin_loss(input, target, {*})
loss           PoissonNLLLoss(log_input=True, full=False, size_average=None, eps=1e-08, reduce=None, reduction='mean') : log_input, target = F.poisson_nll_loss(log_input, target, {*})
loss           GaussianNLLLoss(full=False, eps=1e-06, reduction='mean') : input, target, var = F.gaussian_nll_loss(input, target, var, {*})
loss           TripletMarginLoss(margin=1.0, p=2.0, eps=1e-06, swap=False, size_average=None, reduce=None, reduction='mean') : anchor, positive, negative = F.triplet_margin_loss(anchor, positive, negative, {*})
loss           CTCLoss(blank=0, reduction='mean', zero_infinity=False) : log_probs, targets, input_lengths, target_lengths = F.ctc_loss(log_probs, targets, input_lengths, target_lengths, {*})
rnn            RNNCell(input_size, hidden_size, bias=True, @) : input, hx: Optional[Tensor] = None = torch.rnn_tanh_cell
rnn            GRUCell(input_size, hidden_size, bias=True, @) : input, hx: Optional[Tensor] = None = torch.gru_cell
rnn            LSTMCell(input_size, hidden_size, bias=True, @) : input, hx: Optional[Tuple[Tensor, Tensor]] = None = torch.lstm_cell
rnn            RNN(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, @) = torch.rnn_tanh
rnn            GRU(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, @) = torch.gru
rnn            LSTM(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, @) = torch.lstm
)";

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

LayerClass parse(std::string line) {
  LayerClass layer;
  layer.module = line.substr(0, line.find(' '));
  size_t open = line.find('('), close = line.find(')');
  size_t name = line.find_last_of(' ', open) + 1;
  layer.name = line.substr(name, open - name);
  layer.signature = line.substr(open + 1, close - open - 1);
  replace_all(layer.signature, "@", "device=None, dtype=None");
  // The inputs may have defaults: what forward gives stands behind the last " = ".
  size_t equals = line.rfind(" = ");
  layer.result = line.substr(equals + 3);
  layer.inputs = equals > close + 1 ? line.substr(close + 4, equals - close - 4) : "input";
  const LayerWeights known = weights_of(layer.name);
  layer.weights = known.weights;
  layer.form = known.form;
  return layer;
}

}  // namespace

const std::vector<LayerClass>& layers() {
  static const std::vector<LayerClass>* all = [] {
    auto* made = new std::vector<LayerClass>;
    auto add = [&](const std::string& line) {
      LayerClass layer = parse(line);
      if (std::none_of(made->begin(), made->end(), [&](auto& l) { return l.name == layer.name; }))
        made->push_back(std::move(layer));
    };
    for (size_t at = 1, end; at < table.size(); at = end + 1) {
      end = table.find('\n', at);
      std::string line(table.substr(at, end - at));
      if (line.find('#') == std::string::npos) {
        add(line);
        continue;
      }
      for (int dims = 1; dims <= 3; ++dims) {
        std::string one = line;
        replace_all(one, "##", std::to_string(2 * dims));
        replace_all(one, "#", std::to_string(dims));
        add(one);
      }
    }
    return made;
  }();
  return *all;
}

}  // namespace tern::jit
