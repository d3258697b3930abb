// SPDX-License-Identifier: Apache-2.0
// aten.scatter_reduce, of which scatter_add is a case.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "compiled/operators/operator.h"

namespace {

enum class Reduce { kSum, kProduct, kMean, kLargest, kSmallest };

Reduce ReduceOf(const std::string& name) {
  static const char* const kNames[] = {"sum", "prod", "mean", "amax", "amin"};
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) {
    TVM_FFI_THROW(ValueError)
        << "aten.scatter_reduce: reduce: expected sum, prod, mean, amax or amin, got " << name;
  }
  return static_cast<Reduce>(found - kNames);
}

template <typename Sum>
Sum Combine(Reduce reduce, Sum a, Sum b) {
  switch (reduce) {
    case Reduce::kProduct:
      return a * b;
    case Reduce::kLargest:
      return a > b || std::isnan(double(a)) ? a : b;
    case Reduce::kSmallest:
      return a < b || std::isnan(double(a)) ? a : b;
    default:
      return a + b;
  }
}

inline double MeanOf(double sum, int64_t count) { return sum / static_cast<double>(count); }
/// Rounded down.
inline int64_t MeanOf(int64_t sum, int64_t count) {
  return sum / count - (sum % count < 0 ? 1 : 0);
}

/// A tensor without dimensions counts as one with one element.
std::vector<int64_t> SizesOf(ffi::TensorView tensor) {
  if (tensor.ndim() == 0) return {1};
  return {tensor.shape().begin(), tensor.shape().end()};
}

/// Calls `visit(at, from)` for each element of `index`: its place in the result, and in `source`.
template <typename Visit>
void ForEach(ffi::TensorView self, int64_t dim, ffi::TensorView index, ffi::TensorView source,
             Visit&& visit) {
  const std::vector<int64_t> sizes = SizesOf(self), counts = SizesOf(index),
                             source_sizes = SizesOf(source);
  const size_t ndim = counts.size();
  const size_t scattered = static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(ndim) : dim);
  const bool is_wide = index.dtype().bits == 64;  // or int32
  for (int64_t i = 0; i < index.numel(); ++i) {
    const int64_t given = is_wide ? static_cast<const int64_t*>(index.data_ptr())[i]
                                  : static_cast<const int32_t*>(index.data_ptr())[i];
    int64_t at = 0, from = 0, rest = i, self_stride = 1, source_stride = 1;
    for (size_t d = ndim; d-- > 0;) {
      const int64_t k = rest % counts[d], size = sizes[d];
      rest /= counts[d];
      const int64_t place = d == scattered ? given : k;
      if (place < 0 || place >= size) {
        TVM_FFI_THROW(IndexError) << "aten.scatter_reduce: index: expected 0 to " << size - 1
                                  << ", got " << place;
      }
      at += place * self_stride;
      from += k * source_stride;
      self_stride *= size;
      source_stride *= source_sizes[d];
    }
    visit(at, from);
  }
}

ffi::Tensor ScatterReduce(ffi::TensorView self, int64_t dim, ffi::TensorView index,
                          ffi::TensorView source, ffi::String name, bool includes_self) {
  const Reduce reduce = ReduceOf(name);
  ffi::Tensor result = Copy(self);
  WithType("aten.scatter_reduce", self.dtype(), [&](auto type) {
    using T = decltype(type);
    auto* to = static_cast<T*>(result.data_ptr());
    const auto* values = static_cast<const T*>(source.data_ptr());
    std::vector<int64_t> counts(static_cast<size_t>(self.numel()), includes_self ? 1 : 0);
    ForEach(self, dim, index, source, [&](int64_t at, int64_t from) {
      int64_t& count = counts[static_cast<size_t>(at)];
      const SumOf<T> value = Widen(values[from]);
      Narrow(count == 0 ? value : Combine<SumOf<T>>(reduce, Widen(to[at]), value), to + at);
      ++count;
    });
    for (size_t i = 0; reduce == Reduce::kMean && i < counts.size(); ++i) {
      if (counts[i] < 2) continue;
      Narrow(MeanOf(Widen(to[i]), counts[i]), to + i);
    }
  });
  return result;
}

}  // namespace

GRAPHFFI_OPERATOR(scatter_reduce_two_out, ScatterReduce)
