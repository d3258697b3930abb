// SPDX-License-Identifier: Apache-2.0
// Products of matrices, compiled with the generated code, for the same instructions. Operands have
// any strides; sums are float32, of float64 tensors float64.
#include <graphffi_standalone/shim_tensor.h>
#include <omp.h>
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using namespace graphffi_standalone;

#ifdef __AVX512F__
constexpr int kVectorBytes = 64, kTileRows = 12;
#else
constexpr int kVectorBytes = 32, kTileRows = 6;
#endif
constexpr int64_t kFewRows = 8;             // below, packing costs more than it gives
constexpr int64_t kParallelWork = 1 << 17;  // multiplications that pay for starting threads
constexpr int64_t kDotColumns = 64;         // of one task of few rows

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

inline float Widen(float value) { return value; }
inline double Widen(double value) { return value; }
inline float Widen(BFloat16 value) {
  const uint32_t bits = uint32_t{value.bits} << 16;
  float wide;
  std::memcpy(&wide, &bits, sizeof(wide));
  return wide;
}
inline float Widen(Float16 value) { return c10::Half(value.bits, c10::Half::from_bits()); }

inline void Narrow(float value, float* to) { *to = value; }
inline void Narrow(double value, double* to) { *to = value; }
inline void Narrow(float value, BFloat16* to) { to->bits = c10::BFloat16(value).x; }
inline void Narrow(float value, Float16* to) { to->bits = c10::Half(value).x; }

template <typename T>
using SumOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename Sum>
struct VectorOf {
  typedef Sum Type __attribute__((vector_size(kVectorBytes), aligned(4)));
  static constexpr int kWidth = kVectorBytes / sizeof(Sum);
};

/// As many elements as a vector of sums has.
template <typename T>
inline typename VectorOf<SumOf<T>>::Type LoadWide(const T* from) {
  typename VectorOf<SumOf<T>>::Type vector;
  if constexpr (std::is_same_v<T, BFloat16>) {
    constexpr int kWidth = VectorOf<float>::kWidth;
    typedef uint16_t Halves __attribute__((vector_size(2 * kWidth), aligned(2)));
    typedef uint32_t Bits __attribute__((vector_size(4 * kWidth)));
    Halves halves;
    std::memcpy(&halves, from, sizeof(halves));
    const Bits bits = __builtin_convertvector(halves, Bits) << 16;
    std::memcpy(&vector, &bits, sizeof(bits));
  } else {
    std::memcpy(&vector, from, sizeof(vector));
  }
  return vector;
}

template <typename T>
struct Matrix {
  T* data;
  int64_t row_stride, column_stride;

  T* At(int64_t row, int64_t column) const {
    return data + row * row_stride + column * column_stride;
  }
};

/// out = alpha * (a times b) + beta * opt_added, for each of a batch.
template <typename T>
struct Product {
  using Sum = SumOf<T>;
  using Vector = typename VectorOf<Sum>::Type;
  static constexpr int kWidth = VectorOf<Sum>::kWidth, kTileColumns = 2 * kWidth;

  int64_t rows, columns, depth;
  Matrix<const T> a, b;
  Matrix<T> out;
  Matrix<const T> opt_added;  // not read if beta is 0
  Sum alpha, beta;

  void Store(int64_t row, int64_t column, Sum sum) const {
    Sum value = alpha * sum;
    if (beta != 0) value += beta * Widen(*opt_added.At(row, column));
    Narrow(value, out.At(row, column));
  }

  /// Few rows times columns that lie in memory: sums of products.
  template <int kRows>
  void Dots(int64_t row, int64_t begin, int64_t end, const Sum* wide_a) const {
    constexpr int kColumns = 4;
    for (int64_t column = begin; column < end; column += kColumns) {
      const int count = static_cast<int>(std::min<int64_t>(kColumns, end - column));
      Vector sums[kRows][kColumns] = {};
      int64_t k = 0;
      for (; k + kWidth <= depth; k += kWidth) {
        for (int c = 0; c < kColumns; ++c) {
          const Vector from_b = LoadWide(b.At(k, column + std::min(c, count - 1)));
          for (int r = 0; r < kRows; ++r) {
            sums[r][c] += LoadWide(wide_a + (row + r) * depth + k) * from_b;
          }
        }
      }
      for (int r = 0; r < kRows; ++r) {
        for (int c = 0; c < count; ++c) {
          Sum sum = 0;
          for (int i = 0; i < kWidth; ++i) sum += sums[r][c][i];
          for (int64_t rest = k; rest < depth; ++rest) {
            sum += wide_a[(row + r) * depth + rest] * Widen(*b.At(rest, column + c));
          }
          Store(row + r, column + c, sum);
        }
      }
    }
  }

