// SPDX-License-Identifier: Apache-2.0
// Functions, the table of global ones, errors and the thread's slot.
#include "abi.h"

static int Sum(void*, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  int64_t sum = 0;
  for (int32_t i = 0; i < num_args; ++i) sum += args[i].v_int64;
  *result = Int(sum);
  return 0;
}

TEST(function_gets_self_and_arguments) {
  Callback callback;
  Value function =
      callback.Make([](void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
        *result = Int(args[num_args - 1].v_int64 + (static_cast<Callback*>(self)->deleted == 0));
        return 0;
      });
  Value result;
  CHECK_EQ(TryCall(function.object(), {Int(1), Int(41)}, &result), 0);
  CHECK_EQ(result.value.v_int64, int64_t{42});
}

TEST(function_deletes_self_once) {
  Callback callback;
  Value function = callback.Make(ReturnNothing);
  CHECK_EQ(callback.deleted, 0);
  function = Value();
  CHECK_EQ(callback.deleted, 1);
}

TEST(function_has_no_cpp_call) {
  Callback callback;
  Value function = callback.Make(ReturnNothing);
  if (IsBundled()) CHECK(TVMFFIFunctionGetCellPtr(function.object())->cpp_call == nullptr);
  CHECK(TVMFFIFunctionGetCellPtr(function.object())->safe_call != nullptr);
}

TEST(function_without_self_and_deleter_gets_its_object) {
  TVMFFIObjectHandle object = nullptr;
  auto return_handle = [](void* handle, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
    *result = Pointer(kTVMFFIOpaquePtr, handle);
    return 0;
  };
  CHECK_EQ(TVMFFIFunctionCreate(nullptr, return_handle, nullptr, &object), 0);
  Value function = Value::Steal(object);
  Value result;
  CHECK_EQ(TryCall(object, {}, &result), 0);
  CHECK_EQ(result.value.v_ptr, object);
}

template <int kCode>
static int ReturnCode(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  return kCode;
}

TEST(result_codes_pass_through) {
  Callback callbacks[3];
  Value functions[] = {callbacks[0].Make(ReturnCode<-1>), callbacks[1].Make(ReturnCode<-2>),
                       callbacks[2].Make(ReturnCode<7>)};
  int codes[] = {-1, -2, 7};
  for (int i = 0; i < 3; ++i) {
    Value result;
    CHECK_EQ(TryCall(functions[i].object(), {}, &result), codes[i]);
    CHECK_EQ(result.type_index(), int32_t{kTVMFFINone});
    CHECK_EQ(Raised(), std::string());
  }
}

TEST(function_may_call_another) {
  Callback inner;
  Value sum = inner.Make(Sum);
  auto call_first = [](void*, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
    return TVMFFIFunctionCall(args[0].v_obj, const_cast<TVMFFIAny*>(args + 1), num_args - 1,
                              result);
  };
  Callback outer;
  Value result;
  CHECK_EQ(TryCall(outer.Make(call_first).object(), {sum.value, Int(2), Int(3)}, &result), 0);
  CHECK_EQ(result.value.v_int64, int64_t{5});
}

TEST(unknown_global_function_is_no_error) {
  TVMFFIByteArray name = Bytes("test.unknown");
  TVMFFIObjectHandle function = &name;
  CHECK_EQ(TVMFFIFunctionGetGlobal(&name, &function), 0);
  CHECK(function == nullptr);
}

TEST(global_function_is_retained_and_found) {
  Callback callback;
  Value function = callback.Make(Sum);
  TVMFFIByteArray name = Bytes("test.sum");
  CHECK_EQ(TVMFFIFunctionSetGlobal(&name, function.object(), 0), 0);
  CHECK_EQ(Count(function.object()), 2 + kOneWeak);
  Value found = Global("test.sum");
  CHECK_EQ(found.object(), function.object());
  CHECK_EQ(Count(function.object()), 3 + kOneWeak);
  CHECK_EQ(Call("test.sum", {Int(1), Int(2)}).value.v_int64, int64_t{3});
}

