// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/define.h"
#include "bindings/function.h"
#include "call/describe_tensor.h"
#include "call/error.h"
#include "call/global_function.h"
#include "call/placed_call.h"
#include "call/returned.h"
#include "call/signature.h"
#include "call/value.h"
#include "env/allocation.h"
#include "env/env_scope.h"
#include "env/shared_allocator.h"
#include "kernels/kernel_slot.h"
#include "shapes/conditions.h"

namespace graphffi::bindings {

namespace {

/// A function of tensors and numbers in the order of the canonical names that calls a kernel by a
/// plan: for compilers that call functions and know no plans. Its arguments are the inputs, the
/// operands that the kernel updates, the numbers and texts, the results, and the updated operands'
/// new values, into which it first copies the operands. Immutable; runs on any thread, without
/// Python.
class PlanFunction {
 public:
  PlanFunction(const std::string& func, const std::string& plan, const Counts& counts,
               std::shared_ptr<const TensorNames> names, int32_t num_updated,
               const std::string& conditions, const std::string& copy)
      : kernel_(func),
        signature_(Signature::Parse(plan, std::move(names), counts)),
        counts_(counts),
        num_updated_(num_updated),
        copy_(FindRequired(copy)),
        allocator_(SharedAllocator::Get().allocate) {
    if (!conditions.empty()) conditions_ = Conditions::Parse(conditions);
  }

  static int SafeCall(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny*) noexcept {
    return RaiseErrors("InternalError",
                       [&] { static_cast<const PlanFunction*>(self)->Call(args, num_args); });
  }
  static void Delete(void* self) { delete static_cast<PlanFunction*>(self); }

 private:
  /// Where the values of each class begin among the arguments.
  int32_t updated() const { return counts_.inputs; }
  int32_t attributes() const { return updated() + num_updated_; }
  int32_t outputs() const { return attributes() + signature_.num_attributes(); }
  int32_t num_args() const { return outputs() + counts_.outputs; }
  int32_t num_results() const { return counts_.outputs - num_updated_; }

  void Call(const TVMFFIAny* args, int32_t num_args) const;
  void CheckArguments(const TVMFFIAny* args, int32_t num_args) const;
  void CheckConditions(const TVMFFIAny* args) const;
  void CopyUpdated(const TVMFFIAny* args) const;
  void Run(const CallValues& values) const;
  /// CopyTensor with a PlanFunction as context.
  static void CopyTo(void* self, const DLTensor& from, const DLTensor& to);

