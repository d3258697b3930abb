// SPDX-License-Identifier: Apache-2.0
// Eight threads at once, and memory that stays flat. Apache's tables are not locked, so what
// several threads register there is only looked up.
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "abi.h"

constexpr int kThreads = 8;
constexpr int kRounds = 500;

template <typename Run>
static void InThreads(Run run) {
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([=] { run(t); });
  for (std::thread& thread : threads) thread.join();
}

TEST(threads_have_slots_of_their_own) {
  InThreads([](int t) {
    for (int i = 0; i < kRounds; ++i) {
      std::string message = std::to_string(t) + "." + std::to_string(i);
      TVMFFIErrorSetRaisedFromCStr("ValueError", message.c_str());
      std::this_thread::yield();
      CHECK_EQ(Raised(), "ValueError: " + message);
    }
    TVMFFIErrorSetRaisedFromCStr("ValueError", "left behind when the thread ends");
  });
  CHECK_EQ(Raised(), std::string());
}

TEST(threads_have_streams_and_backtraces_of_their_own) {
  InThreads([](int t) {
    int stream = t;
    TVMFFIEnvSetStream(kDLCUDA, 0, &stream, nullptr);
    const TVMFFIByteArray* backtrace = TVMFFIBacktrace("f", t, "g", 0);
    std::this_thread::yield();
    CHECK_EQ(TVMFFIEnvGetStream(kDLCUDA, 0), static_cast<void*>(&stream));
    std::string line = "  File \"f\", line " + std::to_string(t) + ", in g\n";
    CHECK_EQ(Text(*backtrace).substr(0, line.size()), line);
  });
  CHECK(TVMFFIEnvGetStream(kDLCUDA, 0) == nullptr);
}

TEST(threads_share_one_function) {
  static std::atomic<int> calls{0};
  Callback callback;
  Value function = callback.Make([](void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
    ++calls;
    return 0;
  });
  void* shared = function.object();
  InThreads([shared](int) {
    for (int i = 0; i < kRounds; ++i) {
      TVMFFIObjectIncRef(shared);
      Value result;
      CHECK_EQ(TryCall(shared, {}, &result), 0);
      TVMFFIObjectDecRef(shared);
    }
  });
  CHECK_EQ(calls.load(), kThreads * kRounds);
  CHECK_EQ(Count(shared), 1 + kOneWeak);
}

TEST(threads_register_and_look_up_functions) {
  if (!IsBundled()) return;
  static Callback callbacks[kThreads];
  InThreads([](int t) {
    Value function = callbacks[t].Make(ReturnNothing);
    for (int i = 0; i < kRounds; ++i) {
      std::string own = "test." + std::to_string(t) + "." + std::to_string(i);
      TVMFFIByteArray bytes = Bytes(own);
      CHECK_EQ(TVMFFIFunctionSetGlobal(&bytes, function.object(), 0), 0);
      CHECK_EQ(Global(own).object(), function.object());
      TVMFFIByteArray shared = Bytes("test.shared");
      CHECK_EQ(TVMFFIFunctionSetGlobal(&shared, function.object(), 1), 0);
      CHECK(Global("test.shared").type_index() == kTVMFFIFunction);
      CHECK(Global("ffi.Array").type_index() == kTVMFFIFunction);
      CHECK_EQ(Call("ffi.FunctionRemoveGlobal", {RawStr(own.c_str())}).value.v_int64, int64_t{1});
      CHECK_EQ(TVMFFIFunctionSetGlobal(&shared, nullptr, 0), -1);
      CHECK_EQ(RaisedKind(), std::string("RuntimeError"));
    }
  });
}

TEST(threads_register_types_and_attributes) {
  if (!IsBundled()) return;
  InThreads([](int t) {
    for (int i = 0; i < kRounds; ++i) {
      std::string key = "test.T" + std::to_string(i);
      TVMFFIByteArray bytes = Bytes(key);
      int32_t index = TVMFFITypeGetOrAllocIndex(&bytes, -1, 1, 0, 1, kTVMFFIObject);
      CHECK_EQ(Text(TVMFFIGetTypeInfo(index)->type_key), key);
      TVMFFIByteArray name = Bytes("__test__");
      TVMFFIAny value = Int(index);
      if (TVMFFITypeRegisterAttr(index, &name, &value) != 0) Raised();
      const TVMFFITypeAttrColumn* column = TVMFFIGetTypeAttrColumn(&name);
      // As kernels do: without a lock, while other threads let the column grow.
      const TVMFFIAny* values = __atomic_load_n(&column->data, __ATOMIC_ACQUIRE);
      CHECK_EQ(values[index - column->begin_index].v_int64, int64_t{index});
      TVMFFIMethodInfo method = {Bytes("m"), Bytes(""), Bytes(""), 0, Int(t)};
      CHECK_EQ(TVMFFITypeRegisterMethod(index, &method), 0);
    }
  });
}

static std::atomic<int> inits{0};
static void* once_handles[kRounds];

TEST(threads_make_a_handle_once) {
  InThreads([](int) {
    for (void*& handle : once_handles) {
      CHECK_EQ(TVMFFIHandleInitOnce(&handle,
                                    [](void** result) {
                                      std::this_thread::yield();
                                      *result = &inits;
                                      return ++inits, 0;
                                    }),
               0);
      CHECK_EQ(handle, static_cast<void*>(&inits));
    }
  });
  CHECK_EQ(inits.load(), kRounds);
}

