// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/define.h"
#include "bindings/function.h"
#include "bindings/raised.h"
#include "call/placed_call.h"
#include "call/signature.h"
#include "call/value.h"
#include "env/allocation.h"
#include "env/env_scope.h"
#include "kernels/kernel_ref.h"

namespace graphffi::bindings {

namespace {

constexpr size_t kMostSignatures = 1024;

/// The signature that these make; the latest are kept. Guarded by the GIL.
std::shared_ptr<const Signature> CachedSignature(const std::string& plan, const Counts& counts,
                                                 const std::string& subject,
                                                 const std::string& names) {
  using Key = std::tuple<std::string, Counts, std::string, std::string>;
  static auto* signatures = new std::map<Key, std::shared_ptr<const Signature>>;
  Key key(plan, counts, subject, names);
  const auto found = signatures->find(key);
  if (found != signatures->end()) return found->second;
  auto made = std::make_shared<const Signature>(
      Signature::Parse(plan, TensorNames::Parse(subject, names), counts));
  if (signatures->size() >= kMostSignatures) signatures->clear();
  signatures->emplace(std::move(key), made);
  return made;
}

int32_t SizeOf(const py::list& bank) { return static_cast<int32_t>(bank.size()); }

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

/// What kernels and the workspace get: of the arguments, or of the first tensor on a device.
Env EnvOf(const Arguments& arguments, std::initializer_list<Bank> banks) {
  Env env;
  env.allocator = &AllocateOnHeap;  // where no framework brings one
  if (arguments.opt_env() != nullptr) env = *arguments.opt_env();
  if (env.device.device_type != kDLCPU) return env;
  const CallPlace place = PlaceOf(banks);
  if (place.device.device_type == kDLCPU) return env;
  // The runtime's own tensors name none: whoever calls has set both.
  env.device = place.device;
  env.stream = place.stream;
  if (arguments.opt_env() == nullptr) env.allocator = TVMFFIEnvGetDLPackManagedTensorAllocator();
  return env;
}

py::object CallPlan(py::handle function, const std::string& plan, py::list inputs, py::list outputs,
                    py::list ints, py::list floats, py::list strs, const py::str& subject,
                    int32_t num_fresh, const std::string& names) {
  HandleOf(function, FunctionType());
  const std::shared_ptr<const Signature> signature = CachedSignature(
      plan, {SizeOf(inputs), SizeOf(outputs), SizeOf(ints), SizeOf(floats), SizeOf(strs)},
      subject.cast<std::string>(), names);
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
  // For the workspace, and where no argument brings an env, for the kernel too.
  const Env env = EnvOf(arguments, {values.inputs, values.outputs});
  const EnvScope scope(env.device, env.stream, env.allocator);
  values.device = env.device;
  values.stream = env.stream;
  CallFrame frame(arguments.loans());
  frame.PushPlan(*signature, values);
  const auto declared = DeclaredTensors::Of(*signature, values.inputs, values.outputs, num_fresh);
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
    for (const py::handle value : values) {
      const TVMFFIAny view = arguments.View(value.ptr());
      const DLTensor* opt_tensor = graphffi::TensorOf(view);
      if (opt_tensor != nullptr && opt_tensor->device.device_type != kDLCPU) {
        return py::reinterpret_borrow<py::object>(Py_NotImplemented);
      }
      frame.Push(view);
    }
  } catch (const PythonError&) {
    if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw;  // such as KeyboardInterrupt
    PyErr_Clear();
    return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  }
  if (arguments.opt_env() != nullptr) return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  const EnvScope env({kDLCPU, 0}, nullptr, &AllocateOnHeap);
  DeclaredTensors declared;
  declared.subject = PyUnicode_AsUTF8(subject.ptr());
  if (declared.subject == nullptr) throw PythonError();
  return py::reinterpret_steal<py::object>(
      CallWithFrame(*reinterpret_cast<PyFunction*>(function.ptr()), frame, arguments, &declared));
}

void CheckPlan(const std::string& plan, const std::vector<int32_t>& counts,
               const std::string& subject) {
  if (counts.size() != 5) throw py::value_error("graphffi: counts: expected 5");
  Signature::Parse(plan, TensorNames::Parse(subject, ""),
                   Counts{counts[0], counts[1], counts[2], counts[3], counts[4]});
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
