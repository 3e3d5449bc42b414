// Dense memory of one type for kernels that want it: the tensor's own where it fits, else a copy.
#pragma once
#include "tern/dispatch/pointwise.h"

namespace tern {

class DenseIn {
 public:
  DenseIn(const Tensor& t, DType type) {
    if (!t.defined()) return;
    tensor_ = t;
    if (t.is_contiguous() && t.dtype() == type) return;
    tensor_ = make_tensor(t.sizes(), type);
    copy_elements(t, tensor_);
  }
  const void* data() const { return tensor_.defined() ? tensor_.data() : nullptr; }

 private:
  Tensor tensor_;
};

// Written to, and copied to where it belongs at the end of the scope.
class DenseOut {
 public:
  DenseOut(const Tensor& t, DType type) : target_(t), tensor_(t) {
    if (!t.is_contiguous() || t.dtype() != type) tensor_ = make_tensor(t.sizes(), type);
  }
  ~DenseOut() {
    if (used_ && !tensor_.is_same(target_)) copy_elements(tensor_, target_);
  }
  DenseOut(const DenseOut&) = delete;
  void* data() {
    used_ = true;
    return tensor_.data();
  }
  // Null where the caller does not want it; the target is then zero.
  void* data_if(bool wanted) {
    if (wanted) return data();
    fill_elements(target_, 0);
    return nullptr;
  }

 private:
  Tensor target_, tensor_;
  bool used_ = false;
};

// What a kernel computes in when its operands differ: narrow floats meet in float32.
inline DType common_type(Span<const Tensor> tensors) {
  DType type = DType::undefined;
  for (const Tensor& t : tensors)
    if (t.defined()) type = promote(type, t.dtype());
  return type;
}
inline DType stats_type(DType type) { return type == kDouble ? kDouble : kFloat; }

}  // namespace tern
