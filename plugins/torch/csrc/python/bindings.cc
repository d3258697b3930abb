// SPDX-License-Identifier: Apache-2.0
// The extension module _C: what Python needs to register ops, and Python exceptions for C++ errors.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aot_error.h"
#include "call_op.h"
#include "gil/gil.h"
#include "graphffi_torch/package.h"
#include "kernels/kernel_ref.h"
#include "op_forms.h"
#include "python/direct_call.h"
#include "python/python_rule.h"
#include "python/raise.h"
#include "python/raw_call.h"
#include "python/site_object.h"
#include "python/tensor_viewer.h"
#include "vjp_node.h"

namespace py = pybind11;

namespace graphffi_torch {
namespace {

py::object ToPython(const c10::IValue& value) {
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return py::none();
    PyObject* object = THPVariable_Wrap(value.toTensor());
    if (object == nullptr) ThrowPending();
    return py::reinterpret_steal<py::object>(object);
  }
  if (value.isNone()) return py::none();
  if (value.isBool()) return py::bool_(value.toBool());
  if (value.isInt()) return py::int_(value.toInt());
  if (value.isSymInt()) return py::int_(value.toSymInt().guard_int(__FILE__, __LINE__));
  if (value.isDouble()) return py::float_(value.toDouble());
  if (value.isSymFloat()) return py::float_(value.toSymFloat().guard_float(__FILE__, __LINE__));
  if (value.isString()) return py::str(value.toStringRef());
  py::list list;
  for (const c10::IValue& item : value.toListRef()) list.append(ToPython(item));
  return list;
}

/// A gradient rule in Python:
/// `backward(arguments, specs, results, cotangents) -> [torch.Tensor | None, …]`, checked there.
class PythonGradientRule : public GradientRule {
 public:
  /// Takes a reference and keeps it: the operator outlives the interpreter.
  PythonGradientRule(std::vector<bool> saved_arguments, std::vector<bool> saved_results,
                     py::object backward)
      : GradientRule(std::move(saved_arguments), std::move(saved_results)),
        backward_(backward.release().ptr()) {}

  torch::autograd::variable_list Apply(const BackwardCall& call) const override {
    const graphffi::GilHold gil;
    gil.Check();
    try {
      py::list arguments, specs;
      for (const BackwardArgument& argument : call.arguments) {
        arguments.append(ToSymbolicPython(argument.value));
        specs.append(SpecsOf(argument));
      }
      const py::list results = ToList(call.results), cotangents = ToList(call.cotangents);
      PyObject* returned = graphffi::UntilShutdown([&] {
        return PyObject_CallFunctionObjArgs(backward_, arguments.ptr(), specs.ptr(), results.ptr(),
                                            cotangents.ptr(), nullptr);
      });
      if (returned == nullptr) ThrowPending();
      torch::autograd::variable_list gradients;
      for (py::handle item : py::reinterpret_steal<py::object>(returned)) {
        gradients.push_back(item.is_none() ? at::Tensor() : THPVariable_Unpack(item.ptr()));
      }
      return gradients;
    } catch (py::error_already_set& error) {
      error.restore();
      ThrowPending();
    }
  }

 private:
  static py::object ToSymbolicPython(const c10::IValue& value) {
    return value.isSymInt() ? py::cast(value.toSymInt()) : ToPython(value);
  }

  static py::list ToList(const std::vector<at::Tensor>& tensors) {
    py::list list;
    for (const at::Tensor& tensor : tensors) list.append(ToPython(tensor));
    return list;
  }

  /// `(shape, torch.dtype)`, a list of these, or None.
  static py::object SpecsOf(const BackwardArgument& argument) {
    py::list list;
    for (const TensorDescription& tensor : argument.tensors) {
      py::tuple shape(tensor.shape.size());
      for (size_t i = 0; i < tensor.shape.size(); ++i) shape[i] = py::cast(tensor.shape[i]);
      auto* dtype = reinterpret_cast<PyObject*>(torch::getTHPDtype(tensor.dtype));
      list.append(py::make_tuple(shape, py::reinterpret_borrow<py::object>(dtype)));
    }
    if (argument.is_list) return list;
    return list.empty() ? py::none() : py::object(list[0]);
  }

