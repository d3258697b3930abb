// SPDX-License-Identifier: Apache-2.0
// Copies of operands that a call updates, and of which ONNX Runtime keeps the former values.
#pragma once

#include <dlpack/dlpack.h>

namespace graphffi_onnxruntime {

/// Copies a compact tensor's elements to `data` on its device, in the order of `stream`.
/// \throws Error(NotImplementedError) for devices without a copy; CUDA's error
void CopyOnDevice(const DLTensor& tensor, void* data, void* stream);

}  // namespace graphffi_onnxruntime
