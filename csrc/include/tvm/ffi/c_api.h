/* SPDX-License-Identifier: Apache-2.0 */
/* The stable C ABI of TVM FFI: value and object layouts, and the functions of libtvm_ffi.so. C11
 * and C++17.
 *
 * Every layout here is pinned by tests/abi/test_layout.py. Nothing in this file may change meaning:
 * libraries built years apart meet through it.
 *
 * Conventions: functions returning int give 0 on success; otherwise the thread's error slot holds
 * an Error object (TVMFFIErrorMoveFromRaised). An out-parameter is a *new reference* unless it says
 * *borrowed reference*. */
#ifndef TVM_FFI_C_API_H_
#define TVM_FFI_C_API_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifndef TVM_FFI_DLL
#define TVM_FFI_DLL __attribute__((visibility("default")))
#endif
#ifndef TVM_FFI_DLL_EXPORT
#define TVM_FFI_DLL_EXPORT __attribute__((visibility("default")))
#endif
#define TVM_FFI_WEAK __attribute__((weak))
#define TVM_FFI_ATTRIBUTE_PURE __attribute__((__pure__))

/* The release of TVM FFI whose ABI this header describes. */
#define TVM_FFI_VERSION_MAJOR 0
#define TVM_FFI_VERSION_MINOR 1
#define TVM_FFI_VERSION_PATCH 16

/* An enum with 32-bit representation in both languages. */
#ifdef __cplusplus
#define TVM_FFI_C_ENUM_BEGIN_(Name) enum Name : int32_t {
#define TVM_FFI_C_ENUM_END_(Name) \
  }                               \
  ;
extern "C" {
#else
#define TVM_FFI_C_ENUM_BEGIN_(Name) typedef enum {
#define TVM_FFI_C_ENUM_END_(Name) \
  }                               \
  Name;
#endif

typedef struct {
  uint32_t major;
  uint32_t minor;
  uint32_t patch;
} TVMFFIVersion;

/* What a TVMFFIAny holds. An index >= kTVMFFIStaticObjectBegin means a counted object. */
TVM_FFI_C_ENUM_BEGIN_(TVMFFITypeIndex)
kTVMFFIAny = -1, /* only in metadata */
    kTVMFFINone = 0, kTVMFFIInt = 1, kTVMFFIBool = 2, kTVMFFIFloat = 3, kTVMFFIOpaquePtr = 4,
    kTVMFFIDataType = 5, kTVMFFIDevice = 6,
    kTVMFFIDLTensorPtr = 7, /* a DLTensor* that nobody keeps alive */
    /* 8, 9, 10 appear in views only: owning them copies (8, 9) or moves (10). */
    kTVMFFIRawStr = 8, kTVMFFIByteArrayPtr = 9, kTVMFFIObjectRValueRef = 10, kTVMFFISmallStr = 11,
    kTVMFFISmallBytes = 12, kTVMFFIUnchanged = 13, kTVMFFIStaticObjectBegin = 64,
    kTVMFFIObject = 64, kTVMFFIStr = 65, kTVMFFIBytes = 66, kTVMFFIError = 67, kTVMFFIFunction = 68,
    kTVMFFIShape = 69, kTVMFFITensor = 70, kTVMFFIArray = 71, kTVMFFIMap = 72, kTVMFFIModule = 73,
    kTVMFFIOpaquePyObject = 74, kTVMFFIList = 75, kTVMFFIDict = 76, kTVMFFIVisitInterrupt = 77,
    kTVMFFIBigInt = 78, kTVMFFIStaticObjectEnd,
    kTVMFFIDynObjectBegin = 128 TVM_FFI_C_ENUM_END_(TVMFFITypeIndex)

        typedef void* TVMFFIObjectHandle;

TVM_FFI_C_ENUM_BEGIN_(TVMFFIObjectDeleterFlagBitMask)
kTVMFFIObjectDeleterFlagBitMaskStrong = 1 << 0,   /* destroy the contents */
    kTVMFFIObjectDeleterFlagBitMaskWeak = 1 << 1, /* free the memory */
    kTVMFFIObjectDeleterFlagBitMaskBoth =
        (1 << 0) | (1 << 1) TVM_FFI_C_ENUM_END_(TVMFFIObjectDeleterFlagBitMask)

        /* The header of every object. Low half of combined_ref_count: strong references; high half:
         * weak ones, of which all strong references together own one. A new object has 1 | 1 << 32.
         * deleter may be NULL (static objects). */
        typedef struct {
  uint64_t combined_ref_count;
  int32_t type_index;
  uint32_t __padding;
  union {
    void (*deleter)(void* self, int flags);
    int64_t __ensure_align;
  };
} TVMFFIObject;

