// SPDX-License-Identifier: Apache-2.0
// Values with the references that they hold.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "callframe/value.h"

namespace graphffi {

class OwnedValues {
 public:
  OwnedValues() = default;
  OwnedValues(OwnedValues&& other) noexcept : values_(std::move(other.values_)) {
    other.values_.clear();
  }
  OwnedValues(const OwnedValues&) = delete;
  OwnedValues& operator=(const OwnedValues&) = delete;
  ~OwnedValues() {
    if (!values_.empty()) Release();
  }

  /// Takes the reference of `value` over.
  void Add(TVMFFIAny value);
  const TVMFFIAny* data() const { return values_.data(); }
  int32_t size() const { return static_cast<int32_t>(values_.size()); }

 private:
  void Release();
  std::vector<TVMFFIAny> values_;
};

/// The elements of an ffi.Array. \throws std::bad_alloc
OwnedValues ElementsOf(const TVMFFIAny& array);

/// The content of a string, which it keeps; nothing for other values.
inline std::optional<std::string_view> TextOf(const TVMFFIAny& value) {
  switch (value.type_index) {
    case kTVMFFIRawStr:
      return value.v_c_str;
    case kTVMFFISmallStr:
      return TextOf(TVMFFISmallBytesGetContentByteArray(&value));
    case kTVMFFIStr:
      return TextOf(*TVMFFIBytesGetByteArrayPtr(value.v_obj));
    default:
      return std::nullopt;
  }
}

/// *New reference*, where the text is too long for the value itself. \throws Error
TVMFFIAny MakeString(std::string_view text);

}  // namespace graphffi
