// SPDX-License-Identifier: Apache-2.0
// The table of global functions. No function is called or released while it is locked.
#include "function_registry.h"

#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "error.h"
#include "fork.h"
#include "function.h"

namespace graphffi::runtime {
namespace {

struct GlobalFunction {
  ObjectPtr<> function;
  std::string doc;
  std::string metadata;
};

struct FunctionTable {
  std::shared_mutex mutex;
  std::map<std::string, GlobalFunction, std::less<>> functions;
};

// Leaked on purpose: libraries use it from their destructors, after ours would have run.
FunctionTable& Functions() { return TheTable<FunctionTable>(); }

void ExpectFunction(std::string_view name, int32_t type_index) {
  if (type_index == kTVMFFIFunction) return;
  Throw("TypeError", "graphffi: global function '", name,
        "': expected a function, got a value of type index ", type_index);
}

/// \throws Error(RuntimeError) if the name is taken and `allow_override` is false, Error(TypeError)
/// for what is no function.
void SetGlobalFunction(std::string_view name, ObjectPtr<> function, std::string_view doc,
                       std::string_view metadata, bool allow_override) {
  const int32_t type_index = function ? function.header()->type_index : int32_t{kTVMFFINone};
  GlobalFunction entry{std::move(function), std::string(doc), std::string(metadata)};
  FunctionTable& table = Functions();
  std::unique_lock lock(table.mutex);
  auto it = table.functions.find(name);
  if (it != table.functions.end() && !allow_override) {
    Throw("RuntimeError", "graphffi: global function '", name,
          "': already registered; allow the override to replace it");
  }
  ExpectFunction(name, type_index);
  if (it == table.functions.end()) {
    table.functions.emplace(name, std::move(entry));
  } else {
    std::swap(it->second, entry);  // The old one dies after the lock.
    RegistryEpoch().fetch_add(1, std::memory_order_release);
  }
}

}  // namespace

std::atomic<uint64_t>& RegistryEpoch() {
  static std::atomic<uint64_t> epoch{0};
  return epoch;
}

ObjectPtr<> FindGlobalFunction(std::string_view name) {
  FunctionTable& table = Functions();
  std::shared_lock lock(table.mutex);
  auto it = table.functions.find(name);
  return it == table.functions.end() ? ObjectPtr<>() : it->second.function;
}

bool RemoveGlobalFunction(std::string_view name) {
  FunctionTable& table = Functions();
  GlobalFunction removed;  // Dies after the lock.
  std::unique_lock lock(table.mutex);
  auto it = table.functions.find(name);
  if (it == table.functions.end()) return false;
  removed = std::move(it->second);
  table.functions.erase(it);
  RegistryEpoch().fetch_add(1, std::memory_order_release);
  return true;
}

std::vector<std::string> ListGlobalFunctions() {
  FunctionTable& table = Functions();
  std::shared_lock lock(table.mutex);
  std::vector<std::string> names;
  names.reserve(table.functions.size());
  for (const auto& [name, function] : table.functions) names.push_back(name);
  return names;
}

std::optional<std::string> FindGlobalFunctionMetadata(std::string_view name) {
  FunctionTable& table = Functions();
  std::shared_lock lock(table.mutex);
  auto it = table.functions.find(name);
  if (it == table.functions.end()) return std::nullopt;
  return it->second.metadata;
}

}  // namespace graphffi::runtime

using namespace graphffi::runtime;

int TVMFFIFunctionGetGlobal(const TVMFFIByteArray* name, TVMFFIObjectHandle* out) {
  return Guard([&] { *out = FindGlobalFunction(View(*name)).Release(); });
}

int TVMFFIFunctionSetGlobal(const TVMFFIByteArray* name, TVMFFIObjectHandle f, int allow_override) {
  return Guard(
      [&] { SetGlobalFunction(View(*name), ObjectPtr<>::Share(f), {}, {}, allow_override != 0); });
}

int TVMFFIFunctionSetGlobalFromMethodInfo(const TVMFFIMethodInfo* method_info, int allow_override) {
  return Guard([&] {
    ExpectFunction(View(method_info->name), method_info->method.type_index);
    SetGlobalFunction(View(method_info->name), ObjectPtr<>::Share(method_info->method.v_obj),
                      View(method_info->doc), View(method_info->metadata), allow_override != 0);
  });
}