/* One value. As a view it borrows; owned, it holds one strong reference if it is an object.
 * zero_padding is zero but for small strings, and all 8 payload bytes are always defined: equality
 * and hashing compare raw words. */
typedef struct {
  int32_t type_index;
  union {
    uint32_t zero_padding;
    uint32_t small_str_len; /* <= 7 */
  };
  union {
    int64_t v_int64;
    double v_float64;
    void* v_ptr;
    const char* v_c_str;
    TVMFFIObject* v_obj;
    DLDataType v_dtype;
    DLDevice v_device;
    char v_bytes[8];
    uint64_t v_uint64;
  };
} TVMFFIAny;

/* The bodies below follow the 24-byte header of the object that they belong to. */

typedef struct {
  const char* data; /* NUL-terminated in String and Bytes objects, the NUL not counted */
  size_t size;
} TVMFFIByteArray;

typedef struct {
  const int64_t* data;
  size_t size;
} TVMFFIShapeCell;

#ifdef __cplusplus
struct TVMFFISeqCell {
#else
typedef struct {
#endif
  void* data; /* TVMFFIAny[capacity], the first size of them owned */
  int64_t size;
  int64_t capacity;
  void (*data_deleter)(void*); /* NULL: data is inside the object */
#ifdef __cplusplus
};
#else
} TVMFFISeqCell;
#endif

TVM_FFI_C_ENUM_BEGIN_(TVMFFIBacktraceUpdateMode)
kTVMFFIBacktraceUpdateModeReplace = 0, kTVMFFIBacktraceUpdateModeAppend =
                                           1 TVM_FFI_C_ENUM_END_(TVMFFIBacktraceUpdateMode)

                                       /* cause_chain and extra_context do not exist in errors made
                                          by kernels that were built before TVM FFI 0.1.8. */
                                       typedef struct {
  TVMFFIByteArray kind;
  TVMFFIByteArray message;
  TVMFFIByteArray backtrace; /* most recent frame first */
  void (*update_backtrace)(TVMFFIObjectHandle self, const TVMFFIByteArray* backtrace,
                           int32_t update_mode);
  TVMFFIObjectHandle cause_chain;
  TVMFFIObjectHandle extra_context;
} TVMFFIErrorCell;

/* The calling convention. args are borrowed; *result is None on entry, owned by the caller on
 * success and untouched on failure. handle is the function object, or NULL for an exported
 * __tvm_ffi_<name> symbol. */
typedef int (*TVMFFISafeCallType)(void* handle, const TVMFFIAny* args, int32_t num_args,
                                  TVMFFIAny* result);

typedef struct {
  TVMFFISafeCallType safe_call;
  void* cpp_call; /* throws C++ exceptions; NULL in every function that graphffi makes */
} TVMFFIFunctionCell;

typedef struct {
  void* handle;
} TVMFFIOpaqueObjectCell;

/* Version, objects, allocation. */

TVM_FFI_DLL void TVMFFIGetVersion(TVMFFIVersion* out_version);
TVM_FFI_DLL int TVMFFIObjectIncRef(TVMFFIObjectHandle obj);
TVM_FFI_DLL int TVMFFIObjectDecRef(TVMFFIObjectHandle obj);
/* type_index is kTVMFFIOpaquePyObject. On success the object owns handle; on failure the caller
 * still does. */
TVM_FFI_DLL int TVMFFIObjectCreateOpaque(void* handle, int32_t type_index,
                                         void (*deleter)(void* handle), TVMFFIObjectHandle* out);

/* Precedes, by 8 bytes, every block that a custom allocator returns. */
typedef struct {
  void (*delete_space)(void* ptr);
} TVMFFIObjectAllocHeader;

typedef struct {
  void* (*allocate)(size_t size, size_t alignment, int32_t type_index, void* context);
  void* context;
} TVMFFICustomAllocator;

/* Never NULL. */
TVM_FFI_DLL TVMFFICustomAllocator* TVMFFIGetCustomAllocator(void);
/* NULL restores the default. allocator is borrowed for the rest of the process. */
TVM_FFI_DLL int TVMFFISetCustomAllocator(TVMFFICustomAllocator* allocator);

/* Functions and values. */

