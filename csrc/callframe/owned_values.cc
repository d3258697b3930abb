// SPDX-License-Identifier: Apache-2.0
#include "callframe/owned_values.h"

#include "callframe/error.h"
#include "callframe/global_function.h"

namespace graphffi {

void OwnedValues::Release() {
  for (TVMFFIAny& value : values_) ReleaseValue(&value);
}

void OwnedValues::Add(TVMFFIAny value) {
  try {
    values_.push_back(value);
  } catch (...) {
    ReleaseValue(&value);
    throw;
  }
}

OwnedValues ElementsOf(const TVMFFIAny& array) {
  OwnedValues elements;
  const TVMFFIAny size = CallGlobal("ffi.ArraySize", &array, 1);
  for (int64_t i = 0; i < size.v_int64; ++i) {
    const TVMFFIAny args[] = {array, MakeInt(i)};
    elements.Add(CallGlobal("ffi.ArrayGetItem", args, 2));
  }
  return elements;
}

std::optional<std::string_view> TextOf(const TVMFFIAny& value) {
  TVMFFIByteArray text{};
  switch (value.type_index) {
    case kTVMFFIRawStr:
      return value.v_c_str;
    case kTVMFFISmallStr:
      text = TVMFFISmallBytesGetContentByteArray(&value);
      break;
    case kTVMFFIStr:
      text = *TVMFFIBytesGetByteArrayPtr(value.v_obj);
      break;
    default:
      return std::nullopt;
  }
  return std::string_view(text.data, text.size);
}

TVMFFIAny MakeString(std::string_view text) {
  TVMFFIAny any{};
  const TVMFFIByteArray bytes = {text.data(), text.size()};
  if (const int rc = TVMFFIStringFromByteArray(&bytes, &any)) throw Error::TakeRaised(rc);
  return any;
}

}  // namespace graphffi
