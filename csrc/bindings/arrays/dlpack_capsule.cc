// SPDX-License-Identifier: Apache-2.0
#include "bindings/arrays/dlpack_capsule.h"

#include <string>

#include "bindings/arrays/numpy_array.h"
#include "bindings/framework.h"
#include "bindings/raised.h"

namespace graphffi::bindings {

namespace {

/// Both protocols, by type of managed tensor.
template <typename Managed>
struct Protocol;

template <>
struct Protocol<DLManagedTensor> {
  static constexpr char kName[] = "dltensor";
  static constexpr char kUsedName[] = "used_dltensor";
  static constexpr auto kImport = &TVMFFITensorFromDLPack;
  static constexpr auto kExport = &TVMFFITensorToDLPack;
};

template <>
struct Protocol<DLManagedTensorVersioned> {
  static constexpr char kName[] = "dltensor_versioned";
  static constexpr char kUsedName[] = "used_dltensor_versioned";
  static constexpr auto kImport = &TVMFFITensorFromDLPackVersioned;
  static constexpr auto kExport = &TVMFFITensorToDLPackVersioned;
};

/// The tensor of a capsule that nobody has consumed; NULL for other capsules.
template <typename Managed>
Managed* Content(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, Protocol<Managed>::kName) == 0) return nullptr;
  return static_cast<Managed*>(PyCapsule_GetPointer(capsule, Protocol<Managed>::kName));
}

/// A capsule that nobody consumed still owns its tensor.
template <typename Managed>
void DestroyCapsule(PyObject* capsule) {
  auto* opt_managed = Content<Managed>(capsule);
  if (opt_managed != nullptr && opt_managed->deleter != nullptr) opt_managed->deleter(opt_managed);
}

template <typename Managed>
py::object Make(TVMFFIObjectHandle tensor) {
  Managed* managed = nullptr;
  CheckRc(Protocol<Managed>::kExport(tensor, &managed));
  PyObject* capsule = PyCapsule_New(managed, Protocol<Managed>::kName, &DestroyCapsule<Managed>);
  if (capsule == nullptr) {
    managed->deleter(managed);
    throw PythonError();
  }
  return py::reinterpret_steal<py::object>(capsule);
}

template <typename Managed>
ObjectRef Consume(PyObject* capsule, Managed* managed) {
  TVMFFIObjectHandle tensor = nullptr;
  CheckRc(Protocol<Managed>::kImport(managed, 0, 0, &tensor));
  // From here on the tensor owns it: the capsule must not free it again.
  PyCapsule_SetName(capsule, Protocol<Managed>::kUsedName);
  return ObjectRef(tensor);
}

/// `value.__dlpack__(max_version=…)`, or without it for producers of the protocol before 1.0.
/// \throws ProducerError
py::object CallProducer(py::handle value) {
  static const py::handle keywords =
      py::dict(py::arg("max_version") = py::make_tuple(DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION))
          .release();
  PyObject* capsule = nullptr;
  PyObject* producer = PyObject_GetAttrString(value.ptr(), "__dlpack__");
  if (producer != nullptr) {
    capsule = PyObject_VectorcallDict(producer, nullptr, 0, keywords.ptr());
    if (capsule == nullptr && PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
      PyErr_Clear();
      capsule = PyObject_CallNoArgs(producer);
    }
    Py_DECREF(producer);
  }
  if (capsule == nullptr) throw ProducerError();
  return py::reinterpret_steal<py::object>(capsule);
}

/// Refuses tensors that nobody could read. \throws PythonError
void CheckReadable(const DLTensor& tensor) {
  std::string problem;
  if (tensor.ndim < 0) {
    problem = std::to_string(tensor.ndim) + " dimensions";
  } else if (tensor.ndim > 0 && tensor.shape == nullptr) {
    problem = "no shape";
  }
  bool is_empty = false;
  for (int i = 0; problem.empty() && i < tensor.ndim; ++i) {
    if (tensor.shape[i] < 0) problem = "the size " + std::to_string(tensor.shape[i]);
    is_empty = is_empty || tensor.shape[i] == 0;
  }
  if (problem.empty() && !is_empty && tensor.data == nullptr) problem = "no memory";
  if (problem.empty()) return;
  Fail(PyExc_BufferError,
       "graphffi: expected a DLPack tensor with a shape and memory, got one with " + problem);
}

/// A tensor of a capsule's managed tensor, which is used up. \throws PythonError, Error
ObjectRef ConsumeCapsule(PyObject* capsule) {
  if (auto* managed = Content<DLManagedTensorVersioned>(capsule)) {
    if (managed->version.major != DLPACK_MAJOR_VERSION) {
      Fail(PyExc_BufferError, "graphffi: expected a tensor of DLPack 1, got one of DLPack " +
                                  std::to_string(managed->version.major));
    }
    CheckReadable(managed->dl_tensor);
    return Consume(capsule, managed);
  }
  if (auto* managed = Content<DLManagedTensor>(capsule)) {
    CheckReadable(managed->dl_tensor);
    return Consume(capsule, managed);
  }
  std::string actual = Py_TYPE(capsule)->tp_name;
  if (PyCapsule_CheckExact(capsule) != 0) {
    const char* opt_name = PyCapsule_GetName(capsule);
    actual = "one named '" + std::string(opt_name == nullptr ? "" : opt_name) + "'";
  }
  Fail(PyExc_TypeError, "graphffi: expected an unused DLPack capsule, got " + actual);
}

}  // namespace

py::object MakeCapsule(TVMFFIObjectHandle tensor, bool versioned) {
  return versioned ? Make<DLManagedTensorVersioned>(tensor) : Make<DLManagedTensor>(tensor);
}

ObjectRef ImportProduced(PyObject* value) try {
  const py::object capsule = CallProducer(value);
  return ConsumeCapsule(capsule.ptr());
} catch (const PythonError&) {
  if (PyErr_ExceptionMatches(PyExc_BufferError) == 0 || !IsNumPyArray(Py_TYPE(value))) throw;
  py::error_already_set refusal;
  ObjectRef tensor = ImportExtensionArray(value);
  if (!tensor) throw refusal;
  return tensor;
}

}  // namespace graphffi::bindings
