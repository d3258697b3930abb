// SPDX-License-Identifier: Apache-2.0
#include "call/layout.h"

#include "call/signature.h"
#include "call/value.h"
#include "call/value_list.h"
#include "check.h"

using graphffi::Counts;
using graphffi::Layout;
using graphffi::Signature;
using graphffi::Spill;
using graphffi::TensorNames;
using graphffi::ValueList;

namespace {

/// Of a call with two inputs, one output and two attributes.
Layout LayoutOf(const char* text) {
  Layout layout =
      Signature::Parse(text, TensorNames::Parse("lib::f", "x, w -> out"), {"eps", "flag"}).layout();
  // Strings in them would belong to the plan.
  for (const auto& [position, value] : layout.constants) CHECK(value.type_index == kTVMFFIInt);
  return layout;
}

bool StandsAt(const Layout::Range& range, int32_t begin, int32_t capacity) {
  return range.begin == begin && range.capacity == capacity;
}

TEST(values_stand_where_the_plan_passes_them) {
  const Layout layout = LayoutOf("out, x, w, eps, flag");
  CHECK(layout.is_in_order());
  CHECK_EQ(layout.num_args, 5);
  CHECK(StandsAt(layout.outputs, 0, 1) && StandsAt(layout.inputs, 1, 2));
  CHECK(StandsAt(layout.attributes, 3, 2));
}

TEST(wildcards_stand_for_all_of_their_class) {
  const Layout layout = LayoutOf("*outputs, *inputs");
  CHECK_EQ(layout.num_args, 3);
  CHECK(StandsAt(layout.outputs, 0, 1) && StandsAt(layout.inputs, 1, 2));
}

TEST(values_that_the_kernel_does_not_get_come_after_the_arguments) {
  const Layout layout = LayoutOf("x, w");
  CHECK_EQ(layout.num_args, 2);
  CHECK(StandsAt(layout.inputs, 0, 2) && StandsAt(layout.outputs, 2, 1));
  CHECK(StandsAt(layout.attributes, 3, 2));
}

TEST(constants_are_put_between_the_values) {
  const Layout layout = LayoutOf("7, x, w, 8, out");
  CHECK_EQ(layout.num_args, 5);
  CHECK(StandsAt(layout.inputs, 1, 2) && StandsAt(layout.outputs, 4, 1));
  TVMFFIAny room[Layout::kRoom] = {};
  layout.PutConstants(room);
  CHECK(room[0].v_int64 == 7 && room[3].v_int64 == 8 && room[1].type_index == kTVMFFINone);
}

TEST(other_plans_move_values_from_places_of_their_own) {
  for (const char* text :
       {"w, x, out", "x, out, w", "x, x, w, out", "x, out", "*inputs, x", "(x, w), out",
        "x, w, bool(eps)", "x, w, stream", "x, w, workspace(8)", "x, w, out, flag", ""}) {
    const Layout layout = LayoutOf(text);
    CHECK(layout.is_in_order() == (text[0] == '\0'));  // an empty one: *inputs, *outputs
    if (layout.is_in_order()) continue;
    CHECK(StandsAt(layout.inputs, 0, Layout::kMost));
    CHECK(layout.attributes.begin + layout.attributes.capacity == Layout::kRoom);
  }
}

TEST(calls_with_more_values_than_there_is_room_for_have_them_apart) {
  const auto names = TensorNames::Parse("lib::f", "");
  const auto layout = [&](int32_t num_inputs) {
    return Signature::Parse("", names, Counts{num_inputs, 1}).layout();
  };
  CHECK(layout(Layout::kRoom - 1).is_in_order());
  CHECK(!layout(Layout::kRoom).is_in_order());
}

TEST(an_exact_layout_has_no_more_room_than_values) {
  const auto names = TensorNames::Parse("lib::f", "");
  const Signature swapped = Signature::Parse("i1, i0, o0, n0", names, Counts{2, 1, 1});
  const Layout exact = swapped.ExactLayout(2, 1);
  CHECK(!exact.is_in_order() && StandsAt(exact.inputs, 0, 2) && StandsAt(exact.outputs, 2, 1));
  CHECK(StandsAt(exact.attributes, 3, 1));
  const Signature many = Signature::Parse("", names, Counts{});
  CHECK(many.ExactLayout(3, 2).is_in_order() && StandsAt(many.ExactLayout(3, 2).outputs, 3, 2));
}

TEST(lists_of_any_lengths_stand_apart) {
  const Signature signature = Signature::Parse("", TensorNames::Parse("f", "x -> y"), {"n"});
  CHECK(signature.layout().is_in_order() && !signature.Apart().layout().is_in_order());
  CHECK_EQ(signature.Apart().num_attributes(), 1);
}

TEST(a_list_of_values_outgrows_its_room) {
  TVMFFIAny room[2];
  Spill spill;
  ValueList values(room, 2, &spill);
  for (int i = 0; i < 1000; ++i) *values.Add() = graphffi::ToAny(i);
  CHECK(values.size() == 1000 && values.bank().values != room);
  for (int i = 0; i < 1000; ++i) CHECK_EQ(values[i].v_int64, int64_t{i});
  ValueList nothing(nullptr, 0, &spill);
  *nothing.Add() = graphffi::ToAny(3);
  CHECK_EQ(nothing[0].v_int64, int64_t{3});
}

TEST(lists_of_values_are_slots) {
  TVMFFIAny room[2];
  Spill spill;
  ValueList values(room, 2, &spill);
  *values.AddSlot() = graphffi::ToAny(7);
  CHECK(values.bank().opt_slots == nullptr && values.bank().size == 1);
  for (int32_t list = 0; list < 100; ++list) {
    values.BeginList(list % 3);
    for (int32_t i = 0; i < list % 3; ++i) *values.Add() = graphffi::ToAny(list);
    *values.AddSlot() = graphffi::ToAny(-list);
  }
  const graphffi::Bank bank = values.bank();
  CHECK(bank.size == 201);
  CHECK(bank.opt_slots[0].begin == 0 && bank.opt_slots[0].count == graphffi::Slot::kSingle);
  for (int32_t list = 0; list < 100; ++list) {
    const graphffi::Slot &many = bank.opt_slots[2 * list + 1], &one = bank.opt_slots[2 * list + 2];
    CHECK(many.count == list % 3 && one.count == graphffi::Slot::kSingle);
    CHECK(one.begin == many.begin + many.count);
    CHECK_EQ(bank.values[one.begin].v_int64, int64_t{-list});
  }
}

}  // namespace
