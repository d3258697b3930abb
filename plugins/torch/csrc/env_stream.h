// SPDX-License-Identifier: Apache-2.0
// The current streams of devices.
#pragma once

#include <c10/core/Device.h>

#include "errors.h"

namespace graphffi_torch {

/// The device's current stream as its driver knows it (a cudaStream_t, say); NULL for the CPU.
/// \throws c10::Error where torch does not know the handles of this device's streams.
GRAPHFFI_TORCH_API void* CurrentStream(c10::Device device);

}  // namespace graphffi_torch
