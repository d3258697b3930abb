// SPDX-License-Identifier: Apache-2.0
// Counted objects: Object (the header), ObjectPtr and WeakObjectPtr (counted pointers), ObjectRef (the base of
// every reference type), and the macros that declare new object types.
#pragma once

#include <tvm/ffi/base_detail.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tvm {
namespace ffi {
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
/// What a new object's count is: one strong reference, and the weak one that all strong ones share.
inline constexpr uint64_t kUniqueCount = kStrongOne | kWeakOne;

inline void IncRef(TVMFFIObject* object) {
  __atomic_fetch_add(&object->combined_ref_count, kStrongOne, __ATOMIC_RELAXED);
}

TVM_FFI_NO_INLINE inline void DestroyLastStrong(TVMFFIObject* object, uint64_t count) {
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
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
  uint64_t before = __atomic_fetch_sub(&object->combined_ref_count, kStrongOne, __ATOMIC_RELEASE);
  if ((before & kStrongMask) == kStrongOne) {
    DestroyLastStrong(object, before);
  }
}

}  // namespace detail

/// The base of every object: 24 bytes of header. Objects are made by make_object and live behind an ObjectPtr.
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

  /// True if there is exactly one strong reference and no weak one: the object may be changed in place.
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

namespace detail {

TVM_FFI_NO_INLINE inline bool HasAncestor(int32_t type_index, int32_t depth, int32_t ancestor) {
  const TypeInfo* type = TVMFFIGetTypeInfo(type_index);
  return type->type_depth > depth && type->type_ancestors[depth]->type_index == ancestor;
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

template <typename T>
class WeakObjectPtr;

/// A counted pointer to an object; null when default constructed.
template <typename T>
class ObjectPtr {
 public:
  ObjectPtr() = default;
  ObjectPtr(std::nullptr_t) {}  // NOLINT(runtime/explicit)
  ObjectPtr(const ObjectPtr& other) : ObjectPtr(other.data_, Retain{}) {}
  ObjectPtr(ObjectPtr&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  template <typename U, typename = std::enable_if_t<std::is_base_of_v<T, U>>>
  ObjectPtr(const ObjectPtr<U>& other) : ObjectPtr(other.data_, Retain{}) {}  // NOLINT
  template <typename U, typename = std::enable_if_t<std::is_base_of_v<T, U>>>
  ObjectPtr(ObjectPtr<U>&& other) noexcept  // NOLINT(runtime/explicit)
      : data_(std::exchange(other.data_, nullptr)) {}
  ~ObjectPtr() { reset(); }

  ObjectPtr& operator=(const ObjectPtr& other) {
    ObjectPtr(other).swap(*this);
    return *this;
  }
  ObjectPtr& operator=(ObjectPtr&& other) noexcept {
    ObjectPtr(std::move(other)).swap(*this);
    return *this;
  }
  ObjectPtr& operator=(std::nullptr_t) {
    reset();
    return *this;
  }

  void swap(ObjectPtr& other) noexcept { std::swap(data_, other.data_); }
  void reset() {
    if (data_ != nullptr) {
      detail::DecRef(reinterpret_cast<TVMFFIObject*>(std::exchange(data_, nullptr)));
    }
  }

  T* get() const { return static_cast<T*>(data_); }
  T* operator->() const { return get(); }
  T& operator*() const { return *get(); }
  explicit operator bool() const { return data_ != nullptr; }
  int use_count() const { return data_ != nullptr ? data_->use_count() : 0; }
  bool unique() const { return data_ != nullptr && data_->unique(); }

  bool operator==(const ObjectPtr& other) const { return data_ == other.data_; }
  bool operator!=(const ObjectPtr& other) const { return data_ != other.data_; }
  bool operator==(std::nullptr_t) const { return data_ == nullptr; }
  bool operator!=(std::nullptr_t) const { return data_ != nullptr; }

 private:
  template <typename>
  friend class ObjectPtr;
  template <typename>
  friend class WeakObjectPtr;
  friend struct detail::ObjectUnsafe;
  friend struct ObjectPtrHash;

  struct Retain {};
  ObjectPtr(Object* object, Retain) : data_(object) {
    if (data_ != nullptr) detail::IncRef(reinterpret_cast<TVMFFIObject*>(data_));
  }
  explicit ObjectPtr(Object* owned) : data_(owned) {}

  Object* data_ = nullptr;
};

/// Watches an object without keeping its contents alive.
template <typename T>
class WeakObjectPtr {
 public:
  WeakObjectPtr() = default;
  WeakObjectPtr(std::nullptr_t) {}  // NOLINT(runtime/explicit)
  WeakObjectPtr(const WeakObjectPtr& other) : WeakObjectPtr(other.data_) {}
  WeakObjectPtr(WeakObjectPtr&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  template <typename U, typename = std::enable_if_t<std::is_base_of_v<T, U>>>
  WeakObjectPtr(const ObjectPtr<U>& other) : WeakObjectPtr(other.data_) {}  // NOLINT
  template <typename U, typename = std::enable_if_t<std::is_base_of_v<T, U>>>
  WeakObjectPtr(const WeakObjectPtr<U>& other) : WeakObjectPtr(other.data_) {}  // NOLINT
  template <typename U, typename = std::enable_if_t<std::is_base_of_v<T, U>>>
  WeakObjectPtr(WeakObjectPtr<U>&& other) noexcept  // NOLINT(runtime/explicit)
      : data_(std::exchange(other.data_, nullptr)) {}
  ~WeakObjectPtr() { reset(); }

  WeakObjectPtr& operator=(const WeakObjectPtr& other) {
    WeakObjectPtr(other).swap(*this);
    return *this;
  }
  WeakObjectPtr& operator=(WeakObjectPtr&& other) noexcept {
    WeakObjectPtr(std::move(other)).swap(*this);
    return *this;
  }

  /// A strong pointer, null if the object's contents are already gone.
  ObjectPtr<T> lock() const {
    if (data_ == nullptr) return nullptr;
    uint64_t* count = CountOf(data_);
    uint64_t seen = __atomic_load_n(count, __ATOMIC_RELAXED);
    while ((seen & detail::kStrongMask) != 0) {
      if (__atomic_compare_exchange_n(count, &seen, seen + detail::kStrongOne, true,
                                      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        return ObjectPtr<T>(data_);
      }
    }
    return nullptr;
  }
  bool expired() const { return use_count() == 0; }
  int use_count() const { return data_ != nullptr ? data_->use_count() : 0; }
  void swap(WeakObjectPtr& other) noexcept { std::swap(data_, other.data_); }
  void reset() {
    Object* object = std::exchange(data_, nullptr);
    if (object == nullptr) return;
    auto* header = reinterpret_cast<TVMFFIObject*>(object);
    if (__atomic_fetch_sub(CountOf(object), detail::kWeakOne, __ATOMIC_ACQ_REL) ==
            detail::kWeakOne &&
        header->deleter != nullptr) {
      header->deleter(header, kTVMFFIObjectDeleterFlagBitMaskWeak);
    }
  }

 private:
  template <typename>
  friend class WeakObjectPtr;

  explicit WeakObjectPtr(Object* object) : data_(object) {
    if (data_ != nullptr) {
      __atomic_fetch_add(CountOf(data_), detail::kWeakOne, __ATOMIC_RELAXED);
    }
  }
  static uint64_t* CountOf(Object* object) {
    return &reinterpret_cast<TVMFFIObject*>(object)->combined_ref_count;
  }

  Object* data_ = nullptr;
};

/// The base of all reference types: a counted pointer with the object type's interface.
class ObjectRef {
 public:
  using ContainerType = Object;
  static constexpr bool _type_is_nullable = true;
  static constexpr bool _type_container_is_exact = true;

  ObjectRef() = default;
  explicit ObjectRef(ObjectPtr<Object> data) : data_(std::move(data)) {}
  explicit ObjectRef(UnsafeInit) {}
  ObjectRef(const ObjectRef&) = default;
  ObjectRef(ObjectRef&&) = default;
  ObjectRef& operator=(const ObjectRef&) = default;
  ObjectRef& operator=(ObjectRef&&) = default;

  /// Identity, not equality of contents.
  bool same_as(const ObjectRef& other) const { return data_ == other.data_; }
  bool operator==(const ObjectRef& other) const { return data_ == other.data_; }
  bool operator!=(const ObjectRef& other) const { return data_ != other.data_; }
  bool operator<(const ObjectRef& other) const {
    return std::less<Object*>()(data_.get(), other.data_.get());
  }
  bool operator==(std::nullptr_t) const { return data_ == nullptr; }
  bool operator!=(std::nullptr_t) const { return data_ != nullptr; }
  bool defined() const { return data_ != nullptr; }
  explicit operator bool() const { return data_ != nullptr; }

  const Object* get() const { return data_.get(); }
  const Object* operator->() const { return get(); }
  bool unique() const { return data_.unique(); }
  int use_count() const { return data_.use_count(); }
  int32_t type_index() const { return data_ != nullptr ? data_->type_index() : kTVMFFINone; }
  std::string GetTypeKey() const { return TypeIndexToTypeKey(type_index()); }

  /// The object as an ObjectType, null if it is none. Borrowed from this reference.
  template <typename ObjectType, typename = std::enable_if_t<std::is_base_of_v<Object, ObjectType>>>
  const ObjectType* as() const {
    if (data_ == nullptr || !data_->IsInstance<ObjectType>()) return nullptr;
    return static_cast<const ObjectType*>(data_.get());
  }
  /// A reference of type RefType, or nothing if the object is of another type (or null).
  template <typename RefType, typename = std::enable_if_t<std::is_base_of_v<ObjectRef, RefType>>,
            typename = void>
  std::optional<RefType> as() const;

 protected:
  friend struct detail::ObjectUnsafe;
  friend struct ObjectPtrHash;
  Object* get_mutable() const { return data_.get(); }

  ObjectPtr<Object> data_;
};

/// Hash of identity.
struct ObjectPtrHash {
  size_t operator()(const ObjectRef& ref) const { return std::hash<const Object*>()(ref.get()); }
  template <typename T>
  size_t operator()(const ObjectPtr<T>& pointer) const {
    return std::hash<const Object*>()(pointer.data_);
  }
};

/// Equality of identity.
struct ObjectPtrEqual {
  bool operator()(const ObjectRef& a, const ObjectRef& b) const { return a.same_as(b); }
  template <typename T>
  bool operator()(const ObjectPtr<T>& a, const ObjectPtr<T>& b) const {
    return a == b;
  }
};

namespace detail {

/// Conversions between references, pointers and raw handles that bypass type checks and counting.
struct ObjectUnsafe {
  static TVMFFIObject* GetHeader(const Object* object) {
    return const_cast<TVMFFIObject*>(&object->header_);
  }
  /// Where, from a Class object's handle, its first own byte lies (negative for polymorphic classes).
  template <typename Class>
  static int64_t GetObjectOffsetToSubclass() {
    alignas(Class) static char probe[sizeof(Class)];
    auto* object = static_cast<Object*>(reinterpret_cast<Class*>(probe));
    return reinterpret_cast<char*>(probe) - reinterpret_cast<char*>(object);
  }

  template <typename T>
  static ObjectPtr<T> ObjectPtrFromOwned(Object* object) {
    return ObjectPtr<T>(object);
  }
  template <typename T>
  static ObjectPtr<T> ObjectPtrFromOwned(TVMFFIObject* object) {
    return ObjectPtr<T>(reinterpret_cast<Object*>(object));
  }
  template <typename T>
  static ObjectPtr<T> ObjectPtrFromOwned(void* object) {
    return ObjectPtr<T>(static_cast<Object*>(object));
  }
  template <typename T>
  static ObjectPtr<T> ObjectPtrFromUnowned(Object* object) {
    return ObjectPtr<T>(object, typename ObjectPtr<T>::Retain{});
  }
  template <typename T>
  static ObjectPtr<T> ObjectPtrFromUnowned(TVMFFIObject* object) {
    return ObjectPtrFromUnowned<T>(reinterpret_cast<Object*>(object));
  }
  template <typename T>
  static T* RawObjectPtrFromUnowned(TVMFFIObject* object) {
    return static_cast<T*>(reinterpret_cast<Object*>(object));
  }

  template <typename RefType>
  static RefType ObjectRefFromObjectPtr(const ObjectPtr<Object>& pointer) {
    return ObjectRefFromObjectPtr<RefType>(ObjectPtr<Object>(pointer));
  }
  template <typename RefType>
  static RefType ObjectRefFromObjectPtr(ObjectPtr<Object>&& pointer) {
    RefType ref{UnsafeInit{}};
    static_cast<ObjectRef&>(ref).data_ = std::move(pointer);
    return ref;
  }
  template <typename T>
  static ObjectPtr<T> ObjectPtrFromObjectRef(const ObjectRef& ref) {
    return ObjectPtr<T>(ref.data_.data_, typename ObjectPtr<T>::Retain{});
  }
  template <typename T>
  static ObjectPtr<T> ObjectPtrFromObjectRef(ObjectRef&& ref) {
    return ObjectPtr<T>(std::exchange(ref.data_.data_, nullptr));
  }
  template <typename T>
  static T* RawObjectPtrFromObjectRef(const ObjectRef& ref) {
    return static_cast<T*>(ref.data_.data_);
  }

  static TVMFFIObject* TVMFFIObjectPtrFromObjectRef(const ObjectRef& ref) {
    return reinterpret_cast<TVMFFIObject*>(ref.data_.data_);
  }
  template <typename T>
  static TVMFFIObject* TVMFFIObjectPtrFromObjectPtr(const ObjectPtr<T>& pointer) {
    return reinterpret_cast<TVMFFIObject*>(pointer.data_);
  }
  static TVMFFIObject* MoveObjectRefToTVMFFIObjectPtr(ObjectRef&& ref) {
    return reinterpret_cast<TVMFFIObject*>(std::exchange(ref.data_.data_, nullptr));
  }
  template <typename T>
  static TVMFFIObject* MoveObjectPtrToTVMFFIObjectPtr(ObjectPtr<T>&& pointer) {
    return reinterpret_cast<TVMFFIObject*>(std::exchange(pointer.data_, nullptr));
  }
  /// The slot that an rvalue reference argument points to.
  static Object** SlotOf(ObjectRef& ref) { return &ref.data_.data_; }

  static void IncRefObjectHandle(TVMFFIObjectHandle object) {
    if (object != nullptr) IncRef(static_cast<TVMFFIObject*>(object));
  }
  static void DecRefObjectHandle(TVMFFIObjectHandle object) {
    if (object != nullptr) DecRef(static_cast<TVMFFIObject*>(object));
  }
};

template <typename RefType>
RefType CastRef(const ObjectRef& ref) {
  return ObjectUnsafe::ObjectRefFromObjectPtr<RefType>(
      ObjectUnsafe::ObjectPtrFromObjectRef<Object>(ref));
}

}  // namespace detail

template <typename RefType, typename, typename>
std::optional<RefType> ObjectRef::as() const {
  if (data_ == nullptr || !data_->IsInstance<typename RefType::ContainerType>()) {
    return std::nullopt;
  }
  return detail::CastRef<RefType>(*this);
}

/// Declares an object type whose index is the constant _type_index, which the class defines.
#define TVM_FFI_DECLARE_OBJECT_INFO_STATIC(TypeKey, TypeName, ParentType)                         \
  static constexpr const char* _type_key = TypeKey;                                               \
  static constexpr int32_t _type_depth = ParentType::_type_depth + 1;                             \
  static_assert(!ParentType::_type_final, "the parent type is final");                            \
  static int32_t RuntimeTypeIndex() { return TypeName::_type_index; }                             \
  static int32_t _GetOrAllocRuntimeTypeIndex() {                                                  \
    static const int32_t index = ::tvm::ffi::detail::AllocTypeIndex(                              \
        TypeKey, TypeName::_type_index, TypeName::_type_depth, TypeName::_type_child_slots,       \
        TypeName::_type_child_slots_can_overflow, ParentType::_GetOrAllocRuntimeTypeIndex());     \
    return index;                                                                                 \
  }

/// Declares an object type of a key that the class itself defines as _type_key.
#define TVM_FFI_DECLARE_OBJECT_INFO_PREDEFINED_TYPE_KEY(TypeName, ParentType)                     \
  static constexpr int32_t _type_depth = ParentType::_type_depth + 1;                             \
  static_assert(!ParentType::_type_final, "the parent type is final");                            \
  static int32_t RuntimeTypeIndex() { return _GetOrAllocRuntimeTypeIndex(); }                     \
  static int32_t _GetOrAllocRuntimeTypeIndex() {                                                  \
    static const int32_t index = ::tvm::ffi::detail::AllocTypeIndex(                              \
        TypeName::_type_key, -1, TypeName::_type_depth, TypeName::_type_child_slots,              \
        TypeName::_type_child_slots_can_overflow, ParentType::_GetOrAllocRuntimeTypeIndex());     \
    return index;                                                                                 \
  }

/// Declares an object type that others may derive from. Its index comes from the runtime, on first use.
#define TVM_FFI_DECLARE_OBJECT_INFO(TypeKey, TypeName, ParentType) \
  static constexpr const char* _type_key = TypeKey;                \
  TVM_FFI_DECLARE_OBJECT_INFO_PREDEFINED_TYPE_KEY(TypeName, ParentType)

/// Declares an object type that nothing derives from.
#define TVM_FFI_DECLARE_OBJECT_INFO_FINAL(TypeKey, TypeName, ParentType) \
  static constexpr int32_t _type_child_slots [[maybe_unused]] = 0;       \
  static constexpr bool _type_final [[maybe_unused]] = true;             \
  TVM_FFI_DECLARE_OBJECT_INFO(TypeKey, TypeName, ParentType)

#define TVM_FFI_DEFINE_DEFAULT_COPY_MOVE_AND_ASSIGN(TypeName) \
  TypeName(const TypeName& other) = default;                  \
  TypeName(TypeName&& other) = default;                       \
  TypeName& operator=(const TypeName& other) = default;       \
  TypeName& operator=(TypeName&& other) = default

#define TVM_FFI_DEFINE_OBJECT_REF_ACCESS_(ObjectName)                                             \
  using __PtrType =                                                                               \
      std::conditional_t<ObjectName::_type_mutable, ObjectName*, const ObjectName*>;              \
  __PtrType operator->() const { return static_cast<__PtrType>(data_.get()); }                    \
  __PtrType get() const { return static_cast<__PtrType>(data_.get()); }                           \
  using ContainerType = ObjectName

/// The methods of a reference type that may be null.
#define TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(TypeName, ParentType, ObjectName)              \
  TypeName() = default;                                                                           \
  explicit TypeName(::tvm::ffi::ObjectPtr<ObjectName> n) : ParentType(std::move(n)) {}            \
  explicit TypeName(::tvm::ffi::UnsafeInit tag) : ParentType(tag) {}                              \
  TVM_FFI_DEFINE_DEFAULT_COPY_MOVE_AND_ASSIGN(TypeName);                                          \
  static constexpr bool _type_is_nullable = true;                                                 \
  TVM_FFI_DEFINE_OBJECT_REF_ACCESS_(ObjectName)

/// The methods of a reference type that is never null; a call with None instead is a type error.
#define TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(TypeName, ParentType, ObjectName)           \
  explicit TypeName(::tvm::ffi::UnsafeInit tag) : ParentType(tag) {}                              \
  TVM_FFI_DEFINE_DEFAULT_COPY_MOVE_AND_ASSIGN(TypeName);                                          \
  static constexpr bool _type_is_nullable = false;                                                \
  TVM_FFI_DEFINE_OBJECT_REF_ACCESS_(ObjectName)

}  // namespace graphffi_v1
}  // namespace ffi
}  // namespace tvm
