// SPDX-License-Identifier: Apache-2.0
// Kernels that are wrong in one respect each, and correct ones beside them.
#include <graphffi/op.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
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

void Copy(View x, View out, int64_t count) {
  std::memcpy(out.data_ptr(), x.data_ptr(), count * x.dtype().bits / 8);
}
void GoodCopy(View x, View out) { Copy(x, out, N(x)); }
void CopyTail(View x, View out) { Copy(x, out, std::max<int64_t>(N(x) - 1, 0)); }
void CopyTailOfUInt16(View x, View out) {
  bool is_uint16 = x.dtype().code == kDLUInt && x.dtype().bits == 16;
  is_uint16 ? CopyTail(x, out) : GoodCopy(x, out);
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
    // Several times: on a busy machine, threads seldom meet in a short while.
    for (int64_t i = 0; i < 16 * n; ++i) sum = sum + F(x)[r * n + i % n];
    F(out)[r] = sum / 16;
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
void ShiftsAfterError(View x, View out) {
  static bool has_failed = false;
  if (N(x) == 0) {
    has_failed = true;
    TVM_FFI_THROW(ValueError) << "x: expected elements, got none";
  }
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = F(x)[i] + (has_failed ? 1 : 0);
}
void WritesThenThrows(View x, View out) {
  if (N(x) == 1) {
    F(x)[0] = 0;
    TVM_FFI_THROW(ValueError) << "x: expected several elements, got one";
  }
  Twice(x, out);
}
void CountsErrors(View x, View out) {
  static int errors = 0;
  if (N(x) == 0) TVM_FFI_THROW(ValueError) << "error " << ++errors;
  Twice(x, out);
}
void LeaksMemory(View x, View out) {
  static void* volatile leaked;
  leaked = std::malloc(100);
  Twice(x, out);
}
ffi::Tensor NewTensor(View like, DLDataType dtype, ffi::Shape shape) {
  return ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, shape, dtype, like.device());
}
void LeaksTensor(View x, View out) {
  static auto* kept = new std::vector<ffi::Tensor>();
  kept->push_back(NewTensor(x, x.dtype(), x.shape()));
  Twice(x, out);
}
ffi::Tensor ReturnsCached(View x) {
  static auto* known = new std::map<int64_t, ffi::Tensor>();
  auto found = known->find(N(x));
  if (found == known->end()) {
    found = known->emplace(N(x), NewTensor(x, x.dtype(), x.shape())).first;
  }
  Twice(x, found->second);
  return found->second;
}
ffi::Tensor ReturnsOther(ffi::Tensor x, ffi::Tensor y) { return N(x) > 4 ? y : x; }
ffi::Tensor ReturnsShort(View x) {
  ffi::Tensor out = NewTensor(x, x.dtype(), {N(x) / 2});
  for (int64_t i = 0; i < N(x) / 2; ++i) F(out)[i] = F(x)[i];
  return out;
}
ffi::Tensor ReturnsDouble(View x) {
  ffi::Tensor out = NewTensor(x, DLDataType{kDLFloat, 64, 1}, x.shape());
  WritesDouble(x, out);
  return out;
}
void SharedBuffer(View x, View out) {
  static std::vector<float> buffer;
  buffer.assign(F(x), F(x) + N(x));
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = 2 * buffer[i];
  buffer.shrink_to_fit();
}
void HangsOnSeven(View x, View out) {
  volatile bool is_done = N(x) != 7;
  while (!is_done) {
  }
  Twice(x, out);
}
void CrashesOnNegative(View x, double factor, View out) {
  if (factor < 0) std::abort();
  Scale(x, factor, out);
}
void Softmax(View x, View out) {
  int64_t n = x.size(-1);
  for (int64_t i = 0; i + n <= N(x) && n > 0; i += n) {
    double sum = 0;
    for (int64_t k = 0; k < n; ++k) sum += std::exp(F(x)[i + k]);
    for (int64_t k = 0; k < n; ++k) F(out)[i + k] = std::exp(F(x)[i + k]) / sum;
  }
}
void SoftmaxOverAll(View x, View out) {
  double sum = 0;
  for (int64_t i = 0; i < N(x); ++i) sum += std::exp(F(x)[i]);
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = std::exp(F(x)[i]) / sum;
}
void SoftmaxInPlace(View x, View out) {
  for (int64_t i = 0; i < N(x); ++i) F(x)[i] = std::exp(F(x)[i]);
  SoftmaxOverAll(x, out);
}
void MatMul(View a, View b, View out) {
  for (int64_t i = 0; i < a.size(0); ++i) {
    for (int64_t j = 0; j < b.size(1); ++j) {
      float sum = 0;
      for (int64_t k = 0; k < a.size(1); ++k)
        sum += F(a)[i * a.size(1) + k] * F(b)[k * b.size(1) + j];
      F(out)[i * b.size(1) + j] = sum;
    }
  }
}
void MatMulTransposed(View a, View b, View out) {
  for (int64_t i = 0; i < a.size(0); ++i) {
    for (int64_t j = 0; j < b.size(1); ++j) {
      float sum = 0;
      for (int64_t k = 0; k < a.size(1); ++k)
        sum += F(a)[i * a.size(1) + k] * F(b)[j * b.size(0) + k];
      F(out)[i * b.size(1) + j] = sum;
    }
  }
}
void MatMulAccumulates(View a, View b, View out) {
  for (int64_t i = 0; i < a.size(0); ++i) {
    for (int64_t j = 0; j < b.size(1); ++j) {
      for (int64_t k = 0; k < a.size(1); ++k) {
        F(out)[i * b.size(1) + j] += F(a)[i * a.size(1) + k] * F(b)[k * b.size(1) + j];
      }
    }
  }
}
void CumulativeSum(View x, View out) {
  float sum = 0;  // over all rows
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = sum += F(x)[i];
}
void ArgMax(View x, View out) {
  int64_t n = x.size(-1);
  for (int64_t r = 0; r < N(out); ++r) {
    int32_t best = 0;  // of int64
    for (int64_t k = 1; k < n; ++k) best = F(x)[r * n + k] > F(x)[r * n + best] ? k : best;
    static_cast<int32_t*>(out.data_ptr())[r] = best;
  }
}
void Split(View x, View low, View high) {
  int64_t half = N(low);
  for (int64_t i = 0; i < N(x); ++i) F(low)[i] = F(x)[i];
  for (int64_t i = half; i < N(x); ++i) F(high)[i - half] = F(x)[i];
}
void Concat(ffi::Array<ffi::Tensor> xs, View out) {
  int64_t n = xs[0].numel();  // of the first one only
  for (int64_t i = 0; i < n; ++i) F(out)[i] = static_cast<float*>(xs[0].data_ptr())[i];
}
void AddBias(View x, ffi::Optional<ffi::Tensor> bias, View out) {
  auto* added = static_cast<const ffi::TensorObj*>(bias.has_value() ? bias.value().get() : nullptr);
  for (int64_t i = 0; i < N(x); ++i) {
    F(out)[i] = F(x)[i] + static_cast<float*>(added->data)[i];
  }
}
void ClampLow(View x, double low, double, View out) {
  for (int64_t i = 0; i < N(x); ++i) F(out)[i] = std::fmax(F(x)[i], low);
}
void ScatterAdd(View out, View index, View x) {
  for (int64_t i = 0; i < N(index); ++i) {
    F(out)[static_cast<int32_t*>(index.data_ptr())[i] + 1] += F(x)[i];  // of Fortran
  }
}
void Rotate(View x, View angle, View out) {
  for (int64_t i = 0; i < N(x); ++i) {
    F(angle)[i] = std::cos(F(angle)[i]);
    F(out)[i] = F(x)[i] * F(angle)[i];
  }
}
void Dequantize(View x, double scale, View out) {
  for (int64_t i = 0; i < N(x) / 8 * 8; ++i) {
    F(out)[i] = static_cast<float>(scale * static_cast<uint8_t*>(x.data_ptr())[i]);
  }
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

GRAPHFFI_EXPORT_OP(good_softmax, Softmax, UNARY, ROWS, "vmap: broadcast");
GRAPHFFI_EXPORT_OP(good_matmul, MatMul, "(Tensor a, Tensor b) -> Tensor",
                   "dims: a [k], [k] b -> a b", "dtypes: float32, float32 -> float32");

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
GRAPHFFI_EXPORT_OP(shifts_after_error, ShiftsAfterError, UNARY, SAME);
GRAPHFFI_EXPORT_OP(writes_then_throws, WritesThenThrows, UNARY, SAME);
GRAPHFFI_EXPORT_OP(counts_errors, CountsErrors, UNARY, SAME);
GRAPHFFI_EXPORT_OP(leaks_memory, LeaksMemory, UNARY, SAME);
GRAPHFFI_EXPORT_OP(leaks_tensor, LeaksTensor, UNARY, SAME);
GRAPHFFI_EXPORT_OP(returns_cached, ReturnsCached, UNARY, "plan: x", SAME);
GRAPHFFI_EXPORT_OP(returns_other, ReturnsOther, "(Tensor x, Tensor y) -> Tensor", "plan: x, y",
                   "dims: n, n -> n", "dtypes: float32, float32 -> float32");
GRAPHFFI_EXPORT_OP(returns_short, ReturnsShort, UNARY, "plan: x", SAME);
GRAPHFFI_EXPORT_OP(returns_double, ReturnsDouble, UNARY, "plan: x", SAME);
GRAPHFFI_EXPORT_OP(shared_buffer, SharedBuffer, UNARY, SAME);
GRAPHFFI_EXPORT_OP(hangs_on_seven, HangsOnSeven, UNARY, SAME);
GRAPHFFI_EXPORT_OP(crashes_on_negative, CrashesOnNegative, SCALED, SAME);
GRAPHFFI_EXPORT_OP(ignores_dtype, Twice, UNARY, "dims: n -> n",
                   "dtypes: T -> T; T: float32 | float64");
GRAPHFFI_EXPORT_OP(softmax_over_all, SoftmaxOverAll, UNARY, ROWS);
GRAPHFFI_EXPORT_OP(softmax_in_place, SoftmaxInPlace, UNARY, ROWS);
GRAPHFFI_EXPORT_OP(matmul_transposed, MatMulTransposed, "(Tensor a, Tensor b) -> Tensor",
                   "dims: a [k], [k] b -> a b", "dtypes: float32, float32 -> float32");
GRAPHFFI_EXPORT_OP(matmul_accumulates, MatMulAccumulates, "(Tensor a, Tensor b) -> Tensor",
                   "dims: a [k], [k] b -> a b", "dtypes: float32, float32 -> float32");
GRAPHFFI_EXPORT_OP(cumulative_sum, CumulativeSum, UNARY, ROWS);
GRAPHFFI_EXPORT_OP(argmax_of_int32, ArgMax, UNARY, "dims: ... [h] -> ...",
                   "dtypes: float32 -> int64");
GRAPHFFI_EXPORT_OP(split_beyond, Split, "(Tensor x) -> (Tensor low, Tensor high)",
                   "dims: [n] -> [a], [b]",
                   "shape: empty([n // 2], float32), empty([n - n // 2], float32)",
                   "dtypes: float32 -> float32, float32");
GRAPHFFI_EXPORT_OP(gather_wide_index, Gather, "(Tensor table, Tensor index) -> Tensor",
                   "dims: [r] [n], i -> i [n]", "dtypes: float32, I -> float32; I: int32 | int64");
GRAPHFFI_EXPORT_OP(gather_wide_alternative, Gather, "(Tensor table, Tensor index) -> Tensor",
                   "dims: [r] [n], i -> i [n]", "dtypes: float32, int32 | int64 -> float32");
GRAPHFFI_EXPORT_OP(concat_of_first, Concat, "(Tensor[] xs) -> Tensor", "dims: [n] -> [m]",
                   "shape: empty([2 * n], float32)", "dtypes: float32 -> float32");
GRAPHFFI_EXPORT_OP(add_absent_bias, AddBias, "(Tensor x, Tensor? bias) -> Tensor",
                   "dims: n, n -> n", "dtypes: float32, float32 -> float32");
GRAPHFFI_EXPORT_OP(clamp_low, ClampLow, "(Tensor x, float low=-1.0, float high=1.0) -> Tensor",
                   SAME);
GRAPHFFI_EXPORT_OP(scatter_add_beyond, ScatterAdd, "(Tensor(a!) out, Tensor index, Tensor x) -> ()",
                   "dims: [m], [n], [n]", "dtypes: float32, int32, float32");
GRAPHFFI_EXPORT_OP(rotate_writes_angle, Rotate, "(Tensor x, Tensor angle) -> Tensor",
                   "dims: n, n -> n", "dtypes: float32, float32 -> float32");
GRAPHFFI_EXPORT_OP(dequantize_blocks, Dequantize, "(Tensor x, float scale) -> Tensor",
                   "dims: n -> n", "dtypes: uint8 -> float32");
GRAPHFFI_EXPORT_OP(good_copy_float8, GoodCopy, UNARY, "shape: like(x)",
                   "dtypes: float8_e4m3fn -> float8_e4m3fn");
GRAPHFFI_EXPORT_OP(good_copy_float8_e3m4, GoodCopy, UNARY, "shape: like(x)",
                   "dtypes: float8_e3m4 -> float8_e3m4");
GRAPHFFI_EXPORT_OP(bool_tail, CopyTail, UNARY, "shape: like(x)", "dtypes: bool -> bool");
GRAPHFFI_EXPORT_OP(complex_tail, CopyTail, UNARY, "shape: like(x)",
                   "dtypes: complex64 -> complex64");
GRAPHFFI_EXPORT_OP(float8_tail, CopyTail, UNARY, "shape: like(x)",
                   "dtypes: float8_e5m2 -> float8_e5m2");
GRAPHFFI_EXPORT_OP(float8_scale_tail, CopyTail, UNARY, "shape: like(x)",
                   "dtypes: float8_e8m0fnu -> float8_e8m0fnu");
GRAPHFFI_EXPORT_OP(uint16_tail, CopyTailOfUInt16, UNARY, "shape: like(x)");
