// SPDX-License-Identifier: Apache-2.0
// TensorView and Tensor: a tensor in any framework's memory, borrowed or owned.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor_detail.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// Owned tensor: keeps the framework's memory alive, so that it may be kept and returned. Null when
/// default constructed.
class Tensor : public ObjectRef, public detail::TensorAccess<Tensor> {
 public:
  /// Row-major memory from alloc.AllocData(DLTensor*, extra_args…), given back by
  /// alloc.FreeData(DLTensor*). The allocator is kept in the tensor. AllocData sets the data
  /// pointer, everything else is already there.
  template <typename NDAlloc, typename... ExtraArgs>
  static Tensor FromNDAlloc(NDAlloc alloc, ShapeView shape, DLDataType dtype, DLDevice device,
                            ExtraArgs&&... extra_args) {
    using Owner = detail::TensorObjFromNDAlloc<NDAlloc>;
    size_t ndim = shape.size();
    return Tensor(make_inplace_array_object<Owner, int64_t>(
        2 * ndim, std::move(alloc), shape, ShapeView(nullptr, 0), dtype, device,
        std::forward<ExtraArgs>(extra_args)...));
  }
  /// The same with the given strides.
  template <typename NDAlloc, typename... ExtraArgs>
  static Tensor FromNDAllocStrided(NDAlloc alloc, ShapeView shape, ShapeView strides,
                                   DLDataType dtype, DLDevice device, ExtraArgs&&... extra_args) {
    TVM_FFI_CHECK(shape.size() == strides.size(), ValueError)
        << "shape has " << shape.size() << " dimensions, strides " << strides.size();
    using Owner = detail::TensorObjFromNDAlloc<NDAlloc>;
    return Tensor(make_inplace_array_object<Owner, int64_t>(
        2 * shape.size(), std::move(alloc), shape, strides, dtype, device,
        std::forward<ExtraArgs>(extra_args)...));
  }
  /// Row-major memory from the calling framework: `FromEnvAlloc(TVMFFIEnvTensorAlloc, shape, dtype,
  /// device)`.
  static Tensor FromEnvAlloc(int (*env_alloc)(DLTensor*, TVMFFIObjectHandle*), ShapeView shape,
                             DLDataType dtype, DLDevice device) {
    DLTensor prototype{};
    prototype.device = device;
    prototype.dtype = dtype;
    prototype.shape = const_cast<int64_t*>(shape.data());
    prototype.ndim = static_cast<int32_t>(shape.size());
    TVMFFIObjectHandle out = nullptr;
    TVM_FFI_CHECK_SAFE_CALL(env_alloc(&prototype, &out));
    return FromHandle(out);
  }
  /// Takes tensor over on success. \throws if it is not aligned or contiguous as required
  static Tensor FromDLPack(DLManagedTensor* tensor, size_t require_alignment = 0,
                           bool require_contiguous = false) {
    TVMFFIObjectHandle out = nullptr;
    TVM_FFI_CHECK_SAFE_CALL(TVMFFITensorFromDLPack(tensor, static_cast<int32_t>(require_alignment),
                                                   require_contiguous ? 1 : 0, &out));
    return FromHandle(out);
  }
  /// Takes tensor over on success. \throws if it is not aligned or contiguous as required
  static Tensor FromDLPackVersioned(DLManagedTensorVersioned* tensor, size_t require_alignment = 0,
                                    bool require_contiguous = false) {
    TVMFFIObjectHandle out = nullptr;
    TVM_FFI_CHECK_SAFE_CALL(TVMFFITensorFromDLPackVersioned(
        tensor, static_cast<int32_t>(require_alignment), require_contiguous ? 1 : 0, &out));
    return FromHandle(out);
  }
  /// A *new reference* in DLPack's form: the caller calls its deleter.
  DLManagedTensor* ToDLPack() const { return get()->ToDLPack(); }
  /// A *new reference* in DLPack's versioned form: the caller calls its deleter.
  DLManagedTensorVersioned* ToDLPackVersioned() const { return get()->ToDLPackVersioned(); }

  /// A tensor of another shape over the same memory, which it keeps alive. Offset in elements.
  /// Bounds are not checked.
  Tensor as_strided(ShapeView shape, ShapeView strides,
                    std::optional<int64_t> element_offset = std::nullopt) const {
    TVM_FFI_CHECK(shape.size() == strides.size(), ValueError)
        << "shape has " << shape.size() << " dimensions, strides " << strides.size();
    DLTensor prototype =
        detail::StridedPrototype(*GetDLTensorPtr(), shape, strides, element_offset.value_or(0));
    TVMFFIObjectHandle out = nullptr;
    TVM_FFI_CHECK_SAFE_CALL(TVMFFITensorCreateUnsafeView(Handle(), &prototype, &out));
    return FromHandle(out);
  }

