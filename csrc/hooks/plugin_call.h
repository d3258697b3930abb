// SPDX-License-Identifier: Apache-2.0
// The hooks by which a plugin takes calls over from graphffi._core, so that they run no Python
// code.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstddef>

namespace graphffi {

/// Takes over calls of one op. The content of a capsule called kName. Objects are PyObject
/// pointers: this header is for both sides of a boundary that knows no Python.
struct PluginCall {
  static constexpr char kName[] = "graphffi.plugin_call";

  /// Calls with the arguments of a vectorcall. *New reference* to what the op returns; NULL with a
  /// Python exception set; NULL without one where the call is not of the kind that it takes over:
  /// then nothing has happened.
  void* (*call)(void* context, void* const* args, ptrdiff_t num_args, void* opt_names);
  void* context;
};

/// Reads tensors of one Python type. The content of a capsule called kName.
struct TensorViewer {
  static constexpr char kName[] = "graphffi.tensor_viewer";

  /// Fills a view of the object's memory, valid as long as the object; or returns -1 with a Python
  /// exception set, also where the memory holds something else than the elements.
  int (*view)(void* object, DLTensor* view);
  /// The current stream of a device; or returns -1 with a Python exception set.
  int (*stream)(DLDeviceType type, int32_t index, void** stream);
  /// The process's allocator, where it makes tensors of this type: calls on the CPU leave it in
  /// place.
  DLPackManagedTensorAllocator allocator;
  /// Begins an event of the framework's profiler, called `opt_name` (a str), and gives what ends
  /// it; NULL where none runs. Throws nothing, and leaves no Python exception.
  void* (*begin_event)(void* opt_name);
  void (*end_event)(void* event);
  /// Whether a graph is made of this thread's operations on tensors that have elements, too.
  bool (*is_traced)();
};

}  // namespace graphffi
