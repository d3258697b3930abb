// SPDX-License-Identifier: Apache-2.0
// A kernel whose GPU code was compiled before: embedded under a symbol, as bytes of this file, or
// given at run time.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/extra/cuda/cubin_launcher.h>
#include <tvm/ffi/function.h>

namespace ffi = tvm::ffi;

TVM_FFI_EMBED_CUBIN(linked);
extern "C" const char __tvm_ffi__cubin_linked[1] = {0};
extern "C" const char __tvm_ffi__cubin_linked_end[1] = {0};

constexpr unsigned char kImage[] = {0};
TVM_FFI_EMBED_CUBIN_FROM_BYTES(bytes, kImage);

ffi::cuda_api::StreamHandle StreamOf(ffi::TensorView x) {
  return static_cast<ffi::cuda_api::StreamHandle>(
      TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
}

void Run(ffi::CubinKernel& kernel, ffi::TensorView x) {
  void* data = x.data_ptr();
  int64_t n = x.numel();
  void* args[] = {&data, &n};
  ffi::dim3 grid(static_cast<unsigned int>((n + 255) / 256));
  TVM_FFI_CHECK_CUBIN_LAUNCHER_CUDA_ERROR(
      kernel.Launch(args, grid, ffi::dim3(256), StreamOf(x), /*dyn_smem_bytes=*/0));
}

void RunLinked(ffi::TensorView x) {
  static auto kernel = TVM_FFI_EMBED_CUBIN_GET_KERNEL(linked, "add_one");
  Run(kernel, x);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run_linked, RunLinked);

void RunBytes(ffi::TensorView x) {
  static auto kernel = EmbedCubinModule_bytes::Global()->mod.GetKernelWithMaxDynamicSharedMemory(
      "add_one", /*dynamic_smem_max=*/-1);
  Run(kernel, x);
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run_bytes, RunBytes);

void RunClusters(ffi::Bytes image, ffi::TensorView x) {
  ffi::CubinModule loaded(image);
  ffi::CubinModule module(std::move(loaded));
  ffi::CubinKernel kernel = module["add_one"];
  ffi::cuda_api::LaunchConfig config;
  ffi::cuda_api::LaunchAttrType attribute;
  TVM_FFI_CHECK_CUBIN_LAUNCHER_CUDA_ERROR(ffi::cuda_api::ConstructLaunchConfig(
      kernel.GetHandle(), StreamOf(x), 0, ffi::dim3(4, 2), ffi::dim3(32, 1, 1),
      /*cluster_dim=*/2, config, attribute));
  void* data = x.data_ptr();
  void* args[] = {&data};
  TVM_FFI_CHECK_CUBIN_LAUNCHER_CUDA_ERROR(kernel.LaunchEx(args, config));
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run_clusters, RunClusters);
