// SPDX-License-Identifier: Apache-2.0
// Norm, activation and attention of a small transformer, forward and backward: float32 on the CPU.
#include <tvm/ffi/tvm_ffi.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace {

namespace ffi = tvm::ffi;

/// The memory of an operand. \throws Error(ValueError) unless it is row-major float32 on the CPU.
float* Floats(const char* op, const char* name, const ffi::TensorView& tensor) {
  bool is_float32 = tensor.dtype() == (DLDataType{kDLFloat, 32, 1});
  if (!is_float32 || !tensor.IsContiguous() || tensor.device().device_type != kDLCPU) {
    throw ffi::Error(
        "ValueError",
        std::string("digits::") + op + ": operand '" + name +
            "': expected row-major float32 on cpu, got another dtype, layout or device",
        "");
  }
  return reinterpret_cast<float*>(static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset());
}

float Dot(const float* a, const float* b, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// to += factor * from
void Accumulate(float* to, float factor, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

/// x: [rows, width], weight: [width]; out like x, inverse: [rows] holds 1 / sqrt(mean(x^2) + eps).
void RmsNorm(ffi::TensorView x_view, ffi::TensorView weight_view, ffi::TensorView out_view,
             ffi::TensorView inverse_view, double eps) {
  const float* x = Floats("rms_norm", "x", x_view);
  const float* weight = Floats("rms_norm", "weight", weight_view);
  float* out = Floats("rms_norm", "out", out_view);
  float* inverse = Floats("rms_norm", "inverse", inverse_view);
  const int64_t width = weight_view.numel();
  for (int64_t row = 0; row < inverse_view.numel(); ++row, x += width, out += width) {
    const float mean_square = Dot(x, x, width) / static_cast<float>(std::max<int64_t>(width, 1));
    inverse[row] = 1.0f / std::sqrt(mean_square + static_cast<float>(eps));
    for (int64_t i = 0; i < width; ++i) out[i] = x[i] * inverse[row] * weight[i];
  }
}

/// grad_x like x, grad_weight: [width] summed over the rows.
void RmsNormBackward(ffi::TensorView grad_view, ffi::TensorView grad_inverse_view,
                     ffi::TensorView x_view, ffi::TensorView weight_view,
                     ffi::TensorView inverse_view, ffi::TensorView grad_x_view,
                     ffi::TensorView grad_weight_view) {
  const float* grad = Floats("rms_norm_backward", "grad", grad_view);
  const float* grad_inverse = Floats("rms_norm_backward", "grad_inverse", grad_inverse_view);
  const float* x = Floats("rms_norm_backward", "x", x_view);
  const float* weight = Floats("rms_norm_backward", "weight", weight_view);
  const float* inverse = Floats("rms_norm_backward", "inverse", inverse_view);
  float* grad_x = Floats("rms_norm_backward", "grad_x", grad_x_view);
  float* grad_weight = Floats("rms_norm_backward", "grad_weight", grad_weight_view);
  const int64_t width = weight_view.numel();
  std::fill_n(grad_weight, width, 0.0f);
  for (int64_t row = 0; row < inverse_view.numel(); ++row) {
    const float scale = inverse[row];
    float projection = grad_inverse[row];
    for (int64_t i = 0; i < width; ++i) projection += grad[i] * weight[i] * x[i];
    projection *= scale * scale / static_cast<float>(width);
    for (int64_t i = 0; i < width; ++i) {
      grad_x[i] = scale * (grad[i] * weight[i] - x[i] * projection);
      grad_weight[i] += grad[i] * x[i] * scale;
    }
    grad += width, x += width, grad_x += width;
  }
}

float Sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

/// x * sigmoid(x), elementwise.
void Swish(ffi::TensorView x_view, ffi::TensorView out_view) {
  const float* x = Floats("swish", "x", x_view);
  float* out = Floats("swish", "out", out_view);
  for (int64_t i = 0; i < x_view.numel(); ++i) out[i] = x[i] * Sigmoid(x[i]);
}

void SwishBackward(ffi::TensorView grad_view, ffi::TensorView x_view, ffi::TensorView out_view) {
  const float* grad = Floats("swish_backward", "grad", grad_view);
  const float* x = Floats("swish_backward", "x", x_view);
  float* out = Floats("swish_backward", "out", out_view);
  for (int64_t i = 0; i < x_view.numel(); ++i) {
    const float s = Sigmoid(x[i]);
    out[i] = grad[i] * s * (1.0f + x[i] * (1.0f - s));
  }
}

/// Rows of one head in [tokens, parts, heads, head_dim].
template <typename T>
struct HeadRows {
  T* first;
  int64_t stride;
  T* operator[](int64_t token) const { return first + token * stride; }
};

/// Where the heads of an attention are. qkv: [batch, tokens, 3, heads, head_dim],
/// out: [batch, tokens, heads, head_dim], logsumexp: [batch, heads, tokens].
struct AttentionShape {
  int64_t batch, tokens, heads, head_dim;

  explicit AttentionShape(const ffi::TensorView& qkv)
      : batch(1), tokens(qkv.size(-4)), heads(qkv.size(-2)), head_dim(qkv.size(-1)) {
    for (int32_t i = 0; i + 4 < qkv.ndim(); ++i) batch *= qkv.size(i);
  }

  /// `part`: 0 for queries, 1 for keys, 2 for values.
  template <typename T>
  HeadRows<T> Part(T* qkv, int64_t b, int64_t head, int64_t part) const {
    return {qkv + ((b * tokens * 3 + part) * heads + head) * head_dim, 3 * heads * head_dim};
  }

  template <typename T>
  HeadRows<T> Out(T* out, int64_t b, int64_t head) const {
    return {out + (b * tokens * heads + head) * head_dim, heads * head_dim};
  }
};

void Attention(ffi::TensorView qkv_view, double scale_double, ffi::TensorView out_view,
               ffi::TensorView logsumexp_view) {
  const AttentionShape shape(qkv_view);
  const float scale = static_cast<float>(scale_double);
  const float* qkv = Floats("attention", "qkv", qkv_view);
  float* out = Floats("attention", "out", out_view);
  float* logsumexp = Floats("attention", "logsumexp", logsumexp_view);
  std::fill_n(out, out_view.numel(), 0.0f);
  std::vector<float> scores(static_cast<size_t>(shape.tokens));
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t head = 0; head < shape.heads; ++head) {
      auto q = shape.Part(qkv, b, head, 0), k = shape.Part(qkv, b, head, 1),
           v = shape.Part(qkv, b, head, 2);
      auto o = shape.Out(out, b, head);
      for (int64_t i = 0; i < shape.tokens; ++i) {
        for (int64_t j = 0; j < shape.tokens; ++j) {
          scores[j] = scale * Dot(q[i], k[j], shape.head_dim);
        }
        const float most = *std::max_element(scores.begin(), scores.end());
        float sum = 0;
        for (float& score : scores) sum += score = std::exp(score - most);
        for (int64_t j = 0; j < shape.tokens; ++j) {
          Accumulate(o[i], scores[j] / sum, v[j], shape.head_dim);
        }
        *logsumexp++ = most + std::log(sum);
      }
    }
  }
}

