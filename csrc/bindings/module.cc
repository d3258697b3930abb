// SPDX-License-Identifier: Apache-2.0
// graphffi._core: what graphffi's Python code builds on.

#include <pybind11/pybind11.h>

#include "bindings/define.h"
#include "bindings/raised.h"
#include "call/error.h"

PYBIND11_MODULE(_core, module) {
  namespace bindings = graphffi::bindings;
  module.doc() = "The bindings of graphffi. Private: use the package.";
  pybind11::register_exception_translator([](std::exception_ptr current) {
    try {
      if (current) std::rethrow_exception(current);
    } catch (const bindings::PythonError&) {
    } catch (const graphffi::Error& error) {
      bindings::SetPythonError(error);
    }
  });
  bindings::DefineObject(module);
  bindings::DefineFunction(module);
  bindings::DefineTensor(module);
  bindings::DefineLibrary(module);
  bindings::DefineOp(module);
  bindings::DefineRegistry(module);
  bindings::DefinePlanCall(module);
  bindings::DefinePlanFunction(module);
  bindings::DefineEnv(module);
}
