// SPDX-License-Identifier: Apache-2.0
// Tensors, DLPack, data types, and the environment that kernels ask for.
#include "abi.h"

/// A producer's tensor that counts how often it is given back.
template <typename Managed>
struct Producer {
  Producer(std::vector<int64_t> shape, std::vector<int64_t> strides = {})
      : shape(std::move(shape)), strides(std::move(strides)) {
    DLTensor& tensor = managed.dl_tensor;
    tensor.data = data;
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int32_t>(this->shape.size());
    tensor.dtype = {kDLFloat, 32, 1};
    tensor.shape = this->shape.data();
    tensor.strides = this->strides.empty() ? nullptr : this->strides.data();
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Producer*>(self->manager_ctx)->deleted; };
  }

  alignas(64) float data[64] = {};
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  Managed managed = {};
  int deleted = 0;
};
using OldProducer = Producer<DLManagedTensor>;
using NewProducer = Producer<DLManagedTensorVersioned>;

static Value FromDLPack(OldProducer* producer) {
  TVMFFIObjectHandle tensor = nullptr;
  CHECK_EQ(TVMFFITensorFromDLPack(&producer->managed, 0, 0, &tensor), 0);
  return Value::Steal(tensor);
}
static Value FromDLPack(NewProducer* producer) {
  TVMFFIObjectHandle tensor = nullptr;
  CHECK_EQ(TVMFFITensorFromDLPackVersioned(&producer->managed, 0, 0, &tensor), 0);
  return Value::Steal(tensor);
}

template <typename AnyProducer>
static void CheckTakenOverOnce() {
  AnyProducer producer({2, 3});
  Value tensor = FromDLPack(&producer);
  DLTensor* view = TVMFFITensorGetDLTensorPtr(tensor.object());
  CHECK_EQ(tensor.type_index(), int32_t{kTVMFFITensor});
  CHECK_EQ(view->data, static_cast<void*>(producer.data));
  CHECK_EQ(view->shape, producer.shape.data());
  CHECK_EQ(view->strides[0], int64_t{3});
  CHECK_EQ(view->strides[1], int64_t{1});
  CHECK_EQ(producer.deleted, 0);
  tensor = Value();
  CHECK_EQ(producer.deleted, 1);
}

TEST(dlpack_tensor_is_taken_over_once) { CheckTakenOverOnce<OldProducer>(); }
TEST(versioned_dlpack_tensor_is_taken_over_once) { CheckTakenOverOnce<NewProducer>(); }

TEST(strides_of_the_producer_are_kept) {
  OldProducer producer({2, 3}, {1, 2});
  Value tensor = FromDLPack(&producer);
  CHECK_EQ(TVMFFITensorGetDLTensorPtr(tensor.object())->strides, producer.strides.data());
}

TEST(scalar_tensor_needs_no_strides) {
  OldProducer producer({});
  Value tensor = FromDLPack(&producer);
  CHECK_EQ(TVMFFITensorGetDLTensorPtr(tensor.object())->ndim, 0);
}

TEST(tensor_of_17_dimensions_is_taken) {
  OldProducer producer(std::vector<int64_t>(17, 1));
  Value tensor = FromDLPack(&producer);
  CHECK_EQ(TVMFFITensorGetDLTensorPtr(tensor.object())->strides[0], int64_t{1});
}

TEST(negative_ranks_are_refused) {
  if (!IsBundled()) return;
  for (int ndim : {-1, -1000}) {
    for (int contiguous : {0, 1}) {
      OldProducer producer({2, 3}, {3, 1});
      producer.managed.dl_tensor.ndim = ndim;
      TVMFFIObjectHandle tensor = nullptr;
      CheckRaised(TVMFFITensorFromDLPack(&producer.managed, 0, contiguous, &tensor), "ValueError",
                  "tensor: expected a rank of 0 or more, got " + std::to_string(ndim));
      CHECK_EQ(producer.deleted, 0);
    }
  }
  OldProducer producer({2, 3}, {3, 1});
  Value source = FromDLPack(&producer);
  DLTensor prototype = producer.managed.dl_tensor;
  prototype.ndim = -1;
  TVMFFIObjectHandle view = nullptr;
  CheckRaised(TVMFFITensorCreateUnsafeView(source.object(), &prototype, &view), "ValueError",
              "expected a rank of 0 or more, got -1");
}

