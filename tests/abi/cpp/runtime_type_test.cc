// SPDX-License-Identifier: Apache-2.0
// The table of types: indices, ancestors, fields, methods, metadata, attributes.
#include "abi.h"

constexpr int32_t kQuery = -2;

static int32_t GetOrAdd(std::string_view key, int32_t parent = kTVMFFIObject, int32_t depth = 1,
                        int32_t child_slots = 0, bool can_overflow = true) {
  TVMFFIByteArray bytes = Bytes(key);
  return TVMFFITypeGetOrAllocIndex(&bytes, -1, depth, child_slots, can_overflow, parent);
}

TEST(static_types_have_their_keys_and_parents) {
  std::pair<int32_t, const char*> types[] = {
      {kTVMFFINone, "None"},
      {kTVMFFIInt, "int"},
      {kTVMFFIBool, "bool"},
      {kTVMFFIFloat, "float"},
      {kTVMFFIOpaquePtr, "void*"},
      {kTVMFFIDataType, "DataType"},
      {kTVMFFIDevice, "Device"},
      {kTVMFFIDLTensorPtr, "DLTensor*"},
      {kTVMFFIRawStr, "const char*"},
      {kTVMFFIByteArrayPtr, "TVMFFIByteArray*"},
      {kTVMFFIObjectRValueRef, "ObjectRValueRef"},
      {kTVMFFISmallStr, "ffi.SmallStr"},
      {kTVMFFISmallBytes, "ffi.SmallBytes"},
      {kTVMFFIObject, "ffi.Object"},
      {kTVMFFIStr, "ffi.String"},
      {kTVMFFIBytes, "ffi.Bytes"},
      {kTVMFFIError, "ffi.Error"},
      {kTVMFFIFunction, "ffi.Function"},
      {kTVMFFIShape, "ffi.Shape"},
      {kTVMFFITensor, "ffi.Tensor"},
      {kTVMFFIArray, "ffi.Array"},
      {kTVMFFIMap, "ffi.Map"},
      {kTVMFFIModule, "ffi.Module"},
      {kTVMFFIOpaquePyObject, "ffi.OpaquePyObject"},
      {kTVMFFIList, "ffi.List"},
      {kTVMFFIDict, "ffi.Dict"},
  };
  for (auto [index, key] : types) {
    const TVMFFITypeInfo* type = TVMFFIGetTypeInfo(index);
    CHECK_EQ(type->type_index, index);
    CHECK_EQ(Text(type->type_key), std::string(key));
    CHECK_EQ(type->type_depth, index > kTVMFFIObject ? 1 : 0);
    if (type->type_depth == 1) CHECK_EQ(type->type_ancestors[0], TVMFFIGetTypeInfo(kTVMFFIObject));
    TVMFFIByteArray bytes = Bytes(key);
    int32_t found = 0;
    CHECK_EQ(TVMFFITypeKeyToIndex(&bytes, &found), 0);
    CHECK_EQ(found, index);
  }
}

TEST(unknown_key_is_an_error_or_an_answer) {
  TVMFFIByteArray key = Bytes("test.Unknown");
  int32_t index = 0;
  CheckRaised(TVMFFITypeKeyToIndex(&key, &index), "InternalError", "type 'test.Unknown'");
  CHECK_EQ(GetOrAdd("test.Unknown", kQuery), kQuery);
}

TEST(known_key_gives_its_index_whatever_else_is_asked) {
  int32_t index = GetOrAdd("test.A");
  CHECK(index >= kTVMFFIDynObjectBegin);
  CHECK_EQ(GetOrAdd("test.A", kQuery), index);
  CHECK_EQ(GetOrAdd("test.A", kTVMFFITensor, 7, 3), index);
}

TEST(static_index_is_claimed) {
  TVMFFIByteArray key = Bytes("test.Static");
  CHECK_EQ(TVMFFITypeGetOrAllocIndex(&key, 120, 1, 0, 1, kTVMFFIObject), 120);
  CHECK_EQ(Text(TVMFFIGetTypeInfo(120)->type_key), std::string("test.Static"));
}

TEST(children_take_reserved_slots_and_then_overflow) {
  int32_t parent = GetOrAdd("test.Parent", kTVMFFIObject, 1, 2);
  int32_t other = GetOrAdd("test.Other");
  CHECK_EQ(other, parent + 3);
  CHECK_EQ(GetOrAdd("test.Child1", parent, 2), parent + 1);
  CHECK_EQ(GetOrAdd("test.Child2", parent, 2), parent + 2);
  int32_t third = GetOrAdd("test.Child3", parent, 2);
  CHECK_EQ(third, other + 1);
  const TVMFFITypeInfo* type = TVMFFIGetTypeInfo(third);
  CHECK_EQ(type->type_depth, 2);
  CHECK_EQ(type->type_ancestors[0], TVMFFIGetTypeInfo(kTVMFFIObject));
  CHECK_EQ(type->type_ancestors[1], TVMFFIGetTypeInfo(parent));
}

