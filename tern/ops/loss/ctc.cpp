// Connectionist temporal classification (Graves et al. 2006): the probability of a target summed over all its
// alignments, forward and backward in time, in logarithms.
#include <cmath>
#include <limits>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"
#include "tern/ops/margin.args.h"

namespace tern {
namespace {

// What the kernels read: the label of place s of batch b's target with blanks around each.
struct Labels {
  std::vector<int64_t> values;  // all targets
  std::vector<int64_t> begin;   // of each batch
  int64_t stride = 1;
  int64_t longest = 0;
  int64_t blank = 0;
  int64_t at(int64_t b, int64_t s) const {
    return s % 2 == 0 ? blank : values[static_cast<size_t>(begin[static_cast<size_t>(b)] + stride * (s / 2))];
  }
};

struct Lengths {
  std::vector<int64_t> input, target;
};

Shapes ctc_shapes(const Tensor& log_probs, const Tensor& targets, Ints input_lengths, Ints target_lengths,
                  int64_t blank) {
  if (log_probs.dim() != 3)
    failf("ctc_loss: expected log_probs of three dimensions, got {}", str(log_probs.sizes()));
  SymInt batch = log_probs.size(1), classes = log_probs.size(2);
  if (blank < 0 || classes <= blank) fail("blank must be in label range");
  if (batch != static_cast<int64_t>(input_lengths.size())) fail("input_lengths must be of size batch_size");
  if (batch != static_cast<int64_t>(target_lengths.size())) fail("target_lengths must be of size batch_size");
  if (targets.dim() != 1 && targets.dim() != 2)
    fail("Expected tensor to have 1 or 2 dimensions, for argument 'targets'");
  int64_t longest = 0;
  for (int64_t n : target_lengths) longest = std::max(longest, n);
  return {Shape(Dims({batch}), log_probs.dtype()),
          Shape(Dims({batch, log_probs.size(0), SymInt(2 * longest + 1)}), log_probs.dtype())};
}

Labels read_labels(const Tensor& log_probs, const Tensor& targets, Ints input_lengths, Ints target_lengths,
                   int64_t blank) {
  if (targets.dtype() != kLong && targets.dtype() != kInt)
    failf("Expected tensor to have one of the scalar types Long, Int for argument 'targets', but got {}",
          script_name(targets.dtype()));
  Labels l;
  l.values = targets.to_vector<int64_t>();
  l.blank = blank;
  const int64_t batch = log_probs.int_sizes()[1], time = log_probs.int_sizes()[0],
                classes = log_probs.int_sizes()[2];
  int64_t position = 0;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t n = target_lengths[static_cast<size_t>(b)], t = input_lengths[static_cast<size_t>(b)];
    if (n < 0) failf("Expected target_lengths to have value at least 0, but got value {}", n);
    if (t < 0) failf("Expected input_lengths to have value at least 0, but got value {}", t);
    if (t > time)
      failf(
          "Expected input_lengths to have value at most {}, but got value {} (while checking arguments for "
          "ctc_loss)",
          time, t);
    l.longest = std::max(l.longest, n);
    l.begin.push_back(targets.dim() == 1 ? position : b * targets.int_sizes()[1]);
    position += n;
    if (targets.dim() == 2 && n > targets.int_sizes()[1])
      failf("Expected tensor to have size at least {} at dimension 1, but got size {} for argument 'targets'",
            n, targets.int_sizes()[1]);
  }
  if (targets.dim() == 1 && position != targets.int_sizes()[0])
    failf("Expected tensor to have size {} at dimension 0, but got size {} for argument 'targets'", position,
          targets.int_sizes()[0]);
  if (targets.dim() == 2 && targets.int_sizes()[0] != batch)
    failf("Expected tensor to have size {} at dimension 0, but got size {} for argument 'targets'", batch,
          targets.int_sizes()[0]);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < target_lengths[static_cast<size_t>(b)]; ++i) {
      int64_t label = l.at(b, 2 * i + 1);
      if (label < 0 || label >= classes)
        failf("ctc_loss: the label {} is not one of the {} classes", label, classes);
    }
  return l;
}

template <class T>
constexpr T none = -std::numeric_limits<T>::infinity();