TEST(refused_tensor_stays_with_its_producer) {
  OldProducer transposed({2, 3}, {1, 2});
  TVMFFIObjectHandle tensor = nullptr;
  CheckRaised(TVMFFITensorFromDLPack(&transposed.managed, 0, 1, &tensor), "RuntimeError",
              "expected a contiguous one");
  OldProducer shifted({2});
  shifted.managed.dl_tensor.byte_offset = 4;
  CheckRaised(TVMFFITensorFromDLPack(&shifted.managed, 64, 0, &tensor), "RuntimeError",
              "aligned to 64 bytes");
  NewProducer padded({2});
  padded.managed.flags = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
  CheckRaised(TVMFFITensorFromDLPackVersioned(&padded.managed, 0, 0, &tensor), "RuntimeError",
              "padded");
  CHECK_EQ(transposed.deleted + shifted.deleted + padded.deleted, 0);
}

TEST(alignment_counts_the_byte_offset) {
  OldProducer producer({2});
  producer.managed.dl_tensor.data = producer.data + 15;
  producer.managed.dl_tensor.byte_offset = 4;
  TVMFFIObjectHandle tensor = nullptr;
  CHECK_EQ(TVMFFITensorFromDLPack(&producer.managed, 64, 1, &tensor), 0);
  TVMFFIObjectDecRef(tensor);
}

TEST(extent_1_and_empty_tensors_are_contiguous_with_any_strides) {
  OldProducer one({1, 3}, {77, 1});
  OldProducer empty({0, 3}, {77, 5});
  TVMFFIObjectHandle tensors[2] = {};
  CHECK_EQ(TVMFFITensorFromDLPack(&one.managed, 0, 1, &tensors[0]), 0);
  CHECK_EQ(TVMFFITensorFromDLPack(&empty.managed, 0, 1, &tensors[1]), 0);
  for (TVMFFIObjectHandle tensor : tensors) TVMFFIObjectDecRef(tensor);
}

TEST(producer_without_deleter_is_accepted) {
  OldProducer producer({2});
  producer.managed.deleter = nullptr;
  Value tensor = FromDLPack(&producer);
}

TEST(version_and_other_flags_are_not_checked) {
  NewProducer producer({2});
  producer.managed.version = {9, 9};
  producer.managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  Value tensor = FromDLPack(&producer);
}

TEST(exported_tensor_keeps_the_object) {
  NewProducer producer({2, 3});
  Value tensor = FromDLPack(&producer);
  DLManagedTensor* old_form = nullptr;
  DLManagedTensorVersioned* new_form = nullptr;
  CHECK_EQ(TVMFFITensorToDLPack(tensor.object(), &old_form), 0);
  CHECK_EQ(TVMFFITensorToDLPackVersioned(tensor.object(), &new_form), 0);
  CHECK_EQ(Count(tensor.object()), 3 + kOneWeak);
  CHECK_EQ(old_form->manager_ctx, tensor.object());
  CHECK_EQ(new_form->version.major, uint32_t{1});
  CHECK_EQ(new_form->flags, uint64_t{0});
  CHECK_EQ(new_form->dl_tensor.strides[0], int64_t{3});
  tensor = Value();
  old_form->deleter(old_form);
  CHECK_EQ(producer.deleted, 0);
  new_form->deleter(new_form);
  CHECK_EQ(producer.deleted, 1);
}

TEST(view_keeps_its_source_and_copies_its_shape) {
  OldProducer producer({2, 3});
  Value tensor = FromDLPack(&producer);
  int64_t shape[] = {3};
  int64_t strides[] = {2};
  DLTensor prototype = *TVMFFITensorGetDLTensorPtr(tensor.object());
  prototype.ndim = 1;
  prototype.shape = shape;
  prototype.strides = strides;
  prototype.byte_offset = 8;
  TVMFFIObjectHandle handle = nullptr;
  CHECK_EQ(TVMFFITensorCreateUnsafeView(tensor.object(), &prototype, &handle), 0);
  Value view = Value::Steal(handle);
  shape[0] = strides[0] = 99;
  tensor = Value();
  CHECK_EQ(producer.deleted, 0);
  DLTensor* seen = TVMFFITensorGetDLTensorPtr(handle);
  CHECK_EQ(seen->shape[0], int64_t{3});
  CHECK_EQ(seen->strides[0], int64_t{2});
  CHECK_EQ(seen->byte_offset, uint64_t{8});
  view = Value();
  CHECK_EQ(producer.deleted, 1);
}

