// SPDX-License-Identifier: Apache-2.0
// extra/dataclass.h, and the runtime's part of it.
#include <tvm/ffi/extra/dataclass.h>
#include <tvm/ffi/extra/stl.h>
#include <tvm/ffi/reflection/access_path.h>

#include <cmath>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "header.h"

namespace refl = tvm::ffi::reflection;

class BoxObj : public Object {
 public:
  int64_t size = 0;
  Any content;
  String note;
  BoxObj() = default;
  BoxObj(int64_t size, Any content) : size(size), content(std::move(content)), note("n") {}
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.dataclass.Box", BoxObj, Object);
};
ObjectRef Box(int64_t size, Any content) {
  return ObjectRef(make_object<BoxObj>(size, std::move(content)));
}

class ModuloObj : public Object {
 public:
  int64_t value = 0;
  ModuloObj() = default;
  explicit ModuloObj(int64_t value) : value(value) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.dataclass.Modulo", ModuloObj, Object);
};
ObjectRef Modulo(int64_t value) { return ObjectRef(make_object<ModuloObj>(value)); }

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<BoxObj>()
      .def_rw("size", &BoxObj::size)
      .def_rw("content", &BoxObj::content)
      .def_rw("note", &BoxObj::note, refl::repr(false), refl::compare(false), refl::hash(false));
  refl::ObjectDef<ModuloObj>().def_ro("value", &ModuloObj::value);
  refl::TypeAttrDef<ModuloObj>()
      .def(type_attr::kRepr.name,
           [](const ModuloObj* self, Function repr) {
             return "mod " + repr(self->value % 10).cast<String>();
           })
      .def(type_attr::kEq.name,
           [](const ModuloObj* a, const ModuloObj* b, Function equal) {
             return equal(a->value % 10, b->value % 10).cast<bool>();
           })
      .def(type_attr::kCompare.name,
           [](const ModuloObj* a, const ModuloObj* b, Function compare) {
             return compare(a->value % 10, b->value % 10).cast<int>();
           })
      .def(type_attr::kHash.name, [](const ModuloObj* self, Function hash) {
        return hash(self->value % 10).cast<int64_t>();
      });
}

/// Its getters make what they give: nothing else keeps it.
class RowsObj : public Object {
 public:
  std::vector<int64_t> first, second;
  std::string note, unit;
  RowsObj() = default;
  RowsObj(std::vector<int64_t> first, std::vector<int64_t> second, std::string unit)
      : first(std::move(first)),
        second(std::move(second)),
        note("a text that is too long to be kept in place"),
        unit(std::move(unit)) {}
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.dataclass.Rows", RowsObj, Object);
};
Any Rows(const char* unit) {
  return ObjectRef(
      make_object<RowsObj>(std::vector<int64_t>{1, 2, 3}, std::vector<int64_t>{7, 8, 9}, unit));
}
Any Nested(Any value, int levels) {
  for (int i = 0; i < levels; ++i) value = Array<Any>{value};
  return value;
}

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<RowsObj>()
      .def_rw("first", &RowsObj::first)
      .def_rw("second", &RowsObj::second)
      .def_rw("note", &RowsObj::note)
      .def_rw("unit", &RowsObj::unit);
}

TEST(fields_that_getters_make_are_copied_and_compared_each) {
  const char* units[] = {"kilometres, which are long", "centimetres, which are not"};
  const Any copy = DeepCopy(Rows(units[0]));
  CHECK(copy.as<RowsObj>()->first == (std::vector<int64_t>{1, 2, 3}));
  CHECK(copy.as<RowsObj>()->second == (std::vector<int64_t>{7, 8, 9}));
  for (int levels : {0, 14, 15, 40}) {
    CHECK(RecursiveEq(Nested(Rows(units[0]), levels), Nested(Rows(units[0]), levels)));
    CHECK(!RecursiveEq(Nested(Rows(units[0]), levels), Nested(Rows(units[1]), levels)));
    CHECK(RecursiveGt(Nested(Rows(units[0]), levels), Nested(Rows(units[1]), levels)));
  }
}

TEST(shared_values_are_no_cycle) {
  const Array<Any> a{1}, b{1};
  for (int levels : {0, 14, 15, 40}) {
    CHECK(RecursiveLe(Nested(Array<Any>{a, a}, levels), Nested(Array<Any>{b, b}, levels)));
  }
}

