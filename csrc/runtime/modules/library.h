// SPDX-License-Identifier: Apache-2.0
// A library that functions come from: a file, or what is linked into the process.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "module.h"

namespace graphffi::runtime {

constexpr char kSymbolPrefix[] = "__tvm_ffi_";
constexpr char kMetadataPrefix[] = "__tvm_ffi__metadata_";
constexpr char kDocPrefix[] = "__tvm_ffi__doc_";
constexpr char kContextSymbol[] = "__tvm_ffi__library_ctx";
constexpr char kEmbeddedModules[] = "__tvm_ffi__library_bin";

/// Where symbols are looked up. Lives as long as the process: libraries are never closed, because
/// objects and functions that they made may be alive.
class Library {
 public:
  /// For messages.
  virtual std::string_view name() const = 0;
  /// NULL if there is no such symbol.
  virtual void* Find(const std::string& symbol) const = 0;
  /// How many bytes are at the address of a symbol, as far as that is known.
  virtual size_t SizeAt(const void* /*address*/) const { return SIZE_MAX; }
  /// The exported function, or NULL.
  virtual void* FindFunction(std::string_view function) const;

 protected:
  ~Library() = default;
};

/// A module of the library's functions, without imports.
ModulePtr MakeLibraryModule(const Library* library);

/// The module and what is embedded into the library, with the library's pointer variables filled
/// in.
ModulePtr OpenLibrary(const Library* library);

/// Reads what kEmbeddedModules points to. \throws Error(RuntimeError) naming the library and what
/// is malformed.
ModulePtr ReadEmbeddedModules(const Library* library, const ModulePtr& library_module,
                              const void* content);

/// The pointers that were registered, by the names of the variables that they are for.
std::map<std::string, void*> ContextSymbols();

/// Stores the registered pointers into the library's variables of those names.
void FillContextSymbols(const Library& library);
/// Stores the address of the library's module into its variable for that, if it has one.
void TellModule(const Library& library, const ModulePtr& module);

}  // namespace graphffi::runtime
