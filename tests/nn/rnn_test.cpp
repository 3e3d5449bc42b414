// Recurrent layers, resizing, bags and the losses over margins against PyTorch's numbers; packed sequences;
// printing.
#include <gtest/gtest.h>

#include "tern/tern.h"
#include "tests/nn/expected.h"

namespace tern::nn {
namespace {

template <class Make, class Call>
void check(const std::string& name, Make make, Span<const SymInt> shape, Call call) {
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
}
template <class Call>
void check_function(const std::string& name, Span<const SymInt> shape, Call call) {
  check(
      name, [] { return Identity(); }, shape, [&](Identity&, const Tensor& x) { return call(x); });
}

TEST(Recurrent, Layers) {
  check(
      "lstm", [] { return LSTM({.input = 4, .hidden = 3, .num_layers = 2, .bidirectional = true}); },
      {5, 2, 4}, [](LSTM& m, const Tensor& x) { return std::get<0>(m(x)); });
  check(
      "lstm_projected",
      [] { return LSTM({.input = 4, .hidden = 5, .bias = false, .batch_first = true, .proj_size = 2}); },
      {2, 5, 4}, [](LSTM& m, const Tensor& x) { return std::get<0>(m(x)); });
  check(
      "gru", [] { return GRU({.input = 4, .hidden = 3, .num_layers = 2}); }, {5, 2, 4},
      [](GRU& m, const Tensor& x) {
        return cat({std::get<0>(m(x)).flatten(), std::get<1>(m(x)).flatten()});
      });
  check(
      "rnn_relu",
      [] { return RNN({.input = 4, .hidden = 3, .nonlinearity = "relu", .bidirectional = true}); }, {5, 4},
      [](RNN& m, const Tensor& x) { return std::get<0>(m(x)); });
}

TEST(Recurrent, WithAndWithoutGradientsAgree) {
  manual_seed(1);
  LSTM lstm({.input = 6, .hidden = 7, .num_layers = 2, .bidirectional = true});
  Tensor x = wave({9, 3, 6});
  Tensor trained = std::get<0>(lstm(x)), inferred;
  {
    NoGrad no_grad;
    inferred = std::get<0>(lstm(x));
  }
  EXPECT_TRUE(trained.requires_grad());
  EXPECT_LT((trained - inferred).abs().max().item<double>(), 1e-6);
}

TEST(Recurrent, PackedSequences) {
  check(
      "lstm_packed", [] { return LSTM(4, 3); }, {5, 3, 4},
      [](LSTM& m, const Tensor& x) {
        PackedSequence packed = utils::pack_padded_sequence(x, tensor({2, 5, 3}), false, false);
        return std::get<1>(std::get<1>(m(packed)));
      });
  std::vector<Tensor> sequences = {wave({2, 3}), wave({4, 3}), wave({1, 3})};
  PackedSequence packed = utils::pack_sequence(sequences, false);
  EXPECT_EQ(packed.batch_sizes.to_vector<int64_t>(), (std::vector<int64_t>{3, 2, 1, 1}));
  std::vector<Tensor> back = utils::unpack_sequence(packed);
  ASSERT_EQ(back.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(back[i].to_vector<double>(), sequences[i].to_vector<double>());
  EXPECT_THROW(utils::pack_padded_sequence(wave({4, 2, 3}), tensor({2, 4})), Error);
  EXPECT_THROW(utils::pack_padded_sequence(wave({4, 2, 3}), tensor({5, 4})), Error);
}

TEST(Recurrent, Cells) {
  check(
      "lstm_cell", [] { return LSTMCell(4, 3); }, {2, 4},
      [](LSTMCell& m, const Tensor& x) {
        auto [h, c] = m(x);
        return cat({h, c});
      });
  check(
      "gru_cell", [] { return GRUCell(4, 3); }, {2, 4}, [](GRUCell& m, const Tensor& x) { return m(x); });
  check(
      "rnn_cell", [] { return RNNCell({.input = 4, .hidden = 3, .bias = false}); }, {4},
      [](RNNCell& m, const Tensor& x) { return m(x); });
}

TEST(Recurrent, Printing) {
  EXPECT_EQ(
      LSTM({.input = 3,
            .hidden = 4,
            .num_layers = 2,
            .bias = false,
            .batch_first = true,
            .dropout = 0.5,
            .bidirectional = true,
            .proj_size = 2})
          .str(),
      "LSTM(3, 4, proj_size=2, num_layers=2, bias=False, batch_first=True, dropout=0.5, bidirectional=True)");
  EXPECT_EQ(RNNCell({.input = 3, .hidden = 4, .bias = false, .nonlinearity = "relu"}).str(),
            "RNNCell(3, 4, bias=False, nonlinearity=relu)");
  EXPECT_EQ(Upsample({.scale_factor = {2}}).str(), "Upsample(scale_factor=2.0, mode='nearest')");
  EXPECT_EQ(Unfold(3).str(), "Unfold(kernel_size=3, dilation=1, padding=0, stride=1)");
  EXPECT_EQ(EmbeddingBag({.count = 5, .dim = 3, .mode = "sum", .padding_idx = 1}).str(),
            "EmbeddingBag(5, 3, mode='sum', padding_idx=1)");
}

TEST(Recurrent, WrongArgumentsAreNamed) {
  LSTM lstm(4, 3);
  auto message = [](auto f) -> std::string {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message([&] {
              lstm(wave({2, 2, 5}));
            }).find("input.size(-1) must be equal to input_size. Expected 4, got 5"),
            std::string::npos);
  EXPECT_NE(message([&] { lstm(wave({4})); }).find("LSTM: Expected input to be 2D or 3D, got 1D instead"),
            std::string::npos);
  EXPECT_NE(message([] {
              GRU({.input = 4, .hidden = 3, .proj_size = 2});
            }).find("proj_size argument is only supported"),
            std::string::npos);
  EXPECT_NE(message([] {
              F::interpolate(wave({1, 1, 2, 2}), {.mode = "linear"});
            }).find("either size or scale_factor"),
            std::string::npos);
}

TEST(Images, Resizing) {
  for (std::string mode : {"nearest", "nearest-exact", "bilinear", "bicubic", "area"})
    check(
        "upsample_" + mode, [&] { return Upsample({.scale_factor = {1.7}, .mode = mode}); }, {1, 2, 4, 5},
        [](Upsample& m, const Tensor& x) { return m(x); });
  check_function("upsample_aa", {1, 2, 8, 9}, [](const Tensor& x) {
    return F::interpolate(x, {.size = {3, 5}, .mode = "bilinear", .antialias = true});
  });
}

TEST(Images, BlocksAndSamples) {
  check(
      "unfold",
      [] {
        return Unfold({.kernel = {2, 3}, .padding = 1, .stride = 2});
      },
      {1, 2, 5, 6}, [](Unfold& m, const Tensor& x) { return m(x); });
  check(
      "fold",
      [] {
        return Fold({4, 5}, {2, 2});
      },
      {1, 8, 12}, [](Fold& m, const Tensor& x) { return m(x); });
  check_function("grid_sample", {1, 2, 4, 5}, [](const Tensor& x) {
    return F::grid_sample(x, wave({1, 3, 3, 2}) * 1.2, "bicubic", "reflection");
  });
  check(
      "local_response_norm", [] { return LocalResponseNorm(2); }, {1, 4, 3, 3},
      [](LocalResponseNorm& m, const Tensor& x) { return m(x); });
}

TEST(Images, BagsAndBilinear) {
  check(
      "embedding_bag", [] { return EmbeddingBag({.count = 6, .dim = 3, .mode = "sum", .padding_idx = 2}); },
      {8},
      [](EmbeddingBag& m, const Tensor& x) {
        return m(tensor({0, 2, 5, 5, 1, 0, 3, 4}), tensor({0, 3, 3, 6}), x);
      });
  check(
      "bilinear", [] { return Bilinear(3, 3, 2); }, {4, 3},
      [](Bilinear& m, const Tensor& x) { return m(x, flip(x, {0})); });
}

TEST(MarginLosses, AgreeWithPyTorch) {
  check_function("ctc", {6, 2, 4}, [](const Tensor& x) {
    Tensor targets = from_vector(std::vector<int64_t>{1, 2, 2, 3, 1, 0}, {2, 3});
    return repeat(F::ctc_loss(log_softmax(x, -1), targets, tensor({6, 5}), tensor({3, 2}),
                              {.reduction = Reduction::none}),
                  {4});
  });
  check_function("triplet", {3, 4}, [](const Tensor& x) {
    return F::triplet_margin_loss(x, flip(x, {0}), flip(x, {1}), {.reduction = Reduction::none});
  });
}

}  // namespace
}  // namespace tern::nn
