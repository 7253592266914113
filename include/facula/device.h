// Where a tensor's elements live.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <facula/export.h>

namespace facula {

/// `null` computes shapes and dtypes only: its tensors have no elements.
enum class DeviceType : std::uint8_t { cpu, cuda, null };

inline constexpr int kDeviceTypeCount = 3;

struct Device {
  DeviceType type = DeviceType::cpu;
  std::int8_t index = 0;

  constexpr Device() = default;
  constexpr Device(DeviceType device_type, int device_index = 0)
      : type(device_type), index(static_cast<std::int8_t>(device_index)) {}
  /// Parses "cpu", "cuda", "cuda:1", "null". Throws DeviceError for anything else.
  FACULA_API Device(std::string_view text);
  Device(const char* text) : Device(std::string_view(text)) {}

  constexpr bool operator==(const Device&) const = default;
  constexpr bool is_cpu() const { return type == DeviceType::cpu; }
  constexpr bool is_cuda() const { return type == DeviceType::cuda; }
  constexpr bool is_null() const { return type == DeviceType::null; }
  FACULA_API std::string str() const;
};

inline constexpr Device kCPU{DeviceType::cpu};
inline constexpr Device kCUDA{DeviceType::cuda};
inline constexpr Device kNull{DeviceType::null};

}  // namespace facula
