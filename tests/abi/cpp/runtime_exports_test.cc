// SPDX-License-Identifier: Apache-2.0
// The C++ names of TVM FFI as libraries link to them: found by their mangled names, and called with
// types that have nothing but the right size.
#include <dlfcn.h>

#include <exception>

#include "abi.h"

namespace tvm {
namespace ffi {

// Classes that catch an exception by its name, whoever threw it.
class ObjectRef {
 public:
  ~ObjectRef() {
    if (object != nullptr) TVMFFIObjectDecRef(object);
  }
  void* object;
};
class Error : public ObjectRef, public std::exception {};

}  // namespace ffi
}  // namespace tvm

/// A nullable object, as functions return it.
struct Reference {
  explicit Reference(void* object) : object(object) {}
  Reference(Reference&& other) noexcept : object(std::exchange(other.object, nullptr)) {}
  ~Reference() {
    if (object != nullptr) TVMFFIObjectDecRef(object);
  }
  void* object;
};

template <typename F>
F* Exported(const char* mangled) {
  void* found = dlsym(RTLD_DEFAULT, mangled);
  if (found == nullptr) CHECK_EQ(std::string(mangled), std::string("exported"));
  return reinterpret_cast<F*>(found);
}

/// "Kind: message" of the C++ exception that the call throws.
template <typename Run>
static std::string ThrownToCpp(Run&& run) {
  try {
    run();
  } catch (const tvm::ffi::Error& error) {
    CHECK(std::strlen(error.what()) != 0);
    TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(error.object);
    return Text(cell->kind) + ": " + Text(cell->message);
  }
  return "nothing";
}

static auto Parse() {
  return Exported<Value(const Value&, Value*)>("_ZN3tvm3ffi4json5ParseERKNS0_6StringEPS2_");
}
using Predicate = bool(const Value&, const Value&);

TEST(json_is_parsed_and_written) {
  auto* stringify = Exported<Value(const Value&, const Value&)>(
      "_ZN3tvm3ffi4json9StringifyERKNS0_3AnyERKNS0_8OptionalIivEE");
  Value parsed = Parse()(Str("[1, {\"a\": null}]"), nullptr);
  CHECK_EQ(stringify(parsed, Value()).text(), std::string("[1,{\"a\":null}]"));
  CHECK_EQ(stringify(parsed, Value(Int(1))).text(),
           std::string("[\n 1,\n {\n  \"a\": null\n }\n]"));
}

TEST(malformed_json_is_thrown_or_told) {
  Value error;
  CHECK_EQ(Parse()(Str("[1"), &error).type_index(), int32_t{kTVMFFINone});
  CHECK(error.text().find("line 1 column 3") != std::string::npos);
  Parse()(Str("1"), &error);
  CHECK_EQ(error.text(), std::string(""));
  std::string thrown = ThrownToCpp([] { Parse()(Str("[1"), nullptr); });
  CHECK_EQ(thrown.substr(0, 11), std::string("ValueError:"));
}

TEST(values_are_printed_copied_and_compared) {
  auto* repr = Exported<Value(const Value&)>("_ZN3tvm3ffi9ReprPrintERKNS0_3AnyE");
  auto* copy = Exported<Value(const Value&)>("_ZN3tvm3ffi8DeepCopyERKNS0_3AnyE");
  auto* hash = Exported<int64_t(const Value&)>("_ZN3tvm3ffi13RecursiveHashERKNS0_3AnyE");
  auto* equal = Exported<Predicate>("_ZN3tvm3ffi11RecursiveEqERKNS0_3AnyES3_");
  Value list = Call("ffi.List", {Int(1), Float(2)});
  Value other = copy(list);
  CHECK_EQ(repr(list).text(), std::string("[1, 2]"));
  CHECK(other.object() != list.object());
  CHECK(equal(list, other));
  CHECK_EQ(hash(list), hash(other));
}

TEST(values_are_ordered) {
  Value small = Call("ffi.Array", {Int(1)});
  Value large = Call("ffi.Array", {Int(2)});
  CHECK(Exported<Predicate>("_ZN3tvm3ffi11RecursiveLtERKNS0_3AnyES3_")(small, large));
  CHECK(Exported<Predicate>("_ZN3tvm3ffi11RecursiveLeERKNS0_3AnyES3_")(small, small));
  CHECK(!Exported<Predicate>("_ZN3tvm3ffi11RecursiveGtERKNS0_3AnyES3_")(small, large));
  auto* ge = Exported<Predicate>("_ZN3tvm3ffi11RecursiveGeERKNS0_3AnyES3_");
  CHECK(ge(large, small));
  CHECK_EQ(ThrownToCpp([&] { ge(small, Value(Int(1))); }),
           std::string("TypeError: Cannot compare values of different types: ffi.Array vs int"));
}

