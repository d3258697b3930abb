// SPDX-License-Identifier: Apache-2.0
// Plans: the first byte says how many values of each class a call has, the rest is the text. A plan
// that parses is executed.
#include <cstring>

#include "call/call_frame.h"
#include "call/error.h"
#include "call/signature.h"
#include "raised.h"

using graphffi::CallFrame;
using graphffi::CallValues;
using graphffi::Counts;
using graphffi::Error;
using graphffi::Signature;
using graphffi::TensorNames;

namespace {

/// Reads all of what it gets, as a kernel would.
int Read(void*, const TVMFFIAny* args, int32_t num_args, TVMFFIAny*) {
  for (int32_t i = 0; i < num_args; ++i) {
    if (args[i].type_index == kTVMFFIRawStr) Require(std::strlen(args[i].v_c_str) < 100000);
    if (args[i].type_index >= kTVMFFIStaticObjectBegin) {
      Require(args[i].v_obj->combined_ref_count != 0);
    }
  }
  return 0;
}

TVMFFIAny Value(int32_t type_index) {
  TVMFFIAny value{};
  value.type_index = type_index;
  return value;
}

struct Call {
  explicit Call(int num_each) {
    tensor = {nullptr, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &size, nullptr, 0};
    for (int i = 0; i < num_each; ++i) {
      tensors[i] = Value(kTVMFFIDLTensorPtr);
      tensors[i].v_ptr = &tensor;
      attributes[i] = Value(kTVMFFIInt);
      attributes[num_each + i] = Value(kTVMFFIFloat);
      attributes[2 * num_each + i] = Value(kTVMFFIRawStr);
      attributes[2 * num_each + i].v_c_str = i == 0 ? "float32" : "cuda:1";
    }
    values.inputs = {tensors, nullptr, num_each};
    values.outputs = {tensors, nullptr, num_each};
    values.attributes = {attributes, nullptr, 3 * num_each};
  }

  int64_t size = 0;
  DLTensor tensor{};
  TVMFFIAny tensors[3];
  TVMFFIAny attributes[9];
  CallValues values;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const int num_each = data[0] % 4;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Counts counts{num_each, num_each, num_each, num_each, num_each};
  try {
    const Signature signature = Signature::Parse(text, TensorNames::Parse("fuzzed", ""), counts);
    Call call(num_each);
    CallFrame frame;
    frame.PushPlan(signature, call.values);
    TVMFFIAny result;
    Require(frame.Call({Read, nullptr}, &result) == 0);
  } catch (const Error& error) {
    Require(error.kind() == "ValueError" || error.kind() == "TypeError");
  }
  return 0;
}
