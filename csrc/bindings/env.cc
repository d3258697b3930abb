// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <thread>

#include "bindings/define.h"
#include "bindings/dtype_device.h"
#include "bindings/object.h"
#include "bindings/raised.h"
#include "call/global_function.h"
#include "env/env_scope.h"
#include "gil/gil.h"

namespace graphffi::bindings {

namespace {

/// An EnvScope that a `with` statement opens and closes.
class StreamScope {
 public:
  StreamScope(py::handle device, uintptr_t stream)
      : device_(ToForeignDevice(device.ptr())), stream_(reinterpret_cast<void*>(stream)) {
    if (device_.device_type == kDLCPU) {
      Fail(PyExc_ValueError,
           "graphffi: use_stream: expected an accelerator, got cpu, which has no streams");
    }
  }

  /// Another thread than the one that entered leaks the scope: its end would set the stream and the
  /// allocator of the wrong thread.
  ~StreamScope() {
    if (thread_ != std::this_thread::get_id()) static_cast<void>(scope_.release());
  }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

  void Enter() {
    if (scope_ != nullptr) Fail(PyExc_RuntimeError, "graphffi: use_stream: already entered");
    thread_ = std::this_thread::get_id();
    scope_ =
        std::make_unique<EnvScope>(device_, stream_, TVMFFIEnvGetDLPackManagedTensorAllocator());
  }

  void Exit() {
    if (scope_ == nullptr || thread_ != std::this_thread::get_id()) {
      Fail(PyExc_RuntimeError, "graphffi: use_stream: expected exit on the thread that entered it");
    }
    scope_.reset();
  }

 private:
  DLDevice device_;
  void* stream_;
  std::unique_ptr<EnvScope> scope_;
  std::thread::id thread_;
};

/// Lets kernels ask for Python's pending signals. Another package may have done so: with the same
/// functions.
void RegisterPython() {
  CheckRc(
      TVMFFIEnvRegisterCAPI("PyErr_CheckSignals", reinterpret_cast<void*>(&PyErr_CheckSignals)));
  CheckRc(TVMFFIEnvRegisterCAPI("PyGILState_Ensure", reinterpret_cast<void*>(&PyGILState_Ensure)));
  CheckRc(
      TVMFFIEnvRegisterCAPI("PyGILState_Release", reinterpret_cast<void*>(&PyGILState_Release)));
}

int RaisePending(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  const GilHold gil;
  return gil.ok() && PyErr_Occurred() != nullptr ? RaiseCurrentPythonError() : 0;
}

/// Kernels that stop for a signal leave the exception with Python, see Error::TakeRaised.
void RegisterRaisePending() {
  SetGlobal(Error::kRaisePendingName, &RaisePending, /*allow_override=*/true);
}

/// Libraries exported by Apache TVM that call functions reach the runtime through variables, which
/// the loader fills from this table. Only TVM's own runtime registers them otherwise; without them
/// such a library would crash.
void RegisterContextSymbols() {
  const auto add = [](const char* name, auto* function) {
    CheckRc(TVMFFIEnvModRegisterContextSymbol(name, reinterpret_cast<void*>(function)));
  };
  add("__TVMFFIFunctionCall", &TVMFFIFunctionCall);
  add("__TVMFFIErrorSetRaisedFromCStr", &TVMFFIErrorSetRaisedFromCStr);
  add("__TVMFFIEnvModLookupFromImports", &TVMFFIEnvModLookupFromImports);
  add("__TVMFFIHandleInitOnce", &TVMFFIHandleInitOnce);
}

}  // namespace

void DefineEnv(py::module_& module) {
  RegisterPython();
  RegisterRaisePending();
  RegisterKeepsException();
  RegisterContextSymbols();
  py::class_<StreamScope>(module, "StreamScope", "Sets the env's stream while it is entered.")
      .def(py::init<py::handle, uintptr_t>(), py::arg("device"), py::arg("stream"))
      .def("enter", [](StreamScope& scope) { scope.Enter(); })
      .def("exit", [](StreamScope& scope) { scope.Exit(); });
}

}  // namespace graphffi::bindings
