// SPDX-License-Identifier: Apache-2.0
// The base of the models that AOTInductor generates, in the place of torch's header: weights stay
// where they are mapped, and nothing is started, copied or parsed.
#pragma once

#include <torch/csrc/inductor/aoti_runtime/constant_type.h>
#include <torch/csrc/inductor/aoti_runtime/device_utils.h>
#include <torch/csrc/inductor/aoti_runtime/utils.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace torch::aot_inductor {

class ConstantMap;  // generated code passes pointers to it on

template <typename Model>
class AOTInductorModelBase {
 public:
  AOTInductorModelBase(size_t num_inputs, size_t num_outputs, size_t num_constants,
                       const std::string& device, std::optional<std::string>, bool)
      : inputs_info_(num_inputs), outputs_info_(num_outputs), constants_info_(num_constants) {
    device_type_ = device.substr(0, 4) == "cuda" ? aoti_torch_device_type_cuda()
                                                 : aoti_torch_device_type_cpu();
    const size_t colon = device.find(':');
    if (colon != std::string::npos) device_idx_ = std::stoi(device.substr(colon + 1));
  }

  /// `data_of(i, device_type)` is where the bytes of constant `i` are.
  template <typename DataOf>
  void SetConstants(DataOf&& data_of) {
    for (size_t i = 0; i < constants_info_.size(); ++i) {
      const ConstantFacts& facts = constants_info_[i];
      const int32_t device_type = facts.device_type == 0 ? device_type_ : facts.device_type;
      AtenTensorHandle tensor = nullptr;
      AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_create_tensor_from_blob_v2(
          data_of(i, device_type), static_cast<int64_t>(facts.shape.size()), facts.shape.data(),
          facts.stride.data(), facts.offset, facts.dtype, device_type, device_idx_, &tensor,
          facts.layout, nullptr, 0));
      constants_->at(i) = ConstantHandle(tensor);
    }
  }

 protected:
  void update_constants_map(const std::shared_ptr<ConstantMap>&) {}
  void update_constants_array(std::shared_ptr<std::vector<ConstantHandle>> constants) {
    constants_ = std::move(constants);
    constants_->resize(constants_info_.size());
  }

  struct Parameter {
    const char* name = nullptr;
  };
  struct ConstantFacts {
    const char* name = nullptr;
    std::vector<int64_t> shape, stride;
    int32_t dtype{}, device_type{};  // 0: the model's; torch 2.10 gives none
    int64_t offset{};
    size_t data_size{};
    int32_t layout{};
    std::vector<uint8_t> opaque_metadata;
    int64_t opaque_metadata_size{};
    const char* original_fqn = nullptr;
    bool from_folded{};
    int32_t type{};
  };

  std::vector<Parameter> inputs_info_, outputs_info_;
  std::vector<ConstantFacts> constants_info_;
  std::string in_spec_, out_spec_;
  std::shared_ptr<std::vector<ConstantHandle>> constants_;
  int32_t device_type_{}, device_idx_{};
  std::optional<std::string> cubin_dir_;  // none: kernels are in the library
};

class AOTInductorModelKernelsBase {
 public:
  virtual ~AOTInductorModelKernelsBase() = default;
#ifdef USE_CUDA
  std::vector<CUmodule> loaded_modules_;  // as long as the library, which is never unloaded
#endif
};

}  // namespace torch::aot_inductor
