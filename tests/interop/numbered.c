// SPDX-License-Identifier: Apache-2.0
// Kernels that write their number into their last tensor, four for each op of
// test_kernels_of_an_op.py.
#include <tvm/ffi/c_api.h>

static DLTensor* TensorOf(const TVMFFIAny* value) {
  if (value->type_index == kTVMFFIDLTensorPtr) return (DLTensor*)value->v_ptr;
  if (value->type_index != kTVMFFITensor) return 0;
  return (DLTensor*)((char*)value->v_obj + sizeof(TVMFFIObject));
}

static int Fill(const TVMFFIAny* args, int32_t num_args, float number) {
  DLTensor* tensor = 0;
  for (int32_t i = 0; i < num_args; ++i) {
    DLTensor* found = TensorOf(args + i);
    if (found) tensor = found;
  }
  int64_t size = 1;
  for (int32_t i = 0; i < tensor->ndim; ++i) size *= tensor->shape[i];
  float* data = (float*)((char*)tensor->data + tensor->byte_offset);
  for (int64_t i = 0; i < size; ++i) data[i] = number;
  return 0;
}

#define KERNEL(name, number)                                                    \
  __attribute__((visibility("default"))) int __tvm_ffi_##name##_##number(       \
      void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) { \
    (void)self, (void)result;                                                   \
    return Fill(args, num_args, number);                                        \
  }
#define KERNELS(name) KERNEL(name, 1) KERNEL(name, 2) KERNEL(name, 3) KERNEL(name, 4)

KERNELS(mod8)
KERNELS(numel)
KERNELS(dtype)
KERNELS(rank)
KERNELS(attribute)
KERNELS(device)
KERNELS(square)
KERNELS(range)
KERNELS(smallest)
KERNELS(quotient)
KERNELS(plans)
KERNELS(scratch)
KERNELS(updated)
KERNELS(listed)
KERNELS(computed)
