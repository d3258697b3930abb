// SPDX-License-Identifier: Apache-2.0
// Tensor objects around memory of somebody else.
#pragma once

#include <dlpack/dlpack.h>

#include "object.h"

namespace graphffi::runtime {

struct TensorRequirements {
  int32_t alignment = 0;  // in bytes, 0 for none
  bool contiguous = false;
};

/// Takes `managed` over on success only. \throws Error
ObjectPtr<> MakeTensor(DLManagedTensor* managed, TensorRequirements requirements);
ObjectPtr<> MakeTensor(DLManagedTensorVersioned* managed, TensorRequirements requirements);

}  // namespace graphffi::runtime
