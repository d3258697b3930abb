// SPDX-License-Identifier: Apache-2.0
#include "kernels/library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <mutex>
#include <unordered_map>

#include "kernels/elf_file.h"
#include "callframe/error.h"
#include "callframe/global_function.h"
#include "callframe/value.h"

namespace graphffi {

namespace {

[[noreturn]] void Fail(const std::string& path, const std::string& reason) {
  const bool is_foreign = reason.find("undefined symbol") != std::string::npos;
  throw Error("RuntimeError", "graphffi: cannot load '" + path + "': " + reason +
                                  (is_foreign ? "; was it built for another runtime?" : ""));
}

/// All symbols now: a runtime that binds late would end the process at the first call.
void* Open(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0) Fail(path, "expected a file, got none");
  const std::string truncation = DescribeTruncation(path);
  if (!truncation.empty()) Fail(path, truncation);
  if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  const char* reason = dlerror();
  Fail(path, reason == nullptr ? "unknown reason" : reason);
}

/// Runtimes differ in the kind and the words of a failure.
TVMFFIObjectHandle MakeModule(const std::string& path) {
  try {
    const TVMFFIAny args[] = {MakeRawStr(path.c_str()), MakeRawStr("so")};
    return CallGlobal("ffi.Module.load_from_file.so", args, 2).v_obj;
  } catch (const Error& error) {
    const std::string& text = error.message();
    if (text.find("cannot load '" + path + "'") != std::string::npos) throw;
    Fail(path, text);
  }
}

struct LoadedLibraries {
  std::mutex mutex;
  std::unordered_map<void*, TVMFFIObjectHandle> modules;
  static LoadedLibraries& Global() {
    static auto* instance = new LoadedLibraries();
    return *instance;
  }
};

}  // namespace

TVMFFIObjectHandle LoadLibrary(const std::string& path) {
  void* handle = Open(path);
  LoadedLibraries& loaded = LoadedLibraries::Global();
  {
    std::lock_guard<std::mutex> lock(loaded.mutex);
    const auto found = loaded.modules.find(handle);
    if (found != loaded.modules.end()) {
      dlclose(handle);  // the reference of this call; the first one stays
      return found->second;
    }
  }
  // Unlocked: the library's initialisers may come back here. The module of a thread that comes
  // second is leaked, because the library may have noted its address.
  TVMFFIObjectHandle module = MakeModule(path);
  std::lock_guard<std::mutex> lock(loaded.mutex);
  return loaded.modules.emplace(handle, module).first->second;
}

TVMFFISafeCallType FindExported(TVMFFIObjectHandle module, const std::string& name) {
  LoadedLibraries& loaded = LoadedLibraries::Global();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  for (const auto& [handle, of_handle] : loaded.modules) {
    if (of_handle != module) continue;
    if (dlsym(handle, "__tvm_ffi__library_bin") != nullptr) return nullptr;
    return reinterpret_cast<TVMFFISafeCallType>(dlsym(handle, ("__tvm_ffi_" + name).c_str()));
  }
  return nullptr;
}

}  // namespace graphffi