  /// A tile of sums; `panel` has kTileColumns elements in each of its rows, `stride` apart.
  template <int kRows>
  void Tile(int64_t row, int64_t column, const Sum* wide_a, const Sum* panel,
            int64_t stride) const {
    Vector sums[kRows][2] = {};
    const Sum* from_a = wide_a + row * depth;
    for (int64_t k = 0; k < depth; ++k) {
      const Vector left = LoadWide(panel + k * stride);
      const Vector right = LoadWide(panel + k * stride + kWidth);
      for (int r = 0; r < kRows; ++r) {
        const Sum factor = from_a[r * depth + k];
        sums[r][0] += factor * left;
        sums[r][1] += factor * right;
      }
    }
    const int count = static_cast<int>(std::min<int64_t>(kTileColumns, columns - column));
    for (int r = 0; r < kRows; ++r) {
      const bool is_plain = std::is_same_v<T, Sum> && count == kTileColumns && beta == 0 &&
                            alpha == 1 && out.column_stride == 1;
      if (is_plain) {
        std::memcpy(static_cast<void*>(out.At(row + r, column)), sums[r], sizeof(sums[r]));
        continue;
      }
      for (int c = 0; c < count; ++c) Store(row + r, column + c, sums[r][c / kWidth][c % kWidth]);
    }
  }

  template <int... kRows>
  void AnyTile(std::integer_sequence<int, kRows...>, int count, int64_t row, int64_t column,
               const Sum* wide_a, const Sum* panel, int64_t stride) const {
    using Function = void (Product::*)(int64_t, int64_t, const Sum*, const Sum*, int64_t) const;
    static constexpr Function kTiles[] = {&Product::Tile<kRows + 1>...};
    (this->*kTiles[count - 1])(row, column, wide_a, panel, stride);
  }

  /// Rows [begin, end) of kTileColumns columns.
  void Panel(int64_t column, int64_t begin, int64_t end, const Sum* wide_a, Sum* packed) const {
    const int64_t count = std::min<int64_t>(kTileColumns, columns - column);
    const Sum* panel = packed;
    int64_t stride = kTileColumns;
    bool is_packed = true;
    if constexpr (std::is_same_v<T, Sum>) {
      is_packed = count != kTileColumns || b.column_stride != 1 || end - begin > kTileRows;
      if (!is_packed) {
        panel = b.At(0, column);
        stride = b.row_stride;
      }
    }
    if (is_packed) Pack(column, count, packed);
    for (int64_t row = begin; row < end; row += kTileRows) {
      const int tile_rows = static_cast<int>(std::min<int64_t>(kTileRows, end - row));
      AnyTile(std::make_integer_sequence<int, kTileRows>(), tile_rows, row, column, wide_a, panel,
              stride);
    }
  }

  void Pack(int64_t column, int64_t count, Sum* packed) const {
    if (b.column_stride == 1) {
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t c = 0; c < count; ++c) {
          packed[k * kTileColumns + c] = Widen(*b.At(k, column + c));
        }
      }
    } else {  // column after column, so that memory is read in order
      for (int64_t c = 0; c < count; ++c) {
        for (int64_t k = 0; k < depth; ++k) {
          packed[k * kTileColumns + c] = Widen(*b.At(k, column + c));
        }
      }
    }
    for (int64_t k = 0; count < kTileColumns && k < depth; ++k) {
      std::fill(packed + k * kTileColumns + count, packed + (k + 1) * kTileColumns, Sum{0});
    }
  }

  /// `a` with rows of `depth` sums one behind the other; in `storage`, if it is not so already.
  const Sum* WideA(std::vector<Sum>* storage) const {
    if constexpr (std::is_same_v<T, Sum>) {
      if (a.column_stride == 1 && (a.row_stride == depth || rows == 1)) return a.data;
    }
    storage->resize(static_cast<size_t>(rows * depth));
    Sum* to = storage->data();
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t k = 0; k < depth; ++k) *to++ = Widen(*a.At(row, k));
    }
    return storage->data();
  }
};

/// Runs a batch of products, which differ in where their matrices begin.
template <typename T>
void RunBatch(const std::vector<Product<T>>& batch) {
  using Sum = SumOf<T>;
  const Product<T>& first = batch.front();
  if (first.rows == 0 || first.columns == 0) return;
  std::vector<std::vector<Sum>> storage(batch.size());
  std::vector<const Sum*> wide_a;
  for (size_t i = 0; i < batch.size(); ++i) wide_a.push_back(batch[i].WideA(&storage[i]));
  const auto count = static_cast<int64_t>(batch.size());
  const bool is_few =
      first.rows < kFewRows && first.b.row_stride == 1 && !std::is_same_v<T, Float16>;
  const int64_t width = is_few ? kDotColumns : Product<T>::kTileColumns;
  const int64_t panels = (first.columns + width - 1) / width;
  const int64_t blocks = (first.rows + kTileRows - 1) / kTileRows;
  const bool is_parallel = count * first.rows * first.columns * first.depth > kParallelWork;
  const int64_t threads = is_parallel ? omp_get_max_threads() : 1;
  // Where there are fewer panels than threads, these share the rows.
  const int64_t shares =
      is_few ? 1 : std::clamp<int64_t>(threads / std::max<int64_t>(count * panels, 1), 1, blocks);
#pragma omp parallel if (is_parallel)
  {
    std::vector<Sum> packed(is_few ? 0 : static_cast<size_t>(first.depth * width));
#pragma omp for schedule(dynamic)
    for (int64_t task = 0; task < count * panels * shares; ++task) {
      const int64_t share = task % shares, panel = task / shares % panels;
      const auto i = static_cast<size_t>(task / shares / panels);
      const Product<T>& product = batch[i];
      const int64_t column = panel * width;
      if (is_few) {
        if constexpr (!std::is_same_v<T, Float16>) {
          const int64_t end = std::min(column + width, product.columns);
          int64_t row = 0;
          for (; row + 4 <= product.rows; row += 4) {
            product.template Dots<4>(row, column, end, wide_a[i]);
          }
          for (; row < product.rows; ++row) {
            product.template Dots<1>(row, column, end, wide_a[i]);
          }
        }
        continue;
      }
      const int64_t begin = blocks * share / shares * kTileRows;
      const int64_t end = std::min(blocks * (share + 1) / shares * kTileRows, product.rows);
      product.Panel(column, begin, end, wide_a[i], packed.data());
    }
  }
}

