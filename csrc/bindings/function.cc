// SPDX-License-Identifier: Apache-2.0
#include "bindings/function.h"

#include <dlfcn.h>
#include <structmember.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/define.h"
#include "bindings/guard.h"
#include "bindings/raised.h"
#include "bindings/value.h"
#include "call/value.h"
#include "env/env_scope.h"
#include "gil/gil.h"
#include "observe/watch.h"
#include "observe/watched_call.h"

namespace graphffi::bindings {

namespace {

PyTypeObject* function_type = nullptr;
bool releases_gil = true;  // the default of functions

PyFunction* AsFunction(PyObject* self) { return reinterpret_cast<PyFunction*>(self); }

/// The call as a node of the graph that is being made.
PyObject* CallTraced(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  static const py::handle call = ImportImmortal("graphffi._definition.raw_call", "call_directly");
  std::vector<PyObject*> values{self};
  values.insert(values.end(), args, args + count);
  return Check(PyObject_Vectorcall(call.ptr(), values.data(), values.size(), nullptr));
}

/// The call with all arguments by position.
PyObject* CallByName(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
  static const py::handle call = ImportImmortal("graphffi._values.keywords", "call_by_name");
  std::vector<PyObject*> values{self};
  values.insert(values.end(), args, args + count + PyTuple_GET_SIZE(kwnames));
  const size_t num_positional = static_cast<size_t>(count) + 1;
  return Check(PyObject_Vectorcall(call.ptr(), values.data(), num_positional, kwnames));
}

PyObject* CallFunction(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  const Py_ssize_t count = PyVectorcall_NARGS(nargsf);
  return Guard([&]() -> PyObject* {
    try {
      PyFunction* function = AsFunction(self);
      if (kwnames != nullptr && PyTuple_GET_SIZE(kwnames) != 0) {
        return CallByName(self, args, count, kwnames);
      }
      Arguments arguments(function->opt_name, /*takes_big_ints=*/true);
      arguments.ReportTraced();
      CallFrame frame(arguments.loans());
      for (Py_ssize_t i = 0; i < count; ++i) {
        arguments.SetPosition("argument #", i);
        frame.Push(arguments.View(args[i]));
      }
      if (!arguments.are_traced()) return CallWithFrame(*function, frame, arguments);
    } catch (const TracedArgument&) {
    }
    return CallTraced(self, args, count);
  });
}

/// Function(x): a Function of anything that can be called, a tvm_ffi.Function included. Of a
/// callable that holds one, as those of CuTe DSL do, that: calling it needs no Python.
PyObject* NewFunction(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  return Guard([&]() -> PyObject* {
    static const char* names[] = {"callable", nullptr};
    PyObject* callable = nullptr;
    if (PyArg_ParseTupleAndKeywords(args, kwargs, "O:Function", const_cast<char**>(names),
                                    &callable) == 0) {
      throw PythonError();
    }
    if (Py_IS_TYPE(callable, function_type)) return Py_NewRef(callable);
    Arguments arguments(nullptr);
    TVMFFIAny value = arguments.View(callable);
    if (value.type_index != kTVMFFIFunction) {
      Fail(PyExc_TypeError, std::string("graphffi.Function: expected a callable, got ") +
                                Py_TYPE(callable)->tp_name);
    }
    const py::object opt_name = OptAttribute(callable, "__name__");
    const bool is_named = opt_name && py::isinstance<py::str>(opt_name);
    return WrapFunction(ObjectRef::Retain(value.v_obj), is_named ? opt_name.ptr() : nullptr);
  });
}

std::string NameOf(const PyFunction& function) {
  if (function.opt_name == nullptr) return "graphffi.Function";
  return py::handle(function.opt_name).cast<std::string>();
}

void DeallocateFunction(PyObject* self) {
  PyFunction* function = AsFunction(self);
  Py_CLEAR(function->opt_name);
  Py_CLEAR(function->opt_reference);
  Py_CLEAR(function->opt_doc);
  Py_CLEAR(function->opt_metadata);
  DeallocateObject(self);
}

PyObject* ReprFunction(PyObject* self) {
  PyFunction* function = AsFunction(self);
  if (function->opt_name == nullptr) {
    return PyUnicode_FromFormat("<graphffi.Function at %p>", function->base.handle);
  }
  return PyUnicode_FromFormat("<graphffi.Function %U>", function->opt_name);
}

/// As Python's own functions: a copy of what holds one calls the same.
PyObject* Itself(PyObject* self, PyObject*) { return Py_NewRef(self); }

PyMethodDef function_methods[] = {
    {"__copy__", &Itself, METH_NOARGS, nullptr},
    {"__deepcopy__", &Itself, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef function_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(PyFunction, vectorcall), READONLY, nullptr},
    {"__name__", T_OBJECT, offsetof(PyFunction, opt_name), READONLY, nullptr},
    {"name", T_OBJECT, offsetof(PyFunction, opt_name), READONLY,
     "Its name in its module or in the registry, or None."},
    {"reference", T_OBJECT, offsetof(PyFunction, opt_reference), READONLY,
     "How graphs and artifacts name it: a global name or '/path/library.so::symbol'; None if it "
     "has no name."},
    {"doc", T_OBJECT, offsetof(PyFunction, opt_doc), READONLY, "Its documentation, or None."},
    {"metadata", T_OBJECT, offsetof(PyFunction, opt_metadata), READONLY,
     "What its library exports about it, as a text in JSON, or None."},
    {"release_gil", T_BOOL, offsetof(PyFunction, release_gil), 0,
     "Whether calls release the GIL. False saves some 40 ns a call, for a short kernel that waits "
     "for no other Python thread. GRAPHFFI_RELEASE_GIL gives the default, which is True."},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot function_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(&NewFunction)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&DeallocateFunction)},
    {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
    {Py_tp_repr, reinterpret_cast<void*>(&ReprFunction)},
    {Py_tp_methods, function_methods},
    {Py_tp_members, function_members},
    {Py_tp_doc,
     const_cast<char*>("Function(callable)\n--\n\n"
                       "A function of the runtime, called with arguments by position, or by "
                       "name where its library names them.")},
    {0, nullptr},
};

PyType_Spec function_spec = {"graphffi.Function", sizeof(PyFunction), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, function_slots};

bool AskFlag(const std::string& name, bool otherwise) {
  try {
    return graphffi::FlagOfEnvironment(name.c_str(), otherwise);
  } catch (const Error& error) {
    throw py::import_error(error.message());
  }
}

/// An event of the profiler of the arguments' framework, if one runs. Under the GIL.
class ProfiledCall {
 public:
  ProfiledCall(const PyFunction& function, Framework framework)
      : opt_viewer_(framework == nullptr ? nullptr : framework->opt_viewer) {
    if (opt_viewer_ != nullptr) opt_event_ = opt_viewer_->begin_event(function.opt_name);
  }
  ~ProfiledCall() {
    if (opt_event_ != nullptr) opt_viewer_->end_event(opt_event_);
  }
  ProfiledCall(const ProfiledCall&) = delete;
  ProfiledCall& operator=(const ProfiledCall&) = delete;

