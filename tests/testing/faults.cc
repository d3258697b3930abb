// SPDX-License-Identifier: Apache-2.0
// Kernels that are wrong in one respect each, and correct ones beside them.
#include <graphffi/op.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace ffi = tvm::ffi;

namespace {

float* F(ffi::TensorView x) { return static_cast<float*>(x.data_ptr()); }
int64_t N(ffi::TensorView x) { return x.numel(); }
using View = ffi::TensorView;

void Twice(View x, View out) {
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = 2 * F(x)[i];
}
void Add(View x, View y, View out) {
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = F(x)[i] + F(y)[i];
}
void Scale(View x, double factor, View out) {
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = static_cast<float>(factor) * F(x)[i];
}
void RowSum(View x, View out) {
  int64_t n = x.size(-1);
  for (int64_t r = 0; r < N(out); ++r) {
    F(out)[r] = 0;
    for (int64_t i = 0; i < n; ++i) F(out)[r] += F(x)[r * n + i];
  }
}
void Append(View cache, View x) {
  for (int64_t i = 0; i < N(x); ++i) F(cache)[i] += F(x)[i];
}
void Gather(View table, View index, View out) {
  int64_t n = table.size(1);
  for (int64_t r = 0; r < N(index); ++r) {
    int64_t row = static_cast<int32_t*>(index.data_ptr())[r];
    for (int64_t i = 0; i < n; ++i) F(out)[r * n + i] = F(table)[row * n + i];
  }
}
void Strided(View x, View out) {
  int64_t i = 0;
  for (int64_t r = 0; r < x.size(0); ++r) {
    for (int64_t c = 0; c < x.size(1); ++c) {
      F(out)[i++] = F(x)[r * x.stride(0) + c * x.stride(1)];
    }
  }
}

void UnwrittenTail(View x, View out) {
  for (int64_t i = 0; i + 1 < N(x); ++i) F(out)[i] = F(x)[i];
}
void UnwrittenVectorTail(View x, View out) {
  for (int64_t i = 0; i < N(x) / 4 * 4; ++i) F(out)[i] = F(x)[i];
}
void ReadsResult(View x, View out) {
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] += F(x)[i];
}
void UnwrittenRow(View x, View out) {
  int64_t n = x.size(-1);
  for (int64_t i = n; i < N(x); ++i) F(out)[i] = F(x)[i];
}
void WritesAfter(View x, View out) {
  for (int64_t i = 0; i <= N(x); ++i) F(out)[i] = 1;
}
void WritesBefore(View x, View out) {
  Twice(x, out);
  F(out)[-1] = 0;
}
void WritesPadding(View x, View out) {
  for (int64_t i = 0; i < (N(x) + 3) / 4 * 4; ++i) F(out)[i] = 1;
}
void WritesDouble(View x, View out) {
  for (int64_t i = 0; i < N(x); ++i) static_cast<double*>(out.data_ptr())[i] = F(x)[i];
}
void WritesOperand(View x, View out) {
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = F(x)[i] = 2 * F(x)[i];
}
void NormalizesOperand(View x, View y, View out) {
  Add(x, y, out);
  if (N(y) > 0) F(y)[0] = 0;
}
void WritesAfterOperand(View cache, View x) {
  Append(cache, x);
  F(cache)[N(cache)] = 0;
}
void KeepsOperand(ffi::Tensor x, View out) {
  static auto* kept = new ffi::Array<ffi::Tensor>();
  kept->push_back(x);
  Twice(x, out);
}
void KeepsResult(View x, ffi::Tensor out) {
  static auto* kept = new ffi::Array<ffi::Tensor>();
  Twice(x, out);
  kept->push_back(out);
}
void Counts(View x, View out) {
  static std::atomic<int> calls{0};
  int call = calls++;
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = F(x)[i] + static_cast<float>(call);
}
void Random(View x, View out) {
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = static_cast<float>(std::rand());
}
void AddressDependent(View x, View out) {
  for (int64_t i = 0; i < N(x); ++i) {
    F(out)[i] = static_cast<float>(reinterpret_cast<intptr_t>(out.data_ptr()) >> 12 & 0xfff);
  }
}
void FirstSize(View x, View out) {
  static int64_t n = N(x);  // of the first call only
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = F(x)[i] * static_cast<float>(n);
}
void CachesFactor(View x, double factor, View out) {
  static double known = factor;
  Scale(x, known, out);
}
void SharedScratch(View x, View out) {
  static std::vector<float> scratch(1 << 20);
  for (int64_t i = 0; i < N(x); ++i) scratch[i] = F(x)[i];
  for (int k = 0; k < 8; ++k) {
    for (int64_t i = 0; i < N(x); ++i) scratch[i] = scratch[i] * 1.5f;
  }
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = scratch[i];
}
void SharedSum(View x, View out) {
  static volatile float sum;
  int64_t n = x.size(-1);
  for (int64_t r = 0; r < N(out); ++r) {
    sum = 0;
    for (int64_t i = 0; i < n; ++i) sum = sum + F(x)[r * n + i];
    F(out)[r] = sum;
  }
}
void IgnoresFactor(View x, double, View out) { Twice(x, out); }
void IgnoresFlag(View x, bool, View out) { Twice(x, out); }
void IgnoresBeta(View x, double alpha, double, View out) { Scale(x, alpha, out); }
void CrashesOnEmpty(View x, View out) {
  int64_t n = x.size(-1);
  for (int64_t i = 0; i < N(x) / n; ++i) F(out)[i] = 0;
}
void CrashesOnLarge(View x, View out) {
  if (N(x) > 10000) *reinterpret_cast<volatile int*>(8) = 0;
  Twice(x, out);
}
void WrongOnLarge(View x, View out) {
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = i < 65536 ? F(x)[i] : 0;
}
void WrongOnOdd(View x, View out) {
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = i % 2 == 1 || i + 1 < N(x) ? F(x)[i] : 7;
}
void IgnoresStrides(View x, View out) {
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = F(x)[i];
}
void IgnoresInnerStride(View x, View out) {
  int64_t i = 0;
  for (int64_t r = 0; r < x.size(0); ++r) {
    for (int64_t c = 0; c < x.size(1); ++c) F(out)[i++] = F(x)[r * x.stride(0) + c];
  }
}
void MixesRows(View x, View out) {
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = F(x)[N(x) - 1 - i];
}
void MixesBatch(View x, View out) {
  int64_t n = x.size(-1);
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = F(x)[i] + (n > 0 ? F(x)[i % n] : 0);
}
ffi::Tensor Same(ffi::Tensor x) { return x; }
void Aborts(View x, View out) {
  if (N(x) > 0) std::abort();
}
void Throws(View x, View out) { TVM_FFI_THROW(ValueError) << "x: expected something else"; }
void BreaksInside(View x, View out) {
  if (N(x) == 0) TVM_FFI_THROW(InternalError) << "cannot happen";
  Twice(x, out);
}
void Exits(View x, View out) { std::_Exit(3); }
void IgnoresBias(View x, ffi::Optional<View> bias, View out) {
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = F(x)[i] + F(bias.value())[i];
}
void OnlyFirst(ffi::Array<ffi::Tensor> xs, View out) {
  for (int64_t i = 0; i < N(out); ++i) F(out)[i] = static_cast<float*>(xs[0].data_ptr())[i];
}

}  // namespace

