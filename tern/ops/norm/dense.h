// Dense memory of one type for kernels that want it: the tensor's own where it fits, else a copy.
#pragma once
#include "tern/dispatch/pointwise.h"

namespace tern {

// Borrows the tensor: it is an argument, which lives as long as the call does.
class DenseIn {
 public:
  DenseIn(const Tensor& t, DType type) {
    if (!t.defined()) return;
    data_ = t.data();
    if (t.is_contiguous() && t.dtype() == type) return;
    copy_ = make_tensor(t.sizes(), type);
    copy_elements(t, copy_);
    data_ = copy_.data();
  }
  DenseIn(Tensor&&, DType) = delete;
  const void* data() const { return data_; }

 private:
  const void* data_ = nullptr;
  Tensor copy_;
};

// Written to, and copied to where it belongs at the end of the scope.
class DenseOut {
 public:
  DenseOut(const Tensor& t, DType type) : target_(t) {
    if (!t.is_contiguous() || t.dtype() != type) fresh_ = make_tensor(t.sizes(), type);
  }
  DenseOut(Tensor&&, DType) = delete;
  ~DenseOut() {
    if (used_ && fresh_.defined()) copy_elements(fresh_, target_);
  }
  DenseOut(const DenseOut&) = delete;
  void* data() {
    used_ = true;
    return fresh_.defined() ? fresh_.data() : target_.data();
  }
  // Null where the caller does not want it; the target is then zero.
  void* data_if(bool wanted) {
    if (wanted) return data();
    fill_elements(target_, 0);
    return nullptr;
  }

 private:
  const Tensor& target_;
  Tensor fresh_;
  bool used_ = false;
};

// What a kernel computes in when its operands differ: narrow floats meet in float32.
inline DType common_type(std::initializer_list<const Tensor*> tensors) {
  DType type = DType::undefined;
  for (const Tensor* t : tensors)
    if (t->defined()) type = promote(type, t->dtype());
  return type;
}
inline DType stats_type(DType type) { return type == kDouble ? kDouble : kFloat; }

}  // namespace tern
