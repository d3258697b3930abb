// SPDX-License-Identifier: Apache-2.0
#include "bindings/value.h"

#include <string>

#include "bindings/arrays/tensor.h"
#include "bindings/container.h"
#include "bindings/dtype_device.h"
#include "bindings/function.h"
#include "bindings/object.h"
#include "bindings/raised.h"

// Runtimes of releases before 0.1.14 lack it, and big integers.
extern "C" TVMFFIByteArray TVMFFIBigIntGetContentByteArray(const TVMFFIAny* value)
    __attribute__((weak));

namespace graphffi::bindings {

namespace {

PyObject* FromString(const TVMFFIByteArray& content) {
  return Check(PyUnicode_DecodeUTF8(content.data, static_cast<Py_ssize_t>(content.size), nullptr));
}

PyObject* FromBytes(const TVMFFIByteArray& content) {
  return Check(PyBytes_FromStringAndSize(content.data, static_cast<Py_ssize_t>(content.size)));
}

PyObject* FromPointer(void* pointer) {
  static const py::handle type = ImportImmortal("ctypes", "c_void_p");
  return type(reinterpret_cast<uintptr_t>(pointer)).release().ptr();
}

/// The content is 64-bit words, little-endian two's complement.
PyObject* FromBigInt(TVMFFIObjectHandle object) {
  const TVMFFIAny value = ObjectView(object);
  const auto words =
      py::reinterpret_steal<py::object>(FromBytes(TVMFFIBigIntGetContentByteArray(&value)));
  return py::handle(reinterpret_cast<PyObject*>(&PyLong_Type))
      .attr("from_bytes")(words, "little", py::arg("signed") = true)
      .release()
      .ptr();
}

PyObject* FromTensor(TVMFFIObjectHandle tensor, Framework opt_framework) {
  if (opt_framework == nullptr) return WrapObject(ObjectRef::Retain(tensor));
  if (opt_framework->opt_exchange != nullptr) {
    return ExportTensor(tensor, *opt_framework->opt_exchange);
  }
  py::object wrapped = py::reinterpret_steal<py::object>(WrapObject(ObjectRef::Retain(tensor)));
  const py::handle importer = ImporterOf(opt_framework);
  return importer.is_none() ? wrapped.release().ptr() : importer(wrapped).release().ptr();
}

PyObject* FromObject(TVMFFIObjectHandle object, Framework opt_framework) {
  switch (TVMFFIObjectGetTypeIndex(object)) {
    case kTVMFFIStr:
      return FromString(*TVMFFIBytesGetByteArrayPtr(object));
    case kTVMFFIBytes:
      return FromBytes(*TVMFFIBytesGetByteArrayPtr(object));
    case kTVMFFITensor:
      return FromTensor(object, opt_framework);
    case kTVMFFIShape:
      return FromShape(object);
    case kTVMFFIArray:
    case kTVMFFIList:
      return FromArray(object, opt_framework);
    case kTVMFFIMap:
    case kTVMFFIDict:
      return FromMap(object, opt_framework);
    case kTVMFFIError:
      return ToException(object).release().ptr();
    case kTVMFFIOpaquePyObject:
      return Py_NewRef(static_cast<PyObject*>(TVMFFIOpaqueObjectGetCellPtr(object)->handle));
    case kTVMFFIBigInt:
      return FromBigInt(object);
    default:
      return WrapObject(ObjectRef::Retain(object));
  }
}

}  // namespace

PyObject* ViewToPython(const TVMFFIAny& view, Framework opt_framework) {
  switch (view.type_index) {
    case kTVMFFINone:
      Py_RETURN_NONE;
    case kTVMFFIInt:
      return Check(PyLong_FromLongLong(view.v_int64));
    case kTVMFFIBool:
      return PyBool_FromLong(view.v_int64 != 0);
    case kTVMFFIFloat:
      return Check(PyFloat_FromDouble(view.v_float64));
    case kTVMFFIOpaquePtr:
      return FromPointer(view.v_ptr);
    case kTVMFFIDataType:
      return FromDType(view.v_dtype);
    case kTVMFFIDevice:
      return FromDevice(view.v_device);
    case kTVMFFIDLTensorPtr:
      return WrapObject(MakeTensor(*static_cast<const DLTensor*>(view.v_ptr), nullptr, nullptr));
    case kTVMFFIRawStr:
      return FromString({view.v_c_str, std::char_traits<char>::length(view.v_c_str)});
    case kTVMFFIByteArrayPtr:
      return FromBytes(*static_cast<const TVMFFIByteArray*>(view.v_ptr));
    case kTVMFFIObjectRValueRef:
      return FromObject(*static_cast<TVMFFIObjectHandle*>(view.v_ptr), opt_framework);
    case kTVMFFISmallStr:
      return FromString(TVMFFISmallBytesGetContentByteArray(&view));
    case kTVMFFISmallBytes:
      return FromBytes(TVMFFISmallBytesGetContentByteArray(&view));
    default:
      break;
  }
  if (view.type_index >= kTVMFFIStaticObjectBegin) return FromObject(view.v_obj, opt_framework);
  Fail(PyExc_TypeError, "graphffi: expected a value that Python can hold, got one of type index " +
                            std::to_string(view.type_index));
}

PyObject* ToPython(TVMFFIAny* owned, Framework opt_framework) {
  if (owned->type_index < kTVMFFIStaticObjectBegin) {
    if (owned->type_index == kTVMFFIDLTensorPtr) {
      Fail(PyExc_RuntimeError,
           "graphffi: expected an owning tensor as result, got a view of memory without an owner; "
           "let the kernel return a Tensor");
    }
    return ViewToPython(*owned, opt_framework);
  }
  const ObjectRef owner(owned->v_obj);
  return ViewToPython(*owned, opt_framework);
}

}  // namespace graphffi::bindings
