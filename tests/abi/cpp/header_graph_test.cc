// SPDX-License-Identifier: Apache-2.0
// JSON graphs, the order and hash of values by content, and where visitors failed.
#include <tvm/ffi/big_int.h>
#include <tvm/ffi/container/dict.h>
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/enum.h>
#include <tvm/ffi/extra/dataclass.h>
#include <tvm/ffi/extra/serialization.h>
#include <tvm/ffi/extra/structural_equal.h>
#include <tvm/ffi/extra/visit_error_context.h>
#include <tvm/ffi/reflection/enum_def.h>

#include "header.h"

namespace refl = tvm::ffi::reflection;

class NodeObj : public Object {
 public:
  int64_t number = 0;
  DLDataType dtype{kDLFloat, 32, 1};
  Any left;
  Any right;
  String name = "none";

  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.graph.Node", NodeObj, Object);
};
class Node : public ObjectRef {
 public:
  Node(int64_t number, Any left = nullptr, Any right = nullptr) {
    auto node = make_object<NodeObj>();
    node->number = number;
    node->left = std::move(left);
    node->right = std::move(right);
    data_ = std::move(node);
  }
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Node, ObjectRef, NodeObj);
};
class ColourObj : public EnumObj {
 public:
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.graph.Colour", ColourObj, EnumObj);
};

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<NodeObj>()
      .def_rw("number", &NodeObj::number)
      .def_rw("dtype", &NodeObj::dtype)
      .def_rw("left", &NodeObj::left)
      .def_rw("right", &NodeObj::right)
      .def_rw("name", &NodeObj::name, refl::default_value("none"));
  refl::ObjectDef<ColourObj>(refl::init(false));
  refl::EnumDef<ColourObj>("Red");
}

static std::string Graph(const Any& value) { return json::Stringify(ToJSONGraph(value)); }
static Any FromText(const std::string& text) { return FromJSONGraph(json::Parse(String(text))); }
static std::string Nodes(const std::string& nodes) {
  return "{\"root_index\":0,\"nodes\":[" + nodes + "]}";
}
static Any There(const Any& value) { return FromText(Graph(value)); }

TEST(plain_values_are_nodes_of_their_type) {
  CHECK_EQ(Graph(nullptr), Nodes(R"({"type":"None"})"));
  CHECK_EQ(Graph(7), Nodes(R"({"type":"int","data":7})"));
  CHECK_EQ(Graph(Bytes("ab")), Nodes(R"({"type":"ffi.Bytes","data":"YWI="})"));
  CHECK_EQ(Graph(DLDevice{kDLCUDA, 1}), Nodes(R"({"type":"Device","data":[2,1]})"));
  CHECK_EQ(Graph(Shape{2, 3}), Nodes(R"({"type":"ffi.Shape","data":[2,3]})"));
  CHECK_EQ(Graph(BigInt(1) << 64), Nodes(R"({"type":"ffi.BigInt","data":"18446744073709551616"})"));
}

TEST(values_come_back_from_their_graph) {
  Array<Any> values = {nullptr,
                       true,
                       -1,
                       2.5,
                       "text",
                       Bytes("\0x", 2),
                       Shape{1, 2},
                       DLDataType{kDLInt, 8, 4},
                       BigInt(3) << 99,
                       Map<Any, Any>{{"k", List<Any>{1}}, {2, "v"}},
                       Dict<Any, Any>{},
                       DLDevice{kDLCPU, 0}};
  CHECK(RecursiveEq(There(values), values));
  CHECK_EQ(ToJSONGraph(1, "about").cast<json::Object>().at("metadata").cast<String>(), "about");
}

TEST(fields_of_plain_types_are_stored_in_place) {
  CHECK_EQ(Graph(Node(5)),
           std::string(R"({"root_index":2,"nodes":[{"type":"None"},)"
                       R"({"type":"ffi.String","data":"none"},{"type":"test.graph.Node","data":)"
                       R"({"number":5,"dtype":"float32","left":0,"right":0,"name":1}}]})"));
  CHECK_EQ(There(Node(5)).cast<Node>()->number, int64_t{5});
}

