// SPDX-License-Identifier: Apache-2.0
// Calls the model of a package by torch's loader: package_host <package> <calls> <operand>...
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <memory>

#include "graphffi_torch/package.h"
#include "host.h"

int main(int argc, char** argv) {
  std::vector<Operand> operands(argv + 3, argv + argc);
  std::vector<at::Tensor> inputs;
  for (Operand& each : operands) {
    inputs.push_back(
        at::from_blob(each.data(), each.shape, each.is_float ? at::kFloat : at::kLong));
  }
  return Report(std::atoi(argv[2]), [&] {
    graphffi_torch::LoadPackageLibraries(argv[1], nullptr);
    auto model = std::make_shared<torch::inductor::AOTIModelPackageLoader>(argv[1]);
    return [model, &inputs] { model->run(inputs); };
  });
}
