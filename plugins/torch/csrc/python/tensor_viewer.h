// SPDX-License-Identifier: Apache-2.0
// Torch tensors as arguments of functions, at the cost of a few loads.
#pragma once

#include <pybind11/pybind11.h>

namespace graphffi_torch {

/// A capsule of a graphffi::TensorViewer for torch.Tensor and its subclasses. `exchange`, the
/// capsule of torch's own exchange table, is asked for tensors that are not plain.
pybind11::capsule MakeTensorViewer(const pybind11::capsule& exchange);

}  // namespace graphffi_torch
