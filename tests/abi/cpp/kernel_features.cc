// SPDX-License-Identifier: Apache-2.0
// A kernel library that compiles unchanged with the headers of apache-tvm-ffi and with ours.
#define TVM_FFI_DLL_EXPORT_INCLUDE_METADATA 1
#include <tvm/ffi/cast.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/container/variant.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/rvalue_ref.h>
#include <tvm/ffi/string.h>

namespace ffi = tvm::ffi;
using tvm::ffi::Array;
using tvm::ffi::Function;
using tvm::ffi::Map;
using tvm::ffi::Optional;
using tvm::ffi::String;
using tvm::ffi::Tensor;
using tvm::ffi::TensorView;
using tvm::ffi::Tuple;
using tvm::ffi::Variant;

// Features that the oldest releases do not have yet.
#ifndef TVM_FFI_CHECK_LT
#define TVM_FFI_CHECK_LT(x, y, ErrorKind) \
  if (!((x) < (y))) TVM_FFI_THROW(ErrorKind)
#endif
#ifndef TVM_FFI_DLL_EXPORT_TYPED_FUNC_DOC
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC_DOC(...)
#endif

constexpr DLDataType dl_float32 = DLDataType{kDLFloat, 32, 1};

void add_one(TensorView x, TensorView y) {
  TVM_FFI_CHECK(x.dtype() == dl_float32, TypeError) << "x must be float32";
  TVM_FFI_ICHECK_EQ(x.numel(), y.numel()) << "x and y differ";
  TVM_FFI_ICHECK(x.IsContiguous() && y.IsContiguous());
  for (int64_t i = 0; i < x.numel(); ++i) {
    static_cast<float*>(y.data_ptr())[i] = static_cast<float*>(x.data_ptr())[i] + 1;
  }
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_one, add_one);

int64_t describe(TensorView x, Optional<TensorView> opt) {
  int64_t sum = x.ndim() * 1000 + x.size(-1) * 100 + x.dim();
  for (int64_t s : x.sizes()) sum += s;
  return opt.has_value() ? sum + opt.value().numel() : sum;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(describe, describe);

String scalars(int i, double f, bool b, String s, DLDataType d, DLDevice dev, Optional<int64_t> o,
               void* p) {
  std::ostringstream os;
  os << i << " " << f << " " << b << " " << s << " " << d << " " << dev.device_type << ":"
     << dev.device_id << " " << o.value_or(-1) << " " << (p == nullptr);
  return os.str();
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scalars, scalars);

Map<String, int64_t> containers(Array<int64_t> a, Map<String, int64_t> m, Tuple<int64_t, String> t,
                                Variant<int64_t, String> v, ffi::Shape shape) {
  for (size_t i = 0; i < a.size(); ++i) m.Set("a" + std::to_string(i), a[i]);
  m.Set(t.get<1>(), t.get<0>());
  if (auto number = v.as<int64_t>()) m.Set("variant", *number);
  m.Set("shape", shape.Product());
  return m;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(containers, containers);

int64_t call_back(Function f, int64_t x) { return f(x, "text").cast<int64_t>() + 1; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(call_back, call_back);

int64_t fail(int64_t how) {
  if (how == 0) TVM_FFI_THROW(ValueError) << "bad value " << how;
  if (how == 1) throw std::runtime_error("std error");
  TVM_FFI_CHECK_LT(how, 3, KeyError) << "not less";
  TVM_FFI_LOG_AND_THROW(NotImplementedError) << "logged";
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fail, fail);
TVM_FFI_DLL_EXPORT_TYPED_FUNC_DOC(fail, "Fails in\nseveral \"ways\".");

extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_by_hand(void*, const TVMFFIAny* args, int32_t num_args,
                                                    TVMFFIAny* result) {
  TVM_FFI_SAFE_CALL_BEGIN();
  TVM_FFI_CHECK(num_args == 1, TypeError) << "one argument";
  ffi::TypeTraits<int64_t>::CopyToAnyView(2 * args[0].v_int64, result);
  if (args[0].v_int64 == 0) ffi::TypeTraits<std::nullptr_t>::CopyToAnyView(nullptr, result);
  TVM_FFI_SAFE_CALL_END();
}

class CounterModule : public ffi::ModuleObj {
 public:
  explicit CounterModule(int64_t start) : count_(start) {}
  const char* kind() const final { return "counter"; }
  int GetPropertyMask() const final { return ffi::Module::kRunnable; }
  Optional<Function> GetFunction(const String& name) final {
    if (name == "next") {
      ffi::ObjectPtr<ffi::Object> self = ffi::GetObjectPtr<ffi::Object>(this);
      return Function::FromTyped([this, self]() -> int64_t { return count_++; });
    }
    return Function(nullptr);
  }

 private:
  int64_t count_;
};
ffi::Module make_counter(int64_t start) {
  return ffi::Module(ffi::make_object<CounterModule>(start));
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(make_counter, make_counter);

Array<Tensor> keep(Tensor x) { return {x, x}; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(keep, keep);
