/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in of CUDA's driver for tests: two devices, whose memory is the host's and whose work is
   done at once. Images are texts that begin with "fake", whose one kernel is
   scale(x, out, factor, n), or ELF files, whose kernels fake_kernel runs. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { kInvalid = 1, kOutOfMemory = 2, kBadDevice = 101, kBadImage = 200, kNoContext = 201 };
enum { kNotFound = 500, kMaxContexts = 16, kMaxBlocks = 4096 };

static _Thread_local int contexts[kMaxContexts];
static _Thread_local int num_contexts;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
  char* data;
  size_t bytes;
} blocks[kMaxBlocks];

/* What the last launch was, and counters, for the test to read. */
unsigned fake_launch[7];
void* fake_stream;
int fake_loads, fake_unloads, fake_allowed_shared_memory, fake_waits, fake_on_other_streams;
/* Events and contexts that are there, and the streams of the last order. */
int fake_events, fake_retained, fake_orders;
void *fake_earlier, *fake_later;
/* What the test sets: what runs kernels of ELF images, the stream that work has to be on, the
   compute capability, and after how many calls one fails (never: -1). */
void (*fake_kernel)(const char* name, const unsigned* grid, void** parameters);
void* fake_expected_stream;
int fake_capability = 90, fake_calls_until_failure = -1;

/* 0 if a call that works on the current device may go on. */
static int begin(void) {
  if (num_contexts == 0) return kNoContext;
  return fake_calls_until_failure >= 0 && fake_calls_until_failure-- == 0 ? kOutOfMemory : 0;
}

static int begin_on(void* stream) {
  fake_stream = stream;
  if (stream != fake_expected_stream) ++fake_on_other_streams;
  return begin();
}

/* How many blocks there are, and how many bytes from here to the end of the one that has it. */
int fake_num_blocks(void) {
  int count = 0;
  for (int i = 0; i < kMaxBlocks; ++i) count += blocks[i].data != NULL;
  return count;
}
size_t fake_bytes_from(const char* data) {
  for (int i = 0; i < kMaxBlocks; ++i) {
    if (blocks[i].data != NULL && data >= blocks[i].data && data < blocks[i].data + blocks[i].bytes)
      return (size_t)(blocks[i].data + blocks[i].bytes - data);
  }
  return 0;
}
int fake_num_contexts(void) { return num_contexts; }

int cuInit(unsigned flags) { return flags == 0 ? 0 : kInvalid; }
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal + 10;
  return ordinal < 2 ? 0 : kBadDevice;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  *value = attribute == 75 ? fake_capability / 10 : fake_capability % 10;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = (void*)(intptr_t)device;
  ++fake_retained;
  return 0;
}
int cuCtxPushCurrent_v2(void* context) {
  if (num_contexts == kMaxContexts) return kOutOfMemory;
  contexts[num_contexts++] = (int)(intptr_t)context;
  return 0;
}
int cuCtxPopCurrent_v2(void** context) {
  if (num_contexts == 0) return kNoContext;
  *context = (void*)(intptr_t)contexts[--num_contexts];
  return 0;
}
int cuModuleLoadData(void** module, const void* image) {
  const int status = begin();
  if (status != 0) return status;
  const int is_elf = memcmp(image, "\177ELF", 4) == 0;
  if (!is_elf && strncmp((const char*)image, "fake", 4) != 0) return kBadImage;
  ++fake_loads;
  *module = is_elf ? (void*)0x2 : (void*)0x1;
  return 0;
}
int cuModuleUnload(void* module) {
  (void)module;
  ++fake_unloads;
  return 0;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  if (module != (void*)0x2 && strcmp(name, "scale") != 0) return kNotFound;
  *function = strdup(name);
  return 0;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  (void)function;
  if (attribute != 8 || value > 200000) return kInvalid;
  fake_allowed_shared_memory = value;
  return 0;
}
int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void* stream, void** parameters, void** extra) {
  (void)extra;
  const int status = begin_on(stream);
  if (status != 0) return status;
  const unsigned launch[7] = {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes};
  memcpy(fake_launch, launch, sizeof(launch));
  if (strcmp((const char*)function, "scale") != 0) {
    if (fake_kernel != NULL) fake_kernel((const char*)function, launch, parameters);
    return 0;
  }
  const float* x = *(float**)parameters[0];
  float* out = *(float**)parameters[1];
  for (int64_t i = 0; i < *(int64_t*)parameters[3]; ++i) out[i] = x[i] * *(float*)parameters[2];
  return 0;
}
int cuGetErrorString(int status, const char** text) {
  *text = status == kBadImage      ? "device kernel image is invalid"
          : status == kOutOfMemory ? "out of memory"
                                   : NULL;
  return 0;
}

