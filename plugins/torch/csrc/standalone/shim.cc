// SPDX-License-Identifier: Apache-2.0
// The functions that AOTInductor's code calls for tensors, as torch's shim.h declares them.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <cstdio>

#include "call/call_frame.h"
#include "call/value.h"
#include "run.h"

using graphffi_standalone::AreAlike;
using graphffi_standalone::ClearElements;
using graphffi_standalone::CompactCopy;
using graphffi_standalone::CopyAs;
using graphffi_standalone::CopyBytes;
using graphffi_standalone::CopyElements;
using graphffi_standalone::DataOf;
using graphffi_standalone::ElementBytes;
using graphffi_standalone::Guard;
using graphffi_standalone::Run;
using graphffi_standalone::SpanBytes;
using graphffi_standalone::Tensor;
using graphffi_standalone::ViewOf;

namespace {

static_assert(sizeof(DLDataType) == sizeof(int32_t));

constexpr int32_t PackDType(uint8_t code, int32_t bits) { return code | bits << 8 | 1 << 16; }

DLDataType UnpackDType(int32_t dtype) {
  return {static_cast<uint8_t>(dtype), static_cast<uint8_t>(dtype >> 8),
          static_cast<uint16_t>(dtype >> 16)};
}

AtenTensorHandle HandleOf(Tensor* tensor) {
  return static_cast<AtenTensorHandle>(tensor->handle());
}

DLDevice DeviceOf(int32_t type, int32_t index) {
  return {static_cast<DLDeviceType>(type), type == kDLCPU ? 0 : index};
}

/// The prototype of a tensor. Borrows its dimensions.
DLTensor Like(int64_t ndim, const int64_t* sizes, const int64_t* strides, DLDataType dtype,
              DLDevice device) {
  return {nullptr,
          device,
          static_cast<int32_t>(ndim),
          dtype,
          const_cast<int64_t*>(sizes),
          const_cast<int64_t*>(strides),
          0};
}

int64_t NumElements(const DLTensor& tensor) {
  int64_t count = 1;
  for (int32_t i = 0; i < tensor.ndim; ++i) count *= tensor.shape[i];
  return count;
}

/// A tensor in the memory of `self`, `offset` bytes behind its first element.
AtenTensorHandle ViewIn(AtenTensorHandle self, int64_t offset, const DLTensor& prototype) {
  Tensor* opt_own = Tensor::OptOf(self);
  const TVMFFIObjectHandle root = opt_own == nullptr ? self : opt_own->root();
  return HandleOf(Tensor::View(DataOf(ViewOf(self)) + offset, prototype, root));
}

template <typename T>
AOTITorchError ReadItem(AtenTensorHandle tensor, T* value) {
  return Guard([&] {
    DLTensor item{};
    item.data = value;
    item.device = {kDLCPU, 0};
    CopyBytes(ViewOf(tensor), item, sizeof(T));
  });
}

template <typename T>
AOTITorchError MakeItem(T value, int32_t dtype, AtenTensorHandle* result) {
  return Guard([&] {
    Tensor* tensor = Tensor::Allocate(Like(0, nullptr, nullptr, UnpackDType(dtype), {kDLCPU, 0}));
    std::memcpy(DataOf(tensor->view()), &value, sizeof(T));
    *result = HandleOf(tensor);
  });
}

}  // namespace

int32_t aoti_torch_device_type_cpu() { return kDLCPU; }
int32_t aoti_torch_device_type_cuda() { return kDLCUDA; }
int32_t aoti_torch_layout_strided() { return 0; }
int32_t aoti_torch_memory_format_contiguous_format() { return 0; }
int32_t aoti_torch_memory_format_channels_last() { return 2; }
int32_t aoti_torch_memory_format_preserve_format() { return 1; }
bool aoti_torch_grad_mode_is_enabled() { return false; }
void aoti_torch_grad_mode_set_enabled(bool) {}

#define GRAPHFFI_DTYPE(name, code, bits) \
  int32_t aoti_torch_dtype_##name() { return PackDType(code, bits); }
