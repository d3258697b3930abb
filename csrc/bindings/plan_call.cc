// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "bindings/define.h"
#include "bindings/function.h"
#include "bindings/raised.h"
#include "call/plan.h"
#include "env/allocation.h"
#include "env/env_scope.h"
#include "kernels/kernel_ref.h"
#include "observe/watch.h"

namespace graphffi::bindings {

namespace {

constexpr size_t kMostPlans = 1024;

/// The plan of that text and counts; the latest are kept. Guarded by the GIL.
std::shared_ptr<const Plan> CachedPlan(const std::string& text, const py::list (&banks)[5],
                                       const std::string& subject) {
  static auto* plans = new std::unordered_map<std::string, std::shared_ptr<const Plan>>;
  std::string key;
  int32_t counts[5];
  for (int i = 0; i < 5; ++i) {
    counts[i] = static_cast<int32_t>(banks[i].size());
    key += std::to_string(counts[i]) + ",";
  }
  key += text;
  const auto found = plans->find(key);
  if (found != plans->end()) return found->second;
  const PlanNames names = PlanNames::Raw(counts[0], counts[1], counts[2], counts[3], counts[4]);
  auto plan = std::make_shared<const Plan>(Plan::Parse(text, names, subject));
  if (plans->size() >= kMostPlans) plans->clear();
  plans->emplace(std::move(key), plan);
  return plan;
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
                    const py::str& subject, int32_t num_fresh, const std::string& names) {
  HandleOf(function, FunctionType());
  const std::shared_ptr<const Plan> plan =
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
  frame.PushPlan(*plan, values);
  const TensorNames tensor_names = IsDebugging() ? TensorNames::Parse(names) : TensorNames();
  const std::string subject_text = subject;
  const DeclaredTensors declared{values.inputs,        values.outputs,        num_fresh,
                                 &tensor_names.inputs, &tensor_names.outputs, subject_text.c_str()};
  return py::reinterpret_steal<py::object>(
      CallWithFrame(*reinterpret_cast<PyFunction*>(function.ptr()), frame, arguments, &declared));
}

/// CallPlan for a plan that names the values in order. Returns NotImplemented, and has done
/// nothing, if kernels cannot be given one of the values.
py::object CallInOrder(py::handle function, const py::tuple& values, const py::str& subject) {
  HandleOf(function, FunctionType());
  Arguments arguments(subject.ptr());
  CallFrame frame(arguments.loans());
  try {
    for (const py::handle value : values) frame.Push(arguments.View(value.ptr()));
  } catch (const PythonError&) {
    if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw;  // such as KeyboardInterrupt
    PyErr_Clear();
    return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  }
  if (arguments.opt_env() != nullptr) return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  const EnvScope env({kDLCPU, 0}, nullptr, &AllocateOnHeap);
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
  ObjectRef function = ResolveKernel(reference);
  const size_t separator = reference.rfind("::");
  const py::str name(separator == std::string::npos ? reference : reference.substr(separator + 2));
  const py::str text(reference);
  return py::reinterpret_steal<py::object>(
      WrapFunction(std::move(function), name.ptr(), text.ptr()));
}

}  // namespace

void DefinePlanCall(py::module_& module) {
  module.attr("max_array_depth") = kMaxArrayDepth;
  module.def(
      "call_plan", &CallPlan, py::arg("function"), py::arg("plan"), py::arg("inputs"),
      py::arg("outputs"), py::arg("ints"), py::arg("floats"), py::arg("strs"), py::arg("subject"),
      py::arg("num_fresh") = 0, py::arg("names") = "",
      "Call `function` with what `plan` says of the banks; `subject` begins the text of errors. "
      "For GRAPHFFI_DEBUG=1: the first `num_fresh` outputs are new, `names` are those of tensors.");
  module.def("call_in_order", &CallInOrder, py::arg("function"), py::arg("values"),
             py::arg("subject"),
             "Call `function` with values on the host, or return NotImplemented.");
  module.def(
      "check_plan", &CheckPlan, py::arg("plan"), py::arg("counts"), py::arg("subject"),
      "Raise ValueError for a canonical plan that does not parse; `counts` are those of inputs, "
      "outputs, ints, floats and strs.");
  module.def("resolve_kernel", &ResolveReference, py::arg("reference"),
             "Return the function that a kernel reference names.");
}

}  // namespace graphffi::bindings
