// SPDX-License-Identifier: Apache-2.0
// Plain values as TVMFFIAny, which hold no references.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>

namespace graphffi {

inline TVMFFIAny MakeInt(int64_t value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIInt;
  any.v_int64 = value;
  return any;
}

inline TVMFFIAny MakeFloat(double value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIFloat;
  any.v_float64 = value;
  return any;
}

inline TVMFFIAny MakeBool(bool value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIBool;
  any.v_int64 = value;
  return any;
}

/// Borrows `text`.
inline TVMFFIAny MakeRawStr(const char* text) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIRawStr;
  any.v_c_str = text;
  return any;
}

}  // namespace graphffi
