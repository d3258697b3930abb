// SPDX-License-Identifier: Apache-2.0
#include "call/layout.h"

#include <utility>

namespace graphffi {

namespace {

/// One class of values while a plan is read.
struct Placing {
  int32_t count;  // of slots
  int32_t begin = 0, named = 0;

  /// Whether slots from `first` on, `number` of them, can stand at `position`.
  bool Place(int32_t first, int32_t number, int32_t position) {
    if (named == 0) begin = position;
    if (first != named || begin + named != position) return false;
    named += number;
    return named <= count;
  }
  Layout::Range Range() const { return {begin, count}; }
};

}  // namespace

Layout Layout::Of(const Plan& plan, int32_t num_inputs, int32_t num_outputs,
                  int32_t num_attributes) {
  if (!plan.is_flat()) return Apart();
  Placing inputs{num_inputs}, outputs{num_outputs}, attributes{num_attributes};
  std::vector<std::pair<int32_t, TVMFFIAny>> constants;
  int32_t num_args = 0;
  for (const Plan::Item& item : plan.items()) {
    if (item.op == Plan::Op::kConstant) {
      constants.emplace_back(num_args++, plan.constants()[static_cast<size_t>(item.index)]);
      continue;
    }
    const bool is_all = item.op == Plan::Op::kAllInputs || item.op == Plan::Op::kAllOutputs;
    const bool is_input = item.op == Plan::Op::kInput || item.op == Plan::Op::kAllInputs;
    Placing& placing = is_input ? inputs : item.op == Plan::Op::kAttribute ? attributes : outputs;
    const int32_t number = is_all ? placing.count : 1;
    if (!placing.Place(is_all ? 0 : item.index, number, num_args)) return Apart();
    num_args += number;
  }
  int32_t end = num_args;
  for (Placing* placing : {&inputs, &outputs, &attributes}) {
    if (placing->named == placing->count) continue;
    if (placing->named != 0) return Apart();
    placing->begin = end;
    end += placing->count;
  }
  if (end > kRoom || num_args == 0) return Apart();
  return {inputs.Range(), outputs.Range(), attributes.Range(), num_args, std::move(constants)};
}

}  // namespace graphffi
