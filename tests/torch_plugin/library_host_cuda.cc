// SPDX-License-Identifier: Apache-2.0
// Calls a library of a program on CUDA, [rows, 32] -> [rows, 16] and [16], from two threads, with a
// stand-in of the driver whose calls fail one after the other, and whose kernels do nothing. The
// arguments are the library's path and the driver's. Run with sanitizers by `make sanitize`.
#include <dlfcn.h>
#include <tvm/ffi/c_api.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

#define CHECK(condition)                                                    \
  do {                                                                      \
    if (!(condition)) {                                                     \
      std::fprintf(stderr, "%d: %s does not hold\n", __LINE__, #condition); \
      std::_Exit(1);                                                        \
    }                                                                       \
  } while (false)

template <typename Symbol>
Symbol* Find(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  CHECK(symbol != nullptr);
  return reinterpret_cast<Symbol*>(symbol);
}

struct Operand {
  std::vector<float> data;
  std::vector<int64_t> shape, strides;
  DLTensor view;

  Operand(std::vector<int64_t> sizes, std::vector<int64_t> steps = {},
          DLDevice device = {kDLCUDA, 0})
      : data(4096), shape(std::move(sizes)), strides(std::move(steps)) {
    view = {data.data(),
            device,
            static_cast<int32_t>(shape.size()),
            {kDLFloat, 32, 1},
            shape.data(),
            strides.empty() ? nullptr : strides.data(),
            0};
  }
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;

  TVMFFIAny AsArgument() {
    TVMFFIAny any{};
    any.type_index = kTVMFFIDLTensorPtr;
    any.v_ptr = &view;
    return any;
  }
};

std::string TakeError() {
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  CHECK(error != nullptr);
  const TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(error);
  std::string text = std::string(cell->kind.data, cell->kind.size) + ": " +
                     std::string(cell->message.data, cell->message.size);
  TVMFFIObjectDecRef(error);
  return text;
}

using Function = int(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);

struct Library {
  Function *main, *main_into;
};

/// 0, or -1 with an error raised.
int Call(const Library& library, Operand* x) {
  TVMFFIAny argument = x->AsArgument(), result{};
  const int rc = library.main(nullptr, &argument, 1, &result);
  if (rc == 0) TVMFFIObjectDecRef(result.v_obj);
  return rc;
}

void CallOften(const Library& library) {
  for (int i = 0; i < 50; ++i) {
    const int64_t rows = 2 + i % 9;
    Operand x({rows, 32}), spread({rows, 32}, {64, 2}), repeated({rows, 32}, {0, 1});
    CHECK(Call(library, &x) == 0 && Call(library, &spread) == 0 && Call(library, &repeated) == 0);
    Operand y({rows, 16}), sums({16});
    TVMFFIAny arguments[] = {x.AsArgument(), y.AsArgument(), sums.AsArgument()};
    CHECK(library.main_into(nullptr, arguments, 3, nullptr) == 0);
    Operand host({rows, 32}, {}, {kDLCPU, 0});
    CHECK(Call(library, &host) == -1);
    CHECK(TakeError().find("ValueError: main: operand 'x': expected float32[") == 0);
    Operand second({rows, 16}, {}, {kDLCUDA, 1});
    arguments[1] = second.AsArgument();
    CHECK(library.main_into(nullptr, arguments, 3, nullptr) == -1);
    CHECK(TakeError().find("ValueError: main_into: result 0: expected a contiguous tensor on") ==
          0);
  }
}

}  // namespace

int main(int, char** argv) {
  void* file = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) std::fprintf(stderr, "%s\n", dlerror());
  CHECK(file != nullptr);
  void* driver = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  CHECK(driver != nullptr);
  const Library library{Find<Function>(file, "__tvm_ffi_main"),
                        Find<Function>(file, "__tvm_ffi_main_into")};
  int* calls_until_failure = Find<int>(driver, "fake_calls_until_failure");
  const auto num_blocks = Find<int()>(driver, "fake_num_blocks");

  Operand x({5, 32}, {64, 2});
  int failed = 0;
  while (*calls_until_failure = failed, Call(library, &x) != 0) {
    CHECK(TakeError().find("out of memory") != std::string::npos);
    CHECK(num_blocks() <= 1);  // the weights, once they are there
    CHECK(++failed < 100);
  }
  CHECK(failed > 5);
  *calls_until_failure = -1;
  std::thread other([&] { CallOften(library); });
  CallOften(library);
  other.join();
  CHECK(num_blocks() == 1);
  CHECK(Find<int()>(driver, "fake_num_contexts")() == 0);
  return 0;
}
