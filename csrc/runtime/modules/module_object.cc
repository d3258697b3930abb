// SPDX-License-Identifier: Apache-2.0
// The base of all modules: imports, and errors for operations that a kind of module does not have.
#include "module_object.h"

#include <string_view>

#include "module.h"
#include "runtime/containers/containers.h"
#include "runtime/core/cpp_error.h"
#include "runtime/core/error.h"
#include "runtime/core/string_value.h"
#include "runtime/core/type_registry.h"

namespace tvm::ffi {

using graphffi::runtime::MakeArray;

namespace {

[[noreturn]] void ThrowUnsupported(const ModuleObj& module, const char* action) {
  throw Error(graphffi::runtime::MakeError(
      "RuntimeError", graphffi::runtime::Concat("graphffi: a module of kind '", module.kind(),
                                                "' cannot be ", action)));
}

}  // namespace

ModuleObj::ModuleObj(void (*deleter)(void* handle, int flags))
    : header_{graphffi::runtime::kUniqueCount, kTVMFFIModule, 0, {deleter}} {}

int ModuleObj::GetPropertyMask() const { return 0; }

bool ModuleObj::ImplementsFunction(const String& name) {
  return static_cast<bool>(GetFunction(name).object);
}

String ModuleObj::GetFunctionDoc(const String&) { return {}; }

String ModuleObj::GetFunctionMetadata(const String&) { return {}; }

void ModuleObj::WriteToFile(const String&, const String&) const {
  ThrowUnsupported(*this, "written to a file");
}

Array ModuleObj::GetWriteFormats() const { return {MakeArray({})}; }

Bytes ModuleObj::SaveToBytes() const { ThrowUnsupported(*this, "saved to bytes"); }

String ModuleObj::InspectSource(const String&) const { return {graphffi::runtime::MakeString({})}; }

void ModuleObj::ImportModule(const Module& other) {
  graphffi::runtime::RunForCpp([&] {
    graphffi::runtime::AddImport(this, graphffi::runtime::ModuleFromHandle(other.object.get()));
  });
}

void ModuleObj::ClearImports() { graphffi::runtime::RemoveImports(this); }

}  // namespace tvm::ffi

namespace graphffi::runtime {

// The class is not of standard layout, but the ABI says where its members are.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
static_assert(sizeof(ModuleObj) == 48);
static_assert(offsetof(ModuleObj, header_) == kModuleHandleOffset);
static_assert(offsetof(ModuleObj, imports_) == 32);
static_assert(offsetof(ModuleObj, import_lookup_cache_) == 40);
#pragma GCC diagnostic pop

namespace {

int GetImports(void* field, TVMFFIAny* result) {
  return Guard([&] {
    auto* imports = static_cast<ObjectPtr<>*>(field);
    *result = (*imports ? Any::Object(*imports) : Any::Object(MakeArray({}))).Release();
  });
}

// The Python package of TVM FFI reads imports as a field of the object.
[[maybe_unused]] const bool imports_are_registered = [] {
  TVMFFIFieldInfo field = {};
  field.name = {"imports_", 8};
  field.size = sizeof(void*);
  field.alignment = alignof(void*);
  field.offset = sizeof(TVMFFIObject);
  constexpr std::string_view kSchema =
      R"({"type_schema":"{\"type\":\"ffi.Array\",\"args\":[{\"type\":\"Any\"}]}"})";
  field.metadata = {kSchema.data(), kSchema.size()};
  field.field_static_type_index = kTVMFFIArray;
  field.getter = GetImports;
  field.default_value_or_factory = kNone;
  TVMFFITypeRegisterField(kTVMFFIModule, &field);
  // A class in Python cannot derive from it.
  RegisterTypeAttr(kTVMFFIModule, "__ffi_type_final__", Any::Bool(true).view());
  return true;
}();

}  // namespace
}  // namespace graphffi::runtime
