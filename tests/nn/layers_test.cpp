// Every layer against PyTorch: initial values of a seed, results, gradients, buffers.
#include <gtest/gtest.h>

#include "tern/tern.h"
#include "tests/nn/expected.h"
#include "tests/support/errors.h"

namespace tern::nn {
namespace {

using tern::testing::error_of;

template <class Make, class Call>
void check_call(const std::string& name, Make make, Span<const SymInt> shape, Call call) {
  manual_seed(0);
  auto layer = make();
  Tensor x = wave(shape);
  x.requires_grad_();
  Tensor y = call(layer, x);
  (y * wave(y.sizes())).sum().backward();
  expect_sample(name, y);
  expect_sample(name + ".grad", x.grad());
  for (const auto& [key, p] : layer.named_parameters()) {
    expect_sample(name + "." + key, p, 1e-7);
    expect_sample(name + "." + key + ".grad", p.grad(), 5e-5);
  }
  for (const auto& [key, b] : layer.named_buffers()) expect_sample(name + "." + key, b);
}
template <class Make>
void check(const std::string& name, Make make, Span<const SymInt> shape) {
  check_call(name, make, shape, [](auto& layer, const Tensor& x) { return layer(x); });
}

TEST(Layers, Linear) {
  check("linear", [] { return Linear(5, 3); }, {4, 5});
  check("linear_no_bias", [] { return Linear({.in = 5, .out = 3, .bias = false}); }, {2, 4, 5});
}

TEST(Layers, Convolution) {
  check("conv1d",
        [] { return Conv1d({.in = 4, .out = 6, .kernel = 3, .stride = 2, .padding = 1, .groups = 2}); },
        {2, 4, 9});
  check("conv2d", [] { return Conv2d({.in = 3, .out = 4, .kernel = 3, .stride = 2, .padding = 1}); },
        {2, 3, 7, 8});
  check("conv2d_same",
        [] {
          return Conv2d({.in = 2, .out = 3, .kernel = {3, 4}, .padding = "same", .dilation = 2});
        },
        {1, 2, 7, 8});
  check("conv2d_reflect",
        [] { return Conv2d({.in = 2, .out = 3, .kernel = 3, .padding = 1, .padding_mode = "reflect"}); },
        {1, 2, 5, 6});
  check("conv2d_circular",
        [] { return Conv2d({.in = 2, .out = 3, .kernel = 3, .padding = 1, .padding_mode = "circular"}); },
        {1, 2, 5, 6});
  check("conv3d", [] { return Conv3d(2, 3, 2); }, {1, 2, 3, 4, 5});
}

TEST(Layers, TransposedConvolution) {
  check("conv_transpose1d",
        [] { return ConvTranspose1d({.in = 3, .out = 2, .kernel = 4, .stride = 2, .padding = 1}); },
        {2, 3, 5});
  check("conv_transpose2d",
        [] {
          return ConvTranspose2d(
              {.in = 3, .out = 2, .kernel = 3, .stride = 2, .padding = 1, .output_padding = 1});
        },
        {1, 3, 4, 5});
}

TEST(Layers, InstanceNorm) {
  check("instance_norm1d", [] { return InstanceNorm1d(3); }, {2, 3, 5});
  check("instance_norm2d",
        [] { return InstanceNorm2d({.features = 3, .affine = true, .track_running_stats = true}); },
        {2, 3, 4, 5});
  check("instance_norm2d_eval",
        [] {
          InstanceNorm2d norm({.features = 3, .track_running_stats = true});
          norm.eval();
          return norm;
        },
        {2, 3, 4, 5});
  check("instance_norm3d",
        [] { return InstanceNorm3d({.features = 3, .momentum = {}, .track_running_stats = true}); },
        {3, 2, 2, 3});
}

TEST(Layers, MoreActivations) {
  check("celu", [] { return CELU(0.7); }, {3, 4});
  check("selu", [] { return SELU(); }, {3, 4});
  check("glu", [] { return GLU(0); }, {4, 3});
  check("log_sigmoid", [] { return LogSigmoid(); }, {3, 4});
  check("softsign", [] { return Softsign(); }, {3, 4});
  check("tanhshrink", [] { return Tanhshrink(); }, {3, 4});
  check("hardshrink", [] { return Hardshrink(0.3); }, {3, 4});
  check("softshrink", [] { return Softshrink(0.3); }, {3, 4});
  check("threshold", [] { return Threshold(0.1, 20); }, {3, 4});
  check("softmin", [] { return Softmin(1); }, {3, 4});
  check("softmax2d", [] { return Softmax2d(); }, {3, 4, 2});
}

TEST(Layers, MorePaddings) {
  check("constant_pad1d", [] { return ConstantPad1d({2, 1}, 3.5); }, {1, 2, 3});
  check("constant_pad3d", [] { return ConstantPad3d({1, 0, 2, 1, 0, 1}, -1); }, {1, 2, 2, 3});
  check("zero_pad1d", [] { return ZeroPad1d(2); }, {1, 2, 3});
  check("circular_pad2d", [] { return CircularPad2d({1, 2, 0, 1}); }, {1, 2, 3, 4});
  check("reflection_pad3d", [] { return ReflectionPad3d(1); }, {1, 2, 2, 3, 4});
  check("replication_pad3d", [] { return ReplicationPad3d({2, 0, 1, 1, 0, 3}); }, {1, 2, 2, 3, 4});
}

TEST(Layers, MoreDropouts) {
  check("dropout3d", [] { return Dropout3d(0.4); }, {2, 3, 2, 2, 2});
  check("dropout3d_unbatched", [] { return Dropout3d(0.4); }, {5, 2, 2, 2});
  check("alpha_dropout", [] { return AlphaDropout(0.3); }, {5, 6});
  check("feature_alpha_dropout", [] { return FeatureAlphaDropout(0.3); }, {4, 5, 3});
}

TEST(Layers, MoreLayersPrintAsPyTorchs) {
  EXPECT_EQ(CELU(2, true).str(), "CELU(alpha=2.0, inplace=True)");
  EXPECT_EQ(SELU().str(), "SELU()");
  EXPECT_EQ(GLU().str(), "GLU(dim=-1)");
  EXPECT_EQ(Softsign().str(), "Softsign()");
  EXPECT_EQ(Hardshrink().str(), "Hardshrink(0.5)");
  EXPECT_EQ(Threshold(0.1, 20.5).str(), "Threshold(threshold=0.1, value=20.5)");
  EXPECT_EQ(Softmin(1).str(), "Softmin(dim=1)");
  EXPECT_EQ(
      InstanceNorm2d(3).str(),
      "InstanceNorm2d(3, eps=1e-05, momentum=0.1, affine=False, bias=False, track_running_stats=False)");
  EXPECT_EQ(ConstantPad1d(2, 3.5).str(), "ConstantPad1d(padding=(2, 2), value=3.5)");
  EXPECT_EQ(ZeroPad3d(1).str(), "ZeroPad3d((1, 1, 1, 1, 1, 1))");
  EXPECT_EQ(CircularPad2d(1).str(), "CircularPad2d((1, 1, 1, 1))");
  EXPECT_EQ(AlphaDropout(0.3).str(), "AlphaDropout(p=0.3, inplace=False)");
}

TEST(Layers, BatchNorm) {
  check("batch_norm1d", [] { return BatchNorm1d(3); }, {5, 3});
  check("batch_norm2d", [] { return BatchNorm2d(3); }, {2, 3, 4, 5});
  check("batch_norm2d_eval",
        [] {
          BatchNorm2d bn(3);
          bn.eval();
          return bn;
        },
        {2, 3, 4, 5});
  check("batch_norm_cumulative", [] { return BatchNorm2d({.features = 3, .momentum = {}}); }, {2, 3, 4, 5});
}

TEST(Layers, OtherNorms) {
  check("layer_norm", [] { return LayerNorm({.shape = {4, 5}}); }, {3, 4, 5});
  check("group_norm", [] { return GroupNorm(2, 4); }, {2, 4, 3, 3});
  check("rms_norm", [] { return RMSNorm(5); }, {3, 5});
}

TEST(Layers, Pooling) {
  check("max_pool1d", [] { return MaxPool1d(3, 2, 1); }, {2, 3, 9});
  check("max_pool2d", [] { return MaxPool2d(2); }, {2, 3, 6, 7});
  check("avg_pool1d", [] { return AvgPool1d(2); }, {2, 3, 9});
  check("avg_pool2d", [] { return AvgPool2d(3, 2, 1); }, {2, 3, 6, 7});
  check("adaptive_avg_pool2d", [] { return AdaptiveAvgPool2d({2, 3}); }, {2, 3, 5, 7});
  check("adaptive_max_pool2d", [] { return AdaptiveMaxPool2d(2); }, {2, 3, 5, 7});
}

TEST(Layers, Activations) {
  check("prelu", [] { return PReLU(3); }, {2, 3, 4});
  check("relu6", [] { return ReLU6(); }, {4, 6});
  check("gelu", [] { return GELU(); }, {4, 6});
  check("gelu_tanh", [] { return GELU("tanh"); }, {4, 6});
  check("silu", [] { return SiLU(); }, {4, 6});
  check("sigmoid", [] { return Sigmoid(); }, {4, 6});
  check("tanh", [] { return Tanh(); }, {4, 6});
  check("leaky_relu", [] { return LeakyReLU(0.1); }, {4, 6});
  check("elu", [] { return ELU(); }, {4, 6});
  check("softplus", [] { return Softplus(); }, {4, 6});
  check("hardtanh", [] { return Hardtanh(-0.5, 0.5); }, {4, 6});
  check("hardswish", [] { return Hardswish(); }, {4, 6});
  check("hardsigmoid", [] { return Hardsigmoid(); }, {4, 6});
  check("mish", [] { return Mish(); }, {4, 6});
  check("softmax", [] { return Softmax(1); }, {4, 6});
  check("log_softmax", [] { return LogSoftmax(-1); }, {4, 6});
}

TEST(Layers, InPlaceActivationWritesItsInput) {
  Tensor x = wave({6});
  Tensor y = ReLU(true)(x);
  EXPECT_TRUE(y.is_same(x) || y.data() == x.data());
  EXPECT_EQ(x.min().item<float>(), 0);
}

TEST(Layers, DropoutDrawsPyTorchsNumbers) {
  check("dropout", [] { return Dropout(0.4); }, {8, 16});
  Dropout drop(0.5);
  drop.eval();
  Tensor x = wave({4});
  EXPECT_EQ(drop(x).to_vector<float>(), x.to_vector<float>());
}

TEST(Layers, Embedding) {
  check_call(
      "embedding", [] { return Embedding({.count = 5, .dim = 4, .padding_idx = 0}); }, {2},
      [](Embedding& e, const Tensor& x) {
        return e(tensor({1, 0, 3, 3, 2, 1}).to(kLong).view({2, 3})) + x.sum();
      });
}

TEST(Layers, rows_that_are_read_are_shortened_to_max_norm) {
  Embedding e({.count = 3, .dim = 2, .max_norm = 1.0});
  copy_(e.weight.detach(), tensor({3.0f, 4.0f, 0.3f, 0.4f, 6.0f, 8.0f}).view({3, 2}));
  Tensor y = e(tensor({0, 1, 0}).to(kLong));
  std::vector<float> w = e.weight.detach().to_vector<float>();
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(w[i], (std::vector<float>{0.6f, 0.8f, 0.3f, 0.4f})[i], 1e-6f) << i;
  EXPECT_EQ(w[4], 6.0f) << "a row that nobody asked for";
  y.sum().backward();
  EXPECT_EQ(e.weight.grad().to_vector<float>(), (std::vector<float>{2, 2, 1, 1, 0, 0}));

  EmbeddingBag bag({.count = 3, .dim = 2, .mode = "sum", .max_norm = 7.0, .norm_type = 1});
  copy_(bag.weight.detach(), tensor({3.0f, 4.0f, 0.3f, 0.4f, 6.0f, 8.0f}).view({3, 2}));
  std::vector<float> sums = bag(tensor({0, 2}).to(kLong).view({1, 2})).to_vector<float>();
  EXPECT_NEAR(sums[0], 6.0f, 1e-5f);
  EXPECT_NEAR(sums[1], 8.0f, 1e-5f);
}

Tensor causal() { return tensor({false, true, true, false, false, true, false, false, false}).view({3, 3}); }
Tensor padding() { return tensor({false, false, true, false, false, false}).view({2, 3}); }

auto attend(AttendOptions options = {}) {
  return [options](MultiheadAttention& m, const Tensor& x) {
    auto [y, weights] = m(x, x, x, options);
    return weights.defined() ? cat({y.flatten(), weights.flatten()}) : y;
  };
}

TEST(Layers, Attention) {
  check_call(
      "attention", [] { return MultiheadAttention(6, 2); }, {3, 2, 6}, attend());
  check_call(
      "attention_batch_first",
      [] { return MultiheadAttention({.embed_dim = 6, .num_heads = 2, .batch_first = true}); }, {2, 3, 6},
      attend({.key_padding_mask = padding(), .attn_mask = causal(), .need_weights = false}));
  check_call(
      "attention_bias_kv",
      [] {
        return MultiheadAttention(
            {.embed_dim = 6, .num_heads = 2, .add_bias_kv = true, .add_zero_attn = true});
      },
      {3, 2, 6}, attend({.attn_mask = causal(), .average_weights = false}));
  check_call(
      "attention_kdim",
      [] { return MultiheadAttention({.embed_dim = 6, .num_heads = 2, .kdim = 5, .vdim = 4}); }, {3, 2, 6},
      [](MultiheadAttention& m, const Tensor& x) {
        return std::get<0>(m(x, wave({4, 2, 5}), wave({4, 2, 4})));
      });
  check_call(
      "attention_unbatched",
      [] { return MultiheadAttention({.embed_dim = 6, .num_heads = 3, .bias = false}); }, {3, 6}, attend());
}

TEST(Layers, TransformerEncoder) {
  for (bool norm_first : {false, true})
    check_call(
        norm_first ? "encoder_norm_first" : "encoder",
        [&] {
          return nn::TransformerEncoder(TransformerEncoderLayer({.d_model = 8,
                                                                 .nhead = 2,
                                                                 .dim_feedforward = 16,
                                                                 .dropout = 0,
                                                                 .activation = "gelu",
                                                                 .batch_first = true,
                                                                 .norm_first = norm_first}),
                                        2);
        },
        {2, 3, 8},
        [](nn::TransformerEncoder& m, const Tensor& x) {
          return m(x, EncodeOptions{.key_padding_mask = padding()});
        });
}

TEST(Layers, TransformerDecoder) {
  for (bool norm_first : {false, true})
    check_call(
        norm_first ? "decoder_norm_first" : "decoder",
        [&] {
          TransformerDecoderLayer layer(
              {.d_model = 8, .nhead = 2, .dim_feedforward = 16, .dropout = 0, .norm_first = norm_first});
          return nn::TransformerDecoder(layer, 2, LayerNorm({8}));
        },
        {3, 2, 8},
        [](nn::TransformerDecoder& m, const Tensor& x) {
          return m(x, wave({4, 2, 8}).cos(), DecodeOptions{.tgt_mask = square_subsequent_mask(3)});
        });
}

TEST(Layers, Transformer) {
  check_call(
      "transformer",
      [] {
        return nn::Transformer({.d_model = 8,
                                .nhead = 2,
                                .num_encoder_layers = 1,
                                .num_decoder_layers = 2,
                                .dim_feedforward = 16,
                                .dropout = 0,
                                .activation = "gelu",
                                .batch_first = true});
      },
      {2, 3, 8},
      [](nn::Transformer& m, const Tensor& x) {
        return m(x, wave({2, 4, 8}).cos());
      });
  nn::Transformer small({.d_model = 8, .nhead = 2, .num_encoder_layers = 1, .num_decoder_layers = 1});
  EXPECT_THROW(small(wave({2, 3, 8}), wave({2, 4, 8})), Error);  // batches of 3 and 4
  EXPECT_THROW(small(wave({2, 3, 6}), wave({2, 3, 6})), Error);  // not d_model wide
}

TEST(Layers, Unpooling) {
  check_call(
      "max_unpool1d", [] { return MaxUnpool1d(2); }, {1, 2, 6},
      [](MaxUnpool1d& m, const Tensor& x) {
        auto [values, indices] = max_pool1d_with_indices(x, {2});
        return m(values, indices);
      });
  check_call(
      "max_unpool3d", [] { return MaxUnpool3d(2, 2); }, {1, 2, 4, 4, 4},
      [](MaxUnpool3d& m, const Tensor& x) {
        auto [values, indices] = max_pool3d_with_indices(x, {2, 2, 2});
        return m(values, indices);
      });
  EXPECT_EQ(MaxUnpool1d(3).str(), "MaxUnpool1d(kernel_size=(3,), stride=(3,), padding=(0,))");
}

TEST(Layers, FractionalPooling) {
  check("fractional_max_pool2d",
        [] {
          return FractionalMaxPool2d({.kernel = 2, .output_size = {3, 2}});
        },
        {2, 2, 6, 7});
  check("fractional_max_pool3d", [] { return FractionalMaxPool3d({.kernel = 2, .output_ratio = {0.5}}); },
        {2, 6, 7, 8});
  EXPECT_THROW(FractionalMaxPool2d({.kernel = 2}), Error);
  EXPECT_THROW(FractionalMaxPool2d({.kernel = 2, .output_size = 3, .output_ratio = {0.5}}), Error);
  EXPECT_THROW(FractionalMaxPool3d({.kernel = 2, .output_ratio = {1.5}}), Error);
}

TEST(Layers, Losses) {
  auto pair = [](const Tensor& target) {
    return [target](auto& loss, const Tensor& x) { return loss(x, target); };
  };
  Tensor target = wave({4, 3}).cos(), classes = tensor({1, 0, 2, 2}).to(kLong);
  check_call(
      "mse_loss", [] { return MSELoss(); }, {4, 3}, pair(target));
  check_call(
      "l1_loss", [] { return L1Loss(); }, {4, 3}, pair(target));
  check_call(
      "smooth_l1_loss", [] { return SmoothL1Loss(Reduction::mean, 0.5); }, {4, 3}, pair(target));
  check_call(
      "huber_loss", [] { return HuberLoss(Reduction::mean, 0.5); }, {4, 3}, pair(target));
  check_call(
      "cross_entropy", [] { return CrossEntropyLoss({.label_smoothing = 0.1}); }, {4, 3}, pair(classes));
  check_call(
      "cross_entropy_weight",
      [] {
        return CrossEntropyLoss({.weight = tensor({0.5f, 1.f, 2.f}), .ignore_index = 0});
      },
      {4, 3}, pair(classes));
  check_call(
      "nll_loss", [] { return NLLLoss({.reduction = Reduction::sum}); }, {4, 3}, pair(classes));
  check_call(
      "bce_logits",
      [] {
        return BCEWithLogitsLoss({.pos_weight = tensor({1.f, 2.f, 3.f})});
      },
      {4, 3}, pair((wave({4, 3}) > 0).to(kFloat)));
  check_call(
      "kl_div", [] { return KLDivLoss(Reduction::sum); }, {4, 3}, pair(wave({4, 3}).softmax(1)));
}

TEST(Layers, PowerAveragesAndCrossMapNorms) {
  check("lp_pool1d", [] { return LPPool1d(2, 3, 2); }, {2, 3, 9});
  check("lp_pool3d", [] { return LPPool3d(2, {2, 1, 3}, {}, true); }, {1, 2, 4, 3, 7});
  check("cross_map_norm", [] { return CrossMapLRN2d(3, 0.5, 0.7, 2); }, {2, 6, 2, 3});
  check("cross_map_norm_even", [] { return CrossMapLRN2d(4, 0.5); }, {2, 7, 2, 2});
  EXPECT_EQ(LPPool1d(2, 3).str(), "LPPool1d(norm_type=2, kernel_size=3, stride=None, ceil_mode=False)");
  EXPECT_EQ(LPPool3d(1.5, {2, 3, 2}, {}, true).str(),
            "LPPool3d(norm_type=1.5, kernel_size=(2, 3, 2), stride=None, ceil_mode=True)");
  EXPECT_EQ(CrossMapLRN2d(3).str(), "CrossMapLRN2d(3, alpha=0.0001, beta=0.75, k=1)");
  EXPECT_EQ(error_of([] {
              CrossMapLRN2d(3)(wave({2, 3, 4}));
            }),
            "CrossMapLRN2d: Expected input to be 4D, got 3D instead.");
}

TEST(Layers, UpsamplingOfOneMode) {
  check("upsampling_nearest2d", [] { return UpsamplingNearest2d({.scale_factor = {2}}); }, {1, 2, 3, 4});
  check("upsampling_bilinear2d", [] { return UpsamplingBilinear2d({.size = {5, 7}}); }, {1, 2, 3, 4});
  EXPECT_EQ(UpsamplingNearest2d({.scale_factor = {2}}).str(),
            "UpsamplingNearest2d(scale_factor=2.0, mode='nearest')");
  EXPECT_EQ(UpsamplingBilinear2d({.size = {3, 4}}).str(),
            "UpsamplingBilinear2d(size=(3, 4), mode='bilinear')");
}

TEST(Layers, TripletsByADistance) {
  auto triplet = [](auto& loss, const Tensor& x) {
    return loss(x, flip(x, {0}) * 0.5, roll(x, {1}, {1}) - 0.2);
  };
  check_call(
      "triplet_distance",
      [] { return TripletMarginWithDistanceLoss({.margin = 2, .swap = true, .reduction = Reduction::none}); },
      {4, 6}, triplet);
  check_call(
      "triplet_cosine",
      [] {
        return TripletMarginWithDistanceLoss(
            {.distance = [](const Tensor& a, const Tensor& b) { return 1 - cosine_similarity(a, b); }});
      },
      {4, 6}, triplet);
  EXPECT_EQ(TripletMarginWithDistanceLoss().str(),
            "TripletMarginWithDistanceLoss(\n  (distance_function): PairwiseDistance()\n)");
  EXPECT_EQ(error_of([] { TripletMarginWithDistanceLoss({.margin = 0}); }),
            "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got 0.0 instead");
}

TEST(Layers, AdaptiveSoftmax) {
  check_call(
      "adaptive_softmax",
      [] {
        return AdaptiveLogSoftmaxWithLoss(
            {.in = 8, .classes = 20, .cutoffs = {4, 10}, .div_value = 2, .head_bias = true});
      },
      {7, 8},
      [](auto& m, const Tensor& x) {
        auto [y, loss] = m(x, tensor({0, 3, 5, 11, 19, 4, 2}));
        return cat({y, loss.reshape({1}), m.log_prob(x).flatten(), m.predict(x).to(kFloat)});
      });
  check_call(
      "adaptive_softmax_one",
      [] {
        return AdaptiveLogSoftmaxWithLoss(16, 20, {4, 10});
      },
      {16},
      [](auto& m, const Tensor& x) {
        auto [y, loss] = m(x, tensor(int64_t{7}));
        return cat({stack({y, loss}), m.log_prob(x.unsqueeze(0))[0]});
      });
  AdaptiveLogSoftmaxWithLoss layer({.in = 8, .classes = 20, .cutoffs = {4, 10}, .div_value = 2});
  EXPECT_EQ(layer.str(), R"(AdaptiveLogSoftmaxWithLoss(
  (head): Linear(in_features=8, out_features=6, bias=False)
  (tail): ModuleList(
    (0): Sequential(
      (0): Linear(in_features=8, out_features=4, bias=False)
      (1): Linear(in_features=4, out_features=6, bias=False)
    )
    (1): Sequential(
      (0): Linear(in_features=8, out_features=2, bias=False)
      (1): Linear(in_features=2, out_features=10, bias=False)
    )
  )
))");
  EXPECT_EQ(error_of([&] {
              layer(wave({2, 8}), tensor({1, 20}));
            }),
            "Target values should be in [0, 19], but values in range [1, 20] were found. ");
  EXPECT_NE(error_of([] {
              AdaptiveLogSoftmaxWithLoss(8, 20, {4, 20});
            }).find("cutoffs should be"),
            std::string::npos);
}

TEST(Layers, ALossOfDifferentSizesWarns) {
  std::string text;
  OnWarning listen([&](const Warning& w) { text = w.text; });
  F::mse_loss(wave({4, 1}), wave({4}));
  EXPECT_NE(
      text.find(
          "Using a target size (torch.Size([4])) that is different to the input size (torch.Size([4, 1]))"),
      std::string::npos);
}

TEST(Layers, BadOptionsAreRefused) {
  EXPECT_EQ(error_of([] { MultiheadAttention(7, 2); }), "embed_dim must be divisible by num_heads");
  EXPECT_EQ(error_of([] { Conv2d({.in = 3, .out = 4, .kernel = 3, .groups = 2}); }),
            "in_channels must be divisible by groups");
  EXPECT_EQ(error_of([] { Conv2d({.in = 4, .out = 4, .kernel = 3, .stride = 2, .padding = "same"}); }),
            "padding='same' is not supported for strided convolutions");
  EXPECT_EQ(error_of([] {
              Conv2d({.in = 4, .out = 4, .kernel = {1, 2, 3}});
            }),
            "expected 2 numbers (or one for all of them), found 3");
  EXPECT_EQ(error_of([] { Conv2d({.in = 4, .out = 4, .kernel = 3, .padding = "x"}); }),
            "Invalid padding string 'x', should be one of {'valid', 'same'}");
  EXPECT_EQ(error_of([] { Dropout(2); }), "dropout probability has to be between 0 and 1, but got 2.0");
  EXPECT_EQ(error_of([] { GroupNorm(3, 4); }), "num_channels (4) must be divisible by num_groups (3)");
  EXPECT_EQ(error_of([] { Embedding({.count = 3, .dim = 4, .padding_idx = 5}); }),
            "Padding_idx must be within num_embeddings");
  EXPECT_EQ(error_of([] { InstanceNorm2d(3)(wave({2, 3})); }), "expected 3D or 4D input (got 2D input)");
  EXPECT_EQ(error_of([] {
              InstanceNorm2d({.features = 3, .affine = true})(wave({2, 4, 2, 2}));
            }),
            "expected input's size at dim=1 to match num_features (3), but got: 4.");
  EXPECT_EQ(error_of([] {
              InstanceNorm1d(3)(wave({2, 3, 1}));
            }),
            "Expected more than 1 spatial element when training, got input size torch.Size([2, 3, 1])");
  EXPECT_EQ(error_of([] { AlphaDropout(-0.5); }),
            "dropout probability has to be between 0 and 1, but got -0.5");
  EXPECT_EQ(error_of([] { BatchNorm2d(3)(wave({2, 3})); }), "expected 4D input (got 2D input)");
  EXPECT_EQ(error_of([] {
              BatchNorm2d(3)(wave({1, 3, 1, 1}));
            }),
            "Expected more than 1 value per channel when training, got input size torch.Size([1, 3, 1, 1])");
  EXPECT_EQ(error_of([] { TransformerEncoderLayer({.d_model = 8, .nhead = 2, .activation = "foo"}); }),
            "activation should be relu/gelu, not foo");
  EXPECT_NE(error_of([] { Linear(-1, 2); }).find("negative dimension -1"), std::string::npos);
}

}  // namespace
}  // namespace tern::nn
