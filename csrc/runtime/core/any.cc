// SPDX-License-Identifier: Apache-2.0
// From a view to a value that owns what it shows.
#include "any.h"

#include <cstring>

#include "error.h"
#include "string_value.h"

namespace graphffi::runtime {

Any Any::FromView(const TVMFFIAny& view) {
  switch (view.type_index) {
    case kTVMFFIRawStr:
      return MakeString(std::string_view(view.v_c_str, std::strlen(view.v_c_str)));
    case kTVMFFIByteArrayPtr:
      return MakeBytes(View(*static_cast<const TVMFFIByteArray*>(view.v_ptr)));
    case kTVMFFIObjectRValueRef:
      return Object(
          ObjectPtr<>::Steal(std::exchange(*static_cast<TVMFFIObject**>(view.v_ptr), nullptr)));
    default:
      if (HoldsObject(view)) IncRef(view.v_obj);
      return Steal(view);
  }
}

Any Any::Int(int64_t number) { return Steal({kTVMFFIInt, {0}, {number}}); }

Any Any::Bool(bool truth) { return Steal({kTVMFFIBool, {0}, {truth ? 1 : 0}}); }

Any Any::Pointer(void* address) {
  TVMFFIAny value = {kTVMFFIOpaquePtr, {0}, {0}};
  value.v_ptr = address;
  return Steal(value);
}

}  // namespace graphffi::runtime

using namespace graphffi::runtime;

int TVMFFIAnyViewToOwnedAny(const TVMFFIAny* any_view, TVMFFIAny* out) {
  return Guard([&] { *out = Any::FromView(*any_view).Release(); });
}
