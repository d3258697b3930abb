// SPDX-License-Identifier: Apache-2.0
// The order of work on CUDA's streams, for memory that passes between frameworks.
#pragma once

namespace graphffi::modules {

/// Whether the process has opened CUDA's driver: where it has not, no memory is on a GPU.
bool IsCudaInUse();

/// Has `later`, a stream, wait for the work that is on `earlier` now; NULL is the device's default
/// stream. \throws tvm::ffi::Error(RuntimeError) with what the driver says
void OrderCudaStreams(int device_id, void* earlier, void* later);

/// Waits for the work on a stream; NULL is the device's default stream.
/// \throws tvm::ffi::Error(RuntimeError) with what the driver says
void AwaitCudaStream(int device_id, void* stream);

}  // namespace graphffi::modules
