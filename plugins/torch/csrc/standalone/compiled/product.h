// SPDX-License-Identifier: Apache-2.0
// Products of matrices with any strides; sums are float32, of float64 tensors float64. Compiled
// with the generated code, for the same instructions.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "compiled/element.h"

namespace {

#ifdef __AVX512F__
constexpr int kVectorBytes = 64, kTileRows = 12;
#else
constexpr int kVectorBytes = 32, kTileRows = 6;
#endif
constexpr int64_t kFewRows = 8;             // below, packing costs more than it gives
constexpr int64_t kParallelWork = 1 << 17;  // multiplications that pay for starting threads
constexpr int64_t kDotColumns = 64;         // of one task of few rows

template <typename Sum>
struct VectorOf {
  typedef Sum Type __attribute__((vector_size(kVectorBytes)));
  typedef Sum InMemory __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
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
    // Not by memcpy, which GCC does by halves, over the stack.
    vector = *reinterpret_cast<const typename VectorOf<T>::InMemory*>(from);
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

/// A tile of sums: `kRows` rows of two vectors. Members instead of an array, which GCC keeps in
/// memory: a tenth of the speed.
template <typename Sum, int kRows>
struct TileSums {
  typename VectorOf<Sum>::Type left{}, right{};
  TileSums<Sum, kRows - 1> rest;

  template <typename Body>
  [[gnu::always_inline]] void ForEach(Body&& body, int row = 0) {
    body(row, left, right);
    rest.ForEach(body, row + 1);
  }
};
template <typename Sum>
struct TileSums<Sum, 0> {
  template <typename Body>
  void ForEach(Body&&, int) {}
};

/// Adds to each sum `depth` products of elements of `a`, whose rows are one behind the other, and
/// of what `row_of(k)` points to: a row of two vectors.
template <int kRows, typename Sum, typename RowOf>
[[gnu::always_inline]] inline void AddProducts(const Sum* a, int64_t depth, RowOf&& row_of,
                                               TileSums<Sum, kRows>* sums) {
  using Vector = typename VectorOf<Sum>::Type;
  TileSums<Sum, kRows> totals = *sums;
  for (int64_t k = 0; k < depth; ++k) {
    const Sum* from = row_of(k);
    const Vector left = LoadWide(from), right = LoadWide(from + VectorOf<Sum>::kWidth);
    totals.ForEach([&](int row, Vector& to_left, Vector& to_right) __attribute__((always_inline)) {
      const Sum factor = a[row * depth + k];
      to_left += factor * left;
      to_right += factor * right;
    });
  }
  *sums = totals;
}

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
    TileSums<Sum, kRows> sums;
    AddProducts<kRows>(
        wide_a + row * depth, depth, [=](int64_t k) { return panel + k * stride; }, &sums);
    const int count = static_cast<int>(std::min<int64_t>(kTileColumns, columns - column));
    const bool is_in_order = std::is_same_v<T, Sum> && count == kTileColumns &&
                             out.column_stride == 1 && (beta == 0 || opt_added.column_stride <= 1);
    sums.ForEach([&](int r, const Vector& left, const Vector& right) {
      if (is_in_order) {
        StoreInOrder(row + r, column, left);
        StoreInOrder(row + r, column + kWidth, right);
        return;
      }
      for (int c = 0; c < count; ++c) {
        Store(row + r, column + c, c < kWidth ? left[c] : right[c - kWidth]);
      }
    });
  }

  /// To where they lie in memory; what is added is one number or lies so, too.
  void StoreInOrder(int64_t row, int64_t column, const Vector& sums) const {
    Vector value = alpha * sums;
    if (beta != 0) {
      const auto* added = reinterpret_cast<const Sum*>(opt_added.At(row, column));
      value += opt_added.column_stride == 0 ? beta * *added + Vector{} : beta * LoadWide(added);
    }
    *reinterpret_cast<typename VectorOf<Sum>::InMemory*>(out.At(row, column)) = value;
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

}  // namespace
