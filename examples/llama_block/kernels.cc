// SPDX-License-Identifier: Apache-2.0
// The kernels of a Llama-style decoder layer on the CPU, for float32 and bfloat16. They accumulate
// in float32, take any strides but for the last dimension (its elements lie side by side), and
// check what they get before they write. Built with and without vector instructions: see ops.py.
#include <tvm/ffi/tvm_ffi.h>

#include <cmath>
#include <string>

#include "attention.h"
#include "element.h"
#include "operand.h"
#include "threads.h"

namespace llama {
namespace {

/// Every position lies in [0, limit). \throws Error(IndexError)
void ExpectPositionsBelow(const Operand& positions, int64_t limit) {
  const Indices index(positions);
  for (int64_t i = 0; i < positions.numel(); ++i) {
    if (index[i] >= 0 && index[i] < limit) continue;
    positions.Fail("IndexError", "values from 0 to " + std::to_string(limit - 1),
                   std::to_string(index[i]) + " at index " + std::to_string(i));
  }
}

template <typename T>
void NormRow(const T* x, const T* weight, int64_t hidden, float eps, T* out) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < hidden; ++i) sum += ToFloat(x[i]) * ToFloat(x[i]);
  const float inverse = 1.0f / std::sqrt(sum / static_cast<float>(hidden) + eps);
#pragma omp simd
  for (int64_t i = 0; i < hidden; ++i) {
    out[i] = FromFloat<T>(ToFloat(x[i]) * inverse * ToFloat(weight[i]));
  }
}

/// out = x / sqrt(mean(x²) + eps) * weight over the last dimension.
/// x, out: [..., hidden]; weight: [hidden]; one dtype.
template <bool kThreaded>
void RmsNorm(ffi::TensorView x_view, ffi::TensorView weight_view, ffi::TensorView out_view,
             double eps) {
  const Operand x("rms_norm", "x", x_view), weight("rms_norm", "weight", weight_view),
      out("rms_norm", "out", out_view);
  x.ExpectDtype({kFloat32, kBFloat16});
  x.ExpectMinimumRank(1);
  const int64_t hidden = x.size(-1);
  weight.ExpectDtype(x.dtype());
  weight.ExpectShape({hidden});
  out.ExpectDtype(x.dtype());
  out.ExpectShapeLike(x, hidden);
  for (const Operand* operand : {&x, &weight, &out}) operand->ExpectDenseRows();

  DispatchFloating(x, [&](auto element) {
    using T = decltype(element);
    const Rows<const T> x_rows(x);
    const Rows<T> out_rows(out);
    const T* w = weight.pointer<const T>();
    ForParts<kThreaded>(x_rows.count(), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        NormRow(x_rows[row], w, hidden, static_cast<float>(eps), out_rows[row]);
      }
    });
  });
}

/// Rotates the pairs (i, i + head_dim / 2) of every head of x: [batch, tokens, heads, head_dim].
template <typename T>
void Rotate(const Operand& x, const Operand& cos, const Operand& sin, const Operand& positions) {
  const int64_t tokens = x.size(1), heads = x.size(2), half = x.size(3) / 2;
  const Indices position(positions);
  const Rows<T> rows(x);
  for (int64_t row = 0; row < rows.count(); ++row) {
    const int64_t at = position[row / heads % tokens];
    const float* c = cos.pointer<const float>() + at * cos.stride(0);
    const float* s = sin.pointer<const float>() + at * sin.stride(0);
    T* low = rows[row];
    T* high = low + half;
#pragma omp simd
    for (int64_t i = 0; i < half; ++i) {
      const float a = ToFloat(low[i]), b = ToFloat(high[i]);
      low[i] = FromFloat<T>(a * c[i] - b * s[i]);
      high[i] = FromFloat<T>(b * c[i] + a * s[i]);
    }
  }
}

/// Rotary position embedding of q and k in place.
/// q: [batch, tokens, heads, head_dim]; k: [batch, tokens, kv_heads, head_dim], one dtype;
/// cos, sin: float32[max_positions, head_dim / 2]; positions: int32 or int64[tokens].
void Rope(ffi::TensorView q_view, ffi::TensorView k_view, ffi::TensorView cos_view,
          ffi::TensorView sin_view, ffi::TensorView positions_view) {
  const Operand q("rope", "q", q_view), k("rope", "k", k_view), cos("rope", "cos", cos_view),
      sin("rope", "sin", sin_view), positions("rope", "positions", positions_view);
  q.ExpectDtype({kFloat32, kBFloat16});
  q.ExpectRank(4, "[batch, tokens, heads, head_dim]");
  k.ExpectRank(4, "[batch, tokens, kv_heads, head_dim]");
  const int64_t head_dim = q.size(3);
  if (head_dim % 2 != 0) q.FailValue("an even head_dim");
  k.ExpectDtype(q.dtype());
  k.ExpectShape({q.size(0), q.size(1), k.size(2), head_dim});
  cos.ExpectRank(2, "[max_positions, head_dim / 2]");
  cos.ExpectDtype(kFloat32);
  cos.ExpectShape({cos.size(0), head_dim / 2});
  sin.ExpectDtype(kFloat32);
  sin.ExpectShape({cos.size(0), head_dim / 2});
  positions.ExpectIndexDtype();
  positions.ExpectShape({q.size(1)});
  ExpectPositionsBelow(positions, cos.size(0));
  for (const Operand* operand : {&q, &k, &cos, &sin}) operand->ExpectDenseRows();

  DispatchFloating(q, [&](auto element) {
    Rotate<decltype(element)>(q, cos, sin, positions);
    Rotate<decltype(element)>(k, cos, sin, positions);
  });
}

