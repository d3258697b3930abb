// SPDX-License-Identifier: Apache-2.0
#ifndef GRAPHFFI_TORCH_ENV_STREAM_H_
#define GRAPHFFI_TORCH_ENV_STREAM_H_

#include <c10/core/Device.h>

#include "errors.h"

namespace graphffi_torch {

/// The device's current stream as its driver knows it (a cudaStream_t, say); null for the CPU.
/// Throws c10::Error where torch does not know the handles of this device's streams.
GRAPHFFI_TORCH_API void* CurrentStream(c10::Device device);

}  // namespace graphffi_torch

#endif  // GRAPHFFI_TORCH_ENV_STREAM_H_
