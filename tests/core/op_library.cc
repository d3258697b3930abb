// SPDX-License-Identifier: Apache-2.0
// A library that describes its ops: by the macro, and by a text of its own.
#include <graphffi/op.h>

#include <cmath>

namespace ffi = tvm::ffi;

namespace {

float* Floats(ffi::TensorView x) { return static_cast<float*>(x.data_ptr()); }

void RmsNorm(ffi::TensorView x, ffi::TensorView weight, double eps, ffi::TensorView out) {
  int64_t hidden = weight.size(0);
  for (int64_t row = 0; hidden > 0 && row < x.numel() / hidden; ++row) {
    const float* in = Floats(x) + row * hidden;
    double sum = 0;
    for (int64_t i = 0; i < hidden; ++i) sum += in[i] * in[i];
    double scale = 1 / std::sqrt(sum / static_cast<double>(hidden) + eps);
    for (int64_t i = 0; i < hidden; ++i) {
      Floats(out)[row * hidden + i] = static_cast<float>(in[i] * scale) * Floats(weight)[i];
    }
  }
}

void Halves(ffi::TensorView x, ffi::TensorView low, ffi::TensorView high) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    (i < low.numel() ? Floats(low)[i] : Floats(high)[i - low.numel()]) = Floats(x)[i];
  }
}

void Accumulate(ffi::TensorView sum, ffi::Array<ffi::Tensor> xs, ffi::Optional<ffi::Tensor> bias) {
  for (int64_t i = 0; i < sum.numel(); ++i) {
    for (const ffi::Tensor& x : xs) Floats(sum)[i] += static_cast<const float*>(x.data_ptr())[i];
    if (bias.has_value()) Floats(sum)[i] += static_cast<const float*>(bias.value().data_ptr())[i];
  }
}

void Scratch(ffi::TensorView x, ffi::TensorView scratch, ffi::TensorView out) {
  static_cast<int64_t*>(out.data_ptr())[0] = scratch.numel() + (x.IsContiguous() ? 0 : 1000000);
}

void Twice(ffi::TensorView x, ffi::TensorView out) {
  for (int64_t i = 0; i < x.numel(); ++i) Floats(out)[i] = 2 * Floats(x)[i];
}

}  // namespace

GRAPHFFI_EXPORT_OP(rms_norm, RmsNorm, "(Tensor x, Tensor weight, float eps=1e-6) -> Tensor",
                   "dims: ... [h], [h] -> ... [h]", "dtypes: T, T -> T; T: float32",
                   "doc: Root-mean-square norm.\n\nOver the last dimension.");
GRAPHFFI_EXPORT_OP(halves, Halves, "(Tensor x) -> (Tensor low, Tensor high)",
                   "dims: [n] -> [m], [k]",
                   "shape: empty([n // 2], x.dtype), like(x, shape=[n - n // 2])");
GRAPHFFI_EXPORT_OP(accumulate, Accumulate,
                   "(Tensor(a!) sum, Tensor[] xs, Tensor? bias=None) -> ()");
GRAPHFFI_EXPORT_OP(scratch, Scratch, "(Tensor x, int rows=3) -> Tensor out",
                   "shape: empty([1], int64)", "plan: x, workspace, out", "strided: x",
                   "workspace: rows * x.shape[-1] if x.ndim > 1 else 7", "allow_cuda_graph: true");

TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, Twice);
extern "C" TVM_FFI_DLL_EXPORT const char __graphffi_op_twice[];
extern "C" TVM_FFI_DLL_EXPORT const char __graphffi_op_doubled[];
const char __graphffi_op_doubled[] = "schema: (Tensor x) -> Tensor\nshape: like(x)\nkernel: twice";
const char __graphffi_op_twice[] = "schema: (Tensor x) -> Tensor\nshape: like(x)\nvmap: broadcast";
GRAPHFFI_EXPORT_OP(twice_even, Twice, "(Tensor x) -> Tensor", "dims: ... [n] -> ... [n]",
                   "check: n % 2 == 0, \"operand 'x': expected an even size\"",
                   "check: n < 9 or x.ndim == 2, \"operand 'x': expected less\"",
                   "gradient: reference");
