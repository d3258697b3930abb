// SPDX-License-Identifier: Apache-2.0
// Functions over the structure of values: of values without end, and of values that the functions
// of their types change meanwhile. Apache's do not survive most of this.
#include "abi.h"

/// A type with one attribute, and an object of it. Static: the runtime keeps types and attributes.
struct HostileType {
  HostileType(const char* key, const char* attribute, TVMFFISafeCallType call) {
    TVMFFIByteArray name = Bytes(key);
    type = TVMFFITypeGetOrAllocIndex(&name, -1, 1, 0, 1, kTVMFFIObject);
    Register(attribute, callback.Make(call).value);
    object = {1 + kOneWeak, type, 0, {nullptr}};
  }
  void Register(const char* attribute, TVMFFIAny value) {
    TVMFFIByteArray name = Bytes(attribute);
    CHECK_EQ(TVMFFITypeRegisterAttr(type, &name, &value), 0);
  }

  Callback callback;
  int32_t type;
  TVMFFIObject object;
};

/// The container that the functions of types empty.
static TVMFFIAny victim = None();

static void EmptyVictim() {
  if (victim.type_index == kTVMFFIList) {
    Call("ffi.ListReserve", {victim, Int(10000)});
    Call("ffi.ListClear", {victim});
  } else {
    for (int i = 0; i < 100; ++i) Call("ffi.DictSetItem", {victim, Int(i), Int(i)});
    Call("ffi.DictClear", {victim});
  }
}

static Value ListWith(TVMFFIObject* first) {
  Value list = Call("ffi.List", {Object(first)});
  for (int i = 0; i < 50; ++i) Call("ffi.ListAppend", {list.value, Str("a longer text").value});
  return list;
}

static Value DictWith(TVMFFIObject* first) {
  Value dict = Call("ffi.Dict", {RawStr("first"), Object(first)});
  for (int i = 0; i < 50; ++i) Call("ffi.DictSetItem", {dict.value, Int(i), RawStr("text")});
  return dict;
}

TEST(a_repr_may_empty_the_container_that_is_printed) {
  if (!IsBundled()) return;
  static HostileType type("test.Repr", "__ffi_repr__",
                          [](void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
                            EmptyVictim();
                            *result = Str("mine").value;
                            return 0;
                          });
  Value list = ListWith(&type.object);
  victim = list.value;
  CHECK_EQ(Call("ffi.ReprPrint", {victim}).text(), std::string("[mine]"));
  Value dict = DictWith(&type.object);
  victim = dict.value;
  CHECK_EQ(Call("ffi.ReprPrint", {victim}).text(), std::string("{\"first\": mine}"));
}

TEST(a_copy_may_empty_the_container_that_is_copied) {
  if (!IsBundled()) return;
  static HostileType type("test.Copy", "__ffi_shallow_copy__",
                          [](void*, const TVMFFIAny* args, int32_t, TVMFFIAny* result) {
                            EmptyVictim();
                            return TVMFFIAnyViewToOwnedAny(&args[0], result);
                          });
  Value list = ListWith(&type.object);
  victim = list.value;
  CHECK_EQ(Call("ffi.ListSize", {Call("ffi.DeepCopy", {victim}).value}).value.v_int64, int64_t{1});
  Value dict = DictWith(&type.object);
  victim = dict.value;
  CHECK_EQ(Call("ffi.DictSize", {Call("ffi.DeepCopy", {victim}).value}).value.v_int64, int64_t{1});
}

TEST(a_hash_may_empty_the_container_that_is_hashed) {
  if (!IsBundled()) return;
  static HostileType type("test.Hash", "__ffi_hash__",
                          [](void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
                            EmptyVictim();
                            *result = Int(7);
                            return 0;
                          });
  Value containers[] = {ListWith(&type.object), DictWith(&type.object)};
  for (const Value& container : containers) {
    victim = container.value;
    int64_t hash = Call("ffi.RecursiveHash", {victim}).value.v_int64;
    Value one = victim.type_index == kTVMFFIList
                    ? Call("ffi.List", {Object(&type.object)})
                    : Call("ffi.Dict", {RawStr("first"), Object(&type.object)});
    CHECK_EQ(hash, Call("ffi.RecursiveHash", {one.value}).value.v_int64);
  }
}

TEST(a_copy_of_another_type_is_refused) {
  if (!IsBundled()) return;
  static HostileType type("test.OtherCopy", "__ffi_shallow_copy__",
                          [](void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
                            *result = Str("text").value;
                            return 0;
                          });
  CheckCallRaises("ffi.DeepCopy", {Object(&type.object)}, "TypeError",
                  "__ffi_shallow_copy__ must give an object of the same type");
}

