// SPDX-License-Identifier: Apache-2.0
// The ops of the tests' kernels, for a library that ONNX Runtime loads itself.
#include <graphffi/onnxruntime.h>

GRAPHFFI_EXPORT_ONNXRUNTIME_OPS("onnx_own::scale - cpu tensor optional -> 1")
