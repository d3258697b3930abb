// SPDX-License-Identifier: Apache-2.0
// Calls `main_into(x, y, calls)` of a library three times: reads x from stdin, writes y's elements
// to stdout. Arguments: the library, and the sizes of x and y.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <tvm/ffi/c_api.h>

enum { kMostElements = 4096 };
static float elements[3][kMostElements];

static void Fail(const char* text) {
  fprintf(stderr, "%s\n", text);
  exit(1);
}

int main(int argc, char** argv) {
  if (argc != 6) Fail("expected a library and four sizes");
  void* library = dlopen(argv[1], RTLD_NOW);
  if (library == NULL) Fail(dlerror());
  TVMFFISafeCallType main_into = (TVMFFISafeCallType)dlsym(library, "__tvm_ffi_main_into");
  if (main_into == NULL) Fail(dlerror());

  int64_t shapes[3][2] = {{0}};
  for (int i = 0; i < 4; ++i) shapes[i / 2][i % 2] = atoll(argv[2 + i]);
  const int ndims[3] = {2, 2, 0};
  DLTensor tensors[3];
  TVMFFIAny arguments[3] = {{0}};
  for (int i = 0; i < 3; ++i) {
    const DLDataType dtype = {kDLFloat, 32, 1};
    tensors[i] = (DLTensor){elements[i], {kDLCPU, 0}, ndims[i], dtype, shapes[i], NULL, 0};
    arguments[i].type_index = kTVMFFIDLTensorPtr;
    arguments[i].v_ptr = &tensors[i];
  }
  const size_t num_inputs = (size_t)(shapes[0][0] * shapes[0][1]);
  const size_t num_results = (size_t)(shapes[1][0] * shapes[1][1]);
  if (num_inputs > kMostElements || num_results > kMostElements) Fail("too many elements");
  if (fread(elements[0], sizeof(float), num_inputs, stdin) != num_inputs) Fail("too little input");
  for (int call = 1; call <= 3; ++call) {
    TVMFFIAny none = {0};
    if (main_into(NULL, arguments, 3, &none) != 0) {
      TVMFFIObjectHandle error = NULL;
      TVMFFIErrorMoveFromRaised(&error);
      Fail(TVMFFIErrorGetCellPtr(error)->message.data);
    }
    if (elements[2][0] != (float)call) Fail("the buffer is not updated");
  }
  return fwrite(elements[1], sizeof(float), num_results, stdout) != num_results;
}
