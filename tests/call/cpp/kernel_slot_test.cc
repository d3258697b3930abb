// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_slot.h"

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "call/error.h"
#include "call/global_function.h"
#include "call/registry_watch.h"
#include "check.h"

namespace {

using graphffi::Error;
using graphffi::KernelSlot;

/// Where a function's calls are counted, which says so when it dies.
struct Functions {
  std::atomic<int> alive{0};

  struct Self {
    Functions* owner;
    int64_t number;
  };

  static int Answer(void* self, const TVMFFIAny*, int32_t, TVMFFIAny* result) {
    result->type_index = kTVMFFIInt;
    result->v_int64 = static_cast<Self*>(self)->number;
    return 0;
  }
  static void Delete(void* self) {
    --static_cast<Self*>(self)->owner->alive;
    delete static_cast<Self*>(self);
  }

  /// Registers a function that returns `number`.
  void Register(const char* name, int64_t number) {
    TVMFFIObjectHandle function = nullptr;
    CHECK_EQ(TVMFFIFunctionCreate(new Self{this, number}, &Answer, &Delete, &function), 0);
    ++alive;
    graphffi::SetGlobal(name, function, /*allow_override=*/true);
    TVMFFIObjectDecRef(function);
  }
};

int64_t Call(const KernelSlot::Use& use) {
  TVMFFIAny result{};
  CHECK_EQ(use.kernel().safe_call(use.kernel().handle, nullptr, 0, &result), 0);
  return result.v_int64;
}

int64_t Call(const KernelSlot& slot) { return Call(KernelSlot::Use(slot)); }

std::string Failure(const KernelSlot& slot) {
  try {
    Call(slot);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(a_slot_calls_what_its_name_stands_for_now) {
  Functions functions;
  const KernelSlot slot("test.slot_now");
  CHECK(Failure(slot).find("KeyError") == 0);
  for (const int64_t number : {1, 2, 3}) {
    functions.Register("test.slot_now", number);
    CHECK_EQ(Call(slot), number);
    functions.Register("test.slot_other", number);
    CHECK_EQ(Call(slot), number);
  }
  CHECK(graphffi::RemoveGlobal("test.slot_now"));
  CHECK(!graphffi::RemoveGlobal("test.slot_now"));
  CHECK(Failure(slot).find("KeyError") == 0);
  functions.Register("test.slot_now", 4);
  CHECK_EQ(Call(slot), int64_t{4});
}

TEST(a_replaced_function_lives_until_its_calls_are_over) {
  Functions functions;
  {
    const KernelSlot slot("test.slot_alive");
    functions.Register("test.slot_alive", 0);
    CHECK_EQ(Call(slot), int64_t{0});
    functions.Register("test.slot_alive", 1);
    {
      const KernelSlot::Use under_way(slot);
      functions.Register("test.slot_alive", 2);
      CHECK_EQ(Call(slot), int64_t{2});
      CHECK_EQ(functions.alive.load(), 3);
      CHECK_EQ(Call(under_way), int64_t{1});
    }
    functions.Register("test.slot_alive", 3);
    CHECK_EQ(Call(slot), int64_t{3});
    CHECK_EQ(functions.alive.load(), 2);  // and the slot's first one
  }
  CHECK_EQ(functions.alive.load(), 1);
  CHECK(graphffi::RemoveGlobal("test.slot_alive"));
  CHECK_EQ(functions.alive.load(), 0);
}

TEST(a_function_that_comes_back_is_called_again) {
  Functions functions;
  const KernelSlot slot("test.slot_again");
  functions.Register("test.slot_again", 1);
  const graphffi::ObjectRef first = graphffi::FindGlobal("test.slot_again");
  for (int turn = 0; turn < 3; ++turn) {
    graphffi::SetGlobal("test.slot_again", first.get(), /*allow_override=*/true);
    CHECK_EQ(Call(slot), int64_t{1});
    functions.Register("test.slot_again", 2);
    CHECK_EQ(Call(slot), int64_t{2});
  }
}

/// The registry of apache-tvm-ffi has no lock of its own: in Python's processes it is the GIL.
void LockRegistry() {
  graphffi::RegistryWatch& watch = graphffi::RegistryWatch::Get();
  if (watch.is_own_runtime()) return;
  watch.opt_lock.store([](graphffi::RegistryWatch::Body body, void* context) {
    static std::mutex mutex;
    std::lock_guard<std::mutex> lock(mutex);
    body(context);
  });
}

TEST(threads_call_while_another_one_replaces) {
  LockRegistry();
  Functions functions;
  {
    const KernelSlot slot("test.slot_threads");
    functions.Register("test.slot_threads", 0);
    CHECK_EQ(Call(slot), int64_t{0});  // the slot's first one, which it keeps
    std::atomic<int64_t> newest{0};
    std::atomic<bool> done{false};
    std::vector<std::thread> callers;
    for (int t = 0; t < 4; ++t) {
      callers.emplace_back([&] {
        while (!done.load()) {
          const int64_t before = newest.load(), answer = Call(slot);
          CHECK(answer >= before);
        }
      });
    }
    for (int64_t i = 1; i <= 2000; ++i) {
      functions.Register("test.slot_threads", i);
      newest.store(i);
    }
    done.store(true);
    for (std::thread& caller : callers) caller.join();
    functions.Register("test.slot_threads", 2001);
    CHECK_EQ(Call(slot), int64_t{2001});
    CHECK_EQ(functions.alive.load(), 2);
  }
  CHECK(graphffi::RemoveGlobal("test.slot_threads"));
  CHECK_EQ(functions.alive.load(), 0);
}

}  // namespace
