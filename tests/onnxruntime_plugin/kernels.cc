// SPDX-License-Identifier: Apache-2.0
// Kernels for the tests of the ONNX Runtime plugin.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <atomic>
#include <string>

namespace ffi = tvm::ffi;

namespace {

float* Floats(const ffi::TensorView& x) { return static_cast<float*>(x.data_ptr()); }

std::atomic<int64_t> kept_address{0};

}  // namespace

/// out = x * factor + (bias, if there is one)
void Scale(ffi::TensorView x, ffi::Optional<ffi::TensorView> bias, double factor,
           ffi::TensorView out) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    Floats(out)[i] =
        static_cast<float>(Floats(x)[i] * factor) + (bias.has_value() ? Floats(*bias)[i] : 0.0F);
  }
}

/// Adds x to total, and gives both halves of what total was.
void Accumulate(ffi::TensorView x, ffi::TensorView total, ffi::TensorView first,
                ffi::TensorView second) {
  const int64_t half = first.numel();
  for (int64_t i = 0; i < half; ++i) Floats(first)[i] = Floats(total)[i];
  for (int64_t i = 0; i < second.numel(); ++i) Floats(second)[i] = Floats(total)[half + i];
  for (int64_t i = 0; i < x.numel(); ++i) Floats(total)[i] += Floats(x)[i];
}

/// x += 1; 1 where the memory is that of the last call's x.
void Increment(ffi::TensorView x, ffi::TensorView was_kept) {
  const auto address = reinterpret_cast<int64_t>(x.data_ptr());
  *static_cast<int64_t*>(was_kept.data_ptr()) = kept_address.exchange(address) == address ? 1 : 0;
  for (int64_t i = 0; i < x.numel(); ++i) Floats(x)[i] += 1;
}

/// Says what it got.
void Describe(ffi::TensorView out, ffi::String text, bool flag, ffi::Array<int64_t> sizes,
              ffi::Array<double> weights, ffi::Array<ffi::String> names, DLDataType dtype) {
  auto* numbers = static_cast<double*>(out.data_ptr());
  *numbers++ = static_cast<double>(text.size());
  *numbers++ = flag ? 1 : 0;
  *numbers++ = static_cast<double>(sizes.size());
  for (const int64_t size : sizes) *numbers++ = static_cast<double>(size);
  for (const double weight : weights) *numbers++ = weight;
  for (const ffi::String& name : names) *numbers++ = static_cast<double>(name.size());
  *numbers++ = dtype.bits;
}

void Fail(ffi::TensorView x, ffi::String kind, ffi::TensorView out) {
  throw ffi::Error(std::string(kind), "test::fail: expected no call, got one", "");
}

/// Fills its workspace, or memory of the env's allocator where that is empty.
void UseMemory(ffi::TensorView x, ffi::Optional<ffi::TensorView> workspace, ffi::TensorView out) {
  ffi::Tensor own =
      ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {x.numel()}, x.dtype(), x.device());
  for (int64_t i = 0; i < x.numel(); ++i) {
    static_cast<float*>(own.data_ptr())[i] = 2 * Floats(x)[i];
  }
  for (int64_t i = 0; i < x.numel(); ++i) Floats(out)[i] = static_cast<float*>(own.data_ptr())[i];
  if (workspace.has_value() && out.numel() > 0) {
    Floats(out)[0] = static_cast<float>(workspace->numel());
    std::memset(workspace->data_ptr(), 0xff, static_cast<size_t>(workspace->numel()));
  }
}

/// Returns its result.
ffi::Tensor Returned(ffi::Tensor x) {
  ffi::Tensor made =
      ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
  for (int64_t i = 0; i < x.numel(); ++i) {
    static_cast<float*>(made.data_ptr())[i] = -static_cast<float*>(x.data_ptr())[i];
  }
  return made;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, Scale);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(accumulate, Accumulate);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(increment, Increment);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(describe, Describe);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fail, Fail);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(use_memory, UseMemory);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(returned, Returned);
