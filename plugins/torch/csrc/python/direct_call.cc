// SPDX-License-Identifier: Apache-2.0
#include "python/direct_call.h"

#include <ATen/DLConvertor.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "callframe/device_name.h"
#include "callframe/direct_call.h"
#include "callframe/error.h"
#include "op_call.h"
#include "python/gil_release.h"
#include "python/plain_tensor.h"
#include "python/raise.h"

namespace py = pybind11;

namespace graphffi_torch {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

using TensorPointers = c10::SmallVector<const at::Tensor*, 8>;

enum class Kind { kTensor, kOptional, kTensors, kInt, kFloat, kBool, kStr, kDType, kDevice };

/// The thread's state outside of all modes, tracers and transformations. Autocast has no rule for
/// ops.
constexpr DispatchKeySet kPlainThread = c10::default_included_set | c10::autocast_dispatch_keyset;

struct Parameter {
  PyObject* name;  // interned, kept for good
  Kind kind;
  bool is_list, is_optional, is_mutated;
  PyObject* opt_default;  // kept for good; NULL: required
};

/// An op whose calls it takes over.
struct DirectOp {
  const OpCall* call;
  std::vector<Parameter> parameters;
  PyObject* opt_result_type;  // kept for good
  bool release_gil;
  /// The parameter that is all that calls return: the operand that they update; -1 if there is none
  /// such.
  int opt_only_updated;

  bool may_record;  // a call on tensors that require gradients, which the dispatcher runs

  /// Writes are not recorded, and are refused elsewhere. Data types and devices travel by name.
  bool MayRecord() const {
    for (const Parameter& parameter : parameters) {
      if (parameter.is_mutated || parameter.kind > Kind::kStr) return false;
    }
    return true;
  }

  int FindOnlyUpdated() const {
    int found = -1;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!parameters[i].is_mutated) continue;
      if (found >= 0 || parameters[i].kind == Kind::kTensors) return -1;
      found = static_cast<int>(i);
    }
    return call->num_results() == 0 ? found : -1;
  }
};

bool IsPlain(const c10::impl::LocalDispatchKeySet& thread) {
  // A profiler that records operators gets them from the dispatcher.
  return IsWithin(thread.included_, kPlainThread) && !at::impl::torch_function_mode_enabled() &&
         !at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value();
}

/// One call that is being taken over. Every step gives false where the call is not plain: then
/// nothing has happened, and the way through the dispatcher runs it or says what is wrong.
class DirectCall {
 public:
  explicit DirectCall(const DirectOp& op) : op_(op), frame_(*op.call) {}

  ~DirectCall() {
    if (C10_LIKELY(!opt_frozen_.has_value())) return;
    for (const auto& [index, tuple] : *opt_frozen_) Py_DECREF(tuple);
  }

  bool Bind(PyObject* const* args, Py_ssize_t num_args, PyObject* opt_names) {
    const size_t count = op_.parameters.size();
    if (static_cast<size_t>(num_args) == count && opt_names == nullptr) {
      values_ = args;
      return true;
    }
    if (static_cast<size_t>(num_args) > count) return false;
    c10::SmallVectorImpl<PyObject*>& values = opt_own_values_.emplace();
    values.resize(count, nullptr);
    for (Py_ssize_t i = 0; i < num_args; ++i) values[static_cast<size_t>(i)] = args[i];
    const Py_ssize_t num_names = opt_names == nullptr ? 0 : PyTuple_GET_SIZE(opt_names);
    for (Py_ssize_t i = 0; i < num_names; ++i) {
      PyObject** place = Find(PyTuple_GET_ITEM(opt_names, i));
      if (place == nullptr || *place != nullptr) return false;
      *place = args[num_args + i];
    }
    for (size_t i = 0; i < count; ++i) {
      if (values[i] != nullptr) continue;
      values[i] = op_.parameters[i].opt_default;
      if (values[i] == nullptr) return false;
    }
    values_ = values.data();
    return true;
  }

  bool Convert() {
    const Parameter* const parameters = op_.parameters.data();
    const size_t count = op_.parameters.size();
    for (size_t i = 0; i < count; ++i) {
      const Parameter& parameter = parameters[i];
      const bool done =
          parameter.kind <= Kind::kTensors ? AddOperand(parameter, i) : AddAttribute(parameter, i);
      if (!done) return false;
    }
    return has_tensor_;
  }

  void BumpVersions() {
    const TensorBank& outputs = frame_.outputs();
    for (size_t i = op_.call->num_results(); i < outputs.size(); ++i) {
      const at::Tensor* tensor = outputs.opt_tensor(i);
      if (tensor == nullptr || tensor->is_inference()) continue;
      tensor->unsafeGetTensorImpl()->bump_version();
    }
  }

  void Run() {
    const GilRelease release(op_.release_gil);
    frame_.Run();
  }

