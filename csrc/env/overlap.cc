// SPDX-License-Identifier: Apache-2.0
#include "env/overlap.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "call/call_frame.h"
#include "call/value.h"

namespace graphffi {

namespace {

/// A step that an address takes 0 to `count` times, in bits.
struct Steps {
  int64_t stride;
  int64_t count;
};

/// The bits of a tensor with elements: `begin` and all sums of steps. The first steps are those
/// within an element.
struct Extent {
  int64_t begin = 0;
  std::vector<Steps> steps;

  explicit Extent(const DLTensor& tensor) {
    const int64_t bits = tensor.dtype.bits * tensor.dtype.lanes;
    steps.push_back({1, bits - 1});
    std::vector<int64_t> dims(2 * static_cast<size_t>(tensor.ndim));
    CopyDims(tensor, dims.data());
    for (int32_t d = 0; d < tensor.ndim; ++d) {
      const int64_t count = dims[d] - 1, stride = dims[tensor.ndim + d] * bits;
      if (count == 0) continue;
      begin += std::min<int64_t>(stride, 0) * count;
      steps.push_back({std::abs(stride), count});
    }
  }

  int64_t reach() const {
    int64_t sum = 0;
    for (const Steps& step : steps) sum += step.stride * step.count;
    return sum;
  }
};

void SortByStride(std::vector<Steps>* steps) {
  std::sort(steps->begin(), steps->end(),
            [](const Steps& a, const Steps& b) { return a.stride < b.stride; });
}

bool IsEmpty(const DLTensor& tensor) {
  return std::any_of(tensor.shape, tensor.shape + tensor.ndim, [](int64_t n) { return n == 0; });
}

/// Looks for a sum of steps, the largest strides first.
class Search {
 public:
  explicit Search(std::vector<Steps> steps) {
    SortByStride(&steps);
    for (const Steps& step : steps) {
      if (step.stride == 0) continue;
      if (!steps_.empty() && steps_.back().stride == step.stride) {
        steps_.back().count += step.count;
      } else {
        steps_.push_back(step);
      }
    }
    reach_.push_back(0);
    for (const Steps& step : steps_) reach_.push_back(reach_.back() + step.stride * step.count);
  }

  /// Whether there is a sum, or finding out takes more tries than are left.
  bool MayFind(int64_t sum) { return MayFind(sum, steps_.size()); }

 private:
  bool MayFind(int64_t sum, size_t num_steps) {
    if (sum < 0 || sum > reach_[num_steps]) return false;
    if (num_steps == 0) return true;
    const Steps& step = steps_[num_steps - 1];
    const int64_t without = sum - reach_[num_steps - 1];
    const int64_t least = without <= 0 ? 0 : (without + step.stride - 1) / step.stride;
    for (int64_t n = std::min(step.count, sum / step.stride); n >= least; --n) {
      if (num_tries_-- == 0 || MayFind(sum - n * step.stride, num_steps - 1)) return true;
    }
    return false;
  }

  std::vector<Steps> steps_;
  std::vector<int64_t> reach_;  ///< of the first steps
  int num_tries_ = 10'000;      ///< some hundred microseconds
};

}  // namespace

bool OverlapsItself(const DLTensor& tensor) {
  if (IsEmpty(tensor) || IsCompact(tensor)) return false;
  Extent extent(tensor);
  SortByStride(&extent.steps);
  int64_t taken = 0;
  for (const Steps& step : extent.steps) {
    if (step.stride <= taken) return true;
    taken += step.stride * step.count;
  }
  return false;
}

bool ShareMemory(const DLTensor& a, const DLTensor& b) {
  if (IsEmpty(a) || IsEmpty(b)) return false;
  if (IsCompact(a) && IsCompact(b)) {
    return DataOf(a) < DataOf(b) + BytesOf(b) && DataOf(b) < DataOf(a) + BytesOf(a);
  }
  Extent first(a);
  const Extent second(b);
  const int64_t apart = 8 * (DataOf(b) - DataOf(a)) + second.begin - first.begin;
  const int64_t reach = second.reach();
  // The steps of the second are counted from its end.
  first.steps.insert(first.steps.end(), second.steps.begin(), second.steps.end());
  return Search(std::move(first.steps)).MayFind(apart + reach);
}

}  // namespace graphffi
