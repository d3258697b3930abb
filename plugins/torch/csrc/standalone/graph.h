// SPDX-License-Identifier: Apache-2.0
// A compiled graph as a function of TVM FFI. Generated code describes each method, and calls this.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "shim_tensor.h"

namespace graphffi {
class Conditions;
}

namespace graphffi_standalone {

/// Of a method's operands. Lives as long as the library, which is never unloaded.
const graphffi::Conditions* ParseConditions(const char* text);

/// The size of a dimension: `multiple` times a symbol's value, and `offset`.
struct Dim {
  int32_t symbol;  ///< -1: the size is `offset`, or, if that is -1, what conditions say
  int64_t multiple, offset;
};

/// A size that calls choose.
struct Symbol {
  const char* name;
  int64_t min, max;
};

struct Operand {
  const char* name;
  uint8_t dtype_code, dtype_bits;
  int32_t ndim;
  const Dim* dims;
  bool is_updated;
  int32_t device_type;  ///< kDLCPU, or the method's
};

/// A part of nested arguments or results; its children follow it, each with its own.
struct Node {
  int32_t count;  ///< of children; -1: a tensor
  /// Of a dict, with C0 80 for NUL, or names of the arguments; NULL: a list.
  const char* const* opt_keys;
};

struct Method {
  const char* name;
  int32_t device_type;  ///< where it runs
  const Operand* operands;
  int32_t num_operands;
  const Symbol* symbols;
  int32_t num_symbols;
  const graphffi::Conditions* opt_conditions;  ///< how sizes fit together
  int32_t num_results;
  const Node* input_nodes;  ///< a list of the arguments
  const Node* result_nodes;
  /// Which of a run's allocations became each result last time; -1: not known. Any thread's.
  int32_t* ordinals;
  /// Makes the model for a device, once. \throws Error(RuntimeError) where its weights are missing
  void (*prepare)(DLDevice device);
  /// Runs the model: takes over the references to the inputs, gives references to the results.
  /// \throws std::exception
  void (*run)(DLDevice device, void* stream, TVMFFIObjectHandle* inputs,
              TVMFFIObjectHandle* results);
};

/// Instructions that the library's code uses; NULL ends the list, which each library defines.
struct Instructions {
  const char* opt_name;
  bool (*are_known)();  ///< to the processor
};
extern const Instructions kInstructions[];

/// The body of `<method>(operands…)`, which gives the results as the program nests them; or None.
int RunMethod(const Method& method, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);

/// The body of `<method>_into(operands…, results…)`.
int RunMethodInto(const Method& method, const TVMFFIAny* args, int32_t num_args);

/// The body of `<method>_within(workspace, operands…, results…)`: the run's tensors are in the
/// workspace, or in the thread's memory for None. Gives the bytes that the workspace needs.
int RunMethodWithin(const Method& method, const TVMFFIAny* args, int32_t num_args,
                    TVMFFIAny* result);

/// The body of `_metadata_<method>()`, which gives the text.
int DescribeMethod(const char* text, TVMFFIAny* result);

/// While one lives, what the thread allocates outlives its run.
class KeptMemory {
 public:
  KeptMemory();
  ~KeptMemory();
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

 private:
  class Workspace* const opt_workspace_;
};

/// Weights of the library. Those of a file are mapped at the first use, beside the library.
/// \throws Error(RuntimeError) for a file that is missing, or not the library's
struct Weights {
  const char* embedded_begin;
  const char* opt_file_name;
  const char* opt_digest;  ///< of the weights, a text that is behind them in the file
  size_t bytes;
};

/// Where a constant of the model is on a device. One that the model updates is as the weights have
/// it at first, then one for all methods of the library that share it.
char* ConstantOn(DLDevice device, const Weights& weights, size_t offset, size_t bytes,
                 bool is_updated);

/// Something for each device, made at its first use. Lives as long as the library.
template <typename T>
class PerDevice {
 public:
  /// `make(device)` gives a T*, or throws.
  template <typename Make>
  T* Get(DLDevice device, Make&& make) {
    T** slot = &made_[CheckedNumber(device)];
    if (T* known = __atomic_load_n(slot, __ATOMIC_ACQUIRE)) return known;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (*slot == nullptr) __atomic_store_n(slot, make(device), __ATOMIC_RELEASE);
    return *slot;
  }

 private:
  static constexpr int32_t kMost = 64;

  static int32_t CheckedNumber(DLDevice device) {
    if (device.device_id >= 0 && device.device_id < kMost) return device.device_id;
    Fail("ValueError", "graphffi: expected one of the first 64 devices, got another one");
  }

  std::mutex mutex_;
  T* made_[kMost] = {};
};

}  // namespace graphffi_standalone
