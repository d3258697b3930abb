/* SPDX-License-Identifier: Apache-2.0 */
/* Every size and offset of the ABI, as assertions that hold in C11 and in C++17. */
#include <stddef.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#ifdef __cplusplus
#define HOLDS(condition) static_assert(condition, #condition)
#else
#define HOLDS(condition) _Static_assert(condition, #condition)
#endif
#define SIZE(type, bytes) HOLDS(sizeof(type) == (bytes))
#define FIELD(type, field, at, bytes) \
  HOLDS(offsetof(type, field) == (at) && sizeof(((type*)0)->field) == (bytes))

SIZE(TVMFFIVersion, 12);
SIZE(TVMFFIObject, 24);
FIELD(TVMFFIObject, combined_ref_count, 0, 8);
FIELD(TVMFFIObject, type_index, 8, 4);
FIELD(TVMFFIObject, __padding, 12, 4);
FIELD(TVMFFIObject, deleter, 16, 8);
SIZE(TVMFFIAny, 16);
FIELD(TVMFFIAny, type_index, 0, 4);
FIELD(TVMFFIAny, zero_padding, 4, 4);
FIELD(TVMFFIAny, small_str_len, 4, 4);
FIELD(TVMFFIAny, v_int64, 8, 8);
FIELD(TVMFFIAny, v_float64, 8, 8);
FIELD(TVMFFIAny, v_ptr, 8, 8);
FIELD(TVMFFIAny, v_bytes, 8, 8);
FIELD(TVMFFIAny, v_dtype, 8, 4);
FIELD(TVMFFIAny, v_device, 8, 8);
SIZE(TVMFFIByteArray, 16);
FIELD(TVMFFIByteArray, data, 0, 8);
FIELD(TVMFFIByteArray, size, 8, 8);
SIZE(TVMFFIShapeCell, 16);
FIELD(TVMFFIShapeCell, data, 0, 8);
FIELD(TVMFFIShapeCell, size, 8, 8);
SIZE(TVMFFISeqCell, 32);
FIELD(TVMFFISeqCell, data, 0, 8);
FIELD(TVMFFISeqCell, size, 8, 8);
FIELD(TVMFFISeqCell, capacity, 16, 8);
FIELD(TVMFFISeqCell, data_deleter, 24, 8);
SIZE(TVMFFIErrorCell, 72);
FIELD(TVMFFIErrorCell, kind, 0, 16);
FIELD(TVMFFIErrorCell, message, 16, 16);
FIELD(TVMFFIErrorCell, backtrace, 32, 16);
FIELD(TVMFFIErrorCell, update_backtrace, 48, 8);
FIELD(TVMFFIErrorCell, cause_chain, 56, 8);
FIELD(TVMFFIErrorCell, extra_context, 64, 8);
SIZE(TVMFFIFunctionCell, 16);
FIELD(TVMFFIFunctionCell, safe_call, 0, 8);
FIELD(TVMFFIFunctionCell, cpp_call, 8, 8);
SIZE(TVMFFIOpaqueObjectCell, 8);
SIZE(TVMFFIObjectAllocHeader, 8);
SIZE(TVMFFICustomAllocator, 16);
FIELD(TVMFFICustomAllocator, allocate, 0, 8);
FIELD(TVMFFICustomAllocator, context, 8, 8);
SIZE(DLDevice, 8);
SIZE(DLDataType, 4);
SIZE(DLTensor, 48);
FIELD(DLTensor, data, 0, 8);
FIELD(DLTensor, device, 8, 8);
FIELD(DLTensor, ndim, 16, 4);
FIELD(DLTensor, dtype, 20, 4);
FIELD(DLTensor, shape, 24, 8);
FIELD(DLTensor, strides, 32, 8);
FIELD(DLTensor, byte_offset, 40, 8);
SIZE(DLManagedTensor, 64);
FIELD(DLManagedTensor, dl_tensor, 0, 48);
FIELD(DLManagedTensor, manager_ctx, 48, 8);
FIELD(DLManagedTensor, deleter, 56, 8);
SIZE(DLManagedTensorVersioned, 80);
FIELD(DLManagedTensorVersioned, version, 0, 8);
FIELD(DLManagedTensorVersioned, manager_ctx, 8, 8);
FIELD(DLManagedTensorVersioned, deleter, 16, 8);
FIELD(DLManagedTensorVersioned, flags, 24, 8);
FIELD(DLManagedTensorVersioned, dl_tensor, 32, 48);
SIZE(TVMFFIFieldInfo, 120);
FIELD(TVMFFIFieldInfo, name, 0, 16);
FIELD(TVMFFIFieldInfo, doc, 16, 16);
FIELD(TVMFFIFieldInfo, metadata, 32, 16);
FIELD(TVMFFIFieldInfo, flags, 48, 8);
FIELD(TVMFFIFieldInfo, size, 56, 8);
FIELD(TVMFFIFieldInfo, alignment, 64, 8);
FIELD(TVMFFIFieldInfo, offset, 72, 8);
FIELD(TVMFFIFieldInfo, getter, 80, 8);
FIELD(TVMFFIFieldInfo, setter, 88, 8);
FIELD(TVMFFIFieldInfo, default_value_or_factory, 96, 16);
FIELD(TVMFFIFieldInfo, field_static_type_index, 112, 4);
SIZE(TVMFFIMethodInfo, 72);
FIELD(TVMFFIMethodInfo, name, 0, 16);
FIELD(TVMFFIMethodInfo, doc, 16, 16);
FIELD(TVMFFIMethodInfo, metadata, 32, 16);
FIELD(TVMFFIMethodInfo, flags, 48, 8);
FIELD(TVMFFIMethodInfo, method, 56, 16);
SIZE(TVMFFITypeMetadata, 32);
FIELD(TVMFFITypeMetadata, doc, 0, 16);
FIELD(TVMFFITypeMetadata, creator, 16, 8);
FIELD(TVMFFITypeMetadata, total_size, 24, 4);
FIELD(TVMFFITypeMetadata, structural_eq_hash_kind, 28, 4);
SIZE(TVMFFITypeAttrColumn, 16);
FIELD(TVMFFITypeAttrColumn, data, 0, 8);
FIELD(TVMFFITypeAttrColumn, size, 8, 4);
FIELD(TVMFFITypeAttrColumn, begin_index, 12, 4);
SIZE(TVMFFITypeInfo, 72);
FIELD(TVMFFITypeInfo, type_index, 0, 4);
FIELD(TVMFFITypeInfo, type_depth, 4, 4);
FIELD(TVMFFITypeInfo, type_key, 8, 16);
FIELD(TVMFFITypeInfo, type_ancestors, 24, 8);
FIELD(TVMFFITypeInfo, type_key_hash, 32, 8);
FIELD(TVMFFITypeInfo, num_fields, 40, 4);
FIELD(TVMFFITypeInfo, num_methods, 44, 4);
FIELD(TVMFFITypeInfo, fields, 48, 8);
FIELD(TVMFFITypeInfo, methods, 56, 8);
FIELD(TVMFFITypeInfo, metadata, 64, 8);

