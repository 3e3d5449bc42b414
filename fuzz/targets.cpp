#include "fuzz/targets.h"

namespace tern::fuzz {

Span<const Target> targets() {
  static constexpr Target all[] = {
      {"zip", zip},     {"pickle", pickle}, {"json", json}, {"npy", npy}, {"safetensors", safetensors},
      {"graph", graph}, {"script", script}, {"onnx", onnx},
  };
  return all;
}

}  // namespace tern::fuzz