TEST(view_without_strides_is_refused) {
  OldProducer producer({2});
  Value tensor = FromDLPack(&producer);
  TVMFFIObjectHandle view = nullptr;
  int code = TVMFFITensorCreateUnsafeView(tensor.object(), &producer.managed.dl_tensor, &view);
  // A user's mistake: apache's calls it an InternalError.
  CheckRaised(code, IsBundled() ? "ValueError" : "InternalError", "expected strides, got NULL");
  CHECK_EQ(Count(tensor.object()), 1 + kOneWeak);
}

static int Allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
                    void (*set_error)(void*, const char*, const char*)) {
  CHECK(error_context == nullptr);
  if (prototype->ndim == 9) {
    set_error(error_context, "MemoryError", "too many");
    return -5;
  }
  auto* producer =
      new NewProducer(std::vector<int64_t>(prototype->shape, prototype->shape + prototype->ndim));
  producer->managed.dl_tensor.dtype = prototype->dtype;
  producer->managed.deleter = [](DLManagedTensorVersioned* self) {
    delete static_cast<NewProducer*>(self->manager_ctx);
  };
  *out = &producer->managed;
  return 0;
}

TEST(tensor_comes_from_the_allocator) {
  DLPackManagedTensorAllocator previous = Allocate;
  CHECK_EQ(TVMFFIEnvSetDLPackManagedTensorAllocator(Allocate, 0, &previous), 0);
  CHECK(previous == nullptr);
  CHECK(TVMFFIEnvGetDLPackManagedTensorAllocator() == Allocate);
  int64_t shape[] = {4, 5};
  DLTensor prototype = {nullptr, {kDLCPU, 0}, 2, {kDLFloat, 16, 1}, shape, nullptr, 0};
  TVMFFIObjectHandle tensor = nullptr;
  CHECK_EQ(TVMFFIEnvTensorAlloc(&prototype, &tensor), 0);
  Value owner = Value::Steal(tensor);
  CHECK_EQ(TVMFFITensorGetDLTensorPtr(tensor)->strides[0], int64_t{5});
  CHECK_EQ(int{TVMFFITensorGetDLTensorPtr(tensor)->dtype.bits}, 16);
}

TEST(allocator_is_the_threads_and_then_the_process) {
  TVMFFIEnvSetDLPackManagedTensorAllocator(Allocate, 1, nullptr);
  auto other = [](DLTensor*, DLManagedTensorVersioned**, void*,
                  void (*)(void*, const char*, const char*)) { return -1; };
  DLPackManagedTensorAllocator previous = nullptr;
  TVMFFIEnvSetDLPackManagedTensorAllocator(other, 0, &previous);
  CHECK(previous == Allocate);
  CHECK(TVMFFIEnvGetDLPackManagedTensorAllocator() == other);
  TVMFFIEnvSetDLPackManagedTensorAllocator(nullptr, 0, nullptr);
  CHECK(TVMFFIEnvGetDLPackManagedTensorAllocator() == Allocate);
}

TEST(failures_of_the_allocator_pass_through) {
  DLTensor prototype = {};
  prototype.ndim = 9;
  TVMFFIObjectHandle tensor = nullptr;
  CheckRaised(TVMFFIEnvTensorAlloc(&prototype, &tensor), "RuntimeError", "no tensor allocator");
  TVMFFIEnvSetDLPackManagedTensorAllocator(Allocate, 0, nullptr);
  CHECK_EQ(TVMFFIEnvTensorAlloc(&prototype, &tensor), -5);
  CHECK_EQ(Raised(), std::string("MemoryError: too many"));
}

