// SPDX-License-Identifier: Apache-2.0
// Libraries opened from files. They are never closed, and each has one module for the whole
// process: the library has one context variable, so two modules of it could not both be right.
#include <dlfcn.h>
#include <link.h>

#include <map>
#include <memory>
#include <mutex>

#include "error.h"
#include "library.h"

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

struct OpenedLibraries {
  std::mutex mutex;
  std::map<void*, std::unique_ptr<const LibraryFile>> files;
  std::map<void*, ModulePtr> modules;
};

OpenedLibraries& Opened() {
  static OpenedLibraries* opened = new OpenedLibraries();
  return *opened;
}

void* OpenFile(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  const char* reason = dlerror();
  Throw("RuntimeError", "graphffi: cannot load '", path,
        "': ", reason == nullptr ? "unknown reason" : reason);
}

const Library* FileOf(const std::string& path, void* handle) {
  OpenedLibraries& opened = Opened();
  std::lock_guard lock(opened.mutex);
  auto& file = opened.files[handle];
  if (file == nullptr) file = std::make_unique<const LibraryFile>(path, handle);
  return file.get();
}

ModulePtr FindOpened(void* handle) {
  OpenedLibraries& opened = Opened();
  std::lock_guard lock(opened.mutex);
  auto it = opened.modules.find(handle);
  return it == opened.modules.end() ? ModulePtr() : it->second;
}

/// The module of the thread that was first, if several opened the library at once.
ModulePtr Keep(void* handle, ModulePtr module) {
  OpenedLibraries& opened = Opened();
  std::lock_guard lock(opened.mutex);
  return opened.modules.emplace(handle, module).first->second;
}

}  // namespace

ModulePtr LoadLibraryModule(const std::string& path) {
  void* handle = OpenFile(path);
  const Library* library = FileOf(path, handle);
  ModulePtr module = FindOpened(handle);
  if (module) {
    FillContextSymbols(*library);  // Some may have been registered since.
  } else {
    module = Keep(handle, OpenLibrary(library));
  }
  if (void* context = library->Find(kContextSymbol)) {
    __atomic_store_n(static_cast<void**>(context), static_cast<void*>(module.get()),
                     __ATOMIC_RELEASE);
  }
  return module;
}

}  // namespace graphffi::runtime
