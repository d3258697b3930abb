// SPDX-License-Identifier: Apache-2.0
// extra/structural_equal.h, structural_hash.h, structural_key.h, and the runtime's part of them.
#include <tvm/ffi/extra/structural_equal.h>
#include <tvm/ffi/extra/structural_hash.h>
#include <tvm/ffi/extra/structural_key.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "header.h"

namespace refl = tvm::ffi::reflection;

class VarObj : public Object {
 public:
  String name;
  explicit VarObj(String name) : name(std::move(name)) {}
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindFreeVar;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.structural.Var", VarObj, Object);
};
ObjectRef Var(const char* name) { return ObjectRef(make_object<VarObj>(name)); }

class LambdaObj : public Object {
 public:
  Array<ObjectRef> params;
  Any body;
  LambdaObj(Array<ObjectRef> params, Any body) : params(std::move(params)), body(std::move(body)) {}
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.structural.Lambda", LambdaObj, Object);
};
ObjectRef Lambda(Array<ObjectRef> params, Any body) {
  return ObjectRef(make_object<LambdaObj>(std::move(params), std::move(body)));
}

class OwnObj : public Object {
 public:
  int64_t value;
  explicit OwnObj(int64_t value) : value(value) {}
  bool SameParity(ObjectRef other, const Function& compare) const {
    return compare(value % 2, other.as<OwnObj>()->value % 2, 0, "value").cast<bool>();
  }
  int64_t Hash(int64_t seed, const Function& combine) const {
    return combine(value % 2, seed, 0).cast<int64_t>();
  }
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.structural.Own", OwnObj, Object);
};
ObjectRef Own(int64_t value) { return ObjectRef(make_object<OwnObj>(value)); }

class WrapObj : public Object {
 public:
  Any inside;
  explicit WrapObj(Any inside) : inside(std::move(inside)) {}
  bool Equal(ObjectRef other, const Function& compare) const {
    return compare(inside, other.as<WrapObj>()->inside, 0, "inside").cast<bool>();
  }
  int64_t Hash(int64_t seed, const Function& combine) const {
    return combine(inside, seed, 0).cast<int64_t>();
  }
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.structural.Wrap", WrapObj, Object);
};
ObjectRef Wrap(Any inside) { return ObjectRef(make_object<WrapObj>(std::move(inside))); }

class OpaqueObj : public Object {
 public:
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.structural.Opaque", OpaqueObj, Object);
};

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<VarObj>(refl::init(false))
      .def_ro("name", &VarObj::name, refl::AttachFieldFlag::SEqHashIgnore());
  refl::ObjectDef<LambdaObj>(refl::init(false))
      .def_ro("params", &LambdaObj::params, refl::AttachFieldFlag::SEqHashDefPattern())
      .def_ro("body", &LambdaObj::body);
  refl::ObjectDef<OwnObj>(refl::init(false)).def_ro("value", &OwnObj::value);
  refl::TypeAttrDef<OwnObj>()
      .def(type_attr::kSEqual.name, &OwnObj::SameParity)
      .def(type_attr::kSHash.name, &OwnObj::Hash);
  refl::ObjectDef<WrapObj>(refl::init(false)).def_ro("inside", &WrapObj::inside);
  refl::TypeAttrDef<WrapObj>()
      .def(type_attr::kSEqual.name, &WrapObj::Equal)
      .def(type_attr::kSHash.name, &WrapObj::Hash);
}

void CheckEqual(const Any& a, const Any& b) {
  CHECK(StructuralEqual()(a, b));
  CHECK_EQ(StructuralHash()(a), StructuralHash()(b));
  CHECK(!StructuralEqual::GetFirstMismatch(a, b).has_value());
}
void CheckDiffer(const Any& a, const Any& b) {
  CHECK(!StructuralEqual()(a, b));
  CHECK(StructuralHash()(a) != StructuralHash()(b));
}

