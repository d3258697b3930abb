// SPDX-License-Identifier: Apache-2.0
#include "env.h"

#include <ATen/DLConvertor.h>
#include <ATen/ops/empty.h>

#include <exception>

#include "call/error.h"
#include "env/shared_allocator.h"
#include "env_stream.h"

namespace graphffi_torch {
namespace {

/// Installs torch's allocator process-wide, unless one is set already.
[[maybe_unused]] const bool provided = [] {
  try {
    graphffi::SharedAllocator& shared = graphffi::SharedAllocator::Get();
    shared.opt_otherwise.store(&AllocateWithTorch, std::memory_order_release);
    shared_allocator = shared.allocate;
  } catch (const graphffi::Error&) {
    // Each call sets torch's.
  }
  return true;
}();

}  // namespace

DLPackManagedTensorAllocator shared_allocator = &AllocateWithTorch;

int AllocateWithTorch(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_ctx,
                      void (*set_error)(void* error_ctx, const char* kind, const char* message)) {
  try {
    at::TensorOptions options =
        at::TensorOptions()
            .dtype(at::toScalarType(prototype->dtype))
            .device(at::dlDeviceToTorchDevice(
                prototype->device.device_type,
                static_cast<c10::DeviceIndex>(prototype->device.device_id)));
    at::Tensor tensor =
        at::empty(at::IntArrayRef(prototype->shape, static_cast<size_t>(prototype->ndim)), options);
    *out = at::toDLPackVersioned(tensor);
    return 0;
  } catch (const c10::Error& error) {
    set_error(error_ctx, "RuntimeError", error.what_without_backtrace());
  } catch (const std::exception& error) {
    set_error(error_ctx, "RuntimeError", error.what());
  }
  return -1;
}

TorchEnvScope::TorchEnvScope(c10::Device device)
    : device_(device),
      guard_(device),
      stream_(CurrentStream(device)),
      scope_(at::torchDeviceToDLDevice(device), stream_, &AllocateWithTorch) {}

void TorchEnvScope::AddDevice(c10::Device device) {
  if (device.is_cpu() || device == device_) return;
  for (const auto& other : others_) {
    if (other.first == device) return;
  }
  others_.emplace_back(
      device, std::make_unique<graphffi::EnvScope>(at::torchDeviceToDLDevice(device),
                                                   CurrentStream(device), &AllocateWithTorch));
}

}  // namespace graphffi_torch
