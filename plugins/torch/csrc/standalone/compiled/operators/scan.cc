// SPDX-License-Identifier: Apache-2.0
// aten.cumsum and aten.cumprod: sums in float64, of integers in int64.
#include <functional>
#include <type_traits>

#include "compiled/operators/operator.h"

namespace {

/// A data type as generated code passes it: the bytes of a DLDataType.
DLDataType TypeOf(ffi::TensorView self, const ffi::Optional<int64_t>& opt_dtype) {
  if (opt_dtype.has_value()) {
    const auto bits = static_cast<uint64_t>(*opt_dtype);
    return {static_cast<uint8_t>(bits), static_cast<uint8_t>(bits >> 8),
            static_cast<uint16_t>(bits >> 16)};
  }
  const DLDataType own = self.dtype();
  return own.code == kDLFloat || own.code == kDLBfloat ? own : kInt64;
}

template <typename T>
using ScanOf = std::conditional_t<std::is_integral_v<SumOf<T>>, int64_t, double>;

template <typename T, typename Total, typename Result, typename Combine>
void ScanAs(const Rows& rows, const T* from, Result* to, Total start, Combine&& combine) {
  for (int64_t i = 0; i < rows.count(); ++i) {
    Total total = start;
    for (int64_t k = 0, at = rows.Begin(i); k < rows.size; ++k, at += rows.inner) {
      total = combine(total, static_cast<Total>(Widen(from[at])));
      Narrow(total, to + at);
    }
  }
}

template <typename Combine>
ffi::Tensor Scan(const char* op, ffi::TensorView self, int64_t dim, DLDataType dtype, int start,
                 Combine combine) {
  const Rows rows(self, dim);
  ffi::Tensor result = NewTensor(self.shape(), dtype);
  WithType(op, self.dtype(), [&](auto from) {
    WithType(op, dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      ScanAs<From, ScanOf<To>>(rows, static_cast<const From*>(self.data_ptr()),
                               static_cast<To*>(result.data_ptr()), static_cast<ScanOf<To>>(start),
                               combine);
    });
  });
  return result;
}

ffi::Tensor CumSum(ffi::TensorView self, int64_t dim, ffi::Optional<int64_t> opt_dtype) {
  return Scan("aten.cumsum", self, dim, TypeOf(self, opt_dtype), 0, std::plus<>());
}

ffi::Tensor CumProd(ffi::TensorView self, int64_t dim, ffi::Optional<int64_t> opt_dtype) {
  return Scan("aten.cumprod", self, dim, TypeOf(self, opt_dtype), 1, std::multiplies<>());
}

}  // namespace

GRAPHFFI_OPERATOR(cumsum, CumSum)
GRAPHFFI_OPERATOR(cumprod, CumProd)
