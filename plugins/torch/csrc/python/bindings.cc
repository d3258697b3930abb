// SPDX-License-Identifier: Apache-2.0
// The extension module _C: what Python needs to register ops, and Python exceptions for C++ errors.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "autograd/vjp_node.h"
#include "gil/gil.h"
#include "graphffi_torch/package.h"
#include "kernels/kernel_ref.h"
#include "operators/banks.h"
#include "operators/call_op.h"
#include "operators/kernel_call.h"
#include "operators/op_forms.h"
#include "python/define.h"
#include "python/direct_call.h"
#include "python/gradient_rule.h"
#include "python/python_rule.h"
#include "python/raise.h"

namespace py = pybind11;

namespace graphffi_torch {
namespace {

/// Reads a list of `(name, kind, flags, default)`, and adds the names to `names`.
std::vector<DirectOp::Parameter> ToParameters(const py::list& list,
                                              std::vector<std::string>* names) {
  std::vector<DirectOp::Parameter> parameters;
  for (py::handle item : list) {
    auto [name, kind, flags, value] =
        py::cast<std::tuple<std::string, std::string, std::string, py::object>>(item);
    const auto has = [&flags = flags](const char* flag) {
      return flags.find(flag) != std::string::npos;
    };
    PyObject* interned = PyUnicode_InternFromString(name.c_str());
    if (interned == nullptr) throw py::error_already_set();
    parameters.push_back({interned, KindOf(kind), has("list"), has("optional"), has("mutated"),
                          has("by_name"), has("required") ? nullptr : value.release().ptr()});
    names->push_back(std::move(name));
  }
  return parameters;
}

/// The first of the tensors at `updated` that shares memory with another one, and that one.
std::optional<std::pair<size_t, size_t>> FindOverlap(const std::vector<at::Tensor>& tensors,
                                                     const std::vector<size_t>& updated) {
  for (size_t i : updated) {
    for (size_t k = 0; k < tensors.size(); ++k) {
      if (k != i && Overlap(tensors.at(i), tensors[k])) return std::make_pair(i, k);
    }
  }
  return std::nullopt;
}

/// Reads a list of `(name, is_operand, is_saved)`.
std::vector<RuleValue> ToRuleValues(const py::list& list) {
  std::vector<RuleValue> values;
  for (py::handle item : list) {
    auto [name, is_operand, is_saved] = py::cast<std::tuple<std::string, bool, bool>>(item);
    values.push_back({std::move(name), is_operand, is_saved});
  }
  return values;
}

/// Gives the capsule that takes over plain calls of the op.
py::capsule Define(std::string schema, std::string out_schema, std::string effect_schema,
                   std::vector<std::string> results,
                   const std::unordered_map<std::string, std::string>& conversions,
                   std::vector<std::pair<std::string, std::string>> kernels, py::object answer,
                   const py::list& parameter_list, py::object result_type, bool release_gil,
                   bool allow_cuda_graph, bool has_vmap_rule, bool may_run_again) {
  OpDescription description;
  auto parameters = ToParameters(parameter_list, &description.parameters);
  for (const auto& [name, conversion] : conversions) {
    description.conversions[name] = graphffi::Plan::ConversionOf(conversion);
  }
  description.schema = std::move(schema);
  description.opt_out_schema = std::move(out_schema);
  description.opt_effect_schema = std::move(effect_schema);
  if (!answer.is_none()) {
    description.opt_rule = std::make_shared<PythonRule>(std::move(answer), results.size());
  }
  description.results = std::move(results);
  for (auto& [reference, plan] : kernels) {
    description.kernels.push_back({std::move(reference), std::move(plan)});
  }
  description.allow_cuda_graph = allow_cuda_graph;
  description.may_run_again = may_run_again;
  description.has_vmap_rule = has_vmap_rule;
  const OpCall* call = nullptr;
  {
    py::gil_scoped_release no_gil;
    call = DefineOp(description);
  }
  return MakeDirectCall(*call, std::move(parameters), std::move(result_type), release_gil);
}

/// `function`, whose errors become what torch's own bindings make of them.
template <typename Result, typename... Args>
auto Translating(Result (*function)(Args...)) {
  return [function](Args... args) {
    return Translated([&] { return function(std::forward<Args>(args)...); });
  };
}

}  // namespace
}  // namespace graphffi_torch

PYBIND11_MODULE(_C, module) {
  using namespace graphffi_torch;  // NOLINT: the module's own namespace
  module.doc() = "Registration of ops with torch's dispatcher.";
  module.def("define_op", Translating(&Define), py::kw_only(), py::arg("schema"),
             py::arg("out_schema"), py::arg("effect_schema"), py::arg("results"),
             py::arg("conversions"), py::arg("kernels"), py::arg("answer"), py::arg("parameters"),
             py::arg("result_type"), py::arg("release_gil"), py::arg("allow_cuda_graph"),
             py::arg("has_vmap_rule"), py::arg("may_run_again"));
  module.def(
      "set_gradient_rule",
      [](const std::string& op, const py::list& parameters, const py::list& results, py::object run,
         py::object check) {
        SetGradientRule(op,
                        MakePythonGradientRule(op, ToRuleValues(parameters), ToRuleValues(results),
                                               std::move(run), std::move(check)));
      },
      py::kw_only(), py::arg("op"), py::arg("parameters"), py::arg("results"), py::arg("run"),
      py::arg("check"));
  module.def(
      "set_forward_rule",
      [](const std::string& op, py::object run) {
        SetForwardRule(op, run.is_none() ? nullptr : MakePythonForwardRule(std::move(run)));
      },
      py::kw_only(), py::arg("op"), py::arg("run"));
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
  module.def(
      "check_data_type",
      [](const std::string& tensor, py::handle dtype) {
        Translated(
            [&] { CheckDataType(tensor, reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type); });
      },
      py::arg("tensor"), py::arg("dtype"));
  module.def("make_tensor_viewer", &MakeTensorViewer, py::arg("exchange"));
  module.def("register_reraise_last_error", &RegisterReraiseLastError, py::arg("name"));
  module.def("set_raisers", &SetRaisers, py::arg("reraise_last"), py::arg("trace_ender"),
             py::arg("own_raiser"), py::arg("repetition_refuser"), py::arg("preparer"));
  AddSiteObject(module);
  AddRawCall(module);
  AddConditions(module);
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
  module.def("find_overlap", &FindOverlap, py::arg("tensors"), py::arg("updated"));
  module.def("clear_aot_error", [] { TakeAotError(); });
  module.def("raise_aot_error", [] {
    std::unique_ptr<graphffi::Error> error = TakeAotError();
    if (error != nullptr) Translated([&] { throw graphffi::Error(*error); });
  });
}