TEST(child_with_slots_of_its_own_takes_them_from_the_parents) {
  int32_t parent = GetOrAdd("test.Parent", kTVMFFIObject, 1, 4);
  int32_t child = GetOrAdd("test.Child", parent, 2, 1);
  CHECK_EQ(child, parent + 1);
  CHECK_EQ(GetOrAdd("test.Grandchild", child, 3), parent + 2);
  CHECK_EQ(GetOrAdd("test.Child2", parent, 2), parent + 3);
}

TEST(type_info_stays_where_it_is) {
  const TVMFFITypeInfo* object = TVMFFIGetTypeInfo(kTVMFFIObject);
  const TVMFFITypeInfo* first = TVMFFIGetTypeInfo(GetOrAdd("test.First"));
  for (int i = 0; i < 3000; ++i) GetOrAdd("test.Many" + std::to_string(i));
  CHECK_EQ(TVMFFIGetTypeInfo(kTVMFFIObject), object);
  CHECK_EQ(TVMFFIGetTypeInfo(GetOrAdd("test.First", kQuery)), first);
  CHECK_EQ(Text(TVMFFIGetTypeInfo(first->type_index + 3000)->type_key),
           std::string("test.Many2999"));
}

TEST(registered_type_keys_are_listed) {
  GetOrAdd("test.Listed");
  Value keys = Call("ffi.GetRegisteredTypeKeys", {});
  int found = 0;
  for (int64_t i = 0; i < TVMFFISeqGetCellPtr(keys.object())->size; ++i) {
    std::string key = Call("ffi.ArrayGetItem", {keys.value, Int(i)}).text();
    found += key == "test.Listed" || key == "ffi.Tensor";
  }
  CHECK_EQ(found, 2);
}

static TVMFFIFieldInfo Field(std::string_view name) {
  TVMFFIFieldInfo field = {};
  field.name = Bytes(name);
  field.doc = field.metadata = Bytes("");
  field.size = 8;
  field.alignment = 8;
  field.offset = 24;
  field.default_value_or_factory = None();
  field.field_static_type_index = kTVMFFIInt;
  return field;
}

TEST(fields_are_copied_and_values_retained) {
  int32_t type = GetOrAdd("test.WithFields");
  Opaque opaque;
  Value retained = opaque.Make();
  for (int i = 0; i < 20; ++i) {
    std::string name = "field" + std::to_string(i);
    TVMFFIFieldInfo field = Field(name);
    field.flags = kTVMFFIFieldFlagBitMaskHasDefault;
    field.default_value_or_factory = retained.value;
    CHECK_EQ(TVMFFITypeRegisterField(type, &field), 0);
    name.assign(name.size(), 'z');
  }
  const TVMFFITypeInfo* info = TVMFFIGetTypeInfo(type);
  CHECK_EQ(info->num_fields, 20);
  for (int i = 0; i < 20; ++i) {
    CHECK_EQ(Text(info->fields[i].name), "field" + std::to_string(i));
    CHECK_EQ(info->fields[i].offset, int64_t{24});
  }
  CHECK_EQ(Count(retained.object()), 21 + kOneWeak);
}

TEST(field_is_registered_once) {
  int32_t type = GetOrAdd("test.TwiceField");
  TVMFFIFieldInfo field = Field("x");
  CHECK_EQ(TVMFFITypeRegisterField(type, &field), 0);
  CheckRaised(TVMFFITypeRegisterField(type, &field), IsBundled() ? "RuntimeError" : "InternalError",
              "field 'x' is already");
}

TEST(setter_function_object_is_retained) {
  int32_t type = GetOrAdd("test.Setter");
  Callback callback;
  Value setter = callback.Make(ReturnNothing);
  TVMFFIFieldInfo field = Field("x");
  field.flags = kTVMFFIFieldFlagBitSetterIsFunctionObj;
  field.setter = setter.object();
  CHECK_EQ(TVMFFITypeRegisterField(type, &field), 0);
  CHECK_EQ(Count(setter.object()), 2 + kOneWeak);
}

TEST(methods_may_repeat) {
  int32_t type = GetOrAdd("test.WithMethods");
  Callback callback;
  Value function = callback.Make(ReturnNothing);
  TVMFFIMethodInfo method = {Bytes("m"), Bytes("doc"), Bytes("{}"), 0, function.value};
  for (int i = 0; i < 3; ++i) CHECK_EQ(TVMFFITypeRegisterMethod(type, &method), 0);
  const TVMFFITypeInfo* info = TVMFFIGetTypeInfo(type);
  CHECK_EQ(info->num_methods, 3);
  CHECK_EQ(Text(info->methods[2].doc), std::string("doc"));
  CHECK_EQ(Count(function.object()), 4 + kOneWeak);
}

TEST(metadata_is_registered_once) {
  int32_t type = GetOrAdd("test.WithMetadata");
  TVMFFITypeMetadata metadata = {Bytes("doc"), nullptr, 48, kTVMFFISEqHashKindTreeNode};
  CHECK_EQ(TVMFFITypeRegisterMetadata(type, &metadata), 0);
  CHECK_EQ(TVMFFIGetTypeInfo(type)->metadata->total_size, 48);
  CHECK_EQ(Text(TVMFFIGetTypeInfo(type)->metadata->doc), std::string("doc"));
  CHECK_EQ(TVMFFITypeRegisterMetadata(type, &metadata), -1);
  CHECK_EQ(RaisedKind(), std::string("RuntimeError"));
}

