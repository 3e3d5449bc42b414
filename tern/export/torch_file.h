// What torch.save writes: a zip with one pickle and the storages beside it. Values in and out; nothing from
// the file is executed, and only plain containers, numbers, strings and tensors are accepted.
#pragma once
#include "tern/io/file.h"
#include "tern/tensor/value.h"

namespace tern {

// Tensors share the archive's memory where their storage is aligned. Throws Error(file).
Value read_torch_file(const io::Blob& archive, const std::string& label);

// Tensors that share memory keep sharing it.
std::vector<uint8_t> write_torch_file(const Value& value);

// ---- storages, for this room ----

// The bytes that tensors of one storage cover, and where each of them starts there.
struct StorageSpan {
  const TensorBody* first;     // any tensor of it
  int64_t begin = 0, end = 0;  // in bytes
};
StorageSpan span_of(const Tensor& t);
io::Bytes bytes_of(const Tensor& t, const StorageSpan& span);

// A tensor over bytes of a file; copied where they are not aligned for the dtype. Throws Error(file) where
// they do not hold what the sizes and strides say.
Tensor tensor_over(const io::Blob& bytes, DType dtype, Span<const int64_t> sizes, Span<const int64_t> strides,
                   int64_t offset, const std::string& label);

}  // namespace tern
