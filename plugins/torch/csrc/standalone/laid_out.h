// SPDX-License-Identifier: Apache-2.0
// Results of kernels, in the layout that generated code takes for granted.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <cstdint>
#include <initializer_list>

namespace graphffi_standalone {

/// *New reference* to a copy that has the strides; NULL if the tensor has them. Returns 0, or 1
/// with the error kept for a tensor of other sizes.
int32_t LaidOut(AtenTensorHandle tensor, std::initializer_list<int64_t> sizes,
                std::initializer_list<int64_t> strides, const char* op, AtenTensorHandle* opt_copy);

/// Puts the copy into the tensor's place; returns the same.
template <typename Owner>
int32_t LayOut(Owner* tensor, std::initializer_list<int64_t> sizes,
               std::initializer_list<int64_t> strides, const char* op) {
  AtenTensorHandle opt_copy = nullptr;
  const int32_t rc = LaidOut(tensor->get(), sizes, strides, op, &opt_copy);
  if (opt_copy != nullptr) *tensor = Owner(opt_copy);
  return rc;
}

}  // namespace graphffi_standalone
