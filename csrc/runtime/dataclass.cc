// SPDX-License-Identifier: Apache-2.0
// ffi.DeepCopy and ffi.Recursive*: copies, comparisons and hashes by value, over the fields that
// types registered.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/dict.h>
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "structural.h"

namespace graphffi::runtime {
namespace {

namespace ffi = tvm::ffi;
namespace refl = tvm::ffi::reflection;
using ffi::Any;
using ffi::AnyView;
using ffi::Function;
using ffi::Object;
using ffi::detail::StableHashCombine;

/// A type's own function, if it registered one.
std::optional<Function> OwnFunction(const char* attribute, int32_t type_index) {
  const TVMFFIAny* own = ffi::detail::OptTypeAttr(attribute, type_index);
  if (own == nullptr) return std::nullopt;
  return AnyView::CopyFromTVMFFIAny(*own).cast<Function>();
}

class Copier {
 public:
  Any Copy(const Any& value) {
    const auto* object = value.as<Object>();
    if (object == nullptr) return value;
    auto known = copies_.find(object);
    if (known != copies_.end()) return known->second;
    DepthGuard guard(&depth_);
    switch (value.type_index()) {
      case kTVMFFIStr:
      case kTVMFFIBytes:
      case kTVMFFIShape:
      case kTVMFFITensor:
      case kTVMFFIBigInt:
        return value;  // immutable, or memory that others share on purpose
      case kTVMFFIArray:
        return copies_[object] = CopyArray(value.cast<ffi::Array<Any>>());
      case kTVMFFIMap:
        return copies_[object] = CopyMap(value.cast<ffi::Map<Any, Any>>());
      case kTVMFFIList:
        return CopyList(object, value.cast<ffi::List<Any>>());
      case kTVMFFIDict:
        return CopyDict(object, value.cast<ffi::Dict<Any, Any>>());
      default:
        return CopyFields(object);
    }
  }

 private:
  ffi::Array<Any> CopyArray(const ffi::Array<Any>& array) {
    ffi::Array<Any> copy;
    copy.reserve(static_cast<int64_t>(array.size()));
    for (const Any& item : array) copy.push_back(Copy(item));
    return copy;
  }
  ffi::Map<Any, Any> CopyMap(const ffi::Map<Any, Any>& map) {
    ffi::Map<Any, Any> copy;
    for (const auto& [key, value] : map) copy.Set(Copy(key), Copy(value));
    return copy;
  }
  // What may contain itself is known before its content is copied.
  ffi::List<Any> CopyList(const Object* object, const ffi::List<Any>& list) {
    ffi::List<Any> copy;
    copies_[object] = copy;
    for (const Any& item : list) copy.push_back(Copy(item));
    return copy;
  }
  ffi::Dict<Any, Any> CopyDict(const Object* object, const ffi::Dict<Any, Any>& dict) {
    ffi::Dict<Any, Any> copy;
    copies_[object] = copy;
    for (const auto& [key, value] : dict) copy.Set(Copy(key), Copy(value));
    return copy;
  }
  Any CopyFields(const Object* object) {
    auto shallow = OwnFunction(ffi::type_attr::kShallowCopy.name, object->type_index());
    if (!shallow.has_value()) {
      TVM_FFI_THROW(RuntimeError) << "Cannot deep copy object of type \"" << object->GetTypeKey()
                                  << "\" because it is not copy-constructible";
    }
    Any copy = (*shallow)(object);
    copies_[object] = copy;
    const auto* target = copy.cast<const Object*>();
    refl::ForEachFieldInfo(TVMFFIGetTypeInfo(object->type_index()),
                           [&](const TVMFFIFieldInfo* field) {
                             Any value = refl::FieldGetter(field)(object);
                             Any copied = Copy(value);
                             refl::FieldSetter set(field);
                             if (!copied.same_as(value)) set(target, copied);
                           });
    return copy;
  }

  int depth_ = 0;
  std::unordered_map<const Object*, Any> copies_;
};

/// Orders values, or only tells whether they are equal, which is possible for more of them.
class Order {
 public:
  explicit Order(bool only_equality) : only_equality_(only_equality) {}

