// SPDX-License-Identifier: Apache-2.0
// Runs the model of a package, float32[n] -> float32[n], in a program without Python.
//
//   run_package <package> [unloaded]
//
// prints the mean result of ones of two sizes, how many of 8 threads' runs differ from it, and the
// text of the error for zeros; or what goes wrong where the kernel libraries are not loaded.
#include <ATen/core/Tensor.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <atomic>
#include <exception>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "graphffi_torch/package.h"

namespace {

float Mean(torch::inductor::AOTIModelPackageLoader* model, const at::Tensor& x) {
  return model->run({x})[0].mean().item<float>();
}

int CountWrong(torch::inductor::AOTIModelPackageLoader* model, float expected) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int64_t seed = 0; seed < 8; ++seed) {
    threads.emplace_back([&wrong, model, seed, expected] {
      for (int64_t i = 0; i < 50; ++i) {
        if (Mean(model, at::ones({2 + (i + seed) % 60})) != expected) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3) graphffi_torch::LoadPackageLibraries(argv[1], nullptr);
    torch::inductor::AOTIModelPackageLoader model(argv[1]);
    const float mean = Mean(&model, at::ones({4}));
    std::cout << mean << ' ' << Mean(&model, at::ones({9})) << '\n'
              << CountWrong(&model, mean) << std::endl;
    Mean(&model, at::zeros({4}));
  } catch (const std::exception& error) {
    std::cout << error.what() << std::endl;
    return 1;
  }
}
