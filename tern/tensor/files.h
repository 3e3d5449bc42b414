// Tensors in files that other tools read too: NumPy's .npy and .npz, and safetensors. Loaded tensors share
// the mapped file and may be written to: a page that changes becomes private memory, the file never does.
#pragma once
#include <map>
#include <string>

#include "tern/tensor/tensor.h"

namespace tern {

using TensorMap = std::map<std::string, Tensor>;

// Throws ErrorKind::file for an invalid file, not_supported for a type that has no dtype (strings, objects).
Tensor load_npy(const std::string& path);
void save_npy(const std::string& path,
              const Tensor& tensor);  // bfloat16 and float8 have no NumPy type: throws
TensorMap load_npz(const std::string& path);
void save_npz(const std::string& path, const TensorMap& tensors, bool compress = false);
TensorMap load_safetensors(const std::string& path, std::map<std::string, std::string>* metadata = nullptr);
void save_safetensors(const std::string& path, const TensorMap& tensors,
                      const std::map<std::string, std::string>& metadata = {});

// By the ending of the name: .npy (its one tensor has the name ""), .npz, .safetensors.
TensorMap load_tensors(const std::string& path);
void save_tensors(const std::string& path, const TensorMap& tensors);

}  // namespace tern
