// SPDX-License-Identifier: Apache-2.0
// Eager calls of which autograd takes note.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "callframe/plan.h"
#include "python/direct_arguments.h"
#include "python/direct_op.h"

namespace graphffi_torch {

/// Has the dispatcher run a call whose `attributes` are converted; its results are appended.
/// \throws what operators throw
void RunRecorded(const DirectOp& op, const graphffi::Bank& attributes, DirectArguments* arguments,
                 c10::SmallVectorImpl<at::Tensor>* results);

}  // namespace graphffi_torch
