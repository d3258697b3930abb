// SPDX-License-Identifier: Apache-2.0
// Global functions of the runtime's files that do without the kernel-author headers, and how they
// read their arguments. The other files register theirs by GlobalDef.
#pragma once

#include <string>
#include <string_view>

#include "any.h"

namespace graphffi::runtime {

/// The arguments of a built-in function. Accessors throw Error(TypeError) naming function and
/// argument.
class BuiltinArgs {
 public:
  BuiltinArgs(const char* function, const TVMFFIAny* args, int32_t size)
      : function_(function), args_(args), size_(size) {}

  int32_t size() const { return size_; }
  const char* function() const { return function_; }
  const TVMFFIAny& operator[](int32_t index) const { return args_[index]; }

  void ExpectSize(int32_t at_least, int32_t at_most) const;
  int64_t Int(int32_t index) const;
  bool Bool(int32_t index) const;
  /// Borrowed from the argument.
  std::string_view Text(int32_t index) const;
  /// An object of that type or one derived from it; borrowed from the argument.
  TVMFFIObject* Object(int32_t index, int32_t type_index) const;

 private:
  [[noreturn]] void ThrowMismatch(int32_t index, std::string_view expected) const;

  const char* function_;
  const TVMFFIAny* args_;
  int32_t size_;
};

struct Builtin {
  const char* name;
  /// The number of arguments; a negative one means any number.
  int32_t num_args;
  /// Result and parameters, as in `int(ffi.Array[Any],int)`; `ffi.Function` says nothing of them.
  const char* signature;
  Any (*body)(const BuiltinArgs& args);
};

struct BuiltinTable {
  const Builtin* entries;
  size_t size;
};

BuiltinTable FunctionBuiltins();
BuiltinTable ModuleBuiltins();

template <typename Visit>
void ForEachBuiltin(Visit&& visit) {
  for (BuiltinTable table : {FunctionBuiltins(), ModuleBuiltins()}) {
    for (size_t i = 0; i < table.size; ++i) visit(table.entries[i]);
  }
}

/// A signature as the JSON that metadata of functions is.
std::string MetadataOfSignature(std::string_view signature);

/// A function object that calls `builtin`, which lives as long as the process.
ObjectPtr<> MakeBuiltin(const Builtin& builtin);

}  // namespace graphffi::runtime