  KernelSlot kernel_;
  Signature signature_;
  Counts counts_;
  int32_t num_updated_;
  ObjectRef copy_;
  DLPackManagedTensorAllocator allocator_;
  std::optional<Conditions> conditions_;
};

void PlanFunction::Call(const TVMFFIAny* args, int32_t num_args) const {
  CheckArguments(args, num_args);
  if (conditions_.has_value()) CheckConditions(args);
  CopyUpdated(args);
  CallValues values;
  values.inputs = {args, nullptr, counts_.inputs};
  values.attributes = {args + attributes(), nullptr, signature_.num_attributes()};
  values.outputs = {args + outputs(), nullptr, counts_.outputs};
  const CallPlace place = PlaceOf({values.outputs, values.inputs});
  values.device = place.device;
  values.stream = place.stream;
  if (values.device.device_type != kDLCPU) return Run(values);  // whoever calls has set the env
  const AllocatorScope env(&AllocateOnHeap, allocator_);
  Run(values);
}

void PlanFunction::CheckArguments(const TVMFFIAny* args, int32_t num_args) const {
  if (num_args != this->num_args()) {
    throw Error("TypeError", signature_.subject() + ": expected " +
                                 Counted(this->num_args(), "argument") + ", got " +
                                 std::to_string(num_args));
  }
  for (int32_t i = 0; i < num_args; ++i) {
    const bool is_attribute = i >= attributes() && i < outputs();
    const bool may_be_none = i < counts_.inputs && args[i].type_index == kTVMFFINone;
    if (!is_attribute && !may_be_none && graphffi::TensorOf(args[i]) == nullptr) {
      throw Error("TypeError", signature_.subject() + ": argument " + std::to_string(i) +
                                   ": expected a tensor, got another value");
    }
  }
}

void PlanFunction::CheckConditions(const TVMFFIAny* args) const {
  std::vector<const DLTensor*> tensors;  // NULL for None
  for (int32_t i = 0; i < counts_.inputs; ++i) tensors.push_back(graphffi::TensorOf(args[i]));
  for (int32_t i = outputs(); i < num_args(); ++i) tensors.push_back(graphffi::TensorOf(args[i]));
  const auto broken =
      conditions_->FindBroken(tensors.data(), static_cast<int32_t>(tensors.size()), nullptr);
  if (broken.has_value()) {
    throw Error(broken->kind, signature_.subject() + ": " + broken->message);
  }
}

void PlanFunction::CopyTo(void* self, const DLTensor& from, const DLTensor& to) {
  const TVMFFIObjectHandle copy = static_cast<const PlanFunction*>(self)->copy_.get();
  TVMFFIAny args[] = {ToAny(const_cast<DLTensor*>(&from)), ToAny(const_cast<DLTensor*>(&to))};
  TVMFFIAny result{};
  CheckRc(TVMFFIFunctionCall(copy, args, 2, &result));
  ReleaseValue(&result);
}

void PlanFunction::CopyUpdated(const TVMFFIAny* args) const {
  for (int32_t i = 0; i < num_updated_; ++i) {
    const DLTensor& from = *graphffi::TensorOf(args[updated() + i]);
    const DLTensor& to = *graphffi::TensorOf(args[outputs() + num_results() + i]);
    if (DataOf(from) != DataOf(to)) CopyTo(const_cast<PlanFunction*>(this), from, to);
  }
}

void PlanFunction::Run(const CallValues& values) const {
  const KernelSlot::Use kernel(kernel_);
  const int32_t first_passed = signature_.plan().first_output();
  const bool is_filled = first_passed == 0 || counts_.outputs == 0;
  CallFrame frame;
  frame.PushPlan(signature_, values);
  CallForResults(
      kernel.kernel(), is_filled,
      [&] {
        const auto tensors = DeclaredTensors::Of(signature_, values.inputs, values.outputs,
                                                 num_results(), kernel_.reference().c_str());
        return Results{tensors, std::min(first_passed, counts_.outputs), is_filled, &CopyTo,
                       const_cast<PlanFunction*>(this)};
      },
      &frame);
}

py::object MakePlanFunction(const std::string& func, const std::string& plan,
                            const std::vector<int32_t>& counts, int32_t num_updated,
                            const std::string& subject, const std::string& names,
                            const std::string& conditions, const std::string& copy) {
  if (counts.size() != 5) throw py::value_error("graphffi: counts: expected 5");
  const Counts known{counts[0], counts[1], counts[2], counts[3], counts[4]};
  if (num_updated < 0 || num_updated > known.outputs) {
    throw py::value_error("graphffi: num_updated: expected at most the outputs");
  }
  auto made = std::make_unique<PlanFunction>(func, plan, known, TensorNames::Parse(subject, names),
                                             num_updated, conditions, copy);
  TVMFFIObjectHandle function = nullptr;
  CheckRc(
      TVMFFIFunctionCreate(made.get(), &PlanFunction::SafeCall, &PlanFunction::Delete, &function));
  static_cast<void>(made.release());  // the function owns it
  const py::str name(subject);
  return py::reinterpret_steal<py::object>(WrapFunction(ObjectRef(function), name.ptr()));
}

}  // namespace

void DefinePlanFunction(py::module_& module) {
  module.def(
      "plan_function", &MakePlanFunction, py::arg("func"), py::arg("plan"), py::arg("counts"),
      py::arg("num_updated"), py::arg("subject"), py::arg("names"), py::arg("conditions"),
      py::arg("copy"),
      "Return a function of the inputs, the last `num_updated` outputs' old values, the numbers "
      "and texts, and the outputs, that calls the kernel `func` by a canonical plan. `copy` is the "
      "global function that copies a tensor into another.");
}

}  // namespace graphffi::bindings
