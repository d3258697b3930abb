// SPDX-License-Identifier: Apache-2.0
#include "python/direct_call.h"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/python_variable.h>

#include <utility>
#include <vector>

#include "autograd/tangent.h"
#include "gil/gil.h"
#include "hooks/plugin_call.h"
#include "operators/op_call.h"
#include "python/attribute_value.h"
#include "python/direct_arguments.h"
#include "python/plain_tensor.h"
#include "python/raise.h"
#include "python/recorded_call.h"

namespace py = pybind11;

namespace graphffi_torch {
namespace {

using c10::DispatchKey;

using Parameter = DirectOp::Parameter;
using TensorPointers = c10::SmallVector<const at::Tensor*, 8>;

/// One call of an op without the dispatcher. A step returns false if the call is not plain: then
/// nothing has happened, and the dispatcher runs the call or says what is wrong.
class DirectCall {
 public:
  explicit DirectCall(const DirectOp& op) : op_(op), arguments_(op), frame_(*op.call) {}

  bool Bind(PyObject* const* args, Py_ssize_t num_args, PyObject* opt_names) {
    return arguments_.Bind(args, num_args, opt_names);
  }

  bool Convert() {
    PyObject* const* value = arguments_.begin();
    for (const Parameter& parameter : op_.parameters) {
      if (parameter.kind == Kind::kTensor) {
        if (!AddTensor(*value, parameter)) return false;
      } else if (!AddOther(parameter, static_cast<size_t>(value - arguments_.begin()))) {
        return false;
      }
      ++value;
    }
    return has_tensor_;
  }

  void BumpVersions() {
    if (op_.opt_only_updated < 0) return BumpEachVersion();
    PyObject* updated = arguments_[static_cast<size_t>(op_.opt_only_updated)];
    if (updated != Py_None) BumpVersion(THPVariable_Unpack(updated));
  }

  void BumpEachVersion() {
    // Not what was lent to the kernel: that is another call's by now.
    for (size_t i = 0; i < op_.parameters.size(); ++i) {
      const Parameter& parameter = op_.parameters[i];
      if (!parameter.is_mutated) continue;
      if (parameter.kind == Kind::kTensors) {
        PyObject* list = arguments_.AsTuple(i);
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(list); ++k) {
          BumpVersion(THPVariable_Unpack(PyTuple_GET_ITEM(list, k)));
        }
      } else if (arguments_[i] != Py_None) {
        BumpVersion(THPVariable_Unpack(arguments_[i]));
      }
    }
  }

  void Run() {
    const graphffi::GilRelease release(op_.release_gil);
    frame_.Run();
  }

  /// True if autograd has to be able to go back through the call.
  bool is_recorded() const { return is_recorded_; }

  void RunRecorded() { graphffi_torch::RunRecorded(op_, &arguments_, &frame_); }

  /// Packs the results as Definition.pack_results does. *New reference*; NULL with a Python error.
  PyObject* TakeResults() {
    if (op_.opt_only_updated >= 0)
      return Py_NewRef(arguments_[static_cast<size_t>(op_.opt_only_updated)]);
    c10::SmallVectorImpl<at::Tensor>& fresh = frame_.results();
    c10::SmallVector<PyObject*, 8> objects;
    for (at::Tensor& result : fresh) objects.push_back(THPVariable_Wrap(std::move(result)));
    for (size_t i = 0; i < op_.parameters.size(); ++i) {
      if (!op_.parameters[i].is_mutated) continue;
      const bool is_list = op_.parameters[i].kind == Kind::kTensors;
      objects.push_back(is_list ? PySequence_List(arguments_.AsTuple(i))
                                : Py_NewRef(arguments_[i]));
    }
    PyObject* returned = Pack(objects, fresh.size() == objects.size());
    for (PyObject* object : objects) Py_XDECREF(object);
    return returned;
  }

 private:
  /// NULL for anything but a plain tensor.
  const at::Tensor* Unpack(PyObject* value) {
    if (!THPVariable_CheckExact(value)) return nullptr;
    const at::Tensor& tensor = THPVariable_Unpack(value);
    if (!IsWithin(tensor.key_set(), kPlainTensor)) return nullptr;
    const bool has_meta = tensor.unsafeGetTensorImpl()->autograd_meta() != nullptr;
    if (has_meta && !CheckGradient(tensor)) return nullptr;
    has_tensor_ = true;
    return &tensor;
  }

  static void BumpVersion(const at::Tensor& tensor) {
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  }

  static bool MayUpdate(const at::Tensor& tensor) {
    return !tensor.is_inference() || c10::InferenceMode::is_enabled();
  }

  /// True if no gradient is needed, or if the call can record it.
  bool CheckGradient(const at::Tensor& tensor) {
    if (HasTangent(tensor)) return false;
    if (!tensor.requires_grad() || !c10::GradMode::is_enabled()) return true;
    is_recorded_ = true;
    return op_.may_record;
  }

  TensorBank& TensorsOf(const Parameter& parameter) {
    return frame_.TensorsOf(parameter.is_mutated ? OpCall::Role::kOutput : OpCall::Role::kInput);
  }

