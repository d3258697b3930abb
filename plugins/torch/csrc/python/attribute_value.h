// SPDX-License-Identifier: Apache-2.0
// Attributes of eager calls, as kernels get them.
#pragma once

#include <Python.h>
#include <tvm/ffi/c_api.h>

#include "python/direct_op.h"

namespace graphffi_torch {

/// Converts one value, and borrows it. False, without a Python error, for what is not of the very
/// type that an attribute of `kind` has.
bool ToAttribute(Kind kind, PyObject* value, TVMFFIAny* out);

}  // namespace graphffi_torch
