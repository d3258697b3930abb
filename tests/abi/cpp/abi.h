// SPDX-License-Identifier: Apache-2.0
// Values and calls for tests of the C functions, over nothing but the C headers.
#pragma once

#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check.h"

inline TVMFFIByteArray Bytes(std::string_view text) { return {text.data(), text.size()}; }
inline std::string Text(const TVMFFIByteArray& bytes) {
  return std::string(bytes.data, bytes.size);
}

inline uint64_t Count(const void* object) {
  return static_cast<const TVMFFIObject*>(object)->combined_ref_count;
}
constexpr uint64_t kOneWeak = uint64_t{1} << 32;

inline TVMFFIAny None() { return {kTVMFFINone, {0}, {0}}; }
inline TVMFFIAny Int(int64_t number) {
  TVMFFIAny value = {kTVMFFIInt, {0}, {0}};
  value.v_int64 = number;
  return value;
}
inline TVMFFIAny Bool(bool truth) {
  TVMFFIAny value = Int(truth);
  value.type_index = kTVMFFIBool;
  return value;
}
inline TVMFFIAny Float(double number) {
  TVMFFIAny value = {kTVMFFIFloat, {0}, {0}};
  value.v_float64 = number;
  return value;
}
inline TVMFFIAny Pointer(int32_t type_index, const void* pointer) {
  TVMFFIAny value = {type_index, {0}, {0}};
  value.v_ptr = const_cast<void*>(pointer);
  return value;
}
inline TVMFFIAny RawStr(const char* text) { return Pointer(kTVMFFIRawStr, text); }
inline TVMFFIAny Object(void* object) { return Pointer(TVMFFIObjectGetTypeIndex(object), object); }

/// Owns one value.
class Value {
 public:
  Value() : value(None()) {}
  explicit Value(TVMFFIAny owned) : value(owned) {}
  Value(Value&& other) noexcept : value(std::exchange(other.value, None())) {}
  Value& operator=(Value&& other) noexcept {
    std::swap(value, other.value);
    return *this;
  }
  ~Value() {
    if (value.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(value.v_obj);
  }
  static Value Steal(void* object) { return object == nullptr ? Value() : Value(Object(object)); }
  static Value FromView(TVMFFIAny view) {
    Value owned;
    CHECK_EQ(TVMFFIAnyViewToOwnedAny(&view, &owned.value), 0);
    return owned;
  }

  int32_t type_index() const { return value.type_index; }
  void* object() const { return value.v_obj; }
  /// Of a String or Bytes in either form.
  std::string text() const {
    if (value.type_index == kTVMFFISmallStr || value.type_index == kTVMFFISmallBytes) {
      return Text(TVMFFISmallBytesGetContentByteArray(&value));
    }
    CHECK(value.type_index == kTVMFFIStr || value.type_index == kTVMFFIBytes);
    return Text(*TVMFFIBytesGetByteArrayPtr(value.v_obj));
  }

  TVMFFIAny value;
};

inline Value Str(std::string_view text) {
  Value value;
  TVMFFIByteArray bytes = Bytes(text);
  CHECK_EQ(TVMFFIStringFromByteArray(&bytes, &value.value), 0);
  return value;
}

/// Takes the error out of the slot: "Kind: message", or "" if there is none.
inline std::string Raised() {
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  if (error == nullptr) return "";
  Value owner = Value::Steal(error);
  TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(error);
  return Text(cell->kind) + ": " + Text(cell->message);
}

inline std::string RaisedKind() {
  std::string raised = Raised();
  return raised.substr(0, raised.find(':'));
}

/// Checks that `code` is a failure of the kind; of the bundled runtime, that the message holds the
/// text.
inline void CheckRaised(int code, const std::string& kind, const std::string& text = "") {
  CHECK_EQ(code, -1);
  std::string raised = Raised();
  CHECK_EQ(raised.substr(0, raised.find(':')), kind);
  if (IsBundled() && raised.find(text) == std::string::npos) CHECK_EQ(raised, text);
}

inline Value Global(std::string_view name) {
  TVMFFIByteArray bytes = Bytes(name);
  TVMFFIObjectHandle function = nullptr;
  CHECK_EQ(TVMFFIFunctionGetGlobal(&bytes, &function), 0);
  return Value::Steal(function);
}

inline int TryCall(void* function, std::vector<TVMFFIAny> args, Value* result) {
  args.push_back(None());  // So that there is an array for no arguments, too.
  return TVMFFIFunctionCall(function, args.data(), static_cast<int32_t>(args.size()) - 1,
                            &result->value);
}

inline Value Call(std::string_view name, std::vector<TVMFFIAny> args) {
  Value result;
  Value function = Global(name);
  if (function.type_index() != kTVMFFIFunction) CHECK_EQ(std::string(name), std::string("known"));
  int code = TryCall(function.object(), std::move(args), &result);
  if (code != 0) CHECK_EQ(Raised(), std::string(""));
  return result;
}

/// The call must fail with the kind.
inline void CheckCallRaises(std::string_view name, std::vector<TVMFFIAny> args,
                            const std::string& kind, const std::string& text = "") {
  Value result;
  CheckRaised(TryCall(Global(name).object(), std::move(args), &result), kind, text);
}

/// A function object that counts its end.
struct Callback {
  int deleted = 0;
  void* object = nullptr;

  static void Delete(void* self) { ++static_cast<Callback*>(self)->deleted; }
  Value Make(TVMFFISafeCallType call) {
    CHECK_EQ(TVMFFIFunctionCreate(this, call, Delete, &object), 0);
    return Value::Steal(object);
  }
};
inline int ReturnNothing(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) { return 0; }

/// An object whose death is counted.
struct Opaque {
  int deleted = 0;

  static void Delete(void* self) { ++static_cast<Opaque*>(self)->deleted; }
  Value Make() {
    TVMFFIObjectHandle object = nullptr;
    CHECK_EQ(TVMFFIObjectCreateOpaque(this, kTVMFFIOpaquePyObject, Delete, &object), 0);
    return Value::Steal(object);
  }
};
