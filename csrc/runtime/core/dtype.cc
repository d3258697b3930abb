// SPDX-License-Identifier: Apache-2.0
// Data types as text: `<name><bits>x<lanes>`, both numbers optional.
#include <cstdint>
#include <string_view>

#include "error.h"
#include "function.h"
#include "function_registry.h"
#include "string_value.h"

namespace graphffi::runtime {
namespace {

constexpr int kVoidCode = kDLOpaqueHandle;
constexpr int kFirstCustomCode = 129;
constexpr int64_t kMaxScalableLanes = 32767;

struct NamedDType {
  std::string_view name;
  uint8_t code;
  uint8_t bits;  // without a number in the text
};

// Types of any width. Longer names come before their prefixes.
constexpr NamedDType kWideTypes[] = {
    {"bfloat", kDLBfloat, 16}, {"float", kDLFloat, 32}, {"int", kDLInt, 32},
    {"uint", kDLUInt, 32},     {"bool", kDLBool, 8},    {"handle", kDLOpaqueHandle, 64},
};

// Names that need a number: "f" alone is no type.
constexpr NamedDType kShortTypes[] = {
    {"bf", kDLBfloat, 0}, {"f", kDLFloat, 0}, {"i", kDLInt, 0}, {"u", kDLUInt, 0}};

// Types of one width, printed without it. Longer names come before their prefixes. fp8_ and f8_
// mean float8_, and so on.
constexpr NamedDType kNarrowFloats[] = {
    {"float8_e3m4", kDLFloat8_e3m4, 8},         {"float8_e4m3b11fnuz", kDLFloat8_e4m3b11fnuz, 8},
    {"float8_e4m3fnuz", kDLFloat8_e4m3fnuz, 8}, {"float8_e4m3fn", kDLFloat8_e4m3fn, 8},
    {"float8_e4m3", kDLFloat8_e4m3, 8},         {"float8_e5m2fnuz", kDLFloat8_e5m2fnuz, 8},
    {"float8_e5m2", kDLFloat8_e5m2, 8},         {"float8_e8m0fnu", kDLFloat8_e8m0fnu, 8},
    {"float6_e2m3fn", kDLFloat6_e2m3fn, 6},     {"float6_e3m2fn", kDLFloat6_e3m2fn, 6},
    {"float4_e2m1fn", kDLFloat4_e2m1fn, 4},
};

/// Reads one data type; every failure names the whole text.
class DataTypeReader {
 public:
  explicit DataTypeReader(std::string_view text) : text_(text), rest_(text) {}

  DLDataType Read() {
    if (text_.empty() || text_ == "void") return {kVoidCode, 0, 0};
    DLDataType dtype = {0, 0, 1};
    if (!ReadNarrowFloat(&dtype) && !ReadCustom(&dtype) && !ReadWide(&dtype)) Fail();
    if (!rest_.empty()) dtype.lanes = ReadLanes();
    if (!rest_.empty()) Fail();
    return dtype;
  }

 private:
  bool Skip(std::string_view prefix) {
    if (rest_.substr(0, prefix.size()) != prefix) return false;
    rest_.remove_prefix(prefix.size());
    return true;
  }

  bool ReadNarrowFloat(DLDataType* dtype) {
    for (const NamedDType& type : kNarrowFloats) {
      std::string_view tail = type.name.substr(sizeof("float") - 1);
      std::string_view before = rest_;
      bool matches = (Skip("float") || Skip("fp") || Skip("f")) && Skip(tail);
      if (matches) {
        *dtype = {type.code, type.bits, 1};
        if (type.code == kDLFloat4_e2m1fn && Skip("_x2")) dtype->lanes = 2;
        if (dtype->lanes == 2 && !rest_.empty()) Fail();
        return true;
      }
      rest_ = before;
    }
    return false;
  }

