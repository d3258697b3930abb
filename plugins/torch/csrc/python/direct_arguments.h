// SPDX-License-Identifier: Apache-2.0
// The Python objects that one call is given.
#pragma once

#include <Python.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <utility>

#include "python/direct_op.h"

namespace graphffi_torch {

/// One object for each parameter of an op. Lives on the stack, and shorter than the arguments.
/// Needs the GIL.
class DirectArguments {
 public:
  explicit DirectArguments(const DirectOp& op) : op_(op) {}
  DirectArguments(const DirectArguments&) = delete;
  DirectArguments& operator=(const DirectArguments&) = delete;

  /// The arguments of a vectorcall. False where one is missing or unknown.
  bool Bind(PyObject* const* args, Py_ssize_t num_args, PyObject* opt_names) {
    if (num_args > op_.num_by_position) return false;
    const bool is_complete = num_args == op_.num_parameters && opt_names == nullptr;
    values_ = args;
    return is_complete || BindNames(args, num_args, opt_names);
  }

  /// Borrowed.
  PyObject* operator[](size_t i) const { return values_[i]; }
  PyObject* const* begin() const { return values_; }

  /// The list at `i` as a tuple that lives as long as the call: others may change the list
  /// meanwhile. Borrowed; NULL if it is no list.
  PyObject* AsTuple(size_t i);

 private:
  /// Not needed by calls that give every argument by position, and no lists.
  struct Owned {
    ~Owned() {
      for (const auto& [index, tuple] : tuples) Py_DECREF(tuple);
    }
    c10::SmallVector<PyObject*, 16> values;                    // borrowed, nevertheless
    c10::SmallVector<std::pair<size_t, PyObject*>, 4> tuples;  // by parameter
  };

  bool BindNames(PyObject* const* args, Py_ssize_t num_args, PyObject* opt_names);
  PyObject** Find(PyObject* name);
  Owned& owned() {
    if (opt_owned_ == nullptr) opt_owned_ = std::make_unique<Owned>();
    return *opt_owned_;
  }

  const DirectOp& op_;
  PyObject* const* values_ = nullptr;
  std::unique_ptr<Owned> opt_owned_;
};

}  // namespace graphffi_torch