TEST(repr_is_that_of_python) {
  CHECK_EQ(std::string(ReprPrint(nullptr)), std::string("None"));
  CHECK_EQ(std::string(ReprPrint(Array<Any>{true, 1, 2.5, "a\"\u00e9", Bytes("\x01", 1)})),
           std::string("(True, 1, 2.5, \"a\\\"\\u00e9\", b\"\\x01\")"));
  CHECK_EQ(std::string(ReprPrint(Array<int>{1})), std::string("(1,)"));
  CHECK_EQ(std::string(ReprPrint(Map<String, Any>{{"k", List<int>{1, 2}}})),
           std::string("{\"k\": [1, 2]}"));
  CHECK_EQ(std::string(ReprPrint(
               Array<Any>{Shape{2, 3}, DLDataType{kDLFloat, 32, 1}, DLDevice{kDLCUDA, 1}})),
           std::string("(Shape(2, 3), float32, cuda:1)"));
  CHECK_EQ(std::string(ReprPrint(Box(1, Modulo(12)))),
           std::string("test.dataclass.Box(size=1, content=mod 2)"));
  CHECK_EQ(std::string(ReprPrint(refl::AccessPath::Root()->Attr("a")->ArrayItemMissing(2))),
           std::string("<root>.a[<missing:2>]"));
  List<Any> cycle{1};
  cycle.push_back(cycle);
  CHECK_EQ(std::string(ReprPrint(cycle)), std::string("[1, ...]"));
  cycle.clear();
  std::ostringstream os;
  os << Any(1) << Optional<int>() << Variant<int, String>(String("v"));
  CHECK_EQ(os.str(), std::string("1None\"v\""));
}

TEST(repr_names_the_markers) {
  const auto text = [](const char* marker) {
    return std::string(ReprPrint(Function::GetGlobalRequired(marker)()));
  };
  CHECK_EQ(text("ffi.GetInvalidObject"), std::string("<MISSING>"));
  CHECK_EQ(text("ffi.GetKwargsObject"), std::string("<KWARGS>"));
}

TEST(deep_copies_share_what_the_original_shared) {
  ObjectRef inner = Box(1, "text");
  Array<Any> original{inner, inner, List<Any>{inner}};
  auto copy = DeepCopy(original).cast<Array<Any>>();
  CHECK(copy[0].same_as(copy[1]) && !copy[0].same_as(original[0]));
  CHECK(copy[2].cast<List<Any>>()[0].same_as(copy[0]));
  const_cast<BoxObj*>(copy[0].as<BoxObj>())->size = 5;
  CHECK_EQ(inner.as<BoxObj>()->size, int64_t{1});
  List<Any> cycle;
  cycle.push_back(cycle);
  auto again = DeepCopy(cycle).cast<List<Any>>();
  CHECK(again[0].same_as(again) && !again.same_as(cycle));
  cycle.clear();
  again.clear();
  Function function = Function::FromTyped([] {});
  CHECK(Message([&] { DeepCopy(function); }).find("ffi.Function") != std::string::npos);
}

TEST(values_are_equal_ordered_and_hashed_by_content) {
  CHECK(RecursiveEq(Box(1, Array<int>{1}), Box(1, Array<int>{1})));
  CHECK(!RecursiveEq(Box(1, 2), Box(1, 3)) && RecursiveLt(Box(1, 2), Box(1, 3)));
  CHECK_EQ(RecursiveHash(Box(1, 2)), RecursiveHash(Box(1, 2)));
  CHECK(RecursiveHash(Box(1, 2)) != RecursiveHash(Box(2, 1)));
  CHECK(RecursiveEq(Modulo(12), Modulo(2)) && RecursiveGt(Modulo(13), Modulo(2)));
  CHECK_EQ(RecursiveHash(Modulo(12)), RecursiveHash(Modulo(2)));
  CHECK(RecursiveLt(Array<int>{1, 2}, Array<int>{1, 2, 3}) && RecursiveLe("a", "b"));
  CHECK(RecursiveLt(nullptr, 1) && RecursiveGe(2, 2));
  CHECK(RecursiveEq(std::nan(""), std::nan("")) && RecursiveEq(0.0, -0.0));
  CHECK_EQ(RecursiveHash(0.0), RecursiveHash(-0.0));
  CHECK(!RecursiveEq(1, 1.0) && !RecursiveEq("1", 1));
  CHECK(RecursiveEq(Map<String, int>{{"a", 1}, {"b", 2}}, Map<String, int>{{"b", 2}, {"a", 1}}));
  CHECK_EQ(Message([] { RecursiveLt(1, 2.0); }),
           "TypeError: Cannot compare values of different types: int vs float");
  CHECK_EQ(Message([] { RecursiveLt(std::nan(""), 1.0); }), "TypeError: Cannot order NaN values");
  CHECK_EQ(Message([] { RecursiveLt(Map<String, int>{{"a", 1}}, Map<String, int>{{"a", 2}}); }),
           "TypeError: Cannot order Map/Dict values");
}

int Double(void* factor, const TVMFFIAny* value, TVMFFIAny* result) {
  if (value->type_index != kTVMFFIInt) return TVMFFIAnyViewToOwnedAny(value, result);
  *result = *value;
  result->v_int64 *= *static_cast<int64_t*>(factor);
  return 0;
}

/// A type with a number, a value and an object, as a host language defines it.
struct HostType {
  int64_t factor = 2;
  int32_t index;

