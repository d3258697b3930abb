// SPDX-License-Identifier: Apache-2.0
// Calls the functions of kernel_features.cc in a library and prints what comes back, errors
// included.
#include <dlfcn.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/tvm_ffi.h>

#include <cstdlib>
#include <iostream>

using namespace tvm::ffi;  // as kernels do

namespace {

void* library;

TVMFFISafeCallType Symbol(const std::string& name) {
  void* symbol = dlsym(library, ("__tvm_ffi_" + name).c_str());
  if (symbol == nullptr) std::cout << "no symbol " << name << "\n";
  return reinterpret_cast<TVMFFISafeCallType>(symbol);
}

std::string Describe(const Any& value) {
  if (value == nullptr) return "None";
  if (auto number = value.as<int64_t>()) return std::to_string(*number);
  if (auto text = value.as<String>()) return *text;
  if (value.type_index() == kTVMFFIMap) {
    std::string text;
    for (auto [key, element] : value.cast<Map<Any, Any>>()) {
      text += Describe(key) + "=" + Describe(element) + " ";
    }
    return text;
  }
  return value.GetTypeKey();
}

template <typename... Args>
Any Call(const std::string& name, Args&&... args) {
  try {
    TVMFFISafeCallType symbol = Symbol(name);
    if (symbol == nullptr) return Any();
    Any result = Function::InvokeExternC(nullptr, symbol, std::forward<Args>(args)...);
    std::cout << name << ": " << Describe(result) << "\n";
    return result;
  } catch (const Error& error) {
    std::cout << name << ": " << error.kind() << ": " << error.message() << "\n";
    return Any();
  }
}

struct Alloc {
  void AllocData(DLTensor* tensor) { tensor->data = std::calloc(1, GetDataSize(*tensor)); }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};

}  // namespace

int main(int, char** argv) {
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::cout << dlerror() << "\n";
    return 1;
  }
  Tensor x = Tensor::FromNDAlloc(Alloc(), {2, 3}, DLDataType{kDLFloat, 32, 1}, DLDevice{kDLCPU, 0});
  Tensor small =
      Tensor::FromNDAlloc(Alloc(), {2}, DLDataType{kDLFloat, 32, 1}, DLDevice{kDLCPU, 0});
  Tensor ints =
      Tensor::FromNDAlloc(Alloc(), {2, 3}, DLDataType{kDLInt, 32, 1}, DLDevice{kDLCPU, 0});
  Call("add_one", x, x);
  std::cout << static_cast<float*>(x.data_ptr())[5] << "\n";
  Call("add_one", TensorView(x), TensorView(x));
  Call("add_one", ints, x);
  Call("add_one", x, small);
  Call("add_one", x);
  Call("add_one", x, 1);
  Call("describe", x, small);
  Call("describe", TensorView(x), nullptr);
  Call("describe", x, "text");
  Call("scalars", 1, 2.5, true, "text", "float16", "cuda:1", nullptr, nullptr);
  Call("scalars", true, 2, 1, String("longer than seven"), DLDataType{kDLInt, 8, 1},
       DLDevice{kDLCPU, 0}, 4, static_cast<void*>(argv));
  Call("scalars", 1.5, 2, 1, "s", "int8", "cpu", 4, nullptr);
  Call("scalars", 1, 2, 1, "s", "int8x", "cpu", 4, nullptr);
  Map<String, int64_t> map;
  for (int i = 0; i < 20; ++i) map.Set(std::to_string(i), i);
  Array<int64_t> array{5, 6};
  Call("containers", array, map, Tuple<int64_t, String>(7, "tuple"), 8, Shape{2, 3});
  Call("containers", List<int64_t>{5}, map, Tuple<int64_t, String>(7, "t"), "v", array);
  Call("containers", Array<Any>{5, "x"}, map, Tuple<int64_t, String>(7, "t"), "v", array);
  Call("containers", array, map, Tuple<int64_t>(7), "v", array);
  Call("containers", array, map, Tuple<int64_t, String>(7, "t"), 1.5, array);
  Call("call_back",
       Function::FromTyped([](int64_t a, String b) { return a + static_cast<int64_t>(b.size()); }),
       10);
  Call("call_back", Function::FromTyped([](int64_t, String) -> int64_t {
         TVM_FFI_THROW(IndexError) << "from the callback";
       }),
       10);
  Call("call_back", nullptr);
  for (int how = 0; how < 5; ++how) Call("fail", how);
  Call("by_hand", 21);
  Call("by_hand", 0);
  Call("by_hand");
  Any counter = Call("make_counter", 7);
  Function next = counter.cast<Module>()->GetFunction("next", true).value();
  next();
  std::cout << next().cast<int>() << " " << counter.cast<Module>()->kind() << "\n";
  Call("keep", x);
  Call("keep", TensorView(x));
  for (const char* name : {"add_one", "describe", "scalars", "containers", "call_back", "keep"}) {
    Call(std::string("_metadata_") + name);
  }
  Call("_doc_fail");
  return 0;
}