TVM_FFI_DLL int TVMFFITypeKeyToIndex(const TVMFFIByteArray* type_key, int32_t* out_tindex);
/* safe_call gets self as its handle, and deleter runs once with self when the function dies. With
 * neither self nor deleter, safe_call gets the function object instead. */
TVM_FFI_DLL int TVMFFIFunctionCreate(void* self, TVMFFISafeCallType safe_call,
                                     void (*deleter)(void* self), TVMFFIObjectHandle* out);
/* An unknown name is no error: *out becomes NULL. */
TVM_FFI_DLL int TVMFFIFunctionGetGlobal(const TVMFFIByteArray* name, TVMFFIObjectHandle* out);
TVM_FFI_DLL int TVMFFIAnyViewToOwnedAny(const TVMFFIAny* any_view, TVMFFIAny* out);
/* *result must be None (or another non-object) on entry. */
TVM_FFI_DLL int TVMFFIFunctionCall(TVMFFIObjectHandle func, TVMFFIAny* args, int32_t num_args,
                                   TVMFFIAny* result);

/* Errors. */

/* Hands the thread's error over and empties the slot; *result is NULL where there was none. */
TVM_FFI_DLL void TVMFFIErrorMoveFromRaised(TVMFFIObjectHandle* result);
/* Takes its own reference to error. */
TVM_FFI_DLL void TVMFFIErrorSetRaised(TVMFFIObjectHandle error);
TVM_FFI_DLL void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
/* NULL parts are skipped. */
TVM_FFI_DLL void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** message_parts,
                                                   int32_t num_parts);
/* Does not touch the thread's slot. */
TVM_FFI_DLL int TVMFFIErrorCreate(const TVMFFIByteArray* kind, const TVMFFIByteArray* message,
                                  const TVMFFIByteArray* backtrace, TVMFFIObjectHandle* out);
/* cause_chain and extra_context may be NULL; references are taken. */
TVM_FFI_DLL int TVMFFIErrorCreateWithCauseAndExtraContext(
    const TVMFFIByteArray* kind, const TVMFFIByteArray* message, const TVMFFIByteArray* backtrace,
    TVMFFIObjectHandle cause_chain, TVMFFIObjectHandle extra_context, TVMFFIObjectHandle* out);

/* Tensors. */

/* Takes from over on success only. require_alignment is in bytes, 0 for none. */
TVM_FFI_DLL int TVMFFITensorFromDLPack(DLManagedTensor* from, int32_t require_alignment,
                                       int32_t require_contiguous, TVMFFIObjectHandle* out);
TVM_FFI_DLL int TVMFFITensorToDLPack(TVMFFIObjectHandle from, DLManagedTensor** out);
TVM_FFI_DLL int TVMFFITensorFromDLPackVersioned(DLManagedTensorVersioned* from,
                                                int32_t require_alignment,
                                                int32_t require_contiguous,
                                                TVMFFIObjectHandle* out);
TVM_FFI_DLL int TVMFFITensorToDLPackVersioned(TVMFFIObjectHandle from,
                                              DLManagedTensorVersioned** out);
/* A tensor with the metadata of prototype (strides not NULL) that keeps source alive; nothing is
 * checked. */
TVM_FFI_DLL int TVMFFITensorCreateUnsafeView(TVMFFIObjectHandle source, const DLTensor* prototype,
                                             TVMFFIObjectHandle* out);

/* Strings, bytes, big integers, data types. */

/* Up to 7 bytes come back small, inside the value. */
TVM_FFI_DLL int TVMFFIStringFromByteArray(const TVMFFIByteArray* input, TVMFFIAny* out);
TVM_FFI_DLL int TVMFFIBytesFromByteArray(const TVMFFIByteArray* input, TVMFFIAny* out);
/* input: little-endian two's complement. What fits an int64 comes back as an Int. */
TVM_FFI_DLL int TVMFFIBigIntFromByteArray(const TVMFFIByteArray* input, TVMFFIAny* out);
/* Borrowed from value. */
TVM_FFI_DLL TVMFFIByteArray TVMFFIBigIntGetContentByteArray(const TVMFFIAny* value);
TVM_FFI_DLL int TVMFFIDataTypeFromString(const TVMFFIByteArray* str, DLDataType* out);
TVM_FFI_DLL int TVMFFIDataTypeToString(const DLDataType* dtype, TVMFFIAny* out);

/* Types and reflection. */

typedef int (*TVMFFIFieldGetter)(void* field, TVMFFIAny* result);
typedef int (*TVMFFIFieldSetter)(void* field, const TVMFFIAny* value);
typedef int (*TVMFFIObjectCreator)(TVMFFIObjectHandle* result);

