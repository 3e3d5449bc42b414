#include "tern/tensor/device.h"

#include <charconv>

namespace tern {
namespace {
constexpr std::string_view device_names[] = {"cpu", "cuda", "mps", "xpu", "meta"};
}

std::string Device::str() const {
  std::string text(device_names[static_cast<int>(type)]);
  if (index >= 0) text += ":" + std::to_string(index);
  return text;
}

std::optional<Device> Device::parse(std::string_view text) {
  Device d;
  std::string_view kind = text.substr(0, text.find(':'));
  bool known = false;
  for (size_t i = 0; i < std::size(device_names); ++i)
    if (kind == device_names[i]) {
      d.type = static_cast<DeviceType>(i);
      known = true;
    }
  if (!known) return std::nullopt;
  if (kind.size() < text.size()) {
    std::string_view number = text.substr(kind.size() + 1);
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), d.index);
    if (error != std::errc() || end != number.data() + number.size() || d.index < 0) return std::nullopt;
  }
  return d;
}

std::string_view name(MemoryFormat f) {
  switch (f) {
    case MemoryFormat::contiguous:
      return "contiguous_format";
    case MemoryFormat::preserve:
      return "preserve_format";
    case MemoryFormat::channels_last:
      return "channels_last";
    default:
      return "channels_last_3d";
  }
}

}  // namespace tern