TEST(structures_are_compared_and_hashed) {
  auto* equal = Exported<bool(const Value&, const Value&, bool, bool)>(
      "_ZN3tvm3ffi15StructuralEqual5EqualERKNS0_3AnyES4_bb");
  auto* mismatch = Exported<Reference(const Value&, const Value&, bool, bool)>(
      "_ZN3tvm3ffi15StructuralEqual16GetFirstMismatchERKNS0_3AnyES4_bb");
  auto* hash = Exported<uint64_t(const Value&, bool, bool)>(
      "_ZN3tvm3ffi14StructuralHash4HashERKNS0_3AnyEbb");
  Value a = Call("ffi.Array", {Int(1)});
  Value b = Call("ffi.Array", {Int(1)});
  Value c = Call("ffi.Array", {Int(2)});
  CHECK(equal(a, b, false, false));
  CHECK_EQ(hash(a, false, false), hash(b, false, false));
  CHECK(mismatch(a, b, false, false).object == nullptr);
  Reference paths = mismatch(a, c, false, false);
  CHECK_EQ(TVMFFIObjectGetTypeIndex(paths.object), int32_t{kTVMFFIArray});
}

TEST(graphs_become_json_and_back) {
  auto* to = Exported<Value(const Value&, const Value&)>("_ZN3tvm3ffi11ToJSONGraphERKNS0_3AnyES3_");
  auto* from = Exported<Value(const Value&)>("_ZN3tvm3ffi13FromJSONGraphERKNS0_3AnyE");
  Value graph = to(Call("ffi.Array", {Int(7)}), Value());
  Value back = from(graph);
  CHECK_EQ(Call("ffi.ArrayGetItem", {back.value, Int(0)}).value.v_int64, int64_t{7});
  CHECK_EQ(ThrownToCpp([&] { from(Value(Int(1))); }),
           std::string("ValueError: Invalid JSON Object Graph, expected an object"));
}

TEST(modules_are_loaded_and_asked) {
  auto* load = Exported<Reference(const Value&)>("_ZN3tvm3ffi6Module12LoadFromFileERKNS0_6StringE");
  auto* implements = Exported<bool(void*, const Value&, bool)>(
      "_ZN3tvm3ffi9ModuleObj18ImplementsFunctionERKNS0_6StringEb");
  auto* get = Exported<Reference(void*, const Value&, bool)>(
      "_ZN3tvm3ffi9ModuleObj11GetFunctionERKNS0_6StringEb");
  auto* doc = Exported<Value(void*, const Value&, bool)>(
      "_ZN3tvm3ffi9ModuleObj14GetFunctionDocERKNS0_6StringEb");
  auto* metadata = Exported<Value(void*, const Value&, bool)>(
      "_ZN3tvm3ffi9ModuleObj19GetFunctionMetadataERKNS0_6StringEb");
  std::string path = std::string(std::getenv("GRAPHFFI_TEST_LIBRARIES")) + "/library0.so";
  Reference handle = load(Str(path));
  void* module = static_cast<char*>(handle.object) - 8;
  CHECK(implements(module, Str("add_one"), true));
  CHECK(!implements(module, Str("absent"), true));
  CHECK_EQ(TVMFFIObjectGetTypeIndex(get(module, Str("add_one"), false).object),
           int32_t{kTVMFFIFunction});
  CHECK(get(module, Str("absent"), true).object == nullptr);
  CHECK_EQ(doc(module, Str("add_one"), false).type_index(), int32_t{kTVMFFINone});
  CHECK_EQ(metadata(module, Str("add_one"), false).type_index(), int32_t{kTVMFFINone});
  std::string thrown = ThrownToCpp([&] { load(Str("/absent.so")); });
  CHECK(thrown.find("absent.so") != std::string::npos);
}

static int CountMarker(void* self, const TVMFFIAny* args, int32_t, TVMFFIAny*) {
  Value name = Value::FromView(args[0]);
  if (name.text() == "__test_marker") static_cast<Callback*>(self)->deleted += 10;
  return args[1].type_index == kTVMFFIOpaquePtr ? 0 : -1;
}

TEST(virtual_functions_throw_the_abis_exception) {
  auto* load = Exported<Reference(const Value&)>("_ZN3tvm3ffi6Module12LoadFromFileERKNS0_6StringE");
  std::string path = std::string(std::getenv("GRAPHFFI_TEST_LIBRARIES")) + "/library0.so";
  Reference handle = load(Str(path));
  void* module = static_cast<char*>(handle.object) - 8;
  void** table = *static_cast<void***>(module);
  auto* doc = reinterpret_cast<Value (*)(void*, const Value&)>(table[4]);
  auto* write = reinterpret_cast<void (*)(const void*, const Value&, const Value&)>(table[6]);
  auto* save = reinterpret_cast<Value (*)(const void*)>(table[8]);
  CHECK_EQ(ThrownToCpp([&] { doc(module, Str("broken")); }),
           std::string("ValueError: no documentation today"));
  std::string written = ThrownToCpp([&] { write(module, Str("a"), Str("b")); });
  CHECK_EQ(written.substr(0, 13), std::string("RuntimeError:"));
  std::string saved = ThrownToCpp([&] { save(module); });
  CHECK_EQ(saved.substr(0, 13), std::string("RuntimeError:"));
}