  bool ReadCustom(DLDataType* dtype) {
    if (!Skip("custom")) return false;
    size_t end = rest_.find(']');
    if (!Skip("[") || end == std::string_view::npos) Fail();
    Any name = MakeString(rest_.substr(0, end - 1));
    rest_.remove_prefix(end);
    ObjectPtr<> get_code = FindGlobalFunction("dtype.get_custom_type_code");
    if (!get_code) Fail("no global function dtype.get_custom_type_code knows custom types");
    Any code = CallFunction(get_code.get(), {name.view()});
    if (code.type_index() != kTVMFFIInt) Fail("dtype.get_custom_type_code gave no int");
    if (code.view().v_int64 < 0 || code.view().v_int64 > UINT8_MAX) {
      Fail("dtype.get_custom_type_code gave a code beyond 8 bits");
    }
    *dtype = {static_cast<uint8_t>(code.view().v_int64), 0, 1};
    dtype->bits = ReadBits(0);
    return true;
  }

  bool ReadWide(DLDataType* dtype) {
    for (const NamedDType& type : kWideTypes) {
      if (!Skip(type.name)) continue;
      *dtype = {type.code, ReadBits(type.bits), 1};
      return true;
    }
    for (const NamedDType& type : kShortTypes) {
      if (!Skip(type.name)) continue;
      *dtype = {type.code, ReadBits(0), 1};
      return dtype->bits != 0;
    }
    return false;
  }

  bool AtDigit() const { return !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9'; }

  /// 0 if there is no number.
  int64_t ReadNumber(int64_t max) {
    int64_t number = 0;
    for (; AtDigit(); rest_.remove_prefix(1)) {
      number = number * 10 + (rest_[0] - '0');
      if (number > max) Fail("a number in it is out of range");
    }
    return number;
  }

  uint8_t ReadBits(uint8_t otherwise) {
    int64_t bits = ReadNumber(UINT8_MAX);
    return bits == 0 ? otherwise : static_cast<uint8_t>(bits);
  }

  /// Scalable lanes count negative.
  uint16_t ReadLanes() {
    if (!Skip("x")) Fail();
    bool scalable = Skip("vscalex");
    int64_t lanes = ReadNumber(scalable ? kMaxScalableLanes : UINT16_MAX);
    if (lanes == 0) Fail("expected a positive number of lanes");
    return static_cast<uint16_t>(scalable ? -lanes : lanes);
  }

  [[noreturn]] void Fail(std::string_view reason = "no such type") const {
    Throw("ValueError", "graphffi: data type '", text_, "': ", reason);
  }

  std::string_view text_;
  std::string_view rest_;
};

std::string CustomName(uint8_t code) {
  ObjectPtr<> get_name = FindGlobalFunction("dtype.get_custom_type_name");
  if (!get_name) {
    Throw("ValueError", "graphffi: data type code ", code,
          ": no global function dtype.get_custom_type_name knows custom types");
  }
  Any name = CallFunction(get_name.get(), {Any::Int(code).view()});
  return Concat("custom[", TryText(name.view()).value_or(""), "]");
}

std::string Lanes(uint16_t lanes) {
  auto scalable = static_cast<int16_t>(lanes);
  if (scalable < -1) return Concat("xvscalex", -scalable);
  return lanes > 1 ? Concat("x", lanes) : std::string();
}

std::string Format(DLDataType dtype) {
  if (dtype.code == kVoidCode) return dtype.bits == 0 && dtype.lanes == 0 ? "" : "handle";
  if (dtype.code == kDLBool && dtype.bits == 8) return Concat("bool", Lanes(dtype.lanes));
  for (const NamedDType& type : kNarrowFloats) {
    if (type.code == dtype.code) return Concat(type.name, Lanes(dtype.lanes));
  }
  for (const NamedDType& type : kWideTypes) {
    if (type.code == dtype.code) return Concat(type.name, dtype.bits, Lanes(dtype.lanes));
  }
  if (dtype.code >= kFirstCustomCode) {
    return Concat(CustomName(dtype.code), dtype.bits, Lanes(dtype.lanes));
  }
  Throw("ValueError", "graphffi: data type code ", dtype.code, ": no such type");
}

}  // namespace
}  // namespace graphffi::runtime

using namespace graphffi::runtime;

int TVMFFIDataTypeFromString(const TVMFFIByteArray* str, DLDataType* out) {
  return Guard([&] { *out = DataTypeReader(View(*str)).Read(); });
}

int TVMFFIDataTypeToString(const DLDataType* dtype, TVMFFIAny* out) {
  return Guard([&] { *out = MakeString(Format(*dtype)).Release(); });
}
