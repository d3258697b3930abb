// SPDX-License-Identifier: Apache-2.0
// JSON text to values and back: None, bool, int, float, String, Array<Any>, Map<Any, Any>.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/expected.h>
#include <tvm/ffi/extra/base.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>

#include <string>

namespace tvm::ffi {
inline namespace graphffi_v1 {
namespace json {

using Value = Any;
using Object = ffi::Map<Any, Any>;
using Array = ffi::Array<Any>;

/// The value of a JSON text. If it is malformed, *opt_error gets the reason and the result is None;
/// without opt_error the reason is thrown. \throws Error(ValueError)
inline Value Parse(const String& text, String* opt_error = nullptr) {
  Expected<Any> value = TVM_FFI_RUNTIME_FUNCTION_("ffi.json.Parse").CallExpected<Any>(text);
  if (opt_error == nullptr) return std::move(value).value();
  *opt_error = value.is_ok() ? String() : String(value.error().message());
  return std::move(value).value_or(nullptr);
}

/// The JSON text of a value; with indent, on several lines. \throws Error(TypeError)
inline String Stringify(const Value& value, const Optional<int>& indent = std::nullopt) {
  return TVM_FFI_RUNTIME_FUNCTION_("ffi.json.Stringify")(value, indent).cast<String>();
}

}  // namespace json
}  // namespace graphffi_v1
}  // namespace tvm::ffi
