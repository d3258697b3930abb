// SPDX-License-Identifier: Apache-2.0
#include "cpp_error.h"

namespace tvm::ffi {

const char* Error::what() const noexcept {
  return TVMFFIErrorGetCellPtr(object().header())->message.data;
}

}  // namespace tvm::ffi

namespace graphffi::runtime {

static_assert(sizeof(tvm::ffi::Error) == 16, "libraries of TVM FFI's C++ ABI catch it");

void ThrowRaisedToCpp() {
  TVMFFIObjectHandle raised = nullptr;
  TVMFFIErrorMoveFromRaised(&raised);
  if (raised == nullptr) {
    throw tvm::ffi::Error(MakeError("InternalError", "graphffi: a call failed without an error"));
  }
  throw tvm::ffi::Error(ObjectPtr<>::Steal(raised));
}

}  // namespace graphffi::runtime
