// SPDX-License-Identifier: Apache-2.0
// A kernel that fills its last tensor with VALUE: one library for each.
#include <tvm/ffi/c_api.h>

__attribute__((visibility("default"))) int __tvm_ffi_fill(void* self, const TVMFFIAny* args,
                                                          int32_t num_args, TVMFFIAny* result) {
  (void)self, (void)result;
  const TVMFFIAny* last = args + num_args - 1;
  const DLTensor* tensor = last->type_index == kTVMFFIDLTensorPtr
                               ? (const DLTensor*)last->v_ptr
                               : (const DLTensor*)((char*)last->v_obj + sizeof(TVMFFIObject));
  int64_t size = 1;
  for (int32_t i = 0; i < tensor->ndim; ++i) size *= tensor->shape[i];
  float* data = (float*)((char*)tensor->data + tensor->byte_offset);
  for (int64_t i = 0; i < size; ++i) data[i] = VALUE;
  return 0;
}
