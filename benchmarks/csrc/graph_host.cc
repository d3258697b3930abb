// SPDX-License-Identifier: Apache-2.0
// Calls a method of a library that to_library made:
// graph_host <library> <function> <calls> <operand>...
#include <dlfcn.h>
#include <tvm/ffi/c_api.h>

#include "host.h"

namespace {

void Fail(const char* what) {
  std::fprintf(stderr, "graph_host: %s\n", what);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Operand> operands(argv + 4, argv + argc);
  std::vector<DLTensor> views;
  for (Operand& each : operands) {
    const DLDataType dtype{static_cast<uint8_t>(each.is_float ? kDLFloat : kDLInt),
                           static_cast<uint8_t>(each.is_float ? 32 : 64), 1};
    views.push_back({each.data(),
                     {kDLCPU, 0},
                     static_cast<int32_t>(each.shape.size()),
                     dtype,
                     each.shape.data(),
                     nullptr,
                     0});
  }
  std::vector<TVMFFIAny> args(views.size());
  for (size_t i = 0; i < args.size(); ++i) {
    args[i].type_index = kTVMFFIDLTensorPtr;
    args[i].v_ptr = &views[i];
  }
  return Report(std::atoi(argv[3]), [&] {
    void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) Fail(dlerror());
    auto method = reinterpret_cast<TVMFFISafeCallType>(dlsym(library, argv[2]));
    if (method == nullptr) Fail("no such function");
    return [method, &args] {
      TVMFFIAny result{};
      if (method(nullptr, args.data(), static_cast<int32_t>(args.size()), &result) != 0) {
        Fail("the call failed");
      }
      TVMFFIObjectDecRef(result.v_obj);
    };
  });
}
