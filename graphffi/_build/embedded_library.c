/* SPDX-License-Identifier: Apache-2.0 */
/* Part of every library that graphffi.cpp.export_library makes of other libraries: loads the files of
   those, which are embedded as modules of the kind graphffi_library, in processes that may not have
   graphffi. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>

static const char kLoader[] = "ffi.Module.load_from_bytes.graphffi_library";
static const char kFileLoader[] = "ffi.Module.load_from_file.so";

static int Fail(const char* action, const char* reason) {
  const char* parts[] = {"graphffi: embedded library: ", action, ": ", reason};
  TVMFFIErrorSetRaisedFromCStrParts("RuntimeError", parts, 4);
  return -1;
}

static TVMFFIByteArray Content(const TVMFFIAny* bytes) {
  TVMFFIByteArray none = {NULL, 0};
  if (bytes->type_index == kTVMFFIBytes) return *TVMFFIBytesGetByteArrayPtr(bytes->v_obj);
  if (bytes->type_index == kTVMFFIByteArrayPtr) return *(const TVMFFIByteArray*)bytes->v_ptr;
  return none;
}

static int WriteFile(const char* path, TVMFFIByteArray content) {
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
  if (file < 0) return -1;
  while (content.size > 0) {
    ssize_t written = write(file, content.data, content.size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    content.data += written;
    content.size -= (size_t)written;
  }
  return close(file) != 0 || content.size > 0 ? -1 : 0;
}

/* All symbols at once, and never closed: what the library makes may outlive its module. */
static int OpenModule(const char* path, TVMFFIAny* result) {
  if (dlopen(path, RTLD_NOW | RTLD_LOCAL) == NULL) return Fail("cannot load", dlerror());
  TVMFFIByteArray name = {kFileLoader, sizeof(kFileLoader) - 1};
  TVMFFIObjectHandle loader = NULL;
  int code = TVMFFIFunctionGetGlobal(&name, &loader);
  if (code != 0) return code;
  if (loader == NULL) return Fail("no global function", kFileLoader);
  TVMFFIAny args[2];
  memset(args, 0, sizeof(args));
  args[0].type_index = args[1].type_index = kTVMFFIRawStr;
  args[0].v_c_str = path;
  args[1].v_c_str = "so";
  code = TVMFFIFunctionCall(loader, args, 2, result);
  TVMFFIObjectDecRef(loader);
  return code;
}

static int Load(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  (void)self;
  TVMFFIByteArray content = {NULL, 0};
  if (num_args == 1) content = Content(&args[0]);
  if (content.size == 0) return Fail(kLoader, "expected bytes");
  const char* parent = getenv("TMPDIR");
  char folder[3072];
  char path[3200];
  snprintf(folder, sizeof(folder), "%s/graphffi-XXXXXX", parent != NULL ? parent : "/tmp");
  if (mkdtemp(folder) == NULL) return Fail(folder, strerror(errno));
  snprintf(path, sizeof(path), "%s/library.so", folder);
  int code = WriteFile(path, content) == 0 ? OpenModule(path, result) : Fail(path, strerror(errno));
  unlink(path); /* Its mapping stays. */
  rmdir(folder);
  return code;
}

/* The first such library of the process does it for all; none is ever unloaded. */
__attribute__((constructor)) static void Register(void) {
  TVMFFIByteArray name = {kLoader, sizeof(kLoader) - 1};
  TVMFFIObjectHandle function = NULL;
  if (TVMFFIFunctionGetGlobal(&name, &function) != 0 || function != NULL) {
    if (function != NULL) TVMFFIObjectDecRef(function);
    return;
  }
  if (TVMFFIFunctionCreate(NULL, Load, NULL, &function) != 0) return;
  if (TVMFFIFunctionSetGlobal(&name, function, 0) != 0) TVMFFIErrorSetRaised(NULL);
  TVMFFIObjectDecRef(function);
}