  bool AddTensor(PyObject* value, const Parameter& parameter) {
    const at::Tensor* tensor = Unpack(value);
    if (tensor == nullptr) return false;
    if (parameter.is_mutated) {  // each with a bank that compilers know
      if (!MayUpdate(*tensor)) return false;
      frame_.TensorsOf(OpCall::Role::kOutput).AddReadable(*tensor);  // as plain tensors are
    } else {
      frame_.TensorsOf(OpCall::Role::kInput).AddReadable(*tensor);
    }
    return true;
  }

  bool AddOther(const Parameter& parameter, size_t i) {
    if (parameter.kind > Kind::kTensors) return AddAttribute(parameter, i);
    if (parameter.kind == Kind::kTensors) return AddTensors(parameter, i);
    if (arguments_[i] != Py_None) return AddTensor(arguments_[i], parameter);
    TensorsOf(parameter).AddVacant();
    return true;
  }

  bool AddTensors(const Parameter& parameter, size_t i) {
    PyObject* list = arguments_.AsTuple(i);
    if (list == nullptr) return false;
    TensorPointers tensors;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(list); ++k) {
      const at::Tensor* tensor = Unpack(PyTuple_GET_ITEM(list, k));
      if (tensor == nullptr || (parameter.is_mutated && !MayUpdate(*tensor))) return false;
      tensors.push_back(tensor);
    }
    TensorsOf(parameter).AddList(tensors);
    return true;
  }

  bool AddAttribute(const Parameter& parameter, size_t i) {
    TVMFFIAny value{};
    if (arguments_[i] == Py_None && parameter.is_optional) {
      frame_.attributes().Add(value);
      return true;
    }
    if (!parameter.is_list) {
      if (!ToAttribute(parameter.kind, arguments_[i], &value)) return false;
      frame_.attributes().Add(value);
      return true;
    }
    PyObject* list = arguments_.AsTuple(i);
    if (list == nullptr) return false;
    frame_.attributes().BeginList(static_cast<size_t>(PyTuple_GET_SIZE(list)));
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(list); ++k) {
      if (!ToAttribute(parameter.kind, PyTuple_GET_ITEM(list, k), &value)) return false;
      frame_.attributes().AddItem(value);
    }
    return true;
  }

  PyObject* Pack(const c10::SmallVectorImpl<PyObject*>& objects, bool only_fresh) {
    for (PyObject* object : objects) {
      if (object == nullptr) return nullptr;
    }
    if (op_.opt_result_type != nullptr && only_fresh) {
      return PyObject_Vectorcall(op_.opt_result_type, objects.data(), objects.size(), nullptr);
    }
    if (objects.size() == 1) return Py_NewRef(objects[0]);
    PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(objects.size()));
    if (tuple == nullptr) return nullptr;
    for (size_t i = 0; i < objects.size(); ++i) {
      PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), Py_NewRef(objects[i]));
    }
    return tuple;
  }

  const DirectOp& op_;
  DirectArguments arguments_;
  OpFrame frame_;
  bool has_tensor_ = false, is_recorded_ = false;
};

PyObject* Finish(DirectCall* call, bool bump_versions) {
  return TranslatedOrNull([&] {
    if (call->is_recorded()) {
      call->RunRecorded();
    } else {
      const auto bump = c10::make_scope_exit([&] {  // even if the kernel fails
        if (bump_versions) call->BumpVersions();
      });
      call->Run();
    }
    return call->TakeResults();
  });
}

bool Prepare(DirectCall* call, PyObject* const* args, Py_ssize_t num_args, PyObject* opt_names) {
  try {
    return call->Bind(args, num_args, opt_names) && call->Convert();
  } catch (const std::exception&) {  // a tensor that kernels can't be given
    return false;
  }
}

/// graphffi::PluginCall::call
void* TakeOver(void* context, void* const* args, ptrdiff_t num_args, void* opt_names) {
  const c10::impl::LocalDispatchKeySet thread = c10::impl::tls_local_dispatch_key_set();
  if (!IsPlainThread(thread)) return nullptr;
  DirectCall call(*static_cast<const DirectOp*>(context));
  auto* objects = reinterpret_cast<PyObject* const*>(const_cast<void**>(args));
  if (!Prepare(&call, objects, num_args, static_cast<PyObject*>(opt_names))) return nullptr;
  return Finish(&call, !thread.excluded_.has(DispatchKey::ADInplaceOrView));
}

}  // namespace

py::capsule MakeDirectCall(const OpCall& call, std::vector<DirectOp::Parameter> parameters,
                           py::object opt_result_type, bool release_gil) {
  PyObject* opt_type = opt_result_type.is_none() ? nullptr : opt_result_type.release().ptr();
  auto* op = new DirectOp(call, std::move(parameters), opt_type, release_gil);
  // Both live as long as the process, as the op does.
  auto* direct = new graphffi::PluginCall{&TakeOver, op};
  return py::capsule(direct, graphffi::PluginCall::kName);
}

}  // namespace graphffi_torch