  /// Whether a gradient has to be recorded: by the dispatcher's autograd.
  bool is_recorded() const { return is_recorded_; }

  void RunRecorded() {
    static c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
    const c10::OperatorHandle handle =
        dispatcher.findSchemaOrThrow(op_.call->subject().c_str(), "");
    torch::jit::Stack stack;
    size_t next_attribute = 0;
    for (size_t i = 0; i < op_.parameters.size(); ++i)
      stack.push_back(ToIValue(i, &next_attribute));
    stack.emplace_back(std::string());  // the digest, which is for graphs
    const GilRelease release(op_.release_gil);
    handle.callBoxed(stack);
    for (c10::IValue& result : stack) frame_.results().push_back(std::move(result).toTensor());
  }

  /// What Definition.pack_results gives. *New reference*; NULL with a Python error.
  PyObject* TakeResults() {
    if (op_.opt_only_updated >= 0) return Py_NewRef(values_[op_.opt_only_updated]);
    c10::SmallVectorImpl<at::Tensor>& fresh = frame_.results();
    c10::SmallVector<PyObject*, 8> objects;
    for (at::Tensor& result : fresh) objects.push_back(THPVariable_Wrap(std::move(result)));
    for (size_t i = 0; i < op_.parameters.size(); ++i) {
      if (!op_.parameters[i].is_mutated) continue;
      const bool is_list = op_.parameters[i].kind == Kind::kTensors;
      objects.push_back(is_list ? PySequence_List(Frozen(i)) : Py_NewRef(values_[i]));
    }
    PyObject* returned = Pack(objects, fresh.size() == objects.size());
    for (PyObject* object : objects) Py_XDECREF(object);
    return returned;
  }

 private:
  PyObject** Find(PyObject* name) {
    for (size_t i = 0; i < op_.parameters.size(); ++i) {
      if (op_.parameters[i].name == name) return &(*opt_own_values_)[i];
    }
    for (size_t i = 0; i < op_.parameters.size(); ++i) {
      if (PyUnicode_Compare(op_.parameters[i].name, name) == 0) return &(*opt_own_values_)[i];
    }
    return nullptr;
  }

  /// NULL for anything but a plain tensor.
  const at::Tensor* Unpack(PyObject* value) {
    if (!THPVariable_CheckExact(value)) return nullptr;
    const at::Tensor& tensor = THPVariable_Unpack(value);
    if (!IsWithin(tensor.key_set(), kPlainTensor)) return nullptr;
    if (tensor.unsafeGetTensorImpl()->autograd_meta() != nullptr) {
      if (tensor._fw_grad(0).defined()) return nullptr;
      if (tensor.requires_grad() && c10::GradMode::is_enabled()) {
        if (!op_.may_record) return nullptr;
        is_recorded_ = true;
      }
    }
    has_tensor_ = true;
    return &tensor;
  }

  bool AddOperand(const Parameter& parameter, size_t i) {
    TensorBank& bank =
        frame_.BankOf(parameter.is_mutated ? OpCall::Bank::kOutputs : OpCall::Bank::kInputs);
    if (C10_UNLIKELY(parameter.kind == Kind::kTensors)) return AddTensors(i, &bank);
    if (parameter.kind == Kind::kOptional && values_[i] == Py_None) {
      bank.AddVacant();
      return true;
    }
    const at::Tensor* tensor = Unpack(values_[i]);
    if (tensor == nullptr) return false;
    bank.AddReadable(*tensor);  // as plain tensors are
    return true;
  }

