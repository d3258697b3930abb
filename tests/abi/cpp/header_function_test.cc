// SPDX-License-Identifier: Apache-2.0
// function.h, error.h, reflection/registry.h, extra/module.h.
#include <tvm/ffi/reflection/accessor.h>
#include <tvm/ffi/reflection/creator.h>

#include "header.h"

/// Made from a number or its text.
struct Celsius {
  double degrees;
};
template <>
inline constexpr bool tvm::ffi::use_default_type_traits_v<Celsius> = false;
template <>
struct tvm::ffi::TypeTraits<Celsius> : FallbackOnlyTraitsBase<Celsius, double, String> {
  static Celsius ConvertFallbackValue(double degrees) { return {degrees}; }
  static Celsius ConvertFallbackValue(const String& degrees) {
    return {std::atof(degrees.c_str())};
  }
};

TEST(types_without_a_form_of_their_own_are_made_from_others) {
  Function f = Function::FromTyped([](Celsius t) { return t.degrees; });
  CHECK_EQ(f(1.5).cast<double>(), 1.5);
  CHECK_EQ(f("2.5").cast<double>(), 2.5);
  CHECK_EQ(Message([&] { f(nullptr); }),
           "TypeError: Mismatched type on argument #0 when calling: `(0: Variant<float, str>) -> "
           "float`. Expected `Variant<float, str>` but got `None`");
}

TEST(mismatched_argument_names_position_signature_and_types) {
  Function f = Function::FromTyped([](int) {}, "f");
  CHECK_EQ(Message([&] { f(String("abc")); }),
           "TypeError: Mismatched type on argument #0 when calling: `f(0: int) -> void`. "
           "Expected `int` but got `ffi.SmallStr`");
  CHECK_EQ(Message([&] { f(); }),
           "TypeError: Mismatched number of arguments when calling: `f(0: int) -> void`. "
           "Expected 1 but got 0 arguments");
  Function g = Function::FromTyped(
      [](int, Array<int>, Optional<Tensor>, TensorView, String, Map<String, int>) { return 1.0; });
  CHECK_EQ(Message([&] { g(1, Array<Any>{"x"}, 3, 4, 5, 6); }),
           "TypeError: Mismatched type on argument #1 when calling: `(0: int, 1: Array<int>, "
           "2: Optional<ffi.Tensor>, 3: DLTensor*, 4: str, 5: Map<str, int>) -> float`. "
           "Expected `Array<int>` but got `Array[index 0: ffi.SmallStr]`");
}

TEST(functions_never_have_a_cpp_call) {
  Function typed = Function::FromTyped([](int x) { return x; });
  Function packed =
      Function::FromPacked([](PackedArgs args, Any* result) { *result = args.size(); });
  CHECK(typed->cpp_call == nullptr && packed->cpp_call == nullptr);
  CHECK_EQ(packed(1, 2, 3).cast<int>(), 3);
  CHECK_EQ(Message([] { Function()(1); }), "TypeError: calling a Function that is null");
}

TEST(typed_function_and_callbacks) {
  TypedFunction<int(int)> twice = [](int x) { return 2 * x; };
  CHECK_EQ(twice(4), 8);
  Function apply = Function::FromTyped([](TypedFunction<int(int)> f, int x) { return f(x); });
  CHECK_EQ(apply(twice, 5).cast<int>(), 10);
  CHECK_EQ(TypedFunction<int(String)>::TypeSchema(),
           std::string("{\"type\":\"ffi.Function\",\"named_args\":{\"return\":[{\"type\":\"int\"}],"
                       "\"params\":[{\"type\":\"ffi.String\"}]}}"));
}

TEST(extern_c_function_runs_its_deleter_once) {
  static int deleted = 0;
  auto call = [](void* self, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
    result->type_index = kTVMFFIInt;
    result->v_int64 = *static_cast<int*>(self);
    return 0;
  };
  int state = 42;
  {
    Function f = Function::FromExternC(&state, call, [](void*) { ++deleted; });
    CHECK_EQ(f().cast<int>(), 42);
  }
  CHECK_EQ(deleted, 1);
}

