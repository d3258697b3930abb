// SPDX-License-Identifier: Apache-2.0
// Ops whose calls from Python are taken over.
#pragma once

#include <Python.h>

#include <string>
#include <vector>

#include "operators/op_call.h"

namespace graphffi_torch {

/// Kinds of parameters: operands, then attributes that the dispatcher knows, then those that travel
/// by name; calls with values of kOther are left to Python.
enum class Kind {
  kTensor,
  kOptional,
  kTensors,
  kInt,
  kFloat,
  kBool,
  kStr,
  kDType,
  kDevice,
  kOther
};

/// The kind that graphffi.Operand or graphffi.Attribute names so.
Kind KindOf(const std::string& name);

struct DirectOp {
  struct Parameter {
    PyObject* name;  // interned, kept for good
    Kind kind;
    bool is_list, is_optional, is_mutated, is_by_name;
    PyObject* opt_default;  // kept for good; NULL: required
  };

  DirectOp(const OpCall& op_call, std::vector<Parameter> of_schema, PyObject* opt_type,
           bool releases_gil);

  const OpCall* call;
  std::vector<Parameter> parameters;
  Py_ssize_t num_parameters, num_by_position;
  PyObject* opt_result_type;  // kept for good
  bool release_gil;
  /// The parameter that is all that calls return: the operand that they update; -1 if there is none
  /// such.
  int opt_only_updated;
  bool may_record;  // a call on tensors that require gradients

 private:
  bool MayRecord() const;
  int FindOnlyUpdated() const;
};

}  // namespace graphffi_torch
