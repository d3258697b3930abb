// SPDX-License-Identifier: Apache-2.0
// The functions of CUDA's driver that a module of kernels needs, found when the first one is made:
// graphffi builds and imports where there is no CUDA.
#pragma once

namespace graphffi::modules {

using CudaDevice = int;
using CudaContext = struct CudaContextState*;
using CudaModule = struct CudaModuleState*;
using CudaFunction = struct CudaFunctionState*;

struct CudaDim3 {
  unsigned int x, y, z;
};

/// Methods throw Error(RuntimeError) with what the driver says.
class CudaDriver {
 public:
  /// \throws Error(RuntimeError) if there is no libcuda.so.1 or it has no device. GRAPHFFI_LIBCUDA
  /// in the environment names another file.
  static const CudaDriver& Get();

  /// Whether the process has opened it, for this code or another's.
  static bool IsOpen();

  /// The context that CUDA's runtime uses, too; retained once, for the rest of the process.
  CudaContext PrimaryContext(int device_id) const;
  void PushContext(CudaContext context) const;
  void PopContext() const;
  /// PTX text, which ends with a null character, or a cubin or fatbin.
  CudaModule LoadModule(const void* image) const;
  /// NULL if the module has no such kernel.
  CudaFunction FindFunction(CudaModule module, const char* name) const;
  /// Lets the kernel have more dynamic shared memory than it may without asking.
  void AllowSharedMemory(CudaFunction function, unsigned int bytes) const;
  void Launch(CudaFunction function, CudaDim3 grid, CudaDim3 block, unsigned int shared_bytes,
              void* stream, void** parameters) const;

  using Status = int;
  /// Finds another function, for callers that Check what it returns.
  template <typename F>
  void Find(const char* name, F** function) const {
    *function = reinterpret_cast<F*>(Find(name));
  }
  /// "cannot <action>: <the driver's text>", unless the status is that of success.
  void Check(Status status, const char* action) const;

 private:
  CudaDriver();
  void* Find(const char* name) const;

  void* const library_;

  Status (*init_)(unsigned int flags);
  Status (*device_get_)(CudaDevice* device, int ordinal);
  Status (*primary_context_retain_)(CudaContext* context, CudaDevice device);
  Status (*context_push_)(CudaContext context);
  Status (*context_pop_)(CudaContext* context);
  Status (*module_load_)(CudaModule* module, const void* image);
  Status (*module_get_function_)(CudaFunction* function, CudaModule module, const char* name);
  Status (*function_set_attribute_)(CudaFunction function, int attribute, int value);
  Status (*launch_)(CudaFunction function, unsigned int grid_x, unsigned int grid_y,
                    unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                    unsigned int block_z, unsigned int shared_bytes, void* stream,
                    void** parameters, void** extra);
  Status (*get_error_string_)(Status status, const char** text);
};

/// Makes a context current for a scope.
class CudaContextScope {
 public:
  CudaContextScope(const CudaDriver& driver, CudaContext context) : driver_(driver) {
    driver_.PushContext(context);
  }
  ~CudaContextScope() { driver_.PopContext(); }
  CudaContextScope(const CudaContextScope&) = delete;
  CudaContextScope& operator=(const CudaContextScope&) = delete;

 private:
  const CudaDriver& driver_;
};

}  // namespace graphffi::modules
