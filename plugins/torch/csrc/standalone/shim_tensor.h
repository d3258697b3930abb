// SPDX-License-Identifier: Apache-2.0
// The shim, for code that is compiled with the graphs: tensors behind handles, and errors.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <tvm/ffi/c_api.h>

namespace graphffi_standalone {

inline const DLTensor& ViewOf(AtenTensorHandle tensor) {
  return *TVMFFITensorGetDLTensorPtr(tensor);
}

inline char* DataOf(const DLTensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

/// \throws graphffi::Error
[[noreturn]] void Fail(const char* kind, const char* message);

/// Keeps the exception that is being handled for the end of the run. Returns 1.
int32_t KeepCaught();

/// The body of a function that generated code calls: 0, or 1 with the error kept.
template <typename Body>
int32_t Guard(Body&& body) {
  try {
    body();
    return 0;
  } catch (...) {
    return KeepCaught();
  }
}

}  // namespace graphffi_standalone
