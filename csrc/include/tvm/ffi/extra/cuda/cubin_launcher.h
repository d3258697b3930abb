// SPDX-License-Identifier: Apache-2.0
// CubinModule and CubinKernel: GPU code that was compiled before, embedded or loaded at run time,
// for all devices.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/extra/cuda/base.h>
#include <tvm/ffi/extra/cuda/internal/unified_api.h>
#include <tvm/ffi/string.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

class CubinModule;

/// A kernel of a CubinModule, which must outlive it.
class CubinKernel {
 public:
  /// \throws Error(RuntimeError) if the library has no such kernel
  CubinKernel(cuda_api::LibraryHandle library, const char* name) {
    TVM_FFI_CHECK_CUBIN_LAUNCHER_CUDA_ERROR(cuda_api::GetKernel(&kernel_, library, name));
  }
  CubinKernel(const CubinKernel&) = delete;
  CubinKernel& operator=(const CubinKernel&) = delete;
  CubinKernel(CubinKernel&& other) noexcept : kernel_(std::exchange(other.kernel_, nullptr)) {}
  CubinKernel& operator=(CubinKernel&& other) noexcept {
    kernel_ = std::exchange(other.kernel_, nullptr);
    return *this;
  }

  /// args: pointers to the arguments. The result is to be checked with
  /// TVM_FFI_CHECK_CUBIN_LAUNCHER_CUDA_ERROR.
  cuda_api::ResultType Launch(void** args, dim3 grid, dim3 block, cuda_api::StreamHandle stream,
                              uint32_t dyn_smem_bytes = 0) {
    return cuda_api::LaunchKernel(kernel_, args, grid, block, stream, dyn_smem_bytes);
  }
  /// With attributes, e.g. clusters: see cuda_api::ConstructLaunchConfig.
  cuda_api::ResultType LaunchEx(void** args, const cuda_api::LaunchConfig& config) {
    return cuda_api::LaunchKernelEx(kernel_, args, config);
  }
  cuda_api::KernelHandle GetHandle() const { return kernel_; }

 private:
  friend class CubinModule;

  /// Allows so many bytes of dynamic shared memory (-1: all that static memory leaves) on every
  /// device that can give them. \throws Error(RuntimeError) if none can
  void SetMaxDynamicSharedMemory(int64_t bytes) {
    int num_devices = 0;
    if (cuda_api::GetDeviceCount(&num_devices) != cuda_api::kSuccess || num_devices == 0) return;
    bool any = false;
    for (int i = 0; i < num_devices; ++i) {
      cuda_api::DeviceHandle device = cuda_api::GetDeviceHandle(i);
      int64_t wanted = bytes >= 0 ? bytes : FreeSharedMemory(device);
      any |= wanted >= 0 && cuda_api::SetKernelMaxDynamicSharedMem(
                                kernel_, static_cast<int>(wanted), device) == cuda_api::kSuccess;
    }
    if (!any) {
      TVM_FFI_THROW(RuntimeError) << "Failed to set dynamic shared memory attribute for any device";
    }
  }
  /// Bytes of shared memory per block that the kernel does not use yet; -1 if that is unknown.
  int64_t FreeSharedMemory(cuda_api::DeviceHandle device) const {
    constexpr auto kMaxSharedMemoryPerBlock = static_cast<cuda_api::DeviceAttrType>(8);
    int total = 0;
    int used = 0;
    if (cuda_api::GetDeviceAttribute(&total, kMaxSharedMemoryPerBlock, device) !=
            cuda_api::kSuccess ||
        cuda_api::GetKernelSharedMem(kernel_, used, device) != cuda_api::kSuccess) {
      return -1;
    }
    return std::max(total - used, 0);
  }

  cuda_api::KernelHandle kernel_ = nullptr;
};

/// A loaded cubin, fatbin or PTX text.
class CubinModule {
 public:
  /// image is read here only. \throws Error(RuntimeError) if it is no GPU code for these devices
  explicit CubinModule(const void* image) {
    TVM_FFI_CHECK_CUBIN_LAUNCHER_CUDA_ERROR(cuda_api::LoadLibrary(&library_, image));
  }
  explicit CubinModule(const char* image) : CubinModule(static_cast<const void*>(image)) {}
  explicit CubinModule(const unsigned char* image) : CubinModule(static_cast<const void*>(image)) {}
  explicit CubinModule(const Bytes& image) : CubinModule(image.data()) {}
  CubinModule(const CubinModule&) = delete;
  CubinModule& operator=(const CubinModule&) = delete;
  CubinModule(CubinModule&& other) noexcept : library_(std::exchange(other.library_, nullptr)) {}
  CubinModule& operator=(CubinModule&& other) noexcept {
    std::swap(library_, other.library_);
    return *this;
  }
  ~CubinModule() {
    if (library_ != nullptr) cuda_api::UnloadLibrary(library_);
  }

  /// \throws Error(RuntimeError) if there is no such kernel
  CubinKernel GetKernel(const char* name) { return CubinKernel(library_, name); }
  CubinKernel operator[](const char* name) { return GetKernel(name); }
  /// The kernel with so many bytes of dynamic shared memory allowed (-1: all there are).
  CubinKernel GetKernelWithMaxDynamicSharedMemory(const char* name, int64_t dynamic_smem_max = -1) {
    CubinKernel kernel(library_, name);
    kernel.SetMaxDynamicSharedMemory(dynamic_smem_max);
    return kernel;
  }
  cuda_api::LibraryHandle GetHandle() const { return library_; }

 private:
  cuda_api::LibraryHandle library_ = nullptr;
};

/// The module of an image that lies in this library, loaded when it is first used.
#define TVM_FFI_EMBED_CUBIN_FROM_BYTES(name, image)        \
  namespace {                                              \
  struct EmbedCubinModule_##name {                         \
    ::tvm::ffi::CubinModule mod{image};                    \
    /* Never unloaded: at exit CUDA may be gone already */ \
    static EmbedCubinModule_##name* Global() {             \
      static auto* module = new EmbedCubinModule_##name(); \
      return module;                                       \
    }                                                      \
  };                                                       \
  }

/// The same for an image that was linked in under the symbol `__tvm_ffi__cubin_<name>`.
#define TVM_FFI_EMBED_CUBIN(name)                        \
  extern "C" const char __tvm_ffi__cubin_##name[];       \
  extern "C" const char __tvm_ffi__cubin_##name##_end[]; \
  TVM_FFI_EMBED_CUBIN_FROM_BYTES(name, __tvm_ffi__cubin_##name)

/// `static auto kernel = TVM_FFI_EMBED_CUBIN_GET_KERNEL(name, "kernel_name");`
#define TVM_FFI_EMBED_CUBIN_GET_KERNEL(name, kernel_name) \
  (EmbedCubinModule_##name::Global()->mod[kernel_name])

}  // namespace graphffi_v1
}  // namespace tvm::ffi
