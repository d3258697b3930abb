// SPDX-License-Identifier: Apache-2.0
#include "call/plan.h"

#include "call/error.h"
#include "call/signature.h"
#include "check.h"

using graphffi::Counts;
using graphffi::Error;
using graphffi::Plan;
using graphffi::Signature;
using graphffi::TensorNames;
using Op = graphffi::Plan::Op;

namespace {

Signature SignatureOf(const char* text) {
  return Signature::Parse(text, TensorNames::Parse("lib::f", "x, weight, stream -> out"),
                          {"eps", "flag"});
}
Plan Parse(const char* text) { return SignatureOf(text).plan(); }
std::string Failure(const char* text) {
  return Thrown<Error>([&] { Parse(text); });
}
bool Has(const std::string& text, const char* part) {
  if (text.find(part) != std::string::npos) return true;
  std::fprintf(stderr, "got: %s\n", text.c_str());
  return false;
}

TEST(names_of_operands_results_and_attributes_become_indices) {
  const Plan plan = Parse(" out, x ,weight,eps ");
  CHECK_EQ(plan.items().size(), size_t{4});
  CHECK(plan.items()[0].op == Op::kOutput && plan.items()[0].index == 0);
  CHECK(plan.items()[2].op == Op::kInput && plan.items()[2].index == 1);
  CHECK(plan.items()[3].op == Op::kAttribute && plan.items()[3].index == 0);
}

TEST(an_empty_plan_is_inputs_then_outputs) {
  for (const char* text : {"", "  "}) {
    const Plan plan = Parse(text);
    CHECK_EQ(plan.items().size(), size_t{2});
    CHECK(plan.items()[0].op == Op::kAllInputs && plan.items()[1].op == Op::kAllOutputs);
  }
}

TEST(a_folded_plan_names_what_calls_still_give) {
  const Plan plan =
      SignatureOf("x, eps, (flag, 1), (eps, 2), bool(flag)").Fold({{7, 0}, {1}}).plan();
  const auto& items = plan.items();
  CHECK_EQ(items.size(), size_t{8});
  CHECK(items[0].op == Op::kInput && items[1].op == Op::kConstant &&
        items[2].op == Op::kBeginArray);
  CHECK(items[3].op == Op::kAttribute && items[3].index == 0);
  CHECK(items[4].op == Op::kConstant && items[5].op == Op::kEndArray);
  CHECK(items[6].op == Op::kConstant);
  CHECK(items[7].op == Op::kAttribute && items[7].index == 0);
  CHECK(items[7].conversion == Plan::Conversion::kBool);
  CHECK_EQ(plan.constants()[static_cast<size_t>(items[1].index)].v_int64, int64_t{7});
  CHECK_EQ(plan.constants()[static_cast<size_t>(items[6].index)].type_index, int{kTVMFFIArray});
  const Plan workspace = SignatureOf("workspace(eps)").Fold({{8, 0}, {0}}).plan();
  CHECK(workspace.items()[0].conversion == Plan::Conversion::kNone);
}

TEST(an_operand_called_like_a_keyword_wins) {
  CHECK(Parse("stream").items()[0].op == Op::kInput);
  CHECK(Parse("workspace").items()[0].op == Op::kWorkspace);
}

TEST(constants_have_the_kind_that_they_are_written_as) {
  const Plan plan =
      Parse("None, true, false, 3, -7, 1e-6, 2., \"a\\n\\u00e9\\ud83d\\ude00\", +4, -inf");
  const auto& values = plan.constants();
  CHECK_EQ(values[0].type_index, int{kTVMFFINone});
  CHECK(values[1].type_index == kTVMFFIBool && values[1].v_int64 == 1);
  CHECK(values[2].type_index == kTVMFFIBool && values[2].v_int64 == 0);
  CHECK(values[3].type_index == kTVMFFIInt && values[3].v_int64 == 3);
  CHECK(values[4].type_index == kTVMFFIInt && values[4].v_int64 == -7);
  CHECK(values[5].type_index == kTVMFFIFloat && values[5].v_float64 == 1e-6);
  CHECK(values[6].type_index == kTVMFFIFloat && values[6].v_float64 == 2.0);
  CHECK_EQ(values[7].type_index, int{kTVMFFIRawStr});
  CHECK_EQ(std::string(values[7].v_c_str), std::string("a\n\xc3\xa9\xf0\x9f\x98\x80"));
  CHECK(values[8].type_index == kTVMFFIInt && values[8].v_int64 == 4);
  CHECK(values[9].type_index == kTVMFFIFloat && values[9].v_float64 < -1e308);
}

TEST(string_constants_survive_a_move_of_the_plan) {
  Plan plan = Parse("\"a\", \"a string that is longer than any small buffer\"");
  const Plan moved = std::move(plan);
  CHECK_EQ(std::string(moved.constants()[0].v_c_str), std::string("a"));
}

TEST(lists_nest_and_may_be_empty) {
  const Plan plan = Parse("(x, (weight,), ()), *outputs");
  const Op expected[] = {Op::kBeginArray, Op::kInput,    Op::kBeginArray,
                         Op::kInput,      Op::kEndArray, Op::kBeginArray,
                         Op::kEndArray,   Op::kEndArray, Op::kAllOutputs};
  CHECK_EQ(plan.items().size(), std::size(expected));
  for (size_t i = 0; i < plan.items().size(); ++i) CHECK(plan.items()[i].op == expected[i]);
}

TEST(an_unknown_name_is_reported_with_the_known_ones) {
  CHECK_EQ(Failure("x, y"),
           std::string(
               "ValueError: lib::f: plan 'x, y': expected a known name, got 'y'; known names: x, "
               "weight, stream, out, eps, flag, *inputs, *outputs, stream, workspace, None"));
}

TEST(text_that_does_not_parse_is_reported_with_its_place) {
  CHECK(Has(Failure("x,"), "at character 2, got the end of the text"));
  CHECK(Has(Failure("x weight"), "got an unexpected 'w'"));
  CHECK(Has(Failure("(x"), "')' is missing"));
  CHECK(Has(Failure("x)"), "got an unexpected ')'"));
  CHECK(Has(Failure(",x"), "got ','"));
  CHECK(Has(Failure("\"x"), "'\"' is missing"));
  CHECK(Has(Failure("\"\\q\""), "unknown escape"));
  CHECK(Has(Failure("\"\\u12\""), "incomplete \\u escape"));
  CHECK(Has(Failure("\"\\u0000\""), "a NUL"));
  CHECK(Has(Failure("\"\\ud800\\u0041\""), "half of a surrogate pair"));
  CHECK(Has(Failure("\"\\ud800\""), "half of a surrogate pair"));
  CHECK(Has(Failure("\"\\udc00\""), "half of a surrogate pair"));
  CHECK(Has(Failure("*nothing"), "got '*nothing'"));
  CHECK(Has(Failure("int(eps)"), "got 'int()'"));
  CHECK(Has(Failure("bool(x)"), "got 'x'"));
  CHECK(Has(Failure("bool(eps"), "')' is missing"));
  CHECK(Has(Failure("1x"), "no 64-bit number"));
  for (const char* text : {"1e999", "99999999999999999999", "+", "0x10"}) {
    CHECK(Has(Failure(text), "no 64-bit number"));
  }
  CHECK(Has(Failure("9223372036854775808"), "no 64-bit number"));
  CHECK(Has(Failure("-"), "no 64-bit number"));
  CHECK(Has(Failure("((((((((((((((((((x))))))))))))))))))"), "16 nested lists"));
}

TEST(raw_names_follow_the_counts) {
  const auto parse = [](const char* text) {
    return Signature::Parse(text, TensorNames::Parse("f", ""), Counts{2, 1, 1, 1, 1}).plan();
  };
  const Plan plan = parse("o0, i1, bool(n0), f0, dtype(s0)");
  CHECK_EQ(plan.items()[3].index, 1);
  CHECK(plan.items()[4].conversion == Plan::Conversion::kDType && plan.items()[4].index == 2);
  CHECK(Has(Thrown<Error>([&] { parse("i2"); }), "got 'i2'"));
}

}  // namespace
