// SPDX-License-Identifier: Apache-2.0
// The functions of torch's C interface for products of matrices.
#include "compiled/product.h"

#include <graphffi_standalone/shim_tensor.h>
#include <torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h>

namespace {

using namespace graphffi_standalone;

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