  PyObject* backward_;
};

using Conversion = graphffi::Plan::Conversion;

std::vector<DirectParameter> ToParameters(const py::list& list) {
  std::vector<DirectParameter> parameters;
  for (py::handle item : list) {
    auto [name, kind, flags, value] =
        py::cast<std::tuple<std::string, std::string, std::string, py::object>>(item);
    const auto has = [&flags = flags](const char* flag) {
      return flags.find(flag) != std::string::npos;
    };
    parameters.push_back({std::move(name), std::move(kind), has("list"), has("optional"),
                          has("mutated"), has("required"), std::move(value)});
  }
  return parameters;
}

/// Gives the capsule that takes over plain calls of the op.
py::capsule Define(std::string schema, std::string out_schema, std::string effect_schema,
                   std::vector<std::string> results,
                   const std::unordered_map<std::string, std::string>& conversions,
                   std::string kernel, std::string plan, std::string digest, py::object answer,
                   const py::list& parameters, py::object result_type, bool release_gil,
                   bool allow_cuda_graph, bool has_vmap_rule, bool replace) {
  OpDescription description;
  for (const auto& [name, conversion] : conversions) {
    description.conversions[name] =
        conversion == "dtype" ? Conversion::kDType : Conversion::kDevice;
  }
  description.schema = std::move(schema);
  description.opt_out_schema = std::move(out_schema);
  description.opt_effect_schema = std::move(effect_schema);
  if (!answer.is_none()) {
    description.opt_rule = std::make_shared<PythonRule>(std::move(answer), results.size());
  }
  description.results = std::move(results);
  description.kernel = std::move(kernel);
  description.plan = std::move(plan);
  description.digest = std::move(digest);
  description.allow_cuda_graph = allow_cuda_graph;
  description.has_vmap_rule = has_vmap_rule;
  const OpCall* call = nullptr;
  {
    py::gil_scoped_release no_gil;
    call = DefineOp(description, replace);
  }
  return MakeDirectCall(*call, ToParameters(parameters), std::move(result_type), release_gil);
}

}  // namespace
}  // namespace graphffi_torch

PYBIND11_MODULE(_C, module) {
  using namespace graphffi_torch;  // NOLINT: the module's own namespace
  module.doc() = "Registration of ops with torch's dispatcher.";
  module.def(
      "define_op",
      [](std::string schema, std::string out_schema, std::string effect_schema,
         std::vector<std::string> results,
         const std::unordered_map<std::string, std::string>& conversions, std::string kernel,
         std::string plan, std::string digest, py::object answer, const py::list& parameters,
         py::object result_type, bool release_gil, bool allow_cuda_graph, bool has_vmap_rule,
         bool replace) {
        return Translated([&] {
          return Define(std::move(schema), std::move(out_schema), std::move(effect_schema),
                        std::move(results), conversions, std::move(kernel), std::move(plan),
                        std::move(digest), std::move(answer), parameters, std::move(result_type),
                        release_gil, allow_cuda_graph, has_vmap_rule, replace);
        });
      },
      py::kw_only(), py::arg("schema"), py::arg("out_schema"), py::arg("effect_schema"),
      py::arg("results"), py::arg("conversions"), py::arg("kernel"), py::arg("plan"),
      py::arg("digest"), py::arg("answer"), py::arg("parameters"), py::arg("result_type"),
      py::arg("release_gil"), py::arg("allow_cuda_graph"), py::arg("has_vmap_rule"),
      py::arg("replace"));
  module.def(
      "set_gradient_rule",
      [](const std::string& op, std::vector<bool> saved_arguments, std::vector<bool> saved_results,
         py::object backward) {
        SetGradientRule(
            op, std::make_unique<PythonGradientRule>(
                    std::move(saved_arguments), std::move(saved_results), std::move(backward)));
      },
      py::kw_only(), py::arg("op"), py::arg("saved_arguments"), py::arg("saved_results"),
      py::arg("backward"));
  module.def(
      "remove_gradient_rule", [](const std::string& op) { SetGradientRule(op, nullptr); },
      py::arg("op"));
  module.def(
      "use_library",
      [](const std::string& path) {
        Translated([&] {
          UseLibrary(path);
          return graphffi::RenewKernels(path);  // this module's own table of libraries
        });
      },
      py::arg("path"));
  module.def("make_tensor_viewer", &MakeTensorViewer, py::arg("exchange"));
  module.def("register_reraise_last_error", &RegisterReraiseLastError, py::arg("name"));
  module.def("set_raisers", &SetRaisers, py::arg("reraise_last"), py::arg("trace_ender"));
  AddSiteObject(module);
  AddRawCall(module);
  module.def(
      "package_libraries",
      [](const std::string& path) {
        return Translated([&] {
          std::vector<std::pair<std::string, std::string>> libraries;
          for (PackageLibrary& library : PackageLibraries(path)) {
            libraries.emplace_back(std::move(library.name), std::move(library.sha256));
          }
          return libraries;
        });
      },
      py::arg("path"));
  module.def(
      "load_package_libraries",
      [](const std::string& path, const std::optional<std::vector<std::string>>& trusted) {
        Translated([&] { LoadPackageLibraries(path, trusted ? &*trusted : nullptr); });
      },
      py::arg("path"), py::arg("trusted"));
  module.def("clear_aot_error", [] { TakeAotError(); });
  module.def("raise_aot_error", [] {
    std::unique_ptr<graphffi::Error> error = TakeAotError();
    if (error != nullptr) Translated([&] { throw graphffi::Error(*error); });
  });
}
