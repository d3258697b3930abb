// SPDX-License-Identifier: Apache-2.0
// The tensors for which a call of an exported program was made, compared with those that it gets.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "call/plan.h"

namespace graphffi_torch {

/// Generated code trusts the program's inputs: calls that a package makes look at them. Immutable.
class SizeCheck {
 public:
  /// Checks nothing.
  SizeCheck() = default;
  /// Descriptions of a call's tensors, as CallNames has them; "" for one that may be any.
  /// \throws graphffi::Error for an unknown data type, or a size that is none.
  SizeCheck(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

  bool is_empty() const { return tensors_.empty(); }

  /// Names in errors.
  struct Names {
    const std::string& subject;
    const std::vector<std::string>&inputs, &outputs;
  };
  /// \throws graphffi::Error with the text that the op's `dims` give in eager code.
  void Run(const Names& names, const graphffi::Bank& inputs, const graphffi::Bank& outputs) const;

 private:
  struct Tensor {
    bool is_output, is_updated;
    int32_t position;                // in its bank
    DLDataType dtype;                // bits 0: any
    std::vector<std::string> names;  // of its dimensions
    std::vector<int64_t> sizes;      // -1: any
    std::vector<int64_t> limits;     // smallest ones
  };
  struct Comparison {
    int32_t tensor, dim;
    int32_t first, first_dim;  // where the size is to be found; first -1: it is `size`
    int64_t size;
    bool is_limit = false;  // or more
  };

  void Add(const std::string& description, bool is_output, int32_t position);
  void CompareNames();
  void CompareSizes();
  void CheckKinds(const Names& names, const DLTensor* const* tensors) const;
  std::string Describe(const Names& names, int32_t tensor) const;
  [[noreturn]] void Fail(const Names& names, const Comparison& comparison,
                         const DLTensor* const* tensors) const;

  std::vector<Tensor> tensors_;  // inputs, updated ones, results
  std::vector<Comparison> comparisons_;
};

}  // namespace graphffi_torch
