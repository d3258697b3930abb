// SPDX-License-Identifier: Apache-2.0
// graphffi._core: what graphffi's Python code builds on.

#include <pybind11/pybind11.h>

#include "bindings/env.h"
#include "bindings/function.h"
#include "bindings/guard.h"
#include "bindings/library.h"
#include "bindings/object.h"
#include "bindings/op.h"
#include "bindings/plan_call.h"
#include "bindings/registry.h"
#include "bindings/tensor.h"

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
  bindings::DefineEnv(module);
}