  /// Borrowed from this tensor.
  const DLTensor* GetDLTensorPtr() const { return get(); }

  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Tensor, ObjectRef, TensorObj);

 protected:
  /// For derived tensor types.
  TensorObj* get_mutable() const { return static_cast<TensorObj*>(data_.get()); }

 private:
  friend class detail::TensorAccess<Tensor>;
  const DLTensor& dl() const { return *get(); }
  TVMFFIObject* Handle() const { return detail::ObjectUnsafe::TVMFFIObjectPtrFromObjectRef(*this); }
  static Tensor FromHandle(TVMFFIObjectHandle owned) {
    return Tensor(detail::ObjectUnsafe::ObjectPtrFromOwned<TensorObj>(owned));
  }
};

/// Borrowed tensor: what kernels take. Valid during the call; never kept, returned or put into an
/// Any.
class TensorView : public detail::TensorAccess<TensorView> {
 public:
  TensorView(const Tensor& tensor)  // NOLINT(runtime/explicit)
      : tensor_(*tensor.GetDLTensorPtr()) {}
  TensorView(const DLTensor* tensor) : tensor_(*tensor) {}  // NOLINT(runtime/explicit)
  /// A temporary tensor would be gone: keep it in a variable first.
  TensorView(Tensor&&) = delete;
  TensorView& operator=(Tensor&&) = delete;
  TensorView& operator=(const Tensor& tensor) {
    tensor_ = *tensor.GetDLTensorPtr();
    return *this;
  }

  /// A view of another shape. shape and strides are borrowed, like the memory. Offset in elements,
  /// not checked.
  TensorView as_strided(ShapeView shape, ShapeView strides,
                        std::optional<int64_t> element_offset = std::nullopt) const {
    DLTensor prototype =
        detail::StridedPrototype(tensor_, shape, strides, element_offset.value_or(0));
    return TensorView(&prototype);
  }
  /// Borrowed from this view.
  const DLTensor* GetDLTensorPtr() const { return &tensor_; }

 private:
  friend class detail::TensorAccess<TensorView>;
  template <typename, typename>
  friend struct TypeTraits;
  const DLTensor& dl() const { return tensor_; }

  DLTensor tensor_;
};

static_assert(sizeof(TensorView) == sizeof(DLTensor));

/// The bytes of a tensor's elements.
inline size_t GetDataSize(const Tensor& tensor) { return GetDataSize(*tensor.GetDLTensorPtr()); }
inline size_t GetDataSize(const TensorView& tensor) {
  return GetDataSize(*tensor.GetDLTensorPtr());
}
inline bool IsContiguous(const Tensor& tensor) { return tensor.IsContiguous(); }
inline bool IsContiguous(const TensorView& tensor) { return tensor.IsContiguous(); }

template <>
struct TypeTraits<TensorView> : TypeTraitsBase {
  static constexpr bool storage_enabled = false;
  static void CopyToAnyView(const TensorView& value, TVMFFIAny* out) {
    detail::WritePOD(out, kTVMFFIDLTensorPtr, 0);
    out->v_ptr = const_cast<DLTensor*>(value.GetDLTensorPtr());
  }
  static bool CheckAnyStrict(const TVMFFIAny* source) {
    return source->type_index == kTVMFFIDLTensorPtr;
  }
  static TensorView CopyFromAnyViewAfterCheck(const TVMFFIAny* source) {
    return TensorView(static_cast<const DLTensor*>(source->v_ptr));
  }
  static std::optional<TensorView> TryCastFromAnyView(const TVMFFIAny* source) {
    if (source->type_index == kTVMFFIDLTensorPtr) {
      return TensorView(static_cast<const DLTensor*>(source->v_ptr));
    }
    if (source->type_index == kTVMFFITensor) {
      return TensorView(TVMFFITensorGetDLTensorPtr(source->v_obj));
    }
    return std::nullopt;
  }
  static std::string TypeStr() { return StaticTypeKey::kTVMFFIDLTensorPtr; }
  static std::string TypeSchema() { return detail::SimpleSchema("DLTensor*"); }
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi
