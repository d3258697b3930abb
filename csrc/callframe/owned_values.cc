// SPDX-License-Identifier: Apache-2.0
#include "callframe/owned_values.h"

#include "callframe/error.h"

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
  const TVMFFISeqCell& cell = *TVMFFISeqGetCellPtr(array.v_obj);
  const auto* values = static_cast<const TVMFFIAny*>(cell.data);
  for (int64_t i = 0; i < cell.size; ++i) {
    if (IsObject(values[i])) TVMFFIObjectIncRef(values[i].v_obj);
    elements.Add(values[i]);
  }
  return elements;
}

TVMFFIAny MakeString(std::string_view text) {
  TVMFFIAny any{};
  const TVMFFIByteArray bytes = {text.data(), text.size()};
  CheckRc(TVMFFIStringFromByteArray(&bytes, &any));
  return any;
}

}  // namespace graphffi
