// SPDX-License-Identifier: Apache-2.0
// Arguments and results that are nested as the program's are: lists, and dicts with texts as keys.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/c_api.h>

#include <string>
#include <vector>

#include "bounded_list.h"
#include "graph.h"
#include "tensor.h"

namespace graphffi_standalone {

/// The arguments of a call, tensor by tensor. Borrows them.
class Arguments {
 public:
  /// Takes tensors as they are; or, where one of the first is a list or a dict, arguments nested as
  /// those of the program. Results may follow, each or nested.
  /// \throws Error(TypeError, ValueError) for what is nested otherwise
  Arguments(const Method& method, const TVMFFIAny* args, int32_t num_args, bool has_results);

  const TVMFFIAny* data() const { return args_; }
  int32_t size() const { return num_args_; }

 private:
  int32_t AddOperands(const TVMFFIAny* args, int32_t num_args, bool has_results);
  std::string NameOf(int32_t i) const;
  const Node* Add(const Node* node, const TVMFFIAny& value, const std::string& path);
  [[noreturn]] void Fail(const char* kind, const std::string& text) const;

  const Method& method_;
  const TVMFFIAny* args_;
  int32_t num_args_;
  std::vector<TVMFFIAny> values_;
};

/// Results as the program nests them. \throws Error
tvm::ffi::Any NestResults(const Method& method, BoundedList<ObjectRef>* results);

}  // namespace graphffi_standalone
