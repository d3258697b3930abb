// SPDX-License-Identifier: Apache-2.0
// Visits and changes of values by functions, as host languages ask the runtime for them.
#include <tvm/ffi/container/dict.h>
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/extra/dataclass.h>
#include <tvm/ffi/extra/visit_error_context.h>

#include "header.h"

namespace refl = tvm::ffi::reflection;
using Link = Tuple<int32_t, Function>;
using CallLinks = Array<Link>;
using MutateLink = Tuple<int32_t, Function, bool>;
using MutateLinks = Array<MutateLink>;

class BoxObj : public Object {
 public:
  Any content;
  Any ignored;

  static constexpr bool _type_mutable = true;
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.walk.Box", BoxObj, Object);
};
class Box : public ObjectRef {
 public:
  explicit Box(Any content) {
    auto box = make_object<BoxObj>();
    box->content = std::move(content);
    box->ignored = 1000;
    data_ = std::move(box);
  }
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Box, ObjectRef, BoxObj);
};

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<BoxObj>()
      .def_rw("content", &BoxObj::content)
      .def_rw("ignored", &BoxObj::ignored, refl::AttachFieldFlag::SEqHashIgnore());
}

static Any Global(const char* name, AnyView a, AnyView b) {
  return Function::GetGlobalRequired(name)(a, b);
}
static Any Walk(AnyView root, const CallLinks& links, int order) {
  return Function::GetGlobalRequired("ffi.StructuralWalk")(root, links, CallLinks(), order);
}
static Any MapBy(AnyView root, const CallLinks& links, int order) {
  return Function::GetGlobalRequired("ffi.StructuralMap")(root, links, CallLinks(), order);
}
static Any UnchangedMark() {
  TVMFFIAny mark = {kTVMFFIUnchanged, {0}, {0}};
  return detail::AnyUnsafe::MoveTVMFFIAnyToAny(&mark);
}
static Link AddOne() {
  return Link(kTVMFFIInt, Function::FromTyped([](int64_t number) { return number + 1; }));
}
static Any Nested() { return Array<Any>{1, Map<String, Any>{{"k", 2}}, Box(List<Any>{3})}; }

TEST(walks_meet_what_is_inside_in_either_order) {
  for (int post_order : {0, 1}) {
    std::string seen;
    Function note = Function::FromTyped(
        [&seen](AnyView value) { seen += value.as<int64_t>() ? "i" : value.GetTypeKey() + " "; });
    CHECK(Walk(Array<Any>{1, List<Any>{2}}, {Link(kTVMFFIAny, note)}, post_order) == nullptr);
    CHECK_EQ(seen, std::string(post_order ? "iiffi.List ffi.Array " : "ffi.Array iffi.List i"));
  }
}

TEST(walks_enter_fields_but_those_that_structure_ignores) {
  int64_t sum = 0;
  Function add = Function::FromTyped([&sum](int64_t number) { sum += number; });
  Walk(Nested(), {Link(kTVMFFIInt, add)}, 0);
  CHECK_EQ(sum, int64_t{6});
}

TEST(walks_skip_and_stop_where_asked) {
  int64_t calls = 0;
  Function count = Function::FromTyped([&calls](int64_t) { ++calls; });
  Function skip = Function::FromTyped([](AnyView) { return 1; });
  Walk(Nested(), {Link(kTVMFFIArray, skip), Link(kTVMFFIInt, count)}, 0);
  CHECK_EQ(calls, int64_t{0});
  Function stop = Function::FromTyped([](int64_t number) -> Any {
    if (number != 2) return nullptr;
    return Function::GetGlobalRequired("ffi.VisitInterrupt")("found");
  });
  Any interrupt = Walk(Nested(), {Link(kTVMFFIInt, stop)}, 0);
  CHECK_EQ(interrupt.type_index(), int32_t{kTVMFFIVisitInterrupt});
}

TEST(failing_walks_tell_where_they_were) {
  Function fail =
      Function::FromTyped([](int64_t) { TVM_FFI_THROW(ValueError) << "from the walk"; });
  Box inner(5);
  Array<Any> root{Box(List<Any>{inner})};
  try {
    Walk(root, {Link(kTVMFFIInt, fail)}, 0);
    CHECK(false);
  } catch (const Error& error) {
    CHECK_EQ(error.message(), std::string("from the walk"));
  }
}

