// SPDX-License-Identifier: Apache-2.0
#include "callframe/device_name.h"

#include <charconv>

#include "callframe/error.h"

namespace graphffi {

namespace {
struct Entry {
  DLDeviceType type;
  std::string_view name;
};
constexpr Entry kDevices[] = {
    {kDLCPU, "cpu"},
    {kDLCUDA, "cuda"},
    {kDLCUDAHost, "cuda_host"},
    {kDLOpenCL, "opencl"},
    {kDLVulkan, "vulkan"},
    {kDLMetal, "metal"},
    {kDLVPI, "vpi"},
    {kDLROCM, "rocm"},
    {kDLROCMHost, "rocm_host"},
    {kDLExtDev, "ext_dev"},
    {kDLCUDAManaged, "cuda_managed"},
    {kDLOneAPI, "oneapi"},
    {kDLWebGPU, "webgpu"},
    {kDLHexagon, "hexagon"},
    {kDLMAIA, "maia"},
    {kDLTrn, "trn"},
};

[[noreturn]] void Fail(std::string_view name) {
  std::string known;
  for (const Entry& entry : kDevices)
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  throw Error("ValueError", "graphffi: device: expected 'type' or 'type:index', got '" +
                                std::string(name) + "'; known types: " + known);
}
}  // namespace

DLDevice DeviceFromName(std::string_view name) {
  const size_t colon = name.find(':');
  const std::string_view type = name.substr(0, colon);
  int32_t index = 0;
  if (colon != std::string_view::npos) {
    const char* last = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + colon + 1, last, index);
    if (parsed.ec != std::errc() || parsed.ptr != last || index < 0) Fail(name);
  }
  for (const Entry& entry : kDevices) {
    if (entry.name == type) return {entry.type, index};
  }
  Fail(name);
}

std::string DeviceToName(DLDevice device) {
  for (const Entry& entry : kDevices) {
    if (entry.type != device.device_type) continue;
    std::string name(entry.name);
    if (device.device_type == kDLCPU && device.device_id == 0) return name;
    return name + ":" + std::to_string(device.device_id);
  }
  return "device(" + std::to_string(device.device_type) + "):" + std::to_string(device.device_id);
}

}  // namespace graphffi
