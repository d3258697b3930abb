// SPDX-License-Identifier: Apache-2.0
// Arguments that say by a method of their own what they are: tvm-ffi's protocols, and CUDA's.
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <string>

#include "bindings/arguments.h"
#include "bindings/callback.h"
#include "bindings/raised.h"
#include "call/error.h"
#include "call/value.h"
#include "gil/gil.h"
#include "modules/cuda_stream.h"

namespace graphffi::bindings {

namespace {

bool HasIndex(const py::object& value) { return PyIndex_Check(value.ptr()) != 0; }

py::object IndexOf(const py::object& value) {
  return py::reinterpret_steal<py::object>(Check(PyNumber_Index(value.ptr())));
}

/// Adds a line to the exception that is set, from Python 3.11 on.
void AddNote(const std::string& text) {
  py::error_already_set raised;
  if (py::hasattr(raised.value(), "add_note")) raised.value().attr("add_note")(text);
  raised.restore();
}

}  // namespace

std::string DescribeValue(PyObject* value) {
  static const py::handle describe = ImportImmortal("graphffi._values.describe", "describe");
  return describe(py::handle(value)).cast<std::string>();
}

TVMFFIAny FromForeignObject(PyObject* value) {
  ObjectRef object = RetainForeign(value);
  return object ? ObjectView(object.release()) : TVMFFIAny{};
}

py::object Arguments::Ask(PyObject* value, const char* method) {
  PyObject* answer = PyObject_CallMethod(value, method, nullptr);
  if (answer == nullptr) FailAsRaised(method);
  return py::reinterpret_steal<py::object>(answer);
}

void Arguments::FailAsRaised(const char* method) {
  AddNote(Position() + ": raised by " + method);
  throw PythonError();
}

/// Traced tensors have no elements: their framework says what to write instead.
void Arguments::FailProducer(PyObject* value) {
  if (PyErr_ExceptionMatches(PyExc_Exception) != 0) {
    py::error_already_set raised;
    static const py::handle advice =
        ImportImmortal("graphffi._frameworks.framework", "traced_advice");
    const auto text = advice(SubjectText(opt_subject_), py::handle(value)).cast<std::string>();
    if (!text.empty()) {
      FailValue(PyExc_TypeError, "a tensor with elements",
                "a traced " + DescribeValue(value) + "; in traced code, write " + text);
    }
    raised.restore();
  }
  FailAsRaised("__dlpack__");
}

void Arguments::FailAnswer(const char* method, const char* expected, const py::object& answer) {
  FailValue(PyExc_TypeError, (std::string(expected) + " from " + method).c_str(),
            DescribeValue(answer.ptr()));
}

TVMFFIAny Arguments::FromHolder(PyObject* value) {
  static constexpr char kMethod[] = "__tvm_ffi_object__";
  const py::object held = Ask(value, kMethod);
  if (held.is_none() && PyCallable_Check(value) != 0) {
    return ObjectView(MakeCallback(value).release());
  }
  if (!HasProtocol(Py_TYPE(held.ptr()), "__chandle__")) FailAnswer(kMethod, "an object", held);
  return FromForeignObject(held.ptr());
}

TVMFFIAny Arguments::FromStream(PyObject* value) {
  static constexpr char kMethod[] = "__cuda_stream__";
  const py::object pair = Ask(value, kMethod);
  if (PyTuple_Check(pair.ptr()) == 0 || PyTuple_GET_SIZE(pair.ptr()) != 2) {
    FailAnswer(kMethod, "a tuple of version and address", pair);
  }
  return FromAddress(pair[py::int_(1)], kMethod);
}

TVMFFIAny Arguments::FromAddress(const py::object& number, const char* method) {
  if (!HasIndex(number)) FailAnswer(method, "an address", number);
  const py::object index = IndexOf(number);
  int overflow = 0;
  int64_t address = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow > 0) address = static_cast<int64_t>(PyLong_AsUnsignedLongLong(index.ptr()));
  if (overflow < 0 || (address == -1 && PyErr_Occurred() != nullptr)) {
    PyErr_Clear();
    FailAnswer(method, "an address of 64 bits", number);
  }
  return ToAny(reinterpret_cast<void*>(address));
}

TVMFFIAny Arguments::FromAsInt(PyObject* value) {
  static constexpr char kMethod[] = "__tvm_ffi_int__";
  const py::object number = Ask(value, kMethod);
  if (!HasIndex(number)) FailAnswer(kMethod, "an int", number);
  return FromInt(IndexOf(number).ptr());
}

TVMFFIAny Arguments::FromAsFloat(PyObject* value) {
  static constexpr char kMethod[] = "__tvm_ffi_float__";
  const py::object number = Ask(value, kMethod);
  const PyNumberMethods* methods = Py_TYPE(number.ptr())->tp_as_number;
  const bool is_real = methods != nullptr && methods->nb_float != nullptr;
  if (!is_real && !HasIndex(number)) FailAnswer(kMethod, "a float", number);
  const double payload = PyFloat_AsDouble(number.ptr());
  if (payload == -1.0 && PyErr_Occurred() != nullptr) throw PythonError();
  return ToAny(payload);
}

TVMFFIAny Arguments::FromAsValue(PyObject* value) {
  const RecursionGuard guard;
  return Own(Ask(value, "__tvm_ffi_value__").ptr());
}

/// The stream that a tensor names counts more than a framework's current one.
void Arguments::NoteStream(PyObject* value, DLDevice device) {
  static constexpr char kMethod[] = "__tvm_ffi_env_stream__";
  if (!HasProtocol(Py_TYPE(value), kMethod)) {
    // Who set a stream orders the work on it.
    if (TVMFFIEnvGetStream(device.device_type, device.device_id) == nullptr) {
      awaited_.push_back(device);
    }
    return;
  }
  env_.stream = FromAddress(Ask(value, kMethod), kMethod).v_ptr;
  env_.device = device;
  if (!has_env_) env_.allocator = env_.as_good = TVMFFIEnvGetDLPackManagedTensorAllocator();
  has_env_ = true;
}

int Arguments::AwaitOnDevices(bool kernels) const try {
  const GilRelease release(true);
  for (const DLDevice& device : awaited_) {
    if (device.device_type != kDLCUDA) continue;
    const bool is_env =
        env_.device.device_type == device.device_type && env_.device.device_id == device.device_id;
    void* stream = is_env ? env_.stream : nullptr;
    if (kernels) {
      modules::AwaitCudaStream(device.device_id, stream);
    } else if (stream != nullptr) {
      modules::OrderCudaStreams(device.device_id, nullptr, stream);
    }
  }
  return 0;
} catch (const tvm::ffi::Error& error) {
  return SetRaised(error.kind(), error.message());
}

}  // namespace graphffi::bindings
