// SPDX-License-Identifier: Apache-2.0
#include "env.h"

#include <ATen/DLConvertor.h>
#include <ATen/ops/empty.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <cstdint>
#include <exception>
#include <type_traits>
#include <utility>

#include "call/error.h"
#include "env/shared_allocator.h"

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

template <typename Stream, typename = void>
struct HasNativeHandle : std::false_type {};
template <typename Stream>
struct HasNativeHandle<Stream, std::void_t<decltype(std::declval<Stream>().native_handle())>>
    : std::true_type {};

/// A function of AOTInductor's C interface, from whichever build of libtorch is loaded.
template <typename F>
F* FindCudaFunction(const char* function_name) {
  void* opt_function = nullptr;
  for (const char* name : {"libtorch_cuda.so", "libtorch_hip.so"}) {
    void* opt_library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (opt_library != nullptr) opt_function = dlsym(opt_library, function_name);
    if (opt_function != nullptr) break;
  }
  TORCH_CHECK(opt_function != nullptr, "graphffi_torch: expected libtorch_cuda.so with ",
              function_name, ", got none");
  return reinterpret_cast<F*>(opt_function);
}

/// Torch 2.10's streams have an id and no handle; that of CUDA's is known elsewhere.
void* CurrentStreamWithoutHandle(c10::Device device) {
  TORCH_CHECK_NOT_IMPLEMENTED(device.is_cuda(), "graphffi_torch: expected a device of type cuda, ",
                              "the only one whose streams this torch gives, got ", device.str(),
                              "; install a newer torch");
  static auto* const get =
      FindCudaFunction<int32_t(int32_t, void**)>("aoti_torch_get_current_cuda_stream");
  void* stream = nullptr;
  TORCH_CHECK(get(device.index(), &stream) == 0,
              "graphffi_torch: torch does not give the current stream of ", device.str());
  return stream;
}

/// A template, so that only one of the two has to compile.
template <typename Stream>
void* CurrentHandle(c10::Device device) {
  if constexpr (HasNativeHandle<Stream>::value) {
    const Stream stream = c10::impl::getDeviceGuardImpl(device.type())->getStream(device);
    return stream.native_handle();
  } else {
    return CurrentStreamWithoutHandle(device);
  }
}

/// Makes the env's stream torch's current one: torch gives memory that was given back to the stream
/// for which it was allocated, at once, while kernels may still use it on another.
class EnvStreamScope {
 public:
  explicit EnvStreamScope(c10::Device device) {
    if (!device.is_cuda()) return;
    void* stream = TVMFFIEnvGetStream(kDLCUDA, device.index());
    if (stream == CurrentStream(device)) return;
    static auto* const create =
        FindCudaFunction<int32_t(void*, int32_t, void**)>("aoti_torch_create_cuda_stream_guard");
    TORCH_CHECK(create(stream, device.index(), &opt_guard_) == 0,
                "graphffi_torch: torch does not take the env's stream of ", device.str());
  }
  ~EnvStreamScope() {
    if (opt_guard_ == nullptr) return;
    static auto* const leave =
        FindCudaFunction<int32_t(void*)>("aoti_torch_delete_cuda_stream_guard");
    leave(opt_guard_);
  }
  EnvStreamScope(const EnvStreamScope&) = delete;
  EnvStreamScope& operator=(const EnvStreamScope&) = delete;

 private:
  void* opt_guard_ = nullptr;
};

}  // namespace

DLPackManagedTensorAllocator shared_allocator = &AllocateWithTorch;

int AllocateWithTorch(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_ctx,
                      void (*set_error)(void* error_ctx, const char* kind, const char* message)) {
  try {
    const c10::Device device = at::dlDeviceToTorchDevice(
        prototype->device.device_type, static_cast<c10::DeviceIndex>(prototype->device.device_id));
    const at::TensorOptions options =
        at::TensorOptions().dtype(at::toScalarType(prototype->dtype)).device(device);
    const EnvStreamScope stream(device);
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

void* CurrentStream(c10::Device device) {
  return device.is_cpu() ? nullptr : CurrentHandle<c10::Stream>(device);
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