TEST(global_functions) {
  Function::SetGlobal("header_test.f", Function::FromTyped([](int x) { return x + 1; }));
  CHECK_EQ(Function::GetGlobalRequired("header_test.f")(1).cast<int>(), 2);
  CHECK(!Function::GetGlobal("header_test.unknown").has_value());
  CHECK_EQ(Message([] { Function::GetGlobalRequired("header_test.unknown"); }),
           "ValueError: Function header_test.unknown not found");
  CHECK_EQ(Message([] { Function::SetGlobal("header_test.f", Function(nullptr)); }).substr(0, 13),
           "RuntimeError:");
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def(
          "header_test.add", [](int a, int b) { return a + b; }, "Adds.")
      .def_packed("header_test.count", [](PackedArgs args, Any* result) { *result = args.size(); });
}
TVM_FFI_STATIC_INIT_BLOCK({
  int a = 1, b = 2;
  reflection::GlobalDef().def("header_test.old", [sum = a + b] { return sum; });
});

TEST(static_init_blocks_of_both_spellings_register_functions) {
  CHECK_EQ(Function::GetGlobalRequired("header_test.add")(1, 2).cast<int>(), 3);
  CHECK_EQ(Function::GetGlobalRequired("header_test.count")(1, 2).cast<int>(), 2);
  CHECK_EQ(Function::GetGlobalRequired("header_test.old")().cast<int>(), 3);
}

int Thrower(int how) {
  if (how == 0) TVM_FFI_THROW(ValueError) << "bad " << how;
  if (how == 1) throw std::out_of_range("std");
  if (how == 2) throw 2;
  if (how == 6) throw std::bad_alloc();
  TVM_FFI_CHECK(how != 3, KeyError) << "three";
  TVM_FFI_ICHECK_EQ(how, 5) << "five";
  if (how == 5) throw EnvErrorAlreadySet();
  return how;
}

TEST(every_exception_arrives_as_an_error) {
  Function f = Function::FromTyped(Thrower);
  CHECK_EQ(Message([&] { f(0); }), "ValueError: bad 0");
  CHECK_EQ(Message([&] { f(1); }), "InternalError: std");
  CHECK_EQ(Message([&] { f(2); }), "InternalError: an exception that is no std::exception");
  CHECK_EQ(Message([&] { f(6); }), "MemoryError: std::bad_alloc");
  CHECK_EQ(Message([&] { f(3); }), "KeyError: Check failed: (how != 3) is false: three");
  CHECK_EQ(Message([&] { f(4); }), "InternalError: Check failed: how == 5 (4 vs. 5) : five");
  bool caught = false;
  try {
    f(5);
  } catch (const EnvErrorAlreadySet&) {
    caught = true;
  }
  CHECK(caught);
}

TEST(error_names_the_frames_that_it_came_through) {
  try {
    Function::FromTyped(Thrower)(0);
  } catch (const Error& error) {
    CHECK(error.backtrace().find("in int Thrower(int)") != std::string::npos ||
          error.backtrace().find("Thrower") != std::string::npos);
    CHECK(error.FullMessage().find("ValueError: bad 0") != std::string::npos);
    TVMFFIByteArray line = ToByteArray("  File \"k.cc\", line 1, in k\n");
    error.UpdateBacktrace(&line, kTVMFFIBacktraceUpdateModeAppend);
    std::string text = error.TracebackMostRecentCallLast();
    CHECK_EQ(text.substr(0, 28), std::string("  File \"k.cc\", line 1, in k\n"));
    return;
  }
  CHECK(false);
}

TEST(error_keeps_its_cause) {
  Error cause("KeyError", "inner", "");
  Error error("ValueError", "outer", "", cause, std::nullopt);
  CHECK_EQ(error.cause_chain()->kind(), std::string("KeyError"));
  CHECK(!error.extra_context().has_value());
  CHECK_EQ(std::string(error.what()), std::string("outer"));
}

class PointObj : public Object {
 public:
  int64_t x = 0;
  double y = 0;
  PointObj() = default;
  PointObj(int64_t x, double y) : x(x), y(y) {}
  double Sum() const { return static_cast<double>(x) + y; }
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO("header_test.Point", PointObj, Object);
};
class NamedPointObj : public PointObj {
 public:
  String name;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("header_test.NamedPoint", NamedPointObj, PointObj);
};
class Point : public ObjectRef {
 public:
  Point(int64_t x, double y) : ObjectRef(make_object<PointObj>(x, y)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Point, ObjectRef, PointObj);
};

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::ObjectDef<PointObj>()
      .def(refl::init<int64_t, double>())
      .def_ro("x", &PointObj::x, "The abscissa.")
      .def_rw("y", &PointObj::y, refl::default_value(2.5))
      .def("sum", &PointObj::Sum)
      .def_static("origin", [] { return Point(0, 0); });
}

