# SPDX-License-Identifier: Apache-2.0
"""The C code that the guide gives to compiler authors: no C++, run on both runtimes."""

from __future__ import annotations

import pytest
from toolchain import HERE, RUNTIMES, Toolchain

ADD_ONE = """
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

static int ReadTensor(const TVMFFIAny* value, DLTensor** out) {
  if (value->type_index == kTVMFFIDLTensorPtr) {
    *out = (DLTensor*)value->v_ptr;
    return 0;
  }
  if (value->type_index == kTVMFFITensor) {
    *out = TVMFFITensorGetDLTensorPtr(value->v_obj);
    return 0;
  }
  TVMFFIErrorSetRaisedFromCStr("ValueError", "Expects a Tensor input");
  return -1;
}

TVM_FFI_DLL_EXPORT int __tvm_ffi_add_one(void* handle, const TVMFFIAny* args, int32_t num_args,
                                         TVMFFIAny* result) {
  DLTensor* x;
  DLTensor* y;
  (void)handle, (void)num_args, (void)result;
  if (ReadTensor(&args[0], &x) != 0 || ReadTensor(&args[1], &y) != 0) return -1;
  if (TVMFFIEnvGetStream(x->device.device_type, x->device.device_id) != NULL) return -1;
  for (int64_t i = 0; i < x->shape[0]; ++i) {
    ((float*)y->data)[i] = ((const float*)x->data)[i] + 1;
  }
  return 0;
}
"""

CALLER = """
#include <dlfcn.h>
#include "header.h"
struct Alloc {
  void AllocData(DLTensor* tensor) { tensor->data = std::calloc(1, GetDataSize(*tensor)); }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};
TEST(add_one_takes_both_kinds_of_tensor) {
  void* library = dlopen(std::getenv("KERNEL_LIBRARY"), RTLD_NOW);
  auto* add_one = reinterpret_cast<TVMFFISafeCallType>(dlsym(library, "__tvm_ffi_add_one"));
  Tensor x = Tensor::FromNDAlloc(Alloc(), {3}, DLDataType{kDLFloat, 32, 1}, DLDevice{kDLCPU, 0});
  Function::InvokeExternC(nullptr, add_one, x, TensorView(x));
  CHECK_EQ(static_cast<float*>(x.data_ptr())[2], 1.0f);
  CHECK_EQ(Message([&] { Function::InvokeExternC(nullptr, add_one, x, 1); }),
           "ValueError: Expects a Tensor input");
}
"""


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_add_one_in_c_takes_both_kinds_of_tensor(
    toolchain: Toolchain, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = toolchain.library(ADD_ONE, language="c", flags=("-pedantic",))
    monkeypatch.setenv("KERNEL_LIBRARY", str(library))
    program = toolchain.program(CALLER, flags=(f"-I{HERE / 'cpp'}", "-ldl"))
    toolchain.run(program, runtime=runtime)
