// SPDX-License-Identifier: Apache-2.0
// Hash and equality of map keys, which code in other libraries computes too: every step is part of
// the ABI.
#include "map_key.h"

#include <cstring>

#include "error.h"
#include "function.h"
#include "string_value.h"

namespace graphffi::runtime {
namespace {

constexpr uint64_t kTextMultiplier = 1099511628211ULL;
constexpr uint64_t kTextModulus = 2147483647ULL;

uint64_t Combine(uint64_t seed, uint64_t value) {
  return seed ^ (value + 0x9e3779b9 + (seed << 6) + (seed >> 2));
}

/// Little-endian words, the last one filled up with zeros.
uint64_t HashText(std::string_view text) {
  uint64_t hash = 0;
  for (; !text.empty(); text.remove_prefix(text.size() < 8 ? text.size() : 8)) {
    uint64_t word = 0;
    std::memcpy(&word, text.data(), text.size() < 8 ? text.size() : 8);
    hash = (hash * kTextMultiplier + word) % kTextModulus;
  }
  return hash;
}

/// The content of a string or bytes, and the type index that stands for both its forms; 0 for other
/// values.
int32_t TextKind(const TVMFFIAny& key, std::string_view* content) {
  if (auto text = TryText(key)) {
    *content = *text;
    return kTVMFFIStr;
  }
  if (auto bytes = TryBytes(key)) {
    *content = *bytes;
    return kTVMFFIBytes;
  }
  return 0;
}

/// What the type of the key registered under the attribute, or NULL.
const TVMFFIAny* FindAttribute(const TVMFFIAny& key, const char* name) {
  TVMFFIByteArray bytes = {name, std::strlen(name)};
  const TVMFFITypeAttrColumn* column = TVMFFIGetTypeAttrColumn(&bytes);
  if (column == nullptr) return nullptr;
  int32_t offset = key.type_index - column->begin_index;
  if (offset < 0 || offset >= column->size) return nullptr;
  const TVMFFIAny* attribute = &column->data[offset];
  return attribute->type_index == kTVMFFINone ? nullptr : attribute;
}

}  // namespace

uint64_t HashKey(const TVMFFIAny& key) {
  std::string_view content;
  if (int32_t kind = TextKind(key, &content)) return Combine(kind, HashText(content));
  if (HoldsObject(key)) {
    const TVMFFIAny* attribute = FindAttribute(key, "__any_hash__");
    if (attribute != nullptr && attribute->type_index == kTVMFFIOpaquePtr) {
      using HashPointer = TVMFFIAny (*)(const TVMFFIAny* key);
      Any hash = Any::Steal(reinterpret_cast<HashPointer>(attribute->v_ptr)(&key));
      return Combine(key.type_index, hash.view().v_uint64);
    }
    if (attribute != nullptr) {
      return Combine(key.type_index, CallFunction(attribute->v_obj, {key}).view().v_uint64);
    }
  }
  return Combine(key.type_index, key.v_uint64);
}

bool KeysEqual(const TVMFFIAny& a, const TVMFFIAny& b) {
  if (a.type_index == b.type_index && a.v_uint64 == b.v_uint64 &&
      a.zero_padding == b.zero_padding) {
    return true;
  }
  std::string_view content_a;
  std::string_view content_b;
  if (int32_t kind = TextKind(a, &content_a)) {
    return kind == TextKind(b, &content_b) && content_a == content_b;
  }
  if (a.type_index != b.type_index || !HoldsObject(a)) return false;
  const TVMFFIAny* attribute = FindAttribute(a, "__any_equal__");
  if (attribute == nullptr) return false;
  if (attribute->type_index == kTVMFFIOpaquePtr) {
    using EqualPointer = TVMFFIAny (*)(const TVMFFIAny* a, const TVMFFIAny* b);
    Any equal = Any::Steal(reinterpret_cast<EqualPointer>(attribute->v_ptr)(&a, &b));
    return equal.view().v_int64 != 0;
  }
  return CallFunction(attribute->v_obj, {a, b}).view().v_int64 != 0;
}

}  // namespace graphffi::runtime
