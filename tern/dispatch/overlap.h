// Memory that may not be written to: several elements share it, or an input has a part of it.
#pragma once
#include "tern/tensor/tensor.h"

namespace tern {

// Throws if more than one element of the tensor is in one place.
void check_writable(const Tensor& out);
// Whether both are views of one memory: of one storage, or of two that count its changes apart (x.data in
// Python).
bool share_memory(const Tensor& a, const Tensor& b);
// Throws if both are dense and share some memory without being the same elements in the same order. What has
// gaps is not looked into, as in PyTorch.
void check_overlap(const Tensor& out, const Tensor& input);
// Throws for the same elements, too.
void check_disjoint(const Tensor& out, const Tensor& input);

}  // namespace tern
