#include "tern/nn/activations.h"

#include "tern/base/format.h"
#include "tern/nn/init.h"

namespace tern::nn {
namespace {

std::string inplace_text(bool inplace) { return inplace ? ", inplace=True" : ""; }

}  // namespace

GELU::GELU(std::string a) : approximate(std::move(a)) {
  if (approximate != "none" && approximate != "tanh")
    fail("approximate argument must be either none or tanh.");
  set_repr(fmt::format("approximate='{}'", approximate));
}
LeakyReLU::LeakyReLU(double slope, bool in) : negative_slope(slope), inplace(in) {
  set_repr(fmt::format("negative_slope={}{}", python_float(slope), inplace_text(in)));
}
ELU::ELU(double a, bool in) : alpha(a), inplace(in) {
  set_repr(fmt::format("alpha={}{}", python_float(a), inplace_text(in)));
}
CELU::CELU(double a, bool in) : alpha(a), inplace(in) {
  set_repr(fmt::format("alpha={}{}", python_float(a), inplace_text(in)));
}
GLU::GLU(int64_t d) : dim(d) { set_repr(fmt::format("dim={}", d)); }
Hardshrink::Hardshrink(double l) : lambd(l) { set_repr(python_float(l)); }
Softshrink::Softshrink(double l) : lambd(l) { set_repr(python_float(l)); }
Threshold::Threshold(double t, double v, bool in) : threshold(t), value(v), inplace(in) {
  set_repr(fmt::format("threshold={}, value={}{}", python_float(t), python_float(v), inplace_text(in)));
}
Softplus::Softplus(double b, double t) : beta(b), threshold(t) {
  set_repr(fmt::format("beta={}, threshold={}", python_float(b), python_float(t)));
}
Hardtanh::Hardtanh(double low, double high, bool in) : min_val(low), max_val(high), inplace(in) {
  if (!(high > low)) fail(ErrorKind::value, "Hardtanh: max_val must be larger than min_val");
  set_repr(fmt::format("min_val={}, max_val={}{}", python_float(low), python_float(high), inplace_text(in)));
}
Softmax::Softmax(int64_t d) : dim(d) { set_repr(fmt::format("dim={}", d)); }
Softmin::Softmin(int64_t d) : dim(d) { set_repr(fmt::format("dim={}", d)); }
Tensor Softmax2d::forward(const Tensor& x) {
  if (x.dim() != 3 && x.dim() != 4)
    failf(ErrorKind::value, "Softmax2d: expected input to be 3D or 4D, got {}D instead", x.dim());
  return F::softmax(x, -3);
}
LogSoftmax::LogSoftmax(int64_t d) : dim(d) { set_repr(fmt::format("dim={}", d)); }
PReLU::PReLU(int64_t n, double value) {
  Tensor w = make_tensor({n}, default_dtype());
  init::constant_(w, value);
  weight = register_parameter("weight", w);
  set_repr(fmt::format("num_parameters={}", n));
}

}  // namespace tern::nn
