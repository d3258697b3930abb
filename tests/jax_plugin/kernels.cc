// SPDX-License-Identifier: Apache-2.0
// Kernels of the JAX plugin's tests.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/string.h>

#include <cstdint>
#include <cstring>

namespace ffi = tvm::ffi;
using ffi::Tensor;
using ffi::TensorView;

namespace {

float* Floats(TensorView x) { return static_cast<float*>(x.data_ptr()); }

size_t NumBytes(TensorView x) {
  return (static_cast<size_t>(x.numel()) * x.dtype().bits * x.dtype().lanes + 7) / 8;
}

void AddOne(TensorView x, TensorView out) {
  for (int64_t i = 0; i < x.numel(); ++i) Floats(out)[i] = Floats(x)[i] + 1;
}

void Axpy(double a, TensorView x, TensorView out, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    Floats(out)[i] = static_cast<float>(a) * Floats(x)[i] + Floats(y)[i];
  }
}

void MinMax(TensorView x, TensorView low, TensorView high) {
  if (x.numel() == 0) TVM_FFI_THROW(ValueError) << "operand 'x': expected elements, got none";
  *Floats(low) = *Floats(high) = Floats(x)[0];
  for (int64_t i = 1; i < x.numel(); ++i) {
    float value = Floats(x)[i];
    if (value < *Floats(low)) *Floats(low) = value;
    if (value > *Floats(high)) *Floats(high) = value;
  }
}

void SumList(ffi::Array<Tensor> xs, TensorView out) {
  std::memset(out.data_ptr(), 0, NumBytes(out));
  for (const Tensor& x : xs) {
    TVM_FFI_CHECK(x.IsContiguous(), ValueError) << "operand 'xs': expected row-major tensors";
    for (int64_t i = 0; i < out.numel(); ++i)
      Floats(out)[i] += static_cast<float*>(x.data_ptr())[i];
  }
}

// out[j, i, :] = w[j] * x[i, j, :]
void ScaleTransposed(TensorView x, TensorView w, TensorView out) {
  const int64_t rows = x.size(0), columns = x.size(1), width = x.size(2);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t k = 0; k < width; ++k) {
        Floats(out)[(j * rows + i) * width + k] =
            Floats(w)[j] * Floats(x)[(i * columns + j) * width + k];
      }
    }
  }
}

void Masked(TensorView x, ffi::Optional<TensorView> mask, TensorView out) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    bool keep = !mask.has_value() || static_cast<const uint8_t*>(mask.value().data_ptr())[i] != 0;
    Floats(out)[i] = keep ? Floats(x)[i] : 0;
  }
}

// Row `position` of `cache` becomes `row`; `norm` is the sum of the row.
void Append(TensorView row, TensorView cache, int64_t position, TensorView norm) {
  if (position < 0 || position >= cache.size(0)) {
    TVM_FFI_THROW(IndexError) << "attribute 'position': expected 0 to " << cache.size(0) - 1
                              << ", got " << position;
  }
  float sum = 0;
  for (int64_t i = 0; i < row.numel(); ++i) {
    Floats(cache)[position * row.numel() + i] = Floats(row)[i];
    sum += Floats(row)[i];
  }
  *Floats(norm) = sum;
}

void Increment(TensorView x) {
  for (int64_t i = 0; i < x.numel(); ++i) Floats(x)[i] += 1;
}

void CopyBytes(TensorView x, TensorView out) {
  std::memcpy(out.data_ptr(), x.data_ptr(), NumBytes(x));
}

// out: int32[12] = code, bits, lanes, device type, ndim, contiguous, then size and stride of up to
// 3 dims.
void Describe(TensorView x, TensorView out) {
  auto* o = static_cast<int32_t*>(out.data_ptr());
  std::memset(o, 0, 12 * sizeof(int32_t));
  o[0] = x.dtype().code;
  o[1] = x.dtype().bits;
  o[2] = x.dtype().lanes;
  o[3] = x.device().device_type;
  o[4] = x.ndim();
  o[5] = x.IsContiguous();
  for (int32_t i = 0; i < x.ndim() && i < 3; ++i) {
    o[6 + 2 * i] = static_cast<int32_t>(x.size(i));
    o[7 + 2 * i] = static_cast<int32_t>(x.stride(i));
  }
}

void Echo(TensorView x, ffi::String text, TensorView out) {
  std::memset(out.data_ptr(), 0, NumBytes(out));
  std::memcpy(out.data_ptr(), text.data(), text.size());
  (void)x;
}