GRAPHFFI_DTYPE(bool, kDLBool, 8)
GRAPHFFI_DTYPE(uint8, kDLUInt, 8)
GRAPHFFI_DTYPE(uint16, kDLUInt, 16)
GRAPHFFI_DTYPE(uint32, kDLUInt, 32)
GRAPHFFI_DTYPE(uint64, kDLUInt, 64)
GRAPHFFI_DTYPE(int8, kDLInt, 8)
GRAPHFFI_DTYPE(int16, kDLInt, 16)
GRAPHFFI_DTYPE(int32, kDLInt, 32)
GRAPHFFI_DTYPE(int64, kDLInt, 64)
GRAPHFFI_DTYPE(float16, kDLFloat, 16)
GRAPHFFI_DTYPE(bfloat16, kDLBfloat, 16)
GRAPHFFI_DTYPE(float32, kDLFloat, 32)
GRAPHFFI_DTYPE(float64, kDLFloat, 64)
GRAPHFFI_DTYPE(float8_e4m3fn, kDLFloat8_e4m3fn, 8)
GRAPHFFI_DTYPE(float8_e4m3fnuz, kDLFloat8_e4m3fnuz, 8)
GRAPHFFI_DTYPE(float8_e5m2, kDLFloat8_e5m2, 8)
GRAPHFFI_DTYPE(float8_e5m2fnuz, kDLFloat8_e5m2fnuz, 8)
GRAPHFFI_DTYPE(complex32, kDLComplex, 32)
GRAPHFFI_DTYPE(complex64, kDLComplex, 64)
GRAPHFFI_DTYPE(complex128, kDLComplex, 128)
#undef GRAPHFFI_DTYPE

size_t aoti_torch_dtype_element_size(int32_t dtype) { return ElementBytes(UnpackDType(dtype)); }

#define GRAPHFFI_ITEM(name, Type)                                               \
  AOTITorchError aoti_torch_item_##name(AtenTensorHandle tensor, Type* value) { \
    return ReadItem(tensor, value);                                             \
  }
#define GRAPHFFI_SCALAR(name, Type)                                                         \
  AOTITorchError aoti_torch_scalar_to_tensor_##name(Type value, AtenTensorHandle* result) { \
    return MakeItem(value, aoti_torch_dtype_##name(), result);                              \
  }
#define GRAPHFFI_BOTH(name, Type) \
  GRAPHFFI_ITEM(name, Type)       \
  GRAPHFFI_SCALAR(name, Type)
GRAPHFFI_BOTH(float32, float)
GRAPHFFI_BOTH(float64, double)
GRAPHFFI_BOTH(uint8, uint8_t)
GRAPHFFI_BOTH(uint16, uint16_t)
GRAPHFFI_BOTH(uint32, uint32_t)
GRAPHFFI_BOTH(uint64, uint64_t)
GRAPHFFI_BOTH(int8, int8_t)
GRAPHFFI_BOTH(int16, int16_t)
GRAPHFFI_BOTH(int32, int32_t)
GRAPHFFI_BOTH(int64, int64_t)
GRAPHFFI_BOTH(bool, bool)
GRAPHFFI_ITEM(float16, c10::Half)
GRAPHFFI_ITEM(bfloat16, c10::BFloat16)
#undef GRAPHFFI_BOTH
#undef GRAPHFFI_SCALAR
#undef GRAPHFFI_ITEM

AOTITorchError aoti_torch_delete_tensor_object(AtenTensorHandle tensor) {
  if (tensor != nullptr) TVMFFIObjectDecRef(tensor);
  return AOTI_TORCH_SUCCESS;
}

AOTITorchError aoti_torch_new_tensor_handle(AtenTensorHandle tensor, AtenTensorHandle* result) {
  TVMFFIObjectIncRef(tensor);
  *result = tensor;
  return AOTI_TORCH_SUCCESS;
}

AOTITorchError aoti_torch_assign_tensors_out(AtenTensorHandle tensor, AtenTensorHandle* result) {
  return Guard([&] { *result = ViewIn(tensor, 0, ViewOf(tensor)); });
}

#define GRAPHFFI_FACT(name, Type, fact)                                                     \
  AOTITorchError aoti_torch_##name([[maybe_unused]] AtenTensorHandle tensor, Type* value) { \
    *value = fact;                                                                          \
    return AOTI_TORCH_SUCCESS;                                                              \
  }
GRAPHFFI_FACT(get_data_ptr, void*, DataOf(ViewOf(tensor)))
GRAPHFFI_FACT(get_dim, int64_t, ViewOf(tensor).ndim)
GRAPHFFI_FACT(get_numel, int64_t, NumElements(ViewOf(tensor)))
GRAPHFFI_FACT(get_sizes, int64_t*, ViewOf(tensor).shape)
GRAPHFFI_FACT(get_strides, int64_t*, ViewOf(tensor).strides)
GRAPHFFI_FACT(get_device_type, int32_t, ViewOf(tensor).device.device_type)
GRAPHFFI_FACT(get_device_index, int32_t, ViewOf(tensor).device.device_id)
GRAPHFFI_FACT(get_storage_size, int64_t, static_cast<int64_t>(SpanBytes(ViewOf(tensor))))
GRAPHFFI_FACT(is_contiguous, bool, graphffi::IsCompact(ViewOf(tensor)))
GRAPHFFI_FACT(is_defined, bool, tensor != nullptr)
GRAPHFFI_FACT(get_layout, int32_t, aoti_torch_layout_strided())
// Offsets of views are relative to what they are views of.
GRAPHFFI_FACT(get_storage_offset, int64_t, 0)
#undef GRAPHFFI_FACT

