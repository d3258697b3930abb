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

TVMFFIAny MakeString(std::string_view text) {
  TVMFFIAny any{};
  TVMFFIByteArray bytes = {text.data(), text.size()};
  if (int rc = TVMFFIStringFromByteArray(&bytes, &any)) throw Error::TakeRaised(rc);
  return any;
}

}  // namespace graphffi
