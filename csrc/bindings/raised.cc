// SPDX-License-Identifier: Apache-2.0
#include "bindings/raised.h"

#include <tvm/ffi/object.h>

#include <exception>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "bindings/guard.h"
#include "call/global_function.h"
#include "call/value.h"
#include "gil/gil.h"

namespace graphffi::bindings {

namespace {

/// Exceptions that travel as error objects: by error, as long as its extra_context. An error that
/// is in here was made below, so nobody else's extra_context is ever read. Never destroyed: errors
/// may outlive Python.
class KeptExceptions {
 public:
  static KeptExceptions& Get() {
    static auto* kept = new KeptExceptions;
    return *kept;
  }

  void Add(TVMFFIObjectHandle error, PyObject* exception) {
    std::lock_guard<std::mutex> lock(mutex_);
    exceptions_[error] = exception;
  }
  void Remove(TVMFFIObjectHandle error) {
    std::lock_guard<std::mutex> lock(mutex_);
    exceptions_.erase(error);
  }
  /// Borrowed from the error; NULL if it has none.
  PyObject* OptFind(TVMFFIObjectHandle opt_error) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = exceptions_.find(opt_error);
    return found == exceptions_.end() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<TVMFFIObjectHandle, PyObject*> exceptions_;
};

/// The owner of an exception in an error's extra_context. Whoever holds that may outlive the error,
/// whose address is no other error's meanwhile.
struct Keeper {
  PyObject* exception;
  tvm::ffi::WeakObjectPtr<tvm::ffi::Object> error;
  TVMFFIObjectHandle address;
};

constexpr char kKeeperName[] = "graphffi.kept_exception";

void DestroyKeeper(PyObject* capsule) {
  auto* keeper = static_cast<Keeper*>(PyCapsule_GetPointer(capsule, kKeeperName));
  KeptExceptions::Get().Remove(keeper->address);
  Py_DECREF(keeper->exception);
  delete keeper;
}

void ReleaseCapsule(void* capsule) {
  GilHold gil;
  if (gil.ok()) DropUntilShutdown(static_cast<PyObject*>(capsule));
}

TVMFFIByteArray Bytes(const std::string& text) { return {text.data(), text.size()}; }

std::string Text(py::handle value) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (text == nullptr) {
    PyErr_Clear();
    return "<not valid unicode>";
  }
  return std::string(text, static_cast<size_t>(size));
}

/// Frames as TVM FFI writes them: the most recent first.
std::string TracebackText(py::handle exception) {
  std::string text;
  py::object frame = exception.attr("__traceback__");
  while (!frame.is_none()) {
    py::object code = frame.attr("tb_frame").attr("f_code");
    const py::object line = frame.attr("tb_lineno");  // None in code that was made without lines
    text = "  File \"" + Text(code.attr("co_filename")) + "\", line " +
           std::to_string(line.is_none() ? 0 : line.cast<long>()) + ", in " +
           Text(code.attr("co_name")) + "\n" + text;
    frame = frame.attr("tb_next");
  }
  return text;
}

std::string MessageText(py::handle exception) {
  PyObject* message = PyObject_Str(exception.ptr());
  if (message == nullptr) {
    PyErr_Clear();
    return "<its __str__ failed>";
  }
  return Text(py::reinterpret_steal<py::object>(message));
}

/// *New reference* to an Error object that keeps `exception`. \throws Error
TVMFFIObjectHandle MakeError(py::object exception) {
  const std::string kind = Text(py::type::of(exception).attr("__name__"));
  const std::string message = MessageText(exception);
  const std::string traceback = TracebackText(exception);
  const TVMFFIByteArray kind_bytes = Bytes(kind), message_bytes = Bytes(message),
                        traceback_bytes = Bytes(traceback);

  auto* keeper = new Keeper{exception.release().ptr(), {}, nullptr};
  PyObject* capsule = PyCapsule_New(keeper, kKeeperName, &DestroyKeeper);
  if (capsule == nullptr) {
    Py_DECREF(keeper->exception);
    delete keeper;
    throw py::error_already_set();
  }
  TVMFFIObjectHandle context = nullptr;
  if (const int rc =
          TVMFFIObjectCreateOpaque(capsule, kTVMFFIOpaquePyObject, &ReleaseCapsule, &context)) {
    Py_DECREF(capsule);
    throw Error::TakeRaised(rc);
  }
  TVMFFIObjectHandle error = nullptr;
  const int rc = TVMFFIErrorCreateWithCauseAndExtraContext(
      &kind_bytes, &message_bytes, &traceback_bytes, nullptr, context, &error);
  if (rc == 0) {
    keeper->error = tvm::ffi::detail::ObjectUnsafe::ObjectPtrFromUnowned<tvm::ffi::Object>(
        static_cast<TVMFFIObject*>(error));
    keeper->address = error;
    KeptExceptions::Get().Add(error, keeper->exception);
  }
  TVMFFIObjectDecRef(context);  // what remains is the error's
  CheckRc(rc);
  return error;
}

py::object MakeException(std::string_view kind, std::string_view message,
                         std::string_view backtrace) {
  // Kernels write what they like: bytes that are no UTF-8 are shown, not fatal.
  const auto text = [](std::string_view bytes) {
    PyObject* decoded = PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()),
                                             "backslashreplace");
    return py::reinterpret_steal<py::object>(Check(decoded));
  };
  return py::module_::import("graphffi._values.error")
      .attr("exception_for")(text(kind), text(message), text(backtrace));
}