TEST(context_symbols_are_visited) {
  auto* visit = Exported<void(const Reference&)>(
      "_ZN3tvm3ffi6Module19VisitContextSymbolsERKNS0_13TypedFunctionIFvNS0_6StringEPvEEE");
  static int marker = 0;
  CHECK_EQ(TVMFFIEnvModRegisterContextSymbol("__test_marker", &marker), 0);
  Callback callback;
  Value function = callback.Make(CountMarker);
  TVMFFIObjectIncRef(function.object());
  visit(Reference(function.object()));
  CHECK_EQ(callback.deleted, 10);
}

// The layout of visitors of other libraries, as the containers see it that they visit.
struct Visitor {
  TVMFFIObject header{};
  const void* table = nullptr;
  int64_t region = 0;
  std::vector<int64_t> seen;
};

static TVMFFIAny SeeInt(Visitor* visitor, TVMFFIAny value) {
  visitor->seen.push_back(value.v_int64);
  return None();
}
static TVMFFIAny AddOne(Visitor*, TVMFFIAny value) {
  if (value.v_int64 == 7) return TVMFFIAny{kTVMFFIUnchanged, {0}, {0}};
  return Int(value.v_int64 + 1);
}

template <typename F>
static F* Hook(std::string_view attribute, const Value& value) {
  TVMFFIByteArray name = Bytes(attribute);
  const TVMFFITypeAttrColumn* column = TVMFFIGetTypeAttrColumn(&name);
  const TVMFFIAny& hook = column->data[value.type_index() - column->begin_index];
  CHECK_EQ(hook.type_index, int32_t{kTVMFFIOpaquePtr});
  return reinterpret_cast<F*>(hook.v_ptr);
}
using HookFunction = TVMFFIAny(Visitor*, TVMFFIAny);

TEST(visitors_see_what_containers_hold) {
  TVMFFIAny (*table[1])(Visitor*, TVMFFIAny) = {SeeInt};
  for (const char* kind : {"ffi.Array", "ffi.List", "ffi.Map", "ffi.Dict"}) {
    Visitor visitor;
    visitor.table = table;
    Value container = Call(kind, {Int(1), Int(2), Int(3), Int(4)});
    Value result(Hook<HookFunction>("__s_visit__", container)(&visitor, container.value));
    CHECK_EQ(result.type_index(), int32_t{kTVMFFINone});
    bool is_map = std::string(kind) == "ffi.Map" || std::string(kind) == "ffi.Dict";
    CHECK(visitor.seen == (is_map ? std::vector<int64_t>{2, 4} : std::vector<int64_t>{1, 2, 3, 4}));
  }
}

TEST(mutators_copy_what_they_change) {
  TVMFFIAny (*table[2])(Visitor*, TVMFFIAny) = {AddOne, AddOne};
  for (const char* kind : {"ffi.Array", "ffi.List", "ffi.Map", "ffi.Dict"}) {
    Visitor mutator;
    mutator.table = table;
    Value same = Call(kind, {Int(7), Int(7)});
    Value unchanged(Hook<HookFunction>("__s_mutate__", same)(&mutator, same.value));
    CHECK_EQ(unchanged.type_index(), int32_t{kTVMFFIUnchanged});
    Value before = Call(kind, {Int(7), Int(1)});
    Value after(Hook<HookFunction>("__s_mutate__", before)(&mutator, before.value));
    CHECK_EQ(after.type_index(), before.type_index());
    CHECK(after.object() != before.object());
    Value expected = Call(kind, {Int(7), Int(2)});
    CHECK(Call("ffi.RecursiveEq", {after.value, expected.value}).value.v_int64 != 0);
  }
}

TEST(mutators_change_in_place_what_nobody_else_has) {
  TVMFFIAny (*table[2])(Visitor*, TVMFFIAny) = {AddOne, AddOne};
  for (const char* kind : {"ffi.Array", "ffi.List", "ffi.Map", "ffi.Dict"}) {
    Visitor mutator;
    mutator.table = table;
    Value value = Call(kind, {Int(7), Int(1)});
    auto* hook = Hook<HookFunction>("__s_maybe_inplace_mutate__", value);
    Value result(hook(&mutator, value.value));
    CHECK(result.type_index() == kTVMFFIUnchanged || result.object() == value.object());
    Value expected = Call(kind, {Int(7), Int(2)});
    CHECK(Call("ffi.RecursiveEq", {value.value, expected.value}).value.v_int64 != 0);
  }
}

static TVMFFIAny Fail(Visitor*, TVMFFIAny) {
  TVMFFIErrorSetRaisedFromCStr("ValueError", "from the mutator");
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  return Object(error);
}

TEST(errors_of_mutators_are_passed_on) {
  TVMFFIAny (*table[2])(Visitor*, TVMFFIAny) = {Fail, Fail};
  Visitor mutator;
  mutator.table = table;
  Value list = Call("ffi.List", {Int(1), Int(2)});
  for (const char* hook : {"__s_mutate__", "__s_maybe_inplace_mutate__"}) {
    Value result(Hook<HookFunction>(hook, list)(&mutator, list.value));
    CHECK_EQ(result.type_index(), int32_t{kTVMFFIError});
  }
}