TEST(global_function_is_replaced_only_when_allowed) {
  Callback first;
  Callback second;
  TVMFFIByteArray name = Bytes("test.twice");
  CHECK_EQ(TVMFFIFunctionSetGlobal(&name, first.Make(Sum).object(), 0), 0);
  Value other = second.Make(Sum);
  CheckRaised(TVMFFIFunctionSetGlobal(&name, other.object(), 0), "RuntimeError",
              "global function 'test.twice': already registered");
  CHECK_EQ(Count(other.object()), 1 + kOneWeak);
  CHECK_EQ(first.deleted, 0);
  CHECK_EQ(TVMFFIFunctionSetGlobal(&name, other.object(), 1), 0);
  CHECK_EQ(first.deleted, 1);
  CHECK_EQ(Global("test.twice").object(), other.object());
}

TEST(global_function_from_method_info_keeps_copies) {
  Callback callback;
  Value function = callback.Make(Sum);
  std::string name = "test.method";
  std::string metadata = "{\"type_schema\":\"x\"}";
  TVMFFIMethodInfo info = {Bytes(name), Bytes("doc"), Bytes(metadata), 0, function.value};
  CHECK_EQ(TVMFFIFunctionSetGlobalFromMethodInfo(&info, 0), 0);
  name.assign(name.size(), 'z');
  metadata.assign(metadata.size(), 'z');
  CHECK_EQ(Count(function.object()), 2 + kOneWeak);
  CHECK_EQ(Call("ffi.GetGlobalFuncMetadata", {RawStr("test.method")}).text(),
           std::string("{\"type_schema\":\"x\"}"));
}

TEST(only_functions_become_global) {
  if (!IsBundled()) return;
  TVMFFIByteArray name = Bytes("test.no_function");
  Value text = Str("a text is no function");
  CheckRaised(TVMFFIFunctionSetGlobal(&name, text.object(), 0), "TypeError",
              "global function 'test.no_function': expected a function");
  CheckRaised(TVMFFIFunctionSetGlobal(&name, nullptr, 0), "TypeError", "expected a function");
  CHECK_EQ(Global("test.no_function").type_index(), int32_t{kTVMFFINone});
  Callback callback;
  Value function = callback.Make(ReturnNothing);
  CHECK_EQ(TVMFFIFunctionSetGlobal(&name, function.object(), 0), 0);
}

TEST(functions_need_a_callback) {
  if (!IsBundled()) return;
  int self = 0;
  for (void* given : {static_cast<void*>(nullptr), static_cast<void*>(&self)}) {
    TVMFFIObjectHandle function = nullptr;
    CheckRaised(TVMFFIFunctionCreate(given, nullptr, nullptr, &function), "ValueError",
                "expected the address of a callback, got NULL");
    CHECK(function == nullptr);
  }
  CheckCallRaises("ffi.FunctionFromExternC", {None(), None(), None()}, "ValueError");
}

TEST(global_function_can_be_removed) {
  Callback callback;
  TVMFFIByteArray name = Bytes("test.removed");
  CHECK_EQ(TVMFFIFunctionSetGlobal(&name, callback.Make(Sum).object(), 0), 0);
  CHECK_EQ(Call("ffi.FunctionRemoveGlobal", {RawStr("test.removed")}).value.v_int64, int64_t{1});
  CHECK_EQ(callback.deleted, 1);
  CHECK_EQ(Call("ffi.FunctionRemoveGlobal", {RawStr("test.removed")}).value.v_int64, int64_t{0});
  CHECK(Global("test.removed").type_index() == kTVMFFINone);
}

TEST(global_names_are_listed) {
  Value names = Call("ffi.FunctionListGlobalNamesFunctor", {});
  Value count;
  CHECK_EQ(TryCall(names.object(), {Int(-1)}, &count), 0);
  bool found = false;
  for (int64_t i = 0; i < count.value.v_int64; ++i) {
    Value name;
    CHECK_EQ(TryCall(names.object(), {Int(i)}, &name), 0);
    found = found || name.text() == "ffi.ModuleLoadFromFile";
  }
  CHECK(found);
  Value result;
  CheckRaised(TryCall(names.object(), {count.value}, &result), "IndexError", "expected an index");
}

