// SPDX-License-Identifier: Apache-2.0
#include "python/attribute_value.h"

#include <ATen/DLConvertor.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>

#include <cstring>

#include "call/describe_tensor.h"
#include "call/error.h"

namespace graphffi_torch {
namespace {

bool ToInt(PyObject* value, TVMFFIAny* out) {
  int overflow = 0;
  out->type_index = kTVMFFIInt;
  out->v_int64 = PyLong_AsLongLongAndOverflow(value, &overflow);
  return overflow == 0;
}

bool ToFloat(PyObject* value, TVMFFIAny* out) {
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

bool ToStr(PyObject* value, TVMFFIAny* out) {
  Py_ssize_t size = 0;
  out->type_index = kTVMFFIRawStr;
  out->v_c_str = PyUnicode_AsUTF8AndSize(value, &size);
  // One with NUL inside goes the other way.
  if (out->v_c_str != nullptr) return std::strlen(out->v_c_str) == static_cast<size_t>(size);
  PyErr_Clear();
  return false;
}

bool ToDType(at::ScalarType scalar, TVMFFIAny* out) {
  try {
    out->v_dtype =
        at::getDLDataType(at::empty({0}, at::TensorOptions(scalar).device(at::DeviceType::Meta)));
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

bool ToDType(PyObject* value, TVMFFIAny* out) {
  out->type_index = kTVMFFIDataType;
  if (THPDtype_Check(value)) return ToDType(reinterpret_cast<THPDtype*>(value)->scalar_type, out);
  TVMFFIAny text{};
  if (!PyUnicode_Check(value) || !ToStr(value, &text)) return false;
  try {
    out->v_dtype = graphffi::DTypeFromName(text.v_c_str);
    // The runtime reads more texts than graphffi.dtype does.
    return graphffi::DTypeName(out->v_dtype) == text.v_c_str;
  } catch (const graphffi::Error&) {
    return false;
  }
}

bool ToDevice(PyObject* value, TVMFFIAny* out) {
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

}  // namespace

bool ToAttribute(Kind kind, PyObject* value, TVMFFIAny* out) {
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

}  // namespace graphffi_torch
