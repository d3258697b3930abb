// SPDX-License-Identifier: Apache-2.0
// reflection/: registry.h, type_attr.h, native_function.h, overload.h, enum_def.h, access_path.h;
// enum.h.
#include <tvm/ffi/enum.h>
#include <tvm/ffi/reflection/access_path.h>
#include <tvm/ffi/reflection/creator.h>
#include <tvm/ffi/reflection/enum_def.h>
#include <tvm/ffi/reflection/native_function.h>
#include <tvm/ffi/reflection/overload.h>

#include "header.h"

namespace refl = tvm::ffi::reflection;

class VectorObj : public Object {
 public:
  int64_t x = 0;
  int64_t y = 0;
  String label;

  VectorObj() = default;
  VectorObj(int64_t x, int64_t y) : x(x), y(y) {}
  int64_t Scaled(int64_t factor) const { return factor * (x + y); }
  int64_t Scaled(int64_t factor, int64_t offset) const { return factor * (x + y) + offset; }

  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.reflection.Vector", VectorObj, Object);
};
class Vector : public ObjectRef {
 public:
  Vector(int64_t x, int64_t y) : ObjectRef(make_object<VectorObj>(x, y)) {}
  int64_t Product() const { return get()->x * get()->y; }
  void Clear() { (*this)->x = 0; }
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Vector, ObjectRef, VectorObj);
};

int64_t HashVector(const Any& value) { return value.as<VectorObj>()->x; }
bool EqualVectors(const Any& a, const Any& b) {
  return a.as<VectorObj>()->x == b.as<VectorObj>()->x;
}
int64_t Negative(const Any&) { TVM_FFI_THROW(ValueError) << "no hash"; }

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<VectorObj>()
      .def_rw("x", &VectorObj::x, "first")
      .def_rw("y", &VectorObj::y, refl::default_value(7))
      .def_rw("label", &VectorObj::label, refl::init(false),
              refl::DefaultFactory(Function::FromTyped([] { return String("new"); })))
      .def(refl::init<int64_t, int64_t>())
      .def("scaled", refl::overload_cast<int64_t>(&VectorObj::Scaled, refl::const_))
      .def("product", &Vector::Product)
      .def("clear", &Vector::Clear)
      .def_type_attr("test.reflection.unit", String("metre"))
      .def_convert<Vector>();
  refl::TypeAttrDef<VectorObj>()
      .native_fn_attr<&HashVector>(type_attr::kAnyHash)
      .native_fn_attr<&EqualVectors>(type_attr::kAnyEqual);
}

TEST(types_say_how_they_are_made_copied_and_converted) {
  int32_t index = VectorObj::RuntimeTypeIndex();
  auto attribute = [&](auto key) { return *key.ValueFrom(refl::TypeAttrColumn(key)[index]); };
  ObjectRef made = attribute(type_attr::kInit)(3, 4).cast<ObjectRef>();
  CHECK_EQ(made.as<VectorObj>()->y, 4);
  ObjectRef copy = attribute(type_attr::kShallowCopy)(made.get());
  CHECK(!copy.same_as(made));
  CHECK_EQ(copy.as<VectorObj>()->x, 3);
  CHECK(attribute(type_attr::kNew)().as<VectorObj>() != nullptr);
  CHECK(attribute(type_attr::kTypeFinal));
  CHECK(attribute(type_attr::kConvert)(made).cast<Vector>().same_as(made));
  CHECK_EQ(Message([&] { attribute(type_attr::kConvert)(1); }),
           "TypeError: Cannot cast from `int` to `test.reflection.Vector`");
  refl::AttrKey<String> unit{"test.reflection.unit"};
  CHECK(attribute(unit) == "metre");
  CHECK(!unit.ValueFrom(refl::TypeAttrColumn(unit)[kTVMFFIInt]).has_value());
  CHECK_EQ(Message([] { refl::TypeAttrColumn("test.reflection.none"); }).substr(0, 13),
           "RuntimeError:");
}

TEST(creator_takes_fields_defaults_and_factories) {
  refl::ObjectCreator creator("test.reflection.Vector");
  Vector vector = creator(Map<String, Any>{{"x", 1}}).cast<Vector>();
  CHECK_EQ(vector->x + vector->y, 8);
  CHECK(vector->label == "new");
  CHECK_EQ(Message([&] { creator(Map<String, Any>{}); }),
           "TypeError: Required field `x` not set in type `test.reflection.Vector`");
  CHECK_EQ(Message([&] { creator(Map<String, Any>{{"x", 1}, {"z", 1}}); }),
           "TypeError: Type `test.reflection.Vector` does not have field `z`");
  CHECK_EQ(refl::GetMethod("test.reflection.Vector", "scaled")(vector, 2).cast<int>(), 16);
  CHECK_EQ(refl::GetMethod("test.reflection.Vector", "product")(vector).cast<int>(), 7);
  refl::GetMethod("test.reflection.Vector", "clear")(vector);
  CHECK_EQ(vector->x, int64_t{0});
}