static int Fail(void*, const TVMFFIAny*, int32_t, TVMFFIAny*) {
  TVMFFIErrorSetRaisedFromCStr("ValueError", "a message that is too long for a small string");
  return -1;
}

TEST(memory_stays_flat_over_10000_failures) {
  Callback callback;
  Value function = callback.Make(Fail);
  auto fail = [&](int times) {
    for (int i = 0; i < times; ++i) {
      Value result;
      CHECK_EQ(TryCall(function.object(), {RawStr("some longer text")}, &result), -1);
      if (i % 2 != 0) Raised();  // Every other error is replaced instead.
      CHECK_EQ(TryCall(Global("ffi.ArrayGetItem").object(), {Int(1), Int(2)}, &result), -1);
    }
    Raised();
  };
  fail(100);
  size_t before = mallinfo2().uordblks;
  fail(10000);
  CHECK(mallinfo2().uordblks < before + 100000);
}

TEST(memory_stays_flat_over_10000_values) {
  auto make = [](int times) {
    for (int i = 0; i < times; ++i) {
      Value text = Str("a text that needs an object");
      Value array = Call("ffi.Array", {text.value, Int(i)});
      Value map = Call("ffi.Map", {Int(1), array.value, Int(2), text.value, Int(3), Int(4), Int(5),
                                   Int(6), Int(7), Int(8), Int(9), Int(10)});
    }
  };
  make(100);
  size_t before = mallinfo2().uordblks;
  make(10000);
  CHECK(mallinfo2().uordblks < before + 100000);
}

static int64_t NumImports(const Value& module) {
  const TVMFFITypeInfo* type = TVMFFIGetTypeInfo(kTVMFFIModule);
  for (int32_t i = 0; i < type->num_fields; ++i) {
    const TVMFFIFieldInfo& field = type->fields[i];
    if (Text(field.name) != "imports_") continue;
    Value imports;
    void* address = static_cast<char*>(module.object()) + field.offset;
    CHECK_EQ(field.getter(address, &imports.value), 0);
    return TVMFFISeqGetCellPtr(imports.object())->size;
  }
  return -1;
}

TEST(imports_of_all_threads_are_kept) {
  if (!IsBundled()) return;
  Value importer = Call("ffi.SystemLib", {RawStr("test.importer.")});
  const TVMFFIAny shared = importer.value;
  InThreads([shared](int t) {
    for (int i = 0; i < kRounds / 10; ++i) {
      std::string prefix = "test." + std::to_string(t) + "." + std::to_string(i) + ".";
      Value module = Call("ffi.SystemLib", {RawStr(prefix.c_str())});
      Call("ffi.ModuleImportModule", {shared, module.value});
    }
  });
  CHECK_EQ(NumImports(importer), int64_t{kThreads * (kRounds / 10)});
}

static void LookUp() {
  static std::atomic<int> num_modules{0};
  const std::string prefix = "test.fork." + std::to_string(num_modules++) + ".";
  if (IsBundled()) Call("ffi.SystemLib", {RawStr(prefix.c_str())});  // apache's hangs in the child
  const TVMFFIByteArray name = {"ffi.Array", 9}, key = {"ffi.Function", 12},
                        attr = {"__any_hash__", 12};
  TVMFFIObjectHandle function = nullptr;
  TVMFFIFunctionGetGlobal(&name, &function);
  TVMFFIObjectDecRef(function);
  int32_t index = 0;
  TVMFFITypeKeyToIndex(&key, &index);
  TVMFFIGetTypeAttrColumn(&attr);
}

static void RegisterInChild() {
  alarm(60);  // ends a child that waits for a thread that it does not have
  Callback callback;
  Value function = callback.Make([](void*, const TVMFFIAny*, int32_t, TVMFFIAny*) { return 0; });
  const TVMFFIByteArray name = {"test.child", 10}, key = {"test.Child", 10},
                        attr = {"__child__", 9};
  int rc = TVMFFIFunctionSetGlobal(&name, function.object(), 1);
  const int32_t index = TVMFFITypeGetOrAllocIndex(&key, -1, 1, 0, 1, kTVMFFIObject);
  const TVMFFIAny value = Int(1);
  rc |= TVMFFITypeRegisterAttr(index, &attr, &value);
  if (IsBundled()) {
    Value a = Call("ffi.SystemLib", {RawStr("test.child.a.")});
    Value b = Call("ffi.SystemLib", {RawStr("test.child.b.")});
    Call("ffi.ModuleImportModule", {a.value, b.value});
  }
  _exit(rc);
}

TEST(a_child_of_fork_registers_what_other_threads_look_up) {
  std::atomic<bool> is_done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&is_done] {
      while (!is_done) LookUp();
    });
  }
  for (int i = 0; i < kRounds / 5; ++i) {
    const pid_t child = fork();
    if (child == 0) RegisterInChild();
    int status = 0;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    if (status != 0) break;
  }
  is_done = true;
  for (std::thread& thread : threads) thread.join();
}
