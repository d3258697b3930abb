// SPDX-License-Identifier: Apache-2.0
// Objects, owned values, strings, bytes, big integers.
#include "abi.h"

TEST(version_is_that_of_the_headers_or_newer) {
  TVMFFIVersion version = {};
  TVMFFIGetVersion(&version);
  CHECK_EQ(version.major, 0u);
  CHECK_EQ(version.minor, 1u);
  if (IsBundled()) CHECK_EQ(version.patch, uint32_t{TVM_FFI_VERSION_PATCH});
}

TEST(new_object_has_one_strong_and_one_weak_reference) {
  Opaque opaque;
  Value object = opaque.Make();
  CHECK_EQ(Count(object.object()), 1 + kOneWeak);
  TVMFFIObjectIncRef(object.object());
  CHECK_EQ(Count(object.object()), 2 + kOneWeak);
  TVMFFIObjectDecRef(object.object());
  CHECK_EQ(opaque.deleted, 0);
  object = Value();
  CHECK_EQ(opaque.deleted, 1);
}

TEST(weak_reference_keeps_memory_but_not_content) {
  Opaque opaque;
  Value owner = opaque.Make();
  auto* object = static_cast<TVMFFIObject*>(owner.object());
  object->combined_ref_count += kOneWeak;
  owner = Value();
  CHECK_EQ(opaque.deleted, 1);
  CHECK_EQ(object->combined_ref_count, kOneWeak);
  object->deleter(object, kTVMFFIObjectDeleterFlagBitMaskWeak);
}

TEST(static_object_without_deleter_may_lose_its_last_reference) {
  TVMFFIObject object = {1 + kOneWeak, kTVMFFIObject, 0, {nullptr}};
  CHECK_EQ(TVMFFIObjectIncRef(&object), 0);
  CHECK_EQ(TVMFFIObjectDecRef(&object), 0);
  CHECK_EQ(TVMFFIObjectDecRef(&object), 0);
}

TEST(opaque_object_holds_the_handle) {
  Opaque opaque;
  Value object = opaque.Make();
  CHECK_EQ(object.type_index(), int32_t{kTVMFFIOpaquePyObject});
  CHECK_EQ(TVMFFIOpaqueObjectGetCellPtr(object.object())->handle, static_cast<void*>(&opaque));
}

TEST(opaque_object_of_another_type_is_refused) {
  Opaque opaque;
  TVMFFIObjectHandle object = nullptr;
  int code = TVMFFIObjectCreateOpaque(&opaque, kTVMFFITensor, Opaque::Delete, &object);
  CheckRaised(code, "RuntimeError", "expected type index 74, got 70");
  CHECK_EQ(opaque.deleted, 0);
}

TEST(owning_a_view_of_an_object_adds_a_reference) {
  Opaque opaque;
  Value object = opaque.Make();
  Value owned = Value::FromView(object.value);
  CHECK_EQ(owned.object(), object.object());
  CHECK_EQ(Count(object.object()), 2 + kOneWeak);
}

TEST(owning_a_raw_string_copies_it) {
  for (size_t size : {0, 1, 7, 8, 4096}) {
    std::string text(size, 'x');
    Value owned = Value::FromView(RawStr(text.c_str()));
    std::string copy = text;
    text.assign(size, 'y');
    CHECK_EQ(owned.text(), copy);
    CHECK_EQ(owned.type_index(), size <= 7 ? int32_t{kTVMFFISmallStr} : int32_t{kTVMFFIStr});
  }
}

TEST(owning_a_byte_array_copies_it) {
  for (size_t size : {0, 7, 8, 4096}) {
    std::string text(size, '\0');
    TVMFFIByteArray bytes = Bytes(text);
    Value owned = Value::FromView(Pointer(kTVMFFIByteArrayPtr, &bytes));
    CHECK_EQ(owned.text(), text);
    CHECK_EQ(owned.type_index(), size <= 7 ? int32_t{kTVMFFISmallBytes} : int32_t{kTVMFFIBytes});
  }
}

TEST(owning_an_rvalue_reference_moves_and_empties_its_slot) {
  Opaque opaque;
  Value object = opaque.Make();
  void* slot = object.value.v_obj;
  TVMFFIObjectIncRef(slot);
  Value owned = Value::FromView(Pointer(kTVMFFIObjectRValueRef, &slot));
  CHECK(slot == nullptr);
  CHECK_EQ(owned.object(), object.object());
  CHECK_EQ(owned.type_index(), int32_t{kTVMFFIOpaquePyObject});
  CHECK_EQ(Count(object.object()), 2 + kOneWeak);
}

TEST(owning_other_values_copies_their_bits) {
  DLTensor tensor = {};
  TVMFFIAny device = {kTVMFFIDevice, {0}, {0}};
  device.v_device = {kDLCUDA, 3};
  TVMFFIAny dtype = {kTVMFFIDataType, {0}, {0}};
  dtype.v_dtype = {kDLFloat, 32, 1};
  for (TVMFFIAny view :
       {None(), Int(-5), Bool(true), Float(0.5), Pointer(kTVMFFIOpaquePtr, &tensor),
        Pointer(kTVMFFIDLTensorPtr, &tensor), device, dtype}) {
    Value owned = Value::FromView(view);
    CHECK(std::memcmp(&owned.value, &view, sizeof(view)) == 0);
  }
}

TEST(string_of_up_to_7_bytes_is_small_with_zero_tail) {
  for (size_t size = 0; size <= 7; ++size) {
    TVMFFIByteArray bytes = Bytes("abcdefg");
    bytes.size = size;
    Value value;
    std::memset(&value.value, 0xFF, sizeof(value.value));
    CHECK_EQ(TVMFFIStringFromByteArray(&bytes, &value.value), 0);
    CHECK_EQ(value.type_index(), int32_t{kTVMFFISmallStr});
    CHECK_EQ(value.value.small_str_len, uint32_t(size));
    for (size_t i = size; i < 8; ++i) CHECK_EQ(value.value.v_bytes[i], '\0');
  }
}

