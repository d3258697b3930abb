// SPDX-License-Identifier: Apache-2.0
// The attributes of a custom call to tvm_ffi.call, decoded and checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "site.h"
#include "xla_ffi.h"

namespace graphffi_jax {

/// The attributes of a call of tvm_ffi.call. All but `func` are optional.
struct CallAttributes {
  std::string func;            ///< the kernel reference
  std::string library;         ///< its library's name in packages, which carry the library along
  std::string plan;            ///< empty: all inputs, then all outputs
  std::vector<int64_t> ints;   ///< n0, n1, … of the plan
  std::vector<double> floats;  ///< f0, f1, …
  std::vector<std::string>
      strs;             ///< s0, s1, …: in the program one string of `<length>:<bytes>` parts
  std::string digest;   ///< identifies the kernel and the rule in caches
  std::string subject;  ///< begins the text of errors; `func` if it is not given
  std::string names;    ///< of operands and results, for GRAPHFFI_DEBUG=1: `x, xs[0] -> out`
  int64_t mutated = 0;  ///< how many of the last operands are aliased with the last results
  bool pass_owning_tensor = false;  ///< lend Tensor objects instead of views
  bool ordered = false;             ///< a token comes before operands and results
  bool workspace = false;           ///< the last result is scratch memory

  /// \throws Error(TypeError or ValueError) naming all bad attributes at once.
  static CallAttributes Decode(const xla::Attributes& attributes);

  /// Resolves the kernel. \throws Error(KeyError, RuntimeError): no such function, no such library.
  SiteParts Resolve() const;

 private:
  std::string Key() const;
  /// `func`, or the same kernel of the library in a package that was loaded.
  std::string Reference() const;
  /// \throws Error(ValueError) if the library that `func` names has other content by now.
  void CheckLibrary() const;
};

/// "a string", "an array of float32", …
std::string DescribeAttribute(xla::AttributeTag tag, const void* value);

/// The problems of one decoding, told together.
class Problems {
 public:
  void Add(const std::string& kind, const std::string& text);
  /// \throws Error(the first kind)
  void ThrowIfAny(const std::string& subject) const;

 private:
  std::string kind_, text_;
};

/// Appends `bytes` to a text that is equal for equal parts only.
void AppendToKey(std::string_view bytes, std::string* key);

/// `3:abc0:` is ("abc", ""). False for text of another form.
bool SplitStrings(std::string_view text, std::vector<std::string>* out);

}  // namespace graphffi_jax
