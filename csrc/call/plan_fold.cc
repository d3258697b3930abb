// SPDX-License-Identifier: Apache-2.0
// Plans whose attributes are known: what of them can be made once is made once.

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
  PlanFolder(const Plan& from, const Bank& attributes, Plan* to)
      : from_(from), attributes_(attributes), to_(to) {
    to_->strings_ = from.strings_;
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
        return AddAttribute(item);
      case Plan::Op::kBeginArray:
        open_.push_back({to_->items_.size(), to_->constants_.size()});
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
    for (OpenArray& array : open_) array.is_constant = false;
  }

  /// The size stays beside the item, as a constant.
  void AddWorkspace(Plan::Item item) {
    if (item.index == Plan::kNoSize) return to_->items_.push_back(item);
    if (item.conversion == Plan::Conversion::kInt) {
      AddConstant(from_.constants_[static_cast<size_t>(item.index)]);
    } else {
      AddAttribute({Plan::Op::kAttribute, {}, item.index});
    }
    to_->items_.back().op = Plan::Op::kWorkspace;
    to_->items_.back().conversion = Plan::Conversion::kInt;
  }

  void AddConstant(const TVMFFIAny& value) {
    to_->items_.push_back({Plan::Op::kConstant, {}, static_cast<int32_t>(to_->constants_.size())});
    to_->constants_.push_back(value);
  }

  /// Takes the reference that `value` holds over.
  void AddOwned(const TVMFFIAny& value) {
    if (IsObject(value)) {
      to_->objects_.emplace_back(value.v_obj, [](void* object) { TVMFFIObjectDecRef(object); });
    }
    AddConstant(value);
  }

  void AddAttribute(const Plan::Item& item) {
    if (item.index >= attributes_.size) {
      throw Error("InternalError", "graphffi: a plan names an attribute that its call lacks");
    }
    const TVMFFIAny& value = attributes_.values[item.index];
    if (item.conversion != Plan::Conversion::kNone) {
      return AddConstant(ConvertAttribute(value, item.conversion));
    }
    if (IsObject(value)) TVMFFIObjectIncRef(value.v_obj);
    AddOwned(value);
  }

  void EndArray(const Plan::Item& item) {
    const OpenArray array = open_.back();
    open_.pop_back();
    if (!array.is_constant) {
      to_->items_.push_back(item);
      return;
    }
    const TVMFFIAny value = MakeArray(
        to_->constants_.data() + array.first_constant,
        static_cast<int32_t>(to_->constants_.size()) - static_cast<int32_t>(array.first_constant));
    to_->items_.resize(array.first_item);
    to_->constants_.resize(array.first_constant);
    AddOwned(value);
  }

  const Plan& from_;
  const Bank& attributes_;
  Plan* to_;
  std::vector<OpenArray> open_;
};

Plan Plan::Fold(const Bank& attributes) const {
  Plan plan;
  PlanFolder(*this, attributes, &plan).Run();
  plan.Finish();
  return plan;
}

}  // namespace graphffi