TEST(metadata_of_an_unknown_function_is_refused) {
  CheckCallRaises("ffi.GetGlobalFuncMetadata", {RawStr("test.unknown")}, "RuntimeError",
                  "no global function 'test.unknown'");
}

TEST(function_can_be_made_from_pointers) {
  Callback callback;
  Value function = Call("ffi.FunctionFromExternC",
                        {Pointer(kTVMFFIOpaquePtr, &callback),
                         Pointer(kTVMFFIOpaquePtr, reinterpret_cast<void*>(Sum)),
                         Pointer(kTVMFFIOpaquePtr, reinterpret_cast<void*>(Callback::Delete))});
  Value result;
  CHECK_EQ(TryCall(function.object(), {Int(20), Int(3)}, &result), 0);
  CHECK_EQ(result.value.v_int64, int64_t{23});
  function = Value();
  CHECK_EQ(callback.deleted, 1);
}

TEST(slot_is_empty_at_first_and_after_a_move) {
  CHECK_EQ(Raised(), std::string());
  TVMFFIErrorSetRaisedFromCStr("ValueError", "no");
  CHECK_EQ(Raised(), std::string("ValueError: no"));
  CHECK_EQ(Raised(), std::string());
}

TEST(later_error_replaces_the_earlier) {
  TVMFFIErrorSetRaisedFromCStr("ValueError", "first");
  TVMFFIErrorSetRaisedFromCStr("TypeError", "second");
  CHECK_EQ(Raised(), std::string("TypeError: second"));
}

TEST(error_parts_are_joined_and_null_ones_skipped) {
  const char* parts[] = {"a", nullptr, "b", "", "c"};
  TVMFFIErrorSetRaisedFromCStrParts("KeyError", parts, 5);
  CHECK_EQ(Raised(), std::string("KeyError: abc"));
}

static Value MakeError(const char* kind, const char* message, const char* backtrace) {
  TVMFFIByteArray bytes[] = {Bytes(kind), Bytes(message), Bytes(backtrace)};
  TVMFFIObjectHandle error = nullptr;
  CHECK_EQ(TVMFFIErrorCreate(&bytes[0], &bytes[1], &bytes[2], &error), 0);
  return Value::Steal(error);
}

TEST(new_error_has_its_texts_and_leaves_the_slot) {
  Value error = MakeError("IndexError", "too far", "  File \"a\", line 1, in b\n");
  TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(error.object());
  CHECK_EQ(error.type_index(), int32_t{kTVMFFIError});
  CHECK_EQ(Text(cell->kind), std::string("IndexError"));
  CHECK_EQ(Text(cell->message), std::string("too far"));
  CHECK_EQ(Text(cell->backtrace), std::string("  File \"a\", line 1, in b\n"));
  CHECK(cell->cause_chain == nullptr);
  CHECK(cell->extra_context == nullptr);
  CHECK_EQ(Raised(), std::string());
}

TEST(backtrace_is_appended_or_replaced) {
  Value error = MakeError("RuntimeError", "", "1\n");
  TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(error.object());
  TVMFFIByteArray more = Bytes("2\n");
  cell->update_backtrace(error.object(), &more, kTVMFFIBacktraceUpdateModeAppend);
  CHECK_EQ(Text(cell->backtrace), std::string("1\n2\n"));
  cell->update_backtrace(error.object(), &more, kTVMFFIBacktraceUpdateModeReplace);
  CHECK_EQ(Text(cell->backtrace), std::string("2\n"));
}

TEST(raised_error_is_retained_and_handed_over) {
  Value error = MakeError("RuntimeError", "kept", "");
  TVMFFIErrorSetRaised(error.object());
  CHECK_EQ(Count(error.object()), 2 + kOneWeak);
  TVMFFIObjectHandle moved = nullptr;
  TVMFFIErrorMoveFromRaised(&moved);
  CHECK_EQ(moved, error.object());
  CHECK_EQ(Count(error.object()), 2 + kOneWeak);
  TVMFFIObjectDecRef(moved);
}

