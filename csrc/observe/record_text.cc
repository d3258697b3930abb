// SPDX-License-Identifier: Apache-2.0
#include "observe/record_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "call/call_frame.h"
#include "call/describe_tensor.h"
#include "call/value.h"

namespace graphffi {
namespace {

bool IsPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 0x7F; });
}

void AppendHex(const char* key, std::string_view bytes, std::string* json) {
  constexpr char kDigits[] = "0123456789abcdef";
  *json += std::string("{\"") + key + "\": \"";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    *json += kDigits[byte >> 4];
    *json += kDigits[byte & 15];
  }
  *json += "\"}";
}

void AppendInts(const int64_t* values, int64_t count, std::string* json) {
  *json += "[";
  for (int64_t i = 0; i < count; ++i) *json += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  *json += "]";
}

void AppendTagged(const char* key, const std::string& text, std::string* json) {
  *json += "{";
  AppendKey(key, json);
  AppendText(text, json);
  *json += "}";
}

double BfloatToDouble(uint16_t bfloat) {
  const uint32_t bits = uint32_t{bfloat} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

double HalfToDouble(uint16_t half) {
  const int exponent = (half >> 10) & 31, mantissa = half & 1023;
  double value =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25);
  if (exponent == 31) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  }
  return (half & 0x8000) != 0 ? -value : value;
}

template <typename T>
double NumberToDouble(T number) {
  return static_cast<double>(number);
}

template <typename T, double (*to_double)(T) = &NumberToDouble<T>>
ElementRange RangeAs(const char* data, int64_t count) {
  ElementRange range;
  for (int64_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, data + static_cast<size_t>(i) * sizeof(T), sizeof(T));
    const double value = to_double(element);
    if (std::isnan(value)) {
      ++range.num_nan;
      continue;
    }
    range.num_infinite += std::isinf(value) ? 1 : 0;
    range.least = range.is_known ? std::min(range.least, value) : value;
    range.most = range.is_known ? std::max(range.most, value) : value;
    range.is_known = true;
  }
  return range;
}

}  // namespace

void AppendText(std::string_view text, std::string* json) {
  if (!IsPlain(text)) return AppendHex("utf8", text, json);
  *json += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') *json += '\\';
    *json += c;
  }
  *json += '"';
}

void AppendKey(const char* key, std::string* json) {
  if (!json->empty() && json->back() != '{') *json += ", ";
  *json += std::string("\"") + key + "\": ";
}

void AppendFloat(double value, std::string* json) {
  if (!std::isfinite(value)) {
    const char* name = std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
    return AppendTagged("float", name, json);
  }
  char digits[32];
  const char* end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  const std::string_view text(digits, static_cast<size_t>(end - digits));
  *json += text;
  if (text.find_first_of(".e") == std::string_view::npos) *json += ".0";
}

ElementRange RangeOf(DLDataType dtype, const char* data, int64_t count) {
  constexpr struct {
    uint8_t code, bits;
    ElementRange (*range)(const char* data, int64_t count);
  } kTypes[] = {
      {kDLFloat, 64, &RangeAs<double>},
      {kDLFloat, 32, &RangeAs<float>},
      {kDLFloat, 16, &RangeAs<uint16_t, &HalfToDouble>},
      {kDLBfloat, 16, &RangeAs<uint16_t, &BfloatToDouble>},
      {kDLInt, 64, &RangeAs<int64_t>},
      {kDLInt, 32, &RangeAs<int32_t>},
      {kDLInt, 16, &RangeAs<int16_t>},
      {kDLInt, 8, &RangeAs<int8_t>},
      {kDLUInt, 64, &RangeAs<uint64_t>},
      {kDLUInt, 32, &RangeAs<uint32_t>},
      {kDLUInt, 16, &RangeAs<uint16_t>},
      {kDLUInt, 8, &RangeAs<uint8_t>},
      {kDLBool, 8, &RangeAs<uint8_t>},
  };
  for (const auto& type : kTypes) {
    if (dtype.code == type.code && dtype.bits == type.bits && dtype.lanes == 1) {
      return type.range(data, count);
    }
  }
  return {};
}