TEST(what_is_shared_stays_shared) {
  Node inner(1);
  auto outer = There(Node(2, inner, Array<Any>{inner})).cast<Node>();
  CHECK(outer->left.same_as(outer->right.cast<Array<Any>>()[0]));
}

TEST(enum_instances_stay_the_same) {
  Any red = EnumObj::_GetByStrIndex<ColourObj>("Red");
  CHECK_EQ(Graph(red), Nodes(R"({"type":"test.graph.Colour","data":"Red"})"));
  CHECK(There(red).same_as(red));
}

TEST(missing_fields_take_their_default) {
  const char* data = R"({"number":1,"dtype":"int8","left":1,"right":1)";
  std::string node = std::string(R"({"type":"test.graph.Node","data":)") + data;
  Any made = FromText(Nodes(node + "}},{\"type\":\"None\"}"));
  CHECK_EQ(made.cast<Node>()->name, String("none"));
  CHECK_EQ(Message([] { FromText(Nodes(R"({"type":"test.graph.Node","data":{}})")); }),
           std::string("TypeError: Required field `number` not set in type `test.graph.Node`"));
}

TEST(malformed_graphs_are_refused) {
  for (const char* text : {
           "1",
           "{}",
           R"({"root_index":0})",
           R"({"root_index":1,"nodes":[{"type":"None"}]})",
           R"({"root_index":-1,"nodes":[{"type":"None"}]})",
           R"({"root_index":0,"nodes":[{"data":1}]})",
           R"({"root_index":0,"nodes":[{"type":"int"}]})",
           R"({"root_index":0,"nodes":[{"type":"int","data":"a"}]})",
           R"({"root_index":0,"nodes":[{"type":"ffi.Map","data":[0]}]})",
           R"({"root_index":0,"nodes":[{"type":"Device","data":[1]}]})",
           R"({"root_index":0,"nodes":[{"type":"ffi.BigInt","data":" 1"}]})",
           R"({"root_index":0,"nodes":[{"type":"ffi.Array","data":[5]}]})",
       }) {
    CHECK(Message([&] { FromText(text); }) != "no error");
  }
  CHECK_EQ(Message([] { ToJSONGraph(static_cast<void*>(nullptr)); }),
           std::string("RuntimeError: Cannot serialize type `void*`"));
}

TEST(node_inside_itself_is_refused) {
  // apache's runtime overflows the stack.
  if (std::string(std::getenv("GRAPHFFI_TEST_RUNTIME")) != "bundled") return;
  std::string message = Message([] { FromText(Nodes(R"({"type":"ffi.List","data":[0]})")); });
  CHECK_EQ(message, std::string("ValueError: the structure is nested too deeply or has a cycle"));
}

TEST(types_and_devices_have_an_order) {
  CHECK(RecursiveLt(DLDataType{kDLFloat, 32, 1}, DLDataType{kDLFloat, 64, 1}));
  CHECK(RecursiveLt(DLDataType{kDLInt, 64, 1}, DLDataType{kDLFloat, 32, 1}));
  CHECK(RecursiveLt(DLDevice{kDLCPU, 1}, DLDevice{kDLCUDA, 0}));
  CHECK(RecursiveGt(DLDevice{kDLCPU, 1}, DLDevice{kDLCPU, 0}));
}

TEST(big_integers_are_ordered_among_the_small) {
  BigInt big = BigInt(1) << 70;
  CHECK(RecursiveLt(-big, 1) && RecursiveLt(1, big) && RecursiveGt(big, -big));
  CHECK(RecursiveLt(Array<Any>{1, 5}, Array<Any>{1, big}));
  CHECK(!RecursiveEq(1, big));
  CHECK_EQ(Message([&] { RecursiveLt(1.0, big); }),
           std::string("TypeError: Cannot compare values of different types: float vs ffi.BigInt"));
}

