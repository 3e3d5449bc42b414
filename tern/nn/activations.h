// Activation layers.
#pragma once
#include "tern/nn/layers.h"

namespace tern::nn {

// ---- without options ----

struct ActivationKind {
  const char* type_name;
  Tensor (*apply)(const Tensor& x, Loc loc);
};
template <const ActivationKind& Kind>
class Activation : public Builtin<Activation<Kind>> {
 public:
  static constexpr const char* type_name = Kind.type_name;
  Tensor forward(const Tensor& x) { return Kind.apply(x, Loc{}); }
};
inline constexpr ActivationKind sigmoid_kind{"torch.nn.modules.activation.Sigmoid", F::sigmoid};
inline constexpr ActivationKind tanh_kind{"torch.nn.modules.activation.Tanh", F::tanh};
using Sigmoid = Activation<sigmoid_kind>;
using Tanh = Activation<tanh_kind>;
inline constexpr ActivationKind log_sigmoid_kind{"torch.nn.modules.activation.LogSigmoid", F::logsigmoid};
inline constexpr ActivationKind softsign_kind{"torch.nn.modules.activation.Softsign", F::softsign};
inline constexpr ActivationKind tanhshrink_kind{"torch.nn.modules.activation.Tanhshrink", F::tanhshrink};
using LogSigmoid = Activation<log_sigmoid_kind>;
using Softsign = Activation<softsign_kind>;
using Tanhshrink = Activation<tanhshrink_kind>;

// ---- in place or not ----

struct InplaceKind {
  const char* type_name;
  Tensor (*apply)(const Tensor& x, bool inplace, Loc loc);
};
template <const InplaceKind& Kind>
class InplaceActivation : public Builtin<InplaceActivation<Kind>> {
 public:
  static constexpr const char* type_name = Kind.type_name;
  explicit InplaceActivation(bool inplace = false) : inplace(inplace) {
    if (inplace) this->set_repr("inplace=True");
  }
  Tensor forward(const Tensor& x) { return Kind.apply(x, inplace, Loc{}); }
  bool inplace;
};
inline constexpr InplaceKind relu_kind{"torch.nn.modules.activation.ReLU", F::relu};
inline constexpr InplaceKind relu6_kind{"torch.nn.modules.activation.ReLU6", F::relu6};
inline constexpr InplaceKind silu_kind{"torch.nn.modules.activation.SiLU", F::silu};
inline constexpr InplaceKind mish_kind{"torch.nn.modules.activation.Mish", F::mish};
inline constexpr InplaceKind hardswish_kind{"torch.nn.modules.activation.Hardswish", F::hardswish};
inline constexpr InplaceKind hardsigmoid_kind{"torch.nn.modules.activation.Hardsigmoid", F::hardsigmoid};
using ReLU = InplaceActivation<relu_kind>;
using ReLU6 = InplaceActivation<relu6_kind>;
using SiLU = InplaceActivation<silu_kind>;
using Mish = InplaceActivation<mish_kind>;
using Hardswish = InplaceActivation<hardswish_kind>;
using Hardsigmoid = InplaceActivation<hardsigmoid_kind>;
inline constexpr InplaceKind selu_kind{"torch.nn.modules.activation.SELU", F::selu};
using SELU = InplaceActivation<selu_kind>;

// ---- with options ----

class GELU : public Builtin<GELU> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.activation.GELU";
  explicit GELU(std::string approximate = "none");  // or "tanh"
  Tensor forward(const Tensor& x) { return F::gelu(x, approximate); }
  std::string approximate;
};
class LeakyReLU : public Builtin<LeakyReLU> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.activation.LeakyReLU";
  explicit LeakyReLU(double negative_slope = 0.01, bool inplace = false);
  Tensor forward(const Tensor& x) { return F::leaky_relu(x, negative_slope, inplace); }
  double negative_slope;
  bool inplace;
};
class ELU : public Builtin<ELU> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.activation.ELU";
  explicit ELU(double alpha = 1, bool inplace = false);
  Tensor forward(const Tensor& x) { return F::elu(x, alpha, inplace); }
  double alpha;
  bool inplace;
};
class CELU : public Builtin<CELU> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.activation.CELU";
  explicit CELU(double alpha = 1, bool inplace = false);
  Tensor forward(const Tensor& x) { return F::celu(x, alpha, inplace); }
  double alpha;
  bool inplace;
};
class GLU : public Builtin<GLU> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.activation.GLU";
  explicit GLU(int64_t dim = -1);
  Tensor forward(const Tensor& x) { return F::glu(x, dim); }
  int64_t dim;
};
class Hardshrink : public Builtin<Hardshrink> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.activation.Hardshrink";
  explicit Hardshrink(double lambd = 0.5);
  Tensor forward(const Tensor& x) { return F::hardshrink(x, lambd); }
  double lambd;
};
class Softshrink : public Builtin<Softshrink> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.activation.Softshrink";
  explicit Softshrink(double lambd = 0.5);
  Tensor forward(const Tensor& x) { return F::softshrink(x, lambd); }
  double lambd;
};
class Threshold : public Builtin<Threshold> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.activation.Threshold";
  Threshold(double threshold, double value, bool inplace = false);
  Tensor forward(const Tensor& x) { return F::threshold(x, threshold, value, inplace); }
  double threshold, value;
  bool inplace;
};
class Softplus : public Builtin<Softplus> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.activation.Softplus";
  explicit Softplus(double beta = 1, double threshold = 20);
  Tensor forward(const Tensor& x) { return F::softplus(x, beta, threshold); }
  double beta, threshold;
};
class Hardtanh : public Builtin<Hardtanh> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.activation.Hardtanh";
  explicit Hardtanh(double min_val = -1, double max_val = 1, bool inplace = false);
  Tensor forward(const Tensor& x) { return F::hardtanh(x, min_val, max_val, inplace); }
  double min_val, max_val;
  bool inplace;
};
class Softmax : public Builtin<Softmax> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.activation.Softmax";
  explicit Softmax(int64_t dim);
  Tensor forward(const Tensor& x) { return F::softmax(x, dim); }
  int64_t dim;
};
class Softmin : public Builtin<Softmin> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.activation.Softmin";
  explicit Softmin(int64_t dim);
  Tensor forward(const Tensor& x) { return F::softmin(x, dim); }
  int64_t dim;
};
class Softmax2d : public Builtin<Softmax2d> {  // over the channels of images
 public:
  static constexpr const char* type_name = "torch.nn.modules.activation.Softmax2d";
  Tensor forward(const Tensor& x);
};
class LogSoftmax : public Builtin<LogSoftmax> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.activation.LogSoftmax";
  explicit LogSoftmax(int64_t dim);
  Tensor forward(const Tensor& x) { return F::log_softmax(x, dim); }
  int64_t dim;
};
class PReLU : public Builtin<PReLU> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.activation.PReLU";
  explicit PReLU(int64_t num_parameters = 1, double init = 0.25);
  Tensor forward(const Tensor& x) { return F::prelu(x, weight.now()); }
  Parameter weight;
};

}  // namespace tern::nn