TEST(objects_with_a_hash_of_their_own_are_keys_by_value) {
  Map<ObjectRef, int> map{{Vector(1, 2), 10}, {Vector(2, 2), 20}};
  CHECK_EQ(map.at(Vector(1, 99)), 10);
  CHECK_EQ(map.size(), size_t{2});
  Function count = Function::GetGlobalRequired("ffi.MapCount");
  CHECK_EQ(count(map, Vector(2, 5)).cast<int>(), 1);
  CHECK_EQ(count(map, Vector(3, 5)).cast<int>(), 0);
}

TEST(native_functions_are_called_with_and_without_packing) {
  using Hash = refl::NativeFunction<int64_t(const Any&)>;
  Any value = Vector(5, 6);
  CHECK_EQ(Hash::FromNative<&HashVector>()(value), int64_t{5});
  Expected<int64_t> failed = Hash::FromNative<&Negative>().CallExpected(value);
  CHECK_EQ(failed.error().message(), std::string("no hash"));
  TypedFunction<int64_t(const Any&)> packed = [](const Any&) { return int64_t{9}; };
  CHECK_EQ(Hash(packed)(value), int64_t{9});
  Any stored = Hash(packed);
  CHECK_EQ(stored.cast<Hash>()(value), int64_t{9});
  CHECK_EQ(Any(Hash::FromNative<&HashVector>()).type_index(), int32_t{kTVMFFIOpaquePtr});
  TypedFunction<Expected<int64_t>(const Any&)> text =
      Function::FromTyped([](AnyView) { return String("text"); });
  CHECK_EQ(Hash(text).CallExpected(value).error().kind(), std::string("TypeError"));
  TypedFunction<int64_t(const Any&)> null;
  CHECK_EQ(Message([&] { Hash{null}; }).substr(0, 11), "ValueError:");
}

class OverloadedObj : public Object {
 public:
  int64_t value = 0;
  explicit OverloadedObj(int64_t value) : value(value) {}
  explicit OverloadedObj(String text) : value(static_cast<int64_t>(text.size())) {}
  int64_t Add(int64_t other) const { return value + other; }
  String Join(String other) const { return std::to_string(value) + other; }
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.reflection.Overloaded", OverloadedObj, Object);
};

TEST(overloads_are_chosen_by_their_arguments) {
  refl::OverloadObjectDef<OverloadedObj>()
      .def_ro("value", &OverloadedObj::value)
      .def(refl::init<int64_t>())
      .def(refl::init<String>())
      .def("add", &OverloadedObj::Add)
      .def("add", &OverloadedObj::Join)
      .def_static("single", [](int64_t x) { return x; });
  Function init = refl::GetMethod("test.reflection.Overloaded", "__ffi_init__");
  ObjectRef three = init(3).cast<ObjectRef>();
  CHECK_EQ(init("four").cast<ObjectRef>().as<OverloadedObj>()->value, 4);
  Function add = refl::GetMethod("test.reflection.Overloaded", "add");
  CHECK_EQ(add(three, 4).cast<int>(), 7);
  CHECK(add(three, "4").cast<String>() == "34");
  CHECK_EQ(Message([&] { add(three, nullptr); }),
           "TypeError: No matching overload found when calling: `test.reflection.Overloaded.add` "
           "with 2 arguments:\n"
           "Overload #0: Mismatched type on argument #1 when calling: "
           "`test.reflection.Overloaded.add (0: test.reflection.Overloaded, 1: int) -> int`. "
           "Expected `int` but got `None`\n"
           "Overload #1: Mismatched type on argument #1 when calling: "
           "`test.reflection.Overloaded.add (0: test.reflection.Overloaded, 1: str) -> str`. "
           "Expected `str` but got `None`");
  Function single = refl::GetMethod("test.reflection.Overloaded", "single");
  CHECK_EQ(Message([&] { single(String("x")); }),
           "TypeError: Mismatched type on argument #0 when calling: "
           "`test.reflection.Overloaded.single(0: int) -> int`. Expected `int` but got "
           "`ffi.SmallStr`");
}

class PlainObj : public Object {
 public:
  static constexpr bool _type_mutable = true;
  int64_t x = 0;
  int64_t scale = 0;
  String label;
  int64_t cached = 9;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.reflection.Plain", PlainObj, Object);
};

