// SPDX-License-Identifier: Apache-2.0
// Module tests over libraries that the Python side compiles: their paths come in environment
// variables.
#include <malloc.h>

#include "abi.h"

static const char* Path(const char* name) { return std::getenv(name); }
static Value Load(const char* name) { return Call("ffi.ModuleLoadFromFile", {RawStr(Path(name))}); }
static Value Get(const Value& module, const char* name, bool imports = false) {
  return Call("ffi.ModuleGetFunction", {module.value, RawStr(name), Bool(imports)});
}
static int64_t Invoke(const Value& function, int64_t argument) {
  Value result;
  CHECK_EQ(TryCall(function.object(), {Int(argument)}, &result), 0);
  return result.value.v_int64;
}

TEST(functions_of_a_library_without_dependency_are_called) {
  Value module = Load("KERNEL");
  CHECK_EQ(Call("ffi.ModuleGetKind", {module.value}).text(), std::string("library"));
  CHECK_EQ(Call("ffi.ModuleGetPropertyMask", {module.value}).value.v_int64, int64_t{3});
  CHECK_EQ(Invoke(Get(module, "add_one"), 41), int64_t{42});
  CHECK_EQ(Get(module, "absent").type_index(), int32_t{kTVMFFINone});
  CHECK_EQ(Call("ffi.ModuleImplementsFunction", {module.value, RawStr("add_one"), Bool(false)})
               .value.v_int64,
           int64_t{1});
}

TEST(function_keeps_working_without_its_module) {
  Value function = Get(Load("KERNEL"), "add_one");
  CHECK_EQ(Invoke(function, 1), int64_t{2});
}

TEST(function_of_a_library_gets_null_as_handle) {
  CHECK_EQ(Invoke(Get(Load("KERNEL"), "handle"), 0), int64_t{0});
}

TEST(error_of_a_kernel_arrives) {
  Value function = Get(Load("KERNEL"), "fail");
  Value result;
  CHECK_EQ(TryCall(function.object(), {}, &result), -1);
  CHECK_EQ(Raised(), std::string("ValueError: from the kernel"));
}

TEST(metadata_and_doc_are_read_where_they_exist) {
  Value module = Load("KERNEL");
  auto read = [&](const char* what, const char* name) {
    return Call(what, {module.value, RawStr(name), Bool(false)});
  };
  CHECK_EQ(read("ffi.ModuleGetFunctionMetadata", "add_one").text(), std::string("{\"a\":1}"));
  CHECK_EQ(read("ffi.ModuleGetFunctionDoc", "add_one").type_index(), int32_t{kTVMFFINone});
  CHECK_EQ(read("ffi.ModuleGetFunctionMetadata", "fail").type_index(), int32_t{kTVMFFINone});
}

TEST(context_symbols_and_the_module_are_stored_into_the_library) {
  static int marker = 0;
  CHECK_EQ(TVMFFIEnvModRegisterContextSymbol("__test_context", &marker), 0);
  Value module = Load("KERNEL");
  Value result;
  TryCall(Get(module, "context").object(), {}, &result);
  CHECK_EQ(result.value.v_ptr, static_cast<void*>(&marker));
  TryCall(Get(module, "library_ctx").object(), {}, &result);
  CHECK_EQ(result.value.v_ptr, static_cast<void*>(static_cast<char*>(module.object()) - 8));
}

TEST(library_finds_functions_of_its_imports_and_globals) {
  Value module = Load("KERNEL");
  Value other = Load("OTHER");
  void* context = static_cast<char*>(module.object()) - 8;
  TVMFFIObjectHandle found = nullptr;
  CheckRaised(TVMFFIEnvModLookupFromImports(context, "times_two", &found), "RuntimeError",
              "function 'times_two'");
  Call("ffi.ModuleImportModule", {module.value, other.value});
  CHECK_EQ(TVMFFIEnvModLookupFromImports(context, "times_two", &found), 0);
  Value function = Value::FromView(Object(found));  // Borrowed: this adds a reference.
  CHECK_EQ(Invoke(function, 21), int64_t{42});
  TVMFFIObjectHandle again = nullptr;
  CHECK_EQ(TVMFFIEnvModLookupFromImports(context, "times_two", &again), 0);
  CHECK_EQ(again, found);
  CHECK_EQ(TVMFFIEnvModLookupFromImports(context, "ffi.ArraySize", &found), 0);
  CHECK_EQ(Invoke(Get(module, "times_two", true), 4), int64_t{8});
  CHECK_EQ(Get(module, "times_two", false).type_index(), int32_t{kTVMFFINone});
  Call("ffi.ModuleClearImports", {module.value});
  CHECK_EQ(Get(module, "times_two", true).type_index(), int32_t{kTVMFFINone});
}

TEST(import_cycles_are_refused) {
  Value module = Load("KERNEL");
  Value other = Load("OTHER");
  CheckCallRaises("ffi.ModuleImportModule", {module.value, module.value}, "RuntimeError",
                  "imports");
  Call("ffi.ModuleImportModule", {module.value, other.value});
  CheckCallRaises("ffi.ModuleImportModule", {other.value, module.value}, "RuntimeError", "imports");
  Call("ffi.ModuleClearImports", {module.value});
}

