/* SPDX-License-Identifier: Apache-2.0 */
/* What a compiler that emits C, or calls the C ABI from machine code, generates for a kernel.

   Nothing but the C headers is used. A kernel gets its arguments as an array of TVMFFIAny, which it
   borrows, and returns 0, or -1 after it has put an error into this thread's slot. */
#include <inttypes.h>
#include <stdio.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

/* A tensor arrives as a plain DLTensor* or as a Tensor object, whose DLTensor is behind the
 * object's header. */
static const DLTensor* ReadTensor(const TVMFFIAny* value) {
  if (value->type_index == kTVMFFIDLTensorPtr) return (const DLTensor*)value->v_ptr;
  if (value->type_index == kTVMFFITensor) return TVMFFITensorGetDLTensorPtr(value->v_obj);
  return NULL;
}

/* Numbers are converted as far as C++ kernels convert them. */
static int ReadDouble(const TVMFFIAny* value, double* number) {
  if (value->type_index == kTVMFFIFloat) {
    *number = value->v_float64;
  } else if (value->type_index == kTVMFFIInt || value->type_index == kTVMFFIBool) {
    *number = (double)value->v_int64;
  } else {
    return -1;
  }
  return 0;
}

/* The first argument is the kind, a Python exception's name. */
static int Raise(const char* kind, const char* message) {
  TVMFFIErrorSetRaisedFromCStr(kind, message);
  return -1;
}

/* Texts that many kernels share need not be stored once for each: parts are put together when the
 * error is raised. */
static int RaiseBadTensor(const char* operand, const char* expected) {
  const char* parts[] = {"scale: operand '", operand, "': expected ", expected};
  TVMFFIErrorSetRaisedFromCStrParts("TypeError", parts, 4);
  return -1;
}

static int IsFloatVector(const DLTensor* tensor) {
  return tensor->ndim == 1 && tensor->dtype.code == kDLFloat && tensor->dtype.bits == 32 &&
         tensor->dtype.lanes == 1 && tensor->device.device_type == kDLCPU;
}

/* A tensor without strides is compact. */
static int64_t Stride(const DLTensor* tensor) {
  return tensor->strides == NULL ? 1 : tensor->strides[0];
}

static float* Data(const DLTensor* tensor) {
  return (float*)((char*)tensor->data + tensor->byte_offset);
}

/* scale(x, factor, out): out = x * factor. `handle` is NULL in exported functions. */
TVM_FFI_DLL_EXPORT int __tvm_ffi_scale(void* handle, const TVMFFIAny* args, int32_t num_args,
                                       TVMFFIAny* result) {
  (void)handle;
  if (num_args != 3) return Raise("TypeError", "scale: expected 3 arguments: x, factor, out");
  const DLTensor* x = ReadTensor(&args[0]);
  const DLTensor* out = ReadTensor(&args[2]);
  double factor = 0;
  if (x == NULL || !IsFloatVector(x)) return RaiseBadTensor("x", "a float32 vector on cpu");
  if (out == NULL || !IsFloatVector(out)) return RaiseBadTensor("out", "a float32 vector on cpu");
  if (ReadDouble(&args[1], &factor) != 0) return RaiseBadTensor("factor", "a number");
  if (x->shape[0] != out->shape[0]) {
    char message[128];
    snprintf(message, sizeof(message),
             "scale: operand 'out': expected %" PRId64 " elements, got %" PRId64, x->shape[0],
             out->shape[0]);
    return Raise("ValueError", message);
  }
  for (int64_t i = 0; i < x->shape[0]; ++i) {
    Data(out)[i * Stride(out)] = Data(x)[i * Stride(x)] * (float)factor;
  }
  result->type_index =
      kTVMFFINone; /* The caller has set it so; kernels that return something write it here. */
  return 0;
}

/* stream(x): the stream on which a kernel is to work on a device, given as such or by a tensor that
   is there. The calling framework has set it for this thread. */
TVM_FFI_DLL_EXPORT int __tvm_ffi_stream(void* handle, const TVMFFIAny* args, int32_t num_args,
                                        TVMFFIAny* result) {
  (void)handle;
  const DLTensor* x = num_args == 1 ? ReadTensor(&args[0]) : NULL;
  if (x == NULL && (num_args != 1 || args[0].type_index != kTVMFFIDevice)) {
    return Raise("TypeError", "stream: expected a tensor or a device");
  }
  const DLDevice device = x != NULL ? x->device : args[0].v_device;
  result->type_index = kTVMFFIOpaquePtr;
  result->zero_padding = 0;
  result->v_ptr = TVMFFIEnvGetStream(device.device_type, device.device_id);
  return 0;
}

/* A function of the process is looked up once, by whichever thread is first. */
static void* observer = NULL;

static int FindObserver(void** function) {
  const TVMFFIByteArray name = {"c_integration.observe", sizeof("c_integration.observe") - 1};
  if (TVMFFIFunctionGetGlobal(&name, function) != 0) return -1;
  if (*function == NULL) return Raise("RuntimeError", "observe: no function c_integration.observe");
  return 0;
}

/* observe(value): what the global function c_integration.observe makes of it; an error passes
 * through as it is. */
TVM_FFI_DLL_EXPORT int __tvm_ffi_observe(void* handle, const TVMFFIAny* args, int32_t num_args,
                                         TVMFFIAny* result) {
  (void)handle;
  if (num_args != 1) return Raise("TypeError", "observe: expected 1 argument");
  int code = TVMFFIHandleInitOnce(&observer, FindObserver);
  if (code != 0) return code;
  TVMFFIAny arg = args[0]; /* TVMFFIFunctionCall wants an array that may be written. */
  return TVMFFIFunctionCall(observer, &arg, 1, result);
}
