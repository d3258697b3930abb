// SPDX-License-Identifier: Apache-2.0
#include "values.h"

#include "callframe/error.h"

namespace graphffi {

OwnedValues::~OwnedValues() {
  for (const TVMFFIAny& value : values_) {
    if (value.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(value.v_obj);
  }
}

void OwnedValues::Add(const TVMFFIAny& value) {
  try {
    values_.push_back(value);
  } catch (...) {
    if (value.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(value.v_obj);
    throw;
  }
}

TVMFFIAny MakeInt(int64_t value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIInt;
  any.v_int64 = value;
  return any;
}

TVMFFIAny MakeFloat(double value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIFloat;
  any.v_float64 = value;
  return any;
}

TVMFFIAny MakeBool(bool value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIBool;
  any.v_int64 = value;
  return any;
}

TVMFFIAny MakeString(std::string_view text) {
  TVMFFIAny any{};
  TVMFFIByteArray bytes = {text.data(), text.size()};
  if (int rc = TVMFFIStringFromByteArray(&bytes, &any)) throw Error::TakeRaised(rc);
  return any;
}

}  // namespace graphffi
