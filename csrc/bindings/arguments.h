// SPDX-License-Identifier: Apache-2.0
// Python values as arguments of a call: what they become, and what is kept for them until the call
// has returned.
#pragma once

#include <pybind11/pybind11.h>
#include <tvm/ffi/c_api.h>

#include <string>
#include <vector>

#include "bindings/framework.h"
#include "bindings/object.h"
#include "bindings/raised.h"
#include "call/call_frame.h"

namespace graphffi::bindings {

/// Stream and allocator that kernels may ask for during the call, of the arguments' framework.
struct Env {
  DLDevice device{kDLCPU, 0};
  void* stream = nullptr;
  DLPackManagedTensorAllocator allocator = nullptr;
  DLPackManagedTensorAllocator as_good = nullptr;  ///< may stay in place of that one
};

/// Thrown for an argument that is part of a graph which is being made.
struct TracedArgument {};

/// Converts the arguments of one call and owns every temporary. Lives on the caller's stack, under
/// the GIL; made before the call's CallFrame, which gets its loans. Up to kInline of them cost no
/// allocation.
class Arguments {
 public:
  static constexpr int kInline = CallFrame::kInline;

  /// `opt_subject` (a str, borrowed) begins the text of errors.
  /// `takes_big_ints`: ints beyond 64 bits pass as ffi.BigInt.
  explicit Arguments(PyObject* opt_subject, bool takes_big_ints = false)
      : opt_subject_(opt_subject), takes_big_ints_(takes_big_ints) {}
  ~Arguments();
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  /// Has TracedArgument thrown in place of the error that such a value is.
  void ReportTraced() { reports_traced_ = true; }

  /// Names the next value for errors: `bank` ("argument #") and `index`.
  void SetPosition(const char* bank, Py_ssize_t index) {
    bank_ = bank;
    index_ = index;
  }

  /// `value` (borrowed until the call has returned) as an argument. Tensors of a framework with an
  /// exchange table are lent. \throws PythonError (TypeError, ValueError, OverflowError)
  TVMFFIAny View(PyObject* value);

  /// `value` as a value that the caller owns: for results and elements of containers.
  TVMFFIAny Own(PyObject* value);

  Loans* loans() { return &loans_; }
  /// That of the first tensor that belongs to one; returned tensors become its arrays.
  Framework framework() const { return framework_; }
  /// Whether a graph is made of this thread's operations on such tensors.
  bool are_traced() const { return opt_viewer_ != nullptr && opt_viewer_->is_traced(); }
  /// NULL where no argument brings one.
  const Env* opt_env() const { return has_env_ ? &env_ : nullptr; }

  /// Has the call's stream wait for tensors whose framework named none: they are ready on the
  /// device's default stream. Returns 0, or -1 with the runtime's error set.
  int AwaitProducers() const { return awaited_.empty() ? 0 : AwaitOnDevices(/*kernels=*/false); }
  /// Waits until kernels have ended that use such a tensor: its framework neither waits for them,
  /// nor keeps the memory for them. Returns as AwaitProducers does.
  int AwaitKernels() const { return awaited_.empty() ? 0 : AwaitOnDevices(/*kernels=*/true); }

 private:
  static void* Retain(const void* source);
  static void Release(void* token);
  static constexpr Lending kLending{&Arguments::Retain, &Arguments::Release};

  TVMFFIAny ViewOther(PyObject* value);
  TVMFFIAny Keep(TVMFFIAny owned);
  TVMFFIAny Lend(PyObject* value, TypeEntry& type);
  TVMFFIAny LendArray(PyObject* value, TypeEntry& type);
  void NoteTensor(TypeEntry& type, DLDevice device);
  TVMFFIAny OwnTensor(PyObject* value, TypeEntry& type);
  TVMFFIAny OwnSequence(PyObject* value);
  TVMFFIAny OwnMapping(PyObject* value);
  TVMFFIAny FromStr(PyObject* value);
  TVMFFIAny FromInt(PyObject* value);
  TVMFFIAny FromSymbol(PyObject* value);
  TVMFFIAny FromBigInt(PyObject* value);

  // By what values say of themselves, in arguments_by_protocol.cc.
  TVMFFIAny FromHolder(PyObject* value);
  TVMFFIAny FromStream(PyObject* value);
  TVMFFIAny FromAsInt(PyObject* value);
  TVMFFIAny FromAsFloat(PyObject* value);
  TVMFFIAny FromAsValue(PyObject* value);
  TVMFFIAny FromAddress(const py::object& number, const char* method);
  void NoteStream(PyObject* value, DLDevice device);
  int AwaitOnDevices(bool kernels) const;
  py::object Ask(PyObject* value, const char* method);
  [[noreturn]] void FailProducer(PyObject* value);
  [[noreturn]] void FailAsRaised(const char* method);
  [[noreturn]] void FailAnswer(const char* method, const char* expected, const py::object& answer);

  std::string Position() const;
  [[noreturn]] void FailValue(PyObject* type, const char* expected, const std::string& actual);
  [[noreturn]] void FailTensor(PyObject* value);
  [[noreturn]] void FailTraced(PyObject* value);

  PyObject* opt_subject_;
  const bool takes_big_ints_;
  bool reports_traced_ = false;
  const char* bank_ = "argument #";
  Py_ssize_t index_ = 0;
  Loans loans_{kLending};  // their sources are Python objects
  Framework framework_ = nullptr;
  const TensorViewer* opt_viewer_ = nullptr;  // of a tensor
  Env env_;
  bool has_env_ = false;
  bool has_allocator_ = false;     // of a framework, in env_
  std::vector<DLDevice> awaited_;  // of such tensors
  int num_owned_ = 0;
  TVMFFIObjectHandle owned_[kInline];
  std::vector<ObjectRef> more_owned_;
};

/// Self-containing values must not overflow the stack. \throws PythonError (RecursionError)
class RecursionGuard {
 public:
  explicit RecursionGuard(const char* when = " while an argument was converted") {
    if (Py_EnterRecursiveCall(when) != 0) throw PythonError();
  }
  ~RecursionGuard() { Py_LeaveRecursiveCall(); }
  RecursionGuard(const RecursionGuard&) = delete;
  RecursionGuard& operator=(const RecursionGuard&) = delete;
};

/// The object of a value that has `__chandle__`; the caller owns it. \throws py::error_already_set
TVMFFIAny FromForeignObject(PyObject* value);

/// The beginning of errors' texts. \throws py::error_already_set
std::string SubjectText(PyObject* opt_subject);

/// A value in the text of an error. \throws py::error_already_set
std::string DescribeValue(PyObject* value);

}  // namespace graphffi::bindings