  explicit HostType(const char* key) {
    TVMFFIByteArray name = refl::AsByteArray(key);
    index = TVMFFITypeGetOrAllocIndex(&name, -1, 1, 0, 1, kTVMFFIObject);
    AddField("number", 24, 8, kTVMFFIInt);
    AddField("value", 32, 16, kTVMFFIAny);
    AddField("object", 48, 8, kTVMFFIObject);
  }
  void AddField(const char* name, int64_t offset, int64_t size, int32_t type) {
    auto getter = Function::GetGlobalRequired("ffi.MakeFieldGetter")(type).cast<int64_t>();
    auto setter = Function::GetGlobalRequired("ffi.MakeFieldSetter")(
        type, reinterpret_cast<int64_t>(&factor), reinterpret_cast<int64_t>(&Double));
    TVMFFIFieldInfo info{};
    info.name = refl::AsByteArray(name);
    info.doc = info.metadata = refl::AsByteArray("");
    info.flags = kTVMFFIFieldFlagBitMaskWritable | kTVMFFIFieldFlagBitSetterIsFunctionObj;
    info.size = size;
    info.alignment = 8;
    info.offset = offset;
    info.getter = reinterpret_cast<TVMFFIFieldGetter>(getter);
    Function function = setter.cast<Function>();
    info.setter = AnyView(function).CopyToTVMFFIAny().v_obj;
    info.field_static_type_index = type;
    CHECK_EQ(TVMFFITypeRegisterField(index, &info), 0);
  }
  void Register(int32_t size) {
    Function::GetGlobalRequired("ffi._PyClassRegisterTypeAttrColumns")(index, size);
  }
};

TEST(objects_of_types_that_a_host_language_defines_own_what_is_in_them) {
  HostType type("test.dataclass.Host");
  type.Register(56);
  refl::ObjectCreator create(TVMFFIGetTypeInfo(type.index));
  ObjectRef held = Box(1, 2);
  auto made = create({{"number", 21}, {"value", held}, {"object", held}}).cast<ObjectRef>();
  refl::FieldGetter number("test.dataclass.Host", "number");
  refl::FieldGetter object("test.dataclass.Host", "object");
  refl::FieldSetter set("test.dataclass.Host", "object");
  CHECK_EQ(number(made).cast<int64_t>(), 42);
  CHECK_EQ(held.use_count(), 3);
  const TVMFFIAny* attribute = tvm::ffi::detail::OptTypeAttr("__ffi_shallow_copy__", type.index);
  auto copy = AnyView::CopyFromTVMFFIAny(*attribute).cast<Function>();
  auto twin = copy(made).cast<ObjectRef>();
  CHECK_EQ(held.use_count(), 5);
  set(twin, nullptr);
  CHECK(object(twin) == nullptr);
  CHECK_EQ(held.use_count(), 4);
  if (IsBundled()) CHECK(Message([&] { copy(held); }).find("TypeError: ") == 0);
  CHECK(Message([&] { set(twin, "text"); }).find("TypeError: ") == 0);
  CHECK(RecursiveEq(create({{"number", 1}, {"value", 1}, {"object", held}}),
                    create({{"number", 1}, {"value", 1}, {"object", held}})));
  made = ObjectRef();
  twin = ObjectRef();
  CHECK_EQ(held.use_count(), 1);
}

TEST(fields_outside_of_an_object_are_refused) {
  HostType small("test.dataclass.Small");
  if (IsBundled()) {
    CHECK(Message([&] { small.Register(48); }).find("`object`: expected a place") !=
          std::string::npos);
    CHECK(Message([&] { small.Register(8); }).find("expected the size of an object") !=
          std::string::npos);
  }
  small.Register(56);
}

TEST(cycles_through_immutable_containers_are_copied_as_cycles) {
  ObjectRef box = Box(1, nullptr);
  Array<Any> ring{box, Map<String, Any>{{"box", box}}};
  refl::FieldSetter set("test.dataclass.Box", "content");
  refl::FieldGetter content("test.dataclass.Box", "content");
  set(box, ring);
  auto copy = DeepCopy(ring).cast<Array<Any>>();
  CHECK(!copy.same_as(ring));
  CHECK(content(copy[0].cast<ObjectRef>()).same_as(Any(copy)));
  CHECK((copy[1].cast<Map<String, Any>>()["box"].same_as(copy[0])));
  copy.push_back(3);  // a copy of its own: the other one is in use
  CHECK_EQ(content(copy[0].cast<ObjectRef>()).cast<Array<Any>>().size(), 2);
  Map<String, Any> map{{"box", box}};
  auto copied = DeepCopy(map).cast<Map<String, Any>>();
  copied.Set("more", 1);
  CHECK_EQ(copied.size(), 2);
  CHECK(Message([&] { RecursiveLt(ring, copy); }).find("ValueError: ") == 0 ||
        RecursiveEq(ring, ring));
  set(box, nullptr);
  set(copy[0].cast<ObjectRef>(), nullptr);
  set(copied["box"].cast<ObjectRef>(), nullptr);
}
