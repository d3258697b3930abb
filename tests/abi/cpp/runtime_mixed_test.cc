// SPDX-License-Identifier: Apache-2.0
// Eight threads that call, register, fail and load at once, each at its own pace.
#include <thread>

#include "abi.h"

constexpr int kThreads = 8;
constexpr int kRounds = 100;
constexpr int kLibraries = 4;

static Value LoadModule(int number) {
  const std::string folder = std::getenv("GRAPHFFI_TEST_LIBRARIES");
  const std::string path = folder + "/library" + std::to_string(number) + ".so";
  return Call("ffi.ModuleLoadFromFile", {RawStr(path.c_str())});
}

static Value FunctionOf(const Value& module, const char* name) {
  return Call("ffi.ModuleGetFunction", {module.value, RawStr(name), Bool(true)});
}

static void CallLibrary(int t, int round) {
  Value module = LoadModule((t + round) % kLibraries);
  Value result;
  Value add_one = FunctionOf(module, "add_one");
  CHECK_EQ(TryCall(add_one.object(), {Int(round)}, &result), 0);
  CHECK_EQ(result.value.v_int64, int64_t{round + 1});
  // The library looks up its own import, which the runtime keeps for it.
  CHECK_EQ(TryCall(FunctionOf(module, "call_import").object(), {Int(round)}, &result), 0);
  CHECK_EQ(result.value.v_int64, int64_t{round});
}

static void Fail(int t, int round) {
  Value module = LoadModule(t % kLibraries);
  const std::string message = "thread " + std::to_string(t) + " round " + std::to_string(round);
  Value result;
  CHECK_EQ(TryCall(FunctionOf(module, "fail").object(), {RawStr(message.c_str())}, &result), -1);
  std::this_thread::yield();
  CHECK_EQ(Raised(), "ValueError: " + message);
  Value path = Str("/nowhere/" + message + ".so");
  CheckCallRaises("ffi.ModuleLoadFromFile", {path.value}, "RuntimeError", "/nowhere/");
}

static void Register(int t, int round, const Value& function) {
  const std::string own = "test.mixed." + std::to_string(t);
  TVMFFIByteArray own_name = Bytes(own), shared_name = Bytes("test.mixed.shared");
  CHECK_EQ(TVMFFIFunctionSetGlobal(&own_name, function.object(), 0), 0);
  CHECK_EQ(TVMFFIFunctionSetGlobal(&shared_name, function.object(), 1), 0);
  CHECK_EQ(Call("test.mixed.shared", {}).type_index(), int32_t{kTVMFFINone});
  CHECK_EQ(Call("ffi.FunctionRemoveGlobal", {RawStr(own.c_str())}).value.v_int64, int64_t{1});

  const std::string key = "test.Mixed" + std::to_string(round);
  TVMFFIByteArray type_key = Bytes(key);
  int32_t type = TVMFFITypeGetOrAllocIndex(&type_key, -1, 1, 0, 1, kTVMFFIObject);
  int32_t found = 0;
  CHECK_EQ(TVMFFITypeKeyToIndex(&type_key, &found), 0);
  CHECK_EQ(found, type);
  const std::string symbol = "__tvm_ffi_mixed" + std::to_string(t);
  static int anything;
  CHECK_EQ(TVMFFIEnvModRegisterSystemLibSymbol(symbol.c_str(), &anything), 0);
  CHECK_EQ(TVMFFIEnvModRegisterContextSymbol("__test_mixed_context", &anything), 0);
}

static void ShareValues(const Value& shared) {
  Value text = Str("a text that needs an object");
  Value array = Call("ffi.Array", {shared.value, text.value, shared.value});
  Value map = Call("ffi.Map", {text.value, array.value, Int(1), shared.value});
  Value same = Call("ffi.MapGetItem", {map.value, Int(1)});
  CHECK_EQ(same.object(), shared.object());
}

static int Identity(void*, const TVMFFIAny* args, int32_t, TVMFFIAny* result) {
  return TVMFFIAnyViewToOwnedAny(args, result);
}

static void RunThread(int t, const Value& function, const Value& shared) {
  for (int round = 0; round < kRounds; ++round) {
    // Another order in each thread, so that different things meet.
    for (int step = 0; step < 4; ++step) {
      const int what = (step + t) % 4;
      if (what == 0) CallLibrary(t, round);
      if (what == 1) Fail(t, round);
      if (what == 2) Register(t, round, function);
      if (what == 3) ShareValues(shared);
    }
  }
}

TEST(threads_call_register_fail_and_load_at_once) {
  if (!IsBundled()) return;
  static Callback callbacks[kThreads + 1];
  Value identity = callbacks[kThreads].Make(Identity);
  TVMFFIByteArray name = Bytes("test.mixed.identity");
  CHECK_EQ(TVMFFIFunctionSetGlobal(&name, identity.object(), 0), 0);
  Value shared = Str("a text that all threads hold");
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t, &shared] { RunThread(t, callbacks[t].Make(ReturnNothing), shared); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(Count(shared.object()), 1 + kOneWeak);
}
