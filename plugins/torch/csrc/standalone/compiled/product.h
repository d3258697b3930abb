// SPDX-License-Identifier: Apache-2.0
// Products of matrices with any strides; sums are float32, of float64 tensors float64. Compiled
// with the generated code, for the same instructions.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
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
constexpr int64_t kMostPanels = 4;          // of one task
constexpr int64_t kRowColumns = 1024;       // of one task of one row

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
  static constexpr bool kHasVectors = !std::is_same_v<T, Float16>;

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

  /// Adds products of `kDeep` elements of `a` and as many rows of `b`, from column `begin` on.
  template <int kDeep>
  void AddRows(const Sum* from_a, int64_t k, int64_t begin, int64_t count, Sum* sums) const {
    using InMemory = typename VectorOf<Sum>::InMemory;
    int64_t c = 0;
    for (; c + kWidth <= count; c += kWidth) {
      Vector sum = LoadWide(sums + c);
      for (int i = 0; i < kDeep; ++i) sum += from_a[i] * LoadWide(b.At(k + i, begin + c));
      *reinterpret_cast<InMemory*>(sums + c) = sum;
    }
    for (; c < count; ++c) {
      for (int i = 0; i < kDeep; ++i) sums[c] += from_a[i] * Widen(*b.At(k + i, begin + c));
    }
  }

  /// A single row, times columns whose rows lie in memory: they are read in that order.
  void OneRow(int64_t begin, int64_t end, const Sum* wide_a, Sum* sums) const {
    constexpr int kDeep = 4;
    const int64_t count = end - begin;
    std::fill_n(sums, count, Sum{0});
    int64_t k = 0;
    for (; k + kDeep <= depth; k += kDeep) AddRows<kDeep>(wide_a + k, k, begin, count, sums);
    for (; k < depth; ++k) AddRows<1>(wide_a + k, k, begin, count, sums);
    for (int64_t c = 0; c < count; ++c) Store(0, begin + c, sums[c]);
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

  /// Columns are adjacent in memory; those of the addend too, if it is not one number.
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

  /// Rows [begin, end) of columns up to `end_column`; `packed` has room for as many columns of `b`.
  void Panels(int64_t column, int64_t end_column, int64_t begin, int64_t end, const Sum* wide_a,
              Sum* packed) const {
    if constexpr (kHasVectors) {
      const int64_t whole = (end_column - column) / kTileColumns * kTileColumns;
      if (b.column_stride == 1 && end - begin > kTileRows) {
        PackWide(column, whole, packed);
        for (int64_t c = 0; c < whole; c += kTileColumns) {
          Tiles(column + c, begin, end, wide_a, packed + c * depth, kTileColumns);
        }
        column += whole;
      }
    }
    for (; column < end_column; column += kTileColumns) {
      Panel(column, begin, end, wide_a, packed);
    }
  }

  /// Rows [begin, end) of kTileColumns columns.
  void Panel(int64_t column, int64_t begin, int64_t end, const Sum* wide_a, Sum* packed) const {
    const int64_t count = std::min<int64_t>(kTileColumns, columns - column);
    if constexpr (std::is_same_v<T, Sum>) {
      if (count == kTileColumns && b.column_stride == 1 && end - begin <= kTileRows) {
        return Tiles(column, begin, end, wide_a, b.At(0, column), b.row_stride);
      }
    }
    Pack(column, count, packed);
    Tiles(column, begin, end, wide_a, packed, kTileColumns);
  }

  void Tiles(int64_t column, int64_t begin, int64_t end, const Sum* wide_a, const Sum* panel,
             int64_t stride) const {
    for (int64_t row = begin; row < end; row += kTileRows) {
      const int tile_rows = static_cast<int>(std::min<int64_t>(kTileRows, end - row));
      AnyTile(std::make_integer_sequence<int, kTileRows>(), tile_rows, row, column, wide_a, panel,
              stride);
    }
  }

  /// Whole panels of columns, whose rows lie in memory; row after row, which are pages apart.
  void PackWide(int64_t column, int64_t count, Sum* packed) const {
    using InMemory = typename VectorOf<Sum>::InMemory;
    for (int64_t k = 0; k < depth; ++k) {
      Sum* row = packed + k * kTileColumns;
      for (int64_t c = 0; c < count; c += kTileColumns) {
        const T* from = b.At(k, column + c);
        auto* to = reinterpret_cast<InMemory*>(row + c * depth);
        to[0] = LoadWide(from);
        to[1] = LoadWide(from + kWidth);
      }
    }
  }

  void Pack(int64_t column, int64_t count, Sum* packed) const {
    if constexpr (kHasVectors) {
      if (b.column_stride == 1 && count == kTileColumns) return PackWide(column, count, packed);
    }
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

/// How a batch of products is done: a task for each panel of columns, or for a share of its rows.
template <typename T>
struct Tasks {
  enum class Kind { kTiles, kDots, kOneRow };

  explicit Tasks(const std::vector<Product<T>>& batch);
  int64_t size() const { return count * panels * shares; }
  int64_t WidthFor(int64_t columns) const;
  void Run(int64_t task, const std::vector<Product<T>>& batch,
           const std::vector<const SumOf<T>*>& wide_a, SumOf<T>* room) const;

  Kind kind;
  bool is_parallel;
  int64_t width, count, panels, blocks, shares;
  size_t room;  // of a thread, in sums
};

template <typename T>
Tasks<T>::Tasks(const std::vector<Product<T>>& batch) {
  const Product<T>& first = batch.front();
  const bool is_dots = first.rows < kFewRows && first.b.row_stride == 1;
  const bool is_one_row = first.rows == 1 && first.b.column_stride == 1;
  kind = !Product<T>::kHasVectors ? Kind::kTiles
         : is_dots                ? Kind::kDots
         : is_one_row             ? Kind::kOneRow
                                  : Kind::kTiles;
  count = static_cast<int64_t>(batch.size());
  is_parallel = count * first.rows * first.columns * first.depth > kParallelWork;
  const int64_t threads = is_parallel ? omp_get_max_threads() : 1;
  width = WidthFor((count * first.columns + threads - 1) / threads);
  panels = (first.columns + width - 1) / width;
  blocks = (first.rows + kTileRows - 1) / kTileRows;
  shares = 1;
  room = static_cast<size_t>(kind == Kind::kTiles ? first.depth * width : width);
  if (kind != Kind::kTiles) return;
  // Where there are fewer panels than threads, these share the rows.
  shares = std::clamp<int64_t>(threads / std::max<int64_t>(count * panels, 1), 1, blocks);
}

/// Columns of a task, if each thread gets equally many.
template <typename T>
int64_t Tasks<T>::WidthFor(int64_t columns) const {
  constexpr int64_t kPanel = Product<T>::kTileColumns;
  const int64_t most = kind == Kind::kDots     ? kDotColumns
                       : kind == Kind::kOneRow ? kRowColumns
                                               : kMostPanels * kPanel;
  return std::clamp<int64_t>(columns / kPanel * kPanel, kPanel, most);
}

template <typename T>
void Tasks<T>::Run(int64_t task, const std::vector<Product<T>>& batch,
                   const std::vector<const SumOf<T>*>& wide_a, SumOf<T>* room) const {
  const int64_t share = task % shares, panel = task / shares % panels;
  const auto i = static_cast<size_t>(task / shares / panels);
  const Product<T>& product = batch[i];
  const int64_t column = panel * width, end = std::min(column + width, product.columns);
  if (kind == Kind::kTiles) {
    const int64_t first_row = blocks * share / shares * kTileRows;
    const int64_t end_row = std::min(blocks * (share + 1) / shares * kTileRows, product.rows);
    return product.Panels(column, end, first_row, end_row, wide_a[i], room);
  }
  if constexpr (Product<T>::kHasVectors) {
    if (kind == Kind::kOneRow) return product.OneRow(column, end, wide_a[i], room);
    int64_t row = 0;
    for (; row + 4 <= product.rows; row += 4) {
      product.template Dots<4>(row, column, end, wide_a[i]);
    }
    for (; row < product.rows; ++row) product.template Dots<1>(row, column, end, wide_a[i]);
  }
}

/// Runs a batch of products, which differ in where their matrices begin.
template <typename T>
void RunBatch(const std::vector<Product<T>>& batch) {
  using Sum = SumOf<T>;
  const Product<T>& first = batch.front();
  if (first.rows == 0 || first.columns == 0) return;
  std::vector<std::vector<Sum>> storage(batch.size());
  std::vector<const Sum*> wide_a;
  for (size_t i = 0; i < batch.size(); ++i) wide_a.push_back(batch[i].WideA(&storage[i]));
  const Tasks<T> tasks(batch);
#pragma omp parallel if (tasks.is_parallel)
  {
    const std::unique_ptr<Sum[]> room(new Sum[tasks.room]);
#pragma omp for schedule(dynamic)
    for (int64_t task = 0; task < tasks.size(); ++task) {
      tasks.Run(task, batch, wide_a, room.get());
    }
  }
}

}  // namespace
