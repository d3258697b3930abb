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
    const Layout wanted{static_cast<int32_t>(sizes.size()), sizes.begin(), strides.begin(),
                        view.dtype, view.device};
    if (!std::equal(sizes.begin(), sizes.end(), view.shape, view.shape + view.ndim)) {
      DLTensor expected = view;
      expected.ndim = wanted.ndim;
      expected.shape = const_cast<int64_t*>(wanted.shape);
      throw graphffi::Error("ValueError", std::string(op) + ": result: expected " +
                                              graphffi::DescribeTensor(expected) + ", got " +
                                              graphffi::DescribeTensor(view));
    }
    if (HasStrides(view, wanted.opt_strides)) return;
    *opt_copy = static_cast<AtenTensorHandle>(CopyAs(wanted, view)->handle());
  });
}

}  // namespace graphffi_standalone
