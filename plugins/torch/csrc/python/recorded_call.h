// SPDX-License-Identifier: Apache-2.0
// Eager calls of which autograd takes note.
#pragma once

#include "operators/op_call.h"
#include "python/direct_arguments.h"
#include "python/direct_op.h"

namespace graphffi_torch {

/// Runs a call of converted arguments, which are in `frame`, and records how to go back through it.
/// \throws what operators throw
void RunRecorded(const DirectOp& op, DirectArguments* arguments, OpFrame* frame);

}  // namespace graphffi_torch
