// SPDX-License-Identifier: Apache-2.0
#include "kernels/library.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mutex>
#include <unordered_map>

#include "callframe/error.h"
#include "callframe/global_function.h"
#include "callframe/registry_watch.h"
#include "callframe/value.h"
#include "kernels/elf_file.h"

namespace graphffi {

namespace {

[[noreturn]] void Fail(const std::string& path, const std::string& reason) {
  throw Error("RuntimeError", "graphffi: cannot load '" + path + "': " + reason);
}

[[noreturn]] void FailToOpen(const std::string& path, const std::string& reason) {
  // The loader tells by text only.
  const bool is_foreign = reason.find("undefined symbol") != std::string::npos;
  Fail(path, reason + (is_foreign ? "; was it built for another runtime?" : ""));
}

/// All symbols now: a runtime that binds late would end the process at the first call.
void* Open(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0) Fail(path, "expected a file, got none");
  const std::string truncation = DescribeTruncation(path);
  if (!truncation.empty()) Fail(path, truncation);
  void* handle = nullptr;
  const char* reason = nullptr;
  WithRegistryLocked([&] {
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) reason = dlerror();
  });
  if (handle == nullptr) FailToOpen(path, reason == nullptr ? "unknown reason" : reason);
  return handle;
}

/// Runtimes differ in the kind and the words of a failure.
TVMFFIObjectHandle MakeModule(const std::string& path) {
  try {
    const TVMFFIAny args[] = {MakeRawStr(path.c_str()), MakeRawStr("so")};
    return CallGlobal("ffi.Module.load_from_file.so", args, 2).v_obj;
  } catch (const Error& error) {
    if (RegistryWatch::Get().is_own_runtime()) throw;  // its text is ours
    Fail(path, error.message());
  }
}

/// Which file is at a path: one that is built anew is another.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  int64_t seconds = 0, nanoseconds = 0;  // of the last change of its content

  static FileIdentity Of(const std::string& path) {
    struct stat status{};
    if (stat(path.c_str(), &status) != 0) return {};
    return {status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
            status.st_mtim.tv_nsec};
  }
  bool exists() const { return inode != 0; }
  bool IsSameInode(const FileIdentity& other) const {
    return device == other.device && inode == other.inode;
  }
  bool operator==(const FileIdentity& other) const {
    return IsSameInode(other) && size == other.size && seconds == other.seconds &&
           nanoseconds == other.nanoseconds;
  }
};

/// The file that a path means.
struct KnownFile {
  FileIdentity identity;
  int generation = 0;
  bool is_loaded = false;

  /// The dynamic linker compares paths first: another file needs another spelling.
  std::string Spelled(const std::string& path) const {
    std::string spelled = path;
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return path;
    for (int i = 0; i < generation; ++i) spelled.insert(slash + 1, "./");
    return spelled;
  }
};

struct LoadedLibraries {
  std::mutex mutex;
  std::unordered_map<void*, Library> libraries;      // by handle; elements stay where they are
  std::unordered_map<std::string, KnownFile> files;  // by path
  static LoadedLibraries& Global() {
    static auto* instance = new LoadedLibraries();
    return *instance;
  }
};

/// The path to open; `path` means the file there from now on. \throws Error(RuntimeError) if it
/// means another one.
std::string PathToOpen(const std::string& path) {
  const FileIdentity identity = FileIdentity::Of(path);
  if (!identity.exists()) return path;  // the loader says what is wrong
  LoadedLibraries& loaded = LoadedLibraries::Global();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  KnownFile& file = loaded.files.try_emplace(path, KnownFile{identity}).first->second;
  if (!(file.identity == identity)) {
    Fail(path,
         "expected the file that is in use, got one that was built since; load it with "
         "graphffi.load_module, or define its ops again with override=True");
  }
  return file.Spelled(path);
}

}  // namespace

bool RenewLibrary(const std::string& path) {
  const FileIdentity identity = FileIdentity::Of(path);
  if (!identity.exists()) return false;  // the loader says what is wrong
  LoadedLibraries& loaded = LoadedLibraries::Global();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  const auto [found, is_first] = loaded.files.try_emplace(path, KnownFile{identity});
  KnownFile& file = found->second;
  if (is_first || file.identity == identity) return false;
  if (file.is_loaded && file.identity.IsSameInode(identity)) {
    Fail(path,
         "expected a new file, got one that was changed in place while it is in use; "
         "remove it before it is written, as linkers do");
  }
  file = {identity, file.generation + (file.is_loaded ? 1 : 0), false};
  return true;
}

bool IsLibraryCurrent(const std::string& path) {
  const FileIdentity identity = FileIdentity::Of(path);
  LoadedLibraries& loaded = LoadedLibraries::Global();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  const auto found = loaded.files.find(path);
  return found == loaded.files.end() || found->second.identity == identity;
}

TVMFFISafeCallType Library::FindExported(const std::string& name) const {
  if (dlsym(handle, "__tvm_ffi__library_bin") != nullptr) return nullptr;
  return reinterpret_cast<TVMFFISafeCallType>(dlsym(handle, ("__tvm_ffi_" + name).c_str()));
}

const Library& LoadLibrary(const std::string& path) {
  const std::string spelled = PathToOpen(path);
  void* handle = Open(spelled);
  LoadedLibraries& loaded = LoadedLibraries::Global();
  {
    std::lock_guard<std::mutex> lock(loaded.mutex);
    loaded.files[path].is_loaded = true;
    const auto found = loaded.libraries.find(handle);
    if (found != loaded.libraries.end()) {
      dlclose(handle);  // the reference of this call; the first one stays
      return found->second;
    }
  }
  // Unlocked: the library's initialisers may come back here. The module of a thread that comes
  // second is leaked, because the library may have noted its address.
  const Library made{handle, MakeModule(spelled)};
  std::lock_guard<std::mutex> lock(loaded.mutex);
  return loaded.libraries.emplace(handle, made).first->second;
}

}  // namespace graphffi
