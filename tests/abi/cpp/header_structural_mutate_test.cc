// SPDX-License-Identifier: Apache-2.0
// extra/structural_visit.h and extra/structural_mutate.h.
#include <tvm/ffi/extra/structural_mutate.h>

#include <string>
#include <vector>

#include "header.h"

namespace refl = tvm::ffi::reflection;

/// A node with two parts and a name, which comparison does not see.
class NodeObj : public Object {
 public:
  String name;
  Any left, right;
  NodeObj(String name, Any left, Any right)
      : name(std::move(name)), left(std::move(left)), right(std::move(right)) {}
  static constexpr bool _type_mutable = true;
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.mutate.Node", NodeObj, Object);
};
class Node : public ObjectRef {
 public:
  Node(String name, Any left, Any right)
      : ObjectRef(make_object<NodeObj>(std::move(name), std::move(left), std::move(right))) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Node, ObjectRef, NodeObj);
};

class VarObj : public Object {
 public:
  Any type;
  explicit VarObj(Any type) : type(std::move(type)) {}
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindFreeVar;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.mutate.Var", VarObj, Object);
};
class Var : public ObjectRef {
 public:
  explicit Var(Any type) : ObjectRef(make_object<VarObj>(std::move(type))) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Var, ObjectRef, VarObj);
};

/// Defines a variable and uses it.
class LetObj : public Object {
 public:
  Any var, body;
  LetObj(Any var, Any body) : var(std::move(var)), body(std::move(body)) {}
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.mutate.Let", LetObj, Object);
};
ObjectRef Let(Any var, Any body) {
  return ObjectRef(make_object<LetObj>(std::move(var), std::move(body)));
}

/// Has hooks of its own: visits and mutates its parts in the other order, and counts.
class PairObj : public Object {
 public:
  Any first, second;
  PairObj(Any first, Any second) : first(std::move(first)), second(std::move(second)) {}
  static inline int copies = 0, changes = 0;

  static Expected<Optional<VisitInterrupt>> Visit(StructuralVisitorObj* visitor,
                                                  AnyView value) noexcept {
    const auto* self = value.as<PairObj>();
    TVM_FFI_S_VISIT_MAYBE_EARLY_RETURN(visitor->VisitExpected(self->second));
    return visitor->VisitExpected(self->first);
  }
  static Expected<UnchangedOr<Any>> Mutate(StructuralMutatorObj* mutator, AnyView value) noexcept {
    const auto* self = value.as<PairObj>();
    TVM_FFI_S_MUTATE_ASSIGN_OR_RETURN(UnchangedOr<Any>, first,
                                      mutator->MutateExpected(self->first));
    TVM_FFI_S_MUTATE_ASSIGN_OR_RETURN(UnchangedOr<Any>, second,
                                      mutator->MutateExpected(self->second));
    if (first.UnchangedOrSameAs(self->first) && second.UnchangedOrSameAs(self->second)) {
      return Unchanged();
    }
    ++copies;
    return Any(make_object<PairObj>(std::move(first).ValueOrUnchanged(self->first),
                                    std::move(second).ValueOrUnchanged(self->second)));
  }
  static Expected<UnchangedOr<Any>> Change(StructuralMutatorObj* mutator, AnyView value) noexcept {
    auto* self = const_cast<PairObj*>(value.as<PairObj>());
    for (Any* part : {&self->first, &self->second}) {
      TVM_FFI_S_MUTATE_ASSIGN_OR_RETURN(UnchangedOr<Any>, mutated,
                                        mutator->MutateExpected(*part, InplaceMode::kAllow));
      *part = std::move(mutated).ValueOrUnchanged(std::move(*part));
    }
    ++changes;
    return Unchanged();
  }
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.mutate.Pair", PairObj, Object);
};
ObjectRef Pair(Any first, Any second) {
  return ObjectRef(make_object<PairObj>(std::move(first), std::move(second)));
}

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<NodeObj>(refl::init(false))
      .def_rw("name", &NodeObj::name, refl::AttachFieldFlag::SEqHashIgnore())
      .def_rw("left", &NodeObj::left)
      .def_ro("right", &NodeObj::right);
  refl::ObjectDef<VarObj>(refl::init(false)).def_ro("type", &VarObj::type);
  refl::ObjectDef<LetObj>(refl::init(false))
      .def_ro("var", &LetObj::var, refl::AttachFieldFlag::SEqHashDefSimple())
      .def_ro("body", &LetObj::body);
  refl::ObjectDef<PairObj>(refl::init(false)).def_ro("first", &PairObj::first);
  refl::TypeAttrDef<PairObj>()
      .native_fn_attr<&PairObj::Visit>(type_attr::kStructuralVisit)
      .native_fn_attr<&PairObj::Mutate>(type_attr::kStructuralMutate)
      .native_fn_attr<&PairObj::Change>(type_attr::kStructuralMaybeInplaceMutate);
}

