// SPDX-License-Identifier: Apache-2.0
// Plans: which values a kernel receives, in which order. Parsed once from text, executed by every
// path.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace graphffi {

constexpr int kMaxArrayDepth = 16;   ///< arrays within arrays
constexpr int kMaxTermDepth = 1000;  ///< arithmetic within arithmetic

/// One argument of a call as its framework gave it: a value, or a list that becomes an ffi.Array.
struct Slot {
  static constexpr int32_t kSingle = -1;
  int32_t begin;            ///< index into Bank::values
  int32_t count = kSingle;  ///< kSingle: the value itself; otherwise the length of the list

  int32_t num_values() const { return count == kSingle ? 1 : count; }
};

/// The values of one class. Without `slots`, slot k is values[k]. All borrowed until the call
/// returns.
struct Bank {
  const TVMFFIAny* values = nullptr;
  const Slot* opt_slots = nullptr;
  int32_t size = 0;  ///< number of slots

  Slot slot(int32_t k) const { return opt_slots == nullptr ? Slot{k} : opt_slots[k]; }
  /// The number of values: those of all slots, which lie one after the other.
  int32_t num_values() const {
    if (size == 0) return 0;
    const Slot last = slot(size - 1);
    return last.begin + last.num_values();
  }
};

/// The values that a plan picks from. Tensors are of kind DLTensorPtr, Tensor or None.
struct CallValues {
  Bank inputs, outputs, attributes;
  void* stream = nullptr;
  TVMFFIAny workspace{};  ///< a tensor; or bytes, or None for what the plan says: allocated then
  DLDevice device{kDLCPU, 0};  ///< where that is
};

/// A parsed plan. Grammar: items separated by commas; an item is a name, `None`, `true`, `false`, a
/// number, a "string" (JSON escapes), `(item, …)` for one ffi.Array, `*inputs`, `*outputs`,
/// `stream`, `workspace`, `workspace(n0)`, `workspace(64)` with the size in bytes for calls that
/// bring none, a conversion `bool(n0)`, `dtype(s0)`, `device(s0)` of an attribute, `int(stream)`,
/// `strided(i0)`: a tensor that the kernel takes with any strides, or `int(floordiv(numel(i0),
/// 2))`: what arithmetic gives for ints, attributes, and what tensors have: `numel(i0)`,
/// `ndim(i0)`, `size(i0, -1)`. Other tensors are row-major for the kernel. An empty text means
/// `*inputs, *outputs`.
class Plan {
 public:
  enum class Op : uint8_t {
    kInput,
    kOutput,
    kAttribute,
    kConstant,
    kBeginArray,
    kEndArray,
    kAllInputs,
    kAllOutputs,
    kStream,
    kWorkspace,
    kSize,        // what is pushed, as kAttribute and kConstant do, for
    kArithmetic,  // which replaces the last two values that were pushed
  };
  enum class Conversion : uint8_t { kNone, kBool, kDType, kDevice, kInt, kStrided };
  /// The conversion of attributes that plans call so: `dtype`. kNone if there is none.
  static Conversion ConversionOf(std::string_view name);
  struct Item {
    Op op;
    Conversion conversion = Conversion::kNone;
    /// Index of the slot, or into constants() or sizes(); an Arithmetic. For a workspace's size:
    /// kNoSize, an attribute, or (if conversion is kInt) a constant.
    int32_t index = 0;
  };
  static constexpr int32_t kNoSize = -1;
  /// What a tensor has: the size of a dimension, which counts from the last one on if it is
  /// negative, or one of the others.
  struct Size {
    static constexpr int32_t kNumel = INT32_MAX, kNDim = INT32_MIN;
    Op bank;  // kInput or kOutput
    int32_t slot, dim;
  };

  /// Nothing but single values and constants: no arrays, conversions, stream, workspace, and at
  /// most one `*inputs` and one `*outputs`.
  bool is_flat() const { return is_flat_; }
  /// The lowest index of an output that is passed; INT32_MAX if none is. A call with more results
  /// than that passes results.
  int32_t first_output() const { return first_output_; }
  const std::vector<Item>& items() const { return items_; }
  /// Whether the kernel takes a slot of inputs (`op` is kInput) or outputs (kOutput) with any
  /// strides. A slot that is not passed counts as one.
  bool is_strided(Op op, int32_t index) const;
  /// Borrowed from the plan: None, bools, ints, floats, strings as RawStr; objects in folded plans.
  const std::vector<TVMFFIAny>& constants() const { return constants_; }
  const std::vector<Size>& sizes() const { return sizes_; }

 private:
  friend class PlanParser;
  friend class PlanFolder;
  friend class Signature;  // which makes plans, with their layouts
  struct Names {
    const std::vector<std::string>&inputs, &outputs, &attributes;
  };
  static Plan Parse(std::string_view text, const Names& names, std::string_view subject);
  Plan Fold(const std::vector<tvm::ffi::Any>& attributes, const std::vector<int32_t>& open) const;
  void Finish();
  bool is_flat_ = false;
  int32_t first_output_ = INT32_MAX;
  std::vector<Item> items_;
  std::vector<TVMFFIAny> constants_;
  std::vector<Size> sizes_;
  // The characters of RawStr constants, which folded plans share.
  std::vector<std::shared_ptr<const std::string>> strings_;
  std::vector<tvm::ffi::Any> objects_;  // what other constants refer to
};

}  // namespace graphffi
