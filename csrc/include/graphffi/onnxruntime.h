// SPDX-License-Identifier: Apache-2.0
// A kernel library that ONNX Runtime loads itself, so that one file serves: kernels, and the
// function RegisterCustomOps, which tells it their ops. It needs libgraphffi_onnxruntime.so, in the
// same folder or where the loader looks, and none of ONNX Runtime's headers. Link it with
// -Wl,-rpath,'$ORIGIN' to have libtvm_ffi.so in the same folder, too.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <string>

/// Exports RegisterCustomOps, once in a library. `ops` has a line for each op: its name, `-` (or
/// the digest of the one definition whose nodes are taken), the type of its devices, its operands
/// (`tensor`, `optional` or `list`, with a `!` behind those that it updates), `->` and the number
/// of its results:
///
///     GRAPHFFI_EXPORT_ONNXRUNTIME_OPS("mylib::scale - cpu tensor optional -> 1")
#define GRAPHFFI_EXPORT_ONNXRUNTIME_OPS(ops)                                                     \
  extern "C" __attribute__((visibility("default"))) void* RegisterCustomOps(void* options,       \
                                                                            const void* api) {   \
    return ::graphffi::onnxruntime::Register(options, api, "graphffi.ops 1\n" ops,               \
                                             reinterpret_cast<const void*>(&RegisterCustomOps)); \
  }

namespace graphffi::onnxruntime {

/// An OrtStatus*, which ONNX Runtime takes over.
inline void* MakeStatus(const void* api_base, const std::string& text) {
  struct Api {  // the first function
    void* (*create_status)(int code, const char* text);
  };
  struct ApiBase {
    const Api* (*get_api)(uint32_t version);
  };
  constexpr int kFail = 1;
  return static_cast<const ApiBase*>(api_base)->get_api(1)->create_status(kFail, text.c_str());
}

/// Registers `ops` with an OrtSessionOptions*. `address` is one of the library that has the
/// kernels. Gives NULL or an OrtStatus*.
inline void* Register(void* options, const void* api_base, const char* ops, const void* address) {
  constexpr const char* kName = "libgraphffi_onnxruntime.so";
  Dl_info info{};
  if (dladdr(address, &info) == 0) return MakeStatus(api_base, "graphffi: expected a library");
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  const std::string beside = slash == std::string::npos ? kName : path.substr(0, slash + 1) + kName;
  void* library = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  using Function = void*(void* options, const void* api_base, const char* ops, const char* library);
  void* found = library == nullptr ? nullptr : dlsym(library, "graphffi_onnxruntime_register");
  if (found == nullptr) {
    const char* reason = dlerror();
    return MakeStatus(api_base, std::string("graphffi: expected ") + kName + " beside '" + path +
                                    "', got none: " + (reason == nullptr ? "" : reason));
  }
  return reinterpret_cast<Function*>(found)(options, api_base, ops, info.dli_fname);
}

}  // namespace graphffi::onnxruntime