static int take(char** data, size_t bytes) {
  if (bytes == 0) return kInvalid;
  pthread_mutex_lock(&mutex);
  int i = 0;
  while (i < kMaxBlocks && blocks[i].data != NULL) ++i;
  if (i < kMaxBlocks) {
    *data = blocks[i].data = aligned_alloc(256, (bytes + 255) / 256 * 256);
    blocks[i].bytes = bytes;
  }
  pthread_mutex_unlock(&mutex);
  return i < kMaxBlocks && *data != NULL ? 0 : kOutOfMemory;
}
int cuMemAlloc_v2(char** data, size_t bytes) {
  const int status = begin();
  return status == 0 ? take(data, bytes) : status;
}
int cuMemAllocAsync(char** data, size_t bytes, void* stream) {
  const int status = begin_on(stream);
  return status == 0 ? take(data, bytes) : status;
}
int cuMemFreeAsync(char* data, void* stream) {
  fake_stream = stream;
  if (num_contexts == 0) return kNoContext;
  pthread_mutex_lock(&mutex);
  int i = 0;
  while (i < kMaxBlocks && blocks[i].data != data) ++i;
  if (i < kMaxBlocks) blocks[i].data = NULL;
  pthread_mutex_unlock(&mutex);
  if (i == kMaxBlocks) return kInvalid;
  free(data);
  return 0;
}
int cuMemcpyAsync(void* to, const void* from, size_t bytes, void* stream) {
  const int status = begin_on(stream);
  if (status == 0) memmove(to, from, bytes);
  return status;
}
struct plane {
  size_t x, y;
  int kind;
  void* host;
  char* data;
  void* array;
  size_t pitch;
};
int cuMemcpy2DAsync_v2(const void* facts, void* stream) {
  const struct {
    struct plane from, to;
    size_t width, height;
  }* copy = facts;
  if (copy->from.kind != 4 || copy->to.kind != 4) return kInvalid;
  if (copy->from.pitch < copy->width || copy->to.pitch < copy->width) return kInvalid;
  const int status = begin_on(stream);
  for (size_t i = 0; status == 0 && i < copy->height; ++i) {
    memcpy(copy->to.data + i * copy->to.pitch, copy->from.data + i * copy->from.pitch, copy->width);
  }
  return status;
}
int cuMemsetD8Async(void* to, unsigned char value, size_t bytes, void* stream) {
  const int status = begin_on(stream);
  if (status == 0) memset(to, value, bytes);
  return status;
}
int cuMemsetD2D8Async(char* to, size_t pitch, unsigned char value, size_t width, size_t height,
                      void* stream) {
  const int status = begin_on(stream);
  for (size_t i = 0; status == 0 && i < height; ++i) memset(to + i * pitch, value, width);
  return status;
}
int cuEventCreate(void** event, unsigned flags) {
  *event = &fake_events;
  fake_events += flags == 2;
  return num_contexts == 0 ? kNoContext : 0;
}
int cuEventDestroy_v2(void* event) {
  fake_events -= event == &fake_events;
  return 0;
}
int cuEventRecord(void* event, void* stream) {
  (void)event;
  fake_earlier = stream;
  return begin();
}
int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  if (event != &fake_events || flags != 0) return kInvalid;
  fake_later = stream;
  ++fake_orders;
  return begin();
}
int cuStreamSynchronize(void* stream) {
  const int status = begin_on(stream);
  fake_waits += status == 0;
  return status;
}
