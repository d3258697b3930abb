// SPDX-License-Identifier: Apache-2.0
// graphffi.Tensor's own DLPack exchange table, by which other libraries read it at the cost of a C
// call.
#pragma once

#include <pybind11/pybind11.h>

namespace graphffi::bindings {

/// The capsule for graphffi.Tensor.__dlpack_c_exchange_api__.
pybind11::object OwnExchangeTable();

}  // namespace graphffi::bindings
