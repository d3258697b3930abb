// SPDX-License-Identifier: Apache-2.0
// Functions that are linked into the process and register themselves, as modules by prefix.
#include <tvm/ffi/extra/c_env_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "library.h"
#include "runtime/core/error.h"
#include "runtime/core/fork.h"

namespace graphffi::runtime {
namespace {

struct SystemSymbols {
  std::shared_mutex mutex;
  std::map<std::string, void*> symbols;
};

SystemSymbols& system_symbols = TheTable<SystemSymbols>();

void* FindSymbol(const std::string& name) {
  std::shared_lock lock(system_symbols.mutex);
  auto it = system_symbols.symbols.find(name);
  return it == system_symbols.symbols.end() ? nullptr : it->second;
}

class SystemLibrary final : public Library {
 public:
  explicit SystemLibrary(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string_view name() const override { return prefix_; }

  void* Find(const std::string& symbol) const override {
    void* found = FindSymbol(prefix_ + symbol);
    return found != nullptr || prefix_.empty() ? found : FindSymbol(symbol);
  }

  void* FindFunction(std::string_view function) const override {
    void* found = FindSymbol(Concat(kSymbolPrefix, prefix_, function));
    if (found != nullptr || prefix_.empty()) return found;
    return FindSymbol(Concat(kSymbolPrefix, function));
  }

 private:
  std::string prefix_;
};

struct SystemModules {
  std::mutex mutex;
  std::map<std::string, ModulePtr> modules;
};

SystemModules& system_modules = TheTable<SystemModules>();

}  // namespace

ObjectPtr<> SystemLibraryModule(const std::string& prefix) {
  {
    std::lock_guard lock(system_modules.mutex);
    auto it = system_modules.modules.find(prefix);
    if (it != system_modules.modules.end()) return it->second.handle();
  }
  auto library = std::make_unique<const SystemLibrary>(prefix);
  ModulePtr module = OpenLibrary(library.get());
  std::unique_lock lock(system_modules.mutex);
  auto [it, is_new] = system_modules.modules.emplace(prefix, module);
  module = it->second;
  lock.unlock();
  if (!is_new) return module.handle();
  TellModule(*library.release(), module);  // It lives for the rest of the process, as the module.
  return module.handle();
}

}  // namespace graphffi::runtime

using namespace graphffi::runtime;

int TVMFFIEnvModRegisterSystemLibSymbol(const char* name, void* symbol) {
  return Guard([&] {
    std::unique_lock lock(system_symbols.mutex);
    system_symbols.symbols[name] = symbol;
  });
}