TEST(error_retains_cause_and_context) {
  Value cause = MakeError("ValueError", "cause", "");
  Opaque opaque;
  Value context = opaque.Make();
  TVMFFIByteArray text = Bytes("x");
  TVMFFIObjectHandle error = nullptr;
  CHECK_EQ(TVMFFIErrorCreateWithCauseAndExtraContext(&text, &text, &text, cause.object(),
                                                     context.object(), &error),
           0);
  CHECK_EQ(TVMFFIErrorGetCellPtr(error)->cause_chain, cause.object());
  CHECK_EQ(Count(context.object()), 2 + kOneWeak);
  TVMFFIObjectDecRef(error);
  CHECK_EQ(Count(cause.object()), 1 + kOneWeak);
  CHECK_EQ(Count(context.object()), 1 + kOneWeak);
}

TEST(foreign_error_without_the_new_fields_can_be_raised) {
  // As kernels built before TVM FFI 0.1.8 make them: what follows the first four fields is theirs.
  struct OldError {
    TVMFFIObject header = {1 + kOneWeak, kTVMFFIError, 0, {nullptr}};
    TVMFFIByteArray kind = Bytes("OSError");
    TVMFFIByteArray message = Bytes("old");
    TVMFFIByteArray backtrace = Bytes("");
    void* update = nullptr;
    void* poison[2] = {reinterpret_cast<void*>(1), reinterpret_cast<void*>(1)};
  } error;
  TVMFFIErrorSetRaised(&error);
  TVMFFIErrorSetRaisedFromCStr("ValueError", "next");
  CHECK_EQ(error.header.combined_ref_count, 1 + kOneWeak);
  TVMFFIErrorSetRaised(&error);
  CHECK_EQ(Raised(), std::string("OSError: old"));
}

TEST(backtrace_names_file_line_and_function) {
  const TVMFFIByteArray* backtrace = TVMFFIBacktrace("k.cc", 12, "scale", 0);
  std::string line = "  File \"k.cc\", line 12, in scale\n";
  CHECK_EQ(Text(*backtrace).substr(0, line.size()), line);
  if (IsBundled()) CHECK_EQ(Text(*backtrace), line);  // apache's unwinds the stack behind it.
}

TEST(backtrace_of_no_place_is_not_null) {
  const TVMFFIByteArray* backtrace = TVMFFIBacktrace(nullptr, 0, nullptr, 0);
  CHECK(backtrace != nullptr);
  CHECK(backtrace->data != nullptr);
}

static int make_calls = 0;
static int MakeHandle(void** result) {
  ++make_calls;
  *result = &make_calls;
  return 0;
}

TEST(handle_is_made_once) {
  void* handle = nullptr;
  CHECK_EQ(TVMFFIHandleInitOnce(&handle, MakeHandle), 0);
  CHECK_EQ(TVMFFIHandleInitOnce(&handle, MakeHandle), 0);
  CHECK_EQ(handle, static_cast<void*>(&make_calls));
  CHECK_EQ(make_calls, 1);
}

TEST(handle_can_be_made_again_after_its_end) {
  static int ended = 0;
  auto end = [](void*) { return ++ended, 0; };
  void* handle = nullptr;
  CHECK_EQ(TVMFFIHandleDeinitOnce(&handle, end), 0);
  CHECK_EQ(ended, 0);
  TVMFFIHandleInitOnce(&handle, MakeHandle);
  CHECK_EQ(TVMFFIHandleDeinitOnce(&handle, end), 0);
  CHECK(handle == nullptr);
  CHECK_EQ(ended, 1);
  CHECK_EQ(TVMFFIHandleInitOnce(&handle, MakeHandle), 0);
  CHECK_EQ(make_calls, 2);
}

TEST(failed_init_leaves_the_handle_and_passes_the_code) {
  void* handle = nullptr;
  CHECK_EQ(TVMFFIHandleInitOnce(&handle, [](void**) { return -7; }), -7);
  CHECK(handle == nullptr);
  CheckRaised(TVMFFIHandleInitOnce(&handle, [](void**) { return 0; }), "RuntimeError",
              "expected a handle, got NULL");
  CHECK_EQ(TVMFFIHandleInitOnce(&handle, MakeHandle), 0);
}
