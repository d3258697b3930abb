// SPDX-License-Identifier: Apache-2.0
// Data types and devices as text: what is read prints as text that reads as the same.
#include <tvm/ffi/c_api.h>

#include <cstring>
#include <string>

#include "call/describe_tensor.h"
#include "call/error.h"
#include "raised.h"

namespace {

/// A custom type is one whose name has at most three characters.
int GetCustomCode(void*, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  if (num_args != 1 || args[0].type_index != kTVMFFISmallStr || args[0].small_str_len > 3) {
    TVMFFIErrorSetRaisedFromCStr("ValueError", "unknown");
    return -1;
  }
  result->type_index = kTVMFFIInt;
  result->v_int64 = 129;
  return 0;
}

int GetCustomName(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
  const TVMFFIByteArray name = {"abc", 3};
  return TVMFFIStringFromByteArray(&name, result);
}

void Register(const char* name, TVMFFISafeCallType call) {
  const TVMFFIByteArray bytes = {name, std::strlen(name)};
  TVMFFIObjectHandle function = nullptr;
  Require(TVMFFIFunctionCreate(nullptr, call, nullptr, &function) == 0);
  Require(TVMFFIFunctionSetGlobal(&bytes, function, 1) == 0);
  TVMFFIObjectDecRef(function);
}

std::string ToText(DLDataType dtype) {
  TVMFFIAny value{};
  Require(TVMFFIDataTypeToString(&dtype, &value) == 0);
  if (value.type_index == kTVMFFISmallStr) {
    const TVMFFIByteArray bytes = TVMFFISmallBytesGetContentByteArray(&value);
    return std::string(bytes.data, bytes.size);
  }
  const TVMFFIByteArray bytes = *TVMFFIBytesGetByteArrayPtr(value.v_obj);
  std::string text(bytes.data, bytes.size);
  TVMFFIObjectDecRef(value.v_obj);
  return text;
}

void CheckDataType(std::string_view text) {
  const TVMFFIByteArray bytes = {text.data(), text.size()};
  DLDataType dtype{};
  if (TVMFFIDataTypeFromString(&bytes, &dtype) != 0) return CheckRaised({"ValueError"});
  const std::string printed = ToText(dtype);
  const TVMFFIByteArray printed_bytes = {printed.data(), printed.size()};
  DLDataType again{};
  Require(TVMFFIDataTypeFromString(&printed_bytes, &again) == 0);
  Require(ToText(again) == printed);
}

void CheckDevice(std::string_view text) {
  try {
    const DLDevice device = graphffi::DeviceFromName(text);
    const DLDevice again = graphffi::DeviceFromName(graphffi::DeviceToName(device));
    Require(device.device_type == again.device_type && device.device_id == again.device_id);
  } catch (const graphffi::Error& error) {
    Require(error.kind() == "ValueError");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool registered = [] {
    Register("dtype.get_custom_type_code", GetCustomCode);
    Register("dtype.get_custom_type_name", GetCustomName);
    return true;
  }();
  Require(registered);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckDataType(text);
  CheckDevice(text);
  return 0;
}
