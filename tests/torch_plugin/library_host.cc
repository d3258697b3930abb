// SPDX-License-Identifier: Apache-2.0
// Calls a library of a graph from two threads, with wrong operands and a kernel that throws among
// the calls. The library's path is the first argument. Run with sanitizers by `make sanitize`.
#include <dlfcn.h>
#include <tvm/ffi/c_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
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

/// Doubles the elements; throws for negative ones.
int Double(void*, const TVMFFIAny* args, int32_t, TVMFFIAny*) {
  const auto* x = TVMFFITensorGetDLTensorPtr(args[0].v_obj);
  const auto* y = TVMFFITensorGetDLTensorPtr(args[1].v_obj);
  for (int64_t i = 0; i < x->shape[0] * x->shape[1]; ++i) {
    const float value = static_cast<const float*>(x->data)[i];
    if (value < 0) {
      TVMFFIErrorSetRaisedFromCStr("IndexError", "an element is negative");
      return -1;
    }
    static_cast<float*>(y->data)[i] = 2 * value;
  }
  return 0;
}

struct Matrix {
  float data[32];
  int64_t shape[2];
  DLTensor view{data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};

  Matrix(int64_t rows, int64_t columns, float value) : shape{rows, columns} {
    for (float& element : data) element = value;
  }
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

struct Library {
  TVMFFISafeCallType main, main_into, main_within, trim;
};

/// Also as the first call, which makes what later ones share.
void RunInWorkspace(const Library& library) {
  Matrix x(3, 4, 1), product(3, 3, 0), sums(3, 4, 0);
  TVMFFIAny arguments[] = {{}, x.AsArgument(), product.AsArgument(), sums.AsArgument()};
  TVMFFIAny needed{};
  CHECK(library.main_within(nullptr, arguments, 4, &needed) == 0);
  std::vector<char> memory(static_cast<size_t>(needed.v_int64));
  DLTensor workspace{memory.data(), {kDLCPU, 0}, 1, {kDLUInt, 8, 1}, &needed.v_int64, nullptr, 0};
  arguments[0].type_index = kTVMFFIDLTensorPtr;
  arguments[0].v_ptr = &workspace;
  TVMFFIAny result{};
  CHECK(library.main_within(nullptr, arguments, 4, &result) == 0);
  CHECK(sums.data[3] == 4.0F);
}

void ExpectError(const Library& library, Matrix x, const char* text) {
  TVMFFIAny argument = x.AsArgument(), result{};
  CHECK(library.main(nullptr, &argument, 1, &result) == -1);
  CHECK(TakeError() == text);
}

/// [rows, 4] -> [rows, 3] and, of ones, [rows, 4] fours
void CallOnce(const Library& library, int i) {
  const int64_t rows = 2 + i % 5;
  if (i % 7 == 3) {
    return ExpectError(library, {rows, 4, -1}, "IndexError: an element is negative");
  }
  if (i % 7 == 5) return ExpectError(library, {rows, 4, 0}, "RuntimeError: ZeroDivisionError");
  Matrix x(rows, 4, 1);
  TVMFFIAny argument = x.AsArgument(), result{};
  CHECK(library.main(nullptr, &argument, 1, &result) == 0);
  CHECK(result.type_index == kTVMFFIMap);
  TVMFFIObjectDecRef(result.v_obj);

  Matrix product(rows, 3, 0), sums(rows, 4, 0);
  TVMFFIAny arguments[] = {argument, product.AsArgument(), sums.AsArgument()};
  CHECK(library.main_into(nullptr, arguments, 3, nullptr) == 0);
  CHECK(sums.data[3] == 4.0F);
  CHECK(library.main_into(nullptr, arguments, 2, nullptr) == -1);
  CHECK(TakeError() ==
        "TypeError: main_into: expected 1 operand and 2 results, got 2 arguments; operands: x");
  Matrix wrong(rows, 5, 1);
  TVMFFIAny other = wrong.AsArgument();
  CHECK(library.main(nullptr, &other, 1, &result) == -1);
  CHECK(TakeError().find("ValueError: main: operand 'x': expected float32[") == 0);
  RunInWorkspace(library);
  if (i % 16 == 0) CHECK(library.trim(nullptr, nullptr, 0, nullptr) == 0);
}

template <typename Symbol>
void Find(void* library, const char* name, Symbol* symbol) {
  *symbol = reinterpret_cast<Symbol>(dlsym(library, name));
  CHECK(*symbol != nullptr);
}

}  // namespace

int main(int, char** argv) {
  TVMFFIObjectHandle function = nullptr;
  CHECK(TVMFFIFunctionCreate(nullptr, &Double, nullptr, &function) == 0);
  const TVMFFIByteArray name = {"sanitized.double", std::strlen("sanitized.double")};
  CHECK(TVMFFIFunctionSetGlobal(&name, function, 1) == 0);
  TVMFFIObjectDecRef(function);

  void* file = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) std::fprintf(stderr, "%s\n", dlerror());
  CHECK(file != nullptr);
  Library library{};
  Find(file, "__tvm_ffi_main", &library.main);
  Find(file, "__tvm_ffi_main_into", &library.main_into);
  Find(file, "__tvm_ffi_main_within", &library.main_within);
  Find(file, "__tvm_ffi_trim_memory", &library.trim);
  const auto run = [&] {
    RunInWorkspace(library);
    for (int i = 0; i < 200; ++i) CallOnce(library, i);
  };
  std::thread other(run);
  run();
  other.join();
  return 0;
}