/// Not inlined: in the loop over rows GCC 12 makes branches of the selects and does not vectorise.
template <typename T>
[[gnu::noinline]] void SiluAndMulRow(const T* gate, const T* up, int64_t width, T* out) {
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) {
    out[i] = FromFloat<T>(Silu(ToFloat(gate[i])) * ToFloat(up[i]));
  }
}

/// out = silu(gate) * up, where x = [gate, up] along the last dimension.
/// x: [..., 2 * width]; out: [..., width]; one dtype.
void SiluAndMul(ffi::TensorView x_view, ffi::TensorView out_view) {
  const Operand x("silu_and_mul", "x", x_view), out("silu_and_mul", "out", out_view);
  x.ExpectDtype({kFloat32, kBFloat16});
  x.ExpectMinimumRank(1);
  if (x.size(-1) % 2 != 0) x.FailValue("an even last dimension");
  const int64_t width = x.size(-1) / 2;
  out.ExpectDtype(x.dtype());
  out.ExpectShapeLike(x, width);
  x.ExpectDenseRows();
  out.ExpectDenseRows();

  DispatchFloating(x, [&](auto element) {
    using T = decltype(element);
    const Rows<const T> x_rows(x);
    const Rows<T> out_rows(out);
    for (int64_t row = 0; row < x_rows.count(); ++row) {
      SiluAndMulRow(x_rows[row], x_rows[row] + width, width, out_rows[row]);
    }
  });
}

/// cache[b, h, positions[t]] = x[b, t, h].
template <typename T>
void Append(const Operand& cache, const Operand& x, const Operand& positions) {
  const int64_t tokens = x.size(1), heads = x.size(2), head_dim = x.size(3);
  const Indices position(positions);
  const Rows<const T> rows(x);
  for (int64_t row = 0; row < rows.count(); ++row) {
    const int64_t head = row % heads, token = row / heads % tokens, batch = row / heads / tokens;
    const T* src = rows[row];
    T* dst = cache.pointer<T>() + batch * cache.stride(0) + head * cache.stride(1) +
             position[token] * cache.stride(2);
    for (int64_t i = 0; i < head_dim; ++i) dst[i] = src[i];
  }
}

/// Writes the keys and values of new tokens into the caches, in place.
/// cache_k, cache_v: [batch, kv_heads, capacity, head_dim]; k, v: [batch, tokens, kv_heads,
/// head_dim], one dtype; positions: int32 or int64[tokens].
void KvCacheAppend(ffi::TensorView cache_k_view, ffi::TensorView cache_v_view,
                   ffi::TensorView k_view, ffi::TensorView v_view, ffi::TensorView positions_view) {
  constexpr const char* kName = "kv_cache_append";
  const Operand cache_k(kName, "cache_k", cache_k_view), cache_v(kName, "cache_v", cache_v_view),
      k(kName, "k", k_view), v(kName, "v", v_view), positions(kName, "positions", positions_view);
  cache_k.ExpectDtype({kFloat32, kBFloat16});
  cache_k.ExpectRank(4, "[batch, kv_heads, capacity, head_dim]");
  const int64_t batch = cache_k.size(0), heads = cache_k.size(1), capacity = cache_k.size(2),
                head_dim = cache_k.size(3);
  cache_v.ExpectDtype(cache_k.dtype());
  cache_v.ExpectShape({batch, heads, capacity, head_dim});
  k.ExpectRank(4, "[batch, tokens, kv_heads, head_dim]");
  for (const Operand* operand : {&k, &v}) {
    operand->ExpectDtype(cache_k.dtype());
    operand->ExpectShape({batch, k.size(1), heads, head_dim});
  }
  positions.ExpectIndexDtype();
  positions.ExpectShape({k.size(1)});
  ExpectPositionsBelow(positions, capacity);
  for (const Operand* operand : {&cache_k, &cache_v, &k, &v}) operand->ExpectDenseRows();

  DispatchFloating(cache_k, [&](auto element) {
    Append<decltype(element)>(cache_k, k, positions);
    Append<decltype(element)>(cache_v, v, positions);
  });
}

}  // namespace
}  // namespace llama

TVM_FFI_DLL_EXPORT_TYPED_FUNC(rms_norm, llama::RmsNorm<false>);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(rms_norm_threaded, llama::RmsNorm<true>);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(rope, llama::Rope);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(silu_and_mul, llama::SiluAndMul);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(kv_cache_append, llama::KvCacheAppend);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(decode_attention,
                              (llama::DecodeAttention<llama::kAnyHeadDim, false>));
TVM_FFI_DLL_EXPORT_TYPED_FUNC(decode_attention_threaded,
                              (llama::DecodeAttention<llama::kAnyHeadDim, true>));
