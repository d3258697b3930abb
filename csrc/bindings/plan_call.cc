// SPDX-License-Identifier: Apache-2.0
#include "bindings/plan_call.h"

#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "bindings/function.h"
#include "bindings/raised.h"
#include "env/allocation.h"
#include "env/env_scope.h"
#include "kernels/kernel_ref.h"
#include "callframe/plan.h"

namespace graphffi::bindings {

namespace {

/// Plans by text and counts; guarded by the GIL, kept for the rest of the process.
const Plan& CachedPlan(const std::string& text, const py::list (&banks)[5],
                       const std::string& subject) {
  static auto* plans = new std::unordered_map<std::string, std::unique_ptr<Plan>>;
  std::string key;
  int32_t counts[5];
  for (int i = 0; i < 5; ++i) {
    counts[i] = static_cast<int32_t>(banks[i].size());
    key += std::to_string(counts[i]) + ",";
  }
  key += text;
  const auto found = plans->find(key);
  if (found != plans->end()) return *found->second;
  const PlanNames names = PlanNames::Raw(counts[0], counts[1], counts[2], counts[3], counts[4]);
  auto plan = std::make_unique<Plan>(Plan::Parse(text, names, subject));
  return *plans->emplace(std::move(key), std::move(plan)).first->second;
}

/// The values of one bank, as views of `arguments`.
void AddViews(const char* name, const py::list& bank, Arguments* arguments,
              std::vector<TVMFFIAny>* views) {
  for (size_t i = 0; i < bank.size(); ++i) {
    arguments->SetPosition(name, static_cast<Py_ssize_t>(i));
    views->push_back(arguments->View(bank[i].ptr()));
  }
}

Bank AsBank(const std::vector<TVMFFIAny>& views) {
  Bank bank;
  bank.values = views.data();
  bank.size = static_cast<int32_t>(views.size());
  return bank;
}

py::object CallPlan(py::handle function, const std::string& plan_text, py::list inputs,
                    py::list outputs, py::list ints, py::list floats, py::list strs,
                    const py::str& subject) {
  HandleOf(function, FunctionType());
  const Plan& plan =
      CachedPlan(plan_text, {inputs, outputs, ints, floats, strs}, subject.cast<std::string>());
  Arguments arguments(subject.ptr());
  std::vector<TVMFFIAny> input_views, output_views, attribute_views;
  AddViews("input i", inputs, &arguments, &input_views);
  AddViews("output o", outputs, &arguments, &output_views);
  AddViews("attribute n", ints, &arguments, &attribute_views);
  AddViews("attribute f", floats, &arguments, &attribute_views);
  AddViews("attribute s", strs, &arguments, &attribute_views);
  CallValues values;
  values.inputs = AsBank(input_views);
  values.outputs = AsBank(output_views);
  values.attributes = AsBank(attribute_views);
  values.stream = arguments.opt_env() == nullptr ? nullptr : arguments.opt_env()->stream;
  // For the workspace, and on the host, where no framework brings an allocator, for the kernel too.
  const Env* opt_env = arguments.opt_env();
  const EnvScope env(opt_env == nullptr ? values.device : opt_env->device, values.stream,
                     opt_env == nullptr ? &AllocateOnHeap : opt_env->allocator);
  if (opt_env != nullptr) values.device = opt_env->device;
  CallFrame frame(arguments.loans());
  frame.PushPlan(plan, values);
  return py::reinterpret_steal<py::object>(
      CallWithFrame(*reinterpret_cast<PyFunction*>(function.ptr()), frame, arguments));
}

void CheckPlan(const std::string& plan, const std::vector<int32_t>& counts,
               const std::string& subject) {
  if (counts.size() != 5) throw py::value_error("graphffi: counts: expected 5");
  const PlanNames names = PlanNames::Raw(counts[0], counts[1], counts[2], counts[3], counts[4]);
  Plan::Parse(plan, names, subject);
}

py::object ResolveReference(const std::string& reference) {
  ObjectRef function(ResolveKernel(reference));
  const size_t separator = reference.rfind("::");
  const py::str name(separator == std::string::npos ? reference : reference.substr(separator + 2));
  const py::str text(reference);
  return py::reinterpret_steal<py::object>(
      WrapFunction(std::move(function), name.ptr(), text.ptr()));
}

}  // namespace

void DefinePlanCall(py::module_& module) {
  module.def(
      "call_plan", &CallPlan, py::arg("function"), py::arg("plan"), py::arg("inputs"),
      py::arg("outputs"), py::arg("ints"), py::arg("floats"), py::arg("strs"), py::arg("subject"),
      "Call `function` with what `plan` says of the banks; `subject` begins the text of errors.");
  module.def(
      "check_plan", &CheckPlan, py::arg("plan"), py::arg("counts"), py::arg("subject"),
      "Raise ValueError for a canonical plan that does not parse; `counts` are those of inputs, "
      "outputs, ints, floats and strs.");
  module.def("resolve_kernel", &ResolveReference, py::arg("reference"),
             "Return the function that a kernel reference names.");
}

}  // namespace graphffi::bindings
