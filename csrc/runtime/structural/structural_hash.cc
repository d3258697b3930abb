// SPDX-License-Identifier: Apache-2.0
// ffi.StructuralHash: what StructuralEqual finds equal has the same hash.
#include <tvm/ffi/extra/structural_detail.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "structural.h"

namespace graphffi::runtime {
namespace {

using ffi::detail::DefRegionScope;
using ffi::detail::StableHashBytes;
using ffi::detail::StableHashCombine;

class Hasher {
 public:
  Hasher(bool map_free_vars, bool skip_tensor_content)
      : region_(map_free_vars ? kTVMFFIDefRegionKindPattern : kTVMFFIDefRegionKindNone),
        skip_tensor_content_(skip_tensor_content) {}

  uint64_t Hash(const Any& value) {
    StackGuard guard(&depth_);
    int32_t kind = KindOf(value);
    switch (kind) {
      case kTVMFFIFloat:
        return StableHashCombine(static_cast<uint64_t>(kind), HashFloat(value.cast<double>()));
      case kTVMFFIStr:
      case kTVMFFIBytes:
        return ffi::AnyHash()(value);
      case kTVMFFIBigInt:
        return HashBytes(kind, BigIntBytes(value));
      case kTVMFFIArray:
      case kTVMFFIList:
        return HashItems(kind, Items(value));
      case kTVMFFIMap:
      case kTVMFFIDict:
        return HashEntries(kind, Entries(value));
      case kTVMFFIShape: {
        auto shape = value.cast<ffi::Shape>();
        return HashNumbers(static_cast<uint64_t>(kind), shape.begin(), shape.end());
      }
      case kTVMFFITensor:
        return HashTensor(*value.cast<ffi::Tensor>().get());
      default:
        return kind < kTVMFFIStaticObjectBegin
                   ? StableHashCombine(static_cast<uint64_t>(kind), Payload(value))
                   : HashObject(value);
    }
  }

 private:
  static uint64_t Payload(const Any& value) { return AnyView(value).CopyToTVMFFIAny().v_uint64; }
  static uint64_t HashBytes(int32_t kind, std::string_view bytes) {
    return StableHashCombine(static_cast<uint64_t>(kind),
                             StableHashBytes(bytes.data(), bytes.size()));
  }
  /// One hash for every NaN.
  static uint64_t HashFloat(double value) {
    if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }
  template <typename Iterator>
  static uint64_t HashNumbers(uint64_t seed, Iterator begin, Iterator end) {
    seed = StableHashCombine(seed, static_cast<uint64_t>(end - begin));
    for (; begin != end; ++begin) seed = StableHashCombine(seed, static_cast<uint64_t>(*begin));
    return seed;
  }

  uint64_t HashItems(int32_t kind, Items items) {
    uint64_t hash =
        StableHashCombine(static_cast<uint64_t>(kind), static_cast<uint64_t>(items.size()));
    for (const Any& item : items) hash = StableHashCombine(hash, Hash(item));
    return hash;
  }