TEST(objects_derive_and_are_told_apart) {
  ObjectRef named(make_object<NamedPointObj>());
  CHECK(named.as<PointObj>() != nullptr && named.as<NamedPointObj>() != nullptr);
  CHECK(ObjectRef(Point(1, 2)).as<NamedPointObj>() == nullptr);
  CHECK_EQ(named->GetTypeKey(), std::string("header_test.NamedPoint"));
  Function f = Function::FromTyped([](Point p) { return p->x; });
  CHECK_EQ(f(Point(7, 0)).cast<int>(), 7);
  CHECK_EQ(f(named).cast<int>(), 0);
  CHECK_EQ(Message([&] { f(nullptr); }),
           "TypeError: Mismatched type on argument #0 when calling: `(0: header_test.Point) -> "
           "int`. Expected `header_test.Point` but got `None`");
  Function by_pointer = Function::FromTyped([](const PointObj* p) { return p->Sum(); });
  CHECK_EQ(by_pointer(Point(1, 2)).cast<double>(), 3.0);
}

TEST(weak_pointer_sees_the_end_of_its_object) {
  ObjectPtr<PointObj> point = make_object<PointObj>(1, 2.0);
  WeakObjectPtr<PointObj> weak = point;
  CHECK_EQ(weak.lock()->x, int64_t{1});
  point.reset();
  CHECK(weak.expired() && weak.lock() == nullptr);
}

TEST(reflection_reads_writes_calls_and_creates) {
  Point point(3, 4.0);
  CHECK_EQ(reflection::FieldGetter("header_test.Point", "x")(point).cast<int>(), 3);
  reflection::FieldSetter("header_test.Point", "y")(point, 6);
  CHECK_EQ(reflection::GetMethod("header_test.Point", "sum")(point).cast<double>(), 9.0);
  reflection::ObjectCreator create("header_test.Point");
  CHECK_EQ(create({{"x", 5}}).cast<Point>()->y, 2.5);
  CHECK_EQ(Message([&] { create({}); }).substr(0, 10), "TypeError:");
  CHECK_EQ(Message([&] { create({{"x", 5}, {"z", 1}}); }),
           "TypeError: Type `header_test.Point` does not have field `z`");
  CHECK_EQ(Message([] { reflection::GetFieldInfo("header_test.Point", "z"); }),
           "RuntimeError: Cannot find field `z` in type `header_test.Point`");
}

class AdderObj : public ModuleObj {
 public:
  explicit AdderObj(int by) : by_(by) {}
  const char* kind() const final { return "adder"; }
  int GetPropertyMask() const final { return Module::kRunnable; }
  Optional<Function> GetFunction(const String& name) final {
    if (name != "add") return Function(nullptr);
    ObjectPtr<Object> self = GetObjectPtr<Object>(this);
    return Function::FromTyped([this, self](int x) { return x + by_; });
  }

 private:
  int by_;
};

TEST(module_of_a_new_kind_is_called_by_the_runtime) {
  Module inner(make_object<AdderObj>(10));
  Module outer(make_object<AdderObj>(1));
  outer->ImportModule(inner);
  CHECK_EQ(outer->GetFunction("add", true).value()(1).cast<int>(), 2);
  CHECK(!outer->GetFunction("other", true).has_value());
  Function get = Function::GetGlobalRequired("ffi.ModuleGetFunction");
  CHECK_EQ(get(inner, "add", false).cast<Function>()(1).cast<int>(), 11);
  CHECK_EQ(Message([&] { inner->ImportModule(outer); }),
           "RuntimeError: Cyclic dependency during import");
  CHECK_EQ(Message([&] { inner->SaveToBytes(); }).substr(0, 13), "RuntimeError:");
  outer->ClearImports();
  CHECK_EQ(inner.use_count(), 1);
}

TEST(modules_that_share_imports_are_asked_once) {
  // Each of a level's modules imports both of the next level: there are 2^64 paths.
  Module left(make_object<AdderObj>(0));
  Module right(make_object<AdderObj>(1));
  for (int level = 0; level < 64; ++level) {
    Module new_left(make_object<AdderObj>(0));
    Module new_right(make_object<AdderObj>(1));
    for (const Module& module : {new_left, new_right}) {
      module->ImportModule(left);
      module->ImportModule(right);
    }
    left = new_left;
    right = new_right;
  }
  CHECK(!left->GetFunction("other", true).has_value());
  CHECK(!left->ImplementsFunction("other", true));
  CHECK_EQ(right->GetFunction("add", true).value()(1).cast<int>(), 2);
}
