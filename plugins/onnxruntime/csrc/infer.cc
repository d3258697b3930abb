// SPDX-License-Identifier: Apache-2.0
#include "infer.h"

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "attributes.h"
#include "call/value.h"
#include "node_text.h"
#include "ort/dtype.h"
#include "parse_program.h"

namespace graphffi_onnxruntime {

namespace {

/// A size while a session is made: a number, or the name of one that each run has.
struct Dim {
  int64_t size = graphffi::Instructions::kMissing;
  std::string symbol;
};
using Dims = std::vector<Dim>;

Dims DimsOf(const ort::Api* api, const ort::ShapeInferContext* context, size_t index,
            int32_t ndim) {
  Dims dims(static_cast<size_t>(ndim));
  ort::TensorInfo* info = nullptr;  // borrowed
  size_t count = 0;
  Call<ort::GetInputTypeShape>(api, context, index, &info);
  Call<ort::GetDimensionsCount>(api, info, &count);
  if (count != dims.size()) return dims;  // also where the rank is not known
  std::vector<int64_t> sizes(count);
  std::vector<const char*> symbols(count);
  Call<ort::GetDimensions>(api, info, sizes.data(), count);
  Call<ort::GetSymbols>(api, info, symbols.data(), count);
  for (size_t i = 0; i < count; ++i) {
    if (sizes[i] >= 0) dims[i].size = sizes[i];
    if (sizes[i] < 0 && symbols[i] != nullptr) dims[i].symbol = symbols[i];
  }
  return dims;
}

/// A name for a size that nothing else has: ONNX Runtime takes sizes of one name for equal.
std::string NewSymbol() {
  static std::atomic<int64_t> count{0};
  return "graphffi_" + std::to_string(count++);
}

void SetOutput(const ort::Api* api, const ort::ShapeInferContext* context, size_t index,
               DLDataType dtype, Dims dims) {
  std::vector<int64_t> sizes;
  std::vector<const char*> symbols;
  for (Dim& dim : dims) {
    const bool is_known = dim.size >= 0;
    if (!is_known && dim.symbol.empty()) dim.symbol = NewSymbol();
    sizes.push_back(is_known ? dim.size : -1);
    symbols.push_back(is_known ? "" : dim.symbol.c_str());
  }
  ort::TensorInfo* info = nullptr;
  Call<ort::CreateTensorInfo>(api, &info);
  ort::Status* status = ort::SetElementType::Call(api, info, FromDLPack(dtype));
  if (status == nullptr) status = ort::SetDimensions::Call(api, info, sizes.data(), sizes.size());
  if (status == nullptr) status = ort::SetSymbols::Call(api, info, symbols.data(), symbols.size());
  if (status == nullptr) status = ort::SetOutputTypeShape::Call(api, context, index, info);
  ort::ReleaseTensorInfo::Call(api, info);
  Check(api, status);
}

/// The inputs' sizes in the order of a program's values: first of what is read, then of updates.
Dims GivenOf(const NodeText& text, const std::vector<Dims>& dims) {
  Dims given;
  for (const bool is_output : {false, true}) {
    for (int32_t slot = 0; slot < static_cast<int32_t>(text.num_tensors()); ++slot) {
      for (size_t k = 0; k < dims.size(); ++k) {
        const NodeText::Input& input = text.inputs[k];
        if (input.slot != slot || input.is_output != is_output) continue;
        given.insert(given.end(), dims[k].begin(), dims[k].end());
      }
    }
  }
  return given;
}

}  // namespace

void InferOutputs(const Op& op, ort::ShapeInferContext* context) {
  const ort::Api* api = op.api;
  const NodeText text = NodeText::Parse(BytesOf(api, context, kCall, ort::kStringAttribute));
  const std::vector<TVMFFIAny> ints = Attributes::ReadInts(text, api, context);
  const graphffi::ShapeProgram program = ParseProgram(text.ways.front().program, text, ints);
  std::vector<Dims> dims;
  for (size_t k = 0; k < text.inputs.size(); ++k) {
    const NodeText::Input& input = text.inputs[k];
    const bool is_absent = input.role == NodeText::Role::kAbsent;
    dims.push_back(is_absent ? Dims() : DimsOf(api, context, k, input.ndim));
  }
  const Dims given = GivenOf(text, dims);
  std::vector<int64_t> sizes;
  for (const Dim& dim : given) sizes.push_back(dim.size);
  for (const TVMFFIAny& value : ints) sizes.push_back(value.v_int64);
  const std::vector<int64_t> values = program.Infer(std::move(sizes));
  size_t index = 0;
  for (; index < static_cast<size_t>(program.num_results()); ++index) {
    const auto result = static_cast<int32_t>(index);
    Dims of_result;
    for (const int32_t value : program.ResultDims(result)) {
      const auto number = static_cast<size_t>(value);
      of_result.push_back({values[number], number < given.size() ? given[number].symbol : ""});
    }
    SetOutput(api, context, index, program.ResultType(result), std::move(of_result));
  }
  for (size_t k = 0; k < text.inputs.size(); ++k) {
    const NodeText::Input& input = text.inputs[k];
    if (!input.is_output) continue;
    if (input.role != NodeText::Role::kAbsent) {
      SetOutput(api, context, index, input.dtype, dims[k]);
    }
    ++index;
  }
}

}  // namespace graphffi_onnxruntime
