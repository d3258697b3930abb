// SPDX-License-Identifier: Apache-2.0
// The modules that are embedded into a library; the input is what follows their size.
#include <cstring>
#include <memory>
#include <string>

#include "raised.h"
#include "runtime/core/error.h"
#include "runtime/core/string_value.h"
#include "runtime/modules/library.h"

using namespace graphffi::runtime;  // of which this is a test

namespace {

class FuzzedLibrary final : public Library {
 public:
  std::string_view name() const override { return "fuzzed.so"; }
  void* Find(const std::string&) const override { return nullptr; }
};
const FuzzedLibrary library;

/// Loads modules of the kind "copy".
int LoadCopy(void*, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  Require(num_args == 1);
  Require(args[0].type_index == kTVMFFIBytes || args[0].type_index == kTVMFFISmallBytes);
  result->type_index = kTVMFFIModule;
  result->v_obj = ObjectPtr<>(MakeLibraryModule(&library).handle()).Release();
  return 0;
}

bool RegisterLoader() {
  const char* name = "ffi.Module.load_from_bytes.copy";
  const TVMFFIByteArray bytes = {name, std::strlen(name)};
  TVMFFIObjectHandle function = nullptr;
  Require(TVMFFIFunctionCreate(nullptr, LoadCopy, nullptr, &function) == 0);
  Require(TVMFFIFunctionSetGlobal(&bytes, function, 1) == 0);
  return TVMFFIObjectDecRef(function) == 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool registered = RegisterLoader();
  Require(registered);
  const uint64_t payload_size = size;
  const std::unique_ptr<char[]> content(new char[sizeof(payload_size) + size]);
  std::memcpy(content.get(), &payload_size, sizeof(payload_size));
  if (size != 0) std::memcpy(content.get() + sizeof(payload_size), data, size);
  const int code = Guard([&] {
    const ModulePtr module =
        ReadEmbeddedModules(&library, MakeLibraryModule(&library), content.get());
    Require(!FindFunction(module.handle().get(), MakeString("nothing").view(), true));
    module->ClearImports();
  });
  if (code != 0) CheckRaised({"RuntimeError"});
  return 0;
}
