// SPDX-License-Identifier: Apache-2.0
// The module of a library's exported functions.
#include <cstdlib>
#include <new>

#include "library.h"
#include "runtime/core/cpp_error.h"
#include "runtime/core/error.h"
#include "runtime/core/function.h"
#include "runtime/core/string_value.h"

namespace graphffi::runtime {
namespace {

/// A function of a library, which keeps the module that it came from.
struct LibraryFunction {
  TVMFFIObject header;
  TVMFFIFunctionCell cell;
  TVMFFIObject* module;
  TVMFFISafeCallType symbol;

  ~LibraryFunction() { DecRef(module); }
};

int CallLibraryFunction(void* handle, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  return static_cast<LibraryFunction*>(handle)->symbol(nullptr, args, num_args, result);
}

std::string_view Text(const tvm::ffi::String& text) {
  return TryText(text.value.view()).value_or(std::string_view());
}

class LibraryModule final : public ModuleObj {
 public:
  explicit LibraryModule(const Library* library) : ModuleObj(Delete), library_(library) {}

  const char* kind() const override { return "library"; }
  int GetPropertyMask() const override { return kModuleBinarySerializable | kModuleRunnable; }

  tvm::ffi::Function GetFunction(const tvm::ffi::String& name) override {
    void* symbol = library_->FindFunction(Text(name));
    if (symbol == nullptr) return {};
    TVMFFIFunctionCell cell = {CallLibraryFunction, nullptr};
    IncRef(&header_);
    auto module = ObjectPtr<>::Steal(&header_);
    auto function = MakeObject<LibraryFunction>(kTVMFFIFunction, 0, cell, module.get(),
                                                reinterpret_cast<TVMFFISafeCallType>(symbol));
    static_cast<void>(module.Release());
    return {ObjectPtr<>::Steal(function.Release())};
  }

  bool ImplementsFunction(const tvm::ffi::String& name) override {
    return library_->FindFunction(Text(name)) != nullptr;
  }

  tvm::ffi::String GetFunctionDoc(const tvm::ffi::String& name) override {
    return Describe(kDocPrefix, name);
  }

  tvm::ffi::String GetFunctionMetadata(const tvm::ffi::String& name) override {
    return Describe(kMetadataPrefix, name);
  }

 private:
  static void Delete(void* handle, int flags) {
    auto* module = static_cast<LibraryModule*>(ModuleFromHandle(handle));
    if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) module->~LibraryModule();
    if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) std::free(module);
  }

  tvm::ffi::String Describe(const char* prefix, const tvm::ffi::String& name) {
    tvm::ffi::String text;
    void* symbol = library_->Find(Concat(prefix, Text(name)));
    if (symbol == nullptr) return text;
    auto describe = reinterpret_cast<TVMFFISafeCallType>(symbol);
    RunForCpp([&] { CheckForeign(describe(nullptr, nullptr, 0, text.value.out())); });
    return text;
  }

  const Library* library_;
};

}  // namespace

ModulePtr MakeLibraryModule(const Library* library) {
  void* memory = std::malloc(sizeof(LibraryModule));
  if (memory == nullptr) throw std::bad_alloc();
  auto* module = new (memory) LibraryModule(library);
  return ModulePtr(ObjectPtr<>::Steal(HandleOfModule(module)));
}

void* Library::FindFunction(std::string_view function) const {
  return Find(Concat(kSymbolPrefix, function));
}

ModulePtr OpenLibrary(const Library* library) {
  FillContextSymbols(*library);
  ModulePtr module = MakeLibraryModule(library);
  if (void* embedded = library->Find(kEmbeddedModules)) {
    module = ReadEmbeddedModules(library, module, embedded);
  }
  return module;
}

}  // namespace graphffi::runtime
