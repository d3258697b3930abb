// SPDX-License-Identifier: Apache-2.0
#include "callframe/kernel_ref.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "callframe/call_frame.h"
#include "callframe/error.h"

namespace graphffi {

namespace {

TVMFFIAny RawStr(const char* text) {
  TVMFFIAny value{};
  value.type_index = kTVMFFIRawStr;
  value.v_c_str = text;
  return value;
}

/// NULL where there is none.
TVMFFIObjectHandle GetGlobal(std::string_view name) {
  const TVMFFIByteArray bytes = {name.data(), name.size()};
  TVMFFIObjectHandle function = nullptr;
  if (const int rc = TVMFFIFunctionGetGlobal(&bytes, &function)) throw Error::TakeRaised(rc);
  return function;
}

/// Calls a function of the runtime by name.
TVMFFIAny CallGlobal(const char* name, const TVMFFIAny* args, int32_t num_args) {
  const TVMFFIObjectHandle function = GetGlobal(name);
  if (function == nullptr) {
    throw Error("RuntimeError",
                "graphffi: the runtime lacks the function '" + std::string(name) + "'");
  }
  TVMFFIAny result{};
  const Kernel kernel = Kernel::FromFunction(function);
  const int rc = kernel.safe_call(kernel.handle, args, num_args, &result);
  TVMFFIObjectDecRef(function);
  if (rc != 0) throw Error::TakeRaised(rc);
  return result;
}

bool IsReadable(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

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
                  ", found none; give an absolute path or set GRAPHFFI_LIBRARY_PATH");
}

/// Runtimes differ in the kind and the words of a failure.
TVMFFIAny LoadModule(const std::string& path, const TVMFFIAny* args) {
  try {
    return CallGlobal("ffi.ModuleLoadFromFile", args, 1);
  } catch (const Error& error) {
    if (error.host_error_pending() || error.message().rfind("graphffi: ", 0) == 0) throw;
    throw Error("RuntimeError", "graphffi: cannot load '" + path + "': " + error.message());
  }
}

TVMFFIObjectHandle LoadFromLibrary(const std::string& reference, size_t separator,
                                   std::string_view opt_origin) {
  const std::string path = FindLibrary(reference.substr(0, separator), opt_origin);
  const std::string symbol = reference.substr(separator + 2);
  const TVMFFIAny load_args[] = {RawStr(path.c_str())};
  const TVMFFIAny module = LoadModule(path, load_args);
  // The module is never released: a library must stay mapped while its functions may be called.
  TVMFFIAny query_imports{};
  query_imports.type_index = kTVMFFIBool;
  query_imports.v_int64 = 1;
  const TVMFFIAny get_args[] = {module, RawStr(symbol.c_str()), query_imports};
  const TVMFFIAny function = CallGlobal("ffi.ModuleGetFunction", get_args, 3);
  if (function.type_index != kTVMFFIFunction) {
    throw Error("KeyError", "graphffi: kernel '" + reference + "': expected a function '" + symbol +
                                "' in the library, found none; is __tvm_ffi_" + symbol +
                                " exported?");
  }
  return function.v_obj;
}

/// Functions of libraries by reference and origin; leaked, since they may be called at exit.
struct LibraryFunctions {
  std::mutex mutex;
  std::unordered_map<std::string, TVMFFIObjectHandle> functions;
  static LibraryFunctions& Global() {
    static auto* instance = new LibraryFunctions();
    return *instance;
  }
};

}  // namespace

TVMFFIObjectHandle ResolveKernel(std::string_view reference, std::string_view opt_origin) {
  const size_t separator = reference.rfind("::");
  const bool in_library = separator != std::string_view::npos && separator > 0 &&
                          reference.substr(0, separator).find(".so") != std::string_view::npos;
  if (!in_library) {
    if (TVMFFIObjectHandle function = GetGlobal(reference)) return function;
    throw Error("KeyError", "graphffi: kernel '" + std::string(reference) +
                                "': expected a registered function or 'library.so::name', got an "
                                "unknown name; register it or load its library first");
  }
  LibraryFunctions& cache = LibraryFunctions::Global();
  std::string key(reference);
  if (reference.front() != '/') key.append("\n").append(opt_origin);
  {
    std::lock_guard<std::mutex> lock(cache.mutex);
    const auto found = cache.functions.find(key);
    if (found != cache.functions.end()) {
      TVMFFIObjectIncRef(found->second);
      return found->second;
    }
  }
  // Unlocked: static initialisers of the library may come back here. Losing a race leaks one
  // reference.
  TVMFFIObjectHandle function = LoadFromLibrary(std::string(reference), separator, opt_origin);
  std::lock_guard<std::mutex> lock(cache.mutex);
  function = cache.functions.emplace(std::move(key), function).first->second;
  TVMFFIObjectIncRef(function);
  return function;
}

}  // namespace graphffi
