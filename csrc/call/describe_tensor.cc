// SPDX-License-Identifier: Apache-2.0
#include "call/describe_tensor.h"

#include <tvm/ffi/device.h>

#include "call/error.h"
#include "call/value.h"

namespace graphffi {

namespace {

// The runtimes have no names for complex numbers: those of their parts are used.
constexpr std::string_view kFloat = "float", kComplex = "complex";

using tvm::ffi::detail::DeviceName;
using tvm::ffi::detail::kDeviceNames;

[[noreturn]] void FailOnDevice(std::string_view name) {
  if (name.substr(0, name.find(':')) == "meta") {  // which torch has
    throw Error("ValueError",
                "graphffi: device: expected one with memory, got " + std::string(name));
  }
  std::string known;
  for (const DeviceName& entry : kDeviceNames) {
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw Error("ValueError", "graphffi: device: expected 'type' or 'type:index', got '" +
                                std::string(name) + "'; known types: " + known);
}

}  // namespace

std::string Counted(int64_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string DTypeName(DLDataType dtype) {
  const bool is_complex = dtype.code == kDLComplex;
  if (is_complex) dtype.code = kDLFloat;
  TVMFFIAny text{};
  CheckRc(TVMFFIDataTypeToString(&dtype, &text));
  const tvm::ffi::Any owned = TakeAny(text);
  std::string name(TextOf(text).value_or(""));
  if (is_complex) name.replace(0, kFloat.size(), kComplex);
  return name;
}

DLDataType DTypeFromName(std::string_view name) {
  std::string known(name);
  const bool is_complex = name.substr(0, kComplex.size()) == kComplex;
  if (is_complex) known.replace(0, kComplex.size(), kFloat);
  const TVMFFIByteArray text = {known.data(), known.size()};
  DLDataType dtype{};
  if (const int rc = TVMFFIDataTypeFromString(&text, &dtype)) {
    const Error error = Error::TakeRaised(rc);
    if (!is_complex) throw error;
  }
  // The runtime reads "" as the type of no value.
  if (dtype.bits == 0 || (is_complex && dtype.code != kDLFloat)) {
    throw Error("ValueError", "graphffi: data type '" + std::string(name) + "': no such type");
  }
  if (!is_complex) return dtype;
  dtype.code = kDLComplex;
  return dtype;
}

DLDevice DeviceFromName(std::string_view name) {
  if (const auto device = tvm::ffi::detail::ParseDevice(name)) return *device;
  FailOnDevice(name);
}

std::string DeviceToName(DLDevice device) {
  for (const DeviceName& entry : kDeviceNames) {
    if (entry.type != device.device_type) continue;
    std::string name(entry.name);
    if (device.device_type == kDLCPU && device.device_id == 0) return name;
    return name + ":" + std::to_string(device.device_id);
  }
  return "device(" + std::to_string(device.device_type) + "):" + std::to_string(device.device_id);
}

std::string DescribeTensor(const DLTensor& tensor) {
  std::string text = DTypeName(tensor.dtype) + "[";
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(tensor.shape[i]);
  }
  return text + "] on " + DeviceToName(tensor.device);
}

}  // namespace graphffi