static int RegisterAttr(int32_t type, std::string_view name, TVMFFIAny value) {
  TVMFFIByteArray bytes = Bytes(name);
  return TVMFFITypeRegisterAttr(type, &bytes, &value);
}
static const TVMFFITypeAttrColumn* Column(std::string_view name) {
  TVMFFIByteArray bytes = Bytes(name);
  return TVMFFIGetTypeAttrColumn(&bytes);
}
static TVMFFIAny Attr(const TVMFFITypeAttrColumn* column, int32_t type) {
  int32_t offset = type - column->begin_index;
  return offset < 0 || offset >= column->size ? None() : column->data[offset];
}

TEST(attribute_column_is_made_by_its_first_value) {
  CHECK(Column("__test__") == nullptr);
  int32_t type = GetOrAdd("test.Attributes");
  CHECK_EQ(RegisterAttr(type, "__test__", Int(7)), 0);
  const TVMFFITypeAttrColumn* column = Column("__test__");
  CHECK_EQ(Attr(column, type).v_int64, int64_t{7});
  CHECK_EQ(Attr(column, kTVMFFITensor).type_index, int32_t{kTVMFFINone});
  for (int i = 0; i < 1000; ++i) {
    int32_t other = GetOrAdd("test.Other" + std::to_string(i));
    CHECK_EQ(RegisterAttr(other, "__test__", Int(i)), 0);
    CHECK_EQ(Attr(column, other).v_int64, int64_t{i});
  }
  CHECK_EQ(Column("__test__"), column);
  CHECK_EQ(Attr(column, type).v_int64, int64_t{7});
}

TEST(attribute_of_type_0_only_makes_the_column) {
  CHECK_EQ(RegisterAttr(kTVMFFINone, "__empty__", None()), 0);
  CHECK(Column("__empty__") != nullptr);
  CHECK_EQ(Attr(Column("__empty__"), kTVMFFITensor).type_index, int32_t{kTVMFFINone});
}

TEST(attribute_is_registered_once_and_retained) {
  Opaque opaque;
  Value value = opaque.Make();
  CHECK_EQ(RegisterAttr(kTVMFFITensor, "__once__", value.value), 0);
  CHECK_EQ(Count(value.object()), 2 + kOneWeak);
  CheckRaised(RegisterAttr(kTVMFFITensor, "__once__", Int(1)), "RuntimeError",
              "attribute '__once__' is already registered");
}

TEST(attribute_of_an_unknown_type_is_refused) {
  // apache's accepts any index.
  if (IsBundled()) CheckRaised(RegisterAttr(9999, "__test__", Int(1)), "RuntimeError", "9999");
}

TEST(columns_that_kernels_cache_exist_from_the_start) {
  for (const char* name : {"__any_hash__", "__any_equal__"}) CHECK(Column(name) != nullptr);
}

TEST(asking_for_an_unknown_index_ends_the_process) {
  std::atexit([] { std::_Exit(0); });  // The process ends by exit(): this case then succeeds.
  const TVMFFITypeInfo* type = TVMFFIGetTypeInfo(1 << 20);
  std::_Exit(type == nullptr ? 1 : 2);
}

TEST(a_wrong_parent_ends_the_process) {
  std::atexit([] { std::_Exit(0); });
  GetOrAdd("test.Orphan", 9999, 2);
  std::_Exit(1);
}

/// Checks that the process ends; the case succeeds if it does.
static void CheckEnds(int32_t static_index, int32_t num_child_slots) {
  if (!IsBundled()) return;
  std::atexit([] { std::_Exit(0); });
  TVMFFIByteArray key = Bytes("test.Refused");
  TVMFFITypeGetOrAllocIndex(&key, static_index, 1, num_child_slots, 1, kTVMFFIObject);
  std::_Exit(1);
}

TEST(negative_slots_end_the_process) { CheckEnds(-1, -1); }
TEST(more_slots_than_types_end_the_process) { CheckEnds(-1, INT32_MAX); }
TEST(slots_beyond_the_table_end_the_process) {
  for (int i = 0; i < 2; ++i) {  // Half of the table, and then more than the other half.
    GetOrAdd("test.Large" + std::to_string(i), kTVMFFIObject, 1, 1 << 20);
  }
  CheckEnds(-1, 3 << 20);
}
TEST(static_indices_below_the_parents_end_the_process) {
  std::atexit([] { std::_Exit(0); });  // apache's ends, too.
  int32_t parent = GetOrAdd("test.DynamicParent");
  TVMFFIByteArray key = Bytes("test.Below");
  TVMFFITypeGetOrAllocIndex(&key, 100, 2, 0, 1, parent);
  std::_Exit(1);
}
TEST(static_indices_of_dynamic_types_end_the_process) { CheckEnds(kTVMFFIDynObjectBegin + 100, 0); }
