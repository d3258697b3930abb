// SPDX-License-Identifier: Apache-2.0
// The kernels of a Llama-style decoder layer on the CPU, for float32 and bfloat16. They accumulate
// in float32, take any strides but for the last dimension (its elements lie side by side), and
// check what they get before they write.
#include <tvm/ffi/tvm_ffi.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "element.h"
#include "operand.h"

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

/// out = x / sqrt(mean(x²) + eps) * weight over the last dimension.
/// x, out: [..., hidden]; weight: [hidden]; one dtype.
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
    for (int64_t row = 0; row < x_rows.count(); ++row) {
      const T* src = x_rows[row];
      T* dst = out_rows[row];
      float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < hidden; ++i) sum += ToFloat(src[i]) * ToFloat(src[i]);
      const float mean = sum / static_cast<float>(hidden);
      const float inverse = 1.0f / std::sqrt(mean + static_cast<float>(eps));
#pragma omp simd
      for (int64_t i = 0; i < hidden; ++i) {
        dst[i] = FromFloat<T>(ToFloat(src[i]) * inverse * ToFloat(w[i]));
      }
    }
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

/// Attention of one query row over the first `length` rows of one head's cache.
template <typename T>
struct AttentionHead {
  const T* keys;
  const T* values;
  int64_t key_stride, value_stride;  ///< between rows, in elements
  int64_t length, head_dim;
  float scale;

  /// `opt_mask`, where given, says for each cached row whether it is seen. `scores` ([length]) and
  /// `sum` ([head_dim]) are scratch. Where nothing is seen, `out` becomes zero.
  void Run(const float* query, const bool* opt_mask, int64_t mask_stride, float* scores, float* sum,
           T* out) const {
    float largest = -std::numeric_limits<float>::infinity();
    for (int64_t j = 0; j < length; ++j) {
      if (opt_mask != nullptr && !opt_mask[j * mask_stride]) continue;
      const T* key = keys + j * key_stride;
      float dot = 0.0f;
#pragma omp simd reduction(+ : dot)
      for (int64_t i = 0; i < head_dim; ++i) dot += query[i] * ToFloat(key[i]);
      scores[j] = dot * scale;
      largest = std::max(largest, scores[j]);
    }
    float total = 0.0f;
    for (int64_t i = 0; i < head_dim; ++i) sum[i] = 0.0f;
    for (int64_t j = 0; j < length; ++j) {
      if (opt_mask != nullptr && !opt_mask[j * mask_stride]) continue;
      const T* value = values + j * value_stride;
      const float weight = ExpOfNegative(scores[j] - largest);
      total += weight;
#pragma omp simd
      for (int64_t i = 0; i < head_dim; ++i) sum[i] += weight * ToFloat(value[i]);
    }
    const float inverse = total > 0.0f ? 1.0f / total : 0.0f;
#pragma omp simd
    for (int64_t i = 0; i < head_dim; ++i) out[i] = FromFloat<T>(sum[i] * inverse);
  }
};

/// out = softmax(q kᵀ * scale) v over the first `length` cached tokens. Each kv head serves
/// heads / kv_heads consecutive query heads.
/// q, out: [batch, tokens, heads, head_dim]; k_cache, v_cache: [batch, kv_heads, capacity,
/// head_dim], one dtype; length: int32 or int64, one element; mask: bool[tokens, capacity], true
/// where a query sees a cached token.
void DecodeAttention(ffi::TensorView q_view, ffi::TensorView k_cache_view,
                     ffi::TensorView v_cache_view, ffi::TensorView length_view,
                     ffi::Optional<ffi::TensorView> opt_mask, ffi::TensorView out_view,
                     double scale) {
  constexpr const char* kName = "decode_attention";
  const Operand q(kName, "q", q_view), k_cache(kName, "k_cache", k_cache_view),
      v_cache(kName, "v_cache", v_cache_view), length(kName, "length", length_view),
      out(kName, "out", out_view), mask(kName, "mask", opt_mask.value_or(out_view));
  q.ExpectDtype({kFloat32, kBFloat16});
  q.ExpectRank(4, "[batch, tokens, heads, head_dim]");
  k_cache.ExpectRank(4, "[batch, kv_heads, capacity, head_dim]");
  const int64_t batch = q.size(0), tokens = q.size(1), heads = q.size(2), head_dim = q.size(3);
  const int64_t kv_heads = k_cache.size(1), capacity = k_cache.size(2);
  k_cache.ExpectDtype(q.dtype());
  k_cache.ExpectShape({batch, kv_heads, capacity, head_dim});
  if (kv_heads == 0 || heads % kv_heads != 0) {
    q.FailValue("heads to be a multiple of the " + std::to_string(kv_heads) + " kv_heads");
  }
  v_cache.ExpectDtype(q.dtype());
  v_cache.ExpectShape({batch, kv_heads, capacity, head_dim});
  length.ExpectIndexDtype();
  if (length.numel() != 1) length.FailValue("one element");
  const int64_t valid = Indices(length)[0];
  if (valid < 0 || valid > capacity) {
    length.Fail("ValueError", "a value from 0 to " + std::to_string(capacity),
                std::to_string(valid));
  }
  if (opt_mask.has_value()) {
    mask.ExpectDtype(kBool);
    mask.ExpectShape({tokens, capacity});
  }
  out.ExpectDtype(q.dtype());
  out.ExpectShapeLike(q, head_dim);
  for (const Operand* operand : {&q, &k_cache, &v_cache, &out}) operand->ExpectDenseRows();

  DispatchFloating(q, [&](auto element) {
    using T = decltype(element);
    std::vector<float> scratch(valid + 2 * head_dim);
    float* query = scratch.data();
    float* sum = query + head_dim;
    float* scores = sum + head_dim;
    const Rows<const T> q_rows(q);
    const Rows<T> out_rows(out);
    for (int64_t row = 0; row < q_rows.count(); ++row) {
      const int64_t head = row % heads, token = row / heads % tokens, b = row / heads / tokens;
      const int64_t kv_head = head / (heads / kv_heads);
      const AttentionHead<T> attention{
          k_cache.pointer<const T>() + b * k_cache.stride(0) + kv_head * k_cache.stride(1),
          v_cache.pointer<const T>() + b * v_cache.stride(0) + kv_head * v_cache.stride(1),
          k_cache.stride(2),
          v_cache.stride(2),
          valid,
          head_dim,
          static_cast<float>(scale)};
      const T* src = q_rows[row];
      for (int64_t i = 0; i < head_dim; ++i) query[i] = ToFloat(src[i]);
      const bool* mask_row =
          opt_mask.has_value() ? mask.pointer<const bool>() + token * mask.stride(0) : nullptr;
      const int64_t mask_stride = opt_mask.has_value() ? mask.stride(1) : 0;
      attention.Run(query, mask_row, mask_stride, scores, sum, out_rows[row]);
    }
  });
}

}  // namespace
}  // namespace llama

TVM_FFI_DLL_EXPORT_TYPED_FUNC(rms_norm, llama::RmsNorm);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(rope, llama::Rope);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(silu_and_mul, llama::SiluAndMul);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(kv_cache_append, llama::KvCacheAppend);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(decode_attention, llama::DecodeAttention);
