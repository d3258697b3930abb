// SPDX-License-Identifier: Apache-2.0
#include "callframe/convert.h"

#include <string_view>

#include "callframe/call_frame.h"
#include "callframe/device_name.h"
#include "callframe/error.h"
#include "callframe/owned_values.h"
#include "callframe/value.h"

namespace graphffi {

namespace {

/// The runtime's constructor of arrays; kept for the rest of the process.
Kernel ArrayConstructor() {
  static const TVMFFIObjectHandle function = [] {
    const TVMFFIByteArray name = {"ffi.Array", 9};
    TVMFFIObjectHandle found = nullptr;
    if (TVMFFIFunctionGetGlobal(&name, &found) != 0) throw Error::TakeRaised(-1);
    if (found == nullptr) {
      throw Error("RuntimeError", "graphffi: the runtime lacks the function 'ffi.Array'");
    }
    return found;
  }();
  return Kernel::FromFunction(function);
}

std::string_view StringContent(const TVMFFIAny& value) {
  if (const auto text = TextOf(value)) return *text;
  throw Error("TypeError", "graphffi: plan: a dtype() or device() conversion needs a string");
}

}  // namespace

TVMFFIAny MakeArray(const TVMFFIAny* values, int32_t count) {
  TVMFFIAny array{};
  const Kernel make = ArrayConstructor();
  const int rc = make.safe_call(make.handle, values, count, &array);
  if (rc != 0) throw Error::TakeRaised(rc);
  return array;
}

TVMFFIAny ConvertAttribute(const TVMFFIAny& value, Plan::Conversion conversion) {
  TVMFFIAny out{};
  switch (conversion) {
    case Plan::Conversion::kNone:
    case Plan::Conversion::kInt:      // of streams only
    case Plan::Conversion::kStrided:  // of tensors only
      return value;
    case Plan::Conversion::kBool:
      if (value.type_index != kTVMFFIInt && value.type_index != kTVMFFIBool) {
        throw Error("TypeError", "graphffi: plan: a bool() conversion needs an integer");
      }
      return MakeBool(value.v_int64 != 0);
    case Plan::Conversion::kDType: {
      const std::string_view content = StringContent(value);
      const TVMFFIByteArray text = {content.data(), content.size()};
      out.type_index = kTVMFFIDataType;
      if (const int rc = TVMFFIDataTypeFromString(&text, &out.v_dtype)) throw Error::TakeRaised(rc);
      return out;
    }
    case Plan::Conversion::kDevice: {
      return MakeDevice(DeviceFromName(StringContent(value)));
    }
  }
  return out;
}

}  // namespace graphffi
