// SPDX-License-Identifier: Apache-2.0
// Parts that Tensor and TensorView share: accessors under both common spellings, checks on
// DLTensor, allocation.
#pragma once

#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/device.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>

#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// The bytes of a tensor's elements.
inline size_t GetDataSize(const DLTensor& tensor) {
  return GetDataSize(ShapeView(tensor.shape, static_cast<size_t>(tensor.ndim)).Product(),
                     tensor.dtype);
}

/// Whether the elements lie row-major without gaps. Dimensions of size 1 and empty tensors do not
/// care.
inline bool IsContiguous(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t expected = 1;
  bool compact = true;
  for (int32_t i = tensor.ndim; i-- > 0;) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) compact = false;
    expected *= tensor.shape[i];
  }
  return compact;
}

/// Whether the first element's address is a multiple of alignment bytes.
inline bool IsAligned(const DLTensor& tensor, size_t alignment) {
  auto address = reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
  return address % alignment == 0;
}

/// Whether kernels on the CPU may touch a device's memory.
inline bool IsDirectAddressDevice(const DLDevice& device) {
  return device.device_type <= kDLCUDAHost || device.device_type == kDLCUDAManaged ||
         device.device_type == kDLROCM || device.device_type == kDLROCMHost;
}

/// The object behind Tensor.
class TensorObj : public Object, public DLTensor {
 public:
  static constexpr int32_t _type_index = kTVMFFITensor;
  TVM_FFI_DECLARE_OBJECT_INFO_STATIC(StaticTypeKey::kTVMFFITensor, TensorObj, Object);
  static constexpr bool _type_final = true;

  /// A *new reference* in DLPack's form: the caller calls its deleter.
  DLManagedTensor* ToDLPack() const {
    DLManagedTensor* out = nullptr;
    TVM_FFI_CHECK_SAFE_CALL(TVMFFITensorToDLPack(detail::ObjectUnsafe::GetHeader(this), &out));
    return out;
  }
  /// The same in DLPack's versioned form.
  DLManagedTensorVersioned* ToDLPackVersioned() const {
    DLManagedTensorVersioned* out = nullptr;
    TVM_FFI_CHECK_SAFE_CALL(
        TVMFFITensorToDLPackVersioned(detail::ObjectUnsafe::GetHeader(this), &out));
    return out;
  }
};

namespace detail {

/// Row-major strides for a tensor that came without any. They live for the rest of the process: the
/// few distinct ones (the outermost dimension does not matter) are kept once.
TVM_FFI_COLD_CODE TVM_FFI_NO_INLINE inline const int64_t* InternCompactStrides(const int64_t* shape,
                                                                               int32_t ndim) {
  static auto* mutex = new std::mutex;
  static auto* interned = new std::set<std::vector<int64_t>>;
  std::vector<int64_t> strides(static_cast<size_t>(ndim));
  FillCompactStrides(shape, ndim, strides.data());
  std::lock_guard<std::mutex> lock(*mutex);
  return interned->insert(std::move(strides)).first->data();
}

[[noreturn]] TVM_FFI_COLD_CODE TVM_FFI_NO_INLINE inline void ThrowDimensionOutOfRange(
    int64_t index, int32_t ndim) {
  TVM_FFI_THROW(IndexError) << "Index " << index << " out of bounds for tensor with " << ndim
                            << " dimensions";
  TVM_FFI_UNREACHABLE();
}

/// The accessors of Tensor and TensorView, each under PyTorch's spelling too. Derived has `const
/// DLTensor& dl() const`.
template <typename Derived>
class TensorAccess {
 public:
  int32_t ndim() const { return tensor().ndim; }
  int64_t dim() const { return tensor().ndim; }
  /// Borrowed from the tensor.
  ShapeView shape() const { return ShapeView(tensor().shape, static_cast<size_t>(ndim())); }
  ShapeView sizes() const { return shape(); }
  /// Negative dimensions count from the end. \throws Error(IndexError)
  int64_t size(int64_t index) const { return tensor().shape[CheckDimension(index)]; }
  /// In elements; borrowed from the tensor. Row-major where the tensor came without strides.
  ShapeView strides() const {
    const DLTensor& t = tensor();
    const int64_t* strides = t.strides;
    if (TVM_FFI_PREDICT_FALSE(strides == nullptr && t.ndim > 0)) {
      strides = InternCompactStrides(t.shape, t.ndim);
    }
    return ShapeView(strides, static_cast<size_t>(t.ndim));
  }
  /// In elements. Negative dimensions count from the end. \throws Error(IndexError)
  int64_t stride(int64_t index) const {
    const DLTensor& t = tensor();
    int64_t dimension = CheckDimension(index);
    if (TVM_FFI_PREDICT_TRUE(t.strides != nullptr)) return t.strides[dimension];
    int64_t stride = 1;
    for (int64_t i = t.ndim - 1; i > dimension; --i) stride *= t.shape[i];
    return stride;
  }
  int64_t numel() const { return shape().Product(); }
  DLDataType dtype() const { return tensor().dtype; }
  DLDevice device() const { return tensor().device; }
  /// As the framework gave it: byte_offset is not added.
  void* data_ptr() const { return tensor().data; }
  /// From data_ptr to the first element.
  uint64_t byte_offset() const { return tensor().byte_offset; }
  bool IsContiguous() const { return tvm::ffi::IsContiguous(tensor()); }
  bool is_contiguous() const { return IsContiguous(); }
  /// Whether the first element's address is a multiple of alignment bytes.
  bool IsAligned(size_t alignment) const { return tvm::ffi::IsAligned(tensor(), alignment); }

