// SPDX-License-Identifier: Apache-2.0
// Functions of torch's C interface whose work a kernel of TVM FFI does: code that calls them is
// generated from torch's declarations.
#pragma once

#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cuda.h>
#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace graphffi {
class KernelSlot;
}  // namespace graphffi

namespace graphffi_standalone {

/// One argument: a value, or a list of integers or of tensors, of which each may be None.
struct ExternArgument {
  TVMFFIAny value;
  const int64_t* opt_list;
  int64_t count;
  const AtenTensorHandle* const* opt_tensors;
  const AtenTensorHandle* opt_handles;
};

inline ExternArgument Value(AtenTensorHandle tensor) {
  ExternArgument argument{};
  if (tensor == nullptr) return argument;
  argument.value.type_index = kTVMFFITensor;
  argument.value.v_obj = reinterpret_cast<TVMFFIObject*>(tensor);
  return argument;
}
inline ExternArgument Value(int64_t value) {
  ExternArgument argument{};
  argument.value.type_index = kTVMFFIInt;
  argument.value.v_int64 = value;
  return argument;
}
inline ExternArgument Value(int32_t value) { return Value(static_cast<int64_t>(value)); }
inline ExternArgument Value(double value) {
  ExternArgument argument{};
  argument.value.type_index = kTVMFFIFloat;
  argument.value.v_float64 = value;
  return argument;
}
inline ExternArgument Value(const char* text) {
  ExternArgument argument{};
  argument.value.type_index = kTVMFFIRawStr;
  argument.value.v_c_str = text;
  return argument;
}
/// One that may be None.
template <typename T>
ExternArgument Value(T* opt_value) {
  return opt_value == nullptr ? ExternArgument{} : Value(*opt_value);
}
inline ExternArgument List(const int64_t* values, int64_t count) {
  return {{}, values, count, nullptr, nullptr};
}
inline ExternArgument List(const AtenTensorHandle** tensors, int64_t count) {
  return {{}, nullptr, count, tensors, nullptr};
}
inline ExternArgument List(const AtenTensorHandle* opt_tensors, int64_t count) {
  return {{}, nullptr, count, nullptr, opt_tensors};
}

/// A tensor that a call returns: a new one, or one that is there to be filled.
struct ExternResult {
  ExternResult(AtenTensorHandle* result) : opt_new(result) {}    // NOLINT: written by name
  ExternResult(AtenTensorHandle filled) : opt_filled(filled) {}  // NOLINT
  AtenTensorHandle* opt_new = nullptr;
  AtenTensorHandle opt_filled = nullptr;
};

/// A kernel that does an operator's work. Gets tensors row by row. Lives as long as the library.
class ExternKernel {
 public:
  explicit ExternKernel(const char* reference);
  /// One of the library's own: `make` gives a new reference to the function.
  ExternKernel(const char* name, TVMFFIObjectHandle (*make)());

  /// 0, or 1 with the error kept.
  int32_t Call(std::initializer_list<ExternArgument> arguments,
               std::initializer_list<ExternResult> results) const;

 private:
  void Run(const std::vector<ExternArgument>& arguments,
           const std::vector<ExternResult>& results) const;

  const char* name_;
  const graphffi::KernelSlot* slot_;
};

}  // namespace graphffi_standalone
