// SPDX-License-Identifier: Apache-2.0
// The part of ONNX Runtime's C ABI that is used here, declared as facts: it needs no header of
// ONNX Runtime's. tests/onnxruntime_plugin/test_ort_api.py calls each slot.
#pragma once

#include <cstddef>
#include <cstdint>

namespace graphffi_onnxruntime::ort {

/// Functions by number; newer releases only add some. What GetApi(n) gives has those of release
/// 1.n, and newer ones of its library.
struct Api {
  void (*functions[418])();
};

struct ApiBase {
  const Api* (*get_api)(uint32_t version);  ///< NULL above the library's own
  const char* (*get_version_string)();      ///< "1.32.0"
};

/// Older releases refuse ops with several operands of any type (1.20), crash where an operand is
/// absent (1.23), or lack functions that are used here (1.24).
constexpr int kOldestApi = 25;

// Objects of ONNX Runtime's.
struct Allocator;
struct CustomOpDomain;
struct KernelContext;
struct KernelInfo;
struct MemoryInfo;
struct OpAttribute;
struct SessionOptions;
struct ShapeInferContext;
struct Status;
struct TensorInfo;
struct TypeInfo;
struct Value;

enum ErrorCode { kFail = 1, kInvalidArgument = 2, kRuntimeException = 6, kNotImplemented = 9 };

/// Function `kIndex`.
template <size_t kIndex, typename Function>
struct Slot;
template <size_t kIndex, typename Returned, typename... Args>
struct Slot<kIndex, Returned(Args...)> {
  static Returned Call(const Api* api, Args... args) {
    return reinterpret_cast<Returned (*)(Args...)>(api->functions[kIndex])(args...);
  }
};

// Out-parameters are *borrowed references* unless they say otherwise. A Status that is not NULL is
// the caller's, to be given to ReleaseStatus.
using CreateStatus = Slot<0, Status*(int code, const char* text)>;  // *new reference*
using GetErrorMessage = Slot<2, const char*(const Status*)>;
using CreateCustomOpDomain = Slot<26, Status*(const char* name, CustomOpDomain** made)>;
using AddToDomain = Slot<27, Status*(CustomOpDomain*, const struct CustomOp*)>;
using AddDomain = Slot<28, Status*(SessionOptions*, CustomOpDomain*)>;
using GetTensorData = Slot<51, Status*(Value*, void** data)>;
using CastToTensorInfo = Slot<55, Status*(const TypeInfo*, const TensorInfo** opt_info)>;
using CreateTensorInfo = Slot<57, Status*(TensorInfo** made)>;
using SetElementType = Slot<58, Status*(TensorInfo*, int type)>;
using SetDimensions = Slot<59, Status*(TensorInfo*, const int64_t* dims, size_t count)>;
using GetElementType = Slot<60, Status*(const TensorInfo*, int* type)>;
using GetDimensionsCount = Slot<61, Status*(const TensorInfo*, size_t* count)>;
using GetDimensions = Slot<62, Status*(const TensorInfo*, int64_t* dims, size_t count)>;
/// Names that are borrowed from the info; "" where there is none.
using GetSymbols = Slot<63, Status*(const TensorInfo*, const char** names, size_t count)>;
using AllocatorAlloc = Slot<75, Status*(Allocator*, size_t bytes, void** data)>;
using AllocatorFree = Slot<76, Status*(Allocator*, void* data)>;
using GetAttributeFloat = Slot<85, Status*(const KernelInfo*, const char* name, float*)>;
using GetAttributeInt = Slot<86, Status*(const KernelInfo*, const char* name, int64_t*)>;
/// *size counts the NUL; a NULL buffer asks for it.
using GetAttributeString =
    Slot<87, Status*(const KernelInfo*, const char* name, char* opt_buffer, size_t* size)>;
using GetInput = Slot<90, Status*(const KernelContext*, size_t index, const Value** opt_value)>;
using GetOutput = Slot<91, Status*(KernelContext*, size_t index, const int64_t* dims, size_t count,
                                   Value** opt_value)>;
using ReleaseStatus = Slot<93, void(Status*)>;
using ReleaseTypeInfo = Slot<98, void(TypeInfo*)>;
using ReleaseTensorInfo = Slot<99, void(TensorInfo*)>;
using AddConfigEntry = Slot<130, Status*(SessionOptions*, const char* key, const char* value)>;
using ReleaseAllocator = Slot<132, void(Allocator*)>;
/// *size is the number of items; a NULL array asks for it.
using GetAttributeFloats =
    Slot<162, Status*(const KernelInfo*, const char* name, float* opt_items, size_t* size)>;
using GetAttributeInts =
    Slot<163, Status*(const KernelInfo*, const char* name, int64_t* opt_items, size_t* size)>;
using GetComputeStream = Slot<193, Status*(const KernelContext*, void** opt_stream)>;
using GetTensorMemoryInfo = Slot<194, Status*(const Value*, const MemoryInfo**)>;
using MemoryInfoGetId = Slot<72, Status*(const MemoryInfo*, int* id)>;
using GetNodeInputCount = Slot<230, Status*(const KernelInfo*, size_t*)>;
using GetNodeOutputCount = Slot<231, Status*(const KernelInfo*, size_t*)>;
using GetInputTypeInfo = Slot<234, Status*(const KernelInfo*, size_t index, TypeInfo** made)>;
using GetOutputTypeInfo = Slot<235, Status*(const KernelInfo*, size_t index, TypeInfo** made)>;
using HasConfigEntry = Slot<237, Status*(const SessionOptions*, const char* key, int* has)>;
using GetConfigEntry =
    Slot<238, Status*(const SessionOptions*, const char* key, char* opt_buffer, size_t* size)>;
using GetInputTypeShape = Slot<268, Status*(const ShapeInferContext*, size_t index, TensorInfo**)>;
using GetShapeAttribute =
    Slot<269, Status*(const ShapeInferContext*, const char* name, const OpAttribute**)>;
using SetOutputTypeShape =
    Slot<270, Status*(const ShapeInferContext*, size_t index, const TensorInfo*)>;
using SetSymbols = Slot<271, Status*(TensorInfo*, const char** names, size_t count)>;
/// *size counts bytes; the text has no NUL.
using ReadOpAttribute =
    Slot<272, Status*(const OpAttribute*, int kind, void* buffer, size_t capacity, size_t* size)>;
constexpr int kIntAttribute = 1, kIntsAttribute = 2, kStringAttribute = 5;  ///< kinds for it
/// *new reference*
using GetNodeAllocator = Slot<278, Status*(const KernelInfo*, int memory, Allocator** made)>;
using GetTypeAndShape =
    Slot<414, Status*(const Value*, int* type, const int64_t** dims, size_t* count)>;
/// The texts and their array are the allocator's.
using GetAttributeStrings = Slot<417, Status*(const KernelInfo*, const char* name, Allocator*,
                                              char*** items, size_t* size)>;
using GetDefaultAllocator = Slot<78, Status*(Allocator**)>;

enum Characteristic { kRequired = 0, kOptional = 1, kVariadic = 2 };
constexpr int kAnyType = 0;

/// An op as ONNX Runtime calls it. It reads what `version` has, which is at most its own minor
/// version; version 17 ends behind get_end_version.
struct CustomOp {
  static constexpr uint32_t kVersion = 18;

