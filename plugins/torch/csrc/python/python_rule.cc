// SPDX-License-Identifier: Apache-2.0
#include "python/python_rule.h"

#include <utility>

#include "gil/gil.h"
#include "python/raise.h"

namespace py = pybind11;

namespace graphffi_torch {
namespace {

py::object FromTensor(const DLTensor& tensor) {
  py::tuple shape(static_cast<size_t>(tensor.ndim));
  for (int32_t i = 0; i < tensor.ndim; ++i) shape[static_cast<size_t>(i)] = tensor.shape[i];
  return py::make_tuple(
      shape, py::make_tuple(tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes),
      py::make_tuple(static_cast<int32_t>(tensor.device.device_type), tensor.device.device_id));
}

py::object FromValue(const TVMFFIAny& value) {
  switch (value.type_index) {
    case kTVMFFITensor:
      return FromTensor(*TVMFFITensorGetDLTensorPtr(value.v_obj));
    case kTVMFFIBool:
      return py::bool_(value.v_int64 != 0);
    case kTVMFFIInt:
      return py::int_(value.v_int64);
    case kTVMFFIFloat:
      return py::float_(value.v_float64);
    case kTVMFFIRawStr:
      return py::str(value.v_c_str);
    case kTVMFFIDataType:
      return py::make_tuple(value.v_dtype.code, value.v_dtype.bits, value.v_dtype.lanes);
    case kTVMFFIDevice:
      return py::make_tuple(static_cast<int32_t>(value.v_device.device_type),
                            value.v_device.device_id);
    default:
      return py::none();
  }
}

py::list FromBank(const graphffi::Bank& bank, size_t first) {
  py::list list;
  for (auto i = static_cast<int32_t>(first); i < bank.size; ++i) {
    const graphffi::Slot slot = bank.slot(i);
    if (slot.count == graphffi::Slot::kSingle) {
      list.append(FromValue(bank.values[slot.begin]));
      continue;
    }
    py::list items;
    for (int32_t k = 0; k < slot.count; ++k) items.append(FromValue(bank.values[slot.begin + k]));
    list.append(items);
  }
  return list;
}

}  // namespace

std::string PythonRule::Ask(const graphffi::CallValues& values, bool trace) {
  return WithGil([&] {
    const py::list inputs = FromBank(values.inputs, 0),
                   outputs = FromBank(values.outputs, num_results_),
                   attributes = FromBank(values.attributes, 0);
    PyObject* answer = graphffi::UntilShutdown([&] {
      return PyObject_CallFunctionObjArgs(answer_, inputs.ptr(), outputs.ptr(), attributes.ptr(),
                                          trace ? Py_True : Py_False, nullptr);
    });
    if (answer == nullptr) ThrowPending();
    return py::reinterpret_steal<py::object>(answer).cast<std::string>();
  });
}

graphffi::ShapeRule::MadeKernel PythonRule::Made(int32_t number) {
  return WithGil([&] {
    auto [factory, reference] =
        py::handle(answer_).attr("made")(number).cast<std::pair<int32_t, std::string>>();
    return MadeKernel{factory, std::move(reference)};
  });
}

}  // namespace graphffi_torch
