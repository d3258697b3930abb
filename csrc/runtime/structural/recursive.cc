// SPDX-License-Identifier: Apache-2.0
// ffi.Recursive*: comparisons and hashes by value, over the fields that types registered. Objects
// of a type without fields, such as two functions or tensors, are equal, as with apache-tvm-ffi.
#include <tvm/ffi/big_int.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/reflection/accessor.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "stack_guard.h"
#include "structural.h"

namespace graphffi::runtime {
namespace {

using ffi::Function;
using ffi::detail::StableHashCombine;

/// From here on, what was met before is looked for: values with less depth have no cycle, or it
/// shows later.
constexpr int kDepthWithoutCycles = 16;

template <typename T>
int Sign(const T& a, const T& b) {
  return (b < a) - (a < b);
}

bool IsInteger(int32_t kind) { return kind == kTVMFFIInt || kind == kTVMFFIBigInt; }

/// Orders values, or only tells whether they are equal, which is possible for more of them.
class Order {
 public:
  explicit Order(bool only_equality)
      : is_ordering_(!only_equality), only_equality_(only_equality) {}

  /// Negative, zero or positive. \throws Error(TypeError) for what has no order
  int Compare(const Any& a, const Any& b) {
    StackGuard guard(&depth_);
    if (a == nullptr || b == nullptr) return (a != nullptr) - (b != nullptr);
    int32_t kind = KindOf(a);
    if (kind != KindOf(b)) return CompareKinds(a, b);
    if (kind < kTVMFFIStaticObjectBegin) return ComparePlain(kind, a, b);
    if (a.same_as(b)) return 0;
    if (depth_ <= kDepthWithoutCycles) return CompareObjects(kind, a, b);
    // Values that are being compared count as equal where they meet again.
    const std::pair pair(a.as<Object>(), b.as<Object>());
    auto [compared, is_new] = compared_.try_emplace(pair, Compared{a, b});
    if (!is_new && is_ordering_ && compared->second.is_open) {
      TVM_FFI_THROW(ValueError) << "Cannot order values with a cyclic reference";
    }
    if (!is_new) return 0;
    int order = CompareObjects(kind, a, b);
    compared->second.is_open = false;
    if (order != 0) compared_.erase(compared);
    return order;
  }

 private:
  TVM_FFI_NO_INLINE int CompareKinds(const Any& a, const Any& b) const {
    if (IsInteger(a.type_index()) && IsInteger(b.type_index())) {
      return Sign(a.cast<ffi::BigInt>(), b.cast<ffi::BigInt>());
    }
    if (!only_equality_) {
      TVM_FFI_THROW(TypeError) << "Cannot compare values of different types: " << a.GetTypeKey()
                               << " vs " << b.GetTypeKey();
    }
    return 1;
  }

  TVM_FFI_NO_INLINE int ComparePlain(int32_t kind, const Any& a, const Any& b) const {
    switch (kind) {
      case kTVMFFIInt:
      case kTVMFFIBool:
        return Sign(a.cast<int64_t>(), b.cast<int64_t>());
      case kTVMFFIFloat:
        return CompareFloats(a.cast<double>(), b.cast<double>());
      case kTVMFFIDataType:
        return Sign(Fields(a.cast<DLDataType>()), Fields(b.cast<DLDataType>()));
      case kTVMFFIDevice:
        return Sign(Fields(a.cast<DLDevice>()), Fields(b.cast<DLDevice>()));
      default:
        if (!a.same_as(b) && !only_equality_) {
          TVM_FFI_THROW(TypeError) << "Cannot order values of type " << a.GetTypeKey();
        }
        return a.same_as(b) ? 0 : 1;
    }
  }
  static std::tuple<int, int, int> Fields(DLDataType type) {
    return {type.code, type.bits, static_cast<int16_t>(type.lanes)};
  }
  static std::tuple<int, int> Fields(DLDevice device) {
    return {static_cast<int>(device.device_type), device.device_id};
  }
  int CompareFloats(double a, double b) const {
    if (!std::isnan(a) && !std::isnan(b)) return Sign(a, b);
    if (only_equality_) return std::isnan(a) && std::isnan(b) ? 0 : 1;
    TVM_FFI_THROW(TypeError) << "Cannot order NaN values";
    TVM_FFI_UNREACHABLE();
  }

  int CompareObjects(int32_t kind, const Any& a, const Any& b) {
    switch (kind) {
      case kTVMFFIStr:
        return Sign(a.cast<ffi::String>(), b.cast<ffi::String>());
      case kTVMFFIBytes:
        return Sign(a.cast<ffi::Bytes>(), b.cast<ffi::Bytes>());
      case kTVMFFIBigInt:
        return Sign(a.cast<ffi::BigInt>(), b.cast<ffi::BigInt>());
      case kTVMFFIArray:
      case kTVMFFIList:
        return CompareItems(Items(a), Items(b));
      case kTVMFFIShape:
        return CompareItems(a.cast<ffi::Shape>(), b.cast<ffi::Shape>());
      case kTVMFFIMap:
      case kTVMFFIDict:
        return CompareEntries(Entries(a), Entries(b));
      default:
        return CompareFields(a.cast<const Object*>(), b.cast<const Object*>());
    }
  }

