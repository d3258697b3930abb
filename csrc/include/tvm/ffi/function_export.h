// SPDX-License-Identifier: Apache-2.0
// The macros that export a C++ function as a kernel.
#pragma once

#include <tvm/ffi/function.h>

#include <string>
#include <string_view>
#include <type_traits>

namespace tvm::ffi {
inline namespace graphffi_v1 {

namespace detail {

/// `{"type_schema":"…"}` with the schema escaped as a JSON string.
inline std::string MetadataOf(const std::string& schema) {
  return "{\"type_schema\":" + std::string(EscapeStringJSON(schema)) + "}";
}

/// Writes a String that outlives the library: the runtime allocates it.
inline void WriteRuntimeString(std::string_view text, TVMFFIAny* result) {
  TVMFFIByteArray bytes = ToByteArray(text);
  TVM_FFI_CHECK_SAFE_CALL(TVMFFIStringFromByteArray(&bytes, result));
}

template <typename F>
TVM_FFI_INLINE int CallExported(const char* name, F&& function, const TVMFFIAny* args,
                                int32_t num_args, TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  CallTyped(name, function, args, num_args, result);
  TVM_FFI_SAFE_CALL_END();
}

template <typename F>
int WriteExportedMetadata(F&&, TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  WriteRuntimeString(MetadataOf(FunctionInfo<std::remove_reference_t<F>>::TypeSchema()), result);
  TVM_FFI_SAFE_CALL_END();
}

inline int WriteExportedDoc(std::string_view doc, TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  WriteRuntimeString(doc, result);
  TVM_FFI_SAFE_CALL_END();
}

}  // namespace detail

#ifndef TVM_FFI_DLL_EXPORT_INCLUDE_METADATA
#define TVM_FFI_DLL_EXPORT_INCLUDE_METADATA 0
#endif

#define TVM_FFI_DLL_EXPORT_TYPED_FUNC_IMPL_(ExportName, ...)                                   \
  extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_##ExportName(                                    \
      void* /*handle*/, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {          \
    return ::tvm::ffi::detail::CallExported(#ExportName, __VA_ARGS__, args, num_args, result); \
  }

#define TVM_FFI_DLL_EXPORT_METADATA_IMPL_(ExportName, ...)                                    \
  extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi__metadata_##ExportName(                         \
      void* /*handle*/, const TVMFFIAny* /*args*/, int32_t /*num_args*/, TVMFFIAny* result) { \
    return ::tvm::ffi::detail::WriteExportedMetadata(__VA_ARGS__, result);                    \
  }

#define TVM_FFI_DLL_EXPORT_DOC_IMPL_(ExportName, DocString)                                   \
  extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi__doc_##ExportName(                              \
      void* /*handle*/, const TVMFFIAny* /*args*/, int32_t /*num_args*/, TVMFFIAny* result) { \
    return ::tvm::ffi::detail::WriteExportedDoc(DocString, result);                           \
  }

/// Exports a function or lambda as the kernel `ExportName` (the C symbol `__tvm_ffi_ExportName`).
/// With TVM_FFI_DLL_EXPORT_INCLUDE_METADATA set to 1 its signature is exported too.
#if TVM_FFI_DLL_EXPORT_INCLUDE_METADATA
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC(ExportName, ...)         \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC_IMPL_(ExportName, __VA_ARGS__) \
  TVM_FFI_DLL_EXPORT_METADATA_IMPL_(ExportName, __VA_ARGS__)
#else
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC(ExportName, ...) \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC_IMPL_(ExportName, __VA_ARGS__)
#endif

/// Exports the documentation of the kernel `ExportName`, where metadata is exported.
#if TVM_FFI_DLL_EXPORT_INCLUDE_METADATA
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC_DOC(ExportName, DocString) \
  TVM_FFI_DLL_EXPORT_DOC_IMPL_(ExportName, DocString)
#else
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC_DOC(ExportName, DocString)
#endif

}  // namespace graphffi_v1
}  // namespace tvm::ffi