TEST(file_that_does_not_load_is_named_with_the_reason) {
  CheckCallRaises("ffi.ModuleLoadFromFile", {RawStr("absent/k.so")},
                  IsBundled() ? "RuntimeError" : "InternalError",
                  "cannot load 'absent/k.so': absent/k.so: cannot open shared object file");
  CheckCallRaises("ffi.ModuleLoadFromFile", {RawStr("absent.d/k")}, "RuntimeError", "extension");
  CheckCallRaises("ffi.ModuleLoadFromFile", {RawStr("k.abc")}, "RuntimeError",
                  "ffi.Module.load_from_file.abc");
}

TEST(same_library_is_the_same_module) {
  // Apache's makes a second one, and the library's context variable follows the last.
  if (IsBundled()) CHECK_EQ(Load("KERNEL").object(), Load("KERNEL").object());
}

TEST(memory_stays_flat_over_10000_loads) {
  auto load = [](int times) {
    for (int i = 0; i < times; ++i) CHECK_EQ(Invoke(Get(Load("KERNEL"), "add_one"), i), i + 1);
  };
  load(100);
  size_t before = mallinfo2().uordblks;
  load(10000);
  CHECK(mallinfo2().uordblks < before + 100000);
}

static int AddThree(void*, const TVMFFIAny* args, int32_t, TVMFFIAny* result) {
  *result = Int(args[0].v_int64 + 3);
  return 0;
}

TEST(system_library_finds_by_prefix_first) {
  auto* symbol = reinterpret_cast<void*>(AddThree);
  CHECK_EQ(TVMFFIEnvModRegisterSystemLibSymbol("__tvm_ffi_test_add_three", symbol), 0);
  Value module = Call("ffi.SystemLib", {RawStr("test_")});
  CHECK_EQ(Invoke(Get(module, "add_three"), 1), int64_t{4});
  CHECK_EQ(Invoke(Get(module, "test_add_three"), 1), int64_t{4});
  CHECK_EQ(Call("ffi.SystemLib", {RawStr("test_")}).object(), module.object());
  CHECK_EQ(Get(Call("ffi.SystemLib", {}), "add_three").type_index(), int32_t{kTVMFFINone});
}

/// Loads the embedded kind "copy", by giving back the module that Python named OTHER.
static int LoadCopy(void*, const TVMFFIAny* args, int32_t, TVMFFIAny* result) {
  CHECK_EQ(Value::FromView(args[0]).text(), std::string("some longer bytes"));
  Value other = Load("OTHER");
  *result = std::exchange(other.value, None());
  return 0;
}

TEST(embedded_modules_are_imported) {
  Callback callback;
  Value loader = callback.Make([](void*, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) {
    return LoadCopy(nullptr, args, n, result);
  });
  TVMFFIByteArray name = Bytes("ffi.Module.load_from_bytes.copy");
  CHECK_EQ(TVMFFIFunctionSetGlobal(&name, loader.object(), 0), 0);
  Value module = Load("EMBEDDING");
  CHECK_EQ(Invoke(Get(module, "times_two", true), 3), int64_t{6});
}

TEST(malformed_embedding_is_refused) {
  Value result;
  Value load = Global("ffi.ModuleLoadFromFile");
  CheckRaised(TryCall(load.object(), {RawStr(Path("EMBEDDING"))}, &result), "RuntimeError",
              std::string("graphffi: cannot load '") + Path("EMBEDDING") + "': ");
}

// Ours never closes a library.
TEST(object_of_a_library_outlives_its_module) {
  if (!IsBundled()) return;
  Value module;
  CHECK_EQ(TryCall(Get(Load("SUBCLASS"), "make").object(), {}, &module), 0);
  CHECK_EQ(Call("ffi.ModuleGetKind", {module.value}).text(), std::string("test_kind"));
}

TEST(module_class_of_another_library_works) {
  Value library = Load("SUBCLASS");  // Apache's closes a library with its last module.
  Value module;
  CHECK_EQ(TryCall(Get(library, "make").object(), {}, &module), 0);
  CHECK_EQ(module.type_index(), int32_t{kTVMFFIModule});
  CHECK_EQ(Call("ffi.ModuleGetKind", {module.value}).text(), std::string("test_kind"));
  CHECK_EQ(Call("ffi.ModuleGetPropertyMask", {module.value}).value.v_int64, int64_t{2});
  CHECK_EQ(Invoke(Get(module, "plus"), 1), int64_t{11});
  CHECK_EQ(Get(module, "absent").type_index(), int32_t{kTVMFFINone});
  CHECK_EQ(Call("ffi.ModuleInspectSource", {module.value, RawStr("")}).text(),
           std::string("the source of it"));
  CHECK_EQ(Call("ffi.ModuleGetFunctionDoc", {module.value, RawStr("plus"), Bool(false)}).text(),
           std::string("adds ten"));
  Value other = Load("OTHER");
  Call("ffi.ModuleImportModule", {module.value, other.value});
  CHECK_EQ(Invoke(Get(module, "times_two", true), 2), int64_t{4});
  TVMFFIObjectHandle found = nullptr;
  void* context = static_cast<char*>(module.object()) - 8;
  CHECK_EQ(TVMFFIEnvModLookupFromImports(context, "times_two", &found), 0);
  CheckCallRaises("ffi.ModuleWriteToFile", {module.value, RawStr("f"), RawStr("")}, "RuntimeError",
                  "WriteToFile");
}
