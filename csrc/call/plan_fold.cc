// SPDX-License-Identifier: Apache-2.0
// Plans whose attributes are known: what of them can be made once is made once.

#include <algorithm>
#include <utility>

#include "call/call_frame.h"
#include "call/convert.h"
#include "call/error.h"
#include "call/plan.h"
#include "call/value.h"

namespace graphffi {

/// Copies items from one plan to another; remembers where the arrays begin that are constant so
/// far.
class PlanFolder {
 public:
  PlanFolder(const Plan& from, const std::vector<tvm::ffi::Any>& attributes,
             const std::vector<int32_t>& open, Plan* to)
      : from_(from), attributes_(attributes), open_(open), to_(to) {
    to_->strings_ = from.strings_;
    to_->sizes_ = from.sizes_;
  }

  void Run() {
    for (const Plan::Item& item : from_.items_) Add(item);
  }

 private:
  struct OpenArray {
    size_t first_item, first_constant;
    bool is_constant = true;
  };

  void Add(const Plan::Item& item) {
    switch (item.op) {
      case Plan::Op::kConstant:
        return AddConstant(from_.constants_[static_cast<size_t>(item.index)]);
      case Plan::Op::kAttribute:
        if (AddAttribute(item)) return;
        break;
      case Plan::Op::kBeginArray:
        arrays_.push_back({to_->items_.size(), to_->constants_.size()});
        to_->items_.push_back(item);
        return;
      case Plan::Op::kEndArray:
        return EndArray(item);
      case Plan::Op::kWorkspace:
        AddWorkspace(item);
        break;
      default:
        to_->items_.push_back(item);
    }
    for (OpenArray& array : arrays_) array.is_constant = false;
  }

  /// A size that is known stays beside the item, as a constant.
  void AddWorkspace(Plan::Item item) {
    if (item.index == Plan::kNoSize) return to_->items_.push_back(item);
    bool is_known = true;
    if (item.conversion == Plan::Conversion::kInt) {
      AddConstant(from_.constants_[static_cast<size_t>(item.index)]);
    } else {
      is_known = AddAttribute({Plan::Op::kAttribute, {}, item.index});
    }
    to_->items_.back().op = Plan::Op::kWorkspace;
    if (is_known) to_->items_.back().conversion = Plan::Conversion::kInt;
  }

  void AddConstant(const TVMFFIAny& value) {
    to_->items_.push_back({Plan::Op::kConstant, {}, static_cast<int32_t>(to_->constants_.size())});
    to_->constants_.push_back(value);
  }

  void AddOwned(tvm::ffi::Any value) {
    AddConstant(tvm::ffi::AnyView(value).CopyToTVMFFIAny());
    to_->objects_.push_back(std::move(value));
  }

  /// False for one that calls give.
  bool AddAttribute(const Plan::Item& item) {
    const auto place = std::find(open_.begin(), open_.end(), item.index);
    if (place != open_.end()) {
      const auto number = static_cast<int32_t>(place - open_.begin());
      to_->items_.push_back({item.op, item.conversion, number});
      return false;
    }
    if (static_cast<size_t>(item.index) >= attributes_.size()) {
      throw Error("InternalError", "graphffi: a plan names an attribute that its call lacks");
    }
    const tvm::ffi::Any& value = attributes_[static_cast<size_t>(item.index)];
    if (item.conversion == Plan::Conversion::kNone) {
      AddOwned(value);
    } else {
      AddConstant(ConvertAttribute(tvm::ffi::AnyView(value).CopyToTVMFFIAny(), item.conversion));
    }
    return true;
  }

  void EndArray(const Plan::Item& item) {
    const OpenArray array = arrays_.back();
    arrays_.pop_back();
    if (!array.is_constant) {
      to_->items_.push_back(item);
      return;
    }
    tvm::ffi::Any value = TakeAny(MakeArray(
        to_->constants_.data() + array.first_constant,
        static_cast<int32_t>(to_->constants_.size()) - static_cast<int32_t>(array.first_constant)));
    to_->items_.resize(array.first_item);
    to_->constants_.resize(array.first_constant);
    AddOwned(std::move(value));
  }

  const Plan& from_;
  const std::vector<tvm::ffi::Any>& attributes_;
  const std::vector<int32_t>& open_;
  Plan* to_;
  std::vector<OpenArray> arrays_;
};

Plan Plan::Fold(const std::vector<tvm::ffi::Any>& attributes,
                const std::vector<int32_t>& open) const {
  Plan plan;
  PlanFolder(*this, attributes, open, &plan).Run();
  plan.Finish();
  return plan;
}

}  // namespace graphffi
