// The safetensors format: a JSON header, then the tensors' bytes without holes.
#pragma once
#include <utility>

#include "tern/base/pointer.h"
#include "tern/io/file.h"

namespace tern::io {

struct SafeTensor {
  std::string name;
  std::string dtype;  // the format's own names: "F32", "BF16", "I64", "BOOL", "F8_E4M3"
  std::vector<int64_t> shape;
  Bytes data;  // little-endian, row-major; borrowed
};

struct SafeTensors {
  std::vector<SafeTensor> tensors;  // in the order of the header
  std::vector<std::pair<std::string, std::string>> metadata;
  Shared<const void> owner;  // keeps the bytes alive when they were read from a file

  const SafeTensor* find(std::string_view name) const;  // linear
};

// Bits of one element; throws for a dtype that the format does not have.
int safetensors_bits(std::string_view dtype);

// Validates everything: the header's bounds, each tensor's size, no overlap, no hole.
SafeTensors parse_safetensors(Blob file, std::string label = "safetensors");
SafeTensors read_safetensors(const std::string& path);  // mapped
// Streamed. Larger element types come first, then names, as the reference implementation orders them.
void write_safetensors(Sink& sink, const SafeTensors& content);
void write_safetensors(const std::string& path, const SafeTensors& content);

}  // namespace tern::io
