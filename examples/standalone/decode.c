/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder in C: `decode LAYERS KV_HEADS CAPACITY HEAD_DIM COUNT TOKEN...` prints the tokens
 * that follow those given. Links the library and libtvm_ffi.so, and nothing else. */
#include <stdio.h>
#include <stdlib.h>
#include <tvm/ffi/c_api.h>

int __tvm_ffi_prefill(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);
int __tvm_ffi_decode(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);

enum { kMostTokens = 4096 };

static int64_t tokens[kMostTokens], positions[kMostTokens];

static TVMFFIAny as_argument(DLTensor* tensor) {
  TVMFFIAny value = {0};
  value.type_index = kTVMFFIDLTensorPtr;
  value.v_ptr = tensor;
  return value;
}

/* The token that follows `count` tokens from position `begin` on. */
static int64_t next_token(TVMFFISafeCallType step, TVMFFIAny* args, int32_t num_args, int begin,
                          int count) {
  int64_t shape[] = {1, count};
  DLDataType type = {kDLInt, 64, 1};
  DLTensor given[] = {{tokens + begin, {kDLCPU, 0}, 2, type, shape, NULL, 0},
                      {positions + begin, {kDLCPU, 0}, 1, type, shape + 1, NULL, 0}};
  args[0] = as_argument(&given[0]);
  args[1] = as_argument(&given[1]);
  TVMFFIAny result = {0};
  if (step(NULL, args, num_args, &result) != 0) {
    TVMFFIObjectHandle error = NULL;
    TVMFFIErrorMoveFromRaised(&error);
    const TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(error);
    fprintf(stderr, "%.*s: %.*s\n", (int)cell->kind.size, cell->kind.data, (int)cell->message.size,
            cell->message.data);
    exit(1);
  }
  int64_t token = *(const int64_t*)TVMFFITensorGetDLTensorPtr(result.v_obj)->data;
  TVMFFIObjectDecRef(result.v_obj);
  return token;
}

int main(int argc, char** argv) {
  if (argc < 8) {
    fprintf(stderr, "usage: %s LAYERS KV_HEADS CAPACITY HEAD_DIM COUNT TOKEN TOKEN...\n", argv[0]);
    return 2;
  }
  const int num_caches = 2 * atoi(argv[1]), num_args = 2 + num_caches;
  int64_t shape[] = {1, atoi(argv[2]), atoi(argv[3]), atoi(argv[4])};
  const int count = atoi(argv[5]), prompt = argc - 6;
  if (prompt + count > kMostTokens) return 2;
  for (int i = 0; i < prompt; ++i) tokens[i] = atoi(argv[6 + i]);
  for (int i = 0; i < kMostTokens; ++i) positions[i] = i;

  TVMFFIAny* args = calloc((size_t)num_args, sizeof(*args));
  DLTensor* caches = calloc((size_t)num_caches, sizeof(*caches));
  if (args == NULL || caches == NULL) return 1;
  for (int i = 0; i < num_caches; ++i) {
    void* data = calloc((size_t)(shape[1] * shape[2] * shape[3]), sizeof(float));
    if (data == NULL) return 1;
    caches[i] = (DLTensor){data, {kDLCPU, 0}, 4, {kDLFloat, 32, 1}, shape, NULL, 0};
    args[2 + i] = as_argument(&caches[i]);
  }

  tokens[prompt] = next_token(__tvm_ffi_prefill, args, num_args, 0, prompt);
  for (int i = prompt; i < prompt + count; ++i) {
    tokens[i + 1] = next_token(__tvm_ffi_decode, args, num_args, i, 1);
  }
  for (int i = prompt; i <= prompt + count; ++i) printf("%lld ", (long long)tokens[i]);
  for (int i = 0; i < num_caches; ++i) free(caches[i].data);
  free(caches);
  free(args);
  return 0;
}
