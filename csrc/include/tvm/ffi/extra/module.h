// SPDX-License-Identifier: Apache-2.0
// Module: functions that belong together, e.g. those of a library; ModuleObj is derived from to
// make new kinds.
#pragma once

#include <tvm/ffi/cast.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/extra/base.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tvm::ffi {
inline namespace graphffi_v1 {

class Module;

/// The base of all kinds of modules.
///
/// Order and signatures of the virtual functions are ABI, and so are the two fields: modules made
/// by other libraries are called through this class. It is polymorphic without a virtual
/// destructor, its vtable pointer lies 8 bytes before the object's header, and nothing of it comes
/// from the runtime.
class ModuleObj : public Object {
 public:
  /// The name of the kind: its loader is the global function `ffi.Module.load_from_bytes.<kind>`.
  virtual const char* kind() const = 0;
  /// Module::ModulePropertyMask bits.
  virtual int GetPropertyMask() const { return 0; }
  /// Null or nothing if there is no such function.
  virtual Optional<Function> GetFunction(const String& name) = 0;
  virtual bool ImplementsFunction(const String& name) { return GetFunction(name).has_value(); }
  virtual Optional<String> GetFunctionDoc(const String& name) {
    (void)name;
    return std::nullopt;
  }
  virtual Optional<String> GetFunctionMetadata(const String& name) {
    (void)name;
    return std::nullopt;
  }
  virtual void WriteToFile(const String& file_name, const String& format) const {
    (void)file_name;
    (void)format;
    TVM_FFI_THROW(RuntimeError) << "Module[" << kind() << "] does not support WriteToFile";
  }
  virtual Array<String> GetWriteFormats() const { return {}; }
  virtual Bytes SaveToBytes() const {
    TVM_FFI_THROW(RuntimeError) << "Module[" << kind() << "] does not support SaveToBytes";
  }
  virtual String InspectSource(const String& format) const {
    (void)format;
    return String();
  }
  virtual void ImportModule(const Module& other);
  virtual void ClearImports() { imports_.clear(); }

  /// With query_imports also from the imported modules, depth first.
  Optional<Function> GetFunction(const String& name, bool query_imports);
  bool ImplementsFunction(const String& name, bool query_imports);
  Optional<String> GetFunctionDoc(const String& name, bool query_imports);
  Optional<String> GetFunctionMetadata(const String& name, bool query_imports);
  const Array<Any>& imports() const { return imports_; }

  static constexpr int32_t _type_index = kTVMFFIModule;
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_STATIC(StaticTypeKey::kTVMFFIModule, ModuleObj, Object);

 protected:
  // Protected: only the counting of references ends a module's life.
  ~ModuleObj() = default;
  friend struct detail::ObjectDeleter<ModuleObj>;

 private:
  /// Calls query on this module and, if query_imports is set, on those that it imports, depth
  /// first, until it gives something. Asks each module once: where imports share their own imports,
  /// the number of paths doubles at every level.
  template <typename R, typename Query>
  R Search(bool query_imports, const Query& query);

  Array<Any> imports_;
  /// The runtime's: what TVMFFIEnvModLookupFromImports found.
  Map<String, Function> import_lookup_cache_;
};

static_assert(sizeof(ModuleObj) == 48);

namespace detail {
/// The runtime's C++ function, by its symbol: these headers' names are others.
TVM_FFI_DLL void VisitContextSymbols(const TypedFunction<void(String, void*)>& callback) __asm__(
    "_ZN3tvm3ffi6Module19VisitContextSymbolsERKNS0_13TypedFunctionIFvNS0_6StringEPvEEE");
}  // namespace detail

class Module : public ObjectRef {
 public:
  enum ModulePropertyMask : int {
    kBinarySerializable = 1,
    kRunnable = 2,
    kCompilationExportable = 4,
  };

  /// Loads a library. \throws Error if that fails
  static Module LoadFromFile(const String& file_name) {
    return Function::GetGlobalRequired("ffi.ModuleLoadFromFile")(file_name).cast<Module>();
  }
  /// Calls back with the name and address of each symbol that loaded libraries are given.
  static void VisitContextSymbols(const TypedFunction<void(String, void*)>& callback) {
    detail::VisitContextSymbols(callback);
  }

  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Module, ObjectRef, ModuleObj);
  explicit Module(ObjectPtr<ModuleObj> data) : ObjectRef(std::move(data)) {}
};

template <typename R, typename Query>
R ModuleObj::Search(bool query_imports, const Query& query) {
  R found = query(this);
  std::unordered_set<ModuleObj*> asked = {this};
  std::vector<Module> pending;
  auto push_imports = [&pending](const ModuleObj* of) {
    for (size_t i = of->imports_.size(); i-- > 0;) {
      pending.push_back(of->imports_[static_cast<int64_t>(i)].cast<Module>());
    }
  };
  if (query_imports) push_imports(this);
  while (!found && !pending.empty()) {
    const Module next = std::move(pending.back());
    pending.pop_back();
    if (!asked.insert(next.get()).second) continue;
    found = query(next.get());
    push_imports(next.get());
  }
  return found;
}

inline void ModuleObj::ImportModule(const Module& other) {
  if (other->Search<bool>(true, [this](ModuleObj* imported) { return imported == this; })) {
    TVM_FFI_THROW(RuntimeError) << "Cyclic dependency during import";
  }
  imports_.push_back(other);
}

inline Optional<Function> ModuleObj::GetFunction(const String& name, bool query_imports) {
  return Search<Optional<Function>>(query_imports,
                                    [&](ModuleObj* module) { return module->GetFunction(name); });
}
inline bool ModuleObj::ImplementsFunction(const String& name, bool query_imports) {
  return Search<bool>(query_imports,
                      [&](ModuleObj* module) { return module->ImplementsFunction(name); });
}
inline Optional<String> ModuleObj::GetFunctionDoc(const String& name, bool query_imports) {
  return Search<Optional<String>>(query_imports,
                                  [&](ModuleObj* module) { return module->GetFunctionDoc(name); });
}
inline Optional<String> ModuleObj::GetFunctionMetadata(const String& name, bool query_imports) {
  return Search<Optional<String>>(
      query_imports, [&](ModuleObj* module) { return module->GetFunctionMetadata(name); });
}

/// Symbols of the calling convention that loaders look for.
namespace symbol {
constexpr const char* tvm_ffi_symbol_prefix = "__tvm_ffi_";
constexpr const char* tvm_ffi_library_ctx = "__tvm_ffi__library_ctx";
constexpr const char* tvm_ffi_library_bin = "__tvm_ffi__library_bin";
constexpr const char* tvm_ffi_metadata_prefix = "__tvm_ffi__metadata_";
constexpr const char* tvm_ffi_doc_prefix = "__tvm_ffi__doc_";
constexpr const char* tvm_ffi_main = "__tvm_ffi_main";
}  // namespace symbol

}  // namespace graphffi_v1
}  // namespace tvm::ffi
