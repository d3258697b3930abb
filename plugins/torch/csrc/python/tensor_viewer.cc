// SPDX-License-Identifier: Apache-2.0
#include <ATen/DLConvertor.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/python_variable.h>

#include <optional>
#include <string>
#include <utility>

#include "env.h"
#include "hooks/plugin_call.h"
#include "operators/banks.h"
#include "python/define.h"
#include "python/plain_tensor.h"

namespace py = pybind11;

namespace graphffi_torch {
namespace {

const DLPackExchangeAPI* exchange_table = nullptr;  // torch's own

int FailLazy(const char* what, const char* remedy) {
  PyErr_Format(PyExc_BufferError, "its memory holds the %s; pass x.%s()", what, remedy);
  return -1;
}

/// Lazy zeros, and tensors whose memory was given back, have elements but no memory.
int CheckHasMemory(const at::Tensor& tensor) {
  if (tensor.has_storage() && tensor.unsafeGetTensorImpl()->storage_initialized()) return 0;
  PyErr_SetString(PyExc_BufferError, "it has no memory");
  return -1;
}

int ViewOther(void* object, const at::Tensor& tensor, DLTensor* view) {
  const c10::DispatchKeySet keys = tensor.key_set();
  if (keys.has(c10::DispatchKey::Conjugate)) return FailLazy("conjugate", "resolve_conj");
  if (keys.has(c10::DispatchKey::Negative)) return FailLazy("negative", "resolve_neg");
  const int rc = exchange_table->dltensor_from_py_object_no_sync(object, view);
  return rc == 0 ? CheckHasMemory(tensor) : rc;
}

bool IsTraced() {  // by torch.jit.trace, or make_fx
  using c10::impl::TorchDispatchModeKey;
  const c10::impl::LocalDispatchKeySet thread = c10::impl::tls_local_dispatch_key_set();
  if ((thread.included_ - thread.excluded_).has(c10::DispatchKey::Tracer)) return true;
  if (!thread.included_.has(c10::DispatchKey::Python)) return false;
  return c10::impl::TorchDispatchModeTLS::get_mode(TorchDispatchModeKey::PROXY).has_value();
}

int View(void* object, DLTensor* view) {
  const at::Tensor& tensor = THPVariable_Unpack(static_cast<PyObject*>(object));
  if (IsWithin(tensor.key_set(), kPlainTensor)) {
    if (CheckHasMemory(tensor) != 0) return -1;
    try {
      FillView(tensor, view);
      return 0;
    } catch (const std::exception&) {  // torch's table says what is wrong
    }
  }
  return ViewOther(object, tensor, view);
}

/// Torch's table (2.13) knows the streams of CUDA only.
int StreamOf(DLDeviceType type, int32_t index, void** stream) {
  try {
    *stream = CurrentStream(at::dlDeviceToTorchDevice(type, static_cast<c10::DeviceIndex>(index)));
    return 0;
  } catch (const c10::Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return -1;
}

void* BeginEvent(void* opt_name) {
  std::optional<at::StepCallbacks> profiled =
      at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
  if (!profiled) return nullptr;
  auto* name = static_cast<PyObject*>(opt_name);
  const char* text = name == nullptr ? "graphffi.Function" : PyUnicode_AsUTF8(name);
  PyErr_Clear();
  if (text == nullptr) return nullptr;
  auto* event = new at::RecordFunction(std::move(*profiled));
  event->before(std::string(text));
  return event;
}

void EndEvent(void* event) { delete static_cast<at::RecordFunction*>(event); }

}  // namespace

py::capsule MakeTensorViewer(const py::capsule& exchange) {
  const void* table = PyCapsule_GetPointer(exchange.ptr(), "dlpack_exchange_api");
  if (table == nullptr) throw py::error_already_set();
  exchange_table = static_cast<const DLPackExchangeAPI*>(table);
  static const graphffi::TensorViewer viewer{&View,       &StreamOf, shared_allocator,
                                             &BeginEvent, &EndEvent, &IsTraced};
  return py::capsule(&viewer, graphffi::TensorViewer::kName);
}

}  // namespace graphffi_torch
