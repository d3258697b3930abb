// SPDX-License-Identifier: Apache-2.0
// The meaning of Python types as arguments, found once for each type without importing any
// framework.
#pragma once

#include <pybind11/pybind11.h>
#include <tvm/ffi/c_api.h>

#include "bindings/arrays/numpy_array.h"
#include "hooks/plugin_call.h"

namespace graphffi::bindings {

enum class ArgumentKind : uint8_t {
  kUnknown,
  kNone,
  kBool,   // by truth: bool, np.bool_
  kInt,    // int and its subclasses
  kIndex,  // __index__: NumPy integers
  kFloat,  // __float__: float, NumPy floats
  kStr,
  kBytes,
  kByteArray,
  kDType,          // graphffi.dtype
  kForeignDType,   // torch's, NumPy's, tvm_ffi's, __dlpack_data_type__
  kDevice,         // graphffi.Device
  kForeignDevice,  // torch's, tvm_ffi's, __dlpack_device__ without __dlpack__
  kShape,          // graphffi.Shape
  kSequence,       // list, tuple
  kMapping,        // dict, Map
  kObject,         // graphffi.Object
  kForeignObject,  // an object of another package on this runtime, by __chandle__
  kExchange,       // a tensor with DLPack's exchange table
  kNoMemory,       // one of those without memory of its own: torch's FakeTensor and other wrappers
  kSymbol,         // a number, or anything, that a trace of torch's knows: SymInt, fx.Proxy
  kDLPack,         // a tensor with __dlpack__
  kPointer,        // ctypes.c_void_p
  kStream,         // __cuda_stream__
  kHolder,         // __tvm_ffi_object__, as all below by the name of a method of tvm-ffi's
  kAddress,        // __tvm_ffi_opaque_ptr__
  kAsInt,          // __tvm_ffi_int__
  kAsFloat,        // __tvm_ffi_float__
  kAsValue,        // __tvm_ffi_value__
  kClass,          // a class: a NumPy scalar type as a data type, else a callable
  kCallable,
};

/// Facts about one Python type. Lives as long as the type.
struct TypeEntry {
  ArgumentKind kind = ArgumentKind::kUnknown;
  const DLPackExchangeAPI* opt_exchange = nullptr;
  /// The table gives the memory of torch's lazy conjugates and negatives as it is; a viewer
  /// refuses.
  bool has_lazy_bits = false;
  const TensorViewer* opt_viewer = nullptr;  // of the framework's plugin, for good
  /// Fills a view of the memory of an object of this type, or returns -1 with a Python error.
  int (*opt_view)(void* object, DLTensor* view) = nullptr;
  /// The viewer's, which is as good as the table's, or that.
  DLPackManagedTensorAllocator as_good_allocator = nullptr;
  ArrayView opt_array_view = nullptr;  // of numpy.ndarray
  PyTypeObject* type = nullptr;        // borrowed
  /// For a kDLPack type, once asked for: None, or a callable, graphffi.Tensor -> its array.
  PyObject* opt_importer = nullptr;
};

/// The entry found last: most calls see one tensor type. Guarded by the GIL.
extern TypeEntry* last_entry;
TypeEntry& FindOtherType(PyTypeObject* type);

/// The entry of `type`. \throws PythonError, py::error_already_set
inline TypeEntry& FindType(PyTypeObject* type) {
  if (last_entry != nullptr && last_entry->type == type) return *last_entry;
  return FindOtherType(type);
}

/// The framework of a call's arguments, as one of their types; NULL for none. Borrowed from that
/// type.
using Framework = TypeEntry*;

/// A callable that makes an array of `framework` (a kDLPack type) of a graphffi.Tensor; *borrowed
/// reference*, None if there is none. \throws py::error_already_set
PyObject* ImporterOf(Framework framework);

/// \throws PythonError (BufferError) if `value`'s elements are not what its memory `tensor` holds.
void CheckPlainSlow(PyObject* value, const DLTensor& tensor);
inline void CheckPlain(PyObject* value, const TypeEntry& type, const DLTensor& tensor) {
  if (!type.has_lazy_bits) return;
  // A lazy conjugate is complex, and a lazy negative an imaginary part: every second element, or a
  // scalar.
  bool suspect = tensor.dtype.code == kDLComplex || tensor.ndim == 0 || tensor.data == nullptr;
  if (!suspect && tensor.strides != nullptr) {
    suspect = true;
    for (int32_t i = tensor.ndim; suspect && i > 0; --i) suspect = tensor.strides[i - 1] != 1;
  }
  if (suspect) CheckPlainSlow(value, tensor);
}

/// Replaces how objects of the types with an exchange table are viewed, and what the current stream
/// of their devices is.
void SetViewer(const DLPackExchangeAPI& exchange, const TensorViewer& viewer);

bool IsNumPyArray(PyTypeObject* type);

/// Whether a type has an attribute, such as the method of a protocol; None is how it says no.
bool HasProtocol(PyTypeObject* type, const char* name);

/// The exchange table behind a capsule, NULL if `capsule` is none or its version is not ours.
const DLPackExchangeAPI* ExchangeTable(PyObject* capsule);

}  // namespace graphffi::bindings
