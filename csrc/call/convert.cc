// SPDX-License-Identifier: Apache-2.0
#include "call/convert.h"

#include <atomic>
#include <string_view>

#include "call/call_frame.h"
#include "call/describe_tensor.h"
#include "call/error.h"
#include "call/global_function.h"
#include "call/value.h"

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

const TVMFFIAny* ValuesOf(const std::vector<tvm::ffi::Any>& values) {
  static_assert(sizeof(tvm::ffi::Any) == sizeof(TVMFFIAny));
  return reinterpret_cast<const TVMFFIAny*>(values.data());
}

std::string_view StringContent(const TVMFFIAny& value) {
  if (const auto text = TextOf(value)) return *text;
  throw PlanError("TypeError", "a dtype() or device() conversion needs a string");
}

}  // namespace

tvm::ffi::Any MakeString(std::string_view text) {
  TVMFFIAny made{};
  const TVMFFIByteArray bytes = {text.data(), text.size()};
  CheckRc(TVMFFIStringFromByteArray(&bytes, &made));
  return TakeAny(made);
}

TVMFFIAny MakeArray(const TVMFFIAny* values, int32_t count) {
  TVMFFIAny array{};
  const Kernel make = ArrayConstructor();
  CheckRc(make.safe_call(make.handle, values, count, &array));
  return array;
}

tvm::ffi::Any MakeArray(const std::vector<tvm::ffi::Any>& values) {
  return TakeAny(MakeArray(ValuesOf(values), static_cast<int32_t>(values.size())));
}

tvm::ffi::Any MakeMap(const std::vector<tvm::ffi::Any>& pairs) {
  return CallGlobal("ffi.Map", ValuesOf(pairs), static_cast<int32_t>(pairs.size()));
}

TVMFFIAny ConvertAttribute(const TVMFFIAny& value, Plan::Conversion conversion) {
  switch (conversion) {
    case Plan::Conversion::kNone:
    case Plan::Conversion::kInt:      // of streams only
    case Plan::Conversion::kStrided:  // of tensors only
      return value;
    case Plan::Conversion::kBool:
      if (value.type_index != kTVMFFIInt && value.type_index != kTVMFFIBool) {
        throw PlanError("TypeError", "a bool() conversion needs an integer");
      }
      return ToAny(value.v_int64 != 0);
    case Plan::Conversion::kDType:
      return ToAny(DTypeFromName(StringContent(value)));
    case Plan::Conversion::kDevice:
      return ToAny(DeviceFromName(StringContent(value)));
  }
  return value;
}

}  // namespace graphffi