TVM_FFI_C_ENUM_BEGIN_(TVMFFIFieldFlagBitMask)
kTVMFFIFieldFlagBitMaskWritable = 1 << 0,
    kTVMFFIFieldFlagBitMaskHasDefault = 1 << 1, kTVMFFIFieldFlagBitMaskIsStaticMethod = 1 << 2,
    kTVMFFIFieldFlagBitMaskSEqHashIgnore = 1 << 3,
    kTVMFFIFieldFlagBitMaskSEqHashDefPattern = 1 << 4,
    kTVMFFIFieldFlagBitMaskDefaultFromFactory = 1 << 5, kTVMFFIFieldFlagBitMaskReprOff = 1 << 6,
    kTVMFFIFieldFlagBitMaskCompareOff = 1 << 7, kTVMFFIFieldFlagBitMaskHashOff = 1 << 8,
    kTVMFFIFieldFlagBitMaskInitOff = 1 << 9, kTVMFFIFieldFlagBitMaskKwOnly = 1 << 10,
    kTVMFFIFieldFlagBitSetterIsFunctionObj = 1 << 11,
    kTVMFFIFieldFlagBitMaskSEqHashDefSimple = 1 << 12 TVM_FFI_C_ENUM_END_(TVMFFIFieldFlagBitMask)

                                                  TVM_FFI_C_ENUM_BEGIN_(TVMFFISEqHashKind)
                                                      kTVMFFISEqHashKindUnsupported = 0,
    kTVMFFISEqHashKindTreeNode = 1, kTVMFFISEqHashKindFreeVar = 2, kTVMFFISEqHashKindDAGNode = 3,
    kTVMFFISEqHashKindConstTreeNode = 4,
    kTVMFFISEqHashKindUniqueInstance = 5 TVM_FFI_C_ENUM_END_(TVMFFISEqHashKind)

        TVM_FFI_C_ENUM_BEGIN_(TVMFFIDefRegionKind) kTVMFFIDefRegionKindNone = 0,
    kTVMFFIDefRegionKindPattern = 1,
    kTVMFFIDefRegionKindSimple = 2 TVM_FFI_C_ENUM_END_(TVMFFIDefRegionKind)

        typedef struct {
  TVMFFIByteArray name;
  TVMFFIByteArray doc;
  TVMFFIByteArray metadata; /* JSON */
  int64_t flags;            /* TVMFFIFieldFlagBitMask */
  int64_t size;
  int64_t alignment;
  int64_t offset; /* from the object's start */
  TVMFFIFieldGetter getter;
  void* setter; /* a TVMFFIFieldSetter, or a function object if the flag says so */
  TVMFFIAny default_value_or_factory;
  int32_t field_static_type_index;
} TVMFFIFieldInfo;

typedef struct {
  TVMFFIByteArray name;
  TVMFFIByteArray doc;
  TVMFFIByteArray metadata; /* JSON */
  int64_t flags;
  TVMFFIAny method;
} TVMFFIMethodInfo;

typedef struct {
  TVMFFIByteArray doc;
  TVMFFIObjectCreator creator;
  int32_t total_size;
  TVMFFISEqHashKind structural_eq_hash_kind;
} TVMFFITypeMetadata;

/* Index by type_index - begin_index; a missing entry is None. The column's address is stable, data
 * is not. */
typedef struct {
  const TVMFFIAny* data;
  int32_t size;
  int32_t begin_index;
} TVMFFITypeAttrColumn;

#ifdef __cplusplus
struct TVMFFITypeInfo {
#else
typedef struct TVMFFITypeInfo {
#endif
  int32_t type_index;
  int32_t type_depth;
  TVMFFIByteArray type_key;
  const struct TVMFFITypeInfo** type_ancestors; /* type_depth of them, the root first */
  uint64_t type_key_hash;
  int32_t num_fields;
  int32_t num_methods;
  const TVMFFIFieldInfo* fields;
  const TVMFFIMethodInfo* methods;
  const TVMFFITypeMetadata* metadata;
#ifdef __cplusplus
};
#else
} TVMFFITypeInfo;
#endif

TVM_FFI_DLL int TVMFFIFunctionSetGlobal(const TVMFFIByteArray* name, TVMFFIObjectHandle f,
                                        int allow_override);
TVM_FFI_DLL int TVMFFIFunctionSetGlobalFromMethodInfo(const TVMFFIMethodInfo* method_info,
                                                      int allow_override);
