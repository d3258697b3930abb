// SPDX-License-Identifier: Apache-2.0
// What code that Inductor generates calls. Its text is also spliced into that code: it compiles
// with no other header. Generated code is cached and shipped, so a change here takes a new name.
#ifndef GRAPHFFI_TORCH_AOTI_ENTRY_H_
#define GRAPHFFI_TORCH_AOTI_ENTRY_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// One call of tvm_ffi::call, in static memory of the generated code.
typedef struct GraphffiCallV2 {
  const char* func;
  const char* plan;
  const char* digest;
  int32_t num_inputs;
  int32_t num_outputs;
  int32_t num_fresh;  ///< outputs, the first, that were just allocated and share no memory
  int32_t num_ints;
  int32_t num_floats;
  int32_t num_strs;
  int32_t num_open_ints;
  const int64_t* ints;
  const int32_t* open_ints;  ///< positions in `ints` of those that are given at each call
  const double* floats;
  const char* const* strs;  ///< NUL as the bytes C0 80
  void* site;  ///< NULL; what the first call makes of the rest, kept for the life of the process
} GraphffiCallV2;

/// Runs a call. Weak, so that code which lacks the library can say so.
///
/// `tensors` are AtenTensorHandles: inputs, then outputs; NULL for None. Borrowed.
/// Returns 0, or -1 with the error kept for aoti_torch_graphffi_error_v2.
__attribute__((weak, visibility("default"))) int32_t
aoti_torch_graphffi_call_v2(GraphffiCallV2* call, void* const* tensors, const int64_t* open_ints);

/// `Kind: message` of this thread's last error; *borrowed* until the thread's next one.
__attribute__((weak, visibility("default"))) const char* aoti_torch_graphffi_error_v2(void);

/// Makes this thread's last error Python's pending exception. Takes the GIL. Returns 0 in a process
/// without Python.
__attribute__((weak, visibility("default"))) int32_t aoti_torch_graphffi_set_pending_v2(void);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // GRAPHFFI_TORCH_AOTI_ENTRY_H_
