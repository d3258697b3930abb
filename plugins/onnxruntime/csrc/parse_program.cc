// SPDX-License-Identifier: Apache-2.0
#include "parse_program.h"

#include "call/error.h"
#include "call/value.h"

namespace graphffi_onnxruntime {

graphffi::ShapeProgram ParseProgram(const std::string& program, const NodeText& text,
                                    const std::vector<TVMFFIAny>& ints) {
  std::vector<DLTensor> tensors(text.num_tensors());
  std::vector<TVMFFIAny> values;
  for (DLTensor& tensor : tensors) values.push_back(graphffi::ToAny(&tensor));
  for (const NodeText::Input& input : text.inputs) {
    if (input.role == NodeText::Role::kAbsent) continue;
    // Programs note types and ranks, no sizes.
    tensors[text.PlaceOf(input)] =
        DLTensor{nullptr, text.device, input.ndim, input.dtype, nullptr, nullptr, 0};
  }
  auto parsed = graphffi::ShapeProgram::Parse(
      program, text.ValuesOf(values.data(), values.data() + text.num_read, ints));
  if (parsed.num_results() != text.num_results()) {
    throw graphffi::Error("ValueError", text.subject() + ": results of the program: expected " +
                                            std::to_string(text.num_results()) + ", got " +
                                            std::to_string(parsed.num_results()));
  }
  return parsed;
}

}  // namespace graphffi_onnxruntime
