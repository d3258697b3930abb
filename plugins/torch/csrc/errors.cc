// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <string>

namespace graphffi_torch {
namespace {

std::atomic<const PythonErrors*> opt_python_errors{nullptr};

}  // namespace

void SetPythonErrors(const PythonErrors* errors) { opt_python_errors.store(errors); }

void ThrowTorchError(const graphffi::Error& error) {
  if (const PythonErrors* python = opt_python_errors.load()) python->throw_error(error);
  const std::string& kind = error.kind();
  if (kind == "ValueError") C10_THROW_ERROR(ValueError, error.message());
  if (kind == "TypeError") C10_THROW_ERROR(TypeError, error.message());
  if (kind == "IndexError") C10_THROW_ERROR(IndexError, error.message());
  if (kind == "NotImplementedError") C10_THROW_ERROR(NotImplementedError, error.message());
  if (kind == "RuntimeError") C10_THROW_ERROR(Error, error.message());
  C10_THROW_ERROR(Error, kind + ": " + error.message());
}

void ThrowTracedError(const graphffi::Error& error) {
  if (const PythonErrors* python = opt_python_errors.load()) python->throw_traced(error);
  ThrowTorchError(error);
}

void RethrowOwnError(const std::string& op) {
  if (const PythonErrors* python = opt_python_errors.load()) python->rethrow(op);
  throw;
}

void CheckIsNoRepetition(const std::string& op) {
  if (torch::autograd::get_current_graph_task_id() == -1) return;
  if (const PythonErrors* python = opt_python_errors.load()) python->check_is_no_repetition(op);
}

void PrepareForCalls() {
  if (const PythonErrors* python = opt_python_errors.load()) python->prepare();
}

bool SetPendingError(const graphffi::Error& error) {
  const PythonErrors* python = opt_python_errors.load();
  if (python == nullptr) return false;
  python->set_pending(error);
  return true;
}

}  // namespace graphffi_torch