AOTITorchError aoti_torch_get_size(AtenTensorHandle tensor, int64_t dim, int64_t* size) {
  *size = ViewOf(tensor).shape[dim];
  return AOTI_TORCH_SUCCESS;
}

AOTITorchError aoti_torch_get_stride(AtenTensorHandle tensor, int64_t dim, int64_t* stride) {
  *stride = ViewOf(tensor).strides[dim];
  return AOTI_TORCH_SUCCESS;
}

AOTITorchError aoti_torch_get_dtype(AtenTensorHandle tensor, int32_t* dtype) {
  std::memcpy(dtype, &ViewOf(tensor).dtype, sizeof(*dtype));
  return AOTI_TORCH_SUCCESS;
}

AOTITorchError aoti_torch_empty_strided(int64_t ndim, const int64_t* sizes, const int64_t* strides,
                                        int32_t dtype, int32_t device_type, int32_t device_index,
                                        AtenTensorHandle* result) {
  return Guard([&] {
    *result = HandleOf(Run::Allocate(
        Like(ndim, sizes, strides, UnpackDType(dtype), DeviceOf(device_type, device_index))));
  });
}

AOTITorchError aoti_torch__reinterpret_tensor(AtenTensorHandle self, int64_t ndim,
                                              const int64_t* sizes, const int64_t* strides,
                                              int64_t offset, AtenTensorHandle* result) {
  return Guard([&] {
    const DLTensor& view = ViewOf(self);
    *result = ViewIn(self, offset * static_cast<int64_t>(ElementBytes(view.dtype)),
                     Like(ndim, sizes, strides, view.dtype, view.device));
  });
}

AOTITorchError aoti_torch__alloc_from_pool(AtenTensorHandle self, int64_t offset, int32_t dtype,
                                           int64_t ndim, const int64_t* sizes,
                                           const int64_t* strides, AtenTensorHandle* result) {
  return Guard([&] {
    const DLDevice device = ViewOf(self).device;
    *result = ViewIn(self, offset, Like(ndim, sizes, strides, UnpackDType(dtype), device));
  });
}

AOTITorchError aoti_torch_create_tensor_from_blob_v2(void* data, int64_t ndim, const int64_t* sizes,
                                                     const int64_t* strides, int64_t offset,
                                                     int32_t dtype, int32_t device_type,
                                                     int32_t device_index, AtenTensorHandle* result,
                                                     int32_t, const uint8_t*, int64_t) {
  return Guard([&] {
    const DLTensor prototype =
        Like(ndim, sizes, strides, UnpackDType(dtype), DeviceOf(device_type, device_index));
    const auto bytes = static_cast<int64_t>(ElementBytes(prototype.dtype));
    char* first = static_cast<char*>(data) + offset * bytes;
    *result = HandleOf(Tensor::View(first, prototype, nullptr));
  });
}

AOTITorchError aoti_torch_create_tensor_from_blob(void* data, int64_t ndim, const int64_t* sizes,
                                                  const int64_t* strides, int64_t offset,
                                                  int32_t dtype, int32_t device_type,
                                                  int32_t device_index, AtenTensorHandle* result) {
  return aoti_torch_create_tensor_from_blob_v2(data, ndim, sizes, strides, offset, dtype,
                                               device_type, device_index, result, 0, nullptr, 0);
}

AOTITorchError aoti_torch_clone(AtenTensorHandle self, AtenTensorHandle* result) {
  return Guard([&] { *result = HandleOf(CompactCopy(ViewOf(self))); });
}

AOTITorchError aoti_torch_clone_preserve_strides(AtenTensorHandle self, AtenTensorHandle* result) {
  return Guard([&] { *result = HandleOf(CopyAs(ViewOf(self), ViewOf(self))); });
}

AOTITorchError aoti_torch_copy_(AtenTensorHandle self, AtenTensorHandle source, int32_t) {
  return Guard([&] {
    const DLTensor &to = ViewOf(self), &from = ViewOf(source);
    if (!AreAlike(from, to)) {
      throw graphffi::Error("InternalError",
                            "graphffi: a graph copies between tensors of other shapes or dtypes");
    }
    CopyElements(from, to);
  });
}

AOTITorchError aoti_torch_zero_(AtenTensorHandle self) {
  return Guard([&] { ClearElements(ViewOf(self)); });
}

void aoti_torch_warn(const char*, const char*, uint32_t, const char* text) {
  std::fprintf(stderr, "graphffi: %s\n", text);
}

void aoti_torch_check(bool holds, const char*, const char*, uint32_t, const char* text) {
  if (!holds) throw graphffi::Error("RuntimeError", text);  // on any thread of a loop
}
