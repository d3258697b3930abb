// SPDX-License-Identifier: Apache-2.0
// aten.nonzero, aten.index and aten.index_put: indices are tensors of integers or bools, or None
// for all of a dimension.
#include <string>
#include <utility>
#include <vector>

#include "compiled/operators/operator.h"

namespace {

using Indices = ffi::Array<ffi::Optional<ffi::Tensor>>;
using Sizes = std::vector<int64_t>;

/// Calls `visit` with the place of each element that is not zero, in order.
template <typename Visit>
void ForEachNonzero(ffi::TensorView self, Visit&& visit) {
  WithType("aten.nonzero", self.dtype(), [&](auto type) {
    const auto* values = static_cast<const decltype(type)*>(self.data_ptr());
    for (int64_t i = 0; i < self.numel(); ++i) {
      if (Widen(values[i]) != 0) visit(i);
    }
  });
}

ffi::Tensor Nonzero(ffi::TensorView self) {
  Sizes places;
  ForEachNonzero(self, [&](int64_t i) { places.push_back(i); });
  const auto count = static_cast<int64_t>(places.size());
  const int64_t ndim = self.ndim();
  ffi::Tensor result = NewTensor({count, ndim}, kInt64);
  auto* to = static_cast<int64_t*>(result.data_ptr());
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = places[static_cast<size_t>(i)];
    for (int64_t d = ndim - 1; d >= 0; --d) {
      to[i * ndim + d] = rest % self.size(d);
      rest /= self.size(d);
    }
  }
  return result;
}

/// The places along one dimension, as an array that broadcasts with the others.
struct Index {
  int64_t dim;
  Sizes shape, places;
};

/// One for each dimension that a tensor indexes: a tensor of bools indexes as many as it has.
std::vector<Index> ReadIndices(ffi::TensorView self, const Indices& indices) {
  std::vector<Index> found;
  int64_t dim = 0;
  for (const ffi::Optional<ffi::Tensor>& opt_tensor : indices) {
    if (!opt_tensor.has_value()) {
      ++dim;
      continue;
    }
    const ffi::Tensor tensor = *opt_tensor;
    const DLDataType dtype = tensor.dtype();
    if (dtype.code == kDLBool || (dtype.code == kDLUInt && dtype.bits == 8)) {
      const ffi::Tensor places = Nonzero(tensor);
      const auto* from = static_cast<const int64_t*>(places.data_ptr());
      for (int64_t d = 0; d < tensor.ndim(); ++d) {
        if (tensor.size(d) != self.size(dim)) {
          TVM_FFI_THROW(IndexError) << "aten.index: expected a mask of size " << self.size(dim)
                                    << " for dimension " << dim << ", got " << tensor.size(d);
        }
        Index index{dim++, {places.size(0)}, {}};
        for (int64_t i = 0; i < places.size(0); ++i) {
          index.places.push_back(from[i * tensor.ndim() + d]);
        }
        found.push_back(std::move(index));
      }
      continue;
    }
    Index index{dim, {tensor.shape().begin(), tensor.shape().end()}, {}};
    const int64_t size = self.size(dim++);
    WithType("aten.index", dtype, [&](auto type) {
      const auto* from = static_cast<const decltype(type)*>(tensor.data_ptr());
      for (int64_t i = 0; i < tensor.numel(); ++i) {
        const auto place = static_cast<int64_t>(Widen(from[i]));
        if (place < -size || place >= size) {
          TVM_FFI_THROW(IndexError)
              << "aten.index: expected " << -size << " to " << size - 1 << ", got " << place;
        }
        index.places.push_back(place < 0 ? place + size : place);
      }
    });
    found.push_back(std::move(index));
  }
  return found;
}

/// The position in `shape` of position `at`, counted in `outer`, to which it broadcasts.
int64_t Broadcast(int64_t at, const Sizes& outer, const Sizes& shape) {
  int64_t position = 0, stride = 1;
  size_t behind = shape.size();
  for (size_t d = outer.size(); d-- > 0 && behind > 0;) {
    const int64_t k = at % outer[d];
    at /= outer[d];
    const int64_t size = shape[--behind];
    if (size != 1) position += k * stride;
    stride *= size;
  }
  return position;
}

/// The elements that an indexing expression takes: for each of the result its place in the tensor.
struct Selection {
  Sizes shape, places;

  Selection(ffi::TensorView self, const Indices& given);
};

