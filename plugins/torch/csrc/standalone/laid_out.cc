// SPDX-License-Identifier: Apache-2.0
#include "laid_out.h"

#include <algorithm>
#include <string>

#include "call/describe_tensor.h"
#include "call/error.h"
#include "tensor.h"

namespace graphffi_standalone {
namespace {

bool HasStrides(const DLTensor& tensor, const int64_t* strides) {
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] != 1 && tensor.strides[i] != strides[i]) return false;
  }
  return true;
}

}  // namespace

int32_t LaidOut(AtenTensorHandle tensor, std::initializer_list<int64_t> sizes,
                std::initializer_list<int64_t> strides, const char* op,
                AtenTensorHandle* opt_copy) {
  return Guard([&] {
    const DLTensor& view = ViewOf(tensor);
    DLTensor wanted = view;
    wanted.ndim = static_cast<int32_t>(sizes.size());
    wanted.shape = const_cast<int64_t*>(sizes.begin());
    wanted.strides = const_cast<int64_t*>(strides.begin());
    if (!std::equal(sizes.begin(), sizes.end(), view.shape, view.shape + view.ndim)) {
      throw graphffi::Error("ValueError", std::string(op) + ": result: expected " +
                                              graphffi::DescribeTensor(wanted) + ", got " +
                                              graphffi::DescribeTensor(view));
    }
    if (HasStrides(view, wanted.strides)) return;
    *opt_copy = static_cast<AtenTensorHandle>(CopyAs(wanted, view)->handle());
  });
}

}  // namespace graphffi_standalone
