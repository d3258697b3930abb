/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in of CUDA's driver for tests: images are texts that begin with "fake", and its one
   kernel, scale(x, out, factor, n), runs at once on the host. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static int current_context;
static const char* loaded_image;

/* What the last launch was, and counters, for the test to read. */
unsigned fake_launch[7];
void* fake_stream;
int fake_loads, fake_unloads, fake_allowed_shared_memory;

int cuInit(unsigned flags) { return flags == 0 ? 0 : 1; }
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal + 10;
  return ordinal < 2 ? 0 : 101;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = (void*)(intptr_t)device;
  return 0;
}
int cuCtxPushCurrent_v2(void* context) {
  current_context = (int)(intptr_t)context;
  return 0;
}
int cuCtxPopCurrent_v2(void** context) {
  *context = (void*)(intptr_t)current_context;
  current_context = 0;
  return 0;
}
int cuModuleLoadData(void** module, const void* image) {
  if (current_context == 0) return 201;
  if (strncmp((const char*)image, "fake", 4) != 0) return 200;
  ++fake_loads;
  loaded_image = (const char*)image;
  *module = (void*)0x1;
  return 0;
}
int cuModuleUnload(void* module) {
  (void)module;
  ++fake_unloads;
  return 0;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  (void)module;
  *function = (void*)0x2;
  return strcmp(name, "scale") == 0 ? 0 : 500;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  (void)function;
  if (attribute != 8 || value > 200000) return 1;
  fake_allowed_shared_memory = value;
  return 0;
}
int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void* stream, void** parameters, void** extra) {
  (void)function, (void)extra;
  if (current_context == 0) return 201;
  const unsigned launch[7] = {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes};
  memcpy(fake_launch, launch, sizeof(launch));
  fake_stream = stream;
  const float* x = *(float**)parameters[0];
  float* out = *(float**)parameters[1];
  for (int64_t i = 0; i < *(int64_t*)parameters[3]; ++i) out[i] = x[i] * *(float*)parameters[2];
  return 0;
}
int cuGetErrorString(int status, const char** text) {
  *text = status == 200 ? "device kernel image is invalid" : NULL;
  return 0;
}
