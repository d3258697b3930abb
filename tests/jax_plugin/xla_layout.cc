// SPDX-License-Identifier: Apache-2.0
// Compiles if the plugin's own declarations of XLA's structs agree with jaxlib's header (API 0.1 or
// newer).
#include <xla/ffi/api/c_api.h>

#include "xla_ffi.h"

namespace x = graphffi_jax::xla;

// A member of ours lies where theirs does and is as wide.
#define SAME(Ours, ours, Theirs, theirs)                              \
  static_assert(offsetof(x::Ours, ours) == offsetof(Theirs, theirs)); \
  static_assert(sizeof(x::Ours::ours) == sizeof(Theirs::theirs))
#define SAME_VALUE(ours, theirs) \
  static_assert(static_cast<int>(x::ours) == static_cast<int>(theirs))

SAME(ApiVersion, struct_size, XLA_FFI_Api_Version, struct_size);
SAME(ApiVersion, extension, XLA_FFI_Api_Version, extension_start);
SAME(ApiVersion, major, XLA_FFI_Api_Version, major_version);
SAME(ApiVersion, minor, XLA_FFI_Api_Version, minor_version);
SAME(ByteSpan, data, XLA_FFI_ByteSpan, ptr);
SAME(ByteSpan, size, XLA_FFI_ByteSpan, len);
SAME(TypeId, value, XLA_FFI_TypeId, type_id);
SAME(Buffer, dtype, XLA_FFI_Buffer, dtype);
SAME(Buffer, data, XLA_FFI_Buffer, data);
SAME(Buffer, rank, XLA_FFI_Buffer, rank);
SAME(Buffer, dims, XLA_FFI_Buffer, dims);
SAME(Scalar, dtype, XLA_FFI_Scalar, dtype);
SAME(Scalar, value, XLA_FFI_Scalar, value);
SAME(Array, dtype, XLA_FFI_Array, dtype);
SAME(Array, size, XLA_FFI_Array, size);
SAME(Array, data, XLA_FFI_Array, data);
SAME(Buffers, size, XLA_FFI_Args, size);
SAME(Buffers, tags, XLA_FFI_Args, types);
SAME(Buffers, buffers, XLA_FFI_Args, args);
SAME(Buffers, buffers, XLA_FFI_Rets, rets);
SAME(Attributes, size, XLA_FFI_Attrs, size);
SAME(Attributes, tags, XLA_FFI_Attrs, types);
SAME(Attributes, names, XLA_FFI_Attrs, names);
SAME(Attributes, values, XLA_FFI_Attrs, attrs);
SAME(Call, extension, XLA_FFI_CallFrame, extension_start);
SAME(Call, api, XLA_FFI_CallFrame, api);
SAME(Call, context, XLA_FFI_CallFrame, ctx);
SAME(Call, stage, XLA_FFI_CallFrame, stage);
SAME(Call, args, XLA_FFI_CallFrame, args);
SAME(Call, rets, XLA_FFI_CallFrame, rets);
SAME(Call, attributes, XLA_FFI_CallFrame, attrs);
static_assert(sizeof(x::Call) == XLA_FFI_CallFrame_STRUCT_SIZE);
SAME(Metadata, version, XLA_FFI_Metadata, api_version);
SAME(Metadata, traits, XLA_FFI_Metadata, traits);
SAME(MetadataExtension, metadata, XLA_FFI_Metadata_Extension, metadata);
SAME(StatusCreateArgs, message, XLA_FFI_Error_Create_Args, message);
SAME(StatusCreateArgs, code, XLA_FFI_Error_Create_Args, errc);
SAME(StatusDestroyArgs, status, XLA_FFI_Error_Destroy_Args, error);
SAME(StreamGetArgs, stream, XLA_FFI_Stream_Get_Args, stream);
SAME(DeviceOrdinalArgs, ordinal, XLA_FFI_DeviceOrdinal_Get_Args, device_ordinal);
SAME(MemoryAllocateArgs, size, XLA_FFI_DeviceMemory_Allocate_Args, size);
SAME(MemoryAllocateArgs, alignment, XLA_FFI_DeviceMemory_Allocate_Args, alignment);
SAME(MemoryAllocateArgs, data, XLA_FFI_DeviceMemory_Allocate_Args, data);
SAME(MemoryFreeArgs, size, XLA_FFI_DeviceMemory_Free_Args, size);
SAME(MemoryFreeArgs, data, XLA_FFI_DeviceMemory_Free_Args, data);
SAME(Api, version, XLA_FFI_Api, api_version);
SAME(Api, status_create, XLA_FFI_Api, XLA_FFI_Error_Create);
SAME(Api, status_destroy, XLA_FFI_Api, XLA_FFI_Error_Destroy);
SAME(Api, stream_get, XLA_FFI_Api, XLA_FFI_Stream_Get);
SAME(Api, state_set, XLA_FFI_Api, XLA_FFI_State_Set);
SAME(Api, state_get, XLA_FFI_Api, XLA_FFI_State_Get);
SAME(Api, memory_allocate, XLA_FFI_Api, XLA_FFI_DeviceMemory_Allocate);
SAME(Api, memory_free, XLA_FFI_Api, XLA_FFI_DeviceMemory_Free);
SAME(Api, device_ordinal_get, XLA_FFI_Api, XLA_FFI_DeviceOrdinal_Get);

