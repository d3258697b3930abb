// SPDX-License-Identifier: Apache-2.0
// container/tensor.h and the allocation examples of the kernel library guide.
#include <cstdlib>

#include "header.h"

namespace {

int live = 0;

struct CPUNDAlloc {
  void AllocData(DLTensor* tensor) {
    ++live;
    tensor->data = std::malloc(GetDataSize(*tensor));
  }
  void FreeData(DLTensor* tensor) {
    --live;
    std::free(tensor->data);
  }
};

/// Extra arguments of FromNDAlloc arrive at AllocData.
struct OffsetAlloc {
  void AllocData(DLTensor* tensor, uint64_t offset, const char* text) {
    tensor->data = const_cast<char*>(text);
    tensor->byte_offset = offset;
  }
  void FreeData(DLTensor*) {}
};

constexpr DLDataType kFloat32 = DLDataType{kDLFloat, 32, 1};
constexpr DLDevice kCpu = DLDevice{kDLCPU, 0};

Tensor Empty(ShapeView shape) { return Tensor::FromNDAlloc(CPUNDAlloc(), shape, kFloat32, kCpu); }

/// A framework's allocator, as the env holds it.
int EnvAlloc(DLTensor* prototype, DLManagedTensorVersioned** out, void*,
             void (*)(void*, const char*, const char*)) {
  Tensor tensor = Empty(ShapeView(prototype->shape, static_cast<size_t>(prototype->ndim)));
  *out = tensor.ToDLPackVersioned();
  return 0;
}

}  // namespace

TEST(tensor_from_an_allocator_is_freed_with_its_last_reference) {
  {
    Tensor tensor = Empty({2, 3});
    CHECK_EQ(live, 1);
    CHECK(tensor.IsContiguous() && tensor.numel() == 6 && tensor.dtype() == kFloat32);
    CHECK(tensor.strides()[0] == 3 && tensor.device() == kCpu);
    CHECK_EQ(GetDataSize(tensor), size_t{24});
    Any kept = tensor;
    tensor = Tensor();
    CHECK_EQ(live, 1);
  }
  CHECK_EQ(live, 0);
  Tensor offset = Tensor::FromNDAlloc(OffsetAlloc(), {1}, kFloat32, kCpu, 4, "data");
  CHECK_EQ(offset.byte_offset(), uint64_t{4});
}

TEST(tensor_from_the_env_allocator) {
  CHECK_EQ(Message([] {
             Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {1}, kFloat32, kCpu);
           }).substr(0, 13),
           "RuntimeError:");
  TVMFFIEnvSetDLPackManagedTensorAllocator(EnvAlloc, 0, nullptr);
  Tensor tensor = Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {4, 5}, kFloat32, kCpu);
  TVMFFIEnvSetDLPackManagedTensorAllocator(nullptr, 0, nullptr);
  CHECK(tensor.shape() == ShapeView({4, 5}) && tensor.is_contiguous());
  tensor = Tensor();
  CHECK_EQ(live, 0);
}

TEST(tensor_goes_through_dlpack_and_back) {
  Tensor tensor = Empty({2, 2});
  Tensor old_way = Tensor::FromDLPack(tensor->ToDLPack());
  Tensor new_way = Tensor::FromDLPackVersioned(tensor.ToDLPackVersioned(), 4, true);
  CHECK(old_way.data_ptr() == tensor.data_ptr() && new_way.data_ptr() == tensor.data_ptr());
  CHECK_EQ(tensor.use_count(), 3);
}

