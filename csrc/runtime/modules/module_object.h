// SPDX-License-Identifier: Apache-2.0
// The module class of TVM FFI's C++ ABI. Libraries derive from it and call it across the library
// boundary, so the names, the order of the virtual functions and the layout are fixed; the classes
// around it only have to have the right size and to be passed by hidden pointer. Everything else of
// the runtime is in graphffi::runtime.
#pragma once

#include "runtime/core/any.h"

namespace tvm::ffi {

template <typename T>
using ObjectPtr = graphffi::runtime::ObjectPtr<T>;

/// A pointer to an object, or NULL.
struct Function {
  ObjectPtr<TVMFFIObject> object;
};
struct Array {
  ObjectPtr<TVMFFIObject> object;
};
struct Map {
  ObjectPtr<TVMFFIObject> object;
};
/// A string value, or none where the ABI says Optional.
struct String {
  graphffi::runtime::Any value;
};
struct Bytes {
  graphffi::runtime::Any value;
};
template <typename Signature>
struct TypedFunction {
  Function function;
};
struct __attribute__((visibility("default"))) Module {
  static Module LoadFromFile(const String& file_name);
  static void VisitContextSymbols(const TypedFunction<void(String, void*)>& callback);

  ObjectPtr<TVMFFIObject> object;
};

/// The object handle points behind the virtual table pointer, 8 bytes into the module. There is no
/// virtual destructor in the ABI: the object's deleter destroys it.
class __attribute__((visibility("default"))) ModuleObj {
 public:
  virtual const char* kind() const = 0;
  virtual int GetPropertyMask() const;
  virtual Function GetFunction(const String& name) = 0;
  virtual bool ImplementsFunction(const String& name);
  virtual String GetFunctionDoc(const String& name);
  virtual String GetFunctionMetadata(const String& name);
  virtual void WriteToFile(const String& file_name, const String& format) const;
  virtual Array GetWriteFormats() const;
  virtual Bytes SaveToBytes() const;
  virtual String InspectSource(const String& format) const;
  /// \throws tvm::ffi::Error(RuntimeError) if `other` imports this module, itself or
  /// through others.
  virtual void ImportModule(const Module& other);
  virtual void ClearImports();
  // These look in the module and, if asked, in its imports.
  Function GetFunction(const String& name, bool query_imports);
  bool ImplementsFunction(const String& name, bool query_imports);
  String GetFunctionDoc(const String& name, bool query_imports);
  String GetFunctionMetadata(const String& name, bool query_imports);

  TVMFFIObject header_;
  Array imports_;
  Map import_lookup_cache_;

 protected:
  explicit ModuleObj(void (*deleter)(void* handle, int flags));
  ~ModuleObj() = default;
};

}  // namespace tvm::ffi

namespace graphffi::runtime {

using tvm::ffi::ModuleObj;

constexpr size_t kModuleHandleOffset = 8;

inline ModuleObj* ModuleFromHandle(void* handle) {
  return reinterpret_cast<ModuleObj*>(static_cast<char*>(handle) - kModuleHandleOffset);
}
inline TVMFFIObject* HandleOfModule(ModuleObj* module) { return &module->header_; }

enum ModuleProperty : int {
  kModuleBinarySerializable = 1,
  kModuleRunnable = 2,
};

}  // namespace graphffi::runtime