 private:
  const DLTensor& tensor() const { return static_cast<const Derived*>(this)->dl(); }
  int64_t CheckDimension(int64_t index) const {
    int32_t count = tensor().ndim;
    int64_t dimension = index < 0 ? index + count : index;
    if (TVM_FFI_PREDICT_FALSE(dimension < 0 || dimension >= count)) {
      ThrowDimensionOutOfRange(index, count);
    }
    return dimension;
  }
};

/// tensor with another shape and strides, moved by so many elements. shape and strides are
/// borrowed. \throws Error(ValueError) for a negative offset
inline DLTensor StridedPrototype(const DLTensor& tensor, ShapeView shape, ShapeView strides,
                                 int64_t element_offset) {
  DLTensor prototype = tensor;
  prototype.shape = const_cast<int64_t*>(shape.data());
  prototype.strides = const_cast<int64_t*>(strides.data());
  prototype.ndim = static_cast<int32_t>(shape.size());
  if (TVM_FFI_PREDICT_FALSE(element_offset < 0)) {
    TVM_FFI_THROW(ValueError) << "as_strided: expected an offset of 0 or more elements, got "
                              << element_offset;
  }
  prototype.byte_offset += GetDataSize(element_offset, tensor.dtype);
  if (IsDirectAddressDevice(tensor.device)) {
    prototype.data = static_cast<char*>(prototype.data) + prototype.byte_offset;
    prototype.byte_offset = 0;
  }
  return prototype;
}

/// A tensor whose memory a kernel's own allocator owns. Shape and strides follow the object.
template <typename NDAlloc>
class TensorObjFromNDAlloc : public TensorObj {
 public:
  template <typename... ExtraArgs>
  TensorObjFromNDAlloc(NDAlloc alloc, ShapeView shape, ShapeView opt_strides, DLDataType dtype,
                       DLDevice device, ExtraArgs&&... extra_args)
      : alloc_(std::move(alloc)) {
    auto* dims =
        reinterpret_cast<int64_t*>(reinterpret_cast<char*>(this) + sizeof(TensorObjFromNDAlloc));
    this->data = nullptr;
    this->device = device;
    this->ndim = static_cast<int32_t>(shape.size());
    this->dtype = dtype;
    this->byte_offset = 0;
    this->shape = dims;
    this->strides = dims + shape.size();
    std::copy(shape.begin(), shape.end(), this->shape);
    if (opt_strides.empty()) {
      FillCompactStrides(this->shape, this->ndim, this->strides);
    } else {
      std::copy(opt_strides.begin(), opt_strides.end(), this->strides);
    }
    alloc_.AllocData(static_cast<DLTensor*>(this), std::forward<ExtraArgs>(extra_args)...);
  }
  ~TensorObjFromNDAlloc() { alloc_.FreeData(static_cast<DLTensor*>(this)); }

 private:
  NDAlloc alloc_;
};

}  // namespace detail

}  // namespace graphffi_v1
}  // namespace tvm::ffi
