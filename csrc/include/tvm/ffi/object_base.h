// SPDX-License-Identifier: Apache-2.0
// Object: the header of every counted object, its counts and its type.
#pragma once

#include <tvm/ffi/base_detail.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

using TypeIndex = TVMFFITypeIndex;
using TypeInfo = TVMFFITypeInfo;

/// Leaves a reference null, for code that fills it in later.
struct UnsafeInit {};

/// The type keys of the values and objects that the runtime itself knows.
struct StaticTypeKey {
  static constexpr const char* kTVMFFIAny = "Any";
  static constexpr const char* kTVMFFINone = "None";
  static constexpr const char* kTVMFFIBool = "bool";
  static constexpr const char* kTVMFFIInt = "int";
  static constexpr const char* kTVMFFIFloat = "float";
  static constexpr const char* kTVMFFIOpaquePtr = "void*";
  static constexpr const char* kTVMFFIDataType = "DataType";
  static constexpr const char* kTVMFFIDevice = "Device";
  static constexpr const char* kTVMFFIDLTensorPtr = "DLTensor*";
  static constexpr const char* kTVMFFIRawStr = "const char*";
  static constexpr const char* kTVMFFIByteArrayPtr = "TVMFFIByteArray*";
  static constexpr const char* kTVMFFIObjectRValueRef = "ObjectRValueRef";
  static constexpr const char* kTVMFFISmallStr = "ffi.SmallStr";
  static constexpr const char* kTVMFFISmallBytes = "ffi.SmallBytes";
  static constexpr const char* kTVMFFIObject = "ffi.Object";
  static constexpr const char* kTVMFFIStr = "ffi.String";
  static constexpr const char* kTVMFFIBytes = "ffi.Bytes";
  static constexpr const char* kTVMFFIError = "ffi.Error";
  static constexpr const char* kTVMFFIFunction = "ffi.Function";
  static constexpr const char* kTVMFFIShape = "ffi.Shape";
  static constexpr const char* kTVMFFITensor = "ffi.Tensor";
  static constexpr const char* kTVMFFIArray = "ffi.Array";
  static constexpr const char* kTVMFFIMap = "ffi.Map";
  static constexpr const char* kTVMFFIModule = "ffi.Module";
  static constexpr const char* kTVMFFIOpaquePyObject = "ffi.OpaquePyObject";
  static constexpr const char* kTVMFFIList = "ffi.List";
  static constexpr const char* kTVMFFIDict = "ffi.Dict";
};

/// The registered name of a type, e.g. "int" or "ffi.Tensor".
inline std::string TypeIndexToTypeKey(int32_t type_index) {
  const TypeInfo* type = TVMFFIGetTypeInfo(type_index);
  return std::string(type->type_key.data, type->type_key.size);
}

namespace detail {

struct ObjectUnsafe;

inline constexpr uint64_t kStrongOne = 1;
inline constexpr uint64_t kWeakOne = uint64_t{1} << 32;
inline constexpr uint64_t kStrongMask = kWeakOne - 1;
/// The count of a new object: one strong reference, and the weak one that all strong ones share.
inline constexpr uint64_t kUniqueCount = kStrongOne | kWeakOne;

inline void IncRef(TVMFFIObject* object) {
  __atomic_fetch_add(&object->combined_ref_count, kStrongOne, __ATOMIC_RELAXED);
}

TVM_FFI_NO_INLINE inline void DestroyLastStrong(TVMFFIObject* object, uint64_t count) {
  if (count == kUniqueCount) {
    if (object->deleter != nullptr) {
      object->deleter(object, kTVMFFIObjectDeleterFlagBitMaskBoth);
    }
    return;
  }
  if (object->deleter != nullptr) {
    object->deleter(object, kTVMFFIObjectDeleterFlagBitMaskStrong);
  }
  if (__atomic_fetch_sub(&object->combined_ref_count, kWeakOne, __ATOMIC_ACQ_REL) == kWeakOne &&
      object->deleter != nullptr) {
    object->deleter(object, kTVMFFIObjectDeleterFlagBitMaskWeak);
  }
}

inline void DecRef(TVMFFIObject* object) {
  // Acquire on each, rather than a fence before the deleter: thread sanitizers know no fences.
  uint64_t before = __atomic_fetch_sub(&object->combined_ref_count, kStrongOne, __ATOMIC_ACQ_REL);
  if ((before & kStrongMask) == kStrongOne) {
    DestroyLastStrong(object, before);
  }
}

}  // namespace detail

