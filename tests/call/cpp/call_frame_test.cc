// SPDX-License-Identifier: Apache-2.0
#include "call/call_frame.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "call/describe_tensor.h"
#include "call/error.h"
#include "call/signature.h"
#include "call/value.h"
#include "check.h"
#include "env/env_scope.h"
#include "kernels/kernel_ref.h"
#include "record.h"

using graphffi::Bank;
using graphffi::CallFrame;
using graphffi::CallValues;
using graphffi::Error;
using graphffi::Kernel;
using graphffi::Lending;
using graphffi::Loans;
using graphffi::SetRaised;
using graphffi::Signature;
using graphffi::Slot;
using graphffi::ToAny;

namespace {

const Kernel kRecord{Record, nullptr};

struct Matrix {
  float data[6] = {0, 1, 2, 3, 4, 5};
  int64_t shape[2] = {2, 3};
  DLTensor tensor{data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
};

int Run(CallFrame* frame, const Kernel& kernel, TVMFFIAny* opt_result = nullptr) {
  TVMFFIAny result{};
  const int rc = frame->Call(kernel, &result);
  if (opt_result != nullptr) {
    *opt_result = result;
  } else if (result.type_index >= kTVMFFIStaticObjectBegin) {
    TVMFFIObjectDecRef(result.v_obj);
  }
  return rc;
}

TEST(a_hundred_arguments_arrive_in_order) {
  CallFrame frame;
  for (int i = 0; i < 100; ++i) frame.Push(ToAny(i));
  CHECK_EQ(Run(&frame, kRecord), 0);
  CHECK_EQ(seen.size(), size_t{100});
  for (int i = 0; i < 100; ++i) CHECK_EQ(seen[static_cast<size_t>(i)].v_int64, int64_t{i});
}

TEST(without_lending_a_tensor_is_passed_as_the_view_it_is) {
  Matrix m;
  CallFrame frame;
  frame.Push(ToAny(&m.tensor));
  CHECK_EQ(Run(&frame, kRecord), 0);
  CHECK_EQ(seen[0].type_index, int{kTVMFFIDLTensorPtr});
  CHECK(seen[0].v_ptr == &m.tensor);
}

DLTensor observed;
std::vector<int64_t> observed_strides;
int Observe(void*, const TVMFFIAny* args, int32_t, TVMFFIAny*) {
  seen.assign(args, args + 1);
  observed = *TVMFFITensorGetDLTensorPtr(args[0].v_obj);
  observed_strides.assign(observed.strides, observed.strides + observed.ndim);
  return 0;
}

TEST(a_lent_tensor_has_the_metadata_and_compact_strides) {
  Matrix m;
  const Lending lending{};
  Loans loans(lending);
  CallFrame frame(&loans);
  frame.Push(ToAny(&m.tensor));
  CHECK_EQ(Run(&frame, {Observe, nullptr}), 0);
  CHECK_EQ(seen[0].type_index, int{kTVMFFITensor});
  CHECK(observed.data == m.data);
  CHECK_EQ(observed.ndim, 2);
  CHECK_EQ(observed_strides[0], int64_t{3});
  CHECK_EQ(observed_strides[1], int64_t{1});
}

TEST(a_lent_tensor_of_seventeen_dimensions) {
  float value = 1;
  int64_t shape[17];
  for (int64_t& size : shape) size = 1;
  DLTensor tensor{&value, {kDLCPU, 0}, 17, {kDLFloat, 32, 1}, shape, nullptr, 0};
  const Lending lending{};
  Loans loans(lending);
  CallFrame frame(&loans);
  frame.Push(ToAny(&tensor));
  CHECK_EQ(Run(&frame, {Observe, nullptr}), 0);
  CHECK_EQ(observed.ndim, 17);
}

TVMFFIObjectHandle kept = nullptr;
int Keep(void*, const TVMFFIAny* args, int32_t, TVMFFIAny*) {
  kept = args[0].v_obj;
  TVMFFIObjectIncRef(kept);
  return 0;
}
int Return(void*, const TVMFFIAny* args, int32_t, TVMFFIAny* result) {
  TVMFFIObjectIncRef(args[0].v_obj);
  *result = args[0];
  return 0;
}

std::atomic<int> retained{0}, released{0};
const Lending kRetaining{[](const void* tensor) -> void* {
                           ++retained;
                           return const_cast<void*>(tensor);
                         },
                         [](void*) { ++released; }};

TEST(a_kept_tensor_is_retained_until_its_last_reference_goes) {
  Matrix m;
  {
    Loans loans(kRetaining);
    CallFrame frame(&loans);
    frame.Push(ToAny(&m.tensor));
    CHECK_EQ(Run(&frame, {Keep, nullptr}), 0);
  }
  CHECK_EQ(retained.load(), 1);
  CHECK_EQ(released.load(), 0);
  const DLTensor* tensor = TVMFFITensorGetDLTensorPtr(kept);
  CHECK(tensor->data == m.data && tensor->shape[1] == 3 && tensor->strides[0] == 3);
  std::thread([] { TVMFFIObjectDecRef(kept); }).join();  // from any thread
  CHECK_EQ(released.load(), 1);
}

TEST(a_returned_tensor_is_retained) {
  Matrix m;
  TVMFFIAny result{};
  {
    Loans loans(kRetaining);
    CallFrame frame(&loans);
    frame.Push(ToAny(&m.tensor));
    CHECK_EQ(Run(&frame, {Return, nullptr}, &result), 0);
  }
  CHECK_EQ(retained.load(), 1);
  CHECK_EQ(result.type_index, int{kTVMFFITensor});
  TVMFFIObjectDecRef(result.v_obj);
  CHECK_EQ(released.load(), 1);
}

TEST(a_tensor_that_is_not_kept_is_not_retained) {
  Matrix m;
  for (int i = 0; i < 1000; ++i) {
    Loans loans(kRetaining);
    CallFrame frame(&loans);
    for (int k = 0; k < 20; ++k) frame.Push(ToAny(&m.tensor));
    CHECK_EQ(Run(&frame, kRecord), 0);
  }
  CHECK_EQ(retained.load(), 0);
}

TEST(keeping_what_cannot_be_retained_is_an_error) {
  Matrix m;
  const Lending lending{};
  for (const TVMFFISafeCallType kernel : {Keep, Return}) {
    Loans loans(lending);
    CallFrame frame(&loans);
    frame.Push(ToAny(&m.tensor));
    TVMFFIAny result{};
    const int rc = Run(&frame, {kernel, nullptr}, &result);
    CHECK(rc != 0);
    CHECK_EQ(result.type_index, int{kTVMFFINone});
    const Error error = Error::TakeRaised(rc);
    CHECK_EQ(error.kind(), std::string("RuntimeError"));
    CHECK(error.message().find("retained or returned a tensor") != std::string::npos);
  }
  CHECK(TVMFFITensorGetDLTensorPtr(kept)->data == nullptr);  // no dangling pointer
  TVMFFIObjectDecRef(kept);
}

int KeepAndFail(void*, const TVMFFIAny* args, int32_t, TVMFFIAny*) {
  Keep(nullptr, args, 1, nullptr);
  TVMFFIErrorSetRaisedFromCStr("ValueError", "the kernel's own");
  return -1;
}

TEST(what_is_kept_of_a_call_that_was_not_made_has_no_elements) {
  Matrix m;
  for (const int32_t ndim : {0, 2}) {
    m.tensor.ndim = ndim;
    TVMFFIAny lent{};
    {
      Loans loans(kRetaining);
      lent = loans.Lend(&m.tensor);
      TVMFFIObjectIncRef(lent.v_obj);
    }
    CHECK_EQ(retained.load(), 0);
    const DLTensor* tensor = TVMFFITensorGetDLTensorPtr(lent.v_obj);
    CHECK(tensor->data == nullptr && tensor->ndim >= 1 && tensor->shape[0] == 0);
    TVMFFIObjectDecRef(lent.v_obj);
  }
  CHECK_EQ(released.load(), 0);
}

TEST(the_kernels_own_error_wins) {
  Matrix m;
  const Lending lending{};
  Loans loans(lending);
  CallFrame frame(&loans);
  frame.Push(ToAny(&m.tensor));
  const int rc = Run(&frame, {KeepAndFail, nullptr});
  CHECK_EQ(std::string(Error::TakeRaised(rc).what()), std::string("ValueError: the kernel's own"));
  TVMFFIObjectDecRef(kept);
}

TEST(a_failure_without_an_error_is_an_internal_error) {
  CallFrame frame;
  const int rc =
      Run(&frame, {[](void*, const TVMFFIAny*, int32_t, TVMFFIAny*) { return 7; }, nullptr});
  CHECK_EQ(rc, 7);
  CHECK_EQ(Error::TakeRaised(rc).kind(), std::string("InternalError"));
}

int RaiseInterrupt(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  return SetRaised("KeyboardInterrupt", "by the user");
}

TEST(the_host_language_is_asked_for_an_error_that_is_not_in_the_slot) {
  CHECK(std::string(Error::TakeRaised(-2).what()).find("pending in Python, but none is") !=
        std::string::npos);
  TVMFFIObjectHandle function = nullptr;
  CHECK_EQ(TVMFFIFunctionCreate(nullptr, &RaiseInterrupt, nullptr, &function), 0);
  const TVMFFIByteArray name{Error::kRaisePendingName, std::strlen(Error::kRaisePendingName)};
  CHECK_EQ(TVMFFIFunctionSetGlobal(&name, function, 1), 0);
  const std::string interrupt = "KeyboardInterrupt: by the user";
  CHECK_EQ(std::string(Error::TakeRaised(-2).what()), interrupt);
  CHECK_EQ(std::string(Error::TakeRaised(-1).what()), interrupt);
  CHECK_EQ(std::string(Error::TakeRaised(SetRaised("EnvErrorAlreadySet", "")).what()), interrupt);
  CHECK_EQ(std::string(Error::TakeRaised(SetRaised("ValueError", "own")).what()),
           std::string("ValueError: own"));
  TVMFFIObjectDecRef(function);
}

int CheckNested(void*, const TVMFFIAny* args, int32_t num_args, TVMFFIAny*) {
  CHECK_EQ(num_args, 3);
  CHECK_EQ(args[0].type_index, int{kTVMFFIInt});
  CHECK_EQ(args[1].type_index, int{kTVMFFIArray});
  CHECK_EQ(args[2].type_index, int{kTVMFFINone});
  const TVMFFISeqCell* outer = TVMFFISeqGetCellPtr(args[1].v_obj);
  CHECK_EQ(outer->size, int64_t{3});
  const TVMFFIAny* items = static_cast<const TVMFFIAny*>(outer->data);
  CHECK_EQ(items[0].type_index, int{kTVMFFITensor});
  CHECK_EQ(items[1].type_index, int{kTVMFFISmallStr});
  CHECK_EQ(items[2].type_index, int{kTVMFFIArray});
  CHECK_EQ(TVMFFISeqGetCellPtr(items[2].v_obj)->size, int64_t{0});
  return 0;
}

/// Over canonical names.
Signature ParsePlan(const char* text, const graphffi::Counts& counts) {
  return Signature::Parse(text, graphffi::TensorNames::Parse("f", ""), counts);
}

TEST(lists_become_arrays_with_owning_tensors) {
  Matrix m;
  const TVMFFIAny inputs[] = {ToAny(&m.tensor)};
  const TVMFFIAny attributes[] = {ToAny(5)};
  CallValues values;
  values.inputs = {inputs, nullptr, 1};
  values.attributes = {attributes, nullptr, 1};
  const Signature plan = ParsePlan("n0, (i0, \"a\", ()), None", {1, 0, 1});
  CallFrame frame;
  frame.PushPlan(plan, values);
  CHECK_EQ(Run(&frame, {CheckNested, nullptr}), 0);
}

TEST(slots_turn_lists_of_a_call_into_arrays) {
  const TVMFFIAny attributes[] = {ToAny(1), ToAny(2), ToAny(3), ToAny(4)};
  const Slot slots[] = {{0, Slot::kSingle}, {1, 2}, {3, 0}, {3, Slot::kSingle}};
  CallValues values;
  values.attributes = {attributes, slots, 4};
  const Signature plan = ParsePlan("n3, n1, n2, n0", {0, 0, 4});
  CallFrame frame;
  frame.PushPlan(plan, values);
  const Kernel kernel{[](void*, const TVMFFIAny* args, int32_t, TVMFFIAny*) {
                        CHECK_EQ(args[0].v_int64, int64_t{4});
                        CHECK_EQ(TVMFFISeqGetCellPtr(args[1].v_obj)->size, int64_t{2});
                        CHECK_EQ(TVMFFISeqGetCellPtr(args[2].v_obj)->size, int64_t{0});
                        CHECK_EQ(args[3].v_int64, int64_t{1});
                        return 0;
                      },
                      nullptr};
  CHECK_EQ(Run(&frame, kernel), 0);
}

TEST(attributes_are_converted_as_the_plan_says) {
  const TVMFFIAny attributes[] = {ToAny(7), ToAny("bfloat16"), ToAny("cuda:1")};
  CallValues values;
  values.attributes = {attributes, nullptr, 3};
  const Signature plan = ParsePlan("bool(n0), dtype(s0), device(s1), stream", {0, 0, 1, 0, 2});
  CallFrame frame;
  frame.PushPlan(plan, values);
  CHECK_EQ(Run(&frame, kRecord), 0);
  CHECK(seen[0].type_index == kTVMFFIBool && seen[0].v_int64 == 1);
  CHECK(seen[1].type_index == kTVMFFIDataType && seen[1].v_dtype.code == kDLBfloat);
  CHECK(seen[2].type_index == kTVMFFIDevice && seen[2].v_device.device_type == kDLCUDA);
  CHECK_EQ(seen[2].v_device.device_id, 1);
  CHECK_EQ(seen[3].type_index, int{kTVMFFIOpaquePtr});
}

TEST(values_that_a_plan_misses_are_errors) {
  const CallValues none;
  const Signature plan = ParsePlan("i1", {2});
  CHECK_EQ(Thrown<Error>([&] { CallFrame().PushPlan(plan, none); }),
           std::string("ValueError: f: plan: expected at least 2 inputs, got 0"));
  const Signature workspace = ParsePlan("workspace", {});
  CHECK(Thrown<Error>([&] { CallFrame().PushPlan(workspace, none); }).find("workspace") !=
        std::string::npos);
}

/// Keeps every second of its tensors and calls itself, so that loans of several calls are mixed.
int Nest(void* depth, const TVMFFIAny* args, int32_t num_args, TVMFFIAny*) {
  Matrix m;
  std::vector<TVMFFIObjectHandle> held;
  for (int32_t i = 0; i < num_args; ++i) {
    CHECK_EQ(TVMFFITensorGetDLTensorPtr(args[i].v_obj)->shape[1], int64_t{3});
    if (i % 2 == 0) TVMFFIObjectIncRef(held.emplace_back(args[i].v_obj));
  }
  const auto left = reinterpret_cast<intptr_t>(depth);
  if (left > 0) {
    Loans loans(kRetaining);
    CallFrame frame(&loans);
    for (int i = 0; i < 100; ++i) frame.Push(ToAny(&m.tensor));
    CHECK_EQ(Run(&frame, {Nest, reinterpret_cast<void*>(left - 1)}), 0);
  }
  for (TVMFFIObjectHandle tensor : held) {
    CHECK(TVMFFITensorGetDLTensorPtr(tensor)->data != nullptr);
    TVMFFIObjectDecRef(tensor);
  }
  return 0;
}

TEST(calls_within_calls_have_loans_of_their_own) {
  Matrix m;
  for (int round = 0; round < 3; ++round) {
    Loans loans(kRetaining);
    CallFrame frame(&loans);
    for (int i = 0; i < 100; ++i) frame.Push(ToAny(&m.tensor));
    CHECK_EQ(Run(&frame, {Nest, reinterpret_cast<void*>(intptr_t{4})}), 0);
    CHECK(loans.empty());
  }
  CHECK_EQ(retained.load(), 0);
}

TEST(calls_on_one_thread_may_end_in_any_order) {  // as with greenlets
  Matrix m;
  auto first_loans = std::make_unique<Loans>(kRetaining);
  auto second_loans = std::make_unique<Loans>(kRetaining);
  auto first = std::make_unique<CallFrame>(first_loans.get());
  auto second = std::make_unique<CallFrame>(second_loans.get());
  for (int i = 0; i < 3; ++i) {
    first->Push(ToAny(&m.tensor));
    second->Push(ToAny(&m.tensor));
  }
  CHECK_EQ(Run(first.get(), {Nest, nullptr}), 0);
  CHECK_EQ(Run(second.get(), {Nest, nullptr}), 0);
}

TEST(a_frame_that_is_never_called_releases_what_it_holds) {
  Matrix m;
  Loans loans(kRetaining);
  CallFrame frame(&loans);
  frame.BeginArray();
  for (int i = 0; i < 40; ++i) frame.Push(ToAny(&m.tensor));
  frame.EndArray();
  frame.BeginArray();
}

TEST(unknown_kernels_and_libraries_are_named) {
  CHECK(Thrown<Error>([] {
          graphffi::ResolveKernel("no.such.function");
        }).find("KeyError: graphffi: kernel 'no.such.function'") == 0);
  CHECK(Thrown<Error>([] {
          graphffi::ResolveKernel("nowhere.so::f");
        }).find("cannot load 'nowhere.so'") != std::string::npos);
  CHECK(Thrown<Error>([] { graphffi::ResolveKernel("/nowhere/k.so::f"); }).find("/nowhere/k.so") !=
        std::string::npos);
}

TEST(device_names_go_both_ways) {
  CHECK_EQ(graphffi::DeviceToName(graphffi::DeviceFromName("cuda:3")), std::string("cuda:3"));
  CHECK_EQ(graphffi::DeviceToName(graphffi::DeviceFromName("cpu")), std::string("cpu"));
  CHECK_EQ(graphffi::DeviceToName(graphffi::DeviceFromName("mps:1")), std::string("metal:1"));
  for (const char* bad : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1 "}) {
    CHECK(Thrown<Error>([&] {
            graphffi::DeviceFromName(bad);
          }).find("ValueError: graphffi: device") == 0);
  }
}

int FakeAllocator(DLTensor*, DLManagedTensorVersioned**, void*,
                  void (*)(void*, const char*, const char*)) {
  return -1;
}

TEST(the_env_is_restored_null_included) {
  int stream = 0;
  {
    const graphffi::EnvScope outer({kDLCUDA, 1}, &stream, FakeAllocator);
    CHECK(TVMFFIEnvGetStream(kDLCUDA, 1) == &stream);
    {
      const graphffi::EnvScope inner({kDLCUDA, 1}, nullptr, nullptr);
      CHECK(TVMFFIEnvGetStream(kDLCUDA, 1) == nullptr);
    }
    CHECK(TVMFFIEnvGetStream(kDLCUDA, 1) == &stream);
    CHECK(TVMFFIEnvGetDLPackManagedTensorAllocator() == FakeAllocator);
  }
  CHECK(TVMFFIEnvGetStream(kDLCUDA, 1) == nullptr);
  CHECK(TVMFFIEnvGetDLPackManagedTensorAllocator() == nullptr);
}

TEST(threads_use_their_own_pools) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([] {
      Matrix m;
      for (int i = 0; i < 2000; ++i) {
        Loans loans(kRetaining);
        CallFrame frame(&loans);
        frame.Push(ToAny(&m.tensor));
        TVMFFIAny result{};
        CHECK_EQ(Run(&frame, {Return, nullptr}, &result), 0);
        TVMFFIObjectDecRef(result.v_obj);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(retained.load(), 16000);
  CHECK_EQ(released.load(), 16000);
}

TEST(ints_are_computed_of_sizes_and_attributes) {
  Matrix m;
  const TVMFFIAny inputs[] = {ToAny(&m.tensor)};
  const TVMFFIAny attributes[] = {ToAny(5), ToAny(true)};
  CallValues values;
  values.inputs = {inputs, nullptr, 1};
  values.attributes = {attributes, nullptr, 2};
  const char* text =
      "int(floordiv(sub(0, n0), 2)), int(add(size(i0, -1), n1)), int(max(ndim(i0), numel(i0))), "
      "(int(mod(n0, -3)), n0)";
  const Kernel kernel{[](void*, const TVMFFIAny* args, int32_t num_args, TVMFFIAny*) {
                        CHECK_EQ(num_args, 4);
                        CHECK_EQ(args[0].v_int64, int64_t{-3});
                        CHECK_EQ(args[1].v_int64, int64_t{4});
                        CHECK_EQ(args[2].v_int64, int64_t{6});
                        CHECK_EQ(graphffi::Elements(args[3])[0].v_int64, int64_t{-1});
                        CHECK_EQ(graphffi::Elements(args[3]).size, int64_t{2});
                        return 0;
                      },
                      nullptr};
  const Signature plan = ParsePlan(text, {1, 0, 2});
  CallFrame frame;
  frame.PushPlan(plan, values);
  CHECK_EQ(Run(&frame, kernel), 0);
  const Signature folded = plan.Fold({{5, true}, {}});
  values.attributes = {};
  CallFrame of_folded;
  of_folded.PushPlan(folded, values);
  CHECK_EQ(Run(&of_folded, kernel), 0);
}

TEST(ints_that_cannot_be_computed_are_errors) {
  Matrix m;
  const TVMFFIAny inputs[] = {ToAny(&m.tensor), TVMFFIAny{}};
  const TVMFFIAny attributes[] = {ToAny(0), ToAny("text")};
  CallValues values;
  values.inputs = {inputs, nullptr, 2};
  values.attributes = {attributes, nullptr, 2};
  const std::pair<const char*, const char*> cases[] = {
      {"int(mod(numel(i0), n0))", "ValueError: f: plan: expected an int of 64 bits, got 6 % 0"},
      {"int(add(n0, s0))",
       "TypeError: f: plan: expected arithmetic of ints, got a value of another type"},
      {"int(size(i0, 2))",
       "ValueError: f: operand 'i0': expected a dimension 2 for the plan, got float32[2, 3] on "
       "cpu"},
      {"int(numel(i1))",
       "ValueError: f: operand 'i1': expected a number of elements for the plan, got no tensor"},
  };
  for (const auto& [text, error] : cases) {
    const Signature plan = ParsePlan(text, {2, 0, 1, 0, 1});
    CHECK_EQ(Thrown<Error>([&] { CallFrame().PushPlan(plan, values); }), std::string(error));
  }
  for (const char* text : {"int(", "int()", "int(n0)", "int(3)", "int(n0", "int(size(i0))",
                           "int(size(i0, x))", "int(add(n0))", "int(add(n0, 1)", "int(pow(n0, 1))",
                           "int(numel(n0))", "int(i0)", "int(add(n0, 1, 2))"}) {
    CHECK(Thrown<Error>([&] { ParsePlan(text, {2, 0, 1}); }).find("ValueError: f: plan") == 0);
  }
}

}  // namespace
