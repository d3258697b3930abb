// SPDX-License-Identifier: Apache-2.0
// Eager calls of ops on plain tensors, without the dispatcher.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "operators/op_call.h"
#include "python/direct_op.h"

namespace graphffi_torch {

/// A capsule of a graphffi::PluginCall, for graphffi.Op. It takes calls over whose tensors are
/// plain torch tensors and need no gradient, where no mode, tracer or profiler is active, and whose
/// attributes are of the very types that the op declares.
pybind11::capsule MakeDirectCall(const OpCall& call, std::vector<DirectOp::Parameter> parameters,
                                 pybind11::object opt_result_type, bool release_gil);

}  // namespace graphffi_torch