TEST(stream_is_kept_per_device) {
  CHECK(TVMFFIEnvGetStream(kDLCUDA, 0) == nullptr);
  int streams[40];
  for (int i = 0; i < 40; ++i) {
    TVMFFIStreamHandle previous = streams;
    CHECK_EQ(TVMFFIEnvSetStream(i % 2 ? kDLCUDA : kDLROCM, i, &streams[i], &previous), 0);
    CHECK(previous == nullptr);
  }
  for (int i = 0; i < 40; ++i) {
    CHECK_EQ(TVMFFIEnvGetStream(i % 2 ? kDLCUDA : kDLROCM, i), static_cast<void*>(&streams[i]));
    CHECK(TVMFFIEnvGetStream(i % 2 ? kDLROCM : kDLCUDA, i) == nullptr);
  }
  TVMFFIStreamHandle previous = nullptr;
  CHECK_EQ(TVMFFIEnvSetStream(kDLCUDA, 39, nullptr, &previous), 0);
  CHECK_EQ(previous, static_cast<void*>(&streams[39]));
  CHECK(TVMFFIEnvGetStream(kDLCUDA, 39) == nullptr);
}

static int released_gil = 0;
TEST(signals_are_checked_by_the_host_language) {
  CHECK_EQ(TVMFFIEnvCheckSignals(), 0);
  int (*ensure)() = [] { return 5; };
  void (*release)(int) = [](int state) { released_gil += state; };
  int (*check)() = [] { return -1; };
  CHECK_EQ(TVMFFIEnvRegisterCAPI("PyGILState_Ensure", reinterpret_cast<void*>(ensure)), 0);
  CHECK_EQ(TVMFFIEnvRegisterCAPI("PyGILState_Release", reinterpret_cast<void*>(release)), 0);
  CHECK_EQ(TVMFFIEnvRegisterCAPI("PyErr_CheckSignals", reinterpret_cast<void*>(check)), 0);
  CHECK_EQ(TVMFFIEnvCheckSignals(), -1);
  CHECK_EQ(released_gil, 5);
  CHECK_EQ(Raised(), std::string());
  CheckRaised(TVMFFIEnvRegisterCAPI("PyEval_Something", nullptr), "ValueError",
              "got 'PyEval_Something'");
}

static std::string ReadType(std::string_view text) {
  TVMFFIByteArray bytes = Bytes(text);
  DLDataType dtype = {};
  if (TVMFFIDataTypeFromString(&bytes, &dtype) != 0) return RaisedKind();
  return std::to_string(dtype.code) + "," + std::to_string(dtype.bits) + "," +
         std::to_string(dtype.lanes);
}

static std::string WriteType(DLDataType dtype) {
  Value text;
  if (TVMFFIDataTypeToString(&dtype, &text.value) != 0) return RaisedKind();
  return text.text();
}

TEST(data_types_are_read) {
  std::pair<const char*, const char*> cases[] = {
      {"int", "0,32,1"},
      {"int8", "0,8,1"},
      {"uint1", "1,1,1"},
      {"float", "2,32,1"},
      {"float64x4", "2,64,4"},
      {"bfloat", "4,16,1"},
      {"bfloat16", "4,16,1"},
      {"bool", "6,8,1"},
      {"bool1", "6,1,1"},
      {"boolx4", "6,8,4"},
      {"handle", "3,64,1"},
      {"handle32", "3,32,1"},
      {"", "3,0,0"},
      {"void", "3,0,0"},
      {"float8", "2,8,1"},
      {"float8_e3m4", "7,8,1"},
      {"float8_e4m3", "8,8,1"},
      {"float8_e4m3b11fnuz", "9,8,1"},
      {"float8_e4m3fn", "10,8,1"},
      {"float8_e4m3fnuz", "11,8,1"},
      {"float8_e5m2", "12,8,1"},
      {"float8_e5m2fnuz", "13,8,1"},
      {"float8_e8m0fnu", "14,8,1"},
      {"float6_e2m3fn", "15,6,1"},
      {"float6_e3m2fn", "16,6,1"},
      {"float4_e2m1fn", "17,4,1"},
      {"float4_e2m1fn_x2", "17,4,2"},
      {"float4_e2m1fnx2", "17,4,2"},
      {"float8_e4m3fnx4", "10,8,4"},
      {"i32", "0,32,1"},
      {"u8", "1,8,1"},
      {"f16", "2,16,1"},
      {"bf16x2", "4,16,2"},
      {"fp8_e4m3fn", "10,8,1"},
      {"f8_e5m2", "12,8,1"},
      {"f4_e2m1fn_x2", "17,4,2"},
      {"int32x65535", "0,32,65535"},
      {"float32xvscalex4", "2,32,65532"},
      {"int255", "0,255,1"},
      {"int0", "0,32,1"},
  };
  for (auto [text, expected] : cases) CHECK_EQ(ReadType(text), std::string(expected));
}

