// SPDX-License-Identifier: Apache-2.0
// Decodes tokens greedily with a package that export.py wrote. No Python: it needs libtorch,
// libgraphffi_torch.so and libtvm_ffi.so; the kernels come with the package.
//
//   decode <package> <count> <token>...
//
// feeds the tokens of a prompt, decodes `count` more and prints these.
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "graphffi_torch/package.h"

namespace {

/// Key and value caches, `float32[1, kv_heads, capacity, head_dim]`, as the package's metadata
/// says.
std::vector<at::Tensor> EmptyCaches(const std::unordered_map<std::string, std::string>& metadata) {
  auto number = [&](const char* name) { return std::stoll(metadata.at(name)); };
  std::vector<at::Tensor> caches;
  for (int64_t i = 0; i < 2 * number("layers"); ++i) {
    caches.push_back(at::zeros({1, number("kv_heads"), number("capacity"), number("head_dim")}));
  }
  return caches;
}

class Decoder {
 public:
  explicit Decoder(const std::string& package)
      : loader_(package), caches_(EmptyCaches(loader_.get_metadata())) {}

  /// The most likely token after `token`; the kernels append to the caches in place.
  int64_t Step(int64_t token) {
    const auto options = at::TensorOptions(at::kLong);
    std::vector<at::Tensor> inputs = {at::full({1, 1}, token, options),
                                      at::full({1}, position_++, options)};
    inputs.insert(inputs.end(), caches_.begin(), caches_.end());
    return loader_.run(inputs)[0].item<int64_t>();
  }

 private:
  torch::inductor::AOTIModelPackageLoader loader_;
  std::vector<at::Tensor> caches_;
  int64_t position_ = 0;
};

int Run(const std::string& package, int count, const std::vector<int64_t>& prompt) {
  c10::NoGradGuard no_grad;
  // The program's user trusts the package that they name.
  graphffi_torch::LoadPackageLibraries(package, nullptr);
  Decoder decoder(package);
  int64_t token = 0;
  for (int64_t given : prompt) token = decoder.Step(given);
  std::cout << token;
  for (int i = 0; i < count; ++i) {
    token = decoder.Step(token);
    std::cout << ' ' << token;
  }
  std::cout << std::endl;
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: " << argv[0] << " <package> <count> <token>..." << std::endl;
    return EXIT_FAILURE;
  }
  std::vector<int64_t> prompt;
  for (int i = 3; i < argc; ++i) prompt.push_back(std::atoll(argv[i]));
  try {
    return Run(argv[1], std::atoi(argv[2]), prompt);
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return EXIT_FAILURE;
  }
}
