// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_ref.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "call/error.h"
#include "call/global_function.h"
#include "call/value.h"
#include "kernels/library.h"
#include "kernels/metadata.h"

namespace graphffi {

namespace {

bool IsReadable(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

/// Signatures are exported where the library's author wants it, and told by newer runtimes.
bool KernelTakesTensors(const TVMFFIAny& module, const std::string& symbol) {
  constexpr char kName[] = "ffi.ModuleGetFunctionMetadata";
  if (!FindGlobal(kName)) return false;
  const TVMFFIAny args[] = {module, ToAny(symbol.c_str()), ToAny(true)};
  const tvm::ffi::Any metadata = CallGlobal(kName, args, 3);
  const TVMFFIAny view = ToAny(metadata);
  const auto text = TextOf(view);
  return text.has_value() && TakesTensors(*text);
}

struct LibraryFunction {
  TVMFFIObjectHandle function;
  ResolvedKernel resolved;
};

/// What references mean; leaked, since functions may be called at exit.
struct References {
  std::mutex mutex;
  std::unordered_map<std::string, const Library*> provided;    // by ProvideLibrary, by name
  std::unordered_map<std::string, LibraryFunction> functions;  // by reference and origin
  static References& Global() {
    static auto* instance = New();
    return *instance;
  }
  /// A child of fork has the mutex free.
  static References* New() {
    pthread_atfork([] { Global().mutex.lock(); }, [] { Global().mutex.unlock(); },
                   [] { Global().mutex.unlock(); });
    return new References();
  }
};

const Library& LibraryOf(const std::string& name, std::string_view opt_origin) {
  References& known = References::Global();
  {
    std::lock_guard<std::mutex> lock(known.mutex);
    const auto found = known.provided.find(name);
    if (found != known.provided.end()) return *found->second;
  }
  return LoadLibrary(FindLibrary(name, opt_origin));
}

LibraryFunction LoadFromLibrary(const std::string& reference, size_t separator,
                                std::string_view opt_origin) {
  const std::string symbol = reference.substr(separator + 2);
  const std::string name = reference.substr(0, separator);
  const Library& library = LibraryOf(name, opt_origin);
  const TVMFFIAny module = ToAny(kTVMFFIModule, library.module);
  const TVMFFIAny get_args[] = {module, ToAny(symbol.c_str()), ToAny(true)};
  tvm::ffi::Any function = CallGlobal("ffi.ModuleGetFunction", get_args, 3);
  if (function.type_index() != kTVMFFIFunction) {
    throw Error("KeyError", "graphffi: kernel '" + reference + "': expected a function '" + symbol +
                                "' in the library, found none; is __tvm_ffi_" + symbol +
                                " exported?");
  }
  Kernel kernel = Kernel::FromFunction(ToAny(function).v_obj);
  if (const TVMFFISafeCallType exported = library.FindExported(symbol)) {
    kernel = {exported, nullptr};
  }
  const bool takes_tensors = KernelTakesTensors(module, symbol);
  return {ReleaseAny(std::move(function)).v_obj, {kernel, {true, takes_tensors}}};
}

/// A global function. Names of Python's kernels of ops end with digits of the code, and maybe a
/// number; where an op has other code, the name without them means its kernel.
/// (graphffi/_kernels/kernel.py)
ObjectRef FindFunction(std::string_view name) {
  ObjectRef function = FindGlobal(name);
  if (!IsOwnName(name)) return function;
  for (int i = 0; i < 2 && !function; ++i) {
    name = name.substr(0, name.rfind('.'));
    function = FindGlobal(name);
  }
  return function;
}

ObjectRef NewReference(const LibraryFunction& found, ResolvedKernel* opt_resolved) {
  if (opt_resolved != nullptr) *opt_resolved = found.resolved;
  return ObjectRef::Retain(found.function);
}

}  // namespace

std::string FindLibrary(const std::string& library, std::string_view opt_origin) {
  if (library.front() == '/') return library;  // the loader reports what is wrong with it
  std::vector<std::string> folders;
  if (const char* path = std::getenv("GRAPHFFI_LIBRARY_PATH")) {
    const std::string text(path);
    for (size_t begin = 0; begin <= text.size();) {
      size_t end = text.find(':', begin);
      if (end == std::string::npos) end = text.size();
      if (end > begin) folders.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  if (!opt_origin.empty()) folders.emplace_back(opt_origin);
  std::string searched;
  for (const std::string& folder : folders) {
    std::string candidate = folder + "/" + library;
    if (IsReadable(candidate)) return candidate;
    searched += (searched.empty() ? "" : ", ") + folder;
  }
  throw Error("RuntimeError",
              "graphffi: cannot load '" + library + "': expected it in " +
                  (searched.empty() ? "a folder of GRAPHFFI_LIBRARY_PATH" : searched) +
                  ", found none; give an absolute path, set GRAPHFFI_LIBRARY_PATH, or load the "
                  "package that holds it");
}

void ProvideLibrary(const std::string& name, const std::string& path) {
  if (IsProvided(name)) return;
  const Library& library = LoadLibrary(path);
  References& known = References::Global();
  std::lock_guard<std::mutex> lock(known.mutex);
  known.provided.emplace(name, &library);
}

bool RenewKernels(const std::string& path) {
  if (!RenewLibrary(path)) return false;
  References& known = References::Global();
  std::lock_guard<std::mutex> lock(known.mutex);
  known.functions.clear();  // leaks: other programs call what they have resolved
  return true;
}

bool IsProvided(const std::string& name) {
  References& known = References::Global();
  std::lock_guard<std::mutex> lock(known.mutex);
  return known.provided.count(name) != 0;
}

bool IsOwnName(std::string_view reference) {
  constexpr std::string_view kOwnNames = "graphffi.kernel.";
  return reference.substr(0, kOwnNames.size()) == kOwnNames;
}

bool IsLibraryReference(std::string_view reference) {
  const size_t separator = reference.rfind("::");
  return separator != std::string_view::npos && separator > 0 &&
         reference.substr(0, separator).find(".so") != std::string_view::npos;
}

ObjectRef ResolveKernel(std::string_view reference, std::string_view opt_origin,
                        ResolvedKernel* opt_resolved) {
  const size_t separator = reference.rfind("::");
  if (!IsLibraryReference(reference)) {
    if (ObjectRef function = FindFunction(reference)) {
      if (opt_resolved != nullptr) *opt_resolved = {Kernel::FromFunction(function.get()), {}};
      return function;
    }
    throw Error("KeyError", "graphffi: kernel '" + std::string(reference) +
                                "': expected a registered function or 'library.so::name', got an "
                                "unknown name; register it or load its library first");
  }
  References& known = References::Global();
  std::string key(reference);
  if (reference.front() != '/') key.append("\n").append(opt_origin);
  {
    std::lock_guard<std::mutex> lock(known.mutex);
    const auto found = known.functions.find(key);
    if (found != known.functions.end()) return NewReference(found->second, opt_resolved);
  }
  // Unlocked: static initialisers of the library may come back here. Losing a race leaks one
  // reference.
  const LibraryFunction loaded = LoadFromLibrary(std::string(reference), separator, opt_origin);
  std::lock_guard<std::mutex> lock(known.mutex);
  return NewReference(known.functions.emplace(std::move(key), loaded).first->second, opt_resolved);
}

KernelFacts FactsOf(std::string_view reference) {
  ResolvedKernel resolved;
  ResolveKernel(reference, {}, &resolved);
  return resolved.facts;
}

}  // namespace graphffi
