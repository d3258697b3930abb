/* SPDX-License-Identifier: Apache-2.0 */
/* A program in C that calls kernels: `host KERNELS.so`. It links libtvm_ffi.so, and nothing of it
 * is C++ or Python. */
#include <stdio.h>
#include <string.h>
#include <tvm/ffi/c_api.h>

static TVMFFIAny None(void) {
  TVMFFIAny value;
  memset(&value, 0, sizeof(value)); /* Unused bytes of a value are 0. */
  return value;
}

static TVMFFIAny Text(const char* text) {
  TVMFFIAny value = None();
  value.type_index = kTVMFFIRawStr;
  value.v_c_str = text;
  return value;
}

static TVMFFIAny TensorView(DLTensor* tensor) {
  TVMFFIAny value = None();
  value.type_index = kTVMFFIDLTensorPtr;
  value.v_ptr = tensor;
  return value;
}

static TVMFFIAny Number(double number) {
  TVMFFIAny value = None();
  value.type_index = kTVMFFIFloat;
  value.v_float64 = number;
  return value;
}

/* Takes the error out of this thread's slot, and prints it. */
static void PrintError(int code) {
  TVMFFIObjectHandle error = NULL;
  TVMFFIErrorMoveFromRaised(&error);
  if (error == NULL) {
    printf("error %d without an error object\n", code);
    return;
  }
  const TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(error);
  printf("%.*s: %.*s\n", (int)cell->kind.size, cell->kind.data, (int)cell->message.size,
         cell->message.data);
  TVMFFIObjectDecRef(error);
}

/* Calls a function of the process by name; an object in *result is owned by the caller. */
static int CallGlobal(const char* name, TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  const TVMFFIByteArray key = {name, strlen(name)};
  TVMFFIObjectHandle function = NULL;
  *result = None();
  int code = TVMFFIFunctionGetGlobal(&key, &function);
  if (code != 0) return code;
  if (function == NULL) {
    TVMFFIErrorSetRaisedFromCStr("KeyError", name);
    return -1;
  }
  code = TVMFFIFunctionCall(function, args, num_args, result);
  TVMFFIObjectDecRef(function);
  return code;
}

static int Scale(TVMFFIObjectHandle scale, float* from, float* to, int64_t from_size,
                 int64_t to_size) {
  DLTensor x = {from, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &from_size, NULL, 0};
  DLTensor out = {to, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &to_size, NULL, 0};
  TVMFFIAny args[3] = {TensorView(&x), Number(2.5), TensorView(&out)};
  TVMFFIAny result = None();
  return TVMFFIFunctionCall(scale, args, 3, &result);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  TVMFFIAny path = Text(argv[1]);
  TVMFFIAny module;
  int code = CallGlobal("ffi.ModuleLoadFromFile", &path, 1, &module);
  if (code != 0) {
    PrintError(code);
    return 1;
  }
  TVMFFIAny query[3] = {module, Text("scale"), None()};
  query[2].type_index = kTVMFFIBool; /* False: not in imported modules. */
  TVMFFIAny scale;
  code = CallGlobal("ffi.ModuleGetFunction", query, 3, &scale);
  if (code != 0 || scale.type_index != kTVMFFIFunction) {
    PrintError(code);
    return 1;
  }

  float x[4] = {0, 1, 2, 3};
  float out[4] = {0};
  code = Scale(scale.v_obj, x, out, 4, 4);
  if (code != 0) PrintError(code);
  printf("%g %g %g %g\n", out[0], out[1], out[2], out[3]);
  code = Scale(scale.v_obj, x, out, 4, 3);
  if (code != 0) PrintError(code);

  TVMFFIObjectDecRef(scale.v_obj);
  TVMFFIObjectDecRef(module.v_obj);
  return 0;
}