// What changed between versions.
#if XLA_FFI_API_MINOR == 1
SAME(StateSetArgs01, type_id, XLA_FFI_State_Set_Args, type_id);
SAME(StateSetArgs01, state, XLA_FFI_State_Set_Args, state);
SAME(StateSetArgs01, deleter, XLA_FFI_State_Set_Args, deleter);
SAME(StateArgs02, type_id, XLA_FFI_State_Get_Args, type_id);
SAME(StateArgs02, state, XLA_FFI_State_Get_Args, state);
SAME(TypeRegisterArgs, type_id, XLA_FFI_TypeId_Register_Args, type_id);
SAME(Api, type_register, XLA_FFI_Api, XLA_FFI_TypeId_Register);
#else
SAME(Metadata, state_type_id, XLA_FFI_Metadata, state_type_id);
SAME(TypeInfo, deleter, XLA_FFI_TypeInfo, deleter);
SAME(TypeRegisterArgs, name, XLA_FFI_Type_Register_Args, name);
SAME(TypeRegisterArgs, type_id, XLA_FFI_Type_Register_Args, type_id);
SAME(TypeRegisterArgs, type_info, XLA_FFI_Type_Register_Args, type_info);
SAME(Api, type_register, XLA_FFI_Api, XLA_FFI_Type_Register);
#endif
#if XLA_FFI_API_MINOR == 2
SAME(StateArgs02, type_id, XLA_FFI_State_Set_Args, type_id);
SAME(StateArgs02, state, XLA_FFI_State_Get_Args, state);
#elif XLA_FFI_API_MINOR >= 3
SAME(StateArgs03, stage, XLA_FFI_State_Set_Args, stage);
SAME(StateArgs03, type_id, XLA_FFI_State_Set_Args, type_id);
SAME(StateArgs03, state, XLA_FFI_State_Set_Args, state);
SAME(StateArgs03, stage, XLA_FFI_State_Get_Args, stage);
SAME(StateArgs03, type_id, XLA_FFI_State_Get_Args, type_id);
SAME(StateArgs03, state, XLA_FFI_State_Get_Args, state);
#endif
#if XLA_FFI_API_MINOR < 4
using TheirExtension = XLA_FFI_Extension_Base;
using TheirMessageArgs = XLA_FFI_Error_GetMessage_Args;
SAME(Api, status_message, XLA_FFI_Api, XLA_FFI_Error_GetMessage);
SAME(Api, context_get, XLA_FFI_Api, XLA_FFI_ExecutionContext_Get);
#else
using TheirExtension = XLA_FFI_InternalExtension;
using TheirMessageArgs = XLA_FFI_Error_GetDetails_Args;
SAME(StatusMessageArgs, code, XLA_FFI_Error_GetDetails_Args, errc);
SAME(Api, status_message, XLA_FFI_Api, XLA_FFI_Error_GetDetails);
SAME(Api, context_get, XLA_FFI_Api, XLA_FFI_InvokeContext_Get);
#endif
SAME(Extension, struct_size, TheirExtension, struct_size);
SAME(Extension, type, TheirExtension, type);
SAME(Extension, next, TheirExtension, next);
SAME(StatusMessageArgs, status, TheirMessageArgs, error);
SAME(StatusMessageArgs, message, TheirMessageArgs, message);

SAME_VALUE(kInstantiate, XLA_FFI_ExecutionStage_INSTANTIATE);
SAME_VALUE(kExecute, XLA_FFI_ExecutionStage_EXECUTE);
SAME_VALUE(kMetadataExtension, XLA_FFI_Extension_Metadata);
SAME_VALUE(kBuffer, XLA_FFI_ArgType_BUFFER);
SAME_VALUE(kBuffer, XLA_FFI_RetType_BUFFER);
SAME_VALUE(kArray, XLA_FFI_AttrType_ARRAY);
SAME_VALUE(kDictionary, XLA_FFI_AttrType_DICTIONARY);
SAME_VALUE(kScalar, XLA_FFI_AttrType_SCALAR);
SAME_VALUE(kString, XLA_FFI_AttrType_STRING);
SAME_VALUE(kCommandBufferCompatible, XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);
SAME_VALUE(kCancelled, XLA_FFI_Error_Code_CANCELLED);
SAME_VALUE(kUnknown, XLA_FFI_Error_Code_UNKNOWN);
SAME_VALUE(kInvalidArgument, XLA_FFI_Error_Code_INVALID_ARGUMENT);
SAME_VALUE(kNotFound, XLA_FFI_Error_Code_NOT_FOUND);
SAME_VALUE(kUnimplemented, XLA_FFI_Error_Code_UNIMPLEMENTED);
SAME_VALUE(kInternal, XLA_FFI_Error_Code_INTERNAL);
#define SAME_DTYPE(name) SAME_VALUE(k##name, XLA_FFI_DataType_##name)
SAME_VALUE(kInvalid, XLA_FFI_DataType_INVALID);
SAME_VALUE(kPred, XLA_FFI_DataType_PRED);
SAME_VALUE(kToken, XLA_FFI_DataType_TOKEN);
SAME_DTYPE(S2);
SAME_DTYPE(S4);
SAME_DTYPE(S8);
SAME_DTYPE(S16);
SAME_DTYPE(S32);
SAME_DTYPE(S64);
SAME_DTYPE(U2);
SAME_DTYPE(U4);
SAME_DTYPE(U8);
SAME_DTYPE(U16);
SAME_DTYPE(U32);
SAME_DTYPE(U64);
SAME_DTYPE(F16);
SAME_DTYPE(F32);
SAME_DTYPE(F64);
SAME_DTYPE(BF16);
SAME_DTYPE(C64);
SAME_DTYPE(C128);
SAME_DTYPE(F8E5M2);
SAME_DTYPE(F8E3M4);
SAME_DTYPE(F8E4M3);
SAME_DTYPE(F8E4M3FN);
SAME_DTYPE(F8E4M3B11FNUZ);
SAME_DTYPE(F8E5M2FNUZ);
SAME_DTYPE(F8E4M3FNUZ);
SAME_DTYPE(F4E2M1FN);
SAME_DTYPE(F8E8M0FNU);
