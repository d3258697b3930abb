// SPDX-License-Identifier: Apache-2.0
// graphffi.Tensor's own DLPack exchange table, by which other libraries read it at the cost of a C
// call.

#include <tvm/ffi/extra/c_env_api.h>

#include "bindings/arrays/tensor.h"
#include "bindings/guard.h"
#include "bindings/object.h"

namespace graphffi::bindings {

namespace {

TVMFFIObjectHandle TensorOf(void* object) {
  return HandleOf(static_cast<PyObject*>(object), TensorType());
}

int ToManaged(void* object, DLManagedTensorVersioned** out) {
  return GuardStatus([&] { CheckRc(TVMFFITensorToDLPackVersioned(TensorOf(object), out)); });
}

int FromManaged(DLManagedTensorVersioned* managed, void** out) {
  return GuardStatus([&] {
    TVMFFIObjectHandle tensor = nullptr;
    CheckRc(TVMFFITensorFromDLPackVersioned(managed, 0, 0, &tensor));
    *out = WrapObject(ObjectRef(tensor));
  });
}

int ToView(void* object, DLTensor* out) {
  return GuardStatus([&] { *out = *TVMFFITensorGetDLTensorPtr(TensorOf(object)); });
}

int CurrentStream(DLDeviceType device_type, int32_t device_id, void** out) {
  *out = TVMFFIEnvGetStream(device_type, device_id);
  return 0;
}

/// Whatever allocator the env has.
int Allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
             void (*set_error)(void* error_context, const char* kind, const char* message)) {
  const DLPackManagedTensorAllocator allocate = TVMFFIEnvGetDLPackManagedTensorAllocator();
  if (allocate == nullptr || allocate == &Allocate) {
    set_error(error_context, "RuntimeError", "graphffi: no tensor allocator is set");
    return -1;
  }
  return allocate(prototype, out, error_context, set_error);
}

}  // namespace

py::object OwnExchangeTable() {
  static DLPackExchangeAPI table = {
      {{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, nullptr},
      &Allocate,
      &ToManaged,
      &FromManaged,
      &ToView,
      &CurrentStream,
  };
  PyObject* capsule = PyCapsule_New(&table, "dlpack_exchange_api", nullptr);
  if (capsule == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(capsule);
}

}  // namespace graphffi::bindings
