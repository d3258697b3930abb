// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "bindings/define.h"
#include "bindings/function.h"
#include "call/global_function.h"
#include "call/registry_watch.h"
#include "gil/gil.h"

namespace graphffi::bindings {

namespace {

/// RegistryWatch::opt_lock. Near the interpreter's end there is no GIL to take, and nobody else.
void RunWithGil(RegistryWatch::Body body, void* context) {
  const GilHold gil;
  body(context);
}

}  // namespace

void DefineRegistry(py::module_& module) {
  RegistryWatch& watch = RegistryWatch::Get();
  if (!watch.is_own_runtime()) watch.opt_lock.store(&RunWithGil, std::memory_order_release);
  module.def(
      "get_global_func",
      [](const std::string& name) -> py::object {
        ObjectRef function = FindGlobal(name);
        if (!function) return py::none();
        const py::str text(name);
        return py::reinterpret_steal<py::object>(
            WrapFunction(std::move(function), text.ptr(), text.ptr()));
      },
      py::arg("name"), "Return the global function `name`, or None.");
  module.def(
      "register_global_func",
      [](const std::string& name, py::handle function, bool override) {
        SetGlobal(name, HandleOf(function, FunctionType()), override);
      },
      py::arg("name"), py::arg("function"), py::arg("override") = false,
      "Enter `function` into the table.");
  module.def("remove_global_func", &RemoveGlobal, py::arg("name"),
             "Take a function out of the table; return whether it was there.");
}

}  // namespace graphffi::bindings