  bool AddTensors(size_t i, TensorBank* bank) {
    PyObject* list = Frozen(i);
    if (list == nullptr) return false;
    TensorPointers tensors;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(list); ++k) {
      tensors.push_back(Unpack(PyTuple_GET_ITEM(list, k)));
      if (tensors.back() == nullptr) return false;
    }
    bank->AddList(tensors);
    return true;
  }

  /// The list at `i` as a tuple that lives as long as the call: others may change the list
  /// meanwhile. NULL if it is no list.
  PyObject* Frozen(size_t i) {
    if (PyTuple_CheckExact(values_[i])) return values_[i];
    if (!PyList_CheckExact(values_[i])) return nullptr;
    if (!opt_frozen_.has_value()) opt_frozen_.emplace();
    for (const auto& [index, tuple] : *opt_frozen_) {
      if (index == i) return tuple;
    }
    PyObject* tuple = PyList_AsTuple(values_[i]);
    if (tuple == nullptr) throw std::bad_alloc();
    opt_frozen_->emplace_back(i, tuple);
    return tuple;
  }

  bool AddAttribute(const Parameter& parameter, size_t i) {
    TVMFFIAny value{};
    if (values_[i] == Py_None && parameter.is_optional) {
      frame_.attributes().Add(value);
      return true;
    }
    if (!parameter.is_list) {
      if (!ToAny(parameter.kind, values_[i], &value)) return false;
      frame_.attributes().Add(value);
      return true;
    }
    PyObject* list = Frozen(i);
    if (list == nullptr) return false;
    frame_.attributes().BeginList(static_cast<size_t>(PyTuple_GET_SIZE(list)));
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(list); ++k) {
      if (!ToAny(parameter.kind, PyTuple_GET_ITEM(list, k), &value)) return false;
      frame_.attributes().AddItem(value);
    }
    return true;
  }

  /// Argument `i`, which was added, for the dispatcher.
  c10::IValue ToIValue(size_t i, size_t* next_attribute) {
    const Parameter& parameter = op_.parameters[i];
    if (values_[i] == Py_None) {
      *next_attribute += parameter.kind > Kind::kTensors ? 1 : 0;
      return c10::IValue();
    }
    if (parameter.kind < Kind::kTensors) return THPVariable_Unpack(values_[i]);
    if (parameter.kind == Kind::kTensors) {
      c10::List<at::Tensor> list;
      PyObject* tensors = Frozen(i);
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tensors); ++k) {
        list.push_back(THPVariable_Unpack(PyTuple_GET_ITEM(tensors, k)));
      }
      return list;
    }
    const graphffi::Bank bank = frame_.attributes().bank();
    const size_t slot = (*next_attribute)++;
    graphffi::Slot where{static_cast<int32_t>(slot)};
    if (bank.opt_slots != nullptr) where = bank.opt_slots[slot];
    const TVMFFIAny* values = bank.values + where.begin;
    return parameter.is_list ? ToListIValue(parameter.kind, values, where.count)
                             : ToIValue(parameter.kind, *values);
  }

  static c10::IValue ToIValue(Kind kind, const TVMFFIAny& value) {
    switch (kind) {
      case Kind::kInt:
        return value.v_int64;
      case Kind::kFloat:
        return value.v_float64;
      case Kind::kBool:
        return value.v_int64 != 0;
      default:
        return std::string(value.v_c_str);
    }
  }

  static c10::IValue ToListIValue(Kind kind, const TVMFFIAny* values, int32_t count) {
    c10::List<int64_t> ints;
    c10::List<double> floats;
    c10::List<bool> bools;
    c10::List<std::string> strs;
    for (int32_t i = 0; i < count; ++i) {
      if (kind == Kind::kInt) ints.push_back(values[i].v_int64);
      if (kind == Kind::kFloat) floats.push_back(values[i].v_float64);
      if (kind == Kind::kBool) bools.push_back(values[i].v_int64 != 0);
      if (kind == Kind::kStr) strs.push_back(values[i].v_c_str);
    }
    if (kind == Kind::kInt) return ints;
    if (kind == Kind::kFloat) return floats;
    return kind == Kind::kBool ? c10::IValue(bools) : c10::IValue(strs);
  }

  static bool ToAny(Kind kind, PyObject* value, TVMFFIAny* out) {
    switch (kind) {
      case Kind::kInt:
        return PyLong_CheckExact(value) && ToInt(value, out);
      case Kind::kFloat:
        return ToFloat(value, out);
      case Kind::kBool:
        out->type_index = kTVMFFIBool;
        out->v_int64 = value == Py_True;
        return PyBool_Check(value);
      case Kind::kStr:
        return PyUnicode_CheckExact(value) && ToStr(value, out);
      case Kind::kDType:
        return ToDType(value, out);
      case Kind::kDevice:
        return ToDevice(value, out);
      default:
        return false;
    }
  }

  static bool ToInt(PyObject* value, TVMFFIAny* out) {
    int overflow = 0;
    out->type_index = kTVMFFIInt;
    out->v_int64 = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow == 0;
  }

  static bool ToFloat(PyObject* value, TVMFFIAny* out) {
    TVMFFIAny integer{};
    out->type_index = kTVMFFIFloat;
    if (PyFloat_CheckExact(value)) {
      out->v_float64 = PyFloat_AS_DOUBLE(value);
      return true;
    }
    if (!PyLong_CheckExact(value) || !ToInt(value, &integer)) return false;
    out->v_float64 = static_cast<double>(integer.v_int64);
    return true;
  }

  static bool ToStr(PyObject* value, TVMFFIAny* out) {
    Py_ssize_t size = 0;
    out->type_index = kTVMFFIRawStr;
    out->v_c_str = PyUnicode_AsUTF8AndSize(value, &size);
    // One with NUL inside goes the other way.
    if (out->v_c_str != nullptr) return std::strlen(out->v_c_str) == static_cast<size_t>(size);
    PyErr_Clear();
    return false;
  }

  static bool ToDType(PyObject* value, TVMFFIAny* out) {
    out->type_index = kTVMFFIDataType;
    if (THPDtype_Check(value)) return ToDType(reinterpret_cast<THPDtype*>(value)->scalar_type, out);
    TVMFFIAny text{};
    if (!PyUnicode_Check(value) || !ToStr(value, &text)) return false;
    const TVMFFIByteArray bytes = {text.v_c_str, std::char_traits<char>::length(text.v_c_str)};
    if (TVMFFIDataTypeFromString(&bytes, &out->v_dtype) == 0) return true;
    graphffi::Error::TakeRaised(-1);
    return false;
  }

  static bool ToDType(at::ScalarType scalar, TVMFFIAny* out) {
    try {
      out->v_dtype =
          at::getDLDataType(at::empty({0}, at::TensorOptions(scalar).device(at::DeviceType::Meta)));
      return true;
    } catch (const c10::Error&) {
      return false;
    }
  }

  static bool ToDevice(PyObject* value, TVMFFIAny* out) {
    out->type_index = kTVMFFIDevice;
    TVMFFIAny text{};
    try {
      if (THPDevice_Check(value)) {
        c10::Device device = reinterpret_cast<THPDevice*>(value)->device;
        if (!device.has_index()) device.set_index(0);
        out->v_device = at::torchDeviceToDLDevice(device);
        return true;
      }
      if (!PyUnicode_CheckExact(value) || !ToStr(value, &text)) return false;
      out->v_device = graphffi::DeviceFromName(text.v_c_str);
      return true;
    } catch (const graphffi::Error&) {
      return false;
    } catch (const c10::Error&) {
      return false;
    }
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
  OpFrame frame_;
  bool has_tensor_ = false, is_recorded_ = false;
  PyObject* const* values_ = nullptr;  // one for each parameter, borrowed
  std::optional<c10::SmallVector<PyObject*, 16>> opt_own_values_;
  std::optional<c10::SmallVector<std::pair<size_t, PyObject*>, 4>> opt_frozen_;  // owned
};