template <typename T>
Matrix<T> MatrixOf(const DLTensor& tensor, int64_t batch) {
  const int64_t ndim = tensor.ndim;
  auto* data = reinterpret_cast<T*>(DataOf(tensor));
  // Added tensors are broadcast.
  if (ndim == 3 && tensor.shape[0] != 1) data += batch * tensor.strides[0];
  const auto stride = [&](int64_t dim) {
    return dim < 0 || tensor.shape[dim] == 1 ? 0 : tensor.strides[dim];
  };
  return {data, stride(ndim - 2), stride(ndim - 1)};
}

/// The stride of a dimension of size 1 is never used, and 1 lets it pass for compact.
template <typename T>
Matrix<T> FactorOf(const DLTensor& tensor, int64_t batch) {
  Matrix<T> matrix = MatrixOf<T>(tensor, batch);
  const int64_t ndim = tensor.ndim;
  if (tensor.shape[ndim - 1] == 1) matrix.column_stride = 1;
  if (tensor.shape[ndim - 2] == 1)
    matrix.row_stride = tensor.shape[ndim - 1] == 1 ? 1 : tensor.shape[ndim - 1];
  return matrix;
}

struct Operands {
  const DLTensor &out, &a, &b;
  const DLTensor* opt_added;
  double alpha, beta;
};

template <typename T>
void Run(const Operands& given) {
  using Sum = SumOf<T>;
  const int64_t ndim = given.out.ndim, count = ndim == 3 ? given.out.shape[0] : 1;
  std::vector<Product<T>> batch;
  for (int64_t i = 0; i < count; ++i) {
    const bool is_added = given.opt_added != nullptr && given.beta != 0;
    batch.push_back(
        {given.out.shape[ndim - 2], given.out.shape[ndim - 1], given.a.shape[ndim - 1],
         FactorOf<const T>(given.a, i), FactorOf<const T>(given.b, i), FactorOf<T>(given.out, i),
         is_added ? MatrixOf<const T>(*given.opt_added, i) : Matrix<const T>{},
         static_cast<Sum>(given.alpha), is_added ? static_cast<Sum>(given.beta) : Sum{0}});
  }
  if (!batch.empty()) RunBatch(batch);
}

int32_t Multiply(const Operands& given) {
  return Guard([&] {
    const DLDataType dtype = given.out.dtype;
    if (dtype.code == kDLFloat && dtype.bits == 32) return Run<float>(given);
    if (dtype.code == kDLFloat && dtype.bits == 64) return Run<double>(given);
    if (dtype.code == kDLBfloat && dtype.bits == 16) return Run<BFloat16>(given);
    if (dtype.code == kDLFloat && dtype.bits == 16) return Run<Float16>(given);
    Fail("NotImplementedError",
         "graphffi: products of matrices: expected float32, float64, "
         "bfloat16 or float16, got another data type; cast the operands");
  });
}

}  // namespace

AOTITorchError aoti_torch_cpu_mm_out(AtenTensorHandle out, AtenTensorHandle self,
                                     AtenTensorHandle mat2) {
  return Multiply({ViewOf(out), ViewOf(self), ViewOf(mat2), nullptr, 1, 0});
}

AOTITorchError aoti_torch_cpu_bmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                      AtenTensorHandle mat2) {
  return Multiply({ViewOf(out), ViewOf(self), ViewOf(mat2), nullptr, 1, 0});
}

AOTITorchError aoti_torch_cpu_addmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                        AtenTensorHandle mat1, AtenTensorHandle mat2, double beta,
                                        double alpha) {
  return Multiply({ViewOf(out), ViewOf(mat1), ViewOf(mat2), &ViewOf(self), alpha, beta});
}

AOTITorchError aoti_torch_cpu_baddbmm_out(AtenTensorHandle out, AtenTensorHandle self,
                                          AtenTensorHandle batch1, AtenTensorHandle batch2,
                                          double beta, double alpha) {
  return Multiply({ViewOf(out), ViewOf(batch1), ViewOf(batch2), &ViewOf(self), alpha, beta});
}
