// SPDX-License-Identifier: Apache-2.0
// A kernel that does, once for each mode, what no kernel may.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

namespace {

using tvm::ffi::Tensor;
using tvm::ffi::TensorView;

enum Mode : int64_t { kGood, kBehind, kInFront, kOperand, kUnwritten, kKept, kUpdated, kWorkspace };

template <typename AnyTensor>
float* Floats(const AnyTensor& tensor) {
  return static_cast<float*>(tensor.data_ptr());
}

/// out = 2 x; cache += 1.
void Stray(const Tensor& x, const TensorView& cache, const TensorView& mode,
           const TensorView& workspace, const TensorView& out) {
  static auto* kept = new tvm::ffi::Array<Tensor>();
  const int64_t which = *static_cast<const int64_t*>(mode.data_ptr());
  const int64_t count = x.numel() - (which == kUnwritten ? 1 : 0);
  for (int64_t i = 0; i < count; ++i) Floats(out)[i] = 2 * Floats(x)[i];
  for (int64_t i = 0; i < cache.numel(); ++i) Floats(cache)[i] += 1;
  auto* const bytes = static_cast<char*>(workspace.data_ptr());
  for (int64_t i = 0; i < workspace.numel(); ++i) bytes[i] = 1;
  if (which == kBehind) Floats(out)[x.numel()] = 1;
  if (which == kInFront) Floats(out)[-1] = 1;
  if (which == kOperand) Floats(x)[0] = 7;
  if (which == kKept) kept->push_back(x);
  if (which == kUpdated) Floats(cache)[cache.numel() + 1] = 1;
  if (which == kWorkspace) bytes[workspace.numel()] = 1;
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(stray, Stray);
