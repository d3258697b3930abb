// SPDX-License-Identifier: Apache-2.0
#include "callframe/describe_tensor.h"

#include "callframe/device_name.h"
#include "callframe/error.h"
#include "callframe/owned_values.h"

namespace graphffi {

namespace {

// The runtimes have no names for complex numbers: those of their parts are used.
constexpr std::string_view kFloat = "float", kComplex = "complex";

}  // namespace

std::string DTypeName(DLDataType dtype) {
  const bool is_complex = dtype.code == kDLComplex;
  if (is_complex) dtype.code = kDLFloat;
  TVMFFIAny text{};
  CheckRc(TVMFFIDataTypeToString(&dtype, &text));
  std::string name(TextOf(text).value_or(""));
  ReleaseValue(&text);
  if (is_complex) name.replace(0, kFloat.size(), kComplex);
  return name;
}

DLDataType DTypeFromName(std::string_view name) {
  std::string known(name);
  const bool is_complex = name.substr(0, kComplex.size()) == kComplex;
  if (is_complex) known.replace(0, kComplex.size(), kFloat);
  const TVMFFIByteArray text = {known.data(), known.size()};
  DLDataType dtype{};
  if (const int rc = TVMFFIDataTypeFromString(&text, &dtype)) {
    const Error error = Error::TakeRaised(rc);
    if (!is_complex) throw error;
  }
  if (!is_complex) return dtype;
  if (dtype.code != kDLFloat) {
    throw Error("ValueError", "graphffi: data type '" + std::string(name) + "': no such type");
  }
  dtype.code = kDLComplex;
  return dtype;
}

std::string DescribeTensor(const DLTensor& tensor) {
  std::string text = DTypeName(tensor.dtype) + "[";
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(tensor.shape[i]);
  }
  return text + "] on " + DeviceToName(tensor.device);
}

}  // namespace graphffi
