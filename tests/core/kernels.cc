// SPDX-License-Identifier: Apache-2.0
// Kernels that do what the tests of the bindings need, well-behaved and not.
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace ffi = tvm::ffi;

namespace {

ffi::Any kept;

ffi::Any Echo(ffi::AnyView value) { return value; }
int64_t TypeIndex(ffi::AnyView value) { return value.type_index(); }
ffi::List<ffi::Any> list;
void FillList(const ffi::String& kind) { list = {ffi::Error(kind, "the text", ""), 1, 2}; }
void GrowList(int64_t count) {
  for (int64_t i = 0; i < count; ++i) list.push_back(i);
}
ffi::Any GiveList() { return list; }
ffi::Any GiveListInItself() {
  ffi::List<ffi::Any> nested;
  nested.push_back(nested);
  return nested;
}
ffi::Any GiveMap(ffi::Any key) { return ffi::Map<ffi::Any, ffi::Any>{{key, 1}}; }
ffi::Optional<ffi::ObjectRef> kept_context;
void KeepContext(ffi::Function raising) {
  try {
    raising();
  } catch (const ffi::Error& error) {
    kept_context = error.extra_context();
  }
}

ffi::Tensor Same(ffi::Tensor x) { return x; }
void Keep(ffi::Any value) { kept = std::move(value); }
ffi::Any TakeKept() { return std::exchange(kept, ffi::Any()); }

double SumFrom(const ffi::TensorView& x, int32_t dim, int64_t offset) {
  if (dim == x.ndim()) return static_cast<const float*>(x.data_ptr())[offset];
  double sum = 0;
  for (int64_t i = 0; i < x.size(dim); ++i) sum += SumFrom(x, dim + 1, offset + i * x.stride(dim));
  return sum;
}

double Sum(ffi::TensorView x) { return SumFrom(x, 0, 0); }

void AddOne(ffi::TensorView x, ffi::TensorView y) {
  TVM_FFI_CHECK(x.numel() == y.numel(), ValueError) << "add_one: sizes differ";
  for (int64_t i = 0; i < x.numel(); ++i) {
    static_cast<float*>(y.data_ptr())[i] = static_cast<const float*>(x.data_ptr())[i] + 1;
  }
}

ffi::Tensor AllocateLike(ffi::TensorView x) {
  return ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
}

ffi::Array<ffi::Any> Twice(ffi::Tensor x) { return ffi::Array<ffi::Any>({x, x}); }
int64_t CountTensors(ffi::Array<ffi::Tensor> tensors) {
  return static_cast<int64_t>(tensors.size());
}
int64_t Product(ffi::Shape shape) {
  int64_t product = 1;
  for (int64_t dim : shape) product *= dim;
  return product;
}

void Raise(ffi::String kind, ffi::String message) {
  throw ffi::Error(std::string(kind), std::string(message), "");
}
void RaiseStd() { throw std::runtime_error("from the standard library"); }

ffi::Any Call(ffi::Function function, ffi::AnyView value) { return function(value); }

ffi::String CallAndCatch(ffi::Function function) {
  try {
    function();
  } catch (const ffi::Error& error) {
    return error.kind();
  }
  return "nothing";
}

ffi::Any CallInThread(ffi::Function function, ffi::AnyView value) {
  ffi::Any result;
  std::thread([&] { result = function(value); }).join();
  return result;
}

int64_t Stream(int device_type, int device_id) {
  return reinterpret_cast<int64_t>(TVMFFIEnvGetStream(device_type, device_id));
}

bool HasAllocator() { return TVMFFIEnvGetDLPackManagedTensorAllocator() != nullptr; }

void CheckSignals() {
  std::raise(SIGUSR1);
  if (TVMFFIEnvCheckSignals() != 0) throw ffi::Error("EnvErrorAlreadySet", "", "");
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(fill_list, FillList);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(grow_list, GrowList);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(give_list, GiveList);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(give_list_in_itself, GiveListInItself);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(give_map, GiveMap);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(keep_context, KeepContext);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(echo, Echo);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(type_index, TypeIndex);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(same, Same);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(keep, Keep);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(take_kept, TakeKept);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(sum, Sum);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_one, AddOne);
TVM_FFI_DLL_EXPORT_TYPED_FUNC_DOC(add_one, "Adds 1.");
TVM_FFI_DLL_EXPORT_TYPED_FUNC(allocate_like, AllocateLike);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, Twice);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(count_tensors, CountTensors);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(product, Product);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(raise, Raise);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(raise_std, RaiseStd);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(call, Call);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(call_and_catch, CallAndCatch);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(call_in_thread, CallInThread);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(stream, Stream);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(has_allocator, HasAllocator);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(check_signals, CheckSignals);

// By hand, against the C ABI alone.

extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_count(void*, const TVMFFIAny*, int32_t num_args,
                                                  TVMFFIAny* result) {
  result->type_index = kTVMFFIInt;
  result->v_int64 = num_args;
  return 0;
}

extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_minus_two(void*, const TVMFFIAny*, int32_t,
                                                      TVMFFIAny*) {
  std::raise(SIGUSR1);
  return TVMFFIEnvCheckSignals() != 0 ? -2 : 0;
}

extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_ignore_signal(void*, const TVMFFIAny*, int32_t,
                                                          TVMFFIAny*) {
  std::raise(SIGUSR1);
  TVMFFIEnvCheckSignals();
  return 0;
}

extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_always_minus_two(void*, const TVMFFIAny*, int32_t,
                                                             TVMFFIAny*) {
  return -2;
}

extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_silent_failure(void*, const TVMFFIAny*, int32_t,
                                                           TVMFFIAny*) {
  return -1;
}

extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_return_view(void*, const TVMFFIAny* args, int32_t,
                                                        TVMFFIAny* result) {
  result->type_index = kTVMFFIDLTensorPtr;
  result->v_ptr = TVMFFITensorGetDLTensorPtr(args[0].v_obj);
  return 0;
}

// Passes its callback a tensor that nobody owns, as JAX does.
extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_call_with_view(void*, const TVMFFIAny* args, int32_t,
                                                           TVMFFIAny* result) {
  TVMFFIAny view{};
  view.type_index = kTVMFFIDLTensorPtr;
  view.v_ptr = TVMFFITensorGetDLTensorPtr(args[1].v_obj);
  return TVMFFIFunctionCall(args[0].v_obj, &view, 1, result);
}

extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_change_stream(void*, const TVMFFIAny*, int32_t,
                                                          TVMFFIAny*) {
  return TVMFFIEnvSetStream(2, 0, reinterpret_cast<void*>(0x666), nullptr);
}
