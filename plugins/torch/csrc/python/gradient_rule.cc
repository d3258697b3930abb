// SPDX-License-Identifier: Apache-2.0
#include "python/gradient_rule.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <utility>

#include "gil/gil.h"
#include "python/raise.h"

namespace py = pybind11;

namespace graphffi_torch {
namespace {

using torch::autograd::variable_list;

py::object ToPython(const at::Tensor& tensor) {
  if (!tensor.defined()) return py::none();
  PyObject* object = THPVariable_Wrap(tensor);
  if (object == nullptr) ThrowPending();
  return py::reinterpret_steal<py::object>(object);
}

py::object ToPython(const c10::IValue& value) {
  if (value.isTensor()) return ToPython(value.toTensor());
  if (value.isNone()) return py::none();
  if (value.isBool()) return py::bool_(value.toBool());
  if (value.isInt()) return py::int_(value.toInt());
  if (value.isSymInt()) return py::cast(value.toSymInt());
  if (value.isDouble()) return py::float_(value.toDouble());
  if (value.isSymFloat()) return py::float_(value.toSymFloat().guard_float(__FILE__, __LINE__));
  if (value.isString()) return py::str(value.toStringRef());
  py::list list;
  for (const c10::IValue& item : value.toListRef()) list.append(ToPython(item));
  return list;
}

/// A cotangent as rules get it: dense, because rules for all frameworks can't make it so. Rules
/// transpose linear maps, as JAX's do. Torch's gradients of complex numbers are conjugates of what
/// that gives: both ends are conjugated.
at::Tensor Given(const at::Tensor& cotangent) {
  if (!cotangent.defined()) return cotangent;
  // Not conj_physical, which torch.vmap (2.10 to 2.15) knows only as a slow loop, with a warning.
  return (cotangent.is_complex() ? cotangent.conj().resolve_conj() : cotangent).contiguous();
}

py::tuple CotangentsOf(const BackwardCall& call) {
  py::tuple cotangents(call.cotangents.size());
  for (size_t i = 0; i < call.cotangents.size(); ++i) {
    cotangents[i] = ToPython(Given(call.cotangents[i]));
  }
  return cotangents;
}

/// `(shape, torch.dtype)`, a list of these, or None.
py::object SpecOf(const BackwardArgument& argument) {
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

/// Calls a rule. It computes in the data types of the op, under torch.autocast, too.
template <typename... Arguments>
py::object Call(PyObject* function, const Arguments&... arguments) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  PyObject* returned = graphffi::UntilShutdown(
      [&] { return PyObject_CallFunctionObjArgs(function, arguments.ptr()..., nullptr); });
  if (returned == nullptr) ThrowPending();
  return py::reinterpret_steal<py::object>(returned);
}

bool HasShape(const at::Tensor& tensor, const TensorDescription& expected) {
  if (tensor.is_nested() || tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) {
    return false;
  }
  const at::IntArrayRef sizes = tensor.sizes();
  return std::equal(
      sizes.begin(), sizes.end(), expected.shape.begin(), expected.shape.end(),
      [](int64_t size, const c10::SymInt& other) { return other.maybe_as_int() == size; });
}

/// Gradients that a rule returned, of one call. False where `check` has to look at them.
class Gradients {
 public:
  bool Add(const BackwardArgument& argument, PyObject* returned) {
    if (!argument.is_list) {
      return argument.tensors.empty() ? returned == Py_None : Add(argument.tensors[0], returned);
    }
    const auto count = static_cast<Py_ssize_t>(argument.tensors.size());
    if (!PyList_CheckExact(returned) || PyList_GET_SIZE(returned) != count) return false;
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (!Add(argument.tensors[static_cast<size_t>(i)], PyList_GET_ITEM(returned, i)))
        return false;
    }
    return true;
  }

  variable_list Take() { return std::move(gradients_); }

 private:
  bool Add(const TensorDescription& operand, PyObject* returned) {
    if (returned == Py_None) {
      gradients_.emplace_back();
      return true;
    }
    if (!THPVariable_CheckExact(returned)) return false;
    const at::Tensor& gradient = THPVariable_Unpack(returned);
    if (gradient.scalar_type() != operand.dtype || !HasShape(gradient, operand)) return false;
    if (!at::isFloatingType(operand.dtype) && !at::isComplexType(operand.dtype)) return false;
    gradients_.push_back(gradient);
    return true;
  }

