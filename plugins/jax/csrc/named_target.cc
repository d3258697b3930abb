// SPDX-License-Identifier: Apache-2.0
#include "named_target.h"

#include <algorithm>
#include <cstring>

#include "attributes.h"
#include "callframe/convert.h"
#include "callframe/error.h"
#include "dtype.h"

namespace graphffi_jax {

using graphffi::MakeArray;
using graphffi::MakeBool;
using graphffi::MakeFloat;
using graphffi::MakeInt;
using graphffi::MakeString;
using graphffi::PlanNames;

namespace {

template <typename T>
T Read(const void* data, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

/// False for a type that no kernel's argument has.
bool ReadNumber(xla::DataType dtype, const void* data, size_t index, TVMFFIAny* out) {
  switch (dtype) {
    case xla::kPred:
      *out = MakeBool(Read<bool>(data, index));
      return true;
    case xla::kS8:
      *out = MakeInt(Read<int8_t>(data, index));
      return true;
    case xla::kS16:
      *out = MakeInt(Read<int16_t>(data, index));
      return true;
    case xla::kS32:
      *out = MakeInt(Read<int32_t>(data, index));
      return true;
    case xla::kS64:
      *out = MakeInt(Read<int64_t>(data, index));
      return true;
    case xla::kU8:
      *out = MakeInt(Read<uint8_t>(data, index));
      return true;
    case xla::kU16:
      *out = MakeInt(Read<uint16_t>(data, index));
      return true;
    case xla::kU32:
      *out = MakeInt(Read<uint32_t>(data, index));
      return true;
    case xla::kU64:
      *out = MakeInt(Read<int64_t>(data, index));
      return out->v_int64 >= 0;
    case xla::kF32:
      *out = MakeFloat(Read<float>(data, index));
      return true;
    case xla::kF64:
      *out = MakeFloat(Read<double>(data, index));
      return true;
    default:
      return false;
  }
}

bool ReadArray(const xla::Array& array, TVMFFIAny* out) {
  std::vector<TVMFFIAny> values(array.size);
  for (size_t i = 0; i < array.size; ++i) {
    if (!ReadNumber(array.dtype, array.data, i, &values[i])) return false;
  }
  *out = MakeArray(values.data(), static_cast<int32_t>(values.size()));
  return true;
}

bool ReadAttribute(xla::AttributeTag tag, const void* value, TVMFFIAny* out) {
  if (tag == xla::kString) {
    auto* text = static_cast<const xla::ByteSpan*>(value);
    *out = MakeString({text->data, text->size});
    return true;
  }
  if (tag == xla::kScalar) {
    auto* scalar = static_cast<const xla::Scalar*>(value);
    return ReadNumber(scalar->dtype, scalar->value, 0, out);
  }
  return tag == xla::kArray && ReadArray(*static_cast<const xla::Array*>(value), out);
}

/// Equal for equal attributes only.
void AppendAttribute(xla::AttributeTag tag, const void* value, std::string* key) {
  const void* data = nullptr;
  size_t size = 0;
  xla::DataType dtype = xla::kInvalid;
  if (tag == xla::kString) {
    auto* text = static_cast<const xla::ByteSpan*>(value);
    data = text->data;
    size = text->size;
  } else if (tag == xla::kScalar) {
    auto* scalar = static_cast<const xla::Scalar*>(value);
    data = scalar->value;
    dtype = scalar->dtype;
    size = static_cast<size_t>(ToDLPack(dtype).bits) / 8;
  } else {
    auto* array = static_cast<const xla::Array*>(value);
    data = array->data;
    dtype = array->dtype;
    size = array->size * static_cast<size_t>(ToDLPack(dtype).bits) / 8;
  }
  *key += std::to_string(tag) + "," + std::to_string(dtype) + ",";
  AppendToKey({static_cast<const char*>(data), size}, key);
}

std::string ListOf(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

}  // namespace

std::vector<std::string> NamedTarget::AttributeNames() const {
  return PlanNames::Raw(0, 0, static_cast<int32_t>(attributes.size()), 0, 0).attributes;
}

SiteParts NamedTarget::Decode(const xla::Attributes& given) const {
  constexpr int64_t kMissing = -1;
  std::vector<int64_t> positions(attributes.size(), kMissing);
  Problems problems;
  for (int64_t i = 0; i < given.size; ++i) {
    const std::string name(given.names[i]->data, given.names[i]->size);
    const auto found = std::find(attributes.begin(), attributes.end(), name);
    if (found == attributes.end()) {
      problems.Add("TypeError", "attribute '" + name + "': expected a known attribute (" +
                                    ListOf(attributes) + "), got " +
                                    DescribeAttribute(given.tags[i], given.values[i]));
    } else {
      positions[static_cast<size_t>(found - attributes.begin())] = i;
    }
  }
  SiteParts parts;
  AppendToKey("target " + name, &parts.key);
  for (size_t k = 0; k < attributes.size(); ++k) {
    const std::string subject = "attribute '" + attributes[k] + "': expected ";
    const int64_t i = positions[k];
    TVMFFIAny value{};
    if (i == kMissing) {
      problems.Add("TypeError", subject + "a value, got nothing");
    } else if (!ReadAttribute(given.tags[i], given.values[i], &value)) {
      problems.Add("TypeError", subject + "an int, a float, a bool, a string or an array, got " +
                                    DescribeAttribute(given.tags[i], given.values[i]));
    } else {
      parts.attributes.Add(value);
      AppendAttribute(given.tags[i], given.values[i], &parts.key);
    }
  }
  problems.ThrowIfAny(name);
  TVMFFIObjectIncRef(function.get());
  parts.function.reset(function.get());
  parts.facts = facts;
  parts.subject = name;
  parts.plan = plan;
  parts.attribute_names = AttributeNames();
  parts.pass_owning_tensor = pass_owning_tensor;
  parts.has_workspace = has_workspace;
  return parts;
}

}  // namespace graphffi_jax