template <class T>
T log_sum(T a, T b, T c) {
  T top = std::max(a, std::max(b, c));
  if (top == none<T>) return top;
  return std::log(std::exp(a - top) + std::exp(b - top) + std::exp(c - top)) + top;
}

}  // namespace

Shapes shape__ctc_loss(const args::_ctc_loss& a) {
  return ctc_shapes(a.log_probs, a.targets, a.input_lengths, a.target_lengths, a.blank);
}
void kernel__ctc_loss(const args::_ctc_loss& a, Out out) {
  Labels labels = read_labels(a.log_probs, a.targets, a.input_lengths, a.target_lengths, a.blank);
  Tensor p = row_major(a.log_probs);
  if (p.dtype() != kFloat && p.dtype() != kDouble) not_implemented_for("ctc_loss_cpu", p.dtype());
  const int64_t time = p.int_sizes()[0], batch = p.int_sizes()[1], classes = p.int_sizes()[2];
  const int64_t width = 2 * labels.longest + 1;
  fill_elements(out[1], Scalar(-INFINITY));
  by_float_dtype("ctc_loss_cpu", p.dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      const T* lp = p.data_ptr<T>();
      parallel_for(0, batch, 1, [&](int64_t from, int64_t to) {
        for (int64_t b = from; b < to; ++b) {
          const int64_t n = a.target_lengths[static_cast<size_t>(b)],
                        steps = a.input_lengths[static_cast<size_t>(b)];
          T* alpha = out[1].data_ptr<T>() + b * time * width;
          auto prob = [&](int64_t t, int64_t s) { return lp[(t * batch + b) * classes + labels.at(b, s)]; };
          T& loss = out[0].data_ptr<T>()[b];
          if (steps == 0) {
            loss = n == 0 ? T(0) : -none<T>;
            continue;
          }
          alpha[0] = prob(0, 0);
          if (n > 0) alpha[1] = prob(0, 1);
          for (int64_t t = 1; t < steps; ++t)
            for (int64_t s = 0; s < 2 * n + 1; ++s) {
              const T* before = alpha + (t - 1) * width;
              bool skips = s > 1 && labels.at(b, s - 2) != labels.at(b, s);
              alpha[t * width + s] =
                  log_sum(before[s], s > 0 ? before[s - 1] : none<T>, skips ? before[s - 2] : none<T>) +
                  prob(t, s);
            }
          const T* last = alpha + (steps - 1) * width;
          loss = -log_sum(last[2 * n], n > 0 ? last[2 * n - 1] : none<T>, none<T>);
        }
      });
    }
  });
}

Shapes shape__ctc_loss_backward(const args::_ctc_loss_backward& a) {
  return {Shape(a.log_probs.sizes(), a.log_probs.dtype())};
}
void kernel__ctc_loss_backward(const args::_ctc_loss_backward& a, Out out) {
  Labels labels = read_labels(a.log_probs, a.targets, a.input_lengths, a.target_lengths, a.blank);
  Tensor p = row_major(a.log_probs), losses = row_major(a.neg_log_likelihood),
         alphas = row_major(a.log_alpha), grads = row_major(a.grad);
  if (p.dtype() != kFloat && p.dtype() != kDouble) not_implemented_for("ctc_loss_backward_cpu", p.dtype());
  const int64_t time = p.int_sizes()[0], batch = p.int_sizes()[1], classes = p.int_sizes()[2];
  const int64_t width = 2 * labels.longest + 1;
  fill_elements(out[0], 0);
  by_float_dtype("ctc_loss_backward_cpu", p.dtype(), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      const T* lp = p.data_ptr<T>();
      T* g = out[0].data_ptr<T>();
      parallel_for(0, batch, 1, [&](int64_t from, int64_t to) {
        std::vector<T> beta(static_cast<size_t>(width)), next(static_cast<size_t>(width)),
            share(static_cast<size_t>(classes));
        for (int64_t b = from; b < to; ++b) {
          const int64_t n = a.target_lengths[static_cast<size_t>(b)],
                        steps = a.input_lengths[static_cast<size_t>(b)];
          const T loss = losses.data_ptr<T>()[b], grad = grads.data_ptr<T>()[b];
          if (steps == 0 || (a.zero_infinity && loss == -none<T>)) continue;
          const T* alpha = alphas.data_ptr<T>() + b * time * width;
          auto prob = [&](int64_t t, int64_t s) { return lp[(t * batch + b) * classes + labels.at(b, s)]; };
          for (int64_t t = steps; t-- > 0;) {
            for (int64_t s = 0; s < 2 * n + 1; ++s) {
              if (t == steps - 1) {
                next[static_cast<size_t>(s)] = s >= 2 * n - 1 ? prob(t, s) : none<T>;
                continue;
              }
              auto after = [&](int64_t k) { return k < 2 * n + 1 ? beta[static_cast<size_t>(k)] : none<T>; };
              bool skips = s + 2 < 2 * n + 1 && labels.at(b, s + 2) != labels.at(b, s);
              next[static_cast<size_t>(s)] =
                  log_sum(after(s), after(s + 1), skips ? after(s + 2) : none<T>) + prob(t, s);
            }
            std::swap(beta, next);
            std::fill(share.begin(), share.end(), none<T>);
            for (int64_t s = 0; s < 2 * n + 1; ++s) {
              T& to_class = share[static_cast<size_t>(labels.at(b, s))];
              to_class = log_sum(to_class, alpha[t * width + s] + beta[static_cast<size_t>(s)], none<T>);
            }
            for (int64_t c = 0; c < classes; ++c) {
              const T lc = lp[(t * batch + b) * classes + c];
              g[(t * batch + b) * classes + c] =
                  (std::exp(lc) - std::exp(share[static_cast<size_t>(c)] + loss - lc)) * grad;
            }
          }
        }
      });
    }
  });
}

