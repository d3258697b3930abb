// SPDX-License-Identifier: Apache-2.0
#include "bindings/array_interface.h"

#include <pybind11/stl.h>

#include <vector>

#include "bindings/dtype_device.h"
#include "bindings/tensor.h"
#include "gil/gil.h"

namespace graphffi::bindings {

namespace {

/// dtype.isbuiltin of a type that another package has registered with NumPy.
constexpr int kUserType = 2;

void ReleaseArray(void* array) {
  const GilHold gil;
  if (gil.ok()) Py_DECREF(static_cast<PyObject*>(array));
}

}  // namespace

ObjectRef ImportExtensionArray(PyObject* value) {
  const py::handle array(value);
  const py::object dtype = array.attr("dtype");
  if (dtype.attr("isbuiltin").cast<int>() != kUserType) return ObjectRef();
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
