// SPDX-License-Identifier: Apache-2.0
// A kernel that ends the process where its operand says so.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <atomic>
#include <csignal>

namespace {

using tvm::ffi::TensorView;

std::atomic<int> num_inside{0};

/// out = 2 x, unless x begins with -1: then it crashes. -2: once two threads are here. -3 to
/// -5: errors.
void Crash(const TensorView& x, double scale, const TensorView& out) {
  const auto* from = static_cast<const float*>(x.data_ptr());
  const float first = x.numel() == 0 ? 0 : from[0];
  if (first == -2) {
    ++num_inside;
    while (num_inside < 2) {
    }
  }
  if (first == -1 || first == -2) std::raise(SIGSEGV);
  if (first == -3) TVM_FFI_THROW(ValueError) << "crash: expected no -3";
  if (first == -4) TVM_FFI_THROW(KeyError) << "crash: expected no -4";
  if (first == -5) TVM_FFI_THROW(NoTile) << "crash: expected no -5";
  for (int64_t i = 0; i < x.numel(); ++i) {
    static_cast<float*>(out.data_ptr())[i] = static_cast<float>(scale * from[i]);
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(crash, Crash);