template <WalkOrder order>
std::vector<int64_t> IntsOf(const Any& root) {
  std::vector<int64_t> seen;
  StructuralWalk<order>(
      root,
      [&](int64_t value) {
        seen.push_back(value);
        return WalkResult::Advance();
      },
      [&](const Node&) {
        seen.push_back(-1);
        return WalkResult::Advance();
      });
  return seen;
}

TEST(walks_see_parts_in_order) {
  const Node root("root", Node("inner", 1, 2), 3);
  CHECK(IntsOf<WalkOrder::kPreOrder>(root) == (std::vector<int64_t>{-1, -1, 1, 2, 3}));
  CHECK(IntsOf<WalkOrder::kPostOrder>(root) == (std::vector<int64_t>{1, 2, -1, 3, -1}));
  CHECK(IntsOf<WalkOrder::kPreOrder>(Pair(1, Pair(2, 3))) == (std::vector<int64_t>{3, 2, 1}));
  CHECK(IntsOf<WalkOrder::kPreOrder>(nullptr).empty());
}

TEST(a_walk_skips_and_stops_where_callbacks_say) {
  std::vector<int64_t> seen;
  const auto note = [&](int64_t value) -> Expected<WalkResult> {
    seen.push_back(value);
    if (value == 3) return WalkResult::Interrupt(VisitInterrupt(String("found")));
    return WalkResult::Advance();
  };
  const auto skip = [](const NodeObj* node) {
    return node->name == "dark" ? WalkResult::Skip() : WalkResult::Advance();
  };
  const Node root("root", Node("dark", 1, 2), Node("inner", 3, 4));
  Optional<VisitInterrupt> interrupt = StructuralWalk<WalkOrder::kPreOrder>(root, note, skip);
  CHECK_EQ(interrupt.value()->value.cast<String>(), "found");
  CHECK(seen == std::vector<int64_t>{3});
}

TEST(visits_go_where_callbacks_go) {
  std::vector<int64_t> seen;
  const Node root("root", Node("inner", 1, 2), 3);
  StructuralVisit(
      root,
      [](const Node& node, StructuralVisitorObj* visitor) {
        return visitor->VisitExpected(node->left);
      },
      [&](int64_t value, StructuralVisitorObj*) -> Optional<VisitInterrupt> {
        seen.push_back(value);
        return std::nullopt;
      });
  CHECK(seen == std::vector<int64_t>{1});
}

TEST(errors_of_visits_know_the_way) {
  const Node inner("inner", 1, 2);
  const Node root("root", inner, 3);
  Expected<Optional<VisitInterrupt>> result = StructuralWalkExpected<WalkOrder::kPreOrder>(
      root, [](int64_t) -> WalkResult { TVM_FFI_THROW(ValueError) << "no ints"; });
  CHECK_EQ(result.error().kind(), "ValueError");
  Optional<VisitErrorContext> context = VisitErrorContext::TryGetFromError(result.error());
  const List<ObjectRef> nodes = context.value()->reverse_visit_pattern;
  CHECK_EQ(nodes.size(), 2);
  CHECK(nodes[0].same_as(inner) && nodes[1].same_as(root));
  CHECK_EQ(Message([&] {
             StructuralWalk<WalkOrder::kPreOrder>(
                 1, [](int64_t) -> WalkResult { throw std::out_of_range("far"); });
           }),
           "InternalError: far");
}

TEST(regions_of_definitions_are_told_to_callbacks) {
  std::vector<TVMFFIDefRegionKind> kinds;
  const Var var{String("type")};
  StructuralWalk<WalkOrder::kPreOrder>(
      Let(var, Node("use", var, 1)),
      [&](const Var&, TVMFFIDefRegionKind kind) {
        kinds.push_back(kind);
        return WalkResult::Advance();
      },
      [&](const String&, TVMFFIDefRegionKind kind) {
        CHECK(kind == kTVMFFIDefRegionKindNone);  // a simple definition is of the variable only
        return WalkResult::Advance();
      });
  CHECK(kinds ==
        (std::vector<TVMFFIDefRegionKind>{kTVMFFIDefRegionKindSimple, kTVMFFIDefRegionKindNone}));
}

Expected<Any> Increment(int64_t value) { return Any(value + 1); }

TEST(a_map_replaces_parts_and_copies_what_changes) {
  const Node untouched("untouched", "a", nullptr);
  const Node root("root", Node("inner", 1, untouched), untouched);
  Node mapped = StructuralMap<WalkOrder::kPostOrder>(root, Increment).cast<Node>();
  CHECK(!mapped.same_as(root));
  CHECK_EQ(mapped->name, "root");
  CHECK_EQ(mapped->left.cast<Node>()->left.cast<int64_t>(), 2);
  CHECK(mapped->right.cast<Node>().same_as(untouched));
  CHECK_EQ(root->left.cast<Node>()->left.cast<int64_t>(), 1);
  CHECK(StructuralMap<WalkOrder::kPreOrder>(root, [](double x) { return x; }).same_as(root));
}

