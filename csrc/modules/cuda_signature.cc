// SPDX-License-Identifier: Apache-2.0
#include "modules/cuda_signature.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <array>
#include <limits>

namespace graphffi::modules {

namespace ffi = tvm::ffi;

namespace {

struct TypeName {
  std::string_view name;
  int64_t minimum;  // of integers
  int64_t maximum;
};

template <typename T>
constexpr TypeName Integer(std::string_view name) {
  return {name, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

// Indexed by CudaType.
constexpr std::array<TypeName, 12> kTypes = {{
    {"tensor", 0, 0},
    {"bool", 0, 1},
    Integer<int8_t>("int8"),
    Integer<int16_t>("int16"),
    Integer<int32_t>("int32"),
    Integer<int64_t>("int64"),
    Integer<uint8_t>("uint8"),
    Integer<uint16_t>("uint16"),
    Integer<uint32_t>("uint32"),
    {"uint64", 0, std::numeric_limits<int64_t>::max()},
    {"float32", 0, 0},
    {"float64", 0, 0},
}};

const TypeName& NameOf(CudaType type) { return kTypes[static_cast<size_t>(type)]; }

std::string_view Strip(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

[[noreturn]] void FailLine(std::string_view line) {
  TVM_FFI_THROW(ValueError) << "graphffi: signature of a CUDA kernel: expected 'name(type, ...)' "
                               "with types of tensor, bool, int8 to int64, uint8 to uint64, "
                               "float32, float64, got '"
                            << std::string(line) << "'";
}

CudaType ParseType(std::string_view name, std::string_view line) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const TypeName& type) { return type.name == name; });
  if (found == kTypes.end()) FailLine(line);
  return static_cast<CudaType>(found - kTypes.begin());
}

CudaSignature ParseLine(std::string_view line) {
  const size_t open = line.find('(');
  if (open == std::string_view::npos || line.back() != ')') FailLine(line);
  CudaSignature signature{std::string(Strip(line.substr(0, open))), {}};
  if (signature.name.empty()) FailLine(line);
  std::string_view rest = Strip(line.substr(open + 1, line.size() - open - 2));
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    signature.parameters.push_back(ParseType(Strip(rest.substr(0, comma)), line));
    if (comma + 1 == rest.size()) FailLine(line);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return signature;
}

[[noreturn]] void FailArgument(const CudaSignature& signature, int index, const std::string& got) {
  TVM_FFI_THROW(TypeError) << signature.name << ": argument " << index << ": expected "
                           << std::string(NameOf(signature.parameters[index]).name) << ", got "
                           << got;
}

void* PackTensor(const CudaSignature& signature, int index, ffi::AnyView value,
                 std::optional<int>* device_id) {
  const auto tensor = value.try_cast<ffi::TensorView>();
  if (!tensor.has_value()) FailArgument(signature, index, value.GetTypeKey());
  const DLDevice device = tensor->device();
  if (device.device_type != kDLCUDA && device.device_type != kDLCUDAManaged) {
    TVM_FFI_THROW(ValueError) << signature.name << ": argument " << index
                              << ": expected a tensor on cuda, got one on device type "
                              << static_cast<int>(device.device_type);
  }
  if (device_id->has_value() && **device_id != device.device_id) {
    TVM_FFI_THROW(ValueError) << signature.name << ": argument " << index
                              << ": expected a tensor on cuda:" << **device_id
                              << ", got one on cuda:" << device.device_id;
  }
  *device_id = device.device_id;
  return static_cast<char*>(tensor->data_ptr()) + tensor->byte_offset();
}

}  // namespace

std::vector<CudaSignature> ParseCudaSignatures(std::string_view text) {
  std::vector<CudaSignature> signatures;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = Strip(text.substr(0, end));
    if (!line.empty()) signatures.push_back(ParseLine(line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return signatures;
}

std::string CudaSignature::Metadata() const {
  constexpr int kLaunchParameters = 7;
  std::string text =
      R"({\"type\":\"ffi.Function\",\"named_args\":{\"return\":[{\"type\":\"None\"}],\"params\":[)";
  const auto add = [&text](const char* type) {
    if (text.back() != '[') text += ',';
    text += std::string(R"({\"type\":\")") + type + R"(\"})";
  };
  for (const CudaType type : parameters) {
    const bool is_float = type == CudaType::kFloat32 || type == CudaType::kFloat64;
    add(type == CudaType::kTensor ? "DLTensor*"
        : type == CudaType::kBool ? "bool"
        : is_float                ? "float"
                                  : "int");
  }
  for (int i = 0; i < kLaunchParameters; ++i) add("int");
  return "{\"type_schema\":\"" + text + "]}}\"}";
}

CudaSlot PackCudaArgument(const CudaSignature& signature, int index, ffi::AnyView value,
                          std::optional<int>* device_id) {
  CudaSlot slot{};
  const CudaType type = signature.parameters[index];
  if (type == CudaType::kTensor) {
    slot.pointer = PackTensor(signature, index, value, device_id);
  } else if (type == CudaType::kFloat32 || type == CudaType::kFloat64) {
    const auto number = value.try_cast<double>();
    if (!number.has_value()) FailArgument(signature, index, value.GetTypeKey());
    if (type == CudaType::kFloat64) {
      slot.float64 = *number;
    } else {
      slot.float32 = static_cast<float>(*number);
    }
  } else {
    const auto number = value.try_cast<int64_t>();
    if (!number.has_value()) FailArgument(signature, index, value.GetTypeKey());
    const TypeName& range = NameOf(type);
    if (*number < range.minimum || *number > range.maximum) {
      FailArgument(signature, index, std::to_string(*number));
    }
    slot.bits = static_cast<uint64_t>(*number);  // little-endian: the low bytes come first
  }
  return slot;
}

}  // namespace graphffi::modules