TEST(values_and_containers_compare_by_content) {
  CheckEqual(1, 1);
  CheckDiffer(1, 1.0);
  CheckDiffer(0.0, -0.0);
  CheckEqual(std::nan("1"), std::nan("2"));
  CheckEqual("short", String("short"));
  CheckEqual(Array<Any>{1, "longer than seven", nullptr}, Array<Any>{1, "longer than seven", {}});
  CheckDiffer(Array<int>{1, 2}, Array<int>{1, 2, 3});
  CheckDiffer(Array<int>{1}, List<int>{1});
  CheckEqual(Map<String, int>{{"a", 1}, {"b", 2}}, Map<String, int>{{"b", 2}, {"a", 1}});
  CheckDiffer(Map<String, int>{{"a", 1}}, Map<String, int>{{"a", 2}});
  CheckEqual(Shape{1, 2}, Shape{1, 2});
  CheckDiffer(Shape{1, 2}, Shape{2, 1});
}

TEST(bound_variables_compare_by_where_they_are_used) {
  ObjectRef x = Var("x"), y = Var("y");
  CheckDiffer(x, y);
  CHECK(StructuralEqual::Equal(x, y, /*map_free_vars=*/true));
  CheckEqual(Lambda({x}, Array<Any>{x, 1}), Lambda({y}, Array<Any>{y, 1}));
  CheckEqual(Lambda({x, y}, x), Lambda({y, x}, y));
  CheckDiffer(Lambda({x, y}, x), Lambda({x, y}, y));
  CheckDiffer(Lambda({x}, x), Lambda({y}, x));
}

class BindObj : public Object {
 public:
  Any var, value;
  BindObj(Any var, Any value) : var(std::move(var)), value(std::move(value)) {}
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.structural.Bind", BindObj, Object);
};
Any Bind(Any var, Any value) {
  return ObjectRef(make_object<BindObj>(std::move(var), std::move(value)));
}

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<BindObj>(refl::init(false))
      .def_ro("var", &BindObj::var, refl::AttachFieldFlag::SEqHashDefSimple())
      .def_ro("value", &BindObj::value);
}

TEST(variables_within_the_nodes_of_a_definition_bind) {
  const Any v = Var("v"), w = Var("w");
  CheckEqual(Bind(Lambda({}, v), v), Bind(Lambda({}, w), w));
  CheckEqual(Bind(Array<Any>{Lambda({}, v)}, v), Bind(Array<Any>{Lambda({}, w)}, w));
  CheckDiffer(Bind(Lambda({}, 1), v), Bind(Lambda({}, 1), w));
  CheckEqual(Bind(Wrap(v), v), Bind(Wrap(w), w));  // a hook that names no region
}

TEST(variables_as_keys_have_the_hash_of_their_partners) {
  const Any v = Var("v"), w = Var("w");
  CheckEqual(Array<Any>{Bind(v, 5), Map<Any, Any>{{v, 6}}},
             Array<Any>{Bind(w, 5), Map<Any, Any>{{w, 6}}});
  CheckEqual(Map<Any, Any>{{1, Bind(v, 5)}, {v, 6}}, Map<Any, Any>{{1, Bind(w, 5)}, {w, 6}});
  const Any a = Map<Any, Any>{{v, v}}, b = Map<Any, Any>{{v, w}};
  CHECK(StructuralEqual::Equal(a, b, /*map_free_vars=*/true));
  CHECK_EQ(StructuralHash::Hash(a, true), StructuralHash::Hash(b, true));
  CheckDiffer(Map<Any, Any>{{1, v}, {2, w}}, Map<Any, Any>{{1, w}, {2, v}});
}

TEST(a_variable_as_key_is_the_partner_of_one_key) {
  const ObjectRef v = Var("v"), w = Var("w"), z = Var("z");
  const Any a = Lambda({v}, Map<Any, Any>{{v, 1}});
  const Any larger = Lambda({w}, Map<Any, Any>{{w, 1}, {v, 2}});
  CheckDiffer(a, larger);
  CheckDiffer(larger, a);
  CHECK(StructuralEqual::GetFirstMismatch(a, larger).has_value());
  if (!IsBundled()) return;  // apache's takes the first for equal to the second
  const Any both = Lambda({v}, Map<Any, Any>{{v, 1}, {w, 1}});
  const Any other = Lambda({w}, Map<Any, Any>{{w, 1}, {z, 5}});
  CHECK(!StructuralEqual()(both, other));
  CHECK(!StructuralEqual()(other, both));
}

