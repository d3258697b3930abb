// SPDX-License-Identifier: Apache-2.0
#include "kernels/library.h"

#include <tvm/ffi/extra/module.h>

#include <string>
#include <string_view>

#include "bindings/container.h"
#include "bindings/define.h"
#include "bindings/object.h"
#include "bindings/raised.h"
#include "gil/gil.h"
#include "kernels/kernel_ref.h"
#include "modules/cuda_module.h"

namespace graphffi::bindings {

namespace {

/// The C++ object behind a module's handle: that begins 8 bytes before.
tvm::ffi::ModuleObj* ModuleOf(py::handle module) {
  TVMFFIObjectHandle handle = HandleOf(module, ObjectType());
  if (TVMFFIObjectGetTypeIndex(handle) != kTVMFFIModule) {
    Fail(PyExc_TypeError,
         std::string("graphffi: expected a module, got ") + Py_TYPE(module.ptr())->tp_name);
  }
  return static_cast<tvm::ffi::ModuleObj*>(static_cast<tvm::ffi::Object*>(handle));
}

py::object Load(const std::string& path) {
  TVMFFIObjectHandle module = nullptr;
  {
    const GilRelease release(true);
    module = LoadLibrary(path).module;
  }
  return py::reinterpret_steal<py::object>(WrapObject(ObjectRef::Retain(module)));
}

py::object Imports(py::handle module) {
  using tvm::ffi::detail::ObjectUnsafe;
  const TVMFFIObjectHandle array =
      ObjectUnsafe::TVMFFIObjectPtrFromObjectRef(ModuleOf(module)->imports());
  if (array == nullptr) return py::list();
  return py::reinterpret_steal<py::object>(FromArray(array, nullptr));
}

py::bytes EmbeddedModules(const std::string& path) {
  const std::string_view tree = LoadLibrary(path).EmbeddedModules();
  return py::bytes(tree.data(), tree.size());
}

/// The module's class may be another library's, with exceptions that are known as std ones only.
py::bytes SaveToBytes(py::handle module) {
  const tvm::ffi::Bytes content = ModuleOf(module)->SaveToBytes();
  return py::bytes(content.data(), content.size());
}

}  // namespace

void DefineLibrary(py::module_& module) {
  modules::RegisterCudaModule();
  module.def("load_library", &Load, py::arg("path"),
             "Return the module of a library, loaded for the rest of the process.");
  module.def(
      "renew_library",
      [](const std::string& path) {
        const GilRelease release(true);
        return RenewKernels(path);
      },
      py::arg("path"),
      "Have a path mean the file that is there now; return whether it is another one.");
  module.def("is_library_current", &IsLibraryCurrent, py::arg("path"),
             "Return whether a path means the file that is there now.");
  module.def("embedded_modules", &EmbeddedModules, py::arg("path"),
             "Return the tree of modules in a loaded library, in bytes; empty if it has none.");
  module.def("module_imports", &Imports, py::arg("module"),
             "Return the modules that a module imports.");
  module.def("save_module_to_bytes", &SaveToBytes, py::arg("module"),
             "Return what the loader of the module's kind makes it from again.");
}

}  // namespace graphffi::bindings
