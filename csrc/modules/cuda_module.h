// SPDX-License-Identifier: Apache-2.0
// A module of CUDA kernels from PTX text or a cubin, through CUDA's driver.
#pragma once

namespace graphffi::modules {

/// Registers what makes such modules, unless the process has it: the global functions
/// `graphffi.make_cuda_module`(image, signatures) and `ffi.Module.load_from_bytes.graphffi_cuda`.
/// \throws Error
void RegisterCudaModule();

}  // namespace graphffi::modules
