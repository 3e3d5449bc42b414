// Where a tensor lives, how its elements are laid out, and how it is asked to be: device, layout, memory
// format.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tern {

enum class DeviceType : uint8_t { cpu, cuda, mps, xpu, meta };

struct Device {
  DeviceType type = DeviceType::cpu;
  int8_t index = -1;  // -1: the current one

  std::string str() const;  // "cpu", "cuda:1"
  static std::optional<Device> parse(std::string_view text);
  friend constexpr bool operator==(Device, Device) = default;
};
constexpr Device kCPU{DeviceType::cpu, -1}, kMeta{DeviceType::meta, -1};

// The numbers are ATen's.
enum class Layout : uint8_t { strided = 0, sparse = 1 };
enum class MemoryFormat : uint8_t { contiguous = 0, preserve = 1, channels_last = 2, channels_last_3d = 3 };
std::string_view name(MemoryFormat f);  // "contiguous_format"

}  // namespace tern