// Every kind of attribute as a number.
void Attributes(TensorView x, int64_t i, double f, bool b, ffi::String s, DLDataType t, DLDevice d,
                ffi::Array<int64_t> is, ffi::Optional<int64_t> maybe, TensorView out) {
  float* o = Floats(out);
  o[0] = static_cast<float>(i);
  o[1] = static_cast<float>(f);
  o[2] = b;
  o[3] = static_cast<float>(s.size());
  o[4] = t.code * 1000.f + t.bits;
  o[5] = d.device_type * 1000.f + d.device_id;
  o[6] = 0;
  for (int64_t value : is) o[6] = o[6] * 10 + static_cast<float>(value);
  o[7] = maybe.has_value() ? static_cast<float>(maybe.value()) : -1;
  (void)x;
}

Tensor AllocLike(TensorView x) {
  return Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
}

// Copies through a tensor from the env's allocator.
void ScratchAnyAlignment(TensorView x, TensorView out) {
  Tensor temporary = AllocLike(x);
  std::memcpy(temporary.data_ptr(), x.data_ptr(), NumBytes(x));
  std::memcpy(out.data_ptr(), temporary.data_ptr(), NumBytes(x));
}

// Wants a tensor on a device that the call does not run on.
void ScratchElsewhere(TensorView x, TensorView out) {
  Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), DLDevice{kDLCUDA, 1});
  (void)out;
}

void Scratch(TensorView x, TensorView out) {
  if (reinterpret_cast<uintptr_t>(AllocLike(x).data_ptr()) % 64 != 0) {
    TVM_FFI_THROW(RuntimeError) << "unaligned";
  }
  ScratchAnyAlignment(x, out);
}

void TwoScratch(TensorView x, TensorView out) {
  Tensor first = AllocLike(x);
  Tensor second = AllocLike(x);
  if (reinterpret_cast<uintptr_t>(second.data_ptr()) % 64 != 0) {
    TVM_FFI_THROW(RuntimeError) << "unaligned";
  }
  std::memcpy(first.data_ptr(), x.data_ptr(), NumBytes(x));
  std::memset(second.data_ptr(), 0, NumBytes(x));
  std::memcpy(out.data_ptr(), first.data_ptr(), NumBytes(x));
}

// Writes all of the workspace; out[0] is its size.
void UsesWorkspace(TensorView x, TensorView workspace, TensorView out) {
  if (workspace.ndim() != 1) TVM_FFI_THROW(ValueError) << "workspace: expected 1 dimension";
  std::memset(workspace.data_ptr(), 0xff, NumBytes(workspace));
  std::memcpy(out.data_ptr(), x.data_ptr(), NumBytes(x));
  Floats(out)[0] = static_cast<float>(workspace.size(0));
}

void KeepOne(TensorView x, TensorView out) {
  static ffi::Optional<Tensor> kept;
  kept = AllocLike(x);
  (void)out;
}

void LargeScratch(TensorView x, TensorView out) {
  int64_t shape[] = {int64_t{1} << 20};
  Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, ffi::ShapeView(shape, 1), x.dtype(), x.device());
  (void)out;
}

// Returns what the env's allocator gave in the call before, and keeps another one.
void KeepScratch(TensorView x, TensorView out) {
  static thread_local ffi::Optional<Tensor> kept;
  Tensor temporary = AllocLike(x);
  std::memcpy(temporary.data_ptr(), x.data_ptr(), NumBytes(x));
  Tensor source = kept.has_value() ? kept.value() : temporary;
  std::memcpy(out.data_ptr(), source.data_ptr(), NumBytes(x));
  kept = temporary;
}

void HugeScratch(TensorView x, TensorView out) {
  int64_t shape[] = {int64_t{1} << 40, int64_t{1} << 40};
  Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, ffi::ShapeView(shape, 2), x.dtype(), x.device());
  (void)out;
}

void Fail(TensorView x, ffi::String kind, TensorView out) {
  (void)x;
  (void)out;
  if (kind == "KeyError") TVM_FFI_THROW(KeyError) << "operand 'x': expected 3, got 4";
  if (kind == "TypeError") TVM_FFI_THROW(TypeError) << "operand 'x': expected 3, got 4";
  if (kind == "std") throw std::runtime_error("a C++ exception");
  if (kind == "bytes") TVM_FFI_THROW(ValueError) << "no UTF-8: \xff";
  TVM_FFI_THROW(ValueError) << "operand 'x': expected 3, got 4";
}

void TakesOwning(Tensor x, TensorView out) { CopyBytes(TensorView(x), out); }

Tensor* kept_tensor = new Tensor;

void KeepsOwning(Tensor x, TensorView out) {
  *kept_tensor = x;
  (void)out;
}