  /// Negative, zero or positive. \throws Error(TypeError) for what has no order
  int Compare(const Any& a, const Any& b) {
    DepthGuard guard(&depth_);
    if (a == nullptr || b == nullptr) return (a != nullptr) - (b != nullptr);
    int32_t kind = KindOf(a);
    if (kind != KindOf(b)) {
      return Unordered("Cannot compare values of different types: " + a.GetTypeKey() + " vs " +
                       b.GetTypeKey());
    }
    switch (kind) {
      case kTVMFFIInt:
      case kTVMFFIBool:
        return Sign(a.cast<int64_t>(), b.cast<int64_t>());
      case kTVMFFIFloat:
        return CompareFloats(a.cast<double>(), b.cast<double>());
      case kTVMFFIStr:
        return Sign(a.cast<ffi::String>(), b.cast<ffi::String>());
      case kTVMFFIBytes:
        return Sign(a.cast<ffi::Bytes>(), b.cast<ffi::Bytes>());
      case kTVMFFIArray:
        return CompareItems(a.cast<ffi::Array<Any>>(), b.cast<ffi::Array<Any>>());
      case kTVMFFIList:
        return CompareItems(a.cast<ffi::List<Any>>(), b.cast<ffi::List<Any>>());
      case kTVMFFIShape:
        return CompareItems(a.cast<ffi::Shape>(), b.cast<ffi::Shape>());
      case kTVMFFIMap:
        return CompareEntries(a.cast<ffi::Map<Any, Any>>(), b.cast<ffi::Map<Any, Any>>());
      case kTVMFFIDict:
        return CompareEntries(a.cast<ffi::Dict<Any, Any>>(), b.cast<ffi::Dict<Any, Any>>());
      case kTVMFFIBigInt:
        if (BigIntBytes(a) == BigIntBytes(b)) return 0;
        return Unordered("Cannot order ffi.BigInt values");
      default:
        break;
    }
    if (a.same_as(b)) return 0;
    if (kind < kTVMFFIStaticObjectBegin) return Unordered("Cannot order values of this type");
    return CompareObjects(a.cast<const Object*>(), b.cast<const Object*>());
  }

 private:
  template <typename T>
  static int Sign(const T& a, const T& b) {
    return (b < a) - (a < b);
  }
  int Unordered(const std::string& reason) const {
    if (!only_equality_) TVM_FFI_THROW(TypeError) << reason;
    return 1;
  }
  int CompareFloats(double a, double b) const {
    if (!std::isnan(a) && !std::isnan(b)) return Sign(a, b);
    if (std::isnan(a) && std::isnan(b) && only_equality_) return 0;
    return Unordered("Cannot order NaN values");
  }
  template <typename Items>
  int CompareItems(const Items& a, const Items& b) {
    size_t common = std::min<size_t>(a.size(), b.size());
    for (size_t i = 0; i < common; ++i) {
      auto index = static_cast<int64_t>(i);
      if (int order = Compare(a[index], b[index])) return order;
    }
    return Sign<size_t>(a.size(), b.size());
  }
  template <typename Entries>
  int CompareEntries(const Entries& a, const Entries& b) {
    if (!only_equality_) return Unordered("Cannot order Map/Dict values");
    if (a.size() != b.size()) return 1;
    for (const auto& [key, value] : a) {
      if (b.count(key) == 0 || Compare(value, b.at(key)) != 0) return 1;
    }
    return 0;
  }
  int CompareObjects(const Object* a, const Object* b) {
    int32_t index = a->type_index();
    if (only_equality_) {
      if (auto equal = OwnFunction(ffi::type_attr::kEq.name, index)) {
        auto inner = [this](AnyView x, AnyView y) { return Compare(x, y) == 0; };
        return (*equal)(a, b, Function::FromTyped(inner)).cast<bool>() ? 0 : 1;
      }
    }
    if (auto compare = OwnFunction(ffi::type_attr::kCompare.name, index)) {
      auto inner = [this](AnyView x, AnyView y) { return Compare(x, y); };
      return (*compare)(a, b, Function::FromTyped(inner)).cast<int>();
    }
    const TVMFFITypeInfo* type = TVMFFIGetTypeInfo(index);
    if (type->metadata == nullptr) return Unordered("Cannot order objects of this type");
    int order = 0;
    refl::ForEachFieldInfoWithEarlyStop(type, [&](const TVMFFIFieldInfo* field) {
      if ((field->flags & kTVMFFIFieldFlagBitMaskCompareOff) != 0) return false;
      refl::FieldGetter get(field);
      order = Compare(get(a), get(b));
      return order != 0;
    });
    return order;
  }

