// SPDX-License-Identifier: Apache-2.0
// Attention over key-value caches, for any head size or, unrolled by the compiler, for one.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "element.h"
#include "operand.h"
#include "threads.h"

namespace llama {

constexpr int64_t kAnyHeadDim = 0;

/// Attention of one query row over the first `length` rows of one head's cache.
template <typename T, int64_t kHeadDim>
struct AttentionHead {
  const T* keys;
  const T* values;
  int64_t key_stride, value_stride;  ///< between rows, in elements
  int64_t length, any_head_dim;
  float scale;

  /// `opt_mask`, where given, says for each cached row whether it is seen. `scores` ([length]) and
  /// `sum` ([head_dim]) are scratch. Where nothing is seen, `out` becomes zero.
  void Run(const float* query, const bool* opt_mask, int64_t mask_stride, float* scores, float* sum,
           T* out) const {
    const int64_t head_dim = kHeadDim == kAnyHeadDim ? any_head_dim : kHeadDim;
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
template <int64_t kHeadDim, bool kThreaded>
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
  if (kHeadDim != kAnyHeadDim) q.ExpectShape({q.size(0), q.size(1), q.size(2), kHeadDim});
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
    const Rows<const T> q_rows(q);
    const Rows<T> out_rows(out);
    ForParts<kThreaded>(q_rows.count(), [&](int64_t begin, int64_t end) {
      std::vector<float> scratch(valid + 2 * head_dim);
      float* query = scratch.data();
      float* sum = query + head_dim;
      float* scores = sum + head_dim;
      for (int64_t row = begin; row < end; ++row) {
        const int64_t head = row % heads, token = row / heads % tokens, b = row / heads / tokens;
        const int64_t kv_head = head / (heads / kv_heads);
        const AttentionHead<T, kHeadDim> attention{
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
  });
}

}  // namespace llama
