// SPDX-License-Identifier: Apache-2.0
// Call frames of several threads at once: what they share is the runtime and what kernels keep.
#include <atomic>
#include <thread>

#include "call/call_frame.h"
#include "call/error.h"
#include "call/signature.h"
#include "call/value.h"
#include "check.h"
#include "env/env_scope.h"
#include "kernels/kernel_ref.h"

using graphffi::CallFrame;
using graphffi::Error;
using graphffi::Kernel;
using graphffi::Lending;
using graphffi::Loans;
using graphffi::ToAny;

namespace {

constexpr int kThreads = 8;

template <typename Run>
void InThreads(Run run) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([=] { run(t); });
  for (std::thread& thread : threads) thread.join();
}

struct Matrix {
  float data[6] = {0, 1, 2, 3, 4, 5};
  int64_t shape[2] = {2, 3};
  DLTensor tensor{data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
};

/// Where a kernel leaves what it keeps, for another thread to drop.
std::atomic<TVMFFIObjectHandle> mailbox{nullptr};

int HandOver(void*, const TVMFFIAny* args, int32_t, TVMFFIAny*) {
  TVMFFIObjectIncRef(args[0].v_obj);
  TVMFFIObjectHandle nothing = nullptr;
  // Full: drops its own.
  if (!mailbox.compare_exchange_strong(nothing, args[0].v_obj)) TVMFFIObjectDecRef(args[0].v_obj);
  return 0;
}

std::atomic<int> retained{0}, released{0};
const Lending kRetaining{[](const void* tensor) -> void* {
                           ++retained;
                           return const_cast<void*>(tensor);
                         },
                         [](void* token) {
                           CHECK_EQ(static_cast<DLTensor*>(token)->ndim, 2);
                           ++released;
                         }};

TEST(a_kept_tensor_is_dropped_while_its_call_ends) {
  std::atomic<bool> done{false};
  std::thread dropper([&done] {
    while (!done.load() || mailbox.load() != nullptr) {
      if (TVMFFIObjectHandle kept = mailbox.exchange(nullptr)) {
        CHECK_EQ(TVMFFITensorGetDLTensorPtr(kept)->shape[1], int64_t{3});
        TVMFFIObjectDecRef(kept);
      }
    }
  });
  static Matrix matrix;
  InThreads([](int) {
    for (int i = 0; i < 500; ++i) {
      Loans loans(kRetaining);
      CallFrame frame(&loans);
      frame.Push(ToAny(&matrix.tensor));
      TVMFFIAny result;
      CHECK_EQ(frame.Call({HandOver, nullptr}, &result), 0);
    }
  });
  done.store(true);
  dropper.join();
  CHECK_EQ(retained.load(), released.load());
}

int FailWithItsNumber(void*, const TVMFFIAny* args, int32_t, TVMFFIAny*) {
  TVMFFIErrorSetRaisedFromCStr("ValueError", std::to_string(args[1].v_int64).c_str());
  return -1;
}

TEST(threads_resolve_fail_and_restore_the_env) {
  const TVMFFIByteArray name = {"test.fail", 9};
  TVMFFIObjectHandle function = nullptr;
  CHECK_EQ(TVMFFIFunctionCreate(nullptr, FailWithItsNumber, nullptr, &function), 0);
  CHECK_EQ(TVMFFIFunctionSetGlobal(&name, function, 0), 0);
  TVMFFIObjectDecRef(function);
  static Matrix matrix;
  InThreads([](int t) {
    const DLDevice device{kDLCUDA, 0};
    const graphffi::Signature plan = graphffi::Signature::Parse(
        "(*inputs), n0", graphffi::TensorNames::Parse("test", ""), graphffi::Counts{2, 0, 1});
    const TVMFFIAny inputs[] = {ToAny(&matrix.tensor), ToAny(&matrix.tensor)};
    TVMFFIAny number{};
    number.type_index = kTVMFFIInt;
    number.v_int64 = t;
    for (int i = 0; i < 300; ++i) {
      const graphffi::EnvScope env(device, &number, nullptr);
      const graphffi::ObjectRef resolved = graphffi::ResolveKernel("test.fail");
      CallFrame frame;
      frame.PushPlan(plan, {{inputs, nullptr, 2}, {}, {&number, nullptr, 1}, nullptr, {}});
      TVMFFIAny result;
      const int rc = frame.Call(Kernel::FromFunction(resolved.get()), &result);
      CHECK_EQ(Error::TakeRaised(rc).message(), std::to_string(t));
      CHECK(TVMFFIEnvGetStream(device.device_type, 0) == &number);
    }
    CHECK(TVMFFIEnvGetStream(device.device_type, 0) == nullptr);
  });
}

}  // namespace
