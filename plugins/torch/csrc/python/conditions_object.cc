// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/Tensor.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <vector>

#include "python/define.h"
#include "python/raise.h"
#include "shapes/conditions.h"

namespace py = pybind11;

namespace graphffi_torch {
namespace {

/// Sizes and strides alone: of any data type, on any device.
DLTensor ShapeOf(const at::Tensor& tensor) {
  DLTensor view{};
  view.ndim = static_cast<int32_t>(tensor.dim());
  view.shape = const_cast<int64_t*>(tensor.sizes().data());
  if (tensor.layout() == at::kStrided) view.strides = const_cast<int64_t*>(tensor.strides().data());
  return view;
}

std::string FindBroken(const graphffi::Conditions& conditions,
                       const std::vector<at::Tensor>& tensors, const py::function& describe) {
  std::vector<DLTensor> views;
  for (const at::Tensor& tensor : tensors) views.push_back(ShapeOf(tensor));
  std::vector<const DLTensor*> pointers;
  for (const DLTensor& view : views) pointers.push_back(&view);
  const auto broken =
      conditions.FindBroken(pointers.data(), static_cast<int32_t>(pointers.size()), [&](int32_t i) {
        return py::cast<std::string>(describe(tensors.at(static_cast<size_t>(i))));
      });
  return broken.has_value() ? broken->message : "";
}

}  // namespace

void AddConditions(py::module_& module) {
  py::class_<graphffi::Conditions>(module, "Conditions")
      .def(py::init([](const std::string& text) {
             return Translated([&] { return graphffi::Conditions::Parse(text); });
           }),
           py::arg("text"))
      .def("find_broken", &FindBroken, py::arg("tensors"), py::arg("describe"));
}

}  // namespace graphffi_torch