  variable_list gradients_;
};

template <typename Values>
py::list ToList(const Values& values) {
  py::list list;
  for (const auto& value : values) list.append(ToPython(value));
  return list;
}

class PythonForwardRule : public ForwardRule {
 public:
  explicit PythonForwardRule(py::object run) : run_(run.release().ptr()) {}

  variable_list Apply(const ForwardCall& call) const override {
    return WithGil([&] {
      const py::list results = ToList(call.results);
      const py::object returned =
          Call(run_, ToList(call.arguments), ToList(call.tangents), results);
      variable_list tangents;
      for (py::handle item : returned) {
        tangents.push_back(item.is_none() ? at::Tensor() : THPVariable_Unpack(item.ptr()));
      }
      return tangents;
    });
  }

 private:
  PyObject* run_;
};

std::vector<bool> SavedOf(const std::vector<RuleValue>& values) {
  std::vector<bool> saved;
  for (const RuleValue& value : values) saved.push_back(value.is_saved);
  return saved;
}

class PythonGradientRule : public GradientRule {
 public:
  PythonGradientRule(const std::string& op, const std::vector<RuleValue>& parameters,
                     const std::vector<RuleValue>& results, py::object run, py::object check)
      : GradientRule(op, SavedOf(parameters), SavedOf(results)),
        run_(run.release().ptr()),
        check_(check.release().ptr()) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const RuleValue& parameter = parameters[i];
      if (parameter.is_operand) operands_.push_back(i);
      opt_names_.push_back(NameOf(parameter, !parameter.is_operand || parameter.is_saved));
    }
    for (const RuleValue& result : results) opt_names_.push_back(NameOf(result, result.is_saved));
  }

  variable_list Apply(const BackwardCall& call) const override {
    return WithGil([&] {
      const py::object returned = Call(run_, ValuesOf(call), CotangentsOf(call));
      Gradients taken;
      variable_list gradients =
          Take(call, returned.ptr(), &taken) ? taken.Take() : Check(call, returned);
      for (at::Tensor& gradient : gradients) {
        if (gradient.defined() && gradient.is_complex()) gradient = gradient.conj();
      }
      return gradients;
    });
  }

 private:
  /// Interned, kept for good; NULL for what the rule does not see.
  static PyObject* NameOf(const RuleValue& value, bool is_seen) {
    return is_seen ? PyUnicode_InternFromString(value.name.c_str()) : nullptr;
  }

  py::dict ValuesOf(const BackwardCall& call) const {
    py::dict values;
    size_t i = 0;
    const auto set = [&](const auto& value) {
      PyObject* name = opt_names_[i++];
      if (name != nullptr) values[py::handle(name)] = ToPython(value);
    };
    for (const c10::IValue& value : call.values) set(value);
    for (const at::Tensor& result : call.results) set(result);
    return values;
  }

  bool Take(const BackwardCall& call, PyObject* returned, Gradients* gradients) const {
    if (operands_.size() == 1) return gradients->Add(call.arguments[operands_[0]], returned);
    const auto count = static_cast<Py_ssize_t>(operands_.size());
    if (!PyTuple_CheckExact(returned) || PyTuple_GET_SIZE(returned) != count) return false;
    Py_ssize_t k = 0;
    for (size_t i : operands_) {
      if (!gradients->Add(call.arguments[i], PyTuple_GET_ITEM(returned, k++))) return false;
    }
    return true;
  }

  variable_list Check(const BackwardCall& call, const py::object& returned) const {
    py::list specs;
    for (size_t i : operands_) specs.append(SpecOf(call.arguments[i]));
    variable_list gradients;
    for (py::handle item : Call(check_, specs, returned)) {
      gradients.push_back(item.is_none() ? at::Tensor() : THPVariable_Unpack(item.ptr()));
    }
    return gradients;
  }

  std::vector<size_t> operands_;      // among the parameters
  std::vector<PyObject*> opt_names_;  // of parameters, then results
  PyObject *run_, *check_;
};

}  // namespace

std::unique_ptr<GradientRule> MakePythonGradientRule(const std::string& op,
                                                     const std::vector<RuleValue>& parameters,
                                                     const std::vector<RuleValue>& results,
                                                     py::object run, py::object check) {
  return std::make_unique<PythonGradientRule>(op, parameters, results, std::move(run),
                                              std::move(check));
}

std::unique_ptr<ForwardRule> MakePythonForwardRule(py::object run) {
  return std::make_unique<PythonForwardRule>(std::move(run));
}

}  // namespace graphffi_torch