/// The base of every object: 24 bytes of header. Objects are made by make_object and live behind an
/// ObjectPtr.
class Object {
 public:
  static constexpr const char* _type_key = StaticTypeKey::kTVMFFIObject;
  static constexpr bool _type_final = false;
  static constexpr bool _type_mutable = false;
  static constexpr int32_t _type_child_slots = 0;
  static constexpr bool _type_child_slots_can_overflow = true;
  static constexpr int32_t _type_depth = 0;
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindUnsupported;

  static int32_t RuntimeTypeIndex() { return kTVMFFIObject; }
  static int32_t _GetOrAllocRuntimeTypeIndex() { return kTVMFFIObject; }

  Object() : header_() {}
  /// A copy is a new object: it does not share the original's count.
  Object(const Object&) : header_() {}
  Object& operator=(const Object&) { return *this; }

  int32_t type_index() const { return header_.type_index; }
  std::string GetTypeKey() const { return TypeIndexToTypeKey(header_.type_index); }
  uint64_t GetTypeKeyHash() const { return TVMFFIGetTypeInfo(header_.type_index)->type_key_hash; }
  static std::string TypeIndex2Key(int32_t type_index) { return TypeIndexToTypeKey(type_index); }

  /// True if the object is a TargetType or derives from it.
  template <typename TargetType>
  bool IsInstance() const;

  /// True if there is exactly one strong reference and no weak one: the object may be changed in
  /// place.
  bool unique() const {
    return __atomic_load_n(&header_.combined_ref_count, __ATOMIC_ACQUIRE) == detail::kUniqueCount;
  }
  int use_count() const {
    return static_cast<int>(__atomic_load_n(&header_.combined_ref_count, __ATOMIC_RELAXED) &
                            detail::kStrongMask);
  }

 private:
  friend struct detail::ObjectUnsafe;
  TVMFFIObject header_;
};

static_assert(sizeof(Object) == sizeof(TVMFFIObject), "Object is exactly the ABI's header");

/// Whether T is an object type. May be specialised for a type that is not complete yet, so that it
/// can hold containers of pointers to itself.
template <typename T>
inline constexpr bool is_object_subclass_v = std::is_base_of_v<Object, T>;

namespace detail {

TVM_FFI_NO_INLINE inline bool HasAncestor(int32_t type_index, int32_t depth, int32_t ancestor) {
  const TypeInfo* type = TVMFFIGetTypeInfo(type_index);
  return type->type_depth > depth && type->type_ancestors[depth]->type_index == ancestor;
}

/// Whether type_index is of the type target, or of one derived from it.
inline bool RuntimeTypeIndexMatch(int32_t type_index, int32_t target) {
  if (type_index == target || target == kTVMFFIAny) return true;
  if (type_index < target || target < kTVMFFIStaticObjectBegin) return false;
  return HasAncestor(type_index, TVMFFIGetTypeInfo(target)->type_depth, target);
}

/// Whether an object of type object_type_index is a TargetType.
template <typename TargetType>
TVM_FFI_INLINE bool IsObjectInstance(int32_t object_type_index) {
  static_assert(std::is_base_of_v<Object, TargetType>);
  if constexpr (std::is_same_v<TargetType, Object>) {
    return object_type_index >= kTVMFFIStaticObjectBegin;
  } else {
    int32_t target = TargetType::RuntimeTypeIndex();
    if (object_type_index == target) return true;
    if constexpr (TargetType::_type_final) {
      return false;
    } else {
      // A derived type always gets a higher index than its parent.
      if (object_type_index < target || object_type_index < kTVMFFIStaticObjectBegin) return false;
      if (object_type_index <= target + TargetType::_type_child_slots) return true;
      if (!TargetType::_type_child_slots_can_overflow) return false;
      return HasAncestor(object_type_index, TargetType::_type_depth, target);
    }
  }
}

inline int32_t AllocTypeIndex(const char* key, int32_t static_index, int32_t depth, int32_t slots,
                              bool can_overflow, int32_t parent) {
  TVMFFIByteArray name = {key, std::char_traits<char>::length(key)};
  return TVMFFITypeGetOrAllocIndex(&name, static_index, depth, slots, can_overflow, parent);
}

}  // namespace detail

template <typename TargetType>
bool Object::IsInstance() const {
  return detail::IsObjectInstance<TargetType>(header_.type_index);
}

}  // namespace graphffi_v1
}  // namespace tvm::ffi
