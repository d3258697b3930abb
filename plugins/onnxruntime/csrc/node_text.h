// SPDX-License-Identifier: Apache-2.0
// The text of a node's call, which graphffi_onnxruntime/_node_text.py writes.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "call/signature.h"

namespace graphffi_onnxruntime {

/// The attribute that is the text.
inline constexpr char kCall[] = "graphffi_call";

/// Everything that a node says of its call, but for the values of attributes.
struct NodeText {
  enum class Role { kRead, kUpdated, kAbsent };
  struct Input {
    Role role;
    bool is_output;  ///< the node has an output for it, too: it is updated, or would be
    int32_t slot;    ///< among i0, i1, … or o0, o1, …
    DLDataType dtype;
    int32_t ndim;
  };
  enum class Class { kInt, kBool, kFloat, kStr };
  struct Attribute {
    Class type;
    int32_t count;  ///< of a list; Slot::kSingle
    std::string name;
  };
  /// A value that the node's attributes have not, or that programs depend on.
  struct Value {
    char bank;  ///< n, f or s
    int32_t index;
    std::string text;
  };
  /// A way that the op's rules took.
  struct Way {
    std::string kernel, library, plan, program;
    bool is_owning = false;
  };

  /// \throws Error(ValueError)
  static NodeText Parse(std::string_view text);

  const std::string& subject() const { return names->subject; }
  int32_t num_results() const { return static_cast<int32_t>(names->outputs.size()) - num_updated; }
  /// Of the node: results, then the operands that would be updated.
  size_t num_node_outputs() const;
  /// Of a call: those that are read, results, those that are updated.
  size_t num_tensors() const { return static_cast<size_t>(num_read) + names->outputs.size(); }
  /// Where an input stands among them.
  size_t PlaceOf(const Input& input) const {
    return static_cast<size_t>(input.slot + (input.is_output ? num_read : 0));
  }
  /// What programs get of a call: the tensors that it reads, and its results with the operands that
  /// it updates behind them.
  graphffi::CallValues ValuesOf(const TVMFFIAny* read, const TVMFFIAny* written,
                                const std::vector<TVMFFIAny>& ints) const;
  /// An input's name, for errors.
  std::string NameOf(const Input& input) const;

  std::string digest;
  DLDevice device{kDLCPU, 0};
  std::shared_ptr<const graphffi::TensorNames> names;
  std::vector<Input> inputs;  ///< of the node
  int32_t num_read = 0, num_updated = 0;
  std::vector<Attribute> attributes;
  std::vector<Value> exact, fixed;
  std::vector<Way> ways;
};

}  // namespace graphffi_onnxruntime