TEST(maps_are_equal_or_have_no_order) {
  Map<Any, Any> map{{1, 2}};
  CHECK(!RecursiveLt(map, Map<Any, Any>{{1, 2}}) && RecursiveGe(map, Map<Any, Any>{{1, 2}}));
  CHECK_EQ(Message([&] { RecursiveLt(map, Map<Any, Any>{{1, 3}}); }),
           std::string("TypeError: Cannot order Map/Dict values"));
}

static List<Any> Cycle(int64_t length) {
  List<Any> first{0};
  List<Any> last = first;
  for (int64_t i = 1; i < length; ++i) last = List<Any>{0, last};
  first.push_back(last);
  return first;
}

TEST(cyclic_values_are_compared_and_hashed) {
  List<Any> one = Cycle(1), same = Cycle(1), two = Cycle(2), same_two = Cycle(2), other = Cycle(1);
  CHECK(RecursiveEq(one, same));
  CHECK(RecursiveEq(two, same_two));
  CHECK_EQ(RecursiveHash(one), RecursiveHash(same));
  other.Set(0, 1);
  CHECK(!RecursiveEq(one, other));
  for (List<Any> cycle : {one, same, two, same_two, other}) cycle.clear();
}

static void CompareDeepValues() {
  Any a = 1, b = 1, c = 2;
  for (int i = 0; i < 3000; ++i) {
    a = Array<Any>{a};
    b = Array<Any>{b};
    c = Array<Any>{c};
  }
  CHECK(RecursiveEq(a, b) && !RecursiveEq(a, c) && RecursiveLt(a, c));
  CHECK_EQ(RecursiveHash(a), RecursiveHash(b));
}
TEST(deep_values_are_compared_and_hashed) { RunOnLargeStack(CompareDeepValues); }

TEST(numbers_are_printed_as_streams_do) {
  CHECK_EQ(std::string(ReprPrint(Array<Any>{1.0, -0.0, 1e-5, 0.1, 123456789.0, BigInt(1) << 64})),
           std::string("(1, -0, 1e-05, 0.1, 1.23457e+08, 18446744073709551616)"));
  CHECK_EQ(std::string(ReprPrint(Bytes("\"\\"))), std::string("b\"\\x22\\x5c\""));
}

static VisitErrorContext Context(std::initializer_list<ObjectRef> innermost_first) {
  auto context = make_object<VisitErrorContextObj>();
  for (const ObjectRef& node : innermost_first) context->reverse_visit_pattern.push_back(node);
  return VisitErrorContext(context);
}
static std::string Paths(const ObjectRef& root, const VisitErrorContext& context,
                         bool allow_prefix = false) {
  std::string text;
  for (const auto& path : VisitErrorContext::FindAccessPaths(root, context, allow_prefix)) {
    text.append(std::string(ReprPrint(path))).append(" ");
  }
  return text;
}

TEST(failed_nodes_are_found_by_path) {
  Node leaf(1);
  Node middle(2, Array<Any>{0, leaf}, Map<Any, Any>{{"k", leaf}});
  Node root(3, 0, middle);
  CHECK_EQ(Paths(root, Context({leaf, middle, root})),
           std::string("<root>.right.left[1] <root>.right.right[\"k\"] "));
  CHECK_EQ(Paths(root, Context({leaf, leaf, root})),
           std::string("<root>.right.left[1] <root>.right.right[\"k\"] "));
  CHECK_EQ(Paths(root, Context({root})), std::string("<root> "));
}

TEST(unknown_nodes_are_found_as_far_as_they_lead) {
  Node middle(2);
  Node root(3, middle);
  VisitErrorContext context = Context({Node(9), middle, root});
  CHECK_EQ(Paths(root, context), std::string(""));
  CHECK_EQ(Paths(root, context, true), std::string("<root>.left "));
}
