// SPDX-License-Identifier: Apache-2.0
#include "bindings/registry.h"

#include <string>

#include "bindings/function.h"
#include "bindings/raised.h"
#include "callframe/global_function.h"

namespace graphffi::bindings {

void DefineRegistry(py::module_& module) {
  module.def(
      "get_global_func",
      [](const std::string& name) -> py::object {
        ObjectRef function(FindGlobal(name));
        if (!function) return py::none();
        const py::str text(name);
        return py::reinterpret_steal<py::object>(
            WrapFunction(std::move(function), text.ptr(), text.ptr()));
      },
      py::arg("name"), "Return the global function `name`, or None.");
  module.def(
      "register_global_func",
      [](const std::string& name, py::handle function, bool override) {
        const TVMFFIByteArray bytes = {name.data(), name.size()};
        TVMFFIObjectHandle handle = HandleOf(function, FunctionType());
        CheckRc(TVMFFIFunctionSetGlobal(&bytes, handle, override ? 1 : 0));
      },
      py::arg("name"), py::arg("function"), py::arg("override") = false,
      "Enter `function` into the table.");
}

}  // namespace graphffi::bindings