#define SAME "dims: n -> n", "dtypes: float32 -> float32"
#define ROWS "dims: ... [h] -> ... [h]", "dtypes: float32 -> float32"
#define UNARY "(Tensor x) -> Tensor"
#define SCALED "(Tensor x, float factor=2.0) -> Tensor"

// Correct.
GRAPHFFI_EXPORT_OP(good_twice, Twice, UNARY, SAME, "vmap: broadcast");
GRAPHFFI_EXPORT_OP(good_add, Add, "(Tensor x, Tensor y) -> Tensor", "dims: a b, a b -> a b",
                   "dtypes: float32, float32 -> float32");
GRAPHFFI_EXPORT_OP(good_scale, Scale, SCALED, SAME);
GRAPHFFI_EXPORT_OP(good_row_sum, RowSum, UNARY, "dims: ... [h] -> ...",
                   "dtypes: float32 -> float32", "vmap: broadcast");
GRAPHFFI_EXPORT_OP(good_append, Append, "(Tensor(a!) cache, Tensor x) -> ()", "dims: n, n",
                   "dtypes: float32, float32");
GRAPHFFI_EXPORT_OP(good_gather, Gather, "(Tensor table, Tensor index) -> Tensor",
                   "dims: [r] [n], i -> i [n]", "dtypes: float32, int32 -> float32");
GRAPHFFI_EXPORT_OP(good_strided, Strided, UNARY, "dims: a b -> a b", "dtypes: float32 -> float32",
                   "strided: true");

// Wrong.
GRAPHFFI_EXPORT_OP(unwritten_tail, UnwrittenTail, UNARY, SAME);
GRAPHFFI_EXPORT_OP(unwritten_vector_tail, UnwrittenVectorTail, UNARY, SAME);
GRAPHFFI_EXPORT_OP(unwritten_row, UnwrittenRow, UNARY, "dims: [a] [b] -> [a] [b]",
                   "dtypes: float32 -> float32");
GRAPHFFI_EXPORT_OP(reads_result, ReadsResult, UNARY, SAME);
GRAPHFFI_EXPORT_OP(writes_after, WritesAfter, UNARY, SAME);
GRAPHFFI_EXPORT_OP(writes_before, WritesBefore, UNARY, SAME);
GRAPHFFI_EXPORT_OP(writes_padding, WritesPadding, UNARY, SAME);
GRAPHFFI_EXPORT_OP(wrong_dtype, WritesDouble, UNARY, SAME);
GRAPHFFI_EXPORT_OP(wrong_small_dtype, Twice, UNARY, "dims: n -> n", "dtypes: float32 -> float64");
GRAPHFFI_EXPORT_OP(wrong_large_shape, RowSum, UNARY, "dims: a [h] -> a [h]",
                   "dtypes: float32 -> float32");
