// SPDX-License-Identifier: Apache-2.0
#include "inplace.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

namespace graphffi_onnxruntime {

namespace {

/// A list of pairs, as ONNX Runtime reads it.
struct Pairs {
  std::vector<MemoryPair> pairs;
  std::vector<int> inputs, outputs;
};

std::array<Pairs, kMostPairs> lists;
int num_lists = 0;
std::mutex mutex;

template <int kList>
size_t GetPairs(int** inputs, int** outputs) {
  *inputs = lists[kList].inputs.data();
  *outputs = lists[kList].outputs.data();
  return lists[kList].pairs.size();
}
using GetFunction = decltype(&GetPairs<0>);

template <int... kLists>
constexpr std::array<GetFunction, kMostPairs> MakeFunctions(std::integer_sequence<int, kLists...>) {
  return {&GetPairs<kLists>...};
}
constexpr auto kFunctions = MakeFunctions(std::make_integer_sequence<int, kMostPairs>());

}  // namespace

void SetMayInplace(const std::vector<MemoryPair>& pairs, ort::CustomOp* op) {
  if (pairs.empty()) return;
  std::lock_guard<std::mutex> lock(mutex);
  int list = 0;
  while (list < num_lists && lists[list].pairs != pairs) ++list;
  if (list == kMostPairs) return;
  if (list == num_lists) {
    Pairs& added = lists[num_lists++];
    added.pairs = pairs;
    for (const MemoryPair& pair : pairs) {
      added.inputs.push_back(pair.input);
      added.outputs.push_back(pair.output);
    }
  }
  op->get_may_inplace = kFunctions[static_cast<size_t>(list)];
  op->release_may_inplace = [](int*, int*) {};
}

}  // namespace graphffi_onnxruntime