namespace {

std::vector<int64_t> lengths_of(const char* which, const Tensor& t) {
  if (!is_integral(t.dtype())) failf("{} must be integral", which);
  if (t.is_fake())
    failf(ErrorKind::not_supported, "ctc_loss: {} must be known while exporting: give a list of ints", which);
  return t.to_vector<int64_t>();
}

}  // namespace

std::tuple<Tensor, Tensor> body__ctc_loss_Tensor(const args::_ctc_loss_Tensor& a) {
  std::vector<int64_t> in = lengths_of("input_lengths", a.input_lengths),
                       out = lengths_of("target_lengths", a.target_lengths);
  return _ctc_loss(a.log_probs, a.targets, Ints(in), Ints(out), a.blank, a.zero_infinity);
}
Tensor body__ctc_loss_backward_Tensor(const args::_ctc_loss_backward_Tensor& a) {
  std::vector<int64_t> in = lengths_of("input_lengths", a.input_lengths),
                       out = lengths_of("target_lengths", a.target_lengths);
  return _ctc_loss_backward(a.grad, a.log_probs, a.targets, Ints(in), Ints(out), a.neg_log_likelihood,
                            a.log_alpha, a.blank, a.zero_infinity);
}
Tensor body_ctc_loss_IntList(const args::ctc_loss_IntList& a) {
  bool batched = a.log_probs.dim() == 3;
  Tensor log_probs = batched ? a.log_probs : a.log_probs.unsqueeze(1);
  Tensor targets = batched ? a.targets : a.targets.unsqueeze(0);
  Tensor loss =
      std::get<0>(_ctc_loss(log_probs, targets, a.input_lengths, a.target_lengths, a.blank, a.zero_infinity));
  if (a.zero_infinity) loss = where(loss == INFINITY, wrap_number(0), loss);
  if (a.reduction == 1) {
    std::vector<int64_t> lengths(a.target_lengths.begin(), a.target_lengths.end());
    Tensor n = clamp_min(from_vector(lengths, {static_cast<int64_t>(lengths.size())}).to(loss.dtype()), 1);
    return mean(loss / n);
  }
  if (a.reduction == 2) return sum(loss);
  return batched ? loss : loss.squeeze(0);
}
Tensor body_ctc_loss_Tensor(const args::ctc_loss_Tensor& a) {
  std::vector<int64_t> in = lengths_of("input_lengths", a.input_lengths),
                       out = lengths_of("target_lengths", a.target_lengths);
  return ctc_loss(a.log_probs, a.targets, Ints(in), Ints(out), a.blank, a.reduction, a.zero_infinity);
}

}  // namespace tern