TEST(a_map_before_the_parts_maps_what_callbacks_give) {
  const auto rename = [](const Node& node) -> Any {
    return Node(node->name + "!", node->left, node->right);
  };
  Node mapped =
      StructuralMap<WalkOrder::kPreOrder>(Node("a", Node("b", 1, 2), 3), rename, Increment)
          .cast<Node>();
  CHECK_EQ(mapped->name, "a!");
  CHECK_EQ(mapped->left.cast<Node>()->name, "b!");
  CHECK_EQ(mapped->left.cast<Node>()->right.cast<int64_t>(), 3);
}

TEST(a_value_of_which_nobody_else_knows_is_changed_in_place) {
  PairObj::copies = PairObj::changes = 0;
  ObjectRef root = Pair(1, Pair(2, 3));
  const Object* address = root.get();
  Any mapped = StructuralMap<WalkOrder::kPostOrder>(std::move(root), Increment);
  CHECK(mapped.as<Object>() == address);
  CHECK_EQ(PairObj::changes, 2);
  const Any held = mapped;
  Any copied = StructuralMap<WalkOrder::kPostOrder>(mapped, Increment);
  CHECK_EQ(PairObj::copies, 2);
  CHECK_EQ(held.as<PairObj>()->first.cast<int64_t>(), 2);
  CHECK_EQ(copied.as<PairObj>()->first.cast<int64_t>(), 3);
}

TEST(uses_of_a_variable_follow_its_definition) {
  const Var var{1};
  const Any mapped =
      StructuralMap<WalkOrder::kPostOrder>(Let(var, Node("use", var, var)), Increment);
  const auto* let = mapped.as<LetObj>();
  CHECK(!let->var.same_as(Any(var)));
  CHECK_EQ(let->var.as<VarObj>()->type.cast<int64_t>(), 2);
  CHECK(let->body.cast<Node>()->left.same_as(let->var));
  CHECK(let->body.cast<Node>()->right.same_as(let->var));
  // Without a definition, a variable is left alone.
  CHECK(StructuralMap<WalkOrder::kPostOrder>(var, Increment).same_as(Any(var)));
}

TEST(mutating_callbacks_decide_what_is_mutated) {
  const auto left_only = [](const Node& node,
                            StructuralMutatorObj* mutator) -> Expected<UnchangedOr<Any>> {
    TVM_FFI_S_MUTATE_ASSIGN_OR_RETURN(UnchangedOr<Any>, left, mutator->MutateExpected(node->left));
    return Any(Node(node->name, std::move(left).ValueOrUnchanged(node->left), node->right));
  };
  std::vector<InplaceMode> modes;
  const auto add = [&](int64_t value, StructuralMutatorObj*, InplaceMode mode) -> Expected<Any> {
    modes.push_back(mode);
    return Any(value + 10);
  };
  Node mapped = StructuralMutate(Node("n", 1, 2), left_only, add).cast<Node>();
  CHECK_EQ(mapped->left.cast<int64_t>(), 11);
  CHECK_EQ(mapped->right.cast<int64_t>(), 2);
  CHECK(modes == std::vector<InplaceMode>{InplaceMode::kDisallow});
}

TEST(errors_of_mutations_are_values_and_know_the_way) {
  const Node root("root", 1, 2);
  Expected<Any> result = StructuralMapExpected<WalkOrder::kPostOrder>(
      root, [](int64_t) -> Expected<Any> { return Error("KeyError", "no ints", ""); });
  CHECK_EQ(result.error().message(), "no ints");
  Optional<VisitErrorContext> context = VisitErrorContext::TryGetFromError(result.error());
  CHECK(context.value()->reverse_visit_pattern[0].same_as(root));
  const auto wrong = [](StructuralMutatorObj* mutator) -> Expected<Any> {
    TVM_FFI_S_MUTATE_ASSIGN_OR_RETURN(UnchangedOr<String>, text, mutator->MutateExpected(1));
    return Any(std::move(text).ValueOrUnchanged(String("unchanged")));
  };
  result = StructuralMutateExpected(
      root, [&](const Node&, StructuralMutatorObj* mutator) { return wrong(mutator); });
  CHECK_EQ(result.error().kind(), "TypeError");
}

TEST(unchanged_is_no_value) {
  CHECK(UnchangedOr<Any>(Unchanged()).IsUnchanged());
  CHECK(!UnchangedOr<Any>(nullptr).IsUnchanged());
  UnchangedOr<double> number = 42;
  CHECK(AnyView(number).type_index() == kTVMFFIFloat);
  UnchangedOr<Any> wide = UnchangedOr<String>(String("text"));
  CHECK_EQ(std::move(wide).as<String>().value(), "text");
  CHECK(UnchangedOr<double>(UnchangedOr<int>(Unchanged())).IsUnchanged());
  CHECK_EQ(Message([] { UnchangedOr<Any>(1).as_or_throw<String>(); }),
           "TypeError: Cannot treat type `int` as type `str`");
}
