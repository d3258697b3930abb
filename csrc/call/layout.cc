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

class LayoutMaker {
 public:
  LayoutMaker(const Plan& plan, int32_t num_inputs, int32_t num_outputs, int32_t num_attributes)
      : plan_(plan), inputs_{num_inputs}, outputs_{num_outputs}, attributes_{num_attributes} {}

  bool Run() {
    if (!plan_.is_flat()) return false;
    for (const Plan::Item& item : plan_.items()) {
      if (!Add(item)) return false;
    }
    int32_t end = num_args_;
    for (Placing* placing : {&inputs_, &outputs_, &attributes_}) {
      if (placing->named == placing->count) continue;
      if (placing->named != 0) return false;
      placing->begin = end;
      end += placing->count;
    }
    return end <= Layout::kRoom && num_args_ > 0;
  }

  Layout Result() {
    return {inputs_.Range(), outputs_.Range(), attributes_.Range(), num_args_,
            std::move(constants_)};
  }

 private:
  bool Add(const Plan::Item& item) {
    switch (item.op) {
      case Plan::Op::kInput:
        return Advance(&inputs_, item.index, 1);
      case Plan::Op::kOutput:
        return Advance(&outputs_, item.index, 1);
      case Plan::Op::kAttribute:
        return Advance(&attributes_, item.index, 1);
      case Plan::Op::kAllInputs:
        return Advance(&inputs_, 0, inputs_.count);
      case Plan::Op::kAllOutputs:
        return Advance(&outputs_, 0, outputs_.count);
      default:
        constants_.emplace_back(num_args_++, plan_.constants()[static_cast<size_t>(item.index)]);
        return true;
    }
  }

  bool Advance(Placing* placing, int32_t first, int32_t number) {
    const bool fits = placing->Place(first, number, num_args_);
    num_args_ += number;
    return fits;
  }

  const Plan& plan_;
  Placing inputs_, outputs_, attributes_;
  int32_t num_args_ = 0;
  std::vector<std::pair<int32_t, TVMFFIAny>> constants_;
};

}  // namespace

Layout Layout::Of(const Plan& plan, int32_t num_inputs, int32_t num_outputs,
                  int32_t num_attributes) {
  LayoutMaker maker(plan, num_inputs, num_outputs, num_attributes);
  return maker.Run() ? maker.Result() : Apart();
}

}  // namespace graphffi
