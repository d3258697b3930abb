// SPDX-License-Identifier: Apache-2.0
// A kind of module that holds constants, built by the tests with apache-tvm-ffi's headers:
// table_at(i) gives the number i of its 32-bit numbers.
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>

#include <cstring>
#include <utility>

namespace {

namespace ffi = tvm::ffi;

class TableModule : public ffi::ModuleObj {
 public:
  explicit TableModule(ffi::Bytes numbers) : numbers_(std::move(numbers)) {}
  const char* kind() const final { return "graphffi_tests_table"; }
  int GetPropertyMask() const final {
    return ffi::Module::kBinarySerializable | ffi::Module::kRunnable;
  }
  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    if (name != "table_at") return ffi::Function(nullptr);
    return ffi::Function::FromTyped([numbers = numbers_](int64_t index) {
      int32_t number = 0;
      std::memcpy(&number, numbers.data() + index * sizeof(number), sizeof(number));
      return static_cast<int64_t>(number);
    });
  }
  ffi::Bytes SaveToBytes() const final { return numbers_; }

 private:
  ffi::Bytes numbers_;
};

ffi::Module MakeTable(ffi::Bytes numbers) {
  return ffi::Module(ffi::make_object<TableModule>(std::move(numbers)));
}

TVM_FFI_STATIC_INIT_BLOCK() {
  ffi::reflection::GlobalDef().def("ffi.Module.load_from_bytes.graphffi_tests_table", MakeTable);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(make_table, MakeTable);
