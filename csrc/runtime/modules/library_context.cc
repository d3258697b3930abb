// SPDX-License-Identifier: Apache-2.0
// Pointer variables that libraries without a link dependency on the runtime have filled in when
// they are loaded.
#include <tvm/ffi/extra/c_env_api.h>

#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "library.h"
#include "runtime/core/error.h"
#include "runtime/core/fork.h"

namespace graphffi::runtime {
namespace {

struct ContextTable {
  std::shared_mutex mutex;
  std::map<std::string, void*> symbols;
};

ContextTable& registered = TheTable<ContextTable>();

void Fill(const Library& library, const std::string& name, void* pointer) {
  if (void* variable = library.Find(name)) {
    __atomic_store_n(static_cast<void**>(variable), pointer, __ATOMIC_RELEASE);
  }
}

}  // namespace

std::map<std::string, void*> ContextSymbols() {
  std::shared_lock lock(registered.mutex);
  return registered.symbols;
}

void FillContextSymbols(const Library& library) {
  // Not locked meanwhile: looking up a symbol waits for the loader, which may be running the
  // initializers of a library that registers a symbol.
  for (const auto& [name, pointer] : ContextSymbols()) Fill(library, name, pointer);
}

void TellModule(const Library& library, const ModulePtr& module) {
  Fill(library, kContextSymbol, module.get());
}

}  // namespace graphffi::runtime

using namespace graphffi::runtime;

int TVMFFIEnvModRegisterContextSymbol(const char* name, void* symbol) {
  return Guard([&] {
    std::unique_lock lock(registered.mutex);
    registered.symbols[name] = symbol;
  });
}