TEST(accessors_exist_under_both_spellings) {
  Tensor tensor = Empty({2, 3, 4});
  TensorView view = tensor;
  auto check = [](const auto& t) {
    CHECK(t.ndim() == 3 && t.dim() == 3 && t.numel() == 24);
    CHECK(t.shape() == t.sizes() && t.shape()[2] == 4);
    CHECK(t.size(0) == 2 && t.size(-1) == 4 && t.stride(0) == 12 && t.stride(-1) == 1);
    CHECK(t.strides().size() == 3 && t.strides()[1] == 4);
    CHECK(t.IsContiguous() && t.is_contiguous() && t.IsAligned(4));
    CHECK(t.data_ptr() != nullptr && t.byte_offset() == 0);
    CHECK(t.GetDLTensorPtr()->ndim == 3);
    CHECK_EQ(Message([&] { t.size(3); }),
             "IndexError: Index 3 out of bounds for tensor with 3 dimensions");
    CHECK_EQ(Message([&] { t.stride(-4); }),
             "IndexError: Index -4 out of bounds for tensor with 3 dimensions");
  };
  check(tensor);
  check(view);
}

TEST(tensor_without_strides_has_row_major_ones) {
  for (int32_t ndim : {0, 1, 3, 17}) {
    std::vector<int64_t> shape(static_cast<size_t>(ndim), 2);
    DLTensor raw{};
    raw.ndim = ndim;
    raw.shape = shape.data();
    raw.dtype = kFloat32;
    TensorView view(&raw);
    CHECK(view.IsContiguous());
    CHECK_EQ(view.strides().size(), static_cast<size_t>(ndim));
    int64_t expected = 1;
    for (int32_t i = ndim; i-- > 0; expected *= 2) {
      CHECK_EQ(view.strides()[static_cast<size_t>(i)], expected);
      CHECK_EQ(view.stride(i), expected);
    }
    CHECK(view.strides().data() == view.strides().data());
  }
}

TEST(contiguity_ignores_sizes_of_one_and_empty_tensors) {
  int64_t strides[2] = {7, 1};
  auto contiguous = [&](int64_t rows, int64_t columns) {
    int64_t shape[2] = {rows, columns};
    DLTensor raw{};
    raw.ndim = 2;
    raw.shape = shape;
    raw.strides = strides;
    return TensorView(&raw).IsContiguous();
  };
  CHECK(contiguous(1, 4) && contiguous(0, 4) && contiguous(2, 7));
  CHECK(!contiguous(2, 4));
}

TEST(strided_views_share_the_memory) {
  Tensor tensor = Empty({2, 3});
  Tensor column = tensor.as_strided({2}, {3}, 1);
  CHECK(column.data_ptr() == static_cast<char*>(tensor.data_ptr()) + 4 && column.size(0) == 2);
  CHECK_EQ(tensor.use_count(), 2);
  Shape shape{3, 2};
  Shape strides{1, 3};
  TensorView transposed = TensorView(tensor).as_strided(shape, strides);
  CHECK(!transposed.IsContiguous() && transposed.size(0) == 3);
  DLTensor moved = *tensor.operator->();
  moved.byte_offset = 8;
  TensorView view = TensorView(&moved).as_strided(shape, strides, 1);
  CHECK(view.data_ptr() == static_cast<char*>(tensor.data_ptr()) + 12 && view.byte_offset() == 0);
  CHECK_EQ(Message([&] { tensor.as_strided({2}, {1}, -1); }),
           std::string("ValueError: as_strided: expected an offset of 0 or more elements, got -1"));
}

TEST(kernels_take_owned_tensors_and_views) {
  Function view = Function::FromTyped([](TensorView t) { return t.numel(); });
  Function owned = Function::FromTyped([](Optional<Tensor> t) { return t.has_value(); });
  Tensor tensor = Empty({5});
  CHECK_EQ(view(tensor).cast<int>(), 5);
  CHECK_EQ(view(TensorView(tensor)).cast<int>(), 5);
  CHECK(owned(tensor).cast<bool>() && !owned(nullptr).cast<bool>());
  CHECK_EQ(Message([&] { owned(TensorView(tensor)); }),
           "TypeError: Mismatched type on argument #0 when calling: `(0: Optional<ffi.Tensor>) -> "
           "bool`. Expected `Optional<ffi.Tensor>` but got `DLTensor*`");
}