// out: float32[1] = the sum of what KeepsOwning kept; then nothing is kept.
void SumOfKept(TensorView x, TensorView out) {
  *Floats(out) = 0;
  for (int64_t i = 0; i < kept_tensor->numel(); ++i) {
    *Floats(out) += static_cast<float*>(kept_tensor->data_ptr())[i];
  }
  *kept_tensor = Tensor();
  (void)x;
}

// Calls a function that Python registered with its tensors.
void Forward(ffi::String name, TensorView x, TensorView out) {
  ffi::Function::GetGlobalRequired(name)(x, out);
}

void TakesAnyTensor(ffi::AnyView x, TensorView out) {
  Tensor owned = x.cast<Tensor>();
  CopyBytes(owned, out);
}

// Holds a reference of its own beyond the call, in an array.
void KeepsInArray(ffi::Array<Tensor> xs, TensorView out) {
  static ffi::Array<Tensor> kept = xs;
  kept = xs;
  (void)out;
}

Tensor Identity(Tensor x) { return x; }

Tensor Doubled(TensorView x) {
  Tensor y = AllocLike(x);
  for (int64_t i = 0; i < x.numel(); ++i) Floats(y)[i] = 2 * Floats(x)[i];
  return y;
}

ffi::Tuple<Tensor, Tensor> Split(TensorView x) {
  int64_t shape[] = {x.numel() / 2};
  Tensor halves[2];
  for (int i = 0; i < 2; ++i) {
    halves[i] =
        Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, ffi::ShapeView(shape, 1), x.dtype(), x.device());
    std::memcpy(halves[i].data_ptr(), Floats(x) + i * shape[0], NumBytes(halves[i]));
  }
  return ffi::Tuple<Tensor, Tensor>(halves[0], halves[1]);
}

int64_t ReturnsInt(TensorView x) { return x.numel(); }

// out: float32[1] = the env's stream of x's device, or -1 where the plan's differs.
void Stream(TensorView x, void* stream, TensorView out) {
  void* env = TVMFFIEnvGetStream(x.device().device_type, x.device().device_id);
  *Floats(out) = env == stream ? static_cast<float>(reinterpret_cast<uintptr_t>(env)) : -1;
}

// Of this thread, as Python sees it between calls.
int64_t CurrentStream(int64_t device_type, int64_t device_id) {
  return reinterpret_cast<int64_t>(
      TVMFFIEnvGetStream(static_cast<int32_t>(device_type), static_cast<int32_t>(device_id)));
}
int64_t Allocator() {
  return reinterpret_cast<int64_t>(TVMFFIEnvGetDLPackManagedTensorAllocator());
}
void SetAllocator(int64_t allocator) {
  TVMFFIEnvSetDLPackManagedTensorAllocator(
      reinterpret_cast<DLPackManagedTensorAllocator>(allocator), 0, nullptr);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_one, AddOne);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(axpy, Axpy);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(min_max, MinMax);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(sum_list, SumList);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale_transposed, ScaleTransposed);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(masked, Masked);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(append, Append);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(increment, Increment);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(copy_bytes, CopyBytes);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(describe, Describe);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(echo, Echo);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(attributes, Attributes);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scratch_elsewhere, ScratchElsewhere);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scratch, Scratch);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scratch_any_alignment, ScratchAnyAlignment);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(keep_one, KeepOne);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(two_scratch, TwoScratch);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(uses_workspace, UsesWorkspace);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(large_scratch, LargeScratch);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(keep_scratch, KeepScratch);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(huge_scratch, HugeScratch);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fail, Fail);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(takes_owning, TakesOwning);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(keeps_owning, KeepsOwning);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(sum_of_kept, SumOfKept);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(forward, Forward);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(takes_any_tensor, TakesAnyTensor);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(keeps_in_array, KeepsInArray);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(identity, Identity);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(doubled, Doubled);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(split, Split);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(returns_int, ReturnsInt);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(stream, Stream);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(current_stream, CurrentStream);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(allocator, Allocator);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(set_allocator, SetAllocator);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(float_bytes, [](double value, TensorView out) {
  std::memcpy(out.data_ptr(), &value, sizeof(value));
});

/// Copies, if it is called as functions of libraries are: without a handle.
extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_without_handle(void* handle, const TVMFFIAny* args,
                                                           int32_t num_args, TVMFFIAny*) {
  if (handle != nullptr || num_args != 2) {
    TVMFFIErrorSetRaisedFromCStr("ValueError", "expected no handle and 2 arguments");
    return -1;
  }
  const auto* x = static_cast<const DLTensor*>(args[0].v_ptr);
  std::memcpy(static_cast<DLTensor*>(args[1].v_ptr)->data, x->data, sizeof(float));
  return 0;
}
