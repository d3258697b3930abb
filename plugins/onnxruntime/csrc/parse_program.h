// SPDX-License-Identifier: Apache-2.0
// The shape programs of a node's text.
#pragma once

#include <string>
#include <vector>

#include "node_text.h"
#include "shapes/shape_program.h"

namespace graphffi_onnxruntime {

/// A program for calls with the tensors of `text`. \throws Error(InternalError) for
/// text that no tracer writes, Error(ValueError) for another number of results
graphffi::ShapeProgram ParseProgram(const std::string& program, const NodeText& text,
                                    const std::vector<TVMFFIAny>& ints);

}  // namespace graphffi_onnxruntime