TEST(types_without_a_constructor_get_one_from_their_fields) {
  refl::ObjectDef<PlainObj>()
      .def_rw("scale", &PlainObj::scale, refl::default_value(2))
      .def_rw("x", &PlainObj::x)
      .def_rw("label", &PlainObj::label, refl::kw_only(true), refl::default_value("none"))
      .def_rw("cached", &PlainObj::cached, refl::init(false));
  const TVMFFIAny* attr = detail::OptTypeAttr("__ffi_init__", PlainObj::RuntimeTypeIndex());
  CHECK(attr != nullptr);
  Function init = AnyView::CopyFromTVMFFIAny(*attr).cast<Function>();
  Any keywords = Function::GetGlobalRequired("ffi.GetKwargsObject")();
  Any made = init(5);
  const auto* plain = made.as<PlainObj>();
  CHECK(plain->x == 5 && plain->scale == 2 && plain->label == "none" && plain->cached == 9);
  made = init(5, 6, keywords, "label", "some");
  plain = made.as<PlainObj>();
  CHECK(plain->x == 5 && plain->scale == 6 && plain->label == "some");
  const std::string name = "TypeError: test.reflection.Plain.__ffi_init__() ";
  CHECK_EQ(Message([&] { init(); }), name + "missing required argument: 'x'");
  CHECK_EQ(Message([&] { init(1, 2, 3); }),
           name + "takes at most 2 positional argument(s), but 3 were given");
  CHECK_EQ(Message([&] { init(1, keywords, "x", 2); }),
           name + "got multiple values for argument 'x'");
  CHECK_EQ(Message([&] { init(1, keywords, "cached", 2); }),
           name + "got an unexpected keyword argument 'cached'");
  CHECK_EQ(Message([&] { init(1, keywords, "label"); }),
           name + "KWARGS requires an even number of key-value arguments");
  CHECK(Message([&] { init("x"); }).rfind("TypeError: ", 0) == 0);
}

class ColourObj : public EnumObj {
 public:
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.reflection.Colour", ColourObj, EnumObj);
};

TEST(enum_instances_are_found_by_number_and_name) {
  CHECK(!refl::EnumDef<ColourObj>::IsDefined("red"));
  refl::EnumDef<ColourObj>("red").set_attr("hex", 0xFF0000);
  refl::EnumDef<ColourObj>("blue").set_attr("hex", 0x0000FF);
  CHECK(refl::EnumDef<ColourObj>::IsDefined("red"));
  Enum blue = EnumObj::_GetByStrIndex<ColourObj>("blue");
  CHECK_EQ(blue->_int_index, int64_t{1});
  CHECK(EnumObj::_GetByIntIndex<ColourObj>(1).same_as(blue));
  CHECK_EQ(Message([] { EnumObj::_GetByStrIndex<ColourObj>("green"); }),
           "ValueError: Enum `test.reflection.Colour` has no instance with index green");
  CHECK_EQ(Message([] { refl::EnumDef<ColourObj> again("red"); }),
           "ValueError: Duplicate enum index for type `test.reflection.Colour`");
  EnumState state = *detail::FindEnumState(ColourObj::RuntimeTypeIndex());
  CHECK_EQ(state->attrs.at("hex").at(blue).cast<int>(), 0x0000FF);
}

TEST(access_paths_share_what_they_have_in_common) {
  refl::AccessPath body = refl::AccessPath::Root()->Attr("body");
  refl::AccessPath item = body->ArrayItem(2);
  CHECK(body->IsPrefixOf(item) && !item->IsPrefixOf(body));
  CHECK(item->PathEqual(refl::AccessPath::FromSteps(item->ToSteps())));
  CHECK(!item->PathEqual(body->ArrayItem(3)) && !item->PathEqual(body->MapItem(2)));
  CHECK(item->GetParent().value().same_as(body));
  CHECK(!refl::AccessPath::Root()->GetParent().has_value());
  CHECK_EQ(item->ToSteps()[1]->key.cast<int>(), 2);
}

TEST(access_paths_of_a_wrong_depth_have_no_prefix) {
  refl::ObjectCreator make("ffi.reflection.AccessPath");
  Any made = make({{"parent", nullptr}, {"step", nullptr}, {"depth", 5}});
  auto wrong = made.cast<refl::AccessPath>();
  CHECK(!refl::AccessPath::Root()->IsPrefixOf(wrong));
  refl::AccessPath deep = refl::AccessPath::Root();
  for (int i = 0; i < 5; ++i) deep = deep->ArrayItem(i);
  CHECK(!deep->PathEqual(wrong) && !deep->IsPrefixOf(wrong));
}

TEST(fields_without_a_setter_are_not_set) {
  TVMFFIByteArray key = ToByteArray("test.reflection.ReadOnly");
  int32_t type = TVMFFITypeGetOrAllocIndex(&key, -1, 1, 0, 1, kTVMFFIObject);
  TVMFFIFieldInfo field{};
  field.name = ToByteArray("x");
  CHECK_EQ(TVMFFITypeRegisterField(type, &field), 0);
  TVMFFIObject object = {(uint64_t{1} << 32) | 1, type, 0, {nullptr}};
  refl::FieldSetter set("test.reflection.ReadOnly", "x");
  CHECK_EQ(Message([&] { set(reinterpret_cast<Object*>(&object), 1); }),
           std::string("TypeError: field `x`: expected a setter, got none"));
}
