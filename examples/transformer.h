// A small transformer encoder for sequences of any length in batches of any size, with padding, and its
// training on a seeded toy task: say for every position which token came just before it.
#pragma once
#include "tern/tern.h"

namespace examples {

using namespace tern;

struct EncoderBlock : nn::Layer<EncoderBlock> {
  nn::LayerNorm norm1, norm2;
  nn::MultiheadAttention attention;
  nn::Linear up, down;

  EncoderBlock(int64_t width, int64_t heads)
      : norm1(add("norm1", nn::LayerNorm(width))),
        norm2(add("norm2", nn::LayerNorm(width))),
        attention(add("attention",
                      nn::MultiheadAttention({.embed_dim = width, .num_heads = heads, .batch_first = true}))),
        up(add("up", nn::Linear(width, 4 * width))),
        down(add("down", nn::Linear(4 * width, width))) {}

  // `padding` is true where a token only fills its row up.
  Tensor forward(Tensor x, Tensor padding) {
    Tensor y = norm1(x);
    auto [attended, weights] =
        attention(y, y, y, nn::AttendOptions{.key_padding_mask = padding, .need_weights = false});
    x = x + attended;
    return x + down(gelu(up(norm2(x))));
  }
};

struct Transformer : nn::Module {
  static constexpr int64_t vocabulary = 20, width = 32, longest = 64;
  nn::Embedding tokens = add("tokens", nn::Embedding(vocabulary, width));
  nn::Embedding positions = add("positions", nn::Embedding(longest, width));
  nn::ModuleList<EncoderBlock> blocks =
      add("blocks", nn::ModuleList{EncoderBlock(width, 4), EncoderBlock(width, 4)});
  nn::LayerNorm norm = add("norm", nn::LayerNorm(width));
  nn::Linear head = add("head", nn::Linear(width, vocabulary));

  // (batch, length) of tokens and of padding gives (batch, length, vocabulary).
  Tensor forward(Tensor x, Tensor padding) {
    SymInt length = x.size(1);
    Tensor y = tokens(x);  // alone: which side of a sum is computed first is the compiler's choice
    y = y + positions(arange(length));
    for (EncoderBlock& block : blocks) y = block(y, padding);
    return head(norm(y));
  }
};

inline std::vector<double> train(Transformer& net, int steps = 40) {
  manual_seed(1);
  Tensor x = randint(Transformer::vocabulary, {16, 12});
  Tensor padding = zeros({16, 12}, kBool);
  padding.slice(0, 0, 4).slice(1, 10, 12).fill_(true);  // the first four are shorter
  Tensor target = roll(x, {1}, {1}).masked_fill(padding, -100);
  optim::AdamW adam(net.parameters(), {.lr = 3e-3});
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    adam.zero_grad();
    Tensor scores = nn::call(net, x, padding);
    Tensor loss = nn::F::cross_entropy(scores.flatten(0, 1), target.flatten());  // -100 is not counted
    loss.backward();
    optim::clip_grad_norm_(net.parameters(), 1.0);
    adam.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

}  // namespace examples
