// SPDX-License-Identifier: Apache-2.0
#include "modules/cuda_driver.h"

#include <dlfcn.h>
#include <tvm/ffi/error.h>

#include <cstdlib>
#include <map>
#include <mutex>

namespace graphffi::modules {

namespace {

constexpr int kNotFound = 500;              // CUDA_ERROR_NOT_FOUND
constexpr int kMaxDynamicSharedMemory = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

const char* Name() {
  const char* asked = std::getenv("GRAPHFFI_LIBCUDA");
  return asked == nullptr || *asked == '\0' ? "libcuda.so.1" : asked;
}

void* Open() {
  if (void* library = dlopen(Name(), RTLD_NOW | RTLD_LOCAL)) return library;
  TVM_FFI_THROW(RuntimeError) << "graphffi: expected CUDA's driver, got " << dlerror()
                              << "; install it, or name its library in GRAPHFFI_LIBCUDA";
}

}  // namespace

const CudaDriver& CudaDriver::Get() {
  static const CudaDriver* driver = new CudaDriver();
  return *driver;
}

bool CudaDriver::IsOpen() {
  void* opt_library = dlopen(Name(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (opt_library != nullptr) dlclose(opt_library);
  return opt_library != nullptr;
}

CudaDriver::CudaDriver() : library_(Open()) {
  Find("cuInit", &init_);
  Find("cuDeviceGet", &device_get_);
  Find("cuDevicePrimaryCtxRetain", &primary_context_retain_);
  Find("cuCtxPushCurrent_v2", &context_push_);
  Find("cuCtxPopCurrent_v2", &context_pop_);
  Find("cuModuleLoadData", &module_load_);
  Find("cuModuleGetFunction", &module_get_function_);
  Find("cuFuncSetAttribute", &function_set_attribute_);
  Find("cuLaunchKernel", &launch_);
  Find("cuGetErrorString", &get_error_string_);
  Check(init_(0), "start the driver");
}

void* CudaDriver::Find(const char* name) const {
  if (void* function = dlsym(library_, name)) return function;
  TVM_FFI_THROW(RuntimeError) << "graphffi: CUDA's driver lacks the function " << name
                              << "; upgrade it";
}

void CudaDriver::Check(Status status, const char* action) const {
  if (status == 0) return;
  const char* text = nullptr;
  get_error_string_(status, &text);
  TVM_FFI_THROW(RuntimeError) << "graphffi: CUDA: cannot " << action << ": "
                              << (text == nullptr ? "unknown reason" : text) << " (" << status
                              << ")";
}

CudaContext CudaDriver::PrimaryContext(int device_id) const {
  static auto* retained = new std::map<int, CudaContext>;
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = retained->find(device_id);
  if (found != retained->end()) return found->second;
  CudaDevice device = 0;
  CudaContext context = nullptr;
  Check(device_get_(&device, device_id), "find the device");
  Check(primary_context_retain_(&context, device), "use the device");
  retained->emplace(device_id, context);
  return context;
}

void CudaDriver::PushContext(CudaContext context) const {
  Check(context_push_(context), "make the device current");
}

void CudaDriver::PopContext() const {
  CudaContext context = nullptr;
  context_pop_(&context);
}

CudaModule CudaDriver::LoadModule(const void* image) const {
  CudaModule module = nullptr;
  Check(module_load_(&module, image), "load a PTX or cubin image");
  return module;
}

CudaFunction CudaDriver::FindFunction(CudaModule module, const char* name) const {
  CudaFunction function = nullptr;
  const Status status = module_get_function_(&function, module, name);
  if (status == kNotFound) return nullptr;
  Check(status, "look a kernel up");
  return function;
}

void CudaDriver::AllowSharedMemory(CudaFunction function, unsigned int bytes) const {
  Check(function_set_attribute_(function, kMaxDynamicSharedMemory, static_cast<int>(bytes)),
        "give a kernel that much shared memory");
}

void CudaDriver::Launch(CudaFunction function, CudaDim3 grid, CudaDim3 block,
                        unsigned int shared_bytes, void* stream, void** parameters) const {
  Check(launch_(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_bytes, stream,
                parameters, nullptr),
        "launch a kernel");
}

}  // namespace graphffi::modules
