// SPDX-License-Identifier: Apache-2.0
#include "shapes/shape_program.h"

#include <string>
#include <vector>

#include "call/error.h"
#include "check.h"
#include "shapes/shape_rule.h"

using graphffi::Bank;
using graphffi::CallValues;
using graphffi::Error;
using graphffi::ResultShapes;
using graphffi::ShapeProgram;
using graphffi::ShapeRule;
using graphffi::Slot;

namespace {

TVMFFIAny Any(int32_t type_index, int64_t payload) {
  TVMFFIAny value{};
  value.type_index = type_index;
  value.v_int64 = payload;
  return value;
}

/// A call with one matrix, one result, and attributes.
struct Call {
  Call(int64_t rows, int64_t columns, std::vector<TVMFFIAny> given = {})
      : shape{rows, columns}, attributes(std::move(given)) {
    input = Any(kTVMFFIDLTensorPtr, 0);
    input.v_ptr = &tensor;
    values.inputs = {&input, nullptr, 1};
    values.outputs = {&vacant, nullptr, 1};
    values.attributes = {attributes.data(), nullptr, static_cast<int32_t>(attributes.size())};
  }
  Call(const Call&) = delete;

  int64_t shape[2];
  DLTensor tensor{nullptr, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  TVMFFIAny input{}, vacant{};
  std::vector<TVMFFIAny> attributes;
  CallValues values;
};

/// Sizes of the one result; empty where the program is not for the call.
std::vector<int64_t> Run(const ShapeProgram& program, const Call& call) {
  ResultShapes results;
  if (!program.Run(call.values, &results)) return {};
  return {results[0].shape, results[0].shape + results[0].ndim};
}

std::vector<int64_t> RunText(const std::string& text, const Call& call) {
  return Run(ShapeProgram::Parse(text, call.values), call);
}

using Sizes = std::vector<int64_t>;

TEST(a_result_has_the_sizes_dtype_and_device_that_its_line_says) {
  const Call call(3, 5);
  const ShapeProgram program =
      ShapeProgram::Parse("const 7\nresult 1 8 1 2 3 3 1 0 2\n", call.values);
  ResultShapes results;
  CHECK(program.Run(call.values, &results));
  CHECK_EQ(results.size(), 1);
  CHECK_EQ(results[0].ndim, 3);
  CHECK((Sizes{results[0].shape, results[0].shape + 3} == Sizes{5, 3, 7}));
  CHECK_EQ(int{results[0].dtype.code}, int{kDLUInt});
  CHECK_EQ(int{results[0].dtype.bits}, 8);
  CHECK_EQ(int{results[0].device.device_type}, int{kDLCUDA});
  CHECK_EQ(results[0].device.device_id, 3);
}

TEST(arithmetic_is_that_of_python) {
  const Call call(7, 2);
  CHECK((RunText("add 0 1\nsub 0 1\nmul 0 1\nresult 2 32 1 1 0 3 2 3 4", call) == Sizes{9, 5, 14}));
  CHECK((RunText("const -2\nfloordiv 2 0\nmod 2 0\nsub 4 3\nresult 2 32 1 1 0 2 4 5", call) ==
         Sizes{5, 6}));  // -2 // 7 == -1, -2 % 7 == 5
  CHECK((RunText("const -3\nmod 0 2\nconst 3\nadd 3 4\nresult 2 32 1 1 0 1 5", call) ==
         Sizes{1}));  // 7 % -3 == -2
  CHECK((RunText("and 0 1\nor 0 1\nxor 0 1\nresult 2 32 1 1 0 3 2 3 4", call) == Sizes{2, 7, 5}));
  CHECK((RunText("eq 0 0\nne 0 0\nlt 0 1\nle 1 1\ngt 0 1\nge 1 0\nresult 2 32 1 1 0 6 2 3 4 5 6 7",
                 call) == Sizes{1, 0, 0, 1, 1, 0}));
}

TEST(failing_arithmetic_leaves_the_call_to_the_rule) {
  const Call call(7, 0);
  CHECK(RunText("floordiv 0 1\nresult 2 32 1 1 0 1 2", call).empty());
  CHECK(RunText("mod 0 1\nresult 2 32 1 1 0 1 2", call).empty());
  CHECK(RunText("const 9223372036854775807\nadd 0 2\nresult 2 32 1 1 0 1 3", call).empty());
  CHECK(RunText("const 9223372036854775807\nmul 0 2\nresult 2 32 1 1 0 1 3", call).empty());
  CHECK(RunText("const -9223372036854775808\nsub 2 0\nresult 2 32 1 1 0 1 3", call).empty());
  CHECK(RunText("const -9223372036854775808\nconst -1\nfloordiv 2 3\nresult 2 32 1 1 0 1 4", call)
            .empty());
  CHECK(RunText("const -1\nresult 2 32 1 1 0 1 2", call).empty());  // a negative size
  CHECK(RunText("const -1\nresult 2 32 1 1 0 1 0\nworkspace 2", call).empty());
}

TEST(a_workspace_has_the_bytes_that_its_line_says) {
  const Call call(3, 5);
  ResultShapes results;
  CHECK_EQ(results.workspace_bytes, -1);
  const ShapeProgram with =
      ShapeProgram::Parse("mul 0 1\nresult 2 32 1 1 0 1 0\nworkspace 2\n", call.values);
  CHECK(with.Run(call.values, &results));
  CHECK_EQ(results.size(), 1);
  CHECK_EQ(results.workspace_bytes, 15);
  const ShapeProgram without = ShapeProgram::Parse("result 2 32 1 1 0 1 0\n", call.values);
  CHECK(without.Run(call.values, &results));
  CHECK_EQ(results.workspace_bytes, -1);
}

TEST(a_program_has_the_kernel_that_its_line_says) {
  const Call call(3, 5);
  ResultShapes results;
  CHECK_EQ(results.kernel, 0);
  const ShapeProgram with = ShapeProgram::Parse("kernel 2\nresult 2 32 1 1 0 1 0\n", call.values);
  CHECK(with.Run(call.values, &results));
  CHECK_EQ(results.kernel, 2);
  const ShapeProgram without = ShapeProgram::Parse("result 2 32 1 1 0 1 0\n", call.values);
  CHECK(without.Run(call.values, &results));
  CHECK_EQ(results.kernel, 0);
}

TEST(constants_are_a_program_of_a_call_without_values) {
  const CallValues none;
  ResultShapes results;
  const auto run = [&](const char* text) {
    return ShapeProgram::Parse(text, none).Run(none, &results);
  };
  CHECK(run("const 3\nconst 9\nkernel 1\nresult 2 32 1 1 0 2 0 0\nworkspace 1\n"));
  CHECK((Sizes{results[0].shape, results[0].shape + results[0].ndim} == Sizes{3, 3}));
  CHECK_EQ(results.kernel, 1);
  CHECK_EQ(results.workspace_bytes, 9);
  CHECK(run("const 4\nresult 2 32 1 1 0 1 0\n"));
  CHECK_EQ(results.kernel, 0);
  CHECK_EQ(results.workspace_bytes, -1);
  CHECK(!run("const -3\nresult 2 32 1 1 0 1 0\n"));
}

TEST(conditions_decide_whether_a_program_is_for_a_call) {
  const Call call(7, 2), other(1, 2);
  const ShapeProgram program =
      ShapeProgram::Parse("gt 0 1\ntrue 2\nlt 0 1\nfalse 3\nresult 2 32 1 1 0 1 0", call.values);
  CHECK((Run(program, call) == Sizes{7}));
  CHECK(Run(program, other).empty());
}

TEST(a_program_is_for_calls_of_one_structure) {
  Call call(7, 2);
  const ShapeProgram program = ShapeProgram::Parse("result 2 32 1 1 0 1 0", call.values);
  CHECK((Run(program, call) == Sizes{7}));
  call.tensor.ndim = 1;
  CHECK(Run(program, call).empty());
  call.tensor.ndim = 2;
  call.tensor.dtype.bits = 64;
  CHECK(Run(program, call).empty());
  call.tensor.dtype.bits = 32;
  call.tensor.device.device_id = 1;
  CHECK(Run(program, call).empty());
  call.tensor.device.device_id = 0;
  call.input.type_index = kTVMFFINone;
  CHECK(Run(program, call).empty());
  call.input.type_index = kTVMFFIDLTensorPtr;
  const Slot slots[] = {{0, 1}};
  call.values.inputs.opt_slots = slots;
  CHECK(Run(program, call).empty());
  call.values.inputs.opt_slots = nullptr;
  CHECK((Run(program, call) == Sizes{7}));
}

TEST(integer_attributes_are_values_and_others_count_where_the_rule_looked) {
  const std::string text = "same 1\nsame 2\nresult 2 32 1 1 0 2 2 3";
  TVMFFIAny name = Any(kTVMFFIRawStr, 0);
  name.v_c_str = "abc";
  const Call call(
      7, 2,
      {Any(kTVMFFIInt, 4), Any(kTVMFFIBool, 1), name, Any(kTVMFFIFloat, 1), Any(kTVMFFIInt, 9)});
  const ShapeProgram program = ShapeProgram::Parse(text, call.values);
  CHECK((Run(program, call) == Sizes{4, 9}));
  Call other(7, 2, call.attributes);
  const std::string copy = "abc";  // another address
  other.attributes[2].v_c_str = copy.c_str();
  other.attributes[3].v_int64 = 12345;  // nobody looked
  other.attributes[0].v_int64 = 5;
  CHECK((Run(program, other) == Sizes{5, 9}));
  other.attributes[2].v_c_str = "abd";
  CHECK(Run(program, other).empty());
  other.attributes[2].v_c_str = "abc";
  other.attributes[1].v_int64 = 0;
  CHECK(Run(program, other).empty());
  other.attributes[1] = Any(kTVMFFINone, 0);
  CHECK(Run(program, other).empty());
}

TEST(many_results_and_values_need_no_limit) {
  const Call call(7, 2);
  std::string text = "const 1\n";
  for (int i = 0; i < 300; ++i) text += "add 2 " + std::to_string(i + 2) + "\n";
  for (int i = 0; i < 9; ++i) text += "result 2 32 1 1 0 5 0 1 2 302 0\n";
  ResultShapes results;
  std::vector<TVMFFIAny> vacant(9);
  Call nine(7, 2);
  nine.values.outputs = {vacant.data(), nullptr, 9};
  CHECK(ShapeProgram::Parse(text, nine.values).Run(nine.values, &results));
  CHECK_EQ(results.size(), 9);
  CHECK((Sizes{results[8].shape, results[8].shape + 5} == Sizes{7, 2, 1, 301, 7}));
}

TEST(text_that_no_tracer_writes_is_an_internal_error) {
  const Call call(7, 2);
  for (const char* text : {"nonsense", "add 0", "add 0 2", "add 0 -1", "const x", "same 0",
                           "true 9", "result 2 32 1 1 0 1", "result 2 32 1 1 0 1 5"}) {
    const std::string thrown = Thrown<Error>([&] { ShapeProgram::Parse(text, call.values); });
    CHECK(thrown.find("a shape program does not parse") != std::string::npos);
  }
}

class CountingRule : public ShapeRule {
 public:
  int asked = 0;
  MadeKernel Made(int32_t) override { return {}; }

