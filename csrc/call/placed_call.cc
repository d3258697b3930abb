// SPDX-License-Identifier: Apache-2.0
#include "call/placed_call.h"

#include <tvm/ffi/extra/c_env_api.h>

#include <utility>

#include "call/value.h"

namespace graphffi {

namespace {

/// Makes tensors that are lent of views.
void LendViews(TVMFFIAny* values, int32_t count, Loans* loans) {
  for (int32_t i = 0; i < count; ++i) {
    values[i] = loans->Lend(static_cast<const DLTensor*>(values[i].v_ptr));
  }
}

}  // namespace

CallPlace PlaceOf(std::initializer_list<Bank> banks) {
  for (const Bank& bank : banks) {
    for (int32_t i = 0; i < bank.num_values(); ++i) {
      const DLTensor* opt_tensor = TensorOf(bank.values[i]);
      if (opt_tensor == nullptr || opt_tensor->device.device_type == kDLCPU) continue;
      const DLDevice device = opt_tensor->device;
      return {device, TVMFFIEnvGetStream(device.device_type, device.device_id)};
    }
  }
  return {};
}

PlacedCall PlacedCall::Of(const Signature& signature, int32_t num_inputs, int32_t num_outputs,
                          int32_t num_returned, bool lends, bool may_return_nothing) {
  Layout layout = signature.ExactLayout(num_inputs, num_outputs);
  const auto num_values = num_inputs + num_outputs + signature.num_attributes() +
                          static_cast<int32_t>(layout.constants.size());
  const bool is_passed = num_returned == 0 || signature.plan().first_output() < num_returned;
  const bool is_filled = is_passed || may_return_nothing;
  const bool needs_frame = lends || !layout.is_in_order();
  return {std::move(layout), num_inputs, num_outputs, num_values, num_returned,
          num_returned,      lends,      is_passed,   is_filled,  needs_frame};
}

Results PlacedCall::ResultsOf(const Signature& signature, const char* reference,
                              const TVMFFIAny* values) const {
  const Bank inputs{values + layout.inputs.begin, nullptr, num_inputs};
  const Bank outputs{values + layout.outputs.begin, nullptr, num_outputs};
  return {DeclaredTensors::Of(signature, inputs, outputs, num_fresh, reference), num_returned,
          is_passed};
}

/// Calls that lend tensors, or whose plans pick their arguments or make some.
void PlacedCall::CallInFrame(const Signature& signature, const Kernel& kernel,
                             const char* reference, const CallPlace& place,
                             TVMFFIAny* values) const {
  Loans loans(kWithoutRetaining);  // the graph's compiler takes its memory back
  if (lends) {
    LendViews(values + layout.inputs.begin, num_inputs, &loans);
    LendViews(values + layout.outputs.begin, num_outputs, &loans);
  }
  const auto results = [&] { return ResultsOf(signature, reference, values); };
  if (layout.is_in_order()) {
    layout.PutConstants(values);
    PlacedFrame frame(&loans, values, layout.num_args);
    return CallForResults(kernel, is_filled, results, &frame);
  }
  const DeclaredTensors tensors = results().tensors;
  const Bank attributes{values + layout.attributes.begin, nullptr, layout.attributes.capacity};
  CallFrame frame(lends ? &loans : nullptr);
  frame.PushPlan(signature, {tensors.inputs, tensors.outputs, attributes, place.stream,
                             place.workspace, place.device});
  CallForResults(kernel, is_filled, results, &frame);
}

}  // namespace graphffi
