// SPDX-License-Identifier: Apache-2.0
// Shape programs: the first byte says what the traced call is like, the rest is the text. A program
// that parses is run for that call and for calls of other sizes.
#include <algorithm>
#include <climits>
#include <iterator>

#include "call/error.h"
#include "raised.h"
#include "shapes/shape_program.h"

using graphffi::CallValues;
using graphffi::Error;
using graphffi::ResultShapes;
using graphffi::ShapeProgram;

namespace {

/// A matrix, an optional operand, two numbers and a string; one result and an updated vector.
struct Call {
  explicit Call(bool has_optional, int64_t size) {
    std::fill(std::begin(shape), std::end(shape), size);
    matrix = {nullptr, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
    vector = {nullptr, {kDLCPU, 0}, 1, {kDLInt, 64, 1}, shape, nullptr, 0};
    inputs[0] = View(&matrix);
    if (has_optional) inputs[1] = View(&vector);
    outputs[1] = View(&vector);
    attributes[0].type_index = attributes[1].type_index = kTVMFFIInt;
    attributes[0].v_int64 = size;
    attributes[1].v_int64 = -1;
    attributes[2].type_index = kTVMFFIRawStr;
    attributes[2].v_c_str = "mode";
    values.inputs = {inputs, nullptr, 2};
    values.outputs = {outputs, nullptr, 2};
    values.attributes = {attributes, nullptr, 3};
  }

  static TVMFFIAny View(DLTensor* tensor) {
    TVMFFIAny value{};
    value.type_index = kTVMFFIDLTensorPtr;
    value.v_ptr = tensor;
    return value;
  }

  int64_t shape[2];
  DLTensor matrix, vector;
  TVMFFIAny inputs[2]{}, outputs[2]{}, attributes[3]{};
  CallValues values;
};

int64_t Check(const ResultShapes& results) {
  int64_t sum = 0;
  for (int32_t i = 0; i < results.size(); ++i) {
    for (int32_t d = 0; d < results[i].ndim; ++d) sum ^= results[i].shape[d];
  }
  return sum;
}

template <typename Run>
void Try(const Run& run) {
  try {
    run();
  } catch (const Error& error) {
    Require(error.kind() == "InternalError");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool has_optional = data[0] % 2 != 0;
  Try([&] {
    const Call traced(has_optional, 3);
    const ShapeProgram program = ShapeProgram::Parse(text, traced.values);
    ResultShapes results;
    for (int64_t each : {int64_t{3}, int64_t{0}, int64_t{INT_MAX}, INT64_MAX}) {
      if (program.Run(Call(has_optional, each).values, &results)) Require(Check(results) >= 0);
    }
    Require(!program.Run(Call(!has_optional, 3).values, &results));
  });
  return 0;
}