 protected:
  std::string Ask(const CallValues& values, bool trace) override {
    ++asked;
    const auto& tensor = *static_cast<const DLTensor*>(values.inputs.values[0].v_ptr);
    const std::string rows = std::to_string(tensor.shape[0]);
    const std::string answer = "const " + rows + "\nresult 2 32 1 1 0 1 0\n";
    if (!trace) return answer;
    return answer + "program\nconst " + rows + "\neq 0 2\ntrue 3\nresult 2 32 1 1 0 1 0\n";
  }
};

class WrongRule : public CountingRule {
 public:
  explicit WrongRule(const char* answer) : answer_(answer) {}

 protected:
  std::string Ask(const CallValues&, bool) override { return answer_; }

 private:
  const char* answer_;
};

TEST(results_that_no_rule_gives_are_internal_errors) {
  for (const char* answer : {"const -1\nresult 2 32 1 1 0 1 0\n", "result 2 32 1 1 0 1 0\n"}) {
    WrongRule rule(answer);
    ResultShapes results;
    const std::string thrown = Thrown<Error>([&] { rule.Infer(Call(7, 2).values, &results); });
    CHECK(thrown.find("InternalError: graphffi: a shape ") == 0);
  }
}

TEST(a_rule_is_asked_once_for_each_way_through_it_up_to_a_limit) {
  CountingRule rule;
  ResultShapes results;
  for (int round = 0; round < 2; ++round) {
    for (int64_t rows = 0; rows < 3; ++rows) {
      rule.Infer(Call(rows, 2).values, &results);
      CHECK_EQ(results[0].shape[0], rows);
    }
  }
  CHECK_EQ(rule.asked, 3);
  for (int64_t rows = 3; rows < 100; ++rows) rule.Infer(Call(rows, 2).values, &results);
  CHECK_EQ(rule.asked, 100);
  rule.Infer(Call(99, 2).values, &results);  // beyond the limit
  CHECK_EQ(rule.asked, 101);
  rule.Infer(Call(0, 2).values, &results);
  CHECK_EQ(rule.asked, 101);
}

}  // namespace
