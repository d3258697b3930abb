// SPDX-License-Identifier: Apache-2.0
// aten.sort and aten.topk. NaN is greater than any number, and elements that are equal keep their
// order.
#include <algorithm>
#include <cmath>
#include <vector>

#include "compiled/operators/operator.h"

namespace {

template <typename Sum>
struct Element {
  Sum value;
  int64_t place;
};

/// Whether a comes before b.
template <typename Sum, bool is_descending>
struct Before {
  bool operator()(const Element<Sum>& a, const Element<Sum>& b) const {
    const Sum &low = is_descending ? b.value : a.value, &high = is_descending ? a.value : b.value;
    if (low < high || (std::isnan(double(high)) && !std::isnan(double(low)))) return true;
    if (high < low || (std::isnan(double(low)) && !std::isnan(double(high)))) return false;
    return a.place < b.place;
  }
};

template <typename Sum, bool is_descending>
void SortRow(std::vector<Element<Sum>>* row, int64_t count) {
  const auto end = row->begin() + count;
  if (count < static_cast<int64_t>(row->size())) {
    std::partial_sort(row->begin(), end, row->end(), Before<Sum, is_descending>());
  } else {
    std::sort(row->begin(), end, Before<Sum, is_descending>());
  }
}

/// The first `count` elements of each row, and their places.
ffi::Array<ffi::Tensor> First(const char* op, ffi::TensorView self, int64_t count, int64_t dim,
                              bool is_descending) {
  const Rows rows(self, dim);
  if (count < 0 || count > rows.size) {
    TVM_FFI_THROW(ValueError) << op << ": k: expected 0 to " << rows.size << ", got " << count;
  }
  std::vector<int64_t> shape(self.shape().begin(), self.shape().end());
  if (!shape.empty()) shape[static_cast<size_t>(dim < 0 ? dim + self.ndim() : dim)] = count;
  ffi::Tensor values = NewTensor(shape, self.dtype()), places = NewTensor(shape, kInt64);
  WithType(op, self.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto* from = static_cast<const T*>(self.data_ptr());
    auto* to = static_cast<T*>(values.data_ptr());
    auto* to_places = static_cast<int64_t*>(places.data_ptr());
#pragma omp parallel for if (rows.count() * rows.size > (1 << 15))
    for (int64_t i = 0; i < rows.count(); ++i) {
      std::vector<Element<SumOf<T>>> row(static_cast<size_t>(rows.size));
      const int64_t begin = rows.Begin(i);
      for (int64_t k = 0; k < rows.size; ++k) {
        row[static_cast<size_t>(k)] = {Widen(from[begin + k * rows.inner]), k};
      }
      is_descending ? SortRow<SumOf<T>, true>(&row, count) : SortRow<SumOf<T>, false>(&row, count);
      const int64_t first = i / rows.inner * count * rows.inner + i % rows.inner;
      for (int64_t k = 0; k < count; ++k) {
        const int64_t place = row[static_cast<size_t>(k)].place;
        to[first + k * rows.inner] = from[begin + place * rows.inner];
        to_places[first + k * rows.inner] = place;
      }
    }
  });
  return {values, places};
}

ffi::Array<ffi::Tensor> Sort(ffi::TensorView self, int64_t dim, bool is_descending) {
  return First("aten.sort", self, Rows(self, dim).size, dim, is_descending);
}

ffi::Array<ffi::Tensor> StableSort(ffi::TensorView self, ffi::Optional<int64_t>, int64_t dim,
                                   bool is_descending) {
  return Sort(self, dim, is_descending);
}

ffi::Array<ffi::Tensor> TopK(ffi::TensorView self, int64_t k, int64_t dim, bool is_largest, bool) {
  return First("aten.topk", self, k, dim, is_largest);
}

}  // namespace

GRAPHFFI_OPERATOR(sort, Sort)
GRAPHFFI_OPERATOR(sort_stable, StableSort)
GRAPHFFI_OPERATOR(topk, TopK)
