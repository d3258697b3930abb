/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels ask of the framework that calls them: stream, tensor allocator, signals, the calling
 * module. */
#ifndef TVM_FFI_EXTRA_C_ENV_API_H_
#define TVM_FFI_EXTRA_C_ENV_API_H_

#include <tvm/ffi/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* cudaStream_t, hipStream_t, … as the device type says. */
typedef void* TVMFFIStreamHandle;

/* Per thread and device; NULL until set. opt_out_original_stream, if not NULL, gets the previous
 * one. */
TVM_FFI_DLL int TVMFFIEnvSetStream(int32_t device_type, int32_t device_id,
                                   TVMFFIStreamHandle stream,
                                   TVMFFIStreamHandle* opt_out_original_stream);
TVM_FFI_DLL TVMFFIStreamHandle TVMFFIEnvGetStream(int32_t device_type, int32_t device_id);

/* Sets this thread's allocator (NULL: fall back to the process's), and the process's too if
 * write_to_global_context. opt_out_original_allocator, if not NULL, gets the thread's previous one.
 */
TVM_FFI_DLL int TVMFFIEnvSetDLPackManagedTensorAllocator(
    DLPackManagedTensorAllocator allocator, int write_to_global_context,
    DLPackManagedTensorAllocator* opt_out_original_allocator);
TVM_FFI_DLL DLPackManagedTensorAllocator TVMFFIEnvGetDLPackManagedTensorAllocator(void);
/* A Tensor object like prototype (dtype, ndim, shape, device) from the allocator; RuntimeError if
 * there is none. */
TVM_FFI_DLL int TVMFFIEnvTensorAlloc(DLTensor* prototype, TVMFFIObjectHandle* out);

/* Non-zero when the host language has a pending signal (Python's Ctrl-C): return at once. */
TVM_FFI_DLL int TVMFFIEnvCheckSignals(void);
/* name: PyErr_CheckSignals, PyGILState_Ensure or PyGILState_Release. */
TVM_FFI_DLL int TVMFFIEnvRegisterCAPI(const char* name, void* symbol);

/* library_ctx is what the loader stored into the library's __tvm_ffi__library_ctx. *out is a
 * *borrowed reference*, kept by the module. */
TVM_FFI_DLL int TVMFFIEnvModLookupFromImports(TVMFFIObjectHandle library_ctx, const char* func_name,
                                              TVMFFIObjectHandle* out);
/* Libraries loaded later that have a pointer variable called name get symbol stored into it. */
TVM_FFI_DLL int TVMFFIEnvModRegisterContextSymbol(const char* name, void* symbol);
/* name is the full symbol name, e.g. __tvm_ffi_add. */
TVM_FFI_DLL int TVMFFIEnvModRegisterSystemLibSymbol(const char* name, void* symbol);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* TVM_FFI_EXTRA_C_ENV_API_H_ */
