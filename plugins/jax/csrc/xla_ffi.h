// SPDX-License-Identifier: Apache-2.0
// The C structs by which XLA calls its FFI handlers, declared here so that one binary serves every
// version of the API from 0.1 on, whichever jaxlib it was built beside.
// tests/jax_plugin/test_xla_layout.py compares them with jaxlib's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace graphffi_jax::xla {

struct Api;
struct Context;  // opaque: of one execution
struct Status;   // opaque: an error that XLA made

enum ExtensionType : int32_t { kMetadataExtension = 1 };
enum Stage : int32_t { kInstantiate = 0, kPrepare = 1, kInitialize = 2, kExecute = 3 };
enum BufferTag : int32_t { kBuffer = 1 };  // the only type of an argument or result
enum AttributeTag : int32_t { kArray = 1, kDictionary = 2, kScalar = 3, kString = 4 };
enum Traits : uint32_t { kCommandBufferCompatible = 1u << 0 };

enum StatusCode : int32_t {
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kNotFound = 5,
  kFailedPrecondition = 9,
  kUnimplemented = 12,
  kInternal = 13,
};

enum DataType : int32_t {
  kInvalid = 0,
  kPred = 1,
  kS8 = 2,
  kS16 = 3,
  kS32 = 4,
  kS64 = 5,
  kU8 = 6,
  kU16 = 7,
  kU32 = 8,
  kU64 = 9,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kC64 = 15,
  kBF16 = 16,
  kToken = 17,
  kC128 = 18,
  kF8E5M2 = 19,
  kF8E4M3FN = 20,
  kS4 = 21,
  kU4 = 22,
  kF8E4M3B11FNUZ = 23,
  kF8E5M2FNUZ = 24,
  kF8E4M3FNUZ = 25,
  kS2 = 26,
  kU2 = 27,
  kF8E4M3 = 28,
  kF8E3M4 = 29,
  kS1 = 30,
  kU1 = 31,
  kF4E2M1FN = 32,
  kF8E8M0FNU = 33,
};

/// How every struct begins. `struct_size` is what its maker knows of it.
struct Extension {
  size_t struct_size;
  ExtensionType type;
  Extension* next;
};
struct Header {
  size_t struct_size;
  Extension* extension;
};

struct ApiVersion : Header {
  int32_t major, minor;
};
struct ByteSpan {
  const char* data;
  size_t size;
};
struct TypeId {
  int64_t value;  ///< 0: not assigned yet
};

struct Buffer : Header {
  DataType dtype;
  void* data;
  int64_t rank;
  int64_t* dims;
};
struct Scalar {
  DataType dtype;
  void* value;
};
struct Array {
  DataType dtype;
  size_t size;
  void* data;
};

/// Arguments and results of a call, alike.
struct Buffers : Header {
  int64_t size;
  BufferTag* tags;
  void** buffers;  // Buffer*
};
/// Sorted by name.
struct Attributes : Header {
  int64_t size;
  AttributeTag* tags;
  ByteSpan** names;
  void** values;  // Scalar*, Array*, ByteSpan*
};

/// XLA_FFI_CallFrame: one call of a handler.
struct Call : Header {
  const Api* api;  ///< NULL in the metadata call of API 0.1
  Context* context;
  Stage stage;
  Buffers args;
  Buffers rets;
  Attributes attributes;
};
using Handler = Status*(Call*);

struct Metadata {
  size_t struct_size;
  ApiVersion version;
  uint32_t traits;
  TypeId state_type_id;  ///< since 0.2
};
struct MetadataExtension : Extension {
  Metadata* metadata;
};

struct StatusCreateArgs : Header {
  const char* message;
  StatusCode code;
};
struct StatusMessageArgs : Header {
  Status* status;
  const char* message;  // out
  StatusCode code;      // out, from 0.4 on
};
struct StatusDestroyArgs : Header {
  Status* status;
};
struct TypeInfo : Header {
  void (*deleter)(void*);
};
struct TypeRegisterArgs : Header {
  ByteSpan name;
  TypeId* type_id;            // in and out
  const TypeInfo* type_info;  ///< since 0.2
};

/// The state of a handler: three layouts, of which the first and the third have the same size.
struct StateSetArgs01 : Header {
  Context* context;
  TypeId* type_id;
  void* state;
  void (*deleter)(void*);
};
struct StateArgs02 : Header {  // also of State_Get in 0.1
  Context* context;
  TypeId* type_id;
  void* state;
};
struct StateArgs03 : Header {
  Context* context;
  Stage stage;
  TypeId* type_id;
  void* state;
};

struct StreamGetArgs : Header {
  Context* context;
  void* stream;  // out
};
struct DeviceOrdinalArgs : Header {
  Context* context;
  int32_t ordinal;  // out
};
struct MemoryAllocateArgs : Header {
  Context* context;
  size_t size, alignment;
  void* data;  // out
};
struct MemoryFreeArgs : Header {
  Context* context;
  size_t size;
  void* data;
};

/// XLA's functions. Later versions append members: compare with `struct_size` before reading the
/// last ones.
struct Api : Header {
  ApiVersion version;
  const void* internal;
  Status* (*status_create)(StatusCreateArgs*);
  void (*status_message)(StatusMessageArgs*);
  void (*status_destroy)(StatusDestroyArgs*);
  void* handler_register;
  Status* (*stream_get)(StreamGetArgs*);
  Status* (*type_register)(TypeRegisterArgs*);
  void* context_get;
  Status* (*state_set)(void*);
  Status* (*state_get)(void*);
  Status* (*memory_allocate)(MemoryAllocateArgs*);
  Status* (*memory_free)(MemoryFreeArgs*);
  void* thread_pool_schedule;
  void* thread_pool_num_threads;
  void* future_create;
  void* future_set_available;
  void* future_set_error;
  void* run_id_get;
  Status* (*device_ordinal_get)(DeviceOrdinalArgs*);
};

}  // namespace graphffi_jax::xla