Sizes BroadcastShape(const std::vector<Index>& indices) {
  Sizes common;
  for (const Index& index : indices) {
    if (index.shape.size() > common.size()) {
      common.insert(common.begin(), index.shape.size() - common.size(), 1);
    }
    for (size_t i = 0; i < index.shape.size(); ++i) {
      int64_t& size = common[common.size() - 1 - i];
      const int64_t other = index.shape[index.shape.size() - 1 - i];
      if (size != other && size != 1 && other != 1) {
        TVM_FFI_THROW(IndexError) << "aten.index: expected indices that broadcast, got sizes "
                                  << size << " and " << other;
      }
      if (size == 1) size = other;
    }
  }
  return common;
}

/// The dimensions of the result: the tensor's that stay, with -1 - i for the indices' common ones
/// in the place of adjacent ones that go, or in front.
Sizes ResultDims(int64_t ndim, const std::vector<Index>& indices, size_t num_common) {
  std::vector<bool> goes(static_cast<size_t>(ndim));
  for (const Index& index : indices) goes[static_cast<size_t>(index.dim)] = true;
  const bool is_adjacent = !indices.empty() && indices.back().dim - indices.front().dim + 1 ==
                                                   static_cast<int64_t>(indices.size());
  const int64_t first = is_adjacent ? indices.front().dim : 0;
  Sizes dims;
  for (int64_t d = 0; d < ndim; ++d) {
    for (size_t i = 0; d == first && i < num_common; ++i) {
      dims.push_back(-1 - static_cast<int64_t>(i));
    }
    if (!goes[static_cast<size_t>(d)]) dims.push_back(d);
  }
  return dims;
}

Selection::Selection(ffi::TensorView self, const Indices& given) {
  const std::vector<Index> indices = ReadIndices(self, given);
  const Sizes common = BroadcastShape(indices);
  const Sizes dims = ResultDims(self.ndim(), indices, common.size());
  const ffi::ShapeView strides = self.strides();
  int64_t count = 1;
  for (int64_t d : dims) {
    shape.push_back(d >= 0 ? self.size(d) : common[static_cast<size_t>(-1 - d)]);
    count *= shape.back();
  }
  places.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, place = 0, common_at = 0, common_stride = 1;
    for (size_t d = dims.size(); d-- > 0;) {
      const int64_t position = rest % shape[d];
      rest /= shape[d];
      if (dims[d] >= 0) {
        place += position * strides[static_cast<size_t>(dims[d])];
      } else {
        common_at += position * common_stride;
        common_stride *= shape[d];
      }
    }
    for (const Index& index : indices) {
      const auto at = static_cast<size_t>(Broadcast(common_at, common, index.shape));
      place += index.places[at] * strides[static_cast<size_t>(index.dim)];
    }
    places.push_back(place);
  }
}

ffi::Tensor TakeAt(ffi::TensorView self, Indices indices) {
  const Selection selection(self, indices);
  ffi::Tensor result = NewTensor(selection.shape, self.dtype());
  const size_t bytes = (self.dtype().bits + 7) / 8;
  auto* to = static_cast<char*>(result.data_ptr());
  for (int64_t place : selection.places) {
    std::memcpy(to, static_cast<const char*>(self.data_ptr()) + static_cast<size_t>(place) * bytes,
                bytes);
    to += bytes;
  }
  return result;
}

std::string Describe(const Sizes& sizes) {
  std::string text;
  for (int64_t size : sizes) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

void CheckBroadcasts(const Sizes& values, const Sizes& outer) {
  bool broadcasts = values.size() <= outer.size();
  for (size_t d = 1; broadcasts && d <= values.size(); ++d) {
    const int64_t size = values[values.size() - d];
    broadcasts = size == 1 || size == outer[outer.size() - d];
  }
  if (!broadcasts) {
    TVM_FFI_THROW(ValueError) << "aten.index_put: values: expected sizes that broadcast to "
                              << Describe(outer) << ", got " << Describe(values);
  }
}

ffi::Tensor PutAt(ffi::TensorView self, Indices indices, ffi::TensorView values, bool accumulates) {
  const Selection selection(self, indices);
  ffi::Tensor result = Copy(self);
  const Sizes shape(values.shape().begin(), values.shape().end());
  CheckBroadcasts(shape, selection.shape);
  WithType("aten.index_put", self.dtype(), [&](auto type) {
    using T = decltype(type);
    auto* to = static_cast<T*>(result.data_ptr());
    const auto* from = static_cast<const T*>(values.data_ptr());
    for (size_t i = 0; i < selection.places.size(); ++i) {
      T* place = to + selection.places[i];
      const T value = from[Broadcast(static_cast<int64_t>(i), selection.shape, shape)];
      accumulates ? Narrow(Widen(*place) + Widen(value), place) : void(*place = value);
    }
  });
  return result;
}

}  // namespace

GRAPHFFI_OPERATOR(nonzero, Nonzero)
GRAPHFFI_OPERATOR(index_Tensor, TakeAt)
GRAPHFFI_OPERATOR(index_put_out, PutAt)
