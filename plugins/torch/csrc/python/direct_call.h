// SPDX-License-Identifier: Apache-2.0
// Eager calls of ops on plain tensors, without the dispatcher.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "operators/op_call.h"

namespace graphffi_torch {

struct DirectParameter {
  std::string name;
  std::string kind;  ///< of graphffi.Operand or graphffi.Attribute
  bool is_list, is_optional, is_mutated, is_required, is_by_name;
  pybind11::object default_value;
};

/// A capsule of a graphffi::PluginCall, for graphffi.Op. It takes calls over whose tensors are
/// plain torch tensors and need no gradient, where no mode, tracer or profiler is active, and whose
/// attributes are of the very types that the op declares.
pybind11::capsule MakeDirectCall(const OpCall& call, const std::vector<DirectParameter>& parameters,
                                 pybind11::object opt_result_type, bool release_gil);

}  // namespace graphffi_torch
