/* SPDX-License-Identifier: Apache-2.0 */
#define Py_BUILD_CORE 1 /* asks for CPython's internal headers */
#include "gil/current_state.h"

#include <Python.h>

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000 && !defined(PYPY_VERSION) && \
    __has_include(<internal/pycore_runtime.h>)
#include <internal/pycore_runtime.h>

/* The running Python may be another 3.11 than the headers' one: what it does is compared. */
uintptr_t* GraphffiFindCurrentState(void) {
  if ((Py_Version ^ PY_VERSION_HEX) >> 16 != 0) return NULL;
  uintptr_t* place = (uintptr_t*)&_PyRuntime.gilstate.tstate_current;
  PyThreadState* state = PyThreadState_Get();
  if (*place != (uintptr_t)state) return NULL;
  PyThreadState_Swap(NULL);
  const int follows = *place == 0;
  PyThreadState_Swap(state);
  return follows && *place == (uintptr_t)state ? place : NULL;
}
#else
uintptr_t* GraphffiFindCurrentState(void) { return NULL; }
#endif
