// SPDX-License-Identifier: Apache-2.0
#include "callframe/global_function.h"

#include <string>

#include "callframe/call_frame.h"
#include "callframe/error.h"

namespace graphffi {

TVMFFIObjectHandle FindGlobal(std::string_view name) {
  const TVMFFIByteArray bytes = {name.data(), name.size()};
  TVMFFIObjectHandle function = nullptr;
  if (const int rc = TVMFFIFunctionGetGlobal(&bytes, &function)) throw Error::TakeRaised(rc);
  return function;
}

TVMFFIAny CallGlobal(std::string_view name, const TVMFFIAny* args, int32_t num_args) {
  const TVMFFIObjectHandle function = FindGlobal(name);
  if (function == nullptr) {
    throw Error("RuntimeError",
                "graphffi: the runtime lacks the function '" + std::string(name) + "'");
  }
  TVMFFIAny result{};
  const Kernel kernel = Kernel::FromFunction(function);
  const int rc = kernel.safe_call(kernel.handle, args, num_args, &result);
  TVMFFIObjectDecRef(function);
  if (rc != 0) throw Error::TakeRaised(rc);
  return result;
}

}  // namespace graphffi
