// SPDX-License-Identifier: Apache-2.0
// Shape rules that are Python functions.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "shapes/shape_rule.h"

namespace graphffi_torch {

/// A rule behind `answer(inputs, mutated, attributes, trace) -> str`, whose attribute `made(number)
/// -> (int, str)` says which kernels factories made, see graphffi._contract.shape_program.
class PythonRule : public graphffi::ShapeRule {
 public:
  /// Keeps `answer` for good: operators outlive the interpreter.
  PythonRule(pybind11::object answer, size_t num_results)
      : answer_(answer.release().ptr()), num_results_(num_results) {}

  MadeKernel Made(int32_t number) override;

 protected:
  std::string Ask(const graphffi::CallValues& values, bool trace) override;

 private:
  PyObject* answer_;
  size_t num_results_;
};

}  // namespace graphffi_torch
