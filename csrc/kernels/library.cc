// SPDX-License-Identifier: Apache-2.0
#include "kernels/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/stat.h>

#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "call/error.h"
#include "call/global_function.h"
#include "call/registry_watch.h"
#include "call/value.h"
#include "kernels/elf_file.h"

namespace graphffi {

namespace {

[[noreturn]] void Fail(const std::string& path, const std::string& reason) {
  throw Error("RuntimeError", "graphffi: cannot load '" + path + "': " + reason);
}

[[noreturn]] void FailToOpen(const std::string& path, const std::string& reason) {
  // The loader tells by text only.
  const auto has = [&](const char* text) { return reason.find(text) != std::string::npos; };
  const char* hint = has("undefined symbol: TVMBackend")
                         ? "; it needs TVM's own runtime: import tvm, or tilelang, before graphffi"
                     : has("undefined symbol") ? "; was it built for another runtime?"
                                               : "";
  Fail(path, reason + hint);
}

/// Runtimes differ in the kind and the words of a failure.
TVMFFIObjectHandle MakeModule(const std::string& path) {
  try {
    const TVMFFIAny args[] = {ToAny(path.c_str()), ToAny("so")};
    return ReleaseAny(CallGlobal("ffi.Module.load_from_file.so", args, 2)).v_obj;
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
  /// Differs for other files, and is the same in all binaries that this code is part of.
  uint32_t Hash() const {
    uint64_t hash = 0;
    for (const auto number : {uint64_t(device), uint64_t(inode), uint64_t(size), uint64_t(seconds),
                              uint64_t(nanoseconds)}) {
      hash = (hash ^ number) * 0x9E3779B97F4A7C15;
      hash ^= hash >> 32;
    }
    return static_cast<uint32_t>(hash);
  }
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
  bool is_loaded = false;
  std::string defect;  // why it cannot be used, though the dynamic linker would open it again
};

struct LoadedLibraries {
  std::mutex mutex;
  std::unordered_map<void*, Library> libraries;      // by handle; elements stay where they are
  std::unordered_map<std::string, KnownFile> files;  // by path
  static LoadedLibraries& Global() {
    static auto* instance = New();
    return *instance;
  }
  /// A child of fork has the mutex free.
  static LoadedLibraries* New() {
    pthread_atfork([] { Global().mutex.lock(); }, [] { Global().mutex.unlock(); },
                   [] { Global().mutex.unlock(); });
    return new LoadedLibraries();
  }
};

/// Another spelling of a path, for one file only: `/./` and `//` mean the bits of its hash.
std::string Spelled(std::string path, const FileIdentity& identity) {
  const size_t end = path.rfind('/') + 1;
  std::string bits;
  for (int i = 0; i < 32; ++i) bits += (identity.Hash() >> i & 1) != 0 ? "./" : "/";
  return path.insert(end, bits);
}

/// The path by which the dynamic linker opens the file that is at `path` now. It compares names of
/// libraries before it looks at files: by `path`, it would give an earlier file that was there.
std::string PathToOpen(const std::string& path, const FileIdentity& identity) {
  void* opt_named = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (opt_named == nullptr || path.find('/') == std::string::npos) return path;
  const std::string spelled = Spelled(path, identity);
  void* opt_loaded = dlopen(spelled.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (opt_loaded != nullptr) dlclose(opt_loaded);
  dlclose(opt_named);
  return opt_loaded == opt_named ? path : spelled;
}

/// An exception of the library's static initialisers passes through dlopen, which is declared to
/// throw nothing: called directly, the compiler would leave out the handlers.
void* OpenOrThrow(const std::string& name) {
  void* (*volatile open)(const char*, int) = &dlopen;
  return open(name.c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// Refuses the file from now on: its initialisers do not run again.
[[noreturn]] void FailForGood(const std::string& path, const std::string& thrown) {
  const std::string defect = "its static initialisers raised " + thrown +
                             "; end the process, in which other threads may wait forever to load a "
                             "library";
  LoadedLibraries& loaded = LoadedLibraries::Global();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  loaded.files[path].defect = defect;
  Fail(path, defect);
}

/// Opens the library for good, all symbols now: a runtime that binds late would end the process at
/// the first call. Gives the path that the dynamic linker knows it by.
std::pair<void*, std::string> Open(const std::string& path, const FileIdentity& identity) {
  if (!identity.exists()) Fail(path, "expected a file, got none");
  const std::string defect = DescribeDefect(path);
  if (!defect.empty()) Fail(path, defect);
  const std::string name = PathToOpen(path, identity);
  void* handle = nullptr;
  const char* reason = nullptr;
  std::string thrown;
  WithRegistryLocked([&] {
    try {
      handle = OpenOrThrow(name);
      if (handle == nullptr) reason = dlerror();
    } catch (const std::exception& error) {
      thrown = "'" + std::string(error.what()) + "'";
    } catch (...) {
      thrown = "an exception";
    }
  });
  if (!thrown.empty()) FailForGood(path, thrown);
  if (handle == nullptr) FailToOpen(path, reason == nullptr ? "unknown reason" : reason);
  return {handle, name};
}

/// Has `path` mean a file, if it means none yet. \throws Error(RuntimeError) if it means another,
/// or one that cannot be used.
void Note(const std::string& path, const FileIdentity& identity) {
  LoadedLibraries& loaded = LoadedLibraries::Global();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  const KnownFile& known =
      loaded.files.try_emplace(path, KnownFile{identity, false, ""}).first->second;
  if (!known.defect.empty()) Fail(path, known.defect);
  if (!(known.identity == identity)) {
    Fail(path,
         "expected the file in use, got a newer one; load it with "
         "graphffi.load_module, or define its ops again with override=True");
  }
}

}  // namespace

bool RenewLibrary(const std::string& path) {
  const FileIdentity identity = FileIdentity::Of(path);
  if (!identity.exists()) return false;  // the loader says what is wrong
  LoadedLibraries& loaded = LoadedLibraries::Global();
  std::lock_guard<std::mutex> lock(loaded.mutex);
  const auto [found, is_first] = loaded.files.try_emplace(path, KnownFile{identity, false, ""});
  KnownFile& file = found->second;
  if (is_first || file.identity == identity) return false;
  if (file.is_loaded && file.identity.IsSameInode(identity)) {
    Fail(path,
         "expected a new file, got one that was changed in place while it is in use; "
         "remove it before it is written, as linkers do");
  }
  file = {identity, false, ""};
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
  if (!EmbeddedModules().empty()) return nullptr;
  return reinterpret_cast<TVMFFISafeCallType>(dlsym(handle, ("__tvm_ffi_" + name).c_str()));
}

std::string_view Library::EmbeddedModules() const {
  const void* tree = dlsym(handle, "__tvm_ffi__library_bin");
  if (tree == nullptr) return {};
  uint64_t size = 0;
  memcpy(&size, tree, sizeof(size));
  return {static_cast<const char*>(tree) + sizeof(size), size};
}

const Library& LoadLibrary(const std::string& path) {
  const FileIdentity identity = FileIdentity::Of(path);
  if (identity.exists()) Note(path, identity);
  const auto [handle, name] = Open(path, identity);
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
  const Library made{handle, MakeModule(name)};
  std::lock_guard<std::mutex> lock(loaded.mutex);
  return loaded.libraries.emplace(handle, made).first->second;
}

}  // namespace graphffi
