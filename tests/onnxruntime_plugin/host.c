// SPDX-License-Identifier: Apache-2.0
// host LIBRARY OPS MODEL: runs a model of one input of 2 x 3 floats, 1 to 6, and prints its
// results. OPS is a list of ops, or - for a library that knows its own.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Functions of ONNX Runtime's table, by number.
typedef void (*Function)(void);
typedef struct {
  const Function* (*get_api)(uint32_t version);
  const char* (*get_version_string)(void);
} ApiBase;
const ApiBase* OrtGetApiBase(void);

static const Function* api;

static void Check(void* status) {
  if (status == NULL) return;
  printf("%s\n", ((const char* (*)(void*))api[2])(status));
  exit(2);
}

static void PrintMappedLibraries(void) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[4096];
  while (fgets(line, sizeof line, maps) != NULL) {
    const char* name = strrchr(line, '/');
    if (name != NULL && strstr(name, ".so") != NULL && strstr(line, " r-xp ") != NULL) {
      printf("mapped %s", name + 1);
    }
  }
  fclose(maps);
}

int main(int argc, char** argv) {
  if (argc != 4) return 1;
  api = OrtGetApiBase()->get_api(17);
  void *env = NULL, *options = NULL, *session = NULL, *memory = NULL, *input = NULL;
  Check(((void* (*)(int, const char*, void**))api[3])(3, "host", &env));
  Check(((void* (*)(void**))api[10])(&options));
  if (strcmp(argv[2], "-") != 0) {
    Check(((void* (*)(void*, const char*, const char*))api[130])(options, "graphffi.ops", argv[2]));
  }
  Check(((void* (*)(void*, const char*))api[228])(options, argv[1]));
  Check(((void* (*)(void*, const char*, void*, void**))api[7])(env, argv[3], options, &session));
  Check(((void* (*)(int, int, void**))api[69])(1, 0, &memory));
  float values[6] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[2] = {2, 3};
  Check(((void* (*)(void*, void*, size_t, const int64_t*, size_t, int, void**))api[49])(
      memory, values, sizeof values, shape, 2, 1, &input));
  const char *inputs[] = {"t0"}, *outputs[] = {"out"};
  void* output = NULL;
  Check(((void* (*)(void*, void*, const char**, void**, size_t, const char**, size_t,
                    void**))api[9])(session, NULL, inputs, &input, 1, outputs, 1, &output));
  float* found = NULL;
  Check(((void* (*)(void*, void**))api[51])(output, (void**)&found));
  for (int i = 0; i < 6; ++i) printf("%g\n", found[i]);
  PrintMappedLibraries();
  return 0;
}