bool IsOnHost(const DLTensor& tensor) {
  const int32_t type = tensor.device.device_type;
  return type == kDLCPU || type == kDLCUDAHost || type == kDLROCMHost;
}

bool Gather(const DLTensor& tensor, std::string* bytes) {
  const int bits = tensor.dtype.bits * tensor.dtype.lanes;
  const size_t num_bytes = BytesOf(tensor);
  if (bits % 8 != 0 || num_bytes > bytes->max_size()) return false;
  bytes->reserve(num_bytes);
  VisitElements(
      tensor, [&](const char* element) { bytes->append(element, static_cast<size_t>(bits) / 8); });
  return true;
}

void RecordText::AppendTensor(const DLTensor& tensor, std::string* json) {
  *json += "{";
  AppendKey("tensor", json);
  AppendText(DTypeName(tensor.dtype), json);
  AppendKey("shape", json);
  AppendInts(tensor.shape, tensor.ndim, json);
  if (!IsCompact(tensor)) {
    AppendKey("strides", json);
    AppendInts(tensor.strides, tensor.ndim, json);
  }
  AppendKey("device", json);
  AppendText(DeviceToName(tensor.device), json);
  AppendKey("address", json);  // of the first element: for alignment, and for what is shared
  *json += std::to_string(reinterpret_cast<uintptr_t>(DataOf(tensor)));
  describe_contents_(tensor, json);
  *json += "}";
}

void RecordText::AppendObject(const TVMFFIAny& value, const std::string& place, std::string* json) {
  if (value.type_index == kTVMFFIBytes) {
    return AppendHex("bytes", TextOf(*TVMFFIBytesGetByteArrayPtr(value.v_obj)), json);
  }
  if (value.type_index == kTVMFFIShape) {
    const TVMFFIShapeCell& shape = *TVMFFIShapeGetCellPtr(value.v_obj);
    *json += "{\"dims\": ";
    AppendInts(shape.data, static_cast<int64_t>(shape.size), json);
    *json += "}";
    return;
  }
  if (value.type_index != kTVMFFIArray) {
    return AppendTagged("object", TypeKeyOf(value.type_index), json);
  }
  const Elements elements(value);
  *json += "[";
  for (int64_t i = 0; i < elements.size; ++i) {
    if (i != 0) *json += ", ";
    Append(elements.values[i], place + "." + std::to_string(i), json);
  }
  *json += "]";
}

void RecordText::Append(const TVMFFIAny& value, const std::string& place, std::string* json) {
  if (const DLTensor* tensor = TensorOf(value)) {
    if (opt_tensors_ != nullptr) opt_tensors_->push_back({place, tensor});
    return AppendTensor(*tensor, json);
  }
  if (const auto text = TextOf(value)) return AppendText(*text, json);
  switch (value.type_index) {
    case kTVMFFINone:
      *json += "null";
      return;
    case kTVMFFIInt:
      *json += std::to_string(value.v_int64);
      return;
    case kTVMFFIBool:
      *json += value.v_int64 != 0 ? "true" : "false";
      return;
    case kTVMFFIFloat:
      return AppendFloat(value.v_float64, json);
    case kTVMFFIDataType:
      return AppendTagged("dtype", DTypeName(value.v_dtype), json);
    case kTVMFFIDevice:
      return AppendTagged("device", DeviceToName(value.v_device), json);
    case kTVMFFIOpaquePtr:
      *json += "{\"pointer\": " + std::to_string(value.v_uint64) + "}";
      return;
    case kTVMFFISmallBytes:
      return AppendHex("bytes", TextOf(TVMFFISmallBytesGetContentByteArray(&value)), json);
    case kTVMFFIByteArrayPtr:
      return AppendHex("bytes", TextOf(*static_cast<const TVMFFIByteArray*>(value.v_ptr)), json);
    default:
      break;
  }
  if (IsObject(value)) return AppendObject(value, place, json);
  AppendTagged("object", "type " + std::to_string(value.type_index), json);
}

}  // namespace graphffi
