// SPDX-License-Identifier: Apache-2.0
#include "env_stream.h"

#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace graphffi_torch {
namespace {

template <typename Stream, typename = void>
struct HasNativeHandle : std::false_type {};
template <typename Stream>
struct HasNativeHandle<Stream, std::void_t<decltype(std::declval<Stream>().native_handle())>>
    : std::true_type {};

using GetCudaStream = int32_t (*)(int32_t device_index, void** stream);

/// The function of AOTInductor's C interface, from whichever build of libtorch is loaded.
GetCudaStream FindGetCudaStream() {
  for (const char* name : {"libtorch_cuda.so", "libtorch_hip.so"}) {
    if (void* library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) {
      if (void* function = dlsym(library, "aoti_torch_get_current_cuda_stream")) {
        return reinterpret_cast<GetCudaStream>(function);
      }
    }
  }
  return nullptr;
}

/// Torch 2.10's streams have an id and no handle; that of CUDA's is known elsewhere.
void* CurrentStreamWithoutHandle(c10::Device device) {
  TORCH_CHECK_NOT_IMPLEMENTED(device.is_cuda(), "graphffi_torch: expected a device of type cuda, ",
                              "the only one whose streams this torch gives, got ", device.str(),
                              "; install a newer torch");
  static const GetCudaStream get = FindGetCudaStream();
  TORCH_CHECK(get != nullptr,
              "graphffi_torch: expected libtorch_cuda.so with aoti_torch_get_current_cuda_stream, "
              "got none");
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

}  // namespace

void* CurrentStream(c10::Device device) {
  return device.is_cpu() ? nullptr : CurrentHandle<c10::Stream>(device);
}

}  // namespace graphffi_torch
