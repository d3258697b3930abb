// SPDX-License-Identifier: Apache-2.0
// ShapeView and Shape: an array of int64, borrowed or owned.
#pragma once

#include <tvm/ffi/any.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tvm::ffi {
inline namespace graphffi_v1 {

/// Dimensions (or strides) that somebody else keeps alive.
class ShapeView {
 public:
  using index_type = int64_t;

  ShapeView() : cell_{nullptr, 0} {}
  ShapeView(const int64_t* data, size_t size) : cell_{data, size} {}
  /// Lives as long as the full expression, like any initializer list: for arguments.
  ShapeView(const std::initializer_list<int64_t>& other)  // NOLINT(runtime/explicit)
      : cell_{other.begin(), other.size()} {}
  ShapeView(const std::vector<int64_t>& other)  // NOLINT(runtime/explicit)
      : cell_{other.data(), other.size()} {}

  const int64_t* data() const { return cell_.data; }
  size_t size() const { return cell_.size; }
  bool empty() const { return cell_.size == 0; }
  const int64_t* begin() const { return cell_.data; }
  const int64_t* end() const { return cell_.data + cell_.size; }
  /// Not checked.
  int64_t operator[](size_t index) const { return cell_.data[index]; }
  /// \throws Error(IndexError)
  int64_t at(size_t index) const {
    if (index >= size()) {
      TVM_FFI_THROW(IndexError) << "indexing " << index << " on a Shape of size " << size();
    }
    return cell_.data[index];
  }
  /// \throws Error(IndexError) if empty
  int64_t front() const { return at(0); }
  /// \throws Error(IndexError) if empty
  int64_t back() const { return at(size() - 1); }
  /// The number of elements: 1 for no dimensions.
  int64_t Product() const {
    int64_t product = 1;
    for (int64_t dim : *this) product *= dim;
    return product;
  }

  friend bool operator==(const ShapeView& a, const ShapeView& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend bool operator!=(const ShapeView& a, const ShapeView& b) { return !(a == b); }
  friend std::ostream& operator<<(std::ostream& os, const ShapeView& shape) {
    os << '[';
    for (size_t i = 0; i < shape.size(); ++i) os << (i == 0 ? "" : ", ") << shape[i];
    return os << ']';
  }

 private:
  TVMFFIShapeCell cell_;
};

/// The object behind Shape.
class ShapeObj : public Object, public TVMFFIShapeCell {
 public:
  using index_type = int64_t;
  static constexpr int32_t _type_index = kTVMFFIShape;
  TVM_FFI_DECLARE_OBJECT_INFO_STATIC(StaticTypeKey::kTVMFFIShape, ShapeObj, Object);
  static constexpr bool _type_final = true;

  int64_t Product() const { return ShapeView(data, size).Product(); }
};

namespace detail {

/// A new shape object and where its dimensions are written.
inline ObjectPtr<ShapeObj> MakeEmptyShape(size_t size, int64_t** dims) {
  auto shape = make_inplace_array_object<ShapeObj, int64_t>(size);
  *dims = reinterpret_cast<int64_t*>(reinterpret_cast<char*>(shape.get()) + sizeof(ShapeObj));
  shape->data = *dims;
  shape->size = size;
  return shape;
}

template <typename Iter>
ObjectPtr<ShapeObj> MakeShape(Iter begin, Iter end) {
  int64_t* dims;
  auto shape = MakeEmptyShape(static_cast<size_t>(std::distance(begin, end)), &dims);
  std::copy(begin, end, dims);
  return shape;
}

/// Writes the row-major strides of a shape.
inline void FillCompactStrides(const int64_t* shape, int32_t ndim, int64_t* strides) {
  int64_t stride = 1;
  for (int32_t i = ndim; i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
}

inline ObjectPtr<ShapeObj> MakeStridesFromShape(ShapeView shape) {
  int64_t* strides;
  auto result = MakeEmptyShape(shape.size(), &strides);
  FillCompactStrides(shape.data(), static_cast<int32_t>(shape.size()), strides);
  return result;
}

}  // namespace detail

/// Owned, immutable dimensions.
class Shape : public ObjectRef {
 public:
  using index_type = int64_t;

  /// No dimensions: the shape of a scalar.
  Shape() : Shape(std::initializer_list<int64_t>{}) {}
  Shape(std::initializer_list<int64_t> dims)  // NOLINT(runtime/explicit)
      : Shape(dims.begin(), dims.end()) {}
  Shape(const std::vector<int64_t>& dims)  // NOLINT(runtime/explicit)
      : Shape(dims.begin(), dims.end()) {}
  Shape(ShapeView other) : Shape(other.begin(), other.end()) {}  // NOLINT(runtime/explicit)
  /// From an Array<int64_t> or another range of integers.
  template <typename Range, typename = decltype(int64_t{*std::declval<const Range&>().begin()}),
            typename = std::enable_if_t<!std::is_convertible_v<const Range&, ShapeView> &&
                                        !std::is_base_of_v<Shape, Range>>>
  Shape(const Range& dims) : Shape(dims.begin(), dims.end()) {}  // NOLINT(runtime/explicit)
  template <typename Iter, typename = decltype(*std::declval<Iter&>())>
  Shape(Iter begin, Iter end) : ObjectRef(detail::MakeShape(begin, end)) {}

  operator ShapeView() const { return View(); }  // NOLINT(runtime/explicit)
  const int64_t* data() const { return get()->data; }
  size_t size() const { return get()->size; }
  bool empty() const { return size() == 0; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size(); }
  /// \throws Error(IndexError)
  int64_t operator[](size_t index) const { return View().at(index); }
  /// \throws Error(IndexError)
  int64_t at(size_t index) const { return View().at(index); }
  int64_t front() const { return View().front(); }
  int64_t back() const { return View().back(); }
  int64_t Product() const { return View().Product(); }
  /// The row-major strides of a shape.
  static Shape StridesFromShape(ShapeView shape) {
    return Shape(detail::MakeStridesFromShape(shape));
  }

  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Shape, ObjectRef, ShapeObj);
  explicit Shape(ObjectPtr<ShapeObj> data) : ObjectRef(std::move(data)) {}

  friend std::ostream& operator<<(std::ostream& os, const Shape& shape) {
    return os << shape.View();
  }

 private:
  ShapeView View() const { return ShapeView(get()->data, get()->size); }
};

template <>
inline constexpr bool use_default_type_traits_v<Shape> = false;

/// A Shape parameter takes an array of ints too.
template <>
struct TypeTraits<Shape> : ObjectRefTypeTraitsBase<Shape> {
  static constexpr int32_t field_static_type_index = kTVMFFIShape;
  static std::optional<Shape> TryCastFromAnyView(const TVMFFIAny* source) {
    if (auto shape = ObjectRefTypeTraitsBase<Shape>::TryCastFromAnyView(source)) return shape;
    if (source->type_index != kTVMFFIArray && source->type_index != kTVMFFIList) {
      return std::nullopt;
    }
    const TVMFFISeqCell* items = TVMFFISeqGetCellPtr(source->v_obj);
    int64_t* dims;
    auto shape = detail::MakeEmptyShape(static_cast<size_t>(items->size), &dims);
    for (int64_t i = 0; i < items->size; ++i) {
      auto dim =
          TypeTraits<int64_t>::TryCastFromAnyView(static_cast<const TVMFFIAny*>(items->data) + i);
      if (!dim.has_value()) return std::nullopt;
      dims[i] = *dim;
    }
    return Shape(std::move(shape));
  }
};

}  // namespace graphffi_v1
}  // namespace tvm::ffi