GRAPHFFI_EXPORT_OP(wrong_small_shape, Twice, UNARY, "dims: [n] -> [m]",
                   "shape: empty([n // 2], float32)", "dtypes: float32 -> float32");
GRAPHFFI_EXPORT_OP(wrong_empty_shape, Twice, UNARY, "dims: [n] -> [m]",
                   "shape: empty([n + 1 if n == 0 else n], float32)", "dtypes: float32 -> float32");
GRAPHFFI_EXPORT_OP(wrong_transposed, Strided, UNARY, "dims: a b -> b a", "strided: true",
                   "dtypes: float32 -> float32");
GRAPHFFI_EXPORT_OP(writes_operand, WritesOperand, UNARY, SAME);
GRAPHFFI_EXPORT_OP(normalizes_operand, NormalizesOperand, "(Tensor x, Tensor y) -> Tensor",
                   "dims: n, n -> n", "dtypes: float32, float32 -> float32");
GRAPHFFI_EXPORT_OP(undeclared_append, Append, "(Tensor cache, Tensor x) -> ()", "dims: n, n",
                   "dtypes: float32, float32", "has_side_effect: true");
GRAPHFFI_EXPORT_OP(writes_after_operand, WritesAfterOperand, "(Tensor(a!) cache, Tensor x) -> ()",
                   "dims: n, n", "dtypes: float32, float32");
GRAPHFFI_EXPORT_OP(keeps_operand, KeepsOperand, UNARY, SAME);
GRAPHFFI_EXPORT_OP(keeps_result, KeepsResult, UNARY, SAME);
GRAPHFFI_EXPORT_OP(counts, Counts, UNARY, SAME);
GRAPHFFI_EXPORT_OP(random, Random, UNARY, SAME);
GRAPHFFI_EXPORT_OP(address_dependent, AddressDependent, UNARY, SAME);
GRAPHFFI_EXPORT_OP(first_size, FirstSize, UNARY, SAME);
GRAPHFFI_EXPORT_OP(caches_factor, CachesFactor, SCALED, SAME);
GRAPHFFI_EXPORT_OP(shared_scratch, SharedScratch, UNARY, SAME);
GRAPHFFI_EXPORT_OP(shared_sum, SharedSum, UNARY, "dims: ... [h] -> ...",
                   "dtypes: float32 -> float32");
GRAPHFFI_EXPORT_OP(ignores_factor, IgnoresFactor, SCALED, SAME);
GRAPHFFI_EXPORT_OP(ignores_flag, IgnoresFlag, "(Tensor x, bool flag=False) -> Tensor", SAME);
GRAPHFFI_EXPORT_OP(ignores_beta, IgnoresBeta, "(Tensor x, float alpha, float beta) -> Tensor",
                   SAME);
GRAPHFFI_EXPORT_OP(crashes_on_empty, CrashesOnEmpty, UNARY, "dims: ... [h] -> ...",
                   "dtypes: float32 -> float32");
GRAPHFFI_EXPORT_OP(crashes_on_large, CrashesOnLarge, UNARY, SAME);
GRAPHFFI_EXPORT_OP(wrong_on_large, WrongOnLarge, UNARY, "dims: a b -> a b",
                   "dtypes: float32 -> float32");
GRAPHFFI_EXPORT_OP(wrong_on_odd, WrongOnOdd, UNARY, SAME);
GRAPHFFI_EXPORT_OP(ignores_strides, IgnoresStrides, UNARY, "dims: a b -> a b",
                   "dtypes: float32 -> float32", "strided: true");
GRAPHFFI_EXPORT_OP(ignores_inner_stride, IgnoresInnerStride, UNARY, "dims: a b -> a b",
                   "dtypes: float32 -> float32", "strided: true");
GRAPHFFI_EXPORT_OP(mixes_rows, MixesRows, UNARY, "dims: a [b] -> a [b]",
                   "dtypes: float32 -> float32");
GRAPHFFI_EXPORT_OP(mixes_batch, MixesBatch, UNARY, ROWS, "vmap: broadcast");
GRAPHFFI_EXPORT_OP(returns_operand, Same, UNARY, "plan: x", SAME);
GRAPHFFI_EXPORT_OP(aborts, Aborts, UNARY, SAME);
GRAPHFFI_EXPORT_OP(throws, Throws, UNARY, SAME);
GRAPHFFI_EXPORT_OP(breaks_inside, BreaksInside, UNARY, SAME);
GRAPHFFI_EXPORT_OP(exits, Exits, UNARY, SAME);
GRAPHFFI_EXPORT_OP(wrong_free_dim, RowSum, UNARY, "dims: ... h -> ... h", "shape: like(x)",
                   "dtypes: float32 -> float32");