HOLDS(kTVMFFIAny == -1 && kTVMFFINone == 0 && kTVMFFIInt == 1 && kTVMFFIBool == 2);
HOLDS(kTVMFFIFloat == 3 && kTVMFFIOpaquePtr == 4 && kTVMFFIDataType == 5 && kTVMFFIDevice == 6);
HOLDS(kTVMFFIDLTensorPtr == 7 && kTVMFFIRawStr == 8 && kTVMFFIByteArrayPtr == 9);
HOLDS(kTVMFFIObjectRValueRef == 10 && kTVMFFISmallStr == 11 && kTVMFFISmallBytes == 12);
HOLDS(kTVMFFIUnchanged == 13 && kTVMFFIStaticObjectBegin == 64 && kTVMFFIObject == 64);
HOLDS(kTVMFFIStr == 65 && kTVMFFIBytes == 66 && kTVMFFIError == 67 && kTVMFFIFunction == 68);
HOLDS(kTVMFFIShape == 69 && kTVMFFITensor == 70 && kTVMFFIArray == 71 && kTVMFFIMap == 72);
HOLDS(kTVMFFIModule == 73 && kTVMFFIOpaquePyObject == 74 && kTVMFFIList == 75);
HOLDS(kTVMFFIDict == 76 && kTVMFFIVisitInterrupt == 77 && kTVMFFIBigInt == 78);
HOLDS(kTVMFFIDynObjectBegin == 128);
