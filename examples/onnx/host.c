/* SPDX-License-Identifier: Apache-2.0 */
/* `host model.onnx` runs the model twice and prints its results. Links ONNX Runtime alone, which
 * loads libgraphffi_onnxruntime.so; with ONNX Runtime's headers, its functions have names. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void* Object;
typedef Object (*Function)(); /* of ONNX Runtime's table; most return NULL or an error */
typedef struct {
  const Function* (*get_api)(uint32_t version);
  const char* (*get_version)(void);
} ApiBase;
const ApiBase* OrtGetApiBase(void);

enum { /* their numbers, which do not change */
       kGetErrorMessage = 2,
       kCreateEnv = 3,
       kCreateSession = 7,
       kRun = 9,
       kCreateSessionOptions = 10,
       kCreateTensor = 49,
       kGetTensorData = 51,
       kCreateCpuMemoryInfo = 69,
       kAddConfigEntry = 130,
       kRegisterCustomOpsLibrary = 228,
};

static const Function* api;

static void check(Object opt_error) {
  if (opt_error == NULL) return;
  fprintf(stderr, "%s\n", (const char*)api[kGetErrorMessage](opt_error));
  exit(1);
}

static Object tensor(Object memory, float* data, int64_t rows, int rank) {
  const int64_t columns = 4, shape[] = {rows, columns};
  Object made = NULL;
  check(api[kCreateTensor](memory, data, (size_t)(rows * columns) * sizeof(float),
                           shape + (2 - rank), (size_t)rank, 1 /* float */, &made));
  return made;
}

/* Prints y; `total` gets the total. */
static void run(Object session, Object x, int64_t rows, Object* total) {
  const char *inputs[] = {"x", "total"}, *outputs[] = {"y", "total_updated"};
  Object given[] = {x, *total}, got[] = {NULL, NULL};
  check(api[kRun](session, NULL, inputs, given, (size_t)(*total == NULL ? 1 : 2), outputs,
                  (size_t)2, got));
  float* values = NULL;
  check(api[kGetTensorData](got[0], (void**)&values));
  for (int64_t i = 0; i < rows * 4; ++i) printf("%.6f%c", values[i], i + 1 < rows * 4 ? ' ' : '\n');
  *total = got[1];
}

int main(int argc, char** argv) {
  if (argc != 2 || strlen(argv[1]) > 4000) return 2;
  api = OrtGetApiBase()->get_api(17);
  Object env = NULL, options = NULL, session = NULL, memory = NULL, total = NULL;
  check(api[kCreateEnv](3 /* errors */, "host", &env));
  check(api[kCreateSessionOptions](&options));
  char ops[4096];
  snprintf(ops, sizeof(ops), "%s.ops", argv[1]);
  check(api[kAddConfigEntry](options, "graphffi.ops", ops));
  check(api[kRegisterCustomOpsLibrary](options, "libgraphffi_onnxruntime.so"));
  check(api[kCreateSession](env, argv[1], options, &session));
  check(api[kCreateCpuMemoryInfo](0, 0, &memory));
  float x[8];
  for (int i = 0; i < 8; ++i) x[i] = (float)i;
  run(session, tensor(memory, x, 2, 2), 2, &total);
  run(session, tensor(memory, x, 1, 2), 1, &total);
  return 0;
}
