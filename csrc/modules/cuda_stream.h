// SPDX-License-Identifier: Apache-2.0
// The order of work on CUDA's streams, for memory that passes between frameworks. Nothing is done
// where the process has not opened CUDA's driver: there, no memory is on a GPU.
#pragma once

namespace graphffi::modules {

/// Has `later`, a stream, wait for the work that is on `earlier` now; NULL is the device's default
/// stream. \throws tvm::ffi::Error(RuntimeError) with what the driver says
void OrderCudaStreams(int device_id, void* earlier, void* later);

/// Waits for the work on a stream; NULL is the device's default stream.
/// \throws tvm::ffi::Error(RuntimeError) with what the driver says
void AwaitCudaStream(int device_id, void* stream);

}  // namespace graphffi::modules