  bool only_equality_;
  int depth_ = 0;
};

class ValueHasher {
 public:
  uint64_t Hash(const Any& value) {
    DepthGuard guard(&depth_);
    switch (value.type_index()) {
      case kTVMFFIFloat: {
        // Equal values have one hash: the zeros, and every NaN.
        auto number = value.cast<double>();
        return ffi::AnyHash()(Any(std::isnan(number) ? std::nan("") : number + 0.0));
      }
      case kTVMFFIArray:
        return HashItems(kTVMFFIArray, value.cast<ffi::Array<Any>>());
      case kTVMFFIList:
        return HashItems(kTVMFFIList, value.cast<ffi::List<Any>>());
      case kTVMFFIShape:
        return HashItems(kTVMFFIShape, value.cast<ffi::Shape>());
      case kTVMFFIMap:
        return HashEntries(kTVMFFIMap, value.cast<ffi::Map<Any, Any>>());
      case kTVMFFIDict:
        return HashEntries(kTVMFFIDict, value.cast<ffi::Dict<Any, Any>>());
      case kTVMFFIBigInt: {
        std::string_view bytes = BigIntBytes(value);
        return ffi::detail::StableHashBytes(bytes.data(), bytes.size());
      }
      case kTVMFFIStr:
      case kTVMFFIBytes:
        return ffi::AnyHash()(value);
      default:
        break;
    }
    const auto* object = value.as<Object>();
    return object == nullptr ? ffi::AnyHash()(value) : HashFields(value, object);
  }

 private:
  template <typename Items>
  uint64_t HashItems(uint64_t hash, const Items& items) {
    for (const auto& item : items) hash = StableHashCombine(hash, Hash(item));
    return hash;
  }
  /// The same in any order.
  template <typename Entries>
  uint64_t HashEntries(uint64_t hash, const Entries& entries) {
    uint64_t sum = 0;
    for (const auto& [key, value] : entries) sum += StableHashCombine(Hash(key), Hash(value));
    return StableHashCombine(hash, sum);
  }
  uint64_t HashFields(const Any& value, const Object* object) {
    const TVMFFITypeInfo* type = TVMFFIGetTypeInfo(object->type_index());
    if (auto own = OwnFunction(ffi::type_attr::kHash.name, object->type_index())) {
      auto inner = [this](AnyView item) { return static_cast<int64_t>(Hash(item)); };
      return static_cast<uint64_t>((*own)(object, Function::FromTyped(inner)).cast<int64_t>());
    }
    if (type->metadata == nullptr) return ffi::AnyHash()(value);
    uint64_t hash = type->type_key_hash;
    constexpr auto kOff = kTVMFFIFieldFlagBitMaskHashOff | kTVMFFIFieldFlagBitMaskCompareOff;
    refl::ForEachFieldInfo(type, [&](const TVMFFIFieldInfo* field) {
      if ((field->flags & kOff) != 0) return;
      hash = StableHashCombine(hash, Hash(refl::FieldGetter(field)(object)));
    });
    return hash;
  }

  int depth_ = 0;
};

int Compare(const Any& a, const Any& b) { return Order(false).Compare(a, b); }

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::GlobalDef()
      .def("ffi.DeepCopy", [](const Any& value) { return Copier().Copy(value); })
      .def("ffi.RecursiveEq",
           [](const Any& a, const Any& b) { return Order(true).Compare(a, b) == 0; })
      .def("ffi.RecursiveLt", [](const Any& a, const Any& b) { return Compare(a, b) < 0; })
      .def("ffi.RecursiveLe", [](const Any& a, const Any& b) { return Compare(a, b) <= 0; })
      .def("ffi.RecursiveGt", [](const Any& a, const Any& b) { return Compare(a, b) > 0; })
      .def("ffi.RecursiveGe", [](const Any& a, const Any& b) { return Compare(a, b) >= 0; })
      .def("ffi.RecursiveHash",
           [](const Any& value) { return static_cast<int64_t>(ValueHasher().Hash(value)); });
}

}  // namespace
}  // namespace graphffi::runtime
