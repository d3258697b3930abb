// SPDX-License-Identifier: Apache-2.0
#include "bindings/gil.h"

namespace graphffi::bindings {

namespace {
bool IsFinalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}
}  // namespace

GilHold::GilHold() : ok_(Py_IsInitialized() != 0) {
  // A finalizing interpreter ends every other thread that asks for the GIL.
  if (ok_ && IsFinalizing()) ok_ = PyGILState_Check() != 0;
  if (ok_) state_ = PyGILState_Ensure();
}

}  // namespace graphffi::bindings