/// Computes the probabilities again from `logsumexp`.
void AttentionBackward(ffi::TensorView grad_view, ffi::TensorView grad_logsumexp_view,
                       ffi::TensorView qkv_view, ffi::TensorView out_view,
                       ffi::TensorView logsumexp_view, double scale_double,
                       ffi::TensorView grad_qkv_view) {
  const AttentionShape shape(qkv_view);
  const float scale = static_cast<float>(scale_double);
  const float* grad = Floats("attention_backward", "grad", grad_view);
  const float* grad_lse = Floats("attention_backward", "grad_logsumexp", grad_logsumexp_view);
  const float* qkv = Floats("attention_backward", "qkv", qkv_view);
  const float* out = Floats("attention_backward", "out", out_view);
  const float* logsumexp = Floats("attention_backward", "logsumexp", logsumexp_view);
  float* grad_qkv = Floats("attention_backward", "grad_qkv", grad_qkv_view);
  std::fill_n(grad_qkv, grad_qkv_view.numel(), 0.0f);
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t head = 0; head < shape.heads; ++head) {
      auto q = shape.Part(qkv, b, head, 0), k = shape.Part(qkv, b, head, 1),
           v = shape.Part(qkv, b, head, 2);
      auto grad_q = shape.Part(grad_qkv, b, head, 0), grad_k = shape.Part(grad_qkv, b, head, 1),
           grad_v = shape.Part(grad_qkv, b, head, 2);
      auto o = shape.Out(out, b, head), grad_o = shape.Out(grad, b, head);
      for (int64_t i = 0; i < shape.tokens; ++i) {
        const float lse = *logsumexp++;
        const float mean = Dot(grad_o[i], o[i], shape.head_dim) - *grad_lse++;
        for (int64_t j = 0; j < shape.tokens; ++j) {
          const float p = std::exp(scale * Dot(q[i], k[j], shape.head_dim) - lse);
          const float grad_score = scale * p * (Dot(grad_o[i], v[j], shape.head_dim) - mean);
          Accumulate(grad_v[j], p, grad_o[i], shape.head_dim);
          Accumulate(grad_q[i], grad_score, k[j], shape.head_dim);
          Accumulate(grad_k[j], grad_score, q[i], shape.head_dim);
        }
      }
    }
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(rms_norm, RmsNorm);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(rms_norm_backward, RmsNormBackward);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(swish, Swish);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(swish_backward, SwishBackward);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention, Attention);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(attention_backward, AttentionBackward);
