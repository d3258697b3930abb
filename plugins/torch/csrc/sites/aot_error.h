// SPDX-License-Identifier: Apache-2.0
// The error behind a failed run of generated code, which itself carries text only.
#pragma once

#include <memory>

#include "errors.h"

namespace graphffi_torch {

/// The error of this thread's last failed call, once; NULL if there is none.
GRAPHFFI_TORCH_API std::unique_ptr<graphffi::Error> TakeAotError();

}  // namespace graphffi_torch