/// The exception that `opt_error` keeps, or else one that says the same.
py::object ExceptionOf(TVMFFIObjectHandle opt_error, std::string_view kind,
                       std::string_view message, std::string_view backtrace) {
  if (PyObject* kept = KeptExceptions::Get().OptFind(opt_error)) {
    return py::reinterpret_borrow<py::object>(kept);
  }
  return MakeException(kind, message, backtrace);
}

/// Whether an error keeps an exception. Does not need the GIL.
int KeepsException(void*, const TVMFFIAny* args, int32_t, TVMFFIAny* result) {
  result->type_index = kTVMFFIBool;
  result->v_int64 = KeptExceptions::Get().OptFind(args[0].v_obj) != nullptr;
  return 0;
}

}  // namespace

void Fail(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  throw PythonError();
}

void FailFromCurrent(PyObject* type, const std::string& message) {
  // Not KeyboardInterrupt and its like, which are no error of the value.
  if (PyErr_ExceptionMatches(PyExc_Exception) != 0) {
    py::error_already_set current;
    const std::string reason = MessageText(current.value());
    current.restore();
    py::raise_from(type, (message + (reason.empty() ? "" : ": " + reason)).c_str());
  }
  throw PythonError();
}

py::object ToException(TVMFFIObjectHandle error) {
  const TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(error);
  return ExceptionOf(error, TextOf(cell->kind), TextOf(cell->message), TextOf(cell->backtrace));
}

void SetPythonError(const Error& error) try {
  PyErr_Clear();
  py::object exception =
      ExceptionOf(error.opt_object(), error.kind(), error.message(), error.backtrace());
  // With its own traceback, to which Python adds the frames that it passes from here.
  PyObject* type = py::type::of(exception).release().ptr();
  PyObject* traceback = PyException_GetTraceback(exception.ptr());
  PyErr_Restore(type, exception.release().ptr(), traceback);
} catch (py::error_already_set& nested) {
  nested.restore();
} catch (const PythonError&) {
}

static void SetFromCurrent() {
  try {
    throw;
  } catch (const PythonError&) {
  } catch (const Error& error) {
    SetPythonError(error);
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_Format(PyExc_SystemError, "graphffi: please report this: %s", error.what());
  }
}

void SetPythonErrorFromCurrent() noexcept {
  UntilShutdown([] { SetFromCurrent(); });
}

void RegisterKeepsException() {
  SetGlobal("graphffi.keeps_exception", &KeepsException, /*allow_override=*/true);
}

int RaiseCurrentPythonError() noexcept try {
  py::error_already_set raised;  // takes the exception that is set now, normalized
  py::object exception = raised.value();
  if (raised.trace()) PyException_SetTraceback(exception.ptr(), raised.trace().ptr());
  TVMFFIObjectHandle error = MakeError(std::move(exception));
  TVMFFIErrorSetRaised(error);
  TVMFFIObjectDecRef(error);
  return -1;
} catch (const std::exception& failure) {
  return SetRaised("InternalError",
                   std::string("graphffi: an exception could not be carried: ") + failure.what());
}

}  // namespace graphffi::bindings