  uint32_t version;
  void* (*create_kernel)(const CustomOp*, const Api*, const KernelInfo*);
  const char* (*get_name)(const CustomOp*);
  const char* (*get_provider)(const CustomOp*);  ///< NULL: the CPU's
  int (*get_input_type)(const CustomOp*, size_t index);
  size_t (*get_input_count)(const CustomOp*);
  int (*get_output_type)(const CustomOp*, size_t index);
  size_t (*get_output_count)(const CustomOp*);
  void (*compute)(void* kernel, KernelContext*);
  void (*destroy_kernel)(void* kernel);
  int (*get_input_characteristic)(const CustomOp*, size_t index);
  int (*get_output_characteristic)(const CustomOp*, size_t index);
  int (*get_input_memory)(const CustomOp*, size_t index);
  int (*get_min_inputs)(const CustomOp*);  ///< of a variadic one
  int (*are_inputs_alike)(const CustomOp*);
  int (*get_min_outputs)(const CustomOp*);
  int (*are_outputs_alike)(const CustomOp*);
  Status* (*create_kernel_2)(const CustomOp*, const Api*, const KernelInfo*, void** kernel);
  Status* (*compute_2)(void* kernel, KernelContext*);
  /// What it returns is ignored.
  Status* (*infer_shapes)(const CustomOp*, ShapeInferContext*);
  int (*get_start_version)(const CustomOp*);
  int (*get_end_version)(const CustomOp*);
  // They get no op. *inputs and *outputs are pairs that may share memory.
  size_t (*get_may_inplace)(int** inputs, int** outputs);
  void (*release_may_inplace)(int* inputs, int* outputs);
  size_t (*get_alias_map)(int** inputs, int** outputs);
  void (*release_alias_map)(int* inputs, int* outputs);
};

}  // namespace graphffi_onnxruntime::ort
