// SPDX-License-Identifier: Apache-2.0
#include "bindings/arrays/numpy_array.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "bindings/arrays/tensor.h"
#include "bindings/dtype_device.h"
#include "call/call_frame.h"
#include "gil/gil.h"

namespace graphffi::bindings {

namespace {

/// The fields that every NumPy array begins with. Extensions compiled with any NumPy 1 or 2 read
/// these fields.
struct ArrayFields {
  PyObject_HEAD char* data;
  int ndim;
  Py_ssize_t *shape, *strides;
  PyObject *base, *dtype;
};

const ArrayFields& FieldsOf(const void* array) { return *static_cast<const ArrayFields*>(array); }

constexpr int kMaxDims = 64;  // NumPy's

/// A data type whose elements DLPack can describe.
struct KnownDType {
  PyObject* dtype;  // kept for good: nearly all arrays have one of NumPy's own
  DLDataType type;
  int shift;  // log2 of the bytes of an element
};

/// Guarded by the GIL.
std::vector<KnownDType>& KnownDTypes() {
  static auto* known = new std::vector<KnownDType>;
  return *known;
}
constexpr size_t kMaxKnown = 64;

/// dtype.isbuiltin of NumPy's own types, and of those that another package has registered.
constexpr int kBuiltin = 1, kRegistered = 2;

bool IsPlainNumber(py::handle dtype, int64_t num_bytes) {
  const int builtin = dtype.attr("isbuiltin").cast<int>();
  if (builtin == kRegistered) return true;
  const char kind = dtype.attr("kind").cast<std::string>()[0];
  if (kind == 'f') return builtin == kBuiltin && num_bytes <= 8;  // no long double
  if (kind == 'c') return builtin == kBuiltin && num_bytes <= 16;
  return builtin == kBuiltin && std::strchr("biu", kind) != nullptr;
}

const KnownDType* Learn(PyObject* object) try {
  const py::handle dtype(object);
  const auto num_bytes = dtype.attr("itemsize").cast<int64_t>();
  if (KnownDTypes().size() >= kMaxKnown || !dtype.attr("isnative").cast<bool>() ||
      !IsPlainNumber(dtype, num_bytes)) {
    return nullptr;
  }
  int shift = 0;
  while ((int64_t{1} << shift) < num_bytes) ++shift;
  const DLDataType type = ToForeignDType(object);
  // Less than whole bytes are padded, which DLPack has no word for.
  if (num_bytes != int64_t{1} << shift || num_bytes * 8 != type.bits * type.lanes) return nullptr;
  KnownDTypes().push_back({Py_NewRef(object), type, shift});
  return &KnownDTypes().back();
} catch (const py::error_already_set&) {
  return nullptr;
}

const KnownDType* Find(PyObject* dtype) {
  for (const KnownDType& known : KnownDTypes()) {
    if (known.dtype == dtype) return &known;
  }
  return Learn(dtype);
}

/// Gives a tensor without elements the strides of one that has some: NumPy 2.4's are 0, and kernels
/// compare them with those of a contiguous tensor (Apache TVM 0.27's).
void NormalizeIfEmpty(const DLTensor& tensor) {
  if (std::find(tensor.shape, tensor.shape + tensor.ndim, 0) == tensor.shape + tensor.ndim) return;
  FillCompactStrides(tensor.shape, tensor.ndim, tensor.strides);
}

int View(void* object, DLTensor* view) {
  static int64_t strides[kMaxDims];  // guarded by the GIL, as the caller's use of it
  const ArrayFields& array = FieldsOf(object);
  const KnownDType* known = Find(array.dtype);
  if (known == nullptr || array.ndim > kMaxDims) return 1;
  for (int i = 0; i < array.ndim; ++i) {
    strides[i] = array.strides[i] >> known->shift;
    if (strides[i] * (int64_t{1} << known->shift) != array.strides[i]) return 1;
  }
  *view = {array.data, {kDLCPU, 0}, array.ndim, known->type, array.shape, strides, 0};
  NormalizeIfEmpty(*view);
  return 0;
}

/// Whether an array with distinct sizes and strides has its fields where they are expected.
bool IsLayoutKnown(PyTypeObject* type) {
  const py::module_ numpy = py::module_::import("numpy");
  if (py::object(numpy.attr("ndarray")).ptr() != reinterpret_cast<PyObject*>(type)) return false;
  const py::object array = numpy.attr("zeros")(py::make_tuple(7, 3, 5), "int16").attr("T");
  const auto address =
      py::tuple(py::dict(array.attr("__array_interface__"))["data"])[0].cast<uintptr_t>();
  const auto shape = array.attr("shape").cast<std::vector<Py_ssize_t>>();
  const auto strides = array.attr("strides").cast<std::vector<Py_ssize_t>>();
  const ArrayFields& fields = FieldsOf(array.ptr());
  return type->tp_basicsize >= static_cast<Py_ssize_t>(sizeof(ArrayFields)) &&
         reinterpret_cast<uintptr_t>(fields.data) == address && fields.ndim == 3 &&
         std::vector<Py_ssize_t>(fields.shape, fields.shape + 3) == shape &&
         std::vector<Py_ssize_t>(fields.strides, fields.strides + 3) == strides &&
         py::object(array.attr("dtype")).ptr() == fields.dtype;
}

void ReleaseArray(void* array) {
  const GilHold gil;
  if (gil.ok()) Py_DECREF(static_cast<PyObject*>(array));
}

void ReleaseManaged(DLManagedTensorVersioned* managed) {
  const GilHold gil;
  if (!gil.ok()) return;
  Py_DECREF(static_cast<PyObject*>(managed->manager_ctx));
  delete managed;
}

}  // namespace

ArrayView FindArrayView(PyTypeObject* type) try {
  return std::strcmp(type->tp_name, "numpy.ndarray") == 0 && IsLayoutKnown(type) ? &View : nullptr;
} catch (const py::error_already_set&) {
  return nullptr;
} catch (const py::cast_error&) {
  return nullptr;
}

DLManagedTensorVersioned* ManageArray(PyObject* array) {
  auto* managed = new DLManagedTensorVersioned{};
  managed->manager_ctx = Py_NewRef(array);
  managed->deleter = &ReleaseManaged;
  return managed;
}

ObjectRef ImportExtensionArray(PyObject* value) {
  const py::handle array(value);
  const py::object dtype = array.attr("dtype");
  if (dtype.attr("isbuiltin").cast<int>() != kRegistered) return ObjectRef();
  DLTensor tensor{};
  tensor.device = {kDLCPU, 0};
  tensor.dtype = ToForeignDType(dtype.ptr());
  const auto item_bytes = dtype.attr("itemsize").cast<int64_t>();
  if (item_bytes * 8 != tensor.dtype.bits * tensor.dtype.lanes) return ObjectRef();  // padded int4
  auto shape = array.attr("shape").cast<std::vector<int64_t>>();
  auto strides = array.attr("strides").cast<std::vector<int64_t>>();
  for (int64_t& stride : strides) {
    if (stride % item_bytes != 0) return ObjectRef();
    stride /= item_bytes;
  }
  tensor.ndim = static_cast<int32_t>(shape.size());
  tensor.shape = shape.data();
  tensor.strides = strides.data();
  tensor.data = reinterpret_cast<void*>(array.attr("ctypes").attr("data").cast<uintptr_t>());
  Py_INCREF(value);
  return MakeTensor(tensor, value, &ReleaseArray);
}

}  // namespace graphffi::bindings
