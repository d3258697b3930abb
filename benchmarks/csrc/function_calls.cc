// SPDX-License-Identifier: Apache-2.0
// The cost of calls of Functions in C++. Compiled with either set of headers; prints nanoseconds
// per call of the case that the first argument names.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace ffi = tvm::ffi;

namespace {

struct Heap {
  void AllocData(DLTensor* tensor) { tensor->data = std::calloc(1, ffi::GetDataSize(*tensor)); }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("benchmark.add", [](int64_t a, int64_t b) { return a + b; })
      .def("benchmark.touch",
           [](ffi::TensorView x, ffi::TensorView out) {
             *static_cast<float*>(out.data_ptr()) = *static_cast<float*>(x.data_ptr());
           })
      .def("benchmark.text", [](ffi::String text) { return static_cast<int64_t>(text.size()); })
      .def("benchmark.array", [](ffi::Array<int64_t> items) { return items[1]; });
}

template <typename Body>
double NanosecondsPerCall(Body body) {
  constexpr int kCalls = 300000;
  for (int i = 0; i < kCalls / 10; ++i) body(i);
  const std::clock_t begin = std::clock();
  for (int i = 0; i < kCalls; ++i) body(i);
  return 1e9 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / kCalls;
}

}  // namespace

int main(int, char** argv) {
  const char* name = argv[1];
  ffi::Function function = ffi::Function::GetGlobalRequired(std::string("benchmark.") + name);
  ffi::Tensor x = ffi::Tensor::FromNDAlloc(Heap(), {16}, DLDataType{kDLFloat, 32, 1}, {kDLCPU, 0});
  ffi::String text = "longer than seven";
  ffi::Array<int64_t> array{1, 2, 3};
  double result = 0;
  if (std::strcmp(name, "add") == 0) {
    result = NanosecondsPerCall([&](int64_t i) { function(i, 2).cast<int64_t>(); });
  } else if (std::strcmp(name, "touch") == 0) {
    result = NanosecondsPerCall([&](int64_t) { function(x, x); });
  } else if (std::strcmp(name, "text") == 0) {
    result = NanosecondsPerCall([&](int64_t) { function(text).cast<int64_t>(); });
  } else {
    result = NanosecondsPerCall([&](int64_t) { function(array).cast<int64_t>(); });
  }
  std::printf("%f\n", result);
  return 0;
}