TEST(other_texts_are_no_data_types) {
  for (const char* text : {"i",
                           "f",
                           "bf",
                           "fp16",
                           "half",
                           "double",
                           "complex64",
                           "Int32",
                           " int32",
                           "int32 ",
                           "int-1",
                           "int256",
                           "int99999999999999999999",
                           "int32x",
                           "int32x0",
                           "int32x65536",
                           "int32x4x4",
                           "int32x-1",
                           "float32xvscalex",
                           "float8_e4m3fn8",
                           "float32_foo",
                           "void32",
                           "float4_e2m1fn_x2x2",
                           "custom",
                           "custom[",
                           "custom[foo",
                           "custom[]",
                           "custom[foo]8",
                           "int32vscale"}) {
    CHECK_EQ(ReadType(text) + text, std::string("ValueError") + text);
  }
}

TEST(more_scalable_lanes_than_fit_are_refused) {
  // apache's wraps around.
  if (IsBundled()) CHECK_EQ(ReadType("float32xvscalex40000"), std::string("ValueError"));
}

TEST(data_types_are_written) {
  std::pair<DLDataType, const char*> cases[] = {
      {{kDLInt, 32, 1}, "int32"},
      {{kDLInt, 32, 4}, "int32x4"},
      {{kDLFloat, 32, 0}, "float32"},
      {{kDLBfloat, 16, 1}, "bfloat16"},
      {{kDLBool, 8, 1}, "bool"},
      {{kDLBool, 8, 4}, "boolx4"},
      {{kDLBool, 1, 1}, "bool1"},
      {{kDLBool, 16, 2}, "bool16x2"},
      {{kDLUInt, 1, 1}, "uint1"},
      {{kDLOpaqueHandle, 0, 0}, ""},
      {{kDLOpaqueHandle, 64, 1}, "handle"},
      {{kDLOpaqueHandle, 64, 4}, "handle"},
      {{kDLFloat8_e4m3fn, 8, 1}, "float8_e4m3fn"},
      {{kDLFloat8_e4m3, 8, 2}, "float8_e4m3x2"},
      {{kDLFloat4_e2m1fn, 4, 2}, "float4_e2m1fnx2"},
      {{kDLFloat, 32, 0xFFFC}, "float32xvscalex4"},
      {{kDLComplex, 64, 1}, "ValueError"},
      {{100, 8, 1}, "ValueError"},
      {{200, 8, 1}, "ValueError"},
  };
  for (auto [dtype, expected] : cases) CHECK_EQ(WriteType(dtype), std::string(expected));
}

TEST(custom_data_types_are_known_by_global_functions) {
  Callback get_code;
  Callback get_name;
  Value code = get_code.Make([](void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
    *result = Int(150);
    return 0;
  });
  Value name = get_name.Make([](void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
    *result = Str("posit").value;
    return 0;
  });
  TVMFFIByteArray code_name = Bytes("dtype.get_custom_type_code");
  TVMFFIByteArray name_name = Bytes("dtype.get_custom_type_name");
  CHECK_EQ(TVMFFIFunctionSetGlobal(&code_name, code.object(), 0), 0);
  CHECK_EQ(TVMFFIFunctionSetGlobal(&name_name, name.object(), 0), 0);
  CHECK_EQ(ReadType("custom[posit]16x2"), std::string("150,16,2"));
  // apache's leaves the bits out, so that what it writes reads back as another type.
  CHECK_EQ(WriteType({150, 16, 2}),
           std::string(IsBundled() ? "custom[posit]16x2" : "custom[posit]x2"));
}

TEST(custom_codes_beyond_8_bits_are_refused) {
  if (!IsBundled()) return;
  static int64_t given = 0;
  Callback get_code;
  Value code = get_code.Make([](void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
    *result = Int(given);
    return 0;
  });
  TVMFFIByteArray name = Bytes("dtype.get_custom_type_code");
  CHECK_EQ(TVMFFIFunctionSetGlobal(&name, code.object(), 0), 0);
  for (int64_t number : {int64_t{-1}, int64_t{256}, int64_t{1} << 40}) {
    given = number;
    TVMFFIByteArray text = Bytes("custom[posit]16");
    DLDataType dtype;
    CheckRaised(TVMFFIDataTypeFromString(&text, &dtype), "ValueError", "a code beyond 8 bits");
  }
}
