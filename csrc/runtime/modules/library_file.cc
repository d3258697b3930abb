// SPDX-License-Identifier: Apache-2.0
// Libraries opened from files. They are never closed, and each has one module for the whole
// process: the library has one context variable, so two modules of it could not both be right.
#include <dlfcn.h>
#include <link.h>

#include <map>
#include <mutex>
#include <utility>

#include "library.h"
#include "runtime/core/error.h"
#include "runtime/core/fork.h"

namespace graphffi::runtime {
namespace {

class LibraryFile final : public Library {
 public:
  LibraryFile(std::string path, void* handle) : path_(std::move(path)), handle_(handle) {}
  std::string_view name() const override { return path_; }
  void* Find(const std::string& symbol) const override { return dlsym(handle_, symbol.c_str()); }
  size_t SizeAt(const void* address) const override {
    Dl_info info;
    ElfW(Sym)* symbol = nullptr;
    auto** found = reinterpret_cast<void**>(&symbol);
    if (dladdr1(address, &info, found, RTLD_DL_SYMENT) == 0 || symbol == nullptr) return SIZE_MAX;
    // Assemblers leave it 0 unless told.
    return info.dli_saddr != address || symbol->st_size == 0 ? SIZE_MAX : symbol->st_size;
  }

 private:
  std::string path_;
  void* handle_;
};

/// The file is never forgotten. Without a module until a thread that opened the library has made
/// it.
struct OpenedLibrary {
  const LibraryFile* file = nullptr;
  ModulePtr module;
};

struct OpenedLibraries {
  std::mutex mutex;
  std::map<void*, OpenedLibrary> by_handle;
};

OpenedLibraries& opened = TheTable<OpenedLibraries>();

void* OpenFile(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  const char* reason = dlerror();
  Throw("RuntimeError", "graphffi: cannot load '", path,
        "': ", reason == nullptr ? "unknown reason" : reason);
}

OpenedLibrary FindOpened(const std::string& path, void* handle) {
  std::lock_guard lock(opened.mutex);
  OpenedLibrary& library = opened.by_handle[handle];
  if (library.file == nullptr) library.file = new LibraryFile(path, handle);
  return library;
}

/// The module of the thread that was first, if several opened the library at once.
ModulePtr Keep(void* handle, ModulePtr module) {
  std::lock_guard lock(opened.mutex);
  ModulePtr& kept = opened.by_handle[handle].module;
  if (!kept) kept = std::move(module);
  return kept;
}

}  // namespace

ObjectPtr<> LoadLibraryModule(const std::string& path) {
  void* handle = OpenFile(path);
  auto [library, module] = FindOpened(path, handle);
  if (module) {
    FillContextSymbols(*library);  // Some may have been registered since.
  } else {
    module = Keep(handle, OpenLibrary(library));
  }
  TellModule(*library, module);
  return module.handle();
}

}  // namespace graphffi::runtime