 private:
  const TensorViewer* opt_viewer_;
  void* opt_event_ = nullptr;
};

/// Facts about the tensors of an observed call (recorder, NVTX, debug mode).
DeclaredTensors WatchedTensors(const PyFunction& function, const DeclaredTensors* opt_declared) {
  DeclaredTensors watched;
  if (opt_declared != nullptr) watched = *opt_declared;
  for (const auto& [text, field] : {std::pair(function.opt_reference, &watched.kernel),
                                    std::pair(function.opt_name, &watched.subject)}) {
    if (text == nullptr || **field != '\0') continue;
    *field = PyUnicode_AsUTF8(text);
    if (*field == nullptr) throw PythonError();
  }
  return watched;
}

/// The result for Python, in arrays of `opt_framework`. Names the function in the TypeError of a
/// framework that does not take a tensor as it is.
PyObject* ToResult(const PyFunction& function, TVMFFIAny* owned, Framework opt_framework) {
  try {
    return ToPython(owned, opt_framework);
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    const py::str text(error.value());
    Fail(PyExc_TypeError, NameOf(function) + ": " + text.cast<std::string>());
  }
}

/// A function of a library, as apache-tvm-ffi's runtime (0.1.15) makes it: behind its cell, such an
/// object holds the address of the symbol. (path, symbol), or None for any other function.
py::object ExportedSymbol(py::handle self) {
  const auto* cell = TVMFFIFunctionGetCellPtr(HandleOf(self, function_type));
  Dl_info runtime, caller, found;
  if (dladdr(reinterpret_cast<void*>(&TVMFFIGetVersion), &runtime) == 0 ||
      dladdr(reinterpret_cast<void*>(cell->safe_call), &caller) == 0 ||
      caller.dli_fbase != runtime.dli_fbase) {
    return py::none();
  }
  constexpr std::string_view kPrefix = "__tvm_ffi_";
  void* held = nullptr;
  std::memcpy(&held, cell + 1, sizeof(held));
  const bool is_symbol = held != nullptr && dladdr(held, &found) != 0 && found.dli_saddr == held &&
                         found.dli_sname != nullptr &&
                         std::string_view(found.dli_sname).substr(0, kPrefix.size()) == kPrefix;
  if (!is_symbol) return py::none();
  return py::make_tuple(found.dli_fname, found.dli_sname + kPrefix.size());
}

void ReplaceText(PyObject** field, py::handle opt_text) {
  PyObject* text = opt_text.is_none() ? nullptr : py::str(opt_text).release().ptr();
  Py_XSETREF(*field, text);
}

}  // namespace

