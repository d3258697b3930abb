// SPDX-License-Identifier: Apache-2.0
// How a plugin takes over calls of one op from Python without running Python code.
#pragma once

#include <cstddef>

namespace graphffi {

/// The content of a capsule called kName. Objects are PyObject pointers: this header is for both
/// sides of a boundary that knows no Python.
struct DirectCall {
  static constexpr char kName[] = "graphffi.direct_call";

  /// Calls with the arguments of a vectorcall. *New reference* to what the op returns; NULL with a
  /// Python exception set; NULL without one where the call is not of the kind that it takes over:
  /// then nothing has happened.
  void* (*call)(void* context, void* const* args, ptrdiff_t num_args, void* opt_names);
  void* context;
};

}  // namespace graphffi