TEST(attributes_that_are_no_hash_are_refused) {
  if (!IsBundled()) return;
  static HostileType type("test.TextHash", "__any_hash__",
                          [](void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
                            *result = Str("text").value;
                            return 0;
                          });
  static HostileType other("test.NumberHash", "__ffi_repr__", ReturnNothing);
  other.Register("__any_hash__", Int(1));
  Value dict = Call("ffi.Dict", {});
  for (int i = 0; i < 20; ++i) Call("ffi.DictSetItem", {dict.value, Int(i), Int(i)});
  CheckCallRaises("ffi.DictSetItem", {dict.value, Object(&type.object), Int(0)}, "TypeError",
                  "Cannot convert from type");
  CheckCallRaises("ffi.DictSetItem", {dict.value, Object(&other.object), Int(0)}, "TypeError",
                  "Cannot treat type `int` as type `ffi.Function`");
}

static Value Nested(int depth) {
  Value list = Call("ffi.List", {});
  for (int i = 0; i < depth; ++i) list = Call("ffi.List", {list.value});
  return list;
}

static void CheckRefusesDepth(TVMFFIAny value) {
  Value none = Call("ffi.Array", {});
  const std::string text = "the structure is nested too deeply or has a cycle";
  for (int order : {0, 1}) {
    CheckCallRaises("ffi.StructuralWalk", {value, none.value, none.value, Int(order)}, "ValueError",
                    text);
    CheckCallRaises("ffi.StructuralMap", {value, none.value, none.value, Int(order)}, "ValueError",
                    text);
  }
  CheckCallRaises("ffi.StructuralVisit", {value, none.value}, "ValueError", text);
  CheckCallRaises("ffi.StructuralMutate", {value, none.value}, "ValueError", text);
}

TEST(values_deeper_than_the_stack_are_refused) {
  if (!IsBundled()) return;
  Value deep = Nested(30000);
  CheckRefusesDepth(deep.value);
  CheckCallRaises("ffi.ReprPrint", {deep.value}, "ValueError", "nested too deeply");
  while (TVMFFISeqGetCellPtr(deep.object())->size != 0) {  // Freeing them recurses, too.
    deep = Call("ffi.ListPop", {deep.value, Int(0)});
  }
}

TEST(cycles_are_refused_where_they_have_no_end) {
  if (!IsBundled()) return;
  Value list = Call("ffi.List", {});
  Call("ffi.ListAppend", {list.value, list.value});
  CheckRefusesDepth(list.value);
  CHECK_EQ(Call("ffi.ReprPrint", {list.value}).text(), std::string("[...]"));
  Call("ffi.ListClear", {list.value});
}

TEST(visits_give_nothing_or_an_interrupt) {
  Callback callback;
  Value function = callback.Make([](void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
    *result = Int(5);
    return 0;
  });
  Value link = Call("ffi.Array", {Int(kTVMFFIInt), function.value});
  Value links = Call("ffi.Array", {link.value});
  Value root = Call("ffi.Array", {Int(1)});
  CheckCallRaises("ffi.StructuralVisit", {root.value, links.value}, "TypeError",
                  "expected `Optional<ffi.VisitInterrupt>`, got `int`");
}

TEST(errors_of_callbacks_know_where_they_were_raised) {
  Callback callback;
  Value fails = callback.Make([](void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
    TVMFFIErrorSetRaisedFromCStr("ValueError", "no");
    return -1;
  });
  Value root = Call("ffi.Array", {Int(1)});
  Value link = Call("ffi.Array", {Int(kTVMFFIArray), fails.value});
  Value links = Call("ffi.Array", {link.value}), none = Call("ffi.Array", {});
  for (int order : {0, 1}) {
    Value result;
    CHECK_EQ(TryCall(Global("ffi.StructuralMap").object(),
                     {root.value, links.value, none.value, Int(order)}, &result),
             -1);
    void* raised = nullptr;
    TVMFFIErrorMoveFromRaised(&raised);
    Value error = Value::Steal(raised);
    auto* context = static_cast<TVMFFIObject*>(TVMFFIErrorGetCellPtr(raised)->extra_context);
    CHECK(context != nullptr);
    const TVMFFITypeInfo* type = TVMFFIGetTypeInfo(context->type_index);
    CHECK_EQ(Text(type->type_key), std::string("ffi.VisitErrorContext"));
  }
}