TEST(free_variables_are_not_bound_to_others_later) {
  const Any v = Var("v"), w = Var("w");
  CHECK(!StructuralEqual()(Array<Any>{v, Bind(v, v)}, Array<Any>{v, Bind(w, w)}));
  CHECK(!StructuralEqual()(Array<Any>{v, Bind(v, 0), v}, Array<Any>{v, Bind(w, 0), w}));
  CheckEqual(Array<Any>{v, Bind(w, 0), w}, Array<Any>{v, Bind(w, 0), w});
}

static void CompareDeeplyNestedValues() {
  Any a = 1, b = 1, other = 2;
  for (int i = 0; i < 5000; ++i) {
    a = Array<Any>{a};
    b = Array<Any>{b};
    other = Array<Any>{other};
  }
  CHECK(StructuralEqual()(a, b) && !StructuralEqual()(a, other));
  CHECK_EQ(StructuralHash()(a), StructuralHash()(b));
}
TEST(values_may_be_nested_deeply) { RunOnLargeStack(CompareDeeplyNestedValues); }

TEST(first_mismatch_is_a_pair_of_paths) {
  ObjectRef x = Var("x");
  auto mismatch = StructuralEqual::GetFirstMismatch(Lambda({x}, Array<Any>{x, 1}),
                                                    Lambda({x}, Array<Any>{x, 2, 3}));
  refl::AccessPath path = refl::AccessPath::Root()->Attr("body")->ArrayItem(1);
  CHECK(mismatch.value().get<0>()->PathEqual(path) && mismatch.value().get<1>()->PathEqual(path));
  mismatch = StructuralEqual::GetFirstMismatch(Map<String, int>{}, Map<String, int>{{"k", 1}});
  CHECK(mismatch.value().get<0>()->PathEqual(refl::AccessPath::Root()->MapItemMissing("k")));
  CHECK(mismatch.value().get<1>()->PathEqual(refl::AccessPath::Root()->MapItem("k")));
}

TEST(types_may_compare_themselves) {
  CheckEqual(Own(1), Own(3));
  CheckDiffer(Own(1), Own(2));
  auto mismatch = StructuralEqual::GetFirstMismatch(Own(1), Own(2));
  CHECK(mismatch.value().get<0>()->PathEqual(refl::AccessPath::Root()->Attr("value")));
}

TEST(types_without_structure_are_refused) {
  ObjectRef a{make_object<OpaqueObj>()}, b{make_object<OpaqueObj>()};
  CHECK(Message([&] { StructuralEqual()(a, b); }).substr(0, 10) == "TypeError:");
  CHECK(Message([&] { StructuralHash()(a); }).substr(0, 10) == "TypeError:");
}

TEST(structural_keys_find_equal_structures) {
  Map<StructuralKey, int> map{{StructuralKey(Array<int>{1, 2}), 7}};
  CHECK_EQ(map.at(StructuralKey(Array<int>{1, 2})), 7);
  CHECK_EQ(map.count(StructuralKey(Array<int>{2, 1})), size_t{0});
  CHECK(StructuralKey(1) == StructuralKey(1) && StructuralKey(1) != StructuralKey(2));
}

TEST(cycles_end_in_an_error) {
  if (std::string(std::getenv("GRAPHFFI_TEST_RUNTIME")) != "bundled") return;
  List<Any> cycle;
  cycle.push_back(cycle);
  CHECK_EQ(Message([&] { StructuralHash()(cycle); }),
           "ValueError: the structure is nested too deeply or has a cycle");
  CHECK(Message([&] { StructuralEqual()(cycle, cycle); }) != "no error");
  cycle.clear();
}