PyTypeObject* FunctionType() { return function_type; }

PyObject* WrapFunction(ObjectRef function, PyObject* opt_name, PyObject* opt_reference) {
  PyFunction* self = AsFunction(Check(function_type->tp_alloc(function_type, 0)));
  self->base.handle = function.release();
  self->vectorcall = &CallFunction;
  self->kernel = Kernel::FromFunction(self->base.handle);
  self->opt_name = Py_XNewRef(opt_name);
  self->opt_reference = Py_XNewRef(opt_reference);
  self->release_gil = releases_gil;
  return reinterpret_cast<PyObject*>(self);
}

PyObject* CallWithFrame(const PyFunction& function, CallFrame& frame, const Arguments& arguments,
                        const DeclaredTensors* opt_declared) {
  TVMFFIAny result;
  int rc = 0;
  CheckRc(arguments.AwaitProducers());
  const ProfiledCall event(function, arguments.framework());
  std::optional<DeclaredTensors> watched;
  if (IsWatched()) watched = WatchedTensors(function, opt_declared);
  {
    std::optional<EnvScope> env;
    if (const Env* opt_env = arguments.opt_env()) {
      env.emplace(opt_env->device, opt_env->stream, opt_env->allocator, opt_env->as_good);
    }
    const GilRelease release(function.release_gil != 0);
    if (watched.has_value()) {
      rc = frame.Settle(InvokeWatched(function.kernel, *watched, &frame, &result), &result);
    } else {
      rc = frame.Call(function.kernel, &result);
    }
  }
  if (arguments.AwaitKernels() != 0 && rc == 0) {
    ReleaseValue(&result);
    rc = -1;
  }
  if (opt_declared != nullptr) rc = NameRefusal(rc, opt_declared->subject);
  CheckRc(rc);
  if (PyErr_Occurred() != nullptr) {  // a signal that the kernel asked for and then ignored
    ReleaseValue(&result);
    throw PythonError();
  }
  return ToResult(function, &result, arguments.framework());
}

void DefineFunction(py::module_& module) {
  releases_gil = AskFlag("GRAPHFFI_RELEASE_GIL", true);
  if (*watch->problem != '\0') throw py::import_error(watch->problem);
  module.attr("is_debugging") = IsDebugging();
  module.attr("releases_gil") = releases_gil;
  module.def("ask_flag", &AskFlag, py::arg("name"), py::arg("otherwise"),
             "Whether a variable of the environment is 1; `otherwise` if it is not set.");
  module.def(
      "start_recording",
      [](const std::string& folder, int32_t level, int64_t limit) {
        CheckRc(watch->start_recording(folder.c_str(), level, limit));
      },
      py::arg("folder"), py::arg("level"), py::arg("limit"),
      "Write down the calls of kernels in `folder`, whose files have some `limit` bytes.");
  module.def("stop_recording", [] { watch->stop_recording(); }, "End what start_recording began.");
  function_type = MakeObjectSubtype(&function_spec);
  module.attr("Function") = py::handle(reinterpret_cast<PyObject*>(function_type));
  module.def("exported_symbol", &ExportedSymbol, py::arg("function"),
             "The path and symbol of a function of apache-tvm-ffi's runtime, or None.");
  module.def(
      "describe_function",
      [](py::handle self, py::object name, py::object reference, py::object doc,
         py::object metadata) {
        HandleOf(self, function_type);
        PyFunction* function = AsFunction(self.ptr());
        ReplaceText(&function->opt_name, name);
        ReplaceText(&function->opt_reference, reference);
        ReplaceText(&function->opt_doc, doc);
        ReplaceText(&function->opt_metadata, metadata);
      },
      py::arg("function"), py::arg("name"), py::arg("reference"), py::arg("doc"),
      py::arg("metadata"), "Say what a new function is called.");
}

}  // namespace graphffi::bindings
