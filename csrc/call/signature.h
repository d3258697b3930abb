// SPDX-License-Identifier: Apache-2.0
// Signatures: what is known of calls before their values are.
#pragma once

#include <tvm/ffi/any.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "call/layout.h"
#include "call/plan.h"

namespace graphffi {

/// How many values of each class a call without a definition has.
struct Counts {
  int32_t inputs = 0, outputs = 0, ints = 0, floats = 0, strs = 0;

  bool has_attributes() const { return ints + floats + strs > 0; }
  friend bool operator<(const Counts& a, const Counts& b) { return a.Tied() < b.Tied(); }

 private:
  std::tuple<int32_t, int32_t, int32_t, int32_t, int32_t> Tied() const {
    return {inputs, outputs, ints, floats, strs};
  }
};

/// Attributes of calls that always have these values, but for open ones.
struct KnownAttributes {
  std::vector<tvm::ffi::Any> values;
  std::vector<int32_t> open;  ///< positions of those that are given at each call
};

/// The words of errors: of what kernels of one op share.
struct TensorNames {
  std::string subject;  ///< the op's or the kernel's name, which begins the text
  std::vector<std::string> inputs, outputs;  ///< one for each slot; empty: i0… and o0…

  /// Reads text of the form `x, xs[0] -> out, cache`.
  static std::shared_ptr<const TensorNames> Parse(std::string subject, const std::string& tensors);
  /// Of an input (`op` is kInput) or an output (kOutput).
  std::string NameOf(Plan::Op op, size_t slot) const;
};

/// A kernel's arguments, and where a call's values stand for them. Immutable but for assignment;
/// what is borrowed from it stays until then. Copies share names and texts.
class Signature {
 public:
  Signature() : Signature(std::make_shared<const TensorNames>()) {}
  /// Passes nothing.
  explicit Signature(std::shared_ptr<const TensorNames> names) : names_(std::move(names)) {}

  /// Of an op: `plan` names its operands and results as errors do, and its attributes.
  /// \throws Error(ValueError) for text that does not parse or names nothing known; the known names
  /// are listed.
  static Signature Parse(std::string_view plan, std::shared_ptr<const TensorNames> names,
                         const std::vector<std::string>& attributes);
  /// Of a call without one: `plan` names i0…, o0…, and n0…, f0…, s0…, which are the attributes one
  /// after the other. \throws Error(ValueError) likewise
  static Signature Parse(std::string_view plan, std::shared_ptr<const TensorNames> names,
                         const Counts& counts);

  /// Of calls with these attributes: known ones, and arrays of nothing else, become constants. Open
  /// ones become the attributes 0, 1, …, in that order. \throws Error for a value that can't be
  /// converted.
  Signature Fold(const KnownAttributes& attributes) const;
  /// Of the same calls, with room for lists of any lengths.
  Signature Apart() const;

  const Plan& plan() const { return plan_; }
  /// In a room of Layout::kRoom values. Strings are borrowed from the signature.
  const Layout& layout() const { return layout_; }
  /// Where the caller makes room for exactly as many values, of calls with these numbers of them.
  Layout ExactLayout(int32_t num_inputs, int32_t num_outputs) const;

  const std::string& subject() const { return names_->subject; }
  const TensorNames& names() const { return *names_; }
  int32_t num_inputs() const { return num_inputs_; }
  int32_t num_outputs() const { return num_outputs_; }
  /// Those that calls give.
  int32_t num_attributes() const { return num_attributes_; }

 private:
  Signature(Plan plan, std::shared_ptr<const TensorNames> names, int32_t num_inputs,
            int32_t num_outputs, int32_t num_attributes);

  Plan plan_;
  Layout layout_ = Layout::Apart();
  std::shared_ptr<const TensorNames> names_;
  int32_t num_inputs_ = 0, num_outputs_ = 0, num_attributes_ = 0;
};

}  // namespace graphffi
