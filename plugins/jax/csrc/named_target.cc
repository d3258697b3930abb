// SPDX-License-Identifier: Apache-2.0
#include "named_target.h"

#include <tvm/ffi/container/array.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "call/error.h"
#include "dtype.h"

namespace graphffi_jax {

using tvm::ffi::Any;

namespace {

template <typename T>
T Read(const void* data, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

/// Nothing for a type that no kernel's argument has.
std::optional<Any> ReadNumber(xla::DataType dtype, const void* data, size_t index) {
  switch (dtype) {
    case xla::kPred:
      return Any(Read<bool>(data, index));
    case xla::kS8:
      return Any(Read<int8_t>(data, index));
    case xla::kS16:
      return Any(Read<int16_t>(data, index));
    case xla::kS32:
      return Any(Read<int32_t>(data, index));
    case xla::kS64:
      return Any(Read<int64_t>(data, index));
    case xla::kU8:
      return Any(Read<uint8_t>(data, index));
    case xla::kU16:
      return Any(Read<uint16_t>(data, index));
    case xla::kU32:
      return Any(Read<uint32_t>(data, index));
    case xla::kU64: {
      const auto value = Read<int64_t>(data, index);
      return value < 0 ? std::nullopt : std::optional<Any>(value);
    }
    case xla::kF32:
      return Any(Read<float>(data, index));
    case xla::kF64:
      return Any(Read<double>(data, index));
    default:
      return std::nullopt;
  }
}

std::optional<Any> ReadArray(const xla::Array& array) {
  tvm::ffi::Array<Any> values;
  values.reserve(static_cast<int64_t>(array.size));
  for (size_t i = 0; i < array.size; ++i) {
    std::optional<Any> value = ReadNumber(array.dtype, array.data, i);
    if (!value.has_value()) return std::nullopt;
    values.push_back(*std::move(value));
  }
  return values;
}

std::optional<Any> ReadAttribute(xla::AttributeTag tag, const void* value) {
  if (tag == xla::kString) {
    auto* text = static_cast<const xla::ByteSpan*>(value);
    return tvm::ffi::String(text->data, text->size);
  }
  if (tag == xla::kScalar) {
    auto* scalar = static_cast<const xla::Scalar*>(value);
    return ReadNumber(scalar->dtype, scalar->value, 0);
  }
  if (tag == xla::kArray) return ReadArray(*static_cast<const xla::Array*>(value));
  return std::nullopt;
}

/// An attribute's elements: of a string its bytes, of a scalar one.
xla::Array ElementsOf(xla::AttributeTag tag, const void* value) {
  if (tag == xla::kString) {
    auto* text = static_cast<const xla::ByteSpan*>(value);
    return {xla::kU8, text->size, const_cast<char*>(text->data)};
  }
  if (tag == xla::kScalar) {
    auto* scalar = static_cast<const xla::Scalar*>(value);
    return {scalar->dtype, 1, scalar->value};
  }
  return *static_cast<const xla::Array*>(value);
}

/// Equal for equal attributes only.
void AppendAttribute(xla::AttributeTag tag, const void* value, std::string* key) {
  const auto [dtype, count, data] = ElementsOf(tag, value);
  const size_t size = count * static_cast<size_t>(ToDLPack(dtype).bits) / 8;
  for (const size_t number : {static_cast<size_t>(tag), static_cast<size_t>(dtype), size}) {
    *key += std::to_string(number) + ",";
  }
  key->append(static_cast<const char*>(data), size);
}

/// "a string", "an array of float32", …
std::string Describe(xla::AttributeTag tag, const void* value) {
  switch (tag) {
    case xla::kString:
      return "a string";
    case xla::kScalar:
      return "a scalar of " + DataTypeName(static_cast<const xla::Scalar*>(value)->dtype);
    case xla::kArray:
      return "an array of " + DataTypeName(static_cast<const xla::Array*>(value)->dtype);
    case xla::kDictionary:
      return "a dictionary";
  }
  return "an attribute of unknown type " + std::to_string(tag);
}

std::string ListOf(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

}  // namespace

SiteParts NamedTarget::Decode(const xla::Attributes& given) const {
  constexpr int64_t kMissing = -1;
  std::vector<int64_t> positions(attributes.size(), kMissing);
  std::string problems;
  const auto add = [&problems](const std::string& name, const std::string& text) {
    problems += (problems.empty() ? "attribute '" : "; attribute '") + name + "': expected " + text;
  };
  for (int64_t i = 0; i < given.size; ++i) {
    const std::string name(given.names[i]->data, given.names[i]->size);
    const auto found = std::find(attributes.begin(), attributes.end(), name);
    if (found == attributes.end()) {
      add(name, "a known attribute (" + ListOf(attributes) + "), got " +
                    Describe(given.tags[i], given.values[i]));
    } else {
      positions[static_cast<size_t>(found - attributes.begin())] = i;
    }
  }
  SiteParts made = parts;
  made.key = "target " + std::to_string(reinterpret_cast<uintptr_t>(this)) + " ";
  for (size_t k = 0; k < attributes.size(); ++k) {
    const int64_t i = positions[k];
    if (i == kMissing) {
      add(attributes[k], "a value, got nothing");
    } else if (std::optional<Any> value = ReadAttribute(given.tags[i], given.values[i])) {
      made.attributes.push_back(*std::move(value));
      AppendAttribute(given.tags[i], given.values[i], &made.key);
    } else {
      add(attributes[k], "an int, a float, a bool, a string or an array, got " +
                             Describe(given.tags[i], given.values[i]));
    }
  }
  if (!problems.empty()) throw graphffi::Error("TypeError", parts.subject() + ": " + problems);
  return made;
}

}  // namespace graphffi_jax