TEST(longer_string_is_an_object_with_a_terminator) {
  for (size_t size : {8, 9, 4096}) {
    std::string text(size, 'q');
    Value value = Str(text);
    CHECK_EQ(value.type_index(), int32_t{kTVMFFIStr});
    TVMFFIByteArray* content = TVMFFIBytesGetByteArrayPtr(value.object());
    CHECK_EQ(Text(*content), text);
    CHECK_EQ(content->data[size], '\0');
    CHECK_EQ(content->data, static_cast<const char*>(value.object()) + 40);
  }
}

TEST(string_of_null_data_is_empty) {
  TVMFFIByteArray bytes = {nullptr, 0};
  Value string;
  CHECK_EQ(TVMFFIStringFromByteArray(&bytes, &string.value), 0);
  CHECK_EQ(string.text(), std::string());
}

TEST(bytes_may_hold_zeros) {
  std::string content("a\0b\0c\0d\0e", 9);
  TVMFFIByteArray bytes = Bytes(content);
  Value value;
  CHECK_EQ(TVMFFIBytesFromByteArray(&bytes, &value.value), 0);
  CHECK_EQ(value.type_index(), int32_t{kTVMFFIBytes});
  CHECK_EQ(value.text(), content);
}

static Value BigInt(std::vector<uint64_t> words) {
  TVMFFIByteArray bytes = {reinterpret_cast<const char*>(words.data()), words.size() * 8};
  Value value;
  CHECK_EQ(TVMFFIBigIntFromByteArray(&bytes, &value.value), 0);
  return value;
}

TEST(big_integer_that_fits_comes_back_as_int) {
  constexpr uint64_t kOnes = ~uint64_t{0};
  constexpr uint64_t kTop = uint64_t{1} << 63;
  CHECK_EQ(BigInt({}).value.v_int64, int64_t{0});
  CHECK_EQ(BigInt({5}).value.v_int64, int64_t{5});
  CHECK_EQ(BigInt({5, 0, 0}).value.v_int64, int64_t{5});
  CHECK_EQ(BigInt({kOnes, kOnes}).value.v_int64, int64_t{-1});
  CHECK_EQ(BigInt({kTop, kOnes}).value.v_int64, INT64_MIN);
  CHECK_EQ(BigInt({kTop, kOnes}).type_index(), int32_t{kTVMFFIInt});
}

TEST(big_integer_keeps_the_fewest_words) {
  constexpr uint64_t kTop = uint64_t{1} << 63;
  for (std::vector<uint64_t> words :
       {std::vector<uint64_t>{0, 1}, {kTop, 0}, {1, kTop}, {0, 0, 7}}) {
    std::vector<uint64_t> longer = words;
    longer.push_back(int64_t(words.back()) < 0 ? ~uint64_t{0} : 0);
    Value value = BigInt(longer);
    CHECK_EQ(value.type_index(), int32_t{kTVMFFIBigInt});
    TVMFFIByteArray content = TVMFFIBigIntGetContentByteArray(&value.value);
    CHECK_EQ(content.size, words.size() * 8);
    CHECK(std::memcmp(content.data, words.data(), content.size) == 0);
    CHECK_EQ(content.data, static_cast<const char*>(value.object()) + 32);
  }
}

TEST(big_integer_of_partial_words_is_refused) {
  TVMFFIByteArray bytes = Bytes("123456789");
  Value value;
  CheckRaised(TVMFFIBigIntFromByteArray(&bytes, &value.value), "ValueError", "whole 64-bit words");
}

// Memory that apache's allocator keeps for later is no leak.
static void* last_freed[4];

TEST(allocator_is_never_null_and_frees_what_it_gives) {
  void** freed = last_freed;
  TVMFFICustomAllocator* allocator = TVMFFIGetCustomAllocator();
  CHECK(allocator != nullptr);
  for (size_t alignment : {8, 16, 64, 256}) {
    if (!IsBundled() && alignment > 16) continue;  // apache's aligns to 16 at most.
    void* memory = allocator->allocate(100, alignment, kTVMFFIObject, allocator->context);
    CHECK_EQ(reinterpret_cast<uintptr_t>(memory) % alignment, uintptr_t{0});
    std::memset(memory, 1, 100);
    (static_cast<TVMFFIObjectAllocHeader*>(memory) - 1)->delete_space(memory);
    *freed++ = IsBundled() ? nullptr : memory;
  }
}

TEST(allocator_gives_nothing_beyond_memory) {
  if (!IsBundled()) return;
  TVMFFICustomAllocator* allocator = TVMFFIGetCustomAllocator();
  for (size_t size : {SIZE_MAX, SIZE_MAX - 8, SIZE_MAX - 64}) {
    for (size_t alignment : {8, 16, 64}) {
      CHECK(allocator->allocate(size, alignment, kTVMFFIObject, allocator->context) == nullptr);
    }
  }
}

TEST(allocator_can_be_replaced_and_restored) {
  TVMFFICustomAllocator* original = TVMFFIGetCustomAllocator();
  TVMFFICustomAllocator mine = {nullptr, nullptr};
  CHECK_EQ(TVMFFISetCustomAllocator(&mine), 0);
  CHECK_EQ(TVMFFIGetCustomAllocator(), &mine);
  CHECK_EQ(TVMFFISetCustomAllocator(nullptr), 0);
  CHECK_EQ(TVMFFIGetCustomAllocator(), original);
}