PyObject* Finish(DirectCall* call, bool bump_versions) {
  try {
    return Translated([&] {
      if (call->is_recorded()) {
        call->RunRecorded();
      } else {
        if (bump_versions) call->BumpVersions();
        call->Run();
      }
      return call->TakeResults();
    });
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

bool Prepare(DirectCall* call, PyObject* const* args, Py_ssize_t num_args, PyObject* opt_names) {
  try {
    return call->Bind(args, num_args, opt_names) && call->Convert();
  } catch (const std::exception&) {  // a tensor that kernels can't be given
    return false;
  }
}

/// graphffi::DirectCall::call
void* TakeOver(void* context, void* const* args, ptrdiff_t num_args, void* opt_names) {
  const c10::impl::LocalDispatchKeySet thread = c10::impl::tls_local_dispatch_key_set();
  if (!IsPlain(thread)) return nullptr;
  DirectCall call(*static_cast<const DirectOp*>(context));
  auto* objects = reinterpret_cast<PyObject* const*>(const_cast<void**>(args));
  if (!Prepare(&call, objects, num_args, static_cast<PyObject*>(opt_names))) return nullptr;
  return Finish(&call, !thread.excluded_.has(DispatchKey::ADInplaceOrView));
}

Kind KindOf(const std::string& kind) {
  static const std::unordered_map<std::string, Kind> kinds = {
      {"tensor", Kind::kTensor}, {"optional", Kind::kOptional}, {"list", Kind::kTensors},
      {"int", Kind::kInt},       {"float", Kind::kFloat},       {"bool", Kind::kBool},
      {"str", Kind::kStr},       {"dtype", Kind::kDType},       {"device", Kind::kDevice}};
  return kinds.at(kind);
}

}  // namespace

py::capsule MakeDirectCall(const OpCall& call, const std::vector<DirectParameter>& parameters,
                           py::object opt_result_type, bool release_gil) {
  auto op = std::make_unique<DirectOp>();
  op->call = &call;
  op->release_gil = release_gil;
  op->opt_result_type = opt_result_type.is_none() ? nullptr : opt_result_type.release().ptr();
  for (const DirectParameter& parameter : parameters) {
    PyObject* name = PyUnicode_InternFromString(parameter.name.c_str());
    if (name == nullptr) throw py::error_already_set();
    op->parameters.push_back(
        {name, KindOf(parameter.kind), parameter.is_list, parameter.is_optional,
         parameter.is_mutated,
         parameter.is_required ? nullptr : parameter.default_value.inc_ref().ptr()});
  }
  op->opt_only_updated = op->FindOnlyUpdated();
  op->may_record = op->MayRecord();
  // Both live as long as the process, as the op does.
  auto* direct = new graphffi::DirectCall{&TakeOver, op.release()};
  return py::capsule(direct, graphffi::DirectCall::kName);
}

}  // namespace graphffi_torch
