// SPDX-License-Identifier: Apache-2.0
// The functions that AOTInductor's code calls for CUDA, as torch's shim.h declares them. The device
// is current while a call lasts (DeviceScope); guards make another one so.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include "device.h"
#include "shim_tensor.h"

using graphffi_standalone::Guard;
using graphffi_standalone::kOptDeviceKind;

namespace {

char guard;  // generated code only asks whether there is one

template <typename Handle>
AOTITorchError Enter(int32_t device_index, Handle* result) {
  return Guard([&] {
    kOptDeviceKind->enter(device_index);
    *result = reinterpret_cast<Handle>(&guard);
  });
}

AOTITorchError Leave() {
  return Guard([] { kOptDeviceKind->leave(); });
}

}  // namespace

AOTITorchError aoti_torch_create_cuda_guard(int32_t device_index, CUDAGuardHandle* result) {
  return Enter(device_index, result);
}

AOTITorchError aoti_torch_delete_cuda_guard(CUDAGuardHandle) { return Leave(); }

AOTITorchError aoti_torch_cuda_guard_set_index(CUDAGuardHandle, int32_t device_index) {
  return Guard([&] {
    kOptDeviceKind->leave();
    kOptDeviceKind->enter(device_index);
  });
}

AOTITorchError aoti_torch_create_cuda_stream_guard(void*, int32_t device_index,
                                                   CUDAStreamGuardHandle* result) {
  return Enter(device_index, result);
}

AOTITorchError aoti_torch_delete_cuda_stream_guard(CUDAStreamGuardHandle) { return Leave(); }

AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index, void** result) {
  *result = TVMFFIEnvGetStream(kDLCUDA, device_index);
  return AOTI_TORCH_SUCCESS;
}