  template <typename Sequence>
  TVM_FFI_NO_INLINE int CompareItems(const Sequence& a, const Sequence& b) {
    size_t common = std::min<size_t>(a.size(), b.size());
    for (size_t i = 0; i < common; ++i) {
      auto index = static_cast<int64_t>(i);
      if (int order = Compare(a[index], b[index])) return order;
    }
    return Sign<size_t>(a.size(), b.size());
  }

  /// Equal ones have no order either way; others have none at all.
  TVM_FFI_NO_INLINE int CompareEntries(Entries a, Entries b) {
    bool outer = std::exchange(only_equality_, true);
    bool equal = EntriesEqual(a, b);
    only_equality_ = outer;
    if (!equal && !only_equality_) TVM_FFI_THROW(TypeError) << "Cannot order Map/Dict values";
    return equal ? 0 : 1;
  }
  bool EntriesEqual(Entries a, Entries b) {
    if (a.size() != b.size()) return false;
    for (const auto& [key, value] : a) {
      if (!b.Has(key) || Compare(value, b.at(key)) != 0) return false;
    }
    return true;
  }

  TVM_FFI_NO_INLINE int CompareFields(const Object* a, const Object* b) {
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
    int order = 0;
    refl::ForEachFieldInfoWithEarlyStop(
        TVMFFIGetTypeInfo(index), [&](const TVMFFIFieldInfo* field) {
          if ((field->flags & kTVMFFIFieldFlagBitMaskCompareOff) != 0) return false;
          refl::FieldGetter get(field);
          order = Compare(get(a), get(b));
          return order != 0;
        });
    return order;
  }

  /// A pair that is being compared, or was found equal. The values live as long as the map that
  /// knows them by their addresses: what getters of fields make would not.
  struct Compared {
    Any a, b;
    bool is_open = true;
  };

  /// Whether the caller asks for an order; entries of maps are only tested for equality.
  const bool is_ordering_;
  bool only_equality_;
  int depth_ = 0;
  std::map<std::pair<const Object*, const Object*>, Compared> compared_;
};

/// Equal values have one hash, cyclic ones too, however their cycles are laid out: the hash covers
/// what one meets on the way, up to a depth and, where values branch, a number of them.
class ValueHasher {
 public:
  uint64_t Hash(const Any& value) {
    DepthCount count(&depth_);
    int32_t kind = KindOf(value);
    if (depth_ > kMaxDepth || (depth_ > kDepthWithoutCycles && ++num_deep_ > kMaxDeep)) {
      return StableHashCombine(0, static_cast<uint64_t>(kind));
    }
    switch (kind) {
      case kTVMFFIFloat: {
        // Equal values have one hash: the zeros, and every NaN.
        auto number = value.cast<double>();
        return ffi::AnyHash()(Any(std::isnan(number) ? std::nan("") : number + 0.0));
      }
      case kTVMFFIArray:
      case kTVMFFIList:
        return HashItems(kind, Items(value));
      case kTVMFFIShape:
        return HashItems(kind, value.cast<ffi::Shape>());
      case kTVMFFIMap:
      case kTVMFFIDict:
        return HashEntries(kind, Entries(value));
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
  static constexpr int kMaxDepth = 128;
  static constexpr int64_t kMaxDeep = 1 << 20;

  struct DepthCount {
    explicit DepthCount(int* depth) : depth(depth) { ++*depth; }
    ~DepthCount() { --*depth; }
    int* depth;
  };

  template <typename Sequence>
  uint64_t HashItems(int32_t kind, const Sequence& items) {
    auto hash = static_cast<uint64_t>(kind);
    for (const auto& item : items) hash = StableHashCombine(hash, Hash(item));
    return hash;
  }
  /// The hash is the same for entries in any order.
  uint64_t HashEntries(int32_t kind, Entries entries) {
    uint64_t sum = 0;
    for (const auto& [key, value] : entries) sum += StableHashCombine(Hash(key), Hash(value));
    return StableHashCombine(static_cast<uint64_t>(kind), sum);
  }
  uint64_t HashFields(const Any& value, const Object* object) {
    const TVMFFITypeInfo* type = TVMFFIGetTypeInfo(object->type_index());
    if (auto own = OwnFunction(ffi::type_attr::kHash.name, object->type_index())) {
      auto inner = [this](AnyView item) { return static_cast<int64_t>(Hash(item)); };
      return static_cast<uint64_t>((*own)(object, Function::FromTyped(inner)).cast<int64_t>());
    }
    for (const char* other : {ffi::type_attr::kEq.name, ffi::type_attr::kCompare.name}) {
      if (!OwnFunction(other, object->type_index()).has_value()) continue;
      TVM_FFI_THROW(ValueError) << "type `" << value.GetTypeKey()
                                << "` defines __ffi_eq__ or __ffi_compare__ but not __ffi_hash__";
    }
    uint64_t hash = type->type_key_hash;
    constexpr auto kOff = kTVMFFIFieldFlagBitMaskHashOff | kTVMFFIFieldFlagBitMaskCompareOff;
    refl::ForEachFieldInfo(type, [&](const TVMFFIFieldInfo* field) {
      if ((field->flags & kOff) != 0) return;
      hash = StableHashCombine(hash, Hash(refl::FieldGetter(field)(object)));
    });
    return hash;
  }

  int depth_ = 0;
  int64_t num_deep_ = 0;
};

int Compare(const Any& a, const Any& b) { return Order(false).Compare(a, b); }

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::GlobalDef()
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
