// SPDX-License-Identifier: Apache-2.0
// DLDevice as a value: names, comparison, printing.
#pragma once

#include <tvm/ffi/any.h>

#include <cstdlib>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace detail {

struct DeviceName {
  const char* name;
  int32_t type;
};

/// The first name of a type is the one that is printed.
inline constexpr DeviceName kDeviceNames[] = {
    {"cpu", kDLCPU},
    {"cuda", kDLCUDA},
    {"cuda_host", kDLCUDAHost},
    {"opencl", kDLOpenCL},
    {"vulkan", kDLVulkan},
    {"metal", kDLMetal},
    {"mps", kDLMetal},
    {"vpi", kDLVPI},
    {"rocm", kDLROCM},
    {"rocm_host", kDLROCMHost},
    {"ext_dev", kDLExtDev},
    {"cuda_managed", kDLCUDAManaged},
    {"oneapi", kDLOneAPI},
    {"webgpu", kDLWebGPU},
    {"wgpu", kDLWebGPU},
    {"hexagon", kDLHexagon},
    {"maia", kDLMAIA},
    {"trn", kDLTrn},
};

/// "cuda", "cuda:1", …; nothing if the text is no device.
inline std::optional<DLDevice> ParseDevice(std::string_view text) {
  size_t colon = text.find(':');
  std::string_view name = text.substr(0, colon);
  int64_t id = 0;
  if (colon != std::string_view::npos) {
    std::string digits(text.substr(colon + 1));
    if (digits.empty() || digits.size() > 10 ||
        digits.find_first_not_of("0123456789") != std::string::npos) {
      return std::nullopt;
    }
    id = std::atoll(digits.c_str());
    if (id > INT32_MAX) return std::nullopt;
  }
  for (const DeviceName& entry : kDeviceNames) {
    if (name == entry.name) return TVMFFIDLDeviceFromIntPair(entry.type, static_cast<int32_t>(id));
  }
  return std::nullopt;
}

}  // namespace detail

/// "cpu:0", "cuda:1", …; a type without a name prints as its number.
inline String DLDeviceToString(DLDevice device) {
  std::string name;
  for (const detail::DeviceName& entry : detail::kDeviceNames) {
    if (entry.type == static_cast<int32_t>(device.device_type)) {
      name = entry.name;
      break;
    }
  }
  if (name.empty()) name = "device_type" + std::to_string(static_cast<int>(device.device_type));
  return String(name + ":" + std::to_string(device.device_id));
}

template <>
struct TypeTraits<DLDevice> : detail::PODTraits<DLDevice, TypeTraits<DLDevice>, kTVMFFIDevice> {
  static void Write(DLDevice value, TVMFFIAny* out) { out->v_device = value; }
  static DLDevice Read(const TVMFFIAny* source) { return source->v_device; }
  static std::optional<DLDevice> TryCastFromAnyView(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFIDevice) return Read(source);
    auto text = TypeTraits<String>::TryCastFromAnyView(source);
    return text.has_value() ? detail::ParseDevice(*text) : std::nullopt;
  }
  static std::string TypeStr() { return StaticTypeKey::kTVMFFIDevice; }
  static std::string TypeSchema() { return detail::SimpleSchema("Device"); }
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi

// DLDevice is declared outside any namespace, and so are its operators. As templates they yield to
// operators that a kernel library may define itself.

template <typename T, typename = std::enable_if_t<std::is_same_v<T, DLDevice>>, int = 0>
constexpr bool operator==(const T& a, const T& b) {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}
template <typename T, typename = std::enable_if_t<std::is_same_v<T, DLDevice>>, int = 0>
constexpr bool operator!=(const T& a, const T& b) {
  return !(a == b);
}
template <typename T, typename = std::enable_if_t<std::is_same_v<T, DLDevice>>, int = 0>
std::ostream& operator<<(std::ostream& os, const T& device) {
  return os << tvm::ffi::DLDeviceToString(device);
}