  /// The order of entries does not matter. Left out are entries whose key is another object in an
  /// equal map, such as a variable that is bound later, and values of keys with one hash.
  uint64_t HashEntries(int32_t kind, Entries entries) {
    std::vector<std::pair<uint64_t, Any>> values;
    for (const auto& [key, value] : entries) {
      if (auto hash = HashOfKey(key)) values.emplace_back(*hash, value);
    }
    std::sort(values.begin(), values.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    uint64_t hash = StableHashCombine(static_cast<uint64_t>(kind), entries.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const auto& [key, value] = values[i];
      hash = StableHashCombine(hash, key);
      const bool is_alone = (i == 0 || values[i - 1].first != key) &&
                            (i + 1 == values.size() || values[i + 1].first != key);
      if (is_alone) hash = StableHashCombine(hash, Hash(value));
    }
    return hash;
  }
  std::optional<uint64_t> HashOfKey(const Any& key) {
    int32_t kind = KindOf(key);
    const bool is_plain = kind < kTVMFFIStaticObjectBegin || kind == kTVMFFIStr ||
                          kind == kTVMFFIBytes || kind == kTVMFFIBigInt;
    if (is_plain) return Hash(key);
    auto known = bound_.find(key.as<Object>());
    if (known != bound_.end()) return known->second;
    const bool is_itself = kind == kTVMFFIFunction || kind == kTVMFFIModule ||
                           (kind >= kTVMFFIDynObjectBegin && CompareKind(kind, "StructuralHash") ==
                                                                 kTVMFFISEqHashKindUniqueInstance);
    return is_itself ? std::optional(Payload(key)) : std::nullopt;
  }

  uint64_t HashTensor(const DLTensor& tensor) const {
    uint64_t hash = HashNumbers(kTVMFFITensor, tensor.shape, tensor.shape + tensor.ndim);
    uint32_t dtype;
    std::memcpy(&dtype, &tensor.dtype, sizeof(dtype));
    hash = StableHashCombine(hash, dtype);
    if (skip_tensor_content_) return hash;
    std::string_view bytes = TensorBytes(tensor);
    return StableHashCombine(hash, StableHashBytes(bytes.data(), bytes.size()));
  }

  uint64_t HashObject(const Any& value) {
    const Object* object = value.cast<const Object*>();
    int32_t index = value.type_index();
    if (index == kTVMFFIFunction || index == kTVMFFIModule) return Payload(value);
    switch (CompareKind(index, "StructuralHash")) {
      case kTVMFFISEqHashKindUniqueInstance:
        return Payload(value);
      case kTVMFFISEqHashKindFreeVar:
        return HashOnce(object, region_ != kTVMFFIDefRegionKindNone);
      case kTVMFFISEqHashKindDAGNode:
        return HashOnce(object, true);
      default:
        return HashFields(object);
    }
  }

  /// A node that may appear again stands for the order of its first appearance.
  uint64_t HashOnce(const Object* object, bool binds) {
    auto known = bound_.find(object);
    if (known != bound_.end()) return known->second;
    if (!binds) return reinterpret_cast<uint64_t>(object);
    uint64_t fields = HashFields(object);
    return bound_[object] = StableHashCombine(fields, bound_.size() + 1);
  }

  uint64_t HashFields(const Object* object) {
    const TVMFFITypeInfo* type = TVMFFIGetTypeInfo(object->type_index());
    DefRegionScope inside(&region_, ffi::detail::RegionInside(type, region_));
    uint64_t hash = type->type_key_hash;
    if (auto own = OwnFunction(ffi::type_attr::kSHash.name, object->type_index())) {
      return HashByItself(*own, object, hash);
    }
    refl::ForEachFieldInfo(type, [&](const TVMFFIFieldInfo* field) {
      if ((field->flags & kTVMFFIFieldFlagBitMaskSEqHashIgnore) != 0) return;
      const TVMFFIDefRegionKind region = ffi::detail::RegionOf(field, region_);
      hash = StableHashCombine(hash, HashIn(region, refl::FieldGetter(field)(object)));
    });
    return hash;
  }

  uint64_t HashByItself(const ffi::Function& own, const Object* object, uint64_t seed) {
    auto combine = [this](AnyView value, int64_t hash, int kind) {
      uint64_t inner = HashIn(RegionOfHook(kind, region_), value);
      return static_cast<int64_t>(StableHashCombine(static_cast<uint64_t>(hash), inner));
    };
    Any hash = own(object, static_cast<int64_t>(seed), ffi::Function::FromTyped(combine));
    return static_cast<uint64_t>(hash.cast<int64_t>());
  }

  uint64_t HashIn(TVMFFIDefRegionKind region, const Any& value) {
    DefRegionScope scope(&region_, region);
    return Hash(value);
  }

  TVMFFIDefRegionKind region_;
  bool skip_tensor_content_;
  int depth_ = 0;
  std::unordered_map<const Object*, uint64_t> bound_;
};

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::GlobalDef().def(
      "ffi.StructuralHash", [](const Any& value, bool map_free_vars, bool skip_tensor_content) {
        return static_cast<int64_t>(Hasher(map_free_vars, skip_tensor_content).Hash(value));
      });
}

}  // namespace
}  // namespace graphffi::runtime
