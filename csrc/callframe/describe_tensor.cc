// SPDX-License-Identifier: Apache-2.0
#include "callframe/describe_tensor.h"

#include "callframe/device_name.h"
#include "callframe/error.h"
#include "callframe/owned_values.h"

namespace graphffi {

std::string DTypeName(DLDataType dtype) {
  TVMFFIAny text{};
  if (TVMFFIDataTypeToString(&dtype, &text) != 0) throw Error::TakeRaised(-1);
  std::string name(TextOf(text).value_or(""));
  ReleaseValue(&text);
  return name;
}

std::string DescribeTensor(const DLTensor& tensor) {
  std::string text = DTypeName(tensor.dtype) + "[";
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(tensor.shape[i]);
  }
  return text + "] on " + DeviceToName(tensor.device);
}

}  // namespace graphffi