TEST(visits_go_on_through_the_visitor) {
  int64_t sum = 0;
  Function add = Function::FromTyped([&sum](int64_t number, AnyView) { sum += number; });
  Function twice = Function::FromTyped([](AnyView value, AnyView visitor) {
    Global("ffi.StructuralVisitorDefaultVisit", visitor, value);
    return Global("ffi.StructuralVisitorDefaultVisit", visitor, value);
  });
  CallLinks links = {Link(kTVMFFIList, twice), Link(kTVMFFIInt, add)};
  CHECK(Global("ffi.StructuralVisit", Nested(), links) == nullptr);
  CHECK_EQ(sum, int64_t{1 + 2 + 3 + 3});
}

TEST(maps_copy_what_they_change_and_keep_the_rest) {
  for (int post_order : {0, 1}) {
    List<Any> same{"text"};
    Array<Any> root{1, same, Box(2)};
    auto mapped = MapBy(root, {AddOne()}, post_order).cast<Array<Any>>();
    CHECK_EQ(mapped[0].cast<int64_t>(), int64_t{2});
    CHECK(mapped[1].same_as(same));
    CHECK_EQ(mapped[2].cast<Box>()->content.cast<int64_t>(), int64_t{3});
    CHECK_EQ(root[0].cast<int64_t>(), int64_t{1});
    CHECK(MapBy(root, {Link(kTVMFFIBool, AddOne().get<1>())}, post_order).same_as(root));
  }
}

TEST(maps_take_unchanged_for_an_answer) {
  Link unchanged(kTVMFFIArray, Function::FromTyped([](AnyView) { return UnchangedMark(); }));
  for (int post_order : {0, 1}) {
    auto mapped = MapBy(Array<Any>{1}, {unchanged, AddOne()}, post_order).cast<Array<Any>>();
    CHECK_EQ(mapped[0].cast<int64_t>(), int64_t{2});
  }
}

TEST(mutations_go_on_through_the_mutator) {
  Function keep = Function::FromTyped([](AnyView value, AnyView) { return Any(value); });
  Function inside = Function::FromTyped([](AnyView value, AnyView mutator) {
    return Global("ffi.StructuralMutatorDefaultMutate", mutator, value);
  });
  Function add = Function::FromTyped([](int64_t number, AnyView, int64_t) { return number + 1; });
  MutateLinks links = {MutateLink(kTVMFFIMap, keep, false), MutateLink(kTVMFFIList, inside, false),
                       MutateLink(kTVMFFIInt, add, true)};
  auto mutated = Global("ffi.StructuralMutate", Nested(), links).cast<Array<Any>>();
  CHECK_EQ(std::string(ReprPrint(mutated[0])), std::string("2"));
  CHECK_EQ(std::string(ReprPrint(mutated[1])), std::string("{\"k\": 2}"));
  CHECK_EQ(std::string(ReprPrint(mutated[2].cast<Box>()->content)), std::string("[4]"));
}

TEST(regions_and_variables_are_those_of_the_mutator) {
  Function probe = Function::FromTyped([](AnyView value, AnyView mutator) {
    Function set = Function::GetGlobalRequired("ffi.StructuralMutatorVarRemapSet");
    CHECK(Global("ffi.StructuralMutatorVarRemapGet", mutator, value) == nullptr);
    set(mutator, value, 7);
    CHECK_EQ(Global("ffi.StructuralMutatorVarRemapGet", mutator, value).cast<int64_t>(),
             int64_t{7});
    CHECK_EQ(Message([&] { set(mutator, 1, 2); }).find("TypeError: "), size_t{0});
    Function region = Function::GetGlobalRequired("ffi.StructuralMutatorDefRegionKind");
    Function within = Function::FromTyped([&] { return region(mutator); });
    Function with = Function::GetGlobalRequired("ffi.StructuralMutatorWithDefRegionKind");
    return with(mutator, static_cast<int>(kTVMFFIDefRegionKindSimple), within);
  });
  MutateLinks links = {MutateLink(kTVMFFIList, probe, false)};
  Any kind = Global("ffi.StructuralMutate", List<Any>{1}, links);
  CHECK_EQ(kind.cast<int64_t>(), static_cast<int64_t>(kTVMFFIDefRegionKindSimple));
}
