// SPDX-License-Identifier: Apache-2.0
// ObjectRef, the base of every reference type, and the macros that declare object and reference
// types.
#pragma once

#include <tvm/ffi/object_arc.h>
#include <tvm/ffi/object_ptr.h>

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// The base of all reference types: a counted pointer with the object type's interface.
class ObjectRef {
 public:
  using ContainerType = Object;
  static constexpr bool _type_is_nullable = true;
  static constexpr bool _type_container_is_exact = true;

  ObjectRef() = default;
  explicit ObjectRef(ObjectPtr<Object> data) : data_(std::move(data)) {}
  explicit ObjectRef(UnsafeInit) {}

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
  const ObjectType* as() const& {
    if (data_ == nullptr || !data_->IsInstance<ObjectType>()) return nullptr;
    return static_cast<const ObjectType*>(data_.get());
  }
  /// A reference of type RefType, or nothing if the object is of another type (or null).
  template <typename RefType, typename = std::enable_if_t<std::is_base_of_v<ObjectRef, RefType>>,
            typename = void>
  std::optional<RefType> as() const&;
  /// Moves the reference out where the type fits.
  template <typename RefType, typename = std::enable_if_t<std::is_base_of_v<ObjectRef, RefType>>,
            typename = void>
  std::optional<RefType> as() &&;
  /// A reference of type RefType. \throws Error(TypeError) if the object is of another type
  template <typename RefType>
  RefType as_or_throw() const&;
  template <typename RefType>
  RefType as_or_throw() &&;

 protected:
  friend struct detail::ObjectUnsafe;
  friend struct ObjectPtrHash;
  Object* get_mutable() const { return data_.get(); }

  ObjectPtr<Object> data_;
};

/// Whether every object of type ObjectType makes a RefType. To be specialised for reference types
/// with a check of their own, which have _type_container_is_exact = false.
template <typename RefType, typename ObjectType,
          typename = std::enable_if_t<std::is_base_of_v<ObjectRef, RefType> &&
                                      std::is_base_of_v<Object, ObjectType>>>
inline constexpr bool object_ref_contains_v =
    RefType::_type_container_is_exact &&
    std::is_base_of_v<typename RefType::ContainerType, ObjectType>;

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
  /// Where, from a Class object's handle, its first own byte lies (negative for polymorphic
  /// classes).
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
  template <typename T = Object>
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
  /// pointer must not be null.
  template <typename T>
  static Arc<T> ArcFromObjectPtr(ObjectPtr<T>&& pointer) {
    return Arc<T>(std::move(pointer));
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

}  // namespace detail

/// Declares an object type whose index is the constant _type_index, which the class defines.
#define TVM_FFI_DECLARE_OBJECT_INFO_STATIC(TypeKey, TypeName, ParentType)                     \
  static constexpr const char* _type_key = TypeKey;                                           \
  static constexpr int32_t _type_depth = ParentType::_type_depth + 1;                         \
  static_assert(!ParentType::_type_final, "the parent type is final");                        \
  static int32_t RuntimeTypeIndex() { return TypeName::_type_index; }                         \
  static int32_t _GetOrAllocRuntimeTypeIndex() {                                              \
    static const int32_t index = ::tvm::ffi::detail::AllocTypeIndex(                          \
        TypeKey, TypeName::_type_index, TypeName::_type_depth, TypeName::_type_child_slots,   \
        TypeName::_type_child_slots_can_overflow, ParentType::_GetOrAllocRuntimeTypeIndex()); \
    return index;                                                                             \
  }

/// Declares an object type of a key that the class itself defines as _type_key.
#define TVM_FFI_DECLARE_OBJECT_INFO_PREDEFINED_TYPE_KEY(TypeName, ParentType)                 \
  static constexpr int32_t _type_depth = ParentType::_type_depth + 1;                         \
  static_assert(!ParentType::_type_final, "the parent type is final");                        \
  static int32_t RuntimeTypeIndex() { return _GetOrAllocRuntimeTypeIndex(); }                 \
  static int32_t _GetOrAllocRuntimeTypeIndex() {                                              \
    static const int32_t index = ::tvm::ffi::detail::AllocTypeIndex(                          \
        TypeName::_type_key, -1, TypeName::_type_depth, TypeName::_type_child_slots,          \
        TypeName::_type_child_slots_can_overflow, ParentType::_GetOrAllocRuntimeTypeIndex()); \
    return index;                                                                             \
  }

/// Declares an object type that others may derive from. Its index comes from the runtime, on first
/// use.
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

#define TVM_FFI_DEFINE_OBJECT_REF_ACCESS_(ObjectName)                                              \
  using __PtrType = std::conditional_t<ObjectName::_type_mutable, ObjectName*, const ObjectName*>; \
  __PtrType operator->() const { return static_cast<__PtrType>(data_.get()); }                     \
  __PtrType get() const { return static_cast<__PtrType>(data_.get()); }                            \
  using ContainerType = ObjectName

/// The methods of a reference type that may be null.
#define TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(TypeName, ParentType, ObjectName)   \
  TypeName() = default;                                                                \
  explicit TypeName(::tvm::ffi::ObjectPtr<ObjectName> n) : ParentType(std::move(n)) {} \
  explicit TypeName(::tvm::ffi::UnsafeInit tag) : ParentType(tag) {}                   \
  TVM_FFI_DEFINE_DEFAULT_COPY_MOVE_AND_ASSIGN(TypeName);                               \
  static constexpr bool _type_is_nullable = true;                                      \
  TVM_FFI_DEFINE_OBJECT_REF_ACCESS_(ObjectName)

/// The methods of a reference type that is never null; a call with None instead is a type error.
#define TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(TypeName, ParentType, ObjectName) \
  explicit TypeName(::tvm::ffi::UnsafeInit tag) : ParentType(tag) {}                    \
  TVM_FFI_DEFINE_DEFAULT_COPY_MOVE_AND_ASSIGN(TypeName);                                \
  static constexpr bool _type_is_nullable = false;                                      \
  TVM_FFI_DEFINE_OBJECT_REF_ACCESS_(ObjectName)

}  // namespace graphffi_v1
}  // namespace tvm::ffi
