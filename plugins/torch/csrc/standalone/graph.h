// SPDX-License-Identifier: Apache-2.0
// A compiled graph as a function of TVM FFI. Generated code describes each method, and calls this.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstddef>
#include <cstdint>

namespace graphffi_standalone {

/// The size of a dimension: `multiple` times a symbol's value, and `offset`.
struct Dim {
  int32_t symbol;  ///< -1: the size is `offset`
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
};

/// A part of nested arguments or results; its children follow it, each with its own.
struct Node {
  int32_t count;                ///< of children; -1: a tensor
  const char* const* opt_keys;  ///< of a dict; NULL: a list
};

struct Method {
  const char* name;
  const Operand* operands;
  int32_t num_operands;
  const Symbol* symbols;
  int32_t num_symbols;
  int32_t num_results;
  const Node* input_nodes;  ///< a list of the arguments
  const Node* result_nodes;
  /// Which of a run's allocations became each result last time; -1: not known. Any thread's.
  int32_t* ordinals;
  /// Makes the model, once. \throws Error(RuntimeError) where its weights are missing
  void (*prepare)();
  /// Runs the model: takes over the references to the inputs, gives references to the results.
  /// \throws std::exception
  void (*run)(TVMFFIObjectHandle* inputs, TVMFFIObjectHandle* results);
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
char* WeightsBegin(const Weights& weights);

/// Memory of a buffer that the model updates: as the weights have it at first, then one for all
/// methods of the library that share it.
char* UpdatedBuffer(const Weights& weights, size_t offset, size_t bytes);

}  // namespace graphffi_standalone
