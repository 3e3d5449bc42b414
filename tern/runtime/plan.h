// A plan: one graph for one set of input sizes, ready to run. Shapes are known, memory is laid out, weights
// are packed, views cost nothing; running it is a walk over steps that call kernels.
#pragma once
#include <vector>

#include "tern/base/pointer.h"
#include "tern/runtime/session.h"
#include "tern/tensor/arg.h"

namespace tern::kernels {
enum class Activation : uint8_t;
}

namespace tern::runtime {

struct Step {
  virtual ~Step() = default;
  virtual void run() = 0;
  // Where every image is treated by itself: some of them, others may be done at the same time.
  virtual void run_images(int64_t, int64_t) {}
  int64_t images = 0;   // how many there are; 0: run() does it all
  double products = 0;  // about as many: what it is worth
  std::string label;    // "aten::linear %fc1", for profiles and errors
};

class Plan {
 public:
  // `inputs`: for every unbound graph input a tensor with the sizes of the runs to come, or the value of a
  // number. Throws not_supported when the graph cannot be planned (control flow, data-dependent sizes): it
  // must be interpreted.
  Plan(const ir::Graph& graph, Span<const Binding> bindings, Span<const Value> inputs);
  ~Plan();

  // `inputs`: the unbound ones in order; sizes and dtypes are those the plan was made for. `seconds`, when
  // given, gets the time of each step added.
  std::vector<Value> run(Span<const Value> inputs, std::vector<double>* seconds = nullptr);

  size_t arena_bytes() const { return arena_bytes_; }

  // Steps [first, last] on images: a thread does all of them for some images, and waits for nobody in
  // between.
  struct Section {
    size_t first, last;
    int64_t part;  // images taken at a time
  };
  const std::vector<Section>& sections() const { return sections_; }
  const std::vector<Owned<Step>>& steps() const { return steps_; }

 private:
  friend class Planner;
  struct Output {
    Value value;         // a constant, a number, or the planned tensor
    bool fresh = false;  // its memory is made anew for every run and given away
  };
  Owned<ir::Graph> graph_;     // retraced for these sizes: kernels and views only
  std::vector<Value> values_;  // everything steps borrow from
  std::vector<Owned<Step>> steps_;
  std::vector<Section> sections_;
  std::vector<Tensor> inputs_;  // planned stand-ins whose memory is set for each run
  std::vector<Output> outputs_;
  std::vector<Storage> fresh_;  // storages of outputs
  size_t arena_bytes_ = 0;
  Shared<void> arena_;
};

// Steps that know more than "call the kernel"; nullptr when a node has none. (steps.cpp)
struct NodeView {
  const ir::Node& node;
  Span<const Value> inputs;  // planned, in schema order
  Tensor output;
};
Owned<Step> make_pointwise_step(const NodeView& view);
// Linear layers with constant weights (linear, addmm, mm): y = activation(x·W + bias + residual). `bias` is
// for a layer that has none; `activation` is a node that is fused behind it (nullptr: none).
bool can_pack_linear(const NodeView& view);
Owned<Step> make_linear_step(const NodeView& view, const Tensor& bias, const ir::Node* activation,
                             const Tensor& residual);
kernels::Activation activation_of(const ir::Node* node);
bool can_fuse_activation(const ir::Node& node);

// Images, with their channels innermost. (images.cpp) `norm` are the operands of
// _native_batch_norm_legit_no_training, all constant but the first.
bool can_prepare_conv(const ir::Node& node, const Tensor& weight);
Owned<Step> make_conv_step(const NodeView& view, const ir::Node* activation, const Tensor& residual);
void fold_batch_norm(const std::vector<Value>& norm, std::vector<Value>& conv_inputs);
Owned<Step> make_affine_step(const std::vector<Value>& norm, const Tensor& x, const ir::Node* activation,
                             const Tensor& out);
Owned<Step> make_pool_step(const NodeView& view);  // nullptr: not a pooling this can do
Owned<Step> make_join_step(const std::vector<Tensor>& parts, const Tensor& out);
Owned<Step> make_transpose_step(const Tensor& from,
                                const Tensor& to);  // nullptr: not float, not dense

}  // namespace tern::runtime
