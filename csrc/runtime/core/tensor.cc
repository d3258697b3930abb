// SPDX-License-Identifier: Apache-2.0
// Tensor objects, and their way in and out through both DLPack protocols.
#include "tensor.h"

#include <tvm/ffi/container/tensor.h>

#include <algorithm>

#include "error.h"

namespace graphffi::runtime {
namespace {

struct TensorObject {
  TVMFFIObject header;
  DLTensor tensor;
  void* owner;
  void (*release)(void* owner);

  int64_t* tail() { return reinterpret_cast<int64_t*>(this + 1); }
  ~TensorObject() { release(owner); }
};

void CheckRank(const DLTensor& tensor) {
  if (tensor.ndim >= 0) return;
  Throw("ValueError", "graphffi: tensor: expected a rank of 0 or more, got ", tensor.ndim);
}

void Check(const DLTensor& tensor, TensorRequirements requirements) {
  CheckRank(tensor);
  if (requirements.alignment > 0) {
    auto address = reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
    if (address % requirements.alignment != 0) {
      Throw("RuntimeError", "graphffi: tensor: expected data aligned to ", requirements.alignment,
            " bytes, got an address that is ", address % requirements.alignment, " bytes off");
    }
  }
  if (requirements.contiguous && !tvm::ffi::IsContiguous(tensor)) {
    Throw("RuntimeError", "graphffi: tensor: expected a contiguous one, got other strides");
  }
}

template <typename Managed>
void ReleaseManaged(void* owner) {
  auto* managed = static_cast<Managed*>(owner);
  if (managed->deleter != nullptr) managed->deleter(managed);
}

void ReleaseObject(void* owner) { DecRef(static_cast<TVMFFIObject*>(owner)); }

template <typename Managed>
ObjectPtr<> MakeManagedTensor(Managed* managed, TensorRequirements requirements) {
  const DLTensor& source = managed->dl_tensor;
  Check(source, requirements);
  bool needs_strides = source.strides == nullptr && source.ndim > 0;
  size_t tail_bytes = needs_strides ? sizeof(int64_t) * source.ndim : 0;
  auto object = MakeObject<TensorObject>(kTVMFFITensor, tail_bytes, source,
                                         static_cast<void*>(managed), ReleaseManaged<Managed>);
  if (needs_strides) {
    tvm::ffi::detail::FillCompactStrides(source.shape, source.ndim, object->tail());
    object->tensor.strides = object->tail();
  }
  return ObjectPtr<>::Steal(object.Release());
}

template <typename Managed>
void DeleteManaged(Managed* managed) {
  DecRef(static_cast<TVMFFIObject*>(managed->manager_ctx));
  delete managed;
}

template <typename Managed>
Managed* MakeManaged(TVMFFIObjectHandle from) {
  auto* managed = new Managed();
  managed->dl_tensor = *TVMFFITensorGetDLTensorPtr(from);
  managed->manager_ctx = ObjectPtr<>::Share(from).Release();
  managed->deleter = DeleteManaged<Managed>;
  return managed;
}

ObjectPtr<> MakeView(TVMFFIObjectHandle source, const DLTensor& prototype) {
  CheckRank(prototype);
  int32_t ndim = prototype.ndim;
  if (ndim > 0 && prototype.strides == nullptr) {
    Throw("ValueError", "graphffi: tensor view: expected strides, got NULL");
  }
  auto view = MakeObject<TensorObject>(kTVMFFITensor, 2 * sizeof(int64_t) * ndim, prototype,
                                       static_cast<void*>(ObjectPtr<>::Share(source).Release()),
                                       ReleaseObject);
  view->tensor.shape = view->tail();
  view->tensor.strides = view->tail() + ndim;
  std::copy_n(prototype.shape, ndim, view->tensor.shape);
  std::copy_n(prototype.strides, ndim, view->tensor.strides);
  return ObjectPtr<>::Steal(view.Release());
}

}  // namespace

ObjectPtr<> MakeTensor(DLManagedTensor* managed, TensorRequirements requirements) {
  return MakeManagedTensor(managed, requirements);
}

ObjectPtr<> MakeTensor(DLManagedTensorVersioned* managed, TensorRequirements requirements) {
  if (managed->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) {
    Throw("RuntimeError", "graphffi: tensor: expected packed elements, got padded sub-byte ones");
  }
  return MakeManagedTensor(managed, requirements);
}

}  // namespace graphffi::runtime

using namespace graphffi::runtime;

int TVMFFITensorFromDLPack(DLManagedTensor* from, int32_t require_alignment,
                           int32_t require_contiguous, TVMFFIObjectHandle* out) {
  return Guard(
      [&] { *out = MakeTensor(from, {require_alignment, require_contiguous != 0}).Release(); });
}

int TVMFFITensorFromDLPackVersioned(DLManagedTensorVersioned* from, int32_t require_alignment,
                                    int32_t require_contiguous, TVMFFIObjectHandle* out) {
  return Guard(
      [&] { *out = MakeTensor(from, {require_alignment, require_contiguous != 0}).Release(); });
}

int TVMFFITensorToDLPack(TVMFFIObjectHandle from, DLManagedTensor** out) {
  return Guard([&] { *out = MakeManaged<DLManagedTensor>(from); });
}

int TVMFFITensorToDLPackVersioned(TVMFFIObjectHandle from, DLManagedTensorVersioned** out) {
  return Guard([&] {
    auto* managed = MakeManaged<DLManagedTensorVersioned>(from);
    managed->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    managed->flags = 0;
    *out = managed;
  });
}

int TVMFFITensorCreateUnsafeView(TVMFFIObjectHandle source, const DLTensor* prototype,
                                 TVMFFIObjectHandle* out) {
  return Guard([&] { *out = MakeView(source, *prototype).Release(); });
}
