// SPDX-License-Identifier: Apache-2.0
#include "callframe/convert.h"

#include <atomic>
#include <string_view>

#include "callframe/call_frame.h"
#include "callframe/describe_tensor.h"
#include "callframe/error.h"
#include "callframe/global_function.h"
#include "callframe/owned_values.h"
#include "callframe/value.h"

namespace graphffi {

namespace {

/// The runtime's constructor of arrays; kept for the rest of the process. No static variable with a
/// guard: FindGlobal may wait for the GIL.
Kernel ArrayConstructor() {
  static std::atomic<TVMFFIObjectHandle> opt_kept{nullptr};
  TVMFFIObjectHandle function = opt_kept.load(std::memory_order_acquire);
  if (function != nullptr) return Kernel::FromFunction(function);
  function = FindRequired("ffi.Array").release();
  opt_kept.store(function, std::memory_order_release);
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
  CheckRc(make.safe_call(make.handle, values, count, &array));
  return array;
}

TVMFFIAny ConvertAttribute(const TVMFFIAny& value, Plan::Conversion conversion) {
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
    case Plan::Conversion::kDType:
      return MakeDType(DTypeFromName(StringContent(value)));
    case Plan::Conversion::kDevice:
      return MakeDevice(DeviceFromName(StringContent(value)));
  }
  return value;
}

}  // namespace graphffi