/* The registrations copy strings and retain values. */
TVM_FFI_DLL int TVMFFITypeRegisterField(int32_t type_index, const TVMFFIFieldInfo* info);
TVM_FFI_DLL int TVMFFITypeRegisterMethod(int32_t type_index, const TVMFFIMethodInfo* info);
TVM_FFI_DLL int TVMFFITypeRegisterMetadata(int32_t type_index, const TVMFFITypeMetadata* metadata);
TVM_FFI_DLL int TVMFFITypeRegisterAttr(int32_t type_index, const TVMFFIByteArray* attr_name,
                                       const TVMFFIAny* attr_value);
/* NULL if nobody registered such an attribute. */
TVM_FFI_DLL const TVMFFITypeAttrColumn* TVMFFIGetTypeAttrColumn(const TVMFFIByteArray* attr_name);
/* *Borrowed reference*: text of this thread, overwritten by the next call. */
TVM_FFI_DLL const TVMFFIByteArray* TVMFFIBacktrace(const char* filename, int lineno,
                                                   const char* func, int cross_ffi_boundary);
/* A known key gives its index whatever else is passed; parent_type_index -2 only asks (-2 if
 * unknown). */
TVM_FFI_DLL int32_t TVMFFITypeGetOrAllocIndex(const TVMFFIByteArray* type_key,
                                              int32_t static_type_index, int32_t type_depth,
                                              int32_t num_child_slots,
                                              int32_t child_slots_can_overflow,
                                              int32_t parent_type_index);
/* *Borrowed reference* for the rest of the process. An index that was never handed out ends the
 * process. */
TVM_FFI_DLL TVM_FFI_ATTRIBUTE_PURE const TVMFFITypeInfo* TVMFFIGetTypeInfo(int32_t type_index);

/* Once-only handles. */

TVM_FFI_DLL int TVMFFIHandleInitOnce(void** handle_addr, int (*init_func)(void** result));
TVM_FFI_DLL int TVMFFIHandleDeinitOnce(void** handle_addr, int (*deinit_func)(void* handle));

/* Access to object bodies. */

static inline int32_t TVMFFIObjectGetTypeIndex(TVMFFIObjectHandle obj) {
  return ((const TVMFFIObject*)obj)->type_index;
}
static inline void* TVMFFIObjectGetBody_(TVMFFIObjectHandle obj) {
  return (char*)obj + sizeof(TVMFFIObject);
}
static inline TVMFFIByteArray TVMFFISmallBytesGetContentByteArray(const TVMFFIAny* value) {
  TVMFFIByteArray content = {value->v_bytes, (size_t)value->small_str_len};
  return content;
}
static inline TVMFFIByteArray* TVMFFIBytesGetByteArrayPtr(TVMFFIObjectHandle obj) {
  return (TVMFFIByteArray*)TVMFFIObjectGetBody_(obj);
}
static inline TVMFFIErrorCell* TVMFFIErrorGetCellPtr(TVMFFIObjectHandle obj) {
  return (TVMFFIErrorCell*)TVMFFIObjectGetBody_(obj);
}
static inline TVMFFIFunctionCell* TVMFFIFunctionGetCellPtr(TVMFFIObjectHandle obj) {
  return (TVMFFIFunctionCell*)TVMFFIObjectGetBody_(obj);
}
static inline TVMFFIOpaqueObjectCell* TVMFFIOpaqueObjectGetCellPtr(TVMFFIObjectHandle obj) {
  return (TVMFFIOpaqueObjectCell*)TVMFFIObjectGetBody_(obj);
}
static inline TVMFFIShapeCell* TVMFFIShapeGetCellPtr(TVMFFIObjectHandle obj) {
  return (TVMFFIShapeCell*)TVMFFIObjectGetBody_(obj);
}
static inline TVMFFISeqCell* TVMFFISeqGetCellPtr(TVMFFIObjectHandle obj) {
  return (TVMFFISeqCell*)TVMFFIObjectGetBody_(obj);
}
static inline DLTensor* TVMFFITensorGetDLTensorPtr(TVMFFIObjectHandle obj) {
  return (DLTensor*)TVMFFIObjectGetBody_(obj);
}
static inline DLDevice TVMFFIDLDeviceFromIntPair(int32_t device_type, int32_t device_id) {
  DLDevice device;
  device.device_type = (DLDeviceType)device_type;
  device.device_id = device_id;
  return device;
}

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* TVM_FFI_C_API_H_ */
